/* contract.c: a product that only one sum uses becomes one fma, rounded once instead of twice.
 *
 *     %p = mul %l, %alpha : f32[128, 1]
 *     %n = add %p, %s : f32[128, 1]              ->      %n = fma %l, %alpha, %s : f32[128, 1]
 *
 * Not in what an exponential is taken of: there the program's own rounding counts. With m the largest of the
 * products fl(x*c), exp(x*c - m) is 1 at its place; contracted, it would be exp of what rounding lost, which
 * is e^32 where m is 1e9.
 *
 * f32 and f64; sums and differences (x*y - z, z - x*y, by a negation that costs nothing). The result is at
 * least as near to the exact one as before; it is within half an ulp of the product of the result the program
 * spelled. docs/language.md allows it of every product and sum; --skip-pass=contract gives them back.
 * Deciding it here, once, makes all targets round alike.
 *
 * Requires: after fold (x * 1 and the like gone), after exp2. Keeps: everything but the last rounding. Does
 * not do: products used twice, a difference of two squares. Where both sides are products, the first is
 * taken. */
#include "passes/pass.h"

typedef struct Contract {
    PassContext *c;
    int64_t n;
} Contract;

static Instr *lone_product(const Value *v, const Instr *user)
{
    Instr *i = v->def;
    if (!i || i->op != OP_MUL || !v->uses || v->uses->next || i->block != user->block) return NULL;
    return i;
}

static bool is_square(const Value *v)
{ return v->def && v->def->op == OP_MUL && ir_operand(v->def, 0) == ir_operand(v->def, 1); }

/* x*x - y*y is 0 for x = y, and never negative for |x| > |y|, only if both squares are rounded. */
static bool is_difference_of_squares(const Instr *i)
{ return i->op == OP_SUB && is_square(ir_operand(i, 0)) && is_square(ir_operand(i, 1)); }

static Value *negated(Builder *b, Value *v) { return ir_un(b, OP_NEG, v); }

static void visit(void *user, Instr *i)
{
    Contract *x = user;
    if ((i->op != OP_ADD && i->op != OP_SUB) ||
        (i->results[0].type->dtype != DT_F32 && i->results[0].type->dtype != DT_F64))
        return;
    if (ir_is_exponent(ir_result(i))) return;
    int side = lone_product(ir_operand(i, 0), i) ? 0 : 1;
    Instr *p = lone_product(ir_operand(i, side), i);
    if (!p || is_difference_of_squares(i)) return;
    Builder b = ir_before(i);
    Value *a = ir_operand(p, 0), *m = ir_operand(p, 1), *z = ir_operand(i, 1 - side);
    if (i->op == OP_SUB && side == 0) z = negated(&b, z);
    if (i->op == OP_SUB && side == 1) m = negated(&b, m);
    bool ftz = ir_attr_int(i, ATTR_FTZ, 0) && ir_attr_int(p, ATTR_FTZ, 0);
    Value *v = ir_op(&b, OP_FMA, NULL, ftz ? ATTRS(a_int(ATTR_FTZ, 1)) : NO_ATTRS, a, m, z);
    replace_value(&i->results[0], v);
    x->n++;
}

static bool contract_func(PassContext *c, Func *f)
{
    Contract x = { c };
    ir_walk(f->body, visit, &x);
    pass_count(c, "products and sums made one fma", x.n);
    return x.n > 0;
}

bool pass_contract(PassContext *c, Module *m) { return pass_each_func(c, m, contract_func); }
