/* sim.h: the results of `tilec sim`, and how they are shown. */
#pragma once
#include "passes/sim/sim.h"
#include "tools/tilec/tool.h"

typedef struct SimCase {
    const char *name;   /* as asked for: "auto" */
    const char *placed; /* what it is: "head+raster:8" */
    const EvalCode *remap;
    uint8_t *chiplet_of; /* by program */
    SimResult result;
    SimStatus status;
} SimCase;

typedef struct SimReport {
    const char *title;
    const SimDevice *device;
    const SimTrace *trace;
    int64_t per_unit;
    SimCase *cases;
    int n;
} SimReport;

void sim_print(const SimReport *, Text *);
void sim_json(const SimReport *, Text *);
void sim_svg(const SimReport *, Text *);
