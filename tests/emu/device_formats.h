/* device_formats.h: functions of the prelude that convert between formats of numbers, and approximate ones.
 * Part of device.h. */

EMU float f16_to_float(u16 x)
{
    _Float16 h;
    memcpy(&h, &x, 2);
    return (float)h;
}
EMU u16 float_to_f16(float x)
{
    _Float16 h = (_Float16)x;
    u16 y;
    memcpy(&y, &h, 2);
    return y;
}
EMU u16 double_to_f16(double x)
{
    _Float16 h = (_Float16)x;
    u16 y;
    memcpy(&y, &h, 2);
    return y;
}
EMU u32 emu_bf16(float x)
{
    u32 b = __float_as_uint(x);
    return (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 64 : (b + 0x7fffu + (b >> 16 & 1)) >> 16;
}
EMU u32 pack_f16(float lo, float hi) { return float_to_f16(lo) | (u32)float_to_f16(hi) << 16; }
EMU u32 pack_bf16(float lo, float hi) { return (emu_bf16(lo) & 0xffff) | emu_bf16(hi) << 16; }
EMU u32 to_tf32(u32 x) { return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u; }
/* max and min take +0 for larger than -0 (PTX ISA, max): lanes that combine in different order hold the same.
 */
EMU float emu_fmaxf(float a, float b) { return a == b ? (__builtin_signbit(a) ? b : a) : fmaxf(a, b); }
EMU float emu_fminf(float a, float b) { return a == b ? (__builtin_signbit(a) ? a : b) : fminf(a, b); }
EMU double emu_fmax(double a, double b) { return a == b ? (__builtin_signbit(a) ? b : a) : fmax(a, b); }
EMU double emu_fmin(double a, double b) { return a == b ? (__builtin_signbit(a) ? a : b) : fmin(a, b); }
#define fmaxf emu_fmaxf
#define fminf emu_fminf
#define fmax emu_fmax
#define fmin emu_fmin
/* .NaN: a NaN is the canonical one, whichever operand it comes from */
EMU float max_f32(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : fmaxf(a, b); }
EMU float min_f32(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : fminf(a, b); }
/* .NaN.f16x2 and bf16x2: halves by themselves; a NaN is the canonical one */
template <class F> EMU u32 emu_halves(u32 a, u32 b, float (*get)(u16), F put, float (*f)(float, float))
{
    u32 y = 0;
    for (int k = 0; k < 32; k += 16) {
        float x = f(get((u16)(a >> k)), get((u16)(b >> k)));
        y |= (x != x ? 0x7fffu : (u32)put(x) & 0xffff) << k;
    }
    return y;
}
EMU float emu_from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
EMU u32 max2_f16(u32 a, u32 b) { return emu_halves(a, b, f16_to_float, float_to_f16, max_f32); }
EMU u32 min2_f16(u32 a, u32 b) { return emu_halves(a, b, f16_to_float, float_to_f16, min_f32); }
EMU u32 max2_bf16(u32 a, u32 b) { return emu_halves(a, b, emu_from_bf16, emu_bf16, max_f32); }
EMU u32 min2_bf16(u32 a, u32 b) { return emu_halves(a, b, emu_from_bf16, emu_bf16, min_f32); }
EMU float emu_add(float a, float b) { return a + b; }
EMU float emu_sub(float a, float b) { return a - b; }
EMU float emu_mul(float a, float b) { return a * b; }
EMU bool emu_eq(float a, float b) { return a == b; }
EMU bool emu_ne(float a, float b) { return a != b; }
EMU bool emu_lt(float a, float b) { return a < b; }
EMU bool emu_le(float a, float b) { return a <= b; }
EMU bool emu_gt(float a, float b) { return a > b; }
EMU bool emu_ge(float a, float b) { return a >= b; }
EMU u32 emu_which(u32 a, u32 b, float (*get)(u16), bool (*f)(float, float))
{
    return (f(get((u16)a), get((u16)b)) ? 0xffffu : 0) |
           (f(get((u16)(a >> 16)), get((u16)(b >> 16))) ? 0xffff0000u : 0);
}
EMU u32 add2_f16(u32 a, u32 b) { return emu_halves(a, b, f16_to_float, float_to_f16, emu_add); }
EMU u32 add2_bf16(u32 a, u32 b) { return emu_halves(a, b, emu_from_bf16, emu_bf16, emu_add); }
EMU u32 sub2_f16(u32 a, u32 b) { return emu_halves(a, b, f16_to_float, float_to_f16, emu_sub); }
EMU u32 sub2_bf16(u32 a, u32 b) { return emu_halves(a, b, emu_from_bf16, emu_bf16, emu_sub); }
EMU u32 mul2_f16(u32 a, u32 b) { return emu_halves(a, b, f16_to_float, float_to_f16, emu_mul); }
EMU u32 mul2_bf16(u32 a, u32 b) { return emu_halves(a, b, emu_from_bf16, emu_bf16, emu_mul); }
EMU u32 eq2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_eq); }
EMU u32 eq2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_eq); }
EMU u32 ne2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_ne); }
EMU u32 ne2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_ne); }
EMU u32 lt2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_lt); }
EMU u32 lt2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_lt); }
EMU u32 le2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_le); }
EMU u32 le2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_le); }
EMU u32 gt2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_gt); }
EMU u32 gt2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_gt); }
EMU u32 ge2_f16(u32 a, u32 b) { return emu_which(a, b, f16_to_float, emu_ge); }
EMU u32 ge2_bf16(u32 a, u32 b) { return emu_which(a, b, emu_from_bf16, emu_ge); }
EMU float emu_fp8(u32 b, int mantissa)
{
    int bias = mantissa == 3 ? 7 : 15, e = (int)(b >> mantissa & (mantissa == 3 ? 15 : 31)),
        m = (int)(b & ((1u << mantissa) - 1));
    float x = mantissa == 3 && (b & 127) == 127 ? __builtin_nanf("")
              : mantissa == 2 && e == 31        ? (m ? __builtin_nanf("") : __builtin_inff())
              : e ? __builtin_ldexpf((float)(m | 1 << mantissa), e - bias - mantissa)
                  : __builtin_ldexpf((float)m, 1 - bias - mantissa);
    return b & 128 ? -x : x;
}
EMU u32 emu_half_of(float x) { return x != x ? 0x7fffu : float_to_f16(x); }
EMU u32 f8e4m3_to_f16x2(u32 w, int k)
{ return emu_half_of(emu_fp8(w >> 8 * k & 255, 3)) | emu_half_of(emu_fp8(w >> 8 * (k + 1) & 255, 3)) << 16; }
EMU u32 f8e5m2_to_f16x2(u32 w, int k)
{ return emu_half_of(emu_fp8(w >> 8 * k & 255, 2)) | emu_half_of(emu_fp8(w >> 8 * (k + 1) & 255, 2)) << 16; }
/* The nearest number by trying all of them, of two equally near ones that with an even code; as cvt does. */
EMU u32 emu_to_fp8(float x, int mantissa)
{
    u32 top = mantissa == 3 ? 126 : 123, best = 0, sign = __builtin_signbit(x) ? 128 : 0;
    double a = __builtin_fabs((double)x), least = __builtin_inf();
    if (x != x) return 127;
    if (a > (double)emu_fp8(top, mantissa)) return sign | top;
    for (u32 b = 0; b <= top; b++) {
        double d = __builtin_fabs(a - (double)emu_fp8(b, mantissa));
        if (d < least || (d == least && b % 2 == 0)) best = b, least = d;
    }
    return sign | best;
}
EMU u32 f32x2_to_f8e4m3x2(float lo, float hi) { return emu_to_fp8(lo, 3) | emu_to_fp8(hi, 3) << 8; }
EMU u32 f32x2_to_f8e5m2x2(float lo, float hi) { return emu_to_fp8(lo, 2) | emu_to_fp8(hi, 2) << 8; }
/* rcp.approx is off by one ulp at most (PTX ISA, rcp): here one of the two numbers beside the reciprocal, as
 * the bits of x fall. */
EMU float rcp_ulp(float x)
{
    float y = 1 / x, a = __builtin_fabsf(y);
    double over = (double)a - 1 / __builtin_fabs((double)x);
    if (!(a >= 0x1p-125f && a <= 0x1p125f) || over == 0 || __float_as_uint(x) * 0x9e3779b9u >> 31) return y;
    return __uint_as_float(__float_as_uint(y) + (over > 0 ? -1u : 1u));
}
/* .ftz: a denormal number counts as zero, before and behind. */
EMU float rcp_approx(float x)
{
    float y = rcp_ulp(__builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x);
    return __builtin_fabsf(y) < 0x1p-126f ? __builtin_copysignf(0, y) : y;
}
EMU float ex2(float x) { return exp2f(x); }
EMU float div_narrow(float a, float b) { return a / b; }
EMU float sqrt_f32_approx(float x) { return sqrtf(x); }
EMU float rsqrt_f32_approx(float x) { return 1 / sqrtf(x); }
EMU float tanh_f32_approx(float x) { return tanhf(x); }
