/* scalar.c: see scalar.h. */
#include "ir/scalar.h"
#include <math.h>

/* --- representation --------------------------------------------------------------------------------------------------- */

/* The small formats: bits of fraction, least normal exponent, largest finite value; wider ones are the host's own. */
typedef struct Format { int fraction, min_exp; double max; bool saturates; } Format;

static Format format_of(DType d)
{
    switch ((int)d) {
    case DT_F8E4M3: return (Format){ 3, -6, 448.0, true };
    case DT_F8E5M2: return (Format){ 2, -14, 57344.0, true };
    case DT_BF16: return (Format){ 7, -126, 0x1.fep127, false };
    default: return (Format){ 10, -14, 65504.0, false };
    }
}

double scalar_round(DType d, double x)
{
    if (d == DT_F64 || isnan(x)) return x;
    if (d == DT_F32) return (float)x;
    Format f = format_of(d);
    if (isinf(x)) return f.saturates ? copysign(f.max, x) : x;
    if (x == 0) return x;
    int e = ilogb(x);
    if (e < f.min_exp) e = f.min_exp;
    /* x in units of the last place is exact in double, and below 2^12: adding 1.5 * 2^52 rounds it to an integer, ties to even */
    const double magic = 0x1.8p52;
    volatile double units = scalbn(fabs(x), f.fraction - e) + magic;
    double r = scalbn(units - magic, e - f.fraction);
    if (r > f.max) r = f.saturates ? f.max : INFINITY;
    return copysign(r, x);
}

bool scalar_exact(DType d, double x)
{
    if (isinf(x)) return d != DT_F8E4M3;
    return isnan(x) || scalar_round(d, x) == x;
}

int64_t scalar_wrap(DType d, int64_t i)
{
    switch ((int)d) {
    case DT_BOOL: return i != 0;
    case DT_I8: return (int8_t)i;
    case DT_I16: return (int16_t)i;
    case DT_I32: return (int32_t)i;
    case DT_U8: return (uint8_t)i;
    case DT_U16: return (uint16_t)i;
    case DT_U32: return (uint32_t)i;
    default: return i;
    }
}

static uint64_t double_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static double bits_double(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

uint64_t scalar_bits(DType d, Scalar v)
{
    if (!dtype_is_float(d)) return dtype_bits(d) == 64 ? (uint64_t)v.i : (uint64_t)v.i & ((1ull << dtype_bits(d)) - 1);
    uint64_t u = double_bits(v.f), sign = u >> 63;
    if (d == DT_F64) return u;
    if (d == DT_F32) {
        /* a NaN moves bit by bit: the host's conversion would quiet it */
        if (isnan(v.f)) return sign << 31 | 0x7f800000u | ((u >> 29 & 0x7fffff) ? (u >> 29 & 0x7fffff) : 0x400000);
        float x = (float)v.f;
        uint32_t w;
        memcpy(&w, &x, 4);
        return w;
    }
    Format f = format_of(d);
    int bits = dtype_bits(d);
    sign <<= bits - 1;
    uint64_t fraction_mask = (1ull << f.fraction) - 1, exp_mask = (1ull << (bits - 1)) - 1 - fraction_mask;
    if (isnan(v.f)) {
        if (d == DT_F8E4M3) return sign | 0x7f;
        uint64_t payload = u >> (52 - f.fraction) & fraction_mask;
        return sign | exp_mask | (payload ? payload : 1ull << (f.fraction - 1));
    }
    double x = fabs(isinf(v.f) && d == DT_F8E5M2 ? v.f : scalar_round(d, v.f));
    if (isinf(x)) return sign | exp_mask;
    if (x == 0) return sign;
    int e = ilogb(x);
    if (e < f.min_exp) return sign | (uint64_t)scalbn(x, f.fraction - f.min_exp);
    uint64_t units = (uint64_t)scalbn(x, f.fraction - e);       /* 1.fraction as an integer */
    return sign | ((uint64_t)(e - f.min_exp + 1) << f.fraction) | (units & fraction_mask);
}

Scalar scalar_of_bits(DType d, uint64_t u)
{
    if (!dtype_is_float(d)) return scalar_int(scalar_wrap(d, d == DT_BOOL ? (int64_t)(u & 0xff) : (int64_t)u));
    if (d == DT_F64) return scalar_float(bits_double(u));
    if (d == DT_F32) {
        uint32_t w = (uint32_t)u;
        if ((w & 0x7f800000u) == 0x7f800000u && (w & 0x7fffff))
            return scalar_float(bits_double((uint64_t)(w >> 31) << 63 | 0x7ff0000000000000ull | (uint64_t)(w & 0x7fffff) << 29));
        float x;
        memcpy(&x, &w, 4);
        return scalar_float(x);
    }
    Format f = format_of(d);
    int bits = dtype_bits(d);
    uint64_t fraction_mask = (1ull << f.fraction) - 1, sign = u >> (bits - 1) & 1, fraction = u & fraction_mask;
    uint64_t exp_all = (1ull << (bits - 1 - f.fraction)) - 1, exp = u >> f.fraction & exp_all;
    double x;
    if (d == DT_F8E4M3 ? (u & 0x7f) == 0x7f : exp == exp_all) {
        uint64_t payload = d == DT_F8E4M3 ? 1ull << 51 : fraction << (52 - f.fraction);
        return scalar_float(bits_double(sign << 63 | 0x7ff0000000000000ull | payload));
    }
    if (exp == 0) x = scalbn((double)fraction, f.min_exp - f.fraction);
    else x = scalbn((double)(fraction | 1ull << f.fraction), (int)exp - 1 + f.min_exp - f.fraction);
    return scalar_float(sign ? -x : x);
}
