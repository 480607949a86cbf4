/* The semantics of scalar operations: conversions by neighbours and midpoints of every format, arithmetic by
 * values worked out by hand or by C's own types. */
#include "ir/interp/scalar.h"
#include "ir_test.h"
#include <math.h>

static Scalar I(int64_t i) { return scalar_int(i); }
static Scalar F(double f)
{
    return scalar_float(f);
}

static Scalar op3(Op op, DType d, Scalar a, Scalar b, Scalar c)
{
    Scalar v[3] = { a, b, c }, out = { .i = 0x5555 };
    CU_ASSERT_TRUE(scalar_op(op, d, v, &out));
    return out;
}
static int64_t int2(Op op, DType d, int64_t a, int64_t b) { return op3(op, d, I(a), I(b), I(0)).i; }
static double float2(Op op, DType d, double a, double b) { return op3(op, d, F(a), F(b), F(0)).f; }

#define SAME(got, want) \
    do { \
        double g_ = (got), w_ = (want); \
        if (isnan(w_) ? !isnan(g_) : g_ != w_ || signbit(g_) != signbit(w_)) { \
            fprintf(stderr, "%s:%d: %a, not %a\n", __FILE__, __LINE__, g_, w_); \
            CU_FAIL("value"); \
        } else CU_PASS("value"); \
    } while (0)

/* Sign, exponent and fraction fields read as IEEE 754 and the OCP fp8 specification say. */
static double decode(DType d, unsigned u, int exp_bits, int fraction_bits)
{
    int bias = (1 << (exp_bits - 1)) - 1, e = (int)(u >> fraction_bits) & ((1 << exp_bits) - 1);
    double f = (double)(u & ((1u << fraction_bits) - 1)) / (double)(1u << fraction_bits),
           sign = u >> (exp_bits + fraction_bits) & 1 ? -1 : 1;
    if (d == DT_F8E4M3 && (u & 0x7f) == 0x7f) return NAN;
    if (d != DT_F8E4M3 && e == (1 << exp_bits) - 1) return f == 0 ? sign * INFINITY : NAN;
    return sign * (e == 0 ? ldexp(f, 1 - bias) : ldexp(1 + f, e - bias));
}

static void check_format(DType d, int exp_bits, int fraction_bits, double overflow_to)
{
    unsigned bits = 1u + (unsigned)(exp_bits + fraction_bits), n = 1u << bits, bad = 0;
    for (unsigned u = 0; u < n; u++) {
        double want = decode(d, u, exp_bits, fraction_bits), got = scalar_of_bits(d, u).f;
        if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want)) bad++;
        if (scalar_bits(d, scalar_of_bits(d, u)) != u) bad++;
    }
    CU_ASSERT_EQUAL(bad, 0);
    /* between neighbours: below the midpoint down, above it up, on it to the even one */
    for (unsigned u = 0; u + 1 < n / 2; u++) {
        double a = decode(d, u, exp_bits, fraction_bits), b = decode(d, u + 1, exp_bits, fraction_bits);
        if (isnan(b) || isinf(b)) break;
        double mid = a + (b - a) / 2, even = u & 1 ? b : a;
        bad += scalar_round(d, mid) != even || scalar_round(d, nextafter(mid, 0)) != a ||
               scalar_round(d, nextafter(mid, INFINITY)) != b;
        bad += scalar_round(d, -mid) != -even || scalar_round(d, a) != a;
    }
    CU_ASSERT_EQUAL(bad, 0);
    SAME(scalar_round(d, 1e300), overflow_to);
    SAME(scalar_round(d, -INFINITY), -overflow_to);
    SAME(scalar_round(d, -1e-300), -0.0);
    SAME(scalar_round(d, NAN), NAN);
}

static void test_formats(void)
{
    check_format(DT_F16, 5, 10, INFINITY);
    check_format(DT_BF16, 8, 7, INFINITY);
    check_format(DT_F8E4M3, 4, 3, 448);
    check_format(DT_F8E5M2, 5, 2, 57344);
    /* the last values before overflow, from the formats' definitions */
    SAME(scalar_round(DT_F16, 65519.9), 65504);
    SAME(scalar_round(DT_F16, 65520), INFINITY);
    SAME(scalar_round(DT_BF16, 0x1.fep127), 0x1.fep127);
    SAME(scalar_round(DT_BF16, 0x1.ffp127), INFINITY);
    SAME(scalar_round(DT_F8E4M3, 463), 448);
    SAME(scalar_round(DT_F8E5M2, 1e5), 57344);
    SAME(scalar_round(DT_F32, 0x1.fffffefp127), 0x1.fffffep127);
    SAME(scalar_round(DT_F32, 0x1.ffffffp127), INFINITY);
    CU_ASSERT_TRUE(scalar_exact(DT_F8E5M2, INFINITY) && !scalar_exact(DT_F8E4M3, INFINITY) &&
                   !scalar_exact(DT_F16, 0.1));
    CU_ASSERT_EQUAL(scalar_bits(DT_F8E5M2, F(-INFINITY)), 0xfc);
}

static void test_bits(void)
{
    CU_ASSERT_EQUAL(scalar_bits(DT_F32, F(1.0)), 0x3f800000);
    CU_ASSERT_EQUAL(scalar_bits(DT_F16, F(-2.0)), 0xc000);
    CU_ASSERT_EQUAL(
        scalar_bits(DT_F32, scalar_of_bits(DT_F32, 0xff812345)), 0xff812345); /* a signalling NaN passes */
    CU_ASSERT_EQUAL(scalar_bits(DT_F64, scalar_of_bits(DT_F64, 0x7ff4000000000001)), 0x7ff4000000000001);
    CU_ASSERT_EQUAL(scalar_bits(DT_I8, I(-1)), 0xff);
    CU_ASSERT_EQUAL(scalar_of_bits(DT_I16, 0x18000).i, -32768);
    CU_ASSERT_EQUAL(scalar_of_bits(DT_BOOL, 2).i, 1);
    CU_ASSERT_EQUAL(scalar_bitcast(DT_I32, DT_F32, F(-0.0)).i, INT32_MIN);
    SAME(scalar_bitcast(DT_F16, DT_U16, I(0x3c01)).f, 1 + 0x1p-10);
    unsigned char m[9] = { 0 };
    scalar_store(DT_F32, F(1.5), m + 1);
    SAME(scalar_load(DT_F32, m + 1).f, 1.5);
    scalar_store(DT_U16, I(0xabcd), m + 3);
    CU_ASSERT_EQUAL(scalar_load(DT_U16, m + 3).i, 0xabcd);
    scalar_store(DT_INDEX, I(-7), m + 1);
    CU_ASSERT_EQUAL(scalar_load(DT_I64, m + 1).i, -7);
}

static void test_casts(void)
{
    CU_ASSERT_EQUAL(scalar_cast(DT_U8, DT_I32, I(-1)).i, 255);
    CU_ASSERT_EQUAL(scalar_cast(DT_I8, DT_I32, I(200)).i, -56);
    CU_ASSERT_EQUAL(scalar_cast(DT_I64, DT_U32, I(4000000000)).i, 4000000000);
    CU_ASSERT_EQUAL(scalar_cast(DT_I32, DT_F32, F(2147483648.0)).i, INT32_MAX);
    CU_ASSERT_EQUAL(scalar_cast(DT_I32, DT_F32, F(-3e9)).i, INT32_MIN);
    CU_ASSERT_EQUAL(scalar_cast(DT_I32, DT_F32, F(NAN)).i, 0);
    CU_ASSERT_EQUAL(scalar_cast(DT_I32, DT_F32, F(-2.9)).i, -2);
    CU_ASSERT_EQUAL(scalar_cast(DT_U8, DT_F32, F(-0.9)).i, 0);
    CU_ASSERT_EQUAL(scalar_cast(DT_U8, DT_F32, F(255.9)).i, 255);
    CU_ASSERT_EQUAL(scalar_cast(DT_U8, DT_F32, F(256)).i, 255);
    CU_ASSERT_EQUAL(scalar_cast(DT_I64, DT_F64, F(0x1p63)).i, INT64_MAX);
    CU_ASSERT_EQUAL(scalar_cast(DT_I64, DT_F64, F(-0x1p63)).i, INT64_MIN);
    CU_ASSERT_EQUAL((uint64_t)scalar_cast(DT_U64, DT_F64, F(0x1.8p63)).i, 0xc000000000000000u);
    CU_ASSERT_EQUAL((uint64_t)scalar_cast(DT_U64, DT_F64, F(1e30)).i, UINT64_MAX);
    CU_ASSERT_EQUAL(scalar_cast(DT_INDEX, DT_F32, F(-INFINITY)).i, INT64_MIN);
    CU_ASSERT_EQUAL(scalar_cast(DT_BOOL, DT_F32, F(NAN)).i, 1);
    CU_ASSERT_EQUAL(scalar_cast(DT_BOOL, DT_F32, F(-0.0)).i, 0);
    CU_ASSERT_EQUAL(scalar_cast(DT_BOOL, DT_I32, I(256)).i, 1);
    SAME(scalar_cast(DT_F32, DT_BOOL, I(1)).f, 1);
    SAME(scalar_cast(DT_F16, DT_I32, I(65519)).f, 65504);
    SAME(scalar_cast(DT_F16, DT_I32, I(65520)).f, INFINITY);
    SAME(scalar_cast(DT_F8E4M3, DT_I64, I(1000)).f, 448);
    SAME(scalar_cast(DT_F64, DT_U64, I(-1)).f, 0x1p64);
    /* 2^60 + 2^36 + 1 is just above the midpoint of two floats. A single rounding goes up; through double it
     * would be a tie and go down to even. */
    SAME(scalar_cast(DT_F32, DT_I64, I((1ll << 60) + (1ll << 36) + 1)).f, 0x1.000002p60);
    SAME(scalar_cast(DT_F32, DT_I64, I((1ll << 60) + (1ll << 36))).f, 0x1p60);
    SAME(scalar_cast(DT_BF16, DT_I64, I(-((1ll << 60) + (1ll << 52) + 1))).f, -0x1.02p60);
    /* From double to f16 in one step: 1 + 2^-11 + 2^-40 is above the midpoint. Through float it would be a
     * tie. */
    SAME(scalar_cast(DT_F16, DT_F64, F(1 + 0x1p-11 + 0x1p-40)).f, 1 + 0x1p-10);
    SAME(scalar_cast(DT_F8E5M2, DT_F32, F(INFINITY)).f, 57344);
    SAME(scalar_cast(DT_F8E5M2, DT_F8E5M2, F(INFINITY)).f, INFINITY);
    SAME(scalar_cast(DT_F8E4M3, DT_F32, F(NAN)).f, NAN);
}

static void test_integers(void)
{
    CU_ASSERT_EQUAL(int2(OP_ADD, DT_I32, INT32_MAX, 1), INT32_MIN);
    CU_ASSERT_EQUAL(int2(OP_ADD, DT_INDEX, INT64_MAX, 1), INT64_MIN);
    CU_ASSERT_EQUAL(int2(OP_SUB, DT_U8, 3, 5), 254);
    CU_ASSERT_EQUAL(int2(OP_MUL, DT_U32, 0xffffffff, 0xffffffff), 1);
    CU_ASSERT_EQUAL(int2(OP_MUL, DT_I16, 300, 300), 24464);
    CU_ASSERT_EQUAL(int2(OP_DIV, DT_I32, -7, 2), -3);
    CU_ASSERT_EQUAL(int2(OP_REM, DT_I32, -7, 2), -1);
    CU_ASSERT_EQUAL(int2(OP_DIV, DT_I32, 7, 0), 0);
    CU_ASSERT_EQUAL(int2(OP_REM, DT_U64, -1, 0), 0);
    CU_ASSERT_EQUAL(int2(OP_DIV, DT_I64, INT64_MIN, -1), INT64_MIN);
    CU_ASSERT_EQUAL(int2(OP_DIV, DT_I8, -128, -1), -128);
    CU_ASSERT_EQUAL(int2(OP_REM, DT_I64, INT64_MIN, -1), 0);
    CU_ASSERT_EQUAL(int2(OP_DIV, DT_U64, -1, 2), INT64_MAX);
    CU_ASSERT_EQUAL(int2(OP_CDIV, DT_INDEX, 9, 4), 3);
    CU_ASSERT_EQUAL(int2(OP_CDIV, DT_INDEX, 8, 4), 2);
    CU_ASSERT_EQUAL(int2(OP_CDIV, DT_INDEX, 0, 4), 0);
    CU_ASSERT_EQUAL(int2(OP_CDIV, DT_INDEX, 5, 0), 0);
    CU_ASSERT_EQUAL(int2(OP_CDIV, DT_U64, -1, 2), INT64_MIN);
    CU_ASSERT_EQUAL(int2(OP_MIN, DT_U64, -1, 5), 5);
    CU_ASSERT_EQUAL(int2(OP_MIN, DT_I64, -1, 5), -1);
    CU_ASSERT_EQUAL(int2(OP_MAX, DT_U8, 200, 100), 200);
    CU_ASSERT_EQUAL(op3(OP_CLAMP, DT_I32, I(7), I(0), I(5)).i, 5);
    CU_ASSERT_EQUAL(op3(OP_CLAMP, DT_I32, I(7), I(9), I(5)).i, 5);
    CU_ASSERT_EQUAL(op3(OP_FMA, DT_I8, I(100), I(2), I(60)).i, 4);
    CU_ASSERT_EQUAL(int2(OP_NEG, DT_I8, -128, 0), -128);
    CU_ASSERT_EQUAL(int2(OP_ABS, DT_I32, INT32_MIN, 0), INT32_MIN);
    CU_ASSERT_EQUAL(int2(OP_NEG, DT_U8, 1, 0), 255);
    CU_ASSERT_EQUAL(int2(OP_SHL, DT_I32, 1, 31), INT32_MIN);
    CU_ASSERT_EQUAL(int2(OP_SHL, DT_I32, 1, 32), 0);
    CU_ASSERT_EQUAL(int2(OP_SHL, DT_I32, 1, -1), 0);
    CU_ASSERT_EQUAL(int2(OP_SHL, DT_U64, 1, 63), INT64_MIN);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_I32, -8, 1), -4);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_I32, -8, 32), -1);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_I32, 8, 400), 0);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_I64, -8, -1), -1);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_U32, 0xffffffff, 31), 1);
    CU_ASSERT_EQUAL(int2(OP_SHR, DT_U64, -1, 63), 1);
    CU_ASSERT_EQUAL(int2(OP_NOT, DT_U8, 0x0f, 0), 0xf0);
    CU_ASSERT_EQUAL(int2(OP_NOT, DT_BOOL, 1, 0), 0);
    CU_ASSERT_EQUAL(int2(OP_XOR, DT_I8, -1, 15), -16);
    CU_ASSERT_EQUAL(int2(OP_LT, DT_U64, 1, -1), 1);
    CU_ASSERT_EQUAL(int2(OP_LT, DT_I64, 1, -1), 0);
    CU_ASSERT_EQUAL(int2(OP_GE, DT_I64, 3, 3), 1);
    Scalar v[2] = { I(1), I(1) }, out;
    CU_ASSERT_FALSE(scalar_op(OP_ADD, DT_BOOL, v, &out));
    CU_ASSERT_FALSE(scalar_op(OP_EXP, DT_I32, v, &out));
    CU_ASSERT_FALSE(scalar_op(OP_LOAD, DT_F32, v, &out));
}

/* scalar_whole says what scalar_op says, or nothing. */
static void test_whole(void)
{
    static const int64_t values[] = { 0, 1, -1, 2, -7, 7, 1000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
    static const DType types[] = { DT_I32, DT_I64, DT_INDEX, DT_I8, DT_U32, DT_F32 };
    enum { VALUES = sizeof values / sizeof *values, TYPES = sizeof types / sizeof *types };
    int bad = 0, said = 0;
    for (int k = 0; k < TYPES * VALUES * VALUES; k++)
        for (Op op = 0; op < OP_COUNT; op++) {
            DType d = types[k % TYPES];
            int64_t a = scalar_wrap(DT_I32, values[k / TYPES % VALUES]), b = values[k / TYPES / VALUES];
            if (d != DT_I32) a = values[k / TYPES % VALUES];
            else b = scalar_wrap(DT_I32, b);
            Scalar v[3] = { I(a), I(b), I(0) }, got = I(0x5555), want = I(0);
            bool whole = scalar_whole(op, d, a, b, &got);
            said += whole;
            bad += whole ? !scalar_op(op, d, v, &want) || got.i != want.i : got.i != 0x5555;
            bad += whole && d != DT_I32 && d != DT_I64 && d != DT_INDEX;
        }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_TRUE(said > 5 * 3 * VALUES * VALUES);
}

static void test_floats(void)
{
    SAME(float2(OP_ADD, DT_F32, 16777216, 1), 16777216);
    SAME(float2(OP_ADD, DT_F64, 16777216, 1), 16777217);
    SAME(float2(OP_ADD, DT_F16, 2048, 1), 2048);
    SAME(float2(OP_ADD, DT_F16, 2048, 3), 2052);
    SAME(float2(OP_MUL, DT_F16, 256, 256), INFINITY);
    SAME(float2(OP_MUL, DT_F8E4M3, 448, 448), 448);
    SAME(float2(OP_DIV, DT_F32, 1, 3), 1.0f / 3.0f);
    SAME(float2(OP_DIV, DT_F32, -1, 0), -INFINITY);
    SAME(float2(OP_DIV, DT_F32, 0, 0), NAN);
    SAME(float2(OP_MIN, DT_F32, NAN, 1), NAN);
    SAME(float2(OP_MAX, DT_F32, 1, NAN), NAN);
    SAME(float2(OP_MINNUM, DT_F32, NAN, 1), 1);
    SAME(float2(OP_MAXNUM, DT_F32, 1, NAN), 1);
    SAME(float2(OP_MAXNUM, DT_F32, NAN, NAN), NAN);
    SAME(float2(OP_MAX, DT_F32, -0.0, 0.0), 0.0);
    SAME(float2(OP_MIN, DT_F32, 0.0, -0.0), -0.0);
    SAME(float2(OP_MAX, DT_F8E5M2, -INFINITY, INFINITY), INFINITY);
    SAME(op3(OP_CLAMP, DT_F32, F(NAN), F(0), F(1)).f, NAN);
    SAME(op3(OP_CLAMP, DT_F32, F(-3), F(0), F(1)).f, 0);
    /* (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24, exact when fused; without, 2^-11 */
    SAME(op3(OP_FMA, DT_F32, F(1 + 0x1p-12), F(1 + 0x1p-12), F(-1)).f, 0x1p-11 + 0x1p-24);
    SAME(float2(OP_NEG, DT_F16, 0.0, 0), -0.0);
    SAME(float2(OP_ABS, DT_F16, -0.0, 0), 0.0);
    SAME(float2(OP_SQRT, DT_F32, 2, 0), 0x1.6a09e6p0);
    SAME(float2(OP_SQRT, DT_F32, -1, 0), NAN);
    SAME(float2(OP_SQRT, DT_F32, -0.0, 0), -0.0);
    SAME(float2(OP_RSQRT, DT_F32, 0.0, 0), INFINITY);
    SAME(float2(OP_RSQRT, DT_F32, 4, 0), 0.5);
    SAME(float2(OP_EXP, DT_F32, 1, 0), 0x1.5bf0a8p1);
    SAME(float2(OP_EXP2, DT_F16, 3, 0), 8);
    SAME(float2(OP_EXP2, DT_F16, 16, 0), INFINITY);
    SAME(float2(OP_LOG, DT_F32, 0, 0), -INFINITY);
    SAME(float2(OP_LOG2, DT_F32, 8, 0), 3);
    SAME(float2(OP_SIGMOID, DT_F32, 0, 0), 0.5);
    SAME(float2(OP_SIGMOID, DT_F32, -1000, 0), 0);
    SAME(float2(OP_TANH, DT_F32, INFINITY, 0), 1);
    SAME(float2(OP_ERF, DT_F32, 1, 0), 0x1.af767ap-1);
    SAME(float2(OP_SIN, DT_F32, 0, 0), 0);
    SAME(float2(OP_COS, DT_F32, 0, 0), 1);
    SAME(float2(OP_FLOOR, DT_F32, -0.5, 0), -1);
    SAME(float2(OP_CEIL, DT_F32, -0.5, 0), -0.0);
    SAME(float2(OP_ROUND, DT_F32, 2.5, 0), 2);
    SAME(float2(OP_ROUND, DT_F32, 3.5, 0), 4);
    SAME(float2(OP_ROUND, DT_F32, -0.5, 0), -0.0);
    CU_ASSERT_EQUAL(op3(OP_EQ, DT_F32, F(NAN), F(NAN), F(0)).i, 0);
    CU_ASSERT_EQUAL(op3(OP_NE, DT_F32, F(NAN), F(NAN), F(0)).i, 1);
    CU_ASSERT_EQUAL(op3(OP_LE, DT_F32, F(NAN), F(1), F(0)).i, 0);
    CU_ASSERT_EQUAL(op3(OP_EQ, DT_F32, F(0.0), F(-0.0), F(0)).i, 1);
    SAME(op3(OP_WHERE, DT_F32, I(1), F(2), F(3)).f, 2);
    SAME(op3(OP_WHERE, DT_F32, I(0), F(2), F(3)).f, 3);
}

/* f32 through double against the host's float, on a spread of values: the claim that double rounding is
 * harmless. */
static void test_f32_arithmetic(void)
{
    uint64_t state = 88172645463325252ull;
    int bad = 0;
    for (int k = 0; k < 200000; k++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint32_t ua = (uint32_t)state, ub = (uint32_t)(state >> 32);
        if (k & 1) ub = (ub & 0x807fffff) | (ua & 0x7f800000); /* equal exponents: cancellation and carries */
        float a, b;
        memcpy(&a, &ua, 4);
        memcpy(&b, &ub, 4);
        if (isnan(a) || isnan(b)) continue;
        volatile float want[4] = { a + b, a - b, a * b, a / b };
        const Op ops[4] = { OP_ADD, OP_SUB, OP_MUL, OP_DIV };
        for (int o = 0; o < 4; o++) {
            double got = float2(ops[o], DT_F32, a, b);
            bad += isnan(want[o]) ? !isnan(got) : got != want[o];
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
}

/* The first is a known answer of Random123 (zeros); the second comes from a separate program that gives
 * Random123's answers for zeros and for ones. */
static void test_philox(void)
{
    CU_ASSERT_EQUAL(scalar_philox(0, 0), 0x6627e8d5);
    CU_ASSERT_EQUAL(scalar_philox(0x123456789abcdef0, 0x0123456789abcdef), 0x227242c0);
    CU_ASSERT_EQUAL(int2(OP_PHILOX, DT_U64, 0, 0), 0x6627e8d5);
    static const uint32_t zeros[] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
    for (int k = 0; k < 4; k++) CU_ASSERT_EQUAL(scalar_random_bits(0, (uint64_t)k), zeros[k]);
    CU_ASSERT_EQUAL(scalar_random_bits(0x123456789abcdef0, 0x048d159e26af37bc), 0x227242c0);
    CU_ASSERT_EQUAL(int2(OP_RANDOM_BITS, DT_U64, 0, 2), 0xbc57ac4c);
}

static void test_extremes(void)
{
    /* Every float dtype has its format. */
    for (DType d = 0; d < DT_COUNT; d++) {
        int e;
        if (!dtype_is_float(d)) continue;
        double least = scalar_least_normal(d);
        SAME(scalar_round(d, 1), 1);
        SAME(scalar_of_bits(d, scalar_bits(d, F(1))).f, 1);
        SAME(scalar_of_bits(d, scalar_bits(d, F(least))).f, least);
        CU_ASSERT_TRUE(least < 1 && frexp(least, &e) == 0.5);
    }
    CU_ASSERT_EQUAL(scalar_lowest(DT_I8).i, -128);
    CU_ASSERT_EQUAL(scalar_highest(DT_I8).i, 127);
    CU_ASSERT_EQUAL(scalar_highest(DT_U32).i, 4294967295);
    CU_ASSERT_EQUAL(scalar_highest(DT_U64).i, -1);
    CU_ASSERT_EQUAL(scalar_highest(DT_INDEX).i, INT64_MAX);
    CU_ASSERT_EQUAL(scalar_lowest(DT_INDEX).i, INT64_MIN);
    SAME(scalar_lowest(DT_F8E4M3).f, -448);
    SAME(scalar_highest(DT_F16).f, INFINITY);
    CU_ASSERT_EQUAL(scalar_wrap(DT_I16, 0x12348765), -30875);
}

UNIT_MAIN("ir_scalar", { "formats", test_formats }, { "bits", test_bits }, { "casts", test_casts },
    { "integers", test_integers }, { "whole", test_whole }, { "floats", test_floats },
    { "f32_arithmetic", test_f32_arithmetic }, { "philox", test_philox }, { "extremes", test_extremes })
