/* test_row_power.c: exponentials of long rows of f16 less their maximum, or less that of their first
 * elements, which AVX-512 takes too (vector_exp2_of_row in exponential.c), and softmax of such rows, against
 * f64. Rows of large and of small numbers, of both ends of f16, with infinities, NaN and denormal numbers;
 * whole rows and rows that end within a vector, where the maximum is at least the 0 that is read there. */
#include "cpu_case.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TN = 1024, FIRST = 64, ROWS = 12 };

#define KERNEL(value) \
    "kernel k(in f16 X[M, N], out f16 Y[M, N], const int TN = 1024)\n" \
    "    grid (M)\n" \
    "{\n" \
    "    let r = program_id();\n" \
    "    let x = f32(load(X[r, 0 +: TN]));\n" \
    "    let m = max(x, axis = 0);\n" \
    "    store(Y[r, 0 +: TN], f16(" value "));\n" \
    "}\n"

typedef struct Variant {
    const char *name, *source;
    double (*power)(double);
    bool quotient, first;
} Variant;
static const Variant variants[] = {
    { "exp", KERNEL("exp(x - m)"), exp, false, false },
    { "exp2", KERNEL("exp2(x - m)"), exp2, false, false },
    { "softmax", KERNEL("exp(x - m) / sum(exp(x - m), axis = 0)"), exp, true, false },
    { "exp of the first", KERNEL("exp(x - max(f32(load(X[r, 0 +: 64])), axis = 0))"), exp, false, true },
    { "exp2 of the first", KERNEL("exp2(x - max(f32(load(X[r, 0 +: 64])), axis = 0))"), exp2, false, true },
};

static int failures;
static const char *compiled_for; /* NULL: the host */
static _Float16 in[ROWS][TN], out[ROWS][TN];

static double number(int row, int k)
{
    static uint32_t state = 7;
    state = state * 1664525 + 1013904223;
    const double any = (double)(state >> 8) / 0x1p24;
    switch (row) {
    case 0: return 16 * any - 8;
    case 1: return 65504 - 32.0 * (k * 7 % 5);
    case 2: return -65504 + 32.0 * (k * 7 % 5);
    case 3: return k % 3 ? (k % 2 ? 65504 : -65504) : any;
    case 4: return k == 300 ? INFINITY : k % 5 ? 65504 - 32.0 * (k % 9) : any;
    case 5: return -INFINITY;
    case 6: return k % 2 ? -INFINITY : any * 4;
    case 7: return k == 517 ? NAN : any;
    case 8: return ldexp(k % 64 - 32, -24);
    case 9: return -17.0 * k / TN;
    case 10: return 1000 - 0.5 * (k % 64);
    default: return -1000 - 0.5 * (k % 64) - (k % 3 ? 0 : any);
    }
}

static void fill(void)
{
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < TN; k++) in[row][k] = (_Float16)number(row, k);
}

/* Of the first n elements, of which `width` are read. */
static double most_of(int row, int n, int width)
{
    double m = n < width ? 0 : -INFINITY;
    for (int k = 0; k < n; k++)
        if (isnan((double)in[row][k])) return NAN;
        else m = fmax(m, (double)in[row][k]);
    return m;
}

static double error_of(double want, double got)
{
    if (isnan(want) || isnan(got)) return isnan(want) == isnan(got) ? 0 : INFINITY;
    if (want >= 65520 || isinf(got)) return want >= 65504 + 8 && isinf(got) ? 0 : INFINITY;
    return fabs(got - want) / (want < 0x1p-14 ? 0x1p-24 : ldexp(1, ilogb(want) - 10));
}

/* On AVX-512 powers are by a cubic with a relative error of 2^-13.7, which is up to 0.16 ulp of f16: once in
 * a power, twice in a quotient of a power and a sum. */
static double bound_of(const Variant *v, const char *cpu)
{
#if defined(__x86_64__)
    if (!cpu && __builtin_cpu_supports("avx512f")) return v->quotient ? 0.83 : 0.67;
#endif
    return v->quotient ? 0.7 : 0.52;
}

static void compare(const Variant *v, const char *what, int n)
{
    const double bound = bound_of(v, compiled_for);
    for (int row = 0; row < ROWS; row++) {
        const double m = most_of(row, v->first && n > FIRST ? FIRST : n, v->first ? FIRST : TN);
        double sum = !v->quotient ? 1 : n < TN ? v->power(0 - m) * (TN - n) : 0;
        for (int k = 0; k < n && v->quotient; k++) sum += v->power((double)in[row][k] - m);
        for (int k = 0; k < n; k++) {
            const double want = v->power((double)in[row][k] - m) / sum, got = (double)out[row][k];
            if (error_of(want, got) <= bound) continue;
            printf("%s, row %d of %d: f(%g - %g) is %g, not %g\n", what, row, n, (double)in[row][k], m, got,
                want);
            failures++;
            break;
        }
    }
}

static void launch(Problem *p, CpuRun *code, const void *user)
{
    static const int extents[] = { TN, TN - 1, TN - 24, 37 };
    const Variant *v = user;
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++) {
        InterpArg args[2] = { { .data = in, .shape = { ROWS, extents[e] }, .stride = { TN, 1 } },
            { .data = out, .shape = { ROWS, extents[e] }, .stride = { TN, 1 } } };
        memset(out, 0, sizeof out);
        if (cpu_run_bind(&p->s, p->func, args, code) && cpu_run_launch(code) == 0)
            compare(v, v->name, extents[e]);
        else printf("%s does not run\n", v->name), failures++;
    }
}

static void promise(Problem *p, const void *user)
{
    (void)user;
    for (int k = 0; k < 2; k++) p->func->params[k].stride[1] = 1;
}

int main(void)
{
    fill();
    for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
        const Variant *v = &variants[k];
        const char *cpus[] = { NULL, "x86-64-v3", "znver3" };
        int n = 1;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) n = 2;
        if (n == 2 && __builtin_cpu_is("znver3")) n = 3;
#endif
        for (int c = 0; c < n; c++) {
            compiled_for = cpus[c];
            if (cpu_case_run(&(CpuCase){ v->source, "TN=1024", cpus[c], promise, launch, v })) continue;
            printf("%s for %s cannot be compiled\n", v->name, cpus[c] ? cpus[c] : "the host");
            failures++;
        }
    }
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
