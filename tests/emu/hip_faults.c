/* hip_faults: HIP emissions with one barrier, wave barrier or wait left out at a time: none may go unnoticed.
 *
 *     hip_faults [emu_gfx942 ...] [--row=N] [--fault=N]
 *
 * Every emission first runs as it is. Exit status 0, 1 after a failure, 77 where there is no host compiler.
 */
#include "tests/emu/emu.h"
#include "tests/emu/exec_emu.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    const char *recipe, *sizes, *consts, *views;
} Row;
static const Row rows[] = {
    { "gemm", "M=130 N=70 K=200", "TM=64 TN=64 TK=32 STAGES=3 GROUP=1", NULL },
    { "gemm", "M=70 N=100 K=100", "T=i8 ACC=i32 TO=i32 TM=64 TN=64 TK=32 STAGES=2", "A:t" },
    { "attention", "B=1 H=1 HK=1 M=65 N=130 D=64", "CAUSAL=true TM=64 TN=32", NULL },
    { "softmax", "M=9 N=4095", "T=f32", NULL },
    { "transpose", "M=65 N=129", "TM=64 TN=64", NULL },
    { "max_magnitude", "M=3 N=4095", "T=f16", NULL },
    { "cumsum", "M=3 N=9000", "T=f32 TN=4096", NULL },
};
enum { ROWS = sizeof rows / sizeof *rows, DRAWS = 4 };

/* What changes nothing when it is left out, the line before it, how often a kernel may have it, and why. */
static const struct {
    const char *recipe, *what, *before;
    int times;
    const char *why;
} harmless[] = {
    { "*", "a barrier left out", "const * shared_base + SCRATCH + *", 1,
        "another one stands behind the last use of the buffers, or nothing was there before" },
    { "gemm", "a barrier left out", "const i32 mul_*", 1,
        "at the kernel's start nobody has used the buffers" },
    { "cumsum", "a barrier *", "}", 2,
        "what two passes of the loop store lies apart; the order of programs does not prove it" },
    { "attention", "a barrier left out", "const i64 div_*", 1,
        "the rings of K and V lie beside Q's buffer, and nobody has used them" },
};
enum { HARMLESS = sizeof harmless / sizeof *harmless };
static bool applied[HARMLESS];

static bool argued(const Row *r, const Fault *f, int *times)
{
    for (int k = 0; k < HARMLESS; k++)
        if (times[k] < harmless[k].times && !fnmatch(harmless[k].recipe, r->recipe, 0) &&
            !fnmatch(harmless[k].what, f->what, 0) && !fnmatch(harmless[k].before, f->before, 0)) {
            times[k]++;
            applied[k] = true;
            return true;
        }
    return false;
}

static bool try(void *emu, Problem *p, Run *run, char *why, size_t size)
{
    problem_reset(p);
    if (!exec_emu_run(emu, run, why, size)) return false;
    Verdict v = problem_check(p);
    if (!v.ok) snprintf(why, size, "%s", v.text);
    return v.ok;
}

static bool test(const Row *r, const char *device, int only)
{
    static Faults faults;
    char why[1000] = "", path[512];
    void *emu = exec_emu_open_once(device, why, sizeof why);
    const Recipe *recipe = recipe_find(r->recipe);
    Problem *p =
        emu && recipe ? problem_make(recipe, r->sizes, r->consts, r->views, NULL, 1, why, sizeof why) : NULL;
    Run run;
    bool ok = p && run_prepare(&run, p, TILE_KERNELS, path, sizeof path, why, sizeof why);
    int caught = 0, missed = 0, spared = 0, times[HARMLESS] = { 0 };
    faults = (Faults){ 0 };
    emu_mutant = -1;
    if (ok) {
        run.passes = true;
        exec_emu_plant(emu, &faults);
        ok = try(emu, p, &run, why, sizeof why) && faults_whole(&faults, why, sizeof why);
    }
    if (!ok) printf("FAIL %s on %s without a fault: %s\n", r->recipe, device, why);
    for (int n = 0; ok && n < faults.n; n++) {
        const Fault *f = &faults.list[n];
        bool found = false;
        if (only >= 0 && n != only) continue;
        emu_mutant = n;
        for (int k = 0; k < DRAWS && !found; k++) {
            exec_emu_draw(emu, k & 1, k >> 1);
            found = !try(emu, p, &run, why, sizeof why);
        }
        if (only >= 0) printf("%s: %s\n", f->text, found ? why : "not noticed");
        if (found) caught++;
        else if (argued(r, f, times)) spared++;
        else {
            missed++;
            printf("FAIL %s on %s: fault %d, %s: line %d: %s (after: %s)\n", r->recipe, device, n, f->what,
                f->line, f->text, f->before);
        }
        fflush(stdout);
    }
    emu_mutant = -1;
    printf("%-4s %s %s on %s: %d faults, %d noticed, %d harmless\n", ok && !missed ? "ok" : "FAIL", r->recipe,
        r->consts, device, faults.n, caught, spared);
    if (emu) exec_emu_close(emu);
    if (p) problem_free(p);
    return ok && !missed;
}

int main(int argc, char **argv)
{
    int row = -1, fault = -1, ran = 0;
    const char *first = NULL;
    bool ok = true;
    char why[400];
    for (int k = 1; k < argc; k++) {
        if (!strncmp(argv[k], "--row=", 6)) row = atoi(argv[k] + 6);
        else if (!strncmp(argv[k], "--fault=", 8)) fault = atoi(argv[k] + 8);
        else if (!first) first = argv[k];
    }
    void *emu = exec_emu_open_once(first ? first : "emu_gfx942", why, sizeof why);
    if (!emu) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    exec_emu_close(emu);
    for (int i = 0; i < ROWS; i++) {
        if (row >= 0 && i != row) continue;
        ran++;
        for (int k = 1; k < argc; k++)
            if (argv[k][0] != '-') ok &= test(&rows[i], argv[k], fault);
        if (!first) ok &= test(&rows[i], "emu_gfx942", fault);
    }
    for (int k = 0; k < HARMLESS && row < 0 && fault < 0; k++)
        if (!applied[k]) {
            ok = false;
            printf("FAIL no fault is harmless as stated: %s, %s (after: %s)\n", harmless[k].recipe,
                harmless[k].what, harmless[k].before);
        }
    if (!ran) printf("FAIL no row %d\n", row);
    return !ok || !ran;
}
