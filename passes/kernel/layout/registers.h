/* registers.h: which operations that move elements move none, for the emitter and for estimates. */
#pragma once
#include "passes/kernel/kernel.h"

/* Whether the result of a reshape or a permutation of axes is in the registers of its operand. */
bool kernel_same_registers(Arena *, KernelPlan *, const Instr *);
