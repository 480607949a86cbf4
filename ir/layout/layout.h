/* Linear layouts: which element of a tile each (register, lane, warp, block) holds, and at which byte of
 * shared memory an element lies. docs/layouts.md is the manual; source of the idea: "Linear Layouts", arXiv
 * 2505.23819. Instruction fragments: PTX ISA 9.7.14 (mma), 9.7.15 (wgmma), AMD matrix instruction calculator.
 *
 * Layouts are immutable, live in the arena they were made in, and compare by structure. Constructors return
 * NULL when what was asked cannot be expressed (stated at each); running out of memory never returns.
 * Coordinates and extents are in elements, offsets in bytes, registers count elements (not 32-bit words). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

enum {
    LAYOUT_MAX_RANK = 8,
    LAYOUT_MAX_BITS = 16, /* fragment bits of one input */
    LAYOUT_MAX_DIGITS = 16,
    LAYOUT_MAX_REGS = 4096, /* the elements of one tile in one thread */
    LAYOUT_MAX_LANES = 64,
    LAYOUT_MAX_WARPS = 512, /* of a cluster, before layout_split_blocks */
};

/* The inputs of the map. LAYOUT_BLOCK is the CTA within a cluster. */
typedef enum { LAYOUT_REG, LAYOUT_LANE, LAYOUT_WARP, LAYOUT_BLOCK, LAYOUT_INPUTS } LayoutInput;

/* A mixed-radix digit of an input above its fragment bits: value 0..size-1, `stride` elements along `axis` a
 * step (0: the copies hold the same elements). */
typedef struct {
    uint8_t in, axis;
    int32_t size, stride;
} LayoutDigit;

typedef struct LayoutSpec LayoutSpec; /* how it was built, which the short text form prints */

/* Read freely, never write. A fragment coordinate is one word: axis d occupies bits [fshift[d], fshift[d] +
 * fbit[d]). */
typedef struct Layout {
    uint8_t rank, ndigit;
    uint8_t nbit[LAYOUT_INPUTS];   /* fragment bits of each input */
    uint8_t fbit[LAYOUT_MAX_RANK]; /* log2 of the fragment's extents */
    uint8_t fshift[LAYOUT_MAX_RANK];
    int32_t tile[LAYOUT_MAX_RANK]; /* extents of the tile */
    /* The extents of the covered box, at least those of the tile; other layouts are refused. */
    int32_t cover[LAYOUT_MAX_RANK];
    uint32_t count[LAYOUT_INPUTS]; /* values of each input: registers a thread, lanes a warp, warps, blocks */
    uint64_t basis[LAYOUT_INPUTS][LAYOUT_MAX_BITS];
    LayoutDigit digit[LAYOUT_MAX_DIGITS];
    /* Free variables: fragment bits whose basis vector depends on those before it (register, lane, warp,
     * block; low to high). Threads with all of their free bits zero (and stride-0 digits zero) hold every
     * element. */
    uint32_t free[LAYOUT_INPUTS];
    uint64_t inverse[40]; /* fragment coordinate bit -> packed input: reg | lane<<16 | warp<<32 | block<<48 */
    bool separable; /* coordinate = coordinate(reg 0, thread) + coordinate(reg, thread 0), no XOR needed */
    uint64_t hash;
    const LayoutSpec *spec;
} Layout;

/* --- construction ------------------------------------------------------------------------------------ */

/* From basis vectors and digits. basis[in] has nbit[in] vectors of `rank` coordinates each, row after row;
 * digits in order of significance within their input. NULL if the fragment is not covered, digits overlap or
 * leave holes, the tile is not covered, or a limit is passed. */
const Layout *layout_from_basis(Arena *a, int rank, const int32_t *tile, const int nbit[LAYOUT_INPUTS],
    const int32_t *const basis[LAYOUT_INPUTS], int ndigit, const LayoutDigit *digit);

/* Blocked: per[d] elements a thread, lanes[d] threads a warp, warps[d] warps of a CTA along axis d; order[0]
 * is the fastest axis. per and lanes are powers of two, warps any. What exceeds the tile is replicated, the
 * rest repeated in registers. */
const Layout *layout_blocked(Arena *a, int rank, const int32_t *tile, const int32_t *per,
    const int32_t *lanes, const int32_t *warps, const int32_t *order);

/* The bytes of a lane's accesses, at most `widest`, by which one warp, or a part of its lanes, holds a row of
 * so many elements: at most a fifth of the places have nothing. *places receives their number, in accesses.
 * Rows of more accesses than lanes take several for each, of as few as 4 bytes and of 48 in all. 0: there are
 * none. */
int layout_row_access(int64_t elems, int elem_bytes, int widest, int nlanes, int64_t *places);

/* A good blocked layout for a coalesced access of elements of `elem_bytes` with at most `vec_bytes` (16) a
 * lane along order[0]: as many lanes along order[0] as waste nothing (or least), the others on the next axes.
 */
const Layout *layout_coalesced(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes,
    int vec_bytes, int nlanes, int nwarps);
/* The same, where a lane has neighbours along axis `near`, as far as it has several elements along it. */
const Layout *layout_coalesced_near(Arena *a, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, int vec_bytes, int nlanes, int nwarps, int near);

/* Matrix instructions: name, M, N, K, bits of an A/B element, lanes.
 *   X(id, "text", M, N, K, bits, lanes, warps an instruction spans) */
#define LAYOUT_MMA_KINDS(X) \
    X(M16N8K16, "m16n8k16", 16, 8, 16, 16, 32, 1) /* f16, bf16; sm_80 */ \
    X(M16N8K8, "m16n8k8", 16, 8, 8, 16, 32, 1)    /* f16, bf16 */ \
    X(M16N8K8_TF32, "m16n8k8_tf32", 16, 8, 8, 32, 32, 1) \
    X(M16N8K4_TF32, "m16n8k4_tf32", 16, 8, 4, 32, 32, 1) \
    X(M16N8K32, "m16n8k32", 16, 8, 32, 8, 32, 1)          /* i8 sm_80, fp8 sm_89 */ \
    X(M16N8K16_8, "m16n8k16_8", 16, 8, 16, 8, 32, 1)      /* i8 */ \
    X(M8N8K4_F64, "m8n8k4_f64", 8, 8, 4, 64, 32, 1)       /* sm_80 */ \
    X(M16N8K16_F64, "m16n8k16_f64", 16, 8, 16, 64, 32, 1) /* sm_90 */ \
    X(WGMMA_K16, "wgmma_k16", 64, 8, 16, 16, 32, 4)       /* sm_90a, N in steps of 8 */ \
    X(WGMMA_K8, "wgmma_k8", 64, 8, 8, 32, 32, 4)          /* tf32 */ \
    X(WGMMA_K32, "wgmma_k32", 64, 8, 32, 8, 32, 4)        /* fp8, i8 */ \
    /* The same with the rows of A and C in another order: a lane's two rows of a warp's 16 are neighbours. \
     */ \
    X(WGMMA_K16_PAIRS, "wgmma_k16_pairs", 64, 8, 16, 16, 32, 4) \
    /* Or so that the lanes of a matrix of 8 x 8 have the half words in which rows of 4 bits lie: rows 0, 1, \
     * 8, 9, .., and two rows on. */ \
    X(WGMMA_K16_HALVES, "wgmma_k16_halves", 64, 8, 16, 16, 32, 4) \
    X(MFMA_32x32x8, "mfma_32x32x8", 32, 32, 8, 16, 64, 1) /* f16, bf16; gfx90a, gfx942 */ \
    X(MFMA_16x16x16, "mfma_16x16x16", 16, 16, 16, 16, 64, 1) \
    X(MFMA_32x32x16, "mfma_32x32x16", 32, 32, 16, 16, 64, 1) /* f16, bf16; gfx950 */ \
    X(MFMA_16x16x32, "mfma_16x16x32", 16, 16, 32, 16, 64, 1) \
    X(MFMA_32x32x16_8, "mfma_32x32x16_8", 32, 32, 16, 8, 64, 1) /* fp8, i8; gfx942 */ \
    X(MFMA_16x16x32_8, "mfma_16x16x32_8", 16, 16, 32, 8, 64, 1) \
    X(MFMA_32x32x8_8, "mfma_32x32x8_8", 32, 32, 8, 8, 64, 1)    /* i8; gfx90a */ \
    X(MFMA_32x32x32_8, "mfma_32x32x32_8", 32, 32, 32, 8, 64, 1) /* i8; gfx950 */ \
    X(MFMA_16x16x64_8, "mfma_16x16x64_8", 16, 16, 64, 8, 64, 1) \
    X(MFMA_32x32x64_8, "mfma_32x32x64_8", 32, 32, 64, 8, 64, 1) /* fp8; gfx950 (f8f6f4) */ \
    X(MFMA_16x16x128_8, "mfma_16x16x128_8", 16, 16, 128, 8, 64, 1) \
    X(MFMA_16x16x16_8, "mfma_16x16x16_8", 16, 16, 16, 8, 64, 1) \
    X(MFMA_32x32x2, "mfma_32x32x2", 32, 32, 2, 32, 64, 1) /* f32 */ \
    X(MFMA_16x16x4, "mfma_16x16x4", 16, 16, 4, 32, 64, 1) \
    X(MFMA_32x32x4_XF32, "mfma_32x32x4_xf32", 32, 32, 4, 32, 64, 1) /* gfx942 */ \
    X(MFMA_16x16x8_XF32, "mfma_16x16x8_xf32", 16, 16, 8, 32, 64, 1) \
    X(MFMA_16x16x4_F64, "mfma_16x16x4_f64", 16, 16, 4, 64, 64, 1) \
    X(WMMA_16x16x16, "wmma_16x16x16", 16, 16, 16, 16, 32, 1)    /* gfx11: A, B twice a wave */ \
    X(WMMA_16x16x16_8, "wmma_16x16x16_8", 16, 16, 16, 8, 32, 1) /* gfx11 iu8 */ \
    /* The same instructions with their operands exchanged (below). A lane of A and B has 16 bytes along K: \
     * one to four instructions. */ \
    X(MFMA_32x32x16_R, "mfma_32x32x16_r", 32, 32, 16, 16, 64, 1)    /* f16, bf16 */ \
    X(MFMA_32x32x32_8_R, "mfma_32x32x32_8_r", 32, 32, 32, 8, 64, 1) /* i8, fp8 */ \
    X(MFMA_32x32x64_8_R, "mfma_32x32x64_8_r", 32, 32, 64, 8, 64, 1) /* fp8; gfx950: 32 bytes */ \
    X(MFMA_32x32x8_32_R, "mfma_32x32x8_32_r", 32, 32, 8, 32, 64, 1) /* f32, xf32 */ \
    X(WMMA_16x16x16_R, "wmma_16x16x16_r", 16, 16, 16, 16, 32, 1) \
    X(WMMA_16x16x16_8_R, "wmma_16x16x16_8_r", 16, 16, 16, 8, 32, 1)

typedef enum {
#define X(id, text, m, n, k, bits, lanes, warps) LAYOUT_##id,
    LAYOUT_MMA_KINDS(X)
#undef X
        LAYOUT_MMA_COUNT
} LayoutMma;

typedef enum {
    /* [M,K], [K,N], [M,N]; WMMA: [M,K] in the form of a C, of which each half of the wave holds its half of K
     */
    LAYOUT_A,
    LAYOUT_B,
    LAYOUT_C,
    LAYOUT_HALVES
} LayoutRole;

typedef struct {
    const char *name;
    int m, n, k, bits, lanes, warps;
} LayoutMmaInfo;
const LayoutMmaInfo *layout_mma_info(LayoutMma kind);

/* Operand layout of `kind` for a tile of rank 2 (or more: leading axes repeat in registers), warps[0] x
 * warps[1] warps or warpgroups over M x N. wgmma has no B in registers: NULL. Fragments beyond the tile are
 * padding. Stacked: B of `products` below each other, each with `height` fragments of M. */
const Layout *layout_mma(
    Arena *a, LayoutMma kind, LayoutRole role, int rank, const int32_t *tile, const int32_t warps[2]);
const Layout *layout_mma_stacked(
    Arena *, LayoutMma, const int32_t tile[2], const int32_t warps[2], int32_t products, int32_t height);

/* The layout of a reduction over `axis`: every holder of an element of the tile holds its row's result. keep:
 * the axis stays with extent 1; else it is dropped (rank 1 stays rank 1). Registers that became copies are
 * merged. */
const Layout *layout_slice(Arena *a, const Layout *l, int axis, bool keep);
/* The tile of extent 1 along `axis` read as `extent` equal elements: registers repeat. To follow a tile, use
 * the tile's layout instead. */
const Layout *layout_broadcast(Arena *a, const Layout *l, int axis, int32_t extent);
/* A new axis of extent 1 before `axis` (0..rank). */
const Layout *layout_expand(Arena *a, const Layout *l, int axis);
/* 2^bits consecutive elements along `axis` for each of l, in consecutive registers of its thread. NULL: too
 * many registers. */
const Layout *layout_widen(Arena *a, const Layout *l, int axis, int bits);
/* Axis i of the result is axis perm[i] of l, as numpy.transpose. */
const Layout *layout_permute(Arena *a, const Layout *l, const int32_t *perm);
/* Row-major reshape without moving data. NULL where the result is no layout or l has padding. */
const Layout *layout_reshape(Arena *a, const Layout *l, int rank, const int32_t *tile);
/* n tiles of layout l side by side along `axis`; register index = r + regs(l) * which. NULL if l has padding
 * there. */
const Layout *layout_concat(Arena *a, const Layout *l, int axis, int n);
/* Half of the tile along `axis`, in a layout for either: `bit` of `in` tells them apart, register bit `reg`
 * is gone. A lane or warp bit then counts what that did: threads exchange halves. NULL: no such bits. */
typedef struct LayoutHalf {
    LayoutInput in;
    int bit, reg;
} LayoutHalf;
const Layout *layout_half(Arena *a, const Layout *l, int axis, LayoutHalf *);
/* `extent` consecutive positions along `axis`, from a multiple of `extent` on, in a layout for each such
 * part: a thread has of each part what it has of the first, in other registers. NULL: `extent` does not
 * divide the tile, or threads differ in the parts that they have. */
const Layout *layout_part(Arena *a, const Layout *l, int axis, int32_t extent);
/* l with registers and lanes exchanged along `axis` so that a thread holds as many consecutive elements as
 * fit max_bytes: the layout to store an accumulator from. Within a warp, so layout_convert needs only
 * shuffles. l itself where nothing can be gained. */
const Layout *layout_vectorize(Arena *a, const Layout *l, int axis, int elem_bytes, int max_bytes);
/* l with registers exchanged in each thread so that 2^bits consecutive elements along `axis` are consecutive
 * registers, as those are that share a word. l itself where a thread does not have them. */
const Layout *layout_units_first(Arena *a, const Layout *l, int axis, int bits);
/* l on `blocks` CTAs: what the upper warps hold, the warps of the other CTAs hold. Where the warps do not
 * divide so and `blocks` is a power of two, neighbouring warps are in different CTAs. NULL where neither is
 * possible. */
const Layout *layout_split_blocks(Arena *a, const Layout *l, int blocks);
/* l on a smaller or larger tile of the same covered box (tile <= cover). */
const Layout *layout_with_tile(Arena *a, const Layout *l, const int32_t *tile);

/* --- queries ----------------------------------------------------------------------------------------- */

static inline uint32_t layout_regs(const Layout *l) { return l->count[LAYOUT_REG]; }
static inline uint32_t layout_lanes(const Layout *l) { return l->count[LAYOUT_LANE]; }
static inline uint32_t layout_warps(const Layout *l) { return l->count[LAYOUT_WARP]; }
static inline uint32_t layout_blocks(const Layout *l) { return l->count[LAYOUT_BLOCK]; }

/* The coordinate that (reg, lane, warp, block) holds; it may lie in the padding. */
void layout_element(
    const Layout *l, uint32_t reg, uint32_t lane, uint32_t warp, uint32_t block, int32_t *coord);
/* The same of all lanes. */
void layout_lane_elements(const Layout *l, uint32_t reg, uint32_t warp, int32_t (*coord)[LAYOUT_MAX_RANK]);
bool layout_in_tile(const Layout *l, const int32_t *coord);

/* The position of a register over all threads: wholly inside the tile, wholly in the padding, or both (it
 * needs a mask). */
typedef enum { LAYOUT_INSIDE, LAYOUT_OUTSIDE, LAYOUT_MIXED } LayoutCover;
LayoutCover layout_reg_cover(const Layout *l, uint32_t reg);

/* One holder of a coordinate inside the covered box: the one with all free bits zero. False outside. */
typedef struct {
    uint32_t in[LAYOUT_INPUTS];
} LayoutOwner;
bool layout_owner(const Layout *l, const int32_t *coord, LayoutOwner *out);
/* The lowest register of that thread which holds coord, or -1 if the thread has no copy. (A reduction finds
 * the register of the layout_slice result that register r of the tile adds to this way.) */
int layout_find_reg(const Layout *l, const int32_t *coord, uint32_t lane, uint32_t warp, uint32_t block);

/* Coordinates as expressions: the coordinate along `axis` of register 0 is the sum of the terms
 *   ((input >> shift) / div % mod) * mul      (mod 0: no modulo)
 * over lane, warp and block. Terms with xor_ set (several meet in one coordinate bit: rare) are XORed first,
 * the others added. Together with layout_element(l, reg, 0, 0, 0) as a constant this is every coordinate if
 * l->separable. */
typedef struct {
    uint8_t in, shift;
    bool xor_;
    uint32_t div, mod, mul;
} LayoutTerm;
enum { LAYOUT_MAX_TERMS = 48 };
int layout_thread_terms(const Layout *l, int axis, LayoutTerm *out);
/* Conditions for being the one that stores where threads hold copies: each term's value must be 0. No terms:
 * all store. */
int layout_unique_terms(const Layout *l, LayoutTerm *out);
bool layout_is_unique(const Layout *l, uint32_t lane, uint32_t warp, uint32_t block);

/* Elements that one thread holds consecutively and aligned along `axis` (a power of two), whatever their
 * register numbers. */
uint32_t layout_contiguity(const Layout *l, int axis);

/* The widest memory access along `axis` (unit stride in memory): elements of elem_bytes, addresses of
 * elements whose coordinate is a multiple of the width aligned to align_bytes, at most max_bytes; it divides
 * the tile's extent, so no vector is partly padding. reg[i] is the XOR mask of register i of a vector: vector
 * v consists of registers base(v) ^ reg[0..n-1], base(v) runs over layout_vector_base. */
typedef struct {
    uint32_t n, bytes;
    uint32_t reg[64];
    uint32_t mask;
} LayoutVector;
void layout_vector(const Layout *l, int axis, uint32_t elem_bytes, uint32_t align_bytes, uint32_t max_bytes,
    LayoutVector *out);
/* Whether register r is the first of its vector. */
static inline bool layout_vector_base(const LayoutVector *v, uint32_t r) { return (r & v->mask) == 0; }

bool layout_equal(const Layout *a, const Layout *b);
uint64_t layout_hash(const Layout *l);
/* Equal up to replication: the holder with all free bits zero is the same (register, lane, warp, block) for
 * every element. */
bool layout_equivalent(const Layout *a, const Layout *b);

/* --- algebra ----------------------------------------------------------------------------------------- */

/* outer over inner: inner's box is the element of outer. Registers, lanes and warps of outer count above
 * inner's. */
const Layout *layout_product(Arena *a, const Layout *inner, const Layout *outer);
/* The layout q with layout_product(inner, q) equal to l, or NULL. */
const Layout *layout_divide(Arena *a, const Layout *l, const Layout *inner);

/* Matrices over F2, columns as words: y = XOR of col[i] over the set bits i of x. At most 64 x 64. */
typedef struct {
    int nin, nout;
    uint64_t col[64];
} F2Map;
uint64_t f2_apply(const F2Map *m, uint64_t x);
F2Map f2_compose(const F2Map *outer, const F2Map *inner);
F2Map f2_product(const F2Map *low, const F2Map *high); /* block diagonal */
int f2_rank(const F2Map *m);
bool f2_invert(const F2Map *m, F2Map *right);   /* m * right = identity; false if m is not surjective */
int f2_kernel(const F2Map *m, uint64_t *basis); /* returns its dimension */
bool f2_solve(const F2Map *m, uint64_t y, uint64_t *x); /* some x with m x = y */
/* The fragment of l as one matrix: inputs packed low to high (register, lane, warp, block), output the
 * fragment coordinate. */
F2Map layout_f2(const Layout *l);

/* --- text -------------------------------------------------------------------------------------------- */

/* Like snprintf: writes at most cap bytes with the ending zero, returns the length it would have. */
size_t layout_print(const Layout *l, char *buf, size_t cap);
size_t layout_print_basis(const Layout *l, char *buf, size_t cap);
/* The same as layout_print in the arena: the text a Type carries. */
const char *layout_text(Arena *a, const Layout *l);
/* Reads either form; *end is left after it. NULL with *err (static text) on malformed or refused input; never
 * reads past the zero. */
const Layout *layout_parse(Arena *a, const char *text, const char **end, const char **err);

/* --- shared memory ----------------------------------------------------------------------------------- */

/* offset(c) = swizzle(c[order[0]] / panel * panel_bytes + row * pitch + c[order[0]] % panel * elem_bytes) row
 * counts the other axes, order[1] fastest; swizzle XORs bit base + i with the parity of offset & xor_[i] (i <
 * nxor). */
typedef struct LayoutShared {
    uint8_t rank, elem_bytes, nxor, xor_base;
    uint8_t xor_shift; /* each mask is the bit so far above the one it changes; 0: that is not said */
    int32_t tile[LAYOUT_MAX_RANK], order[LAYOUT_MAX_RANK];
    int32_t panel, pitch, panel_bytes; /* elements, bytes, bytes */
    uint32_t xor_[8];
    uint32_t bytes, align; /* size of the whole, alignment its base needs */
} LayoutShared;

/* Row-major in `order`, rows `pad` bytes apart more than needed, no swizzle. */
const LayoutShared *layout_shared_rows(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int pad);
/* Panels of `span` bytes (32, 64, 128; 16: none) with the swizzle of TMA and wgmma for that span. NULL if
 * span does not divide the rows. */
const LayoutShared *layout_shared_swizzled(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span);
/* The same when span need not divide the rows: the last panel is padded. */
const LayoutShared *layout_shared_panels(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span);
/* How rows lie: in panels of `panel` elements, in which they are `pitch` bytes apart. The swizzle: bit
 * xor_base + i of an offset is combined by exclusive or with the bits of masks[i]. */
typedef struct LayoutRows {
    int panel, pitch, xor_base, n_masks;
    const uint32_t *masks;
} LayoutRows;
/* Any rows. NULL if the masks would not give a permutation of the offsets or panels overlap. */
const LayoutShared *layout_shared_make(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, LayoutRows);
/* The same bytes as elements of half the size, two for each along the contiguous axis. */
const LayoutShared *layout_shared_halves(Arena *a, const LayoutShared *s);
uint32_t layout_shared_offset(const LayoutShared *s, const int32_t *coord);
/* The swizzle if it is of the form bits [base, base+bits) ^= bits [base+shift, ..): true with all three, bits
 * = 0 for none. */
bool layout_shared_swizzle(const LayoutShared *s, int *bits, int *base, int *shift);
/* Any swizzle as code: offset ^ (offset >> shift[0] & mask[0]) ^ (offset >> shift[1] & mask[1]) ...; returns
 * their number. */
enum { LAYOUT_SWIZZLE_TERMS = 28 };
int layout_shared_terms(const LayoutShared *s, uint8_t *shift, uint32_t *mask);
bool layout_shared_equal(const LayoutShared *a, const LayoutShared *b);
uint64_t layout_shared_hash(const LayoutShared *s);
size_t layout_shared_print(const LayoutShared *s, char *buf, size_t cap);
const char *layout_shared_text(Arena *a, const LayoutShared *s);
const LayoutShared *layout_shared_parse(Arena *a, const char *text, const char **end, const char **err);
/* Widest vector (elements) of l along s's fastest axis that is contiguous and aligned in s, at most
 * max_bytes. */
void layout_shared_vector(const Layout *l, const LayoutShared *s, uint32_t max_bytes, LayoutVector *out);

/* Wavefronts (passes over the banks) of one access: lane i touches `width` bytes (1, 2, 4, 8, 16) at addr[i],
 * lanes with addr UINT32_MAX are off. 32 banks x 4 B; 8- and 16-byte accesses are served in groups of 16 and
 * 8 consecutive lanes. */
uint32_t layout_wavefronts(const uint32_t *addr, uint32_t nlanes, uint32_t width);
/* Whether it follows from the form of l that the element of a register of a lane is the exclusive or of those
 * of the bits of the lane, in each coordinate. */
bool layout_lanes_linear(const Layout *l);
/* Whether it follows from the form of l and s that the offset of an element in s is linear over F2 in
 * (register, lane, warp): that of register r in thread t is T(t) ^ C(r). All accesses then have the same
 * conflicts, because an exclusive or with a constant permutes banks. False: it may be linear all the same. */
bool layout_offsets_linear(const Layout *l, const LayoutShared *s);
/* Whether the offset of a register of a thread, before it is swizzled, is that of the thread's first register
 * and that of the register in the first thread together. */
bool layout_offsets_add(const Layout *l, const LayoutShared *s);
/* Wavefronts beyond the fewest possible, summed over all accesses that warp `warp` makes to move l to or from
 * s. */
uint32_t layout_bank_conflicts(const Layout *l, const LayoutShared *s, const LayoutVector *v, uint32_t warp);

/* An access to shared memory for the search: registers of `layout`, vectors of at most max_bytes, or
 * ldmatrix/stmatrix rows. */
typedef struct {
    const Layout *layout;
    uint32_t max_bytes;
    bool matrix;
} LayoutAccess;
/* A shared layout of tile for writer and reader with the fewest bank conflicts, panels of the whole row: XOR
 * swizzles first, padding (at most max_pad bytes a row) second. *conflicts: wavefronts beyond the fewest,
 * over all warps and both sides. Either access may have layout NULL. */
const LayoutShared *layout_shared_choose(Arena *a, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, const LayoutAccess *writer, const LayoutAccess *reader, int max_pad, uint32_t *conflicts);

/* --- conversion -------------------------------------------------------------------------------------- */

typedef enum {
    LAYOUT_CONVERT_NONE,
    LAYOUT_CONVERT_REGISTERS,
    LAYOUT_CONVERT_SHUFFLE,
    LAYOUT_CONVERT_SHARED
} LayoutConvertKind;

#define LAYOUT_NOREG (-1)
/* One element a lane: lane i reads register send[src[i]] of lane src[i] into its register recv[i]
 * (LAYOUT_NOREG: nothing to receive, or nobody reads the lane). Tables are linear in the lane: send depends
 * only on the lane bits send_mask, recv on recv_mask. shuffle false: src[i] == i, only registers are
 * selected. xor_ >= 0: src[i] == i ^ xor_. */
typedef struct {
    bool shuffle;
    int8_t xor_;
    uint8_t send_mask, recv_mask;
    int16_t send[LAYOUT_MAX_LANES], recv[LAYOUT_MAX_LANES];
    uint8_t src[LAYOUT_MAX_LANES];
} LayoutRound;

typedef struct LayoutConvert {
    LayoutConvertKind kind;
    const Layout *src, *dst;
    int16_t *reg_map;      /* REGISTERS: [regs(dst)] source register, LAYOUT_NOREG for padding */
    uint32_t nround, pack; /* SHUFFLE: rounds; `pack` successive ones share src and fit one 32-bit shuffle */
    LayoutRound *round;
    const LayoutShared *shared; /* SHARED: staging tile */
    LayoutVector store, load;   /* how the registers of src and dst access it */
    uint32_t bytes;             /* of shared memory */
    /* SHARED: no warp reads the elements of another warp, so a warp barrier between store and load suffices.
     */
    bool warp_local;
    uint32_t cost; /* estimate in issue slots of one warp */
} LayoutConvert;

/* The cheapest correct plan for elements of elem_bytes. Layouts must agree in tile, lanes, warps and blocks
 * (else NULL). Blocks never exchange: NULL if they would have to. */
const LayoutConvert *layout_convert(Arena *a, const Layout *src, const Layout *dst, int elem_bytes);
/* Whether that plan only renames registers, which is known long before a plan. */
bool layout_convert_renames(Arena *a, const Layout *src, const Layout *dst, int elem_bytes);
/* The same without shared memory: NULL if registers and shuffles do not suffice. */
const LayoutConvert *layout_convert_within(Arena *a, const Layout *src, const Layout *dst, int elem_bytes);
/* A plan through shared memory, its staging tile row-major without swizzle or padding: what bank conflicts
 * cost. */
const LayoutConvert *layout_convert_plain(Arena *a, const LayoutConvert *plan, int elem_bytes);

/* --- ldmatrix, stmatrix ------------------------------------------------------------------------------ */

/* Registers of l move by ldmatrix/stmatrix .x{count} to or from rows of 16 bytes along axis s->order[0]. Lane
 * i supplies the address of row i (i < 8 * count): coordinate of register `base` with the XOR of row[b] over
 * the set bits b of i added (XORed into the fragment coordinate): layout_matrix_row. One instruction fills,
 * for base in the registers with base & mask == 0 (layout_matrix_base), the 32-bit words w = 0..count-1, each
 * of 4 / elem_bytes elements: register base ^ word[w] ^ elem[e]. */
typedef struct {
    bool trans;
    uint8_t count; /* 1, 2, 4 */
    uint32_t mask, word[4], elem[4];
    uint64_t row[5]; /* fragment-coordinate vectors of the address lane's bits */
} LayoutMatrix;
/* Plain form for elements of 1, 2, 4 bytes, .trans for 2 bytes, and for 1 byte if a lane holds two neighbours
 * along the axis. allow_trans: try it when the plain one does not apply. */
bool layout_matrix(const Layout *l, const LayoutShared *s, bool allow_trans, LayoutMatrix *out);
static inline bool layout_matrix_base(const LayoutMatrix *m, uint32_t r) { return (r & m->mask) == 0; }
/* The coordinate whose 16-byte row lane `lane` of warp `warp` points at for the instruction that starts at
 * register `base`. A row in the padding may be pointed anywhere in the tile. */
void layout_matrix_row(
    const Layout *l, const LayoutMatrix *m, uint32_t base, uint32_t lane, uint32_t warp, int32_t *coord);

/* --- reductions -------------------------------------------------------------------------------------- */

/* How a reduction of l over `axis` runs: register r adds into reg[r] of the result; then every thread
 * combines with lane ^ lane_xor[i] for each i; then, where nwarp > 1, warps combine through shared memory: a
 * warp's partial has index sum of warp_term (0 .. nwarp-1). Copies that l holds already are never added
 * twice. Registers in the padding (layout_reg_cover) must have been neutralised. */
typedef struct {
    const Layout *result; /* layout_slice(l, axis, keep) */
    int16_t *reg;         /* [layout_regs(l)] */
    int nlane, nterm;
    uint8_t lane_xor[6];
    uint32_t nwarp;
    LayoutTerm warp_term[16]; /* ((warp >> shift) / div % mod) * mul, added */
} LayoutReduce;
/* A part of an input's index that moves along an axis: index / low % size counts positions, `step` apart. */
typedef struct {
    LayoutInput in;
    uint32_t low;
    int32_t size, step;
} LayoutAxisPart;
enum { LAYOUT_MAX_PARTS = LAYOUT_INPUTS * LAYOUT_MAX_BITS + LAYOUT_MAX_DIGITS };
/* The parts along `axis`, those of the smallest steps first: each steps over all that those before it count.
 * Their number; -1 where the axis does not lie so, or blocks share it. */
int layout_axis_parts(const Layout *l, int axis, LayoutAxisPart out[LAYOUT_MAX_PARTS]);
/* The lane bits over which the axis is distributed; those whose lanes hold copies of the same elements. */
uint32_t layout_lanes_along(const Layout *l, int axis);
uint32_t layout_lane_copies(const Layout *l);
/* False if a basis vector moves along `axis` and another axis at once: convert first. Where blocks share the
 * axis, their results are the caller's to combine. */
bool layout_reduce(Arena *a, const Layout *l, int axis, bool keep, LayoutReduce *out);

#include "ir/layout/layout_hopper.h"
