/* replay.h: the state of one replay, which replay.c and sample.c share. */
#pragma once
#include "passes/sim/sim.h"
#include "passes/sim/cache.h"
#include "passes/sim/pieces.h"
#include "passes/sim/trace_impl.h"

enum { BLOCK = 8, GROUPS = 8, MAX_SAMPLE = 1 << 10, MAX_PLACES = 1 << 20 };

typedef struct Place { /* where one workgroup runs at a time */
    SimAccess *access;
    int64_t n, cap, at;
    int64_t *elements;
    int64_t n_elements, cap_elements;
    bool busy;
} Place;

typedef struct Chiplet {
    int64_t next;
    double asked;
} Chiplet; /* the next workgroup; the bytes that were requested from its L2 */

typedef struct Replay {
    const SimTrace *t;
    const SimDevice *d;
    const EvalCode *remap;
    const SimOptions *o;
    SimResult *r;
    EvalEnv env;
    Allocator alloc;
    int64_t places, programs; /* places of one chiplet */
    uint64_t sample_mask;
    int shift; /* log2 of the line */
    SimCache *l1, *l2, llc;
    Place *place;
    Chiplet *chiplet;
    SimProgram *program;
    double l2_n[GROUPS], l2_hit[GROUPS], llc_n[GROUPS], llc_hit[GROUPS], l1_n, l1_hit, memory_read,
        memory_written;
    double request;      /* bytes that the access at hand asks of L2 in a line */
    double weight, mean; /* the lines that one touch represents; for windows, the mean */
    SimCut *cuts;        /* windows: by site */
    SimTensor *tensor;   /* of the access at hand; NULL: not asked for */
    uint8_t *seen;       /* a bit for each line that was touched; NULL: not asked for */
} Replay;

/* Runs of lines of one access, given to fn(user, first, last). Rows that follow each other without a gap are
 * one run; a line that two runs share counts once. */
typedef void RunFn(void *user, int64_t first, int64_t last);
void sim_box_runs(const SimSite *, const SimAccess *, int shift, RunFn *, void *user);
/* Lines of a window, by its size. */
double sim_window_lines(const Replay *, const SimAccess *);

/* sample.c: how much to follow: one block of lines in *sample; with windows, where to cut them into pieces.
 */
SimStatus sim_choose_sample(Replay *, int64_t *sample);
