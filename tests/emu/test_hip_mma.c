/* test_hip_mma.c: the matrix instructions of the emulated AMD workgroup, against float64. */
#include "tests/emu/hip_fragments.h"
#include "tests/emu/test_hip.h"
#include "unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Kind { F16, BF16, F32, F64, I8, U8, E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ } Kind;
typedef struct Case {
    int chip;
    const char *name, *layout;
    Kind a, b;    /* the types of the operands' elements */
    double bound; /* of the error, relative to the sum of magnitudes */
} Case;
static struct {
    const Case *c;
    const HipInstr *x;
    double a[32][128], b[128][32], d[32][32];
    uint64_t wa[32][128], wb[128][32]; /* the same as words of the operands' types */
} job;

/* The number of a small float's code without its sign. */
static double decode(int code, int mantissa, int bias)
{
    int e = code >> mantissa, m = code & ((1 << mantissa) - 1);
    return e ? ldexp(m | 1 << mantissa, e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);
}

/* The largest code of a small float that is not above v in magnitude; *back: its number. */
static uint64_t encode_small(int mantissa, int exponent, bool fnuz, double v, double *back)
{
    int bias = (1 << (exponent - 1)) - 1 + fnuz, codes = 1 << (mantissa + exponent), best = 0;
    for (int c = 0; c < codes - 8; c++)
        if (decode(c, mantissa, bias) <= fabs(v)) best = c;
    *back = copysign(decode(best, mantissa, bias), v);
    return (uint64_t)best | (v < 0 && best ? (uint64_t)codes : 0);
}

static uint64_t encode(Kind kind, double v, double *back)
{
    float f = (float)v;
    uint32_t w;
    uint64_t q;
    switch (kind) {
    case F64:
        memcpy(&q, &v, 8);
        *back = v;
        return q;
    case F32:
        memcpy(&w, &f, 4);
        *back = f;
        return w;
    case BF16:
        memcpy(&w, &f, 4);
        w &= 0xffff0000u;
        memcpy(&f, &w, 4);
        *back = f;
        return w >> 16;
    case I8: *back = (int)v; return (uint8_t)(int8_t)(int)v;
    case U8: *back = fabs((double)(int)v); return (uint8_t)*back;
    case F16: return encode_small(10, 5, false, v, back);
    case E4M3: return encode_small(3, 4, false, v, back);
    case E5M2: return encode_small(2, 5, false, v, back);
    case E4M3_FNUZ: return encode_small(3, 4, true, v, back);
    case E5M2_FNUZ: return encode_small(2, 5, true, v, back);
    }
    return 0;
}

static bool is_whole(Kind k) { return k == I8 || k == U8; }

static double random_value(double scale) { return (rand() % 2001 - 1000) / 1000.0 * scale; }

static void fill(double scale)
{
    const HipInstr *x = job.x;
    Kind a = job.c->a, b = job.c->b;
    for (int i = 0; i < x->m; i++)
        for (int k = 0; k < x->k; k++) job.wa[i][k] = encode(a, random_value(scale), &job.a[i][k]);
    for (int k = 0; k < x->k; k++)
        for (int j = 0; j < x->n; j++) job.wb[k][j] = encode(b, random_value(scale), &job.b[k][j]);
    bool whole = x->d_bits == 64 || is_whole(a);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++)
            job.d[i][j] = whole ? floor(random_value(1000)) : (double)(float)random_value(scale);
}

/* The registers of this lane that hold its part of an operand. */
static void take_operand(int side, int lane, uint32_t *to)
{
    const HipInstr *x = job.x;
    for (int i = 0; i < (side ? x->n : x->m); i++)
        for (int k = 0; k < x->k; k++)
            for (int c = 0; c < x->copies; c++) {
                HipPlace p = hip_place_ab(x, side, i, k, c);
                uint64_t w = side ? job.wb[k][i] : job.wa[i][k];
                if (p.lane != lane) continue;
                if (x->bits == 64) memcpy(to + p.gpr, &w, 8);
                else to[p.gpr] |= (uint32_t)w << p.bit;
            }
}

static void put_element(uint32_t *at, double v)
{
    float f = (float)v;
    int32_t w = (int32_t)v;
    if (job.x->d_bits == 64) memcpy(at, &v, 8);
    else memcpy(at, is_whole(job.c->a) ? (void *)&w : (void *)&f, 4);
}

static double element_of(const uint32_t *at)
{
    double v;
    float f;
    if (job.x->d_bits == 64) {
        memcpy(&v, at, 8);
        return v;
    }
    memcpy(&f, at, 4);
    return is_whole(job.c->a) ? (double)(int32_t)*at : f;
}

static void check_element(int i, int j, double got)
{
    double want = job.d[i][j], size = fabs(want);
    for (int k = 0; k < job.x->k; k++) {
        want += job.a[i][k] * job.b[k][j];
        size += fabs(job.a[i][k] * job.b[k][j]);
    }
    if (!(fabs(got - want) <= job.c->bound * size))
        hip_fail("%s: d[%d][%d] is %g, not %g", job.c->name, i, j, got, want);
}

static void multiply(void *u)
{
    const HipInstr *x = job.x;
    int lane = hip_thread() % x->wave;
    uint32_t a[16] = { 0 }, b[16] = { 0 }, d[32] = { 0 };
    take_operand(0, lane, a);
    take_operand(1, lane, b);
    for (int after = 0; after < 2; after++) {
        for (int i = 0; i < x->m; i++)
            for (int j = 0; j < x->n; j++) {
                HipPlace p = hip_place_d(x, i, j);
                if (p.lane != lane) continue;
                if (after) check_element(i, j, element_of(d + p.gpr));
                else put_element(d + p.gpr, job.d[i][j]);
            }
        if (!after) hip_mma(job.c->name, d, a, b);
    }
}

static const Case cases[] = {
    { 0x90a, "mfma_f32_32x32x8f16", "mfma_32x32x8", F16, F16, 1e-6 },
    { 0x90a, "mfma_f32_16x16x16f16", "mfma_16x16x16", F16, F16, 1e-6 },
    { 0x90a, "mfma_f32_32x32x8bf16_1k", "mfma_32x32x8", BF16, BF16, 1e-6 },
    { 0x90a, "mfma_f32_16x16x16bf16_1k", "mfma_16x16x16", BF16, BF16, 1e-6 },
    { 0x90a, "mfma_i32_32x32x8i8", "mfma_32x32x8_8", I8, I8, 0 },
    { 0x90a, "mfma_i32_16x16x16i8", "mfma_16x16x16_8", I8, I8, 0 },
    { 0x90a, "mfma_f32_32x32x2f32", "mfma_32x32x2", F32, F32, 1e-6 },
    { 0x90a, "mfma_f32_16x16x4f32", "mfma_16x16x4", F32, F32, 1e-6 },
    { 0x90a, "mfma_f64_16x16x4f64", "mfma_16x16x4_f64", F64, F64, 1e-15 },
    { 0x942, "mfma_f32_32x32x8f16", "mfma_32x32x8", F16, F16, 1e-6 },
    { 0x942, "mfma_f32_16x16x16bf16_1k", "mfma_16x16x16", BF16, BF16, 1e-6 },
    { 0x942, "mfma_f32_32x32x4_xf32", "mfma_32x32x4_xf32", F32, F32, 2e-3 },
    { 0x942, "mfma_f32_16x16x8_xf32", "mfma_16x16x8_xf32", F32, F32, 2e-3 },
    { 0x942, "mfma_i32_32x32x16_i8", "mfma_32x32x16_8", I8, I8, 0 },
    { 0x942, "mfma_i32_16x16x32_i8", "mfma_16x16x32_8", I8, I8, 0 },
    { 0x942, "mfma_f32_32x32x16_fp8_fp8", "mfma_32x32x16_8", E4M3_FNUZ, E4M3_FNUZ, 1e-6 },
    { 0x942, "mfma_f32_16x16x32_fp8_bf8", "mfma_16x16x32_8", E4M3_FNUZ, E5M2_FNUZ, 1e-6 },
    { 0x942, "mfma_f64_16x16x4f64", "mfma_16x16x4_f64", F64, F64, 1e-15 },
    { 0x950, "mfma_f32_32x32x16_f16", "mfma_32x32x16", F16, F16, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_f16", "mfma_16x16x32", F16, F16, 1e-6 },
    { 0x950, "mfma_f32_32x32x16_bf16", "mfma_32x32x16", BF16, BF16, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_bf16", "mfma_16x16x32", BF16, BF16, 1e-6 },
    { 0x950, "mfma_f32_32x32x16_fp8_fp8", "mfma_32x32x16_8", E4M3, E4M3, 1e-6 },
    { 0x950, "mfma_f32_16x16x32_bf8_fp8", "mfma_16x16x32_8", E5M2, E4M3, 1e-6 },
    { 0x950, "mfma_f32_32x32x64_fp8_fp8", "mfma_32x32x64_8", E4M3, E4M3, 1e-6 },
    { 0x950, "mfma_f32_16x16x128_fp8_bf8", "mfma_16x16x128_8", E4M3, E5M2, 1e-6 },
    { 0x950, "mfma_i32_32x32x32_i8", "mfma_32x32x32_8", I8, I8, 0 },
    { 0x950, "mfma_i32_16x16x64_i8", "mfma_16x16x64_8", I8, I8, 0 },
    { 0x950, "mfma_i32_32x32x16_i8", "mfma_32x32x16_8", I8, I8, 0 },
    { 0x950, "mfma_f32_32x32x2f32", "mfma_32x32x2", F32, F32, 1e-6 },
    { 0x1100, "wmma_f32_16x16x16_f16", "wmma_16x16x16", F16, F16, 1e-6 },
    { 0x1100, "wmma_f32_16x16x16_bf16", "wmma_16x16x16", BF16, BF16, 1e-6 },
    { 0x1100, "wmma_i32_16x16x16_iu8_ss", "wmma_16x16x16_8", I8, I8, 0 },
    { 0x1100, "wmma_i32_16x16x16_iu8_us", "wmma_16x16x16_8", U8, I8, 0 },
};

void test_mma(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job.c = &cases[i];
        job.x = NULL;
        for (int k = 0; k < HIP_INSTRS; k++)
            if (!strcmp(hip_instrs[k].layout, cases[i].layout)) job.x = &hip_instrs[k];
        CU_ASSERT_PTR_NOT_NULL_FATAL(job.x);
        fill(is_whole(cases[i].a) ? 127 : 4);
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
