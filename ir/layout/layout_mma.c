/* Fragments of matrix instructions, and operand layouts of whole tiles made of them.
 *
 * Sources: PTX ISA 9.7.14.5 (mma.sync fragments), 9.7.15.5.1.1 (wgmma), AMD matrix instruction calculator
 * (MFMA of CDNA2/3, WMMA of RDNA3) and the CDNA4 ISA guide for the gfx950 shapes, which double the k elements
 * of a lane; f8f6f4, whose lanes hold two runs of 16 bytes of K: AMD's guides to it
 * (tests/emu/hip_fragments.h names them). */
#include "ir/layout/layout_priv.h"

#include <string.h>

static const LayoutMmaInfo mma_info[LAYOUT_MMA_COUNT] = {
#define X(id, text, m, n, k, bits, lanes, warps) { text, m, n, k, bits, lanes, warps },
    LAYOUT_MMA_KINDS(X)
#undef X
};

const LayoutMmaInfo *layout_mma_info(LayoutMma kind) { return &mma_info[kind]; }

/* One basis vector (i along the operand's first axis, j along its second); ZERO replicates, END ends a list.
 */
#define V(i, j) ((i) | (j) << 8)
#define ZERO 0
#define END 0xFFFF

typedef struct {
    uint16_t reg[6], lane[7], warp[3];
} Fragment;
typedef struct {
    Fragment role[3];
} FragmentRow;

/* mma.sync: groupID = lane / 4 selects the row of A and C and the column of B, lane % 4 the pair (or quad)
 * along the other axis. */
#define ROWS8 V(1, 0), V(2, 0), V(4, 0), END
#define COLS8 V(0, 1), V(0, 2), V(0, 4), END
#define MMA_C \
    { \
        { V(0, 1), V(8, 0), END }, { V(0, 2), V(0, 4), ROWS8 }, { END } \
    }
#define WG_WARPS { V(16, 0), V(32, 0), END }
#define WG_C { { V(0, 1), V(8, 0), END }, { V(0, 2), V(0, 4), ROWS8 }, WG_WARPS }
#define NO_B \
    { \
        { END }, { END }, { END } \
    } /* wgmma reads B from shared memory only */

/* MFMA: the lane's low bits select the row of A (column of B), its high bits the group of e consecutive k. */
#define MFMA32_LANE_A(e) { V(1, 0), V(2, 0), V(4, 0), V(8, 0), V(16, 0), V(0, e), END }
#define MFMA32_LANE_B(e) { V(0, 1), V(0, 2), V(0, 4), V(0, 8), V(0, 16), V(e, 0), END }
#define MFMA16_LANE_A(e) { V(1, 0), V(2, 0), V(4, 0), V(8, 0), V(0, e), V(0, 2 * (e)), END }
#define MFMA16_LANE_B(e) { V(0, 1), V(0, 2), V(0, 4), V(0, 8), V(e, 0), V(2 * (e), 0), END }
#define MFMA32_C \
    { \
        { V(1, 0), V(2, 0), V(8, 0), V(16, 0), END }, MFMA32_LANE_B(4), { END } \
    }
#define MFMA16_C \
    { \
        { V(1, 0), V(2, 0), END }, MFMA16_LANE_B(4), { END } \
    }
#define KA1 { END }
#define KA2 { V(0, 1), END }
#define KA4 { V(0, 1), V(0, 2), END }
#define KA8 { V(0, 1), V(0, 2), V(0, 4), END }
#define KB1 { END }
#define KB2 { V(1, 0), END }
#define KB4 { V(1, 0), V(2, 0), END }
#define KB8 { V(1, 0), V(2, 0), V(4, 0), END }
#define KA16 { V(0, 1), V(0, 2), V(0, 4), V(0, 8), END }
#define KB16 { V(1, 0), V(2, 0), V(4, 0), V(8, 0), END }
/* a run of 16 bytes, and another one behind those of all lanes */
#define KA16x2(far) { V(0, 1), V(0, 2), V(0, 4), V(0, 8), V(0, far), END }
#define KB16x2(far) { V(1, 0), V(2, 0), V(4, 0), V(8, 0), V(far, 0), END }
#define MFMA32(e) \
    { \
        { \
            { KA##e, MFMA32_LANE_A(e), { END } }, { KB##e, MFMA32_LANE_B(e), { END } }, MFMA32_C \
        } \
    }
#define MFMA16(e) \
    { \
        { \
            { KA##e, MFMA16_LANE_A(e), { END } }, { KB##e, MFMA16_LANE_B(e), { END } }, MFMA16_C \
        } \
    }

/* WMMA of gfx11, wave32: lanes 16..31 hold the A and B of lanes 0..15 again; C has rows 2r + lane / 16. */
#define WMMA_ROW \
    { \
        { \
            { { V(0, 1), V(0, 2), V(0, 4), V(0, 8), END }, \
                { V(1, 0), V(2, 0), V(4, 0), V(8, 0), ZERO, END }, { END } }, \
                { { V(1, 0), V(2, 0), V(4, 0), V(8, 0), END }, \
                    { V(0, 1), V(0, 2), V(0, 4), V(0, 8), ZERO, END }, { END } }, \
            { \
                { V(2, 0), V(4, 0), V(8, 0), END }, { V(0, 1), V(0, 2), V(0, 4), V(0, 8), V(1, 0), END }, \
                { END } \
            } \
        } \
    }

/* The transposed product C' = B' A': a row of C lies in one lane and its mirror, so rows are reduced in
 * registers, and C as it lies is the A of a next product. The rows of B' are taken in an order (i of the
 * instruction's, n of the tile's) by which a lane's registers of C are neighbours along N, as the registers
 * of A are along K:
 *   16 bits: n = i with bits 2 and 3 exchanged; 8 bits: bits 2, 3, 4 of i are bits 4, 2, 3 of n; 32 bits: n
 *       = i. WMMA: bit 0 of i is bit 3 of n. */
#define MFMA32_R(ra, rb, e, b0, b1, b2, b3, b4, c0, c1, c2, c3, g) \
    { \
        { \
            { ra, MFMA32_LANE_A(e), { END } }, \
                { rb, { V(0, b0), V(0, b1), V(0, b2), V(0, b3), V(0, b4), V(e, 0), END }, { END } }, \
            { \
                { V(0, c0), V(0, c1), V(0, c2), V(0, c3), END }, \
                    { V(1, 0), V(2, 0), V(4, 0), V(8, 0), V(16, 0), V(0, g), END }, \
                { END } \
            } \
        } \
    }
#define WMMA_ROW_R \
    { \
        { \
            { { V(0, 1), V(0, 2), V(0, 4), V(0, 8), END }, \
                { V(1, 0), V(2, 0), V(4, 0), V(8, 0), ZERO, END }, { END } }, \
                { { V(1, 0), V(2, 0), V(4, 0), V(8, 0), END }, \
                    { V(0, 8), V(0, 1), V(0, 2), V(0, 4), ZERO, END }, { END } }, \
            { \
                { V(0, 1), V(0, 2), V(0, 4), END }, { V(1, 0), V(2, 0), V(4, 0), V(8, 0), V(0, 8), END }, \
                { END } \
            } \
        } \
    }

static const FragmentRow fragments[LAYOUT_MMA_COUNT] = {
    [LAYOUT_M16N8K16] = { { { { V(0, 1), V(8, 0), V(0, 8), END }, { V(0, 2), V(0, 4), ROWS8 }, { END } },
        { { V(1, 0), V(8, 0), END }, { V(2, 0), V(4, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M16N8K8] = { { { { V(0, 1), V(8, 0), END }, { V(0, 2), V(0, 4), ROWS8 }, { END } },
        { { V(1, 0), END }, { V(2, 0), V(4, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M16N8K8_TF32] = { { { { V(8, 0), V(0, 4), END }, { V(0, 1), V(0, 2), ROWS8 }, { END } },
        { { V(4, 0), END }, { V(1, 0), V(2, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M16N8K4_TF32] = { { { { V(8, 0), END }, { V(0, 1), V(0, 2), ROWS8 }, { END } },
        { { END }, { V(1, 0), V(2, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M16N8K32] = { { { { V(0, 1), V(0, 2), V(8, 0), V(0, 16), END }, { V(0, 4), V(0, 8), ROWS8 },
                                { END } },
        { { V(1, 0), V(2, 0), V(16, 0), END }, { V(4, 0), V(8, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M16N8K16_8] = { { { { V(0, 1), V(0, 2), V(8, 0), END }, { V(0, 4), V(0, 8), ROWS8 }, { END } },
        { { V(1, 0), V(2, 0), END }, { V(4, 0), V(8, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_M8N8K4_F64] = { { { { END }, { V(0, 1), V(0, 2), ROWS8 }, { END } },
        { { END }, { V(1, 0), V(2, 0), COLS8 }, { END } },
        { { V(0, 1), END }, { V(0, 2), V(0, 4), ROWS8 }, { END } } } },
    [LAYOUT_M16N8K16_F64] = { { { { V(8, 0), V(0, 4), V(0, 8), END }, { V(0, 1), V(0, 2), ROWS8 }, { END } },
        { { V(4, 0), V(8, 0), END }, { V(1, 0), V(2, 0), COLS8 }, { END } }, MMA_C } },
    [LAYOUT_WGMMA_K16] = { { { { V(0, 1), V(8, 0), V(0, 8), END }, { V(0, 2), V(0, 4), ROWS8 }, WG_WARPS },
        NO_B, WG_C } },
    [LAYOUT_WGMMA_K8] = { { { { V(8, 0), V(0, 4), END }, { V(0, 1), V(0, 2), ROWS8 }, WG_WARPS }, NO_B,
        WG_C } },
    [LAYOUT_WGMMA_K32] = { { { { V(0, 1), V(0, 2), V(8, 0), V(0, 16), END }, { V(0, 4), V(0, 8), ROWS8 },
                                 WG_WARPS },
        NO_B, WG_C } },
    [LAYOUT_WGMMA_K16_PAIRS] = { { { { V(0, 1), V(1, 0), V(0, 8), END },
                                       { V(0, 2), V(0, 4), V(2, 0), V(4, 0), V(8, 0), END }, WG_WARPS },
        NO_B,
        { { V(0, 1), V(1, 0), END }, { V(0, 2), V(0, 4), V(2, 0), V(4, 0), V(8, 0), END }, WG_WARPS } } },
    [LAYOUT_WGMMA_K16_HALVES] = { { { { V(0, 1), V(2, 0), V(0, 8), END },
                                        { V(0, 2), V(0, 4), V(1, 0), V(8, 0), V(16, 0), END },
                                        { V(4, 0), V(32, 0), END } },
        NO_B,
        { { V(0, 1), V(2, 0), END }, { V(0, 2), V(0, 4), V(1, 0), V(8, 0), V(16, 0), END },
            { V(4, 0), V(32, 0), END } } } },
    [LAYOUT_MFMA_32x32x8] = MFMA32(4),
    [LAYOUT_MFMA_16x16x16] = MFMA16(4),
    [LAYOUT_MFMA_32x32x16] = MFMA32(8),
    [LAYOUT_MFMA_16x16x32] = MFMA16(8),
    [LAYOUT_MFMA_32x32x16_8] = MFMA32(8),
    [LAYOUT_MFMA_16x16x32_8] = MFMA16(8),
    [LAYOUT_MFMA_32x32x8_8] = MFMA32(4),
    [LAYOUT_MFMA_16x16x16_8] = MFMA16(4),
    [LAYOUT_MFMA_32x32x32_8] = MFMA32(16),
    [LAYOUT_MFMA_16x16x64_8] = MFMA16(16),
    [LAYOUT_MFMA_32x32x64_8] = { { { KA16x2(32), MFMA32_LANE_A(16), { END } },
        { KB16x2(32), MFMA32_LANE_B(16), { END } }, MFMA32_C } },
    [LAYOUT_MFMA_16x16x128_8] = { { { KA16x2(64), MFMA16_LANE_A(16), { END } },
        { KB16x2(64), MFMA16_LANE_B(16), { END } }, MFMA16_C } },
    [LAYOUT_MFMA_32x32x2] = MFMA32(1),
    [LAYOUT_MFMA_16x16x4] = MFMA16(1),
    [LAYOUT_MFMA_32x32x4_XF32] = MFMA32(2),
    [LAYOUT_MFMA_16x16x8_XF32] = MFMA16(2),
    /* f64 puts the lane group in the low row bits: row 4r + lane / 16. */
    [LAYOUT_MFMA_16x16x4_F64] = { { { KA1, MFMA16_LANE_A(1), { END } }, { KB1, MFMA16_LANE_B(1), { END } },
        { { V(4, 0), V(8, 0), END }, MFMA16_LANE_B(1), { END } } } },
    [LAYOUT_MFMA_32x32x16_R] = MFMA32_R(KA8, KB8, 8, 1, 2, 8, 4, 16, 1, 2, 4, 16, 8),
    [LAYOUT_MFMA_32x32x32_8_R] = MFMA32_R(KA16, KB16, 16, 1, 2, 16, 4, 8, 1, 2, 4, 8, 16),
    [LAYOUT_MFMA_32x32x64_8_R] = MFMA32_R(KA16x2(32), KB16x2(32), 16, 1, 2, 16, 4, 8, 1, 2, 4, 8, 16),
    [LAYOUT_MFMA_32x32x8_32_R] = MFMA32_R(KA4, KB4, 4, 1, 2, 4, 8, 16, 1, 2, 8, 16, 4),
    [LAYOUT_WMMA_16x16x16_R] = WMMA_ROW_R,
    [LAYOUT_WMMA_16x16x16_8_R] = WMMA_ROW_R,
    [LAYOUT_WMMA_16x16x16] = WMMA_ROW,
    [LAYOUT_WMMA_16x16x16_8] = WMMA_ROW,
};

static void add_bits(LayoutBuild *b, LayoutInput in, const uint16_t *list, int axis)
{
    for (; *list != END; list++) {
        int32_t vec[LAYOUT_MAX_RANK] = { 0 };
        vec[axis] = *list & 0xFF;
        vec[axis + 1] = *list >> 8;
        layout_build_bit(b, in, vec);
    }
}

/* A warp has the right operands of its own rows. NULL: these are not whole products, nor an equal part of
 * one. */
const Layout *layout_mma_stacked(
    Arena *a, LayoutMma kind, const int32_t tile[2], const int32_t warps[2], int32_t products, int32_t height)
{
    LayoutBuild b;
    const LayoutMmaInfo *info = &mma_info[kind];
    const Fragment *f = &fragments[kind].role[LAYOUT_B];
    int32_t all = products * height,
            own = warps[0] > 0 ? all / warps[0] : 0; /* fragments of rows of a warp */
    if (info->warps != 1 || own < 1 || all % warps[0] || (own % height && height % own) || warps[1] < 1 ||
        tile[0] % (products * info->k))
        return NULL;
    layout_build_init(&b, 2, tile);
    if (b.overflow) return NULL;
    add_bits(&b, LAYOUT_REG, f->reg, 0);
    add_bits(&b, LAYOUT_LANE, f->lane, 0);
    int32_t n = (tile[1] + info->n - 1) / info->n, columns = warps[1], rows = tile[0] / products;
    while (columns > n) {
        int32_t p = 2;
        while (columns % p) p++;
        columns /= p;
    }
    int32_t reps = (n + columns - 1) / columns, mine = own > height ? own / height : 1,
            share = own < height ? height / own : 1;
    layout_build_digit(&b, LAYOUT_REG, 1, reps, info->n);
    layout_build_digit(&b, LAYOUT_REG, 0, mine * rows / info->k, info->k);
    layout_build_digit(&b, LAYOUT_WARP, 1, columns, info->n * reps);
    layout_build_digit(&b, LAYOUT_WARP, 0, warps[1] / columns, 0);
    layout_build_digit(&b, LAYOUT_WARP, 0, share, 0);
    layout_build_digit(&b, LAYOUT_WARP, 0, warps[0] / share, mine * rows);
    return layout_build(a, &b, NULL);
}

const Layout *layout_mma(
    Arena *a, LayoutMma kind, LayoutRole role, int rank, const int32_t *tile, const int32_t warps[2])
{
    LayoutBuild b;
    LayoutSpec spec = { .kind = SPEC_MMA, .mma = kind, .role = role, .warps = { warps[0], warps[1] } };
    const LayoutMmaInfo *info = &mma_info[kind];
    const Fragment *f = &fragments[kind].role[role == LAYOUT_HALVES ? LAYOUT_C : role];
    if (rank < 2 || (info->warps == 4 && role == LAYOUT_B) ||
        (role == LAYOUT_HALVES && (info->lanes != 32 || info->n != info->k)) || warps[0] < 1 ||
        warps[1] < 1 || warps[0] > 64 || warps[1] > 64)
        return NULL;
    layout_build_init(&b, rank, tile);
    if (b.overflow) return NULL;
    for (int d = 0; d < rank; d++) {
        if (tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT) return NULL;
    }
    int axis = rank - 2;
    add_bits(&b, LAYOUT_REG, f->reg, axis);
    add_bits(&b, LAYOUT_LANE, f->lane, axis);
    add_bits(&b, LAYOUT_WARP, f->warp, axis);
    const int32_t extent[2] = { role == LAYOUT_B ? info->k : info->m, role == LAYOUT_A ? info->k : info->n };
    /* A warp without a fragment of M (or N) repeats the work of another warp. The number of warps that do
     * different work is a divisor. */
    int32_t used[2] = { 1, 1 }, reps[2];
    for (int i = 0; i < 2; i++) {
        int32_t n = (tile[axis + i] + extent[i] - 1) / extent[i], w = warps[i];
        if ((i == 0 && role != LAYOUT_B) || (i == 1 && role != LAYOUT_A && role != LAYOUT_HALVES)) {
            while (w > n) {
                int32_t p = 2;
                while (w % p) p++;
                w /= p;
            }
            used[i] = w;
        }
        reps[i] = (n + used[i] - 1) / used[i];
    }
    for (int i = 1; i >= 0; i--) layout_build_digit(&b, LAYOUT_REG, axis + i, reps[i], extent[i]);
    for (int d = axis - 1; d >= 0; d--) layout_build_digit(&b, LAYOUT_REG, d, tile[d], 1);
    for (int i = 1; i >= 0; i--) {
        layout_build_digit(&b, LAYOUT_WARP, axis + i, used[i], extent[i] * reps[i]);
        layout_build_digit(&b, LAYOUT_WARP, 0, warps[i] / used[i], 0);
    }
    return layout_build(a, &b, &spec);
}
