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
/* The lanes of one cycle: `group` lanes in the order of `order`, over so many banks. */
typedef struct LdsCycle {
    int banks, group;
    const int8_t *order;
} LdsCycle;
LdsCycle lds_cycle(LdsChip, bool read, int bytes);
static inline int lds_lane(LdsCycle t, int nth) { return t.order ? (nth & 32) | t.order[nth & 31] : nth; }
/* The cycles of one access beyond the minimum. `addr` has the address of each lane; a negative one for a lane
 * that does nothing. */
int lds_extra_cycles(LdsCycle, const int64_t *addr, int lanes, int bytes);
/* The cycles that bank conflicts cost when l is written to s, or read from it, in its widest vectors. */
int lds_conflicts(LdsChip, const Layout *l, const LayoutShared *s, bool read);
/* A layout for a tile that is contiguous along axis `inner`, with the fewest bank conflicts of writer and
 * reader. */
const LayoutShared *lds_layout(Arena *, LdsChip, const int32_t *tile, int inner, int bytes,
    const Layout *writer, const Layout *reader, int *conflicts);
/* The layout in which lanes load a tile from memory, contiguous along `unit`, for a shared tile that is
 * contiguous along `inner`. */
const Layout *lds_writer(Arena *, const int32_t *tile, int unit, int inner, int bytes, int wave, int warps);
