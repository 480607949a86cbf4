/* sim.h: a model of a GPU's caches: which bytes each program of a grid touches (trace.c), in which order
 * programs reach the chiplets and what their caches keep (replay.c). `tilec sim` prints it, `remap = auto`
 * chooses with it.
 *
 *     SimTrace *t = sim_trace(func, &launch, &why);                          tile IR -> accesses of a program
 *     sim_replay(t, sim_device_find("mi300x"), remap, &options, &result);     accesses of the grid -> hit
 *         rates
 *
 * A SimTrace is read-only after sim_trace: any number of threads may replay it at once. Same input, same
 * result, bit for bit. */
#pragma once
#include "ir/interp/eval.h"
#include "ir/target/target.h"

/* --- devices (device.c) ------------------------------------------------------------------------------ */

typedef struct SimDevice {
    const char *name;
    /* workgroups go to the chiplets in turn; the compute units of each */
    int64_t chiplets, units;
    int64_t l1_bytes, l1_ways;          /* of a compute unit; 0 bytes: none */
    int64_t l2_bytes, l2_ways;          /* of a chiplet */
    int64_t llc_bytes, llc_ways;        /* shared by all chiplets, in front of memory; 0 bytes: none */
    int64_t line;                       /* bytes; a power of two */
    double l2_tbs, llc_tbs, memory_tbs; /* 10^12 bytes a second, whole device */
    double shared_tbs;                  /* of the banks of shared memory; 0: not known, and not counted */
    /* The matrix rate for 16-bit operands (8-bit operands: twice that), and for f32. */
    double tflops_16, tflops_32;
    /* The row of ir/target/targets.def whose code it runs; if there are several, the first represents the
     * target. */
    const char *target;
} SimDevice;

const SimDevice *sim_device_at(size_t); /* NULL past the end */
const SimDevice *sim_device_find(const char *name);
/* The device that a target's `remap = auto` is decided for, or NULL: it has one chiplet, or none is known. */
const SimDevice *sim_device_of(const Target *);
/* Reads source `file`: `key = value` lines, see docs/sim.md. False after one diagnostic. */
bool sim_device_parse(Session *, uint32_t file, SimDevice *);

/* --- accesses (trace.c) ------------------------------------------------------------------------------ */

/* The launch that is traced. Tensors are row-major and follow each other in memory, if the function knows no
 * strides. */
typedef struct SimLaunch { /* the data that it points to lives as long as the trace */
    const int64_t *dims;   /* extent of each of the function's dimension symbols */
    const Scalar *scalars; /* by parameter; NULL: all 0 */
} SimLaunch;

/* One memory operation of the function. */
typedef struct SimSite {
    const Instr *instr;
    int param, rank;     /* windows: axes that are not dropped, innermost (smallest step) first */
    bool write, indexed; /* indexed: gather, scatter, atomic */
    bool cut;            /* a mask depends on data and is assumed to be true */
    bool assumed;        /* the address depends on data and was invented */
    bool unsure;         /* whether or how often the access happens depends on data */
    int64_t size;        /* bytes of an element */
    int64_t
        step[TILE_MAX_RANK]; /* bytes from one element of the window to the next along an axis, positive */
    int32_t axis[TILE_MAX_RANK],
        extent[TILE_MAX_RANK]; /* windows: which axis of the tensor, and the extent of a whole window */
} SimSite;

/* The memory that one program accesses at once: boxes of bytes. */
typedef struct SimAccess {
    int64_t at; /* first byte; windows only */
    int32_t site,
        n[TILE_MAX_RANK]; /* elements along each axis, at least 1. indexed: n[0] elements from `first` */
    int64_t first;
} SimAccess;

typedef struct SimTrace SimTrace;
typedef struct SimProgram SimProgram; /* memory to trace programs with; one a thread */

/* NULL, with a static text in *why: dimensions not known, or more than the model holds. */
SimTrace *sim_trace(const Func *, const SimLaunch *, const char **why);
const int64_t *sim_trace_grid(const SimTrace *); /* three extents */
int64_t sim_trace_programs(const SimTrace *);
int sim_trace_sites(const SimTrace *);
const SimSite *sim_trace_site(const SimTrace *, int);
/* The loops that hold accesses or products, or decide addresses. */
int sim_trace_loops(const SimTrace *);
const Instr *sim_trace_loop(const SimTrace *, int);
EvalEnv sim_trace_env(const SimTrace *);               /* for evaluating a remap; strides in elements */
int64_t sim_trace_bytes(const SimTrace *);             /* all tensors */
int64_t sim_trace_tensor(const SimTrace *, int param); /* where element [0, 0, ...] of a tensor lies */
/* Bits that say which parts of a trace are assumptions, for a note to the reader. */
enum { SIM_ASSUMED_ADDRESS = 1, SIM_ASSUMED_CONDITION = 2, SIM_ASSUMED_TRIP_COUNT = 4, SIM_ASSUMED_MASK = 8 };
unsigned sim_trace_assumptions(const SimTrace *);
enum { SIM_ASSUMED_TRIPS = 16 };

typedef enum SimStatus {
    SIM_OK,
    SIM_NO_MEMORY,
    SIM_FAILED
} SimStatus; /* failed: the kernel has a loop without end, or the device or the remap is invalid */
/* NULL: out of memory. */
SimProgram *sim_program_new(const SimTrace *, Allocator);
void sim_program_free(SimProgram *);
/* Programs end after so many operations on memory, and so many steps (SimStep.steps); 0: no limit. */
void sim_program_limit(SimProgram *, int64_t accesses, int64_t steps);
typedef struct SimStep {
    const SimAccess *access;
    int64_t n;
    const int64_t *elements;
    double flops_8, flops_16, flops_32; /* of products; those of tf32 count twice in flops_16 */
    double flops;                       /* of products, each once */
    double operations; /* of products, and of element-wise operations and reductions on floats */
    int64_t
        steps; /* of the run itself: operations of the derived program, and one for 8 elements of results */
    bool cut;  /* a limit ended the program */
    const int64_t *rounds; /* of each loop */
} SimStep;
/* The accesses of program `linear` (first grid axis fastest), in order; valid until the next call. */
SimStatus sim_program_run(SimProgram *, int64_t linear, SimStep *);

/* measure.c: a number near the golden section of n that shares no factor with it: its multiples, modulo n,
 * are all programs of a grid, and the first of them are spread over it. */
int64_t sim_spread(int64_t n);
/* What a program does in the mean, from some that are spread over the grid. */
typedef struct SimMeasure {
    double *rounds; /* by loop */
    /* By parameter, [1] of accesses that write: bytes that windows and indices ask for; and the bytes of a
     * line that one of them asks for, 0 where nothing does. */
    double (*bytes)[2], (*of_line)[2];
} SimMeasure;
/* Memory of the function's session. */
SimStatus sim_measure(const SimTrace *, int64_t line, Allocator, SimMeasure *);

/* --- replay (replay.c) ------------------------------------------------------------------------------- */

typedef struct SimLevel {
    double accesses, hits;
} SimLevel; /* lines, scaled to the whole launch */

/* What the launch asks of one tensor, in lines of the device, scaled to the whole launch. */
typedef struct SimTensor {
    SimLevel l1, l2;
    double distinct; /* lines that any program touches */
} SimTensor;

typedef struct SimOptions {
    int64_t per_unit;   /* workgroups a compute unit runs at a time; 0: 1 */
    int64_t programs;   /* only the first so many programs of the launch; 0: all */
    int64_t most_steps; /* of one program (SimStep.steps), which then ends; 0: no limit */
    /* one of so many blocks of lines is followed (a power of two); 0: chosen so that about max_lines are
     * followed */
    int64_t sample;
    double max_lines; /* 0: 2^25 */
    /* Of 100 turns, a program misses so many at pseudo-random, so that programs get out of step. */
    int64_t drift;
    /* For a quick comparison of placements. With `windows`, a cache holds whole windows instead of lines, or
     * pieces of windows that overlap (halos). All have the same, mean, size, and there is no L1. */
    bool windows;
    int64_t max_accesses; /* stops after so many memory operations of all programs together; 0: none */
    /* The program of each workgroup, -1: none; or NULL: the remap says it. Programs may repeat. */
    const int32_t *order;
    /* By parameter of the function: what L2 serves of a line that is read, and that is written, in bytes;
     * NULL: all of it. */
    const double (*line_bytes)[2];
    double shared_bytes; /* that the banks of shared memory pass on in the launch, also where they wait */
    uint8_t *chiplet_of; /* by program: receives the chiplet that ran it; or NULL */
    SimTensor
        *tensors; /* by parameter of the function, zeroed: receives its share; or NULL. Not with `windows` */
    Allocator alloc;
} SimOptions;

typedef struct SimResult {
    int64_t programs, sample;
    int64_t cut; /* programs that most_steps ended */
    SimLevel l1, l2, llc;
    /* The standard error of the rates that sampling causes; 0 when nothing was left out. */
    double l2_error, llc_error;
    double read_bytes, write_bytes; /* from and to memory */
    double l2_bytes, llc_bytes;     /* asked of L2 (by line_bytes), and of the last-level cache */
    double flops_8, flops_16, flops_32, operations; /* as in SimStep */
    /* The best case: the time of the slowest of arithmetic, L2, last-level cache and memory at peak rate. */
    double seconds;
    double apart;      /* the worst case: arithmetic, then the banks of shared memory, then the slowest of the
                          others */
    const char *bound; /* the slowest */
} SimResult;

/* remap NULL: none. It must permute the grid (eval_check_remap). */
SimStatus sim_replay(
    const SimTrace *, const SimDevice *, const EvalCode *remap, const SimOptions *, SimResult *);
static inline double sim_rate(SimLevel l) { return l.accesses > 0 ? l.hits / l.accesses : 0; }
