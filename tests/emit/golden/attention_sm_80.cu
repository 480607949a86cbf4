/* attention (D=64, T=f16, CAUSAL=true, TM=64, TN=64) for cuda:sm_80
 * programs: one a CTA
 * threads: 128, at most 255 registers each
 * assumes: addresses at multiples of 16 bytes, Q, K, V, O with last stride 1 and rows at multiples of 16 bytes; scale above 0; extents from 1 to 2^28 - 1
 * tiles: reads Q [64, 64], K [64, 64], V [64, 64]; writes O [64, 64]
 * products: mma_m16n8k16_f16
 * shared memory: 73728 of 166912 bytes
 *        0  buffer       1 x f16[64, 64], 8192 bytes
 *     8192  K_ring       4 x f16[64, 64], 32768 bytes
 *    40960  V_ring       4 x f16[64, 64], 32768 bytes
 * order: heavy first along grid axis 0, in groups whose streams fit L2
 */
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, wait; } CheckRecord;
typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;
static __device__ __forceinline__ u32 shared_address(const void *p) { u32 a; asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p)); return a; }
/* the same value in all lanes, known as such to the compiler */
static __device__ __forceinline__ int uniform(int x) { int y; asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(y) : "r"(x)); return y; }
static __device__ __forceinline__ i32 opaque(i32 x) { asm volatile("" : "+r"(x)); return x; }
static __device__ __forceinline__ float rcp_approx(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ i32 f32_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
static __device__ __forceinline__ void cp_async_b128(u32 a, const void *p, bool in) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(a), "l"(p), "r"(in ? 16 : 0) : "memory"); }
static __device__ __forceinline__ void cp_async_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define cp_async_wait(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
static __device__ __forceinline__ float float_bits(u32 b) { return __uint_as_float(b); }
#define pin_word(x) asm volatile("" : "+r"(x) :: "memory")
static __device__ __forceinline__ void mma_m16n8k16_f16(float *d, const u32 *a, const u32 *b) { asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
static __device__ __forceinline__ void ldmatrix_x4(u32 *d, u32 a) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a) : "memory"); }
#define LOWEST_f32 float_bits(0xff800000u)
static __device__ __forceinline__ float max_f32(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
static __device__ __forceinline__ bool vote_any(bool x) { return __any_sync(0xffffffffu, x); }
static __device__ __forceinline__ u32 shuffle_u32(u32 x, u32 mask) { u32 y; asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(mask)); return y; }
static __device__ __forceinline__ u32 float_word(float x) { return __float_as_uint(x); }
static __device__ __forceinline__ float shuffle_xor_f32(float x, u32 m) { return float_bits(shuffle_u32(float_word(x), m)); }
static __device__ __forceinline__ float ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ float exp2_f32(float x) { return ex2(x); }
static __device__ __forceinline__ float abs_f32(float x) { return fabsf(x); }
static __device__ __forceinline__ float mul_alone_f32(float a, float b) { return __fmul_rn(a, b); }
static __device__ __forceinline__ float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ u32 pack_f16(float lo, float hi) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }
static __device__ __forceinline__ void ldmatrix_x4_trans(u32 *d, u32 a) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a) : "memory"); }
/* within 1 ulp, denormal results too */
static __device__ __forceinline__ float rcp_ulp(float x) { float y; asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ void sts_b32(u32 a, const void *s) { const u32 *w = (const u32 *)s; asm volatile("st.shared.b32 [%0], %1;" :: "r"(a), "r"(w[0]) : "memory"); }
static __device__ __forceinline__ void warp_sync(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
static __device__ __forceinline__ void lds_b128(void *d, u32 a) { u32 *w = (u32 *)d; asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(a) : "memory"); }
static __device__ __forceinline__ void stg_b128(void *p, const void *s) { const u32 *w = (const u32 *)s; asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" :: "l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory"); }

#define SCRATCH 73728

extern "C" __global__ void __launch_bounds__(128, 1)
attention(const i64 grid0,
    const i64 grid1,
    const i64 grid2,
    const i64 N_,
    const u16 *const __restrict__ Q,
    const i64 Q_stride0,
    const i64 Q_stride1,
    const i64 Q_stride2,
    const i64 B_,
    const i64 H_,
    const i64 M_,
    const i64 HK_,
    const u16 *const __restrict__ K,
    const i64 K_stride0,
    const i64 K_stride1,
    const i64 K_stride2,
    const u16 *const __restrict__ V,
    const i64 V_stride0,
    const i64 V_stride1,
    const i64 V_stride2,
    const float scale,
    u16 *const O,
    const i64 O_stride0,
    const i64 O_stride1,
    const i64 O_stride2)
{
    extern __shared__ __align__(1024) u8 shared[];
    const u32 shared_base = shared_address(shared);
    (void)shared_base;
    const int tid = threadIdx.x, lane = tid & 31, warp = uniform(tid >> 5);
    (void)tid; (void)lane; (void)warp;
    const int c0 = (lane >> 3) + warp * 4;
    const int c1 = lane % 8 * 8;
    const int c2 = (lane >> 2) + warp * 16;
    const int c3 = lane % 4 * 2;
    const int c4 = lane % 4 * 8;
    /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
    const i32 rows_94 = opaque((i32)grid0);
    const i32 opaque_97 = opaque((i32)grid1);
    const i32 opaque_99 = opaque((i32)grid2);
    const i32 streams_100 = (i32)((u32)opaque_97 * (u32)opaque_99);
    const bool lt_102 = (rows_94 < 24);
    const float l2_bytes_105 = (lt_102 ? 13002342.0f : 26004684.0f);
    const i32 opaque_109 = opaque((i32)N_);
    const float cast_110 = (float)(opaque_109);
    const float mul_111 = (2.0f * cast_110);
    const float stream_bytes_113 = (mul_111 * 64.0f);
    const i32 opaque_116 = opaque((i32)N_);
    const float cast_117 = (float)(opaque_116);
    const float mul_118 = (2.0f * cast_117);
    const float stream_bytes_120 = (mul_118 * 64.0f);
    const float add_121 = (stream_bytes_113 + stream_bytes_120);
    const float add_122 = (add_121 + 1.0f);
    const float div_123 = (l2_bytes_105 * rcp_approx(add_122));
    const i32 cast_124 = f32_to_i32(div_123);
    const i32 max_125 = (cast_124 > 1 ? cast_124 : 1);
    const i32 streams_that_fit_126 = (max_125 < streams_100 ? max_125 : streams_100);
    const i32 cdiv_127 = (i32)(((u32)streams_100 + (u32)streams_that_fit_126 - 1) / (u32)streams_that_fit_126);
    const i32 group_size_128 = (i32)(((u32)streams_100 + (u32)cdiv_127 - 1) / (u32)cdiv_127);
    const i32 group_programs_129 = (i32)((u32)group_size_128 * (u32)rows_94);
    const i32 group_130 = (i32)((u32)(i32)blockIdx.x / (u32)group_programs_129);
    const i32 mul_131 = (i32)((u32)group_130 * (u32)group_programs_129);
    const i32 within_group_132 = (i32)((u32)(i32)blockIdx.x - (u32)mul_131);
    const i32 first_stream_133 = (i32)((u32)group_130 * (u32)group_size_128);
    const i32 sub_134 = (i32)((u32)streams_100 - (u32)first_stream_133);
    const i32 this_group_size_135 = (group_size_128 < sub_134 ? group_size_128 : sub_134);
    const i32 row_136 = (i32)((u32)within_group_132 / (u32)this_group_size_135);
    const i32 mul_137 = (i32)((u32)row_136 * (u32)this_group_size_135);
    const i32 sub_138 = (i32)((u32)within_group_132 - (u32)mul_137);
    const i32 stream_139 = (i32)((u32)first_stream_133 + (u32)sub_138);
    const i32 sub_140 = (rows_94 - 1);
    const i32 sub_141 = (sub_140 - row_136);
    const i32 opaque_143 = opaque((i32)grid1);
    const i32 rem_144 = (i32)((u32)stream_139 % (u32)opaque_143);
    const i32 div_145 = (i32)((u32)stream_139 / (u32)opaque_143);
    /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
    const i32 mul_13 = (sub_141 * 64);
    const u32 shared_alloc_229 = shared_base + 0;    /* 1 x 8192 bytes */
    const u32 q_231 = shared_alloc_229 + (u32)0 * 8192;
    __syncthreads();
    const u16 *const Q_t0 = Q + (i64)div_145 * Q_stride0 + (i64)rem_144 * Q_stride1 + (i64)mul_13 * Q_stride2;
    u32 o_t1 = c1 * 2 + (c0) * 128;
    o_t1 ^= (o_t1 >> 7 & 7) << 4;
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const bool in_t2 = (u32)(div_145 + 0) < (u32)B_ && (u32)(rem_144 + 0) < (u32)H_ && (u32)(mul_13 + (c0 + 16 * v)) < (u32)M_ && (u32)(c1) < (u32)64;
        cp_async_b128(q_231 + o_t1 + (2048 * v), Q_t0 + (in_t2 ? (c0 + 16 * v) * (i32)Q_stride2 + c1 : 0), in_t2);
    }
    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
    const i32 add_26 = (sub_141 + 1);
    const i32 mul_27 = (add_26 * 64);
    const i32 min_28 = ((i32)N_ < mul_27 ? (i32)N_ : mul_27);
    const i32 cdiv_29 = ((min_28 + 63) / 64);
    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
    const i64 h_30 = (i64)(rem_144);
    const i64 mul_31 = (h_30 * HK_);
    const i64 div_32 = (i64)((u64)mul_31 / (u64)H_);
    /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
    cp_async_commit();
    cp_async_wait(0);
    __syncthreads();
    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
    __syncthreads();
    const u32 K_ring_232 = shared_base + 8192;    /* 4 x 8192 bytes */
    const u32 V_ring_233 = shared_base + 40960;    /* 4 x 8192 bytes */
    const bool lt_235 = (0 < cdiv_29);
    if (lt_235) {
        const u32 shared_stage_236 = K_ring_232 + (u32)0 * 8192;
        /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
        const i32 mul_237 = (0 * 64);
        const u16 *const K_t3 = K + (i64)div_145 * K_stride0 + (i64)div_32 * K_stride1 + (i64)mul_237 * K_stride2;
        u32 o_t4 = c1 * 2 + (c0) * 128;
        o_t4 ^= (o_t4 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t5 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_237 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_236 + o_t4 + (2048 * v), K_t3 + (in_t5 ? (c0 + 16 * v) * (i32)K_stride2 + c1 : 0), in_t5);
        }
        const u32 shared_stage_238 = V_ring_233 + (u32)0 * 8192;
        /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
        const u16 *const V_t6 = V + (i64)div_145 * V_stride0 + (i64)div_32 * V_stride1 + (i64)mul_237 * V_stride2;
        u32 o_t7 = c1 * 2 + (c0) * 128;
        o_t7 ^= (o_t7 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t8 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_237 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_238 + o_t7 + (2048 * v), V_t6 + (in_t8 ? (c0 + 16 * v) * (i32)V_stride2 + c1 : 0), in_t8);
        }
    }
    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
    cp_async_commit();
    const i32 add_239 = (0 + 1);
    const bool lt_241 = (add_239 < cdiv_29);
    if (lt_241) {
        const u32 shared_stage_242 = K_ring_232 + (u32)1 * 8192;
        /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
        const i32 mul_243 = (add_239 * 64);
        const u16 *const K_t9 = K + (i64)div_145 * K_stride0 + (i64)div_32 * K_stride1 + (i64)mul_243 * K_stride2;
        u32 o_t10 = c1 * 2 + (c0) * 128;
        o_t10 ^= (o_t10 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t11 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_243 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_242 + o_t10 + (2048 * v), K_t9 + (in_t11 ? (c0 + 16 * v) * (i32)K_stride2 + c1 : 0), in_t11);
        }
        const u32 shared_stage_244 = V_ring_233 + (u32)1 * 8192;
        /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
        const u16 *const V_t12 = V + (i64)div_145 * V_stride0 + (i64)div_32 * V_stride1 + (i64)mul_243 * V_stride2;
        u32 o_t13 = c1 * 2 + (c0) * 128;
        o_t13 ^= (o_t13 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t14 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_243 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_244 + o_t13 + (2048 * v), V_t12 + (in_t14 ? (c0 + 16 * v) * (i32)V_stride2 + c1 : 0), in_t14);
        }
    }
    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
    cp_async_commit();
    const i32 add_245 = (add_239 + 1);
    const bool lt_247 = (add_245 < cdiv_29);
    if (lt_247) {
        const u32 shared_stage_248 = K_ring_232 + (u32)2 * 8192;
        /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
        const i32 mul_249 = (add_245 * 64);
        const u16 *const K_t15 = K + (i64)div_145 * K_stride0 + (i64)div_32 * K_stride1 + (i64)mul_249 * K_stride2;
        u32 o_t16 = c1 * 2 + (c0) * 128;
        o_t16 ^= (o_t16 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t17 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_249 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_248 + o_t16 + (2048 * v), K_t15 + (in_t17 ? (c0 + 16 * v) * (i32)K_stride2 + c1 : 0), in_t17);
        }
        const u32 shared_stage_250 = V_ring_233 + (u32)2 * 8192;
        /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
        const u16 *const V_t18 = V + (i64)div_145 * V_stride0 + (i64)div_32 * V_stride1 + (i64)mul_249 * V_stride2;
        u32 o_t19 = c1 * 2 + (c0) * 128;
        o_t19 ^= (o_t19 >> 7 & 7) << 4;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const bool in_t20 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_249 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
            cp_async_b128(shared_stage_250 + o_t19 + (2048 * v), V_t18 + (in_t20 ? (c0 + 16 * v) * (i32)V_stride2 + c1 : 0), in_t20);
        }
    }
    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
    cp_async_commit();
    float materialize_280[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        materialize_280[i] = 0.0f;
    }
    float materialize_281[32];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        materialize_281[i] = 0.0f;
    }
    float materialize_282[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        materialize_282[i] = float_bits(0xff800000u);
    }
    float materialize_283[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        materialize_283[i] = float_bits(0xff800000u);
    }
    float l_42[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        l_42[i] = materialize_280[i];
    }
    float acc_43[32];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc_43[i] = materialize_281[i];
    }
    float m_44[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        m_44[i] = materialize_282[i];
    }
    float bar_178[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        bar_178[i] = materialize_283[i];
    }
    i32 stage_257;
    stage_257 = 0;
    i32 stride_t22 = (i32)K_stride2;
    pin_word(stride_t22);
    u32 o_t23 = c1 * 2 + (c0) * 128;
    o_t23 ^= (o_t23 >> 7 & 7) << 4;
    pin_word(o_t23);
    const u16 *K_t21 = K + (i64)div_145 * K_stride0 + (i64)div_32 * K_stride1 + (((((i64)0 + 1ll) + 1ll) + 1ll) * 64ll) * K_stride2 + 0ll * 1ll + c0 * (i32)K_stride2 + c1;
    i32 stride_t25 = (i32)V_stride2;
    pin_word(stride_t25);
    u32 o_t26 = c1 * 2 + (c0) * 128;
    o_t26 ^= (o_t26 >> 7 & 7) << 4;
    pin_word(o_t26);
    const u16 *V_t24 = V + (i64)div_145 * V_stride0 + (i64)div_32 * V_stride1 + (((((i64)0 + 1ll) + 1ll) + 1ll) * 64ll) * V_stride2 + 0ll * 1ll + c0 * (i32)V_stride2 + c1;
#pragma unroll 1
    for (i32 j_41 = 0; j_41 < cdiv_29; j_41++) {
        cp_async_wait(2);
        __syncthreads();
        const i32 add_258 = (j_41 + 1);
        const i32 add_259 = (add_258 + 1);
        const i32 add_260 = (add_259 + 1);
        const i32 add_262 = (i32)((u32)stage_257 + (u32)3);
        const bool ge_264 = (add_262 >= 4);
        const i32 sub_266 = (i32)((u32)add_262 - (u32)4);
        const i32 where_267 = (ge_264 ? sub_266 : add_262);
        const u32 K_tile_272 = K_ring_232 + (u32)stage_257 * 8192;
        const u32 V_tile_273 = V_ring_233 + (u32)stage_257 * 8192;
        /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
        const i32 mul_45 = (j_41 * 64);
        /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
        float materialize_284[32];
#pragma unroll
        for (int i = 0; i < 32; i++) {
            materialize_284[i] = 0.0f;
        }
        /* [64, 64] x [64, 64]: 1 x 8 x 4 fragments a warp */
#pragma unroll
        for (int k_t27 = 0; k_t27 < 4; k_t27++) {
            u32 a_t28[4];
            u32 o_t29 = (0 + ((lane >> 4) & 1) * 8) * 2 + ((0 + warp * 16 + ((lane >> 0) & 15) * 1)) * 128;
            o_t29 ^= (o_t29 >> 7 & 7) << 4;
#pragma unroll
            for (int t = 0; t < 1; t++) {
                ldmatrix_x4(&a_t28[t * 4], q_231 + (o_t29 ^ (0) ^ ((32 * k_t27))) + 0 + 0);
            }
            u32 b_t30[16];
            u32 o_t31 = (0 + ((lane >> 3) & 1) * 8) * 2 + ((0 + ((lane >> 0) & 7) * 1 + ((lane >> 4) & 1) * 8)) * 128;
            o_t31 ^= (o_t31 >> 7 & 7) << 4;
#pragma unroll
            for (int t = 0; t < 4; t++) {
                ldmatrix_x4(&b_t30[t * 4], K_tile_272 + (o_t31 ^ (0) ^ ((32 * k_t27))) + (2048 * t) + 0);
            }
#pragma unroll
            for (int m = 0; m < 1; m++) {
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    mma_m16n8k16_f16(&materialize_284[(m * 8 + n) * 4], &a_t28[m * 4], &b_t30[n * 2]);
                }
            }
        }
        /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
        const bool lt_268 = (add_260 < cdiv_29);
        if (lt_268) {
            const u32 shared_stage_269 = K_ring_232 + (u32)where_267 * 8192;
            /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
            const i32 mul_270 = (add_260 * 64);
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const bool in_t32 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_270 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
                cp_async_b128(shared_stage_269 + o_t23 + (2048 * v), K_t21 + (in_t32 ? (16 * v) * stride_t22 : 0), in_t32);
            }
            const u32 shared_stage_271 = V_ring_233 + (u32)where_267 * 8192;
            /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const bool in_t33 = (u32)(div_145 + 0) < (u32)B_ && (u64)(div_32 + 0) < (u64)HK_ && (u32)(mul_270 + (c0 + 16 * v)) < (u32)N_ && (u32)(c1) < (u32)64;
                cp_async_b128(shared_stage_271 + o_t26 + (2048 * v), V_t24 + (in_t33 ? (16 * v) * stride_t25 : 0), in_t33);
            }
        }
        /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
        cp_async_commit();
        /* s = where(col < N && (!CAUSAL || row >= col), s * scale, -inf); */
#line 23 "examples/kernels/attention.tile"
        const i32 add_159 = (mul_45 + 63);
        const bool lt_160 = (add_159 < (i32)N_);
        const i32 add_163 = (mul_13 + 0);
        const i32 add_168 = (mul_45 + 63);
        const bool ge_169 = (add_163 >= add_168);
        const bool and_170 = (lt_160 & ge_169);
        float if_171[32];
        if (and_170) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_171[i] = materialize_284[i];
            }
        } else {
            float where_58[32];
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float where_58a = ((((mul_45 + ((i32)(c3 + i % 2 + i / 4 * 8))) < (i32)N_) & ((mul_13 + ((i32)(c2 + i / 2 % 2 * 8))) >= (mul_45 + ((i32)(c3 + i % 2 + i / 4 * 8))))) ? materialize_284[i] : float_bits(0xff800000u));
                where_58[i] = where_58a;
            }
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_171[i] = where_58[i];
            }
        }
        /* let m_new = max(m, max(s, axis = 1)); */
#line 24 "examples/kernels/attention.tile"
        float red_t35[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            red_t35[i] = LOWEST_f32;
        }
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const float x_t37 = if_171[i];
            const int k_t36 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
            red_t35[k_t36] = max_f32(red_t35[k_t36], x_t37);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t35[i] = max_f32(red_t35[i], red_t35[i + 2]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t35[i] = max_f32(red_t35[i], red_t35[i + 4]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t35[i] = max_f32(red_t35[i], red_t35[i + 6]);
        }
        float reduce_max_60[2];
        reduce_max_60[0] = red_t35[0];
        reduce_max_60[1] = red_t35[1];
        float mul_61[2];
        bool not_180[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float mul_61a = (reduce_max_60[i] * scale);
            const bool lt_179a = (mul_61a < bar_178[i]);
            const bool not_180a = !(lt_179a);
            mul_61[i] = mul_61a;
            not_180[i] = not_180a;
        }
        bool any_t39 = false;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            any_t39 |= not_180[i];
        }
        const bool grew_181 = vote_any(any_t39);
        const bool not_182 = !(grew_181);
        float m_new_183[2];
        float alpha_184[2];
        float if_185[2];
        float if_186[2];
        float if_187[32];
        float if_188;
        float if_189[2];
        if (not_182) {
            const float mul_193 = (scale * 1.44269502f);
            float mul_195[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float mul_195a = (m_44[i] * -1.44269502f);
                mul_195[i] = mul_195a;
            }
            float materialize_285[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                materialize_285[i] = 1.0f;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                m_new_183[i] = m_44[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                alpha_184[i] = materialize_285[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_185[i] = bar_178[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_186[i] = l_42[i];
            }
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_187[i] = if_171[i];
            }
            if_188 = mul_193;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_189[i] = mul_195[i];
            }
        } else {
            float red_t41[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                red_t41[i] = LOWEST_f32;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float x_t43 = mul_61[i];
                const int k_t42 = i;
                red_t41[k_t42] = max_f32(red_t41[k_t42], x_t43);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float y_t44 = shuffle_xor_f32(red_t41[i], 1);
                red_t41[i] = max_f32(red_t41[i], y_t44);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float y_t45 = shuffle_xor_f32(red_t41[i], 2);
                red_t41[i] = max_f32(red_t41[i], y_t45);
            }
            float reduce_max_289[2];
            reduce_max_289[0] = red_t41[0];
            reduce_max_289[1] = red_t41[1];
            float m_new_196[2];
            float alpha_199[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float m_new_196a = max_f32(m_44[i], reduce_max_289[i]);
                const float sub_197a = (m_44[i] - m_new_196a);
                const float mul_198a = (sub_197a * 1.44269502f);
                const float alpha_199a = exp2_f32(mul_198a);
                m_new_196[i] = m_new_196a;
                alpha_199[i] = alpha_199a;
            }
            float add_202[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float add_202a = (m_new_196[i] + 5.54517746f);
                add_202[i] = add_202a;
            }
            const float mul_207 = (scale * 1.44269502f);
            const float abs_208 = abs_f32(mul_207);
            const bool le_210 = (abs_208 <= 1.2676506e+30f);
            const float where_212 = (le_210 ? 709.782715f : -1.0f);
            float where_216[2];
            float mul_217[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float abs_214a = abs_f32(m_new_196[i]);
                const bool le_215a = (abs_214a <= where_212);
                const float where_216a = (le_215a ? add_202[i] : float_bits(0xff800000u));
                const float mul_217a = mul_alone_f32(l_42[i], alpha_199[i]);
                where_216[i] = where_216a;
                mul_217[i] = mul_217a;
            }
            float sub_221[32];
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float mul_219a = mul_alone_f32(if_171[i], scale);
                const float sub_221a = (mul_219a - m_new_196[(i / 2 % 2)]);
                sub_221[i] = sub_221a;
            }
            float materialize_286[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                materialize_286[i] = 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                m_new_183[i] = m_new_196[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                alpha_184[i] = alpha_199[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_185[i] = where_216[i];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_186[i] = mul_217[i];
            }
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_187[i] = sub_221[i];
            }
            if_188 = 1.44269502f;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if_189[i] = materialize_286[i];
            }
        }
        /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
        float p_67[32];
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const float fma_227a = fma_f32(if_187[i], if_188, if_189[(i / 2 % 2)]);
            const float p_67a = exp2_f32(fma_227a);
            p_67[i] = p_67a;
        }
        /* l   = l*alpha + sum(p, axis = 1); */
#line 27 "examples/kernels/attention.tile"
        float red_t51[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            red_t51[i] = 0;
        }
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const float x_t53 = p_67[i];
            const int k_t52 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
            red_t51[k_t52] = red_t51[k_t52] + x_t53;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t51[i] = red_t51[i] + red_t51[i + 2];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t51[i] = red_t51[i] + red_t51[i + 4];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            red_t51[i] = red_t51[i] + red_t51[i + 6];
        }
        float reduce_sum_71[2];
        reduce_sum_71[0] = red_t51[0];
        reduce_sum_71[1] = red_t51[1];
        float l_224[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float l_224a = (if_186[i] + reduce_sum_71[i]);
            l_224[i] = l_224a;
        }
        /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
        u32 p_74[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float p_74a = p_67[2 * i];
            const float p_74b = p_67[2 * i + 1];
            p_74[i] = pack_f16(p_74a, p_74b);
        }
        float if_228[32];
        if (grew_181) {
            float mul_76[32];
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float mul_76a = (acc_43[i] * alpha_184[(i / 2 % 2)]);
                mul_76[i] = mul_76a;
            }
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_228[i] = mul_76[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                if_228[i] = acc_43[i];
            }
        }
        /* [64, 64] x [64, 64]: 1 x 8 x 4 fragments a warp */
#pragma unroll
        for (int k_t57 = 0; k_t57 < 4; k_t57++) {
            u32 a_t58[4];
#pragma unroll
            for (int t = 0; t < 1; t++) {
#pragma unroll
                for (int w = 0; w < 4; w++) {
                    a_t58[t * 4 + w] = ((const u32 *)p_74)[(t * 4 + k_t57) * 4 + w];
                }
            }
            u32 b_t59[16];
            u32 o_t60 = (0 + ((lane >> 4) & 1) * 8) * 2 + ((0 + ((lane >> 0) & 15) * 1)) * 128;
            o_t60 ^= (o_t60 >> 7 & 7) << 4;
#pragma unroll
            for (int t = 0; t < 4; t++) {
                ldmatrix_x4_trans(&b_t59[t * 4], V_tile_273 + (o_t60 ^ ((32 * t)) ^ (0)) + 0 + (2048 * k_t57));
            }
#pragma unroll
            for (int m = 0; m < 1; m++) {
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    mma_m16n8k16_f16(&if_228[(m * 8 + n) * 4], &a_t58[m * 4], &b_t59[n * 2]);
                }
            }
        }
        /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
        const i32 add_275 = (i32)((u32)stage_257 + (u32)1);
        const bool eq_277 = (add_275 == 4);
        const i32 where_279 = (eq_277 ? 0 : add_275);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            l_42[i] = l_224[i];
        }
#pragma unroll
        for (int i = 0; i < 32; i++) {
            acc_43[i] = if_228[i];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            m_44[i] = m_new_183[i];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            bar_178[i] = if_185[i];
        }
        stage_257 = where_279;
        K_t21 += 64ll * K_stride2;
        V_t24 += 64ll * V_stride2;
    }
    /* the buffers are done with: their space is scratch from here on */
#undef SCRATCH
#define SCRATCH 0
    float red_t61[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        red_t61[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float x_t63 = l_42[i];
        const int k_t62 = i;
        red_t61[k_t62] = red_t61[k_t62] + x_t63;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float y_t64 = shuffle_xor_f32(red_t61[i], 1);
        red_t61[i] = red_t61[i] + y_t64;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float y_t65 = shuffle_xor_f32(red_t61[i], 2);
        red_t61[i] = red_t61[i] + y_t65;
    }
    float l_288[2];
    l_288[0] = red_t61[0];
    l_288[1] = red_t61[1];
    __syncthreads();
    /* store(O[b, h, i*TM +: TM, :], T(acc / l)); */
#line 32 "examples/kernels/attention.tile"
    float div_153[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float div_153a = rcp_ulp(l_288[i]);
        div_153[i] = div_153a;
    }
    u32 cast_80[16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const float mul_155a = (acc_43[2 * i] * div_153[(i % 2)]);
        const float cast_80a = mul_155a;
        const float mul_155b = (acc_43[2 * i + 1] * div_153[(i % 2)]);
        const float cast_80b = mul_155b;
        cast_80[i] = pack_f16(cast_80a, cast_80b);
    }
    /* cast_80 to convert_287: from one layout among the threads to another, through shared memory, within warps */
    const u32 sh_t68 = shared_base + SCRATCH + 0;
    __syncthreads();
    u32 o_t69 = c3 * 2 + (c2) * 128;
    o_t69 = o_t69 ^ (o_t69 >> 1 & 64u) ^ (o_t69 >> 2 & 64u) ^ (o_t69 >> 3 & 64u) ^ (o_t69 >> 4 & 48u) ^ (o_t69 >> 6 & 80u) ^ (o_t69 >> 8 & 16u);
    pin_word(o_t69);
#pragma unroll
    for (int v = 0; v < 16; v++) {
        sts_b32(sh_t68 + (o_t69 ^ (0 ^ ((v) >> 0 & 1) * 16 ^ ((v) >> 1 & 1) * 16 ^ ((v) >> 2 & 1) * 32 ^ ((v) >> 3 & 1) * 64)) + (v % 2 * 1024), &cast_80[(2 * v) / 2]);
    }
    warp_sync();
    u32 convert_287[16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        convert_287[i] = 0;
    }
    u32 o_t70 = c4 * 2 + (c2) * 128;
    o_t70 = o_t70 ^ (o_t70 >> 1 & 64u) ^ (o_t70 >> 2 & 64u) ^ (o_t70 >> 3 & 64u) ^ (o_t70 >> 4 & 48u) ^ (o_t70 >> 6 & 80u) ^ (o_t70 >> 8 & 16u);
    pin_word(o_t70);
    u32 w_t71[4];
    lds_b128(w_t71, sh_t68 + o_t70 + 0);
    convert_287[0] = w_t71[0];
    convert_287[2] = w_t71[1];
    convert_287[4] = w_t71[2];
    convert_287[6] = w_t71[3];
    u32 w_t72[4];
    lds_b128(w_t72, sh_t68 + (o_t70 ^ 16) + 1024);
    convert_287[1] = w_t72[0];
    convert_287[3] = w_t72[1];
    convert_287[5] = w_t72[2];
    convert_287[7] = w_t72[3];
    u32 w_t73[4];
    lds_b128(w_t73, sh_t68 + (o_t70 ^ 64) + 0);
    convert_287[8] = w_t73[0];
    convert_287[10] = w_t73[1];
    convert_287[12] = w_t73[2];
    convert_287[14] = w_t73[3];
    u32 w_t74[4];
    lds_b128(w_t74, sh_t68 + (o_t70 ^ 80) + 1024);
    convert_287[9] = w_t74[0];
    convert_287[11] = w_t74[1];
    convert_287[13] = w_t74[2];
    convert_287[15] = w_t74[3];
    u16 *const O_t75 = O + (i64)div_145 * O_stride0 + (i64)rem_144 * O_stride1 + (i64)mul_13 * O_stride2;
#pragma unroll
    for (int v = 0; v < 4; v++) {
        const u32 w_t76[4] = { convert_287[((v % 2 * 2 + v / 2 * 16)) / 2 + 0], convert_287[((v % 2 * 2 + v / 2 * 16)) / 2 + 2], convert_287[((v % 2 * 2 + v / 2 * 16)) / 2 + 4], convert_287[((v % 2 * 2 + v / 2 * 16)) / 2 + 6] };
        if ((u32)(mul_13 + (c2 + (((v % 2 * 2 + v / 2 * 16)) / 2 % 2 * 8))) < (u32)M_) stg_b128(O_t75 + (c2 + (((v % 2 * 2 + v / 2 * 16)) / 2 % 2 * 8)) * (i32)O_stride2 + (c4 + (((v % 2 * 2 + v / 2 * 16)) % 2 + ((v % 2 * 2 + v / 2 * 16)) / 4 % 4 * 2 + ((v % 2 * 2 + v / 2 * 16)) / 16 * 32)), w_t76);
    }
}
#undef SCRATCH
