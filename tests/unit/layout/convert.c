/* Conversion plans executed on a simulated register file: every destination register of every thread must
 * receive its element. */
#include "common.h"
#include "ir/layout/layout_memo.h"

/* Elements are numbered by their coordinate; -1 is padding or poison. */
typedef struct {
    int32_t *v;
    const Layout *l;
} File;

static int32_t *cell(const File *f, Place p)
{ return &f->v[((size_t)p.warp * layout_lanes(f->l) + p.lane) * layout_regs(f->l) + p.reg]; }

static int32_t name_of(const Layout *l, const int32_t *c)
{
    int32_t x = 0;
    for (int d = 0; d < l->rank; d++) x = x * l->tile[d] + c[d];
    return x;
}

static File file_new(const Layout *l, bool filled)
{
    File f = { malloc(sizeof(int32_t) * layout_regs(l) * layout_lanes(l) * layout_warps(l)), l };
    for (Place p = { 0 }; p.warp < layout_warps(l); place_next(l, &p)) {
        int32_t c[LAYOUT_MAX_RANK];
        element_at(l, p, c);
        *cell(&f, p) = filled && layout_in_tile(l, c) ? name_of(l, c) : -1;
    }
    return f;
}

static int run_shuffles(const LayoutConvert *p, const File *src, File *dst)
{
    int errors = 0;
    uint32_t nlanes = layout_lanes(p->dst);
    for (uint32_t w = 0; w < layout_warps(p->dst); w++)
        for (uint32_t k = 0; k < p->nround; k++) {
            const LayoutRound *r = &p->round[k], *lead = &p->round[k / p->pack * p->pack];
            for (uint32_t t = 0; t < nlanes; t++) {
                if (!r->shuffle && r->src[t] != t && r->recv[t] >= 0) errors++;
                if (r->xor_ >= 0 && r->src[t] != (t ^ (uint32_t)r->xor_)) errors++;
                if (memcmp(r->src, lead->src, nlanes)) errors++;
                if (r->send[t] != LAYOUT_NOREG && r->send[t & r->send_mask] != LAYOUT_NOREG &&
                    r->send[t] != r->send[t & r->send_mask])
                    errors++;
                if (r->recv[t] == LAYOUT_NOREG) continue;
                if (r->send[r->src[t]] == LAYOUT_NOREG) errors++;
                else
                    *cell(dst, (Place){ (uint32_t)r->recv[t], t, w }) =
                        *cell(src, (Place){ (uint32_t)r->send[r->src[t]], r->src[t], w });
            }
        }
    return errors;
}

/* One thread's vector from its registers to shared memory, or from there (`load`). */
static int move_vector(const LayoutConvert *p, const File *f, Place at, bool load, int32_t *mem)
{
    const LayoutVector *v = load ? &p->load : &p->store;
    int32_t c[LAYOUT_MAX_RANK];
    if (!layout_vector_base(v, at.reg)) return 0;
    element_at(f->l, at, c);
    if (!layout_in_tile(f->l, c)) return 0;
    uint32_t begin = layout_shared_offset(p->shared, c), size = p->shared->elem_bytes;
    int errors = begin % (v->n * size) != 0; /* vectors are aligned */
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t byte = begin + i * size;
        int32_t *mine = cell(f, (Place){ at.reg ^ v->reg[i], at.lane, at.warp });
        if (byte >= p->bytes) errors++;
        else if (load) *mine = mem[byte];
        else mem[byte] = *mine;
    }
    return errors;
}

static int run_shared(const LayoutConvert *p, const File *src, const File *dst)
{
    int errors = 0;
    int32_t *mem = malloc(p->bytes * sizeof *mem);
    for (uint32_t i = 0; i < p->bytes; i++) mem[i] = -1;
    for (int load = 0; load < 2; load++) {
        const File *f = load ? dst : src;
        for (Place at = { 0 }; at.warp < layout_warps(f->l); place_next(f->l, &at))
            errors += move_vector(p, f, at, load, mem);
    }
    free(mem);
    return errors;
}

static int run_registers(const LayoutConvert *p, const File *src, const File *dst)
{
    int errors = 0;
    for (Place at = { 0 }; at.warp < layout_warps(dst->l); place_next(dst->l, &at)) {
        int16_t from = p->reg_map[at.reg];
        if (from == LAYOUT_NOREG) continue;
        errors += p->kind == LAYOUT_CONVERT_NONE && from != (int16_t)at.reg;
        *cell(dst, at) = *cell(src, (Place){ (uint32_t)from, at.lane, at.warp });
    }
    return errors;
}

static LayoutConvertKind run_plan(const LayoutConvert *p, int bytes)
{
    const Layout *a = p->src, *b = p->dst;
    File src = file_new(a, true), dst = file_new(b, false), want = file_new(b, true);
    int errors = 0;
    switch (p->kind) {
    case LAYOUT_CONVERT_NONE:
    case LAYOUT_CONVERT_REGISTERS: errors = run_registers(p, &src, &dst); break;
    case LAYOUT_CONVERT_SHUFFLE: errors = run_shuffles(p, &src, &dst); break;
    case LAYOUT_CONVERT_SHARED: errors = run_shared(p, &src, &dst); break;
    }
    size_t n = (size_t)layout_regs(b) * layout_lanes(b) * layout_warps(b);
    for (size_t i = 0; i < n; i++) errors += want.v[i] >= 0 && want.v[i] != dst.v[i];
    if (errors) {
        char x[2000], y[2000];
        layout_print(a, x, sizeof x);
        layout_print(b, y, sizeof y);
        printf("\n%d errors, kind %d, %d bytes: %s -> %s\n", errors, p->kind, bytes, x, y);
    }
    CU_ASSERT_EQUAL(errors, 0);
    free(src.v), free(dst.v), free(want.v);
    return p->kind;
}

static LayoutConvertKind convert(const Layout *a, const Layout *b, int bytes)
{
    const bool renames = layout_convert_renames(&arena, a, b, bytes);
    const LayoutConvert *p = layout_convert(&arena, a, b, bytes);
    CU_ASSERT_EQUAL(renames, p && p->kind <= LAYOUT_CONVERT_REGISTERS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    if (p->kind == LAYOUT_CONVERT_SHARED) run_plan(layout_convert_plain(&arena, p, bytes), bytes);
    return run_plan(p, bytes);
}

/* Without shared memory. */
static LayoutConvertKind convert_within(const Layout *a, const Layout *b, int bytes)
{
    const LayoutConvert *p = layout_convert_within(&arena, a, b, bytes);
    return p ? run_plan(p, bytes) : LAYOUT_CONVERT_SHARED;
}

static void test_random(void)
{
    static const int32_t extents[] = { 96, 176, 80, 48, 64, 128, 16, 24, 40, 8, 1, 100 };
    int kinds[4] = { 0 };
    for (int i = 0; i < 700; i++) {
        int32_t tile[2] = { extents[rnd(12)], extents[rnd(12)] }, warps = rnd(4) ? 4 : rnd(2) ? 8 : 12;
        const Layout *a = random_layout(tile, warps), *b = random_layout(tile, warps);
        if (layout_warps(a) != layout_warps(b)) continue;
        kinds[convert(a, b, 1 << rnd(4))]++;
        if (i % 16 == 0) arena_free(&arena), arena_start();
    }
    printf(" [none %d, registers %d, shuffle %d, shared %d] ", kinds[0], kinds[1], kinds[2], kinds[3]);
    for (int k = 0; k < 4; k++) CU_ASSERT(kinds[k] > 0);
}

/* Layouts that differ only within a warp: the coordinate bits of a fragment dealt to registers and lanes in
 * any way, mixed by XOR, with copies in registers or lanes, repeated over ragged extents and over warps.
 * Those lie along the other axis, or behind the repetitions, whose number need not be a power of two. */
static const Layout *within_warp(
    int bits0, int bits1, int reps, int lane_copies, int warp_axis, const int32_t *tile)
{
    int total = bits0 + bits1, nlane = 5 - lane_copies, nbit[LAYOUT_INPUTS] = { total - nlane, 5, 0, 0 };
    for (;;) {
        int32_t vec[32], reg[64] = { 0 }, lane[10] = { 0 };
        F2Map m = { .nin = total, .nout = total };
        for (int i = 0; i < total; i++) vec[i] = 1 << i;
        for (int i = total - 1; i > 0; i--) {
            int j = (int)rnd((uint32_t)i + 1), t = vec[i];
            vec[i] = vec[j], vec[j] = t;
        }
        for (int k = (int)rnd(4); k > 0; k--) {
            int i = (int)rnd((uint32_t)total), j = (int)rnd((uint32_t)total);
            if (i != j) vec[i] ^= vec[j];
        }
        for (int i = 0; i < total; i++) m.col[i] = (uint64_t)vec[i];
        if (f2_rank(&m) != total) continue;
        int hole[5], n = 0;
        for (int i = 0; i < 5; i++) hole[i] = 0;
        for (int k = 0; k < lane_copies; k++) hole[rnd(5)] = 1;
        for (int i = 0; i < 5; i++) n += !hole[i];
        if (n != nlane) continue;
        n = 0;
        for (int i = 0; i < 5; i++) {
            int32_t v = hole[i] ? 0 : vec[n++];
            lane[2 * i] = v & ((1 << bits0) - 1), lane[2 * i + 1] = v >> bits0;
        }
        for (int i = n; i < total; i++)
            reg[2 * (i - n)] = vec[i] & ((1 << bits0) - 1), reg[2 * (i - n) + 1] = vec[i] >> bits0;
        const LayoutDigit digit[] = { { LAYOUT_REG, 1, reps, 1 << bits1 },
            { LAYOUT_WARP, (uint8_t)warp_axis, 3, warp_axis ? reps << bits1 : 1 << bits0 } };
        const Layout *l = layout_from_basis(
            &arena, 2, tile, nbit, (const int32_t *const[]){ reg, lane, NULL, NULL }, 2, digit);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        return l;
    }
}

static void test_shuffles(void)
{
    int kinds[4] = { 0 }, fewest = 0;
    for (int i = 0; i < 1500; i++) {
        int bits0 = 2 + (int)rnd(3), bits1 = 3 + (int)rnd(2), reps = 1 + (int)rnd(3), bytes = 1 << rnd(4);
        int axis = (int)rnd(2), copies[2];
        int32_t tile[2] = { (axis ? 1 : 3) << bits0, ((axis ? 3 : 1) * reps << bits1) - (int)rnd(3) };
        for (int k = 0; k < 2; k++) copies[k] = rnd(3) == 0 ? 1 + (int)rnd(2) : 0;
        const Layout *a = within_warp(bits0, bits1, reps, copies[0], axis, tile);
        const Layout *b = within_warp(bits0, bits1, reps, copies[1], axis, tile);
        LayoutConvertKind k = convert_within(a, b, bytes);
        kinds[k]++;
        if (i % 8 == 0) convert(a, b, bytes);
        if (k == LAYOUT_CONVERT_SHARED) CU_ASSERT(layout_convert(&arena, a, b, bytes)->warp_local);
        if (k == LAYOUT_CONVERT_SHUFFLE) {
            const LayoutConvert *p = layout_convert_within(&arena, a, b, bytes);
            uint32_t shuffles = 0;
            for (uint32_t j = 0; j < p->nround; j += p->pack) shuffles += p->round[j].shuffle;
            /* Never more than one for each register, where three repetitions count as four (a skew may reach
             * into the hole). */
            CU_ASSERT(
                shuffles * p->pack <= layout_regs(b) / (uint32_t)reps * (reps == 3 ? 4 : (uint32_t)reps));
            fewest += shuffles * p->pack < layout_regs(b);
        }
        if (i % 16 == 0) arena_free(&arena), arena_start();
    }
    printf(" [none %d, registers %d, shuffle %d, shared %d, %d below one a register] ", kinds[0], kinds[1],
        kinds[2], kinds[3], fewest);
    CU_ASSERT(kinds[2] > 400 && kinds[3] == 0 && fewest > 0);
}

static const Layout *blocked(
    const int32_t *tile, const int32_t *per, const int32_t *lanes, const int32_t *warps)
{ return layout_blocked(&arena, 2, tile, per, lanes, warps, I(1, 0)); }

/* The cases that decide how fast attention and GEMM are. */
static void test_known(void)
{
    /* The f16 accumulator of S is the A operand of P V: no instruction, at any number of keys that is a
     * multiple of 16. */
    for (int n = 16; n <= 256; n += 16)
        for (int g = 1; g <= 3; g++) {
            const Layout *c = layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_C, 2, I(64 * g, n), I(g, 1));
            const Layout *p = layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_A, 2, I(64 * g, n), I(g, 1));
            CU_ASSERT(layout_equal(c, p));
            CU_ASSERT_EQUAL(convert(c, p, 2), LAYOUT_CONVERT_NONE);
        }
    const Layout *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, 96), I(4, 1));
    const Layout *p = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_A, 2, I(64, 96), I(4, 1));
    CU_ASSERT_EQUAL(convert(c, p, 2), LAYOUT_CONVERT_NONE);
    /* fp8: four neighbours a lane instead of two: shuffles within groups of four lanes. */
    const Layout *p8 = layout_mma(&arena, LAYOUT_WGMMA_K32, LAYOUT_A, 2, I(64, 128), I(1, 1));
    const Layout *c8 = layout_mma(&arena, LAYOUT_WGMMA_K32, LAYOUT_C, 2, I(64, 128), I(1, 1));
    CU_ASSERT_EQUAL(convert_within(c8, p8, 1), LAYOUT_CONVERT_SHUFFLE);
    /* A register bit is exchanged with a lane bit: a pair takes one shuffle, and the other round stays in the
     * lane. */
    const Layout *a = blocked(I(8, 8), I(1, 2), I(8, 4), I(1, 1)),
                 *b = blocked(I(8, 8), I(2, 1), I(4, 8), I(1, 1));
    CU_ASSERT_EQUAL(convert_within(a, b, 4), LAYOUT_CONVERT_SHUFFLE);
    const LayoutConvert *plan = layout_convert(&arena, a, b, 4);
    CU_ASSERT_EQUAL(plan->nround, 2);
    CU_ASSERT_EQUAL(plan->round[0].shuffle + plan->round[1].shuffle,
        2 - (plan->round[0].shuffle == 0 || plan->round[1].shuffle == 0));
    /* The GEMM epilogue: 4 x 4 transpose of packed pairs so that a lane stores 16 bytes: 3 shuffles for 8
     * f16. */
    const Layout *acc = layout_mma(&arena, LAYOUT_WGMMA_K16, LAYOUT_C, 2, I(64, 32), I(1, 1));
    const Layout *row = layout_from_basis(&arena, 2, I(64, 32), (const int[]){ 4, 5, 2, 0 },
        (const int32_t *const[]){
            I(0, 1, 0, 2, 0, 4, 8, 0), I(0, 8, 0, 16, 1, 0, 2, 0, 4, 0), I(16, 0, 32, 0), NULL },
        0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    CU_ASSERT_EQUAL(convert_within(acc, row, 2), LAYOUT_CONVERT_SHUFFLE);
    plan = layout_convert_within(&arena, acc, row, 2);
    int shuffles = 0;
    for (uint32_t i = 0; i < plan->nround; i += plan->pack) shuffles += plan->round[i].shuffle;
    CU_ASSERT_EQUAL(plan->pack, 2);
    CU_ASSERT_EQUAL(shuffles, 6); /* 16 elements a lane: two rows of 8, 3 shuffles each */
    /* layout_vectorize finds that layout by itself, for every accumulator, and stays within the warp. */
    const Layout *wide = layout_vectorize(&arena, acc, 1, 2, 16);
    CU_ASSERT_FATAL(wide != NULL);
    CU_ASSERT_EQUAL(layout_contiguity(wide, 1), 8);
    plan = layout_convert_within(&arena, acc, wide, 2);
    CU_ASSERT_EQUAL(plan->kind, LAYOUT_CONVERT_SHUFFLE);
    static const int32_t widths[] = { 32, 64, 96, 128, 176, 256, 80 };
    for (int i = 0; i < 7; i++) {
        const Layout *x = layout_mma(&arena, i & 1 ? LAYOUT_WGMMA_K16 : LAYOUT_M16N8K16, LAYOUT_C, 2,
            I(128, widths[i]), i & 1 ? I(2, 1) : I(4, 1));
        for (int bytes = 2; bytes <= 4; bytes *= 2) {
            const Layout *y = layout_vectorize(&arena, x, 1, bytes, 16);
            uint32_t copies;
            CU_ASSERT_FATAL(y && covers(y, &copies));
            int even =
                widths[i] & -widths[i]; /* 176 and 80 have 16 columns in registers and lanes together */
            CU_ASSERT_EQUAL(layout_contiguity(y, 1), (uint32_t)(even >= 32   ? 16 / bytes
                                                                : bytes == 2 ? 4
                                                                             : 4));
            CU_ASSERT(convert_within(x, y, bytes) != LAYOUT_CONVERT_SHARED);
        }
    }
    /* Rows of other warps go through shared memory, with 16-byte stores and loads and no conflicts. */
    a = blocked(I(128, 64), I(1, 8), I(4, 8), I(4, 1)), b = blocked(I(128, 64), I(1, 8), I(4, 8), I(1, 4));
    const Layout *rows = blocked(I(128, 64), I(1, 8), I(32, 1), I(4, 1));
    (void)b;
    CU_ASSERT_EQUAL(convert(a, rows, 2), LAYOUT_CONVERT_SHARED);
    plan = layout_convert(&arena, a, rows, 2);
    CU_ASSERT_FALSE(plan->warp_local);
    CU_ASSERT_EQUAL(plan->store.bytes, 16);
    CU_ASSERT_EQUAL(plan->load.bytes, 16);
    CU_ASSERT_EQUAL(plan->bytes, 128 * 64 * 2);
    CU_ASSERT_EQUAL(layout_bank_conflicts(a, plan->shared, &plan->store, 0), 0);
    CU_ASSERT_EQUAL(layout_bank_conflicts(rows, plan->shared, &plan->load, 0), 0);
}

/* Row statistics: the slice of one layout to the slice of another, and to a layout in which one lane a row
 * holds it. */
static void test_statistics(void)
{
    const Layout *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, 80), I(4, 1));
    const Layout *s = layout_slice(&arena, c, 1, true);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_EQUAL(layout_regs(s), 2);
    const Layout *o =
        layout_slice(&arena, layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, 128), I(4, 1)), 1, true);
    CU_ASSERT_EQUAL(convert(s, o, 4), LAYOUT_CONVERT_NONE);
    const Layout *v = layout_blocked(&arena, 2, I(64, 1), I(1, 1), I(32, 1), I(4, 1), I(1, 0));
    convert(s, v, 4);
    convert(v, s, 4);
    const Layout *other =
        layout_slice(&arena, layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, 80), I(2, 2)), 1, true);
    convert(s, other, 4);
    convert(other, s, 4);
}

/* Plans that a memo has kept are those that were made, also for equal layouts of another arena that is freed
 * between the questions, and are found. */
static void test_kept(void)
{
    static const int32_t shapes[][2] = { { 64, 80 }, { 64, 64 }, { 128, 96 }, { 64, 40 } };
    LayoutMemo memo;
    layout_memo_init(&memo, allocator_libc);
    arena.plans = &memo;
    int kinds[4], planned = 0;
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < 4; k++) {
            const Layout *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, shapes[k], I(4, 1));
            const Layout *rows = layout_coalesced(&arena, 2, shapes[k], I(1, 0), 2, 16, 32, 4);
            int kind = (int)convert(c, rows, k % 2 ? 2 : 4);
            if (round) CU_ASSERT_EQUAL(kind, kinds[k]);
            kinds[k] = kind;
        }
        if (round) CU_ASSERT_EQUAL(memo.planned, planned);
        planned = memo.planned;
        arena_free(&arena);
        arena_start();
        arena.plans = &memo;
    }
    CU_ASSERT(planned > 0 && memo.asked >= 2 * planned);
    arena.plans = NULL;
    layout_memo_free(&memo);
}

/* A memo that has joined another finds the other's plans, and the other its own. */
static void test_joined(void)
{
    LayoutMemo memo[2];
    for (int k = 0; k < 2; k++) layout_memo_init(&memo[k], allocator_libc);
    layout_memo_join(&memo[1], &memo[0]);
    for (int k = 0; k < 4; k++) {
        const Layout *c = layout_mma(&arena, LAYOUT_M16N8K16, LAYOUT_C, 2, I(64, 40), I(4, 1));
        const Layout *rows = layout_coalesced(&arena, 2, I(64, 40), I(1, 0), 2, 16, 32, 4);
        arena.plans = &memo[k % 2];
        convert(c, rows, k < 2 ? 2 : 4); /* 2 bytes: of the first; 4 bytes: of the first as well */
        arena.plans = NULL;
    }
    CU_ASSERT(memo[0].planned > 0 && memo[1].asked > 0);
    CU_ASSERT_EQUAL(memo[1].planned, 0);
    for (int k = 0; k < 2; k++) layout_memo_free(&memo[k]);
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "random", test_random }, { "shuffles", test_shuffles },
        { "known", test_known }, { "statistics", test_statistics }, { "kept", test_kept },
        { "joined", test_joined } };
    int status = unit_run("layout conversions", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
