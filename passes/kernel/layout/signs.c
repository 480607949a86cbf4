/* signs.c: which floats never exceed one in magnitude, by what they are computed from: constants, powers of
 * what never is above zero, as x - max(x, y) is, and choices and products of them.
 *
 * Each answer holds for every input, or the value is NaN. A rounded product or sum keeps the sign, and is
 * monotonic, so it holds in every format. A product in a difference is the exception: the vendor's compiler
 * may contract it, and then x*y - max(x*y, z) is what rounding left. */
#include "passes/kernel/layout/signs.h"

enum { DEPTH = 12 };

/* Operations whose elements are those of their operand. */
static bool only_moves(Op op)
{
    return op == OP_SPLAT || op == OP_BROADCAST || op == OP_RESHAPE || op == OP_MATERIALIZE ||
           op == OP_CONVERT || op == OP_OPAQUE;
}

/* The two values that the result is one of; false: it is none of two. */
static bool either(const Value *v, const Value *of[2])
{
    const Instr *d = v->def;
    if (d->op != OP_IF && d->op != OP_WHERE) return false;
    for (int k = 0; k < 2; k++)
        of[k] = d->op == OP_IF ? ir_operand(ir_terminator(d->blocks[k]), v->index) : ir_operand(d, 1 + k);
    return true;
}

/* Which of the two values counts: where a value is compared with -inf, what is below it is -inf too, so that
 * any choice there is in order. -1: both do. */
static int counts(const Value *v, const Value *const of[2])
{
    const Instr *c = ir_operand(v->def, 0)->def;
    double x;
    if (!c || (c->op != OP_EQ && c->op != OP_NE)) return -1;
    for (int k = 0; k < 2; k++)
        if (ir_operand(c, k) == of[c->op == OP_EQ] && ir_is_const_float(ir_operand(c, 1 - k), &x) &&
            isinf(x) && x < 0)
            return c->op == OP_EQ;
    return -1;
}

static bool is_ordered(const Value *low, const Value *high, int depth);

/* Whether a value is below all that the result may be. */
static bool is_below_choice(const Value *low, const Value *choice, const Value *const of[2], int depth)
{
    int k = counts(choice, of);
    if (k >= 0) return is_ordered(low, of[k], depth);
    return is_ordered(low, of[0], depth) && is_ordered(low, of[1], depth);
}

/* Whether `low` is `high` at most. */
static bool is_ordered(const Value *low, const Value *high, int depth)
{
    const Value *of[2];
    const Instr *l = low->def, *h = high->def;
    if (low == high) return true;
    if (!depth--) return false;
    if (l && h && l->op == h->op && only_moves(l->op) && low->type == high->type)
        return is_ordered(ir_operand(l, 0), ir_operand(h, 0), depth);
    if (h && h->op == OP_MAX)
        return is_ordered(low, ir_operand(h, 0), depth) || is_ordered(low, ir_operand(h, 1), depth);
    if (l && l->op == OP_MIN)
        return is_ordered(ir_operand(l, 0), high, depth) || is_ordered(ir_operand(l, 1), high, depth);
    if (h && either(high, of)) return is_below_choice(low, high, of, depth);
    return l && either(low, of) && is_ordered(of[0], high, depth) && is_ordered(of[1], high, depth);
}

static bool has_sign(const Func *f, const Value *v, int sign, int depth);

/* A difference is above zero, or below it, where its operands have unlike signs or are ordered. */
static bool difference(const Func *f, const Instr *d, int sign, int depth)
{
    const Value *x = ir_operand(d, 0), *y = ir_operand(d, 1), *low = sign > 0 ? y : x;
    double c;
    if (has_sign(f, x, sign, depth) && has_sign(f, y, -sign, depth)) return true;
    if (ir_is_const_float(x, &c) && isinf(c) && c * sign > 0) return true;
    if (ir_is_const_float(y, &c) && isinf(c) && c * sign < 0) return true;
    return !(low->def && low->def->op == OP_MUL) && is_ordered(low, low == x ? y : x, depth);
}

static bool product(const Func *f, const Instr *d, int sign, int depth)
{
    const Value *x = ir_operand(d, 0), *y = ir_operand(d, 1);
    return (has_sign(f, x, 1, depth) && has_sign(f, y, sign, depth)) ||
           (has_sign(f, x, -1, depth) && has_sign(f, y, -sign, depth));
}

static bool both(const Func *f, const Value *x, const Value *y, int sign, int depth)
{ return has_sign(f, x, sign, depth) && has_sign(f, y, sign, depth); }

/* Whether the result of this operation is zero or has this sign: 1 or -1. */
static bool gives_sign(const Func *f, const Instr *d, int sign, int depth)
{
    const Value *x = d->n_operands ? ir_operand(d, 0) : NULL,
                *y = d->n_operands > 1 ? ir_operand(d, 1) : NULL;
    if (only_moves(d->op)) return has_sign(f, x, sign, depth);
    const Op op = d->op;
    if (op == OP_ABS || op == OP_EXP || op == OP_EXP2 || op == OP_SQRT) return sign > 0;
    if (op == OP_NEG) return has_sign(f, x, -sign, depth);
    if (op == OP_ADD) return both(f, x, y, sign, depth);
    if (op == OP_SUB) return difference(f, d, sign, depth);
    if (op == OP_MUL) return product(f, d, sign, depth);
    if (op == OP_FMA) return product(f, d, sign, depth) && has_sign(f, ir_operand(d, 2), sign, depth);
    if (op == OP_CAST) return dtype_is_float(x->type->dtype) && has_sign(f, x, sign, depth);
    if (op != OP_MAX && op != OP_MIN) return false;
    if ((op == OP_MAX) == (sign < 0)) return both(f, x, y, sign, depth);
    return has_sign(f, x, sign, depth) || has_sign(f, y, sign, depth);
}

/* The range of a kernel's scalar parameter; false: the value is none. */
static bool parameter(const Func *f, const Value *v, double *lo, double *hi)
{
    if (v->def || v->block != f->body || v->type->kind != TYPE_SCALAR) return false;
    *lo = f->params[v->index].lo;
    *hi = f->params[v->index].hi;
    return true;
}

static bool has_sign(const Func *f, const Value *v, int sign, int depth)
{
    double x, hi;
    const Value *of[2];
    if (ir_is_const_float(v, &x)) return x * sign >= 0;
    if (parameter(f, v, &x, &hi)) return sign > 0 ? x >= 0 : hi <= 0;
    if (!v->def || !depth--) return false;
    if (either(v, of)) return both(f, of[0], of[1], sign, depth);
    return gives_sign(f, v->def, sign, depth);
}

static bool within_one(const Func *f, const Value *v, int depth)
{
    double x, hi;
    const Value *of[2];
    const Instr *d = v->def;
    if (ir_is_const_float(v, &x)) return fabs(x) <= 1;
    if (parameter(f, v, &x, &hi)) return x >= -1 && hi <= 1;
    if (!d || !depth--) return false;
    if (d->op == OP_EXP2 || d->op == OP_EXP) return has_sign(f, ir_operand(d, 0), -1, depth);
    if (only_moves(d->op) || d->op == OP_NEG || d->op == OP_ABS)
        return within_one(f, ir_operand(d, 0), depth);
    if (d->op != OP_MUL && !either(v, of)) return false;
    if (d->op == OP_MUL)
        for (int k = 0; k < 2; k++) of[k] = ir_operand(d, k);
    return within_one(f, of[0], depth) && within_one(f, of[1], depth);
}

bool signs_within_one(const Func *f, const Value *v) { return within_one(f, v, DEPTH); }
