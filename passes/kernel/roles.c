/* warp-roles */
#include "passes/kernel/kernel.h"

bool kernel_roles(Session *s, Func *f, KernelPlan *p) { return false; }
