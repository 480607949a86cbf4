/* Inside of ir/layout*.c: the mutable form that every constructor fills in and layout_build checks and
 * freezes. */
#ifndef TILE_IR_LAYOUT_PRIV_H
#define TILE_IR_LAYOUT_PRIV_H

#include "ir/arena.h"
#include "ir/layout.h"

enum { BUILD_BITS = 24, BUILD_DIGITS = 64, LAYOUT_MAX_EXTENT = 1 << 24 };

typedef struct {
    int rank, ndigit;
    int32_t tile[LAYOUT_MAX_RANK];
    int nbit[LAYOUT_INPUTS];
    int32_t basis[LAYOUT_INPUTS][BUILD_BITS][LAYOUT_MAX_RANK];
    LayoutDigit digit[BUILD_DIGITS];
    bool overflow; /* there are more bits or digits than fit, and layout_build refuses */
} LayoutBuild;

typedef enum { SPEC_BLOCKED, SPEC_MMA, SPEC_SLICE, SPEC_PERMUTE, SPEC_BROADCAST } LayoutSpecKind;

struct LayoutSpec {
    LayoutSpecKind kind;
    int32_t per[LAYOUT_MAX_RANK], lanes[LAYOUT_MAX_RANK], warps[LAYOUT_MAX_RANK],
        order[LAYOUT_MAX_RANK]; /* order: permutation too */
    LayoutMma mma;
    LayoutRole role;
    int32_t axis, extent;
    bool keep;
    const Layout *of;
};

void layout_build_init(LayoutBuild *b, int rank, const int32_t *tile);
/* One more fragment bit of an input; vec NULL: zero vector. */
void layout_build_bit(LayoutBuild *b, LayoutInput in, const int32_t *vec);
void layout_build_digit(LayoutBuild *b, LayoutInput in, int axis, int32_t size, int32_t stride);
void layout_build_from(LayoutBuild *b, const Layout *l);
const Layout *layout_build(Arena *a, LayoutBuild *b, const LayoutSpec *spec);
/* Coordinate vector of a basis word. */
void layout_unpack(const Layout *l, uint64_t word, int32_t *vec);
/* Fragment coordinate of a thread and, added to coord, its digits. */
uint64_t layout_partial(const Layout *l, LayoutInput in, uint32_t value, int32_t *coord);

/* Coordinate d of a basis word. */
static inline int32_t layout_fragment_coord(const Layout *l, uint64_t word, int d)
{ return (int32_t)(word >> l->fshift[d] & ((1ull << l->fbit[d]) - 1)); }

/* layout_shared.c. Fills a layout of layout_shared_make; false: it is not legal. The byte offset of an
 * element before it is swizzled, and a swizzled offset. */
bool layout_shared_init(
    LayoutShared *out, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, LayoutRows);
uint32_t layout_shared_plain_offset(const LayoutShared *, const int32_t *coord);
uint32_t layout_shared_swizzled_offset(const LayoutShared *, uint32_t offset);

/* layout_banks.c. The fewest wavefronts of a full access; whether the bits of a lane's number decide its
 * offset one by one, by exclusive or; as swizzles keep it. */
uint32_t layout_least_wavefronts(uint32_t nlanes, uint32_t width);
bool layout_lanes_by_bits(const uint32_t *offset, uint32_t nlanes);

static inline uint64_t layout_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}
static inline int layout_log2(uint32_t v) { return 31 - __builtin_clz(v); } /* v > 0 */
static inline int layout_ceil_log2(uint32_t v) { return v <= 1 ? 0 : 32 - __builtin_clz(v - 1); }
static inline bool layout_pow2(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

#endif
