/* random_product.c: random kernels whose loops multiply matrices: see random_kernel.h. Operands come as
 * engines have them: windows, transposed, shifted by taps, with steps, of gathered rows, of 8 and 4 bits,
 * masked, scaled; several products a step; online softmax; what meets the sums behind the loop; hints that
 * divide, share and fill; loops over tiles and groups written by hand around the loop of a product. */
#include "random_kernel.h"
#include "ref_random.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Maker {
    RefRandom random;
    char text[8192];
    size_t length;
    const char *type;
    int tm, tn, tk;
    int place; /* where a tensor is read that the product is added to in place */
} Maker;

static int below(Maker *m, int n) { return (int)ref_random_below(&m->random, (uint64_t)n); }
static bool chance(Maker *m, int percent) { return below(m, 100) < percent; }
#define CHOOSE(m, ...) \
    ((const char *const[]){ \
        __VA_ARGS__ })[below(m, (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))]
#define ONE_OF(m, ...) \
    ((const int[]){ __VA_ARGS__ })[below(m, (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))]

static void line(Maker *m, const char *format, ...)
{
    va_list args;
    size_t room = sizeof m->text - m->length;
    va_start(args, format);
    int n = vsnprintf(m->text + m->length, room, format, args);
    va_end(args);
    m->length += (size_t)n < room ? (size_t)n : room - 1;
    if (m->length + 2 < sizeof m->text) m->text[m->length++] = '\n', m->text[m->length] = 0;
}

static const char *ahead(Maker *m)
{ return CHOOSE(m, ", latency = 3", ", latency = 2", ", latency = 2", ""); }

/* `name`, a tile [tm, tk] of rows i*tm.. */
static void left(Maker *m, const char *name)
{
    const char *T = m->type;
    int tm = m->tm, tk = m->tk;
    switch (below(m, 14)) {
    case 0:
        line(m, "        let %s = transpose(load(AT[k*%d +: %d, i*%d +: %d]%s));", name, tk, tk, tm, tm,
            ahead(m));
        break;
    case 1:
        line(m, "        let %s = load(A[i*%d + %d +: %d, k*%d +: %d]%s);", name, tm, below(m, 9) - 3, tm, tk,
            tk, ahead(m));
        break;
    case 2:
        line(m, "        let %s = load(A[%d*i*%d + %d +: %d : %d, k*%d +: %d]%s);", name, 2, tm,
            below(m, 3) - 1, tm, 2, tk, tk, ahead(m));
        break;
    case 3:
        line(m, "        let %s = load(A[i*%d +: %d, k*%d + %d +: %d]%s);", name, tm, tm, tk,
            below(m, 21) - 10, tk, ahead(m));
        break;
    case 4:
        line(m, "        let %s = gather(E[id[:, None], (k*%d + arange(%d))[None, :]]);", name, tk, tk);
        break;
    case 5:
        line(m,
            "        let %s = gather(E[id[:, None], (k*%d + arange(%d))[None, :]], mask = (id %% 3 != 1)[:, "
            "None]);",
            name, tk, tk);
        break;
    case 6:
        line(m, "        let %s_b = load(W[i*%d +: %d, k*%d +: %d]%s);", name, tm, tm, tk / 2, tk / 2,
            ahead(m));
        line(m,
            "        let %s = reshape(concat(%s(%s_b & 15)[:, :, None] - 8.0, %s(%s_b >> 4)[:, :, None] - "
            "8.0, axis = 2), [%d, %d])%s;",
            name, T, name, T, name, tm, tk, chance(m, 50) ? " * 0.25" : "");
        break;
    case 7:
        line(m, "        let %s = %s(load(I[i*%d +: %d, k*%d +: %d]%s))%s;", name, T, tm, tm, tk, tk,
            ahead(m), chance(m, 50) ? " * 0.125" : "");
        break;
    case 8:
        line(m, "        let %s = %s(load(I[i*%d +: %d, k*%d +: %d]%s)) * load(C[i*%d +: %d])[:, None];",
            name, T, tm, tm, tk, tk, ahead(m), tm, tm);
        break;
    case 9:
        line(m, "        let %s_a = load(A[i*%d +: %d, k*%d +: %d]%s);", name, tm, tm, tk, tk, ahead(m));
        line(m, "        let %s = where((row + k*%d + arange(%d)[None, :]) %% 3 != 0, %s_a, %s);", name, tk,
            tk, name, CHOOSE(m, "0.0", "-1.0"));
        break;
    case 10:
        line(m, "        let %s = %s(load(A[i*%d +: %d, k*%d +: %d]%s), 0.0);", name, CHOOSE(m, "max", "min"),
            tm, tm, tk, tk, ahead(m));
        break;
    case 11:
        line(m, "        let %s = %s(load(F[i*%d +: %d, k*%d +: %d]%s));", name, T, tm, tm, tk, tk, ahead(m));
        break;
    default:
        line(m, "        let %s = load(A[i*%d +: %d, k*%d +: %d]%s);", name, tm, tm, tk, tk, ahead(m));
        break;
    }
}

/* `name`, a tile [tk, tn] of columns j*tn.. */
static void right(Maker *m, const char *name)
{
    int tn = m->tn, tk = m->tk;
    switch (below(m, 11)) {
    case 0:
        line(m, "        let %s = transpose(load(BT[j*%d +: %d, k*%d +: %d]%s));", name, tn, tn, tk, tk,
            ahead(m));
        break;
    case 1:
        line(m, "        let %s = transpose(load(BT[j*%d + %d +: %d, k*%d +: %d]%s));", name, tn,
            below(m, 7) - 3, tn, tk, tk, ahead(m));
        break;
    case 6:
        line(m, "        let %s = %s(load(G[k*%d +: %d, j*%d +: %d]%s));", name, m->type, tk, tk, tn, tn,
            ahead(m));
        break;
    case 2:
        line(m, "        let %s = load(B[k*%d + %d +: %d, j*%d +: %d]%s);", name, tk, below(m, 5) - 2, tk, tn,
            tn, ahead(m));
        break;
    case 3:
        line(m, "        let %s = load(B[k*%d +: %d, j*%d + %d +: %d]%s);", name, tk, tk, tn,
            below(m, 21) - 10, tn, ahead(m));
        break;
    case 4:
        line(m, "        let %s = load(B[2*k*%d +: %d : 2, j*%d +: %d]%s);", name, tk, tk, tn, tn, ahead(m));
        break;
    case 5:
        line(m, "        let %s = transpose(gather(BT[jd[:, None], (k*%d + arange(%d))[None, :]]));", name,
            tk, tk);
        break;
    default:
        line(m, "        let %s = load(B[k*%d +: %d, j*%d +: %d]%s);", name, tk, tk, tn, tn, ahead(m));
        break;
    }
}

static const char *hint(Maker *m, char *out, size_t size)
{
    static const char *const all[] = { "split_k = 2", "split_k = 4", "cluster = 2", "cp_async_producer = 1",
        "cp_async_producer = 0", "stages = 2", "persistent = 0", "warp_specialize = 0", "warps = 8",
        "pingpong = 1", "cluster = 2, cluster_axis = 0", "cp_async_producer = 1, split_k = 2", "pack = 2",
        "pack = 3", "pack = 2, warp_specialize = 0" };
    *out = 0;
    if (chance(m, 60)) snprintf(out, size, " hint (%s)", all[below(m, (int)(sizeof all / sizeof *all))]);
    return out;
}

/* A tensor that the product is added to in place: it is read behind the loop, in it or before it. */
enum { PLACE_NONE, PLACE_BEHIND, PLACE_IN_LOOP, PLACE_BEFORE };

static void place(Maker *m, int where)
{
    if (m->place != where) return;
    line(m, "    %s load(D[i*%d +: %d, j*%d +: %d]%s);",
        where == PLACE_IN_LOOP ? "z = z +" : "let old =", m->tm, m->tm, m->tn, m->tn, ahead(m));
}

static void sums(Maker *m)
{
    static const char *const acc[] = { "y", "z" };
    int n = 1 + below(m, 3), two = n > 1 && chance(m, 50);
    char h[64], steps[64];
    line(m, "    grid (cdiv(N, %d), cdiv(M, %d))%s%s", m->tn, m->tm,
        chance(m, 20) ? " raster (group = 2)" : "", hint(m, h, sizeof h));
    line(m, "{");
    line(m, "    let (j, i) = program_id();");
    line(m, "    let row = i*%d + arange(%d)[:, None];", m->tm, m->tm);
    line(m, "    let id = load(ID[i*%d +: %d], pad = -1);", m->tm, m->tm);
    line(m, "    let jd = load(JD[j*%d +: %d], pad = 1000);", m->tn, m->tn);
    line(m, "    var y = zeros([%d, %d], f32);", m->tm, m->tn);
    line(m, "    var z = zeros([%d, %d], f32);", m->tm, m->tn);
    place(m, PLACE_BEFORE);
    snprintf(steps, sizeof steps,
        CHOOSE(m, "cdiv(K, %d)", "cdiv(K, %d)", "cdiv(K, %d)", "cdiv(K, %d)", "min(cdiv(K, %d), i + 1)",
            "cdiv(K, %d) * (j %% 2)"),
        m->tk);
    if (chance(m, 20)) { /* a filter's taps and channels in one loop */
        line(m, "    for t in 0 .. 3*%s {", steps);
        line(m, "        let k = t %% cdiv(K, %d);", m->tk);
        line(m, "        let d = t / cdiv(K, %d) - 1;", m->tk);
        line(m, "        let b9 = load(B[k*%d +: %d, j*%d +: %d]%s);", m->tk, m->tk, m->tn, m->tn, ahead(m));
        line(m, "        z = mma(load(A[i*%d + d +: %d, k*%d +: %d]%s), b9, z);", m->tm, m->tm, m->tk, m->tk,
            ahead(m));
    } else line(m, "    for k in %s .. %s {", CHOOSE(m, "0", "0", "0", "i % 2", "-1"), steps);
    left(m, "a0");
    right(m, "b0");
    line(m, "        y = mma(a0, b0, y%s);", chance(m, 8) ? " * 0.5" : "");
    for (int p = 1; p < n; p++) {
        char a[4] = "a0", b[4] = "b0";
        bool new_a = chance(m, 60), new_b = !new_a || chance(m, 60);
        if (new_a) snprintf(a, sizeof a, "a%d", p), left(m, a);
        if (new_b) snprintf(b, sizeof b, "b%d", p), right(m, b);
        line(m, "        %s = mma(%s, %s, %s);", acc[two], a, b, acc[two]);
    }
    place(m, PLACE_IN_LOOP);
    line(m, "    }");
    place(m, PLACE_BEHIND);
    if (chance(m, 40)) line(m, "    y = y * load(S[i*%d +: %d])[:, None];", m->tm, m->tm);
    if (chance(m, 40))
        line(m, "    y = y + f32(load(R[i*%d +: %d, j*%d +: %d]));", m->tm, m->tm, m->tn, m->tn);
    if (chance(m, 25))
        line(m, "    y = %s;",
            CHOOSE(m, "max(y, 0.0)", "tanh(y * 0.01)", "y * sigmoid(y * 0.05)", "y + z * 0.5"));
    line(m, "    store(Y[i*%d +: %d, j*%d +: %d], %s(y));", m->tm, m->tm, m->tn, m->tn, m->type);
    line(m, "    store(Z[i*%d +: %d, j*%d +: %d], z%s);", m->tm, m->tm, m->tn, m->tn,
        CHOOSE(m, "", " + y", " + max(y, axis = 1)", " + sum(y, axis = 0)"));
    if (m->place)
        line(m, "    store(D[i*%d +: %d, j*%d +: %d], %s);", m->tm, m->tm, m->tn, m->tn,
            m->place == PLACE_IN_LOOP ? "y - z" : "0.5 * old + y");
}

/* Rows of A as queries, B transposed as keys, R's rows as values: N keys. */
static void softmax(Maker *m)
{
    const char *T = m->type;
    char h[64];
    int tn = m->tn, tm = m->tm, how = below(m, 4);
    line(m, "    grid (cdiv(M, %d))%s", tm, hint(m, h, sizeof h));
    line(m, "{");
    line(m, "    let i = program_id();");
    line(m, "    let row = i*%d + arange(%d)[:, None];", tm, tm);
    line(m, "    let q = load(A[i*%d +: %d, 0 +: %d]);", tm, tm, m->tk);
    line(m, "    var m = full([%d, 1], %s, f32);", tm, CHOOSE(m, "-inf", "-inf", "-inf", "0.0"));
    line(m, "    var l = zeros([%d, 1], f32);", tm);
    line(m, "    var acc = zeros([%d, %d], f32);", tm, m->tk);
    line(m, chance(m, 60) ? "    for j in 0 .. cdiv(N, %d) {" : "    for j in 0 .. min(cdiv(N, %d), i + 1) {",
        tn);
    line(m, "        let col = j*%d + arange(%d)[None, :];", tn, tn);
    if (how == 0)
        line(m, "        let key = gather(BT[load(JD[j*%d +: %d], pad = -1)[:, None], arange(%d)[None, :]]);",
            tn, tn, m->tk);
    else if (how == 1)
        line(m, "        let key = transpose(load(B[0 +: %d, j*%d +: %d]%s));", m->tk, tn, tn, ahead(m));
    else line(m, "        let key = load(BT[j*%d +: %d, 0 +: %d]%s);", tn, tn, m->tk, ahead(m));
    line(m, "        var s = mma(q, transpose(key)) * 0.125;");
    if (chance(m, 25)) line(m, "        s = s + f32(load(R[i*%d +: %d, j*%d +: %d]));", tm, tm, tn, tn);
    if (chance(m, 20)) line(m, "        s = 5.0 * tanh(s / 5.0);");
    if (chance(m, 20)) line(m, "        s = s - f32(row - col) * 0.03;");
    const char *seen = CHOOSE(m, "col < N", "col < N", "col < N && row >= col",
        "col < N && row - col < 40 && row >= col", "col < N && (row + col) % 5 != 0");
    line(m, "        s = where(%s, s, -inf);", seen);
    line(m, "        let n = max(m, max(s, axis = 1));");
    /* A row that is empty in its first step gives NaN without the guard. If the loop is divided, it may give
     * a number. */
    bool guarded = chance(m, 50) || strstr(seen, "40");
    if (guarded) line(m, "        let base = where(n == -inf, 0.0, n);");
    line(m, "        let p = exp(s - %s);", guarded ? "base" : "n");
    line(m, "        let c = exp(m - %s);", guarded ? "base" : "n");
    line(m, "        l = l*c + sum(p, axis = 1);");
    if (chance(m, 30))
        line(m,
            "        let value = gather(BT[load(JD[j*%d +: %d], pad = -1)[:, None], arange(%d)[None, :]]);",
            tn, tn, m->tk);
    else line(m, "        let value = load(V[j*%d +: %d, 0 +: %d]%s);", tn, tn, m->tk, ahead(m));
    line(m, "        acc = mma(%s(p), value, acc*c);", T);
    line(m, "        m = n;");
    line(m, "    }");
    line(m, "    store(O[i*%d +: %d, 0 +: %d], %s(acc / l));", tm, tm, m->tk, T);
    if (chance(m, 50))
        line(
            m, "    store(L[i*%d +: %d], reshape(%s, [%d]));", tm, tm, CHOOSE(m, "l", "m", "m + log(l)"), tm);
}

/* The sums `acc` of the tile (i, j), rows from `first` on: in one loop, of steps with scales, or of groups of
 * steps with scales, of rows, of columns and of the whole tile. */
static void tile_of_sums(Maker *m, bool grouped)
{
    int how = below(m, 3), tk = m->tk;
    char right[64], left[80], scales[160] = "";
    snprintf(left, sizeof left, "load(A[first +: %d, k*%d +: %d]%s)", m->tm, tk, tk, ahead(m));
    snprintf(right, sizeof right, "load(%s, j*%d +: %d])", grouped ? "BG[g, k*TK +: TK" : "B[k*TK +: TK",
        m->tn, m->tn);
    if (chance(m, 60)) snprintf(scales + strlen(scales), 80, " * load(SM[first +: %d, s])[:, None]", m->tm);
    if (chance(m, 40))
        snprintf(scales + strlen(scales), 80, " * load(SN[s, j*%d +: %d])[None, :]", m->tn, m->tn);
    line(m, "        var acc = zeros([%d, %d], f32);", m->tm, m->tn);
    if (how < 2) line(m, "        for k in %s .. cdiv(K, TK) {", CHOOSE(m, "0", "0", "i % 2"));
    if (how == 0) line(m, "            acc = mma(%s, %s, acc);", left, right);
    if (how == 1) {
        line(m, "            let s = k;");
        line(m, "            acc = acc + mma(%s, %s)%s;", left, right, scales);
    }
    if (how < 2) {
        line(m, "        }");
        return;
    }
    line(m, "        for s in 0 .. cdiv(K, 2*TK) {");
    line(m, "            var part = zeros([%d, %d], f32);", m->tm, m->tn);
    line(m, "            for k in 2*s .. min(2*s + 2, cdiv(K, TK)) { part = mma(%s, %s, part); }", left,
        right);
    line(m, "            acc = acc + part%s;", scales);
    line(m, "        }");
}

/* Programs that take every second tile, of one product or of groups whose ends are loaded. */
static void walk(Maker *m)
{
    bool grouped = chance(m, 50), counted = chance(m, 50);
    char h[64];
    line(m, "    grid (2)%s", hint(m, h, sizeof h));
    line(m, "{");
    line(m, "    const int TK = %d;", m->tk);
    line(m, "    let columns = cdiv(N, %d);", m->tn);
    if (!counted) line(m, "    var t = program_id();");
    line(m, "    var done = index(0);");
    line(m, grouped ? "    for g in 0 .. G {" : "    for g in 0 .. 1 {");
    line(m, grouped ? "    let begin = index(load(START[g]));" : "    let begin = index(0);");
    line(m, grouped ? "    let end = index(load(START[g + 1]));" : "    let end = M;");
    line(m, "    let tiles = cdiv(end - begin, %d) * columns;", m->tm);
    if (counted) line(m, "    for t in done + (program_id() + done) %% 2 .. done + tiles : 2 {");
    else line(m, "    while t < done + tiles {");
    line(m, "        let i = (t - done) / columns;");
    line(m, "        let j = (t - done) %% columns;");
    line(m, "        let first = begin + i*%d;", m->tm);
    tile_of_sums(m, grouped);
    line(m, "        if first + %d <= end { store(YG[first +: %d, j*%d +: %d], %s(acc)); }", m->tm, m->tm,
        m->tn, m->tn, m->type);
    line(m, "        else {");
    line(m, "            let row = first + arange(%d)[:, None];", m->tm);
    line(m, "            scatter(YG[row, j*%d + arange(%d)[None, :]], %s(acc), mask = row < end);", m->tn,
        m->tn, m->type);
    line(m, "        }");
    if (!counted) line(m, "        t = t + 2;");
    line(m, "    }");
    line(m, "    done = done + tiles;");
    line(m, "    }");
}

void random_product(uint64_t seed, RandomKernel *out)
{
    /* T: the kernel's type of 16 bits */
    static const struct {
        const char *role, *name, *dims, *type, *fill;
    } all[] = {
        { "in", "A", "MA,K", "T", "" },
        { "in", "AT", "K,M", "T", "" },
        { "in", "B", "KB,N", "T", "" },
        { "in", "BT", "N,K", "T", "" },
        { "in", "E", "VR,K", "T", "" },
        { "in", "ID", "M", "i32", " int:VR" },
        { "in", "JD", "N", "i32", " int:N" },
        { "in", "W", "M,H", "u8", "" },
        { "in", "I", "M,K", "i8", "" },
        { "in", "F", "M,K", "f8e4m3", "" },
        { "in", "G", "K,N", "f8e5m2", "" },
        { "in", "C", "M", "T", "" },
        { "in", "S", "M", "f32", "" },
        { "in", "R", "M,N", "T", "" },
        { "in", "V", "N,K", "T", "" },
        { "in", "START", "G1", "i32", " offsets:M" },
        { "in", "BG", "G,K,N", "T", "" },
        { "in", "SM", "M,K", "f32", " unit" },
        { "in", "SN", "K,N", "f32", " unit" },
        { "inout", "YG", "M,N", "T", "" },
        { "inout", "D", "M,N", "f32", "" },
        { "out", "Y", "M,N", "T", "" },
        { "out", "Z", "M,N", "f32", "" },
        { "out", "O", "M,K", "T", "" },
        { "out", "L", "M", "f32", "" },
    };
    memset(out, 0, sizeof *out);
    Maker maker = { .random = { seed * 3 + 1 } }, *m = &maker;
    bool online = chance(m, 35), even = chance(m, 60);
    m->type = chance(m, 65) ? "f16" : "bf16";
    m->tm = ONE_OF(m, 16, 64, 64, 64, 128);
    m->tn = ONE_OF(m, 16, 32, 64, 64, 128, 24);
    m->place = seed % 6 == 2    ? PLACE_BEHIND
               : seed % 18 == 3 ? PLACE_IN_LOOP
               : seed % 18 == 9 ? PLACE_BEFORE
                                : PLACE_NONE;
    if (m->place == PLACE_BEHIND && seed % 4 == 0) m->tn = 256; /* more than registers hold beside the sums */
    m->tk = online ? ONE_OF(m, 32, 64, 64) : ONE_OF(m, 16, 32, 32, 64, 64);
    if (seed % 5 == 4) walk(m);
    else if (online) softmax(m);
    else sums(m);
    line(m, "}");
    int used = snprintf(out->text, sizeof out->text, "kernel random(");
    snprintf(out->launch, sizeof out->launch, "random");
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        char mention[8];
        const char *type = *all[k].type == 'T' ? m->type : all[k].type, *first = *out->tensors ? "; " : "";
        snprintf(mention, sizeof mention, "(%s[", all[k].name);
        if (!strstr(m->text, mention) && strcmp(all[k].name, "BT"))
            continue; /* BT: a tensor that has K is always there */
        used += snprintf(out->text + used, sizeof out->text - (size_t)used, "%s%s %s %s[%s]",
            *first ? ", " : "", all[k].role, type, all[k].name, all[k].dims);
        snprintf(out->tensors + strlen(out->tensors), sizeof out->tensors - strlen(out->tensors),
            "%s%s %s[%s] %s%s", first, all[k].role, all[k].name, all[k].dims, type, all[k].fill);
        snprintf(
            out->launch + strlen(out->launch), sizeof out->launch - strlen(out->launch), " %s", all[k].name);
    }
    snprintf(out->text + used, sizeof out->text - (size_t)used, ")\n%s", m->text);
    int groups = 1 + (int)(seed / 5 % 4), rows = even ? 8 * (1 + below(m, 20)) : 1 + below(m, 150),
        cols = even ? 8 * (1 + below(m, 20)) : 1 + below(m, 150),
        k = online ? m->tk
            : even ? 8 * (1 + below(m, 26))
                   : 1 + below(m, 200);
    snprintf(out->sizes, sizeof out->sizes, "M=%d N=%d K=%d MA=%d KB=%d VR=%d H=%d G=%d G1=%d", rows, cols, k,
        2 * rows + below(m, 3), 2 * k + below(m, 3), 1 + below(m, 60), (k + 1) / 2, groups, groups + 1);
}
