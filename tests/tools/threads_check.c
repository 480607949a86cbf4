/* threads_check.c: how many threads the launches of an object start, and what launches cost (see
 * object_threads.sh). The argument names the test. */
#define _GNU_SOURCE
#include "expect.h"
#include "k.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 1 << 20, TEAM = 4 };
static float x[MANY], y[MANY];
static int started;
static atomic_bool in_region, spinning;

int omp_in_parallel(void);
int omp_in_parallel(void) { return in_region; }

/* Counts the threads that the launcher starts. */
int pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    started++;
    return real(id, a, fn, arg);
}

static void launch(int64_t n, const tile_threads *threads)
{
    tile_view in = { x, &n, NULL }, out = { y, &n, NULL };
    EXPECT("launch", saxpy(in, out, 2, threads), TILE_LAUNCH_OK);
}

/* A launch of n elements starts so many threads, and its sums are right. */
static void check(int64_t n, const tile_threads *threads, int want)
{
    int before = started, wrong = 0;
    for (int64_t i = 0; i < n; i++) y[i] = 1;
    launch(n, threads);
    for (int64_t i = 0; i < n; i++) wrong += y[i] != 2 * x[i] + 1;
    EXPECT("wrong sums", wrong, 0);
    EXPECT("threads started", started - before, want);
}

static void test_worth(void)
{
    tile_threads t = { TEAM, NULL, NULL };
    check(2000, &t, 0);
    check(2000, NULL, 0);
    check(MANY, NULL, 0);
    check(MANY, &t, TEAM - 1);
}

static void test_region(void)
{
    tile_threads t = { TEAM, NULL, NULL }, all = { 0, NULL, NULL };
    in_region = true;
    check(MANY, &t, 0);
    check(MANY, &all, 0);
    in_region = false;
    check(MANY, &t, TEAM - 1);
}

/* All processors are those that the process may run on: of one, nothing is started. */
static void test_affinity(void)
{
    tile_threads all = { 0, NULL, NULL };
    cpu_set_t allowed, one;
    EXPECT("sched_getaffinity", sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int cpu = 0, before = started;
    launch(MANY, &all);
    EXPECT("starts threads on several processors", started > before, CPU_COUNT(&allowed) > 1);
    while (!CPU_ISSET(cpu, &allowed)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT("sched_setaffinity", sched_setaffinity(0, sizeof one, &one), 0);
    check(MANY, &all, 0);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

static int asked;

static void serial(void *pool, int n, void (*task)(void *, int), void *arg)
{
    *(int *)pool = n;
    for (int i = n; i-- > 0;) task(arg, i);
}

static void test_pool(void)
{
    tile_threads t = { TEAM, serial, &asked };
    check(2000, &t, 0);
    EXPECT("asked of the pool for little work", asked, 0);
    check(MANY, &t, 0);
    EXPECT("asked of the pool", asked, TEAM);
    in_region = true; /* the caller knows what its pool may do there */
    asked = 0;
    check(MANY, &t, 0);
    EXPECT("asked of the pool in a region", asked, TEAM);
}

static void test_fork(void)
{
    tile_threads t = { TEAM, NULL, NULL };
    int status = -1;
    check(MANY, &t, TEAM - 1);
    pid_t child = fork();
    if (!child) {
        alarm(240);
        check(MANY, &t, TEAM - 1);
        check(2000, &t, 0);
        _exit(failures != 0);
    }
    EXPECT("waitpid", waitpid(child, &status, 0), child);
    EXPECT("the child's status", status, 0);
    check(MANY, &t, TEAM - 1);
}

/* Microseconds of a clock. */
static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* 16 elements: at most half a microsecond of processor time, the least of many batches. What shares the core
 * slows all of them down for a while, so they end only after some pauses. */
static void check_cost(const tile_threads *threads)
{
    enum { BATCHES = 50, ATTEMPTS = 12, LAUNCHES = 2000, PAUSE = 300000 /* microseconds */ };
    double least = 1e9;
    for (int b = 0; b < BATCHES * ATTEMPTS && (b < BATCHES || least > 0.5); b++) {
        if (b && b % BATCHES == 0) usleep(PAUSE);
        double start = now(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < LAUNCHES; i++) launch(16, threads);
        double took = (now(CLOCK_THREAD_CPUTIME_ID) - start) / LAUNCHES;
        if (took < least) least = took;
    }
    printf("a launch takes %.2f us\n", least);
    EXPECT("a launch takes more than half a microsecond", least > 0.5, 0);
}

static void test_cost(void)
{
    const tile_threads all = { 0, NULL, NULL };
    check_cost(NULL);
    check_cost(&all);
}

static void *spin(void *unused)
{
    while (atomic_load_explicit(&spinning, memory_order_relaxed)) {}
    return unused;
}

/* The median time of ten launches of two microseconds of work. */
static double ten_launches(void)
{
    enum { BATCHES = 301, LEN = 12000 };
    const tile_threads all = { 0, NULL, NULL };
    double took[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        double start = now(CLOCK_MONOTONIC);
        for (int i = 0; i < 10; i++) launch(LEN, &all);
        took[b] = now(CLOCK_MONOTONIC) - start;
        usleep(500); /* the batches of one slice of the scheduler would be one observation */
    }
    qsort(took, BATCHES, sizeof *took, by_size);
    return took[BATCHES / 2];
}

/* Beside two busy loops launches take at most three times as long. The machine may have other work, which
 * comes and goes: one of some attempts has to do. */
static void test_busy(void)
{
    enum { LOOPS = 2, ATTEMPTS = 6 };
    double idle = 0, busy = 1;
    for (int a = 0; a < ATTEMPTS && busy > 3 * idle; a++) {
        pthread_t id[LOOPS];
        idle = ten_launches();
        spinning = true;
        for (int i = 0; i < LOOPS; i++)
            if (pthread_create(&id[i], NULL, spin, NULL)) exit(1);
        busy = ten_launches();
        spinning = false;
        for (int i = 0; i < LOOPS; i++) pthread_join(id[i], NULL);
        printf("%.1f us, beside busy loops %.1f us\n", idle, busy);
    }
    EXPECT("beside busy loops it takes more than three times as long", busy > 3 * idle, 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = { { "worth", test_worth }, { "region", test_region }, { "affinity", test_affinity },
        { "pool", test_pool }, { "fork", test_fork }, { "cost", test_cost }, { "busy", test_busy } };
    for (int i = 0; i < MANY; i++) x[i] = (float)(i % 17) / 32;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc == 2 && !strcmp(argv[1], tests[i].name)) {
            tests[i].run();
            printf("%s: %s\n", argv[1], failures ? "failed" : "as expected");
            return failures != 0;
        }
    return 2;
}
