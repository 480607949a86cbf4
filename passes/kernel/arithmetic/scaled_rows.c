/* scaled_rows.c: of rounded-integers and of the emitter's quotients: rows that are divided by their own
 * largest magnitude.
 *
 *   %m = reduce_max (abs %x); %d = div (max %m, 1e-10), 127; .. = div %x, (splat %d)
 *
 * Where no element is NaN, none is larger than %m in magnitude, so that no quotient is larger than 127 but
 * for its last bits. Where one is, or is infinite, %d is NaN or infinite, too. */
#include "passes/kernel/kernel.h"
#include <math.h>

/* What elements of x are converted from, one by one and without a loss. */
static const Value *elements_of(const Value *x)
{
    while (x->def && (x->def->op == OP_OPAQUE || x->def->op == OP_CAST) && x->def->n_operands == 1) {
        const Value *from = ir_operand(x->def, 0);
        const DType d = from->type->dtype;
        const bool widened =
            x->type->dtype == d || (x->type->dtype == DT_F32 && (d == DT_F16 || d == DT_BF16));
        if (!widened) break;
        x = from;
    }
    return x;
}

/* Whether v is the largest magnitude of the elements of x, of each row of them. */
static bool is_most(const Value *v, const Value *x)
{
    if (!v->def || v->def->op != OP_REDUCE_MAX) return false;
    const Value *of = ir_operand(v->def, 0);
    if (!of->def || of->def->op != OP_ABS) return false;
    return elements_of(ir_operand(of->def, 0)) == elements_of(x);
}

bool kernel_scaled_row(const Value *x, Value *d, ScaledRow *out)
{
    enum { LEAST_EXPONENT = -100, MOST_FACTOR = 1 << 20 };
    double c;
    *out = (ScaledRow){ .divisor = ir_repeated(d), .factor = 1 };
    const Instr *i = out->divisor->def;
    if (out->divisor->type->dtype != DT_F32 || !i) return false;
    if (i->op == OP_DIV && ir_is_const_float(ir_operand(i, 1), &c)) out->factor = c;
    else if (i->op == OP_MUL && ir_is_const_float(ir_operand(i, 1), &c) && c > 0) out->factor = 1 / c;
    else return false;
    if (!(out->factor >= 1 && out->factor <= MOST_FACTOR)) return false;
    i = ir_operand(i, 0)->def;
    if (!i || i->op != OP_MAX) return false; /* which NaN is larger than */
    for (int k = 0; k < 2; k++) {
        out->most = ir_operand(i, k);
        if (is_most(out->most, x) && ir_is_const_float(ir_operand(i, 1 - k), &c))
            return c >= ldexp(1, LEAST_EXPONENT);
    }
    return false;
}
