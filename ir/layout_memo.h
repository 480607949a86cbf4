/* layout_memo.h: plans of conversions between layouts, kept for arenas whose owner compiles one kernel after
 * another. The configurations of a search (runtime/choice) differ in few layouts, and a plan for one pair of
 * layouts, above all the search for a swizzle, takes longer than the passes that ask for it.
 *
 *     LayoutMemo memo;
 *     layout_memo_init(&memo, allocator);
 *     session.arena.plans = &memo;          again after session_renew
 *     ... compile, many times ...
 *     session_free(&session);
 *     layout_memo_free(&memo);
 *
 * Only one thread may use a memo at a time. */
#pragma once
#include "ir/arena.h"
#include "ir/layout.h"

enum { LAYOUT_MEMO_SLOTS = 256 };

typedef struct LayoutMemoEntry LayoutMemoEntry;
typedef struct LayoutMemo {
    Arena arena;
    LayoutMemoEntry *slot[LAYOUT_MEMO_SLOTS];
    int asked, planned; /* questions, and those that nobody had asked before */
} LayoutMemo;

/* What decides a plan. */
typedef struct LayoutMemoKey {
    const Layout *src, *dst;
    int elem_bytes;
    bool may_share;
} LayoutMemoKey;

void layout_memo_init(LayoutMemo *, Allocator);
void layout_memo_free(LayoutMemo *);
/* True: *plan is that of an earlier question, for the layouts of this one, or NULL: there is none. */
bool layout_memo_find(Arena *, const LayoutMemoKey *, const LayoutConvert **plan);
/* Keeps a copy of the plan (NULL: there is none) while the arena's memo has room. */
void layout_memo_keep(const Arena *, const LayoutMemoKey *, const LayoutConvert *plan);
