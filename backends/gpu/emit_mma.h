/* emit_mma.h: a matrix product of a warp: what its fragments (emit_fragments.c) and its instructions
 * (emit_mma.c) have in common. */
#pragma once
#include "backends/gpu/emit.h"
#include "ir/matrix.h"

typedef struct Product {
    Instr *instr;
    const LayoutMmaInfo *info;
    const Layout *c, *frag[2]; /* the fragments of the operands over the whole tile */
    int mt, nt, kt;            /* fragments of one warp */
    /* the instruction with which the target computes the product; NULL: the fragment is only read */
    const MatrixInstr *row;
    /* AMD, operands exchanged: the instruction of which `steps` together cover the K of the fragment */
    const char *hw;
    int steps;
    int words[2]; /* the 32-bit words of one operand fragment (f64 counts two for each element) */
} Product;

/* Loads fragment words of operand `side` for k-step `k` (a loop counter's name) into the array `to`. AMD: how
 * many reads that takes, 0 where it is not in vectors. */
int load_fragments(Emit *, const Product *, int side, const Value *view, const char *to, const char *k);
/* No layout holds the operand: it has more elements than a warp's registers can be counted for. The kernel is
 * refused for it after emission (backend.c), with what else does not fit; no text is needed. */
void beyond_registers(Emit *, const Instr *, const Type *operand);
