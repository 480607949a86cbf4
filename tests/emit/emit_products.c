/* emit_products: every row of ir/matrix.def is emitted, for every target whose matrix unit has it and for
 * every pair of types that it takes.
 *
 *     emit_products                                                         exit status 0, or 1 */
#include "ir/matrix.h"
#include "one_kernel.h"
#include <string.h>

static const int64_t sizes[] = { 8, 16, 32, 48, 64, 128 };
enum { SIZES = sizeof sizes / sizeof *sizes, MOST_ROWS = 64 };

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

static bool emitted(const Target *t, const char *instr, DType a, DType b, bool tf32, Shape x)
{
    Session s;
    GpuCode code;
    Func *lowered = NULL;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Func *f = build(&s, a, b, tf32, x);
        ok = ir_verify(f->module) && gpu_compile(&s, f, t, NULL, &code, &lowered) && !s.n_errors &&
             code.text_len && ir_holds(lowered->body, OP_MMA_SYNC);
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

int main(void)
{
    int done = 0, failed = 0;
    const Target *t;
    for (size_t i = 0; (t = target_at(i)); i++)
        for (int a = 0; t->kind != TARGET_CPU && a < DT_COUNT; a++)
            for (int tf32 = 0; tf32 <= (a == DT_F32); tf32++) {
                const MatrixInstr *rows[MOST_ROWS];
                Shape shapes[MOST_ROWS];
                int n = rows_of(t, (DType)a, tf32, rows, shapes);
                for (int k = 0; k < n; k++)
                    for (int b = 0; b < DT_COUNT; b++) {
                        if (!pairs(t, (DType)a, (DType)b)) continue;
                        const char *instr = layout_mma_info(rows[k]->fragment)->name;
                        failed += !emitted(t, instr, (DType)a, (DType)b, tf32, shapes[k]);
                        done++;
                    }
            }
    printf("%d products emitted, %d failed\n", done, failed);
    return failed > 0 || done < 100;
}
