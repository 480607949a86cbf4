/* random_floats.c: random kernels of functions of floats: see random_kernel.h. Unlike those of the other
 * kinds their numbers are no whole numbers: what passes may round otherwise (exp, softmax, norms,
 * contraction) is what they are made of. Rows in one piece or in parts, as a line or a block of lines:
 * softmax of masked scores (-inf, -1e9, the lowest number), norms by every formula, gates, rotations, sums
 * that decay along a row, statistics that loops gather online, and second loops that use them; NaN and
 * infinities among the inputs of a fifth.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   F E R C   values: moderate, in [0, 1], one a row, one a column;  M: bools;  H: of the tensors' type
 *   W w       the window of the block, of a column;  X: the axis of columns;  N v: its extent, one by it
 *   D         a digit;  p: an option of loads
 * A step makes a difference at most a few times as large, and no float decides a bool or an integer. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "T", "normal" },
    { "in", "Z", "M,N", "T", "normal" },
    { "in", "V", "M,N", "f32", "normal" },
    { "in", "SCORE", "M,N", "f32", "mask" },
    { "in", "KEEP", "M,N", "bool", "normal" },
    { "in", "COLS", "N", "bool", "normal" },
    { "in", "B", "N", "f32", "normal" },
    { "in", "H", "N", "T", "normal" },
    { "in", "G", "M", "f32", "normal" },
    { "in", "LEN", "M", "i32", "index:N" },
    { "in", "SEG", "N", "i32", "index:THREE" },
    { "in", "OWN", "M", "i32", "index:THREE" },
    { "in", "ID", "N", "i32", "index:N" },
    { "out", "Y", "M,N", "T", "" },
    { "inout", "O", "M,N", "f32", "normal" },
    { "inout", "P", "M,N", "T", "normal" },
    { "inout", "S", "M", "f32", "normal" },
    { "inout", "L", "M", "f32", "normal" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { MODERATE, SHARE, ROW, COLUMN, TRUTH, NARROW, KINDS };
static const char letters[KINDS + 1] = "fercbh", kinds[KINDS + 1] = "FERCMH";

typedef struct Floats {
    Arranger *a;
    bool line, parts; /* one row by itself; rows in parts, of a loop around */
    bool chosen;      /* parts and blocks have sizes of the compiler's: nothing may depend on them */
    bool extremes;
    int tm, tn, budget, n[KINDS];
    char m[8], w[8]; /* tm, tn, or the names of constants */
} Floats;

static const char *const made[KINDS][34] = {
    { "f32(load(X[$W]$p)) * 0.5", "f32(load(X[$W]$p))", "f32(load(Z[$W]))", "load(V[$W]$p)", "$F + $C",
        "$F * tanh($C)", "$F + $R", "$F - $R", "$F * $E", "$F * sigmoid($F)", "gelu($F)", "swift($F)",
        "max($F, 0.0)", "where($M, $F, 0.0)", "where($M, $F, $F)", "4.0 * tanh($F / 4.0)", "softplus($F)",
        "log($E + 0.5)", "fma($F, 0.5, $F)", "$F - $F * $E", "sin($F)", "$F * cos($C) - $F * sin($C)",
        "sqrt(abs($F) + 0.01)", "$F / (1.0 + abs($F))", "cumsum($F, axis = $X) * $v", "-$F", "erf($F)",
        "shift($F, $D - 2, axis = $X)",
        "where(random_bits(7, index(row)*999 + col) % 4 != 0, $F * 1.25, 0.0)", "f32(f64($F) * 0.5)",
        "minnum($F, maxnum($F, -1.0))" },
    { "sigmoid($F)", "exp(-abs($F))", "exp(min($F, 0.0))", "exp2(min($F, 0.0))", "$E * $E", "1.0 - $E",
        "exp(-cumsum(abs($F), axis = $X) * $v)", "where($M, $E, 0.0)", "exp($F - max($F, axis = $X))",
        "exp($F - max(max($F, axis = $X), $F))", "rsqrt(1.0 + abs($F))", "where($M, 1.0, e0)",
        "1.0 / (1.0 + exp(-$F))", "exp2($F * 0.5 - 4.0)", "div($E, 1.0 + $E)" },
    { "sum($F, axis = $X) * $v", "max($F, axis = $X)", "min($F, axis = $X)", "sum($F * $F, axis = $X) * $v",
        "sum($E * $F, axis = $X) * $v", "log(1.0 + sum($E, axis = $X))", "max(abs($F), axis = $X)",
        "sum(where($M, $F, 0.0), axis = $X) * $v", "$R + $R", "tanh($R)", "$R * sigmoid($R)",
        "log(sum(exp($F), axis = $X))", "max($F, axis = $X) - min($F, axis = $X)", "prod($E, axis = $X)" },
    { "load(B[$w])$n", "f32(load(H[$w]))$n", "$C + $C", "tanh($C)", "gather(B[load(ID[$w], pad = -1)])$n",
        "where(load(COLS[$w])$n, $C, 0.5)" },
    { "(col < N)", "(row >= col)", "(row - col < $D*9)", "((row + col) % 3 != $D)", "load(KEEP[$W])",
        "load(KEEP[$W])", "load(COLS[$w])$n", "($M && $M)", "(!$M || $M)", "(i32(col) < $l)",
        "(load(SEG[$w])$n == $o)" },
    { "load(X[$W]$q)", "load(Z[$W])", "$H * sigmoid($H)", "$H + (cast($F, T))", "$H - (cast($E, T))",
        "tanh($H)", "exp(min($H, (cast(0, T))))", "max($H, $H)", "where($M, $H, (cast(0, T)))",
        "$H * (cast($E, T))", "-$H", "$H + (cast($v, T)) * sum($H, axis = $X)",
        "fma($H, (cast($E, T)), $H)" },
};

static bool whole_rows(const char *template) { return strstr(template, "$X") || strstr(template, "shift("); }

/* Late ones are taken more often, so that values follow from each other. */
static const char *pick(const Floats *x, int kind)
{
    static char out[12];
    const int n = x->n[kind], late = n < 3 ? n : 3;
    snprintf(out, sizeof out, "%c%d", letters[kind],
        chance(x->a, 65) ? n - 1 - below(x->a, late) : below(x->a, n));
    return out;
}

static const char *part(void *user, char name, char *out, size_t size)
{
    const Floats *x = user;
    Arranger *a = x->a;
    const char *kind = strchr(kinds, name);
    if (kind) snprintf(out, size, "%s", pick(x, (int)(kind - kinds)));
    else switch (name) {
        case 'W': return x->line ? "i, $w" : "i*$m +: $m, $w";
        case 'l': return x->line ? "load(LEN[i])" : "load(LEN[i*$m +: $m])[:, None]";
        case 'o': return x->line ? "load(OWN[i])" : "load(OWN[i*$m +: $m])[:, None]";
        case 'g': return x->line ? "load(G[i])" : "load(G[i*$m +: $m])[:, None]";
        case 'w':
            if (x->parts) snprintf(out, size, "j*%s +: %s", x->w, x->w);
            else snprintf(out, size, ":");
            break;
        case 'n': snprintf(out, size, x->line ? "" : "[None, :]"); break;
        case 'm': snprintf(out, size, "%s", x->m); break;
        case 'q': snprintf(out, size, "%s", CHOOSE(a, "", "", ", latency = 2")); break;
        case 'X': snprintf(out, size, "%d", !x->line); break;
        case 'N': snprintf(out, size, "%d.0", x->tn); break;
        case 'v': snprintf(out, size, "(1.0 / %d.0)", x->tn); break;
        case 'D': snprintf(out, size, "%d", below(a, 5)); break;
        default: snprintf(out, size, "%s", CHOOSE(a, "", "", ", pad = 0.5", ", latency = 2"));
        }
    return NULL;
}

static void expand(const Floats *x, const char *template, char *out, size_t size)
{ arrange_expand(template, part, (void *)(uintptr_t)x, out, size); }

static void statement(const Floats *x, const char *template)
{
    char text[700];
    expand(x, template, text, sizeof text);
    arrange_line(x->a, "%s", text);
}

static void known(Floats *x, int kind, const char *template)
{
    char text[700];
    /* those of narrow types are rounded each time */
    if (x->n[kind] == (kind == NARROW ? 5 : 14) || (x->chosen && whole_rows(template))) return;
    expand(x, template, text, sizeof text);
    const char *open = kind == SHARE || kind == TRUTH ? "" : "tame(";
    arrange_line(x->a, "let %c%d = %s%s%s;", letters[kind], x->n[kind], open, text, *open ? ")" : "");
    x->n[kind]++;
}

static void value(Floats *x)
{
    const int kind =
        ONE_OF(x->a, MODERATE, MODERATE, MODERATE, MODERATE, SHARE, SHARE, ROW, ROW, COLUMN, TRUTH, NARROW);
    int count = 0;
    while (count < 34 && made[kind][count]) count++;
    known(x, kind, made[kind][below(x->a, count)]);
}

/* --- idioms --- */

static const char *masked_with(Arranger *a) { return CHOOSE(a, "-inf", "-inf", "-1e9", "-3e38", "-10000.0"); }

/* The scores s%d: masked, or loaded with -inf among them. */
static int scores(Floats *x)
{
    Arranger *a = x->a;
    char text[300], format[200];
    const int n = a->names++;
    snprintf(format, sizeof format,
        CHOOSE(a, "where($M, $F, %s)", "where($M && col < N, $F * 2.0, %s)", "where($M, $F, %s) + $C",
            "where($M, load(SCORE[$W]), %s)", "where(col < N, $F + load(SCORE[$W], pad = -inf), %s)"),
        masked_with(a));
    expand(x, format, text, sizeof text);
    arrange_line(a, "let s%d = %s;", n, text);
    return n;
}

/* A value of the kind, by a format that names the idiom's tiles by their number once to four times. */
static void result(Floats *x, int kind, const char *format, int n)
{
    char text[300];
    const bool tame = kind != SHARE;
    snprintf(text, sizeof text, format, n, n, n, n);
    arrange_line(
        x->a, "let %c%d = %s%s%s;", letters[kind], x->n[kind]++, tame ? "tame(" : "", text, tame ? ")" : "");
}

static void line_of(Floats *x, const char *format, int n)
{
    char text[300];
    snprintf(text, sizeof text, format, n, n, n, n, n, n);
    statement(x, text);
}

static void softmax(Floats *x)
{
    Arranger *a = x->a;
    if (x->n[SHARE] >= 12 || x->n[ROW] >= 13) return;
    const int n = scores(x);
    line_of(x, "let m%d = max(s%d, axis = $X);", n);
    line_of(x,
        CHOOSE(a, "let t%d = m%d;", "let t%d = where(m%d == -inf, 0.0, m%d);", "let t%d = max(m%d, -1e4);",
            "let t%d = max(m%d, -3e38);"),
        n);
    line_of(x,
        CHOOSE(a, "let p%d = exp(s%d - t%d);", "let p%d = exp(s%d - t%d);",
            "let p%d = exp2((s%d - t%d) * 1.4426950408889634);",
            "let p%d = exp2(s%d * 1.4426950408889634 - t%d * 1.4426950408889634);"),
        n);
    line_of(x, "let l%d = sum(p%d, axis = $X);", n);
    result(x, SHARE,
        CHOOSE(a, "p%d / l%d", "p%d * (1.0 / l%d)", "p%d / max(l%d, 1e-20)", "p%d / (l%d + 1.0)"), n);
    if (chance(a, 30)) result(x, SHARE, "exp(s%d - (t%d + log(l%d)))", n);
    if (chance(a, 40)) result(x, ROW, "t%d + log(l%d)", n);
}

static void norm(Floats *x)
{
    static const char *const spreads[] = { "let q%d = sum((x%d - u%d) * (x%d - u%d), axis = $X) * $v;",
        "let q%d = max(sum(x%d * x%d, axis = $X) * $v - u%d * u%d, 0.0);",
        "let q%d = sum(x%d * x%d, axis = $X) * $v;", "let q%d = max(abs(x%d), axis = $X);" };
    Arranger *a = x->a;
    const int n = a->names++, form = below(a, 4);
    if (x->n[MODERATE] >= 13) return;
    line_of(x,
        CHOOSE(a, "let x%d = f32(load(X[$W]));", "let x%d = $F;", "let x%d = f32(load(X[$W])) + $C;",
            "let x%d = $F + f32(load(Z[$W]));"),
        n);
    line_of(x, "let u%d = sum(x%d, axis = $X) / $N;", n);
    line_of(x, spreads[form], n);
    char whole[80];
    snprintf(whole, sizeof whole, "%s %s", form < 2 ? "(x%d - u%d)" : "x%d",
        CHOOSE(a, "* rsqrt(q%d + 0.1)", "/ sqrt(q%d + 0.1)", "* (1.0 / (q%d + 0.5))", "/ (q%d + 0.5)"));
    result(x, MODERATE, whole, n);
}

/* --- loops over parts --- */

static void within(Floats *x, int count)
{
    x->a->indent++;
    arrange_line(x->a, "let col = %s%s%sarange(%s)%s;", x->parts ? "j*" : "", x->parts ? x->w : "",
        x->parts ? " + " : "", x->w, x->line ? "" : "[None, :]");
    statement(x, "let f0 = f32(load(X[$W]$p));");
    statement(x, "let c0 = load(B[$w])$n;");
    statement(x, "let f1 = tame(f0 + c0 * 0.5);");
    statement(x, "let e0 = sigmoid(f1);");
    statement(x, CHOOSE(x->a, "let b0 = col < N;", "let b0 = load(KEEP[$W]);", "let b0 = row >= col;"));
    statement(x, "let h0 = load(X[$W]);");
    x->n[SHARE] = x->n[COLUMN] = x->n[TRUTH] = x->n[NARROW] = 1;
    x->n[MODERATE] = 2;
    for (; count > 0; count--) {
        const int what = below(x->a, 100);
        if (what < 14 && !x->parts) softmax(x);
        else if (what < 24 && !x->parts) norm(x);
        else value(x);
    }
}

static void ends(Floats *x)
{
    static const char *const all[] = { "store(O[$W], $F);", "store(O[$W], $F);",
        "store(Y[$W], (cast($F, T)));", "store(Y[$W], (cast($F * $E, T)));", "store(P[$W], (cast($E, T)));",
        "store(O[$W], where($M, $F, load(O[$W])));", "store(Y[$W], $H);", "store(P[$W], $H);",
        "store(Y[$W], (cast(($E * 1e-39) / ((abs($R) + 0.5) * 1e-39), T)));" };
    statement(x, all[below(x->a, sizeof all / sizeof *all)]);
}

static void end_rows(const Floats *x, const char *name, const char *what)
{
    if (x->line) arrange_line(x->a, "store(%s[i +: 1], %s);", name, what);
    else arrange_line(x->a, "store(%s[i*%s +: %s], reshape(%s, [%s]));", name, x->m, x->m, what, x->m);
}

static const char *rows_of(const Floats *x, const char *value)
{
    static char out[2][60];
    static int turn;
    char *o = out[turn++ % 2];
    if (x->line) snprintf(o, sizeof out[0], "full([1], %s, f32)", value);
    else snprintf(o, sizeof out[0], "full([%s, 1], %s, f32)", x->m, value);
    return o;
}

static void loop_head(const Floats *x, bool all)
{
    char bound[100];
    snprintf(bound, sizeof bound,
        all || x->chosen ? "0 .. cdiv(N, %s)"
                         : CHOOSE(x->a, "0 .. cdiv(N, %s)", "0 .. cdiv(N, %s)",
                               "0 .. min(cdiv(N, %s), i + 1)", "0 .. cdiv(index(load(LEN[i])) + 1, %s)"),
        x->w);
    arrange_line(x->a, "for j in %s {", bound);
}

/* The online softmax of what a loop computes, with a sum of other values by its weights. */
static void online(Floats *x)
{
    Arranger *a = x->a;
    const int axis = !x->line;
    const char *first = CHOOSE(a, "-inf", "-inf", "-3e38", "0.0");
    arrange_line(a, "var m = %s;", rows_of(x, first));
    arrange_line(a, "var l = %s;", rows_of(x, "0.0"));
    arrange_line(a, "var w = %s;", rows_of(x, "0.0"));
    loop_head(x, false);
    within(x, 1 + below(a, 5));
    const int n = scores(x);
    /* what lies behind the row's end counts as often as parts reach it */
    char of[40], all[60];
    snprintf(of, sizeof of, x->chosen ? "where(col < N, s%d, -inf)" : "s%d", n);
    snprintf(all, sizeof all, x->chosen ? "where(col < N, exp(s%d - t), 0.0)" : "exp(s%d - t)", n);
    arrange_line(a, "let n = max(m, max(%s, axis = %d));", of, axis);
    arrange_line(a, "let t = %s;", CHOOSE(a, "where(n == -inf, 0.0, n)", "max(n, -1e4)", "max(n, -3e38)"));
    arrange_line(a, "let q = %s;", all);
    arrange_line(a, "let c = exp(m - t);");
    arrange_line(a, "l = l * c + sum(q, axis = %d);", axis);
    if (chance(a, 70))
        arrange_line(a, "w = w * c + sum(q * f%d, axis = %d);", below(a, x->n[MODERATE]), axis);
    arrange_line(a, "m = n;");
    if (chance(a, 20)) ends(x);
    a->indent--;
    x->n[ROW] = 1; /* those of the loop are gone */
    arrange_line(a, "}");
    end_rows(x, "L", CHOOSE(a, "m + log(l)", "l", "m + log(max(l, 1e-30))"));
    arrange_line(a, "let r%d = tame(w / %s);", x->n[ROW]++, CHOOSE(a, "l", "max(l, 1e-20)", "(l + 1.0)"));
}

/* Sums, moments or a decaying state of what a loop computes. */
static void gathered(Floats *x)
{
    Arranger *a = x->a;
    const int axis = !x->line, form = below(a, x->chosen ? 3 : 4);
    arrange_line(a, "var m = %s;", rows_of(x, form == 2 ? "-inf" : "0.0"));
    arrange_line(a, "var l = %s;", rows_of(x, "0.0"));
    loop_head(x, form == 1);
    within(x, 1 + below(a, 5));
    const int f = below(a, x->n[MODERATE]);
    arrange_line(a, x->chosen || form == 1 ? "let g = where(col < N, f%d, 0.0);" : "let g = f%d;", f);
    if (form == 0) arrange_line(a, "m = m + sum(g, axis = %d);", axis);
    if (form == 0) arrange_line(a, "l = l + sum(g * g, axis = %d);", axis);
    if (form == 1) { /* the moments of two parts */
        arrange_line(a, "let count = f32(min(N - j*%s, %s));", x->w, x->w);
        arrange_line(a, "let u = sum(g, axis = %d) / count;", axis);
        arrange_line(a, "let d = where(col < N, g - u, 0.0);");
        arrange_line(a, "let before = f32(j*%s);", x->w);
        arrange_line(a,
            "l = l + sum(d * d, axis = %d) + (u - m) * (u - m) * before * count / (before + count);", axis);
        arrange_line(a, "m = m + (u - m) * (count / (before + count));");
    }
    const char *inside = x->chosen ? "where(col < N, exp(g), 0.0)" : "exp(g)";
    if (form == 2) arrange_line(a, "m = max(m, max(g, axis = %d));", axis);
    if (form == 2) arrange_line(a, "l = l + sum(%s, axis = %d);", inside, axis);
    if (form == 3) arrange_line(a, "m = m * 0.75 + max(g, axis = %d);", axis);
    if (form == 3) arrange_line(a, "l = l * max(e%d, axis = %d) + m;", below(a, x->n[SHARE]), axis);
    if (chance(a, 20)) ends(x);
    a->indent--;
    x->n[ROW] = 1; /* those of the loop are gone */
    arrange_line(a, "}");
    end_rows(x, "L", form == 2 ? "log(l)" : form == 1 ? "l / f32(N)" : "l");
    arrange_line(a, "let r%d = tame(%s);", x->n[ROW]++,
        form == 1   ? "m * rsqrt(l / f32(N) + 0.1)"
        : form == 2 ? "m - log(l)"
                    : "m * 0.125");
}

static void parts(Floats *x)
{
    if (chance(x->a, 60)) online(x);
    else gathered(x);
    const int rows = x->n[ROW];
    if (chance(x->a, 70)) {
        loop_head(x, false);
        within(x, 1 + below(x->a, 4));
        ends(x);
        if (chance(x->a, 30)) ends(x);
        x->a->indent--;
        arrange_line(x->a, "}");
        x->n[ROW] = rows;
    }
    char row[24]; /* far from zero, which a mean may be but for rounding */
    snprintf(row, sizeof row, "%s + 1.0", pick(x, ROW));
    end_rows(x, "S", row);
}

static void whole(Floats *x)
{
    x->a->indent--;
    within(x, x->budget);
    ends(x);
    if (chance(x->a, 50)) ends(x);
    char row[24]; /* far from zero, which a mean may be but for rounding */
    snprintf(row, sizeof row, "%s + 1.0", pick(x, ROW));
    end_rows(x, "S", row);
}

/* --- the kernel --- */

static const char *const functions =
    "fn tame(x) { return clamp(x, -6.0, 6.0); }\n"
    "fn gelu(x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752)); }\n"
    "fn swift(x) { return x * 0.5 * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }\n"
    "fn softplus(x) { return max(x, 0.0) + log(1.0 + exp(-abs(x))); }\n";

void random_floats(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 11 + 6 } }, *a = &arranger;
    Floats floats = { .a = a }, *x = &floats;
    char clauses[160];
    RandomTensor all[TENSORS];
    memcpy(all, tensors, sizeof all);
    a->type = (Elem)ONE_OF(a, F16, F16, F16, BF16, BF16, BF16, F32, F32, F64);
    x->parts = chance(a, 45);
    x->chosen = x->parts && chance(a, 35);
    x->line = chance(a, 50);
    x->extremes = chance(a, 20);
    x->tm = x->line ? 1 : ONE_OF(a, 1, 2, 4, 8, 16, 3, 32);
    x->tn = x->parts  ? ONE_OF(a, 16, 32, 64, 100, 128, 8)
            : x->line ? ONE_OF(a, 1, 2, 9, 33, 64, 128, 257, 512, 1000, 1024, 2050)
                      : ONE_OF(a, 1, 7, 16, 33, 64, 100, 128, 256);
    x->budget = 3 + below(a, 10);
    snprintf(x->m, sizeof x->m, x->chosen ? "TM" : "%d", x->tm);
    snprintf(x->w, sizeof x->w, x->chosen ? "TN" : "%d", x->tn);
    snprintf(clauses, sizeof clauses, x->line ? "    grid (M)%s\n{\n" : "    grid (cdiv(M, %2$s))%1$s\n{\n",
        CHOOSE(a, "", "", "", "", " hint (warps = 1)", " hint (warps = 8)", " hint (pack = 2)",
            " hint (persistent = 1)", " hint (cluster = 2)", " hint (split_k = 2)", " hint (occupancy = 2)",
            " hint (cluster = 4)", " hint (cluster = 2, warps = 1)", " hint (split_k = 4)",
            " hint (warps = 2)"),
        x->m);
    a->indent = 1;
    arrange_line(a, "let i = program_id();");
    if (x->line) arrange_line(a, "let row = i;");
    else arrange_line(a, "let row = i*%s + arange(%s)[:, None];", x->m, x->m);
    statement(x, "let r0 = tame($g);");
    x->n[ROW] = 1;
    if (x->parts) parts(x);
    else whole(x);
    a->indent = 0;
    arrange_line(a, "}");
    for (int t = 0; t < TENSORS && x->extremes; t++)
        if (strchr("XZV", *all[t].name)) all[t].fill = "extremes:2";
    random_head(a,
        &(RandomHead){ .tensors = all,
            .count = TENSORS,
            .functions = functions,
            .always = " X B G ",
            .more = !x->chosen ? NULL
                    : x->line  ? ", const int TN = auto"
                               : ", const int TM = auto, const int TN = auto",
            .views = 20 },
        clauses);
    /* Not equal elements, whose spread would be rounding errors and nothing else. */
    for (char *v = out->views; (v = strchr(v, ':')); v++)
        if (v[1] == 'o' || v[1] == 'z') v[1] = 's';
    snprintf(out->bounds, sizeof out->bounds, "6 8192 4398046511104");
    const int m = x->tm * (1 + below(a, 3)) - (chance(a, 50) ? below(a, x->tm) : 0);
    snprintf(out->sizes, sizeof out->sizes, "M=%d N=%d THREE=3", m,
        x->parts ? x->tn * (1 + below(a, 4)) - (chance(a, 60) ? below(a, x->tn) : 0) : x->tn);
}
