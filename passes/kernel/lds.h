/* lds.h: see lds.c. */
#pragma once
#include "passes/kernel/kernel.h"

static inline int layout_log2_u(uint32_t x) { int n = 0; while (x > 1) { x >>= 1; n++; } return n; }
/* The lane served at place `turn` of an access of so many bytes. */
int lds_lane(bool read, int bytes, int turn);
/* Cycles lost to bank conflicts when l is written to, or read from, s in its widest vectors. */
int lds_conflicts(const Layout *l, const LayoutShared *s, bool read);
/* A layout for a tile of which axis `inner` is contiguous, with the fewest conflicts of writer and reader (0 where it matters). */
const LayoutShared *lds_layout(Arena *, const int32_t *tile, int inner, int bytes, const Layout *writer, const Layout *reader, int *conflicts);
/* How the lanes take a tile from memory, contiguous along `unit`, for a shared tile contiguous along `inner`. */
const Layout *lds_writer(Arena *, const int32_t *tile, int unit, int inner, int bytes, int wave, int warps);
