/* attention (D=64, T=f16, CAUSAL=true) for cuda:sm_90a
 * programs: persistent: as many CTAs as fit take one after the other, by the dynamic tile scheduler
 * threads: 384: 128 producers, which start copies (40 registers), 256 consumers (232 registers)
 * assumes: addresses at multiples of 16 bytes, Q, K, V, O with last stride 1 and rows at multiples of 16 bytes; scale above 0; extents from 1 to 2^28 - 1
 * tiles: reads Q [128, 64], K [128, 64], V [128, 64]; writes O [128, 64]
 * products: wgmma_m64n128k16_f16_ss, wgmma_m64n64k16_f16_rs_tb_x8
 * shared memory: 181248 of 232448 bytes
 *        0  K_ring       4 x f16[64, 128], 65536 bytes
 *    65536  Q_ring       2 x f16[128, 64], 32768 bytes
 *    98304  V_ring       4 x f16[128, 64], 65536 bytes
 *   164864  stores       8 x f16[16, 64], 16384 bytes
 *   behind them the mbarriers of the rings, a full and an empty one a stage
 * order: heavy first along grid axis 0, in groups whose streams fit L2
 * lazy rescale: accumulators are rescaled when the maximum grew by more than 2^8
 * rotation: the early product runs one step ahead, both products are carried in flight; 3 values cross
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
static __device__ __forceinline__ i32 opaque(i32 x) { asm volatile("" : "+r"(x)); return x; }
static __device__ __forceinline__ float rcp_approx(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ i32 f32_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
static __device__ __forceinline__ void mbar_expect(u32 b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory"); }
static __device__ __forceinline__ void tma_load_4d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(d), "l"(m), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
/* saturates: what lies outside of the tensor stays outside */
static __device__ __forceinline__ i32 tma_coordinate(i64 x) { i32 y; asm("cvt.sat.s32.s64 %0, %1;" : "=r"(y) : "l"(x)); return y; }
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
static __device__ __forceinline__ void wgmma_m64n128k16_f16_ss(float *d, u32 alo, u32 ahi, u32 blo, u32 bhi, int acc) {
  asm volatile("{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %68, 0; mov.b64 a, {%64, %65}; mov.b64 b, {%66, %67}; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, p, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "r"(alo), "r"(ahi), "r"(blo), "r"(bhi), "r"(acc)); }
static __device__ __forceinline__ void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wgmma_wait(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
/* a register is read and written here, as far as the compiler knows */
#define pin_float(x) asm volatile("" : "+f"(x) :: "memory")
static __device__ __forceinline__ float float_bits(u32 b) { return __uint_as_float(b); }
static __device__ __forceinline__ u32 pack_f16(float lo, float hi) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }
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
static __device__ __forceinline__ void wgmma_m64n64k16_f16_rs_tb_x8(float *d, const u32 *a, const u32 *blo, u32 bhi, int acc) {
  asm volatile("{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %73, 0; mov.b64 b, {%64, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, b, p, 1, 1, 1; setp.eq.b32 p, 0, 0; mov.b64 b, {%65, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%36,%37,%38,%39}, b, p, 1, 1, 1; mov.b64 b, {%66, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%40,%41,%42,%43}, b, p, 1, 1, 1; mov.b64 b, {%67, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%44,%45,%46,%47}, b, p, 1, 1, 1; mov.b64 b, {%68, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%48,%49,%50,%51}, b, p, 1, 1, 1; mov.b64 b, {%69, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%52,%53,%54,%55}, b, p, 1, 1, 1; mov.b64 b, {%70, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%56,%57,%58,%59}, b, p, 1, 1, 1; mov.b64 b, {%71, %72}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%60,%61,%62,%63}, b, p, 1, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "r"(a[16]), "r"(a[17]), "r"(a[18]), "r"(a[19]), "r"(a[20]), "r"(a[21]), "r"(a[22]), "r"(a[23]), "r"(a[24]), "r"(a[25]), "r"(a[26]), "r"(a[27]), "r"(a[28]), "r"(a[29]), "r"(a[30]), "r"(a[31]), "r"(blo[0]), "r"(blo[1]), "r"(blo[2]), "r"(blo[3]), "r"(blo[4]), "r"(blo[5]), "r"(blo[6]), "r"(blo[7]), "r"(bhi), "r"(acc)); }
#define pin_word(x) asm volatile("" : "+r"(x) :: "memory")
static __device__ __forceinline__ void warp_sync(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
/* within 1 ulp, denormal results too */
static __device__ __forceinline__ float rcp_ulp(float x) { float y; asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
/* the buffers of all but the n newest groups have been read */
#define bulk_wait_read(n) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory")
static __device__ __forceinline__ void stmatrix_x4(u32 a, const u32 *s) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(a), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory"); }
static __device__ __forceinline__ void fence_proxy_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ __forceinline__ void tma_store_4d(const TensorMap *m, u32 s, i32 c0, i32 c1, i32 c2, i32 c3) { asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" :: "l"(m), "r"(s), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
static __device__ __forceinline__ void bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define bulk_wait(n) asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory")
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))

#define SCRATCH 181248

extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ TensorMap Q_map0,
    const __grid_constant__ TensorMap K_map1,
    const __grid_constant__ TensorMap V_map2,
    const i64 grid0,
    const i64 grid1,
    const i64 grid2,
    u32 *const scheduler,
    const i64 N_,
    const i64 HK_,
    const i64 H_,
    const float scale,
    const __grid_constant__ TensorMap O_map3)
{
    extern __shared__ __align__(1024) u8 shared[];
    const u32 shared_base = shared_address(shared);
    (void)shared_base;
    const int tid = threadIdx.x, lane = tid & 31, warp = uniform(tid >> 5);
    (void)tid; (void)lane; (void)warp;
#line 7 "examples/kernels/attention.tile"
    const u32 K_ring_177 = shared_base + 0;    /* 4 stages of 16384 bytes */
    const u32 Q_ring_178 = shared_base + 65536;    /* 2 stages of 16384 bytes */
    const u32 V_ring_179 = shared_base + 98304;    /* 4 stages of 16384 bytes */
    const u32 K_ring_177_full = shared_base + 163840, K_ring_177_empty = K_ring_177_full + 32;
    const u32 Q_ring_178_full = shared_base + 163904, Q_ring_178_empty = Q_ring_178_full + 16;
    const u32 V_ring_179_full = shared_base + 163936, V_ring_179_empty = V_ring_179_full + 32;
    const u32 scheduled_full = shared_base + 164016, scheduled_empty = scheduled_full + 16, scheduled_word = scheduled_full + 32;
    if (tid == 0) {
        prefetch_map(&Q_map0);
        prefetch_map(&K_map1);
        prefetch_map(&V_map2);
        for (int i = 0; i < 2; i++) { mbar_init(scheduled_full + 8 * i, 1); mbar_init(scheduled_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(K_ring_177_full + 8 * i, 1); mbar_init(K_ring_177_empty + 8 * i, 8); }
        for (int i = 0; i < 2; i++) { mbar_init(Q_ring_178_full + 8 * i, 1); mbar_init(Q_ring_178_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(V_ring_179_full + 8 * i, 1); mbar_init(V_ring_179_empty + 8 * i, 8); }
        mbar_init(V_ring_179_empty + 32, 8);    /* of no stage: nobody waits for it */
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp < 4) {    /* producer: one thread starts the copies */
        setmaxnreg_dec(40);
        if (warp == 0 && elect_lane()) {
            u32 K_ring_177_phase = 0, K_ring_177_stage = 0;
            u32 Q_ring_178_phase = 0, Q_ring_178_stage = 0;
            u32 V_ring_179_phase = 0, V_ring_179_stage = 0;
            u32 scheduled_phase = 0, scheduled_stage = 0;
            /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
            for (i32 program_183 = (i32)blockIdx.x;; program_183 = scheduler_next(scheduler, gridDim.x)) {
                mbar_wait(scheduled_empty + 8 * scheduled_stage, scheduled_phase ^ 1);
                sts_w32(scheduled_word + 16 * scheduled_stage, program_183 < (i32)(grid0 * grid1 * grid2));
                if (program_183 >= (i32)(grid0 * grid1 * grid2)) {
                    mbar_arrive(scheduled_full + 8 * scheduled_stage); break;
                }
                const i32 rows_185 = opaque((i32)grid0);
                const i32 opaque_188 = opaque((i32)grid1);
                const i32 opaque_190 = opaque((i32)grid2);
                const i32 streams_191 = (i32)((u32)opaque_188 * (u32)opaque_190);
                const bool lt_193 = (rows_185 < 24);
                const float l2_bytes_196 = (lt_193 ? 16252928.0f : 32505856.0f);
                const i32 opaque_200 = opaque((i32)N_);
                const float cast_201 = (float)(opaque_200);
                const float mul_202 = (2.0f * cast_201);
                const float stream_bytes_204 = (mul_202 * 64.0f);
                const i32 opaque_207 = opaque((i32)N_);
                const float cast_208 = (float)(opaque_207);
                const float mul_209 = (2.0f * cast_208);
                const float stream_bytes_211 = (mul_209 * 64.0f);
                const float add_212 = (stream_bytes_204 + stream_bytes_211);
                const float add_213 = (add_212 + 1.0f);
                const float div_214 = (l2_bytes_196 * rcp_approx(add_213));
                const i32 cast_215 = f32_to_i32(div_214);
                const i32 max_216 = (cast_215 > 1 ? cast_215 : 1);
                const i32 streams_that_fit_217 = (max_216 < streams_191 ? max_216 : streams_191);
                const i32 cdiv_218 = (i32)(((u32)streams_191 + (u32)streams_that_fit_217 - 1) / (u32)streams_that_fit_217);
                const i32 group_size_219 = (i32)(((u32)streams_191 + (u32)cdiv_218 - 1) / (u32)cdiv_218);
                const i32 group_programs_220 = (i32)((u32)group_size_219 * (u32)rows_185);
                const i32 group_221 = (i32)((u32)program_183 / (u32)group_programs_220);
                const i32 mul_222 = (i32)((u32)group_221 * (u32)group_programs_220);
                const i32 within_group_223 = (i32)((u32)program_183 - (u32)mul_222);
                const i32 first_stream_224 = (i32)((u32)group_221 * (u32)group_size_219);
                const i32 sub_225 = (i32)((u32)streams_191 - (u32)first_stream_224);
                const i32 this_group_size_226 = (group_size_219 < sub_225 ? group_size_219 : sub_225);
                const i32 row_227 = (i32)((u32)within_group_223 / (u32)this_group_size_226);
                const i32 mul_228 = (i32)((u32)row_227 * (u32)this_group_size_226);
                const i32 sub_229 = (i32)((u32)within_group_223 - (u32)mul_228);
                const i32 stream_230 = (i32)((u32)first_stream_224 + (u32)sub_229);
                const i32 sub_231 = (rows_185 - 1);
                const i32 sub_232 = (sub_231 - row_227);
                const i32 opaque_234 = opaque((i32)grid1);
                const i32 rem_235 = (i32)((u32)stream_230 % (u32)opaque_234);
                const i32 div_236 = (i32)((u32)stream_230 / (u32)opaque_234);
                const i32 i_237 = sub_232;
                sts_w32(scheduled_word + 16 * scheduled_stage + 4, (u32)i_237);
                const i32 h_238 = rem_235;
                sts_w32(scheduled_word + 16 * scheduled_stage + 8, (u32)h_238);
                const i32 b_239 = div_236;
                sts_w32(scheduled_word + 16 * scheduled_stage + 12, (u32)b_239);
                mbar_arrive(scheduled_full + 8 * scheduled_stage);
                if (++scheduled_stage == 2) { scheduled_stage = 0; scheduled_phase ^= 1; }
                /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
                const i32 mul_245 = (i_237 * 128);
                mbar_wait(Q_ring_178_empty + 8 * Q_ring_178_stage, Q_ring_178_phase ^ 1);
                mbar_expect(Q_ring_178_full + 8 * Q_ring_178_stage, 16384);
                tma_load_4d(Q_ring_178 + Q_ring_178_stage * 16384, &Q_map0, Q_ring_178_full + 8 * Q_ring_178_stage, 0, mul_245, h_238, b_239);
                if (++Q_ring_178_stage == 2) { Q_ring_178_stage = 0; Q_ring_178_phase ^= 1; }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const i32 add_258 = (i_237 + 1);
                const i32 mul_259 = (add_258 * 128);
                const i32 min_260 = ((i32)N_ < mul_259 ? (i32)N_ : mul_259);
                const i32 cdiv_261 = ((min_260 + 127) / 128);
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
                const i64 h_262 = (i64)(h_238);
                const i64 mul_263 = (h_262 * HK_);
                const i64 div_264 = (i64)((u64)mul_263 / (u64)H_);
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
#pragma unroll 1
                for (i32 j_273 = 0; j_273 < cdiv_261; j_273++) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_277 = (j_273 * 128);
                    mbar_wait(K_ring_177_empty + 8 * K_ring_177_stage, K_ring_177_phase ^ 1);
                    mbar_expect(K_ring_177_full + 8 * K_ring_177_stage, 16384);
                    tma_load_4d(K_ring_177 + K_ring_177_stage * 16384, &K_map1, K_ring_177_full + 8 * K_ring_177_stage, 0, mul_277, tma_coordinate(div_264), b_239);
                    if (++K_ring_177_stage == 4) { K_ring_177_stage = 0; K_ring_177_phase ^= 1; }
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_179_empty + 8 * V_ring_179_stage, V_ring_179_phase ^ 1);
                    mbar_expect(V_ring_179_full + 8 * V_ring_179_stage, 16384);
                    tma_load_4d(V_ring_179 + V_ring_179_stage * 16384, &V_map2, V_ring_179_full + 8 * V_ring_179_stage, 0, mul_277, tma_coordinate(div_264), b_239);
                    if (++V_ring_179_stage == 4) { V_ring_179_stage = 0; V_ring_179_phase ^= 1; }
                }
            }
            scheduler_done(scheduler, gridDim.x);
        }
    } else {    /* consumers: 2 warpgroups */
        setmaxnreg_inc(232);
        const int tid = threadIdx.x - 128, warp = uniform(tid >> 5);
        (void)tid; (void)warp;
        u32 K_ring_177_phase = 0, K_ring_177_stage = 0, K_ring_177_free = 0;
        u32 Q_ring_178_phase = 0, Q_ring_178_stage = 0, Q_ring_178_free = 0;
        u32 V_ring_179_phase = 0, V_ring_179_stage = 0, V_ring_179_free = 0;
        u32 scheduled_phase = 0, scheduled_stage = 0;
        const int c0 = (lane >> 2) + warp * 16;
        const int c1 = lane % 4 * 2;
        const u32 stage_t44 = shared_base + 164864 + warp * 2048;
        /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
        for (;;) {
            mbar_wait(scheduled_full + 8 * scheduled_stage, scheduled_phase);
            if (!first_lane_word(scheduled_word + 16 * scheduled_stage, lane)) break;
            const i32 i_147 = first_lane_word(scheduled_word + 16 * scheduled_stage + 4, lane);
            const i32 h_148 = first_lane_word(scheduled_word + 16 * scheduled_stage + 8, lane);
            const i32 b_149 = first_lane_word(scheduled_word + 16 * scheduled_stage + 12, lane);
            if (lane == 0) mbar_arrive(scheduled_empty + 8 * scheduled_stage + ((u32)(i_147 | h_148 | b_149) & hidden_zero()));
            if (++scheduled_stage == 2) { scheduled_stage = 0; scheduled_phase ^= 1; }
            /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
            const i32 mul_13 = (i_147 * 128);
            mbar_wait(Q_ring_178_full + 8 * Q_ring_178_stage, Q_ring_178_phase);
            const u32 Q_335 = Q_ring_178 + Q_ring_178_stage * 16384;
            if (++Q_ring_178_stage == 2) { Q_ring_178_stage = 0; Q_ring_178_phase ^= 1; }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const i32 add_26 = (i_147 + 1);
            const i32 mul_27 = (add_26 * 128);
            const i32 min_28 = ((i32)N_ < mul_27 ? (i32)N_ : mul_27);
            const i32 cdiv_29 = ((min_28 + 127) / 128);
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const bool lt_399 = (0 < cdiv_29);
            float l_400[2];
            float acc_401[32];
            if (lt_399) {
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
                mbar_wait(K_ring_177_full + 8 * K_ring_177_stage, K_ring_177_phase);
                const u32 K_405 = K_ring_177 + K_ring_177_stage * 16384;
                if (++K_ring_177_stage == 4) { K_ring_177_stage = 0; K_ring_177_phase ^= 1; }
                /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                float s_409[64];
                wgmma_fence();
                const u32 b_t0 = K_405 >> 4 | 0x10000u;
                const u32 a_t1 = (Q_335 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma_m64n128k16_f16_ss(s_409, a_t1 + (2 * k), 0x40000040u, b_t0 + (2 * k), 0x40000040u, k > 0);
                }
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    pin_float(s_409[i]);
                }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const u32 ring_none_416 = V_ring_179 + 65536;
                float materialize_543[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_543[i] = 0.0f;
                }
                float materialize_544[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_544[i] = 0.0f;
                }
                float materialize_545[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_545[i] = float_bits(0xff800000u);
                }
                float materialize_546[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_546[i] = float_bits(0xff800000u);
                }
                float materialize_547[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_547[i] = 0.0f;
                }
                u32 materialize_548[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_548[i] = pack_f16(0.0f, 0.0f);
                }
                i32 j_427;
                j_427 = 0;
                float l_429[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_429[i] = materialize_543[i];
                }
                float acc_431[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_431[i] = materialize_544[i];
                }
                float m_433[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    m_433[i] = materialize_545[i];
                }
                float bar_435[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    bar_435[i] = materialize_546[i];
                }
                float alpha_439[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    alpha_439[i] = materialize_547[i];
                }
                bool grew_441;
                grew_441 = false;
                u32 carried_443[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    carried_443[i] = materialize_548[i];
                }
                u32 V_445;
                V_445 = ring_none_416;
#pragma unroll 1
                for (;;) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_447 = (j_427 * 128);
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    wgmma_wait(1);
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        pin_float(s_409[i]);
                    }
                    if (lane == 0) mbar_arrive(K_ring_177_empty + 8 * K_ring_177_free);
                    if (++K_ring_177_free == 4) K_ring_177_free = 0;
                    /* s = where(col < N && (!CAUSAL || row >= col), s * scale, -inf); */
#line 23 "examples/kernels/attention.tile"
                    const i32 add_459 = (mul_447 + 127);
                    const bool lt_460 = (add_459 < (i32)N_);
                    const i32 add_462 = (mul_13 + 0);
                    const i32 add_464 = (mul_447 + 127);
                    const bool ge_465 = (add_462 >= add_464);
                    const bool and_466 = (lt_460 & ge_465);
                    float if_467[64];
                    if (and_466) {
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_467[i] = s_409[i];
                        }
                    } else {
                        float where_468[64];
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            const float where_468a = ((((mul_447 + ((i32)(c1 + i % 2 + i / 4 * 8))) < (i32)N_) & ((mul_13 + ((i32)(c0 + i / 2 % 2 * 8))) >= (mul_447 + ((i32)(c1 + i % 2 + i / 4 * 8))))) ? s_409[i] : float_bits(0xff800000u));
                            where_468[i] = where_468a;
                        }
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_467[i] = where_468[i];
                        }
                    }
                    /* let m_new = max(m, max(s, axis = 1)); */
#line 24 "examples/kernels/attention.tile"
                    float red_t3[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        red_t3[i] = LOWEST_f32;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float x_t5 = if_467[i];
                        const int k_t4 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
                        red_t3[k_t4] = max_f32(red_t3[k_t4], x_t5);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t3[i] = max_f32(red_t3[i], red_t3[i + 2]);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t3[i] = max_f32(red_t3[i], red_t3[i + 4]);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t3[i] = max_f32(red_t3[i], red_t3[i + 6]);
                    }
                    float reduce_max_469[2];
                    reduce_max_469[0] = red_t3[0];
                    reduce_max_469[1] = red_t3[1];
                    float mul_470[2];
                    bool not_472[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float mul_470a = (reduce_max_469[i] * scale);
                        const bool lt_471a = (mul_470a < bar_435[i]);
                        const bool not_472a = !(lt_471a);
                        mul_470[i] = mul_470a;
                        not_472[i] = not_472a;
                    }
                    bool any_t7 = false;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        any_t7 |= not_472[i];
                    }
                    const bool grew_473 = vote_any(any_t7);
                    const bool not_474 = !(grew_473);
                    float m_new_475[2];
                    float alpha_476[2];
                    float if_477[2];
                    float if_478[2];
                    float if_479[64];
                    float if_480;
                    float if_481[2];
                    if (not_474) {
                        const float mul_485 = (scale * 1.44269502f);
                        float mul_487[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float mul_487a = (m_433[i] * -1.44269502f);
                            mul_487[i] = mul_487a;
                        }
                        float materialize_549[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            materialize_549[i] = 1.0f;
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            m_new_475[i] = m_433[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            alpha_476[i] = materialize_549[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_477[i] = bar_435[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_478[i] = l_429[i];
                        }
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_479[i] = if_467[i];
                        }
                        if_480 = mul_485;
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_481[i] = mul_487[i];
                        }
                    } else {
                        float red_t9[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            red_t9[i] = LOWEST_f32;
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float x_t11 = mul_470[i];
                            const int k_t10 = i;
                            red_t9[k_t10] = max_f32(red_t9[k_t10], x_t11);
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float y_t12 = shuffle_xor_f32(red_t9[i], 1);
                            red_t9[i] = max_f32(red_t9[i], y_t12);
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float y_t13 = shuffle_xor_f32(red_t9[i], 2);
                            red_t9[i] = max_f32(red_t9[i], y_t13);
                        }
                        float reduce_max_554[2];
                        reduce_max_554[0] = red_t9[0];
                        reduce_max_554[1] = red_t9[1];
                        float m_new_488[2];
                        float alpha_491[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float m_new_488a = max_f32(m_433[i], reduce_max_554[i]);
                            const float sub_489a = (m_433[i] - m_new_488a);
                            const float mul_490a = (sub_489a * 1.44269502f);
                            const float alpha_491a = exp2_f32(mul_490a);
                            m_new_488[i] = m_new_488a;
                            alpha_491[i] = alpha_491a;
                        }
                        float add_494[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float add_494a = (m_new_488[i] + 5.54517746f);
                            add_494[i] = add_494a;
                        }
                        const float mul_499 = (scale * 1.44269502f);
                        const float abs_500 = abs_f32(mul_499);
                        const bool le_502 = (abs_500 <= 1.2676506e+30f);
                        const float where_504 = (le_502 ? 709.782715f : -1.0f);
                        float where_508[2];
                        float mul_509[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const float abs_506a = abs_f32(m_new_488[i]);
                            const bool le_507a = (abs_506a <= where_504);
                            const float where_508a = (le_507a ? add_494[i] : float_bits(0xff800000u));
                            const float mul_509a = mul_alone_f32(l_429[i], alpha_491[i]);
                            where_508[i] = where_508a;
                            mul_509[i] = mul_509a;
                        }
                        float sub_513[64];
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            const float mul_511a = mul_alone_f32(if_467[i], scale);
                            const float sub_513a = (mul_511a - m_new_488[(i / 2 % 2)]);
                            sub_513[i] = sub_513a;
                        }
                        float materialize_550[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            materialize_550[i] = 0.0f;
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            m_new_475[i] = m_new_488[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            alpha_476[i] = alpha_491[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_477[i] = where_508[i];
                        }
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_478[i] = mul_509[i];
                        }
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_479[i] = sub_513[i];
                        }
                        if_480 = 1.44269502f;
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            if_481[i] = materialize_550[i];
                        }
                    }
                    /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
                    float p_519[64];
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float fma_518a = fma_f32(if_479[i], if_480, if_481[(i / 2 % 2)]);
                        const float p_519a = exp2_f32(fma_518a);
                        p_519[i] = p_519a;
                    }
                    /* l   = l*alpha + sum(p, axis = 1); */
#line 27 "examples/kernels/attention.tile"
                    float red_t19[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        red_t19[i] = 0;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float x_t21 = p_519[i];
                        const int k_t20 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
                        red_t19[k_t20] = red_t19[k_t20] + x_t21;
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t19[i] = red_t19[i] + red_t19[i + 2];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t19[i] = red_t19[i] + red_t19[i + 4];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t19[i] = red_t19[i] + red_t19[i + 6];
                    }
                    float reduce_sum_520[2];
                    reduce_sum_520[0] = red_t19[0];
                    reduce_sum_520[1] = red_t19[1];
                    float l_521[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float l_521a = (if_478[i] + reduce_sum_520[i]);
                        l_521[i] = l_521a;
                    }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    wgmma_wait(0);
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(acc_431[i]);
                    }
                    if (lane == 0) mbar_arrive(V_ring_179_empty + (V_445 - V_ring_179) / 2048);
                    u32 p_523[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float p_523a = p_519[2 * i];
                        const float p_523b = p_519[2 * i + 1];
                        p_523[i] = pack_f16(p_523a, p_523b);
                    }
                    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                    const i32 add_524 = (j_427 + 1);
                    const bool lt_525 = (add_524 < cdiv_29);
                    const bool go_t24 = lt_525;
                    j_427 = add_524;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        l_429[i] = l_521[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        m_433[i] = m_new_475[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        bar_435[i] = if_477[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        alpha_439[i] = alpha_476[i];
                    }
                    grew_441 = grew_473;
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        carried_443[i] = p_523[i];
                    }
                    if (!go_t24) break;
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 20 "examples/kernels/attention.tile"
                    mbar_wait(K_ring_177_full + 8 * K_ring_177_stage, K_ring_177_phase);
                    const u32 K_527 = K_ring_177 + K_ring_177_stage * 16384;
                    if (++K_ring_177_stage == 4) { K_ring_177_stage = 0; K_ring_177_phase ^= 1; }
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    wgmma_fence();
                    const u32 b_t25 = K_527 >> 4 | 0x10000u;
                    const u32 a_t26 = (Q_335 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        wgmma_m64n128k16_f16_ss(s_409, a_t26 + (2 * k), 0x40000040u, b_t25 + (2 * k), 0x40000040u, k > 0);
                    }
                    wgmma_commit();
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_179_full + 8 * V_ring_179_stage, V_ring_179_phase);
                    const u32 V_532 = V_ring_179 + V_ring_179_stage * 16384;
                    if (++V_ring_179_stage == 4) { V_ring_179_stage = 0; V_ring_179_phase ^= 1; }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    if (grew_441) {
                        float mul_535[32];
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            const float mul_535a = (acc_431[i] * alpha_439[(i / 2 % 2)]);
                            mul_535[i] = mul_535a;
                        }
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            acc_431[i] = mul_535[i];
                        }
                    } else {
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(acc_431[i]);
                    }
                    wgmma_fence();
                    const u32 b_t28 = V_532 >> 4 | 0x4000000u;
                    u32 bs_t31[8];
#pragma unroll
                    for (int k = 0; k < 8; k++) {
                        bs_t31[k] = b_t28 + (128 * k);
                    }
                    wgmma_m64n64k16_f16_rs_tb_x8(acc_431, carried_443, bs_t31, 0x40000040u, 1);
                    wgmma_commit();
                    V_445 = V_532;
                }
                /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                mbar_wait(V_ring_179_full + 8 * V_ring_179_stage, V_ring_179_phase);
                const u32 V_537 = V_ring_179 + V_ring_179_stage * 16384;
                if (++V_ring_179_stage == 4) { V_ring_179_stage = 0; V_ring_179_phase ^= 1; }
                /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                float if_539[32];
                if (grew_441) {
                    float mul_540[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float mul_540a = (acc_431[i] * alpha_439[(i / 2 % 2)]);
                        mul_540[i] = mul_540a;
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_539[i] = mul_540[i];
                    }
                } else {
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_539[i] = acc_431[i];
                    }
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_539[i]);
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_word(carried_443[i]);
                }
                wgmma_fence();
                const u32 b_t33 = V_537 >> 4 | 0x4000000u;
                u32 bs_t36[8];
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    bs_t36[k] = b_t33 + (128 * k);
                }
                wgmma_m64n64k16_f16_rs_tb_x8(if_539, carried_443, bs_t36, 0x40000040u, 1);
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_539[i]);
                }
                if (lane == 0) mbar_arrive(V_ring_179_empty + (V_537 - V_ring_179) / 2048);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_400[i] = l_429[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_401[i] = if_539[i];
                }
            } else {
                float materialize_551[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_551[i] = 0.0f;
                }
                float materialize_552[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_552[i] = 0.0f;
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_400[i] = materialize_551[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_401[i] = materialize_552[i];
                }
            }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            float red_t37[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                red_t37[i] = 0;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float x_t39 = l_400[i];
                const int k_t38 = i;
                red_t37[k_t38] = red_t37[k_t38] + x_t39;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float y_t40 = shuffle_xor_f32(red_t37[i], 1);
                red_t37[i] = red_t37[i] + y_t40;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float y_t41 = shuffle_xor_f32(red_t37[i], 2);
                red_t37[i] = red_t37[i] + y_t41;
            }
            float l_553[2];
            l_553[0] = red_t37[0];
            l_553[1] = red_t37[1];
            warp_sync();
            if (lane == 0) mbar_arrive(Q_ring_178_empty + 8 * Q_ring_178_free);
            if (++Q_ring_178_free == 2) Q_ring_178_free = 0;
            /* store(O[b, h, i*TM +: TM, :], T(acc / l)); */
#line 32 "examples/kernels/attention.tile"
            float div_154[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float div_154a = rcp_ulp(l_553[i]);
                div_154[i] = div_154a;
            }
            u32 cast_81[16];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const float mul_156a = (acc_401[2 * i] * div_154[(i % 2)]);
                const float cast_81a = mul_156a;
                const float mul_156b = (acc_401[2 * i + 1] * div_154[(i % 2)]);
                const float cast_81b = mul_156b;
                cast_81[i] = pack_f16(cast_81a, cast_81b);
            }
            /* a warp's rows in boxes of 64: to shared memory, from there by TMA */
            const u32 lanes_t46 = (lane & 16) ^ ((lane & 7) << 4);
#pragma unroll
            for (int box_t45 = 0; box_t45 < 1; box_t45++) {
                if (lane == 0) bulk_wait_read(0);
                warp_sync();
#pragma unroll
                for (int q_t47 = 0; q_t47 < 4; q_t47++) {
                    const int at_t48 = box_t45 * 4 + q_t47;
                    stmatrix_x4(stage_t44 + (lane & 15) * 128 + ((32 * at_t48) ^ lanes_t46), &cast_81[(4 * at_t48)]);
                }
                fence_proxy_async();
                warp_sync();
                if (lane == 0) {
                    tma_store_4d(&O_map3, stage_t44, (i32)(0), (i32)(mul_13 + (16 * warp)), (i32)(h_148), (i32)(b_149));
                    bulk_commit();
                }
            }
        }
        if (lane == 0) bulk_wait(0);
    }
}
#undef SCRATCH
