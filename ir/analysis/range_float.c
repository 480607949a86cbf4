/* range_float.c: bounds of floats, for the integers that are made of them.
 *
 *   %a = max %y, 0.0
 *   %i = cast %a : i32          0 or more, as a NaN becomes 0
 *
 * Bounds are whole numbers that the type has, or infinite: each rounding is monotonic, so that it keeps them.
 * A NaN is in no bounds. */
#include "ir/analysis/range_impl.h"
#include <math.h>

typedef struct Bounds {
    double lo, hi; /* of every element that is no NaN */
} Bounds;

enum { FEW_STEPS = 8, FEW_PARTS = 4 };

static const Bounds unbounded = { -INFINITY, INFINITY };

/* Up to which a type of floats has all whole numbers; of fp8 zero alone is asked for. */
static double whole_numbers(DType d)
{ return d == DT_F64 ? 0x1p53 : d == DT_F32 ? 0x1p24 : d == DT_F16 ? 0x1p11 : d == DT_BF16 ? 0x1p8 : 0; }

/* Bounds that the type has, which hold for what is rounded to it. */
static Bounds kept(DType d, Bounds b)
{
    double most = whole_numbers(d);
    b.lo = floor(b.lo);
    b.hi = ceil(b.hi);
    if (isnan(b.lo) || b.lo < -most) b.lo = -INFINITY;
    if (isnan(b.hi) || b.hi > most) b.hi = INFINITY;
    if (b.lo > most) b.lo = most;
    if (b.hi < -most) b.hi = -most;
    return b;
}

static Bounds either(Bounds a, Bounds b) { return (Bounds){ fmin(a.lo, b.lo), fmax(a.hi, b.hi) }; }
static Bounds least(Bounds a, Bounds b) { return (Bounds){ fmin(a.lo, b.lo), fmin(a.hi, b.hi) }; }
static Bounds greatest(Bounds a, Bounds b) { return (Bounds){ fmax(a.lo, b.lo), fmax(a.hi, b.hi) }; }
static Bounds sum(Bounds a, Bounds b) { return (Bounds){ a.lo + b.lo, a.hi + b.hi }; }
static Bounds negative(Bounds a) { return (Bounds){ -a.hi, -a.lo }; }

/* What zero times an infinity gives is no number, and in no bounds. */
static double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

static Bounds product(Bounds a, Bounds b)
{
    Bounds x = { times(a.lo, b.lo), times(a.lo, b.lo) };
    const double others[] = { times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi) };
    for (int k = 0; k < 3; k++) x = either(x, (Bounds){ others[k], others[k] });
    return x;
}

static Bounds magnitude(Bounds a)
{ return (Bounds){ fmax(fmax(a.lo, -a.hi), 0), fmax(fabs(a.lo), fabs(a.hi)) }; }

static Bounds of_float(Ranges *, const Value *, int depth, int steps);

/* Of minnum and maxnum, which give the other operand where one is a NaN. */
static Bounds of_numbers(const Instr *i, Bounds a, Bounds b)
{
    double c;
    Bounds x = either(a, b);
    for (int k = 0; k < 2; k++) {
        if (!ir_is_const_float(ir_operand(i, k), &c) || isnan(c)) continue;
        if (i->op == OP_MAXNUM) x.lo = fmax(x.lo, c);
        else x.hi = fmin(x.hi, c);
    }
    return x;
}

static Bounds of_arithmetic(const Instr *i, const Bounds *x)
{
    switch (op_as_arithmetic(i->op)) {
    case ARITHMETIC_NEG: return negative(x[0]);
    case ARITHMETIC_ABS: return magnitude(x[0]);
    case ARITHMETIC_ADD: return sum(x[0], x[1]);
    case ARITHMETIC_SUB: return sum(x[0], negative(x[1]));
    case ARITHMETIC_MUL: return product(x[0], x[1]);
    case ARITHMETIC_FMA: return sum(product(x[0], x[1]), x[2]);
    case ARITHMETIC_MIN: return least(x[0], x[1]);
    case ARITHMETIC_MAX: return greatest(x[0], x[1]);
    case ARITHMETIC_MINNUM:
    case ARITHMETIC_MAXNUM: return of_numbers(i, x[0], x[1]);
    case ARITHMETIC_CLAMP: return least(greatest(x[0], x[1]), x[2]);
    case ARITHMETIC_DIV:
    case ARITHMETIC_REM:
    case ARITHMETIC_CDIV: break;
    }
    return unbounded;
}

static Bounds of_function(Op op, Bounds x)
{
    if (op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND) return x; /* bounds are whole */
    bool no_sign = op == OP_EXP || op == OP_EXP2 || op == OP_SIGMOID || op == OP_SQRT || op == OP_RSQRT;
    return (Bounds){ no_sign ? 0 : -INFINITY, INFINITY };
}

static Bounds of_number(Ranges *r, const Value *v, int depth)
{
    RangeInfo n = range_at(r, v, depth);
    /* an unsigned number of 64 bits may be one that counts as negative */
    if (n.lo < 0 && v->type->dtype == DT_U64) return (Bounds){ 0, INFINITY };
    return (Bounds){ (double)n.lo, (double)n.hi };
}

static Bounds of_float(Ranges *r, const Value *v, int depth, int steps)
{
    const Instr *i = v->def;
    Bounds x[3] = { unbounded, unbounded, unbounded };
    double c;
    if (ir_is_const_float(v, &c)) return isnan(c) ? unbounded : (Bounds){ floor(c), ceil(c) };
    if (!i || !steps || v->index || i->n_operands < 1 || i->n_operands > FEW_PARTS) return unbounded;
    DType from = ir_operand(i, 0)->type->dtype, d = v->type->dtype;
    if (i->op == OP_CAST && !dtype_is_float(from)) return kept(d, of_number(r, ir_operand(i, 0), depth));
    if (op_has(i->op, OPF_PICKS)) {
        x[0] = of_float(r, ir_operand(i, 0), depth, steps - 1);
        for (int k = 1; k < i->n_operands; k++)
            x[0] = either(x[0], of_float(r, ir_operand(i, k), depth, steps - 1));
        return x[0];
    }
    if (i->n_operands > 3) return unbounded;
    for (int k = i->op == OP_WHERE; k < i->n_operands; k++)
        x[k] = of_float(r, ir_operand(i, k), depth, steps - 1);
    if (i->op == OP_WHERE) return either(x[1], x[2]);
    if (i->op == OP_CAST) return kept(d, x[0]);
    if (op_family(i->op) == OPS_ARITHMETIC) return kept(d, of_arithmetic(i, x));
    if (op_family(i->op) == OPS_FUNCTION) return kept(d, of_function(i->op, x[0]));
    return unbounded;
}

RangeInfo range_of_float_cast(Ranges *r, const Instr *cast, int depth)
{
    DType to = ir_result(cast)->type->dtype;
    RangeInfo fits = range_of_dtype(to), x = { 0, 0, 1 };
    Bounds b = of_float(r, ir_operand(cast, 0), depth, FEW_STEPS);
    if (to == DT_U64) return fits;
    /* a NaN becomes 0, and what is beyond the type the nearest number of it */
    if (b.lo < 0) x.lo = b.lo <= (double)fits.lo ? fits.lo : (int64_t)b.lo;
    if (b.hi > 0) x.hi = b.hi >= (double)fits.hi ? fits.hi : (int64_t)b.hi;
    return x;
}
