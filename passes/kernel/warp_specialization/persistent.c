/* persistent.c: a grid of as many CTAs as run at a time, each of which loops over programs, so that the loads
 * of the next program are on their way while the last one is finished.
 *
 *   %p = program; BODY(%p)
 * becomes
 *   for %p = cta_id to num_programs step num_ctas {loop = static} { BODY(%p) }
 *
 * tile-scheduler, the step after it, makes the loop one of kind `dynamic`: the CTA takes its next program
 * from a counter (program/tile_scheduler.c decides). Requires warp specialization. Each program starts from
 * its own memory state. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* For clusters of programs: the last cluster along their axis may be partly empty. */
static Value *clusters(Roles *c, Builder *b)
{
    const Type *i32 = type_scalar(c->s, DT_I32);
    Value *all = NULL;
    int rank = c->f->grid ? ir_terminator(c->f->grid)->n_operands : 1;
    for (int a = 0; a < rank; a++) {
        Value *n = ir_emit(b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), i32);
        if (a == c->p->multicast_axis) n = ir_bin(b, OP_CDIV, n, ir_const_int(b, DT_I32, c->p->multicast));
        all = all ? ir_bin(b, OP_MUL, all, n) : n;
    }
    return all;
}

/* Turns a program into a loop over programs. Each program starts from its own memory state, so nothing orders
 * programs among themselves. */
static bool make_persistent(void *roles)
{
    Roles *c = roles;
    Func *f = c->f;
    const Type *i32 = type_scalar(c->s, DT_I32);
    Instr *ret = ir_terminator(f->body), *first = f->body->first;
    Builder b = ir_before(ret);
    Value *bounds[3] = { ir_emit(&b, OP_CTA_ID, NULL, 0, NO_ATTRS, i32) };
    bounds[1] = c->p->multicast ? clusters(c, &b)
                                : ir_emit(&b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, -1)), i32);
    bounds[2] = ir_emit(&b, OP_NUM_CTAS, NULL, 0, NO_ATTRS, i32);
    roles_begin_shares(c, &b, bounds[0], bounds[1], bounds[2]);
    if (c->shares.combine) bounds[1] = c->shares.bound;
    Instr *stop = bounds[0]->def,
          *loop = ir_build(&b, OP_FOR, bounds, 3, ATTRS(a_int(ATTR_LOOP, LOOP_STATIC)), NULL, 0);
    Builder in = ir_at_end(loop->blocks[0]);
    Value *program = roles_share(c, &in, loop->blocks[0]->args[0]);
    ir_set_name(program, "program");
    for (Instr *i = first, *next; i && i != stop; i = next) {
        next = i->next;
        ir_unlink(i);
        if (i->op == OP_PROGRAM) {
            ir_replace(ir_result(i), program);
            continue;
        }
        ir_place(&in, i);
    }
    in = ir_at_end(loop->blocks[0]);
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    return true;
}

static bool make_dynamic(void *roles)
{
    Roles *c = roles;
    Instr *loop = c->f->body->first;
    if (kernel_skips(c->p, PASS_TILE_SCHEDULER) || c->shares.combine) return false;
    while (!ir_over_programs(loop)) loop = loop->next;
    ir_set_attr(c->s, loop, a_int(ATTR_LOOP, LOOP_DYNAMIC));
    return true;
}

void roles_over_programs(Roles *c)
{
    if (!c->p->persistent) return;
    kernel_part(c->p, PASS_PERSISTENT, make_persistent, c);
    kernel_part(c->p, PASS_TILE_SCHEDULER, make_dynamic, c);
}
