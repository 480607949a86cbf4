/* matrix.h: which matrix instruction computes a product on a target. The rows are those of matrix.def. */
#pragma once
#include "ir/layout/layout.h"
#include "ir/target/target.h"
#include "ir/type.h"

typedef struct MatrixInstr {
    unsigned units, types; /* MatrixUnit; a bit for each DType, and one for tf32 */
    LayoutMma fragment;
    int beyond, m, k; /* conditions on the product, in elements */
    /* AMD, operands exchanged: the instruction of which `steps` compute the fragment; otherwise NULL */
    const char *instruction;
    int steps;
} MatrixInstr;

/* The row for a product of m x k by k x n of this type; NULL: fused multiply-adds. */
const MatrixInstr *matrix_instr(const Target *, DType, bool tf32, int64_t m, int64_t n, int64_t k);
/* The row by which the target computes this fragment of this type; NULL: it has none. */
const MatrixInstr *matrix_instr_of(const Target *, LayoutMma fragment, DType, bool tf32);
/* Whether the target has any matrix instruction for this type. */
bool matrix_has(const Target *, DType);
/* How many characters of an AMD instruction's name come before the suffix for the width of its operands:
 * mfma_32x32x8 of mfma_32x32x8_b16. */
int matrix_name_stem(const char *name);
/* Whether the row is for f32 that is rounded to tf32, and for nothing else. */
bool matrix_is_tf32(const MatrixInstr *);

/* wgmma.c: the names of a type in functions of the prelude and in PTX, and the instruction whose layouts its
 * fragments have. An operand of f32 is used as tf32. NULL: wgmma does not support the type. */
typedef struct WgmmaType {
    DType dtype;
    const char *name, *ptx, *instr;
} WgmmaType;
const WgmmaType *wgmma_type(DType);
const WgmmaType *wgmma_named(const char *name, size_t len);
bool wgmma_columns(DType, int64_t n); /* whether N may be n for operands of this type */
bool wgmma_has(DType a, DType b, int64_t columns);
