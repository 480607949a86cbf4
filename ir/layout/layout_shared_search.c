/* layout_shared_search.c: counts the bank conflicts of accesses to a tile in shared memory, and looks for the
 * layout of the tile that has none, or the fewest: rows as they are, padded rows, and swizzles. */
#include "ir/layout/layout_priv.h"

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

/* What a step along each axis adds to an offset, as far as a tile's rows are not divided into panels. */
static void offset_steps(const LayoutShared *s, int64_t *step)
{
    int64_t pitch = s->pitch;
    step[s->order[0]] = s->elem_bytes;
    for (int k = 1; k < s->rank; k++) {
        step[s->order[k]] = pitch;
        pitch *= s->tile[s->order[k]];
    }
}

/* The same as layout_shared_plain_offset. */
static inline uint32_t offset_of(const LayoutShared *s, const int64_t *step, const int32_t *c)
{
    const int32_t inner = c[s->order[0]];
    int64_t sum = 0;
    if (inner < 0 || inner >= s->panel) return layout_shared_plain_offset(s, c);
    for (int d = 0; d < s->rank; d++) sum += c[d] * step[d];
    return (uint32_t)sum;
}

static inline bool is_inside(const Layout *l, const int32_t *c)
{
    bool in = true;
    for (int d = 0; d < l->rank; d++) in &= (uint32_t)c[d] < (uint32_t)l->tile[d];
    return in;
}

/* The offset, before it is swizzled, at which each lane's vector begins; UINT32_MAX: outside the tile.
 * Returns whether any is inside. linear: the exclusive or of the offsets of the bits of the lane. */
static bool vector_offsets(const Layout *l, const LayoutShared *s, const LanePart *part, uint32_t reg,
    uint32_t warp, bool linear, uint32_t *out)
{
    int32_t first[LAYOUT_MAX_RANK] = { 0 }, c[LAYOUT_MAX_RANK] = { 0 };
    int64_t step[LAYOUT_MAX_RANK];
    uint64_t word = layout_partial(l, LAYOUT_REG, reg, first) ^ layout_partial(l, LAYOUT_WARP, warp, first);
    bool any = false;
    offset_steps(s, step);
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        if (linear && lane & (lane - 1)) {
            out[lane] = out[lane & (lane - 1)] ^ out[lane & -lane] ^ out[0];
            continue;
        }
        for (int d = 0; d < l->rank; d++)
            c[d] = first[d] + part[lane].coord[d] + layout_fragment_coord(l, word ^ part[lane].word, d);
        const bool in = is_inside(l, c);
        out[lane] = in ? offset_of(s, step, c) : UINT32_MAX;
        any |= in;
    }
    return any;
}

/* Wavefronts above the fewest of one access, where each lane has a vector at one of these offsets before they
 * are swizzled. */
static uint32_t vector_conflicts(
    const LayoutShared *s, const uint32_t *offset, uint32_t nlanes, uint32_t width)
{
    uint32_t addr[LAYOUT_MAX_LANES], least = layout_least_wavefronts(nlanes, width);
    for (uint32_t lane = 0; lane < nlanes; lane++)
        addr[lane] = offset[lane] == UINT32_MAX ? UINT32_MAX : layout_shared_swizzled_offset(s, offset[lane]);
    uint32_t n = layout_wavefronts(addr, nlanes, width);
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
            extra += vector_conflicts(s, offset, layout_lanes(l), v->n * s->elem_bytes);
    }
    return extra;
}

/* --- search ------------------------------------------------------------------------------------------ */

/* What one access touches, before it is swizzled, and its wavefronts under the swizzle that was asked for
 * last. */
typedef struct Offsets {
    bool known, any;
    uint32_t reg, warp;
    LayoutUnits units;
    uint32_t asked, wavefronts; /* SearchAccess.asked then */
} Offsets;

/* What a search keeps of one of its accesses: what lanes add, and offsets, of the first accesses of its
 * sample and of the first register of each warp. Layouts that differ only in how they are swizzled have the
 * same, as long as the swizzle cuts no vector. */
enum { SAMPLED = 8, MOST_WARPS = 16, LOG2_WIDEST = 4 };
typedef struct SearchAccess {
    const LayoutAccess *x;
    LayoutShared plain; /* for which the following is kept */
    int cut;            /* log2 of the bytes that a swizzle leaves together, of LOG2_WIDEST at most */
    bool matrix, linear, adds;
    LayoutMatrix m;
    LayoutVector v;
    uint32_t visits[2]; /* of the registers of a warp, of a sample and of all; 0: not counted */
    uint32_t asked;     /* how many times conflicts were asked for */
    LanePart part[LAYOUT_MAX_LANES];
    Offsets sample[SAMPLED], first[MOST_WARPS];
} SearchAccess;

static void open_access(SearchAccess *q, const LayoutAccess *x)
{
    memset(&q->plain, 0, sizeof q->plain);
    q->x = x;
    q->asked = 0;
    if (x && x->layout) lane_parts(x->layout, q->part);
}

bool layout_offsets_add(const Layout *l, const LayoutShared *s)
{ return l->separable && !memcmp(l->tile, l->cover, sizeof l->tile) && s->panel >= s->tile[s->order[0]]; }

static void keep_for(SearchAccess *q, const LayoutShared *s)
{
    const LayoutShared *p = &q->plain;
    const LayoutAccess *x = q->x;
    int cut = s->nxor && s->xor_base < LOG2_WIDEST ? s->xor_base : LOG2_WIDEST;
    q->matrix = x->matrix && layout_matrix(x->layout, s, true, &q->m);
    if (p->pitch == s->pitch && p->panel == s->panel && p->panel_bytes == s->panel_bytes && q->cut == cut)
        return;
    for (int k = 0; k < SAMPLED; k++) q->sample[k].known = false;
    for (int k = 0; k < MOST_WARPS; k++) q->first[k].known = false;
    q->plain = *s;
    q->cut = cut;
    q->linear = layout_offsets_linear(x->layout, s);
    q->adds = layout_offsets_add(x->layout, s);
    q->visits[0] = q->visits[1] = 0;
    layout_shared_vector(x->layout, s, x->max_bytes, &q->v);
}

static Offsets *fill_offsets(
    const SearchAccess *q, const LayoutShared *s, uint32_t reg, uint32_t warp, Offsets *o)
{
    if (o->known && o->reg == reg && o->warp == warp) return o;
    o->known = true;
    o->reg = reg;
    o->warp = warp;
    o->asked = 0;
    o->units.lanes = layout_lanes(q->x->layout);
    o->any = vector_offsets(q->x->layout, s, q->part, reg, warp, q->linear, o->units.of);
    layout_units(&o->units, q->v.n * s->elem_bytes);
    return o;
}

/* Wavefronts of the access whose offsets are larger by `more` than those of `o`. */
static uint32_t wavefronts_of(
    const SearchAccess *q, const LayoutShared *s, const LayoutTerms *t, Offsets *o, uint32_t more)
{
    LayoutUnits *u = &o->units;
    uint32_t n, addr[LAYOUT_MAX_LANES];
    const bool moves = layout_units_move(u, t, more);
    if (moves && o->asked == q->asked) return o->wavefronts;
    if (!layout_units_wavefronts(u, t, moves ? 0 : more, &n)) {
        for (uint32_t lane = 0; lane < u->lanes; lane++)
            addr[lane] =
                u->of[lane] == UINT32_MAX ? UINT32_MAX : layout_shared_swizzled_offset(s, u->of[lane] + more);
        n = layout_wavefronts(addr, u->lanes, q->v.n * s->elem_bytes);
    } else if (moves) {
        o->asked = q->asked;
        o->wavefronts = n;
    }
    return n;
}

/* Conflicts of the access at these registers of this warp: of the sample the one with this number. */
static uint32_t conflicts_at(SearchAccess *q, const LayoutShared *s, const LayoutTerms *t, uint32_t number,
    uint32_t reg, uint32_t warp)
{
    const Layout *l = q->x->layout;
    const bool adds = q->adds && warp < MOST_WARPS;
    Offsets other;
    uint32_t more = 0, n;
    other.known = false;
    Offsets *o = adds               ? fill_offsets(q, s, 0, warp, &q->first[warp])
                 : number < SAMPLED ? fill_offsets(q, s, reg, warp, &q->sample[number])
                                    : fill_offsets(q, s, reg, warp, &other);
    if (!o->any) return 0;
    if (adds && reg) {
        int32_t c[LAYOUT_MAX_RANK];
        layout_element(l, reg, 0, 0, 0, c);
        more = layout_shared_plain_offset(s, c);
    }
    n = wavefronts_of(q, s, t, o, more);
    const uint32_t least = layout_least_wavefronts(layout_lanes(l), q->v.n * s->elem_bytes);
    return n > least ? n - least : 0;
}

/* The register after `r` of those whose bits in `mask` are 0, and so on `step` times. */
static inline uint32_t next_base(uint32_t r, uint32_t mask, uint32_t step)
{
    for (; step; step--) r = ((r | mask) + 1) & ~mask;
    return r;
}

static uint32_t count_visits(uint32_t regs, uint32_t mask, uint32_t step)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < regs; r = next_base(r, mask, step)) n++;
    return n;
}

/* Conflicts of all accesses of x: of a sample, scaled, unless `exact`. As soon as they are known to be
 * `enough` or more, some such number. */
static uint32_t access_conflicts(
    SearchAccess *q, const LayoutShared *s, const LayoutTerms *t, bool exact, uint32_t enough)
{
    const LayoutAccess *x = q->x;
    if (!x || !x->layout) return 0;
    const Layout *l = x->layout;
    keep_for(q, s);
    q->asked++;
    const LayoutMatrix *m = &q->m;
    uint32_t each =
        q->matrix ? (uint32_t)m->count << (4 / s->elem_bytes > 2 ? 2 : 4 / s->elem_bytes > 1) : q->v.n;
    const uint32_t regs = layout_regs(l), warps = layout_warps(l), accesses = regs / (each ? each : 1),
                   mask = q->matrix ? m->mask : q->v.mask,
                   step = q->linear ? accesses
                          : exact   ? 1
                                    : (accesses + 2) / 3,
                   wstep = q->linear ? warps
                           : exact   ? 1
                                     : (warps + 1) / 2;
    uint32_t own = 0, *visits = q->matrix ? &own : &q->visits[exact], extra = 0, n = 0;
    /* A layout that ldmatrix cannot read costs one more access for each word. */
    const uint32_t scattered = x->matrix && !q->matrix ? regs * warps : 0;
    const uint64_t all = (uint64_t)accesses * warps, rounds = (warps + wstep - 1) / wstep;
    if (!*visits) *visits = count_visits(regs, mask, step);
    const uint64_t most = enough > scattered ? (enough - scattered) * rounds * *visits : 0;
    for (uint32_t warp = 0; warp < warps; warp += wstep)
        for (uint32_t r = 0; r < regs; r = next_base(r, mask, step)) {
            extra += q->matrix ? matrix_conflicts(l, s, m, r, warp)
                               : conflicts_at(q, s, t, exact ? SAMPLED : n, r, warp);
            n++;
            if (extra * all >= most) return enough;
        }
    return (n ? (uint32_t)((extra * all + n - 1) / n) : 0) + scattered;
}

typedef struct {
    SearchAccess writer, reader;
    LayoutShared best;
    uint32_t conflicts;
    bool found;
} Search;

static LayoutTerms terms_of(const LayoutShared *s)
{
    LayoutTerms t;
    t.n = layout_shared_terms(s, t.shift, t.mask);
    t.base = s->nxor ? s->xor_base : INT32_MAX;
    return t;
}

static bool consider(Search *q, const LayoutShared *s)
{
    const LayoutTerms t = terms_of(s);
    uint32_t most = q->found ? q->conflicts : UINT32_MAX,
             n = access_conflicts(&q->writer, s, &t, false, most);
    if (n < most) n += access_conflicts(&q->reader, s, &t, false, most - n);
    if (n == 0 && (n = access_conflicts(&q->writer, s, &t, true, most)) < most)
        n += access_conflicts(&q->reader, s, &t, true, most - n);
    if (!q->found || n < q->conflicts) q->best = *s, q->conflicts = n;
    q->found = true;
    return q->conflicts == 0;
}

/* Of the best layout. */
static uint32_t all_conflicts(Search *q)
{
    const LayoutTerms t = terms_of(&q->best);
    return access_conflicts(&q->writer, &q->best, &t, true, UINT32_MAX) +
           access_conflicts(&q->reader, &q->best, &t, true, UINT32_MAX);
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
    if (conflicts) *conflicts = q.conflicts ? all_conflicts(&q) : 0;
    LayoutShared *out = arena_alloc(a, sizeof *out);
    *out = q.best;
    return out;
}
