/* im2col.h: of warp-specialization and bulk-store: windows whose rows are consecutive pixels (im2col.c). */
#pragma once
#include "passes/kernel/kernel.h"

/* Rows of a window that are consecutive pixels. by, count: the pixel's place along the axis is
 * number / by % count; at a distance of step, from `lower` on, plus what the scalars `more` add to their
 * least. upper: of the last pixel, seen from the end of the axis. */
enum { IM2COL_SUMMANDS = 4, MOST_TMA_STEP = 8 };
typedef struct PixelAxis {
    int axis, n;
    int64_t by, count, step, lower, upper;
    Value *more[IM2COL_SUMMANDS];
} PixelAxis;
/* axes: the fastest first. begin, start: their sum is the number of the first row's pixel; begin NULL: 0.
 * unit, column, first_column: of pixels in order, the contiguous axis and where the window begins along it.
 */
typedef struct Im2col {
    int n, batch, unit;
    PixelAxis axes[3];
    Value *begin, *column;
    int64_t start, first_column;
} Im2col;

/* Whether the scatter or gather moves consecutive pixels, all of those of the tensor being counted. */
bool kernel_pixels_in_order(const Func *, const Instr *access, Im2col *);
/* The store that does the same, before the scatter, which stays: its offset along the axis of images is the
 * number of the first pixel. Only bulk-store's code does such a store. */
Instr *kernel_store_of_pixels(Session *, Instr *scatter, const Im2col *);
