/* never_small.c: whether a value is 0, NaN or at least 2^-126 in magnitude, so that a reciprocal of it in f32
 * is as large as it should be.
 *
 * This holds for square roots, for values that are at least some constant, for values converted from integers
 * or f16, for sums of such values that are never below zero, and for the sums of a softmax, one of whose
 * exponentials is 1:
 *
 *   sum(exp2((x - max(x)) c))
 *   m_new = max(m, max(x)); l = l exp2((m - m_new) c) + sum(exp2((x - m_new) c))
 *
 * The second one is at least 1 where m_new is max(x), and else not smaller than l before, because
 * exp2((m - m_new) c) is 1 then. So l may begin with 0 only where m begins with -inf: else what is added to
 * the 0 may be small. Where m_new is -inf and a constant stands for it in the exponents, all of them are 0 or
 * infinite. If the CTAs of a cluster have sums under maxima of their own, the sum under the largest maximum
 * is added unscaled. The maximum may be that of a slice of x, which is an element of x as well:
 * a speculated softmax (passes/tile/loops/speculate.c) has such a sum in the first block of an `if`, and the
 * sum as written in the second one.
 *
 * Does not handle: sums whose maximum is of something else than the exponents. */
#include "passes/kernel/kernel.h"
#include <math.h>

enum { MOST_STEPS = 12, MOST_LOOPS = 4 };

/* What is assumed of a value that a loop carries, while it is shown. */
typedef struct Assumed {
    const Instr *loop;
    int value,
        most; /* numbers of carried values; most: the maximum that belongs to the sum (paired), or -1 */
    bool positive;
} Assumed;

typedef struct Proof {
    Assumed assumed[MOST_LOOPS];
    int n_assumed;
    bool flushed;  /* exp2 gives 0 in place of a denormal number */
    bool positive; /* also that the value is not below zero */
} Proof;

/* The larger of two, for which a constant may stand where it is -inf. */
static const Instr *unguarded(Value *v)
{
    double c;
    const Instr *i = v->def, *test = i && i->op == OP_WHERE ? ir_operand(i, 0)->def : NULL;
    if (!test || (test->op != OP_EQ && test->op != OP_NE)) return i;
    if (!ir_is_const_float(ir_operand(test, 1), &c) || c != -INFINITY) return i;
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
        out->c = ir_repeated(ir_operand(d, 1));
        d = ir_operand(d, 0)->def;
    }
    if (!d || d->op != OP_SUB) return false;
    out->of = ir_operand(d, 0);
    out->base = ir_repeated(ir_operand(d, 1));
    return true;
}

static bool same(Value *a, Value *b)
{
    double x, y;
    return a == b || (a && b && ir_is_const_float(a, &x) && ir_is_const_float(b, &y) && x == y);
}

/* Whether v is x, or a slice of x along the axis. */
static bool is_part(const Value *v, const Value *x, int64_t axis)
{
    const Instr *d = v->def;
    return v == x ||
           (d && d->op == OP_SLICE && ir_operand(d, 0) == x && ir_attr_int(d, ATTR_AXIS, 0) == axis);
}

/* Whether `most` is an element of each row of x: its maximum, that of a slice, or both of them times one
 * factor. */
static bool attained(Value *x, Value *most, const Instr *sum)
{
    const Instr *m = most->def, *d = x->def;
    if (!m) return false;
    if (m->op == OP_REDUCE_MAX) {
        const int64_t axis = ir_attr_int(m, ATTR_AXIS, 0);
        return is_part(ir_operand(m, 0), x, axis) && axis == ir_attr_int(sum, ATTR_AXIS, 0);
    }
    return m->op == OP_MUL && d && d->op == OP_MUL &&
           same(ir_repeated(ir_operand(m, 1)), ir_repeated(ir_operand(d, 1))) &&
           attained(ir_operand(d, 0), ir_operand(m, 0), sum);
}

static bool never_small(Value *, const Proof *, int depth);

static bool is_softmax_sum(const Instr *sum)
{
    Shifted e;
    return shifted(ir_operand(sum, 0), &e) && attained(e.of, e.base, sum);
}

/* l factor + sum(exp2(..)) of a softmax whose keys come in parts. */
typedef struct OnlineSum {
    Value *l, *before; /* the sum and the maximum of the parts before */
    const Instr *most; /* the maximum now */
} OnlineSum;

static bool is_online(Value *l, Value *factor, Value *sum, OnlineSum *out)
{
    Shifted f, e;
    const Instr *s = sum->def;
    if (!s || s->op != OP_REDUCE_SUM || !shifted(factor, &f) || !shifted(ir_operand(s, 0), &e)) return false;
    const Instr *max = unguarded(f.base);
    if (f.base != e.base || !same(f.c, e.c) || !max || max->op != OP_MAX || max->n_operands != 2)
        return false;
    const int old = ir_operand(max, 1) == f.of;
    *out = (OnlineSum){ l, f.of, max };
    return ir_operand(max, old) == f.of && attained(e.of, ir_operand(max, !old), s);
}

static bool is_sum_in_parts(const Instr *i, OnlineSum *out)
{
    if (i->op == OP_FMA)
        return is_online(ir_operand(i, 0), ir_operand(i, 1), ir_operand(i, 2), out) ||
               is_online(ir_operand(i, 1), ir_operand(i, 0), ir_operand(i, 2), out);
    for (int k = 0; i->op == OP_ADD && k < 2; k++) {
        const Instr *m = ir_operand(i, k)->def;
        if (m && m->op == OP_MUL &&
            (is_online(ir_operand(m, 0), ir_operand(m, 1), ir_operand(i, !k), out) ||
                is_online(ir_operand(m, 1), ir_operand(m, 0), ir_operand(i, !k), out)))
            return true;
    }
    return false;
}

/* The loop that carries the value, in it and behind it, and the value's number; NULL: it is none of them. */
static const Instr *carrier(const Value *v, int *k)
{
    const Instr *loop = v->def ? v->def : v->block->parent;
    *k = v->def ? v->index : v->index - 1;
    return loop && loop->op == OP_FOR && *k >= 0 ? loop : NULL;
}

static bool is_assumed(const Proof *p, const Assumed *a)
{
    for (int n = 0; n < p->n_assumed; n++) {
        const Assumed *b = &p->assumed[n];
        if (b->loop == a->loop && b->value == a->value && b->most == a->most && b->positive >= a->positive)
            return true;
    }
    return false;
}

/* Whether a value is at least 2^-126, 0 where its maximum is -inf, or NaN: `l` is what comes in parts until
 * now, `most` its maximum. */
static bool paired(Value *l, Value *most, const Proof *p, int depth)
{
    double c, first;
    int k, at;
    OnlineSum now;
    if (depth > MOST_STEPS) return false;
    if (ir_is_const_float(l, &c))
        return c >= 0x1p-126 || (c == 0 && ir_is_const_float(most, &first) && first == -INFINITY);
    const Instr *d = l->def, *loop = carrier(l, &k);
    if (d && is_sum_in_parts(d, &now))
        return now.most == most->def && paired(now.l, now.before, p, depth + 1);
    if (!loop || carrier(most, &at) != loop) return false;
    const Assumed a = { loop, k, at, true };
    if (is_assumed(p, &a)) return true;
    if (p->n_assumed == MOST_LOOPS) return false;
    Proof q = *p;
    q.assumed[q.n_assumed++] = a;
    const Instr *end = ir_terminator(loop->blocks[0]);
    return paired(ir_operand(loop, 3 + k), ir_operand(loop, 3 + at), p, depth + 1) &&
           paired(ir_operand(end, k), ir_operand(end, at), &q, depth + 1);
}

/* Whether the sum of a softmax is one of the values that the loop carries, with the maximum beside it. */
static bool has_maximum(Value *l, const Instr *loop, int k, const Proof *p, int depth)
{
    const Instr *end = ir_terminator(loop->blocks[0]);
    OnlineSum now;
    Value *next = ir_operand(end, k);
    if (!next->def || !is_sum_in_parts(next->def, &now)) return false;
    for (int at = 0; at < end->n_operands; at++)
        if (ir_operand(end, at)->def == now.most)
            return paired(l, l->def ? (Value *)&loop->results[at] : loop->blocks[0]->args[at + 1], p, depth);
    return false;
}

/* Whether the instruction combines whole tiles of a cluster's CTAs. */
static bool is_joined(const Instr *i, int64_t rmw)
{
    return i && i->op == OP_CLUSTER_COMBINE && ir_attr_int(i, ATTR_RMW, -1) == rmw &&
           ir_attr_int(i, ATTR_AXIS, -1) < 0;
}

/* sum over CTAs of l where(m == M, 1, exp2((m - M) c)), M the largest m of all. */
static bool is_joined_sum(const Instr *i, const Proof *p, int depth)
{
    const Instr *m = ir_operand(i, 0)->def;
    for (int k = 0; m && m->op == OP_MUL && k < 2; k++) {
        double one;
        Shifted e;
        const Instr *w = ir_operand(m, k)->def, *test = w && w->op == OP_WHERE ? ir_operand(w, 0)->def : NULL;
        if (!test || test->op != OP_EQ || !ir_is_const_float(ir_operand(w, 1), &one) || one != 1 ||
            !shifted(ir_operand(w, 2), &e))
            continue;
        const Instr *most = e.base->def;
        if (e.of == ir_operand(test, 0) && e.base == ir_operand(test, 1) && is_joined(most, RMW_MAX) &&
            is_joined(i, RMW_ADD) && ir_operand(most, 0) == e.of &&
            paired(ir_operand(m, !k), e.of, p, depth + 1))
            return true;
    }
    return false;
}

static bool never_small(Value *, const Proof *, int depth);

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
    OnlineSum now;
    if (is_sum_in_parts(i, &now))
        return paired((Value *)ir_result(i), (Value *)ir_result(now.most), p, depth + 1);
    for (int k = 0; k < i->n_operands; k++)
        if (i->op == OP_FMA || !kernel_never_below_zero(ir_operand(i, k))) return false;
    return (i->op == OP_ADD && at_least_constant(i)) || operands(i, 0, p, depth);
}

/* The value that a loop carries, before it, in it and behind it. */
static bool is_carried(Value *v, const Proof *p, int depth)
{
    Proof q = *p;
    int k;
    const Instr *loop = carrier(v, &k);
    if (!loop) return false;
    if (has_maximum(v, loop, k, p, depth + 1)) return true;
    const Assumed a = { loop, k, -1, p->positive };
    if (is_assumed(p, &a)) return true;
    if (p->n_assumed == MOST_LOOPS) return false;
    q.assumed[q.n_assumed++] = a;
    return never_small(ir_operand(loop, 3 + k), p, depth + 1) &&
           never_small(ir_operand(ir_terminator(loop->blocks[0]), k), &q, depth + 1);
}

/* Whether both blocks hand on such a value. */
static bool is_chosen(const Value *v, const Proof *p, int depth)
{
    for (int k = 0; k < v->def->n_blocks; k++)
        if (!never_small(ir_operand(ir_terminator(v->def->blocks[k]), v->index), p, depth + 1)) return false;
    return true;
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

static bool never_small(Value *v, const Proof *p, int depth)
{
    double c;
    const Instr *d = v->def;
    if (ir_is_const_float(v, &c)) return c == 0 || (p->positive ? c : fabs(c)) >= 0x1p-126;
    if (depth > MOST_STEPS) return false;
    if (!d || d->op == OP_FOR) return is_carried(v, p, depth);
    if (d->op == OP_CAST) return is_converted(ir_operand(d, 0)->type->dtype, p->positive);
    if (d->op == OP_IF) return is_chosen(v, p, depth);
    if (d->op == OP_SQRT) return true; /* that of the least number is 2^-75 */
    if (d->op == OP_EXP2) return p->flushed;
    if (d->op == OP_WHERE) return operands(d, 1, p, depth);
    if (d->op == OP_ABS) return is_absolute(d, p, depth);
    if (d->op == OP_MAX && at_least_constant(d)) return true;
    if (d->op == OP_CLUSTER_COMBINE) return is_joined_sum(d, p, depth);
    if (d->op == OP_ADD || d->op == OP_FMA || d->op == OP_REDUCE_SUM) return is_large_sum(d, p, depth);
    const bool takes = (d->op == OP_NEG && !p->positive) || d->op == OP_MAX || d->op == OP_REDUCE_MAX ||
                       op_has(d->op, OPF_MOVES);
    return takes && operands(d, 0, p, depth);
}

bool kernel_never_small(Value *v, bool flushed)
{
    const Proof p = { .flushed = flushed };
    return never_small(v, &p, 0);
}
