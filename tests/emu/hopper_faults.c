/* hopper_faults.c: faults planted in the emitted text, one at a time: every one is noticed, or its row of
 * `harmless` says why it changes nothing. */
#include "tests/emu/hopper.h"
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* Faults that change nothing, as often as a kernel may have them, and why. `before`: the line before. */
static const struct {
    const char *recipe, *what, *before, *text;
    int times;
    const char *why;
} harmless[] = {
    { "gemm", "a wait left out", "*", "mbar_wait(B_ring_*_empty *", 1,
        "a consumer gives back A's stage after B's, and the producer has waited for A's" },
    { "conv2d_nhwc", "a wait left out", "*", "mbar_wait(X_ring_*_empty *", 1,
        "likewise: WT's stage is given back last" },
    { "gemm_gated", "a wait left out", "*", "mbar_wait([GU]_ring_*_empty *", 2,
        "likewise: A's stage is given back last" },
    { "attention", "a warp barrier left out", "*", "warp_sync();", 1,
        "the loop before it runs, and its waits hold the lanes together (attention_cross has programs where "
        "it does not)" },
    { "attention*", "a warp barrier left out", "if (last_*", "warp_sync();", 1, "likewise" },
    { "attention*", "a warp barrier left out", "l_* = red_*", "warp_sync();", 1,
        "the shuffles that join the lanes' parts of l bring the lanes together" },
    { "attention*", "an arrival left out", "}", "if (lane == 0) mbar_arrive(V_ring_*_empty *", 1,
        "behind the last program: nobody fills the stage again" },
    { "attention", "an arrival *", "for (int i = 0; *", "mbar_init(V_ring_*_empty + * /* of no stage*", 2,
        "what the first step gives back is no stage, and nobody waits for it" },
    { "softmax", "a warp barrier left out", "}", "warp_sync();", 1,
        "the cluster's barrier behind it meets all lanes here; the machine's .aligned wants them together "
        "before" },
    { "gemm", "a warp barrier left out", "}", "warp_sync();", 1, "likewise" },
    { "softmax", "a barrier left out", "float *const part_*", "__syncthreads();", 1,
        "it stands before the first use of the scratch" },
    { "*", "a warp barrier left out", "if (lane == 0) bulk_wait_read(*", "warp_sync();", 1,
        "stmatrix, which writes the buffer, brings the lanes together too" },
    /* rings hold four steps of five: nobody is a program ahead of another, the producer no more than four
     * steps */
    { "gemm_int4", "a wait left out", "for (i32 program_*", "mbar_wait(scheduled_empty *", 1,
        "the producer has waited for stages that were given back behind the last look at this program" },
    { "gemm_int4", "a barrier left out", "const u32 sh_*", "bar_sync(1, 128);", 1,
        "it stands before the scratch is written again, a program later" },
    { "add_products_in_order", "an arrival left out", "mbar_arrive(*_done + 0 *", "mbar_arrive(*_done + 8 *",
        1,
        "a barrier follows the waits of both warpgroups, and a phase that never ends looks ended behind two "
        "steps of a writer" },
    /* of a cluster, whose CTAs do one program */
    { "gemm", "a fence left out", "mbar_init(*", "fence_mbarrier_init();", 1,
        "the fence for the rings, by the same thread, comes before anybody sends here; the machine orders "
        "none but its own behind the cluster's barrier" },
    { "gemm", "an arrival fewer", "prefetch_map(*", "for (int i = 0; *", 1,
        "a warp gives back A's stage after B's, and the producer waits for A's first" },
    { "gemm", "an arrival left out", "*if (lt_*", "if (lane == 0) mbar_arrive(*", 1,
        "behind the program's last step: nobody fills the stage again" },
    { "gemm", "an arrival left out", "if (++B_ring_*", "if (lane == 0) mbar_arrive(A_ring_*", 1, "likewise" },
    { "gemm", "a wait left out", "for (int box_*", "if (lane == 0) bulk_wait_read(0);", 1,
        "the buffer is used once" },
    { "gemm", "one group more in flight", "for (int box_*", "if (lane == 0) bulk_wait_read(0);", 1,
        "likewise" },
    /* sm_80 */
    { "gemm", "a barrier left out", "/* for k *", "__syncthreads();", 1,
        "another barrier stands before the first use of the scratch" },
    { "attention", "a barrier left out", "l_* = red_*", "__syncthreads();", 1,
        "likewise: in between, the lanes' parts of l are joined by shuffles" },
    { "*", "a barrier left out", "const u32 sh_* = shared_base + SCRATCH + *", "__syncthreads();", 1,
        "another one stands behind the last use of the buffers" },
    { "attention", "a * left out", "*", "cp_async_wait(0);", 1,
        "Q is read in the loop, whose first wait and barrier cover its copy" },
    { "attention", "one group more in flight", "*", "cp_async_wait(0);", 1, "likewise" },
    { "attention", "a commit left out", "/* let q *", "cp_async_commit();", 1,
        "Q's copy is then in the group of the first K" },
    { "attention", "a barrier left out", "cp_async_wait(0);", "__syncthreads();", 1,
        "the loop's own barrier stands before the first use of Q" },
    { "gemm", "a barrier left out", "*", "__syncthreads();", 1,
        "at the kernel's start nobody has used the buffers" },
    { "attention", "a barrier left out", "*", "__syncthreads();", 2,
        "likewise, and the rings of K and V lie beside Q's buffer" },
};
enum { HARMLESS = sizeof harmless / sizeof *harmless };
static bool applied[HARMLESS];

static bool argued(const Row *r, const Fault *f, int *times)
{
    for (int k = 0; k < HARMLESS; k++)
        if (times[k] < harmless[k].times && !fnmatch(harmless[k].recipe, r->recipe, 0) &&
            !fnmatch(harmless[k].what, f->what, 0) && !fnmatch(harmless[k].before, f->before, 0) &&
            !fnmatch(harmless[k].text, f->text, 0)) {
            times[k]++;
            applied[k] = true;
            return true;
        }
    return false;
}

static bool asked(const Row *r, const Fault *f)
{
    bool any = !r->calls[0];
    for (int k = 0; k < 4 && r->calls[k]; k++) any |= strstr(f->text, r->calls[k]) != NULL;
    return any;
}

bool faults_of(const Row *r, int number, const char *device, int draws, int only)
{
    static Faults faults;
    char why[2000] = "";
    Test t = { 0 };
    void *emu = exec_emu_open(device, why, sizeof why);
    bool ok = emu && prepare(&t, r, why, sizeof why);
    if (ok) exec_emu_options(emu, &(KernelOptions){ .early_start = r->early });
    int tried = 0, caught = 0, harmless_ones = 0, missed = 0, times[HARMLESS] = { 0 };
    faults = (Faults){ 0 };
    emu_mutant = -1;
    if (ok) {
        exec_emu_plant(emu, &faults);
        draw(emu, 0);
        ok = try(emu, &t, why, sizeof why);
    }
    ok = ok && faults_whole(&faults, why, sizeof why);
    if (!ok) printf("FAIL %s without a fault: %s\n", r->recipe, why);
    for (int n = 0; ok && n < faults.n; n++) {
        const Fault *f = &faults.list[n];
        bool found = false;
        if (!asked(r, f) || (only >= 0 && n != only)) continue;
        tried++;
        emu_mutant = n;
        for (int k = 0; k < draws && !found; k++) {
            draw(emu, k);
            found = !try(emu, &t, why, sizeof why);
        }
        bool harmless_one = !found && argued(r, f, times);
        for (int k = draws; k < 4 * draws && !found && !harmless_one; k++) {
            draw(emu, k);
            found = !try(emu, &t, why, sizeof why);
        }
        if (only >= 0) printf("%s: %s\n", f->text, found ? why : "not noticed");
        if (found) caught++;
        else if (harmless_one) harmless_ones++;
        else {
            missed++;
            printf("FAIL %s %s: fault %d, %s: @%d: %s (after: %s)\n", r->recipe, r->consts, n, f->what,
                f->line, f->text, f->before);
        }
        fflush(stdout);
    }
    emu_mutant = -1;
    if (ok && !tried) {
        ok = false;
        printf("FAIL %s %s: no fault was planted\n", r->recipe, r->consts);
    }
    printf("%-4s %2d %s %s on %s: %d faults, %d noticed, %d harmless\n", ok && !missed ? "ok" : "FAIL",
        number, r->recipe, r->consts, device, tried, caught, harmless_ones);
    if (emu) exec_emu_close(emu);
    release(&t);
    return ok && !missed;
}

bool faults_all_applied(void)
{
    bool ok = true;
    for (int k = 0; k < HARMLESS; k++)
        if (!applied[k]) {
            ok = false;
            printf("FAIL no fault is harmless as stated: %s, %s: %s (after: %s)\n", harmless[k].recipe,
                harmless[k].what, harmless[k].text, harmless[k].before);
        }
    return ok;
}
