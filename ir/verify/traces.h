/* traces.h: what the roles of a kernel do with its rings in one made-up launch (traces.c), for ring_stages.c.
 */
#pragma once
#include "ir/interp/scalar.h"

/* producer, consumers, cp.async producers: the blocks of `roles` and `cp_async_roles` */
enum { ROLE_COUNT = 3 };

/* A launch that need not exist: all that scalars are computed from. `seed` stands for tensors' elements. */
typedef struct TraceLaunch {
    uint64_t seed;
    int64_t *dims, grid[3], programs, ctas;
    Scalar *scalars;          /* by parameter */
    const Instr *const *skip; /* of trace_skips */
    struct Cell *cells;       /* room for all values of the function, which each role uses anew */
} TraceLaunch;

/* By the id of an operation's first result: the operation of the same block with which a run goes on, because
 * neither rings, stages and products nor conditions and bounds of loops depend on what it passes over. NULL:
 * the operation is run. In the session's arena. */
const Instr *const *trace_skips(Session *, const Func *);

/* SPACE: waits until the stage is empty; FULL: says that it is full; GET: waits until it is full; BACK: gives
 * it back. `stage` counts all that the ring ever holds. */
typedef enum TraceKind { TRACE_SPACE, TRACE_FULL, TRACE_GET, TRACE_BACK } TraceKind;
typedef struct TraceStep {
    const Instr *at;
    TraceKind kind;
    int ring;
    int64_t stage;
} TraceStep;
typedef VEC(TraceStep) Trace;

/* Coordinates of the programs that the producer handed on, in their order. */
typedef struct TraceProgram {
    int64_t coord[3];
} TraceProgram;
typedef VEC(TraceProgram) TracePrograms;

typedef struct TraceFault {
    const Instr *at;
    const char *why; /* NULL: none */
} TraceFault;

/* Appends what block `role` of `roles` does. False: a fault, or, without one, more steps than anybody wants
 * to look at. The producer comes first: others take the programs that it leaves. Uses no marks. */
bool trace_role(Session *, const Func *, const Instr *roles, int role, const TraceLaunch *, TracePrograms *,
    Trace *, TraceFault *);
