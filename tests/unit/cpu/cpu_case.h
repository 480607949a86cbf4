/* cpu_case.h: compiles kernel `k` of a text for a processor, for tests that launch it with tensors of their
 * own. */
#pragma once
#include "cpu_run.h"
#include "tests/passes/example_case.h"

typedef struct CpuCase {
    const char *source, *consts;                  /* consts: "TM=16,T=f32" */
    const char *cpu;                              /* the processor; NULL: this one */
    void (*promise)(Problem *, const void *user); /* writes what launches promise into the parameters */
    void (*launch)(Problem *, CpuRun *, const void *user);
    const void *user;
} CpuCase;

/* Calls `launch` with the compiled kernel. False, after its diagnostics: it does not compile. */
bool cpu_case_run(const CpuCase *);
