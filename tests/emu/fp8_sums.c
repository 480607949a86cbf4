/* fp8_sums.c: errors of fp8 products of growing K, on machines whose matrix units add fp8 products to 14 bits
 * (short_sums.c): by default they stay within what docs/language.md states, whatever K is; with precision =
 * fast_accum they grow with K. The emulator's own sums in f32 must give the same, so that the difference is
 * the unit's. Exit status 0, 1, 77. */
#include "tests/emu/emu.h"
#include "tests/emu/exec_emu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 64, N = 32, MOST_K = 8192 };

/* The norm of the error by that of the result, from .. to; `short_sums`: as the machine adds, else in f32. */
typedef struct Row {
    const char *device;
    EmuSums sums;
    const char *kernel;
    int k;
    bool positive;
    double from, to;
} Row;

static const Row rows[] = {
#define MACHINE(device, sums) \
    { device, sums, "full", 128, false, 0, 3e-4 }, { device, sums, "full", 1024, false, 0, 3e-4 }, \
        { device, sums, "full", 8192, false, 0, 3e-4 }, { device, sums, "full", 1000, false, 0, 3e-4 }, \
        { device, sums, "full_parts", 8192, false, 0, 3e-4 }, \
        { device, sums, "full_parts", 720, false, 0, 3e-4 }, { device, sums, "fast", 128, false, 0, 3e-4 }, \
        { device, sums, "fast", 8192, false, 1e-3, 1 }, { device, sums, "full", 128, true, 0, 6e-4 }, \
        { device, sums, "full", 8192, true, 0, 6e-4 }, { device, sums, "fast", 1024, true, 2e-3, 1 }, \
        { device, sums, "fast", 8192, true, 1e-2, 1 }
    MACHINE("one_sm_90a", EMU_SUMS_SM_90A),
    MACHINE("one_sm_89", EMU_SUMS_SM_89),
    { "one_sm_90a", EMU_SUMS_F32, "fast", 8192, true, 0, 1e-6 },
    { "one_sm_90a", EMU_SUMS_F32, "full", 8192, true, 0, 1e-6 },
    { "one_sm_80", EMU_SUMS_SM_89, "full", 8192, true, 0, 1e-6 }, /* widened to f16 */
};

static unsigned char a[M * MOST_K], b[N * MOST_K];
static float c[M * N];

static double e4m3(unsigned x)
{
    int e = (int)(x >> 3 & 15), m = (int)(x & 7);
    double y = e ? ldexp(m + 8, e - 10) : ldexp(m, -9);
    return x & 128 ? -y : y;
}

/* Numbers from 2^-4 to nearly 4, spread evenly over the codes. */
static void draw(unsigned char *x, int n, bool positive, unsigned seed)
{
    for (int k = 0; k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        x[k] = (unsigned char)((24 + (seed >> 16) % 48) | (positive ? 0 : seed >> 24 & 128));
    }
}

static Tensor matrix(const char *name, RefType type, void *at, int64_t rows, int64_t columns)
{
    Tensor t = { .type = type,
        .rank = 2,
        .shape = { rows, columns },
        .stride = { columns, 1 },
        .count = rows * columns,
        .base = at };
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* The error's norm by the result's; *excess: the largest error of an element by what docs/language.md allows
 * it. */
static double error(int k, double *excess)
{
    double err = 0, all = 0;
    *excess = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, size = 0;
            for (int x = 0; x < k; x++) {
                double p = e4m3(a[i * k + x]) * e4m3(b[j * k + x]);
                want += p;
                size += fabs(p);
            }
            double d = c[i * N + j] - want, allowed = size * (0x1p-5 + (k + 127) / 128 * 0x1p-24);
            err += d * d;
            all += want * want;
            if (fabs(d) / allowed > *excess) *excess = fabs(d) / allowed;
        }
    return sqrt(err / all);
}

static bool run(const Row *r, void *emu)
{
    char why[600] = "";
    Run run = { .path = TILE_SUMS, .n_launches = 1, .passes = true };
    draw(a, M * r->k, r->positive, 1);
    draw(b, N * r->k, r->positive, 2);
    memset(c, 0xff, sizeof c);
    const Tensor t[3] = { matrix("A", REF_F8E4M3, a, M, r->k), matrix("B", REF_F8E4M3, b, N, r->k),
        matrix("C", REF_F32, c, M, N) };
    snprintf(run.launches[0].kernel, sizeof run.launches[0].kernel, "%s", r->kernel);
    for (int k = 0; k < 3; k++) run.launches[0].args[k].tensor = &t[k];
    run.launches[0].n_args = 3;
    emu_sums = r->sums;
    bool ok = exec_emu_run(emu, &run, why, sizeof why);
    emu_sums = EMU_SUMS_F32;
    double excess = 0, e = ok ? error(r->k, &excess) : NAN;
    bool full = !strncmp(r->kernel, "full", 4), in = e >= r->from && e <= r->to && (!full || excess <= 1);
    printf("%-4s %s %s, K %d, %s, %s sums: error %.2e of the norm, must be %.0e .. %.0e; largest by what is "
           "allowed %.3f %s\n",
        in ? "ok" : "FAIL", r->device, r->kernel, r->k, r->positive ? "positive" : "of both signs",
        r->sums ? "short" : "f32", e, r->from, r->to, excess, why);
    return in;
}

int main(void)
{
    bool ok = true;
    char why[400];
    const char *open = NULL;
    void *emu = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!open || strcmp(open, rows[i].device)) {
            if (emu) exec_emu_close(emu);
            emu = exec_emu_open_once(rows[i].device, why, sizeof why);
            if (!emu) {
                printf("SKIP: %s\n", why);
                return 77;
            }
            open = rows[i].device;
        }
        ok &= run(&rows[i], emu);
    }
    exec_emu_close(emu);
    return !ok;
}
