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
#include "ir/eval.h"
#include "ir/target.h"

/* --- devices (device.c) ------------------------------------------------------------------------------ */

typedef struct SimDevice {
    const char *name;
    int64_t chiplets, units;            /* workgroups go to chiplets in turn; compute units of each */
    int64_t l1_bytes, l1_ways;          /* of a compute unit; 0 bytes: none */
    int64_t l2_bytes, l2_ways;          /* of a chiplet */
    int64_t llc_bytes, llc_ways;        /* shared by all chiplets, in front of memory; 0 bytes: none */
    int64_t line;                       /* bytes; a power of two */
    double l2_tbs, llc_tbs, memory_tbs; /* 10^12 bytes a second, whole device */
    double tflops_16, tflops_32;        /* matrix rate of 16-bit operands (8-bit ones: twice that), of f32 */
    const char *target;                 /* the row of ir/targets.def whose code it runs; of several, the first
                                           stands for the target */
} SimDevice;

const SimDevice *sim_device_at(size_t); /* NULL past the end */
const SimDevice *sim_device_find(const char *name);
/* The device that a target's `remap = auto` is decided for, or NULL: it has one chiplet, or none is known. */
const SimDevice *sim_device_of(const Target *);
/* Reads source `file`: `key = value` lines, see docs/sim.md. False after one diagnostic. */
bool sim_device_parse(Session *, uint32_t file, SimDevice *);

/* --- accesses (trace.c) ------------------------------------------------------------------------------ */

/* The launch that is traced. Tensors lie row-major, one after another, where the function knows no strides.
 */
typedef struct SimLaunch { /* what it points to lives as long as the trace */
    const int64_t *dims;   /* extent of each of the function's dimension symbols */
    const Scalar *scalars; /* by parameter; NULL: all 0 */
} SimLaunch;

/* One memory operation of the function. */
typedef struct SimSite {
    const Instr *instr;
    int param, rank;     /* windows: axes that are not dropped, innermost (smallest step) first */
    bool write, indexed; /* indexed: gather, scatter, atomic */
    bool cut;            /* a mask depends on data, and is taken to be true */
    bool guessed;        /* the address depends on data: a place was made up */
    bool unsure;         /* whether, or how often, it happens depends on data */
    int64_t size;        /* bytes of an element */
    int64_t
        step[TILE_MAX_RANK]; /* bytes from one element of the window to the next along an axis, positive */
    int32_t axis[TILE_MAX_RANK],
        extent[TILE_MAX_RANK]; /* windows: which axis of the tensor, and the extent of a whole window */
} SimSite;

/* What one program touches at once: boxes of bytes. */
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
EvalEnv sim_trace_env(const SimTrace *);               /* for evaluating a remap */
int64_t sim_trace_bytes(const SimTrace *);             /* all tensors */
int64_t sim_trace_tensor(const SimTrace *, int param); /* where element [0, 0, ...] of a tensor lies */
/* Bits: what about a trace is a guess, for a note to the reader. */
enum { SIM_GUESS_ADDRESS = 1, SIM_GUESS_CONDITION = 2, SIM_GUESS_TRIPS = 4, SIM_GUESS_MASK = 8 };
unsigned sim_trace_guesses(const SimTrace *);
enum { SIM_GUESSED_TRIPS = 16 };

typedef enum SimStatus {
    SIM_OK,
    SIM_NO_MEMORY,
    SIM_FAILED
} SimStatus; /* failed: a loop without end, a device or a remap that cannot be */
/* NULL: out of memory. */
SimProgram *sim_program_new(const SimTrace *, Allocator);
void sim_program_free(SimProgram *);
void sim_program_limit(SimProgram *, int64_t accesses); /* programs end after so many; 0: none */
typedef struct SimStep {
    const SimAccess *access;
    int64_t n;
    const int64_t *elements;
    double flops_8, flops_16, flops_32;
} SimStep;
/* What program `linear` (first grid axis fastest) does, in order; valid until the next call. */
SimStatus sim_program_run(SimProgram *, int64_t linear, SimStep *);

/* --- replay (replay.c) ------------------------------------------------------------------------------- */

typedef struct SimOptions {
    int64_t per_unit; /* workgroups a compute unit runs at a time; 0: 1 */
    int64_t programs; /* only so many of the launch, in order; 0: all */
    int64_t sample;   /* one block of lines in so many is followed (a power of two); 0: chosen so that about
                         max_lines are */
    double max_lines; /* 0: 2^25 */
    int64_t drift; /* of 100 turns a program misses so many, at (pseudo-)random: programs get out of step */
    /* For a quick comparison of placements. `windows`: what a cache keeps is a whole window, or a piece of
     * one where windows overlap (halos), all of the same (average) size, not lines; there is no L1. */
    bool windows;
    int64_t max_accesses; /* stops after so many memory operations of all programs together; 0: none */
    uint8_t *chiplet_of;  /* by program: filled with the chiplet that ran it; or NULL */
    Allocator alloc;
} SimOptions;

typedef struct SimLevel {
    double accesses, hits;
} SimLevel; /* lines, scaled to all of them */
typedef struct SimResult {
    int64_t programs, sample;
    SimLevel l1, l2, llc;
    double l2_error, llc_error; /* standard error of the rates from sampling; 0 when nothing was left out */
    double read_bytes, write_bytes; /* from and to memory */
    double l2_bytes, llc_bytes;     /* asked of L2, of the last-level cache */
    double flops_8, flops_16, flops_32;
    double seconds; /* at best: what the slowest of arithmetic, L2, last-level cache and memory needs at its
                       peak rate */
    double apart;   /* at worst: arithmetic first, then the slowest of the others, nothing overlapped */
    const char *bound; /* the slowest */
} SimResult;

/* remap NULL: none. It must permute the grid (eval_check_remap). */
SimStatus sim_replay(
    const SimTrace *, const SimDevice *, const EvalCode *remap, const SimOptions *, SimResult *);
static inline double sim_rate(SimLevel l) { return l.accesses > 0 ? l.hits / l.accesses : 0; }
