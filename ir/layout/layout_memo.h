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
 * Only one thread may use a memo at a time. Memos of several threads may know each other's plans
 * (layout_memo_join); then all of them are freed after the last use of any. */
#pragma once
#include <stdatomic.h>
#include "ir/support/arena.h"
#include "ir/layout/layout.h"

enum { LAYOUT_MEMO_SLOTS = 256 };

typedef struct LayoutMemoEntry LayoutMemoEntry;
typedef struct LayoutMemo {
    Arena arena; /* of the plans that this one keeps */
    _Atomic(LayoutMemoEntry *) own[LAYOUT_MEMO_SLOTS];
    _Atomic(LayoutMemoEntry *) *slot; /* `own`, or that of the memo that this one has joined */
    int asked, planned;               /* questions, and those that nobody had asked before */
} LayoutMemo;

/* What decides a plan. */
typedef struct LayoutMemoKey {
    const Layout *src, *dst;
    int elem_bytes;
    bool may_share;
} LayoutMemoKey;

void layout_memo_init(LayoutMemo *, Allocator);
/* From now on both have the plans of either. The first has none yet. */
void layout_memo_join(LayoutMemo *, LayoutMemo *with);
void layout_memo_free(LayoutMemo *);
/* True: *plan is that of an earlier question, for the layouts of this one, or NULL: there is none. */
bool layout_memo_find(Arena *, const LayoutMemoKey *, const LayoutConvert **plan);
/* Keeps a copy of the plan (NULL: there is none) while the arena's memo has room. */
void layout_memo_keep(const Arena *, const LayoutMemoKey *, const LayoutConvert *plan);
