/* bulk_store.h: bulk-store: accumulators staged in shared memory a warp at a time and stored by TMA. */
#pragma once
#include "passes/kernel/kernel.h"

/* How the registers of a warp become boxes of 16 rows, where each row is one span of the swizzle. Registers
 * 2q and 2q + 1 are a pair of neighbours along the unit axis: lane l has row 8 * half + l / 4 of its box, and
 * column col + 2 (l mod 4). */
typedef struct BulkBoxes {
    int unit;                         /* the axis of the tile that is contiguous in memory */
    int row_bytes, bytes;             /* the bytes of a row of a box (128, 64 or 32); the bytes of a box */
    int32_t box[TILE_MAX_RANK];       /* extents of a box */
    int n, warps, pairs;              /* the boxes of a warp, the pairs of a box */
    bool overlaps;                    /* the last box begins within the one before */
    int32_t (*origin)[TILE_MAX_RANK]; /* of each box, for warp 0 */
    int32_t (*warp)[TILE_MAX_RANK];   /* what a warp adds */
    int32_t *pair, *half, *col;       /* [n * pairs]: box by box, in the order of columns and halves */
} BulkBoxes;

/* False: the layout is not that of accumulators in whole boxes. bytes: of an element, 2 or 4. */
bool kernel_bulk_boxes(Arena *, const Layout *, int unit, int bytes, BulkBoxes *);
/* The same of what `store` stores, whose boxes may overlap if it adds nothing. */
bool kernel_store_boxes(Arena *, const Layout *, const Instr *store, int unit, BulkBoxes *);
/* Marks the store (bulk = the buffers of a warp) if all of these conditions hold and there is room. Returns
 * whether it did. */
bool kernel_bulk_store(Session *, Func *, KernelPlan *, Instr *store);
/* Makes a scatter of consecutive pixels such a store, under the same conditions; returns whether it did, and
 * has erased the scatter then. */
bool kernel_bulk_scatter(Session *, Func *, KernelPlan *, Instr *scatter);
/* Whether memory or a parameter decides about the position, which may be a negative one therefore. */
bool kernel_box_is_given(const Func *, Arena *, const Value *position);
/* Hands what a program does with its semaphores beside its additions to the writer warps that add in order,
 * and returns whether there is anything (ordered_ends.c). */
bool kernel_hand_ends(Session *, Func *);
/* The boxes of a warp that may be in flight at once. Each program begins with the first buffer again, so a
 * buffer that one of the last `boxes mod buffers` boxes uses is needed again early. */
int kernel_bulk_depth(int boxes, int buffers);
/* The marked store of accumulators with the layout of `type` and elements of the same size; NULL: none. */
Instr *kernel_bulk_store_like(Block *, const Type *);
/* The layout of 16-bit rows that go through the buffers of such a store: a warp's own boxes, one after the
 * other, with whole box rows side by side in 16-byte pieces. NULL when boxes or warps are no powers of two.
 * */
const Layout *kernel_bulk_rows(Arena *, const Layout *accumulators, const BulkBoxes *);
/* Gives that layout to loads that are converted to accumulators which such a store stores, and returns
 * whether there are any. Requires producer warps. */
bool kernel_bulk_loads(Session *, Func *, KernelPlan *);

/* Whether every extent of the tensor is known to be below 2^31. TMA requires it, because its coordinates are
 * signed 32-bit numbers. */
static inline bool kernel_tma_counts(const Func *f, const Param *p)
{
    bool all = true;
    for (int a = 0; a < p->type->rank && !f->fits32 && !f->extents31; a++) {
        int64_t n = f->dims[p->dims[a]].extent;
        all &= n >= 0 && n <= INT32_MAX;
    }
    return all;
}
