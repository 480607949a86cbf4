/* lazy-rescale: an accumulator scaled by exp2((m - m_new) c) is rescaled only when the maximum grew enough to matter.
 *
 *   m_new = max(m, x); alpha = exp2(m c - m_new c); p = exp2(s c - m_new c); l = l alpha + sum(p); acc = acc alpha + p v
 * becomes
 *   top   = max(m, x)
 *   grew  = any row of the warp has (top - m) c > 8
 *   m_new = grew ? top : m
 *   ... the rest with this m_new ...; acc alpha only if grew (else alpha is exactly 1)
 *
 * Any m_new >= top - 8/c does: m_new only shifts the exponents, and what is accumulated under it (l, acc) is rescaled by the same alpha, so the
 * quotient at the end is the same up to rounding; p stays below 2^8, within every float type. That holds only if m is used for nothing
 * else: the pass requires that m's uses are the maximum and exponents of this form, m_new's only the shift, and the loop's final m unused.
 * Flash attention 4 and the measured reference do the same. */
#include "passes/kernel/kernel.h"

enum { THRESHOLD = 8 };

typedef struct Ctx { Session *s; InstrList loops; int n; } Ctx;

static bool only_exp2(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) if (u->user->op != OP_EXP2) return false;
    return v->uses != NULL;
}

static Value *scalar_of(Value *v)
{
    while (v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST)) v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

/* The negative of what: c' = -c as scalars: constants, or products of one value with constants of opposite sign. */
static bool negatives(Value *a, Value *b)
{
    double x, y;
    if (!a || !b) return false;
    if (ir_is_const_float(a, &x) && ir_is_const_float(b, &y)) return (float)x == -(float)y;
    if (!a->def || !b->def || a->def->op != OP_MUL || b->def->op != OP_MUL) return a->def && a->def->op == OP_NEG ? ir_operand(a->def, 0) == b : b->def && b->def->op == OP_NEG && ir_operand(b->def, 0) == a;
    return ir_operand(a->def, 0) == ir_operand(b->def, 0) && negatives(ir_operand(a->def, 1), ir_operand(b->def, 1));
}

static void try_loop(Ctx *c, Instr *loop, int k)
{
    Block *body = loop->blocks[0];
    Value *m = body->args[k + 1], *top = ir_operand(ir_terminator(body), k), *shift = NULL, *own = NULL;
    Instr *max = top->def;
    if (loop->results[k].uses || !max || max->op != OP_MAX || max->block != body || top->type->kind != TYPE_TILE) return;
    if (ir_operand(max, 0) != m && ir_operand(max, 1) != m) return;
    /* m_new: the yield and one product, the shift -m_new c */
    for (const Use *u = top->uses; u; u = u->next) {
        if (u->user == ir_terminator(body)) continue;
        if (u->user->op != OP_MUL || shift) return;
        shift = ir_result(u->user);
    }
    if (!shift || shift->def->block != body) return;
    Value *neg = scalar_of(ir_operand(shift->def, ir_operand(shift->def, 0) == top));
    /* m: the maximum, and alpha's exponent m c + shift */
    for (const Use *u = m->uses; u; u = u->next) {
        if (u->user == max) continue;
        if (u->user->op != OP_FMA || own || ir_operand(u->user, 0) != m || ir_operand(u->user, 2) != shift) return;
        own = ir_result(u->user);
    }
    if (!own || !only_exp2(own) || !negatives(scalar_of(ir_operand(own->def, 1)), neg)) return;
    /* the shift: alpha's exponent, and fma(s, c, shift) under exp2 */
    Value *scale = scalar_of(ir_operand(own->def, 1));
    for (const Use *u = shift->uses; u; u = u->next) {
        Instr *i = u->user;
        if (i == own->def) continue;
        if (i->op == OP_BROADCAST) {
            for (const Use *w = ir_result(i)->uses; w; w = w->next)
                if (w->user->op != OP_FMA || ir_operand(w->user, 2) != ir_result(i) || scalar_of(ir_operand(w->user, 1)) != scale || !only_exp2(ir_result(w->user))) return;
        } else if (i->op != OP_FMA || ir_operand(i, 2) != shift || scalar_of(ir_operand(i, 1)) != scale || !only_exp2(ir_result(i))) return;
    }

    Builder b = ir_after(max);
    const Type *t = top->type;
    Value *scales = ir_splat(&b, scale, t->rank, t->shape), *growth = ir_bin(&b, OP_MUL, ir_bin(&b, OP_SUB, top, m), scales);
    Value *big = ir_bin(&b, OP_GT, growth, ir_splat(&b, ir_const_float(&b, DT_F32, THRESHOLD), t->rank, t->shape));
    Value *any = ir_emit(&b, OP_WARPGROUP_ANY, &big, 1, NO_ATTRS, NULL);
    ir_set_name(any, "grew");
    Value *any_tile = ir_splat(&b, any, t->rank, t->shape);
    Instr *pick = ir_build(&b, OP_WHERE, (Value *[]){ any_tile, top, m }, 3, NO_ATTRS, NULL, 0);
    Value *m_new = ir_result(pick);
    m_new->name = top->name;
    ir_replace(top, m_new);
    for (int o = 0; o < pick->n_operands; o++) if (ir_operand(pick, o) == m_new) ir_set_operand(pick, o, top);
    Instr *sub = growth->def ? ir_operand(growth->def, 0)->def : NULL;
    for (int o = 0; sub && o < 2; o++) if (ir_operand(sub, o) == m_new) ir_set_operand(sub, o, top);

    /* products with alpha on large tiles: skipped when alpha is 1 in the whole warp */
    Value *alpha = ir_result(own->uses->user);
    for (Use *u = alpha->uses, *next; u; u = next) {
        next = u->next;
        if (u->user->op != OP_BROADCAST) continue;
        for (Use *w = ir_result(u->user)->uses, *wn; w; w = wn) {
            wn = w->next;
            Instr *mul = w->user;
            if (mul->op != OP_MUL || mul->block != body) continue;
            Value *acc = ir_operand(mul, ir_operand(mul, 0) == ir_result(u->user));
            const Type *at = ir_result(mul)->type;
            Builder mb = ir_before(mul);
            Instr *cond = ir_build(&mb, OP_IF, &any, 1, NO_ATTRS, &at, 1);
            ir_replace(ir_result(mul), ir_result(cond));
            Builder in = ir_at_end(cond->blocks[0]);
            ir_unlink(mul);
            ir_place(&in, mul);
            Value *r = ir_result(mul);
            ir_build(&in, OP_YIELD, &r, 1, NO_ATTRS, NULL, 0);
            in = ir_at_end(cond->blocks[1]);
            ir_build(&in, OP_YIELD, &acc, 1, NO_ATTRS, NULL, 0);
        }
    }
    c->n++;
}

int kernel_lazy_rescale(Session *s, Func *f)
{
    Ctx c = { .s = s };
    ir_collect(&s->arena, f->body, OP_FOR, &c.loops);
    for (size_t k = 0; k < c.loops.len; k++)
        for (int r = 0; r < c.loops.data[k]->n_results; r++) try_loop(&c, c.loops.data[k], r);
    return c.n;
}
