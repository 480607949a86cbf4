/* ordered-adds: an addition that waits for the program before and lets the next one add, as three memory
 * operations, for writer warps to do (bulk-store).
 *
 *   %t = if %c { while atomic_rmw S[before] = 0 token .. {add, acquire} <= %step {} .. }
 *   %u = store %x, DQ[..] token %t {rmw = add}
 *   %v = atomic_rmw S[own] = %next token join(%u, ..) {exch, release}
 *
 * becomes
 *
 *   %t = atomic_rmw S[before] = %step masked %c token .. {add, acquire, semaphore = 1}
 *   %u = store %x, DQ[..] token %t {rmw = add}
 *   %v = atomic_rmw S[own] = %next token join(%u, ..) {exch, release, semaphore = 1}
 *
 * The first one waits until the element is above %step, where %c holds. Without control flow in the step,
 * its products may overlap (software-pipelining). Where bulk-store hands the addition to writer warps, the
 * writer waits, adds, and signals; elsewhere the emitter waits in the consumers' stead as before.
 *
 * Requires: a `while` that does nothing else, under an `if` that does nothing else; old values that nobody
 * uses otherwise; the three in one block of a loop, one tensor of semaphores, and nothing else between wait
 * and signal; no reads of what programs write, which the consumers could not wait for. Keeps: everything. */
#include "passes/kernel/warp_specialization/bulk_store.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* What one addition waits for. */
typedef struct OrderedAdd {
    Instr *cond, *loop, *wait, *pass; /* the if, the while in it, its atomic, the atomic behind the store */
    Value *step;
} OrderedAdd;

static bool is_atomic(const Instr *i, int rmw, int sem)
{
    return i->op == OP_ATOMIC_RMW && ir_attr_int(i, ATTR_RMW, -1) == rmw &&
           ir_attr_int(i, ATTR_SEM, SEM_RELAXED) == sem && !ir_attr(i, ATTR_HAS_MASK);
}

/* Whether the terminator hands on the values at `from`, in order. */
static bool hands_on(const Instr *end, Value *const *from, int n)
{
    for (int k = 0; k < n; k++)
        if (ir_operand(end, k) != from[k]) return false;
    return end->n_operands == n;
}

/* Whether a block has nothing but its terminator, which hands on the block's arguments. */
static bool does_nothing(const Block *b)
{ return b->first == b->last && hands_on(b->last, b->args, b->n_args); }

/* while atomic_add(S[..], 0, acquire) <= step {} */
static bool waits_only(OrderedAdd *t)
{
    Block *test = t->loop->blocks[0];
    Instr *end = ir_terminator(test), *compare = ir_operand(end, 0)->def;
    MemParts m;
    if (!does_nothing(t->loop->blocks[1]) || !compare || compare->op != OP_LE || compare->block != test)
        return false;
    t->wait = ir_operand(compare, 0)->def;
    t->step = ir_operand(compare, 1);
    if (!t->wait || t->wait->block != test || !is_atomic(t->wait, RMW_ADD, SEM_ACQUIRE) ||
        !ir_mem_parts(t->wait, &m) || !m.token || m.tensor->type->dtype != DT_I32 ||
        !kernel_is_zero(m.values[0]) || ir_use_count(m.result) != 1 ||
        !ir_defined_outside(t->step, t->cond->blocks[0]))
        return false;
    for (const Instr *i = test->first; i != end; i = i->next)
        if (i != t->wait && i != compare && i->op != OP_JOIN_TOKENS) return false;
    for (int k = 1; k < end->n_operands; k++)
        if (ir_operand(end, k) != m.token_out) return false;
    return true;
}

/* The `if` around that loop, from which the store has its token. */
static bool waits(OrderedAdd *t, const Instr *store)
{
    MemParts m;
    t->cond = ir_mem_parts(store, &m) && m.token ? m.token->def : NULL;
    if (!t->cond || t->cond->op != OP_IF || t->cond->n_blocks != 2 || t->cond->block != store->block)
        return false;
    Block *then = t->cond->blocks[0], *other = t->cond->blocks[1];
    Value *results[IR_MAX_RESULTS];
    if (other->first != other->last) return false;
    for (Instr *i = then->first; i != ir_terminator(then); i = i->next) {
        if (i->op == OP_WHILE && !t->loop) t->loop = i;
        else if (i->n_blocks || !(op_info[i->op].flags & OPF_PURE)) return false;
    }
    if (!t->loop || !waits_only(t)) return false;
    for (int k = 0; k < t->loop->n_results; k++) results[k] = &t->loop->results[k];
    int n = t->cond->n_results;
    for (int k = 0; k < n && t->loop->n_results == n; k++)
        if (ir_operand(t->loop, k) != ir_operand(other->last, k)) return false;
    return t->loop->n_results == n && hands_on(ir_terminator(then), results, n);
}

/* The atomic that lets the next program add: it releases, in the store's block, and nobody reads its old
 * value. */
static Instr *signals(const Instr *store)
{
    MemParts m;
    const Value *v = ir_result(store);
    if (!v->uses || v->uses->next) return NULL;
    Instr *i = v->uses->user;
    if (i->op == OP_JOIN_TOKENS && ir_result(i)->uses && !ir_result(i)->uses->next)
        i = ir_result(i)->uses->user;
    bool passes = is_atomic(i, RMW_EXCH, SEM_RELEASE) && i->block == store->block && ir_mem_parts(i, &m) &&
                  m.result && !m.result->uses && m.result->type->kind == TYPE_SCALAR;
    return passes ? i : NULL;
}

static bool is_semaphore_of(const OrderedAdd *t, const Instr *i)
{
    MemParts m, wait;
    return ir_mem_parts(i, &m) && ir_mem_parts(t->wait, &wait) && m.param == wait.param;
}

/* Whether the addition is all that is in order: nothing else has its place between the wait and the signal.
 */
static bool alone(const OrderedAdd *t, const Instr *store)
{
    const Value *token = ir_operand(t->pass, t->pass->n_operands - 1);
    const Instr *joins = token->def && token->def->op == OP_JOIN_TOKENS ? token->def : t->pass;
    for (int k = 0; k < t->cond->n_results; k++)
        for (const Use *u = t->cond->results[k].uses; u; u = u->next)
            if (u->user != store && u->user != joins) return false;
    for (int k = 0; joins != t->pass && k < joins->n_operands; k++)
        if (ir_operand(joins, k)->def != t->cond && ir_operand(joins, k)->def != store) return false;
    return true;
}

/* Whether an operation reads what programs write, semaphores aside: it may look for what the program before
 * has written, which only the writers wait for. */
static bool reads_written(const void *user, const Instr *i)
{
    const OrderedAdd *t = user;
    MemParts m;
    return ir_mem_parts(i, &m) && m.token && m.result && !is_semaphore_of(t, i);
}

static void order_add(Roles *c, OrderedAdd *t)
{
    Instr *i = t->cond;
    MemParts m;
    Value *ops[TILE_MAX_RANK + 4], *tokens[IR_MAX_RESULTS];
    int n = 0, all = i->n_results;
    Builder b = ir_before(i);
    b.loc = i->loc;
    for (Instr *x = i->blocks[0]->first, *next; x != ir_terminator(i->blocks[0]); x = next) {
        next = x->next;
        if (x == t->loop) continue;
        ir_unlink(x);
        ir_place(&b, x);
    }
    ir_mem_parts(t->wait, &m);
    for (int k = 0; k < all; k++) tokens[k] = ir_operand(ir_terminator(i->blocks[1]), k);
    ops[n++] = m.tensor;
    for (int k = 0; k < m.rank; k++) ops[n++] = m.idx[k];
    ops[n++] = t->step;
    ops[n++] = ir_operand(i, 0);
    ops[n++] = all > 1 ? ir_emit(&b, OP_JOIN_TOKENS, tokens, all, NO_ATTRS, NULL) : tokens[0];
    Instr *wait = ir_build(&b, OP_ATOMIC_RMW, ops, n,
        ATTRS(a_int(ATTR_RMW, RMW_ADD), a_int(ATTR_SEM, SEM_ACQUIRE), a_int(ATTR_HAS_MASK, 1),
            a_int(ATTR_SEMAPHORE, 1)),
        NULL, 0);
    ir_mem_parts(wait, &m);
    for (int k = 0; k < all; k++) ir_replace(&i->results[k], m.token_out);
    ir_erase(i);
    ir_set_attr(c->s, t->pass, a_int(ATTR_SEMAPHORE, 1));
}

bool roles_order_adds(void *user)
{
    Roles *c = user;
    InstrList stores = { 0 };
    bool changed = false;
    ir_collect(&c->s->arena, kernel_consumers(c->f), OP_STORE, &stores);
    for (size_t k = 0; k < stores.len; k++) {
        Instr *store = stores.data[k], *loop = store->block->parent;
        OrderedAdd t = { 0 };
        if (!ir_adds(store) || !loop || loop->op != OP_FOR || !waits(&t, store) || !(t.pass = signals(store)))
            continue;
        if (!is_semaphore_of(&t, t.pass) || !alone(&t, store) || ir_any_in(c->f->body, reads_written, &t))
            continue;
        order_add(c, &t);
        changed = true;
    }
    return changed;
}
