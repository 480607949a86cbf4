/* lds.h: see lds.c. */
#pragma once
#include "passes/kernel/kernel.h"

static inline int layout_log2_u(uint32_t x)
{
    int n = 0;
    while (x > 1) {
        x >>= 1;
        n++;
    }
    return n;
}
/* Lanes of one cycle, in the order of `turn`: `group` of them, over so many banks. */
typedef struct LdsTurn {
    int banks, group;
    const int8_t *order;
} LdsTurn;
LdsTurn lds_turn(LdsChip, bool read, int bytes);
static inline int lds_lane(LdsTurn t, int turn) { return t.order ? (turn & 32) | t.order[turn & 31] : turn; }
/* Cycles lost to bank conflicts when l is written to, or read from, s in its widest vectors. */
int lds_conflicts(LdsChip, const Layout *l, const LayoutShared *s, bool read);
/* A layout for a tile of which axis `inner` is contiguous, with the fewest conflicts of writer and reader (0
 * where it matters). */
const LayoutShared *lds_layout(Arena *, LdsChip, const int32_t *tile, int inner, int bytes,
    const Layout *writer, const Layout *reader, int *conflicts);
/* How the lanes take a tile from memory, contiguous along `unit`, for a shared tile contiguous along `inner`.
 */
const Layout *lds_writer(Arena *, const int32_t *tile, int unit, int inner, int bytes, int wave, int warps);
