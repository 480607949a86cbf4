/* random_columns.c: random kernels around integer products of few columns whose sums leave the program
 * transposed: see random_kernel.h. The CPU exchanges the operands of such products and transposes all that
 * their sums become (backends/cpu/product/few_columns.c). Sums start at windows, at other sums or at zero;
 * loops carry several of them; scales lie along the rows, along the columns or are single numbers; windows of
 * either order meet the sums. In some kernels a tile leaves the sums as it is, by a reduction, a store or a
 * branch, so that nothing may be transposed.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   D G       a tile of sums of i32, of f32;  X: one of i32 that lies as the output does
 *   P W A I   a product, its operands, and what its sums begin with
 *   S H M     a scale of i32, of f32; a mask;  R: the program's window of an output;  V: that of its
 * transpose N         a digit Integers wrap. Floats are whole and clamped, so that all results are exact. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "W", "N,G,D", "T", "bits" },
    { "in", "WT", "G,D,N", "i8", "bits" },
    { "in", "A", "M,G,D", "i8", "bits" },
    { "in", "AT", "G,D,M", "u8", "bits" },
    { "in", "SN", "G,N", "i32", "int:5" },
    { "in", "SM", "M,G", "i32", "int:5" },
    { "in", "FN", "G,N", "f32", "int:3" },
    { "in", "FM", "M,G", "f32", "int:3" },
    { "in", "IN", "M,N", "i32", "int:99" },
    { "in", "INT", "N,M", "i32", "int:99" },
    { "in", "REAL", "M,N", "f32", "int:9" },
    { "in", "CNT", "L", "i32", "int:5" },
    { "inout", "OUT", "M,N", "i32", "int:5" },
    { "inout", "SUM", "M,N", "f32", "int:5" },
    { "inout", "TURNED", "N,M", "i32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { D, G, KINDS };

typedef struct Columns {
    Arranger *a;
    int n[KINDS]; /* variables: d0, d1 ...; g0 ... */
    int depth;
    bool leaves; /* whether a tile may leave the sums as it is */
} Columns;

static const char *const turned[KINDS][16] = {
    { "$P", "$P", "$P", "$D + $D * $S", "$D * $S", "min($D, $D)", "where($M, $D, $D)", "transpose($X)",
        "load(INT[$V])", "$D ^ $D", "abs($D)", "i32($G)", "$S + zeros([TN, TM], i32)", "$D - load(INT[$V])",
        "full([TN, TM], $N, i32)", "$S * $D + $D" },
    { "f32($D & 255)", "$H * f32(clamp($D, -300, 300)) + $G", "$G + $G * $H", "$G * $H", "max($G, $G)",
        "where($M, $G, $G)", "transpose(load(REAL[$R]))", "-$G", "$H + zeros([TN, TM], f32)",
        "f32($D >> 24) * $H", "$G - f32($D & 15)", "fma($G, $H, $G)" },
};
/* What none of the above is: other tiles than the sums and what lies as they do. */
static const char *const leaving[KINDS][4] = {
    { "$D + sum($D, axis = 1)", "max($D, axis = 0) - $D", "cumsum($D, axis = 1)",
        "reshape(reshape($D, [TM * TN]), [TN, TM])" },
    { "$G + max($G, axis = 1)", "$G - min($G, axis = 0)", "where(any($M, axis = 1), $G, 2.0)",
        "f32(transpose(reshape($D, [TM, TN])) & 31)" },
};
static const char *const ends[] = { "store(OUT[$R], transpose($D));", "store(SUM[$R], transpose($G));",
    "store(OUT[$R], transpose($D) + $X);", "store(SUM[$R], transpose($G) - load(REAL[$R]));",
    "store(OUT[$R], transpose(where($M, $D, $D)));" };
static const char *const leaving_ends[] = { "store(TURNED[$V], $D);",
    "store(OUT[at +: TM, to +: 1], transpose(sum($D, axis = 0)));",
    "store(SUM[at +: 1, to +: TN], transpose(max($G, axis = 1)));", "if i == 1 { d0 = d0 + $D; }" };

static const char *part(void *user, char name, char *out, size_t size)
{
    Columns *x = user;
    Arranger *a = x->a;
    switch (name) {
    case 'D': snprintf(out, size, "d%d", below(a, x->n[D])); return NULL;
    case 'G': snprintf(out, size, "g%d", below(a, x->n[G])); return NULL;
    case 'N': snprintf(out, size, "%d", below(a, 9)); return NULL;
    case 'P': return CHOOSE(a, "mma($W, $A, $I)", "mma($W, $A, $I)", "mma($W, $A)");
    case 'W':
        return CHOOSE(a, "w", "w & 15", "w >> 4", "(w & 127)", "load(W[to +: TN, k, 0 +: TK])",
            "transpose(load(WT[k, 0 +: TK, to +: TN]))", "transpose(v)");
    case 'A':
        return CHOOSE(a, "transpose(a)", "transpose(a)", "transpose(load(A[at +: TM, k, 0 +: TK]))",
            "load(AT[k, 0 +: TK, at +: TM])", "transpose(a & 15)", "transpose(-a)");
    case 'I':
        return CHOOSE(
            a, "zeros([TN, TM], i32)", "$D", "$D", "load(INT[$V])", "transpose(load(IN[$R]))", "mma($W, $A)");
    case 'X':
        return CHOOSE(a, "load(IN[$R])", "transpose($D)", "(load(IN[$R]) + transpose($D))", "min(turn, $N)");
    case 'S':
        return CHOOSE(a, "load(SN[k, to +: TN])[:, None]", "load(SM[at +: TM, k])[None, :]", "$N", "i32(k)",
            "(load(SN[k, to +: TN])[:, None] - load(SM[at +: TM, k])[None, :])", "load(CNT[0])");
    case 'H':
        return CHOOSE(a, "load(FN[k, to +: TN])[:, None]", "load(FM[at +: TM, k])[None, :]", "2.0", "f32(k)",
            "(load(FN[k, to +: TN])[:, None] * load(FM[at +: TM, k])[None, :])");
    case 'M': return CHOOSE(a, "$D > $S", "$G >= $H", "$D == $D", "$D % 3 == $N", "!($G < 0.0)");
    case 'R': return "at +: TM, to +: TN";
    default: return "to +: TN, at +: TM";
    }
}

static void write_line(Columns *x, const char *template)
{
    char e[1200];
    arrange_expand(template, part, x, e, sizeof e);
    arrange_line(x->a, "%s", e);
}

static void let(Columns *x, int kind)
{
    Arranger *a = x->a;
    char e[1200];
    int count = 0;
    while (count < 16 && turned[kind][count]) count++;
    arrange_expand(x->leaves && chance(a, 12) ? leaving[kind][below(a, 4)] : turned[kind][below(a, count)],
        part, x, e, sizeof e);
    const bool fresh = x->n[kind] < 8 && chance(a, x->depth ? 40 : 80);
    const int to = fresh ? x->n[kind]++ : below(a, x->n[kind]);
    if (kind == G) arrange_line(a, "%sg%d = clamp(%s, -4096.0, 4096.0);", fresh ? "var " : "", to, e);
    else arrange_line(a, "%sd%d = %s;", fresh ? "var " : "", to, e);
}

static void statements(Columns *x, int n)
{
    for (; n > 0; n--) {
        if (chance(x->a, 8)) write_line(x, ends[below(x->a, (int)(sizeof ends / sizeof *ends))]);
        else let(x, chance(x->a, 60) ? D : G);
    }
}

/* What products read in this step, under names that hide those of the step around it. */
static void windows(Arranger *a)
{
    arrange_line(
        a, "let w = load(W[to +: TN, k, 0 +: TK]%s);", CHOOSE(a, "", ", latency = 2", ", latency = 3"));
    arrange_line(a, "let v = load(WT[k, 0 +: TK, to +: TN]);");
    arrange_line(a, "let a = load(A[at +: TM, k, 0 +: TK]%s);", CHOOSE(a, "", ", latency = 2"));
}

static void loop(Columns *x, int more)
{
    Arranger *a = x->a;
    int n[KINDS];
    memcpy(n, x->n, sizeof n);
    arrange_line(a, "for k in %s {",
        CHOOSE(a, "0 .. G", "0 .. G", "0 .. G", "0 .. min(G, 2)", "0 .. index(load(CNT[i % L]))", "1 .. G",
            "0 .. G : 2", "0 .. G + 1"));
    a->indent++;
    x->depth++;
    windows(a);
    write_line(x, CHOOSE(a, "d0 = $P;", "d0 = d0 + $P * $S;", "let s = $P; d0 = s * $S + d0;",
                      "d0 = mma($W, $A, d0);"));
    statements(x, 1 + below(a, 6));
    if (more > 0 && chance(a, 25)) loop(x, more - 1);
    x->depth--;
    a->indent--;
    arrange_line(a, "}");
    memcpy(x->n, n, sizeof n);
}

static void body(Columns *x, int tm, int tn, int tk)
{
    Arranger *a = x->a;
    a->indent = 1;
    arrange_line(a, "const int TM = %d;", tm);
    arrange_line(a, "const int TN = %d;", tn);
    arrange_line(a, "const int TK = %d;", tk);
    arrange_line(a, "let (i, j) = program_id();");
    arrange_line(a, "let at = i*TM;");
    arrange_line(a, "let to = j*TN;");
    arrange_line(a, "let k = %s;", CHOOSE(a, "0", "i", "-1"));
    arrange_line(a, "let turn = load(IN[at +: TM, to +: TN]);");
    arrange_line(a, "var d0 = %s;",
        CHOOSE(a, "zeros([TN, TM], i32)", "zeros([TN, TM], i32)", "transpose(turn)",
            "load(INT[to +: TN, at +: TM])"));
    arrange_line(a, "var g0 = %s;",
        CHOOSE(a, "zeros([TN, TM], f32)", "f32(d0)", "transpose(load(REAL[at +: TM, to +: TN]))"));
    windows(a);
    x->n[D] = x->n[G] = 1;
    statements(x, below(a, 3));
    for (int n = 1 + chance(a, 25); n > 0; n--) loop(x, 1);
    x->depth = 0;
    write_line(x, "store(OUT[$R], transpose(d0));");
    for (int n = below(a, 3); n > 0; n--) write_line(x, ends[below(a, (int)(sizeof ends / sizeof *ends))]);
    if (x->leaves && chance(a, 50)) write_line(x, leaving_ends[below(a, 4)]);
    a->indent = 0;
    arrange_line(a, "}");
}

void random_columns(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 17 + 5 } }, *a = &arranger;
    Columns columns = { .a = a }, *x = &columns;
    a->type = (Elem)ONE_OF(a, U8, U8, I8);
    x->leaves = chance(a, 30);
    const int tm = ONE_OF(a, 1, 2, 2, 3, 4, 4, 5, 8, 8, 16, 16, 17),
              tn = ONE_OF(a, 8, 16, 16, 24, 32, 40, 64, 12), tk = ONE_OF(a, 8, 16, 32, 32, 64, 64, 7);
    const bool ragged = chance(a, 50);
    const int m = tm * (1 + below(a, 3)) - (ragged ? below(a, tm) : 0),
              n = tn * (1 + below(a, 3)) - (ragged ? below(a, tn) : 0);
    body(x, tm, tn, tk);
    char clauses[80];
    snprintf(clauses, sizeof clauses, "    grid (cdiv(M, %d), cdiv(N, %d))\n{\n", tm, tn);
    random_head(a,
        &(RandomHead){ .tensors = tensors, .count = TENSORS, .always = " W IN OUT CNT ", .views = 15 },
        clauses);
    snprintf(
        out->sizes, sizeof out->sizes, "M=%d N=%d G=%d D=%d L=%d", m, n, below(a, 5), tk, 1 + below(a, 3));
}
