/* bulk_store.h: bulk-store: accumulators staged in shared memory a warp at a time and stored by TMA. */
#pragma once
#include "passes/kernel/kernel.h"

/* How a warp's registers become boxes of 16 rows, each row one span of the swizzle. Registers 2q and 2q + 1
 * are a pair of neighbours along the unit axis: in lane l of its box's row 8 * half + l / 4, column col + 2
 * (l mod 4). */
typedef struct BulkBoxes {
    int unit;                         /* the axis of the tile that is contiguous in memory */
    int row_bytes, bytes;             /* the bytes of a row of a box (128, 64 or 32); the bytes of a box */
    int32_t box[TILE_MAX_RANK];       /* extents of a box */
    int n, warps, pairs;              /* the boxes of a warp, the pairs of a box */
    int32_t (*origin)[TILE_MAX_RANK]; /* of each box, for warp 0 */
    int32_t (*warp)[TILE_MAX_RANK];   /* what a warp adds */
    int32_t *pair, *half, *col;       /* [n * pairs]: box by box, in the order of columns and halves */
} BulkBoxes;

/* False where the layout is none of accumulators in whole boxes. bytes: of an element, 2 or 4. */
bool kernel_bulk_boxes(Arena *, const Layout *, int unit, int bytes, BulkBoxes *);
/* Marks the store (bulk = buffers a warp) if all of that holds and there is room; true if so. */
bool kernel_bulk_store(Session *, Func *, KernelPlan *, Instr *store);
/* Boxes of a warp that may be on their way at once: each program begins with the first buffer again, so that
 * one in use by the last but `boxes mod buffers` comes round early. */
int kernel_bulk_depth(int boxes, int buffers);
/* The marked store of accumulators laid out like `type`, elements of the same size; NULL: none. */
Instr *kernel_bulk_store_like(Block *, const Type *);
/* Where 16-bit rows come from that go through such a store's buffers: a warp's own boxes, one after the
 * other, whole box rows side by side in 16-byte pieces. NULL where boxes or warps are no powers of two. */
const Layout *kernel_bulk_rows(Arena *, const Layout *accumulators, const BulkBoxes *);
/* Loads converted to accumulators that such a store stores take that layout. */
void kernel_bulk_loads(Session *, Func *, KernelPlan *);
