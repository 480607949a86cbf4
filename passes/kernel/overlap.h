/* overlap.h: mma-pipeline: asynchronous products overlapped with the arithmetic that does not need them. */
#pragma once
#include "passes/kernel/kernel.h"

void kernel_overlap(Session *, Func *, Block *consumers, KernelPlan *);
