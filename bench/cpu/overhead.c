/* overhead.c: what our own machinery costs: compiling attention, loading it from the disk cache, a warm
 * launch, memory. Compiling is timed by the processor time of the process, which other work on the machine
 * disturbs less than the clock. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void bench_overhead(Bench *b)
{
    const char *row = "launch of vector_add, 1 element";
    if (!bench_wanted(b, row)) return;
    BenchLaunch l;
    float x = 1, y = 2, z = 0;
    int64_t one = 1;
    if (bench_load(b, "vector_add", "vector_add", "T=f32", &l)) {
        bench_tensor(&l, &x, 1, &one);
        bench_tensor(&l, &y, 1, &one);
        bench_tensor(&l, &z, 1, &one);
        if (bench_try(b, &l)) {
            enum { CALLS = 100000 };
            double start = bench_now();
            for (int i = 0; i < CALLS; i++) bench_launch(&l);
            bench_limit(b, row, "us", 1e6 * (bench_now() - start) / CALLS, 0.5);
            if (z != 3) fprintf(stderr, "%s: 1 + 2 = %g\n", row, (double)z), b->failures++;
        }
    }
    bench_free(&l);
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Source text to the tile IR that the backend takes. */
static bool front_and_passes(Session *s, const char *text, size_t len)
{
    static const char *const given[][2] = { { "T", "f16" }, { "CAUSAL", "true" } };
    FrontBinding binds[3];
    size_t n = 0;
    Ast *ast = frontend_parse(s, diag_add_source(s, "attention.tile", NULL, text, len), NULL, NULL);
    const FrontKernel *k = ast && frontend_check(ast) ? frontend_kernel_find(ast, "attention") : NULL;
    if (!k) return false;
    for (; n < 2; n++) {
        const char *why;
        binds[n].name = session_intern(s, given[n][0], strlen(given[n][0]));
        if (!frontend_parse_value(s, k, given[n][0], given[n][1], &binds[n].value, &why)) return false;
    }
    binds[n].name = session_intern(s, "D", 1);
    binds[n++].value = (FrontValue){ FRONT_INT, { .i = 64 } };
    const Target *target = target_find("cpu");
    Module *m = frontend_lower(ast, "attention", binds, n, "cpu");
    PassOptions o = pass_options_default(target);
    return m && passes_run(m, &o, NULL);
}

static void front_row(Bench *b)
{
    enum { TIMES = 21 };
    const char *row = "front end and tile passes of attention";
    char path[512], text[1 << 14];
    if (!bench_wanted(b, row)) return;
    snprintf(path, sizeof path, "%s/attention.tile", b->kernels);
    FILE *f = fopen(path, "rb");
    size_t len = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    double least = 1e9;
    for (int i = 0; i < TIMES; i++) {
        Session s;
        volatile bool ok = false;
        double start = cpu_ms();
        session_init(&s, allocator_libc);
        if (!setjmp(s.oom)) ok = front_and_passes(&s, text, len);
        session_free(&s);
        double ms = cpu_ms() - start;
        if (!ok) {
            fprintf(stderr, "%s: failed\n", row);
            b->failures++;
            return;
        }
        if (ms < least) least = ms;
    }
    bench_limit(b, row, "ms", least, 5);
}

typedef struct Compile {
    double ms, megabytes;
    bool ok;
} Compile;

/* Compiles attention in a process of its own, from the file to a variant ready to run; `cache` NULL: no disk
 * cache. */
static Compile compile_once(const Bench *b, const char *cache)
{
    Compile c = { 0 };
    int ends[2];
    if (pipe(ends)) return c;
    pid_t child = fork();
    if (child == 0) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        Bench own = { .kernels = b->kernels, .threads = b->threads };
        tile_context_desc desc = { .struct_size = sizeof desc,
            .target = "cpu",
            .cache_directory = cache,
            .flags = cache ? 0 : TILE_CONTEXT_NO_CACHE };
        int64_t shape[4] = { 1, 8, 2048, 64 };
        static uint16_t some[64];
        BenchLaunch l;
        c.ok = tile_context_create(&desc, &own.context) == TILE_OK;
        double start = cpu_ms();
        c.ok = c.ok && bench_load(&own, "attention", "attention", "T=f16 CAUSAL=true", &l);
        for (int i = 0; c.ok && i < 4; i++) bench_tensor(&l, some, 4, shape);
        if (c.ok) bench_scalar(&l, 0.125);
        c.ok = c.ok && tile_kernel_compile(l.kernel, l.args, (size_t)l.n) == TILE_OK;
        c.ms = cpu_ms() - start;
        getrusage(RUSAGE_SELF, &after);
        c.megabytes = (double)(after.ru_maxrss - before.ru_maxrss) / 1024;
        (void)!write(ends[1], &c, sizeof c);
        _exit(0);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &c, sizeof c) != sizeof c) c.ok = false;
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
    return c;
}

static int by_ms(const void *a, const void *b)
{
    double x = ((const Compile *)a)->ms, y = ((const Compile *)b)->ms;
    return (x > y) - (x < y);
}

static void compile_row(Bench *b, const char *row, const char *cache, double goal_ms)
{
    enum { TIMES = 9 };
    Compile c[TIMES];
    if (!bench_wanted(b, row)) return;
    for (int i = 0; i < TIMES; i++) {
        c[i] = compile_once(b, cache);
        if (!c[i].ok) {
            fprintf(stderr, "%s: failed\n", row);
            b->failures++;
            return;
        }
    }
    qsort(c, TIMES, sizeof *c, by_ms);
    char memory[64];
    snprintf(memory, sizeof memory, "%s, peak memory", row);
    bench_limit(b, row, "ms", c[TIMES / 2].ms, goal_ms);
    bench_limit(b, memory, "MB", c[TIMES / 2].megabytes, 150);
}

void bench_compile(Bench *b)
{
    char folder[] = "/tmp/tile-bench-XXXXXX", command[64];
    front_row(b);
    compile_row(b, "compile attention, cold", NULL, 60);
    if (bench_wanted(b, "compile attention, from the cache") && mkdtemp(folder)) {
        compile_once(b, folder);
        compile_row(b, "compile attention, from the cache", folder, 2);
        snprintf(command, sizeof command, "rm -r '%s'", folder);
        if (system(command)) fprintf(stderr, "%s stays behind\n", folder);
    }
}
