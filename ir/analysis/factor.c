/* factor.c: positive scalars that all elements of a tile are multiplied by (factor.h). */
#include "ir/analysis/factor.h"
#include <math.h>

/* The scalar that all elements of a tile are; NULL: they are not one. */
static Value *uniform(Value *v)
{
    while (v->type->kind == TYPE_TILE && v->def &&
           (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST || v->def->op == OP_RESHAPE))
        v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

/* A lower bound of a float scalar, after rounding; -inf when nothing is known. *hi likewise. */
static double float_range(const Func *f, Value *v, double *hi, int depth)
{
    double a, b, ah, bh;
    *hi = INFINITY;
    if (ir_is_const_float(v, &a)) {
        *hi = a;
        return a;
    }
    if (depth > 8) return -INFINITY;
    if (!v->def) {
        if (v->block->parent || v->block != f->body || f->params[v->index].kind != PARAM_SCALAR)
            return -INFINITY;
        *hi = f->params[v->index].hi;
        return f->params[v->index].lo;
    }
    if (v->type->dtype != DT_F32) return -INFINITY;
    bool product = v->def->op == OP_MUL, root = v->def->op == OP_SQRT;
    if (product || v->def->op == OP_DIV) {
        a = float_range(f, ir_operand(v->def, 0), &ah, depth + 1);
        b = float_range(f, ir_operand(v->def, 1), &bh, depth + 1);
        if (!(a > 0 && b > 0)) return -INFINITY;
        *hi = product ? ah * bh : ah / b;
        return (float)(product ? a * b : a / bh);
    }
    if (root || v->def->op == OP_RSQRT) {
        a = float_range(f, ir_operand(v->def, 0), &ah, depth + 1);
        if (!(a > 0)) return -INFINITY;
        *hi = root ? sqrt(ah) : 1 / sqrt(a);
        return root ? sqrt(a) * 0.99 : 0.99 / sqrt(ah);
    }
    return -INFINITY;
}

bool factor_is_positive(const Func *f, Value *v)
{
    double hi, lo = float_range(f, v, &hi, 0);
    return lo > 0 && hi >= lo;
}

static bool same_scale(const Value *a, const Value *b)
{
    double x, y;
    return a == b || (ir_is_const_float(a, &x) && ir_is_const_float(b, &y) && x == y);
}

Value *factor_of(const Instr *i, Value *scale, Value **found)
{
    if (i->op != OP_MUL) return NULL;
    for (int k = 1; k >= 0; k--) {
        Value *u = uniform(ir_operand(i, k));
        if (!u || (scale && !same_scale(u, scale))) continue;
        if (found) *found = u;
        return ir_operand(i, 1 - k);
    }
    return NULL;
}
