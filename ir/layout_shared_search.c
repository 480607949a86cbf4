/* layout_shared_search.c: counts the bank conflicts of accesses to a tile in shared memory, and looks for the
 * layout of the tile that has none, or the fewest: rows as they are, padded rows, and swizzles. */
#include "ir/layout_priv.h"

#include <string.h>

bool layout_lanes_linear(const Layout *l)
{
    if (memcmp(l->tile, l->cover, sizeof l->tile)) return false;
    for (int i = 0; i < l->ndigit; i++) {
        if (l->digit[i].stride && !layout_pow2(l->digit[i].stride)) return false;
    }
    return true;
}

bool layout_offsets_linear(const Layout *l, const LayoutShared *s)
{
    if (!layout_pow2(s->pitch) || !layout_pow2(s->panel) || !layout_pow2(s->panel_bytes)) return false;
    for (int k = 1; k + 1 < s->rank; k++) {
        if (!layout_pow2(s->tile[s->order[k]])) return false;
    }
    return layout_lanes_linear(l);
}

/* What a lane adds to the coordinates of a register and a warp: a word of the fragment, and digits. */
typedef struct LanePart {
    uint64_t word;
    int32_t coord[LAYOUT_MAX_RANK];
} LanePart;

static void lane_parts(const Layout *l, LanePart *out)
{
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        memset(out[lane].coord, 0, l->rank * sizeof *out[lane].coord);
        out[lane].word = layout_partial(l, LAYOUT_LANE, lane, out[lane].coord);
    }
}

/* The offset, before it is swizzled, at which each lane's vector begins; UINT32_MAX: outside the tile.
 * Returns whether any is inside. linear: the exclusive or of the offsets of the bits of the lane. */
static bool vector_offsets(const Layout *l, const LayoutShared *s, const LanePart *part, uint32_t reg,
    uint32_t warp, bool linear, uint32_t *out)
{
    int32_t first[LAYOUT_MAX_RANK] = { 0 }, c[LAYOUT_MAX_RANK];
    uint64_t word = layout_partial(l, LAYOUT_REG, reg, first) ^ layout_partial(l, LAYOUT_WARP, warp, first);
    bool any = false;
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        if (linear && lane & (lane - 1)) {
            out[lane] = out[lane & (lane - 1)] ^ out[lane & -lane] ^ out[0];
            continue;
        }
        for (int d = 0; d < l->rank; d++)
            c[d] = first[d] + part[lane].coord[d] + layout_fragment_coord(l, word ^ part[lane].word, d);
        bool in = layout_in_tile(l, c);
        out[lane] = in ? layout_shared_plain_offset(s, c) : UINT32_MAX;
        any |= in;
    }
    return any;
}

/* Wavefronts of one access, where each lane has a vector at one of these offsets before they are swizzled. */
static uint32_t vector_wavefronts(
    const LayoutShared *s, const uint32_t *offset, bool by_bits, uint32_t nlanes, uint32_t width)
{
    uint32_t addr[LAYOUT_MAX_LANES];
    addr[0] = layout_shared_swizzled_offset(s, offset[0]);
    for (uint32_t lane = 1; by_bits && lane < nlanes; lane *= 2)
        addr[lane] = layout_shared_swizzled_offset(s, offset[lane]);
    uint32_t n = by_bits ? layout_wavefronts_by_bits(addr, nlanes, width) : 0;
    if (n) return n;
    for (uint32_t lane = 0; lane < nlanes; lane++)
        addr[lane] = offset[lane] == UINT32_MAX ? UINT32_MAX : layout_shared_swizzled_offset(s, offset[lane]);
    return layout_wavefronts(addr, nlanes, width);
}

/* Wavefronts above the fewest of such an access. */
static uint32_t vector_conflicts(
    const LayoutShared *s, const uint32_t *offset, bool by_bits, uint32_t nlanes, uint32_t width)
{
    uint32_t n = vector_wavefronts(s, offset, by_bits, nlanes, width),
             least = layout_least_wavefronts(nlanes, width);
    return n > least ? n - least : 0;
}

/* ldmatrix and stmatrix move eight rows of 16 bytes a phase. */
static uint32_t matrix_conflicts(
    const Layout *l, const LayoutShared *s, const LayoutMatrix *m, uint32_t reg, uint32_t warp)
{
    uint32_t addr[LAYOUT_MAX_LANES] = { 0 }, nlanes = 8u * m->count;
    bool any = false;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        int32_t c[LAYOUT_MAX_RANK];
        layout_matrix_row(l, m, reg, lane, warp, c);
        bool in = layout_in_tile(l, c);
        addr[lane] = in ? layout_shared_offset(s, c) : UINT32_MAX;
        any |= in;
    }
    uint32_t n = layout_wavefronts(addr, nlanes, 16), least = any ? layout_least_wavefronts(nlanes, 16) : 0;
    return n > least ? n - least : 0;
}

uint32_t layout_bank_conflicts(const Layout *l, const LayoutShared *s, const LayoutVector *v, uint32_t warp)
{
    uint32_t extra = 0;
    LanePart part[LAYOUT_MAX_LANES];
    lane_parts(l, part);
    const bool linear = layout_offsets_linear(l, s);
    for (uint32_t r = 0; r < layout_regs(l); r++) {
        uint32_t offset[LAYOUT_MAX_LANES];
        if (layout_vector_base(v, r) && vector_offsets(l, s, part, r, warp, linear, offset))
            extra += vector_conflicts(s, offset, false, layout_lanes(l), v->n * s->elem_bytes);
    }
    return extra;
}

/* --- search ------------------------------------------------------------------------------------------ */

/* The offsets of one access, before they are swizzled. */
typedef struct Offsets {
    bool known, any, by_bits;
    uint32_t reg, warp;
    uint32_t of[LAYOUT_MAX_LANES];
} Offsets;

/* What a search keeps of one of its accesses: what lanes add, and offsets, of the first accesses of its
 * sample and of the first register of each warp. Layouts that differ only in how they are swizzled have the
 * same. */
enum { SAMPLED = 8, MOST_WARPS = 16 };
typedef struct SearchAccess {
    const LayoutAccess *x;
    LayoutShared plain; /* for which offsets are kept */
    LanePart part[LAYOUT_MAX_LANES];
    Offsets sample[SAMPLED], first[MOST_WARPS];
} SearchAccess;

static void open_access(SearchAccess *q, const LayoutAccess *x)
{
    memset(&q->plain, 0, sizeof q->plain);
    q->x = x;
    if (x && x->layout) lane_parts(x->layout, q->part);
}

static void forget_other_offsets(SearchAccess *q, const LayoutShared *s)
{
    const LayoutShared *p = &q->plain;
    if (p->pitch == s->pitch && p->panel == s->panel && p->panel_bytes == s->panel_bytes) return;
    for (int k = 0; k < SAMPLED; k++) q->sample[k].known = false;
    for (int k = 0; k < MOST_WARPS; k++) q->first[k].known = false;
    q->plain = *s;
}

bool layout_offsets_add(const Layout *l, const LayoutShared *s)
{ return l->separable && !memcmp(l->tile, l->cover, sizeof l->tile) && s->panel >= s->tile[s->order[0]]; }

static const Offsets *fill_offsets(
    const SearchAccess *q, const LayoutShared *s, uint32_t reg, uint32_t warp, bool linear, Offsets *o)
{
    if (o->known && o->reg == reg && o->warp == warp) return o;
    o->known = true;
    o->reg = reg;
    o->warp = warp;
    o->any = vector_offsets(q->x->layout, s, q->part, reg, warp, linear, o->of);
    o->by_bits = layout_lanes_by_bits(o->of, layout_lanes(q->x->layout));
    return o;
}

/* The offsets of the access at these registers of this warp: of the sample the one with this number. */
static const Offsets *offsets_of(SearchAccess *q, const LayoutShared *s, uint32_t number, uint32_t reg,
    uint32_t warp, bool linear, Offsets *other)
{
    const Layout *l = q->x->layout;
    int32_t c[LAYOUT_MAX_RANK];
    if (number < SAMPLED) return fill_offsets(q, s, reg, warp, linear, &q->sample[number]);
    other->known = false;
    if (warp >= MOST_WARPS || !layout_offsets_add(l, s)) return fill_offsets(q, s, reg, warp, linear, other);
    const Offsets *first = fill_offsets(q, s, 0, warp, linear, &q->first[warp]);
    layout_element(l, reg, 0, 0, 0, c);
    const uint32_t more = layout_shared_plain_offset(s, c);
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) other->of[lane] = first->of[lane] + more;
    other->any = true;
    other->by_bits = first->by_bits && layout_lanes_by_bits(other->of, layout_lanes(l));
    return other;
}

/* Conflicts of all accesses of x: of a sample, scaled, unless `exact`. As soon as they are known to be
 * `enough` or more, some such number. */
static uint32_t access_conflicts(SearchAccess *q, const LayoutShared *s, bool exact, uint32_t enough)
{
    const LayoutAccess *x = q->x;
    LayoutMatrix m;
    LayoutVector v;
    Offsets other;
    if (!x || !x->layout) return 0;
    const Layout *l = x->layout;
    bool matrix = x->matrix && layout_matrix(l, s, true, &m), linear = layout_offsets_linear(l, s);
    layout_shared_vector(l, s, x->max_bytes, &v);
    forget_other_offsets(q, s);
    uint32_t each = matrix ? (uint32_t)m.count << (4 / s->elem_bytes > 2 ? 2 : 4 / s->elem_bytes > 1) : v.n;
    uint32_t accesses = layout_regs(l) / (each ? each : 1),
             step = linear  ? accesses
                    : exact ? 1
                            : (accesses + 2) / 3,
             seen = 0, extra = 0, n = 0;
    uint32_t wstep = linear  ? layout_warps(l)
                     : exact ? 1
                             : (layout_warps(l) + 1) / 2,
             rounds = (layout_warps(l) + wstep - 1) / wstep, a_round = 0;
    uint64_t all = (uint64_t)accesses * layout_warps(l);
    /* A layout that ldmatrix cannot read costs one more access for each word. */
    uint32_t scattered = x->matrix && !matrix ? layout_regs(l) * layout_warps(l) : 0;
    for (uint32_t r = 0; r < layout_regs(l); r++)
        a_round += (matrix ? layout_matrix_base(&m, r) : layout_vector_base(&v, r)) && seen++ % step == 0;
    for (uint32_t warp = 0; warp < layout_warps(l); warp += wstep) {
        seen = 0;
        for (uint32_t r = 0; r < layout_regs(l); r++) {
            if (!(matrix ? layout_matrix_base(&m, r) : layout_vector_base(&v, r)) || seen++ % step) continue;
            const Offsets *o = matrix ? NULL : offsets_of(q, s, exact ? SAMPLED : n, r, warp, linear, &other);
            if (matrix) extra += matrix_conflicts(l, s, &m, r, warp);
            else if (o->any)
                extra += vector_conflicts(s, o->of, o->by_bits, layout_lanes(l), v.n * s->elem_bytes);
            n++;
            if (extra * all / ((uint64_t)rounds * a_round) + scattered >= enough) return enough;
        }
    }
    return (n ? (uint32_t)((extra * all + n - 1) / n) : 0) + scattered;
}

typedef struct {
    SearchAccess writer, reader;
    LayoutShared best;
    uint32_t conflicts;
    bool found;
} Search;

static bool consider(Search *q, const LayoutShared *s)
{
    uint32_t most = q->found ? q->conflicts : UINT32_MAX, n = access_conflicts(&q->writer, s, false, most);
    if (n < most) n += access_conflicts(&q->reader, s, false, most - n);
    if (n == 0 && (n = access_conflicts(&q->writer, s, true, most)) < most)
        n += access_conflicts(&q->reader, s, true, most - n);
    if (!q->found || n < q->conflicts) q->best = *s, q->conflicts = n;
    q->found = true;
    return q->conflicts == 0;
}

static uint32_t access_bytes(const LayoutAccess *x, const LayoutShared *s)
{
    if (!x || !x->layout) return 1;
    if (x->matrix) return 16;
    LayoutVector v;
    layout_shared_vector(x->layout, s, x->max_bytes, &v);
    return v.bytes;
}

static bool try_masks(Search *q, const LayoutShared *plain, int base, int bits, const uint32_t *masks)
{
    LayoutShared s;
    return layout_shared_init(&s, plain->rank, plain->tile, plain->order, plain->elem_bytes,
               (LayoutRows){ plain->panel, plain->pitch, base, bits, masks }) &&
           consider(q, &s);
}

/* Swizzles of the form bits [low, low+bits) ^= bits [low+shift, ...), low >= base, the widest first, then two
 * such at once, then any parities of higher bits, drawn in a fixed pseudo-random order: where rows are powers
 * of two a draw is free of conflicts with a chance above 1/13. */
static bool search_swizzles(Search *q, const LayoutShared *plain, int base)
{
    int top = layout_ceil_log2(plain->bytes), bank_top = 7;
    uint32_t masks[8];
    for (int low = base; low < bank_top; low++) {
        for (int bits = bank_top - low; bits >= 1; bits--) {
            for (int shift = bits; low + shift + bits <= top; shift++) {
                for (int i = 0; i < bits; i++) masks[i] = 1u << (low + shift + i);
                if (try_masks(q, plain, low, bits, masks)) return true;
            }
        }
    }
    for (int one = bank_top - base; base + one < top; one++) { /* two shifts at once */
        for (int two = one + 1; base + two < top; two++) {
            int bits = bank_top - base;
            for (int i = 0; i < bits; i++)
                masks[i] = (1u << (base + one + i) | 1u << (base + two + i)) & ((1u << top) - 1);
            if (try_masks(q, plain, base, bits, masks)) return true;
        }
    }
    uint64_t seed = 0x5DEECE66Du;
    for (int round = 0; round < 40 && top > bank_top; round++) {
        int bits = bank_top - base;
        for (int i = 0; i < bits; i++) {
            seed = layout_mix(seed, (uint64_t)round);
            masks[i] = (uint32_t)(seed >> 20) & ((1u << top) - 1) & ~((1u << bank_top) - 1);
        }
        if (try_masks(q, plain, base, bits, masks)) return true;
    }
    return false;
}

const LayoutShared *layout_shared_choose(Arena *a, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, const LayoutAccess *writer, const LayoutAccess *reader, int max_pad, uint32_t *conflicts)
{
    const LayoutShared *plain = layout_shared_rows(a, rank, tile, order, elem_bytes, 0);
    if (!plain) return NULL;
    Search q;
    q.found = false;
    open_access(&q.writer, writer);
    open_access(&q.reader, reader);
    uint32_t wide = access_bytes(writer, plain), other = access_bytes(reader, plain);
    if (other > wide) wide = other;
    if (wide < 4) wide = 4;
    bool done = consider(&q, plain);
    /* Padding is for rows whose size is no power of two. For the others, swizzles are tried first. */
    bool pow2 = layout_pow2(plain->pitch);
    for (int pass = 0; pass < 2 && !done; pass++) {
        if (pass == !pow2) {
            done = wide < 128 && search_swizzles(&q, plain, layout_log2(wide));
            continue;
        }
        LayoutShared s;
        for (int pad = (int)wide; !done && pad <= max_pad; pad += (int)wide) {
            done = layout_shared_init(&s, rank, tile, order, elem_bytes,
                       (LayoutRows){ .panel = plain->panel, .pitch = plain->pitch + pad }) &&
                   consider(&q, &s);
        }
    }
    if (conflicts)
        *conflicts = q.conflicts ? access_conflicts(&q.writer, &q.best, true, UINT32_MAX) +
                                       access_conflicts(&q.reader, &q.best, true, UINT32_MAX)
                                 : 0;
    LayoutShared *out = arena_alloc(a, sizeof *out);
    *out = q.best;
    return out;
}
