/* oracle.h: problems made on the spot, with the interpreter without passes as their reference. */
#pragma once
#include "executor.h"

typedef struct Oracle {
    const Executor *oracle, *executor;
    void *oracle_state, *state;
    char folder[64];  /* of the kernels' files */
    bool unfit;       /* the oracle could not run the last problem */
    const char *skip; /* passes that the device's runs with passes leave out; NULL: none */
} Oracle;

/* Opens the device and a folder. 0; 2 for a device that this build does not have, 77 for one that is not
 * here, 1: neither; with a line of output. */
int oracle_open(Oracle *, const char *device);
void oracle_close(Oracle *);

void oracle_no_reference(Problem *); /* the wanted values come from the oracle's run */
/* Runs p's kernel, a file of the folder, on the oracle and then the device: without passes, with all, or both
 * ways. */
Verdict oracle_check(Oracle *, Problem *, bool without, bool with);
bool oracle_write(const Oracle *, const char *name, const char *text); /* <folder>/<name>.tile */
void oracle_forget(const Oracle *, const char *name);
