/* multistage_copies.c: of multistage: a loop's loads as copies that run ahead of it, by cp.async or, on
 * AMD, straight to LDS. */
#include "passes/kernel/pipeline/multistage.h"

bool stage_from_counter(const Value *v, const Block *body, int *steps)
{
    if (ir_defined_outside(v, body)) return true;
    if (!v->def) return v == body->args[0];
    MemParts m;
    bool reads = (v->def->op == OP_LOAD || v->def->op == OP_GATHER) && ir_mem_parts(v->def, &m) &&
                 !m.token; /* a tensor that the kernel does not write */
    if (--*steps < 0 || !(reads || (op_info[v->def->op].flags & OPF_PURE)) || v->def->n_blocks ||
        v->def->block != body)
        return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (ir_operand(v->def, k)->type->kind != TYPE_TENSOR &&
            !stage_from_counter(ir_operand(v->def, k), body, steps))
            return false;
    return true;
}

Value *stage_clone(Builder *b, Value *v, const Block *body, ValueMap *map)
{
    if (ir_defined_outside(v, body)) return v;
    Value *known = value_map_get(map, v);
    if (known != v) return known;
    for (int k = 0; k < v->def->n_operands; k++) stage_clone(b, ir_operand(v->def, k), body, map);
    ir_clone(b, v->def, map);
    return value_map_get(map, v);
}

void stage_copy(Staging *c, Builder *b, const Instr *load, Value *view, const Block *body, ValueMap *map)
{
    MemParts m;
    ir_mem_parts(load, &m);
    Value *ops[2 + TILE_MAX_RANK] = { view, m.tensor };
    for (int a = 0; a < m.rank; a++) ops[2 + a] = body ? stage_clone(b, m.idx[a], body, map) : m.idx[a];
    Attr attrs[8];
    int n = 0;
    static const AttrKey kept[] = { ATTR_EXTENTS, ATTR_STEPS, ATTR_ORDER, ATTR_MASKED, ATTR_CACHE };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        if (ir_attr(load, kept[k])) attrs[n++] = *ir_attr(load, kept[k]);
    b->loc = load->loc;
    ir_build(b, OP_COPY, ops, 2 + m.rank, (Attrs){ attrs, n }, NULL, 0);
}

void stage_issue(
    Staging *c, Builder *b, Instr *loop, Instr **loads, Value **bufs, int n, Value *at, Value *stage)
{
    Value *in = ir_bin(b, OP_LT, at, ir_operand(loop, 1));
    Instr *cond = ir_build(b, OP_IF, &in, 1, NO_ATTRS, NULL, 0);
    Builder inner = ir_at_end(cond->blocks[0]);
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    value_map_set(&map, loop->blocks[0]->args[0], at);
    for (int k = 0; k < n; k++)
        stage_copy(c, &inner, loads[k], stage_view(&inner, bufs[k], stage), loop->blocks[0], &map);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    inner = ir_at_end(cond->blocks[1]);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(b, OP_COPY_COMMIT, NULL, 0, NO_ATTRS, NULL, 0);
}

void stage_by_copies(Staging *c, Instr *loop, Instr **loads, int n, int stages)
{
    int each = 0; /* AMD: loads to LDS of a step */
    Block *body = loop->blocks[0];
    Value **bufs = arena_array(&c->s->arena, Value *, (size_t)n);
    Builder b = ir_before(loop);
    /* An earlier loop may still be reading the space. */
    if (c->regions.len) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) {
        bufs[k] = stage_allocate(c, &b, body,
            stage_amd(c) ? stage_dma_type(c, loads[k], stages) : stage_buffer_type(c, loads[k], stages));
        ir_set_name(bufs[k],
            arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(loads[k], 0)->index].name));
        if (stage_amd(c)) each += stage_dma_count(c, loads[k]);
    }
    Value *lo = ir_operand(loop, 0), *step = ir_operand(loop, 2), *at = lo;
    for (int s = 0; s < stages - 1; s++) {
        if (s) at = ir_bin(&b, OP_ADD, at, step);
        stage_issue(c, &b, loop, loads, bufs, n, at, i32(&b, s));
    }
    loop = ir_add_carried(loop, i32(&b, 0), NULL);
    body = loop->blocks[0];
    Value *stage = body->args[body->n_args - 1];
    ir_set_name(stage, "stage");
    b = (Builder){ .module = c->f->module, .block = body, .before = body->first, .loc = loop->loc };
    Instr *wait = ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, stages - 2)), NULL, 0);
    if (each) ir_set_attr(c->s, wait, a_int(ATTR_COUNT, each));
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    Value *ahead = body->args[0];
    for (int s = 0; s < stages - 1; s++) ahead = ir_bin(&b, OP_ADD, ahead, ir_operand(loop, 2));
    Value *fill = ir_bin(&b, OP_ADD, stage, i32(&b, stages - 1));
    Value *beyond = ir_bin(&b, OP_GE, fill, i32(&b, stages)),
          *around = ir_bin(&b, OP_SUB, fill, i32(&b, stages));
    fill = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, beyond, around, fill);
    /* After the first product: its fragments are read and its instructions are queued before the copies take
     * issue slots. */
    Builder later = b;
    for (Instr *i = b.before; i; i = i->next)
        if (i->op == OP_MMA_SYNC) {
            later = ir_after(i);
            break;
        }
    later.loc = loop->loc;
    stage_issue(c, &later, loop, loads, bufs, n, ahead, fill);
    for (int k = 0; k < n; k++) {
        Value *view = stage_view(&b, bufs[k], stage);
        ir_set_name(
            view, arena_printf(&c->s->arena, "%s_tile", c->f->params[ir_operand(loads[k], 0)->index].name));
        ir_replace(ir_result(loads[k]), view);
    }
    /* Not earlier, because the builder may be positioned before one of them. */
    for (int k = 0; k < n; k++) ir_erase(loads[k]);
    b = ir_before(ir_terminator(body));
    Value *next = ir_bin(&b, OP_ADD, stage, i32(&b, 1));
    Value *at_end = ir_bin(&b, OP_EQ, next, i32(&b, stages)), *zero = i32(&b, 0);
    next = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, at_end, zero, next);
    ir_set_operand(ir_terminator(body), loop->n_results - 1, next);
    b = ir_after(loop);
    if (each)
        ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL,
            0); /* Loads beyond the last step give zeros. */
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}
