/* typerule.c: the type rule of every operation (the `type rule` column of ops.def). Here: the steps that
 * rules share, the rules of element-wise operations and of control flow, and the way in. A rule sees operands
 * and attributes and the results declared so far; it fills what it can infer, checks what was declared, and
 * returns the reason when an instruction is malformed. The builder, the front end and the verifier all call
 * these. */
#include "ir/verify/typerule.h"

const Attr *rule_attr(const Rule *r, AttrKey k)
{
    for (int i = 0; i < r->attrs.n; i++)
        if (r->attrs.v[i].key == k) return &r->attrs.v[i];
    return NULL;
}

int64_t rule_attr_int(const Rule *r, AttrKey k, int64_t otherwise)
{
    const Attr *a = rule_attr(r, k);
    return a ? a->i : otherwise;
}

const char *rule_give(Rule *r, int k, const Type *t)
{
    if (k < *r->n_results && r->results[k]) {
        if (!rule_equal_bare(r->results[k], t))
            WHY("result %d is %s, must be %s", k, STR(r->results[k]), STR(t));
        return NULL;
    }
    r->results[k] = t;
    if (*r->n_results <= k) *r->n_results = k + 1;
    return NULL;
}

const char *rule_declared(Rule *r)
{
    if (*r->n_results < 1 || !r->results[0]) WHY("the result type must be given");
    return NULL;
}

const char *rule_values_only(Rule *r)
{
    for (int k = 0; k < r->n; k++)
        if (!type_is_value(T(r, k))) WHY("operand %d is %s, must be a scalar or a tile", k, STR(T(r, k)));
    return NULL;
}

const char *rule_same_types(Rule *r, int from)
{
    TRY(rule_values_only(r));
    for (int k = from + 1; k < r->n; k++) {
        if (T(r, k)->dtype != T(r, from)->dtype)
            WHY("operands are of different types: %s and %s", STR(T(r, from)), STR(T(r, k)));
        if (!type_same_shape(T(r, k), T(r, from)))
            WHY("operands are of different shapes: %s and %s", STR(T(r, from)), STR(T(r, k)));
    }
    return NULL;
}

static const Type *result_like(Rule *r, int k) { return T(r, k); }

const char *rule_SAME_NUM(Rule *r)
{
    TRY(rule_same_types(r, 0));
    if (T(r, 0)->dtype == DT_BOOL) WHY("operands must be numbers, not bool");
    return rule_give(r, 0, result_like(r, 0));
}

const char *rule_SAME_INT(Rule *r)
{
    TRY(rule_same_types(r, 0));
    if (!dtype_is_int(T(r, 0)->dtype)) WHY("operands must be integers, not %s", dtype_name(T(r, 0)->dtype));
    return rule_give(r, 0, result_like(r, 0));
}

const char *rule_SAME_BITS(Rule *r)
{
    TRY(rule_same_types(r, 0));
    if (dtype_is_float(T(r, 0)->dtype))
        WHY("operands must be integers or bool, not %s", dtype_name(T(r, 0)->dtype));
    return rule_give(r, 0, result_like(r, 0));
}

const char *rule_SAME_FLOAT(Rule *r)
{
    TRY(rule_same_types(r, 0));
    if (!dtype_is_float(T(r, 0)->dtype))
        WHY("the operand must be of a floating type, not %s", dtype_name(T(r, 0)->dtype));
    return rule_give(r, 0, result_like(r, 0));
}

const char *rule_COMPARE(Rule *r)
{
    TRY(rule_same_types(r, 0));
    return rule_give(r, 0, type_with_dtype(r->s, T(r, 0), DT_BOOL));
}

const char *rule_WHERE(Rule *r)
{
    TRY(rule_values_only(r));
    if (T(r, 0)->dtype != DT_BOOL) WHY("the condition must be bool, not %s", STR(T(r, 0)));
    if (!rule_equal_bare(T(r, 1), T(r, 2)))
        WHY("the alternatives differ: %s and %s", STR(T(r, 1)), STR(T(r, 2)));
    if (!type_same_shape(T(r, 0), T(r, 1)))
        WHY("the condition is %s, the alternatives %s", STR(T(r, 0)), STR(T(r, 1)));
    return rule_give(r, 0, T(r, 1));
}

const char *rule_CONST(Rule *r)
{
    TRY(rule_declared(r));
    const Type *t = r->results[0];
    if (t->kind != TYPE_SCALAR) WHY("a constant is a scalar, not %s", STR(t));
    if (!rule_attr(r, dtype_is_float(t->dtype) ? ATTR_FVALUE : ATTR_IVALUE))
        WHY("the value of %s is missing", STR(t));
    return NULL;
}

const char *rule_INDEX(Rule *r)
{
    if (*r->n_results && r->results[0] && r->results[0]->kind == TYPE_SCALAR &&
        (r->results[0]->dtype == DT_I32 || r->results[0]->dtype == DT_I64))
        return NULL; /* narrowed */
    return rule_give(r, 0, type_scalar(r->s, DT_INDEX));
}

const char *rule_TOKEN(Rule *r)
{
    for (int k = 0; k < r->n; k++)
        if (T(r, k)->kind != TYPE_TOKEN) WHY("operand %d is %s, must be a token", k, STR(T(r, k)));
    return rule_give(r, 0, type_token(r->s));
}

const char *rule_ANY(Rule *r) { return NULL; }

const char *rule_ASSERT(Rule *r)
{
    if (!type_is_value(T(r, 0)) || T(r, 0)->dtype != DT_BOOL)
        WHY("the condition must be bool, not %s", STR(T(r, 0)));
    return NULL;
}

const char *rule_CAST(Rule *r)
{
    TRY(rule_values_only(r));
    TRY(rule_declared(r));
    if (!type_same_shape(T(r, 0), r->results[0]))
        WHY("a cast keeps the shape: %s to %s", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

const char *rule_BITCAST(Rule *r)
{
    TRY(rule_CAST(r));
    if (dtype_bits(T(r, 0)->dtype) != dtype_bits(r->results[0]->dtype))
        WHY("bitcast of %s to %s: the widths differ", STR(T(r, 0)), STR(r->results[0]));
    return NULL;
}

const char *rule_tile_declared(Rule *r)
{
    TRY(rule_declared(r));
    if (r->results[0]->kind != TYPE_TILE) WHY("the result must be a tile, not %s", STR(r->results[0]));
    return NULL;
}

const char *rule_check_order(Rule *r, const Attr *o, int rank)
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

const char *rule_need_axis(Rule *r, int64_t *axis)
{
    if (T(r, 0)->kind != TYPE_TILE) WHY("the operand must be a tile, not %s", STR(T(r, 0)));
    *axis = rule_attr_int(r, ATTR_AXIS, -1);
    if (*axis < 0 || *axis >= T(r, 0)->rank)
        WHY("axis %lld is out of range for %s", (long long)*axis, STR(T(r, 0)));
    return NULL;
}

const char *rule_yields(Rule *r, const Block *b, int n, const Type *const *types)
{
    const Instr *y = b->last;
    if (!y || y->op != OP_YIELD) WHY("the block must end in yield");
    if (y->n_operands != n) WHY("the block yields %d values, must be %d", y->n_operands, n);
    for (int k = 0; k < n; k++)
        if (!rule_equal_bare(ir_operand(y, k)->type, types[k]))
            WHY("the block yields %s as value %d, must be %s", STR(ir_operand(y, k)->type), k, STR(types[k]));
    return NULL;
}

const char *rule_args_are(Rule *r, const Block *b, int n, const Type *const *types)
{
    if (b->n_args != n) WHY("the block has %d arguments, must be %d", b->n_args, n);
    for (int k = 0; k < n; k++)
        if (!rule_equal_bare(b->args[k]->type, types[k]))
            WHY("block argument %d is %s, must be %s", k, STR(b->args[k]->type), STR(types[k]));
    return NULL;
}

const char *rule_PHILOX(Rule *r)
{
    TRY(rule_values_only(r));
    for (int k = 0; k < 2; k++)
        if (!dtype_is_int(T(r, k)->dtype)) WHY("operand %d is %s, must be of integers", k, STR(T(r, k)));
    if (!type_same_shape(T(r, 0), T(r, 1)))
        WHY("operands are of different shapes: %s and %s", STR(T(r, 0)), STR(T(r, 1)));
    return rule_give(r, 0, type_with_dtype(r->s, T(r, 1), DT_U32));
}

const char *rule_FOR(Rule *r)
{
    if (r->n < 3) WHY("for needs lo, hi and step");
    for (int k = 0; k < 3; k++)
        if (!rule_is_offset(T(r, k)) || T(r, k) != T(r, 0))
            WHY("lo, hi and step must be integer scalars of one type");
    const Type *types[IR_MAX_RESULTS + 1];
    int n = r->n - 3;
    if (n > IR_MAX_RESULTS) WHY("more than %d carried values", IR_MAX_RESULTS);
    types[0] = T(r, 0);
    for (int k = 0; k < n; k++) {
        types[k + 1] = T(r, k + 3);
        TRY(rule_give(r, k, types[k + 1]));
    }
    if (*r->n_results != n) WHY("%d results, must be %d", *r->n_results, n);
    if (!r->instr) return NULL;
    TRY(rule_args_are(r, r->instr->blocks[0], n + 1, types));
    return rule_yields(r, r->instr->blocks[0], n, types + 1);
}

const char *rule_WHILE(Rule *r)
{
    const Type *types[IR_MAX_RESULTS];
    if (r->n > IR_MAX_RESULTS) WHY("more than %d carried values", IR_MAX_RESULTS);
    for (int k = 0; k < r->n; k++) {
        types[k] = T(r, k);
        TRY(rule_give(r, k, types[k]));
    }
    if (*r->n_results != r->n) WHY("%d results, must be %d", *r->n_results, r->n);
    if (!r->instr) return NULL;
    TRY(rule_args_are(r, r->instr->blocks[0], r->n, types));
    TRY(rule_args_are(r, r->instr->blocks[1], r->n, types));
    const Instr *c = r->instr->blocks[0]->last;
    if (!c || c->op != OP_CONDITION) WHY("block 0 must end in condition");
    if (c->n_operands != r->n + 1 || ir_operand(c, 0)->type != type_scalar(r->s, DT_BOOL))
        WHY("condition takes a bool scalar and %d values", r->n);
    for (int k = 0; k < r->n; k++)
        if (!rule_equal_bare(ir_operand(c, k + 1)->type, types[k]))
            WHY("condition passes %s as value %d, must be %s", STR(ir_operand(c, k + 1)->type), k,
                STR(types[k]));
    return rule_yields(r, r->instr->blocks[1], r->n, types);
}

const char *rule_IF(Rule *r)
{
    if (T(r, 0) != type_scalar(r->s, DT_BOOL))
        WHY("the condition is %s, must be a bool scalar", STR(T(r, 0)));
    if (!r->instr) return NULL;
    for (int b = 0; b < 2; b++) {
        if (r->instr->blocks[b]->n_args) WHY("blocks of if take no arguments");
        TRY(rule_yields(r, r->instr->blocks[b], *r->n_results, r->results));
    }
    return NULL;
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
#define OP(ID, name, family, operands, results, blocks, rule, ...) \
    case OP_##ID: TRY(rule_##rule(r)); break;
#include "ir/ops.def"
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
