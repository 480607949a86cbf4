/* Points of a search share tile IR: each is emitted from what a worker keeps between points, and by itself in
 * a session of its own, and both texts are equal to the byte.
 *
 *     test_shared_tiles FOLDER     of the kernels */
#include "backends/gpu/gpu.h"
#include "bench/gpu/open.h"
#include "ir/hints.h"
#include "runtime/choice/search/search_points.h"
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>

static const char *folder;
static uint32_t seed;

static uint32_t drawn(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* The text in memory of its own; of a configuration that does not fit, that it does not. */
static char *emitted(Session *s, const SearchProblem *q, Func *tiles)
{
    GpuCode code = { 0 };
    KernelOptions options = kernel_options_of(&q->options->passes);
    bool ok = tiles && gpu_compile(s, tiles, q->device.target, &options, &code, NULL);
    return ok ? strndup(code.text, code.text_len) : strdup(tiles ? "does not fit" : "does not compile");
}

static CompileJob job_of(const Search *z, Session *s, Ast *ast, const SearchPoint *p)
{
    const SearchProblem *q = z->p;
    FrontBinding *all = arena_array(&s->arena, FrontBinding, (size_t)q->n_bindings + MOST_BOUND);
    memcpy(all, q->bindings, (size_t)q->n_bindings * sizeof *all);
    size_t n = (size_t)(q->n_bindings + search_bindings(z, p, true, all + q->n_bindings));
    return (CompileJob){ s, ast, q->kernel, all, n, q->facts, q->options };
}

static char *by_itself(const Search *z, const SearchPoint *p)
{
    Session s;
    Compiled compiled;
    Func *f;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) exit(2);
    CompileJob job = job_of(z, &s, z->p->parse(z->p->user, &s), p);
    char *text = emitted(&s, z->p, compile_tiles(&job, &compiled, &f) ? f : NULL);
    session_free(&s);
    return text;
}

static char *from_kept(Search *z, SearchWorker *w, const SearchPoint *p)
{
    Compiled compiled;
    session_renew(&w->s);
    CompileJob job = job_of(z, &w->s, w->ast, p);
    char *text = emitted(&w->s, z->p, search_tiles(z, w, p, &job, &compiled));
    w->s.diags = w->s.last_diag = NULL;
    w->s.n_errors = 0;
    return text;
}

/* A point that `require` allows, as `at` in all but hints for the kernel IR where these alone are drawn. */
static bool draw(Search *z, bool hints_alone, SearchPoint *p)
{
    SearchPoint now = *p;
    for (int try = 0; try < 2000; try++) {
        for (int i = 0; i < z->n_names; i++) {
            const SearchName *m = &z->name[i];
            if (hints_alone && !(m->hint && m->hint->reader == READ_BY_KERNEL)) continue;
            now.at[i] = (uint8_t)drawn((uint32_t)m->n);
        }
        if (!search_allowed(z, &now)) continue;
        *p = now;
        return true;
    }
    return false;
}

/* *different: texts that are not that of the point before with the same tile IR. */
static void compare_points(Search *z, SearchWorker *w, int n, int *different, int *emits)
{
    for (int k = 0; k < n; k++) {
        SearchPoint p = { .ns = 0 };
        char *before = NULL;
        for (int hints = 0; hints < 4 && draw(z, hints > 0, &p); hints++) {
            char *kept = from_kept(z, w, &p), *own = by_itself(z, &p);
            CU_ASSERT_STRING_EQUAL(kept, own);
            *emits += strlen(own) > 100;
            *different += before && strcmp(before, own) != 0;
            free(before);
            free(own);
            before = kept;
        }
        free(before);
    }
}

/* alloc: of the worker's session. With chunks of its own choice nothing is handed out twice, so that a
 * checker of memory notices what outlived its point. */
static void compare(Allocator alloc, const char *file, const char *kernel, const char *target, int n,
    int n_words, char *const *words)
{
    char path[1024];
    Problem p;
    ProblemView v;
    Session s;
    static int different, emits;
    different = emits = 0;
    seed = 11; /* so that one kernel's draws do not depend on what another one lists */
    snprintf(path, sizeof path, "%s/%s.tile", folder, file);
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) exit(2);
    CU_ASSERT_FATAL(problem_open(&p, path, kernel, target, n_words, words) && problem_view(&p, &s, &v));
    CompileOptions options = compile_options_default(p.device.target);
    const SearchProblem q = problem_search(&v, &options);
    Search *z = arena_new(&s.arena, Search);
    SearchWorker *w = arena_new(&s.arena, SearchWorker);
    *z = (Search){ .p = &q, .s = &s, .ast = v.ast, .tune = v.tune, .front = v.kernel };
    search_add_names(z);
    session_init(&w->s, alloc);
    if (setjmp(w->s.oom)) exit(2);
    w->ast = q.parse(q.user, &w->s);
    session_keep(&w->s);
    compare_points(z, w, n, &different, &emits);
    CU_ASSERT(w->tiles != NULL && emits > n && different > n / 8);
    session_free(&w->s);
    session_free(&s);
    problem_close(&p);
}

static void products(void)
{
    static char *const even[] = { "T=f16", "M=640", "N=7984", "K=8256" }, *const odd[] = { "T=f16", "M=77",
        "N=1001", "K=4097" };
    Allocator chunks = allocator_libc;
    chunks.chunk = 1024;
    compare(allocator_libc, "gemm", "gemm", "cuda:sm_90a", 12, 4, even);
    compare(allocator_libc, "gemm", "gemm", "cuda:sm_90a", 8, 4, odd);
    compare(chunks, "gemm", "gemm", "cuda:sm_90a", 8, 4, odd);
}

static void convolutions(void)
{
    static char *const words[] = { "T=bf16", "B=19", "C=536", "H=17", "W=17", "F=432", "R=3", "S=3", "PAD=1",
        "P=17", "Q=17" };
    Allocator chunks = allocator_libc;
    chunks.chunk = 1024;
    compare(allocator_libc, "conv2d", "conv2d_nhwc", "cuda:sm_90a", 8, 11, words);
    compare(chunks, "conv2d", "conv2d_nhwc", "cuda:sm_90a", 6, 11, words);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    folder = argv[1];
    if (CU_initialize_registry()) return 2;
    CU_pSuite suite = CU_add_suite("shared tiles", NULL, NULL);
    CU_add_test(suite, "products", products);
    CU_add_test(suite, "convolutions", convolutions);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
