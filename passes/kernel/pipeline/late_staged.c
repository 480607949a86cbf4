/* late_staged.c: of software-pipelining: a product of what the step itself writes to shared memory, for all
 * warpgroups to read, runs a step behind the others.
 *
 *   for i { s = wgmma; ..; shared_write buf[i & 1], x; barrier; q = wgmma buf[i & 1]; wait q; store q {add} }
 *
 * becomes
 *
 *   if lo < hi {
 *     s = wgmma; ..; shared_write buf[0], x; barrier (arrive)
 *     for i = lo + 1 .. { s = wgmma; barrier (wait); q = wgmma buf[i - 1 & 1]; ..
 *                         shared_write buf[i & 1], x; wait q; barrier (arrive); ..; store q {add} of i - 1 }
 *     barrier (wait); q = wgmma buf[hi - 1 & 1]; wait q; store q {add}
 *   }
 *
 * With the barrier behind the write, all warpgroups do the same at the same time: products, or arithmetic.
 * Now a warpgroup waits for what the others wrote a step ago, so that one computes while another multiplies.
 * Two stages still suffice: a warp that writes in step i has waited for the arrivals of step i - 1, and
 * before those each warp has waited for the product of step i - 2.
 *
 * An addition in a fixed order (ordered-adds) goes with its semaphores: the writer warp waits for the step
 * before and signals the next one while the consumers are a step ahead.
 *
 * Requires: steps of 1; a sum that only one addition to memory takes; a wait for another product before the
 * barrier; registers for that sum beside those of the step. Keeps: everything. */
#include "passes/kernel/pipeline/software_pipelining.h"

typedef struct Staged {
    Overlap *c;
    Instr *loop, *barrier, *product, *wait;
    InstrList
        adds; /* the addition; in order: the wait for a semaphore, the addition, the signal, and joins */
    Block *body;
    bool tokens[IR_MAX_RESULTS]; /* the carried values that are the additions' token */
    bool *needed;                /* by mark: of the step, what the product and the addition need */
} Staged;

static Instr *only_user(const Value *v, Op op)
{ return v->uses && !v->uses->next && v->uses->user->op == op ? v->uses->user : NULL; }

/* Adds the instruction, and before it the join from which alone it has its token. */
static void add_with_join(Staged *s, Instr *i)
{
    MemParts m;
    Instr *join = ir_mem_parts(i, &m) && m.token ? m.token->def : NULL;
    if (join && join->op == OP_JOIN_TOKENS && join->block == s->body && ir_use_count(ir_result(join)) == 1)
        vec_push(&s->c->s->arena, &s->adds, join);
    vec_push(&s->c->s->arena, &s->adds, i);
}

static bool is_add(const Staged *s, const Instr *i)
{
    for (size_t k = 0; k < s->adds.len; k++)
        if (s->adds.data[k] == i) return true;
    return false;
}

/* Whether the addition, with what orders it, has its token from the step before, and only the next step has
 * its own. */
static bool chained(Staged *s, Instr *store)
{
    Instr *waits = ir_semaphore_wait(store), *signals = ir_semaphore_signal(store), *last = store;
    const Instr *end = ir_terminator(s->body);
    MemParts m;
    if (!waits != !signals) return false;
    if (waits) add_with_join(s, waits);
    add_with_join(s, store);
    if (signals) add_with_join(s, last = signals);
    for (size_t k = 0; k < s->adds.len; k++)
        if (s->adds.data[k]->block != s->body) return false;
    if (!ir_mem_parts(last, &m)) return false;
    for (const Use *u = m.token_out->uses; u; u = u->next) {
        if (u->user != end) return false;
        s->tokens[u - end->operands] = true;
    }
    for (int k = 0; k < end->n_operands; k++)
        for (const Use *u = s->body->args[k + 1]->uses; u; u = u->next)
            if (s->tokens[k] != is_add(s, u->user)) return false;
    return m.token_out->uses != NULL;
}

/* Finds the one barrier, the one product behind it that reads what was written, and the addition of its sum.
 */
static bool find(Staged *s)
{
    for (Instr *i = s->body->first; i; i = i->next) {
        if (i->op == OP_BARRIER && s->barrier) return false;
        if (i->op == OP_BARRIER) s->barrier = i;
        if (!kernel_reads_written(i)) continue;
        if (s->product || !s->barrier) return false;
        s->product = i;
    }
    if (!s->product || !kernel_is_zero(ir_operand(s->product, 2))) return false;
    s->wait = only_user(ir_result(s->product), OP_WGMMA_WAIT);
    Instr *store = s->wait && s->wait->n_operands == 1 ? only_user(ir_result(s->wait), OP_STORE) : NULL;
    int64_t step;
    return store && store->block == s->body && ir_adds(store) && chained(s, store) &&
           ir_is_const(ir_operand(s->loop, 2), &step) && step == 1;
}

/* Marks what the late part needs: scalars of the step and views of what it wrote, which are computed again.
 */
static bool need(void *user, Value *v)
{
    Staged *s = user;
    Instr *d = v->def;
    if (d == s->wait || is_add(s, d) || ir_defined_outside(v, s->body) || v == s->body->args[0]) return true;
    for (int k = 1; k < s->body->n_args; k++)
        if (v == s->body->args[k] && s->tokens[k - 1]) return true;
    bool again =
        d && d->block == s->body && !d->n_blocks &&
        (d->op == OP_SHARED_STAGE || d->op == OP_SHARED_TRANSPOSE || d->op == OP_SHARED_SLICE ||
            (op_info[d->op].flags & OPF_PURE && (v->type->kind == TYPE_SCALAR || kernel_is_cheap(v))));
    if (!again) return false;
    if (s->needed[d->mark]) return true;
    s->needed[d->mark] = true;
    return ir_all_operands(d, need, s);
}

static bool needs_step_only(Staged *s)
{
    uint32_t n = 0;
    for (Instr *i = s->body->first; i; i = i->next) i->mark = n++;
    s->needed = arena_array(&s->c->s->arena, bool, n);
    for (size_t k = 0; k < s->adds.len; k++)
        if (!ir_all_operands(s->adds.data[k], need, s)) return false;
    return ir_all_operands(s->product, need, s);
}

/* Whether the step waits for a product before the barrier: the late product is in flight until behind that
 * wait. */
static bool waits_before_barrier(const Staged *s)
{
    const Instr *i = s->body->first;
    while (i->op != OP_WGMMA_WAIT && i != s->barrier) i = i->next;
    return i != s->barrier;
}

/* Where the late part goes. */
typedef struct Places {
    Builder *issue, *wait, *store;
} Places;

/* The late part of the step of `counter`: what it needs and the product at `issue`. Sets the tokens among the
 * carried values `next`, which are those of the step before. */
static void late_part(Staged *s, const Places *at, Value *counter, Value **next)
{
    ValueMap map;
    MemParts m;
    value_map_init(&map, &s->c->s->arena);
    value_map_set(&map, s->body->args[0], counter);
    for (int k = 0; k + 1 < s->body->n_args; k++)
        if (s->tokens[k]) value_map_set(&map, s->body->args[k + 1], next[k]);
    ir_build(at->issue, OP_BARRIER, NULL, 0, ATTRS(a_int(ATTR_HALF, BARRIER_WAITS)), NULL, 0);
    for (Instr *i = s->body->first; i; i = i->next)
        if (!(op_info[i->op].flags & OPF_TERM) && s->needed[i->mark]) ir_clone(at->issue, i, &map);
    ir_clone(at->issue, s->product, &map);
    Instr *wait = ir_clone(at->wait, s->wait, &map), *last = NULL;
    for (size_t k = 0; k < s->adds.len; k++) last = ir_clone(at->store, s->adds.data[k], &map);
    ir_set_attr(s->c->s, wait, a_int(ATTR_DEPTH, 0));
    ir_mem_parts(last, &m);
    for (int k = 0; k + 1 < s->body->n_args; k++)
        if (s->tokens[k]) next[k] = m.token_out;
}

/* Takes the late part out of the body, whose barrier then only arrives. */
static void take_out(Staged *s)
{
    for (int k = 0; k + 1 < s->body->n_args; k++)
        if (s->tokens[k]) ir_set_operand(ir_terminator(s->body), k, s->body->args[k + 1]);
    for (size_t k = s->adds.len; k-- > 0;) ir_unlink(s->adds.data[k]);
    ir_unlink(s->wait), ir_unlink(s->product);
    ir_set_attr(s->c->s, s->barrier, a_int(ATTR_HALF, BARRIER_ARRIVES));
}

static void clone_step(Builder *b, ValueMap *map, const Instr *from, const Instr *to)
{
    for (const Instr *i = from; i != to; i = i->next)
        if (!(op_info[i->op].flags & OPF_TERM)) ir_clone(b, i, map);
}

/* Fills the loop with a step and the late part of the step before: its product behind those that need no
 * wait, the wait for it before the arrivals, which say that the stage may be written again a step later, and
 * its store behind the last product. */
static void fill(Staged *s, Instr *main)
{
    Block *to = main->blocks[0];
    Builder b = ir_at_end(to);
    const Instr *first_wait = s->body->first, *behind = NULL;
    ValueMap map;
    value_map_init(&map, &s->c->s->arena);
    for (int k = 0; k < to->n_args; k++) value_map_set(&map, s->body->args[k], to->args[k]);
    while (first_wait->op != OP_WGMMA_WAIT) first_wait = first_wait->next;
    for (const Instr *i = first_wait; i; i = i->next)
        if (i->op == OP_WGMMA || i == s->barrier) behind = i->next;
    clone_step(&b, &map, s->body->first, first_wait);
    Value *one = ir_operand(s->loop, 2), *before = ir_bin(&b, OP_SUB, to->args[0], one);
    clone_step(&b, &map, first_wait, s->barrier);
    Instr *written = to->last;
    clone_step(&b, &map, s->barrier, behind);
    Builder issue = ir_after(before->def), wait = ir_after(written);
    Value *next[IR_MAX_RESULTS];
    for (int k = 0; k < main->n_results; k++) next[k] = to->args[k + 1];
    late_part(s, &(Places){ &issue, &wait, &b }, before, next);
    clone_step(&b, &map, behind, NULL);
    for (int k = 0; k < main->n_results; k++)
        if (!s->tokens[k]) next[k] = value_map_get(&map, ir_operand(ir_terminator(s->body), k));
    ir_build(&b, OP_YIELD, next, main->n_results, NO_ATTRS, NULL, 0);
}

static void rebuild(Staged *s)
{
    Instr *loop = s->loop;
    const Type *types[IR_MAX_RESULTS];
    Value *ops[IR_MAX_RESULTS + 3], *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1),
                                    *one = ir_operand(loop, 2);
    int n = loop->n_results;
    for (int k = 0; k < n; k++) types[k] = loop->results[k].type;
    Builder b = ir_before(loop);
    Value *any = ir_bin(&b, OP_LT, lo, hi);
    Instr *cond = ir_build(&b, OP_IF, &any, 1, NO_ATTRS, types, n);
    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = loop->loc;
    ValueMap map;
    value_map_init(&map, &s->c->s->arena);
    value_map_set(&map, s->body->args[0], lo);
    for (int k = 0; k < n; k++) value_map_set(&map, s->body->args[k + 1], ir_operand(loop, k + 3));
    clone_step(&in, &map, s->body->first, NULL);
    ops[0] = ir_bin(&in, OP_ADD, lo, one), ops[1] = hi, ops[2] = one;
    for (int k = 0; k < n; k++) ops[k + 3] = value_map_get(&map, ir_operand(ir_terminator(s->body), k));
    Instr *main = ir_build(&in, OP_FOR, ops, n + 3, NO_ATTRS, NULL, 0);
    for (int k = 0; k <= n; k++) ir_set_name(main->blocks[0]->args[k], s->body->args[k]->name);
    fill(s, main);
    Value *last = ir_bin(&in, OP_SUB, hi, one);
    for (int k = 0; k < n; k++) ops[k] = &main->results[k];
    Builder end = in;
    late_part(s, &(Places){ &end, &end, &end }, last, ops);
    ir_build(&end, OP_YIELD, ops, n, NO_ATTRS, NULL, 0);
    in = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < n; k++) ops[k] = ir_operand(loop, k + 3);
    ir_build(&in, OP_YIELD, ops, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) ir_replace(&loop->results[k], &cond->results[k]);
    for (size_t k = s->adds.len; k-- > 0;) ir_set_operands(s->adds.data[k], NULL, 0);
    ir_set_operands(s->wait, NULL, 0), ir_set_operands(s->product, NULL, 0);
    ir_erase(loop);
    kernel_set_depths(s->c, main->blocks[0]);
}

bool kernel_late_staged(Overlap *c, Instr *loop)
{
    Staged s = { .c = c, .loop = loop, .body = loop->blocks[0] };
    if (c->p->registers_full || ir_over_programs(loop) || !find(&s) || !kernel_interleave(c, s.body) ||
        !waits_before_barrier(&s) || !needs_step_only(&s))
        return false;
    take_out(&s);
    kernel_set_depths(c, s.body);
    rebuild(&s);
    text_printf(
        &c->note, "  late: the product of what a step writes to shared memory runs in the next step\n");
    return true;
}
