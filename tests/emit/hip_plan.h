/* hip_plan.h: registers of a lane: what the schedule planned from its layouts (passes/kernel/amd/registers.c)
 * against clang's figure: 0.55 to 1.45 of the plan, 48 registers either way where that is more. clang may
 * take more than that up to `budget`, what a lane has at the waves that were asked for (kernel_waves_per_eu),
 * which are checked beside it: without products, and where LDS leaves room for one workgroup, it loads ahead
 * all that it can. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

static inline bool hip_plan_holds(int plan, long registers, long budget)
{
    long off = labs(registers - plan);
    return off <= 48 || off * 100 <= plan * 45L || (registers > plan && registers <= budget);
}
