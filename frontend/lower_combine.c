/* lower_combine.c: the fn that `combine =` of reduce and scan names, lowered into the operation's block over
 * two scalars. */
#include "frontend/lower.h"

/* Branches in a combining block become choices: everything in it is pure, so both sides may be computed. What
 * stays is element-wise, and every backend runs it on as many elements at once as it likes. The first
 * instruction that does not fit, or NULL. */
static const Instr *straighten(Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        if (i->op == OP_IF) {
            for (int k = 0; k < 2; k++) {
                const Instr *bad = straighten(i->blocks[k]);
                if (bad) return bad;
                Builder before = ir_before(i);
                while (i->blocks[k]->first->op != OP_YIELD) {
                    Instr *x = i->blocks[k]->first;
                    ir_unlink(x);
                    ir_place(&before, x);
                }
            }
            Builder before = ir_before(i);
            before.loc = i->loc;
            for (int k = 0; k < i->n_results; k++) {
                Value *v[3] = { ir_operand(i, 0), ir_operand(i->blocks[0]->last, k),
                    ir_operand(i->blocks[1]->last, k) };
                ir_replace(&i->results[k], ir_emit(&before, OP_WHERE, v, 3, NO_ATTRS, NULL));
            }
            ir_erase(i);
            continue;
        }
        bool plain = i->op == OP_CONST || i->op == OP_YIELD || (op_info[i->op].flags & OPF_ELEM);
        for (int k = 0; k < i->n_results; k++) plain &= i->results[k].type->kind == TYPE_SCALAR;
        if (!plain) return i;
    }
    return NULL;
}

bool lower_fill_combine(Lower *l, Instr *i, const Node *name, const Node *fn)
{
    Builder outer = l->b;
    Block *block = i->blocks[0];
    l->b = ir_at_end(block);
    l->b.loc = name->loc;
    l->in_combine++;
    V result = lower_expand_fn(l, name->loc, fn, (V[]){ value_ir(block->args[0]), value_ir(block->args[1]) });
    l->in_combine--;
    DType d = block->args[0]->type->dtype;
    if (value_is_untyped(result)) result = lower_adapt(l, result, d, name->loc);
    bool ok = (result.kind == V_IR || result.kind == V_CONST) && value_rank(result) == 0 &&
              value_dtype(result) == d;
    if (ok) {
        Value *v = lower_materialize(l, result, name->loc);
        ir_build(&l->b, OP_YIELD, &v, 1, NO_ATTRS, NULL, 0);
        const Instr *bad = straighten(block);
        bool loop = bad && (bad->op == OP_FOR || bad->op == OP_WHILE);
        if (bad)
            lower_error_note(l, bad->loc,
                loop ? "`const for` writes the steps out" : "it is called for each pair of elements",
                loop ? "`%s` holds a loop, and a combine function must not"
                     : "`%s` makes a tile here; a combine function computes with scalars alone",
                name->name);
        ok = !bad;
    } else if (result.kind != V_ERROR) {
        lower_error(l, name->loc, "`%s` of two `%s` must give one `%s`, not %s", name->name, dtype_name(d),
            dtype_name(d), value_describe(l, result));
    }
    l->b = outer;
    return ok;
}
