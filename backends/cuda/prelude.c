/* prelude.c: the functions that emitted CUDA C calls: every hardware instruction one named function, and the
 * scalar semantics of the language (division by zero, shifts, saturating conversions). A kernel gets only
 * those it uses, with those they use, in the order of this table. tests/emu gives the same names bodies for
 * the host.
 *
 * $t is the C type of one element and $d the dtype's name in entries with a dtype list. Sources: PTX ISA 9.0
 * sections 9.7.x. */
#include "backends/gpu/prelude/prelude.h"
#include "backends/gpu/prelude/prelude_float.h"
#include "passes/kernel/kernel.h"

#define INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define FN "static __device__ __forceinline__ "
#define MATH ""

/* Atomics on shared memory: PTX ISA, red, atom, ld.volatile. */
#define SHARED_RED_AS(op, type, ptx, c_type, letter) \
    { "shared_" op "_" type, NULL, "", \
        FN "void shared_" op "_" type "(u32 a, " c_type " x) { asm volatile(\"red.shared." op "." ptx \
           " [%0], %1;\" :: \"r\"(a), \"" letter "\"(x) : \"memory\"); }" }
#define SHARED_RED(op, type, c_type, letter) SHARED_RED_AS(op, type, type, c_type, letter)
#define SHARED_ORDERED(op) \
    SHARED_RED_AS(op, "i32", "s32", "i32", "r"), SHARED_RED_AS(op, "u32", "u32", "u32", "r"), \
        SHARED_RED_AS(op, "i64", "s64", "i64", "l"), SHARED_RED_AS(op, "u64", "u64", "u64", "l")
#define SHARED_BITS(op) \
    SHARED_RED_AS(op, "u32", "b32", "u32", "r"), SHARED_RED_AS(op, "u64", "b64", "u64", "l")
#define SHARED_NOW(bits, letter) \
    { "shared_now_u" bits, NULL, "", \
        FN "u" bits " shared_now_u" bits "(u32 a) { u" bits " x; asm volatile(\"ld.volatile.shared.b" bits \
           " %0, [%1];\" : \"=" letter "\"(x) : \"r\"(a) : \"memory\"); return x; }" }
#define SHARED_SWAP(bits, letter) \
    { "shared_swap_u" bits, NULL, "", \
        FN "u" bits " shared_swap_u" bits "(u32 a, u" bits " was, u" bits " x) { u" bits \
           " old; asm volatile(\"atom.shared.cas.b" bits " %0, [%1], %2, %3;\" : \"=" letter \
           "\"(old) : \"r\"(a), \"" letter "\"(was), \"" letter "\"(x) : \"memory\"); return old; }" }

const PreludeEntry cuda_prelude[] = {
    /* --- threads --- */
    { "shared_address", NULL, "",
        FN "u32 shared_address(const void *p) { u32 a; asm(\"{ .reg .u64 t; cvta.to.shared.u64 t, %1; "
           "cvt.u32.u64 %0, t; }\" : \"=r\"(a) : \"l\"(p)); return a; }" },
    { "elect_lane", NULL, "",
        "/* true in one lane of the warp, always the same one */\n" FN
        "bool elect_lane(void) { u32 x; asm volatile(\"{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 "
        "%0, 1, 0, p; }\" : \"=r\"(x)); return x; }" },
    { "uniform", NULL, "",
        "/* the same value in all lanes, known as such to the compiler */\n" FN
        "int uniform(int x) { int y; asm volatile(\"shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;\" : "
        "\"=r\"(y) : \"r\"(x)); return y; }" },
    { "opaque", NULL, "", FN "i32 opaque(i32 x) { asm volatile(\"\" : \"+r\"(x)); return x; }" },
    { "bar_sync", NULL, "",
        FN "void bar_sync(int id, int threads) { asm volatile(\"barrier.cta.sync.aligned %0, %1;\" :: "
           "\"r\"(id), \"r\"(threads) : \"memory\"); }" },
    { "bar_arrive", NULL, "",
        FN "void bar_arrive(int id, int threads) { asm volatile(\"barrier.cta.arrive.aligned %0, %1;\" :: "
           "\"r\"(id), \"r\"(threads) : \"memory\"); }" },
    { "warp_sync", NULL, "",
        FN "void warp_sync(void) { asm volatile(\"bar.warp.sync 0xffffffff;\" ::: \"memory\"); }" },
    { "fence_device", NULL, "",
        FN "void fence_device(void) { asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\"); }" },
    { "shuffle_u32", NULL, "",
        FN "u32 shuffle_u32(u32 x, u32 mask) { u32 y; asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 31, "
           "0xffffffff;\" : \"=r\"(y) : \"r\"(x), \"r\"(mask)); return y; }" },
    { "shuffle_index_u32", NULL, "",
        FN "u32 shuffle_index_u32(u32 x, u32 lane) { u32 y; asm volatile(\"shfl.sync.idx.b32 %0, %1, %2, 31, "
           "0xffffffff;\" : \"=r\"(y) : \"r\"(x), \"r\"(lane)); return y; }" },
    { "warp_max_i32", NULL, "", FN "i32 warp_max_i32(i32 x) { return __reduce_max_sync(0xffffffffu, x); }" },
    { "warp_sum_i32", NULL, "", FN "i32 warp_sum_i32(i32 x) { return __reduce_add_sync(0xffffffffu, x); }" },
    { "warp_max_f32", NULL, "warp_max_i32 float_bits float_word",
        "/* the bits in the order of numbers; NaN is the canonical one, the largest */\n" FN
        "float warp_max_f32(float x) { const i32 a = (i32)float_word(x), b = warp_max_i32(a ^ (a >> 31 & "
        "0x7fffffff)); return float_bits((u32)(b ^ (b >> 31 & 0x7fffffff))); }" },
    { "warp_min_i32", NULL, "", FN "i32 warp_min_i32(i32 x) { return __reduce_min_sync(0xffffffffu, x); }" },
#include "backends/gpu/prelude/prelude_lanes.def"
/* --- order of values and positions: NaN counts as the largest, of equal values the lower position comes
 * first --- */
#include "backends/gpu/prelude/prelude_order.def"
    /* --- number formats --- */
    { "float_bits", NULL, "", FN "float float_bits(u32 b) { return __uint_as_float(b); }" },
    { "float_word", NULL, "", FN "u32 float_word(float x) { return __float_as_uint(x); }" },
    { "double_bits", NULL, "", FN "double double_bits(u64 b) { return __longlong_as_double((i64)b); }" },
    { "double_word", NULL, "", FN "u64 double_word(double x) { return (u64)__double_as_longlong(x); }" },
    { "f16_to_float", NULL, "",
        FN "float f16_to_float(u16 x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return "
           "y; }" },
    { "float_to_f16", NULL, "",
        FN "u16 float_to_f16(float x) { u16 y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); "
           "return y; }" },
    { "double_to_f16", NULL, "",
        FN "u16 double_to_f16(double x) { u16 y; asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(y) : \"d\"(x)); "
           "return y; }" },
#include "backends/gpu/prelude/prelude_values.def"
#include "backends/gpu/prelude/prelude_fp8.def"
    { "round_odd", NULL, "",
        "/* double to float, to odd: rounding the result again rounds once */\n" FN
        "float round_odd(double x) { float y = __double2float_rz(x); u32 b = __float_as_uint(y); if "
        "((double)y != x && x == x) b |= 1u; return __uint_as_float(b); }" },
    { "pack_f16", NULL, "",
        FN "u32 pack_f16(float lo, float hi) { u32 w; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(w) : "
           "\"f\"(hi), \"f\"(lo)); return w; }" },
    { "pack_bf16", NULL, "",
        FN "u32 pack_bf16(float lo, float hi) { u32 w; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(w) : "
           "\"f\"(hi), \"f\"(lo)); return w; }" },
#include "backends/cuda/prelude_pairs.def"
    { "to_tf32", NULL, "",
        FN "u32 to_tf32(u32 x) { u32 y; asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(y) : "
           "\"f\"(__uint_as_float(x))); return y; }" },
    { "f32_to_$d", "i32", "", FN "i32 f32_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }" },
    { "f32_to_$d", "u32", "", FN "u32 f32_to_u32(float x) { return x != x ? 0 : __float2uint_rz(x); }" },
    { "f32_to_$d", "i64", "", FN "i64 f32_to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }" },
    { "f32_to_$d", "u64", "", FN "u64 f32_to_u64(float x) { return x != x ? 0 : __float2ull_rz(x); }" },
#include "backends/gpu/prelude/prelude_convert.def"
    { "f64_to_i32", NULL, "", FN "i32 f64_to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }" },
    { "f64_to_u32", NULL, "", FN "u32 f64_to_u32(double x) { return x != x ? 0 : __double2uint_rz(x); }" },
    { "f64_to_i64", NULL, "", FN "i64 f64_to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }" },
    { "f64_to_u64", NULL, "", FN "u64 f64_to_u64(double x) { return x != x ? 0 : __double2ull_rz(x); }" },
/* --- integer semantics --- */
#include "backends/gpu/prelude/prelude_integers.def"
    /* --- floating functions --- */
    { "max2_f16", NULL, "",
        FN "u32 max2_f16(u32 a, u32 b) { u32 y; asm(\"max.NaN.f16x2 %0, %1, %2;\" : \"=r\"(y) : \"r\"(a), "
           "\"r\"(b)); return y; }" },
    { "max2_bf16", NULL, "",
        FN "u32 max2_bf16(u32 a, u32 b) { u32 y; asm(\"max.NaN.bf16x2 %0, %1, %2;\" : \"=r\"(y) : \"r\"(a), "
           "\"r\"(b)); return y; }" },
    { "min2_f16", NULL, "",
        FN "u32 min2_f16(u32 a, u32 b) { u32 y; asm(\"min.NaN.f16x2 %0, %1, %2;\" : \"=r\"(y) : \"r\"(a), "
           "\"r\"(b)); return y; }" },
    { "min2_bf16", NULL, "",
        FN "u32 min2_bf16(u32 a, u32 b) { u32 y; asm(\"min.NaN.bf16x2 %0, %1, %2;\" : \"=r\"(y) : \"r\"(a), "
           "\"r\"(b)); return y; }" },
    { "max_f32", NULL, "",
        FN "float max_f32(float a, float b) { float y; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : "
           "\"f\"(a), \"f\"(b)); return y; }" },
    { "min_f32", NULL, "",
        FN "float min_f32(float a, float b) { float y; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : "
           "\"f\"(a), \"f\"(b)); return y; }" },
    FLOAT_EXTREMES,
    { "mul_alone_f32", NULL, "", FN "float mul_alone_f32(float a, float b) { return __fmul_rn(a, b); }" },
    { "mul_alone_f64", NULL, "", FN "double mul_alone_f64(double a, double b) { return __dmul_rn(a, b); }" },
    FLOAT_FMA,
    { "div_f32", NULL, "", FN "float div_f32(float a, float b) { return __fdiv_rn(a, b); }" },
    { "quotient", NULL, "",
        "/* x / d, for r = rcp_newton(d) and what quotient_holds allows */\n" FN
        "float quotient(float x, float d, float r) { float q = __fmul_rn(x, r); q = fmaf(-fmaf(q, d, -x), r, "
        "q); return fmaf(-fmaf(q, d, -x), r, q); }" },
    /* 2 * bits - 1: the sign is gone, and zero is the largest */
    { "quotient_note", NULL, "float_word",
        FN "void quotient_note(float x, float *sum, u32 *least) { *sum += fabsf(x); const u32 w = 2 * "
           "float_word(x) - 1; *least = w < *least ? w : *least; }" },
    { "quotient_holds", NULL, "",
        "/* 2^-24 <= d <= 2^24, all |x| <= 2^96, and 0 or >= 2^-96 */\n" FN
        "bool quotient_holds(float d, float sum, u32 least) { return d >= 5.96046448e-8f && d <= 16777216.0f "
        "&& sum <= 7.92281625e28f && least >= 2 * (31u << 23) - 1; }" },
    { "rcp_approx", NULL, "",
        FN "float rcp_approx(float x) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); "
           "return y; }" },
    { "rcp_newton", NULL, "rcp_approx",
        "/* 1 / d but for the last bit, for d within the limits of quotient_holds */\n" FN
        "float rcp_newton(float d) { const float r = rcp_approx(d); return fmaf(fmaf(-d, r, 1.0f), r, r); "
        "}" },
    { "ex2", NULL, "",
        FN "float ex2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return "
           "y; }" },
    FLOAT_EXP,
    FLOAT_LOG,
    { "log_f32_approx", NULL, "", FN "float log_f32_approx(float x) { return __logf(x); }" },
    { "log2_f32_approx", NULL, "", FN "float log2_f32_approx(float x) { return __log2f(x); }" },
    { "sqrt_f32", NULL, "", FN "float sqrt_f32(float x) { return __fsqrt_rn(x); }" },
    { "sqrt_f32_approx", NULL, "",
        FN "float sqrt_f32_approx(float x) { float y; asm(\"sqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : "
           "\"f\"(x)); return y; }" },
    { "rsqrt_f32", NULL, "", FN "float rsqrt_f32(float x) { return rsqrtf(x); }" },
    { "rsqrt_f32_approx", NULL, "",
        FN "float rsqrt_f32_approx(float x) { float y; asm(\"rsqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : "
           "\"f\"(x)); return y; }" },
    { "sin_f32", NULL, "", FN "float sin_f32(float x) { return sinf(x); }" },
    { "cos_f32", NULL, "", FN "float cos_f32(float x) { return cosf(x); }" },
    { "sincos_f32", NULL, "", FN "void sincos_f32(float x, float *s, float *c) { sincosf(x, s, c); }" },
    { "sin_f32_approx", NULL, "", FN "float sin_f32_approx(float x) { return __sinf(x); }" },
    { "cos_f32_approx", NULL, "", FN "float cos_f32_approx(float x) { return __cosf(x); }" },
    { "tanh_f32", NULL, "", FN "float tanh_f32(float x) { return tanhf(x); }" },
    { "tanh_f32_approx", NULL, "",
        FN "float tanh_f32_approx(float x) { float y; asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(y) : "
           "\"f\"(x)); return y; }" },
    { "erf_f32", NULL, "", FN "float erf_f32(float x) { return erff(x); }" },
    { "rcp_ulp", NULL, "",
        "/* within 1 ulp, denormal results too */\n" FN
        "float rcp_ulp(float x) { float y; asm(\"rcp.approx.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; "
        "}" },
    /* e^-x would overflow where the result is not yet 0. 1 + e is between 1 and 2, so that its reciprocal
     * needs none of the tests for denormal numbers. */
    { "sigmoid_f32", NULL, "rcp_approx",
        FN
        "float sigmoid_f32(float x) { const float e = expf(-fabsf(x)), r = rcp_approx(1.0f + e); return x < "
        "0.0f ? e * r : r; }" },
    /* h * h is e^-|x|: sigmoids below 2^-126, of x below -87, are kept though ex2 has no denormal results. */
    { "sigmoid_f32_narrow", NULL, "ex2 rcp_approx",
        "/* within 2^-16, denormal results too */\n" FN
        "float sigmoid_f32_narrow(float x) { const float h = ex2(fabsf(x) * -0.72134752f); return (x < 0.0f "
        "? h * h : 1.0f) * rcp_approx(fmaf(h, h, 1.0f)); }" },
    { "div_narrow", NULL, "",
        "/* within 2 ulp */\n" FN
        "float div_narrow(float a, float b) { float y; asm(\"div.full.f32 %0, %1, %2;\" : \"=f\"(y) : "
        "\"f\"(a), \"f\"(b)); return y; }" },
    { "sigmoid_f32_approx", NULL, "ex2 rcp_approx",
        FN "float sigmoid_f32_approx(float x) { return rcp_approx(1.0f + ex2(x * -1.44269504f)); }" },
    FLOAT_ROUND_F32,
    { "exp_f64", NULL, "", FN "double exp_f64(double x) { return exp(x); }" },
    { "exp2_f64", NULL, "", FN "double exp2_f64(double x) { return exp2(x); }" },
    { "log_f64", NULL, "", FN "double log_f64(double x) { return log(x); }" },
    { "log2_f64", NULL, "", FN "double log2_f64(double x) { return log2(x); }" },
    { "sqrt_f64", NULL, "", FN "double sqrt_f64(double x) { return sqrt(x); }" },
    { "rsqrt_f64", NULL, "", FN "double rsqrt_f64(double x) { return rsqrt(x); }" },
    { "sin_f64", NULL, "", FN "double sin_f64(double x) { return sin(x); }" },
    { "cos_f64", NULL, "", FN "double cos_f64(double x) { return cos(x); }" },
    { "tanh_f64", NULL, "", FN "double tanh_f64(double x) { return tanh(x); }" },
    { "erf_f64", NULL, "", FN "double erf_f64(double x) { return erf(x); }" },
    { "sigmoid_f64", NULL, "",
        FN "double sigmoid_f64(double x) { const double e = exp(-fabs(x)); return (x < 0.0 ? e : 1.0) / (1.0 "
           "+ e); }" },
    FLOAT_ROUND_F64,
    /* The compiler would multiply 64-bit numbers, and add the high word of one, which is 0. */
    { "wide_product", NULL, "",
        FN "u64 wide_product(u32 a, u32 b) { u64 y; asm(\"mul.wide.u32 %0, %1, %2;\" : \"=l\"(y) : \"r\"(a), "
           "\"r\"(b)); return y; }" },
#include "backends/gpu/prelude/prelude_philox.def"
    /* --- global memory --- */
    { "ldg_nc_b32", NULL, "",
        FN "void ldg_nc_b32(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.b32 %0, "
           "[%1];\" : \"=r\"(w[0]) : \"l\"(p)); }" },
    { "ldg_nc_b64", NULL, "",
        FN "void ldg_nc_b64(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.v2.b32 "
           "{%0, %1}, [%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"l\"(p)); }" },
    { "ldg_nc_b128", NULL, "",
        FN
        "void ldg_nc_b128(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.v4.b32 "
        "{%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"l\"(p)); }" },
    { "ldg_b32", NULL, "",
        FN "void ldg_b32(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.b32 %0, "
           "[%1];\" : \"=r\"(w[0]) : \"l\"(p) : \"memory\"); }" },
    { "ldg_b64", NULL, "",
        FN "void ldg_b64(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.v2.b32 {%0, "
           "%1}, [%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"l\"(p) : \"memory\"); }" },
    { "ldg_b128", NULL, "",
        FN "void ldg_b128(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.v4.b32 {%0, "
           "%1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"l\"(p) : "
           "\"memory\"); }" },
    { "ldg_nc_around_b128", NULL, "ldg_nc_b128",
        "/* the aligned vectors that hold the 16 bytes at p, for funnel_b128 */\n" FN
        "void ldg_nc_around_b128(u32 *w, const void *p) { const u64 low = (u64)p & 15; const u8 *const q = "
        "(const u8 *)p - low; ldg_nc_b128(w, q); ldg_nc_b128(w + 4, low ? q + 16 : q); }" },
    { "stg_b32", NULL, "",
        FN "void stg_b32(void *p, const void *s) { const u32 *w = (const u32 *)s; asm "
           "volatile(\"st.global.b32 [%0], %1;\" :: \"l\"(p), \"r\"(w[0]) : \"memory\"); }" },
    { "stg_b64", NULL, "",
        FN "void stg_b64(void *p, const void *s) { const u32 *w = (const u32 *)s; asm "
           "volatile(\"st.global.v2.b32 [%0], {%1, %2};\" :: \"l\"(p), \"r\"(w[0]), \"r\"(w[1]) : "
           "\"memory\"); }" },
    { "stg_b128", NULL, "",
        FN "void stg_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; asm "
           "volatile(\"st.global.v4.b32 [%0], {%1, %2, %3, %4};\" :: \"l\"(p), \"r\"(w[0]), \"r\"(w[1]), "
           "\"r\"(w[2]), \"r\"(w[3]) : \"memory\"); }" },
    { "red_add_f32_b64", NULL, "",
        FN "void red_add_f32_b64(void *p, const void *s) { const float *x = (const float *)s; asm "
           "volatile(\"red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};\" :: \"l\"(p), \"f\"(x[0]), "
           "\"f\"(x[1]) : \"memory\"); }" },
    { "red_add_f32_b128", NULL, "",
        FN "void red_add_f32_b128(void *p, const void *s) { const float *x = (const float *)s; asm "
           "volatile(\"red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};\" :: \"l\"(p), "
           "\"f\"(x[0]), \"f\"(x[1]), \"f\"(x[2]), \"f\"(x[3]) : \"memory\"); }" },
#include "backends/gpu/prelude/prelude_memory.def"
#include "backends/cuda/prelude_shift.def"
#include "backends/cuda/prelude_cache.def"
    /* --- atomics: relaxed; fences around them carry acquire and release --- */
    { "compare_swap_u32", NULL, "",
        FN "u32 compare_swap_u32(u32 *p, u32 was, u32 x) { return atomicCAS(p, was, x); }" },
    { "exchange_u32", NULL, "", FN "u32 exchange_u32(u32 *p, u32 x) { return atomicExch(p, x); }" },
    { "fetch_and_u32", NULL, "", FN "u32 fetch_and_u32(u32 *p, u32 x) { return atomicAnd(p, x); }" },
    { "fetch_or_u32", NULL, "", FN "u32 fetch_or_u32(u32 *p, u32 x) { return atomicOr(p, x); }" },
    { "fetch_xor_u32", NULL, "", FN "u32 fetch_xor_u32(u32 *p, u32 x) { return atomicXor(p, x); }" },
    { "compare_swap_u64", NULL, "",
        FN "u64 compare_swap_u64(u64 *p, u64 was, u64 x) { return atomicCAS(p, was, x); }" },
    { "exchange_u64", NULL, "", FN "u64 exchange_u64(u64 *p, u64 x) { return atomicExch(p, x); }" },
    { "fetch_and_u64", NULL, "", FN "u64 fetch_and_u64(u64 *p, u64 x) { return atomicAnd(p, x); }" },
    { "fetch_or_u64", NULL, "", FN "u64 fetch_or_u64(u64 *p, u64 x) { return atomicOr(p, x); }" },
    { "fetch_xor_u64", NULL, "", FN "u64 fetch_xor_u64(u64 *p, u64 x) { return atomicXor(p, x); }" },
    { "value_now_$d", "f32 f64", "", FN "$t value_now_$d($t *p) { return *(volatile $t *)p; }" },
    { "fetch_max_$d", "i32 u32 i64 u64", "", FN "$t fetch_max_$d($t *p, $t x) { return atomicMax(p, x); }" },
    { "fetch_min_$d", "i32 u32 i64 u64", "", FN "$t fetch_min_$d($t *p, $t x) { return atomicMin(p, x); }" },
    { "fetch_add_$d", "u32 u64 f32 f64", "", FN "$t fetch_add_$d($t *p, $t x) { return atomicAdd(p, x); }" },
#include "backends/gpu/prelude/prelude_atomic.def"
    /* --- shared memory --- */
    { "lds_b8", NULL, "",
        FN "u32 lds_b8(u32 a) { u32 x; asm volatile(\"ld.shared.u8 %0, [%1];\" : \"=r\"(x) : \"r\"(a) : "
           "\"memory\"); return x; }" },
    { "lds_b16", NULL, "",
        FN "u16 lds_b16(u32 a) { u16 x; asm volatile(\"ld.shared.b16 %0, [%1];\" : \"=h\"(x) : \"r\"(a) : "
           "\"memory\"); return x; }" },
    { "lds_w32", NULL, "",
        FN "u32 lds_w32(u32 a) { u32 x; asm volatile(\"ld.shared.b32 %0, [%1];\" : \"=r\"(x) : \"r\"(a) : "
           "\"memory\"); return x; }" },
    { "first_lane_word", NULL, "uniform",
        "/* a word of shared memory as lane 0 reads it, for all lanes; a predicate and no branch, which "
        "would\n"
        " * make ptxas take warps for divided and leave its uniform registers */\n" FN
        "int first_lane_word(u32 a, int lane) { u32 x; asm volatile(\"{ .reg .pred p; setp.eq.s32 p, %2, 0; "
        "mov.b32 %0, 0; @p ld.shared.b32 %0, [%1]; }\" : \"=&r\"(x) : \"r\"(a), \"r\"(lane) : \"memory\"); "
        "return uniform((int)x); }" },
    { "lds_w64", NULL, "",
        FN "u64 lds_w64(u32 a) { u64 x; asm volatile(\"ld.shared.b64 %0, [%1];\" : \"=l\"(x) : \"r\"(a) : "
           "\"memory\"); return x; }" },
    SHARED_RED("add", "u32", "u32", "r"),
    SHARED_RED("add", "u64", "u64", "l"),
    SHARED_RED("add", "f32", "float", "f"),
    SHARED_RED("add", "f64", "double", "d"),
    SHARED_ORDERED("max"),
    SHARED_ORDERED("min"),
    SHARED_BITS("and"),
    SHARED_BITS("or"),
    SHARED_BITS("xor"),
    SHARED_NOW("32", "r"),
    SHARED_NOW("64", "l"),
    SHARED_SWAP("32", "r"),
    SHARED_SWAP("64", "l"),
    { "sts_w8", NULL, "",
        FN "void sts_w8(u32 a, u32 x) { asm volatile(\"st.shared.u8 [%0], %1;\" :: \"r\"(a), \"r\"(x) : "
           "\"memory\"); }" },
    { "sts_w16", NULL, "",
        FN "void sts_w16(u32 a, u16 x) { asm volatile(\"st.shared.b16 [%0], %1;\" :: \"r\"(a), \"h\"(x) : "
           "\"memory\"); }" },
    { "sts_w32", NULL, "",
        FN "void sts_w32(u32 a, u32 x) { asm volatile(\"st.shared.b32 [%0], %1;\" :: \"r\"(a), \"r\"(x) : "
           "\"memory\"); }" },
    { "sts_w64", NULL, "",
        FN "void sts_w64(u32 a, u64 x) { asm volatile(\"st.shared.b64 [%0], %1;\" :: \"r\"(a), \"l\"(x) : "
           "\"memory\"); }" },
    { "sts_b32", NULL, "",
        FN "void sts_b32(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.shared.b32 "
           "[%0], %1;\" :: \"r\"(a), \"r\"(w[0]) : \"memory\"); }" },
    { "sts_b64", NULL, "",
        FN
        "void sts_b64(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.shared.v2.b32 "
        "[%0], {%1, %2};\" :: \"r\"(a), \"r\"(w[0]), \"r\"(w[1]) : \"memory\"); }" },
    { "sts_b128", NULL, "",
        FN "void sts_b128(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm "
           "volatile(\"st.shared.v4.b32 [%0], {%1, %2, %3, %4};\" :: \"r\"(a), \"r\"(w[0]), \"r\"(w[1]), "
           "\"r\"(w[2]), \"r\"(w[3]) : \"memory\"); }" },
    { "lds_b32", NULL, "",
        FN "void lds_b32(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.b32 %0, [%1];\" : "
           "\"=r\"(w[0]) : \"r\"(a) : \"memory\"); }" },
    { "lds_b64", NULL, "",
        FN "void lds_b64(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.v2.b32 {%0, %1}, "
           "[%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"r\"(a) : \"memory\"); }" },
    { "lds_b128", NULL, "",
        FN
        "void lds_b128(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.v4.b32 {%0, %1, %2, "
        "%3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"r\"(a) : \"memory\"); }" },
#include "backends/gpu/prelude/prelude_shared.def"
    { "cp_async_b32", NULL, "",
        FN "void cp_async_b32(u32 a, const void *p, bool in) { asm volatile(\"cp.async.ca.shared.global "
           "[%0], [%1], 4, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 4 : 0) : \"memory\"); }" },
    { "cp_async_b64", NULL, "",
        FN "void cp_async_b64(u32 a, const void *p, bool in) { asm volatile(\"cp.async.ca.shared.global "
           "[%0], [%1], 8, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 8 : 0) : \"memory\"); }" },
    { "cp_async_b128", NULL, "",
        FN "void cp_async_b128(u32 a, const void *p, bool in) { asm volatile(\"cp.async.cg.shared.global "
           "[%0], [%1], 16, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 16 : 0) : \"memory\"); }" },
    { "cp_async_part_b128", NULL, "",
        "/* the first n bytes; zeros behind them */\n" FN
        "void cp_async_part_b128(u32 a, const void *p, i32 n) { asm volatile(\"cp.async.cg.shared.global "
        "[%0], [%1], 16, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(n) : \"memory\"); }" },
    { "copy_tail_b128", NULL, "",
        "/* the first n bytes, by themselves; zeros behind them */\n" FN
        "void copy_tail_b128(u32 a, const void *p, i32 n) { u64 lo = 0, hi = 0; for (int i = 0; i < n; i++) "
        "{ const u64 x = (u64)((const u8 *)p)[i] << (8 * (i & 7)); if (i < 8) lo |= x; else hi |= x; } asm "
        "volatile(\"st.shared.v2.b64 [%0], {%1, %2};\" :: \"r\"(a), \"l\"(lo), \"l\"(hi) : \"memory\"); }" },
    { "cp_async_commit", NULL, "",
        FN "void cp_async_commit(void) { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }" },
    { "cp_async_wait", NULL, "",
        "#define cp_async_wait(n) asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(n) : \"memory\")" },
#include "backends/cuda/prelude_mma.def"
    /* --- clusters (sm_90 and up; PTX ISA 9.7.13.4, mapa, st.async). A barrier.cluster that releases costs a
       membar.gl and an invalidated L1: these are relaxed --- */
    { "cluster_rank", NULL, "",
        FN "int cluster_rank(void) { u32 x; asm volatile(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(x)); "
           "return (int)x; }" },
    { "cluster_arrive", NULL, "",
        FN "void cluster_arrive(void) { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: "
           "\"memory\"); }" },
    { "fence_cluster", NULL, "",
        FN "void fence_cluster(void) { asm volatile(\"fence.acq_rel.cluster;\" ::: \"memory\"); }" },
    { "cluster_wait", NULL, "",
        FN "void cluster_wait(void) { asm volatile(\"barrier.cluster.wait.aligned;\" ::: \"memory\"); }" },
#define SEND(name, ptx, type, con) \
    { "send_" name, NULL, "", \
        "/* to the same place of another CTA of the cluster, counted by its mbarrier */\n" FN \
        "void send_" name "(u32 a, int cta, " type \
        " x, u32 b) { asm volatile(\"{ .reg .u32 t, m;\\nmapa.shared::cluster.u32 t, %0, " \
        "%1;\\nmapa.shared::cluster.u32 m, %3, " \
        "%1;\\nst.async.shared::cluster.mbarrier::complete_tx::bytes." ptx \
        " [t], %2, [m]; }\" :: \"r\"(a), \"r\"(cta), \"" con "\"(x), \"r\"(b) : \"memory\"); }" }
    SEND("f32", "f32", "float", "f"),
    SEND("f64", "f64", "double", "d"),
    SEND("i32", "s32", "i32", "r"),
    SEND("u32", "u32", "u32", "r"),
    SEND("i64", "s64", "i64", "l"),
    SEND("u64", "u64", "u64", "l"),
    SEND("index", "s64", "i64", "l"),
    { "send_b64", NULL, "",
        FN "void send_b64(u32 a, int cta, const void *s, u32 b) { const u32 *w = (const u32 *)s; asm "
           "volatile(\"{ .reg .u32 t, m;\\nmapa.shared::cluster.u32 t, %0, %1;\\nmapa.shared::cluster.u32 m, "
           "%4, %1;\\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [t], {%2, %3}, [m]; }\" "
           ":: \"r\"(a), \"r\"(cta), \"r\"(w[0]), \"r\"(w[1]), \"r\"(b) : \"memory\"); }" },
    { "send_b128", NULL, "",
        "/* to the same place of another CTA of the cluster, counted by its mbarrier */\n" FN
        "void send_b128(u32 a, int cta, const void *s, u32 b) { const u32 *w = (const u32 *)s; asm "
        "volatile(\"{ .reg .u32 t, m;\\nmapa.shared::cluster.u32 t, %0, %1;\\nmapa.shared::cluster.u32 m, "
        "%6, %1;\\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [t], {%2, %3, %4, %5}, [m]; "
        "}\" :: \"r\"(a), \"r\"(cta), \"r\"(w[0]), \"r\"(w[1]), \"r\"(w[2]), \"r\"(w[3]), \"r\"(b) : "
        "\"memory\"); }" },
#include "backends/cuda/prelude_hopper.def"
    { NULL, NULL, NULL, NULL },
};

const char cuda_prelude_head[] =
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long "
    "long u64;\n"
    "typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, wait; } CheckRecord;\n"
    "typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;\n";
