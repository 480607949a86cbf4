/* typerule_memory.c: the type rules of loads, stores, gathers, scatters and atomics. */
#include "ir/verify/typerule.h"

/* Walks the operands of a memory operation: tensor, one index a axis, n_values values, mask, pad, token. */
typedef struct MemOperands {
    int rank, values, mask, pad, token;
} MemOperands;

static const char *mem_operands(Rule *r, int n_values, MemOperands *m)
{
    if (r->n < 1 || T(r, 0)->kind != TYPE_TENSOR) WHY("the first operand must be a tensor");
    int k = 1;
    m->rank = T(r, 0)->rank;
    k += m->rank;
    m->values = k;
    k += n_values;
    m->mask = m->pad = m->token = -1;
    if (rule_attr_int(r, ATTR_HAS_MASK, 0)) m->mask = k++;
    if (rule_attr_int(r, ATTR_HAS_PAD, 0)) m->pad = k++;
    if (k < r->n && T(r, k)->kind == TYPE_TOKEN) m->token = k++;
    if (k != r->n) WHY("%d operands, must be %d", r->n, k);
    if (m->pad >= 0 && (T(r, m->pad)->kind != TYPE_SCALAR || T(r, m->pad)->dtype != T(r, 0)->dtype))
        WHY("pad is %s, must be %s", STR(T(r, m->pad)), dtype_name(T(r, 0)->dtype));
    return NULL;
}

static const char *window_type(Rule *r, const MemOperands *m, const Type **out)
{
    const Attr *e = rule_attr(r, ATTR_EXTENTS), *st = rule_attr(r, ATTR_STEPS), *o = rule_attr(r, ATTR_ORDER),
               *inside = rule_attr(r, ATTR_INSIDE);
    int64_t shape[TILE_MAX_RANK], permuted[TILE_MAX_RANK];
    int rank = 0;
    if (!e || e->n != m->rank) WHY("extents must have one entry for each of the %d axes", m->rank);
    if (st && st->n != m->rank) WHY("steps must have one entry for each of the %d axes", m->rank);
    if (inside && inside->n != m->rank) WHY("inside must have one entry for each of the %d axes", m->rank);
    for (int i = 0; i < m->rank; i++) {
        if (!rule_is_offset(T(r, 1 + i)))
            WHY("offset %d is %s, must be an integer scalar", i, STR(T(r, 1 + i)));
        if (e->v[i] == -1) continue;
        if (e->v[i] < 1) WHY("extent %d is %lld", i, (long long)e->v[i]);
        shape[rank++] = e->v[i];
    }
    if (o) {
        TRY(rule_check_order(r, o, rank));
        for (int i = 0; i < rank; i++) permuted[i] = shape[o->v[i]];
        memcpy(shape, permuted, sizeof shape);
    }
    *out = type_value(r->s, T(r, 0)->dtype, rank, shape);
    return NULL;
}

const char *rule_LOAD(Rule *r)
{
    MemOperands m;
    const Type *t;
    TRY(mem_operands(r, 0, &m));
    TRY(window_type(r, &m, &t));
    TRY(rule_give(r, 0, t));
    return m.token >= 0 ? rule_give(r, 1, type_token(r->s)) : NULL;
}

static const char *atomic_dtype(Rule *r, DType d)
{
    bool bits = rule_attr_int(r, ATTR_RMW, 0) == RMW_AND || rule_attr_int(r, ATTR_RMW, 0) == RMW_OR ||
                rule_attr_int(r, ATTR_RMW, 0) == RMW_XOR;
    if (bits && dtype_is_float(d)) WHY("bitwise atomics are for integers, not %s", dtype_name(d));
    if (d == DT_BOOL || (dtype_bits(d) < 32 && d != DT_F16 && d != DT_BF16) ||
        (dtype_bits(d) < 32 && r->op == OP_ATOMIC_CAS))
        WHY("no atomics on %s", dtype_name(d));
    return NULL;
}

const char *rule_STORE(Rule *r)
{
    MemOperands m;
    const Type *t;
    TRY(mem_operands(r, 1, &m));
    if (rule_attr(r, ATTR_RMW)) {
        if (rule_attr_int(r, ATTR_RMW, 0) != RMW_ADD) WHY("a store can add, and combine in no other way");
        TRY(atomic_dtype(r, T(r, 0)->dtype));
    }
    TRY(window_type(r, &m, &t));
    if (!rule_equal_bare(T(r, m.values), t))
        WHY("the value is %s, the window %s", STR(T(r, m.values)), STR(t));
    if (m.token < 0) WHY("a store needs a token");
    const Attr *pixels = rule_attr(r, ATTR_IM2COL);
    if (pixels && (pixels->n != 4 * (T(r, 0)->rank - 2) || !rule_attr(r, ATTR_BULK)))
        WHY("`im2col` is of a store in bulk and has four numbers for each axis of pixels");
    return rule_give(r, 0, type_token(r->s));
}

/* Index tiles of one shape (any integer dtype each); *shape_of is the operand that shows it. */
static const char *index_tiles(Rule *r, const MemOperands *m)
{
    for (int i = 0; i < m->rank; i++) {
        const Type *t = T(r, 1 + i);
        if (!type_is_value(t) || !dtype_is_int(t->dtype))
            WHY("index %d is %s, must be of integers", i, STR(t));
        if (!type_same_shape(t, T(r, 1)))
            WHY("indices are of different shapes: %s and %s", STR(T(r, 1)), STR(t));
    }
    if (m->mask >= 0 && (!type_is_value(T(r, m->mask)) || T(r, m->mask)->dtype != DT_BOOL ||
                            !type_same_shape(T(r, m->mask), T(r, 1))))
        WHY("the mask is %s, must be bool of the indices' shape", STR(T(r, m->mask)));
    return NULL;
}

static const Type *indexed(Rule *r)
{
    const Type *i = T(r, 1);
    return type_value(r->s, T(r, 0)->dtype, i->kind == TYPE_SCALAR ? 0 : i->rank, i->shape);
}

const char *rule_GATHER(Rule *r)
{
    MemOperands m;
    TRY(mem_operands(r, 0, &m));
    if (m.rank < 1) WHY("gather from a tensor of rank 0");
    TRY(index_tiles(r, &m));
    TRY(rule_give(r, 0, indexed(r)));
    return m.token >= 0 ? rule_give(r, 1, type_token(r->s)) : NULL;
}

static const char *indexed_values(Rule *r, MemOperands *m, int n_values)
{
    TRY(mem_operands(r, n_values, m));
    if (m->rank < 1) WHY("a tensor of rank 0 has no indices");
    TRY(index_tiles(r, m));
    for (int k = 0; k < n_values; k++)
        if (!rule_equal_bare(T(r, m->values + k), indexed(r)))
            WHY("the value is %s, must be %s", STR(T(r, m->values + k)), STR(indexed(r)));
    if (m->token < 0) WHY("a token is missing");
    return NULL;
}

const char *rule_SCATTER(Rule *r)
{
    MemOperands m;
    TRY(indexed_values(r, &m, 1));
    return rule_give(r, 0, type_token(r->s));
}

const char *rule_ATOMIC(Rule *r)
{
    MemOperands m;
    if (!rule_attr(r, ATTR_RMW)) WHY("the attribute rmw is missing");
    TRY(indexed_values(r, &m, 1));
    TRY(atomic_dtype(r, T(r, 0)->dtype));
    TRY(rule_give(r, 0, indexed(r)));
    return rule_give(r, 1, type_token(r->s));
}

const char *rule_ATOMIC_CAS(Rule *r)
{
    MemOperands m;
    TRY(indexed_values(r, &m, 2));
    TRY(atomic_dtype(r, T(r, 0)->dtype));
    TRY(rule_give(r, 0, indexed(r)));
    return rule_give(r, 1, type_token(r->s));
}
