/* AMD's LDS: the lane groups of an access are a partition, and the tiles that products stage have no bank
 * conflicts. */
#include "common.h"
#include "passes/kernel/amd/lds.h"

/* --- the banks, again: written from the sources, not from lds.c
 * ---------------------------------------------------------------------------
 *
 * gfx90a, gfx942: 32 banks; Composable Kernel documentation, "LDS bank conflicts": eight lanes a cycle for
 * 128 bits, reads in an order of their own, 16 for 64, 32 for 32. gfx950: HipKittens, arXiv 2511.08083, table
 * 5: ds_read_b128 over 64 banks in four phases, ds_read_b64 over 64 in halves of the wave, ds_write_b64 over
 * 32 in quarters. gfx1100: 32 banks of one compute unit, lanes in order. What no source has is taken as on
 * gfx942. */
enum { CHIPS = 4 };
static const struct {
    const char *name;
    LdsChip chip;
    int wave;
} chips[CHIPS] = { { "gfx90a", LDS_CDNA, 64 }, { "gfx942", LDS_CDNA, 64 }, { "gfx950", LDS_CDNA4, 64 },
    { "gfx1100", LDS_RDNA3, 32 } };

/* Which cycle of an access of 64 or 128 bits serves the lane. */
static int cycle_of(LdsChip chip, bool read, int bytes, int lane)
{
    int half = lane / 32, l = lane % 32;
    if (chip == LDS_CDNA4 && read && bytes == 8) return half;
    if (chip == LDS_CDNA4 && read && bytes == 16)
        return 2 * half + !(l < 4 || (l >= 12 && l < 16) || (l >= 20 && l < 28));
    if (chip == LDS_CDNA && read && bytes == 16)
        return 4 * half + (l < 4 || (l >= 20 && l < 24)      ? 0
                              : l < 8 || (l >= 16 && l < 20) ? 1
                              : l < 12 || l >= 28            ? 2
                                                             : 3);
    return lane / (bytes == 16 ? 8 : bytes == 8 ? 16 : 32);
}
static int banks_of(LdsChip chip, bool read, int bytes)
{ return chip == LDS_CDNA4 && read && bytes >= 8 ? 64 : 32; }

/* Cycles that conflicts cost, over all accesses of the tile: pairs of lanes of one cycle that want different
 * words of one bank, at worst how many. */
static int lost(LdsChip chip, const Layout *l, const LayoutShared *s, bool read, int *size)
{
    LayoutVector v;
    int extra = 0;
    layout_shared_vector(l, s, 16, &v);
    *size = (int)v.bytes;
    int banks = banks_of(chip, read, *size), words = *size >= 4 ? *size / 4 : 1;
    for (uint32_t w = 0; w < layout_warps(l); w++)
        for (uint32_t r = 0; r < layout_regs(l); r++) {
            int64_t at[64];
            if (!layout_vector_base(&v, r)) continue;
            for (uint32_t t = 0; t < layout_lanes(l); t++) {
                int32_t c[2];
                layout_element(l, r, t, w, 0, c);
                at[t] = c[0] < l->tile[0] && c[1] < l->tile[1] ? (int64_t)layout_shared_offset(s, c) / 4 : -1;
            }
            for (int cycle = 0; cycle < 8; cycle++) {
                int worst = 1;
                for (int bank = 0; bank < banks; bank++) {
                    int64_t seen[64];
                    int n = 0;
                    for (int t = 0; t < (int)layout_lanes(l); t++) {
                        if (at[t] < 0 || cycle_of(chip, read, *size, t) != cycle) continue;
                        for (int64_t x = at[t]; x < at[t] + words; x++) {
                            int k = 0;
                            if (x % banks != bank) continue;
                            while (k < n && seen[k] != x) k++;
                            if (k == n) seen[n++] = x;
                        }
                    }
                    if (n > worst) worst = n;
                }
                extra += worst - 1;
            }
        }
    return extra;
}

/* lds.c's groups are these cycles, and each lane is in one. */
static void test_groups(void)
{
    for (int c = 0; c < CHIPS; c++)
        for (int bytes = 4; bytes <= 16; bytes *= 2)
            for (int read = 0; read < 2; read++) {
                LdsCycle t = lds_cycle(chips[c].chip, read, bytes);
                int seen[64] = { 0 };
                for (int k = 0; k < chips[c].wave; k++) {
                    seen[lds_lane(t, k)]++;
                    CU_ASSERT_EQUAL(cycle_of(chips[c].chip, read, bytes, lds_lane(t, k)),
                        cycle_of(chips[c].chip, read, bytes, lds_lane(t, k / t.group * t.group)));
                }
                for (int k = 0; k < chips[c].wave; k++) CU_ASSERT_EQUAL(seen[k], 1);
                CU_ASSERT_EQUAL(t.banks, banks_of(chips[c].chip, read, bytes));
            }
    CU_ASSERT_EQUAL(lds_lane(lds_cycle(LDS_CDNA, true, 16), 4), 20);
    CU_ASSERT_EQUAL(lds_lane(lds_cycle(LDS_CDNA4, true, 16), 4), 12);
}

/* Tiles of both operands of the products that go through LDS, in 8, 16 and 32 bits, contiguous in memory
 * along K or across it: reads and writes of 64 and of 128 bits conflict nowhere on any chip. The exception is
 * what a lane must write in pieces into rows of 64 bytes (16 bits, K = 32, across): there each access takes
 * two cycles. */
static void test_operands(void)
{
    static const struct {
        LayoutMma mma;
        int bytes, wave;
    } kinds[] = { { LAYOUT_MFMA_32x32x16_R, 2, 64 }, { LAYOUT_MFMA_32x32x32_8_R, 1, 64 },
        { LAYOUT_MFMA_32x32x64_8_R, 1, 64 }, { LAYOUT_MFMA_32x32x8_32_R, 4, 64 },
        { LAYOUT_WMMA_16x16x16_R, 2, 32 }, { LAYOUT_WMMA_16x16x16_8_R, 1, 32 } };
    static const int32_t sizes[][2] = { { 64, 64 }, { 128, 64 }, { 128, 32 }, { 128, 128 }, { 64, 128 },
        { 256, 64 }, { 64, 32 } }; /* rows, K */
    int wide[2][17] = { { 0 } };
    for (size_t x = 0; x < sizeof kinds / sizeof *kinds * CHIPS; x++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 4; i++) {
            size_t kind = x / CHIPS, chip = x % CHIPS;
            if (kinds[kind].wave != chips[chip].wave) continue;
            const LayoutMmaInfo *m = layout_mma_info(kinds[kind].mma);
            int role = (int)i & 1, across = (int)i >> 1 & 1, along = role ? 0 : 1, bytes = kinds[kind].bytes,
                unit = across ? 1 - along : along, inner = bytes == 2 ? along : unit, counted = -1, size;
            int32_t tile[2], part[2];
            tile[along] = sizes[i / 4][1];
            tile[1 - along] = sizes[i / 4][0];
            part[along] = m->k;
            part[1 - along] = role ? m->n : m->m;
            const Layout *reader =
                layout_mma(&arena, kinds[kind].mma, role ? LAYOUT_B : LAYOUT_A, 2, part, I(1, 1));
            const Layout *writer = lds_writer(&arena, tile, unit, inner, bytes, chips[chip].wave, 4);
            uint32_t copies;
            CU_ASSERT_FATAL(reader && writer);
            CU_ASSERT(covers(writer, &copies));
            const LayoutShared *s =
                lds_layout(&arena, chips[chip].chip, tile, inner, bytes, writer, reader, &counted);
            CU_ASSERT_PTR_NOT_NULL_FATAL(s);
            int reads = lost(chips[chip].chip, reader, s, true, &size);
            wide[0][size]++;
            if (size >= 8) CU_ASSERT_EQUAL(reads, 0);
            if (inner == along) CU_ASSERT_EQUAL(size, 16);
            int writes = lost(chips[chip].chip, writer, s, false, &size);
            wide[1][size]++;
            bool pieces = bytes == 2 && across && tile[along] == 32;
            if (size >= 8 && !pieces) CU_ASSERT_EQUAL(writes, 0);
            LayoutVector v;
            layout_shared_vector(writer, s, 16, &v);
            CU_ASSERT(writes <= (int)(layout_regs(writer) / v.n * layout_warps(writer) *
                                      layout_lanes(writer) * v.bytes / 128));
            CU_ASSERT_EQUAL(counted, reads + writes); /* lds.c's own count */
        }
    CU_ASSERT(wide[0][16] > 100 && wide[1][16] > 100 && wide[1][8] > 10);
    /* The count is not a constant: rows of 128 bytes without a swizzle conflict in both widths. */
    int size;
    const Layout *reader = layout_mma(&arena, LAYOUT_MFMA_32x32x16_R, LAYOUT_A, 2, I(32, 16), I(1, 1)),
                 *narrow = layout_mma(&arena, LAYOUT_MFMA_32x32x8, LAYOUT_A, 2, I(32, 8), I(1, 1));
    const LayoutShared *plain = layout_shared_rows(&arena, 2, I(64, 64), I(1, 0), 2, 0);
    for (int c = 0; c < 3; c++) {
        CU_ASSERT(lost(chips[c].chip, reader, plain, true, &size) > 0 && size == 16);
        CU_ASSERT(lost(chips[c].chip, narrow, plain, true, &size) > 0 && size == 8);
    }
}

/* The exchanged form computes the product: for every instruction of a fragment, its rows i, columns j and
 * depths k are those of one matrix instruction of the published layout with A and B exchanged. */
static void test_exchanged(void)
{
    static const struct {
        LayoutMma whole, hw;
        int steps;
    } forms[] = {
        { LAYOUT_MFMA_32x32x16_R, LAYOUT_MFMA_32x32x8, 2 },
        { LAYOUT_MFMA_32x32x16_R, LAYOUT_MFMA_32x32x16, 1 },
        { LAYOUT_MFMA_32x32x32_8_R, LAYOUT_MFMA_32x32x16_8, 2 },
        { LAYOUT_MFMA_32x32x32_8_R, LAYOUT_MFMA_32x32x8_8, 4 },
        { LAYOUT_MFMA_32x32x32_8_R, LAYOUT_MFMA_32x32x32_8, 1 },
        { LAYOUT_MFMA_32x32x64_8_R, LAYOUT_MFMA_32x32x64_8, 1 },
        { LAYOUT_MFMA_32x32x8_32_R, LAYOUT_MFMA_32x32x2, 4 },
        { LAYOUT_MFMA_32x32x8_32_R, LAYOUT_MFMA_32x32x4_XF32, 2 },
        { LAYOUT_WMMA_16x16x16_R, LAYOUT_WMMA_16x16x16, 1 },
        { LAYOUT_WMMA_16x16x16_8_R, LAYOUT_WMMA_16x16x16_8, 1 },
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const LayoutMmaInfo *w = layout_mma_info(forms[f].whole), *h = layout_mma_info(forms[f].hw);
        const Layout *a = layout_mma(&arena, forms[f].whole, LAYOUT_A, 2, I(w->m, w->k), I(1, 1)),
                     *b = layout_mma(&arena, forms[f].whole, LAYOUT_B, 2, I(w->k, w->n), I(1, 1));
        const Layout *c = layout_mma(&arena, forms[f].whole, LAYOUT_C, 2, I(w->m, w->n), I(1, 1));
        const Layout *ha = layout_mma(&arena, forms[f].hw, LAYOUT_A, 2, I(h->m, h->k), I(1, 1)),
                     *hb = layout_mma(&arena, forms[f].hw, LAYOUT_B, 2, I(h->k, h->n), I(1, 1));
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
                    layout_element(b, (uint32_t)(q * per + r), t, 0, 0, x); /* goes in as A */
                    layout_element(ha, (uint32_t)r, t, 0, 0, hx);
                    if (row_n[hx[0]] < 0) row_n[hx[0]] = x[1];
                    if (depth[hx[1]] < 0) {
                        depth[hx[1]] = x[0];
                        used[x[0]]++;
                    }
                    bad += row_n[hx[0]] != x[1] || depth[hx[1]] != x[0];
                    layout_element(a, (uint32_t)(q * per + r), t, 0, 0, x); /* goes in as B */
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
    static const UnitTest tests[] = { { "groups", test_groups }, { "operands", test_operands },
        { "exchanged", test_exchanged } };
    int status = unit_run("layout of AMD's LDS", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
