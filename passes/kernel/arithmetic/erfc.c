/* erfc: computes 1 + erf(x), as GELU uses it, with one exponential.
 *
 *   %e = erf (k x); %s = add %e, 1; %y = mul (c z), %s
 *   ->  %q = exp2(|x| P(|x|) + log2 c);  %y = mul z, where(x < 0, %q, 2 c - %q)    k > 0, c a power of two
 *
 * This holds because 1 + erf(x) is erfc(-x). P(t), of degree 6, was fitted to log2(erfc(t)) / t on [0,
 * 4.4], with the error weighed as it shows in x erfc(|x|) rounded to f16. That error is at most 8.5e-6 of
 * the result, a fiftieth of the rounding's half unit; of the sum itself it is 2e-6. The powers take k into
 * their coefficients. The leading coefficient is set to -8e-6, which keeps the exponent below -30 wherever
 * |x| is above 4.4, and at infinity. An error function with a result of its own needs two polynomials and
 * selects between their coefficients; this form needs one polynomial and no selects.
 *
 * Requires: the sum, or its product with one more factor, is rounded to 16 bits or fewer at once. Does not
 * handle: sums that are used otherwise. */
#include "passes/kernel/kernel.h"
#include <math.h>

static bool rounded(const Value *v, int factors)
{
    if (!v->uses) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->op == OP_MUL && factors && rounded(ir_result(i), factors - 1)) continue;
        if (i->op != OP_CAST || !dtype_is_float(ir_result(i)->type->dtype) ||
            dtype_bits(ir_result(i)->type->dtype) > 16)
            return false;
    }
    return true;
}

static Value *constant(Builder *b, double x, const Type *t)
{ return ir_splat(b, ir_const_float(b, DT_F32, x), t->rank, t->shape); }

/* The constant factor of v, when v is the product of a constant and another value; 0: it is not. */
static double factor_of(Value *v, Value **of)
{
    double c;
    if (!v->def || v->def->op != OP_MUL) return 0;
    for (int k = 0; k < 2; k++)
        if (ir_is_const_float(ir_operand(v->def, k), &c)) return *of = ir_operand(v->def, 1 - k), c;
    return 0;
}

/* The power of two by which every use multiplies the sum. The factor is then removed from the other operand.
 * */
static double common_factor(const Value *sum)
{
    double all = 0;
    int e;
    for (const Use *u = sum->uses; u; u = u->next) {
        Value *z;
        double c =
            u->user->op == OP_MUL ? factor_of(ir_operand(u->user, ir_operand(u->user, 0) == sum), &z) : 0;
        if (c <= 0 || frexp(c, &e) != 0.5 || (all && c != all)) return 1;
        all = c;
    }
    return all ? all : 1;
}

static void visit(Instr *i)
{
    static const double p[] = { -1.6279195779323852, -0.9180452707842106, -0.15043651110748707,
        0.032113317219551865, -0.004439798578166978, 0.0003249775462597551, -8e-06 };
    enum { N = sizeof p / sizeof *p };
    if (i->op != OP_ADD || ir_result(i)->type->kind != TYPE_TILE || ir_result(i)->type->dtype != DT_F32)
        return;
    for (int k = 0; k < 2; k++) {
        Instr *e = ir_operand(i, k)->def;
        double one;
        if (!e || e->op != OP_ERF || !ir_is_const_float(ir_operand(i, 1 - k), &one) || one != 1 ||
            !rounded(ir_result(i), 1))
            continue;
        Builder b = ir_before(i);
        Value *x = ir_operand(e, 0), *of = NULL;
        const Type *type = x->type;
        double scale = factor_of(x, &of), power, c = common_factor(ir_result(i));
        if (scale > 0x1p-20 && scale < 0x1p20) x = of;
        else scale = 1;
        Value *t = ir_op(&b, OP_ABS, NULL, NO_ATTRS, x), *s = constant(&b, p[N - 1] * pow(scale, N), type);
        for (int d = N - 2; d >= 0; d--) {
            power = p[d] * pow(scale, d + 1);
            s = ir_op(&b, OP_FMA, NULL, NO_ATTRS, s, t, constant(&b, power, type));
        }
        Value *exponent = c == 1 ? ir_bin(&b, OP_MUL, s, t)
                                 : ir_op(&b, OP_FMA, NULL, NO_ATTRS, s, t, constant(&b, log2(c), type));
        Value *q = ir_op(&b, OP_EXP2, NULL, ATTRS(a_int(ATTR_APPROX, 1)), exponent);
        Value *other = ir_bin(&b, OP_SUB, constant(&b, 2 * c, type), q),
              *below = ir_bin(&b, OP_LT, x, constant(&b, 0, type));
        for (Use *u = ir_result(i)->uses; c != 1 && u; u = u->next) {
            int o = ir_operand(u->user, 0) == ir_result(i);
            Value *z = NULL;
            factor_of(ir_operand(u->user, o), &z);
            Instr *product = ir_operand(u->user, o)->def;
            ir_set_operand(u->user, o, z);
            if (!ir_result(product)->uses) ir_erase(product);
        }
        ir_replace(ir_result(i), ir_op(&b, OP_WHERE, NULL, NO_ATTRS, below, q, other));
        ir_erase(i);
        Instr *product = ir_operand(e, 0)->def;
        if (!ir_result(e)->uses) ir_erase(e);
        else product = NULL;
        if (of && product && !ir_result(product)->uses) ir_erase(product);
        return;
    }
}

bool kernel_pass_erfc(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    InstrList sums = { 0 }; /* Not a plain iteration, because a match erases operations behind the sum. */
    ir_collect(&c->s->arena, c->f->body, OP_ADD, &sums);
    for (size_t k = 0; k < sums.len; k++) visit(sums.data[k]);
    return kernel_grew(c, before);
}
