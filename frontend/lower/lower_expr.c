/* lower_expr.c: expressions: names, operators, subscripts of tiles, and the places where a constant is
 * required. */
#include <math.h>
#include "frontend/lower/lower.h"

/* --- constants without a type ------------------------------------------------------------------------ */

static V checked_int(Lower *l, Loc loc, __int128 i)
{
    if (i > (__int128)UINT64_MAX || i < -(__int128)INT64_MAX - 1)
        return lower_error(l, loc, "constant expression does not fit in 64 bits");
    return value_int(i);
}

static V fold_ints(Lower *l, Loc loc, Operator op, __int128 a, __int128 b)
{
    switch (op) {
    case OPR_ADD: return checked_int(l, loc, a + b);
    case OPR_SUB: return checked_int(l, loc, a - b);
    case OPR_MUL: {
        __int128 r;
        if (__builtin_mul_overflow(a, b, &r)) r = (__int128)1 << 100;
        return checked_int(l, loc, r);
    }
    case OPR_DIV:
    case OPR_REM:
        if (b == 0) return lower_error(l, loc, "division by zero in a constant expression");
        return checked_int(l, loc, op == OPR_DIV ? a / b : a % b);
    case OPR_SHL:
    case OPR_SHR:
        if (b < 0 || b > 63) return lower_error(l, loc, "shift of a constant by %lld", (long long)b);
        if (op == OPR_SHR) return value_int(a >> b);
        return checked_int(l, loc, a * ((__int128)1 << b));
    case OPR_AND: return checked_int(l, loc, a & b);
    case OPR_OR: return checked_int(l, loc, a | b);
    case OPR_XOR: return checked_int(l, loc, a ^ b);
    case OPR_EQ: return value_bool(a == b);
    case OPR_NE: return value_bool(a != b);
    case OPR_LT: return value_bool(a < b);
    case OPR_LE: return value_bool(a <= b);
    case OPR_GT: return value_bool(a > b);
    case OPR_GE: return value_bool(a >= b);
    case OPR_NONE:
    case OPR_NEG:
    case OPR_PLUS:
    case OPR_NOT:
    case OPR_BITNOT:
    case OPR_LAND:
    case OPR_LOR: break;
    }
    return lower_error(l, loc, "`%s` needs bool operands, not integer constants", ast_operator_text(op));
}

static V fold_floats(Lower *l, Loc loc, Operator op, double a, double b)
{
    if (op == OPR_ADD) return value_float(a + b);
    if (op == OPR_SUB) return value_float(a - b);
    if (op == OPR_MUL) return value_float(a * b);
    if (op == OPR_DIV) return value_float(a / b);
    if (op == OPR_EQ) return value_bool(a == b);
    if (op == OPR_NE) return value_bool(a != b);
    if (op == OPR_LT) return value_bool(a < b);
    if (op == OPR_LE) return value_bool(a <= b);
    if (op == OPR_GT) return value_bool(a > b);
    if (op == OPR_GE) return value_bool(a >= b);
    return lower_error(l, loc, "`%s` is not for floating constants", ast_operator_text(op));
}

static double untyped_float(V v) { return v.kind == V_INT ? (double)v.big : v.f; }

/* --- operators --------------------------------------------------------------------------------------- */

static Op operator_op(Operator o)
{
    switch (o) {
    case OPR_ADD: return OP_ADD;
    case OPR_SUB: return OP_SUB;
    case OPR_MUL: return OP_MUL;
    case OPR_DIV: return OP_DIV;
    case OPR_REM: return OP_REM;
    case OPR_SHL: return OP_SHL;
    case OPR_SHR: return OP_SHR;
    case OPR_AND:
    case OPR_LAND: return OP_AND;
    case OPR_OR:
    case OPR_LOR: return OP_OR;
    case OPR_XOR: return OP_XOR;
    case OPR_EQ: return OP_EQ;
    case OPR_NE: return OP_NE;
    case OPR_LT: return OP_LT;
    case OPR_LE: return OP_LE;
    case OPR_GT: return OP_GT;
    case OPR_GE: return OP_GE;
    case OPR_NEG: return OP_NEG;
    case OPR_NOT:
    case OPR_BITNOT: return OP_NOT;
    case OPR_NONE:
    case OPR_PLUS: return OP_COUNT;
    }
    return OP_COUNT;
}

/* Checks the operands of an operator, except that both must have one type. */
static bool operand_ok(Lower *l, Loc loc, Operator o, V v)
{
    DType d = value_dtype(v);
    const char *want = NULL, *note = NULL;
    switch (o) {
    case OPR_LAND:
    case OPR_LOR:
    case OPR_NOT:
        if (d != DT_BOOL) want = "bool", note = "a comparison gives one, as in `x != 0`";
        break;
    case OPR_ADD:
    case OPR_SUB:
    case OPR_MUL:
    case OPR_DIV:
    case OPR_NEG:
    case OPR_PLUS:
    case OPR_LT:
    case OPR_LE:
    case OPR_GT:
    case OPR_GE:
        if (d == DT_BOOL) want = "numbers", note = "`i32(b)` of a bool is 0 or 1";
        break;
    case OPR_REM:
    case OPR_SHL:
    case OPR_SHR:
    case OPR_BITNOT:
        if (!dtype_is_int(d)) want = "integers";
        if (want && o == OPR_REM) note = "of floats at or above 0 it is `x - floor(x / y) * y`";
        break;
    case OPR_AND:
    case OPR_OR:
    case OPR_XOR:
        if (dtype_is_float(d)) want = "integers or bool";
        break;
    case OPR_EQ:
    case OPR_NE:
    case OPR_NONE: break;
    }
    if (want)
        lower_error_note(l, loc, note, "`%s` takes %s, not `%s`", ast_operator_text(o), want, dtype_name(d));
    return !want;
}

static bool numbers(Lower *l, Loc loc, Operator o, V v)
{
    if (v.kind == V_ERROR) return false;
    if (value_is_number(v)) return true;
    if (v.kind == V_TENSOR)
        lower_error_note(
            l, loc, "read it with load(X[...])", "`%s` takes values, not a tensor", ast_operator_text(o));
    else
        lower_error_note(l, loc,
            v.kind == V_TUPLE
                ? "names take a tuple apart: `let (a, b) = x;`, as in `let (i, j) = program_id();`"
                : NULL,
            "`%s` takes numbers, not %s", ast_operator_text(o), value_describe(l, v));
    return false;
}

static V apply_operator(Lower *l, Loc loc, Operator o, V a, V b)
{
    if (value_is_untyped(a) && value_is_untyped(b)) {
        if (a.kind == V_INT && b.kind == V_INT) return fold_ints(l, loc, o, a.big, b.big);
        return fold_floats(l, loc, o, untyped_float(a), untyped_float(b));
    }
    const char *what = arena_printf(&l->s->arena, "`%s`", ast_operator_text(o));
    if (!lower_same_dtype(l, loc, what, &a, &b)) return value_error();
    if (!operand_ok(l, loc, o, a)) return value_error();
    V v[2] = { a, b };
    return lower_apply(l, loc, what, operator_op(o), v, 2, NO_ATTRS);
}

static V lower_binary(Lower *l, const Node *n)
{
    V a = lower_expr(l, n->kids[0]), b = lower_expr(l, n->kids[1]);
    Operator o = (Operator)n->op;
    bool ok = numbers(l, n->kids[0]->loc, o, a);
    ok &= numbers(l, n->kids[1]->loc, o, b);
    if (!ok) return value_error();
    const char *tighter = (a.kind == V_INT) != (b.kind == V_INT) ? lower_tighter_note(l, n) : NULL;
    if (tighter) return lower_error_note(l, n->loc, tighter, "an integer constant is no bool");
    if (!value_is_untyped(a) && !value_is_untyped(b) && value_dtype(a) != value_dtype(b))
        return lower_error_note(l, n->loc, lower_mix_note(l, n, a, b), "`%s` of `%s` and `%s`",
            ast_operator_text(o), dtype_name(value_dtype(a)), dtype_name(value_dtype(b)));
    return apply_operator(l, n->loc, o, a, b);
}

static V lower_unary(Lower *l, const Node *n)
{
    V a = lower_expr(l, n->kids[0]);
    Operator o = (Operator)n->op;
    if (!numbers(l, n->kids[0]->loc, o, a)) return value_error();
    if (a.kind == V_INT) {
        if (o == OPR_NEG) return checked_int(l, n->loc, -a.big);
        if (o == OPR_PLUS) return a;
        if (o == OPR_BITNOT) return checked_int(l, n->loc, ~a.big);
        return lower_error(l, n->loc, "`!` takes bool, not an integer constant");
    }
    if (a.kind == V_FLOAT) {
        if (o == OPR_NEG) return value_float(-a.f);
        if (o == OPR_PLUS) return a;
        return lower_error(l, n->loc, "`%s` is not for floating constants", ast_operator_text(o));
    }
    if (!operand_ok(l, n->loc, o, a)) return value_error();
    if (o == OPR_PLUS) return a;
    return lower_apply(
        l, n->loc, arena_printf(&l->s->arena, "`%s`", ast_operator_text(o)), operator_op(o), &a, 1, NO_ATTRS);
}

/* `c ? a : b` of values; of two tuples of as many parts, part by part. */
static V choose(Lower *l, Loc loc, V c, V a, V b)
{
    if (a.kind != V_TUPLE || b.kind != V_TUPLE || a.n != b.n) {
        V v[3] = { c, a, b };
        if (a.kind == V_TUPLE && b.kind == V_TUPLE)
            return lower_error(l, loc, "`?:` of a tuple of %d and a tuple of %d", a.n, b.n);
        return lower_apply(l, loc, "`?:`", OP_WHERE, v, 3, NO_ATTRS);
    }
    V *items = arena_alloc(&l->s->arena, (size_t)a.n * sizeof *items);
    for (int k = 0; k < a.n; k++) {
        items[k] = choose(l, loc, c, a.items[k], b.items[k]);
        if (items[k].kind == V_ERROR) return value_error();
    }
    return (V){ .kind = V_TUPLE, .n = a.n, .items = items };
}

/* With a constant condition only the chosen side exists. Otherwise both sides are computed and one is taken:
 * expressions have no effects, and a load out of range gives its pad, so nobody can tell. The same holds for
 * && and ||. */
static V lower_cond(Lower *l, const Node *n)
{
    V c = lower_expr(l, n->kids[0]);
    bool known;
    if (c.kind == V_ERROR) return value_error();
    if (value_to_bool(c, &known)) return lower_expr(l, n->kids[known ? 1 : 2]);
    if (!value_is_number(c) || value_is_untyped(c) || value_dtype(c) != DT_BOOL)
        return lower_error(
            l, n->kids[0]->loc, "the condition of `?:` must be bool, not %s", value_describe(l, c));
    if (value_rank(c))
        return lower_error_note(l, n->kids[0]->loc, "where(condition, a, b) chooses element by element",
            "the condition of `?:` must be a scalar, not %s", value_describe(l, c));
    const V a = lower_expr(l, n->kids[1]), b = lower_expr(l, n->kids[2]);
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    return choose(l, n->loc, c, a, b);
}

/* --- names ------------------------------------------------------------------------------------------- */

/* The current values of an array of variables, as a tuple. */
static V array_values(Lower *l, const Var *array)
{
    V items[LIMIT_ARRAY];
    for (int k = 0; k < array->n_elements; k++) {
        items[k] = array->elements[k].v;
        if (items[k].kind == V_ERROR) return value_error();
    }
    return value_tuple(l, array->n_elements, items);
}

static V lower_name(Lower *l, const Node *n)
{
    Var *v = lower_scope_find(l, n->name);
    if (v && v->elements) return array_values(l, v);
    if (v) return v->v;
    if (l->func && l->frame && l->frame->is_kernel)
        for (int d = 0; d < l->func->n_dims; d++) {
            const Dim *dim = &l->func->dims[d];
            if (!dim->name || strcmp(dim->name, n->name)) continue;
            return dim->extent >= 0 ? value_index(dim->extent) : value_ir(lower_dim(l, d));
        }
    V absent;
    if (l->frame && l->frame->is_kernel && lower_absent_dim(l, n, &absent)) return absent;
    DType t;
    if (dtype_parse(n->name, strlen(n->name), &t)) return value_type(t);
    if (!strcmp(n->name, "inf")) return value_float(INFINITY);
    if (!strcmp(n->name, "nan")) return value_float(NAN);
    if (ast_find_fn(l->ast, n->name) || builtin_find(n->name))
        return lower_error(l, n->loc, "`%s` is a function: call it with (...)", n->name);
    return lower_error(l, n->loc, "unknown name `%s`", n->name);
}

/* --- x[:, None], t[0], LUT[i] ------------------------------------------------------------------------ */

static V index_tuple(Lower *l, const Node *n, V t)
{
    int64_t k;
    if (n->n != 2 || n->kids[1]->kind == N_ALL || n->kids[1]->kind == N_WINDOW)
        return lower_error(l, n->loc, "a tuple takes one constant subscript");
    if (!lower_const_int(l, n->kids[1], "the subscript of a tuple", 0, t.n - 1, &k)) return value_error();
    return t.items[k];
}

static V lower_index(Lower *l, const Node *n)
{
    V x = lower_expr(l, n->kids[0]);
    if (x.kind == V_ERROR || lower_is_absent(l, n->kids[0], x)) return value_error();
    if (x.kind == V_TUPLE) return index_tuple(l, n, x);
    if (x.kind == V_TABLE) return lower_table_entry(l, n, x);
    if (x.kind == V_TENSOR)
        return lower_error_note(l, n->loc,
            arena_printf(&l->s->arena, "write `load(%s[...])`; `gather` takes tiles of indices",
                n->kids[0]->kind == N_NAME ? n->kids[0]->name : "X"),
            "a window of a tensor is not a value");
    Value *v = lower_materialize(l, x, n->kids[0]->loc);
    if (!v) return value_error();
    return lower_part(l, n, v);
}

static V lower_tuple(Lower *l, const Node *n)
{
    V *items = arena_array(&l->s->arena, V, (size_t)n->n + 1);
    for (uint32_t i = 0; i < n->n; i++) {
        items[i] = lower_expr(l, n->kids[i]);
        if (items[i].kind == V_ERROR) return value_error();
    }
    return (V){ .kind = V_TUPLE, .n = (int)n->n, .items = items };
}

V lower_expr(Lower *l, const Node *n)
{
    if (!lower_descend(l, n->loc)) return value_error();
    Loc outer = l->b.loc;
    V v = value_error();
    switch (ast_expression(n)) {
    case EXPR_ERROR: v = value_error(); break;
    case EXPR_INT: v = value_int((__int128)n->u); break;
    case EXPR_FLOAT: v = value_float(n->f); break;
    case EXPR_BOOL: v = value_bool(n->u != 0); break;
    case EXPR_STRING: v = (V){ .kind = V_STRING, .text = n->name }; break;
    case EXPR_NONE: v = (V){ .kind = V_NONE }; break;
    case EXPR_NAME: v = lower_name(l, n); break;
    case EXPR_TUPLE: v = lower_tuple(l, n); break;
    case EXPR_UNARY: v = lower_unary(l, n); break;
    case EXPR_BINARY: v = lower_binary(l, n); break;
    case EXPR_COND: v = lower_cond(l, n); break;
    case EXPR_CALL: v = lower_call(l, n); break;
    case EXPR_INDEX: v = lower_index(l, n); break;
    case EXPR_LIST:
        v = lower_error_note(l, n->loc,
            "full([M, N], 0.0, f32) makes a tile; `concat(a, b)` takes its tiles without brackets",
            "a list in brackets is a shape and no value");
        break;
    case EXPR_ARG: /* parts of calls and subscripts */
    case EXPR_ALL:
    case EXPR_WINDOW:
    case EXPR_TABLE: v = lower_error(l, n->loc, "expected an expression"); break;
    }
    l->b.loc = outer;
    l->recursion--;
    return v;
}

/* --- where a constant must stand --------------------------------------------------------------------- */

static V not_constant(Lower *l, const Node *n, const char *what)
{ return lower_error_note(l, n->loc, lower_constant_note(what), "%s must be known at compile time", what); }

bool lower_const_int(Lower *l, const Node *n, const char *what, int64_t lo, int64_t hi, int64_t *out)
{
    V v = lower_expr(l, n);
    __int128 i;
    if (v.kind == V_ERROR) return false;
    if (!value_to_int(v, &i)) {
        if (v.kind == V_IR && dtype_is_int(value_dtype(v)) && !value_rank(v)) not_constant(l, n, what);
        else lower_error(l, n->loc, "%s must be an integer constant, not %s", what, value_describe(l, v));
        return false;
    }
    if (i < lo || i > hi) {
        Text t;
        text_init(&t, &l->s->arena);
        if (hi == INT64_MAX) text_printf(&t, "at least %lld", (long long)lo);
        else text_printf(&t, "from %lld to %lld", (long long)lo, (long long)hi);
        lower_error_note(l, n->loc, lower_range_note(l, what, (int64_t)i, hi), "%s must be %s, not %lld",
            what, t.data, (long long)i);
        return false;
    }
    *out = (int64_t)i;
    return true;
}

bool lower_const_bool(Lower *l, const Node *n, const char *what, bool *out)
{
    V v = lower_expr(l, n);
    if (v.kind == V_ERROR) return false;
    if (value_to_bool(v, out)) return true;
    if (v.kind == V_IR && value_dtype(v) == DT_BOOL && !value_rank(v)) not_constant(l, n, what);
    else lower_error(l, n->loc, "%s must be true or false, not %s", what, value_describe(l, v));
    return false;
}

bool lower_const_shape(Lower *l, const Node *n, const char *what, int *rank, int64_t *shape)
{
    if (n->kind != N_LIST) {
        lower_error_note(l, n->loc, lower_list_note(l, n), "%s must be a list of extents like [M, N]", what);
        return false;
    }
    if (n->n > TILE_MAX_RANK) {
        lower_error(l, n->loc, "a tile has at most %d axes", TILE_MAX_RANK);
        return false;
    }
    *rank = (int)n->n;
    bool ok = true;
    for (int i = 0; i < *rank; i++)
        ok &= lower_const_int(l, n->kids[i], "a tile extent", 1, INT64_MAX, &shape[i]);
    return ok;
}

bool lower_const_dtype(Lower *l, const Node *n, DType *out)
{
    V v = lower_expr(l, n);
    if (v.kind == V_ERROR) return false;
    if (v.kind != V_TYPE) {
        lower_error(l, n->loc, "expected a type like f32, not %s", value_describe(l, v));
        return false;
    }
    *out = v.dtype;
    return true;
}

Value *lower_index_value(Lower *l, const Node *n, const char *what)
{
    V v = lower_expr(l, n);
    if (v.kind == V_ERROR) return NULL;
    v = v.kind == V_INT ? lower_adapt(l, v, DT_INDEX, n->loc) : v;
    if (v.kind == V_ERROR) return NULL;
    if ((v.kind != V_CONST && v.kind != V_IR) || !dtype_is_int(value_dtype(v)) || value_rank(v)) {
        bool index_tile = !strcmp(what, "a subscript") && value_is_number(v) && value_rank(v);
        const char *note = index_tile          ? LOWER_GATHER_NOTE
                           : v.kind == V_TUPLE ? "`let (i, j) = t;` names the parts of a tuple `t`, as of "
                                                 "`program_id()` of a grid of two axes"
                           : value_is_number(v) && !value_rank(v) && dtype_is_float(value_dtype(v))
                               ? "write `i32(...)` around it, which rounds towards zero"
                               : NULL;
        lower_error_note(l, n->loc, note, "%s must be an integer scalar, not %s", what, value_describe(l, v));
        return NULL;
    }
    v = lower_cast(l, v, DT_INDEX, n->loc);
    return lower_materialize(l, v, n->loc);
}
