/* of_sums.c: of layout: reshapes and slices of a product's sums stay where the sums lie.
 *
 *   %q = reshape %acc : [128, 64, 2]         a lane has both sums of a pair of columns
 *   %a = slice %q {axis = 2, start = 0}      and takes one of them
 *   %x = reshape %a : [128, 64]
 *   %y = mul %x, (load C[..] : [128, 64])    what meets it is loaded to that lane
 *
 * Other examples are halves of columns that are rotated, gates beside values, and joins of such parts.
 * Otherwise the accesses of the group would decide, and each part would be moved on its way in and the result
 * on its way out. A load of a part of a sector finds the rest in the cache.
 *
 * Requires: sums of a matrix unit; reshapes, parts that registers of a thread tell apart, and joins of parts
 * that lie alike; nothing that is ordered along an axis. Keeps: everything. */
#include "passes/kernel/layout/groups.h"

/* The sums of which the group's first value is made by reshapes, parts and joins; NULL: it is not. */
static Value *sums_of(Layouter *c, const Group *g)
{
    enum { MOST_STEPS = 8 };
    for (int k = 0; k < MOST_STEPS && g->moved && g->moved->op != OP_PERMUTE; k++) {
        Value *from = ir_operand(g->moved, 0);
        g = group_of(c, from);
        if (g->mma) return g->native && !g->plain ? from : NULL;
    }
    return NULL;
}

/* The layout of the result where no element leaves its thread; NULL: there is none. */
static const Layout *in_place(Layouter *c, const Instr *i, int rank, const int32_t *tile)
{
    Arena *a = &c->s->arena;
    const Type *from = ir_operand(i, 0)->type;
    if (!from->layout) return NULL;
    const Layout *l = layouts_get(&c->p->layouts, from);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    if (i->op == OP_RESHAPE) return layout_reshape(a, l, rank, tile);
    if (i->op == OP_SLICE)
        return ir_attr_int(i, ATTR_START, 0) % tile[axis] ? NULL : layout_part(a, l, axis, tile[axis]);
    for (int k = 1; k < i->n_operands; k++)
        if (ir_operand(i, k)->type != from) return NULL;
    return layout_concat(a, l, axis, i->n_operands);
}

/* The layout of the sums themselves for a tile of their shape whose registers have another order, as pairs
 * that are joined again have: products' results are stored in ways of their own. */
static const Layout *as_sums(Layouter *c, const Layout *l, Value *sums)
{
    group_assign(c, sums);
    const Layout *own = sums->type->layout ? layouts_get(&c->p->layouts, sums->type) : NULL;
    bool same = own && own->rank == l->rank;
    for (int a = 0; a < l->rank && same; a++) same = own->tile[a] == l->tile[a];
    const LayoutConvert *way =
        same ? layout_convert(&c->s->arena, l, own, dtype_bytes(sums->type->dtype)) : NULL;
    return way && way->kind <= LAYOUT_CONVERT_REGISTERS ? own : l;
}

const Layout *group_of_sums(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->moved;
    Value *sums = g->mma || g->ordered || g->visiting ? NULL : sums_of(c, g);
    if (!sums || ir_result(i)->type->rank != rank) return NULL;
    for (int a = 0; a < rank; a++)
        if (ir_result(i)->type->shape[a] != tile[a]) return NULL;
    g->visiting = true;
    for (int k = 0; k < i->n_operands; k++) group_assign(c, ir_operand(i, k));
    g->visiting = false;
    const Layout *l = in_place(c, i, rank, tile);
    g->followed = l != NULL;
    return l ? as_sums(c, l, sums) : NULL;
}
