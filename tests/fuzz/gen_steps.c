/* gen_steps.c: steps that make values of values: arithmetic, casts, reductions, scans, sorting, shapes. */
#include "gen_state.h"

void step_unary(Gen *g)
{
    Val x = irgen_pick(g, is_number);
    if (!x.v) return;
    if (is_integer(&x) && irgen_chance(g, 30)) irgen_keep(g, ir_un(&g->b, OP_NOT, x.v), 0, INFINITY);
    else
        irgen_keep(g, ir_un(&g->b, irgen_chance(g, 50) ? OP_NEG : OP_ABS, x.v), x.taint,
            is_integer(&x) ? INFINITY : x.mag);
}

void step_binary(Gen *g)
{
    Val x = irgen_pick(g, is_number);
    if (!x.v) return;
    Val y = irgen_like(g, x.v->type);
    if (irgen_chance(g, 30)) {
        Val t = x;
        x = y;
        y = t;
    }
    if (is_integer(&x)) {
        Op op = (Op)ONE_OF(g, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_REM, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR,
            OP_SHL, OP_SHR, OP_MINNUM);
        double mag = op == OP_REM                                        ? y.mag
                     : op == OP_DIV && dtype_is_signed(x.v->type->dtype) ? x.mag
                                                                         : INFINITY;
        irgen_keep(g, ir_bin(&g->b, op, x.v, y.v), 0, mag);
        return;
    }
    int taint = x.taint + y.taint;
    if (taint >= MAX_TAINT) return;
    if (taint) taint++;
    const int sum = irgen_sum_taint(g, &x, taint);
    switch (g->huge ? 2 + irgen_below(g, 2) : irgen_below(g, 5)) {
    case 0: irgen_keep_settled(g, ir_bin(&g->b, OP_ADD, x.v, y.v), sum, x.mag + y.mag); break;
    case 1: irgen_keep_settled(g, ir_bin(&g->b, OP_SUB, x.v, y.v), sum, x.mag + y.mag); break;
    case 2:
        irgen_keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_MIN, OP_MINNUM), x.v, y.v), taint, fmax(x.mag, y.mag));
        break;
    case 3:
        irgen_keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_MAX, OP_MAXNUM), x.v, y.v), taint, fmax(x.mag, y.mag));
        break;
    default:
        if (x.mag * y.mag > irgen_exact_limit(x.v->type->dtype)) {
            x.v = irgen_clamped(g, x.v, -2, 2);
            y.v = irgen_clamped(g, y.v, -3, 3);
            x.mag = 2;
            y.mag = 3;
        }
        irgen_keep_settled(g, ir_bin(&g->b, OP_MUL, x.v, y.v), sum, x.mag * y.mag);
    }
}

void step_ternary(Gen *g)
{
    Val x = irgen_pick(g, is_exact_number);
    if (!x.v) return;
    const Type *t = x.v->type;
    Val y = irgen_like(g, t), z = irgen_like(g, t);
    if (irgen_chance(g, 50)) {
        Value *c = ir_bin(&g->b, (Op)ONE_OF(g, OP_LT, OP_LE, OP_EQ, OP_NE, OP_GT, OP_GE), x.v, y.v);
        irgen_keep(g, c, 0, 1);
        irgen_keep(g, ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, c, z.v, x.v), 0, fmax(x.mag, z.mag));
    } else if (is_integer(&x)) {
        irgen_keep(g, ir_op(&g->b, irgen_chance(g, 50) ? OP_FMA : OP_CLAMP, NULL, NO_ATTRS, x.v, y.v, z.v), 0,
            INFINITY);
    } else if (!g->huge && x.mag * y.mag + z.mag <= irgen_exact_limit(t->dtype)) {
        irgen_keep_settled(g, ir_op(&g->b, OP_FMA, NULL, NO_ATTRS, x.v, y.v, z.v), irgen_sum_taint(g, &x, 0),
            x.mag * y.mag + z.mag);
    }
}

/* x <- where(c, x, y) for a value that may be inexact. */
void step_where(Gen *g)
{
    Val c = irgen_pick(g, is_bool_tile);
    if (!c.v) return;
    Val y = irgen_like(g, type_with_dtype(g->s, c.v->type, irgen_any_float(g)));
    for (int k = 0; k < g->n_pool; k++) {
        Val x = g->pool[irgen_below(g, g->n_pool)];
        if (x.v->type != y.v->type) continue;
        irgen_keep(g, ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, c.v, x.v, y.v), x.taint, fmax(x.mag, y.mag));
        return;
    }
}

void step_logic(Gen *g)
{
    Val c = irgen_pick(g, is_bool);
    if (!c.v) return;
    Val d = irgen_like(g, c.v->type);
    if (irgen_chance(g, 25)) irgen_keep(g, ir_un(&g->b, OP_NOT, c.v), 0, 1);
    else irgen_keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_AND, OP_OR, OP_XOR, OP_EQ), c.v, d.v), 0, 1);
}

void step_function(Gen *g)
{
    Val x = irgen_pick(g, is_exact_float);
    if (!x.v || (g->flags & GEN_ONLY_EXACT) || dtype_bits(x.v->type->dtype) == 8) return;
    const Type *t = x.v->type;
    Op op = (Op)ONE_OF(g, OP_EXP, OP_EXP2, OP_LOG, OP_LOG2, OP_SQRT, OP_RSQRT, OP_SIN, OP_COS, OP_TANH,
        OP_ERF, OP_SIGMOID, OP_DIV, OP_FLOOR, OP_CEIL, OP_ROUND);
    if (op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND) {
        irgen_keep(g, ir_un(&g->b, op, x.v), 0, x.mag);
        return;
    }
    if (g->huge && (op == OP_SIN || op == OP_COS)) return;
    Value *v = x.mag > 4 ? irgen_clamped(g, x.v, -4, 4) : x.v;
    if (op == OP_LOG || op == OP_LOG2 || op == OP_RSQRT || op == OP_SQRT || op == OP_DIV)
        v = ir_bin(&g->b, OP_ADD, ir_un(&g->b, OP_ABS, v), irgen_splat(g, t, irgen_constant(g, t->dtype, 1)));
    if (op == OP_DIV) {
        irgen_keep_settled(g, ir_bin(&g->b, OP_DIV, irgen_like(g, t).v, v), 1, 256);
        return;
    }
    irgen_keep_settled(g, ir_un(&g->b, op, v), 1, op == OP_EXP ? 55 : op == OP_EXP2 ? 16 : 4);
}

void step_cast(Gen *g)
{
    Val x = irgen_pick(g, is_any);
    if (!x.v) return;
    bool to_float = x.taint || irgen_chance(g, 50);
    DType d = to_float ? irgen_any_float(g) : irgen_any_int(g);
    if (x.taint && (dtype_bits(d) == 8 || dtype_bits(d) < dtype_bits(x.v->type->dtype))) return;
    if (to_float && x.mag > irgen_exact_limit(d) / 2 && is_number(&x)) {
        DType from = x.v->type->dtype;
        x.v = dtype_is_signed(from) || dtype_is_float(from) ? irgen_clamped(g, x.v, -4, 4)
                                                            : irgen_clamped(g, x.v, 0, 4);
        x.mag = 4;
    }
    if (d == x.v->type->dtype) return;
    bool sign_lost = !to_float && !dtype_is_signed(d);
    irgen_keep(
        g, ir_cast(&g->b, x.v, d), x.taint, sign_lost || (!to_float && x.mag > 100) ? INFINITY : x.mag);
}

void step_reduce(Gen *g)
{
    Val x = irgen_pick(g, is_tile);
    if (!x.v) return;
    const Type *t = x.v->type;
    int axis = irgen_below(g, t->rank);
    Attrs at = ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_DROP, irgen_chance(g, 40)));
    if (is_bool(&x)) {
        irgen_keep(
            g, ir_emit(&g->b, irgen_chance(g, 50) ? OP_REDUCE_ANY : OP_REDUCE_ALL, &x.v, 1, at, NULL), 0, 1);
        return;
    }
    if (x.taint) {
        if (x.taint >= MAX_TAINT) return;
        bool sum = irgen_chance(g, 50) && !g->huge && x.mag * (double)t->shape[axis] < 1000;
        irgen_keep_settled(g,
            ir_emit(&g->b,
                sum                   ? OP_REDUCE_SUM
                : irgen_chance(g, 50) ? OP_REDUCE_MAX
                                      : OP_REDUCE_MIN,
                &x.v, 1, at, NULL),
            x.taint + 1, sum ? x.mag * (double)t->shape[axis] : x.mag);
        return;
    }
    Op op = (Op)ONE_OF(
        g, OP_REDUCE_SUM, OP_REDUCE_SUM, OP_REDUCE_MAX, OP_REDUCE_MIN, OP_ARGMAX, OP_ARGMIN, OP_REDUCE_PROD);
    double n = (double)t->shape[axis];
    if (op == OP_REDUCE_PROD && !is_integer(&x)) op = OP_REDUCE_MAX;
    const bool exact = is_integer(&x) || (!g->huge && x.mag * n <= irgen_exact_limit(t->dtype));
    if (op == OP_REDUCE_SUM && !exact) op = OP_REDUCE_MIN;
    double mag = op == OP_ARGMAX || op == OP_ARGMIN ? n
                 : is_integer(&x)      ? (op == OP_REDUCE_MAX || op == OP_REDUCE_MIN ? x.mag : INFINITY)
                 : op == OP_REDUCE_SUM ? x.mag * n
                                       : x.mag;
    irgen_keep_settled(
        g, ir_emit(&g->b, op, &x.v, 1, at, NULL), op == OP_REDUCE_SUM ? irgen_sum_taint(g, &x, 0) : 0, mag);
}

/* The positions along an axis of a tile of t's shape. */
static Value *positions(Gen *g, const Type *t)
{
    int axis = irgen_below(g, t->rank);
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? t->shape[a] : 1;
    const Type *vector = type_tile(g->s, DT_I32, 1, &shape[axis]),
               *beside = type_tile(g->s, DT_I32, t->rank, shape), *whole = type_with_dtype(g->s, t, DT_I32);
    Value *v = ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, irgen_below(g, 9))), vector);
    v = ir_emit(&g->b, OP_RESHAPE, &v, 1, NO_ATTRS, beside);
    return ir_emit(&g->b, OP_BROADCAST, &v, 1, NO_ATTRS, whole);
}

/* What a combination makes of component k of positions a and b. Compositions of maps x -> a*x + b tell in
 * which order they were made. */
static Value *combined(Builder *b, Block *block, int n, int k, Op op, bool maps)
{
    Value **a = block->args, **c = block->args + n;
    if (maps && k < 2) {
        Value *product = ir_bin(b, OP_MUL, a[k], c[0]);
        return k ? ir_bin(b, OP_ADD, product, c[1]) : product;
    }
    if (op == OP_YIELD) return c[k];
    return op == OP_CONST ? a[k] : ir_bin(b, op, a[k], c[k]);
}

void step_reduce_block(Gen *g)
{
    Val x = irgen_pick(g, is_exact_tile);
    if (!x.v) return;
    int axis = irgen_below(g, x.v->type->rank), n = 1 + irgen_below(g, 4);
    bool ints = is_integer(&x), scan = irgen_chance(g, 40), maps = n > 2 && irgen_chance(g, 60);
    Value *ops[4];
    for (int k = 0; k < n; k++) ops[k] = k == n - 1 ? x.v : positions(g, x.v->type);
    Attr attrs[2] = { a_int(ATTR_AXIS, axis), a_int(ATTR_REVERSE, irgen_chance(g, 40)) };
    Instr *i = ir_build(&g->b, scan ? OP_SCAN : OP_REDUCE, ops, n, (Attrs){ attrs, scan ? 2 : 1 }, NULL, 0);
    Builder in = ir_at_end(i->blocks[0]);
    Value *r[4];
    for (int k = 0; k < n; k++) {
        Op op = (Op)ONE_OF(g, OP_MAX, OP_CONST, OP_YIELD);
        r[k] =
            combined(&in, i->blocks[0], n, k, (ints || k < n - 1) && irgen_chance(g, 40) ? OP_ADD : op, maps);
    }
    ir_build(&in, OP_YIELD, r, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) irgen_keep(g, &i->results[k], 0, ints || k < n - 1 ? INFINITY : x.mag);
}

void step_scan(Gen *g)
{
    Val x = irgen_pick(g, is_exact_tile);
    if (!x.v) return;
    int axis = irgen_below(g, x.v->type->rank);
    double n = (double)x.v->type->shape[axis];
    Op op = (Op)ONE_OF(g, OP_SCAN_SUM, OP_SCAN_MAX, OP_SCAN_PROD);
    if (op == OP_SCAN_PROD && !is_integer(&x)) op = OP_SCAN_MAX;
    const bool exact = is_integer(&x) || (!g->huge && x.mag * n <= irgen_exact_limit(x.v->type->dtype));
    if (op == OP_SCAN_SUM && !exact) op = OP_SCAN_MAX;
    irgen_keep_settled(g,
        ir_emit(&g->b, op, &x.v, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_REVERSE, irgen_chance(g, 30))),
            NULL),
        op == OP_SCAN_SUM ? irgen_sum_taint(g, &x, 0) : 0,
        is_integer(&x)      ? INFINITY
        : op == OP_SCAN_SUM ? x.mag * n
                            : x.mag);
}

void step_sort(Gen *g)
{
    Val x = irgen_pick(g, is_exact_tile);
    if (!x.v || (g->flags & GEN_NO_SORT)) return;
    const Type *t = x.v->type;
    if (irgen_chance(g, 50)) {
        irgen_keep(g, ir_emit(&g->b, OP_SORT, &x.v, 1, ATTRS(a_int(ATTR_REVERSE, irgen_chance(g, 50))), NULL),
            0, x.mag);
        return;
    }
    Instr *i = ir_build(&g->b, OP_TOPK, &x.v, 1,
        ATTRS(a_int(ATTR_COUNT, 1 + irgen_below(g, (int)t->shape[t->rank - 1]))), NULL, 0);
    irgen_keep(g, &i->results[0], 0, x.mag);
    irgen_keep(g, &i->results[1], 0, (double)t->shape[t->rank - 1]);
}

void step_shape(Gen *g)
{
    Val x = irgen_pick(g, is_tile);
    if (!x.v) return;
    const Type *t = x.v->type;
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    int axis = irgen_below(g, t->rank);
    switch (irgen_below(g, 5)) {
    case 0: {
        int64_t order[TILE_MAX_RANK];
        for (int a = 0; a < t->rank; a++) order[a] = a;
        for (int a = t->rank - 1; a > 0; a--) {
            int j = irgen_below(g, a + 1);
            int64_t o = order[a];
            order[a] = order[j];
            order[j] = o;
        }
        irgen_keep(g, ir_emit(&g->b, OP_PERMUTE, &x.v, 1, ATTRS(a_ints(ATTR_ORDER, order, t->rank)), NULL),
            x.taint, x.mag);
        break;
    }
    case 1: {
        int64_t n = type_elements(t), flat[3] = { n, 1, 1 };
        int rank = 1;
        for (int64_t d = 2; d <= 4; d++)
            if (n % d == 0 && irgen_chance(g, 40)) {
                flat[0] = d;
                flat[1] = n / d;
                rank = 2;
            }
        irgen_keep(g, ir_op(&g->b, OP_RESHAPE, type_tile(g->s, t->dtype, rank, flat), NO_ATTRS, x.v), x.taint,
            x.mag);
        break;
    }
    case 2: {
        int64_t extent = (g->flags & GEN_POW2) ? (shape[axis] + 1) / 2 : 1 + irgen_below(g, (int)shape[axis]),
                start = irgen_below(g, (int)(t->shape[axis] - extent + 1));
        shape[axis] = extent;
        irgen_keep(g,
            ir_emit(&g->b, OP_SLICE, &x.v, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, start)),
                type_tile(g->s, t->dtype, t->rank, shape)),
            x.taint, x.mag);
        break;
    }
    case 3: {
        if (shape[axis] > 32) break;
        Val y = irgen_like(g, t);
        Value *ops[2] = { x.v, y.v };
        irgen_keep(g, ir_emit(&g->b, OP_CONCAT, ops, 2, ATTRS(a_int(ATTR_AXIS, axis)), NULL), x.taint,
            fmax(x.mag, y.mag));
        break;
    }
    default:
        if (shape[axis] != 1) break;
        shape[axis] = axis == t->rank - 1 ? g->tn : g->tm;
        irgen_keep(g, ir_op(&g->b, OP_BROADCAST, type_tile(g->s, t->dtype, t->rank, shape), NO_ATTRS, x.v),
            x.taint, x.mag);
    }
}

void step_philox(Gen *g)
{
    Val x = irgen_pick(g, is_integer);
    if (!x.v) return;
    Value *seed = irgen_splat(
        g, x.v->type, ir_const_int(&g->b, irgen_chance(g, 50) ? DT_U64 : DT_U32, irgen_below(g, 1000)));
    irgen_keep(g, ir_bin(&g->b, irgen_chance(g, 50) ? OP_PHILOX : OP_RANDOM_BITS, seed, x.v), 0, INFINITY);
}

void step_launch(Gen *g)
{
    if (irgen_chance(g, 50))
        irgen_keep(g,
            ir_emit(&g->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, irgen_below(g, 3) - 1)), NULL), 0,
            INFINITY);
    else
        irgen_keep(
            g, ir_emit(&g->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, irgen_below(g, 5))), NULL), 0, INFINITY);
}

void step_bitcast(Gen *g)
{
    Val x = irgen_pick(g, is_integer);
    if (!x.v) return;
    static const DType twin[DT_COUNT] = { [DT_I8] = DT_U8,
        [DT_U8] = DT_I8,
        [DT_I16] = DT_U16,
        [DT_U16] = DT_I16,
        [DT_I32] = DT_U32,
        [DT_U32] = DT_I32,
        [DT_I64] = DT_U64,
        [DT_U64] = DT_I64 };
    DType d = twin[x.v->type->dtype];
    if (d != DT_BOOL)
        irgen_keep(
            g, ir_op(&g->b, OP_BITCAST, type_with_dtype(g->s, x.v->type, d), NO_ATTRS, x.v), 0, INFINITY);
}
