/* below_maximum.c: which values are at most 0, because the maximum of a set that contains them is subtracted.
 * An exponential of such a value is at most 1, and needs one scaling by a power of two instead of two
 * (exponential.c).
 *
 *     x - max(x)                                          softmax
 *     x - max(m, max(x)),  m - max(m, max(x))             softmax block by block; m: the maximum so far
 *     c x - max(m, c max(x)),  c > 0                      the same for scores with a factor
 *
 * If an element is NaN, so are the maximum and the difference. */
#include "backends/cpu/cpu.h"
#include "ir/analysis/factor.h"

double eval_positive_factor(const Value *v, Value **of)
{
    double factor;
    if (!v->def || v->def->op != OP_MUL) return 0;
    for (int k = 0; k < 2; k++) {
        if (!ir_is_const_float(ir_operand(v->def, k), &factor) || !(factor > 0x1p-10 && factor < 0x1p10))
            continue;
        *of = ir_operand(v->def, 1 - k);
        return factor;
    }
    return 0;
}

/* Whether the results of a reduction of tiles of this type, brought to type `narrow` by reshapes, are those
 * of its rows when they are repeated along its axis (`narrow` NULL: they need not be repeated). */
static bool is_of_rows(const Instr *reduction, const Type *narrow, const Type *wide)
{
    for (int a = 0; narrow && a < wide->rank; a++)
        if (a != ir_attr_int(reduction, ATTR_AXIS, 0) && narrow->shape[a] != wide->shape[a]) return false;
    return true;
}

const Instr *eval_repeated(const Value *v, Op op)
{
    const Type *wide = v->type, *narrow = NULL;
    if (v->def && v->def->op == OP_BROADCAST) {
        v = ir_operand(v->def, 0);
        narrow = v->type;
    }
    while (v->def && (v->def->op == OP_RESHAPE || v->def->op == OP_SPLAT)) v = ir_operand(v->def, 0);
    return v->def && v->def->op == op && is_of_rows(v->def, narrow, wide) ? v->def : NULL;
}

enum { MAX_DEPTH = 16 };

/* Whether no element of x is above the one of v that is taken from it, except that v may be a NaN. narrow:
 * the type of the tile whose broadcast has the shape of x; NULL: v is not inside of a broadcast. */
static bool bounds(const Func *f, const Value *v, const Value *x, const Type *narrow, int depth)
{
    if (v == x) return !narrow;
    const Instr *i = v->def;
    if (!i || depth > MAX_DEPTH) return false;
    if (i->op == OP_REDUCE_MAX) return ir_operand(i, 0) == x && is_of_rows(i, narrow, x->type);
    for (int k = 0; i->op == OP_MAX && k < 2; k++)
        if (bounds(f, ir_operand(i, k), x, narrow, depth + 1)) return true;
    if (i->op == OP_RESHAPE || i->op == OP_SPLAT) return bounds(f, ir_operand(i, 0), x, narrow, depth + 1);
    if (i->op == OP_BROADCAST && !narrow)
        return bounds(f, ir_operand(i, 0), x, ir_operand(i, 0)->type, depth + 1);
    Value *scale, *greatest = factor_of(i, NULL, &scale), *of = NULL;
    if (greatest && x->def && factor_is_positive(f, scale)) of = factor_of(x->def, scale, NULL);
    return of && bounds(f, greatest, of, narrow, depth + 1);
}

bool eval_is_below_0(const Func *f, Value *v)
{
    while (eval_positive_factor(v, &v) > 0);
    return v->def && v->def->op == OP_SUB && bounds(f, ir_operand(v->def, 1), ir_operand(v->def, 0), NULL, 0);
}

bool eval_is_at_most_1(const Func *f, const Value *v)
{
    return v->def && (v->def->op == OP_EXP || v->def->op == OP_EXP2) &&
           eval_is_below_0(f, ir_operand(v->def, 0));
}
