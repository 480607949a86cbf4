/* matrix.c: see matrix.h. */
#include "ir/target/matrix.h"
#include <string.h>

enum {
    /* MatrixUnit, as matrix.def calls them */
    AMPERE = MATRIX_AMPERE,
    ADA = MATRIX_ADA,
    HOPPER = MATRIX_HOPPER,
    BLACKWELL = MATRIX_BLACKWELL,
    CDNA2 = MATRIX_CDNA2,
    CDNA3 = MATRIX_CDNA3,
    CDNA4 = MATRIX_CDNA4,
    RDNA3 = MATRIX_RDNA3,
    /* types of operands */
    I8 = 1 << DT_I8,
    U8 = 1 << DT_U8,
    FP8 = 1 << DT_F8E4M3 | 1 << DT_F8E5M2,
    F16 = 1 << DT_F16,
    BF16 = 1 << DT_BF16,
    F32 = 1 << DT_F32,
    F64 = 1 << DT_F64,
    TF32 = 1 << DT_COUNT,
};

static const MatrixInstr rows[] = {
#define MATRIX(units, types, fragment, beyond, m, k, instruction, steps) \
    { units, types, LAYOUT_##fragment, beyond, m, k, instruction, steps },
#include "ir/target/matrix.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool takes(const MatrixInstr *r, const Target *t, DType d, bool tf32)
{
    unsigned type = d == DT_F32 && tf32 ? TF32 : 1u << d;
    return r->units & t->matrix && r->types & type;
}

const MatrixInstr *matrix_instr(const Target *t, DType d, bool tf32, int64_t m, int64_t n, int64_t k)
{
    for (const MatrixInstr *r = rows; r < rows + ROWS; r++)
        if (takes(r, t, d, tf32) && m > r->beyond && n > r->beyond && m % r->m == 0 && k % r->k == 0)
            return r;
    return NULL;
}

const MatrixInstr *matrix_instr_of(const Target *t, LayoutMma fragment, DType d, bool tf32)
{
    for (const MatrixInstr *r = rows; r < rows + ROWS; r++)
        if (r->fragment == fragment && takes(r, t, d, tf32)) return r;
    return NULL;
}

bool matrix_has(const Target *t, DType d)
{
    for (const MatrixInstr *r = rows; r < rows + ROWS; r++)
        if (takes(r, t, d, false)) return true;
    return false;
}

bool matrix_is_tf32(const MatrixInstr *r) { return r->types == TF32; }

int matrix_name_stem(const char *name)
{
    const char *shape = strchr(name, 'x'), *suffix = shape ? strchr(shape, '_') : NULL;
    return (int)(suffix ? suffix - name : (long)strlen(name));
}
