/* test_products.c: products by the vector units of x86-64, beyond few rows: results against the interpreter
 * for all pairs of 8-bit types, whose dot products take an unsigned and a signed operand, and for 16 bits, at
 * edges, for few elements along K and for operands that lie either way, packed alone or twice; sums of
 * extreme values, exact modulo 2^32; an operand that two products take, with and without an offset; two
 * products that differ in their extents and in how their sums begin, which have one function. The assembly
 * for each processor has its instruction, and never vpmaddubsw, which would saturate. */
#include "op_kernel.h"
#include <stdio.h>
#include <string.h>

enum { N_VALUES = 9000, N_TYPES = 6, N_INTEGERS = 4 };
static const DType types[N_TYPES][3] = { { DT_I8, DT_I8, DT_I32 }, { DT_I8, DT_U8, DT_I32 },
    { DT_U8, DT_I8, DT_I32 }, { DT_U8, DT_U8, DT_I32 }, { DT_BF16, DT_BF16, DT_F32 },
    { DT_F16, DT_F16, DT_F32 } };
static Scalar a[N_VALUES], b[N_VALUES], c[N_VALUES];

static uint32_t next(void)
{
    static uint32_t state = 7;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

/* Every value of the type, or its ends alone; floats whose sums are exact. */
static void fill(DType d, bool ends, Scalar *out)
{
    for (int i = 0; i < N_VALUES; i++) {
        int64_t v = next() % 256;
        if (dtype_is_float(d)) {
            out[i] = scalar_float((double)v / 8 - 16);
            continue;
        }
        if (ends) v = v % 4 ? 0x80 : 0x7f + 0x80 * (v % 8 == 4);
        out[i] = scalar_int(d == DT_I32 ? (v & 1 ? INT32_MAX : INT32_MIN) : scalar_wrap(d, v));
    }
}

/* One product that nothing else shares its operands with: rows of B are packed group by group. */
static void one_product(Kernel *k, const DType t[3], const int64_t size[3])
{
    kernel_open_func(k);
    Value *x = kernel_load_all(
              k, kernel_tensor(k, PARAM_IN, t[0], 2, (int64_t[]){ size[0], size[2] }, a, N_VALUES)),
          *y = kernel_load_all(
              k, kernel_tensor(k, PARAM_IN, t[1], 2, (int64_t[]){ size[2], size[1] }, b, N_VALUES)),
          *sums = kernel_load_all(k, kernel_tensor(k, PARAM_IN, t[2], 2, size, c, N_VALUES));
    kernel_output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, sums));
    kernel_finish(k, "one product");
}

static void product(const BackendOptions *o, const DType t[3], const int64_t size[3], int turned, bool ends)
{
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = o;
    if (!setjmp(k->s.oom)) {
        fill(t[0], ends, a);
        fill(t[1], ends, b);
        fill(t[2], ends, c);
        if (turned < 0) one_product(k, t, size);
        else kernel_product(k, t, size, turned, a, b, c, N_VALUES);
    }
    kernel_end(k);
}

static void test_results(void)
{
    static const int64_t sizes[][3] = { { 17, 17, 1 }, { 17, 33, 3 }, { 40, 64, 4 }, { 33, 47, 21 },
        { 128, 70, 64 }, { 19, 200, 40 }, { 63, 65, 131 } };
    const BackendOptions host = { .opt_level = 2, .verify_each = true },
                         v3 = { .opt_level = 2, .cpu = "x86-64-v3", .verify_each = true };
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int turned = -1; turned < 4; turned++) {
                product(&host, types[t], sizes[z], turned, turned % 2);
                if (turned < (int)z % 4) product(&v3, types[t], sizes[z], turned, true);
            }
}

/* i8 by i8 and by u8: the first product takes its rows with an offset, the second as they are. */
static void test_shared_operand(void)
{
    static const int64_t as[2] = { 20, 24 }, bs[2] = { 24, 40 }, cs[2] = { 20, 40 };
    const BackendOptions host = { .opt_level = 2, .verify_each = true };
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = &host;
    if (!setjmp(k->s.oom)) {
        fill(DT_I8, false, a);
        fill(DT_I8, true, b);
        fill(DT_U8, false, c);
        kernel_open_func(k);
        Value *x = kernel_load_all(k, kernel_tensor(k, PARAM_IN, DT_I8, 2, as, a, N_VALUES)),
              *y = kernel_load_all(k, kernel_tensor(k, PARAM_IN, DT_I8, 2, bs, b, N_VALUES)),
              *z = kernel_load_all(k, kernel_tensor(k, PARAM_IN, DT_U8, 2, bs, c, N_VALUES)),
              *zero = ir_splat(&k->b, ir_const_int(&k->b, DT_I32, 0), 2, cs);
        Value *sum = ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, zero);
        kernel_output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, z, sum));
        kernel_finish(k, "one operand of two products");
    }
    kernel_end(k);
}

/* --- assembly ---------------------------------------------------------------------------------------- */

static const struct {
    const char *cpu, *has, *lacks;
} instructions[] = {
    { "znver4", "vpdpbusd", "vpdpwssd" },
    { "cascadelake", "vpdpbusd", "vpmaddwd" },
    { "alderlake", "vpdpbusd", "zmm" },
    { "x86-64-v4", "vpmaddwd", "vpdpbusd" },
    { "x86-64-v3", "vpmaddwd", "vpdpbusd" },
};

static void expect(bool ok, const char *cpu, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s: %s\n", cpu, what);
    failures++;
}

static void check_assembly(const DType t[3])
{
    static const int64_t as[2] = { 64, 64 };
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    if (!setjmp(k->s.oom)) {
        kernel_open_func(k);
        fill(t[0], false, a);
        Value *x = kernel_load_all(k, kernel_tensor(k, PARAM_IN, t[0], 2, as, a, N_VALUES)),
              *y = kernel_load_all(k, kernel_tensor(k, PARAM_IN, t[1], 2, as, a, N_VALUES)),
              *zero = ir_splat(&k->b, ir_const_int(&k->b, DT_I32, 0), 2, as);
        kernel_output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, zero));
        kernel_only = &(BackendOptions){ .cpu = "x86-64-v2" };
        kernel_finish(k, "a product of 64 x 64 x 64");
        for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
            const char *cpu = instructions[i].cpu;
            BackendOptions o = { .opt_level = 2, .cpu = cpu, .emit = EMIT_ASM };
            CpuRun r;
            bool ok = cpu_run_compile(&k->s, k->f, &o, &r);
            expect(ok, cpu, "does not compile");
            if (!ok) continue;
            expect(strstr(r.artifact.data, instructions[i].has) != NULL, cpu, instructions[i].has);
            expect(!strstr(r.artifact.data, instructions[i].lacks), cpu, instructions[i].lacks);
            expect(!strstr(r.artifact.data, "vpmaddubsw"), cpu, "vpmaddubsw");
        }
    }
    kernel_end(k);
}

/* --- one function for two products ---------------------------------------------------------------------- */

/* The functions of products in the text. */
static int functions(const char *llvm)
{
    int n = 0;
    for (const char *at = llvm; (at = strstr(at, "define internal void @tile.mma.")); at++) n++;
    return n;
}

/* An operand that is computed, so that its product has no ends of windows. */
static Value *doubled(Kernel *k, DType d, const int64_t *shape, const Scalar *data)
{
    Value *v = kernel_load_all(k, kernel_tensor(k, PARAM_IN, d, 2, shape, data, N_VALUES));
    return ir_op(&k->b, OP_ADD, NULL, NO_ATTRS, v, v);
}

static Value *filled(Kernel *k, DType d, int value, const int64_t *shape)
{
    Value *v = dtype_is_float(d) ? ir_const_float(&k->b, d, value) : ir_const_int(&k->b, d, value);
    return ir_splat(&k->b, v, 2, shape);
}

/* Two products of `rows` rows: one of 64 columns, which begins at zero, and one of `columns`. */
static void two_products(const DType t[3], int64_t rows, int64_t columns, int expected)
{
    const int64_t x[2] = { rows, 24 }, y[2] = { 24, 64 }, sums[2] = { rows, 64 }, p[2] = { rows, 40 },
                  q[2] = { 40, columns }, more[2] = { rows, columns };
    const BackendOptions v3 = { .opt_level = 2, .cpu = "x86-64-v3", .verify_each = true };
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = &v3;
    if (!setjmp(k->s.oom)) {
        fill(t[0], false, a);
        fill(t[1], false, b);
        kernel_open_func(k);
        Value *operands[4] = { doubled(k, t[0], x, a), doubled(k, t[1], y, b), doubled(k, t[0], p, b),
            doubled(k, t[1], q, a) };
        kernel_output(
            k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, operands[0], operands[1], filled(k, t[2], 0, sums)));
        kernel_output(
            k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, operands[2], operands[3], filled(k, t[2], 3, more)));
        kernel_finish(k, "two products");
        BackendOptions o = v3;
        CpuRun r;
        o.emit = EMIT_LLVM;
        bool ok = cpu_run_compile(&k->s, k->f, &o, &r);
        expect(ok && functions(r.artifact.data) == expected, "x86-64-v3", "functions of two products");
    }
    kernel_end(k);
}

static void test_shared_function(void)
{
    static const DType f32[3] = { DT_F32, DT_F32, DT_F32 };
    for (int64_t rows = 18; rows < 26; rows++) two_products(f32, rows, 128, 1);
    for (size_t t = 0; t < N_TYPES; t++) two_products(types[t], 33, 64, 1);
    two_products(f32, 24, 72, 2); /* the second has a panel of fewer columns */
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("this machine has no AVX2\n");
        return 77;
    }
    test_results();
    test_shared_operand();
    test_shared_function();
    for (size_t t = 0; t < N_INTEGERS; t++) check_assembly(types[t]);
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
