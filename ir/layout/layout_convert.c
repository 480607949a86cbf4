/* layout_convert.c: plans for moving a tile from one layout to another: nothing, registers, shuffles within a
 * warp, or shared memory.
 *
 * Each question is one about blocks of Q, the linear map between the two layouts (layout_relation.h):
 *   registers      Q is the identity on lanes, warps and blocks, and registers come from registers only;
 *   shuffles       warps and blocks map to themselves (layout_shuffle.c);
 *   shared memory  everything else.
 * Digits with strides that are no powers of two (above three warpgroups, say), which only one of the layouts
 * has, leave only the element-wise check and shared memory. */
#include "ir/layout/layout_memo.h"
#include "ir/layout/layout_relation.h"
#include <string.h>

/* --- registers --------------------------------------------------------------------------------------- */

static void set_register_kind(LayoutConvert *c)
{
    c->kind = LAYOUT_CONVERT_NONE;
    for (uint32_t i = 0; i < layout_regs(c->dst); i++) {
        if (c->reg_map[i] != LAYOUT_NOREG && c->reg_map[i] != (int16_t)i) c->kind = LAYOUT_CONVERT_REGISTERS;
    }
    if (layout_regs(c->dst) > layout_regs(c->src)) c->kind = LAYOUT_CONVERT_REGISTERS;
}

static bool plan_registers(const LayoutRelation *r, LayoutConvert *c)
{
    if (!relation_same_threads(r, LAYOUT_LANE) || !relation_stays_in(r, LAYOUT_REG, LAYOUT_LANE))
        return false;
    for (uint32_t bits = 0; bits < 1u << r->b.nb[LAYOUT_REG]; bits++) {
        int to = relation_real_value(&r->b, LAYOUT_REG, bits);
        if (to < 0) continue;
        int from = relation_real_value(
            &r->a, LAYOUT_REG, relation_field(&r->a, LAYOUT_REG, relation_apply(r, LAYOUT_REG, bits)));
        c->reg_map[to] = (int16_t)(from < 0 ? LAYOUT_NOREG : from);
    }
    set_register_kind(c);
    return true;
}

/* The same test for every element, for layouts that have no linear view. */
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

/* Whether no two warps hold the same element. Warps that do write it to the same address of shared memory,
 * and a warp barrier does not order the writes of another warp. */
static bool warps_hold_apart(const Layout *l)
{
    for (uint32_t w = 0; w < layout_warps(l); w++)
        if (!layout_is_unique(l, 0, w, 0)) return false;
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
                    (c->warp_local ? CONVERT_WARP_BARRIER_COST : CONVERT_BARRIER_COST) +
                    conflicts / layout_warps(c->src);
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

/* A plan, of which *done says whether renaming registers is all of it. *linear: the relation is one of bits.
 * NULL: the layouts differ in more than where elements are. */
static LayoutConvert *plan_renaming(Arena *a, const Layout *src, const Layout *dst, int elem_bytes,
    LayoutRelation *r, bool *linear, bool *done)
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
    *linear = false;
    if ((*done = layout_equal(src, dst))) {
        for (uint32_t i = 0; i < layout_regs(dst); i++) c->reg_map[i] = (int16_t)i;
        return c;
    }
    *linear = layout_relate(src, dst, r);
    *done = *linear ? plan_registers(r, c) : plan_registers_slowly(c);
    return c;
}

static const LayoutConvert *plan_anew(
    Arena *a, const Layout *src, const Layout *dst, int elem_bytes, bool may_share)
{
    LayoutRelation r;
    bool linear, done;
    LayoutConvert *c = plan_renaming(a, src, dst, elem_bytes, &r, &linear, &done);
    if (!c || done) return c;
    LayoutConvert shuffle = *c;
    bool can = linear && layout_plan_shuffles(a, &r, elem_bytes, &shuffle);
    /* Shared memory belongs to one block. Therefore layouts over several blocks are converted within their
     * warps, or not at all. */
    if (may_share && src->count[LAYOUT_BLOCK] == 1 && !(can && shuffle.cost <= CONVERT_WARP_BARRIER_COST)) {
        c->warp_local = linear && relation_within_warps(&r) && warps_hold_apart(src);
        plan_shared(a, elem_bytes, c);
    }
    if (can && (c->kind != LAYOUT_CONVERT_SHARED || shuffle.cost <= c->cost)) *c = shuffle;
    return c->kind == LAYOUT_CONVERT_SHARED || can ? c : NULL;
}

static const LayoutConvert *plan_convert(
    Arena *a, const Layout *src, const Layout *dst, int elem_bytes, bool may_share)
{
    const LayoutMemoKey key = { src, dst, elem_bytes, may_share };
    const LayoutConvert *plan = NULL;
    if (layout_memo_find(a, &key, &plan)) return plan;
    plan = plan_anew(a, src, dst, elem_bytes, may_share);
    layout_memo_keep(a, &key, plan);
    return plan;
}

bool layout_convert_renames(Arena *a, const Layout *src, const Layout *dst, int elem_bytes)
{
    const LayoutMemoKey key = { src, dst, elem_bytes, true };
    const LayoutConvert *plan = NULL;
    LayoutRelation r;
    bool linear, done;
    if (layout_memo_find(a, &key, &plan)) return plan && plan->kind <= LAYOUT_CONVERT_REGISTERS;
    return plan_renaming(a, src, dst, elem_bytes, &r, &linear, &done) && done;
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
