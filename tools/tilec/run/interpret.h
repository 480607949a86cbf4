/* interpret.h: `tilec run --target=interp`: a kernel in the interpreter of the tile IR, which shares nothing
 * with the backends. */
#pragma once
#include "ir/interp/interp.h"
#include "tools/tilec/run/input.h"
#include "tools/tilec/run/tensor.h"

/* One launch: bindings as --set gives them, extents by name, an argument a parameter that is no const. */
typedef struct InterpretJob {
    const char *kernel;
    const tile_binding *bindings;
    size_t n_bindings;
    const Extents *known;
    const InterpArg *args;
    int n_args;
    InterpProgress *progress;
    const char *const *absent; /* the optional tensors that are left out */
    size_t n_absent;
    bool follow;              /* report the faults of ir/interp/faults.h */
    const char *const *names; /* by argument */
    const bool *left_out;     /* by argument: an optional tensor that is not given */
} InterpretJob;

/* Results are in the arguments' memory. An exit code; diagnostics are printed. -O gives the level of the
 * passes before it (default 0: the kernel as it was lowered). */
int interpret(Tool *, const Args *, const InterpretJob *);
/* The bindings of --set, and the extents that specialize the kernel, as a launch takes them from its tensors:
 * at most as many as the job has bindings and absent tensors and the kernel has keys. False after
 * diagnostics. */
bool interpret_bind(Input *, const InterpretJob *, const FrontKernel *, FrontBinding *, size_t *n);
