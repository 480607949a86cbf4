/* random_chain.h: a random kernel that is launched again and again with the tensors of the launch before. */
#pragma once
#include "random_kernel.h"

/* Three launches in place of one, as `launch` of the kernel says them, one behind the other. In the second
 * one an input and a tensor that the first one wrote have changed places, where two are alike. */
void random_chain(RandomKernel *, uint64_t seed);
