/* emit_hopper.c: sm_90a: operations of warpgroups and roles: calls the file for each, and writes those that
 * take a line. PTX ISA 9.7.15 (wgmma), 9.7.13 (barriers by name). */
#include "backends/gpu/hopper/emit_roles.h"

/* The rows of a view. The swizzle depends on bits of the address, whatever row a product begins at. */
static void emit_slice(Emit *e, Instr *i)
{
    const LayoutShared *s = layouts_shared(&e->plan->layouts, ir_result(i)->type);
    int64_t bytes = ir_attr_int(i, ATTR_START, 0) * s->panel * s->elem_bytes;
    if (ir_attr_int(i, ATTR_AXIS, 0) != s->order[1] || s->rank != 2 || s->pitch != s->panel * s->elem_bytes)
        ir_fail(e->s, i->loc, "a slice of a view along an axis that is not its rows");
    declare(e, ir_result(i), str(e, "%s + %lld", name_of(e, ir_operand(i, 0)), (long long)bytes));
}

static void emit_vote(Emit *e, Instr *i)
{
    Value *v = ir_operand(i, 0);
    const char *n = name_of(e, ir_result(i)), *any = tmp(e, "any");
    if (v->type->kind == TYPE_SCALAR)
        line(e, "const bool %s = %s(%s);", n, use(e, "vote_any"), name_of(e, v));
    else {
        const Layout *l = layout_of(e, v);
        line(e, "bool %s = false;", any);
        begin_unrolled(e, "i", (int)layout_regs(l));
        line(e, "%s |= %s;", any, element(e, v, l, index_variable(e, "i")));
        end_block(e);
        line(e, "const bool %s = %s(%s);", n, use(e, "vote_any"), any);
    }
    e->storage[ir_result(i)->id] = n;
}

void emit_hopper(Emit *e, Instr *i)
{
    int groups = e->plan->warps / 4;
    if (op_family(i->op) == OPS_RING) emit_ring_op(e, i);
    else if (i->op == OP_NEXT_PROGRAM) emit_next_program(e, i);
    else if (i->op == OP_SHARED_SLICE) emit_slice(e, i);
    else if (i->op == OP_SHARED_TRANSPOSE) declare(e, ir_result(i), name_of(e, ir_operand(i, 0)));
    else if (i->op == OP_WGMMA) emit_wgmma(e, i);
    else if (i->op == OP_WGMMA_PROMOTED) emit_promoted(e, i);
    else if (i->op == OP_WGMMA_WAIT) emit_wgmma_wait(e, i);
    else if (kernel_is_roles(i->op)) emit_roles(e, i);
    else if (i->op == OP_WARPGROUP_ANY) emit_vote(e, i);
    else if (i->op == OP_PINGPONG_WAIT) line(e, "%s(2 + (warp >> 2), 256);", use(e, "bar_sync"));
    else if (i->op == OP_PINGPONG_PASS)
        line(e, "%s(2 + ((warp >> 2) + 1) %% %d, 256);", use(e, "bar_arrive"), groups);
    else ir_fail(e->s, i->loc, "%s is no Hopper operation", op_info[i->op].name);
}
