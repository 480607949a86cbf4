/* transpose.h: what transpose.c and mma_pack.c share: a tile that is transposed on its way to a buffer. */
#pragma once
#include "backends/cpu/product/mma.h"

typedef struct Transpose {
    Gen *g;
    Step *s;
    int t, l; /* the axes along which elements are contiguous in memory (t) and in the buffer (l) */
    LLVMValueRef coord[TILE_MAX_RANK];
} Transpose;

/* Computes elements of the value along axis t, without reading the buffer that is being filled; transpose_put
 * stores elements along axis l. */
LLVMValueRef transpose_eval(Transpose *, int lanes);
void transpose_put(Transpose *, LLVMValueRef);
/* x[i] are n vectors of n pieces of `piece` elements; transposed in place in log2 n rounds of two-operand
 * shuffles. */
void transpose_vectors(Gen *, LLVMValueRef *x, int n, int piece);

/* At the beginning of a row of a nest: if the nest stores a transposed tile, fetches a part of the next one.
 */
void transpose_fetch(Gen *, const Step *nest, LLVMValueRef row);

/* mma_pack.c: packs the operand A column by column, as its elements lie; rows whose elements lie side by side
 * as groups along K. */
void mma_pack_columns(Transpose *);
void mma_pack_groups(Transpose *);
/* Address of element (row, column) of panels; `row` counts groups in FORM_GROUPS. */
LLVMValueRef mma_panel_ptr(Gen *, const Buf *, LLVMValueRef row, LLVMValueRef column);
/* Elements of type `from` as the operand holds them. */
LLVMValueRef mma_as_packed(Gen *, const Buf *, DType from, LLVMValueRef);
