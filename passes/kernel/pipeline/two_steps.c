/* two_steps.c: of software-pipelining: a loop whose only product begins a sum of its own, or has a left
 * operand that is computed, does two steps at a time, so that the arithmetic of one runs beside the product
 * of the other.
 *
 *   for k = lo to hi step st with (%acc) { %p = wgmma ..; %w = wgmma_wait %p; %n = fma %w, %scale, %acc }
 *
 * becomes
 *
 *   for k = lo to mid step 2 st with (%acc) { STEP(k); STEP(k + st) }     mid: lo + the even number of steps
 *   for k = mid to hi step st with (the sums of the first) { STEP(k) }    one step or none
 *
 * and issue_order.c issues both products before the first wait, or computed_operands.c chains them.
 * Warpgroups that wait for the same stages multiply at the same time and then do arithmetic at the same time,
 * which leaves the matrix unit idle.
 *
 * Requires: rings with stages for three steps, two of which are held; registers for two sums beside those
 * that the loop carries; a constant step. Keeps: everything. Both steps take stages in the program's order.
 */
#include "passes/kernel/pipeline/software_pipelining.h"

static bool begins_a_sum(const Instr *product)
{
    const Use *u = ir_result(product)->uses;
    return kernel_is_zero(ir_operand(product, 2)) && ir_operand(product, 0)->type->kind == TYPE_SHARED && u &&
           !u->next && u->user->op == OP_WGMMA_WAIT && u->user->block == product->block;
}

static bool stages_last(const Block *body)
{
    for (const Instr *i = body->first; i; i = i->next)
        if (i->op == OP_RING_GET &&
            ir_operand(i, 0)->type->shape[0] < 3 * kernel_gets_of(body, ir_operand(i, 0)))
            return false;
    return true;
}

/* Whether the body holds nothing that must not come twice: no loops, no branches, and no effects but those on
 * rings and products. */
static bool is_plain(const Block *body)
{
    for (const Instr *i = body->first; i; i = i->next) {
        bool own = op_family(i->op) == OPS_RING || i->op == OP_WGMMA || i->op == OP_WGMMA_WAIT ||
                   (op_info[i->op].flags & OPF_TERM) != 0;
        if (i->n_blocks || (!own && op_info[i->op].flags & (OPF_WRITE | OPF_BARRIER))) return false;
    }
    return true;
}

/* Where the steps that come in pairs end. */
static Value *middle(Builder *b, const Instr *loop, Value *two)
{
    Value *lo = ir_operand(loop, 0), *n = ir_bin(b, OP_SUB, ir_operand(loop, 1), lo);
    DType d = lo->type->dtype;
    n = ir_bin(b, OP_CDIV, ir_bin(b, OP_MAX, n, ir_const_int(b, d, 0)), ir_operand(loop, 2));
    Value *pairs = ir_bin(b, OP_DIV, n, ir_const_int(b, d, 2));
    return ir_bin(b, OP_ADD, lo, ir_bin(b, OP_MUL, pairs, two));
}

static void step_into(Session *s, Builder *in, Block *body, Value *counter, Value **carried)
{
    ValueMap map;
    value_map_init(&map, &s->arena);
    value_map_set(&map, body->args[0], counter);
    for (int k = 1; k < body->n_args; k++) value_map_set(&map, body->args[k], carried[k - 1]);
    ir_clone_block_into(in, body, &map, false);
    for (int k = 1; k < body->n_args; k++)
        carried[k - 1] = value_map_get(&map, ir_operand(ir_terminator(body), k - 1));
}

/* Makes the loop of two steps in front of the loop, which keeps an odd last one. */
static Instr *pair_steps(Overlap *c, Instr *loop, int64_t step)
{
    Block *body = loop->blocks[0];
    int n = loop->n_results;
    Builder b = ir_before(loop);
    b.loc = loop->loc;
    Value **ops = arena_array(&c->s->arena, Value *, (size_t)n + 3), *own = ir_operand(loop, 2);
    ops[0] = ir_operand(loop, 0);
    ops[2] = ir_const_int(&b, ops[0]->type->dtype, 2 * step);
    ops[1] = middle(&b, loop, ops[2]);
    for (int k = 0; k < n; k++) ops[k + 3] = ir_operand(loop, k + 3);
    Instr *two = ir_build(&b, OP_FOR, ops, n + 3, NO_ATTRS, NULL, 0);
    Block *both = two->blocks[0];
    Builder in = ir_at_end(both);
    in.loc = loop->loc;
    Value **carried = arena_array(&c->s->arena, Value *, (size_t)n + 1);
    for (int k = 0; k < n; k++) carried[k] = both->args[k + 1];
    step_into(c->s, &in, body, both->args[0], carried);
    step_into(c->s, &in, body, ir_bin(&in, OP_ADD, both->args[0], own), carried);
    ir_build(&in, OP_YIELD, carried, n, NO_ATTRS, NULL, 0);
    ir_set_operand(loop, 0, ops[1]);
    for (int k = 0; k < n; k++) {
        two->results[k].name = loop->results[k].name;
        ir_set_operand(loop, k + 3, &two->results[k]);
    }
    return two;
}

/* Whether steps may come in pairs that need so many registers of a thread beside the sums. */
static bool pairs_fit(const Overlap *c, const Instr *loop, int64_t *step, int more)
{
    const Block *body = loop->blocks[0];
    return ir_is_const(ir_operand(loop, 2), step) && *step >= 1 && is_plain(body) && stages_last(body) &&
           !c->p->registers_full &&
           kernel_words_of_sums(c->p, loop) + more + BESIDE_SUMS <= c->p->consumer_registers;
}

/* The registers of a second sum if the step's only product begins one; -1: it does not. */
static int second_sum(const Overlap *c, const InstrList *products)
{
    Instr *p = products->len == 1 ? products->data[0] : NULL;
    return p && begins_a_sum(p) ? (int)(type_elements(ir_result(p)->type) / (32 * c->p->warps)) : -1;
}

bool kernel_steps_pair(const Overlap *c, const Instr *loop, const InstrList *products)
{
    int64_t step;
    int more = second_sum(c, products);
    return more >= 0 && pairs_fit(c, loop, &step, more);
}

Instr *kernel_two_steps(Overlap *c, Instr *loop, const InstrList *products)
{
    int64_t step;
    int more = second_sum(c, products);
    return more >= 0 && pairs_fit(c, loop, &step, more) ? pair_steps(c, loop, step) : NULL;
}

/* The rings from which a step takes stages. */
static int rings_of(const Block *body)
{
    int n = 0;
    for (const Instr *i = body->first; i; i = i->next) n += i->op == OP_RING_GET;
    return n;
}

/* Each ring of a step is waited for and given back twice in a pair: with more than three that costs more than
 * is hidden (bench/notes/products.md, "Kernels as a user writes them"). */
enum { MOST_RINGS = 3 };

Instr *kernel_two_computed(Overlap *c, Instr *loop, const InstrList *products)
{
    int64_t step;
    Instr *p = products->len == 1 ? products->data[0] : NULL;
    const Value *a = p ? ir_operand(p, 0) : NULL;
    const Use *u = p ? ir_result(p)->uses : NULL;
    if (!p || a->type->kind != TYPE_TILE || ir_defined_outside(a, loop->blocks[0]) || !u || u->next ||
        u->user->op != OP_WGMMA_WAIT || u->user->n_operands != 1 ||
        !kernel_adds_to_carried(p, ir_result(u->user)) || rings_of(loop->blocks[0]) > MOST_RINGS)
        return NULL;
    int more = (int)(2 * type_elements(a->type) * dtype_bytes(a->type->dtype) / (4 * 32 * c->p->warps));
    return pairs_fit(c, loop, &step, more) ? pair_steps(c, loop, step) : NULL;
}
