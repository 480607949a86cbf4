/* Matrices of shared memory: ldmatrix executed as PTX ISA 9.7.14.5.15 defines it. */
#include "common.h"

static void run_matrix(const Layout *l, const LayoutShared *s, const LayoutMatrix *m)
{
    int bad = 0, es = s->elem_bytes, axis = s->order[0];
    CU_ASSERT(m->count == 1 || m->count == 2 || m->count == 4);
    uint8_t *filled = calloc(layout_regs(l), 1);
    for (uint32_t w = 0; w < layout_warps(l); w++)
        for (uint32_t base = 0; base < layout_regs(l); base++) {
            if (!layout_matrix_base(m, base)) continue;
            for (uint32_t t = 0; t < 32; t++)
                for (uint32_t j = 0; j < m->count; j++)
                    for (int e = 0; e < 4 / es; e++) {
                        /* The address from which the hardware takes the element: row `row` of matrix j,
                         * element `at` of its 16 bytes. */
                        uint32_t row = m->trans ? 2 * (t % 4) + (uint32_t)(e * es / 2) : t / 4;
                        int at =
                            m->trans ? (int)(t / 4) * (2 / es) + e % (2 / es) : (int)(t % 4) * (4 / es) + e;
                        int32_t from[LAYOUT_MAX_RANK], want[LAYOUT_MAX_RANK];
                        uint32_t reg = base ^ m->word[j] ^ m->elem[e];
                        layout_matrix_row(l, m, base, 8 * j + row, w, from);
                        if (w == 0 && t == 0) filled[reg]++;
                        layout_element(l, reg, t, w, 0, want);
                        if (!layout_in_tile(l, want)) continue;
                        uint32_t start = layout_shared_offset(s, from);
                        bad +=
                            start % 16 != 0 || layout_shared_offset(s, want) != start + (uint32_t)(at * es);
                        from[axis] += at;
                        bad += memcmp(from, want, l->rank * sizeof *want) != 0;
                    }
        }
    for (uint32_t r = 0; r < layout_regs(l); r++) bad += filled[r] != 1;
    free(filled);
    CU_ASSERT_EQUAL(bad, 0);
}

static void test_ldmatrix(void)
{
    static const int32_t tiles[][2] = { { 64, 64 }, { 128, 32 }, { 96, 80 }, { 176, 48 }, { 16, 16 },
        { 64, 8 }, { 32, 176 } };
    LayoutMatrix m;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const int32_t *t = tiles[i], swapped[2] = { t[1], t[0] };
        for (int role = 0; role < 3; role++) {
            const Layout *l = layout_mma(&arena, LAYOUT_M16N8K16, (LayoutRole)role, 2, t, I(2, 2));
            for (int fast = 0; fast < 2; fast++) {
                const int32_t order[2] = { fast, 1 - fast };
                const LayoutShared *s =
                    layout_shared_rows(&arena, 2, t, order, 2, t[fast] * 2 % 128 ? 0 : 16);
                /* A and C have their pairs along the columns, B along the rows. The other way round needs
                 * .trans. */
                bool trans = (role == LAYOUT_B) != (fast == 0),
                     fits = t[fast] % 8 == 0 && (t[fast] * 2) % 16 == 0;
                CU_ASSERT_EQUAL(layout_matrix(l, s, true, &m), fits);
                if (!fits) continue;
                CU_ASSERT_EQUAL(m.trans, trans);
                run_matrix(l, s, &m);
                CU_ASSERT_EQUAL(layout_matrix(l, s, false, &m), !trans);
            }
            const Layout *p = layout_permute(
                &arena, layout_mma(&arena, LAYOUT_M16N8K16, (LayoutRole)role, 2, swapped, I(2, 2)), I(1, 0));
            const LayoutShared *s = layout_shared_rows(&arena, 2, t, I(1, 0), 2, 0);
            CU_ASSERT(layout_matrix(p, s, true, &m));
            CU_ASSERT_EQUAL(m.trans, role != LAYOUT_B);
            run_matrix(p, s, &m);
        }
    }
    /* Bytes and words along the columns: plain only. */
    const Layout *a8 = layout_mma(&arena, LAYOUT_M16N8K32, LAYOUT_A, 2, I(64, 96), I(4, 1));
    const LayoutShared *s8 = layout_shared_swizzled(&arena, 2, I(64, 96), I(1, 0), 1, 32);
    CU_ASSERT(layout_matrix(a8, s8, true, &m) && m.count == 4 && !m.trans);
    run_matrix(a8, s8, &m);
    CU_ASSERT_FALSE(layout_matrix(a8, layout_shared_rows(&arena, 2, I(64, 96), I(0, 1), 1, 0), true, &m));
    /* Bytes that lie along the rows, two of which a lane has side by side; alone they are no elements of 16
     * bits. */
    for (int rows = 64; rows <= 256; rows += 64) {
        const LayoutShared *rows8 =
            layout_shared_swizzled(&arena, 2, I(rows, 32), I(0, 1), 1, rows % 128 ? 64 : 128);
        CU_ASSERT_FALSE(layout_matrix(
            layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_A, 2, I(rows, 32), I(1, 1)), rows8, true, &m));
        const Layout *pairs = layout_mma(&arena, LAYOUT_WGMMA_K16_PAIRS, LAYOUT_A, 2, I(rows, 32), I(1, 1));
        CU_ASSERT(layout_matrix(pairs, rows8, true, &m) && m.count == 4 && m.trans);
        run_matrix(pairs, rows8, &m);
        CU_ASSERT_FALSE(layout_matrix(pairs, rows8, false, &m));
    }
    const Layout *a32 = layout_mma(&arena, LAYOUT_M16N8K8_TF32, LAYOUT_A, 2, I(64, 32), I(4, 1));
    const LayoutShared *s32 = layout_shared_swizzled(&arena, 2, I(64, 32), I(1, 0), 4, 128);
    CU_ASSERT(layout_matrix(a32, s32, true, &m) && m.count == 4 && !m.trans);
    run_matrix(a32, s32, &m);
    /* A coalesced copy and ldmatrix, plain and .trans, agree on a swizzle without conflicts. */
    for (int cols = 32; cols <= 256; cols *= 2)
        for (int role = 0; role < 2; role++) {
            const Layout *reader =
                layout_mma(&arena, LAYOUT_M16N8K16, (LayoutRole)role, 2, I(64, cols), I(2, 2));
            LayoutAccess w = { layout_coalesced(&arena, 2, I(64, cols), I(1, 0), 2, 16, 32, 4), 16, false },
                         r = { reader, 16, true };
            uint32_t conflicts;
            const LayoutShared *s =
                layout_shared_choose(&arena, 2, I(64, cols), I(1, 0), 2, &w, &r, 16, &conflicts);
            CU_ASSERT_EQUAL(conflicts, 0);
            CU_ASSERT(layout_matrix(reader, s, true, &m) && m.trans == (role == LAYOUT_B));
            run_matrix(reader, s, &m);
            uint32_t addr[32], extra = 0;
            for (uint32_t base = 0; base < layout_regs(reader); base++) {
                if (!layout_matrix_base(&m, base)) continue;
                for (uint32_t t = 0; t < 32; t++) {
                    int32_t c[2];
                    layout_matrix_row(reader, &m, base, t, 3, c);
                    addr[t] = layout_shared_offset(s, c);
                }
                extra += layout_wavefronts(addr, 32, 16) - 4;
            }
            CU_ASSERT_EQUAL(extra, 0);
        }
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "ldmatrix", test_ldmatrix } };
    int status = unit_run("layout ldmatrix", tests, sizeof tests / sizeof *tests, argc, argv);
    arena_free(&arena);
    return status;
}
