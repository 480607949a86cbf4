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
enum { MAX_FAULTS = 512 };
typedef struct Faults {
    Fault list[MAX_FAULTS];
    int n, emissions; /* places described, and texts that were written with them */
    bool full;        /* some places were left out */
} Faults;

/* The text that was written last is not used. `before`: what there was before it. */
typedef struct FaultsMark {
    int n, emissions;
    bool full;
} FaultsMark;
FaultsMark faults_mark(const Faults *);
void faults_forget(Faults *, FaultsMark before);

/* Whether the numbers of the faults are those of one text with all its places. Otherwise `why` says what is
 * wrong, and a fault that nobody notices says nothing. */
bool faults_whole(const Faults *, char *why, size_t size);

void cuda_write_source(FILE *, const GpuCode *, Faults *faults);

/* Writes one line of a kernel's body with the places for faults marked. `before` is the last line of code
 * above it. */
void cuda_plant(FILE *, Faults *, int line, const char *p, size_t n, const char *before);

/* The prelude's wrapper of a wgmma, of n bytes, as a call of emu_wgmma. False: not in the form that is known.
 */
bool cuda_write_wgmma(FILE *, const char *text, size_t n);
