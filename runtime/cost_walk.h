/* cost_walk.h: between cost.c, which walks a program, and cost_memory.c, which counts what its accesses move. */
#pragma once
#include "runtime/cost.h"

enum { MOST_PARAMS = 64 };

typedef struct CostWalk {
    Session *s;
    const Func *f;
    const EvalEnv *env;
    struct Kept *kept; uint32_t walk;      /* by value id; this walk, from 1 */
    int64_t coord[3], programs, linear, rank;      /* rank: in its cluster */
    Cost c;
    struct Traffic *traffic;        /* not NULL: only what is loaded is of interest, and programs are those of the kernel's own order */
    int loops;                      /* around, those over programs aside */
    double rounds;                  /* of the producer's loop */
    bool producer, roles, counted;  /* counted: this loop's round has waited already */
    int threads;                    /* that share the work of a tile */
    KernelPlan *plan;
    double filled;                  /* bytes of the window that was filled last */
    double site[MOST_PARAMS];       /* by parameter: what the load that reads most of it reads */
    const Block *products;          /* where products were counted last, and the bytes that they hold there */
    double held;
    bool slots_only;                /* so far both operands of each lie in slots */
} CostWalk;

/* Windows that programs under way together load, each once. */
enum { MOST_WINDOWS = 4096 };
typedef struct Traffic { uint64_t seen[MOST_WINDOWS]; double of[MOST_WINDOWS], bytes[MOST_PARAMS]; } Traffic;     /* of: what the program that loads most of it loads */

/* The tensor is one and the same all along this axis. */
static inline bool cost_same_along(const EvalEnv *env, int param, int axis) { return env->strides && env->strides[param][axis] == 0; }

/* cost.c: the value, where the launch's extents and the program's coordinates decide it */
bool cost_as_int(const CostWalk *, const Value *, int64_t *out);

/* cost_memory.c. times: how often the program does it */
double cost_window_bytes(const CostWalk *, const Instr *, double *whole);        /* of a window that lie inside the tensor, in the mean over its places; *whole: of all of it */
void cost_reads(CostWalk *, const Instr *, int param, double bytes);
int64_t cost_row_bytes(const CostWalk *, const Instr *put);                     /* of a window's rows, as TMA brings them */
double cost_narrow(const CostWalk *, const Instr *put);
double cost_slower_to_fill(const CostWalk *, const Instr *fill);
double cost_torn(const CostWalk *, const Instr *put);
double cost_pieces(const CostWalk *, const Instr *put);
void cost_copy(CostWalk *, const Instr *, double times);
void cost_wait_for_data(CostWalk *, double times);
void cost_slots(CostWalk *, const Value *buffer);
void cost_memory(CostWalk *, const Instr *, double times);                      /* loads, stores, gathers, scatters, atomics */
