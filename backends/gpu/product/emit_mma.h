/* emit_mma.h: a matrix product of a warp: what its fragments (emit_fragments.c) and its instructions
 * (emit_mma.c) have in common. */
#pragma once
#include "backends/gpu/emit.h"
#include "ir/target/matrix.h"

typedef struct Product {
    Instr *instr;
    const LayoutMmaInfo *info;
    const Layout *c, *frag[2]; /* the fragments of the operands over the whole tile */
    int mt, nt, kt;            /* fragments of one warp */
    /* Products of a batch that the warp computes one after the other: mt counts the rows of one of them, and
     * kt the steps of all. */
    int stacked;
    int chains;         /* sums of each element, which take turns along K and are added behind it */
    const char *others; /* the sums beside the accumulator's own */
    /* the instruction with which the target computes the product; NULL: the fragment is only read */
    const MatrixInstr *row;
    /* AMD, operands exchanged: the instruction of which `steps` together cover the K of the fragment */
    const char *hw;
    int steps;
    int words[2]; /* the 32-bit words of one operand fragment (f64 counts two for each element) */
} Product;

/* Loads the fragment words of operand `side` for step `k` of K (a number or a loop counter) into the array
 * `to`. Returns the number of reads on AMD, or 0 if they are not in vectors. */
int load_fragments(Emit *, const Product *, int side, const Value *view, const char *to, Index *k);
/* Handles an operand that no layout can hold, because it has too many elements for the registers of a warp.
 * The kernel is refused after emission (backend.c), together with everything else that does not fit, so no
 * text is needed. */
void beyond_registers(Emit *, const Instr *, const Type *operand);
