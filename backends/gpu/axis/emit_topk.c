/* emit_topk.c: the largest few of each row, one in each round: by integer keys in the order of the elements,
 * of which each round takes one away, or by pairs of value and position where no key of 32 bits holds an
 * element. */
#include "backends/gpu/axis/emit_topk.h"

/* Whether a key of 32 bits holds each element, and TAKEN beside them. */
bool topk_has_keys(DType d)
{
    DType wide = combined_wide(d);
    return wide == DT_F32 || (dtype_is_int(d) && dtype_bits(d) <= 16);
}

/* Whether keys and elements beside them take more registers than a thread well has. */
bool topk_keys_are_many(const Emit *e, const Best *b)
{
    enum { MANY_WORDS = 160 };
    return !is_hip(e) && b->n + array_len(b->d, b->n) > MANY_WORDS;
}

static void begin_rounds(Emit *e, const Best *b, const Value *x, bool elements, TopkRounds *r)
{
    DType wide = combined_wide(b->d);
    *r = (TopkRounds){ tmp(e, "keys"), tmp(e, "most"), tmp(e, "own"), elements ? tmp(e, "owned") : NULL };
    line(e, "i32 %s[%d];", r->keys, b->n);
    r->from_keys = elements && topk_keys_are_many(e, b);
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
void topk_elements_of_keys(Emit *e, const Best *b, const TopkRounds *r)
{
    DType wide = combined_wide(b->d);
    begin_unrolled(e, "i", b->m);
    const char *x = str(e, "%s(%s[i])", use(e, str(e, "sort_value_%s", dtype_name(wide))), r->most);
    if (r->minus) x = str(e, "(%s[i] ? %s(0x80000000u) : %s)", r->minus, use(e, "float_bits"), x);
    line(e, "%s[i] = %s;", r->owned, cast_expr(e, wide, b->d, x));
    end_block(e);
}

/* The largest key of each row, and the lowest position that has it, among the lanes of a warp. */
static void round_in_warp(Emit *e, const Best *b, const Value *x, const TopkRounds *r)
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
    if (r->owned && r->from_keys) topk_elements_of_keys(e, b, r);
    begin_unrolled(e, "i", b->m);
    line(e, "if (%s[i] == %s) %s[i] = %s;", r->most, taken, r->own, none);
    line(e, "%s[i] = %s[i];", b->at, r->own);
    end_block(e);
    extreme_of_lanes(e, b, "min", b->at);
}

/* The same among the warps of a row. */
static void round_across_warps(Emit *e, const Best *b, const TopkRounds *r, int64_t scratch_from)
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

static void take(Emit *e, const Best *b, const TopkRounds *r)
{
    begin_unrolled(e, "i", b->n);
    const char *k = index_text(e, map_register(e, b->l, b->keep, index_variable(e, "i")));
    line(e, "if (%s == %s[%s]) %s[i] = %s;", coord_text(e, b->l, b->axis, "i"), b->at, k, r->keys,
        use(e, "TAKEN"));
    end_block(e);
}

/* Element n of each row, under a condition on register i of the rows ("": always). */
void topk_store(Emit *e, const Best *b, const TopkCells *to, int64_t k, const char *n, const char *cond,
    const char *value)
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
    topk_store(e, b, to, k, n, "", b->value);
    end_block(e);
}

/* Each round takes the largest key that is left; the thread that has the element stores it. */
void topk_by_rounds(Emit *e, const Best *b, const Value *x, const TopkCells *to, const TopkRounds *keys,
    int64_t k, int64_t free)
{
    TopkRounds r = *keys;
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
    topk_store(e, b, to, k, n, str(e, "%s[i] == %s[i]", r.own, b->at), r.owned);
    take(e, b, &r);
    e->iteration = around;
    e->out = out;
    body_append(out, &iteration.pre);
    body_append(out, &body);
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
    if (!topk_has_keys(b.d)) rounds_by_pairs(e, &b, x, &to, k, free);
    else {
        TopkRounds r;
        begin_rounds(e, &b, x, to.values, &r);
        barrier(e);
        if (topk_takes_pairs(e, &b, &to, k)) topk_by_pairs(e, &b, x, &to, &r, free);
        else if (topk_takes_candidates(e, &b, &to, k)) {
            scratch(e, free + (int64_t)layout_warps(b.l) * TOPK_CANDIDATE_BYTES);
            topk_by_candidates(e, &b, x, &to, &r, k, free);
        } else topk_by_rounds(e, &b, x, &to, &r, k, free);
    }
    barrier(e);
    if (to.values) fill_elements(e, values, to.base, row_major, values->type);
    if (!to.places) return;
    const char *second = tmp(e, "sh");
    line(e, "const u32 %s = %s + %lld;", second, to.base, (long long)at);
    fill_elements(e, places, second, row_major, places->type);
}
