/* carried_waits.c: of software-pipelining: the last product of a step, which only adds to what the loop
 * carries, is waited for in the next step.
 *
 *   s = wgmma; ..; wait s; ..; d = wgmma x, q, d'; wait d; release q
 *
 * becomes
 *
 *   s = wgmma; ..; wait s (and so for d' of the step before); release q of that step; ..; d = wgmma x, q, d'
 *
 * Products complete in their order. So the wait for the first product of a step is one for all products of
 * the step before, and the matrix unit has work while a warpgroup begins its next step.
 *
 * Requires: a first step in front of the loop (late_staged.c), which waits for its product, and whose stages
 * the first step of the loop gives back, so that each step gives back as many as it takes; behind the last
 * wait nothing but releases, of rings with stages for two steps; a wait for another product of the same step.
 * Keeps: everything. */
#include "passes/kernel/pipeline/software_pipelining.h"

typedef struct Last {
    Instr *wait;
    InstrList releases; /* behind it */
} Last;

static Instr *product_of(const Instr *wait)
{
    const Instr *p = wait->op == OP_WGMMA_WAIT && wait->n_operands == 1 ? ir_operand(wait, 0)->def : NULL;
    return p && p->op == OP_WGMMA && p->block == wait->block ? (Instr *)p : NULL;
}

/* The releases from the wait to `end`; false: there is something else that has an effect. */
static bool releases_behind(Overlap *c, Last *last, const Instr *end)
{
    for (Instr *i = last->wait->next; i && i != end; i = i->next) {
        if (i->op == OP_RING_RELEASE && i->n_operands == 1) vec_push(&c->s->arena, &last->releases, i);
        else if (i->n_blocks || (!op_is_pure(i->op) && !(op_info[i->op].flags & OPF_TERM))) return false;
    }
    return true;
}

static bool stages_for_two(const Block *body, const InstrList *releases)
{
    for (size_t k = 0; k < releases->len; k++) {
        const Value *ring = ir_operand(releases->data[k], 0);
        if (ring->type->shape[0] < 2 * kernel_gets_of(body, ring)) return false;
    }
    return true;
}

static bool same_rings(const InstrList *a, const InstrList *b)
{
    for (size_t k = 0; k < a->len && a->len == b->len; k++)
        if (ir_operand(a->data[k], 0) != ir_operand(b->data[k], 0)) return false;
    return a->len == b->len;
}

static void put_releases(const InstrList *releases, Builder *b)
{
    for (size_t k = 0; k < releases->len; k++) {
        ir_unlink(releases->data[k]);
        ir_place(b, releases->data[k]);
    }
}

void kernel_carry_last_wait(Overlap *c, Instr *loop)
{
    Block *body = loop->blocks[0];
    Last last = { 0 }, before = { 0 };
    Instr *first = NULL;
    for (Instr *i = body->first; i; i = i->next)
        if (i->op == OP_WGMMA_WAIT) first = first ? first : i, last.wait = i;
    const Instr *product = last.wait && last.wait != first ? product_of(last.wait) : NULL;
    if (!product || !product_of(first) || !kernel_adds_to_carried(product, ir_result(last.wait))) return;
    int at = ir_operand(product, 2)->index - 1;
    before.wait = ir_operand(loop, 3 + at)->def;
    if (!before.wait || before.wait->block != loop->block || !product_of(before.wait) ||
        !releases_behind(c, &last, NULL) || !releases_behind(c, &before, loop) ||
        !same_rings(&last.releases, &before.releases) || !stages_for_two(body, &last.releases))
        return;
    Builder b = ir_after(first);
    put_releases(&last.releases, &b);
    ir_replace(ir_result(last.wait), ir_operand(last.wait, 0));
    ir_erase(last.wait);
    b = ir_after(loop);
    Value *sum = &loop->results[at];
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, &sum, 1, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    put_releases(&before.releases, &b);
    ir_replace(sum, ir_result(wait));
    ir_set_operand(wait, 0, sum);
    text_printf(&c->note, "  carried: the last product of a step is waited for in the next step\n");
}
