/* arrange.c: see arrange.h. The nest of loops, branches and products; grid, hints, sizes. */
#include "arrange.h"
#include <stdio.h>
#include <string.h>

/* --- elements --- */

static const struct {
    const char *name;
    Elem sum;
    bool whole;
    int bits;
} elems[N_ELEMS] = {
    [F16] = { "f16", F32, false, 11 },
    [BF16] = { "bf16", F32, false, 8 },
    [E4M3] = { "f8e4m3", F32, false, 4 },
    [E5M2] = { "f8e5m2", F32, false, 3 },
    [F32] = { "f32", F32, false, 11 },
    [F64] = { "f64", F64, false, 53 },
    [I8] = { "i8", I32, true, 7 },
    [U8] = { "u8", I32, true, 8 },
    [I32] = { "i32", I32, true, 31 },
};

const char *elem_name(Elem e) { return elems[e].name; }
Elem elem_sum(Elem e) { return elems[e].sum; }
bool elem_whole(Elem e) { return elems[e].whole; }
int elem_bits(Elem e) { return elems[e].bits; }

/* --- names and tiles --- */

void fresh_name(Arranger *a, const char *prefix, char *out, size_t size)
{ arrange_write(out, size, "%s%d", prefix, a->names++); }

Tile *tile_add(Arranger *a, const char *name, int rows, int cols, Elem type, bool small, bool loose)
{
    /* Remove the last name: those of outer blocks remain. */
    if (a->n_tiles == MOST_TILES) a->n_tiles--;
    Tile *t = &a->tiles[a->n_tiles++];
    *t = (Tile){ .rows = rows, .cols = cols, .type = type, .small = small, .loose = loose };
    arrange_write(t->name, sizeof t->name, "%s", name);
    return t;
}

const Tile *tile_pick(Arranger *a, bool (*wanted)(const Tile *, const void *), const void *w)
{
    const Tile *found = NULL;
    int n = 0;
    for (int i = 0; i < a->n_tiles; i++)
        if (wanted(&a->tiles[i], w) && below(a, ++n) == 0) found = &a->tiles[i];
    return found;
}

/* --- products --- */

static bool any_result(const Tile *t, const void *w) { return !t->small; }
static int extent(Arranger *a) { return a->shape[below(a, 4)]; }
static int deep(Arranger *a) { return a->depth[below(a, 2)]; }

/* The other operand's type beside one of T. */
static Elem beside(Arranger *a, Elem t)
{
    if (t == E4M3 || t == E5M2) return chance(a, 60) ? t : chance(a, 50) ? E4M3 : E5M2;
    if (t == I8 || t == U8) return chance(a, 60) ? t : chance(a, 50) ? I8 : U8;
    return t;
}

static Elem operand_type(Arranger *a)
{
    return chance(a, a->swift ? 97 : 75) ? a->type
                                         : (Elem)ONE_OF(a, F16, F16, BF16, E4M3, E5M2, F32, F32, F64, I8, U8);
}

typedef struct Shape {
    int m, n;
    Elem type;
} Shape;

/* Extents and types of a product. Chained: an earlier result becomes one of its operands where they fit. */
static Shape shape_of(Arranger *a, int *k)
{
    Shape s = { extent(a), extent(a), operand_type(a) };
    if (a->swift && chance(a, 95)) s.m = a->shape[0];
    const Tile *t = chance(a, 60) ? tile_pick(a, any_result, NULL) : NULL;
    *k = deep(a);
    if (t && convertible(t, s.type) && t->cols <= 128 && t->rows <= 128) {
        if (chance(a, 60)) s.m = t->rows, *k = t->cols;
        else *k = t->rows, s.n = t->cols;
    }
    return s;
}

/* mma(a, b, ACC): both operands first, unless the left one is there. True: something loose goes in. */
static bool product(Arranger *a, Shape s, int k, const char *acc, const Tile *left, char *out, size_t size)
{
    Tile x, y;
    if (left) x = *left;
    else operand(a, s.type, s.m, k, ROWS, DEEP, &x);
    char turned[32];
    bool twice = chance(a, 10) && s.m == s.n;
    if (!twice) operand(a, beside(a, s.type), k, s.n, DEEP, COLS, &y);
    arrange_write(turned, sizeof turned, twice ? "transpose(%s)" : "%s", twice ? x.name : y.name);
    const char *precision = s.type == F32 && a->swift ? ", precision = tf32"
                            : s.type == F32 ? CHOOSE(a, "", ", precision = tf32", ", precision = full")
                                            : "";
    arrange_write(out, size, *acc ? "mma(%s, %s, %s%s)" : "mma(%s, %s%s%s)", x.name, turned, acc, precision);
    double loops = 1;
    for (int i = 0; i < a->n_loops; i++) loops *= 3;
    a->work += loops * s.m * s.n * k;
    a->products--;
    a->eighths |= s.type == E4M3 || s.type == E5M2;
    return x.loose || (!twice && y.loose);
}

static void straight(Arranger *a)
{
    int k, how = below(a, 100);
    char acc[EXPR] = "", e[2 * EXPR], name[12];
    Shape s = shape_of(a, &k);
    Elem sum = elem_sum(s.type);
    if (how < 70) accumulator(a, sum, s.m, s.n, false, acc, sizeof acc);
    bool loose = product(a, s, k, acc, NULL, e, sizeof e);
    for (int i = 0; i < a->n_tiles; i++)
        if (a->tiles[i].loose && !a->tiles[i].small && strstr(acc, a->tiles[i].name)) loose = true;
    fresh_name(a, "c", name, sizeof name);
    arrange_line(a, "let %s = %s;", name, e);
    finish(a, *tile_add(a, name, s.m, s.n, sum, false, loose));
}

/* --- loops and branches --- */

static void stage(Arranger *a, int nest);

/* Sums that a block adds to. */
typedef struct Sum {
    Tile t, carried;
    int k;
    Elem operand;
} Sum; /* carried: the left operand, from the previous iteration; or no name */

static Sum declare(Arranger *a)
{
    Sum s = { 0 };
    char acc[EXPR];
    Shape shape = shape_of(a, &s.k);
    s.operand = shape.type;
    fresh_name(a, "acc", s.t.name, sizeof s.t.name);
    accumulator(a, elem_sum(shape.type), shape.m, shape.n, true, acc, sizeof acc);
    bool loose = false;
    for (int i = 0; i < a->n_tiles; i++) loose |= a->tiles[i].loose && strstr(acc, a->tiles[i].name) != NULL;
    arrange_line(a, "var %s = %s;", s.t.name, acc);
    s.t.rows = shape.m, s.t.cols = shape.n, s.t.type = elem_sum(shape.type), s.t.small = false,
    s.t.loose = loose;
    if (chance(a, 12)) {
        s.carried = (Tile){ .rows = shape.m, .cols = s.k, .type = shape.type, .small = true };
        load_tile(a, shape.type, shape.m, s.k, ROWS, DEEP, false, acc, sizeof acc);
        fresh_name(a, "w", s.carried.name, sizeof s.carried.name);
        arrange_line(a, "var %s = %s;", s.carried.name, acc);
    }
    return s;
}

static void add_to(Arranger *a, Sum *s)
{
    char e[2 * EXPR], scaled[EXPR], v[EXPR];
    arrange_write(scaled, sizeof scaled, "%s", s->t.name);
    if (chance(a, 12)) {
        load_vector(a, s->t.type, s->t.rows, ROWS, v, sizeof v);
        const char *ends = elem_whole(s->t.type) ? "-1, 1" : "-1.0, 1.0";
        arrange_write(scaled, sizeof scaled, "%s * clamp(%s, %s)[:, None]", s->t.name, v, ends);
    }
    Shape shape = { s->t.rows, s->t.cols, s->operand };
    const Tile *left = *s->carried.name ? &s->carried : NULL;
    s->t.loose |= product(a, shape, s->k, scaled, left, e, sizeof e);
    arrange_line(a, "%s = %s;", s->t.name, e);
    if (!left || chance(a, 15)) return;
    load_tile(a, s->operand, s->t.rows, s->k, ROWS, DEEP, chance(a, 20), v, sizeof v);
    arrange_line(a, "%s = %s;", left->name, v);
}

/* What a turn does to a sum beside adding to it. */
static void between(Arranger *a, const Tile *t, const Tile *other)
{
    const bool whole = elem_whole(t->type);
    char v[EXPR];
    switch (below(a, 7)) {
    case 0:
        load_vector(a, t->type, t->cols, COLS, v, sizeof v);
        arrange_line(a, "%s = %s + %s[None, :];", t->name, t->name, v);
        break;
    case 1: arrange_line(a, "%s = max(%s, %s);", t->name, t->name, whole ? "-50" : "-50.0"); break;
    case 2:
        arrange_line(a, "%s = where((arange(%d)[:, None] + arange(%d)[None, :]) %% 3 < 2, %s, %s);", t->name,
            t->rows, t->cols, t->name, whole ? "-2" : "-2.0");
        break;
    case 3:
        load_count(a, v, sizeof v);
        arrange_line(a, "if %s > 1 {", v);
        load_vector(a, t->type, t->rows, ROWS, v, sizeof v);
        arrange_line(a, "    %s = %s - %s[:, None];", t->name, t->name, v);
        arrange_line(a, "}");
        break;
    case 4: store_tile(a, t); break;
    case 5:
        arrange_line(a, "%s -= sum(%s, axis = %d) * %s;", t->name, t->name, below(a, 2), whole ? "0" : "0.0");
        break;
    default:
        if (other && other->rows == t->rows && other->cols == t->cols && other->type == t->type)
            arrange_line(a, "(%s, %s) = (%s, %s);", t->name, other->name, other->name, t->name);
        break;
    }
}

static void bounds(Arranger *a, int tile, char *out, size_t size)
{
    char count[80];
    switch (below(a, a->swift ? 24 : 12)) {
    case 0: arrange_write(out, size, "0 .. 0"); break;
    case 1: arrange_write(out, size, "0 .. 1"); break;
    case 2: arrange_write(out, size, "%s .. 2", chance(a, 50) ? "0" : "i"); break;
    case 3: arrange_write(out, size, "0 .. min(cdiv(K, %d), i + 1)", tile); break;
    case 4: arrange_write(out, size, "0 .. i + 0"); break;
    case 5: arrange_write(out, size, "i %% 2 .. cdiv(K, %d)", tile); break;
    case 6:
        load_count(a, count, sizeof count);
        arrange_write(out, size, "0 .. %s", count);
        break;
    case 7:
        load_count(a, count, sizeof count);
        arrange_write(out, size, "%s .. 3", count);
        break;
    case 8: arrange_write(out, size, "0 .. cdiv(K, %d) : 2", tile); break;
    default: arrange_write(out, size, "0 .. cdiv(K, %d)", tile); break;
    }
}

/* What opens a block, by kind; the name of the variable that counts, "" for none. */
static void open_block(Arranger *a, int tile, char *counter, size_t size, char *countdown)
{
    char range[128], count[80];
    int how = below(a, a->swift ? 75 : 100);
    *counter = 0;
    *countdown = 0;
    if (how < 70) {
        fresh_name(a, "k", counter, size);
        bounds(a, tile, range, sizeof range);
        arrange_line(a, "for %s in %s%s {", counter, range, chance(a, 10) ? " hint (unroll = 2)" : "");
    } else if (how < 80) {
        fresh_name(a, "k", counter, size);
        arrange_line(a, "const for %s in 0 .. %d {", counter, 1 + below(a, 3));
    } else if (how < 88) {
        fresh_name(a, "t", countdown, size);
        fresh_name(a, "k", counter, size);
        load_count(a, count, sizeof count);
        arrange_line(a, "var %s = index(%s);", countdown, count);
        arrange_line(a, "while %s > 0 {", countdown);
        arrange_line(a, "    let %s = %s;", counter, countdown);
    } else if (how < 94) {
        load_count(a, count, sizeof count);
        arrange_line(a, "if %s > 1 {", count);
    } else arrange_line(a, "if %s {", CHOOSE(a, "i % 2 == 0", "i > 0", "N > 40", "M > N"));
}

static void block(Arranger *a, int nest)
{
    Sum sums[2];
    int n = 1 + (a->products > 1 && chance(a, 40)), kept;
    char counter[8], countdown[8];
    for (int i = 0; i < n; i++) sums[i] = declare(a);
    if (n > 1 && sums[0].t.type == sums[1].t.type) /* they may change places */
        sums[0].t.loose = sums[1].t.loose = sums[0].t.loose || sums[1].t.loose;
    open_block(a, sums[0].k, counter, sizeof counter, countdown);
    a->indent++;
    kept = a->n_tiles;
    if (*counter) arrange_write(a->loops[a->n_loops++], sizeof a->loops[0], "%s", counter);
    if (nest < 1 && a->products > n && chance(a, 40)) stage(a, nest + 1);
    for (int i = 0; i < n; i++) {
        add_to(a, &sums[i]);
        if (chance(a, 20)) between(a, &sums[i].t, i ? &sums[0].t : NULL);
        if (i == 0 && chance(a, 15)) *tile_add(a, sums[0].t.name, 1, 1, F32, false, false) = sums[0].t;
    }
    if (a->products > 0 && nest < 2 && chance(a, 15)) stage(a, nest + 1);
    if (*countdown) arrange_line(a, "%s = %s - 1;", countdown, countdown);
    if (*counter) a->n_loops--;
    a->n_tiles = kept;
    a->indent--;
    arrange_line(a, "}");
    for (int i = 0; i < n; i++) {
        const Tile t = sums[i].t;
        finish(a, *tile_add(a, t.name, t.rows, t.cols, t.type, false, t.loose));
    }
}

static void stage(Arranger *a, int nest)
{
    if (nest < 3 && chance(a, 68)) block(a, nest);
    else straight(a);
}

/* --- the whole --- */

static void hints(Arranger *a, char *out, size_t size)
{
    *out = 0;
    if (!chance(a, 55)) return;
    const char *which = CHOOSE(a, "split_k = 2", "split_k = 4", "cluster = 2", "cp_async_producer = 1",
        "cp_async_producer = 0", "stages = 2", "stages = 3", "persistent = 0", "warp_specialize = 0",
        "warps = 8", "warps = 4", "warps = 2", "pingpong = 1", "pingpong = 0",
        "cluster = 2, cluster_axis = 0", "cp_async_producer = 1, split_k = 2", "occupancy = 2", "cluster = 4",
        "persistent = 0, warp_specialize = 0", "cluster = 1", "occupancy = 1, warps = 12", "stream_k = 2",
        "stream_k = 5", "cluster = 2, stream_k = 3", "", "");
    /* decisions that every kernel has to take */
    const char *decided = CHOOSE(a, "order ids", "warp_specialization none", "programs each",
        "rescale always", "split_k 1", "warp_specialization none; occupancy 1");
    if (*which) arrange_write(out, size, " hint (%s)", which);
    else arrange_write(out, size, " hint (schedule = \"schedule for cuda:sm_90a; %s\")", decided);
}

static void head(Arranger *a)
{
    char h[120];
    const char *order = "";
    hints(a, h, sizeof h);
    if (chance(a, 25))
        order = CHOOSE(a, " remap (w) = num_programs() - 1 - w", " remap = auto", " remap = chunk",
            " remap = head", " remap = xcd");
    else if (a->axes > 1 && chance(a, 25))
        order = CHOOSE(a, " raster (group = 2)", " raster (group = 8)", " raster (group = 3)");
    a->indent = 1;
    if (a->axes == 0) arrange_line(a, "grid (%s)%s", CHOOSE(a, "1", "1", "3"), h);
    else if (a->axes == 1) arrange_line(a, "grid (cdiv(M, %d))%s%s", a->shape[0], order, h);
    else arrange_line(a, "grid (cdiv(N, %d), cdiv(M, %d))%s%s", a->shape[1], a->shape[0], order, h);
    a->indent = 0;
    arrange_line(a, "{");
    a->indent = 1;
    arrange_line(a, a->axes > 1 ? "let (j, i) = program_id();" : "let i = program_id();");
}

char arrange_view(Arranger *a, int rank, bool in)
{
    const char kind = "sxrbtwdzoaa"[below(a, 11)];
    const bool shared = kind == 'z' || kind == 'o'; /* elements of one place: only to be read */
    return rank < 1 || (kind == 't' && rank < 2) || (shared && (!in || rank < 2)) || (kind == 'a' && !in)
               ? 0
               : kind;
}

/* Strides of a tensor, one in a while. */
static void view(Arranger *a, const TensorOf *t)
{
    RandomKernel *k = a->k;
    const char kind = chance(a, a->tidy ? 1 : 7) ? arrange_view(a, t->rank, !t->out) : 0;
    if (!kind) return;
    arrange_append(k->views, sizeof k->views, "%s%s:%c", *k->views ? " " : "", t->name, kind);
}

static void parameters(Arranger *a)
{
    RandomKernel *k = a->k;
    arrange_append(k->text, sizeof k->text, "kernel random(");
    arrange_append(k->launch, sizeof k->launch, "random");
    for (int i = 0; i < a->n_tensors; i++) {
        const TensorOf *t = &a->tensors[i];
        const char *role = t->out ? "out" : "in", *type = elem_name(t->type);
        char dims[32] = "";
        for (int d = 0; d < t->rank; d++) arrange_append(dims, sizeof dims, "%s%s", d ? "," : "", t->dims[d]);
        arrange_append(k->text, sizeof k->text, "%s%s %s %s[%s]", i ? ", " : "", role, type, t->name, dims);
        arrange_append(k->tensors, sizeof k->tensors, "%s%s %s[%s] %s %s", i ? "; " : "", role, t->name, dims,
            type, t->out ? "" : t->fill);
        arrange_append(k->launch, sizeof k->launch, " %s", t->name);
        view(a, t);
    }
    /* Names that only the text contains need tensors that bind them. */
    arrange_append(k->text, sizeof k->text, ", in f32 ZM[M], in f32 ZN[N], in f32 ZK[K])\n%s", a->body);
    arrange_append(k->tensors, sizeof k->tensors, "; in ZM[M] f32; in ZN[N] f32; in ZK[K] f32");
    arrange_append(k->launch, sizeof k->launch, " ZM ZN ZK");
}

/* An extent of n tiles, the last one whole, ragged, or a multiple of 16. */
static int sized(Arranger *a, int tile, int n)
{
    int v = tile * n - (chance(a, a->tidy ? 70 : 40) ? 0 : below(a, tile));
    if (a->tidy) return (v + 15) / 16 * 16;
    return chance(a, 50) ? (v + 15) / 16 * 16 : v;
}

static void sizes(Arranger *a)
{
    int most = a->small || a->work > 4e6 ? 2 : a->work > 1e6 ? 3 : 6;
    int m = sized(a, a->shape[0], 1 + below(a, most)),
        n = sized(a, a->shape[1], 1 + below(a, a->axes > 1 ? (most + 1) / 2 : 2)),
        k = sized(a, a->depth[0], a->small ? ONE_OF(a, 1, 2, 3, 3) : ONE_OF(a, 1, 2, 3, 5));
    arrange_write(a->k->sizes, sizeof a->k->sizes, "M=%d N=%d K=%d L=%d", m, n, k, 1 + below(a, 150));
    if (a->loose_bits) {
        /* The error that the rounding of an operand causes, times four, in ulp of each type of result. */
        double error = 4.0 / (1 << (a->loose_bits < 11 ? a->loose_bits : 11));
        arrange_write(a->k->bounds, sizeof a->k->bounds, "%.0f %.0f %.0f", error * (1 << 11),
            error * (1 << 24), error * 0x1p53);
        /* Sums are exact but for a rare one above 2^24; beside extremes each of a row may be, and round. */
    } else if (a->extremes && !a->eighths) arrange_write(a->k->bounds, sizeof a->k->bounds, "1 64 2");
    else arrange_write(a->k->bounds, sizeof a->k->bounds, a->eighths ? "4 8192 2" : "1 2 2");
}

static void arrange(uint64_t seed, bool small, RandomKernel *out)
{
    static const int extents[2][20] = {
        { 64, 64, 64, 128, 128, 64, 128, 16, 32, 8, 24, 40, 48, 96, 1, 4, 5, 12, 72, 256 },
        { 64, 64, 64, 64, 32, 64, 128, 16, 32, 8, 24, 40, 48, 16, 1, 4, 5, 12, 32, 16 },
    };
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + 3 }, .small = small }, *a = &arranger;
    a->swift = chance(a, 35);
    a->tidy = a->swift || chance(a, 25);
    a->axes = ONE_OF(a, 0, 1, 1, 1, 2, 2, 2);
    a->type = (Elem)ONE_OF(a, F16, F16, F16, BF16, BF16, E4M3, E4M3, E5M2, F32, F32, F64, I8, I8, U8);
    if (a->swift) a->type = (Elem)ONE_OF(a, F16, F16, F16, BF16, BF16, E4M3, E4M3, E5M2, F32, I8, U8);
    a->extremes = chance(a, 33);
    a->products = 1 + below(a, 4);
    const int n_extents = a->tidy ? 7 : 20;
    for (int i = 0; i < 4; i++) a->shape[i] = extents[small][below(a, n_extents)];
    for (int i = 0; i < 2; i++)
        a->depth[i] = small     ? ONE_OF(a, 16, 32, 32, 64)
                      : a->tidy ? ONE_OF(a, 32, 64, 64, 64, 128, 16)
                                : ONE_OF(a, 16, 16, 32, 32, 64, 64, 128, 8, 48);
    head(a);
    while (a->products > 0) stage(a, 0);
    outputs(a);
    a->indent = 0;
    arrange_line(a, "}");
    parameters(a);
    sizes(a);
}

void random_arrangement(uint64_t seed, RandomKernel *out) { arrange(seed, false, out); }
void random_small_arrangement(uint64_t seed, RandomKernel *out) { arrange(seed, true, out); }
