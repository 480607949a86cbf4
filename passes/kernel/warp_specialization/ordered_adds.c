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
#include "passes/kernel/warp_specialization/ordered_adds.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"
#include <string.h>

/* What one addition waits for, and the atomic behind the store. */
typedef struct OrderedAdd {
    OrderedWait wait;
    Instr *pass;
} OrderedAdd;

bool ordered_is_atomic(const Instr *i, int rmw, int sem)
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

/* while atomic_add(S[..], 0, acquire) <= step {}, or < step */
static bool waits_only(OrderedWait *w)
{
    Block *test = w->loop->blocks[0];
    Instr *end = ir_terminator(test), *compare = ir_operand(end, 0)->def;
    MemParts m;
    if (!does_nothing(w->loop->blocks[1]) || !compare || compare->block != test ||
        (compare->op != OP_LE && compare->op != OP_LT))
        return false;
    w->atomic = ir_operand(compare, 0)->def;
    w->step = ir_operand(compare, 1);
    w->below = compare->op == OP_LT;
    if (!w->atomic || w->atomic->block != test || !ordered_is_atomic(w->atomic, RMW_ADD, SEM_ACQUIRE) ||
        !ir_mem_parts(w->atomic, &m) || !m.token || m.tensor->type->dtype != DT_I32 ||
        !kernel_is_zero(m.values[0]) || ir_use_count(m.result) != 1 || !ir_defined_outside(w->step, test))
        return false;
    for (const Instr *i = test->first; i != end; i = i->next)
        if (i != w->atomic && i != compare && i->op != OP_JOIN_TOKENS) return false;
    for (int k = 1; k < end->n_operands; k++)
        if (ir_operand(end, k) != m.token_out) return false;
    return true;
}

/* Whether the atomic sets the semaphore that was waited for to 0, and nobody reads what it was. */
static bool clears(const OrderedWait *w, const Instr *i)
{
    MemParts m, waited;
    if (!ordered_is_atomic(i, RMW_EXCH, SEM_RELAXED) || !ir_mem_parts(i, &m) || !w->atomic ||
        !ir_mem_parts(w->atomic, &waited) || m.tensor != waited.tensor || !kernel_is_zero(m.values[0]) ||
        m.result->uses)
        return false;
    for (int k = 0; k < m.rank; k++)
        if (m.idx[k] != waited.idx[k]) return false;
    return true;
}

/* Whether the `if` hands on what its loop has as token k, with or without the atomic that clears. */
static bool hands_on_token(const OrderedWait *w, int k)
{
    MemParts m;
    const Value *given = ir_operand(ir_terminator(w->cond->blocks[0]), k), *result = &w->loop->results[k];
    return given == result ||
           (w->clear && ir_mem_parts(w->clear, &m) && given == m.token_out && m.token == result);
}

bool ordered_wait_in(Instr *cond, OrderedWait *w)
{
    *w = (OrderedWait){ .cond = cond };
    if (cond->op != OP_IF || cond->n_blocks != 2) return false;
    Block *then = cond->blocks[0], *other = cond->blocks[1];
    if (other->first != other->last) return false;
    for (Instr *i = then->first; i != ir_terminator(then); i = i->next) {
        if (i->op == OP_WHILE && !w->loop) {
            w->loop = i;
            if (!waits_only(w)) return false;
        } else if (!w->clear && clears(w, i)) w->clear = i;
        else if (i->n_blocks || !(op_info[i->op].flags & OPF_PURE)) return false;
    }
    int n = cond->n_results;
    if (!w->loop || w->loop->n_results != n || ir_terminator(then)->n_operands != n) return false;
    for (int k = 0; k < n; k++)
        if (ir_operand(w->loop, k) != ir_operand(other->last, k) || !hands_on_token(w, k)) return false;
    return true;
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
    bool passes = ordered_is_atomic(i, RMW_EXCH, SEM_RELEASE) && i->block == store->block &&
                  ir_mem_parts(i, &m) && m.result && !m.result->uses && m.result->type->kind == TYPE_SCALAR;
    return passes ? i : NULL;
}

static bool is_semaphore_of(const OrderedAdd *t, const Instr *i)
{
    MemParts m, wait;
    return ir_mem_parts(i, &m) && ir_mem_parts(t->wait.atomic, &wait) && m.param == wait.param;
}

/* Whether the addition is all that is in order: nothing else has its place between the wait and the signal.
 */
static bool alone(const OrderedAdd *t, const Instr *store)
{
    const Value *token = ir_operand(t->pass, t->pass->n_operands - 1);
    const Instr *joins = token->def && token->def->op == OP_JOIN_TOKENS ? token->def : t->pass,
                *cond = t->wait.cond;
    for (int k = 0; k < cond->n_results; k++)
        for (const Use *u = cond->results[k].uses; u; u = u->next)
            if (u->user != store && u->user != joins) return false;
    for (int k = 0; joins != t->pass && k < joins->n_operands; k++)
        if (ir_operand(joins, k)->def != cond && ir_operand(joins, k)->def != store) return false;
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

Instr *ordered_wait_alone(const OrderedWait *w, int semaphore)
{
    Instr *i = w->cond;
    MemParts m;
    Value *ops[TILE_MAX_RANK + 4], *tokens[IR_MAX_RESULTS];
    int n = 0, all = i->n_results;
    Builder b = ir_before(i);
    b.loc = i->loc;
    for (Instr *x = i->blocks[0]->first, *next; x != ir_terminator(i->blocks[0]); x = next) {
        next = x->next;
        if (x == w->loop || x == w->clear) continue;
        ir_unlink(x);
        ir_place(&b, x);
    }
    ir_mem_parts(w->atomic, &m);
    for (int k = 0; k < all; k++) tokens[k] = ir_operand(ir_terminator(i->blocks[1]), k);
    ops[n++] = m.tensor;
    for (int k = 0; k < m.rank; k++) ops[n++] = m.idx[k];
    ops[n++] = w->below ? ir_bin(&b, OP_SUB, w->step, ir_const_int(&b, w->step->type->dtype, 1)) : w->step;
    ops[n++] = ir_operand(i, 0);
    ops[n++] = all > 1 ? ir_emit(&b, OP_JOIN_TOKENS, tokens, all, NO_ATTRS, NULL) : tokens[0];
    Instr *wait = ir_build(&b, OP_ATOMIC_RMW, ops, n,
        ATTRS(a_int(ATTR_RMW, RMW_ADD), a_int(ATTR_SEM, SEM_ACQUIRE), a_int(ATTR_HAS_MASK, 1),
            a_int(ATTR_SEMAPHORE, semaphore)),
        NULL, 0);
    ir_mem_parts(wait, &m);
    for (int k = 0; k < all; k++) ir_replace(&i->results[k], m.token_out);
    ir_erase(i);
    return wait;
}

/* The wait of the `if` from which the store has its token: of the store's block, at or below a step. */
static bool waits(OrderedAdd *t, const Instr *store)
{
    MemParts m;
    Instr *cond = ir_mem_parts(store, &m) && m.token ? m.token->def : NULL;
    return cond && cond->block == store->block && ordered_wait_in(cond, &t->wait) && !t->wait.clear &&
           !t->wait.below;
}

/* Where an element lies: along each axis of the tensor a coordinate of the program, and how far from it. */
typedef struct OwnElement {
    int axis[TILE_MAX_RANK];
    int64_t apart[TILE_MAX_RANK];
} OwnElement;

/* The waits for a tensor of semaphores. */
typedef struct OwnWaits {
    const Func *f;
    int param;
    bool own, any;
    OwnElement element; /* that of the first one */
} OwnWaits;

static bool is_axis_of_one(const Func *f, int axis)
{
    int64_t n;
    return ir_is_const(ir_operand(ir_terminator(f->grid), axis), &n) && n == 1;
}

static Value *coordinate(Value *v, int64_t *apart)
{
    int64_t c;
    *apart = 0;
    for (const Instr *i = v->def; i && i->op != OP_PROGRAM_COORD; i = v->def) {
        if ((i->op == OP_ADD || i->op == OP_SUB) && ir_is_const(ir_operand(i, 1), &c))
            *apart += i->op == OP_ADD ? c : -c;
        else if (i->op != OP_CAST) return NULL;
        v = ir_operand(i, 0);
    }
    return v->def ? v : NULL;
}

/* Whether programs that differ have different elements: each axis of the grid gives one of the indices. */
static bool own_element(const Func *f, const MemParts *m, OwnElement *e)
{
    int seen = 0, axes = ir_terminator(f->grid)->n_operands;
    for (int k = 0; k < m->rank; k++) {
        const Value *v = coordinate(m->idx[k], &e->apart[k]);
        e->axis[k] = v ? (int)ir_attr_int(v->def, ATTR_AXIS, 0) : -1;
        if (v) seen |= 1 << e->axis[k];
        else e->apart[k] = 0;
    }
    for (int a = 0; a < axes; a++)
        if (!(seen >> a & 1) && !is_axis_of_one(f, a)) return false;
    return true;
}

static void visit_wait(void *user, Instr *i)
{
    OwnWaits *w = user;
    MemParts m;
    OwnElement e = { 0 };
    if (!ir_mem_parts(i, &m) || m.param != w->param) return;
    const int rmw = (int)ir_attr_int(i, ATTR_RMW, -1), sem = (int)ir_attr_int(i, ATTR_SEM, SEM_RELAXED);
    if (i->op == OP_ATOMIC_RMW && rmw == RMW_EXCH && sem == SEM_RELEASE) return;
    const bool waits = i->op == OP_ATOMIC_RMW && rmw == RMW_ADD && sem == SEM_ACQUIRE,
               clears = i->op == OP_ATOMIC_RMW && rmw == RMW_EXCH && sem == SEM_RELAXED;
    w->own &=
        (waits || clears) && own_element(w->f, &m, &e) && (!w->any || !memcmp(&w->element, &e, sizeof e));
    w->element = e;
    w->any = true;
}

bool ordered_waits_own(const Func *f, const Instr *wait)
{
    MemParts m;
    OwnWaits w = { .f = f, .own = ir_mem_parts(wait, &m) };
    if (!w.own) return false;
    w.param = m.param;
    ir_walk(f->body, visit_wait, &w);
    return w.own;
}

bool roles_order_adds(void *user)
{
    Roles *c = user;
    InstrList stores = { 0 };
    bool changed = false;
    if (kernel_skips(c->p, PASS_ORDERED_ADDS)) return false;
    ir_collect(&c->s->arena, kernel_consumers(c->f), OP_STORE, &stores);
    for (size_t k = 0; k < stores.len; k++) {
        Instr *store = stores.data[k], *loop = store->block->parent;
        OrderedAdd t = { 0 };
        if (!ir_adds(store) || !loop || loop->op != OP_FOR || !waits(&t, store) || !(t.pass = signals(store)))
            continue;
        if (!is_semaphore_of(&t, t.pass) || !alone(&t, store) || ir_any_in(c->f->body, reads_written, &t))
            continue;
        ordered_wait_alone(&t.wait, SEMAPHORE_OF_ADDITION);
        ir_set_attr(c->s, t.pass, a_int(ATTR_SEMAPHORE, SEMAPHORE_OF_ADDITION));
        changed = true;
    }
    return changed;
}
