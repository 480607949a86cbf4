/* gather_windows.h: between gather_windows.c, which finds gathers that are windows, gather_rows.c, which
 * finds rows, and gather_positions.c, which works out where a part or a row lies. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* The axis of `to` that axis k of `from` becomes in a reshape that only adds or drops axes of extent 1. -1:
 * the axis is dropped; -2: it is another reshape. */
int position_axis(const Type *from, const Type *to, int k);
/* The one axis of `to` along which another reshape lays all elements; -1: there are several. */
int position_line(const Type *to);
/* kernel_position for a tile of coordinates: at[k], all of one shape, gives the position along axis k of v.
 * `narrow`: only the numbers matter, not their width. */
Value *position_rows(Builder *, const Value *v, Value *const *at, bool narrow);

/* The axes on which a tile of integers depends. slope[a]: the number that a step along axis a adds, if
 * `linear`. */
typedef struct Depends {
    uint32_t on;
    bool linear;
    bool masked; /* read where a mask holds: positions can be computed row by row, but not as scalars */
    int64_t slope[TILE_MAX_RANK];
} Depends;

/* The window of a gather: the tensor axes along which its first axis selects, and the tensor axis of each
 * other axis. */
typedef struct Picked {
    uint32_t picks;
    int along[TILE_MAX_RANK];
    VEC(Value *) cuts;
    const char *why;
    /* along: by tensor axis, the axis of the result or -1; cuts: masks of the first axis; why: the reason
     * that the gather is no window row by row */
} Picked;

bool gather_depends_on(const Value *, Depends *, int depth);
/* Whether the mask may be removed: a load tests by itself what is in range, and the positions of the first
 * axis can be changed to be out of range. */
bool gather_mask_goes(Session *, const Func *, const MemParts *, Value *mask, Picked *);
/* The form in which a product uses the gather: as it is, merged to a matrix, or transposed. */
Value *gather_matrix_of(Value *, bool *transposed);
/* Erases v and all operations that only v used, up to the memory operation. */
void gather_erase_chain(Value *v);
void gather_windows_by_rows(Session *, Func *);
