/* Plans for moving a tile from one layout to another: nothing, registers, shuffles within a warp, or shared
 * memory.
 *
 * Both layouts are first read as purely F2-linear maps over the same padded box (digits of size n as
 * ceil(log2 n) bits, some register numbers being holes). Then Q = A^-1 B takes a destination (register, lane,
 * warp, block) to a source, and each question is one about blocks of Q:
 *   registers   Q is the identity on lanes, warps and blocks, and registers come from registers only;
 *   shuffle     warps and blocks map to themselves. With the destination register skewed by a linear S of
 *               the lane,
 *               lane' = (Qll + Qlr S) lane + Qlr rho    register' = (Qrl + Qrr S) lane + Qrr rho      for
 *                   each rho
 *               a round is one shuffle if lanes that read the same lane read the same register: ker(Qll +
 *                   Qlr S) in ker(Qrl +
 *               Qrr S).
 * Digits with strides that are no powers of two (above three warpgroups, say) leave only the element-wise
 * check and shared memory. */
#include "ir/layout_priv.h"

#include <string.h>

enum { BARRIER_COST = 64, WARP_BARRIER_COST = 32, SHUFFLE_COST = 2, MAX_ROUNDS = 1024 };

/* --- the linear view --------------------------------------------------------------------------------- */

typedef struct {
    const Layout *l;
    int nb[LAYOUT_INPUTS],
        off[LAYOUT_INPUTS]; /* bits of each input and where they start in the packed word */
    F2Map map;              /* packed input -> coordinate word (axis widths common to both sides) */
} Linear;

static bool linearize(const Layout *l, const int *shift, Linear *v)
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
            if (x->stride && !layout_pow2(x->stride)) return false;
            for (int k = 0; k < layout_ceil_log2((uint32_t)x->size); k++) {
                if (v->map.nin == 64) return false;
                v->map.col[v->map.nin++] = x->stride ? (uint64_t)x->stride << k << shift[x->axis] : 0;
            }
        }
        v->nb[in] = v->map.nin - v->off[in];
    }
    v->map.nout = 64;
    return true;
}

/* The input value behind a packed word's field, -1 for a hole. */
static int real_value(const Linear *v, LayoutInput in, uint32_t bits)
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

static uint32_t field(const Linear *v, LayoutInput in, uint64_t packed)
{ return (uint32_t)(packed >> v->off[in] & ((1ull << v->nb[in]) - 1)); }

typedef struct {
    Linear a, b;
    uint64_t q[64];    /* packed input of a for each input bit of b */
    uint64_t copy[64]; /* kernel of a: moves between inputs that hold the same element */
    int ncopy;
} Relation;

/* How well x suits as the source of input bit i of `in`: 0 best. */
static int misfit(const Relation *r, LayoutInput in, int i, uint64_t x)
{
    int moved = 0;
    for (int k = LAYOUT_WARP; k < LAYOUT_INPUTS; k++) {
        uint32_t want = k == (int)in ? 1u << i : 0;
        moved += 64 * (field(&r->a, k, x) != want);
    }
    uint32_t lane = in == LAYOUT_LANE ? 1u << i : 0;
    moved += 8 * (field(&r->a, LAYOUT_LANE, x) != lane);
    if (in != LAYOUT_REG) moved += field(&r->a, LAYOUT_REG, x) != 0;
    else moved += field(&r->a, LAYOUT_REG, x) != 1u << i;
    return moved;
}

/* Q column by column; where a has copies, of the possible sources the nearest. */
static bool relate(const Layout *src, const Layout *dst, Relation *r)
{
    int shift[LAYOUT_MAX_RANK], total = 0;
    for (int d = 0; d < src->rank; d++) {
        shift[d] = total;
        total += layout_ceil_log2((uint32_t)(src->cover[d] > dst->cover[d] ? src->cover[d] : dst->cover[d]));
    }
    if (total > 60 || !linearize(src, shift, &r->a) || !linearize(dst, shift, &r->b)) return false;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        if (r->a.nb[in] != r->b.nb[in]) return false;
        for (uint32_t i = 0; i < 1u << r->a.nb[in]; i++) {
            if (real_value(&r->a, in, i) != real_value(&r->b, in, i)) return false;
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

/* --- registers --------------------------------------------------------------------------------------- */

static bool same_threads(const Relation *r, LayoutInput from)
{
    for (int in = from; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < r->b.nb[in]; i++) {
            if (r->q[r->b.off[in] + i] != 1ull << (r->a.off[in] + i)) return false;
        }
    }
    return true;
}

static bool stays_in(const Relation *r, LayoutInput in, LayoutInput limit)
{
    for (int i = 0; i < r->b.nb[in]; i++) {
        if (r->q[r->b.off[in] + i] >> r->a.off[limit]) return false;
    }
    return true;
}

static uint64_t apply(const Relation *r, LayoutInput in, uint32_t bits)
{
    uint64_t x = 0;
    for (; bits; bits &= bits - 1) x ^= r->q[r->b.off[in] + __builtin_ctz(bits)];
    return x;
}

static void set_register_kind(LayoutConvert *c)
{
    c->kind = LAYOUT_CONVERT_NONE;
    for (uint32_t i = 0; i < layout_regs(c->dst); i++) {
        if (c->reg_map[i] != LAYOUT_NOREG && c->reg_map[i] != (int16_t)i) c->kind = LAYOUT_CONVERT_REGISTERS;
    }
    if (layout_regs(c->dst) > layout_regs(c->src)) c->kind = LAYOUT_CONVERT_REGISTERS;
}

static bool plan_registers(const Relation *r, LayoutConvert *c)
{
    if (!same_threads(r, LAYOUT_LANE) || !stays_in(r, LAYOUT_REG, LAYOUT_LANE)) return false;
    for (uint32_t bits = 0; bits < 1u << r->b.nb[LAYOUT_REG]; bits++) {
        int to = real_value(&r->b, LAYOUT_REG, bits);
        if (to < 0) continue;
        int from = real_value(&r->a, LAYOUT_REG, field(&r->a, LAYOUT_REG, apply(r, LAYOUT_REG, bits)));
        c->reg_map[to] = (int16_t)(from < 0 ? LAYOUT_NOREG : from);
    }
    set_register_kind(c);
    return true;
}

/* The same question asked of every element, for layouts that have no linear view. */
static bool plan_registers_slowly(LayoutConvert *c)
{
    const Layout *src = c->src, *dst = c->dst;
    for (uint32_t reg = 0; reg < layout_regs(dst); reg++) {
        c->reg_map[reg] = LAYOUT_NOREG;
        for (uint32_t block = 0; block < layout_blocks(dst); block++) {
            for (uint32_t warp = 0; warp < layout_warps(dst); warp++) {
                for (uint32_t lane = 0; lane < layout_lanes(dst); lane++) {
                    int32_t x[LAYOUT_MAX_RANK], y[LAYOUT_MAX_RANK];
                    layout_element(dst, reg, lane, warp, block, x);
                    if (!layout_in_tile(dst, x)) continue;
                    if (c->reg_map[reg] == LAYOUT_NOREG)
                        c->reg_map[reg] = (int16_t)layout_find_reg(src, x, lane, warp, block);
                    if (c->reg_map[reg] == LAYOUT_NOREG) return false;
                    layout_element(src, (uint32_t)c->reg_map[reg], lane, warp, block, y);
                    if (memcmp(x, y, dst->rank * sizeof *x)) return false;
                }
            }
        }
    }
    set_register_kind(c);
    return true;
}

/* --- shuffles ---------------------------------------------------------------------------------------- */

typedef struct {
    int nlane, nreg;
    uint32_t skew[6];     /* S: destination register bits for each lane bit */
    uint64_t lane_col[6]; /* (register', lane') packed, for each lane bit, skew included */
} Skew;

static void skew_columns(const Relation *r, Skew *k)
{
    for (int i = 0; i < k->nlane; i++)
        k->lane_col[i] = apply(r, LAYOUT_LANE, 1u << i) ^ apply(r, LAYOUT_REG, k->skew[i]);
}

/* Lanes that read the same lane must read the same register. */
static bool one_shuffle_a_round(const Relation *r, const Skew *k)
{
    F2Map m = { .nin = k->nlane, .nout = 6 };
    uint64_t kernel[64];
    for (int i = 0; i < k->nlane; i++) m.col[i] = field(&r->a, LAYOUT_LANE, k->lane_col[i]);
    int n = f2_kernel(&m, kernel);
    for (int i = 0; i < n; i++) {
        uint64_t x = 0;
        for (uint64_t bits = kernel[i]; bits; bits &= bits - 1) x ^= k->lane_col[__builtin_ctzll(bits)];
        if (field(&r->a, LAYOUT_REG, x)) return false;
    }
    return true;
}

/* S is zero where it can be; else, for each kernel vector of Qll (its highest lane bit stands for it), a
 * register bit that moves a lane outside what is reached so far; failing that, another copy of the source
 * does. */
static bool find_skew(Relation *r, Skew *k)
{
    k->nlane = r->b.nb[LAYOUT_LANE];
    k->nreg = r->b.nb[LAYOUT_REG];
    skew_columns(r, k);
    if (one_shuffle_a_round(r, k)) return true;
    F2Map m = { .nin = k->nlane, .nout = 6 };
    uint64_t kernel[64], x;
    for (int i = 0; i < k->nlane; i++) m.col[i] = field(&r->a, LAYOUT_LANE, k->lane_col[i]);
    int n = f2_kernel(&m, kernel);
    for (int i = 0; i < n; i++) {
        int pivot = 63 - __builtin_clzll(kernel[i]);
        bool found = false;
        for (int reg = 0; reg < k->nreg && !found; reg++) {
            uint64_t lane = field(&r->a, LAYOUT_LANE, apply(r, LAYOUT_REG, 1u << reg));
            if (!lane || f2_solve(&m, lane, &x)) continue;
            k->skew[pivot] = 1u << reg;
            m.col[pivot] ^= lane;
            found = true;
        }
        for (int j = 0; j < r->ncopy && !found; j++) {
            uint64_t lane = field(&r->a, LAYOUT_LANE, r->copy[j]);
            if (!lane || r->copy[j] >> r->a.off[LAYOUT_WARP] || f2_solve(&m, lane, &x)) continue;
            r->q[r->b.off[LAYOUT_LANE] + pivot] ^= r->copy[j];
            m.col[pivot] ^= lane;
            found = true;
        }
    }
    skew_columns(r, k);
    return one_shuffle_a_round(r, k);
}

/* The register bits that move with their lane: rounds that differ in one share the shuffle. At most log2(4 /
 * elem_bytes) of them. */
static int pack_bits(const Relation *r, const Skew *k, int elem_bytes, uint32_t *bits)
{
    int want = elem_bytes == 1 ? 2 : elem_bytes == 2 ? 1 : 0, n = 0;
    uint32_t skewed = 0;
    for (int i = 0; i < k->nlane; i++) skewed |= k->skew[i];
    for (int reg = 0; reg < k->nreg && n < want; reg++) {
        if (skewed >> reg & 1 || field(&r->a, LAYOUT_LANE, apply(r, LAYOUT_REG, 1u << reg))) continue;
        bits[n++] = 1u << reg;
    }
    return n;
}

static bool fill_round(const Relation *r, const Skew *k, uint32_t rho, LayoutRound *out)
{
    bool any = false, same = true;
    uint32_t nlanes = 1u << k->nlane;
    uint64_t start = apply(r, LAYOUT_REG, rho);
    int xor_ = -1;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < LAYOUT_MAX_LANES; i++) out->send[i] = out->recv[i] = LAYOUT_NOREG;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        uint64_t x = start;
        uint32_t to = rho;
        for (uint32_t bits = lane; bits; bits &= bits - 1) {
            x ^= k->lane_col[__builtin_ctz(bits)];
            to ^= k->skew[__builtin_ctz(bits)];
        }
        uint32_t from = field(&r->a, LAYOUT_LANE, x);
        int reg = real_value(&r->a, LAYOUT_REG, field(&r->a, LAYOUT_REG, x)),
            dst = real_value(&r->b, LAYOUT_REG, to);
        out->src[lane] = (uint8_t)from;
        if (!lane) xor_ = (int)from;
        if ((from ^ lane) != (uint32_t)xor_) xor_ = -2;
        if (reg < 0 || dst < 0) continue; /* a hole on either side lies in the padding */
        out->recv[lane] = (int16_t)dst;
        out->send[from] = (int16_t)reg;
        any = true;
        same &= from == lane;
    }
    out->shuffle = !same;
    out->xor_ = (int8_t)(xor_ < 0 ? -1 : xor_);
    for (int i = 0; i < k->nlane; i++) {
        if (k->skew[i]) out->recv_mask |= (uint8_t)(1u << i);
    }
    return any;
}

/* The lane bits on which the sent register depends: those in which two senders differ alone and send
 * different registers. */
static void set_send_mask(LayoutRound *out, int nlane)
{
    for (uint32_t lane = 0; lane < 1u << nlane; lane++) {
        for (int i = 0; i < nlane; i++) {
            uint32_t other = lane ^ 1u << i;
            if (out->send[lane] != LAYOUT_NOREG && out->send[other] != LAYOUT_NOREG &&
                out->send[lane] != out->send[other]) {
                out->send_mask |= (uint8_t)(1u << i);
            }
        }
    }
}

/* Lanes nobody reads send what lanes equal under the mask send, so that the table is a function of the masked
 * bits. */
static void complete_send(LayoutRound *out, int nlane)
{
    for (uint32_t lane = 0; lane < 1u << nlane; lane++) {
        for (uint32_t other = 0; other < 1u << nlane && out->send[lane] == LAYOUT_NOREG; other++) {
            if (((lane ^ other) & out->send_mask) == 0) out->send[lane] = out->send[other];
        }
    }
}

/* Is the completed table a function of the masked bits alone? (Readers may leave gaps that hide a
 * dependence.) */
static bool send_is_function(const LayoutRound *out, int nlane)
{
    for (uint32_t lane = 0; lane < 1u << nlane; lane++) {
        uint32_t other = lane & out->send_mask;
        if (out->send[lane] != out->send[other] && out->send[lane] != LAYOUT_NOREG &&
            out->send[other] != LAYOUT_NOREG)
            return false;
    }
    return true;
}

/* Does each warp have all it needs? */
static bool within_warps(const Relation *r)
{
    return same_threads(r, LAYOUT_WARP) && stays_in(r, LAYOUT_REG, LAYOUT_WARP) &&
           stays_in(r, LAYOUT_LANE, LAYOUT_WARP);
}

/* Do no two warps hold the same element? Those that do write it to the same place of shared memory, and a
 * warp barrier orders none of the other's writes. */
static bool warps_hold_apart(const Layout *l)
{
    for (uint32_t w = 0; w < layout_warps(l); w++)
        if (!layout_is_unique(l, 0, w, 0)) return false;
    return true;
}

static bool plan_shuffles(Arena *a, Relation *r, int elem_bytes, LayoutConvert *c)
{
    Skew k = { 0 };
    if (!within_warps(r)) return false;
    if (r->b.nb[LAYOUT_REG] > 10 || !find_skew(r, &k)) return false;
    uint32_t pbits[2], packed = 0, total = 1u << k.nreg, shuffles = 0, selects = 0;
    int np = pack_bits(r, &k, elem_bytes, pbits);
    for (int i = 0; i < np; i++) packed |= pbits[i];
    c->pack = 1u << np;
    c->nround = 0;
    c->round = arena_alloc(a, total * sizeof *c->round);
    for (uint32_t rho = 0; rho < total; rho++) {
        if (rho & packed) continue;
        bool any = false, moves = false;
        LayoutRound *group = &c->round[c->nround];
        for (uint32_t p = 0; p < c->pack; p++) {
            uint32_t at = rho ^ (p & 1 ? pbits[0] : 0) ^ (p & 2 ? pbits[1] : 0);
            any |= fill_round(r, &k, at, &group[p]);
            set_send_mask(&group[p], k.nlane);
            complete_send(&group[p], k.nlane);
            if (!send_is_function(&group[p], k.nlane)) group[p].send_mask = (uint8_t)((1u << k.nlane) - 1);
            moves |= group[p].shuffle;
            if (!p)
                selects += (1u << __builtin_popcount(group[p].send_mask)) - 1 +
                           (1u << __builtin_popcount(group[p].recv_mask)) - 1;
        }
        if (!any) continue;
        for (uint32_t p = 0; p < c->pack; p++) group[p].shuffle = moves;
        shuffles += moves;
        c->nround += c->pack;
    }
    c->kind = LAYOUT_CONVERT_SHUFFLE;
    c->cost = shuffles * SHUFFLE_COST * (elem_bytes > 4 ? (uint32_t)elem_bytes / 4 : 1) + selects;
    return true;
}

/* --- shared memory ----------------------------------------------------------------------------------- */

static uint32_t access_cost(const Layout *l, const LayoutVector *v, int elem_bytes)
{
    uint32_t width = v->n * (uint32_t)elem_bytes, phases = width <= 4 ? 1 : width / 4;
    return layout_regs(l) / v->n * (phases + 1) * (layout_lanes(l) / 32 ? layout_lanes(l) / 32 : 1);
}

static uint32_t try_shared(
    Arena *a, int fast, int elem_bytes, uint32_t widest, uint32_t best, LayoutConvert *c)
{
    int rank = c->src->rank;
    LayoutAccess writer = { .layout = c->src, .max_bytes = widest },
                 reader = { .layout = c->dst, .max_bytes = widest };
    int32_t order[LAYOUT_MAX_RANK];
    order[0] = fast;
    for (int d = rank - 1, n = 1; d >= 0; d--) {
        if (d != fast) order[n++] = d;
    }
    uint32_t conflicts = 0;
    const LayoutShared *s =
        layout_shared_choose(a, rank, c->src->tile, order, elem_bytes, &writer, &reader, 16, &conflicts);
    if (!s) return 0;
    LayoutVector store, load;
    layout_shared_vector(c->src, s, widest, &store);
    layout_shared_vector(c->dst, s, widest, &load);
    uint32_t cost = access_cost(c->src, &store, elem_bytes) + access_cost(c->dst, &load, elem_bytes) +
                    (c->warp_local ? WARP_BARRIER_COST : BARRIER_COST) + conflicts / layout_warps(c->src);
    if (c->kind != LAYOUT_CONVERT_SHARED || cost < best) {
        c->kind = LAYOUT_CONVERT_SHARED;
        c->shared = s;
        c->store = store;
        c->load = load;
        c->bytes = s->bytes;
        c->cost = cost;
    }
    return conflicts;
}

/* Each axis that either side holds contiguously may be the fast one; where 16-byte accesses conflict, words
 * may not. */
static void plan_shared(Arena *a, int elem_bytes, LayoutConvert *c)
{
    int rank = c->src->rank;
    for (int fast = rank - 1; fast >= 0; fast--) {
        if (fast < rank - 1 && layout_contiguity(c->src, fast) == 1 && layout_contiguity(c->dst, fast) == 1)
            continue;
        if (try_shared(a, fast, elem_bytes, 16, c->cost, c) && elem_bytes <= 4)
            try_shared(a, fast, elem_bytes, 4, c->cost, c);
    }
}

static const LayoutConvert *plan_convert(
    Arena *a, const Layout *src, const Layout *dst, int elem_bytes, bool may_share)
{
    if (src->rank != dst->rank || memcmp(src->tile, dst->tile, sizeof src->tile) || elem_bytes < 1 ||
        elem_bytes > 16)
        return NULL;
    for (int in = LAYOUT_LANE; in < LAYOUT_INPUTS; in++) {
        if (src->count[in] != dst->count[in]) return NULL;
    }
    LayoutConvert *c = arena_alloc(a, sizeof *c);
    c->src = src;
    c->dst = dst;
    c->reg_map = arena_alloc(a, layout_regs(dst) * sizeof *c->reg_map);
    for (uint32_t i = 0; i < layout_regs(dst); i++) c->reg_map[i] = LAYOUT_NOREG;
    if (layout_equal(src, dst)) {
        for (uint32_t i = 0; i < layout_regs(dst); i++) c->reg_map[i] = (int16_t)i;
        return c;
    }
    Relation r;
    bool linear = relate(src, dst, &r);
    if (linear ? plan_registers(&r, c) : plan_registers_slowly(c)) return c;
    LayoutConvert shuffle = *c;
    bool can = linear && plan_shuffles(a, &r, elem_bytes, &shuffle);
    /* Shared memory belongs to one block: layouts over several blocks convert within their warps or not at
     * all. */
    if (may_share && src->count[LAYOUT_BLOCK] == 1 && !(can && shuffle.cost <= WARP_BARRIER_COST)) {
        c->warp_local = linear && within_warps(&r) && warps_hold_apart(src);
        plan_shared(a, elem_bytes, c);
    }
    if (can && (c->kind != LAYOUT_CONVERT_SHARED || shuffle.cost <= c->cost)) *c = shuffle;
    return c->kind == LAYOUT_CONVERT_SHARED || can ? c : NULL;
}

const LayoutConvert *layout_convert(Arena *a, const Layout *src, const Layout *dst, int elem_bytes)
{ return plan_convert(a, src, dst, elem_bytes, true); }

const LayoutConvert *layout_convert_within(Arena *a, const Layout *src, const Layout *dst, int elem_bytes)
{ return plan_convert(a, src, dst, elem_bytes, false); }

const LayoutConvert *layout_convert_plain(Arena *a, const LayoutConvert *plan, int elem_bytes)
{
    int32_t order[LAYOUT_MAX_RANK];
    if (plan->kind != LAYOUT_CONVERT_SHARED) return plan;
    for (int d = 0; d < plan->src->rank; d++) order[d] = plan->src->rank - 1 - d;
    const LayoutShared *s = layout_shared_rows(a, plan->src->rank, plan->src->tile, order, elem_bytes, 0);
    if (!s) return plan;
    LayoutConvert *c = arena_alloc(a, sizeof *c);
    *c = *plan;
    c->shared = s;
    c->bytes = s->bytes;
    layout_shared_vector(c->src, s, 16, &c->store);
    layout_shared_vector(c->dst, s, 16, &c->load);
    return c;
}
