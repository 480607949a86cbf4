/* random_mixture.c: random kernels that mix what a language has: see random_kernel.h. Programs whose places
 * are quotients and remainders, functions that return early, loops that run no time or as often as memory
 * says, masks that are loaded, types of every width, old values of atomics, scans, sorts, ties, scatters.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   F Q M R C   a tile [TM, TN] of f32, i32, bool; a column [TM, 1] and a row [1, TN] of f32
 *   S D A       a scalar that all threads know, a digit, an axis
 *   U           the program's own window, moved by a few elements;
 *   O W P       the program's own window, a window anywhere, the first element of the own window
 *   m n t       TM, TN, the tile's elements;  p: an option of loads;  o: an option of scans
 * Numbers are whole and small, so that all sums are exact; whole numbers of 32 bits may wrap. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "f32", "int:7" },
    { "in", "Y", "M,N", "T", "int:3" },
    { "in", "Z", "N,M", "T", "int:3" },
    { "in", "Q", "M,N", "i32", "int:100" },
    { "in", "LONG", "M,N", "i64", "int:50" },
    { "in", "MASK", "M,N", "i8", "int:1" },
    { "in", "BYTE", "M,N", "u8", "int:9" },
    { "in", "ROW", "N", "f16", "int:4" },
    { "in", "TABLE", "V,N", "f32", "int:7" },
    { "in", "ID", "M", "i32", "index:V" },
    { "in", "JD", "N", "i32", "index:N" },
    { "in", "CNT", "L", "i32", "int:4" },
    { "in", "ONE", "", "i32", "int:4" },
    { "inout", "O", "M,N", "f32", "int:5" },
    { "inout", "I", "M,N", "i32", "int:5" },
    { "inout", "D", "M,N", "i64", "int:5" },
    { "inout", "E", "M,N", "T", "int:2" },
    { "inout", "G", "M,N", "bf16", "int:5" },
    { "inout", "R", "M,GN", "f32", "int:5" },
    { "inout", "C", "GM,N", "f32", "int:5" },
    { "inout", "CELL", "M,N", "i32", "int:5" },
    { "inout", "H", "V", "i32", "int:5" },
    { "inout", "BITS", "V", "i32", "int:5" },
    { "inout", "MOST", "N", "f32", "int:5" },
    { "inout", "SUMS", "N", "f32", "int:5" },
    { "inout", "LAST", "", "f32", "int:5" },
    { "in", "REAL", "M,GN", "f32", "unit" },
    { "inout", "TURN", "M", "f32", "unit" },
    { "inout", "ORDER", "GM,GN", "i32", "int:0" },
    { "out", "WIDE", "M,N", "f32", "" },
    { "out", "TURNED", "N,M", "T", "" },
    { "out", "THIN", "M,N", "i8", "" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { FLOATS, INTS, BOOLS, COLUMNS, ROWS_OF, KINDS };
static const char letters[KINDS + 1] = "fqmrc";

typedef struct Mix {
    Arranger *a;
    int tm, tn, depth, loops, budget, n[KINDS];
    bool returns, whole, extremes; /* rows are whole: N is TN, and a key; inputs hold NaN and infinities */
    bool ordered;                  /* the programs of a row of tiles add to a column in their order */
} Mix;

static const char *const made[KINDS][32] = {
    { "load(X[$W]$p)", "f32(load(Y[$W]))", "f32(transpose(load(Z[j*$n +: $n, i*$m +: $m])))",
        "f32(load(LONG[$W]) % 9)", "f32(load(BYTE[$W]))", "f32(load(Q[$W]) % 7)", "load(O[$O])",
        "f32(load(G[$O]))", "gather(TABLE[id[:, None], col]$g)", "gather(X[row, jd[None, :]]$g)",
        "gather(X[($S + arange($m))[:, None], col % max(N, 1)]$g)", "where($M, $F, $F)", "$F + $R", "$C - $F",
        "$F * $C", "$F + $F", "-$F", "max($F, $F)", "lean($F, $S)", "twice($F, clamp($S, -1, 3))",
        "both($F, $F)[$B]", "cumsum($F, axis = $A$o)", "cummax($F, axis = $A$o)", "sort($F$d)", "f32($Q % 9)",
        "shift($F, $D - 2, axis = $A, fill = 1.0)", "f32(f16($F)) + f32(bf16($F)) - f32(f8e4m3($F))",
        "f32($M)", "deep($F, $S)", "seek($F, clamp($S, -1, 3))", "$F - f32(load(ONE[]))" },
    { "load(Q[$W])", "load(I[$O])", "i32(load(LONG[$W]))", "i32(load(MASK[$W]))", "i32(load(BYTE[$W])) << $D",
        "i32($F)", "$Q + $Q", "$Q * $Q", "$Q / ($Q | 1)", "$Q % $Q", "$Q ^ $Q", "$Q >> $D",
        "where($M, $Q, $Q)", "argmax($F, axis = $A) + $Q", "argmin($Q % 4, axis = $A) - $Q",
        "cumsum($Q, axis = $A$o)", "cumprod($Q, axis = $A$o)", "sort($Q$d)",
        "reduce($Q, axis = $A, combine = mix) + $Q", "scan(($Q, $Q), axis = $A, combine = then$o)[$B]",
        "i32(row) - i32(col) * $D", "popcount($Q) + clz($Q)", "i32(i64($Q) * i64($Q) >> 5)",
        "i32(u8($Q)) - i32(i8($Q))", "max($Q, axis = $A) - $Q",
        "reshape(transpose(reshape($Q, [$n, $m])), [$m, $n])", "sum($Q, axis = (0, 1)) + $Q",
        "i32(u32($Q) / u32(7))", "$Q - atomic_add(CELL[$P], i32($S))", "where($M, load(ONE[]), $Q)" },
    { "load(MASK[$W]) > 0", "$F > $F", "$Q < $Q", "row >= col", "col < N && row < M", "$M && $M", "!$M || $M",
        "$M ^ $M", "any($M, axis = $A) && $M", "all($M, axis = $A) || $M", "(row + col) % 3 == $D",
        "load(BYTE[$W]) == load(BYTE[$O])", "$Q == $D", "load(LONG[$O]) >= i64($D)" },
    { "max($F, axis = 1)", "sum($F, axis = 1)", "f32(argmax($F, axis = 1))", "min($F, axis = 1)",
        "f32(id)[:, None]", "load(X[i*$m +: $m, $S])[:, None]", "sum(where($M, $F, 0.0), axis = 1)",
        "f32(all($M, axis = 1))", "max(mma(f16($F), transpose(f16($F))), axis = 1)",
        "min(mma(bf16($F), transpose(bf16($F))), axis = 1)",
        "f32(sum(mma(i8($Q), transpose(u8($Q))) % 9, axis = 1))" },
    { "max($F, axis = 0)", "sum($F, axis = 0)", "f32(argmin($F, axis = 0))",
        "f32(load(ROW[j*$n +: $n]))[None, :]", "gather(TABLE[$S, col])", "load(X[$S, j*$n +: $n])[None, :]",
        "f32(sum($Q % 5, axis = 0))" },
};

static const char *const ends[] = { "store(O[$O], $F);", "store(O[$O], $F);", "store(I[$O], $Q);",
    "store(I[$O], $Q);", "store(D[$O], i64($Q) * 3);", "store(E[$O], cast(clamp($F, 0.0, 4.0), T));",
    "store(G[$O], bf16($F));", "store(R[i*$m +: $m, j], sum($F, axis = 1, drop = true));",
    "store(C[i, j*$n +: $n], max($F, axis = 0, drop = true));", "scatter(I[row, col], $Q, mask = $M);",
    "scatter(O[row, col], $F);", "atomic_add(CELL[$O], $Q);",
    "atomic_add(H[id], i32(1), mask = id > $D - 2);", "atomic_max(MOST[jd], max($F, axis = 0, drop = true));",
    "atomic_add(SUMS[j*$n +: $n], sum($F, axis = 0, drop = true));",
    "atomic_xor(BITS[clamp($S, 0, V - 1)], sum($Q, drop = true));",
    "if i + j == 0 { store(LAST[], max($F, drop = true)); }" };

/* The only stores of tensors that are written in one place: past the caches, in rows that begin within lines.
 */
static const char *const onces[] = { "store(WIDE[$U], $F, cache = stream);",
    "store(TURNED[j*$n +: $n, i*$m +: $m], transpose(cast(clamp($F, 0.0, 4.0), T)), cache = stream);",
    "store(TURNED[j*$n - 1 +: $n, i*$m + $D +: $m], transpose(cast(clamp($F, 0.0, 4.0), T)), "
    "cache = bypass);",
    "store(THIN[$U], i8($Q), cache = stream);" };

/* Old values of atomics: of elements that no other program touches they are known. */
static const char *const olds[] = { "atomic_add(CELL[row, col], $Q)",
    "atomic_max(CELL[row, col], $Q, mask = $M)", "atomic_exch(CELL[row, col], $Q)",
    "atomic_xor(CELL[row, col], $Q, mask = col > row)", "atomic_cas(CELL[row, col], $Q, $Q)" };

static void own_window(Mix *x, char *out, size_t size)
{
    if (x->whole) snprintf(out, size, "i*%d +: %d, %s", x->tm, x->tm, CHOOSE(x->a, ":", ":", "0 +: N"));
    else snprintf(out, size, "i*%d +: %d, j*%d +: %d", x->tm, x->tm, x->tn, x->tn);
}

static void window(Mix *x, char *out, size_t size)
{
    Arranger *a = x->a;
    char rows[48], cols[48];
    if (chance(a, 40)) {
        own_window(x, out, size);
        return;
    }
    snprintf(rows, sizeof rows, "i*%d%s +: %d%s", x->tm, CHOOSE(a, "", "", "", " + 1", " - 2", " + M"), x->tm,
        CHOOSE(a, "", "", "", "", " : 2"));
    snprintf(cols, sizeof cols, "j*%d%s +: %d%s", x->tn, CHOOSE(a, "", "", "", " + 3", " - 1", " - N"), x->tn,
        CHOOSE(a, "", "", "", "", " : 2"));
    snprintf(out, size, "%s, %s", rows, cols);
}

static void scalar(Mix *x, char *out, size_t size)
{
    Arranger *a = x->a;
    if (x->loops && chance(a, 50)) snprintf(out, size, "k%d", below(a, x->loops));
    else
        snprintf(out, size, "%s",
            CHOOSE(a, "i", "j", "index(load(CNT[i % L]))", "index(load(CNT[(i + j) % L])) - 1", "i - j", "2",
                "index(load(ID[i]))", "i % 3", "index(load(ONE[]))"));
}

static const char *part(void *user, char name, char *out, size_t size)
{
    static const char kinds[] = "FQMRC";
    Mix *x = user;
    Arranger *a = x->a;
    const char *kind = strchr(kinds, name);
    if (kind) snprintf(out, size, "%c%d", letters[kind - kinds], below(a, x->n[kind - kinds]));
    else switch (name) {
        case 'S': scalar(x, out, size); break;
        case 'D': snprintf(out, size, "%d", below(a, 5)); break;
        case 'A':
        case 'B': snprintf(out, size, "%d", below(a, 2)); break;
        case 'O': own_window(x, out, size); break;
        case 'W': window(x, out, size); break;
        case 'U':
            snprintf(out, size, "i*%d +: %d, j*%d %s +: %d", x->tm, x->tm, x->tn,
                CHOOSE(a, "", "+ 1", "- 3", "+ 16", "- 16"), x->tn);
            break;
        case 'P': snprintf(out, size, "i*%d, j*%d", x->tm, x->tn); break;
        case 'm': snprintf(out, size, "%d", x->tm); break;
        case 'n': snprintf(out, size, "%d", x->tn); break;
        case 'p': snprintf(out, size, "%s", CHOOSE(a, "", "", ", pad = -1.0", ", latency = 2")); break;
        case 'd': snprintf(out, size, "%s", CHOOSE(a, "", ", descending = true")); break;
        case 'o': snprintf(out, size, "%s", CHOOSE(a, "", ", reverse = true")); break;
        default:
            snprintf(out, size, "%s",
                CHOOSE(a, "", ", mask = row < M", ", mask = load(MASK[i*1 +: 1, j*1 +: 1]) >= 0, pad = 2.0"));
        }
    return NULL;
}

static void expand(Mix *x, const char *template, char *out, size_t size)
{ arrange_expand(template, part, x, out, size); }

static void let(Mix *x)
{
    Arranger *a = x->a;
    const int kind = ONE_OF(a, FLOATS, FLOATS, FLOATS, INTS, INTS, INTS, BOOLS, COLUMNS, ROWS_OF);
    int count = 0;
    char e[600];
    while (count < 32 && made[kind][count]) count++;
    expand(x, made[kind][below(a, count)], e, sizeof e);
    const char *open = kind == FLOATS || kind >= COLUMNS ? "clip(" : "", *close = *open ? ")" : "";
    if (x->depth && chance(a, 60)) /* what loops carry */
        arrange_line(a, "%c%d = %s%s%s;", letters[kind], below(a, x->n[kind]), open, e, close);
    else if (x->n[kind] < 9) {
        arrange_line(a, "var %c%d = %s%s%s;", letters[kind], x->n[kind], open, e, close);
        x->n[kind]++;
    }
}

/* What loops gather up: sums that passes may do late, or hold as parts of lanes. They may exceed what tiles
 * are clipped to, and stay whole. */
static void accumulate(Mix *x)
{
    Arranger *a = x->a;
    static const char *const all[KINDS][6] = { [INTS] = { "+ sum($Q, axis = $A)", "+ $Q", "^ $Q",
                                                   "- i32(argmax($F, axis = $A))" },
        [COLUMNS] = { "+ sum($F, axis = 1)", "* f32(any($M, axis = 1)) + sum($F, axis = 1)",
            "* f32(all($M, drop = true)) + sum($F, axis = 1)", "- f32(sum(i32($M), axis = 1))",
            "+ max($F, axis = 1)" },
        [ROWS_OF] = { "+ sum($F, axis = 0)", "+ sum(where($M, $F, 0.0), axis = 0)", "+ min($F, axis = 0)",
            "* f32(any($M, axis = 0)) - sum($F, axis = 0)" } };
    const int kind = ONE_OF(a, INTS, COLUMNS, COLUMNS, ROWS_OF);
    const char letter = letters[kind];
    int count = 0, k = below(a, x->n[kind]);
    char e[300];
    while (count < 6 && all[kind][count]) count++;
    if (!x->loops) return;
    expand(x, all[kind][below(a, count)], e, sizeof e);
    if (kind != INTS && chance(a, 20))
        arrange_line(a, "%c%d = max(%c%d, max(f%d, axis = %d));", letter, k, letter, k,
            below(a, x->n[FLOATS]), kind == COLUMNS);
    else arrange_line(a, "%c%d = %c%d %s;", letter, k, letter, k, e);
}

static void put(Mix *x)
{
    char e[600];
    expand(x, ends[below(x->a, sizeof ends / sizeof *ends)], e, sizeof e);
    arrange_line(x->a, "%s", e);
}

static void old(Mix *x)
{
    char e[600];
    expand(x, olds[below(x->a, sizeof olds / sizeof *olds)], e, sizeof e);
    if (chance(x->a, 30)) arrange_line(x->a, "%s;", e);
    else arrange_line(x->a, "q%d = %s;", below(x->a, x->n[INTS]), e);
}

static void statements(Mix *x, int n);

static void inside(Mix *x, bool loop)
{
    int n[KINDS];
    memcpy(n, x->n, sizeof n);
    x->a->indent++;
    x->depth++;
    x->loops += loop;
    statements(x, 1 + below(x->a, 3));
    x->loops -= loop;
    x->depth--;
    x->a->indent--;
    memcpy(x->n, n, sizeof n);
}

static void loop(Mix *x)
{
    Arranger *a = x->a;
    char lo[64], hi[64], trips[160];
    scalar(x, lo, sizeof lo);
    scalar(x, hi, sizeof hi);
    if (chance(a, 60))
        snprintf(trips, sizeof trips, "%s",
            CHOOSE(a, "3 .. 1", "0 .. 0", "-2 .. 1", "0 .. 5 : 3", "i - 1 .. i + 1", "0 .. 1", "j .. 2",
                "0 .. 3"));
    else snprintf(trips, sizeof trips, "clamp(%s, -2, 2) .. clamp(%s, -3, 3)", lo, hi);
    arrange_line(a, "for k%d in %s {", x->loops, trips);
    inside(x, true);
    arrange_line(a, "}");
}

static void repeat(Mix *x)
{
    Arranger *a = x->a;
    char name[12], e[200];
    fresh_name(a, "t", name, sizeof name);
    arrange_line(a, "var %s = %d;", name, below(a, 3));
    expand(x,
        CHOOSE(a, "any($M, drop = true)", "sum($Q, drop = true) % 5 != 0", "max($F, drop = true) > $D.0",
            "i != j"),
        e, sizeof e);
    arrange_line(a, "while %s < 3 && (%s) {", name, e);
    inside(x, false);
    arrange_line(a, "    %s = %s + 1;", name, name);
    arrange_line(a, "}");
}

static void inside_branch(void *user) { inside(user, false); }

static void branch(Mix *x)
{
    Arranger *a = x->a;
    char e[200];
    expand(x,
        CHOOSE(a, "$S > $D", "any($M, drop = true)", "all($M, drop = true)", "sum($Q, drop = true) % 2 == 0",
            "$S == $S", "atomic_add(CELL[$P], 1) % 2 == 0", "load(ONE[]) > $D && $S > 0"),
        e, sizeof e);
    arrange_branch(a, e, x->returns ? 30 : 0, inside_branch, x);
}

static void statements(Mix *x, int n)
{
    static void (*const all[])(Mix *) = { let, let, let, let, let, let, let, put, put, put, old, accumulate,
        accumulate, loop, loop, branch, repeat };
    enum { N = sizeof all / sizeof *all, NESTED = 4 };
    for (int k = 0; k < n && x->budget > 0 && x->a->length < sizeof x->a->body - 3000; k++, x->budget--)
        all[below(x->a, x->depth > 2 ? N - NESTED : N)](x);
}

static const char *const functions = "fn clip(x) { return clamp(x, -8.0, 8.0); }\n"
                                     "fn lean(x, k) { if k > 1 { return clip(x - 1.0); } return x; }\n"
                                     "fn both(x, y) { let s = x + y; return (clip(s), clip(x - y)); }\n"
                                     "fn twice(x, k) { var y = x; for r in 0 .. k { y = clip(y + y); if "
                                     "any(y > 7.0, drop = true) { return y - 1.0; } } return y; }\n"
                                     "fn deep(x, k) { for r in 0 .. k { if r > 0 { if any(x > 3.0, drop = "
                                     "true) { return x - 1.0; } else { if k > 2 { return clip(x + 1.0); } } "
                                     "} } return x; }\n"
                                     "fn seek(x, k) { var n = 0; while n < 4 { if n > k { return x; } if n "
                                     "== 2 { for r in 0 .. n { if all(x < 2.0, drop = true) { return -x; } } "
                                     "} n = n + 1; } return x + 1.0; }\n"
                                     "fn mix(a, b) { return a ^ b; }\n"
                                     "fn then(p, q) { return (p[0] * q[0], p[1] * q[0] + q[1]); }\n";

/* Where a program's tile is: by the axes of the grid, or from one number. */
static void places(Mix *x)
{
    Arranger *a = x->a;
    const int tm = x->tm, tn = x->tn;
    char h[80] = "", own[32];
    snprintf(own, sizeof own, "j*%d +: %d", tn, tn);
    if (chance(a, 50))
        snprintf(h, sizeof h, " hint (%s)",
            CHOOSE(a, "pack = 2", "pack = 4", "warps = 2", "warps = 8", "occupancy = 2", "cluster = 2",
                "cluster = 4", "cluster = 2, cluster_axis = 1", "stages = 3", "pack = 3"));
    if (strstr(h, "axis") && chance(a, 50)) *h = 0;
    const int form = strstr(h, "axis") ? 0 : below(a, 4);
    x->ordered = form == 0 && !strstr(h, "cluster") && chance(a, 40);
    a->indent = 1;
    if (form == 0) arrange_line(a, "grid (cdiv(N, %d), cdiv(M, %d))%s", tn, tm, h);
    else arrange_line(a, "grid (cdiv(N, %d)*cdiv(M, %d))%s", tn, tm, h);
    a->indent = 0;
    arrange_line(a, "{");
    a->indent = 1;
    arrange_line(a, form ? "let p = program_id();" : "let (j, i) = program_id();");
    if (form) arrange_line(a, "let w = cdiv(N, %d);", tn);
    if (form == 1) arrange_line(a, "let i = p / w;"), arrange_line(a, "let j = p %% w;");
    if (form == 2)
        arrange_line(a, "let i = cdiv(M, %d) - 1 - p / w;", tm), arrange_line(a, "let j = w - 1 - p %% w;");
    if (form == 3) {
        arrange_line(a, "let h = min(2, cdiv(M, %d) - p / (2*w)*2);", tm);
        arrange_line(a, "let i = p / (2*w)*2 + p %% (2*w) %% h;");
        arrange_line(a, "let j = p %% (2*w) / h;");
    }
    arrange_line(a, "let row = i*%d + arange(%d)[:, None];", tm, tm);
    arrange_line(a, "let col = j*%d + arange(%d)[None, :];", tn, tn);
    arrange_line(a, "let id = load(ID[i*%d +: %d], pad = 0);", tm, tm);
    arrange_line(a, "let jd = load(JD[j*%d +: %d], pad = 0);", tn, tn);
    arrange_line(a, "var f0 = load(X[i*%d +: %d, %s]);", tm, tm, x->whole ? ":" : own);
    arrange_line(a, "var q0 = load(Q[i*%d +: %d, j*%d +: %d]);", tm, tm, tn, tn);
    arrange_line(a, "var m0 = load(MASK[i*%d +: %d, j*%d +: %d]) > 0;", tm, tm, tn, tn);
    arrange_line(a, "var r0 = max(f0, axis = 1);");
    arrange_line(a, "var c0 = min(f0, axis = 0);");
    for (int k = 0; k < KINDS; k++) x->n[k] = 1;
}

static void head(Mix *x)
{
    char order[60];
    snprintf(order, sizeof order, "cdiv(M, %d), cdiv(N, %d)", x->tm, x->tn);
    random_head(x->a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .functions = functions,
            .always = " X TABLE CNT R C ",
            .order = x->ordered ? order : NULL,
            .views = 20,
            .extremes = x->extremes },
        "");
}

void random_mixture(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + 3 } }, *a = &arranger;
    Mix mix = { .a = a }, *x = &mix;
    a->type = (Elem)ONE_OF(a, F16, BF16, E4M3, E5M2, I8, U8, F64);
    x->tm = ONE_OF(a, 1, 1, 2, 4, 8, 16, 3, 5);
    x->whole = chance(a, 30);
    x->tn = x->whole ? ONE_OF(a, 1, 9, 30, 33, 77, 128, 225, 257, 300)
                     : ONE_OF(a, 1, 4, 8, 16, 32, 64, 6, 20, 33, 128);
    if (x->tn < 33 && chance(a, 20)) x->tm = ONE_OF(a, 32, 64);
    x->returns = chance(a, 40);
    x->extremes = chance(a, 16);
    x->budget = 6 + below(a, 14);
    places(x);
    while (x->budget > 0) statements(x, 3);
    put(x);
    if (chance(a, 35)) {
        char e[600];
        expand(x, CHOOSE(a, onces[0], onces[1], onces[2], onces[3]), e, sizeof e);
        arrange_line(a, "%s", e);
    }
    if (x->ordered)
        arrange_line(a,
            "atomic_add(TURN[i*%d +: %d], load(REAL[i*%d +: %d, j]), step = %s, semaphore = ORDER);", x->tm,
            x->tm, x->tm, x->tm, CHOOSE(a, "0", "j", "3"));
    a->indent = 0;
    arrange_line(a, "}");
    const int m = x->tm * (1 + below(a, 3)) - (chance(a, 50) ? below(a, x->tm) : 0),
              n = x->whole ? x->tn : x->tn * (1 + below(a, 3)) - (chance(a, 50) ? below(a, x->tn) : 0);
    snprintf(out->sizes, sizeof out->sizes, "M=%d N=%d L=%d V=%d GN=%d GM=%d", m, n, 1 + below(a, 9),
        1 + below(a, 9), (n + x->tn - 1) / x->tn, (m + x->tm - 1) / x->tm);
    head(x);
}
