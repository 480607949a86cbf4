/* access.h: the accesses of tensors and of shared memory as the emitter wrote them, and what they move. The
 * emitter records one record for each operation and side (a copy has a side in a tensor and one in shared
 * memory); access_count enumerates the addresses of every warp from its layouts. */
#pragma once
#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/target/target.h"

typedef enum AccessWay {
    WAY_VECTORS,  /* threads move their elements between registers and a tensor, by vectors or one by one */
    WAY_SHIFTED,  /* the same by aligned vectors around each row, which are shifted in registers */
    WAY_COPY,     /* cp.async, or through registers, from a tensor to shared memory */
    WAY_LDS_DMA,  /* AMD: from a tensor straight to LDS */
    WAY_TMA,      /* one thread starts a copy of a box by the Tensor Memory Accelerator */
    WAY_CP_ASYNC, /* cp.async producers copy aligned vectors around the rows */
    WAY_ONE,      /* a scalar */
    WAY_INDEXED,  /* gather, scatter, atomic: addresses that the program computes */
    WAY_SHARED,   /* threads move their elements between registers and shared memory */
    WAY_MATRIX,   /* ldmatrix */
    WAY_UNIT,     /* wgmma reads an operand by its descriptor, or TMA writes a stage */
    WAY_COUNT
} AccessWay;

/* In words: "vectors", "cp.async". */
const char *access_way_name(AccessWay);

typedef struct EmittedAccess {
    const Instr *instr; /* in the lowered kernel */
    AccessWay way;
    bool write;
    int param;                     /* of the tensor; -1: shared memory alone */
    const Layout *layout;          /* which thread moves which elements; NULL: not the threads' registers */
    const LayoutShared *shared;    /* the tile in shared memory; NULL: a tensor */
    LayoutVector vector;           /* what a thread moves at once */
    LayoutMatrix matrix;           /* WAY_MATRIX */
    const Value *of;               /* WAY_UNIT: the view, or the ring */
    int tile_axis[TILE_MAX_RANK];  /* by axis of the tensor: the axis of the tile, or -1 */
    int64_t step[TILE_MAX_RANK];   /* by axis of the tensor */
    int64_t begins[TILE_MAX_RANK]; /* by axis of the tensor: a divisor of the window's offset */
    uint32_t picked;               /* tensor axes whose positions a tile gives */
    bool masked;                   /* elements may be out of range */
    uint32_t exchange, other;      /* lanes with the bit `other` move register r ^ exchange in place of r */
    int bytes;                     /* of an element */
} EmittedAccess;

/* What an access moves: all warps of a CTA, once. Shared memory: `moved` counts wavefronts, passes over the
 * banks. Tensors: sectors. */
typedef struct AccessCount {
    double requests;      /* instructions of a warp */
    double bytes;         /* that lanes ask for */
    double moved, fewest; /* and how many those bytes need at least */
    double runs;          /* pieces of consecutive bytes, over all requests */
    double apart;         /* what the pieces would move if each began at a multiple of the sector */
    double lanes, active; /* of all requests, and those that move something */
    double worst;         /* the most that one request moves */
    int width;            /* bytes that a lane moves at once */
    int64_t stride;       /* bytes from a lane to the next one that moves another element; 0: one lane */
    int lane_axis;        /* the axis of the tile along which those lanes follow each other; -1: none */
    bool data;            /* addresses depend on data: each element counts as a sector of its own */
} AccessCount;

/* The address in bytes of an element of the window from the window's first element. strides: of the tensor,
 * in elements. */
int64_t access_offset(const EmittedAccess *, const int64_t *strides, const int32_t *coord);
/* Counts for a tensor with these strides (in elements), which begins at a multiple of 256 bytes. Windows
 * begin wherever their offsets allow within a sector; the counts are the mean of these places. For shared
 * memory strides may be NULL. TMA: the rows of its boxes. */
void access_count(const EmittedAccess *, const Target *, const int64_t *strides, AccessCount *);
/* The lane addresses of one request: the vector that begins at register `base` of this warp. addr has room
 * for LAYOUT_MAX_LANES; INT64_MIN marks a lane that moves nothing. Returns the number of lanes. */
int access_lanes(const EmittedAccess *, const int64_t *strides, uint32_t base, uint32_t warp, int64_t *addr);
/* Whether register r begins a request. */
bool access_begins(const EmittedAccess *, uint32_t r);
