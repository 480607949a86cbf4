/* typerule.c: the type rule of every operation (the `type rule` column of ops.def). A rule sees operands and
 * attributes and the results declared so far; it fills what it can infer, checks what was declared, and
 * returns the reason when an instruction is malformed. The builder, the front end and the verifier all call
 * these. */
#include "ir/ir.h"

typedef struct Rule {
    Session *s;
    Op op;
    Value *const *v;
    int n;
    Attrs attrs;
    const Type **results;
    int *n_results;
    const Instr *instr; /* when an existing instruction is checked: its blocks count too; else NULL */
} Rule;

#define WHY(...) return arena_printf(&r->s->arena, __VA_ARGS__)
#define TRY(x) \
    do { \
        const char *why_ = (x); \
        if (why_) return why_; \
    } while (0)
#define STR(t) type_string(r->s, (t))

static const Attr *attr(const Rule *r, AttrKey k)
{
    for (int i = 0; i < r->attrs.n; i++)
        if (r->attrs.v[i].key == k) return &r->attrs.v[i];
    return NULL;
}

static int64_t attr_int(const Rule *r, AttrKey k, int64_t otherwise)
{
    const Attr *a = attr(r, k);
    return a ? a->i : otherwise;
}

static const Type *T(const Rule *r, int k) { return r->v[k]->type; }

/* Kernel IR layouts ride on types; shape and dtype rules look at the bare type. */
static bool equal_bare(const Type *a, const Type *b)
{ return a->kind == b->kind && a->dtype == b->dtype && type_same_shape(a, b) && a->rank == b->rank; }

static const char *give(Rule *r, int k, const Type *t)
{
    if (k < *r->n_results && r->results[k]) {
        if (!equal_bare(r->results[k], t)) WHY("result %d is %s, must be %s", k, STR(r->results[k]), STR(t));
        return NULL;
    }
    r->results[k] = t;
    if (*r->n_results <= k) *r->n_results = k + 1;
    return NULL;
}

static const char *declared(Rule *r)
{
    if (*r->n_results < 1 || !r->results[0]) WHY("the result type must be given");
    return NULL;
}

static const char *values_only(Rule *r)
{
    for (int k = 0; k < r->n; k++)
        if (!type_is_value(T(r, k))) WHY("operand %d is %s, must be a scalar or a tile", k, STR(T(r, k)));
    return NULL;
}

static const char *same_types(Rule *r, int from)
{
    TRY(values_only(r));
    for (int k = from + 1; k < r->n; k++) {
        if (T(r, k)->dtype != T(r, from)->dtype)
            WHY("operands are of different types: %s and %s", STR(T(r, from)), STR(T(r, k)));
        if (!type_same_shape(T(r, k), T(r, from)))
            WHY("operands are of different shapes: %s and %s", STR(T(r, from)), STR(T(r, k)));
    }
    return NULL;
}

static const Type *result_like(Rule *r, int k) { return T(r, k); }

static const char *rule_SAME_NUM(Rule *r)
{
    TRY(same_types(r, 0));
    if (T(r, 0)->dtype == DT_BOOL) WHY("operands must be numbers, not bool");
    return give(r, 0, result_like(r, 0));
}

static const char *rule_SAME_INT(Rule *r)
{
    TRY(same_types(r, 0));
    if (!dtype_is_int(T(r, 0)->dtype)) WHY("operands must be integers, not %s", dtype_name(T(r, 0)->dtype));
    return give(r, 0, result_like(r, 0));
}

static const char *rule_SAME_BITS(Rule *r)
{
    TRY(same_types(r, 0));
    if (dtype_is_float(T(r, 0)->dtype))
        WHY("operands must be integers or bool, not %s", dtype_name(T(r, 0)->dtype));
    return give(r, 0, result_like(r, 0));
}

static const char *rule_SAME_FLOAT(Rule *r)
{
    TRY(same_types(r, 0));
    if (!dtype_is_float(T(r, 0)->dtype))
        WHY("the operand must be of a floating type, not %s", dtype_name(T(r, 0)->dtype));
    return give(r, 0, result_like(r, 0));
}

static const char *rule_COMPARE(Rule *r)
{
    TRY(same_types(r, 0));
    return give(r, 0, type_with_dtype(r->s, T(r, 0), DT_BOOL));
}

static const char *rule_WHERE(Rule *r)
{
    TRY(values_only(r));
    if (T(r, 0)->dtype != DT_BOOL) WHY("the condition must be bool, not %s", STR(T(r, 0)));
    if (!equal_bare(T(r, 1), T(r, 2))) WHY("the alternatives differ: %s and %s", STR(T(r, 1)), STR(T(r, 2)));
    if (!type_same_shape(T(r, 0), T(r, 1)))
        WHY("the condition is %s, the alternatives %s", STR(T(r, 0)), STR(T(r, 1)));
    return give(r, 0, T(r, 1));
}

static const char *rule_CONST(Rule *r)
{
    TRY(declared(r));
    const Type *t = r->results[0];
    if (t->kind != TYPE_SCALAR) WHY("a constant is a scalar, not %s", STR(t));
    if (!attr(r, dtype_is_float(t->dtype) ? ATTR_FVALUE : ATTR_IVALUE))
        WHY("the value of %s is missing", STR(t));
    return NULL;
}

static const char *rule_INDEX(Rule *r)
{
    if (*r->n_results && r->results[0] && r->results[0]->kind == TYPE_SCALAR &&
        (r->results[0]->dtype == DT_I32 || r->results[0]->dtype == DT_I64))
        return NULL; /* narrowed */
    return give(r, 0, type_scalar(r->s, DT_INDEX));
}

static const char *rule_TOKEN(Rule *r)
{
    for (int k = 0; k < r->n; k++)
        if (T(r, k)->kind != TYPE_TOKEN) WHY("operand %d is %s, must be a token", k, STR(T(r, k)));
    return give(r, 0, type_token(r->s));
}

static const char *rule_ANY(Rule *r) { return NULL; }

static const char *rule_ASSERT(Rule *r)
{
    if (!type_is_value(T(r, 0)) || T(r, 0)->dtype != DT_BOOL)
        WHY("the condition must be bool, not %s", STR(T(r, 0)));
    return NULL;
}

static const char *rule_CAST(Rule *r)
{
    TRY(values_only(r));
    TRY(declared(r));
    if (!type_same_shape(T(r, 0), r->results[0]))
        WHY("a cast keeps the shape: %s to %s", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

static const char *rule_BITCAST(Rule *r)
{
    TRY(rule_CAST(r));
    if (dtype_bits(T(r, 0)->dtype) != dtype_bits(r->results[0]->dtype))
        WHY("bitcast of %s to %s: the widths differ", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

static const char *tile_declared(Rule *r)
{
    TRY(declared(r));
    if (r->results[0]->kind != TYPE_TILE) WHY("the result must be a tile, not %s", STR(r->results[0]));
    return NULL;
}

static const char *rule_SPLAT(Rule *r)
{
    TRY(tile_declared(r));
    if (T(r, 0)->kind != TYPE_SCALAR || T(r, 0)->dtype != r->results[0]->dtype)
        WHY("splat of %s to %s", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

static const char *rule_ARANGE(Rule *r)
{
    TRY(tile_declared(r));
    if (r->results[0]->rank != 1 || !dtype_is_int(r->results[0]->dtype))
        WHY("arange gives integers of rank 1, not %s", STR(r->results[0]));
    return NULL;
}

static const char *rule_BROADCAST(Rule *r)
{
    TRY(tile_declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    if (a->kind != TYPE_TILE || a->dtype != t->dtype || a->rank != t->rank)
        WHY("broadcast of %s to %s: the ranks must be equal", STR(a), STR(t));
    for (int i = 0; i < t->rank; i++)
        if (a->shape[i] != t->shape[i] && a->shape[i] != 1)
            WHY("broadcast of %s to %s: axis %d is neither equal nor 1", STR(a), STR(t), i);
    return NULL;
}

static const char *rule_RESHAPE(Rule *r)
{
    TRY(values_only(r));
    TRY(declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    if (!type_is_value(t) || a->dtype != t->dtype || type_elements(a) != type_elements(t))
        WHY("reshape of %s to %s: the numbers of elements differ", STR(a), STR(t));
    return NULL;
}

static const char *check_order(Rule *r, const Attr *o, int rank)
{
    unsigned seen = 0;
    if (!o || o->n != rank) WHY("order must name each of the %d axes once", rank);
    for (int i = 0; i < rank; i++) {
        if (o->v[i] < 0 || o->v[i] >= rank || seen >> o->v[i] & 1)
            WHY("order must name each of the %d axes once", rank);
        seen |= 1u << o->v[i];
    }
    return NULL;
}

static const char *rule_PERMUTE(Rule *r)
{
    const Type *a = T(r, 0);
    if (a->kind != TYPE_TILE) WHY("the operand must be a tile, not %s", STR(a));
    const Attr *o = attr(r, ATTR_ORDER);
    TRY(check_order(r, o, a->rank));
    int64_t shape[TILE_MAX_RANK];
    for (int i = 0; i < a->rank; i++) shape[i] = a->shape[o->v[i]];
    return give(r, 0, type_tile(r->s, a->dtype, a->rank, shape));
}

static const char *need_axis(Rule *r, int64_t *axis)
{
    if (T(r, 0)->kind != TYPE_TILE) WHY("the operand must be a tile, not %s", STR(T(r, 0)));
    *axis = attr_int(r, ATTR_AXIS, -1);
    if (*axis < 0 || *axis >= T(r, 0)->rank)
        WHY("axis %lld is out of range for %s", (long long)*axis, STR(T(r, 0)));
    return NULL;
}

static const char *rule_CONCAT(Rule *r)
{
    int64_t axis, shape[TILE_MAX_RANK];
    if (r->n < 1) WHY("concat needs an operand");
    TRY(need_axis(r, &axis));
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
    return give(r, 0, type_tile(r->s, T(r, 0)->dtype, T(r, 0)->rank, shape));
}

static const char *rule_SLICE(Rule *r)
{
    int64_t axis;
    TRY(need_axis(r, &axis));
    TRY(tile_declared(r));
    const Type *a = T(r, 0), *t = r->results[0];
    int64_t start = attr_int(r, ATTR_START, 0);
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
        if (i == axis && attr_int(r, ATTR_DROP, 0)) continue;
        shape[rank++] = i == axis ? 1 : a->shape[i];
    }
    *out = type_value(r->s, d, rank, shape);
    return NULL;
}

static const char *rule_REDUCE(Rule *r)
{
    int64_t axis;
    const Type *t;
    TRY(need_axis(r, &axis));
    bool logic = r->op == OP_REDUCE_ANY || r->op == OP_REDUCE_ALL;
    if (logic != (T(r, 0)->dtype == DT_BOOL))
        WHY("the operand must be of %s, not %s", logic ? "bool" : "numbers", STR(T(r, 0)));
    TRY(reduced(r, axis, T(r, 0)->dtype, &t));
    return give(r, 0, t);
}

static const char *rule_ARGREDUCE(Rule *r)
{
    int64_t axis;
    const Type *t;
    TRY(need_axis(r, &axis));
    if (T(r, 0)->dtype == DT_BOOL) WHY("the operand must be of numbers, not bool");
    TRY(reduced(r, axis, DT_I32, &t));
    return give(r, 0, t);
}

static const char *yields(Rule *r, const Block *b, int n, const Type *const *types)
{
    const Instr *y = b->last;
    if (!y || y->op != OP_YIELD) WHY("the block must end in yield");
    if (y->n_operands != n) WHY("the block yields %d values, must be %d", y->n_operands, n);
    for (int k = 0; k < n; k++)
        if (!equal_bare(ir_operand(y, k)->type, types[k]))
            WHY("the block yields %s as value %d, must be %s", STR(ir_operand(y, k)->type), k, STR(types[k]));
    return NULL;
}

static const char *args_are(Rule *r, const Block *b, int n, const Type *const *types)
{
    if (b->n_args != n) WHY("the block has %d arguments, must be %d", b->n_args, n);
    for (int k = 0; k < n; k++)
        if (!equal_bare(b->args[k]->type, types[k]))
            WHY("block argument %d is %s, must be %s", k, STR(b->args[k]->type), STR(types[k]));
    return NULL;
}

/* n tiles of one shape, and a block of 2n scalars, of two positions, that gives n. */
static const char *rule_REDUCE_FN(Rule *r)
{
    int64_t axis;
    const Type *t, *elem[2 * IR_MAX_COMBINED];
    int n = r->n;
    if (n < 1 || n > IR_MAX_COMBINED) WHY("%d tiles, must be 1 to %d", n, IR_MAX_COMBINED);
    TRY(need_axis(r, &axis));
    for (int k = 0; k < n; k++) {
        if (T(r, k)->kind != TYPE_TILE || !type_same_shape(T(r, k), T(r, 0)))
            WHY("operand %d is %s, must be a tile of the shape of %s", k, STR(T(r, k)), STR(T(r, 0)));
        elem[k] = elem[n + k] = type_scalar(r->s, T(r, k)->dtype);
    }
    if (r->instr) {
        TRY(args_are(r, r->instr->blocks[0], 2 * n, elem));
        TRY(yields(r, r->instr->blocks[0], n, elem));
    }
    for (int k = 0; k < n; k++) {
        if (r->op == OP_SCAN) t = T(r, k);
        else TRY(reduced(r, axis, T(r, k)->dtype, &t));
        TRY(give(r, k, t));
    }
    return NULL;
}

static const char *rule_SCAN(Rule *r)
{
    int64_t axis;
    TRY(need_axis(r, &axis));
    if (T(r, 0)->dtype == DT_BOOL) WHY("the operand must be of numbers, not bool");
    return give(r, 0, T(r, 0));
}

static const char *rule_SORT(Rule *r)
{
    if (T(r, 0)->kind != TYPE_TILE || T(r, 0)->dtype == DT_BOOL)
        WHY("the operand must be a tile of numbers, not %s", STR(T(r, 0)));
    return give(r, 0, T(r, 0));
}

static const char *rule_TOPK(Rule *r)
{
    const Type *a = T(r, 0);
    if (a->kind != TYPE_TILE || a->dtype == DT_BOOL)
        WHY("the operand must be a tile of numbers, not %s", STR(a));
    int64_t k = attr_int(r, ATTR_COUNT, 0), shape[TILE_MAX_RANK];
    if (k < 1 || k > a->shape[a->rank - 1])
        WHY("topk of %lld among %lld", (long long)k, (long long)a->shape[a->rank - 1]);
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 1] = k;
    TRY(give(r, 0, type_tile(r->s, a->dtype, a->rank, shape)));
    return give(r, 1, type_tile(r->s, DT_I32, a->rank, shape));
}

static DType mma_acc(DType d) { return d == DT_F64 ? DT_F64 : d == DT_I8 || d == DT_U8 ? DT_I32 : DT_F32; }

static const char *rule_MMA(Rule *r)
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
    if (attr_int(r, ATTR_PRECISION, PRECISION_FULL) == PRECISION_TF32 && a->dtype != DT_F32)
        WHY("precision = tf32 is for f32 operands, not %s", dtype_name(a->dtype));
    if (attr_int(r, ATTR_PRECISION, PRECISION_FULL) == PRECISION_FAST_ACCUM && !fp8)
        WHY("precision = fast_accum is for fp8 operands, not %s", dtype_name(a->dtype));
    if (a->shape[1] != b->shape[0]) WHY("inner extents differ: %s and %s", STR(a), STR(b));
    int64_t shape[2] = { a->shape[0], b->shape[1] };
    const Type *t = type_tile(r->s, mma_acc(a->dtype), 2, shape);
    if (!equal_bare(c, t)) WHY("the accumulator is %s, must be %s", STR(c), STR(t));
    return give(r, 0, c);
}

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
    if (attr_int(r, ATTR_HAS_MASK, 0)) m->mask = k++;
    if (attr_int(r, ATTR_HAS_PAD, 0)) m->pad = k++;
    if (k < r->n && T(r, k)->kind == TYPE_TOKEN) m->token = k++;
    if (k != r->n) WHY("%d operands, must be %d", r->n, k);
    if (m->pad >= 0 && (T(r, m->pad)->kind != TYPE_SCALAR || T(r, m->pad)->dtype != T(r, 0)->dtype))
        WHY("pad is %s, must be %s", STR(T(r, m->pad)), dtype_name(T(r, 0)->dtype));
    return NULL;
}

static bool is_offset(const Type *t) { return t->kind == TYPE_SCALAR && dtype_is_int(t->dtype); }

static const char *window_type(Rule *r, const MemOperands *m, const Type **out)
{
    const Attr *e = attr(r, ATTR_EXTENTS), *st = attr(r, ATTR_STEPS), *o = attr(r, ATTR_ORDER);
    int64_t shape[TILE_MAX_RANK], permuted[TILE_MAX_RANK];
    int rank = 0;
    if (!e || e->n != m->rank) WHY("extents must have one entry for each of the %d axes", m->rank);
    if (st && st->n != m->rank) WHY("steps must have one entry for each of the %d axes", m->rank);
    for (int i = 0; i < m->rank; i++) {
        if (!is_offset(T(r, 1 + i))) WHY("offset %d is %s, must be an integer scalar", i, STR(T(r, 1 + i)));
        if (e->v[i] == -1) continue;
        if (e->v[i] < 1) WHY("extent %d is %lld", i, (long long)e->v[i]);
        shape[rank++] = e->v[i];
    }
    if (o) {
        TRY(check_order(r, o, rank));
        for (int i = 0; i < rank; i++) permuted[i] = shape[o->v[i]];
        memcpy(shape, permuted, sizeof shape);
    }
    *out = type_value(r->s, T(r, 0)->dtype, rank, shape);
    return NULL;
}

static const char *rule_LOAD(Rule *r)
{
    MemOperands m;
    const Type *t;
    TRY(mem_operands(r, 0, &m));
    TRY(window_type(r, &m, &t));
    TRY(give(r, 0, t));
    return m.token >= 0 ? give(r, 1, type_token(r->s)) : NULL;
}

static const char *rule_STORE(Rule *r)
{
    MemOperands m;
    const Type *t;
    TRY(mem_operands(r, 1, &m));
    TRY(window_type(r, &m, &t));
    if (!equal_bare(T(r, m.values), t)) WHY("the value is %s, the window %s", STR(T(r, m.values)), STR(t));
    if (m.token < 0) WHY("a store needs a token");
    return give(r, 0, type_token(r->s));
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

static const char *rule_GATHER(Rule *r)
{
    MemOperands m;
    TRY(mem_operands(r, 0, &m));
    if (m.rank < 1) WHY("gather from a tensor of rank 0");
    TRY(index_tiles(r, &m));
    TRY(give(r, 0, indexed(r)));
    return m.token >= 0 ? give(r, 1, type_token(r->s)) : NULL;
}

static const char *indexed_values(Rule *r, MemOperands *m, int n_values)
{
    TRY(mem_operands(r, n_values, m));
    if (m->rank < 1) WHY("a tensor of rank 0 has no indices");
    TRY(index_tiles(r, m));
    for (int k = 0; k < n_values; k++)
        if (!equal_bare(T(r, m->values + k), indexed(r)))
            WHY("the value is %s, must be %s", STR(T(r, m->values + k)), STR(indexed(r)));
    if (m->token < 0) WHY("a token is missing");
    return NULL;
}

static const char *rule_SCATTER(Rule *r)
{
    MemOperands m;
    TRY(indexed_values(r, &m, 1));
    return give(r, 0, type_token(r->s));
}

static const char *atomic_dtype(Rule *r, DType d)
{
    bool bits = attr_int(r, ATTR_RMW, 0) == RMW_AND || attr_int(r, ATTR_RMW, 0) == RMW_OR ||
                attr_int(r, ATTR_RMW, 0) == RMW_XOR;
    if (bits && dtype_is_float(d)) WHY("bitwise atomics are for integers, not %s", dtype_name(d));
    if (d == DT_BOOL || (dtype_bits(d) < 32 && d != DT_F16 && d != DT_BF16) ||
        (dtype_bits(d) < 32 && r->op == OP_ATOMIC_CAS))
        WHY("no atomics on %s", dtype_name(d));
    return NULL;
}

static const char *rule_ATOMIC(Rule *r)
{
    MemOperands m;
    if (!attr(r, ATTR_RMW)) WHY("the attribute rmw is missing");
    TRY(indexed_values(r, &m, 1));
    TRY(atomic_dtype(r, T(r, 0)->dtype));
    TRY(give(r, 0, indexed(r)));
    return give(r, 1, type_token(r->s));
}

static const char *rule_ATOMIC_CAS(Rule *r)
{
    MemOperands m;
    TRY(indexed_values(r, &m, 2));
    TRY(atomic_dtype(r, T(r, 0)->dtype));
    TRY(give(r, 0, indexed(r)));
    return give(r, 1, type_token(r->s));
}

static const char *rule_PHILOX(Rule *r)
{
    TRY(values_only(r));
    for (int k = 0; k < 2; k++)
        if (!dtype_is_int(T(r, k)->dtype)) WHY("operand %d is %s, must be of integers", k, STR(T(r, k)));
    if (!type_same_shape(T(r, 0), T(r, 1)))
        WHY("operands are of different shapes: %s and %s", STR(T(r, 0)), STR(T(r, 1)));
    return give(r, 0, type_with_dtype(r->s, T(r, 1), DT_U32));
}

static const char *rule_FOR(Rule *r)
{
    if (r->n < 3) WHY("for needs lo, hi and step");
    for (int k = 0; k < 3; k++)
        if (!is_offset(T(r, k)) || T(r, k) != T(r, 0))
            WHY("lo, hi and step must be integer scalars of one type");
    const Type *types[IR_MAX_RESULTS + 1];
    int n = r->n - 3;
    if (n > IR_MAX_RESULTS) WHY("more than %d carried values", IR_MAX_RESULTS);
    types[0] = T(r, 0);
    for (int k = 0; k < n; k++) {
        types[k + 1] = T(r, k + 3);
        TRY(give(r, k, types[k + 1]));
    }
    if (*r->n_results != n) WHY("%d results, must be %d", *r->n_results, n);
    if (!r->instr) return NULL;
    TRY(args_are(r, r->instr->blocks[0], n + 1, types));
    return yields(r, r->instr->blocks[0], n, types + 1);
}

static const char *rule_WHILE(Rule *r)
{
    const Type *types[IR_MAX_RESULTS];
    if (r->n > IR_MAX_RESULTS) WHY("more than %d carried values", IR_MAX_RESULTS);
    for (int k = 0; k < r->n; k++) {
        types[k] = T(r, k);
        TRY(give(r, k, types[k]));
    }
    if (*r->n_results != r->n) WHY("%d results, must be %d", *r->n_results, r->n);
    if (!r->instr) return NULL;
    TRY(args_are(r, r->instr->blocks[0], r->n, types));
    TRY(args_are(r, r->instr->blocks[1], r->n, types));
    const Instr *c = r->instr->blocks[0]->last;
    if (!c || c->op != OP_CONDITION) WHY("block 0 must end in condition");
    if (c->n_operands != r->n + 1 || ir_operand(c, 0)->type != type_scalar(r->s, DT_BOOL))
        WHY("condition takes a bool scalar and %d values", r->n);
    for (int k = 0; k < r->n; k++)
        if (!equal_bare(ir_operand(c, k + 1)->type, types[k]))
            WHY("condition passes %s as value %d, must be %s", STR(ir_operand(c, k + 1)->type), k,
                STR(types[k]));
    return yields(r, r->instr->blocks[1], r->n, types);
}

static const char *rule_IF(Rule *r)
{
    if (T(r, 0) != type_scalar(r->s, DT_BOOL))
        WHY("the condition is %s, must be a bool scalar", STR(T(r, 0)));
    if (!r->instr) return NULL;
    for (int b = 0; b < 2; b++) {
        if (r->instr->blocks[b]->n_args) WHY("blocks of if take no arguments");
        TRY(yields(r, r->instr->blocks[b], *r->n_results, r->results));
    }
    return NULL;
}

static const char *rule_LAID_OUT(Rule *r)
{
    TRY(tile_declared(r));
    if (!equal_bare(T(r, 0), r->results[0]))
        WHY("%s to %s: only the layout may change", STR(T(r, 0)), STR(r->results[0]));
    if (!r->results[0]->layout) WHY("the result needs a layout");
    return NULL;
}

static const char *rule_SHARED(Rule *r)
{
    TRY(declared(r));
    if (r->results[0]->kind != TYPE_SHARED || r->results[0]->rank < 2)
        WHY("the result must be a shared buffer of slots, not %s", STR(r->results[0]));
    return NULL;
}

/* The view of one slot: the buffer's type without its first axis. */
static const Type *slot_of(Rule *r, const Type *buf)
{ return type_shared(r->s, buf->dtype, buf->rank - 1, buf->shape + 1, buf->layout); }

static const char *rule_SHARED_SLOT(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a shared buffer", STR(T(r, 0)));
    if (!is_offset(T(r, 1))) WHY("the slot is %s, must be an integer scalar", STR(T(r, 1)));
    return give(r, 0, slot_of(r, T(r, 0)));
}

static const char *rule_SHARED_SLICE(Rule *r)
{
    int64_t axis = attr_int(r, ATTR_AXIS, -1), start = attr_int(r, ATTR_START, 0);
    TRY(declared(r));
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

static const char *rule_RING_GET(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a ring", STR(T(r, 0)));
    return give(r, 0, slot_of(r, T(r, 0)));
}

static const char *rule_RING_RELEASE(Rule *r)
{
    if (r->n < 1 || r->n > 2) WHY("%d operands, must be a ring, and perhaps one of its slots", r->n);
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 0)->rank < 2)
        WHY("operand 0 is %s, must be a ring", STR(T(r, 0)));
    if (r->n == 2 && T(r, 1) != slot_of(r, T(r, 0)))
        WHY("operand 1 is %s, must be a slot: %s", STR(T(r, 1)), STR(slot_of(r, T(r, 0))));
    return NULL;
}

static const char *rule_TICKET(Rule *r)
{
    TRY(declared(r));
    if (*r->n_results < 2 || *r->n_results > 4)
        WHY("a ticket gives a bool and 1 to 3 coordinates, not %d values", *r->n_results);
    for (int k = 0; k < *r->n_results; k++) TRY(give(r, k, type_scalar(r->s, k ? DT_I32 : DT_BOOL)));
    return NULL;
}

static const char *rule_SHARED_READ(Rule *r)
{
    TRY(tile_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    if (v->kind != TYPE_SHARED || v->dtype != t->dtype || v->rank != t->rank)
        WHY("shared_read of %s to %s", STR(v), STR(t));
    return NULL;
}

static const char *rule_RING_READ(Rule *r)
{
    TRY(tile_declared(r));
    const Type *v = T(r, 0), *t = r->results[0];
    if (v->kind != TYPE_SHARED || v->rank != 3 || v->dtype != t->dtype || t->rank != 2)
        WHY("ring_read of %s to %s", STR(v), STR(t));
    return NULL;
}

static const char *rule_SHARED_WRITE(Rule *r)
{
    if (T(r, 0)->kind != TYPE_SHARED || T(r, 1)->kind != TYPE_TILE || T(r, 0)->dtype != T(r, 1)->dtype)
        WHY("shared_write of %s to %s", STR(T(r, 1)), STR(T(r, 0)));
    return NULL;
}

static const char *rule_COPY(Rule *r)
{
    if (r->n < 2 || T(r, 0)->kind != TYPE_SHARED || T(r, 1)->kind != TYPE_TENSOR)
        WHY("copies go from a tensor to shared memory");
    int parts = attr_int(r, ATTR_PARTS, 0) > 0;
    if (r->n != 2 + parts + T(r, 1)->rank) WHY("%d operands, must be %d", r->n, 2 + parts + T(r, 1)->rank);
    if (T(r, 0)->dtype != T(r, 1)->dtype) WHY("copy of %s to %s", STR(T(r, 1)), STR(T(r, 0)));
    for (int k = 2; k < r->n; k++)
        if (!is_offset(T(r, k)) && !(T(r, k)->kind == TYPE_TILE && dtype_is_int(T(r, k)->dtype)))
            WHY("offset %d is %s, must be an integer scalar or a tile of positions", k - 2, STR(T(r, k)));
    return NULL;
}

static const char *rule_WGMMA(Rule *r)
{
    const Type *a = T(r, 0), *b = T(r, 1), *c = T(r, 2);
    const Attr *part = attr(r, ATTR_PART);
    if ((a->kind != TYPE_TILE && a->kind != TYPE_SHARED) ||
        (b->kind != TYPE_TILE && b->kind != TYPE_SHARED) || c->kind != TYPE_TILE)
        WHY("product of %s and %s into %s", STR(a), STR(b), STR(c));
    if (part && (part->n != 2 || part->v[0] < 0 || part->v[1] < 1 || part->v[0] + part->v[1] > a->shape[1]))
        WHY("`part` lies beyond K of %s", STR(a));
    if (r->op == OP_WGMMA_PROMOTED && (attr_int(r, ATTR_PROMOTE, 0) < 1 || attr_int(r, ATTR_COUNT, 0) < 1))
        WHY("`promote` and `count` are 1 at least");
    return give(r, 0, c);
}

static const char *rule_PASS(Rule *r)
{
    for (int k = 0; k < r->n; k++) TRY(give(r, k, T(r, k)));
    return NULL;
}

static const char *rule_COMBINE(Rule *r)
{
    int64_t axis, count = attr_int(r, ATTR_COUNT, 0), shape[TILE_MAX_RANK], rmw = attr_int(r, ATTR_RMW, -1);
    const Type *t = T(r, 0);
    if (rmw != RMW_ADD && rmw != RMW_MAX && rmw != RMW_MIN) WHY("rmw must be add, max or min");
    if (attr_int(r, ATTR_AXIS, -1) < 0) {
        if (count < 2 || t->kind != TYPE_TILE) WHY("a tile and a count of CTAs");
        return give(r, 0, type_tile(r->s, t->dtype, t->rank, t->shape));
    }
    TRY(need_axis(r, &axis));
    if (count < 2 || t->shape[axis] % count)
        WHY("axis %lld of %s has no %lld equal parts", (long long)axis, STR(t), (long long)count);
    for (int k = 0; k < t->rank; k++) shape[k] = t->shape[k] / (k == axis ? count : 1);
    return give(r, 0, type_tile(r->s, t->dtype, t->rank, shape));
}

static const char *rule_VOTE(Rule *r)
{
    if (!type_is_value(T(r, 0)) || T(r, 0)->dtype != DT_BOOL)
        WHY("the operand must be bool, not %s", STR(T(r, 0)));
    return give(r, 0, type_scalar(r->s, DT_BOOL));
}

static const char *infer(Rule *r)
{
    const OpInfo *info = &op_info[r->op];
    if (info->n_operands >= 0 && r->n != info->n_operands)
        WHY("%d operands, must be %d", r->n, info->n_operands);
    for (int i = 0; i < r->attrs.n; i++) {
        const Attr *a = &r->attrs.v[i];
        if (attr_info[a->key].kind == ATTR_KIND_ENUM && !attr_enum_name(a->key, a->i))
            WHY("attribute %s has no value %lld", attr_info[a->key].name, (long long)a->i);
    }
    switch (r->op) {
#define OP(ID, name, operands, results, blocks, rule, flags, doc) \
    case OP_##ID: TRY(rule_##rule(r)); break;
#include "ir/ops.def"
#undef OP
    case OP_COUNT: WHY("no such operation");
    }
    if (info->n_results >= 0 && *r->n_results != info->n_results)
        WHY("%d results, must be %d", *r->n_results, info->n_results);
    return NULL;
}

const char *ir_infer(
    Session *s, Op op, Value *const *operands, int n, Attrs attrs, const Type **results, int *n_results)
{
    Rule r = { s, op, operands, n, attrs, results, n_results, NULL };
    return infer(&r);
}

const char *ir_check(Session *s, const Instr *i)
{
    const Type *results[IR_MAX_RESULTS];
    int n = i->n_results;
    if (n > IR_MAX_RESULTS) return "too many results";
    Value *few[32],
        **ops = i->n_operands <= 32 ? few : arena_array(&s->arena, Value *, (size_t)i->n_operands);
    for (int k = 0; k < i->n_operands; k++) ops[k] = ir_operand(i, k);
    for (int k = 0; k < n; k++) results[k] = i->results[k].type;
    if (op_info[i->op].n_blocks != i->n_blocks)
        return arena_printf(&s->arena, "%d blocks, must be %d", i->n_blocks, op_info[i->op].n_blocks);
    Rule r = { s, i->op, ops, i->n_operands, { i->attrs, i->n_attrs }, results, &n, i };
    const char *why = infer(&r);
    if (!why && n != i->n_results) why = arena_printf(&s->arena, "%d results, must be %d", i->n_results, n);
    return why;
}
