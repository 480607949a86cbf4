/* test_tables.c: products of few rows with weights that are computed from integers of 4 bits (thin_dots.c),
 * which on AVX-512 and AVX2 are looked up in registers: bits, zero point and scale in the operations of every
 * order, of all 16 values, in f16 and bf16, whose operations round, and f32, of two products at once and of
 * one; against the same sums in f64, within what f32 loses when it adds them. Some scales are as large and as
 * small as they may be, some infinite or no number. Compiled for a processor that has no such tables, the
 * results are the same to the bit of the weights. */
#include "cpu_case.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kernel k(in T A[M, K], in u8 W[N, H], in T S[N, G], in T Z[N, G], out f32 C[M, N], const type T = f32)\n"
    "    grid (cdiv(M, 16), cdiv(N, 32))\n"
    "{\n"
    "    let (i, j) = program_id();\n"
    "    var acc = zeros([32, 16], f32);\n"
    "    for k in 0 .. G {\n"
    "        let w = load(W[j*32 +: 32, k*64 +: 64], latency = 2);\n"
    "        let s = load(S[j*32 +: 32, k])[:, None];\n"
    "        let z = load(Z[j*32 +: 32, k])[:, None];\n"
    "        let low  = load(A[i*16 +: 16, k*128 +: 64]);\n"
    "        let high = load(A[i*16 +: 16, k*128 + 64 +: 64]);\n"
    "        acc = mma((T(w & 15) - z) * s, transpose(low), acc);\n"
    "        acc = mma(s * T(w >> 4) + z, transpose(high), acc);\n"
    "        acc = mma(T((w >> 2) & 15) * s, transpose(low), acc);\n"
    "    }\n"
    "    store(C[i*16 +: 16, j*32 +: 32], transpose(acc));\n"
    "}\n";

enum { M_MOST = 17, N_MOST = 70, FEW = 3, GROUPS = 19, K = 128 * GROUPS, HALF = K / 2 };

static int failures;
static uint8_t w[N_MOST][HALF];
static float a[M_MOST][K], s[N_MOST][GROUPS], z[N_MOST][GROUPS];

/* To the nearest bf16 (ties to even), of an f32: the operations of bf16 are computed in f32 first. */
static uint16_t bf16_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float of_bf16(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double rounded(DType t, double v)
{
    if (t == DT_BF16) return (double)of_bf16(bf16_of((float)v));
    return t == DT_F16 ? (double)(_Float16)(float)v : (double)(float)v;
}

/* The sum over `groups` groups, of `half` bytes of weights, and in *size that of the absolute values. */
static double want(DType t, int i, int j, int groups, int half, double *size)
{
    double sum = 0;
    *size = 0;
    for (int k = 0; k < 64 * groups; k++) {
        int byte = k < half ? w[j][k] : 0, g = k / 64, at = 128 * g + k % 64;
        double scale = rounded(t, s[j][g]), zero = rounded(t, z[j][g]);
        double low = rounded(t, rounded(t, (byte & 15) - zero) * scale),
               high = rounded(t, rounded(t, scale * (byte >> 4)) + zero);
        double middle = rounded(t, (byte >> 2 & 15) * scale);
        sum += (low + middle) * a[i][at] + high * a[i][at + 64];
        *size += (fabs(low) + fabs(middle)) * fabs(a[i][at]) + fabs(high * a[i][at + 64]);
    }
    return sum;
}

static void put(DType t, void *to, const float *from, int n)
{
    for (int k = 0; k < n; k++) {
        if (t == DT_F16) ((_Float16 *)to)[k] = (_Float16)from[k];
        else if (t == DT_BF16) ((uint16_t *)to)[k] = bf16_of(from[k]);
        else ((float *)to)[k] = from[k];
    }
}

/* Infinities and NaN show as such, whichever of them; numbers below 2^-126 may count as zero. */
static bool is_near(double got, double v, double size)
{
    if (!(size <= (double)FLT_MAX / 4)) return !(fabs(got) <= (double)FLT_MAX / 4);
    return fabs(got - v) <= 1e-5 * size + 1e-30;
}

static void launch(Problem *p, CpuRun *code, DType t, int m, int n, int groups, int half)
{
    static float x[M_MOST * K], scale[N_MOST * GROUPS], zero[N_MOST * GROUPS], c[M_MOST * N_MOST];
    put(t, x, a[0], M_MOST * K);
    put(t, scale, s[0], N_MOST * GROUPS);
    put(t, zero, z[0], N_MOST * GROUPS);
    InterpArg args[] = { { .data = x, .shape = { m, 128 * groups }, .stride = { K, 1 } },
        { .data = w, .shape = { n, half }, .stride = { HALF, 1 } },
        { .data = scale, .shape = { n, groups }, .stride = { GROUPS, 1 } },
        { .data = zero, .shape = { n, groups }, .stride = { GROUPS, 1 } },
        { .data = c, .shape = { m, n }, .stride = { N_MOST, 1 } } };
    for (int k = 0; k < M_MOST * N_MOST; k++) c[k] = 77;
    if (!cpu_run_bind(&p->s, p->func, args, code) || cpu_run_launch(code) != 0) {
        printf("%d x %d does not run\n", m, n);
        failures++;
    }
    for (int i = 0; i < M_MOST; i++)
        for (int j = 0; j < N_MOST; j++) {
            bool inside = i < m && j < n;
            double size = 0, v = inside ? want(t, i, j, groups, half, &size) : 77,
                   got = (double)c[i * N_MOST + j];
            if (inside ? is_near(got, v, size) : got == v) continue;
            printf("%s, %d x %d, %d groups, %d bytes: C[%d, %d] is %g, not %g\n", dtype_name(t), m, n, groups,
                half, i, j, got, v);
            failures++;
            i = M_MOST - 1;
            break;
        }
}

static void promise(Problem *p, const void *user)
{
    (void)user;
    for (int k = 0; k < 5; k++) p->func->params[k].stride[1] = 1;
}

static void launches(Problem *p, CpuRun *code, const void *user)
{
    static const int rows[] = { 1, 3, 4, 16, 17 };
    const DType t = *(const DType *)user;
    if (strstr(code->artifact.schedule, "x64 buffer(")) { /* of what three products read */
        printf("%s: scales are stored for every element\n%s", dtype_name(t), code->artifact.schedule);
        failures++;
    }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        launch(p, code, t, rows[k], 32, FEW, 64 * FEW);
        launch(p, code, t, rows[k], 70, FEW, 64 * FEW);
    }
    /* more groups than are multiplied at once, and the last bytes out of range */
    launch(p, code, t, 1, 40, GROUPS, HALF);
    launch(p, code, t, 4, 32, GROUPS, HALF - 70);
}

static void test(DType t, const char *cpu)
{
    const char *consts = t == DT_F16 ? "T=f16" : t == DT_BF16 ? "T=bf16" : "T=f32";
    if (!cpu_case_run(&(CpuCase){ source, consts, cpu, promise, launches, &t })) failures++;
}

int main(void)
{
    uint32_t seed = 1;
    for (int j = 0; j < N_MOST; j++)
        for (int k = 0; k < HALF; k++) w[j][k] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    for (int i = 0; i < M_MOST; i++)
        for (int k = 0; k < K; k++) a[i][k] = (float)((seed = seed * 1664525 + 1013904223) >> 24) / 64 - 2;
    for (int j = 0; j < N_MOST; j++)
        for (int g = 0; g < GROUPS; g++) {
            s[j][g] = (float)((seed = seed * 1664525 + 1013904223) >> 24) / 512 - 0.25F;
            z[j][g] = (float)((seed = seed * 1664525 + 1013904223) >> 24) / 16;
        }
    static const float extremes[][2] = { { 0x1p-130F, 0 }, { 0x1p-24F, 3 }, { 0x1.8p-20F, -0x1p-10F },
        { 0x1p100F, 0x1p-133F }, { 0x1p14F, 0x1p13F }, { INFINITY, 2 }, { NAN, 1 }, { 1, NAN },
        { 0x1.fep-127F, -1 }, { -0x1p-126F, 0.5F } };
    for (int k = 0; k < (int)(sizeof extremes / sizeof *extremes); k++)
        s[7 * k][k % FEW] = extremes[k][0], z[7 * k][k % FEW] = extremes[k][1];
    static const DType types[] = { DT_F32, DT_F16, DT_BF16 };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
#if defined(__x86_64__)
        test(types[k], "x86-64-v2");
        if (__builtin_cpu_supports("avx2")) test(types[k], "x86-64-v3");
        if (__builtin_cpu_supports("avx512bw")) test(types[k], "x86-64-v4");
#endif
        test(types[k], NULL);
    }
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
