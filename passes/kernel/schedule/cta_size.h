/* cta_size.h: how large a CTA is, and how many of them share a multiprocessor. See cta_size.c. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Warps and scratch as the schedule, the hints or the tiles have them. */
void cta_size_begin(Func *, KernelPlan *);
/* AMD: fewer waves where products have no work for them, others where registers are short. */
void cta_size_cap_warps(Session *, Func *, KernelPlan *);
/* CTAs of a multiprocessor for a kernel without warp specialization, all of whose warps do the same, and what
 * the schedule says of it. */
void cta_size_unspecialized(Func *, KernelPlan *);
