/* gpu.h: the C emitter for CUDA and HIP. */
#pragma once
#include "backends/gpu/access.h"
#include "passes/kernel/kernel.h"

/* The most scratch memory that one instruction takes, for a tile on its way between threads. */
typedef struct ScratchUse {
    Loc loc;
    const Type *type;
    int64_t bytes;
} ScratchUse;

/* The tile that takes the most registers of a thread. */
typedef struct RegisterUse {
    Loc loc;
    const Type *type;
    int words;
} RegisterUse;

/* A buffer of the shared-memory map. */
typedef struct SharedUse {
    const char *name;
    const Type *type;
    int64_t offset, bytes;
    Loc loc;
} SharedUse;

typedef struct GpuCode {
    const char *text;
    size_t text_len;  /* the source, without headers, in the session's arena */
    const char *name; /* of the kernel function */
    int threads;      /* of a CTA */
    int64_t shared_bytes,
        scratch_bytes; /* the dynamic shared memory, and the part of it for conversions and reductions */
    RegisterUse largest;
    int registers;            /* of a thread, at most */
    int consumer_registers;   /* the same for consumers, if there is warp specialization */
    ScratchUse beside, after; /* in addition to the buffers, and after their last use */
    const Slot *slots;
    int n_slots; /* kernel parameters in order */
    const TensorMapDesc *maps;
    int n_maps;
    /* AMD: the registers of a lane as planned (passes/kernel/amd/registers.c), and the most that a lane can
     * have. Registers beyond that are spilled. */
    int planned_registers, lane_registers;
    int planned_waves; /* AMD: of a SIMD, at least */
    /* the launch starts min(programs, CTAs that fit) CTAs instead of one for each program */
    int persistent;
    int abreast; /* programs of `threads` threads and `shared_bytes` that may share a CTA; 0: it has one */
    int shares;
    /* The kernel itself waits for its predecessor in the stream, so that it may be launched to start earlier.
     */
    bool early_start;
    /* The CTAs of a cluster. If the kernel is persistent, they load together. Otherwise one program is
     * divided among them, and the grid has `cluster` CTAs for each program. */
    int cluster;
    int clusters;                /* that share a program */
    int64_t workspace_per_block; /* bytes that each CTA takes of the workspace */
    /* The decisions as text that can be read back (passes/kernel/schedule/schedule.h). */
    const char *schedule;
    const SharedUse *shared_map;
    int n_shared_map;
    const EmittedAccess *accesses; /* of tensors and of tiles in shared memory, in the order of the text */
    int n_accesses;
    KernelPlan *plan; /* as it was lowered */
} GpuCode;

/* Emits the source text of kernel IR (after kernel_lower). The caller checks shared_bytes against the target.
 * */
void gpu_emit(Session *, Func *, KernelPlan *, GpuCode *);
/* The same without the text: computes the resources that the code needs. */
void gpu_measure(Session *, Func *, KernelPlan *, GpuCode *);
/* Lowers and emits. It lowers a copy of the module, so that a kernel whose conversions need more shared
 * memory than its rings left can be lowered again with fewer buffers. *plan may be NULL. The lowered kernel
 * is at *lowered if that is not NULL. */
bool gpu_compile(Session *, Func *, const Target *, const KernelOptions *, GpuCode *, Func **lowered);
/* rounds.c: how many rounds of a loop the vendor's compiler is to take together. Rounds that load few words a
 * thread have few bytes under way; taken together, their loads start together, ahead of what is computed and
 * stored (bench/notes/ported.md, "Short rounds taken together"). Each thread has more of them under way where
 * CTAs are so small that as many as a multiprocessor holds leave places for threads empty. role: the loop is
 * that of a role of a specialized kernel. */
int gpu_rounds_together(const Func *, KernelPlan *, bool role, const Instr *loop);
/* Writes typedefs and, in a fixed order, those of the functions `names` that are called, together with all
 * functions that they call. called NULL: all of them are. */
void gpu_prelude(Session *, const Target *, const char *const *names, const bool *called, size_t n, Text *);
/* Whether the target has a function of this name. */
bool gpu_prelude_has(Session *, const Target *, const char *name);
