/* emit_rows.c: operations along one axis that need the positions of its elements: argmax.
 *
 * argmax of numbers finds the best value of a row first, as reduce_max does, and then the first position that
 * has it: only threads whose own best element is that value look for it. Otherwise (value, position) pairs
 * are combined within the thread, then by shuffles, then through shared memory; so are those of a cluster's
 * CTAs. emit_topk.c has topk, emit_scan.c scans, and emit_sort.c sort, and topk of many elements. */
#include "backends/gpu/axis/emit_best.h"
#include "backends/gpu/hopper/emit_cluster.h"

const char *both_hold(Emit *e, const char *a, const char *b)
{
    if (!*a) return b;
    return *b ? str(e, "%s && %s", a, b) : a;
}

/* The condition that register i is in the tile; "" when all are. */
const char *inside_tile(Emit *e, const Layout *l, Index *i)
{
    Index *c[TILE_MAX_RANK];
    coords_at(e, l, i, c);
    return tile_condition(e, l, i, c);
}

const char *row_number(Emit *e, const Layout *keep, int axis, Index *i, int64_t *rows)
{
    const char *x = NULL;
    int64_t pitch = 1;
    for (int a = keep->rank - 1; a >= 0; a--) {
        if (a == axis) continue;
        Index *c = coord(e, keep, a, i);
        if (!index_is(c, 0)) {
            const char *t = index_text(e, c);
            if (pitch != 1) t = str(e, "%s * %lld", t, (long long)pitch);
            x = x ? str(e, "%s + %s", x, t) : t;
        }
        pitch *= keep->cover[a];
    }
    *rows = pitch;
    return x ? x : "0";
}

const char *warp_rank(Emit *e, const Layout *l, int axis, int *count)
{
    int32_t c[TILE_MAX_RANK], d[TILE_MAX_RANK];
    int n = (int)layout_warps(l);
    int32_t *rank = arena_array(&e->s->arena, int32_t, (size_t)n);
    *count = 1;
    for (int w = 0; w < n; w++) {
        layout_element(l, 0, 0, (uint32_t)w, 0, c);
        for (int v = 0; v < n; v++) {
            bool first = true; /* of the warps at this position */
            layout_element(l, 0, 0, (uint32_t)v, 0, d);
            for (int u = 0; u < v && first; u++) {
                int32_t f[TILE_MAX_RANK];
                layout_element(l, 0, 0, (uint32_t)u, 0, f);
                first = f[axis] != d[axis];
            }
            rank[w] += first && d[axis] < c[axis];
        }
        if (rank[w] + 1 > *count) *count = rank[w] + 1;
    }
    return entry_text(e, rank, n, "warp");
}

DType combined_wide(DType d) { return dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d; }

void fill_words(Emit *e, DType d, int n, const char *to, RegisterFn *element, const void *user)
{
    int p = per_word(d), words = array_len(d, n);
    bool loop = n % p == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        const char *x[4];
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++)
            x[k] = element(e, user, loop ? index_linear(e, p, "i", k) : index_number(e, w * p + k));
        line(e, "%s[%s] = %s;", to, loop ? "i" : str(e, "%d", w), pack_expr(e, d, x, here));
    }
    if (loop) end_block(e);
}

typedef struct Packed {
    const char *from;
    DType acc, d;
} Packed;

static const char *packed_element(Emit *e, const void *user, Index *i)
{
    const Packed *p = user;
    return cast_expr(e, p->acc, p->d, str(e, "%s[%s]", p->from, index_text(e, i)));
}

void pack_registers(Emit *e, const Value *r, const char *from, DType acc)
{
    DType d = r->type->dtype;
    declare_tile(e, r);
    fill_words(e, d, (int)layout_regs(layout_of(e, r)), e->storage[r->id], packed_element,
        &(Packed){ from, acc, d });
}

/* --- the best (value, position) of every row --------------------------------------------------------- */

void best_of(Emit *e, const Instr *i, int axis, const char *order, Best *b)
{
    const Value *x = ir_operand(i, 0);
    *b = (Best){ .l = layout_of(e, x), .axis = axis, .d = x->type->dtype };
    b->keep = layout_slice(&e->s->arena, b->l, axis, true);
    if (!layout_reduce(&e->s->arena, b->l, axis, true, &b->plan))
        ir_fail(e->s, i->loc, "%s over a layout that mixes axes", op_info[i->op].name);
    b->n = (int)layout_regs(b->l);
    b->m = (int)layout_regs(b->keep);
    b->before = str(e, "%s_%s", order, dtype_name(combined_wide(b->d)));
    b->value = tmp(e, "best");
    b->at = tmp(e, "at");
    line(e, "%s %s[%d];", ctype(b->d), b->value, b->m);
    line(e, "i32 %s[%d];", b->at, b->m);
}

/* last: the pair after which the best one is searched, or NULL. */
void best_in_thread(Emit *e, const Best *b, const Value *x, const char *last_value, const char *last_at)
{
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = 0;", b->value);
    line(e, "%s[i] = %s;", b->at, use(e, "NOWHERE"));
    end_block(e);
    begin_unrolled(e, "i", b->n);
    Index *i = index_variable(e, "i");
    const char *v = tmp(e, "x"), *k = index_text(e, map_register(e, b->l, b->keep, i)),
               *pos = coord_text(e, b->l, b->axis, "i"), *cond = inside_tile(e, b->l, i);
    line(e, "const %s %s = %s;", ctype(b->d), v, element(e, x, b->l, i));
    if (last_value)
        cond = both_hold(e, cond,
            str(e, "(%s[%s] == NOWHERE || %s(%s[%s], %s[%s], %s, %s))", last_at, k, use(e, b->before),
                last_value, k, last_at, k, v, pos));
    cond = both_hold(
        e, cond, str(e, "%s(%s, %s, %s[%s], %s[%s])", use(e, b->before), v, pos, b->value, k, b->at, k));
    line(e, "if (%s) { %s[%s] = %s; %s[%s] = %s; }", cond, b->value, k, v, b->at, k, pos);
    end_block(e);
}

/* Whether positions of a row rise with the registers of each thread. */
bool positions_rise(const Best *b)
{
    int32_t c[TILE_MAX_RANK], d[TILE_MAX_RANK];
    for (int r = 1; r < b->n && b->l->separable; r++)
        for (int before = r - 1; before >= 0; before--) {
            layout_element(b->l, (uint32_t)before, 0, 0, 0, c);
            layout_element(b->l, (uint32_t)r, 0, 0, 0, d);
            bool rises = c[b->axis] < d[b->axis];
            c[b->axis] = d[b->axis];
            if (!coords_equal(b->l->rank, c, d)) continue; /* of another row */
            if (!rises) return false;
            break;
        }
    return b->l->separable;
}

void begin_from_last(Emit *e, int n)
{
    directive(e, "#pragma unroll");
    line(e, "for (int i = %d; i >= 0; i--) {", n - 1);
    e->indent++;
}

/* Joins value[i] of all threads of the CTA that hold elements of row i. from: the bytes of scratch that are
 * in use, which grow. Returns whether warps have met. */
static bool join_across(Emit *e, const Best *b, const char *value, DType d, bool most, int64_t *from)
{
    int parts;
    int64_t rows;
    uint32_t lanes = 0;
    const char *join = use(e, str(e, "%s_%s", most ? "max" : "min", dtype_name(d)));
    for (int s = 0; s < b->plan.nlane; s++) lanes |= b->plan.lane_xor[s];
    const char *at_once = extreme_of_warp(e, lanes, d, most);
    if (at_once) {
        begin_unrolled(e, "i", b->m);
        line(e, "%s[i] = %s(%s[i]);", value, at_once, value);
        end_block(e);
    }
    for (int s = 0; s < b->plan.nlane && !at_once; s++) {
        begin_unrolled(e, "i", b->m);
        line(e, "%s[i] = %s(%s[i], %s(%s[i], %u));", value, join, value,
            use(e, str(e, "shuffle_xor_%s", dtype_name(d))), value, b->plan.lane_xor[s]);
        end_block(e);
    }
    const char *rank = warp_rank(e, b->l, b->axis, &parts);
    if (parts == 1) return false;
    const char *row = row_number(e, b->keep, b->axis, index_variable(e, "i"), &rows);
    const char *all = shared_pointer(e, ctype(d), *from);
    *from += (rows * parts * ctype_bytes(d) + 7) / 8 * 8;
    scratch(e, *from);
    barrier(e);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[%s * %lld + %s] = %s[i];", all, rank, (long long)rows, row, value);
    end_block(e);
    barrier(e);
    begin_unrolled(e, "i", b->m);
    line(e, "for (int w = 0; w < %d; w++) %s[i] = %s(%s[i], %s[w * %lld + %s]);", parts, value, join, value,
        all, (long long)rows, row);
    end_block(e);
    return true;
}

/* The tile in registers whose elements, perhaps cast, are those of x; NULL: there is none. */
static const Value *in_registers(const Emit *e, const Value *x)
{
    while (!e->storage[x->id] && x->def && x->def->op == OP_CAST) x = ir_operand(x->def, 0);
    return e->storage[x->id] ? x : NULL;
}

/* Elements of 16 or 8 bits, as they are in registers, for a search behind the exchange: without a copy that
 * the compiler cannot see through, it would keep all of them widened until then. */
static const char *copy_packed(Emit *e, const Value *held)
{
    int words = array_len(held->type->dtype, (int)layout_regs(layout_of(e, held)));
    const char *again = tmp(e, "again");
    line(e, "u32 %s[%d];", again, words);
    begin_unrolled(e, "i", words);
    line(e, "%s[i] = %s[i];", again, e->storage[held->id]);
    line(e, "%s(%s[i]);", use(e, "pin_word"), again);
    end_block(e);
    return again;
}

/* The first position of each row that has its best value, among the elements of this thread; of NaNs, which
 * are best, the first. In registers as they were loaded (xs: NULL), elements are looked at once; widened,
 * they are compared with themselves in another loop, which is rarely run. */
static void find_value(Emit *e, const Best *b, const Value *x, const char *xs)
{
    const bool floats = dtype_is_float(b->d);
    begin_from_last(e, b->n);
    Index *i = index_variable(e, "i");
    const char *k = index_text(e, map_register(e, b->l, b->keep, i)), *in = inside_tile(e, b->l, i),
               *pos = coord_text(e, b->l, b->axis, "i"), *best = str(e, "%s[%s]", b->value, k);
    if (!xs) line(e, "const %s v = %s;", ctype(b->d), element(e, x, b->l, i));
    const char *v = xs ? str(e, "%s[i]", xs) : "v", *hit = str(e, "%s == %s", v, best);
    if (!xs && floats) hit = str(e, "(%s || v != v)", hit);
    line(e, "if (%s) %s[%s] = %s;", both_hold(e, in, hit), b->at, k, pos);
    end_block(e);
    if (!xs || !floats) return;
    const char *nan = tmp(e, "nan");
    line(e, "bool %s = false;", nan);
    begin_unrolled(e, "i", b->m);
    line(e, "%s = %s | (%s[i] != %s[i]);", nan, nan, b->value, b->value);
    end_block(e);
    line(e, "if (%s) {    /* the first of them */", nan);
    e->indent++;
    begin_from_last(e, b->n);
    line(e, "if (%s) %s[%s] = %s;", both_hold(e, in, str(e, "%s != %s", v, v)), b->at, k, pos);
    end_block(e);
    end_block(e);
}

/* The best value that each thread has of each row; xs: the elements are copied there, NULL: they are not. */
static void values_in_thread(Emit *e, const Best *b, const Value *x, bool most, const char *xs)
{
    const char *type = dtype_name(combined_wide(b->d)),
               *join = use(e, str(e, "%s_%s", most ? "max" : "min", type)),
               *none = use(e, str(e, "%s_%s", most ? "LOWEST" : "HIGHEST", type)),
               *found = b->m == 1 && !xs ? extreme_by_words(e, x, b->l, b->axis, most) : NULL;
    if (found) {
        line(e, "%s[0] = %s;", b->value, found);
        return;
    }
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = %s;", b->value, none);
    end_block(e);
    begin_unrolled(e, "i", b->n);
    Index *i = index_variable(e, "i");
    const char *k = index_text(e, map_register(e, b->l, b->keep, i)), *in = inside_tile(e, b->l, i),
               *v = element(e, x, b->l, i);
    if (*in) v = str(e, "(%s ? %s : %s)", in, v, none);
    if (xs) line(e, "%s[i] = %s;", xs, v);
    line(e, "%s[%s] = %s(%s[%s], %s);", b->value, k, join, b->value, k, xs ? str(e, "%s[i]", xs) : v);
    end_block(e);
}

/* The best value of each row, of all threads. Gives what the thread has found by itself of its one row; xs:
 * as above. */
static const char *find_best(Emit *e, const Instr *arg, const Best *b, const char *xs, int64_t *from)
{
    const Extreme *known = extreme_known(e, arg);
    const bool most = arg->op == OP_ARGMAX;
    if (known) {
        begin_unrolled(e, "i", b->m);
        line(e, "%s[i] = %s[i];", b->value, known->value);
        end_block(e);
        return known->own;
    }
    const char *own = tmp(e, "own");
    values_in_thread(e, b, ir_operand(arg, 0), most, xs);
    if (b->m == 1) line(e, "const %s %s = %s[0];", ctype(b->d), own, b->value);
    join_across(e, b, b->value, combined_wide(b->d), most, from);
    return own;
}

/* The best value of each row first, by one instruction for each element or two, and then the first position
 * that has it. Of a row of several threads only those whose own best element is that value look for it.
 * Returns whether warps have met. */
static bool best_by_value(Emit *e, const Instr *arg, const Best *b)
{
    const Value *x = ir_operand(arg, 0), *held = in_registers(e, x);
    const bool packed = !is_hip(e) && held && per_word(held->type->dtype) > 1,
               copied = !packed && !extreme_known(e, arg);
    const char *xs = copied ? tmp(e, "xs") : NULL, *kept = NULL;
    int64_t from = 0;
    begin_unrolled(e, "i", b->m);
    line(e, "%s[i] = %s;", b->at, use(e, "NOWHERE"));
    end_block(e);
    if (xs) line(e, "%s %s[%d];", ctype(b->d), xs, b->n);
    const char *own = find_best(e, arg, b, xs, &from), *same = str(e, "%s == %s[0]", own, b->value);
    if (dtype_is_float(b->d)) same = str(e, "%s || %s != %s", same, own, own);
    line(e, b->m == 1 ? "if (%s) {" : "{", same);
    e->indent++;
    if (packed) {
        kept = e->storage[held->id];
        e->storage[held->id] = copy_packed(e, held);
    }
    find_value(e, b, x, xs);
    if (packed) e->storage[held->id] = kept;
    end_block(e);
    return join_across(e, b, b->at, DT_I32, false, &from);
}

static void keep_better(Emit *e, const Best *b, const char *k, const char *v, const char *p)
{
    line(e, "if (%s(%s, %s, %s[%s], %s[%s])) { %s[%s] = %s; %s[%s] = %s; }", use(e, b->before), v, p,
        b->value, k, b->at, k, b->value, k, v, b->at, k, p);
}

void pairs_of_warps(Emit *e, const Best *b, const char *value, DType type, int64_t scratch_from, WarpPairs *w)
{
    const char *rank = warp_rank(e, b->l, b->axis, &w->parts);
    if (w->parts == 1) return;
    w->row = row_number(e, b->keep, b->axis, index_variable(e, "i"), &w->rows);
    int64_t positions = (w->rows * w->parts * ctype_bytes(type) + 7) / 8 * 8;
    scratch(e, scratch_from + positions + w->rows * w->parts * 4);
    w->values = shared_pointer(e, ctype(type), scratch_from);
    w->places = shared_pointer(e, "i32", scratch_from + positions);
    barrier(e);
    begin_unrolled(e, "i", b->m);
    line(e, "%s[%s * %lld + %s] = %s[i];", w->values, rank, (long long)w->rows, w->row, value);
    line(e, "%s[%s * %lld + %s] = %s[i];", w->places, rank, (long long)w->rows, w->row, b->at);
    end_block(e);
    barrier(e);
}

const char *pair_of_warp(Emit *e, const WarpPairs *w, const char *of)
{ return str(e, "%s[w * %lld + %s]", of, (long long)w->rows, w->row); }

bool best_across(Emit *e, const Best *b, int64_t scratch_from)
{
    DType acc = combined_wide(b->d), cell = acc == DT_BOOL ? DT_U8 : acc;
    for (int s = 0; s < b->plan.nlane; s++) {
        begin_unrolled(e, "i", b->m);
        const char *v = tmp(e, "y"), *p = tmp(e, "p");
        line(e, "const %s %s = %s(%s[i], %u);", ctype(b->d), v,
            use(e, str(e, "shuffle_xor_%s", dtype_name(acc))), b->value, b->plan.lane_xor[s]);
        line(e, "const i32 %s = %s(%s[i], %u);", p, use(e, "shuffle_xor_i32"), b->at, b->plan.lane_xor[s]);
        keep_better(e, b, "i", v, p);
        end_block(e);
    }
    WarpPairs w;
    pairs_of_warps(e, b, b->value, cell, scratch_from, &w);
    if (w.parts == 1) return false;
    begin_unrolled(e, "i", b->m);
    line(e, "for (int w = 0; w < %d; w++) {", w.parts);
    e->indent++;
    keep_better(e, b, "i", pair_of_warp(e, &w, w.values), pair_of_warp(e, &w, w.places));
    end_block(e);
    end_block(e);
    return true;
}

/* The best pair of all CTAs that hold the row. Which comes first is no matter: of equal values the lower
 * position is the better one. */
static void best_of_blocks(Emit *e, const Instr *i, const Best *b, bool met)
{
    int n = (int)layout_blocks(b->l);
    DType acc = combined_wide(b->d);
    int64_t positions = (int64_t)n * ctype_bytes(acc);
    BlocksMeet m;
    if (n < 2) return;
    blocks_meet(e, i, n, ctype_bytes(acc) + 4, met, &m);
    blocks_send(e, &m, n, acc, 0, str(e, "%s[0]", b->value));
    blocks_send(e, &m, n, DT_I32, positions, str(e, "%s[0]", b->at));
    blocks_wait(e, &m);
    const char *values = tmp(e, "parts"), *at = tmp(e, "parts_at");
    line(e, "%s *const %s = (%s *)(%s);", ctype(acc), values, ctype(acc), m.parts);
    line(e, "i32 *const %s = (i32 *)(%s + %lld);", at, m.parts, (long long)positions);
    line(e, "for (int p = 0; p < %d; p++) {", n);
    e->indent++;
    keep_better(e, b, "0", str(e, "%s[p]", values), str(e, "%s[p]", at));
    end_block(e);
    if (m.round) line(e, "%s++;", m.round);
}

static void emit_arg(Emit *e, Instr *i)
{
    Best b;
    Value *r = ir_result(i);
    best_of(e, i, (int)ir_attr_int(i, ATTR_AXIS, 0), i->op == OP_ARGMAX ? "above" : "below", &b);
    bool met;
    if (b.d != DT_BOOL && positions_rise(&b)) met = best_by_value(e, i, &b);
    else {
        best_in_thread(e, &b, ir_operand(i, 0), NULL, NULL);
        met = best_across(e, &b, 0);
    }
    best_of_blocks(e, i, &b, met);
    extreme_keep(e, i, NULL, b.value);
    if (r->type->kind == TYPE_SCALAR) {
        const char *n = name_of(e, r);
        line(e, "const %s %s = %s;", ctype(r->type->dtype), n,
            cast_expr(e, DT_I32, r->type->dtype, str(e, "%s[0]", b.at)));
        e->storage[r->id] = n;
        return;
    }
    pack_registers(e, r, b.at, DT_I32);
}

void emit_rows(Emit *e, Instr *i)
{
    if (op_family(i->op) == OPS_ARG) emit_arg(e, i);
    else if (op_family(i->op) == OPS_SCAN) emit_scan(e, i);
    else if (i->op == OP_TOPK) {
        if (topk_has_candidates(e, i) || !emit_largest(e, i)) emit_topk(e, i);
    } else ir_fail(e->s, i->loc, "%s needs no positions along an axis", op_info[i->op].name);
}
