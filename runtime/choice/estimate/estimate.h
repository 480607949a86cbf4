/* estimate.h: between the parts of an estimate: estimate.c has the whole, estimate_loops.c loops that load to
 * registers. */
#pragma once
#include "runtime/choice/cost/cost.h"

/* Of one iteration of a program's loop, in nanoseconds, each resource by itself. */
typedef struct Iteration {
    double matrix, feed; /* the matrix unit; shared memory */
    double arithmetic;   /* beside products, all of it */
    double l2, cp_async; /* bytes from L2; bytes that producer warps copy with cp.async */
    double producer;     /* instructions of the producer warp */
    double products;     /* matrix unit and shared memory together */
    double wait;         /* for data that come too late */
    double alone, pace;  /* of a program that has the multiprocessor to itself; of several that share it */
} Iteration;

typedef struct Estimate {
    const Cost *c;
    const DeviceModel *m;
    const Target *t;
    int units;
    int64_t l2_bytes;
    double iterations; /* of a program's loop */
    double groups;     /* warpgroups of a program that do arithmetic */
    double programs;   /* of a multiprocessor */
    double resident;   /* those of them that it holds at once, a CTA each; of one warp several in a CTA */
    double share;      /* the part of a row's work that one CTA of its cluster has */
    bool plain;        /* products with little arithmetic beside them: they ask for data fastest */
    bool rows;         /* rows that are held while they are reduced */
    bool many_rows;    /* more of them than fit the multiprocessor at once */
    bool loops;        /* loads to registers in a loop: nothing runs ahead of an iteration */
    bool careful;      /* see cost_estimate_carefully */
    Iteration iteration;
} Estimate;

double estimate_ctas_of_a_program(const Cost *);

/* estimate_loops.c: the part of what programs load that comes from memory. */
double estimate_from_memory(const Estimate *);
/* Nanoseconds of a load to registers in a loop. */
double estimate_trip(const Estimate *);
/* estimate_copies.c: nanoseconds of an iteration in which producer warps bring windows with cp.async. */
double estimate_cp_async(const Estimate *);
/* How many times longer an iteration takes because L1 has no room for lines that the next one copies from. */
double estimate_lines_again(const Estimate *);
/* Whether the program is a long loop that meets, has few tiles in use, and issues its loads rounds ahead: the
 * words of these loads take more registers than the tiles, but not all that there are. */
bool estimate_runs_ahead(const Estimate *);
/* The same of an iteration that waits for its loads before its work, which takes `work` where nothing is
 * waited for; 0: there is none. */
double estimate_loaded_before(const Estimate *, double work);
/* The same of the program with the longest range of a loop whose ranges are loaded, from its beginning to its
 * end, which take `ends`; 0: there is none. */
double estimate_longest_range(const Estimate *, double ends);
