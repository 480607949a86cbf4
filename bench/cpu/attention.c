/* attention.c: attention and convolutions beside PyTorch's. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8 };

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

static void attention(Bench *b, tile_dtype type, int64_t n, int64_t d, bool causal, bool peer)
{
    char row[80], consts[64], ask[64];
    const char *name = tile_dtype_name(type);
    snprintf(row, sizeof row, "attention %s B1 H8 N%lld D%lld%s", name, (long long)n, (long long)d,
        causal ? " causal" : "");
    snprintf(ask, sizeof ask, "attention %s %lld %lld%s", name, (long long)n, (long long)d,
        causal ? " causal" : "");
    if (!bench_wanted(b, row)) return;
    snprintf(consts, sizeof consts, "T=%s CAUSAL=%s", name, causal ? "true" : "false");
    BenchLaunch l;
    int64_t shape[4] = { 1, HEADS, n, d }, count = (int64_t)HEADS * n * d;
    void *q = bench_random(type, count, 1), *k = bench_random(type, count, 2),
         *v = bench_random(type, count, 3), *o = bench_random(type, count, 4);
    if (bench_load(b, "attention", "attention", consts, &l)) {
        bench_tensor(&l, q, 4, shape);
        bench_tensor(&l, k, 4, shape);
        bench_tensor(&l, v, 4, shape);
        bench_tensor(&l, o, 4, shape);
        bench_scalar(&l, 0.125);
        if (bench_try(b, &l)) {
            double e = attention_error(type, q, k, v, o, n, d, n / 2 + 1, causal);
            if (!(e < 0.02)) fprintf(stderr, "%s: relative error %g\n", row, e), b->failures++;
            double flops = 4e-9 * HEADS * (double)(n * n * d) * (causal ? 0.5 : 1);
            peer = peer && peer_torch(ask) > 0;
            bench_row(b, row, "GFLOP/s", flops,
                bench_pair(b, bench_launch, &l, peer ? peer_torch : NULL, ask), peer_torch_name(),
                type == TILE_F32 ? 0.75 : 1);
        }
    }
    bench_free(&l);
    free(q), free(k), free(v), free(o);
}

void bench_attention(Bench *b)
{
    bool peer = bench_wants_some(b, "attention") && peer_torch_open(b);
    static const int64_t lengths[] = { 512, 2048, 4096 };
    for (int t = 0; t < 2; t++)
        for (int64_t d = 64; d <= 128; d *= 2)
            for (int n = 0; n < 3; n++)
                for (int causal = 0; causal < 2; causal++)
                    attention(b, t ? TILE_BF16 : TILE_F16, lengths[n], d, causal, peer);
    attention(b, TILE_F32, 2048, 64, false, peer);
    peer_torch_close();
}

/* --- convolutions ------------------------------------------------------------------------------------ */

typedef struct Conv {
    tile_dtype type;
    bool last; /* channels innermost */
    int64_t n, c, h;
} Conv;

static int64_t place(const Conv *s, int64_t n, int64_t c, int64_t y, int64_t x, int64_t h)
{ return s->last ? ((n * h + y) * h + x) * s->c + c : ((n * s->c + c) * h + y) * h + x; }

static double conv_error(const Conv *s, const void *x, const void *w, const void *y)
{
    double diff = 0, norm = 0;
    for (int64_t at = 0, all = s->n * s->c * s->h * s->h; at < all; at += all / 61 + 1) {
        int64_t j = at % s->h, i = at / s->h % s->h, f = at / s->h / s->h % s->c, n = at / s->h / s->h / s->c;
        double want = 0;
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t r = 0; r < 9; r++) {
                int64_t yy = i + r / 3 - 1, xx = j + r % 3 - 1;
                if (yy < 0 || xx < 0 || yy >= s->h || xx >= s->h) continue;
                want += bench_value(s->type, x, place(s, n, c, yy, xx, s->h)) *
                        bench_value(s->type, w, place(s, f, c, r / 3, r % 3, 3));
            }
        double got = bench_value(s->type, y, place(s, n, f, i, j, s->h));
        diff += (got - want) * (got - want), norm += want * want;
    }
    return sqrt(diff / norm);
}

static void conv(Bench *b, Conv s, bool peer)
{
    char row[80], ask[80], consts[32];
    const char *order = s.last ? "nhwc" : "nchw", *name = tile_dtype_name(s.type);
    snprintf(row, sizeof row, "conv2d %s %s N%lld C%lld %lldx%lld", name, order, (long long)s.n,
        (long long)s.c, (long long)s.h, (long long)s.h);
    snprintf(ask, sizeof ask, "conv %s %s %lld %lld %lld", name, order, (long long)s.n, (long long)s.c,
        (long long)s.h);
    if (!bench_wanted(b, row)) return;
    snprintf(consts, sizeof consts, "T=%s", name);
    BenchLaunch l;
    int64_t count = s.n * s.c * s.h * s.h;
    int64_t image[4] = { s.n, s.last ? s.h : s.c, s.h, s.last ? s.c : s.h };
    int64_t filter[4] = { s.c, s.last ? 3 : s.c, 3, s.last ? s.c : 3 };
    void *x = bench_random(s.type, count, 1), *w = bench_random(s.type, s.c * s.c * 9, 2),
         *y = bench_random(s.type, count, 3);
    if (bench_load(b, "conv2d", s.last ? "conv2d_nhwc" : "conv2d_nchw", consts, &l)) {
        bench_tensor(&l, x, 4, image);
        bench_tensor(&l, w, 4, filter);
        bench_tensor(&l, y, 4, image);
        if (bench_try(b, &l)) {
            double e = conv_error(&s, x, w, y);
            if (!(e < 0.01)) fprintf(stderr, "%s: relative error %g\n", row, e), b->failures++;
            peer = peer && peer_torch(ask) > 0;
            bench_row(b, row, "GFLOP/s", 2e-9 * 9 * (double)(count * s.c),
                bench_pair(b, bench_launch, &l, peer ? peer_torch : NULL, ask), peer_torch_name(), 0.75);
        }
    }
    bench_free(&l);
    free(x), free(w), free(y);
}

void bench_convolutions(Bench *b)
{
    bool peer = bench_wants_some(b, "conv2d") && peer_torch_open(b);
    for (int t = 0; t < 2; t++)
        for (int last = 0; last < 2; last++) {
            conv(b, (Conv){ t ? TILE_BF16 : TILE_F32, last, 1, 64, 56 }, peer);
            conv(b, (Conv){ t ? TILE_BF16 : TILE_F32, last, 8, 128, 28 }, peer);
        }
    peer_torch_close();
}
