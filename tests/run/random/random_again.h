/* random_again.h: a random kernel's later launches, with other extents and strides. */
#pragma once
#include "random_kernel.h"

/* What launch number `launch`, from 1 on, has in place of the kernel's own sizes and views. The kernel and
 * its types are the same, so that a program that keeps the kernel chooses among its variants. */
typedef struct RandomAgain {
    char sizes[256], views[256];
} RandomAgain;

void random_again(const RandomKernel *, uint64_t seed, int launch, RandomAgain *out);
