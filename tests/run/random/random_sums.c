/* random_sums.c: random kernels around sums of whole tiles, in the forms that units of matrices take: see
 * random_kernel.h. Operands that are masked by loaded bools, joined of two tiles, gathered, turned, negated,
 * shared by two products, computed from narrower or wider numbers and words of several; products in branches
 * of the innermost loop; sums that change places, that bools mask, that become operands; bounds from memory
 * and from the program; recurrences along a row beside them; results as numbers, bools and parts of windows
 * that lie in one another; tensors that share memory. A fifth of them leave their sizes to the compiler,
 * which a condition restricts.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   L R   an operand [rows, deep], [deep, columns];  A: sums;  B: a tile of bools
 *   C     a condition;  W: the program's own window;  w: one in its own slice;  t: the elements' type
 *   m n k the extents;  d: the variable of the loop around;  D: a digit;  o: options of loads
 * Numbers are whole and small, and what is summed is clamped before it can grow: all sums are exact. */
#include "random_head.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "A", "M,K", "T", "int:2" },
    { "in", "D", "M,K", "T", "int:2" },
    { "in", "AT", "K,M", "T", "int:2" },
    { "in", "B", "K,N", "T", "int:2" },
    { "in", "C", "N,K", "T", "int:2" },
    { "in", "A8", "M,K", "i8", "int:2" },
    { "in", "A32", "M,K", "f32", "int:2" },
    { "in", "B8", "K,N", "i8", "int:2" },
    { "in", "C8", "N,K", "i8", "int:2" },
    { "in", "BE", "K,N", "f8e4m3", "int:2" },
    { "in", "B32", "K,N", "f32", "int:2" },
    { "in", "PAIR", "HALF,N", "u8", "" },
    { "in", "NEAR", "N,HALF", "u8", "" },
    { "in", "WORD", "EIGHTH,N", "u32", "index:4294967295" },
    { "in", "SCALE", "GROUPS,N", "f16", "int:2" },
    { "in", "ZERO", "N,GROUPS", "f16", "int:2" },
    { "in", "KEEP", "M,N", "bool", "normal" },
    { "in", "ROWS", "M", "bool", "normal" },
    { "in", "COLS", "N", "bool", "normal" },
    { "in", "DEEP", "K", "bool", "normal" },
    { "in", "X", "M,N", "f32", "int:9" },
    { "in", "V", "M,N", "f32", "int:9" },
    { "in", "BIAS", "N", "f32", "int:9" },
    { "in", "ID", "M", "i32", "index:M" },
    { "in", "CNT", "L", "i32", "int:3" },
    { "inout", "O", "M,N", "f32", "int:5" },
    { "inout", "I", "M,N", "i32", "int:5" },
    { "inout", "F", "M,N", "bool", "normal" },
    { "out", "Y", "M,N", "T", "" },
    { "inout", "P", "G,ZM,ZN", "f32", "int:5" },
    { "inout", "LINE", "G,N", "f32", "int:5" },
    { "inout", "ROW", "G,L", "f32", "int:5" },
    { "inout", "S", "N", "f32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

typedef struct Sums {
    Arranger *a;
    int n_sums, loops, depth, budget;
    char m[4], n[4], k[4];
    bool chosen;   /* sizes are the compiler's: nothing may depend on them */
    bool whole;    /* sums are of i32 */
    bool operand;  /* sums may be operands: there are as many columns as positions in a step */
    bool plain;    /* operands are loaded and nothing else */
    bool computed; /* right operands are computed, and some left ones */
    bool weights;  /* only they are, in the tiles and loops that wgmma takes */
    bool returns;
} Sums;

/* The first ones are as units of matrices take them from memory. The last ones have other elements in tiles
 * of other sizes: rows behind the last one are not zero, or a step's number says what is read. */
enum { PLAIN_LEFTS = 4, PLAIN_RIGHTS = 4, SIZED_LEFTS = 2, SIZED_RIGHTS = 3 };
static const char *const lefts[] = { "load(A[i*$m +: $m, $d*$k +: $k]$o)", "load(A[i*$m +: $m, $d*$k +: $k])",
    "load(D[i*$m +: $m, $d*$k +: $k]$o)", "transpose(load(AT[$d*$k +: $k, i*$m +: $m]))",
    "-load(A[i*$m +: $m, $d*$k +: $k])",
    "where(load(ROWS[i*$m +: $m])[:, None], load(A[i*$m +: $m, $d*$k +: $k]), cast(0, T))",
    "where(load(DEEP[$d*$k +: $k])[None, :], load(D[i*$m +: $m, $d*$k +: $k]), cast(0, T))",
    "concat(load(A[i*$m +: $m, $d*$k +: $k/2]), load(A[i*$m +: $m, $d*$k + $k/2 +: $k/2]), axis = 1)", "a",
    "a", "gather(A[id[:, None], ($d*$k + arange($k))[None, :]])",
    "load(A[i*$m + $D - 2 +: $m, $d*$k +: $k])" };
static const char *const rights[] = { "load(B[$d*$k +: $k, j*$n +: $n]$o)",
    "load(B[$d*$k +: $k, j*$n +: $n])", "transpose(load(C[j*$n +: $n, $d*$k +: $k]$o))",
    "load(C[j*$n +: $n, $d*$k +: $k], order = (1, 0))",
    "where(load(COLS[j*$n +: $n])[None, :], load(B[$d*$k +: $k, j*$n +: $n]), cast(0, T))",
    "where(load(DEEP[$d*$k +: $k])[:, None], load(B[$d*$k +: $k, j*$n +: $n]), cast(1, T))",
    "concat(load(B[$d*$k +: $k/2, j*$n +: $n]), load(B[$d*$k + $k/2 +: $k/2, j*$n +: $n]), axis = 0)", "b",
    "b" };
/* Computed from other types, with scales and zero points of groups of 16 positions. */
enum { LOADED_LEFTS = 3 };
static const char *const computed_lefts[] = { "load(A[i*$m +: $m, $d*$k +: $k]$o)",
    "load(A[i*$m +: $m, $d*$k +: $k])", "transpose(load(AT[$d*$k +: $k, i*$m +: $m]))",
    "(cast(load(A8[i*$m +: $m, $d*$k +: $k]$o), T))", "(cast(load(A32[i*$m +: $m, $d*$k +: $k]), T))" };
#define WORDS "gather(WORD[(($d*$k + arange($k)) / 8)[:, None], (j*$n + arange($n))[None, :]])"
#define SHIFT "u32(($d*$k + arange($k)) % 8 * 4)[:, None]"
static const char *const computed_rights[] = { "(cast(load(B8[$d*$k +: $k, j*$n +: $n]$o), T))",
    "transpose((cast(load(C8[j*$n +: $n, $d*$k +: $k]$o), T)))",
    "(cast(load(BE[$d*$k +: $k, j*$n +: $n]), T))", "(cast(load(B32[$d*$k +: $k, j*$n +: $n]$o), T))",
    "(cast(f32(load(C8[j*$n +: $n, $d*$k +: $k], order = (1, 0))), T))",
    "(cast(" WORDS " >> " SHIFT " & 3, T))",
    "(cast((f16(" WORDS " >> " SHIFT " & 15) - 8) * gather(SCALE[(($d*$k + arange($k)) / 16)[:, None], "
    "(j*$n + arange($n))[None, :]]), T))",
    "reshape(concat((cast(load(PAIR[$d*($k/2) +: $k/2, j*$n +: $n]) & 3, T))[:, None, :], "
    "(cast(load(PAIR[$d*($k/2) +: $k/2, j*$n +: $n]) >> 5, T))[:, None, :], axis = 1), [$k, $n])",
    "transpose(reshape(concat((cast(load(NEAR[j*$n +: $n, $d*($k/2) +: $k/2]) & 3, T))[:, :, None], "
    "(cast(load(NEAR[j*$n +: $n, $d*($k/2) +: $k/2]) >> 5, T))[:, :, None], axis = 2), [$n, $k]))",
    "(cast(f16(load(B8[$d*$k +: $k, j*$n +: $n])) * load(SCALE[$d*$k/16, j*$n +: $n])[None, :], T))",
    "(cast(transpose(f16(load(C8[j*$n +: $n, $d*$k +: $k])) - load(ZERO[j*$n +: $n, $d])[:, None]), T))",
    "concat((cast(load(PAIR[$d*($k/2) +: $k/2, j*$n +: $n]) & 3, T)), "
    "(cast(load(PAIR[$d*($k/2) +: $k/2, j*$n +: $n]) >> 5, T)), axis = 0)" };
static const char *const bools[] = { "load(KEEP[$W])", "load(KEEP[$W])", "load(F[$W])",
    "load(ROWS[i*$m +: $m])[:, None]", "load(COLS[j*$n +: $n])[None, :]",
    "(load(KEEP[$W]) && load(COLS[j*$n +: $n])[None, :])", "(load(KEEP[$W]) == load(F[$W]))", "($A > $D)",
    "(load(KEEP[$W]) || $A < 0)" };
static const char *const conditions[] = { "$d % 2 == 0", "$d != $D", "load(CNT[(i + $d) % L]) > 0",
    "load(DEEP[$d])", "any(load(DEEP[$d*$k +: $k]), drop = true)", "(i + j + $d) % 3 != 1",
    "load(CNT[$d % L]) == $D - 1" };
static const char *const bounds[] = { "0 .. cdiv(K, $k)", "0 .. cdiv(K, $k)", "0 .. cdiv(K, $k)",
    "0 .. min(index(load(CNT[i % L])), cdiv(K, $k))", "index(load(CNT[j % L])) .. cdiv(K, $k)",
    "0 .. min(i + 1, cdiv(K, $k))", "i % 2 .. cdiv(K, $k)", "0 .. cdiv(K, $k) : 2", "0 .. 0", "0 .. 1" };

#define COUNT(all) ((int)(sizeof(all) / sizeof *(all)))
#define AMONG_TEXTS(a, all) ((all)[below(a, COUNT(all))])

static const char *left(const Sums *x)
{
    if (x->weights) return computed_lefts[below(x->a, LOADED_LEFTS)];
    if (x->computed) return AMONG_TEXTS(x->a, computed_lefts);
    if (x->plain) return lefts[below(x->a, PLAIN_LEFTS)];
    return lefts[below(x->a, COUNT(lefts) - (x->chosen ? SIZED_LEFTS : 0))];
}

static const char *right(const Sums *x)
{
    if (x->computed)
        return computed_rights[below(x->a, COUNT(computed_rights) - (x->chosen ? SIZED_RIGHTS : 0))];
    return x->plain ? rights[below(x->a, PLAIN_RIGHTS)] : AMONG_TEXTS(x->a, rights);
}

static const char *part(void *user, char name, char *out, size_t size)
{
    Sums *x = user;
    Arranger *a = x->a;
    switch (name) {
    case 'L': return left(x);
    case 'R': return right(x);
    case 'B': return AMONG_TEXTS(a, bools);
    case 'C': return AMONG_TEXTS(a, conditions);
    case 'W': return "i*$m +: $m, j*$n +: $n";
    case 'w': return "w, $D - 1 +: $m, 2*$D +: $n";
    case 'A': snprintf(out, size, "s%d", below(a, x->n_sums)); break;
    case 'D': snprintf(out, size, "%d", below(a, 4)); break;
    case 'd': snprintf(out, size, x->loops ? "k%d" : "i", x->loops - 1); break;
    case 'm': snprintf(out, size, "%s", x->m); break;
    case 'n': snprintf(out, size, "%s", x->n); break;
    case 'k': snprintf(out, size, "%s", x->k); break;
    case 'z': snprintf(out, size, "%s", x->whole ? "i32" : "f32"); break;
    default: snprintf(out, size, "%s", CHOOSE(a, "", "", ", latency = 3", ", latency = 2"));
    }
    return NULL;
}

static void expand(Sums *x, const char *template, char *out, size_t size)
{ arrange_expand(template, part, x, out, size); }

static void statement(Sums *x, const char *template)
{
    char text[1000];
    expand(x, template, text, sizeof text);
    arrange_line(x->a, "%s", text);
}

/* --- statements of a step --- */

/* Operands of several products of a step: a and b, or one that all share. */
static void operands(Sums *x)
{
    static const char *const a[] = { "let a = load(A[i*$m +: $m, $d*$k +: $k]$o);",
        "let a = where(load(ROWS[i*$m +: $m])[:, None], load(A[i*$m +: $m, $d*$k +: $k]), cast(0, T));",
        "let a = transpose(load(AT[$d*$k +: $k, i*$m +: $m]));" };
    static const char *const b[] = { "let b = load(B[$d*$k +: $k, j*$n +: $n]$o);",
        "let b = transpose(load(C[j*$n +: $n, $d*$k +: $k]));",
        "let b = where(load(COLS[j*$n +: $n])[None, :], load(B[$d*$k +: $k, j*$n +: $n]), cast(0, T));" };
    if (x->plain) return;
    statement(x, AMONG_TEXTS(x->a, a));
    statement(x, AMONG_TEXTS(x->a, b));
}

static void product(Sums *x)
{
    char text[1000];
    const int s = below(x->a, x->n_sums), from = x->chosen || chance(x->a, 85) ? s : below(x->a, x->n_sums);
    expand(x, "mma($L, $R", text, sizeof text);
    const char *precision = x->a->type == F32 && chance(x->a, 60) ? ", precision = tf32" : "";
    arrange_line(x->a, "s%d = %s, s%d%s);", s, text, from, precision);
}

static void in_branch(Sums *x)
{
    statement(x, "if $C {");
    x->a->indent++;
    product(x);
    if (chance(x->a, 30)) product(x);
    x->a->indent--;
    if (chance(x->a, 40)) {
        arrange_line(x->a, "} else {");
        x->a->indent++;
        if (chance(x->a, 60)) product(x);
        else statement(x, "$A = $A - 1;");
        x->a->indent--;
    }
    arrange_line(x->a, "}");
}

static void beside(Sums *x)
{
    static const char *const all[] = { "$A = where($B, $A, 0);", "$A = where($B, $A, $A + 1);",
        "(s0, s1) = (s1, s0);", "$A = clamp($A, -64, 64);", "store(P[$w], f32(clamp($A, -64, 64)));",
        "store(O[$W], f32(clamp($A, -64, 64)));", "store(F[$W], $B);",
        "$A = $A + $z(load(BIAS[j*$n +: $n]))[None, :];", "$A = $A + $z(load(X[$W]));",
        "$A = $A - $z(load(P[$w]));", "store(ROW[w, $d], f32(max(clamp($A, -9, 9), drop = true)));" };
    const char *one = AMONG_TEXTS(x->a, all);
    if (strstr(one, "s1") && x->n_sums < 2) return;
    statement(x, one);
    if (strstr(one, "+ $z") || strstr(one, "- $z")) statement(x, "$A = clamp($A, -64, 64);");
}

static void step(Sums *x)
{
    operands(x);
    for (int n = 1 + below(x->a, 3); n > 0; n--)
        if (x->chosen || x->weights || chance(x->a, 55)) product(x);
        else if (chance(x->a, 55)) in_branch(x);
        else beside(x);
    if (x->returns && !x->chosen && chance(x->a, 15)) statement(x, "if $C { return; }");
}

/* --- statements of the kernel --- */

static void loop(Sums *x)
{
    char bound[200];
    expand(x, x->chosen || x->weights ? bounds[0] : AMONG_TEXTS(x->a, bounds), bound, sizeof bound);
    const bool around = !x->chosen && !x->weights && chance(x->a, 15);
    if (around) {
        arrange_line(x->a, "for q in 0 .. %s {", CHOOSE(x->a, "2", "index(load(CNT[j % L]))", "3 - i % 3"));
        x->a->indent++;
    }
    arrange_line(
        x->a, "for k%d in %s%s {", x->loops++, bound, CHOOSE(x->a, "", "", "", " hint (unroll = 2)"));
    x->a->indent++;
    step(x);
    x->a->indent--;
    x->loops--;
    arrange_line(x->a, "}");
    if (!around) return;
    statement(x, "$A = clamp($A, -64, 64);");
    x->a->indent--;
    arrange_line(x->a, "}");
}

/* A recurrence along a row, whose steps wait for each other. */
static void recurrence(Sums *x)
{
    Arranger *a = x->a;
    const int name = a->names++, width = ONE_OF(a, 8, 32, 64, 100, 128, 256);
    const char *mask = CHOOSE(a, "", "where(load(COLS[at +: %d]), ", "where(load(KEEP[w %% M, at +: %d]), ");
    char masked[60];
    snprintf(masked, sizeof masked, mask, width);
    arrange_line(a, "var r%d = zeros([%d], f32);", name, width);
    arrange_line(a, "for e in %s {",
        CHOOSE(a, "0 .. cdiv(N, 64)", "0 .. 5", "1 .. index(load(CNT[0])) + 2", "0 .. 0", "-1 .. 4",
            "0 .. 9 : 2"));
    arrange_line(a, "    let at = %s;", CHOOSE(a, "e*64", "e*32 - 5", "N - 64*(e + 1)", "e*e*16", "e"));
    arrange_line(a, "    let y = load(X[w %% M, at +: %d]) + load(BIAS[at +: %d]);", width, width);
    arrange_line(a, "    r%d = clamp(r%d + %sy%s - floor(sum(r%d) / 64.0), -99.0, 99.0);", name, name, masked,
        *masked ? ", 1.0)" : "", name);
    if (chance(a, 50))
        arrange_line(a, "    store(LINE[w, at +: %d], r%d + shift(r%d, 1, axis = 0));", width, name, name);
    if (chance(a, 40))
        arrange_line(a, "    store(ROW[w, e], max(cumsum(r%d, axis = 0), drop = true));", name);
    arrange_line(a, "}");
    arrange_line(a, "store(LINE[w, %d +: %d], r%d);", below(a, 9), width, name);
}

static void between(Sums *x)
{
    static const char *const all[] = { "$A = where($B, $A, 0);", "$A = where($B, 1, $A);",
        "$A = $A - max($A, axis = 1);", "$A = $A + sum($A, axis = 0);", "store(P[$w], f32($A));",
        "store(P[$w], f32(where($B, $A, 2)));", "(s0, s1) = (s1, s0);", "store(F[$W], $B);",
        "store(Y[$W], cast(clamp($A, 0, 4), T));", "store(I[$W], i32($A));" };
    const char *one = AMONG_TEXTS(x->a, all);
    if (strstr(one, "s1") && x->n_sums < 2) return;
    if (chance(x->a, 50)) statement(x, "s0 = clamp(s0, -64, 64);");
    if (x->n_sums > 1) statement(x, "s1 = clamp(s1, -64, 64);");
    statement(x, one);
    statement(x, "s0 = clamp(s0, -64, 64);");
    if (x->n_sums > 1) statement(x, "s1 = clamp(s1, -64, 64);");
}

/* A result becomes an operand. */
static void chained(Sums *x)
{
    char p[16];
    fresh_name(x->a, "p", p, sizeof p);
    arrange_line(x->a, "let %s = (cast(clamp(s%d, -2, 2), T));", p, below(x->a, x->n_sums));
    char by[900];
    expand(x, right(x), by, sizeof by);
    if (strlen(by) == 1) return; /* b of a step */
    arrange_line(x->a, "s0 = clamp(mma(%s, %s, %s), -64, 64);", p, by, CHOOSE(x->a, "s0", "s0", "-s0"));
}

static void ends(Sums *x)
{
    static const char *const all[] = { "store(O[$W], f32($A));", "store(I[$W], i32($A));",
        "store(Y[$W], cast(clamp($A, 0, 4), T));", "store(F[$W], $A > $D);",
        "store(O[$W], f32(where(load(KEEP[$W]), $A, -1)));",
        "atomic_add(S[j*$n +: $n], f32(sum(clamp($A, -9, 9), axis = 0, drop = true)));",
        "store(I[$W], i32(load(F[$W])) + i32($A));", "atomic_add(O[$W], f32($A));" };
    for (int n = 1 + below(x->a, 2); n > 0; n--) statement(x, AMONG_TEXTS(x->a, all));
    arrange_line(x->a, "store(O[i*%s +: %s, j*%s +: %s], f32(s0));", x->m, x->m, x->n, x->n);
}

static void body(Sums *x)
{
    Arranger *a = x->a;
    arrange_line(a, "let id = load(ID[i*%s +: %s]);", x->m, x->m);
    for (int k = 0; k < x->n_sums; k++)
        statement(x, k ? "var s1 = zeros([$m, $n], $z);" : "var s0 = zeros([$m, $n], $z);");
    if (!x->chosen && chance(a, 25)) recurrence(x);
    loop(x);
    while (!x->chosen && --x->budget > 0) switch (below(a, 6)) {
        case 0: recurrence(x); break;
        case 1: loop(x); break;
        case 2:
            if (x->operand) chained(x);
            break;
        default: between(x);
        }
    ends(x);
}

/* --- the whole --- */

static void draw(Sums *x)
{
    Arranger *a = x->a;
    a->type = (Elem)ONE_OF(a, F16, F16, BF16, BF16, E4M3, I8, x->plain ? F16 : F32);
    x->plain = chance(a, 60);
    x->computed = chance(a, 35);
    x->weights = x->computed && a->type != F32 && chance(a, 60);
    x->chosen = chance(a, 20);
    x->whole = a->type == I8;
    x->n_sums = 1 + chance(a, 40);
    x->budget = below(a, 5);
    x->returns = chance(a, 25);
    const int tn = x->weights ? ONE_OF(a, 64, 128) : ONE_OF(a, 16, 32, 64, 64, 128, 24),
              tk = x->weights ? ONE_OF(a, 32, 64) : ONE_OF(a, 16, 32, 32, 64, 64);
    x->operand = tn == tk;
    snprintf(x->m, sizeof x->m, "%s", x->chosen ? "TM" : CHOOSE(a, "64", "64", "64", "128", "32", "48"));
    if (x->chosen) strcpy(x->n, "TN"), strcpy(x->k, "TK"), x->operand = false;
    else snprintf(x->n, sizeof x->n, "%d", tn), snprintf(x->k, sizeof x->k, "%d", tk);
}

static const char *hints(Sums *x)
{
    return CHOOSE(x->a, "", "", "", "", " hint (stream_k = 2)", " hint (stream_k = 4)", " hint (split_k = 2)",
        " hint (persistent = 1)", " hint (persistent = 0)", " hint (cluster = 2)",
        " hint (cluster = 2, cluster_axis = 1)", " hint (cluster = 2, stream_k = 2)", " hint (pingpong = 1)",
        " hint (warps = 8)", " hint (warps = 4)", " hint (warps = 12)", " hint (stages = 2)",
        " hint (warp_specialize = 0)", " hint (cp_async_producer = 1)", " hint (occupancy = 2)",
        " raster (group = 2)", " hint (persistent = 1, pingpong = 1)");
}

/* Programs of one tile each, or walkers over tiles. */
static void grid(Sums *x, char *out, size_t size)
{
    Arranger *a = x->a;
    const bool walk = !x->chosen && chance(a, 20);
    const char *h = hints(x);
    if (walk && !strncmp(h, " raster", 7)) h = "";
    snprintf(out, size, walk ? "    grid (2)%s\n{\n" : "    grid (cdiv(N, %s), cdiv(M, %s))%s\n{\n",
        walk ? h : x->n, x->m, h);
    a->indent = 1;
    if (walk) {
        arrange_line(a, "for t in program_id() .. cdiv(M, %s)*cdiv(N, %s) : 2 {", x->m, x->n);
        a->indent = 2;
        arrange_line(a, "let (i, j, w) = (t / cdiv(N, %s), t %% cdiv(N, %s), t);", x->n, x->n);
    } else {
        arrange_line(a, "let (j, i) = program_id();");
        arrange_line(a, "let w = i*cdiv(N, %s) + j;", x->n);
    }
}

static void sizes(Sums *x)
{
    Arranger *a = x->a;
    const int tm = x->chosen ? 64 : atoi(x->m), tn = x->chosen ? 64 : atoi(x->n),
              tk = x->chosen ? 32 : atoi(x->k);
    const bool ragged = chance(a, 40), aligned = x->plain || chance(a, 60);
    int m = tm * (1 + below(a, 2)) - ragged * below(a, tm),
        n = tn * (1 + below(a, 3)) - ragged * below(a, tn),
        k = tk * (1 + below(a, 4)) - ragged * below(a, tk);
    if (aligned) n = (n + 15) & ~15, k = (k + 15) & ~15; /* rows that TMA takes */
    snprintf(a->k->sizes, sizeof a->k->sizes,
        "M=%d N=%d K=%d L=%d ZM=%d ZN=%d G=%d HALF=%d EIGHTH=%d GROUPS=%d", m, n, k, 1 + below(a, 5), tm + 2,
        tn + 3, ((m + tm - 1) / tm) * ((n + tn - 1) / tn), (k + 1) / 2, (k + 7) / 8, (k + 15) / 16);
}

void random_sums(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 9 + 4 } }, *a = &arranger;
    Sums sums = { .a = a }, *x = &sums;
    char clauses[160];
    draw(x);
    grid(x, clauses, sizeof clauses);
    body(x);
    while (a->indent > 0) {
        a->indent--;
        arrange_line(a, "}");
    }
    if (x->chosen)
        arrange_line(a, "tune random { require (TM*TN <= %s && TK %s); }", CHOOSE(a, "4096", "8192", "2048"),
            CHOOSE(a, "<= 64", "!= 32", ">= 32", "< TM"));
    random_head(a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .always = " A X CNT ID O DEEP P ",
            .more = x->chosen ? ", const int TM = auto, const int TN = auto, const int TK = auto" : NULL,
            .views = 10 },
        clauses);
    sizes(x);
}
