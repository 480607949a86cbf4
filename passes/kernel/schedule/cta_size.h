/* cta_size.h: how large a CTA is, and how many of them share a multiprocessor. See cta_size.c. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Sets the number of warps and the scratch memory from the schedule, the hints or the tiles. */
void cta_size_begin(Session *, Func *, KernelPlan *);
/* AMD: reduces the number of waves if products have no work for them, and changes it if registers are short.
 * */
void cta_size_cap_warps(Session *, Func *, KernelPlan *);
/* Sets the number of CTAs of a multiprocessor for a kernel without warp specialization, in which all warps do
 * the same, and records it in the schedule. */
void cta_size_unspecialized(Session *, Func *, KernelPlan *);
/* The most words of one tile in a thread. Larger tiles are refused, because they would be unrolled into more
 * code than the vendors' compilers accept in reasonable time. */
enum { CTA_SIZE_MOST_WORDS = 1024 };
/* Reports the error of a tile of which a thread would hold more. */
void cta_size_refuse_tile(
    Session *, const Func *, const Target *, Loc, const Type *tile, int64_t words, int threads);
/* Whether each tile in registers is spread over enough threads for there to be a layout; otherwise reports
 * the error. */
bool cta_size_holds_tiles(Session *, Func *, const KernelPlan *);
/* What is reserved for conversions that took so many bytes and did not fit beside the buffers. */
static inline int64_t cta_size_reserve_for(int64_t scratch) { return scratch + 1024; }
