/* random_places.c: random kernels whose places are computed: see random_kernel.h. Bases of windows, bounds of
 * loops, masks and conditions are expressions of whole numbers of any width, which wrap, divide, shift and
 * come from memory. Programs walk over tiles by `for`, by `while`, over all steps of all tiles in one loop,
 * or over groups of rows of which memory says where they begin. Places are variables that loops carry; sums
 * are stored and begin anew within the loop that makes them.
 *
 * Tiles are of whole numbers, clamped before they can grow, so that results are equal bit for bit. A program
 * writes its own tiles and its own slice of PART and NUMBER, in which any place may be. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "M,N", "f32", "int:9" },
    { "in", "Y", "M,N", "T", "int:3" },
    { "in", "Q", "M,N", "i32", "int:100" },
    { "in", "A", "M,K", "T", "int:2" },
    { "in", "B", "K,N", "T", "int:2" },
    { "in", "FIRST", "G1", "i32", "offsets:M" },
    { "in", "CNT", "L", "i32", "int:5" },
    { "in", "BYTE", "L", "u8", "bits" },
    { "in", "SHORT", "L", "i16", "bits" },
    { "in", "LONG", "L", "i64", "int:40" },
    { "inout", "O", "M,N", "f32", "int:5" },
    { "inout", "I", "M,N", "i32", "int:5" },
    { "inout", "PART", "W,4,PM,PN", "f32", "int:5" },
    { "inout", "NUMBER", "W,8", "i32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

typedef enum Walk { OWN_TILES, BY_FOR, BY_WHILE, ALL_STEPS, GROUPS } Walk;

typedef struct Places {
    Arranger *a;
    Walk walk;
    int tm, tn, tk, programs, budget, depth, loops, carried, tiles;
    bool summed, added, returns; /* there is `acc`, of products; `sums`, of tiles */
} Places;

static char *text(void)
{
    static char out[96][EXPR];
    static int turn;
    return out[turn++ % 96];
}

/* --- places ------------------------------------------------------------------------------------------- */

static const char *leaf(Places *x)
{
    Arranger *a = x->a;
    char *out = text();
    if (x->loops && chance(a, 35)) arrange_write(out, EXPR, "k%d", below(a, x->loops));
    else if (x->carried && chance(a, 30)) arrange_write(out, EXPR, "p%d", below(a, x->carried));
    else
        arrange_write(out, EXPR, "%s",
            CHOOSE(a, "i", "j", "w", "i", "j", "1", "2", "3", "-1", "5", "16", "M", "N", "K",
                "index(load(CNT[w % L]))", "index(load(BYTE[j % L]))", "index(load(LONG[i % L]))",
                "index(load(SHORT[w % L]))"));
    return out;
}

/* An `index` of any size and sign. */
static const char *place(Places *x, int deep)
{
    Arranger *a = x->a;
    if (deep <= 0 || chance(a, 25)) return leaf(x);
    char *out = text();
    const char *p = place(x, deep - 1), *q = place(x, deep - 1 - below(a, 2));
    const int c = ONE_OF(a, 2, 3, 4, 5, 7, 8, 16, 32);
    switch (below(a, 22)) {
    case 0:
    case 1:
    case 2: arrange_write(out, EXPR, "(%s + %s)", p, q); break;
    case 3:
    case 4: arrange_write(out, EXPR, "(%s - %s)", p, q); break;
    case 5: arrange_write(out, EXPR, "%s * %d", p, c); break;
    case 6: arrange_write(out, EXPR, "%s / %d", p, chance(a, 15) ? -c : c); break;
    case 7: arrange_write(out, EXPR, "%s %% %d", p, chance(a, 15) ? -c : c); break;
    case 8: arrange_write(out, EXPR, "(%s & %d)", p, c - 1); break;
    case 9: arrange_write(out, EXPR, "(%s ^ %d)", p, 1 + below(a, 3)); break;
    case 10: arrange_write(out, EXPR, "(%s >> %d)", p, 1 + below(a, 3)); break;
    case 11: arrange_write(out, EXPR, "(%s << %d)", p, below(a, 4)); break;
    case 12: arrange_write(out, EXPR, "%s(%s, %s)", CHOOSE(a, "min", "max"), p, q); break;
    case 13: arrange_write(out, EXPR, "clamp(%s, %d, %d)", p, below(a, 4) - 2, c + 2); break;
    case 14: arrange_write(out, EXPR, "cdiv(max(%s, 0), %d)", p, c); break;
    case 15:
        arrange_write(out, EXPR, "(%s %s %s ? %s : %s)", p, CHOOSE(a, "<", "==", ">="), q, q, leaf(x));
        break;
    case 16: arrange_write(out, EXPR, "index(u8(%s))", p); break;
    case 17: arrange_write(out, EXPR, "index(i8(%s) * i8(%d))", p, c); break;
    case 18: arrange_write(out, EXPR, "index(u16(%s) - u16(%d)) %% 67", p, c); break;
    case 19: arrange_write(out, EXPR, "index(i32(%s) * 1000003 + 2147483600) %% 41", p); break;
    case 20: arrange_write(out, EXPR, "index(u32(%s) / u32(%d)) %% 53", p, c); break;
    default: arrange_write(out, EXPR, "%s %% max(%s, 1)", p, q); break;
    }
    return out;
}

/* The base of a window of an axis whose own part begins at `own`. */
static const char *base(Places *x, const char *own, int extent)
{
    Arranger *a = x->a;
    char *out = text();
    switch (below(a, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: arrange_write(out, EXPR, "%s", own); break;
    case 4: arrange_write(out, EXPR, "%s + %d", own, below(a, 9) - 4); break;
    case 5: arrange_write(out, EXPR, "%s - %s", own, leaf(x)); break;
    case 6: arrange_write(out, EXPR, "%s * %d", place(x, 1), extent); break;
    case 7: arrange_write(out, EXPR, "(%s) * %d", place(x, 2), extent); break;
    case 8: arrange_write(out, EXPR, "%s * 8", place(x, 2)); break;
    case 9: arrange_write(out, EXPR, "%s * %s", leaf(x), chance(a, 30) ? "3000000000" : "4"); break;
    default: arrange_write(out, EXPR, "%s", place(x, 3)); break;
    }
    return out;
}

static const char *window(Places *x)
{
    char *out = text();
    arrange_write(out, EXPR, "%s +: %d%s, %s +: %d%s", base(x, "r0", x->tm), x->tm,
        chance(x->a, 8) ? " : 2" : "", base(x, "c0", x->tn), x->tn, chance(x->a, 8) ? " : 3" : "");
    return out;
}

static const char *condition(Places *x)
{
    Arranger *a = x->a;
    char *out = text();
    if (chance(a, 15))
        arrange_write(out, EXPR, "max(x%d, drop = true) > %d.0", below(a, x->tiles), below(a, 9));
    else
        arrange_write(out, EXPR, "%s %s %s", place(x, 2), CHOOSE(a, "<", "==", ">", "!=", "<="), place(x, 1));
    return out;
}

/* A bool of each element, whose ends are computed. */
static const char *mask(Places *x)
{
    Arranger *a = x->a;
    char *out = text();
    const char *p = place(x, 2), *q = place(x, 1);
    switch (below(a, 7)) {
    case 0: arrange_write(out, EXPR, "row < %s", p); break;
    case 1: arrange_write(out, EXPR, "col >= %s && col < %s", q, p); break;
    case 2: arrange_write(out, EXPR, "row - col %s %s", CHOOSE(a, ">", "<=", "=="), p); break;
    case 3: arrange_write(out, EXPR, "(row + %s) %% 3 == 0", p); break;
    case 4: arrange_write(out, EXPR, "col / 4 != %s || row > %s", p, q); break;
    case 5: arrange_write(out, EXPR, "i32(col) * 1000003 > i32(row + %s)", p); break;
    default: arrange_write(out, EXPR, "row + %s >= col && col + 3 > row - %s", p, q); break;
    }
    return out;
}

/* --- statements --------------------------------------------------------------------------------------- */

static void let(Places *x)
{
    Arranger *a = x->a;
    char e[2 * EXPR];
    const int p = below(a, x->tiles), q = below(a, x->tiles);
    switch (below(a, 11)) {
    case 0:
    case 1:
        arrange_write(
            e, sizeof e, "load(X[%s]%s)", window(x), CHOOSE(a, "", "", ", pad = -3.0", ", latency = 3"));
        break;
    case 2: arrange_write(e, sizeof e, "f32(load(Y[%s]))", window(x)); break;
    case 3: arrange_write(e, sizeof e, "f32(load(Q[%s]) %% 9)", window(x)); break;
    case 4:
        arrange_write(e, sizeof e, "gather(X[row - %s, (col + %s) %% max(N, 1)]%s)", place(x, 1), place(x, 1),
            CHOOSE(a, "", ", pad = 2.0"));
        break;
    case 5: arrange_write(e, sizeof e, "where(%s, x%d, x%d)", mask(x), p, q); break;
    case 6: arrange_write(e, sizeof e, "where(%s, x%d, -1.0)", mask(x), p); break;
    case 7:
        arrange_write(e, sizeof e, "load(PART[w, %s & 3, 0 +: %d, 0 +: %d])", place(x, 1), x->tm, x->tn);
        break;
    case 8:
        arrange_write(e, sizeof e, "x%d + %s(x%d, axis = %d)", p, CHOOSE(a, "max", "sum"), q, below(a, 2));
        break;
    case 9: arrange_write(e, sizeof e, "x%d - f32(clamp(%s, -9, 9))", p, place(x, 2)); break;
    default: arrange_write(e, sizeof e, "x%d %s x%d", p, CHOOSE(a, "+", "-", "*"), q); break;
    }
    if (x->depth && chance(a, 50)) arrange_line(a, "x%d = clamp(%s, -8.0, 8.0);", below(a, x->tiles), e);
    else if (x->tiles < 7) arrange_line(a, "var x%d = clamp(%s, -8.0, 8.0);", x->tiles++, e);
}

static void product(Places *x)
{
    Arranger *a = x->a;
    char deep[EXPR], other[EXPR], own[24];
    if (!x->summed) return;
    snprintf(own, sizeof own, "%s*%d", x->loops ? "k0" : "j", x->tk);
    arrange_write(deep, sizeof deep, "%s +: %d", chance(a, 50) ? own : base(x, own, x->tk), x->tk);
    if (chance(a, 70)) arrange_write(other, sizeof other, "%s", deep);
    else arrange_write(other, sizeof other, "%s +: %d", base(x, own, x->tk), x->tk);
    arrange_line(a, "acc = mma(load(A[%s +: %d, %s]), load(B[%s, %s +: %d]), acc);",
        chance(a, 60) ? "r0" : base(x, "r0", x->tm), x->tm, deep, other,
        chance(a, 60) ? "c0" : base(x, "c0", x->tn), x->tn);
    if (chance(a, 25)) arrange_line(a, "acc = clamp(acc, -64.0, 64.0);");
}

static void gather_sums(Places *x)
{
    if (!x->added) return;
    const int p = below(x->a, x->tiles);
    if (chance(x->a, 50)) arrange_line(x->a, "sums = clamp(sums + x%d, -99.0, 99.0);", p);
    else arrange_line(x->a, "sums = clamp(sums + where(%s, x%d, 0.0), -99.0, 99.0);", mask(x), p);
}

static const char *any_tile(Places *x)
{
    char *out = text();
    if (x->summed && chance(x->a, 40)) return "acc";
    if (x->added && chance(x->a, 40)) return "sums";
    arrange_write(out, EXPR, "x%d", below(x->a, x->tiles));
    return out;
}

static void put(Places *x)
{
    Arranger *a = x->a;
    const char *v = any_tile(x);
    switch (below(a, 5)) {
    case 0: arrange_line(a, "store(NUMBER[w, %s & 7], i32(%s));", place(x, 1), place(x, 3)); break;
    case 1:
        arrange_line(a, "store(PART[w, %s & 3, 0 +: %d, 0 +: %d], %s);", place(x, 1), x->tm, x->tn, v);
        break;
    case 2:
        if (x->walk == GROUPS)
            arrange_line(a, "scatter(I[row, col], i32(%s), mask = row < end && col < N);", v);
        else arrange_line(a, "store(I[r0 +: %d, c0 +: %d], i32(%s));", x->tm, x->tn, v);
        break;
    default:
        if (x->walk != GROUPS) {
            arrange_line(a, "store(O[r0 +: %d, c0 +: %d], %s);", x->tm, x->tn, v);
            break;
        }
        arrange_line(a, "if r0 + %d <= end { store(O[r0 +: %d, c0 +: %d], %s); }", x->tm, x->tm, x->tn, v);
        arrange_line(a, "else { scatter(O[row, col], %s, mask = row < end); }", v);
        break;
    }
}

/* Sums are stored and begin anew within the loop. */
static void begin_anew(Places *x)
{
    Arranger *a = x->a;
    const char *v = x->summed && (!x->added || chance(a, 50)) ? "acc" : x->added ? "sums" : NULL;
    if (!v || !x->depth) return;
    arrange_line(a, "if %s {", condition(x));
    arrange_line(a, "    store(PART[w, %s & 3, 0 +: %d, 0 +: %d], %s);", place(x, 1), x->tm, x->tn, v);
    arrange_line(a, "    %s = zeros([%d, %d], f32);", v, x->tm, x->tn);
    arrange_line(a, "}");
}

static void move_on(Places *x)
{
    Arranger *a = x->a;
    if (x->carried < 3 && chance(a, 40)) {
        arrange_line(a, "var p%d = clamp(%s, -300, 900);", x->carried, place(x, 2));
        x->carried++;
        return;
    }
    if (!x->carried) return;
    const int p = below(a, x->carried);
    switch (below(a, 5)) {
    case 0: arrange_line(a, "p%d += %d;", p, ONE_OF(a, 1, 2, 8, 16, 32, -1)); break;
    case 1: arrange_line(a, "p%d = (p%d + 1) %% %d;", p, p, 2 + below(a, 4)); break;
    case 2: arrange_line(a, "if %s { p%d += %d; }", condition(x), p, 1 + below(a, 16)); break;
    case 3: arrange_line(a, "p%d = p%d %s 1;", p, p, CHOOSE(a, "^", "-", ">>")); break;
    default: arrange_line(a, "p%d = clamp(%s, -300, 900);", p, place(x, 2)); break;
    }
}

static void statements(Places *, int n);

static void inside(Places *x, bool loop)
{
    const int tiles = x->tiles, loops = x->loops, carried = x->carried;
    x->a->indent++;
    x->depth++;
    x->loops += loop;
    statements(x, 1 + below(x->a, 4));
    x->depth--;
    x->loops = loops, x->tiles = tiles, x->carried = carried;
    x->a->indent--;
}

static void loop(Places *x)
{
    Arranger *a = x->a;
    switch (below(a, 6)) {
    case 0: arrange_line(a, "for k%d in 0 .. clamp(%s, 0, 4) {", x->loops, place(x, 3)); break;
    case 1:
        arrange_line(a, "for k%d in clamp(%s, -2, 3) .. clamp(%s, -1, 4)%s {", x->loops, place(x, 2),
            place(x, 2), CHOOSE(a, "", " : 2"));
        break;
    case 2:
        arrange_line(a, "for k%d in 0 .. min(cdiv(K, %d), %d) {", x->loops, x->tk, 2 + below(a, 3));
        break;
    default: arrange_line(a, "for k%d in 0 .. cdiv(K, %d) {", x->loops, x->tk); break;
    }
    inside(x, true);
    arrange_line(a, "}");
}

/* A `while` whose variable is a place that its body may move too; it ends by a count. */
static void repeat(Places *x)
{
    Arranger *a = x->a;
    char name[12];
    fresh_name(a, "n", name, sizeof name);
    arrange_line(a, "var %s = 0;", name);
    arrange_line(a, "while %s < %d && %s {", name, 2 + below(a, 3), condition(x));
    inside(x, false);
    arrange_line(a, "    %s += 1;", name);
    arrange_line(a, "}");
}

static void branch(Places *x)
{
    arrange_line(x->a, "if %s {", condition(x));
    inside(x, false);
    if (chance(x->a, 30)) {
        arrange_line(x->a, "} else {");
        inside(x, false);
    }
    arrange_line(x->a, "}");
}

static void leave(Places *x)
{
    if (x->returns) arrange_line(x->a, "if %s { return; }", condition(x));
}

static void statements(Places *x, int n)
{
    static void (*const all[])(Places *) = { let, let, let, product, product, gather_sums, put, put,
        begin_anew, move_on, move_on, leave, loop, loop, branch, repeat };
    enum { N = sizeof all / sizeof *all, NESTED = 4 };
    for (int k = 0; k < n && x->budget > 0 && x->a->length < sizeof x->a->body - 4000; k++, x->budget--)
        all[below(x->a, x->depth > 2 ? N - NESTED : N)](x);
}

/* --- the whole ---------------------------------------------------------------------------------------- */

static void hints(Arranger *a, char *out, size_t size)
{
    *out = 0;
    if (!chance(a, 50)) return;
    snprintf(out, size, " hint (%s)",
        CHOOSE(a, "persistent = 1", "persistent = 0", "warps = 2", "warps = 8", "pack = 2", "cluster = 2",
            "stages = 2", "stages = 4", "warp_specialize = 0", "cp_async_producer = 1", "occupancy = 2",
            "split_k = 2", "cluster = 2, persistent = 1"));
}

static void tile_of_number(Places *x)
{
    arrange_line(x->a, "let i = t / cdiv(N, %d);", x->tn);
    arrange_line(x->a, "let j = t %% cdiv(N, %d);", x->tn);
}

/* Opens the loops that walk over tiles, up to where `i`, `j`, `r0`, `c0` are known; braces are closed by
 * their indentation. */
static void walk(Places *x)
{
    Arranger *a = x->a;
    char h[80], total[48];
    hints(a, h, sizeof h);
    snprintf(total, sizeof total, "cdiv(M, %d)*cdiv(N, %d)", x->tm, x->tn);
    if (x->walk == OWN_TILES) arrange_line(a, "    grid (cdiv(N, %d), cdiv(M, %d))%s", x->tn, x->tm, h);
    else arrange_line(a, "    grid (%d)%s", x->programs, h);
    arrange_line(a, "{");
    a->indent = 1;
    if (x->walk == OWN_TILES) {
        arrange_line(a, "let (j, i) = program_id();");
        arrange_line(a, "let w = i*cdiv(N, %d) + j;", x->tn);
    } else arrange_line(a, "let w = program_id();");
    const char *open = NULL;
    switch (x->walk) {
    case OWN_TILES: break;
    case BY_FOR: arrange_line(a, "for t in w .. %s : %d {", total, x->programs); break;
    case BY_WHILE:
        arrange_line(a, "var next = w;");
        arrange_line(a, "while next < %s {", total);
        arrange_line(a, "    let t = next;");
        if (chance(a, 50)) arrange_line(a, "    next += num_programs();");
        else open = "next";
        break;
    case ALL_STEPS: arrange_line(a, "let steps = cdiv(K, %d);", x->tk); break;
    case GROUPS:
        arrange_line(a, "for g in 0 .. G1 - 1 {");
        arrange_line(a, "    let start = index(load(FIRST[g]));");
        arrange_line(a, "    let end = index(load(FIRST[g + 1]));");
        arrange_line(
            a, "    for t in w .. cdiv(end - start, %d)*cdiv(N, %d) : %d {", x->tm, x->tn, x->programs);
        a->indent++;
        break;
    }
    if (x->walk != OWN_TILES && x->walk != ALL_STEPS) a->indent++;
    if (open) arrange_line(a, "next += num_programs();");
}

/* What the statements name. */
static void names(Places *x)
{
    Arranger *a = x->a;
    if (x->walk != OWN_TILES) tile_of_number(x);
    arrange_line(a, "let r0 = %si*%d;", x->walk == GROUPS ? "start + " : "", x->tm);
    arrange_line(a, "let c0 = j*%d;", x->tn);
    arrange_line(a, "let row = r0 + arange(%d)[:, None];", x->tm);
    arrange_line(a, "let col = c0 + arange(%d)[None, :];", x->tn);
    arrange_line(a, "var x0 = load(X[r0 +: %d, c0 +: %d]);", x->tm, x->tn);
    x->tiles = 1;
}

static void sums(Places *x)
{
    if (x->summed) arrange_line(x->a, "var acc = zeros([%d, %d], f32);", x->tm, x->tn);
    if (x->added) arrange_line(x->a, "var sums = zeros([%d, %d], f32);", x->tm, x->tn);
}

/* One loop over all steps of all tiles of a program, in which a tile's sums begin and end. */
static void all_steps(Places *x)
{
    Arranger *a = x->a;
    sums(x);
    arrange_line(a, "let mine = cdiv(max(cdiv(M, %d)*cdiv(N, %d) - w, 0), %d);", x->tm, x->tn, x->programs);
    arrange_line(a, "for s in 0 .. mine*steps {");
    a->indent++;
    arrange_line(a, "let t = w + s / steps * %d;", x->programs);
    arrange_line(a, "let k0 = s %% steps;");
    x->loops = 1;
    names(x);
    x->depth = 1;
    product(x);
    while (x->budget > 0) statements(x, 3);
    gather_sums(x);
    arrange_line(a, "if k0 == steps - 1 {");
    a->indent++;
    const char *v = x->summed ? "acc" : x->added ? "sums" : "x0";
    arrange_line(a, "store(O[r0 +: %d, c0 +: %d], %s);", x->tm, x->tn, v);
    if (*v != 'x') arrange_line(a, "%s = zeros([%d, %d], f32);", v, x->tm, x->tn);
    a->indent--;
    arrange_line(a, "}");
}

static void sizes(Places *x)
{
    Arranger *a = x->a;
    const bool ragged = chance(a, 50);
    const int empty = chance(a, 5) ? below(a, 3) : -1; /* the axis that has no elements */
    const int m = empty == 0 ? 0 : x->tm * (1 + below(a, 3)) - (ragged ? below(a, x->tm) : 0),
              n = empty == 1 ? 0 : x->tn * (1 + below(a, 3)) - (ragged ? below(a, x->tn) : 0),
              k = empty == 2 ? 0 : x->tk * (1 + below(a, 4)) - (ragged ? below(a, x->tk) : 0);
    const int tiles = ((m + x->tm - 1) / x->tm) * ((n + x->tn - 1) / x->tn);
    snprintf(a->k->sizes, sizeof a->k->sizes, "M=%d N=%d K=%d L=%d G1=%d W=%d PM=%d PN=%d", m, n, k,
        1 + below(a, 7), 2 + below(a, 4), x->walk == OWN_TILES ? tiles : x->programs, x->tm, x->tn);
}

void random_places(uint64_t seed, RandomKernel *out)
{
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 11 + 5 } }, *a = &arranger;
    Places places = { .a = a }, *x = &places;
    a->type = (Elem)ONE_OF(a, F16, F16, F16, BF16, E4M3, F32, I8);
    x->walk = (Walk)ONE_OF(a, OWN_TILES, OWN_TILES, BY_FOR, BY_WHILE, ALL_STEPS, ALL_STEPS, GROUPS);
    x->tm = ONE_OF(a, 1, 4, 8, 16, 16, 32, 64, 64, 128, 5, 12);
    x->tn = ONE_OF(a, 1, 4, 8, 16, 32, 32, 64, 64, 6, 24);
    x->tk = ONE_OF(a, 8, 16, 16, 32, 64);
    x->summed = a->type != I8 && chance(a, 60);
    x->added = chance(a, 50);
    x->returns = chance(a, 25);
    x->programs = 1 + below(a, 4);
    x->budget = 8 + below(a, 16);
    walk(x);
    if (x->walk == ALL_STEPS) all_steps(x);
    else {
        names(x);
        sums(x);
        while (x->budget > 0) statements(x, 3);
        put(x);
    }
    while (a->indent > 1) {
        a->indent--;
        arrange_line(a, "}");
    }
    a->indent = 0;
    arrange_line(a, "}");
    sizes(x);
    random_head(a,
        &(RandomHead){
            .tensors = tensors, .count = TENSORS, .always = " X A FIRST CNT PART NUMBER ", .views = 12 },
        "");
}
