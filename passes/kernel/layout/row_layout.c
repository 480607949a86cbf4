/* row_layout.c: of layout: tiles whose rows along one axis are worked on by lanes side by side, and whether
 * two layouts have the same rows. */
#include "passes/kernel/layout/groups.h"

const Layout *kernel_row_layout(Arena *a, const KernelPlan *p, const Type *t, int axis)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK],
        order[TILE_MAX_RANK];
    int32_t wave = p->target->wave, w = p->warps, n = 0;
    order[n++] = axis;
    for (int d = t->rank - 1; d >= 0; d--)
        if (d != axis) order[n++] = d;
    for (int d = 0; d < TILE_MAX_RANK; d++) {
        tile[d] = d < t->rank ? (int32_t)t->shape[d] : 1;
        per[d] = lanes[d] = warps[d] = 1;
    }
    bool along = axis == t->rank - 1; /* otherwise neighbouring threads have different rows */
    while (along && lanes[axis] < wave && lanes[axis] < tile[axis]) lanes[axis] *= 2;
    wave /= lanes[axis];
    for (int k = 1; k < t->rank; k++)
        while (wave > 1 && lanes[order[k]] < tile[order[k]]) {
            lanes[order[k]] *= 2;
            wave /= 2;
        }
    for (; wave > 1 && lanes[axis] < tile[axis]; wave /= 2) lanes[axis] *= 2;
    lanes[order[t->rank > 1]] *= wave;
    for (int k = 1; k < t->rank; k++)
        while (w % 2 == 0 && lanes[order[k]] * warps[order[k]] < tile[order[k]]) {
            warps[order[k]] *= 2;
            w /= 2;
        }
    warps[axis] = w;
    while ((int64_t)per[axis] * lanes[axis] * w < tile[axis]) per[axis] *= 2;
    return layout_blocked(a, t->rank, tile, per, lanes, warps, order);
}

/* Where a register of lane 0 of warp 0 is along the axis, if it is in the row of `row`, else -1. */
static int32_t place_in_row(const Layout *l, int axis, int reg, const int32_t *row)
{
    int32_t c[TILE_MAX_RANK];
    layout_element(l, (uint32_t)reg, 0, 0, 0, c);
    for (int d = 0; d < l->rank; d++)
        if (d != axis && c[d] != row[d]) return -1;
    return c[axis];
}

/* Whether neighbouring lanes have runs side by side; finds how many. Other lanes have rows of their own. */
static bool strips_of_lanes(const Layout *l, int axis, RowStrips *s)
{
    int32_t c[TILE_MAX_RANK], row[TILE_MAX_RANK];
    bool ok = l->separable && layout_blocks(l) == 1;
    layout_element(l, 0, 0, 0, 0, row);
    for (s->lanes = 1; s->lanes < (int)layout_lanes(l); s->lanes *= 2) {
        bool beside = true;
        layout_element(l, 0, (uint32_t)s->lanes, 0, 0, c);
        for (int d = 0; d < l->rank; d++) beside &= c[d] == row[d] + (d == axis ? s->lanes * s->per : 0);
        if (!beside) break;
    }
    for (int b = s->lanes; b < (int)layout_lanes(l); b *= 2) {
        layout_element(l, 0, (uint32_t)b, 0, 0, c);
        ok = ok && c[axis] == 0;
    }
    return ok;
}

/* The runs of registers, each of one row, and in which strips these and the warps are. */
static bool strips_of_registers(Arena *a, const Layout *l, int axis, RowStrips *s)
{
    int32_t row[TILE_MAX_RANK];
    const int strip = s->per * s->lanes;
    bool ok = true;
    s->place = arena_array(a, int32_t, (size_t)s->runs);
    s->of_warp = arena_array(a, int32_t, layout_warps(l));
    for (int r = 0; r < s->runs; r++) {
        layout_element(l, (uint32_t)(r * s->per), 0, 0, 0, row);
        for (int k = 0; k < s->per; k++)
            ok = ok && place_in_row(l, axis, r * s->per + k, row) == row[axis] + k;
        ok = ok && row[axis] % strip == 0;
        s->place[r] = row[axis] / strip;
    }
    for (uint32_t w = 0; w < layout_warps(l); w++) {
        layout_element(l, 0, 0, w, 0, row);
        ok = ok && row[axis] % strip == 0;
        s->of_warp[w] = row[axis] / strip;
    }
    return ok;
}

/* For warps that have whole rows: which strip is before which. False: some strip has none before it, or there
 * are two of it. */
static bool strips_in_order(Arena *a, const Layout *l, int axis, RowStrips *s)
{
    int32_t row[TILE_MAX_RANK];
    s->before = arena_array(a, int32_t, (size_t)s->runs);
    for (int r = 0; r < s->runs; r++) {
        layout_element(l, (uint32_t)(r * s->per), 0, 0, 0, row);
        s->before[r] = -1;
        for (int q = 0; q < r; q++) {
            const int32_t at = place_in_row(l, axis, q * s->per, row);
            if (at == row[axis]) return false;
            if (at == row[axis] - s->per * s->lanes) s->before[r] = q;
        }
        if (row[axis] && s->before[r] < 0) return false;
    }
    return true;
}

/* Whether all registers of all warps have the strips of one row, each strip once. */
static bool strips_of_one_row(Arena *a, const Layout *l, RowStrips *s)
{
    s->count = s->runs * (int)layout_warps(l);
    bool *seen = arena_array(a, bool, (size_t)s->count), one = s->lanes == (int)layout_lanes(l);
    for (int d = 0, wide = 0; d < l->rank; d++) {
        wide += l->cover[d] > 1;
        one = one && wide <= 1;
    }
    for (int r = 0; r < s->runs && one; r++)
        for (uint32_t w = 0; w < layout_warps(l) && one; w++) {
            const int32_t at = s->place[r] + s->of_warp[w];
            one = at < s->count && !seen[at];
            if (one) seen[at] = true;
        }
    return one;
}

bool kernel_row_strips(Arena *a, const Layout *l, int axis, RowStrips *s)
{
    int32_t row[TILE_MAX_RANK];
    int n = (int)layout_regs(l);
    bool shared = false;
    *s = (RowStrips){ .per = 1 };
    layout_element(l, 0, 0, 0, 0, row);
    while (s->per < n && place_in_row(l, axis, s->per, row) == s->per) s->per++;
    s->runs = n / s->per;
    if (n % s->per || !strips_of_lanes(l, axis, s) || !strips_of_registers(a, l, axis, s)) return false;
    for (uint32_t w = 0; w < layout_warps(l); w++) shared |= s->of_warp[w] > 0;
    return shared ? strips_of_one_row(a, l, s) : strips_in_order(a, l, axis, s);
}

const Layout *kernel_scan_layout(Arena *a, KernelPlan *p, const Type *t, int axis)
{
    enum { LEAST_RUN = 4, MOST_RUNS = 24, FEW_RUNS = 4, LONG_RUN = 8, MOST_SHARED = 128 };
    RowStrips s;
    const Layout *l = t->layout ? layouts_get(&p->layouts, t) : NULL;
    bool strips = l && kernel_row_strips(a, l, axis, &s) && s.per >= LEAST_RUN && s.runs <= MOST_RUNS &&
                  s.count <= MOST_SHARED;
    /* Many short runs of rows that warps share exchange more sums than their elements are worth. */
    strips = strips && (s.before || s.per >= LONG_RUN || s.runs <= FEW_RUNS);
    return strips ? l : kernel_row_layout(a, p, t, axis);
}

/* Whether the part `in` of both layouts moves alike along all axes but one. */
static bool moves_alike(const Layout *a, const Layout *b, LayoutInput in, int axis)
{
    int32_t c[LAYOUT_MAX_RANK], d[LAYOUT_MAX_RANK];
    if (a->count[in] != b->count[in]) return false;
    for (uint32_t k = 0; k < (uint32_t)a->count[in]; k++) {
        uint32_t at[LAYOUT_INPUTS] = { 0 };
        at[in] = k;
        layout_element(a, at[LAYOUT_REG], at[LAYOUT_LANE], at[LAYOUT_WARP], at[LAYOUT_BLOCK], c);
        layout_element(b, at[LAYOUT_REG], at[LAYOUT_LANE], at[LAYOUT_WARP], at[LAYOUT_BLOCK], d);
        for (int x = 0; x < a->rank; x++)
            if (x != axis && c[x] != d[x]) return false;
    }
    return true;
}

bool kernel_same_rows(const Layout *a, const Layout *b, int axis)
{
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    if (a->rank != b->rank) return false;
    if (layout_equal(a, b)) return true;
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        if (!moves_alike(a, b, (LayoutInput)in, axis)) return false;
    return layout_unique_terms(a, terms) == 0 && layout_unique_terms(b, terms) == 0;
}

/* A search takes about 100 instructions, most of them for the exchange between threads, and some for each
 * element of a thread; a network of pairs takes 3 log2(n)^2 for each element. */
bool kernel_sorts_largest(const Instr *i)
{
    enum { MANY = 16 };
    const Type *t = ir_operand(i, 0)->type;
    return i->op == OP_TOPK && dtype_bytes(t->dtype) <= 4 && i->results[0].type->shape[t->rank - 1] >= MANY;
}
