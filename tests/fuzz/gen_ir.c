/* gen_ir.c: see gen_ir.h. A pool of values grows by random steps; each value carries whether it is exact and
 * a bound of its magnitude, from which each step knows what it may do. */
#include "gen_ir.h"
#include <math.h>
#include <stdio.h>

typedef struct Val {
    Value *v;
    int taint;  /* 0: exact; else steps since an inexact operation */
    double mag; /* |x| <= mag; INFINITY: unknown (integers) */
} Val;

enum { POOL = 400, P_A = 0, P_B, P_C, P_I, P_J, P_W, P_H, P_N, P_ALPHA, P_OUT, N_OUT = 4, MAX_TAINT = 3 };

typedef struct Gen {
    Session *s;
    Func *f;
    Builder b;
    uint64_t rng;
    unsigned flags;
    Val pool[POOL];
    int n_pool, budget, depth;
    int64_t tm, tn, tk;
    DType mma_type[2], j_type, w_type, out_type[N_OUT];
    int rmw;
    Value *row, *col; /* first row and column of this program's tile */
    Value *tok_w, *tok_h;
} Gen;

static uint64_t rnd(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}
static int below(Gen *g, int n) { return (int)(rnd(&g->rng) % (uint64_t)n); }
static bool chance(Gen *g, int percent) { return below(g, 100) < percent; }
#define ONE_OF(g, ...) \
    ((const int[]){ __VA_ARGS__ }[below((g), (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))])

/* --- the pool ---------------------------------------------------------------------------------------- */

static Val keep(Gen *g, Value *v, int taint, double mag)
{
    Val x = { v, taint, mag };
    if (g->n_pool < POOL) g->pool[g->n_pool++] = x;
    return x;
}

/* Integers of this magnitude and below are exact in the dtype. */
static double exact_limit(DType d)
{
    switch ((int)d) {
    case DT_F8E4M3: return 16;
    case DT_F8E5M2: return 8;
    case DT_BF16: return 256;
    case DT_F16: return 2048;
    default: return 1 << 24;
    }
}

static Value *constant(Gen *g, DType d, int v)
{ return dtype_is_float(d) ? ir_const_float(&g->b, d, v) : ir_const_int(&g->b, d, v); }

static Value *fill(Gen *g, const Type *t, Value *scalar)
{ return t->kind == TYPE_TILE ? ir_splat(&g->b, scalar, t->rank, t->shape) : scalar; }

static Value *clamped(Gen *g, Value *v, int lo, int hi)
{
    DType d = v->type->dtype;
    return ir_op(&g->b, OP_CLAMP, NULL, NO_ATTRS, v, fill(g, v->type, constant(g, d, lo)),
        fill(g, v->type, constant(g, d, hi)));
}

/* The value with a magnitude its dtype holds exactly, with room for a step or two. */
static Val settle(Gen *g, Val x)
{
    DType d = x.v->type->dtype;
    if (!dtype_is_float(d) || x.mag <= (x.taint ? 64 : exact_limit(d) / 2)) return x;
    return (Val){ clamped(g, x.v, -4, 4), x.taint, 4 };
}

static Val keep_settled(Gen *g, Value *v, int taint, double mag)
{
    Val x = settle(g, (Val){ v, taint, mag });
    return keep(g, x.v, x.taint, x.mag);
}

static bool wide(DType d) { return d == DT_F64 || (dtype_bits(d) == 64 && d != DT_INDEX); }

static DType any_int(Gen *g)
{
    DType d =
        (DType)ONE_OF(g, DT_I8, DT_I16, DT_I32, DT_I32, DT_I64, DT_U8, DT_U16, DT_U32, DT_U64, DT_INDEX);
    return (g->flags & GEN_NO_WIDE) && wide(d) ? DT_I32 : d;
}

static DType any_float(Gen *g)
{
    DType d = (DType)ONE_OF(g, DT_F32, DT_F32, DT_F16, DT_BF16, DT_F64, DT_F8E4M3, DT_F8E5M2);
    if ((g->flags & GEN_NO_WIDE) && d == DT_F64) d = DT_F32;
    if ((g->flags & GEN_NO_FP8) && dtype_bits(d) == 8) d = DT_F16;
    return d;
}

/* A random value for which `fits` holds; v == NULL when there is none. */
static Val pick(Gen *g, bool (*fits)(const Val *))
{
    for (int k = 0; k < 12 && g->n_pool; k++) {
        int n = g->n_pool, at = chance(g, 60) && n > 8 ? n - 1 - below(g, 8) : below(g, n);
        if (fits(&g->pool[at])) return g->pool[at];
    }
    for (int k = g->n_pool - 1; k >= 0; k--)
        if (fits(&g->pool[k])) return g->pool[k];
    return (Val){ NULL, 0, 0 };
}

static bool is_number(const Val *x) { return x->v->type->dtype != DT_BOOL; }
static bool is_tile(const Val *x) { return x->v->type->kind == TYPE_TILE; }
static bool is_any(const Val *x) { return x->v != NULL; }
static bool is_exact_number(const Val *x) { return is_number(x) && !x->taint; }
static bool is_exact_tile(const Val *x) { return is_tile(x) && is_exact_number(x); }
static bool is_exact_float(const Val *x) { return dtype_is_float(x->v->type->dtype) && !x->taint; }
static bool is_integer(const Val *x) { return dtype_is_int(x->v->type->dtype); }
static bool is_index_scalar(const Val *x)
{ return x->v->type->kind == TYPE_SCALAR && x->v->type->dtype == DT_INDEX; }
static bool is_exact_scalar(const Val *x)
{ return x->v->type->kind == TYPE_SCALAR && !x->taint && is_number(x); }
static bool is_bool(const Val *x) { return x->v->type->dtype == DT_BOOL; }
static bool is_bool_tile(const Val *x) { return is_tile(x) && is_bool(x); }
static bool is_bool_scalar(const Val *x) { return x->v->type->kind == TYPE_SCALAR && is_bool(x); }

/* An exact value of just this type, of the pool or made up. */
static Val like(Gen *g, const Type *t)
{
    for (int k = 0; k < 10 && g->n_pool && chance(g, 90); k++) {
        const Val *x = &g->pool[g->n_pool - 1 - below(g, g->n_pool)];
        if (x->v->type == t && !x->taint) return *x;
    }
    if (t->dtype == DT_BOOL) return (Val){ fill(g, t, ir_const_int(&g->b, DT_BOOL, chance(g, 50))), 0, 1 };
    if (t->kind == TYPE_TILE && t->rank > 1 && chance(g, 40)) {
        int64_t shape[TILE_MAX_RANK] = { 0 };
        int axis = below(g, t->rank);
        for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? t->shape[a] : 1;
        Value *r = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, DT_INDEX, t->rank, shape), NO_ATTRS,
            ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, -2)),
                type_tile(g->s, DT_INDEX, 1, &t->shape[axis])));
        r = ir_cast(&g->b, clamped(g, r, -4, 4), t->dtype);
        return (
            Val){ ir_op(&g->b, OP_BROADCAST, t, NO_ATTRS, r), 0, dtype_is_float(t->dtype) ? 4 : INFINITY };
    }
    int c = below(g, 9) - 4;
    return (
        Val){ fill(g, t, constant(g, t->dtype, c)), 0, dtype_is_float(t->dtype) || c >= 0 ? 4 : INFINITY };
}

/* --- steps ------------------------------------------------------------------------------------------- */

static void step_unary(Gen *g)
{
    Val x = pick(g, is_number);
    if (!x.v) return;
    if (is_integer(&x) && chance(g, 30)) keep(g, ir_un(&g->b, OP_NOT, x.v), 0, INFINITY);
    else
        keep(g, ir_un(&g->b, chance(g, 50) ? OP_NEG : OP_ABS, x.v), x.taint,
            is_integer(&x) ? INFINITY : x.mag);
}

static void step_binary(Gen *g)
{
    Val x = pick(g, is_number);
    if (!x.v) return;
    Val y = like(g, x.v->type);
    if (chance(g, 30)) {
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
        keep(g, ir_bin(&g->b, op, x.v, y.v), 0, mag);
        return;
    }
    int taint = x.taint + y.taint;
    if (taint >= MAX_TAINT) return;
    if (taint) taint++;
    switch (below(g, 5)) {
    case 0: keep_settled(g, ir_bin(&g->b, OP_ADD, x.v, y.v), taint, x.mag + y.mag); break;
    case 1: keep_settled(g, ir_bin(&g->b, OP_SUB, x.v, y.v), taint, x.mag + y.mag); break;
    case 2:
        keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_MIN, OP_MINNUM), x.v, y.v), taint, fmax(x.mag, y.mag));
        break;
    case 3:
        keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_MAX, OP_MAXNUM), x.v, y.v), taint, fmax(x.mag, y.mag));
        break;
    default:
        if (x.mag * y.mag > exact_limit(x.v->type->dtype)) {
            x.v = clamped(g, x.v, -2, 2);
            y.v = clamped(g, y.v, -3, 3);
            x.mag = 2;
            y.mag = 3;
        }
        keep_settled(g, ir_bin(&g->b, OP_MUL, x.v, y.v), taint, x.mag * y.mag);
    }
}

static void step_ternary(Gen *g)
{
    Val x = pick(g, is_exact_number);
    if (!x.v) return;
    const Type *t = x.v->type;
    Val y = like(g, t), z = like(g, t);
    if (chance(g, 50)) {
        Value *c = ir_bin(&g->b, (Op)ONE_OF(g, OP_LT, OP_LE, OP_EQ, OP_NE, OP_GT, OP_GE), x.v, y.v);
        keep(g, c, 0, 1);
        keep(g, ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, c, z.v, x.v), 0, fmax(x.mag, z.mag));
    } else if (is_integer(&x)) {
        keep(g, ir_op(&g->b, chance(g, 50) ? OP_FMA : OP_CLAMP, NULL, NO_ATTRS, x.v, y.v, z.v), 0, INFINITY);
    } else if (x.mag * y.mag + z.mag <= exact_limit(t->dtype)) {
        keep_settled(g, ir_op(&g->b, OP_FMA, NULL, NO_ATTRS, x.v, y.v, z.v), 0, x.mag * y.mag + z.mag);
    }
}

/* x <- where(c, x, y) for a value that may be inexact. */
static void step_where(Gen *g)
{
    Val c = pick(g, is_bool_tile);
    if (!c.v) return;
    Val y = like(g, type_with_dtype(g->s, c.v->type, any_float(g)));
    for (int k = 0; k < g->n_pool; k++) {
        Val x = g->pool[below(g, g->n_pool)];
        if (x.v->type != y.v->type) continue;
        keep(g, ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, c.v, x.v, y.v), x.taint, fmax(x.mag, y.mag));
        return;
    }
}

static void step_logic(Gen *g)
{
    Val c = pick(g, is_bool);
    if (!c.v) return;
    Val d = like(g, c.v->type);
    if (chance(g, 25)) keep(g, ir_un(&g->b, OP_NOT, c.v), 0, 1);
    else keep(g, ir_bin(&g->b, (Op)ONE_OF(g, OP_AND, OP_OR, OP_XOR, OP_EQ), c.v, d.v), 0, 1);
}

static void step_function(Gen *g)
{
    Val x = pick(g, is_exact_float);
    if (!x.v || (g->flags & GEN_ONLY_EXACT) || dtype_bits(x.v->type->dtype) == 8) return;
    const Type *t = x.v->type;
    Op op = (Op)ONE_OF(g, OP_EXP, OP_EXP2, OP_LOG, OP_LOG2, OP_SQRT, OP_RSQRT, OP_SIN, OP_COS, OP_TANH,
        OP_ERF, OP_SIGMOID, OP_DIV, OP_FLOOR, OP_CEIL, OP_ROUND);
    if (op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND) {
        keep(g, ir_un(&g->b, op, x.v), 0, x.mag);
        return;
    }
    Value *v = x.mag > 4 ? clamped(g, x.v, -4, 4) : x.v;
    if (op == OP_LOG || op == OP_LOG2 || op == OP_RSQRT || op == OP_SQRT || op == OP_DIV)
        v = ir_bin(&g->b, OP_ADD, ir_un(&g->b, OP_ABS, v), fill(g, t, constant(g, t->dtype, 1)));
    if (op == OP_DIV) {
        keep_settled(g, ir_bin(&g->b, OP_DIV, like(g, t).v, v), 1, 256);
        return;
    }
    keep_settled(g, ir_un(&g->b, op, v), 1, op == OP_EXP ? 55 : op == OP_EXP2 ? 16 : 4);
}

static void step_cast(Gen *g)
{
    Val x = pick(g, is_any);
    if (!x.v) return;
    bool to_float = x.taint || chance(g, 50);
    DType d = to_float ? any_float(g) : any_int(g);
    if (x.taint && (dtype_bits(d) == 8 || dtype_bits(d) < dtype_bits(x.v->type->dtype))) return;
    if (to_float && x.mag > exact_limit(d) / 2 && is_number(&x)) {
        DType from = x.v->type->dtype;
        x.v = dtype_is_signed(from) || dtype_is_float(from) ? clamped(g, x.v, -4, 4) : clamped(g, x.v, 0, 4);
        x.mag = 4;
    }
    if (d == x.v->type->dtype) return;
    bool sign_lost = !to_float && !dtype_is_signed(d);
    keep(g, ir_cast(&g->b, x.v, d), x.taint, sign_lost || (!to_float && x.mag > 100) ? INFINITY : x.mag);
}

static void step_reduce(Gen *g)
{
    Val x = pick(g, is_tile);
    if (!x.v) return;
    const Type *t = x.v->type;
    int axis = below(g, t->rank);
    Attrs at = ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_DROP, chance(g, 40)));
    if (is_bool(&x)) {
        keep(g, ir_emit(&g->b, chance(g, 50) ? OP_REDUCE_ANY : OP_REDUCE_ALL, &x.v, 1, at, NULL), 0, 1);
        return;
    }
    if (x.taint) {
        if (x.taint >= MAX_TAINT) return;
        bool sum = chance(g, 50) && x.mag * (double)t->shape[axis] < 1000;
        keep_settled(g,
            ir_emit(&g->b,
                sum             ? OP_REDUCE_SUM
                : chance(g, 50) ? OP_REDUCE_MAX
                                : OP_REDUCE_MIN,
                &x.v, 1, at, NULL),
            x.taint + 1, sum ? x.mag * (double)t->shape[axis] : x.mag);
        return;
    }
    Op op = (Op)ONE_OF(
        g, OP_REDUCE_SUM, OP_REDUCE_SUM, OP_REDUCE_MAX, OP_REDUCE_MIN, OP_ARGMAX, OP_ARGMIN, OP_REDUCE_PROD);
    double n = (double)t->shape[axis];
    if (op == OP_REDUCE_PROD && !is_integer(&x)) op = OP_REDUCE_MAX;
    if (op == OP_REDUCE_SUM && !is_integer(&x) && x.mag * n > exact_limit(t->dtype)) op = OP_REDUCE_MIN;
    double mag = op == OP_ARGMAX || op == OP_ARGMIN ? n
                 : is_integer(&x)      ? (op == OP_REDUCE_MAX || op == OP_REDUCE_MIN ? x.mag : INFINITY)
                 : op == OP_REDUCE_SUM ? x.mag * n
                                       : x.mag;
    keep_settled(g, ir_emit(&g->b, op, &x.v, 1, at, NULL), 0, mag);
}

/* The positions along an axis of a tile of t's shape. */
static Value *positions(Gen *g, const Type *t)
{
    int axis = below(g, t->rank);
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? t->shape[a] : 1;
    const Type *vector = type_tile(g->s, DT_I32, 1, &shape[axis]),
               *beside = type_tile(g->s, DT_I32, t->rank, shape), *whole = type_with_dtype(g->s, t, DT_I32);
    Value *v = ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, below(g, 9))), vector);
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

static void step_reduce_block(Gen *g)
{
    Val x = pick(g, is_exact_tile);
    if (!x.v) return;
    int axis = below(g, x.v->type->rank), n = 1 + below(g, 4);
    bool ints = is_integer(&x), scan = chance(g, 40), maps = n > 2 && chance(g, 60);
    Value *ops[4];
    for (int k = 0; k < n; k++) ops[k] = k == n - 1 ? x.v : positions(g, x.v->type);
    Attr attrs[2] = { a_int(ATTR_AXIS, axis), a_int(ATTR_REVERSE, chance(g, 40)) };
    Instr *i = ir_build(&g->b, scan ? OP_SCAN : OP_REDUCE, ops, n, (Attrs){ attrs, scan ? 2 : 1 }, NULL, 0);
    Builder in = ir_at_end(i->blocks[0]);
    Value *r[4];
    for (int k = 0; k < n; k++) {
        Op op = (Op)ONE_OF(g, OP_MAX, OP_CONST, OP_YIELD);
        r[k] = combined(&in, i->blocks[0], n, k, (ints || k < n - 1) && chance(g, 40) ? OP_ADD : op, maps);
    }
    ir_build(&in, OP_YIELD, r, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) keep(g, &i->results[k], 0, ints || k < n - 1 ? INFINITY : x.mag);
}

static void step_scan(Gen *g)
{
    Val x = pick(g, is_exact_tile);
    if (!x.v) return;
    int axis = below(g, x.v->type->rank);
    double n = (double)x.v->type->shape[axis];
    Op op = (Op)ONE_OF(g, OP_SCAN_SUM, OP_SCAN_MAX, OP_SCAN_PROD);
    if (op == OP_SCAN_PROD && !is_integer(&x)) op = OP_SCAN_MAX;
    if (op == OP_SCAN_SUM && !is_integer(&x) && x.mag * n > exact_limit(x.v->type->dtype)) op = OP_SCAN_MAX;
    keep_settled(g,
        ir_emit(&g->b, op, &x.v, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_REVERSE, chance(g, 30))), NULL),
        0,
        is_integer(&x)      ? INFINITY
        : op == OP_SCAN_SUM ? x.mag * n
                            : x.mag);
}

static void step_sort(Gen *g)
{
    Val x = pick(g, is_exact_tile);
    if (!x.v || (g->flags & GEN_NO_SORT)) return;
    const Type *t = x.v->type;
    if (chance(g, 50)) {
        keep(g, ir_emit(&g->b, OP_SORT, &x.v, 1, ATTRS(a_int(ATTR_REVERSE, chance(g, 50))), NULL), 0, x.mag);
        return;
    }
    Instr *i = ir_build(
        &g->b, OP_TOPK, &x.v, 1, ATTRS(a_int(ATTR_COUNT, 1 + below(g, (int)t->shape[t->rank - 1]))), NULL, 0);
    keep(g, &i->results[0], 0, x.mag);
    keep(g, &i->results[1], 0, (double)t->shape[t->rank - 1]);
}

static void step_shape(Gen *g)
{
    Val x = pick(g, is_tile);
    if (!x.v) return;
    const Type *t = x.v->type;
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    int axis = below(g, t->rank);
    switch (below(g, 5)) {
    case 0: {
        int64_t order[TILE_MAX_RANK];
        for (int a = 0; a < t->rank; a++) order[a] = a;
        for (int a = t->rank - 1; a > 0; a--) {
            int j = below(g, a + 1);
            int64_t o = order[a];
            order[a] = order[j];
            order[j] = o;
        }
        keep(g, ir_emit(&g->b, OP_PERMUTE, &x.v, 1, ATTRS(a_ints(ATTR_ORDER, order, t->rank)), NULL), x.taint,
            x.mag);
        break;
    }
    case 1: {
        int64_t n = type_elements(t), flat[3] = { n, 1, 1 };
        int rank = 1;
        for (int64_t d = 2; d <= 4; d++)
            if (n % d == 0 && chance(g, 40)) {
                flat[0] = d;
                flat[1] = n / d;
                rank = 2;
            }
        keep(g, ir_op(&g->b, OP_RESHAPE, type_tile(g->s, t->dtype, rank, flat), NO_ATTRS, x.v), x.taint,
            x.mag);
        break;
    }
    case 2: {
        int64_t extent = (g->flags & GEN_POW2) ? (shape[axis] + 1) / 2 : 1 + below(g, (int)shape[axis]),
                start = below(g, (int)(t->shape[axis] - extent + 1));
        shape[axis] = extent;
        keep(g,
            ir_emit(&g->b, OP_SLICE, &x.v, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, start)),
                type_tile(g->s, t->dtype, t->rank, shape)),
            x.taint, x.mag);
        break;
    }
    case 3: {
        if (shape[axis] > 32) break;
        Val y = like(g, t);
        Value *ops[2] = { x.v, y.v };
        keep(g, ir_emit(&g->b, OP_CONCAT, ops, 2, ATTRS(a_int(ATTR_AXIS, axis)), NULL), x.taint,
            fmax(x.mag, y.mag));
        break;
    }
    default:
        if (shape[axis] != 1) break;
        shape[axis] = axis == t->rank - 1 ? g->tn : g->tm;
        keep(g, ir_op(&g->b, OP_BROADCAST, type_tile(g->s, t->dtype, t->rank, shape), NO_ATTRS, x.v), x.taint,
            x.mag);
    }
}

static void step_philox(Gen *g)
{
    Val x = pick(g, is_integer);
    if (!x.v) return;
    Value *seed = fill(g, x.v->type, ir_const_int(&g->b, chance(g, 50) ? DT_U64 : DT_U32, below(g, 1000)));
    keep(g, ir_bin(&g->b, OP_PHILOX, seed, x.v), 0, INFINITY);
}

/* --- memory ------------------------------------------------------------------------------------------ */

static Value *offset(Gen *g, Value *base)
{
    int c = below(g, 10) - 3;
    Val x = chance(g, 20) ? pick(g, is_index_scalar) : (Val){ 0 };
    if (x.v) return clamped(g, x.v, -5, 40);
    return chance(g, 50) ? base : ir_bin(&g->b, OP_ADD, base, ir_index(&g->b, c));
}

static double param_mag(Gen *g, int p)
{
    DType d = g->f->params[p].type->dtype;
    return dtype_is_float(d) || p == P_I ? 4 : INFINITY;
}

static Val load_window(Gen *g, int p, int64_t m, int64_t n)
{
    Value *ops[8] = { g->f->body->args[p] };
    int k = 1;
    Attr attrs[6];
    int64_t extents[2] = { m, n }, steps[2] = { chance(g, 15) ? 2 : 1, chance(g, 15) ? 3 : 1 },
            order[2] = { 1, 0 };
    int na = 0, dropped = chance(g, 15) ? below(g, 2) : -1;
    ops[k++] = offset(g, g->row);
    ops[k++] = offset(g, g->col);
    if (dropped >= 0) extents[dropped] = -1;
    attrs[na++] = a_ints(ATTR_EXTENTS, extents, 2);
    if (chance(g, 25)) attrs[na++] = a_ints(ATTR_STEPS, steps, 2);
    if (chance(g, 25) && dropped < 0) attrs[na++] = a_ints(ATTR_ORDER, order, 2);
    if (chance(g, 25)) attrs[na++] = a_int(ATTR_LATENCY, 1 + below(g, 4));
    if (chance(g, 40)) {
        ops[k++] = constant(g, g->f->params[p].type->dtype, below(g, 4));
        attrs[na++] = a_int(ATTR_HAS_PAD, 1);
    }
    return keep(g, ir_emit(&g->b, OP_LOAD, ops, k, (Attrs){ attrs, na }, NULL), 0, param_mag(g, p));
}

static void step_load(Gen *g) { load_window(g, ONE_OF(g, P_A, P_J, P_A), g->tm, g->tn); }

static void step_gather(Gen *g)
{
    Val i = pick(g, is_integer);
    if (!i.v || type_elements(i.v->type) > 4096) return;
    Value *ops[5] = { g->f->body->args[P_I], i.v };
    int n = 2, na = 0;
    Attr attrs[2];
    if (chance(g, 50)) {
        ops[n++] = like(g, type_with_dtype(g->s, i.v->type, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    if (chance(g, 50)) {
        ops[n++] = ir_const_int(&g->b, DT_I32, below(g, 5));
        attrs[na++] = a_int(ATTR_HAS_PAD, 1);
    }
    keep(g, ir_emit(&g->b, OP_GATHER, ops, n, (Attrs){ attrs, na }, NULL), 0, 4);
}

/* All or a part of this program's own tile: parts overlap one another. */
static void step_own_tile(Gen *g)
{
    int64_t extents[2] = { g->tm, g->tn };
    Value *w = g->f->body->args[P_W], *at[2] = { g->row, g->col };
    for (int a = 0; a < 2 && chance(g, 40); a++) {
        int from = (g->flags & GEN_POW2) ? (int)extents[a] / 2 * below(g, 2) : below(g, (int)extents[a]);
        if (from) at[a] = ir_bin(&g->b, OP_ADD, at[a], ir_index(&g->b, from));
        extents[a] =
            (g->flags & GEN_POW2) && extents[a] > 1 ? extents[a] / 2 : 1 + below(g, (int)extents[a] - from);
    }
    if (chance(g, 50)) {
        Value *ops[4] = { w, at[0], at[1], g->tok_w };
        Instr *i = ir_build(&g->b, OP_LOAD, ops, 4, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0);
        g->tok_w = &i->results[1];
        keep(g, &i->results[0], 0, dtype_is_float(g->w_type) ? 4 : INFINITY);
        return;
    }
    Val x = like(g, type_tile(g->s, g->w_type, 2, extents));
    if (x.mag > 4 && dtype_is_float(g->w_type)) x.v = clamped(g, x.v, -4, 4);
    Value *ops[5] = { w, at[0], at[1], x.v, g->tok_w };
    g->tok_w = ir_result(ir_build(&g->b, OP_STORE, ops, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0));
}

static void step_atomic(Gen *g)
{
    Val i = pick(g, is_integer);
    if (!i.v || (g->flags & GEN_NO_ATOMICS) || type_elements(i.v->type) > 4096) return;
    Value *ops[5] = { g->f->body->args[P_H], i.v, like(g, type_with_dtype(g->s, i.v->type, DT_I32)).v };
    int n = 3, na = 1;
    Attr attrs[2] = { a_int(
        ATTR_RMW, g->rmw) }; /* one operation a tensor, so that the order does not matter */
    if (chance(g, 50)) {
        ops[n++] = like(g, type_with_dtype(g->s, i.v->type, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    ops[n++] = g->tok_h;
    g->tok_h = &ir_build(&g->b, OP_ATOMIC_RMW, ops, n, (Attrs){ attrs, na }, NULL, 0)->results[1];
}

/* start, start + step, ... along one axis of [TM, TN], as index. */
static Value *along(Gen *g, int axis, Value *start, bool backwards)
{
    int64_t shape[2] = { g->tm, g->tn }, line[2] = { axis ? 1 : g->tm, axis ? g->tn : 1 }, n = shape[axis];
    const Type *flat = type_tile(g->s, DT_INDEX, 1, &n);
    Value *r = ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), flat);
    if (backwards) r = ir_bin(&g->b, OP_SUB, ir_splat(&g->b, ir_index(&g->b, n - 1), 1, &n), r);
    r = ir_bin(&g->b, OP_ADD, r, ir_splat(&g->b, start, 1, &n));
    r = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, DT_INDEX, 2, line), NO_ATTRS, r);
    return ir_op(&g->b, OP_BROADCAST, type_tile(g->s, DT_INDEX, 2, shape), NO_ATTRS, r);
}

/* Into this program's own tile by index tiles, each element at most once, so that no order matters. */
static void step_scatter(Gen *g)
{
    int64_t shape[2] = { g->tm, g->tn };
    bool cas = g->w_type == DT_I32 && chance(g, 50) && !(g->flags & GEN_NO_ATOMICS);
    const Type *t = type_tile(g->s, g->w_type, 2, shape);
    Value *ops[7] = { g->f->body->args[P_W], along(g, 0, g->row, chance(g, 50)),
        along(g, 1, g->col, chance(g, 50)) };
    int n = 3, na = 0;
    Attr attrs[1];
    for (int k = 0; k < 1 + cas; k++) {
        Val x = like(g, t);
        ops[n++] = dtype_is_float(g->w_type) && x.mag > 4 ? clamped(g, x.v, -4, 4) : x.v;
    }
    if (chance(g, 60)) {
        ops[n++] = like(g, type_with_dtype(g->s, t, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    ops[n++] = g->tok_w;
    Instr *i = ir_build(&g->b, cas ? OP_ATOMIC_CAS : OP_SCATTER, ops, n, (Attrs){ attrs, na }, NULL, 0);
    g->tok_w = &i->results[i->n_results - 1];
    if (cas) keep(g, &i->results[0], 0, INFINITY);
}

/* An atomic that orders both tensors: the chains join before it and part after it. */
static void step_acquire(Gen *g)
{
    if (g->flags & GEN_NO_ATOMICS) return;
    Value *both[2] = { g->tok_w, g->tok_h };
    Value *ops[4] = { g->f->body->args[P_H], ir_index(&g->b, below(g, 8)),
        ir_const_int(&g->b, DT_I32, below(g, 5)), ir_emit(&g->b, OP_JOIN_TOKENS, both, 2, NO_ATTRS, NULL) };
    Instr *i = ir_build(
        &g->b, OP_ATOMIC_RMW, ops, 4, ATTRS(a_int(ATTR_RMW, g->rmw), a_int(ATTR_SEM, SEM_ACQ_REL)), NULL, 0);
    g->tok_w = g->tok_h = &i->results[1];
}

static void step_launch(Gen *g)
{
    if (chance(g, 50))
        keep(g, ir_emit(&g->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, below(g, 3) - 1)), NULL), 0,
            INFINITY);
    else keep(g, ir_emit(&g->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, below(g, 5))), NULL), 0, INFINITY);
}

static void step_bitcast(Gen *g)
{
    Val x = pick(g, is_integer);
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
        keep(g, ir_op(&g->b, OP_BITCAST, type_with_dtype(g->s, x.v->type, d), NO_ATTRS, x.v), 0, INFINITY);
}

/* --- control ----------------------------------------------------------------------------------------- */

static void steps(Gen *g, int n);

/* A window as an operand of a product; turned: one of other elements, read across. Sometimes it goes through
 * arithmetic first. */
static Value *operand(Gen *g, Value *const *ops, const int64_t *extents, bool turned)
{
    int64_t across[2] = { extents[1], extents[0] }, order[2] = { 1, 0 };
    Value *swapped[3] = { ops[0], ops[2], ops[1] };
    Attr attrs[3] = { a_ints(ATTR_EXTENTS, turned ? across : extents, 2),
        a_int(ATTR_LATENCY, 1 + below(g, 3)), a_ints(ATTR_ORDER, order, 2) };
    Value *v =
        ir_emit(&g->b, OP_LOAD, turned ? swapped : (Value **)ops, 3, (Attrs){ attrs, turned ? 3 : 2 }, NULL);
    return chance(g, 20) ? ir_bin(&g->b, OP_MIN, v, fill(g, v->type, constant(g, v->type->dtype, 2))) : v;
}

/* A product of two windows (of A, cast), summed over a loop or alone. */
static void step_mma(Gen *g)
{
    int64_t shape[2] = { g->tm, g->tn };
    DType d = g->mma_type[0], acc_type = d == DT_F64 ? DT_F64 : dtype_is_int(d) ? DT_I32 : DT_F32;
    Value *acc = fill(g, type_tile(g->s, acc_type, 2, shape), constant(g, acc_type, below(g, 3)));
    Value *zero = ir_index(&g->b, 0), *one = ir_index(&g->b, 1), *size = ir_index(&g->b, g->tk);
    Value *trips =
        chance(g, 50)
            ? ir_index(&g->b, below(g, 4))
            : ir_bin(&g->b, OP_CDIV, ir_emit(&g->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, 2)), NULL), size);
    Value *init[4] = { zero, trips, one, acc };
    Instr *loop = ir_build(&g->b, OP_FOR, init, 4, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    g->b = ir_at_end(loop->blocks[0]);
    Value *at = ir_bin(&g->b, OP_MUL, loop->blocks[0]->args[0], size);
    int64_t ea[2] = { g->tm, g->tk }, eb[2] = { g->tk, g->tn };
    Value *oa[3] = { g->f->body->args[P_B], g->row, at }, *ob[3] = { g->f->body->args[P_C], at, g->col };
    Value *a = operand(g, oa, ea, chance(g, 30)), *b = operand(g, ob, eb, chance(g, 30));
    bool tf32 = d == DT_F32 && chance(g, 50); /* small whole numbers are exact in tf32 */
    Value *next = ir_op(&g->b, OP_MMA, NULL,
        ATTRS(a_int(ATTR_PRECISION, tf32 ? PRECISION_TF32 : PRECISION_FULL)), a, b, loop->blocks[0]->args[1]);
    ir_build(&g->b, OP_YIELD, &next, 1, NO_ATTRS, NULL, 0);
    g->b = outer;
    keep_settled(g, ir_result(loop), 0, acc_type == DT_I32 ? INFINITY : 3 + 3 * 16 * (double)g->tk);
}

/* Values to carry: exact, floats within what every round can promise. */
static int carried(Gen *g, Value **out, int most)
{
    int n = 0;
    for (int k = 0; k < most; k++) {
        Val x = pick(g, chance(g, 70) ? is_number : is_any);
        if (!x.v || x.taint) continue;
        out[n++] = dtype_is_float(x.v->type->dtype) && x.mag > 4 ? clamped(g, x.v, -4, 4) : x.v;
    }
    return n;
}

static Value *promised(Gen *g, const Type *t)
{
    Val x = like(g, t);
    return dtype_is_float(t->dtype) && x.mag > 4 ? clamped(g, x.v, -4, 4) : x.v;
}

static double carried_mag(const Type *t) { return dtype_is_float(t->dtype) ? 4 : INFINITY; }

static void step_for(Gen *g)
{
    Value *ops[12], *yields[8];
    int n = 5;
    ops[0] = ir_index(&g->b, below(g, 3) - 1);
    ops[1] = chance(g, 50) ? g->f->body->args[P_N] : ir_index(&g->b, below(g, 5));
    ops[2] = ir_index(&g->b, 1 + below(g, 2));
    ops[3] = g->tok_w;
    ops[4] = g->tok_h;
    n += carried(g, ops + n, 1 + below(g, 3));
    Instr *loop = ir_build(&g->b, OP_FOR, ops, n, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    int pool = g->n_pool;
    Block *b = loop->blocks[0];
    g->b = ir_at_end(b);
    g->tok_w = b->args[1];
    g->tok_h = b->args[2];
    keep(g, b->args[0], 0, 8);
    for (int k = 3; k < b->n_args; k++) keep(g, b->args[k], 0, carried_mag(b->args[k]->type));
    steps(g, 3 + below(g, 5));
    for (int k = 3; k < b->n_args; k++) yields[k - 1] = promised(g, b->args[k]->type);
    yields[0] = g->tok_w;
    yields[1] = g->tok_h;
    ir_build(&g->b, OP_YIELD, yields, b->n_args - 1, NO_ATTRS, NULL, 0);
    g->b = outer;
    g->n_pool = pool;
    g->tok_w = &loop->results[0];
    g->tok_h = &loop->results[1];
    for (int k = 2; k < loop->n_results; k++)
        keep(g, &loop->results[k], 0, carried_mag(loop->results[k].type));
}

static Value *condition(Gen *g)
{
    Val c = chance(g, 50) ? pick(g, is_bool_scalar) : (Val){ 0 };
    if (c.v) return c.v;
    Val x = pick(g, is_exact_scalar);
    if (!x.v) return ir_const_int(&g->b, DT_BOOL, 1);
    return ir_bin(&g->b, (Op)ONE_OF(g, OP_LT, OP_GE, OP_EQ), x.v, like(g, x.v->type).v);
}

static void step_if(Gen *g)
{
    const Type *types[8];
    int n = 2;
    Value *c = condition(g);
    types[0] = types[1] = type_token(g->s);
    Value *some[4];
    int extra = carried(g, some, below(g, 3));
    for (int k = 0; k < extra; k++) types[n++] = some[k]->type;
    Instr *i = ir_build(&g->b, OP_IF, &c, 1, NO_ATTRS, types, n);
    Builder outer = g->b;
    Value *tok_w = g->tok_w, *tok_h = g->tok_h;
    int pool = g->n_pool;
    for (int k = 0; k < 2; k++) {
        Value *yields[8];
        g->b = ir_at_end(i->blocks[k]);
        g->tok_w = tok_w;
        g->tok_h = tok_h;
        if (k == 0 || chance(g, 60)) steps(g, 2 + below(g, 4));
        for (int r = 2; r < n; r++) yields[r] = promised(g, types[r]);
        yields[0] = g->tok_w;
        yields[1] = g->tok_h;
        ir_build(&g->b, OP_YIELD, yields, n, NO_ATTRS, NULL, 0);
        g->n_pool = pool;
    }
    g->b = outer;
    g->tok_w = &i->results[0];
    g->tok_h = &i->results[1];
    for (int r = 2; r < n; r++) keep(g, &i->results[r], 0, carried_mag(types[r]));
}

static void step_while(Gen *g)
{
    if (g->flags & GEN_NO_WHILE) return;
    Value *ops[8] = { ir_const_int(&g->b, DT_I32, below(g, 4)), g->tok_w, g->tok_h }, *passed[9], *yields[8];
    int n = 3 + carried(g, ops + 3, 1 + below(g, 2));
    Value *step = ir_const_int(&g->b, DT_I32, 1), *limit = ir_const_int(&g->b, DT_I32, 3);
    Instr *i = ir_build(&g->b, OP_WHILE, ops, n, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    int pool = g->n_pool;
    g->b = ir_at_end(i->blocks[0]);
    passed[0] = ir_bin(&g->b, OP_LT, i->blocks[0]->args[0], limit);
    for (int k = 0; k < n; k++) passed[k + 1] = i->blocks[0]->args[k];
    ir_build(&g->b, OP_CONDITION, passed, n + 1, NO_ATTRS, NULL, 0);
    Block *b = i->blocks[1];
    g->b = ir_at_end(b);
    g->tok_w = b->args[1];
    g->tok_h = b->args[2];
    for (int k = 3; k < n; k++) keep(g, b->args[k], 0, carried_mag(b->args[k]->type));
    steps(g, 2 + below(g, 4));
    for (int k = 3; k < n; k++) yields[k] = promised(g, b->args[k]->type);
    yields[0] = ir_bin(&g->b, OP_ADD, b->args[0], step);
    yields[1] = g->tok_w;
    yields[2] = g->tok_h;
    ir_build(&g->b, OP_YIELD, yields, n, NO_ATTRS, NULL, 0);
    g->b = outer;
    g->n_pool = pool;
    g->tok_w = &i->results[1];
    g->tok_h = &i->results[2];
    for (int k = 3; k < n; k++) keep(g, &i->results[k], 0, carried_mag(i->results[k].type));
}

static void steps(Gen *g, int n)
{
    static void (*const all[])(Gen *) = {
        step_unary,
        step_binary,
        step_binary,
        step_binary,
        step_ternary,
        step_ternary,
        step_where,
        step_logic,
        step_function,
        step_function,
        step_cast,
        step_cast,
        step_reduce,
        step_reduce,
        step_reduce_block,
        step_scan,
        step_sort,
        step_shape,
        step_shape,
        step_philox,
        step_load,
        step_gather,
        step_own_tile,
        step_atomic,
        step_scatter,
        step_acquire,
        step_launch,
        step_bitcast,
        step_mma,
        step_for,
        step_for,
        step_if,
        step_while,
    };
    enum { N = sizeof all / sizeof *all };
    g->depth++;
    for (int k = 0; k < n && g->budget > 0; k++, g->budget--) {
        int s = below(g, N);
        if (g->depth > 3 && s >= N - 5) s = below(g, N - 5);
        all[s](g);
    }
    g->depth--;
}

/* --- kernels ----------------------------------------------------------------------------------------- */

static int64_t extent(Gen *g, int64_t most)
{
    if (g->flags & GEN_BIG_TILES) most *= 4;
    if (!(g->flags & GEN_POW2)) return 1 + below(g, (int)most);
    int64_t e = 1;
    while (e < most && chance(g, 75)) e *= 2;
    return e;
}

static void make_params(Gen *g)
{
    Func *f = g->f;
    int m = ir_dim_new(f, "M", -1), n = ir_dim_new(f, "N", -1), k = ir_dim_new(f, "K", -1),
        l = ir_dim_new(f, "L", -1), h = ir_dim_new(f, NULL, 8);
    DType d =
        (DType)ONE_OF(g, DT_F16, DT_F16, DT_BF16, DT_F32, DT_F32, DT_I8, DT_U8, DT_F64, DT_F8E4M3, DT_F8E5M2);
    if ((g->flags & GEN_NO_WIDE) && d == DT_F64) d = DT_F16;
    if ((g->flags & GEN_NO_FP8) && dtype_is_float(d) && dtype_bits(d) == 8) d = DT_BF16;
    g->mma_type[0] = g->mma_type[1] = d;
    if (dtype_bits(d) == 8 && chance(g, 40))
        g->mma_type[1] = d == DT_I8 ? DT_U8 : d == DT_U8 ? DT_I8 : d == DT_F8E4M3 ? DT_F8E5M2 : DT_F8E4M3;
    g->rmw = ONE_OF(g, RMW_ADD, RMW_ADD, RMW_MAX, RMW_MIN, RMW_AND, RMW_OR, RMW_XOR);
    g->j_type = any_int(g);
    if (g->j_type == DT_INDEX) g->j_type = DT_I32;
    g->w_type = chance(g, 35) ? DT_F32 : chance(g, 50) ? DT_I32 : chance(g, 50) ? any_float(g) : any_int(g);
    if (g->w_type == DT_INDEX) g->w_type = DT_U8;
    ir_param_new(
        f, "A", PARAM_IN, type_tensor(g->s, chance(g, 50) ? DT_F32 : any_float(g), 2), (int[]){ m, n });
    ir_param_new(f, "B", PARAM_IN, type_tensor(g->s, g->mma_type[0], 2), (int[]){ m, k });
    ir_param_new(f, "C", PARAM_IN, type_tensor(g->s, g->mma_type[1], 2), (int[]){ k, n });
    ir_param_new(f, "I", PARAM_IN, type_tensor(g->s, DT_I32, 1), (int[]){ l });
    ir_param_new(f, "J", PARAM_IN, type_tensor(g->s, g->j_type, 2), (int[]){ m, n });
    ir_param_new(f, "W", PARAM_INOUT, type_tensor(g->s, g->w_type, 2), (int[]){ m, n });
    ir_param_new(f, "H", PARAM_INOUT, type_tensor(g->s, DT_I32, 1), (int[]){ h });
    ir_param_new(f, "n", PARAM_SCALAR, type_scalar(g->s, DT_INDEX), NULL);
    ir_param_new(f, "alpha", PARAM_SCALAR, type_scalar(g->s, DT_F32), NULL);
    g->out_type[0] = DT_F32;
    g->out_type[1] = DT_I32;
    g->out_type[2] = any_float(g);
    g->out_type[3] = any_int(g);
    for (int o = 0; o < N_OUT; o++) {
        if (g->out_type[o] == DT_INDEX) g->out_type[o] = DT_U16;
        ir_param_new(f, (const char *[]){ "O0", "O1", "O2", "O3" }[o], PARAM_OUT,
            type_tensor(g->s, g->out_type[o], 2), (int[]){ m, n });
    }
    f->params[P_N].lo = 0;
    f->params[P_N].hi = 5;
    f->params[P_ALPHA].lo = -3;
    f->fits32 = chance(g, 60);
    f->extents31 = chance(g, 60);
    for (int p = 0; p < f->n_params; p++) {
        Param *q = &f->params[p];
        if (q->type->kind != TYPE_TENSOR) continue;
        if (chance(g, 70)) q->stride[q->type->rank - 1] = 1;
        if (q->type->rank == 2 && chance(g, 40)) q->stride_div[0] = 16;
        if (chance(g, 50)) q->align = 16;
    }
    if (chance(g, 30)) f->dims[m].div = g->tm;
    if (chance(g, 30)) f->dims[n].div = g->tn;
}

static void make_grid(Gen *g)
{
    Func *f = g->f;
    f->grid = ir_block_new(f, NULL);
    for (int p = 0; p < f->n_params; p++) ir_block_arg(f->grid, f->params[p].type, f->params[p].name);
    Builder b = ir_at_end(f->grid);
    Value *axes[2];
    for (int a = 0; a < 2; a++)
        axes[a] = ir_bin(&b, OP_CDIV, ir_emit(&b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, a)), NULL),
            ir_index(&b, a ? g->tn : g->tm));
    ir_build(&b, OP_YIELD, axes, 2, NO_ATTRS, NULL, 0);
}

/* Any value as a tile [TM, TN]. */
static Value *as_tile(Gen *g, Value *v)
{
    int64_t shape[2] = { g->tm, g->tn };
    const Type *t = v->type, *want = type_tile(g->s, t->dtype, 2, shape);
    if (t == want) return v;
    if (t->kind == TYPE_TILE && t->rank == 2 && (t->shape[0] == 1 || t->shape[0] == g->tm) &&
        (t->shape[1] == 1 || t->shape[1] == g->tn))
        return ir_op(&g->b, OP_BROADCAST, want, NO_ATTRS, v);
    if (t->kind == TYPE_TILE) {
        int64_t n = type_elements(t);
        Value *flat = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, t->dtype, 1, &n), NO_ATTRS, v);
        v = ir_op(&g->b, OP_REDUCE_MAX, NULL, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 1)), flat);
    }
    return fill(g, want, v);
}

static void make_outputs(Gen *g, GenKernel *k)
{
    int64_t extents[2] = { g->tm, g->tn };
    for (int o = 0; o < N_OUT; o++) {
        Val x = pick(g, is_number);
        DType d = g->out_type[o];
        if (!dtype_is_float(d) || dtype_bits(d) == 8) x = pick(g, is_exact_number);
        if (dtype_is_float(d) && x.mag > exact_limit(d))
            x.v = dtype_is_signed(x.v->type->dtype) || x.taint || dtype_is_float(x.v->type->dtype)
                      ? clamped(g, x.v, -4, 4)
                      : clamped(g, x.v, 0, 4);
        Value *v = ir_cast(&g->b, as_tile(g, x.v), d),
              *t = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_OUT + o)), NULL);
        Value *ops[5] = { g->f->body->args[P_OUT + o], g->row, g->col, v, t };
        ir_build(&g->b, OP_STORE, ops, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0);
        k->exact[P_OUT + o] = !x.taint;
    }
    ir_build(&g->b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
}

static void make_body(Gen *g, GenKernel *k)
{
    Func *f = g->f;
    g->b = ir_at_end(f->body);
    Value *pid[2];
    for (int a = 0; a < 2; a++) {
        pid[a] = ir_emit(&g->b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), NULL);
        keep(g, pid[a], 0, INFINITY);
    }
    g->row = ir_bin(&g->b, OP_MUL, pid[0], ir_index(&g->b, g->tm));
    g->col = ir_bin(&g->b, OP_MUL, pid[1], ir_index(&g->b, g->tn));
    ir_set_name(g->row, "row");
    ir_set_name(g->col, "col");
    g->tok_w = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_W)), NULL);
    g->tok_h = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_H)), NULL);
    keep(g, f->body->args[P_N], 0, 5);
    keep(g, f->body->args[P_ALPHA], 0, 3);
    keep(g,
        ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(g->s, DT_I32, 1, &g->tn)),
        0, 64);
    load_window(g, P_A, g->tm, g->tn);
    load_window(g, P_J, g->tm, g->tn);
    steps(g, 12 + below(g, 24));
    make_outputs(g, k);
}

/* --- tensors: of the seed and the kernel's parameters alone, so that they stay when the kernel is cut down
 * --- */

/* Memory for a tensor: rows or columns first (where the facts leave it open), rows padded; element 0 at the
 * promised alignment. */
static void make_tensor(Gen *g, GenKernel *k, int p)
{
    const Param *q = &g->f->params[p];
    InterpArg *a = &k->args[p];
    int rank = q->type->rank, size = dtype_bytes(q->type->dtype);
    bool columns = rank == 2 && q->stride[1] == FACT_UNKNOWN && q->stride_div[0] == 1 && chance(g, 50);
    int64_t inner = columns ? 0 : rank - 1, pitch = a->shape[inner];
    if (rank == 2) {
        if (chance(g, 50)) pitch += below(g, 5);
        if (q->stride_div[0] > 1) pitch = (pitch + 15) / 16 * 16;
        a->stride[1 - inner] = pitch;
    }
    a->stride[inner] = 1;
    int64_t n = rank == 2 ? pitch * a->shape[1 - inner] : a->shape[0];
    uint64_t own = k->seed * 31 + (uint64_t)p;
    int64_t gap = q->stride[inner] == FACT_UNKNOWN && q->stride_div[inner] == 1 && rnd(&own) % 4 == 0
                      ? 1 + (int64_t)(rnd(&own) % 3)
                      : 1;
    bool backwards = gap > 1 && !g->f->fits32 && q->align <= size && rnd(&own) % 2;
    for (int axis = 0; axis < rank; axis++) a->stride[axis] *= gap;
    n *= gap;
    k->bytes[p] = (size_t)(n * size);
    k->memory[p] = arena_alloc(&g->s->arena, k->bytes[p] + 16);
    a->data = k->memory[p];
    if (backwards) { /* the inner axis from its end */
        a->data = k->memory[p] + (a->shape[inner] - 1) * a->stride[inner] * size;
        a->stride[inner] = -a->stride[inner];
    }
}

static void make_args(Gen *g, GenKernel *k)
{
    Func *f = g->f;
    g->rng = k->seed * 0xD1342543DE82EF95ull + 7;
    int64_t dims[5] = { 1 + below(g, 3 * (int)g->tm), 1 + below(g, 3 * (int)g->tn),
        1 + below(g, 3 * (int)g->tk), 1 + below(g, 12), 8 };
    for (int d = 0; d < 2; d++)
        if (f->dims[d].div > 1) dims[d] = (dims[d] + f->dims[d].div - 1) / f->dims[d].div * f->dims[d].div;
    for (int p = 0; p < f->n_params; p++) {
        if (f->params[p].type->kind != TYPE_TENSOR) continue;
        for (int a = 0; a < f->params[p].type->rank; a++) k->args[p].shape[a] = dims[f->params[p].dims[a]];
        make_tensor(g, k, p);
    }
    k->args[P_N].scalar.i = below(g, 6);
    k->args[P_ALPHA].scalar.f = below(g, 7) - 3;
}

static Gen *begin(Session *s, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = arena_new(&s->arena, Gen);
    *k = (GenKernel){ .seed = seed };
    *g = (Gen){ .s = s, .rng = seed * 2654435761u + 12345, .flags = flags, .budget = 90 };
    g->tm = extent(g, 8);
    g->tn = extent(g, 16);
    g->tk = extent(g, 8);
    return g;
}

void gen_kernel(Session *s, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = begin(s, seed, flags, k);
    k->module = ir_module_new(s);
    k->func = g->f = ir_func_new(k->module, "random", true);
    make_params(g);
    make_grid(g);
    k->n = g->f->n_params;
    for (int p = 0; p < k->n; p++) k->exact[p] = true;
    make_body(g, k);
    make_args(g, k);
    gen_fill(k);
}

void gen_replay(Session *s, Module *m, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = begin(s, seed, flags, k);
    k->module = m;
    k->func = g->f = m->funcs;
    k->n = g->f->n_params;
    make_args(g, k);
    gen_fill(k);
}

static bool extremes(uint64_t seed) { return seed >= GEN_EXTREMES && seed % 3 == 0; }
static bool denormals(uint64_t seed) { return seed >= GEN_EXTREMES && seed % 9 == 0; }

/* One element in 16. */
static double extreme_float(uint64_t r, bool small)
{
    static const double usual[] = { NAN, INFINITY, -INFINITY, -0.0 },
                        least[] = { 1e-40, -1e-45, 1.1754942e-38, 6e-8 };
    return small ? least[r % 4] : usual[r % 4];
}

static int64_t extreme_int(DType d, uint64_t r)
{
    const int bits = 8 * dtype_bytes(d);
    const int64_t least = bits < 64 ? -((int64_t)1 << (bits - 1)) : INT64_MIN;
    const int64_t all[] = { least, -(least + 1), -1, least + 1 };
    return all[r % 4];
}

void gen_fill(GenKernel *k)
{
    const bool odd = extremes(k->seed), tiny = denormals(k->seed);
    for (int p = 0; p < k->n; p++) {
        const Type *t = k->func->params[p].type;
        if (t->kind != TYPE_TENSOR) continue;
        uint64_t rng = k->seed ^ (uint64_t)(p + 1) * 0x1234567;
        size_t size = (size_t)dtype_bytes(t->dtype);
        for (size_t at = 0; at + size <= k->bytes[p]; at += size) {
            uint64_t r = rnd(&rng);
            bool small = dtype_is_float(t->dtype) || p == P_I || r >> 60 < 8;
            int64_t v = small ? (int64_t)(r % 9) - 4 : (int64_t)r;
            bool rare = odd && p != P_I && t->dtype != DT_BOOL && r >> 40 & 1 && (r >> 41 & 7) == 0;
            double x =
                rare && dtype_is_float(t->dtype) ? extreme_float(r >> 44, tiny && r >> 50 & 1) : (double)v;
            if (rare && !dtype_is_float(t->dtype)) v = extreme_int(t->dtype, r >> 44);
            scalar_store(t->dtype,
                dtype_is_float(t->dtype) ? scalar_float(x) : scalar_int(scalar_wrap(t->dtype, v)),
                k->memory[p] + at);
        }
    }
}

void *gen_save(Session *s, const GenKernel *k)
{
    size_t n = 0;
    for (int p = 0; p < k->n; p++) n += k->bytes[p];
    char *copy = arena_alloc(&s->arena, n + 1), *at = copy;
    for (int p = 0; p < k->n; p++) {
        if (!k->bytes[p]) continue;
        memcpy(at, k->memory[p], k->bytes[p]);
        at += k->bytes[p];
    }
    return copy;
}

static double tolerance(DType d) { return d == DT_BF16 ? 0.1 : d == DT_F16 ? 0.02 : 1e-4; }

bool gen_same(const GenKernel *k, const void *a, const void *b, char *why, size_t n)
{
    const char *pa = a, *pb = b;
    for (int p = 0; p < k->n; p++) {
        const Param *q = &k->func->params[p];
        size_t size = (size_t)dtype_bytes(q->type->dtype);
        for (size_t at = 0; k->bytes[p] && at + size <= k->bytes[p]; at += size) {
            DType d = q->type->dtype;
            Scalar x = scalar_load(d, pa + at), y = scalar_load(d, pb + at);
            bool same = scalar_bits(d, x) == scalar_bits(d, y);
            if (dtype_is_float(d) && !same) {
                same = isnan(x.f) ? isnan(y.f) : x.f == y.f; /* NaN of any kind; zeros of either sign */
                if (!k->exact[p] || denormals(k->seed))
                    same |= fabs(x.f - y.f) <= tolerance(d) * (1 + fabs(x.f));
            }
            if (same) continue;
            if (dtype_is_float(d))
                snprintf(why, n, "%s, element %zu of memory: %.9g and %.9g%s", q->name, at / size, x.f, y.f,
                    k->exact[p] ? " (exact)" : "");
            else
                snprintf(why, n, "%s, element %zu of memory: %lld and %lld", q->name, at / size,
                    (long long)x.i, (long long)y.i);
            return false;
        }
        pa += k->bytes[p];
        pb += k->bytes[p];
    }
    return true;
}
