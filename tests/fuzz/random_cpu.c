/* random_cpu.c: random programs compiled by the CPU backend, after all passes or none, against the
 * interpreter.
 *
 *     random_cpu [--first=SEED] [--count=N] [FILE.ir...]      a failure is shown, the first one cut down
 *     random_cpu --jobs=16 --seconds=500 --first=SEED [--save=DIR]      a campaign (ir_campaign.h)
 *
 * A campaign compiles seven of eight programs at -O0, and each for the processor itself, for AVX2 or for
 * SSE4. A file runs at -O2 and at -O0, for all three. */
#include "ir_campaign.h"
#include "tests/unit/cpu/cpu_run.h"
#include <stdio.h>
#include <stdlib.h>

enum { N_CPUS = 3 };
/* How every program is compiled; -1 and -1: as the campaign draws. */
typedef struct Compiled {
    int level, cpu;
} Compiled;

static BackendOptions options_of(const Compiled *how, const RandomCase *c)
{
    static const char *const cpus[N_CPUS] = { NULL, "x86-64-v3", "x86-64-v2" };
    const uint64_t r = random_ir_draw(c->seed, 1);
    BackendOptions o = { .verify_each = true };
    int cpu = how->cpu;
    if (cpu < 0) cpu = c->drawn ? (int)(r / 8 % N_CPUS) : 0;
    if (cpu == 1 && (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))) cpu = 0;
    o.cpu = cpus[cpu];
    o.opt_level = how->level >= 0 ? how->level : !c->drawn || r % 8 == 0 ? 2 : 0;
    return o;
}

static bool run(void *user, Session *s, GenKernel *k, const RandomCase *c, char *why, size_t why_size)
{
    CpuRun run = { 0 };
    const BackendOptions o = options_of(user, c);
    bool ok = cpu_run_compile(s, k->func, &o, &run) && cpu_run_bind(s, k->func, k->args, &run) &&
              cpu_run_launch(&run) == 0;
    cpu_run_free(&run);
    return ok;
}

static int run_file(const char *path)
{
    int bad = 0;
    for (int cpu = 0; cpu < N_CPUS; cpu++)
        for (int level = 0; level <= 2; level += 2) {
            Compiled how = { level, cpu };
            const RandomWay way = { .target = target_find("cpu"), .opt_level = 3, .run = run, .user = &how };
            bad += random_ir_file(&way, path);
        }
    return bad;
}

int main(int argc, char **argv)
{
    Compiled how = { -1, -1 };
    const RandomWay way = { .target = target_find("cpu"), .opt_level = 3, .run = run, .user = &how };
    IrCampaign c = { .way = &way, .device = "cpu", .count = 1, .limit = 120 };
    bool explained = false;
    int bad = 0, files = 0;
    for (int i = 1; i < argc; i++) {
        if (ir_campaign_option(&c, argv[i])) continue;
        if (*argv[i] == '-')
            return fputs("usage: random_cpu [--first=SEED] [--count=N] [--jobs=N [--seconds=N] [--limit=N] "
                         "[--save=DIR]] [FILE...]\n",
                       stderr),
                   2;
        bad += run_file(argv[i]);
        files++;
    }
    if (c.jobs) return ir_campaign(&c);
    for (uint64_t seed = c.first; !files && seed < c.first + c.count && bad < 40; seed++)
        bad += random_ir_both(&way, seed, NULL, "", &explained);
    printf("%llu random programs, %d runs differ\n", files ? (unsigned long long)files : c.count, bad);
    return bad != 0;
}
