/* hip_device.h: what emitted HIP C needs to run on the host: clang's builtins for AMD GPUs as functions on
 * the emulated workgroup (hip_machine.h). It stands before the emitted text; of that, lines with inline
 * assembly or address spaces are left out, and the functions they hold are here by the same names. Everything
 * else runs as it was emitted, the prelude included.
 *
 * Not <math.h>: in C++ it brings so much along that reading it takes a third of each compilation.
 *
 * Meanings: the ISA guides of CDNA2 to CDNA4 and RDNA3 (DPP controls, ds_swizzle's pattern, ds_bpermute's
 * address), LLVM's AMDGPU page. */
#include <string.h>
#include "tests/emu/hip_machine.h"

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define __device__
#define __host__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define KERNEL(threads, waves) extern "C"
#define __bf16 u16
#define __constant__
#define __launch_bounds__(...)
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#define EMU_HAS_BUILTIN(x) 1
#define EMU static inline

EMU u32 emu_lane(void) { return (u32)hip_thread() % EMU_WAVE; }
EMU float emu_flush(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x; }

/* --- threads ----------------------------------------------------------------------------------------- */

EMU u32 __builtin_amdgcn_workitem_id_x(void) { return (u32)hip_thread(); }
EMU u32 __builtin_amdgcn_workgroup_id_x(void) { return (u32)hip_block(); }
EMU u32 __builtin_amdgcn_workgroup_size_x(void) { return (u32)hip_threads(); }
EMU u32 __builtin_amdgcn_grid_size_x(void) { return (u32)(hip_blocks() * hip_threads()); }
EMU u32 __builtin_amdgcn_wavefrontsize(void) { return EMU_WAVE; }
EMU void __builtin_amdgcn_s_barrier(void) { hip_barrier(); }
EMU void __builtin_amdgcn_wave_barrier(void) { hip_wave_barrier(); }
EMU void __builtin_amdgcn_fence(int order, const char *)
{
    if (order != __ATOMIC_ACQUIRE) {
        hip_fence();
        hip_memory_fence();
    }
}
EMU void __builtin_amdgcn_s_setprio(int) {}
EMU void __builtin_amdgcn_sched_barrier(int) {}
EMU void __builtin_amdgcn_sched_group_barrier(int, int, int) {}
EMU void __builtin_amdgcn_iglp_opt(int) {}

/* with assembly where they are emitted */
EMU void block_barrier(void)
{
    hip_fence();
    hip_barrier();
}
EMU void warp_sync(void)
{
    hip_fence();
    hip_wave_barrier();
}
EMU void wait_loads(u32 n) { hip_wait_loads(n); }
EMU void wait_lds(u32 n)
{
    if (!n) hip_fence();
}
EMU i32 opaque(i32 x) { return x; }
#define stays(x) ((void)(x))
EMU i32 again(i32 x, i32) { return x; }

/* --- lanes ------------------------------------------------------------------------------------------- */

EMU int emu_first(uint64_t active) { return __builtin_ctzll(active); }
EMU i32 __builtin_amdgcn_readfirstlane(i32 x)
{
    uint64_t on;
    const uint64_t *w = hip_exchange("readfirstlane", (u32)x, &on);
    return (i32)w[emu_first(on)];
}
EMU i32 __builtin_amdgcn_readlane(i32 x, i32 lane)
{
    uint64_t on;
    const uint64_t *w = hip_exchange("readlane", (u32)x | (u64)(u32)lane << 32, &on);
    u32 from = (u32)(w[emu_first(on)] >> 32);
    if (from != (u32)lane) hip_fail("readlane of lane %u, and of lane %d", from, lane);
    return (i32)w[(u32)lane % EMU_WAVE];
}
EMU i32 __builtin_amdgcn_ds_bpermute(i32 address, i32 x)
{ return (i32)hip_exchange("ds_bpermute", (u32)x, NULL)[(u32)address / 4 % EMU_WAVE]; }
EMU i32 __builtin_amdgcn_ds_permute(i32 address, i32 x)
{
    const uint64_t *w = hip_exchange("ds_permute", (u32)x | (u64)(u32)address << 32, NULL);
    i32 y = 0;
    for (u32 l = 0; l < EMU_WAVE; l++)
        if ((w[l] >> 32) / 4 % EMU_WAVE == emu_lane()) y = (i32)w[l];
    return y;
}
EMU u64 __builtin_amdgcn_ballot_w64(bool x)
{
    const uint64_t *w = hip_exchange("ballot", x, NULL);
    u64 y = 0;
    for (u32 l = 0; l < EMU_WAVE; l++) y |= (u64)w[l] << l;
    return y;
}
EMU u32 __builtin_amdgcn_ballot_w32(bool x) { return (u32)__builtin_amdgcn_ballot_w64(x); }

/* offset 15: quad_perm of bits 1:0 .. 7:6; else lane & bits 4:0 | bits 9:5 ^ bits 14:10, within 32 lanes. */
EMU i32 __builtin_amdgcn_ds_swizzle(i32 x, i32 pattern)
{
    const uint64_t *w = hip_exchange("ds_swizzle", (u32)x, NULL);
    u32 l = emu_lane(), p = (u32)pattern;
    if (p >= 0xc000) hip_fail("ds_swizzle pattern %x", p);
    u32 from = p & 0x8000 ? (l & ~3u) | (p >> 2 * (l & 3) & 3)
                          : (l & ~31u) | (((l & 31 & p) | (p >> 5 & 31)) ^ (p >> 10 & 31));
    return (i32)w[from];
}

/* The lane that a DPP control reads; -1: none. Rows are 16 lanes. */
EMU int emu_dpp(u32 ctrl)
{
    int l = (int)emu_lane(), row = l & ~15, in = l & 15, n = (int)(ctrl & 15);
    if (ctrl < 0x100) return (l & ~3) | (int)(ctrl >> 2 * (l & 3) & 3);
    if (ctrl > 0x100 && ctrl < 0x110) return in + n < 16 ? l + n : -1;   /* row_shl */
    if (ctrl > 0x110 && ctrl < 0x120) return in >= n ? l - n : -1;       /* row_shr */
    if (ctrl > 0x120 && ctrl < 0x130) return row | ((in + 16 - n) & 15); /* row_ror */
    if (ctrl == 0x140) return row | (15 - in);                           /* row_mirror */
    if (ctrl == 0x141) return (l & ~7) | (7 - (l & 7));                  /* row_half_mirror */
    if (EMU_CHIP < 0x1000) {
        if (ctrl == 0x142) return l >= 16 ? row - 1 : -1;  /* row_bcast:15 */
        if (ctrl == 0x143) return l >= 32 ? 31 : -1;       /* row_bcast:31 */
        if (ctrl >= 0x150 && ctrl < 0x160) return row | n; /* row_newbcast: gfx90a and later */
    } else {
        if (ctrl >= 0x150 && ctrl < 0x160) return row | n;        /* row_share */
        if (ctrl >= 0x160 && ctrl < 0x170) return row | (in ^ n); /* row_xmask */
    }
    hip_fail("DPP control %x", ctrl);
}
EMU i32 __builtin_amdgcn_update_dpp(i32 old, i32 x, i32 ctrl, i32 rows, i32 banks, bool bound)
{
    uint64_t on;
    const uint64_t *w = hip_exchange("dpp", (u32)x, &on);
    int from = emu_dpp((u32)ctrl), l = (int)emu_lane();
    if (!(rows >> l / 16 % 4 & 1) || !(banks >> l / 4 % 4 & 1)) return old;
    if (from < 0 || !(on >> from & 1)) return bound ? 0 : old;
    return (i32)w[from];
}
EMU i32 __builtin_amdgcn_mov_dpp(i32 x, i32 ctrl, i32 rows, i32 banks, bool bound)
{ return __builtin_amdgcn_update_dpp(0, x, ctrl, rows, banks, bound); }

/* v_permlane16 (x16: from the other row of the pair); gfx10 and later. Nibble i of the selects is lane i of
 * the row. */
EMU i32 emu_permlane(i32 x, u32 lo, u32 hi, u32 other)
{
    if (EMU_CHIP < 0x1000) hip_fail("permlane16 on gfx9");
    const uint64_t *w = hip_exchange("permlane16", (u32)x, NULL);
    u32 l = emu_lane(), in = l & 15;
    return (i32)w[((l & ~15u) ^ other) | ((in < 8 ? lo >> 4 * in : hi >> 4 * (in - 8)) & 15)];
}
EMU i32 __builtin_amdgcn_permlane16(i32, i32 x, i32 lo, i32 hi, bool, bool)
{ return emu_permlane(x, (u32)lo, (u32)hi, 0); }
EMU i32 __builtin_amdgcn_permlanex16(i32, i32 x, i32 lo, i32 hi, bool, bool)
{ return emu_permlane(x, (u32)lo, (u32)hi, 16); }

/* gfx950: lanes 32..63 of x against lanes 0..31 of y. */
typedef u32 emu_u32x2 __attribute__((vector_size(8)));
EMU emu_u32x2 __builtin_amdgcn_permlane32_swap(u32 x, u32 y, bool, bool)
{
    if (EMU_CHIP != 0x950) hip_fail("permlane32_swap on gfx%x", EMU_CHIP);
    u32 l = emu_lane();
    const uint64_t *w = hip_exchange("permlane32_swap", x | (u64)y << 32, NULL);
    emu_u32x2 r = { l < 32 ? x : (u32)(w[l - 32] >> 32), l < 32 ? (u32)w[l + 32] : y };
    return r;
}

/* --- arithmetic: v_exp_f32 and its like take denormals for zero and give none ------------------------ */

EMU float __builtin_amdgcn_exp2f(float x) { return emu_flush(__builtin_exp2f(x)); }
EMU float __builtin_amdgcn_logf(float x) { return __builtin_log2f(emu_flush(x)); }
EMU float __builtin_amdgcn_rcpf(float x) { return emu_flush(1 / emu_flush(x)); }
EMU float __builtin_amdgcn_rsqf(float x) { return 1 / __builtin_sqrtf(emu_flush(x)); }
EMU float __builtin_amdgcn_sqrtf(float x) { return __builtin_sqrtf(emu_flush(x)); }
EMU double __builtin_amdgcn_rcp(double x) { return 1 / x; }
/* v_sin_f32, v_cos_f32: of turns; v_fract_f32 is below 1 */
EMU float __builtin_amdgcn_fractf(float x)
{
    float y = x - __builtin_floorf(x);
    return y < 1 ? y : 0x1.fffffep-1f;
}
EMU float __builtin_amdgcn_sinf(float x) { return __builtin_sinf(x * 6.2831853f); }
EMU float __builtin_amdgcn_cosf(float x) { return __builtin_cosf(x * 6.2831853f); }
/* v_max and v_min take +0 for larger than -0 (the ISA guides' V_MAX_F32): lanes that combine in different
 * order hold the same. */
EMU float emu_fmaxf(float a, float b)
{ return a == b ? (__builtin_signbit(a) ? b : a) : __builtin_fmaxf(a, b); }
EMU float emu_fminf(float a, float b)
{ return a == b ? (__builtin_signbit(a) ? a : b) : __builtin_fminf(a, b); }
EMU double emu_fmax(double a, double b)
{ return a == b ? (__builtin_signbit(a) ? b : a) : __builtin_fmax(a, b); }
EMU double emu_fmin(double a, double b)
{ return a == b ? (__builtin_signbit(a) ? a : b) : __builtin_fmin(a, b); }
#define __builtin_fmaxf emu_fmaxf
#define __builtin_fminf emu_fminf
#define __builtin_fmax emu_fmax
#define __builtin_fmin emu_fmin
EMU float __builtin_amdgcn_fmed3f(float a, float b, float c)
{ return __builtin_fmaxf(__builtin_fminf(a, b), __builtin_fminf(__builtin_fmaxf(a, b), c)); }

/* gfx950: v_maximum3, v_minimum3, v_cvt_pk_bf16_f32, v_cvt_f32_fp8 */
EMU float emu_maximum(float a, float b) { return a != a ? a : b != b ? b : __builtin_fmaxf(a, b); }
EMU float emu_minimum(float a, float b) { return a != a ? a : b != b ? b : __builtin_fminf(a, b); }
#define __builtin_elementwise_maximum emu_maximum
#define __builtin_elementwise_minimum emu_minimum
EMU u32 emu_bf16(float x)
{
    u32 b;
    memcpy(&b, &x, 4);
    return (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 64 : (b + 0x7fffu + (b >> 16 & 1)) >> 16;
}
#if EMU_CHIP == 0x950
EMU u32 pack_bf16(float lo, float hi) { return (emu_bf16(lo) & 0xffff) | emu_bf16(hi) << 16; }
#endif
EMU float emu_fp8(u32 x, int man)
{
    int bias = man == 3 ? 7 : 15, e = (int)(x & 127) >> man, m = (int)x & ((1 << man) - 1);
    float y = man == 3 && (x & 127) == 127 ? __builtin_nanf("")
              : man == 2 && e == 31        ? (m ? __builtin_nanf("") : __builtin_inff())
              : e                          ? __builtin_ldexpf((float)(m | 1 << man), e - bias - man)
                                           : __builtin_ldexpf((float)m, 1 - bias - man);
    return x & 128 ? -y : y;
}
EMU float __builtin_amdgcn_cvt_f32_fp8(i32 w, i32 k)
{
    if (EMU_CHIP != 0x950) hip_fail("cvt_f32_fp8: FNUZ");
    return emu_fp8((u32)w >> 8 * k & 255, 3);
}
EMU float __builtin_amdgcn_cvt_f32_bf8(i32 w, i32 k)
{
    if (EMU_CHIP != 0x950) hip_fail("cvt_f32_bf8: FNUZ");
    return emu_fp8((u32)w >> 8 * k & 255, 2);
}

/* --- memory ------------------------------------------------------------------------------------------ */

EMU void emu_move(void *d, const void *s, const void *place, size_t bytes)
{
    if ((u64)place % bytes) hip_fail("an access of %d bytes to memory is misaligned", (int)bytes);
    hip_memory(place, bytes, place == d);
    memcpy(d, s, bytes);
}
EMU void ldg_b32(void *d, const void *p) { emu_move(d, p, p, 4); }
EMU void ldg_b64(void *d, const void *p) { emu_move(d, p, p, 8); }
EMU void ldg_b128(void *d, const void *p) { emu_move(d, p, p, 16); }
#define ldg_stream_b32 ldg_b32
#define ldg_stream_b64 ldg_b64
#define ldg_stream_b128 ldg_b128
#define stg_stream_b32 stg_b32
#define stg_stream_b64 stg_b64
#define stg_stream_b128 stg_b128
EMU void stg_b32(void *p, const void *s) { emu_move(p, s, p, 4); }
EMU void stg_b64(void *p, const void *s) { emu_move(p, s, p, 8); }
EMU void stg_b128(void *p, const void *s) { emu_move(p, s, p, 16); }

/* A raw buffer: an access is in whole or gives 0; one that is half in is nothing we emit. */
struct __amdgpu_buffer_rsrc_t {
    u8 *base;
    u32 bytes;
};
EMU __amdgpu_buffer_rsrc_t __builtin_amdgcn_make_buffer_rsrc(void *p, i16 stride, i64 bytes, i32)
{
    if (stride) hip_fail("a buffer with a stride");
    return { (u8 *)p, (u32)bytes };
}
EMU u8 *emu_in_buffer(__amdgpu_buffer_rsrc_t b, u32 at, u32 scalar, u32 bytes)
{
    u64 from = (u64)at + scalar;
    if (at >= b.bytes) return NULL;
    if (from + bytes > b.bytes)
        hip_fail("a buffer access of %u bytes at %llu of %u", bytes, (unsigned long long)from, b.bytes);
    if ((u64)(b.base + from) % (bytes > 4 ? 4 : bytes))
        hip_fail("a buffer access of %u bytes is misaligned", bytes);
    return b.base + from;
}
template <class T> EMU T emu_buffer_load(__amdgpu_buffer_rsrc_t b, i32 at, i32 scalar)
{
    T x;
    memset(&x, 0, sizeof x);
    const u8 *p = emu_in_buffer(b, (u32)at, (u32)scalar, sizeof x);
    if (p) {
        hip_memory(p, sizeof x, false);
        memcpy(&x, p, sizeof x);
    }
    return x;
}
template <class T> EMU void emu_buffer_store(const T &x, __amdgpu_buffer_rsrc_t b, i32 at, i32 scalar)
{
    u8 *p = emu_in_buffer(b, (u32)at, (u32)scalar, sizeof x);
    if (p) {
        hip_memory(p, sizeof x, true);
        memcpy(p, &x, sizeof x);
    }
}
typedef u32 emu_u32x4 __attribute__((vector_size(16)));
#define EMU_BUFFER(bits, type) \
    EMU type __builtin_amdgcn_raw_buffer_load_b##bits(__amdgpu_buffer_rsrc_t b, i32 at, i32 scalar, i32) \
    { return emu_buffer_load<type>(b, at, scalar); } \
    EMU void __builtin_amdgcn_raw_buffer_store_b##bits( \
        type x, __amdgpu_buffer_rsrc_t b, i32 at, i32 scalar, i32) \
    { emu_buffer_store<type>(x, b, at, scalar); }
EMU_BUFFER(8, u8)
EMU_BUFFER(16, u16)
EMU_BUFFER(32, u32)
EMU_BUFFER(64, emu_u32x2)
EMU_BUFFER(128, emu_u32x4)

/* Fibers take turns only where they wait: plain operations are atomic. */
template <class T, class V> EMU T emu_atomic_fetch_add(T *p, V x, int, int)
{
    hip_look(p);
    T was = *p;
    *p = (T)(was + (T)x);
    return was;
}
template <class T, class V> EMU T emu_atomic_fetch_and(T *p, V x, int, int)
{
    T was = *p;
    *p = was & (T)x;
    return was;
}
template <class T, class V> EMU T emu_atomic_fetch_or(T *p, V x, int, int)
{
    T was = *p;
    *p = was | (T)x;
    return was;
}
template <class T, class V> EMU T emu_atomic_fetch_xor(T *p, V x, int, int)
{
    T was = *p;
    *p = was ^ (T)x;
    return was;
}
template <class T, class V> EMU T emu_atomic_fetch_min(T *p, V x, int, int)
{
    T was = *p;
    if ((T)x < was) *p = (T)x;
    return was;
}
template <class T, class V> EMU T emu_atomic_fetch_max(T *p, V x, int, int)
{
    T was = *p;
    if (was < (T)x) *p = (T)x;
    return was;
}
template <class T, class V> EMU T emu_atomic_exchange(T *p, V x, int, int)
{
    T was = *p;
    *p = (T)x;
    return was;
}
template <class T> EMU T emu_atomic_load(const T *p, int, int) { return *p; }
template <class T, class V> EMU void emu_atomic_store(T *p, V x, int, int) { *p = (T)x; }
template <class T> EMU bool emu_atomic_compare_exchange_strong(T *p, T *was, T x, int, int, int)
{
    if (*p == *was) {
        *p = x;
        return true;
    }
    *was = *p;
    return false;
}
template <class T> struct EmuLds;
template <class T> EMU T *emu_lds_word(const EmuLds<T> &);
#define EMU_LDS_ATOMIC(name) \
    template <class T, class V> EMU T name(const EmuLds<T> &p, V x, int order, int scope) \
    { return name(emu_lds_word(p), x, order, scope); }
EMU_LDS_ATOMIC(emu_atomic_fetch_add)
EMU_LDS_ATOMIC(emu_atomic_fetch_and)
EMU_LDS_ATOMIC(emu_atomic_fetch_or)
EMU_LDS_ATOMIC(emu_atomic_fetch_xor)
EMU_LDS_ATOMIC(emu_atomic_fetch_min)
EMU_LDS_ATOMIC(emu_atomic_fetch_max)
template <class T> EMU T emu_atomic_load(const EmuLds<T> &p, int, int) { return *emu_lds_word(p); }
template <class T>
EMU bool emu_atomic_compare_exchange_strong(const EmuLds<T> &p, T *was, T x, int a, int b, int scope)
{ return emu_atomic_compare_exchange_strong(emu_lds_word(p), was, x, a, b, scope); }
#define __hip_atomic_fetch_add emu_atomic_fetch_add
#define __hip_atomic_fetch_and emu_atomic_fetch_and
#define __hip_atomic_fetch_or emu_atomic_fetch_or
#define __hip_atomic_fetch_xor emu_atomic_fetch_xor
#define __hip_atomic_fetch_min emu_atomic_fetch_min
#define __hip_atomic_fetch_max emu_atomic_fetch_max
#define __hip_atomic_exchange emu_atomic_exchange
#define __hip_atomic_load emu_atomic_load
#define __hip_atomic_store emu_atomic_store
#define __hip_atomic_compare_exchange_strong emu_atomic_compare_exchange_strong

/* --- LDS by byte offset ------------------------------------------------------------------------------ */

template <class T> struct EmuPlain {
    typedef T type;
};
template <class T> struct EmuPlain<const T> {
    typedef T type;
};
template <class T> struct EmuWord {
    typedef typename EmuPlain<T>::type V;
    u32 at;
    operator V() const
    {
        V x;
        hip_lds_load(&x, at, sizeof x);
        return x;
    }
    const EmuWord &operator=(const V &x) const
    {
        hip_lds_store(at, &x, sizeof x);
        return *this;
    }
};
template <class T> struct EmuLds {
    u32 at;
    EmuWord<T> operator*() const { return { at }; }
    EmuWord<T> operator[](int i) const { return { at + (u32)i * (u32)sizeof(T) }; }
};
template <class T> EMU T *emu_lds_word(const EmuLds<T> &p) { return (T *)hip_lds_atomic(p.at, sizeof(T)); }
#define LDS(T, a) (EmuLds<T>{ (u32)(a) })

/* The kernel's array stands for the workgroup's LDS, which is the machine's: only its addresses are used. */
EMU u32 shared_address(const void *p)
{
    static const void *first;
    if (!first) first = p;
    if (p != first) hip_fail("two arrays in LDS");
    return 0;
}

/* buffer_load_dword[x4] lds: of what lies beyond the buffer LDS gets 0; `to` is M0's, one for the wave. */
EMU void emu_lds_dma(u32 to, __amdgpu_buffer_rsrc_t b, u32 at, u32 bytes)
{
    static const u8 zero[16] __attribute__((aligned(16))) = { 0 };
    if (bytes == 16 && EMU_CHIP != 0x950) hip_fail("buffer_load_dwordx4 lds on gfx%x", EMU_CHIP);
    if (EMU_CHIP != 0x950 && EMU_CHIP != 0x942) hip_fail("buffer_load lds on gfx%x", EMU_CHIP);
    const u8 *p = emu_in_buffer(b, at, 0, bytes);
    if (p) hip_memory(p, bytes, false);
    hip_load_lds(p ? p : zero, to, bytes);
}
EMU void lds_dma_b32(u32 to, __amdgpu_buffer_rsrc_t b, u32 at) { emu_lds_dma(to, b, at, 4); }
EMU void lds_dma_b128(u32 to, __amdgpu_buffer_rsrc_t b, u32 at) { emu_lds_dma(to, b, at, 16); }
template <class T>
EMU void __builtin_amdgcn_global_load_lds(const void *from, EmuLds<T> to, u32 bytes, u32 offset, u32)
{
    if (bytes != 4 && !(EMU_CHIP == 0x950 && (bytes == 12 || bytes == 16)))
        hip_fail("global_load_lds of %u bytes on gfx%x", bytes, EMU_CHIP);
    hip_load_lds((const u8 *)from + offset, to.at + offset, bytes);
}

#include "tests/emu/hip_device_mma.h"
#include "tests/emu/kernel_arguments.h"

extern "C" __attribute__((weak)) int emu_mutant; /* of the machine for CUDA: which fault is active */

#define EMU_ENTRY(kernel, bytes, granule) \
    static void emu_lane_main(void *args) { emu_kernel(kernel, (const uint64_t *)args); } \
    extern "C" const char *emu_launch( \
        const uint64_t *args, int64_t blocks, int threads, int order, int late) \
    { \
        HipRun r = { EMU_CHIP, EMU_WAVE, bytes, blocks, threads, (order & 1) != 0, (late & 3) != 0, \
            emu_lane_main, (void *)args, granule }; \
        return hip_run(&r); \
    }
