/* layout_memo.c: see layout_memo.h. */
#include "ir/layout/layout_memo.h"

enum { MOST_BYTES = 16 << 20 }; /* of a memo; what comes later is planned each time */

struct LayoutMemoEntry {
    LayoutMemoEntry *next; /* of the same slot */
    Layout src, dst;
    int elem_bytes;
    bool may_share;
    const LayoutConvert *plan;
};

void layout_memo_init(LayoutMemo *m, Allocator alloc)
{
    memset(m, 0, sizeof *m);
    arena_init(&m->arena, alloc, NULL);
    m->slot = m->own;
}

void layout_memo_join(LayoutMemo *m, LayoutMemo *with) { m->slot = with->slot; }

void layout_memo_free(LayoutMemo *m) { arena_free(&m->arena); }

static _Atomic(LayoutMemoEntry *) *slot_of(LayoutMemo *m, const LayoutMemoKey *k)
{
    uint64_t h = layout_hash(k->src) * 31 + layout_hash(k->dst);
    h = h * 31 + (uint64_t)k->elem_bytes * 2 + k->may_share;
    return &m->slot[(h ^ h >> 32) % LAYOUT_MEMO_SLOTS];
}

static bool answers(const LayoutMemoEntry *e, const LayoutMemoKey *k)
{
    return e->elem_bytes == k->elem_bytes && e->may_share == k->may_share && layout_equal(&e->src, k->src) &&
           layout_equal(&e->dst, k->dst);
}

bool layout_memo_find(Arena *a, const LayoutMemoKey *k, const LayoutConvert **plan)
{
    LayoutMemo *m = a->plans;
    if (!m) return false;
    m->asked++;
    const LayoutMemoEntry *e = atomic_load_explicit(slot_of(m, k), memory_order_acquire);
    while (e && !answers(e, k)) e = e->next;
    if (!e) return false;
    *plan = NULL;
    if (!e->plan) return true;
    LayoutConvert *c = arena_new(a, LayoutConvert);
    *c = *e->plan;
    c->src = k->src;
    c->dst = k->dst;
    *plan = c;
    return true;
}

static void *copy(Arena *a, const void *from, size_t bytes)
{ return from ? memcpy(arena_alloc(a, bytes), from, bytes) : NULL; }

/* A copy that refers to nothing outside the arena; its layouts are set when it is found. */
static const LayoutConvert *copy_plan(Arena *a, const LayoutConvert *plan)
{
    if (!plan) return NULL;
    LayoutConvert *c = copy(a, plan, sizeof *plan);
    c->src = c->dst = NULL;
    c->reg_map = copy(a, plan->reg_map, layout_regs(plan->dst) * sizeof *plan->reg_map);
    c->round = copy(a, plan->round, plan->nround * sizeof *plan->round);
    c->shared = copy(a, plan->shared, sizeof *plan->shared);
    return c;
}

void layout_memo_keep(const Arena *a, const LayoutMemoKey *k, const LayoutConvert *plan)
{
    LayoutMemo *m = a->plans;
    if (!m) return;
    m->planned++;
    if (m->arena.total > MOST_BYTES) return;
    m->arena.on_oom = a->on_oom; /* before the entry is linked */
    LayoutMemoEntry *e = arena_new(&m->arena, LayoutMemoEntry);
    _Atomic(LayoutMemoEntry *) *slot = slot_of(m, k);
    *e = (LayoutMemoEntry){ NULL, *k->src, *k->dst, k->elem_bytes, k->may_share, NULL };
    e->src.spec = e->dst.spec = NULL;
    e->plan = copy_plan(&m->arena, plan);
    e->next = atomic_load_explicit(slot, memory_order_relaxed);
    /* Whoever finds the entry sees it whole. */
    while (!atomic_compare_exchange_weak_explicit(
        slot, &e->next, e, memory_order_release, memory_order_relaxed)) {}
}
