/* products.c: matrix products beside OpenBLAS (f32) and PyTorch (bf16, f16, i8); and products of few rows,
 * whose weights come from memory, beside a read of as many bytes. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Gemm {
    tile_dtype type;
    int64_t m, n, k;
    bool turned_a, turned_b; /* the input lies transposed in memory */
    const void *a, *b;
    void *c;
} Gemm;

static void run_sgemm(void *arg)
{
    const Gemm *s = arg;
    peer_sgemm(s->m, s->n, s->k, s->a, s->turned_a, s->b, s->turned_b, s->c);
}

static double element(const Gemm *g, const void *x, int64_t i)
{ return g->type == TILE_I8 ? ((const int8_t *)x)[i] : bench_value(g->type, x, i); }

/* Element (i, j) of C, from the definition. */
typedef double ElementFn(const void *product, int64_t i, int64_t j);

/* The relative error of some elements of C. */
static double relative_error(
    ElementFn *want_of, const void *product, tile_dtype t, const void *c, int64_t m, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t at = 0; at < m * n; at += m * n / 61 + 1) {
        double want = want_of(product, at / n, at % n);
        double got = t == TILE_I8 ? ((const int32_t *)c)[at] : bench_value(t, c, at);
        diff += (got - want) * (got - want), norm += want * want;
    }
    return sqrt(diff / norm);
}

static double gemm_element(const void *product, int64_t i, int64_t j)
{
    const Gemm *g = product;
    double sum = 0;
    for (int64_t k = 0; k < g->k; k++)
        sum += element(g, g->a, g->turned_a ? k * g->m + i : i * g->k + k) *
               element(g, g->b, g->turned_b ? j * g->k + k : k * g->n + j);
    return sum;
}

static double gemm_error(const Gemm *g) { return relative_error(gemm_element, g, g->type, g->c, g->m, g->n); }

static const char *consts_of(tile_dtype t)
{
    return t == TILE_I8     ? "T=i8 ACC=i32 TO=i32"
           : t == TILE_BF16 ? "T=bf16 TO=bf16"
           : t == TILE_F16  ? "T=f16 TO=f16"
                            : "T=f32 TO=f32";
}

static tile_dtype result_of(tile_dtype t) { return t == TILE_I8 ? TILE_I32 : t; }
static double bound_of(tile_dtype t)
{ return t == TILE_I8 ? 0 : t == TILE_F32 ? 1e-5 : t == TILE_F16 ? 1e-3 : 1e-2; }

static void check(Bench *b, const char *row, tile_dtype type, double error)
{
    if (error <= bound_of(type)) return;
    fprintf(stderr, "%s: relative error %g\n", row, error);
    b->failures++;
}

static void tensors_of(BenchLaunch *l, const Gemm *g)
{
    bench_matrix(l, (void *)g->a, g->m, g->k, g->turned_a);
    bench_matrix(l, (void *)g->b, g->k, g->n, g->turned_b);
    bench_matrix(l, g->c, g->m, g->n, false);
}

static void gemm(Bench *b, Gemm g, bool peer)
{
    char row[80], ask[80];
    snprintf(row, sizeof row, "gemm %s%s%s %lldx%lldx%lld", tile_dtype_name(g.type), g.turned_a ? " A^T" : "",
        g.turned_b ? " B^T" : "", (long long)g.m, (long long)g.n, (long long)g.k);
    snprintf(ask, sizeof ask, "gemm %s %lld %lld %lld", tile_dtype_name(g.type), (long long)g.m,
        (long long)g.n, (long long)g.k);
    if (!bench_wanted(b, row)) return;
    BenchLaunch l;
    void *x = bench_random(g.type, g.m * g.k, 1), *y = bench_random(g.type, g.k * g.n, 2);
    g.a = x, g.b = y, g.c = bench_random(result_of(g.type), g.m * g.n, 3);
    if (bench_load(b, "gemm", "gemm", consts_of(g.type), &l)) {
        tensors_of(&l, &g);
        if (bench_try(b, &l)) {
            double flops = 2e-9 * (double)g.m * (double)g.n * (double)g.k;
            bool is_f32 = g.type == TILE_F32;
            check(b, row, g.type, gemm_error(&g));
            if (!is_f32) peer = peer && peer_torch(ask) > 0;
            BenchCall c = { run_sgemm, &g };
            BenchPair t = is_f32 ? bench_pair(b, bench_launch, &l, peer ? bench_call : NULL, &c)
                                 : bench_pair(b, bench_launch, &l, peer ? peer_torch : NULL, ask);
            bench_row(b, row, g.type == TILE_I8 ? "Gop/s" : "GFLOP/s", flops, t,
                is_f32 ? peer_sgemm_name() : peer_torch_name(), is_f32 ? 0.9 : 0.75);
        }
    }
    bench_free(&l);
    free(x), free(y), free(g.c);
}

static void gemm_f32(Bench *b)
{
    bool peer = bench_wants_some(b, "gemm f32") && peer_sgemm_open(b->threads);
    static const int64_t shapes[][3] = { { 512, 512, 512 }, { 1024, 1024, 1024 }, { 2048, 2048, 2048 },
        { 1009, 1009, 1009 }, { 4095, 1000, 333 }, { 1023, 1023, 1023 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        gemm(b, (Gemm){ TILE_F32, shapes[i][0], shapes[i][1], shapes[i][2], .a = NULL }, peer);
    for (int turn = 1; turn < 4; turn++)
        for (int64_t n = 1009; n <= 1024; n += 15)
            gemm(b, (Gemm){ TILE_F32, n, n, n, .turned_a = turn & 1, .turned_b = turn & 2 }, peer);
}

static void gemm_narrow(Bench *b, tile_dtype type)
{
    char rows[32];
    snprintf(rows, sizeof rows, "gemm %s", tile_dtype_name(type));
    bool peer = bench_wants_some(b, rows) && peer_torch_open(b);
    gemm(b, (Gemm){ type, 512, 512, 512, .a = NULL }, peer);
    gemm(b, (Gemm){ type, 1024, 1024, 1024, .a = NULL }, peer);
    gemm(b, (Gemm){ type, 2048, 2048, 2048, .a = NULL }, peer);
    gemm(b, (Gemm){ type, 4096, 4096, 1024, .a = NULL }, peer);
    peer_torch_close();
}

/* --- few rows ---------------------------------------------------------------------------------------- */

enum { WEIGHTS = 4096, GROUP = 128, ALL_BYTES = 256 << 20, MOST_LAYERS = 32 };

/* Layers of weights in turn, which no cache holds together, as those of a model. */
typedef struct Layers {
    BenchLaunch launch;
    int n, now, weights; /* `weights`: the number of that argument */
    char *data;
    size_t bytes; /* of one layer */
    int threads;
} Layers;

static void next_layer(Layers *l)
{
    l->now = (l->now + 1) % l->n;
    l->launch.tensors[l->weights].data = l->data + (size_t)l->now * l->bytes;
}

static void run_layer(void *arg)
{
    next_layer(arg);
    bench_launch(&((Layers *)arg)->launch);
}

static void read_layer(void *arg)
{
    Layers *l = arg;
    next_layer(l);
    peer_read(l->data + (size_t)l->now * l->bytes, l->bytes, l->threads);
}

static void time_layers(Bench *b, const char *row, Layers *l)
{
    BenchCall c = { read_layer, l };
    bench_row(b, row, "GB/s", 1e-9 * (double)l->bytes, bench_pair(b, run_layer, l, bench_call, &c),
        "memory read", 0.85);
}

static void few_rows(Bench *b, tile_dtype type, int64_t m, bool turned)
{
    char row[80], consts[80];
    snprintf(row, sizeof row, "rows %s%s M %lld x 4096 x 4096", tile_dtype_name(type), turned ? " B^T" : "",
        (long long)m);
    if (!bench_wanted(b, row)) return;
    snprintf(consts, sizeof consts, "%s", consts_of(type));
    Layers l = { .weights = 1, .threads = b->threads };
    l.bytes = tile_dtype_size(type) * WEIGHTS * WEIGHTS;
    l.n = (int)(ALL_BYTES / l.bytes);
    Gemm g = { type, m, WEIGHTS, WEIGHTS, false, turned, bench_random(type, m * WEIGHTS, 1),
        bench_random(type, (int64_t)l.n * WEIGHTS * WEIGHTS, 2),
        bench_random(result_of(type), m * WEIGHTS, 3) };
    l.data = (char *)g.b;
    if (bench_load(b, "gemm", "gemm", consts, &l.launch)) {
        tensors_of(&l.launch, &g);
        if (bench_try(b, &l.launch)) {
            check(b, row, type, gemm_error(&g));
            time_layers(b, row, &l);
        }
    }
    bench_free(&l.launch);
    free((void *)g.a), free((void *)g.b), free(g.c);
}

enum { GROUPS = WEIGHTS / GROUP };

/* Position k of the row that these bytes hold, packed as gemm_int4.tile says. */
static int packed_weight(const uint8_t *row, int64_t k)
{
    int64_t in = k % GROUP, half = GROUP / 2;
    int byte = row[k / GROUP * half + in % half];
    return in < half ? byte & 15 : byte >> 4;
}

/* Weights of 4 bits, packed as gemm_int4.tile says. */
typedef struct Int4 {
    tile_dtype type;
    const void *a, *scale, *zero;
    const uint8_t *w;
} Int4;

static double int4_element(const void *product, int64_t i, int64_t j)
{
    const Int4 *p = product;
    double sum = 0;
    for (int64_t k = 0; k < WEIGHTS; k++) {
        int64_t group = k / GROUP;
        int bits = packed_weight(p->w + j * (WEIGHTS / 2), k);
        double zero = bench_value(p->type, p->zero, j * GROUPS + group);
        sum += (bits - zero) * bench_value(p->type, p->scale, j * GROUPS + group) *
               bench_value(p->type, p->a, i * WEIGHTS + k);
    }
    return sum;
}

static void few_rows_int4(Bench *b, tile_dtype type, int64_t m)
{
    char row[80], consts[32];
    snprintf(row, sizeof row, "rows 4-bit blocks, A %s, M %lld x 4096 x 4096", tile_dtype_name(type),
        (long long)m);
    snprintf(consts, sizeof consts, "T=%s", tile_dtype_name(type));
    if (!bench_wanted(b, row)) return;
    Layers l = { .weights = 1, .threads = b->threads, .bytes = WEIGHTS * WEIGHTS / 2, .n = MOST_LAYERS };
    void *a = bench_random(type, m * WEIGHTS, 1), *w = bench_random(TILE_I8, (int64_t)l.bytes * l.n, 2),
         *scale = bench_random(type, WEIGHTS * GROUPS, 3), *zero = bench_random(type, WEIGHTS * GROUPS, 4),
         *c = bench_random(type, m * WEIGHTS, 5);
    l.data = w;
    if (bench_load(b, "gemm_int4", "gemm_int4", consts, &l.launch)) {
        bench_matrix(&l.launch, a, m, WEIGHTS, false);
        bench_matrix(&l.launch, w, WEIGHTS, WEIGHTS / 2, false);
        bench_matrix(&l.launch, scale, WEIGHTS, GROUPS, false);
        bench_matrix(&l.launch, zero, WEIGHTS, GROUPS, false);
        bench_matrix(&l.launch, c, m, WEIGHTS, false);
        if (bench_try(b, &l.launch)) {
            Int4 p = { type, a, scale, zero, w };
            check(b, row, type, relative_error(int4_element, &p, type, c, m, WEIGHTS));
            time_layers(b, row, &l);
        }
    }
    bench_free(&l.launch);
    free(a), free(w), free(scale), free(zero), free(c);
}

/* Weights of 4 bits and activations of 8, as gemm_w4a8.tile says. */
typedef struct W4a8 {
    const int8_t *a;
    const void *scale_a, *sum, *scale, *zero;
    const uint8_t *w;
} W4a8;

static double w4a8_element(const void *product, int64_t i, int64_t j)
{
    const W4a8 *p = product;
    double sum = 0;
    for (int64_t group = 0; group < GROUPS; group++) {
        double dots = 0;
        for (int64_t k = group * GROUP; k < (group + 1) * GROUP; k++)
            dots += packed_weight(p->w + j * (WEIGHTS / 2), k) * p->a[i * WEIGHTS + k];
        double of_a = bench_value(TILE_F32, p->scale_a, i * GROUPS + group) * dots,
               of_w = bench_value(TILE_F16, p->zero, group * WEIGHTS + j) *
                      bench_value(TILE_F32, p->sum, i * GROUPS + group);
        sum += bench_value(TILE_F16, p->scale, group * WEIGHTS + j) * (of_a - of_w);
    }
    return sum;
}

static void few_rows_w4a8(Bench *b, int64_t m)
{
    char row[80];
    snprintf(row, sizeof row, "rows 4-bit blocks, A i8, M %lld x 4096 x 4096", (long long)m);
    if (!bench_wanted(b, row)) return;
    Layers l = { .weights = 3, .threads = b->threads, .bytes = WEIGHTS * WEIGHTS / 2, .n = MOST_LAYERS };
    void *a = bench_random(TILE_I8, m * WEIGHTS, 1), *w = bench_random(TILE_I8, (int64_t)l.bytes * l.n, 2),
         *scale = bench_random(TILE_F16, WEIGHTS * GROUPS, 3),
         *zero = bench_random(TILE_F16, WEIGHTS * GROUPS, 4),
         *scale_a = bench_random(TILE_F32, m * GROUPS, 5), *sum = bench_random(TILE_F32, m * GROUPS, 6),
         *c = bench_random(TILE_F16, m * WEIGHTS, 7);
    l.data = w;
    if (bench_load(b, "gemm_w4a8", "gemm_w4a8", "T=f16", &l.launch)) {
        bench_matrix(&l.launch, a, m, WEIGHTS, false);
        bench_matrix(&l.launch, scale_a, m, GROUPS, false);
        bench_matrix(&l.launch, sum, m, GROUPS, false);
        bench_matrix(&l.launch, w, WEIGHTS, WEIGHTS / 2, false);
        bench_matrix(&l.launch, scale, GROUPS, WEIGHTS, false);
        bench_matrix(&l.launch, zero, GROUPS, WEIGHTS, false);
        bench_matrix(&l.launch, c, m, WEIGHTS, false);
        if (bench_try(b, &l.launch)) {
            W4a8 p = { a, scale_a, sum, scale, zero, w };
            check(b, row, TILE_F16, relative_error(w4a8_element, &p, TILE_F16, c, m, WEIGHTS));
            time_layers(b, row, &l);
        }
    }
    bench_free(&l.launch);
    free(a), free(w), free(scale), free(zero), free(scale_a), free(sum), free(c);
}

void bench_products(Bench *b)
{
    gemm_f32(b);
    gemm_narrow(b, TILE_BF16);
    gemm_narrow(b, TILE_I8);
    for (int64_t m = 1; m <= 16; m *= 4) {
        for (int turned = 0; turned < 2; turned++) {
            few_rows(b, TILE_F32, m, turned);
            few_rows(b, TILE_BF16, m, turned);
            few_rows(b, TILE_I8, m, turned);
        }
        few_rows_int4(b, TILE_F16, m);
        few_rows_int4(b, TILE_BF16, m);
        few_rows_int4(b, TILE_F32, m);
        few_rows_w4a8(b, m);
    }
}
