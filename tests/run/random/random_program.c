/* random_program.c: see random_program.h: statements, functions, the kernel. */
#include "random_program.h"
#include <stdio.h>
#include <string.h>

static void statements(Program *, int n);

/* --- values --- */

const char *program_place(Program *x)
{
    static char out[8][48];
    static int turn;
    char *o = out[turn++ % 8];
    Arranger *a = x->a;
    const Value *v = program_pick(x);
    if (x->loops && chance(a, 40))
        snprintf(o, sizeof out[0], CHOOSE(a, "k%d", "k%d*4", "2*k%d - 1", "-k%d"), below(a, x->loops));
    else if (!v->e.rank && !type_float(v->type) && v->type != T_BOOL && chance(a, 60))
        snprintf(o, sizeof out[0], CHOOSE(a, "%s", "%s %% 4", "%s %% 7"), v->name);
    else snprintf(o, sizeof out[0], "%s", CHOOSE(a, "0", "w", "1", "-1", "3", "w - 2", "5", "-4", "2*w"));
    return o;
}

static bool assignable(const Value *v, ValueType t, const Axes *e)
{ return !v->kept && !v->wild && v->type == t && axes_same(&v->e, e); }

void program_make(Program *x, ValueType t, const Axes *e, const char *expression)
{
    Arranger *a = x->a;
    const char *open = type_float(t) || t == T_INDEX ? "clamp(" : "", *close = type_float(t)  ? ", -8.0, 8.0)"
                                                                               : t == T_INDEX ? ", -99, 99)"
                                                                                              : "";
    if (axes_elements(e) > x->most) return;
    if (chance(a, x->depth ? 60 : 15)) /* what loops and branches carry */
        for (int k = x->n - 1; k >= 0; k--) {
            if (!assignable(&x->v[k], t, e) || !chance(a, 60)) continue;
            if (!*open && t != T_BOOL && chance(a, 20))
                arrange_line(a, "%s %s (%s);", x->v[k].name, CHOOSE(a, "+=", "-=", "^=", "*="), expression);
            else arrange_line(a, "%s = %s%s%s;", x->v[k].name, open, expression, close);
            return;
        }
    if (x->n == MOST_VALUES) return;
    Value *v = &x->v[x->n++];
    *v = (Value){ .type = t, .e = *e, .kept = chance(a, 30) };
    snprintf(v->name, sizeof v->name, "v%d", a->names++);
    arrange_line(a, "%s %s = %s%s%s;", v->kept ? "let" : "var", v->name, open, expression, close);
}

/* --- control --- */

void program_inside(Program *x, int trips)
{
    const int n = x->n, loops = x->loops, before = x->trips, outer = x->outer;
    x->outer = n;
    x->a->indent++;
    x->depth++;
    x->trips *= trips;
    statements(x, 1 + below(x->a, 4));
    if (chance(x->a, 30) && !x->in_function) program_store(x);
    x->trips = before;
    x->depth--;
    x->a->indent--;
    x->n = n;
    x->outer = outer;
    x->loops = loops;
    for (int k = 0; k < n; k++)
        if (x->v[k].hidden > x->depth) x->v[k].hidden = 0;
}

static void loop(Program *x)
{
    Arranger *a = x->a;
    char bound[96];
    const Value *v = program_pick(x);
    if (!v->e.rank && v->type != T_BOOL && !type_float(v->type) && chance(a, 50))
        snprintf(bound, sizeof bound,
            CHOOSE(a, "0 .. min(%s, 3)", "-1 .. clamp(%s, -3, 2)", "clamp(%s, 0, 3) .. 3"),
            v->type == T_INDEX || type_signed(v->type) ? v->name : "2");
    else
        snprintf(bound, sizeof bound, "%s",
            CHOOSE(a, "0 .. 2", "0 .. 1", "0 .. 3", "2 .. 0", "w % 2 .. 3", "0 .. w % 3", "-2 .. 3 : 2",
                "0 .. min(cdiv(P, 8), 3)", "0 .. min(Q, 2)"));
    const int names = x->loops++;
    arrange_line(a, "for k%d in %s%s {", names, bound, CHOOSE(a, "", "", "", "", " hint (unroll = 2)"));
    program_inside(x, 3);
    x->loops--;
    arrange_line(a, "}");
}

/* A loop that gathers a product of whole tiles, as units of matrices take it, beside other statements. */
static void summed(Program *x)
{
    Arranger *a = x->a;
    const int m = ONE_OF(a, 64, 64, 128), n = ONE_OF(a, 16, 32, 64, 128), k = ONE_OF(a, 16, 32, 64);
    const Slice *p = program_slice(x, false, x->favourite, 2), *q = program_slice(x, false, x->favourite, 2);
    if (!p || !q || p->rank != 2 || q->rank != 2 || x->trips > 3 || x->in_function || x->n == MOST_VALUES)
        return;
    Value *v = &x->v[x->n++];
    *v = (Value){ .type = T_F32, .e = { .rank = 2, .at = { m, n } }, .wild = true };
    snprintf(v->name, sizeof v->name, "s%d", a->names++);
    arrange_line(a, "var %s = zeros([%d, %d], f32);", v->name, m, n);
    const int name = x->loops++;
    arrange_line(a, "for k%d in 0 .. cdiv(%s, %d) {", name, CHOOSE(a, "P", "Q", "Q"), k);
    const char *others = CHOOSE(a, "", "", "before", "behind"), *latency = CHOOSE(a, "", ", latency = 3");
    if (*others == 'b' && others[2] == 'f') program_inside(x, 3);
    arrange_line(a,
        "    %s = mma(load(%s[w*%d +: %d, k%d*%d +: %d]%s), load(%s[k%d*%d +: %d, 0 +: %d]%s), %s);", v->name,
        p->name, m, m, name, k, k, latency, q->name, name, k, k, n, latency, v->name);
    if (*others == 'b' && others[2] == 'h') program_inside(x, 3);
    x->loops--;
    arrange_line(a, "}");
}

static void unrolled(Program *x)
{
    arrange_line(x->a, "const for k%d in 0 .. %d {", x->loops++, 1 + below(x->a, 3));
    program_inside(x, 2);
    x->loops--;
    arrange_line(x->a, "}");
}

static void repeat(Program *x)
{
    Arranger *a = x->a;
    const int name = a->names++;
    arrange_line(a, "var t%d = %s;", name, CHOOSE(a, "0", "w % 3", "1"));
    arrange_line(a, "while t%d < %d && (t%d < 1 || %s) {", name, 1 + below(a, 3), name, program_condition(x));
    arrange_line(a, "    t%d += 1;", name);
    program_inside(x, 3);
    arrange_line(a, "}");
}

static void branch(Program *x)
{
    Arranger *a = x->a;
    arrange_line(a, "if %s {", program_condition(x));
    program_inside(x, 1);
    if (chance(a, 30)) {
        arrange_line(a, "} else if %s {", program_condition(x));
        program_inside(x, 1);
    }
    if (chance(a, 50)) {
        arrange_line(a, "} else {");
        program_inside(x, 1);
    }
    arrange_line(a, "}");
}

static void fixed_branch(Program *x)
{
    Arranger *a = x->a;
    if (x->in_function) return;
    arrange_line(a, "const if %s {", CHOOSE(a, "FLAG", "!FLAG", "has(MAYBE)", "SIZE > 3", "SIZE % 2 == 0"));
    program_inside(x, 1);
    if (chance(a, 50)) {
        arrange_line(a, "} else {");
        program_inside(x, 1);
    }
    arrange_line(a, "}");
}

static void leave(Program *x)
{
    if (!x->returns || x->in_function) return;
    x->returns = chance(x->a, 40);
    arrange_line(x->a, "if %s {", program_condition(x));
    x->a->indent++;
    if (chance(x->a, 50)) program_store(x);
    arrange_line(x->a, "return;");
    x->a->indent--;
    arrange_line(x->a, "}");
}

static void block(Program *x)
{
    arrange_line(x->a, "{");
    program_inside(x, 1);
    arrange_line(x->a, "}");
}

/* Two variables change places, also from one iteration to the next. */
static void exchange(Program *x)
{
    const int first = below(x->a, x->n);
    const Value *v = &x->v[first];
    if (v->kept || v->wild) return;
    for (int k = x->n - 1; k >= 0; k--)
        if (k != first && assignable(&x->v[k], v->type, &v->e)) {
            arrange_line(x->a, "(%s, %s) = (%s, %s);", v->name, x->v[k].name, x->v[k].name, v->name);
            return;
        }
}

static void array(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x);
    const int name = a->names++, count = 2 + below(a, 2);
    if (x->n + count > MOST_VALUES || v->wild) return;
    const Value each = { .type = v->type, .e = v->e };
    arrange_line(a, "var r%d[%d] = %s;", name, count, v->name);
    for (int k = 0; k < count; k++) {
        Value *part = &x->v[x->n++];
        *part = each;
        snprintf(part->name, sizeof part->name, "r%d[%d]", name, k);
    }
}

/* --- functions --- */

static bool mentions(const char *text, const char *name)
{
    for (const char *p = text; (p = strstr(p, name)); p++) {
        const char before = p == text ? ' ' : p[-1], after = p[strlen(name)];
        if (!strchr("abcdefghijklmnopqrstuvwxyzOX_0123456789", before) && (after < '0' || after > '9'))
            return true;
    }
    return false;
}

/* What a function takes: the values that its body reads, the tensors, `w`. */
static void arguments(const Program *x, const char *body, char *out, size_t size)
{
    *out = 0;
    for (int k = 0; k < x->n; k++)
        if (mentions(body, x->v[k].name)) arrange_append(out, size, "%s%s", *out ? ", " : "", x->v[k].name);
    for (int k = 0; k < x->n_slices; k++)
        if (mentions(body, x->slices[k].name))
            arrange_append(out, size, "%s%s", *out ? ", " : "", x->slices[k].name);
    for (int k = 0; k < x->loops; k++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", k);
        if (mentions(body, name)) arrange_append(out, size, "%s%s", *out ? ", " : "", name);
    }
    for (const char *c = "PQ"; *c; c++)
        if (mentions(body, (char[]){ *c, 0 })) arrange_append(out, size, "%s%c", *out ? ", " : "", *c);
}

/* Statements of this place become a function, whose parameters have the names of what they are given, and
 * which returns one value. It may be called twice. */
static void function(Program *x)
{
    Arranger *a = x->a, outer = *a;
    const int n = x->n;
    bool kept[MOST_VALUES];
    char args[400], body[sizeof a->body];
    const Value result = *program_pick(x);
    if (x->in_function || x->n_functions == 4 || result.wild || x->n == MOST_VALUES) return;
    for (int k = 0; k < n; k++)
        if (strchr(x->v[k].name, '[')) return; /* part of an array, which is no name */
    for (int k = 0; k < n; k++) kept[k] = x->v[k].kept, x->v[k].kept = true; /* parameters */
    x->in_function = true;
    a->length = 0, *a->body = 0, a->indent = 1;
    arrange_line(a, "var res = %s;", result.name);
    x->v[x->n] = result;
    x->v[x->n].kept = false;
    snprintf(x->v[x->n++].name, sizeof result.name, "res");
    for (int part = 0; part < 2; part++) {
        statements(x, 2 + below(a, 3));
        if (!part && chance(a, 50))
            arrange_line(a, "if %s { return %s; }", program_condition(x), result.name);
        if (!part && chance(a, 30))
            arrange_line(a, "for z in 0 .. 2 { if %s { return res; } }", program_condition(x));
    }
    snprintf(body, sizeof body, "%s", a->body);
    const int names = a->names;
    const RefRandom random = a->random;
    *a = outer;
    a->names = names, a->random = random;
    x->in_function = false;
    x->n = n;
    for (int k = 0; k < n; k++) x->v[k].kept = kept[k];
    arguments(x, body, args, sizeof args);
    if (strlen(body) + strlen(x->functions) + 500 > sizeof x->functions) return;
    arrange_append(x->functions, sizeof x->functions, "fn f%d(%s) {\n%s    return res;\n}\n", x->n_functions,
        args, body);
    char call[500];
    snprintf(call, sizeof call, "f%d(%s)", x->n_functions++, args);
    for (int times = 1 + below(a, 2); times > 0; times--) program_make(x, result.type, &result.e, call);
}

/* --- the kernel --- */

static void statements(Program *x, int n)
{
    static void (*const all[])(Program *) = { program_value, program_value, program_value, program_value,
        program_value, program_value, program_value, program_value, program_load, program_load, program_load,
        program_gather, program_store, program_store, program_scatter, program_atomic, program_atomic,
        exchange, array, fixed_branch, leave, function, loop, loop, branch, branch, repeat, unrolled, block };
    enum { ALL = sizeof all / sizeof *all, NESTED = 8 };
    for (int k = 0; k < n && x->budget > 0 && x->a->length < 9000; k++, x->budget--)
        if (x->rare && chance(x->a, 40)) program_rare(x);
        else if (x->matrices && chance(x->a, 10)) summed(x);
        else if (x->matrices && chance(x->a, 20)) program_accumulate(x);
        else all[below(x->a, x->depth > 3 || x->trips > 20 ? ALL - NESTED : ALL)](x);
}

static void clauses(Program *x, char *out, size_t size)
{
    Arranger *a = x->a;
    const int axes = x->axes = 1 + below(a, 3);
    static const char *const names[] = { "GA", "GB", "GC" };
    snprintf(out, size, "    grid (");
    x->programs = 1;
    for (int k = 0; k < 3; k++) {
        x->grid[k] = k >= axes ? 1 : ONE_OF(a, 1, 1, 2, 3, 2);
        x->programs *= x->grid[k];
        if (k < axes) arrange_append(out, size, "%s%s", k ? ", " : "", names[k]);
    }
    arrange_append(out, size, ")%s%s",
        CHOOSE(a, "", "", "", " remap (w) = num_programs() - 1 - w", " remap = auto", " remap = xcd",
            axes == 2 ? " raster (group = 2)" : ""),
        CHOOSE(a, "", "", "", "", " hint (warps = 1)", " hint (warps = 2)", " hint (warps = 8)",
            " hint (persistent = 1)", " hint (persistent = 0)", " hint (pack = 2)", " hint (cluster = 2)",
            " hint (stages = 3, occupancy = 2)", " hint (warp_specialize = 0)",
            " hint (cp_async_producer = 1)", " hint (split_k = 2)", " hint (cluster = 2, persistent = 1)",
            " hint (sm_90a.warps = 8, hip.warps = 2)"));
    arrange_append(out, size, "\n{\n");
}

/* The program's number, and a value of a few kinds. */
static void first_values(Program *x)
{
    Arranger *a = x->a;
    arrange_line(a, "let w = program_id(0)%s;",
        x->axes == 1   ? ""
        : x->axes == 2 ? " + GA*program_id(1)"
                       : " + GA*(program_id(1) + GB*program_id(axis = 2))");
    x->v[x->n++] = (Value){ .name = "w", .type = T_INDEX, .kept = true };
    x->v[x->n++] = (Value){ .name = "n", .type = T_I32, .kept = true };
    x->v[x->n++] = (Value){ .name = "u", .type = T_U8, .kept = true };
    x->v[x->n++] = (Value){ .name = "l", .type = T_I64, .kept = true };
    x->v[x->n++] = (Value){ .name = "d", .type = T_F64, .kept = true };
    x->v[x->n++] = (Value){ .name = "f", .type = T_F32, .kept = true };
    for (int k = 0; k < 4; k++) program_load(x);
}

static const char *const functions = "const i32 TABLE[5] = { 3, -1, 70, 0, 1000 };\n"
                                     "fn mix(a, b) { return a ^ b; }\n"
                                     "fn then(p, q) { return (p[0] * q[0], p[1] * q[0] + q[1]); }\n";

/* Tensors that bind the extents. */
static const RandomTensor binding[] = { { "in", "ROWS", "P", "i8", "int:1" },
    { "in", "COLS", "Q", "i8", "int:1" }, { "in", "DEEP", "R", "i8", "int:1" },
    { "in", "GRID", "GA,GB,GC", "i8", "int:1" }, { "inout", "CHECK", "G,12", "i32", "int:1" } };

static void parameters(Program *x, const char *clauses)
{
    Arranger *a = x->a;
    RandomKernel *k = a->k;
    enum { BINDING = sizeof binding / sizeof *binding };
    char all[sizeof x->functions + 2000], more[200];
    snprintf(all, sizeof all, "%s%s%s", functions, x->rare ? rare_functions : "", x->functions);
    snprintf(more, sizeof more,
        ", i32 n, u8 u, i64 l, f64 d, f32 f, in f32 MAYBE[P]?, const bool FLAG = %s, const int SIZE = %d",
        CHOOSE(a, "true", "false"), below(a, 8));
    if (x->rare) arrange_append(more, sizeof more, ", const type KIND = %s", type_name(x->kind));
    memcpy(&x->tensors[x->n_slices], binding, sizeof binding);
    int count = x->n_slices + BINDING;
    for (int k = 0; k < RARE_TENSORS && x->rare; k++)
        if (random_mentions(a, rare_tensors[k].name)) x->tensors[count++] = rare_tensors[k];
    random_head(a,
        &(RandomHead){ .tensors = x->tensors,
            .count = count,
            .functions = all,
            .more = more,
            .views = 20,
            .extremes = x->extremes },
        clauses);
    snprintf(k->scalars, sizeof k->scalars, "i32 n=%d; u8 u=%d; i64 l=%s; f64 d=%d; f32 f=-1",
        below(a, 12) - 3, below(a, 9),
        CHOOSE(a, "-50", "17", "3", "-1", "0", "49", "4611686018427387904", "-9223372036854775808",
            "4294967296", "-2147483649"),
        below(a, 7) - 3);
    arrange_append(k->launch, sizeof k->launch, " n u l d f -");
    const int g = chance(a, 90) ? x->programs : 1 + below(a, 4), less = below(a, 3) * below(a, 16);
    snprintf(k->sizes, sizeof k->sizes, "P=%d Q=%d R=%d GA=%d GB=%d GC=%d G=%d G16=%d G64=%d FILL=9",
        x->matrices    ? ONE_OF(a, 64, 128, 96, 70)
        : chance(a, 6) ? 0
                       : 1 + below(a, 33),
        x->matrices ? ONE_OF(a, 64, 48, 128, 33) : 1 + below(a, 24), ONE_OF(a, 1, 4, 8, 16, 32, 64),
        x->grid[0], x->grid[1], x->grid[2], g, g * 16 - (less & 15), g * 64 - less);
}

/* Nearly every value has a use: late ones are stored, or what their elements come to. */
static void use_all(Program *x)
{
    Arranger *a = x->a;
    for (int k = x->n - 1, places = 0; k > 5 && places < 12; k--) {
        const Value *v = &x->v[k];
        if (chance(a, 60) && program_put(x, v)) continue;
        const char *read = value_read(x, v);
        char whole[EXPR];
        if (!v->e.rank) arrange_write(whole, sizeof whole, "%s", read);
        else
            arrange_write(whole, sizeof whole, "%s(%s, drop = true)",
                v->type == T_BOOL ? CHOOSE(a, "any", "all") : CHOOSE(a, "sum", "max", "sum"), read);
        arrange_line(a, "store(CHECK[w, %d], i32(%s));", places++, whole);
    }
}

static void make(uint64_t seed, bool rare, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + (rare ? 17 : 13) } }, *a = &arranger;
    Program program = { .a = a, .trips = 1, .rare = rare }, *x = &program;
    char head[400];
    if (rare) x->kind = (ValueType)ONE_OF(a, T_F16, T_F32, T_I16, T_U64, T_BF16, T_F64, T_U32);
    const bool odd = chance(a, 50);
    x->matrices = chance(a, 35);
    x->favourite = (ValueType)ONE_OF(a, T_F16, T_F16, T_F16, T_BF16, T_BF16, T_F32, T_E4M3);
    x->most = x->matrices ? ONE_OF(a, 4096, 8192) : ONE_OF(a, 256, 512, 1024, 2048);
    x->returns = chance(a, 40);
    x->extremes = chance(a, 12);
    x->budget = 8 + below(a, 28);
    for (int k = 0; k < 4; k++)
        x->extents[k] = x->matrices ? ONE_OF(a, 16, 32, 64, 64, 128, 8)
                        : odd       ? ONE_OF(a, 1, 2, 3, 5, 7, 9, 12, 17, 33)
                                    : ONE_OF(a, 1, 2, 4, 8, 16, 16, 32, 64);
    clauses(x, head, sizeof head);
    a->indent = 1;
    first_values(x);
    if (x->matrices) summed(x);
    while (x->budget > 0) statements(x, 3);
    use_all(x);
    a->indent = 0;
    arrange_line(a, "}");
    parameters(x, head);
}

void random_program(uint64_t seed, RandomKernel *out) { make(seed, false, out); }
void random_rare(uint64_t seed, RandomKernel *out) { make(seed, true, out); }
