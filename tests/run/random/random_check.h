/* random_check.h: one random kernel on a device against the interpreter. */
#pragma once
#include "oracle.h"
#include "random_kernel.h"
#include <stdio.h>

/* The kernel as a file that kernel_file.h reads. */
void random_show(FILE *, const RandomKernel *, uint64_t seed);

/* Back from such a file. */
bool random_read(const char *path, RandomKernel *, uint64_t *seed);

/* With all passes, and without them if `both`; then the same kernel `again` as often, with other extents and
 * strides (random_again.h). True where the device agrees, or says that the tiles are larger than its memory.
 * False: what is wrong. */
bool random_check(
    Oracle *, const RandomKernel *, uint64_t seed, bool both, int again, char *why, size_t why_size);
