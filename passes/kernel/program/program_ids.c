/* program-ids: computes program ids from the linear id of the CTA.
 *
 *   %i = program_id {axis = 0}      ->   %w = program; (remap of %w); %i = %w % grid0, then / grid0 ..
 *
 * Launches are one-dimensional, and the first axis is the fastest. Axes at the end of which each has one
 * program cost nothing. The remap block, if there is one, is inlined once. Requires: nothing. Keeps:
 * everything. */
#include "passes/kernel/kernel.h"

typedef struct ProgramIds {
    Session *s;
    Func *f;
    KernelPlan *p;
    Builder *b;
    Value *linear;
    Value *coord[3];
    int rank;
    bool ordered; /* program-order has made the coordinates */
} ProgramIds;

static void visit(void *user, Instr *i)
{
    ProgramIds *c = user;
    if (i->op != OP_PROGRAM_ID) return;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    Value *v = c->coord[axis];
    Builder b = ir_before(i);
    ir_replace(ir_result(i), ir_cast(&b, v, ir_result(i)->type->dtype));
    ir_erase(i);
}

static bool order(void *user)
{
    ProgramIds *c = user;
    return c->ordered = kernel_order(c->s, c->f, c->p, c->b, c->linear, c->rank, c->coord);
}

/* The last axis of the grid that may have several programs: behind it all coordinates are 0. */
static int last_of_many(const Func *f, int rank)
{
    int64_t n;
    int last = rank - 1;
    while (last > 0 && ir_is_const(ir_operand(ir_terminator(f->grid), last), &n) && n == 1) last--;
    return last;
}

bool kernel_pass_program_ids(KernelContext *k)
{
    Session *s = k->s;
    Func *f = k->f;
    KernelPlan *p = k->p;
    ProgramIds c = { .s = s, .f = f, .p = p };
    c.rank = f->grid ? ir_terminator(f->grid)->n_operands : 1;
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    const Type *i32 = type_scalar(s, DT_I32);
    Value *w = ir_emit(&b, OP_PROGRAM, NULL, 0, NO_ATTRS, i32);
    ir_set_name(w, "program");
    if (kernel_order_replaces_remap(p)) f->remap = NULL;
    if (f->remap) {
        ValueMap map;
        value_map_init(&map, &s->arena);
        value_map_set(&map, f->remap->args[0], ir_cast(&b, w, f->remap->args[0]->type->dtype));
        for (int k = 1; k < f->remap->n_args; k++)
            value_map_set(&map, f->remap->args[k], f->body->args[k - 1]);
        ir_clone_block_into(&b, f->remap, &map, false);
        w = ir_cast(&b, value_map_get(&map, ir_operand(ir_terminator(f->remap), 0)), DT_I32);
    }
    c.b = &b;
    c.linear = w;
    if (!kernel_step(p, PASS_PROGRAM_ORDER, order, &c)) return true;
    int last = last_of_many(f, c.rank);
    for (int a = last + 1; a < c.rank && !c.ordered; a++) c.coord[a] = ir_const_int(&b, DT_I32, 0);
    for (int a = 0; a <= last && !c.ordered; a++) {
        if (a == last) {
            c.coord[a] = w;
            break;
        }
        Value *g = ir_emit(&b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), i32);
        c.coord[a] = ir_bin(&b, OP_REM, w, g);
        w = ir_bin(&b, OP_DIV, w, g);
    }
    for (int a = 0; a < c.rank; a++) {
        Value *v = ir_cast(&b, c.coord[a], DT_I32);
        c.coord[a] =
            ir_emit(&b, OP_PROGRAM_COORD, &v, 1, ATTRS(a_int(ATTR_AXIS, a), a_int(ATTR_COUNT, c.rank)), NULL);
    }
    ir_walk(f->body, visit, &c);
    return true;
}
