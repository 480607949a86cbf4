/* cta_size.h: how large a CTA is, and how many of them share a multiprocessor. See cta_size.c. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Sets the number of warps and the scratch memory from the schedule, the hints or the tiles. */
void cta_size_begin(Func *, KernelPlan *);
/* AMD: reduces the number of waves if products have no work for them, and changes it if registers are short.
 * */
void cta_size_cap_warps(Session *, Func *, KernelPlan *);
/* Sets the number of CTAs of a multiprocessor for a kernel without warp specialization, in which all warps do
 * the same, and records it in the schedule. */
void cta_size_unspecialized(Func *, KernelPlan *);
