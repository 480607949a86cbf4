/* occupancy.h: how many CTAs of a kernel without warp specialization should share a multiprocessor. */
#pragma once
#include "passes/kernel/kernel.h"

/* The CTAs of a multiprocessor that the launch bounds ask for; 0: no bounds. CUDA only. */
int occupancy_wanted(Session *, const Func *, const KernelPlan *);
