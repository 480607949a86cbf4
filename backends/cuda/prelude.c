/* prelude.c: the functions that emitted CUDA C calls: every hardware instruction one named function, and the scalar
 * semantics of the language (division by zero, shifts, saturating conversions). A kernel gets only those it uses, with those
 * they use, in the order of this table. tests/emu gives the same names bodies for the host.
 *
 * $t is the C type of one element and $d the dtype's name in entries with a dtype list. Sources: PTX ISA 9.0 sections 9.7.x. */
#include "backends/gpu/prelude.h"
#include <stdio.h>

#define INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define FN "static __device__ __forceinline__ "

const PreludeEntry cuda_prelude[] = {
/* --- threads --- */
{ "shared_address", NULL, "", FN "u32 shared_address(const void *p) { u32 a; asm(\"{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }\" : \"=r\"(a) : \"l\"(p)); return a; }" },
{ "uniform", NULL, "", "/* the same value in all lanes, known as such to the compiler */\n" FN "int uniform(int x) { int y; asm volatile(\"shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;\" : \"=r\"(y) : \"r\"(x)); return y; }" },
{ "opaque", NULL, "", FN "i32 opaque(i32 x) { asm volatile(\"\" : \"+r\"(x)); return x; }" },
{ "bar_sync", NULL, "", FN "void bar_sync(int id, int threads) { asm volatile(\"barrier.cta.sync.aligned %0, %1;\" :: \"r\"(id), \"r\"(threads) : \"memory\"); }" },
{ "bar_arrive", NULL, "", FN "void bar_arrive(int id, int threads) { asm volatile(\"barrier.cta.arrive.aligned %0, %1;\" :: \"r\"(id), \"r\"(threads) : \"memory\"); }" },
{ "warp_sync", NULL, "", FN "void warp_sync(void) { asm volatile(\"bar.warp.sync 0xffffffff;\" ::: \"memory\"); }" },
{ "fence_device", NULL, "", FN "void fence_device(void) { asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\"); }" },
{ "shuffle_u32", NULL, "", FN "u32 shuffle_u32(u32 x, u32 mask) { u32 y; asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;\" : \"=r\"(y) : \"r\"(x), \"r\"(mask)); return y; }" },
{ "shuffle_index_u32", NULL, "", FN "u32 shuffle_index_u32(u32 x, u32 lane) { u32 y; asm volatile(\"shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;\" : \"=r\"(y) : \"r\"(x), \"r\"(lane)); return y; }" },
{ "shuffle_xor_f32", NULL, "shuffle_u32", FN "float shuffle_xor_f32(float x, u32 m) { return __uint_as_float(shuffle_u32(__float_as_uint(x), m)); }" },
{ "shuffle_xor_f64", NULL, "shuffle_u32", FN "double shuffle_xor_f64(double x, u32 m) { u64 b = (u64)__double_as_longlong(x); return __longlong_as_double((i64)((u64)shuffle_u32((u32)(b >> 32), m) << 32 | shuffle_u32((u32)b, m))); }" },
{ "shuffle_xor_$d", "i8 i16 i32 u8 u16 u32 bool", "shuffle_u32", FN "$t shuffle_xor_$d($t x, u32 m) { return ($t)shuffle_u32((u32)x, m); }" },
{ "shuffle_xor_$d", "f16 bf16 f8e4m3 f8e5m2", "shuffle_xor_f32", FN "$t shuffle_xor_$d($t x, u32 m) { return shuffle_xor_f32(x, m); }" },
{ "shuffle_xor_$d", "i64 u64 index", "shuffle_u32", FN "$t shuffle_xor_$d($t x, u32 m) { return ($t)((u64)shuffle_u32((u32)((u64)x >> 32), m) << 32 | shuffle_u32((u32)x, m)); }" },
{ "shuffle_from_$d", "i8 i16 i32 u8 u16 u32 bool", "shuffle_index_u32", FN "$t shuffle_from_$d($t x, u32 lane) { return ($t)shuffle_index_u32((u32)x, lane); }" },
{ "shuffle_from_f32", NULL, "shuffle_index_u32", FN "float shuffle_from_f32(float x, u32 lane) { return __uint_as_float(shuffle_index_u32(__float_as_uint(x), lane)); }" },
{ "shuffle_from_$d", "f16 bf16 f8e4m3 f8e5m2", "shuffle_from_f32", FN "$t shuffle_from_$d($t x, u32 lane) { return shuffle_from_f32(x, lane); }" },
{ "shuffle_from_$d", "i64 u64 index", "shuffle_index_u32", FN "$t shuffle_from_$d($t x, u32 lane) { return ($t)((u64)shuffle_index_u32((u32)((u64)x >> 32), lane) << 32 | shuffle_index_u32((u32)x, lane)); }" },
{ "shuffle_from_f64", NULL, "shuffle_from_i64", FN "double shuffle_from_f64(double x, u32 lane) { return __longlong_as_double(shuffle_from_i64(__double_as_longlong(x), lane)); }" },
/* --- order of values and positions: NaN counts as the largest, of equal values the lower position comes first --- */
{ "NOWHERE", NULL, "", "#define NOWHERE 0x7fffffff" },
{ "above_$d", INTS " bool index f32 f64", "NOWHERE", FN "bool above_$d($t a, i32 i, $t b, i32 j) { if (i == NOWHERE) return false; if (j == NOWHERE) return true; const bool p = a != a, q = b != b; return p | q ? p && (!q || i < j) : a > b || (a == b && i < j); }" },
{ "below_$d", INTS " bool index f32 f64", "NOWHERE", FN "bool below_$d($t a, i32 i, $t b, i32 j) { if (i == NOWHERE) return false; if (j == NOWHERE) return true; const bool p = a != a, q = b != b; return p | q ? p && (!q || i < j) : a < b || (a == b && i < j); }" },
{ "after_$d", INTS " bool index f32 f64", "", FN "bool after_$d($t a, $t b) { return a > b || (a != a && b == b); }" },
/* --- number formats --- */
{ "float_bits", NULL, "", FN "float float_bits(u32 b) { return __uint_as_float(b); }" },
{ "f16_to_float", NULL, "", FN "float f16_to_float(u16 x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }" },
{ "float_to_f16", NULL, "", FN "u16 float_to_f16(float x) { u16 y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y; }" },
{ "double_to_f16", NULL, "", FN "u16 double_to_f16(double x) { u16 y; asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(y) : \"d\"(x)); return y; }" },
{ "bf16_to_float", NULL, "", FN "float bf16_to_float(u16 x) { return __uint_as_float((u32)x << 16); }" },
{ "float_to_bf16", NULL, "", FN "u16 float_to_bf16(float x) { u32 b = __float_as_uint(x); if ((b & 0x7fffffffu) > 0x7f800000u) return (u16)(b >> 16 | 64); return (u16)((b + 0x7fffu + (b >> 16 & 1)) >> 16); }" },
{ "fp8_to_float", NULL, "", "/* OCP fp8: `man` mantissa bits; e4m3 has no infinity and one NaN code */\n" FN "float fp8_to_float(u32 x, int man) { const int bias = man == 3 ? 7 : 15; u32 s = (x & 128u) << 24, e = (x & 127u) >> man, m = x & ((1u << man) - 1); float y; if (man == 3 ? (x & 127u) == 127u : (x & 127u) > 124u) y = __uint_as_float(0x7fc00000u); else if (man == 2 && (x & 127u) == 124u) y = __uint_as_float(0x7f800000u); else if (e == 0) y = (float)m * __uint_as_float((u32)(127 + 1 - bias - man) << 23); else y = __uint_as_float((e + 127u - (u32)bias) << 23 | m << (23 - man)); return __uint_as_float(__float_as_uint(y) | s); }" },
{ "float_to_fp8", NULL, "", "/* to nearest even, saturating; NaN stays */\n" FN "u32 float_to_fp8(float x, int man) { const int bias = man == 3 ? 7 : 15; const u32 top = man == 3 ? 126u : 123u; u32 b = __float_as_uint(x), s = b >> 24 & 128u, a = b & 0x7fffffffu; if (a > 0x7f800000u) return s | 127u; int e = (int)(a >> 23) - 127; u32 r; if (e < 1 - bias) { if (e < 1 - bias - man - 1) return s; u32 m = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u); int sh = 23 - man + (1 - bias - e); if (sh > 31) return s; u32 half = 1u << (sh - 1), rest = m & ((1u << sh) - 1); r = m >> sh; r += rest > half || (rest == half && (r & 1)); } else { int sh = 23 - man; u32 v = a - ((u32)(127 - bias) << 23), half = 1u << (sh - 1), rest = v & ((1u << sh) - 1); r = v >> sh; r += rest > half || (rest == half && (r & 1)); } return s | (r > top ? top : r); }" },
{ "round_f16", NULL, "f16_to_float float_to_f16", FN "float round_f16(float x) { return f16_to_float(float_to_f16(x)); }" },
{ "round_bf16", NULL, "bf16_to_float float_to_bf16", FN "float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }" },
{ "round_f8e4m3", NULL, "fp8_to_float float_to_fp8", FN "float round_f8e4m3(float x) { return fp8_to_float(float_to_fp8(x, 3), 3); }" },
{ "round_f8e5m2", NULL, "fp8_to_float float_to_fp8", FN "float round_f8e5m2(float x) { return fp8_to_float(float_to_fp8(x, 2), 2); }" },
{ "round_odd", NULL, "", "/* double to float, to odd: rounding the result again rounds once */\n" FN "float round_odd(double x) { float y = __double2float_rz(x); u32 b = __float_as_uint(y); if ((double)y != x && x == x) b |= 1u; return __uint_as_float(b); }" },
{ "round_f16_f64", NULL, "f16_to_float double_to_f16", FN "float round_f16_f64(double x) { return f16_to_float(double_to_f16(x)); }" },
{ "round_$d_f64", "bf16 f8e4m3 f8e5m2", "round_$d round_odd", FN "float round_$d_f64(double x) { return round_$d(round_odd(x)); }" },
{ "get_f16", NULL, "f16_to_float", FN "float get_f16(u32 w, int k) { return f16_to_float((u16)(w >> (16 * k))); }" },
{ "get_bf16", NULL, "", FN "float get_bf16(u32 w, int k) { return __uint_as_float(k ? w & 0xffff0000u : w << 16); }" },
{ "get_f8e4m3", NULL, "fp8_to_float", FN "float get_f8e4m3(u32 w, int k) { return fp8_to_float(w >> (8 * k) & 255u, 3); }" },
{ "get_f8e5m2", NULL, "fp8_to_float", FN "float get_f8e5m2(u32 w, int k) { return fp8_to_float(w >> (8 * k) & 255u, 2); }" },
{ "get_$d", "i16 u16", "", FN "$t get_$d(u32 w, int k) { return ($t)(w >> (16 * k)); }" },
{ "get_$d", "i8 u8", "", FN "$t get_$d(u32 w, int k) { return ($t)(w >> (8 * k)); }" },
{ "pack_f16", NULL, "", FN "u32 pack_f16(float lo, float hi) { u32 w; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(w) : \"f\"(hi), \"f\"(lo)); return w; }" },
{ "pack_bf16", NULL, "", FN "u32 pack_bf16(float lo, float hi) { u32 w; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(w) : \"f\"(hi), \"f\"(lo)); return w; }" },
{ "pack_f8e4m3", NULL, "float_to_fp8", FN "u32 pack_f8e4m3(float a, float b, float c, float d) { return float_to_fp8(a, 3) | float_to_fp8(b, 3) << 8 | float_to_fp8(c, 3) << 16 | float_to_fp8(d, 3) << 24; }" },
{ "pack_f8e5m2", NULL, "float_to_fp8", FN "u32 pack_f8e5m2(float a, float b, float c, float d) { return float_to_fp8(a, 2) | float_to_fp8(b, 2) << 8 | float_to_fp8(c, 2) << 16 | float_to_fp8(d, 2) << 24; }" },
{ "pack_$d", "i16 u16", "", FN "u32 pack_$d($t a, $t b) { return (u32)(u16)a | (u32)(u16)b << 16; }" },
{ "pack_$d", "i8 u8", "", FN "u32 pack_$d($t a, $t b, $t c, $t d) { return (u32)(u8)a | (u32)(u8)b << 8 | (u32)(u8)c << 16 | (u32)(u8)d << 24; }" },
{ "to_tf32", NULL, "", FN "u32 to_tf32(u32 x) { u32 y; asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(y) : \"f\"(__uint_as_float(x))); return y; }" },
{ "f32_to_$d", "i32", "", FN "i32 f32_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }" },
{ "f32_to_$d", "u32", "", FN "u32 f32_to_u32(float x) { return x != x ? 0 : __float2uint_rz(x); }" },
{ "f32_to_$d", "i64", "", FN "i64 f32_to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }" },
{ "f32_to_$d", "u64", "", FN "u64 f32_to_u64(float x) { return x != x ? 0 : __float2ull_rz(x); }" },
{ "f32_to_i8", NULL, "f32_to_i32", FN "i8 f32_to_i8(float x) { i32 y = f32_to_i32(x); return (i8)(y < -128 ? -128 : y > 127 ? 127 : y); }" },
{ "f32_to_i16", NULL, "f32_to_i32", FN "i16 f32_to_i16(float x) { i32 y = f32_to_i32(x); return (i16)(y < -32768 ? -32768 : y > 32767 ? 32767 : y); }" },
{ "f32_to_u8", NULL, "f32_to_u32", FN "u8 f32_to_u8(float x) { u32 y = f32_to_u32(x); return (u8)(y > 255 ? 255 : y); }" },
{ "f32_to_u16", NULL, "f32_to_u32", FN "u16 f32_to_u16(float x) { u32 y = f32_to_u32(x); return (u16)(y > 65535 ? 65535 : y); }" },
{ "f64_to_i32", NULL, "", FN "i32 f64_to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }" },
{ "f64_to_u32", NULL, "", FN "u32 f64_to_u32(double x) { return x != x ? 0 : __double2uint_rz(x); }" },
{ "f64_to_i64", NULL, "", FN "i64 f64_to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }" },
{ "f64_to_u64", NULL, "", FN "u64 f64_to_u64(double x) { return x != x ? 0 : __double2ull_rz(x); }" },
{ "f64_to_i8", NULL, "f64_to_i32", FN "i8 f64_to_i8(double x) { i32 y = f64_to_i32(x); return (i8)(y < -128 ? -128 : y > 127 ? 127 : y); }" },
{ "f64_to_i16", NULL, "f64_to_i32", FN "i16 f64_to_i16(double x) { i32 y = f64_to_i32(x); return (i16)(y < -32768 ? -32768 : y > 32767 ? 32767 : y); }" },
{ "f64_to_u8", NULL, "f64_to_u32", FN "u8 f64_to_u8(double x) { u32 y = f64_to_u32(x); return (u8)(y > 255 ? 255 : y); }" },
{ "f64_to_u16", NULL, "f64_to_u32", FN "u16 f64_to_u16(double x) { u32 y = f64_to_u32(x); return (u16)(y > 65535 ? 65535 : y); }" },
{ "bits_f32_i32", NULL, "", FN "i32 bits_f32_i32(float x) { return (i32)__float_as_uint(x); }" },
{ "bits_f32_u32", NULL, "", FN "u32 bits_f32_u32(float x) { return __float_as_uint(x); }" },
{ "bits_i32_f32", NULL, "", FN "float bits_i32_f32(i32 x) { return __uint_as_float((u32)x); }" },
{ "bits_u32_f32", NULL, "", FN "float bits_u32_f32(u32 x) { return __uint_as_float(x); }" },
{ "bits_f64_i64", NULL, "", FN "i64 bits_f64_i64(double x) { return __double_as_longlong(x); }" },
{ "bits_f64_u64", NULL, "", FN "u64 bits_f64_u64(double x) { return (u64)__double_as_longlong(x); }" },
{ "bits_i64_f64", NULL, "", FN "double bits_i64_f64(i64 x) { return __longlong_as_double(x); }" },
{ "bits_u64_f64", NULL, "", FN "double bits_u64_f64(u64 x) { return __longlong_as_double((i64)x); }" },
{ "bits_f16_$d", "i16 u16", "float_to_f16", FN "$t bits_f16_$d(float x) { return ($t)float_to_f16(x); }" },
{ "bits_bf16_$d", "i16 u16", "float_to_bf16", FN "$t bits_bf16_$d(float x) { return ($t)float_to_bf16(x); }" },
{ "bits_$d_f16", "i16 u16", "f16_to_float", FN "float bits_$d_f16($t x) { return f16_to_float((u16)x); }" },
{ "bits_$d_bf16", "i16 u16", "bf16_to_float", FN "float bits_$d_bf16($t x) { return bf16_to_float((u16)x); }" },
{ "bits_f16_bf16", NULL, "float_to_f16 bf16_to_float", FN "float bits_f16_bf16(float x) { return bf16_to_float(float_to_f16(x)); }" },
{ "bits_bf16_f16", NULL, "float_to_bf16 f16_to_float", FN "float bits_bf16_f16(float x) { return f16_to_float(float_to_bf16(x)); }" },
{ "bits_f8e4m3_$d", "i8 u8", "float_to_fp8", FN "$t bits_f8e4m3_$d(float x) { return ($t)float_to_fp8(x, 3); }" },
{ "bits_f8e5m2_$d", "i8 u8", "float_to_fp8", FN "$t bits_f8e5m2_$d(float x) { return ($t)float_to_fp8(x, 2); }" },
{ "bits_$d_f8e4m3", "i8 u8", "fp8_to_float", FN "float bits_$d_f8e4m3($t x) { return fp8_to_float((u8)x, 3); }" },
{ "bits_$d_f8e5m2", "i8 u8", "fp8_to_float", FN "float bits_$d_f8e5m2($t x) { return fp8_to_float((u8)x, 2); }" },
{ "bits_$d_i8", "u8", "", FN "i8 bits_u8_i8(u8 x) { return (i8)x; }" },
{ "bits_i8_u8", NULL, "", FN "u8 bits_i8_u8(i8 x) { return (u8)x; }" },
{ "bits_u16_i16", NULL, "", FN "i16 bits_u16_i16(u16 x) { return (i16)x; }" },
{ "bits_i16_u16", NULL, "", FN "u16 bits_i16_u16(i16 x) { return (u16)x; }" },
/* --- integer semantics --- */
{ "div_$d", "u8 u16 u32 u64", "", FN "$t div_$d($t a, $t b) { return b ? ($t)(a / b) : ($t)0; }" },
{ "rem_$d", "u8 u16 u32 u64", "", FN "$t rem_$d($t a, $t b) { return b ? ($t)(a % b) : ($t)0; }" },
{ "div_$d", "i8 i16 i32 i64", "", FN "$t div_$d($t a, $t b) { return b == 0 ? ($t)0 : b == -1 ? ($t)(0 - (u64)a) : ($t)(a / b); }" },
{ "rem_$d", "i8 i16 i32 i64", "", FN "$t rem_$d($t a, $t b) { return b == 0 || b == -1 ? ($t)0 : ($t)(a % b); }" },
{ "cdiv_$d", INTS, "", FN "$t cdiv_$d($t a, $t b) { return b ? ($t)(a / b + (a % b > 0)) : ($t)0; }" },
{ "shl_$d", INTS, "", FN "$t shl_$d($t a, $t b) { return (u64)b < 8 * sizeof a ? ($t)((u64)a << b) : ($t)0; }" },
{ "shr_$d", INTS, "", FN "$t shr_$d($t a, $t b) { return (u64)b < 8 * sizeof a ? ($t)(a >> b) : ($t)(a < 0 ? -1 : 0); }" },
{ "min_$d", INTS, "", FN "$t min_$d($t a, $t b) { return a < b ? a : b; }" },
{ "max_$d", INTS, "", FN "$t max_$d($t a, $t b) { return a > b ? a : b; }" },
{ "min_index", NULL, "", FN "i64 min_index(i64 a, i64 b) { return a < b ? a : b; }" },
{ "max_index", NULL, "", FN "i64 max_index(i64 a, i64 b) { return a > b ? a : b; }" },
{ "LOWEST_f32", NULL, "", "#define LOWEST_f32 __uint_as_float(0xff800000u)" },
{ "HIGHEST_f32", NULL, "", "#define HIGHEST_f32 __uint_as_float(0x7f800000u)" },
{ "LOWEST_f64", NULL, "", "#define LOWEST_f64 __longlong_as_double(0xfff0000000000000ll)" },
{ "HIGHEST_f64", NULL, "", "#define HIGHEST_f64 __longlong_as_double(0x7ff0000000000000ll)" },
{ "LOWEST_bool", NULL, "", "#define LOWEST_bool false" },
{ "HIGHEST_bool", NULL, "", "#define HIGHEST_bool true" },
{ "LOWEST_$d", "u8 u16 u32 u64", "", "#define LOWEST_$d (($t)0)" },
{ "HIGHEST_$d", "u8 u16 u32 u64", "", "#define HIGHEST_$d (($t)~0ull)" },
{ "LOWEST_$d", "i8 i16 i32 i64 index", "", "#define LOWEST_$d (($t)(1ull << (8 * sizeof($t) - 1)))" },
{ "HIGHEST_$d", "i8 i16 i32 i64 index", "", "#define HIGHEST_$d (($t)((1ull << (8 * sizeof($t) - 1)) - 1))" },
/* --- floating functions --- */
{ "max_f32", NULL, "", FN "float max_f32(float a, float b) { float y; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b)); return y; }" },
{ "min_f32", NULL, "", FN "float min_f32(float a, float b) { float y; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b)); return y; }" },
{ "max_f64", NULL, "", FN "double max_f64(double a, double b) { return a != a ? a : b != b ? b : fmax(a, b); }" },
{ "min_f64", NULL, "", FN "double min_f64(double a, double b) { return a != a ? a : b != b ? b : fmin(a, b); }" },
{ "div_f32", NULL, "", FN "float div_f32(float a, float b) { return __fdiv_rn(a, b); }" },
{ "rcp_approx", NULL, "", FN "float rcp_approx(float x) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }" },
{ "ex2", NULL, "", FN "float ex2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }" },
{ "exp2_f32", NULL, "ex2", FN "float exp2_f32(float x) { return ex2(x); }" },
{ "exp2_f32_approx", NULL, "ex2", FN "float exp2_f32_approx(float x) { return ex2(x); }" },
{ "exp_f32", NULL, "", FN "float exp_f32(float x) { return expf(x); }" },
{ "exp_f32_approx", NULL, "ex2", FN "float exp_f32_approx(float x) { return ex2(x * 1.44269504f); }" },
{ "log_f32", NULL, "", FN "float log_f32(float x) { return logf(x); }" },
{ "log2_f32", NULL, "", FN "float log2_f32(float x) { return log2f(x); }" },
{ "log_f32_approx", NULL, "", FN "float log_f32_approx(float x) { return __logf(x); }" },
{ "log2_f32_approx", NULL, "", FN "float log2_f32_approx(float x) { return __log2f(x); }" },
{ "sqrt_f32", NULL, "", FN "float sqrt_f32(float x) { return __fsqrt_rn(x); }" },
{ "sqrt_f32_approx", NULL, "", FN "float sqrt_f32_approx(float x) { float y; asm(\"sqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }" },
{ "rsqrt_f32", NULL, "", FN "float rsqrt_f32(float x) { return rsqrtf(x); }" },
{ "rsqrt_f32_approx", NULL, "", FN "float rsqrt_f32_approx(float x) { float y; asm(\"rsqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }" },
{ "sin_f32", NULL, "", FN "float sin_f32(float x) { return sinf(x); }" },
{ "cos_f32", NULL, "", FN "float cos_f32(float x) { return cosf(x); }" },
{ "sin_f32_approx", NULL, "", FN "float sin_f32_approx(float x) { return __sinf(x); }" },
{ "cos_f32_approx", NULL, "", FN "float cos_f32_approx(float x) { return __cosf(x); }" },
{ "tanh_f32", NULL, "", FN "float tanh_f32(float x) { return tanhf(x); }" },
{ "tanh_f32_approx", NULL, "", FN "float tanh_f32_approx(float x) { float y; asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y; }" },
{ "erf_f32", NULL, "", FN "float erf_f32(float x) { return erff(x); }" },
{ "sigmoid_f32", NULL, "", FN "float sigmoid_f32(float x) { return 1.0f / (1.0f + expf(-x)); }" },
{ "sigmoid_f32_approx", NULL, "ex2 rcp_approx", FN "float sigmoid_f32_approx(float x) { return rcp_approx(1.0f + ex2(x * -1.44269504f)); }" },
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
{ "sigmoid_f64", NULL, "", FN "double sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }" },
{ "floor_f64", NULL, "", FN "double floor_f64(double x) { return floor(x); }" },
{ "ceil_f64", NULL, "", FN "double ceil_f64(double x) { return ceil(x); }" },
{ "round_f64", NULL, "", FN "double round_f64(double x) { return rint(x); }" },
{ "philox", NULL, "", "/* philox4x32-10 (Salmon et al., SC11): word 0 of the block */\n" FN "u32 philox(u64 seed, u64 counter) { u32 k0 = (u32)seed, k1 = (u32)(seed >> 32), c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0; for (int r = 0; r < 10; r++) { u64 p = (u64)0xD2511F53u * c0, q = (u64)0xCD9E8D57u * c2; u32 a = (u32)(q >> 32) ^ c1 ^ k0, b = (u32)(p >> 32) ^ c3 ^ k1; c0 = a; c1 = (u32)q; c2 = b; c3 = (u32)p; k0 += 0x9E3779B9u; k1 += 0xBB67AE85u; } return c0; }" },
/* --- global memory --- */
{ "ldg_nc_b32", NULL, "", FN "void ldg_nc_b32(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.b32 %0, [%1];\" : \"=r\"(w[0]) : \"l\"(p)); }" },
{ "ldg_nc_b64", NULL, "", FN "void ldg_nc_b64(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.v2.b32 {%0, %1}, [%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"l\"(p)); }" },
{ "ldg_nc_b128", NULL, "", FN "void ldg_nc_b128(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"l\"(p)); }" },
{ "ldg_b32", NULL, "", FN "void ldg_b32(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.b32 %0, [%1];\" : \"=r\"(w[0]) : \"l\"(p) : \"memory\"); }" },
{ "ldg_b64", NULL, "", FN "void ldg_b64(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.v2.b32 {%0, %1}, [%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"l\"(p) : \"memory\"); }" },
{ "ldg_b128", NULL, "", FN "void ldg_b128(void *d, const void *p) { u32 *w = (u32 *)d; asm volatile(\"ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"l\"(p) : \"memory\"); }" },
{ "stg_b32", NULL, "", FN "void stg_b32(void *p, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.global.b32 [%0], %1;\" :: \"l\"(p), \"r\"(w[0]) : \"memory\"); }" },
{ "stg_b64", NULL, "", FN "void stg_b64(void *p, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.global.v2.b32 [%0], {%1, %2};\" :: \"l\"(p), \"r\"(w[0]), \"r\"(w[1]) : \"memory\"); }" },
{ "stg_b128", NULL, "", FN "void stg_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.global.v4.b32 [%0], {%1, %2, %3, %4};\" :: \"l\"(p), \"r\"(w[0]), \"r\"(w[1]), \"r\"(w[2]), \"r\"(w[3]) : \"memory\"); }" },
{ "ldg_$d", INTS " f32 f64", "", FN "$t ldg_$d(const $t *p) { return *p; }" },
{ "ldg_index", NULL, "", FN "i64 ldg_index(const i64 *p) { return *p; }" },
{ "ldg_bool", NULL, "", FN "bool ldg_bool(const u8 *p) { return *p != 0; }" },
{ "ldg_f16", NULL, "f16_to_float", FN "float ldg_f16(const u16 *p) { return f16_to_float(*p); }" },
{ "ldg_bf16", NULL, "bf16_to_float", FN "float ldg_bf16(const u16 *p) { return bf16_to_float(*p); }" },
{ "ldg_f8e4m3", NULL, "fp8_to_float", FN "float ldg_f8e4m3(const u8 *p) { return fp8_to_float(*p, 3); }" },
{ "ldg_f8e5m2", NULL, "fp8_to_float", FN "float ldg_f8e5m2(const u8 *p) { return fp8_to_float(*p, 2); }" },
{ "stg_$d", INTS " f32 f64", "", FN "void stg_$d($t *p, $t x) { *p = x; }" },
{ "stg_index", NULL, "", FN "void stg_index(i64 *p, i64 x) { *p = x; }" },
{ "stg_bool", NULL, "", FN "void stg_bool(u8 *p, bool x) { *p = x; }" },
{ "stg_f16", NULL, "float_to_f16", FN "void stg_f16(u16 *p, float x) { *p = float_to_f16(x); }" },
{ "stg_bf16", NULL, "float_to_bf16", FN "void stg_bf16(u16 *p, float x) { *p = float_to_bf16(x); }" },
{ "stg_f8e4m3", NULL, "float_to_fp8", FN "void stg_f8e4m3(u8 *p, float x) { *p = (u8)float_to_fp8(x, 3); }" },
{ "stg_f8e5m2", NULL, "float_to_fp8", FN "void stg_f8e5m2(u8 *p, float x) { *p = (u8)float_to_fp8(x, 2); }" },
/* --- atomics: relaxed; fences around them carry acquire and release --- */
{ "atomic_add_$d", "i32 u32 f32 f64", "", FN "$t atomic_add_$d($t *p, $t x) { return atomicAdd(p, x); }" },
{ "atomic_add_$d", "i64 u64", "", FN "$t atomic_add_$d($t *p, $t x) { return ($t)atomicAdd((u64 *)p, (u64)x); }" },
{ "atomic_$o_$d", "max min:i32 u32", "", FN "$t atomic_$o_$d($t *p, $t x) { $t old = *(volatile $t *)p; for (;;) { $t now = ($t)atomicCAS((u32 *)p, (u32)old, (u32)$o_$d(old, x)); if (now == old) return old; old = now; } }" },
{ "atomic_$o_$d", "max min:i64 u64", "", FN "$t atomic_$o_$d($t *p, $t x) { $t old = *(volatile $t *)p; for (;;) { $t now = ($t)atomicCAS((u64 *)p, (u64)old, (u64)$o_$d(old, x)); if (now == old) return old; old = now; } }" },
{ "atomic_$o_f32", "max min:f32", "", FN "float atomic_$o_f32(float *p, float x) { u32 old = *(volatile u32 *)p; for (;;) { u32 now = atomicCAS((u32 *)p, old, __float_as_uint($o_f32(__uint_as_float(old), x))); if (now == old) return __uint_as_float(old); old = now; } }" },
{ "atomic_$o_f64", "max min:f64", "", FN "double atomic_$o_f64(double *p, double x) { u64 old = *(volatile u64 *)p; for (;;) { u64 now = atomicCAS((u64 *)p, old, (u64)__double_as_longlong($o_f64(__longlong_as_double((i64)old), x))); if (now == old) return __longlong_as_double((i64)old); old = now; } }" },
{ "atomic_half", NULL, "", "/* one half of a word replaced: f(old half, x) by compare and swap of the word */\n#define ATOMIC_HALF(NAME, OP, FROM, TO) " FN "float NAME(u16 *p, float x) { u32 *w = (u32 *)((u64)p & ~3ull), sh = ((u64)p & 2) * 8, old = *(volatile u32 *)w; for (;;) { u16 h = (u16)(old >> sh); u32 next = (old & ~(0xffffu << sh)) | (u32)TO(OP(FROM(h), x)) << sh, now = atomicCAS(w, old, next); if (now == old) return FROM(h); old = now; } }\n" FN "float half_add(float a, float b) { return a + b; }\n" FN "float half_exch(float a, float b) { return b; }" },
{ "atomic_add_f16", NULL, "atomic_half f16_to_float float_to_f16", "ATOMIC_HALF(atomic_add_f16, half_add, f16_to_float, float_to_f16)" },
{ "atomic_add_bf16", NULL, "atomic_half bf16_to_float float_to_bf16", "ATOMIC_HALF(atomic_add_bf16, half_add, bf16_to_float, float_to_bf16)" },
{ "atomic_max_f16", NULL, "atomic_half max_f32 f16_to_float float_to_f16", "ATOMIC_HALF(atomic_max_f16, max_f32, f16_to_float, float_to_f16)" },
{ "atomic_max_bf16", NULL, "atomic_half max_f32 bf16_to_float float_to_bf16", "ATOMIC_HALF(atomic_max_bf16, max_f32, bf16_to_float, float_to_bf16)" },
{ "atomic_min_f16", NULL, "atomic_half min_f32 f16_to_float float_to_f16", "ATOMIC_HALF(atomic_min_f16, min_f32, f16_to_float, float_to_f16)" },
{ "atomic_min_bf16", NULL, "atomic_half min_f32 bf16_to_float float_to_bf16", "ATOMIC_HALF(atomic_min_bf16, min_f32, bf16_to_float, float_to_bf16)" },
{ "atomic_exch_f16", NULL, "atomic_half f16_to_float float_to_f16", "ATOMIC_HALF(atomic_exch_f16, half_exch, f16_to_float, float_to_f16)" },
{ "atomic_exch_bf16", NULL, "atomic_half bf16_to_float float_to_bf16", "ATOMIC_HALF(atomic_exch_bf16, half_exch, bf16_to_float, float_to_bf16)" },
{ "atomic_exch_$d", "i32 u32", "", FN "$t atomic_exch_$d($t *p, $t x) { return ($t)atomicExch((u32 *)p, (u32)x); }" },
{ "atomic_exch_$d", "i64 u64", "", FN "$t atomic_exch_$d($t *p, $t x) { return ($t)atomicExch((u64 *)p, (u64)x); }" },
{ "atomic_exch_f32", NULL, "", FN "float atomic_exch_f32(float *p, float x) { return __uint_as_float(atomicExch((u32 *)p, __float_as_uint(x))); }" },
{ "atomic_exch_f64", NULL, "", FN "double atomic_exch_f64(double *p, double x) { return __longlong_as_double((i64)atomicExch((u64 *)p, (u64)__double_as_longlong(x))); }" },
{ "atomic_and_$d", "i32 u32", "", FN "$t atomic_and_$d($t *p, $t x) { return ($t)atomicAnd((u32 *)p, (u32)x); }" },
{ "atomic_or_$d", "i32 u32", "", FN "$t atomic_or_$d($t *p, $t x) { return ($t)atomicOr((u32 *)p, (u32)x); }" },
{ "atomic_xor_$d", "i32 u32", "", FN "$t atomic_xor_$d($t *p, $t x) { return ($t)atomicXor((u32 *)p, (u32)x); }" },
{ "atomic_and_$d", "i64 u64", "", FN "$t atomic_and_$d($t *p, $t x) { return ($t)atomicAnd((u64 *)p, (u64)x); }" },
{ "atomic_or_$d", "i64 u64", "", FN "$t atomic_or_$d($t *p, $t x) { return ($t)atomicOr((u64 *)p, (u64)x); }" },
{ "atomic_xor_$d", "i64 u64", "", FN "$t atomic_xor_$d($t *p, $t x) { return ($t)atomicXor((u64 *)p, (u64)x); }" },
{ "atomic_cas_$d", "i32 u32", "", FN "$t atomic_cas_$d($t *p, $t old, $t x) { return ($t)atomicCAS((u32 *)p, (u32)old, (u32)x); }" },
{ "atomic_cas_$d", "i64 u64", "", FN "$t atomic_cas_$d($t *p, $t old, $t x) { return ($t)atomicCAS((u64 *)p, (u64)old, (u64)x); }" },
{ "atomic_cas_f32", NULL, "", FN "float atomic_cas_f32(float *p, float old, float x) { u32 was = *(volatile u32 *)p; for (;;) { if (!(__uint_as_float(was) == old)) return __uint_as_float(was); u32 now = atomicCAS((u32 *)p, was, __float_as_uint(x)); if (now == was) return __uint_as_float(was); was = now; } }" },
{ "atomic_cas_f64", NULL, "", FN "double atomic_cas_f64(double *p, double old, double x) { u64 was = *(volatile u64 *)p; for (;;) { if (!(__longlong_as_double((i64)was) == old)) return __longlong_as_double((i64)was); u64 now = atomicCAS((u64 *)p, was, (u64)__double_as_longlong(x)); if (now == was) return __longlong_as_double((i64)was); was = now; } }" },
{ "check_failed", NULL, "", FN "void check_failed(CheckRecord *r, u32 line, i64 program) { if (atomicCAS(&r->failed, 0u, 1u) == 0u) { r->line = line; r->program = program; } }" },
/* --- shared memory --- */
{ "lds_b8", NULL, "", FN "u32 lds_b8(u32 a) { u32 x; asm volatile(\"ld.shared.u8 %0, [%1];\" : \"=r\"(x) : \"r\"(a) : \"memory\"); return x; }" },
{ "lds_b16", NULL, "", FN "u16 lds_b16(u32 a) { u16 x; asm volatile(\"ld.shared.b16 %0, [%1];\" : \"=h\"(x) : \"r\"(a) : \"memory\"); return x; }" },
{ "lds_w32", NULL, "", FN "u32 lds_w32(u32 a) { u32 x; asm volatile(\"ld.shared.b32 %0, [%1];\" : \"=r\"(x) : \"r\"(a) : \"memory\"); return x; }" },
{ "lds_w64", NULL, "", FN "u64 lds_w64(u32 a) { u64 x; asm volatile(\"ld.shared.b64 %0, [%1];\" : \"=l\"(x) : \"r\"(a) : \"memory\"); return x; }" },
{ "sts_w8", NULL, "", FN "void sts_w8(u32 a, u32 x) { asm volatile(\"st.shared.u8 [%0], %1;\" :: \"r\"(a), \"r\"(x) : \"memory\"); }" },
{ "sts_w16", NULL, "", FN "void sts_w16(u32 a, u16 x) { asm volatile(\"st.shared.b16 [%0], %1;\" :: \"r\"(a), \"h\"(x) : \"memory\"); }" },
{ "sts_w32", NULL, "", FN "void sts_w32(u32 a, u32 x) { asm volatile(\"st.shared.b32 [%0], %1;\" :: \"r\"(a), \"r\"(x) : \"memory\"); }" },
{ "sts_w64", NULL, "", FN "void sts_w64(u32 a, u64 x) { asm volatile(\"st.shared.b64 [%0], %1;\" :: \"r\"(a), \"l\"(x) : \"memory\"); }" },
{ "sts_b32", NULL, "", FN "void sts_b32(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.shared.b32 [%0], %1;\" :: \"r\"(a), \"r\"(w[0]) : \"memory\"); }" },
{ "sts_b64", NULL, "", FN "void sts_b64(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.shared.v2.b32 [%0], {%1, %2};\" :: \"r\"(a), \"r\"(w[0]), \"r\"(w[1]) : \"memory\"); }" },
{ "sts_b128", NULL, "", FN "void sts_b128(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile(\"st.shared.v4.b32 [%0], {%1, %2, %3, %4};\" :: \"r\"(a), \"r\"(w[0]), \"r\"(w[1]), \"r\"(w[2]), \"r\"(w[3]) : \"memory\"); }" },
{ "lds_b32", NULL, "", FN "void lds_b32(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.b32 %0, [%1];\" : \"=r\"(w[0]) : \"r\"(a) : \"memory\"); }" },
{ "lds_b64", NULL, "", FN "void lds_b64(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.v2.b32 {%0, %1}, [%2];\" : \"=r\"(w[0]), \"=r\"(w[1]) : \"r\"(a) : \"memory\"); }" },
{ "lds_b128", NULL, "", FN "void lds_b128(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile(\"ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"r\"(a) : \"memory\"); }" },
{ "lds_$d", "i8 u8", "lds_b8", FN "$t lds_$d(u32 a) { return ($t)lds_b8(a); }" },
{ "lds_bool", NULL, "lds_b8", FN "bool lds_bool(u32 a) { return lds_b8(a) != 0; }" },
{ "lds_$d", "i16 u16", "lds_b16", FN "$t lds_$d(u32 a) { return ($t)lds_b16(a); }" },
{ "lds_$d", "i32 u32", "lds_w32", FN "$t lds_$d(u32 a) { return ($t)lds_w32(a); }" },
{ "lds_$d", "i64 u64 index", "lds_w64", FN "$t lds_$d(u32 a) { return ($t)lds_w64(a); }" },
{ "lds_f32", NULL, "lds_w32", FN "float lds_f32(u32 a) { return __uint_as_float(lds_w32(a)); }" },
{ "lds_f64", NULL, "lds_w64", FN "double lds_f64(u32 a) { return __longlong_as_double((i64)lds_w64(a)); }" },
{ "lds_f16", NULL, "lds_b16 f16_to_float", FN "float lds_f16(u32 a) { return f16_to_float(lds_b16(a)); }" },
{ "lds_bf16", NULL, "lds_b16 bf16_to_float", FN "float lds_bf16(u32 a) { return bf16_to_float(lds_b16(a)); }" },
{ "lds_f8e4m3", NULL, "lds_b8 fp8_to_float", FN "float lds_f8e4m3(u32 a) { return fp8_to_float(lds_b8(a), 3); }" },
{ "lds_f8e5m2", NULL, "lds_b8 fp8_to_float", FN "float lds_f8e5m2(u32 a) { return fp8_to_float(lds_b8(a), 2); }" },
{ "sts_$d", "i8 u8 bool", "sts_w8", FN "void sts_$d(u32 a, $t x) { sts_w8(a, (u32)x); }" },
{ "sts_$d", "i16 u16", "sts_w16", FN "void sts_$d(u32 a, $t x) { sts_w16(a, (u16)x); }" },
{ "sts_$d", "i32 u32", "sts_w32", FN "void sts_$d(u32 a, $t x) { sts_w32(a, (u32)x); }" },
{ "sts_$d", "i64 u64 index", "sts_w64", FN "void sts_$d(u32 a, $t x) { sts_w64(a, (u64)x); }" },
{ "sts_f32", NULL, "sts_w32", FN "void sts_f32(u32 a, float x) { sts_w32(a, __float_as_uint(x)); }" },
{ "sts_f64", NULL, "sts_w64", FN "void sts_f64(u32 a, double x) { sts_w64(a, (u64)__double_as_longlong(x)); }" },
{ "sts_f16", NULL, "sts_w16 float_to_f16", FN "void sts_f16(u32 a, float x) { sts_w16(a, float_to_f16(x)); }" },
{ "sts_bf16", NULL, "sts_w16 float_to_bf16", FN "void sts_bf16(u32 a, float x) { sts_w16(a, float_to_bf16(x)); }" },
{ "sts_f8e4m3", NULL, "sts_w8 float_to_fp8", FN "void sts_f8e4m3(u32 a, float x) { sts_w8(a, float_to_fp8(x, 3)); }" },
{ "sts_f8e5m2", NULL, "sts_w8 float_to_fp8", FN "void sts_f8e5m2(u32 a, float x) { sts_w8(a, float_to_fp8(x, 2)); }" },
{ "cp_async_b32", NULL, "", FN "void cp_async_b32(u32 a, const void *p, bool in) { asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 4 : 0) : \"memory\"); }" },
{ "cp_async_b64", NULL, "", FN "void cp_async_b64(u32 a, const void *p, bool in) { asm volatile(\"cp.async.ca.shared.global [%0], [%1], 8, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 8 : 0) : \"memory\"); }" },
{ "cp_async_b128", NULL, "", FN "void cp_async_b128(u32 a, const void *p, bool in) { asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"(a), \"l\"(p), \"r\"(in ? 16 : 0) : \"memory\"); }" },
{ "cp_async_commit", NULL, "", FN "void cp_async_commit(void) { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }" },
{ "cp_async_wait", NULL, "", "#define cp_async_wait(n) asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(n) : \"memory\")" },
/* --- matrix products of a warp: d += a b --- */
{ "ldmatrix_x1", NULL, "", FN "void ldmatrix_x1(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];\" : \"=r\"(d[0]) : \"r\"(a) : \"memory\"); }" },
{ "ldmatrix_x2", NULL, "", FN "void ldmatrix_x2(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\" : \"=r\"(d[0]), \"=r\"(d[1]) : \"r\"(a) : \"memory\"); }" },
{ "ldmatrix_x4", NULL, "", FN "void ldmatrix_x4(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(a) : \"memory\"); }" },
{ "ldmatrix_x1_trans", NULL, "", FN "void ldmatrix_x1_trans(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];\" : \"=r\"(d[0]) : \"r\"(a) : \"memory\"); }" },
{ "ldmatrix_x2_trans", NULL, "", FN "void ldmatrix_x2_trans(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\" : \"=r\"(d[0]), \"=r\"(d[1]) : \"r\"(a) : \"memory\"); }" },
{ "ldmatrix_x4_trans", NULL, "", FN "void ldmatrix_x4_trans(u32 *d, u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(a) : \"memory\"); }" },
#define MMA_F32(shape, aregs, name, types) { "mma_" name, NULL, "", FN "void mma_" name "(float *d, const u32 *a, const u32 *b) { asm volatile(\"mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }" }
#define MMA_S32(name, types) { "mma_" name, NULL, "", FN "void mma_" name "(i32 *d, const u32 *a, const u32 *b) { asm volatile(\"mma.sync.aligned.m16n8k32.row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+r\"(d[0]), \"+r\"(d[1]), \"+r\"(d[2]), \"+r\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }" }
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
{ "mma_m8n8k4_f64_f64", NULL, "", FN "void mma_m8n8k4_f64_f64(double *d, const u32 *a, const u32 *b) { double x = *(const double *)a, y = *(const double *)b; asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\" : \"+d\"(d[0]), \"+d\"(d[1]) : \"d\"(x), \"d\"(y)); }" },
/* --- sm_90a: mbarriers, TMA, wgmma --- */
{ "vote_any", NULL, "", FN "bool vote_any(bool x) { return __any_sync(0xffffffffu, x); }" },
{ "mbar_init", NULL, "", FN "void mbar_init(u32 b, u32 n) { asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(b), \"r\"(n) : \"memory\"); }" },
{ "mbar_expect", NULL, "", FN "void mbar_expect(u32 b, u32 bytes) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" :: \"r\"(b), \"r\"(bytes) : \"memory\"); }" },
{ "mbar_arrive", NULL, "", FN "void mbar_arrive(u32 b) { asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(b) : \"memory\"); }" },
{ "mbar_wait", NULL, "", FN "void mbar_wait(u32 b, u32 phase) { asm volatile(\"{ .reg .pred p;\\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra.uni DONE;\\nbra.uni WAIT;\\nDONE: }\" :: \"r\"(b), \"r\"(phase) : \"memory\"); }" },
{ "ticket_next", NULL, "", FN "i32 ticket_next(u32 *t, u32 ctas) { return (i32)(ctas + atomicAdd(t, 1u)); }" },
{ "ticket_done", NULL, "", "/* the last CTA leaves the counter as it was found */\n" FN "void ticket_done(u32 *t, u32 ctas) { __threadfence(); if (atomicAdd(t + 1, 1u) == ctas - 1) { atomicExch(t, 0u); atomicExch(t + 1, 0u); } }" },
{ "fence_mbarrier_init", NULL, "", FN "void fence_mbarrier_init(void) { asm volatile(\"fence.mbarrier_init.release.cluster;\\nfence.proxy.async.shared::cta;\" ::: \"memory\"); }" },
{ "setmaxnreg_inc", NULL, "", "#define setmaxnreg_inc(n) asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" :: \"n\"(n))" },
{ "setmaxnreg_dec", NULL, "", "#define setmaxnreg_dec(n) asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" :: \"n\"(n))" },
{ "tma_load_1d", NULL, "", FN "void tma_load_1d(u32 d, const TensorMap *m, u32 bar, i32 c0) { asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0) : \"memory\"); }" },
{ "tma_load_2d", NULL, "", FN "void tma_load_2d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1) { asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1) : \"memory\"); }" },
{ "tma_load_3d", NULL, "", FN "void tma_load_3d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2) { asm volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), \"r\"(c2) : \"memory\"); }" },
{ "tma_load_4d", NULL, "", FN "void tma_load_4d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3) { asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3) : \"memory\"); }" },
{ "tma_load_5d", NULL, "", FN "void tma_load_5d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4) { asm volatile(\"cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\" :: \"r\"(d), \"l\"(m), \"r\"(bar), \"r\"(c0), \"r\"(c1), \"r\"(c2), \"r\"(c3), \"r\"(c4) : \"memory\"); }" },
{ "wgmma_fence", NULL, "", FN "void wgmma_fence(void) { asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }" },
{ "wgmma_commit", NULL, "", FN "void wgmma_commit(void) { asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\"); }" },
{ "wgmma_wait", NULL, "", "#define wgmma_wait(n) asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(n) : \"memory\")" },
{ "pin_float", NULL, "", "/* a register is read and written here, as far as the compiler knows */\n#define pin_float(x) asm volatile(\"\" : \"+f\"(x) :: \"memory\")" },
{ "pin_word", NULL, "", "#define pin_word(x) asm volatile(\"\" : \"+r\"(x) :: \"memory\")" },
{ NULL, NULL, NULL, NULL },
};

const char cuda_prelude_head[] =
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;\n"
    "typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, reserved; } CheckRecord;\n"
    "typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;\n";

/* wgmma_m64n128k16_f16_ss_tb: d (64 x n) += a b; a in registers (rs) or by descriptor (ss), _ta and _tb: contiguous in M, in N.
 * PTX ISA 9.7.15.5.2; the accumulator's registers are those of the fragment. */
const char *cuda_wgmma(Session *s, const char *name)
{
    int n = 0, k = 0, used = 0;
    char rest[48] = "";
    if (sscanf(name, "wgmma_m64n%dk%d_%47s%n", &n, &k, rest, &used) < 3 || name[used]) return NULL;
    bool ta = strstr(rest, "_ta") != NULL, tb = strstr(rest, "_tb") != NULL, rs = strstr(rest, "_rs") || !strncmp(rest, "rs", 2);
    static const struct { const char *name, *ptx; } types[] = {
        { "f16", "f16" }, { "bf16", "bf16" }, { "tf32", "tf32" }, { "f8e4m3", "e4m3" }, { "f8e5m2", "e5m2" }, { "i8", "s8" }, { "u8", "u8" },
    };
    const char *ab[2] = { NULL, NULL }, *p = rest;
    for (int t = 0; t < 2; t++)
        for (size_t x = 0; x < sizeof types / sizeof *types; x++) {
            size_t len = strlen(types[x].name);
            if (!ab[t] && !strncmp(p, types[x].name, len) && p[len] == '_') { ab[t] = types[x].ptx; p += len + 1; break; }
        }
    if (!ab[0]) return NULL;
    if (!ab[1]) ab[1] = ab[0];
    bool integer = ab[0][0] == 's' || ab[0][0] == 'u', half = k == 16;
    int regs = n / 2, at = regs;
    Text o;
    text_init(&o, &s->arena);
    text_printf(&o, "static __device__ __forceinline__ void %s(%s *d, %s, u32 blo, u32 bhi, int acc) {\n", name, integer ? "i32" : "float", rs ? "const u32 *a" : "u32 alo, u32 ahi");
    text_printf(&o, "  asm volatile(\"{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %%%d, 0; ", regs + (rs ? 6 : 4));
    if (!rs) { text_printf(&o, "mov.b64 a, {%%%d, %%%d}; ", at, at + 1); at += 2; }
    else at += 4;
    text_printf(&o, "mov.b64 b, {%%%d, %%%d}; wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {", at, at + 1, n, k, integer ? "s32" : "f32", ab[0], ab[1]);
    for (int i = 0; i < regs; i++) text_printf(&o, "%s%%%d", i ? "," : "", i);
    text_puts(&o, "}, ");
    if (rs) text_printf(&o, "{%%%d,%%%d,%%%d,%%%d}", regs, regs + 1, regs + 2, regs + 3);
    else text_puts(&o, "a");
    text_puts(&o, ", b, p");
    if (!integer) text_puts(&o, ", 1, 1");
    if (half) text_printf(&o, rs ? ", %d" : ", %d, %d", rs ? tb : ta, tb);
    text_puts(&o, "; }\"\n    : ");
    for (int i = 0; i < regs; i++) text_printf(&o, "%s\"+%c\"(d[%d])", i ? ", " : "", integer ? 'r' : 'f', i);
    text_puts(&o, "\n    : ");
    if (rs) text_puts(&o, "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), ");
    else text_puts(&o, "\"r\"(alo), \"r\"(ahi), ");
    text_puts(&o, "\"r\"(blo), \"r\"(bhi), \"r\"(acc)); }");
    return o.data;
}
