/* Reductions over an axis: which registers, lanes and warps combine. See LayoutReduce in layout.h. */
#include "ir/layout/layout_priv.h"

#include <stdlib.h>
#include <string.h>

/* Whether no basis vector moves along `axis` and another axis at once. All instruction fragments and blocked
 * layouts have this property. */
static bool axis_is_pure(const Layout *l, int axis)
{
    uint64_t mask = ((1ull << l->fbit[axis]) - 1) << l->fshift[axis];
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++)
            if (l->basis[in][i] & mask && l->basis[in][i] & ~mask) return false;
    }
    return true;
}

static bool blocks_share(const Layout *l, int axis)
{
    uint64_t mask = ((1ull << l->fbit[axis]) - 1) << l->fshift[axis];
    for (int i = 0; i < l->nbit[LAYOUT_BLOCK]; i++)
        if (l->basis[LAYOUT_BLOCK][i] & mask) return true;
    for (int i = 0; i < l->ndigit; i++)
        if (l->digit[i].in == LAYOUT_BLOCK && l->digit[i].stride && l->digit[i].axis == axis) return true;
    return false;
}

/* Lane bits along the axis, less those that depend on registers or lower lanes: those hold copies. */
static void lane_steps(const Layout *l, int axis, LayoutReduce *out)
{
    for (int i = 0; i < l->nbit[LAYOUT_LANE]; i++) {
        bool along = l->basis[LAYOUT_LANE][i] >> l->fshift[axis] & ((1ull << l->fbit[axis]) - 1);
        if (along && !(l->free[LAYOUT_LANE] >> i & 1)) out->lane_xor[out->nlane++] = (uint8_t)(1u << i);
    }
}

static void warp_steps(const Layout *l, int axis, LayoutReduce *out)
{
    uint32_t n = 1;
    for (int i = 0; i < l->nbit[LAYOUT_WARP]; i++) {
        bool along = l->basis[LAYOUT_WARP][i] >> l->fshift[axis] & ((1ull << l->fbit[axis]) - 1);
        if (!along || l->free[LAYOUT_WARP] >> i & 1) continue;
        out->warp_term[out->nterm++] =
            (LayoutTerm){ .in = LAYOUT_WARP, .shift = (uint8_t)i, .div = 1, .mod = 2, .mul = n };
        n *= 2;
    }
    uint32_t div = 1;
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        if (x->in != LAYOUT_WARP) continue;
        uint32_t above = div * (uint32_t)x->size;
        if (x->stride && x->axis == axis && out->nterm < 16) {
            out->warp_term[out->nterm++] = (LayoutTerm){ .in = LAYOUT_WARP,
                .shift = l->nbit[LAYOUT_WARP],
                .div = div,
                .mul = n,
                .mod = above << l->nbit[LAYOUT_WARP] == layout_warps(l) ? 0 : (uint32_t)x->size };
            n *= (uint32_t)x->size;
        }
        div = above;
    }
    out->nwarp = n;
}

bool layout_reduce(Arena *a, const Layout *l, int axis, bool keep, LayoutReduce *out)
{
    memset(out, 0, sizeof *out);
    if (axis < 0 || axis >= l->rank || !axis_is_pure(l, axis)) return false;
    out->result = layout_slice(a, l, axis, keep);
    if (!out->result) return false;
    lane_steps(l, axis, out);
    warp_steps(l, axis, out);
    out->reg = arena_alloc(a, layout_regs(l) * sizeof *out->reg);
    for (uint32_t r = 0; r < layout_regs(l); r++) {
        int32_t c[LAYOUT_MAX_RANK], row[LAYOUT_MAX_RANK] = { 0 };
        layout_element(l, r, 0, 0, 0, c);
        for (int d = 0, n = 0; d < l->rank; d++) {
            if (d != axis) row[n++] = c[d];
            else if (keep || l->rank == 1) row[n++] = 0;
        }
        out->reg[r] = (int16_t)layout_find_reg(out->result, row, 0, 0, 0);
    }
    return true;
}

static int by_step(const void *a, const void *b)
{
    const LayoutAxisPart *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

int layout_axis_parts(const Layout *l, int axis, LayoutAxisPart out[LAYOUT_MAX_PARTS])
{
    int n = 0;
    if (!l->separable || !axis_is_pure(l, axis) || blocks_share(l, axis)) return -1;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        uint32_t low = 1;
        for (int i = 0; i < l->nbit[in]; i++, low *= 2) {
            uint64_t step = l->basis[in][i] >> l->fshift[axis] & ((1ull << l->fbit[axis]) - 1);
            if (step) out[n++] = (LayoutAxisPart){ (LayoutInput)in, low, 2, (int32_t)step };
        }
        for (int i = 0; i < l->ndigit; i++) {
            const LayoutDigit *d = &l->digit[i];
            if (d->in != in) continue;
            if (d->stride && d->axis == axis && d->size > 1)
                out[n++] = (LayoutAxisPart){ (LayoutInput)in, low, d->size, d->stride };
            low *= (uint32_t)d->size;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_step);
    int32_t step = 1;
    for (int k = 0; k < n; k++) {
        if (out[k].step != step) return -1;
        step *= out[k].size;
    }
    return n;
}

/* The coordinates along which the lanes of each lane bit differ, as a set of axes. */
static uint32_t axes_of_lane(const Layout *l, uint32_t lane)
{
    int32_t first[LAYOUT_MAX_RANK], other[LAYOUT_MAX_RANK];
    uint32_t axes = 0;
    layout_element(l, 0, 0, 0, 0, first);
    layout_element(l, 0, lane, 0, 0, other);
    for (int d = 0; d < l->rank; d++) axes |= (uint32_t)(first[d] != other[d]) << d;
    return axes;
}

uint32_t layout_lanes_along(const Layout *l, int axis)
{
    uint32_t lanes = 0;
    for (uint32_t b = 1; b < layout_lanes(l); b <<= 1)
        if (axes_of_lane(l, b) >> axis & 1) lanes |= b;
    return lanes;
}

uint32_t layout_lane_copies(const Layout *l)
{
    uint32_t lanes = 0;
    for (uint32_t b = 1; b < layout_lanes(l); b <<= 1)
        if (!axes_of_lane(l, b)) lanes |= b;
    return lanes;
}
