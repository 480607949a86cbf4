/* compile.h: from source text to something a driver can load; used by the runtime's launch path and by tilec.
 *
 *     source + imports --frontend--> tile IR --facts, passes--> backend --> artifact --vendor's compiler-->
 *         binary */
#pragma once
#include "backends/backend.h"
#include "frontend/frontend.h"
#include "ir/interp/eval.h"
#include "passes/passes.h"
#include "runtime/drivers/driver.h"

/* The promises of a launch about one argument: only properties on which code may depend, so that launches
 * share variants. */
typedef struct ParamFacts {
    int align;            /* the alignment of the base address: 16, or 0 for that of the element */
    int unit_axis;        /* axis of stride 1, or -1 */
    unsigned stride_mask; /* bit a is set: the stride of axis a is a multiple of 16 bytes */
    /* 4, 8 or 16: the base, the strides and the extent of the unit axis are multiples of so many bytes. 0:
     * this is not known, or base and strides are multiples of 16 and the extent is not. A single axis has no
     * 16: it has no strides that depend on its extent, and would be one more variant. */
    int grain;
    /* The strides of so many axes in front of the last one follow from the extents behind them, as there are
     * no gaps. */
    int dense;
    bool gaps; /* rows lie further apart than they are long (ir_gaps_matter): no promise */
    int sign;  /* for scalars: 1 positive, 0 zero or more, -1 not known; SIGN_SMALL */
} ParamFacts;
enum { SIGN_SMALL = 2 }; /* of an index: zero or more, and below 2^28 (FITS32_EXTENT) */

/* Facts of one specialization, by parameter and by dimension of the FrontKernel. */
typedef struct LaunchFacts {
    const ParamFacts *params;
    int n_params; /* the launch arguments, without consts */
    const bool *dim16;
    /* Whether the extent is a multiple of 16, in the order of FrontKernel.dims and then of
     * FrontKernel.derived. */
    int n_dims;
    bool fits32, extents31;
    uint64_t ones; /* a bit for each of the first 64 dimensions: its extent is 1 */
    /* By dimension, from FrontKernel.counted: its extent is from 1 to this number; 0: not known. NULL: of
     * none. */
    const int64_t *most;
} LaunchFacts;

/* Rounds a small extent up to one of a few numbers, so that launches share variants. A launch promises that
 * the extent is at most this number. 0: the extent is not small. */
int64_t launch_facts_most(int64_t extent);
/* The same in 8 bits, and back. words: of a tensor of so many elements that shared memory may hold it, where
 * larger extents are rounded up to quarters of powers of two: 40, 48, 56, 64, 80. */
enum { LAUNCH_MOST_WORDS = 1 << 16 };
uint8_t launch_facts_code(int64_t extent, bool words);
int64_t launch_facts_bound(unsigned code);
/* Writes the facts into the IR. Code may rely on them, because a launch looks for a variant by the same
 * facts. converted: by parameter, the type that its elements have in memory where that is another one than in
 * the kernel, else DT_COUNT; may be NULL. */
void launch_facts_promise(Func *, const FrontKernel *, const LaunchFacts *, const DType *converted);

typedef struct CompileOptions {
    const Target *target;
    BackendOptions backend;
    PassOptions passes;
    Text *times; /* receives the time of each stage; may be NULL */
    struct EmissionChecker
        *check;       /* checks the text that a GPU backend emits (backends/gpu/check.h); may be NULL */
    bool *declined;   /* of compile_lowered: see KernelOptions; may be NULL */
    int64_t expected; /* the same */
    bool unplayed;    /* the same */
} CompileOptions;
CompileOptions compile_options_default(const Target *);

typedef struct CompiledParam {
    ParamKind kind;
    DType dtype;
    int rank;
    int dims[TILE_MAX_RANK]; /* -1: the code has the axis and others as one (Param.joined_from) */
} CompiledParam;
typedef struct CompiledDim {
    int64_t extent;
    int param, axis;
    bool derived;
    /* extent -1: the launch reads it from that axis; derived: it must equal the value that Compiled.extents
     * computes */
} CompiledDim;

/* A compiled specialization: the artifact, and the data that the host needs to launch it. Plain data. */
typedef struct Compiled {
    Artifact artifact;
    const EvalCode *grid, *remap; /* remap NULL: there is no remap to check at launch */
    const EvalCode *work;         /* on the CPU: what ir/analysis/work.h counts; NULL: that is not known */
    /* The extents of the derived dimensions, in their order; NULL: there are none. */
    const EvalCode *extents;
    const CompiledParam *params;
    int n_params;
    const CompiledDim *dims;
    int n_dims;
    const char *spec; /* "D=64, CAUSAL=true" */
} Compiled;

/* What is compiled: one specialization of a kernel. */
typedef struct CompileJob {
    Session *session; /* in which the program was parsed; receives the diagnostics and holds the result */
    Ast *ast;         /* the checked program */
    const char *kernel;
    const FrontBinding *bindings;
    size_t n_bindings;
    const LaunchFacts *facts; /* what the launch promises; NULL: nothing */
    const CompileOptions *options;
} CompileJob;

/* Lowers, sets facts, runs the passes and the backend. False after diagnostics, the last of which names the
 * specialization. */
bool compile_kernel(const CompileJob *, Compiled *out);
/* The part before the backend: tile IR after the passes. NULL after diagnostics. *func is the kernel. The
 * report may be NULL. */
Module *compile_to_ir(const CompileJob *, PassReport *report, Func **func);
/* Computes only what a launch needs before any program runs: *out has parameters, dimensions and grid. It
 * also works for bindings under which the body does not compile. Facts are not asked for. */
bool compile_clauses(const CompileJob *, Compiled *out);
/* For GPU targets: compiles to kernel IR and emits it, for callers that examine the code (cost.h). *out has
 * the clauses, *lowered the kernel in kernel IR, and *code the result, with the shared memory that it takes
 * even if that is too much. False after diagnostics, and without any if `may_fit` is given and says no of the
 * kernel's tile IR. */
struct GpuCode;
typedef struct CompileTest {
    bool (*holds)(const void *user, const Func *);
    const void *user;
} CompileTest;
bool compile_lowered(
    const CompileJob *, const CompileTest *may_fit, Compiled *out, Func **lowered, struct GpuCode *code);
/* The part before the backend, with what a launch evaluates in *out, `work` among it for a CPU. False after
 * diagnostics. */
bool compile_tiles(const CompileJob *, Compiled *out, Func **func);
/* The part of compile_lowered after compile_tiles, which gave `tiles` and *out. It leaves `tiles` as they
 * are, so that jobs whose tile IR is the same can share it, each with its hints for the kernel IR in
 * tiles->hints. */
bool compile_from_tiles(const CompileJob *, const CompileTest *may_fit, Func *tiles, Compiled *out,
    Func **lowered, struct GpuCode *code);
/* Computes the derived extents into dims; env has the others. Returns the number of one that already has
 * another value in dims (at least 0), -1 if all are equal, or -2 if an expression cannot be evaluated. */
int compiled_derive(const Compiled *, const EvalEnv *env, int64_t *dims);
/* Compiles the text of a GPU artifact to a binary by the driver's compiler, in place (memory of the session).
 * False after diagnostics. */
bool compile_to_binary(Session *, Driver *, const CompileOptions *, Compiled *);
/* The same in another form, for drivers that refuse the binary. The reason is in *e. `c` still holds the
 * text. */
tile_status compile_to_form(
    Session *, Driver *, const CompileOptions *, Compiled *c, DriverForm, DriverError *e);
/* Runs and times the backend alone, after compile_to_ir. False after diagnostics. The build must have a
 * backend for the target (driver_backend). */
bool compile_backend(Session *, Module *, Func *, const CompileOptions *, Artifact *);
/* A line of CompileOptions.times: a stage that began at `begin` (clock_ns) ends now. */
void compile_time(const CompileOptions *, const char *stage, int64_t begin);
/* After frontend_check: whether the ladders of the program name passes that there are. False after
 * diagnostics. */
bool compile_check_ladders(Session *, const Ast *);
/* "attention<D=64, CAUSAL=true>". */
const char *compile_title(Session *, const char *kernel, const FrontBinding *, size_t n_bindings);
