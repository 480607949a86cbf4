/* test_hip_mma.c: the matrix instructions of the emulated AMD workgroup, against float64. */
#include "tests/emu/hip_fragments.h"
#include "tests/emu/test_hip.h"
#include "unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    int chip;
    const char *name, *layout;
    int kind;
    double bound;
} Case; /* kind of element: 0 f16, 1 bf16, 2 f32, 3 f64, 4 i8, 5 u8, 6 e4m3, 7 e5m2, +8 fnuz; b's in the next
           digit */
static struct {
    const Case *c;
    const HipInstr *x;
    double a[32][128], b[128][32], d[32][32];
    uint64_t wa[32][128], wb[128][32];
} job;

static uint64_t encode(int kind, double v, double *back)
{
    float f = (float)v;
    uint32_t w;
    uint64_t q;
    if (kind == 3) {
        memcpy(&q, &v, 8);
        *back = v;
        return q;
    }
    if (kind == 4) {
        *back = (int)v;
        return (uint8_t)(int8_t)(int)v;
    }
    if (kind == 5) {
        *back = fabs((double)(int)v);
        return (uint8_t)*back;
    }
    memcpy(&w, &f, 4);
    if (kind == 2) {
        *back = f;
        return w;
    }
    if (kind == 1) {
        w &= 0xffff0000u;
        memcpy(&f, &w, 4);
        *back = f;
        return w >> 16;
    }
    /* For the small formats, search the codes for the nearest value below. */
    int man = kind == 0       ? 10
              : kind % 8 == 6 ? 3
                              : 2,
        exps = kind == 0       ? 5
               : kind % 8 == 6 ? 4
                               : 5,
        bias = (1 << (exps - 1)) - 1 + (kind >= 8), codes = 1 << (man + exps);
    int best = 0;
    for (int c = 0; c < codes - 8; c++) {
        int e = c >> man, m = c & ((1 << man) - 1);
        double y = e ? ldexp(m | 1 << man, e - bias - man) : ldexp(m, 1 - bias - man);
        if (y <= fabs(v)) {
            best = c;
            *back = copysign(y, v);
        }
    }
    return (uint64_t)best | (v < 0 && best ? (uint64_t)codes : 0);
}

static double random_value(double scale) { return (rand() % 2001 - 1000) / 1000.0 * scale; }

static void fill(double scale)
{
    const HipInstr *x = job.x;
    int ka = job.c->kind % 16, kb = job.c->kind / 16 ? job.c->kind / 16 - 1 : ka;
    for (int i = 0; i < x->m; i++)
        for (int k = 0; k < x->k; k++) job.wa[i][k] = encode(ka, random_value(scale), &job.a[i][k]);
    for (int k = 0; k < x->k; k++)
        for (int j = 0; j < x->n; j++) job.wb[k][j] = encode(kb, random_value(scale), &job.b[k][j]);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            double c = x->d_bits == 64 || ka == 4 || ka == 5 ? floor(random_value(1000))
                                                             : (double)(float)random_value(scale);
            job.d[i][j] = c;
        }
}

static void multiply(void *u)
{
    const HipInstr *x = job.x;
    int lane = hip_thread() % x->wave, ka = job.c->kind % 16, bits = x->bits;
    bool whole = ka == 4 || ka == 5;
    uint32_t a[16] = { 0 }, b[16] = { 0 }, d[32] = { 0 };
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < (side ? x->n : x->m); i++)
            for (int k = 0; k < x->k; k++)
                for (int c = 0; c < x->copies; c++) {
                    HipPlace p = hip_place_ab(x, side, i, k, c);
                    if (p.lane != lane) continue;
                    uint64_t w = side ? job.wb[k][i] : job.wa[i][k];
                    uint32_t *to = side ? b : a;
                    if (bits == 64) memcpy(to + p.gpr, &w, 8);
                    else to[p.gpr] |= (uint32_t)w << p.bit;
                }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < x->m; i++)
            for (int j = 0; j < x->n; j++) {
                HipPlace p = hip_place_d(x, i, j);
                float f = (float)job.d[i][j];
                int32_t w = (int32_t)job.d[i][j];
                if (p.lane != lane) continue;
                if (!pass) {
                    if (x->d_bits == 64) memcpy(d + p.gpr, &job.d[i][j], 8);
                    else memcpy(d + p.gpr, whole ? (void *)&w : (void *)&f, 4);
                    continue;
                }
                double got, want = job.d[i][j], size = fabs(want);
                for (int k = 0; k < x->k; k++) {
                    want += job.a[i][k] * job.b[k][j];
                    size += fabs(job.a[i][k] * job.b[k][j]);
                }
                if (x->d_bits == 64) memcpy(&got, d + p.gpr, 8);
                else if (whole) {
                    memcpy(&w, d + p.gpr, 4);
                    got = w;
                } else {
                    memcpy(&f, d + p.gpr, 4);
                    got = f;
                }
                if (!(fabs(got - want) <= job.c->bound * size))
                    hip_fail("%s: d[%d][%d] is %g, not %g", job.c->name, i, j, got, want);
            }
        if (!pass) hip_mma(job.c->name, d, a, b);
    }
}

#define TWO(a, b) ((a) + 16 * ((b) + 1))
static const Case cases[] = {
    { 0x90a, "mfma_f32_32x32x8f16", "mfma_32x32x8", 0, 1e-6 },
    { 0x90a, "mfma_f32_16x16x16f16", "mfma_16x16x16", 0, 1e-6 },
    { 0x90a, "mfma_f32_32x32x8bf16_1k", "mfma_32x32x8", 1, 1e-6 },
    { 0x90a, "mfma_f32_16x16x16bf16_1k", "mfma_16x16x16", 1, 1e-6 },
    { 0x90a, "mfma_i32_32x32x8i8", "mfma_32x32x8_8", 4, 0 },
    { 0x90a, "mfma_i32_16x16x16i8", "mfma_16x16x16_8", 4, 0 },
    { 0x90a, "mfma_f32_32x32x2f32", "mfma_32x32x2", 2, 1e-6 },
    { 0x90a, "mfma_f32_16x16x4f32", "mfma_16x16x4", 2, 1e-6 },
    { 0x90a, "mfma_f64_16x16x4f64", "mfma_16x16x4_f64", 3, 1e-15 },
    { 0x942, "mfma_f32_32x32x8f16", "mfma_32x32x8", 0, 1e-6 },
    { 0x942, "mfma_f32_16x16x16bf16_1k", "mfma_16x16x16", 1, 1e-6 },
    { 0x942, "mfma_f32_32x32x4_xf32", "mfma_32x32x4_xf32", 2, 2e-3 },
    { 0x942, "mfma_f32_16x16x8_xf32", "mfma_16x16x8_xf32", 2, 2e-3 },
    { 0x942, "mfma_i32_32x32x16_i8", "mfma_32x32x16_8", 4, 0 },
    { 0x942, "mfma_i32_16x16x32_i8", "mfma_16x16x32_8", 4, 0 },
    { 0x942, "mfma_f32_32x32x16_fp8_fp8", "mfma_32x32x16_8", 14, 1e-6 },
    { 0x942, "mfma_f32_16x16x32_fp8_bf8", "mfma_16x16x32_8", TWO(14, 15), 1e-6 },
    { 0x942, "mfma_f64_16x16x4f64", "mfma_16x16x4_f64", 3, 1e-15 },
    { 0x950, "mfma_f32_32x32x16_f16", "mfma_32x32x16", 0, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_f16", "mfma_16x16x32", 0, 1e-6 },
    { 0x950, "mfma_f32_32x32x16_bf16", "mfma_32x32x16", 1, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_bf16", "mfma_16x16x32", 1, 1e-6 },
    { 0x950, "mfma_f32_32x32x16_fp8_fp8", "mfma_32x32x16_8", 6, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_bf8_fp8", "mfma_16x16x32_8", TWO(7, 6), 1e-6 },
    { 0x950, "mfma_f32_32x32x64_fp8_fp8", "mfma_32x32x64_8", 6, 1e-6 },
    { 0x950, "mfma_f32_16x16x128_fp8_bf8", "mfma_16x16x128_8", TWO(6, 7), 1e-6 },
    { 0x950, "mfma_i32_32x32x32_i8", "mfma_32x32x32_8", 4, 0 },
    { 0x950, "mfma_i32_16x16x64_i8", "mfma_16x16x64_8", 4, 0 },
    { 0x950, "mfma_i32_32x32x16_i8", "mfma_32x32x16_8", 4, 0 },
    { 0x950, "mfma_f32_32x32x2f32", "mfma_32x32x2", 2, 1e-6 },
    { 0x1100, "wmma_f32_16x16x16_f16", "wmma_16x16x16", 0, 1e-6 },
    { 0x1100, "wmma_f32_16x16x16_bf16", "wmma_16x16x16", 1, 1e-6 },
    { 0x1100, "wmma_i32_16x16x16_iu8_ss", "wmma_16x16x16_8", 4, 0 },
    { 0x1100, "wmma_i32_16x16x16_iu8_us", "wmma_16x16x16_8", TWO(5, 4), 0 },
};

void test_mma(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job.c = &cases[i];
        job.x = NULL;
        for (int k = 0; k < HIP_INSTRS; k++)
            if (!strcmp(hip_instrs[k].layout, cases[i].layout)) job.x = &hip_instrs[k];
        CU_ASSERT_PTR_NOT_NULL_FATAL(job.x);
        fill(cases[i].kind % 16 == 4 || cases[i].kind % 16 == 5 ? 127 : 4);
        const char *why = run_group(cases[i].chip, job.x->wave, false, false, multiply, NULL);
        if (why) printf(" %x %s ", cases[i].chip, why);
        CU_ASSERT_PTR_NULL(why);
    }
}

/* One product of f16 in an otherwise empty fragment; its lane 0, register 0. */
static float first;
static struct {
    int chip;
    const char *name;
    uint32_t a[8], b[8];
    float c;
} one;
static void single(void *u)
{
    float d[16] = { 0 };
    uint32_t zero[8] = { 0 };
    bool mine = hip_thread() % 64 == 0;
    if (mine) d[0] = one.c;
    hip_mma(one.name, d, mine ? one.a : zero, mine ? one.b : zero);
    if (mine) first = d[0];
}
static float product(int chip, const char *name, uint32_t a0, uint32_t b0, uint32_t a1, uint32_t b1, float c)
{
    memset(&one, 0, sizeof one);
    one.chip = chip;
    one.name = name;
    one.a[0] = a0;
    one.a[1] = a1;
    one.b[0] = b0;
    one.b[1] = b1;
    one.c = c;
    CU_ASSERT_PTR_NULL(run_group(chip, 64, false, false, single, NULL));
    return first;
}

void test_rounding(void)
{
    const char *f16 = "mfma_f32_32x32x8f16", *bf16 = "mfma_f32_32x32x8bf16_1k";
    /* 0x0200 is 2^-15, a subnormal f16, which gfx90a treats as zero. 0x0040 is a subnormal bf16. */
    CU_ASSERT_EQUAL(product(0x90a, f16, 0x0200, 0x3c00, 0, 0, 0), 0);
    CU_ASSERT_EQUAL(product(0x942, f16, 0x0200, 0x3c00, 0, 0, 0), 0x1p-15f);
    CU_ASSERT_EQUAL(product(0x950, f16, 0x0200, 0x3c00, 0, 0, 0), 0x1p-15f);
    CU_ASSERT_EQUAL(product(0x90a, bf16, 0x0040, 0x7f00, 0, 0, 0), 0);
    CU_ASSERT_EQUAL(product(0x942, bf16, 0x0040, 0x7f00, 0, 0, 0), 1.0f);
    CU_ASSERT_EQUAL(product(0x90a, f16, 0x0400, 0x3c00, 0, 0, 0), 0x1p-14f);
    CU_ASSERT_EQUAL(product(0x90a, f16, 0, 0, 0, 0, 0x1p-130f), 0);
    CU_ASSERT_EQUAL(product(0x942, f16, 0, 0, 0, 0, 0x1p-130f), 0x1p-130f);
    /* gfx942 truncates the accumulator downwards below 2^-24 of the larger one: -2^-25 beside 1 becomes
     * -2^-24. */
    CU_ASSERT_EQUAL(product(0x942, f16, 0x3c00, 0x3c00, 0, 0, -0x1p-26f), 1.0f - 0x1p-24f);
    CU_ASSERT_EQUAL(product(0x942, f16, 0x3c00, 0x3c00, 0, 0, 0x1p-26f), 1.0f);
    CU_ASSERT_EQUAL(product(0x90a, f16, 0x3c00, 0x3c00, 0, 0, -0x1p-26f), 1.0f);
    /* infinities and NaN */
    CU_ASSERT(isinf(product(0x942, f16, 0x7c00, 0x3c00, 0, 0, 0)));
    CU_ASSERT(isnan(product(0x942, f16, 0x7c00, 0, 0, 0, 0)));
    CU_ASSERT(isnan(product(0x90a, f16, 0x7e00, 0x3c00, 0, 0, 0)));
    /* fp8 of gfx942 is FNUZ: 0x38 is 0.5 there and 1 on gfx950; 0x80 is NaN, not -0 */
    CU_ASSERT_EQUAL(product(0x942, "mfma_f32_32x32x16_fp8_fp8", 0x38, 0x38, 0, 0, 0), 0.25f);
    CU_ASSERT_EQUAL(product(0x950, "mfma_f32_32x32x16_fp8_fp8", 0x38, 0x38, 0, 0, 0), 1.0f);
    CU_ASSERT(isnan(product(0x942, "mfma_f32_32x32x16_fp8_fp8", 0x80, 0x38, 0, 0, 0)));
}

static void missing(void *u)
{
    uint32_t d[32] = { 0 }, a[8] = { 0 };
    hip_mma(u, d, a, a);
}

void test_missing(void)
{
    static const struct {
        int chip;
        const char *name;
    } none[] = {
        { 0x90a, "mfma_i32_32x32x16_i8" },
        { 0x90a, "mfma_f32_32x32x16_fp8_fp8" },
        { 0x90a, "mfma_f32_32x32x4_xf32" },
        { 0x942, "mfma_f32_32x32x16_f16" },
        { 0x942, "mfma_i32_32x32x8i8" },
        { 0x942, "mfma_i32_32x32x32_i8" },
        { 0x942, "mfma_f32_32x32x64_fp8_fp8" },
        { 0x950, "mfma_f32_32x32x32_fp8_fp8" },
        { 0x950, "mfma_i32_32x32x64_i8" },
        { 0x950, "mfma_f32_32x32x4_xf32" },
        { 0x942, "wmma_f32_16x16x16_f16" },
        { 0x1100, "mfma_f32_32x32x8f16" },
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const char *why = run_group(none[i].chip, 64, false, false, missing, (void *)none[i].name);
        CU_ASSERT(why && strstr(why, "has no"));
    }
}
