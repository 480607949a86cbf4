/* abi.h: how a launch hands arguments to a compiled kernel, for every backend. A compiled kernel lists its
 * slots; the runtime (or an ahead-of-time launcher) fills one 8-byte word a slot, in order. On the CPU the
 * kernel receives the array; on a GPU each slot is one kernel parameter (tensor maps are 128 bytes). */
#pragma once
#include "ir/type.h"

typedef enum SlotKind {
    SLOT_DATA,       /* base address of parameter `param` */
    SLOT_EXTENT,     /* extent of dimension symbol `index` */
    SLOT_STRIDE,     /* stride in elements of axis `index` of parameter `param` */
    SLOT_SCALAR,     /* value of scalar parameter `param`, its bits in the low end of the word */
    SLOT_GRID,       /* extent of grid axis `index` */
    SLOT_TENSOR_MAP, /* the CUtensorMap of parameter `param`, described by TensorMapDesc number `index` of the
                        artifact */
    SLOT_CHECK,      /* address of a CheckRecord (checked builds) */
    SLOT_SCHEDULER,  /* the address of a zeroed 64-bit counter, which the kernel leaves zeroed (persistent
                      * grids)
                      */
    SLOT_WORKSPACE,  /* address of scratch memory of the size the artifact asks for */
    SLOT_PRINT,      /* address of a PrintSink (CPU; kernels that print) */
} SlotKind;

typedef struct Slot {
    SlotKind kind;
    int param, index;
    DType dtype;
} Slot; /* dtype: what the kernel declares (index: 64 bits) */

typedef struct AccessSink AccessSink;

/* CheckRecord.message of a wait at an mbarrier that did not end. `program` is then the CTA, and `wait` has
 * the mbarrier's place among the CTA's bytes of shared memory, and from these bits on the warp and the parity
 * of the phase. */
enum { CHECK_WAIT = 0x7fffffff, CHECK_WAIT_WARP = 18, CHECK_WAIT_PARITY = 24 };

/* Written by a failed assert of a checked build; the first failure wins. */
typedef struct CheckRecord {
    uint32_t failed, line;
    int64_t program;
    uint32_t message, wait;
    AccessSink *accesses; /* BackendOptions.tracked: receives the accesses, or NULL */
} CheckRecord;

/* A place of the program that accesses a tensor, and the way in which it does. */
typedef enum AccessKind { ACCESS_READ, ACCESS_STORE, ACCESS_ATOMIC } AccessKind;
typedef struct AccessSite {
    uint32_t index; /* counts the sites of a kernel from 0 */
    uint32_t param, kind;
    uint32_t order;            /* of an atomic, as SEM_ in enums.def */
    uint32_t file, begin, end; /* a Loc */
} AccessSite;
/* The elements of a window: positions lo[a] .. hi[a] along each axis, stride[a] bytes apart. */
typedef struct AccessWindow {
    const char *base;
    int64_t rank, stride[TILE_MAX_RANK], lo[TILE_MAX_RANK], hi[TILE_MAX_RANK];
} AccessWindow;
/* The destination of accesses to out and inout tensors (ir/interp/faults.h). All threads of a launch call it.
 */
struct AccessSink {
    void (*window)(AccessSink *, const AccessSite *, int64_t program, const AccessWindow *);
    void (*element)(AccessSink *, const AccessSite *, int64_t program, const void *address);
};

/* The destination of print: begin, the pieces of one line (as printf takes them, at most one value each),
 * end. All threads of a launch call it. */
typedef struct PrintSink PrintSink;
struct PrintSink {
    void (*begin)(PrintSink *);
    void (*put)(PrintSink *, const char *format, ...);
    void (*end)(PrintSink *);
};

/* A tensor map: the box is what one TMA operation moves. axes[0] is the fastest; tensor axis numbers, each
 * axis once or, for panels, a split inner axis: axes with `split` > 0 address the tensor axis in panels of
 * `split` elements. */
typedef struct TensorMapDesc {
    int param, rank;
    int axes[5];
    int64_t split[5];
    /* The elements that the window moves along each axis, and the distance between them; step 0 means 1. */
    uint32_t box[5], step[5];
    /* pixels: of an im2col map, rows of the box; 0: a map of boxes. Then box[0] counts channels, and lower
     * and upper are the corners of the box of pixels: the first along each axis, and the last seen from its
     * end. */
    int pixels, lower[3], upper[3];
    int swizzle_bytes; /* 0, 32, 64, 128 */
    DType dtype;
} TensorMapDesc;

/* CPU entry point: runs programs [begin, end) of the linear grid. `scratch` has the artifact's scratch_bytes,
 * 64-byte aligned, private to the calling thread. `again`: not 0 if it is as the thread's call before this
 * one left it, in the same launch; what that call kept there stays. Returns 0, or 1 when a check failed. */
typedef int CpuKernelFn(const uint64_t *slots, int64_t begin, int64_t end, void *scratch, int32_t again);
