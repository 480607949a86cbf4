/* software-pipelining: overlaps asynchronous products with the arithmetic that does not need them.
 *
 * The loop's operations form a graph. Products run on the matrix unit while the warpgroup's arithmetic
 * runs beside them, if the program's order lets both be in flight. The pass chooses one of three orders
 * from the dependences.
 *
 * 1. Chain: every product adds to a carried accumulator that nothing else in the body touches (matrix
 * multiplication). The wait for step i moves behind the issue of step i+1, and stages are given back one
 * step later.
 *
 * 2. Rotation (rotate.c): a late product needs, through arithmetic, the result of an early product of the
 * same step, and the early one does not need the late one's (attention: P V after softmax(Q K)). The early
 * part runs one step ahead.
 *
 * 3. Otherwise, or if there are several late products, whose operands would not fit registers for a step:
 * the order within the step (issue_order.c), or within two steps (two_steps.c).
 *
 * Requires: `wgmma` in warp roles. Keeps: everything. Does not handle: products that are directly in the
 * loop over programs and have no steps around them. The next program is known only when it has
 * been taken, so they keep their order. The pass also decides pingpong (pingpong.c). */
#include "passes/kernel/pipeline/software_pipelining.h"

static bool is_wait_of(const Instr *w, const Instr *product)
{ return w->op == OP_WGMMA_WAIT && w->n_operands == 1 && ir_operand(w, 0) == ir_result(product); }

static Instr *wait_of(Instr *product)
{
    Use *u = ir_result(product)->uses;
    return u && !u->next && is_wait_of(u->user, product) ? u->user : NULL;
}

static void products_in(Overlap *c, Block *b, InstrList *out)
{
    for (Instr *i = b->first; i; i = i->next)
        if (i->op == OP_WGMMA) vec_push(&c->s->arena, out, i);
}

/* --- 1: chains --------------------------------------------------------------------------------------- */

bool kernel_adds_to_carried(const Instr *product, const Value *sum)
{
    const Value *acc = ir_operand(product, 2);
    const Instr *loop = acc->def ? NULL : acc->block->parent;
    if (!loop || loop->op != OP_FOR || product->block != acc->block || acc->index == 0 ||
        ir_use_count(acc) != 1)
        return false;
    return ir_use_count(sum) == 1 && sum->uses->user == ir_terminator(acc->block) &&
           ir_operand(sum->uses->user, acc->index - 1) == sum;
}

/* Whether each step writes the operand: registers, or a stage of a buffer (staged-operands), which unlike a
 * ring's is written again behind the barrier of the step before. */
static bool is_written_by_step(const Value *a, const Block *body)
{
    while (a->def && (a->def->op == OP_SHARED_TRANSPOSE || a->def->op == OP_SHARED_SLICE))
        a = ir_operand(a->def, 0);
    bool in_place = a->type->kind != TYPE_SHARED || (a->def && a->def->op == OP_SHARED_STAGE);
    return in_place && !ir_defined_outside(a, body);
}

/* The product of a sum that the loop carries, or of several that follow each other. A must not change until
 * the wait, but the next step would write it before. */
static bool is_chain(Instr *loop, Instr *product)
{
    Block *body = loop->blocks[0];
    if (is_written_by_step(ir_operand(product, 0), body) || kernel_reads_written(product)) return false;
    Instr *first = product, *last = product;
    while (ir_operand(first, 2)->def && ir_operand(first, 2)->def->op == OP_WGMMA)
        first = ir_operand(first, 2)->def;
    while (ir_use_count(ir_result(last)) == 1 && ir_result(last)->uses->user->op == OP_WGMMA)
        last = ir_result(last)->uses->user;
    Instr *wait = wait_of(last);
    return wait && ir_operand(first, 2)->block == body && kernel_adds_to_carried(first, ir_result(wait));
}

int kernel_gets_of(const Block *body, const Value *ring)
{
    int n = 0;
    for (const Instr *i = body->first; i; i = i->next) n += i->op == OP_RING_GET && ir_operand(i, 0) == ring;
    return n;
}

/* The stages of a step are released after those of the next step were taken. Rings with fewer stages than
 * both steps take would never fill. */
static bool stages_for_two(Overlap *c, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_RING_GET ||
            ir_operand(i, 0)->type->shape[0] >= 2 * kernel_gets_of(body, ir_operand(i, 0)))
            continue;
        diag_perf(c->s, i->loc,
            "products of this loop are waited for where they are issued: shared memory holds the tiles of "
            "one step only");
        return false;
    }
    return true;
}

void kernel_release_before(Overlap *c, Builder *b, Instr *loop, const InstrList *releases, bool guarded)
{
    Value *some = guarded ? ir_bin(b, OP_GT, loop->blocks[0]->args[0], ir_operand(loop, 0))
                          : ir_bin(b, OP_LT, ir_operand(loop, 0), ir_operand(loop, 1));
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

static int64_t columns(const Instr *product) { return ir_result(product)->type->shape[1]; }

/* Issues the product of the most columns behind the others of the step: while it runs, the next step is
 * waited for. None of them needs another's result. */
static void longest_last(const InstrList *products)
{
    Instr *last = products->data[products->len - 1], *longest = last;
    for (size_t k = 0; k < products->len; k++)
        if (columns(products->data[k]) > columns(longest)) longest = products->data[k];
    for (size_t k = 0; k < products->len; k++)
        if (ir_operand(products->data[k], 2)->def) return; /* they add to each other */
    if (longest == last) return;
    Builder b = ir_after(last);
    ir_unlink(longest);
    ir_place(&b, longest);
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
        if (i->op == OP_RING_RELEASE) {
            vec_push(&c->s->arena, &releases, i);
            ir_unlink(i);
        }
    }
    longest_last(products);
    Builder b = ir_before(ir_terminator(body));
    ir_build(&b, OP_WGMMA_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, (int64_t)products->len)), NULL, 0);
    kernel_release_before(c, &b, loop, &releases, true);
    b = ir_after(loop);
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, accs.data, (int)accs.len, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    for (size_t k = 0; k < accs.len; k++) {
        ir_replace(accs.data[k], &wait->results[k]);
        ir_set_operand(wait, (int)k, accs.data[k]);
    }
    kernel_release_before(c, &b, loop, &releases, false);
    for (size_t r = 0; r < releases.len; r++) ir_set_operands(releases.data[r], NULL, 0);
    text_printf(&c->note, "  chain: the wait for a product stands behind the issue of the next step's\n");
}

/* The last product of the body that needs an earlier one of the same step. */
static Instr *late_product(InstrList *products, Block *body)
{
    Instr *late = NULL;
    size_t at = 0;
    for (size_t j = 0; j + 1 < products->len; j++) {
        kernel_mark_dependents(body, ir_result(products->data[j]));
        for (size_t k = products->len; k-- > (at > j ? at : j) + 1;)
            if (products->data[k]->mark) {
                late = products->data[k];
                at = k;
                break;
            }
    }
    return late;
}

static const char PLAIN_NOTE[] = "  plain order: products are waited for where they are issued\n";
static const char ISSUE_NOTE[] = "  order: products are issued as soon as their operands are there\n";

/* The order within the step, and within two steps together where that lets arithmetic and products overlap.
 */
static bool issue_order(Overlap *c, Instr *loop, const InstrList *products)
{
    if (kernel_late_staged(c, loop)) return true;
    Instr *two = kernel_two_steps(c, loop, products);
    if (two) kernel_interleave(c, two->blocks[0]);
    for (Instr *i = two ? two->blocks[0]->first : NULL; i; i = i->next)
        if (i->op == OP_WGMMA_WAIT) {
            kernel_loads_before(i);
            break;
        }
    return kernel_interleave(c, loop->blocks[0]);
}

static int number_of(const InstrList *products, const Instr *late)
{
    for (size_t k = 0; k < products->len; k++)
        if (products->data[k] == late) return (int)k + 1;
    return 0;
}

/* Overlaps products with the arithmetic of computed left operands, within a step or two steps together. */
static bool chain_computed(Overlap *c, Instr *loop, InstrList *products)
{
    InstrList both = { 0 };
    if (kernel_chain_computed(c, loop, products)) return true;
    Instr *two = kernel_two_computed(c, loop, products);
    if (!two) return false;
    kernel_join_sums(two->blocks[0]);
    products_in(c, two->blocks[0], &both);
    return kernel_chain_computed(c, two, &both);
}

/* Applies the order that a schedule asks for; false after an error. */
static bool asked_order(Overlap *c, Instr *loop, InstrList *products, const Decision *d, bool chain)
{
    KernelPlan *p = c->p;
    bool cross_tile = d->form == LOOP_CROSS_TILE;
    if (d->form == LOOP_PLAIN) text_puts(&c->note, PLAIN_NOTE);
    if (d->form == LOOP_PLAIN) return true;
    if (d->form == LOOP_CHAIN) {
        if (!chain && chain_computed(c, loop, products)) return true;
        if (!chain)
            return schedule_refuse(p, d,
                "products of this loop are waited for where they are issued: not all of them only add to "
                "what the loop carries");
        if (!stages_for_two(c, loop))
            return schedule_refuse(p, d,
                "this order gives a step's operands back one step later: each ring needs stages for two "
                "steps");
        delay_waits(c, loop, products);
        return true;
    }
    if (d->form == LOOP_PREFETCH)
        return schedule_refuse(p, d,
            "with warp specialization products read their operands from shared memory themselves: no "
            "fragments are read ahead");
    Instr *late = d->form == LOOP_ISSUE || d->n[0] < 1 || d->n[0] > (int)products->len
                      ? NULL
                      : products->data[d->n[0] - 1];
    if (d->form != LOOP_ISSUE && !late)
        return schedule_refuse(p, d, "the loop has %d products, counted from 1", (int)products->len);
    if (late == products->data[0])
        return schedule_refuse(p, d, "the first product has none before it to run behind");
    kernel_issue_first(c, loop->blocks[0]);
    if (!late) {
        bool issued = issue_order(c, loop, products);
        text_puts(&c->note, ISSUE_NOTE);
        return issued || schedule_refuse(p, d,
                             "the loop writes memory, waits for others, or takes a ring twice in a step: its "
                             "operations stay where they are");
    }
    return kernel_rotate(c, loop, late, d, &cross_tile) ||
           schedule_refuse(p, d,
               "product %d cannot run a step behind the others: something that it makes is needed by them, "
               "or what it needs is not theirs alone",
               d->n[0]);
}

static void derived_order(Overlap *c, Instr *loop, InstrList *products, bool chain)
{
    bool cross_tile = false;
    int form = LOOP_PLAIN, number = 0;
    if (chain && stages_for_two(c, loop)) {
        form = LOOP_CHAIN;
        delay_waits(c, loop, products);
    } else if (chain_computed(c, loop, products)) {
        form = LOOP_CHAIN;
    } else {
        Instr *late = late_product(products, loop->blocks[0]);
        bool one_by_one = !late && kernel_sums_one_by_one(c->p, loop);
        int later = one_by_one ? 0 : kernel_issue_first(c, loop->blocks[0]);
        if (one_by_one) form = LOOP_PLAIN; /* registers do not hold the sums of all products */
        else if (late && later < 2 && kernel_rotate(c, loop, late, NULL, &cross_tile)) {
            form = cross_tile ? LOOP_CROSS_TILE : LOOP_PIPELINED;
            number = number_of(products, late);
        } else if (issue_order(c, loop, products)) form = LOOP_ISSUE;
    }
    if (form == LOOP_ISSUE) text_puts(&c->note, ISSUE_NOTE);
    if (form == LOOP_PLAIN) text_puts(&c->note, PLAIN_NOTE);
    schedule_take_loop(c->p, c->loop, form, number);
}

/* Products that a program has outside of inner loops stay in the order of the program, because the program
 * stores their results. */
static void overlap_program(Overlap *c, Instr *loop, const Decision *d)
{
    if (d && d->form != LOOP_PLAIN) {
        schedule_refuse(c->p, d,
            "these products stand in no loop of a program: the only order that they have is `plain`");
        return;
    }
    if (d || !kernel_skips(c->p, PASS_SOFTWARE_PIPELINING)) kernel_join_sums(loop->blocks[0]);
    text_puts(&c->note, PLAIN_NOTE);
    schedule_take_loop(c->p, c->loop, LOOP_PLAIN, 0);
}

static void overlap_loop(Overlap *c, Instr *loop)
{
    InstrList products = { 0 };
    products_in(c, loop->blocks[0], &products);
    if (!products.len) return;
    if (ir_over_programs(loop)) {
        overlap_program(c, loop, schedule_asked_loop(c->p, ++c->loop));
        return;
    }
    const Decision *d = schedule_asked_loop(c->p, ++c->loop);
    const bool skips = kernel_skips(c->p, PASS_SOFTWARE_PIPELINING);
    const bool pairs = (d ? d->form == LOOP_ISSUE : !skips) && kernel_steps_pair(c, loop, &products);
    kernel_load_before(c, loop);
    loop = kernel_prefetch(c, loop, pairs ? 2 : 1);
    if (!d && skips) {
        schedule_take_loop(c->p, c->loop, LOOP_PLAIN, 0);
        return;
    }
    kernel_join_sums(loop->blocks[0]);
    bool chain = true;
    for (size_t k = 0; k < products.len; k++) chain = chain && is_chain(loop, products.data[k]);
    if (!d) derived_order(c, loop, &products, chain);
    else if (asked_order(c, loop, &products, d, chain)) schedule_take_loop(c->p, c->loop, d->form, d->n[0]);
}

bool kernel_pass_software_pipelining(KernelContext *k)
{
    Session *s = k->s;
    KernelPlan *p = k->p;
    Overlap c = { .s = s, .f = k->f, .p = p };
    Block *consumers = kernel_consumers(k->f);
    text_init(&c.note, &s->arena);
    pingpong_choose(p);
    ir_collect(&s->arena, consumers, OP_FOR, &c.loops);
    for (size_t k = 0; k < c.loops.len; k++) overlap_loop(&c, c.loops.data[k]);
    pingpong_record(p, consumers);
    if (c.note.len)
        p->schedule = arena_printf(&s->arena, "%s%s", p->schedule ? p->schedule : "", c.note.data);
    return c.loops.len > 0; /* Only the order of its operations may have changed. */
}
