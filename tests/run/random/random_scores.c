/* random_scores.c: random kernels of attention in the forms that engines have: see random_kernel.h. Scores of
 * queries and keys that are scaled, capped, biased, masked (-inf, -1e9, the lowest number) by places, loaded
 * bools, segments, lengths and windows; keys in a row, in pages, in lists of blocks, shared by groups of
 * heads; weights by an online softmax, with a sink or a first guess, by two passes, by a sigmoid, a square, a
 * decay; dropped by random bits; the gradients of queries and of keys.
 *
 * As in random_floats.c numbers are rounded, and no float decides a bool or an integer. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "Q", "H,M,D", "T", "normal" },
    { "in", "K", "G,N,D", "T", "normal" },
    { "in", "V", "G,N,D", "T", "normal" },
    { "in", "DO", "H,M,D", "T", "normal" },
    { "in", "BIAS", "M,N", "f32", "mask" },
    { "in", "NEAR", "H,M,N", "T", "normal" },
    { "in", "KEEP", "M,N", "bool", "normal" },
    { "in", "COLS", "N", "bool", "normal" },
    { "in", "OWN", "M", "i32", "index:THREE" },
    { "in", "SEG", "N", "i32", "index:THREE" },
    { "in", "LEN", "H", "i32", "index:N" },
    { "in", "SEEN", "M", "i32", "index:N" },
    { "in", "PAGE", "N", "i32", "index:N" },
    { "in", "BLOCK", "TILES,THREE", "i32", "index:TILES" },
    { "in", "COUNT", "TILES", "i32", "index:THREE" },
    { "in", "REL", "SPAN", "f32", "normal" },
    { "in", "SINK", "H", "f32", "normal" },
    { "in", "LSE", "H,M", "f32", "unit" },
    { "in", "DELTA", "H,M", "f32", "normal" },
    { "out", "O", "H,M,D", "T", "" },
    { "out", "DQ", "H,M,D", "T", "" },
    { "out", "DK", "H,N,D", "T", "" },
    { "out", "DV", "H,N,D", "T", "" },
    { "out", "L", "H,M", "f32", "" },
    { "inout", "P", "H,M,N", "T", "normal" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

typedef struct Scores {
    Arranger *a;
    int tm, tn, d, group;
    char m[8], n[8]; /* tm, tn, or the names of constants */
    bool keys;       /* a program has keys and walks over queries */
    bool chosen;     /* sizes are the compiler's: nothing may depend on them */
    bool causal;     /* steps end where the mask does */
} Scores;

static void tile(const Scores *x, const char *name, const char *tensor, const char *head, bool keys)
{
    const char *ahead = CHOOSE(x->a, "", "", ", latency = 2", ", latency = 3");
    arrange_line(x->a, "let %s = load(%s[%s, %s*%s +: %s, :]%s);", name, tensor, head, keys ? "j" : "i",
        keys ? x->n : x->m, keys ? x->n : x->m, ahead);
}

/* Keys or values of a step: a window, its transpose, or rows that lie in pages. */
static void keys(const Scores *x, const char *name, const char *tensor, bool paged)
{
    if (paged)
        arrange_line(x->a,
            "let %s = gather(%s[g, load(PAGE[j*%s +: %s], pad = -1)[:, None], arange(D)[None, :]]);", name,
            tensor, x->n, x->n);
    else tile(x, name, tensor, "g", true);
}

static const char *mask(const Scores *x, char *out, size_t size)
{
    Arranger *a = x->a;
    const char *m = x->m, *n = x->n;
    *out = 0;
    arrange_append(out, size, "col < N");
    switch (x->causal ? 0 : below(a, 10)) {
    case 0: arrange_append(out, size, " && col <= row"); break;
    case 1: arrange_append(out, size, " && col <= row + (N - M)"); break;
    case 2: arrange_append(out, size, " && col <= row && row - col < 37"); break;
    case 3: arrange_append(out, size, " && load(KEEP[i*%s +: %s, j*%s +: %s])", m, m, n, n); break;
    case 4: arrange_append(out, size, " && load(COLS[j*%s +: %s])[None, :]", n, n); break;
    case 5:
        arrange_append(
            out, size, " && load(OWN[i*%s +: %s])[:, None] == load(SEG[j*%s +: %s])[None, :]", m, m, n, n);
        break;
    case 6: arrange_append(out, size, " && i32(col) <= load(LEN[h])"); break;
    case 7: arrange_append(out, size, " && i32(col) <= load(SEEN[i*%s +: %s])[:, None]", m, m); break;
    case 8: arrange_append(out, size, " && (row / 8 + col / 8) %% 3 != 1"); break;
    default:;
    }
    return out;
}

static void scores(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m, *n = x->n;
    char seen[200];
    arrange_line(a, "let row = i*%s + arange(%s)[:, None];", m, m);
    arrange_line(a, "let col = j*%s + arange(%s)[None, :];", n, n);
    arrange_line(a, "var s = mma(q, %s) * %s;",
        CHOOSE(a, "transpose(k)", "transpose(k)", "permute(k, (1, 0))"), x->d == 16 ? "0.25" : "0.125");
    if (chance(a, 20)) arrange_line(a, "s = 8.0 * tanh(s / 8.0);");
    if (chance(a, 15)) arrange_line(a, "s = s - abs(f32(row - col)) * exp2(-f32(h + 3));");
    if (chance(a, 10)) arrange_line(a, "s = s + load(BIAS[i*%s +: %s, j*%s +: %s]);", m, m, n, n);
    if (chance(a, 10)) arrange_line(a, "s = s + f32(load(NEAR[h, i*%s +: %s, j*%s +: %s]));", m, m, n, n);
    if (chance(a, 10)) arrange_line(a, "s = s + gather(REL[clamp(row - col + SPAN / 2, 0, SPAN - 1)]);");
    if (x->chosen || chance(a, 85))
        arrange_line(a, "s = where(%s, s, %s);", mask(x, seen, sizeof seen),
            x->chosen ? "-inf" : CHOOSE(a, "-inf", "-inf", "-inf", "-1e9", "-3.4e38", "-10000.0"));
}

static void dropped(const Scores *x)
{
    if (chance(x->a, 12))
        arrange_line(
            x->a, "p = where(random_bits(11, (index(h)*M + row)*N + col) %% 8 != 0, p * 1.142857, 0.0);");
}

/* The steps of a program of queries. */
static bool steps(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m, *n = x->n;
    const int how = x->chosen ? x->causal ? 0 : 5 : below(a, 10);
    if (how == 9) {
        arrange_line(a, "for b in 0 .. index(load(COUNT[i])) + 1 {");
        arrange_line(a, "    let j = index(load(BLOCK[i, b]));");
        return false;
    }
    if (how == 0) arrange_line(a, "for j in 0 .. min(cdiv(N, %s), cdiv((i + 1)*%s, %s)) {", n, m, n);
    else if (how == 1)
        arrange_line(
            a, "for j in max(i*%s - 37, 0) / %s .. min(cdiv(N, %s), cdiv((i + 1)*%s, %s)) {", m, n, n, m, n);
    else if (how == 2) arrange_line(a, "for j in 0 .. cdiv(index(load(LEN[h])) + 1, %s) {", n);
    else if (how == 3) arrange_line(a, "for j in i %% 2 .. cdiv(N, %s) : 2 {", n);
    else arrange_line(a, "for j in 0 .. cdiv(N, %s) {", n);
    return true;
}

static void online(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m;
    const bool paged = chance(a, 15), sink = chance(a, 15), powers = chance(a, 25);
    const char *e = powers ? "exp2" : "exp";
    if (sink) arrange_line(a, "var m = full([%s, 1], load(SINK[h]), f32);", m);
    else
        arrange_line(
            a, "var m = full([%s, 1], %s, f32);", m, CHOOSE(a, "-inf", "-inf", "-inf", "-1e30", "0.0"));
    arrange_line(a, "var l = full([%s, 1], %s, f32);", m, sink ? "1.0" : "0.0");
    arrange_line(a, "var acc = zeros([%s, D], f32);", m);
    steps(x);
    a->indent++;
    keys(x, "k", "K", paged);
    scores(x);
    if (powers) arrange_line(a, "s = s * 1.4426950408889634;");
    arrange_line(a, "let n = max(m, max(s, axis = 1));");
    arrange_line(a, "let t = %s;",
        CHOOSE(a, "where(n == -inf, 0.0, n)", "where(n == -inf, 0.0, n)", "max(n, -1e30)",
            "where(n > -1e30, n, 0.0)"));
    arrange_line(a, "var p = %s(s - t);", e);
    arrange_line(a, "let c = %s(m - t);", e);
    if (chance(a, 50)) arrange_line(a, "l = l * c + sum(p, axis = 1);");
    else arrange_line(a, "l = fma(l, c, sum(p, axis = 1));");
    dropped(x);
    keys(x, "v", "V", paged);
    if (chance(a, 50)) arrange_line(a, "acc = mma((cast(p, T)), v, acc * c);");
    else arrange_line(a, "acc = acc * c + mma((cast(p, T)), v);");
    arrange_line(a, "m = n;");
    a->indent--;
    arrange_line(a, "}");
    arrange_line(a, "store(O[h, i*%s +: %s, :], (cast(acc %s, T)));", m, m,
        CHOOSE(a, "/ l", "/ l", "* (1.0 / l)", "/ max(l, 1e-20)", "/ where(l == 0.0, 1.0, l)"));
    /* A logarithm by itself is 0 where a row has one key, but for rounding, so that 1 is added to it. */
    if (chance(a, 50))
        arrange_line(a, "store(L[h, i*%s +: %s], reshape(%s, [%s]));", m, m,
            CHOOSE(a, "m + log(l)", "m + log(max(l, 1e-30))", "where(l > 0.0, log(l) + 1.0, -inf)"), m);
}

/* Weights that need no maximum, or that two loops find. */
static void plain(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m, *n = x->n;
    const int how = below(a, x->chosen ? 4 : 5);
    if (how == 0) { /* first the maximum, then the sums */
        arrange_line(a, "var top = full([%s, 1], -inf, f32);", m);
        arrange_line(a, "for j in 0 .. cdiv(N, %s) {", n);
        a->indent++;
        keys(x, "k", "K", false);
        arrange_line(a, "let col = j*%s + arange(%s)[None, :];", n, n);
        arrange_line(a, "let s = where(col < N, mma(q, transpose(k)) * 0.125, -inf);");
        arrange_line(a, "top = max(top, max(s, axis = 1));");
        a->indent--;
        arrange_line(a, "}");
    }
    arrange_line(a, "var l = zeros([%s, 1], f32);", m);
    arrange_line(a, "var acc = zeros([%s, D], f32);", m);
    const bool once = steps(x);
    a->indent++;
    keys(x, "k", "K", false);
    scores(x);
    static const char *const weights[] = { "exp(s - max(top, s))", "sigmoid(s)", "max(s, 0.0) * max(s, 0.0)",
        "exp(s - load(LSE[h, i*%s +: %s])[:, None] - 2.0)",
        "where(col <= row, s * exp2(f32(col - row) * 0.0625), 0.0)" };
    char weight[100];
    snprintf(weight, sizeof weight, weights[how], m, m);
    arrange_line(a, "var p = %s;", weight);
    if (how == 4) arrange_line(a, "p = clamp(p, -8.0, 8.0);");
    dropped(x);
    arrange_line(a, "l = l + sum(abs(p), axis = 1);");
    keys(x, "v", "V", false);
    arrange_line(a, "acc = mma((cast(p, T)), v, acc);");
    if (once && !x->causal && chance(a, 30)) /* also where steps end as tiles do */
        arrange_line(a, "store(P[h, i*%s +: %s, j*%s +: %s], (cast(p, T)));", m, m, n, n);
    a->indent--;
    arrange_line(a, "}");
    arrange_line(a, "store(O[h, i*%s +: %s, :], (cast(acc / max(l, 1.0), T)));", m, m);
    if (chance(a, 50)) arrange_line(a, "store(L[h, i*%s +: %s], reshape(l, [%s]));", m, m, m);
}

/* The gradient of scores, from the weights that the logarithms of sums give. */
static void slopes(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m;
    scores(x);
    arrange_line(a, "let p = exp(s - load(LSE[h, i*%s +: %s])[:, None] - 2.0);", m, m);
    arrange_line(a, "let dp = mma(do, transpose(v));");
    arrange_line(a, "let ds = (cast(p * (dp - load(DELTA[h, i*%s +: %s])[:, None]) * 0.125, T));", m, m);
}

static void gradients(const Scores *x)
{
    Arranger *a = x->a;
    const char *m = x->m, *n = x->n;
    if (!x->keys) {
        tile(x, "do", "DO", "h", false);
        arrange_line(a, "var dq = zeros([%s, D], f32);", m);
        steps(x);
        a->indent++;
        keys(x, "k", "K", false);
        keys(x, "v", "V", false);
        slopes(x);
        arrange_line(a, "dq = mma(ds, k, dq);");
        a->indent--;
        arrange_line(a, "}");
        arrange_line(a, "store(DQ[h, i*%s +: %s, :], (cast(dq, T)));", m, m);
        return;
    }
    tile(x, "k", "K", "g", true);
    tile(x, "v", "V", "g", true);
    arrange_line(a, "var dk = zeros([%s, D], f32);", n);
    arrange_line(a, "var dv = zeros([%s, D], f32);", n);
    arrange_line(a, "for i in %s .. cdiv(M, %s) {", x->chosen ? "0" : CHOOSE(a, "0", "0", "min(j, 1)"), m);
    a->indent++;
    tile(x, "q", "Q", "h", false);
    tile(x, "do", "DO", "h", false);
    slopes(x);
    arrange_line(a, "dv = mma(transpose((cast(p, T))), do, dv);");
    arrange_line(a, "dk = mma(transpose(ds), q, dk);");
    a->indent--;
    arrange_line(a, "}");
    arrange_line(a, "store(DK[h, j*%s +: %s, :], (cast(dk, T)));", n, n);
    arrange_line(a, "store(DV[h, j*%s +: %s, :], (cast(dv, T)));", n, n);
}

void random_scores(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 13 + 8 } }, *a = &arranger;
    Scores s = { .a = a }, *x = &s;
    char clauses[200];
    a->type = (Elem)ONE_OF(a, F16, F16, BF16, BF16, F32);
    const bool whole = chance(a, 60); /* tiles that units of matrices take */
    x->tm = whole ? ONE_OF(a, 64, 64, 128) : ONE_OF(a, 16, 32, 48, 64);
    x->tn = whole ? ONE_OF(a, 32, 64, 64, 128) : ONE_OF(a, 16, 32, 48, 64);
    x->d = ONE_OF(a, 16, 32, 64, 64);
    x->group = 1 + below(a, 2);
    const int form = below(a, 100);
    x->chosen = chance(a, 30);
    x->causal = x->chosen && chance(a, 30);
    snprintf(x->m, sizeof x->m, x->chosen ? "TM" : "%d", x->tm);
    snprintf(x->n, sizeof x->n, x->chosen ? "TN" : "%d", x->tn);
    x->keys = form >= 85;
    snprintf(clauses, sizeof clauses, "    grid (cdiv(%s, %s), H)%s\n{\n", x->keys ? "N" : "M",
        x->keys ? x->n : x->m,
        CHOOSE(a, "", "", "", "", " hint (split_k = 2)", " hint (warps = 8)", " hint (warps = 4)",
            " hint (persistent = 1)", " hint (persistent = 0)", " hint (cluster = 2)",
            " hint (warp_specialize = 0)", " hint (stages = 2)", " hint (pingpong = 1)",
            " hint (pingpong = 0)", " hint (warps = 12)", " hint (split_k = 4)",
            " hint (cp_async_producer = 1)", " hint (occupancy = 2)"));
    a->indent = 1;
    arrange_line(a, "let (%s, h) = program_id();", x->keys ? "j" : "i");
    arrange_line(a, "let g = h / %d;", x->group);
    if (!x->keys) tile(x, "q", "Q", "h", false);
    if (form < 55) online(x);
    else if (form < 70) plain(x);
    else gradients(x);
    a->indent = 0;
    arrange_line(a, "}");
    random_head(a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .always = " Q K ",
            .more = x->chosen ? ", const int TM = auto, const int TN = auto" : NULL,
            .views = 8 },
        clauses);
    for (char *v = out->views; (v = strchr(v, ':')); v++) /* equal keys give sums that are rounding errors */
        if (v[1] == 'o' || v[1] == 'z') v[1] = 's';
    snprintf(out->bounds, sizeof out->bounds, "%d 16384 0", 6);
    const int heads = x->group * (1 + below(a, 2)), cut = chance(a, 50),
              m = x->tm * (1 + below(a, 2)) - cut * below(a, x->tm),
              n = x->tn * (1 + below(a, 4)) - (chance(a, 60) ? below(a, x->tn) : 0);
    const int tiles = (m + x->tm - 1) / x->tm;
    snprintf(out->sizes, sizeof out->sizes, "H=%d G=%d M=%d N=%d D=%d THREE=3 TILES=%d SPAN=%d", heads,
        heads / x->group, m, n, x->d, tiles, 2 * n + 1);
}
