/* launch.h: what the files of a launch have in common: arguments.c, key.c, grid.c, launch.c, questions.c. */
#pragma once
#include "runtime/launch/kernel.h"

#define COLD __attribute__((cold, noinline))

/* Notes the message of what is wrong with argument i (-1: with the launch) and gives the status back. */
COLD tile_status launch_bad(tile_kernel *, tile_status, int i, const char *fmt, ...);
/* Is something written to that another argument reads or writes? Only what is certain. */
tile_status launch_overlap(tile_kernel *, const View *);
/* Reads scalar argument i. */
tile_status launch_scalar_value(tile_kernel *, int i, const tile_arg *, View *, Scalar *);
/* Everything between the key and the driver: dimensions, grid, remap. */
tile_status launch_grid(
    tile_kernel *, Variant *, const LaunchArgs *, int64_t *dims, EvalEnv *, int64_t *programs);
/* The variant for the arguments; NULL, and success, where there is nothing to compute. */
tile_status launch_variant(tile_kernel *, const LaunchArgs *, Variant **out);
int64_t launch_blocks(const tile_context *, const LaunchShape *, int64_t programs);
size_t launch_workspace(const tile_context *, const LaunchShape *, int64_t blocks);
