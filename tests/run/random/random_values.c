/* random_values.c: see random_program.h: operations on values of every type and number of axes. */
#include "random_program.h"
#include <stdio.h>
#include <string.h>

/* --- types, axes, names --- */

static const struct {
    const char *name;
    bool real, negative;
    int bits;
} types[N_TYPES] = {
    [T_BOOL] = { "bool", false, false, 1 },
    [T_I8] = { "i8", false, true, 8 },
    [T_I16] = { "i16", false, true, 16 },
    [T_I32] = { "i32", false, true, 32 },
    [T_I64] = { "i64", false, true, 64 },
    [T_U8] = { "u8", false, false, 8 },
    [T_U16] = { "u16", false, false, 16 },
    [T_U32] = { "u32", false, false, 32 },
    [T_U64] = { "u64", false, false, 64 },
    [T_INDEX] = { "index", false, true, 64 },
    [T_F16] = { "f16", true, true, 16 },
    [T_BF16] = { "bf16", true, true, 16 },
    [T_F32] = { "f32", true, true, 32 },
    [T_F64] = { "f64", true, true, 64 },
    [T_E4M3] = { "f8e4m3", true, true, 8 },
    [T_E5M2] = { "f8e5m2", true, true, 8 },
};

const char *type_name(ValueType t) { return types[t].name; }
bool type_float(ValueType t) { return types[t].real; }
bool type_signed(ValueType t) { return types[t].negative; }
int type_bits(ValueType t) { return types[t].bits; }
bool type_whole(ValueType t) { return !type_float(t) && t != T_BOOL; }
static bool narrow(ValueType t) { return type_float(t) && type_bits(t) < 32; }

int axes_elements(const Axes *e)
{
    int n = 1;
    for (int k = 0; k < e->rank; k++) n *= e->at[k];
    return n;
}

bool axes_same(const Axes *x, const Axes *y)
{
    bool is = x->rank == y->rank;
    for (int k = 0; k < x->rank && is; k++) is = x->at[k] == y->at[k];
    return is;
}

/* Texts of one statement live in turn in a few buffers. */
char *program_text(void)
{
    static char buffers[48][EXPR];
    static int turn;
    return buffers[turn++ % 48];
}

const char *axes_list(const Axes *e, const char *before)
{
    char *out = program_text();
    *out = 0;
    for (int k = 0; k < e->rank; k++) arrange_append(out, EXPR, "%s%s%d", k ? ", " : "", before, e->at[k]);
    return out;
}

Axes axes_with(const Axes *e, int axis, int extent)
{
    Axes r = *e;
    r.at[axis] = extent;
    return r;
}

Axes axes_without(const Axes *e, int axis)
{
    Axes r = { .rank = e->rank - 1 };
    for (int k = 0; k < r.rank; k++) r.at[k] = e->at[k + (k >= axis)];
    return r;
}

/* --- reading values --- */

const Value *program_pick(Program *x)
{
    Arranger *a = x->a;
    return &x->v[chance(a, 50) && x->n > 6 ? x->n - 1 - below(a, 6) : below(a, x->n)];
}

const Value *program_find(Program *x, bool (*wanted)(const Value *, const void *), const void *user)
{
    for (int tries = 0; tries < 24; tries++) {
        const Value *v = program_pick(x);
        if (wanted(v, user)) return v;
    }
    return NULL;
}

const char *value_read(Program *x, const Value *v)
{
    char *out = program_text();
    arrange_write(out, EXPR, v->wild ? "clamp(%s, -8.0, 8.0)" : "%s", v->name);
    return out;
}

const char *value_as(Program *x, const Value *v, ValueType to)
{
    char *out = program_text();
    const char *from = value_read(x, v);
    const bool sign = type_signed(v->type);
    if (v->type == to) return from;
    if (type_whole(v->type) && type_float(to))
        arrange_write(out, EXPR, sign ? "%s(clamp(%s, -8, 8))" : "%s(min(%s, 8))", type_name(to), from);
    else if (type_whole(v->type) && to == T_INDEX)
        arrange_write(out, EXPR, sign ? "index(clamp(%s, -99, 99))" : "index(min(%s, 99))", from);
    else if (type_float(v->type) && to == T_INDEX)
        arrange_write(out, EXPR, "index(clamp(%s, -8.0, 8.0))", from);
    else if (chance(x->a, 20)) arrange_write(out, EXPR, "cast(%s, %s)", from, type_name(to));
    else arrange_write(out, EXPR, "%s(%s)", type_name(to), from);
    return out;
}

static ValueType some_type(Program *x)
{
    return (ValueType)ONE_OF(x->a, T_I8, T_I16, T_I32, T_I32, T_I32, T_I64, T_U8, T_U16, T_U32, T_U64,
        T_INDEX, T_F16, T_BF16, T_F32, T_F32, T_F32, T_F64, T_E4M3, T_E5M2, T_BOOL);
}

static ValueType whole_type(Program *x)
{ return (ValueType)ONE_OF(x->a, T_I8, T_I16, T_I32, T_I32, T_I64, T_U8, T_U16, T_U32, T_U64, T_INDEX); }

/* Whether a value goes with these axes: element by element, or repeated. */
bool values_beside(const Value *v, const void *e)
{
    const Axes *other = e;
    bool is = v->e.rank == other->rank;
    for (int k = 0; k < other->rank && is; k++)
        is = v->e.at[k] == other->at[k] || v->e.at[k] == 1 || other->at[k] == 1;
    return is || !v->e.rank || !other->rank;
}
static bool is_bool_beside(const Value *v, const void *e) { return v->type == T_BOOL && values_beside(v, e); }
static bool is_scalar(const Value *v, const void *none) { return !v->e.rank && v->type != T_BOOL; }
static bool is_flag(const Value *v, const void *none) { return !v->e.rank && v->type == T_BOOL; }
static bool is_mask(const Value *v, const void *none) { return v->e.rank && v->type == T_BOOL; }
bool value_is_tile(const Value *v, const void *none) { return v->e.rank > 0; }

static Axes joined(const Axes *x, const Axes *y)
{
    Axes r = x->rank ? *x : *y;
    for (int k = 0; k < r.rank && x->rank && y->rank; k++)
        if (y->at[k] > r.at[k]) r.at[k] = y->at[k];
    return r;
}

const char *program_condition(Program *x)
{
    Arranger *a = x->a;
    char *out = program_text();
    const Value *v = chance(a, 25)   ? program_find(x, is_flag, NULL)
                     : chance(a, 40) ? program_find(x, is_mask, NULL)
                                     : program_find(x, is_scalar, NULL);
    if (!v) v = &x->v[0]; /* the program's number */
    if (v->type != T_BOOL)
        arrange_write(out, EXPR, "%s %s %d", value_read(x, v), CHOOSE(a, ">", "<", "==", "!=", "<=", ">="),
            below(a, 6));
    else if (!v->e.rank) arrange_write(out, EXPR, chance(a, 30) ? "!%s" : "%s", v->name);
    else arrange_write(out, EXPR, "%s(%s, drop = true)", CHOOSE(a, "any", "all"), v->name);
    if (chance(a, 15)) arrange_append(out, EXPR, " %s %s > 1", CHOOSE(a, "&&", "||"), x->v[0].name);
    return out;
}

/* --- element by element --- */

static void unary(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x);
    const char *r = value_read(x, v);
    char *out = program_text();
    if (v->type == T_BOOL) arrange_write(out, EXPR, "!%s", r);
    else if (type_float(v->type))
        arrange_write(out, EXPR,
            CHOOSE(a, "-%s", "abs(%s)", "round(%s * 0.5)", "floor(%s * 0.25)", "ceil(%s * 0.5)", "+%s",
                "minnum(%s, 3.0)", "maxnum(%s, -2.0)", "2.0 - %s"),
            r);
    else
        arrange_write(out, EXPR,
            CHOOSE(a, "~%s", "abs(%s)", "-%s", "%s << 1", "%s >> 1", "%s >> 63", "%s / 3", "%s %% 7",
                "5 %% %s", "100 / %s", "clamp(%s, 0, 9)"),
            r);
    if (type_whole(v->type) && chance(a, 15)) {
        arrange_write(out, EXPR, "%s(%s)", CHOOSE(a, "popcount", "clz", "ffs"), r);
        program_make(x, T_I32, &v->e, out);
    } else if (v->type == T_U16 && chance(a, 30)) {
        arrange_write(out, EXPR, "bitcast(%s, i16)", r);
        program_make(x, T_I16, &v->e, out);
    } else program_make(x, v->type, &v->e, out);
}

static void converted(Program *x)
{
    const Value *v = program_pick(x);
    const ValueType to = some_type(x);
    program_make(x, to, &v->e, value_as(x, v, to));
}

/* NaN, infinities and large numbers become whole numbers: 0, and the ends of the type. */
static void saturated(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x), *mask = program_find(x, is_bool_beside, &v->e);
    const ValueType to = whole_type(x), by = (ValueType)ONE_OF(a, T_F32, T_F64, T_BF16, T_F16, T_E5M2);
    char *out = program_text();
    if (!mask || to == T_INDEX || v->type == T_BOOL) return;
    const Axes e = joined(&v->e, &mask->e);
    arrange_write(out, EXPR, "%s(where(%s, %s, %s))", type_name(to), mask->name,
        narrow(by) ? CHOOSE(a, "nan", "inf", "-inf", "240.0")
                   : CHOOSE(a, "nan", "inf", "-inf", "1e30", "-3e9"),
        value_as(x, v, by));
    program_make(x, to, &e, out);
}

static void bits(Program *x)
{
    static const ValueType as[N_TYPES] = { [T_F16] = T_U16,
        [T_BF16] = T_I16,
        [T_F32] = T_U32,
        [T_F64] = T_I64,
        [T_E4M3] = T_U8,
        [T_E5M2] = T_I8,
        [T_I32] = T_U32,
        [T_U32] = T_I32,
        [T_I64] = T_U64,
        [T_U8] = T_I8 };
    const Value *v = program_pick(x);
    char *out = program_text();
    if (!as[v->type]) return;
    if (!type_float(v->type)) arrange_write(out, EXPR, "bitcast(%s, %s)", v->name, type_name(as[v->type]));
    else /* neither -0 nor the bits of a NaN */
        arrange_write(out, EXPR, "bitcast(where(abs(%s) > 0.0, %s, 0.0), %s)", v->name, value_read(x, v),
            type_name(as[v->type]));
    program_make(x, as[v->type], &v->e, out);
}

static void binary(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x), *w = program_find(x, values_beside, &v->e);
    const ValueType t = chance(a, 75) || !w ? v->type : w->type;
    char *out = program_text();
    if (!w) return;
    const char *p = value_as(x, v, t), *q = value_as(x, w, t);
    const bool compared = chance(a, 25);
    if (compared)
        arrange_write(out, EXPR, "%s %s %s", p,
            t == T_BOOL ? CHOOSE(a, "==", "!=") : CHOOSE(a, "<", "<=", ">", ">=", "==", "!="), q);
    else if (t == T_BOOL)
        arrange_write(out, EXPR, CHOOSE(a, "%s && %s", "%s || %s", "%s ^ %s", "%s & !%s", "%s | %s"), p, q);
    else if (type_float(t))
        arrange_write(out, EXPR,
            CHOOSE(a, "%s + %s", "%s - %s", "%s * %s", "max(%s, %s)", "min(%s, %s)", "minnum(%s, %s)",
                "maxnum(%s, %s)", "fma(%s, 2.0, %s)", "(%s - 1.0) * (%s + 1.0)"),
            p, q);
    else
        arrange_write(out, EXPR,
            CHOOSE(a, "%s + %s", "%s - %s", "%s * %s", "%s / %s", "%s %% %s", "%s & %s", "%s | %s", "%s ^ %s",
                "%s << %s", "%s >> %s", "%s << (%s & 15)", "%s >> (%s %% 9)", "max(%s, %s)", "min(%s, %s)",
                "%s / (%s %% 5)", "%s * 3 + %s"),
            p, q);
    const Axes e = joined(&v->e, &w->e);
    program_make(x, compared ? T_BOOL : t, &e, out);
}

static void chosen(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x), *w = program_find(x, values_beside, &v->e);
    char *out = program_text();
    if (!w) return;
    Axes e = joined(&v->e, &w->e);
    if (chance(a, 25)) {
        if (!axes_same(&v->e, &w->e)) return;
        arrange_write(
            out, EXPR, "%s ? %s : %s", program_condition(x), value_read(x, v), value_as(x, w, v->type));
    } else {
        const Value *mask = program_find(x, is_bool_beside, &e);
        if (!mask) return;
        e = joined(&e, &mask->e);
        arrange_write(out, EXPR, "where(%s, %s, %s)", mask->name, value_read(x, v), value_as(x, w, v->type));
    }
    program_make(x, v->type, &e, out);
}

/* --- along axes --- */

static void reduced(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text(), axes[24];
    if (!v) return;
    const int axis = below(a, v->e.rank), more = below(a, v->e.rank);
    const bool several = more > axis && chance(a, 60),
               places = !several && v->type != T_BOOL && chance(a, 20), all = !places && chance(a, 15);
    const bool drop = all || (!several && chance(a, 40));
    Axes r = axes_with(&v->e, axis, 1);
    if (several) r.at[more] = 1;
    snprintf(axes, sizeof axes, several ? ", axis = (%d, %d)" : ", axis = %d",
        chance(a, 30) ? axis - v->e.rank : axis, more);
    const char *f = v->type == T_BOOL     ? CHOOSE(a, "any", "all")
                    : places              ? CHOOSE(a, "argmax", "argmin")
                    : type_float(v->type) ? CHOOSE(a, "sum", "max", "min")
                    : v->type == T_INDEX  ? CHOOSE(a, "sum", "max", "min")
                                          : CHOOSE(a, "sum", "max", "min", "prod", "reduce");
    arrange_write(out, EXPR, "%s(%s%s%s%s)", f, value_read(x, v), all ? "" : axes,
        *f == 'r' ? ", combine = mix" : "", drop ? ", drop = true" : "");
    if (drop) r = all ? (Axes){ 0 } : axes_without(&v->e, axis);
    program_make(x, places ? T_I32 : v->type, &r, out);
}

static void scanned(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text();
    if (!v || v->type == T_BOOL) return;
    const int axis = below(a, v->e.rank), last = v->e.rank - 1;
    const bool real = type_float(v->type) || v->type == T_INDEX;
    if (chance(a, 20)) {
        arrange_write(out, EXPR, "sort(%s%s)", value_read(x, v), CHOOSE(a, "", ", descending = true"));
        program_make(x, v->type, &v->e, out);
    } else if (chance(a, 15)) {
        const int most = v->e.at[last] < 8 ? v->e.at[last] : 8, k = 1 + below(a, most), place = below(a, 2);
        const Axes r = axes_with(&v->e, last, k);
        arrange_write(out, EXPR, "topk(%s, %d)[%d]", value_read(x, v), k, place);
        program_make(x, place ? T_I32 : v->type, &r, out);
    } else {
        const char *f =
            real ? CHOOSE(a, "cumsum", "cummax") : CHOOSE(a, "cumsum", "cummax", "cumprod", "scan");
        arrange_write(out, EXPR, "%s(%s, axis = %d%s%s)", f, value_read(x, v), axis,
            *f == 's' ? ", combine = mix" : "", CHOOSE(a, "", ", reverse = true"));
        program_make(x, v->type, &v->e, out);
    }
}

/* Two tiles by a function whose result says in which order; one of the results. */
static void together(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, value_is_tile, NULL),
                *w = v ? program_find(x, values_beside, &v->e) : NULL;
    char *out = program_text();
    if (!w || !w->e.rank) return;
    const Axes e = joined(&v->e, &w->e);
    const int axis = below(a, e.rank), part = below(a, 2);
    const bool scan = chance(a, 50);
    arrange_write(out, EXPR, "%s((%s, %s), axis = %d, combine = then%s)[%d]", scan ? "scan" : "reduce",
        value_as(x, v, T_I32), value_as(x, w, T_I32), axis, scan && chance(a, 50) ? ", reverse = true" : "",
        part);
    const Axes r = scan ? e : axes_with(&e, axis, 1);
    program_make(x, T_I32, &r, out);
}

/* --- the choice --- */

void program_value(Program *x)
{
    static void (*const all[])(Program *) = { unary, unary, converted, converted, saturated, bits, binary,
        binary, binary, binary, chosen, chosen, reduced, reduced, reduced, scanned, scanned, together,
        program_permute, program_reshape, program_widen, program_widen, program_part, program_part,
        program_count, program_product, program_product, program_product, program_sum };
    all[below(x->a, (int)(sizeof all / sizeof *all))](x);
}
