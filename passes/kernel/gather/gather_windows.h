/* gather_windows.h: between gather_windows.c, which finds gathers that are windows, and gather_positions.c,
 * which works out where a part of one lies. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* The axis of `to` that axis k of `from` becomes in a reshape that only adds or drops axes of extent 1. -1:
 * the axis is dropped; -2: it is another reshape. */
int position_axis(const Type *from, const Type *to, int k);
/* kernel_position for a tile of coordinates: at[k], all of one shape, gives the position along axis k of v.
 * `narrow`: only the numbers matter, not their width. */
Value *position_rows(Builder *, const Value *v, Value *const *at, bool narrow);
