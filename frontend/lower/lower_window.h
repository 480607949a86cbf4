/* lower_window.h: between lower_window.c, which reads the subscripts of an access, and lower_memory.c, which
 * builds the access. */
#pragma once
#include "frontend/lower/lower.h"

typedef struct Window {
    KParam *param;
    Value *operands[TILE_MAX_RANK + 6];
    int n; /* the tensor, one index for each axis, and the further operands of the access */
    int64_t extents[TILE_MAX_RANK], steps[TILE_MAX_RANK];
    bool strided;
    int rank; /* of the value */
    int64_t shape[TILE_MAX_RANK];
} Window;

/* The window that the first argument of the call names; false after a message. */
bool lower_window(Lower *, const Call *, Window *);
/* The tiles of indices of a gather, a scatter or an atomic operation, broadcast against each other; false
 * after a message. */
bool lower_indices(Lower *, const Call *, Window *);
