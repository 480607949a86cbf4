/* transposed_stages.c: of shared: a tile that products read as it is and transposed is copied once.
 *
 *   %a = load K[i.., :]; %b = load K[i.., :] {order = [1, 0]}      ->   %a = load K[i.., :]; %b = permute %a
 *
 * Such as the rows of a cache that are keys and values at once. The two forms are loads of their own since
 * mma-select. A product of a matrix unit reads a stage in either order, so that one serves both, and
 * `permute` becomes `shared_transpose`: a view of the same bytes.
 *
 * Requires: 16-bit elements, of which ldmatrix turns fragments; two loads of one window in one block that
 * feed nothing but products. Keeps: everything. */
#include "passes/kernel/pipeline/multistage.h"

static bool is_exchange(const Instr *i)
{ return i->op == OP_PERMUTE && ir_result(i)->type->rank == 2 && ir_attr(i, ATTR_ORDER)->v[0] == 1; }

/* Whether it is an operand of a product by matrix instructions. */
static bool is_operand_of_unit(const Use *u)
{
    const Instr *i = u->user;
    return i->op == OP_MMA_SYNC && u != &i->operands[2] && strcmp(ir_attr(i, ATTR_INSTR)->s, "fma") != 0;
}

static bool feeds_units(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!is_operand_of_unit(u)) return false;
    return v->uses != NULL;
}

bool stage_is_exchanged_operand(const Use *u)
{ return is_exchange(u->user) && dtype_bytes(u->value->type->dtype) == 2 && feeds_units(ir_result(u->user)); }

bool kernel_same_window_exchanged(const Instr *a, const Instr *b)
{
    const Attr *x = ir_attr(a, ATTR_ORDER), *y = ir_attr(b, ATTR_ORDER);
    if (a->n_operands != b->n_operands || (x && x->v[0] == 1) == (y && y->v[0] == 1)) return false;
    for (int k = 0; k < a->n_operands; k++)
        if (ir_operand(a, k) != ir_operand(b, k)) return false;
    return ir_same_ints(a, b, ATTR_EXTENTS) && ir_same_ints(a, b, ATTR_STEPS) &&
           ir_attr_int(a, ATTR_CACHE, CACHE_DEFAULT) == ir_attr_int(b, ATTR_CACHE, CACHE_DEFAULT);
}

void kernel_join_exchanged(Instr *kept, Instr *other)
{
    static const int64_t exchanged[2] = { 1, 0 };
    Builder b = ir_after(kept);
    Value *v = ir_result(kept),
          *transposed = ir_emit(&b, OP_PERMUTE, &v, 1, ATTRS(a_ints(ATTR_ORDER, exchanged, 2)), NULL);
    transposed->name = ir_result(other)->name;
    ir_replace(ir_result(other), transposed);
    ir_erase(other);
}

static bool may_join(const Instr *load)
{
    const Type *t = ir_result(load)->type;
    return stage_may(load) && t->rank == 2 && dtype_bytes(t->dtype) == 2 && feeds_units(ir_result(load));
}

void stage_join_exchanged(Staging *c)
{
    InstrList loads = { 0 };
    if (!target_has(c->p->target, TF_LDMATRIX)) return;
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++)
        for (size_t j = k + 1; loads.data[k] && may_join(loads.data[k]) && j < loads.len; j++) {
            Instr *first = loads.data[k], *other = loads.data[j];
            if (!other || other->block != first->block || !may_join(other) ||
                !kernel_same_window_exchanged(first, other))
                continue;
            kernel_join_exchanged(first, other);
            loads.data[j] = NULL;
            break;
        }
}

void stage_read_exchanged(Staging *c, Value *tile, Value *view)
{
    const Type *t = view->type;
    for (Use *u = tile->uses, *next; u; u = next) {
        next = u->next;
        Instr *i = u->user;
        if (!is_exchange(i)) continue;
        const LayoutShared *own = layouts_shared(&c->p->layouts, t);
        LayoutShared *s = arena_new(&c->s->arena, LayoutShared);
        *s = *own;
        for (int k = 0; k < 2; k++) {
            s->tile[k] = own->tile[1 - k];
            s->order[k] = 1 - own->order[k];
        }
        const Type *turned = type_shared(c->s, t->dtype, 2, (int64_t[]){ t->shape[1], t->shape[0] },
            layouts_shared_text(&c->p->layouts, s));
        Builder b = ir_before(i);
        Value *v = ir_emit(&b, OP_SHARED_TRANSPOSE, &view, 1, NO_ATTRS, turned);
        v->name = ir_result(i)->name;
        ir_replace(ir_result(i), v);
        ir_erase(i);
    }
}
