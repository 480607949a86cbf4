/* races.c: tile_emu_races: kernels whose programs race in global memory are reported, under every order of
 * CTAs; those that use atomics or share nothing are not. Programs may wait for those before them; a wait for
 * one that cannot start is reported. The barrier between a program's own stores and loads cannot be left out
 * unnoticed. */
#include "tests/emu/cuda_source.h"
#include "tests/emu/emu.h"
#include "tests/emu/exec_emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIP = 77, N = 256, DRAWS = 6 };

/* One program a CTA: programs that become one have no races with each other. */
static const char kernels[] =
    "kernel apart(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = "
    "program_id(); store(Y[i*64 +: 64], load(X[i*64 +: 64]) + load(Y[i*64 +: 64])); }\n"
    "kernel sum(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = program_id(); "
    "atomic_add(Y[arange(64)], load(X[i*64 +: 64])); }\n"
    "kernel plain_sum(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = "
    "program_id(); store(Y[0 +: 64], load(Y[0 +: 64]) + load(X[i*64 +: 64])); }\n"
    "kernel overlap(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = "
    "program_id(); store(Y[i*60 +: 64], load(X[i*64 +: 64])); }\n"
    "kernel neighbour(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = "
    "program_id(); store(Y[i*64 +: 64], load(Y[i*64 + 1 +: 64]) + load(X[i*64 +: 64])); }\n"
    "kernel atomic_read(in f32 X[N], inout f32 Y[N]) grid (cdiv(N, 64)) hint (pack = 1) { let i = "
    "program_id(); atomic_add(Y[arange(64)], load(X[i*64 +: 64])); store(Y[N/2 + i*16 +: 16], load(Y[0 "
    "+: 16])); }\n"
    "kernel behind(in f32 X[N], inout f32 Y[N]) grid (8) hint (pack = 1) { let i = program_id(); if i > "
    "0 { while atomic_add(Y[i - 1], 0.0, order = acquire) <= 0.0 {} } store(Y[64 +: 64], load(Y[64 +: "
    "64]) + load(X[0 +: 64])); atomic_exch(Y[i], 1.0, order = release); }\n"
    "kernel ahead(in f32 X[N], inout f32 Y[N]) grid (8) hint (pack = 1) { let i = program_id(); if i < 3 "
    "{ while atomic_add(Y[7], 0.0, order = acquire) <= 0.0 {} } atomic_exch(Y[i], 1.0, order = release); "
    "}\n"
    "kernel own(in f32 X[N], inout f32 Y[N]) grid (1) { store(Y[0 +: 256], load(X[0 +: 256]) * 2.0); let "
    "t = reshape(load(Y[1 +: 256]), [16, 16]); store(Y[0 +: 256], reshape(transpose(t), [256])); }\n";

static const struct {
    const char *name;
    const char *why; /* what is reported; NULL: nothing */
} programs[] = {
    { "apart", NULL },
    { "sum", NULL },
    { "own", NULL },
    { "behind", NULL },
    { "ahead", "deadlock: " }, /* program 7 starts when others have ended */
    { "plain_sum", "race: " },
    { "overlap", "race: " },
    { "neighbour", "race: " },
    { "atomic_read", "race: " },
};

static float x[N], y[N];

static bool run(void *emu, const char *path, const char *kernel, int draw, char *why, size_t size)
{
    const Tensor t[2] = { { .type = REF_F32,
                              .rank = 1,
                              .shape = { N },
                              .stride = { 1 },
                              .count = N,
                              .base = (unsigned char *)x },
        { .type = REF_F32,
            .rank = 1,
            .shape = { N },
            .stride = { 1 },
            .count = N,
            .base = (unsigned char *)y } };
    Run r = { .path = path, .n_launches = 1, .passes = true };
    snprintf(r.launches[0].kernel, sizeof r.launches[0].kernel, "%s", kernel);
    for (int k = 0; k < 2; k++) r.launches[0].args[k].tensor = &t[k];
    r.launches[0].n_args = 2;
    for (int k = 0; k < N; k++) {
        x[k] = (float)(k + 1);
        y[k] = (float)-k;
    }
    exec_emu_draw(emu, draw % 4 | draw % 3 << 2 | (draw / 2 % 2) << 4 | draw << 5, draw);
    return exec_emu_run(emu, &r, why, size);
}

/* Each barrier of `own` left out in turn: those that alone stand between its stores and its load show as
 * races in global memory. Others are the scratch's, some beside another one. */
static int without_barriers(const char *path, char *why, size_t size)
{
    static Faults faults;
    int noticed = 0;
    void *emu = exec_emu_open_once("one_sm_80", why, size);
    exec_emu_plant(emu, &faults);
    emu_mutant = -1;
    bool ok = run(emu, path, "own", 0, why, size) && faults_whole(&faults, why, size);
    for (int n = 0; n < faults.n && ok; n++) {
        emu_mutant = n;
        if (!strstr(faults.list[n].what, "barrier left out") || run(emu, path, "own", n, why, size)) continue;
        printf("own without the barrier of line %d: %s\n", faults.list[n].line, why);
        noticed += strstr(why, "global memory") != NULL;
    }
    emu_mutant = -1;
    exec_emu_close(emu);
    printf("%s: a barrier between a store and a load left out: %s\n", ok && noticed ? "ok" : "FAIL",
        ok ? noticed ? "noticed" : "not noticed" : why);
    return !ok || !noticed;
}

int main(void)
{
    char why[2000] = "", path[] = "/tmp/tile-races-XXXXXX";
    int bad = 0, file;
    void *emu = exec_emu_open_once("one_sm_80", why, sizeof why);
    if (!emu) return printf("SKIP: %s\n", why), SKIP;
    if ((file = mkstemp(path)) < 0 || write(file, kernels, sizeof kernels - 1) != sizeof kernels - 1)
        return perror(path), 1;
    close(file);
    for (size_t c = 0; c < sizeof programs / sizeof *programs; c++)
        for (int k = 0; k < DRAWS; k++) {
            bool ok = run(emu, path, programs[c].name, k, why, sizeof why),
                 as_expected = programs[c].why ? !ok && strstr(why, programs[c].why) : ok;
            if (!as_expected || !k)
                printf("%s: %s: %s\n", as_expected ? "ok" : "FAIL", programs[c].name, ok ? "nothing" : why);
            bad += !as_expected;
        }
    exec_emu_close(emu);
    bad += without_barriers(path, why, sizeof why);
    unlink(path);
    return bad != 0;
}
