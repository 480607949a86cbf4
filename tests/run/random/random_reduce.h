/* random_reduce.h: a kernel that fails, made small: statements, blocks, options, parameters and sizes go as
 * long as it fails alike. */
#pragma once
#include "random_kernel.h"

/* Does it still fail the same way? */
typedef bool StillFails(const RandomKernel *, void *user);
void random_reduce(RandomKernel *, StillFails *, void *user);
