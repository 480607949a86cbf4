/* lower_shape.c: calls that change the shape of a tile or move its elements along an axis. */
#include "frontend/lower/lower.h"

V lower_reshape(Lower *l, const Call *c)
{
    Value *x = lower_operand(l, ARG(c, 0));
    int rank;
    int64_t shape[TILE_MAX_RANK];
    if (!x || !lower_const_shape(l, ARG(c, 1), "the shape", &rank, shape)) return value_error();
    const Type *t = lower_tile_type(l, ARG(c, 1)->loc, x->type->dtype, rank, shape);
    return t ? lower_emit(l, c->node->loc, "reshape", OP_RESHAPE, &x, 1, NO_ATTRS, t) : value_error();
}

static V permuted(Lower *l, const Call *c, Value *x, const int64_t *order)
{
    return lower_emit(l, c->node->loc, c->node->name, OP_PERMUTE, &x, 1,
        ATTRS(a_ints(ATTR_ORDER, order, x->type->rank)), NULL);
}

V lower_transpose(Lower *l, const Call *c)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    if (!x) return value_error();
    if (x->type->rank != 2)
        return lower_error_note(l, c->node->loc, "permute(x, (0, 2, 1)) names the axes",
            "`transpose` takes a tile of two axes, not `%s`", type_string(l->s, x->type));
    return permuted(l, c, x, (int64_t[]){ 1, 0 });
}

V lower_permute(Lower *l, const Call *c)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    const Node *order = ARG(c, 1);
    int64_t axes[TILE_MAX_RANK];
    if (!x) return value_error();
    if (order->kind != N_TUPLE || (int)order->n != x->type->rank)
        return lower_error(l, order->loc, "order must be a tuple of the tile's %d axes", x->type->rank);
    for (uint32_t i = 0; i < order->n; i++)
        if (!lower_axis(l, order->kids[i], x->type->rank, &axes[i])) return value_error();
    return permuted(l, c, x, axes);
}

V lower_broadcast(Lower *l, const Call *c)
{
    Value *x = lower_operand(l, ARG(c, 0));
    int rank;
    int64_t shape[TILE_MAX_RANK];
    if (!x || !lower_const_shape(l, ARG(c, 1), "the shape", &rank, shape)) return value_error();
    const Type *t = lower_tile_type(l, ARG(c, 1)->loc, x->type->dtype, rank, shape);
    if (!t) return value_error();
    if (t->kind == TYPE_SCALAR && x->type->kind == TYPE_SCALAR) return value_ir(x);
    if (x->type->kind == TYPE_SCALAR) return value_ir(lower_to_shape(l, x, rank, shape));
    return lower_emit(l, c->node->loc, "broadcast", OP_BROADCAST, &x, 1, NO_ATTRS, t);
}

V lower_concat(Lower *l, const Call *c)
{
    int n = 1 + c->args.n_rest;
    int64_t axis, extent = 0;
    Value **x = arena_array(&l->s->arena, Value *, (size_t)n);
    for (int k = 0; k < n; k++)
        if (!(x[k] = lower_tile_operand(l, c, k ? c->args.rest[k - 1] : ARG(c, 0)))) return value_error();
    if (!lower_axis(l, ARG(c, 1), x[0]->type->rank, &axis)) return value_error();
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, x[0]->type->shape, sizeof shape);
    for (int k = 0; k < n; k++) extent += x[k]->type->rank == x[0]->type->rank ? x[k]->type->shape[axis] : 0;
    shape[axis] = extent;
    if (!lower_tile_type(l, c->node->loc, x[0]->type->dtype, x[0]->type->rank, shape)) return value_error();
    return lower_emit(l, c->node->loc, "concat", OP_CONCAT, x, n, ATTRS(a_int(ATTR_AXIS, axis)), NULL);
}

V lower_split(Lower *l, const Call *c)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    int64_t axis, parts;
    if (!x || !lower_axis(l, ARG(c, 2), x->type->rank, &axis)) return value_error();
    if (!lower_const_int(l, ARG(c, 1), "the number of parts", 1, 64, &parts)) return value_error();
    int64_t extent = x->type->shape[axis], shape[TILE_MAX_RANK];
    if (extent % parts)
        return lower_error(l, c->node->loc, "an axis of %lld does not split into %lld equal parts",
            (long long)extent, (long long)parts);
    memcpy(shape, x->type->shape, sizeof shape);
    shape[axis] = extent / parts;
    const Type *t = type_tile(l->s, x->type->dtype, x->type->rank, shape);
    V items[64];
    for (int64_t k = 0; k < parts; k++) {
        items[k] = lower_emit(l, c->node->loc, "split", OP_SLICE, &x, 1,
            ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, k * shape[axis])), t);
        if (items[k].kind == V_ERROR) return items[k];
    }
    return value_tuple(l, (int)parts, items);
}

/* The value that replaces elements which shift moves away: a scalar of the tile's type. */
static Value *fill_of(Lower *l, const Node *n, DType d, Loc loc)
{
    V v = n ? lower_expr(l, n) : d == DT_BOOL ? value_bool(false) : value_int(0);
    if (n) loc = n->loc;
    if (value_is_untyped(v)) v = lower_adapt(l, v, d, loc);
    if (v.kind == V_ERROR) return NULL;
    if ((v.kind == V_CONST || v.kind == V_IR) && !value_rank(v) && value_dtype(v) == d)
        return lower_materialize(l, v, loc);
    lower_error(l, loc, "fill is %s, must be a scalar `%s`", value_describe(l, v), dtype_name(d));
    return NULL;
}

/* Element i of the result is element i - count. */
V lower_shift(Lower *l, const Call *c)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    int64_t axis = 0, count, shape[TILE_MAX_RANK];
    if (!x) return value_error();
    if (!ARG(c, 2) && x->type->rank != 1)
        return lower_error_note(
            l, c->node->loc, "give `axis = a`", "`shift` of a tile of %d axes needs an axis", x->type->rank);
    if (ARG(c, 2) && !lower_axis(l, ARG(c, 2), x->type->rank, &axis)) return value_error();
    if (!lower_const_int(l, ARG(c, 1), "the count of shift", -((int64_t)1 << 40), (int64_t)1 << 40, &count))
        return value_error();
    Value *fill = fill_of(l, ARG(c, 3), x->type->dtype, c->node->loc);
    if (!fill) return value_error();
    int64_t length = x->type->shape[axis], gap = count < 0 ? -count : count;
    if (!gap) return value_ir(x);
    memcpy(shape, x->type->shape, sizeof shape);
    l->b.loc = c->node->loc;
    if (gap >= length) return value_ir(lower_to_shape(l, fill, x->type->rank, shape));
    shape[axis] = gap;
    Value *in = lower_to_shape(l, fill, x->type->rank, shape);
    shape[axis] = length - gap;
    V rest = lower_emit(l, c->node->loc, "shift", OP_SLICE, &x, 1,
        ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, count < 0 ? gap : 0)),
        type_tile(l->s, x->type->dtype, x->type->rank, shape));
    if (rest.kind == V_ERROR) return rest;
    Value *parts[2] = { count > 0 ? in : rest.value, count > 0 ? rest.value : in };
    return lower_emit(l, c->node->loc, "shift", OP_CONCAT, parts, 2, ATTRS(a_int(ATTR_AXIS, axis)), NULL);
}
