/* test_math.c: the error of the backend's own functions in units of the last place, against double precision
 * (long double for f64 where it matters): the whole range of f32 in steps, denormals, infinities, NaN, and
 * the places where methods meet.
 *
 * test_math [function]   prints the largest error of each function and processor; fails above the bound of
 * docs/cpu.md. */
#include "cpu_run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* narrow: the result is rounded to f16 at once. all: of every f16 there is. times: of x f(x). below: of x
 * less the maximum of its block, which is 0. of_e: of x times log2 e as f32, which fused multiply-adds do not
 * round by itself. running: of c x less the greater of c times the maximum of its block and -1/4, which is
 * what softmax block by block computes; where c > 0, that is below 0. */
typedef struct Function {
    Op op;
    const char *name;
    double (*ref)(double);
    double bound, lo, hi;
    bool narrow, all, times, below, of_e;
    double running;
} Function;

static const double LOG2_E = 0x1.715476p+0;
static double ref_exp2_of_e(double x) { return exp2(x * LOG2_E); }
static double ref_rsqrt(double x) { return 1 / sqrt(x); }
static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_exp2_of_quarter(double x) { return exp2(x / 4); }
static double ref_exp2_of_minus(double x) { return exp2(-x); }
static double ref_silu(double x) { return x * ref_sigmoid(x); }

static const Function functions[] = {
    { OP_EXP, "exp", exp, 1.2, -110, 90 },
    { OP_EXP2, "exp2", exp2, 1.9, -155, 130 },
    { OP_EXP, "exp.below", exp, 1.2, -110, 0, .below = true },
    { OP_EXP2, "exp2.below", exp2, 1.9, -155, 0, .below = true },
    { OP_EXP2, "exp2.of_e", ref_exp2_of_e, 1.95, -110, 0, .below = true, .of_e = true },
    { OP_EXP, "exp.running", exp, 1.2, -110, 0, .below = true, .running = 1 },
    { OP_EXP2, "exp2.running", ref_exp2_of_quarter, 1.9, -620, 0, .below = true, .running = 0.25 },
    { OP_EXP2, "exp2.minus", ref_exp2_of_minus, 1.9, -130, 0, .below = true, .running = -1 },
    { OP_LOG, "log", log, 1.1, 0, 0 },
    { OP_LOG2, "log2", log2, 1.8, 0, 0 },
    { OP_SIN, "sin", sin, 1.6, 0, 0 },
    { OP_COS, "cos", cos, 1.6, 0, 0 },
    { OP_TANH, "tanh", tanh, 1.5, -12, 12 },
    { OP_ERF, "erf", erf, 1.5, -5, 5 },
    { OP_SIGMOID, "sigmoid", ref_sigmoid, 2.6, -105, 30 },
    { OP_SQRT, "sqrt", sqrt, 0.5, 0, 0 },
    { OP_RSQRT, "rsqrt", ref_rsqrt, 1.6, 0, 0 },
    /* rounded to f16 at once: ulp of f16; on processors without AVX-512: NARROW */
    { OP_EXP, "exp.f16", exp, 0.67, -18, 12, true },
    { OP_EXP2, "exp2.f16", exp2, 0.67, -26, 17, true },
    { OP_SIGMOID, "sigmoid.f16", ref_sigmoid, 0.7, -18, 12, true },
    { OP_EXP, "exp.below.f16", exp, 0.67, -18, 0, .narrow = true, .below = true },
    { OP_EXP2, "exp2.below.f16", exp2, 0.67, -26, 0, .narrow = true, .below = true },
    { OP_EXP2, "exp2.of_e.f16", ref_exp2_of_e, 0.67, -18, 0, .narrow = true, .below = true, .of_e = true },
    { OP_EXP, "exp.all", exp, 0.67, 0, 0, true, true },
    { OP_EXP2, "exp2.all", exp2, 0.67, 0, 0, true, true },
    { OP_SIGMOID, "sigmoid.all", ref_sigmoid, 0.7, 0, 0, true, true },
    { OP_SIGMOID, "silu.all", ref_silu, 0.7, 0, 0, true, true, true },
};

enum { N = 1 << 20, BLOCK = 1024 };
static const double NARROW = 0.52;
static float in[N], out[N];
static _Float16 in16[N], out16[N];

static float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static Value *constant(Builder *b, double x, const Type *t)
{ return ir_splat(b, ir_const_float(b, DT_F32, x), t->rank, t->shape); }

static Value *less_maximum(Builder *b, const Function *of, Value *v)
{
    Value *most = ir_emit(b, OP_REDUCE_MAX, &v, 1, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 0)), NULL);
    if (of->running) {
        v = ir_bin(b, OP_MUL, v, constant(b, of->running, v->type));
        most = ir_bin(b, OP_MUL, most, constant(b, of->running, most->type));
        most = ir_bin(b, OP_MAX, constant(b, -0.25, most->type), most);
    }
    return ir_bin(b, OP_SUB, v, ir_op(b, OP_BROADCAST, v->type, NO_ATTRS, most));
}

/* A kernel Y[i] = f(X[i]). */
static Func *build(Session *s, const Function *of)
{
    Op op = of->op;
    Module *m = ir_module_new(s);
    Func *f = ir_func_new(m, "apply", true);
    int n = ir_dim_new(f, "N", -1);
    const Type *t = type_tensor(s, DT_F32, 1), *t16 = type_tensor(s, DT_F16, 1);
    Value *x = ir_param_new(f, "X", PARAM_IN, of->all ? t16 : t, &n),
          *y = ir_param_new(f, "Y", PARAM_OUT, of->narrow ? t16 : t, &n);
    int64_t extents[1] = { BLOCK };
    Builder b = ir_at_end(f->body);
    Value *token = ir_emit(&b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, 1)), NULL);
    Value *id = ir_emit(&b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, 0)), NULL);
    Value *at = ir_bin(&b, OP_MUL, id, ir_index(&b, BLOCK));
    Value *v = ir_op(&b, OP_LOAD, NULL, ATTRS(a_ints(ATTR_EXTENTS, extents, 1)), x, at);
    if (of->all) v = ir_cast(&b, v, DT_F32);
    if (of->below) v = less_maximum(&b, of, v);
    if (of->of_e) v = ir_bin(&b, OP_MUL, v, constant(&b, LOG2_E, v->type));
    Value *r = ir_un(&b, op, v);
    if (of->times) r = ir_bin(&b, OP_MUL, v, r);
    if (of->narrow) r = ir_cast(&b, r, DT_F16);
    ir_op(&b, OP_STORE, NULL, ATTRS(a_ints(ATTR_EXTENTS, extents, 1)), y, at, r, token);
    ir_build(&b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    f->grid = ir_block_new(f, NULL);
    for (int k = 0; k < f->n_params; k++) ir_block_arg(f->grid, f->params[k].type, f->params[k].name);
    Builder g = ir_at_end(f->grid);
    Value *programs = ir_bin(
        &g, OP_CDIV, ir_emit(&g, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, n)), NULL), ir_index(&g, BLOCK));
    ir_build(&g, OP_YIELD, &programs, 1, NO_ATTRS, NULL, 0);
    return f;
}

/* Every bit pattern in steps of a prime, then a fine sweep of the interesting range. */
static void fill(const Function *f)
{
    for (uint32_t i = 0; f->all && i < N; i++) {
        uint16_t u = (uint16_t)i;
        memcpy(&in16[i], &u, 2);
        in[i] = (float)in16[i];
    }
    if (f->all) return;
    for (uint32_t i = 0; i < N / 2; i++) in[i] = bits_float(i * 8191u);
    for (uint32_t i = N / 2; i < N; i++) {
        double t = (double)(i - N / 2) / (N / 2);
        in[i] = f->hi > f->lo ? (float)(f->lo + t * (f->hi - f->lo))
                              : (float)(t * 8 - (f->op == OP_SIN || f->op == OP_COS ? 4 : 0));
    }
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-149f, -0x1p-149f,
        0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, 0.625f, 88.7228f, -103.97f, -87.3f, 0x1.921fb6p1f,
        0x1p28f, 0x1.fffffep27f, 1e30f, 0x1.921fb6p0f };
    memcpy(in, special, sizeof special);
    static const uint32_t payloads[] = { 0x7f800001, 0x7fc00001, 0x7fc001ff, 0x7fffffff, 0xffc12345 };
    for (int k = 0; k < 5; k++) in[3 * BLOCK + k] = bits_float(payloads[k]);
    for (uint32_t i = 0; f->below && i < N; i++) in[i] = i % BLOCK && !isnan(in[i]) ? -fabsf(in[i]) : 0;
}

static double error_of(const Function *f, float x, float y)
{
    double want = f->ref(x);
    if (isnan(want) || isnan(y)) return isnan(want) == isnan(y) ? 0 : INFINITY;
    float nearest = f->narrow ? (float)(_Float16)want : (float)want;
    if (isinf(nearest) || isinf(y))
        return nearest == y || fabs(want) > (f->narrow ? 65500 : 0x1.fffffcp127) ? 0 : INFINITY;
    double a = fabs(want), ulp = f->narrow      ? (a < 0x1p-14 ? 0x1p-24 : ldexp(1, ilogb(a) - 10))
                                 : a < 0x1p-126 ? 0x1p-149
                                                : ldexp(1, ilogb(a) - 23);
    if (want == 0 && y == 0) return 0;
    return fabs((double)y - want) / ulp;
}

static int test_function(const Function *f, const char *cpu)
{
    Session s;
    CpuRun r = { 0 };
    volatile int failed = 1;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Func *fn = build(&s, f);
        InterpArg args[2] = { { .data = f->all ? (void *)in16 : in, .shape = { N }, .stride = { 1 } },
            { .data = f->narrow ? (void *)out16 : out, .shape = { N }, .stride = { 1 } } };
        BackendOptions o = { .opt_level = 2, .cpu = cpu, .verify_each = true };
        fill(f);
        if (ir_verify(fn->module) && cpu_run_compile(&s, fn, &o, &r) && cpu_run_bind(&s, fn, args, &r) &&
            cpu_run_launch(&r) == 0) {
            double worst = 0;
            float where = 0;
            for (int i = 0; i < N; i++) {
                double e = error_of(f, in[i], f->narrow ? (float)out16[i] : out[i]);
                if (e > worst) {
                    worst = e;
                    where = in[i];
                }
            }
            double bound = cpu && f->narrow ? NARROW : f->bound;
            failed = worst > bound;
            printf("%-14s %-10s %.3f ulp at %a (bound %.2f)%s\n", f->name, cpu ? cpu : "host", worst,
                (double)where, bound, failed ? " FAILED" : "");
        }
    }
    if (s.n_errors) {
        Text t;
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        fputs(t.data, stderr);
    }
    cpu_run_free(&r);
    session_free(&s);
    return failed;
}

/* Powers of two in eighths are looked up where that takes a cycle, and not on a Zen 1. */
static int test_look_up(const Function *f, const char *cpu, bool expected)
{
    Session s;
    CpuRun r = { 0 };
    volatile int failed = 1;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        BackendOptions o = { .opt_level = 2, .cpu = cpu, .emit = EMIT_ASM };
        if (cpu_run_compile(&s, build(&s, f), &o, &r))
            failed =
                (strstr(r.artifact.data, "vpermd\t") || strstr(r.artifact.data, "vpermps\t")) != expected;
        if (failed) printf("%s for %s: eighths are%s looked up\n", f->name, cpu, expected ? " not" : "");
    }
    session_free(&s);
    return failed;
}

/* Of what is known to be below 0 there is one power of two, so that no exponent is divided into two: shifted
 * by a place less, it would be. */
static int test_one_power(const Function *f)
{
    Session s;
    CpuRun r = { 0 };
    volatile int failed = 1;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        BackendOptions o = { .opt_level = 2, .cpu = "x86-64-v3", .emit = EMIT_ASM };
        if (cpu_run_compile(&s, build(&s, f), &o, &r))
            failed = (strstr(r.artifact.data, "vpslld\t$19,") != NULL) != (f->running < 0);
        if (failed) printf("%s: one power of two where two are needed, or two where one is\n", f->name);
    }
    session_free(&s);
    return failed;
}

/* The code for a Zen 1 has polynomials where that for other processors with AVX2 has tables. */
int main(int argc, char **argv)
{
    static const char *const cpus[] = { NULL, "x86-64-v3", "x86-64-v2", "znver1" };
    bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool can[] = { true, fma, true, fma && __builtin_cpu_supports("sse4a") };
    int failures = 0;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const Function *f = &functions[k];
        bool wanted = argc < 2 || !strcmp(argv[1], f->name);
        for (size_t c = 0; wanted && c < 4; c++)
            if (can[c] && (!f->of_e || (c != 2 && fma))) failures += test_function(f, cpus[c]);
        if (!wanted || (f->op != OP_EXP && f->op != OP_EXP2 && f->op != OP_SIGMOID)) continue;
        if (f->running) failures += test_one_power(f);
        failures += test_look_up(f, "x86-64-v3", true);
        failures += test_look_up(f, "znver1", false);
    }
    return failures != 0;
}
