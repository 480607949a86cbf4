/* test_few_rows.c: products of few rows and columns (few_rows.c, thin.c) and those that leave out what is
 * beyond the end of their windows (mma.c): sums of small whole numbers, which are exact, with infinities
 * among them, of every number of rows around the versions, of inputs that lie either way in memory. Nothing
 * is written outside the output. */
#include "cpu_case.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char source[] = "kernel k(in T A[M, K], in T B[K, N], in f32 BIAS[N], out TO C[M, N], const "
                             "type T = f32, const type ACC = f32,\n"
                             "         const type TO = f32, const int TM = 64, const int TN = 32)\n"
                             "    grid (cdiv(M, TM), cdiv(N, TN))\n"
                             "{\n"
                             "    let (i, j) = program_id();\n"
                             "    var acc = zeros([TM, TN], ACC);\n"
                             "    for k in 0 .. cdiv(K, 32) {\n"
                             "        let a = load(A[i*TM +: TM, k*32 +: 32], latency = 3);\n"
                             "        let b = load(B[k*32 +: 32, j*TN +: TN], latency = 3);\n"
                             "        acc = mma(a, b, acc);\n"
                             "    }\n"
                             "    let bias = load(BIAS[j*TN +: TN])[None, :];\n"
                             "    store(C[i*TM +: TM, j*TN +: TN], TO(acc) + TO(bias));\n"
                             "}\n";

enum { M_MOST = 70, N_MOST = 70, K_MOST = 200, GAP = 3, GUARD = 77, FAR = 2048 /* elements */ };

typedef struct Types {
    const char *consts;
    DType dtype;
} Types;

typedef struct Run {
    const Types *type;
    int64_t m, n, k;
    bool turned_a, turned_b, infinite;
    bool far; /* rows of B meet in one set of a first cache */
} Run;

static int failures;
static int8_t a[M_MOST][K_MOST], b[K_MOST][N_MOST], bias[N_MOST];

static double b_of(const Run *r, int64_t k, int64_t j)
{ return r->infinite && k == r->k / 2 && j == r->n - 1 ? INFINITY : b[k][j]; }

static void put(DType d, void *to, int64_t at, double v)
{
    if (d == DT_F32) ((float *)to)[at] = (float)v;
    else if (d == DT_F16) ((_Float16 *)to)[at] = (_Float16)v;
    else if (d == DT_BF16) {
        float x = (float)v;
        uint32_t bits;
        memcpy(&bits, &x, 4);
        ((uint16_t *)to)[at] = (uint16_t)(bits >> 16); /* exact: 8 bits of fraction suffice */
    } else ((int8_t *)to)[at] = (int8_t)v;
}

static double want(const Run *r, int64_t i, int64_t j)
{
    double sum = bias[j];
    if (r->type->dtype == DT_U8)
        for (int64_t k = 0; k < r->k; k++) sum += (uint8_t)a[i][k] * (uint8_t)b[k][j];
    else
        for (int64_t k = 0; k < r->k; k++) sum += a[i][k] * b_of(r, k, j);
    return sum;
}

static bool same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

static bool is_integer(const Run *r) { return r->type->dtype == DT_I8 || r->type->dtype == DT_U8; }

static double got(const Run *r, const void *c, int64_t at)
{ return is_integer(r) ? ((const int32_t *)c)[at] : ((const float *)c)[at]; }

static void check(const Run *r, const void *c, const char *cpu, const char *consts)
{
    for (int64_t i = 0; i < r->m + 1; i++)
        for (int64_t j = 0; j < N_MOST + GAP; j++) {
            double v = i < r->m && j < r->n ? want(r, i, j) : GUARD;
            if (same(v, got(r, c, i * (N_MOST + GAP) + j))) continue;
            printf("%s %s for %s, %lldx%lldx%lld%s%s: C[%lld, %lld] is %g, not %g\n", r->type->consts, consts,
                cpu ? cpu : "the host", (long long)r->m, (long long)r->n, (long long)r->k,
                r->turned_a ? " A^T" : "",
                r->turned_b ? " B^T"
                : r->far    ? " far"
                            : "",
                (long long)i, (long long)j, got(r, c, i * (N_MOST + GAP) + j), v);
            failures++;
            return;
        }
}

static void launch(Problem *p, CpuRun *code, const Run *r, const char *cpu, const char *consts)
{
    static float x[M_MOST * (K_MOST + GAP) * 2], y[K_MOST * FAR], z[N_MOST], c[(M_MOST + 1) * (N_MOST + GAP)];
    DType d = r->type->dtype;
    int64_t sa = r->turned_a ? 1 : K_MOST + GAP, ta = r->turned_a ? M_MOST + GAP : 1,
            sb = r->turned_b ? 1
                 : r->far    ? FAR
                             : N_MOST + GAP,
            tb = r->turned_b ? K_MOST + GAP : 1;
    for (int64_t i = 0; i < r->m; i++)
        for (int64_t k = 0; k < r->k; k++) put(d, x, i * sa + k * ta, a[i][k]);
    for (int64_t k = 0; k < r->k; k++)
        for (int64_t j = 0; j < r->n; j++) put(d, y, k * sb + j * tb, b_of(r, k, j));
    for (int64_t j = 0; j < N_MOST; j++) z[j] = bias[j];
    for (int k = 0; k < (M_MOST + 1) * (N_MOST + GAP); k++) {
        if (is_integer(r)) ((int32_t *)c)[k] = GUARD;
        else c[k] = GUARD;
    }
    InterpArg args[4] = { { .data = x, .shape = { r->m, r->k }, .stride = { sa, ta } },
        { .data = y, .shape = { r->k, r->n }, .stride = { sb, tb } },
        { .data = z, .shape = { r->n }, .stride = { 1 } },
        { .data = c, .shape = { r->m, r->n }, .stride = { N_MOST + GAP, 1 } } };
    if (!cpu_run_bind(&p->s, p->func, args, code) || cpu_run_launch(code) != 0) {
        printf("%s for %s does not run\n", r->type->consts, cpu ? cpu : "the host");
        failures++;
    } else {
        check(r, c, cpu, consts);
    }
}

static void launches(Problem *p, CpuRun *code, const Run *like, const char *cpu, const char *consts)
{
    static const int64_t rows[] = { 1, 2, 4, 5, 16, 17, 64, 65, 70 },
                         others[][2] = { { 70, 200 }, { 33, 45 } };
    for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
        for (int o = 0; o < 2; o++) {
            Run r = *like;
            r.m = rows[m];
            r.n = others[o][0];
            r.k = others[o][1];
            r.infinite = o && !is_integer(&r);
            launch(p, code, &r, cpu, consts);
            r.far = r.m <= 4 && !r.turned_b;
            if (r.far) launch(p, code, &r, cpu, consts);
            r.far = false;
            if (r.m > N_MOST) continue;
            int64_t few = r.m; /* .. and few columns */
            r.m = r.n;
            r.n = few;
            launch(p, code, &r, cpu, consts);
        }
}

/* A kernel of a run's kind for a processor, and the product that it must have. */
typedef struct Kernel {
    const Run *run;
    const char *consts, *expected, *cpu;
} Kernel;

/* The launch promises the axis along which elements are side by side. */
static void promise(Problem *p, const void *user)
{
    const Run *r = ((const Kernel *)user)->run;
    p->func->params[0].stride[!r->turned_a] = 1;
    p->func->params[1].stride[!r->turned_b] = 1;
    p->func->params[2].stride[0] = 1;
    p->func->params[3].stride[1] = 1;
}

static void look_and_launch(Problem *p, CpuRun *code, const void *user)
{
    const Kernel *k = user;
    if (!strstr(code->artifact.schedule, k->expected)) {
        printf("%s for %s: no product %s\n%s", k->consts, k->cpu ? k->cpu : "the host", k->expected,
            code->artifact.schedule);
        failures++;
    }
    launches(p, code, k->run, k->cpu, k->consts);
}

static void test(const Run *r, const char *tiles, const char *expected, const char *cpu)
{
    char consts[128];
    snprintf(consts, sizeof consts, "%s,%s", r->type->consts, tiles);
    const Kernel k = { r, consts, expected, cpu };
    if (!cpu_case_run(&(CpuCase){ source, consts, cpu, promise, look_and_launch, &k })) failures++;
}

/* Whole numbers whose sums are exact; of integers the extremes too. */
static void fill(const Types *t)
{
    static const int extreme[] = { -128, 127, -1, 0, 1 };
    bool of_8_bits = t->dtype == DT_I8 || t->dtype == DT_U8;
    for (int64_t k = 0; k < K_MOST; k++) {
        for (int64_t i = 0; i < M_MOST; i++) a[i][k] = (int8_t)((i * 7 + k * 5) % 9 - 3);
        for (int64_t j = 0; j < N_MOST; j++) b[k][j] = (int8_t)((k * 3 + j * 11) % 13 - 5);
        for (int64_t i = k % 3; of_8_bits && i < M_MOST; i += 3) a[i][k] = (int8_t)extreme[(i + k) % 5];
        for (int64_t j = k % 2; of_8_bits && j < N_MOST; j += 2) b[k][j] = (int8_t)extreme[(j + 2 * k) % 5];
    }
}

int main(void)
{
    static const Types types[] = { { "T=f32", DT_F32 }, { "T=f16", DT_F16 }, { "T=bf16", DT_BF16 },
        { "T=i8,ACC=i32,TO=i32", DT_I8 }, { "T=u8,ACC=i32,TO=i32", DT_U8 } };
    static const char *const cpus[] = {
#if defined(__x86_64__)
        "x86-64-v3", "x86-64",
#endif
        NULL /* the host, whatever it has */
    };
    for (int i = 0; i < N_MOST; i++) bias[i] = (int8_t)(i - 30);
    for (size_t k = 0; k < sizeof cpus / sizeof *cpus; k++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int turned = 0; turned < 4; turned++) {
                fill(&types[t]);
                Run r = { .type = &types[t], .turned_a = turned & 1, .turned_b = turned & 2 };
                test(&r, "TM=64,TN=32", turned & 2 ? "by columns of B" : "by rows of B", cpus[k]);
                if (turned == 0) test(&r, "TM=64,TN=4", "by rows of A", cpus[k]);
                /* Staged: whole vectors of each row of a group, and columns left over. */
                if (turned == 0 && (!cpus[k] || strstr(cpus[k], "v3")))
                    test(&r, "TM=64,TN=64", "by rows of B", cpus[k]);
                if (turned == 1 && !cpus[k]) test(&r, "TM=64,TN=48", "by rows of B", cpus[k]);
            }
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
