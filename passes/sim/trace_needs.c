/* trace_needs.c: the values of a kernel that its addresses, masks and control flow are made of, and which of
 * those come from data (tracing.h). */
#include "passes/sim/tracing.h"

static void need(Tracing *c, const Value *v)
{
    if (!v || c->needed[v->id] || !type_is_value(v->type)) return;
    c->needed[v->id] = 1;
    vec_push(&c->s->arena, &c->work, v);
}

bool trace_evaluated(const Instr *i)
{
    OpFamily f = op_family(i->op);
    return f == OPS_CONSTANT || f == OPS_LAUNCH || f == OPS_SHAPE || op_is_elementwise(i->op);
}

static void need_control(Tracing *c, const Instr *i)
{
    if (i->op == OP_FOR)
        for (int k = 0; k < 3; k++) need(c, ir_operand(i, k));
    if (i->op == OP_IF) need(c, ir_operand(i, 0));
    if (i->op == OP_WHILE) need(c, ir_operand(ir_terminator(i->blocks[0]), 0));
}

/* Marks the values from which a value is computed that a loop carries or an `if` gives. */
static void need_carried(Tracing *c, const Instr *i, int k)
{
    need_control(c, i);
    if (i->op == OP_FOR) {
        need(c, i->blocks[0]->args[k + 1]);
        need(c, ir_operand(i, 3 + k));
        need(c, ir_operand(ir_terminator(i->blocks[0]), k));
    } else if (i->op == OP_WHILE) {
        need(c, i->blocks[0]->args[k]);
        need(c, i->blocks[1]->args[k]);
        need(c, ir_operand(i, k));
        need(c, ir_operand(ir_terminator(i->blocks[0]), k + 1));
        need(c, ir_operand(ir_terminator(i->blocks[1]), k));
    } else {
        for (int b = 0; b < 2; b++) need(c, ir_operand(ir_terminator(i->blocks[b]), k));
    }
}

static void need_parts(Tracing *c, const Value *v)
{
    const Instr *d = v->def;
    if (!d) {
        const Instr *loop = v->block->parent;
        if (!loop) return;
        if (loop->op == OP_FOR && v->index == 0) need_control(c, loop);
        else if (loop->op == OP_FOR || loop->op == OP_WHILE)
            need_carried(c, loop, v->index - (loop->op == OP_FOR));
        return;
    }
    if (d->op == OP_FOR || d->op == OP_WHILE || d->op == OP_IF) {
        need_carried(c, d, v->index);
        return;
    }
    if (d->op == OP_LOAD || trace_evaluated(d))
        for (int k = 0; k < d->n_operands; k++)
            if (ir_operand(d, k)->type->kind != TYPE_TENSOR) need(c, ir_operand(d, k));
}

static bool is_access(const Instr *i)
{
    MemParts m;
    return ir_mem_parts(i, &m);
}

bool trace_does_something(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (is_access(i) || i->op == OP_MMA) return true;
        for (int k = 0; trace_is_control(i) && k < i->n_blocks; k++)
            if (trace_does_something(i->blocks[k])) return true;
    }
    return false;
}

void trace_find_needs(Tracing *c, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        MemParts m;
        if (i->op == OP_CALL) trace_refuse(c, "device functions must be inlined first");
        if (op_info[i->op].flags & OPF_KERNEL)
            trace_refuse(c, "accesses are derived from tile IR, not from kernel IR");
        if (ir_mem_parts(i, &m)) {
            for (int a = 0; a < m.rank; a++) need(c, m.idx[a]);
            need(c, m.mask);
        }
        if (!trace_is_control(i)) continue;
        bool any = false;
        for (int k = 0; k < i->n_blocks; k++) any |= trace_does_something(i->blocks[k]);
        if (any) need_control(c, i);
        for (int k = 0; k < i->n_blocks; k++) trace_find_needs(c, i->blocks[k]);
    }
    while (c->work.len) need_parts(c, c->work.data[--c->work.len]);
}

static void taint(Tracing *c, const Value *v, bool by)
{
    if (by && !c->tainted[v->id]) {
        c->tainted[v->id] = 1;
        c->changed = true;
    }
}

void trace_find_tainted(Tracing *c, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        bool by = !trace_evaluated(i) && !trace_is_control(i);
        for (int k = 0; !trace_is_control(i) && k < i->n_operands; k++)
            by |= trace_is_tainted(c, ir_operand(i, k));
        if (i->op == OP_FOR) {
            const Block *body = i->blocks[0];
            by = trace_is_tainted(c, ir_operand(i, 1)) || trace_is_tainted(c, ir_operand(i, 0)) ||
                 trace_is_tainted(c, ir_operand(i, 2));
            taint(c, body->args[0],
                trace_is_tainted(c, ir_operand(i, 0)) || trace_is_tainted(c, ir_operand(i, 2)));
            for (int k = 0; k < i->n_results; k++) {
                bool t = trace_is_tainted(c, ir_operand(i, 3 + k)) ||
                         trace_is_tainted(c, ir_operand(ir_terminator(body), k));
                taint(c, body->args[k + 1], t);
                taint(c, &i->results[k], t || by);
            }
        } else if (i->op == OP_WHILE) {
            const Instr *end = ir_terminator(i->blocks[0]);
            for (int k = 0; k < i->n_results; k++) {
                bool t = trace_is_tainted(c, ir_operand(i, k)) ||
                         trace_is_tainted(c, ir_operand(ir_terminator(i->blocks[1]), k));
                taint(c, i->blocks[0]->args[k], t);
                taint(c, i->blocks[1]->args[k], trace_is_tainted(c, ir_operand(end, k + 1)));
                taint(c, &i->results[k],
                    trace_is_tainted(c, ir_operand(end, k + 1)) || trace_is_tainted(c, ir_operand(end, 0)));
            }
        } else if (i->op == OP_IF) {
            for (int k = 0; k < i->n_results; k++)
                taint(c, &i->results[k],
                    trace_is_tainted(c, ir_operand(i, 0)) ||
                        trace_is_tainted(c, ir_operand(ir_terminator(i->blocks[0]), k)) ||
                        trace_is_tainted(c, ir_operand(ir_terminator(i->blocks[1]), k)));
        } else {
            for (int k = 0; k < i->n_results; k++) taint(c, &i->results[k], by);
        }
        for (int k = 0; trace_is_control(i) && k < i->n_blocks; k++) trace_find_tainted(c, i->blocks[k]);
    }
}
