/* emit_kept.h: tiles that stay in shared memory (emit_kept.c). */
#pragma once
#include "backends/gpu/emit.h"

/* Starts copies of the window by cp.async. False: that is not possible, and nothing was emitted. */
bool emit_kept_copies(
    Emit *, const Instr *load, const Window *, const Layout *, const char *ptr, const Value *pad);
/* Starts copies of the words of a row that may begin within a word. SHIFT_PART: in a branch, and the other
 * one is open, for a row whose words cannot be read. SHIFT_NONE: these are no such rows, and nothing was
 * emitted. */
ShiftDone emit_kept_words(Emit *, const Instr *load, const Window *, const Layout *, const char *ptr);
/* Writes what came to registers. */
void emit_kept_put(Emit *, const Instr *load, const char *from);
/* Reads a tile for `opaque`. */
void emit_kept_take(Emit *, const Instr *opaque);
