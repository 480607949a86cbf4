/* emit_interleaved.h: two loads that take the two fields of pairs (emit_interleaved.c). */
#pragma once
#include "backends/gpu/emit.h"

/* Emits the load, and with it the later one that takes the other field of each pair; nothing if an earlier
 * call has emitted it so. False: i is no such load, and nothing was emitted. */
bool emit_interleaved_load(Emit *, const Instr *i);

/* emit_load.c: the condition that all of the window is in range; a load element by element. */
const char *window_inside(Emit *, const Window *, const Layout *);
void load_elements(Emit *, const Instr *, const Window *, const Layout *, const char *ptr, const char *to);
