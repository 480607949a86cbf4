/* emit_kept.h: tiles that stay in shared memory (emit_kept.c). */
#pragma once
#include "backends/gpu/emit.h"

/* Starts copies of the window by cp.async. False: that is not possible, and nothing was emitted. */
bool emit_kept_copies(
    Emit *, const Instr *load, const Window *, const Layout *, const char *ptr, const Value *pad);
/* Writes what came to registers. */
void emit_kept_put(Emit *, const Instr *load, const char *from);
/* Reads a tile for `opaque`. */
void emit_kept_take(Emit *, const Instr *opaque);
