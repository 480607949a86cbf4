/* random_cpu.c: random programs compiled by the CPU backend, after all passes or none, against the
 * interpreter.
 *
 *     random_cpu [first [count]]      seeds; a failure is shown, the first one cut down */
#include "random_ir.h"
#include "tests/unit/cpu/cpu_run.h"
#include <stdio.h>
#include <stdlib.h>

static bool run(void *user, Session *s, GenKernel *k, const RandomCase *c, char *why, size_t why_size)
{
    CpuRun run = { 0 };
    BackendOptions o = { .opt_level = 2, .verify_each = true };
    bool ok = cpu_run_compile(s, k->func, &o, &run) && cpu_run_bind(s, k->func, k->args, &run) &&
              cpu_run_launch(&run) == 0;
    cpu_run_free(&run);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
             count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const RandomWay way = { .target = target_find("cpu"), .opt_level = 3, .run = run };
    bool explained = false;
    int bad = 0;
    for (uint64_t seed = first; seed < first + count && bad < 40; seed++)
        bad += random_ir_both(&way, seed, NULL, "", &explained);
    printf("%llu random programs, %d runs differ\n", (unsigned long long)count, bad);
    return bad != 0;
}
