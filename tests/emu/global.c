/* global.c: global memory, and whether what threads do to it is ordered.
 *
 * Each byte knows who wrote it last and who read it last: CTA, warp, lane and their epochs. Threads of one
 * CTA are ordered as in shared memory (shadow.c). Nothing orders CTAs, in whatever order they happened to
 * run, but atomics with fences (PTX ISA 8.8): what a CTA did before a fence is known to who meets an atomic
 * that it made after the fence, and makes a fence itself. A CTA knows or does not know: which of its threads
 * met the atomic does not matter here. A message to another CTA of the cluster behind a fence carries the
 * same, to a wait there that acquires. Atomics do not race with each other. Writing the value that is there
 * is no race. A swap changes the bytes in which the two words differ: of an element that is narrower than
 * its word, the neighbours stay. Of several readers in one CTA the last counts. */
#include "tests/emu/core.h"
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BUCKETS = 1 << 12, NEWEST = 0xfff };
#define ATOMIC (1ull << 29)
#define MANY (1ull << 28) /* readers: of other CTAs, too */

typedef struct Reader {
    struct Reader *next;
    uint64_t tag;
} Reader;
typedef struct Page {
    struct Page *next;
    uint64_t number, writer[PAGE], reader[PAGE];
    Reader **others; /* by byte: the last readers of the other CTAs, where there are MANY; NULL: nowhere */
} Page;
typedef struct Known {
    struct Known *next;
    uint64_t address;
    uint16_t epoch[];
} Known; /* by CTA: the accesses that a thread knows after it met the atomic here */

static Page *pages[BUCKETS], *last;
static Known *atomics[BUCKETS];
static uint16_t *all_epochs; /* by CTA: fences made + 1 */
static int64_t blocks;

/* How often in a row threads only came again to where their last atomic was: they wait for others. */
static int64_t looks;
enum { SOME_LOOKS = 100 };

static void look(const void *p, int64_t before)
{
    looks = emu.fiber->looked == p ? before + 1 : 0;
    emu.fiber->looked = p;
    if (looks > EMU_MOST_LOOKS)
        emu_fail("deadlock: atomics wait for a value that nobody writes, one of them at %p", p);
}

bool emu_global_waits(void) { return looks > SOME_LOOKS; }
void emu_global_came(void) { looks = 0; }

static uint64_t cta_of(uint64_t tag) { return tag >> 40; } /* and 1 */
static int warp_of(uint64_t tag) { return (int)(tag >> 35 & 31); }
static int lane_of(uint64_t tag) { return (int)(tag >> 30 & 31); }
static uint16_t fences_of(uint64_t tag) { return (uint16_t)(tag >> 16 & NEWEST); }

static uint64_t mine(const Cta *c)
{
    uint64_t fences = all_epochs ? all_epochs[c->index.x] : 0;
    return (uint64_t)(c->index.x + 1) << 40 | (uint64_t)emu.warp->index << 35 |
           (uint64_t)emu.fiber->lane << 30 | fences << 16 | emu.warp->clock.at[emu.warp->index];
}

static Page *page_at(uint64_t a)
{
    uint64_t number = a / PAGE;
    if (last && last->number == number) return last;
    Page **p = &pages[(number ^ number >> 12) % BUCKETS];
    for (; *p; p = &(*p)->next)
        if ((*p)->number == number) return last = *p;
    *p = calloc(1, sizeof **p);
    if (!*p) abort();
    (*p)->number = number;
    return last = *p;
}

/* Is what the tag stands for ordered before what the running thread does? */
static bool ordered(const Cta *c, uint64_t tag)
{
    uint64_t other = cta_of(tag);
    if (!other || fences_of(tag) == NEWEST) return true;
    if (other != c->index.x + 1u) return c->knows && fences_of(tag) < c->knows[other - 1];
    if (fences_of(tag) < c->ordered_before) return true; /* epochs have started again since */
    return emu_ordered(warp_of(tag), lane_of(tag), (uint16_t)tag);
}

static void report(const char *access, const char *by, uint64_t a, uint64_t tag)
{
    if (tag & MANY)
        emu_fail("race: %s of global memory at %llx, %s by several blocks, not ordered", access,
            (unsigned long long)a, by);
    emu_fail("race: %s of global memory at %llx, %s by block %d warp %d lane %d, not ordered", access,
        (unsigned long long)a, by, (int)cta_of(tag) - 1, warp_of(tag), lane_of(tag));
}

/* Another CTA reads what this one has read, too. Of several reads by one CTA the last counts. */
static void keep_reader(Page *g, uint64_t at, uint64_t tag)
{
    if (!g->others) g->others = calloc(PAGE, sizeof *g->others);
    if (!g->others) abort();
    Reader **r = &g->others[at];
    while (*r && cta_of((*r)->tag) != cta_of(tag)) r = &(*r)->next;
    if (!*r) *r = calloc(1, sizeof **r);
    if (!*r) abort();
    (*r)->tag = tag;
}

static bool reads_ordered(const Cta *c, const Page *g, uint64_t at)
{
    uint64_t last = g->reader[at];
    if (last && !ordered(c, last)) return false;
    for (const Reader *r = last & MANY ? g->others[at] : NULL; r; r = r->next)
        if (!ordered(c, r->tag)) return false;
    return true;
}

static struct {
    uint64_t from, to;
} tensors[64];
static int n_tensors;

void emu_global_tensor(const void *from, const void *to)
{
    if (!from) n_tensors = 0;
    else if (n_tensors < 64 && to > from) {
        tensors[n_tensors].from = (uint64_t)(uintptr_t)from;
        tensors[n_tensors++].to = (uint64_t)(uintptr_t)to;
    }
}

void emu_grid_wait(void) { emu.fiber->waited = true; }

void emu_global_touch(void)
{
    looks = 0;
    if (emu.launch->early_start && !emu.fiber->waited)
        emu_fail("memory is touched while the grids before may still run");
}

/* An atomic of a narrow element changes the word around it, whose other bytes it leaves as they are: it must
 * hold a byte of a tensor. */
static void within(const void *p, uint32_t bytes, const char *access, bool atomic)
{
    uint64_t a = (uint64_t)(uintptr_t)p;
    bool in = !n_tensors;
    emu_global_touch();
    for (int k = 0; k < n_tensors; k++)
        in |= atomic ? a < tensors[k].to && a + bytes > tensors[k].from
                     : a >= tensors[k].from && a + bytes <= tensors[k].to;
    if (!in) emu_fail("%s of %u bytes at %llx, outside of all tensors", access, bytes, (unsigned long long)a);
}

void emu_global_read(const void *p, uint32_t bytes)
{
    const Cta *c = emu.cta;
    within(p, bytes, "read", false);
    if (blocks > 1 << 23) return;
    uint64_t me = mine(c), a = (uint64_t)(uintptr_t)p;
    for (uint64_t end = a + bytes; a < end; a++) {
        Page *g = page_at(a);
        uint64_t w = g->writer[a % PAGE], *r = &g->reader[a % PAGE];
        if (w && !ordered(c, w)) report("read", w & ATOMIC ? "changed by an atomic" : "written", a, w);
        if (*r && cta_of(*r) != cta_of(me) && !ordered(c, *r)) {
            keep_reader(g, a % PAGE, *r);
            *r = me | MANY;
        } else *r = me | (*r & MANY);
    }
}

/* `from`: what is written, NULL: anything; `kept`: a bit for each byte that stays as it is. */
static void write(const void *p, const void *from, uint32_t bytes, uint64_t atomic, uint32_t kept)
{
    const Cta *c = emu.cta;
    within(p, bytes, atomic ? "atomic change" : "write", atomic);
    if (blocks > 1 << 23) return;
    uint64_t me = mine(c) | atomic, a = (uint64_t)(uintptr_t)p;
    bool unchanged = from && !memcmp(p, from, bytes);
    for (uint64_t end = a + bytes; a < end; a++, kept >>= 1) {
        if (kept & 1) continue;
        Page *g = page_at(a);
        uint64_t *w = &g->writer[a % PAGE], r = g->reader[a % PAGE];
        if (!unchanged && *w && !(*w & atomic) && !ordered(c, *w))
            report(
                atomic ? "atomic change" : "write", *w & ATOMIC ? "changed by an atomic" : "written", a, *w);
        if (!unchanged && !reads_ordered(c, g, a % PAGE))
            report(atomic ? "atomic change" : "write", "read", a, r);
        if (!unchanged || !*w) *w = me;
    }
}

void emu_global_write(const void *p, const void *from, uint32_t bytes) { write(p, from, bytes, 0, 0); }

/* --- fences and atomics that carry them -------------------------------------------------------------- */

static uint16_t *epochs(uint16_t **at)
{
    if (!*at) *at = calloc((size_t)blocks, sizeof **at);
    if (!*at) abort();
    return *at;
}

static void join(uint16_t *to, const uint16_t *from)
{
    for (int64_t k = 0; from && k < blocks; k++)
        if (to[k] < from[k]) to[k] = from[k];
}

void emu_global_fence(void)
{
    Cta *c = emu.cta;
    /* The first fence behind an atomic is an acquire's, which promises nothing of what came before. */
    if (emu.fiber->unwritten && !emu.fiber->newest_left && emu.fiber->atomics == c->atomics)
        emu_fail("a fence that does not order the stores by TMA in flight");
    emu.fiber->atomics = c->atomics;
    if (blocks > 1 << 23) return;
    uint16_t *now = &epochs(&all_epochs)[c->index.x];
    join(epochs(&c->knows), c->met);
    if (*now < NEWEST) ++*now;
    c->knows[c->index.x] = *now;
    c->fenced = true;
}

/* What a CTA sends to another one of its cluster carries what it knew at its last fence, and a wait that
 * acquires makes it known there. */
void emu_global_sent(Cta *to)
{
    if (emu.cta->fenced && blocks <= 1 << 23) join(epochs(&to->told), emu.cta->knows);
}

void emu_global_acquired(void)
{
    if (blocks <= 1 << 23) join(epochs(&emu.cta->knows), emu.cta->told);
}

static void atomic(const void *p, uint32_t bytes, uint32_t kept)
{
    Cta *c = emu.cta;
    uint64_t a = (uint64_t)(uintptr_t)p;
    int64_t before = looks;
    c->atomics++;
    write(p, NULL, bytes, ATOMIC, kept);
    look(p, before);
    Known **k = &atomics[(a >> 2 ^ a >> 14) % BUCKETS];
    while (*k && (*k)->address != a) k = &(*k)->next;
    if (*k) join(epochs(&c->met), (*k)->epoch);
    if (!c->fenced || blocks > 1 << 23) return;
    if (!*k) {
        *k = calloc(1, sizeof **k + (size_t)blocks * sizeof *(*k)->epoch);
        if (!*k) abort();
        (*k)->address = a;
    }
    join((*k)->epoch, c->knows);
}

/* A thread that comes again to where its last atomic was lets others go first. */
void emu_global_atomic(const void *p, uint32_t bytes)
{
    if (looks && emu.fiber->looked == p) emu_spin();
    atomic(p, bytes, 0);
}

void emu_global_swap(const void *p, const void *was, const void *to, uint32_t bytes)
{
    const unsigned char *x = was, *y = to;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < bytes; k++) kept |= (uint32_t)(x[k] == y[k]) << k;
    if (looks && emu.fiber->looked == p) emu_spin();
    atomic(p, bytes, kept);
}

void emu_red_f32(void *to, const void *from, uint32_t n)
{
    float *x = to;
    if ((uintptr_t)to % (4 * n)) emu_fail("misaligned addition of %u bytes at %p", 4 * n, to);
    for (uint32_t k = 0; k < n; k++) {
        atomic(x + k, 4, 0);
        x[k] += ((const float *)from)[k];
    }
}

/* --- a launch ---------------------------------------------------------------------------------------- */

void emu_global_forget(Cta *c)
{
    uint16_t *now = &epochs(&all_epochs)[c->index.x];
    if (*now < NEWEST) ++*now;
    c->ordered_before = *now;
}

void emu_global_start(Cta *c)
{
    free(c->knows);
    free(c->met);
    free(c->told);
    c->knows = c->met = c->told = NULL;
    c->fenced = false;
    c->atomics = 0;
    c->ordered_before = 0;
}

void emu_global_open(int64_t n)
{
    blocks = n;
    looks = 0;
}

void emu_global_close(void)
{
    for (int b = 0; b < BUCKETS; b++) {
        for (Page *p = pages[b], *next; p; p = next) {
            next = p->next;
            for (int k = 0; p->others && k < PAGE; k++)
                for (Reader *r = p->others[k], *after; r; r = after) {
                    after = r->next;
                    free(r);
                }
            free(p->others);
            free(p);
        }
        for (Known *k = atomics[b], *next; k; k = next) {
            next = k->next;
            free(k);
        }
        pages[b] = NULL;
        atomics[b] = NULL;
    }
    free(all_epochs);
    all_epochs = NULL;
    last = NULL;
}
