/* products.c: matrix products against OpenBLAS; attention against PyTorch's. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Sgemm {
    int64_t n;
    const float *a, *b;
    float *c;
} Sgemm;

static void run_sgemm(void *arg)
{
    Sgemm *s = arg;
    peer_sgemm(s->n, s->n, s->n, s->a, s->b, s->c);
}

static double far_apart(const float *x, const float *y, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++)
        diff += ((double)x[i] - y[i]) * ((double)x[i] - y[i]), norm += (double)y[i] * y[i];
    return sqrt(diff / norm);
}

static void gemm_f32(Bench *b, int64_t n, bool peer)
{
    char row[64];
    snprintf(row, sizeof row, "gemm f32 %lld", (long long)n);
    if (!bench_wanted(b, row)) return;
    BenchLaunch l;
    int64_t shape[2] = { n, n };
    float *x = bench_random(TILE_F32, n * n, 1), *y = bench_random(TILE_F32, n * n, 2);
    float *z = bench_random(TILE_F32, n * n, 3), *want = bench_random(TILE_F32, n * n, 3);
    if (bench_load(b, "gemm", "gemm", "T=f32 TO=f32", &l)) {
        bench_tensor(&l, x, 2, shape);
        bench_tensor(&l, y, 2, shape);
        bench_tensor(&l, z, 2, shape);
        if (bench_try(b, &l)) {
            Sgemm s = { n, x, y, want };
            double flops = 2e-9 * (double)n * (double)n * (double)n;
            if (peer) {
                run_sgemm(&s);
                if (far_apart(z, want, n * n) > 1e-5)
                    fprintf(stderr, "%s: results differ from OpenBLAS's\n", row), b->failures++;
            }
            BenchCall c = { run_sgemm, &s };
            bench_row(b, row, "GFLOP/s", flops, bench_pair(b, bench_launch, &l, peer ? bench_call : NULL, &c),
                peer_sgemm_name(), 0.75);
        }
    }
    bench_free(&l);
    free(x), free(y), free(z), free(want);
}

void bench_products(Bench *b)
{
    bool peer = peer_sgemm_open(b->threads);
    gemm_f32(b, 512, peer);
    gemm_f32(b, 1024, peer);
    gemm_f32(b, 2048, peer);
}

/* One row of the output from the definition, to see that what is timed is attention. */
static double attention_error(tile_dtype t, const void *q, const void *k, const void *v, const void *o,
    int64_t n, int64_t d, int64_t row, bool causal)
{
    double *s = malloc((size_t)n * sizeof *s), sum = 0, top = -INFINITY, diff = 0, norm = 0;
    int64_t seen = causal ? row + 1 : n;
    for (int64_t j = 0; j < seen; j++) {
        s[j] = 0;
        for (int64_t e = 0; e < d; e++) s[j] += bench_value(t, q, row * d + e) * bench_value(t, k, j * d + e);
        s[j] *= 0.125;
        if (s[j] > top) top = s[j];
    }
    for (int64_t j = 0; j < seen; j++) sum += s[j] = exp(s[j] - top);
    for (int64_t e = 0; e < d; e++) {
        double want = 0;
        for (int64_t j = 0; j < seen; j++) want += s[j] / sum * bench_value(t, v, j * d + e);
        diff += (bench_value(t, o, row * d + e) - want) * (bench_value(t, o, row * d + e) - want);
        norm += want * want;
    }
    free(s);
    return sqrt(diff / norm);
}

static void attention(Bench *b, tile_dtype type, bool causal, bool peer)
{
    enum { H = 8, N = 2048, D = 64 };
    char row[64], consts[64];
    snprintf(
        row, sizeof row, "attention %s B1 H8 N2048 D64%s", tile_dtype_name(type), causal ? " causal" : "");
    if (!bench_wanted(b, row)) return;
    snprintf(consts, sizeof consts, "T=%s CAUSAL=%s", tile_dtype_name(type), causal ? "true" : "false");
    BenchLaunch l;
    int64_t shape[4] = { 1, H, N, D }, count = (int64_t)H * N * D;
    void *q = bench_random(type, count, 1), *k = bench_random(type, count, 2),
         *v = bench_random(type, count, 3), *o = bench_random(type, count, 4);
    if (bench_load(b, "attention", "attention", consts, &l)) {
        bench_tensor(&l, q, 4, shape);
        bench_tensor(&l, k, 4, shape);
        bench_tensor(&l, v, 4, shape);
        bench_tensor(&l, o, 4, shape);
        bench_scalar(&l, 0.125);
        if (bench_try(b, &l)) {
            double e = attention_error(type, q, k, v, o, N, D, 1234, causal);
            if (!(e < 0.02)) fprintf(stderr, "%s: relative error %g\n", row, e), b->failures++;
            double flops = 4e-9 * H * N * N * D * (causal ? 0.5 : 1);
            char name[32];
            snprintf(name, sizeof name, "%s%s", tile_dtype_name(type), causal ? " causal" : "");
            peer = peer && peer_torch(name) > 0;
            bench_row(b, row, "GFLOP/s", flops,
                bench_pair(b, bench_launch, &l, peer ? peer_torch : NULL, name), peer_torch_name(), 0.75);
        }
    }
    bench_free(&l);
    free(q), free(k), free(v), free(o);
}

void bench_attention(Bench *b)
{
    bool peer = bench_wanted(b, "attention") && peer_torch_open(b->python, b->threads);
    attention(b, TILE_F16, false, peer);
    attention(b, TILE_F16, true, peer);
    attention(b, TILE_BF16, false, peer);
    attention(b, TILE_F32, false, peer);
    peer_torch_close();
}
