/* test_pairs.c: products of few columns or rows of 8-bit integers, of which one operand is masked, so that
 * sums of two products may fit 16 bits. The results of extreme values are the interpreter's, for masks whose
 * sums just fit and just do not, for sums that fill 16 bits after some vectors, and for two products in turn
 * with different masks. The assembly has vpmaddubsw where the sums fit, and only there. */
#include "op_kernel.h"
#include <stdio.h>
#include <string.h>

enum { N_VALUES = 4096, ROWS = 24 };
static Scalar ends[N_VALUES], all[N_VALUES], sums[N_VALUES];

static void fill(void)
{
    uint32_t state = 7;
    for (int i = 0; i < N_VALUES; i++) {
        state = state * 1664525 + 1013904223;
        ends[i] = scalar_int(i % 512 < 256 ? 0x80 : state >> 31 ? 0xff : 0x7f);
        all[i] = scalar_int(i % 512 < 256 ? 0xff : state >> 24);
        sums[i] = scalar_int(state & 1 ? INT32_MAX : INT32_MIN);
    }
}

static Value *masked(Kernel *k, DType d, const int64_t *shape, const Scalar *values, int mask)
{
    Scalar wrapped[N_VALUES];
    for (int i = 0; i < N_VALUES; i++) wrapped[i] = scalar_int(scalar_wrap(d, values[i].i));
    Value *v = kernel_load_all(k, kernel_tensor(k, PARAM_IN, d, 2, shape, wrapped, N_VALUES));
    if (mask < 0) return v;
    Value *m = ir_splat(&k->b, ir_const_int(&k->b, d, mask), 2, shape);
    return ir_op(&k->b, OP_AND, NULL, NO_ATTRS, v, m);
}

/* What a case is: the masks of the left operands of two products in turn (-1: none; 0: no second product), of
 * `masked_type`, by others of `type`; whether sums of pairs fit. */
typedef struct Case {
    DType masked_type, type;
    int mask, second;
    bool fits;
} Case;
static const Case cases[] = {
    { DT_U8, DT_I8, 15, 0, true },
    { DT_U8, DT_I8, 15, 1, true },
    { DT_U8, DT_I8, 15, 127, true },
    { DT_U8, DT_I8, 127, 15, true },
    { DT_U8, DT_I8, 127, 0, true },
    { DT_I8, DT_I8, 127, 0, true },
    { DT_I8, DT_U8, 63, 31, true },
    { DT_U8, DT_U8, 64, 0, true },
    { DT_U8, DT_U8, 127, 0, false },
    { DT_U8, DT_I8, 255, 0, false },
    { DT_I8, DT_U8, 127, 0, false },
    { DT_I8, DT_I8, -1, 0, false },
};

static Value *product_of(Kernel *k, const Case *c, int mask, int64_t deep, int64_t columns, Value *acc)
{
    static const int64_t order[] = { 1, 0 };
    Value *x = masked(k, c->masked_type, (int64_t[]){ ROWS, deep }, all, mask),
          *y = masked(k, c->type, (int64_t[]){ columns, deep }, ends, -1);
    y = ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, 2)), y);
    return ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, acc);
}

static bool has_pairs(Kernel *k, const char *cpu)
{
    BackendOptions o = { .opt_level = 2, .cpu = cpu, .emit = EMIT_ASM };
    CpuRun r;
    return cpu_run_compile(&k->s, k->f, &o, &r) && strstr(r.artifact.data, "vpmaddubsw");
}

static void check(bool ok, const Case *c, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s & %d by %s: %s\n", dtype_name(c->masked_type), c->mask, dtype_name(c->type), what);
    failures++;
}

/* others: the assembly for other processors is looked at too, which no extent changes. */
static void run(const Case *c, int64_t deep, int64_t columns, bool others)
{
    const BackendOptions v3 = { .opt_level = 2, .cpu = "x86-64-v3", .verify_each = true };
    const int64_t shape[2] = { ROWS, columns };
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = &v3;
    if (!setjmp(k->s.oom)) {
        kernel_open_func(k);
        Value *acc = kernel_load_all(k, kernel_tensor(k, PARAM_IN, DT_I32, 2, shape, sums, N_VALUES));
        acc = product_of(k, c, c->mask, deep, columns, acc);
        if (c->second) acc = product_of(k, c, c->second, deep, columns, acc);
        kernel_output(k, acc);
        kernel_finish(k, "sums of pairs");
        check(has_pairs(k, "x86-64-v3") == c->fits, c, c->fits ? "no vpmaddubsw" : "vpmaddubsw");
        if (others) {
            check(!has_pairs(k, "znver4"), c, "vpmaddubsw beside vpdpbusd");
            check(!has_pairs(k, "x86-64-v2"), c, "vpmaddubsw where there is no AVX2");
            check(has_pairs(k, "skylake-avx512") == c->fits, c,
                c->fits ? "no vpmaddubsw of 64 bytes" : "vpmaddubsw of 64 bytes");
        }
    }
    kernel_end(k);
}

int main(void)
{
    static const int64_t depths[] = { 32, 64, 160 }, columns[] = { 1, 3, 4, 16 };
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("this machine has no AVX2\n");
        return 77;
    }
    fill();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
                run(&cases[c], depths[d], columns[n], depths[d] == 64 && columns[n] == 4);
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
