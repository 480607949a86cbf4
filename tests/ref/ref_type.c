/* ref_type.c: number formats by their parameters. */
#include "ref_type.h"
#include <math.h>
#include <string.h>

typedef struct Format {
    const char *name;
    int size;       /* bytes */
    int mantissa;   /* explicit bits; 0 for integers */
    int emin, emax; /* exponents of the smallest and the largest normal number */
    double max;     /* largest finite value (or integer) */
    double min;     /* smallest integer */
} Format;

static const Format formats[REF_TYPES] = {
    [REF_BOOL] = { "bool", 1, 0, 0, 0, 1, 0 },
    [REF_I8] = { "i8", 1, 0, 0, 0, 127, -128 },
    [REF_I16] = { "i16", 2, 0, 0, 0, 32767, -32768 },
    [REF_I32] = { "i32", 4, 0, 0, 0, 2147483647.0, -2147483648.0 },
    [REF_I64] = { "i64", 8, 0, 0, 0, 9223372036854775808.0, -9223372036854775808.0 },
    [REF_U8] = { "u8", 1, 0, 0, 0, 255, 0 },
    [REF_U16] = { "u16", 2, 0, 0, 0, 65535, 0 },
    [REF_U32] = { "u32", 4, 0, 0, 0, 4294967295.0, 0 },
    [REF_U64] = { "u64", 8, 0, 0, 0, 18446744073709551616.0, 0 },
    [REF_F8E4M3] = { "f8e4m3", 1, 3, -6, 8, 448,
        0 }, /* OCP E4M3: no infinity, the all-ones mantissa is NaN */
    [REF_F8E5M2] = { "f8e5m2", 1, 2, -14, 15, 57344, 0 },
    [REF_F16] = { "f16", 2, 10, -14, 15, 65504, 0 },
    [REF_BF16] = { "bf16", 2, 7, -126, 127, 3.38953138925153547590e38, 0 },
    [REF_F32] = { "f32", 4, 23, -126, 127, 3.40282346638528859812e38, 0 },
    [REF_F64] = { "f64", 8, 52, -1022, 1023, 1.79769313486231570815e308, 0 },
};

const char *ref_type_name(RefType t) { return formats[t].name; }
size_t ref_type_size(RefType t) { return (size_t)formats[t].size; }
bool ref_type_is_float(RefType t) { return formats[t].mantissa > 0; }

bool ref_type_parse(const char *name, size_t n, RefType *out)
{
    for (int t = 0; t < REF_TYPES; t++)
        if (strlen(formats[t].name) == n && memcmp(formats[t].name, name, n) == 0)
            return *out = (RefType)t, true;
    return false;
}

double ref_ulp(RefType t, double value)
{
    const Format *f = &formats[t];
    if (!f->mantissa) return 1;
    int e = f->emin;
    if (value != 0 && isfinite(value)) {
        (void)frexp(value, &e);
        e -= 1; /* value = 1.xxx * 2^e */
        if (e < f->emin) e = f->emin;
        if (e > f->emax) e = f->emax;
    }
    return ldexp(1, e - f->mantissa);
}

double ref_epsilon(RefType t) { return formats[t].mantissa ? ldexp(1, -formats[t].mantissa) : 1; }

static double round_integer(const Format *f, double v)
{
    if (isnan(v)) return 0;
    v = trunc(v);
    return v < f->min ? f->min : v > f->max ? f->max : v;
}

double ref_round(RefType t, double v)
{
    const Format *f = &formats[t];
    if (t == REF_BOOL) return v != 0;
    if (!f->mantissa) return round_integer(f, v);
    if (t == REF_F64 || isnan(v) || v == 0) return v;
    if (isinf(v)) return f->size == 1 ? copysign(f->max, v) : v;
    double unit = ref_ulp(t, v);
    /* The division is exact (a power of two), nearbyint rounds to nearest even. Beyond emax `unit` is emax's:
     * v/unit may then be large, but stays an exact double or is far above the limit anyway. */
    double r = nearbyint(v / unit) * unit;
    if (fabs(r) > f->max) return f->size == 1 ? copysign(f->max, v) : copysign(INFINITY, v);
    return r;
}

static uint64_t encode_float(const Format *f, RefType t, double v)
{
    int exponent_bits = f->size * 8 - 1 - f->mantissa;
    uint64_t sign = (uint64_t)(signbit(v) != 0) << (f->size * 8 - 1);
    uint64_t ones = ((uint64_t)1 << exponent_bits) - 1;
    if (isnan(v)) return t == REF_F8E4M3 ? 0x7f : ones << f->mantissa | (uint64_t)1 << (f->mantissa - 1);
    if (isinf(v)) return sign | ones << f->mantissa;
    v = fabs(v);
    if (v == 0) return sign;
    int e;
    (void)frexp(v, &e);
    e -= 1;
    if (e < f->emin) return sign | (uint64_t)ldexp(v, f->mantissa - f->emin); /* subnormal */
    uint64_t m = (uint64_t)ldexp(v, f->mantissa - e) - ((uint64_t)1 << f->mantissa);
    return sign | (uint64_t)(e - f->emin + 1) << f->mantissa | m;
}

static double decode_float(const Format *f, RefType t, uint64_t bits)
{
    int exponent_bits = f->size * 8 - 1 - f->mantissa;
    uint64_t ones = ((uint64_t)1 << exponent_bits) - 1, m = bits & (((uint64_t)1 << f->mantissa) - 1);
    uint64_t e = bits >> f->mantissa & ones;
    double sign = bits >> (f->size * 8 - 1) & 1 ? -1 : 1;
    if (t == REF_F8E4M3) {
        if (e == ones && m == 7) return NAN;
    } else if (e == ones) {
        return m ? NAN : sign * INFINITY;
    }
    if (e == 0) return sign * ldexp((double)m, f->emin - f->mantissa);
    return sign * ldexp((double)(m | (uint64_t)1 << f->mantissa), (int)e - 1 + f->emin - f->mantissa);
}

double ref_get(RefType t, const void *array, int64_t i)
{
    const Format *f = &formats[t];
    const unsigned char *p = (const unsigned char *)array + i * f->size;
    uint64_t bits = 0;
    memcpy(&bits, p, (size_t)f->size); /* little endian, as every host this runs on */
    if (t == REF_F64) {
        double d;
        memcpy(&d, p, 8);
        return d;
    }
    if (f->mantissa) return decode_float(f, t, bits);
    if (f->min < 0) {
        int shift = 64 - 8 * f->size;
        return (double)((int64_t)(bits << shift) >> shift);
    }
    return (double)bits;
}

void ref_put(RefType t, void *array, int64_t i, double v)
{
    const Format *f = &formats[t];
    unsigned char *p = (unsigned char *)array + i * f->size;
    v = ref_round(t, v);
    uint64_t bits;
    if (t == REF_F64) memcpy(&bits, &v, 8);
    else if (f->mantissa) bits = encode_float(f, t, v);
    else if (v >= 9223372036854775808.0)
        bits = t == REF_I64 ? (uint64_t)INT64_MAX : v >= f->max ? UINT64_MAX : (uint64_t)v;
    else bits = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
    memcpy(p, &bits, (size_t)f->size);
}
