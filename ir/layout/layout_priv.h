/* Inside of ir/layout/layout*.c: the mutable form that every constructor fills in and layout_build checks and
 * freezes. */
#ifndef TILE_IR_LAYOUT_PRIV_H
#define TILE_IR_LAYOUT_PRIV_H

#include "ir/support/arena.h"
#include "ir/layout/layout.h"

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

/* A swizzle as layout_shared_terms gives it; base: the lowest bit that it changes. */
typedef struct LayoutTerms {
    int n, base;
    uint8_t shift[LAYOUT_SWIZZLE_TERMS];
    uint32_t mask[LAYOUT_SWIZZLE_TERMS];
} LayoutTerms;

/* layout_banks.c. The fewest wavefronts of a full access. */
uint32_t layout_least_wavefronts(uint32_t nlanes, uint32_t width);

/* What the lanes of one access touch, as far as no swizzle changes it: units are words, or vectors that begin
 * at multiples of their size. Swizzles move units as a whole, and keep different ones apart. */
enum { LAYOUT_MOST_BITS = 5, LAYOUT_MOST_PASSES = LAYOUT_MAX_LANES / 8 };
typedef struct LayoutUnits {
    uint32_t of[LAYOUT_MAX_LANES]; /* where each lane's vector begins; UINT32_MAX: the lane is off */
    uint32_t lanes, group;         /* their number, and how many are served together */
    bool aligned;                  /* false: vectors begin at other addresses, and nothing else is known */
    uint32_t shift, banks;         /* log2 of a unit's bytes; the units beside each other in all banks */
    uint32_t set;                  /* the bits that are set in any offset */
    bool by_bits;                  /* the bits of a lane's number decide its offset, by exclusive or */
    /* by_bits: the bits of a lane's number within a group, what each changes, how many are independent */
    uint32_t n_bits, bit[LAYOUT_MOST_BITS], rank;
    bool listed; /* the offsets of the different units of each group are: */
    uint8_t end[LAYOUT_MOST_PASSES];
    uint32_t unit[LAYOUT_MAX_LANES];
} LayoutUnits;
/* Fills the rest from `of` and `lanes`, for accesses of so many bytes. */
void layout_units(LayoutUnits *, uint32_t width);
/* Whether a swizzle leaves the wavefronts as they are if all offsets are larger by `more`. */
bool layout_units_move(const LayoutUnits *, const LayoutTerms *, uint32_t more);
/* Wavefronts where all offsets are larger by `more`, and then swizzled. False: that is not known, because
 * units are cut. */
bool layout_units_wavefronts(LayoutUnits *, const LayoutTerms *, uint32_t more, uint32_t *wavefronts);

static inline uint64_t layout_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}
static inline int layout_log2(uint32_t v) { return 31 - __builtin_clz(v); } /* v > 0 */
static inline int layout_ceil_log2(uint32_t v) { return v <= 1 ? 0 : 32 - __builtin_clz(v - 1); }
static inline bool layout_pow2(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

#endif
