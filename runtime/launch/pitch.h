/* pitch.h: launches whose inputs are copied first, into rows that the copy engine reaches, or transposed. */
#pragma once
#include "runtime/launch/launch.h"

enum { MOST_PITCHED = 4 };

/* A tensor that is copied: `rows` rows of `columns` elements, `from` elements apart; in the copy `to`
 * elements apart, or where it is transposed, `columns` rows of `rows` elements, `to` elements apart. */
typedef struct PitchedTensor {
    int param;
    bool transposed;
    int64_t rows, columns, from, to;
    size_t offset; /* bytes, in the memory of the launch */
    int64_t strides[TILE_MAX_RANK];
    tile_tensor tensor; /* the copy, with the shape of the original */
} PitchedTensor;

typedef struct Pitch {
    int n;
    size_t bytes; /* of all copies */
    PitchedTensor tensor[MOST_PITCHED];
    tile_arg args[MAX_PARAMS]; /* of the launch on the copies */
} Pitch;

/* Whether a launch with these arguments, read into `l`, copies tensors first; *p then says which. The shapes
 * of `p->args` are those of `l`, and their addresses are placeholders (pitch_place). */
bool pitch_wanted(tile_kernel *, const tile_arg *, size_t n, const LaunchArgs *l, Pitch *p);
/* Copies and launches. False: there is no memory for it, and nothing was done. */
bool pitch_launch(
    tile_kernel *, size_t n_args, const LaunchArgs *, Pitch *, const tile_launch_desc *, tile_status *);
/* Compiles the kernels that copy. */
tile_status pitch_compile(tile_kernel *, const LaunchArgs *, const Pitch *);
