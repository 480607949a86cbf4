/* emit_topk.c: the largest few of each row, one in each round: by integer keys in the order of the elements,
 * of which each round takes one away, or by pairs of value and position where no key of 32 bits holds an
 * element. */
#include "backends/gpu/axis/emit_best.h"

/* Elements of the row as integers in its order (sort_key), TAKEN where a round took one or none is. */
typedef struct Rounds {
    const char *keys;  /* of all registers */
    const char *most;  /* of each row: the largest key that is left */
    const char *own;   /* of each row: where the thread itself has it, or NOWHERE */
    const char *owned; /* of each row: the element there; NULL: nothing uses elements */
    /* Elements come from their keys, where registers do not hold both. minus: of each row, whether the
     * thread's own is -0.0; minus_bits: a bit for each element; NULL for integers, whose keys tell all. */
    bool from_keys;
    const char *minus, *minus_bits;
} Rounds;

/* Whether a key of 32 bits holds each element, and TAKEN beside them. */
static bool has_keys(DType d)
{
    DType wide = combined_wide(d);
    return wide == DT_F32 || (dtype_is_int(d) && dtype_bits(d) <= 16);
}

/* Whether keys and elements beside them take more registers than a thread well has. */
static bool are_many(const Emit *e, const Best *b)
{
    enum { MANY_WORDS = 160 };
    return !is_hip(e) && b->n + array_len(b->d, b->n) > MANY_WORDS;
}

static void begin_rounds(Emit *e, const Best *b, const Value *x, bool elements, Rounds *r)
{
    DType wide = combined_wide(b->d);
    *r = (Rounds){ tmp(e, "keys"), tmp(e, "most"), tmp(e, "own"), elements ? tmp(e, "owned") : NULL };
    line(e, "i32 %s[%d];", r->keys, b->n);
    r->from_keys = elements && are_many(e, b);
    if (r->from_keys && dtype_is_float(wide)) {
        r->minus = tmp(e, "minus");
        r->minus_bits = tmp(e, "minus_bits");
        line(e, "u32 %s[%d] = { 0 };", r->minus_bits, (b->n + 31) / 32);
    }
    begin_unrolled(e, "i", b->n);
    Index *i = index_variable(e, "i");
    const char *in = inside_tile(e, b->l, i), *key = tmp(e, "key"), *taken = use(e, "TAKEN");
    line(e, "const i32 %s = %s(%s);", key, use(e, str(e, "sort_key_%s", dtype_name(wide))),
        cast_expr(e, b->d, wide, element(e, x, b->l, i)));
    /* Zeros of both signs are equal; the key of -0.0 is -1. */
    const char *same = dtype_is_float(wide) ? str(e, "%s + (%s == -1)", key, key) : key;
    line(e, "%s[i] = %s;", r->keys, *in ? str(e, "%s ? %s : %s", in, same, taken) : same);
    if (r->minus) line(e, "%s[i / 32] |= (u32)(%s == -1) << (i %% 32);", r->minus_bits, key);
    end_block(e);
}

/* The extreme of what the lanes of a row have: by one instruction where they are a whole warp. */
static void extreme_of_lanes(Emit *e, const Best *b, const char *join, const char *x)
{
    const char *both = use(e, str(e, "%s_i32", join));
    if (b->plan.nlane == 5 && !is_hip(e)) {
        begin_unrolled(e, "i", b->m);
        line(e, "%s[i] = %s(%s[i]);", x, use(e, str(e, "warp_%s_i32", join)), x);
        end_block(e);
        return;
    }
    for (int s = 0; s < b->plan.nlane; s++) {
        begin_unrolled(e, "i", b->m);
        line(e, "%s[i] = %s(%s[i], %s(%s[i], %u));", x, both, x, use(e, "shuffle_xor_i32"), x,
            b->plan.lane_xor[s]);
        end_block(e);
    }
}

/* The thread's own element of each row, from its key. */
static void elements_of_keys(Emit *e, const Best *b, const Rounds *r)
{
    DType wide = combined_wide(b->d);
    begin_unrolled(e, "i", b->m);
    const char *x = str(e, "%s(%s[i])", use(e, str(e, "sort_value_%s", dtype_name(wide))), r->most);
    if (r->minus) x = str(e, "(%s[i] ? %s(0x80000000u) : %s)", r->minus, use(e, "float_bits"), x);
    line(e, "%s[i] = %s;", r->owned, cast_expr(e, wide, b->d, x));
    end_block(e);
}

/* The largest key of each row, and the lowest position that has it, among the lanes of a warp. */
static void round_in_warp(Emit *e, const Best *b, const Value *x, const Rounds *r)
{
    const char *taken = use(e, "TAKEN"), *none = use(e, "NOWHERE");
    line(e, "i32 %s[%d], %s[%d];", r->most, b->m, r->own, b->m);
    if (r->owned) line(e, "%s %s[%d];", ctype(b->d), r->owned, b->m);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = %s;", r->most, taken);
    line(e, "%s[i] = %s;", r->own, none);
    if (r->owned && !r->from_keys) line(e, "%s[i] = 0;", r->owned);
    end_block(e);
    if (r->minus) {
        /* Otherwise the vendor's compiler would take each bit into a register ahead of the rounds. */
        line(e, "u32 %s[%d] = { 0 };", r->minus, b->m);
        begin_unrolled(e, "i", (b->n + 31) / 32);
        line(e, "%s(%s[i]);", use(e, "pin_word"), r->minus_bits);
        end_block(e);
    }
    begin_unrolled(e, "i", b->n);
    Index *i = index_variable(e, "i");
    const char *k = index_text(e, map_register(e, b->l, b->keep, i));
    line(e, "%s[%s] = %s(%s[%s], %s[i]);", r->most, k, use(e, "max_i32"), r->most, k, r->keys);
    end_block(e);
    extreme_of_lanes(e, b, "max", r->most);
    begin_from_last(e, b->n);
    const char *pos = coord_text(e, b->l, b->axis, "i"),
               *first = positions_rise(b) ? "" : str(e, "%s < %s[%s]", pos, r->own, k);
    const char *keeps = "";
    if (r->owned && !r->from_keys) keeps = str(e, " %s[%s] = %s;", r->owned, k, element(e, x, b->l, i));
    else if (r->minus) keeps = str(e, " %s[%s] = %s[i / 32] >> (i %% 32) & 1;", r->minus, k, r->minus_bits);
    line(e, "if (%s) { %s[%s] = %s;%s }", both_hold(e, str(e, "%s[i] == %s[%s]", r->keys, r->most, k), first),
        r->own, k, pos, keeps);
    end_block(e);
    if (r->owned && r->from_keys) elements_of_keys(e, b, r);
    begin_unrolled(e, "i", b->m);
    line(e, "if (%s[i] == %s) %s[i] = %s;", r->most, taken, r->own, none);
    line(e, "%s[i] = %s[i];", b->at, r->own);
    end_block(e);
    extreme_of_lanes(e, b, "min", b->at);
}

/* The same among the warps of a row. */
static void round_across_warps(Emit *e, const Best *b, const Rounds *r, int64_t scratch_from)
{
    WarpPairs w;
    pairs_of_warps(e, b, r->most, DT_I32, scratch_from, &w);
    if (w.parts == 1) return;
    const char *k = tmp(e, "k"), *p = tmp(e, "p");
    begin_unrolled(e, "i", b->m);
    line(e, "for (int w = 0; w < %d; w++) {", w.parts);
    e->indent++;
    line(
        e, "const i32 %s = %s, %s = %s;", k, pair_of_warp(e, &w, w.values), p, pair_of_warp(e, &w, w.places));
    line(e, "if (%s > %s[i] || (%s == %s[i] && %s < %s[i])) { %s[i] = %s; %s[i] = %s; }", k, r->most, k,
        r->most, p, b->at, r->most, k, b->at, p);
    end_block(e);
    end_block(e);
}

static void take(Emit *e, const Best *b, const Rounds *r)
{
    begin_unrolled(e, "i", b->n);
    const char *k = index_text(e, map_register(e, b->l, b->keep, index_variable(e, "i")));
    line(e, "if (%s == %s[%s]) %s[i] = %s;", coord_text(e, b->l, b->axis, "i"), b->at, k, r->keys,
        use(e, "TAKEN"));
    end_block(e);
}

/* Where results of topk lie in shared memory: values at base, positions `at` bytes behind; those that
 * something uses. */
typedef struct TopkCells {
    const char *base;
    int64_t at;
    bool values, places;
} TopkCells;

/* Element n of each row, under a condition on register i of the rows ("": always). */
static void store_round(Emit *e, const Best *b, const TopkCells *to, int64_t k, const char *n,
    const char *cond, const char *value)
{
    /* Rows of the result are numbered without padding. */
    const char *row = NULL;
    int64_t rows = 1;
    begin_unrolled(e, "i", b->m);
    for (int a = b->axis - 1; a >= 0; a--) {
        Index *at_row = coord(e, b->keep, a, index_variable(e, "i"));
        const char *c = index_text(e, at_row);
        if (b->keep->cover[a] != b->keep->tile[a])
            cond = both_hold(e, cond, str(e, "%s < %d", c, b->keep->tile[a]));
        if (!index_is(at_row, 0)) {
            if (rows != 1) c = str(e, "%s * %lld", c, (long long)rows);
            row = row ? str(e, "%s + %s", row, c) : c;
        }
        rows *= b->keep->tile[a];
    }
    const char *cell = row ? str(e, "(%s) * %lld + %s", row, (long long)k, n) : n;
    if (*cond) {
        line(e, "if (%s) {", cond);
        e->indent++;
    }
    if (to->values)
        line(e, "%s(%s + (%s) * %d, %s[i]);", use(e, str(e, "sts_%s", dtype_name(b->d))), to->base, cell,
            dtype_bytes(b->d), value);
    if (to->places)
        line(e, "%s(%s + %lld + (%s) * 4, %s[i]);", use(e, "sts_i32"), to->base, (long long)to->at, cell,
            b->at);
    if (*cond) end_block(e);
    end_block(e);
}

static void begin_count(Emit *e, const char *n, int64_t k)
{
    directive(e, "#pragma unroll 1");
    line(e, "for (int %s = 0; %s < %lld; %s++) {", n, n, (long long)k, n);
    e->indent++;
}

/* The rest of a loop of which k steps are done. */
static void begin_count_from(Emit *e, const char *n, int64_t k, const char *end)
{
    directive(e, "#pragma unroll 1");
    line(e, "for (int %s = %lld; %s < %s; %s++) {", n, (long long)k, n, end, n);
    e->indent++;
}

/* Each round takes the element that comes next after the last one, by comparing pairs. */
static void rounds_by_pairs(
    Emit *e, const Best *b, const Value *x, const TopkCells *to, int64_t k, int64_t free)
{
    const char *lv = tmp(e, "last"), *lp = tmp(e, "last_at"), *n = tmp(e, "n");
    line(e, "%s %s[%d];", ctype(b->d), lv, b->m);
    line(e, "i32 %s[%d];", lp, b->m);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = 0;", lv);
    line(e, "%s[i] = %s;", lp, use(e, "NOWHERE"));
    end_block(e);
    barrier(e);
    begin_count(e, n, k);
    best_in_thread(e, b, x, lv, lp);
    best_across(e, b, free);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = %s[i];", lv, b->value);
    line(e, "%s[i] = %s[i];", lp, b->at);
    end_block(e);
    store_round(e, b, to, k, n, "", b->value);
    end_block(e);
}

/* Each round takes the largest key that is left; the thread that has the element stores it. */
static void rounds_by_keys(
    Emit *e, const Best *b, const Value *x, const TopkCells *to, const Rounds *keys, int64_t k, int64_t free)
{
    Rounds r = *keys;
    const char *n = tmp(e, "n");
    begin_count(e, n, k);
    /* Positions of so many elements are not held from round to round. */
    Iteration iteration = { .counter = n, .indent = e->indent }, *around = e->iteration;
    Body body = { 0 }, *out = e->out;
    if (r.from_keys) {
        e->iteration = &iteration;
        e->out = &body;
    }
    round_in_warp(e, b, x, &r);
    round_across_warps(e, b, &r, free);
    store_round(e, b, to, k, n, str(e, "%s[i] == %s[i]", r.own, b->at), r.owned);
    take(e, b, &r);
    e->iteration = around;
    e->out = out;
    body_append(out, &iteration.pre);
    body_append(out, &body);
    end_block(e);
}

/* --- candidates ---------------------------------------------------------------------------------------- */

enum {
    MOST_CANDIDATES = 32,   /* one for each lane */
    MOST_FEW = 16,          /* elements wanted of a row: of more, too many lanes have candidates */
    LEAST_LANE_ROUNDS = 32, /* times elements of a lane: what rounds take for less is less */
    CANDIDATE_BYTES = MOST_CANDIDATES * 12 /* of a warp: keys, positions, elements */
};

/* Whether each warp finds the largest few of one row among candidates. */
static bool has_candidates(Emit *e, const Best *b, const TopkCells *to, int64_t k)
{
    return !is_hip(e) && has_keys(b->d) && b->m == 1 && b->plan.nlane == 5 && b->plan.nwarp == 1 &&
           b->n >= 4 && k <= MOST_FEW && k * b->n >= LEAST_LANE_ROUNDS && !(to->values && are_many(e, b));
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
    return has_candidates(e, &b, &to, i->results[0].type->shape[axis]);
}

/* Where the candidates of the warp lie. */
typedef struct Candidates {
    const char *cells;       /* keys; behind them positions, then elements */
    const char *bound, *all; /* the least key of a candidate, and how many there are */
    const char *cell;        /* of the lane's first one */
} Candidates;

/* The k-th largest of the lanes' largest keys, of equal ones one: k elements of the row are as large at
 * least, and hardly more than k are. */
static void find_bound(Emit *e, const Best *b, const Rounds *r, int64_t k, Candidates *c)
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
static void count_candidates(Emit *e, const Best *b, const Rounds *r, Candidates *c)
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
    Emit *e, const Best *b, const Value *x, const Rounds *r, const char *key, const Candidates *c)
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
 * before it. Rounds follow where there are too many, as where elements are equal. */
static void by_candidates(
    Emit *e, const Best *b, const Value *x, const TopkCells *to, Rounds *r, int64_t k, int64_t free)
{
    Candidates c = { .cells = tmp(e, "cells") };
    const char *key = tmp(e, "key"), *rank = tmp(e, "rank");
    r->owned = to->values ? tmp(e, "owned") : NULL;
    line(e, "const u32 %s = shared_base + SCRATCH + %lld + (u32)warp * %d;", c.cells, (long long)free,
        CANDIDATE_BYTES);
    find_bound(e, b, r, k, &c);
    count_candidates(e, b, r, &c);
    line(e, "if (%s <= %d) {", c.all, MOST_CANDIDATES);
    e->indent++;
    line(e, "i32 %s = %s;", key, use(e, "TAKEN"));
    line(e, "%s[0] = %s;", b->at, use(e, "NOWHERE"));
    if (r->owned) line(e, "%s %s[1] = { 0 };", ctype(b->d), r->owned);
    spread_candidates(e, b, x, r, key, &c);
    rank_candidates(e, b, rank, key, k, c.all);
    store_round(e, b, to, k, rank, str(e, "lane < %s && %s < %lld", c.all, rank, (long long)k), r->owned);
    e->indent--;
    line(e, "} else {");
    e->indent++;
    r->owned = to->values ? tmp(e, "owned") : NULL;
    rounds_by_keys(e, b, x, to, r, k, free);
    end_block(e);
}

/* --- two values ---------------------------------------------------------------------------------------- */

/* Whether lanes merge the largest two of what each has: positions are not asked for. */
static bool has_pairs(const Emit *e, const Best *b, const TopkCells *to, int64_t k)
{ return !is_hip(e) && has_keys(b->d) && k == 2 && !to->places && b->plan.nwarp == 1 && b->n / b->m >= 2; }

/* Puts the key x[from] between most[to] and next[to]. */
static void merge_key(Emit *e, const char *most, const char *next, const char *to, const char *x)
{
    const char *max = use(e, "max_i32"), *min = use(e, "min_i32");
    line(e, "%s[%s] = %s(%s[%s], %s(%s[%s], %s));", next, to, max, next, to, min, most, to, x);
    line(e, "%s[%s] = %s(%s[%s], %s);", most, to, max, most, to, x);
}

static void find_pairs(Emit *e, const Best *b, const Rounds *r, const char *next)
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
static void by_pairs(Emit *e, const Best *b, const Value *x, const TopkCells *to, Rounds *r, int64_t free)
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
        Rounds one = { .most = n ? next : most, .owned = r->owned };
        elements_of_keys(e, b, &one);
        store_round(e, b, to, 2, n ? "1" : "0", "", r->owned);
    }
    e->indent--;
    line(e, "} else {");
    e->indent++;
    r->most = tmp(e, "most");
    r->owned = owned ? tmp(e, "owned") : NULL;
    rounds_by_keys(e, b, x, to, r, 2, free);
    end_block(e);
}

void emit_topk(Emit *e, Instr *i)
{
    Best b;
    const Value *x = ir_operand(i, 0);
    Value *values = &i->results[0], *places = &i->results[1];
    int axis = x->type->rank - 1;
    int64_t k = values->type->shape[axis], cells = type_elements(values->type),
            at = (cells * dtype_bytes(x->type->dtype) + 15) / 16 * 16;
    best_of(e, i, axis, "above", &b);
    scratch(e, at + cells * 4);
    TopkCells to = { tmp(e, "sh"), at, values->uses != NULL, places->uses != NULL };
    line(e, "const u32 %s = shared_base + SCRATCH;", to.base);
    int64_t free = (at + cells * 4 + 15) / 16 * 16;
    if (!has_keys(b.d)) rounds_by_pairs(e, &b, x, &to, k, free);
    else {
        Rounds r;
        begin_rounds(e, &b, x, to.values, &r);
        barrier(e);
        if (has_pairs(e, &b, &to, k)) by_pairs(e, &b, x, &to, &r, free);
        else if (has_candidates(e, &b, &to, k)) {
            scratch(e, free + (int64_t)layout_warps(b.l) * CANDIDATE_BYTES);
            by_candidates(e, &b, x, &to, &r, k, free);
        } else rounds_by_keys(e, &b, x, &to, &r, k, free);
    }
    barrier(e);
    if (to.values) fill_elements(e, values, to.base, row_major, values->type);
    if (!to.places) return;
    const char *second = tmp(e, "sh");
    line(e, "const u32 %s = %s + %lld;", second, to.base, (long long)at);
    fill_elements(e, places, second, row_major, places->type);
}
