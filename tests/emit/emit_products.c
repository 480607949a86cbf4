/* emit_products: every row of ir/target/matrix.def is emitted, for every target whose matrix unit has it and
 * for every pair of types that it takes.
 *
 *     emit_products                   exit status 0, or 1
 *     emit_products --compile         the functions that products of CUDA targets call, and ldmatrix, are
 * also compiled by NVRTC and ptxas, and must become the instruction that the row names. Exit status 77: no
 * NVRTC */
#include "backends/gpu/prelude/prelude.h"
#include "ir/target/matrix.h"
#include "one_kernel.h"
#include "tests/emit/nvrtc.h"
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = { 8, 16, 32, 48, 64, 128 };
enum { SIZES = sizeof sizes / sizeof *sizes, MOST_ROWS = 64, MOST_CALLS = 64 };

/* Functions of the prelude that the products of a target call, and the PTX that they must become. */
typedef struct Calls {
    struct {
        char name[48], ptx[96];
        const char *element; /* of the sum; NULL: ldmatrix */
    } at[MOST_CALLS];
    int n;
} Calls;

typedef struct Shape {
    int64_t m, n, k;
} Shape;

/* A tile of rows x columns of the parameter k. */
static Value *load(Builder *b, Func *f, DType d, int k, int64_t rows, int64_t columns)
{
    int64_t extents[2] = { rows, columns };
    int dims[2] = { ir_dim_new(f, NULL, rows), ir_dim_new(f, NULL, columns) };
    return kernel_load(b, f, d, k, 2, extents, dims);
}

/* A kernel that stores the product of two tiles. */
static Func *build(Session *s, DType a, DType b, bool tf32, Shape x)
{
    Func *f = ir_func_new(ir_module_new(s), "product", true);
    Builder at = ir_at_end(f->body);
    Value *v[3] = { load(&at, f, a, 0, x.m, x.k), load(&at, f, b, 1, x.k, x.n) };
    DType sum = a == DT_F64 ? DT_F64 : dtype_is_int(a) ? DT_I32 : DT_F32;
    v[2] = load(&at, f, sum, 2, x.m, x.n);
    Value *r = ir_emit(
        &at, OP_MMA, v, 3, ATTRS(a_int(ATTR_PRECISION, tf32 ? PRECISION_TF32 : PRECISION_FULL)), NULL);
    int dims[2] = { ir_dim_new(f, NULL, x.m), ir_dim_new(f, NULL, x.n) };
    kernel_end(&at, f, r, dims);
    return f;
}

static void add_call(Calls *c, const char *name, size_t len, const char *element, const char *ptx)
{
    for (int k = 0; k < c->n; k++)
        if (strlen(c->at[k].name) == len && !strncmp(c->at[k].name, name, len)) return;
    if (c->n == MOST_CALLS || len >= sizeof c->at->name) abort();
    snprintf(c->at[c->n].name, sizeof c->at->name, "%.*s", (int)len, name);
    snprintf(c->at[c->n].ptx, sizeof c->at->ptx, "%s", ptx);
    c->at[c->n++].element = element;
}

/* As PTX calls the type of an operand. */
static const char *ptx_type(DType d, bool tf32)
{
    static const char *const names[DT_COUNT] = { [DT_F16] = "f16",
        [DT_BF16] = "bf16",
        [DT_F64] = "f64",
        [DT_I8] = "s8",
        [DT_U8] = "u8",
        [DT_F8E4M3] = "e4m3",
        [DT_F8E5M2] = "e5m2" };
    return tf32 ? "tf32" : names[d] ? names[d] : "none";
}

/* Adds the function of mma.sync that the text calls for this product. False: it calls none. */
static bool add_product(Calls *c, const char *text, const MatrixInstr *row, DType a, DType b, bool tf32)
{
    static const char begin[] = "void mma_";
    const LayoutMmaInfo *info = layout_mma_info(row->fragment);
    const char *at = strstr(text, begin), *sum = "f32", *element = "float";
    char ptx[96];
    if (!at) return false;
    if (dtype_is_int(a)) sum = "s32", element = "i32";
    if (a == DT_F64) sum = "f64", element = "double";
    snprintf(ptx, sizeof ptx, "mma.sync.aligned.m%dn%dk%d.row.col.%s.%s.%s.%s", info->m, info->n, info->k,
        sum, ptx_type(a, tf32), ptx_type(b, tf32), sum);
    at += strlen("void ");
    add_call(c, at, strcspn(at, "("), element, ptx);
    return true;
}

static bool emitted(
    const Target *t, const MatrixInstr *row, DType a, DType b, bool tf32, Shape x, Calls *calls)
{
    const char *instr = layout_mma_info(row->fragment)->name;
    Session s;
    GpuCode code;
    Func *lowered = NULL;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Func *f = build(&s, a, b, tf32, x);
        ok = ir_verify(f->module) && gpu_compile(&s, f, t, NULL, &code, &lowered) && !s.n_errors &&
             code.text_len && ir_holds(lowered->body, OP_MMA_SYNC);
        if (ok && t->kind == TARGET_CUDA) ok = add_product(calls, code.text, row, a, b, tf32);
    }
    if (!ok)
        kernel_failed(&s,
            arena_printf(&s.arena, "%s %s of %s and %s", t->name, instr, dtype_name(a), dtype_name(b)),
            "no such instruction in the code");
    session_free(&s);
    return ok;
}

/* May B be of type b where A is of type a? Signs of integers differ freely but on MFMA, and formats of fp8.
 */
static bool pairs(const Target *t, DType a, DType b)
{
    bool bytes = dtype_is_int(a) && dtype_is_int(b) && dtype_bytes(a) == 1 && dtype_bytes(b) == 1,
         fp8 = dtype_bits(a) == 8 && dtype_bits(b) == 8 && dtype_is_float(a) && dtype_is_float(b);
    return a == b || (bytes && !target_has(t, TF_MFMA)) || fp8;
}

/* The rows that the target takes for products of this type, each with the first shape for which it is taken.
 */
static int rows_of(const Target *t, DType d, bool tf32, const MatrixInstr **rows, Shape *shapes)
{
    int n = 0;
    for (int all = 0; all < SIZES * SIZES * SIZES; all++) {
        Shape x = { sizes[all / SIZES / SIZES], sizes[all / SIZES % SIZES], sizes[all % SIZES] };
        const MatrixInstr *r = matrix_instr(t, d, tf32, x.m, x.n, x.k);
        bool known = !r;
        for (int k = 0; k < n; k++) known |= rows[k] == r;
        if (known || n == MOST_ROWS) continue;
        rows[n] = r;
        shapes[n++] = x;
    }
    return n;
}

/* --- by NVRTC ---------------------------------------------------------------------------------------- */

static void add_ldmatrix(Calls *c)
{
    for (int k = 0; k < 6; k++) {
        char name[32], ptx[64];
        const char *turned = k >= 3 ? "trans" : "";
        snprintf(name, sizeof name, "ldmatrix_x%d%s%s", 1 << k % 3, *turned ? "_" : "", turned);
        snprintf(ptx, sizeof ptx, "ldmatrix.sync.aligned.m8n8.x%d%s%s.shared.b16", 1 << k % 3,
            *turned ? "." : "", turned);
        add_call(c, name, strlen(name), NULL, ptx);
    }
}

/* A kernel for each function. */
static void write_kernels(const Calls *c, Text *t)
{
    for (int k = 0; k < c->n; k++) {
        const char *element = c->at[k].element ? c->at[k].element : "u32";
        text_printf(t, "extern \"C\" __global__ void k%d(%s *out, const u32 *in) {\n", k, element);
        text_printf(t, "  __shared__ u32 rows[512];\n  alignas(8) u32 a[16], b[8];\n  %s d[4];\n", element);
        text_printf(t, "  for (int i = 0; i < 16; i++) rows[threadIdx.x * 16 + i] = a[i] = in[i];\n");
        text_printf(t, "  for (int i = 0; i < 8; i++) b[i] = in[16 + i];\n");
        text_printf(t, "  for (int i = 0; i < 4; i++) d[i] = out[i];\n");
        if (c->at[k].element) text_printf(t, "  %s(d, a, b);\n", c->at[k].name);
        else text_printf(t, "  %s(d, (u32)__cvta_generic_to_shared(rows));\n", c->at[k].name);
        text_printf(t, "  for (int i = 0; i < 4; i++) out[i + threadIdx.x * 4] = d[i];\n}\n");
    }
}

/* All functions of the target in one translation unit. */
static bool compiled(const Nvrtc *nvrtc, const Target *t, Calls *c)
{
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false;
    if (!setjmp(s.oom)) {
        const char *names[MOST_CALLS], *arch = strchr(t->name, ':') + 1;
        char *log, *ptx;
        Text code, head;
        text_init(&code, &s.arena);
        text_init(&head, &s.arena);
        add_ldmatrix(c);
        write_kernels(c, &code);
        for (int k = 0; k < c->n; k++) names[k] = c->at[k].name;
        gpu_prelude(&s, t, names, NULL, (size_t)c->n, &head);
        text_write(&head, code.data, code.len);
        ok = nvrtc_compile_ptx(nvrtc, head.data, arch, &log, &ptx) && ptx;
        if (!ok) printf("FAIL %s: NVRTC does not take the products:\n%.2000s", t->name, log ? log : "");
        for (int k = 0; ok && k < c->n; k++) {
            if (strstr(ptx, c->at[k].ptx)) continue;
            printf("FAIL %s: %s does not become %s\n", t->name, c->at[k].name, c->at[k].ptx);
            ok = false;
        }
        if (ok) printf("%s: %d functions became their instructions\n", t->name, c->n);
        free(log);
        free(ptx);
    }
    session_free(&s);
    return ok;
}

static bool products_of(const Target *t, Calls *calls, int *done)
{
    int failed = 0;
    for (int a = 0; a < DT_COUNT; a++)
        for (int tf32 = 0; tf32 <= (a == DT_F32); tf32++) {
            const MatrixInstr *rows[MOST_ROWS];
            Shape shapes[MOST_ROWS];
            int n = rows_of(t, (DType)a, tf32, rows, shapes);
            for (int k = 0; k < n; k++)
                for (int b = 0; b < DT_COUNT; b++) {
                    if (!pairs(t, (DType)a, (DType)b)) continue;
                    failed += !emitted(t, rows[k], (DType)a, (DType)b, tf32, shapes[k], calls);
                    ++*done;
                }
        }
    return !failed;
}

int main(int argc, char **argv)
{
    bool compile = argc > 1 && !strcmp(argv[1], "--compile"), ok = true;
    int done = 0;
    const Target *t;
    Nvrtc nvrtc;
    if (compile && !nvrtc_open(&nvrtc)) {
        printf("SKIP: no NVRTC\n");
        return 77;
    }
    for (size_t i = 0; (t = target_at(i)); i++) {
        Calls calls = { .n = 0 };
        if (t->kind == TARGET_CPU || (compile && t->kind != TARGET_CUDA)) continue;
        ok &= products_of(t, &calls, &done);
        if (compile) ok &= compiled(&nvrtc, t, &calls);
    }
    printf("%d products emitted%s\n", done, ok ? "" : ", some failed");
    return !ok || done < 100;
}
