/* suite.h: a program that runs many problems on one device, each with all passes and with none. */
#pragma once
#include "executor.h"

typedef struct Suite {
    const char *program; /* for messages */
    const char *folder;  /* of the kernels */
    const Executor *executor;
    void *state;
    const char *only; /* the text that the name of a case must contain; NULL: all cases run */
    int run, failed;
} Suite;

/* Whether `only` selects the case. */
bool suite_wants(const Suite *, const char *name);
/* Opens the device. Returns 0, or the exit status of the program: 2 when the build has no such device, 77
 * when this machine has none. */
int suite_open(Suite *, const char *device);
/* Runs one case and prints its outcome. `fill` may change the inputs of the problem before; it may be NULL.
 */
void suite_case(Suite *, const char *name, const Recipe *, const char *sizes, const char *consts,
    void (*fill)(Problem *));
/* Closes the device, prints the counts, and returns the exit status: a suite that ran nothing fails. */
int suite_close(Suite *);
