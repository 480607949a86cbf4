/* lds.c: tiles in AMD's LDS: which lanes are served together, a layout without bank conflicts for a given
 * writer and reader, and how a tile comes from memory through registers.
 *
 * CDNA 2 and 3 have 32 banks of 4 bytes. An access of 128 bits serves 8 lanes a cycle, of 64 bits 16, of
 * 32 bits 32. Writes serve lanes in order. A read of 128 bits serves lanes 0-3 with 20-23, 4-7 with 16-19,
 * 8-11 with 28-31, 12-15 with 24-27, and so on from lane 32 (Composable Kernel documentation, "LDS bank
 * conflicts"). CDNA 4 reads over 64 banks: 128 bits 16 lanes a cycle, 0-3 with 12-15 and 20-27, then the
 * others of 32; 64 bits 32 lanes in order. It writes as before (measured: HipKittens, arXiv 2511.08083,
 * table 5; its 128-bit reads also AMD's ROCm blogs, "FP8 GEMM Optimization on AMD CDNA4 Architecture").
 * RDNA 3 has 64 banks, of which a wave of a compute unit by itself sees one set of 32 (RDNA 3 ISA guide,
 * 12.1). Its lanes are assumed to be served in order, which is not published. */
#include "passes/kernel/amd/lds.h"
#include <limits.h>

LdsCycle lds_cycle(LdsChip chip, bool read, int bytes)
{
    static const int8_t cdna[32] = { 0, 1, 2, 3, 20, 21, 22, 23, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 28,
        29, 30, 31, 12, 13, 14, 15, 24, 25, 26, 27 };
    static const int8_t cdna4[32] = { 0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27, 4, 5, 6, 7,
        8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31 };
    if (read && chip == LDS_CDNA4 && bytes >= 8)
        return (LdsCycle){ 64, bytes == 16 ? 16 : 32, bytes == 16 ? cdna4 : NULL };
    return (LdsCycle){ 32,
        bytes == 16  ? 8
        : bytes == 8 ? 16
                     : 32,
        read && bytes == 16 && chip == LDS_CDNA ? cdna : NULL };
}

int lds_extra_cycles(LdsCycle t, const int64_t *addr, int lanes, int bytes)
{
    int words = bytes >= 4 ? bytes / 4 : 1, extra = 0;
    for (int first = 0; first < lanes; first += t.group) {
        int64_t word[64][64];
        int depth[64] = { 0 }, worst = 0;
        for (int k = first; k < first + t.group && k < lanes; k++) {
            int64_t a = addr[lds_lane(t, k)];
            for (int w = 0; a >= 0 && w < words; w++) {
                int64_t x = a / 4 + w;
                int bank = (int)(x % t.banks), j = 0;
                while (j < depth[bank] && word[bank][j] != x) j++;
                if (j == depth[bank]) word[bank][depth[bank]++] = x;
                if (depth[bank] > worst) worst = depth[bank];
            }
        }
        extra += worst > 1 ? worst - 1 : 0;
    }
    return extra;
}

/* Those of the vectors that begin at register r of warp w. */
static int conflicts_at(
    LdsCycle t, const Layout *l, const LayoutShared *s, const LayoutVector *v, uint32_t r, uint32_t w)
{
    int64_t addr[64];
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        int32_t c[LAYOUT_MAX_RANK];
        layout_element(l, r, lane, w, 0, c);
        addr[lane] = layout_in_tile(l, c) ? (int64_t)layout_shared_offset(s, c) : -1;
    }
    return lds_extra_cycles(t, addr, (int)layout_lanes(l), (int)v->bytes);
}

/* lds_conflicts, or `enough` where there are as many or more. Where offsets are linear, all accesses have the
 * same conflicts (layout_offsets_linear). */
static int conflicts_below(LdsChip chip, const Layout *l, const LayoutShared *s, bool read, int enough)
{
    LayoutVector v;
    int extra = 0, same = -1;
    bool linear = layout_offsets_linear(l, s);
    layout_shared_vector(l, s, 16, &v);
    LdsCycle t = lds_cycle(chip, read, (int)v.bytes);
    for (uint32_t w = 0; w < layout_warps(l); w++)
        for (uint32_t r = 0; r < layout_regs(l); r++) {
            if (!layout_vector_base(&v, r)) continue;
            int n = same >= 0 ? same : conflicts_at(t, l, s, &v, r, w);
            if (linear) same = n;
            extra += n;
            if (extra >= enough) return enough;
        }
    return extra;
}

int lds_conflicts(LdsChip chip, const Layout *l, const LayoutShared *s, bool read)
{ return conflicts_below(chip, l, s, read, INT_MAX); }

/* Which bits of a row's number are combined with bits 0, 1 and 2 of the number of its 16-byte chunk by
 * exclusive or: first one for each, then a second one. NONE: no bit. */
enum { NONE = 9 };
static const uint8_t ways[][6] = { { 0, 1, 2, 9, 9, 9 }, { 0, 1, 3, 9, 9, 9 }, { 0, 1, 4, 9, 9, 9 },
    { 0, 1, 5, 3, 4, 3 }, { 0, 1, 2, 3, 4, 5 }, { 0, 1, 4, 3, 2, 5 }, { 0, 1, 5, 4, 3, 2 },
    { 0, 1, 3, 4, 5, 2 }, { 0, 1, 2, 4, 5, 6 }, { 3, 4, 5, 9, 9, 9 }, { 0, 2, 3, 9, 9, 9 },
    { 0, 1, 3, 5, 4, 6 }, { 0, 1, 4, 3, 5, 6 }, { 3, 2, 1, 9, 9, 9 }, { 1, 4, 3, 5, 9, 9 },
    { 1, 2, 9, 9, 9, 9 }, { 2, 1, 9, 4, 3, 9 }, { 2, 1, 9, 9, 9, 9 }, { 4, 3, 2, 9, 9, 9 },
    { 5, 4, 3, 9, 9, 9 } };

/* The tile with rows of `span` bytes whose chunks are permuted in one of the ways; NULL: there is none. */
static const LayoutShared *permuted(
    Arena *a, const int32_t *tile, const int32_t *order, int bytes, int span, const uint8_t *way)
{
    int bits = layout_log2_u((uint32_t)span / 16), low = layout_log2_u((uint32_t)span);
    uint32_t mask[3] = { 0 };
    for (int b = 0; b < bits; b++)
        for (int x = 0; x < 2; x++)
            if (way[3 * x + b] != NONE) mask[b] |= 1u << (low + way[3 * x + b]);
    return layout_shared_make(a, 2, tile, order, bytes, (LayoutRows){ span / bytes, span, 4, bits, mask });
}

const LayoutShared *lds_layout(Arena *a, LdsChip chip, const int32_t *tile, int inner, int bytes,
    const Layout *writer, const Layout *reader, int *conflicts)
{
    int32_t order[2] = { inner, 1 - inner };
    const LayoutShared *best = NULL;
    int row = (int)((int64_t)tile[inner] * bytes % 128), least = INT_MAX;
    int span = row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : row % 32 == 0 ? 32 : 0;
    for (size_t k = 0; span && least && k < sizeof ways / sizeof *ways; k++) {
        const LayoutShared *s = permuted(a, tile, order, bytes, span, ways[k]);
        if (!s) continue;
        int n = writer ? conflicts_below(chip, writer, s, false, least) : 0;
        if (reader && n < least) n += conflicts_below(chip, reader, s, true, least - n);
        if (best && n >= least) continue;
        best = s;
        least = n;
    }
    if (!best)
        best =
            layout_shared_rows(a, 2, tile, order, bytes, 16 - (int)((int64_t)tile[inner] * bytes % 16) % 16);
    if (best && conflicts)
        *conflicts = (writer ? lds_conflicts(chip, writer, best, false) : 0) +
                     (reader ? lds_conflicts(chip, reader, best, true) : 0);
    return best;
}

/* For blocks less than 16 bytes high: the lanes that write one 16-byte chunk together come first. Otherwise
 * the lanes of one cycle all write the same part of their chunks, which is half of the banks. NULL when the
 * blocks do not fit evenly, or are high enough. */
static const Layout *writes_whole_chunks(Arena *a, const int32_t *tile, const int32_t *per,
    const int32_t *lanes, const int32_t *warps, int unit, int bytes)
{
    static const int none[LAYOUT_INPUTS] = { 0 };
    static const int32_t *const no_basis[LAYOUT_INPUTS] = { NULL };
    int inner = 1 - unit, n = 0;
    int32_t first = 16 / (per[inner] * bytes), at[2] = { per[0], per[1] };
    LayoutDigit d[10];
    while (first > lanes[inner]) first /= 2;
    for (int k = 0; k < 2; k++)
        if (tile[k] % (per[k] * lanes[k] * warps[k])) return NULL;
    if (first < 2) return NULL;
    const struct {
        LayoutInput in;
        int axis;
        int32_t size;
    } steps[] = { { LAYOUT_LANE, inner, first }, { LAYOUT_LANE, unit, lanes[unit] },
        { LAYOUT_LANE, inner, lanes[inner] / first }, { LAYOUT_WARP, unit, warps[unit] },
        { LAYOUT_WARP, inner, warps[inner] },
        { LAYOUT_REG, unit, tile[unit] / (per[unit] * lanes[unit] * warps[unit]) },
        { LAYOUT_REG, inner, tile[inner] / (per[inner] * lanes[inner] * warps[inner]) } };
    d[n++] = (LayoutDigit){ LAYOUT_REG, (uint8_t)unit, per[unit], 1 };
    if (per[inner] > 1) d[n++] = (LayoutDigit){ LAYOUT_REG, (uint8_t)inner, per[inner], 1 };
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        if (steps[k].size < 2) continue;
        d[n++] =
            (LayoutDigit){ (uint8_t)steps[k].in, (uint8_t)steps[k].axis, steps[k].size, at[steps[k].axis] };
        at[steps[k].axis] *= steps[k].size;
    }
    return layout_from_basis(a, 2, tile, none, no_basis, n, d);
}

const Layout *lds_writer(Arena *a, const int32_t *tile, int unit, int inner, int bytes, int wave, int warps)
{
    int32_t order[2] = { unit, 1 - unit };
    if (unit == inner || bytes != 2) {
        /* For rows of 3 x 64 bytes and similar, the number of lanes along a row must divide the row, so that
         * no lane is left over. */
        int32_t per[2] = { 1, 1 }, lanes[2] = { 1, 1 }, w[2] = { 1, 1 }, n = tile[unit] * bytes / 16,
                most = n & -n;
        if (tile[unit] * bytes % 16 || most == n || most < 4)
            return layout_coalesced(a, 2, tile, order, bytes, 16, wave, warps);
        per[unit] = 16 / bytes;
        lanes[unit] = most < wave ? most : wave;
        lanes[1 - unit] = wave / lanes[unit];
        w[1 - unit] = warps;
        return layout_blocked(a, 2, tile, per, lanes, w, order);
    }
    /* Memory is contiguous along the other axis: a lane takes a block that is wide in both axes, reads its
     * rows and writes its columns. */
    int32_t per[2], lanes[2], w[2];
    int64_t each = (int64_t)tile[0] * tile[1] / (wave * warps);
    per[unit] = per[inner] = 8;
    while (per[inner] > 1 && (int64_t)per[unit] * per[inner] > each) per[inner] /= 2;
    lanes[unit] = lanes[inner] = w[unit] = w[inner] = 1;
    while (lanes[unit] * 2 <= wave && lanes[unit] * 2 * per[unit] <= tile[unit] &&
           (lanes[unit] < 4 || tile[unit] % (lanes[unit] * 2 * per[unit]) == 0))
        lanes[unit] *= 2;
    lanes[inner] = wave / lanes[unit];
    w[inner] = warps;
    /* Threads beyond the last row go along the other axis if they divide it. Otherwise the block of a thread
     * becomes lower, so that no thread writes under a condition. */
    while ((int64_t)per[inner] * lanes[inner] * w[inner] > tile[inner]) {
        bool room = (int64_t)per[unit] * lanes[unit] * w[unit] < tile[unit],
             even = tile[unit] % ((int64_t)per[unit] * lanes[unit] * w[unit] * 2) == 0;
        if (w[inner] % 2 == 0 && room && (even || per[inner] == 1)) {
            w[inner] /= 2;
            w[unit] *= 2;
        } else if (per[inner] > 1 && room) per[inner] /= 2;
        else break;
    }
    const Layout *whole = writes_whole_chunks(a, tile, per, lanes, w, unit, bytes);
    return whole ? whole : layout_blocked(a, 2, tile, per, lanes, w, order);
}
