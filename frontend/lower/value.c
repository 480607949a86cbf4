/* value.c: what expressions stand for during lowering: constants with and without a type, IR values, and how
 * they meet. */
#include <math.h>
#include "frontend/lower/lower.h"

V value_error(void) { return (V){ .kind = V_ERROR }; }
V value_void(void) { return (V){ .kind = V_VOID }; }
V value_int(__int128 i) { return (V){ .kind = V_INT, .big = i }; }
V value_float(double f) { return (V){ .kind = V_FLOAT, .f = f }; }
V value_const(DType d, Scalar c) { return (V){ .kind = V_CONST, .dtype = d, .c = c }; }
V value_bool(bool b) { return value_const(DT_BOOL, scalar_int(b)); }
V value_index(int64_t i) { return value_const(DT_INDEX, scalar_int(i)); }
V value_ir(Value *v) { return (V){ .kind = V_IR, .value = v }; }
V value_type(DType d) { return (V){ .kind = V_TYPE, .dtype = d }; }

V value_tuple(Lower *l, int n, const V *items)
{
    V *copy = arena_array(&l->s->arena, V, (size_t)n + 1);
    memcpy(copy, items, (size_t)n * sizeof *items);
    return (V){ .kind = V_TUPLE, .n = n, .items = copy };
}

bool value_is_untyped(V v) { return v.kind == V_INT || v.kind == V_FLOAT; }
bool value_is_known(V v) { return value_is_untyped(v) || v.kind == V_CONST; }
bool value_is_number(V v) { return value_is_known(v) || v.kind == V_IR; }

bool value_to_int(V v, __int128 *out)
{
    if (v.kind == V_INT) {
        *out = v.big;
        return true;
    }
    if (v.kind != V_CONST || !dtype_is_int(v.dtype)) return false;
    *out = v.dtype == DT_U64 ? (__int128)(uint64_t)v.c.i : v.c.i;
    return true;
}

bool value_to_bool(V v, bool *out)
{
    if (v.kind != V_CONST || v.dtype != DT_BOOL) return false;
    *out = v.c.i != 0;
    return true;
}

DType value_dtype(V v) { return v.kind == V_IR ? v.value->type->dtype : v.dtype; }
int value_rank(V v) { return v.kind == V_IR && v.value->type->kind == TYPE_TILE ? v.value->type->rank : 0; }
const int64_t *value_shape(V v) { return value_rank(v) ? v.value->type->shape : NULL; }

const char *value_describe(Lower *l, V v)
{
    switch (v.kind) {
    case V_ERROR: return "an error";
    case V_VOID: return "nothing";
    case V_INT:
        if (v.big > INT64_MAX || v.big < INT64_MIN) return "an integer constant";
        return arena_printf(&l->s->arena, "the constant %lld", (long long)v.big);
    case V_FLOAT: return "a floating constant";
    case V_CONST: return arena_printf(&l->s->arena, "`%s`", dtype_name(v.dtype));
    case V_IR: return arena_printf(&l->s->arena, "`%s`", type_string(l->s, v.value->type));
    case V_TYPE: return "a type";
    case V_TUPLE: return arena_printf(&l->s->arena, "a tuple of %d", v.n);
    case V_TENSOR:
    case V_ABSENT: return "a tensor";
    case V_NONE: return "None";
    case V_STRING: return "a string";
    case V_TABLE: return "a table of constants";
    }
    return "";
}

/* --- constants meet types ---------------------------------------------------------------------------- */

static bool int_fits(__int128 i, DType d)
{
    int bits = dtype_bits(d);
    if (dtype_is_signed(d)) return i >= -((__int128)1 << (bits - 1)) && i < (__int128)1 << (bits - 1);
    return i >= 0 && i < (__int128)1 << bits;
}

/* The nearest value of the float type; through double only where that does not round twice. */
static double int_to_float(__int128 i, DType d)
{
    if (d != DT_F64 && (i > ((__int128)1 << 53) || i < -((__int128)1 << 53))) {
        /* Keep the upper bits and a sticky bit. The result is exact in double and rounds to the same value in
         * narrower types. */
        __int128 low = i & 0xfff, high = i - low;
        i = high | (low ? 0x800 : 0);
        if (low == 0) i = high;
    }
    return scalar_round(d, (double)i);
}

/* Beyond what rounds to the type's largest number. fp8 saturates, so its own rounding cannot tell. */
static bool overflows(double x, DType d)
{
    double r = scalar_round(d, x);
    if (isinf(x) || isnan(x)) return false;
    return dtype_bits(d) == 8 ? fabs(x) > 1.03 * scalar_round(d, 1e30) : isinf(r);
}

V lower_adapt(Lower *l, V v, DType d, Loc loc)
{
    if (v.kind == V_INT) {
        if (d == DT_BOOL)
            return lower_error_note(
                l, loc, "compare it, or write true or false", "an integer constant is no bool");
        if (dtype_is_float(d)) {
            double f = int_to_float(v.big, d);
            if (overflows((double)v.big, d))
                return lower_error(
                    l, loc, "constant %lld is out of range of `%s`", (long long)v.big, dtype_name(d));
            return value_const(d, scalar_float(f));
        }
        if (!int_fits(v.big, d)) {
            Text t;
            text_init(&t, &l->s->arena);
            __int128 i = v.big < 0 ? -v.big : v.big;
            if (i >> 64) text_puts(&t, "constant");
            else text_printf(&t, "constant %s%llu", v.big < 0 ? "-" : "", (unsigned long long)i);
            return lower_error(l, loc, "%s is out of range of `%s`", t.data, dtype_name(d));
        }
        return value_const(d, scalar_int(scalar_wrap(d, (int64_t)v.big)));
    }
    if (v.kind == V_FLOAT) {
        if (!dtype_is_float(d))
            return lower_error_note(l, loc,
                arena_printf(&l->s->arena, "write `%s(...)` to truncate it", dtype_name(d)),
                "a floating constant cannot become `%s`", dtype_name(d));
        double f = scalar_round(d, v.f);
        if (overflows(v.f, d))
            return lower_error(l, loc, "constant %g is out of range of `%s`", v.f, dtype_name(d));
        return value_const(d, scalar_float(f));
    }
    return v;
}

V lower_concretize(Lower *l, V v, Loc loc)
{
    if (v.kind == V_INT) return lower_adapt(l, v, DT_INDEX, loc);
    if (v.kind == V_FLOAT) return lower_adapt(l, v, DT_F32, loc);
    return v;
}

Value *lower_materialize(Lower *l, V v, Loc loc)
{
    v = lower_concretize(l, v, loc);
    if (v.kind == V_IR) return v.value;
    if (v.kind == V_CONST)
        return dtype_is_float(v.dtype) ? ir_const_float(&l->b, v.dtype, v.c.f)
                                       : ir_const_int(&l->b, v.dtype, v.c.i);
    if (v.kind == V_TENSOR) lower_error_note(l, loc, "read it with load(X[...])", "a tensor is not a value");
    else if (v.kind != V_ERROR)
        lower_error_note(l, loc, v.kind == V_VOID ? "a `fn` gives a value by `return ...;`" : NULL,
            "expected a number or a tile, not %s", value_describe(l, v));
    return NULL;
}

/* A constant without a type beside an operand of type `d`. */
static V beside(Lower *l, V v, DType d, Loc loc)
{
    if (v.kind != V_FLOAT || !dtype_is_int(d)) return lower_adapt(l, v, d, loc);
    return lower_error_note(l, loc,
        arena_printf(&l->s->arena, "write `f32(...)` around the `%s`, or `%s(...)` around the constant%s",
            dtype_name(d), dtype_name(d), d == DT_INDEX ? "; a variable of floats begins as `0.0`" : ""),
        "a floating constant cannot become `%s`", dtype_name(d));
}

bool lower_same_dtype(Lower *l, Loc loc, const char *what, V *a, V *b)
{
    if (value_is_untyped(*a) && !value_is_untyped(*b)) *a = beside(l, *a, value_dtype(*b), loc);
    else if (value_is_untyped(*b) && !value_is_untyped(*a)) *b = beside(l, *b, value_dtype(*a), loc);
    else if (value_is_untyped(*a)) {
        DType d = a->kind == V_FLOAT || b->kind == V_FLOAT ? DT_F32 : DT_INDEX;
        *a = lower_adapt(l, *a, d, loc);
        *b = lower_adapt(l, *b, d, loc);
    }
    if (a->kind == V_ERROR || b->kind == V_ERROR) return false;
    if (value_dtype(*a) == value_dtype(*b)) return true;
    const char *da = dtype_name(value_dtype(*a)), *db = dtype_name(value_dtype(*b));
    lower_error_note(l, loc, lower_types_note(l, *a, *b), "%s of `%s` and `%s`", what, da, db);
    return false;
}

/* --- shapes ------------------------------------------------------------------------------------------ */

static const char *shape_text(Lower *l, int rank, const int64_t *shape)
{
    Text t;
    text_init(&t, &l->s->arena);
    text_putc(&t, '[');
    for (int i = 0; i < rank; i++) text_printf(&t, "%s%lld", i ? ", " : "", (long long)shape[i]);
    text_putc(&t, ']');
    return t.data;
}

/* Scalars go with everything; tiles have equal rank and extents equal or 1. */
bool lower_join_shapes(Lower *l, Loc loc, const char *what, const V *v, int n, int *rank, int64_t *shape)
{
    *rank = 0;
    for (int k = 0; k < n; k++) {
        int r = value_rank(v[k]);
        const int64_t *s = value_shape(v[k]);
        if (r == 0) continue;
        if (*rank == 0) {
            *rank = r;
            memcpy(shape, s, (size_t)r * sizeof *s);
            continue;
        }
        bool ok = r == *rank;
        int64_t before[TILE_MAX_RANK];
        memcpy(before, shape, sizeof *s * (size_t)*rank);
        for (int i = 0; ok && i < r; i++) {
            if (shape[i] == 1) shape[i] = s[i];
            else ok = s[i] == 1 || s[i] == shape[i];
        }
        if (ok) continue;
        int other = 0;
        while (other < k && !value_rank(v[other])) other++;
        lower_error_note(l, loc, lower_shape_note(v[other], v[k]), "shapes %s and %s do not fit in %s",
            shape_text(l, *rank, before), shape_text(l, r, s), what);
        return false;
    }
    return true;
}

/* Further errors would result from a dimension of 0. */
bool lower_no_elements(Lower *l, Loc loc, int64_t extent)
{
    const char *name = NULL;
    for (int d = 0; extent == 0 && d < l->func->n_dims && !name; d++)
        if (l->func->dims[d].extent == 0) name = l->func->dims[d].name;
    const char *note = name ? arena_printf(&l->s->arena,
                                  "dimension `%s` is 0; only a launch whose outputs have no elements, or "
                                  "whose grid has no programs, does without this code",
                                  name)
                            : NULL;
    lower_error_note(l, loc, note, "a tile extent must be at least 1, not %lld", (long long)extent);
    l->stopped |= name != NULL;
    return false;
}

const Type *lower_tile_type(Lower *l, Loc loc, DType d, int rank, const int64_t *shape)
{
    int64_t elements = 1;
    if (rank > TILE_MAX_RANK) {
        lower_error(l, loc, "a tile has at most %d axes", TILE_MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1) {
            lower_no_elements(l, loc, shape[i]);
            return NULL;
        }
        if (shape[i] > LIMIT_TILE_ELEMENTS || elements * shape[i] > LIMIT_TILE_ELEMENTS) {
            lower_error_note(l, loc, "take smaller windows in a loop",
                "a tile of %s has more than %d elements", shape_text(l, rank, shape), LIMIT_TILE_ELEMENTS);
            return NULL;
        }
        elements *= shape[i];
    }
    if (elements * dtype_bytes(d) > LIMIT_TILE_BYTES) {
        lower_error_note(l, loc, "take smaller windows in a loop", "a tile `%s%s` has more than %d MiB",
            dtype_name(d), shape_text(l, rank, shape), LIMIT_TILE_BYTES >> 20);
        return NULL;
    }
    return type_value(l->s, d, rank, shape);
}

Value *lower_to_shape(Lower *l, Value *v, int rank, const int64_t *shape)
{
    if (rank == 0) return v;
    if (v->type->kind == TYPE_SCALAR) return ir_splat(&l->b, v, rank, shape);
    bool equal = v->type->rank == rank;
    for (int i = 0; equal && i < rank; i++) equal = v->type->shape[i] == shape[i];
    if (equal) return v;
    return ir_emit(&l->b, OP_BROADCAST, &v, 1, NO_ATTRS, type_tile(l->s, v->type->dtype, rank, shape));
}

/* --- operations -------------------------------------------------------------------------------------- */

/* Builds an instruction after its type rule agreed; a refusal becomes an error at `loc`. */
V lower_emit(
    Lower *l, Loc loc, const char *what, Op op, Value **operands, int n, Attrs attrs, const Type *type)
{
    const Type *results[IR_MAX_RESULTS] = { type };
    int n_results = type ? 1 : 0;
    const char *why = ir_infer(l->s, op, operands, n, attrs, results, &n_results);
    if (why) {
        size_t len = strlen(what);
        /* A text like "reshape of ..." already names the operation. */
        bool named = !strncmp(why, what, len) && why[len] == ' ';
        return lower_error(l, loc, "%s%s%s", named ? "" : what, named ? "" : ": ", why);
    }
    l->b.loc = loc;
    return value_ir(ir_emit(&l->b, op, operands, n, attrs, type));
}

/* `index` has 64 bits, so a constant of more is a mistake; at run time there is nobody to tell, and it wraps.
 */
static bool index_overflows(Op op, const V *v, int n)
{
    int64_t r;
    if (n != 2 || v[0].kind != V_CONST || v[1].kind != V_CONST || v[0].dtype != DT_INDEX) return false;
    if (op == OP_ADD) return __builtin_add_overflow(v[0].c.i, v[1].c.i, &r);
    if (op == OP_SUB) return __builtin_sub_overflow(v[0].c.i, v[1].c.i, &r);
    return op == OP_MUL && __builtin_mul_overflow(v[0].c.i, v[1].c.i, &r);
}

static bool fold_constants(Op op, const V *v, int n, V *out)
{
    Scalar c[4], r;
    if (n > 4 || n < 1) return false;
    for (int k = 0; k < n; k++) {
        if (v[k].kind != V_CONST || (dtype_is_float(v[k].dtype) && op < OP_EQ) ||
            (op > OP_WHERE && op < OP_CAST))
            return false;
        c[k] = v[k].c;
    }
    DType d = v[n - 1].dtype;
    if (!scalar_op(op, d, c, &r)) return false;
    bool compares = op >= OP_EQ && op <= OP_GE;
    *out = value_const(compares ? DT_BOOL : d, r);
    return true;
}

V lower_apply(Lower *l, Loc loc, const char *what, Op op, V *v, int n, Attrs attrs)
{
    int rank;
    int64_t shape[TILE_MAX_RANK];
    V folded;
    for (int k = 0; k < n; k++) {
        if (v[k].kind == V_ERROR) return value_error();
        if (!value_is_number(v[k])) {
            lower_materialize(l, v[k], loc);
            return value_error();
        }
    }
    int first = op == OP_WHERE;
    for (int k = first + 1; k < n; k++) {
        /* A typed operand may come last. The first operand adapts to it, and then all others adapt to the
         * first. */
        if (value_is_untyped(v[first]) && !value_is_untyped(v[k]) &&
            !lower_same_dtype(l, loc, what, &v[first], &v[k]))
            return value_error();
    }
    for (int k = first + 1; k < n; k++)
        if (!lower_same_dtype(l, loc, what, &v[first], &v[k])) return value_error();
    if (n == 1) v[0] = lower_concretize(l, v[0], loc);
    if (v[0].kind == V_ERROR) return value_error();
    if (index_overflows(op, v, n)) return lower_error(l, loc, "constant expression does not fit in 64 bits");
    if (!attrs.n && fold_constants(op, v, n, &folded)) return folded;
    if (!lower_join_shapes(l, loc, what, v, n, &rank, shape)) return value_error();
    if (rank && !lower_tile_type(l, loc, value_dtype(v[n - 1]), rank, shape)) return value_error();
    Value *operands[4];
    l->b.loc = loc;
    for (int k = 0; k < n; k++) {
        operands[k] = lower_materialize(l, v[k], loc);
        if (!operands[k]) return value_error();
        operands[k] = lower_to_shape(l, operands[k], rank, shape);
    }
    return lower_emit(l, loc, what, op, operands, n, attrs, NULL);
}

V lower_cast(Lower *l, V v, DType d, Loc loc)
{
    if (v.kind == V_INT) {
        if (dtype_is_float(d)) return value_const(d, scalar_float(int_to_float(v.big, d)));
        return value_const(
            d, scalar_int(
                   d == DT_BOOL ? v.big != 0 : scalar_wrap(d, (int64_t)(uint64_t)(unsigned __int128)v.big)));
    }
    if (v.kind == V_FLOAT) return value_const(d, scalar_cast(d, DT_F64, scalar_float(v.f)));
    if (v.kind == V_CONST) return value_const(d, scalar_cast(d, v.dtype, v.c));
    Value *x = lower_materialize(l, v, loc);
    if (!x) return value_error();
    if (!lower_tile_type(l, loc, d, value_rank(v), value_shape(v))) return value_error();
    l->b.loc = loc;
    return value_ir(ir_cast(&l->b, x, d));
}
