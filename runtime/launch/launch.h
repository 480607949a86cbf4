/* launch.h: what the files of a launch have in common: arguments.c, key.c, grid.c, launch.c, questions.c. */
#pragma once
#include "runtime/launch/kernel.h"

#define COLD __attribute__((cold, noinline))

/* Records the message about an error in argument i (-1: in the launch) and returns the status. */
COLD tile_status launch_bad(tile_kernel *, tile_status, int i, const char *fmt, ...);
/* Whether a tensor is written that another argument reads or writes. Only certain overlaps count. */
tile_status launch_overlap(tile_kernel *, const View *);
/* track.c: follows the accesses of a launch. NULL: out of memory. */
Faults *track_begin(tile_kernel *, const LaunchArgs *, int64_t programs);
/* Reports what was found, after a launch of that grid, and frees it. */
tile_status track_end(tile_kernel *, Faults *, const int64_t *grid);
/* The facts of a tensor that has other extents and strides than those that were read. */
void launch_reread(tile_kernel *, int i, View *, int64_t *strides);
/* Reads scalar argument i. */
tile_status launch_scalar_value(tile_kernel *, int i, const tile_arg *, View *, Scalar *);
/* Does everything between the key and the driver: dimensions, grid, remap. */
tile_status launch_grid(
    tile_kernel *, Variant *, const LaunchArgs *, int64_t *dims, EvalEnv *, int64_t *programs);
/* tile_launch, without copies of inputs (pitch.c). */
tile_status launch_as_given(tile_kernel *, const tile_arg *, size_t n, const tile_launch_desc *);
/* The variant for the arguments; NULL, and success, if there is nothing to compute. */
tile_status launch_variant(tile_kernel *, const LaunchArgs *, Variant **out);
/* The CTAs to start on a GPU, or the threads of a launch on the CPU. `env` has dimensions and grid. */
LaunchSize launch_size(const tile_context *, const Compiled *, const EvalEnv *env, int64_t programs);
