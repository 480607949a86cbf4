/* bundle.h: `--bundle -o k.c -h k.h`: one C file with code for every target and launchers that choose by
 * device. */
#pragma once
#include "tools/tilec/compile/object.h"

/* `targets`: GPU targets in any order; cpu: an object for the CPU too. `path` and `header`: k.c and k.h. Exit
 * code. */
int bundle_compile(
    Input *, const Variants *, const Strings *targets, const char *path, const char *header, Outputs *);
