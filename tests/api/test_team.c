/* test_team.c: how many threads a launch on the CPU takes, and whose they are. */
#include "api.h"
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static const char text[] = "kernel saxpy(in f32 X[N], inout f32 Y[N], f32 a) grid (cdiv(N, 256))\n"
                           "{\n"
                           "    let i = program_id();\n"
                           "    store(Y[i*256 +: 256], a * load(X[i*256 +: 256]) + load(Y[i*256 +: 256]));\n"
                           "}\n"
                           "kernel powers(in f32 X[N], out f32 Y[N], in f32 T[K]) grid (cdiv(N, 64))\n"
                           "{\n"
                           "    let i = program_id();\n"
                           "    let x = load(X[i*64 +: 64]);\n"
                           "    var y = x;\n"
                           "    for k in 0 .. extent(T, 0) { y = y * x + load(T[k]); }\n"
                           "    store(Y[i*64 +: 64], y);\n"
                           "}\n"
                           "kernel steps(in f32 X[N], out f32 Y[N], i32 n) grid (cdiv(N, 64))\n"
                           "{\n"
                           "    let i = program_id();\n"
                           "    var y = load(X[i*64 +: 64]);\n"
                           "    for k in 0 .. n { y = y * 0.5 + 1.0; }\n"
                           "    store(Y[i*64 +: 64], y);\n"
                           "}\n"
                           "kernel ordered(in f32 X[N], inout f32 Y[K], inout i32 S[P], i32 n) grid (P)\n"
                           "{\n"
                           "    let i = program_id();\n"
                           "    let x = load(X[i*64 +: 64]);\n"
                           "    for t in 0 .. cdiv(K, 64) {\n"
                           "        var y = x;\n"
                           "        for k in 0 .. n { y = y * 0.5 + x; }\n"
                           "        atomic_add(Y[t*64 +: 64], y * 0.3333, step = t, semaphore = S);\n"
                           "    }\n"
                           "}\n";

enum { MANY = 1 << 20, TEAM = 4 };
static float *x, *y;
static atomic_bool in_region;

/* The name by which an OpenMP library tells that its caller is in a parallel region. */
__attribute__((visibility("default"))) int omp_in_parallel(void);
int omp_in_parallel(void) { return atomic_load(&in_region); }

/* A pool of the caller that does everything itself, in reverse, and records what it was asked for. */
typedef struct Serial {
    int calls, n;
} Serial;

static void serial(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    Serial *s = user;
    s->calls++;
    s->n = n;
    for (int i = n; i-- > 0;) task(arg, i);
}

static tile_context *open_team(int threads, Serial *s)
{
    tile_context *c;
    tile_context_desc d = { .struct_size = sizeof d,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE,
        .threads = threads,
        .run_threads = s ? serial : NULL,
        .run_threads_user = s };
    if (tile_context_create(&d, &c)) exit(1);
    return c;
}

static tile_status saxpy(tile_kernel *k, const float *from, float *to, int64_t n)
{
    tile_tensor a = { (void *)(uintptr_t)from, &n, NULL, 1, TILE_F32 }, b = { to, &n, NULL, 1, TILE_F32 };
    return tile_launch(
        k, (tile_arg[]){ tile_arg_tensor(&a), tile_arg_tensor(&b), tile_arg_float(2) }, 3, NULL);
}

static void powers(tile_context *c, tile_kernel *k, int64_t n, int64_t count)
{
    float *t = x + MANY / 2;
    tile_tensor a = { x, &n, NULL, 1, TILE_F32 }, b = { y, &n, NULL, 1, TILE_F32 },
                d = { t, &count, NULL, 1, TILE_F32 };
    OK(c, tile_launch(
              k, (tile_arg[]){ tile_arg_tensor(&a), tile_arg_tensor(&b), tile_arg_tensor(&d) }, 3, NULL));
    for (int64_t i = 0; i < n; i++) {
        float want = x[i];
        for (int64_t j = 0; j < count; j++) want = fmaf(want, x[i], t[j]);
        if (!(fabsf(y[i] - want) <= 1e-4f * (1 + fabsf(want)))) {
            CU_FAIL("powers");
            return;
        }
    }
}

static void check_saxpy(tile_context *c, tile_kernel *k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = 1;
    OK(c, saxpy(k, x, y, n));
    for (int64_t i = 0; i < n; i++)
        if (y[i] != 2 * x[i] + 1) {
            CU_FAIL("saxpy");
            return;
        }
}

/* Work decides, not the number of programs: the first launch has 8 programs and the last but one has 8 too.
 */
static void test_worth(void)
{
    Serial s = { 0, 0 };
    tile_context *c = open_team(TEAM, &s);
    tile_kernel *k, *p;
    CU_ASSERT_FATAL(kernel_of(c, text, "saxpy", NULL, 0, &k) == TILE_OK);
    CU_ASSERT_FATAL(kernel_of(c, text, "powers", NULL, 0, &p) == TILE_OK);
    check_saxpy(c, k, 2000);
    CU_ASSERT_EQUAL(s.calls, 0);
    check_saxpy(c, k, MANY);
    CU_ASSERT_EQUAL(s.calls, 1);
    CU_ASSERT_EQUAL(s.n, TEAM);
    check_saxpy(c, k, MANY); /* remembered */
    CU_ASSERT_EQUAL(s.calls, 2);
    CU_ASSERT_EQUAL(s.n, TEAM);
    powers(c, p, 500, 3);
    CU_ASSERT_EQUAL(s.calls, 2);
    powers(c, p, 500, 450); /* the extent decides how often the loop runs */
    CU_ASSERT_EQUAL(s.calls, 3);
    CU_ASSERT(s.n > 1 && s.n < TEAM);
    powers(c, p, 500, 3000);
    CU_ASSERT_EQUAL(s.n, TEAM);
    powers(c, p, 60, 3000); /* one program */
    CU_ASSERT_EQUAL(s.calls, 4);
    tile_kernel_destroy(k);
    tile_kernel_destroy(p);
    tile_context_destroy(c);
}

static void steps(tile_context *c, tile_kernel *k, int64_t n)
{
    int64_t extent = 500;
    tile_tensor a = { x, &extent, NULL, 1, TILE_F32 }, b = { y, &extent, NULL, 1, TILE_F32 };
    OK(c, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&a), tile_arg_tensor(&b), tile_arg_int(n) }, 3, NULL));
    for (int64_t i = 0; i < extent; i++) {
        float want = x[i];
        for (int64_t j = 0; j < n; j++) want = want * 0.5f + 1;
        if (!(fabsf(y[i] - want) <= 1e-5f)) {
            CU_FAIL("steps");
            return;
        }
    }
}

/* A launch with another scalar, which decides how often a loop runs, takes as many threads as it is worth
 * itself, not as many as an earlier launch. */
static void test_scalar(void)
{
    Serial s = { 0, 0 };
    tile_context *c = open_team(TEAM, &s);
    tile_kernel *k;
    CU_ASSERT_FATAL(kernel_of(c, text, "steps", NULL, 0, &k) == TILE_OK);
    steps(c, k, 3);
    CU_ASSERT_EQUAL(s.calls, 0);
    steps(c, k, 30000);
    CU_ASSERT_EQUAL(s.calls, 1);
    CU_ASSERT_EQUAL(s.n, TEAM);
    steps(c, k, 30000); /* remembered */
    CU_ASSERT_EQUAL(s.calls, 2);
    steps(c, k, 2);
    CU_ASSERT_EQUAL(s.calls, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(c);
}

static int threads_now(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* Whether the process has, or comes to have, so many threads: one that was joined may stay in the list for a
 * moment. */
static bool threads_become(int n)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES && threads_now() != n; i++) usleep(10000);
    return threads_now() == n;
}

/* How many threads there are when those of earlier tests are gone. */
static int threads_settled(void)
{
    int n = threads_now();
    for (int last = 0; n != last; n = threads_now()) {
        last = n;
        usleep(50000);
    }
    return n;
}

/* Threads start with the first launch that is worth them, none starts in a parallel region, and all end with
 * the context. */
static void test_region(void)
{
    tile_context *c = open_team(TEAM, NULL);
    tile_kernel *k;
    int before = threads_settled();
    CU_ASSERT_FATAL(kernel_of(c, text, "saxpy", NULL, 0, &k) == TILE_OK);
    atomic_store(&in_region, true);
    check_saxpy(c, k, MANY);
    CU_ASSERT_EQUAL(threads_now(), before);
    atomic_store(&in_region, false);
    check_saxpy(c, k, 2000);
    CU_ASSERT_EQUAL(threads_now(), before);
    for (int i = 0; i < 20; i++) check_saxpy(c, k, MANY);
    CU_ASSERT_EQUAL(threads_now(), before + TEAM - 1);
    tile_kernel_destroy(k);
    tile_context_destroy(c);
    CU_ASSERT(threads_become(before));
}

typedef struct Caller {
    tile_kernel *k;
    float *y;
    bool bad;
} Caller;

static void *caller(void *arg)
{
    Caller *me = arg;
    enum { LEN = 1 << 16, ROUNDS = 40 };
    for (int i = 0; i < LEN; i++) me->y[i] = 1;
    for (int r = 0; r < ROUNDS; r++) me->bad |= saxpy(me->k, x, me->y, LEN) != TILE_OK;
    for (int i = 0; i < LEN; i++) me->bad |= me->y[i] != 1 + ROUNDS * 2 * x[i];
    return NULL;
}

/* Several threads launch at once, on two contexts: the pools together take no more threads than there are
 * places, and every launch is whole. */
static void test_callers(void)
{
    enum { CALLERS = 8 };
    tile_context *c[2] = { open_team(TEAM, NULL), open_team(3, NULL) };
    tile_kernel *k[2];
    Caller all[CALLERS];
    pthread_t id[CALLERS];
    for (int i = 0; i < 2; i++) CU_ASSERT_FATAL(kernel_of(c[i], text, "saxpy", NULL, 0, &k[i]) == TILE_OK);
    for (int i = 0; i < CALLERS; i++) {
        all[i] = (Caller){ k[i % 2], aligned_alloc(64, (size_t)1 << 18), false };
        pthread_create(&id[i], NULL, caller, &all[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(id[i], NULL);
        CU_ASSERT(!all[i].bad);
        free(all[i].y);
    }
    for (int i = 0; i < 2; i++) {
        tile_kernel_destroy(k[i]);
        tile_context_destroy(c[i]);
    }
}

static tile_status ordered(tile_kernel *k, float *sums, int64_t n_sums, int32_t *semaphore, int64_t programs)
{
    int64_t n = programs * 64;
    tile_tensor a = { x + 1000, &n, NULL, 1, TILE_F32 }, b = { sums, &n_sums, NULL, 1, TILE_F32 },
                s = { semaphore, &programs, NULL, 1, TILE_I32 };
    return tile_launch(k,
        (tile_arg[]){ tile_arg_tensor(&a), tile_arg_tensor(&b), tile_arg_tensor(&s), tile_arg_int(5000) }, 4,
        NULL);
}

/* Sums in a fixed order have the same bits, however many threads add; and the semaphore is 0 again, so that
 * the next launch finds what it needs. */
static void test_ordered(void)
{
    enum { PROGRAMS = 40, SUMS = 128 };
    static int32_t semaphore[PROGRAMS];
    static float sums[SUMS], want[SUMS];
    for (int threads = 1; threads <= TEAM; threads++) {
        tile_context *c = open_team(threads, NULL);
        tile_kernel *k;
        CU_ASSERT_FATAL(kernel_of(c, text, "ordered", NULL, 0, &k) == TILE_OK);
        for (int i = 0; i < SUMS; i++) sums[i] = 1e4f / (float)(i + 1);
        for (int run = 0; run < 3; run++) OK(c, ordered(k, sums, SUMS, semaphore, PROGRAMS));
        if (threads == 1) memcpy(want, sums, sizeof want);
        CU_ASSERT(!memcmp(want, sums, sizeof want));
        for (int i = 0; i < PROGRAMS; i++) CU_ASSERT_EQUAL(semaphore[i], 0);
        tile_kernel_destroy(k);
        tile_context_destroy(c);
    }
}

typedef struct Task {
    pthread_t id;
    void (*task)(void *arg, int i);
    void *arg;
    int i;
} Task;

static void *run_task(void *task)
{
    Task *t = task;
    t->task(t->arg, t->i);
    return NULL;
}

/* A pool of the caller whose threads all run, also when the first one ends early. */
static void spread(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    Task all[TEAM];
    for (int i = 0; i < n; i++) {
        all[i] = (Task){ .task = task, .arg = arg, .i = i };
        if (pthread_create(&all[i].id, NULL, run_task, &all[i])) exit(1);
    }
    for (int i = 0; i < n; i++) pthread_join(all[i].id, NULL);
}

/* A check that fails keeps no program from running, since another thread may wait for it. A thread looks at
 * the clock after the first program of its share, whose check fails here. */
static void test_ordered_checks(void)
{
    enum { PROGRAMS = 1024 };
    static int32_t semaphore[PROGRAMS] = { 100 };
    static float sums[64];
    tile_context_desc d = { .struct_size = sizeof d,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE | TILE_CONTEXT_CHECKED,
        .threads = TEAM,
        .run_threads = spread };
    tile_context *c;
    tile_kernel *k;
    CU_ASSERT_FATAL(tile_context_create(&d, &c) == TILE_OK);
    CU_ASSERT_FATAL(kernel_of(c, text, "ordered", NULL, 0, &k) == TILE_OK);
    CHECK_STATUS(c, ordered(k, sums, 64, semaphore, PROGRAMS), TILE_ERROR_CHECK);
    CHECK_TEXT(error_of(c), "the semaphore was not 0");
    tile_kernel_destroy(k);
    tile_context_destroy(c);
}

static atomic_bool spinning;

static void *spin(void *unused)
{
    while (atomic_load_explicit(&spinning, memory_order_relaxed)) {}
    return unused;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* The median time of ten launches of two microseconds of work. */
static double ten_launches(tile_kernel *k)
{
    enum { BATCHES = 301, LEN = 12000 };
    double took[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        double start = seconds();
        for (int i = 0; i < 10; i++)
            if (saxpy(k, x, y, LEN)) CU_FAIL("saxpy");
        took[b] = seconds() - start;
        usleep(500); /* the batches of one slice of the scheduler would be one observation */
    }
    qsort(took, BATCHES, sizeof *took, by_size);
    return took[BATCHES / 2];
}

/* Microseconds of processor time of this thread. */
static double own_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* A launch of one thread and 16 elements takes at most half a microsecond, the least of many batches,
 * where the build is optimized and has no sanitizer. */
static void test_cost(void)
{
    enum { BATCHES = 50, LAUNCHES = 2000 };
    tile_context *c = open_team(1, NULL);
    tile_kernel *k;
    double least = 1e9;
    CU_ASSERT_FATAL(kernel_of(c, text, "saxpy", NULL, 0, &k) == TILE_OK);
    for (int b = 0; b < BATCHES; b++) {
        double start = own_time();
        for (int i = 0; i < LAUNCHES; i++)
            if (saxpy(k, x, y, 16)) CU_FAIL("saxpy");
        double took = (own_time() - start) / LAUNCHES;
        if (took < least) least = took;
    }
    printf("%.2f us a launch ", least);
    CU_ASSERT(!OPTIMIZED || least <= 0.5);
    tile_kernel_destroy(k);
    tile_context_destroy(c);
}

/* Launches with all threads of the machine take at most three times as long beside two busy loops. The
 * machine may have other work, which comes and goes: one of some attempts has to do. */
static void test_busy(void)
{
    enum { LOOPS = 2, ATTEMPTS = 6 };
    tile_context *c = open_team(0, NULL);
    tile_kernel *k;
    double idle = 0, busy = 1;
    CU_ASSERT_FATAL(kernel_of(c, text, "saxpy", NULL, 0, &k) == TILE_OK);
    for (int a = 0; a < ATTEMPTS && busy > 3 * idle; a++) {
        pthread_t id[LOOPS];
        idle = ten_launches(k);
        atomic_store(&spinning, true);
        for (int i = 0; i < LOOPS; i++)
            if (pthread_create(&id[i], NULL, spin, NULL)) exit(1);
        busy = ten_launches(k);
        atomic_store(&spinning, false);
        for (int i = 0; i < LOOPS; i++) pthread_join(id[i], NULL);
        printf("%.1f us, beside busy loops %.1f us ", 1e6 * idle, 1e6 * busy);
    }
    CU_ASSERT(busy <= 3 * idle);
    tile_kernel_destroy(k);
    tile_context_destroy(c);
}

int main(int argc, char **argv)
{
    x = aligned_alloc(64, MANY * sizeof *x);
    y = aligned_alloc(64, MANY * sizeof *y);
    for (int i = 0; i < MANY; i++) x[i] = (float)(i % 17) / 32;
    static const UnitTest tests[] = { { "the work decides", test_worth }, { "scalars count", test_scalar },
        { "whose threads", test_region }, { "many callers", test_callers }, { "sums in order", test_ordered },
        { "checks of sums in order", test_ordered_checks }, { "cost of a launch", test_cost },
        { "beside busy loops", test_busy } };
    int failed = unit_run("team", tests, sizeof tests / sizeof *tests, argc, argv);
    free(x);
    free(y);
    return failed;
}
