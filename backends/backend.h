/* backend.h: what a backend is to the runtime and to tilec: a constant table of functions from a module that
 * went through the passes to an artifact. An artifact is plain data: it is cached on disk, embedded ahead of
 * time, loaded by a driver.
 *
 * Everything in an Artifact is allocated in the session's arena (or is constant), unless artifact_read made
 * it. */
#pragma once
#include "ir/abi.h"
#include "ir/ir.h"
#include "ir/target/target.h"

typedef enum EmitKind {
    EMIT_DEFAULT, /* what the runtime loads: an object on the CPU, C text on a GPU */
    EMIT_OBJECT,  /* CPU: relocatable object; HIP: code object */
    EMIT_ASM,     /* assembly text */
    EMIT_LLVM,    /* LLVM IR text */
    EMIT_TEXT,    /* CUDA C or HIP C */
} EmitKind;

typedef enum ArtifactKind {
    ARTIFACT_TEXT, /* CUDA C, HIP C, assembly, LLVM IR: readable text, NUL-terminated (not counted in size) */
    ARTIFACT_OBJECT, /* relocatable object for the CPU */
    ARTIFACT_BINARY, /* cubin or AMD code object */
} ArtifactKind;

/* What code for the CPU takes of a processor. */
typedef struct CpuUse {
    int vector_registers, vector_registers_had, vector_bytes;
    int64_t spills, reloads; /* stores of registers to the stack and loads from there, in the text */
    int64_t stack_bytes;     /* of the largest frame */
} CpuUse;

typedef struct BackendOptions {
    EmitKind emit;
    int opt_level;   /* 0..3 */
    bool debug_info; /* line tables back to the .tile file; on the CPU variables too */
    bool checked;    /* asserts, gather ranges and NaN stores report through SLOT_CHECK */
    bool tracked; /* CPU, checked: accesses to out and inout tensors are reported to CheckRecord.accesses */
    bool early_start; /* CUDA, sm_90 and later: the kernel may start before what is in front of it in its
                         stream has ended, and waits for that itself */
    const char *cpu,
        *features;      /* CPU backend: "" or NULL is the host; else LLVM's names, such as "x86-64-v3" */
    const char *symbol; /* name of the entry; NULL: the kernel's name */
    bool amx_model;     /* CPU, for tests: instructions of AMX become calls of functions that the process has
                           (tests/unit/cpu/amx_model.h) */
    CpuUse *use;        /* CPU, with EMIT_ASM: what the code takes; NULL: is not asked */
    bool verify_each;   /* verify after each lowering step of the backend's own */
    const struct KernelOptions
        *kernel; /* GPU backends: which kernel passes to leave out (passes/kernel/kernel.h); NULL: none */
} BackendOptions;

/* How many programs run at once and what each needs. */
typedef struct LaunchShape {
    int threads; /* per program (GPU); a multiple of the warp or wave */
    int cluster; /* blocks of a cluster, 1 without: those that a program is spread over, so that the runtime
                    launches `cluster` times as many; of a persistent kernel those that take a program each
                    and load together: it launches no more than hold all programs */
    int cluster_axis; /* of a persistent kernel, the grid axis along which the programs of a cluster are
                         neighbours: the last cluster of each row along it may lack programs */
    int clusters; /* of one program, whose parts meet in the workspace; 0 and 1: one. The runtime launches as
                     many times more blocks. Never of a persistent kernel */
    int persistent; /* 0: one block a program. n: at most n blocks a multiprocessor, looping over programs;
                       the runtime launches min(programs, n * multiprocessors) blocks, or as many
                       clusters */
    int shares;     /* CTAs that may share a program of a persistent kernel, which then starts up to as many
                       for each; 0 and 1: none do */
    int abreast; /* programs that may be the warps of one block, each with `threads` and `shared_bytes`: the
                    runtime decides how many are; 0 and 1: a block has one program */
    int early_start; /* 1: waits itself for what is before it in its stream, so that it may be launched to
                        start earlier */
    int neighbours;  /* CPU, 1: programs that follow each other write parts of the same lines, which meet if
                        one  thread takes both */
    int64_t shared_bytes;        /* dynamic shared memory */
    int64_t scratch_bytes;       /* CPU: private memory of a thread, 64-byte aligned */
    int64_t workspace_bytes;     /* caller's workspace: this much ... */
    int64_t workspace_per_block; /* ... and this much for each block launched (GPU; stream-k: each part) or
                                    thread (CPU) */
} LaunchShape;

typedef struct Artifact {
    ArtifactKind kind;
    const void *data;
    size_t size;
    const char *entry; /* symbol of the kernel in the loaded object */
    const Slot *slots;
    int n_slots;
    const TensorMapDesc *maps;
    int n_maps; /* SLOT_TENSOR_MAP's index counts here */
    const char *const *messages;
    int n_messages; /* CheckRecord.message counts here; the texts name what failed */
    LaunchShape shape;
    const char *schedule; /* GPU: what was decided, as text that can be read back (docs/schedule.md); CPU: the
                             plan, for people */
    int ctas;     /* CTAs of a multiprocessor that the launch bounds ask for, where no hint does; 0: none */
    bool streams; /* bounds for more CTAs may be worth fewer registers (schedule/occupancy.h) */
    int registers_planned; /* of a thread, as the schedule expects; 0 unknown */
    bool too_large; /* the tiles take more shared memory, or on AMD more registers, than there is: smaller
                       ones may do. Also where compiling failed */
    /* Filled by the runtime after the vendor's compiler spoke (-1: not known). */
    int registers, spill_bytes, stack_bytes, static_shared_bytes;
} Artifact;

/* A loaded CPU object. */
typedef struct CpuModule CpuModule;

/* What a product in a loop over K moves: its sums stay in registers for `depth` elements along K, and of the
 * elements of an operand it packs a part: 0 of one that is multiplied where it lies, less than 1 of one that
 * consecutive programs have in common and find packed. */
typedef struct ProductMoves {
    int64_t depth;
    double packed[2];
} ProductMoves;

typedef struct Backend {
    const char *name; /* "cpu", "cuda", "hip" */
    TargetKind kind;
    /* Compiles the kernel `func` of a verified module: tile IR after the pipeline of passes.h, which the
     * backend may change. (The GPU backends run the kernel passes on it themselves.) True with *out filled,
     * false after diagnostics. Out of memory leaves through session.oom. */
    bool (*compile)(Session *, Module *, Func *func, const Target *, const BackendOptions *, Artifact *out);
    /* CPU only, else NULL: links an object artifact into the process. NULL with a reason in err on failure.
     * The module is freed by unload, and may be loaded and run by several threads. Takes no session: it runs
     * on the cache's fast path. */
    CpuModule *(*load)(
        const void *object, size_t size, const char *entry, CpuKernelFn **fn, char *err, size_t err_size);
    void (*unload)(CpuModule *);
    /* The version of what decides the output besides the module: part of the cache key, e.g. "llvm 22.1.0
     * znver4+avx512f". NULL: none. */
    const char *(*fingerprint)(Session *, const Target *, const BackendOptions *);
    /* CPU only, else NULL: multiply-adds a cycle of a core of this machine, in products of this type. */
    double (*product_rate)(Session *, const Target *, DType);
    /* CPU only, else NULL: what a product of a loop does besides multiplying. */
    ProductMoves (*product_moves)(Session *, const Target *, Func *, const Instr *mma);
    /* CPU only, else NULL: the bytes that memory delivers to a product of few rows while it begins another
     * row. */
    double (*row_begin)(Session *, const Target *);
} Backend;

/* Defined by backends/cpu (with TILE_ENABLE_CPU) and backends/gpu. */
extern const Backend backend_cpu, backend_cuda, backend_hip;
