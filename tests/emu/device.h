/* device.h: what emitted CUDA C needs to run on the host. It stands before the emitted text, from which the
 * functions with inline assembly have been taken out: those are here, by the same names, as the PTX ISA (9.0)
 * defines them. What they do to other threads, to shared memory and in flight is emu.h's. No system header is
 * included: most of the time of a test goes into compiling. */
#include "tests/emu/emu.h"

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define EMU static inline
#define memcpy __builtin_memcpy

extern "C" {
u8 shared[1]; /* its address stands for dynamic shared memory */
float expf(float), exp2f(float), logf(float), log2f(float), sinf(float), cosf(float), tanhf(float),
    erff(float), sqrtf(float);
void sincosf(float, float *, float *);
float floorf(float), ceilf(float), rintf(float), fabsf(float), fmaxf(float, float), fminf(float, float),
    fmaf(float, float, float), nextafterf(float, float);
double exp(double), exp2(double), log(double), log2(double), sin(double), cos(double), tanh(double),
    erf(double), sqrt(double);
double floor(double), ceil(double), rint(double), fabs(double), fmax(double, double), fmin(double, double),
    fma(double, double, double);
}

/* --- planted faults: mutate.h --- */
#define EMU_WITHOUT(n) \
    if (emu_mutant == (n)) { \
    } else
#define EMU_PLUS(n, d) +(emu_mutant == (n) ? (d) : 0)

#include "tests/emu/kernel_arguments.h"

#define EMU_ENTRY(kernel, bytes, persistent, cluster, early_start) \
    static void emu_thread(const uint64_t *args) { emu_kernel(kernel, args); } \
    extern "C" EMU_API const char *emu_launch( \
        const uint64_t *args, int64_t blocks, int threads, int order, int late) \
    { \
        static char why[1200]; \
        EmuLaunch l = { emu_thread, args, blocks * (cluster), threads, 32, bytes, persistent, cluster, \
            order, late, early_start }; \
        return emu_run(&l, why, sizeof why) ? NULL : why; \
    }

#include "tests/emu/device_cuda.h"

/* --- clusters ----------------------------------------------------------------------------------------- */

EMU int cluster_rank(void) { return emu_cluster_rank(); }
EMU void cluster_arrive(void) { emu_cluster_arrive(); }
EMU void cluster_wait(void) { emu_cluster_wait(); }
EMU void send_f32(u32 a, int cta, float x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_f64(u32 a, int cta, double x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_i32(u32 a, int cta, i32 x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_u32(u32 a, int cta, u32 x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_i64(u32 a, int cta, i64 x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_u64(u32 a, int cta, u64 x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_index(u32 a, int cta, i64 x, u32 bar) { emu_send(a, cta, &x, sizeof x, bar); }
EMU void send_b64(u32 a, int cta, const void *s, u32 bar) { emu_send(a, cta, s, 8, bar); }
EMU void send_b128(u32 a, int cta, const void *s, u32 bar) { emu_send(a, cta, s, 16, bar); }

/* --- threads ----------------------------------------------------------------------------------------- */

EMU u32 shared_address(const void *p)
{ return ((u32)((const u8 *)p - shared) + EMU_BASE) | (u32)emu_cluster_rank() << 24; }
EMU int uniform(int x) { return (int)emu_exchange("shfl", &x, 4)[0].w[0]; }
EMU bool elect_lane(void)
{
    u32 x = 0;
    emu_exchange("shfl", &x, 4);
    return emu_lane() == 0;
}
EMU void bar_sync(int id, int threads) { emu_barrier(id, threads, true); }
EMU void bar_arrive(int id, int threads) { emu_barrier(id, threads, false); }
EMU void fence_device(void) { emu_global_fence(); }
EMU void fence_cluster(void) { emu_global_fence(); }
EMU void grid_wait(void) { emu_grid_wait(); }
EMU void grid_release(void) {}
EMU u32 shuffle_u32(u32 x, u32 mask) { return (u32)emu_exchange("shfl", &x, 4)[(u32)emu_lane() ^ mask].w[0]; }
EMU u32 shuffle_index_u32(u32 x, u32 lane) { return (u32)emu_exchange("shfl", &x, 4)[lane % 32].w[0]; }
EMU i32 opaque(i32 x) { return x; }
EMU void warp_sync(void) { emu_warp_sync(); }
EMU void stay_branch(void) {}

template <class T> EMU void emu_put(u32 a, T x) { emu_store(a, &x, sizeof x); }
EMU void emu_put(u32 a, float x) { emu_store(a, &x, 4); }
EMU void emu_put(u32 a, double x) { emu_store(a, &x, 8); }
/* C pointers into shared memory: (T *)(shared + offset) is written so. */
template <class T> struct EmuCell {
    u32 a;
    explicit EmuCell(u32 address) : a(address) {}
    operator T() const
    {
        T x;
        emu_load(a, &x, sizeof x);
        return x;
    }
    const EmuCell &operator=(T x) const
    {
        emu_put(a, x);
        return *this;
    }
    const EmuCell &operator=(const EmuCell &o) const { return *this = (T)o; }
};
template <class T> struct EmuArray {
    u32 a;
    explicit EmuArray(u32 offset) : a(EMU_BASE + offset) {}
    EmuCell<T> operator[](i64 k) const { return EmuCell<T>(a + (u32)(k * (i64)sizeof(T))); }
    EmuCell<T> operator*() const { return EmuCell<T>(a); }
};

#include "tests/emu/device_formats.h"

/* --- memory ------------------------------------------------------------------------------------------ */

EMU void emu_load_global(void *d, const void *s, size_t bytes)
{
    if ((u64)s % bytes) emu_fail("misaligned load of %d bytes from global memory", (int)bytes);
    emu_global_read(s, (u32)bytes);
    memcpy(d, s, bytes);
}
EMU void emu_store_global(void *d, const void *s, size_t bytes)
{
    if ((u64)d % bytes) emu_fail("misaligned store of %d bytes to global memory", (int)bytes);
    emu_global_write(d, s, (u32)bytes);
    memcpy(d, s, bytes);
}
/* *p in the prelude's loads and stores of single elements (cuda_source.c) */
template <class T> struct EmuGlobal {
    T *p;
    operator T() const
    {
        emu_global_read(p, sizeof *p);
        return *p;
    }
    void operator=(T x) const
    {
        emu_global_write(p, &x, sizeof x);
        *p = x;
    }
};
template <class T> struct EmuGlobal<const T> {
    const T *p;
    operator T() const
    {
        emu_global_read(p, sizeof *p);
        return *p;
    }
};
template <class T> EMU EmuGlobal<T> emu_global(T *p) { return EmuGlobal<T>{ p }; }
#define EMU_LOAD(name) \
    EMU void name##_b32(void *d, const void *p) { emu_load_global(d, p, 4); } \
    EMU void name##_b64(void *d, const void *p) { emu_load_global(d, p, 8); } \
    EMU void name##_b128(void *d, const void *p) { emu_load_global(d, p, 16); }
#define EMU_STORE(name) \
    EMU void name##_b32(void *p, const void *s) { emu_store_global(p, s, 4); } \
    EMU void name##_b64(void *p, const void *s) { emu_store_global(p, s, 8); } \
    EMU void name##_b128(void *p, const void *s) { emu_store_global(p, s, 16); }
EMU u32 byte_perm(u32 lo, u32 hi, u32 which)
{
    u32 y = 0;
    for (int k = 0; k < 4; k++) y |= (u32)(((u64)hi << 32 | lo) >> (which >> 4 * k & 7) * 8 & 255) << 8 * k;
    return y;
}
EMU u32 min2_u16(u32 a, u32 b)
{ return ((u16)a < (u16)b ? (u16)a : (u16)b) | (u32)(a >> 16 < b >> 16 ? a >> 16 : b >> 16) << 16; }
EMU u32 max2_u16(u32 a, u32 b)
{ return ((u16)a > (u16)b ? (u16)a : (u16)b) | (u32)(a >> 16 > b >> 16 ? a >> 16 : b >> 16) << 16; }
/* The sum and four products of bytes, which are signed or not. */
EMU u32 dot4_of(u32 v, bool v_signed, u32 w, bool w_signed, u32 sum)
{
    for (int k = 0; k < 32; k += 8) {
        const int a = v_signed ? (signed char)(v >> k) : (unsigned char)(v >> k);
        const int b = w_signed ? (signed char)(w >> k) : (unsigned char)(w >> k);
        sum += (u32)(a * b);
    }
    return sum;
}
EMU u32 dot4_i8_i8(u32 v, u32 w, u32 sum) { return dot4_of(v, true, w, true, sum); }
EMU u32 dot4_i8_u8(u32 v, u32 w, u32 sum) { return dot4_of(v, true, w, false, sum); }
EMU u32 dot4_u8_i8(u32 v, u32 w, u32 sum) { return dot4_of(v, false, w, true, sum); }
EMU u32 dot4_u8_u8(u32 v, u32 w, u32 sum) { return dot4_of(v, false, w, false, sum); }
EMU u64 wide_product(u32 a, u32 b) { return (u64)a * b; }
EMU_LOAD(ldg)
EMU_LOAD(ldg_nc)
EMU_LOAD(ldg_stream)
EMU_LOAD(ldg_nc_stream)
EMU_LOAD(ldg_keep)
EMU_LOAD(ldg_nc_keep)
EMU_LOAD(ldg_bypass)
EMU_LOAD(ldg_nc_bypass)
EMU_STORE(stg)
EMU_STORE(stg_stream)
EMU_STORE(stg_keep)
EMU_STORE(stg_bypass)
EMU u64 evict_first(void) { return 1; }
EMU u64 evict_last(void) { return 2; }
EMU void stg_if_b8(bool c, void *p, u32 x)
{
    if (c) emu_store_global(p, &x, 1);
}
EMU void stg_if_b16(bool c, void *p, u32 x)
{
    if (c) emu_store_global(p, &x, 2);
}
EMU void stg_if_b32(bool c, void *p, u32 x)
{
    if (c) emu_store_global(p, &x, 4);
}
EMU void stg_if_b64(bool c, void *p, const u32 *w)
{
    if (c) emu_store_global(p, w, 8);
}
EMU void stg_if_b128(bool c, void *p, const u32 *w)
{
    if (c) emu_store_global(p, w, 16);
}
EMU void red_add_f32_b64(void *p, const void *s) { emu_red_f32(p, s, 2); }
EMU void red_add_f32_b128(void *p, const void *s) { emu_red_f32(p, s, 4); }
#define stg_if_stream_b32 stg_if_b32
#define stg_if_stream_b64 stg_if_b64
#define stg_if_stream_b128 stg_if_b128
#define stg_if_keep_b32 stg_if_b32
#define stg_if_keep_b64 stg_if_b64
#define stg_if_keep_b128 stg_if_b128
#define stg_if_bypass_b32 stg_if_b32
#define stg_if_bypass_b64 stg_if_b64
#define stg_if_bypass_b128 stg_if_b128
EMU u32 lds_b8(u32 a)
{
    u8 x;
    emu_load(a, &x, 1);
    return x;
}
EMU u16 lds_b16(u32 a)
{
    u16 x;
    emu_load(a, &x, 2);
    return x;
}
EMU u32 lds_w32(u32 a)
{
    u32 x;
    emu_load(a, &x, 4);
    return x;
}
EMU int first_lane_word(u32 a, int lane)
{
    u32 x = 0;
    if (lane == 0) emu_load(a, &x, 4);
    return uniform((int)x);
}
EMU u64 lds_w64(u32 a)
{
    u64 x;
    emu_load(a, &x, 8);
    return x;
}
EMU void sts_w8(u32 a, u32 x)
{
    u8 y = (u8)x;
    emu_store(a, &y, 1);
}
EMU void sts_w16(u32 a, u16 x) { emu_store(a, &x, 2); }
EMU void sts_w32(u32 a, u32 x) { emu_store(a, &x, 4); }
EMU void sts_w64(u32 a, u64 x) { emu_store(a, &x, 8); }
EMU void sts_b32(u32 a, const void *s) { emu_store(a, s, 4); }
EMU void sts_b64(u32 a, const void *s) { emu_store(a, s, 8); }
EMU void sts_b128(u32 a, const void *s) { emu_store(a, s, 16); }
#define EMU_SHARED_RED(name, T, value) \
    EMU void name(u32 a, T x) \
    { \
        T *p = (T *)emu_shared_atomic(a, sizeof x); \
        *p = value; \
    }
EMU_SHARED_RED(shared_add_u32, u32, *p + x)
EMU_SHARED_RED(shared_add_u64, u64, *p + x)
EMU_SHARED_RED(shared_add_f32, float, *p + x)
EMU_SHARED_RED(shared_add_f64, double, *p + x)
EMU_SHARED_RED(shared_max_i32, i32, *p > x ? *p : x)
EMU_SHARED_RED(shared_max_u32, u32, *p > x ? *p : x)
EMU_SHARED_RED(shared_max_i64, i64, *p > x ? *p : x)
EMU_SHARED_RED(shared_max_u64, u64, *p > x ? *p : x)
EMU_SHARED_RED(shared_min_i32, i32, *p < x ? *p : x)
EMU_SHARED_RED(shared_min_u32, u32, *p < x ? *p : x)
EMU_SHARED_RED(shared_min_i64, i64, *p < x ? *p : x)
EMU_SHARED_RED(shared_min_u64, u64, *p < x ? *p : x)
EMU_SHARED_RED(shared_and_u32, u32, *p &x)
EMU_SHARED_RED(shared_and_u64, u64, *p &x)
EMU_SHARED_RED(shared_or_u32, u32, *p | x)
EMU_SHARED_RED(shared_or_u64, u64, *p | x)
EMU_SHARED_RED(shared_xor_u32, u32, *p ^ x)
EMU_SHARED_RED(shared_xor_u64, u64, *p ^ x)
EMU u32 shared_now_u32(u32 a) { return *(u32 *)emu_shared_atomic(a, 4); }
EMU u64 shared_now_u64(u32 a) { return *(u64 *)emu_shared_atomic(a, 8); }
template <class T> EMU T emu_shared_swap(u32 a, T was, T x)
{
    T *p = (T *)emu_shared_atomic(a, sizeof x), old = *p;
    if (old == was) *p = x;
    return old;
}
EMU u32 shared_swap_u32(u32 a, u32 was, u32 x) { return emu_shared_swap(a, was, x); }
EMU u64 shared_swap_u64(u32 a, u64 was, u64 x) { return emu_shared_swap(a, was, x); }
EMU void lds_b32(void *d, u32 a) { emu_load(a, d, 4); }
EMU void lds_b64(void *d, u32 a) { emu_load(a, d, 8); }
EMU void lds_b128(void *d, u32 a) { emu_load(a, d, 16); }

EMU void cp_async_b32(u32 a, const void *p, bool in) { emu_copy(a, p, 4, in); }
EMU void cp_async_b64(u32 a, const void *p, bool in) { emu_copy(a, p, 8, in); }
EMU void cp_async_b128(u32 a, const void *p, bool in) { emu_copy(a, p, 16, in); }
EMU void copy_tail_b128(u32 a, const void *p, i32 n)
{
    u32 w[4] = { 0 };
    if (n < 1 || n > 15) emu_fail("a tail of %d bytes", n);
    for (int i = 0; i < n; i++) {
        u8 x;
        emu_load_global(&x, (const u8 *)p + i, 1);
        w[i / 4] |= (u32)x << 8 * (i % 4);
    }
    sts_b128(a, w);
}
EMU void cp_async_part_b128(u32 a, const void *p, i32 n) { emu_copy_part(a, p, 16, (u32)n); }
EMU void cp_async_commit(void) { emu_copy_commit(); }
EMU void cp_async_wait(u32 n) { emu_copy_wait(n); }

/* --- products of a warp ------------------------------------------------------------------------------ */

EMU void ldmatrix_x1(u32 *d, u32 a) { emu_ldmatrix(d, a, 1, false); }
EMU void ldmatrix_x2(u32 *d, u32 a) { emu_ldmatrix(d, a, 2, false); }
EMU void ldmatrix_x4(u32 *d, u32 a) { emu_ldmatrix(d, a, 4, false); }
EMU void ldmatrix_x1_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 1, true); }
EMU void ldmatrix_x2_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 2, true); }
EMU void ldmatrix_x4_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 4, true); }
EMU void mma_m16n8k16_f16(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_F16, EMU_F16); }
EMU void mma_m16n8k16_bf16(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_BF16, EMU_BF16); }
EMU void mma_m16n8k8_tf32_f32(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_TF32, EMU_TF32); }
EMU u32 hidden_zero(void) { return 0; }
EMU u32 anew_word(u32 x) { return x; }
EMU void mma_m16n8k32_f8e4m3(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_E4M3, EMU_E4M3); }
EMU void mma_m16n8k32_f8e5m2(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_E5M2, EMU_E5M2); }
EMU void mma_m16n8k32_f8e4m3_f8e5m2(float *d, const u32 *a, const u32 *b)
{ emu_mma(d, a, b, EMU_E4M3, EMU_E5M2); }
EMU void mma_m16n8k32_f8e5m2_f8e4m3(float *d, const u32 *a, const u32 *b)
{ emu_mma(d, a, b, EMU_E5M2, EMU_E4M3); }
EMU void mma_m16n8k32_i8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_S8, EMU_S8); }
EMU void mma_m16n8k32_u8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_U8, EMU_U8); }
EMU void mma_m16n8k32_i8_u8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_S8, EMU_U8); }
EMU void mma_m16n8k32_u8_i8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, EMU_U8, EMU_S8); }
EMU void mma_m8n8k4_f64_f64(double *d, const u32 *a, const u32 *b) { emu_mma_f64(d, a, b); }
EMU void mma_m16n8k16_f64_f64(double *d, const u32 *a, const u32 *b) { emu_mma_f64_k16(d, a, b); }

/* --- sm_90a ------------------------------------------------------------------------------------------ */

EMU void mbar_init(u32 b, u32 n) { emu_mbar_init(b, n); }
EMU void mbar_expect(u32 b, u32 bytes) { emu_mbar_arrive(b, bytes); }
EMU void mbar_arrive(u32 b) { emu_mbar_arrive(b, 0); }
EMU void mbar_wait(u32 b, u32 phase) { emu_mbar_wait(b, phase); }
EMU void mbar_wait_acquire(u32 b, u32 phase) { emu_mbar_wait_acquire(b, phase); }
EMU bool mbar_test(u32 b, u32 phase) { return emu_mbar_test(b, phase); }
EMU void mbar_arrive_at(u32 b, int cta) { emu_mbar_arrive_at(b, cta); }
EMU void mbar_wait_cluster(u32 b, u32 phase) { emu_mbar_wait_cluster(b, phase); }
EMU void mbar_watch_at(const void *, u32 b, u32, u32 phase, u32)
{
    emu_mbar_wait_cluster(b, phase);
    emu_mbar_wait_acquire(b, phase); /* ends at once */
}
EMU void fence_mbarrier_init(void) { emu_mbar_fence(); }
EMU void setmaxnreg_inc(int n) { emu_registers(n, true); }
EMU void setmaxnreg_dec(int n) { emu_registers(n, false); }
EMU i32 tma_coordinate(i64 x)
{ return x > 0x7fffffff ? 0x7fffffff : x < -(i64)0x80000000u ? (i32)0x80000000u : (i32)x; }
template <class... C> EMU void emu_tma(u32 d, const void *m, u32 bar, C... c)
{
    const i32 at[] = { c... };
    emu_tma_load(d, m, bar, (int)sizeof...(C), at);
}
#define tma_load_1d emu_tma
#define tma_load_2d emu_tma
#define tma_load_3d emu_tma
#define tma_load_4d emu_tma
#define tma_load_5d emu_tma
EMU void tma_im2col_3d(u32 d, const void *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 o0)
{
    i32 at[] = { c0, c1, c2 }, tap[] = { o0 };
    emu_tma_im2col(d, m, bar, 3, at, tap);
}
EMU void tma_im2col_4d(u32 d, const void *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 o0, i32 o1)
{
    i32 at[] = { c0, c1, c2, c3 }, tap[] = { o0, o1 };
    emu_tma_im2col(d, m, bar, 4, at, tap);
}
EMU void tma_im2col_5d(
    u32 d, const void *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3, i32 c4, i32 o0, i32 o1, i32 o2)
{
    i32 at[] = { c0, c1, c2, c3, c4 }, tap[] = { o0, o1, o2 };
    emu_tma_im2col(d, m, bar, 5, at, tap);
}
template <class... C> EMU void emu_tma_all(u32 d, const void *m, u32 bar, int ctas, C... c)
{
    const i32 at[] = { c... };
    emu_tma_multicast(d, m, bar, ctas, (int)sizeof...(C), at);
}
#define tma_multicast_2d emu_tma_all
#define tma_multicast_3d emu_tma_all
#define tma_multicast_4d emu_tma_all
#define tma_multicast_5d emu_tma_all
template <class... C> EMU void emu_tma_out(const void *m, u32 s, C... c)
{
    const i32 at[] = { c... };
    emu_tma_store(s, m, (int)sizeof...(C), at);
}
template <class... C> EMU void emu_tma_out_add(const void *m, u32 s, C... c)
{
    const i32 at[] = { c... };
    emu_tma_store_add(s, m, (int)sizeof...(C), at);
}
template <class... C> EMU void emu_tma_out_im2col(const void *m, u32 s, C... c)
{
    i32 at[] = { (i32)c... };
    emu_tma_store_im2col(s, m, (int)sizeof...(C), at);
}
#define tma_store_im2col_3d emu_tma_out_im2col
#define tma_store_im2col_4d emu_tma_out_im2col
#define tma_store_im2col_5d emu_tma_out_im2col
#define tma_store_add_2d emu_tma_out_add
#define tma_store_add_3d emu_tma_out_add
#define tma_store_add_4d emu_tma_out_add
#define tma_store_add_5d emu_tma_out_add
#define tma_store_2d emu_tma_out
#define tma_store_3d emu_tma_out
#define tma_store_4d emu_tma_out
#define tma_store_5d emu_tma_out
#define tma_load_stream_1d emu_tma
#define tma_load_stream_2d emu_tma
#define tma_load_stream_3d emu_tma
#define tma_load_stream_4d emu_tma
#define tma_load_stream_5d emu_tma
#define tma_load_keep_1d emu_tma
#define tma_load_keep_2d emu_tma
#define tma_load_keep_3d emu_tma
#define tma_load_keep_4d emu_tma
#define tma_load_keep_5d emu_tma
#define tma_multicast_stream_2d emu_tma_all
#define tma_multicast_stream_3d emu_tma_all
#define tma_multicast_stream_4d emu_tma_all
#define tma_multicast_stream_5d emu_tma_all
#define tma_multicast_keep_2d emu_tma_all
#define tma_multicast_keep_3d emu_tma_all
#define tma_multicast_keep_4d emu_tma_all
#define tma_multicast_keep_5d emu_tma_all
#define tma_store_stream_2d emu_tma_out
#define tma_store_stream_3d emu_tma_out
#define tma_store_stream_4d emu_tma_out
#define tma_store_stream_5d emu_tma_out
#define tma_store_keep_2d emu_tma_out
#define tma_store_keep_3d emu_tma_out
#define tma_store_keep_4d emu_tma_out
#define tma_store_keep_5d emu_tma_out
EMU void prefetch_map(const void *) {}
EMU void bulk_commit(void) { emu_bulk_commit(); }
EMU void bulk_wait_read(u32 n) { emu_bulk_wait(n); }
EMU void bulk_wait(u32 n) { emu_bulk_wait(n), emu_bulk_written(n); }
EMU void fence_proxy_async(void) { emu_proxy_fence(); }
EMU void fence_proxy_async_global(void) {}
EMU void stmatrix_x4(u32 a, const u32 *s) { emu_stmatrix(a, s, 4, false); }
EMU void stmatrix_x2_trans(u32 a, const u32 *s) { emu_stmatrix(a, s, 2, true); }
EMU void stmatrix_x4_trans(u32 a, const u32 *s) { emu_stmatrix(a, s, 4, true); }
EMU void wgmma_fence(void) { emu_wgmma_fence(); }
EMU void wgmma_commit(void) { emu_wgmma_commit(); }
EMU void wgmma_wait(u32 n) { emu_wgmma_wait(n); }
#define pin_float(x) ((void)(x))
#define pin_word(x) ((void)(x))
#define pin_pointer(x) ((void)(x))
