/* transposed-views: a step of warp-specialization: a tile that products read as it is and transposed is
 * loaded once.
 *
 *   %a = load Q[i.., :]; %b = load Q[i.., :] {order = [1, 0]}      ->   %a = load Q[i.., :]; %b = permute %a
 *
 * The front end's `transpose(load(...))` has become a load of its own (mma-select). A stage holds rows of a
 * swizzle's span, whichever axis a product sums over, and a wgmma descriptor says in which order they are
 * read. Therefore one stage serves both products: `permute` becomes `shared_transpose` on the consumers'
 * side.
 *
 * Requires: two loads of one window in one block, of 16-bit elements, which feed nothing but products and
 * which TMA can do. Keeps: everything. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

static bool feeds_products(const Instr *load)
{
    for (const Use *u = ir_result(load)->uses; u; u = u->next)
        if (u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) return false;
    return ir_is_used(load);
}

static bool may_transpose(Roles *c, const Instr *load)
{
    const Type *t = ir_result(load)->type;
    if (t->kind != TYPE_TILE || t->rank != 2 || dtype_bytes(t->dtype) != 2 || kernel_parts(load, NULL) ||
        !feeds_products(load))
        return false;
    const char *why = c->why;
    Loc loc = c->why_loc;
    bool fits = roles_tma_window(c, load);
    c->why = why;
    c->why_loc = loc;
    return fits;
}

bool roles_transpose_views(void *user)
{
    Roles *c = user;
    InstrList loads = { 0 };
    bool changed = false;
    if (kernel_skips(c->p, PASS_TRANSPOSED_VIEWS)) return false;
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++) {
        Instr *first = loads.data[k];
        if (!first || !may_transpose(c, first)) continue;
        for (size_t j = k + 1; j < loads.len; j++) {
            Instr *other = loads.data[j];
            if (!other || other->block != first->block || !kernel_same_window_exchanged(first, other) ||
                !may_transpose(c, other))
                continue;
            kernel_join_exchanged(first, other);
            loads.data[j] = NULL;
            changed = true;
            break;
        }
    }
    return changed;
}

void roles_take_transposed(Roles *c, Value *matrix, Value *view)
{
    for (Use *u = matrix->uses, *next; u; u = next) {
        next = u->next;
        Instr *i = u->user;
        if (i->op != OP_PERMUTE) continue;
        Builder b = ir_before(i);
        Value *transposed = roles_transposed_view(c, &b, view);
        transposed->name = ir_result(i)->name;
        ir_replace(ir_result(i), transposed);
        ir_erase(i);
    }
}

Value *roles_transposed_view(Roles *c, Builder *b, Value *view)
{
    const Type *t = view->type;
    const LayoutShared *s = layouts_shared(&c->p->layouts, t);
    const int32_t tile[2] = { s->tile[1], s->tile[0] };
    const LayoutShared *transposed = NULL;
    for (int k_axis = 0; k_axis < 2 && !transposed; k_axis++) /* K is the axis that the product reads along */
        transposed = layout_wgmma_shared(
            &c->s->arena, tile, k_axis, 1 - s->order[0], s->elem_bytes, s->panel * s->elem_bytes);
    if (!transposed) ir_fail(c->s, c->f->loc, "a stage that cannot be read in the other order");
    return ir_emit(b, OP_SHARED_TRANSPOSE, &view, 1, NO_ATTRS,
        type_shared(c->s, t->dtype, 2, (int64_t[]){ t->shape[1], t->shape[0] },
            layouts_shared_text(&c->p->layouts, transposed)));
}
