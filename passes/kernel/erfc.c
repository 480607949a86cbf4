/* erfc: 1 + erf(x), all there is of it in GELU, as one exponential.
 *
 *   %e = erf %x; %s = add %e, 1        ->   %q = exp2(t * P(t)), t = |x|;   %s = where(x < 0, %q, 2 - %q)
 *
 * since 1 + erf(x) is erfc(-x). P has degree 7 and was fitted to log2(erfc(t)) / t on [0, 4.2] so that the greatest error of the sum is least; evaluated in f32, that is
 * 9.2e-8, beside 6e-8 for the sum rounded once. Its leading coefficient is negative: beyond, and at infinity, the power is 0. An error function
 * with a result of its own needs two polynomials and selects between their coefficients; this needs one and none.
 *
 * Only where the sum, or its product with one more factor, is rounded to 16 bits or fewer at once. */
#include "passes/kernel/kernel.h"

static bool rounded(const Value *v, int factors)
{
    if (!v->uses) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->op == OP_MUL && factors && rounded(ir_result(i), factors - 1)) continue;
        if (i->op != OP_CAST || !dtype_is_float(ir_result(i)->type->dtype) || dtype_bits(ir_result(i)->type->dtype) > 16) return false;
    }
    return true;
}

static Value *constant(Builder *b, double x, const Type *t) { return ir_splat(b, ir_const_float(b, DT_F32, x), t->rank, t->shape); }

static void visit(void *user, Instr *i)
{
    static const double p[] = { -1.6279085874557495, -0.9184163808822632, -0.14848166704177856, 0.028253799304366112, -0.000774766318500042, -0.001489357091486454,
                                0.000445481447968632, -4.535541665973142e-05 };
    (void)user;
    if (i->op != OP_ADD || ir_result(i)->type->kind != TYPE_TILE || ir_result(i)->type->dtype != DT_F32) return;
    for (int k = 0; k < 2; k++) {
        Instr *e = ir_operand(i, k)->def;
        double one;
        if (!e || e->op != OP_ERF || !ir_is_const_float(ir_operand(i, 1 - k), &one) || one != 1 || !rounded(ir_result(i), 1)) continue;
        Builder b = ir_before(i);
        Value *x = ir_operand(e, 0), *t = ir_op(&b, OP_ABS, NULL, NO_ATTRS, x);
        int n = sizeof p / sizeof *p;
        Value *s = constant(&b, p[n - 1], x->type);
        for (int c = n - 2; c >= 0; c--) s = ir_op(&b, OP_FMA, NULL, NO_ATTRS, s, t, constant(&b, p[c], x->type));
        Value *q = ir_op(&b, OP_EXP2, NULL, ATTRS(a_int(ATTR_APPROX, 1)), ir_bin(&b, OP_MUL, s, t));
        Value *other = ir_bin(&b, OP_SUB, constant(&b, 2, x->type), q), *below = ir_bin(&b, OP_LT, x, constant(&b, 0, x->type));
        ir_replace(ir_result(i), ir_op(&b, OP_WHERE, NULL, NO_ATTRS, below, q, other));
        ir_erase(i);
        if (!ir_result(e)->uses) ir_erase(e);
        return;
    }
}

void kernel_erfc(Func *f) { ir_walk(f->body, visit, NULL); }
