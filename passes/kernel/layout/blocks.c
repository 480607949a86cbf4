/* blocks.c: of layout: layouts of groups that no product ties down, by what their accesses and reductions
 * want: coalesced vectors, words of odd rows, rows that no warps share, blocks of registers. */
#include "passes/kernel/layout/groups.h"

/* Whether unaligned vectors save at least an eighth of the cost of accesses by element. */
static bool shifts(const Group *g)
{ return g->odd && !g->unfit && !g->mma && 8 * g->shifted < 7 * g->by_element; }

/* The layout of odd rows by vectors, or by words where those suffice; NULL: by element. */
static const Layout *of_odd_rows(
    Layouter *c, const Group *g, int rank, const int32_t *tile, const int32_t *order, int ctas)
{
    if (!g->odd || g->unfit || g->mma) return NULL;
    RowStartAccess row = kernel_row_start(c->f, c->p);
    if (row.bytes && rank == 1)
        return row.bytes == g->access_elem || row.least == g->access_elem
                   ? kernel_row_words(&c->s->arena, c->p, tile[0], row, ctas)
                   : NULL;
    return shifts(g) ? kernel_shift_layout(&c->s->arena, c->p, rank, tile, order, g->access_elem, ctas)
                     : NULL;
}

/* The axis along which an operand is contiguous in shared memory. Tiles in registers are written there by
 * rows. */
static int operand_unit(Layouter *c, const Instr *mma, int side)
{
    const Value *v = ir_operand(mma, side);
    return v->type->kind == TYPE_SHARED ? layouts_shared(&c->p->layouts, v->type)->order[0] : 1;
}

/* Register blocks for a product without a matrix unit. Lanes form a grid of 4 x 8, which repeats over the
 * tile. If an operand is contiguous along its own axis, a lane takes 16 bytes of it at a time. If it is
 * contiguous along K, neighbouring rows go to neighbouring lanes, whose vectors along K are then in different
 * banks. */
static const Layout *group_register_blocks(Layouter *c, const Instr *mma, const int32_t *tile)
{
    int32_t per[2] = { 1, 1 }, lanes[2] = { c->p->target->wave / 8, 8 }, warps[2] = { 1, 1 };
    int bytes = dtype_bytes(ir_operand(mma, 0)->type->dtype), w = c->p->warps;
    for (int a = 0; a < 2; a++)
        if (operand_unit(c, mma, a) == a)
            while (per[a] * bytes < 16 && per[a] < 4 && per[a] * 2 * lanes[a] <= tile[a]) per[a] *= 2;
    while (w > 1) {
        bool down = (int64_t)lanes[0] * warps[0] * tile[1] < (int64_t)lanes[1] * warps[1] * tile[0];
        if ((int64_t)per[down ? 0 : 1] * lanes[down ? 0 : 1] * warps[down ? 0 : 1] >= tile[down ? 0 : 1])
            down = !down;
        int by = w % 2 ? w : 2;
        warps[down ? 0 : 1] *= by;
        w /= by;
    }
    return layout_blocked(&c->s->arena, 2, tile, per, lanes, warps, (int32_t[]){ 1, 0 });
}

/* The bytes of a lane that lie side by side. Where most elements are accessed one by one, neighbours are in
 * neighbouring lanes, so that one access of a warp touches few lines if neighbours are close in memory. */
static int width_of(const Group *g)
{
    int elem = g->access_elem ? g->access_elem : g->elem_bytes ? g->elem_bytes : 4;
    if (group_is_one_by_one(g)) return elem > 4 ? elem : 4;
    return g->access_width ? g->access_width : 16;
}

/* Rows of a pack that are reduced, each of them by one warp, or by a part of its lanes: the last lanes of a
 * row may have nothing, as long as that is at most a fifth of all. A barrier, and the addresses of many rows
 * in one access, cost more, and so do weights that change lanes because a lane has other columns in one row
 * than in the next. *several: a lane has several accesses of a row. NULL: there is no need for that, or no
 * such layout. */
static const Layout *of_whole_rows(Layouter *c, const Group *g, int rank, const int32_t *tile,
    const int32_t *order, const Layout *l, bool *several)
{
    /* Narrower rows go through shared memory (row_block.c). Rows of wider elements have enough vectors for
     * other layouts (bench/notes/short_rows.md, "Warps with whole rows"). */
    enum { LEAST = 8, MOST_OF_ELEMENT = 2 };
    int unit = order[0], lanes = c->p->target->wave;
    int32_t at[TILE_MAX_RANK], whole[TILE_MAX_RANK];
    bool shared = false;
    if (!l || !g->rows || g->mma || !g->access_elem || rank != 2 || unit != 1 || c->p->cluster > 1 ||
        c->p->target->kind != TARGET_CUDA || tile[0] < c->p->warps)
        return NULL;
    for (uint32_t w = 1; w < layout_warps(l); w *= 2) {
        layout_element(l, 0, 0, w, 0, at);
        shared |= at[unit] != 0;
    }
    int64_t places;
    int width = layout_row_access(tile[unit], g->access_elem, g->access_width, lanes, &places);
    *several = width && places > lanes;
    bool moves = *several && tile[unit] * g->access_elem % (lanes * g->access_width);
    if (!width || (!shared && !moves) ||
        (*several && (g->access_width < LEAST || g->access_elem > MOST_OF_ELEMENT)))
        return NULL;
    whole[0] = tile[0];
    whole[unit] = (int32_t)places * width / g->access_elem;
    const Layout *rows =
        layout_coalesced(&c->s->arena, rank, whole, order, g->access_elem, width, lanes, c->p->warps);
    return rows ? layout_with_tile(&c->s->arena, rows, tile) : NULL;
}

/* A few long rows that are reduced along both axes: each thread has the same columns of all rows, so that
 * what is reduced over rows meets in registers. If warps shared the rows, all of its long result would go
 * through shared memory, and of the other reductions no more than a number for each row and warp does. NULL:
 * rows are many or short, or reduced along one axis. */
static const Layout *of_all_rows(
    Layouter *c, const Group *g, int rank, const int32_t *tile, const int32_t *order)
{
    enum { MOST_ROWS = 8 };
    int32_t n = g->access_elem ? g->access_width / g->access_elem : 1, wave = c->p->target->wave,
            per[2] = { 1, n }, lanes[2] = { 1, wave }, warps[2] = { 1, c->p->warps };
    if (rank != 2 || order[0] != 1 || !g->rows || !g->columns || g->mma || g->ordered || g->unfit ||
        c->p->cluster > 1 || c->p->target->kind != TARGET_CUDA || n < 1 || tile[0] < 2 ||
        tile[0] > MOST_ROWS || tile[1] % (n * wave * c->p->warps))
        return NULL;
    return layout_blocked(&c->s->arena, rank, tile, per, lanes, warps, order);
}

const Layout *group_blocked(Layouter *c, const Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int unit = g->access_bytes && g->unit < rank ? g->unit : rank - 1, n = 0,
        last = g->access_bytes && rank == 3 && unit == 0 ? g->along_k - 1 : -1,
        near = last >= 0         ? last
               : g->near <= rank ? g->near - 1
                                 : -1;
    order[n++] = unit;
    for (int a = rank - 1; a >= 0; a--)
        if (a != unit && a != last) order[n++] = a;
    if (last >= 0) order[n++] = last;
    for (int a = 0; a < rank; a++) tile[a] = (int32_t)shape[a];
    if (g->plain && !g->native && rank == 2) return group_register_blocks(c, g->plain, tile);
    int ctas = c->p->cluster > 1 && !c->p->split_k ? c->p->cluster : 1;
    const Layout *l = layout_coalesced_near(&c->s->arena, rank, tile, order,
        g->access_elem  ? g->access_elem
        : g->elem_bytes ? g->elem_bytes
                        : 4,
        width_of(g), c->p->target->wave, c->p->warps * ctas, near);
    bool several = false;
    const Layout *rows = of_whole_rows(c, g, rank, tile, order, l, &several);
    if (rows && several) return rows;
    const Layout *s = of_odd_rows(c, g, rank, tile, order, ctas);
    if (s) return ctas > 1 ? layout_split_blocks(&c->s->arena, s, ctas) : s;
    if (!rows) rows = of_all_rows(c, g, rank, tile, order);
    if (rows) return rows;
    return l && ctas > 1 ? layout_split_blocks(&c->s->arena, l, ctas) : l;
}
