/* What a layout looks like from outside: coordinates as sums of terms, vectors that a thread holds in one
 * piece, equality. See layout.h. */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* --- expressions ------------------------------------------------------------------------------------- */

static int fragment_terms(const Layout *l, int in, int axis, LayoutTerm *out)
{
    int n = 0;
    uint32_t mask = (1u << l->fbit[axis]) - 1;
    for (int i = 0; i < l->nbit[in];) {
        uint32_t v = (uint32_t)(l->basis[in][i] >> l->fshift[axis]) & mask;
        int k = 1;
        if (!v) {
            i++;
            continue;
        }
        while (i + k < l->nbit[in] && layout_pow2(v) &&
               ((uint32_t)(l->basis[in][i + k] >> l->fshift[axis]) & mask) == v << k)
            k++;
        bool last = i + k == l->nbit[in] && l->count[in] == 1u << l->nbit[in];
        out[n++] = (LayoutTerm){
            .in = (uint8_t)in, .shift = (uint8_t)i, .div = 1, .mod = last ? 0 : 1u << k, .mul = v
        };
        i += k;
    }
    return n;
}

static uint32_t term_bits(const LayoutTerm *t, int nbit)
{
    uint32_t steps = t->mod ? t->mod : 1u << (nbit - t->shift), bits = 0;
    for (uint32_t k = 1; k < steps; k *= 2) bits |= t->mul * k;
    return bits;
}

static int digit_terms(const Layout *l, int axis, bool replicated, LayoutTerm *out)
{
    int n = 0;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        uint32_t div = 1;
        for (int i = 0; i < l->ndigit; i++) {
            const LayoutDigit *x = &l->digit[i];
            if (x->in != in) continue;
            uint32_t above = div * (uint32_t)x->size;
            if (replicated ? !x->stride : x->stride && x->axis == axis) {
                out[n++] = (LayoutTerm){ .in = (uint8_t)in,
                    .shift = l->nbit[in],
                    .div = div,
                    .mul = replicated ? 1 : (uint32_t)x->stride,
                    .mod = above << l->nbit[in] == l->count[in] ? 0 : (uint32_t)x->size };
            }
            div = above;
        }
    }
    return n;
}

int layout_thread_terms(const Layout *l, int axis, LayoutTerm *out)
{
    int n = 0;
    uint32_t seen = 0;
    bool meet = false;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) n += fragment_terms(l, in, axis, out + n);
    for (int i = 0; i < n; i++) {
        uint32_t bits = term_bits(&out[i], l->nbit[out[i].in]);
        meet |= (seen & bits) != 0;
        seen |= bits;
    }
    for (int i = 0; i < n; i++) out[i].xor_ = meet;
    return n + digit_terms(l, axis, false, out + n);
}

int layout_unique_terms(const Layout *l, LayoutTerm *out)
{
    int n = 0;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < l->nbit[in];) {
            int k = 0;
            while (i + k < l->nbit[in] && l->free[in] >> (i + k) & 1) k++;
            if (!k) {
                i++;
                continue;
            }
            bool last = i + k == l->nbit[in] && l->count[in] == 1u << l->nbit[in];
            out[n++] = (LayoutTerm){
                .in = (uint8_t)in, .shift = (uint8_t)i, .div = 1, .mod = last ? 0 : 1u << k, .mul = 1
            };
            i += k;
        }
    }
    return n + digit_terms(l, 0, true, out + n);
}

bool layout_is_unique(const Layout *l, uint32_t lane, uint32_t warp, uint32_t block)
{
    const uint32_t value[LAYOUT_INPUTS] = { 0, lane, warp, block };
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        if (value[in] & l->free[in]) return false;
        uint32_t rest = value[in] >> l->nbit[in];
        for (int i = 0; i < l->ndigit; i++) {
            if (l->digit[i].in != in) continue;
            if (!l->digit[i].stride && rest % (uint32_t)l->digit[i].size) return false;
            rest /= (uint32_t)l->digit[i].size;
        }
    }
    return true;
}

/* --- vectors ----------------------------------------------------------------------------------------- */

/* The register bit whose vector is exactly 2^i along axis while no other input bit touches that coordinate
 * bit; or -1. */
static int exact_reg_bit(const Layout *l, int axis, int i)
{
    if (i >= l->fbit[axis]) return -1;
    uint64_t bit = 1ull << (l->fshift[axis] + i);
    int found = -1;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int k = 0; k < l->nbit[in]; k++) {
            if (!(l->basis[in][k] & bit)) continue;
            if (in != LAYOUT_REG || found >= 0 || l->basis[in][k] != bit) return -1;
            found = k;
        }
    }
    return found;
}

uint32_t layout_contiguity(const Layout *l, int axis)
{
    uint32_t n = 1;
    while (exact_reg_bit(l, axis, layout_log2(n)) >= 0) n *= 2;
    return n;
}

void layout_vector(const Layout *l, int axis, uint32_t elem_bytes, uint32_t align_bytes, uint32_t max_bytes,
    LayoutVector *out)
{
    memset(out, 0, sizeof *out);
    uint32_t n = 1;
    for (int i = 0; n * 2 <= 64; i++) {
        int k = exact_reg_bit(l, axis, i);
        uint32_t bytes = 2 * n * elem_bytes;
        if (k < 0 || bytes > max_bytes || bytes > align_bytes || (uint32_t)l->tile[axis] % (2 * n)) break;
        for (uint32_t j = 0; j < n; j++) out->reg[n + j] = out->reg[j] | 1u << k;
        out->mask |= 1u << k;
        n *= 2;
    }
    out->n = n;
    out->bytes = n * elem_bytes;
}

/* --- comparing --------------------------------------------------------------------------------------- */

bool layout_equal(const Layout *a, const Layout *b)
{
    if (a == b) return true;
    if (a->hash != b->hash || a->rank != b->rank || a->ndigit != b->ndigit) return false;
    if (memcmp(a->tile, b->tile, sizeof a->tile) || memcmp(a->nbit, b->nbit, sizeof a->nbit) ||
        memcmp(a->fbit, b->fbit, sizeof a->fbit) || memcmp(a->basis, b->basis, sizeof a->basis)) {
        return false;
    }
    for (int i = 0; i < a->ndigit; i++) {
        const LayoutDigit *x = &a->digit[i], *y = &b->digit[i];
        if (x->in != y->in || x->axis != y->axis || x->size != y->size || x->stride != y->stride)
            return false;
    }
    return true;
}

uint64_t layout_hash(const Layout *l) { return l->hash; }

bool layout_equivalent(const Layout *a, const Layout *b)
{
    if (a->rank != b->rank || memcmp(a->tile, b->tile, sizeof a->tile) ||
        memcmp(a->fbit, b->fbit, sizeof a->fbit))
        return false;
    if (memcmp(a->inverse, b->inverse, sizeof a->inverse)) return false;
    for (int in = 0; in < LAYOUT_INPUTS; in++) { /* weights of the digits within their input */
        uint64_t wa = 1ull << a->nbit[in], wb = 1ull << b->nbit[in];
        int i = 0, j = 0;
        for (;;) {
            for (; i < a->ndigit && (a->digit[i].in != in || !a->digit[i].stride); i++) {
                if (a->digit[i].in == in) wa *= (uint64_t)a->digit[i].size;
            }
            for (; j < b->ndigit && (b->digit[j].in != in || !b->digit[j].stride); j++) {
                if (b->digit[j].in == in) wb *= (uint64_t)b->digit[j].size;
            }
            if (i == a->ndigit || j == b->ndigit) break;
            const LayoutDigit *x = &a->digit[i++], *y = &b->digit[j++];
            if (wa != wb || x->axis != y->axis || x->size != y->size || x->stride != y->stride) return false;
            wa *= (uint64_t)x->size;
            wb *= (uint64_t)y->size;
        }
        if (i != a->ndigit || j != b->ndigit) return false;
    }
    return true;
}
