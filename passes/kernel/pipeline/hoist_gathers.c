/* hoist_gathers.c: of hoist-loads: gathers that start in front of a reduction, such as weights of channels.
 *
 *   %m = reduce_sum %x                             %w = gather W[(arange) / 3097]
 *   %w = gather W[(arange) / 3097]           ->    %m = reduce_sum %x
 *   store Y, (mul (sub %x, %m), %w)                %w1 = opaque %w
 *                                                  store Y, (mul (sub %x, %m), %w1)
 *
 * Of elements that have one index, or two, a thread holds only what is read (gather/few_indices.h), and
 * `opaque` chooses of two where they are needed. Others are held as they are. Indices are computed from
 * coordinates alone, so that they need no registers, or they are there already. */
#include "passes/kernel/gather/few_indices.h"
#include "passes/kernel/pipeline/hoist_loads.h"

static const EarlyGather *known(Hoist *c, const Instr *gather)
{
    for (size_t k = 0; k < c->gathers.len; k++)
        if (c->gathers.data[k].instr == gather) return &c->gathers.data[k];
    const Layout *l = layouts_get(&c->p->layouts, ir_result(gather)->type);
    const FewIndices few = kernel_few_indices(c->f, &c->ranges, gather, l, c->p->target);
    const EarlyGather g = { gather, kernel_few_words(&few, gather, l),
        few.way == GATHER_BOTH || few.way == GATHER_LANES };
    vec_push(&c->s->arena, &c->gathers, g);
    return &c->gathers.data[c->gathers.len - 1];
}

int hoist_gather_words(Hoist *c, const Instr *gather) { return known(c, gather)->words; }

bool hoist_can_precede(const Value *v, const Instr *place)
{
    const Instr *d = v->def;
    /* Tiles without a layout have no registers: their users compute each element from its coordinates. */
    bool held = v->type->kind != TYPE_SCALAR && v->type->layout;
    if (!d || d->mark < place->mark) return true;
    if (held || d->n_blocks || !(op_info[d->op].flags & OPF_PURE)) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!hoist_can_precede(ir_operand(d, k), place)) return false;
    return true;
}

void hoist_find_gathers(Hoist *c, const Instr *first, const Instr *place, InstrList *all)
{
    for (Instr *i = first->next; i; i = i->next) {
        MemParts m;
        if (i->op != OP_GATHER || kernel_kept(i) || !ir_mem_parts(i, &m) || m.token || !m.result->uses ||
            m.result->type->kind != TYPE_TILE || !m.result->type->layout ||
            c->f->params[m.param].kind != PARAM_IN)
            continue;
        bool can = true;
        for (int k = 0; k < i->n_operands; k++) can = can && hoist_can_precede(ir_operand(i, k), place);
        if (can) vec_push(&c->s->arena, all, i);
    }
}

void hoist_choose_late(Hoist *c, Instr *gather)
{
    Value *v = ir_result(gather);
    Instr *first = NULL;
    if (!known(c, gather)->both) return;
    for (const Use *u = v->uses; u; u = u->next)
        if (!first || u->user->mark < first->mark) first = u->user;
    Builder b = ir_before(first);
    b.loc = gather->loc;
    Instr *late = ir_emit(&b, OP_OPAQUE, &v, 1, NO_ATTRS, NULL)->def;
    late->mark = first->mark - 1;
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        for (int k = 0; u->user != late && k < u->user->n_operands; k++)
            if (&u->user->operands[k] == u) {
                ir_set_operand(u->user, k, ir_result(late));
                break;
            }
    }
}
