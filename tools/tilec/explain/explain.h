/* explain.h: what the parts of `tilec explain` share: one variant for one target, in every form that it
 * takes, and the launch that stands for all launches of it. */
#pragma once
#include "tools/tilec/emit.h"
#include "tools/tilec/explain/timeline.h"
#include "backends/gpu/gpu.h"
#include "passes/sim/sim.h"
#include "runtime/choice/estimate/device_model.h"

enum { EXPLAIN_REPLAYED_STEPS = 1 << 14 }; /* of a program that the cache model runs (SimStep.steps) */

/* The launch that is examined: of extents that nothing binds, some stand for all. */
typedef struct ExplainLaunch {
    int64_t *dims;                     /* by dimension of the function */
    int64_t (*strides)[TILE_MAX_RANK]; /* by parameter, in elements */
    const Scalar *scalars;             /* by parameter */
    const char *assumed; /* "M, N; 1024 stands for each" of extents that nothing binds; NULL: all are bound */
    SimTrace *trace;     /* the accesses of its programs; NULL: not known, and why_not says why */
    const char *why_not;
    double operations, bytes; /* on floats, of all programs; of the tensors that they touch */
    int64_t counted, steps;   /* programs whose operations were counted, and what one of them took */
    bool cut;                 /* some of them ended early, so that fewer operations were counted */
    int64_t replayed;         /* programs that the cache model ran: the first ones */
    const SimDevice *device;  /* whose caches are modelled; NULL: there is no model */
    bool other;               /* the device stands for another one of the target's kind */
    SimResult result;         /* of the replay, if `tensors` */
    SimTensor *tensors;       /* by parameter; NULL: not replayed */
} ExplainLaunch;

typedef struct Explained {
    Input *in;
    const Variant *v;
    const CompileOptions *o;
    const LaunchFacts *facts;
    const DeviceModel *card; /* of --device, or NULL */
    const char *title;       /* "gemm<T=f16> for cuda:sm_90a" */
    PassReport report;       /* of the passes that made it */
    Func *tile;              /* tile IR after the passes */
    Func *kernel;            /* kernel IR; NULL: for the CPU, or it does not fit */
    GpuCode code;            /* if `kernel` */
    ExplainLaunch launch;
} Explained;

/* What became of a kernel's accesses. */
typedef enum AccessClass {
    CLASS_GOOD,      /* its pieces fill the sectors that they move */
    CLASS_STRIDED,   /* its pieces take half as many sectors again as its bytes, and more */
    CLASS_SCATTERED, /* addresses depend on data */
    CLASS_MASKED,    /* most lanes move nothing */
    CLASS_COUNT
} AccessClass;
extern const char *const access_class_name[CLASS_COUNT], *const access_class_colour[CLASS_COUNT];
AccessClass access_class(const AccessCount *);

/* explain_launch.c: finds the launch, and its work. */
void explain_launch(Explained *);
/* The same launch through the cache model. */
void explain_replay(Explained *);

/* explain_resources.c: registers, spills, shared memory, occupancy, intensity. `measure`: ask the vendor's
 * compiler, where it is found. */
void explain_resources(Explained *, bool measure, Text *);
/* Registers of a thread as planned, at most. */
int explain_registers(const Explained *);
/* CTAs that a multiprocessor holds at once, by the planned registers; *bound: what bounds them. */
int explain_occupancy(const Explained *, int registers, const char **bound);

/* explain_memory.c: the report of --memory. */
void explain_memory(Explained *, Text *);
/* Counts one access of the kernel, with the strides of the launch. */
void explain_count(const Explained *, const EmittedAccess *, AccessCount *);
/* "load X", "mma_sync of f16[64, 32]"; the line in its file, 0: none; and how a report names the place:
 * "line 5", in an imported file "lib.tile:5" (of the session's arena). */
const char *explain_access_name(const Explained *, const EmittedAccess *);
int explain_line(const Explained *, Loc);
const char *explain_place(const Explained *, Loc);

/* explain_pictures.c: --plot=KIND. */
typedef enum PictureKind {
    PICTURE_TIMELINE,
    PICTURE_MAP,
    PICTURE_ACCESS,
    PICTURE_MEMORY,
    PICTURE_COUNT
} PictureKind;
extern const char *const picture_name[PICTURE_COUNT];
/* Whether programs store windows of a tensor, which the map shows. */
bool explain_has_map(Explained *);
/* False after a message: the variant has no such picture. */
bool explain_picture(Explained *, PictureKind, const Timeline *, Text *);
