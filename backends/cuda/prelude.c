/* prelude.c: the functions that emitted CUDA C calls: every hardware instruction one named function, and the
 * scalar semantics of the language (division by zero, shifts, saturating conversions). A kernel gets only
 * those it uses, with those they use, in the order of this table. tests/emu gives the same names bodies for
 * the host.
 *
 * $t is the C type of one element and $d the dtype's name in entries with a dtype list. Sources: PTX ISA 9.0
 * sections 9.7.x. */
#include "backends/gpu/prelude.h"
#include "passes/kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>

#define INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define FN "static __device__ __forceinline__ "

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
#include "backends/gpu/prelude_lanes.def"
/* --- order of values and positions: NaN counts as the largest, of equal values the lower position comes
 * first --- */
#include "backends/gpu/prelude_order.def"
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
#include "backends/gpu/prelude_values.def"
#include "backends/gpu/prelude_fp8.def"
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
#include "backends/gpu/prelude_convert.def"
    { "f64_to_i32", NULL, "", FN "i32 f64_to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }" },
    { "f64_to_u32", NULL, "", FN "u32 f64_to_u32(double x) { return x != x ? 0 : __double2uint_rz(x); }" },
    { "f64_to_i64", NULL, "", FN "i64 f64_to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }" },
    { "f64_to_u64", NULL, "", FN "u64 f64_to_u64(double x) { return x != x ? 0 : __double2ull_rz(x); }" },
/* --- integer semantics --- */
#include "backends/gpu/prelude_integers.def"
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
    { "max_f64", NULL, "",
        FN "double max_f64(double a, double b) { return a != a ? a : b != b ? b : fmax(a, b); }" },
    { "min_f64", NULL, "",
        FN "double min_f64(double a, double b) { return a != a ? a : b != b ? b : fmin(a, b); }" },
    { "maxnum_f32", NULL, "", FN "float maxnum_f32(float a, float b) { return fmaxf(a, b); }" },
    { "minnum_f32", NULL, "", FN "float minnum_f32(float a, float b) { return fminf(a, b); }" },
    { "maxnum_f64", NULL, "", FN "double maxnum_f64(double a, double b) { return fmax(a, b); }" },
    { "minnum_f64", NULL, "", FN "double minnum_f64(double a, double b) { return fmin(a, b); }" },
    { "abs_f32", NULL, "", FN "float abs_f32(float x) { return fabsf(x); }" },
    { "abs_f64", NULL, "", FN "double abs_f64(double x) { return fabs(x); }" },
    { "mul_alone_f32", NULL, "", FN "float mul_alone_f32(float a, float b) { return __fmul_rn(a, b); }" },
    { "mul_alone_f64", NULL, "", FN "double mul_alone_f64(double a, double b) { return __dmul_rn(a, b); }" },
    { "fma_f32", NULL, "", FN "float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }" },
    { "fma_f64", NULL, "", FN "double fma_f64(double a, double b, double c) { return fma(a, b, c); }" },
    { "div_f32", NULL, "", FN "float div_f32(float a, float b) { return __fdiv_rn(a, b); }" },
    { "rcp_approx", NULL, "",
        FN "float rcp_approx(float x) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); "
           "return y; }" },
    { "ex2", NULL, "",
        FN "float ex2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return "
           "y; }" },
    { "exp2_f32", NULL, "ex2", FN "float exp2_f32(float x) { return ex2(x); }" },
    { "exp2_f32_approx", NULL, "ex2", FN "float exp2_f32_approx(float x) { return ex2(x); }" },
    { "exp_f32", NULL, "", FN "float exp_f32(float x) { return expf(x); }" },
    { "exp_f32_approx", NULL, "ex2", FN "float exp_f32_approx(float x) { return ex2(x * 1.44269504f); }" },
    { "log_f32", NULL, "", FN "float log_f32(float x) { return logf(x); }" },
    { "log2_f32", NULL, "", FN "float log2_f32(float x) { return log2f(x); }" },
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
    /* e^-x would overflow where the result is not yet 0 */
    { "sigmoid_f32", NULL, "rcp_ulp",
        FN "float sigmoid_f32(float x) { const float e = expf(-fabsf(x)), r = rcp_ulp(1.0f + e); return x < "
           "0.0f ? e * r : r; }" },
    { "sigmoid_f32_approx", NULL, "ex2 rcp_approx",
        FN "float sigmoid_f32_approx(float x) { return rcp_approx(1.0f + ex2(x * -1.44269504f)); }" },
    { "floor_f32", NULL, "", FN "float floor_f32(float x) { return floorf(x); }" },
    { "ceil_f32", NULL, "", FN "float ceil_f32(float x) { return ceilf(x); }" },
    { "round_f32", NULL, "", FN "float round_f32(float x) { return rintf(x); }" },
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
    { "floor_f64", NULL, "", FN "double floor_f64(double x) { return floor(x); }" },
    { "ceil_f64", NULL, "", FN "double ceil_f64(double x) { return ceil(x); }" },
    { "round_f64", NULL, "", FN "double round_f64(double x) { return rint(x); }" },
#include "backends/gpu/prelude_philox.def"
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
    { "ldg_around_b128", NULL, "ldg_b128",
        FN "void ldg_around_b128(u32 *w, const void *p) { const u64 low = (u64)p & 15; const u8 *const q = "
           "(const u8 *)p - low; ldg_b128(w, q); ldg_b128(w + 4, low ? q + 16 : q); }" },
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
#include "backends/gpu/prelude_memory.def"
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
    { "fetch_add_$d", "u32 u64 f32 f64", "", FN "$t fetch_add_$d($t *p, $t x) { return atomicAdd(p, x); }" },
#include "backends/gpu/prelude_atomic.def"
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
#include "backends/gpu/prelude_shared.def"
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
    /* --- matrix products of a warp: d += a b --- */
    { "ldmatrix_x1", NULL, "",
        FN "void ldmatrix_x1(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, "
           "[%1];\" : \"=r\"(d[0]) : \"r\"(a) : \"memory\"); }" },
    { "ldmatrix_x2", NULL, "",
        FN "void ldmatrix_x2(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, "
           "%1}, [%2];\" : \"=r\"(d[0]), \"=r\"(d[1]) : \"r\"(a) : \"memory\"); }" },
    { "ldmatrix_x4", NULL, "",
        FN "void ldmatrix_x4(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, "
           "%1, %2, %3}, [%4];\" : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(a) : "
           "\"memory\"); }" },
    { "ldmatrix_x1_trans", NULL, "",
        FN "void ldmatrix_x1_trans(u32 *d, u32 a) { asm "
           "volatile(\"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];\" : \"=r\"(d[0]) : "
           "\"r\"(a) : \"memory\"); }" },
    { "ldmatrix_x2_trans", NULL, "",
        FN "void ldmatrix_x2_trans(u32 *d, u32 a) { asm "
           "volatile(\"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\" : \"=r\"(d[0]), "
           "\"=r\"(d[1]) : \"r\"(a) : \"memory\"); }" },
    { "ldmatrix_x4_trans", NULL, "",
        FN "void ldmatrix_x4_trans(u32 *d, u32 a) { asm "
           "volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\" : "
           "\"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(a) : \"memory\"); }" },
#define MMA_F32(shape, aregs, name, types) \
    { "mma_" name, NULL, "", \
        FN "void mma_" name \
           "(float *d, const u32 *a, const u32 *b) { asm volatile(\"mma.sync.aligned." shape \
           ".row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : " \
           "\"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), " \
           "\"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }" }
#define MMA_S32(name, types) \
    { "mma_" name, NULL, "", \
        FN "void mma_" name \
           "(i32 *d, const u32 *a, const u32 *b) { asm volatile(\"mma.sync.aligned.m16n8k32.row.col." types \
           " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+r\"(d[0]), " \
           "\"+r\"(d[1]), \"+r\"(d[2]), \"+r\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), " \
           "\"r\"(b[0]), \"r\"(b[1])); }" }
    MMA_F32("m16n8k16", 4, "m16n8k16_f16", "f32.f16.f16.f32"),
    MMA_F32("m16n8k16", 4, "m16n8k16_bf16", "f32.bf16.bf16.f32"),
    MMA_F32("m16n8k8", 4, "m16n8k8_tf32_f32", "f32.tf32.tf32.f32"),
    MMA_F32("m16n8k32", 4, "m16n8k32_f8e4m3", "f32.e4m3.e4m3.f32"),
    MMA_F32("m16n8k32", 4, "m16n8k32_f8e5m2", "f32.e5m2.e5m2.f32"),
    MMA_F32("m16n8k32", 4, "m16n8k32_f8e4m3_f8e5m2", "f32.e4m3.e5m2.f32"),
    MMA_F32("m16n8k32", 4, "m16n8k32_f8e5m2_f8e4m3", "f32.e5m2.e4m3.f32"),
    MMA_S32("m16n8k32_i8", "s32.s8.s8.s32"),
    MMA_S32("m16n8k32_u8", "s32.u8.u8.s32"),
    MMA_S32("m16n8k32_i8_u8", "s32.s8.u8.s32"),
    MMA_S32("m16n8k32_u8_i8", "s32.u8.s8.s32"),
    { "mma_m8n8k4_f64_f64", NULL, "",
        FN "void mma_m8n8k4_f64_f64(double *d, const u32 *a, const u32 *b) { double x = *(const double *)a, "
           "y = *(const double *)b; asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, "
           "{%2}, {%3}, {%0, %1};\" : \"+d\"(d[0]), \"+d\"(d[1]) : \"d\"(x), \"d\"(y)); }" },
    { "mma_m16n8k16_f64_f64", NULL, "",
        FN "void mma_m16n8k16_f64_f64(double *d, const u32 *a, const u32 *b) { const double *x = (const "
           "double *)a, *y = (const double *)b; asm "
           "volatile(\"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, "
           "%8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};\" : \"+d\"(d[0]), \"+d\"(d[1]), "
           "\"+d\"(d[2]), \"+d\"(d[3]) : \"d\"(x[0]), \"d\"(x[1]), \"d\"(x[2]), \"d\"(x[3]), \"d\"(x[4]), "
           "\"d\"(x[5]), \"d\"(x[6]), \"d\"(x[7]), \"d\"(y[0]), \"d\"(y[1]), \"d\"(y[2]), \"d\"(y[3])); }" },
    /* --- clusters (sm_90 and up; PTX ISA 9.7.13.4, mapa, st.async). A barrier.cluster that releases costs a
       membar.gl and an invalidated L1: these are relaxed --- */
    { "cluster_rank", NULL, "",
        FN "int cluster_rank(void) { u32 x; asm volatile(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(x)); "
           "return (int)x; }" },
    { "cluster_arrive", NULL, "",
        FN "void cluster_arrive(void) { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: "
           "\"memory\"); }" },
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
    /* --- sm_90a: mbarriers, TMA, wgmma --- */
    { "vote_any", NULL, "", FN "bool vote_any(bool x) { return __any_sync(0xffffffffu, x); }" },
    { "mbar_init", NULL, "",
        FN "void mbar_init(u32 b, u32 n) { asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: "
           "\"r\"(b), \"r\"(n) : \"memory\"); }" },
    { "mbar_expect", NULL, "",
        FN "void mbar_expect(u32 b, u32 bytes) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, "
           "[%0], %1;\" :: \"r\"(b), \"r\"(bytes) : \"memory\"); }" },
    { "mbar_arrive", NULL, "",
        FN "void mbar_arrive(u32 b) { asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(b) "
           ": \"memory\"); }" },
    { "mbar_wait", NULL, "",
        FN "void mbar_wait(u32 b, u32 phase) { asm volatile(\"{ .reg .pred p;\\nWAIT: "
           "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra.uni DONE;\\nbra.uni WAIT;\\nDONE: "
           "}\" :: \"r\"(b), \"r\"(phase) : \"memory\"); }" },
    { "mbar_arrive_at", NULL, "",
        "/* at the mbarrier in the same place of another CTA of the cluster, or of this one */\n" FN
        "void mbar_arrive_at(u32 b, int cta) { asm volatile(\"{ .reg .u32 m;\\nmapa.shared::cluster.u32 m, "
        "%0, %1;\\nmbarrier.arrive.shared::cluster.b64 _, [m]; }\" :: \"r\"(b), \"r\"(cta) : \"memory\"); "
        "}" },
    { "mbar_wait_cluster", NULL, "",
        "/* for arrivals from other CTAs too; nothing is read that they wrote: an acquire would empty L1 "
        "*/\n" FN "void mbar_wait_cluster(u32 b, u32 phase) { asm volatile(\"{ .reg .pred p;\\nWAIT: "
        "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%0], %1;\\n@p bra.uni "
        "DONE;\\nbra.uni WAIT;\\nDONE: }\" :: \"r\"(b), \"r\"(phase) : \"memory\"); }" },
    { "ticket_next", NULL, "",
        FN "i32 ticket_next(u32 *t, u32 ctas) { return (i32)(ctas + atomicAdd(t, 1u)); }" },
    { "ticket_done", NULL, "",
        "/* the last CTA leaves the counter as it was found */\n" FN
        "void ticket_done(u32 *t, u32 ctas) { __threadfence(); if (atomicAdd(t + 1, 1u) == ctas - 1) { "
        "atomicExch(t, 0u); atomicExch(t + 1, 0u); } }" },
    /* 9.7.14.15: until all that is before this grid in its stream is done and seen; and those behind it may
     * start, once every CTA has said so or ended */
    { "grid_wait", NULL, "",
        FN "void grid_wait(void) { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); }" },
    { "grid_release", NULL, "",
        FN
        "void grid_release(void) { asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\"); }" },
    { "fence_mbarrier_init", NULL, "",
        FN "void fence_mbarrier_init(void) { asm "
           "volatile(\"fence.mbarrier_init.release.cluster;\\nfence.proxy.async.shared::cta;\" ::: "
           "\"memory\"); }" },
    { "setmaxnreg_inc", NULL, "",
        "#define setmaxnreg_inc(n) asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" :: \"n\"(n))" },
    { "setmaxnreg_dec", NULL, "",
        "#define setmaxnreg_dec(n) asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" :: \"n\"(n))" },
    { "tma_coordinate", NULL, "",
        "/* saturates: what lies outside of the tensor stays outside */\n" FN
        "i32 tma_coordinate(i64 x) { i32 y; asm(\"cvt.sat.s32.s64 %0, %1;\" : \"=r\"(y) : \"l\"(x)); return "
        "y; }" },
    { "prefetch_map", NULL, "",
        FN "void prefetch_map(const TensorMap *m) { asm volatile(\"prefetch.tensormap [%0];\" :: \"l\"(m) : "
           "\"memory\"); }" },
    { "tma_load_1d", NULL, "",
        FN "void tma_load_1d(u32 d, const TensorMap *m, u32 bar, i32 c0) { asm "
           "volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
           "[%1, {%3}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0) : \"memory\"); }" },
    { "tma_load_2d", NULL, "",
        FN
        "void tma_load_2d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1) { asm "
        "volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%3, %4}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1) : \"memory\"); }" },
    { "tma_load_3d", NULL, "",
        FN "void tma_load_3d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2) { asm "
           "volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
           "[%1, {%3, %4, %5}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), \"r\"(c2) : "
           "\"memory\"); }" },
    { "tma_load_4d", NULL, "",
        FN "void tma_load_4d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3) { asm "
           "volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
           "[%1, {%3, %4, %5, %6}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), "
           "\"r\"(c2), \"r\"(c3) : \"memory\"); }" },
    { "tma_load_5d", NULL, "",
        FN "void tma_load_5d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) { "
           "asm volatile(\"cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
           "[%1, {%3, %4, %5, %6, %7}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), "
           "\"r\"(c2), \"r\"(c3), \"r\"(c4) : \"memory\"); }" },
    /* to the same place of all CTAs of the cluster, counted by the mbarrier in the same place of each */
    { "tma_multicast_1d", NULL, "",
        FN "void tma_multicast_1d(u32 d, const TensorMap *m, u32 bar, int ctas, i32 c0) { asm "
           "volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
           ":cluster [%0], [%1, {%4}], [%2], %3;\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"h\"((u16)((1 << "
           "ctas) - 1)), \"r\"(c0) : \"memory\"); }" },
    { "tma_multicast_2d", NULL, "",
        FN "void tma_multicast_2d(u32 d, const TensorMap *m, u32 bar, int ctas, i32 c0, i32 c1) { asm "
           "volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
           ":cluster [%0], [%1, {%4, %5}], [%2], %3;\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"h\"((u16)((1 << "
           "ctas) - 1)), \"r\"(c0), \"r\"(c1) : \"memory\"); }" },
    { "tma_multicast_3d", NULL, "",
        FN
        "void tma_multicast_3d(u32 d, const TensorMap *m, u32 bar, int ctas, i32 c0, i32 c1, i32 c2) { asm "
        "volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster [%0], [%1, {%4, %5, %6}], [%2], %3;\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"h\"((u16)((1 << "
        "ctas) - 1)), \"r\"(c0), \"r\"(c1), \"r\"(c2) : \"memory\"); }" },
    { "tma_multicast_4d", NULL, "",
        FN "void tma_multicast_4d(u32 d, const TensorMap *m, u32 bar, int ctas, i32 c0, i32 c1, i32 c2, i32 "
           "c3) { asm "
           "volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
           ":cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;\" :: \"r\"(d), \"l\"(m), \"r\"(bar), "
           "\"h\"((u16)((1 << ctas) - 1)), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3) : \"memory\"); }" },
    { "tma_multicast_5d", NULL, "",
        FN "void tma_multicast_5d(u32 d, const TensorMap *m, u32 bar, int ctas, i32 c0, i32 c1, i32 c2, i32 "
           "c3, i32 c4) { asm "
           "volatile(\"cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
           ":cluster [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;\" :: \"r\"(d), \"l\"(m), \"r\"(bar), "
           "\"h\"((u16)((1 << ctas) - 1)), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3), \"r\"(c4) : "
           "\"memory\"); }" },
    { "tma_store_1d", NULL, "",
        FN "void tma_store_1d(const TensorMap *m, u32 s, i32 c0) { asm "
           "volatile(\"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];\" :: "
           "\"l\"(m), \"r\"(s), \"r\"(c0) : \"memory\"); }" },
    { "tma_store_2d", NULL, "",
        FN "void tma_store_2d(const TensorMap *m, u32 s, i32 c0, i32 c1) { asm "
           "volatile(\"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\" :: "
           "\"l\"(m), \"r\"(s), \"r\"(c0), \"r\"(c1) : \"memory\"); }" },
    { "tma_store_3d", NULL, "",
        FN "void tma_store_3d(const TensorMap *m, u32 s, i32 c0, i32 c1, i32 c2) { asm "
           "volatile(\"cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\" :: "
           "\"l\"(m), \"r\"(s), \"r\"(c0), \"r\"(c1), \"r\"(c2) : \"memory\"); }" },
    { "tma_store_4d", NULL, "",
        FN "void tma_store_4d(const TensorMap *m, u32 s, i32 c0, i32 c1, i32 c2, i32 c3) { asm "
           "volatile(\"cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];\" "
           ":: \"l\"(m), \"r\"(s), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3) : \"memory\"); }" },
    { "tma_store_5d", NULL, "",
        FN "void tma_store_5d(const TensorMap *m, u32 s, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) { asm "
           "volatile(\"cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], "
           "[%1];\" :: \"l\"(m), \"r\"(s), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3), \"r\"(c4) : "
           "\"memory\"); }" },
    { "bulk_commit", NULL, "",
        FN "void bulk_commit(void) { asm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\"); }" },
    { "bulk_wait_read", NULL, "",
        "/* the buffers of all but the n newest groups have been read */\n#define bulk_wait_read(n) asm "
        "volatile(\"cp.async.bulk.wait_group.read %0;\" :: \"n\"(n) : \"memory\")" },
    { "bulk_wait", NULL, "",
        "#define bulk_wait(n) asm volatile(\"cp.async.bulk.wait_group %0;\" :: \"n\"(n) : \"memory\")" },
    { "fence_proxy_async", NULL, "",
        FN
        "void fence_proxy_async(void) { asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); }" },
    { "stmatrix_x4", NULL, "",
        FN "void stmatrix_x4(u32 a, const u32 *s) { asm volatile(\"stmatrix.sync.aligned.m8n8.x4.shared.b16 "
           "[%0], {%1, %2, %3, %4};\" :: \"r\"(a), \"r\"(s[0]), \"r\"(s[1]), \"r\"(s[2]), \"r\"(s[3]) : "
           "\"memory\"); }" },
    { "stmatrix_x4_trans", NULL, "",
        FN "void stmatrix_x4_trans(u32 a, const u32 *s) { asm "
           "volatile(\"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\" :: \"r\"(a), "
           "\"r\"(s[0]), \"r\"(s[1]), \"r\"(s[2]), \"r\"(s[3]) : \"memory\"); }" },
    { "wgmma_fence", NULL, "",
        FN "void wgmma_fence(void) { asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }" },
    { "wgmma_commit", NULL, "",
        FN "void wgmma_commit(void) { asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\"); }" },
    { "wgmma_wait", NULL, "",
        "#define wgmma_wait(n) asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(n) : "
        "\"memory\")" },
    { "pin_float", NULL, "",
        "/* a register is read and written here, as far as the compiler knows */\n#define pin_float(x) asm "
        "volatile(\"\" : \"+f\"(x) :: \"memory\")" },
    { "pin_word", NULL, "", "#define pin_word(x) asm volatile(\"\" : \"+r\"(x) :: \"memory\")" },
    { NULL, NULL, NULL, NULL },
};

const char cuda_prelude_head[] =
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long "
    "long u64;\n"
    "typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, reserved; } CheckRecord;\n"
    "typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;\n";

/* wgmma_m64n128k16_f16_ss_tb: d (64 x n) += a b; a in registers (rs) or by descriptor (ss), _ta and _tb:
 * contiguous in M, in N; _x8: eight steps along k, one low word of each descriptor (rs: four words of a) a
 * step. PTX ISA 9.7.15.5.2; the accumulator's registers are those of the fragment. */
const char *cuda_wgmma(Session *s, const char *name)
{
    char rest[48] = "", *end;
    if (strncmp(name, "wgmma_m64n", 10)) return NULL;
    int n = (int)strtol(name + 10, &end, 10), k = *end == 'k' ? (int)strtol(end + 1, &end, 10) : 0, steps = 1;
    if (*end != '_' || !end[1] || strlen(end + 1) >= sizeof rest) return NULL;
    strcpy(rest, end + 1);
    char *times = strstr(rest, "_x");
    if (times) {
        steps = atoi(times + 2);
        *times = 0;
    }
    bool ta = strstr(rest, "_ta") != NULL, tb = strstr(rest, "_tb") != NULL,
         rs = strstr(rest, "_rs") || !strncmp(rest, "rs", 2);
    const WgmmaType *of[2] = { NULL, NULL };
    const char *p = rest, *many = times ? "const u32 *" : "u32 ";
    for (int t = 0; t < 2; t++) {
        const char *stop = strchr(p, '_');
        if (stop && (of[t] = kernel_wgmma_named(p, (size_t)(stop - p)))) p = stop + 1;
    }
    if (!of[0] || steps < 1 || steps > 64) return NULL;
    if (!of[1]) of[1] = of[0];
    if (!kernel_wgmma_has(of[0]->dtype, of[1]->dtype, n) || k * dtype_bytes(of[0]->dtype) != 32) return NULL;
    const char *ab[2] = { of[0]->ptx, of[1]->ptx };
    bool integer = dtype_is_int(of[0]->dtype), half = k == 16;
    /* operands: d, of A four words a step or one low word a step and the high one, of B likewise, acc */
    int regs = n / 2, a = regs, b = a + (rs ? 4 * steps : steps + 1), acc = b + steps + 1;
    Text o;
    text_init(&o, &s->arena);
    text_printf(&o, "static __device__ __forceinline__ void %s(%s *d, ", name, integer ? "i32" : "float");
    if (rs) text_puts(&o, "const u32 *a");
    else text_printf(&o, "%salo, u32 ahi", many);
    text_printf(&o,
        ", %sblo, u32 bhi, int acc) {\n  asm volatile(\"{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %%%d, "
        "0; ",
        many, acc);
    for (int step = 0; step < steps; step++) {
        if (step == 1) text_puts(&o, "setp.eq.b32 p, 0, 0; ");
        if (!rs) text_printf(&o, "mov.b64 a, {%%%d, %%%d}; ", a + step, a + steps);
        text_printf(&o, "mov.b64 b, {%%%d, %%%d}; wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {",
            b + step, b + steps, n, k, integer ? "s32" : "f32", ab[0], ab[1]);
        for (int i = 0; i < regs; i++) text_printf(&o, "%s%%%d", i ? "," : "", i);
        text_puts(&o, "}, ");
        if (rs)
            text_printf(&o, "{%%%d,%%%d,%%%d,%%%d}", a + 4 * step, a + 4 * step + 1, a + 4 * step + 2,
                a + 4 * step + 3);
        else text_puts(&o, "a");
        text_puts(&o, ", b, p");
        if (!integer) text_puts(&o, ", 1, 1");
        if (half) text_printf(&o, rs ? ", %d" : ", %d, %d", rs ? tb : ta, tb);
        text_puts(&o, step + 1 < steps ? "; " : "; }\"\n    : ");
    }
    for (int i = 0; i < regs; i++) text_printf(&o, "%s\"+%c\"(d[%d])", i ? ", " : "", integer ? 'r' : 'f', i);
    text_puts(&o, "\n    : ");
    for (int i = 0; rs && i < 4 * steps; i++) text_printf(&o, "\"r\"(a[%d]), ", i);
    for (int i = 0; !rs && i < steps; i++) text_printf(&o, times ? "\"r\"(alo[%d]), " : "\"r\"(alo), ", i);
    if (!rs) text_puts(&o, "\"r\"(ahi), ");
    for (int i = 0; i < steps; i++) text_printf(&o, times ? "\"r\"(blo[%d]), " : "\"r\"(blo), ", i);
    text_puts(&o, "\"r\"(bhi), \"r\"(acc)); }");
    return o.data;
}
