/* guarded_load.h: loads that only some programs do, as passes/kernel/cluster/multicast.c makes them. */
#pragma once
#include "passes/kernel/kernel.h"

/* The load of `if %c { load .. } else { zeros }`, of which nothing else is computed there; NULL: it is
 * another instruction. */
Instr *kernel_guarded_load(const Instr *);

/* The splat that the second block of an `if` gives, in registers or not; NULL: it gives something else. */
const Instr *kernel_guard_fills(const Instr *);
