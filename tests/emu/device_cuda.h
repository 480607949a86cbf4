/* device_cuda.h: functions that CUDA itself defines and emitted text calls. Part of device.h, which has those
 * of our own prelude. */

EMU void __syncthreads(void) { emu_syncthreads(); }
EMU void __threadfence(void) { emu_global_fence(); }
EMU float __uint_as_float(u32 x)
{
    float y;
    memcpy(&y, &x, 4);
    return y;
}
EMU u32 __float_as_uint(float x)
{
    u32 y;
    memcpy(&y, &x, 4);
    return y;
}
EMU double __longlong_as_double(i64 x)
{
    double y;
    memcpy(&y, &x, 8);
    return y;
}
EMU i64 __double_as_longlong(double x)
{
    i64 y;
    memcpy(&y, &x, 8);
    return y;
}
EMU float __double2float_rz(double x)
{
    float y = (float)x;
    return fabs((double)y) > fabs(x) ? nextafterf(y, 0) : y;
}
template <class T, class F> EMU T emu_saturate(F x, double lo, double hi, T min, T max)
{ return x != x ? 0 : x <= lo ? min : x >= hi ? max : (T)x; }
EMU i32 __float2int_rz(float x)
{ return emu_saturate<i32>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647); }
EMU u32 __float2uint_rz(float x) { return emu_saturate<u32>(x, 0, 4294967296.0, 0, ~0u); }
EMU i64 __float2ll_rz(float x)
{
    return emu_saturate<i64>(
        x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll);
}
EMU u64 __float2ull_rz(float x) { return emu_saturate<u64>(x, 0, 18446744073709551616.0, 0, ~0ull); }
EMU i32 __double2int_rz(double x)
{ return emu_saturate<i32>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647); }
EMU u32 __double2uint_rz(double x) { return emu_saturate<u32>(x, 0, 4294967296.0, 0, ~0u); }
EMU i64 __double2ll_rz(double x)
{
    return emu_saturate<i64>(
        x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll);
}
EMU u64 __double2ull_rz(double x) { return emu_saturate<u64>(x, 0, 18446744073709551616.0, 0, ~0ull); }
EMU float __fdiv_rn(float a, float b) { return a / b; }
EMU float __frcp_rn(float a) { return 1 / a; }
EMU float __fmul_rn(float a, float b) { return a * b; }
EMU double __dmul_rn(double a, double b) { return a * b; }
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
template <class T> EMU T atomicAdd(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    *p = old + x;
    return old;
}
template <class T> EMU T atomicCAS(T *p, T was, T x)
{
    emu_global_swap(p, &was, &x, sizeof *p);
    T old = *p;
    if (old == was) *p = x;
    return old;
}
template <class T> EMU T atomicMax(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    if (old < x) *p = x;
    return old;
}
template <class T> EMU T atomicMin(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    if (x < old) *p = x;
    return old;
}
template <class T> EMU T atomicExch(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    *p = x;
    return old;
}
template <class T> EMU T atomicAnd(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    *p = old & x;
    return old;
}
template <class T> EMU T atomicOr(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    *p = old | x;
    return old;
}
template <class T> EMU T atomicXor(T *p, T x)
{
    emu_global_atomic(p, sizeof *p);
    T old = *p;
    *p = old ^ x;
    return old;
}
EMU i32 __reduce_add_sync(u32 mask, i32 x)
{
    const EmuWord *w = emu_exchange("redux", &x, 4);
    u32 sum = 0;
    for (int l = 0; l < 32; l++) sum += w[l].w[0];
    return (i32)sum;
}
EMU i32 __reduce_max_sync(u32 mask, i32 x)
{
    const EmuWord *w = emu_exchange("redux", &x, 4);
    for (int l = 0; l < 32; l++) x = (i32)w[l].w[0] > x ? (i32)w[l].w[0] : x;
    return x;
}
EMU i32 __reduce_min_sync(u32 mask, i32 x)
{
    const EmuWord *w = emu_exchange("redux", &x, 4);
    for (int l = 0; l < 32; l++) x = (i32)w[l].w[0] < x ? (i32)w[l].w[0] : x;
    return x;
}
EMU bool __any_sync(u32 mask, bool x)
{
    u32 mine = x, any = 0;
    const EmuWord *w = emu_exchange("vote", &mine, 4);
    for (int l = 0; l < 32; l++) any |= (u32)w[l].w[0];
    return any != 0;
}
