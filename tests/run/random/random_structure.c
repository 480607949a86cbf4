/* random_structure.c: random kernels whose structure varies: see random_kernel.h. Loops of every bound in
 * each other, programs that walk over tiles, early returns, results at several levels of loops, atomics and
 * ordered additions beside products, gathers beside masks, windows that lie anywhere, sizes that are chosen.
 *
 * Tiles are of whole numbers, clamped before they can grow, so that all sums are exact and results equal
 * whatever the order of additions. Only additions in a fixed order take numbers with fractions. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

/* The tensors of a kernel, of which it has those that its text names. T: the type of products. */
static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "f32", "int:9" },
    { "in", "Y", "M,N", "T", "int:3" },
    { "in", "Q", "M,N", "i32", "int:100" },
    { "in", "A", "M,K", "T", "int:2" },
    { "in", "B", "K,N", "T", "int:2" },
    { "in", "TABLE", "V,N", "f32", "int:9" },
    { "in", "ID", "M", "i32", "index:V" },
    { "in", "CNT", "L", "i32", "int:4" },
    { "in", "REAL", "M,N", "f32", "unit" },
    { "inout", "O", "M,N", "f32", "int:5" },
    { "inout", "I", "M,N", "i32", "int:5" },
    { "inout", "P", "G,M,N", "f32", "int:5" },
    { "inout", "R", "M", "f32", "int:5" },
    { "inout", "S", "N", "f32", "int:5" },
    { "inout", "H", "V", "i32", "int:5" },
    { "inout", "W", "2,N", "f32", "int:5" },
    { "inout", "U", "N", "f32", "unit" },
    { "inout", "F", "2,N", "f32", "unit" },
    { "inout", "ORDER", "STEPS", "i32", "int:0" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

typedef enum Form { ROWS_OF_TILES, TILES, WALK } Form;

typedef struct Nest {
    Arranger *a;
    Form form;
    int tm, tn, tk, budget, depth, loops, tiles, walkers;
    bool summed; /* there is `acc`, of products */
    bool ordered, returns;
} Nest;

/* A tile [TM, TN] of whole numbers that is known here: x0 is always. */
static const char *tile(Nest *n)
{
    static char name[4][12];
    static int turn;
    char *out = name[turn++ % 4];
    snprintf(out, sizeof name[0], "x%d", below(n->a, n->tiles));
    return out;
}

/* A number that is the same in all threads. */
static const char *scalar(Nest *n)
{
    Arranger *a = n->a;
    static char text[2][64];
    static int turn;
    char *out = text[turn++ % 2];
    if (n->loops && chance(a, 50)) snprintf(out, sizeof text[0], "k%d", below(a, n->loops));
    else if (chance(a, 40)) snprintf(out, sizeof text[0], "index(load(CNT[(i + %d) %% L]))", below(a, 4));
    else snprintf(out, sizeof text[0], "%s", CHOOSE(a, "i", "j", "i + j", "1", "2"));
    return out;
}

static const char *condition(Nest *n)
{
    Arranger *a = n->a;
    static char text[2][128];
    static int turn;
    char *out = text[turn++ % 2];
    if (chance(a, 25)) snprintf(out, sizeof text[0], "max(%s, drop = true) > %d.0", tile(n), below(a, 12));
    else snprintf(out, sizeof text[0], "%s %s %d", scalar(n), CHOOSE(a, ">", "<", "==", "!="), below(a, 4));
    return out;
}

/* rows, cols: the axes of a window of a tensor at this program's tile, or beside it. */
static const char *window(Nest *n)
{
    Arranger *a = n->a;
    static char text[2][96];
    static int turn;
    char *out = text[turn++ % 2], rows[40], cols[40];
    const int tm = n->tm, tn = n->tn;
    switch (below(a, 8)) {
    case 0: snprintf(rows, sizeof rows, "i*%d + %d +: %d", tm, below(a, 7) - 3, tm); break;
    case 1: snprintf(rows, sizeof rows, "2*i*%d +: %d : 2", tm, tm); break;
    case 2: snprintf(rows, sizeof rows, "%s +: %d", scalar(n), tm); break;
    default: snprintf(rows, sizeof rows, "i*%d +: %d", tm, tm); break;
    }
    switch (below(a, 8)) {
    case 0: snprintf(cols, sizeof cols, "j*%d + %d +: %d", tn, below(a, 9) - 4, tn); break;
    case 1: snprintf(cols, sizeof cols, "j*%d +: %d : 3", tn, tn); break;
    case 2: snprintf(cols, sizeof cols, "%s*%d +: %d", scalar(n), tn, tn); break;
    default: snprintf(cols, sizeof cols, "j*%d +: %d", tn, tn); break;
    }
    snprintf(out, sizeof text[0], "%s, %s", rows, cols);
    return out;
}

static const char *own_tile(Nest *n)
{
    static char text[64];
    snprintf(text, sizeof text, "i*%d +: %d, j*%d +: %d", n->tm, n->tm, n->tn, n->tn);
    return text;
}

/* --- statements -------------------------------------------------------------------------------------- */

static void let(Nest *n)
{
    Arranger *a = n->a;
    const char *x = tile(n), *y = tile(n);
    char e[300];
    switch (below(a, 11)) {
    case 0:
        snprintf(e, sizeof e, "load(X[%s]%s)", window(n), CHOOSE(a, "", ", pad = -1.0", ", latency = 2"));
        break;
    case 1: snprintf(e, sizeof e, "f32(load(Y[%s]))", window(n)); break;
    case 2: snprintf(e, sizeof e, "load(O[%s])", own_tile(n)); break;
    case 3:
        snprintf(e, sizeof e, "gather(TABLE[id[:, None], (j*%d + arange(%d))[None, :]]%s)", n->tn, n->tn,
            CHOOSE(a, "", ", mask = (id % 2 == 0)[:, None]", ", mask = row + col < M, pad = 2.0"));
        break;
    case 4:
        snprintf(e, sizeof e, "where(%s, %s, %s)",
            CHOOSE(a, "row >= col", "(row + col) % 3 == 1", "col < N && row < M", "id[:, None] > 2"), x, y);
        break;
    case 5:
        snprintf(e, sizeof e, "%s + %s(%s, axis = %d)", x, CHOOSE(a, "max", "min", "sum"), y, below(a, 2));
        break;
    case 6: snprintf(e, sizeof e, "%s(%s, axis = %d)", CHOOSE(a, "cumsum", "cummax"), x, below(a, 2)); break;
    case 7: snprintf(e, sizeof e, "%s - f32(%s)", x, scalar(n)); break;
    case 8: snprintf(e, sizeof e, "%s + f32(argmax(%s, axis = 1))", x, y); break;
    case 9: snprintf(e, sizeof e, n->summed ? "%s - acc" : "-%s", x); break;
    default: snprintf(e, sizeof e, "%s %s %s", x, CHOOSE(a, "+", "-", "*"), y); break;
    }
    /* either a new name, or a variable that loops carry */
    if (n->depth && chance(a, 55)) arrange_line(a, "x%d = clamp(%s, -8.0, 8.0);", below(a, n->tiles), e);
    else if (n->tiles < 8) arrange_line(a, "var x%d = clamp(%s, -8.0, 8.0);", n->tiles++, e);
}

static void product(Nest *n)
{
    if (!n->summed) return;
    char deep[40];
    const int k = n->loops ? below(n->a, n->loops) : -1;
    if (k < 0) snprintf(deep, sizeof deep, "0 +: %d", n->tk);
    else snprintf(deep, sizeof deep, "k%d*%d +: %d", k, n->tk, n->tk);
    arrange_line(n->a, "acc = mma(load(A[i*%d +: %d, %s]), load(B[%s, j*%d +: %d]), acc%s);", n->tm, n->tm,
        deep, deep, n->tn, n->tn, chance(n->a, 10) ? " - 1.0" : "");
    if (chance(n->a, 30)) arrange_line(n->a, "acc = clamp(round(acc), -64.0, 64.0);");
}

static void put(Nest *n)
{
    Arranger *a = n->a;
    switch (below(a, 5)) {
    case 0: arrange_line(a, "store(I[%s], i32(%s));", own_tile(n), tile(n)); break;
    case 1:
        if (n->loops)
            arrange_line(
                a, "store(P[clamp(k%d, 0, G - 1), %s], %s);", below(a, n->loops), own_tile(n), tile(n));
        break;
    case 2:
        if (n->form != TILES && n->form != WALK)
            arrange_line(a, "store(R[i*%d +: %d], sum(%s, axis = 1, drop = true));", n->tm, n->tm, tile(n));
        break;
    default:
        arrange_line(a, "store(O[%s], %s);", own_tile(n), n->summed && chance(a, 40) ? "acc" : tile(n));
        break;
    }
}

static void add(Nest *n)
{
    Arranger *a = n->a;
    switch (below(a, 4)) {
    case 0:
        arrange_line(a, "atomic_add(S[j*%d +: %d], sum(%s, axis = 0, drop = true));", n->tn, n->tn, tile(n));
        break;
    case 1:
        arrange_line(
            a, "atomic_add(H[id], i32(1)%s);", CHOOSE(a, "", ", mask = id % 2 == 0", ", mask = id > 1"));
        break;
    case 2:
        arrange_line(a, "atomic_add(H[clamp(%s, 0, V - 1)], i32(sum(%s, drop = true)));", scalar(n), tile(n));
        break;
    default:
        arrange_line(a, "atomic_add(W[0 +: 2, j*%d +: %d], %s(%s, axis = 0)%s);", n->tn, n->tn,
            CHOOSE(a, "sum", "max"), tile(n), " + zeros([2, 1], f32)");
        break;
    }
}

static void block(Nest *, int statements);

static const char *trips(Nest *n)
{
    Arranger *a = n->a;
    static char text[96];
    switch (below(a, 9)) {
    case 0: return "0 .. 1";
    case 1: snprintf(text, sizeof text, "0 .. index(load(CNT[i %% L]))"); break;
    case 2: snprintf(text, sizeof text, "index(load(CNT[j %% L])) .. 3"); break;
    case 3: return "0 .. min(3, i + 1)";
    case 4: return "i % 2 .. 3";
    case 5: return "0 .. 4 : 2";
    case 6:
        snprintf(text, sizeof text, "0 .. min(index(load(CNT[(i + j) %% L])), cdiv(K, %d))", n->tk);
        break;
    case 7: return "-1 .. 2";
    default: snprintf(text, sizeof text, "0 .. cdiv(K, %d)", n->tk); break;
    }
    return text;
}

static void inside(Nest *n, bool loop)
{
    const int tiles = n->tiles, loops = n->loops;
    n->a->indent++;
    n->depth++;
    n->loops += loop;
    block(n, 1 + below(n->a, 3));
    n->depth--;
    n->loops = loops;
    n->tiles = tiles;
    n->a->indent--;
}

static void loop(Nest *n)
{
    arrange_line(n->a, "for k%d in %s%s {", n->loops, trips(n), chance(n->a, 8) ? " hint (unroll = 2)" : "");
    inside(n, true);
    arrange_line(n->a, "}");
}

static void repeat(Nest *n)
{
    char name[12];
    fresh_name(n->a, "t", name, sizeof name);
    arrange_line(n->a, "var %s = index(%s);", name, scalar(n));
    arrange_line(n->a, "while %s < %d {", name, 1 + below(n->a, 4));
    inside(n, false);
    arrange_line(n->a, "    %s = %s + 1;", name, name);
    arrange_line(n->a, "}");
}

static void branch(Nest *n)
{
    arrange_line(n->a, "if %s {", condition(n));
    inside(n, false);
    if (chance(n->a, 40)) {
        arrange_line(n->a, "} else {");
        inside(n, false);
    }
    arrange_line(n->a, "}");
}

static void leave(Nest *n)
{
    if (n->returns) arrange_line(n->a, "if %s { return; }", condition(n));
}

static void block(Nest *n, int statements)
{
    static void (*const all[])(Nest *) = { let, let, let, let, let, product, product, put, put, add, leave,
        loop, loop, loop, branch, repeat };
    enum { N = sizeof all / sizeof *all, NESTED = 5 };
    for (int k = 0; k < statements && n->budget > 0; k++, n->budget--)
        all[below(n->a, n->depth > 2 ? N - NESTED : N)](n);
}

/* --- the whole --------------------------------------------------------------------------------------- */

/* Additions in an order, of numbers with fractions: the last statement, after which nothing is ordered. */
static void ordered(Nest *n)
{
    Arranger *a = n->a;
    const bool two = chance(a, 40);
    arrange_line(a, "for k in 0 .. cdiv(N, %d) {", n->tn);
    a->indent++;
    if (chance(a, 30)) arrange_line(a, "if k > i + %d { return; }", below(a, 3));
    arrange_line(a, "let y = load(REAL[i*%d +: %d, k*%d +: %d]);", n->tm, 1 + two, n->tn, n->tn);
    if (two)
        arrange_line(a, "atomic_add(F[0 +: 2, k*%d +: %d], y, step = k, semaphore = ORDER);", n->tn, n->tn);
    else
        arrange_line(a,
            "atomic_add(U[k*%d +: %d], sum(y, axis = 0, drop = true), step = k, semaphore = ORDER);", n->tn,
            n->tn);
    a->indent--;
    arrange_line(a, "}");
}

static void hints(Nest *n, char *out, size_t size)
{
    Arranger *a = n->a;
    *out = 0;
    if (n->ordered || !chance(a, 60)) return;
    snprintf(out, size, " hint (%s)",
        CHOOSE(a, "cluster = 2", "cluster = 2, cluster_axis = 1", "cluster = 4", "persistent = 0",
            "persistent = 1", "warps = 2", "warps = 8", "pack = 2", "pack = 4", "split_k = 2", "split_k = 4",
            "stages = 2", "warp_specialize = 0", "cp_async_producer = 1", "occupancy = 2",
            "cluster = 2, persistent = 1", "pingpong = 1", "split_k = 12", "stream_k = 3",
            "cluster = 2, stream_k = 4"));
}

static void head(Nest *n)
{
    Arranger *a = n->a;
    char h[80];
    hints(n, h, sizeof h);
    a->indent = 1;
    switch (n->form) {
    case TILES: arrange_line(a, "grid (cdiv(N, %d), cdiv(M, %d))%s", n->tn, n->tm, h); break;
    case WALK: arrange_line(a, "grid (%d)%s", n->walkers, h); break;
    case ROWS_OF_TILES: arrange_line(a, "grid (cdiv(M, %d))%s", n->tm, h); break;
    }
    a->indent = 0;
    arrange_line(a, "{");
    a->indent = 1;
    switch (n->form) {
    case TILES: arrange_line(a, "let (j, i) = program_id();"); break;
    case WALK:
        arrange_line(a, "for t in program_id() .. cdiv(M, %d)*cdiv(N, %d) : %d {", n->tm, n->tn, n->walkers);
        a->indent = 2;
        arrange_line(a, "let i = t / cdiv(N, %d);", n->tn);
        arrange_line(a, "let j = t %% cdiv(N, %d);", n->tn);
        break;
    case ROWS_OF_TILES:
        arrange_line(a, "let i = program_id();");
        if (!n->ordered && chance(a, 70)) {
            arrange_line(a, "for j in 0 .. cdiv(N, %d) {", n->tn);
            a->indent = 2;
        } else arrange_line(a, "let j = i*0;");
        break;
    }
    arrange_line(a, "let row = i*%d + arange(%d)[:, None];", n->tm, n->tm);
    arrange_line(a, "let col = j*%d + arange(%d)[None, :];", n->tn, n->tn);
    arrange_line(a, "let id = load(ID[i*%d +: %d], pad = 0);", n->tm, n->tm);
    arrange_line(a, "var x0 = load(X[%s]);", own_tile(n));
    if (n->summed) arrange_line(a, "var acc = zeros([%d, %d], f32);", n->tm, n->tn);
}

static void parameters(Nest *n)
{
    char steps[24];
    snprintf(steps, sizeof steps, "cdiv(M, %d)", n->tm);
    random_head(n->a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .always = " X A TABLE CNT P ",
            .order = strstr(n->a->body, "= ORDER") ? steps : NULL,
            .views = 15 },
        "");
}

static void sizes(Nest *n)
{
    Arranger *a = n->a;
    int m = n->tm * (1 + below(a, 3)) - (chance(a, 50) ? below(a, n->tm) : 0),
        c = n->tn * (1 + below(a, 3)) - (chance(a, 50) ? below(a, n->tn) : 0),
        k = n->tk * (1 + below(a, 3)) - (chance(a, 50) ? below(a, n->tk) : 0);
    snprintf(a->k->sizes, sizeof a->k->sizes, "M=%d N=%d K=%d L=%d V=%d G=%d STEPS=%d", m, c, k,
        1 + below(a, 9), 1 + below(a, 9), 1 + below(a, 3), (m + n->tm - 1) / n->tm);
}

void random_structure(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 5 + 2 } }, *a = &arranger;
    Nest nest = { .a = a, .tiles = 1 }, *n = &nest;
    a->type = (Elem)ONE_OF(a, F16, F16, BF16, E4M3, F32, I8);
    n->form = (Form)ONE_OF(a, ROWS_OF_TILES, ROWS_OF_TILES, TILES, TILES, WALK);
    n->tm = ONE_OF(a, 1, 2, 4, 8, 16, 16, 32, 64, 64, 5, 12);
    n->tn = ONE_OF(a, 1, 4, 8, 16, 16, 32, 32, 64, 6, 24);
    n->tk = ONE_OF(a, 8, 16, 16, 32);
    n->summed = a->type != I8 && chance(a, 55);
    n->ordered = n->form == ROWS_OF_TILES && chance(a, 30);
    n->returns = chance(a, 40);
    n->walkers = 1 + below(a, 4);
    n->budget = 6 + below(a, 14);
    head(n);
    while (n->budget > 0) block(n, 3);
    if (n->summed) arrange_line(a, "store(O[%s], acc);", own_tile(n));
    else arrange_line(a, "store(O[%s], x%d);", own_tile(n), below(a, n->tiles));
    if (n->ordered) ordered(n);
    while (a->indent > 1) {
        a->indent--;
        arrange_line(a, "}");
    }
    a->indent = 0;
    arrange_line(a, "}");
    parameters(n);
    sizes(n);
}
