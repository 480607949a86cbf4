/* remap.h: what remap.c, which builds placements, and remap_auto.c, which chooses one, share. */
#pragma once
#include "passes/pass.h"

typedef enum RemapKind { REMAP_NONE, REMAP_XCD, REMAP_CHUNK, REMAP_HEAD, REMAP_AUTO } RemapKind;

/* "chunk:64+raster:8". 0 in a number: worked out from the grid. */
typedef struct RemapSpec {
    RemapKind kind;
    int64_t number, raster;
} RemapSpec; /* the number of programs of a chunk, or of heads that stay together */

const char *remap_text(Arena *, RemapSpec);
/* The chiplets that share the dispatch of one grid, and the number of programs that one of them runs at a
 * time. */
int64_t remap_chiplets(const PassOptions *);
int64_t remap_at_once(const PassOptions *, const Func *);
/* The block that places programs: chiplets, then the function's own remap, then the raster. NULL when all of
 * that is nothing. */
Block *remap_block(PassContext *, Func *, RemapSpec);
/* For REMAP_AUTO: the placement with the least traffic in the cache model. `raster`: what the kernel asked
 * for, kept. */
RemapSpec remap_choose(PassContext *, Func *, int rank, int64_t raster);
