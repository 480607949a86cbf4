/* never_small.c: whether a value is 0, NaN or at least 2^-126 in magnitude, so that a reciprocal of it in f32
 * is as large as it should be.
 *
 * Such are square roots, what is at least a constant, and what is converted from integers or f16; sums of
 * such values that are never below zero; and the sums of a softmax, one of whose exponentials is 1:
 *
 *   sum(exp2((x - max(x)) c))
 *   m_new = max(m, max(x)); l = l exp2((m - m_new) c) + sum(exp2((x - m_new) c))
 *
 * The second one is where m_new is max(x), and else not smaller than l before, because exp2((m - m_new) c)
 * is 1 then. Where m_new is -inf and a constant stands for it in the exponents, all of them are 0 or
 * infinite.
 *
 * Does not handle: sums whose maximum is of something else than the exponents. */
#include "passes/kernel/kernel.h"
#include <math.h>

enum { MOST_STEPS = 12, MOST_LOOPS = 4 };

typedef struct Proof {
    const Instr *loops[MOST_LOOPS]; /* whose carried values are assumed to be what is to be shown of them */
    bool as_positive[MOST_LOOPS];   /* what is assumed is `positive`, too */
    int carried[MOST_LOOPS], n_loops;
    bool flushed;  /* exp2 gives 0 in place of a denormal number */
    bool positive; /* also that the value is not below zero */
} Proof;

/* The value that a tile repeats, found through splats and broadcasts. */
static Value *repeated(Value *v)
{
    while (v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST)) v = ir_operand(v->def, 0);
    return v;
}

/* The larger of two, for which a constant may stand where it is -inf. */
static const Instr *unguarded(Value *v)
{
    double c;
    const Instr *i = v->def, *test = i && i->op == OP_WHERE ? ir_operand(i, 0)->def : NULL;
    if (!test || (test->op != OP_EQ && test->op != OP_NE)) return i;
    if (!ir_is_const_float(repeated(ir_operand(test, 1)), &c) || c != -INFINITY) return i;
    Value *kept = ir_operand(i, test->op == OP_EQ ? 2 : 1);
    return kept == ir_operand(test, 0) ? kept->def : i;
}

/* An exponential of (of - base) c. */
typedef struct Shifted {
    Value *of, *base, *c; /* c: NULL where it is 1 */
} Shifted;

static bool shifted(Value *v, Shifted *out)
{
    const Instr *e = v->def;
    if (!e || (e->op != OP_EXP && e->op != OP_EXP2)) return false;
    const Instr *d = ir_operand(e, 0)->def;
    *out = (Shifted){ 0 };
    if (d && d->op == OP_MUL) {
        out->c = repeated(ir_operand(d, 1));
        d = ir_operand(d, 0)->def;
    }
    if (!d || d->op != OP_SUB) return false;
    out->of = ir_operand(d, 0);
    out->base = repeated(ir_operand(d, 1));
    return true;
}

static bool same(Value *a, Value *b)
{
    double x, y;
    return a == b || (a && b && ir_is_const_float(a, &x) && ir_is_const_float(b, &y) && x == y);
}

/* Whether `most` is an element of each row of x: its maximum, or both of them times one factor. */
static bool attained(Value *x, Value *most, const Instr *sum)
{
    const Instr *m = most->def, *d = x->def;
    if (!m) return false;
    if (m->op == OP_REDUCE_MAX)
        return ir_operand(m, 0) == x && ir_attr_int(m, ATTR_AXIS, 0) == ir_attr_int(sum, ATTR_AXIS, 0);
    return m->op == OP_MUL && d && d->op == OP_MUL &&
           same(repeated(ir_operand(m, 1)), repeated(ir_operand(d, 1))) &&
           attained(ir_operand(d, 0), ir_operand(m, 0), sum);
}

static bool never_small(const Value *v, const Proof *, int depth);

/* l f + sum(exp2(..)) of a softmax whose keys come in parts. */
static bool is_online_sum(Value *l, Value *factor, Value *sum, const Proof *p, int depth)
{
    Shifted f, e;
    const Instr *s = sum->def;
    if (!s || s->op != OP_REDUCE_SUM || !shifted(factor, &f) || !shifted(ir_operand(s, 0), &e)) return false;
    const Instr *max = unguarded(f.base);
    if (f.base != e.base || !same(f.c, e.c) || !max || max->op != OP_MAX || max->n_operands != 2)
        return false;
    const int old = ir_operand(max, 1) == f.of;
    Proof q = *p;
    q.positive = true;
    return ir_operand(max, old) == f.of && attained(e.of, ir_operand(max, !old), s) &&
           never_small(l, &q, depth + 1);
}

static bool is_softmax_sum(const Instr *sum)
{
    Shifted e;
    return shifted(ir_operand(sum, 0), &e) && attained(e.of, e.base, sum);
}

static bool is_sum_in_parts(const Instr *i, const Proof *p, int depth)
{
    if (i->op == OP_FMA)
        return is_online_sum(ir_operand(i, 0), ir_operand(i, 1), ir_operand(i, 2), p, depth) ||
               is_online_sum(ir_operand(i, 1), ir_operand(i, 0), ir_operand(i, 2), p, depth);
    for (int k = 0; i->op == OP_ADD && k < 2; k++) {
        const Instr *m = ir_operand(i, k)->def;
        if (m && m->op == OP_MUL &&
            (is_online_sum(ir_operand(m, 0), ir_operand(m, 1), ir_operand(i, !k), p, depth) ||
                is_online_sum(ir_operand(m, 1), ir_operand(m, 0), ir_operand(i, !k), p, depth)))
            return true;
    }
    return false;
}

static bool operands(const Instr *i, int from, const Proof *p, int depth)
{
    for (int k = from; k < i->n_operands; k++)
        if (!never_small(ir_operand(i, k), p, depth + 1)) return false;
    return true;
}

/* Whether the others' result is at least a constant, in a maximum or a sum. */
static bool at_least_constant(const Instr *i)
{
    double c;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_is_const_float(ir_operand(i, k), &c) && c >= 0x1p-126) return true;
    return false;
}

static bool is_large_sum(const Instr *i, const Proof *p, int depth)
{
    if (i->op == OP_REDUCE_SUM && is_softmax_sum(i)) return true;
    if (is_sum_in_parts(i, p, depth)) return true;
    for (int k = 0; k < i->n_operands; k++)
        if (i->op == OP_FMA || !kernel_never_below_zero(ir_operand(i, k))) return false;
    return (i->op == OP_ADD && at_least_constant(i)) || operands(i, 0, p, depth);
}

/* The carried value k of a loop, before it, in it and behind it. */
static bool is_carried(const Instr *loop, int k, const Proof *p, int depth)
{
    Proof q = *p;
    for (int n = 0; n < p->n_loops; n++)
        if (p->loops[n] == loop && p->carried[n] == k && (p->as_positive[n] || !p->positive)) return true;
    if (loop->op != OP_FOR || p->n_loops == MOST_LOOPS) return false;
    q.loops[q.n_loops] = loop;
    q.as_positive[q.n_loops] = p->positive;
    q.carried[q.n_loops++] = k;
    return never_small(ir_operand(loop, 3 + k), p, depth + 1) &&
           never_small(ir_operand(ir_terminator(loop->blocks[0]), k), &q, depth + 1);
}

static bool is_converted(DType from, bool positive)
{
    if (dtype_is_float(from)) return dtype_bits(from) <= 16 && from != DT_BF16 && !positive;
    return !positive || !dtype_is_signed(from);
}

static bool is_absolute(const Instr *i, const Proof *p, int depth)
{
    Proof q = *p;
    q.positive = false;
    return operands(i, 0, &q, depth);
}

static bool never_small(const Value *v, const Proof *p, int depth)
{
    double c;
    const Instr *d = v->def;
    if (ir_is_const_float(v, &c)) return c == 0 || (p->positive ? c : fabs(c)) >= 0x1p-126;
    if (depth > MOST_STEPS) return false;
    if (!d) return v->block->parent && is_carried(v->block->parent, v->index - 1, p, depth);
    if (d->op == OP_FOR) return is_carried(d, v->index, p, depth);
    if (d->op == OP_CAST) return is_converted(ir_operand(d, 0)->type->dtype, p->positive);
    if (d->op == OP_SQRT) return true; /* that of the least number is 2^-75 */
    if (d->op == OP_EXP2) return p->flushed;
    if (d->op == OP_WHERE) return operands(d, 1, p, depth);
    if (d->op == OP_ABS) return is_absolute(d, p, depth);
    if (d->op == OP_MAX && at_least_constant(d)) return true;
    if (d->op == OP_ADD || d->op == OP_FMA || d->op == OP_REDUCE_SUM) return is_large_sum(d, p, depth);
    const bool takes = (d->op == OP_NEG && !p->positive) || d->op == OP_MAX || d->op == OP_REDUCE_MAX ||
                       op_has(d->op, OPF_MOVES);
    return takes && operands(d, 0, p, depth);
}

bool kernel_never_small(const Value *v, bool flushed)
{
    const Proof p = { .flushed = flushed };
    return never_small(v, &p, 0);
}
