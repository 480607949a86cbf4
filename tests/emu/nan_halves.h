/* nan_halves.h: whether two words hold the same value where a NaN is like every other.
 *
 * A GPU makes one NaN of whatever it computes with NaNs. The host keeps an operand's sign and payload, so
 * that lanes that compute one element in different orders have NaNs of different bits. Bytes come to shared
 * memory without their type: words count as equal where both are a NaN of f32 or f64, or where each pair of
 * halves is equal or both are NaNs of f16 or bf16. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool same_half(uint16_t x, uint16_t y)
{ return x == y || ((x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00); }

static inline bool same_word(uint32_t x, uint32_t y)
{
    bool nan = (x & 0x7fffffff) > 0x7f800000 && (y & 0x7fffffff) > 0x7f800000;
    return nan ||
           (same_half((uint16_t)x, (uint16_t)y) && same_half((uint16_t)(x >> 16), (uint16_t)(y >> 16)));
}

static inline bool same_but_for_nan(const void *a, const void *b, uint32_t bytes)
{
    uint32_t x[4], y[4];
    double p, q;
    if (!memcmp(a, b, bytes)) return true;
    if (bytes != 2 && (bytes % 4 || bytes > sizeof x)) return false;
    x[0] = y[0] = 0;
    memcpy(x, a, bytes);
    memcpy(y, b, bytes);
    if (bytes == 8) {
        memcpy(&p, a, 8);
        memcpy(&q, b, 8);
        if (isnan(p) && isnan(q)) return true;
    }
    bool same = true;
    for (uint32_t k = 0; k < (bytes + 3) / 4; k++) same &= same_word(x[k], y[k]);
    return same;
}
