/* random_rows.c: random kernels whose programs work on whole rows: see random_kernel.h. Rows of one element
 * to thousands, loaded once and again, of several tensors and types, with weights in between; reductions of
 * what follows from them, each from the ones before; stores beside. Half of them do nothing else, as the form
 * in which rows are kept requires. The others also gather, scan, branch and loop, read rows that they have
 * stored, and cut rows into parts of a size that the compiler chooses.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   F Q M S   a row of f32, i32, bool; a reduced row of f32
 *   L W       a loaded row, weights;  R: the place of a row;  D: a digit;  o: an option of scans
 * Numbers are whole and small, so that all sums are exact. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "T", "int:3" },
    { "in", "Z", "M,N", "T", "int:3" },
    { "in", "V", "M,N", "f32", "int:7" },
    { "in", "H", "M,N", "bf16", "int:4" },
    { "in", "Q", "M,N", "i32", "int:50" },
    { "in", "BYTE", "M,N", "u8", "int:9" },
    { "in", "W", "N", "T", "int:3" },
    { "in", "B", "N", "f32", "int:5" },
    { "in", "U", "N", "bf16", "int:4" },
    { "in", "JD", "N", "i32", "index:N" },
    { "in", "CNT", "M", "i32", "int:3" },
    { "inout", "O", "M,N", "f32", "int:5" },
    { "inout", "I", "M,N", "i32", "int:5" },
    { "out", "Y", "M,N", "T", "" },
    { "out", "CUT", "M,N", "f32", "" },
    { "inout", "SUM", "M", "f32", "int:5" },
    { "inout", "SEEN", "N", "f32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { ROWS_F, ROWS_Q, ROWS_M, REDUCED, KINDS };
static const char letters[KINDS + 1] = "fqms";

typedef struct Rows {
    Arranger *a;
    int depth, loops, budget, n[KINDS];
    bool plain, alike, extremes; /* alike: rows and weights have one type; extremes: NaN and infinities */
} Rows;

/* What plain programs have comes first, so many of each kind. */
static const int plain[KINDS] = { 12, 4, 4, 5 };
static const char *const made[KINDS][24] = {
    { "$L", "$L", "$F + $W", "$F * $W", "$F * $W + $W", "$F - $S", "$F * $S + $F", "max($F, $S)",
        "where($M, $F, $W)", "$F + $F", "-$F", "f32($Q % 9)", "f32(argmax($F, axis = 0) % 5) + $F",
        "cumsum($F, axis = 0$o)", "cummax($F, axis = 0$o)", "shift($F, $D - 2, axis = 0, fill = 1.0)",
        "load(O[r, :])", "gather(V[$R, jd])", "gather(V[r, jd], mask = $M, pad = 2.0)",
        "f32(f16($F)) + f32(f8e4m3($F))", "$F - f32(load(CNT[r]))" },
    { "load(Q[$R, :])", "i32($F)", "$Q + $Q", "$Q ^ i32(load(BYTE[$R, :]))", "load(I[r, :])",
        "cumsum($Q, axis = 0$o)", "max($Q, axis = 0) - $Q", "sum($Q, axis = 0) ^ $Q" },
    { "$F > $S", "$F > $W", "$Q % 3 == $D", "$F != $F", "any($M, axis = 0) && $M", "jd % 2 == $D % 2" },
    { "sum($F, axis = 0)", "sum($F * $F, axis = 0)", "max($F, axis = 0)", "min($F - $W, axis = 0)",
        "sum($F * $W, axis = 0) - max($L, axis = 0)", "f32(argmin($F, axis = 0))",
        "f32(argmax($L, axis = 0))", "f32(sum($Q, axis = 0) % 9)", "sum(where($M, $F, 0.0), axis = 0)",
        "f32(any($M, axis = 0))", "f32(sum(i32($M), axis = 0))" },
};

/* Those of the kernel's type come first. */
enum { ALIKE_LOADS = 4, LOADS = 7, WEIGHTS = 3 };
static const char *const loads[LOADS] = { "f32(load(X[$R, :]))", "f32(load(X[r, :]))",
    "f32(load(X[r, 0 +: N]))", "f32(load(Z[r, :]))", "load(V[r, :])", "load(V[r, 0 +: N])",
    "f32(load(H[r, :]))" };
static const char *const weights[WEIGHTS] = { "f32(load(W[:]))", "load(B[:])", "f32(load(U[:]))" };
static const char *const places[] = { "r", "r", "M - 1 - r", "(r + 1) % M", "r + 1", "r - 1" };

enum { PLAIN_ENDS = 6 };
static const char *const ends[] = { "store(O[r, :], $F);", "store(O[r, :], $F);",
    "store(Y[r, :], cast(clamp($F, 0.0, 4.0), T));", "store(Y[r, :], cast(clamp($F, 0.0, 4.0), T));",
    "store(SUM[r +: 1], $S);", "store(I[r, :], i32($F));", "store(I[r, :], $Q);", "atomic_add(SEEN[:], $F);",
    "scatter(O[r, arange(N)], $F, mask = $M);" };

static const char *part(void *user, char name, char *out, size_t size)
{
    static const char kinds[] = "FQMS";
    Rows *x = user;
    Arranger *a = x->a;
    const char *kind = strchr(kinds, name);
    if (kind) snprintf(out, size, "%c%d", letters[kind - kinds], below(a, x->n[kind - kinds]));
    else switch (name) {
        case 'L': return loads[below(a, x->alike ? ALIKE_LOADS : LOADS)];
        case 'W': snprintf(out, size, "%s", weights[below(a, x->alike ? 1 : WEIGHTS)]); break;
        case 'R': snprintf(out, size, "%s", places[below(a, sizeof places / sizeof *places)]); break;
        case 'D': snprintf(out, size, "%d", below(a, 5)); break;
        default: snprintf(out, size, "%s", CHOOSE(a, "", ", reverse = true"));
        }
    return NULL;
}

static void expand(Rows *x, const char *template, char *out, size_t size)
{ arrange_expand(template, part, x, out, size); }

static void let(Rows *x)
{
    Arranger *a = x->a;
    const int kind = ONE_OF(a, ROWS_F, ROWS_F, ROWS_F, ROWS_F, ROWS_Q, ROWS_M, REDUCED, REDUCED, REDUCED);
    int count = 0;
    char e[600];
    while (count < 24 && made[kind][count]) count++;
    if (x->plain) count = plain[kind];
    expand(x, made[kind][below(a, count)], e, sizeof e);
    const char *open = kind == ROWS_F ? "clip(" : kind == REDUCED ? "part(" : "", *close = *open ? ")" : "";
    if (x->depth && chance(a, 60)) /* what loops carry */
        arrange_line(a, "%c%d = %s%s%s;", letters[kind], below(a, x->n[kind]), open, e, close);
    else if (x->n[kind] < 9) {
        arrange_line(
            a, "%s %c%d = %s%s%s;", x->plain ? "let" : "var", letters[kind], x->n[kind], open, e, close);
        x->n[kind]++;
    }
}

static void put(Rows *x)
{
    char e[600];
    expand(x, ends[below(x->a, x->plain ? PLAIN_ENDS : (int)(sizeof ends / sizeof *ends))], e, sizeof e);
    arrange_line(x->a, "%s", e);
}

static void statements(Rows *x, int n);

static void inside(void *user)
{
    Rows *x = user;
    int n[KINDS];
    memcpy(n, x->n, sizeof n);
    x->a->indent++;
    x->depth++;
    statements(x, 1 + below(x->a, 3));
    x->depth--;
    x->a->indent--;
    memcpy(x->n, n, sizeof n);
}

static void loop(Rows *x)
{
    arrange_line(x->a, "for k%d in %s {", x->loops++,
        CHOOSE(x->a, "0 .. 2", "0 .. 0", "0 .. index(load(CNT[r]))", "-1 .. 1", "0 .. 5 : 3", "r .. 2"));
    inside(x);
    arrange_line(x->a, "}");
}

static void branch(Rows *x)
{
    char e[200];
    expand(x,
        CHOOSE(x->a, "r % 2 == 0", "load(CNT[r]) > $D - 2", "any($M, drop = true)",
            "max($F, drop = true) > $D.0", "sum($Q, drop = true) % 2 == 0"),
        e, sizeof e);
    arrange_branch(x->a, e, 20, inside, x);
}

static void statements(Rows *x, int n)
{
    static void (*const all[])(Rows *) = { let, let, let, let, let, let, put, loop, branch };
    enum { ALL = sizeof all / sizeof *all, NESTED = 2 };
    for (int k = 0; k < n && x->budget > 0 && x->a->length < sizeof x->a->body - 3000; k++, x->budget--)
        all[below(x->a, x->plain || x->depth > 1 ? ALL - NESTED : ALL)](x);
}

/* A row again, in parts of a size that nobody has chosen. */
static void in_parts(Rows *x)
{
    Arranger *a = x->a;
    arrange_line(a, "for j in 0 .. cdiv(N, TB) {");
    arrange_line(a, "    let v = load(V[r, j*TB +: TB]%s);", CHOOSE(a, "", ", latency = 2"));
    arrange_line(a, "    store(CUT[r, j*TB +: TB], clip(v %s load(B[j*TB +: TB]) - s%d));",
        CHOOSE(a, "+", "-", "*"), below(a, x->n[REDUCED]));
    arrange_line(a, "}");
}

/* The kernel's statements; before them one tile of each kind. */
static void body(Rows *x, bool cut)
{
    Arranger *a = x->a;
    const char *const first[KINDS] = { x->extremes ? "clip($L)" : "$L", "load(Q[r, :])", "f0 > 1.0",
        "max(f0, axis = 0)" };
    char e[200];
    a->indent = 1;
    arrange_line(a, "let r = program_id();");
    if (!x->plain) arrange_line(a, "let jd = load(JD[:]);");
    for (int k = 0; k < KINDS; k++) {
        expand(x, first[k], e, sizeof e);
        arrange_line(a, "%s %c0 = %s;", x->plain ? "let" : "var", letters[k], e);
        x->n[k] = 1;
    }
    while (x->budget > 0) statements(x, 3);
    arrange_line(a, "let mean = part(sum(f0 * f%d, axis = 0));", below(a, x->n[ROWS_F]));
    expand(x, CHOOSE(a, "f0 - mean", "clip(f0 * mean) * $W", "$F - mean + f0"), e, sizeof e);
    arrange_line(a, "store(O[r, :], clip(%s));", e);
    put(x);
    if (cut) in_parts(x);
    a->indent = 0;
    arrange_line(a, "}");
}

static const char *const functions = "fn clip(x) { return clamp(x, -8.0, 8.0); }\n"
                                     "fn part(x) { return clamp(floor(x / 64.0), -8.0, 8.0); }\n";

void random_rows(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + 11 } }, *a = &arranger;
    Rows rows = { .a = a }, *x = &rows;
    a->type = (Elem)ONE_OF(a, F16, F16, BF16, F32, F32, E4M3);
    x->plain = chance(a, 55);
    x->alike = chance(a, 70);
    x->extremes = chance(a, 16);
    x->budget = 3 + below(a, 12);
    const bool cut = !x->plain && chance(a, 30);
    const int n = ONE_OF(a, 1, 9, 64, 225, 1009, 1023, 1024, 1026, 2040, 2048, 2052, 3000, 4095, 4096, 4100,
                  chance(a, 30) ? 9010 : 1536),
              m = 1 + below(a, 4);
    const char *hint = CHOOSE(a, "", "", " hint (warps = 1)", " hint (warps = 2)", " hint (warps = 4)",
        " hint (warps = 2)", " hint (warps = 4)", " hint (warps = 8)", " hint (warps = 16)",
        " hint (cluster = 2)", " hint (warps = 2, cluster = 4)", " hint (occupancy = 2)");
    body(x, cut);
    char clauses[80];
    snprintf(clauses, sizeof clauses, "    grid (M)%s\n{\n", hint);
    random_head(a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .functions = functions,
            .always = " X CNT ",
            .more = cut ? ", const int TB = auto" : NULL,
            .views = 15,
            .extremes = x->extremes },
        clauses);
    snprintf(out->sizes, sizeof out->sizes, "M=%d N=%d", m, n);
}
