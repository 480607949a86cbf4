/* hip_fragments.h: AMD's dense matrix instructions: which register, bit and lane holds which element. Written
 * from AMD's matrix instruction calculator 1.3.2 (CDNA2, CDNA3, RDNA3: its "matrix element to register
 * mapping"; it has no CDNA4), for the rows of gfx950 from the CDNA4 ISA guide, 7.1, and for f8f6f4 from AMD's
 * guides to it, "Matrix Core Programming on AMD CDNA3 and CDNA4 architecture" (ROCm blogs, 2025-09-30, figure
 * 9: 32x32x64) and "FP8 GEMM Optimization on AMD CDNA4 Architecture" (ROCm blogs, "Wave-Lane Mapping in
 * Practice": 16x16x128), with which the tables of Composable Kernel agree; not from the compiler's headers.
 * tests/unit/layout proves ir/layout equal to it, to the calculator's listing (amd_digest.py prints its
 * digests) and to those guides' formulas; the emulator's MFMA and WMMA place their operands by it.
 *
 * All of MFMA: lane = M * floor(k / per) + i for A, N * floor(k / per) + j for B, `per` elements of K a lane,
 * low bits first; where those are more than 16 bytes, 16 bytes to each lane in turn, then the next 16. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct HipInstr {
    const char *name;       /* AMD's mnemonic, as on the first chip that has it */
    const char *layout;     /* the name in ir/layout/layout.h */
    int m, n, k, per, bits; /* per: elements of K a lane; bits of one */
    int wave, copies;       /* copies: the lanes that hold each element of A and B */
    int d_bits;
    uint64_t digest[3]; /* A, B, D; 0: not in the calculator */
} HipInstr;

#define DIGEST_D32 0x704bb7eb1cab5ba5u
#define DIGEST_D16 0xde96463b6b156ae5u
static const HipInstr hip_instrs[] = {
    { "v_mfma_f32_32x32x8_f16", "mfma_32x32x8", 32, 32, 8, 4, 16, 64, 1, 32,
        { 0xbf0f6ea3388d8425u, 0x2aea19269cba2465u, DIGEST_D32 } }, /* and bf16 (bf16_1k on gfx90a) */
    { "v_mfma_f32_16x16x16_f16", "mfma_16x16x16", 16, 16, 16, 4, 16, 64, 1, 32,
        { 0x4e583484066fefa5u, 0xafb5b2c65a0970a5u, DIGEST_D16 } },
    { "v_mfma_f32_32x32x16_f16", "mfma_32x32x16", 32, 32, 16, 8, 16, 64, 1, 32,
        { 0, 0, DIGEST_D32 } }, /* gfx950 */
    { "v_mfma_f32_16x16x32_f16", "mfma_16x16x32", 16, 16, 32, 8, 16, 64, 1, 32, { 0, 0, DIGEST_D16 } },
    { "v_mfma_i32_32x32x16_i8", "mfma_32x32x16_8", 32, 32, 16, 8, 8, 64, 1, 32,
        { 0x510f940e17758865u, 0x1445d65eabc697e5u, DIGEST_D32 } }, /* and fp8, bf8 */
    { "v_mfma_i32_16x16x32_i8", "mfma_16x16x32_8", 16, 16, 32, 8, 8, 64, 1, 32,
        { 0x8d1c1adc7e7e8025u, 0xfdc98626fd498525u, DIGEST_D16 } },
    { "v_mfma_i32_32x32x8i8", "mfma_32x32x8_8", 32, 32, 8, 4, 8, 64, 1, 32,
        { 0xb1e6403868bbb7e5u, 0x3662015e44e16aa5u, DIGEST_D32 } }, /* gfx90a */
    { "v_mfma_i32_16x16x16i8", "mfma_16x16x16_8", 16, 16, 16, 4, 8, 64, 1, 32,
        { 0x3ec8cc803562a5a5u, 0xc74c452fe46c2465u, DIGEST_D16 } },
    { "v_mfma_i32_32x32x32_i8", "mfma_32x32x32_8", 32, 32, 32, 16, 8, 64, 1, 32,
        { 0, 0, DIGEST_D32 } }, /* gfx950 */
    { "v_mfma_i32_16x16x64_i8", "mfma_16x16x64_8", 16, 16, 64, 16, 8, 64, 1, 32, { 0, 0, DIGEST_D16 } },
    { "v_mfma_f32_32x32x64_f8f6f4", "mfma_32x32x64_8", 32, 32, 64, 32, 8, 64, 1, 32,
        { 0, 0, DIGEST_D32 } }, /* its fp8 and bf8 */
    { "v_mfma_f32_16x16x128_f8f6f4", "mfma_16x16x128_8", 16, 16, 128, 32, 8, 64, 1, 32,
        { 0, 0, DIGEST_D16 } },
    { "v_mfma_f32_32x32x2_f32", "mfma_32x32x2", 32, 32, 2, 1, 32, 64, 1, 32,
        { 0xf226aa34759b0265u, 0x01a552b6258006a5u, DIGEST_D32 } },
    { "v_mfma_f32_16x16x4_f32", "mfma_16x16x4", 16, 16, 4, 1, 32, 64, 1, 32,
        { 0x8ba518134ce0d045u, 0xe124365dde3850e5u, DIGEST_D16 } },
    { "v_mfma_f32_32x32x4_xf32", "mfma_32x32x4_xf32", 32, 32, 4, 2, 32, 64, 1, 32,
        { 0x603d1809d13eb265u, 0xef1024685f7f1e25u, DIGEST_D32 } }, /* gfx942 */
    { "v_mfma_f32_16x16x8_xf32", "mfma_16x16x8_xf32", 16, 16, 8, 2, 32, 64, 1, 32,
        { 0xbb2f7cd08bf72ce5u, 0xa678156d96b85865u, DIGEST_D16 } },
    { "v_mfma_f64_16x16x4_f64", "mfma_16x16x4_f64", 16, 16, 4, 1, 64, 64, 1, 64,
        { 0x8ba518134ce0d045u, 0xe124365dde3850e5u, 0xc8d973c880847045u } },
    { "v_wmma_f32_16x16x16_f16", "wmma_16x16x16", 16, 16, 16, 16, 16, 32, 2, 32,
        { 0x4390350dd5c54765u, 0x49cfd66ba90e9785u, 0x1838866c8147a105u } }, /* and bf16 */
    { "v_wmma_i32_16x16x16_iu8", "wmma_16x16x16_8", 16, 16, 16, 16, 8, 32, 2, 32,
        { 0x119d86a6380bd4a5u, 0x92415ac9159d8e25u, 0x1838866c8147a105u } },
};
#undef DIGEST_D32
#undef DIGEST_D16
enum { HIP_INSTRS = sizeof hip_instrs / sizeof *hip_instrs };

/* The first 32-bit register, the lowest bit in it and the lane (of copy c, 16 lanes further) of an element.
 */
typedef struct HipPlace {
    int gpr, bit, lane;
} HipPlace;

static inline HipPlace hip_place_ab(const HipInstr *x, int side, int ij, int k, int copy)
{
    int across = side ? x->n : x->m, run = x->per * x->bits > 128 ? 128 / x->bits : x->per,
        all = run * (x->wave / across);
    if (x->copies > 1) return (HipPlace){ k * x->bits / 32, k * x->bits % 32, ij + 16 * copy };
    int at = (k / all * run + k % run) * x->bits;
    return (HipPlace){ at / 32, at % 32, across * (k % all / run) + ij };
}

static inline HipPlace hip_place_d(const HipInstr *x, int i, int j)
{
    if (x->copies > 1) return (HipPlace){ i / 2, 0, 16 * i % 32 + j };
    if (x->d_bits == 64) return (HipPlace){ i / 4 * 2, 0, 16 * (i % 4) + j };
    if (x->m == 32) return (HipPlace){ 4 * (i / 8) + i % 4, 0, 32 * (i / 4) % 64 + j };
    return (HipPlace){ i % 4, 0, 16 * (i / 4) + j };
}
