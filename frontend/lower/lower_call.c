/* lower_call.c: calls: casts by type name, fn functions, and the operations of builtins.def but those on
 * memory (lower_memory.c) and on shapes (lower_shape.c). */
#include <math.h>
#include "frontend/lower/lower.h"

static V poison(Lower *l, const Call *c)
{
    for (uint32_t i = 0; i < c->node->n; i++) {
        const Node *a = c->node->kids[i];
        if (a->kind != N_ARG) lower_expr(l, a);
    }
    return value_error();
}

Value *lower_operand(Lower *l, const Node *n)
{
    V v = lower_expr(l, n);
    return v.kind == V_ERROR ? NULL : lower_materialize(l, v, n->loc);
}

bool lower_flag(Lower *l, const Node *n, const char *what, bool *out)
{
    *out = false;
    return !n || lower_const_bool(l, n, what, out);
}

bool lower_axis(Lower *l, const Node *n, int rank, int64_t *out)
{
    if (!lower_const_int(l, n, "axis", -rank, rank - 1, out)) return false;
    if (*out < 0) *out += rank;
    return true;
}

Value *lower_tile_operand(Lower *l, const Call *c, const Node *n)
{
    Value *x = lower_operand(l, n);
    if (x && x->type->kind != TYPE_TILE) {
        lower_error(
            l, n->loc, "`%s` takes a tile, not the scalar `%s`", c->node->name, dtype_name(x->type->dtype));
        return NULL;
    }
    return x;
}

/* --- element-wise ------------------------------------------------------------------------------------ */

/* Computes a function of integer constants without a type. False: it is a function of floats, or is left to
 * the launch. */
static bool fold_integers(Op op, const V *v, V *out)
{
    __int128 a = v[0].big, b = op_info[op].n_operands > 1 ? v[1].big : 0;
    if (op == OP_ABS) *out = value_int(a < 0 ? -a : a);
    else if (op == OP_MIN) *out = value_int(a < b ? a : b);
    else if (op == OP_MAX) *out = value_int(a > b ? a : b);
    else if (op == OP_CLAMP) *out = value_int((a > b ? a : b) < v[2].big ? (a > b ? a : b) : v[2].big);
    else if (op == OP_CDIV && b > 0 && a >= 0) *out = value_int((a + b - 1) / b);
    else return false;
    return true;
}

/* Functions of constants without a type stay such constants: `1.0 / sqrt(128)` costs nothing and rounds once,
 * where it is used. The operations are those of f64, and min and max of an integer with a float are too. */
static bool fold_function(Op op, const V *v, int n, V *out)
{
    Scalar x[4], r;
    bool ints = true, arithmetic = op == OP_ABS || op == OP_DIV || op == OP_MIN || op == OP_MAX ||
                                   op == OP_MINNUM || op == OP_MAXNUM;
    if (n > 4) return false;
    for (int k = 0; k < n; k++) {
        if (!value_is_untyped(v[k])) return false;
        ints &= v[k].kind == V_INT;
        x[k] = scalar_float(v[k].kind == V_INT ? (double)v[k].big : v[k].f);
    }
    if (ints && fold_integers(op, v, out)) return true;
    if (ints && op == OP_CDIV) return false;
    if ((!arithmetic && op_family(op) != OPS_FUNCTION) || !scalar_op(op, DT_F64, x, &r)) return false;
    *out = value_float(r.f);
    return true;
}

static bool is_function(Op op) { return op_family(op) == OPS_FUNCTION; }

static V elementwise(Lower *l, Loc loc, const char *name, Op op, V *v, int n, Attrs attrs)
{
    V folded;
    for (int k = 0; k < n; k++)
        if (v[k].kind == V_ERROR) return value_error();
    if (fold_function(op, v, n, &folded)) return folded;
    for (int k = 0; k < n; k++) {
        if (!is_function(op) || v[k].kind != V_INT) continue;
        v[k] = lower_adapt(l, v[k], DT_F32, loc);
    }
    return lower_apply(l, loc, arena_printf(&l->s->arena, "`%s`", name), op, v, n, attrs);
}

static V call_elementwise(Lower *l, const Call *c, int op)
{
    int n = op_info[op].n_operands;
    V v[4];
    bool approx, ftz, ok = true;
    for (int k = 0; k < n; k++) v[k] = lower_expr(l, ARG(c, k));
    /* The flags follow the operands in the signature. abs, floor and others have none; fma has only ftz. */
    bool only_ftz = op == OP_FMA;
    ok &= lower_flag(l, only_ftz ? NULL : ARG(c, n), "approx", &approx);
    ok &= lower_flag(l, only_ftz ? ARG(c, n) : ARG(c, n + 1), "ftz", &ftz);
    if (!ok) return value_error();
    Attr attrs[2];
    int n_attrs = 0;
    if (approx) attrs[n_attrs++] = a_int(ATTR_APPROX, 1);
    if (ftz) attrs[n_attrs++] = a_int(ATTR_FTZ, 1);
    for (int k = 0; k < n && n_attrs; k++)
        if ((v[k].kind == V_IR || v[k].kind == V_CONST) && !dtype_is_float(value_dtype(v[k])))
            return lower_error(l, c->node->loc, "approx and ftz are for floating types, not `%s`",
                dtype_name(value_dtype(v[k])));
    return elementwise(l, c->node->loc, c->node->name, (Op)op, v, n, (Attrs){ attrs, n_attrs });
}

static V call_where(Lower *l, const Call *c, int op)
{
    V v[3];
    for (int k = 0; k < 3; k++) v[k] = lower_expr(l, ARG(c, k));
    if (v[0].kind == V_ERROR) return value_error();
    if (!value_is_number(v[0]) || value_is_untyped(v[0]) || value_dtype(v[0]) != DT_BOOL)
        return lower_error(l, ARG(c, 0)->loc, "the condition must be bool, not %s", value_describe(l, v[0]));
    return lower_apply(l, c->node->loc, "`where`", OP_WHERE, v, 3, NO_ATTRS);
}

static V call_random(Lower *l, const Call *c, int op)
{
    V v[2] = { lower_expr(l, ARG(c, 0)), lower_expr(l, ARG(c, 1)) };
    Value *x[2];
    int rank;
    int64_t shape[TILE_MAX_RANK];
    for (int k = 0; k < 2; k++) {
        if (v[k].kind == V_ERROR) return value_error();
        if (v[k].kind == V_INT) v[k] = lower_adapt(l, v[k], k ? DT_INDEX : DT_U64, ARG(c, k)->loc);
        if (v[k].kind == V_ERROR) return value_error();
        if ((v[k].kind != V_CONST && v[k].kind != V_IR) || !dtype_is_int(value_dtype(v[k])))
            return lower_error(l, ARG(c, k)->loc, "the %s must be of integers, not %s",
                k ? "counter" : "seed", value_describe(l, v[k]));
    }
    const char *name = op_info[op].name, *quoted = arena_printf(&l->s->arena, "`%s`", name);
    if (!lower_join_shapes(l, c->node->loc, quoted, v, 2, &rank, shape)) return value_error();
    l->b.loc = c->node->loc;
    for (int k = 0; k < 2; k++)
        x[k] = lower_to_shape(l, lower_materialize(l, v[k], c->node->loc), rank, shape);
    return lower_emit(l, c->node->loc, name, (Op)op, x, 2, NO_ATTRS, NULL);
}

/* --- reductions and scans ---------------------------------------------------------------------------- */

/* The axes to reduce, highest first; all of them when not given. */
bool lower_axes(Lower *l, const Node *n, int rank, int *axes, int *n_axes)
{
    bool chosen[TILE_MAX_RANK] = { false };
    if (!n)
        for (int i = 0; i < rank; i++) chosen[i] = true;
    bool tuple = n && n->kind == N_TUPLE;
    for (uint32_t i = 0; n && i < (tuple ? n->n : 1); i++) {
        int64_t a;
        if (!lower_axis(l, tuple ? n->kids[i] : n, rank, &a)) return false;
        if (chosen[a]) {
            lower_error(l, n->loc, "axis %lld is named twice", (long long)a);
            return false;
        }
        chosen[a] = true;
    }
    *n_axes = 0;
    for (int i = rank - 1; i >= 0; i--)
        if (chosen[i]) axes[(*n_axes)++] = i;
    return true;
}

/* A scalar has no axes, so that all of them are reduced by taking it as it is: functions that reduce what
 * they are given also work for one element. */
static V reduce_scalar(Lower *l, const Call *c, Op op, Value *x)
{
    bool logical = op == OP_REDUCE_ANY || op == OP_REDUCE_ALL;
    if (logical == (x->type->dtype == DT_BOOL)) return value_ir(x);
    return lower_error(l, c->node->loc, "%s: the operand must be %s, not %s", c->node->name,
        logical ? "bool" : "of numbers", dtype_name(x->type->dtype));
}

static V reduce_axes(Lower *l, const Call *c, Op op, const Node *axis, const Node *drop)
{
    Value *x = lower_operand(l, ARG(c, 0));
    int axes[TILE_MAX_RANK], n;
    bool dropped, place = op == OP_ARGMAX || op == OP_ARGMIN;
    bool ok = lower_flag(l, drop, "drop", &dropped);
    if (!x || !ok) return value_error();
    if (x->type->kind != TYPE_TILE && !axis && !place) return reduce_scalar(l, c, op, x);
    if (x->type->kind != TYPE_TILE)
        return lower_error(l, ARG(c, 0)->loc, "`%s`%s takes a tile, not the scalar `%s`", c->node->name,
            place ? "" : " along an axis", dtype_name(x->type->dtype));
    if (!lower_axes(l, axis, x->type->rank, axes, &n)) return value_error();
    if (op == OP_REDUCE_SUM && x->type->dtype == DT_BOOL)
        return lower_error_note(l, c->node->loc,
            "`sum(i32(condition))` counts; `any(condition)` and `all(condition)` give a bool",
            "%s: the operand must be of numbers, not %s", c->node->name, type_string(l->s, x->type));
    if (place && n > 1)
        return lower_error_note(
            l, c->node->loc, "give `axis = a`", "`%s` of a tile of %d axes needs one axis", c->node->name, n);
    for (int i = 0; i < n; i++) {
        V v = lower_emit(l, c->node->loc, c->node->name, op, &x, 1,
            ATTRS(a_int(ATTR_AXIS, axes[i]), a_int(ATTR_DROP, dropped)), NULL);
        if (v.kind == V_ERROR) return v;
        x = v.value;
    }
    return value_ir(x);
}

static V call_reduction(Lower *l, const Call *c, int op)
{ return reduce_axes(l, c, (Op)op, ARG(c, 1), ARG(c, 2)); }

/* With one operand a reduction, with more the element-wise operation. */
static V call_min_max(Lower *l, const Call *c, int op)
{
    if (!c->args.n_rest)
        return reduce_axes(l, c, op == OP_MAX ? OP_REDUCE_MAX : OP_REDUCE_MIN, ARG(c, 1), ARG(c, 2));
    if (ARG(c, 1) || ARG(c, 2)) {
        poison(l, c);
        return lower_error_note(l, c->node->loc, "with one operand it reduces along an axis",
            "`%s` of several operands takes no axis", c->node->name);
    }
    V acc = lower_expr(l, ARG(c, 0));
    if (c->args.n_rest == 1) lower_axis_warning(l, c->node, acc, c->args.rest[0]);
    for (int i = 0; i < c->args.n_rest; i++) {
        V v[2] = { acc, lower_expr(l, c->args.rest[i]) };
        acc = elementwise(l, c->node->loc, c->node->name, (Op)op, v, 2, NO_ATTRS);
    }
    return acc;
}

static V call_cumulative(Lower *l, const Call *c, int op)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    bool reverse;
    int64_t axis = 0;
    bool ok = lower_flag(l, ARG(c, 2), "reverse", &reverse);
    if (!x || !ok) return value_error();
    if (!ARG(c, 1) && x->type->rank != 1)
        return lower_error_note(l, c->node->loc, "give `axis = a`", "`%s` of a tile of %d axes needs an axis",
            c->node->name, x->type->rank);
    if (ARG(c, 1) && !lower_axis(l, ARG(c, 1), x->type->rank, &axis)) return value_error();
    Attr attrs[2] = { a_int(ATTR_AXIS, axis), a_int(ATTR_REVERSE, 1) };
    return lower_emit(l, c->node->loc, c->node->name, (Op)op, &x, 1, (Attrs){ attrs, 1 + reverse }, NULL);
}

static V call_combined(Lower *l, const Call *c, int op) { return lower_combined(l, c, (Op)op); }

static V call_sort(Lower *l, const Call *c, int op)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    bool down;
    bool ok = lower_flag(l, ARG(c, 1), "descending", &down);
    if (!x || !ok) return value_error();
    Attr a = a_int(ATTR_REVERSE, 1);
    return lower_emit(l, c->node->loc, "sort", OP_SORT, &x, 1, (Attrs){ &a, down }, NULL);
}

static V call_topk(Lower *l, const Call *c, int op)
{
    Value *x = lower_tile_operand(l, c, ARG(c, 0));
    int64_t count;
    if (!x) return value_error();
    if (!lower_const_int(l, ARG(c, 1), "the count of topk", 1, x->type->shape[x->type->rank - 1], &count))
        return value_error();
    V v = lower_emit(l, c->node->loc, "topk", OP_TOPK, &x, 1, ATTRS(a_int(ATTR_COUNT, count)), NULL);
    if (v.kind == V_ERROR) return v;
    Instr *i = v.value->def;
    return value_tuple(l, 2, (V[]){ value_ir(&i->results[0]), value_ir(&i->results[1]) });
}

static V call_bits(Lower *l, const Call *c, int op)
{ return lower_bits(l, c->node, lower_expr(l, ARG(c, 0))); }

/* --- making tiles ------------------------------------------------------------------------------------ */

static V call_arange(Lower *l, const Call *c, int op)
{
    int64_t n, start = 0;
    if (!lower_const_int(l, ARG(c, 0), "a tile extent", 1, INT64_MAX, &n)) return value_error();
    if (ARG(c, 1) && !lower_const_int(l, ARG(c, 1), "start", -((int64_t)1 << 62), (int64_t)1 << 62, &start))
        return value_error();
    const Type *t = lower_tile_type(l, c->node->loc, DT_INDEX, 1, &n);
    return t ? lower_emit(l, c->node->loc, "arange", OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, start)), t)
             : value_error();
}

/* zeros(shape, dtype) is full(shape, 0, dtype). */
static V call_full(Lower *l, const Call *c, int op)
{
    bool zeros = !strcmp(c->node->name, "zeros");
    const Node *type = zeros ? ARG(c, 1) : ARG(c, 2);
    int rank;
    int64_t shape[TILE_MAX_RANK];
    V v = zeros ? value_int(0) : lower_expr(l, ARG(c, 1));
    DType d = DT_F32;
    bool ok = lower_const_shape(l, ARG(c, 0), "the shape", &rank, shape);
    if (type) ok &= lower_const_dtype(l, type, &d);
    if (!ok || v.kind == V_ERROR) return value_error();
    Loc loc = zeros ? c->node->loc : ARG(c, 1)->loc;
    if (!value_is_number(v) || value_rank(v))
        return lower_error(l, loc, "a tile is filled with a scalar, not %s", value_describe(l, v));
    if (zeros && d == DT_BOOL) v = value_bool(false);
    if (type && value_is_untyped(v)) v = lower_adapt(l, v, d, loc);
    v = lower_concretize(l, v, loc);
    if (v.kind == V_ERROR) return v;
    if (type && value_dtype(v) != d)
        return lower_error_note(l, loc, arena_printf(&l->s->arena, "write `%s(...)`", dtype_name(d)),
            "the value is `%s`, the tile `%s`", dtype_name(value_dtype(v)), dtype_name(d));
    if (!lower_tile_type(l, c->node->loc, value_dtype(v), rank, shape)) return value_error();
    Value *x = lower_materialize(l, v, loc);
    l->b.loc = c->node->loc;
    return value_ir(lower_to_shape(l, x, rank, shape));
}

static V call_cast(Lower *l, const Call *c, int op)
{
    V v = lower_expr(l, ARG(c, 0));
    DType d;
    return lower_const_dtype(l, ARG(c, 1), &d) && v.kind != V_ERROR ? lower_cast(l, v, d, c->node->loc)
                                                                    : value_error();
}

static V call_bitcast(Lower *l, const Call *c, int op)
{
    Value *x = lower_operand(l, ARG(c, 0));
    DType d;
    if (!x || !lower_const_dtype(l, ARG(c, 1), &d)) return value_error();
    return lower_emit(
        l, c->node->loc, "bitcast", OP_BITCAST, &x, 1, NO_ATTRS, type_with_dtype(l->s, x->type, d));
}

/* --- matrix product ---------------------------------------------------------------------------------- */

static V call_mma(Lower *l, const Call *c, int op) { return lower_product(l, c); }

/* --- the launch -------------------------------------------------------------------------------------- */

static V call_program(Lower *l, const Call *c, int op)
{
    if (l->in_clause && op == OP_PROGRAM_ID)
        return lower_error(l, c->node->loc, "`program_id` has no meaning in a grid or remap clause");
    int rank = l->func->grid ? ir_terminator(l->func->grid)->n_operands : 0;
    int64_t axis = 0;
    l->b.loc = c->node->loc;
    if (rank == 0)
        return lower_error(l, c->node->loc, "`%s` is known only after the grid clause", c->node->name);
    if (ARG(c, 0)) {
        if (!lower_const_int(l, ARG(c, 0), "a grid axis", 0, rank - 1, &axis)) return value_error();
        return value_ir(ir_emit(&l->b, (Op)op, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)), NULL));
    }
    /* In a remap, the launch is a line of programs. */
    if (l->in_clause) return value_ir(ir_emit(&l->b, (Op)op, NULL, 0, ATTRS(a_int(ATTR_AXIS, -1)), NULL));
    V items[3];
    for (int i = 0; i < rank; i++)
        items[i] = value_ir(ir_emit(&l->b, (Op)op, NULL, 0, ATTRS(a_int(ATTR_AXIS, i)), NULL));
    return rank == 1 ? items[0] : value_tuple(l, rank, items);
}

static V call_tensor_fact(Lower *l, const Call *c, int op)
{
    V t = lower_expr(l, ARG(c, 0));
    int64_t axis;
    if (t.kind == V_ERROR || lower_is_absent(l, ARG(c, 0), t)) return value_error();
    if (t.kind != V_TENSOR)
        return lower_error(
            l, ARG(c, 0)->loc, "`%s` takes a tensor, not %s", c->node->name, value_describe(l, t));
    const KParam *p = &l->params[t.param];
    if (!p->type->rank) return lower_error(l, c->node->loc, "a tensor without axes has no extents");
    if (!lower_axis(l, ARG(c, 1), p->type->rank, &axis)) return value_error();
    l->b.loc = c->node->loc;
    if (op == OP_STRIDE)
        return value_ir(ir_emit(
            &l->b, OP_STRIDE, NULL, 0, ATTRS(a_int(ATTR_PARAM, t.param), a_int(ATTR_AXIS, axis)), NULL));
    int d = p->dims[axis];
    return l->func->dims[d].extent >= 0 ? value_index(l->func->dims[d].extent) : value_ir(lower_dim(l, d));
}

/* --- print and assert -------------------------------------------------------------------------------- */

static V no_effect_here(Lower *l, const Call *c)
{ return lower_error(l, c->node->loc, "`%s` cannot stand in a grid or remap clause", c->node->name); }

static V call_print(Lower *l, const Call *c, int op)
{
    if (ARG(c, 0)->kind != N_STRING)
        return lower_error(l, ARG(c, 0)->loc, "the first argument of print is a string");
    if (l->in_clause) return no_effect_here(l, c);
    Value **x = arena_array(&l->s->arena, Value *, (size_t)c->args.n_rest + 1);
    for (int i = 0; i < c->args.n_rest; i++)
        if (!(x[i] = lower_operand(l, c->args.rest[i]))) return value_error();
    l->b.loc = c->node->loc;
    ir_build(&l->b, OP_PRINT, x, c->args.n_rest, ATTRS(a_str(ATTR_MESSAGE, ARG(c, 0)->name)), NULL, 0);
    return value_void();
}

static V call_assert(Lower *l, const Call *c, int op)
{
    V v = lower_expr(l, ARG(c, 0));
    const char *text = "";
    bool known;
    if (ARG(c, 1)) {
        if (ARG(c, 1)->kind != N_STRING)
            return lower_error(l, ARG(c, 1)->loc, "the second argument of assert is a string");
        text = ARG(c, 1)->name;
    }
    if (v.kind == V_ERROR) return v;
    if ((v.kind != V_CONST && v.kind != V_IR) || value_dtype(v) != DT_BOOL)
        return lower_error(
            l, ARG(c, 0)->loc, "the condition of assert must be bool, not %s", value_describe(l, v));
    if (l->in_clause) return no_effect_here(l, c);
    if (value_to_bool(v, &known)) {
        if (!known)
            return lower_error(
                l, c->node->loc, "assertion fails at compile time%s%s", *text ? ": " : "", text);
        return value_void();
    }
    l->b.loc = c->node->loc;
    ir_build(&l->b, OP_ASSERT, &v.value, 1, ATTRS(a_str(ATTR_MESSAGE, text)), NULL, 0);
    return value_void();
}

/* --- dispatch ---------------------------------------------------------------------------------------- */

static V call_has(Lower *l, const Call *c, int op) { return lower_has(l, c); }
static V call_reshape(Lower *l, const Call *c, int op) { return lower_reshape(l, c); }
static V call_transpose(Lower *l, const Call *c, int op) { return lower_transpose(l, c); }
static V call_permute(Lower *l, const Call *c, int op) { return lower_permute(l, c); }
static V call_broadcast(Lower *l, const Call *c, int op) { return lower_broadcast(l, c); }
static V call_concat(Lower *l, const Call *c, int op) { return lower_concat(l, c); }
static V call_split(Lower *l, const Call *c, int op) { return lower_split(l, c); }
static V call_shift(Lower *l, const Call *c, int op) { return lower_shift(l, c); }
static V call_load(Lower *l, const Call *c, int op) { return lower_load(l, c); }
static V call_store(Lower *l, const Call *c, int op) { return lower_store(l, c); }
static V call_gather(Lower *l, const Call *c, int op) { return lower_gather(l, c); }
static V call_scatter(Lower *l, const Call *c, int op) { return lower_scatter(l, c); }
static V call_atomic(Lower *l, const Call *c, int op) { return lower_atomic(l, c, op); }
static V call_pass_steps(Lower *l, const Call *c, int op)
{ return l->in_clause ? no_effect_here(l, c) : lower_pass_steps(l, c); }
static V call_atomic_cas(Lower *l, const Call *c, int op) { return lower_atomic_cas(l, c); }

static const struct {
    V (*fn)(Lower *, const Call *, int);
    int op;
} handlers[] = {
#define BUILTIN(name, signature, handler, op) { call_##handler, op },
#include "frontend/check/builtins.def"
#undef BUILTIN
};

static V cast_call(Lower *l, const Node *n, DType d)
{
    if (n->n != 1 || n->kids[0]->kind == N_ARG)
        return lower_error(l, n->loc, "a cast takes one value: `%s(x)`", n->name);
    V v = lower_expr(l, n->kids[0]);
    return v.kind == V_ERROR ? v : lower_cast(l, v, d, n->loc);
}

V lower_call(Lower *l, const Node *n)
{
    const Var *var = lower_scope_find(l, n->name);
    DType d;
    if (var && var->v.kind == V_TYPE) return cast_call(l, n, var->v.dtype);
    if (dtype_parse(n->name, strlen(n->name), &d)) return cast_call(l, n, d);
    const Node *fn = ast_find_fn(l->ast, n->name);
    if (fn) return lower_fn_call(l, n, fn);
    const Builtin *b = builtin_find(n->name);
    if (!b) return lower_error(l, n->name_loc, "unknown function `%s`", n->name);
    Call c = { n, b, { { NULL }, NULL, 0 } };
    if (!call_match(l->s, n, b, l->target, !l->stopped, &c.args)) return poison(l, &c);
    int i = builtin_index(b);
    return handlers[i].fn(l, &c, handlers[i].op);
}
