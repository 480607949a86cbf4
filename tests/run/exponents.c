/* exponents.c: softmax of scores of any size, against references in float64 that subtract first.
 *
 *     tile_exponents_test --device=interp [--light] [--only=TEXT]
 *
 * Scores are products of small whole numbers and a scale, so that every order of sums and every contraction
 * gives the same ones: what is compared is the exponential alone. They reach from 1 to the end of f32; masks
 * are what users write (-1e9, -1e30, the least f32). Every case runs with all passes and with none. Exit 0, 1
 * after a failure, 2 for wrong options, 77 where the device is not there. */
#include "suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN(name) const double *name = problem_tensor(p, #name)->values
#define WANT(name) double *name = problem_tensor(p, #name)->want
#define SIZE(name) const int64_t name = problem_size(p, #name)

/* A sum or product of f32 numbers in f32: exact in double before it is rounded. */
static double f32(double x) { return (double)(float)x; }

static double greatest(const double *s, int64_t n)
{
    double m = -INFINITY;
    for (int64_t j = 0; j < n; j++) m = s[j] > m || isnan(s[j]) ? s[j] : m;
    return m;
}

static double powers(double *s, int64_t n)
{
    double m = greatest(s, n), sum = 0;
    for (int64_t j = 0; j < n; j++) sum += s[j] = exp(s[j] - m);
    return sum;
}

static void want_rows(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    double c = problem_scalar(p, "c") ? problem_scalar_value(p, "c") : 0, d = problem_scalar_value(p, "d");
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++) Y[i * N + j] = f32(X[i * N + j] * d + c);
        double sum = powers(Y + i * N, N);
        for (int64_t j = 0; j < N; j++) Y[i * N + j] /= sum;
    }
}

static double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t d = 0; d < n; d++) s += a[d] * b[d];
    return s;
}

/* The score of query i and key j behind the mask. */
static double masked(const Problem *p, double s, int64_t i, int64_t j, double bias)
{
    static const double masks[] = { 0, -1e9, -1e10, -1e30, -3.4028234663852886e38 };
    const char *is = problem_const(p, "MASK"), *width = problem_const(p, "WINDOW");
    int mask = is ? atoi(is) : 0;
    bool keep = j <= i && j > i - (width ? atoi(width) : 40);
    switch (mask) {
    case 1:
    case 2:
    case 3:
    case 4: return keep ? s : f32(masks[mask]);
    case 5: return keep ? s : f32(s + f32(-1e10));
    case 6: return f32(s + f32(bias * f32(1e10)));
    case 7: return i % 3 ? s : f32(-1e9);
    case 8: return keep ? s : -INFINITY;
    default: return s;
    }
}

static void want_attention(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(BIAS);
    WANT(O);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    double scale = problem_scalar_value(p, "scale"), *s = malloc((size_t)N * sizeof *s);
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++)
            s[j] = masked(p, f32(dot(Q + i * D, K + j * D, D) * scale), i, j, BIAS[i * N + j]);
        double sum = powers(s, N);
        for (int64_t d = 0; d < D; d++) {
            O[i * D + d] = 0;
            for (int64_t j = 0; j < N; j++) O[i * D + d] += s[j] / sum * V[j * D + d];
        }
    }
    free(s);
}

static void want_columns(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(L);
    WANT(O);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    double scale = problem_scalar_value(p, "scale");
    memset(O, 0, (size_t)(N * D) * sizeof *O);
    for (int64_t j = 0; j < N; j++)
        for (int64_t i = 0; i < M; i++) {
            double e = exp(f32(dot(Q + i * D, K + j * D, D) * scale) - f32(L[i] * scale));
            for (int64_t d = 0; d < D; d++) O[j * D + d] += e * V[i * D + d];
        }
}

/* L becomes the largest product of each query, as a forward pass would leave it. */
static void fill_greatest(Problem *p)
{
    IN(Q);
    IN(K);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    Tensor *l = problem_tensor(p, "L");
    for (int64_t i = 0; i < M; i++) {
        double m = -INFINITY;
        for (int64_t j = 0; j < N; j++) m = fmax(m, dot(Q + i * D, K + j * D, D));
        l->values[i] = m;
        ref_put(l->type, l->base + l->offset, i * l->stride[0], m);
        ref_put(l->type, l->before + l->offset, i * l->stride[0], m);
    }
    p->recipe->reference(p);
}

#define QKV "in Q[M,D] T int:2; in K[N,D] T int:2; "
static const Recipe kinds[] = {
    { "rows", "rows", "in X[M,N] f32 int:9; out Y[M,N] T", NULL, "T=f32", { "rows X Y c d" }, want_rows, 0.7,
        64, 0, FLOOR_RMS },
    { "scaled", "rows", "in X[M,N] f32 int:9; out Y[M,N] T", NULL, "T=f32", { "scaled X Y d" }, want_rows,
        0.7, 64, 0, FLOOR_RMS },
    { "online", "attention", QKV "in V[N,D] T; in BIAS[M,N] f32 int:1; out O[M,D] T", NULL, "T=f16",
        { "online Q K V BIAS O scale" }, want_attention, 8, 64, 0, FLOOR_RMS, 1 },
    { "twice", "attention", QKV "in V[N,D] T; in BIAS[M,N] f32 int:1; out O[M,D] T", NULL, "T=f16",
        { "twice Q K V BIAS O scale" }, want_attention, 8, 64, 0, FLOOR_RMS, 1 },
    { "columns", "attention", QKV "in V[M,D] T; in L[M] f32 ones; out O[N,D] T", NULL, "T=f16",
        { "columns Q K V L O scale" }, want_columns, 8, 64, 0, FLOOR_RMS, 1 },
};

typedef struct Row {
    const char *kind, *sizes, *consts, *scalars;
    bool heavy;
} Row;

/* Scales: near zero, at the border of what one fma stands for (|m| 710), beyond it, and up to the end of f32;
 * 3e6 and the like are no powers of two. */
#define SCALES "0.125 | 0.3 | 8 | 16 | 4096 | 3e6 | 16777216 | 3e7 | 1e9 | 1e30"
#define POWERS "0.125 | 16 | 16777216 | 1073741824"
#define AT "M=130 N=170 D=64"
static const Row rows[] = {
    { "rows", "M=9 N=225", "T=f32 | T=f16",
        "c=0 d=1 | c=1e3 d=1 | c=1e6 d=0.125 | c=1.6e7 d=1 | c=1e9 d=64 | c=-1e9 d=64 | c=3e9 d=256 | c=1e20 "
        "d=8796093022208 | c=3e38 d=2e37 | c=-3e38 d=2e37" },
    { "rows", "M=2 N=3000", "T=f16 TN=4096", "c=0 d=1 | c=1.6e7 d=1 | c=3e9 d=256 | c=-3e38 d=2e37" },
    { "scaled", "M=9 N=225", "T=f32 | T=f16", "d=0.3 | d=100 | d=3e6 | d=1e9 | d=3e37" },
    { "online", AT, "MASK=0", SCALES },
    { "online", AT, "MASK=8", SCALES },
    { "online", AT, "MASK=0 T=bf16", "0.125 | 3e7", true },
    { "online", AT, "MASK=1 | MASK=4", "0.125 | 3e6" },
    { "online", AT, "MASK=2 | MASK=3", "0.125 | 3e6", true },
    { "online", AT, "MASK=5 | MASK=6", POWERS },
    { "online", AT, "MASK=7", "0.125 | 3e6" },
    { "twice", AT, "", SCALES },
    { "columns", AT, "", SCALES },
};

/* The next of a list separated by '|', without blanks around it; what follows, or NULL. */
static const char *cut(const char *s, char *out, size_t size)
{
    size_t n = strcspn(s, "|");
    const char *next = s[n] ? s + n + 1 : NULL;
    while (n && *s == ' ') {
        s++;
        n--;
    }
    while (n && s[n - 1] == ' ') n--;
    snprintf(out, size, "%.*s", (int)n, s);
    return next;
}

/* "c=1 d=2" or "0.5" (the scale) as a recipe writes scalars. */
static void scalars_of(const char *text, char *out, size_t size)
{
    char copy[112], *save = NULL;
    *out = 0;
    snprintf(copy, sizeof copy, "%s%s", strchr(text, '=') ? "" : "scale=", text);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        snprintf(out + strlen(out), size - strlen(out), "%sf32 %s", *out ? "; " : "", w);
}

static void run_case(Suite *t, const Row *row, const char *consts, const char *scalars)
{
    char text[120], name[200];
    Recipe r;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k].name, row->kind)) r = kinds[k];
    scalars_of(scalars, text, sizeof text);
    r.scalars = text;
    snprintf(name, sizeof name, "%s %s %s %s", row->kind, row->sizes, consts, scalars);
    if (!suite_wants(t, name)) return;
    suite_case(t, name, &r, row->sizes, consts, r.reference == want_columns ? fill_greatest : NULL);
}

int main(int argc, char **argv)
{
    const char *device = "interp";
    char consts[80], scalars[96];
    bool light = false;
    Suite t = { .program = "tile_exponents_test", .folder = EXPONENTS };
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (!strncmp(argv[i], "--only=", 7)) t.only = argv[i] + 7;
        else if (!strcmp(argv[i], "--light")) light = true;
        else
            return fprintf(stderr, "usage: tile_exponents_test [--device=NAME] [--light] [--only=TEXT]\n"), 2;
    }
    int status = suite_open(&t, device);
    if (status) return status;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (light && rows[k].heavy) continue;
        for (const char *c = rows[k].consts, *s; c;) {
            c = cut(c, consts, sizeof consts);
            for (s = rows[k].scalars; s;) {
                s = cut(s, scalars, sizeof scalars);
                run_case(&t, &rows[k], consts, scalars);
            }
        }
    }
    return suite_close(&t);
}
