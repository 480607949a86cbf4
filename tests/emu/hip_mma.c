/* hip_mma.c: what AMD's matrix instructions compute. Places of elements: hip_fragments.h. Arithmetic: f32 and
 * f64 are a chain of fused multiply-adds in the order of k, integers wrap; the others as measured on the
 * chips, "MMA-Sim" (arXiv 2511.10909), tables for CDNA2 and CDNA3:
 *
 *   gfx90a   f16, bf16: inputs, accumulator and every sum flushed (MIOpen documentation, "MI200 MFMA
 *            behavior specifics", says so
 *            too); four products summed in pairs in f32, then added
 *   gfx942   f16, bf16, xf32 (inputs cut to 19 bits), fp8: eight (xf32 four, fp8 sixteen) products cut at
 *            2^-24 of the largest, their sum and the
 *            accumulator rounded down, the sum of both to nearest
 *
 * Not measured by anyone we know, and taken: gfx950 as gfx942; gfx1100's WMMA four products in pairs,
 * denormals kept. */
#include "tests/emu/hip_machine.h"
#include "tests/emu/hip_fragments.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum Type { F16, BF16, F32, XF32, F64, I8, U8, E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ } Type;
enum { MAX_K = 128, MAX_MN = 32 };

typedef struct Product {
    const HipInstr *x;
    Type a, b;
    bool flush;
    int chip;
} Product;

/* An element and the exponent the hardware aligns by: of its leading digit, subnormals at the format's least,
 * zero at -126. */
typedef struct Operand {
    double v[MAX_K][MAX_MN];
    int e[MAX_K][MAX_MN];
} Operand;

static double word_double(uint64_t w)
{
    double d;
    memcpy(&d, &w, 8);
    return d;
}
static uint64_t double_word(double d)
{
    uint64_t w;
    memcpy(&w, &d, 8);
    return w;
}
static double power(int e) { return word_double((uint64_t)(e + 1023) << 52); }
static double bits_f32(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

/* A small format: `man` digits, `exps` bits of exponent. top: 1 its largest exponent holds infinity and NaN,
 * 2 only all ones are NaN, 3 only -0 is. */
static double small(uint32_t x, int man, int exps, int top)
{
    uint32_t sign = x >> (man + exps), m = x & ((1u << man) - 1), e = x >> man & ((1u << exps) - 1);
    int bias = (1 << (exps - 1)) - 1 + (top == 3);
    double y = e ? word_double((uint64_t)((int)e - bias + 1023) << 52 | (uint64_t)m << (52 - man))
                 : m * power(1 - bias - man);
    if (top == 1 && e == (1u << exps) - 1) y = m ? NAN : INFINITY;
    if (top == 2 && e == (1u << exps) - 1 && m == (1u << man) - 1) y = NAN;
    if (top == 3 && sign && !e && !m) y = NAN;
    return sign ? -y : y;
}

static double element(Type t, const uint32_t *w, int bit)
{
    uint32_t x = w[0] >> bit;
    double d;
    switch (t) {
    case F16: return small(x & 0xffff, 10, 5, 1);
    case BF16: return bits_f32(x << 16);
    case F32: return bits_f32(x);
    case XF32: return bits_f32(x & 0xffffe000u);
    case F64: memcpy(&d, w, 8); return d;
    case I8: return (int8_t)x;
    case U8: return (uint8_t)x;
    case E4M3: return small(x & 255, 3, 4, 2);
    case E5M2: return small(x & 255, 2, 5, 1);
    case E4M3_FNUZ: return small(x & 255, 3, 4, 3);
    case E5M2_FNUZ: return small(x & 255, 2, 5, 3);
    }
    return 0;
}

static int least_exponent(Type t)
{
    switch (t) {
    case F16: return -14;
    case E4M3: return -6;
    case E5M2: return -14;
    case E4M3_FNUZ: return -7;
    case E5M2_FNUZ: return -15;
    case BF16:
    case F32:
    case XF32:
    case F64:
    case I8:
    case U8: return -126;
    }
    return 0;
}

static int exponent(double v, int least)
{
    int e = (int)(double_word(v) >> 52 & 2047) - 1023;
    return v == 0 || e == 1024 ? -126 : e < least ? least : e;
}

static void gather(const Product *p, int side, const void *const *lanes, Operand *o)
{
    const HipInstr *x = p->x;
    Type t = side ? p->b : p->a;
    int least = least_exponent(t);
    for (int k = 0; k < x->k; k++)
        for (int i = 0; i < (side ? x->n : x->m); i++) {
            HipPlace at = hip_place_ab(x, side, i, k, 0);
            double v = element(t, (const uint32_t *)lanes[at.lane] + at.gpr, at.bit);
            if (p->flush && fabs(v) < power(least)) v = copysign(0, v);
            o->v[k][i] = v;
            o->e[k][i] = exponent(v, least);
        }
}

/* --- one row of d, all columns ----------------------------------------------------------------------- */

static float flushed(float v, float least) { return fabsf(v) < least ? v * 0.0f : v; }

/* gfx90a, gfx11: f32 sums of pairs, and pairs of pairs. */
static void pairs(const Product *p, const Operand *a, const Operand *b, int i, float *c)
{
    float least = p->flush ? 0x1p-126f : 0, q[4][MAX_MN];
    int n = p->x->n;
    for (int j = 0; j < n; j++) c[j] = flushed(c[j], least);
    for (int k = 0; k < p->x->k; k += 4) {
        for (int h = 0; h < 4; h++) {
            float f = (float)a->v[k + h][i];
            for (int j = 0; j < n; j++) q[h][j] = flushed(f * (float)b->v[k + h][j], least);
        }
        for (int j = 0; j < n; j++) {
            float lo = flushed(q[0][j] + q[1][j], least), hi = flushed(q[2][j] + q[3][j], least);
            c[j] = flushed(c[j] + flushed(lo + hi, least), least);
        }
    }
}

/* Sums of products, each cut towards zero at 2^-24 of the largest one's exponent, which comes back. */
static void cut_sums(
    const Operand *a, const Operand *b, int i, int k0, int k1, int step, int n, double *sum, int *e)
{
    double up[MAX_MN];
    for (int j = 0; j < n; j++) {
        e[j] = -1000;
        sum[j] = 0;
    }
    for (int k = k0; k < k1; k += step) {
        int ea = a->e[k][i];
        for (int j = 0; j < n; j++) {
            int s = ea + b->e[k][j];
            e[j] = s > e[j] ? s : e[j];
        }
    }
    for (int j = 0; j < n; j++) up[j] = power(24 - e[j]);
    for (int k = k0; k < k1; k += step) {
        double v = a->v[k][i];
        for (int j = 0; j < n; j++) sum[j] += (double)(int32_t)(v * b->v[k][j] * up[j]);
    }
    for (int j = 0; j < n; j++) sum[j] *= power(e[j] - 24);
}

static double down(double v, int bit) { return floor(v * power(-bit)) * power(bit); }

static void aligned(const Product *p, const Operand *a, const Operand *b, int i, float *c)
{
    bool byte = p->x->bits == 8;
    int group = byte ? 16 : p->a == XF32 ? 4 : 8, n = p->x->n;
    for (int k = 0; k < p->x->k; k += group) {
        double plain[MAX_MN], large[MAX_MN], sum[MAX_MN], odd[MAX_MN];
        int e[MAX_MN], eo[MAX_MN], end = p->x->k - k < group ? p->x->k : k + group;
        for (int j = 0; j < n; j++) {
            plain[j] = c[j];
            large[j] = 0;
        }
        for (int h = k; h < end; h++)
            for (int j = 0; j < n; j++) {
                double q = a->v[h][i] * b->v[h][j];
                plain[j] += q;
                large[j] += q >= 0x1p128 ? INFINITY : q <= -0x1p128 ? -INFINITY : 0;
            }
        cut_sums(a, b, i, k, end, byte ? 2 : 1, n, sum, e);
        if (byte) cut_sums(a, b, i, k + 1, end, 2, n, odd, eo);
        for (int j = 0; j < n; j++) {
            if (!isfinite(plain[j]) || large[j] != 0) {
                c[j] = (float)(!isfinite(plain[j]) ? plain[j] : large[j]);
                continue;
            }
            if (byte) {
                if (eo[j] > e[j]) e[j] = eo[j];
                sum[j] = down(sum[j], e[j] - 24) + down(odd[j], e[j] - 24);
            }
            int ec = exponent(c[j], -126), top = e[j] > ec ? e[j] : ec;
            double rest = byte && ec < top - 25 ? 0 : down(c[j], top - 24);
            c[j] = (float)(down(sum[j], top - 31) + rest);
        }
    }
}

static void multiply(const Product *p, const Operand *a, const Operand *b, void *const *d)
{
    const HipInstr *x = p->x;
    float c[MAX_MN];
    for (int i = 0; i < x->m; i++) {
        uint32_t *w[MAX_MN];
        for (int j = 0; j < x->n; j++) {
            HipPlace at = hip_place_d(x, i, j);
            w[j] = (uint32_t *)d[at.lane] + at.gpr;
        }
        if (p->a == I8 || p->a == U8) {
            double sum[MAX_MN] = { 0 };
            for (int k = 0; k < x->k; k++)
                for (int j = 0; j < x->n; j++) sum[j] += a->v[k][i] * b->v[k][j];
            for (int j = 0; j < x->n; j++) *w[j] += (uint32_t)(int32_t)sum[j];
        } else if (p->a == F64) {
            for (int j = 0; j < x->n; j++) {
                double t;
                memcpy(&t, w[j], 8);
                for (int k = 0; k < x->k; k++) t = fma(a->v[k][i], b->v[k][j], t);
                memcpy(w[j], &t, 8);
            }
        } else {
            for (int j = 0; j < x->n; j++) memcpy(&c[j], w[j], 4);
            /* Products of f32 are exact in f64. The sum is rounded twice, which shows once in 2^29. */
            if (p->a == F32)
                for (int k = 0; k < x->k; k++)
                    for (int j = 0; j < x->n; j++) c[j] = (float)(a->v[k][i] * b->v[k][j] + c[j]);
            else if (p->chip == 0x942 || p->chip == 0x950) aligned(p, a, b, i, c);
            else pairs(p, a, b, i, c);
            for (int j = 0; j < x->n; j++) memcpy(w[j], &c[j], 4);
        }
    }
}

/* "mfma_f32_32x32x8f16", "mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x16_fp8_bf8", "wmma_i32_16x16x16_iu8": the
 * shape and the types. */
static bool parse(int chip, const char *name, Product *p)
{
    char unit[8], out[8], types[24] = "";
    int m, n, k;
    if (sscanf(name, "%4[a-z]_%3[a-z0-9]_%dx%dx%d%23s", unit, out, &m, &n, &k, types) != 6) return false;
    const char *t = *types == '_' ? types + 1 : types;
    bool gfx11 = chip >= 0x1100, ocp = chip == 0x950;
    static const struct {
        const char *text;
        Type a, b;
        int bits;
        unsigned chips;
    } known[] = {
        /* chips: 1 gfx90a, 2 gfx942, 4 gfx950, 8 gfx11 */
        { "f16", F16, F16, 16, 15 },
        { "bf16_1k", BF16, BF16, 16, 7 },
        { "bf16", BF16, BF16, 16, 12 },
        { "f32", F32, F32, 32, 7 },
        { "xf32", XF32, XF32, 32, 2 },
        { "f64", F64, F64, 64, 7 },
        { "i8", I8, I8, 8, 7 },
        { "iu8", I8, I8, 8, 8 },
        { "iu8_ss", I8, I8, 8, 8 },
        { "iu8_su", I8, U8, 8, 8 },
        { "iu8_us", U8, I8, 8, 8 },
        { "iu8_uu", U8, U8, 8, 8 },
        { "fp8_fp8", E4M3, E4M3, 8, 6 },
        { "fp8_bf8", E4M3, E5M2, 8, 6 },
        { "bf8_fp8", E5M2, E4M3, 8, 6 },
        { "bf8_bf8", E5M2, E5M2, 8, 6 },
    };
    unsigned bit = chip == 0x90a ? 1 : chip == 0x942 ? 2 : chip == 0x950 ? 4 : gfx11 ? 8 : 0;
    int bits = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].text, t) && known[i].chips & bit) {
            p->a = known[i].a;
            p->b = known[i].b;
            bits = known[i].bits;
        }
    if (!bits || (!strcmp(unit, "wmma")) != gfx11) return false;
    if (p->a >= E4M3 && !ocp) {
        p->a += 2;
        p->b += 2;
    } /* gfx942: FNUZ */
    p->x = NULL;
    for (int i = 0; i < HIP_INSTRS; i++) {
        const HipInstr *x = &hip_instrs[i];
        if (x->m == m && x->n == n && x->k == k && x->bits == bits && (x->wave == 32) == gfx11) p->x = x;
    }
    if (!p->x) return false;
    /* The chip that introduced the shape: 16-bit shapes with 8 elements a lane gfx950, 8-bit ones gfx942;
     * four 8-bit elements only gfx90a. */
    if (bits == 16 && p->x->per == 8 && bit != 4) return false;
    if (bits == 8 && p->x->per == 8 && bit == 1) return false;
    if (bits == 8 && p->x->per >= 16 && !gfx11 && (bit != 4 || (p->x->per == 16) != (p->a == I8)))
        return false; /* 16 elements: i8; 32: f8f6f4 */
    if (bits == 8 && p->x->per == 4 && bit != 1) return false;
    p->chip = chip;
    p->flush = chip == 0x90a && bits == 16;
    return true;
}

bool hip_mma_wave(
    int chip, const char *name, int lanes, void *const *d, const void *const *a, const void *const *b)
{
    static Operand x, y;
    static char last[48];
    static int last_chip;
    static Product p;
    if (last_chip != chip || strcmp(last, name)) {
        if (!parse(chip, name, &p)) return false;
        snprintf(last, sizeof last, "%s", name);
        last_chip = chip;
    }
    if (lanes != p.x->wave) return false;
    for (int l = 0; p.x->copies > 1 && l < 16; l++) { /* lanes 16.. must hold what lanes 0..15 do */
        size_t bytes = (size_t)p.x->per * (size_t)p.x->bits / 8;
        if (memcmp(a[l], a[l + 16], bytes) || memcmp(b[l], b[l + 16], bytes))
            hip_fail("%s: lane %d does not hold what lane %d holds", name, l + 16, l);
    }
    gather(&p, 0, a, &x);
    gather(&p, 1, b, &y);
    multiply(&p, &x, &y, d);
    return true;
}
