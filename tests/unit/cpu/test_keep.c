/* test_keep.c: operands that stay packed from call to call of a launch (keep.c), and how threads divide the
 * programs of a launch (ir/analysis/threads.h). A call that goes on where another ended finds the weights of
 * a convolution packed: it reads them no more, and so does not see that they have changed. Of a product,
 * operands stay by costs.def, as do the places where it is fetched: by the product, or by the packing of
 * operands. Those of a product by AMX stay, of which also operands that lie as it reads them are multiplied
 * there (in_place.c), and several at once (repeat.c); AMX's instructions are calls of amx_model.c. */
#define _GNU_SOURCE /* memmem */
#include "amx_model.h"
#include "cpu_run.h"
#include "ir/analysis/threads.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

enum { WEIGHTS = 1, OUTPUT = 2, PACKED_BY = 2 /* programs */ };

static int failures;

static void expect(bool ok, const char *what, long long which)
{
    if (ok) return;
    printf("%s (%lld)\n", what, which);
    failures++;
}

/* Runs the launch in calls of `piece` programs into a cleared output. After the programs that pack the
 * weights these are cleared. */
static void run(Problem *p, CpuRun *r, int64_t piece, bool again, const void *weights)
{
    memset(p->data[OUTPUT], 0, p->bytes[OUTPUT]);
    memcpy(p->data[WEIGHTS], weights, p->bytes[WEIGHTS]);
    for (int64_t at = 0; at < r->programs; at += piece) {
        int64_t end = at + piece < r->programs ? at + piece : r->programs;
        if (at >= PACKED_BY) memset(p->data[WEIGHTS], 0, p->bytes[WEIGHTS]);
        expect(!r->fn(r->slots, at, end, r->scratch, again && at), "a call fails", at);
    }
}

static void test_calls(Problem *p, CpuRun *r)
{
    size_t bytes = p->bytes[OUTPUT];
    void *weights = malloc(p->bytes[WEIGHTS]), *want = malloc(bytes);
    memcpy(weights, p->data[WEIGHTS], p->bytes[WEIGHTS]);
    run(p, r, r->programs, false, weights);
    memcpy(want, p->data[OUTPUT], bytes);
    expect(r->programs > 4, "there are few programs", r->programs);
    for (int64_t piece = 1; piece < 5; piece++) {
        run(p, r, piece, true, weights);
        expect(!memcmp(want, p->data[OUTPUT], bytes), "calls that follow each other do not keep", piece);
        run(p, r, piece, false, weights);
        expect(memcmp(want, p->data[OUTPUT], bytes) != 0, "calls of their own keep", piece);
    }
    free(weights);
    free(want);
}

static int times_in(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

/* The schedule of the kernel has each of the words, which end with NULL. */
static void test_kernel(
    const char *examples, const Case *of, const BackendOptions *b, const char *const *words)
{
    Case c = *of;
    size_t len = 0;
    char *text = case_read(examples, c.file, &len);
    Problem *p = calloc(1, sizeof *p);
    CpuRun *r = calloc(1, sizeof *r);
    PassOptions o = pass_options_default(target_find("cpu"));
    session_init(&p->s, allocator_libc);
    if (!text || setjmp(p->s.oom)) expect(false, "cannot be read", 0);
    else if (!case_lower(p, &c, text, len) || !case_args(p, &c) || !passes_run(p->module, &o, NULL) ||
             !cpu_run_compile(&p->s, p->func, b, r) || !cpu_run_bind(&p->s, p->func, p->args, r)) {
        expect(false, "does not compile", 0);
        case_diags(p);
    } else {
        /* Nine taps at once, and three of those that are left. */
        if (times_in(r->artifact.schedule, "and the last"))
            expect(times_in(r->artifact.schedule, "with the next") == 8 + 2, "products are not joined", 0);
        for (int w = 0; words[w]; w++) {
            if (strstr(r->artifact.schedule, words[w])) continue;
            printf("%s\n%s", words[w], r->artifact.schedule);
            expect(false, "the schedule does not say so", 0);
        }
        test_calls(p, r);
    }
    cpu_run_free(r);
    case_free(p);
    free(p);
    free(r);
    free(text);
}

/* Whether the assembly has the instruction in a function of products, and elsewhere. */
static void find_in_products(const char *text, const char *instruction, bool found[2])
{
    bool product = false;
    found[0] = found[1] = false;
    for (const char *at = text, *end; at && *at; at = end) {
        end = strchr(at, '\n');
        size_t n = end ? (size_t)(end++ - at) : strlen(at);
        if (*at != '\t' && *at != '.' && memchr(at, ':', n)) product = memmem(at, n, "tile.mma", 8) != NULL;
        if (memmem(at, n, instruction, strlen(instruction))) found[product] = true;
    }
}

/* Products fetch the next windows, or packing fetches rows further on. */
static void find_fetches(const char *text, bool by_product)
{
    bool second[2], first[2];
    find_in_products(text, "prefetcht1", second);
    find_in_products(text, "prefetcht0", first);
    expect(second[true] == by_product, "products fetch the next windows", by_product);
    expect(first[false] == !by_product, "packing fetches rows further on", by_product);
}

static void test_fetches(const char *examples, const char *cpu, const char *consts, bool by_product)
{
    Case c = { "gemm", "gemm", consts, "M=300,N=300,K=300", "", 0 };
    size_t len = 0;
    char *text = case_read(examples, c.file, &len);
    Problem *p = calloc(1, sizeof *p);
    CpuRun *r = calloc(1, sizeof *r);
    PassOptions o = pass_options_default(target_find("cpu"));
    BackendOptions b = { .opt_level = 2, .cpu = cpu, .emit = EMIT_ASM };
    session_init(&p->s, allocator_libc);
    if (!text || setjmp(p->s.oom)) expect(false, "cannot be read", 1);
    else if (!case_lower(p, &c, text, len) || !case_args(p, &c) || !passes_run(p->module, &o, NULL) ||
             !cpu_run_compile(&p->s, p->func, &b, r)) {
        expect(false, "does not compile", 1);
        case_diags(p);
    } else {
        find_fetches(r->artifact.data, by_product);
    }
    case_free(p);
    free(p);
    free(r);
    free(text);
}

/* Every program is taken once, by pieces that become smaller, and the last ones are single programs. */
static void test_division(int64_t programs, int64_t threads, bool neighbours)
{
    int64_t next = 0, begin, end, done = 0, last = programs, calls = 0;
    while (threads_take(&next, programs, threads, neighbours, &begin, &end)) {
        expect(begin == done && end > begin && end <= programs, "programs are left out", programs);
        expect(end - begin <= last, "a piece is larger than the one before", programs);
        last = end - begin;
        done = end;
        calls++;
    }
    expect(done == programs, "programs are left", programs);
    if (threads == 1) expect(calls == (programs > 0), "a thread of its own takes all", programs);
    else if (programs) expect(last == 1, "threads do not end together", programs);
}

int main(int argc, char **argv)
{
    static const int64_t programs[] = { 0, 1, 2, 15, 56, 225, 1009, 4095, 1000003, INT64_MAX };
    const char *examples = argc > 1 ? argv[1] : "examples/kernels";
    const BackendOptions host = { .opt_level = 2 }, amx = {
        .opt_level = 2, .cpu = "x86-64-v3", .features = "+amx-tile,+amx-bf16,+amx-int8", .amx_model = true
    };
    const char *const nothing[] = { NULL },
                      *const from_memory[] = { "by amx-bf16", "A from memory where in range", NULL },
                      *const together[] = { "by amx-bf16", "with the next", "and the last", "A as it lies",
                          NULL };
    const Case filters = { "conv2d", "conv2d_nchw", "T=f32,TF=64,TP=2,TQ=16,TC=32",
        "B=2,C=32,F=64,H=8,W=16,R=3,S=3,P=8,Q=16", "", 0 };
    const Case ends = { "conv2d", "conv2d_nchw", "T=bf16,TF=64,TP=2,TQ=16,TC=32",
        "B=2,C=40,F=50,H=7,W=15,R=3,S=3,P=7,Q=15", "", 0 };
    const Case gemm = { "gemm", "gemm", "T=bf16,TO=bf16,TM=64,TN=64,TK=32", "M=300,N=50,K=150", "", 0 };
    const Case taps = { "conv2d", "conv2d_nhwc", "T=bf16,TF=64,TB=1,TP=2,TQ=32,TC=32",
        "B=3,C=40,F=50,H=7,W=15,R=3,S=3,P=7,Q=15", "", 0 };
    test_kernel(examples, &filters, &host, nothing);
    test_kernel(examples, &ends, &host, nothing);
    test_kernel(examples, &gemm, &amx, from_memory);
    test_kernel(examples, &taps, &amx, together);
#if defined(__x86_64__)
    const BackendOptions zen1 = { .opt_level = 2, .cpu = "znver1" },
                         zen3 = { .opt_level = 2, .cpu = "znver3" };
    const Case alone = { "gemm", "gemm", "T=f32,TO=f32,TM=64,TN=64", "M=384,N=64,K=96", "", 0 };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        test_kernel(examples, &alone, &zen1, nothing);
        test_kernel(examples, &alone, &zen3, nothing);
    }
    test_fetches(examples, "x86-64-v3", "T=f32,TO=f32", true);
    test_fetches(examples, "znver1", "T=f32,TO=f32", false);
    test_fetches(examples, "znver3", "T=f32,TO=f32", true);
    test_fetches(examples, "emeraldrapids", "T=bf16,TO=bf16", false);
#endif
    for (size_t k = 0; k < sizeof programs / sizeof *programs; k++)
        for (int64_t threads = 1; threads < 70; threads = 3 * threads + 1)
            for (int neighbours = 0; neighbours < 2; neighbours++)
                if (programs[k] < INT64_MAX || threads < 5) test_division(programs[k], threads, neighbours);
    printf("%d failures\n", failures);
    return failures != 0;
}
