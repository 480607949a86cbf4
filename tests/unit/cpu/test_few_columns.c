/* test_few_columns.c: products of few columns whose sums are scaled in each iteration (few_columns.c), of
 * which some lie along the columns of blocks (thin_dots.c), or are multiplied by words (thin_words.c). All
 * numbers are whole and exact in f32. Every number of rows around the versions, columns that end within
 * blocks; tiles that enter and leave transposed; and kernels that must stay as they are, because a tile
 * leaves them as it is. Nothing is written outside the output. */
#include "cpu_case.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The weights have 4 bits, as those of gemm_w4a8 have, or 8. */
#define KERNEL(init, low, high, step, end) \
    "kernel k(in i8 A[M, K], in f32 SA[M, G], in u8 W[N, KHALF], in f32 SW[G, N], in f32 R[M, N], out f32 " \
    "C[M, N],\n" \
    "         const int TM = 16, const int TN = 64, const int TK = 64)\n" \
    "    grid (cdiv(M, TM), cdiv(N, TN))\n" \
    "{\n" \
    "    let (i, j) = program_id();\n" \
    "    var acc = " init ";\n" \
    "    for k in 0 .. G {\n" \
    "        let w = load(W[j*TN +: TN, k*TK/2 +: TK/2], latency = 3);\n" \
    "        let low  = load(A[i*TM +: TM, k*TK +: TK/2]);\n" \
    "        let high = load(A[i*TM +: TM, k*TK + TK/2 +: TK/2]);\n" \
    "        let half = mma(" low ", transpose(low), zeros([TN, TM], i32));\n" \
    "        let dots = mma(" high ", transpose(high), half);\n" \
    "        let sw = load(SW[k, j*TN +: TN])[:, None];\n" \
    "        let sa = load(SA[i*TM +: TM, k])[None, :];\n" \
    "        " step ";\n" \
    "    }\n" \
    "    " end ";\n" \
    "}\n"
#define ZEROS "zeros([TN, TM], f32)"
#define RESIDUAL "transpose(load(R[i*TM +: TM, j*TN +: TN]))"
#define SCALED "acc = acc + sw * (sa * f32(dots) - 3.0)"
#define STORED "store(C[i*TM +: TM, j*TN +: TN], transpose(acc))"

#define OTHER "load(W[j*TN +: TN, (G - 1 - k)*TK/2 +: TK/2]) >> 4"

enum {
    M_MOST = 18,
    N_MOST = 136,
    DEEP = 384,
    LEAST_GROUP = 64,
    MOST_GROUPS = DEEP / LEAST_GROUP,
    GUARD = 77
};

typedef struct Variant {
    const char *name, *source;
    bool residual, eight_bits, changes; /* changes: whether the sums are transposed */
    bool mirrored;                      /* the high halves are those of the other groups in turn */
} Variant;
static const Variant variants[] = {
    { "scaled", KERNEL(ZEROS, "w & 15", "w >> 4", SCALED, STORED), false, false, true },
    { "of 8 bits", KERNEL(ZEROS, "w", "w", SCALED, STORED), false, true, true },
    { "of one sign", KERNEL(ZEROS, "i8(w & 15)", "i8(w >> 4)", SCALED, STORED), false, false, true },
    { "of two windows", KERNEL(ZEROS, "w & 15", OTHER, SCALED, STORED), false, false, true, true },
    { "beside a window", KERNEL(RESIDUAL, "w & 15", "w >> 4", SCALED, STORED), true, false, true },
    { "and a window behind",
        KERNEL(ZEROS, "w & 15", "w >> 4", SCALED,
            "store(C[i*TM +: TM, j*TN +: TN], transpose(acc + " RESIDUAL "))"),
        true, false, true },
    { "reduced",
        KERNEL(ZEROS, "w & 15", "w >> 4", SCALED,
            "store(C[i*TM +: TM, j*TN +: TN], transpose(acc + 0.0 * max(acc, axis = 1)))"),
        false, false, false },
};

enum { NOT, CHANGES, UNKNOWN };

static int failures;
static int8_t a[M_MOST][DEEP];
static uint8_t w[N_MOST][DEEP / 2];
static float sa[M_MOST][MOST_GROUPS], sw[MOST_GROUPS][N_MOST], residual[M_MOST][N_MOST];

static void fill(void)
{
    uint32_t state = 5;
    for (int k = 0; k < DEEP; k++) {
        for (int i = 0; i < M_MOST; i++, state = state * 1664525 + 1013904223)
            a[i][k] = (int8_t)(state % 5 == 0 ? 0x80u : state % 5 == 1 ? 0x7fu : state >> 24);
        for (int j = 0; j < N_MOST && k < DEEP / 2; j++, state = state * 1664525 + 1013904223)
            w[j][k] = (uint8_t)(state % 3 == 0 ? 255u : state >> 24);
    }
    for (int g = 0; g < MOST_GROUPS; g++) {
        for (int i = 0; i < M_MOST; i++) sa[i][g] = (float)(1 + (i + g) % 3);
        for (int j = 0; j < N_MOST; j++) sw[g][j] = (float)(j % 2 ? 1 : -2);
    }
    for (int i = 0; i < M_MOST; i++)
        for (int j = 0; j < N_MOST; j++) residual[i][j] = (float)(i * 31 - j);
}

/* Of groups of `group` along K. */
static double want(const Variant *v, int group, int i, int j)
{
    double sum = v->residual ? residual[i][j] : 0;
    const int half = group / 2, groups = DEEP / group;
    for (int g = 0; g < groups; g++) {
        int64_t dots = 0;
        for (int k = 0; k < group; k++) {
            const int of = v->mirrored && k >= half ? groups - 1 - g : g;
            const int byte = w[j][of * half + k % half];
            int weight = v->eight_bits ? byte : k < half ? byte & 15 : byte >> 4;
            dots += weight * a[i][g * group + k];
        }
        sum += sw[g][j] * (sa[i][g] * (double)dots - 3);
    }
    return sum;
}

/* A variant for a processor, and whether its sums are transposed there. */
typedef struct Kernel {
    const Variant *v;
    const char *what;
    int changes, group;
    bool runs; /* on this machine */
} Kernel;

static void launch(Problem *p, CpuRun *code, const Kernel *k, int m, int n)
{
    static float c[M_MOST + 1][N_MOST + 1];
    const int groups = DEEP / k->group;
    const char *what = k->what;
    for (int i = 0; i <= M_MOST; i++)
        for (int j = 0; j <= N_MOST; j++) c[i][j] = GUARD;
    InterpArg args[6] = { { .data = a, .shape = { m, DEEP }, .stride = { DEEP, 1 } },
        { .data = sa, .shape = { m, groups }, .stride = { MOST_GROUPS, 1 } },
        { .data = w, .shape = { n, DEEP / 2 }, .stride = { DEEP / 2, 1 } },
        { .data = sw, .shape = { groups, n }, .stride = { N_MOST, 1 } },
        { .data = residual, .shape = { m, n }, .stride = { N_MOST, 1 } },
        { .data = c, .shape = { m, n }, .stride = { N_MOST + 1, 1 } } };
    if (!cpu_run_bind(&p->s, p->func, args, code) || cpu_run_launch(code) != 0) {
        printf("%s does not run\n", what);
        failures++;
        return;
    }
    for (int i = 0; i <= M_MOST; i++)
        for (int j = 0; j <= N_MOST; j++) {
            double expected = i < m && j < n ? want(k->v, k->group, i, j) : GUARD;
            if (c[i][j] == expected) continue;
            printf("%s, %d x %d: C[%d, %d] is %g, not %g\n", what, m, n, i, j, c[i][j], expected);
            failures++;
            return;
        }
}

static void promise(Problem *p, const void *user)
{
    (void)user;
    for (int k = 0; k < 6; k++) p->func->params[k].stride[1] = 1;
}

static void look_and_launch(Problem *p, CpuRun *code, const void *user)
{
    static const int rows[] = { 1, 2, 4, 5, 8, 16, 17 }, columns[] = { 136, 64, 45, 7 };
    const Kernel *k = user;
    const bool changes = strstr(code->artifact.schedule, "by columns of B") != NULL;
    if (k->changes != UNKNOWN && k->changes != changes) {
        printf("%s: sums %s transposed\n%s", k->what, k->changes ? "not" : "are", code->artifact.schedule);
        failures++;
    }
    for (size_t m = 0; k->runs && m < sizeof rows / sizeof *rows; m++)
        for (size_t n = 0; n < sizeof columns / sizeof *columns; n++) launch(p, code, k, rows[m], columns[n]);
}

static void test(const Variant *v, const char *tile, int group, const char *cpu, bool runs, int changes)
{
    char what[96], consts[48];
    snprintf(consts, sizeof consts, "%s,TK=%d", tile, group);
    snprintf(what, sizeof what, "%s, %s for %s", v->name, consts, cpu ? cpu : "the host");
    const Kernel k = { v, what, changes, group, runs };
    if (cpu_case_run(&(CpuCase){ v->source, consts, cpu, promise, look_and_launch, &k })) return;
    printf("%s: cannot be compiled\n", what);
    failures++;
}

#if defined(__x86_64__)
/* Levels, of which code is compiled for all, and runs where the machine has them. By words: groups whose
 * halves are a line, several lines, and less than one. */
static void test_levels(const Variant *v)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
               v4 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq"),
               vnni = v4 && __builtin_cpu_supports("avx512vnni");
    static const int groups[] = { LEAST_GROUP, 128, DEEP };
    const int changes = v->changes ? CHANGES : NOT;
    test(v, "TM=16,TN=64", 64, "x86-64-v3", avx2, changes);
    test(v, "TM=8,TN=32", 64, "x86-64-v3", avx2, changes);
    test(v, "TM=16,TN=40", 64, "x86-64-v3", avx2, changes);
    test(v, "TM=16,TN=12", 64, "x86-64-v3", avx2, UNKNOWN);
    test(v, "TM=16,TN=16", 64, "x86-64-v3", avx2, UNKNOWN);
    test(v, "TM=16,TN=64", 64, "alderlake", false, changes);
    test(v, "TM=16,TN=64", 64, "sapphirerapids", false, UNKNOWN);
    for (size_t k = 0; k < sizeof groups / sizeof *groups; k++) {
        test(v, "TM=16,TN=64", groups[k], "x86-64-v4", v4, changes);
        test(v, "TM=16,TN=64", groups[k], "cascadelake", vnni, changes);
    }
    test(v, "TM=8,TN=48", 128, "cascadelake", vnni, changes);
    test(v, "TM=16,TN=16", 128, "cascadelake", vnni, UNKNOWN);
}
#endif

/* With an argument, a few variants for the host alone, whose instructions may be carried out one by one. */
int main(int argc, char **argv)
{
    (void)argv;
    fill();
    for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
        const Variant *v = &variants[k];
        if (argc > 1 && k > 2) break;
#if defined(__x86_64__)
        if (argc < 2) test_levels(v);
#endif
        test(v, "TM=16,TN=64", LEAST_GROUP, NULL, true, UNKNOWN);
        test(v, "TM=16,TN=64", 128, NULL, true, UNKNOWN);
    }
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
