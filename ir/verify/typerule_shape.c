/* typerule_shape.c: the type rules of operations on the shape of tiles, of reductions, scans and sorting, and
 * of products. */
#include "ir/verify/typerule.h"

const char *rule_SPLAT(Rule *r)
{
    TRY(rule_tile_declared(r));
    if (T(r, 0)->kind != TYPE_SCALAR || T(r, 0)->dtype != r->results[0]->dtype)
        WHY("splat of %s to %s", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

const char *rule_ARANGE(Rule *r)
{
    TRY(rule_tile_declared(r));
    if (r->results[0]->rank != 1 || !dtype_is_int(r->results[0]->dtype))
        WHY("arange gives integers of rank 1, not %s", STR(r->results[0]));
    return NULL;
}

const char *rule_BROADCAST(Rule *r)
{
    TRY(rule_tile_declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    if (a->kind != TYPE_TILE || a->dtype != t->dtype || a->rank != t->rank)
        WHY("broadcast of %s to %s: the ranks must be equal", STR(a), STR(t));
    for (int i = 0; i < t->rank; i++)
        if (a->shape[i] != t->shape[i] && a->shape[i] != 1)
            WHY("broadcast of %s to %s: axis %d is neither equal nor 1", STR(a), STR(t), i);
    return NULL;
}

const char *rule_RESHAPE(Rule *r)
{
    TRY(rule_values_only(r));
    TRY(rule_declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    if (!type_is_value(t) || a->dtype != t->dtype)
        WHY("reshape of %s to %s: the types differ", STR(a), STR(t));
    if (type_elements(a) != type_elements(t))
        WHY("reshape of %s to %s: %lld elements do not become %lld", STR(a), STR(t),
            (long long)type_elements(a), (long long)type_elements(t));
    return NULL;
}

const char *rule_PERMUTE(Rule *r)
{
    const Type *a = T(r, 0);
    if (a->kind != TYPE_TILE) WHY("the operand must be a tile, not %s", STR(a));
    const Attr *o = rule_attr(r, ATTR_ORDER);
    TRY(rule_check_order(r, o, a->rank));
    int64_t shape[TILE_MAX_RANK];
    for (int i = 0; i < a->rank; i++) shape[i] = a->shape[o->v[i]];
    return rule_give(r, 0, type_tile(r->s, a->dtype, a->rank, shape));
}

const char *rule_CONCAT(Rule *r)
{
    int64_t axis, shape[TILE_MAX_RANK];
    if (r->n < 1) WHY("concat needs an operand");
    TRY(rule_need_axis(r, &axis));
    memcpy(shape, T(r, 0)->shape, sizeof shape);
    for (int k = 1; k < r->n; k++) {
        const Type *t = T(r, k);
        if (t->kind != TYPE_TILE || t->dtype != T(r, 0)->dtype || t->rank != T(r, 0)->rank)
            WHY("concat of %s and %s", STR(T(r, 0)), STR(t));
        for (int i = 0; i < t->rank; i++)
            if (i != axis && t->shape[i] != shape[i])
                WHY("concat of %s and %s along axis %lld", STR(T(r, 0)), STR(t), (long long)axis);
        shape[axis] += t->shape[axis];
    }
    return rule_give(r, 0, type_tile(r->s, T(r, 0)->dtype, T(r, 0)->rank, shape));
}

const char *rule_SLICE(Rule *r)
{
    int64_t axis;
    TRY(rule_need_axis(r, &axis));
    TRY(rule_tile_declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    int64_t start = rule_attr_int(r, ATTR_START, 0);
    if (t->dtype != a->dtype || t->rank != a->rank) WHY("slice of %s to %s", STR(a), STR(t));
    for (int i = 0; i < a->rank; i++)
        if (i != axis && a->shape[i] != t->shape[i])
            WHY("slice of %s to %s along axis %lld", STR(a), STR(t), (long long)axis);
    if (start < 0 || start > a->shape[axis] - t->shape[axis])
        WHY("slice out of range: %lld + %lld of %lld", (long long)start, (long long)t->shape[axis],
            (long long)a->shape[axis]);
    return NULL;
}

static const char *reduced(Rule *r, int64_t axis, DType d, const Type **out)
{
    const Type *a = T(r, 0);
    int64_t shape[TILE_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < a->rank; i++) {
        if (i == axis && rule_attr_int(r, ATTR_DROP, 0)) continue;
        shape[rank++] = i == axis ? 1 : a->shape[i];
    }
    *out = type_value(r->s, d, rank, shape);
    return NULL;
}

const char *rule_REDUCE(Rule *r)
{
    int64_t axis;
    const Type *t;
    TRY(rule_need_axis(r, &axis));
    bool logic = r->op == OP_REDUCE_ANY || r->op == OP_REDUCE_ALL;
    if (logic != (T(r, 0)->dtype == DT_BOOL))
        WHY("the operand must be of %s, not %s", logic ? "bool" : "numbers", STR(T(r, 0)));
    TRY(reduced(r, axis, T(r, 0)->dtype, &t));
    return rule_give(r, 0, t);
}

const char *rule_ARGREDUCE(Rule *r)
{
    int64_t axis;
    const Type *t;
    TRY(rule_need_axis(r, &axis));
    if (T(r, 0)->dtype == DT_BOOL) WHY("the operand must be of numbers, not bool");
    TRY(reduced(r, axis, DT_I32, &t));
    return rule_give(r, 0, t);
}

/* n tiles of one shape, and a block of 2n scalars, of two positions, that gives n. */
const char *rule_REDUCE_FN(Rule *r)
{
    int64_t axis;
    const Type *t, *elem[2 * IR_MAX_COMBINED];
    int n = r->n;
    if (n < 1 || n > IR_MAX_COMBINED) WHY("%d tiles, must be 1 to %d", n, IR_MAX_COMBINED);
    TRY(rule_need_axis(r, &axis));
    for (int k = 0; k < n; k++) {
        if (T(r, k)->kind != TYPE_TILE || !type_same_shape(T(r, k), T(r, 0)))
            WHY("operand %d is %s, must be a tile of the shape of %s", k, STR(T(r, k)), STR(T(r, 0)));
        elem[k] = elem[n + k] = type_scalar(r->s, T(r, k)->dtype);
    }
    if (r->instr) {
        TRY(rule_args_are(r, r->instr->blocks[0], 2 * n, elem));
        TRY(rule_yields(r, r->instr->blocks[0], n, elem));
    }
    for (int k = 0; k < n; k++) {
        if (r->op == OP_SCAN) t = T(r, k);
        else TRY(reduced(r, axis, T(r, k)->dtype, &t));
        TRY(rule_give(r, k, t));
    }
    return NULL;
}

const char *rule_SCAN(Rule *r)
{
    int64_t axis;
    TRY(rule_need_axis(r, &axis));
    if (T(r, 0)->dtype == DT_BOOL) WHY("the operand must be of numbers, not bool");
    return rule_give(r, 0, T(r, 0));
}

const char *rule_SORT(Rule *r)
{
    if (T(r, 0)->kind != TYPE_TILE || T(r, 0)->dtype == DT_BOOL)
        WHY("the operand must be a tile of numbers, not %s", STR(T(r, 0)));
    return rule_give(r, 0, T(r, 0));
}

const char *rule_TOPK(Rule *r)
{
    const Type *a = T(r, 0);
    if (a->kind != TYPE_TILE || a->dtype == DT_BOOL)
        WHY("the operand must be a tile of numbers, not %s", STR(a));
    int64_t k = rule_attr_int(r, ATTR_COUNT, 0), shape[TILE_MAX_RANK];
    if (k < 1 || k > a->shape[a->rank - 1])
        WHY("topk of %lld among %lld", (long long)k, (long long)a->shape[a->rank - 1]);
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = k;
    TRY(rule_give(r, 0, type_tile(r->s, a->dtype, a->rank, shape)));
    return rule_give(r, 1, type_tile(r->s, DT_I32, a->rank, shape));
}

static DType mma_acc(DType d) { return d == DT_F64 ? DT_F64 : d == DT_I8 || d == DT_U8 ? DT_I32 : DT_F32; }

const char *rule_MMA(Rule *r)
{
    const Type *a = T(r, 0), *b = T(r, 1), *c = T(r, 2);
    for (int k = 0; k < 3; k++)
        if (T(r, k)->kind != TYPE_TILE || T(r, k)->rank != 2)
            WHY("operand %d is %s, must be a tile of rank 2", k, STR(T(r, k)));
    bool fp8 =
        (a->dtype == DT_F8E4M3 || a->dtype == DT_F8E5M2) && (b->dtype == DT_F8E4M3 || b->dtype == DT_F8E5M2);
    bool i8 = (a->dtype == DT_I8 || a->dtype == DT_U8) && (b->dtype == DT_I8 || b->dtype == DT_U8);
    if (a->dtype != b->dtype && !fp8 && !i8)
        WHY("mma of %s and %s: operands are of one type, or both fp8, or both 8-bit integers", STR(a),
            STR(b));
    if (!fp8 && !i8 && a->dtype != DT_F16 && a->dtype != DT_BF16 && a->dtype != DT_F32 && a->dtype != DT_F64)
        WHY("mma does not take %s", dtype_name(a->dtype));
    if (rule_attr_int(r, ATTR_PRECISION, PRECISION_FULL) == PRECISION_TF32 && a->dtype != DT_F32)
        WHY("precision = tf32 is for f32 operands, not %s", dtype_name(a->dtype));
    if (rule_attr_int(r, ATTR_PRECISION, PRECISION_FULL) == PRECISION_FAST_ACCUM && !fp8)
        WHY("precision = fast_accum is for fp8 operands, not %s", dtype_name(a->dtype));
    int64_t batches = rule_attr_int(r, ATTR_PARTS, 1);
    if (batches < 1 || a->shape[0] % batches || b->shape[0] % batches)
        WHY("%s and %s do not have the rows of %lld products", STR(a), STR(b), (long long)batches);
    if (a->shape[1] != b->shape[0] / batches) WHY("inner extents differ: %s and %s", STR(a), STR(b));
    int64_t shape[2] = { a->shape[0], b->shape[1] };
    const Type *t = type_tile(r->s, mma_acc(a->dtype), 2, shape);
    if (!rule_equal_bare(c, t)) WHY("the accumulator is %s, must be %s", STR(c), STR(t));
    return rule_give(r, 0, c);
}
