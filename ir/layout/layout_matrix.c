/* Matrix-unit views of shared memory: ldmatrix/stmatrix (PTX ISA 9.7.14.5.15) and wgmma operand descriptors
 * (9.7.15.5.1.2). */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* Whether only input bit (in, k) changes the coordinate bits of `word`, and is exactly that word. */
static bool only_bit(const Layout *l, LayoutInput in, int k, uint64_t word)
{
    for (int i = 0; i < LAYOUT_INPUTS; i++) {
        for (int j = 0; j < l->nbit[i]; j++) {
            bool self = i == (int)in && j == k;
            if (self ? l->basis[i][j] != word : (l->basis[i][j] & word) != 0) return false;
        }
    }
    return true;
}

static int find_reg_bit(const Layout *l, uint64_t word)
{
    for (int k = 0; k < l->nbit[LAYOUT_REG]; k++) {
        if (l->basis[LAYOUT_REG][k] == word) return only_bit(l, LAYOUT_REG, k, word) ? k : -1;
    }
    return -1;
}

/* Register bits not used so far, lowest first, choose among up to four matrices. */
static void add_words(const Layout *l, LayoutMatrix *m)
{
    int n = 0;
    for (int k = 0; k < l->nbit[LAYOUT_REG] && n < 2; k++) {
        if (m->mask >> k & 1) continue;
        m->row[3 + n] = l->basis[LAYOUT_REG][k];
        for (int w = 0; w < 1 << n; w++) m->word[(1 << n) + w] = m->word[w] | 1u << k;
        m->mask |= 1u << k;
        n++;
    }
    m->count = (uint8_t)(1 << n);
}

/* Lane t holds the 4 bytes t % 4 of row t / 4. */
static bool plain_matrix(const Layout *l, int axis, int elem_bytes, LayoutMatrix *m)
{
    uint64_t unit = 1ull << l->fshift[axis];
    int e = 4 / elem_bytes, bit = 0;
    memset(m, 0, sizeof *m);
    if (l->fbit[axis] < layout_log2(16u / (unsigned)elem_bytes)) return false;
    for (; 1 << bit < e; bit++) {
        int k = find_reg_bit(l, unit << bit);
        if (k < 0) return false;
        for (int i = 0; i < 1 << bit; i++) m->elem[(1 << bit) + i] = m->elem[i] | 1u << k;
        m->mask |= 1u << k;
    }
    if (!only_bit(l, LAYOUT_LANE, 0, unit << bit) || !only_bit(l, LAYOUT_LANE, 1, unit << (bit + 1)))
        return false;
    for (int b = 0; b < 3; b++) m->row[b] = l->basis[LAYOUT_LANE][2 + b];
    add_words(l, m);
    return true;
}

/* Lane t holds column t / 4 of rows 2 * (t % 4) and the next. */
static bool trans_matrix(const Layout *l, int axis, LayoutMatrix *m)
{
    uint64_t unit = 1ull << l->fshift[axis];
    memset(m, 0, sizeof *m);
    if (l->fbit[axis] < 3 || !l->nbit[LAYOUT_REG]) return false;
    for (int b = 0; b < 3; b++) {
        if (!only_bit(l, LAYOUT_LANE, 2 + b, unit << b)) return false;
    }
    m->trans = true;
    m->elem[1] = m->mask = 1;
    m->row[0] = l->basis[LAYOUT_REG][0];
    m->row[1] = l->basis[LAYOUT_LANE][0];
    m->row[2] = l->basis[LAYOUT_LANE][1];
    add_words(l, m);
    return true;
}

/* Elements of one byte, two neighbours along the axis as one of 16 bits: lane t holds columns 2 * (t / 4) and
 * the next of rows 2 * (t % 4) and the next. */
static bool trans_pairs(const Layout *l, int axis, LayoutMatrix *m)
{
    uint64_t unit = 1ull << l->fshift[axis];
    int beside = find_reg_bit(l, unit), below = beside ? 0 : 1;
    memset(m, 0, sizeof *m);
    if (l->fbit[axis] < 4 || beside < 0 || l->nbit[LAYOUT_REG] < 2) return false;
    for (int b = 0; b < 3; b++)
        if (!only_bit(l, LAYOUT_LANE, 2 + b, unit << (b + 1))) return false;
    m->trans = true;
    m->elem[1] = 1u << beside;
    m->elem[2] = 1u << below;
    m->elem[3] = m->mask = m->elem[1] | m->elem[2];
    m->row[0] = l->basis[LAYOUT_REG][below];
    m->row[1] = l->basis[LAYOUT_LANE][0];
    m->row[2] = l->basis[LAYOUT_LANE][1];
    add_words(l, m);
    return true;
}

bool layout_matrix(const Layout *l, const LayoutShared *s, bool allow_trans, LayoutMatrix *out)
{
    int axis = s->order[0], es = s->elem_bytes;
    if (l->count[LAYOUT_LANE] != 32 || l->rank != s->rank || (es != 1 && es != 2 && es != 4)) return false;
    if (s->pitch % 16 || (s->nxor && s->xor_base < 4) || (int64_t)l->tile[axis] * es % 16) return false;
    if (s->panel != s->tile[axis] && ((int64_t)s->panel * es % 16 || s->panel_bytes % 16)) return false;
    if (plain_matrix(l, axis, es, out)) return true;
    return allow_trans && (es == 1 ? trans_pairs(l, axis, out) : es == 2 && trans_matrix(l, axis, out));
}

void layout_matrix_row(
    const Layout *l, const LayoutMatrix *m, uint32_t base, uint32_t lane, uint32_t warp, int32_t *coord)
{
    memset(coord, 0, l->rank * sizeof *coord);
    uint64_t word = layout_partial(l, LAYOUT_REG, base, coord) ^ layout_partial(l, LAYOUT_WARP, warp, coord);
    for (uint32_t b = lane & 31; b; b &= b - 1) word ^= m->row[__builtin_ctz(b)];
    for (int d = 0; d < l->rank; d++) coord[d] += layout_fragment_coord(l, word, d);
}

/* --- wgmma ------------------------------------------------------------------------------------------- */

/* The swizzle span of TMA and wgmma that s has (rows of exactly that many bytes), or 0. */
static int tma_span(const LayoutShared *s)
{
    int bits, base, shift, span = s->panel * s->elem_bytes;
    if (s->pitch != span || !layout_shared_swizzle(s, &bits, &base, &shift)) return 0;
    if (!bits) return 16;
    return base == 4 && shift == 3 && bits <= 3 && span == 16 << bits ? span : 0;
}

bool layout_tma(const LayoutShared *s, LayoutTma *out)
{
    int span = tma_span(s), row = s->panel * s->elem_bytes;
    memset(out, 0, sizeof *out);
    if (!span || s->rank > 5 || row % 16 || s->panel > 256 || s->tile[s->order[0]] % s->panel) return false;
    out->rank = s->rank;
    out->swizzle = s->nxor;
    out->box[0] = s->panel;
    for (int k = 1; k < s->rank; k++) {
        out->box[k] = s->tile[s->order[k]];
        if (out->box[k] > 256) return false;
    }
    out->panels = s->tile[s->order[0]] / s->panel;
    out->panel_bytes = s->panel_bytes;
    return true;
}

bool layout_wgmma_view(const LayoutShared *s, int k_axis, LayoutWgmma *out)
{
    memset(out, 0, sizeof *out);
    int es = s->elem_bytes, span = tma_span(s);
    if (s->rank != 2 || k_axis < 0 || k_axis > 1 || !span || s->pitch != span ||
        (es != 1 && es != 2 && es != 4))
        return false;
    bool mn_major = s->order[0] != k_axis;
    int32_t mn = s->tile[1 - k_axis], k = s->tile[k_axis], kinst = 32 / es;
    if (mn_major && es != 2) return false; /* only 16-bit types have the major bits */
    /* The last panel may be wider than the remaining rows. No product reads the excess along MN; along K it
     * must be zero. */
    if (mn % 8 || (k % kinst && (mn_major || span < 32))) return false;
    int32_t pb = s->panel_bytes;
    if (pb >= 1 << 18) return false;
    out->shared = s;
    out->span = span;
    out->mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
    out->mn_major = mn_major;
    out->kinst = kinst;
    out->ksteps = (k + kinst - 1) / kinst;
    out->panel_elems = s->panel;
    out->panel_bytes = pb;
    out->panels = (s->tile[s->order[0]] + s->panel - 1) / s->panel;
    out->box[0] = s->panel;
    out->box[1] = mn_major ? k : mn;
    if (mn_major) {
        /* Swizzled: LBO from one panel of MN to the next, SBO from 8 rows of K to the next 8. Without swizzle
         * the two change roles. */
        out->lbo = span == 16 ? 8 * 16 : (uint32_t)pb;
        out->sbo = span == 16 ? (uint32_t)pb : 8u * (uint32_t)span;
        out->steps_per_panel = out->ksteps;
        out->step = kinst * span;
        out->mn_unit = s->panel;
        out->mn_step = pb;
    } else {
        /* Swizzled: LBO unused (encoded 1). Without: LBO from one 16-byte column of core matrices to the
         * next. */
        out->lbo = span == 16 ? (uint32_t)pb : 16;
        out->sbo = 8u * (uint32_t)span;
        out->steps_per_panel = span >= 32 ? span / 32 : 1;
        out->step = span >= 32 ? 32 : 0;
        out->panel_step = span >= 32 ? pb : 2 * pb;
        out->mn_unit = 8;
        out->mn_step = 8 * span;
    }
    out->lo_or = (out->lbo >> 4) << 16;
    out->hi = out->sbo >> 4 | (uint32_t)out->mode << 30;
    return true;
}

const LayoutShared *layout_wgmma_shared(
    Arena *a, const int32_t tile[2], int k_axis, int fast, int elem_bytes, int span)
{
    LayoutWgmma w;
    const int32_t order[2] = { fast, 1 - fast };
    if (elem_bytes < 1 || fast < 0 || fast > 1 || tile[0] < 1 || tile[1] < 1) return NULL;
    int64_t row = (int64_t)tile[fast] * elem_bytes;
    if (!span) {
        span = 128;
        while (span > 16 && row % span) span /= 2;
        /* Rows of many narrow panels are padded to the wider panels that waste least, because a copy moves at
         * least 64 bytes of a row. */
        if (span < 64 && row > 64) span = (row + 63) / 64 % 2 ? 64 : 128;
    }
    const LayoutShared *s = layout_shared_panels(a, 2, tile, order, elem_bytes, span);
    return s && layout_wgmma_view(s, k_axis, &w) ? s : NULL;
}

bool layout_wgmma_operand(
    Arena *a, int32_t mn, int32_t k, int elem_bytes, bool mn_major, int span, LayoutWgmma *out)
{
    const int32_t tile[2] = { mn, k };
    const LayoutShared *s = layout_wgmma_shared(a, tile, 1, !mn_major, elem_bytes, span);
    memset(out, 0, sizeof *out);
    return s && layout_wgmma_view(s, 1, out);
}
