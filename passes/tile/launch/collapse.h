/* collapse.h: two axes of tensors that a launch may give as one; see collapse.c. */
#pragma once
#include "passes/tile/analysis/affine.h"

/* How the programs of a kernel divide two axes between them. */
typedef struct AxisPair {
    int outer, inner;  /* dimensions of the kernel */
    int64_t tile[2];   /* elements of a program along the outer and the inner axis */
    int grid[2];       /* the axes of the grid; -1: one program is all there is */
    int at;            /* the axis of tiles that holds the outer axis; -1: tiles have no two such axes */
    const Type *shape; /* of tiles with an element for each element of the program */
    const bool *of_pair, *even; /* by id: such a tile; a tile of one value */
} AxisPair;

/* Whether the kernel does the same if the extents of the two dimensions are 1 and their product, for tensors
 * in which these axes follow each other without a gap. Dimensions are indices into Func.dims. */
bool axes_collapse(Arena *scratch, const Func *, int outer, int inner, AxisPair *out);
