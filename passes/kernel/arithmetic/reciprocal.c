/* reciprocal: replaces the division of a row by one value by a product with the value's reciprocal.
 *
 *   %y = div %x, broadcast %l; %h = cast %y : f16     ->  %r = div 1, %l; %h = cast (mul %x, broadcast %r)
 *
 * The value is a tile that repeats along the row, or a scalar. The reciprocal of a constant is a constant.
 *
 * Requires: every use of the quotient rounds it to 16 bits at once. Quotients are often exactly between two
 * numbers of 8 bits, where the error would decide. The product's error of 2 ulp
 * of f32 (1 of the reciprocal, as the hardware gives it, also for denormal numbers) then moves about one
 * result in three thousand by one of its own ulps. It replaces a division an element by a multiplication.
 * A correctly rounded reciprocal would need a branch and a call for a row in a million, and take a
 * twentieth of NVRTC's time for attention. */
#include "passes/kernel/kernel.h"
#include <math.h>

/* The value, at least four times smaller, that repeats to make this divisor, or NULL. */
static Value *repeated(const Value *divisor)
{
    const Instr *b = divisor->def;
    if (!b || (b->op != OP_BROADCAST && b->op != OP_SPLAT)) return NULL;
    Value *l = ir_operand(b, 0);
    int64_t elements = l->type->kind == TYPE_TILE ? type_elements(l->type) : 1;
    return 4 * elements <= type_elements(divisor->type) ? l : NULL;
}

static bool only_narrowed(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_CAST || !dtype_is_float(ir_result(u->user)->type->dtype) ||
            dtype_bits(ir_result(u->user)->type->dtype) != 16)
            return false;
    return v->uses;
}

/* 1 / l; NULL: a constant whose reciprocal would lose bits. */
static Value *inverse(Builder *b, Value *l)
{
    double c;
    if (ir_is_const_float(l, &c)) {
        if (!isnormal((float)(1 / c))) return NULL;
        Value *r = ir_const_float(b, DT_F32, (double)(float)(1 / c));
        return l->type->kind == TYPE_TILE ? ir_splat(b, r, l->type->rank, l->type->shape) : r;
    }
    Value *one = ir_const_float(b, DT_F32, 1);
    if (l->type->kind == TYPE_TILE) one = ir_splat(b, one, l->type->rank, l->type->shape);
    return ir_op(b, OP_DIV, NULL, ATTRS(a_int(ATTR_APPROX, 2)), one, l);
}

static void visit(void *user, Instr *i)
{
    (void)user;
    const Type *t = i->n_results == 1 ? ir_result(i)->type : NULL;
    if (i->op != OP_DIV || t->kind != TYPE_TILE || t->dtype != DT_F32 || !only_narrowed(ir_result(i))) return;
    Value *l = repeated(ir_operand(i, 1));
    Builder at = ir_before(i);
    Value *r = l ? inverse(&at, l) : NULL;
    if (!r) return;
    if (r->type->kind == TYPE_TILE) r = ir_emit(&at, OP_BROADCAST, &r, 1, NO_ATTRS, t);
    else r = ir_splat(&at, r, t->rank, t->shape);
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
