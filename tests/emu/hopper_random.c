/* hopper_random.c: random tiles, extents, types, views and options of the lowering for kernels that become
 * rings. */
#include "tests/emu/hopper.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static int below(int n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (uint64_t)n);
}
#define ONE_OF(...) \
    (((const int[]){ __VA_ARGS__ })[below((int)(sizeof(const int[]){ __VA_ARGS__ } / sizeof(int)))])
#define WORD_OF(...) \
    (((const char *const[]){ \
        __VA_ARGS__ })[below((int)(sizeof(const char *const[]){ __VA_ARGS__ } / sizeof(char *)))])

typedef struct Text3 {
    char sizes[200], consts[200], views[40];
} Text3;

/* Mostly extents and strides that TMA takes; of ragged problems half. */
static bool ragged;
static int extent(int most, int unit)
{ return below(8) > (ragged ? 3 : 0) ? (1 + below(most / unit)) * unit : 1 + below(most); }

static const char *random_product(Text3 *t)
{
    const char *recipe = WORD_OF(
                   "gemm", "gemm", "gemm", "gemm_tf32", "gemm_bias_gelu", "gemm_residual", "gemm_gated"),
               *type = "T=f16", *views = WORD_OF("", "A:t", "B:t", "A:t B:t");
    int unit = 8, step = 16;
    if (!strcmp(recipe, "gemm")) {
        type = WORD_OF("T=f16 TO=f16", "T=bf16 TO=bf16", "T=f16 TO=f32", "T=f8e4m3 TO=f16", "T=f8e5m2 TO=f16",
            "T=i8 ACC=i32 TO=i32");
        if (strstr(type, "f8") || strstr(type, "i8")) {
            unit = 16;
            step = 32;
            views = "B:t";
        }
    } else if (!strcmp(recipe, "gemm_tf32")) {
        type = "T=f32";
        views = WORD_OF("B:t", "A:t B:t");
        unit = 4;
        step = 8;
    } else if (!strcmp(recipe, "gemm_gated")) views = WORD_OF("", "A:t", "G:t U:t");
    /* The errors of truncated inputs average out in longer sums. */
    snprintf(t->sizes, sizeof t->sizes, "M=%d N=%d K=%d", extent(300, unit), extent(300, unit),
        (step == 8 ? 64 : 0) + extent(400, unit));
    snprintf(t->consts, sizeof t->consts, "%s TM=%d TN=%d TK=%d STAGES=%d GROUP=%d", type,
        ONE_OF(64, 128, 192, 256), 8 * (1 + below(below(2) ? 32 : 16)), step * ONE_OF(1, 2, 3, 4, 8),
        1 + below(4), ONE_OF(1, 3, 8));
    snprintf(t->views, sizeof t->views, "%s", views);
    return recipe;
}

static const char *random_attention(Text3 *t)
{
    const char *recipe = WORD_OF("attention", "attention", "attention_window", "attention_softcap",
        "attention_alibi", "attention_bias", "attention_sink", "attention_cross");
    int hk = 1 + below(2), m = 1 + below(300), n = below(3) ? 1 + below(400) : m;
    if (!strcmp(recipe, "attention_bias") && below(2)) n = (n + 7) / 8 * 8;
    /* A row without a key in its window has no defined result. */
    if (!strcmp(recipe, "attention_window")) m = n;
    snprintf(t->sizes, sizeof t->sizes, "B=%d H=%d HK=%d M=%d N=%d D=%d", 1 + below(2), hk * (1 + below(2)),
        hk, m, strcmp(recipe, "attention_cross") && below(2) ? m : n, ONE_OF(64, 64, 96, 128));
    int used = snprintf(t->consts, sizeof t->consts, "T=%s TM=%d TN=%d", WORD_OF("f16", "bf16"),
        ONE_OF(64, 128, 192, 256), 16 * (1 + below(8)));
    if (!strcmp(recipe, "attention_window"))
        snprintf(t->consts + used, sizeof t->consts - (size_t)used, " WINDOW=%d", 1 + below(200));
    else if (strcmp(recipe, "attention_cross"))
        snprintf(t->consts + used, sizeof t->consts - (size_t)used, " CAUSAL=%s", WORD_OF("true", "false"));
    snprintf(t->views, sizeof t->views, "%s", WORD_OF("", "", "", "Q:s K:s V:s O:s"));
    return recipe;
}

static const char *random_conv(Text3 *t)
{
    int h = 3 + below(14), w = 3 + below(20), r = ONE_OF(1, 3), step = ONE_OF(1, 1, 2, 3);
    snprintf(t->sizes, sizeof t->sizes, "B=%d C=%d H=%d W=%d F=%d R=%d S=%d P=%d Q=%d", 1 + below(3),
        extent(96, 8), h, w, extent(128, 8), r, r, (h - r) / step + 1, (w - r) / step + 1);
    snprintf(t->consts, sizeof t->consts, "PAD=0 STRIDE=%d TF=%d TB=%d TP=%d TQ=%d TC=%d STAGES=%d", step,
        8 * (1 + below(16)), ONE_OF(1, 2), ONE_OF(2, 4, 8), ONE_OF(8, 16, 32), ONE_OF(16, 32, 64),
        1 + below(4));
    *t->views = 0;
    return "conv2d_nhwc";
}

static KernelOptions random_options(uint64_t seed)
{
    KernelOptions o = { .early_start = seed % 4 == 0, .roles_fail = seed % 8 == 3, .watches = seed % 8 == 5 };
    pass_change(&o.with, PASS_CP_ASYNC_PRODUCER, seed % 2 == 0);
    pass_change(&o.skip, PASS_PERSISTENT, !below(6));
    pass_change(&o.skip, PASS_TILE_SCHEDULER, !below(6));
    pass_change(&o.skip, PASS_SOFTWARE_PIPELINING, !below(5));
    pass_change(&o.with, PASS_CROSS_TILE_PIPELINING, !below(2));
    pass_change(&o.with, PASS_PINGPONG, !below(5));
    pass_change(&o.skip, PASS_BULK_STORE, !below(4));
    pass_change(&o.skip, PASS_PROGRAM_ORDER, !below(5));
    pass_change(&o.skip, PASS_LAZY_RESCALE, !below(5));
    pass_change(&o.skip, PASS_NEAR, !below(5));
    return o;
}

/* Says which passes the failing kernel was compiled with. */
static void print_options(const KernelOptions *o)
{
    for (int id = TILE_PASS_COUNT; id < PASS_COUNT; id++)
        if (pass_in(&o->skip, (PassId)id) || pass_in(&o->with, (PassId)id))
            printf(" %s %s;", pass_in(&o->skip, (PassId)id) ? "without" : "with", pass_info[id].name);
}

bool random_one(void *emu, uint64_t seed, int draws, int *roles, int *refused)
{
    Text3 t;
    char why[2000] = "";
    state = seed * 0x9e3779b97f4a7c15ull + 12345;
    ragged = seed % 3 == 0;
    below(2);
    int kind = below(8);
    const char *recipe = kind < 4 ? random_product(&t) : kind < 7 ? random_attention(&t) : random_conv(&t);
    KernelOptions o = random_options(seed);
    if (!below(3))
        snprintf(t.consts + strlen(t.consts), sizeof t.consts - strlen(t.consts), " split_k=%d",
            below(3) ? 2 + below(7) : 9 + below(40));
    else if (!below(2))
        snprintf(
            t.consts + strlen(t.consts), sizeof t.consts - strlen(t.consts), " stream_k=%d", 2 + below(7));
    if (below(3) == 0) { /* Neighbouring programs load together, along an axis that may share nothing. */
        size_t used = strlen(t.consts);
        int axis = below(3);
        snprintf(t.consts + used, sizeof t.consts - used,
            axis < 2 ? " cluster=%d cluster_axis=%d" : " cluster=%d", ONE_OF(2, 2, 3, 4), axis);
    }
    Row row = { recipe, t.sizes, t.consts, *t.views ? t.views : NULL };
    Test x = { 0 };
    bool ok = prepare(&x, &row, why, sizeof why);
    exec_emu_options(emu, &o);
    for (int k = 0; k < draws && ok; k++) {
        draw(emu, (int)seed + k);
        ok = try(emu, &x, why, sizeof why);
    }
    *roles += exec_emu_roles(emu);
    if (!ok && !strncmp(why, "SKIP:", 5)) {
        ok = true;
        ++*refused;
    } /* told: more shared memory than there is */
    if (!ok) {
        printf("FAIL seed %llu: %s %s %s %s;", (unsigned long long)seed, recipe, t.sizes, t.consts, t.views);
        print_options(&o);
        printf("\n     %s\n", why);
    }
    fflush(stdout);
    release(&x);
    return ok;
}
