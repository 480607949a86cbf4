/* test_stream.c: stores past the caches. They are in the code for every width of element and every processor;
 * a large output, which they write, is bit by bit what launches over pieces of it give, which are small and
 * stored as usual. Vectors of 32 bytes and more put parts of lines of rows at odd places together
 * (tests/run/kernels/turned_past_caches.tile compares what they write). */
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 2100, N = 4096, PIECE = 300 }; /* 17 MB of f16 */

static int failures;

static void fail(const char *kernel, const char *consts, const char *cpu, const char *what)
{
    printf("%s %s for %s: %s\n", kernel, consts, cpu ? cpu : "the host", what);
    failures++;
}

/* The kernel compiled for `cpu`, as text or ready to run; false after a message. */
static bool make(
    Problem *p, const Case *c, const char *text, size_t len, const char *cpu, EmitKind emit, CpuRun *r)
{
    BackendOptions b = { .opt_level = 2, .cpu = cpu, .emit = emit };
    PassOptions o = pass_options_default(target_find("cpu"));
    return case_lower(p, c, text, len) && passes_run(p->module, &o, NULL) &&
           cpu_run_compile(&p->s, p->func, &b, r);
}

static bool launch(Problem *p, CpuRun *r, const void *x, void *y, size_t size, int64_t from, int64_t rows)
{
    InterpArg args[2] = {
        { .data = (char *)x + from * N * (int64_t)size, .shape = { rows, N }, .stride = { N, 1 } },
        { .data = (char *)y + from * N * (int64_t)size, .shape = { rows, N }, .stride = { N, 1 } }
    };
    return cpu_run_bind(&p->s, p->func, args, r) && cpu_run_launch(r) == 0;
}

static void compare(Problem *p, CpuRun *r, const Case *c, const char *cpu, size_t size)
{
    size_t bytes = (size_t)ROWS * N * size;
    unsigned char *x = aligned_alloc(64, bytes), *whole = aligned_alloc(64, bytes),
                  *parts = aligned_alloc(64, bytes);
    uint32_t seed = 1;
    for (size_t i = 0; i < bytes; i += size) { /* numbers of either sign, and not one of them NaN */
        seed = seed * 1664525 + 1013904223;
        float f = (float)(int32_t)seed * 0x1p-29f;
        _Float16 h = (_Float16)f;
        memcpy(x + i, size == 2 ? (void *)&h : (void *)&f, size);
    }
    memset(whole, 1, bytes);
    memset(parts, 2, bytes);
    bool ok = launch(p, r, x, whole, size, 0, ROWS);
    for (int64_t m = 0; ok && m < ROWS; m += PIECE) ok = launch(p, r, x, parts, size, m, PIECE);
    if (!ok) fail(c->kernel, c->consts, cpu, "does not run");
    else if (memcmp(whole, parts, bytes))
        fail(c->kernel, c->consts, cpu, "a large output differs from its parts");
    free(x);
    free(whole);
    free(parts);
}

/* Whether lines that follow each other are prefetched in a loop, as the rows of the next tile are. */
static bool fetches_rows(const char *text)
{
    for (const char *at = text; (at = strstr(at, "prefetcht1")); at++) {
        const char *end = strchr(at, '\n'), *next = end ? strchr(end + 1, '\n') : NULL;
        for (const char *c = end; next && c < next; c++)
            if (!strncmp(c, "addq\t$64, ", 10)) return true;
    }
    return false;
}

/* Whether rows of 4096 elements are walked from the last 16 on. Code that LLVM does not optimise, as in
 * builds with sanitizers, computes each place from that of the last ones. */
static bool walks_backward(const char *text)
{ return strstr(text, "addq\t$-64, ") || strstr(text, "movl\t$4080, "); }

static void test(
    const char *examples, const char *kernel, const char *consts, const char *cpu, size_t size, bool run)
{
    Case c = { kernel, kernel, consts, "", "", 0 };
    size_t len = 0;
    char *text = case_read(examples, kernel, &len);
    for (int pass = 0; pass <= run; pass++) {
        Problem *p = calloc(1, sizeof *p);
        CpuRun *r = calloc(1, sizeof *r);
        session_init(&p->s, allocator_libc);
        if (!text || setjmp(p->s.oom)) fail(kernel, consts, cpu, "cannot be read");
        else if (!make(p, &c, text, len, cpu, pass ? EMIT_DEFAULT : EMIT_ASM, r)) {
            fail(kernel, consts, cpu, "does not compile");
            case_diags(p);
        } else if (pass) compare(p, r, &c, cpu, size);
        else if (!strstr(r->artifact.data, "movnt"))
            fail(kernel, consts, cpu, "nothing is stored past the caches");
        else if (!strcmp(kernel, "transpose") && strcmp(cpu, "x86-64-v2") &&
                 !strstr(r->artifact.data, "tile.part"))
            fail(kernel, consts, cpu, "ends of rows are not put together");
        else if (!strcmp(kernel, "transpose") && !fetches_rows(r->artifact.data))
            fail(kernel, consts, cpu, "the next tile is not fetched by rows");
        else if (cpu && !strcmp(consts, "T=f32,N=4096") && !strcmp(cpu, "x86-64-v3") &&
                 !walks_backward(r->artifact.data))
            fail(kernel, consts, cpu, "exponentials are not computed from the end of the row");
        if (pass) cpu_run_free(r);
        session_free(&p->s);
        free(p);
        free(r);
    }
    free(text);
}

int main(int argc, char **argv)
{
    static const char *const cpus[] = { "x86-64-v4", "x86-64-v3", "x86-64-v2" };
    static const struct {
        const char *kernel, *consts;
    } cases[] = {
        { "silu", "T=f16" },
        { "silu", "T=bf16" },
        { "silu", "T=f32" },
        { "softmax", "T=f16,N=4096" },
        { "softmax", "T=f32,N=4096" },
        { "transpose", "T=f16" },
        { "transpose", "T=f32" },
    };
    const char *examples = argc > 1 ? argv[1] : "examples/kernels";
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t c = 0; c < 3; c++) test(examples, cases[k].kernel, cases[k].consts, cpus[c], 2, false);
    test(examples, "silu", "T=f16", NULL, 2, true);
    test(examples, "silu", "T=f32", NULL, 4, true);
    test(examples, "softmax", "T=f16,N=4096", NULL, 2, true);
    test(examples, "softmax", "T=f32,N=4096", NULL, 4, true);
    printf("%d failures\n", failures);
    return failures != 0;
}
