/* prelude_fp8.c: functions of the CUDA prelude on targets with instructions that convert fp8 (sm_89 and
 * later), in place of those of backends/gpu/prelude/prelude_fp8.def and prelude_values.def. Sources: PTX ISA
 * 9.0 section 9.7.9.21 (cvt): .satfinite gives the largest number for what is larger, infinities too, and
 * 0x7f for NaN. The sign of a NaN, and in e5m2 an infinity, stay what they are where values are only moved;
 * `narrow` is for results of casts, which saturate and whose NaN has any sign.
 */
#include "backends/gpu/prelude/prelude.h"

#define FN "static __device__ __forceinline__ "
#define PAIR(type, ptx) \
    { "f32x2_to_" type "x2", NULL, "", \
        FN "u32 f32x2_to_" type "x2(float lo, float hi) { u16 y; asm(\"cvt.rn.satfinite." ptx \
           "x2.f32 %0, %1, %2;\" : \"=h\"(y) : \"f\"(hi), \"f\"(lo)); return y; }" }

const PreludeEntry cuda_prelude_fp8[] = {
    PAIR("f8e4m3", "e4m3"),
    PAIR("f8e5m2", "e5m2"),
    { "float_to_fp8", NULL, "float_word f32x2_to_f8e4m3x2 f32x2_to_f8e5m2x2",
        FN "u32 float_to_fp8(float x, int man) { const u32 b = float_word(x), s = b >> 24 & 128u; if (man == "
           "2 && (b & 0x7fffffffu) == 0x7f800000u) return s | 124u; return (man == 3 ? f32x2_to_f8e4m3x2(x, "
           "0.0f) : f32x2_to_f8e5m2x2(x, 0.0f)) | s; }" },
    { "fp8_to_float", NULL, "float_bits float_word f16_to_float f8e4m3_to_f16x2 f8e5m2_to_f16x2",
        FN "float fp8_to_float(u32 x, int man) { const float y = f16_to_float((u16)(man == 3 ? "
           "f8e4m3_to_f16x2(x, 0) : f8e5m2_to_f16x2(x, 0))); return float_bits(float_word(y) | (x & 128u) << "
           "24); }" },
    { "pack_f8e4m3", NULL, "float_word f32x2_to_f8e4m3x2",
        FN
        "u32 pack_f8e4m3(float a, float b, float c, float d) { return f32x2_to_f8e4m3x2(a, b) | "
        "f32x2_to_f8e4m3x2(c, d) << 16 | (float_word(a) >> 24 & 0x80u) | (float_word(b) >> 16 & 0x8000u) | "
        "(float_word(c) >> 8 & 0x800000u) | (float_word(d) & 0x80000000u); }" },
    { "narrow_f8e4m3", NULL, "f32x2_to_f8e4m3x2",
        FN "u32 narrow_f8e4m3(float a, float b, float c, float d) { return f32x2_to_f8e4m3x2(a, b) | "
           "f32x2_to_f8e4m3x2(c, d) << 16; }" },
    { "narrow_f8e5m2", NULL, "f32x2_to_f8e5m2x2",
        FN "u32 narrow_f8e5m2(float a, float b, float c, float d) { return f32x2_to_f8e5m2x2(a, b) | "
           "f32x2_to_f8e5m2x2(c, d) << 16; }" },
    { NULL, NULL, NULL, NULL },
};
