/* hip_device_mma.h: the builtins of matrix products, without the wave's size in their names. Part of
 * hip_device.h. */

#define EMU_MFMA(name) \
    template <class A, class B, class C> EMU C __builtin_amdgcn_##name(A a, B b, C c, int, int, int) \
    { \
        hip_mma(#name, &c, &a, &b); \
        return c; \
    }
EMU_MFMA(mfma_f32_32x32x8f16)
EMU_MFMA(mfma_f32_16x16x16f16)
EMU_MFMA(mfma_f32_32x32x8bf16_1k)
EMU_MFMA(mfma_f32_16x16x16bf16_1k)
EMU_MFMA(mfma_f32_32x32x16_f16)
EMU_MFMA(mfma_f32_16x16x32_f16)
EMU_MFMA(mfma_f32_32x32x16_bf16)
EMU_MFMA(mfma_f32_16x16x32_bf16)
EMU_MFMA(mfma_i32_32x32x8i8)
EMU_MFMA(mfma_i32_16x16x16i8)
EMU_MFMA(mfma_i32_32x32x16_i8)
EMU_MFMA(mfma_i32_16x16x32_i8)
EMU_MFMA(mfma_f32_32x32x2f32)
EMU_MFMA(mfma_f32_16x16x4f32)
EMU_MFMA(mfma_f32_32x32x4_xf32)
EMU_MFMA(mfma_f32_16x16x8_xf32)
EMU_MFMA(mfma_f64_16x16x4f64)
EMU_MFMA(mfma_f32_32x32x16_fp8_fp8)
EMU_MFMA(mfma_f32_32x32x16_fp8_bf8)
EMU_MFMA(mfma_f32_32x32x16_bf8_fp8)
EMU_MFMA(mfma_f32_32x32x16_bf8_bf8)
EMU_MFMA(mfma_f32_16x16x32_fp8_fp8)
EMU_MFMA(mfma_f32_16x16x32_fp8_bf8)
EMU_MFMA(mfma_f32_16x16x32_bf8_fp8)
EMU_MFMA(mfma_f32_16x16x32_bf8_bf8)
EMU_MFMA(mfma_i32_32x32x32_i8)
EMU_MFMA(mfma_i32_16x16x64_i8)
/* f8f6f4 without scales (literal zeros), in its two formats of 8 bits; named here as the products of fp8 and
 * bf8 are. */
#define EMU_F8F6F4(shape) \
    template <class A, class C> \
    EMU C __builtin_amdgcn_mfma_scale_f32_##shape##_f8f6f4( \
        A a, A b, C c, int fa, int fb, int, int sa, int, int sb) \
    { \
        static const char *const names[4] = { "mfma_f32_" #shape "_fp8_fp8", "mfma_f32_" #shape "_fp8_bf8", \
            "mfma_f32_" #shape "_bf8_fp8", "mfma_f32_" #shape "_bf8_bf8" }; \
        if (sa || sb || fa & ~1 || fb & ~1) hip_fail("f8f6f4 with scales, or of formats %d and %d", fa, fb); \
        hip_mma(names[fa * 2 + fb], &c, &a, &b); \
        return c; \
    }
EMU_F8F6F4(32x32x64)
EMU_F8F6F4(16x16x128)
template <class A, class C> EMU C __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(A a, A b, C c)
{
    hip_mma("wmma_f32_16x16x16_f16", &c, &a, &b);
    return c;
}
template <class A, class C> EMU C __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(A a, A b, C c)
{
    hip_mma("wmma_f32_16x16x16_bf16", &c, &a, &b);
    return c;
}
template <class A, class C>
EMU C __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(bool sa, A a, bool sb, A b, C c, bool clamp)
{
    if (clamp) hip_fail("a clamped iu8 product");
    hip_mma(sa   ? sb ? "wmma_i32_16x16x16_iu8_ss" : "wmma_i32_16x16x16_iu8_su"
            : sb ? "wmma_i32_16x16x16_iu8_us"
                 : "wmma_i32_16x16x16_iu8_uu",
        &c, &a, &b);
    return c;
}
