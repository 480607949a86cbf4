/* functions: the functions of the preludes, measured over all exponents of f32 and f64 as the emulated
 * machines run them, against long double.
 *
 *     functions DEVICE...              prints the largest error of each function; exit status 0, 1 above a
 * bound, 77 without a host compiler
 *
 * The functions are those of ops.def's family FUNCTION, each of which must have a row here. The bounds of f32
 * are docs/language.md's. Those of f64 are docs/amd.md's, and hold for CUDA's own functions too. */
#include "tests/emu/exec_emu.h"
#include "ir/ir.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Function {
    long double (*ref)(long double);
    double f32, f64; /* bounds in ulp */
    double from, to; /* an additional interval to sweep; f32: the part of it that f32 has */
    bool flushed;    /* in f32 a result below 2^-126 may be 0 */
    bool periodic;   /* beyond 2^16: to 2^-22, in f32 */
} Function;

static long double ref_rsqrt(long double x) { return 1 / sqrtl(x); }
static long double ref_sigmoid(long double x) { return 1 / (1 + expl(-x)); }

static const Function functions[OP_COUNT] = {
    [OP_EXP] = { expl, 2, 4, -750, 712 },
    [OP_EXP2] = { exp2l, 2, 4, -1080, 1030, .flushed = true },
    [OP_LOG] = { logl, 2, 4, 0.25, 4 },
    [OP_LOG2] = { log2l, 2, 4, 0.25, 4 },
    [OP_SQRT] = { sqrtl, 0.5, 0.5, 0, 16 },
    [OP_RSQRT] = { ref_rsqrt, 2, 4, 0, 16 },
    [OP_SIN] = { sinl, 2, 4, -200, 200, .periodic = true },
    [OP_COS] = { cosl, 2, 4, -200, 200, .periodic = true },
    [OP_TANH] = { tanhl, 4, 4, -24, 24 },
    [OP_ERF] = { erfl, 4, 4, -7, 7 },
    [OP_SIGMOID] = { ref_sigmoid, 4, 4, -750, 60 },
    [OP_FLOOR] = { floorl, 0, 0, -40, 40 },
    [OP_CEIL] = { ceill, 0, 0, -40, 40 },
    [OP_ROUND] = { rintl, 0, 0, -40, 40 },
};

enum { MOST = 20, PER_EXPONENT = 16, SWEEP = 1024, SMALL_SWEEP = 1 << 14 };

typedef struct Format {
    const char *name;
    RefType type;
    int fraction, least, exponents;
} Format;
static const Format formats[2] = { { "f32", REF_F32, 23, -126, 256 }, { "f64", REF_F64, 52, -1022, 2048 } };

/* What is measured in one format. */
typedef struct Measure {
    const Format *format;
    Op ops[MOST];
    int n_ops;
    int64_t n;
    double *in;
    void *data, *out[MOST];
} Measure;

static double value_at(const Measure *m, const void *data, int64_t k)
{ return m->format->type == REF_F32 ? ((const float *)data)[k] : ((const double *)data)[k]; }

static void add(Measure *m, double x)
{
    if (m->format->type == REF_F32) ((float *)m->data)[m->n] = (float)x;
    else ((double *)m->data)[m->n] = x;
    m->in[m->n] = value_at(m, m->data, m->n);
    m->n++;
}

/* Numbers of every exponent and sign, then the intervals of the functions. */
static void fill(Measure *m)
{
    int per = m->format->type == REF_F32 ? 8 * PER_EXPONENT : PER_EXPONENT, top = m->format->exponents;
    for (int e = 0; e < top; e++)
        for (int k = 0; k < 2 * per; k++) {
            double fraction = (k / 2 * 0.6180339887498949) - floor(k / 2 * 0.6180339887498949);
            double x = e == top - 1 ? (k < 4 ? INFINITY : NAN)
                       : e          ? ldexp(1 + fraction, e + m->format->least - 1)
                                    : ldexp(fraction, m->format->least);
            add(m, k % 2 ? -x : x);
        }
    for (int f = 0; f < m->n_ops; f++) {
        const Function *of = &functions[m->ops[f]];
        for (int k = 0; k < SMALL_SWEEP; k++) add(m, of->from + (of->to - of->from) * k / SMALL_SWEEP);
    }
    while (m->n % SWEEP) add(m, 1);
}

/* In units of the last place of the result; infinite where one is a NaN or infinite and the other is not. */
static double error_of(const Measure *m, const Function *f, double x, double y)
{
    const Format *t = m->format;
    long double want = f->ref((long double)x);
    if (isnan(want) || isnan(y)) return isnan(want) && isnan(y) ? 0 : INFINITY;
    double nearest = t->type == REF_F32 ? (double)(float)want : (double)want;
    long double most = ldexpl(2 - ldexpl(1, -t->fraction), t->exponents / 2 - 1);
    if (isinf(nearest) || isinf(y)) {
        if (nearest == y) return 0;
        /* near the largest number that the function may round to either side */
        return fabsl(want) > most * (1 - ldexpl(4, -t->fraction)) && (y > 0) == (want > 0) ? 0 : INFINITY;
    }
    if (want == 0) return y == 0 ? 0 : INFINITY;
    int e = ilogbl(want) < t->least ? t->least : ilogbl(want);
    long double difference = fabsl((long double)y - want);
    if (f->flushed && t->type == REF_F32 && y == 0 && fabsl(want) < 0x1p-126L) return 0;
    if (f->periodic && t->type == REF_F32 && fabs(x) > 65536 && difference <= 0x1p-22) return 0;
    return (double)ldexpl(difference, t->fraction - e);
}

static bool write_kernel(const Measure *m, const char *path)
{
    FILE *f = fopen(path, "w");
    const char *t = m->format->name;
    if (!f) return false;
    fprintf(f, "kernel functions(in %s X[N]", t);
    for (int k = 0; k < m->n_ops; k++) fprintf(f, ", out %s Y%d[N]", t, k);
    fprintf(f, ")\n    grid (cdiv(N, %d))\n{\n    let i = program_id();\n    let x = load(X[i*%d +: %d]);\n",
        SWEEP, SWEEP, SWEEP);
    for (int k = 0; k < m->n_ops; k++)
        fprintf(f, "    store(Y%d[i*%d +: %d], %s(x));\n", k, SWEEP, SWEEP, op_info[m->ops[k]].name);
    fprintf(f, "}\n");
    return fclose(f) == 0;
}

static bool run(const Measure *m, void *emu, char *why, size_t why_size)
{
    char path[] = "/tmp/functionsXXXXXX.tile";
    Tensor t[MOST + 1];
    Run r = { .path = path, .n_launches = 1 };
    Launch *l = &r.launches[0];
    int file = mkstemps(path, 5);
    if (file < 0) return false;
    close(file);
    for (int k = 0; k <= m->n_ops; k++) {
        t[k] = (Tensor){ .type = m->format->type,
            .rank = 1,
            .shape = { m->n },
            .stride = { 1 },
            .count = m->n,
            .base = k ? m->out[k - 1] : m->data };
        l->args[k].tensor = &t[k];
    }
    l->n_args = m->n_ops + 1;
    snprintf(l->kernel, sizeof l->kernel, "functions");
    bool ok = write_kernel(m, path) && exec_emu_run(emu, &r, why, why_size);
    unlink(path);
    return ok;
}

static int judge(const Measure *m, const char *device)
{
    int failed = 0;
    for (int k = 0; k < m->n_ops; k++) {
        const Function *f = &functions[m->ops[k]];
        double worst = 0, at = 0, bound = m->format->type == REF_F32 ? f->f32 : f->f64;
        for (int64_t n = 0; n < m->n; n++) {
            double e = error_of(m, f, m->in[n], value_at(m, m->out[k], n));
            if (e > worst) {
                worst = e;
                at = m->in[n];
            }
        }
        printf("%s%s %s %s: %.3f ulp at %a, the bound is %.1f\n", worst > bound ? "FAIL " : "", device,
            op_info[m->ops[k]].name, m->format->name, worst, at, bound);
        failed += worst > bound;
    }
    return failed;
}

static int measure(const Format *t, void *emu, const char *device)
{
    Measure m = { .format = t };
    char why[600] = "";
    int failed = 0;
    for (Op op = 0; op < OP_COUNT; op++)
        if (op_family(op) == OPS_FUNCTION) {
            if (functions[op].ref && m.n_ops < MOST) m.ops[m.n_ops++] = op;
            else failed += printf("FAIL %s has no row\n", op_info[op].name) > 0;
        }
    size_t most = (size_t)t->exponents * 16 * PER_EXPONENT + (size_t)m.n_ops * SMALL_SWEEP + SWEEP;
    m.in = calloc(most, sizeof *m.in);
    m.data = calloc(most, sizeof(double));
    for (int k = 0; k < m.n_ops; k++) m.out[k] = calloc(most, sizeof(double));
    fill(&m);
    if (run(&m, emu, why, sizeof why)) failed += judge(&m, device);
    else failed += printf("FAIL %s %s: %s\n", device, t->name, why) > 0;
    for (int k = 0; k < m.n_ops; k++) free(m.out[k]);
    free(m.data);
    free(m.in);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    char why[400];
    for (int d = 1; d < argc; d++) {
        void *emu = exec_emu_open_once(argv[d], why, sizeof why);
        if (!emu) {
            printf("SKIP: %s\n", why);
            return 77;
        }
        for (int k = 0; k < 2; k++) failed += measure(&formats[k], emu, argv[d]);
        exec_emu_close(emu);
    }
    return failed > 0;
}
