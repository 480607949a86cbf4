/* hip_report.h: what clang makes of emitted HIP C. */
#pragma once
#include "backends/gpu/gpu.h"

typedef struct HipReport {
    long vgprs, agprs, scratch, spills, lds, occupancy;
    int matrix, loads_ahead_drained;    /* in the innermost loop with matrix instructions: how many; waits for memory before the last of them */
} HipReport;

/* clang-22's name if it is there, else NULL. */
const char *hip_compiler(void);
/* Compiles (in `folder`, which exists) and reads report and assembly. False with the compiler's words in log. */
bool hip_report(const GpuCode *, const Target *, const char *folder, HipReport *, char *log, size_t log_size);
