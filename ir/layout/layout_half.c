/* layout_half.c: of layout: a tile cut in two, or in parts of a thread's registers, along an axis. */
#include "ir/layout/layout_priv.h"
#include <string.h>

/* The only bit of an input that moves along the axis by `by` and along no other; false: there is none. */
static bool bit_of(const Layout *l, int axis, int32_t by, LayoutHalf *h)
{
    int found = 0;
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        for (int b = 0; b < l->nbit[in]; b++) {
            uint64_t v = l->basis[in][b], at = (uint64_t)by << l->fshift[axis];
            if (!(v & at)) continue;
            found += v == at ? 1 : 2;
            h->in = (LayoutInput)in;
            h->bit = b;
        }
    return found == 1;
}

static void basis_of(const Layout *l, LayoutInput in, int bit, int32_t *to)
{
    for (int d = 0; d < l->rank; d++)
        to[d] = (int32_t)(l->basis[in][bit] >> l->fshift[d] & ((1ull << l->fbit[d]) - 1));
}

const Layout *layout_half(Arena *a, const Layout *l, int axis, LayoutHalf *h)
{
    int32_t basis[LAYOUT_INPUTS][LAYOUT_MAX_BITS * LAYOUT_MAX_RANK], tile[LAYOUT_MAX_RANK];
    const int32_t *in[LAYOUT_INPUTS];
    int nbit[LAYOUT_INPUTS];
    for (int d = 0; d < l->rank; d++) {
        if (l->cover[d] != l->tile[d]) return NULL;
        tile[d] = l->tile[d];
    }
    if (l->ndigit || l->tile[axis] % 2 || !bit_of(l, axis, l->tile[axis] / 2, h) || !l->nbit[LAYOUT_REG] ||
        h->in == LAYOUT_BLOCK)
        return NULL;
    h->reg = h->in == LAYOUT_REG ? h->bit : l->nbit[LAYOUT_REG] - 1;
    tile[axis] /= 2;
    for (int k = 0; k < LAYOUT_INPUTS; k++) {
        nbit[k] = 0;
        for (int b = 0; b < l->nbit[k]; b++) {
            if (k == LAYOUT_REG && b == h->reg) continue;
            bool given = k == (int)h->in && b == h->bit;
            basis_of(
                l, given ? LAYOUT_REG : (LayoutInput)k, given ? h->reg : b, basis[k] + nbit[k]++ * l->rank);
        }
        in[k] = basis[k];
    }
    return layout_from_basis(a, l->rank, tile, nbit, in, 0, NULL);
}

/* Whether only registers move along the axis by `extent` or more, by bits and digits that move along no other
 * axis and do not cross a multiple of it. */
static bool cut_by_registers(const Layout *l, int axis, int32_t extent)
{
    LayoutAxisPart part[LAYOUT_MAX_PARTS];
    int n = layout_axis_parts(l, axis, part);
    for (int k = 0; k < n; k++) {
        int32_t ends = part[k].step * part[k].size;
        if (ends > extent && (part[k].in != LAYOUT_REG || (part[k].step < extent && extent % part[k].step)))
            return false;
    }
    return n >= 0;
}

const Layout *layout_part(Arena *a, const Layout *l, int axis, int32_t extent)
{
    int32_t basis[LAYOUT_INPUTS][LAYOUT_MAX_BITS * LAYOUT_MAX_RANK], tile[LAYOUT_MAX_RANK];
    const int32_t *in[LAYOUT_INPUTS];
    int nbit[LAYOUT_INPUTS], ndigit = 0;
    LayoutDigit digit[LAYOUT_MAX_DIGITS];
    if (l->cover[axis] != l->tile[axis] || l->tile[axis] % extent || !cut_by_registers(l, axis, extent))
        return NULL;
    memcpy(tile, l->tile, sizeof tile);
    tile[axis] = extent;
    for (int k = 0; k < LAYOUT_INPUTS; k++) {
        nbit[k] = 0;
        for (int b = 0; b < l->nbit[k]; b++) {
            int32_t *to = basis[k] + nbit[k] * l->rank;
            basis_of(l, (LayoutInput)k, b, to);
            nbit[k] += to[axis] < extent;
        }
        in[k] = basis[k];
    }
    for (int k = 0; k < l->ndigit; k++) {
        LayoutDigit d = l->digit[k];
        if (d.axis == axis && d.stride >= extent) continue;
        if (d.axis == axis && d.stride && d.size > extent / d.stride) d.size = extent / d.stride;
        digit[ndigit++] = d;
    }
    return layout_from_basis(a, l->rank, tile, nbit, in, ndigit, digit);
}
