/* gemm (T=f16, ACC=f32, TO=f16, TF32=false, TM=128, TN=128, TK=32) for hip:gfx942
 * programs: one a CTA
 * threads: 256, at most 512 registers each
 * assumes: addresses at multiples of 16 bytes, A, B, C with last stride 1 and rows at multiples of 16 bytes; K, N multiples of 16; extents from 1 to 2^28 - 1
 * tiles: reads A [128, 32], B [32, 128]; writes C [128, 128]
 * products: mfma_32x32x8_f16
 * shared memory: 32768 of 65536 bytes
 *        0  A_ring       2 x f16[128, 32], 16384 bytes
 *    16384  B_ring       2 x f16[32, 128], 16384 bytes
 */
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, wait; } CheckRecord;
/* clang by itself has no names for these; hipcc and hipRTC have */
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#ifndef KERNEL
#define KERNEL(threads, waves) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(waves)))
#endif
/* byte offset in the workgroup's LDS */
static __device__ __forceinline__ u32 shared_address(const void *p) { return (u32)(unsigned long)(__attribute__((address_space(3))) const void *)p; /* __builtin_amdgcn_ */ }
/* the same value in all lanes, known as such to the compiler */
static __device__ __forceinline__ int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }
static __device__ __forceinline__ int thread_id(void) { return (int)__builtin_amdgcn_workitem_id_x(); }
static __device__ __forceinline__ u32 block_id(void) { return (u32)__builtin_amdgcn_workgroup_id_x(); }
static __device__ __forceinline__ i32 rem_i32(i32 a, i32 b) { return b == 0 || b == -1 ? (i32)0 : (i32)(a % b); }
static __device__ __forceinline__ i32 div_i32(i32 a, i32 b) { return b == 0 ? (i32)0 : b == -1 ? (i32)(0 - (u64)a) : (i32)(a / b); }
/* all waves have come here, and what they did to LDS is done. Loads from memory stay in flight */
static __device__ __forceinline__ void block_barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); __builtin_amdgcn_s_barrier(); asm volatile("" ::: "memory"); }
#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)
typedef __amdgpu_buffer_rsrc_t Buffer;
#else
typedef struct Buffer { const u8 *base; u32 bytes; } Buffer;    /* __builtin_amdgcn_ */
#endif
#define BUFFER_WORD3 0x27000
#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)
/* p is the same in all lanes, which the compiler need not know */
static __device__ __forceinline__ Buffer make_buffer(const void *p, u32 bytes) { const u64 a = (u64)p; const u32 lo = (u32)__builtin_amdgcn_readfirstlane((int)(u32)a), hi = (u32)__builtin_amdgcn_readfirstlane((int)(u32)(a >> 32)); return __builtin_amdgcn_make_buffer_rsrc((void *)((u64)hi << 32 | lo), 0, (int)bytes, BUFFER_WORD3); }
#else
static __device__ __forceinline__ Buffer make_buffer(const void *p, u32 bytes) { Buffer b = { (const u8 *)p, bytes }; return b; }
#endif
typedef u32 u32x4 __attribute__((vector_size(16)));
static __device__ __forceinline__ void ldg_b128(void *d, const void *p) { const u32x4 x = *(const u32x4 *)p; u32 *w = (u32 *)d; w[0] = x[0]; w[1] = x[1]; w[2] = x[2]; w[3] = x[3]; }
#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)
static __device__ __forceinline__ void buffer_load_b128(void *d, Buffer b, u32 at) { const u32x4 x = __builtin_amdgcn_raw_buffer_load_b128(b, (int)at, 0, 0); __builtin_memcpy(d, &x, sizeof x); }
#else
static __device__ __forceinline__ void buffer_load_b128(void *d, Buffer b, u32 at) { u32 *w = (u32 *)d; for (int i = 0; i < 4; i++) w[i] = 0; if (at < b.bytes) ldg_b128(d, b.base + at); }
#endif
/* only instructions of the kinds in mask are moved across: 0x78f all but loads and stores */
#define sched_barrier(mask) __builtin_amdgcn_sched_barrier(mask)
/* machine: LDS(type, offset) points there */
#ifndef LDS
#define LDS(T, a) ((__attribute__((address_space(3))) T *)(a))
#endif
static __device__ __forceinline__ void sts_b128(u32 a, const void *s) { const u32 *w = (const u32 *)s; const u32x4 x = { w[0], w[1], w[2], w[3] }; *LDS(u32x4, a) = x; }
static __device__ __forceinline__ void sts_b32(u32 a, const void *s) { *LDS(u32, a) = *(const u32 *)s; }
/* x, computed anew for each step of a loop: what follows from it is not kept in registers from step to step */
static __device__ __forceinline__ i32 again(i32 x, i32 step) { asm("" : "+v"(x) : "s"(step)); return x; }
/* machine */
static __device__ __forceinline__ void mfma_32x32x8_f16(float *d, const u32 *a, const u32 *b)
{
    typedef float D __attribute__((vector_size(64)));
    typedef u32 W __attribute__((vector_size(8)));
    typedef _Float16 T __attribute__((vector_size(8)));
    D c = { d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15] };
    const W x = { a[0], a[1] }, y = { b[0], b[1] };
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(T, x), __builtin_bit_cast(T, y), c, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 16; i++) d[i] = c[i];
}
static __device__ __forceinline__ void lds_b128(void *d, u32 a) { const u32x4 x = *LDS(const u32x4, a); u32 *w = (u32 *)d; w[0] = x[0]; w[1] = x[1]; w[2] = x[2]; w[3] = x[3]; }
/* the next `size` instructions of a kind: 8 matrix, 32 load, 256 LDS read, 512 LDS write */
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)
#define sched_group(mask, size) __builtin_amdgcn_sched_group_barrier(mask, size, 0)
#else /* a hint: compilers before LLVM 16 have none */
#define sched_group(mask, size)
#endif
static __device__ __forceinline__ u16 float_to_f16(float x) { return __builtin_bit_cast(u16, (_Float16)x); }
static __device__ __forceinline__ u32 pack_f16(float lo, float hi) { return (u32)float_to_f16(lo) | (u32)float_to_f16(hi) << 16; }
static __device__ __forceinline__ void stg_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; const u32x4 x = { w[0], w[1], w[2], w[3] }; *(u32x4 *)p = x; }

#define SCRATCH 32768

KERNEL(256, 2)
void gemm(const i64 grid0,
    const i64 grid1,
    const i64 K_,
    const u16 *const __restrict__ A,
    const i64 A_stride0,
    const i64 M_,
    const u16 *const __restrict__ B,
    const i64 B_stride0,
    const i64 N_,
    u16 *const C,
    const i64 C_stride0)
{
    __shared__ __attribute__((aligned(1024))) u8 shared[32768];
    const u32 shared_base = shared_address(shared);
    (void)shared_base;
    const int tid = thread_id(), lane = tid & 63, warp = uniform(tid >> 6);
    (void)tid; (void)lane; (void)warp;
    const int c0 = (lane >> 2) + warp * 16;
    const int c1 = lane % 4 * 8;
    const int c2 = lane % 4 * 2 + warp * 8;
    const int c3 = (lane >> 2) * 8;
    const int c4 = lane % 32 + (warp >> 1) * 64;
    const int c5 = (lane >> 5) * 8 + warp % 2 * 64;
    const int c6 = (lane >> 5) * 8;
    const int c7 = lane % 4 + (lane >> 2) % 2 * 8 + (lane >> 3) % 2 * 4 + (lane >> 4) % 2 * 16 + warp % 2 * 64;
    /* which programs, in which order */
#line 15 "examples/kernels/gemm.tile"
    const i64 program_57 = (i64)((i32)block_id());
    const i32 cast_58 = (i32)(program_57);
    const i32 cast_60 = (i32)(grid0);
    const i32 cast_62 = (i32)(grid1);
    const i32 min_64 = (cast_60 < 8 ? cast_60 : 8);
    const i32 mul_65 = (min_64 * cast_62);
    const i32 div_66 = (i32)((u32)cast_58 / (u32)mul_65);
    const i32 rem_67 = (i32)((u32)cast_58 % (u32)mul_65);
    const i32 mul_68 = (i32)((u32)div_66 * (u32)min_64);
    const i32 sub_69 = (i32)((u32)cast_60 - (u32)mul_68);
    const i32 min_70 = (min_64 < sub_69 ? min_64 : sub_69);
    const i32 rem_71 = rem_i32(rem_67, min_70);
    const i32 add_72 = (i32)((u32)mul_68 + (u32)rem_71);
    const i32 div_73 = div_i32(rem_67, min_70);
    const i32 mul_74 = (i32)((u32)div_73 * (u32)cast_60);
    const i32 add_75 = (i32)((u32)mul_74 + (u32)add_72);
    const i64 cast_76 = (i64)(add_75);
    const i32 cast_77 = (i32)(cast_76);
    const i32 rem_79 = rem_i32(cast_77, (i32)grid0);
    const i32 div_80 = div_i32(cast_77, (i32)grid0);
    /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
    const i32 cdiv_11 = (((i32)K_ + 31) / 32);
    /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
    const i32 mul_14 = (rem_79 * 128);
    /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
    const i32 mul_15 = (div_80 * 128);
    /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
    block_barrier();
    const u32 A_ring_84 = shared_base + 0;    /* 2 x 8192 bytes */
    const u32 B_ring_85 = shared_base + 16384;    /* 2 x 8192 bytes */
    const bool lt_86 = (0 < cdiv_11);
    /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
    const i32 mul_89 = (0 * 32);
    const u16 *const A_t0 = A + (i64)mul_14 * A_stride0 + (i64)mul_89;
    u32 a_90[8];
    const Buffer buffer_t1 = make_buffer(A_t0, lt_86 ? 0xfffffff0u : 0u);
    const u32 at_t2 = (u32)(c0 * (i32)A_stride0 + c1) * 2u;
#pragma unroll
    for (int v = 0; v < 2; v++) {
        buffer_load_b128(&a_90[4 * v], buffer_t1, ((u32)(mul_14 + (c0 + (64 * v))) < (u32)M_ &  (u32)(mul_89 + c1) < (u32)K_) ? at_t2 + (u32)((64 * v) * (i32)A_stride0) * 2u : ~0u);
    }
    /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
    const u16 *const B_t3 = B + (i64)mul_89 * B_stride0 + (i64)mul_15;
    u32 b_93[8];
    const Buffer buffer_t4 = make_buffer(B_t3, lt_86 ? 0xfffffff0u : 0u);
    const u32 at_t5 = (u32)(c2 * (i32)B_stride0 + c3) * 2u;
#pragma unroll
    for (int v = 0; v < 2; v++) {
        buffer_load_b128(&b_93[4 * v], buffer_t4, ((u32)(mul_89 + (c2 + v)) < (u32)K_ &  (u32)(mul_15 + c3) < (u32)N_) ? at_t5 + (u32)(v * (i32)B_stride0) * 2u : ~0u);
    }
    /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
    const u32 shared_stage_97 = A_ring_84 + (u32)0 * 8192;
    sched_barrier(0);
#pragma unroll
    for (int v = 0; v < 2; v++) {
        u32 o_t6 = c1 * 2 + ((c0 + 64 * v)) * 64;
        o_t6 = o_t6 ^ (o_t6 >> 2 & 48u) ^ (o_t6 >> 4 & 32u) ^ (o_t6 >> 6 & 16u);
        sts_b128(shared_stage_97 + o_t6, &a_90[(8 * v) / 2]);
    }
    const u32 shared_stage_99 = B_ring_85 + (u32)0 * 8192;
    sched_barrier(0);
    u32 o_t7 = c2 * 2 + (c3) * 64;
    o_t7 = o_t7 ^ (o_t7 >> 2 & 48u) ^ (o_t7 >> 5 & 48u);
    const u32 w_t8[1] = { (b_93[0] >> 0 & 65535u) | ((b_93[4] >> 0 & 65535u)) << 16 };
    sts_b32(shared_stage_99 + o_t7, w_t8);
    u32 o_t9 = c2 * 2 + ((c3 + 1)) * 64;
    o_t9 = o_t9 ^ (o_t9 >> 2 & 48u) ^ (o_t9 >> 5 & 48u);
    const u32 w_t10[1] = { b_93[0] >> 16 | (b_93[4] >> 16) << 16 };
    sts_b32(shared_stage_99 + o_t9, w_t10);
    u32 o_t11 = c2 * 2 + ((c3 + 2)) * 64;
    o_t11 = o_t11 ^ (o_t11 >> 2 & 48u) ^ (o_t11 >> 5 & 48u);
    const u32 w_t12[1] = { (b_93[1] >> 0 & 65535u) | ((b_93[5] >> 0 & 65535u)) << 16 };
    sts_b32(shared_stage_99 + o_t11, w_t12);
    u32 o_t13 = c2 * 2 + ((c3 + 3)) * 64;
    o_t13 = o_t13 ^ (o_t13 >> 2 & 48u) ^ (o_t13 >> 5 & 48u);
    const u32 w_t14[1] = { b_93[1] >> 16 | (b_93[5] >> 16) << 16 };
    sts_b32(shared_stage_99 + o_t13, w_t14);
    u32 o_t15 = c2 * 2 + ((c3 + 4)) * 64;
    o_t15 = o_t15 ^ (o_t15 >> 2 & 48u) ^ (o_t15 >> 5 & 48u);
    const u32 w_t16[1] = { (b_93[2] >> 0 & 65535u) | ((b_93[6] >> 0 & 65535u)) << 16 };
    sts_b32(shared_stage_99 + o_t15, w_t16);
    u32 o_t17 = c2 * 2 + ((c3 + 5)) * 64;
    o_t17 = o_t17 ^ (o_t17 >> 2 & 48u) ^ (o_t17 >> 5 & 48u);
    const u32 w_t18[1] = { b_93[2] >> 16 | (b_93[6] >> 16) << 16 };
    sts_b32(shared_stage_99 + o_t17, w_t18);
    u32 o_t19 = c2 * 2 + ((c3 + 6)) * 64;
    o_t19 = o_t19 ^ (o_t19 >> 2 & 48u) ^ (o_t19 >> 5 & 48u);
    const u32 w_t20[1] = { (b_93[3] >> 0 & 65535u) | ((b_93[7] >> 0 & 65535u)) << 16 };
    sts_b32(shared_stage_99 + o_t19, w_t20);
    u32 o_t21 = c2 * 2 + ((c3 + 7)) * 64;
    o_t21 = o_t21 ^ (o_t21 >> 2 & 48u) ^ (o_t21 >> 5 & 48u);
    const u32 w_t22[1] = { b_93[3] >> 16 | (b_93[7] >> 16) << 16 };
    sts_b32(shared_stage_99 + o_t21, w_t22);
    block_barrier();
    float materialize_123[64];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        materialize_123[i] = 0.0f;
    }
    float acc_18[64];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        acc_18[i] = materialize_123[i];
    }
    i32 stage_103;
    stage_103 = 0;
#pragma unroll 1
    for (i32 k_17 = 0; k_17 < cdiv_11; k_17++) {
        const int c0_t25 = again(c0, (i32)k_17);
        const int c1_t26 = again(c1, (i32)k_17);
        const int c2_t30 = again(c2, (i32)k_17);
        const int c3_t31 = again(c3, (i32)k_17);
        const int c4_t35 = again(c4, (i32)k_17);
        const int c6_t36 = again(c6, (i32)k_17);
        const int c7_t39 = again(c7, (i32)k_17);
        const i32 sub_105 = (i32)((u32)1 - (u32)stage_103);
        const i32 add_106 = (k_17 + 1);
        const bool lt_107 = (add_106 < cdiv_11);
        /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
        const i32 mul_110 = (add_106 * 32);
        const u16 *const A_t23 = A + (i64)mul_14 * A_stride0 + (i64)mul_110;
        u32 a_111[8];
        const Buffer buffer_t24 = make_buffer(A_t23, lt_107 ? 0xfffffff0u : 0u);
        const u32 at_t27 = (u32)(c0_t25 * (i32)A_stride0 + c1_t26) * 2u;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            buffer_load_b128(&a_111[4 * v], buffer_t24, ((u32)(mul_14 + (c0_t25 + (64 * v))) < (u32)M_ &  (u32)(mul_110 + c1_t26) < (u32)K_) ? at_t27 + (u32)((64 * v) * (i32)A_stride0) * 2u : ~0u);
        }
        /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
        const u16 *const B_t28 = B + (i64)mul_110 * B_stride0 + (i64)mul_15;
        u32 b_114[8];
        const Buffer buffer_t29 = make_buffer(B_t28, lt_107 ? 0xfffffff0u : 0u);
        const u32 at_t32 = (u32)(c2_t30 * (i32)B_stride0 + c3_t31) * 2u;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            buffer_load_b128(&b_114[4 * v], buffer_t29, ((u32)(mul_110 + (c2_t30 + v)) < (u32)K_ &  (u32)(mul_15 + c3_t31) < (u32)N_) ? at_t32 + (u32)(v * (i32)B_stride0) * 2u : ~0u);
        }
        /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
        const u32 A_tile_117 = A_ring_84 + (u32)stage_103 * 8192;
        const u32 B_tile_118 = B_ring_85 + (u32)stage_103 * 8192;
        /* acc = mma(a, b, acc); */
#line 34 "examples/kernels/gemm.tile"
        /* [128, 32] x [32, 128]: 2 x 2 x 2 fragments a warp */
#pragma unroll
        for (int k_t33 = 0; k_t33 < 2; k_t33++) {
            u32 a_t34[8];
            u32 o_t37 = c6_t36 * 2 + (c4_t35) * 64;
            o_t37 = o_t37 ^ (o_t37 >> 2 & 48u) ^ (o_t37 >> 4 & 32u) ^ (o_t37 >> 6 & 16u);
#pragma unroll
            for (int t = 0; t < 2; t++) {
                lds_b128(&a_t34[t * 4], A_tile_117 + (o_t37 ^ 0 ^ (32 * k_t33)) + (2048 * t) + 0);
            }
            u32 b_t38[8];
            u32 o_t40 = c6_t36 * 2 + (c7_t39) * 64;
            o_t40 = o_t40 ^ (o_t40 >> 2 & 48u) ^ (o_t40 >> 5 & 48u);
#pragma unroll
            for (int t = 0; t < 2; t++) {
                lds_b128(&b_t38[t * 4], B_tile_118 + (o_t40 ^ 0 ^ (32 * k_t33)) + (2048 * t) + 0);
            }
#pragma unroll
            for (int q = 0; q < 2; q++) {
#pragma unroll
                for (int m = 0; m < 2; m++) {
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        mfma_32x32x8_f16(&acc_18[(m * 2 + n) * 16], &b_t38[n * 4 + q * 2], &a_t34[m * 4 + q * 2]);
                    }
                }
            }
        }
        sched_group(256, 8);
        sched_group(8, 16);
        /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
        const u32 shared_stage_119 = A_ring_84 + (u32)sub_105 * 8192;
        sched_barrier(0);
        u32 o_t41 = c1_t26 * 2 + (c0_t25) * 64;
        o_t41 = o_t41 ^ (o_t41 >> 2 & 48u) ^ (o_t41 >> 4 & 32u) ^ (o_t41 >> 6 & 16u);
#pragma unroll
        for (int v = 0; v < 2; v++) {
            sts_b128(shared_stage_119 + o_t41 + (4096 * v), &a_111[(8 * v) / 2]);
        }
        const u32 shared_stage_120 = B_ring_85 + (u32)sub_105 * 8192;
        sched_barrier(0);
        u32 o_t42 = c2_t30 * 2 + (c3_t31) * 64;
        o_t42 = o_t42 ^ (o_t42 >> 2 & 48u) ^ (o_t42 >> 5 & 48u);
        const u32 w_t43[1] = { (b_114[0] >> 0 & 65535u) | ((b_114[4] >> 0 & 65535u)) << 16 };
        sts_b32(shared_stage_120 + o_t42 + 0, w_t43);
        const u32 w_t44[1] = { b_114[0] >> 16 | (b_114[4] >> 16) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 16) + 64, w_t44);
        const u32 w_t45[1] = { (b_114[1] >> 0 & 65535u) | ((b_114[5] >> 0 & 65535u)) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 32) + 128, w_t45);
        const u32 w_t46[1] = { b_114[1] >> 16 | (b_114[5] >> 16) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 48) + 192, w_t46);
        const u32 w_t47[1] = { (b_114[2] >> 0 & 65535u) | ((b_114[6] >> 0 & 65535u)) << 16 };
        sts_b32(shared_stage_120 + o_t42 + 256, w_t47);
        const u32 w_t48[1] = { b_114[2] >> 16 | (b_114[6] >> 16) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 16) + 320, w_t48);
        const u32 w_t49[1] = { (b_114[3] >> 0 & 65535u) | ((b_114[7] >> 0 & 65535u)) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 32) + 384, w_t49);
        const u32 w_t50[1] = { b_114[3] >> 16 | (b_114[7] >> 16) << 16 };
        sts_b32(shared_stage_120 + (o_t42 ^ 48) + 448, w_t50);
        block_barrier();
        stage_103 = sub_105;
    }
    /* the buffers are done with: their space is scratch from here on */
#undef SCRATCH
#define SCRATCH 0
    /* store(C[i*TM +: TM, j*TN +: TN], TO(acc)); */
#line 40 "examples/kernels/gemm.tile"
    u32 acc_23[32];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const float acc_23a = acc_18[2 * i];
        const float acc_23b = acc_18[2 * i + 1];
        acc_23[i] = pack_f16(acc_23a, acc_23b);
    }
    u16 *const C_t52 = C + (i64)mul_14 * C_stride0 + (i64)mul_15;
#pragma unroll
    for (int v = 0; v < 8; v++) {
        if ((u32)(mul_14 + (c4 + v / 4 * 32)) < (u32)M_ && (u32)(mul_15 + (c5 + v % 4 * 16)) < (u32)N_) stg_b128(C_t52 + (c4 + v / 4 * 32) * (i32)C_stride0 + (c5 + v % 4 * 16), &acc_23[((8 * v)) / 2]);
    }
}
#undef SCRATCH
