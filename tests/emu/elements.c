/* elements.c: operands of emulated matrix units, as floats. */
#include "tests/emu/core.h"
#include <math.h>
#include <string.h>

int emu_element_bytes(EmuType t) { return t <= EMU_BF16 ? 2 : t == EMU_TF32 ? 4 : 1; }

static float element8(uint32_t x, int man)
{
    int bias = man == 3 ? 7 : 15, e = (int)(x & 127) >> man, m = (int)x & ((1 << man) - 1);
    float y = man == 3 && (x & 127) == 127 ? NAN
              : man == 2 && e == 31        ? (m ? NAN : INFINITY)
              : e                          ? ldexpf((float)(m | 1 << man), e - bias - man)
                                           : ldexpf((float)m, 1 - bias - man);
    return x & 128 ? -y : y;
}

/* By arithmetic: a table of 65536 floats would not stay in a cache. */
static float element_f16(uint32_t x)
{
    uint32_t word = (x & 0x7fff) << 13;
    float y;
    memcpy(&y, &word, 4);
    y *= 0x1p112f; /* the exponent from one bias to the other, exactly; numbers below the normal ones too */
    memcpy(&word, &y, 4);
    if ((x & 0x7c00) == 0x7c00) word = x & 1023 ? 0x7fc00000 : 0x7f800000;
    word |= (x & 0x8000) << 16;
    memcpy(&y, &word, 4);
    return y;
}

static float element_16(uint32_t w, EmuType t)
{
    float y;
    if (t == EMU_F16) return element_f16(w);
    w <<= 16;
    memcpy(&y, &w, 4);
    return y;
}

static void decode_16(const uint8_t *p, int n, EmuType t, float *out, int step)
{
    for (int k = 0; k < n; k++) {
        uint16_t w;
        memcpy(&w, p + 2 * k, 2);
        out[k * step] = element_16(w, t);
    }
}

static void decode_tf32(const uint8_t *p, int n, float *out, int step)
{
    for (int k = 0; k < n; k++) {
        uint32_t w;
        memcpy(&w, p + 4 * k, 4);
        w &= 0xffffe000u;
        memcpy(&out[k * step], &w, 4);
    }
}

static void decode_8(const uint8_t *p, int n, EmuType t, float *out, int step)
{
    static float table[2][256];
    if (table[0][127] == 0)
        for (uint32_t x = 0; x < 512; x++) table[x / 256][x % 256] = element8(x % 256, x < 256 ? 3 : 2);
    for (int k = 0; k < n; k++)
        out[k * step] = t == EMU_E4M3   ? table[0][p[k]]
                        : t == EMU_E5M2 ? table[1][p[k]]
                        : t == EMU_S8   ? (float)(int8_t)p[k]
                                        : (float)p[k];
}

void emu_decode(const uint8_t *p, int n, EmuType t, float *out, int step)
{
    if (emu_element_bytes(t) == 2) decode_16(p, n, t, out, step);
    else if (t == EMU_TF32) decode_tf32(p, n, out, step);
    else decode_8(p, n, t, out, step);
}
