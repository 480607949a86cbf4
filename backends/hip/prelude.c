/* prelude.c: the functions that emitted HIP C calls, as backends/cuda/prelude.c is for CUDA: every hardware
 * instruction one named function ("machine" below), all else in plain C. A kernel gets those it uses, with
 * those they use. tests/emu gives the machine functions bodies for the host; it knows them by
 * __builtin_amdgcn_, asm or __hip_ in their text.
 *
 * hip_prelude serves every chip; the tables after it hold what a chip has instead or in addition, and are
 * looked into first. Sources: AMD CDNA2, CDNA3, CDNA4 and RDNA3 ISA guides; LLVM's AMDGPU usage page.
 * Builtins that old compilers (HIP 5) lack have another form. */
#include "backends/gpu/prelude/prelude_float.h"
#include "backends/hip/prelude.h"

#define INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define FN "static __device__ __forceinline__ "
#define MATH "__builtin_"

const PreludeEntry hip_prelude[] = {
    /* --- machine: threads. A program is a workgroup; waves of 64 (gfx9) or 32 (gfx11) lanes --- */
    { "thread_id", NULL, "", FN "int thread_id(void) { return (int)__builtin_amdgcn_workitem_id_x(); }" },
    { "block_id", NULL, "", FN "u32 block_id(void) { return (u32)__builtin_amdgcn_workgroup_id_x(); }" },
    { "block_count", NULL, "",
        FN "u32 block_count(void) { return (u32)__builtin_amdgcn_grid_size_x() / "
           "(u32)__builtin_amdgcn_workgroup_size_x(); }" },
    { "shared_address", NULL, "",
        "/* byte offset in the workgroup's LDS */\n" FN
        "u32 shared_address(const void *p) { return (u32)(unsigned long)(__attribute__((address_space(3))) "
        "const void *)p; /* __builtin_amdgcn_ */ }" },
    { "uniform", NULL, "",
        "/* the same value in all lanes, known as such to the compiler */\n" FN
        "int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }" },
    { "opaque", NULL, "", FN "i32 opaque(i32 x) { asm volatile(\"\" : \"+s\"(x)); return x; }" },
    { "again", NULL, "",
        "/* x, computed anew for each step of a loop: what follows from it is not kept in registers from "
        "step to step */\n" FN
        "i32 again(i32 x, i32 step) { asm(\"\" : \"+v\"(x) : \"s\"(step)); return x; }" },
    { "block_barrier", NULL, "",
        "/* all waves have come here, and what they did to LDS is done. Loads from memory stay in flight "
        "*/\n" FN "void block_barrier(void) { asm volatile(\"s_waitcnt lgkmcnt(0)\" ::: \"memory\"); "
        "__builtin_amdgcn_s_barrier(); asm volatile(\"\" ::: \"memory\"); }" },
    { "memory_barrier", NULL, "",
        "/* the same for memory too: what the workgroup wrote, all of it reads */\n" FN
        "void memory_barrier(void) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); "
        "__builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); }" },
    { "warp_sync", NULL, "",
        "/* LDS between the lanes of one wave, which run together */\n" FN
        "void warp_sync(void) { asm volatile(\"s_waitcnt lgkmcnt(0)\" ::: \"memory\"); "
        "__builtin_amdgcn_wave_barrier(); }" },
    { "fence_device", NULL, "",
        FN "void fence_device(void) { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"agent\"); }" },
    { "fence_system", NULL, "",
        FN "void fence_system(void) { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"\"); }" },
    { "fence_block", NULL, "",
        FN "void fence_block(void) { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"workgroup\"); }" },
    /* --- machine: waiting and scheduling. n and mask are literals --- */
    { "wait_loads", NULL, "",
        "/* until at most n loads from memory (of this wave, in order) are outstanding */\n#define "
        "wait_loads(n) asm volatile(\"s_waitcnt vmcnt(%0)\" :: \"n\"(n) : \"memory\")" },
    { "wait_lds", NULL, "",
        "#define wait_lds(n) asm volatile(\"s_waitcnt lgkmcnt(%0)\" :: \"n\"(n) : \"memory\")" },
    { "set_priority", NULL, "", "#define set_priority(n) __builtin_amdgcn_s_setprio(n)" },
    { "stays", NULL, "",
        "/* x is computed here: not moved to where it is needed */\n#define stays(x) asm volatile(\"\" :: "
        "\"v\"(x))" },
    { "sched_barrier", NULL, "",
        "/* only instructions of the kinds in mask are moved across: 0x78f all but loads and stores "
        "*/\n#define sched_barrier(mask) __builtin_amdgcn_sched_barrier(mask)" },
    { "sched_group", NULL, "",
        "/* the next `size` instructions of a kind: 8 matrix, 32 load, 256 LDS read, 512 LDS write */\n#if "
        "__has_builtin(__builtin_amdgcn_sched_group_barrier)\n#define sched_group(mask, size) "
        "__builtin_amdgcn_sched_group_barrier(mask, size, 0)\n#else /* a hint: compilers before LLVM 16 have "
        "none */\n#define sched_group(mask, size)\n#endif" },
    /* --- machine: lanes --- */
    { "bpermute", NULL, "",
        "/* x of lane address / 4 */\n" FN "u32 bpermute(u32 address, u32 x) { return "
        "(u32)__builtin_amdgcn_ds_bpermute((int)address, (int)x); }" },
    { "readlane", NULL, "",
        "/* lane: the same in all lanes */\n" FN
        "u32 readlane(u32 x, u32 lane) { return (u32)__builtin_amdgcn_readlane((int)x, (int)lane); }" },
    { "dpp_xor1", NULL, "",
        FN "u32 dpp_xor1(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0xb1, 15, 15, true); }" },
    { "dpp_xor2", NULL, "",
        FN "u32 dpp_xor2(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0x4e, 15, 15, true); }" },
    { "dpp_xor8", NULL, "",
        FN "u32 dpp_xor8(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0x128, 15, 15, true); }" },
    { "dpp_xor15", NULL, "",
        FN "u32 dpp_xor15(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0x140, 15, 15, true); }" },
    { "swizzle_xor4", NULL, "",
        FN "u32 swizzle_xor4(u32 x) { return (u32)__builtin_amdgcn_ds_swizzle((int)x, 0x101f); }" },
    { "swizzle_xor16", NULL, "",
        FN "u32 swizzle_xor16(u32 x) { return (u32)__builtin_amdgcn_ds_swizzle((int)x, 0x401f); }" },
    { "lane_xor32", NULL, "bpermute",
        FN "u32 lane_xor32(u32 x) { return bpermute(((u32)thread_id() & 63u ^ 32u) * 4u, x); }" },
    { "shuffle_u32", NULL,
        "thread_id bpermute dpp_xor1 dpp_xor2 dpp_xor8 swizzle_xor4 swizzle_xor16 lane_xor32",
        "/* x of lane ^ mask */\n" FN "u32 shuffle_u32(u32 x, u32 mask) {\n"
        "    switch (mask) {\n"
        "    case 1: return dpp_xor1(x);\n"
        "    case 2: return dpp_xor2(x);\n"
        "    case 4: return swizzle_xor4(x);\n"
        "    case 8: return dpp_xor8(x);\n"
        "    case 16: return swizzle_xor16(x);\n"
        "    case 32: return lane_xor32(x);\n"
        "    default: return bpermute(((u32)thread_id() ^ mask) * 4u, x);\n"
        "    }\n}" },
    { "shuffle_index_u32", NULL, "bpermute",
        "/* x of that lane, modulo the wave */\n" FN
        "u32 shuffle_index_u32(u32 x, u32 lane) { return bpermute(lane * 4u, x); }" },
#include "backends/gpu/prelude/prelude_lanes.def"
#include "backends/gpu/prelude/prelude_order.def"
    /* --- number formats --- */
    { "float_bits", NULL, "", FN "float float_bits(u32 b) { return __builtin_bit_cast(float, b); }" },
    { "float_word", NULL, "", FN "u32 float_word(float x) { return __builtin_bit_cast(u32, x); }" },
    { "double_bits", NULL, "", FN "double double_bits(u64 b) { return __builtin_bit_cast(double, b); }" },
    { "double_word", NULL, "", FN "u64 double_word(double x) { return __builtin_bit_cast(u64, x); }" },
    { "f16_to_float", NULL, "",
        FN "float f16_to_float(u16 x) { return (float)__builtin_bit_cast(_Float16, x); }" },
    { "float_to_f16", NULL, "",
        FN "u16 float_to_f16(float x) { return __builtin_bit_cast(u16, (_Float16)x); }" },
    { "double_to_f16", NULL, "",
        FN "u16 double_to_f16(double x) { return __builtin_bit_cast(u16, (_Float16)x); }" },
    { "pack_f16", NULL, "float_to_f16",
        FN
        "u32 pack_f16(float lo, float hi) { return (u32)float_to_f16(lo) | (u32)float_to_f16(hi) << 16; }" },
    { "pack_bf16", NULL, "float_to_bf16",
        FN "u32 pack_bf16(float lo, float hi) { return (u32)float_to_bf16(lo) | (u32)float_to_bf16(hi) << "
           "16; }" },
#include "backends/gpu/prelude/prelude_values.def"
    { "round_odd", NULL, "float_word float_bits",
        "/* double to float, to odd: rounding the result again rounds once */\n" FN
        "float round_odd(double x) { float y = (float)x; u32 b = float_word(y); if ((double)y == x || x != "
        "x) return y; if (__builtin_fabs((double)y) > __builtin_fabs(x)) b--; return float_bits(b | 1u); }" },
#include "backends/gpu/prelude/prelude_fp8.def"
    { "to_tf32", NULL, "float_bits",
        "/* xf32 takes the leading 19 bits: rounded to nearest, ties away */\n" FN
        "u32 to_tf32(u32 x) { return (x & 0x7fffffffu) >= 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u; }" },
    { "f32_to_i32", NULL, "",
        FN "i32 f32_to_i32(float x) { return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= "
           "-2147483648.0f ? -2147483647 - 1 : (i32)x; }" },
    { "f32_to_u32", NULL, "",
        FN "u32 f32_to_u32(float x) { return !(x > 0.0f) ? 0u : x >= 4294967296.0f ? ~0u : (u32)x; }" },
    { "f32_to_i64", NULL, "",
        FN "i64 f32_to_i64(float x) { return x != x ? 0 : x >= 9223372036854775808.0f ? "
           "9223372036854775807ll : x <= -9223372036854775808.0f ? -9223372036854775807ll - 1 : (i64)x; }" },
    { "f32_to_u64", NULL, "",
        FN "u64 f32_to_u64(float x) { return !(x > 0.0f) ? 0ull : x >= 18446744073709551616.0f ? ~0ull : "
           "(u64)x; }" },
    { "f64_to_i32", NULL, "",
        FN "i32 f64_to_i32(double x) { return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= "
           "-2147483648.0 ? -2147483647 - 1 : (i32)x; }" },
    { "f64_to_u32", NULL, "",
        FN "u32 f64_to_u32(double x) { return !(x > 0.0) ? 0u : x >= 4294967295.0 ? ~0u : (u32)x; }" },
    { "f64_to_i64", NULL, "",
        FN "i64 f64_to_i64(double x) { return x != x ? 0 : x >= 9223372036854775808.0 ? "
           "9223372036854775807ll : x <= -9223372036854775808.0 ? -9223372036854775807ll - 1 : (i64)x; }" },
    { "f64_to_u64", NULL, "",
        FN "u64 f64_to_u64(double x) { return !(x > 0.0) ? 0ull : x >= 18446744073709551616.0 ? ~0ull : "
           "(u64)x; }" },
#include "backends/gpu/prelude/prelude_convert.def"
#include "backends/gpu/prelude/prelude_integers.def"
    /* --- floating functions: the machine's own first --- */
    { "max_f32", NULL, "float_bits",
        FN "float max_f32(float a, float b) { const float y = __builtin_fmaxf(a, b); return "
           "__builtin_isunordered(a, b) ? float_bits(0x7fc00000u) : y; }" },
    { "min_f32", NULL, "float_bits",
        FN "float min_f32(float a, float b) { const float y = __builtin_fminf(a, b); return "
           "__builtin_isunordered(a, b) ? float_bits(0x7fc00000u) : y; }" },
    { "max_ordered", NULL, "",
        "/* machine: neither is NaN */\n" FN
        "float max_ordered(float a, float b) { return __builtin_amdgcn_fmed3f(a, b, __builtin_inff()); }" },
    { "min_ordered", NULL, "",
        "/* machine: neither is NaN */\n" FN
        "float min_ordered(float a, float b) { return __builtin_amdgcn_fmed3f(a, b, -__builtin_inff()); }" },
    FLOAT_EXTREMES,
    { "mul_alone_f32", NULL, "",
        FN "float mul_alone_f32(float a, float b) {\n#if defined(__clang__)\n#pragma clang fp "
           "contract(off)\n#endif\n    return a * b;\n}" },
    { "mul_alone_f64", NULL, "",
        FN "double mul_alone_f64(double a, double b) {\n#if defined(__clang__)\n#pragma clang fp "
           "contract(off)\n#endif\n    return a * b;\n}" },
    FLOAT_FMA,
    { "div_f32", NULL, "", FN "float div_f32(float a, float b) { return a / b; }" },
    { "rcp_approx", NULL, "", FN "float rcp_approx(float x) { return __builtin_amdgcn_rcpf(x); }" },
    { "ex2", NULL, "",
        "/* v_exp_f32 */\n#if !defined(__has_builtin) || __has_builtin(__builtin_amdgcn_exp2f)\n" FN
        "float ex2(float x) { return __builtin_amdgcn_exp2f(x); }\n#else\n" FN
        "float ex2(float x) { return __builtin_exp2f(x); }\n#endif" },
    { "lg2", NULL, "",
        "/* v_log_f32 */\n#if !defined(__has_builtin) || __has_builtin(__builtin_amdgcn_logf)\n" FN
        "float lg2(float x) { return __builtin_amdgcn_logf(x); }\n#else\n" FN
        "float lg2(float x) { return __builtin_log2f(x); }\n#endif" },
    { "rsq", NULL, "", "/* v_rsq_f32 */\n" FN "float rsq(float x) { return __builtin_amdgcn_rsqf(x); }" },
    FLOAT_EXP,
    FLOAT_LOG,
    { "log_f32_approx", NULL, "lg2", FN "float log_f32_approx(float x) { return lg2(x) * 0.693147181f; }" },
    { "log2_f32_approx", NULL, "lg2", FN "float log2_f32_approx(float x) { return lg2(x); }" },
    { "sqrt_f32", NULL, "", FN "float sqrt_f32(float x) { return __builtin_sqrtf(x); }" },
    { "sqrt_f32_approx", NULL, "rsq",
        FN "float sqrt_f32_approx(float x) { return x == 0.0f || x > 3.4e38f ? x : x * rsq(x); }" },
    { "rsqrt_f32", NULL, "rsq",
        "/* v_rsq_f32 takes denormals for zero */\n" FN
        "float rsqrt_f32(float x) { return __builtin_fabsf(x) < 0x1p-126f ? rsq(x * 0x1p24f) * 0x1p12f : "
        "rsq(x); }" },
    { "rsqrt_f32_approx", NULL, "rsq", FN "float rsqrt_f32_approx(float x) { return rsq(x); }" },
    FLOAT_ROUND_F32,
    FLOAT_ROUND_F64,
    { "sqrt_f64", NULL, "", FN "double sqrt_f64(double x) { return __builtin_sqrt(x); }" },
    { "rsqrt_f64", NULL, "", FN "double rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }" },
#include "backends/hip/math.def"
    { "wide_product", NULL, "", FN "u64 wide_product(u32 a, u32 b) { return (u64)a * b; }" },
#include "backends/gpu/prelude/prelude_philox.def"
    /* --- global memory --- */
    { "u32x2", NULL, "", "typedef u32 u32x2 __attribute__((vector_size(8)));" },
    { "u32x4", NULL, "", "typedef u32 u32x4 __attribute__((vector_size(16)));" },
    { "ldg_b32", NULL, "", FN "void ldg_b32(void *d, const void *p) { *(u32 *)d = *(const u32 *)p; }" },
    { "ldg_b64", NULL, "u32x2",
        FN "void ldg_b64(void *d, const void *p) { const u32x2 x = *(const u32x2 *)p; u32 *w = (u32 *)d; "
           "w[0] = x[0]; w[1] = x[1]; }" },
    { "ldg_b128", NULL, "u32x4",
        FN "void ldg_b128(void *d, const void *p) { const u32x4 x = *(const u32x4 *)p; u32 *w = (u32 *)d; "
           "w[0] = x[0]; w[1] = x[1]; w[2] = x[2]; w[3] = x[3]; }" },
    { "ldg_nc_b32", NULL, "ldg_b32", "#define ldg_nc_b32 ldg_b32" },
    { "ldg_nc_b64", NULL, "ldg_b64", "#define ldg_nc_b64 ldg_b64" },
    { "ldg_nc_b128", NULL, "ldg_b128", "#define ldg_nc_b128 ldg_b128" },
    { "stg_b32", NULL, "", FN "void stg_b32(void *p, const void *s) { *(u32 *)p = *(const u32 *)s; }" },
    { "stg_b64", NULL, "u32x2",
        FN "void stg_b64(void *p, const void *s) { const u32 *w = (const u32 *)s; const u32x2 x = { w[0], "
           "w[1] }; *(u32x2 *)p = x; }" },
    { "stg_b128", NULL, "u32x4",
        FN "void stg_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; const u32x4 x = { w[0], "
           "w[1], w[2], w[3] }; *(u32x4 *)p = x; }" },
    { "ldg_stream_b32", NULL, "",
        "/* `cache = stream`: non-temporal */\n" FN "void ldg_stream_b32(void *d, const void *p) { *(u32 *)d "
        "= __builtin_nontemporal_load((const u32 *)p); }" },
    { "ldg_stream_b64", NULL, "u32x2",
        FN "void ldg_stream_b64(void *d, const void *p) { const u32x2 x = __builtin_nontemporal_load((const "
           "u32x2 *)p); u32 *w = (u32 *)d; w[0] = x[0]; w[1] = x[1]; }" },
    { "ldg_stream_b128", NULL, "u32x4",
        FN "void ldg_stream_b128(void *d, const void *p) { const u32x4 x = __builtin_nontemporal_load((const "
           "u32x4 *)p); u32 *w = (u32 *)d; w[0] = x[0]; w[1] = x[1]; w[2] = x[2]; w[3] = x[3]; }" },
    { "ldg_nc_stream_b32", NULL, "ldg_stream_b32", "#define ldg_nc_stream_b32 ldg_stream_b32" },
    { "ldg_nc_stream_b64", NULL, "ldg_stream_b64", "#define ldg_nc_stream_b64 ldg_stream_b64" },
    { "ldg_nc_stream_b128", NULL, "ldg_stream_b128", "#define ldg_nc_stream_b128 ldg_stream_b128" },
    { "stg_stream_b32", NULL, "",
        FN "void stg_stream_b32(void *p, const void *s) { __builtin_nontemporal_store(*(const u32 *)s, (u32 "
           "*)p); }" },
    { "stg_stream_b64", NULL, "u32x2",
        FN "void stg_stream_b64(void *p, const void *s) { const u32 *w = (const u32 *)s; const u32x2 x = { "
           "w[0], w[1] }; __builtin_nontemporal_store(x, (u32x2 *)p); }" },
    { "stg_stream_b128", NULL, "u32x4",
        FN "void stg_stream_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; const u32x4 x = { "
           "w[0], w[1], w[2], w[3] }; __builtin_nontemporal_store(x, (u32x4 *)p); }" },
    /* --- machine: loads with bounds. What lies beyond `bytes` from the base gives 0 --- */
    { "Buffer", NULL, "",
        "#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)\ntypedef __amdgpu_buffer_rsrc_t "
        "Buffer;\n#else\ntypedef struct Buffer { const u8 *base; u32 bytes; } Buffer;    /* "
        "__builtin_amdgcn_ */\n#endif" },
    { "make_buffer", NULL, "Buffer BUFFER_WORD3",
        "#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)\n"
        "/* p is the same in all lanes, which the compiler need not know */\n" FN
        "Buffer make_buffer(const void *p, u32 bytes) { const u64 a = (u64)p; const u32 lo = "
        "(u32)__builtin_amdgcn_readfirstlane((int)(u32)a), hi = "
        "(u32)__builtin_amdgcn_readfirstlane((int)(u32)(a >> 32)); return "
        "__builtin_amdgcn_make_buffer_rsrc((void *)((u64)hi << 32 | lo), 0, (int)bytes, BUFFER_WORD3); "
        "}\n#else\n" FN "Buffer make_buffer(const void *p, u32 bytes) { Buffer b = { (const u8 *)p, bytes }; "
        "return b; }\n#endif" },
    { "u32x1", NULL, "", "typedef u32 u32x1;" },
#define BUFFER_LOAD(hint, aux, bits, type, words) \
    { "buffer_load" hint "_b" bits, NULL, "make_buffer " type " ldg" hint "_b" bits, \
        "#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)\n" FN "void buffer_load" hint "_b" bits \
        "(void *d, Buffer b, u32 at) { const " type " x = __builtin_amdgcn_raw_buffer_load_b" bits \
        "(b, (int)at, 0, " aux "); __builtin_memcpy(d, &x, sizeof x); }\n#else\n" FN "void buffer_load" hint \
        "_b" bits "(void *d, Buffer b, u32 at) { u32 *w = (u32 *)d; for (int i = 0; i < " words \
        "; i++) w[i] = 0; if (at < b.bytes) ldg" hint "_b" bits "(d, b.base + at); }\n#endif" }
    BUFFER_LOAD("", "0", "32", "u32x1", "1"),
    BUFFER_LOAD("", "0", "64", "u32x2", "2"),
    BUFFER_LOAD("", "0", "128", "u32x4", "4"),
    BUFFER_LOAD("_stream", "2", "32", "u32x1", "1"), /* 2: slc, on gfx942 and gfx950 nt */
    BUFFER_LOAD("_stream", "2", "64", "u32x2", "2"),
    BUFFER_LOAD("_stream", "2", "128", "u32x4", "4"),
#include "backends/gpu/prelude/prelude_memory.def"
/* --- machine: atomics on memory, relaxed, in the scope of the device --- */
#define ATOMIC(name, type, builtin) \
    { name "_" type, NULL, "", \
        FN type " " name "_" type "(" type " *p, " type " x) { return " builtin \
                "(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }" }
#define SHARED_ATOMIC(op, name, type) \
    { "shared_" op "_" name, NULL, "LDS", \
        FN "void shared_" op "_" name "(u32 a, " type " x) { __hip_atomic_fetch_" op "(LDS(" type \
           ", a), x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }" }
#define SHARED_ORDERED(op) \
    SHARED_ATOMIC(op, "i32", "i32"), SHARED_ATOMIC(op, "u32", "u32"), SHARED_ATOMIC(op, "i64", "i64"), \
        SHARED_ATOMIC(op, "u64", "u64")
#define SHARED_BITS(op) SHARED_ATOMIC(op, "u32", "u32"), SHARED_ATOMIC(op, "u64", "u64")
#define SHARED_NOW(type) \
    { "shared_now_" type, NULL, "LDS", \
        FN type " shared_now_" type "(u32 a) { return __hip_atomic_load(LDS(" type \
                ", a), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }" }
#define SHARED_SWAP(type) \
    { "shared_swap_" type, NULL, "LDS", \
        FN type " shared_swap_" type "(u32 a, " type " was, " type \
                " x) { __hip_atomic_compare_exchange_strong(LDS(" type ", a), &was, x, __ATOMIC_RELAXED, " \
                "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); return was; }" }
#define COMPARE_SWAP(type) \
    { "compare_swap_" type, NULL, "", \
        FN type " compare_swap_" type "(" type " *p, " type " was, " type \
                " x) { __hip_atomic_compare_exchange_strong(p, &was, x, __ATOMIC_RELAXED, " \
                "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); return was; }" }
    COMPARE_SWAP("u32"),
    COMPARE_SWAP("u64"),
    ATOMIC("exchange", "u32", "__hip_atomic_exchange"),
    ATOMIC("exchange", "u64", "__hip_atomic_exchange"),
    ATOMIC("fetch_add", "u32", "__hip_atomic_fetch_add"),
    ATOMIC("fetch_add", "u64", "__hip_atomic_fetch_add"),
    { "fetch_add_$d", "f32 f64", "",
        FN "$t fetch_add_$d($t *p, $t x) { return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, "
           "__HIP_MEMORY_SCOPE_AGENT); }" },
    { "value_now_$d", "f32 f64", "",
        FN "$t value_now_$d($t *p) { return __hip_atomic_load(p, __ATOMIC_RELAXED, "
           "__HIP_MEMORY_SCOPE_AGENT); }" },
    { "fetch_$o_$d", "max min:i32 u32 i64 u64", "",
        FN "$t fetch_$o_$d($t *p, $t x) { return __hip_atomic_fetch_$o(p, x, __ATOMIC_RELAXED, "
           "__HIP_MEMORY_SCOPE_AGENT); }" },
    ATOMIC("fetch_and", "u32", "__hip_atomic_fetch_and"),
    ATOMIC("fetch_and", "u64", "__hip_atomic_fetch_and"),
    ATOMIC("fetch_or", "u32", "__hip_atomic_fetch_or"),
    ATOMIC("fetch_or", "u64", "__hip_atomic_fetch_or"),
    ATOMIC("fetch_xor", "u32", "__hip_atomic_fetch_xor"),
    ATOMIC("fetch_xor", "u64", "__hip_atomic_fetch_xor"),
#include "backends/gpu/prelude/prelude_atomic.def"
    /* --- LDS by byte offset --- */
    { "LDS", NULL, "",
        "/* machine: LDS(type, offset) points there */\n#ifndef LDS\n#define LDS(T, a) "
        "((__attribute__((address_space(3))) T *)(a))\n#endif" },
    { "pack_bytes", NULL, "",
        FN "u32 pack_bytes(u32 a, u32 b, u32 c, u32 d) { return a | b << 8 | c << 16 | d << 24; }" },
    SHARED_ATOMIC("add", "u32", "u32"),
    SHARED_ATOMIC("add", "u64", "u64"),
    SHARED_ATOMIC("add", "f32", "float"),
    SHARED_ATOMIC("add", "f64", "double"),
    SHARED_ORDERED("max"),
    SHARED_ORDERED("min"),
    SHARED_BITS("and"),
    SHARED_BITS("or"),
    SHARED_BITS("xor"),
    SHARED_NOW("u32"),
    SHARED_NOW("u64"),
    SHARED_SWAP("u32"),
    SHARED_SWAP("u64"),
    { "lds_b8", NULL, "LDS", FN "u32 lds_b8(u32 a) { return *LDS(u8, a); }" },
    { "lds_b16", NULL, "LDS", FN "u16 lds_b16(u32 a) { return *LDS(u16, a); }" },
    { "lds_w32", NULL, "LDS", FN "u32 lds_w32(u32 a) { return *LDS(u32, a); }" },
    { "lds_w64", NULL, "LDS", FN "u64 lds_w64(u32 a) { return *LDS(u64, a); }" },
    { "sts_w8", NULL, "LDS", FN "void sts_w8(u32 a, u32 x) { *LDS(u8, a) = (u8)x; }" },
    { "sts_w16", NULL, "LDS", FN "void sts_w16(u32 a, u16 x) { *LDS(u16, a) = x; }" },
    { "sts_w32", NULL, "LDS", FN "void sts_w32(u32 a, u32 x) { *LDS(u32, a) = x; }" },
    { "sts_w64", NULL, "LDS", FN "void sts_w64(u32 a, u64 x) { *LDS(u64, a) = x; }" },
    { "sts_b32", NULL, "LDS", FN "void sts_b32(u32 a, const void *s) { *LDS(u32, a) = *(const u32 *)s; }" },
    { "sts_b64", NULL, "LDS u32x2",
        FN "void sts_b64(u32 a, const void *s) { const u32 *w = (const u32 *)s; const u32x2 x = { w[0], w[1] "
           "}; *LDS(u32x2, a) = x; }" },
    { "sts_b128", NULL, "LDS u32x4",
        FN "void sts_b128(u32 a, const void *s) { const u32 *w = (const u32 *)s; const u32x4 x = { w[0], "
           "w[1], w[2], w[3] }; *LDS(u32x4, a) = x; }" },
    { "lds_b32", NULL, "LDS", FN "void lds_b32(void *d, u32 a) { *(u32 *)d = *LDS(const u32, a); }" },
    { "lds_b64", NULL, "LDS u32x2",
        FN "void lds_b64(void *d, u32 a) { const u32x2 x = *LDS(const u32x2, a); u32 *w = (u32 *)d; w[0] = "
           "x[0]; w[1] = x[1]; }" },
    { "lds_b128", NULL, "LDS u32x4",
        FN "void lds_b128(void *d, u32 a) { const u32x4 x = *LDS(const u32x4, a); u32 *w = (u32 *)d; w[0] = "
           "x[0]; w[1] = x[1]; w[2] = x[2]; w[3] = x[3]; }" },
#include "backends/gpu/prelude/prelude_shared.def"
    { "printf", NULL, "",
        "/* printing needs AMD's device library: hipRTC has it, clang by itself has not */\n#if "
        "defined(__HIPCC_RTC__) || defined(__HIPCC__)\n#include <stdio.h>\n#else\n#define printf(...) "
        "((void)0)\n#endif" },
    { NULL, NULL, NULL, NULL },
};

/* --- chips of their own ------------------------------------------------------------------------------ */

/* gfx9 of the data centre: 64 lanes. */
static const PreludeEntry gfx9[] = {
    { "vote_any", NULL, "",
        "/* machine */\n" FN "bool vote_any(bool x) { return __builtin_amdgcn_ballot_w64(x) != 0; }" },
    { "BUFFER_WORD3", NULL, "", "#define BUFFER_WORD3 0x27000" },
    { NULL, NULL, NULL, NULL },
};

/* Memory to LDS without registers, a word (gfx942) or four (gfx950) a lane: lane l's go to offset `to` + l *
 * their size, `to` the same in all lanes. M0 holds `to` (CDNA3 ISA 9.1.9). Outstanding ones count as loads
 * for wait_loads. */
#define LDS_DMA(bits, suffix) \
    { "lds_dma_b" bits, NULL, "make_buffer", \
        "/* machine: of what lies beyond the buffer LDS gets 0 */\n" FN "void lds_dma_b" bits \
        "(u32 to, Buffer b, u32 at) { asm volatile(\"s_mov_b32 m0, %0\\n\\ts_nop " \
        "0\\n\\tbuffer_load_dword" suffix \
        " %1, %2, 0 offen lds\" :: \"s\"(to), \"v\"(at), \"s\"(b) : \"memory\", \"m0\"); }" }
static const PreludeEntry gfx942[] = {
    LDS_DMA("32", ""),
    { NULL, NULL, NULL, NULL },
};

static const PreludeEntry gfx950[] = {
    LDS_DMA("32", ""),
    LDS_DMA("128", "x4"),
    { "max_f32", NULL, "",
        "/* machine: v_maximum3_f32 */\n" FN
        "float max_f32(float a, float b) { return __builtin_elementwise_maximum(a, b); /* __builtin_amdgcn_ "
        "*/ }" },
    { "min_f32", NULL, "",
        "/* machine: v_minimum3_f32 */\n" FN
        "float min_f32(float a, float b) { return __builtin_elementwise_minimum(a, b); /* __builtin_amdgcn_ "
        "*/ }" },
    { "pack_f16", NULL, "",
        "/* machine: v_cvt_pk_f16_f32 */\n" FN
        "u32 pack_f16(float lo, float hi) { typedef _Float16 f16x2 __attribute__((vector_size(4))); const "
        "f16x2 x = { (_Float16)lo, (_Float16)hi }; return __builtin_bit_cast(u32, x); }" },
    { "pack_bf16", NULL, "",
        "/* machine: v_cvt_pk_bf16_f32 */\n" FN
        "u32 pack_bf16(float lo, float hi) { typedef __bf16 bf16x2 __attribute__((vector_size(4))); const "
        "bf16x2 x = { (__bf16)lo, (__bf16)hi }; return __builtin_bit_cast(u32, x); /* __builtin_amdgcn_ */ "
        "}" },
    { "get_f8e4m3", NULL, "",
        "/* machine: OCP */\n" FN
        "float get_f8e4m3(u32 w, int k) { return k == 0 ? __builtin_amdgcn_cvt_f32_fp8((int)w, 0) : k == 1 ? "
        "__builtin_amdgcn_cvt_f32_fp8((int)w, 1) : k == 2 ? __builtin_amdgcn_cvt_f32_fp8((int)w, 2) : "
        "__builtin_amdgcn_cvt_f32_fp8((int)w, 3); }" },
    { "get_f8e5m2", NULL, "",
        FN "float get_f8e5m2(u32 w, int k) { return k == 0 ? __builtin_amdgcn_cvt_f32_bf8((int)w, 0) : k == "
           "1 ? __builtin_amdgcn_cvt_f32_bf8((int)w, 1) : k == 2 ? __builtin_amdgcn_cvt_f32_bf8((int)w, 2) : "
           "__builtin_amdgcn_cvt_f32_bf8((int)w, 3); }" },
    { "permlane32_swap", NULL, "",
        "/* machine: lanes 32 to 63 of x against lanes 0 to 31 of y */\n" FN
        "void permlane32_swap(u32 *x, u32 *y) { const auto r = __builtin_amdgcn_permlane32_swap(*x, *y, "
        "false, false); *x = r[0]; *y = r[1]; }" },
    { "lane_xor32", NULL, "permlane32_swap",
        FN "u32 lane_xor32(u32 x) { u32 y = x; permlane32_swap(&x, &y); return thread_id() & 32 ? x : y; }" },
    { NULL, NULL, NULL, NULL },
};

/* RDNA3: 32 lanes, rows of 16; workgroups in CU mode. */
static const PreludeEntry gfx11[] = {
    { "vote_any", NULL, "",
        "/* machine */\n" FN "bool vote_any(bool x) { return __builtin_amdgcn_ballot_w32(x) != 0; }" },
    { "BUFFER_WORD3", NULL, "", "#define BUFFER_WORD3 0x31027000" },
    { "dpp_xor8", NULL, "",
        FN "u32 dpp_xor8(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0x168, 15, 15, true); }" },
    { "swizzle_xor4", NULL, "",
        "/* by DPP here */\n" FN
        "u32 swizzle_xor4(u32 x) { return (u32)__builtin_amdgcn_mov_dpp((int)x, 0x164, 15, 15, true); }" },
    { "swizzle_xor16", NULL, "",
        "/* by permlanex16 here */\n" FN
        "u32 swizzle_xor16(u32 x) { return (u32)__builtin_amdgcn_permlanex16((int)x, (int)x, 0x76543210, "
        "(int)0xfedcba98, false, false); }" },
    { "lane_xor32", NULL, "", "/* a wave has 32 lanes */\n" FN "u32 lane_xor32(u32 x) { return x; }" },
    { NULL, NULL, NULL, NULL },
};

/* Functions that only these chips have, or have as other instructions. */
static const struct {
    const char *target;
    const PreludeEntry *table;
} chips[] = { { "hip:gfx942", gfx942 }, { "hip:gfx950", gfx950 } };

int hip_tables(const Target *t, const PreludeEntry *out[4])
{
    int n = 0;
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (!strcmp(chips[i].target, t->name)) out[n++] = chips[i].table;
    out[n++] = t->wave == 32 ? gfx11 : gfx9;
    out[n++] = hip_prelude;
    return n;
}

const char hip_prelude_head[] =
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long "
    "long u64;\n"
    "typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, wait; } CheckRecord;\n"
    "/* clang by itself has no names for these; hipcc and hipRTC have */\n"
    "#ifndef __device__\n#define __device__ __attribute__((device))\n#endif\n"
    "#ifndef __global__\n#define __global__ __attribute__((global))\n#endif\n"
    "#ifndef __shared__\n#define __shared__ __attribute__((shared))\n#endif\n"
    "#ifndef __forceinline__\n#define __forceinline__ inline __attribute__((always_inline))\n#endif\n"
    "#ifndef KERNEL\n#define KERNEL(threads, waves) extern \"C\" __global__ "
    "__attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(waves)))\n#endif\n";
