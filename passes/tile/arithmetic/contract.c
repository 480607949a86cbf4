/* contract: makes one fma, rounded once instead of twice, of a product and the only sum that uses it.
 *
 *   %p = mul %l, %alpha : f32[128, 1]
 *   %n = add %p, %s : f32[128, 1]        ->      %n = fma %l, %alpha, %s : f32[128, 1]
 *
 * The pass handles f32 and f64, sums and differences (x*y - z, and z - x*y by a negation, which costs
 * nothing). It leaves alone what an exponential is taken of, because the program's own rounding matters
 * there: with m the largest of the products fl(x*c), exp(x*c - m) is 1 at its place; contracted, it would
 * be the exponential of what rounding lost, which is e^32 where m is 1e9.
 *
 * Bound: the result is at least as close to the exact one as before, and within half an ulp of the product
 * of the result that the program spells. docs/language.md allows this for every product and sum. Deciding
 * it here, once, makes all targets round alike.
 *
 * Requires: fold (x * 1 and the like are gone) and exp2 before. Keeps: everything but the last rounding.
 * Does not handle: products that are used twice, or a difference of two squares. Where both operands of a
 * sum are products, it takes the first. */
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
