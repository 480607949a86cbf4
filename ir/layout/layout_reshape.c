/* layout_reshape.c: the layout of a tile whose elements have another shape, in the same order and the same
 * threads. */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* A run of `size` steps of `step` linear elements, written as digits of the new shape. False if it straddles
 * extents. */
static bool reshape_run(LayoutBuild *b, LayoutInput in, const int64_t *stride, int64_t size, int64_t step)
{
    while (size > 1) {
        int d = 0;
        while (d < b->rank && (stride[d] > step || b->tile[d] == 1)) d++;
        if (d == b->rank || step % stride[d]) return false;
        int64_t m = step / stride[d], room;
        if (m >= b->tile[d] || b->tile[d] % m) return false;
        room = b->tile[d] / m;
        int64_t take = size;
        if (size > room) {
            if (size % room) return false;
            take = room;
        }
        if (take == 1) return false;
        layout_build_digit(b, in, d, (int32_t)take, (int32_t)m);
        size /= take;
        step *= take;
    }
    return true;
}

/* Whether exactly one basis vector of the layout changes the coordinate bits of `word`. */
static bool touched_once(const Layout *l, uint64_t word)
{
    int n = 0;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++) n += (l->basis[in][i] & word) != 0;
    }
    return n == 1;
}

/* Each coordinate bit of the old fragment is a step of the linear index, and becomes one bit of a new
 * coordinate where that step is a power of two there, else a digit (which cannot be XORed with others, nor
 * lie below a fragment bit of the same input). */
static bool reshape_bit(LayoutBuild *b, const Layout *l, LayoutInput in, int i, const int64_t *old,
    const int64_t *stride, bool *digits)
{
    int32_t v[LAYOUT_MAX_RANK], to[LAYOUT_MAX_RANK] = { 0 };
    LayoutBuild part;
    bool bits = true;
    layout_build_init(&part, b->rank, b->tile);
    layout_unpack(l, l->basis[in][i], v);
    for (int d = 0; d < l->rank; d++) {
        for (int32_t rest = v[d]; rest; rest &= rest - 1) {
            if (!reshape_run(&part, in, stride, 2, (rest & -rest) * old[d])) return false;
        }
    }
    for (int k = 0; k < part.ndigit; k++) {
        to[part.digit[k].axis] += part.digit[k].stride;
        bits &= layout_pow2(part.digit[k].stride);
    }
    if (bits && !*digits) {
        layout_build_bit(b, in, to);
        return true;
    }
    if (part.ndigit > 1 || (part.ndigit && !touched_once(l, l->basis[in][i]))) return false;
    *digits = true;
    if (part.ndigit) layout_build_digit(b, in, part.digit[0].axis, 2, part.digit[0].stride);
    else layout_build_digit(b, in, 0, 2, 0);
    return true;
}

/* Where a reshape only adds or drops axes of extent 1: the new axis of each old one, -1 for those that are
 * dropped, which no input may move along. */
static bool keeps_axes(const Layout *l, int rank, const int32_t *tile, int *to)
{
    int d = 0;
    for (int k = 0; k < l->rank; k++) {
        to[k] = -1;
        if (l->tile[k] == 1 && l->cover[k] == 1) continue;
        while (d < rank && tile[d] == 1 && l->tile[k] != 1) d++;
        if (d == rank || tile[d] != l->tile[k]) return false;
        to[k] = d++;
    }
    for (; d < rank; d++)
        if (tile[d] != 1) return false;
    return true;
}

/* The same layout with other axes of extent 1. What lies beyond the tile stays there. */
static const Layout *reshape_axes(Arena *a, const Layout *l, const int *axis, LayoutBuild *b)
{
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        for (int i = 0; i < l->nbit[in]; i++) {
            int32_t v[LAYOUT_MAX_RANK], to[LAYOUT_MAX_RANK] = { 0 };
            layout_unpack(l, l->basis[in][i], v);
            for (int k = 0; k < l->rank; k++)
                if (axis[k] >= 0) to[axis[k]] = v[k];
            layout_build_bit(b, in, to);
        }
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        bool moves = x->stride && axis[x->axis] >= 0;
        layout_build_digit(b, x->in, moves ? axis[x->axis] : 0, x->size, moves ? x->stride : 0);
    }
    return layout_build(a, b, NULL);
}

const Layout *layout_reshape(Arena *a, const Layout *l, int rank, const int32_t *tile)
{
    LayoutBuild b;
    int64_t old[LAYOUT_MAX_RANK], stride[LAYOUT_MAX_RANK], n = 1, m = 1;
    int axis[LAYOUT_MAX_RANK];
    layout_build_init(&b, rank, tile);
    if (b.overflow) return NULL;
    if (memcmp(l->cover, l->tile, sizeof l->tile))
        return keeps_axes(l, rank, tile, axis) ? reshape_axes(a, l, axis, &b) : NULL;
    for (int d = l->rank - 1; d >= 0; d--) old[d] = n, n *= l->tile[d];
    for (int d = rank - 1; d >= 0; d--) {
        if (tile[d] < 1) return NULL;
        stride[d] = m, m *= tile[d];
        if (m > n) return NULL;
    }
    if (m != n) return NULL;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        bool digits = false;
        for (int i = 0; i < l->nbit[in]; i++) {
            if (!reshape_bit(&b, l, in, i, old, stride, &digits)) return NULL;
        }
        for (int i = 0; i < l->ndigit; i++) {
            const LayoutDigit *x = &l->digit[i];
            if (x->in != in) continue;
            if (!x->stride) layout_build_digit(&b, in, 0, x->size, 0);
            else if (!reshape_run(&b, in, stride, x->size, x->stride * old[x->axis])) return NULL;
        }
    }
    return layout_build(a, &b, NULL);
}
