/* Algebra: matrices over F2 with columns as 64-bit words, and products and quotients of layouts. */
#include "ir/layout/layout_priv.h"

#include <string.h>

uint64_t f2_apply(const F2Map *m, uint64_t x)
{
    uint64_t y = 0;
    for (; x; x &= x - 1) y ^= m->col[__builtin_ctzll(x)];
    return y;
}

F2Map f2_compose(const F2Map *outer, const F2Map *inner)
{
    F2Map r = { .nin = inner->nin, .nout = outer->nout };
    for (int i = 0; i < inner->nin; i++) r.col[i] = f2_apply(outer, inner->col[i]);
    return r;
}

F2Map f2_product(const F2Map *low, const F2Map *high)
{
    F2Map r = { .nin = low->nin + high->nin, .nout = low->nout + high->nout };
    memcpy(r.col, low->col, (size_t)low->nin * sizeof r.col[0]);
    for (int i = 0; i < high->nin && low->nin + i < 64; i++) r.col[low->nin + i] = high->col[i] << low->nout;
    return r;
}

/* Column echelon form: vec[p] has its lowest bit alone among the vectors, comb[p] is the combination of
 * columns that gives it. kernel receives the combinations that give zero. Returns the rank. */
static int eliminate(const F2Map *m, uint64_t *vec, uint64_t *comb, uint64_t *kernel, int *nkernel)
{
    int n = 0;
    *nkernel = 0;
    for (int i = 0; i < m->nin; i++) {
        uint64_t v = m->col[i], c = 1ull << i;
        for (int p = 0; p < n; p++) {
            if (v >> __builtin_ctzll(vec[p]) & 1) v ^= vec[p], c ^= comb[p];
        }
        if (!v) {
            if (kernel) kernel[*nkernel] = c;
            ++*nkernel;
            continue;
        }
        for (int p = 0; p < n; p++) {
            if (vec[p] >> __builtin_ctzll(v) & 1) vec[p] ^= v, comb[p] ^= c;
        }
        vec[n] = v;
        comb[n++] = c;
    }
    return n;
}

int f2_rank(const F2Map *m)
{
    uint64_t vec[64], comb[64];
    int nkernel;
    return eliminate(m, vec, comb, NULL, &nkernel);
}

int f2_kernel(const F2Map *m, uint64_t *basis)
{
    uint64_t vec[64], comb[64];
    int nkernel;
    eliminate(m, vec, comb, basis, &nkernel);
    return nkernel;
}

bool f2_solve(const F2Map *m, uint64_t y, uint64_t *x)
{
    uint64_t vec[64], comb[64];
    int nkernel, n = eliminate(m, vec, comb, NULL, &nkernel);
    *x = 0;
    for (int p = 0; p < n; p++) {
        if (y >> __builtin_ctzll(vec[p]) & 1) y ^= vec[p], *x ^= comb[p];
    }
    return y == 0;
}

bool f2_invert(const F2Map *m, F2Map *right)
{
    uint64_t vec[64], comb[64];
    int nkernel;
    if (eliminate(m, vec, comb, NULL, &nkernel) != m->nout) return false;
    *right = (F2Map){ .nin = m->nout, .nout = m->nin };
    for (int p = 0; p < m->nout; p++) right->col[__builtin_ctzll(vec[p])] = comb[p];
    return true;
}

F2Map layout_f2(const Layout *l)
{
    F2Map m = { .nout = l->fshift[l->rank - 1] + l->fbit[l->rank - 1] };
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in]; i++) m.col[m.nin++] = l->basis[in][i];
    }
    return m;
}

/* The outer layout's bits become bits of the product while that input has no digits and all boxes are powers
 * of two, else digits. */
const Layout *layout_product(Arena *a, const Layout *inner, const Layout *outer)
{
    LayoutBuild b;
    if (inner->rank != outer->rank || memcmp(inner->tile, inner->cover, sizeof inner->tile)) return NULL;
    layout_build_from(&b, inner);
    bool linear = true, digits[LAYOUT_INPUTS] = { false };
    for (int d = 0; d < inner->rank; d++) {
        if ((int64_t)inner->tile[d] * outer->cover[d] > LAYOUT_MAX_EXTENT) return NULL;
        b.tile[d] = inner->tile[d] * outer->tile[d];
        linear &= layout_pow2(inner->cover[d]);
    }
    for (int i = 0; i < inner->ndigit; i++) digits[inner->digit[i].in] = true;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < outer->nbit[in]; i++) {
            int32_t v[LAYOUT_MAX_RANK];
            int axis = 0, moved = 0;
            layout_unpack(outer, outer->basis[in][i], v);
            for (int d = 0; d < inner->rank; d++) {
                v[d] *= inner->cover[d];
                if (v[d]) axis = d, moved++;
            }
            if (linear && !digits[in]) layout_build_bit(&b, in, v);
            else if (moved > 1 || !layout_pow2(moved ? v[axis] / inner->cover[axis] : 1)) return NULL;
            else layout_build_digit(&b, in, axis, 2, v[axis]);
        }
        for (int i = 0; i < outer->ndigit; i++) {
            const LayoutDigit *x = &outer->digit[i];
            if (x->in == in) layout_build_digit(&b, in, x->axis, x->size, x->stride * inner->cover[x->axis]);
        }
    }
    return layout_build(a, &b, NULL);
}

const Layout *layout_divide(Arena *a, const Layout *l, const Layout *inner)
{
    LayoutBuild b, full;
    if (l->rank != inner->rank || inner->ndigit) return NULL;
    layout_build_from(&full, l);
    layout_build_init(&b, l->rank, l->tile);
    for (int d = 0; d < l->rank; d++) {
        if (l->tile[d] % inner->cover[d] || inner->tile[d] != inner->cover[d]) return NULL;
        b.tile[d] = l->tile[d] / inner->cover[d];
    }
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        if (l->nbit[in] < inner->nbit[in]) return NULL;
        for (int i = 0; i < l->nbit[in]; i++) {
            int32_t *v = full.basis[in][i], part[LAYOUT_MAX_RANK] = { 0 };
            if (i < inner->nbit[in]) {
                layout_unpack(inner, inner->basis[in][i], part);
                if (memcmp(v, part, (size_t)l->rank * sizeof *v)) return NULL;
                continue;
            }
            for (int d = 0; d < l->rank; d++) {
                if (v[d] % inner->cover[d]) return NULL;
                part[d] = v[d] / inner->cover[d];
            }
            layout_build_bit(&b, in, part);
        }
        for (int i = 0; i < l->ndigit; i++) {
            const LayoutDigit *x = &l->digit[i];
            if (x->in == in) layout_build_digit(&b, in, x->axis, x->size, x->stride / inner->cover[x->axis]);
        }
    }
    return layout_build(a, &b, NULL);
}
