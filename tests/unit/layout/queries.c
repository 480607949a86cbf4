/* Queries and constructors against what enumeration of all (register, lane, warp) says. */
#include "common.h"

static void test_coverage(void)
{
    for (int i = 0; i < 300; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        uint32_t copies;
        CU_ASSERT(covers(l, &copies));
        uint32_t free_copies = 1;
        for (int in = 0; in < LAYOUT_INPUTS; in++) free_copies <<= __builtin_popcount(l->free[in]);
        for (int d = 0; d < l->ndigit; d++)
            free_copies *= l->digit[d].stride ? 1 : (uint32_t)l->digit[d].size;
        CU_ASSERT_EQUAL(copies, free_copies);
        CU_ASSERT(l->cover[0] >= tile[0] && l->cover[1] >= tile[1]);
    }
}

/* The coordinates of all lanes at once, of a register and a warp, against those of each. */
static int wrong_lanes(const Layout *l, uint32_t reg, uint32_t warp)
{
    int32_t all[LAYOUT_MAX_LANES][LAYOUT_MAX_RANK], c[LAYOUT_MAX_RANK];
    int bad = 0;
    layout_lane_elements(l, reg, warp, all);
    for (uint32_t t = 0; t < layout_lanes(l); t++) {
        layout_element(l, reg, t, warp, 0, c);
        bad += memcmp(all[t], c, l->rank * sizeof *c) != 0;
    }
    return bad;
}

/* The owner of an element and the register in which a thread has it, of each place. unique[element]: how many
 * places hold it whose thread and register count as the ones that store. */
static int wrong_owners(const Layout *l, uint8_t *unique)
{
    int bad = 0;
    for (Place p = { 0 }; p.warp < layout_warps(l); place_next(l, &p)) {
        int32_t c[2], again[2];
        LayoutOwner o;
        element_at(l, p, c);
        bad += !layout_owner(l, c, &o);
        layout_element(l, o.in[0], o.in[1], o.in[2], o.in[3], again);
        bad += memcmp(c, again, sizeof c) != 0 || !layout_is_unique(l, o.in[1], o.in[2], 0);
        int found = layout_find_reg(l, c, p.lane, p.warp, 0);
        bad += found < 0 || found > (int)p.reg;
        if (found >= 0) layout_element(l, (uint32_t)found, p.lane, p.warp, 0, again);
        bad += memcmp(c, again, sizeof c) != 0;
        if (layout_is_unique(l, p.lane, p.warp, 0) && !(p.reg & l->free[LAYOUT_REG]))
            unique[c[0] * l->cover[1] + c[1]]++;
    }
    return bad;
}

/* No register of a thread that lacks a coordinate is found. */
static int wrong_finds(const Layout *l)
{
    int bad = 0;
    for (int k = 0; k < 50; k++) {
        int32_t c[2] = { (int32_t)rnd((uint32_t)l->cover[0]), (int32_t)rnd((uint32_t)l->cover[1]) };
        uint32_t t = rnd(layout_lanes(l)), w = rnd(layout_warps(l));
        bool held = false;
        for (uint32_t r = 0; r < layout_regs(l); r++) {
            int32_t e[2];
            layout_element(l, r, t, w, 0, e);
            held |= !memcmp(e, c, sizeof c);
        }
        bad += held != (layout_find_reg(l, c, t, w, 0) >= 0);
    }
    return bad;
}

/* Owners, copies and registers found: each against layout_element. */
static void test_inverse(void)
{
    for (int i = 0; i < 150; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        if (rnd(3) == 0) l = layout_slice(&arena, l, (int)rnd(2), true);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        uint8_t *unique = calloc((size_t)l->cover[0] * (size_t)l->cover[1], 1);
        int bad = wrong_owners(l, unique);
        for (uint32_t w = 0; w < layout_warps(l); w++)
            for (uint32_t r = 0; r < layout_regs(l); r++) bad += wrong_lanes(l, r, w);
        /* The threads that are unique hold each element exactly once. */
        for (int32_t k = 0; k < l->cover[0] * l->cover[1]; k++) bad += unique[k] != 1;
        free(unique);
        bad += wrong_finds(l);
        CU_ASSERT_EQUAL(bad, 0);
        CU_ASSERT_FALSE(layout_owner(l, I(l->cover[0], 0), &(LayoutOwner){ { 0 } }));
    }
}

/* Whether the terms give the coordinate on axis d of what the thread's registers hold. */
static int wrong_terms(const Layout *l, int d, const LayoutTerm *terms, int n, uint32_t t, uint32_t w)
{
    uint32_t x = 0;
    int32_t c[2];
    for (int k = 0; k < n; k++) x ^= terms[k].xor_ ? term_value(&terms[k], t, w) : 0;
    for (int k = 0; k < n; k++) x += terms[k].xor_ ? 0 : term_value(&terms[k], t, w);
    layout_element(l, 0, t, w, 0, c);
    int bad = c[d] != (int32_t)x;
    for (uint32_t r = 0; l->separable && r < layout_regs(l); r += 3) {
        int32_t both[2], reg[2];
        layout_element(l, r, t, w, 0, both);
        layout_element(l, r, 0, 0, 0, reg);
        bad += both[d] != reg[d] + (int32_t)x;
    }
    return bad;
}

static void test_terms(void)
{
    for (int i = 0; i < 150; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        if (rnd(3) == 0) l = layout_slice(&arena, l, (int)rnd(2), true);
        LayoutTerm terms[2][LAYOUT_MAX_TERMS], once[LAYOUT_MAX_TERMS];
        int bad = 0, n[2], n_once = layout_unique_terms(l, once);
        for (int d = 0; d < 2; d++) n[d] = layout_thread_terms(l, d, terms[d]);
        for (Place p = { 0 }; p.warp < layout_warps(l); place_next(l, &p)) {
            bool stores = true;
            if (p.reg) continue;
            for (int d = 0; d < 2; d++) bad += wrong_terms(l, d, terms[d], n[d], p.lane, p.warp);
            for (int k = 0; k < n_once; k++) stores &= term_value(&once[k], p.lane, p.warp) == 0;
            bad += stores != layout_is_unique(l, p.lane, p.warp, 0);
        }
        CU_ASSERT_EQUAL(bad, 0);
    }
}

static void test_vectors(void)
{
    for (int i = 0; i < 200; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, 4);
        for (int axis = 0; axis < 2; axis++) {
            LayoutVector v;
            uint32_t bytes = 1u << rnd(4), align = 1u << rnd(6);
            layout_vector(l, axis, bytes, align, 16, &v);
            int bad = v.bytes != v.n * bytes || (v.n > 1 && (v.bytes > 16 || v.bytes > align)) ||
                      v.n > layout_contiguity(l, axis) || tile[axis] % (int)v.n;
            uint8_t *used = calloc(layout_regs(l), 1);
            for (uint32_t r = 0; r < layout_regs(l); r++) {
                if (!layout_vector_base(&v, r)) continue;
                for (uint32_t k = 0; k < v.n; k++) {
                    used[r ^ v.reg[k]]++;
                    for (uint32_t t = 0; t < layout_lanes(l); t += 5)
                        for (uint32_t w = 0; w < layout_warps(l); w++) {
                            int32_t first[2], c[2];
                            layout_element(l, r, t, w, 0, first);
                            layout_element(l, r ^ v.reg[k], t, w, 0, c);
                            bad += first[axis] % (int)v.n || c[axis] != first[axis] + (int)k ||
                                   c[1 - axis] != first[1 - axis];
                        }
                }
            }
            for (uint32_t r = 0; r < layout_regs(l); r++) bad += used[r] != 1;
            free(used);
            CU_ASSERT_EQUAL(bad, 0);
        }
    }
    LayoutVector v;
    const Layout *l = layout_coalesced(&arena, 2, I(64, 80), I(1, 0), 2, 16, 32, 4);
    layout_vector(l, 1, 2, 16, 16, &v);
    CU_ASSERT(v.n == 8 && v.bytes == 16 && layout_regs(l) == 40); /* 80 wastes nothing */
    layout_vector(l, 1, 2, 4, 16, &v);
    CU_ASSERT(v.n == 2);
}

/* Element by element: what a derived layout says of a thread's register is what the operation does to the
 * coordinate. */
static void test_derived(void)
{
    for (int i = 0; i < 200; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        const Layout *p = layout_permute(&arena, l, I(1, 0)), *e = layout_expand(&arena, l, 1);
        const Layout *s = layout_slice(&arena, l, 1, true), *d = layout_slice(&arena, l, 1, false);
        const Layout *b = layout_broadcast(&arena, s, 1, 40);
        const Layout *n =
            l->cover[0] == tile[0] && layout_regs(l) <= 512 ? layout_concat(&arena, l, 0, 3) : NULL;
        const Layout *wide = layout_regs(l) <= 512 ? layout_widen(&arena, l, 1, 2) : NULL;
        CU_ASSERT_FATAL(p && e && s && d);
        CU_ASSERT(wide || layout_regs(l) > 512);
        CU_ASSERT_EQUAL(b != NULL, layout_regs(s) * 40 <= LAYOUT_MAX_REGS);
        CU_ASSERT(n || l->cover[0] != tile[0] || layout_regs(l) > 512);
        int bad = 0;
        for (Place at = { 0 }; at.warp < layout_warps(l); place_next(l, &at)) {
            int32_t c[2], x[3];
            uint32_t t = at.lane, w = at.warp;
            element_at(l, at, c);
            element_at(p, at, x);
            bad += x[0] != c[1] || x[1] != c[0];
            element_at(e, at, x);
            bad += x[0] != c[0] || x[1] != 0 || x[2] != c[1];
            for (uint32_t k = 0; wide && k < 4; k++) {
                layout_element(wide, 4 * at.reg + k, t, w, 0, x);
                bad += x[0] != c[0] || x[1] != 4 * c[1] + (int32_t)k;
            }
            /* Every thread that holds an element holds the statistic of its row. */
            bad += layout_find_reg(s, I(c[0], 0), t, w, 0) < 0;
            bad += layout_find_reg(d, I(c[0]), t, w, 0) < 0;
            bad += b && layout_find_reg(b, I(c[0], 39), t, w, 0) < 0;
            for (uint32_t k = 0; n && k < 3; k++) {
                layout_element(n, at.reg + layout_regs(l) * k, t, w, 0, x);
                bad += x[0] != c[0] + tile[0] * (int)k || x[1] != c[1];
            }
        }
        CU_ASSERT_EQUAL(bad, 0);
        CU_ASSERT_EQUAL(s->free[LAYOUT_REG], 0);
        CU_ASSERT(layout_regs(s) <= layout_regs(l) && (!b || layout_regs(b) == 40 * layout_regs(s)));
        CU_ASSERT(layout_equal(layout_permute(&arena, p, I(1, 0)), l));
        CU_ASSERT_PTR_NULL(layout_permute(&arena, l, I(0, 0)));
    }
}

static void test_reshape(void)
{
    static const int32_t shapes[][3] = { { 96, 80, 1 }, { 48, 160, 1 }, { 3, 32, 80 }, { 96, 10, 8 },
        { 7680, 1, 1 }, { 32, 240, 1 }, { 6, 16, 80 } };
    int done = 0;
    for (int i = 0; i < 300; i++) {
        const Layout *l = random_layout(I(96, 80), 4);
        const int32_t *to = shapes[rnd(7)];
        const Layout *q = layout_reshape(&arena, l, 3, to);
        if (!q) continue;
        done++;
        int bad = 0;
        for (Place p = { 0 }; p.warp < layout_warps(l); place_next(l, &p)) {
            int32_t c[2], x[3];
            element_at(l, p, c);
            element_at(q, p, x);
            bad += (x[0] * to[1] + x[1]) * to[2] + x[2] != c[0] * 80 + c[1];
        }
        CU_ASSERT_EQUAL(bad, 0);
    }
    CU_ASSERT(done > 20);
    /* Powers of two always reshape. */
    for (int i = 0; i < 100; i++) {
        const Layout *l = random_layout(I(64, 128), 4);
        if (memcmp(l->cover, l->tile, sizeof l->tile)) continue;
        const Layout *q = layout_reshape(&arena, l, 3, I(4, 16, 128)), *back;
        CU_ASSERT_PTR_NOT_NULL_FATAL(q);
        back = layout_reshape(&arena, q, 2, I(64, 128));
        CU_ASSERT(back && layout_equal(l, back));
    }
}

static void test_algebra(void)
{
    for (int i = 0; i < 200; i++) {
        F2Map m = { .nin = 3 + (int)rnd(10), .nout = 1 + (int)rnd(8) }, right;
        for (int k = 0; k < m.nin; k++) m.col[k] = rnd(1u << m.nout);
        uint64_t kernel[64], x;
        int rank = f2_rank(&m), nk = f2_kernel(&m, kernel);
        CU_ASSERT_EQUAL(rank + nk, m.nin);
        for (int k = 0; k < nk; k++) CU_ASSERT_EQUAL(f2_apply(&m, kernel[k]), 0);
        CU_ASSERT_EQUAL(f2_invert(&m, &right), rank == m.nout);
        if (rank == m.nout) {
            F2Map one = f2_compose(&m, &right);
            for (int k = 0; k < m.nout; k++) CU_ASSERT_EQUAL(one.col[k], 1ull << k);
        }
        uint64_t y = f2_apply(&m, rnd(1u << m.nin));
        CU_ASSERT(f2_solve(&m, y, &x) && f2_apply(&m, x) == y);
        F2Map both = f2_product(&m, &m);
        CU_ASSERT_EQUAL(f2_apply(&both, 1ull << m.nin | 1), m.col[0] | m.col[0] << m.nout);
    }
    /* A tile of fragments is the product of the fragment and a layout of fragments. Dividing gives that
     * layout back. */
    const Layout *frag = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(16, 8), I(1, 1));
    const Layout *grid = layout_blocked(&arena, 2, I(8, 12), I(1, 1), I(1, 1), I(4, 1), I(1, 0));
    const Layout *tile = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(128, 96), I(4, 1));
    const Layout *made = layout_product(&arena, frag, grid), *q = layout_divide(&arena, tile, frag);
    CU_ASSERT_FATAL(made && q);
    CU_ASSERT(layout_equal(layout_product(&arena, frag, q), tile));
    CU_ASSERT(layout_equal(layout_divide(&arena, made, frag), grid));
    CU_ASSERT_PTR_NULL(layout_divide(&arena, grid, frag));
    /* Equal up to replication: the same statistics, one lane holding them or four. */
    const Layout *s = layout_slice(&arena, frag, 1, true);
    const Layout *t = layout_from_basis(&arena, 2, I(16, 1), (const int[]){ 1, 5, 1, 0 },
        (const int32_t *const[]){ I(8, 0), I(0, 0, 0, 0, 1, 0, 2, 0, 4, 0), I(0, 0), NULL }, 0, NULL);
    CU_ASSERT_FATAL(s && t);
    CU_ASSERT_FALSE(layout_equal(s, t));
    CU_ASSERT(layout_equivalent(s, t));
    CU_ASSERT_FALSE(layout_equivalent(
        s, layout_slice(
               &arena, layout_mma(&arena, LAYOUT_M16N8K8_TF32, LAYOUT_B, 2, I(16, 8), I(1, 1)), 1, true)));
}

/* One map, many spellings: the canonical form is the same. */
static void test_canonical(void)
{
    const LayoutDigit split[] = { { LAYOUT_REG, 1, 2, 8 }, { LAYOUT_REG, 1, 5, 16 },
        { LAYOUT_REG, 0, 3, 64 } };
    const LayoutDigit joined[] = { { LAYOUT_REG, 1, 10, 8 }, { LAYOUT_REG, 0, 3, 64 } };
    const int nbit[] = { 2, 5, 2, 0 };
    const int32_t *const basis[] = { I(0, 1, 8, 0), I(0, 2, 0, 4, 1, 0, 2, 0, 4, 0), I(16, 0, 32, 0), NULL };
    const Layout *a = layout_from_basis(&arena, 2, I(192, 80), nbit, basis, 3, split);
    const Layout *b = layout_from_basis(&arena, 2, I(192, 80), nbit, basis, 2, joined);
    const Layout *c = layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_C, 2, I(192, 80), I(1, 1));
    CU_ASSERT_FATAL(a && b && c);
    CU_ASSERT(layout_equal(a, b) && layout_equal(a, c) && layout_hash(a) == layout_hash(c));
    CU_ASSERT_FALSE(layout_equal(a, layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_C, 2, I(192, 80), I(3, 1))));
    /* Refused: holes, overlaps, tiles not covered, registers beyond the limit, lanes that count by threes. */
    const LayoutDigit hole = { LAYOUT_REG, 1, 5, 16 }, over = { LAYOUT_REG, 1, 5, 4 },
                      lanes = { LAYOUT_LANE, 1, 5, 8 }, big = { LAYOUT_REG, 1, 5000, 8 };
    CU_ASSERT_PTR_NULL(layout_from_basis(&arena, 2, I(64, 40), nbit, basis, 1, &hole));
    CU_ASSERT_PTR_NULL(layout_from_basis(&arena, 2, I(64, 8), nbit, basis, 1, &over));
    CU_ASSERT_PTR_NULL(layout_from_basis(&arena, 2, I(64, 40), nbit, basis, 1, &lanes));
    CU_ASSERT_PTR_NULL(layout_from_basis(&arena, 2, I(64, 8), nbit, basis, 1, &big));
    CU_ASSERT_PTR_NULL(layout_from_basis(&arena, 2, I(64, 16), nbit, basis, 0, NULL));
    CU_ASSERT_PTR_NULL(layout_blocked(&arena, 2, I(8, 8), I(3, 1), I(8, 4), I(1, 1), I(1, 0)));
}

static void test_coalesced(void)
{
    for (int i = 0; i < 200; i++) {
        int32_t tile[2];
        random_tile(tile);
        int bytes = 1 << rnd(4), lanes = rnd(2) ? 32 : 64, warps = 1 << rnd(4);
        const Layout *l = layout_coalesced(&arena, 2, tile, I(1, 0), bytes, 16, lanes, warps);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        uint32_t copies;
        CU_ASSERT(covers(l, &copies));
        CU_ASSERT(layout_lanes(l) == (uint32_t)lanes && layout_warps(l) == (uint32_t)warps);
        /* upper warps on other CTAs: the same elements */
        int blocks = 1 << rnd(4), bad = 0;
        const Layout *s = layout_split_blocks(&arena, l, blocks);
        CU_ASSERT_EQUAL(s != NULL, warps % blocks == 0);
        if (!s) continue;
        uint32_t each = (uint32_t)(warps / blocks);
        CU_ASSERT(layout_blocks(s) == (uint32_t)blocks && layout_warps(s) == each);
        for (uint32_t w = 0; w < (uint32_t)warps; w++)
            for (uint32_t r = 0; r < layout_regs(l); r++) {
                int32_t c[2], d[2];
                layout_element(l, r, w * 7 % (uint32_t)lanes, w, 0, c);
                layout_element(s, r, w * 7 % (uint32_t)lanes, w % each, w / each, d);
                bad += c[0] != d[0] || c[1] != d[1];
            }
        CU_ASSERT_EQUAL(bad, 0);
    }
    /* Five warps on each of four CTAs: the lowest bits of the warps are the CTAs. */
    uint32_t held;
    const Layout *odd = layout_coalesced(&arena, 1, I(25600), I(0), 2, 16, 32, 20);
    odd = layout_split_blocks(&arena, odd, 4);
    CU_ASSERT_PTR_NOT_NULL_FATAL(odd);
    CU_ASSERT(layout_blocks(odd) == 4 && layout_warps(odd) == 5 && layout_regs(odd) == 40);
    CU_ASSERT(covers(odd, &held) && held == 1);
    /* A full row of 256 bytes a half-warp; one-dimensional tiles; no copies where there is work for all. */
    const Layout *l = layout_coalesced(&arena, 2, I(128, 128), I(1, 0), 2, 16, 32, 4);
    CU_ASSERT(layout_contiguity(l, 1) == 8 && layout_regs(l) == 128 && !l->free[LAYOUT_LANE] &&
              !l->free[LAYOUT_WARP]);
    /* Neighbours along the slow axis in the registers of a lane, where it has several elements along it. */
    int32_t c[LAYOUT_MAX_RANK];
    l = layout_coalesced_near(&arena, 2, I(16, 64), I(1, 0), 4, 16, 32, 2, 0);
    layout_element(l, 4, 0, 0, 0, c);
    CU_ASSERT(c[0] == 1 && c[1] == 0);
    layout_element(l, 0, 16, 0, 0, c);
    CU_ASSERT(c[0] == 4 && c[1] == 0 && covers(l, &held) && held == 1);
    l = layout_coalesced(&arena, 1, I(1024), I(0), 4, 16, 32, 4);
    CU_ASSERT(layout_contiguity(l, 0) == 4 && layout_regs(l) == 8);
    l = layout_coalesced(&arena, 1, I(128), I(0), 4, 16, 32, 4);
    CU_ASSERT(layout_regs(l) == 1 && !l->free[LAYOUT_LANE] && !l->free[LAYOUT_WARP]);
}

/* Parts along an axis: each thread has of every part what it has of the first, in registers of its own. */
static void test_parts(void)
{
    int found = 0, refused = 0;
    for (int i = 0; i < 400; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        int axis = (int)rnd(2), bad = 0;
        int32_t extent = 8 << rnd(4);
        const Layout *part = layout_part(&arena, l, axis, extent);
        if (!part) {
            refused++;
            continue;
        }
        found++;
        CU_ASSERT_EQUAL(part->tile[axis], extent);
        CU_ASSERT_EQUAL(part->tile[1 - axis], tile[1 - axis]);
        for (int32_t start = 0; start < tile[axis]; start += extent)
            for (Place p = { 0 }; p.warp < layout_warps(part); place_next(part, &p)) {
                int32_t c[2];
                element_at(part, p, c);
                bad += c[axis] >= extent;
                c[axis] += start;
                bad += layout_find_reg(l, c, p.lane, p.warp, 0) < 0;
            }
        uint32_t parts = (uint32_t)(tile[axis] / extent);
        CU_ASSERT_EQUAL(bad, 0);
        CU_ASSERT_EQUAL(layout_regs(part) * parts, layout_regs(l));
    }
    CU_ASSERT(found > 20 && refused > 20);
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "coverage", test_coverage }, { "inverse", test_inverse },
        { "terms", test_terms }, { "vectors", test_vectors }, { "derived", test_derived },
        { "reshape", test_reshape }, { "algebra", test_algebra }, { "canonical", test_canonical },
        { "coalesced", test_coalesced }, { "parts", test_parts } };
    int status = unit_run("layout queries", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
