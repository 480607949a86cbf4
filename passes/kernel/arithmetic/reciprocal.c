/* reciprocal: replaces the division of a row by one value by a product with the value's reciprocal.
 *
 *   %y = div %x, broadcast %l; %h = cast %y : f16     ->  %r = div 1, %l; %h = cast (mul %x, broadcast %r)
 *
 * Requires: every use of the quotient rounds it to 16 bits or fewer at once. The product's error of 2 ulp
 * of f32 (1 of the reciprocal, as the hardware gives it, also for denormal numbers) then moves about one
 * result in three thousand by one of its own ulps. It replaces a division an element by a multiplication.
 * A correctly rounded reciprocal would need a branch and a call for a row in a million, and take a
 * twentieth of NVRTC's time for attention. */
#include "passes/kernel/kernel.h"

static void visit(void *user, Instr *i)
{
    (void)user;
    if (i->op != OP_DIV || ir_result(i)->type->kind != TYPE_TILE || ir_result(i)->type->dtype != DT_F32)
        return;
    Instr *b = ir_operand(i, 1)->def;
    if (!b || b->op != OP_BROADCAST ||
        4 * type_elements(ir_operand(b, 0)->type) > type_elements(ir_result(i)->type))
        return;
    for (const Use *u = ir_result(i)->uses; u; u = u->next)
        if (u->user->op != OP_CAST || !dtype_is_float(ir_result(u->user)->type->dtype) ||
            dtype_bits(ir_result(u->user)->type->dtype) > 16)
            return;
    if (!ir_result(i)->uses) return;
    Builder at = ir_before(i);
    Value *l = ir_operand(b, 0),
          *one = ir_splat(&at, ir_const_float(&at, DT_F32, 1), l->type->rank, l->type->shape);
    Value *r = ir_op(&at, OP_DIV, NULL, ATTRS(a_int(ATTR_APPROX, 2)), one, l);
    r = ir_emit(&at, OP_BROADCAST, &r, 1, NO_ATTRS, ir_result(i)->type);
    ir_replace(ir_result(i), ir_bin(&at, OP_MUL, ir_operand(i, 0), r));
    ir_erase(i);
}

void kernel_reciprocal(Func *f) { ir_walk(f->body, visit, NULL); }

bool kernel_pass_reciprocal(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    kernel_reciprocal(c->f);
    return kernel_grew(c, before);
}
