/* attention (D=64, T=f16, CAUSAL=true) for cuda:sm_90a
 * programs: persistent: as many CTAs as fit take one after the other, by tickets
 * threads: 384: 128 producers, which start copies (40 registers), 256 consumers (232 registers)
 * assumes: addresses at multiples of 16 bytes, Q, K, V, O with last stride 1 and rows at multiples of 16 bytes; scale above 0; extents from 1 to 2^28 - 1
 * tiles: reads Q [128, 64], K [128, 64], V [128, 64]; writes O [128, 64]
 * products: wgmma_m64n128k16_f16_ss, wgmma_m64n64k16_f16_rs_tb_x8
 * shared memory: 181248 of 232448 bytes
 *        0  K_ring       4 x f16[64, 128], 65536 bytes
 *    65536  Q_ring       2 x f16[128, 64], 32768 bytes
 *    98304  V_ring       4 x f16[128, 64], 65536 bytes
 *   164864  stores       8 x f16[16, 64], 16384 bytes
 *   behind them the mbarriers of the rings, a full and an empty one a slot
 * order: heavy first along grid axis 0, in groups whose streams fit L2
 * lazy rescale: accumulators are rescaled when the maximum grew by more than 2^8
 * rotation: the early product runs one step ahead, both products are carried in flight; 3 values cross
 */
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef struct CheckRecord { u32 failed, line; i64 program; u32 message, reserved; } CheckRecord;
typedef struct __align__(64) TensorMap { u64 words[16]; } TensorMap;
static __device__ __forceinline__ u32 shared_address(const void *p) { u32 a; asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p)); return a; }
/* the same value in all lanes, known as such to the compiler */
static __device__ __forceinline__ int uniform(int x) { int y; asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(y) : "r"(x)); return y; }
static __device__ __forceinline__ void prefetch_map(const TensorMap *m) { asm volatile("prefetch.tensormap [%0];" :: "l"(m) : "memory"); }
static __device__ __forceinline__ void mbar_init(u32 b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
static __device__ __forceinline__ void fence_mbarrier_init(void) { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ __forceinline__ i32 ticket_next(u32 *t, u32 ctas) { return (i32)(ctas + atomicAdd(t, 1u)); }
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
static __device__ __forceinline__ void ticket_done(u32 *t, u32 ctas) { __threadfence(); if (atomicAdd(t + 1, 1u) == ctas - 1) { atomicExch(t, 0u); atomicExch(t + 1, 0u); } }
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
/* true in one lane of the warp, always the same one */
static __device__ __forceinline__ bool elect_lane(void) { u32 x; asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(x)); return x; }
static __device__ __forceinline__ u32 lds_w32(u32 a) { u32 x; asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(a) : "memory"); return x; }
/* a word of shared memory as lane 0 reads it, for all lanes */
static __device__ __forceinline__ int first_lane_word(u32 a, int lane) { u32 x = 0; if (lane == 0) x = lds_w32(a); return uniform((int)x); }
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
static __device__ __forceinline__ u32 shuffle_u32(u32 x, u32 mask) { u32 y; asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(mask)); return y; }
static __device__ __forceinline__ u32 float_word(float x) { return __float_as_uint(x); }
static __device__ __forceinline__ float shuffle_xor_f32(float x, u32 m) { return float_bits(shuffle_u32(float_word(x), m)); }
static __device__ __forceinline__ float abs_f32(float x) { return fabsf(x); }
static __device__ __forceinline__ bool vote_any(bool x) { return __any_sync(0xffffffffu, x); }
static __device__ __forceinline__ float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ float ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static __device__ __forceinline__ float exp2_f32(float x) { return ex2(x); }
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
    u32 *const tickets,
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
    const u32 K_ring_176 = shared_base + 0;    /* 4 slots of 16384 bytes */
    const u32 Q_ring_177 = shared_base + 65536;    /* 2 slots of 16384 bytes */
    const u32 V_ring_178 = shared_base + 98304;    /* 4 slots of 16384 bytes */
    const u32 K_ring_176_full = shared_base + 163840, K_ring_176_empty = K_ring_176_full + 32;
    const u32 Q_ring_177_full = shared_base + 163904, Q_ring_177_empty = Q_ring_177_full + 16;
    const u32 V_ring_178_full = shared_base + 163936, V_ring_178_empty = V_ring_178_full + 32;
    const u32 ticket_full = shared_base + 164016, ticket_empty = ticket_full + 16, ticket_word = ticket_full + 32;
    if (tid == 0) {
        prefetch_map(&Q_map0);
        prefetch_map(&K_map1);
        prefetch_map(&V_map2);
        for (int i = 0; i < 2; i++) { mbar_init(ticket_full + 8 * i, 1); mbar_init(ticket_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(K_ring_176_full + 8 * i, 1); mbar_init(K_ring_176_empty + 8 * i, 8); }
        for (int i = 0; i < 2; i++) { mbar_init(Q_ring_177_full + 8 * i, 1); mbar_init(Q_ring_177_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(V_ring_178_full + 8 * i, 1); mbar_init(V_ring_178_empty + 8 * i, 8); }
        mbar_init(V_ring_178_empty + 32, 8);    /* of no slot: nobody waits for it */
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp < 4) {    /* producer: one thread starts the copies */
        setmaxnreg_dec(40);
        if (warp == 0 && elect_lane()) {
            u32 K_ring_176_phase = 0, K_ring_176_slot = 0;
            u32 Q_ring_177_phase = 0, Q_ring_177_slot = 0;
            u32 V_ring_178_phase = 0, V_ring_178_slot = 0;
            u32 ticket_phase = 0, ticket_slot = 0;
            /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
            for (i32 program_182 = (i32)blockIdx.x;; program_182 = ticket_next(tickets, gridDim.x)) {
                mbar_wait(ticket_empty + 8 * ticket_slot, ticket_phase ^ 1);
                sts_w32(ticket_word + 16 * ticket_slot, program_182 < (i32)(grid0 * grid1 * grid2));
                if (program_182 >= (i32)(grid0 * grid1 * grid2)) {
                    mbar_arrive(ticket_full + 8 * ticket_slot); break;
                }
                const i32 rows_184 = opaque((i32)grid0);
                const i32 opaque_187 = opaque((i32)grid1);
                const i32 opaque_189 = opaque((i32)grid2);
                const i32 streams_190 = (i32)((u32)opaque_187 * (u32)opaque_189);
                const bool lt_192 = (rows_184 < 24);
                const float l2_bytes_195 = (lt_192 ? 16252928.0f : 32505856.0f);
                const i32 opaque_199 = opaque((i32)N_);
                const float cast_200 = (float)(opaque_199);
                const float mul_201 = (2.0f * cast_200);
                const float stream_bytes_203 = (mul_201 * 64.0f);
                const i32 opaque_206 = opaque((i32)N_);
                const float cast_207 = (float)(opaque_206);
                const float mul_208 = (2.0f * cast_207);
                const float stream_bytes_210 = (mul_208 * 64.0f);
                const float add_211 = (stream_bytes_203 + stream_bytes_210);
                const float add_212 = (add_211 + 1.0f);
                const float div_213 = (l2_bytes_195 * rcp_approx(add_212));
                const i32 cast_214 = f32_to_i32(div_213);
                const i32 max_215 = (cast_214 > 1 ? cast_214 : 1);
                const i32 streams_that_fit_216 = (max_215 < streams_190 ? max_215 : streams_190);
                const i32 cdiv_217 = (i32)(((u32)streams_190 + (u32)streams_that_fit_216 - 1) / (u32)streams_that_fit_216);
                const i32 group_size_218 = (i32)(((u32)streams_190 + (u32)cdiv_217 - 1) / (u32)cdiv_217);
                const i32 group_programs_219 = (i32)((u32)group_size_218 * (u32)rows_184);
                const i32 group_220 = (i32)((u32)program_182 / (u32)group_programs_219);
                const i32 mul_221 = (i32)((u32)group_220 * (u32)group_programs_219);
                const i32 within_group_222 = (i32)((u32)program_182 - (u32)mul_221);
                const i32 first_stream_223 = (i32)((u32)group_220 * (u32)group_size_218);
                const i32 sub_224 = (i32)((u32)streams_190 - (u32)first_stream_223);
                const i32 this_group_size_225 = (group_size_218 < sub_224 ? group_size_218 : sub_224);
                const i32 row_226 = (i32)((u32)within_group_222 / (u32)this_group_size_225);
                const i32 mul_227 = (i32)((u32)row_226 * (u32)this_group_size_225);
                const i32 sub_228 = (i32)((u32)within_group_222 - (u32)mul_227);
                const i32 stream_229 = (i32)((u32)first_stream_223 + (u32)sub_228);
                const i32 sub_230 = (rows_184 - 1);
                const i32 sub_231 = (sub_230 - row_226);
                const i32 opaque_233 = opaque((i32)grid1);
                const i32 rem_234 = (i32)((u32)stream_229 % (u32)opaque_233);
                const i32 div_235 = (i32)((u32)stream_229 / (u32)opaque_233);
                const i32 i_236 = sub_231;
                sts_w32(ticket_word + 16 * ticket_slot + 4, (u32)i_236);
                const i32 h_237 = rem_234;
                sts_w32(ticket_word + 16 * ticket_slot + 8, (u32)h_237);
                const i32 b_238 = div_235;
                sts_w32(ticket_word + 16 * ticket_slot + 12, (u32)b_238);
                mbar_arrive(ticket_full + 8 * ticket_slot);
                if (++ticket_slot == 2) { ticket_slot = 0; ticket_phase ^= 1; }
                /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
                const i32 mul_244 = (i_236 * 128);
                mbar_wait(Q_ring_177_empty + 8 * Q_ring_177_slot, Q_ring_177_phase ^ 1);
                mbar_expect(Q_ring_177_full + 8 * Q_ring_177_slot, 16384);
                tma_load_4d(Q_ring_177 + Q_ring_177_slot * 16384, &Q_map0, Q_ring_177_full + 8 * Q_ring_177_slot, 0, mul_244, h_237, b_238);
                if (++Q_ring_177_slot == 2) { Q_ring_177_slot = 0; Q_ring_177_phase ^= 1; }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const i32 add_257 = (i_236 + 1);
                const i32 mul_258 = (add_257 * 128);
                const i32 min_259 = ((i32)N_ < mul_258 ? (i32)N_ : mul_258);
                const i32 cdiv_260 = ((min_259 + 127) / 128);
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                const i64 h_261 = (i64)(h_237);
                const i64 mul_262 = (h_261 * HK_);
                const i64 div_263 = (i64)((u64)mul_262 / (u64)H_);
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
#pragma unroll 1
                for (i32 j_275 = 0; j_275 < cdiv_260; j_275++) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_279 = (j_275 * 128);
                    mbar_wait(K_ring_176_empty + 8 * K_ring_176_slot, K_ring_176_phase ^ 1);
                    mbar_expect(K_ring_176_full + 8 * K_ring_176_slot, 16384);
                    tma_load_4d(K_ring_176 + K_ring_176_slot * 16384, &K_map1, K_ring_176_full + 8 * K_ring_176_slot, 0, mul_279, tma_coordinate(div_263), b_238);
                    if (++K_ring_176_slot == 4) { K_ring_176_slot = 0; K_ring_176_phase ^= 1; }
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_178_empty + 8 * V_ring_178_slot, V_ring_178_phase ^ 1);
                    mbar_expect(V_ring_178_full + 8 * V_ring_178_slot, 16384);
                    tma_load_4d(V_ring_178 + V_ring_178_slot * 16384, &V_map2, V_ring_178_full + 8 * V_ring_178_slot, 0, mul_279, tma_coordinate(div_263), b_238);
                    if (++V_ring_178_slot == 4) { V_ring_178_slot = 0; V_ring_178_phase ^= 1; }
                }
            }
            ticket_done(tickets, gridDim.x);
        }
    } else {    /* consumers: 2 warpgroups */
        setmaxnreg_inc(232);
        const int tid = threadIdx.x - 128, warp = uniform(tid >> 5);
        (void)tid; (void)warp;
        u32 K_ring_176_phase = 0, K_ring_176_slot = 0, K_ring_176_free = 0;
        u32 Q_ring_177_phase = 0, Q_ring_177_slot = 0, Q_ring_177_free = 0;
        u32 V_ring_178_phase = 0, V_ring_178_slot = 0, V_ring_178_free = 0;
        u32 ticket_phase = 0, ticket_slot = 0;
        const int c0 = (lane >> 2) + warp * 16;
        const int c1 = lane % 4 * 2;
        const u32 stage_t36 = shared_base + 164864 + warp * 2048;
        /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
        for (;;) {
            mbar_wait(ticket_full + 8 * ticket_slot, ticket_phase);
            if (!first_lane_word(ticket_word + 16 * ticket_slot, lane)) break;
            const i32 i_146 = first_lane_word(ticket_word + 16 * ticket_slot + 4, lane);
            const i32 h_147 = first_lane_word(ticket_word + 16 * ticket_slot + 8, lane);
            const i32 b_148 = first_lane_word(ticket_word + 16 * ticket_slot + 12, lane);
            if (lane == 0) mbar_arrive(ticket_empty + 8 * ticket_slot);
            if (++ticket_slot == 2) { ticket_slot = 0; ticket_phase ^= 1; }
            /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
            const i32 mul_13 = (i_146 * 128);
            mbar_wait(Q_ring_177_full + 8 * Q_ring_177_slot, Q_ring_177_phase);
            const u32 Q_333 = Q_ring_177 + Q_ring_177_slot * 16384;
            if (++Q_ring_177_slot == 2) { Q_ring_177_slot = 0; Q_ring_177_phase ^= 1; }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const i32 add_26 = (i_146 + 1);
            const i32 mul_27 = (add_26 * 128);
            const i32 min_28 = ((i32)N_ < mul_27 ? (i32)N_ : mul_27);
            const i32 cdiv_29 = ((min_28 + 127) / 128);
            /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
            const float mul_36 = (scale * 1.44269502f);
            const float mul_38 = (scale * -1.44269502f);
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const bool lt_352 = (0 < cdiv_29);
            float l_353[2];
            float acc_354[32];
            if (lt_352) {
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                mbar_wait(K_ring_176_full + 8 * K_ring_176_slot, K_ring_176_phase);
                const u32 K_357 = K_ring_176 + K_ring_176_slot * 16384;
                if (++K_ring_176_slot == 4) { K_ring_176_slot = 0; K_ring_176_phase ^= 1; }
                /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                float s_361[64];
                wgmma_fence();
                const u32 b_t0 = K_357 >> 4 | 0x10000u;
                const u32 a_t1 = (Q_333 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma_m64n128k16_f16_ss(s_361, a_t1 + (2 * k), 0x40000040u, b_t0 + (2 * k), 0x40000040u, k > 0);
                }
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    pin_float(s_361[i]);
                }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const u32 ring_none_368 = V_ring_178 + 65536;
                float materialize_467[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_467[i] = 0.0f;
                }
                float materialize_468[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_468[i] = 0.0f;
                }
                float materialize_469[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_469[i] = float_bits(0xff800000u);
                }
                float materialize_470[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_470[i] = 0.0f;
                }
                u32 materialize_471[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_471[i] = pack_f16(0.0f, 0.0f);
                }
                i32 j_378;
                j_378 = 0;
                float l_380[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_380[i] = materialize_467[i];
                }
                float acc_382[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_382[i] = materialize_468[i];
                }
                float m_384[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    m_384[i] = materialize_469[i];
                }
                float alpha_388[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    alpha_388[i] = materialize_470[i];
                }
                bool grew_390;
                grew_390 = false;
                u32 carried_392[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    carried_392[i] = materialize_471[i];
                }
                u32 V_394;
                V_394 = ring_none_368;
#pragma unroll 1
                for (;;) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_396 = (j_378 * 128);
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    wgmma_wait(1);
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        pin_float(s_361[i]);
                    }
                    if (lane == 0) mbar_arrive(K_ring_176_empty + 8 * K_ring_176_free);
                    if (++K_ring_176_free == 4) K_ring_176_free = 0;
                    /* s = where(col < N && (!CAUSAL || row >= col), s * scale, -inf); */
#line 23 "examples/kernels/attention.tile"
                    const i32 add_410 = (mul_396 + 127);
                    const bool lt_411 = (add_410 < (i32)N_);
                    const i32 add_414 = (mul_13 + 0);
                    const i32 add_419 = (mul_396 + 127);
                    const bool ge_420 = (add_414 >= add_419);
                    const bool and_421 = (lt_411 & ge_420);
                    float if_422[64];
                    if (and_421) {
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_422[i] = s_361[i];
                        }
                    } else {
                        float where_423[64];
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            const float where_423a = ((((mul_396 + ((i32)(c1 + i % 2 + i / 4 * 8))) < (i32)N_) & ((mul_13 + ((i32)(c0 + i / 2 % 2 * 8))) >= (mul_396 + ((i32)(c1 + i % 2 + i / 4 * 8))))) ? s_361[i] : float_bits(0xff800000u));
                            where_423[i] = where_423a;
                        }
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_422[i] = where_423[i];
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
                        const float x_t5 = if_422[i];
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
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t6 = shuffle_xor_f32(red_t3[i], 1);
                        red_t3[i] = max_f32(red_t3[i], y_t6);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t7 = shuffle_xor_f32(red_t3[i], 2);
                        red_t3[i] = max_f32(red_t3[i], y_t7);
                    }
                    float reduce_max_424[2];
                    reduce_max_424[0] = red_t3[0];
                    reduce_max_424[1] = red_t3[1];
                    float max_425[2];
                    float abs_429[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float max_425a = max_f32(m_384[i], reduce_max_424[i]);
                        const float sub_426a = (max_425a - m_384[i]);
                        const float mul_428a = (sub_426a * mul_36);
                        const float abs_429a = abs_f32(mul_428a);
                        max_425[i] = max_425a;
                        abs_429[i] = abs_429a;
                    }
                    bool not_433[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const bool le_432a = (abs_429[i] <= 8.0f);
                        const bool not_433a = !(le_432a);
                        not_433[i] = not_433a;
                    }
                    bool any_t10 = false;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        any_t10 |= not_433[i];
                    }
                    const bool grew_434 = vote_any(any_t10);
                    float where_436[2];
                    float mul_438[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float where_436a = (grew_434 ? max_425[i] : m_384[i]);
                        const float mul_438a = (where_436a * mul_38);
                        where_436[i] = where_436a;
                        mul_438[i] = mul_438a;
                    }
                    /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
                    float p_441[64];
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float fma_440a = fma_f32(if_422[i], mul_36, mul_438[(i / 2 % 2)]);
                        const float p_441a = exp2_f32(fma_440a);
                        p_441[i] = p_441a;
                    }
                    /* let alpha = exp(m - m_new); */
#line 26 "examples/kernels/attention.tile"
                    float alpha_443[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float fma_442a = fma_f32(m_384[i], mul_36, mul_438[i]);
                        const float alpha_443a = exp2_f32(fma_442a);
                        alpha_443[i] = alpha_443a;
                    }
                    /* l   = l*alpha + sum(p, axis = 1); */
#line 27 "examples/kernels/attention.tile"
                    float red_t14[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        red_t14[i] = 0;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float x_t16 = p_441[i];
                        const int k_t15 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
                        red_t14[k_t15] = red_t14[k_t15] + x_t16;
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t14[i] = red_t14[i] + red_t14[i + 2];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t14[i] = red_t14[i] + red_t14[i + 4];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t14[i] = red_t14[i] + red_t14[i + 6];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t17 = shuffle_xor_f32(red_t14[i], 1);
                        red_t14[i] = red_t14[i] + y_t17;
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t18 = shuffle_xor_f32(red_t14[i], 2);
                        red_t14[i] = red_t14[i] + y_t18;
                    }
                    float reduce_sum_444[2];
                    reduce_sum_444[0] = red_t14[0];
                    reduce_sum_444[1] = red_t14[1];
                    float l_445[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float l_445a = fma_f32(l_380[i], alpha_443[i], reduce_sum_444[i]);
                        l_445[i] = l_445a;
                    }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    wgmma_wait(0);
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(acc_382[i]);
                    }
                    if (lane == 0) mbar_arrive(V_ring_178_empty + (V_394 - V_ring_178) / 2048);
                    u32 p_447[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float p_447a = p_441[2 * i];
                        const float p_447b = p_441[2 * i + 1];
                        p_447[i] = pack_f16(p_447a, p_447b);
                    }
                    /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                    const i32 add_448 = (j_378 + 1);
                    const bool lt_449 = (add_448 < cdiv_29);
                    const bool go_t21 = lt_449;
                    j_378 = add_448;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        l_380[i] = l_445[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        m_384[i] = where_436[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        alpha_388[i] = alpha_443[i];
                    }
                    grew_390 = grew_434;
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        carried_392[i] = p_447[i];
                    }
                    if (!go_t21) break;
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                    mbar_wait(K_ring_176_full + 8 * K_ring_176_slot, K_ring_176_phase);
                    const u32 K_451 = K_ring_176 + K_ring_176_slot * 16384;
                    if (++K_ring_176_slot == 4) { K_ring_176_slot = 0; K_ring_176_phase ^= 1; }
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    wgmma_fence();
                    const u32 b_t22 = K_451 >> 4 | 0x10000u;
                    const u32 a_t23 = (Q_333 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        wgmma_m64n128k16_f16_ss(s_361, a_t23 + (2 * k), 0x40000040u, b_t22 + (2 * k), 0x40000040u, k > 0);
                    }
                    wgmma_commit();
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_178_full + 8 * V_ring_178_slot, V_ring_178_phase);
                    const u32 V_456 = V_ring_178 + V_ring_178_slot * 16384;
                    if (++V_ring_178_slot == 4) { V_ring_178_slot = 0; V_ring_178_phase ^= 1; }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    if (grew_390) {
                        float mul_459[32];
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            const float mul_459a = (acc_382[i] * alpha_388[(i / 2 % 2)]);
                            mul_459[i] = mul_459a;
                        }
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            acc_382[i] = mul_459[i];
                        }
                    } else {
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(acc_382[i]);
                    }
                    wgmma_fence();
                    const u32 b_t25 = V_456 >> 4 | 0x4000000u;
                    u32 bs_t28[8];
#pragma unroll
                    for (int k = 0; k < 8; k++) {
                        bs_t28[k] = b_t25 + (128 * k);
                    }
                    wgmma_m64n64k16_f16_rs_tb_x8(acc_382, carried_392, bs_t28, 0x40000040u, 1);
                    wgmma_commit();
                    V_394 = V_456;
                }
                /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                mbar_wait(V_ring_178_full + 8 * V_ring_178_slot, V_ring_178_phase);
                const u32 V_461 = V_ring_178 + V_ring_178_slot * 16384;
                if (++V_ring_178_slot == 4) { V_ring_178_slot = 0; V_ring_178_phase ^= 1; }
                /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                float if_463[32];
                if (grew_390) {
                    float mul_464[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float mul_464a = (acc_382[i] * alpha_388[(i / 2 % 2)]);
                        mul_464[i] = mul_464a;
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_463[i] = mul_464[i];
                    }
                } else {
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_463[i] = acc_382[i];
                    }
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_463[i]);
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_word(carried_392[i]);
                }
                wgmma_fence();
                const u32 b_t30 = V_461 >> 4 | 0x4000000u;
                u32 bs_t33[8];
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    bs_t33[k] = b_t30 + (128 * k);
                }
                wgmma_m64n64k16_f16_rs_tb_x8(if_463, carried_392, bs_t33, 0x40000040u, 1);
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_463[i]);
                }
                if (lane == 0) mbar_arrive(V_ring_178_empty + (V_461 - V_ring_178) / 2048);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_353[i] = l_380[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_354[i] = if_463[i];
                }
            } else {
                float materialize_472[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_472[i] = 0.0f;
                }
                float materialize_473[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_473[i] = 0.0f;
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_353[i] = materialize_472[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_354[i] = materialize_473[i];
                }
            }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            warp_sync();
            if (lane == 0) mbar_arrive(Q_ring_177_empty + 8 * Q_ring_177_free);
            if (++Q_ring_177_free == 2) Q_ring_177_free = 0;
            /* store(O[b, h, i*TM +: TM, :], T(acc / l)); */
#line 32 "examples/kernels/attention.tile"
            float div_153[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float div_153a = rcp_ulp(l_353[i]);
                div_153[i] = div_153a;
            }
            u32 cast_80[16];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const float mul_155a = (acc_354[2 * i] * div_153[(i % 2)]);
                const float cast_80a = mul_155a;
                const float mul_155b = (acc_354[2 * i + 1] * div_153[(i % 2)]);
                const float cast_80b = mul_155b;
                cast_80[i] = pack_f16(cast_80a, cast_80b);
            }
            /* a warp's rows in boxes of 64: to shared memory, from there by TMA */
            const u32 lanes_t38 = (lane & 16) ^ ((lane & 7) << 4);
#pragma unroll
            for (int box_t37 = 0; box_t37 < 1; box_t37++) {
                if (lane == 0) bulk_wait_read(0);
                warp_sync();
#pragma unroll
                for (int q_t39 = 0; q_t39 < 4; q_t39++) {
                    const int at_t40 = box_t37 * 4 + q_t39;
                    stmatrix_x4(stage_t36 + (lane & 15) * 128 + ((32 * at_t40) ^ lanes_t38), &cast_80[(4 * at_t40)]);
                }
                fence_proxy_async();
                warp_sync();
                if (lane == 0) {
                    tma_store_4d(&O_map3, stage_t36, (i32)(0), (i32)(mul_13 + (16 * warp)), (i32)(h_147), (i32)(b_148));
                    bulk_commit();
                }
            }
        }
        if (lane == 0) bulk_wait(0);
    }
}
#undef SCRATCH
