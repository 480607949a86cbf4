/* random_rare.c: see random_program.h: what the language has and few kernels use: tuples, functions that are
 * called for values of several types, combine functions of any types, arrays in unrolled loops, whole axes,
 * turned loads, sums of all programs, names that hide others. A kernel that has them is `rare`. */
#include "random_program.h"
#include <stdio.h>
#include <string.h>

const char *const rare_functions =
    "const f16 HALF[3] = { 1, -2, 3 };\n"
    "const bool FLAGS[5] = { true, false, true, true, false };\n"
    "const i64 LONG[3] = { -1, 4611686018427387904, 70000000000 };\n"
    "const u8 BYTE[9] = { 0, 255, 1, 128, 127, 3, 7, 64, 9 };\n"
    "const float REAL[2] = { 2, -3 };\n"
    "const int WHOLE[4] = { 5, 0, -7, 2 };\n"
    "fn twice(x) { return x + x; }\n"
    "fn ordered(x, y) { if any(x < y, drop = true) { return (y, x); } return (x, y); }\n"
    "fn halves(x, axis = 0, turned = false) {\n"
    "    let (p, q) = split(x, 2, axis = axis);\n"
    "    const if turned { return (q, p); } else { return (p, q); }\n}\n"
    "fn held(x, n) {\n"
    "    var s = x;\n"
    "    for z in 0 .. n { if z > 1 && any(s > x, drop = true) { return s; } s = max(s, s - x); }\n"
    "    return s;\n}\n"
    "fn larger(a, b) { if a > b { return a; } return b; }\n"
    "fn first(a, b) { return a; }\n"
    "fn last(a, b) { return b; }\n"
    "fn many(a, b) { var s = a; const for z in 0 .. 3 { s = s ^ b; } return s; }\n"
    "fn best(p, q) { if q[0] > p[0] { return q; } return p; }\n"
    "fn counted(p, q) { return (p[0] + q[0], p[1] ^ q[1], q[2]); }\n"
    "fn wide(X, axis = 0) { return extent(X, axis) % 7 + stride(X, axis) % 3; }\n";

const RandomTensor rare_tensors[RARE_TENSORS] = { { "in", "FIX", "6,5,4", "f16", "int:3" },
    { "in", "ONE", "", "i32", "int:9" }, { "inout", "PUT", "G,6,4", "i32", "int:9" },
    { "inout", "TOTAL", "8", "i32", "int:9" }, { "inout", "SUMS", "64", "f32", "int:3" } };

/* A name for a value that the text has named. */
static Value *known(Program *x, const char *name, ValueType t, const Axes *e)
{
    Value *v = &x->v[x->n++];
    *v = (Value){ .type = t, .e = *e, .kept = true };
    snprintf(v->name, sizeof v->name, "%s", name);
    return v;
}

static const char *fresh(Program *x)
{
    char *out = program_text();
    arrange_write(out, EXPR, "v%d", x->a->names++);
    return out;
}

static bool room(const Program *x, int values) { return x->n + values <= MOST_VALUES; }

static bool is_alike(const Value *v, const void *other)
{
    const Value *w = other;
    return !w || (v != w && v->type == w->type && axes_same(&v->e, &w->e));
}
static bool is_number(const Value *v, const void *none) { return v->type != T_BOOL; }
static bool is_whole(const Value *v, const void *none) { return type_whole(v->type); }
static bool is_float_tile(const Value *v, const void *none) { return type_float(v->type) && v->e.rank; }
static bool is_bool_tile(const Value *v, const void *none) { return v->type == T_BOOL && v->e.rank; }

/* --- tuples --- */

/* Two values of one operation, both named. */
static void pair_of(Program *x, const char *expression, ValueType t, ValueType u, const Axes *e)
{
    const bool variable = chance(x->a, 30);
    const char *p = fresh(x), *q = fresh(x), *bound = type_float(t) ? ", -8.0, 8.0" : NULL;
    arrange_line(x->a, "%s (%s, %s) = %s;", variable ? "var" : "let", p, q, expression);
    known(x, p, t, e)->kept = !variable || bound;
    known(x, q, u, e)->kept = !variable || bound;
}

static void tuple(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_number, NULL), *w = v ? program_find(x, is_alike, v) : NULL;
    char *out = program_text();
    if (!v || !room(x, 2)) return;
    const int last = v->e.rank - 1;
    switch (below(a, 5)) {
    case 0:
        if (!v->e.rank) return;
        const Axes r = axes_with(&v->e, last, 1 + below(a, v->e.at[last] < 8 ? v->e.at[last] : 8));
        arrange_write(out, EXPR, "topk(%s, %d)", value_read(x, v), r.at[last]);
        return pair_of(x, out, v->type, T_I32, &r);
    case 1:
        if (!v->e.rank || v->e.at[last] % 2) return;
        const Axes half = axes_with(&v->e, last, v->e.at[last] / 2);
        arrange_write(out, EXPR, CHOOSE(a, "halves(%s, %d)", "halves(turned = true, x = %s, axis = %d)"),
            value_read(x, v), last);
        return pair_of(x, out, v->type, v->type, &half);
    case 2:
        if (!w || !v->e.rank) return;
        arrange_write(out, EXPR, "ordered(%s, %s)", value_read(x, v), value_read(x, w));
        return pair_of(x, out, v->type, v->type, &v->e);
    case 3:
        if (!w) return;
        const char *p = value_read(x, v), *q = value_read(x, w);
        arrange_write(out, EXPR, "%s ? (%s, %s) : (%s, %s)", program_condition(x), p, q, q, p);
        return pair_of(x, out, v->type, v->type, &v->e);
    default: {
        const Value *any = program_pick(x);
        const char *t = fresh(x);
        arrange_line(a, "let %s = (%s, %s, 1);", t, value_read(x, v), value_read(x, any));
        arrange_write(out, EXPR, "%s[1]", t);
        return program_make(x, any->type, &any->e, out);
    }
    }
}

/* --- functions, and operations with seldom forms --- */

static void called(Program *x)
{
    Arranger *a = x->a;
    for (int times = 0; times < 2; times++) { /* for values of other types and shapes */
        const Value *v = program_find(x, is_number, NULL);
        char *out = program_text();
        if (!v || (v->type == T_INDEX && times)) return;
        if (v->e.rank && chance(a, 50))
            arrange_write(out, EXPR, "held(%s, %s)", value_read(x, v), program_place(x));
        else arrange_write(out, EXPR, "twice(%s)", value_read(x, v));
        program_make(x, v->type, &v->e, out);
    }
}

static void asked(Program *x)
{
    Arranger *a = x->a;
    const Axes none = { 0 };
    char *out = program_text();
    if (!x->n_slices) return;
    const Slice *s = &x->slices[below(a, x->n_slices)];
    const int axis = below(a, s->rank);
    if (chance(a, 30)) arrange_write(out, EXPR, "num_programs(%d)", below(a, x->axes));
    else
        arrange_write(
            out, EXPR, CHOOSE(a, "extent(%s, %d)", "wide(%s, %d)", "stride(%s, axis = %d)"), s->name, axis);
    program_make(x, T_INDEX, &none, out);
}

static void seldom(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_number, NULL), *w = v ? program_find(x, is_alike, v) : NULL;
    char *out = program_text();
    if (!v) return;
    const char *r = value_read(x, v);
    if (w && chance(a, 40)) {
        const Value *u = program_find(x, is_alike, v);
        if (v->e.rank && u && chance(a, 50)) {
            const int axis = below(a, v->e.rank);
            const Axes long_one = axes_with(&v->e, axis, 3 * v->e.at[axis]);
            arrange_write(out, EXPR, "concat(%s, %s, %s, axis = %d)", r, value_read(x, w), value_read(x, u),
                axis - v->e.rank);
            return program_make(x, v->type, &long_one, out);
        }
        arrange_write(out, EXPR, CHOOSE(a, "min(%s, %s, %s)", "max(%s, %s, %s)", "clamp(%s, min(%s, %s), 9)"),
            r, value_read(x, w), value_read(x, u ? u : v));
    } else if (type_float(v->type))
        arrange_write(out, EXPR,
            CHOOSE(a, "round(sqrt(abs(%s)))", "round(%s / 3.0)", "fma(%s, 3.0, -1.0)", "round(div(%s, 5.0))",
                "floor(%s * 0.5) * 2.0"),
            r);
    else
        arrange_write(out, EXPR,
            CHOOSE(a, "cdiv(%s & 63, 5)", "div(%s, 7)", "fma(%s, 3, 1)", "-(%s & 7)", "%s - (5)"), r);
    program_make(x, v->type, &v->e, out);
}

static void shifted_flags(Program *x)
{
    const Value *v = program_find(x, is_bool_tile, NULL);
    char *out = program_text();
    if (!v) return;
    arrange_write(out, EXPR, "shift(%s, %d, axis = %d%s)", v->name, below(x->a, 7) - 3,
        below(x->a, v->e.rank), CHOOSE(x->a, "", ", fill = true", ", fill = false"));
    program_make(x, T_BOOL, &v->e, out);
}

static void looked_up(Program *x)
{
    static const struct {
        const char *name;
        ValueType type;
    } tables[] = { { "HALF", T_F16 }, { "FLAGS", T_BOOL }, { "LONG", T_I64 }, { "BYTE", T_U8 },
        { "REAL", T_F32 }, { "WHOLE", T_INDEX } };
    const int k = below(x->a, (int)(sizeof tables / sizeof *tables));
    const Value *v = program_find(x, is_whole, NULL);
    char *out = program_text();
    if (!v) return;
    arrange_write(out, EXPR, CHOOSE(x->a, "%s[%s]", "%s[%s %% 4]", "%s[%s & 3]"), tables[k].name, v->name);
    program_make(x, tables[k].type, &v->e, out);
}

static void of_kind(Program *x)
{
    const Value *v = program_find(x, is_number, NULL);
    char *out = program_text();
    if (!v || x->in_function) return;
    const char *r = value_as(x, v, x->kind);
    if (chance(x->a, 30)) {
        const Axes e = { .rank = 1, .at = { x->extents[below(x->a, 4)] } };
        arrange_write(out, EXPR, CHOOSE(x->a, "zeros([%d], KIND)", "full([%d], 3, KIND)"), e.at[0]);
        return program_make(x, x->kind, &e, out);
    }
    arrange_write(
        out, EXPR, v->type == x->kind ? "%s" : "KIND(%s)", v->type == x->kind ? r : value_read(x, v));
    if (type_whole(v->type) && type_float(x->kind)) arrange_write(out, EXPR, "%s", r);
    program_make(x, x->kind, &v->e, out);
}

/* A product of each of a few matrices. */
static void batch(Program *x)
{
    Arranger *a = x->a;
    const ValueType t = (ValueType)ONE_OF(a, T_F16, T_BF16, T_F32, T_I8, T_F64, T_E4M3);
    const ValueType sum = t == T_I8 ? T_I32 : t == T_F64 ? T_F64 : T_F32;
    const Value *v = program_find(x, value_is_tile, NULL), *w = program_find(x, value_is_tile, NULL);
    char *out = program_text();
    if (!v || !w || v->type == T_BOOL || w->type == T_BOOL) return;
    const int n = axes_elements(&v->e), m = axes_elements(&w->e);
    int b = 1 + below(a, 4), k = ONE_OF(a, 1, 2, 4, 8, 16, 3);
    while (n % b) b--;
    while ((n / b) % k || m % k) k--;
    const bool shared = m % (b * k) || chance(a, 30);
    const int rows = n / b / k, cols = shared ? m / k : m / b / k;
    if (rows > 64 || cols > 64 || b * rows * cols > x->most || (long)b * rows * cols * k * x->trips > 60000)
        return;
    const Axes e = { .rank = 3, .at = { b, rows, cols } };
    arrange_write(out, EXPR, "mma(reshape(%s, [%d, %d, %d]), reshape(%s, [%d, %d, %d]))", value_as(x, v, t),
        b, rows, k, value_as(x, w, t), shared ? 1 : b, k, cols);
    program_make(x, sum, &e, out);
}

/* --- combine functions --- */

static void combined(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text(), axes[48];
    if (!v) return;
    const int axis = below(a, v->e.rank), more = below(a, v->e.rank);
    const bool scan = chance(a, 40), several = !scan && more > axis, whole = type_whole(v->type);
    snprintf(axes, sizeof axes, several ? "axis = (%d, %d)" : "axis = %d", axis, more);
    Axes r = scan ? v->e : axes_with(&v->e, axis, 1);
    if (several) r.at[more] = 1;
    const char *f = whole               ? CHOOSE(a, "larger", "first", "last", "many", "mix")
                    : v->type == T_BOOL ? CHOOSE(a, "last", "many", "mix")
                                        : CHOOSE(a, "first", "last");
    const bool neutral = (*f == 'm') && chance(a, 50);
    arrange_write(out, EXPR, "%s(%s, %s, %scombine = %s%s)", scan ? "scan" : "reduce", value_read(x, v), axes,
        !neutral ? ""
        : whole  ? "init = 0, "
                 : "init = false, ",
        f, scan && chance(a, 40) ? ", reverse = true" : "");
    program_make(x, v->type, &r, out);
}

/* Tuples of tiles of three types; one or two of the results are used. */
static void combined_tuple(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_whole, NULL),
                *w = v && v->e.rank ? program_find(x, is_alike, v) : NULL;
    if (!w || !room(x, 3)) return;
    const bool scan = chance(a, 50), best = chance(a, 50);
    const int axis = below(a, v->e.rank);
    const ValueType third = (ValueType)ONE_OF(a, T_F32, T_F16, T_E4M3, T_U8, T_I64, T_F64, T_BOOL),
                    second = best ? (ValueType)ONE_OF(a, T_BOOL, T_BF16, T_I16) : T_BOOL;
    char middle[EXPR];
    if (second == T_BOOL) arrange_write(middle, sizeof middle, "%s > 3", value_read(x, w));
    else arrange_write(middle, sizeof middle, "%s", value_as(x, w, second));
    const Axes r = scan ? v->e : axes_with(&v->e, axis, 1);
    const char *p = fresh(x), *q = fresh(x), *s = fresh(x);
    arrange_line(a, "let (%s, %s, %s) = %s((%s, %s, %s), axis = %d, combine = %s%s);", p, q, s,
        scan ? "scan" : "reduce", value_read(x, v), middle, value_as(x, w, third), axis,
        best ? "best" : "counted", scan && chance(a, 40) ? ", reverse = true" : "");
    if (v->type != T_INDEX) known(x, p, v->type, &r);
    known(x, q, second, &r);
    known(x, s, third, &r);
}

/* --- control --- */

/* Variables of an array, which an unrolled loop names by its counter. */
static void counted_array(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x);
    char text[EXPR];
    if (v->wild || strchr(v->name, '[') || !room(x, 3)) return;
    const int name = a->names++, loop = x->loops;
    const ValueType type = v->type;
    const Axes e = v->e;
    arrange_write(text, sizeof text, "r%d[(k%d + 1) %% 3]", name, loop);
    arrange_line(a, "var r%d[3] = %s;", name, v->name);
    arrange_line(a, "const for k%d in 0 .. 3 {", loop);
    if (type == T_BOOL) arrange_line(a, "    r%d[k%d] = %s ^ (k%d > 0);", name, loop, text, loop);
    else if (type_float(type)) arrange_line(a, "    r%d[k%d] = min(%s + %s, 8.0);", name, loop, text, "1.0");
    else if (type == T_INDEX) arrange_line(a, "    r%d[k%d] = min(%s + k%d, 9);", name, loop, text, loop);
    else
        arrange_line(a, "    r%d[k%d] %s %s + k%d;", name, loop, CHOOSE(a, "=", "+=", "^=", "-=", "|=", "&="),
            text, loop);
    arrange_line(a, "}");
    if (chance(a, 50)) {
        const char *p = fresh(x), *q = fresh(x);
        arrange_line(a, "let (%s, _, %s) = r%d;", p, q, name);
        known(x, p, type, &e);
        known(x, q, type, &e);
    } else {
        arrange_write(text, sizeof text, "r%d[%d]", name, below(a, 3));
        program_make(x, type, &e, text);
    }
}

static void odd_loop(Program *x)
{
    const char *header = CHOOSE(x->a, "const for k%d in 3 .. 11 : 4 {", "const for k%d in 2 .. 2 {",
        "const for k%d in -1 .. 2 : 2 {", "for k%d in 0 .. 40 : 17 {", "for k%d in -9 .. 0 : 100 {",
        "for k%d in w .. w + 2 {", "for k%d in 3 .. 3 {", "for k%d in i32(u) .. 4 : 3 {");
    if (x->in_function) return;
    arrange_line(x->a, header, x->loops++);
    program_inside(x, 3);
    x->loops--;
    arrange_line(x->a, "}");
}

/* Halves a tile until no element is large: how often, the data tells. */
static void until_small(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_whole, NULL);
    if (!v || v->type == T_INDEX || x->depth > 2) return;
    const int name = a->names++;
    arrange_line(a, "var t%d = %s & 63;", name, v->name);
    arrange_line(
        a, v->e.rank ? "while any(t%d > %d, drop = true) {" : "while t%d > %d {", name, 3 + below(a, 9));
    arrange_line(a, "    t%d = t%d / 2;", name, name);
    program_inside(x, 4);
    arrange_line(a, "}");
}

/* What two values of a type become, which is never larger than they for floats. */
static const char *either(Program *x, ValueType t, const char *p, const char *q)
{
    char *out = program_text();
    const char *form = t == T_BOOL     ? CHOOSE(x->a, "%s ^ %s", "%s && %s", "%s || %s")
                       : type_float(t) ? CHOOSE(x->a, "min(%s, %s)", "max(%s, %s)")
                                       : CHOOSE(x->a, "%s + %s", "%s ^ %s", "%s - %s", "min(%s, %s)");
    arrange_write(out, EXPR, form, p, q);
    return out;
}

/* Variables of an inner loop that begin as that of an outer one, or as something made of it, and change
 * places: which of them takes its place when the loop ends is drawn. */
static void crossed(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_alike, NULL), *w = v ? program_find(x, is_alike, v) : NULL;
    if (!w || v->type == T_INDEX || x->depth > 2 || x->trips > 20 || !room(x, 1)) return;
    const int n = a->names++, k = x->loops;
    const ValueType type = v->type;
    const Axes e = v->e;
    char s[16], name[3][16];
    const char *other = value_read(x, w), *start[3], *next[3];
    snprintf(s, sizeof s, "s%d", n);
    for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%c%d", "pqr"[i], n);
    for (int i = 0; i < 3; i++)
        start[i] = chance(a, 40) ? s : chance(a, 60) ? either(x, type, s, CHOOSE(a, s, other)) : other;
    for (int i = 0; i < 3; i++)
        next[i] = chance(a, 60) ? name[below(a, 3)] : either(x, type, name[below(a, 3)], name[below(a, 3)]);
    arrange_line(a, "var %s = %s;", s, value_read(x, v));
    arrange_line(a, "for k%d in 0 .. %s {", k, CHOOSE(a, "2", "3", "w % 3 + 1"));
    arrange_line(
        a, "    var (%s, %s, %s) = (%s, %s, %s);", name[0], name[1], name[2], start[0], start[1], start[2]);
    if (chance(a, 50)) arrange_line(a, "    for k%d in 0 .. %s {", k + 1, CHOOSE(a, "2", "3", "w % 3"));
    else {
        arrange_line(a, "    var t%d = 0;", n);
        arrange_line(a, "    while t%d < %s {", n, CHOOSE(a, "2", "3", "w % 3"));
        arrange_line(a, "        t%d += 1;", n);
    }
    arrange_line(
        a, "        (%s, %s, %s) = (%s, %s, %s);", name[0], name[1], name[2], next[0], next[1], next[2]);
    arrange_line(a, "    }");
    arrange_line(a, "    %s = %s;", s, name[below(a, 3)]);
    arrange_line(a, "}");
    program_make(x, type, &e, s);
}

/* A name of an outer block, for another value of its type in this one. */
static void hidden(Program *x)
{
    Arranger *a = x->a;
    if (!x->depth || x->in_function || !x->outer) return;
    const Value *v = &x->v[below(a, x->outer)];
    if (v->wild || strchr(v->name, '[') || *v->name != 'v' || v->hidden == x->depth) return;
    char *out = program_text();
    if (v->type == T_BOOL) arrange_write(out, EXPR, "!%s", v->name);
    else if (type_float(v->type)) arrange_write(out, EXPR, "0.0 - %s", v->name);
    else if (v->type == T_INDEX) arrange_write(out, EXPR, "min(%s, 3)", v->name);
    else arrange_write(out, EXPR, "%s + 1", v->name);
    arrange_line(a, "%s %s = %s;", v->kept ? "let" : "var", v->name, out);
    x->v[v - x->v].hidden = x->depth;
}

/* --- memory --- */

static void whole_axis(Program *x)
{
    Arranger *a = x->a;
    char *out = program_text();
    if (x->in_function) return;
    const Axes plane = { .rank = 2, .at = { 6, 4 } }, all = { .rank = 3, .at = { 6, 5, 4 } },
               row = { .rank = 1, .at = { 4 } }, none = { 0 };
    switch (below(a, 5)) {
    case 0: return program_make(x, T_F16, &all, CHOOSE(a, "load(FIX[:, :, :])", "load(FIX[:, 0 +: 5, :])"));
    case 1:
        arrange_write(out, EXPR, "load(FIX[:, %s, :])", program_place(x));
        return program_make(x, T_F16, &plane, out);
    case 2:
        arrange_write(out, EXPR, "load(FIX[%s, 2, :])", program_place(x));
        return program_make(x, T_F16, &row, out);
    case 3: return program_make(x, T_I32, &none, "load(ONE[])");
    default: {
        const Value *v = program_find(x, is_number, NULL);
        if (!v || v->e.rank) return;
        arrange_line(a, "store(PUT[w, %s], %s);", CHOOSE(a, ":, :", ":, 1 +: 2", "2, :", "0 +: 3 : 2, :"),
            value_as(x, v, T_I32));
    }
    }
}

/* All programs change the same elements: by whole numbers, so that the order does not matter. */
static void of_all_programs(Program *x)
{
    static const char *const kinds[] = { "add", "max", "min", "xor", "or", "and" };
    Arranger *a = x->a;
    if (x->in_function) return;
    const int k = below(a, 6);
    if (chance(a, 30)) {
        const Value *v = program_find(x, is_float_tile, NULL);
        if (!v || v->e.rank != 1 || v->type != T_F32) return;
        if (chance(a, 50))
            arrange_line(
                a, "atomic_add(SUMS[%s +: %d], %s);", program_place(x), v->e.at[0], value_read(x, v));
        else
            arrange_line(
                a, "atomic_add(SUMS[arange(%d) %% %d], %s);", v->e.at[0], 1 + below(a, 9), value_read(x, v));
        return;
    }
    const Value *v = program_find(x, is_whole, NULL);
    if (!v) return;
    char at[64];
    if (v->e.rank) snprintf(at, sizeof at, "index(%s) * 0 + %d", v->name, k);
    else snprintf(at, sizeof at, "%d", k);
    arrange_line(a, "atomic_%s(TOTAL[%s], %s%s%s);", kinds[k], at, value_as(x, v, T_I32),
        CHOOSE(a, "", "", ", order = acq_rel", ", order = release", ", order = acquire"),
        CHOOSE(a, "", "", ", scope = device", ", scope = system"));
}

void program_rare(Program *x)
{
    static void (*const all[])(Program *) = { tuple, tuple, tuple, called, called, asked, seldom, seldom,
        shifted_flags, looked_up, of_kind, batch, combined, combined, combined_tuple, counted_array, hidden,
        whole_axis, whole_axis, program_turned, of_all_programs, crossed, crossed, odd_loop, until_small };
    enum { ALL = sizeof all / sizeof *all, NESTED = 4 };
    all[below(x->a, x->depth > 3 || x->trips > 20 ? ALL - NESTED : ALL)](x);
}
