/* emit_topk_few.c: of topk, the largest few of a row that one warp holds, up to 16, found among candidates;
 * and the largest two without their positions, merged lane by lane. */
#include "backends/gpu/axis/emit_topk.h"

enum {
    MOST_CANDIDATES = 32,   /* one for each lane */
    MOST_FEW = 16,          /* elements wanted of a row: of more, too many lanes have candidates */
    LEAST_LANE_ROUNDS = 32, /* times elements of a lane: what rounds take for less is less */
};

/* Whether each warp finds the largest few of one row among candidates. */
bool topk_takes_candidates(const Emit *e, const Best *b, const TopkCells *to, int64_t k)
{
    return !is_hip(e) && topk_has_keys(b->d) && b->m == 1 && 1 << b->plan.nlane == e->target->wave &&
           b->plan.nwarp == 1 && b->n >= 4 && k <= MOST_FEW && k * b->n >= LEAST_LANE_ROUNDS &&
           !(to->values && topk_keys_are_many(e, b));
}

bool topk_has_candidates(Emit *e, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    int axis = x->type->rank - 1;
    Best b = { .l = layout_of(e, x), .axis = axis, .d = x->type->dtype };
    TopkCells to = { .values = i->results[0].uses != NULL, .places = i->results[1].uses != NULL };
    b.keep = layout_slice(&e->s->arena, b.l, axis, true);
    if (!layout_reduce(&e->s->arena, b.l, axis, true, &b.plan)) return false;
    b.n = (int)layout_regs(b.l);
    b.m = (int)layout_regs(b.keep);
    return topk_takes_candidates(e, &b, &to, i->results[0].type->shape[axis]);
}

/* Where the candidates of the warp lie. */
typedef struct Candidates {
    const char *cells;       /* keys; behind them positions, then elements */
    const char *bound, *all; /* the least key of a candidate, and how many there are */
    const char *cell;        /* of the lane's first one */
} Candidates;

/* The k-th largest of the lanes' largest keys, of equal ones one: k elements of the row are as large at
 * least, and hardly more than k are. */
static void find_bound(Emit *e, const Best *b, const TopkRounds *r, int64_t k, Candidates *c)
{
    const char *left = tmp(e, "left"), *taken = use(e, "TAKEN");
    c->bound = tmp(e, "bound");
    line(e, "i32 %s = %s, %s = %s;", left, taken, c->bound, taken);
    begin_unrolled(e, "i", b->n);
    line(e, "%s = %s(%s, %s[i]);", left, use(e, "max_i32"), left, r->keys);
    end_block(e);
    begin_unrolled(e, "i", (int)k);
    line(e, "%s = %s(%s);", c->bound, use(e, "warp_max_i32"), left);
    line(e, "if (%s == %s) %s = %s;", left, c->bound, left, taken);
    end_block(e);
}

/* How many candidates the warp and the lanes before this one have. */
static void count_candidates(Emit *e, const Best *b, const TopkRounds *r, Candidates *c)
{
    const char *own = tmp(e, "own"), *upto = tmp(e, "upto"), *y = tmp(e, "y"),
               *from = use(e, "shuffle_from_i32");
    c->all = tmp(e, "all");
    c->cell = tmp(e, "cell");
    line(e, "i32 %s = 0;", own);
    begin_unrolled(e, "i", b->n);
    line(e, "%s += %s[i] >= %s;", own, r->keys, c->bound);
    end_block(e);
    line(e, "i32 %s = %s;", upto, own);
    directive(e, "#pragma unroll");
    line(e, "for (u32 apart = 1; apart < 32; apart *= 2) {");
    e->indent++;
    line(e, "const i32 %s = %s(%s, (u32)lane - apart & 31);", y, from, upto);
    line(e, "%s += (u32)lane >= apart ? %s : 0;", upto, y);
    end_block(e);
    line(e, "const i32 %s = %s(%s, 31);", c->all, from, upto);
    line(e, "u32 %s = %s + (u32)(%s - %s) * 4;", c->cell, c->cells, upto, own);
}

/* Hands each lane one candidate: its key, its position in b->at and its element. */
static void spread_candidates(
    Emit *e, const Best *b, const Value *x, const TopkRounds *r, const char *key, const Candidates *c)
{
    const char *d = dtype_name(b->d);
    begin_unrolled(e, "i", b->n);
    line(e, "if (%s[i] >= %s) {", r->keys, c->bound);
    e->indent++;
    line(e, "%s(%s, %s[i]);", use(e, "sts_i32"), c->cell, r->keys);
    line(e, "%s(%s + %d, %s);", use(e, "sts_i32"), c->cell, MOST_CANDIDATES * 4,
        coord_text(e, b->l, b->axis, "i"));
    if (r->owned)
        line(e, "%s(%s + %d, %s);", use(e, str(e, "sts_%s", d)), c->cell, MOST_CANDIDATES * 8,
            element(e, x, b->l, index_variable(e, "i")));
    line(e, "%s += 4;", c->cell);
    end_block(e);
    end_block(e);
    lanes_meet(e);
    line(e, "if (lane < %s) {", c->all);
    e->indent++;
    line(e, "%s = %s(%s + lane * 4);", key, use(e, "lds_i32"), c->cells);
    line(e, "%s[0] = %s(%s + lane * 4 + %d);", b->at, use(e, "lds_i32"), c->cells, MOST_CANDIDATES * 4);
    if (r->owned)
        line(e, "%s[0] = %s(%s + lane * 4 + %d);", r->owned, use(e, str(e, "lds_%s", d)), c->cells,
            MOST_CANDIDATES * 8);
    end_block(e);
}

/* The rest of a loop of which k steps are done. */
static void begin_count_from(Emit *e, const char *n, int64_t k, const char *end)
{
    directive(e, "#pragma unroll 1");
    line(e, "for (int %s = %lld; %s < %s; %s++) {", n, (long long)k, n, end, n);
    e->indent++;
}

/* Counts the keys that are as large as that of the lane's candidate. */
static void count_as_large(Emit *e, const char *rank, const char *key, const char *n)
{
    line(e, "%s += %s(%s, %s) >= %s;", rank, use(e, "shuffle_from_i32"), key, n, key);
    end_block(e);
}

/* The rank of each lane's candidate. Where keys are equal, and counts add up to more than those of different
 * ones, positions decide. */
static void rank_candidates(
    Emit *e, const Best *b, const char *rank, const char *key, int64_t k, const char *all)
{
    const char *n = tmp(e, "n"), *sum = tmp(e, "sum"), *x = tmp(e, "k"), *p = tmp(e, "p"),
               *from = use(e, "shuffle_from_i32");
    line(e, "i32 %s = -1;", rank);
    begin_unrolled(e, n, (int)k); /* there are so many at least */
    count_as_large(e, rank, key, n);
    begin_count_from(e, n, k, all);
    count_as_large(e, rank, key, n);
    line(e, "i32 %s = lane < %s ? %s : 0;", sum, all, rank);
    line(e, "%s = %s(%s);", sum, use(e, "warp_sum_i32"), sum);
    line(e, "if (%s != %s * (%s - 1) / 2) {", sum, all, all);
    e->indent++;
    line(e, "%s = 0;", rank);
    begin_count_from(e, n, 0, all);
    line(e, "const i32 %s = %s(%s, %s), %s = %s(%s[0], %s);", x, from, key, n, p, from, b->at, n);
    line(e, "%s += %s > %s || (%s == %s && %s < %s[0]);", rank, x, key, x, key, p, b->at);
    end_block(e);
    end_block(e);
}

/* Elements that are as large as a bound are candidates, each of which a lane has and counts how many come
 * before it. TopkRounds follow where there are too many, as where elements are equal. */
void topk_by_candidates(
    Emit *e, const Best *b, const Value *x, const TopkCells *to, TopkRounds *r, int64_t k, int64_t free)
{
    Candidates c = { .cells = tmp(e, "cells") };
    const char *key = tmp(e, "key"), *rank = tmp(e, "rank");
    r->owned = to->values ? tmp(e, "owned") : NULL;
    line(e, "const u32 %s = shared_base + SCRATCH + %lld + (u32)warp * %d;", c.cells, (long long)free,
        TOPK_CANDIDATE_BYTES);
    find_bound(e, b, r, k, &c);
    count_candidates(e, b, r, &c);
    line(e, "if (%s <= %d) {", c.all, MOST_CANDIDATES);
    e->indent++;
    line(e, "i32 %s = %s;", key, use(e, "TAKEN"));
    line(e, "%s[0] = %s;", b->at, use(e, "NOWHERE"));
    if (r->owned) line(e, "%s %s[1] = { 0 };", ctype(b->d), r->owned);
    spread_candidates(e, b, x, r, key, &c);
    rank_candidates(e, b, rank, key, k, c.all);
    topk_store(e, b, to, k, rank, str(e, "lane < %s && %s < %lld", c.all, rank, (long long)k), r->owned);
    e->indent--;
    line(e, "} else {");
    e->indent++;
    r->owned = to->values ? tmp(e, "owned") : NULL;
    topk_by_rounds(e, b, x, to, r, k, free);
    end_block(e);
}

/* --- two values ---------------------------------------------------------------------------------------- */

/* Whether lanes merge the largest two of what each has: positions are not asked for. */
bool topk_takes_pairs(const Emit *e, const Best *b, const TopkCells *to, int64_t k)
{
    return !is_hip(e) && topk_has_keys(b->d) && k == 2 && !to->places && b->plan.nwarp == 1 &&
           b->n / b->m >= 2;
}

/* Puts the key x[from] between most[to] and next[to]. */
static void merge_key(Emit *e, const char *most, const char *next, const char *to, const char *x)
{
    const char *max = use(e, "max_i32"), *min = use(e, "min_i32");
    line(e, "%s[%s] = %s(%s[%s], %s(%s[%s], %s));", next, to, max, next, to, min, most, to, x);
    line(e, "%s[%s] = %s(%s[%s], %s);", most, to, max, most, to, x);
}

static void find_pairs(Emit *e, const Best *b, const TopkRounds *r, const char *next)
{
    const char *taken = use(e, "TAKEN"), *x = tmp(e, "x"), *y = tmp(e, "y"),
               *other = use(e, "shuffle_xor_i32");
    line(e, "i32 %s[%d], %s[%d];", r->most, b->m, next, b->m);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = %s[i] = %s;", r->most, next, taken);
    end_block(e);
    begin_unrolled(e, "i", b->n);
    merge_key(e, r->most, next, index_text(e, map_register(e, b->l, b->keep, index_variable(e, "i"))),
        str(e, "%s[i]", r->keys));
    end_block(e);
    for (int s = 0; s < b->plan.nlane; s++) {
        begin_unrolled(e, "i", b->m);
        line(e, "const i32 %s = %s(%s[i], %u), %s = %s(%s[i], %u);", x, other, r->most, b->plan.lane_xor[s],
            y, other, next, b->plan.lane_xor[s]);
        line(e, "%s[i] = %s(%s[i], %s);", next, use(e, "max_i32"), next, y);
        merge_key(e, r->most, next, "i", x);
        end_block(e);
    }
}

/* The largest two of each row. Which of equal zeros come first, positions tell, and so rounds follow where a
 * zero is among them, or there are fewer than two. */
void topk_by_pairs(Emit *e, const Best *b, const Value *x, const TopkCells *to, TopkRounds *r, int64_t free)
{
    const char *next = tmp(e, "next"), *rare = tmp(e, "rare"), *owned = r->owned, *most = r->most;
    bool zeros = dtype_is_float(b->d);
    r->owned = tmp(e, "owned");
    find_pairs(e, b, r, next);
    line(e, "bool %s = false;", rare);
    begin_unrolled(e, "i", b->m);
    line(e, "%s |= %s[i] == %s;", rare, next, use(e, "TAKEN"));
    if (zeros) line(e, "%s |= %s[i] == 0 || %s[i] == 0;", rare, next, most);
    end_block(e);
    line(e, "if (!%s(%s)) {", use(e, "vote_any"), rare);
    e->indent++;
    line(e, "%s %s[%d];", ctype(b->d), r->owned, b->m);
    for (int n = 0; n < 2; n++) {
        TopkRounds one = { .most = n ? next : most, .owned = r->owned };
        topk_elements_of_keys(e, b, &one);
        topk_store(e, b, to, 2, n ? "1" : "0", "", r->owned);
    }
    e->indent--;
    line(e, "} else {");
    e->indent++;
    r->most = tmp(e, "most");
    r->owned = owned ? tmp(e, "owned") : NULL;
    topk_by_rounds(e, b, x, to, r, 2, free);
    end_block(e);
}
