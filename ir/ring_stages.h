/* ring_stages.h: the check of rings between roles, in brief. */
#pragma once
#include "ir/ir.h"

/* As ir_stages_fault, in half of the time: one made-up launch of each size. For code of which only the time
 * is estimated: a fault that it overlooks is found where the kernel is compiled. */
const Instr *ir_stages_fault_soon(Session *, const Func *, const char **why);
