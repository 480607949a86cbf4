/* machine_products.c: tests of the products of the emulated CUDA machine: wgmma, mma.sync and ldmatrix. */
#include "tests/emu/test_machine.h"
#include <math.h>
#include <stdlib.h>

typedef enum GmmaFault {
    NO_FAULT,
    NO_FENCE,
    NO_PROXY_FENCE,
    NO_WAIT,
    NO_COMMIT,
    A_CHANGED,
    REFILLED,
    TOUCHED,
    DIVERGED
} GmmaFault;
typedef struct Gmma {
    EmuProduct kind;
    uint32_t span;
    bool registers;
    GmmaFault fault;
} Gmma;

/* Eight values of every type, and their codes. */
static const double values[][8] = { { 0, 1, 2, 3, -1, -2, -3, 0.5 }, { 0, 1, 2, 3, -1, -2, -127, 5 },
    { 0, 1, 2, 3, 7, 9, 255, 128 } };
static const uint32_t codes[][8] = {
    [EMU_F16] = { 0, 0x3c00, 0x4000, 0x4200, 0xbc00, 0xc000, 0xc200, 0x3800 },
    [EMU_BF16] = { 0, 0x3f80, 0x4000, 0x4040, 0xbf80, 0xc000, 0xc040, 0x3f00 },
    [EMU_TF32] = { 0, 0x3f800000, 0x40000000, 0x40400000, 0xbf800000, 0xc0000000, 0xc0400000,
        0x3f000fff }, /* low bits are not looked at */
    [EMU_E4M3] = { 0, 0x38, 0x40, 0x44, 0xb8, 0xc0, 0xc4, 0x30 },
    [EMU_E5M2] = { 0, 0x3c, 0x40, 0x42, 0xbc, 0xc0, 0xc2, 0x38 },
    [EMU_S8] = { 0, 1, 2, 3, 0xff, 0xfe, 0x81, 5 },
    [EMU_U8] = { 0, 1, 2, 3, 7, 9, 255, 128 },
};
static int bytes_of(EmuType t) { return t <= EMU_BF16 ? 2 : t == EMU_TF32 ? 4 : 1; }
static int pick(int r, int k, int salt)
{ return (int)(((uint32_t)(r * 131 + k * 31 + salt) * 2654435761u) >> 29); }
static double value(EmuType t, int n) { return values[t == EMU_S8 ? 1 : t == EMU_U8 ? 2 : 0][n]; }

typedef struct Operand {
    uint32_t base, lead, stride, span;
    int bytes, k;
    bool mn;
} Operand;

/* 9.7.15.5.1.2: atoms of 8 rows of `span` bytes (without swizzle: of 16), swizzled by the row's number in the
 * atom. */
static uint32_t place(const Operand *o, int r, int k)
{
    uint32_t in = (uint32_t)((o->mn ? r : k) * o->bytes), row = (uint32_t)(o->mn ? k : r);
    if (o->span == 16)
        return o->base + in % 16 + row % 8 * 16 +
               (o->mn ? in / 16 * o->stride + row / 8 * o->lead : in / 16 * o->lead + row / 8 * o->stride);
    uint32_t a = o->base + in % o->span + in / o->span * o->lead + row % 8 * o->span + row / 8 * o->stride;
    return a ^ (a >> 7 & (o->span / 16 - 1)) << 4;
}

/* K-major operands start 32 bytes into their atoms where they can, as the second step of a loop along K does.
 */
static Operand operand(const Gmma *g, uint32_t base, EmuType t, bool mn)
{
    Operand o = { base, 128, 256, g->span, bytes_of(t), g->kind.k, mn };
    if (g->span == 16) return o;
    o.stride = 8 * g->span;
    o.lead = mn ? (uint32_t)g->kind.k * g->span : 16;
    if (!mn && g->span >= 64) o.base += 32;
    return o;
}

static void fill(const Operand *o, EmuType t, int rows, int salt)
{
    for (int e = tid(); e < rows * o->k; e += 128) {
        uint32_t code = codes[t][pick(e / o->k, e % o->k, salt)];
        emu_store(place(o, e / o->k, e % o->k), &code, (uint32_t)o->bytes);
    }
}

static void words(const Operand *o, uint32_t *lo, uint32_t *hi)
{
    *lo = o->base >> 4 | o->lead >> 4 << 16;
    *hi = o->stride >> 4 | (o->span == 128 ? 1u : o->span == 64 ? 2u : o->span == 32 ? 3u : 0u) << 30;
}

static bool correct(const Gmma *g, const float *d)
{
    for (int i = 0; i < g->kind.n / 2; i++) {
        int row = tid() / 32 * 16 + emu_lane() / 4 + i / 2 % 2 * 8,
            col = i / 4 * 8 + emu_lane() % 4 * 2 + i % 2;
        double want = i;
        for (int k = 0; k < g->kind.k; k++)
            want += value(g->kind.a, pick(row, k, 1)) * value(g->kind.b, pick(col, k, 2));
        int32_t x;
        memcpy(&x, &d[i], 4);
        if ((g->kind.integer ? (double)x : (double)d[i]) != want) return false;
    }
    return true;
}

static void gmma(const uint64_t *args)
{
    const Gmma *g = (const Gmma *)(uintptr_t)args[0];
    Operand a = operand(g, S, g->kind.a, g->kind.trans_a),
            b = operand(g, S + 8192, g->kind.b, g->kind.trans_b);
    uint32_t al, ah, bl, bh, ra[4] = { 0 };
    float d[128];
    int per = 4 / a.bytes;
    for (int i = 0; i < 128; i++) {
        d[i] = (float)i;
        if (g->kind.integer) memcpy(&d[i], &i, 4);
    }
    if (!g->registers) fill(&a, g->kind.a, 64, 1);
    for (int j = 0; j < 4; j++)
        for (int e = 0; e < per; e++)
            ra[j] |= codes[g->kind.a][pick(tid() / 32 * 16 + emu_lane() / 4 + j % 2 * 8,
                         j / 2 * 4 * per + emu_lane() % 4 * per + e, 1)]
                     << 8 * a.bytes * e;
    fill(&b, g->kind.b, g->kind.n, 2);
    if (g->fault != NO_PROXY_FENCE) emu_proxy_fence();
    emu_syncthreads();
    words(&a, &al, &ah);
    words(&b, &bl, &bh);
    if (g->fault != NO_FENCE) emu_wgmma_fence();
    if (g->fault == DIVERGED && tid() / 32 == 2) bl++;
    emu_wgmma(&g->kind, d, g->registers ? ra : NULL, al, ah, bl, bh, 1);
    if (g->fault != NO_COMMIT) emu_wgmma_commit();
    if (g->fault == A_CHANGED) ra[2]++;
    if (g->fault == TOUCHED) d[1] = 0;
    if (g->fault == REFILLED && tid() == 64) sts(b.base, 1);
    if (g->fault != NO_WAIT) emu_wgmma_wait(0);
    expect(correct(g, d), "a product");
}

void test_wgmma(void)
{
    static const EmuType pairs[][2] = { { EMU_F16, EMU_F16 }, { EMU_BF16, EMU_BF16 }, { EMU_TF32, EMU_TF32 },
        { EMU_E4M3, EMU_E4M3 }, { EMU_E5M2, EMU_E4M3 }, { EMU_E4M3, EMU_E5M2 }, { EMU_S8, EMU_S8 },
        { EMU_U8, EMU_U8 }, { EMU_S8, EMU_U8 } };
    static const int ns[] = { 8, 64, 136, 256 };
    static const uint32_t spans[] = { 16, 32, 64, 128 };
    int k = 0, n = 0;
    look = true;
    for (size_t t = 0; t < sizeof pairs / sizeof *pairs; t++)
        for (int s = 0; s < 4; s++)
            for (int major = 0; major < (bytes_of(pairs[t][0]) == 2 ? 4 : 1); major++)
                for (int registers = 0; registers < 2; registers++) {
                    if (registers && major & 1) continue;
                    Gmma g = { { ns[k++ % 4], 32 / bytes_of(pairs[t][0]), pairs[t][0], pairs[t][1], major & 1,
                                   major >> 1, pairs[t][0] >= EMU_S8 },
                        spans[s], registers };
                    if (g.kind.trans_b && g.kind.n * 2 % (int)g.span) g.kind.n = 256;
                    bool ok = run(128, 1, gmma, &g, k);
                    if (!ok)
                        printf(" [types %d %d, n %d, span %u, major %d, registers %d: %s] ", g.kind.a,
                            g.kind.b, g.kind.n, g.span, major, registers, why);
                    CU_ASSERT(ok);
                    n++;
                }
    printf(" %d products ", n);
    Gmma g = { { 64, 16, EMU_F16, EMU_F16 }, 128, true };
    static const char *const reports[] = { [NO_FENCE] = "no wgmma.fence",
        [NO_PROXY_FENCE] = "no proxy fence",
        [NO_WAIT] = "wrong: a product",
        [NO_COMMIT] = "wrong: a product",
        [A_CHANGED] = "registers of A",
        [REFILLED] = "race: write",
        [TOUCHED] = "was written before the wait",
        [DIVERGED] = "different wgmma" };
    works(128, gmma, &g);
    for (g.fault = NO_FENCE; g.fault <= DIVERGED; g.fault++) fails(128, gmma, &g, reports[g.fault]);
}

/* mma.sync and ldmatrix: a fragment loaded as the tables say is the matrix. */
static void warp_product(const uint64_t *args)
{
    uint32_t a[4], b[2];
    float d[4] = { 0 };
    for (int e = emu_lane(); e < 16 * 16; e += 32)
        emu_store(S + (uint32_t)(e / 16 * 32 + e % 16 * 2), &codes[EMU_F16][pick(e / 16, e % 16, 1)], 2);
    for (int e = emu_lane(); e < 8 * 16; e += 32)
        emu_store(S + 512 + (uint32_t)(e % 16 * 16 + e / 16 * 2), &codes[EMU_F16][pick(e / 16, e % 16, 2)],
            2); /* [k][n] */
    emu_warp_sync();
    emu_ldmatrix(a, S + (uint32_t)(emu_lane() % 16 * 32 + emu_lane() / 16 * 16), 4, false);
    emu_ldmatrix(b, S + 512 + (uint32_t)(emu_lane() % 16 * 16), 2, true);
    emu_mma(d, a, b, EMU_F16, EMU_F16);
    for (int i = 0; i < 4; i++) {
        double want = 0;
        for (int k = 0; k < 16; k++)
            want += value(EMU_F16, pick(emu_lane() / 4 + i / 2 * 8, k, 1)) *
                    value(EMU_F16, pick(emu_lane() % 4 * 2 + i % 2, k, 2));
        expect(d[i] == want, "mma");
    }
}

void test_warp_product(void) { works(32, warp_product, NULL); }
