/* mma-pipeline: asynchronous products overlapped with the arithmetic that does not need them.
 *
 * The loop's operations form a graph; products run on the matrix unit while the warpgroup's arithmetic runs beside it, if the
 * program's order lets both be in flight. Two shapes of body follow from the dependences:
 *
 * 1. Chain: every product adds to a carried accumulator that nothing else in the body touches (matrix multiplication). The wait
 *    for step i moves behind the issue of step i+1; slots are given back one step later.
 *
 * 2. Rotation (rotate.c): a late product needs, through arithmetic, the result of an early product of the same step, and the early one
 *    does not need the late one's (attention: P V after softmax(Q K)). The early part runs one step ahead.
 *
 * 3. Neither, or several late products, whose operands would not fit registers a step long: within the step (interleave.c). */
#include "passes/kernel/overlap.h"

static bool is_wait_of(const Instr *w, const Instr *product)
{
    return w->op == OP_WGMMA_WAIT && w->n_operands == 1 && ir_operand(w, 0) == ir_result(product);
}

static Instr *wait_of(Instr *product)
{
    Use *u = ir_result(product)->uses;
    return u && !u->next && is_wait_of(u->user, product) ? u->user : NULL;
}

static void products_in(Overlap *c, Block *b, InstrList *out)
{
    for (Instr *i = b->first; i; i = i->next) if (i->op == OP_WGMMA) vec_push(&c->s->arena, out, i);
}

/* --- 1: chains -------------------------------------------------------------------------------------------------------------------- */

bool kernel_adds_to_carried(const Instr *product, const Value *sum)
{
    const Value *acc = ir_operand(product, 2);
    const Instr *loop = acc->def ? NULL : acc->block->parent;
    if (!loop || loop->op != OP_FOR || product->block != acc->block || acc->index == 0 || ir_use_count(acc) != 1) return false;
    return ir_use_count(sum) == 1 && sum->uses->user == ir_terminator(acc->block) && ir_operand(sum->uses->user, acc->index - 1) == sum;
}

/* Product of a sum that the loop carries, or of several that follow each other. */
static bool is_chain(Instr *loop, Instr *product)
{
    Block *body = loop->blocks[0];
    Instr *first = product, *last = product;
    while (ir_operand(first, 2)->def && ir_operand(first, 2)->def->op == OP_WGMMA) first = ir_operand(first, 2)->def;
    while (ir_use_count(ir_result(last)) == 1 && ir_result(last)->uses->user->op == OP_WGMMA) last = ir_result(last)->uses->user;
    Instr *wait = wait_of(last);
    return wait && ir_operand(first, 2)->block == body && kernel_adds_to_carried(first, ir_result(wait));
}

int kernel_gets_of(const Block *body, const Value *ring)
{
    int n = 0;
    for (const Instr *i = body->first; i; i = i->next) n += i->op == OP_RING_GET && ir_operand(i, 0) == ring;
    return n;
}

/* A step's slots are given back after the next step's were got: rings of fewer slots than both take would never fill. */
static bool slots_for_two(Overlap *c, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_RING_GET || ir_operand(i, 0)->type->shape[0] >= 2 * kernel_gets_of(body, ir_operand(i, 0))) continue;
        diag_perf(c->s, i->loc, "products of this loop are waited for where they are issued: shared memory holds the tiles of one step only");
        return false;
    }
    return true;
}

static void release_before(Overlap *c, Builder *b, Instr *loop, InstrList *releases, bool guarded)
{
    Value *some = guarded ? ir_bin(b, OP_GT, loop->blocks[0]->args[0], ir_operand(loop, 0)) : ir_bin(b, OP_LT, ir_operand(loop, 0), ir_operand(loop, 1));
    Instr *cond = ir_build(b, OP_IF, &some, 1, NO_ATTRS, NULL, 0);
    for (int k = 0; k < 2; k++) {
        Builder in = ir_at_end(cond->blocks[k]);
        for (size_t r = 0; k == 0 && r < releases->len; r++) {
            Value *ring = ir_operand(releases->data[r], 0);
            ir_build(&in, OP_RING_RELEASE, &ring, 1, NO_ATTRS, NULL, 0);
        }
        ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    }
}

static void delay_waits(Overlap *c, Instr *loop, InstrList *products)
{
    Block *body = loop->blocks[0];
    InstrList releases = { 0 };
    ValueList accs = { 0 };
    for (size_t k = 0; k < products->len; k++) {
        Instr *p = products->data[k], *w = wait_of(p), *first = p;
        if (!w) continue;
        while (ir_operand(first, 2)->def) first = ir_operand(first, 2)->def;
        vec_push(&c->s->arena, &accs, &loop->results[ir_operand(first, 2)->index - 1]);
        ir_replace(ir_result(w), ir_result(p));
        ir_erase(w);
    }
    for (Instr *i = body->first, *next; i; i = next) {
        next = i->next;
        if (i->op == OP_RING_RELEASE) { vec_push(&c->s->arena, &releases, i); ir_unlink(i); }
    }
    Builder b = ir_before(ir_terminator(body));
    ir_build(&b, OP_WGMMA_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, (int64_t)products->len)), NULL, 0);
    release_before(c, &b, loop, &releases, true);
    b = ir_after(loop);
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, accs.data, (int)accs.len, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    for (size_t k = 0; k < accs.len; k++) {
        ir_replace(accs.data[k], &wait->results[k]);
        ir_set_operand(wait, (int)k, accs.data[k]);
    }
    release_before(c, &b, loop, &releases, false);
    for (size_t r = 0; r < releases.len; r++) ir_set_operands(releases.data[r], NULL, 0);
    text_printf(&c->note, "  chain: the wait for a product stands behind the issue of the next step's\n");
}

/* The last product of the body that needs an earlier one of the same step. */
static Instr *late_product(InstrList *products, Block *body)
{
    for (size_t k = products->len; k-- > 1;)
        for (size_t j = 0; j < k; j++) {
            Instr *p = products->data[k], *q = products->data[j];
            for (int o = 0; o < 3; o++) if (kernel_depends(ir_operand(p, o), ir_result(q), body, 0)) return p;
        }
    return NULL;
}

static void overlap_loop(Overlap *c, Instr *loop)
{
    InstrList products = { 0 };
    loop = kernel_prefetch(c->s, c->f, loop);
    products_in(c, loop->blocks[0], &products);
    if (!products.len) return;
    kernel_join_sums(loop->blocks[0]);
    bool chain = true;
    for (size_t k = 0; k < products.len; k++) chain = chain && is_chain(loop, products.data[k]);
    if (chain && slots_for_two(c, loop)) { delay_waits(c, loop, &products); return; }
    Instr *late = late_product(&products, loop->blocks[0]);
    int later = kernel_issue_first(c, loop->blocks[0]);
    if (late && later < 2 && kernel_rotate(c, loop, late)) return;
    text_printf(&c->note, kernel_interleave(c, loop->blocks[0]) ? "  order: products are issued as soon as their operands are there\n"
                                                                : "  plain order: products are waited for where they are issued\n");
}

void kernel_overlap(Session *s, Func *f, Block *consumers, KernelPlan *p)
{
    Overlap c = { .s = s, .f = f, .p = p };
    if (p->options.no_overlap) return;
    text_init(&c.note, &s->arena);
    ir_collect(&s->arena, consumers, OP_FOR, &c.loops);
    for (size_t k = 0; k < c.loops.len; k++) overlap_loop(&c, c.loops.data[k]);
    p->schedule = arena_printf(&s->arena, "%s%s", p->schedule ? p->schedule : "", c.note.data);
}
