/* cpu_time.c: times one kernel of the examples on one thread or several, without the runtime.
 *
 * cpu_time EXAMPLES-DIRECTORY file:kernel consts dims scalars [amount [threads [cpu]]] amount: floating-point
 * operations or bytes of one launch; prints amount / time. TILE_CPU_SHOW=plan|asm|llvm prints that. */
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int one_thread = 1;

static double now(void)
{
    struct timespec t;
    clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
        &t); /* of this thread, because others may use the machine */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Part {
    CpuRun *run;
    int64_t begin, end;
    void *scratch;
} Part;
static void *work(void *p)
{
    Part *x = p;
    x->run->fn(x->run->slots, x->begin, x->end, x->scratch, 0);
    return NULL;
}

static void launch(CpuRun *r, int threads)
{
    if (threads == 1) {
        cpu_run_launch(r);
        return;
    }
    pthread_t t[16];
    Part parts[16];
    for (int k = 0; k < threads; k++) {
        parts[k] = (Part){ r, r->programs * k / threads, r->programs * (k + 1) / threads,
            aligned_alloc(64, (size_t)r->artifact.shape.scratch_bytes + 64) };
        pthread_create(&t[k], NULL, work, &parts[k]);
    }
    for (int k = 0; k < threads; k++) {
        pthread_join(t[k], NULL);
        free(parts[k].scratch);
    }
}

static int time_it(
    Problem *p, const Case *c, const char *text, size_t len, double amount, int threads, const char *cpu)
{
    double t0 = now();
    if (!case_lower(p, c, text, len) || !case_args(p, c)) return 1;
    case_facts(p, c);
    double t1 = now();
    PassOptions o = pass_options_default(target_find("cpu"));
    if (!passes_run(p->module, &o, NULL)) return 1;
    CpuRun r;
    const char *show = getenv("TILE_CPU_SHOW");
    BackendOptions b = { .opt_level = getenv("OPT") ? atoi(getenv("OPT")) : 2, .cpu = cpu };
    if (show && *show == 'i') {
        Text t;
        text_init(&t, &p->s.arena);
        ir_print(p->module, &t);
        puts(t.data);
    }
    if (show && (*show == 'a' || *show == 'l')) {
        b.emit = *show == 'a' ? EMIT_ASM : EMIT_LLVM;
        if (cpu_run_compile(&p->s, p->func, &b, &r)) puts(r.artifact.data);
        return 0;
    }
    double t2 = now();
    bool ok = cpu_run_compile(&p->s, p->func, &b, &r);
    double t3 = now(), best = 1e9;
    one_thread = threads == 1;
    if (show && *show == 'p') puts(r.artifact.schedule);
    if (!ok || !cpu_run_bind(&p->s, p->func, p->args, &r)) return 1;
    /* A launch of some microseconds is timed several times, because reading the clock takes a few tenths. */
    double begun = now();
    launch(&r, threads);
    int together = 1 + (int)(2e-4 / (now() - begun + 1e-7));
    begun = now();
    for (int k = 0; k < 2000 && (k < 3 || now() - begun < 1.0); k++) {
        double t = now();
        for (int j = 0; j < together; j++) launch(&r, threads);
        t = (now() - t) / together;
        if (t < best) best = t;
    }
    printf("%-12s lower+args %.1f ms, passes %.2f ms, backend %.1f ms, scratch %lld, run %.4f ms, %.2f G/s\n",
        c->kernel, 1e3 * (t1 - t0), 1e3 * (t2 - t1), 1e3 * (t3 - t2),
        (long long)r.artifact.shape.scratch_bytes, 1e3 * best, 1e-9 * amount / best);
    cpu_run_free(&r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "cpu_time EXAMPLES file:kernel consts dims scalars [amount [threads [cpu]]]\n");
        return 1;
    }
    char *kernel = strchr(argv[2], ':');
    if (kernel) *kernel++ = 0;
    Case c = { argv[2], kernel ? kernel : argv[2], argv[3], argv[4], argv[5], 0 };
    size_t len;
    char *text = case_read(argv[1], c.file, &len);
    if (!text) return 1;
    Problem *p = calloc(1, sizeof *p);
    session_init(&p->s, allocator_libc);
    volatile int rc = 1;
    if (!setjmp(p->s.oom))
        rc = time_it(p, &c, text, len, argc > 6 ? atof(argv[6]) : 0, argc > 7 ? atoi(argv[7]) : 1,
            argc > 8 ? argv[8] : NULL);
    if (rc) case_diags(p);
    case_free(p);
    free(p);
    free(text);
    return rc;
}
