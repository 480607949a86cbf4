/* ring_stages.h: the check of rings between roles, in brief. */
#pragma once
#include "ir/ir.h"

/* As ir_stages_fault, in a fraction of the time: one made-up launch of each size, up to one that goes round
 * each ring twice. For code of which only the time is estimated: a fault that it overlooks is found where the
 * kernel is compiled. */
const Instr *ir_stages_fault_soon(Session *, const Func *, const char **why);
