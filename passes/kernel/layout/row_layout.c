/* row_layout.c: of layout: tiles whose rows along one axis are worked on by lanes side by side, and whether
 * two layouts have the same rows. */
#include "passes/kernel/layout/groups.h"

const Layout *kernel_row_layout(Arena *a, const KernelPlan *p, const Type *t, int axis)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK],
        order[TILE_MAX_RANK];
    int32_t wave = p->target->wave, w = p->warps, n = 0;
    order[n++] = axis;
    for (int d = t->rank - 1; d >= 0; d--)
        if (d != axis) order[n++] = d;
    for (int d = 0; d < TILE_MAX_RANK; d++) {
        tile[d] = d < t->rank ? (int32_t)t->shape[d] : 1;
        per[d] = lanes[d] = warps[d] = 1;
    }
    bool along = axis == t->rank - 1; /* otherwise neighbouring threads have different rows */
    while (along && lanes[axis] < wave && lanes[axis] < tile[axis]) lanes[axis] *= 2;
    wave /= lanes[axis];
    for (int k = 1; k < t->rank; k++)
        while (wave > 1 && lanes[order[k]] < tile[order[k]]) {
            lanes[order[k]] *= 2;
            wave /= 2;
        }
    for (; wave > 1 && lanes[axis] < tile[axis]; wave /= 2) lanes[axis] *= 2;
    lanes[order[t->rank > 1]] *= wave;
    for (int k = 1; k < t->rank; k++)
        while (w % 2 == 0 && lanes[order[k]] * warps[order[k]] < tile[order[k]]) {
            warps[order[k]] *= 2;
            w /= 2;
        }
    warps[axis] = w;
    while ((int64_t)per[axis] * lanes[axis] * w < tile[axis]) per[axis] *= 2;
    return layout_blocked(a, t->rank, tile, per, lanes, warps, order);
}

/* Whether the part `in` of both layouts moves alike along all axes but one. */
static bool moves_alike(const Layout *a, const Layout *b, LayoutInput in, int axis)
{
    int32_t c[LAYOUT_MAX_RANK], d[LAYOUT_MAX_RANK];
    if (a->count[in] != b->count[in]) return false;
    for (uint32_t k = 0; k < (uint32_t)a->count[in]; k++) {
        uint32_t at[LAYOUT_INPUTS] = { 0 };
        at[in] = k;
        layout_element(a, at[LAYOUT_REG], at[LAYOUT_LANE], at[LAYOUT_WARP], at[LAYOUT_BLOCK], c);
        layout_element(b, at[LAYOUT_REG], at[LAYOUT_LANE], at[LAYOUT_WARP], at[LAYOUT_BLOCK], d);
        for (int x = 0; x < a->rank; x++)
            if (x != axis && c[x] != d[x]) return false;
    }
    return true;
}

bool kernel_same_rows(const Layout *a, const Layout *b, int axis)
{
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    if (a->rank != b->rank) return false;
    if (layout_equal(a, b)) return true;
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        if (!moves_alike(a, b, (LayoutInput)in, axis)) return false;
    return layout_unique_terms(a, terms) == 0 && layout_unique_terms(b, terms) == 0;
}

/* A search takes about 100 instructions, most of them for the exchange between threads, and some for each
 * element of a thread; a network of pairs takes 3 log2(n)^2 for each element. */
bool kernel_sorts_largest(const Instr *i)
{
    enum { MANY = 16 };
    const Type *t = ir_operand(i, 0)->type;
    return i->op == OP_TOPK && dtype_bytes(t->dtype) <= 4 && i->results[0].type->shape[t->rank - 1] >= MANY;
}
