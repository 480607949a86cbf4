/* Layouts: building the canonical form, and the queries on it. See layout.h and docs/layouts.md.
 *
 * Canonical form, reached by layout_build from any list of bits and digits:
 *   - digits of size 1 are gone; digits of one input that continue each other (same axis, stride_b =
 *       stride_a * size_a) are one;
 *   - the first digit of an input, where it continues the fragment along its axis, has given its factors of
 *       two to the fragment.
 * Hence two maps that are the same have the same bits and digits, and comparing structures compares maps. */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* --- building ---------------------------------------------------------------------------------------- */

void layout_build_init(LayoutBuild *b, int rank, const int32_t *tile)
{
    memset(b, 0, offsetof(LayoutBuild, basis)); /* rows and digits are whole when they are added */
    b->overflow = false;
    b->rank = rank;
    if (rank < 1 || rank > LAYOUT_MAX_RANK) {
        b->overflow = true;
        return;
    }
    memcpy(b->tile, tile, (size_t)rank * sizeof *tile);
}

void layout_build_bit(LayoutBuild *b, LayoutInput in, const int32_t *vec)
{
    if (b->overflow || b->nbit[in] == BUILD_BITS) {
        b->overflow = true;
        return;
    }
    int32_t *to = b->basis[in][b->nbit[in]++];
    memset(to, 0, sizeof b->basis[0][0]);
    if (vec) memcpy(to, vec, (size_t)b->rank * sizeof *vec);
}

void layout_build_digit(LayoutBuild *b, LayoutInput in, int axis, int32_t size, int32_t stride)
{
    if (b->overflow || b->ndigit == BUILD_DIGITS) {
        b->overflow = true;
        return;
    }
    b->digit[b->ndigit++] = (LayoutDigit){ (uint8_t)in, (uint8_t)axis, size, stride };
}

void layout_unpack(const Layout *l, uint64_t word, int32_t *vec)
{
    for (int d = 0; d < l->rank; d++) vec[d] = (int32_t)(word >> l->fshift[d] & ((1ull << l->fbit[d]) - 1));
}

void layout_build_from(LayoutBuild *b, const Layout *l)
{
    layout_build_init(b, l->rank, l->tile);
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++) {
            int32_t vec[LAYOUT_MAX_RANK];
            layout_unpack(l, l->basis[in][i], vec);
            layout_build_bit(b, in, vec);
        }
    }
    memcpy(b->digit, l->digit, sizeof l->digit);
    b->ndigit = l->ndigit;
}

static void remove_digit(LayoutBuild *b, int i)
{
    memmove(&b->digit[i], &b->digit[i + 1], (size_t)(b->ndigit - i - 1) * sizeof b->digit[0]);
    b->ndigit--;
}

static int next_digit(const LayoutBuild *b, int in, int from)
{
    for (int i = from; i < b->ndigit; i++) {
        if (b->digit[i].in == in) return i;
    }
    return -1;
}

static bool merge_digits(LayoutBuild *b, int in)
{
    bool changed = false;
    int i = next_digit(b, in, 0);
    while (i >= 0) {
        int j = next_digit(b, in, i + 1);
        if (j < 0) break;
        LayoutDigit *x = &b->digit[i], *y = &b->digit[j];
        if (x->axis == y->axis && (int64_t)x->stride * x->size == y->stride &&
            (int64_t)x->size * y->size < LAYOUT_MAX_EXTENT) {
            x->size *= y->size;
            remove_digit(b, j);
            changed = true;
        } else {
            i = j;
        }
    }
    return changed;
}

/* The first digit of an input gives its factors of two to the fragment if it continues it. */
static bool absorb_digit(LayoutBuild *b, int in, int *fbit)
{
    bool changed = false;
    int i = next_digit(b, in, 0);
    while (i >= 0) {
        LayoutDigit *x = &b->digit[i];
        if (x->size == 1) {
            remove_digit(b, i);
            i = next_digit(b, in, 0);
            continue;
        }
        if (x->size % 2 || (x->stride && x->stride != 1 << fbit[x->axis])) break;
        int32_t vec[LAYOUT_MAX_RANK] = { 0 };
        vec[x->axis] = x->stride;
        if (b->nbit[in] == BUILD_BITS) break;
        layout_build_bit(b, in, vec);
        if (x->stride) fbit[x->axis]++;
        x->size /= 2;
        x->stride *= 2;
        changed = true;
    }
    return changed;
}

static bool normalize(LayoutBuild *b, int *fbit)
{
    for (int d = 0; d < b->rank; d++) {
        if (b->tile[d] < 1 || b->tile[d] > LAYOUT_MAX_EXTENT) return false;
        int32_t all = 0;
        for (int in = 0; in < LAYOUT_INPUTS; in++) {
            for (int i = 0; i < b->nbit[in]; i++) {
                if (b->basis[in][i][d] < 0 || b->basis[in][i][d] >= LAYOUT_MAX_EXTENT) return false;
                all |= b->basis[in][i][d];
            }
        }
        fbit[d] = all ? layout_log2((uint32_t)all) + 1 : 0;
    }
    for (int i = 0; i < b->ndigit; i++) {
        LayoutDigit *x = &b->digit[i];
        if (x->size < 1 || x->stride < 0 || x->axis >= b->rank || x->in >= LAYOUT_INPUTS) return false;
        if (x->size > LAYOUT_MAX_EXTENT || (int64_t)x->size * x->stride > LAYOUT_MAX_EXTENT) return false;
        if (!x->stride) x->axis = 0;
        if (x->size == 1) remove_digit(b, i--);
    }
    bool changed = true;
    while (changed) {
        changed = false;
        for (int in = 0; in < LAYOUT_INPUTS; in++) {
            changed |= merge_digits(b, in);
            changed |= absorb_digit(b, in, fbit);
        }
    }
    return !b->overflow && b->ndigit <= LAYOUT_MAX_DIGITS;
}

/* The digit of axis d with this stride; NULL: there is none. */
static const LayoutDigit *digit_at(const Layout *l, int d, int64_t stride)
{
    for (int i = 0; i < l->ndigit; i++)
        if (l->digit[i].axis == d && l->digit[i].stride == stride) return &l->digit[i];
    return NULL;
}

/* The extent of axis d that its fragment and its digits cover. From the fragment on, each digit must begin
 * where those below it end. 0: they leave holes, overlap, or go beyond the largest extent. */
static int64_t covered(const Layout *l, int d)
{
    int64_t fragment = 1ll << l->fbit[d], reach = fragment;
    int left = 0;
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        if (x->axis != d || !x->stride) continue;
        if (x->stride < fragment) return 0;
        left++;
    }
    for (; left; left--) {
        const LayoutDigit *next = digit_at(l, d, reach);
        if (!next) return 0;
        reach *= next->size;
        if (reach > LAYOUT_MAX_EXTENT) return 0;
    }
    return reach;
}

static bool cover_axes(Layout *l)
{
    for (int d = 0; d < l->rank; d++) {
        int64_t reach = covered(l, d);
        if (reach < l->tile[d]) return false;
        l->cover[d] = (int32_t)reach;
    }
    return true;
}

static const int input_shift[LAYOUT_INPUTS] = { 0, 16, 32, 48 };

/* Gauss-Jordan over the basis vectors in the order register, lane, warp, block: pivots give the inverse, the
 * rest is free. */
static bool invert_fragment(Layout *l, int total)
{
    uint64_t vec[40], comb[40];
    int npivot = 0;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++) {
            uint64_t v = l->basis[in][i], c = 1ull << (input_shift[in] + i);
            for (int p = 0; p < npivot; p++) {
                if (v >> __builtin_ctzll(vec[p]) & 1) v ^= vec[p], c ^= comb[p];
            }
            if (!v) {
                l->free[in] |= 1u << i;
                continue;
            }
            for (int p = 0; p < npivot; p++) {
                if (vec[p] >> __builtin_ctzll(v) & 1) vec[p] ^= v, comb[p] ^= c;
            }
            vec[npivot] = v;
            comb[npivot++] = c;
        }
    }
    if (npivot != total) return false;
    for (int p = 0; p < npivot; p++) l->inverse[__builtin_ctzll(vec[p])] = comb[p];
    return true;
}

static bool is_separable(const Layout *l)
{
    uint64_t reg = 0, thread = 0;
    for (int i = 0; i < l->nbit[LAYOUT_REG]; i++) reg |= l->basis[LAYOUT_REG][i];
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++) thread |= l->basis[in][i];
    }
    return !(reg & thread);
}

static uint64_t compute_hash(const Layout *l)
{
    uint64_t h = l->rank;
    for (int d = 0; d < l->rank; d++) h = layout_mix(h, (uint64_t)l->tile[d] << 8 | l->fbit[d]);
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        h = layout_mix(h, l->nbit[in]);
        for (int i = 0; i < l->nbit[in]; i++) h = layout_mix(h, l->basis[in][i]);
    }
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        h = layout_mix(h, (uint64_t)x->in << 56 | (uint64_t)x->axis << 48 | (uint64_t)x->size);
        h = layout_mix(h, (uint64_t)x->stride);
    }
    return h;
}

static bool count_inputs(Layout *l)
{
    static const uint32_t limit[LAYOUT_INPUTS] = { LAYOUT_MAX_REGS, LAYOUT_MAX_LANES, LAYOUT_MAX_WARPS, 16 };
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        if (l->nbit[in] > 12) return false;
        uint64_t n = 1ull << l->nbit[in];
        for (int i = 0; i < l->ndigit; i++) {
            if (l->digit[i].in == in) n *= (uint64_t)l->digit[i].size;
            if (n > limit[in]) return false;
        }
        if (n > limit[in]) return false;
        l->count[in] = (uint32_t)n;
    }
    return true;
}

const Layout *layout_build(Arena *a, LayoutBuild *b, const LayoutSpec *spec)
{
    int fbit[LAYOUT_MAX_RANK], total = 0;
    if (b->overflow || !normalize(b, fbit)) return NULL;
    Layout l;
    memset(&l, 0, sizeof l);
    l.rank = (uint8_t)b->rank;
    for (int d = 0; d < b->rank; d++) {
        l.tile[d] = b->tile[d];
        l.fbit[d] = (uint8_t)fbit[d];
        l.fshift[d] = (uint8_t)total;
        total += fbit[d];
    }
    if (total > 40) return NULL;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        if (b->nbit[in] > LAYOUT_MAX_BITS) return NULL;
        l.nbit[in] = (uint8_t)b->nbit[in];
        for (int i = 0; i < b->nbit[in]; i++) {
            for (int d = 0; d < b->rank; d++) l.basis[in][i] |= (uint64_t)b->basis[in][i][d] << l.fshift[d];
        }
    }
    /* Digits grouped by input: significance is an order within an input only. */
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < b->ndigit; i++) {
            if (b->digit[i].in == in) l.digit[l.ndigit++] = b->digit[i];
        }
    }
    for (int i = 0; i < l.ndigit; i++) {
        if (l.digit[i].in == LAYOUT_LANE) return NULL;
    }
    if (!cover_axes(&l) || !count_inputs(&l) || !invert_fragment(&l, total)) return NULL;
    l.separable = is_separable(&l);
    l.hash = compute_hash(&l);
    Layout *out = arena_alloc(a, sizeof *out);
    *out = l;
    if (spec) {
        LayoutSpec *s = arena_alloc(a, sizeof *s);
        *s = *spec;
        out->spec = s;
    }
    return out;
}

const Layout *layout_from_basis(Arena *a, int rank, const int32_t *tile, const int nbit[LAYOUT_INPUTS],
    const int32_t *const basis[LAYOUT_INPUTS], int ndigit, const LayoutDigit *digit)
{
    LayoutBuild b;
    layout_build_init(&b, rank, tile);
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < nbit[in]; i++) layout_build_bit(&b, in, basis[in] + (size_t)i * (size_t)rank);
    }
    for (int i = 0; i < ndigit; i++)
        layout_build_digit(&b, digit[i].in, digit[i].axis, digit[i].size, digit[i].stride);
    return layout_build(a, &b, NULL);
}

/* --- elements and owners ----------------------------------------------------------------------------- */

/* The fragment's part of a value of an input. */
static inline uint64_t fragment_of(const Layout *l, LayoutInput in, uint32_t value)
{
    uint64_t word = 0;
    for (uint32_t bits = value & ((1u << l->nbit[in]) - 1); bits; bits &= bits - 1)
        word ^= l->basis[in][__builtin_ctz(bits)];
    return word;
}

/* Adds the digits' part of a value of an input, of which `rest` is what lies above the fragment's bits. */
static inline void add_digits(const Layout *l, LayoutInput in, uint32_t rest, int32_t *coord)
{
    for (int i = 0; rest && i < l->ndigit; i++) {
        if (l->digit[i].in != in) continue;
        coord[l->digit[i].axis] += (int32_t)(rest % (uint32_t)l->digit[i].size) * l->digit[i].stride;
        rest /= (uint32_t)l->digit[i].size;
    }
}

uint64_t layout_partial(const Layout *l, LayoutInput in, uint32_t value, int32_t *coord)
{
    if (!value) return 0;
    add_digits(l, in, value >> l->nbit[in], coord);
    return fragment_of(l, in, value);
}

void layout_element(
    const Layout *l, uint32_t reg, uint32_t lane, uint32_t warp, uint32_t block, int32_t *coord)
{
    uint64_t word = fragment_of(l, LAYOUT_REG, reg) ^ fragment_of(l, LAYOUT_LANE, lane) ^
                    fragment_of(l, LAYOUT_WARP, warp);
    if (block) word ^= fragment_of(l, LAYOUT_BLOCK, block);
    for (int d = 0; d < l->rank; d++) coord[d] = layout_fragment_coord(l, word, d);
    add_digits(l, LAYOUT_REG, reg >> l->nbit[LAYOUT_REG], coord);
    add_digits(l, LAYOUT_LANE, lane >> l->nbit[LAYOUT_LANE], coord);
    add_digits(l, LAYOUT_WARP, warp >> l->nbit[LAYOUT_WARP], coord);
    add_digits(l, LAYOUT_BLOCK, block >> l->nbit[LAYOUT_BLOCK], coord);
}

void layout_lane_elements(const Layout *l, uint32_t reg, uint32_t warp, int32_t (*coord)[LAYOUT_MAX_RANK])
{
    uint64_t word[LAYOUT_MAX_LANES];
    int32_t first[LAYOUT_MAX_RANK] = { 0 };
    word[0] = layout_partial(l, LAYOUT_REG, reg, first) ^ layout_partial(l, LAYOUT_WARP, warp, first);
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        memcpy(coord[lane], first, sizeof first);
        if (lane >> l->nbit[LAYOUT_LANE])
            word[lane] = word[0] ^ layout_partial(l, LAYOUT_LANE, lane, coord[lane]);
        else if (lane) word[lane] = word[lane & (lane - 1)] ^ l->basis[LAYOUT_LANE][__builtin_ctz(lane)];
        for (int d = 0; d < l->rank; d++) coord[lane][d] += layout_fragment_coord(l, word[lane], d);
    }
}

bool layout_in_tile(const Layout *l, const int32_t *coord)
{
    for (int d = 0; d < l->rank; d++) {
        if (coord[d] < 0 || coord[d] >= l->tile[d]) return false;
    }
    return true;
}

LayoutCover layout_reg_cover(const Layout *l, uint32_t reg)
{
    if (!memcmp(l->cover, l->tile, sizeof l->tile)) return LAYOUT_INSIDE;
    bool in = false, out = false;
    for (uint32_t block = 0; block < l->count[LAYOUT_BLOCK]; block++) {
        for (uint32_t warp = 0; warp < l->count[LAYOUT_WARP]; warp++) {
            for (uint32_t lane = 0; lane < l->count[LAYOUT_LANE]; lane++) {
                int32_t c[LAYOUT_MAX_RANK];
                layout_element(l, reg, lane, warp, block, c);
                if (layout_in_tile(l, c)) in = true;
                else out = true;
                if (in && out) return LAYOUT_MIXED;
            }
        }
    }
    return in ? LAYOUT_INSIDE : LAYOUT_OUTSIDE;
}

/* Splits a coordinate into the fragment word and the digits' values. False outside the covered box. */
static bool split_coord(const Layout *l, const int32_t *coord, uint64_t *word, int32_t *digit)
{
    *word = 0;
    for (int d = 0; d < l->rank; d++) {
        if (coord[d] < 0 || coord[d] >= l->cover[d]) return false;
        *word |= (uint64_t)(coord[d] & ((1 << l->fbit[d]) - 1)) << l->fshift[d];
    }
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        digit[i] = x->stride ? coord[x->axis] / x->stride % x->size : 0;
    }
    return true;
}

static uint32_t digits_value(const Layout *l, LayoutInput in, const int32_t *digit)
{
    uint32_t v = 0, scale = 1u << l->nbit[in];
    for (int i = 0; i < l->ndigit; i++) {
        if (l->digit[i].in != in) continue;
        v += (uint32_t)digit[i] * scale;
        scale *= (uint32_t)l->digit[i].size;
    }
    return v;
}

bool layout_owner(const Layout *l, const int32_t *coord, LayoutOwner *out)
{
    uint64_t word, packed = 0;
    int32_t digit[LAYOUT_MAX_DIGITS];
    if (!split_coord(l, coord, &word, digit)) return false;
    for (; word; word &= word - 1) packed ^= l->inverse[__builtin_ctzll(word)];
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        out->in[in] = (uint32_t)(packed >> input_shift[in] & 0xFFFF) + digits_value(l, in, digit);
    }
    return true;
}

int layout_find_reg(const Layout *l, const int32_t *coord, uint32_t lane, uint32_t warp, uint32_t block)
{
    uint64_t word, vec[LAYOUT_MAX_BITS];
    int32_t digit[LAYOUT_MAX_DIGITS], want[LAYOUT_MAX_RANK] = { 0 };
    if (!split_coord(l, coord, &word, digit)) return -1;
    word ^= layout_partial(l, LAYOUT_LANE, lane, want) ^ layout_partial(l, LAYOUT_WARP, warp, want) ^
            layout_partial(l, LAYOUT_BLOCK, block, want);
    for (int i = 0; i < l->ndigit; i++) { /* The digits of the thread must be those of the coordinate. */
        const LayoutDigit *x = &l->digit[i];
        if (x->in != LAYOUT_REG && x->stride && want[x->axis] / x->stride % x->size != digit[i]) return -1;
    }
    uint32_t comb[LAYOUT_MAX_BITS], reg = 0;
    int n = 0;
    for (int i = 0; i < l->nbit[LAYOUT_REG]; i++) {
        uint64_t v = l->basis[LAYOUT_REG][i];
        uint32_t c = 1u << i;
        for (int p = 0; p < n; p++) {
            if (v >> __builtin_ctzll(vec[p]) & 1) v ^= vec[p], c ^= comb[p];
        }
        if (v) vec[n] = v, comb[n++] = c;
    }
    for (int p = 0; p < n; p++) {
        if (word >> __builtin_ctzll(vec[p]) & 1) word ^= vec[p], reg ^= comb[p];
    }
    return word ? -1 : (int)(reg + digits_value(l, LAYOUT_REG, digit));
}
