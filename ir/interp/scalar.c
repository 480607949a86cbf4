/* scalar.c: see scalar.h. */
#include "ir/interp/scalar.h"
#include <math.h>

/* --- representation ---------------------------------------------------------------------------------- */

/* The small formats: bits of fraction, least normal exponent, largest finite value; wider ones are the host's
 * own. */
typedef struct Format {
    int fraction, min_exp;
    double max;
    bool saturates;
} Format;

static Format format_of(DType d)
{
    static const Format formats[DT_COUNT] = {
        [DT_F8E4M3] = { 3, -6, 448.0, true },
        [DT_F8E5M2] = { 2, -14, 57344.0, true },
        [DT_F16] = { 10, -14, 65504.0, false },
        [DT_BF16] = { 7, -126, 0x1.fep127, false },
    };
    return formats[d];
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
    /* In units of the last place, x is exact in double and below 2^12. Adding 1.5 * 2^52 rounds it to an
     * integer, ties to even. */
    const double magic = 0x1.8p52;
    volatile double units = scalbn(fabs(x), f.fraction - e) + magic;
    double r = scalbn(units - magic, e - f.fraction);
    if (r > f.max) r = f.saturates ? f.max : INFINITY;
    return copysign(r, x);
}

double scalar_least_normal(DType d)
{ return d == DT_F64 ? 0x1p-1022 : d == DT_F32 ? 0x1p-126 : scalbn(1, format_of(d).min_exp); }

bool scalar_exact(DType d, double x)
{
    if (isinf(x)) return d != DT_F8E4M3;
    return isnan(x) || scalar_round(d, x) == x;
}

int64_t scalar_wrap(DType d, int64_t i)
{
    if (d == DT_BOOL) return i != 0;
    if (!dtype_is_int(d) || dtype_bits(d) == 64) return i;
    uint64_t over = 64 - (uint64_t)dtype_bits(d), high = (uint64_t)i << over;
    return dtype_is_signed(d) ? (int64_t)high >> over : (int64_t)(high >> over);
}

static uint64_t double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
static double bits_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

uint64_t scalar_bits(DType d, Scalar v)
{
    if (!dtype_is_float(d))
        return dtype_bits(d) == 64 ? (uint64_t)v.i : (uint64_t)v.i & ((1ull << dtype_bits(d)) - 1);
    uint64_t u = double_bits(v.f), sign = u >> 63;
    if (d == DT_F64) return u;
    if (d == DT_F32) {
        /* A NaN is converted bit by bit, because a conversion by the host would quiet it. */
        if (isnan(v.f))
            return sign << 31 | 0x7f800000u | ((u >> 29 & 0x7fffff) ? (u >> 29 & 0x7fffff) : 0x400000);
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
    uint64_t units = (uint64_t)scalbn(x, f.fraction - e); /* 1.fraction as an integer */
    return sign | ((uint64_t)(e - f.min_exp + 1) << f.fraction) | (units & fraction_mask);
}

Scalar scalar_of_bits(DType d, uint64_t u)
{
    if (!dtype_is_float(d))
        return scalar_int(scalar_wrap(d, d == DT_BOOL ? (int64_t)(u & 0xff) : (int64_t)u));
    if (d == DT_F64) return scalar_float(bits_double(u));
    if (d == DT_F32) {
        uint32_t w = (uint32_t)u;
        if ((w & 0x7f800000u) == 0x7f800000u && (w & 0x7fffff))
            return scalar_float(bits_double(
                (uint64_t)(w >> 31) << 63 | 0x7ff0000000000000ull | (uint64_t)(w & 0x7fffff) << 29));
        float x;
        memcpy(&x, &w, 4);
        return scalar_float(x);
    }
    Format f = format_of(d);
    int bits = dtype_bits(d);
    uint64_t fraction_mask = (1ull << f.fraction) - 1, sign = u >> (bits - 1) & 1,
             fraction = u & fraction_mask;
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

Scalar scalar_load(DType d, const void *p)
{
    uint64_t u = 0;
    uint32_t w;
    uint16_t h;
    switch (dtype_bits(d)) {
    case 8: u = *(const unsigned char *)p; break;
    case 16:
        memcpy(&h, p, 2);
        u = h;
        break;
    case 32:
        memcpy(&w, p, 4);
        u = w;
        break;
    default: memcpy(&u, p, 8);
    }
    return scalar_of_bits(d, u);
}

void scalar_store(DType d, Scalar v, void *p)
{
    uint64_t u = scalar_bits(d, v);
    uint32_t w = (uint32_t)u;
    uint16_t h = (uint16_t)u;
    switch (dtype_bits(d)) {
    case 8: *(unsigned char *)p = (unsigned char)u; break;
    case 16: memcpy(p, &h, 2); break;
    case 32: memcpy(p, &w, 4); break;
    default: memcpy(p, &u, 8);
    }
}

Scalar scalar_lowest(DType d)
{
    if (d == DT_F8E4M3) return scalar_float(-448);
    if (dtype_is_float(d)) return scalar_float(-INFINITY);
    if (!dtype_is_signed(d)) return scalar_int(0);
    return scalar_int(dtype_bits(d) == 64 ? INT64_MIN : -(1ll << (dtype_bits(d) - 1)));
}

Scalar scalar_highest(DType d)
{
    if (d == DT_F8E4M3) return scalar_float(448);
    if (dtype_is_float(d)) return scalar_float(INFINITY);
    if (d == DT_BOOL) return scalar_int(1);
    int bits = dtype_bits(d) - dtype_is_signed(d);
    return scalar_int(bits == 64 ? -1 : (int64_t)((1ull << bits) - 1));
}

/* --- conversion -------------------------------------------------------------------------------------- */

/* An integer to a float narrower than f64: through a double whose last bit says that bits were lost (round to
 * odd), so that the one rounding that counts is the last. */
static double int_to_float(DType to, DType from, int64_t i)
{
    bool neg = dtype_is_signed(from) && i < 0;
    uint64_t u = neg ? 0 - (uint64_t)i : (uint64_t)i;
    if (to == DT_F64) return neg ? -(double)u : (double)u;
    double x = u >> 53 ? (double)(u >> 11 | ((u & 0x7ff) != 0)) * 2048 : (double)u;
    return scalar_round(to, neg ? -x : x);
}

static int64_t float_to_int(DType to, double x)
{
    if (isnan(x)) return 0;
    x = trunc(x);
    int bits = dtype_bits(to) - dtype_is_signed(to);
    if (x >= scalbn(1, bits)) return scalar_highest(to).i;
    if (x <= (dtype_is_signed(to) ? -scalbn(1, bits) : 0)) return scalar_lowest(to).i;
    return to == DT_U64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

Scalar scalar_cast(DType to, DType from, Scalar v)
{
    if (to == from) return v;
    bool from_float = dtype_is_float(from);
    if (to == DT_BOOL) return scalar_int(from_float ? v.f != 0 : v.i != 0);
    if (dtype_is_float(to))
        return scalar_float(from_float ? scalar_round(to, v.f) : int_to_float(to, from, v.i));
    return scalar_int(from_float ? float_to_int(to, v.f) : scalar_wrap(to, v.i));
}

Scalar scalar_bitcast(DType to, DType from, Scalar v) { return scalar_of_bits(to, scalar_bits(from, v)); }

/* --- random ------------------------------------------------------------------------------------------ */

static void philox_block(uint64_t seed, uint64_t counter, uint32_t *word)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

uint32_t scalar_philox(uint64_t seed, uint64_t counter)
{
    uint32_t word[4];
    philox_block(seed, counter, word);
    return word[0];
}

uint32_t scalar_random_bits(uint64_t seed, uint64_t number)
{
    uint32_t word[4];
    philox_block(seed, number / 4, word);
    return word[number % 4];
}

/* --- integers ---------------------------------------------------------------------------------------- */

static int64_t int_div(bool is_signed, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (!is_signed) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_rem(bool is_signed, int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (!is_signed) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}

static int64_t shift(Op op, DType d, int64_t a, int64_t by)
{
    int bits = dtype_bits(d);
    uint64_t n = scalar_bits(d, scalar_int(by));
    bool is_signed = dtype_is_signed(d);
    if (n >= (uint64_t)bits) return op == OP_SHR && is_signed && a < 0 ? -1 : 0;
    if (op == OP_SHL) return (int64_t)((uint64_t)a << n);
    return is_signed ? (a < 0 ? ~(int64_t)(~(uint64_t)a >> n) : (int64_t)((uint64_t)a >> n))
                     : (int64_t)((uint64_t)a >> n);
}

static bool int_less(DType d, int64_t a, int64_t b)
{ return dtype_is_signed(d) ? a < b : (uint64_t)a < (uint64_t)b; }

static int64_t int_arithmetic(Op op, DType d, const Scalar *v)
{
    int64_t a = v[0].i, b = op_info[op].n_operands > 1 ? v[1].i : 0;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    bool is_signed = dtype_is_signed(d);
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_NEG: return (int64_t)(0 - ua);
    case ARITHMETIC_ABS: return is_signed && a < 0 ? (int64_t)(0 - ua) : a;
    case ARITHMETIC_ADD: return (int64_t)(ua + ub);
    case ARITHMETIC_SUB: return (int64_t)(ua - ub);
    case ARITHMETIC_MUL: return (int64_t)(ua * ub);
    case ARITHMETIC_FMA: return (int64_t)(ua * ub + (uint64_t)v[2].i);
    case ARITHMETIC_DIV: return int_div(is_signed, a, b);
    case ARITHMETIC_REM: return int_rem(is_signed, a, b);
    case ARITHMETIC_CDIV: {
        /* For other signs too, this is the quotient rounded up. */
        bool inexact = int_rem(is_signed, a, b) != 0, positive = !is_signed || (a < 0) == (b < 0);
        return (int64_t)((uint64_t)int_div(is_signed, a, b) + (inexact && positive));
    }
    case ARITHMETIC_MIN:
    case ARITHMETIC_MINNUM: return int_less(d, b, a) ? b : a;
    case ARITHMETIC_MAX:
    case ARITHMETIC_MAXNUM: return int_less(d, a, b) ? b : a;
    case ARITHMETIC_CLAMP: {
        int64_t x = int_less(d, a, b) ? b : a;
        return int_less(d, v[2].i, x) ? v[2].i : x;
    }
    }
    return 0;
}

static int64_t int_bits(Op op, DType d, const Scalar *v)
{
    switch (op_as_bits(op)) {
    case BITS_AND: return v[0].i & v[1].i;
    case BITS_OR: return v[0].i | v[1].i;
    case BITS_XOR: return v[0].i ^ v[1].i;
    case BITS_NOT: return d == DT_BOOL ? !v[0].i : ~v[0].i;
    case BITS_SHL:
    case BITS_SHR: return shift(op, d, v[0].i, v[1].i);
    }
    return 0;
}

/* --- floats ------------------------------------------------------------------------------------------ */

/* -0 is below +0; a NaN operand wins (its quiet form). */
static double lesser(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double greater(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

/* The result in double, before it is rounded: for f32, +, -, *, / and sqrt of double round to the same float
 * as float's own: 53 >= 2 * 24 + 2. Of integers alone: NaN. */
static double float_arithmetic(Op op, DType d, const Scalar *v)
{
    double a = v[0].f;
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_NEG: return -a;
    case ARITHMETIC_ABS: return fabs(a);
    case ARITHMETIC_ADD: return a + v[1].f;
    case ARITHMETIC_SUB: return a - v[1].f;
    case ARITHMETIC_MUL: return a * v[1].f;
    case ARITHMETIC_DIV: return a / v[1].f;
    case ARITHMETIC_FMA:
        return d == DT_F64 ? fma(a, v[1].f, v[2].f) : fmaf((float)a, (float)v[1].f, (float)v[2].f);
    case ARITHMETIC_MIN: return lesser(a, v[1].f);
    case ARITHMETIC_MAX: return greater(a, v[1].f);
    case ARITHMETIC_MINNUM: return isnan(a) ? v[1].f : isnan(v[1].f) ? a : lesser(a, v[1].f);
    case ARITHMETIC_MAXNUM: return isnan(a) ? v[1].f : isnan(v[1].f) ? a : greater(a, v[1].f);
    case ARITHMETIC_CLAMP: return lesser(greater(a, v[1].f), v[2].f);
    case ARITHMETIC_REM:
    case ARITHMETIC_CDIV: break;
    }
    return NAN;
}

static double float_function(Op op, double a)
{
    switch (op_as_function(op)) {
    case FUNCTION_EXP: return exp(a);
    case FUNCTION_EXP2: return exp2(a);
    case FUNCTION_LOG: return log(a);
    case FUNCTION_LOG2: return log2(a);
    case FUNCTION_SQRT: return sqrt(a);
    case FUNCTION_RSQRT: return 1 / sqrt(a);
    case FUNCTION_SIN: return sin(a);
    case FUNCTION_COS: return cos(a);
    case FUNCTION_TANH: return tanh(a);
    case FUNCTION_ERF: return erf(a);
    case FUNCTION_SIGMOID: return 1 / (1 + exp(-a));
    case FUNCTION_FLOOR: return floor(a);
    case FUNCTION_CEIL: return ceil(a);
    case FUNCTION_ROUND: return rint(a);
    }
    return NAN;
}

static bool float_op(Op op, DType d, const Scalar *v, Scalar *out)
{
    OpFamily f = op_family(op);
    if (op == OP_REM || op == OP_CDIV || (f != OPS_ARITHMETIC && f != OPS_FUNCTION)) return false;
    double x = f == OPS_ARITHMETIC ? float_arithmetic(op, d, v) : float_function(op, v[0].f);
    *out = scalar_float(d == DT_F64 || op_has(op, OPF_EXACT) ? x : scalar_round(d, (float)x));
    return true;
}

static bool compare(Op op, DType d, const Scalar *v)
{
    bool eq, lt, gt;
    if (dtype_is_float(d)) {
        eq = v[0].f == v[1].f;
        lt = v[0].f < v[1].f;
        gt = v[0].f > v[1].f;
    } else {
        eq = v[0].i == v[1].i;
        lt = int_less(d, v[0].i, v[1].i);
        gt = int_less(d, v[1].i, v[0].i);
    }
    switch (op_as_compare(op)) {
    case COMPARE_EQ: return eq;
    case COMPARE_NE: return !eq;
    case COMPARE_LT: return lt;
    case COMPARE_LE: return lt || eq;
    case COMPARE_GT: return gt;
    case COMPARE_GE: return gt || eq;
    }
    return false;
}

bool scalar_op(Op op, DType d, const Scalar *v, Scalar *out)
{
    OpFamily f = op_family(op);
    if (op == OP_WHERE) {
        *out = v[0].i ? v[1] : v[2];
        return true;
    }
    if (op == OP_PHILOX) {
        *out = scalar_int(scalar_philox((uint64_t)v[0].i, (uint64_t)v[1].i));
        return true;
    }
    if (op == OP_RANDOM_BITS) {
        *out = scalar_int(scalar_random_bits((uint64_t)v[0].i, (uint64_t)v[1].i));
        return true;
    }
    if (f == OPS_COMPARE) {
        *out = scalar_int(compare(op, d, v));
        return true;
    }
    if (dtype_is_float(d)) return float_op(op, d, v, out);
    bool shifts = op == OP_SHL || op == OP_SHR;
    if (f != OPS_BITS && f != OPS_ARITHMETIC) return false;
    if (d == DT_BOOL && (f == OPS_ARITHMETIC || shifts)) return false;
    int64_t x = f == OPS_BITS ? int_bits(op, d, v) : int_arithmetic(op, d, v);
    *out = scalar_int(f == OPS_ARITHMETIC || shifts || op == OP_NOT ? scalar_wrap(d, x) : x);
    return true;
}
