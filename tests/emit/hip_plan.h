/* hip_plan.h: registers of a lane: what the schedule planned from its layouts (passes/kernel/registers.c) against clang's figure. The margin:
 *
 *   all products of 16-bit operands read in vectors   0.55 to 1.45 of the plan, 48 registers either way where that is more
 *   other kernels                                     192 registers either way: clang unrolls what has room, and reads operands of 8 and 32 bits whose
 *                                                     memory runs across K one by one
 *
 * A plan above what the chip has is one that spills, of which a performance note says so: such a kernel is not held to its plan. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

static inline bool hip_plan_holds(int plan, long registers, bool products_of_16_bits)
{
    long off = labs(registers - plan);
    return products_of_16_bits ? off <= 48 || off * 100 <= plan * 45L : off <= 192;
}
