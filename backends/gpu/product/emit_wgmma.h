/* emit_wgmma.h: what products of warpgroups have in common, whether their sums stay in the matrix unit
 * (emit_wgmma.c) or leave it every few steps of K (emit_promote.c). */
#pragma once
#include "backends/gpu/emit.h"

/* The operands of a product: b is in shared memory, a there or in registers. */
typedef struct WgmmaOperands {
    LayoutWgmma a, b;        /* views of shared memory; `a` is used only when the operand is there */
    bool registers;          /* a is in registers */
    const char *at_a, *at_b; /* the names of the descriptors' lower words */
} WgmmaOperands;

/* The views of the operands of `i`, or an internal error. */
WgmmaOperands wgmma_operands(Emit *, const Instr *i);
/* Declares the descriptors under the names at_b and, if a is in shared memory, at_a. */
void wgmma_declare(Emit *, const Instr *i, const WgmmaOperands *);
/* For steps from .. from + n of K: the number that each step adds to a descriptor, at `row` (or column) of
 * the operand. */
const int32_t *wgmma_steps(Emit *, const LayoutWgmma *, int row, int from, int n);
/* The parts of the columns that warpgroups share: 1 if each of them has whole rows of the result. */
int wgmma_column_parts(const Layout *result);
/* The name of the prelude function that multiplies with so many columns. */
const char *wgmma_function(Emit *, const Instr *i, const WgmmaOperands *, int columns);
