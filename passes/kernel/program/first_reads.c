/* first-reads: loads in a loop that no write of the program precedes lose their token, so that they are
 * started ahead as loads of inputs are.
 *
 *   %t = token %K                                           %t = token %K
 *   %r = for %j with (%a = %t) {                            for %j {
 *     %k, %b = load %K[%j*64] token %a              ->        %k = load %K[%j*64]
 *     yield %b                                                yield
 *   }                                                       }
 *   %c = scatter %K[..] token %r                            %c = scatter %K[..] token %t
 *
 * An example is a cache to which a kernel appends what it attends to. Such a load reads what the program
 * found; programs have no order among themselves but through atomics, whose tokens come from all chains. The
 * load may be started before the loop, but nothing moves it behind: the loop itself writes nothing to the
 * tensor, and its results wait for the load. Threads meet before a write that follows such loads of others
 * (backends/gpu/emit_order.c), and a producer computes no position or bound from them (operands.c).
 *
 * Requires: the chain of tokens from the kernel's start to the load, and around the loop, has loads only.
 * Keeps: everything. */
#include "passes/kernel/kernel.h"

enum { MOST_ASSUMED = 16 };

typedef struct Chain {
    const Value *assumed[MOST_ASSUMED]; /* carried tokens that are being followed around their loops */
    int n;
} Chain;

static bool untouched(Chain *c, const Value *t);

static bool untouched_in_loop(Chain *c, const Instr *loop, int carried)
{
    const Value *inside = loop->blocks[0]->args[carried + 1];
    for (int k = 0; k < c->n; k++)
        if (c->assumed[k] == inside) return true;
    if (c->n == MOST_ASSUMED) return false;
    c->assumed[c->n++] = inside;
    return untouched(c, ir_operand(loop, carried + 3)) &&
           untouched(c, ir_operand(ir_terminator(loop->blocks[0]), carried));
}

/* Whether the token is the state of the tensor that the program found. */
static bool untouched(Chain *c, const Value *t)
{
    const Instr *d = t->def, *loop = d ? d : t->block->parent;
    MemParts m;
    if (!loop) return false;
    if (loop->op == OP_FOR) return untouched_in_loop(c, loop, d ? t->index : t->index - 1);
    if (!d) return false;
    if (d->op == OP_TOKEN) return true;
    if (d->op == OP_IF)
        return untouched(c, ir_operand(ir_terminator(d->blocks[0]), t->index)) &&
               untouched(c, ir_operand(ir_terminator(d->blocks[1]), t->index));
    return (d->op == OP_LOAD || d->op == OP_GATHER) && ir_mem_parts(d, &m) && m.token &&
           untouched(c, m.token);
}

static bool in_for(const Instr *i)
{
    for (i = i->block->parent; i && i->op == OP_IF;) i = i->block->parent;
    return i && i->op == OP_FOR;
}

/* Takes the token from the load, which is made anew. */
static void free_of_token(Instr *i, const MemParts *m)
{
    Value *ops[2 * TILE_MAX_RANK + 4];
    int n = 0;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k) != m->token) ops[n++] = ir_operand(i, k);
    Builder b = ir_before(i);
    b.loc = i->loc;
    Instr *load = ir_build_raw(&b, i->op, ops, n, (Attrs){ i->attrs, i->n_attrs }, &i->results[0].type, 1);
    ir_set_name(ir_result(load), i->results[0].name);
    ir_replace(&i->results[0], ir_result(load));
    ir_replace(&i->results[1], m->token);
    ir_erase(i);
}

/* Tokens that a loop gives back as it got them are not carried. */
static void drop_tokens(void *user, Instr *loop)
{
    (void)user;
    if (loop->op != OP_FOR) return;
    for (int k = loop->n_results - 1; k >= 0; k--) {
        Value *inside = loop->blocks[0]->args[k + 1], *init = ir_operand(loop, k + 3);
        if (init->type->kind != TYPE_TOKEN || ir_operand(ir_terminator(loop->blocks[0]), k) != inside)
            continue;
        ir_replace(inside, init);
        ir_replace(&loop->results[k], init);
        ir_drop_carried(loop, k);
    }
}

bool kernel_pass_first_reads(KernelContext *c)
{
    InstrList loads = { 0 };
    bool progress = false;
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++) {
        Chain chain = { .n = 0 };
        MemParts m;
        Instr *i = loads.data[k];
        if (i->n_results != 2 || !ir_mem_parts(i, &m) || !m.token || !in_for(i) ||
            !untouched(&chain, m.token))
            continue;
        free_of_token(i, &m);
        progress = true;
    }
    if (progress) ir_walk(c->f->body, drop_tokens, NULL);
    return progress;
}
