/* AMD's LDS: the lane groups of an access are a partition, and the tiles that products stage have no bank conflicts. */
#include "common.h"
#include "passes/kernel/lds.h"

static void test_groups(void)
{
    for (int bytes = 4; bytes <= 16; bytes *= 2)
        for (int read = 0; read < 2; read++) {
            int seen[64] = { 0 };
            for (int k = 0; k < 64; k++) seen[lds_lane(read, bytes, k)]++;
            for (int k = 0; k < 64; k++) CU_ASSERT_EQUAL(seen[k], 1);
        }
    CU_ASSERT_EQUAL(lds_lane(true, 16, 4), 20);
}

/* A tile of 16-bit elements for each operand of mfma_32x32x16_r, contiguous in memory along K or across it: its writes and reads of 128 bits conflict nowhere. */
static void test_operands(void)
{
    static const int32_t sizes[][2] = { { 64, 64 }, { 128, 64 }, { 128, 128 }, { 64, 128 }, { 256, 64 } };     /* rows, K */
    for (int role = 0; role < 2; role++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int across = 0; across < 2; across++) {
                int along = role ? 0 : 1, conflicts = -1;
                int32_t tile[2], part[2];
                tile[along] = sizes[i][1]; tile[1 - along] = sizes[i][0];
                part[along] = 16; part[1 - along] = 32;
                const Layout *reader = layout_mma(&arena, LAYOUT_MFMA_32x32x16_R, role ? LAYOUT_B : LAYOUT_A, 2, part, I(1, 1));
                const Layout *writer = lds_writer(&arena, tile, across ? 1 - along : along, along, 2, 64, 4);
                CU_ASSERT_PTR_NOT_NULL_FATAL(reader);
                CU_ASSERT_PTR_NOT_NULL_FATAL(writer);
                LayoutVector v;
                const LayoutShared *s = lds_layout(&arena, tile, along, 2, writer, reader, &conflicts);
                CU_ASSERT_PTR_NOT_NULL_FATAL(s);
                CU_ASSERT_EQUAL(lds_conflicts(reader, s, true), 0);
                /* a lane that has less than a block of 8 x 8 writes 8 bytes at once, of which half the banks are not used */
                layout_shared_vector(writer, s, 16, &v);
                if (v.bytes == 16) { CU_ASSERT_EQUAL(conflicts, 0); }
                else CU_ASSERT(across && conflicts <= (int)(layout_regs(writer) / v.n * layout_warps(writer) * 64 * v.bytes / 128));
                layout_shared_vector(reader, s, 16, &v);
                CU_ASSERT_EQUAL(v.bytes, 16);
            }
    /* and the count is no constant: rows of 128 bytes without a swizzle do conflict */
    const Layout *reader = layout_mma(&arena, LAYOUT_MFMA_32x32x16_R, LAYOUT_A, 2, I(32, 16), I(1, 1));
    CU_ASSERT(lds_conflicts(reader, layout_shared_rows(&arena, 2, I(64, 64), I(1, 0), 2, 0), true) > 0);
}

/* The exchanged form computes the product: for every instruction of a fragment, its rows i, columns j and depths k are those of one matrix instruction of the
 * published layout with A and B exchanged. */
static void test_exchanged(void)
{
    static const struct { LayoutMma whole, hw; int steps; } forms[] = {
        { LAYOUT_MFMA_32x32x16_R, LAYOUT_MFMA_32x32x8, 2 }, { LAYOUT_MFMA_32x32x16_R, LAYOUT_MFMA_32x32x16, 1 }, { LAYOUT_MFMA_32x32x32_8_R, LAYOUT_MFMA_32x32x16_8, 2 },
        { LAYOUT_MFMA_32x32x32_8_R, LAYOUT_MFMA_32x32x8_8, 4 }, { LAYOUT_MFMA_32x32x8_32_R, LAYOUT_MFMA_32x32x2, 4 }, { LAYOUT_MFMA_32x32x8_32_R, LAYOUT_MFMA_32x32x4_XF32, 2 },
        { LAYOUT_WMMA_16x16x16_R, LAYOUT_WMMA_16x16x16, 1 }, { LAYOUT_WMMA_16x16x16_8_R, LAYOUT_WMMA_16x16x16_8, 1 },
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const LayoutMmaInfo *w = layout_mma_info(forms[f].whole), *h = layout_mma_info(forms[f].hw);
        const Layout *a = layout_mma(&arena, forms[f].whole, LAYOUT_A, 2, I(w->m, w->k), I(1, 1)), *b = layout_mma(&arena, forms[f].whole, LAYOUT_B, 2, I(w->k, w->n), I(1, 1));
        const Layout *c = layout_mma(&arena, forms[f].whole, LAYOUT_C, 2, I(w->m, w->n), I(1, 1));
        const Layout *ha = layout_mma(&arena, forms[f].hw, LAYOUT_A, 2, I(h->m, h->k), I(1, 1)), *hb = layout_mma(&arena, forms[f].hw, LAYOUT_B, 2, I(h->k, h->n), I(1, 1));
        const Layout *hc = layout_mma(&arena, forms[f].hw, LAYOUT_C, 2, I(h->m, h->n), I(1, 1));
        int row_n[32], col_m[32], used[64] = { 0 }, bad = 0, per = (int)layout_regs(a) / forms[f].steps;
        memset(row_n, -1, sizeof row_n);
        memset(col_m, -1, sizeof col_m);
        for (int q = 0; q < forms[f].steps; q++) {
            int depth[64];
            memset(depth, -1, sizeof depth);
            for (uint32_t t = 0; t < layout_lanes(a); t++)
                for (int r = 0; r < per; r++) {
                    int32_t x[2], hx[2];
                    layout_element(b, (uint32_t)(q * per + r), t, 0, 0, x);         /* goes in as A */
                    layout_element(ha, (uint32_t)r, t, 0, 0, hx);
                    if (row_n[hx[0]] < 0) row_n[hx[0]] = x[1];
                    if (depth[hx[1]] < 0) { depth[hx[1]] = x[0]; used[x[0]]++; }
                    bad += row_n[hx[0]] != x[1] || depth[hx[1]] != x[0];
                    layout_element(a, (uint32_t)(q * per + r), t, 0, 0, x);         /* goes in as B */
                    layout_element(hb, (uint32_t)r, t, 0, 0, hx);
                    if (col_m[hx[1]] < 0) col_m[hx[1]] = x[0];
                    bad += col_m[hx[1]] != x[0] || depth[hx[0]] != x[1];
                }
        }
        for (int k = 0; k < w->k; k++) bad += used[k] != 1;
        for (uint32_t t = 0; t < layout_lanes(c); t++)
            for (uint32_t r = 0; r < layout_regs(c); r++) {
                int32_t x[2], hx[2];
                layout_element(c, r, t, 0, 0, x);
                layout_element(hc, r, t, 0, 0, hx);
                bad += x[1] != row_n[hx[0]] || x[0] != col_m[hx[1]];
            }
        CU_ASSERT_EQUAL(bad, 0);
    }
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = {{"groups", test_groups}, {"operands", test_operands}, {"exchanged", test_exchanged}};
    int status = unit_run("layout of AMD's LDS", tests, 3, argc, argv);
    arena_free(&arena);
    return status;
}
