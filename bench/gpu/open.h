/* open.h: a problem (tools/tilec/run/problem.h) of a file and words of a command line. */
#pragma once
#include "tools/tilec/run/problem.h"

/* False: the file cannot be read, or there is no such target. The device is the target's largest common part.
 */
bool problem_open(
    Problem *, const char *path, const char *kernel, const char *target, int n_words, char *const *words);
void problem_close(Problem *);
