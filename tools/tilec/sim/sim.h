/* sim.h: what the parts of `tilec sim` share: its placements, their results, and how they are shown. */
#pragma once
#include "passes/sim/sim.h"
#include "tools/tilec/run/input.h"

typedef struct SimCase {
    const char *name;   /* as asked for: "auto" */
    const char *placed; /* what it is: "head+raster:8" */
    const EvalCode *remap;
    const int32_t *order; /* a formula: the program of each workgroup, -1: none; else NULL */
    const char *refused;  /* a formula that is no permutation: in which programs it fails; else NULL */
    EvalVerdict verdict;
    EvalClash clash;
    int64_t tiles;       /* that a formula runs */
    uint8_t *chiplet_of; /* by program */
    SimResult result;
    SimStatus status;
} SimCase;

/* What the emitted kernel moves, counted as `explain --memory` counts it, of the whole launch in bytes. */
typedef struct SimMoved {
    const char *why_not;           /* it is not counted, and why; else NULL */
    int sector;                    /* bytes */
    double asked, sectors;         /* by accesses of tensors; of the sectors that they move */
    double shared, banks;          /* by accesses of shared memory; what the banks pass on, with conflicts */
    const double (*line_bytes)[2]; /* for SimOptions */
} SimMoved;

typedef struct SimReport {
    const char *title;
    const SimDevice *device;
    const SimTrace *trace;
    int64_t per_unit, drift;
    SimMoved moved;
    SimCase *cases;
    int n;
} SimReport;

/* sim_formula.c: the values of --remap, commas within brackets left alone. */
Strings sim_remaps(Tool *, const Args *);
/* Places programs by the formula c->name, and by `own`, the kernel's own remap, after it. A formula that is
 * no permutation is refused (c->refused). False after diagnostics: it is none, or divides by zero. */
bool sim_place(Input *, const FrontKernel *, const FrontBinding *, size_t n, const SimTrace *,
    const EvalCode *own, SimCase *);

/* sim_moved.c: of `f`, the kernel in tile IR after the passes with these options. */
void sim_count_moved(Input *, Func *f, const PassOptions *, const SimDevice *, const SimTrace *, SimMoved *);

/* sim_history.c: the history at `path` with a row for each placement behind what it says already. False after
 * a message: it cannot be read, or is no history. */
bool sim_history(Input *, const SimReport *, const char *path, Text *);

/* sim_report.c */
/* The placement that others are compared with: `none`, else the first that is not refused; NULL: there is
 * none. */
const SimCase *sim_reference(const SimReport *);
/* What a placement is called: "auto = xcd". */
const char *sim_label(Arena *, const SimCase *);
void sim_print(const SimReport *, Text *);
void sim_json(const SimReport *, Text *);

/* sim_plot.c: the rates as bars, and for each placement which chiplet ran which tile. */
void sim_svg(const SimReport *, Text *);
