/* host_peak.c: see host_peak.h. Two loops are timed on all threads at once: independent fused multiply-adds
 * in the widest vectors of the processor, and reads of an array. A rate is the best of several short rounds.
 */
#include "tools/tilec/host_peak.h"
#include "backends/backend.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS = 6,
    ROUND_NS = 3000000,
    PAUSE_NS = 200000,    /* between rounds, in which all threads come to the next */
    CHAINS = 12,          /* multiply-adds under way: two units with a latency of up to six cycles */
    PIECE = 1 << 15,      /* bytes that are read between two looks at the clock */
    MOST_BYTES = 1 << 28, /* of all threads: larger than caches are */
    MOST_THREADS = 1024
};

/* --- the loops --------------------------------------------------------------------------------------- */

/* Each chain is a variable of its own, since an array would be kept in memory. */
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
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
#define IN_REGISTER "+x"
LOOPS(v4, __attribute__((target("avx512f"))), 64)
LOOPS(v3, __attribute__((target("avx2,fma"))), 32)
#else
#define IN_REGISTER "+w"
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
    _Atomic int64_t begin; /* of the first round; 0: not yet known */
} Team;

typedef struct Worker {
    Team *team;
    const char *array;    /* to read; NULL: multiply-adds */
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

/* A rate is by the time that the thread had a processor, so that other processes matter little. */
static void *work(void *arg)
{
    Worker *w = arg;
    int64_t begin;
    while (!(begin = atomic_load(&w->team->begin))) sched_yield();
    for (int r = 0; r < ROUNDS; r++, begin += ROUND_NS + PAUSE_NS) {
        double done = 0;
        while (now(CLOCK_MONOTONIC) < begin) sched_yield();
        int64_t from = now(CLOCK_THREAD_CPUTIME_ID);
        do done += do_some(w);
        while (now(CLOCK_MONOTONIC) < begin + ROUND_NS);
        w->rates[r] = done / (double)(now(CLOCK_THREAD_CPUTIME_ID) - from);
    }
    return NULL;
}

/* 10^12 operations or bytes a second of all threads together. The array is divided among them. */
static double team_rate(const Run *r, int threads, const char *array, int64_t bytes)
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
    atomic_store(&team.begin, now(CLOCK_MONOTONIC) + PAUSE_NS);
    work(&workers[0]);
    for (int k = 1; k < n; k++) pthread_join(started[k], NULL);
    for (int i = 0; i < ROUNDS; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += workers[k].rates[i];
        if (sum > best) best = sum;
    }
    return best * 1e-3;
}

static double read_rate(const Run *r, int threads, int64_t bytes)
{
    char *array = arena_alloc(&r->tool->arena, (size_t)bytes + 64);
    memset(array, 1, (size_t)bytes + 64);
    return team_rate(r, threads, array + (-(uintptr_t)array & 63), bytes);
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
    if (best <= kept) return kept;
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
    int threads = r->device.multiprocessors < MOST_THREADS ? r->device.multiprocessors : MOST_THREADS;
    int64_t held = (int64_t)threads * 2 * PIECE;
    while ((double)held < bytes && held < MOST_BYTES) held *= 2;
    double f32 = rate(r, threads, 0, again), f16 = times_f32(r, DT_F16), bf16 = times_f32(r, DT_BF16);
    *p = (HostPeak){ .tflops_8 = f32 * times_f32(r, DT_I8),
        .tflops_16 = f32 * (f16 > bf16 ? f16 : bf16),
        .tflops_32 = f32,
        .tflops_64 = f32 * times_f32(r, DT_F64),
        .memory_tbs = rate(r, threads, held, again) };
}
