/* Tiles in shared memory: offsets, swizzles, bank conflicts counted exactly, and the search for a layout
 * without any. */
#include "ir/layout_priv.h"

#include <string.h>

static bool shared_init(LayoutShared *out, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, int panel, int pitch, int xor_base, int nxor, const uint32_t *xor_)
{
    LayoutShared s = { .rank = (uint8_t)rank,
        .elem_bytes = (uint8_t)elem_bytes,
        .nxor = (uint8_t)nxor,
        .xor_base = (uint8_t)xor_base };
    unsigned seen = 0;
    if (rank < 1 || rank > LAYOUT_MAX_RANK || elem_bytes < 1 || elem_bytes > 16 || panel < 1 || pitch < 1 ||
        nxor < 0 || nxor > 8)
        return false;
    if (xor_base < 0 || xor_base > 24) return false;
    for (int d = 0; d < rank; d++) {
        if (tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT || order[d] < 0 || order[d] >= rank) return false;
        s.tile[d] = tile[d];
        s.order[d] = order[d];
        seen |= 1u << order[d];
    }
    if (seen != (1u << rank) - 1 || (int64_t)panel * elem_bytes > pitch) return false;
    int64_t rows = 1, npanel = (tile[order[0]] + (int64_t)panel - 1) / panel;
    for (int k = 1; k < rank; k++) {
        rows *= tile[order[k]];
        if (rows > LAYOUT_MAX_EXTENT) return false;
    }
    /* Masks read bits above all swizzled ones, so the swizzle is its own inverse; it permutes aligned blocks
     * of `period` bytes. */
    uint32_t high = 0, target = ((1u << nxor) - 1) << xor_base;
    for (int i = 0; i < nxor; i++) {
        if (xor_[i] & (target | ((1u << xor_base) - 1)) || xor_[i] >> 28) return false;
        s.xor_[i] = xor_[i];
        high |= xor_[i];
    }
    int64_t period = high ? 1ll << (layout_log2(target) + 1) : elem_bytes,
            align = high ? 1ll << (layout_log2(high) + 1) : 16;
    int64_t panel_bytes = rows * pitch;
    if (npanel > 1 && high) panel_bytes = (panel_bytes + align - 1) / align * align;
    int64_t bytes = (panel_bytes * npanel + period - 1) / period * period;
    if (bytes > 1 << 28) return false;
    s.panel = panel;
    s.pitch = pitch;
    s.panel_bytes = (int32_t)panel_bytes;
    s.bytes = (uint32_t)bytes;
    s.align = (uint32_t)(align > 1024 ? 1024 : align < 16 ? 16 : align);
    *out = s;
    return true;
}

const LayoutShared *layout_shared_make(Arena *a, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, int panel, int pitch, int xor_base, int nxor, const uint32_t *xor_)
{
    LayoutShared s;
    if (!shared_init(&s, rank, tile, order, elem_bytes, panel, pitch, xor_base, nxor, xor_)) return NULL;
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
    return layout_shared_make(a, rank, tile, order, elem_bytes, tile[order[0]], (int)pitch, 0, 0, NULL);
}

const LayoutShared *layout_shared_panels(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span)
{
    static const uint32_t masks[3] = { 1u << 7, 1u << 8, 1u << 9 };
    if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || elem_bytes < 1) return NULL;
    if ((span != 16 && span != 32 && span != 64 && span != 128) || span % elem_bytes) return NULL;
    return layout_shared_make(a, rank, tile, order, elem_bytes, span / elem_bytes, span, 4,
        layout_log2((uint32_t)span / 16), masks);
}

const LayoutShared *layout_shared_swizzled(
    Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span)
{
    if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || span < 1) return NULL;
    if ((int64_t)tile[order[0]] * elem_bytes % span) return NULL;
    return layout_shared_panels(a, rank, tile, order, elem_bytes, span);
}

static uint32_t swizzle(const LayoutShared *s, uint32_t offset)
{
    uint32_t x = 0;
    for (int i = 0; i < s->nxor; i++)
        x |= (uint32_t)__builtin_parity(offset & s->xor_[i]) << (s->xor_base + i);
    return offset ^ x;
}

static uint32_t unswizzled(const LayoutShared *s, const int32_t *coord)
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
{ return swizzle(s, unswizzled(s, coord)); }

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
    int n = 0;
    for (int k = 1; k < 28; k++) {
        uint32_t m = 0;
        for (int i = 0; i < s->nxor; i++)
            m |= (s->xor_[i] >> (s->xor_base + i) >> k & 1) << (s->xor_base + i);
        if (m) shift[n] = (uint8_t)k, mask[n++] = m;
    }
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

/* --- banks ------------------------------------------------------------------------------------------- */

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
        out[lane] = in ? unswizzled(s, c) : UINT32_MAX;
        any |= in;
    }
    return any;
}

/* Wavefronts of one access, where each lane has a vector at one of these offsets before they are swizzled. */
static uint32_t vector_wavefronts(
    const LayoutShared *s, const uint32_t *offset, bool by_bits, uint32_t nlanes, uint32_t width)
{
    uint32_t addr[LAYOUT_MAX_LANES];
    addr[0] = swizzle(s, offset[0]);
    for (uint32_t lane = 1; by_bits && lane < nlanes; lane *= 2) addr[lane] = swizzle(s, offset[lane]);
    uint32_t n = by_bits ? layout_wavefronts_by_bits(addr, nlanes, width) : 0;
    if (n) return n;
    for (uint32_t lane = 0; lane < nlanes; lane++)
        addr[lane] = offset[lane] == UINT32_MAX ? UINT32_MAX : swizzle(s, offset[lane]);
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

/* Whether the offset of a register of a thread is that of the thread's first register and that of the
 * register in the first thread together. */
static bool offsets_add(const Layout *l, const LayoutShared *s)
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
    if (warp >= MOST_WARPS || !offsets_add(l, s)) return fill_offsets(q, s, reg, warp, linear, other);
    const Offsets *first = fill_offsets(q, s, 0, warp, linear, &q->first[warp]);
    layout_element(l, reg, 0, 0, 0, c);
    const uint32_t more = unswizzled(s, c);
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
    return shared_init(&s, plain->rank, plain->tile, plain->order, plain->elem_bytes, plain->panel,
               plain->pitch, base, bits, masks) &&
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
            done = shared_init(
                       &s, rank, tile, order, elem_bytes, plain->panel, plain->pitch + pad, 0, 0, NULL) &&
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
