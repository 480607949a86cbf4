/* cpu_run.h: compiles a kernel of tile IR with the CPU backend and runs it on tensors of the host, in one
 * thread. */
#pragma once
#include "backends/backend.h"
#include "ir/interp/interp.h"

typedef struct CpuRun {
    Artifact artifact;
    CpuModule *module;
    CpuKernelFn *fn;
    uint64_t slots[64];
    int64_t programs;
    void *scratch; /* from the first bind on; each fills it with NaN */
    size_t scratch_bytes;
    CheckRecord check;
} CpuRun;

/* False after a diagnostic or a message on stderr. Release with cpu_run_free. */
bool cpu_run_compile(Session *, Func *, const BackendOptions *, CpuRun *);
bool cpu_run_bind(Session *, Func *, const InterpArg *, CpuRun *);
int cpu_run_launch(CpuRun *);
void cpu_run_free(CpuRun *);
