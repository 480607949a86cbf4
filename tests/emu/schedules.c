/* schedules.c: tile_emu_schedules: kernels under schedules written by hand (docs/schedule.md), on the
 * emulator against the references: whatever is accepted gives right results.
 *
 *     tile_emu_schedules [--only=ROW] [--draws=N]          those of the list, all of which are legal
 *     tile_emu_schedules --random=COUNT [--first=SEED]     drawn decisions: refused with an error in the
 *         schedule, or right
 *
 * Exit status 0, 1 after a failure, 77 where there is no host compiler. */
#include "tests/emu/emu.h"
#include "tests/emu/exec_emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Kernel {
    const char *device, *recipe, *sizes, *consts, *loads;
} Kernel; /* loads: the tensors with decisions; the stored one comes last */

static const Kernel kernels[] = {
    { "emu_sm_90a", "gemm", "M=200 N=136 K=328", "TM=128 TN=64 TK=64", "A B C" },
    { "emu_sm_90a", "gemm_residual", "M=136 N=136 K=200", "TM=128 TN=64 TK=32", "A B R C" },
    { "emu_sm_90a", "gemm_gated", "M=136 N=72 K=200", "TM=128 TN=64 TK=64", "A G U C" },
    { "emu_sm_90a", "attention", "B=1 H=4 HK=2 M=200 N=200 D=64", "CAUSAL=true TM=128 TN=64", "Q K V O" },
    { "emu_sm_90a", "attention_bias", "B=1 H=2 HK=1 M=136 N=264 D=64", "TM=64 TN=64", "Q K V BIAS O" },
    { "emu_sm_90a", "attention", "B=1 H=2 HK=1 M=300 N=330 D=64", "CAUSAL=false TM=256 TN=64", "Q K V O" },
    { "emu_sm_90a", "gemm", "M=264 N=72 K=456", "TM=256 TN=64 TK=32", "A B C" },
    { "emu_sm_80", "gemm", "M=130 N=72 K=264", "TM=64 TN=64 TK=32", "A B C" },
    { "emu_sm_80", "attention", "B=1 H=2 HK=1 M=100 N=150 D=64", "CAUSAL=true TM=64 TN=32", "Q K V O" },
    { "one_gfx942", "gemm", "M=130 N=72 K=264", "TM=64 TN=64 TK=32", "A B C" },
    { "emu_sm_90a", "gemm", "M=392 N=232 K=64", "TM=64 TN=224 TK=64", "A B C" },
};
enum {
    KERNELS = sizeof kernels / sizeof *kernels,
    GEMM90 = 0,
    RESIDUAL90,
    GATED90,
    ATTENTION90,
    BIAS90,
    FOUR90,
    TALL90,
    GEMM80,
    ATTENTION80,
    GEMM942,
    SEVEN90
};

static const struct {
    int kernel;
    const char *schedule;
} rows[] = {
    { GEMM90, "load A stages 2; load B stages 4" },
    { GEMM90, "loop 1 plain; load A stages 1; load B stages 1" },
    { GEMM90, "loop 1 issue" },
    { GEMM90, "programs each; store C registers" },
    { GEMM90, "programs static; store C tma 1" },
    { GEMM90, "warp_specialization 1; order ids" },
    { GEMM90, "warp_specialization none; load A stages 3; load B stages 3; warps 8" },
    { GEMM90, "registers 24 232; scratch 8192" },
    { GEMM90, "multicast 2 along 0; load A stages 2; load B stages 3" },
    { RESIDUAL90, "load R registers; load B stages 1; loop 1 plain" },
    { RESIDUAL90, "load R epilogue 2; load A stages 2; load B stages 1; loop 1 plain" },
    { RESIDUAL90, "load R epilogue 2; programs each; store C registers" },
    { GATED90, "loop 1 plain; load A stages 1; load G stages 2; load U stages 3" },
    { ATTENTION90, "loop 1 plain" },
    { ATTENTION90, "rescale always; loop 1 issue; load K stages 1; load V stages 1; load Q stages 1" },
    { ATTENTION90, "loop 1 pipelined 2 cross_tile; load Q stages 1" },
    { ATTENTION90, "loop 1 pipelined 2; pingpong on; load K stages 1; load V stages 3" },
    { ATTENTION90, "rescale always; order heavy 2; programs static" },
    { ATTENTION90, "warp_specialization 1; store O registers; programs each" },
    { BIAS90, "load BIAS prefetch; loop 1 plain" },
    { BIAS90, "load BIAS registers; loop 1 pipelined 2" },
    { BIAS90, "load BIAS stages 2; load K stages 3" },
    { FOUR90, "split_k 2; warp_specialization 4" },
    { FOUR90, "split_k 4; warp_specialization 4; pingpong off" },
    { FOUR90, "split_k 2; warp_specialization 2; loop 1 plain" },
    { FOUR90, "warp_specialization 4; programs dynamic" },
    { TALL90, "split_k 4; warp_specialization 4" },
    { TALL90, "split_k 2; warp_specialization 1; loop 1 plain" },
    { GEMM80, "load A stages 2; load B stages 2; warps 2" },
    { GEMM80, "load A multistage; load B registers" },
    { GEMM80, "load A registers; load B stages 4; occupancy 3" },
    { ATTENTION80, "load Q registers; load K multistage; rescale always" },
    { GEMM80, "order remap; loop 1 plain" },
    { GEMM80, "order rows 3; loop 1 prefetch" },
    { GEMM90, "order rows 2" },
    { GEMM90, "order scattered" },
    { SEVEN90, "store C tma 4; programs static" }, /* boxes that buffers do not divide */
    { SEVEN90, "store C tma 3" },
    { SEVEN90, "store C tma 5" },
    { GEMM942, "load A stages 1 by cp_async; load B stages 1 by cp_async" },
    { GEMM942, "order first 1; loop 1 plain" },
    { GEMM942, "load A multistage; load B registers; warps 2" },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* 1: right; 0: wrong, or failed; -1: the schedule was refused. */
static int run(void *emu, const Kernel *k, const char *schedule, int first, int draws, char *why, size_t size)
{
    Run r;
    char path[512];
    KernelOptions options = { .schedule = schedule, .schedule_name = "by hand" };
    Problem *p = problem_make(recipe_find(k->recipe), k->sizes, k->consts, NULL, NULL, 1, why, size);
    int result = p && run_prepare(&r, p, TILE_KERNELS, path, sizeof path, why, size);
    r.passes = true;
    exec_emu_options(emu, &options);
    for (int d = first; d < first + draws && result == 1; d++) {
        problem_reset(p);
        if (!exec_emu_run(emu, &r, why, size)) {
            result = strstr(why, "by hand:") && strstr(why, "error:") ? -1 : 0;
            break;
        }
        Verdict v = problem_check(p);
        if (!v.ok) {
            result = 0;
            snprintf(why, size, "%s", v.text);
        }
    }
    problem_free(p);
    return result;
}

/* --- drawn schedules --------------------------------------------------------------------------------- */

static uint64_t state;
static int below(int n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (uint64_t)n);
}

static void decision(const Kernel *k, char *out, size_t size)
{
    static const char *const plain[] = { "programs each", "programs static", "programs dynamic", "order ids",
        "order heavy 0", "order heavy 1", "order rows 3", "order first 1", "order remap",
        "warp_specialization none", "warp_specialization 1", "warp_specialization 2", "warp_specialization 4",
        "split_k 2", "split_k 4", "split_k 8", "multicast none", "multicast 2 along 0", "multicast 2 along 1",
        "rescale always", "rescale lazy", "pingpong on", "pingpong off", "scratch 6000", "registers 24 152",
        "registers 24 208", "warps 2", "warps 8", "occupancy 2", "loop 1 plain", "loop 1 chain",
        "loop 1 issue", "loop 1 pipelined 2", "loop 1 pipelined 2 cross_tile", "loop 1 pipelined 1",
        "loop 1 prefetch" };
    static const char *const ways[] = { "registers", "prefetch", "multistage", "stages 1", "stages 2",
        "stages 3", "stages 5", "stages 1 by registers" },
                             *const stores[] = { "registers", "tma 1", "tma 2", "tma 4" };
    char names[64], *name[8];
    int n = 0;
    snprintf(names, sizeof names, "%s", k->loads);
    for (char *p = strtok(names, " "); p; p = strtok(NULL, " ")) name[n++] = p;
    int which = below(3);
    if (!which) snprintf(out, size, "%s; ", plain[below((int)(sizeof plain / sizeof *plain))]);
    else if (which == 1) snprintf(out, size, "store %s %s; ", name[n - 1], stores[below(4)]);
    else snprintf(out, size, "load %s %s; ", name[below(n - 1)], ways[below(8)]);
}

static int random_ones(void *const *emus, uint64_t first, uint64_t count)
{
    int right = 0, refused = 0, wrong = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        char text[300] = "", why[4000] = "";
        state = seed * 0x9e3779b97f4a7c15ull + 12345;
        below(2);
        const Kernel *k = &kernels[below(KERNELS)];
        for (int n = 1 + below(3); n > 0; n--) decision(k, text + strlen(text), sizeof text - strlen(text));
        int result = run(emus[k - kernels], k, text, (int)seed, 1, why, sizeof why);
        right += result == 1;
        refused += result < 0;
        wrong += !result;
        if (!result)
            printf("FAIL seed %llu: %s %s: %s\n     %s\n", (unsigned long long)seed, k->device, k->recipe,
                text, why);
        fflush(stdout);
    }
    printf(
        "%llu schedules: %d right, %d refused, %d wrong\n", (unsigned long long)count, right, refused, wrong);
    return wrong || (count >= 40 && (right < (int)count / 8 || refused < (int)count / 8));
}

int main(int argc, char **argv)
{
    int only = -1, draws = 1;
    uint64_t first = 1, count = 0;
    char why[4000];
    void *emus[KERNELS];
    for (int k = 1; k < argc; k++) {
        if (!strncmp(argv[k], "--only=", 7)) only = atoi(argv[k] + 7);
        else if (!strncmp(argv[k], "--draws=", 8)) draws = atoi(argv[k] + 8);
        else if (!strncmp(argv[k], "--random=", 9)) count = strtoull(argv[k] + 9, NULL, 10);
        else if (!strncmp(argv[k], "--first=", 8)) first = strtoull(argv[k] + 8, NULL, 10);
        else {
            fprintf(stderr, "tile_emu_schedules: what is %s?\n", argv[k]);
            return 2;
        }
    }
    for (int k = 0; k < KERNELS; k++)
        if (!(emus[k] = exec_emu_open(kernels[k].device, why, sizeof why))) {
            printf("SKIP: %s\n", why);
            return 77;
        }
    int failed = count ? random_ones(emus, first, count) : 0;
    for (int r = 0; r < ROWS && !count; r++) {
        if (only >= 0 && r != only) continue;
        const Kernel *k = &kernels[rows[r].kernel];
        int result = run(emus[rows[r].kernel], k, rows[r].schedule, r, draws, why, sizeof why);
        printf(
            "%-4s %2d %s %s: %s\n", result == 1 ? "ok" : "FAIL", r, k->device, k->recipe, rows[r].schedule);
        if (result != 1) printf("     %s\n", why);
        failed |= result != 1;
        fflush(stdout);
    }
    for (int k = 0; k < KERNELS; k++) exec_emu_close(emus[k]);
    return failed;
}
