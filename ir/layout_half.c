/* layout_half.c: of layout: a tile cut in two along an axis. */
#include "ir/layout_priv.h"
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
