/* approx: marks f32 operations that may use the hardware's approximate instructions, and flushes to zero
 * on request.
 *
 *   %b = broadcast %l : f32[128, 64]            %r = div %one, %l {approx = 1} : f32[128, 1]
 *   %o = div %acc, %b : f32[128, 64]     ->     %b = broadcast %r : f32[128, 64]
 *                                               %o = mul %acc, %b : f32[128, 64]
 *
 * The pass runs only with --approx or --ftz. It marks division, exp, log, sqrt, sin, cos, tanh and sigmoid
 * of f32 with `approx = 1`, and with --ftz also additions and products with `ftz = 1`. A backend chooses
 * the instruction, or ignores the mark. A division by a value that repeats along an axis becomes a product
 * with its reciprocal, computed once a row; a division by a constant becomes a product with the constant's
 * reciprocal.
 *
 * Bounds, relative: division and reciprocal 2^-21 (rcp.approx.ftz is within 1 ulp, and the product rounds
 * once more); exp2, log2, sqrt and rsqrt 2^-21; sin and cos 2^-20 absolute for |x| <= pi; tanh 2^-11
 * (tanh.approx.f32); sigmoid 2^-20. A divisor of magnitude above 2^126 may give 0.
 *
 * Requires: fold, so that broadcasts are explicit. Keeps: nothing to the bit. Does not handle: f64; f16
 * and bf16, which are computed in f32 anyway. */
#include "ir/interp/scalar.h"
#include "passes/pass.h"

typedef struct Approx {
    PassContext *c;
    bool approx, ftz;
    int64_t marked, reciprocals, flushed;
} Approx;

static bool is_arithmetic(Op op)
{ return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_FMA || op_has(op, OPF_APPROX); }

/* x / broadcast(y) as x * broadcast(1 / y) where y is smaller; NULL: not worth it. */
static Value *by_reciprocal(Approx *x, Instr *i)
{
    Value *num = ir_operand(i, 0), *den = ir_operand(i, 1);
    double c;
    Builder b = ir_before(i);
    if (ir_is_const_float(num, &c) && c == 1) return NULL;
    if (ir_is_const_float(den, &c) && c != 0)
        return ir_bin(&b, OP_MUL, num, build_float(&b, den->type, scalar_round(DT_F32, 1 / c)));
    if (!den->def || (den->def->op != OP_BROADCAST && den->def->op != OP_SPLAT)) return NULL;
    Value *y = ir_operand(den->def, 0), *one = build_float(&b, y->type, 1);
    Value *r = ir_op(&b, OP_DIV, NULL, ATTRS(a_int(ATTR_APPROX, 1)), one, y);
    return ir_bin(&b, OP_MUL, num, ir_op(&b, den->def->op, den->type, NO_ATTRS, r));
}

static void visit(void *user, Instr *i)
{
    Approx *x = user;
    Session *s = x->c->session;
    if (i->n_results != 1 || !type_is_value(i->results[0].type) || i->results[0].type->dtype != DT_F32 ||
        !is_arithmetic(i->op))
        return;
    if (x->ftz && !ir_attr_int(i, ATTR_FTZ, 0)) {
        ir_set_attr(s, i, a_int(ATTR_FTZ, 1));
        x->flushed++;
    }
    if (!x->approx || !op_has(i->op, OPF_APPROX)) return;
    if (!ir_attr_int(i, ATTR_APPROX, 0)) {
        ir_set_attr(s, i, a_int(ATTR_APPROX, 1));
        x->marked++;
    }
    Value *v = i->op == OP_DIV ? by_reciprocal(x, i) : NULL;
    if (!v) return;
    replace_value(&i->results[0], v);
    x->reciprocals++;
}

static bool approx_func(PassContext *c, Func *f)
{
    bool asked = c->options->approx || c->options->ftz;
    /* The flag --passes names approx alone. */
    Approx x = { c, c->options->approx || !asked, c->options->ftz };
    ir_walk(f->body, visit, &x);
    pass_count(c, "operations marked approximate", x.marked);
    pass_count(c, "divisions turned into products", x.reciprocals);
    pass_count(c, "operations that may flush", x.flushed);
    return x.marked + x.reciprocals + x.flushed > 0;
}

bool pass_approx(PassContext *c, Module *m) { return pass_each_func(c, m, approx_func); }
