/* occupancy.h: how many CTAs of a kernel without warp specialization should share a multiprocessor. */
#pragma once
#include "passes/kernel/kernel.h"

/* The records of many elements that a concatenation puts together of components, which lie whole in lanes
 * (layout/components.c); 0: it makes others, halves side by side among them. */
int64_t occupancy_large_records(const Target *, const Instr *concat);
/* The CTAs of a multiprocessor that the launch bounds ask for; 0: no bounds. CUDA only. */
int occupancy_wanted(Session *, const Func *, const KernelPlan *);
/* Whether programs load windows of one tensor that overlap, as those of stencils. */
bool occupancy_has_windows(Session *, const Func *);
/* Whether programs load, compute and store once, each thread for itself or by products of tiles, and no hint
 * says how many of them share a multiprocessor. While one waits for memory, only others have something to do:
 * as many as fit without a spill are best, and only the vendor's compiler knows how many these are. CUDA
 * only. */
bool occupancy_streams(const Func *, const KernelPlan *);
