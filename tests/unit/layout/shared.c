/* Shared memory: offsets against TMA's and wgmma's definitions written out here, bank conflicts by brute
 * force. */
#include "common.h"

/* PTX ISA 5.5.6 / 9.7.15.5.1.2: Swizzle<B,4,3> on the byte address: bits 4.. ^= bits 7.. . */
static uint32_t hardware_swizzle(uint32_t at, int span)
{
    uint32_t mask = (uint32_t)span / 16 - 1;
    return at ^ (at >> 7 & mask) << 4;
}

/* A TMA load of panels [rows][span bytes], one after another, against the layout. */
static void test_tma(void)
{
    static const int spans[] = { 16, 32, 64, 128 };
    for (int i = 0; i < 4; i++)
        for (int bytes = 1; bytes <= 4; bytes *= 2)
            for (int panels = 1; panels <= 3; panels++) {
                int pe = spans[i] / bytes, rows = 8 * (1 + (int)rnd(20)), bad = 0;
                const LayoutShared *s =
                    layout_shared_swizzled(&arena, 2, I(rows, pe * panels), I(1, 0), bytes, spans[i]);
                CU_ASSERT_PTR_NOT_NULL_FATAL(s);
                CU_ASSERT_EQUAL(s->panel_bytes % (8 * spans[i]), 0);
                for (int r = 0; r < rows; r++)
                    for (int c = 0; c < pe * panels; c++) {
                        uint32_t at = (uint32_t)(c / pe * s->panel_bytes) +
                                      hardware_swizzle((uint32_t)(r * spans[i] + c % pe * bytes), spans[i]);
                        bad += layout_shared_offset(s, I(r, c)) != at || at >= s->bytes;
                    }
                CU_ASSERT_EQUAL(bad, 0);
            }
    CU_ASSERT_PTR_NULL(layout_shared_swizzled(&arena, 2, I(64, 96), I(1, 0), 2, 128));
    LayoutTma t;
    CU_ASSERT(layout_tma(layout_shared_swizzled(&arena, 2, I(80, 192), I(1, 0), 2, 128), &t));
    CU_ASSERT(t.rank == 2 && t.swizzle == 3 && t.box[0] == 64 && t.box[1] == 80 && t.panels == 3 &&
              t.panel_bytes == 80 * 128);
    CU_ASSERT(layout_tma(layout_shared_rows(&arena, 3, I(2, 64, 64), I(2, 1, 0), 4, 0), &t));
    CU_ASSERT(t.rank == 3 && t.swizzle == 0 && t.box[0] == 64 && t.box[2] == 2 && t.panels == 1);
    CU_ASSERT_FALSE(layout_tma(layout_shared_rows(&arena, 2, I(64, 64), I(1, 0), 2, 16), &t));
    CU_ASSERT_FALSE(layout_tma(layout_shared_rows(&arena, 2, I(512, 64), I(1, 0), 2, 0), &t));
}

/* No two elements share a byte, all lie inside. */
static bool permutes(const LayoutShared *s)
{
    uint8_t *used = calloc(s->bytes, 1);
    bool ok = true;
    int32_t c[LAYOUT_MAX_RANK] = { 0 };
    for (;;) {
        uint32_t at = layout_shared_offset(s, c);
        for (int i = 0; i < s->elem_bytes; i++) {
            if (at + (uint32_t)i >= s->bytes || used[at + (uint32_t)i]++) ok = false;
            if (!ok) break;
        }
        int d = 0;
        while (ok && d < s->rank && ++c[d] == s->tile[d]) c[d++] = 0;
        if (!ok || d == s->rank) break;
    }
    free(used);
    return ok;
}

static void test_offsets(void)
{
    for (int i = 0; i < 300; i++) {
        int rank = 1 + (int)rnd(3), bytes = 1 << rnd(4), nxor = (int)rnd(4), base = 4 - (int)rnd(3);
        int32_t tile[3] = { 1 + (int)rnd(40), 1 + (int)rnd(40), 1 + (int)rnd(40) }, order[3] = { 0, 1, 2 };
        for (int d = rank - 1; d > 0; d--) {
            int j = (int)rnd((uint32_t)d + 1), t = order[d];
            order[d] = order[j], order[j] = t;
        }
        uint32_t masks[4];
        for (int k = 0; k < nxor; k++) masks[k] = rnd(64) << (base + nxor);
        int panel = 1 + (int)rnd(24), pitch = panel * bytes + (int)rnd(3) * bytes;
        if (nxor && 1 << base < bytes) continue;
        const LayoutShared *s = layout_shared_make(
            &arena, rank, tile, order, bytes, (LayoutRows){ panel, pitch, base, nxor, masks });
        CU_ASSERT_PTR_NOT_NULL_FATAL(s);
        CU_ASSERT(permutes(s));
        uint8_t shift[28];
        uint32_t mask[28], at = 0;
        int32_t c[3], inner, row = 0, n = layout_shared_terms(s, shift, mask), bits, low, by;
        for (int d = 0; d < rank; d++) c[d] = (int32_t)rnd((uint32_t)tile[d]);
        inner = c[order[0]];
        for (int d = rank - 1; d > 0; d--) row = row * tile[order[d]] + c[order[d]];
        uint32_t plain = (uint32_t)(inner / panel * s->panel_bytes + row * pitch + inner % panel * bytes);
        for (int k = 0; k < n; k++) at ^= plain >> shift[k] & mask[k];
        CU_ASSERT_EQUAL(layout_shared_offset(s, c), plain ^ at);
        if (layout_shared_swizzle(s, &bits, &low, &by)) CU_ASSERT(n <= 1);
        char text[300], again[300];
        const char *end, *err;
        layout_shared_print(s, text, sizeof text);
        const LayoutShared *t = layout_shared_parse(&arena, text, &end, &err);
        CU_ASSERT_PTR_NOT_NULL_FATAL(t);
        layout_shared_print(t, again, sizeof again);
        CU_ASSERT(layout_shared_equal(s, t) && !strcmp(text, again) && !*end &&
                  layout_shared_hash(s) == layout_shared_hash(t));
    }
    const uint32_t own = 1u << 4; /* a mask that reads what it writes is no permutation */
    CU_ASSERT_PTR_NULL(layout_shared_make(&arena, 1, I(64), I(0), 4, (LayoutRows){ 64, 256, 4, 1, &own }));
}

/* --- wgmma: the canonical layouts of PTX ISA 9.7.15.5.1.2.1.3, T = 16 bytes of elements -------------- */

static uint32_t canonical(bool mn_major, int span, int bytes, uint32_t lbo, uint32_t sbo, int mn, int k)
{
    int t = 16 / bytes, w = span / 16 * t;
    if (span == 16) {
        if (mn_major)
            return (uint32_t)(mn % t * bytes + k % 8 * 16) + (uint32_t)(mn / t) * sbo +
                   (uint32_t)(k / 8) * lbo;
        return (uint32_t)(mn % 8 * 16 + k % t * bytes) + (uint32_t)(mn / 8) * sbo + (uint32_t)(k / t) * lbo;
    }
    if (mn_major)
        return (uint32_t)(mn % w * bytes + k % 8 * span) + (uint32_t)(mn / w) * lbo + (uint32_t)(k / 8) * sbo;
    return (uint32_t)(mn % 8 * span + k * bytes) + (uint32_t)(mn / 8) * sbo;
}

static void check_operand(int mn, int k, int bytes, bool mn_major, int span)
{
    LayoutWgmma w;
    CU_ASSERT_FATAL(layout_wgmma_operand(&arena, mn, k, bytes, mn_major, span, &w));
    uint32_t lbo = (w.lo_or >> 16 & 0x3FFF) << 4, sbo = (w.hi & 0x3FFF)
                                                        << 4; /* as the descriptor's fields say */
    static const int span_of_mode[] = { 16, 128, 64, 32 };
    CU_ASSERT_EQUAL(span_of_mode[w.hi >> 30], w.span);
    int row = mn_major ? mn : k;
    CU_ASSERT(w.panels * w.panel_elems >= row && (w.panels - 1) * w.panel_elems < row &&
              w.shared->bytes >= (uint32_t)w.panels * (uint32_t)w.panel_bytes);
    CU_ASSERT(w.box[0] * bytes == w.span && w.box[1] == (mn_major ? k : mn));
    int bad = 0;
    for (int m0 = 0; m0 < mn; m0 += 64) {
        if (m0 % w.mn_unit) continue;
        for (int step = 0; step < w.ksteps; step++)
            for (int m = m0; m < mn && m < m0 + 256; m++)
                for (int kk = 0; kk < w.kinst && step * w.kinst + kk < k; kk++) {
                    /* Hardware: the swizzle acts on the address after start and offsets were added. */
                    uint32_t at = (uint32_t)layout_wgmma_offset(&w, m0, step) +
                                  canonical(mn_major, w.span, bytes, lbo, sbo, m - m0, kk);
                    bad += hardware_swizzle(at, w.span) !=
                           layout_shared_offset(w.shared, I(m, step * w.kinst + kk));
                }
    }
    if (bad) printf(" %dx%d bytes %d mn %d span %d: %d ", mn, k, bytes, mn_major, w.span, bad);
    CU_ASSERT_EQUAL(bad, 0);
}

/* The offset of register r, or of the matrix row that begins with it, in a thread. */
static uint32_t place(const Layout *l, const LayoutShared *s, const LayoutMatrix *m, uint32_t r, uint32_t t)
{
    int32_t c[LAYOUT_MAX_RANK];
    if (m) layout_matrix_row(l, m, r, t % 32, t / 32, c);
    else layout_element(l, r, t % 32, t / 32, 0, c);
    return layout_shared_offset(s, c);
}

/* Whether the offsets of all registers have the form T(t) ^ C(r). */
static bool splits(const Layout *l, const LayoutShared *s, const LayoutMatrix *m)
{
    for (uint32_t r = 0; r < layout_regs(l); r++)
        for (uint32_t t = 0; t < 32 * layout_warps(l); t++)
            if (place(l, s, m, r, t) != (place(l, s, m, 0, t) ^ place(l, s, m, r, 0) ^ place(l, s, m, 0, 0)))
                return false;
    return true;
}

/* What is called linear is: also with three warps along an axis, padded rows and panels. */
static void test_linear(void)
{
    int linear = 0, other = 0;
    for (int i = 0; i < 400; i++) {
        int32_t tile[2] = { 16 << rnd(4), 16 << rnd(4) }, warps = rnd(2) ? 4 : 12, bytes = 1 << rnd(3);
        tile[rnd(2)] *= rnd(3) ? 1 : 3;
        const Layout *l = random_layout(tile, warps);
        const LayoutShared *s =
            layout_shared_rows(&arena, 2, tile, rnd(2) ? I(0, 1) : I(1, 0), bytes, rnd(3) * 16);
        if (rnd(2)) s = layout_shared_swizzled(&arena, 2, tile, I(1, 0), bytes, 32 << rnd(3));
        if (!s) continue;
        if (!layout_offsets_linear(l, s)) {
            other++;
            continue;
        }
        LayoutMatrix m;
        linear++;
        CU_ASSERT(splits(l, s, NULL));
        if (layout_matrix(l, s, true, &m)) CU_ASSERT(splits(l, s, &m));
    }
    CU_ASSERT(linear > 50 && other > 50);
}

static void test_wgmma(void)
{
    for (int bytes = 1; bytes <= 4; bytes *= 2)
        for (int span = 0; span <= 128; span = span ? span * 2 : 16)
            for (int mn = 64; mn <= 192; mn += 64)
                for (int major = 0; major <= (bytes == 2); major++)
                    check_operand(mn, 256 / bytes, bytes, major, span);
    check_operand(80, 128, 2, false, 0);
    check_operand(176, 96, 2, false, 0);
    check_operand(96, 80, 2, true, 0);
    check_operand(128, 176, 2, true, 0);
    LayoutWgmma w;
    /* Rows that no wide panel divides are padded. K beyond the tile must be zero; nobody reads MN beyond it.
     */
    for (int row = 40; row <= 200; row += 8) {
        check_operand(128, row, 2, false, 0);
        check_operand(row, 64, 2, true, 0);
        CU_ASSERT(layout_wgmma_operand(&arena, 64, row, 2, false, 0, &w) && w.ksteps == (row + 15) / 16 &&
                  w.span >= 64);
        CU_ASSERT(w.panels * w.span - row * 2 < 64);
    }
    /* Values known to work on the card: 128-byte swizzle, SBO 1024; K-major steps 2 (>> 4), MN-major steps
     * 128, LBO a panel. */
    CU_ASSERT(layout_wgmma_operand(&arena, 128, 64, 2, false, 0, &w));
    CU_ASSERT(w.hi == 0x40000040u && w.lo_or == 1u << 16 && w.step >> 4 == 2 &&
              layout_wgmma_offset(&w, 64, 0) == 8192);
    CU_ASSERT(layout_wgmma_operand(&arena, 256, 64, 2, true, 0, &w));
    CU_ASSERT(w.hi == 0x40000040u && w.lo_or == (64 * 128 >> 4) << 16 && w.step >> 4 == 128 && w.panels == 4);
    /* B of a row-major [K, N] tile is MN-major, of its transpose K-major; the view has what the operand has.
     */
    const LayoutShared *b = layout_wgmma_shared(&arena, I(64, 256), 0, 1, 2, 0);
    LayoutWgmma v;
    CU_ASSERT_FATAL(b && layout_wgmma_view(b, 0, &v));
    CU_ASSERT(v.mn_major && v.lo_or == w.lo_or && v.hi == w.hi && v.box[0] == 64 && v.box[1] == 64 &&
              v.panels == 4);
    CU_ASSERT(layout_shared_offset(b, I(9, 70)) == layout_shared_offset(w.shared, I(70, 9)));
    b = layout_wgmma_shared(&arena, I(64, 256), 0, 0, 2, 0);
    CU_ASSERT(b && layout_wgmma_view(b, 0, &v) && !v.mn_major && v.panels == 1 && v.box[1] == 256);
    CU_ASSERT_FALSE(layout_wgmma_view(layout_shared_rows(&arena, 2, I(64, 64), I(1, 0), 2, 16), 1, &v));
    CU_ASSERT_FALSE(layout_wgmma_operand(&arena, 128, 64, 1, true, 0, &w));
    CU_ASSERT_FALSE(layout_wgmma_operand(&arena, 128, 24, 2, true, 0, &w));
    CU_ASSERT_FALSE(layout_wgmma_operand(&arena, 128, 24, 2, false, 16, &w));
    CU_ASSERT_FALSE(layout_wgmma_operand(&arena, 100, 64, 2, false, 0, &w));
}

/* --- banks ------------------------------------------------------------------------------------------- */

/* Conflicts counted again: for each access and phase, the fullest bank against one. */
static uint32_t brute_conflicts(const Layout *l, const LayoutShared *s, uint32_t max_bytes)
{
    LayoutVector v;
    uint32_t extra = 0;
    layout_shared_vector(l, s, max_bytes, &v);
    uint32_t width = v.n * s->elem_bytes, phases = width == 16 ? 4 : width == 8 ? 2 : 1;
    for (uint32_t w = 0; w < layout_warps(l); w++)
        for (uint32_t r = 0; r < layout_regs(l); r++) {
            if (!layout_vector_base(&v, r)) continue;
            for (uint32_t p = 0; p < phases; p++) {
                uint8_t *word = calloc(s->bytes / 4 + 2, 1);
                uint32_t bank[32] = { 0 }, worst = 0;
                for (uint32_t t = 32 / phases * p; t < 32 / phases * (p + 1); t++) {
                    int32_t c[LAYOUT_MAX_RANK];
                    layout_element(l, r, t, w, 0, c);
                    if (!layout_in_tile(l, c)) continue;
                    for (uint32_t k = 0; k < (width + 3) / 4; k++) {
                        uint32_t at = layout_shared_offset(s, c) / 4 + k;
                        if (!word[at]) bank[at % 32]++;
                        word[at] = 1;
                    }
                }
                for (int b = 0; b < 32; b++) worst = bank[b] > worst ? bank[b] : worst;
                extra += worst > 1 ? worst - 1 : 0;
                free(word);
            }
        }
    return extra;
}

static void choose(int rows, int cols, int bytes, const int32_t *order, const Layout *writer, uint32_t wbytes,
    const Layout *reader, uint32_t rbytes, uint32_t at_most)
{
    LayoutAccess w = { writer, wbytes, false }, r = { reader, rbytes, false };
    uint32_t conflicts;
    CU_ASSERT_FATAL(writer && reader);
    const LayoutShared *s =
        layout_shared_choose(&arena, 2, I(rows, cols), order, bytes, &w, &r, 16, &conflicts);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT(permutes(s));
    uint32_t brute = brute_conflicts(writer, s, wbytes) + brute_conflicts(reader, s, rbytes);
    char text[200];
    layout_shared_print(s, text, sizeof text);
    if (conflicts > at_most || brute != conflicts)
        printf("\n  %s: %u conflicts, %u by brute force\n", text, conflicts, brute);
    CU_ASSERT(conflicts <= at_most);
    CU_ASSERT_EQUAL(brute, conflicts);
}

static const Layout *rows_of(int rows, int cols, int bytes, int warps)
{ return layout_coalesced(&arena, 2, I(rows, cols), I(1, 0), bytes, 16, 32, warps); }
static const Layout *columns_of(int rows, int cols, int bytes, int warps)
{ return layout_coalesced(&arena, 2, I(rows, cols), I(0, 1), bytes, 16, 32, warps); }

static void test_choose(void)
{
    /* Transposes through shared memory: written along rows, read along columns. */
    for (int n = 32; n <= 128; n *= 2) {
        choose(n, n, 4, I(1, 0), rows_of(n, n, 4, 4), 4, columns_of(n, n, 4, 4), 4, 0);
        /* 16-byte rows keep 4 words together: a column read of 4 rows a lane finds 8 slots x the columns of a
         * phase, no better exists. */
        choose(n, n, 4, I(1, 0), rows_of(n, n, 4, 4), 16, columns_of(n, n, 4, 4), 16,
            n == 32   ? 0
            : n == 64 ? 128
                      : 1536);
        choose(n, n, 8, I(1, 0), rows_of(n, n, 8, 4), 8, columns_of(n, n, 8, 4), 8, 0);
    }
    /* 16-byte rows written by a coalesced copy, mma fragments read in words. */
    static const int cols[] = { 16, 32, 64, 128, 96, 80, 176, 48 };
    for (int i = 0; i < 8; i++) {
        const Layout *a = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_A, 2, I(64, cols[i]), I(4, 1));
        const Layout *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, cols[i]), I(4, 1));
        choose(64, cols[i], 2, I(1, 0), rows_of(64, cols[i], 2, 4), 16, a, 16, 0);
        choose(64, cols[i], 2, I(1, 0), c, 16, rows_of(64, cols[i], 2, 4), 16, 0);
    }
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "tma", test_tma }, { "offsets", test_offsets },
        { "linear", test_linear }, { "wgmma", test_wgmma }, { "choose", test_choose } };
    int status = unit_run("layout shared memory", tests, sizeof tests / sizeof *tests, argc, argv);
    arena_free(&arena);
    return status;
}
