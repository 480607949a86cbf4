/* streams.c: kernels that only move memory, on 256 MB, against a plain copy of as many bytes by as many
 * threads. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Copy {
    void *dst;
    const void *src;
    size_t bytes;
    int threads;
} Copy;
static void run_copy(void *arg)
{
    Copy *c = arg;
    peer_copy(c->dst, c->src, c->bytes, c->threads);
}

typedef struct Stream Stream;
struct Stream {
    const char *row, *file, *kernel, *consts;
    tile_dtype type;
    int64_t m, n;
    int weights; /* extra inputs [N]: 0, 1 or 2 */
    bool eps, transposed;
    double (*want)(const Stream *, const void *x, int64_t i); /* element i, computed plainly */
    double bound;
};

static double want_silu(const Stream *s, const void *x, int64_t i)
{
    double v = bench_value(s->type, x, i);
    return v / (1 + exp(-v));
}

static double want_softmax(const Stream *s, const void *x, int64_t i)
{
    double sum = 0;
    for (int64_t j = i / s->n * s->n; j < i / s->n * s->n + s->n; j++) sum += exp(bench_value(s->type, x, j));
    return exp(bench_value(s->type, x, i)) / sum;
}

/* weights and biases are all ones here */
static double want_norm(const Stream *s, const void *x, int64_t i)
{
    double mean = 0, sum = 0;
    int64_t n = s->n;
    for (int64_t j = i / n * n; s->weights == 2 && j < i / n * n + n; j++)
        mean += bench_value(s->type, x, j) / (double)n;
    for (int64_t j = i / n * n; j < i / n * n + n; j++) {
        double v = bench_value(s->type, x, j) - mean;
        sum += v * v;
    }
    return (bench_value(s->type, x, i) - mean) / sqrt(sum / (double)n + 1e-5) + (s->weights == 2);
}

static double want_transpose(const Stream *s, const void *x, int64_t i)
{ return bench_value(s->type, x, i % s->m * s->n + i / s->m); }

/* 256 MB in, 256 MB out */
#define ROWS_F16 TILE_F16, 32768, 4096
#define ROWS_F32 TILE_F32, 16384, 4096
static const Stream streams[] = {
    { "silu f16 32768x4096", "silu", "silu", "TM=1 TN=2048 T=f16", ROWS_F16, 0, false, false, want_silu,
        1e-3 },
    { "silu f32 16384x4096", "silu", "silu", "TM=1 TN=2048 T=f32", ROWS_F32, 0, false, false, want_silu,
        1e-6 },
    { "softmax f16 32768x4096", "softmax", "softmax", "T=f16", ROWS_F16, 0, false, false, want_softmax,
        1e-3 },
    { "softmax f32 16384x4096", "softmax", "softmax", "T=f32", ROWS_F32, 0, false, false, want_softmax,
        1e-5 },
    { "rms_norm f16 32768x4096", "rms_norm_matrix", "rms_norm_matrix", "T=f16", ROWS_F16, 1, true, false,
        want_norm, 1e-3 },
    { "rms_norm f32 16384x4096", "rms_norm_matrix", "rms_norm_matrix", "T=f32", ROWS_F32, 1, true, false,
        want_norm, 1e-5 },
    { "layer_norm f16 32768x4096", "layer_norm", "layer_norm", "T=f16", ROWS_F16, 2, true, false, want_norm,
        1e-3 },
    { "layer_norm f32 16384x4096", "layer_norm", "layer_norm", "T=f32", ROWS_F32, 2, true, false, want_norm,
        1e-5 },
    { "transpose f32 8192x8192", "transpose", "transpose", "T=f32", TILE_F32, 8192, 8192, 0, false, true,
        want_transpose, 0 },
    { "transpose f32 8191x8193", "transpose", "transpose", "T=f32", TILE_F32, 8191, 8193, 0, false, true,
        want_transpose, 0 },
};

static void *ones(tile_dtype type, int64_t n)
{
    void *x = bench_random(type, n, 0);
    for (int64_t i = 0; i < n; i++) {
        if (type == TILE_F32) ((float *)x)[i] = 1;
        else ((uint16_t *)x)[i] = 0x3c00;
    }
    return x;
}

static bool right(const Stream *s, const void *x, const void *y, int64_t count)
{
    for (int64_t i = 12345; i < count; i += count / 7) {
        double want = s->want(s, x, i), got = bench_value(s->type, y, i);
        if (!(fabs(got - want) <= s->bound * (fabs(want) + 1e-3)))
            return fprintf(stderr, "%s: element %lld is %g, want %g\n", s->row, (long long)i, got, want),
                   false;
    }
    return true;
}

static void run_stream(Bench *b, const Stream *s)
{
    if (!bench_wanted(b, s->row)) return;
    int64_t count = s->m * s->n, bytes = count * (int64_t)tile_dtype_size(s->type), shape[2] = { s->m, s->n },
            out[2] = { s->transposed ? s->n : s->m, s->transposed ? s->m : s->n };
    void *x = bench_random(s->type, count, 1), *y = bench_random(s->type, count, 2), *w = ones(s->type, s->n);
    BenchLaunch l;
    if (bench_load(b, s->file, s->kernel, s->consts, &l)) {
        bench_tensor(&l, x, 2, shape);
        for (int i = 0; i < s->weights; i++) bench_tensor(&l, w, 1, &shape[1]);
        bench_tensor(&l, y, 2, out);
        if (s->eps) bench_scalar(&l, 1e-5);
        if (bench_try(b, &l)) {
            if (!right(s, x, y, count)) b->failures++;
            Copy c = { y, x, (size_t)bytes, b->threads };
            BenchCall call = { run_copy, &c };
            bench_row(b, s->row, "GB/s", 2e-9 * (double)bytes,
                bench_pair(b, bench_launch, &l, bench_call, &call), "memcpy", 0.85);
        }
    }
    bench_free(&l);
    free(x), free(y), free(w);
}

void bench_streams(Bench *b)
{
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) run_stream(b, &streams[i]);
}
