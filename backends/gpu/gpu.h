/* gpu.h: the C emitter for CUDA and HIP. */
#pragma once
#include "passes/kernel/kernel.h"

/* The largest room that one instruction takes in scratch memory: a tile on its way between threads. */
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

typedef struct GpuCode {
    const char *text;
    size_t text_len;  /* header-free source, in the session's arena */
    const char *name; /* of the kernel function */
    int threads;      /* of a CTA */
    int64_t shared_bytes,
        scratch_bytes; /* dynamic shared memory; the part of it for conversions and reductions */
    RegisterUse largest;
    int registers;            /* of a thread, at most */
    int consumer_registers;   /* the same of consumers, where there are roles */
    ScratchUse beside, after; /* beside the buffers, and where they are done with */
    const Slot *slots;
    int n_slots; /* kernel parameters in order */
    const TensorMapDesc *maps;
    int n_maps;
    int planned_registers, lane_registers; /* AMD: of a lane, as planned (passes/kernel/amd/registers.c) and
                                              at most; more are spilled */
    int planned_waves;                     /* AMD: of a SIMD, at least */
    bool persistent;  /* launch min(programs, CTAs that fit) CTAs instead of one a program */
    bool early_start; /* waits itself for what is before it in its stream: may be launched to start earlier */
    int cluster; /* CTAs of a cluster: those that a program is spread over (the grid is programs x cluster),
                    or, persistent, those that load together */
    const char
        *schedule; /* what was decided, as text that can be read back (passes/kernel/schedule/schedule.h) */
    const struct SharedUse *shared_map;
    int n_shared_map; /* emit.h */
    KernelPlan *plan; /* as it was lowered */
} GpuCode;

/* Kernel IR (after kernel_lower) to source text. The caller checks shared_bytes against the target. */
void gpu_emit(Session *, Func *, KernelPlan *, GpuCode *);
/* The same without the text: what it would ask of a device. */
void gpu_measure(Session *, Func *, KernelPlan *, GpuCode *);
/* Both in one: lowers a copy of the module, so that a kernel whose conversions need more shared memory than
 * its rings left can be lowered again with fewer buffers. *plan may be NULL. The lowered kernel is at
 * *lowered if that is not NULL. */
bool gpu_compile(Session *, Func *, const Target *, const KernelOptions *, GpuCode *, Func **lowered);
/* Typedefs and the functions named, with those they call, in a fixed order. */
void gpu_prelude(Session *, const Target *, const char *const *names, size_t n, const char *code,
    Text *); /* of `names` what `code` mentions, and what that calls */
