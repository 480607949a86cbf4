/* The table of matrix instructions (ir/target/matrix.def) and the table of targets (ir/target/targets.def):
 * what each row says must agree with itself, and with a few facts that the ISA documents state. */
#include "ir/target/matrix.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = { 8, 16, 32, 64, 96, 128 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* The numbers of "mfma_32x32x16". */
static bool shape_of(const char *name, long shape[3])
{
    char *at = strchr(name, '_');
    for (int k = 0; k < 3 && at; k++) {
        char *end;
        shape[k] = strtol(at + 1, &end, 10);
        at = k < 2 && *end != 'x' ? NULL : end;
    }
    return at && !*at;
}

/* A row's fragment holds elements of the product's type, and its instruction, `steps` times along K, computes
 * it. */
static void check_row(const Target *t, const MatrixInstr *r, DType d, bool tf32)
{
    const LayoutMmaInfo *info = layout_mma_info(r->fragment);
    long shape[3];
    CU_ASSERT_EQUAL(info->bits, dtype_bits(d));
    CU_ASSERT_EQUAL(info->lanes, t->wave);
    CU_ASSERT_PTR_EQUAL(matrix_instr_of(t, r->fragment, d, tf32), r);
    if (!r->instruction) return;
    CU_ASSERT_EQUAL(t->kind, TARGET_HIP);
    CU_ASSERT_FATAL(shape_of(r->instruction, shape));
    CU_ASSERT_EQUAL(shape[0], info->m);
    CU_ASSERT_EQUAL(shape[1], info->n);
    CU_ASSERT_EQUAL(shape[2] * r->steps, info->k);
}

static void test_rows(void)
{
    int found = 0;
    for (size_t i = 0; target_at(i); i++)
        for (int d = 0; d < DT_COUNT; d++)
            for (int all = 0; all < 2 * SIZES * SIZES * SIZES; all++) {
                const Target *t = target_at(i);
                bool tf32 = all % 2;
                int64_t m = sizes[all / 2 % SIZES], n = sizes[all / 2 / SIZES % SIZES],
                        k = sizes[all / 2 / SIZES / SIZES];
                const MatrixInstr *r = matrix_instr(t, (DType)d, tf32, m, n, k);
                if (!r) continue;
                found++;
                CU_ASSERT(m > r->beyond && n > r->beyond && m % r->m == 0 && k % r->k == 0);
                check_row(t, r, (DType)d, tf32);
            }
    CU_ASSERT(found > 10000);
}

static const char *name_of(const char *target, DType d, bool tf32, int64_t m, int64_t n, int64_t k)
{
    const MatrixInstr *r = matrix_instr(target_find(target), d, tf32, m, n, k);
    return r ? layout_mma_info(r->fragment)->name : "fma";
}

/* PTX ISA, target notes of mma; AMD's matrix instruction calculator. */
static void test_documented(void)
{
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_80", DT_F16, false, 64, 64, 64), "m16n8k16");
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_80", DT_F64, false, 64, 64, 64), "m8n8k4_f64");
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_90", DT_F64, false, 64, 64, 64), "m16n8k16_f64");
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_90", DT_F64, false, 8, 64, 64), "m8n8k4_f64");
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_90", DT_F32, false, 64, 64, 64), "fma");
    CU_ASSERT_STRING_EQUAL(name_of("cuda:sm_90", DT_F32, true, 64, 64, 64), "m16n8k8_tf32");
    CU_ASSERT(!matrix_has(target_find("cuda:sm_86"), DT_F8E4M3));
    CU_ASSERT(matrix_has(target_find("cuda:sm_89"), DT_F8E4M3));
    CU_ASSERT(!matrix_has(target_find("hip:gfx942"), DT_F8E5M2)); /* its fp8 is another one */
    CU_ASSERT(matrix_has(target_find("hip:gfx950"), DT_F8E5M2));
    CU_ASSERT(!matrix_has(target_find("hip:gfx942"), DT_U8)); /* MFMA multiplies signed bytes */
    CU_ASSERT(!matrix_has(target_find("cpu"), DT_F32));
    CU_ASSERT_STRING_EQUAL(name_of("hip:gfx942", DT_F32, true, 16, 64, 64), "mfma_16x16x8_xf32");
    CU_ASSERT_STRING_EQUAL(name_of("hip:gfx90a", DT_F32, true, 16, 64, 64), "mfma_16x16x4");
    CU_ASSERT_STRING_EQUAL(name_of("hip:gfx950", DT_I8, false, 16, 64, 64), "mfma_16x16x64_8");
    CU_ASSERT_STRING_EQUAL(name_of("hip:gfx950", DT_I8, false, 16, 64, 32), "mfma_16x16x32_8");
}

static void test_targets(void)
{
    for (size_t i = 0; target_at(i); i++) {
        const Target *t = target_at(i);
        if (t->kind == TARGET_CPU) continue;
        CU_ASSERT_EQUAL(t->sm_registers % (t->simds * t->wave), 0);
        CU_ASSERT_EQUAL(t->sm_threads % (t->simds * t->wave), 0);
        CU_ASSERT(t->cta_threads <= t->sm_threads && t->cta_threads % t->wave == 0);
        CU_ASSERT(t->shared_bytes + t->cta_shared_bytes <= t->sm_shared_bytes);
        CU_ASSERT(t->max_registers <= t->sm_registers / (t->simds * t->wave));
        CU_ASSERT(t->sm_ctas == 0 || t->sm_ctas * t->wave <= t->sm_threads);
        CU_ASSERT_EQUAL(t->n_sms % t->chiplets, 0);
        CU_ASSERT(t->cluster_ctas >= 1 && t->matrix != MATRIX_NONE);
        CU_ASSERT_EQUAL(t->lds != LDS_NONE, t->kind == TARGET_HIP);
        CU_ASSERT_EQUAL(matrix_has(t, DT_F8E4M3) && t->kind == TARGET_CUDA, target_has(t, TF_MMA_FP8));
    }
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "rows", test_rows }, { "documented", test_documented },
        { "targets", test_targets } };
    return unit_run(
        "matrix instructions and targets", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
