/* ring_state.c: states of the walk over a role: stages held, views of them, and conditions (ring_state.h). */
#include "ir/verify/ring_state.h"

enum { MOST_STATES = 64, DEEP = 4 };

RingState ring_state_copy(const RingStates *w, const RingState *s)
{
    RingState c = { arena_array(w->arena, RingHeld, (size_t)w->n_rings + 1), { 0 } };
    for (int r = 0; r < w->n_rings; r++) {
        for (size_t k = 0; k < s->rings[r].got.len; k++)
            vec_push(w->arena, &c.rings[r].got, s->rings[r].got.data[k]);
        c.rings[r].part = s->rings[r].part;
    }
    for (size_t k = 0; k < s->facts.len; k++) vec_push(w->arena, &c.facts, s->facts.data[k]);
    return c;
}

static bool same_fact(const Fact *x, const Fact *y)
{
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->truth == y->truth && x->ring == y->ring &&
           x->age == y->age;
}

static bool has_fact(const RingState *s, const Fact *f)
{
    for (size_t k = 0; k < s->facts.len; k++)
        if (same_fact(&s->facts.data[k], f)) return true;
    return false;
}

/* Equal but for conditions. */
static bool same_stages(const RingStates *w, const RingState *x, const RingState *y)
{
    for (int r = 0; r < w->n_rings; r++)
        if (x->rings[r].got.len != y->rings[r].got.len || x->rings[r].part != y->rings[r].part) return false;
    for (size_t k = 0; k < x->facts.len; k++)
        if (x->facts.data[k].kind == IS_STAGE && !has_fact(y, &x->facts.data[k])) return false;
    for (size_t k = 0; k < y->facts.len; k++)
        if (y->facts.data[k].kind == IS_STAGE && !has_fact(x, &y->facts.data[k])) return false;
    return true;
}

static void keep_common(RingState *x, const RingState *y)
{
    size_t n = 0;
    for (size_t k = 0; k < x->facts.len; k++)
        if (has_fact(y, &x->facts.data[k])) x->facts.data[n++] = x->facts.data[k];
    x->facts.len = n;
}

/* True: the set has a state that it had not, or knows less of one. */
bool ring_state_add(RingStates *w, States *to, RingState s)
{
    for (size_t k = 0; k < to->len; k++) {
        if (!same_stages(w, &to->data[k], &s)) continue;
        size_t known = to->data[k].facts.len;
        keep_common(&to->data[k], &s);
        return to->data[k].facts.len != known;
    }
    if (to->len >= MOST_STATES) w->too_many = true;
    else vec_push(w->arena, to, s);
    return true;
}

void ring_state_learn(const RingStates *w, RingState *s, Fact f)
{
    if (!has_fact(s, &f)) vec_push(w->arena, &s->facts, f);
}

static bool is_within(const Value *x, const Block *b)
{
    for (const Block *at = x->def ? x->def->block : x->block; at; at = at->parent ? at->parent->block : NULL)
        if (at == b) return true;
    return false;
}

void ring_state_leave(RingState *s, const Block *b)
{
    size_t n = 0;
    for (size_t k = 0; k < s->facts.len; k++) {
        const Fact *f = &s->facts.data[k];
        if (!is_within(f->a, b) && !(f->b && is_within(f->b, b))) s->facts.data[n++] = *f;
    }
    s->facts.len = n;
}

/* --- conditions -------------------------------------------------------------------------------------- */

/* Do both compute the same? */
static bool same_value(const Value *a, const Value *b, int depth)
{
    const Instr *x = a->def, *y = b->def;
    int64_t m, n;
    if (a == b) return true;
    if (ir_is_const(a, &m) && ir_is_const(b, &n)) return m == n;
    if (depth >= DEEP || !x || !y || x->op != y->op || x->n_results != 1 || x->n_operands != y->n_operands ||
        !x->n_operands || x->n_blocks || !op_has(x->op, OPF_ELEM) || a->type != b->type)
        return false;
    for (int k = 0; k < x->n_operands; k++)
        if (!same_value(ir_operand(x, k), ir_operand(y, k), depth + 1)) return false;
    return true;
}

static Known not_known(Known k) { return k == UNKNOWN ? UNKNOWN : k == YES ? NO : YES; }

Known ring_state_less(const RingState *s, const Value *a, const Value *b)
{
    int64_t m, n;
    if (ir_is_const(a, &m) && ir_is_const(b, &n)) return m < n ? YES : NO;
    for (size_t k = 0; k < s->facts.len; k++) {
        const Fact *f = &s->facts.data[k];
        if (f->kind == IS_LESS && same_value(f->a, a, 0) && same_value(f->b, b, 0))
            return f->truth ? YES : NO;
    }
    return UNKNOWN;
}

/* The comparison of integers as "a < b" or its opposite. */
static bool comparison(const Value *v, const Value **a, const Value **b, bool *opposite)
{
    const Instr *i = v->def;
    if (!i || (i->op != OP_LT && i->op != OP_GT && i->op != OP_LE && i->op != OP_GE)) return false;
    if (ir_operand(i, 0)->type->kind != TYPE_SCALAR || dtype_is_float(ir_operand(i, 0)->type->dtype))
        return false;
    bool turned = i->op == OP_GT || i->op == OP_LE;
    *a = ir_operand(i, turned), *b = ir_operand(i, !turned);
    *opposite = i->op == OP_LE || i->op == OP_GE;
    return true;
}

Known ring_state_holds(const RingState *s, const Value *v)
{
    const Instr *i = v->def;
    const Value *a, *b;
    bool opposite;
    int64_t n;
    if (ir_is_const(v, &n)) return n ? YES : NO;
    for (size_t k = 0; k < s->facts.len; k++)
        if (s->facts.data[k].kind == IS_TRUE && s->facts.data[k].a == v)
            return s->facts.data[k].truth ? YES : NO;
    if (i && i->op == OP_NOT) return not_known(ring_state_holds(s, ir_operand(i, 0)));
    if (i && (i->op == OP_AND || i->op == OP_OR)) {
        Known x = ring_state_holds(s, ir_operand(i, 0)), y = ring_state_holds(s, ir_operand(i, 1)),
              decides = i->op == OP_OR ? YES : NO;
        return x == decides || y == decides ? decides : x == UNKNOWN || y == UNKNOWN ? UNKNOWN : x;
    }
    if (!comparison(v, &a, &b, &opposite)) return UNKNOWN;
    return opposite ? not_known(ring_state_less(s, a, b)) : ring_state_less(s, a, b);
}

void ring_state_assume_less(const RingStates *w, RingState *s, const Value *a, const Value *b, bool truth)
{ ring_state_learn(w, s, (Fact){ .kind = IS_LESS, .a = a, .b = b, .truth = truth }); }

void ring_state_assume(const RingStates *w, RingState *s, const Value *v, bool truth)
{
    const Instr *i = v->def;
    const Value *a, *b;
    bool opposite;
    ring_state_learn(w, s, (Fact){ .kind = IS_TRUE, .a = v, .truth = truth });
    if (i && i->op == OP_NOT) ring_state_assume(w, s, ir_operand(i, 0), !truth);
    if (i && i->op == (truth ? OP_AND : OP_OR))
        for (int k = 0; k < 2; k++) ring_state_assume(w, s, ir_operand(i, k), truth);
    if (comparison(v, &a, &b, &opposite)) ring_state_assume_less(w, s, a, b, truth != opposite);
}

HandedFacts ring_state_gather(const RingStates *w, const RingState *s, const Instr *from, int first, int n)
{
    HandedFacts all = { 0 };
    for (int k = 0; k < n; k++) {
        const Value *x = ir_operand(from, first + k);
        Known known = type_is_value(x->type) && x->type->dtype == DT_BOOL && x->type->kind == TYPE_SCALAR
                          ? ring_state_holds(s, x)
                          : UNKNOWN;
        if (known != UNKNOWN)
            vec_push(w->arena, &all, ((Handed){ { .kind = IS_TRUE, .truth = known == YES }, k }));
        for (size_t f = 0; x->type->kind == TYPE_SHARED && f < s->facts.len; f++)
            if (s->facts.data[f].kind == IS_STAGE && s->facts.data[f].a == x)
                vec_push(w->arena, &all, ((Handed){ s->facts.data[f], k }));
    }
    return all;
}

static void hand_to(const RingStates *w, RingState *s, const HandedFacts *all, const Value *to, int at)
{
    for (size_t k = 0; k < all->len; k++) {
        Fact f = all->data[k].fact;
        f.a = to;
        if (all->data[k].at == at) ring_state_learn(w, s, f);
    }
}

void ring_state_to_args(
    const RingStates *w, RingState *s, const HandedFacts *all, const Block *b, int first, int n)
{
    for (int k = 0; k < n; k++) hand_to(w, s, all, b->args[first + k], k);
}

void ring_state_to_results(const RingStates *w, RingState *s, const HandedFacts *all, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++) hand_to(w, s, all, &i->results[k], k);
}

const Fact *ring_state_stage(const RingState *s, const Value *view)
{
    for (size_t k = 0; k < s->facts.len; k++)
        if (s->facts.data[k].kind == IS_STAGE && s->facts.data[k].a == view) return &s->facts.data[k];
    return NULL;
}
