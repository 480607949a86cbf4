/* Reductions executed as LayoutReduce says: in registers, by shuffles, through shared memory. */
#include "common.h"

/* A reduction as it goes on: a partial sum for each place of the result. */
typedef struct Sums {
    const Layout *l;
    const LayoutReduce *p;
    int64_t *v;
    size_t n;
} Sums;

static int64_t *sum_at(const Sums *s, uint32_t reg, uint32_t lane, uint32_t warp)
{ return &s->v[((size_t)warp * layout_lanes(s->l) + lane) * layout_regs(s->p->result) + reg]; }

static int64_t summand(int32_t i, int32_t j) { return 1000 * i + 7 * j * j + 1; }

static void add_registers(const Sums *s)
{
    for (Place at = { 0 }; at.warp < layout_warps(s->l); place_next(s->l, &at)) {
        int32_t c[2];
        element_at(s->l, at, c);
        if (layout_in_tile(s->l, c))
            *sum_at(s, (uint32_t)s->p->reg[at.reg], at.lane, at.warp) += summand(c[0], c[1]);
    }
}

static void add_lanes(const Sums *s)
{
    const Layout *l = s->p->result;
    Sums before = *s;
    before.v = malloc(s->n * sizeof *s->v);
    for (int k = 0; k < s->p->nlane; k++) {
        memcpy(before.v, s->v, s->n * sizeof *s->v);
        for (Place at = { 0 }; at.warp < layout_warps(l); place_next(l, &at))
            *sum_at(s, at.reg, at.lane, at.warp) +=
                *sum_at(&before, at.reg, at.lane ^ s->p->lane_xor[k], at.warp);
    }
    free(before.v);
}

/* The warps meet in shared memory, in a cell for each row and partial sum. All that write a cell must agree,
 * and the cells of a row must add up to its sum. Returns how many do not. */
static int add_warps(const Sums *s, int axis, bool keep)
{
    const Layout *l = s->p->result;
    int32_t rows = s->l->cover[1 - axis], bad = 0;
    uint32_t parts = s->p->nwarp;
    int64_t *cell = calloc((size_t)rows * parts, sizeof *cell);
    uint8_t *set = calloc((size_t)rows * parts, 1);
    for (Place at = { 0 }; at.warp < layout_warps(l); place_next(l, &at)) {
        int32_t c[2];
        uint32_t part = 0;
        element_at(l, at, c);
        int32_t row = keep ? c[1 - axis] : c[0];
        for (int k = 0; k < s->p->nterm; k++) part += term_value(&s->p->warp_term[k], at.lane, at.warp);
        if (part >= parts || row >= rows) {
            bad++;
            continue;
        }
        size_t x = (size_t)row * parts + part;
        int64_t mine = *sum_at(s, at.reg, at.lane, at.warp);
        bad += set[x] && cell[x] != mine;
        cell[x] = mine;
        set[x] = 1;
    }
    for (int32_t row = 0; row < rows; row++) {
        int64_t sum = 0, want = 0;
        for (uint32_t k = 0; k < parts; k++) sum += cell[(uint32_t)row * parts + k];
        for (int32_t k = 0; k < s->l->tile[axis] && row < s->l->tile[1 - axis]; k++)
            want += axis ? summand(row, k) : summand(k, row);
        bad += sum != want;
    }
    free(cell);
    free(set);
    return bad;
}

/* Sums executed as LayoutReduce says, against sums over the tile. Copies in registers of a thread count once.
 */
static void test_reduce(void)
{
    int checked = 0;
    for (int i = 0; i < 200; i++) {
        int32_t tile[2];
        random_tile(tile);
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        if (rnd(4) == 0) l = layout_broadcast(&arena, layout_slice(&arena, l, 1, true), 1, 6);
        if (!l) continue;
        for (int axis = 0; axis < 2; axis++) {
            LayoutReduce p;
            bool keep = rnd(2);
            CU_ASSERT_FATAL(layout_reduce(&arena, l, axis, keep, &p));
            if (l->free[LAYOUT_REG]) continue;
            checked++;
            Sums s = { l, &p, NULL, (size_t)layout_regs(p.result) * layout_lanes(l) * layout_warps(l) };
            s.v = calloc(s.n, sizeof *s.v);
            add_registers(&s);
            add_lanes(&s);
            CU_ASSERT_EQUAL(add_warps(&s, axis, keep), 0);
            free(s.v);
        }
    }
    CU_ASSERT(checked > 100);
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "reduce", test_reduce } };
    int status = unit_run("layout reduce", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
