/* Each fragment against the formula of the ISA, written here a second time as arithmetic on lane and element
 * numbers. */
#include "common.h"
#include "tests/emu/hip_fragments.h"

typedef struct {
    int i, j;
} At;

/* PTX ISA 9.7.14.5: groupID = lane >> 2, threadID_in_group = lane % 4. */
static At ptx_a(LayoutMma k, int i, int lane)
{
    int g = lane >> 2, t = lane % 4;
    if (k == LAYOUT_M16N8K16)
        return (
            At){ (i < 2 || (i >= 4 && i < 6)) ? g : g + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8 };
    if (k == LAYOUT_M16N8K8) return (At){ i < 2 ? g : g + 8, t * 2 + (i & 1) };
    if (k == LAYOUT_M16N8K8_TF32) return (At){ (i == 0 || i == 2) ? g : g + 8, i < 2 ? t : t + 4 };
    if (k == LAYOUT_M16N8K4_TF32) return (At){ i == 0 ? g : g + 8, t };
    if (k == LAYOUT_M16N8K32)
        return (At){ (i < 4 || (i >= 8 && i < 12)) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0) };
    if (k == LAYOUT_M16N8K16_8) return (At){ i < 4 ? g : g + 8, t * 4 + (i & 3) };
    if (k == LAYOUT_M8N8K4_F64) return (At){ g, t };
    if (k == LAYOUT_M16N8K16_F64)
        return (At){ i % 2 == 0 ? g : g + 8, i % 2 == 0 ? i * 2 + t : i * 2 - 2 + t };
    abort();
}

static At ptx_b(LayoutMma k, int i, int lane)
{
    int g = lane >> 2, t = lane % 4;
    if (k == LAYOUT_M16N8K16) return (At){ i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8, g };
    if (k == LAYOUT_M16N8K8) return (At){ t * 2 + i, g };
    if (k == LAYOUT_M16N8K8_TF32) return (At){ i == 0 ? t : t + 4, g };
    if (k == LAYOUT_M16N8K4_TF32) return (At){ t, g };
    if (k == LAYOUT_M16N8K32) return (At){ i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16, g };
    if (k == LAYOUT_M16N8K16_8) return (At){ t * 4 + i, g };
    if (k == LAYOUT_M8N8K4_F64) return (At){ t, g };
    if (k == LAYOUT_M16N8K16_F64) return (At){ t + i * 4, g };
    abort();
}

static At ptx_c(LayoutMma k, int i, int lane)
{
    int g = lane >> 2, t = lane % 4;
    if (k == LAYOUT_M8N8K4_F64) return (At){ g, t * 2 + i };
    return (At){ i < 2 ? g : g + 8, t * 2 + (i & 1) };
}

static void check(LayoutMma k, LayoutRole role, int warps, int elems, At (*formula)(LayoutMma, int, int))
{
    const LayoutMmaInfo *info = layout_mma_info(k);
    int32_t tile[2] = { role == LAYOUT_B ? info->k : info->m, role == LAYOUT_A ? info->k : info->n };
    const Layout *l = layout_mma(&arena, k, role, 2, tile, I(1, 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    CU_ASSERT_EQUAL(layout_regs(l), (uint32_t)elems);
    CU_ASSERT_EQUAL(layout_lanes(l), (uint32_t)info->lanes);
    CU_ASSERT_EQUAL(layout_warps(l), (uint32_t)warps);
    int bad = 0;
    for (int w = 0; w < warps; w++)
        for (int lane = 0; lane < info->lanes; lane++)
            for (int i = 0; i < elems; i++) {
                int32_t c[2];
                layout_element(l, (uint32_t)i, (uint32_t)lane, (uint32_t)w, 0, c);
                At want = formula(k, i, lane + info->lanes * w);
                bad += c[0] != want.i || c[1] != want.j;
            }
    if (bad) printf(" %s role %d: %d wrong ", info->name, role, bad);
    CU_ASSERT_EQUAL(bad, 0);
    uint32_t copies;
    CU_ASSERT(covers(l, &copies));
}

static void test_mma(void)
{
    static const struct {
        LayoutMma k;
        int a, b, c;
    } rows[] = {
        { LAYOUT_M16N8K16, 8, 4, 4 },
        { LAYOUT_M16N8K8, 4, 2, 4 },
        { LAYOUT_M16N8K8_TF32, 4, 2, 4 },
        { LAYOUT_M16N8K4_TF32, 2, 1, 4 },
        { LAYOUT_M16N8K32, 16, 8, 4 },
        { LAYOUT_M16N8K16_8, 8, 4, 4 },
        { LAYOUT_M8N8K4_F64, 1, 1, 2 },
        { LAYOUT_M16N8K16_F64, 8, 4, 4 },
    };
    CU_ASSERT_EQUAL(
        (int)(sizeof rows / sizeof rows[0]), (int)LAYOUT_WGMMA_K16); /* a new kind belongs above */
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        check(rows[r].k, LAYOUT_A, 1, rows[r].a, ptx_a);
        check(rows[r].k, LAYOUT_B, 1, rows[r].b, ptx_b);
        check(rows[r].k, LAYOUT_C, 1, rows[r].c, ptx_c);
    }
}

/* PTX ISA 9.7.15.5.1.1, figures of wgmma.m64nNk*: warp w of the warpgroup has rows 16w..16w+15, laid out as
 * mma's. */
static At wgmma_a(LayoutMma k, int i, int thread)
{
    int lane = thread % 32, warp = thread / 32, row = lane / 4 + 16 * warp;
    if (k == LAYOUT_WGMMA_K16) return (At){ row + 8 * (i / 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i / 4) };
    if (k == LAYOUT_WGMMA_K8) return (At){ row + 8 * (i % 2), lane % 4 + 4 * (i / 2) };
    if (k == LAYOUT_WGMMA_K32) return (At){ row + 8 * (i / 4 % 2), lane % 4 * 4 + i % 4 + 16 * (i / 8) };
    abort();
}

static At wgmma_d(LayoutMma k, int i, int thread)
{
    (void)k;
    int lane = thread % 32, warp = thread / 32;
    return (At){ 16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + lane % 4 * 2 + i % 2 };
}

/* The same with the 16 rows of a warp in the order 0, 2, .., 14, 1, 3, .., 15. */
static At in_pairs(At x)
{
    int row = x.i % 16;
    return (At){ x.i - row + row % 8 * 2 + row / 8, x.j };
}

static At wgmma_a_pairs(LayoutMma k, int i, int thread)
{
    (void)k;
    return in_pairs(wgmma_a(LAYOUT_WGMMA_K16, i, thread));
}

static At wgmma_d_pairs(LayoutMma k, int i, int thread) { return in_pairs(wgmma_d(k, i, thread)); }

/* The same with the 64 rows of a warpgroup in the order in which half words have them: lanes have rows 0, 1,
 * 8, 9, 16, 17, 24, 25, and two rows on; the next warp's are four rows on, the one's behind it 32. */
static At in_halves(At x)
{
    int group = x.i % 8, second = x.i / 8 % 2, warp = x.i / 16 % 4;
    return (At){ x.i / 64 * 64 + group % 2 + group / 2 * 8 + 2 * second + warp % 2 * 4 + warp / 2 * 32, x.j };
}

static At wgmma_a_halves(LayoutMma k, int i, int thread)
{
    (void)k;
    return in_halves(wgmma_a(LAYOUT_WGMMA_K16, i, thread));
}

static At wgmma_d_halves(LayoutMma k, int i, int thread) { return in_halves(wgmma_d(k, i, thread)); }

static void test_wgmma(void)
{
    check(LAYOUT_WGMMA_K16, LAYOUT_A, 4, 8, wgmma_a);
    check(LAYOUT_WGMMA_K8, LAYOUT_A, 4, 4, wgmma_a);
    check(LAYOUT_WGMMA_K32, LAYOUT_A, 4, 16, wgmma_a);
    check(LAYOUT_WGMMA_K16, LAYOUT_C, 4, 4, wgmma_d);
    check(LAYOUT_WGMMA_K16_PAIRS, LAYOUT_A, 4, 8, wgmma_a_pairs);
    check(LAYOUT_WGMMA_K16_PAIRS, LAYOUT_C, 4, 4, wgmma_d_pairs);
    check(LAYOUT_WGMMA_K16_HALVES, LAYOUT_A, 4, 8, wgmma_a_halves);
    check(LAYOUT_WGMMA_K16_HALVES, LAYOUT_C, 4, 4, wgmma_d_halves);
    CU_ASSERT_EQUAL(
        (int)LAYOUT_MFMA_32x32x8, (int)LAYOUT_WGMMA_K16_HALVES + 1); /* a new kind belongs above */
    CU_ASSERT_PTR_NULL(layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_B, 2, I(16, 8), I(1, 1)));
    /* Every N of the instruction, several warpgroups stacked in M or side by side in N. */
    for (int n = 8; n <= 256; n += 8)
        for (int gm = 1; gm <= 3; gm++)
            for (int gn = 1; gn <= 2; gn++) {
                if (n % (8 * gn)) continue;
                const Layout *l = layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_C, 2, I(64 * gm, n), I(gm, gn));
                CU_ASSERT_PTR_NOT_NULL_FATAL(l);
                CU_ASSERT_EQUAL(layout_regs(l), (uint32_t)(n / gn / 2));
                int bad = 0;
                for (int g = 0; g < gm * gn; g++)
                    for (int t = 0; t < 128; t++)
                        for (int i = 0; i < n / gn / 2; i++) {
                            int32_t c[2];
                            layout_element(
                                l, (uint32_t)i, (uint32_t)t % 32, (uint32_t)(4 * g + t / 32), 0, c);
                            At want = wgmma_d(LAYOUT_WGMMA_K16, i, t);
                            bad += c[0] != want.i + 64 * (g / gn) || c[1] != want.j + n / gn * (g % gn);
                        }
                CU_ASSERT_EQUAL(bad, 0);
            }
}

/* AMD: against tests/emu/hip_fragments.h, which says it the other way round, element to register and lane. */
static uint64_t digest_step(uint64_t h, int word) { return (h ^ (uint32_t)word) * 0x100000001b3u; }

/* Layouts number elements, AMD 32-bit registers: element (gpr * 32 + bit) / bits of a lane. */
static int amd_matrix(const HipInstr *x, const Layout *l, int matrix, uint64_t *formula, uint64_t *layout)
{
    int rows = matrix == 1 ? x->k : x->m, cols = matrix == 0 ? x->k : x->n,
        bits = matrix == 2 ? x->d_bits : x->bits, bad = 0;
    *formula = *layout = 0xcbf29ce484222325u;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            int copies = 0;
            for (int lane = 0; lane < x->wave; lane++)
                for (uint32_t r = 0; r < layout_regs(l); r++) {
                    int32_t c[2];
                    layout_element(l, r, (uint32_t)lane, 0, 0, c);
                    if (c[0] != i || c[1] != j) continue;
                    HipPlace p = matrix == 2
                                     ? hip_place_d(x, i, j)
                                     : hip_place_ab(x, matrix, matrix ? j : i, matrix ? i : j, copies);
                    HipPlace q = { (int)r * bits / 32, (int)r * bits % 32, lane };
                    bad += p.gpr != q.gpr || p.bit != q.bit || p.lane != q.lane;
                    const int from[] = { i, j, p.gpr, p.bit, p.lane },
                              have[] = { i, j, q.gpr, q.bit, q.lane };
                    for (int k = 0; k < 5; k++) {
                        *formula = digest_step(*formula, from[k]);
                        *layout = digest_step(*layout, have[k]);
                    }
                    copies++;
                }
            bad += copies != (matrix == 2 ? 1 : x->copies);
        }
    return bad;
}

static void test_amd(void)
{
    int seen = 0;
    for (LayoutMma k = LAYOUT_MFMA_32x32x8; k <= LAYOUT_WMMA_16x16x16_8; k++) {
        const LayoutMmaInfo *info = layout_mma_info(k);
        const HipInstr *x = NULL;
        for (int i = 0; i < HIP_INSTRS; i++)
            if (!strcmp(hip_instrs[i].layout, info->name)) x = &hip_instrs[i];
        CU_ASSERT_PTR_NOT_NULL_FATAL(x);
        seen++;
        CU_ASSERT(info->m == x->m && info->n == x->n && info->k == x->k && info->lanes == x->wave &&
                  info->bits == x->bits);
        for (int matrix = 0; matrix < 3; matrix++) {
            int32_t tile[2] = { matrix == 1 ? x->k : x->m, matrix == 0 ? x->k : x->n };
            const Layout *l = layout_mma(&arena, k, (LayoutRole)matrix, 2, tile, I(1, 1));
            CU_ASSERT_PTR_NOT_NULL_FATAL(l);
            uint64_t formula, layout;
            int bad = amd_matrix(x, l, matrix, &formula, &layout);
            if (bad) printf(" %s matrix %d: %d wrong ", info->name, matrix, bad);
            CU_ASSERT_EQUAL(bad, 0);
            if (!x->digest[matrix]) continue;
            CU_ASSERT_EQUAL(formula, x->digest[matrix]);
            CU_ASSERT_EQUAL(layout, x->digest[matrix]);
        }
    }
    CU_ASSERT_EQUAL(seen, HIP_INSTRS);
}

/* f8f6f4 of 8-bit operands, as AMD's guides say it (hip_fragments.h): byte r of lane l holds of A row l % M
 * (of B: column) at K = 16 * (l / M) + r % 16, and half of K further from r = 16 on; D's register r is row 4
 * * (l / N) + r % 4 (32x32: 8 rows further every four registers), column l % N. */
static void test_f8f6f4(void)
{
    static const struct {
        LayoutMma kind;
        int m, k;
    } shapes[] = { { LAYOUT_MFMA_32x32x64_8, 32, 64 }, { LAYOUT_MFMA_16x16x128_8, 16, 128 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int role = 0; role < 3; role++) {
            const int m = shapes[s].m, k = shapes[s].k;
            const Layout *l = layout_mma(&arena, shapes[s].kind, (LayoutRole)role, 2,
                I(role == LAYOUT_B ? k : m, role == LAYOUT_A ? k : m), I(1, 1));
            int bad = 0;
            CU_ASSERT_PTR_NOT_NULL_FATAL(l);
            CU_ASSERT_EQUAL(layout_regs(l), (uint32_t)(role == LAYOUT_C ? m * m / 64 : 32));
            for (int lane = 0; lane < 64; lane++)
                for (int r = 0; r < (int)layout_regs(l); r++) {
                    int32_t c[2];
                    int at = 16 * (lane / m) + r % 16 + r / 16 * (k / 2),
                        row = 4 * (lane / m) + r % 4 + r / 4 * 8;
                    layout_element(l, (uint32_t)r, (uint32_t)lane, 0, 0, c);
                    bad += role == LAYOUT_A   ? c[0] != lane % m || c[1] != at
                           : role == LAYOUT_B ? c[0] != at || c[1] != lane % m
                                              : c[0] != row || c[1] != lane % m;
                }
            CU_ASSERT_EQUAL(bad, 0);
        }
}

/* WMMA's left operand where each half of the wave has its half of K: as C lies, and the same in all waves
 * side by side. */
static void test_halves(void)
{
    const Layout *c = layout_mma(&arena, LAYOUT_WMMA_16x16x16_R, LAYOUT_C, 2, I(64, 48), I(4, 1)),
                 *h = layout_mma(&arena, LAYOUT_WMMA_16x16x16_R, LAYOUT_HALVES, 2, I(64, 48), I(4, 2));
    int bad = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(h);
    CU_ASSERT(layout_regs(h) == layout_regs(c) && layout_warps(h) == 8);
    for (uint32_t w = 0; w < 8; w++)
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t r = 0; r < layout_regs(c); r++) {
                int32_t x[2], y[2];
                layout_element(h, r, lane, w, 0, x);
                layout_element(c, r, lane, w / 2, 0, y);
                bad += x[0] != y[0] || x[1] != y[1];
            }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_PTR_NULL(layout_mma(&arena, LAYOUT_MFMA_32x32x8, LAYOUT_HALVES, 2, I(64, 64), I(2, 2)));
}

/* The exchanged forms: B goes where the instruction takes A, A where it takes B, in pieces of K. By AMD's
 * places, every element of C must get each of its products once, and no other. */
static void exchanged(LayoutMma k, const char *instr)
{
    const LayoutMmaInfo *info = layout_mma_info(k);
    const HipInstr *x = NULL;
    for (int i = 0; i < HIP_INSTRS; i++)
        if (!strcmp(hip_instrs[i].layout, instr)) x = &hip_instrs[i];
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    const Layout *l[3];
    for (int role = 0; role < 3; role++) {
        int32_t tile[2] = { role == LAYOUT_B ? info->k : info->m, role == LAYOUT_A ? info->k : info->n };
        l[role] = layout_mma(&arena, k, (LayoutRole)role, 2, tile, I(1, 1));
        CU_ASSERT_PTR_NOT_NULL_FATAL(l[role]);
        CU_ASSERT_EQUAL(layout_lanes(l[role]), (uint32_t)x->wave);
    }
    int pieces = info->k / x->k, bad = 0;
    CU_ASSERT(info->m == x->m && info->n == x->n && info->bits == x->bits &&
              (int)layout_regs(l[0]) == pieces * x->per && (int)layout_regs(l[1]) == pieces * x->per);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            HipPlace d = hip_place_d(x, i, j);
            int32_t c[2], seen[64] = { 0 };
            layout_element(l[2], (uint32_t)d.gpr, (uint32_t)d.lane, 0, 0, c);
            for (int piece = 0; piece < pieces; piece++)
                for (int q = 0; q < x->k; q++)
                    for (int copy = 0; copy < x->copies; copy++) {
                        HipPlace pa = hip_place_ab(x, 0, i, q, copy), pb = hip_place_ab(x, 1, j, q, copy);
                        int32_t a[2], b[2];
                        layout_element(l[LAYOUT_B],
                            (uint32_t)(piece * x->per + (pa.gpr * 32 + pa.bit) / x->bits), (uint32_t)pa.lane,
                            0, 0, b);
                        layout_element(l[LAYOUT_A],
                            (uint32_t)(piece * x->per + (pb.gpr * 32 + pb.bit) / x->bits), (uint32_t)pb.lane,
                            0, 0, a);
                        bad += a[0] != c[0] || b[1] != c[1] || a[1] != b[0];
                        if (!copy) seen[a[1]]++;
                    }
            for (int q = 0; q < info->k; q++) bad += seen[q] != 1;
        }
    if (bad) printf(" %s by %s: %d wrong ", info->name, instr, bad);
    CU_ASSERT_EQUAL(bad, 0);
    uint32_t copies;
    CU_ASSERT(covers(l[2], &copies) && copies == 1);
}

static void test_exchanged(void)
{
    exchanged(LAYOUT_MFMA_32x32x16_R, "mfma_32x32x8");
    exchanged(LAYOUT_MFMA_32x32x16_R, "mfma_32x32x16");
    exchanged(LAYOUT_MFMA_32x32x32_8_R, "mfma_32x32x16_8");
    exchanged(LAYOUT_MFMA_32x32x32_8_R, "mfma_32x32x8_8");
    exchanged(LAYOUT_MFMA_32x32x32_8_R, "mfma_32x32x32_8");
    exchanged(LAYOUT_MFMA_32x32x64_8_R, "mfma_32x32x64_8");
    exchanged(LAYOUT_MFMA_32x32x8_32_R, "mfma_32x32x2");
    exchanged(LAYOUT_MFMA_32x32x8_32_R, "mfma_32x32x4_xf32");
    exchanged(LAYOUT_WMMA_16x16x16_R, "wmma_16x16x16");
    exchanged(LAYOUT_WMMA_16x16x16_8_R, "wmma_16x16x16_8");
    CU_ASSERT_EQUAL((int)LAYOUT_MMA_COUNT, (int)LAYOUT_WMMA_16x16x16_8_R + 1); /* a new kind belongs above */
}

/* Operand tiles: every fragment of the tile is the instruction's at a multiple of its shape, and register
 * numbers count fragments along the last axis first. */
static void check_tile(LayoutMma k, LayoutRole role, const int32_t *tile, int wm, int wn)
{
    const LayoutMmaInfo *m = layout_mma_info(k);
    const int32_t ext[2] = { role == LAYOUT_B ? m->k : m->m, role == LAYOUT_A ? m->k : m->n };
    const Layout *l = layout_mma(&arena, k, role, 2, tile, I(wm, wn));
    const Layout *one = layout_mma(&arena, k, role, 2, ext, I(1, 1));
    uint32_t copies;
    int bad = 0;
    CU_ASSERT_FATAL(l && one);
    CU_ASSERT(covers(l, &copies));
    CU_ASSERT_EQUAL(layout_warps(l), (uint32_t)(wm * wn * m->warps));
    for (Place p = { 0 }; p.warp < (uint32_t)m->warps; place_next(l, &p)) {
        int32_t c[2], f[2], base[2];
        uint32_t within = p.reg % layout_regs(one);
        element_at(l, p, c);
        layout_element(one, within, p.lane, p.warp, 0, f);
        layout_element(l, p.reg - within, 0, 0, 0, base);
        for (int d = 0; d < 2; d++) bad += c[d] != base[d] + f[d] || base[d] % ext[d];
    }
    CU_ASSERT_EQUAL(bad, 0);
}

static void test_tiles(void)
{
    static const int32_t tiles[][2] = { { 96, 80 }, { 176, 48 }, { 64, 24 }, { 16, 8 }, { 40, 20 } };
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        for (int k = 0; k < LAYOUT_MMA_COUNT; k++)
            for (int role = 0; role < 3; role++) {
                if (layout_mma_info((LayoutMma)k)->warps == 4 && role == LAYOUT_B) continue;
                for (int wm = 1; wm <= 4; wm += 1 + (wm == 2))
                    for (int wn = 1; wn <= 3; wn += 2)
                        check_tile((LayoutMma)k, (LayoutRole)role, tiles[i], wm, wn);
            }
}

/* Of stacked products each warp holds the whole columns of its part of N of just those right operands whose
 * rows of sums it has, every element of them. */
static void check_stacked(int products, int height, int k, int n, int down, int across)
{
    int32_t rows = products * height * 16;
    const Layout *b = layout_mma_stacked(
                     &arena, LAYOUT_M16N8K16, I(products * k, n), I(down, across), products, height),
                 *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(rows, n), I(down, across));
    int bad = 0;
    CU_ASSERT_FATAL(b && c);
    CU_ASSERT_EQUAL(layout_warps(b), layout_warps(c));
    for (uint32_t w = 0; w < layout_warps(c); w++) {
        bool wants[8][64] = { 0 }, has[8][64] = { 0 };
        int32_t at[2];
        for (uint32_t r = 0; r < layout_regs(c); r++)
            for (uint32_t lane = 0; lane < 32; lane++) {
                layout_element(c, r, lane, w, 0, at);
                if (at[1] < n) wants[at[0] / (16 * height)][at[1]] = true;
            }
        for (uint32_t r = 0; r < layout_regs(b); r++)
            for (uint32_t lane = 0; lane < 32; lane++) {
                layout_element(b, r, lane, w, 0, at);
                if (at[1] < n) has[at[0] / k][at[1]] = true;
            }
        bad += memcmp(wants, has, sizeof wants) != 0;
    }
    uint32_t copies;
    CU_ASSERT(covers(b, &copies));
    CU_ASSERT_EQUAL(bad, 0);
}

static void test_stacked(void)
{
    check_stacked(4, 1, 16, 16, 4, 1);
    check_stacked(8, 1, 32, 32, 4, 1); /* two products a warp */
    check_stacked(2, 2, 32, 32, 4, 1); /* two warps to a product */
    check_stacked(2, 1, 16, 32, 2, 2); /* and two side by side */
    check_stacked(6, 3, 48, 24, 2, 3);
    /* Rows of a warp that are neither whole products nor an equal part of one. */
    CU_ASSERT_PTR_NULL(layout_mma_stacked(&arena, LAYOUT_M16N8K16, I(32, 8), I(3, 1), 2, 3));
    CU_ASSERT_PTR_NULL(layout_mma_stacked(&arena, LAYOUT_M16N8K16, I(48, 8), I(2, 1), 3, 1));
    CU_ASSERT_PTR_NULL(layout_mma_stacked(&arena, LAYOUT_M16N8K16, I(24, 8), I(1, 1), 1, 1));
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "mma", test_mma }, { "wgmma", test_wgmma }, { "amd", test_amd },
        { "f8f6f4", test_f8f6f4 }, { "halves", test_halves }, { "exchanged", test_exchanged },
        { "tiles", test_tiles }, { "stacked", test_stacked } };
    int status = unit_run("layout fragments", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
