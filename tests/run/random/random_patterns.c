/* random_patterns.c: random kernels around what passes look for: see random_kernel.h. Each scene has the form
 * that a pass rewrites, in most kernels with something beside it that the pass must notice: a bound that
 * comes from elsewhere, a value that the masks do not touch, an offset that does not divide, one more use, a
 * factor that changes, loops that run not once.
 *
 * Numbers are whole and small, and powers are of whole numbers to the base of two, so that results are equal
 * bit for bit, also those of passes that are allowed to round otherwise. */
#include "random_scene.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "f32", "int:4" },
    { "in", "Y", "M,N", "T", "int:3" },
    { "in", "A", "M,K", "T", "int:2" },
    { "in", "B", "K,N", "T", "int:2" },
    { "in", "V", "N,D", "T", "int:2" },
    { "in", "W", "K,D", "T", "int:2" },
    { "in", "LO", "M", "i32", "index:N" },
    { "in", "HI", "M", "i32", "index:N" },
    { "in", "LONG", "M", "i64", "int:20" },
    { "in", "CNT", "L", "i32", "int:5" },
    { "in", "S", "M", "f32", "int:2" },
    { "in", "C", "N", "f32", "int:2" },
    { "in", "HEADS", "M,H,D", "T", "int:3" },
    { "in", "BITS", "KB,N", "i32", "bits" },
    { "in", "GROUPED", "KG,N", "f32", "int:2" },
    { "in", "RECORDS", "M,R,R", "f32", "int:9" },
    { "in", "BA", "P,BM,BK", "T", "int:2" },
    { "in", "BB", "P,BK,BN", "T", "int:2" },
    { "in", "BT", "P,BN,BK", "T", "int:2" },
    { "in", "BI", "BK,BN,P", "T", "int:2" },
    { "inout", "ROWS", "M,8", "f32", "int:5" },
    { "inout", "OD", "M,D", "f32", "int:5" },
    { "inout", "ON", "M,N", "f32", "int:5" },
    { "inout", "OH", "M,H,D", "f32", "int:5" },
    { "inout", "OR", "M,R,R", "f32", "int:5" },
    { "inout", "OI", "M,8", "i32", "int:5" },
    { "in", "BYTES", "M,N", "u8", "bits" },
    { "inout", "OB", "M,N", "u8", "int:5" },
    { "inout", "BO", "P,BM,BN", "f32", "int:5" },
    { "inout", "OW", "M,N", "i32", "int:5" },
    { "inout", "OV", "M,N", "f32", "int:5" },
    { "inout", "OM", "M,N", "f32", "int:5" },
    { "inout", "OQ", "M,N", "i32", "int:5" },
    { "inout", "OF", "M,N", "f32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static char *text(void)
{
    static char out[32][EXPR];
    static int turn;
    return out[turn++ % 32];
}

/* A number of steps that may be none. */
const char *scene_bounds(Scene *x, const char *all)
{
    Arranger *a = x->a;
    char *out = text();
    switch (below(a, 9)) {
    case 0: arrange_write(out, EXPR, "0 .. min(%s, i)", all); break;
    case 1: arrange_write(out, EXPR, "0 .. min(%s, index(load(CNT[i %% L])))", all); break;
    case 2: arrange_write(out, EXPR, "index(load(CNT[i %% L])) .. %s", all); break;
    case 3: arrange_write(out, EXPR, "i %% 2 .. %s", all); break;
    case 4: arrange_write(out, EXPR, "0 .. %s%s", all, CHOOSE(a, " : 2", " - 1", " * (i % 2)")); break;
    default: arrange_write(out, EXPR, "0 .. %s", all); break;
    }
    return out;
}

const char *scene_columns(Scene *x)
{
    char *out = text();
    arrange_write(out, EXPR, "cdiv(N, %d)", x->tn);
    return out;
}

static const char *deep(Scene *x)
{
    char *out = text();
    arrange_write(out, EXPR, "cdiv(K, %d)", x->tk);
    return out;
}

/* --- masks with bounds from memory: mask-trim, mask-peel, empty-loops --------------------------------- */

static const char *bound_from_memory(Scene *x, const char *tensor)
{
    Arranger *a = x->a;
    char *out = text();
    switch (below(a, 9)) {
    case 0:
    case 5:
    case 6:
    case 7: arrange_write(out, EXPR, "index(load(%s[i %% M]))", tensor); break;
    case 1: arrange_write(out, EXPR, "index(load(%s[i %% M])) - %d", tensor, below(a, 9)); break;
    case 2:
        arrange_write(out, EXPR, "(index(load(LONG[i*%d +: %d])) + row[:, 0])[:, None]", x->tm, x->tm);
        break;
    case 3: arrange_write(out, EXPR, "row + index(load(CNT[i %% L]))"); break;
    default: arrange_write(out, EXPR, "index(load(%s[i*%d +: %d]))[:, None]", tensor, x->tm, x->tm); break;
    }
    return out;
}

static const char *mask_of(Scene *x)
{
    if (chance(x->a, 50)) return CHOOSE(x->a, "col >= lo && col < hi", "col < hi", "lo <= col && hi > col");
    return CHOOSE(x->a, "col >= lo && col < hi", "col < hi", "col >= lo", "col - lo >= 0 && hi - col > 0",
        "col <= hi && row >= col", "col + 3 > lo && col * 2 < hi * 2", "!(col < lo) && !(col >= hi)",
        "col >= lo && col < hi || col == 5", "col < hi && col % 3 != 1", "col < lo || col >= hi",
        "i32(col) < i32(hi) && col < N");
}

/* m, l, o: a softmax to the base of two that sees one part of a row after the other. */
static void online(Scene *x, const char *scores)
{
    Arranger *a = x->a;
    const bool guard = chance(a, 75);
    arrange_line(a, "let s = where(mask, %s, %s);", scores, guard ? "-inf" : CHOOSE(a, "-9.0", "-inf"));
    arrange_line(a, "let m2 = max(m, max(s, axis = 1));");
    arrange_line(a, "let base = %s;", guard ? "where(m2 == -inf, 0.0, m2)" : "max(m2, -9.0)");
    arrange_line(
        a, "let p = %s;", CHOOSE(a, "exp2(s - base)", "exp2(s - base)", "where(mask, exp2(s - base), 0.0)"));
    arrange_line(a, "let f = exp2(m - base);");
    arrange_line(a, "l = l * f + sum(p, axis = 1);");
    arrange_line(
        a, "o = mma(%s(p), load(V[j*%d +: %d, 0 +: %d]), o * f);", elem_name(a->type), x->tn, x->tn, x->d);
    arrange_line(a, "m = m2;");
}

static void trimmed(Scene *x)
{
    Arranger *a = x->a;
    const bool softmax = (a->type == F16 || a->type == BF16 || a->type == F32) && chance(a, 60);
    const bool summed = !softmax || chance(a, 25), most = !softmax && chance(a, 40);
    const bool beside = chance(a, 15), stored = chance(a, 12), ahead = chance(a, 40);
    arrange_line(a, "let lo = %s;", bound_from_memory(x, "LO"));
    arrange_line(a, "let hi = %s;", bound_from_memory(x, "HI"));
    if (softmax) {
        arrange_line(a, "var m = full([%d, 1], -inf, f32);", x->tm);
        arrange_line(a, "var l = zeros([%d, 1], f32);", x->tm);
        arrange_line(a, "var o = zeros([%d, %d], f32);", x->tm, x->d);
    }
    if (summed) arrange_line(a, "var sums = zeros([%d, 1], f32);", x->tm);
    if (most)
        arrange_line(
            a, "var most = full([%d, 1], %s, f32);", x->tm, CHOOSE(a, "-inf", "-inf", "-5.0", "3.0"));
    if (beside) arrange_line(a, "var seen = f32(0);");
    if (ahead) arrange_line(a, "let q = load(X[i*%d +: %d, 0 +: %d]);", x->tm, x->tm, x->tn);
    arrange_line(a, "for j in %s {", scene_bounds(x, scene_columns(x)));
    a->indent++;
    arrange_line(a, "let col = j*%d + arange(%d)[None, :];", x->tn, x->tn);
    arrange_line(a, "let mask = %s;", mask_of(x));
    arrange_line(a, "let v = load(X[i*%d +: %d, j*%d +: %d])%s;", x->tm, x->tm, x->tn, x->tn,
        ahead ? " + q - q * 2.0" : "");
    arrange_line(a, "let w = clamp(v, -4.0, 4.0);");
    if (softmax) online(x, "w");
    if (summed)
        arrange_line(a, "sums += sum(where(mask, w, %s), axis = 1);", CHOOSE(a, "0.0", "0.0", "0.0", "1.0"));
    if (most)
        arrange_line(a, "most = max(most, max(where(mask, w, %s), axis = 1));",
            CHOOSE(a, "-inf", "-inf", "-5.0", "0.0"));
    if (beside) arrange_line(a, "seen += 1.0;");
    if (stored)
        arrange_line(
            a, "store(ON[i*%d +: %d, j*%d +: %d], where(mask, w, 2.0));", x->tm, x->tm, x->tn, x->tn);
    a->indent--;
    arrange_line(a, "}");
    if (softmax) {
        arrange_line(a, "store(OD[i*%d +: %d, 0 +: %d], o);", x->tm, x->tm, x->d);
        arrange_line(a, "store(ROWS[i*%d +: %d, 0 +: 1], l);", x->tm, x->tm);
        arrange_line(a, "store(ROWS[i*%d +: %d, 1 +: 1], m);", x->tm, x->tm);
    }
    if (summed) arrange_line(a, "store(ROWS[i*%d +: %d, 2 +: 1], sums);", x->tm, x->tm);
    if (most) arrange_line(a, "store(ROWS[i*%d +: %d, 3 +: 1], most);", x->tm, x->tm);
    if (beside) arrange_line(a, "store(ROWS[i*%d +: %d, 4 +: 1], seen);", x->tm, x->tm);
}

/* --- reductions by a function in steps: grouped-steps -------------------------------------------------- */

static void grouped(Scene *x)
{
    Arranger *a = x->a;
    const int axis = below(a, 2), other = axis ? x->tm : x->tn;
    const bool nested = chance(a, 40);
    char *shape = text(), *steps = text();
    arrange_write(steps, EXPR, "0 .. %d", 1 + below(a, 20));
    arrange_write(shape, EXPR, axis ? "[%d, 1]" : "[1, %d]", other);
    arrange_line(a, "var best = full(%s, %s, f32);", shape, CHOOSE(a, "-inf", "0.0"));
    arrange_line(a, "var place = full(%s, -1, i32);", shape);
    arrange_line(a, "var odd = zeros(%s, i32);", shape);
    if (nested) arrange_line(a, "for n in 0 .. index(load(CNT[i %% L])) {"), a->indent++;
    arrange_line(a, "for j in %s {", chance(a, 50) ? scene_bounds(x, scene_columns(x)) : steps);
    a->indent++;
    arrange_line(a, "let v = load(X[%s*%d +: %d, j*%d +: %d], pad = %s);", nested ? "(i + n)" : "i", x->tm,
        x->tm, x->tn, x->tn, CHOOSE(a, "0", "-1.0"));
    arrange_line(a, "let at = i32(j*%d + arange(%d)[None, :]) + zeros([%d, 1], i32)%s;", x->tn, x->tn, x->tm,
        nested ? " + i32(n) * 100" : "");
    arrange_line(a, "let (b, p) = reduce((v, at), axis = %d, combine = better);", axis);
    if (chance(a, 60)) arrange_line(a, "let h = reduce(i32(v) * 3 + at, axis = %d, combine = mix);", axis);
    else arrange_line(a, "let h = p + i32(b);");
    arrange_line(a, "place = where(b > best, p, place);");
    arrange_line(a, "best = max(best, b);");
    arrange_line(a, "odd = odd %s h;", CHOOSE(a, "^", "+", "* 3 +"));
    if (chance(a, 20)) arrange_line(a, "if j == 2 { odd = odd + 1; }");
    while (a->indent > 1) a->indent--, arrange_line(a, "}");
    const char *flat = axis ? "i*%d +: %d, 5 +: 1" : "i*%d +: 1, 5 +: 1";
    char where[64];
    snprintf(where, sizeof where, flat, x->tm, x->tm);
    arrange_line(a, "store(ROWS[%s], %s);", where, axis ? "best" : "sum(best, axis = 1)");
    arrange_line(a, "store(OI[%s], %s);", where, axis ? "place" : "sum(place, axis = 1)");
    snprintf(where, sizeof where, axis ? "i*%d +: %d, 6 +: 1" : "i*%d +: 1, 6 +: 1", x->tm, x->tm);
    arrange_line(a, "store(OI[%s], %s);", where, axis ? "odd" : "sum(odd, axis = 1)");
}

/* --- products and factors: factors, accumulate, pad-products, transpose-products ----------------------- */

static const char *factor(Scene *x)
{
    Arranger *a = x->a;
    char *out = text();
    switch (below(a, 7)) {
    case 0: arrange_write(out, EXPR, "load(S[i*%d +: %d])[:, None]", x->tm, x->tm); break;
    case 1: arrange_write(out, EXPR, "load(C[0 +: %d])[None, :]", x->tn); break;
    case 2: arrange_write(out, EXPR, "load(S[i %% M])"); break;
    case 3: arrange_write(out, EXPR, "load(S[k %% M])"); break;
    case 4:
        arrange_write(out, EXPR, "%s", CHOOSE(a, "2.0", "-0.5", "f32(i)", "f32(k % 3)", "rows", "both"));
        break;
    case 5: arrange_write(out, EXPR, "rows"); break;
    default: arrange_write(out, EXPR, "columns"); break;
    }
    return out;
}

static const char *operand_of(Scene *x, bool right)
{
    Arranger *a = x->a;
    char *out = text();
    if (!right) {
        arrange_write(out, EXPR, "load(A[i*%d +: %d, k*%d +: %d])", x->tm, x->tm, x->tk, x->tk);
        if (chance(a, 15))
            arrange_write(out, EXPR, "-load(A[i*%d +: %d, k*%d +: %d])", x->tm, x->tm, x->tk, x->tk);
        return out;
    }
    if (chance(a, 30) && (a->type == F16 || a->type == BF16)) {
        arrange_write(out, EXPR,
            "%s((gather(BITS[(k*%d + arange(%d))[:, None] / 8, arange(%d)[None, :]]) >> i32((k*%d + "
            "arange(%d))[:, "
            "None] %% 8 * 4) & 15) - 8)",
            elem_name(a->type), x->tk, x->tk, x->tn, x->tk, x->tk);
        if (chance(a, 40)) return out;
        char *scaled = text();
        arrange_write(scaled, EXPR,
            "%s * %s(gather(GROUPED[(k*%d + arange(%d))[:, None] / 16, arange(%d)[None, :]]))", out,
            elem_name(a->type), x->tk, x->tk, x->tn);
        return scaled;
    }
    arrange_write(out, EXPR, "load(B[k*%d +: %d, 0 +: %d])", x->tk, x->tk, x->tn);
    return out;
}

static void scaled(Scene *x)
{
    Arranger *a = x->a;
    const int forms = ONE_OF(a, 0, 0, 1, 1, 2, 3, 4, 5, 6);
    const bool two = chance(a, 20);
    arrange_line(a, "let rows = load(S[i*%d +: %d])[:, None];", x->tm, x->tm);
    arrange_line(a, "let columns = load(C[0 +: %d])[None, :];", x->tn);
    arrange_line(a, "let both = rows * columns;");
    arrange_line(a, "let none = zeros([%d, %d], f32);", x->tm, x->tn);
    arrange_line(
        a, "var c = %s;", chance(a, 80) ? "none" : CHOOSE(a, "rows + columns", "none + 1.0", "both"));
    if (two) arrange_line(a, "var e = none;");

    arrange_line(a, "for k in %s {", scene_bounds(x, deep(x)));
    a->indent++;
    arrange_line(a, "let p = mma(%s, %s);", operand_of(x, false), operand_of(x, true));
    switch (forms) {
    case 0: arrange_line(a, "c += p * %s;", factor(x)); break;
    case 1: arrange_line(a, "c += p * %s * %s;", factor(x), factor(x)); break;
    case 2: arrange_line(a, "c = c * %s + p;", CHOOSE(a, "0.5", "rows * 0.25", "f32(k % 2)", "-1.0")); break;
    case 3: arrange_line(a, "c = c + %s * p;", factor(x)); break;
    case 4: arrange_line(a, "c = p * %s - c;", factor(x)); break;
    case 5:
        arrange_line(a, "c += mma(%s, %s, p) * %s;", operand_of(x, false), operand_of(x, true), factor(x));
        break;
    default: arrange_line(a, "c += p;"); break;
    }
    if (chance(a, 15) || forms == 4) arrange_line(a, "c = clamp(c, -4096.0, 4096.0);");
    if (two) arrange_line(a, "e += p * %s;", factor(x));
    if (chance(a, 12))
        arrange_line(a, "if k == 1 { store(ROWS[i*%d +: %d, 7 +: 1], c[:, 0 +: 1]); }", x->tm, x->tm);
    a->indent--;
    arrange_line(a, "}");
    if (two) arrange_line(a, "c = c - e * 0.5;");
    arrange_line(a, "store(ON[i*%d +: %d, 0 +: %d], c%s);", x->tm, x->tm, x->tn,
        CHOOSE(a, "", "", " * rows", " + columns"));
}

/* A product of few positions behind another one, whose right operand is a whole axis. */
static void low_rank(Scene *x)
{
    Arranger *a = x->a;
    const char *t = elem_name(a->type);
    char *whole = text();
    arrange_write(whole, EXPR, "0 +: %d", x->d);
    arrange_line(a, "var z = zeros([%d, %d], f32);", x->tm, x->d);
    arrange_line(a, "for k in %s {", scene_bounds(x, deep(x)));
    arrange_line(a, "    z = mma(load(A[i*%d +: %d, k*%d +: %d]), load(W[k*%d +: %d, %s]), z);", x->tm, x->tm,
        x->tk, x->tk, x->tk, x->tk, chance(a, 50) ? ":" : whole);
    arrange_line(a, "}");
    arrange_line(
        a, "let small = clamp(round(z * 0.25), -4.0, 4.0)%s;", CHOOSE(a, "", " + 1.0", " * 0.5 - 0.5"));
    arrange_line(a, "for j in %s {", scene_bounds(x, scene_columns(x)));
    a->indent++;
    arrange_line(a, "let y = load(X[i*%d +: %d, j*%d +: %d]);", x->tm, x->tm, x->tn, x->tn);
    arrange_line(a,
        "store(ON[i*%d +: %d, j*%d +: %d], mma(%s(small), transpose(load(V[j*%d +: %d, %s])), y));", x->tm,
        x->tm, x->tn, x->tn, t, x->tn, x->tn, chance(a, 50) ? ":" : whole);
    a->indent--;
    arrange_line(a, "}");
    if (chance(a, 30)) arrange_line(a, "store(OD[i*%d +: %d, 0 +: %d], z);", x->tm, x->tm, x->d);
}

/* --- parts of tiles: sliced-loads, constant-matrices --------------------------------------------------- */

static void slices(Scene *x)
{
    Arranger *a = x->a;
    const bool matrices = a->type != I8 && chance(a, 50), in_loop = chance(a, 40);
    if (in_loop) arrange_line(a, "for u in 0 .. 2 {"), a->indent++;
    arrange_line(a, "let t = load(HEADS[%si*%d +: %d, 0 +: %d, 0 +: %d]);",
        CHOOSE(a, "", "", "1 + ", "-1 + "), x->tm, x->tm, x->heads, x->d);
    for (int h = 0; h < x->heads; h++) {
        if (chance(a, 10)) continue;
        const int from = chance(a, 85) ? h : below(a, x->heads);
        char one[96];
        if (chance(a, 80)) snprintf(one, sizeof one, "t[:, %d, :]", from);
        else snprintf(one, sizeof one, "reshape(t[:, %d +: 1, :], [%d, %d])", from, x->tm, x->d);
        if (matrices)
            arrange_line(a, "store(OH[i*%d +: %d, %d, :], mma(%s, load(W[0 +: %d, 0 +: %d])));", x->tm, x->tm,
                h, one, x->d, x->d);
        else arrange_line(a, "store(OH[i*%d +: %d, %d, :], f32(%s) + %d.0);", x->tm, x->tm, h, one, h);
    }
    if (chance(a, 20))
        arrange_line(a, "store(ROWS[i*%d +: %d, 6 +: 1], f32(t[:, :, 0])[:, 0 +: 1]);", x->tm, x->tm);
    if (in_loop) a->indent--, arrange_line(a, "}");
}

static void transform(Scene *x)
{
    Arranger *a = x->a;
    const int r = x->r;
    arrange_line(a, "let t = load(RECORDS[i*32 +: 32, 0 +: %d, 0 +: %d]);", r, r);
    arrange_line(a, "let u = arange(%d);", r);
    arrange_line(a, "let basis = f32((u[:, None] * %d + u[None, :] * u[None, :]) %% 5 - 2)%s;",
        1 + below(a, 4), CHOOSE(a, "", "", " * load(S[0])", " + where(u[:, None] == u[None, :], 1.0, 0.0)"));
    arrange_line(a, "let y = sum(basis[None, :, :, None] * t[:, None, :, :], axis = 2, drop = true);");
    if (chance(a, 60))
        arrange_line(a, "let z = sum(y[:, :, None, :] * %s, axis = 3, drop = true);",
            CHOOSE(a, "basis[None, None, :, :]", "transpose(basis)[None, None, :, :]",
                "f32(u)[None, None, None, :]"));
    else arrange_line(a, "let z = y%s;", CHOOSE(a, "", " - t", " * 2.0"));
    arrange_line(
        a, "store(OR[i*32 +: 32, 0 +: %d, 0 +: %d], z%s);", r, r, CHOOSE(a, "", " + sum(y, axis = 1)"));
}

/* --- bytes and windows of neighbours: half-integers, pack ---------------------------------------------- */

static void bytes(Scene *x)
{
    Arranger *a = x->a;
    const int n = 2 + below(a, 3), steps = 3 + below(a, 7);
    for (int k = 0; k < n; k++)
        arrange_line(a, "let p%d = %s(load(BYTES[i*%d%s +: %d, %d +: %d]%s));", k,
            k == 1 && chance(a, 20) ? "u32" : "i32", x->tm, CHOOSE(a, "", "", " + 1", " - 1"), x->tm,
            below(a, 4) - 1, x->tn, CHOOSE(a, "", "", ", pad = u8(77)"));
    arrange_line(a, "var s = p0;");
    for (int k = 0; k < steps; k++) {
        const int p = below(a, n), c = 1 + below(a, 40);
        char with[32];
        snprintf(with, sizeof with, "i32(p%d)", p);
        switch (below(a, 9)) {
        case 0: arrange_line(a, "s = s + %s * %d;", with, c); break;
        case 1: arrange_line(a, "s = (s + %s + 1) >> %d;", with, 1 + c % 3); break;
        case 2: arrange_line(a, "s = %s(s, %s);", CHOOSE(a, "min", "max"), with); break;
        case 3: arrange_line(a, "s = s - min(s, %s);", with); break;
        case 4: arrange_line(a, "s = (s & %d) %s %s;", c, CHOOSE(a, "+", "|", "^"), with); break;
        case 5: arrange_line(a, "s = s + 255 - %s;", with); break;
        case 6: arrange_line(a, "s = (s << %d) + %s;", c % 4, with); break;
        default: arrange_line(a, "s = s + %s;", with); break;
        }
    }
    arrange_line(a, "store(OB[i*%d +: %d, 0 +: %d], u8(s >> %d));", x->tm, x->tm, x->tn, below(a, 9));
    if (chance(a, 50)) arrange_line(a, "store(OW[i*%d +: %d, 0 +: %d], s);", x->tm, x->tm, x->tn);
}

/* A row for each program, and rows of its neighbours. */
static void neighbours(Scene *x)
{
    Arranger *a = x->a;
    const int n = 2 + below(a, 4), step = chance(a, 80) ? 1 : 2, from = below(a, 4);
    arrange_line(a, "var s = zeros([%d], f32);", x->tn);
    for (int k = 0; k < n; k++)
        for (int c = 0; c <= (n == 3); c++)
            arrange_line(a, "s = s + load(X[%s + %d, %d +: %d]%s) * %d.0;",
                CHOOSE(a, "i", "i", "i", "i", "i", "i % 2"), step * k - from, c, x->tn,
                CHOOSE(a, "", "", ", pad = 3.0"), k + 1);
    arrange_line(a, "store(OV[i, 0 +: %d], s%s);", x->tn, CHOOSE(a, "", "", " + sum(s)"));
}

/* --- the whole ---------------------------------------------------------------------------------------- */

static const char *const functions =
    "fn better(a, b) { return (b[0] > a[0] ? b[0] : a[0], b[0] > a[0] ? b[1] : a[1]); }\n"
    "fn mix(a, b) { return a ^ b; }\n";

static void sizes(Scene *x)
{
    Arranger *a = x->a;
    const bool ragged = chance(a, 50);
    const int m = x->tm * (1 + below(a, 4)) - (ragged ? below(a, x->tm) : 0),
              n = x->tn * (1 + below(a, 5)) - (ragged ? below(a, x->tn) : 0),
              k = x->tk * (chance(a, 5) ? 0 : 1 + below(a, 5));
    const int kk = k && ragged ? k - below(a, x->tk) : k;
    snprintf(a->k->sizes, sizeof a->k->sizes,
        "M=%d N=%d K=%d D=%d L=%d H=%d R=%d KB=%d KG=%d P=%d BM=%d BN=%d BK=%d", m, n, kk, x->d,
        1 + below(a, 5), x->heads, x->r, (kk + 7) / 8, (kk + 15) / 16,
        x->matrices * (1 + below(a, 4)) - (ragged ? below(a, x->matrices) : 0),
        x->rows - (ragged ? below(a, x->rows) : 0), x->columns - (ragged ? below(a, x->columns) : 0),
        x->deep * (1 + below(a, 3)) - (ragged ? below(a, x->deep) : 0));
}

void random_patterns(uint64_t seed, RandomKernel *out)
{
    static void (*const scenes[])(Scene *) = { trimmed, trimmed, trimmed, grouped, grouped, scaled, scaled,
        scaled, low_rank, slices, transform, bytes, bytes, scene_extremes, neighbours, neighbours,
        scene_batch, scene_batch, scene_read_both_ways, scene_own_magnitude, scene_own_magnitude };
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 13 + 7 } }, *a = &arranger;
    Scene scene = { .a = a }, *x = &scene;
    a->type = (Elem)ONE_OF(a, F16, F16, F16, BF16, F32, E4M3);
    x->tm = ONE_OF(a, 8, 16, 32, 64, 64, 128, 5);
    x->tn = ONE_OF(a, 8, 16, 32, 64, 64, 24);
    x->tk = ONE_OF(a, 8, 16, 32, 32, 64);
    x->d = ONE_OF(a, 8, 16, 32, 64, 4, 1);
    x->heads = 1 + below(a, 5);
    x->r = ONE_OF(a, 2, 3, 4, 8);
    x->matrices = ONE_OF(a, 2, 4, 8, 16, 3, 1);
    x->rows = ONE_OF(a, 16, 16, 32, 48, 8);
    x->columns = ONE_OF(a, 8, 16, 16, 32, 24);
    x->deep = ONE_OF(a, 16, 16, 32, 8);
    char hint[64] = "";
    if (chance(a, 35))
        snprintf(hint, sizeof hint, " hint (%s)",
            CHOOSE(a, "warps = 4", "warps = 8", "stages = 2", "persistent = 0", "split_k = 2", "split_k = 4",
                "cluster = 2", "warp_specialize = 0", "cp_async_producer = 1", "persistent = 1"));
    arrange_line(a, "    grid (cdiv(M, %d))%s", x->tm, hint);
    arrange_line(a, "{");
    a->indent = 1;
    arrange_line(a, "let i = program_id();");
    arrange_line(a, "let row = i*%d + arange(%d)[:, None];", x->tm, x->tm);
    bool alone = false;
    for (int n = 1 + chance(a, 30), all = n, before = -1; n; n--) {
        const int s = below(a, (int)(sizeof scenes / sizeof *scenes));
        if (before >= 0 && scenes[s] == scenes[before]) continue;
        arrange_line(a, "{");
        a->indent = 1;
        scenes[s](x);
        alone = all == 1 && scenes[s] == scene_own_magnitude;
        arrange_line(a, "}");
        before = s;
    }
    a->indent = 0;
    arrange_line(a, "}");
    sizes(x);
    random_head(a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .functions = functions,
            .always = " X A V CNT HEADS BITS GROUPED RECORDS ",
            .views = 10,
            .extremes = alone && chance(a, 50) },
        "");
}
