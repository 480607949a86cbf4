/* optional.c: kernels with optional tensors, launched with every choice of them, against references in
 * float64.
 *
 *     tile_optional_test --device=interp [--only=TEXT]
 *
 * One kernel object serves all launches of a kind, so that a launch must find the specialization of the
 * tensors that it gives. Every case runs with all passes and with none. Exit 0, 1 after a failure, 2 for
 * wrong options, 77 where the device is not there. */
#include "suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN(name) const double *name = problem_tensor(p, #name)->values
#define WANT(name) double *name = problem_tensor(p, #name)->want
#define SIZE(name) const int64_t name = problem_size(p, #name)
#define IN_IF(name) const double *name = optional(p, #name) ? optional(p, #name)->values : NULL
#define WANT_IF(name) double *name = optional(p, #name) ? optional(p, #name)->want : NULL

static const Tensor *optional(const Problem *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name)) return &p->tensors[i];
    return NULL;
}

static void want_gemm(Problem *p)
{
    IN(A);
    IN(B);
    IN_IF(BIAS);
    IN_IF(START);
    WANT(C);
    WANT_IF(MOST);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    int64_t parts = (N + 63) / 64;
    for (int64_t i = 0; MOST && i < M * parts; i++) MOST[i] = -INFINITY;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double s = START ? START[i * N + j] : 0;
            for (int64_t k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
            C[i * N + j] = s += BIAS ? BIAS[j] : 0;
            if (MOST) MOST[i * parts + j / 64] = fmax(MOST[i * parts + j / 64], s);
        }
}

static void want_attention(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN_IF(MASK);
    WANT(O);
    WANT_IF(LSE);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    double scale = problem_scalar_value(p, "scale"), *s = malloc((size_t)N * sizeof *s);
    for (int64_t i = 0; i < M; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < N; j++) {
            s[j] = MASK ? MASK[i * N + j] : 0;
            for (int64_t d = 0; d < D; d++) s[j] += Q[i * D + d] * K[j * D + d] * scale;
            most = fmax(most, s[j]);
        }
        for (int64_t j = 0; j < N; j++) sum += s[j] = exp(s[j] - most);
        for (int64_t d = 0; d < D; d++) {
            O[i * D + d] = 0;
            for (int64_t j = 0; j < N; j++) O[i * D + d] += s[j] / sum * V[j * D + d];
        }
        if (LSE) LSE[i] = most + log(sum);
    }
    free(s);
}

static void want_layer_norm(Problem *p)
{
    IN(X);
    IN_IF(W);
    IN_IF(B);
    WANT(Y);
    WANT_IF(MEAN);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M; i++) {
        const double *x = X + i * N;
        double mean = 0, square = 0;
        for (int64_t j = 0; j < N; j++) mean += x[j] / (double)N;
        for (int64_t j = 0; j < N; j++) square += (x[j] - mean) * (x[j] - mean) / (double)N;
        for (int64_t j = 0; j < N; j++)
            Y[i * N + j] = (x[j] - mean) / sqrt(square + 1e-5) * (W ? W[j] : 1) + (B ? B[j] : 0);
        if (MEAN) MEAN[i] = mean;
    }
}

static void want_totals(Problem *p)
{
    IN(X);
    IN_IF(SCALE);
    IN_IF(TABLE);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    const Tensor *total = optional(p, "TOTAL");
    double more = 0;
    for (int64_t i = 0; TABLE && i < problem_size(p, "L"); i++)
        more += TABLE[i] / (double)problem_size(p, "L");
    for (int64_t i = 0; i < M; i++) {
        double sum = total ? total->values[i] : 0;
        for (int64_t j = 0; j < N; j++) sum += Y[i * N + j] = X[i * N + j] * (SCALE ? *SCALE : 1) + more;
        if (total) total->want[i] = sum;
    }
}

/* Tensors as a recipe has them, with `?` behind the role of those that are optional. One of extents [1] is
 * for a parameter without axes. */
typedef struct Kind {
    const char *kernel, *tensors, *scalars, *consts, *sizes;
    void (*reference)(Problem *);
    double narrow, f32;
} Kind;
static const Kind kinds[] = {
    { "gemm",
        "in A[M,K] T; in B[K,N] T; in? BIAS[N] f32; in? START[M,N] f32; out C[M,N] f32; out? MOST[M,P] f32",
        "", "T=f16", "M=70 N=150 K=40 P=3 | M=64 N=128 K=64 P=2", want_gemm, 8, 4096 },
    { "attention",
        "in Q[M,D] T; in K[N,D] T; in V[N,D] T; in? MASK[M,N] f32; out O[M,D] T; out? LSE[M] f32; scalar "
        "scale",
        "f32 scale=0.125", "T=f16", "M=70 N=130 D=64", want_attention, 8, 4096 },
    { "layer_norm", "in X[M,N] T; in? W[N] T; in? B[N] T; out Y[M,N] T; out? MEAN[M] f32", "", "T=f16",
        "M=5 N=200", want_layer_norm, 8, 4096 },
    { "totals", "in X[M,N] f32; in? SCALE[1] f32; in? TABLE[L] f32; inout? TOTAL[M] f32; out Y[M,N] f32", "",
        "", "M=4 N=300 L=8", want_totals, 8, 4096 },
};

static void add(char *out, size_t size, const char *before, const char *text, size_t n)
{
    size_t at = strlen(out);
    snprintf(out + at, size - at, "%s%.*s", before, (int)n, text);
}

/* The recipe of a kind with the optional tensors of `choice`, a bit for each of them in turn; how many there
 * are. */
static int choose(const Kind *k, unsigned choice, char *tensors, char *launch, size_t size)
{
    int n = 0;
    snprintf(launch, size, "%s", k->kernel);
    *tensors = 0;
    for (const char *s = k->tensors, *end; *s; s = end + (*end == ';'), s += *s == ' ') {
        end = s + strcspn(s, ";");
        size_t role = strcspn(s, " "), name = strcspn(s + role + 1, "[;");
        bool is_optional = s[role - 1] == '?', given = !is_optional || choice >> n++ & 1;
        add(launch, size, " ", given ? s + role + 1 : "-", given ? name : 1);
        if (given && !strncmp(s + role + 1 + name, "[1]", 3)) add(launch, size, "", "[0]", 3);
        if (!given || !strncmp(s, "scalar", role)) continue;
        add(tensors, size, *tensors ? "; " : "", s, role - is_optional);
        add(tensors, size, "", s + role, (size_t)(end - s) - role);
    }
    return n;
}

static void run_case(Suite *t, const Kind *k, unsigned choice, const char *sizes)
{
    char tensors[400], launch[160], name[300];
    choose(k, choice, tensors, launch, sizeof launch);
    Recipe r = { k->kernel, "kernels", tensors, k->scalars, k->consts, { launch }, k->reference, k->narrow,
        k->f32, 0, FLOOR_RMS };
    snprintf(name, sizeof name, "%s, %s", launch, sizes);
    if (!suite_wants(t, name)) return;
    suite_case(t, name, &r, sizes, k->consts, NULL);
}

static void run_kind(Suite *t, const Kind *k)
{
    char tensors[400], launch[160], sizes[80];
    int n = choose(k, 0, tensors, launch, sizeof launch);
    for (const char *s = k->sizes; *s; s += strcspn(s, "|"), s += *s == '|') {
        s += strspn(s, " ");
        snprintf(sizes, sizeof sizes, "%.*s", (int)strcspn(s, "|"), s);
        for (unsigned choice = 0; choice < 1u << n; choice++) run_case(t, k, choice, sizes);
    }
}

int main(int argc, char **argv)
{
    const char *device = "interp";
    Suite t = { .program = "tile_optional_test", .folder = OPTIONAL };
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (!strncmp(argv[i], "--only=", 7)) t.only = argv[i] + 7;
        else return fprintf(stderr, "usage: tile_optional_test [--device=NAME] [--only=TEXT]\n"), 2;
    }
    int status = suite_open(&t, device);
    if (status) return status;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) run_kind(&t, &kinds[k]);
    return suite_close(&t);
}
