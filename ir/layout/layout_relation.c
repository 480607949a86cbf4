/* layout_relation.c: see layout_relation.h. */
#include "ir/layout/layout_relation.h"
#include <string.h>

/* --- places of digits --------------------------------------------------------------------------------- */

static bool has_digit(const Layout *l, const LayoutDigit *x)
{
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *y = &l->digit[i];
        if (y->axis == x->axis && y->size == x->size && y->stride == x->stride) return true;
    }
    return false;
}

/* Whether each axis of both is divided into the same digits, whichever inputs give them. */
static bool same_digits(const Layout *a, const Layout *b)
{
    for (int i = 0; i < a->ndigit; i++)
        if (a->digit[i].stride && !has_digit(b, &a->digit[i])) return false;
    for (int i = 0; i < b->ndigit; i++)
        if (b->digit[i].stride && !has_digit(a, &b->digit[i])) return false;
    return true;
}

/* Bits of all digits of the axis whose strides are less than `limit`, behind those of the fragment. */
static int bits_below(const Layout *l, int axis, int64_t limit)
{
    int bits = l->fbit[axis];
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        if (x->axis == axis && x->stride && x->stride < limit) bits += layout_ceil_log2((uint32_t)x->size);
    }
    return bits;
}

/* The bit of the coordinate at which a digit begins; -1: it does not begin at a bit. In boxes whose digits
 * are the same, a digit that is no power of two takes whole bits, so that those above it begin at one. */
static int place_of(const Layout *l, const LayoutDigit *x, bool whole_bits)
{
    if (whole_bits) return bits_below(l, x->axis, x->stride);
    return layout_pow2(x->stride) ? layout_ceil_log2((uint32_t)x->stride) : -1;
}

/* --- one layout --------------------------------------------------------------------------------------- */

static bool linearize(const Layout *l, const int *shift, bool whole_bits, LayoutLinear *v)
{
    memset(v, 0, sizeof *v);
    v->l = l;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        v->off[in] = v->map.nin;
        for (int i = 0; i < l->nbit[in]; i++) {
            int32_t c[LAYOUT_MAX_RANK];
            layout_unpack(l, l->basis[in][i], c);
            uint64_t word = 0;
            for (int d = 0; d < l->rank; d++) word |= (uint64_t)c[d] << shift[d];
            if (v->map.nin == 64) return false;
            v->map.col[v->map.nin++] = word;
        }
        for (int i = 0; i < l->ndigit; i++) {
            const LayoutDigit *x = &l->digit[i];
            if (x->in != in) continue;
            int place = x->stride ? place_of(l, x, whole_bits) : 0;
            if (place < 0) return false;
            for (int k = 0; k < layout_ceil_log2((uint32_t)x->size); k++) {
                if (v->map.nin == 64) return false;
                v->map.col[v->map.nin++] = x->stride ? 1ull << (place + k + shift[x->axis]) : 0;
            }
        }
        v->nb[in] = v->map.nin - v->off[in];
    }
    v->map.nout = 64;
    return true;
}

int relation_real_value(const LayoutLinear *v, LayoutInput in, uint32_t bits)
{
    const Layout *l = v->l;
    uint32_t value = bits & ((1u << l->nbit[in]) - 1), scale = 1u << l->nbit[in];
    bits >>= l->nbit[in];
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        if (x->in != in) continue;
        int n = layout_ceil_log2((uint32_t)x->size);
        uint32_t digit = bits & ((1u << n) - 1);
        if (digit >= (uint32_t)x->size) return -1;
        value += digit * scale;
        scale *= (uint32_t)x->size;
        bits >>= n;
    }
    return (int)value;
}

/* The suitability of x as the source of input bit i of `in`: 0 is best. */
static int misfit(const LayoutRelation *r, LayoutInput in, int i, uint64_t x)
{
    int moved = 0;
    for (int k = LAYOUT_WARP; k < LAYOUT_INPUTS; k++) {
        uint32_t want = k == (int)in ? 1u << i : 0;
        moved += 64 * (relation_field(&r->a, k, x) != want);
    }
    uint32_t lane = in == LAYOUT_LANE ? 1u << i : 0;
    moved += 8 * (relation_field(&r->a, LAYOUT_LANE, x) != lane);
    if (in != LAYOUT_REG) moved += relation_field(&r->a, LAYOUT_REG, x) != 0;
    else moved += relation_field(&r->a, LAYOUT_REG, x) != 1u << i;
    return moved;
}

static int axis_bits(const Layout *a, const Layout *b, int axis, bool whole_bits)
{
    if (!whole_bits)
        return layout_ceil_log2(
            (uint32_t)(a->cover[axis] > b->cover[axis] ? a->cover[axis] : b->cover[axis]));
    int of_a = bits_below(a, axis, INT64_MAX), of_b = bits_below(b, axis, INT64_MAX);
    return of_a > of_b ? of_a : of_b;
}

bool layout_relate(const Layout *src, const Layout *dst, LayoutRelation *r)
{
    const bool whole_bits = same_digits(src, dst);
    int shift[LAYOUT_MAX_RANK], total = 0;
    for (int d = 0; d < src->rank; d++) {
        shift[d] = total;
        total += axis_bits(src, dst, d, whole_bits);
    }
    if (total > 60 || !linearize(src, shift, whole_bits, &r->a) || !linearize(dst, shift, whole_bits, &r->b))
        return false;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        if (r->a.nb[in] != r->b.nb[in]) return false;
        for (uint32_t i = 0; i < 1u << r->a.nb[in]; i++) {
            if (relation_real_value(&r->a, in, i) != relation_real_value(&r->b, in, i)) return false;
        }
    }
    r->ncopy = f2_kernel(&r->a.map, r->copy);
    int nk = r->ncopy > 10 ? 10 : r->ncopy;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < r->b.nb[in]; i++) {
            uint64_t x, best = 0;
            int least = 1 << 20;
            if (!f2_solve(&r->a.map, r->b.map.col[r->b.off[in] + i], &x)) return false;
            for (uint32_t k = 0; least && k < 1u << nk; k++) { /* Gray code over the kernel */
                if (k) x ^= r->copy[__builtin_ctz(k)];
                int m = misfit(r, in, i, x);
                if (m < least) least = m, best = x;
            }
            r->q[r->b.off[in] + i] = best;
        }
    }
    return true;
}

bool relation_same_threads(const LayoutRelation *r, LayoutInput from)
{
    for (int in = from; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < r->b.nb[in]; i++) {
            if (r->q[r->b.off[in] + i] != 1ull << (r->a.off[in] + i)) return false;
        }
    }
    return true;
}

bool relation_stays_in(const LayoutRelation *r, LayoutInput in, LayoutInput limit)
{
    for (int i = 0; i < r->b.nb[in]; i++) {
        if (r->q[r->b.off[in] + i] >> r->a.off[limit]) return false;
    }
    return true;
}

uint64_t relation_apply(const LayoutRelation *r, LayoutInput in, uint32_t bits)
{
    uint64_t x = 0;
    for (; bits; bits &= bits - 1) x ^= r->q[r->b.off[in] + __builtin_ctz(bits)];
    return x;
}

bool relation_within_warps(const LayoutRelation *r)
{
    return relation_same_threads(r, LAYOUT_WARP) && relation_stays_in(r, LAYOUT_REG, LAYOUT_WARP) &&
           relation_stays_in(r, LAYOUT_LANE, LAYOUT_WARP);
}
