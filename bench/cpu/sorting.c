/* sorting.c: rows sorted, beside NumPy's sort, and their largest elements, beside PyTorch's topk. */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>

/* Whether some rows of y are in order, with the smallest and the largest element of x at their ends. */
static bool sorted(const float *x, const float *y, int64_t m, int64_t n)
{
    for (int64_t r = 0; r < m; r += m / 5 + 1) {
        const float *from = x + r * n, *to = y + r * n;
        float least = from[0], most = from[0];
        for (int64_t j = 0; j < n; j++) {
            if (from[j] < least) least = from[j];
            if (from[j] > most) most = from[j];
            if (j && to[j - 1] > to[j]) return false;
        }
        if (to[0] != least || to[n - 1] != most) return false;
    }
    return true;
}

/* Whether the k elements of some rows descend, stand where `place` says, and no other is larger. */
static bool largest(const float *x, const float *y, const int32_t *place, int64_t m, int64_t n, int64_t k)
{
    for (int64_t r = 0; r < m; r += m / 5 + 1) {
        int64_t larger = 0;
        for (int64_t j = 0; j < k; j++) {
            int64_t at = r * k + j;
            if (place[at] < 0 || place[at] >= n || x[r * n + place[at]] != y[at]) return false;
            if (j && y[at - 1] < y[at]) return false;
        }
        for (int64_t j = 0; j < n; j++) larger += x[r * n + j] > y[r * k + k - 1];
        if (larger >= k) return false;
    }
    return true;
}

static void row_of(Bench *b, BenchLaunch *l, const char *row, char *ask, int64_t elements, const char *name)
{
    bool peer = peer_torch(ask) > 0;
    bench_row(b, row, "Melem/s", 1e-6 * (double)elements,
        bench_pair(b, bench_launch, l, peer ? peer_torch : NULL, ask), name, 1);
}

static void sort_rows(Bench *b, int64_t m, int64_t n)
{
    char row[80], ask[80], kernel[512];
    snprintf(kernel, sizeof kernel, "%s/sort_rows", b->folder);
    snprintf(row, sizeof row, "sort f32 %lldx%lld", (long long)m, (long long)n);
    snprintf(ask, sizeof ask, "sort %lld %lld", (long long)m, (long long)n);
    if (!bench_wanted(b, row)) return;
    BenchLaunch l;
    float *x = bench_random(TILE_F32, m * n, 1), *y = bench_random(TILE_F32, m * n, 2);
    if (bench_load(b, kernel, "sort_rows", "", &l)) {
        bench_matrix(&l, x, m, n, false);
        bench_matrix(&l, y, m, n, false);
        if (bench_try(b, &l)) {
            if (!sorted(x, y, m, n)) fprintf(stderr, "%s: not sorted\n", row), b->failures++;
            row_of(b, &l, row, ask, m * n, "NumPy");
        }
    }
    bench_free(&l);
    free(x), free(y);
}

static void topk_rows(Bench *b, int64_t m, int64_t n, int64_t k)
{
    char row[80], ask[80];
    snprintf(row, sizeof row, "topk f32 %lld of %lldx%lld", (long long)k, (long long)m, (long long)n);
    snprintf(ask, sizeof ask, "topk %lld %lld %lld", (long long)k, (long long)m, (long long)n);
    if (!bench_wanted(b, row)) return;
    BenchLaunch l;
    float *x = bench_random(TILE_F32, m * n, 1), *y = bench_random(TILE_F32, m * k, 2);
    int32_t *place = bench_random(TILE_I32, m * k, 3);
    if (bench_load(b, "topk", "topk_rows", "T=f32", &l)) {
        bench_matrix(&l, x, m, n, false);
        bench_matrix(&l, y, m, k, false);
        bench_matrix(&l, place, m, k, false);
        if (bench_try(b, &l)) {
            if (!largest(x, y, place, m, n, k)) fprintf(stderr, "%s: wrong\n", row), b->failures++;
            row_of(b, &l, row, ask, m * n, peer_torch_name());
        }
    }
    bench_free(&l);
    free(x), free(y), free(place);
}

void bench_sorting(Bench *b)
{
    if (!bench_wants_some(b, "sort f32") && !bench_wants_some(b, "topk f32")) return;
    (void)peer_torch_open(b);
    sort_rows(b, 2048, 4096);
    topk_rows(b, 512, 32000, 8);
    peer_torch_close();
}
