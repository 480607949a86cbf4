/* test_tables.c: products of few rows with weights that are computed from integers of 4 bits (thin_dots.c),
 * which on AVX-512 are looked up in a register: bits, zero point and scale in the operations of every order,
 * of all 16 values, in f16, whose operations round, and f32, of two products at once and of one; against the
 * same sums in f64. Compiled for a
 * processor that has no such tables, the results are the same to the bit of the weights. */
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

enum { M_MOST = 17, N_MOST = 70, GROUPS = 3, K = 128 * GROUPS, HALF = K / 2 };

static int failures;
static uint8_t w[N_MOST][HALF];
static float a[M_MOST][K], s[N_MOST][GROUPS], z[N_MOST][GROUPS];

static double rounded(bool f16, double v) { return f16 ? (double)(_Float16)v : (double)(float)v; }

static double want(bool f16, int i, int j)
{
    double sum = 0;
    for (int k = 0; k < HALF; k++) {
        int g = k / 64, at = 128 * g + k % 64;
        double low = rounded(f16, rounded(f16, (w[j][k] & 15) - z[j][g]) * s[j][g]),
               high = rounded(f16, rounded(f16, s[j][g] * (w[j][k] >> 4)) + z[j][g]);
        double middle = rounded(f16, (w[j][k] >> 2 & 15) * s[j][g]);
        sum += (low + middle) * a[i][at] + high * a[i][at + 64];
    }
    return sum;
}

static void put(bool f16, void *to, const float *from, int n)
{
    for (int k = 0; k < n; k++) {
        if (f16) ((_Float16 *)to)[k] = (_Float16)from[k];
        else ((float *)to)[k] = from[k];
    }
}

static void launch(Problem *p, CpuRun *code, bool f16, int m, int n)
{
    static float x[M_MOST * K], scale[N_MOST * GROUPS], zero[N_MOST * GROUPS], c[M_MOST * N_MOST];
    put(f16, x, a[0], M_MOST * K);
    put(f16, scale, s[0], N_MOST * GROUPS);
    put(f16, zero, z[0], N_MOST * GROUPS);
    InterpArg args[] = { { .data = x, .shape = { m, K }, .stride = { K, 1 } },
        { .data = w, .shape = { n, HALF }, .stride = { HALF, 1 } },
        { .data = scale, .shape = { n, GROUPS }, .stride = { GROUPS, 1 } },
        { .data = zero, .shape = { n, GROUPS }, .stride = { GROUPS, 1 } },
        { .data = c, .shape = { m, n }, .stride = { N_MOST, 1 } } };
    for (int k = 0; k < M_MOST * N_MOST; k++) c[k] = 77;
    if (!cpu_run_bind(&p->s, p->func, args, code) || cpu_run_launch(code) != 0) {
        printf("%d x %d does not run\n", m, n);
        failures++;
    }
    for (int i = 0; i < M_MOST; i++)
        for (int j = 0; j < N_MOST; j++) {
            double v = i < m && j < n ? want(f16, i, j) : 77, got = (double)c[i * N_MOST + j];
            if (fabs(got - v) <= 1e-4 * (1 + fabs(v))) continue;
            printf("%s, %d x %d: C[%d, %d] is %g, not %g\n", f16 ? "f16" : "f32", m, n, i, j, got, v);
            failures++;
            i = M_MOST - 1;
            break;
        }
    free(code->scratch);
    code->scratch = NULL;
}

static void test(bool f16, const char *cpu)
{
    Case c = { "k", "k", f16 ? "T=f16" : "T=f32", "", "", 0 };
    Problem *p = calloc(1, sizeof *p);
    CpuRun *code = calloc(1, sizeof *code);
    BackendOptions o = { .opt_level = 2, .cpu = cpu, .verify_each = true };
    session_init(&p->s, allocator_libc);
    if (setjmp(p->s.oom)) {
        failures++;
    } else if (case_lower(p, &c, source, sizeof source - 1)) {
        PassOptions passes = pass_options_default(target_find("cpu"));
        for (int k = 0; k < 5; k++) p->func->params[k].stride[1] = 1;
        if (passes_run(p->module, &passes, NULL) && cpu_run_compile(&p->s, p->func, &o, code)) {
            static const int rows[] = { 1, 3, 4, 16, 17 };
            for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
                launch(p, code, f16, rows[k], 32);
                launch(p, code, f16, rows[k], 70);
            }
        } else failures++;
    } else failures++;
    case_diags(p);
    cpu_run_free(code);
    free(code);
    case_free(p);
    free(p);
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
            z[j][g] = (float)((seed = seed * 1664525 + 1013904223) >> 28);
        }
#if defined(__x86_64__)
    test(false, "x86-64-v3");
    test(true, "x86-64-v3");
#endif
    test(false, NULL);
    test(true, NULL);
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
