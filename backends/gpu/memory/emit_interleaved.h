/* emit_interleaved.h: loads of two tensors that lie interleaved (emit_interleaved.c). */
#pragma once
#include "backends/gpu/emit.h"

/* Emits the load and the one that takes the other of each two elements. False: i is no such load, and nothing
 * was emitted. */
bool emit_interleaved_load(Emit *, const Instr *i);

/* emit_load.c: the condition that all of the window is in range; a load element by element. */
const char *window_inside(Emit *, const Window *, const Layout *);
void load_elements(Emit *, const Instr *, const Window *, const Layout *, const char *ptr, const char *to);
