/* overlap.h: mma-pipeline: asynchronous products overlapped with the arithmetic that does not need them. */
#pragma once
#include "passes/kernel/kernel.h"

void kernel_overlap(Session *, Func *, Block *consumers, KernelPlan *);
/* Loads of the loop's body that go to registers, one step ahead; returns the loop, rebuilt when something changed. */
Instr *kernel_prefetch(Session *, Func *, Instr *loop);
