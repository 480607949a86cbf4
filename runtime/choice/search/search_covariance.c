/* search_covariance.c: covariances of points of a search with those that are known, and sums of products of
 * these, for the predictions of search_predict.c. Some hundred thousand of either are wanted in one search.
 *
 * Which points are compiled depends on the last bits of these sums. So they are made in one order for all
 * processors, of as many parts as the widest registers hold. */
#include "runtime/choice/search/search_covariance.h"
#include <math.h>

void search_covariance_begin(SearchCovariance *c, double reach)
{
    for (int i = 0; i <= SEARCH_PER_STEP * SEARCH_MOST_STEPS; i++)
        c->falls[i] = (float)exp(-i / (SEARCH_PER_STEP * reach));
}

/* Numbers at once: known points of a covariance, or terms of a sum. In registers of 128 bits they are two. */
enum { LANES = SEARCH_POINTS_AT_ONCE, SUMS = 4 /* of the names of a point */ };
typedef float Wide __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t WideBits __attribute__((vector_size(LANES * sizeof(int32_t))));
#define INLINE static inline __attribute__((always_inline))

/* How far the known points from k on are from the point at `x`, in parts of steps. */
INLINE void distances(const SearchCovariance *c, const float *x, int k, float *out)
{
    Wide sum[SUMS] = { { 0 } };
#pragma GCC unroll 12
    for (int j = 0; j < MOST_NAMES; j++) {
        Wide known;
        memcpy(&known, c->x[j] + k, sizeof known);
        known -= x[j];
        sum[j % SUMS] += c->weight[j] * (Wide)((WideBits)known & INT32_MAX);
    }
    const Wide all = (sum[0] + sum[1] + (sum[2] + sum[3])) * SEARCH_PER_STEP;
    memcpy(out, &all, sizeof all);
}

/* By a table of the exponential function, between whose values it is a line. */
INLINE void covariances(const SearchCovariance *c, const float *x, int from, int to, float *out)
{
    const float most = SEARCH_PER_STEP * SEARCH_MOST_STEPS - 1;
    for (int k = from; k < to; k += LANES) {
        float far[LANES];
        distances(c, x, k, far);
        for (int p = 0; p < LANES && k + p < to; p++) {
            const float at = far[p] < most ? far[p] : most;
            const int i = (int)at;
            out[k + p] = c->falls[i] + (at - (float)i) * (c->falls[i + 1] - c->falls[i]);
        }
    }
}

INLINE float product(const float *a, const float *b, int n)
{
    Wide sum = { 0 };
    float all = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        Wide x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        sum += x * y;
    }
    for (; i < n; i++) sum[0] += a[i] * b[i];
    for (int k = 0; k < LANES; k++) all += sum[k];
    return all;
}

/* The same in registers of 256 bits, where multiplications and additions stay apart. */
#if defined(__x86_64__)
#define HAS_WIDE __builtin_cpu_supports("avx2")
#define WIDE __attribute__((target("avx2")))
#else
#define HAS_WIDE false
#define WIDE
#endif

WIDE static void covariances_wide(const SearchCovariance *c, const float *x, int from, int to, float *out)
{ covariances(c, x, from, to, out); }

WIDE static float product_wide(const float *a, const float *b, int n) { return product(a, b, n); }

void search_covariances(
    const SearchCovariance *c, const float x[MOST_NAMES], int from, int to, float out[SEARCH_MOST_KNOWN])
{
    if (HAS_WIDE) covariances_wide(c, x, from, to, out);
    else covariances(c, x, from, to, out);
}

float search_product(const float *a, const float *b, int n)
{ return HAS_WIDE ? product_wide(a, b, n) : product(a, b, n); }
