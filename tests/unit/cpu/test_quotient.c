/* test_quotient.c: quotients of a row by one value (quotient.c) are those of C, bit for bit: for pairs whose
 * quotient lies next to the middle between two numbers, for random ones, at the limits of exponents, and for
 * zeros, infinities, NaN and denormal numbers.
 *
 * test_quotient [all]   `all`: every divisor's significand instead of a sample */
#include "cpu_run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROW = 256, ROWS = 4096, N = ROW * ROWS };
static float x[N], y[ROWS], q[N];

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static uint64_t state = 88172645463325252u;
static uint32_t draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* A kernel Q[i] = X[i] / Y[i / ROW]. */
static Func *build(Session *s)
{
    Module *m = ir_module_new(s);
    Func *f = ir_func_new(m, "divide", true);
    int n = ir_dim_new(f, "N", -1), rows = ir_dim_new(f, "M", -1);
    const Type *t = type_tensor(s, DT_F32, 1);
    Value *from = ir_param_new(f, "X", PARAM_IN, t, &n), *by = ir_param_new(f, "Y", PARAM_IN, t, &rows),
          *to = ir_param_new(f, "Q", PARAM_OUT, t, &n);
    int64_t row[1] = { ROW }, one[1] = { 1 };
    Builder b = ir_at_end(f->body);
    Value *token = ir_emit(&b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, 2)), NULL);
    Value *id = ir_emit(&b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, 0)), NULL);
    Value *at = ir_bin(&b, OP_MUL, id, ir_index(&b, ROW));
    Value *v = ir_op(&b, OP_LOAD, NULL, ATTRS(a_ints(ATTR_EXTENTS, row, 1)), from, at);
    Value *d = ir_op(&b, OP_LOAD, NULL, ATTRS(a_ints(ATTR_EXTENTS, one, 1)), by, id);
    v = ir_bin(&b, OP_DIV, v, ir_op(&b, OP_BROADCAST, v->type, NO_ATTRS, d));
    ir_op(&b, OP_STORE, NULL, ATTRS(a_ints(ATTR_EXTENTS, row, 1)), to, at, v, token);
    ir_build(&b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    f->grid = ir_block_new(f, NULL);
    for (int k = 0; k < f->n_params; k++) ir_block_arg(f->grid, f->params[k].type, f->params[k].name);
    Builder g = ir_at_end(f->grid);
    Value *programs = ir_emit(&g, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, rows)), NULL);
    ir_build(&g, OP_YIELD, &programs, 1, NO_ATTRS, NULL, 0);
    return f;
}

static uint64_t inverse(uint64_t odd) /* modulo 2^64 */
{
    uint64_t r = odd;
    for (int k = 0; k < 6; k++) r *= 2 - odd * r;
    return r;
}

/* Significands X in [2^23, 2^24) with X 2^t = M Y + k, where M is odd and has 25 bits: X / Y lies k / 2Y of
 * its last place beside the middle between two numbers, M / 2^t. At most `most` of them. */
static int hard(uint32_t Y, uint32_t *found, int most)
{
    int n = 0, zeros = __builtin_ctz(Y);
    for (int t = 24; t <= 25; t++)
        for (int k = -8; k <= 8; k++) {
            if (!k || __builtin_ctz((unsigned)abs(k)) != zeros) continue;
            uint64_t step = 1ull << (t - zeros);
            uint64_t M = (uint64_t)(-(k / (1 << zeros))) * inverse(Y >> zeros) & (step - 1);
            for (; M < 1u << 25; M += step) {
                uint64_t X = (M * Y + (uint64_t)(int64_t)k) >> t;
                bool has = M >= 1u << 24 && X >= 1u << 23 && X < 1u << 24 && (t == 24) == (X >= Y);
                if (has && n < most) found[n++] = (uint32_t)X;
            }
        }
    return n;
}

/* A number with this significand in [2^23, 2^24), of any sign, and with an exponent within `reach`. */
static float scaled(uint32_t significand, int reach)
{
    float v = ldexpf((float)significand, -23 + (int)(draw() % (2u * (unsigned)reach)) - reach);
    return draw() & 1 ? -v : v;
}

static void fill_hard(int row, uint32_t Y)
{
    uint32_t found[64];
    int n = hard(Y, found, 64);
    y[row] = scaled(Y, 24);
    for (int k = 0; k < ROW; k++)
        x[row * ROW + k] = scaled(k < n ? found[k] : (draw() & 0x7fffff) | 0x800000, 100);
}

/* Rows 0 to 15: nothing but numbers in reach, or all kinds; by all kinds. */
static void fill_special(void)
{
    static const uint32_t kinds[] = { 0, 1, 0x7fffff, 0x800000, 0x800001, 0x0d000000, 0x0d800000, 0x0d800001,
        0x33800000, 0x337fffff, 0x3f800000, 0x3f7fffff, 0x4b800000, 0x4b800001, 0x71800000, 0x71800001,
        0x7f000000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fc001ff, 0x7fffffff };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int r = 0; r < 4 * KINDS; r++) {
        y[r] = of_bits(kinds[r % KINDS] | (r / KINDS & 1 ? 0x80000000u : 0));
        for (int k = 0; k < ROW; k++) {
            bool plain = r >= 2 * KINDS && k % 16;
            uint32_t kind = kinds[draw() % KINDS] | (draw() & 0x80000000u);
            x[r * ROW + k] = plain ? scaled((draw() & 0x7fffff) | 0x800000, 100) : of_bits(kind);
            if (r >= 2 * KINDS && k / 16 % 2 && !(k % 16)) x[r * ROW + k] = 1;
        }
    }
    for (int k = 0; k < ROW; k++) x[k] = 0x1p-100f; /* the least in reach, by 0 */
    for (int k = 0; k < ROW; k++) x[18 * ROW + k] = k & 1 ? 0x1p-100f : 0x1.000002p-100f; /* by infinity */
}

static int wrong(const char *cpu)
{
    int n = 0;
    for (int i = 0; i < N; i++) {
        float want = x[i] / y[i / ROW];
        bool same = isnan(want) ? isnan(q[i]) : bits_of(want) == bits_of(q[i]);
        if (!same && n++ < 10)
            printf("%s: %a / %a is %a, want %a\n", cpu ? cpu : "host", (double)x[i], (double)y[i / ROW],
                (double)q[i], (double)want);
    }
    return n;
}

static int run(const char *cpu, bool all)
{
    Session s;
    CpuRun r = { 0 };
    volatile int failed = 1;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Func *fn = build(&s);
        InterpArg args[3] = { { .data = x, .shape = { N }, .stride = { 1 } },
            { .data = y, .shape = { ROWS }, .stride = { 1 } },
            { .data = q, .shape = { N }, .stride = { 1 } } };
        BackendOptions o = { .opt_level = 2, .cpu = cpu, .verify_each = true };
        if (ir_verify(fn->module) && cpu_run_compile(&s, fn, &o, &r) && cpu_run_bind(&s, fn, args, &r)) {
            uint32_t step = all ? 1 : 509, first = 1u << 23;
            failed = 0;
            for (uint32_t Y = first; Y < 1u << 24 && !failed; Y += ROWS * step) {
                for (int row = 0; row < ROWS; row++) {
                    uint32_t next = Y + (uint32_t)row * step;
                    fill_hard(row, next < 1u << 24 ? next : 0xffffff);
                }
                if (Y == first) fill_special();
                memset(q, 0, sizeof q);
                failed = cpu_run_launch(&r) != 0 || wrong(cpu) > 0;
            }
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

int main(int argc, char **argv)
{
    bool all = argc > 1 && !strcmp(argv[1], "all");
    int failures = run(NULL, all);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) failures += run("x86-64-v3", all);
    failures += run("x86-64-v2", all);
    printf("%d failures\n", failures);
    return failures != 0;
}
