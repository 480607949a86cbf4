/* emit_copy.h: copies of windows to shared memory: the threads that copy, and rows that begin anywhere. */
#pragma once
#include "backends/gpu/memory/emit_offset.h"

/* The threads' parts of the tile in shared memory that a copy fills. */
CopyLayout copy_layout(Emit *, const Instr *copy, const Window *, const LayoutShared *);
/* The coordinates in shared memory of what register `reg` is copied to. */
void copy_coords(Emit *, const CopyLayout *, Index *reg, Index **c);
/* Whether the elements that are adjacent in the tensor are adjacent in shared memory, too. */
bool copy_runs_along(const Window *, const Layout *window, const LayoutShared *);
/* Copies rows that begin at no multiple of four bytes. False: the copy has no such rows. */
bool emit_shifted_copy(Emit *, const Instr *copy, const Window *, const CopyLayout *, const LayoutShared *);
/* NULL: the copy computes its address where it is emitted. */
const CopyPlace *copy_place(const Emit *, const Instr *copy);
/* The distance in elements of the tile coordinates `own` from the pointer of the CopyPlace. */
const char *copy_index(Emit *, const CopyPlace *, const Window *, Index *const *own);
