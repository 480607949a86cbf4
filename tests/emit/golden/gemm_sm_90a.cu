/* gemm (T=f16, ACC=f32, TO=f16, TF32=false, TM=128, TN=128, TK=64) for cuda:sm_90a
 * programs: persistent: as many CTAs as fit take one after the other, by the dynamic tile scheduler
 * threads: 384: 128 producers, which start copies (40 registers), 256 consumers (232 registers)
 * assumes: addresses at multiples of 16 bytes, A, B, C with last stride 1 and rows at multiples of 16 bytes; K, N multiples of 16; extents from 1 to 2^28 - 1
 * tiles: reads A [128, 64], B [64, 128]; writes C [128, 128]
 * products: wgmma_m64n128k16_f16_ss_tb
 * shared memory: 164864 of 232448 bytes
 *        0  B_ring       4 x f16[64, 128], 65536 bytes
 *    65536  A_ring       4 x f16[128, 64], 65536 bytes
 *   132096  stores       16 x f16[16, 64], 32768 bytes
 *   behind them the mbarriers of the rings, a full and an empty one a stage
 * chain: the wait for a product stands behind the issue of the next step's
 */
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, wait; } CheckRecord;
typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;
static __device__ __forceinline__ u32 shared_address(const void *p) { u32 a; asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p)); return a; }
/* the same value in all lanes, known as such to the compiler */
static __device__ __forceinline__ int uniform(int x) { int y; asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(y) : "r"(x)); return y; }
static __device__ __forceinline__ void prefetch_map(const TensorMap *m) { asm volatile("prefetch.tensormap [%0];" :: "l"(m) : "memory"); }
static __device__ __forceinline__ void mbar_init(u32 b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
static __device__ __forceinline__ void fence_mbarrier_init(void) { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ __forceinline__ i32 scheduler_next(u32 *t, u32 ctas) { return (i32)(ctas + atomicAdd(t, 1u)); }
static __device__ __forceinline__ void mbar_wait(u32 b, u32 phase) { asm volatile("{ .reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra.uni DONE;\nbra.uni WAIT;\nDONE: }" :: "r"(b), "r"(phase) : "memory"); }
static __device__ __forceinline__ void sts_w32(u32 a, u32 x) { asm volatile("st.shared.b32 [%0], %1;" :: "r"(a), "r"(x) : "memory"); }
static __device__ __forceinline__ void mbar_arrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
static __device__ __forceinline__ i32 rem_i32(i32 a, i32 b) { return b == 0 || b == -1 ? (i32)0 : (i32)(a % b); }
static __device__ __forceinline__ i32 div_i32(i32 a, i32 b) { return b == 0 ? (i32)0 : b == -1 ? (i32)(0 - (u64)a) : (i32)(a / b); }
static __device__ __forceinline__ void mbar_expect(u32 b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory"); }
static __device__ __forceinline__ void tma_load_2d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(d), "l"(m), "r"(bar), "r"(c0), "r"(c1) : "memory"); }
/* the last CTA leaves the counter as it was found */
static __device__ __forceinline__ void scheduler_done(u32 *t, u32 ctas) { __threadfence(); if (atomicAdd(t + 1, 1u) == ctas - 1) { atomicExch(t, 0u); atomicExch(t + 1, 0u); } }
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
/* true in one lane of the warp, always the same one */
static __device__ __forceinline__ bool elect_lane(void) { u32 x; asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(x)); return x; }
/* a word of shared memory as lane 0 reads it, for all lanes; a predicate and no branch, which would
 * make ptxas take warps for divided and leave its uniform registers */
static __device__ __forceinline__ int first_lane_word(u32 a, int lane) { u32 x; asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0; mov.b32 %0, 0; @p ld.shared.b32 %0, [%1]; }" : "=&r"(x) : "r"(a), "r"(lane) : "memory"); return uniform((int)x); }
/* 0, which ptxas does not know: the number of a multiprocessor is below 2^31 */
static __device__ __forceinline__ u32 hidden_zero(void) { u32 x; asm("mov.u32 %0, %%smid;" : "=r"(x)); return x >> 31; }
static __device__ __forceinline__ void wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_m64n128k16_f16_ss_tb(float *d, u32 alo, u32 ahi, u32 blo, u32 bhi, int acc) {
  asm volatile("{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %68, 0; mov.b64 a, {%64, %65}; mov.b64 b, {%66, %67}; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, p, 1, 1, 0, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "r"(alo), "r"(ahi), "r"(blo), "r"(bhi), "r"(acc)); }
static __device__ __forceinline__ void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
/* a register is read and written here, as far as the compiler knows */
#define pin_float(x) asm volatile("" : "+f"(x) :: "memory")
static __device__ __forceinline__ u32 pack_f16(float lo, float hi) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }
/* the buffers of all but the n newest groups have been read */
#define bulk_wait_read(n) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory")
static __device__ __forceinline__ void warp_sync(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
static __device__ __forceinline__ void stmatrix_x4(u32 a, const u32 *s) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(a), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory"); }
static __device__ __forceinline__ void fence_proxy_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ __forceinline__ void tma_store_2d(const TensorMap *m, u32 s, i32 c0, i32 c1) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" :: "l"(m), "r"(s), "r"(c0), "r"(c1) : "memory"); }
static __device__ __forceinline__ void bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define bulk_wait(n) asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory")
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))

#define SCRATCH 164864

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap A_map0,
    const __grid_constant__ TensorMap B_map1,
    const i64 grid0,
    const i64 grid1,
    u32 *const scheduler,
    const i64 K_,
    const __grid_constant__ TensorMap C_map2)
{
    extern __shared__ __align__(1024) u8 shared[];
    const u32 shared_base = shared_address(shared);
    (void)shared_base;
    const int tid = threadIdx.x, lane = tid & 31, warp = uniform(tid >> 5);
    (void)tid; (void)lane; (void)warp;
#line 15 "examples/kernels/gemm.tile"
    const u32 B_ring_88 = shared_base + 0;    /* 4 stages of 16384 bytes */
    const u32 A_ring_89 = shared_base + 65536;    /* 4 stages of 16384 bytes */
    const u32 B_ring_88_full = shared_base + 131072, B_ring_88_empty = B_ring_88_full + 32;
    const u32 A_ring_89_full = shared_base + 131136, A_ring_89_empty = A_ring_89_full + 32;
    const u32 scheduled_full = shared_base + 131200, scheduled_empty = scheduled_full + 16, scheduled_word = scheduled_full + 32;
    if (tid == 0) {
        prefetch_map(&A_map0);
        prefetch_map(&B_map1);
        for (int i = 0; i < 2; i++) { mbar_init(scheduled_full + 8 * i, 1); mbar_init(scheduled_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(B_ring_88_full + 8 * i, 1); mbar_init(B_ring_88_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(A_ring_89_full + 8 * i, 1); mbar_init(A_ring_89_empty + 8 * i, 8); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp < 4) {    /* producer: one thread starts the copies */
        setmaxnreg_dec(40);
        if (warp == 0 && elect_lane()) {
            u32 B_ring_88_phase = 0, B_ring_88_stage = 0;
            u32 A_ring_89_phase = 0, A_ring_89_stage = 0;
            u32 scheduled_phase = 0, scheduled_stage = 0;
            /* which programs, in which order */
#line 15 "examples/kernels/gemm.tile"
#pragma unroll 1
            for (i32 program_93 = (i32)blockIdx.x;; program_93 = scheduler_next(scheduler, gridDim.x)) {
                mbar_wait(scheduled_empty + 8 * scheduled_stage, scheduled_phase ^ 1);
                sts_w32(scheduled_word + 16 * scheduled_stage, program_93 < (i32)(grid0 * grid1));
                if (program_93 >= (i32)(grid0 * grid1)) {
                    mbar_arrive(scheduled_full + 8 * scheduled_stage); break;
                }
                const i64 program_94 = (i64)(program_93);
                const i32 cast_95 = (i32)(program_94);
                const i32 cast_97 = (i32)(grid0);
                const i32 cast_99 = (i32)(grid1);
                const i32 min_101 = (cast_97 < 8 ? cast_97 : 8);
                const i32 mul_102 = (min_101 * cast_99);
                const i32 div_103 = (i32)((u32)cast_95 / (u32)mul_102);
                const i32 rem_104 = (i32)((u32)cast_95 % (u32)mul_102);
                const i32 mul_105 = (i32)((u32)div_103 * (u32)min_101);
                const i32 sub_106 = (i32)((u32)cast_97 - (u32)mul_105);
                const i32 min_107 = (min_101 < sub_106 ? min_101 : sub_106);
                const i32 rem_108 = rem_i32(rem_104, min_107);
                const i32 add_109 = (i32)((u32)mul_105 + (u32)rem_108);
                const i32 div_110 = div_i32(rem_104, min_107);
                const i32 mul_111 = (i32)((u32)div_110 * (u32)cast_97);
                const i32 add_112 = (i32)((u32)mul_111 + (u32)add_109);
                const i64 cast_113 = (i64)(add_112);
                const i32 cast_114 = (i32)(cast_113);
                const i32 rem_116 = rem_i32(cast_114, (i32)grid0);
                const i32 div_117 = div_i32(cast_114, (i32)grid0);
                const i32 i_118 = rem_116;
                sts_w32(scheduled_word + 16 * scheduled_stage + 4, (u32)i_118);
                const i32 j_119 = div_117;
                sts_w32(scheduled_word + 16 * scheduled_stage + 8, (u32)j_119);
                mbar_arrive(scheduled_full + 8 * scheduled_stage);
                if (++scheduled_stage == 2) { scheduled_stage = 0; scheduled_phase ^= 1; }
                /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
                const i32 cdiv_126 = (((i32)K_ + 63) / 64);
                /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
                const i32 mul_129 = (i_118 * 128);
                /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
                const i32 mul_130 = (j_119 * 128);
                /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
#pragma unroll 1
                for (i32 k_132 = 0; k_132 < cdiv_126; k_132++) {
                    /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
                    const i32 mul_134 = (k_132 * 64);
                    mbar_wait(A_ring_89_empty + 8 * A_ring_89_stage, A_ring_89_phase ^ 1);
                    mbar_expect(A_ring_89_full + 8 * A_ring_89_stage, 16384);
                    tma_load_2d(A_ring_89 + A_ring_89_stage * 16384, &A_map0, A_ring_89_full + 8 * A_ring_89_stage, mul_134, mul_129);
                    if (++A_ring_89_stage == 4) { A_ring_89_stage = 0; A_ring_89_phase ^= 1; }
                    /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
                    mbar_wait(B_ring_88_empty + 8 * B_ring_88_stage, B_ring_88_phase ^ 1);
                    mbar_expect(B_ring_88_full + 8 * B_ring_88_stage, 16384);
                    tma_load_2d(B_ring_88 + B_ring_88_stage * 16384, &B_map1, B_ring_88_full + 8 * B_ring_88_stage, mul_130, mul_134);
                    tma_load_2d(B_ring_88 + B_ring_88_stage * 16384 + 8192, &B_map1, B_ring_88_full + 8 * B_ring_88_stage, (i32)(mul_130 + 64), mul_134);
                    if (++B_ring_88_stage == 4) { B_ring_88_stage = 0; B_ring_88_phase ^= 1; }
                }
            }
            scheduler_done(scheduler, gridDim.x);
        }
    } else {    /* consumers: 2 warpgroups */
        setmaxnreg_inc(232);
        const int tid = threadIdx.x - 128, warp = uniform(tid >> 5);
        (void)tid; (void)warp;
        u32 B_ring_88_phase = 0, B_ring_88_stage = 0, B_ring_88_free = 0;
        u32 A_ring_89_phase = 0, A_ring_89_stage = 0, A_ring_89_free = 0;
        u32 scheduled_phase = 0, scheduled_stage = 0;
        const u32 stage_t3 = shared_base + 132096 + warp * 4096;
        /* which programs, in which order */
#line 15 "examples/kernels/gemm.tile"
#pragma unroll 1
        for (;;) {
            mbar_wait(scheduled_full + 8 * scheduled_stage, scheduled_phase);
            if (!first_lane_word(scheduled_word + 16 * scheduled_stage, lane)) break;
            const i32 i_81 = first_lane_word(scheduled_word + 16 * scheduled_stage + 4, lane);
            const i32 j_82 = first_lane_word(scheduled_word + 16 * scheduled_stage + 8, lane);
            if (lane == 0) mbar_arrive(scheduled_empty + 8 * scheduled_stage + ((u32)(i_81 | j_82) & hidden_zero()));
            if (++scheduled_stage == 2) { scheduled_stage = 0; scheduled_phase ^= 1; }
            /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
            const i32 cdiv_11 = (((i32)K_ + 63) / 64);
            /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
            const i32 mul_14 = (i_81 * 128);
            /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
            const i32 mul_15 = (j_82 * 128);
            /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
            float materialize_147[64];
#pragma unroll
            for (int i = 0; i < 64; i++) {
                materialize_147[i] = 0.0f;
            }
            float acc_18[64];
#pragma unroll
            for (int i = 0; i < 64; i++) {
                acc_18[i] = materialize_147[i];
            }
#pragma unroll 1
            for (i32 k_17 = 0; k_17 < cdiv_11; k_17++) {
                /* let a = load(A[i*TM +: TM, k*TK +: TK], latency = STAGES); */
#line 25 "examples/kernels/gemm.tile"
                mbar_wait(A_ring_89_full + 8 * A_ring_89_stage, A_ring_89_phase);
                const u32 A_140 = A_ring_89 + A_ring_89_stage * 16384;
                if (++A_ring_89_stage == 4) { A_ring_89_stage = 0; A_ring_89_phase ^= 1; }
                /* let b = load(B[k*TK +: TK, j*TN +: TN], latency = STAGES); */
#line 26 "examples/kernels/gemm.tile"
                mbar_wait(B_ring_88_full + 8 * B_ring_88_stage, B_ring_88_phase);
                const u32 B_141 = B_ring_88 + B_ring_88_stage * 16384;
                if (++B_ring_88_stage == 4) { B_ring_88_stage = 0; B_ring_88_phase ^= 1; }
                /* acc = mma(a, b, acc); */
#line 34 "examples/kernels/gemm.tile"
                wgmma_fence();
                const u32 b_t0 = B_141 >> 4 | 0x2000000u;
                const u32 a_t1 = (A_140 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma_m64n128k16_f16_ss_tb(acc_18, a_t1 + (2 * k), 0x40000040u, b_t0 + (128 * k), 0x40000040u, 1);
                }
                wgmma_commit();
                /* for k in 0 .. cdiv(K, TK) { */
#line 24 "examples/kernels/gemm.tile"
                wgmma_wait(1);
                const bool gt_144 = (k_17 > 0);
                if (gt_144) {
                    if (lane == 0) mbar_arrive(B_ring_88_empty + 8 * B_ring_88_free);
                    if (++B_ring_88_free == 4) B_ring_88_free = 0;
                    if (lane == 0) mbar_arrive(A_ring_89_empty + 8 * A_ring_89_free);
                    if (++A_ring_89_free == 4) A_ring_89_free = 0;
                }
            }
            wgmma_wait(0);
#pragma unroll
            for (int i = 0; i < 64; i++) {
                pin_float(acc_18[i]);
            }
            const bool lt_146 = (0 < cdiv_11);
            if (lt_146) {
                if (lane == 0) mbar_arrive(B_ring_88_empty + 8 * B_ring_88_free);
                if (++B_ring_88_free == 4) B_ring_88_free = 0;
                if (lane == 0) mbar_arrive(A_ring_89_empty + 8 * A_ring_89_free);
                if (++A_ring_89_free == 4) A_ring_89_free = 0;
            }
            /* store(C[i*TM +: TM, j*TN +: TN], TO(acc)); */
#line 40 "examples/kernels/gemm.tile"
            u32 acc_23[32];
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const float acc_23a = acc_18[2 * i];
                const float acc_23b = acc_18[2 * i + 1];
                acc_23[i] = pack_f16(acc_23a, acc_23b);
            }
            /* a warp's rows in boxes of 64: to shared memory, from there by TMA */
            const u32 lanes_t5 = (lane & 16) ^ ((lane & 7) << 4);
#pragma unroll
            for (int box_t4 = 0; box_t4 < 2; box_t4++) {
                if (lane == 0) bulk_wait_read(1);
                warp_sync();
#pragma unroll
                for (int q_t6 = 0; q_t6 < 4; q_t6++) {
                    const int at_t7 = box_t4 * 4 + q_t6;
                    stmatrix_x4(stage_t3 + box_t4 % 2 * 2048 + (lane & 15) * 128 + ((at_t7 % 4 * 32) ^ lanes_t5), &acc_23[(4 * at_t7)]);
                }
                fence_proxy_async();
                warp_sync();
                if (lane == 0) {
                    tma_store_2d(&C_map2, stage_t3 + box_t4 % 2 * 2048, (i32)(mul_15 + (64 * box_t4)), (i32)(mul_14 + (16 * warp)));
                    bulk_commit();
                }
            }
        }
        if (lane == 0) bulk_wait(0);
    }
}
#undef SCRATCH
