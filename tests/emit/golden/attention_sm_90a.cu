/* attention (D=64, T=f16, CAUSAL=true) for cuda:sm_90a
 * programs: persistent: as many CTAs as fit take one after the other, by tickets
 * threads: 384: 128 producers, which start copies (40 registers), 256 consumers (232 registers)
 * assumes: addresses at multiples of 16 bytes, Q, K, V, O with last stride 1 and rows at multiples of 16 bytes; scale above 0; extents from 1 to 2^28 - 1
 * products: wgmma_m64n128k16_f16_ss, wgmma_m64n64k16_f16_rs_tb
 * shared memory: 181248 of 232448 bytes
 *        0  K_ring       4 x f16[64, 128], 65536 bytes
 *    65536  Q_ring       2 x f16[128, 64], 32768 bytes
 *    98304  V_ring       4 x f16[128, 64], 65536 bytes
 *   164864  stores       8 x f16[16, 64], 16384 bytes
 *   behind them the mbarriers of the rings, a full and an empty one a slot
 * order: heavy first along grid axis 0, in groups whose streams fit L2
 * lazy rescale: accumulators are rescaled when the maximum grew by more than 2^8
 * rotation: the early product runs one step ahead; 3 values cross
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
static __device__ __forceinline__ float div_f32(float a, float b) { return __fdiv_rn(a, b); }
static __device__ __forceinline__ i32 f32_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
static __device__ __forceinline__ i32 cdiv_i32(i32 a, i32 b) { return b ? (i32)(a / b + (a % b > 0)) : (i32)0; }
static __device__ __forceinline__ i32 div_i32(i32 a, i32 b) { return b == 0 ? (i32)0 : b == -1 ? (i32)(0 - (u64)a) : (i32)(a / b); }
static __device__ __forceinline__ i32 rem_i32(i32 a, i32 b) { return b == 0 || b == -1 ? (i32)0 : (i32)(a % b); }
static __device__ __forceinline__ void mbar_expect(u32 b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory"); }
static __device__ __forceinline__ void tma_load_4d(u32 d, const TensorMap *m, u32 bar, i32 c0, i32 c1, i32 c2, i32 c3) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(d), "l"(m), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
static __device__ __forceinline__ i64 div_i64(i64 a, i64 b) { return b == 0 ? (i64)0 : b == -1 ? (i64)(0 - (u64)a) : (i64)(a / b); }
/* saturates: what lies outside of the tensor stays outside */
static __device__ __forceinline__ i32 tma_coordinate(i64 x) { i32 y; asm("cvt.sat.s32.s64 %0, %1;" : "=r"(y) : "l"(x)); return y; }
/* the last CTA leaves the counter as it was found */
static __device__ __forceinline__ void ticket_done(u32 *t, u32 ctas) { __threadfence(); if (atomicAdd(t + 1, 1u) == ctas - 1) { atomicExch(t, 0u); atomicExch(t + 1, 0u); } }
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
static __device__ __forceinline__ u32 lds_w32(u32 a) { u32 x; asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(a) : "memory"); return x; }
static __device__ __forceinline__ void warp_sync(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
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
static __device__ __forceinline__ u32 pack_f16(float lo, float hi) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }
static __device__ __forceinline__ void wgmma_m64n64k16_f16_rs_tb(float *d, const u32 *a, u32 blo, u32 bhi, int acc) {
  asm volatile("{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %38, 0; mov.b64 b, {%36, %37}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, b, p, 1, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(blo), "r"(bhi), "r"(acc)); }
#define pin_word(x) asm volatile("" : "+r"(x) :: "memory")
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
    const u32 K_ring_180 = shared_base + 0;    /* 4 slots of 16384 bytes */
    const u32 Q_ring_181 = shared_base + 65536;    /* 2 slots of 16384 bytes */
    const u32 V_ring_182 = shared_base + 98304;    /* 4 slots of 16384 bytes */
    const u32 K_ring_180_full = shared_base + 163840, K_ring_180_empty = K_ring_180_full + 32;
    const u32 Q_ring_181_full = shared_base + 163904, Q_ring_181_empty = Q_ring_181_full + 16;
    const u32 V_ring_182_full = shared_base + 163936, V_ring_182_empty = V_ring_182_full + 32;
    const u32 ticket_full = shared_base + 164000, ticket_empty = ticket_full + 16, ticket_word = ticket_full + 32;
    if (tid == 0) {
        prefetch_map(&Q_map0);
        prefetch_map(&K_map1);
        prefetch_map(&V_map2);
        for (int i = 0; i < 2; i++) { mbar_init(ticket_full + 8 * i, 1); mbar_init(ticket_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(K_ring_180_full + 8 * i, 1); mbar_init(K_ring_180_empty + 8 * i, 8); }
        for (int i = 0; i < 2; i++) { mbar_init(Q_ring_181_full + 8 * i, 1); mbar_init(Q_ring_181_empty + 8 * i, 8); }
        for (int i = 0; i < 4; i++) { mbar_init(V_ring_182_full + 8 * i, 1); mbar_init(V_ring_182_empty + 8 * i, 8); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp < 4) {    /* producer: one thread starts the copies */
        setmaxnreg_dec(40);
        if (tid == 0) {
            u32 K_ring_180_phase = 0, K_ring_180_slot = 0;
            u32 Q_ring_181_phase = 0, Q_ring_181_slot = 0;
            u32 V_ring_182_phase = 0, V_ring_182_slot = 0;
            u32 ticket_phase = 0, ticket_slot = 0;
            /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
            for (i32 program_186 = (i32)blockIdx.x;; program_186 = ticket_next(tickets, gridDim.x)) {
                mbar_wait(ticket_empty + 8 * ticket_slot, ticket_phase ^ 1);
                sts_w32(ticket_word + 16 * ticket_slot, program_186 < (i32)(grid0 * grid1 * grid2));
                if (program_186 >= (i32)(grid0 * grid1 * grid2)) {
                    mbar_arrive(ticket_full + 8 * ticket_slot); break;
                }
                const i32 opaque_188 = opaque((i32)grid0);
                const i32 opaque_191 = opaque((i32)grid1);
                const i32 opaque_193 = opaque((i32)grid2);
                const i32 mul_194 = (i32)((u32)opaque_191 * (u32)opaque_193);
                const bool lt_196 = (opaque_188 < 24);
                const float where_199 = (lt_196 ? 16252928.0f : 32505856.0f);
                const i32 opaque_203 = opaque((i32)N_);
                const float cast_204 = (float)(opaque_203);
                const float mul_205 = (2.0f * cast_204);
                const i32 opaque_207 = opaque((i32)(64));
                const float cast_208 = (float)(opaque_207);
                const float mul_209 = (mul_205 * cast_208);
                const i32 opaque_212 = opaque((i32)N_);
                const float cast_213 = (float)(opaque_212);
                const float mul_214 = (2.0f * cast_213);
                const i32 opaque_216 = opaque((i32)(64));
                const float cast_217 = (float)(opaque_216);
                const float mul_218 = (mul_214 * cast_217);
                const float add_219 = (mul_209 + mul_218);
                const float add_220 = (add_219 + 1.0f);
                const float div_221 = div_f32(where_199, add_220);
                const i32 cast_222 = f32_to_i32(div_221);
                const i32 max_223 = (cast_222 > 1 ? cast_222 : 1);
                const i32 min_224 = (max_223 < mul_194 ? max_223 : mul_194);
                const i32 cdiv_225 = cdiv_i32(mul_194, min_224);
                const i32 cdiv_226 = cdiv_i32(mul_194, cdiv_225);
                const i32 mul_227 = (i32)((u32)cdiv_226 * (u32)opaque_188);
                const i32 div_228 = div_i32(program_186, mul_227);
                const i32 mul_229 = (i32)((u32)div_228 * (u32)mul_227);
                const i32 sub_230 = (i32)((u32)program_186 - (u32)mul_229);
                const i32 mul_231 = (i32)((u32)div_228 * (u32)cdiv_226);
                const i32 sub_232 = (i32)((u32)mul_194 - (u32)mul_231);
                const i32 min_233 = (cdiv_226 < sub_232 ? cdiv_226 : sub_232);
                const i32 div_234 = div_i32(sub_230, min_233);
                const i32 mul_235 = (i32)((u32)div_234 * (u32)min_233);
                const i32 sub_236 = (i32)((u32)sub_230 - (u32)mul_235);
                const i32 add_237 = (i32)((u32)mul_231 + (u32)sub_236);
                const i32 sub_238 = (i32)((u32)opaque_188 - (u32)1);
                const i32 sub_239 = (i32)((u32)sub_238 - (u32)div_234);
                const i32 opaque_241 = opaque((i32)grid1);
                const i32 rem_242 = rem_i32(add_237, opaque_241);
                const i32 div_243 = div_i32(add_237, opaque_241);
                const i32 i_244 = sub_239;
                sts_w32(ticket_word + 16 * ticket_slot + 4, (u32)i_244);
                const i32 h_245 = rem_242;
                sts_w32(ticket_word + 16 * ticket_slot + 8, (u32)h_245);
                const i32 b_246 = div_243;
                sts_w32(ticket_word + 16 * ticket_slot + 12, (u32)b_246);
                mbar_arrive(ticket_full + 8 * ticket_slot);
                if (++ticket_slot == 2) { ticket_slot = 0; ticket_phase ^= 1; }
                /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
                const i32 mul_252 = (i_244 * 128);
                mbar_wait(Q_ring_181_empty + 8 * Q_ring_181_slot, Q_ring_181_phase ^ 1);
                mbar_expect(Q_ring_181_full + 8 * Q_ring_181_slot, 16384);
                tma_load_4d(Q_ring_181 + Q_ring_181_slot * 16384, &Q_map0, Q_ring_181_full + 8 * Q_ring_181_slot, (i32)(0), (i32)(mul_252), (i32)(h_245), (i32)(b_246));
                if (++Q_ring_181_slot == 2) { Q_ring_181_slot = 0; Q_ring_181_phase ^= 1; }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const i32 add_265 = (i_244 + 1);
                const i32 mul_266 = (add_265 * 128);
                const i32 min_267 = ((i32)N_ < mul_266 ? (i32)N_ : mul_266);
                const i32 cdiv_268 = ((min_267 + 127) / 128);
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                const i64 h_269 = (i64)(h_245);
                const i64 mul_270 = (h_269 * HK_);
                const i64 div_271 = div_i64(mul_270, H_);
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
#pragma unroll 1
                for (i32 j_283 = 0; j_283 < cdiv_268; j_283++) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_287 = (j_283 * 128);
                    mbar_wait(K_ring_180_empty + 8 * K_ring_180_slot, K_ring_180_phase ^ 1);
                    mbar_expect(K_ring_180_full + 8 * K_ring_180_slot, 16384);
                    tma_load_4d(K_ring_180 + K_ring_180_slot * 16384, &K_map1, K_ring_180_full + 8 * K_ring_180_slot, (i32)(0), (i32)(mul_287), tma_coordinate(div_271), (i32)(b_246));
                    if (++K_ring_180_slot == 4) { K_ring_180_slot = 0; K_ring_180_phase ^= 1; }
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_182_empty + 8 * V_ring_182_slot, V_ring_182_phase ^ 1);
                    mbar_expect(V_ring_182_full + 8 * V_ring_182_slot, 16384);
                    tma_load_4d(V_ring_182 + V_ring_182_slot * 16384, &V_map2, V_ring_182_full + 8 * V_ring_182_slot, (i32)(0), (i32)(mul_287), tma_coordinate(div_271), (i32)(b_246));
                    if (++V_ring_182_slot == 4) { V_ring_182_slot = 0; V_ring_182_phase ^= 1; }
                }
            }
            ticket_done(tickets, gridDim.x);
        }
    } else {    /* consumers: 2 warpgroups */
        setmaxnreg_inc(232);
        const int tid = threadIdx.x - 128, warp = uniform(tid >> 5);
        (void)tid; (void)warp;
        u32 K_ring_180_phase = 0, K_ring_180_slot = 0, K_ring_180_free = 0;
        u32 Q_ring_181_phase = 0, Q_ring_181_slot = 0, Q_ring_181_free = 0;
        u32 V_ring_182_phase = 0, V_ring_182_slot = 0, V_ring_182_free = 0;
        u32 ticket_phase = 0, ticket_slot = 0;
        const int c0 = (lane >> 2) + warp * 16;
        const int c1 = lane % 4 * 2;
        const u32 stage_t50 = shared_base + 164864 + warp * 2048;
        /* which programs, in which order */
#line 7 "examples/kernels/attention.tile"
#pragma unroll 1
        for (;;) {
            mbar_wait(ticket_full + 8 * ticket_slot, ticket_phase);
            const i32 program_179 = 0;
            (void)program_179;
            if (!uniform((i32)lds_w32(ticket_word + 16 * ticket_slot))) break;
            const i32 i_150 = uniform((i32)lds_w32(ticket_word + 16 * ticket_slot + 4));
            const i32 h_151 = uniform((i32)lds_w32(ticket_word + 16 * ticket_slot + 8));
            const i32 b_152 = uniform((i32)lds_w32(ticket_word + 16 * ticket_slot + 12));
            warp_sync();
            if (lane == 0) mbar_arrive(ticket_empty + 8 * ticket_slot);
            if (++ticket_slot == 2) { ticket_slot = 0; ticket_phase ^= 1; }
            /* let q   = load(Q[b, h, i*TM +: TM, :]); */
#line 13 "examples/kernels/attention.tile"
            const i32 mul_13 = (i_150 * 128);
            mbar_wait(Q_ring_181_full + 8 * Q_ring_181_slot, Q_ring_181_phase);
            const u32 Q_341 = Q_ring_181 + Q_ring_181_slot * 16384;
            if (++Q_ring_181_slot == 2) { Q_ring_181_slot = 0; Q_ring_181_phase ^= 1; }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const i32 add_26 = (i_150 + 1);
            const i32 mul_27 = (add_26 * 128);
            const i32 min_28 = ((i32)N_ < mul_27 ? (i32)N_ : mul_27);
            const i32 cdiv_29 = ((min_28 + 127) / 128);
            /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
            const float mul_36 = (scale * 1.44269502f);
            const float mul_38 = (scale * -1.44269502f);
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            const bool lt_360 = (0 < cdiv_29);
            float l_361[2];
            float acc_362[32];
            float m_363[2];
            if (lt_360) {
                /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                const i32 mul_364 = (0 * 128);
                mbar_wait(K_ring_180_full + 8 * K_ring_180_slot, K_ring_180_phase);
                const u32 K_365 = K_ring_180 + K_ring_180_slot * 16384;
                if (++K_ring_180_slot == 4) { K_ring_180_slot = 0; K_ring_180_phase ^= 1; }
                /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                float s_369[64];
                wgmma_fence();
                const u32 b_t0 = K_365 >> 4 | 0x10000u;
                const u32 a_t1 = (Q_341 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma_m64n128k16_f16_ss(s_369, a_t1 + (2 * k), 0x40000040u, b_t0 + (2 * k), 0x40000040u, k > 0);
                }
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    pin_float(s_369[i]);
                }
                if (lane == 0) mbar_arrive(K_ring_180_empty + 8 * K_ring_180_free);
                if (++K_ring_180_free == 4) K_ring_180_free = 0;
                /* s = where(col < N && (!CAUSAL || row >= col), s * scale, -inf); */
#line 23 "examples/kernels/attention.tile"
                const i32 add_381 = (mul_364 + 127);
                const bool lt_382 = (add_381 < (i32)N_);
                const i32 add_385 = (mul_13 + 0);
                const i32 add_390 = (mul_364 + 127);
                const bool ge_391 = (add_385 >= add_390);
                const bool and_392 = (lt_382 & ge_391);
                float if_393[64];
                if (and_392) {
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        if_393[i] = s_369[i];
                    }
                }
                else {
                    float where_394[64];
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float where_394a = ((((mul_364 + ((i32)(c1 + i % 2 + i / 4 * 8))) < (i32)N_) & ((mul_13 + ((i32)(c0 + i / 2 % 2 * 8))) >= (mul_364 + ((i32)(c1 + i % 2 + i / 4 * 8))))) ? s_369[i] : float_bits(0xff800000u));
                        where_394[i] = where_394a;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        if_393[i] = where_394[i];
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
                    const float x_t5 = if_393[i];
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
                float reduce_max_395[2];
                reduce_max_395[0] = red_t3[0];
                reduce_max_395[1] = red_t3[1];
                float max_396[2];
                float abs_400[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float max_396a = max_f32(float_bits(0xff800000u), reduce_max_395[i]);
                    const float sub_397a = (max_396a - float_bits(0xff800000u));
                    const float mul_399a = (sub_397a * mul_36);
                    const float abs_400a = abs_f32(mul_399a);
                    max_396[i] = max_396a;
                    abs_400[i] = abs_400a;
                }
                bool not_404[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const bool le_403a = (abs_400[i] <= 8.0f);
                    const bool not_404a = !(le_403a);
                    not_404[i] = not_404a;
                }
                bool any_t10 = false;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    any_t10 |= not_404[i];
                }
                const bool grew_405 = vote_any(any_t10);
                float where_407[2];
                float mul_409[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float where_407a = (grew_405 ? max_396[i] : float_bits(0xff800000u));
                    const float mul_409a = (where_407a * mul_38);
                    where_407[i] = where_407a;
                    mul_409[i] = mul_409a;
                }
                /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
                float p_412[64];
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    const float fma_411a = fma_f32(if_393[i], mul_36, mul_409[(i / 2 % 2)]);
                    const float p_412a = exp2_f32(fma_411a);
                    p_412[i] = p_412a;
                }
                /* let alpha = exp(m - m_new); */
#line 26 "examples/kernels/attention.tile"
                float alpha_414[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float fma_413a = fma_f32(float_bits(0xff800000u), mul_36, mul_409[i]);
                    const float alpha_414a = exp2_f32(fma_413a);
                    alpha_414[i] = alpha_414a;
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
                    const float x_t16 = p_412[i];
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
                float reduce_sum_415[2];
                reduce_sum_415[0] = red_t14[0];
                reduce_sum_415[1] = red_t14[1];
                float l_416[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float l_416a = fma_f32(0.0f, alpha_414[i], reduce_sum_415[i]);
                    l_416[i] = l_416a;
                }
                /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                u32 p_417[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    const float p_417a = p_412[2 * i];
                    const float p_417b = p_412[2 * i + 1];
                    p_417[i] = pack_f16(p_417a, p_417b);
                }
                /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
                const i32 add_418 = (0 + 1);
                float materialize_498[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_498[i] = 0.0f;
                }
                float l_426[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_426[i] = l_416[i];
                }
                float acc_427[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_427[i] = materialize_498[i];
                }
                float m_428[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    m_428[i] = where_407[i];
                }
                float alpha_429[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    alpha_429[i] = alpha_414[i];
                }
                bool grew_430;
                grew_430 = grew_405;
                u32 carried_431[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    carried_431[i] = p_417[i];
                }
#pragma unroll 1
                for (i32 j_425 = add_418; j_425 < cdiv_29; j_425++) {
                    /* let k   = load(K[b, h*HK/H, j*TN +: TN, :], latency = 2); */
#line 20 "examples/kernels/attention.tile"
                    const i32 mul_432 = (j_425 * 128);
                    mbar_wait(K_ring_180_full + 8 * K_ring_180_slot, K_ring_180_phase);
                    const u32 K_433 = K_ring_180 + K_ring_180_slot * 16384;
                    if (++K_ring_180_slot == 4) { K_ring_180_slot = 0; K_ring_180_phase ^= 1; }
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    float s_437[64];
                    wgmma_fence();
                    const u32 b_t21 = K_433 >> 4 | 0x10000u;
                    const u32 a_t22 = (Q_341 >> 4 | 0x10000u) + (warp >> 2) * 512;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        wgmma_m64n128k16_f16_ss(s_437, a_t22 + (2 * k), 0x40000040u, b_t21 + (2 * k), 0x40000040u, k > 0);
                    }
                    wgmma_commit();
                    /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                    mbar_wait(V_ring_182_full + 8 * V_ring_182_slot, V_ring_182_phase);
                    const u32 V_438 = V_ring_182 + V_ring_182_slot * 16384;
                    if (++V_ring_182_slot == 4) { V_ring_182_slot = 0; V_ring_182_phase ^= 1; }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    float if_440[32];
                    if (grew_430) {
                        float mul_441[32];
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            const float mul_441a = (acc_427[i] * alpha_429[(i / 2 % 2)]);
                            mul_441[i] = mul_441a;
                        }
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            if_440[i] = mul_441[i];
                        }
                    }
                    else {
#pragma unroll
                        for (int i = 0; i < 32; i++) {
                            if_440[i] = acc_427[i];
                        }
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(if_440[i]);
                    }
                    wgmma_fence();
                    const u32 b_t24 = V_438 >> 4 | 0x4000000u;
#pragma unroll
                    for (int k = 0; k < 8; k++) {
                        wgmma_m64n64k16_f16_rs_tb(if_440, carried_431 + 4 * k, b_t24 + (128 * k), 0x40000040u, 1);
                    }
                    wgmma_commit();
                    /* var s   = mma(q, transpose(k)); */
#line 22 "examples/kernels/attention.tile"
                    wgmma_wait(1);
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        pin_float(s_437[i]);
                    }
                    if (lane == 0) mbar_arrive(K_ring_180_empty + 8 * K_ring_180_free);
                    if (++K_ring_180_free == 4) K_ring_180_free = 0;
                    /* s = where(col < N && (!CAUSAL || row >= col), s * scale, -inf); */
#line 23 "examples/kernels/attention.tile"
                    const i32 add_454 = (mul_432 + 127);
                    const bool lt_455 = (add_454 < (i32)N_);
                    const i32 add_458 = (mul_13 + 0);
                    const i32 add_463 = (mul_432 + 127);
                    const bool ge_464 = (add_458 >= add_463);
                    const bool and_465 = (lt_455 & ge_464);
                    float if_466[64];
                    if (and_465) {
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_466[i] = s_437[i];
                        }
                    }
                    else {
                        float where_467[64];
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            const float where_467a = ((((mul_432 + ((i32)(c1 + i % 2 + i / 4 * 8))) < (i32)N_) & ((mul_13 + ((i32)(c0 + i / 2 % 2 * 8))) >= (mul_432 + ((i32)(c1 + i % 2 + i / 4 * 8))))) ? s_437[i] : float_bits(0xff800000u));
                            where_467[i] = where_467a;
                        }
#pragma unroll
                        for (int i = 0; i < 64; i++) {
                            if_466[i] = where_467[i];
                        }
                    }
                    /* let m_new = max(m, max(s, axis = 1)); */
#line 24 "examples/kernels/attention.tile"
                    float red_t27[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        red_t27[i] = LOWEST_f32;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float x_t29 = if_466[i];
                        const int k_t28 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
                        red_t27[k_t28] = max_f32(red_t27[k_t28], x_t29);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t27[i] = max_f32(red_t27[i], red_t27[i + 2]);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t27[i] = max_f32(red_t27[i], red_t27[i + 4]);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t27[i] = max_f32(red_t27[i], red_t27[i + 6]);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t30 = shuffle_xor_f32(red_t27[i], 1);
                        red_t27[i] = max_f32(red_t27[i], y_t30);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t31 = shuffle_xor_f32(red_t27[i], 2);
                        red_t27[i] = max_f32(red_t27[i], y_t31);
                    }
                    float reduce_max_468[2];
                    reduce_max_468[0] = red_t27[0];
                    reduce_max_468[1] = red_t27[1];
                    float max_469[2];
                    float abs_473[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float max_469a = max_f32(m_428[i], reduce_max_468[i]);
                        const float sub_470a = (max_469a - m_428[i]);
                        const float mul_472a = (sub_470a * mul_36);
                        const float abs_473a = abs_f32(mul_472a);
                        max_469[i] = max_469a;
                        abs_473[i] = abs_473a;
                    }
                    bool not_477[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const bool le_476a = (abs_473[i] <= 8.0f);
                        const bool not_477a = !(le_476a);
                        not_477[i] = not_477a;
                    }
                    bool any_t34 = false;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        any_t34 |= not_477[i];
                    }
                    const bool grew_478 = vote_any(any_t34);
                    float where_480[2];
                    float mul_482[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float where_480a = (grew_478 ? max_469[i] : m_428[i]);
                        const float mul_482a = (where_480a * mul_38);
                        where_480[i] = where_480a;
                        mul_482[i] = mul_482a;
                    }
                    /* let p     = exp(s - m_new); */
#line 25 "examples/kernels/attention.tile"
                    float p_485[64];
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float fma_484a = fma_f32(if_466[i], mul_36, mul_482[(i / 2 % 2)]);
                        const float p_485a = exp2_f32(fma_484a);
                        p_485[i] = p_485a;
                    }
                    /* let alpha = exp(m - m_new); */
#line 26 "examples/kernels/attention.tile"
                    float alpha_487[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float fma_486a = fma_f32(m_428[i], mul_36, mul_482[i]);
                        const float alpha_487a = exp2_f32(fma_486a);
                        alpha_487[i] = alpha_487a;
                    }
                    /* l   = l*alpha + sum(p, axis = 1); */
#line 27 "examples/kernels/attention.tile"
                    float red_t38[8];
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        red_t38[i] = 0;
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++) {
                        const float x_t40 = p_485[i];
                        const int k_t39 = (i / 2 % 2) + 2 * (i % 2 + i / 4 % 2 * 2);
                        red_t38[k_t39] = red_t38[k_t39] + x_t40;
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t38[i] = red_t38[i] + red_t38[i + 2];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t38[i] = red_t38[i] + red_t38[i + 4];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        red_t38[i] = red_t38[i] + red_t38[i + 6];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t41 = shuffle_xor_f32(red_t38[i], 1);
                        red_t38[i] = red_t38[i] + y_t41;
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float y_t42 = shuffle_xor_f32(red_t38[i], 2);
                        red_t38[i] = red_t38[i] + y_t42;
                    }
                    float reduce_sum_488[2];
                    reduce_sum_488[0] = red_t38[0];
                    reduce_sum_488[1] = red_t38[1];
                    float l_489[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const float l_489a = fma_f32(l_426[i], alpha_487[i], reduce_sum_488[i]);
                        l_489[i] = l_489a;
                    }
                    /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                    wgmma_wait(0);
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        pin_float(if_440[i]);
                    }
                    if (lane == 0) mbar_arrive(V_ring_182_empty + 8 * V_ring_182_free);
                    if (++V_ring_182_free == 4) V_ring_182_free = 0;
                    u32 p_491[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float p_491a = p_485[2 * i];
                        const float p_491b = p_485[2 * i + 1];
                        p_491[i] = pack_f16(p_491a, p_491b);
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        l_426[i] = l_489[i];
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        acc_427[i] = if_440[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        m_428[i] = where_480[i];
                    }
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        alpha_429[i] = alpha_487[i];
                    }
                    grew_430 = grew_478;
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        carried_431[i] = p_491[i];
                    }
                }
                /* let v = load(V[b, h*HK/H, j*TN +: TN, :], latency = 4); */
#line 28 "examples/kernels/attention.tile"
                mbar_wait(V_ring_182_full + 8 * V_ring_182_slot, V_ring_182_phase);
                const u32 V_492 = V_ring_182 + V_ring_182_slot * 16384;
                if (++V_ring_182_slot == 4) { V_ring_182_slot = 0; V_ring_182_phase ^= 1; }
                /* acc = mma(T(p), v, acc*alpha); */
#line 29 "examples/kernels/attention.tile"
                float if_494[32];
                if (grew_430) {
                    float mul_495[32];
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        const float mul_495a = (acc_427[i] * alpha_429[(i / 2 % 2)]);
                        mul_495[i] = mul_495a;
                    }
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_494[i] = mul_495[i];
                    }
                }
                else {
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        if_494[i] = acc_427[i];
                    }
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_494[i]);
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_word(carried_431[i]);
                }
                wgmma_fence();
                const u32 b_t46 = V_492 >> 4 | 0x4000000u;
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    wgmma_m64n64k16_f16_rs_tb(if_494, carried_431 + 4 * k, b_t46 + (128 * k), 0x40000040u, 1);
                }
                wgmma_commit();
                wgmma_wait(0);
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    pin_float(if_494[i]);
                }
                if (lane == 0) mbar_arrive(V_ring_182_empty + 8 * V_ring_182_free);
                if (++V_ring_182_free == 4) V_ring_182_free = 0;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_361[i] = l_426[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_362[i] = if_494[i];
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    m_363[i] = m_428[i];
                }
            }
            else {
                float materialize_499[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_499[i] = 0.0f;
                }
                float materialize_500[32];
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    materialize_500[i] = 0.0f;
                }
                float materialize_501[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    materialize_501[i] = float_bits(0xff800000u);
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l_361[i] = materialize_499[i];
                }
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    acc_362[i] = materialize_500[i];
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    m_363[i] = materialize_501[i];
                }
            }
            /* for j in 0 .. cdiv(CAUSAL ? min(N, (i+1)*TM) : N, TN) { */
#line 19 "examples/kernels/attention.tile"
            warp_sync();
            if (lane == 0) mbar_arrive(Q_ring_181_empty + 8 * Q_ring_181_free);
            if (++Q_ring_181_free == 2) Q_ring_181_free = 0;
            /* store(O[b, h, i*TM +: TM, :], T(acc / l)); */
#line 32 "examples/kernels/attention.tile"
            float div_157[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float div_157a = div_f32(1.0f, l_361[i]);
                div_157[i] = div_157a;
            }
            u32 cast_80[16];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const float mul_159a = (acc_362[2 * i] * div_157[(i % 2)]);
                const float cast_80a = mul_159a;
                const float mul_159b = (acc_362[2 * i + 1] * div_157[(i % 2)]);
                const float cast_80b = mul_159b;
                cast_80[i] = pack_f16(cast_80a, cast_80b);
            }
            /* a warp's rows in boxes of 64: to shared memory, from there by TMA */
            const u32 lanes_t52 = (lane & 16) ^ ((lane & 7) << 4);
#pragma unroll
            for (int box_t51 = 0; box_t51 < 1; box_t51++) {
                if (lane == 0) bulk_wait_read(0);
                warp_sync();
#pragma unroll
                for (int q_t53 = 0; q_t53 < 4; q_t53++) {
                    const int at_t54 = box_t51 * 4 + q_t53;
                    stmatrix_x4(stage_t50 + (lane & 15) * 128 + ((32 * at_t54) ^ lanes_t52), &cast_80[(4 * at_t54)]);
                }
                fence_proxy_async();
                warp_sync();
                if (lane == 0) {
                    tma_store_4d(&O_map3, stage_t50, (i32)(0), (i32)(mul_13 + (16 * warp)), (i32)(h_151), (i32)(b_152));
                    bulk_commit();
                }
            }
        }
        if (lane == 0) bulk_wait(0);
    }
}
#undef SCRATCH
