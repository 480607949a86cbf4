/* teams.h: tile-per-warpgroup. */
#pragma once
#include "passes/kernel/kernel.h"

/* Consumer warpgroups with programs of their own; 0: one program for all of them. */
int kernel_teams(const Func *, const KernelPlan *, Instr *const *products, size_t n);
/* Turns around what gets slots in the body of the loop over programs. */
void kernel_take_turns(Block *programs);
