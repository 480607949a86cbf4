/* exponential.c: exp, exp2 and sigmoid on vectors of f32, for results of f32 and, with fewer instructions, of
 * 16 bits (math.c says where coefficients come from, docs/cpu.md how exact the functions are). AVX-512 has
 * instructions for exponents; elsewhere they are the low bits of a sum with 1.5 * 2^23 or, in eighths, with
 * 1.5 * 2^20. Without eighths, exp computes its polynomial in pairs of terms. A long chain of dependent
 * operations would fill the window of instructions that a processor keeps in flight. exp2 would need one more
 * product for this, and gains nothing from it. */
#include "backends/cpu/math/vector_math.h"
#include <math.h>

enum { BIAS = 127 }; /* of an f32's exponent */

static LLVMValueRef scalef_16(Gen *g, LLVMValueRef p, LLVMValueRef n)
{
    LLVMValueRef v[] = { p, n, LLVMConstNull(LLVMTypeOf(p)), LLVMConstInt(g->i16, 0xffff, false),
        LLVMConstInt(g->i32, 4, false) };
    return gen_intrinsic(g, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, v, 5);
}

static LLVMValueRef rcp14_16(Gen *g, LLVMValueRef x, LLVMValueRef none)
{
    LLVMValueRef v[] = { x, LLVMConstNull(LLVMTypeOf(x)), LLVMConstInt(g->i16, 0xffff, false) };
    return gen_intrinsic(g, "llvm.x86.avx512.rcp14.ps.512", NULL, 0, v, 3);
}

/* Does one instruction look up eight of eight f32? Then a table of the powers of two in steps of an eighth
 * takes the place of two or three terms of a polynomial: the multiply-adds that they took are what loops with
 * exponentials have most of. */
static bool has_eighths(Gen *g, LLVMValueRef x)
{
    return !g->target->arm && !g->target->avx512 && g->target->fma && gen_lanes(x) % 8 == 0 &&
           g->target->cost[COST_LOOK_UP] <= 10;
}

/* 2^(j / 8) for the three low bits j of each lane, as a mantissa, less what j becomes when it is shifted with
 * the exponent before it. */
static LLVMValueRef eighths_8(Gen *g, LLVMValueRef bits, LLVMValueRef none)
{
    LLVMValueRef power[8];
    for (uint32_t j = 0; j < 8; j++) {
        union {
            float f;
            uint32_t u;
        } t = { .f = (float)exp2(j / 8.0) };
        power[j] = LLVMConstInt(g->i32, t.u - ((uint32_t)BIAS << 23) - (j << 20), false);
    }
    LLVMValueRef v[] = { LLVMConstVector(power, 8), bits };
    return gen_intrinsic(g, "llvm.x86.avx2.permd", NULL, 0, v, 2);
}

/* A number that was rounded to an integer, or to eighths, by adding it to 1.5 * 2^23 (2^20) + `bias`: as f32,
 * and as the low bits of the sum. */
typedef struct Rounded {
    LLVMValueRef number, bits;
    bool eighths;
} Rounded;
/* a * b (b NULL: a), in (-2^18, 2^18), rounded. */
static Rounded rounded(Gen *g, LLVMValueRef a, LLVMValueRef b, int bias)
{
    bool eighths = has_eighths(g, a);
    LLVMValueRef magic = K(g, a, (eighths ? 0x1.8p20 : 0x1.8p23) + bias),
                 z = b ? fma_(g, a, b, magic) : add(g, a, magic);
    return (Rounded){ sub(g, z, magic), as_int(g, z), eighths };
}

/* The bits of 2^n, if the bias of n is that of an exponent; of n less than it is with twice the bias. */
static LLVMValueRef power_bits(Gen *g, Rounded n)
{
    LLVMValueRef r = LLVMBuildShl(g->b, n.bits, I(g, n.number, n.eighths ? 20 : 23), "");
    return n.eighths ? LLVMBuildAdd(g->b, gen_by(g, 8, n.bits, NULL, eighths_8), r, "") : r;
}

static LLVMValueRef power_of(Gen *g, Rounded n) { return as_float(g, power_bits(g, n)); }

/* p 2^n or (p + 1) 2^n, n in [-250, 250] with bias 2 * BIAS, also where the result is denormal or overflows.
 * The biased exponent is the sum of those of two powers, the smaller of which is half of it, rounded down,
 * and multiplies last: it is the one without a fraction. */
static LLVMValueRef scale(Gen *g, LLVMValueRef p, bool one_more, Rounded n)
{
    if (has_scalef(g, p)) return gen_by_16(g, one_more ? add(g, p, K(g, p, 1)) : p, n.number, scalef_16);
    LLVMValueRef bits = LLVMBuildShl(g->b, n.bits, I(g, p, n.eighths ? 19 : 22), ""),
                 half = LLVMBuildAnd(g->b, bits, I(g, p, 0x7f800000), "");
    LLVMValueRef rest = as_float(g, LLVMBuildSub(g->b, power_bits(g, n), half, ""));
    return mul(g, one_more ? fma_(g, p, rest, rest) : mul(g, p, rest), as_float(g, half));
}

enum { RAISED = 64 }; /* 2^(n + RAISED) is a normal number for n in [-190, 63] */

/* (p + 1) 2^n, n in [-190, 1] with bias BIAS + RAISED, also where the result is denormal: one power of two
 * and a constant. */
static LLVMValueRef scale_down(Gen *g, LLVMValueRef p, Rounded n)
{
    if (has_scalef(g, p)) return scale(g, p, true, n);
    LLVMValueRef power = power_of(g, n);
    return mul(g, fma_(g, p, power, power), K(g, p, 1 / 0x1p64));
}

/* a / b for b in [1, 2^100): on AVX-512 the reciprocal's 14 bits and one Newton step (1 ulp) instead of a
 * division. */
LLVMValueRef vector_quotient(Gen *g, LLVMValueRef a, LLVMValueRef b)
{
    if (!has_scalef(g, b)) return fdiv(g, a, b);
    LLVMValueRef r = gen_by_16(g, b, NULL, rcp14_16);
    LLVMValueRef e = fma_(g, LLVMBuildFNeg(g->b, b, ""), r, K(g, b, 1));
    return mul(g, a, fma_(g, r, e, r));
}

/* x - floor(x); 0 for infinities */
static LLVMValueRef fraction_16(Gen *g, LLVMValueRef x, LLVMValueRef none)
{
    enum { DOWN_QUIETLY = 9 };
    LLVMValueRef v[] = { x, LLVMConstInt(g->i32, DOWN_QUIETLY, false), LLVMConstNull(LLVMTypeOf(x)),
        LLVMConstInt(g->i16, 0xffff, false), LLVMConstInt(g->i32, 4, false) };
    return gen_intrinsic(g, "llvm.x86.avx512.mask.reduce.ps.512", NULL, 0, v, 5);
}

/* c[0] + c[1] x + ..., in pairs of terms; x2 = x^2 */
static LLVMValueRef poly_pairs(Gen *g, LLVMValueRef x, LLVMValueRef x2, const double *c, int n)
{
    LLVMValueRef r = NULL;
    for (int k = (n - 1) / 2 * 2; k >= 0; k -= 2) {
        LLVMValueRef pair = k + 1 < n ? fma_(g, x, K(g, x, c[k + 1]), K(g, x, c[k])) : K(g, x, c[k]);
        r = r ? fma_(g, r, x2, pair) : pair;
    }
    return r;
}

/* For |x| up to a sixteenth: 2^x within 2^-25.2 and 1 at 0; within 2^-18.1; e^x in log 2 times that range,
 * less 1 + x, over x^2, so that e^x is within 2^-25.2. */
static const double cubic_of_eighths[] = { 1.0, 0.693147180559945, 0.24025758170147325, 0.05550473764929936 },
                    square_of_eighths[] = { 1.0000001104823277, 0.69331008978422331, 0.24019827384767293 },
                    rest_of_eighths[] = { 0.50006460067441226, 0.16666858758275536 };

/* p(x - n) 2^n with n next to x, at least -160 and at most 130 */
static LLVMValueRef exp2_near(Gen *g, LLVMValueRef x, const double *p, int n_coefficients)
{
    x = at_least(g, at_most(g, x, 130), -160);
    Rounded n = rounded(g, x, NULL, 2 * BIAS);
    return scale(g, poly(g, sub(g, x, n.number), p, n_coefficients), false, n);
}

/* 2^(factor x) of factor x <= 0, and of NaN. Coefficients times 2^-RAISED make up for the power 2^(n +
 * RAISED), so that the only product that may be denormal is the last one. */
static LLVMValueRef exp2_below_0(Gen *g, LLVMValueRef x, double factor, const double *p, int n_coefficients)
{
    double lowered[8];
    for (int k = 0; k < n_coefficients; k++) lowered[k] = ldexp(p[k], -RAISED);
    LLVMValueRef by = factor == 1 ? NULL : K(g, x, factor);
    x = at_least(g, x, -160 / factor);
    Rounded n = rounded(g, x, by, BIAS + RAISED);
    LLVMValueRef f = by ? fma_(g, x, by, LLVMBuildFNeg(g->b, n.number, "")) : sub(g, x, n.number);
    return mul(g, poly(g, f, lowered, n_coefficients), power_of(g, n));
}

/* p(x - floor(x)) 2^floor(x) */
static LLVMValueRef exp2_above(Gen *g, LLVMValueRef x, const double *p, int n)
{ return gen_by_16(g, poly(g, gen_by_16(g, x, NULL, fraction_16), p, n), x, scalef_16); }

/* 2^x on [-1/2, 1/2] within 1.05 ulp, and 1 at 0 */
static const double quintic[] = { 1.0, 0.6931468292479911, 0.24022237036608352, 0.05550891438494901,
    0.009671762913109172, 0.0013225707438052209 };

/* 2^(factor x) of factor x <= 0, and of NaN, on AVX-512. The product is not rounded by itself: its error
 * would be as many ulps of the power as the product is large. The limit keeps -inf from becoming NaN. */
static LLVMValueRef exp2_by_scalef(Gen *g, LLVMValueRef x, double factor)
{
    LLVMValueRef by = K(g, x, factor);
    x = at_least(g, x, -160 / factor);
    Rounded n = rounded(g, x, by, 0);
    return scale(g, poly(g, fma_(g, x, by, LLVMBuildFNeg(g->b, n.number, "")), quintic, 6), false, n);
}

/* 2^(factor x); factor 1 if not `at_most_one`. Without fused multiply-adds the quintic would miss 2 ulp. */
static LLVMValueRef exp2_of(Gen *g, LLVMValueRef x, double factor, bool at_most_one)
{
    static const double unit[] = { 1.0, 0.693147044443, 0.240229305556, 0.0554852806046, 0.00967545159104,
        0.00124678462532, 0.000216129155396 };
    static const double exact[] = { 1.0, 0.693147206703, 0.240226509223, 0.0555032722667, 0.00961805667852,
        0.00134004281776, 0.000154614446986 };
    if (has_scalef(g, x)) return factor == 1 ? exp2_above(g, x, unit, 7) : exp2_by_scalef(g, x, factor);
    int n = has_eighths(g, x) ? 4 : g->target->fma ? 6 : 7;
    const double *p = n == 4 ? cubic_of_eighths : n == 6 ? quintic : exact;
    return at_most_one ? exp2_below_0(g, x, factor, p, n) : exp2_near(g, x, p, n);
}

LLVMValueRef vector_exp2(Gen *g, LLVMValueRef x) { return exp2_of(g, x, 1, false); }

LLVMValueRef vector_exp2_below_0(Gen *g, LLVMValueRef x, double factor)
{ return exp2_of(g, x, factor, true); }

/* 2^x on [-1/2, 1/2] with a relative error of 2^-18.5 */
static const double quartic[] = { 0.999999261446, 0.693121814737, 0.240247448279, 0.0559178603194,
    0.00957010191117 };

/* The polynomial for results of 16 bits, and its number of coefficients. */
static const double *narrow_terms(Gen *g, LLVMValueRef x, int *n)
{
    *n = has_eighths(g, x) ? 3 : 5;
    return *n == 3 ? square_of_eighths : quartic;
}

/* 2^x on [-1/16, 1/16], less 1, over x, so that 2^x is within 2^-18.1. */
static const double slope_of_eighths[] = { 0.69330887, 0.24022588 };

/* 2^(factor x) of factor x <= 0 and of NaN for results of 16 bits, where eighths are looked up. The product
 * of the power and what is left of x does not wait for the polynomial, as that of the power and the
 * polynomial would. The power is 0 for the least exponent, and less than it should be between that and the
 * next. */
static LLVMValueRef exp2_narrow_below_0(Gen *g, LLVMValueRef x, double factor)
{
    LLVMValueRef by = factor == 1 ? NULL : K(g, x, factor);
    x = at_least(g, x, -BIAS / factor);
    Rounded n = rounded(g, x, by, BIAS);
    LLVMValueRef f = by ? fma_(g, x, by, LLVMBuildFNeg(g->b, n.number, "")) : sub(g, x, n.number),
                 power = power_of(g, n);
    return fma_(g, poly(g, f, slope_of_eighths, 2), mul(g, f, power), power);
}

/* 2^x on [0, 1] with a relative error of 2^-13.7 */
static const double cubic_of_unit[] = { 0.999925218564, 0.695833540506, 0.226067155393, 0.0780245226644 };

/* 2^(factor x) for results that are rounded to 16 bits, where `below_0` says that factor x <= 0 or NaN; on
 * AVX-512 by a cubic with a relative error of 2^-13.7. Elsewhere the polynomial, times two, is multiplied by
 * one power of two, which is 0 for the least exponent: the result may be less than it should be below 2^-125.
 */
LLVMValueRef vector_exp2_narrow(Gen *g, LLVMValueRef x, double factor, bool below_0)
{
    if (has_scalef(g, x))
        return exp2_above(g, factor == 1 ? x : mul(g, x, K(g, x, factor)), cubic_of_unit, 4);
    if (below_0 && has_eighths(g, x)) return exp2_narrow_below_0(g, x, factor);
    int terms;
    const double *p = narrow_terms(g, x, &terms);
    double twice[5];
    for (int k = 0; k < terms; k++) twice[k] = 2 * p[k];
    x = at_least(g, below_0 ? x : at_most(g, x, 128.9 / factor), -126 / factor);
    Rounded n = rounded(g, x, factor == 1 ? NULL : K(g, x, factor), BIAS - 1);
    LLVMValueRef f =
        factor == 1 ? sub(g, x, n.number) : fma_(g, x, K(g, x, factor), LLVMBuildFNeg(g->b, n.number, ""));
    return mul(g, poly(g, f, twice, terms), power_of(g, n));
}

bool vector_has_row_powers(Gen *g, LLVMValueRef x, bool below_0)
{ return has_scalef(g, x) || (below_0 && has_eighths(g, x)); }

/* With w, factor times `most` rounded to an integer, and r, what is left of that product:
 *
 *     2^(factor (x - most)) = 2^(factor x - w) 2^-r
 *
 * The coefficients are those of 2^-r 2^x, so that a vector takes one multiply-add for the difference and the
 * product with `factor`. An infinite `most` makes w infinite: the powers are 0, infinite or NaN then, as
 * those of the difference are. Its r is no number, and becomes 1. Where `most` is beyond f16, so that no
 * power is anything else than 0 or infinite, r may be anything from -1 to 1. */
static RowPower row_power_by_scalef(Gen *g, LLVMValueRef most, double factor)
{
    LLVMValueRef by = K(g, most, factor), magic = K(g, most, 0x1.8p23), one = K(g, most, 1),
                 minus_one = K(g, most, -1), w = sub(g, fma_(g, most, by, magic), magic),
                 r = fma_(g, most, by, LLVMBuildFNeg(g->b, w, ""));
    r = sel(g, lt(g, r, one), r, one);
    r = sel(g, lt(g, minus_one, r), r, minus_one);
    RowPower p = { .factor = factor, .n_terms = 4, .shift = LLVMBuildFNeg(g->b, w, "") };
    LLVMValueRef power = poly(g, LLVMBuildFNeg(g->b, r, ""), quintic, 6);
    for (int k = 0; k < 4; k++) p.terms[k] = mul(g, power, K(g, most, cubic_of_unit[k]));
    return p;
}

/* The same in eighths: w is a part of the number that rounds the exponent. An infinite `most` becomes a
 * number so large that all powers but its own are 0. */
static RowPower row_power_by_eighths(Gen *g, LLVMValueRef most, double factor)
{
    const double magic = 0x1.8p20;
    RowPower p = { .factor = factor, .n_terms = 3 };
    LLVMValueRef by = K(g, most, factor), m = at_most(g, most, 2 * 65504.0);
    LLVMValueRef w = sub(g, fma_(g, m, by, K(g, m, magic)), K(g, m, magic));
    LLVMValueRef r = fma_(g, m, by, LLVMBuildFNeg(g->b, w, "")),
                 one = poly(g, LLVMBuildFNeg(g->b, r, ""), cubic_of_eighths, 4);
    p.least = add(g, m, K(g, m, -126 / factor));
    p.shift = sub(g, K(g, m, magic + BIAS - 1), w);
    for (int k = 0; k < 3; k++) p.terms[k] = mul(g, one, K(g, m, 2 * square_of_eighths[k]));
    return p;
}

RowPower vector_row_power(Gen *g, LLVMValueRef most, double factor, int lanes)
{
    if (g->target->avx512 && lanes % 16 == 0) return row_power_by_scalef(g, most, factor);
    return row_power_by_eighths(g, most, factor);
}

static LLVMValueRef poly_of_row(Gen *g, LLVMValueRef x, const RowPower *p)
{
    LLVMValueRef r = p->terms[p->n_terms - 1];
    for (int k = p->n_terms - 2; k >= 0; k--) r = fma_(g, r, x, p->terms[k]);
    return r;
}

/* All of f16 times `factor`, from 1 to 1.5, is less than 2^18, so the sum with `shift` has whole eighths, and
 * its difference to `shift` is exact. */
LLVMValueRef vector_exp2_of_row(Gen *g, LLVMValueRef x, const RowPower *p)
{
    LLVMValueRef by = K(g, x, p->factor);
    if (!p->least) {
        LLVMValueRef z = fma_(g, x, by, p->shift);
        return gen_by_16(g, poly_of_row(g, gen_by_16(g, z, NULL, fraction_16), p), z, scalef_16);
    }
    x = sel(g, lt(g, x, p->least), p->least, x);
    LLVMValueRef z = fma_(g, x, by, p->shift);
    Rounded n = { sub(g, z, p->shift), as_int(g, z), true };
    LLVMValueRef f = fma_(g, x, by, LLVMBuildFNeg(g->b, n.number, ""));
    return mul(g, poly_of_row(g, f, p), power_of(g, n));
}

static LLVMValueRef table_16(Gen *g, LLVMValueRef z, LLVMValueRef none)
{
    LLVMValueRef half[2][16];
    for (int j = 0; j < 32; j++) {
        union {
            float f;
            uint32_t u;
        } t = { .f = (float)exp2(1 + j / 32.0) };
        half[j / 16][j % 16] = LLVMConstInt(g->i32, t.u - ((uint32_t)j << 18), false);
    }
    LLVMValueRef v[] = { LLVMConstVector(half[0], 16), z, LLVMConstVector(half[1], 16) };
    return gen_intrinsic(g, "llvm.x86.avx512.vpermi2var.d.512", NULL, 0, v, 3);
}

/* The smaller of |x| and |limit| with the sign of x; a NaN is lost. */
static LLVMValueRef range_16(Gen *g, LLVMValueRef x, LLVMValueRef limit)
{
    enum { SMALLER_MAGNITUDE = 2, CURRENT = 4 };
    LLVMValueRef v[] = { x, limit, LLVMConstInt(g->i32, SMALLER_MAGNITUDE, false),
        LLVMConstNull(LLVMTypeOf(x)), LLVMConstInt(g->i16, 0xffff, false),
        LLVMConstInt(g->i32, CURRENT, false) };
    return gen_intrinsic(g, "llvm.x86.avx512.mask.range.ps.512", NULL, 0, v, 6);
}

/* 1 / (1 + e^-x) to 2^-13.4; 0 where it is no normal number. With t = -x / ln 2 and k = t rounded to 32nds:
 * e^-x = 2^k (1 + r), r = -x - k ln 2, |r| <= ln 2 / 64. Adding 1.5 * 2^18 leaves 32 k in the low bits: the
 * last five choose one of 32 powers of two (times two, less those bits again), the rest, shifted, is its
 * exponent. `scale` halves what the factor two was put in for, which makes the exponents that are no numbers
 * those of |t| > 127, and spreads the error of 1 + r (r^2 / 2, one-sided) to both sides. */
static LLVMValueRef sigmoid_table(Gen *g, LLVMValueRef x, bool nan_follows)
{
    const double ln2 = 0.69314718055994531, limit = 127.005 * ln2, magic = 0x1.8p18,
                 scale = 0.5 * (1 + ln2 * ln2 / 64 / 64 / 4);
    LLVMValueRef c =
        nan_follows ? gen_by_16(g, x, K(g, x, limit), range_16) : at_least(g, at_most(g, x, limit), -limit);
    LLVMValueRef z = fma_(g, c, K(g, x, -1 / ln2), K(g, x, magic)), k = sub(g, z, K(g, x, magic));
    LLVMValueRef r = fma_(g, k, K(g, x, -ln2 * scale), fma_(g, c, K(g, x, -scale), K(g, x, scale)));
    LLVMValueRef bits = as_int(g, z), power = LLVMBuildAdd(g->b, gen_by_16(g, bits, NULL, table_16),
                                          LLVMBuildShl(g->b, bits, I(g, x, 18), ""), "");
    return gen_by_16(g, fma_(g, as_float(g, power), r, K(g, x, 1)), NULL, rcp14_16);
}

/* The same where AVX-512 is not: 1 + e^-x is one multiply-add of the polynomial and the power of two, which
 * is 0 for the least exponent and infinite for the largest. Both limits are whole exponents, whose power in
 * eighths has no fraction. */
LLVMValueRef vector_sigmoid_narrow(Gen *g, LLVMValueRef x, bool nan_follows)
{
    if (has_scalef(g, x)) return sigmoid_table(g, x, nan_follows);
    int terms;
    const double *p = narrow_terms(g, x, &terms);
    LLVMValueRef c = at_least(g, at_most(g, x, 88.02), -88.72), scaled = K(g, x, -0x1.715476p+0);
    Rounded n = rounded(g, c, scaled, BIAS);
    LLVMValueRef f = fma_(g, c, scaled, LLVMBuildFNeg(g->b, n.number, ""));
    return fdiv(g, K(g, x, 1), fma_(g, poly(g, f, p, terms), power_of(g, n), K(g, x, 1)));
}

/* e^x of x <= 90, or if `at_most_one` of x <= 0 (and of NaN) */
static LLVMValueRef exp_below(Gen *g, LLVMValueRef x, bool at_most_one)
{
    static const double q[] = { 0.500000001369, 0.166666666819, 0.0416664626662, 0.0083333106746,
        0.001393390005, 0.000198912685101 };
    x = at_least(g, x, -110);
    Rounded n = rounded(g, x, K(g, x, 0x1.715476p+0), at_most_one ? BIAS + RAISED : 2 * BIAS);
    LLVMValueRef r =
        fma_(g, n.number, K(g, x, -0x1.62e400p-1), x); /* ln 2 in two parts; the first has few bits */
    r = fma_(g, n.number, K(g, x, -0x1.7f7d1cp-20), r);
    LLVMValueRef r2 = mul(g, r, r),
                 rest = n.eighths ? poly(g, r, rest_of_eighths, 2) : poly_pairs(g, r, r2, q, 6),
                 p = fma_(g, r2, rest, r);
    return at_most_one ? scale_down(g, p, n) : scale(g, p, true, n);
}

LLVMValueRef vector_exp(Gen *g, LLVMValueRef x) { return exp_below(g, at_most(g, x, 90), false); }

LLVMValueRef vector_exp_below_0(Gen *g, LLVMValueRef x) { return exp_below(g, x, true); }

/* 1 / (1 + e^-x), as 2^-s / (2^-s + e^-x 2^-s): so no term overflows where the result is denormal. Below
 * -104.5 it is 0, above 20 1. */
static LLVMValueRef sigmoid_lowered(Gen *g, LLVMValueRef x)
{
    static const double c[] = { 1.0, -1.0000000254677042, 0.4999999178450242, -0.1666644842331957,
        0.041668534064540935, -0.008373160233185711, 0.0013815870782562232 };
    x = at_least(g, at_most(g, x, 20), -104.5);
    LLVMValueRef lowered = K(g, x, ldexp(1, -RAISED));
    Rounded n = rounded(g, x, K(g, x, -0x1.715476p+0), BIAS - RAISED);
    LLVMValueRef r = fma_(g, n.number, K(g, x, 0x1.62e400p-1), x);
    r = fma_(g, n.number, K(g, x, 0x1.7f7d1cp-20), r); /* -r, as ln 2 in two parts; the first has few bits */
    const double of_eighths[] = { 1, -1, rest_of_eighths[0], -rest_of_eighths[1] };
    LLVMValueRef p = n.eighths ? poly(g, r, of_eighths, 4) : poly(g, r, c, 7);
    return fdiv(g, lowered, fma_(g, p, power_of(g, n), lowered));
}

LLVMValueRef vector_sigmoid(Gen *g, LLVMValueRef x)
{
    if (!has_scalef(g, x)) return sigmoid_lowered(g, x);
    LLVMValueRef e = exp_below(g, LLVMBuildFNeg(g->b, abs_(g, x), ""), true), one = K(g, x, 1);
    LLVMValueRef negative = LLVMBuildICmp(g->b, LLVMIntSLT, as_int(g, x), I(g, x, 0), "");
    return vector_quotient(g, sel(g, negative, e, one), add(g, one, e));
}
