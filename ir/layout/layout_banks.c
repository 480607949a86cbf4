/* Banks of shared memory: the wavefronts that an access takes. */
#include "ir/layout/layout_priv.h"

enum { BANKS = 32, BANK_BYTES = 4 };

uint32_t layout_least_wavefronts(uint32_t nlanes, uint32_t width)
{
    uint32_t group = width <= 4 ? 32 : 128 / width;
    return (nlanes + group - 1) / group;
}

uint32_t layout_wavefronts(const uint32_t *addr, uint32_t nlanes, uint32_t width)
{
    uint32_t group = width <= 4 ? 32 : 128 / width, words = width <= 4 ? 1 : width / 4, total = 0;
    uint32_t shift = 2, banks = BANKS, odd = 0; /* shift: log2 of a bank's bytes */
    for (uint32_t i = 0; i < nlanes; i++) odd |= addr[i] == UINT32_MAX ? 0 : addr[i];
    /* Vectors at multiples of their size meet in all of their banks or in none. */
    if (width > 4 && layout_pow2(width) && !(odd & (width - 1))) {
        shift = (uint32_t)layout_log2(width);
        banks = BANKS * BANK_BYTES / width;
        words = 1;
    }
    for (uint32_t first = 0; first < nlanes; first += group) {
        uint32_t word[BANKS][32], depth[BANKS] = { 0 }, worst = 0;
        for (uint32_t i = first; i < first + group && i < nlanes; i++) {
            if (addr[i] == UINT32_MAX) continue;
            for (uint32_t k = 0; k < words; k++) {
                uint32_t w = (addr[i] >> shift) + k, bank = w & (banks - 1), j = 0;
                while (j < depth[bank] && word[bank][j] != w)
                    j++; /* lanes that touch the same word share it */
                if (j < depth[bank]) continue;
                word[bank][depth[bank]++] = w;
                if (depth[bank] > worst) worst = depth[bank];
            }
        }
        total += worst;
    }
    return total;
}

/* How many of these are linearly independent over bits; they are changed. */
static uint32_t rank_of(uint32_t *x, uint32_t n)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = x[i] & -x[i];
        rank += x[i] != 0;
        for (uint32_t j = i + 1; j < n; j++)
            if (x[j] & low) x[j] ^= x[i];
    }
    return rank;
}

static bool lanes_by_bits(const uint32_t *offset, uint32_t nlanes)
{
    if (!layout_pow2(nlanes)) return false;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        uint32_t rest = lane & (lane - 1);
        if (offset[lane] == UINT32_MAX) return false;
        if (rest && offset[lane] != (offset[rest] ^ offset[lane ^ rest] ^ offset[0])) return false;
    }
    return true;
}

void layout_units(LayoutUnits *u, uint32_t width)
{
    uint32_t changes[LAYOUT_MOST_BITS];
    u->set = 0;
    for (uint32_t i = 0; i < u->lanes; i++) u->set |= u->of[i] == UINT32_MAX ? 0 : u->of[i];
    u->group = width <= BANK_BYTES ? BANKS : BANKS * BANK_BYTES / width;
    u->aligned = width <= BANK_BYTES || (layout_pow2(width) && !(u->set & (width - 1)));
    u->listed = false;
    if (!u->aligned) return;
    u->shift = width <= BANK_BYTES ? 2 : (uint32_t)layout_log2(width);
    u->banks = BANKS * BANK_BYTES >> u->shift;
    u->by_bits = lanes_by_bits(u->of, u->lanes);
    u->n_bits = 0;
    for (uint32_t bit = 1; u->by_bits && bit < u->lanes && bit < u->group; bit *= 2) {
        changes[u->n_bits] = u->bit[u->n_bits] = (u->of[0] ^ u->of[bit]) >> u->shift << u->shift;
        u->n_bits++;
    }
    u->rank = rank_of(changes, u->n_bits);
}

/* Units whose banks are computed together, by instructions for vectors. */
enum { AT_ONCE = 8 };
_Static_assert(LAYOUT_MAX_LANES % AT_ONCE == 0, "room behind the last unit");

/* Lanes of a group that touch the same unit share it. */
static void list_units(LayoutUnits *u)
{
    uint32_t n = 0;
    for (uint32_t first = 0; first < u->lanes; first += u->group) {
        const uint32_t begin = n;
        for (uint32_t i = first; i < first + u->group && i < u->lanes; i++) {
            uint32_t unit = u->of[i] >> u->shift << u->shift, k = begin;
            if (u->of[i] == UINT32_MAX) continue;
            while (k < n && u->unit[k] != unit) k++;
            if (k == n) u->unit[n++] = unit;
        }
        u->end[first / u->group] = (uint8_t)n;
    }
    while (n % AT_ONCE) u->unit[n++] = 0;
    u->listed = true;
}

static inline uint32_t bank_of(const LayoutUnits *u, const LayoutTerms *t, uint32_t offset)
{
    uint32_t x = offset;
    for (int i = 0; i < t->n; i++) x ^= offset >> t->shift[i] & t->mask[i];
    return x >> u->shift & (u->banks - 1);
}

static void banks_of_units(
    const LayoutUnits *u, const LayoutTerms *t, uint32_t more, uint32_t n, uint32_t *bank)
{
    for (uint32_t k = 0; k < n; k += AT_ONCE) {
        uint32_t at[AT_ONCE], x[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++) x[j] = at[j] = u->unit[k + (uint32_t)j] + more;
        for (int i = 0; i < t->n; i++) {
            const uint32_t shift = t->shift[i], mask = t->mask[i];
            for (int j = 0; j < AT_ONCE; j++) x[j] ^= at[j] >> shift & mask;
        }
        for (int j = 0; j < AT_ONCE; j++) bank[k + (uint32_t)j] = x[j] >> u->shift & (u->banks - 1);
    }
}

/* Without a swizzle, `more` rotates the banks; where no bit is carried, it permutes them by an exclusive or.
 */
bool layout_units_move(const LayoutUnits *u, const LayoutTerms *t, uint32_t more)
{ return u->aligned && !(more & ((1u << u->shift) - 1)) && (!t->n || !(u->set & more)); }

bool layout_units_wavefronts(LayoutUnits *u, const LayoutTerms *t, uint32_t more, uint32_t *wavefronts)
{
    uint32_t total = 0, met[LAYOUT_MOST_BITS], bank[LAYOUT_MAX_LANES];
    if (!u->aligned || (int)u->shift > t->base || more & ((1u << u->shift) - 1)) return false;
    if (u->by_bits && layout_units_move(u, t, more)) {
        /* A group's units are an affine space, which banks divide evenly. */
        for (uint32_t i = 0; i < u->n_bits; i++) met[i] = bank_of(u, t, u->bit[i]);
        *wavefronts = (u->lanes >> u->n_bits) << (u->rank - rank_of(met, u->n_bits));
        return true;
    }
    if (!u->listed) list_units(u);
    const uint32_t passes = (u->lanes + u->group - 1) / u->group;
    banks_of_units(u, t, more, u->end[passes - 1], bank);
    for (uint32_t pass = 0, k = 0; pass < passes; pass++) {
        uint8_t depth[BANKS] = { 0 }, worst = 0;
        for (; k < u->end[pass]; k++) {
            const uint8_t now = ++depth[bank[k]];
            if (now > worst) worst = now;
        }
        total += worst;
    }
    *wavefronts = total;
    return true;
}
