/* hip_report.h: what clang makes of emitted HIP C. */
#pragma once
#include "backends/gpu/gpu.h"
#include "tests/emit/hip_waits.h"

typedef struct HipReport {
    long vgprs, agprs, scratch, spills, lds, occupancy;
    HipWaits waits; /* of the innermost loop with the most matrix instructions */
} HipReport;

/* clang-22's name if it is there, else NULL. */
const char *hip_compiler(void);
/* Compiles (in `folder`, which exists) and reads report and assembly; depth: see hip_waits. False with the
 * compiler's words in log. */
bool hip_report(
    const GpuCode *, const Target *, const char *folder, int depth, HipReport *, char *log, size_t log_size);
