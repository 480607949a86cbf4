/* test_bench.c: prints the table of a made-up bench in all its forms, for comparison with bench.expected:
 *     test_bench > tests/tools/bench.expected                       after a change that is meant
 * The times are invented, so that the tables are the same everywhere. */
#include "tools/tilec/bench/bench.h"
#include <stdio.h>

static jmp_buf oom;

static BenchRow row(size_t size, int column, BenchState state, double ms, double spread, const char *reason)
{
    BenchRow r = { .size = size,
        .column = column,
        .state = state,
        .reason = reason,
        .config = "",
        .bound = "",
        .why = "",
        .notes = "" };
    r.checked = column == 0 ? BENCH_REFERENCE : BENCH_CORRECT;
    r.work = (BenchWork){ .flops = 2e9 * (double)(size + 1), .bytes = 1e6 };
    if (ms > 0) {
        r.time = (Measured){ 5, ms, ms * (1 - spread), ms * (1 + 2 * spread), ms * (1 - spread / 2),
            ms * (1 + spread / 2) };
        r.peak = 0.25;
        r.bound = "arithmetic";
    }
    return r;
}

static void show(const char *form, const Bench *b, void (*write)(const Bench *, Text *))
{
    Text t;
    text_init(&t, &b->tool->arena);
    write(b, &t);
    printf("--- %s\n%s", form, t.data);
}

int main(void)
{
    static const int64_t small[] = { 512, 512, 1 }, large[] = { 4096, 4096, 2 };
    Tool tool = { .alloc = allocator_libc };
    if (setjmp(oom)) return 1;
    arena_init(&tool.arena, allocator_libc, &oom);
    Arena *a = &tool.arena;
    Bench b = { .tool = &tool,
        .kernel = "gemm",
        .device = "a device",
        .target = "cuda:sm_90a",
        .ladder = true,
        .load = { 0.25, 8 },
        .noise = "times vary by up to 12%: compare results only where they differ by more" };
    static const char *const names[] = { "M", "N", "B" };
    for (int i = 0; i < 3; i++) vec_push(a, &b.sweep.names, names[i]);
    b.sweep.first = 2;
    vec_push(a, &b.sweep.sizes, (BenchSize){ small });
    vec_push(a, &b.sweep.sizes, (BenchSize){ large });
    vec_push(a, &b.columns, ((BenchColumn){ "openblas", "another library", NULL, true }));
    vec_push(a, &b.columns, ((BenchColumn){ "plain", "loads | as \"written\", <first>", NULL, false }));
    vec_push(a, &b.columns, ((BenchColumn){ "same", "", NULL, false }));
    vec_push(a, &b.columns, ((BenchColumn){ "wrong", "a fault", NULL, false }));
    vec_push(a, &b.columns, ((BenchColumn){ "tuned", "the best", NULL, false }));
    for (size_t size = 0; size < 2; size++) {
        double scale = size ? 60 : 1;
        vec_push(a, &b.rows,
            row(size, 0, size ? BENCH_ABSENT : BENCH_OK, size ? 0 : 0.5, 0.02, size ? "too large" : ""));
        vec_push(a, &b.rows, row(size, 1, BENCH_OK, 1.23456 * scale, 0.12, ""));
        vec_push(a, &b.rows, row(size, 2, BENCH_SAME, 1.23456 * scale, 0.12, "plain"));
        vec_push(a, &b.rows,
            row(size, 3, size ? BENCH_FAILED : BENCH_WRONG, size ? 0 : 0.7, 0.001,
                "3 of 9 elements of C differ, a \"quote\""));
        BenchRow tuned = row(size, 4, BENCH_OK, 0.25 * scale, 0.004, "");
        tuned.config = "TM=128, TN=64";
        vec_push(a, &b.rows, tuned);
    }
    show("text", &b, bench_text);
    show("csv", &b, bench_csv);
    show("json", &b, bench_json);
    show("markdown", &b, bench_markdown);
    show("plot", &b, bench_plot);
    arena_free(a);
    return 0;
}
