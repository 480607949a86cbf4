/* ordered_ends.c: what a program does with its semaphores beside its additions, handed to the writer warps
 * that add in order (bulk-store).
 *
 *   %t = if %c { while atomic_rmw S[before] = 0 token .. {add, acquire} < LAST {}; atomic_rmw S[before] = 0 }
 *   atomic_rmw S[own] = %last token .. {exch, release}
 *
 * becomes
 *
 *   %t = atomic_rmw S[before] = LAST - 1 masked %c token .. {add, acquire, semaphore = 2, writer = 1}
 *   atomic_rmw S[own] = %last token .. {exch, release, semaphore = 2, writer = 1}
 *
 * The first one waits until the element is above LAST - 1 and sets it to 0. So a program's end, which waits
 * until memory has its sums and the program before has ended, runs beside the next program's first steps. A
 * signal without a wait (pass_steps) is handed on as well, and no longer waits until memory has what the
 * program before stored.
 *
 * Requires: writers that do all additions in order of these semaphores; no other access to the semaphores, no
 * other atomic with acquire or release; no access to memory behind an end, which might count on it. Keeps:
 * the order of additions. Semaphores promise nothing of other stores, since nothing that is written may be
 * read (ordered_adds.c). */
#include "passes/kernel/warp_specialization/ordered_adds.h"

/* The semaphores of a kernel, and what is to be handed on. */
typedef struct OrderedEnds {
    Arena *arena;
    int param;
    bool all; /* everything that is done with them can be the writers' */
    InstrList waits, signals;
} OrderedEnds;

static bool is_semaphore_of(const void *ends, const Instr *i)
{
    MemParts m;
    return ir_mem_parts(i, &m) && m.param == ((const OrderedEnds *)ends)->param;
}

static bool is_other_access(const void *ends, const Instr *i)
{
    MemParts m;
    return i->op == OP_BULK_FLUSH || (ir_mem_parts(i, &m) && m.param != ((const OrderedEnds *)ends)->param);
}

static bool holds_access(const OrderedEnds *x, const Instr *i)
{
    bool found = is_other_access(x, i);
    for (int k = 0; k < i->n_blocks; k++) found |= ir_any_in(i->blocks[k], is_other_access, x);
    return found;
}

/* Whether the program accesses nothing but the semaphores behind the instruction. */
static bool is_at_end(const OrderedEnds *x, const Instr *i)
{
    for (; i; i = i->block->parent) {
        for (const Instr *behind = i->next; behind; behind = behind->next)
            if (holds_access(x, behind)) return false;
        const Instr *around = i->block->parent;
        if (around && kernel_is_roles(around->op)) return true;
        if (around && !ir_over_programs(around)) return false;
    }
    return true;
}

static bool is_signal(const Instr *i)
{
    MemParts m;
    return ordered_is_atomic(i, RMW_EXCH, SEM_RELEASE) && ir_mem_parts(i, &m) && m.result &&
           !m.result->uses && m.result->type->kind == TYPE_SCALAR;
}

/* Whether the next access to the semaphores in the block is a signal. */
static bool signals_next(const OrderedEnds *x, const Instr *cond)
{
    const Instr *i = cond->next;
    while (i && !is_semaphore_of(x, i)) i = i->next;
    return i && is_signal(i);
}

/* Whether the `if` around a wait is an end that can be handed on. */
static bool is_end(const OrderedEnds *x, Instr *cond)
{
    OrderedWait w;
    MemParts m;
    return cond && ordered_wait_in(cond, &w) && w.clear && ir_mem_parts(w.atomic, &m) &&
           m.param == x->param && signals_next(x, cond) && is_at_end(x, cond);
}

/* The `if` around the atomic, or around its loop; NULL: there is none. */
static Instr *condition_around(const Instr *i)
{
    Instr *around = i->block->parent;
    if (around && around->op == OP_WHILE) around = around->block->parent;
    return around && around->op == OP_IF ? around : NULL;
}

static void visit(void *user, Instr *i)
{
    OrderedEnds *x = user;
    if (!is_semaphore_of(x, i)) {
        x->all &= !ir_orders(i);
        return;
    }
    Instr *cond = condition_around(i);
    if (ir_is_semaphore(i)) x->all &= ir_attr_int(i, ATTR_WRITER, 0) != 0;
    else if (is_signal(i)) vec_push(x->arena, &x->signals, i);
    else if (!is_end(x, cond)) x->all = false;
    else if (ir_orders(i)) vec_push(x->arena, &x->waits, cond);
}

static void find_wait(void *wait, Instr *i)
{
    if (ir_is_semaphore(i) && ir_attr(i, ATTR_WRITER)) *(Instr **)wait = i;
}

bool kernel_hand_ends(Session *s, Func *f)
{
    Block *consumers = kernel_consumers(f);
    Instr *wait = NULL;
    MemParts m;
    if (consumers) ir_walk(consumers, find_wait, &wait);
    if (!wait || !ir_mem_parts(wait, &m)) return false;
    OrderedEnds x = { .arena = &s->arena, .param = m.param, .all = true };
    ir_walk(f->body, visit, &x);
    if (!x.all) return false;
    for (size_t k = 0; k < x.waits.len; k++) {
        OrderedWait w;
        ordered_wait_in(x.waits.data[k], &w);
        ir_set_attr(s, ordered_wait_alone(&w, SEMAPHORE_OF_NONE), a_int(ATTR_WRITER, 1));
    }
    for (size_t k = 0; k < x.signals.len; k++) {
        ir_set_attr(s, x.signals.data[k], a_int(ATTR_SEMAPHORE, SEMAPHORE_OF_NONE));
        ir_set_attr(s, x.signals.data[k], a_int(ATTR_WRITER, 1));
    }
    return x.waits.len + x.signals.len > 0;
}
