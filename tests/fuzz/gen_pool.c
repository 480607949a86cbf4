/* gen_pool.c: the pool of values of a program under construction (gen_ir.h), and values made up beside it. */
#include "gen_state.h"

uint64_t irgen_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

Val irgen_keep(Gen *g, Value *v, int taint, double mag)
{
    Val x = { v, taint, mag };
    if (g->n_pool < POOL) g->pool[g->n_pool++] = x;
    return x;
}

/* Integers of this magnitude and below are exact in the dtype. */
double irgen_exact_limit(DType d)
{
    static const double limits[DT_COUNT] = {
        [DT_F8E4M3] = 16, [DT_F8E5M2] = 8, [DT_BF16] = 256, [DT_F16] = 2048
    };
    return limits[d] > 0 ? limits[d] : 1 << 24;
}

int irgen_sum_taint(const Gen *g, const Val *x, int taint)
{ return g->tiny && !taint && dtype_is_float(x->v->type->dtype) ? 1 : taint; }

Value *irgen_constant(Gen *g, DType d, int v)
{ return dtype_is_float(d) ? ir_const_float(&g->b, d, v) : ir_const_int(&g->b, d, v); }

Value *irgen_splat(Gen *g, const Type *t, Value *scalar)
{ return t->kind == TYPE_TILE ? ir_splat(&g->b, scalar, t->rank, t->shape) : scalar; }

Value *irgen_clamped(Gen *g, Value *v, int lo, int hi)
{
    DType d = v->type->dtype;
    return ir_op(&g->b, OP_CLAMP, NULL, NO_ATTRS, v, irgen_splat(g, v->type, irgen_constant(g, d, lo)),
        irgen_splat(g, v->type, irgen_constant(g, d, hi)));
}

/* The value with a magnitude its dtype holds exactly, with room for a step or two. */
static Val settle(Gen *g, Val x)
{
    DType d = x.v->type->dtype;
    if (!dtype_is_float(d) || x.mag <= (x.taint ? 64 : irgen_exact_limit(d) / 2)) return x;
    return (Val){ irgen_clamped(g, x.v, -4, 4), x.taint, 4 };
}

Val irgen_keep_settled(Gen *g, Value *v, int taint, double mag)
{
    Val x = settle(g, (Val){ v, taint, mag });
    return irgen_keep(g, x.v, x.taint, x.mag);
}

static bool wide(DType d) { return d == DT_F64 || (dtype_bits(d) == 64 && d != DT_INDEX); }

DType irgen_any_int(Gen *g)
{
    DType d =
        (DType)ONE_OF(g, DT_I8, DT_I16, DT_I32, DT_I32, DT_I64, DT_U8, DT_U16, DT_U32, DT_U64, DT_INDEX);
    return (g->flags & GEN_NO_WIDE) && wide(d) ? DT_I32 : d;
}

DType irgen_any_float(Gen *g)
{
    DType d = (DType)ONE_OF(g, DT_F32, DT_F32, DT_F16, DT_BF16, DT_F64, DT_F8E4M3, DT_F8E5M2);
    if ((g->flags & GEN_NO_WIDE) && d == DT_F64) d = DT_F32;
    if ((g->flags & GEN_NO_FP8) && dtype_bits(d) == 8) d = DT_F16;
    return d;
}

/* A random value for which `fits` holds; v == NULL when there is none. */
Val irgen_pick(Gen *g, bool (*fits)(const Val *))
{
    for (int k = 0; k < 12 && g->n_pool; k++) {
        int n = g->n_pool, at = irgen_chance(g, 60) && n > 8 ? n - 1 - irgen_below(g, 8) : irgen_below(g, n);
        if (fits(&g->pool[at])) return g->pool[at];
    }
    for (int k = g->n_pool - 1; k >= 0; k--)
        if (fits(&g->pool[k])) return g->pool[k];
    return (Val){ NULL, 0, 0 };
}

/* An exact value of just this type, of the pool or made up. */
Val irgen_like(Gen *g, const Type *t)
{
    for (int k = 0; k < 10 && g->n_pool && irgen_chance(g, 90); k++) {
        const Val *x = &g->pool[g->n_pool - 1 - irgen_below(g, g->n_pool)];
        if (x->v->type == t && !x->taint) return *x;
    }
    if (t->dtype == DT_BOOL)
        return (Val){ irgen_splat(g, t, ir_const_int(&g->b, DT_BOOL, irgen_chance(g, 50))), 0, 1 };
    if (t->kind == TYPE_TILE && t->rank > 1 && irgen_chance(g, 40)) {
        int64_t shape[TILE_MAX_RANK] = { 0 };
        int axis = irgen_below(g, t->rank);
        for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? t->shape[a] : 1;
        Value *r = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, DT_INDEX, t->rank, shape), NO_ATTRS,
            ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, -2)),
                type_tile(g->s, DT_INDEX, 1, &t->shape[axis])));
        r = ir_cast(&g->b, irgen_clamped(g, r, -4, 4), t->dtype);
        return (
            Val){ ir_op(&g->b, OP_BROADCAST, t, NO_ATTRS, r), 0, dtype_is_float(t->dtype) ? 4 : INFINITY };
    }
    int c = irgen_below(g, 9) - 4;
    return (Val){ irgen_splat(g, t, irgen_constant(g, t->dtype, c)), 0,
        dtype_is_float(t->dtype) || c >= 0 ? 4 : INFINITY };
}
