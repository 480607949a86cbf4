/* emit_run.h: what runs of element-wise operations (emit_tile.c, emit_pairs.c) declare beside their values.
 */
#pragma once
#include "backends/gpu/emit.h"

/* Declares the entry of a lookup's table that this lane holds. */
void declare_table(Emit *, const Instr *);
/* The cosine that a run computes of the operand of sine i, or the sine of that of cosine i; NULL: none. */
const Instr *sincos_partner(Emit *, const Instr *i, uint32_t mark);
/* Whether the partner comes before i, which then has its names already. */
bool sincos_is_done(const Instr *i, const Instr *partner);
/* Declares element x of both, whose operand is `arg`. Returns the name of i's, and that of the other. */
const char *emit_sincos(
    Emit *, const Instr *i, const Instr *partner, int x, const char *arg, const char **other);
/* How many elements that follow each other in registers take their random bits from one block
 * (emit_random.c): 4 or 2 that are side by side along an axis along which the counter counts from a multiple
 * of as many; or 1. */
int random_elements_of_block(Emit *, const Instr *, const Layout *);
