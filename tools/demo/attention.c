/* attention.c: what a program does with tilec's output: includes the header, links the object, calls the
 * launcher. Checks the result against tests/ref in double precision and prints the error and the speed. Run
 * by ./quickstart. */
#include "attention.h"
#include "ref_compare.h"
#include "ref_kernels.h"
#include "ref_random.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { B = 2, H = 8, N = 512, D = 64, HEADS = B * H, HEAD = N * D };
/* No element may be off by more units in the last place of f16 than this, at the size that the elements of
 * its row have on average (at least that of all of them): the kernel rounds the weights and the result to
 * f16. */
static const double bound = 3;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(void *f16, double *exact, uint64_t seed)
{
    RefRandom r = { seed };
    for (int64_t i = 0; i < (int64_t)HEADS * HEAD; i++) {
        ref_put(REF_F16, f16, i, ref_random_normal(&r));
        exact[i] = ref_get(REF_F16, f16, i);
    }
}

/* The reference takes a while: a thread for each processor, and a word on how far it is. */
typedef struct Reference {
    const double *q, *k, *v;
    double *o;
    bool causal;
    int next, done;
} Reference;

static void *reference_heads(void *p)
{
    Reference *r = p;
    for (int head; (head = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED)) < HEADS;) {
        RefAttention a = {
            .b = 1, .h = 1, .hk = 1, .m = N, .n = N, .d = D, .scale = 1 / sqrt(D), .causal = r->causal
        };
        int64_t at = (int64_t)head * HEAD;
        ref_attention(r->q + at, r->k + at, r->v + at, r->o + at, &a);
        int done = __atomic_add_fetch(&r->done, 1, __ATOMIC_RELAXED);
        if (isatty(1)) printf("\r    checking in double precision: %d of %d heads", done, HEADS);
        else if (done % 8 == 0) printf("    checking in double precision: %d of %d heads\n", done, HEADS);
        fflush(stdout);
    }
    return NULL;
}

static void reference(const double *q, const double *k, const double *v, double *o, bool causal)
{
    Reference r = { q, k, v, o, causal, 0, 0 };
    pthread_t threads[HEADS];
    int n = 0;
    for (long more = sysconf(_SC_NPROCESSORS_ONLN) - 1; n < more && n < HEADS; n++)
        if (pthread_create(&threads[n], NULL, reference_heads, &r)) break;
    reference_heads(&r);
    while (n) pthread_join(threads[--n], NULL);
    if (isatty(1)) printf("\r%60s\r", "");
}

/* The norm over everything, the worst element by its row. */
static RefError compare(const double *got, const double *want)
{
    double rms = ref_rms(want, (int64_t)HEADS * HEAD);
    RefError all = ref_compare(REF_F16, got, want, (int64_t)HEADS * HEAD, rms);
    all.ulp = 0;
    for (int64_t row = 0; row < (int64_t)HEADS * N; row++) {
        RefError e =
            ref_compare(REF_F16, got + row * D, want + row * D, D, fmax(rms, ref_rms(want + row * D, D)));
        all.ulp = fmax(all.ulp, e.ulp);
    }
    return all;
}

static int compare_doubles(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static bool run(
    tile_view *t, const double *q, const double *k, const double *v, double *got, double *want, bool causal)
{
    static double seconds[64];
    tile_threads threads = { 0 }; /* all processors */
    int n = 0;
    printf("  attention, %s, B%d H%d N%d D%d, f16\n", causal ? "causal" : "not causal", B, H, N, D);
    /* NaN, so that elements that are not written show */
    memset(t[3].data, 0xff, sizeof(uint16_t) * HEADS * HEAD);
    for (double begin = now(); n < 64 && (n < 3 || now() - begin < 0.5); n++) {
        double start = now();
        int status = attention(t[0], t[1], t[2], t[3], (float)(1 / sqrt(D)), causal, &threads);
        seconds[n] = now() - start;
        if (status) {
            printf("    the launch failed with status %d\n", status);
            return false;
        }
    }
    qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
    double flop = 4.0 * HEADS * N * N * D * (causal ? (N + 1.0) / (2.0 * N) : 1), median = seconds[n / 2];
    printf("    %.2f ms, median of %d runs: %.1f GFLOPS\n", 1e3 * median, n, 1e-9 * flop / median);
    reference(q, k, v, want, causal);
    for (int64_t i = 0; i < (int64_t)HEADS * HEAD; i++) got[i] = ref_get(REF_F16, t[3].data, i);
    RefError e = compare(got, want);
    bool ok = e.misfits == 0 && e.ulp <= bound;
    printf("    error: %.2e of the result's norm; worst element %.2f ulp of f16 (allowed %g): %s\n", e.norm,
        e.ulp, bound, ok ? "right" : "WRONG");
    return ok;
}

int main(void)
{
    static const int64_t shape[4] = { B, H, N, D };
    size_t n = (size_t)HEADS * HEAD;
    tile_view t[4];
    double *exact[3], *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want);
    for (int i = 0; i < 4; i++) t[i] = (tile_view){ aligned_alloc(64, n * 2), shape, NULL };
    for (int i = 0; i < 3; i++) {
        exact[i] = malloc(n * sizeof(double));
        if (!exact[i] || !t[i].data || !t[3].data || !got || !want) {
            fputs("out of memory\n", stderr);
            return 1;
        }
        fill(t[i].data, exact[i], (uint64_t)i + 1);
    }
    bool causal = run(t, exact[0], exact[1], exact[2], got, want, true);
    bool full = run(t, exact[0], exact[1], exact[2], got, want, false);
    for (int i = 0; i < 4; i++) free(t[i].data);
    for (int i = 0; i < 3; i++) free(exact[i]);
    free(got);
    free(want);
    return !(causal && full);
}
