/* layout_shuffle.c: moves of a tile between layouts by shuffles within warps.
 *
 * Warps and blocks map to themselves in Q (layout_relation.h). With the destination register skewed by a
 * linear S of the lane, for each rho
 *
 *     lane'     = (Qll + Qlr S) lane + Qlr rho
 *     register' = (Qrl + Qrr S) lane + Qrr rho
 *
 * A round is one shuffle if lanes that read the same lane read the same register:
 * ker(Qll + Qlr S) lies in ker(Qrl + Qrr S). */
#include "ir/layout/layout_relation.h"
#include <string.h>

typedef struct {
    int nlane, nreg;
    uint32_t skew[6];     /* S: destination register bits for each lane bit */
    uint64_t lane_col[6]; /* (register', lane') packed, for each lane bit, skew included */
} Skew;

static void skew_columns(const LayoutRelation *r, Skew *k)
{
    for (int i = 0; i < k->nlane; i++)
        k->lane_col[i] = relation_apply(r, LAYOUT_LANE, 1u << i) ^ relation_apply(r, LAYOUT_REG, k->skew[i]);
}

/* Lanes that read the same lane must read the same register. */
static bool one_shuffle_a_round(const LayoutRelation *r, const Skew *k)
{
    F2Map m = { .nin = k->nlane, .nout = 6 };
    uint64_t kernel[64];
    for (int i = 0; i < k->nlane; i++) m.col[i] = relation_field(&r->a, LAYOUT_LANE, k->lane_col[i]);
    int n = f2_kernel(&m, kernel);
    for (int i = 0; i < n; i++) {
        uint64_t x = 0;
        for (uint64_t bits = kernel[i]; bits; bits &= bits - 1) x ^= k->lane_col[__builtin_ctzll(bits)];
        if (relation_field(&r->a, LAYOUT_REG, x)) return false;
    }
    return true;
}

/* S is zero where it can be; else, for each kernel vector of Qll (its highest lane bit stands for it), a
 * register bit that moves a lane outside what is reached so far; failing that, another copy of the source
 * does. */
static bool find_skew(LayoutRelation *r, Skew *k)
{
    k->nlane = r->b.nb[LAYOUT_LANE];
    k->nreg = r->b.nb[LAYOUT_REG];
    skew_columns(r, k);
    if (one_shuffle_a_round(r, k)) return true;
    F2Map m = { .nin = k->nlane, .nout = 6 };
    uint64_t kernel[64], x;
    for (int i = 0; i < k->nlane; i++) m.col[i] = relation_field(&r->a, LAYOUT_LANE, k->lane_col[i]);
    int n = f2_kernel(&m, kernel);
    for (int i = 0; i < n; i++) {
        int pivot = 63 - __builtin_clzll(kernel[i]);
        bool found = false;
        for (int reg = 0; reg < k->nreg && !found; reg++) {
            uint64_t lane = relation_field(&r->a, LAYOUT_LANE, relation_apply(r, LAYOUT_REG, 1u << reg));
            if (!lane || f2_solve(&m, lane, &x)) continue;
            k->skew[pivot] = 1u << reg;
            m.col[pivot] ^= lane;
            found = true;
        }
        for (int j = 0; j < r->ncopy && !found; j++) {
            uint64_t lane = relation_field(&r->a, LAYOUT_LANE, r->copy[j]);
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
static int pack_bits(const LayoutRelation *r, const Skew *k, int elem_bytes, uint32_t *bits)
{
    int want = elem_bytes == 1 ? 2 : elem_bytes == 2 ? 1 : 0, n = 0;
    uint32_t skewed = 0;
    for (int i = 0; i < k->nlane; i++) skewed |= k->skew[i];
    for (int reg = 0; reg < k->nreg && n < want; reg++) {
        if (skewed >> reg & 1 || relation_field(&r->a, LAYOUT_LANE, relation_apply(r, LAYOUT_REG, 1u << reg)))
            continue;
        bits[n++] = 1u << reg;
    }
    return n;
}

static bool fill_round(const LayoutRelation *r, const Skew *k, uint32_t rho, LayoutRound *out)
{
    bool any = false, same = true;
    uint32_t nlanes = 1u << k->nlane;
    uint64_t start = relation_apply(r, LAYOUT_REG, rho);
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
        uint32_t from = relation_field(&r->a, LAYOUT_LANE, x);
        int reg = relation_real_value(&r->a, LAYOUT_REG, relation_field(&r->a, LAYOUT_REG, x)),
            dst = relation_real_value(&r->b, LAYOUT_REG, to);
        out->src[lane] = (uint8_t)from;
        if (!lane) xor_ = (int)from;
        if ((from ^ lane) != (uint32_t)xor_) xor_ = -2;
        if (reg < 0 || dst < 0) continue; /* A hole on either side is in the padding. */
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

/* Whether the completed table is a function of the masked bits alone. (Readers may leave gaps that hide a
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

bool layout_plan_shuffles(Arena *a, LayoutRelation *r, int elem_bytes, LayoutConvert *c)
{
    Skew k = { 0 };
    if (!relation_within_warps(r)) return false;
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
    c->cost = shuffles * CONVERT_SHUFFLE_COST * (elem_bytes > 4 ? (uint32_t)elem_bytes / 4 : 1) + selects;
    return true;
}
