/* device.h: what emitted CUDA C needs to run on the host, a fiber a thread. It stands before the emitted text, from which the functions with
 * inline assembly have been taken out: those are here, by the same names, as the PTX ISA (9.0) defines them.
 *
 * A CTA's fibers run in turn until each waits or ends; emu_order says forwards or backwards, emu_late whether asynchronous copies complete as
 * late (at the wait) or as early (at once) as allowed. Shared memory starts poisoned. A collective that not all threads come to is
 * reported as a deadlock; what lies beyond a copy's source or an access out of shared memory as an error. */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;

#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define EMU static inline

struct Dim3 { unsigned x, y, z; };
static Dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { EMU_SHARED = 256 * 1024, EMU_THREADS = 1024, EMU_STACK = 256 * 1024, EMU_COPIES = 4096 };
extern "C" { __align__(1024) u8 shared[EMU_SHARED]; }

/* --- fibers ------------------------------------------------------------------------------------------------------------------ */

struct Copy { u32 to; const void *from; u32 bytes, group; bool in; };
struct Fiber { ucontext_t start; jmp_buf at; bool fresh, done; u8 *stack; Copy copies[EMU_COPIES]; u32 n_copies, group; };
struct Gate { u32 count, turn; };       /* a barrier: the last to come opens it */
struct Word { u64 w[8]; };
struct Warp { Gate gate; Word slot[2][32]; };

static Fiber *emu_fiber;
static Warp emu_warp[EMU_THREADS / 32];
static Gate emu_bar[17];
static u8 emu_parity[EMU_THREADS];
static int emu_threads, emu_now, emu_order, emu_late;
static u64 emu_events;
static ucontext_t emu_main;
static jmp_buf emu_back;
static char emu_error[256];

[[noreturn]] EMU void emu_fail(const char *what)
{
    if (!*emu_error) snprintf(emu_error, sizeof emu_error, "block %u thread %u: %s", blockIdx.x, threadIdx.x, what);
    _longjmp(emu_back, 2);
}

EMU void emu_yield(void) { if (!_setjmp(emu_fiber[emu_now].at)) _longjmp(emu_back, 1); }

EMU void emu_pass(Gate *g, u32 n)
{
    u32 turn = g->turn;
    if (++g->count == n) { g->count = 0; g->turn++; emu_events++; return; }
    while (g->turn == turn) emu_yield();
}

EMU void __syncthreads(void) { emu_pass(&emu_bar[16], (u32)emu_threads); }

/* What every lane of the warp put there; meets all lanes. */
EMU const Word *emu_exchange(const void *mine, size_t bytes)
{
    Warp *w = &emu_warp[emu_now / 32];
    u8 p = emu_parity[emu_now] ^= 1;
    memcpy(&w->slot[p][emu_now % 32], mine, bytes);
    emu_pass(&w->gate, 32);
    return w->slot[p];
}

EMU u8 *emu_at(u32 a, u32 bytes)
{
    if (a % bytes || a + bytes > EMU_SHARED) emu_fail(a % bytes ? "misaligned access to shared memory" : "access out of shared memory");
    return shared + a;
}

static void (*emu_body)(void);
static void emu_start(void)
{
    emu_body();
    emu_fiber[emu_now].done = true;
    emu_events++;
    _longjmp(emu_back, 1);
}

static bool emu_block(void)
{
    memset(shared, 0xff, sizeof shared);
    memset(emu_bar, 0, sizeof emu_bar);
    memset(emu_warp, 0, sizeof emu_warp);
    for (int t = 0; t < emu_threads; t++) {
        Fiber *f = &emu_fiber[t];
        f->fresh = true; f->done = false; f->n_copies = f->group = 0;
        emu_parity[t] = 0;
    }
    for (;;) {
        volatile u64 before = emu_events;
        volatile int left = 0;
        for (volatile int k = 0; k < emu_threads; k++) {
            emu_now = emu_order ? emu_threads - 1 - k : k;
            threadIdx = { (unsigned)emu_now, 0, 0 };
            Fiber *f = &emu_fiber[emu_now];
            if (f->done) continue;
            left++;
            int why = _setjmp(emu_back);
            if (why == 2) return false;
            if (why) continue;
            if (!f->fresh) _longjmp(f->at, 1);
            f->fresh = false;
            getcontext(&f->start);
            f->start.uc_stack.ss_sp = f->stack;
            f->start.uc_stack.ss_size = EMU_STACK;
            f->start.uc_link = NULL;
            makecontext(&f->start, emu_start, 0);
            swapcontext(&emu_main, &f->start);
        }
        if (!left) return true;
        if (before == emu_events) { snprintf(emu_error, sizeof emu_error, "block %u: deadlock: %d threads wait", blockIdx.x, left); return false; }
    }
}

/* --- the kernel's arguments ---------------------------------------------------------------------------------------------------- */

template <class T> EMU T emu_word(const u64 *w) { T x; memcpy((void *)&x, w, sizeof x < 8 ? sizeof x : 8); return x; }
template <int... I> struct Seq {};
template <int N, int... I> struct Make : Make<N - 1, N - 1, I...> {};
template <int... I> struct Make<0, I...> { typedef Seq<I...> type; };
template <class... P, int... I> EMU void emu_call(void (*k)(P...), const u64 *w, Seq<I...>) { k(emu_word<P>(w + I)...); }
template <class... P> EMU void emu_kernel(void (*k)(P...), const u64 *w) { emu_call(k, w, typename Make<sizeof...(P)>::type()); }

#define EMU_ENTRY(kernel) \
    static const u64 *emu_args; \
    static void emu_run_kernel(void) { emu_kernel(kernel, emu_args); } \
    extern "C" const char *emu_launch(const u64 *args, i64 blocks, int threads, int order, int late) \
    { \
        emu_args = args; emu_body = emu_run_kernel; emu_threads = threads; emu_order = order; emu_late = late; *emu_error = 0; \
        blockDim = { (unsigned)threads, 1, 1 }; gridDim = { (unsigned)blocks, 1, 1 }; \
        emu_fiber = (Fiber *)calloc((size_t)threads, sizeof *emu_fiber); \
        u8 *stacks = (u8 *)malloc((size_t)threads * EMU_STACK); \
        for (int t = 0; t < threads; t++) emu_fiber[t].stack = stacks + (size_t)t * EMU_STACK; \
        for (i64 b = 0; b < blocks; b++) { blockIdx = { (unsigned)(order ? blocks - 1 - b : b), 0, 0 }; if (!emu_block()) break; } \
        free(stacks); free(emu_fiber); \
        return *emu_error ? emu_error : NULL; \
    }

/* --- CUDA's own functions ------------------------------------------------------------------------------------------------------ */

EMU float __uint_as_float(u32 x) { float y; memcpy(&y, &x, 4); return y; }
EMU u32 __float_as_uint(float x) { u32 y; memcpy(&y, &x, 4); return y; }
EMU double __longlong_as_double(i64 x) { double y; memcpy(&y, &x, 8); return y; }
EMU i64 __double_as_longlong(double x) { i64 y; memcpy(&y, &x, 8); return y; }
EMU float __double2float_rz(double x) { float y = (float)x; return fabs((double)y) > fabs(x) ? nextafterf(y, 0) : y; }
template <class T, class F> EMU T emu_saturate(F x, double lo, double hi, T min, T max) { return x != x ? 0 : x <= lo ? min : x >= hi ? max : (T)x; }
EMU i32 __float2int_rz(float x) { return emu_saturate<i32>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647); }
EMU u32 __float2uint_rz(float x) { return emu_saturate<u32>(x, 0, 4294967296.0, 0, ~0u); }
EMU i64 __float2ll_rz(float x) { return emu_saturate<i64>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll); }
EMU u64 __float2ull_rz(float x) { return emu_saturate<u64>(x, 0, 18446744073709551616.0, 0, ~0ull); }
EMU i32 __double2int_rz(double x) { return emu_saturate<i32>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647); }
EMU u32 __double2uint_rz(double x) { return emu_saturate<u32>(x, 0, 4294967296.0, 0, ~0u); }
EMU i64 __double2ll_rz(double x) { return emu_saturate<i64>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll); }
EMU u64 __double2ull_rz(double x) { return emu_saturate<u64>(x, 0, 18446744073709551616.0, 0, ~0ull); }
EMU float __fdiv_rn(float a, float b) { return a / b; }
EMU float __fsqrt_rn(float a) { return sqrtf(a); }
EMU float rsqrtf(float a) { return 1 / sqrtf(a); }
EMU double rsqrt(double a) { return 1 / sqrt(a); }
#define __logf logf
#define __log2f log2f
#define __sinf sinf
#define __cosf cosf
EMU u64 __umul64hi(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
EMU u32 __umulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
EMU int __popc(u32 x) { return __builtin_popcount(x); }
template <class T> EMU T atomicAdd(T *p, T x) { T old = *p; *p = old + x; return old; }
template <class T> EMU T atomicCAS(T *p, T was, T x) { T old = *p; if (old == was) *p = x; return old; }
template <class T> EMU T atomicExch(T *p, T x) { T old = *p; *p = x; return old; }
template <class T> EMU T atomicAnd(T *p, T x) { T old = *p; *p = old & x; return old; }
template <class T> EMU T atomicOr(T *p, T x) { T old = *p; *p = old | x; return old; }
template <class T> EMU T atomicXor(T *p, T x) { T old = *p; *p = old ^ x; return old; }

/* --- threads ------------------------------------------------------------------------------------------------------------------------ */

EMU u32 shared_address(const void *p) { return (u32)((const u8 *)p - shared); }
EMU int uniform(int x) { return (int)emu_exchange(&x, 4)[0].w[0]; }
EMU void bar_sync(int id, int threads) { emu_pass(&emu_bar[id], (u32)threads); }
EMU void bar_arrive(int id, int threads) { if (++emu_bar[id].count == (u32)threads) { emu_bar[id].count = 0; emu_bar[id].turn++; } emu_events++; }
EMU void fence_device(void) {}
EMU u32 shuffle_u32(u32 x, u32 mask) { return (u32)emu_exchange(&x, 4)[(u32)(emu_now % 32) ^ mask].w[0]; }
EMU u32 shuffle_index_u32(u32 x, u32 lane) { return (u32)emu_exchange(&x, 4)[lane % 32].w[0]; }
EMU i32 opaque(i32 x) { return x; }
EMU void warp_sync(void) { int x = 0; emu_exchange(&x, 4); }

/* --- number formats -------------------------------------------------------------------------------------------------------------------- */

EMU float f16_to_float(u16 x) { _Float16 h; memcpy(&h, &x, 2); return (float)h; }
EMU u16 float_to_f16(float x) { _Float16 h = (_Float16)x; u16 y; memcpy(&y, &h, 2); return y; }
EMU u16 double_to_f16(double x) { _Float16 h = (_Float16)x; u16 y; memcpy(&y, &h, 2); return y; }
EMU u32 emu_bf16(float x) { u32 b = __float_as_uint(x); return (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 64 : (b + 0x7fffu + (b >> 16 & 1)) >> 16; }
EMU u32 pack_f16(float lo, float hi) { return float_to_f16(lo) | (u32)float_to_f16(hi) << 16; }
EMU u32 pack_bf16(float lo, float hi) { return (emu_bf16(lo) & 0xffff) | emu_bf16(hi) << 16; }
EMU u32 to_tf32(u32 x) { return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u; }
EMU float max_f32(float a, float b) { return a != a ? a : b != b ? b : fmaxf(a, b); }
EMU float min_f32(float a, float b) { return a != a ? a : b != b ? b : fminf(a, b); }
#define EMU_PAIRS(op) \
    EMU u32 op##2_f16(u32 a, u32 b) { return pack_f16(op##_f32(f16_to_float((u16)a), f16_to_float((u16)b)), op##_f32(f16_to_float((u16)(a >> 16)), f16_to_float((u16)(b >> 16)))); } \
    EMU u32 op##2_bf16(u32 a, u32 b) { return pack_bf16(op##_f32(__uint_as_float(a << 16), __uint_as_float(b << 16)), op##_f32(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u))); }
EMU_PAIRS(max) EMU_PAIRS(min)
EMU float rcp_approx(float x) { return 1 / x; }
EMU float rcp_ulp(float x) { return 1 / x; }
EMU float ex2(float x) { return exp2f(x); }
EMU float sqrt_f32_approx(float x) { return sqrtf(x); }
EMU float rsqrt_f32_approx(float x) { return 1 / sqrtf(x); }
EMU float tanh_f32_approx(float x) { return tanhf(x); }

/* --- memory ----------------------------------------------------------------------------------------------------------------------------- */

EMU void emu_move(void *d, const void *s, size_t bytes)
{
    if ((u64)s % bytes && (u64)d % bytes) emu_fail("misaligned access to global memory");
    memcpy(d, s, bytes);
}
EMU void emu_load(void *d, const void *s, size_t bytes) { if ((u64)s % bytes) emu_fail("misaligned load from global memory"); memcpy(d, s, bytes); }
EMU void emu_store(void *d, const void *s, size_t bytes) { if ((u64)d % bytes) emu_fail("misaligned store to global memory"); memcpy(d, s, bytes); }
#define EMU_LOAD(name) \
    EMU void name##_b32(void *d, const void *p) { emu_load(d, p, 4); } \
    EMU void name##_b64(void *d, const void *p) { emu_load(d, p, 8); } \
    EMU void name##_b128(void *d, const void *p) { emu_load(d, p, 16); }
#define EMU_STORE(name) \
    EMU void name##_b32(void *p, const void *s) { emu_store(p, s, 4); } \
    EMU void name##_b64(void *p, const void *s) { emu_store(p, s, 8); } \
    EMU void name##_b128(void *p, const void *s) { emu_store(p, s, 16); }
EMU_LOAD(ldg) EMU_LOAD(ldg_nc) EMU_LOAD(ldg_stream) EMU_LOAD(ldg_nc_stream)
EMU_STORE(stg) EMU_STORE(stg_stream)
EMU u32 lds_b8(u32 a) { return *emu_at(a, 1); }
EMU u16 lds_b16(u32 a) { return *(u16 *)emu_at(a, 2); }
EMU u32 lds_w32(u32 a) { return *(u32 *)emu_at(a, 4); }
EMU u64 lds_w64(u32 a) { return *(u64 *)emu_at(a, 8); }
EMU void sts_w8(u32 a, u32 x) { *emu_at(a, 1) = (u8)x; }
EMU void sts_w16(u32 a, u16 x) { *(u16 *)emu_at(a, 2) = x; }
EMU void sts_w32(u32 a, u32 x) { *(u32 *)emu_at(a, 4) = x; }
EMU void sts_w64(u32 a, u64 x) { *(u64 *)emu_at(a, 8) = x; }
EMU void sts_b32(u32 a, const void *s) { memcpy(emu_at(a, 4), s, 4); }
EMU void sts_b64(u32 a, const void *s) { memcpy(emu_at(a, 8), s, 8); }
EMU void sts_b128(u32 a, const void *s) { memcpy(emu_at(a, 16), s, 16); }
EMU void lds_b32(void *d, u32 a) { memcpy(d, emu_at(a, 4), 4); }
EMU void lds_b64(void *d, u32 a) { memcpy(d, emu_at(a, 8), 8); }
EMU void lds_b128(void *d, u32 a) { memcpy(d, emu_at(a, 16), 16); }

EMU void emu_do(const Copy *c) { if (c->in) memcpy(emu_at(c->to, c->bytes), c->from, c->bytes); else memset(emu_at(c->to, c->bytes), 0, c->bytes); }
EMU void emu_copy(u32 a, const void *p, bool in, u32 bytes)
{
    Fiber *f = &emu_fiber[emu_now];
    Copy c = { a, p, bytes, f->group, in };
    if (in && (u64)p % bytes) emu_fail("misaligned source of cp.async");
    emu_at(a, bytes);
    if (!emu_late) { emu_do(&c); return; }
    if (f->n_copies == EMU_COPIES) emu_fail("more copies in flight than the emulator holds");
    memset(emu_at(a, bytes), 0xff, bytes);      /* nobody may still read what lay there, nor what will */
    f->copies[f->n_copies++] = c;
}
EMU void cp_async_b32(u32 a, const void *p, bool in) { emu_copy(a, p, in, 4); }
EMU void cp_async_b64(u32 a, const void *p, bool in) { emu_copy(a, p, in, 8); }
EMU void cp_async_b128(u32 a, const void *p, bool in) { emu_copy(a, p, in, 16); }
EMU void cp_async_commit(void) { emu_fiber[emu_now].group++; }
EMU void cp_async_wait(u32 n)
{
    Fiber *f = &emu_fiber[emu_now];
    u32 kept = 0;
    for (u32 k = 0; k < f->n_copies; k++) {
        if (f->copies[k].group + n < f->group) emu_do(&f->copies[k]);
        else f->copies[kept++] = f->copies[k];
    }
    f->n_copies = kept;
}

/* --- matrices: PTX ISA 9.7.14.5. Word j of lane l of an 8x8 matrix of 16-bit elements is row l/4, columns 2*(l%4).. ------------------- */

EMU void emu_ldmatrix(u32 *d, u32 a, int count, bool trans)
{
    const Word *w = emu_exchange(&a, 4);
    int lane = emu_now % 32;
    for (int j = 0; j < count; j++) {
        if (!trans) { memcpy(&d[j], emu_at((u32)w[8 * j + lane / 4].w[0], 16) + lane % 4 * 4, 4); continue; }
        u16 h[2];
        for (int k = 0; k < 2; k++) memcpy(&h[k], emu_at((u32)w[8 * j + 2 * (lane % 4) + k].w[0], 16) + lane / 4 * 2, 2);
        d[j] = h[0] | (u32)h[1] << 16;
    }
}
EMU void ldmatrix_x1(u32 *d, u32 a) { emu_ldmatrix(d, a, 1, false); }
EMU void ldmatrix_x2(u32 *d, u32 a) { emu_ldmatrix(d, a, 2, false); }
EMU void ldmatrix_x4(u32 *d, u32 a) { emu_ldmatrix(d, a, 4, false); }
EMU void ldmatrix_x1_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 1, true); }
EMU void ldmatrix_x2_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 2, true); }
EMU void ldmatrix_x4_trans(u32 *d, u32 a) { emu_ldmatrix(d, a, 4, true); }

EMU float emu_fp8(u32 x, int man)
{
    int bias = man == 3 ? 7 : 15, e = (int)(x & 127) >> man, m = (int)x & ((1 << man) - 1);
    float y = man == 3 && (x & 127) == 127 ? NAN : man == 2 && e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf((float)(m | 1 << man), e - bias - man) : ldexpf((float)m, 1 - bias - man);
    return x & 128 ? -y : y;
}
enum EmuType { EMU_F16, EMU_BF16, EMU_TF32, EMU_E4M3, EMU_E5M2, EMU_S8, EMU_U8 };
EMU double emu_element(u32 w, int k, EmuType t)
{
    switch (t) {
    case EMU_F16: return f16_to_float((u16)(w >> 16 * k));
    case EMU_BF16: return __uint_as_float(w >> 16 * k << 16);
    case EMU_TF32: return __uint_as_float(w & 0xffffe000u);
    case EMU_E4M3: return emu_fp8(w >> 8 * k & 255, 3);
    case EMU_E5M2: return emu_fp8(w >> 8 * k & 255, 2);
    case EMU_S8: return (i8)(w >> 8 * k);
    default: return (u8)(w >> 8 * k);
    }
}
/* m16n8k(8E): E elements a word. */
template <class D> EMU void emu_mma(D *d, const u32 *a, const u32 *b, int e, EmuType ta, EmuType tb)
{
    u32 mine[6] = { a[0], a[1], a[2], a[3], b[0], b[1] };
    const Word *w = emu_exchange(mine, sizeof mine);
    int lane = emu_now % 32;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), col = lane % 4 * 2 + i % 2;
        double sum = 0;
        i32 isum = 0;
        for (int k = 0; k < 8 * e; k++) {
            const u32 *x = (const u32 *)w[row % 8 * 4 + k % (4 * e) / e].w, *y = (const u32 *)w[col * 4 + k % (4 * e) / e].w;
            double p = emu_element(x[(row >= 8) + 2 * (k >= 4 * e)], k % e, ta), q = emu_element(y[4 + (k >= 4 * e)], k % e, tb);
            sum += p * q;
            isum += (i32)(ta >= EMU_S8 ? p * q : 0);
        }
        d[i] = ta >= EMU_S8 ? (D)((u32)(i32)d[i] + (u32)isum) : (D)((double)d[i] + sum);
    }
}
EMU void mma_m16n8k16_f16(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 2, EMU_F16, EMU_F16); }
EMU void mma_m16n8k16_bf16(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 2, EMU_BF16, EMU_BF16); }
EMU void mma_m16n8k8_tf32_f32(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 1, EMU_TF32, EMU_TF32); }
EMU void mma_m16n8k32_f8e4m3(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_E4M3, EMU_E4M3); }
EMU void mma_m16n8k32_f8e5m2(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_E5M2, EMU_E5M2); }
EMU void mma_m16n8k32_f8e4m3_f8e5m2(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_E4M3, EMU_E5M2); }
EMU void mma_m16n8k32_f8e5m2_f8e4m3(float *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_E5M2, EMU_E4M3); }
EMU void mma_m16n8k32_i8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_S8, EMU_S8); }
EMU void mma_m16n8k32_u8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_U8, EMU_U8); }
EMU void mma_m16n8k32_i8_u8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_S8, EMU_U8); }
EMU void mma_m16n8k32_u8_i8(i32 *d, const u32 *a, const u32 *b) { emu_mma(d, a, b, 4, EMU_U8, EMU_S8); }
EMU void mma_m8n8k4_f64_f64(double *d, const u32 *a, const u32 *b)
{
    u64 mine[2];
    memcpy(mine, a, 8); memcpy(mine + 1, b, 8);
    const Word *w = emu_exchange(mine, sizeof mine);
    int lane = emu_now % 32;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            d[i] = fma(__longlong_as_double((i64)w[lane / 4 * 4 + k].w[0]), __longlong_as_double((i64)w[(lane % 4 * 2 + i) * 4 + k].w[1]), d[i]);
}
