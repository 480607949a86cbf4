/* emit_gathered.h: words that shared memory has of a tensor while atomics change it (shared-atomics). */
#pragma once
#include "backends/gpu/emit.h"

void emit_atomics_open(Emit *, const Instr *);
void emit_atomics_close(Emit *, const Instr *);
/* The name of the variable that tells whether this launch's atomics on the tensor change these words, and
 * whether some launch's do not. */
const char *emit_gathers(Emit *, int param);
bool emit_gathered_some(Emit *, const Instr *atomic);
/* The statement by which the atomic changes the word of the element with this number. */
const char *emit_gathered_change(Emit *, const Instr *atomic, const char *number, const char *by);
