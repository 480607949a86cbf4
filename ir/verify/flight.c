/* flight.c: products in flight. The result of a wgmma is undefined until a wgmma_wait hands it on: until then
 * it may only be added to by another wgmma, and be carried, by loops and out of ifs, where the same holds.
 * A value that a loop carries counts as in flight if it is in flight in any iteration.
 *
 * A left operand in registers is read until then, too. ptxas keeps other values out of these registers as
 * long as the program's own text does not write them; but what a loop carries from one iteration to the next
 * shares its registers with the value that the next iteration gets. So that next value must be computed
 * behind the wait; moving it there is not enough. What has the same value elsewhere counts as well, since
 * vendors' compilers compute equal values once, at the earlier place. */
#include "ir/ir.h"

typedef struct Flight {
    Arena *arena;
    bool *flies;
    ValueList todo;
} Flight;

static void fly(Flight *f, Value *v)
{
    if (f->flies[v->id]) return;
    f->flies[v->id] = true;
    vec_push(f->arena, &f->todo, v);
}

static void begin(void *user, Instr *i)
{
    if (i->op == OP_WGMMA) fly(user, ir_result(i));
}

/* Carried on by a terminator. */
static bool carry(Flight *f, const Instr *end, int k)
{
    const Instr *i = end->block->parent;
    if (!i || (end->op == OP_CONDITION && k == 0)) return false;
    if (op_family(i->op) != OPS_CONTROL) return false;
    switch (op_as_control(i->op)) {
    case CONTROL_FOR:
        fly(f, i->blocks[0]->args[k + 1]);
        fly(f, (Value *)&i->results[k]);
        return true;
    case CONTROL_IF: fly(f, (Value *)&i->results[k]); return true;
    case CONTROL_WHILE:
        if (end->op == OP_YIELD) {
            fly(f, i->blocks[0]->args[k]);
            return true;
        }
        fly(f, i->blocks[1]->args[k - 1]);
        fly(f, (Value *)&i->results[k - 1]);
        return true;
    }
    return false;
}

static bool may_use(Flight *f, const Instr *i, int k)
{
    if (i->op == OP_WGMMA_WAIT) return true;
    return i->op == OP_WGMMA ? k == 2 : i->op == OP_YIELD || i->op == OP_CONDITION ? carry(f, i, k) : false;
}

const Instr *ir_flight_fault(Session *s, const Func *func, int *operand)
{
    if (!ir_holds(func->body, OP_WGMMA)) return NULL;
    Flight f = { .arena = &s->arena, .flies = arena_array(&s->arena, bool, func->module->next_id) };
    ir_walk(func->body, begin, &f);
    while (f.todo.len) {
        const Value *v = f.todo.data[--f.todo.len];
        for (const Use *u = v->uses; u; u = u->next) {
            *operand = (int)(u - u->user->operands);
            if (!may_use(&f, u->user, *operand)) return u->user;
        }
    }
    return NULL;
}

typedef struct Fault {
    Arena *arena;
    const Func *func;
    uint32_t n; /* values */
    const Instr *at;
} Fault;

/* Marks what the product's sum flows through, and lists the waits that hand it on. */
typedef struct Waits {
    Flight f;
    InstrList list;
} Waits;

static bool find_waits(Waits *w, const Instr *product)
{
    fly(&w->f, ir_result(product));
    while (w->f.todo.len) {
        const Value *v = w->f.todo.data[--w->f.todo.len];
        for (const Use *u = v->uses; u; u = u->next) {
            if (!may_use(&w->f, u->user, (int)(u - u->user->operands))) return false;
            if (u->user->op == OP_WGMMA_WAIT) vec_push(w->f.arena, &w->list, u->user);
            if (u->user->op == OP_WGMMA) fly(&w->f, ir_result(u->user));
        }
    }
    return true;
}

static bool comes_before(const Instr *first, const Instr *second)
{
    const Instr *i = second ? first->next : NULL;
    while (i && i != second) i = i->next;
    return i;
}

/* Whether x, an operation of the block where the product is issued or waited for, stands apart from both. */
static bool apart(const Instr *x, const Instr *issue, const Instr *wait)
{
    if (!wait || x == wait || x == issue) return false;
    if (!issue) return comes_before(wait, x);
    if (issue == wait) return true;
    return comes_before(issue, wait) ? !(comes_before(issue, x) && comes_before(x, wait))
                                     : comes_before(wait, x) && comes_before(x, issue);
}

/* Whether `d`, which computes what the product's operand is in another iteration, never runs between the
 * product's issue and its wait: the wait follows the issue in a block where d is not, or both stand apart
 * from what holds d. */
static bool written_apart(const Waits *w, Instr *product, Instr *d)
{
    for (size_t k = 0; k < w->list.len; k++) {
        Instr *wait = w->list.data[k];
        if (comes_before(product, ir_within(product->block, wait)) && !ir_within(product->block, d))
            return true;
        for (const Instr *x = d; x; x = x->block->parent)
            if (apart(x, ir_within(x->block, product), ir_within(x->block, wait))) return true;
    }
    return false;
}

/* The value that the argument of a loop's block gets from another iteration; NULL: from none. */
static Value *from_iteration(const Value *arg)
{
    const Block *b = arg->block;
    const Instr *loop = b->parent;
    int k = 0;
    while (k < b->n_args && b->args[k] != arg) k++;
    if (!loop || k == b->n_args) return NULL;
    if (loop->op == OP_FOR) return k ? ir_operand(ir_terminator(b), k - 1) : NULL;
    if (loop->op != OP_WHILE) return NULL;
    bool head = b == loop->blocks[0];
    return ir_operand(ir_terminator(loop->blocks[head]), k + !head);
}

/* Where the value of an operand comes from: through loops, ifs and what only names registers anew. */
typedef struct Sources {
    Arena *arena;
    bool *seen, carried;
    ValueList todo;
    InstrList computed; /* the first `own` by themselves, the others as their equals */
    size_t own;
} Sources;

static void add_source(Sources *s, Value *v)
{
    if (!v || s->seen[v->id]) return;
    s->seen[v->id] = true;
    vec_push(s->arena, &s->todo, v);
}

static void add_ends(Sources *s, const Instr *d, int k)
{
    if (d->op == OP_FOR) add_source(s, ir_operand(d, k + 3));
    if (d->op == OP_WHILE) add_source(s, ir_operand(d, k));
    int skip = d->op == OP_WHILE;
    for (int b = 0; b < (d->op == OP_IF ? 2 : 1); b++)
        add_source(s, ir_operand(ir_terminator(d->blocks[b]), k + skip));
}

static void look_back(Sources *s, Value *v)
{
    Instr *d = v->def;
    if (!d) {
        Value *from = from_iteration(v);
        s->carried |= from != NULL;
        add_source(s, from);
    } else if (d->op == OP_FOR || d->op == OP_WHILE || d->op == OP_IF) add_ends(s, d, (int)(v - d->results));
    else if (d->op == OP_RESHAPE || (d->op == OP_OPAQUE && !ir_attr_int(d, ATTR_ANEW, 0)))
        add_source(s, ir_operand(d, 0));
    else vec_push(s->arena, &s->computed, d);
}

/* Adds what computes the same value as one of those listed. */
static void add_equal(void *user, Instr *i)
{
    Sources *s = user;
    for (size_t k = 0; k < s->own; k++) {
        Instr *d = s->computed.data[k];
        for (int r = 0; i != d && i->op == d->op && r < d->n_results; r++)
            if (ir_same_value(&i->results[r], &d->results[r])) {
                vec_push(s->arena, &s->computed, i);
                return;
            }
    }
}

static void check_operand(void *user, Instr *i)
{
    Fault *x = user;
    if (x->at || i->op != OP_WGMMA || ir_operand(i, 0)->type->kind != TYPE_TILE) return;
    Sources s = { .arena = x->arena, .seen = arena_array(x->arena, bool, x->n) };
    add_source(&s, ir_operand(i, 0));
    while (s.todo.len) look_back(&s, s.todo.data[--s.todo.len]);
    if (!s.carried) return;
    s.own = s.computed.len;
    ir_walk((Block *)x->func->body, add_equal, &s);
    Waits w = { .f = { .arena = x->arena, .flies = arena_array(x->arena, bool, x->n) } };
    if (!find_waits(&w, i)) return; /* ir_flight_fault says where */
    for (size_t k = 0; k < s.computed.len; k++)
        if (!written_apart(&w, i, s.computed.data[k])) x->at = i;
}

const Instr *ir_operand_fault(Session *s, const Func *func)
{
    Fault x = { .arena = &s->arena, .func = func, .n = func->module->next_id };
    if (ir_holds(func->body, OP_WGMMA)) ir_walk(func->body, check_operand, &x);
    return x.at;
}
