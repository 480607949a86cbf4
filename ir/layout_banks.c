/* Banks of shared memory: the wavefronts that an access takes. */
#include "ir/layout_priv.h"

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

/* How many of these are linearly independent over bits. */
static uint32_t rank_of(const uint32_t *v, uint32_t n, uint32_t shift, uint32_t mask)
{
    uint32_t x[32], rank = 0;
    for (uint32_t i = 0; i < n; i++) x[i] = v[i] >> shift & mask;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = x[i] & -x[i];
        rank += x[i] != 0;
        for (uint32_t j = i + 1; j < n; j++)
            if (x[j] & low) x[j] ^= x[i];
    }
    return rank;
}

uint32_t layout_wavefronts_by_bits(const uint32_t *addr, uint32_t nlanes, uint32_t width)
{
    uint32_t group = width <= 4 ? 32 : 128 / width, odd = addr[0], shift = 2, banks = BANKS;
    uint32_t bit[32], bits = (uint32_t)layout_log2(nlanes), within = 0;
    for (uint32_t k = 0; k < bits; k++) bit[k] = addr[0] ^ addr[1u << k], odd |= bit[k];
    if (width > 4) {
        if (!layout_pow2(width) || odd & (width - 1)) return 0;
        shift = (uint32_t)layout_log2(width);
        banks = BANKS * BANK_BYTES / width;
    }
    while (within < bits && 1u << within < group) within++;
    /* A group's words are an affine space, which banks divide evenly. */
    uint32_t words = rank_of(bit, within, shift, UINT32_MAX), met = rank_of(bit, within, shift, banks - 1);
    return (nlanes >> within) << (words - met);
}

bool layout_lanes_by_bits(const uint32_t *offset, uint32_t nlanes)
{
    if (!layout_pow2(nlanes)) return false;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        uint32_t rest = lane & (lane - 1);
        if (offset[lane] == UINT32_MAX) return false;
        if (rest && offset[lane] != (offset[rest] ^ offset[lane ^ rest] ^ offset[0])) return false;
    }
    return true;
}
