/* layout_relation.h: a pair of layouts as one linear map, from which layout_convert.c plans moves in
 * registers, and layout_shuffle.c moves within warps.
 *
 * Both layouts are read as purely F2-linear maps over the same padded box (digits of size n as ceil(log2 n)
 * bits, some register numbers being holes). Digits whose strides are no powers of two have such a box where
 * both layouts have the same ones: there each takes whole bits of the coordinate. Q = A^-1 B takes a
 * destination (register, lane, warp, block) to a source. */
#pragma once
#include "ir/layout/layout_priv.h"

enum { CONVERT_BARRIER_COST = 64, CONVERT_WARP_BARRIER_COST = 32, CONVERT_SHUFFLE_COST = 2 };

typedef struct {
    const Layout *l;
    int nb[LAYOUT_INPUTS],
        off[LAYOUT_INPUTS]; /* bits of each input and where they start in the packed word */
    F2Map map;              /* packed input -> coordinate word (axis widths common to both sides) */
} LayoutLinear;

typedef struct {
    LayoutLinear a, b;
    uint64_t q[64];    /* packed input of a for each input bit of b */
    uint64_t copy[64]; /* kernel of a: moves between inputs that hold the same element */
    int ncopy;
} LayoutRelation;

/* The field of an input in a packed word. */
static inline uint32_t relation_field(const LayoutLinear *v, LayoutInput in, uint64_t packed)
{ return (uint32_t)(packed >> v->off[in] & ((1ull << v->nb[in]) - 1)); }

/* The input's value behind a packed word's field, -1 for a hole. */
int relation_real_value(const LayoutLinear *, LayoutInput, uint32_t bits);
/* Q column by column; where a has copies, of the possible sources the nearest. False: the layouts have no
 * linear view. */
bool layout_relate(const Layout *src, const Layout *dst, LayoutRelation *);
/* The packed source of a value of one input of the destination. */
uint64_t relation_apply(const LayoutRelation *, LayoutInput, uint32_t bits);
/* Whether Q is the identity on this input and those after it. */
bool relation_same_threads(const LayoutRelation *, LayoutInput from);
/* Whether this input of the destination depends on inputs below `limit` alone. */
bool relation_stays_in(const LayoutRelation *, LayoutInput, LayoutInput limit);
/* Whether each warp has all elements that it needs. */
bool relation_within_warps(const LayoutRelation *);

/* layout_shuffle.c: plans the move by shuffles within warps; false where none does. */
bool layout_plan_shuffles(Arena *, LayoutRelation *, int elem_bytes, LayoutConvert *);
