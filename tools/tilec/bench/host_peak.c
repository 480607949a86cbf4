/* host_peak.c: see host_peak.h. Two loops are timed on all threads at once: independent fused multiply-adds
 * in the widest vectors of the processor, and reads of an array. A rate is the best of several short rounds.
 */
#define _GNU_SOURCE
#include "tools/tilec/bench/host_peak.h"
#include "backends/backend.h"
#include "ir/target/processors.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    ROUNDS = 6,
    ROUND_NS = 3000000,
    PAUSE_NS = 200000,    /* between rounds, in which all threads come to the next */
    PIECE = 1 << 15,      /* bytes that are read between two looks at the clock */
    MOST_BYTES = 1 << 28, /* of all threads: larger than caches are */
    MOST_THREADS = 1024
};

/* --- the loops --------------------------------------------------------------------------------------- */

/* Multiply-adds under way: two units with a latency of up to six cycles; on Arm up to four, of 32 registers.
 * Each chain is a variable of its own, since an array would be kept in memory. */
#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#if defined(__aarch64__)
enum { CHAINS = 24 };
#define EACH_CHAIN(DO) \
    TWELVE(DO) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define IN_REGISTER "+w"
#else
enum { CHAINS = 12 };
#define EACH_CHAIN(DO) TWELVE(DO)
#if defined(__x86_64__)
#define IN_REGISTER "+x"
#else
#define IN_REGISTER "+m"
#endif
#endif
#define BEGIN_CHAIN(K) x##K = a,
#define ADD_PRODUCT(K) \
    x##K = x##K * f + a; \
    __asm__ volatile("" : IN_REGISTER(x##K));
#define END_CHAIN(K) sum += x##K[0];

/* `fma_NAME` adds products to CHAINS vectors `n` times; `read_NAME` reads PIECE bytes. Both give a number
 * that depends on everything, so that nothing is left out. */
/* clang-format off */
#define LOOPS(NAME, ATTRIBUTE, BYTES) \
    typedef float Floats_##NAME __attribute__((vector_size(BYTES))); \
    typedef int64_t Longs_##NAME __attribute__((vector_size(BYTES))); \
    ATTRIBUTE static double fma_##NAME(int64_t n, float factor, float more) \
    { \
        Floats_##NAME f = factor - (Floats_##NAME){ 0 }, a = more - (Floats_##NAME){ 0 }; \
        Floats_##NAME EACH_CHAIN(BEGIN_CHAIN) zero = { 0 }; \
        double sum = zero[0]; \
        for (int64_t i = 0; i < n; i++) { EACH_CHAIN(ADD_PRODUCT) } \
        EACH_CHAIN(END_CHAIN) \
        return sum; \
    } \
    ATTRIBUTE static double read_##NAME(const void *p) \
    { \
        const Longs_##NAME *v = p; \
        Longs_##NAME a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }; \
        for (int64_t i = 0; i < PIECE / BYTES; i += 8) { \
            a |= v[i] | v[i + 4]; \
            b |= v[i + 1] | v[i + 5]; \
            c |= v[i + 2] | v[i + 6]; \
            d |= v[i + 3] | v[i + 7]; \
        } \
        a |= b | c | d; \
        return (double)a[0]; \
    }
/* clang-format on */
#if defined(__x86_64__)
LOOPS(v4, __attribute__((target("avx512f"))), 64)
LOOPS(v3, __attribute__((target("avx2,fma"))), 32)
#endif
LOOPS(any, , 16)

typedef struct Loops {
    double (*fma)(int64_t, float, float);
    double (*read)(const void *);
    int lanes; /* of f32 */
} Loops;

static Loops loops_of_host(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return (Loops){ fma_v4, read_v4, 16 };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (Loops){ fma_v3, read_v3, 8 };
#endif
    return (Loops){ fma_any, read_any, 4 };
}

/* --- threads ----------------------------------------------------------------------------------------- */

typedef struct Team {
    Loops loops;
    _Atomic int ready;     /* threads whose part of the array lies in memory */
    _Atomic int64_t begin; /* of the first round; 0: not yet known */
} Team;

typedef struct Worker {
    Team *team;
    char *array;          /* to read; NULL: multiply-adds */
    int64_t bytes, at;    /* of the array; where the next piece begins */
    double rates[ROUNDS]; /* operations or bytes a nanosecond */
    volatile double used;
} Worker;

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Gives the operations or bytes that it did. */
static double do_some(Worker *w)
{
    const Loops *l = &w->team->loops;
    if (!w->array) {
        enum { TIMES = 4096 };
        w->used = l->fma(TIMES, 0.5f, 0.25f);
        return 2.0 * TIMES * CHAINS * l->lanes;
    }
    w->used = l->read(w->array + w->at);
    w->at = w->at + 2 * PIECE <= w->bytes ? w->at + PIECE : 0;
    return PIECE;
}

/* A thread writes its part of the array first, so that it lies in the memory next to its processor. */
static void prepare(Worker *w)
{
    if (w->array) memset(w->array, 1, (size_t)w->bytes);
    atomic_fetch_add(&w->team->ready, 1);
}

/* A rate is by the time that the thread had a processor, so that other processes matter little; where the
 * system counts that time in steps longer than a round, by the time that went by. */
static void measure_rounds(Worker *w)
{
    int64_t begin = atomic_load(&w->team->begin);
    for (int r = 0; r < ROUNDS; r++, begin += ROUND_NS + PAUSE_NS) {
        double done = 0;
        while (now(CLOCK_MONOTONIC) < begin) sched_yield();
        int64_t from = now(CLOCK_MONOTONIC), had = now(CLOCK_THREAD_CPUTIME_ID), end;
        do done += do_some(w);
        while ((end = now(CLOCK_MONOTONIC)) < begin + ROUND_NS);
        had = now(CLOCK_THREAD_CPUTIME_ID) - had;
        w->rates[r] = done / (double)(had > 0 ? had : end > from ? end - from : ROUND_NS);
    }
}

static void *work(void *arg)
{
    Worker *w = arg;
    prepare(w);
    while (!atomic_load(&w->team->begin)) sched_yield();
    measure_rounds(w);
    return NULL;
}

/* 10^12 operations or bytes a second of all threads together. The array is divided among them. */
static double team_rate(const Run *r, int threads, char *array, int64_t bytes)
{
    Arena *a = &r->tool->arena;
    Team team = { .loops = loops_of_host() };
    pthread_t *started = arena_array(a, pthread_t, (size_t)threads);
    Worker *workers = arena_array(a, Worker, (size_t)threads);
    int64_t share = bytes / threads / PIECE * PIECE;
    int n = 1;
    double best = 0;
    for (int k = 0; k < threads; k++)
        workers[k] = (Worker){ .team = &team, .array = array ? array + k * share : NULL, .bytes = share };
    while (n < threads && !pthread_create(&started[n], NULL, work, &workers[n])) n++;
    prepare(&workers[0]);
    while (atomic_load(&team.ready) < n) sched_yield();
    atomic_store(&team.begin, now(CLOCK_MONOTONIC) + PAUSE_NS);
    measure_rounds(&workers[0]);
    for (int k = 1; k < n; k++) pthread_join(started[k], NULL);
    for (int i = 0; i < ROUNDS; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += workers[k].rates[i];
        if (sum > best) best = sum;
    }
    return best * 1e-3;
}

/* 0: there is no memory for the array. */
static double read_rate(const Run *r, int threads, int64_t bytes)
{
    char *array = aligned_alloc(64, (size_t)bytes);
    double best = array ? team_rate(r, threads, array, bytes) : 0;
    free(array);
    return best;
}

/* --- processors -------------------------------------------------------------------------------------- */

static bool read_numbers(const char *path, double *first, double *second)
{
    FILE *f = fopen(path, "r");
    char line[64] = "", *end;
    bool ok = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    *first = (double)strtoll(line, &end, 10);
    *second = (double)strtoll(end, NULL, 10);
    return ok && end != line;
}

/* How many processors this process may keep busy: those that it may run on, or the part of their time that
 * its control group has. */
static double processors_had(int *whole)
{
    double quota, period, none;
    *whole = processors_usable();
    if (!read_numbers("/sys/fs/cgroup/cpu.max", &quota, &period) &&
        (!read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota, &none) ||
            !read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, &none)))
        return *whole;
    return quota > 0 && period > 0 && quota / period < *whole ? quota / period : *whole;
}

/* --- what is kept ------------------------------------------------------------------------------------ */

/* The rate by its name in the cache, or measured. */
static double rate(const Run *r, int threads, int64_t bytes, bool again)
{
    char name[200], text[64];
    format_text(name, sizeof name, "host peak, %s, %d threads, %lld bytes", r->device.name, threads,
        (long long)bytes);
    double kept =
        context_note_read(r->context, name, text, sizeof text) ? (double)strtoll(text, NULL, 10) * 1e-6 : 0;
    if (kept > 0 && !again) return kept;
    double best = bytes ? read_rate(r, threads, bytes) : team_rate(r, threads, NULL, 0);
    if (!(best > kept)) return kept;
    format_text(text, sizeof text, "%.0f", best * 1e6); /* 10^6 a second */
    context_note_write(r->context, name, text);
    return best;
}

/* How many times as fast as products of f32 those of the type are. */
static double times_f32(const Run *r, DType d)
{
    double times[2] = { 1, 1 };
#ifdef TILE_HAVE_BACKEND_CPU
    Session s;
    session_init(&s, r->tool->alloc);
    if (!setjmp(s.oom)) {
        times[1] = backend_cpu.product_rate(&s, context_target(r->context), DT_F32);
        times[0] = backend_cpu.product_rate(&s, context_target(r->context), d);
    } else times[0] = times[1] = 1;
    session_free(&s);
#endif
    return times[0] / times[1];
}

void host_peak(const Run *r, double bytes, bool again, HostPeak *p)
{
    int whole;
    double had = processors_had(&whole);
    int threads = r->device.multiprocessors < whole ? r->device.multiprocessors : whole;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    double part = had < threads ? had / threads : 1;
    int64_t held = (int64_t)threads * 2 * PIECE;
    while ((double)held < bytes && held < MOST_BYTES) held *= 2;
    double f32 = part * rate(r, threads, 0, again), f16 = times_f32(r, DT_F16), bf16 = times_f32(r, DT_BF16);
    *p = (HostPeak){ .tflops_8 = f32 * times_f32(r, DT_I8),
        .tflops_16 = f32 * (f16 > bf16 ? f16 : bf16),
        .tflops_32 = f32,
        .tflops_64 = f32 * times_f32(r, DT_F64),
        .memory_tbs = part * rate(r, threads, held, again) };
}
