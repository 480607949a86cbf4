/* typerule_kernel.c: the type rules of kernel IR: layouts, shared memory, rings, copies and asynchronous
 * products. */
#include "ir/verify/typerule.h"

const char *rule_LAID_OUT(Rule *r)
{
    TRY(rule_tile_declared(r));
    if (!rule_equal_bare(T(r, 0), r->results[0]))
        WHY("%s to %s: only the layout may change", STR(T(r, 0)), STR(r->results[0]));
    if (!r->results[0]->layout) WHY("the result needs a layout");
    return NULL;
}

const char *rule_SLIDE(Rule *r)
{
    int64_t axis, start = rule_attr_int(r, ATTR_START, 0);
    TRY(rule_need_axis(r, &axis));
    TRY(rule_same_types(r, 0));
    const Type *t = T(r, 0);
    int64_t whole = t->dtype == DT_BOOL ? 0 : 16 / dtype_bytes(t->dtype),
            run = rule_attr_int(r, ATTR_COUNT, whole);
    if (run < 1 || run > whole || run * dtype_bytes(t->dtype) % 4 || whole % run)
        WHY("runs of %lld elements are no whole words of up to 16 bytes", (long long)run);
    if (t->kind != TYPE_TILE || t->shape[axis] % run)
        WHY("%s has no whole runs of %lld bytes along axis %lld", STR(t),
            (long long)run * dtype_bytes(t->dtype), (long long)axis);
    if (start < 1 || start >= run)
        WHY("position %lld of a run of %lld elements", (long long)start, (long long)run);
    return rule_give(r, 0, t);
}

const char *rule_SHARED(Rule *r)
{
    TRY(rule_declared(r));
    if (r->results[0]->kind != TYPE_SHARED || r->results[0]->rank < 2)
        WHY("the result must be a shared buffer of stages, not %s", STR(r->results[0]));
    return NULL;
}

/* The view of one stage: the buffer's type without its first axis. */
static const Type *stage_of(Rule *r, const Type *buf)
{ return type_shared(r->s, buf->dtype, buf->rank - 1, buf->shape + 1, buf->layout); }

const char *rule_SHARED_STAGE(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a shared buffer", STR(T(r, 0)));
    if (!rule_is_offset(T(r, 1))) WHY("the stage is %s, must be an integer scalar", STR(T(r, 1)));
    return rule_give(r, 0, stage_of(r, T(r, 0)));
}

const char *rule_SHARED_SLICE(Rule *r)
{
    int64_t axis = rule_attr_int(r, ATTR_AXIS, -1), start = rule_attr_int(r, ATTR_START, 0);
    TRY(rule_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    if (t->kind != TYPE_SHARED || v->kind != TYPE_SHARED || t->rank != v->rank || t->dtype != v->dtype ||
        t->layout != v->layout)
        WHY("shared_slice of %s to %s", STR(v), STR(t));
    if (axis < 0 || axis >= v->rank) WHY("axis %lld of %s", (long long)axis, STR(v));
    for (int k = 0; k < v->rank; k++)
        if (k != axis && v->shape[k] != t->shape[k])
            WHY("shared_slice of %s to %s along axis %lld", STR(v), STR(t), (long long)axis);
    if (start < 0 || start > v->shape[axis] - t->shape[axis])
        WHY("slice out of range: %lld + %lld of %lld", (long long)start, (long long)t->shape[axis],
            (long long)v->shape[axis]);
    return NULL;
}

const char *rule_SHARED_TRANSPOSE(Rule *r)
{
    TRY(rule_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    if (t->kind != TYPE_SHARED || v->kind != TYPE_SHARED || t->rank != 2 || v->rank != 2 ||
        t->dtype != v->dtype || t->shape[0] != v->shape[1] || t->shape[1] != v->shape[0])
        WHY("shared_transpose of %s to %s", STR(v), STR(t));
    return NULL;
}

const char *rule_RING_GET(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a ring", STR(T(r, 0)));
    return rule_give(r, 0, stage_of(r, T(r, 0)));
}

const char *rule_RING_RELEASE(Rule *r)
{
    if (r->n < 1 || r->n > 2) WHY("%d operands, must be a ring, and perhaps one of its stages", r->n);
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a ring", STR(T(r, 0)));
    if (r->n == 2 && T(r, 1) != stage_of(r, T(r, 0)))
        WHY("operand 1 is %s, must be a stage: %s", STR(T(r, 1)), STR(stage_of(r, T(r, 0))));
    return NULL;
}

const char *rule_NEXT_PROGRAM(Rule *r)
{
    TRY(rule_declared(r));
    if (*r->n_results < 2 || *r->n_results > 4)
        WHY("next_program gives a bool and 1 to 3 coordinates, not %d values", *r->n_results);
    for (int k = 0; k < *r->n_results; k++) TRY(rule_give(r, k, type_scalar(r->s, k ? DT_I32 : DT_BOOL)));
    return NULL;
}

const char *rule_SHARED_READ(Rule *r)
{
    TRY(rule_tile_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    bool halves = v->dtype != t->dtype && dtype_bytes(v->dtype) == 4 && t->dtype == DT_U16 && t->rank == 2 &&
                  t->shape[0] == 2 * v->shape[0];
    if (v->kind != TYPE_SHARED || (v->dtype != t->dtype && !halves) || v->rank != t->rank)
        WHY("shared_read of %s to %s", STR(v), STR(t));
    return NULL;
}

const char *rule_RING_READ(Rule *r)
{
    TRY(rule_tile_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    if (v->kind != TYPE_SHARED || v->rank != 3 || t->rank != 2) WHY("ring_read of %s to %s", STR(v), STR(t));
    return NULL;
}

const char *rule_SHARED_WRITE(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 1)->kind != TYPE_TILE || T(r, 0)->dtype != T(r, 1)->dtype)
        WHY("shared_write of %s to %s", STR(T(r, 1)), STR(T(r, 0)));
    return NULL;
}

const char *rule_COPY(Rule *r)
{
    if (r->n < 2 || T(r, 0)->kind != TYPE_SHARED || T(r, 1)->kind != TYPE_TENSOR)
        WHY("copies go from a tensor to shared memory");
    int parts = rule_attr_int(r, ATTR_PARTS, 0) > 0;
    const Attr *pixels = rule_attr(r, ATTR_IM2COL);
    if (pixels && (r->op != OP_RING_PUT || parts || pixels->n != 4 * (T(r, 1)->rank - 2)))
        WHY("`im2col` is of a ring_put and has four numbers for each axis of pixels");
    int n = 2 + parts + T(r, 1)->rank + (pixels ? pixels->n / 4 : 0);
    if (r->n != n) WHY("%d operands, must be %d", r->n, n);
    bool whole_stages = r->op == OP_RING_PUT && rule_attr(r, ATTR_COUNT); /* whatever lies there else */
    if (T(r, 0)->dtype != T(r, 1)->dtype && !whole_stages)
        WHY("copy of %s to %s", STR(T(r, 1)), STR(T(r, 0)));
    for (int k = 2; k < r->n; k++)
        if (!rule_is_offset(T(r, k)) && !(T(r, k)->kind == TYPE_TILE && dtype_is_int(T(r, k)->dtype)))
            WHY("offset %d is %s, must be an integer scalar or a tile of positions", k - 2, STR(T(r, k)));
    return NULL;
}

const char *rule_WGMMA(Rule *r)
{
    const Type *a = T(r, 0), *b = T(r, 1), *c = T(r, 2);
    const Attr *part = rule_attr(r, ATTR_PART);
    if ((a->kind != TYPE_TILE && a->kind != TYPE_SHARED) ||
        (b->kind != TYPE_TILE && b->kind != TYPE_SHARED) || c->kind != TYPE_TILE)
        WHY("product of %s and %s into %s", STR(a), STR(b), STR(c));
    if (part && (part->n != 2 || part->v[0] < 0 || part->v[1] < 1 || part->v[0] + part->v[1] > a->shape[1]))
        WHY("`part` lies beyond K of %s", STR(a));
    if (r->op == OP_WGMMA_PROMOTED &&
        (rule_attr_int(r, ATTR_PROMOTE, 0) < 1 || rule_attr_int(r, ATTR_COUNT, 0) < 1))
        WHY("`promote` and `count` are 1 at least");
    return rule_give(r, 0, c);
}

const char *rule_PASS(Rule *r)
{
    for (int k = 0; k < r->n; k++) TRY(rule_give(r, k, T(r, k)));
    return NULL;
}

const char *rule_COMBINE(Rule *r)
{
    int64_t axis, count = rule_attr_int(r, ATTR_COUNT, 0), shape[TILE_MAX_RANK],
                  rmw = rule_attr_int(r, ATTR_RMW, -1);
    const Type *t = T(r, 0);
    if (rmw != RMW_ADD && rmw != RMW_MAX && rmw != RMW_MIN) WHY("rmw must be add, max or min");
    if (rule_attr_int(r, ATTR_AXIS, -1) < 0) {
        if (count < 2 || t->kind != TYPE_TILE) WHY("a tile and a count of CTAs");
        return rule_give(r, 0, type_tile(r->s, t->dtype, t->rank, t->shape));
    }
    TRY(rule_need_axis(r, &axis));
    if (count < 2 || t->shape[axis] % count)
        WHY("axis %lld of %s has no %lld equal parts", (long long)axis, STR(t), (long long)count);
    for (int k = 0; k < t->rank; k++) shape[k] = t->shape[k] / (k == axis ? count : 1);
    return rule_give(r, 0, type_tile(r->s, t->dtype, t->rank, shape));
}

const char *rule_COMBINE_ALL(Rule *r)
{
    const Attr *kinds = rule_attr(r, ATTR_KINDS);
    if (r->n < 1 || rule_attr_int(r, ATTR_COUNT, 0) < 2) WHY("tiles, and a count of clusters");
    if (!kinds || kinds->n != r->n) WHY("`kinds` must say of each tile how it is joined");
    for (int k = 0; k < r->n; k++) {
        const Type *t = T(r, k);
        const int64_t kind = kinds->v[k];
        if (kind != RMW_ADD && kind != RMW_MAX && kind != RMW_MIN) WHY("tiles are joined by add, max or min");
        if (t->kind != TYPE_TILE) WHY("operand %d is no tile, but %s", k, STR(t));
        TRY(rule_give(r, k, type_tile(r->s, t->dtype, t->rank, t->shape)));
    }
    return NULL;
}

const char *rule_SHARES(Rule *r)
{
    const Type *t = T(r, 0), *i32 = type_scalar(r->s, DT_I32);
    int64_t rmw = rule_attr_int(r, ATTR_RMW, -1);
    if (t->kind != TYPE_TILE || (rmw != RMW_ADD && rmw != RMW_MAX && rmw != RMW_MIN))
        WHY("a tile, and rmw of add, max or min");
    for (int k = 1; k < r->n; k++)
        if (T(r, k) != i32) WHY("numbers of parts are i32, not %s", STR(T(r, k)));
    return rule_give(r, 0, type_tile(r->s, t->dtype, t->rank, t->shape));
}

const char *rule_VOTE(Rule *r)
{
    if (!type_is_value(T(r, 0)) || T(r, 0)->dtype != DT_BOOL)
        WHY("the operand must be bool, not %s", STR(T(r, 0)));
    return rule_give(r, 0, type_scalar(r->s, DT_BOOL));
}
