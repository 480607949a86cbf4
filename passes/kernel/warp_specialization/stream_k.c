/* stream-k: of warp-specialization: divides the programs that do not fill a last round of a persistent grid
 * evenly among all CTAs, so that none waits while others run a program more.
 *
 *   BODY(%p) with  %s = for %k = %lo to %hi step %st (%acc = 0) { .. }; store C[..], %s
 *
 * becomes, in the loop over what a CTA does (persistent),
 *
 *   %s = for %k = %lo + %st*(n*%from / %of) to %lo + %st*(n*%to / %of) step %st (%acc = 0) { .. }
 *   %t = share_combine %s, %part, %first, %count, %tile {rmw = add}        the last CTA of a tile goes on
 *   store C[..], %t
 *
 * With P CTAs and N programs, the first N - N % P programs run as a whole, one after the other. The remaining
 * R programs become S shares of R/S programs each, in the order of the programs. CTA s does share s, which is
 * [sR, (s + 1)R) in units of 1/S of a program. It begins in program sR/S, and may go on into the next one. S
 * is P, or as many as give no program more parts than the hint `stream_k` says (about). The parts of all
 * programs, in their order, have the numbers s + t of share s and program t, since behind each part either
 * the share or the program changes. Where S is a multiple of R, a part is a share, and the numbers are those
 * of the shares: no number is left out, and none has memory for nothing (gpu_workspace in
 * runtime/drivers/gpu_facts.h).
 *
 * Which CTA comes last does not matter: it adds the parts in their order. Nobody waits for another CTA.
 *
 * A sum that continues from another loop takes the same part of that loop's steps.
 *
 * Requires: a persistent loop; a single sum in the body, as split-k finds it (split_k_sums.c), which the
 * body's last loop makes, no store before it, no product or load of a ring behind it. Otherwise
 * nothing changes and a performance note says why. Results: within the bound of mma; on a device of other
 * CTAs the parts are others, and so is the order of a sum. */
#include "passes/kernel/cluster/split_k.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

static Value *number(Builder *b, int64_t n) { return ir_const_int(b, DT_I32, n); }

static Value *pick(Builder *b, Value *when, Value *x, Value *y)
{ return ir_op(b, OP_WHERE, NULL, NO_ATTRS, when, x, y); }

/* The sum, if it may be divided; NULL: it may not. */
static const Sum *the_sum(Roles *c, Division *d)
{
    d->clusters = 2; /* its parts go through the workspace */
    d->shares = true;
    if (!split_find_sums(d) || !split_through_workspace(d)) return NULL;
    const Sum *s = &d->sums.data[0];
    for (size_t k = 0; k < c->loads.len; k++) {
        const Instr *l = c->loads.data[k];
        if (l->block != c->f->body) continue;
        for (const Instr *i = s->loop; i; i = i->next)
            if (i == l) {
                split_refuse(d, l->loc, "the producer loads a tile behind the sum");
                return NULL;
            }
    }
    return s;
}

/* The number of the part of share `s` in program `t`. */
static Value *number_of(Builder *b, const Shares *x, Value *s, Value *t)
{ return ir_bin(b, OP_ADD, s, pick(b, x->aligned, number(b, 0), t)); }

/* The parts of program `t` of those that are left: the number of the first, and how many. */
static void parts_of(Builder *b, const Shares *x, Value *t, Value **first, Value **count)
{
    Value *one = number(b, 1), *some = ir_bin(b, OP_MAX, x->left, one);
    Value *share = ir_bin(b, OP_DIV, ir_bin(b, OP_MUL, t, x->shares), some),
          *end = ir_bin(b, OP_CDIV, ir_bin(b, OP_MUL, ir_bin(b, OP_ADD, t, one), x->shares), some);
    *first = number_of(b, x, share, t);
    *count = ir_bin(b, OP_SUB, end, share);
}

void roles_begin_shares(Roles *c, Builder *b, Value *cta, Value *programs, Value *ctas)
{
    Shares *x = &c->shares;
    if (!x->combine) return;
    x->whole = ir_bin(b, OP_MUL, ir_bin(b, OP_DIV, programs, ctas), ctas);
    x->left = ir_bin(b, OP_SUB, programs, x->whole);
    x->shares = ir_bin(b, OP_MIN, ctas, ir_bin(b, OP_MUL, x->left, number(b, c->p->shares)));
    x->ctas = ctas;
    Value *some = ir_bin(b, OP_MAX, x->left, number(b, 1));
    x->aligned = ir_bin(b, OP_EQ, ir_bin(b, OP_REM, x->shares, some), number(b, 0));
    x->begin = ir_bin(b, OP_MUL, cta, x->left);
    x->end = ir_bin(b, OP_ADD, x->begin, x->left);
    x->of = ir_bin(b, OP_MAX, x->shares, number(b, 1));
    x->first = ir_bin(b, OP_DIV, x->begin, x->of);
    x->border = ir_bin(b, OP_MUL, ir_bin(b, OP_ADD, x->first, number(b, 1)), x->of);
    Value *two = ir_bin(b, OP_GT, x->end, x->border), *has = ir_bin(b, OP_LT, cta, x->shares);
    Value *n = pick(b, two, ir_bin(b, OP_ADD, ctas, ctas), ctas);
    x->bound = ir_bin(b, OP_ADD, x->whole, pick(b, has, n, number(b, 0)));
}

Value *roles_share(Roles *c, Builder *b, Value *item)
{
    Shares *x = &c->shares;
    if (!x->combine) return item;
    Value *zero = number(b, 0), *one = number(b, 1);
    Value *all = ir_bin(b, OP_LT, item, x->whole),
          *second = ir_bin(b, OP_GE, item, ir_bin(b, OP_ADD, x->whole, x->ctas));
    Value *t = ir_bin(b, OP_ADD, x->first, pick(b, second, one, zero)),
          *base = ir_bin(b, OP_SUB, x->border, x->of);
    Value *from = pick(b, second, zero, ir_bin(b, OP_SUB, x->begin, base)),
          *to = pick(b, second, ir_bin(b, OP_SUB, x->end, x->border),
              ir_bin(b, OP_SUB, ir_bin(b, OP_MIN, x->end, x->border), base));
    Value *first, *count, *share = ir_bin(b, OP_DIV, x->begin, ir_bin(b, OP_MAX, x->left, one));
    parts_of(b, x, t, &first, &count);
    from = pick(b, all, zero, from);
    to = pick(b, all, x->of, to);
    count = pick(b, all, one, count);
    Value *numbers[4] = { number_of(b, x, share, t), first, count, t };
    for (int k = 0; k < 4; k++) ir_set_operand(x->combine, 1 + k, numbers[k]);
    for (size_t k = 0; k < x->division.loops.len; k++)
        split_cut_between(&x->division, x->division.loops.data[k], from, to, x->of);
    return pick(b, all, item, ir_bin(b, OP_ADD, x->whole, t));
}

bool roles_stream_k(void *roles)
{
    Roles *c = roles;
    Shares *x = &c->shares;
    if (c->p->shares < 2 || !c->p->persistent) return false;
    x->division = (Division){ .s = c->s, .f = c->f, .p = c->p, .parts = c->p->shares };
    const Sum *s = the_sum(c, &x->division);
    if (!s) {
        diag_perf(
            c->s, x->division.loc, "stream_k = %d: no program is divided: %s", c->p->shares, x->division.why);
        c->p->shares = 0;
        return false;
    }
    Value *v = &s->loop->results[s->k];
    Builder b = ir_after(s->loop);
    b.loc = s->loop->loc;
    Value *zero = number(&b, 0), *operands[5] = { v, zero, zero, zero, zero };
    x->combine = ir_build(&b, OP_SHARE_COMBINE, operands, 5, ATTRS(a_int(ATTR_RMW, s->rmw)), NULL, 0);
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != x->combine)
            ir_set_operand(u->user, (int)(u - u->user->operands), ir_result(x->combine));
    }
    ir_set_name(ir_result(x->combine), v->name);
    return true;
}
