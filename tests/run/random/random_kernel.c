/* random_kernel.c: see random_kernel.h. A pool of variables grows statement by statement; each statement
 * takes operands from it. */
#include "random_kernel.h"
#include "ref_random.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_VARS = 64, MOST_DEPTH = 3 };

typedef enum Kind { FLOAT, INT, BOOLEAN, INDEX } Kind;
/* A tile [1 or TM, 1 or TN]; with both flags off it still has rank 2. */
typedef struct Var {
    Kind kind;
    bool rows, cols;
    char name[8];
} Var;

typedef struct Maker {
    RandomKernel *k;
    RefRandom random;
    size_t length;
    int tm, tn, n_vars, names, indent;
    Var vars[MOST_VARS];
    char loop[8]; /* innermost loop's variable, or "" */
} Maker;

static int below(Maker *m, int n) { return (int)ref_random_below(&m->random, (uint64_t)n); }
static bool chance(Maker *m, int percent) { return below(m, 100) < percent; }

static void line(Maker *m, const char *format, ...)
{
    va_list args;
    size_t room = sizeof m->k->text - m->length;
    int n = snprintf(m->k->text + m->length, room, "%*s", 4 * m->indent, "");
    m->length += (size_t)n < room ? (size_t)n : room - 1;
    room = sizeof m->k->text - m->length;
    va_start(args, format);
    n = vsnprintf(m->k->text + m->length, room, format, args);
    va_end(args);
    m->length += (size_t)n < room ? (size_t)n : room - 1;
    room = sizeof m->k->text - m->length;
    n = snprintf(m->k->text + m->length, room, "\n");
    m->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* --- the pool --- */

static Var *new_var(Maker *m, Kind kind, bool rows, bool cols)
{
    if (m->n_vars == MOST_VARS) { /* Forget an old value, but not the coordinates at the front. */
        int gone = 6 + below(m, MOST_VARS - 6);
        memmove(&m->vars[gone], &m->vars[gone + 1], (size_t)(MOST_VARS - gone - 1) * sizeof(Var));
        m->n_vars--;
    }
    Var *v = &m->vars[m->n_vars++];
    *v = (Var){ kind, rows, cols, "" };
    snprintf(v->name, sizeof v->name, "v%d", m->names++);
    return v;
}

/* A variable of the kind, newer ones preferred. The start of every kernel makes one of each. */
static Var pick(Maker *m, Kind kind)
{
    for (int tries = 0; tries < 200; tries++) {
        int back = chance(m, 50) ? below(m, m->n_vars < 6 ? m->n_vars : 6) : below(m, m->n_vars);
        if (m->vars[m->n_vars - 1 - back].kind == kind) return m->vars[m->n_vars - 1 - back];
    }
    for (int i = 0; i < m->n_vars; i++)
        if (m->vars[i].kind == kind) return m->vars[i];
    return m->vars[0];
}

static Var pick_full(Maker *m, Kind kind)
{
    for (int tries = 0; tries < 50; tries++) {
        Var v = pick(m, kind);
        if (v.rows && v.cols) return v;
    }
    for (int i = 0; i < m->n_vars; i++)
        if (m->vars[i].kind == kind && m->vars[i].rows && m->vars[i].cols) return m->vars[i];
    return m->vars[0];
}

#define CHOOSE(m, ...) \
    ((const char *const[]){ \
        __VA_ARGS__ })[below(m, (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))]

/* --- statements that make one value --- */

static void float_unary(Maker *m)
{
    Var a = pick(m, FLOAT);
    const char *f =
        CHOOSE(m, "tanh(%s)", "sigmoid(%s)", "exp(min(%s, 2.0))", "abs(%s)", "-%s", "rsqrt(1.0 + abs(%s))",
            "sin(%s)", "cos(%s)", "erf(%s)", "log(1.0 + abs(%s))", "%s * 0.5", "maxnum(%s, 0.25)",
            "clamp(%s, -1.0, 1.5)", "exp2(min(%s, 1.0))", "f32(f64(%s))", "1.0 - %s", "squash(%s, 0.75)");
    char expr[64];
    snprintf(expr, sizeof expr, f, a.name);
    line(m, "let %s = %s;", new_var(m, FLOAT, a.rows, a.cols)->name, expr);
}

static void float_binary(Maker *m)
{
    Var a = pick(m, FLOAT), b = pick(m, FLOAT);
    const char *f = CHOOSE(m, "%s + %s", "%s - %s", "%s * tanh(%s)", "max(%s, %s)", "min(%s, %s)",
        "%s / (1.0 + abs(%s))", "fma(%s, 0.5, %s)", "squash(%s, %s)", "exp(min(%s - abs(%s), 1.0))");
    char expr[64];
    snprintf(expr, sizeof expr, f, a.name, b.name);
    line(m, "let %s = %s;", new_var(m, FLOAT, a.rows || b.rows, a.cols || b.cols)->name, expr);
}

static void int_op(Maker *m)
{
    Var a = pick(m, INT), b = pick(m, INT);
    const char *f = CHOOSE(m, "%s + %s", "%s - %s", "%s * %s", "%s / %s", "%s %% %s", "%s & %s", "%s | %s",
        "%s ^ %s", "%s << (%s & 7)", "%s >> %s", "min(%s, %s)", "max(%s, %s)", "abs(%s) + %s",
        "i32(i8(%s)) - %s", "i32(u8(%s)) * %s", "i32(i64(%s) * i64(%s) >> 3)", "~%s + %s",
        "i32(u32(%s) / u32(%s))", "i32(u16(%s)) | %s", "clamp(%s, -9, 99) + %s");
    char expr[80];
    snprintf(expr, sizeof expr, f, a.name, b.name);
    line(m, "let %s = %s;", new_var(m, INT, a.rows || b.rows, a.cols || b.cols)->name, expr);
}

static void int_from_index(Maker *m)
{
    Var a = pick(m, INDEX);
    line(m, "let %s = i32(%s);", new_var(m, INT, a.rows, a.cols)->name, a.name);
}

static void index_op(Maker *m)
{
    Var a = pick(m, INDEX), b = pick(m, INDEX);
    const char *f = CHOOSE(m, "%s + %s", "%s - %s", "%s * 3 - %s", "%s / 3 + %s %% 5", "min(%s, %s)",
        "max(%s - %s, 0)", "cdiv(%s, 4) + %s");
    char expr[80];
    snprintf(expr, sizeof expr, f, a.name, b.name);
    line(m, "let %s = %s;", new_var(m, INDEX, a.rows || b.rows, a.cols || b.cols)->name, expr);
}

static void comparison(Maker *m)
{
    Kind kind = chance(m, 50) ? INT : INDEX;
    Var a = pick(m, kind), b = pick(m, kind);
    const char *relation = CHOOSE(m, "<", "<=", ">", ">=", "==", "!=");
    if (chance(m, 40))
        line(m, "let %s = %s %s %d;", new_var(m, BOOLEAN, a.rows, a.cols)->name, a.name, relation,
            below(m, 20) - 4);
    else if (kind == INDEX && chance(m, 50))
        line(m, "let %s = %s %s %s;", new_var(m, BOOLEAN, a.rows, a.cols)->name, a.name, relation,
            chance(m, 50) ? "N" : "M");
    else
        line(m, "let %s = %s %s %s;", new_var(m, BOOLEAN, a.rows || b.rows, a.cols || b.cols)->name, a.name,
            relation, b.name);
}

static void logic(Maker *m)
{
    Var a = pick(m, BOOLEAN), b = pick(m, BOOLEAN);
    char expr[64];
    snprintf(expr, sizeof expr, CHOOSE(m, "%s && %s", "%s || !%s"), a.name, b.name);
    line(m, "let %s = %s;", new_var(m, BOOLEAN, a.rows || b.rows, a.cols || b.cols)->name, expr);
}

static void selection(Maker *m)
{
    Kind kind = chance(m, 60) ? FLOAT : INT;
    Var c = pick(m, BOOLEAN), a = pick(m, kind), b = pick(m, kind);
    Var *v = new_var(m, kind, c.rows || a.rows || b.rows, c.cols || a.cols || b.cols);
    line(m, "let %s = where(%s, %s, %s);", v->name, c.name, a.name, b.name);
}

static void reduction(Maker *m)
{
    Kind kind = chance(m, 60) ? FLOAT : INT;
    Var a = pick(m, kind);
    int axis = below(m, 2);
    int extent = axis ? (a.cols ? m->tn : 1) : (a.rows ? m->tm : 1);
    Var *v = new_var(m, kind, axis == 0 ? false : a.rows, axis == 1 ? false : a.cols);
    if (kind == FLOAT && chance(m, 50))
        line(m, "let %s = sum(%s, axis = %d) * (1.0 / %d.0);", v->name, a.name, axis, extent);
    else if (kind == INT && chance(m, 30))
        line(m, "let %s = i32(%s(%s, axis = %d));", v->name, CHOOSE(m, "argmax", "argmin"), a.name, axis);
    else if (kind == INT && chance(m, 30))
        line(m, "let %s = reduce(%s, axis = %d, init = 0, combine = mix);", v->name, a.name, axis);
    else
        line(m, "let %s = %s(%s, axis = %d);", v->name,
            kind == INT && chance(m, 40) ? "sum" : CHOOSE(m, "max", "min"), a.name, axis);
}

/* Several tiles combined by a fn whose result says in which order: reduced or scanned, one of the results
 * kept. */
static void combination(Maker *m)
{
    Var a = pick(m, INT), b = pick(m, INT), c = pick(m, FLOAT);
    int axis = below(m, 2), n = m->names++;
    bool scanned = chance(m, 50), reverse = scanned && chance(m, 40), last = chance(m, 40);
    bool rows = a.rows || b.rows || c.rows, cols = a.cols || b.cols || c.cols;
    line(m, "let (x%d, y%d, z%d) = %s((%s, %s, %s), axis = %d, combine = then%s);", n, n, n,
        scanned ? "scan" : "reduce", a.name, b.name, c.name, axis, reverse ? ", reverse = true" : "");
    if (!scanned && axis == 0) rows = false;
    if (!scanned && axis == 1) cols = false;
    line(m, "let %s = %c%d%s;", new_var(m, last ? FLOAT : INT, rows, cols)->name, last ? 'z' : 'y', n,
        last ? "" : " & 255");
}

static void scan(Maker *m)
{
    bool is_float = chance(m, 40);
    Var a = pick(m, is_float ? FLOAT : INT);
    int axis = below(m, 2), extent = axis ? (a.cols ? m->tn : 1) : (a.rows ? m->tm : 1);
    Var *v = new_var(m, is_float ? FLOAT : INT, a.rows, a.cols);
    if (is_float && chance(m, 50))
        line(m, "let %s = cumsum(%s, axis = %d) * (1.0 / %d.0);", v->name, a.name, axis, extent);
    else line(m, "let %s = %s(%s, axis = %d);", v->name, is_float ? "cummax" : "cumsum", a.name, axis);
}

static void shape(Maker *m)
{
    Kind kind = chance(m, 50) ? FLOAT : INT;
    Var a = pick_full(m, kind);
    Var *v = new_var(m, kind, true, true);
    if (chance(m, 40)) line(m, "let %s = transpose(reshape(%s, [%d, %d]));", v->name, a.name, m->tn, m->tm);
    else if (chance(m, 40))
        line(m, "let %s = reshape(transpose(%s), [%d, %d]);", v->name, a.name, m->tm, m->tn);
    else if (chance(m, 40)) line(m, "let %s = sort(%s);", v->name, a.name);
    else if (m->tn % 2 == 0) {
        int n = m->names++;
        line(m, "let (a%d, b%d) = split(%s, 2, axis = 1);", n, n, a.name);
        line(m, "let %s = concat(b%d, a%d, axis = 1);", v->name, n, n);
    } else line(m, "let %s = transpose(transpose(%s));", v->name, a.name);
}

static void product(Maker *m)
{
    Var a = pick_full(m, FLOAT), b = pick_full(m, FLOAT), c = pick_full(m, FLOAT);
    int n = m->names++;
    line(m, "let s%d = tanh(mma(%s, transpose(%s)) * (1.0 / %d.0));", n, a.name, b.name, m->tn);
    line(m, "let %s = mma(s%d, %s) * (1.0 / %d.0);", new_var(m, FLOAT, true, true)->name, n, c.name, m->tm);
}

/* --- memory --- */

/* An offset along one axis: this program's, shifted or walked by the loop. */
static const char *offset(Maker *m, char *out, size_t size, bool columns)
{
    int extent = columns ? m->tn : m->tm;
    const char *at = columns ? "j" : "i";
    if (*m->loop && chance(m, 60)) snprintf(out, size, "%s*%d", m->loop, extent);
    else if (chance(m, 50)) snprintf(out, size, "%s*%d", at, extent);
    else snprintf(out, size, "%s*%d + %d", at, extent, below(m, 2 * extent + 3) - extent - 1);
    return out;
}

static void load_matrix(Maker *m)
{
    bool is_float = chance(m, 60), turned = chance(m, 25);
    char rows[48], cols[48], steps[2][16] = { "", "" }, options[80] = "";
    offset(m, rows, sizeof rows, false);
    offset(m, cols, sizeof cols, true);
    for (int a = 0; a < 2; a++)
        if (chance(m, 15)) snprintf(steps[a], sizeof steps[a], " : %d", 2 + below(m, 2));
    if (chance(m, 30)) snprintf(options, sizeof options, is_float ? ", pad = 0.75" : ", pad = 7");
    if (turned) strcat(options, ", order = (1, 0)");
    if (chance(m, 20)) strcat(options, ", latency = 3");
    Var *v = new_var(m, is_float ? FLOAT : INT, true, true);
    line(m, "let %s = load(%s[%s +: %d%s, %s +: %d%s]%s);", v->name, is_float ? "A" : "B",
        turned ? cols : rows, turned ? m->tn : m->tm, steps[0], turned ? rows : cols, turned ? m->tm : m->tn,
        steps[1], options);
}

static void load_vector(Maker *m)
{
    char at[48];
    offset(m, at, sizeof at, true);
    line(m, "let %s = load(C[%s +: %d])[None, :];", new_var(m, FLOAT, false, true)->name, at, m->tn);
}

static void gather(Maker *m)
{
    bool is_float = chance(m, 50);
    Var a = pick(m, INDEX), b = pick(m, INDEX), c = pick(m, BOOLEAN), d = pick(m, INT);
    Var *v = new_var(m, is_float ? FLOAT : INT, true, true);
    const char *tensor = is_float ? "A" : "B";
    /* The sum with row and col makes every operand a full tile. */
    if (chance(m, 50))
        line(m, "let %s = gather(%s[%s + 0*row + 0*col, %s + 0*row + 0*col], pad = 2);", v->name, tensor,
            a.name, b.name);
    else
        line(m,
            "let %s = gather(%s[index(%s) %% 11 + 0*row + 0*col, col + 0*row], mask = %s && row >= 0 && col "
            ">= 0);",
            v->name, tensor, d.name, c.name);
}

/* A tensor that is read and written: the order of the program must hold. */
static void state(Maker *m)
{
    Var a = pick_full(m, FLOAT);
    if (chance(m, 60)) line(m, "store(S[i*%d +: %d, j*%d +: %d], %s);", m->tm, m->tm, m->tn, m->tn, a.name);
    if (chance(m, 60))
        line(m, "let %s = load(S[i*%d +: %d, j*%d +: %d]);", new_var(m, FLOAT, true, true)->name, m->tm,
            m->tm, m->tn, m->tn);
}

/* --- control --- */

static void statements(Maker *m, int n, int depth);

static void loop(Maker *m, int depth)
{
    int n = m->names++, kept = m->n_vars;
    char outer[8];
    Var f = pick_full(m, FLOAT), i = pick_full(m, INT);
    memcpy(outer, m->loop, sizeof outer);
    line(m, "var x%d = %s;", n, f.name);
    line(m, "var n%d = %s;", n, i.name);
    switch (below(m, 5)) {
    case 0: line(m, "const for t%d in 0 .. %d {", n, 1 + below(m, 3)); break;
    case 1: line(m, "for t%d in 0 .. cdiv(N, %d) {", n, m->tn); break;
    case 2: line(m, "for t%d in 0 .. min(cdiv(M, %d), i + 1) {", n, m->tm); break;
    case 3: line(m, "for t%d in j .. j + %d {", n, below(m, 3)); break;
    default: line(m, "for t%d in %d .. %d {", n, below(m, 2), below(m, 4)); break;
    }
    m->indent++;
    snprintf(m->loop, sizeof m->loop, "t%d", n);
    Var carried[2] = { { FLOAT, true, true, "" }, { INT, true, true, "" } };
    snprintf(carried[0].name, sizeof carried[0].name, "x%d", n);
    snprintf(carried[1].name, sizeof carried[1].name, "n%d", n);
    if (m->n_vars + 2 <= MOST_VARS) m->vars[m->n_vars++] = carried[0], m->vars[m->n_vars++] = carried[1];
    statements(m, 2 + below(m, 4), depth + 1);
    f = pick_full(m, FLOAT);
    i = pick_full(m, INT);
    if (chance(m, 70))
        line(m, "x%d = x%d * 0.5 + tanh(%s) * tanh(x%d) * 0.5;", n, n, f.name,
            n); /* no step makes a difference larger */
    else line(m, "x%d = %s;", n, f.name);
    line(m, chance(m, 50) ? "n%d = n%d + %s;" : "n%d = n%d ^ %s;", n, n, i.name);
    m->indent--;
    line(m, "}");
    memcpy(m->loop, outer, sizeof outer);
    if (m->n_vars > kept) m->n_vars = kept;
    line(m, "let %s = clamp(x%d, -20.0, 20.0);", new_var(m, FLOAT, true, true)->name, n);
    line(m, "let %s = n%d;", new_var(m, INT, true, true)->name, n);
}

static void branch(Maker *m, int depth)
{
    int n = m->names++, kept = m->n_vars;
    Var a = pick_full(m, FLOAT);
    line(m, "var g%d = %s;", n, a.name);
    line(m, "if (%s) {", CHOOSE(m, "i % 2 == 0", "j > 0", "k > 3", "(i + j) % 3 != 1", "N > 16", "i*2 < j"));
    for (int side = 0; side < 2; side++) {
        m->indent++;
        statements(m, 1 + below(m, 3), depth + 1);
        a = pick_full(m, FLOAT);
        line(m, "g%d = %s;", n, a.name);
        m->indent--;
        if (m->n_vars > kept) m->n_vars = kept;
        if (side == 0 && chance(m, 40)) break;
        if (side == 0) line(m, "} else {");
    }
    line(m, "}");
    line(m, "let %s = g%d;", new_var(m, FLOAT, true, true)->name, n);
}

static void repeat(Maker *m)
{
    int n = m->names++;
    Var a = pick_full(m, INT);
    line(m, "var w%d = %s;", n, a.name);
    line(m, "var c%d = k;", n);
    line(m, "while (c%d > 0) {", n);
    line(m, "    w%d = w%d * 3 - i32(row);", n, n);
    line(m, "    c%d = c%d - 2;", n, n);
    line(m, "}");
    line(m, "let %s = w%d;", new_var(m, INT, true, true)->name, n);
}

static void statement(Maker *m, int depth)
{
    typedef void Statement(Maker *);
    static Statement *const all[] = { float_unary, float_unary, float_binary, float_binary, float_binary,
        int_op, int_op, int_op, int_from_index, index_op, comparison, comparison, logic, selection, selection,
        reduction, reduction, combination, scan, shape, product, load_matrix, load_matrix, load_matrix,
        load_vector, gather, state, repeat };
    if (depth < MOST_DEPTH && chance(m, 10)) loop(m, depth);
    else if (depth < MOST_DEPTH && chance(m, 6)) branch(m, depth);
    else all[below(m, (int)(sizeof all / sizeof *all))](m);
}

static void statements(Maker *m, int n, int depth)
{
    for (int i = 0; i < n && m->length < sizeof m->k->text - 2000; i++) statement(m, depth);
}

/* --- the whole --- */

/* Every third kernel asks that neighbouring programs become one, which is done where nothing forbids it. */
static const char *packing(uint64_t seed)
{
    static const char *const hints[] = { " hint (pack = 2)", " hint (pack = 3)", " hint (pack = 4)",
        " hint (pack = 8)" };
    return seed % 3 ? "" : hints[seed / 3 % 4];
}

static void head(Maker *m, uint64_t seed)
{
    line(m, "fn squash(a, b) { return a / (1.0 + abs(a - b)); }");
    line(m, "fn mix(a, b) { return a ^ b; }");
    line(m, "fn then(p, q) { return (p[0] * q[0], p[1] * q[0] + q[1], q[2]); }");
    line(m, "kernel random(in f32 A[M, N], in i32 B[M, N], in f32 C[N], inout f32 S[M, N], out f32 Y[M, N], "
            "out i32 Z[M, N], out f32 R[M], i32 k, f32 s)");
    line(m, "    grid (cdiv(N, %d), cdiv(M, %d))%s", m->tn, m->tm, packing(seed));
    line(m, "{");
    m->indent = 1;
    line(m, "let (j, i) = program_id();");
    line(m, "let row = i*%d + arange(%d)[:, None];", m->tm, m->tm);
    line(m, "let col = j*%d + arange(%d)[None, :];", m->tn, m->tn);
    line(m, "let a = load(A[i*%d +: %d, j*%d +: %d]);", m->tm, m->tm, m->tn, m->tn);
    line(m, "let b = load(B[i*%d +: %d, j*%d +: %d]);", m->tm, m->tm, m->tn, m->tn);
    line(m, "let p = row >= 2*col && col < N;");
    line(m, "let c = full([1, 1], s, f32);");
    const Var start[] = { { INDEX, true, false, "row" }, { INDEX, false, true, "col" },
        { FLOAT, true, true, "a" }, { INT, true, true, "b" }, { BOOLEAN, true, true, "p" },
        { FLOAT, false, false, "c" } };
    memcpy(m->vars, start, sizeof start);
    m->n_vars = 6;
}

static void tail(Maker *m)
{
    const Var y = pick_full(m, FLOAT), z = pick_full(m, INT);
    char names[2][8];
    snprintf(names[0], 8, "%s", y.name);
    snprintf(names[1], 8, "%s", z.name);
    line(m, "store(Y[i*%d +: %d, j*%d +: %d], %s);", m->tm, m->tm, m->tn, m->tn, names[0]);
    line(m, "store(Z[i*%d +: %d, j*%d +: %d], %s);", m->tm, m->tm, m->tn, m->tn, names[1]);
    snprintf(names[0], 8, "%s", pick_full(m, FLOAT).name);
    line(m, "if (j == 0) {");
    line(m, "    store(R[i*%d +: %d], max(%s, axis = 1, drop = true));", m->tm, m->tm, names[0]);
    line(m, "}");
    m->indent = 0;
    line(m, "}");
}

void random_kernel(uint64_t seed, RandomKernel *out)
{
    static const int rows[] = { 1, 3, 8, 16 }, cols[] = { 1, 5, 8, 16, 32 }, sizes[] = { 1, 7, 16, 33, 40 };
    memset(out, 0, sizeof *out);
    Maker m = { .k = out, .random = { seed } };
    m.tm = rows[below(&m, 4)];
    m.tn = cols[below(&m, 5)];
    head(&m, seed);
    statements(&m, 6 + below(&m, 14), 0);
    tail(&m);
    snprintf(out->tensors, sizeof out->tensors,
        "in A[M,N] f32; in B[M,N] i32 int:%d; in C[N] f32; inout S[M,N] f32; out Y[M,N] f32; out Z[M,N] i32; "
        "out R[M] f32",
        chance(&m, 50) ? 20 : 2000000000);
    snprintf(out->scalars, sizeof out->scalars, "i32 k=%d; f32 s=0.375", below(&m, 8));
    snprintf(out->launch, sizeof out->launch, "random A B C S Y Z R k s");
    snprintf(out->sizes, sizeof out->sizes, "M=%d N=%d", sizes[below(&m, 5)], sizes[below(&m, 5)]);
}
