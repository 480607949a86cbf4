/* test_speculate.c: rows walked once less on a guess (passes/tile/loops/speculate.c): which kernels it takes
 * and which it must leave alone, and that whatever the row holds, a guess that fails included, the result is
 * what the kernel says: within its bound of double precision, NaN where it is NaN without the pass, the same
 * in place and from two threads. */
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 16, ROWS = 2 * KINDS, MOST = 4096 };

static int failures;

static void fail(const char *what, const char *why, const char *cpu, int row, double got, double want)
{
    if (failures++ < 20)
        printf("%s for %s, row %d: %s: %g, want %g\n", what, cpu ? cpu : "the host", row, why, got, want);
}

/* Kernels of a line or two, beside the examples; `guesses`: how many the pass makes. */
static const struct {
    const char *name, *text;
    int guesses;
} small[] = {
    { "tile of rows", "let e = exp(x - max(x, axis = 1)); store(Y[4*i +: 4, :], T(e / sum(e, axis = 1)));",
        1 },
    { "scaled",
        "let e = exp(0.125 * x - max(0.125 * x, axis = 1)); store(Y[4*i +: 4, :], T(e / sum(e, axis = 1)));",
        1 },
    { "negative scale: the largest makes the smallest power",
        "let e = exp(max(x, axis = 1) - x); store(Y[4*i +: 4, :], T(e / sum(e, axis = 1)));", 0 },
    { "powers in the result", "let e = exp(x - max(x, axis = 1)); store(Y[4*i +: 4, :], T(e));", 0 },
    { "sum in the result",
        "let e = exp(x - max(x, axis = 1)); let s = sum(e, axis = 1); store(Y[4*i +: 4, :], T(e / s + "
        "log(s)));",
        0 },
    { "maximum in the result",
        "let m = max(x, axis = 1); let e = exp(x - m); store(Y[4*i +: 4, :], T(e / sum(e, axis = 1) + m));",
        0 },
    { "sum of squares of powers",
        "let e = exp(x - max(x, axis = 1)); store(Y[4*i +: 4, :], T(e / sum(e * e, axis = 1)));", 0 },
    { "quotient kept in f32",
        "let e = exp(x - max(x, axis = 1)); let q = e / sum(e, axis = 1); store(Y[4*i +: 4, :], T(q - 0.5));",
        0 },
    { "another sum", "let e = exp(x - max(x, axis = 1)); store(Y[4*i +: 4, :], T(e / sum(x, axis = 1)));",
        0 },
    { "sum of all rows",
        "let e = exp(x - max(x, axis = 1)); store(Y[4*i +: 4, :], T(e / sum(sum(e, axis = 1), axis = 0)));",
        0 },
    { "variance",
        "let m = sum(x, axis = 1) / f32(N); let v = sum((x - m) * (x - m), axis = 1) / f32(N); store(Y[4*i "
        "+: 4, :], T((x - m) * rsqrt(v + 1e-5)));",
        1 },
    { "variance about something else",
        "let s = sum(x, axis = 1); let v = sum((x - 0.5 * s) * (x - 0.5 * s), axis = 1); store(Y[4*i +: 4, "
        ":], T(x * rsqrt(v + 1e-5)));",
        1 },
    { "squares about what is known before",
        "let v = sum((x - 3.0) * (x - 3.0), axis = 1) + sum(x, axis = 1); store(Y[4*i +: 4, :], T(x * "
        "rsqrt(v + 1e-5)));",
        0 },
    { "squares of two differences",
        "let m = sum(x, axis = 1) / f32(N); let v = sum((x - m) * (x + m), axis = 1); store(Y[4*i +: 4, :], "
        "T(x * rsqrt(v + 1e-5)));",
        0 },
};

static char *small_text(const char *body)
{
    static char text[1000];
    snprintf(text, sizeof text,
        "kernel small(in T X[M, N], out T Y[M, N], const type T = f16, const int N = 4096)\n    grid "
        "(cdiv(M, 4))\n{\n"
        "    let i = program_id();\n    let x = f32(load(X[4*i +: 4, :]));\n    %s\n}\n",
        body);
    return text;
}

/* --- running ----------------------------------------------------------------------------------------- */

typedef struct Kernel {
    Problem p;
    CpuRun r;
    int guesses;
} Kernel;

static bool make(Kernel *k, const char *name, const char *consts, const char *text, size_t len,
    const char *cpu, const char *skip)
{
    Case c = { name, name, consts, "", "", 0 };
    PassOptions o = pass_options_default(target_find("cpu"));
    PassReport report = { 0 };
    BackendOptions b = { .opt_level = 2, .cpu = cpu, .verify_each = true };
    o.skip = skip;
    o.verify_each = true;
    if (!case_lower(&k->p, &c, text, len) || !passes_run(k->p.module, &o, &report)) return false;
    for (const Instr *i = k->p.func->body->first; i; i = i->next) k->guesses += i->op == OP_IF;
    return cpu_run_compile(&k->p.s, k->p.func, &b, &k->r);
}

/* fn of a kernel made on a session of its own; false after a message. */
typedef void Work(Kernel *, void *user);
static bool with_kernel(const char *name, const char *consts, const char *text, size_t len, const char *cpu,
    const char *skip, Work *fn, void *user)
{
    Kernel *k = calloc(1, sizeof *k);
    volatile bool ok = false;
    session_init(&k->p.s, allocator_libc);
    if (!setjmp(k->p.s.oom)) ok = make(k, name, consts, text, len, cpu, skip);
    if (ok) fn(k, user);
    else {
        printf("%s %s: does not compile\n", name, consts);
        failures++;
        case_diags(&k->p);
    }
    cpu_run_free(&k->r);
    session_free(&k->p.s);
    free(k);
    return ok;
}

typedef struct Data {
    int64_t n;
    bool bf16, norm;
    uint16_t *x, *y, *w, *b;
} Data;

typedef struct Half {
    Kernel *k;
    int64_t begin, end;
    void *scratch;
} Half;
static void *run_half(void *p)
{
    Half *h = p;
    h->k->r.fn(h->k->r.slots, h->begin, h->end, h->scratch, 0);
    return NULL;
}

static void launch(Kernel *k, const Data *d, uint16_t *x, uint16_t *y, bool two_threads)
{
    InterpArg in = { .data = x, .shape = { ROWS, d->n }, .stride = { d->n, 1 } },
              out = { .data = y, .shape = { ROWS, d->n }, .stride = { d->n, 1 } };
    InterpArg w = { .data = d->w, .shape = { d->n }, .stride = { 1 } },
              b = { .data = d->b, .shape = { d->n }, .stride = { 1 } };
    InterpArg args[5] = { in, out };
    if (d->norm) {
        args[1] = w;
        args[2] = b;
        args[3] = out;
        args[4] = (InterpArg){ .scalar = { .f = 1e-5 } };
    }
    if (!cpu_run_bind(&k->p.s, k->p.func, args, &k->r)) {
        failures++;
        return;
    }
    if (!two_threads) {
        cpu_run_launch(&k->r);
    } else {
        pthread_t t[2];
        Half h[2];
        for (int i = 0; i < 2; i++) {
            h[i] = (Half){ k, k->r.programs * i / 2, k->r.programs * (i + 1) / 2,
                aligned_alloc(64, (size_t)k->r.artifact.shape.scratch_bytes + 64) };
            pthread_create(&t[i], NULL, run_half, &h[i]);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(t[i], NULL);
            free(h[i].scratch);
        }
    }
}

/* --- data -------------------------------------------------------------------------------------------- */

static double value(const Data *d, uint16_t u)
{
    if (!d->bf16) {
        _Float16 h;
        memcpy(&h, &u, 2);
        return (double)h;
    }
    uint32_t w = (uint32_t)u << 16;
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static uint16_t rounded(const Data *d, double v)
{
    uint16_t u;
    if (!d->bf16) {
        _Float16 h = (_Float16)v;
        memcpy(&u, &h, 2);
        return u;
    }
    float f = (float)v;
    uint32_t w;
    memcpy(&w, &f, 4);
    return (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
}

static double uniform(uint32_t *seed) { return (double)(*seed = *seed * 1664525 + 1013904223) * 0x1p-32; }

/* Rows of every kind that decides differently, twice with other numbers. */
static void fill(Data *d)
{
    uint32_t seed = 7;
    for (int r = 0; r < ROWS; r++) {
        int64_t last = d->n - 1 - (r >= KINDS ? 5 : 0);
        for (int64_t j = 0; j < d->n; j++) {
            double u = uniform(&seed) + uniform(&seed) + uniform(&seed) - 1.5, v = 2 * u;
            switch (r % KINDS) {
            case 1:
                if (j == last) v = 100;
                break; /* the guess is too low by far */
            case 2:
                if (j == last) v = 43.5;
                break; /* on this side of 2^64 */
            case 3:
                if (j == last) v = 45.5;
                break; /* beyond it */
            case 4:
                if (j < 64) v = -INFINITY;
                break; /* nothing to guess from */
            case 5: v = -INFINITY; break;
            case 6:
                if (j == last) v = NAN;
                break;
            case 7:
                if (j == 3) v = NAN;
                break;
            case 8:
                if (j == last) v = INFINITY;
                break;
            case 9:
                if (j == 3) v = INFINITY;
                break;
            case 10: v = 3.5; break;          /* no variance */
            case 11: v = 1000 + 4 * u; break; /* mean far from 0 */
            case 12: v = 20000 * u; break;
            case 13: v = 0x1p-20 * u; break;
            case 14: v = j % 2 ? -1000 : 1000; break;
            case 15:
                if (j % 3 == 0) v = -INFINITY;
                break; /* a mask */
            default: break;
            }
            d->x[r * d->n + j] = rounded(d, v);
        }
    }
    for (int64_t j = 0; j < d->n; j++) {
        d->w[j] = rounded(d, 0.5 + uniform(&seed));
        d->b[j] = rounded(d, uniform(&seed) - 0.5);
    }
}

static void reference(const Data *d, int row, double *want)
{
    const uint16_t *x = d->x + row * d->n;
    double most = -INFINITY, sum = 0, square = 0;
    for (int64_t j = 0; j < d->n; j++) {
        double v = value(d, x[j]);
        sum += v;
        if (isnan(v)) most = v;
        else if (!isnan(most) && v > most) most = v;
    }
    double mean = sum / (double)d->n, powers = 0;
    for (int64_t j = 0; j < d->n; j++) {
        square += (value(d, x[j]) - mean) * (value(d, x[j]) - mean);
        powers += want[j] = exp(value(d, x[j]) - most);
    }
    for (int64_t j = 0; j < d->n; j++)
        want[j] = !d->norm
                      ? want[j] / powers
                      : (value(d, x[j]) - mean) / sqrt(square / (double)d->n + 1e-5) * value(d, d->w[j]) +
                            value(d, d->b[j]);
}

static double ulp(const Data *d, double v, double least)
{
    double a = fabs(v) > least ? fabs(v) : least;
    return ldexp(1, ilogb(a) - (d->bf16 ? 7 : 10));
}

/* --- the tests --------------------------------------------------------------------------------------- */

typedef struct Run {
    const char *what, *cpu;
    Data *d;
    uint16_t *plain;
} Run;

static void run_plain(Kernel *k, void *user)
{
    Run *r = user;
    if (k->guesses) fail(r->what, "a guess that was not asked for", r->cpu, -1, k->guesses, 0);
    launch(k, r->d, r->d->x, r->plain, false);
}

static void run_guessed(Kernel *k, void *user)
{
    static double want[MOST];
    Run *r = user;
    Data *d = r->d;
    size_t bytes = (size_t)ROWS * (size_t)d->n * 2;
    if (k->guesses != 1) fail(r->what, "guesses", r->cpu, -1, k->guesses, 1);
    memset(d->y, 0x55, bytes);
    launch(k, d, d->x, d->y, false);
    for (int row = 0; row < ROWS; row++) {
        reference(d, row, want);
        for (int64_t j = 0; j < d->n; j++) {
            double got = value(d, d->y[row * d->n + j]), plain = value(d, r->plain[row * d->n + j]);
            double least = d->norm ? 1 : d->bf16 ? 0x1p-126 : 0x1p-14;
            if (isnan(got) || isnan(plain) || isnan(want[j])) {
                if (isnan(got) != isnan(plain) || isnan(got) != isnan(want[j])) {
                    fail(r->what, "NaN", r->cpu, row, got, want[j]);
                    break;
                }
            } else if (fabs(got - want[j]) > (d->norm ? 0.6 : 0.7) * ulp(d, want[j], least)) {
                fail(r->what, "error", r->cpu, row, got, want[j]);
                break;
            }
        }
    }
    uint16_t *again = aligned_alloc(64, bytes);
    launch(k, d, d->x, again, true);
    if (memcmp(again, d->y, bytes)) fail(r->what, "two threads differ from one", r->cpu, -1, 0, 0);
    memcpy(again, d->x, bytes);
    launch(k, d, again, again, true);
    if (memcmp(again, d->y, bytes)) fail(r->what, "in place differs", r->cpu, -1, 0, 0);
    free(again);
}

static void test(const char *examples, const char *kernel, const char *type, int64_t n, const char *cpu)
{
    char consts[64], what[96];
    size_t len;
    char *text = case_read(examples, kernel, &len);
    snprintf(consts, sizeof consts, "T=%s,N=%lld", type, (long long)n);
    snprintf(what, sizeof what, "%s %s", kernel, consts);
    if (!text) {
        failures++;
        return;
    }
    size_t bytes = (size_t)ROWS * (size_t)n * 2 + 64;
    Data d = { n, !strcmp(type, "bf16"), !strcmp(kernel, "layer_norm"), malloc(bytes), malloc(bytes),
        malloc(2 * MOST), malloc(2 * MOST) };
    Run r = { what, cpu, &d, malloc(bytes) };
    fill(&d);
    with_kernel(kernel, consts, text, len, cpu, "guess", run_plain, &r);
    with_kernel(kernel, consts, text, len, cpu, NULL, run_guessed, &r);
    free(d.x);
    free(d.y);
    free(d.w);
    free(d.b);
    free(r.plain);
    free(text);
}

typedef struct Small {
    const char *name;
    int guesses;
    bool plain;
    Data *d;
    uint16_t *y;
} Small;

static void run_small(Kernel *k, void *user)
{
    Small *s = user;
    if (k->guesses != (s->plain ? 0 : s->guesses))
        fail(s->name, "guesses", NULL, -1, k->guesses, s->plain ? 0 : s->guesses);
    launch(k, s->d, s->d->x, s->y, false);
}

/* The same numbers with the pass and without, and the guesses counted. */
static void test_small(int which)
{
    enum { N = 4096 };
    const char *text = small_text(small[which].text);
    size_t bytes = ROWS * N * 2;
    Data d = { N, false, false, malloc(bytes), NULL, malloc(2 * MOST), malloc(2 * MOST) };
    Small s = { small[which].name, small[which].guesses, true, &d, malloc(bytes) },
          t = { small[which].name, small[which].guesses, false, &d, malloc(bytes) };
    fill(&d);
    with_kernel("small", "", text, strlen(text), NULL, "guess", run_small, &s);
    with_kernel("small", "", text, strlen(text), NULL, NULL, run_small, &t);
    for (int i = 0; i < ROWS * N; i++) {
        double a = value(&d, s.y[i]), b = value(&d, t.y[i]);
        if (isnan(a) == isnan(b) && (isnan(a) || a == b || fabs(a - b) <= 1.01 * ulp(&d, a, 0x1p-14)))
            continue;
        fail(s.name, "differs from the kernel as written", NULL, i / N, b, a);
        break;
    }
    free(d.x);
    free(d.w);
    free(d.b);
    free(s.y);
    free(t.y);
}

int main(int argc, char **argv)
{
    static const char *const cpus[] = { NULL, "x86-64-v3", "x86-64-v2" };
    const char *examples = argc > 1 ? argv[1] : "examples/kernels";
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    for (int c = 0; c < 3; c++) {
        if (c == 1 && !avx2) continue;
        for (int t = 0; t < 2; t++) {
            test(examples, "softmax", t ? "bf16" : "f16", 4096, cpus[c]);
            test(examples, "layer_norm", t ? "bf16" : "f16", 4096, cpus[c]);
        }
        test(examples, "softmax", "f16", 1037, cpus[c]);
        test(examples, "layer_norm", "f16", 1537, cpus[c]);
    }
    for (size_t k = 0; k < sizeof small / sizeof *small; k++) test_small((int)k);
    printf("%d failures\n", failures);
    return failures != 0;
}
