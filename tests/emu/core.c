/* core.c: fibers, the order in which warps run, what a launch reports.
 *
 * The scheduler walks over the warps of the resident CTAs in an order drawn from the seed and runs every lane
 * that can go on until it waits. Some seeds hold warps back for as long as others can run. When nobody can,
 * or those that can only look at a value in memory, one copy in flight lands; when none is in flight, the
 * launch is stuck and the report says where each warp waits. */
#include "tests/emu/core.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Emu emu;
int emu_mutant = -1, emu_line;
EmuDim3 threadIdx, blockIdx, blockDim, gridDim;

/* CTAs, or clusters, at a time: of any launch; of persistent grids, all of which are resident (exec_emu.c) */
enum { RESIDENT = 3, TOGETHER = 4 };

uint32_t emu_random(uint32_t below)
{
    emu.random += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    uint64_t x = emu.random;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((x ^ x >> 31) >> 32) % below;
}

Moment emu_moment(void)
{
    switch (emu.late) {
    case 0: return AT_WAIT;
    case 1: return AT_ISSUE;
    case 2: return emu_random(2) ? AT_WAIT : AT_ISSUE;
    default: return (Moment)emu_random(3);
    }
}

/* --- switching --------------------------------------------------------------------------------------- */

/* Stacks begin at different places of their pages and of larger powers of two: where all begin at the same
 * place, what threads have on top falls into the same few sets of the processor's caches. Bytes by which each
 * begins below the one before, a multiple of 64; so many do. */
enum { STAGGER = 17 * 64, STAGGERED = 64 };

static void fiber_main(void);

#ifdef __x86_64__
void emu_switch(Context *save, const Context *load);
__asm__(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq (%rsi), %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size emu_switch,.-emu_switch\n");
static void context_make(Context *c, uint8_t *stack, size_t size)
{
    void **sp = (void **)(stack + size - 64);
    *--sp = NULL;
    *--sp = (void *)fiber_main;
    for (int k = 0; k < 6; k++) *--sp = NULL;
    *c = sp;
}
#else
static void emu_switch(Context *save, const Context *load) { swapcontext(save, load); }
static void context_make(Context *c, uint8_t *stack, size_t size)
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = size;
    c->uc_link = NULL;
    makecontext(c, fiber_main, 0);
}
#endif

/* A walk over the lanes of a warp that can go on: each hands over to the next one, the last to the scheduler.
 */
typedef struct Lanes {
    Warp *warp;
    int next;
    bool backwards, any, ran; /* ran: some lane did more than look at memory again */
    bool spins;               /* the lane that runs was to look at memory */
    int spinning;
} Lanes;
static Lanes lanes;

static bool ready(const Fiber *f);

static Fiber *next_lane(void)
{
    const int wave = emu.launch->wave;
    while (lanes.next < wave && !emu.failed) {
        int k = lanes.next++;
        Fiber *f = &lanes.warp->lanes[lanes.backwards ? wave - 1 - k : k];
        if (!f->done && ready(f)) return f;
    }
    return NULL;
}

/* Goes on with the thread; its own state is what `save` is to hold. */
static void enter(Fiber *f, Context *save)
{
    lanes.any = true;
    lanes.spins = f->wait == WAIT_SPIN;
    emu.fiber = f;
    emu.warp = f->warp;
    emu.cta = f->warp->cta;
    threadIdx = (EmuDim3){ (unsigned)f->thread, 0, 0 };
    blockIdx = emu.cta->index;
    if (f->fresh) {
        f->fresh = false;
        context_make(&f->context, f->stack, EMU_STACK - (size_t)(f->thread % STAGGERED) * STAGGER);
    }
    emu_switch(save, &f->context);
}

static void give_way(void)
{
    Fiber *f = emu.fiber;
    lanes.ran |= !lanes.spins || f->done || f->wait != WAIT_SPIN;
    lanes.spinning += lanes.spins;
    Fiber *next = next_lane();
    if (next) enter(next, &f->context);
    else emu_switch(&f->context, &emu.scheduler);
}

static void fiber_main(void)
{
    emu.launch->thread(emu.launch->args);
    if (emu.launch->early_start && !emu.fiber->waited)
        emu_fail("a thread ends that did not wait for the grids before");
    emu.fiber->done = true;
    emu.cta->left--;
    give_way();
    abort();
}

/* --- reports ----------------------------------------------------------------------------------------- */

static void report(const char *format, va_list args)
{
    if (emu.failed) return;
    emu.failed = true;
    int n = snprintf(emu.error, sizeof emu.error, "block %u warp %d lane %d, @%d: ", emu.cta->index.x,
        emu.warp->index, emu.fiber->lane, emu_line);
    vsnprintf(emu.error + n, sizeof emu.error - (size_t)n, format, args);
}

void emu_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(format, args);
    va_end(args);
    for (;;) give_way();
}

static const char *wait_text(const Fiber *f, char *text, size_t size)
{
    if (f->mbar)
        snprintf(text, size, "%s (mbarrier at %u: phase %u, %u arrivals and %lld bytes to come)", f->what,
            f->mbar->address, f->mbar->phase, f->mbar->left, (long long)f->mbar->bytes);
    else snprintf(text, size, "%s", f->what ? f->what : "nothing");
    return text;
}

static void report_deadlock(void)
{
    char text[160], last[200] = "";
    size_t n = (size_t)snprintf(emu.error, sizeof emu.error, "deadlock");
    emu.failed = true;
    for (int c = 0; c < emu.n_ctas; c++)
        for (int w = 0; emu.ctas[c].active && w < emu.ctas[c].n_warps; w++)
            for (int l = 0; l < emu.launch->wave; l++) {
                const Fiber *f = &emu.ctas[c].warps[w].lanes[l];
                char line[200];
                if (f->done) continue;
                snprintf(line, sizeof line, "@%d %s", f->line, wait_text(f, text, sizeof text));
                if (n < sizeof emu.error && strcmp(line, last))
                    n += (size_t)snprintf(emu.error + n, sizeof emu.error - n,
                        "; block %u warp %d lane %d waits at %s", emu.ctas[c].index.x, w, l, line);
                memcpy(last, line, sizeof last);
            }
}

/* --- waiting ----------------------------------------------------------------------------------------- */

static bool ready(const Fiber *f)
{
    switch (f->wait) {
    case WAIT_NONE:
    case WAIT_SPIN: return true;
    case WAIT_ROUND: return *f->round != f->value;
    case WAIT_PHASE: return (f->mbar->phase & 1) != f->value;
    case WAIT_REGISTERS: return f->warp->cta->registers >= (int)f->value;
    }
    return true;
}

void emu_wait(WaitKind kind, const char *what, const uint32_t *round, const Mbar *bar, uint32_t value)
{
    Fiber *f = emu.fiber;
    f->wait = kind;
    f->what = what;
    f->round = round;
    f->mbar = bar;
    f->value = value;
    f->line = emu_line;
    while (kind == WAIT_SPIN || !ready(f)) {
        give_way();
        if (kind == WAIT_SPIN) break;
    }
    f->wait = WAIT_NONE;
    f->mbar = NULL;
    emu_line = f->line;
}

void emu_spin(void) { emu_wait(WAIT_SPIN, "a value in memory", NULL, NULL, 0); }
int emu_lane(void) { return emu.fiber->lane; }

/* --- CTAs -------------------------------------------------------------------------------------------- */

static void cta_start(Cta *c, int64_t block)
{
    const EmuLaunch *l = emu.launch;
    c->active = true;
    c->left = l->threads;
    c->index = (EmuDim3){ (unsigned)block, 0, 0 };
    memset(c->gates, 0, sizeof c->gates);
    memset(c->issued, 0, sizeof c->issued);
    memset(&c->cluster_in, 0, sizeof c->cluster_in);
    memset(&c->cluster_out, 0, sizeof c->cluster_out);
    memset(c->peers, 0, sizeof c->peers);
    emu_shadow_reset(c);
    emu_global_start(c);
    emu_async_reset(c);
    int registers = 65536 / l->threads / 8 * 8 < 255 ? 65536 / l->threads / 8 * 8 : 255;
    c->registers = 0;
    for (int t = 0; t < l->threads; t++) {
        Fiber *f = &c->fibers[t];
        *f = (Fiber){ .stack = f->stack,
            .loads = { .data = f->loads.data, .room = f->loads.room },
            .stores = { .data = f->stores.data, .room = f->stores.room },
            .warp = &c->warps[t / l->wave],
            .lane = t % l->wave,
            .thread = t,
            .fresh = true };
    }
    for (int k = 0; k < c->n_warps; k++) {
        Warp *w = &c->warps[k];
        *w = (Warp){ .cta = c,
            .lanes = c->fibers + k * l->wave,
            .index = k,
            .registers = registers,
            .waits = EMU_UNKNOWN,
            .products = w->products,
            .room = w->room };
        w->clock.at[k] = w->lanes_epoch = 1;
    }
}

static void cta_end(Cta *c)
{
    const char *left = emu_async_end(c);
    c->active = false;
    if (emu.failed) return;
    if (!emu_products_end(c)) left = "a product is in flight";
    if (!left) return;
    emu.failed = true;
    snprintf(emu.error, sizeof emu.error, "block %u ends while %s", c->index.x, left);
}

static bool cta_open(Cta *c)
{
    const EmuLaunch *l = emu.launch;
    c->n_warps = l->threads / l->wave;
    c->fibers = calloc((size_t)l->threads, sizeof *c->fibers);
    c->warps = calloc((size_t)c->n_warps, sizeof *c->warps);
    uint8_t *stacks = emu_stacks((int)(c - emu.ctas), l->threads);
    if (!c->fibers || !c->warps || !stacks || !emu_shadow_open(c, l->shared_bytes)) return false;
    for (int t = 0; t < l->threads; t++) c->fibers[t].stack = stacks + (size_t)t * EMU_STACK;
    return true;
}

static void cta_close(Cta *c)
{
    emu_products_reset(c);
    emu_async_reset(c);
    emu_global_start(c);
    for (int t = 0; c->fibers && t < emu.launch->threads; t++) {
        free(c->fibers[t].loads.data);
        free(c->fibers[t].stores.data);
    }
    for (int k = 0; c->warps && k < c->n_warps; k++) free(c->warps[k].products);
    free(c->tmas);
    free(c->fibers);
    free(c->warps);
    emu_shadow_close(c);
}

/* --- the scheduler ----------------------------------------------------------------------------------- */

typedef struct Order {
    int kind, n;
    Warp *warps[MOST_RESIDENT * EMU_WARPS];
    uint64_t slow[MOST_RESIDENT * EMU_WARPS / 64];
    uint32_t steps; /* until other warps are held back */
    int spins;
} Order;

static bool same_wait(const Fiber *a, const Fiber *b)
{
    return a->wait == b->wait && a->value == b->value && (a->wait != WAIT_ROUND || a->round == b->round) &&
           (a->wait != WAIT_PHASE || a->mbar == b->mbar);
}

/* Of a warp of which no lane can go on: a lane whose wait is that of all; `wave` if all have ended. */
static int common_wait(const Warp *w)
{
    int wave = emu.launch->wave, first = 0;
    while (first < wave && w->lanes[first].done) first++;
    for (int l = first + 1; l < wave; l++)
        if (!w->lanes[l].done && !same_wait(&w->lanes[first], &w->lanes[l])) return EMU_UNKNOWN;
    return first;
}

static bool asleep(const Warp *w)
{ return w->waits != EMU_UNKNOWN && (w->waits == emu.launch->wave || !ready(&w->lanes[w->waits])); }

static bool warp_ready(const Warp *w)
{
    if (asleep(w)) return false;
    for (int l = 0; l < emu.launch->wave; l++)
        if (!w->lanes[l].done && ready(&w->lanes[l])) return true;
    return false;
}

/* Runs the lanes that can go on. 1: some did; 0: none, or those only looked at memory again. */
static int run_warp(Order *o, Warp *w)
{
    bool backwards = o->kind == 1 || (o->kind > 1 && emu_random(2)), sleeps = asleep(w);
    lanes = (Lanes){ .warp = w, .backwards = backwards };
    Fiber *first = sleeps ? NULL : next_lane();
    if (first) enter(first, &emu.scheduler);
    o->spins += lanes.spinning;
    if (!sleeps) w->waits = lanes.any ? EMU_UNKNOWN : common_wait(w);
    if (emu.late == 3 && w->n_products && !emu_random(4)) emu_products_step(w);
    return lanes.ran;
}

static void collect(Order *o)
{
    o->n = 0;
    for (int c = 0; c < emu.n_ctas; c++)
        for (int k = 0; emu.ctas[c].active && k < emu.ctas[c].n_warps; k++)
            o->warps[o->n++] = &emu.ctas[c].warps[k];
    if (o->kind == 1)
        for (int k = 0; k < o->n / 2; k++) {
            Warp *x = o->warps[k];
            o->warps[k] = o->warps[o->n - 1 - k];
            o->warps[o->n - 1 - k] = x;
        }
    if (o->kind > 1)
        for (int k = o->n - 1; k > 0; k--) {
            int j = (int)emu_random((uint32_t)k + 1);
            Warp *x = o->warps[k];
            o->warps[k] = o->warps[j];
            o->warps[j] = x;
        }
}

static bool is_slow(const Order *o, const Warp *w)
{
    int k = (int)(w->cta - emu.ctas) * EMU_WARPS + w->index;
    return o->kind == 3 && (o->slow[k / 64] >> k % 64 & 1);
}

static void make_slow(Order *o, const Warp *w, bool slow)
{
    int k = (int)(w->cta - emu.ctas) * EMU_WARPS + w->index;
    uint64_t bit = 1ull << k % 64;
    o->slow[k / 64] = slow ? o->slow[k / 64] | bit : o->slow[k / 64] & ~bit;
}

/* Draws who is held back, and for how long: warps of any CTA, a CTA as a whole (its cluster's others come as
 * far ahead as they ever can), one warp, or all warps but one. */
static void hold_back(Order *o)
{
    uint32_t how = emu_random(4);
    const Warp *one = o->warps[emu_random((uint32_t)o->n)];
    for (int k = 0; k < o->n; k++) {
        const Warp *w = o->warps[k];
        make_slow(o, w, how == 0 ? emu_random(2) : how == 1 ? w->cta == one->cta : (w == one) == (how == 2));
    }
    o->steps = 32u << emu_random(6);
}

/* One walk over all warps. False: nobody can go on. */
static bool step(Order *o)
{
    int ran = 0;
    collect(o);
    if (o->kind == 3 && o->steps-- == 0) hold_back(o);
    for (int k = 0; k < o->n && !emu.failed; k++) {
        if (is_slow(o, o->warps[k]) || (o->kind == 2 && emu_random(2))) continue;
        ran |= run_warp(o, o->warps[k]);
    }
    if (!ran)
        for (int k = 0; k < o->n && !ran && !emu.failed; k++)
            if (warp_ready(o->warps[k])) ran = run_warp(o, o->warps[k]);
    if (emu.late == 3)
        for (int c = 0; c < emu.n_ctas; c++)
            if (emu.ctas[c].active) ran |= emu_async_step(&emu.ctas[c]);
    if (ran) o->spins = 0;
    return ran;
}

static bool spinning(const Order *o)
{
    for (int k = 0; k < o->n; k++)
        for (int l = 0; l < emu.launch->wave; l++)
            if (!o->warps[k]->lanes[l].done && o->warps[k]->lanes[l].wait == WAIT_SPIN) return true;
    return false;
}

static void run_all(void)
{
    const EmuLaunch *l = emu.launch;
    Order o = { .kind = l->order & 3 };
    int64_t next = 0;
    int size = emu_cluster_size();
    while (!emu.failed) {
        bool some = false;
        for (int c = 0; c < emu.n_ctas; c++) {
            Cta *x = &emu.ctas[c];
            if (x->active && !x->left) cta_end(x);
            some |= x->active;
        }
        for (int c = 0; c + size <= emu.n_ctas && next < l->blocks / size;
            c += size) { /* the CTAs of a cluster start and go together */
            bool free = true;
            for (int k = 0; k < size; k++) free &= !emu.ctas[c + k].active;
            if (!free) continue;
            int64_t first = (l->order & 16 ? l->blocks / size - 1 - next : next) * size;
            for (int k = 0; k < size; k++) cta_start(&emu.ctas[c + k], first + k);
            emu.clusters[c / size] = (Cluster){ 0 };
            next++;
            some = true;
        }
        if (!some || emu.failed) return;
        bool ran = step(&o), landed = false;
        if (emu.failed || (ran && !emu_global_waits())) continue;
        for (int k = 0, first = (int)emu_random((uint32_t)emu.n_ctas); k < emu.n_ctas && !landed; k++) {
            Cta *x = &emu.ctas[(first + k) % emu.n_ctas];
            landed = x->active && emu_async_some(x);
        }
        if (landed) emu_global_came();
        if (!landed && !ran && !(spinning(&o) && o.spins < EMU_MOST_LOOKS)) report_deadlock();
    }
}

bool emu_run(const EmuLaunch *l, char *why, size_t why_size)
{
    emu_keep_memory();
    memset(&emu, 0, sizeof emu);
    emu.launch = l;
    emu.random = (uint64_t)(uint32_t)l->order << 32 | (uint32_t)l->late;
    emu.late = l->late & 3;
    emu.n_ctas = l->together ? TOGETHER : 1 + (l->order >> 2 & 3) % RESIDENT;
    int size = emu_cluster_size();
    if (size > 1)
        emu.n_ctas =
            l->together ? TOGETHER * size : size * (size <= MOST_RESIDENT / 2 && l->order >> 2 & 1 ? 2 : 1);
    if (emu.n_ctas > MOST_RESIDENT) emu.n_ctas = MOST_RESIDENT / size * size;
    if (emu.n_ctas > l->blocks) emu.n_ctas = (int)l->blocks;
    blockDim = (EmuDim3){ (unsigned)l->threads, 1, 1 };
    gridDim = (EmuDim3){ (unsigned)l->blocks, 1, 1 };
    bool ok = l->threads % l->wave == 0 && l->threads / l->wave <= EMU_WARPS &&
              (!l->together || l->blocks <= TOGETHER * size) && l->blocks % size == 0 &&
              size <= MOST_RESIDENT;
    if (!ok)
        snprintf(emu.error, sizeof emu.error, "no launch of %lld CTAs of %d threads", (long long)l->blocks,
            l->threads);
    emu.ctas = calloc((size_t)emu.n_ctas + 1, sizeof *emu.ctas);
    for (int c = 0; c < emu.n_ctas && ok; c++)
        if (!(ok = cta_open(&emu.ctas[c]))) snprintf(emu.error, sizeof emu.error, "out of memory");
    emu_global_open(l->blocks);
    if (ok) run_all();
    for (int c = 0; c < emu.n_ctas; c++) cta_close(&emu.ctas[c]);
    free(emu.ctas);
    emu_global_close();
    if (ok && !emu.failed) return true;
    snprintf(why, why_size, "%s", emu.error);
    return false;
}
