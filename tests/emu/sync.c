/* sync.c: where threads meet: lanes of a warp, barriers of a CTA and of a cluster, and registers that one
 * warp waits for until another has given them back. The waiting itself is core.c's (emu_wait). */
#include "tests/emu/core.h"
#include <string.h>

/* --- the lanes of a warp ----------------------------------------------------------------------------- */

const EmuWord *emu_meet(const char *what, const void *mine, size_t bytes, MeetFn *f, const void *arg)
{
    Warp *w = emu.warp;
    Fiber *me = emu.fiber;
    EmuWord *slots = w->slot[me->parity ^= 1];
    memcpy(&slots[me->lane], mine, bytes);
    if (!w->met) {
        w->meets_for = what;
        w->meets_line = emu_line;
    } else if (w->meets_for != what && strcmp(w->meets_for, what))
        emu_fail("lanes of one warp meet at %s and, @%d, at %s", what, w->meets_line, w->meets_for);
    if (++w->met == (uint32_t)emu.launch->wave) {
        w->met = 0;
        if (f) f(w, slots, arg);
        w->round++;
    } else emu_wait(WAIT_ROUND, what, &w->round, NULL, w->round);
    return slots;
}

const EmuWord *emu_exchange(const char *what, const void *mine, size_t bytes)
{ return emu_meet(what, mine, bytes, NULL, NULL); }

static void order_lanes(Warp *w, const EmuWord *lanes, const void *arg)
{
    emu_next_epoch(w);
    w->lanes_epoch = w->clock.at[w->index];
}

void emu_warp_sync(void) { emu_meet("a warp barrier", "", 1, order_lanes, NULL); }

/* --- barriers of the CTA ----------------------------------------------------------------------------- */

/* PTX ISA 9.7.13.1: a barrier counts threads, in whole warps; the last to come completes it and it is as it
 * was at first. */
static void arrive(Warp *w, const EmuWord *lanes, const void *arg)
{
    int id = (int)lanes[0].w[0];
    uint32_t need = (uint32_t)(lanes[0].w[0] >> 32);
    Gate *g = &w->cta->gates[id];
    if (!need || need % (uint32_t)emu.launch->wave)
        emu_fail("barrier %d for %u threads, no multiple of a warp", id, need);
    if (g->count && g->need != need)
        emu_fail("barrier %d for %u threads by some and %u by others", id, g->need, need);
    g->need = need;
    g->count += (uint32_t)emu.launch->wave;
    w->gate_round = g->round;
    emu_release(&g->in);
    w->lanes_epoch = w->clock.at[w->index];
    if (g->count > need) emu_fail("more threads come to barrier %d than its %u", id, need);
    if (g->count < need) return;
    g->out = g->in;
    memset(&g->in, 0, sizeof g->in);
    g->count = 0;
    g->round++;
}

void emu_barrier(int id, int threads, bool wait)
{
    static const char *const names[EMU_GATES] = { "barrier 0", "barrier 1", "barrier 2", "barrier 3",
        "barrier 4", "barrier 5", "barrier 6", "barrier 7", "barrier 8", "barrier 9", "barrier 10",
        "barrier 11", "barrier 12", "barrier 13", "barrier 14", "barrier 15", "__syncthreads" };
    if (id < 0 || id >= EMU_GATES) emu_fail("no barrier %d", id);
    uint64_t word = (uint64_t)(uint32_t)id | (uint64_t)(uint32_t)threads << 32;
    Gate *g = &emu.cta->gates[id];
    emu_meet(names[id], &word, sizeof word, arrive, NULL);
    if (!wait) return;
    emu_wait(WAIT_ROUND, names[id], &g->round, NULL, emu.warp->gate_round);
    if (emu.warp->acquired[id] == g->round) return; /* by another lane, and what a warp knows it keeps */
    emu.warp->acquired[id] = g->round;
    emu_acquire(&g->out);
}

void emu_syncthreads(void) { emu_barrier(EMU_GATES - 1, emu.launch->threads, true); }

/* --- clusters ---------------------------------------------------------------------------------------- */

int emu_cluster_size(void) { return emu.launch->cluster > 1 ? emu.launch->cluster : 1; }
static int cta_number(void) { return (int)(emu.cta - emu.ctas); }
static Cluster *cluster(void) { return &emu.clusters[cta_number() / emu_cluster_size()]; }

int emu_cluster_rank(void) { return cta_number() % emu_cluster_size(); }

/* PTX ISA 9.7.13.4, arrive.relaxed: all threads of the cluster come; of what they did before, only the
 * initialised mbarriers become known, by their fence. */
static void cluster_come(Warp *w, const EmuWord *lanes, const void *arg)
{
    Cluster *k = cluster();
    int size = emu_cluster_size();
    Cta *first = &emu.ctas[cta_number() / size * size];
    if (w->cluster_round != w->cluster_waited)
        emu_fail("the cluster's barrier is arrived at twice with no wait between");
    w->cluster_round = k->round + 1;
    if (w->mbars_fenced) emu_release(&w->cta->cluster_in);
    w->lanes_epoch = w->clock.at[w->index];
    if (++k->count < (uint32_t)(size * w->cta->n_warps)) return;
    k->count = 0;
    k->round++;
    for (int c = 0; c < size; c++) first[c].cluster_out = first[c].cluster_in;
}

void emu_cluster_arrive(void) { emu_meet("the cluster's barrier", "", 1, cluster_come, NULL); }

static void cluster_go(Warp *w, const EmuWord *lanes, const void *arg)
{ w->cluster_waited = w->cluster_round; }

void emu_cluster_wait(void)
{
    if (emu.warp->cluster_round == emu.warp->cluster_waited)
        emu_fail("a wait for the cluster's barrier with no arrival");
    emu_wait(WAIT_ROUND, "the cluster's barrier", &cluster()->round, NULL, emu.warp->cluster_round - 1);
    emu_meet("the cluster's barrier", "", 1, cluster_go, NULL);
    emu_acquire(&emu.cta->cluster_out);
}

uint32_t emu_own(uint32_t address)
{
    uint32_t rank = address >> 24;
    if (rank && rank != (uint32_t)emu_cluster_rank())
        emu_fail("an address of CTA %u of the cluster, of which this is CTA %d", rank, emu_cluster_rank());
    return address & 0xffffff;
}

Cta *emu_peer(int rank)
{
    int size = emu_cluster_size();
    if (rank < 0 || rank >= size) emu_fail("no CTA %d in a cluster of %d", rank, size);
    Cta *c = &emu.ctas[cta_number() / size * size + rank];
    if (!emu.warp->cluster_waited)
        emu_fail("a store to another CTA of the cluster before a barrier that says it has started");
    if (!c->active || !c->left) emu_fail("a store to a CTA of the cluster that has ended");
    return c;
}

/* PTX ISA 9.7.20.5. A CTA has what its launch bounds leave a thread; a multiprocessor has 64K registers. */
static void give_back(Warp *w, const EmuWord *lanes, const void *arg)
{
    int count = (int)lanes[0].w[0];
    if (count % 8 || count < 24 || count > 256) emu_fail("setmaxnreg %d", count);
    if (count > w->registers) emu_fail("setmaxnreg.dec %d, more than the %d there are", count, w->registers);
    w->cta->registers += (w->registers - count) * 32;
    w->registers = count;
}

static void take(Warp *w, const EmuWord *lanes, const void *arg)
{
    int count = (int)lanes[0].w[0];
    w->registers = count;
}

void emu_registers(int count, bool more)
{
    if (!more) {
        emu_meet("setmaxnreg.dec", &count, sizeof count, give_back, NULL);
        return;
    }
    if (count % 8 || count < 24 || count > 256) emu_fail("setmaxnreg %d", count);
    if (count < emu.warp->registers)
        emu_fail("setmaxnreg.inc %d, less than the %d there are", count, emu.warp->registers);
    emu_exchange("setmaxnreg.inc", &count, sizeof count);
    int more_of_them = (count - emu.warp->registers) * 32;
    if (emu.fiber->lane == 0) {
        emu_wait(WAIT_REGISTERS, "registers to be given back", NULL, NULL, (uint32_t)more_of_them);
        emu.cta->registers -= more_of_them;
    }
    emu_meet("setmaxnreg.inc", &count, sizeof count, take, NULL);
}
