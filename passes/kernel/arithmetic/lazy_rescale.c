/* lazy-rescale: rescales an accumulator that is scaled by exp2((m - m_new) c) only when the maximum grew
 * enough to matter.
 *
 *   m_new = max(m, x); alpha = exp2((m - m_new) c); p = exp2((s - m_new) c)
 *   l = l alpha + sum(p); acc = acc alpha + p v
 *
 * becomes
 *
 *   grew  = any row of the warp has not x < bar, which is m + 8/c, or -inf in rows far from zero (near.c)
 *   m_new = grew ? max(m, x) : m
 *   ... the rest with this m_new ...; l alpha and acc alpha only if grew: else alpha is 1
 *
 * Any m_new within 8/c of the true maximum is valid, because it only shifts the exponents. What is
 * accumulated under it (l, acc) is rescaled by the same alpha, so that quotients of such values are the
 * same up to rounding. p stays below 2^8, within every float type. The shift may be m_new where that is
 * finite and a constant elsewhere (`guard`): where m is infinite, its growth is not below 8, and alpha is
 * applied.
 *
 * The pass checks what this depends on, value by value. In the loop, m is used only by the maximum and by
 * alpha's exponent, and m_new only by the shift. Everything that is computed from p grows by one factor
 * (`new`), the carried values come to that factor by alpha, and each of them is handed on in it. Behind
 * the loop, m is not used, except as the beginning of another such loop, which takes over all that is under
 * it, and to bring what CTAs of a cluster have, each under its own m, to a common one (split_k.c). The factor
 * of the carried values, whose power is followed through products and quotients, cancels before anything is
 * stored or rounded.
 *
 * Requires: each warp holds whole rows. Keeps: quotients, up to rounding. lazy_choice.c makes the change.
 * FlashAttention-4 rescales in the same way. */
#include "passes/kernel/arithmetic/lazy_rescale.h"
#include "passes/kernel/schedule/schedule.h"
#include <math.h>

static bool only_exp2(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_EXP2) return false;
    return v->uses != NULL;
}

static Value *scalar_of(Value *v)
{
    v = ir_repeated(v);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

static bool is_constant(Value *v, double x)
{
    double y;
    return ir_is_const_float(v, &y) && y == x;
}

/* Whether two values are the same scalar: one value, equal constants, or products of one value with such
 * scalars. */
static bool same_scalar(Value *a, Value *b)
{
    double x, y;
    if (!a || !b) return false;
    if (a == b) return true;
    if (ir_is_const_float(a, &x) && ir_is_const_float(b, &y)) return (float)x == (float)y;
    return a->def && b->def && a->def->op == OP_MUL && b->def->op == OP_MUL &&
           ir_operand(a->def, 0) == ir_operand(b->def, 0) &&
           same_scalar(ir_operand(a->def, 1), ir_operand(b->def, 1));
}

/* Recognizes where(x == -inf, constant, x), or the same with the branches exchanged. */
static Value *guarded(Instr *i)
{
    if (i->op != OP_WHERE || !ir_operand(i, 0)->def) return NULL;
    Instr *test = ir_operand(i, 0)->def;
    if (test->op != OP_EQ && test->op != OP_NE) return NULL;
    Value *x = ir_operand(i, test->op == OP_EQ ? 2 : 1), *other = ir_operand(i, test->op == OP_EQ ? 1 : 2),
          *tested = ir_operand(test, 0);
    double k;
    return tested == x && is_constant(ir_operand(test, 1), -INFINITY) && ir_is_const_float(other, &k) &&
                   isfinite(k)
               ? x
               : NULL;
}

/* Whether this use only decides the guard. */
static bool feeds_guard(const Lazy *c, Instr *i)
{
    if (i->op != OP_EQ && i->op != OP_NE) return false;
    for (const Use *u = ir_result(i)->uses; u; u = u->next)
        if (ir_result(u->user) != c->base) return false;
    return ir_result(i)->uses;
}

/* An exponent (of - base) c; every one has the same c. */
static bool add_exponent(Lazy *c, Value *of, Value *factor, Value *result)
{
    Value *scale = scalar_of(factor);
    if (!scale || !only_exp2(result)) return false;
    if (!c->scale) c->scale = scale;
    if (!same_scalar(c->scale, scale)) return false;
    if (ir_repeated(of) == c->m) {
        if (c->alpha || !result->uses || result->uses->next) return false;
        c->alpha = ir_result(result->uses->user);
    } else vec_push(&c->s->arena, &c->exponents, ((Exponent){ of, result }));
    return true;
}

static bool exponents_of_difference(Lazy *c, Instr *sub)
{
    Value *d = ir_result(sub);
    for (Use *u = d->uses; u; u = u->next) {
        Instr *i = u->user;
        if (i->op != OP_MUL || ir_operand(i, 0) != d ||
            !add_exponent(c, ir_operand(sub, 0), ir_operand(i, 1), ir_result(i)))
            return false;
    }
    return d->uses != NULL;
}

static bool exponents_of(Lazy *c, Value *base)
{
    for (Use *u = base->uses; u; u = u->next) {
        Instr *i = u->user;
        if (i->op == OP_BROADCAST) {
            if (!exponents_of(c, ir_result(i))) return false;
        } else if (i->op == OP_SUB && ir_operand(i, 1) == base) {
            if (!exponents_of_difference(c, i)) return false;
        } else if (i->op != OP_YIELD || base != c->top) return false;
    }
    return true;
}

/* Checks that the exponents subtract the maximum, or its only guard. */
static bool find_exponents(Lazy *c)
{
    c->base = c->top;
    for (Use *u = c->top->uses; u; u = u->next)
        if (guarded(u->user) == c->top) c->base = ir_result(u->user);
    for (Use *u = c->top->uses; u && c->base != c->top; u = u->next)
        if (u->user->op != OP_YIELD && ir_result(u->user) != c->base && !feeds_guard(c, u->user))
            return false;
    return exponents_of(c, c->base) && c->alpha;
}

static bool has_factor(const Lazy *c, const Value *v)
{
    for (size_t k = 0; k < c->grown.len; k++)
        if (c->grown.data[k] == v) return true;
    return false;
}

static void grow(Lazy *c, Value *v)
{
    if (!has_factor(c, v)) vec_push(&c->s->arena, &c->grown, v);
}

Value *lazy_rescaled(const Lazy *c, const Instr *i)
{
    if (i->op != OP_MUL && i->op != OP_FMA) return NULL;
    for (int k = 0; k < 2; k++)
        if (ir_repeated(ir_operand(i, k)) == c->alpha) {
            Value *x = ir_operand(i, 1 - k);
            if (!x->def)
                for (int a = 1; a < c->loop->blocks[0]->n_args; a++)
                    if (c->loop->blocks[0]->args[a] == x) return x;
        }
    return NULL;
}

static bool is_float_cast(const Instr *i)
{ return i->op == OP_CAST && dtype_is_float(ir_result(i)->type->dtype); }

/* Whether the result of this instruction has the factor if its marked operands have it, and is otherwise the
 * same. */
static bool keeps_factor(const Lazy *c, const Instr *i)
{
    bool f[3] = { false };
    for (int k = 0; k < i->n_operands && k < 3; k++) f[k] = has_factor(c, ir_operand(i, k));
    if (op_has(i->op, OPF_WHOLE) || i->op == OP_NEG || i->op == OP_REDUCE_SUM || i->op == OP_WGMMA_WAIT)
        return i->n_operands == 1;
    if (i->op == OP_CAST) return is_float_cast(i);
    if (i->op == OP_ADD || i->op == OP_SUB) return f[0] && f[1];
    if (i->op == OP_MUL) return f[0] != f[1];
    if (i->op == OP_FMA) return f[2] && (f[0] != f[1] || (!f[0] && lazy_rescaled(c, i)));
    if (op_family(i->op) == OPS_PRODUCT) return f[2] && f[0] != f[1];
    return i->op == OP_WHERE && !f[0] && (f[1] || is_constant(ir_operand(i, 1), 0)) &&
           (f[2] || is_constant(ir_operand(i, 2), 0));
}

/* Finds the values of the loop that have the factor, beginning with p and the carried ones. */
static bool follow_in_loop(Lazy *c)
{
    Block *body = c->loop->blocks[0];
    for (size_t k = 0; k < c->exponents.len; k++)
        for (Use *u = c->exponents.data[k].result->uses; u; u = u->next) grow(c, ir_result(u->user));
    ValueList queue = { 0 };
    vec_push(&c->s->arena, &queue, c->alpha);
    ValueList carried = { 0 };
    for (size_t k = 0; k < queue.len; k++)
        for (Use *u = queue.data[k]->uses; u; u = u->next) {
            Value *x = lazy_rescaled(c, u->user);
            if (u->user->op == OP_BROADCAST) vec_push(&c->s->arena, &queue, ir_result(u->user));
            else if (!x) return false;
            else {
                vec_push(&c->s->arena, &carried, x);
                grow(c, ir_result(u->user));
            }
        }
    for (size_t k = 0; k < c->grown.len; k++)
        for (Use *u = c->grown.data[k]->uses; u; u = u->next) {
            if (u->user == ir_terminator(body)) continue;
            if (u->user->block != body || u->user->n_results != 1) return false;
            grow(c, ir_result(u->user));
        }
    for (size_t k = 0; k < c->grown.len; k++) {
        const Instr *i = c->grown.data[k]->def;
        if (i->op != OP_EXP2 && !(i->op == OP_MUL && lazy_rescaled(c, i)) && !keeps_factor(c, i))
            return false;
    }
    /* The loop must carry a value with the factor exactly if alpha rescaled it, and the value must have no
     * other use before that. */
    for (int r = 0; r < c->loop->n_results; r++) {
        Value *x = body->args[r + 1];
        bool took = false;
        for (size_t k = 0; k < carried.len; k++) took |= carried.data[k] == x;
        if (took != has_factor(c, ir_operand(ir_terminator(body), r))) return false;
        for (Use *u = x->uses; took && u; u = u->next)
            if (lazy_rescaled(c, u->user) != x) return false;
    }
    return true;
}

typedef struct Power {
    Value *value;
    int of;
} Power;
typedef struct Powers {
    Session *s;
    VEC(Power) rows;
} Powers;

static int power(const Powers *p, const Value *v)
{
    for (size_t k = 0; k < p->rows.len; k++)
        if (p->rows.data[k].value == v) return p->rows.data[k].of;
    return 0;
}

/* The value `x == 0 ? constant : x` has the power of x: if all of its terms vanish, they do so with every
 * factor. */
static Value *zero_guarded(Instr *i)
{
    Instr *test = i->op == OP_WHERE ? ir_operand(i, 0)->def : NULL;
    if (!test || (test->op != OP_EQ && test->op != OP_NE)) return NULL;
    Value *x = ir_operand(i, test->op == OP_EQ ? 2 : 1);
    double k;
    return ir_operand(test, 0) == x && is_constant(ir_operand(test, 1), 0) &&
                   ir_is_const_float(ir_operand(i, test->op == OP_EQ ? 1 : 2), &k)
               ? x
               : NULL;
}

/* The power of the factor in an instruction's result; false if it is not a power. */
static bool power_of(const Powers *p, Instr *i, int *out)
{
    int a[3] = { 0 };
    for (int k = 0; k < i->n_operands && k < 3; k++) a[k] = power(p, ir_operand(i, k));
    *out = a[0];
    if (op_has(i->op, OPF_WHOLE) || i->op == OP_NEG || i->op == OP_ABS || i->op == OP_REDUCE_SUM ||
        i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN)
        return i->n_operands == 1;
    if (i->op == OP_CLUSTER_COMBINE) return true; /* of values with the factor of one maximum */
    if (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MAX || i->op == OP_MIN) return a[0] == a[1];
    if (i->op == OP_MUL) return *out = a[0] + a[1], true;
    if (i->op == OP_DIV) return *out = a[0] - a[1], true;
    if (i->op == OP_FMA) return *out = a[2], a[0] + a[1] == a[2];
    if (op_family(i->op) == OPS_COMPARE) return *out = 0, a[0] == a[1] || is_constant(ir_operand(i, 1), 0);
    if (i->op != OP_WHERE) return false;
    if (zero_guarded(i)) return *out = power(p, zero_guarded(i)), a[0] == 0;
    return *out = a[1], a[0] == 0 && a[1] == a[2];
}

/* Checks that the factor cancels after the loop before any other use. */
static bool cancels(Lazy *c)
{
    Powers p = { .s = c->s };
    Block *body = c->loop->blocks[0];
    for (int r = 0; r < c->loop->n_results; r++)
        if (has_factor(c, ir_operand(ir_terminator(body), r)))
            vec_push(&c->s->arena, &p.rows, ((Power){ &c->loop->results[r], 1 }));
    for (Instr *i = c->loop->next; i; i = i->next) {
        bool touched = false;
        for (int k = 0; k < i->n_operands; k++) touched |= power(&p, ir_operand(i, k)) != 0;
        int n;
        if (!touched) continue;
        if (i->n_results != 1 || !power_of(&p, i, &n)) return false;
        if (n) vec_push(&c->s->arena, &p.rows, ((Power){ ir_result(i), n }));
    }
    for (size_t k = 0; k < p.rows.len; k++)
        for (const Use *u = p.rows.data[k].value->uses; u; u = u->next)
            if (u->user->block != c->loop->block) return false;
    return true;
}

/* Whether f = where(m == M, 1, exp2((m - M) c)), where M is the largest m of a cluster, and m and M have no
 * other use. */
static bool brings_together(const Lazy *c, const Value *m, const Value *f)
{
    const Value *most = NULL, *same = NULL, *power = NULL;
    for (const Use *u = m->uses; u; u = u->next)
        if (u->user->op == OP_CLUSTER_COMBINE && !most && !ir_attr(u->user, ATTR_AXIS) &&
            ir_attr_int(u->user, ATTR_RMW, -1) == RMW_MAX)
            most = ir_result(u->user);
    for (const Use *u = most ? most->uses : NULL; u; u = u->next) {
        Instr *i = u->user;
        if (ir_operand(i, 0) != m) return false;
        if (i->op == OP_EQ && !same) same = ir_result(i);
        else if (i->op == OP_SUB && !power) power = ir_result(i);
        else return false;
    }
    for (const Use *u = m->uses; u; u = u->next)
        if (ir_result(u->user) != most && ir_result(u->user) != same && ir_result(u->user) != power)
            return false;
    /* The difference times c, its power of two, and the choice. */
    for (int k = 0; k < 3 && power && same; k++) {
        Instr *i = power->uses && !power->uses->next ? power->uses->user : NULL;
        bool as_expected =
            i && (k == 0      ? i->op == OP_MUL && ir_operand(i, 0) == power &&
                                    same_scalar(c->scale, scalar_of(ir_operand(i, 1)))
                     : k == 1 ? i->op == OP_EXP2
                              : i->op == OP_WHERE && ir_operand(i, 0) == same && ir_operand(i, 2) == power &&
                                    is_constant(ir_operand(i, 1), 1));
        if (!as_expected) return false;
        power = ir_result(i);
    }
    return power && power == f;
}

/* Checks that m has no use after the loop, or that one factor converts all values under it to the maximum
 * that the cluster has in common before any other use. */
static bool unused_or_common(const Lazy *c, int k)
{
    const Value *m = &c->loop->results[k];
    const Block *body = c->loop->blocks[0];
    const Value *f = NULL;
    if (!m->uses) return true;
    for (int r = 0; r < c->loop->n_results; r++) {
        if (!has_factor(c, ir_operand(ir_terminator(body), r))) continue;
        for (const Use *u = c->loop->results[r].uses; u; u = u->next) {
            if (u->user->op != OP_MUL || ir_operand(u->user, 0) != &c->loop->results[r]) return false;
            const Value *by = ir_repeated(ir_operand(u->user, 1));
            if (f && by != f) return false;
            f = by;
        }
    }
    return f && brings_together(c, m, f);
}

/* Whether the loop's carried value k is a maximum of some kind. */
typedef bool Maximum(Session *s, Instr *loop, int k, Lazy *c);

/* Whether the loop's yielded value r has the factor. */
static bool is_under(const Lazy *c, int r)
{ return has_factor(c, ir_operand(ir_terminator(c->loop->blocks[0]), r)); }

/* Checks that another such loop, of exponents with the same c, begins with the maximum k and all that is
 * under it, which has no other use. What else it has under its maximum begins with zero, which every factor
 * keeps. */
static bool goes_on(const Lazy *c, int k, Maximum *is_such)
{
    const Value *m = &c->loop->results[k];
    const Use *u = m->uses;
    if (!u || u->next || u->user->op != OP_FOR || u->user->block != c->loop->block) return false;
    Instr *next = u->user;
    int at = (int)(u - next->operands) - 3;
    Lazy n;
    if (at < 0 || !is_such(c->s, next, at, &n) || !same_scalar(c->scale, n.scale)) return false;
    for (int r = 0; r < c->loop->n_results; r++)
        for (const Use *w = is_under(c, r) ? c->loop->results[r].uses : NULL; w; w = w->next)
            if (w->user != next || w - next->operands < 3 || !is_under(&n, (int)(w - next->operands) - 3))
                return false;
    for (int r = 0; r < next->n_results; r++) {
        Value *from = ir_operand(next, 3 + r);
        if (is_under(&n, r) && !is_constant(from, 0) && (from->def != c->loop || !is_under(c, from->index)))
            return false;
    }
    return true;
}

/* Whether the loop's carried value k is such a maximum, as far as the loop itself goes. */
static bool is_running_maximum(Session *s, Instr *loop, int k, Lazy *c)
{
    Block *body = loop->blocks[0];
    *c = (Lazy){ .s = s, .loop = loop, .m = body->args[k + 1], .top = ir_operand(ir_terminator(body), k) };
    c->max = c->top->def;
    if (!c->max || c->max->op != OP_MAX || c->max->block != body || c->top->type->kind != TYPE_TILE)
        return false;
    if (ir_operand(c->max, 0) != c->m && ir_operand(c->max, 1) != c->m) return false;
    if (!find_exponents(c)) return false;
    int uses = 0;
    for (const Use *u = c->m->uses; u; u = u->next) uses++;
    return uses == 2 && follow_in_loop(c); /* the maximum, and alpha's exponent */
}

/* The same, and what is behind the loop does not tell by how much the values under it are scaled. */
static bool is_online(Session *s, Instr *loop, int k, Lazy *c)
{
    if (!is_running_maximum(s, loop, k, c)) return false;
    c->goes_on = goes_on(c, k, is_online);
    return c->goes_on || (cancels(c) && unused_or_common(c, k));
}

/* Whether another loop begins with the maximum k or with what is under it. */
static bool continues(const Lazy *c, int k)
{
    for (int r = 0; r < c->loop->n_results; r++)
        for (const Use *u = r == k || is_under(c, r) ? c->loop->results[r].uses : NULL; u; u = u->next)
            if (u->user->op == OP_FOR && u - u->user->operands >= 3) return true;
    return false;
}

/* The same of the exact maximum, which what is behind the loop may use, as it may what is under it. */
static bool is_exact(Session *s, Instr *loop, int k, Lazy *c)
{ return is_running_maximum(s, loop, k, c) && (!continues(c, k) || goes_on(c, k, is_exact)); }

Value *kernel_online(Session *s, Instr *loop, int k, bool *under, bool *guarded)
{
    Lazy c;
    if (!is_exact(s, loop, k, &c)) return NULL;
    for (int r = 0; r < loop->n_results; r++)
        under[r] = has_factor(&c, ir_operand(ir_terminator(loop->blocks[0]), r));
    *guarded = c.base != c.top;
    return c.scale;
}

/* may: each warp holds whole rows of all products. */
static void rescale_lazily(Session *s, Func *f, KernelPlan *p, bool may)
{
    InstrList loops = { 0 };
    int n = 0;
    const Decision *d = schedule_asked(p, DECIDE_RESCALE);
    if (d ? d->form == RESCALE_ALWAYS : kernel_skips(p, PASS_LAZY_RESCALE)) {
        schedule_take(p, DECIDE_RESCALE, RESCALE_ALWAYS, 0, 0);
        return;
    }
    if (!may) {
        if (d)
            schedule_refuse(
                p, d, "rows of the products are spread over warps, which cannot decide for each other");
        return;
    }
    ir_collect(&s->arena, f->body, OP_FOR, &loops);
    for (size_t k = 0; k < loops.len; k++)
        for (int r = 0; r < loops.data[k]->n_results; r++) {
            Lazy c;
            if (!is_online(s, loops.data[k], r, &c)) continue;
            /* AMD: the pass `near` decides for these exponents without this vote. The values that the vote
             * would carry take registers that kernels with tiles of 128 columns do not have. */
            c.no_near = kernel_skips(p, PASS_NEAR) || p->target->kind == TARGET_HIP;
            if (!lazy_choose(&c)) continue;
            loops.data[k] = c.loop;
            n++;
        }
    if (d && !n) schedule_refuse(p, d, "no loop here scales what it carries by how much a maximum grew");
    if (!n) return;
    schedule_take(p, DECIDE_RESCALE, RESCALE_LAZY, 0, 0);
    if (p->producer_warps)
        p->schedule = arena_printf(&s->arena,
            "%s  lazy rescale: accumulators are rescaled when the maximum grew by more than 2^%d\n",
            p->schedule ? p->schedule : "", LAZY_THRESHOLD);
}

bool kernel_pass_lazy_rescale(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    rescale_lazily(c->s, c->f, c->p, kernel_whole_rows(c));
    return kernel_grew(c, before);
}
