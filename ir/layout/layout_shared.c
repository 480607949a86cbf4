/* layout_shared.c: how a tile lies in shared memory: panels, pitches, swizzles, and the offset of an element.
 * layout_shared_search.c looks for the layout that has the fewest bank conflicts. */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* The offsets of the tile's elements under these rows, into s; false if they are not legal. */
static bool place_panels(LayoutShared *s, LayoutRows r)
{
    const int32_t *tile = s->tile, *order = s->order;
    int64_t rows = 1, npanel = (tile[order[0]] + (int64_t)r.panel - 1) / r.panel;
    for (int k = 1; k < s->rank; k++) {
        rows *= tile[order[k]];
        if (rows > LAYOUT_MAX_EXTENT) return false;
    }
    /* Masks read bits above all swizzled ones, so the swizzle is its own inverse; it permutes aligned blocks
     * of `period` bytes. */
    uint32_t high = 0, target = ((1u << r.n_masks) - 1) << r.xor_base;
    for (int i = 0; i < r.n_masks; i++) {
        if (r.masks[i] & (target | ((1u << r.xor_base) - 1)) || r.masks[i] >> 28) return false;
        s->xor_[i] = r.masks[i];
        high |= r.masks[i];
    }
    int64_t period = high ? 1ll << (layout_log2(target) + 1) : s->elem_bytes,
            align = high ? 1ll << (layout_log2(high) + 1) : 16;
    int64_t panel_bytes = rows * r.pitch;
    if (npanel > 1 && high) panel_bytes = (panel_bytes + align - 1) / align * align;
    int64_t bytes = (panel_bytes * npanel + period - 1) / period * period;
    if (bytes > 1 << 28) return false;
    s->panel = r.panel;
    s->pitch = r.pitch;
    s->panel_bytes = (int32_t)panel_bytes;
    s->bytes = (uint32_t)bytes;
    int low, bits, shift;
    s->xor_shift = layout_shared_swizzle(s, &bits, &low, &shift) ? (uint8_t)shift : 0;
    s->align = (uint32_t)(align > 1024 ? 1024 : align < 16 ? 16 : align);
    return true;
}

bool layout_shared_init(
    LayoutShared *out, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, LayoutRows r)
{
    LayoutShared s = { .rank = (uint8_t)rank,
        .elem_bytes = (uint8_t)elem_bytes,
        .nxor = (uint8_t)r.n_masks,
        .xor_base = (uint8_t)r.xor_base };
    unsigned seen = 0;
    if (rank < 1 || rank > LAYOUT_MAX_RANK || elem_bytes < 1 || elem_bytes > 16) return false;
    if (r.panel < 1 || r.pitch < 1 || (int64_t)r.panel * elem_bytes > r.pitch) return false;
    if (r.n_masks < 0 || r.n_masks > 8 || r.xor_base < 0 || r.xor_base > 24) return false;
    for (int d = 0; d < rank; d++) {
        if (tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT || order[d] < 0 || order[d] >= rank) return false;
        s.tile[d] = tile[d];
        s.order[d] = order[d];
        seen |= 1u << order[d];
    }
    if (seen != (1u << rank) - 1 || !place_panels(&s, r)) return false;
    *out = s;
    return true;
}

const LayoutShared *layout_shared_make(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, LayoutRows rows)
{
    LayoutShared s;
    if (!layout_shared_init(&s, rank, tile, order, elem_bytes, rows)) return NULL;
    LayoutShared *out = arena_alloc(a, sizeof *out);
    *out = s;
    return out;
}

const LayoutShared *layout_shared_rows(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int pad)
{
    if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || pad < 0) return NULL;
    int64_t pitch = (int64_t)tile[order[0]] * elem_bytes + pad;
    if (pitch > LAYOUT_MAX_EXTENT) return NULL;
    return layout_shared_make(
        a, rank, tile, order, elem_bytes, (LayoutRows){ .panel = tile[order[0]], .pitch = (int)pitch });
}

const LayoutShared *layout_shared_panels(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span)
{
    static const uint32_t masks[3] = { 1u << 7, 1u << 8, 1u << 9 };
    if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || elem_bytes < 1) return NULL;
    if ((span != 16 && span != 32 && span != 64 && span != 128) || span % elem_bytes) return NULL;
    return layout_shared_make(a, rank, tile, order, elem_bytes,
        (LayoutRows){ span / elem_bytes, span, 4, layout_log2((uint32_t)span / 16), masks });
}

const LayoutShared *layout_shared_swizzled(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span)
{
    if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || span < 1) return NULL;
    if ((int64_t)tile[order[0]] * elem_bytes % span) return NULL;
    return layout_shared_panels(a, rank, tile, order, elem_bytes, span);
}

const LayoutShared *layout_shared_halves(Arena *a, const LayoutShared *s)
{
    int32_t tile[LAYOUT_MAX_RANK];
    for (int d = 0; d < s->rank; d++) tile[d] = s->tile[d] * (d == s->order[0] ? 2 : 1);
    return layout_shared_make(a, s->rank, tile, s->order, s->elem_bytes / 2,
        (LayoutRows){ 2 * s->panel, s->pitch, s->xor_base, s->nxor, s->xor_ });
}

uint32_t layout_shared_swizzled_offset(const LayoutShared *s, uint32_t offset)
{
    uint32_t x = 0;
    if (s->xor_shift) return offset ^ (offset >> s->xor_shift & ((1u << s->nxor) - 1) << s->xor_base);
    for (int i = 0; i < s->nxor; i++)
        x |= (uint32_t)__builtin_parity(offset & s->xor_[i]) << (s->xor_base + i);
    return offset ^ x;
}

uint32_t layout_shared_plain_offset(const LayoutShared *s, const int32_t *coord)
{
    int32_t inner = coord[s->order[0]];
    int64_t row = 0;
    for (int k = s->rank - 1; k > 0; k--) row = row * s->tile[s->order[k]] + coord[s->order[k]];
    int64_t panels = 0;
    if (inner < 0 || inner >= s->panel) { /* divisions take long, and most tiles have one panel */
        panels = inner / s->panel * (int64_t)s->panel_bytes;
        inner %= s->panel;
    }
    return (uint32_t)(panels + row * s->pitch + (int64_t)inner * s->elem_bytes);
}

uint32_t layout_shared_offset(const LayoutShared *s, const int32_t *coord)
{ return layout_shared_swizzled_offset(s, layout_shared_plain_offset(s, coord)); }

bool layout_shared_swizzle(const LayoutShared *s, int *bits, int *base, int *shift)
{
    *bits = s->nxor;
    *base = s->xor_base;
    *shift = 0;
    if (!s->nxor) {
        *base = 0;
        return true;
    }
    if (!s->xor_[0]) return false;
    *shift = __builtin_ctz(s->xor_[0]) - s->xor_base;
    for (int i = 0; i < s->nxor; i++) {
        if (s->xor_[i] != 1u << (*base + *shift + i)) return false;
    }
    return true;
}

int layout_shared_terms(const LayoutShared *s, uint8_t *shift, uint32_t *mask)
{
    uint32_t by[LAYOUT_SWIZZLE_TERMS] = { 0 };
    int n = 0;
    for (int i = 0; i < s->nxor; i++) /* masks read bits above all that are changed */
        for (uint32_t m = s->xor_[i]; m; m &= m - 1)
            by[__builtin_ctz(m) - s->xor_base - i] |= 1u << (s->xor_base + i);
    for (int k = 1; s->nxor && k < LAYOUT_SWIZZLE_TERMS; k++)
        if (by[k]) shift[n] = (uint8_t)k, mask[n++] = by[k];
    return n;
}

bool layout_shared_equal(const LayoutShared *a, const LayoutShared *b)
{
    return a->rank == b->rank && a->elem_bytes == b->elem_bytes && a->nxor == b->nxor &&
           (!a->nxor || a->xor_base == b->xor_base) && !memcmp(a->tile, b->tile, sizeof a->tile) &&
           !memcmp(a->order, b->order, sizeof a->order) && a->panel == b->panel && a->pitch == b->pitch &&
           !memcmp(a->xor_, b->xor_, sizeof a->xor_);
}

uint64_t layout_shared_hash(const LayoutShared *s)
{
    uint64_t h = layout_mix(s->rank, s->elem_bytes);
    for (int d = 0; d < s->rank; d++) h = layout_mix(h, (uint64_t)s->tile[d] << 8 | (uint64_t)s->order[d]);
    h = layout_mix(h, (uint64_t)s->panel << 32 | (uint64_t)s->pitch);
    for (int i = 0; i < s->nxor; i++) h = layout_mix(h, (uint64_t)s->xor_base << 32 | s->xor_[i]);
    return h;
}

void layout_shared_vector(const Layout *l, const LayoutShared *s, uint32_t max_bytes, LayoutVector *out)
{
    /* A run of n elements stays contiguous if it neither crosses a panel nor is cut by the swizzle, and all
     * rows keep its alignment. */
    uint32_t align = 16, all = (uint32_t)s->pitch;
    if (s->panel != s->tile[s->order[0]])
        all |= (uint32_t)s->panel * s->elem_bytes | (uint32_t)s->panel_bytes;
    while (align > 1 && (all & (align - 1) || (s->nxor && align > 1u << s->xor_base))) align /= 2;
    layout_vector(l, s->order[0], s->elem_bytes, align, max_bytes, out);
}
