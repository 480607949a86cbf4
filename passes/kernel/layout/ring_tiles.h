/* ring_tiles.h: tiles behind a product that come through rings (epilogue-loads), which column-strips reads a
 * strip at a time (ring_tiles.c). */
#pragma once
#include "passes/kernel/kernel.h"

/* The reads of tiles from rings behind some sums, in the order of the program, and the ring_put of each. */
typedef struct RingTiles {
    InstrList reads, puts;
} RingTiles;

/* The part of the tile from the column `start` on that the strips read next; tile: the index of its read. */
typedef struct RingStrip {
    size_t tile;
    int64_t start;
} RingStrip;

/* Finds the reads in a block from `behind` on, which follows the sums. False: there are none, or their parts
 * may not come in another order, because other operations on rings lie between them or between their puts. */
bool ring_tiles_find(Arena *, Instr *behind, RingTiles *);

/* The index of the read of the value; -1: it is none of them. */
int ring_tiles_index(const RingTiles *, const Value *);

/* Whether a strip of so many columns of the tile is a number of whole stages. */
bool ring_tiles_fit(const Instr *read, int64_t columns);

/* The attributes of the read of a strip of so many columns. */
Attrs ring_tiles_attrs(Arena *, const Instr *read, int64_t columns);

/* Puts strips of so many columns in this order in place of the tiles: `n` strips, each of each tile once. */
void ring_tiles_put(Session *, const RingTiles *, const RingStrip *strips, size_t n, int64_t columns);
