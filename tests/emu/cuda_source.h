/* cuda_source.h: emitted CUDA C as a file for the host's compiler. */
#pragma once
#include "backends/gpu/gpu.h"
#include <stdio.h>

/* With `faults`, places to plant faults are marked, and described there: fault n is active while emu_mutant
 * is n. */
typedef struct Fault {
    int line;
    const char *what;
    char text[160], before[160];
} Fault; /* its statement, and the line before it */
enum { MAX_FAULTS = 256 };
typedef struct Faults {
    Fault list[MAX_FAULTS];
    int n;
} Faults;

void cuda_write_source(FILE *, const GpuCode *, Faults *faults);

/* Writes one line of a kernel's body with the places for faults marked. `before` is the last line of code
 * above it. */
void cuda_plant(FILE *, Faults *, int line, const char *p, size_t n, const char *before);

/* The prelude's wrapper of a wgmma, of n bytes, as a call of emu_wgmma. False: not in the form that is known.
 */
bool cuda_write_wgmma(FILE *, const char *text, size_t n);
