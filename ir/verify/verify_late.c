/* verify_late.c: bulk stores that leave their boxes in buffers (`late`) and the bulk_flushes that send them
 * (verify.h). A late store is an addition in a `for`; a bulk_flush before it in the step sends what the step
 * before has left, and the instruction behind the loop sends what the last step has. Also bulk stores that
 * are handed to writer warps (`writer`): additions of the consumers, of tiles of one type to one tensor along
 * the same axes, beside a producer whose warpgroup has the warps. Neither stands in a program with an atomic
 * that orders memory, since its release waits only for what its own warps have sent. And barriers in two
 * halves (`half`), which only consumers have. An ordered addition goes to the writer with its semaphores;
 * only beside it can the writer wait for others and signal others. */
#include "ir/verify/verify.h"

static bool leaves_late(const Instr *i) { return i->op == OP_STORE && ir_attr_int(i, ATTR_LATE, 0) != 0; }

static bool has_late(const Block *b)
{
    const Instr *i = b->first;
    while (i && !leaves_late(i)) i = i->next;
    return i != NULL;
}

static bool is_writer(const Instr *i) { return i->op == OP_STORE && ir_attr_int(i, ATTR_WRITER, 0) != 0; }

/* A store for writer warps whose boxes differ from those of `store`. */
static bool is_other_writer(const void *store, const Instr *i)
{
    MemParts a, b;
    if (!is_writer(i) || !ir_mem_parts(i, &a) || !ir_mem_parts(store, &b)) return false;
    const Attr *x = ir_attr(i, ATTR_EXTENTS), *y = ir_attr(store, ATTR_EXTENTS);
    return a.param != b.param || a.values[0]->type != b.values[0]->type ||
           memcmp(x->v, y->v, sizeof *x->v * (size_t)x->n) != 0;
}

/* The roles of whose consumers it is a part; NULL: it is in no consumers. */
static const Instr *roles_of_consumer(const Instr *i)
{
    const Block *b = i->block;
    while (b->parent && b->parent->op != OP_ROLES && b->parent->op != OP_CP_ASYNC_ROLES) b = b->parent->block;
    return b->parent && b == b->parent->blocks[1] ? b->parent : NULL;
}

static bool is_other_half(const void *half, const Instr *i)
{
    int64_t own = i->op == OP_BARRIER ? ir_attr_int(i, ATTR_HALF, 0) : 0;
    return own && own != ir_attr_int(half, ATTR_HALF, 0);
}

static void check_half(Verifier *v, Instr *i)
{
    BREACH_IF(!roles_of_consumer(i), i, "only consumers have a barrier in two halves");
    BREACH_IF(!ir_any_in(v->func->body, is_other_half, i), i,
        "a half of a barrier needs the other one: arrivals and waits for them");
}

static bool is_ordered_writer(const void *semaphores, const Instr *i)
{
    const Instr *wait = is_writer(i) ? ir_semaphore_wait(i) : NULL;
    return wait && ir_operand(wait, 0) == semaphores;
}

static void check_alone(Verifier *v, Instr *i)
{
    BREACH_IF(!ir_attr(i, ATTR_WRITER) || !ir_any_in(v->func->body, is_ordered_writer, ir_operand(i, 0)), i,
        "a semaphore that orders no addition is accessed by writer warps that add in its order");
}

static void check_writer(Verifier *v, Instr *i)
{
    BREACH_IF(!ir_adds(i) || !ir_attr_int(i, ATTR_BULK, 0) || ir_attr_int(i, ATTR_LATE, 0), i,
        "a store that is handed to writer warps is an addition in bulk that leaves at once");
    const Instr *roles = roles_of_consumer(i);
    BREACH_IF(!roles || roles->op != OP_ROLES, i,
        "a store is handed to writer warps by consumers, where the producer's warpgroup has warps to spare");
    BREACH_IF(ir_any_in(v->func->body, is_other_writer, i), i,
        "writer warps take tiles of one type only, for one tensor, along the same axes");
}

static void check(void *user, Instr *i)
{
    Verifier *v = user;
    bool ordered = is_writer(i) && ir_semaphore_wait(i) && ir_semaphore_signal(i);
    BREACH_IF((leaves_late(i) || (is_writer(i) && !ordered)) && ir_orders_memory(v->func), i,
        "beside an atomic that orders memory, no addition is late, or handed to writer warps without "
        "its order");
    BREACH_IF(ordered && (!ir_attr(ir_semaphore_wait(i), ATTR_WRITER) ||
                             !ir_attr(ir_semaphore_signal(i), ATTR_WRITER)),
        i, "an addition is handed to writer warps, and the atomics that order it are not");
    if (is_writer(i)) check_writer(v, i);
    if (ir_attr_int(i, ATTR_SEMAPHORE, 0) == SEMAPHORE_OF_NONE) check_alone(v, i);
    if (i->op == OP_BARRIER && ir_attr(i, ATTR_HALF)) check_half(v, i);
    if (i->op == OP_BULK_FLUSH) {
        bool behind = i->prev && i->prev->op == OP_FOR;
        BREACH_IF(
            !has_late(behind ? i->prev->blocks[0] : i->block), i, "no late store leaves anything to send");
    }
    if (!leaves_late(i)) return;
    const Instr *loop = i->block->parent, *f = i->prev;
    BREACH_IF(!ir_adds(i) || !ir_attr_int(i, ATTR_BULK, 0), i, "a late store is an addition in bulk");
    BREACH_IF(!loop || loop->op != OP_FOR, i, "a late store stands in a for loop");
    while (f && f->op != OP_BULK_FLUSH) f = f->prev;
    BREACH_IF(!f || (f->prev && f->prev->op == OP_FOR), i,
        "no bulk_flush empties the buffers before this late store");
    BREACH_IF(!loop->next || loop->next->op != OP_BULK_FLUSH, i,
        "no bulk_flush behind the loop sends the last step's boxes");
}

void verify_late(Verifier *v) { ir_walk(v->func->body, check, v); }
