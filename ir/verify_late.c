/* verify_late.c: bulk stores that leave their boxes in buffers (`late`) and the bulk_flushes that send them
 * (verify.h). A late store is an addition in a `for`; a bulk_flush before it in the step sends what the step
 * before has left, and the instruction behind the loop sends what the last step has. Also bulk stores that
 * are handed to writer warps (`writer`): an addition of the consumers in a `for`, the kernel's only one,
 * whose warps the producer's warpgroup has. */
#include "ir/verify.h"

static bool leaves_late(const Instr *i) { return i->op == OP_STORE && ir_attr_int(i, ATTR_LATE, 0) != 0; }

static bool has_late(const Block *b)
{
    const Instr *i = b->first;
    while (i && !leaves_late(i)) i = i->next;
    return i != NULL;
}

static bool is_writer(const void *store, const Instr *i)
{ return i != store && i->op == OP_STORE && ir_attr_int(i, ATTR_WRITER, 0) != 0; }

/* Whether it is in the consumers of a kernel whose other roles are one producer thread. */
static bool beside_producer(const Instr *i)
{
    const Block *b = i->block;
    while (b->parent && b->parent->op != OP_ROLES) b = b->parent->block;
    return b->parent && b == b->parent->blocks[1];
}

static void check_writer(Verifier *v, Instr *i)
{
    const Instr *loop = i->block->parent;
    BREACH_IF(!ir_adds(i) || !ir_attr_int(i, ATTR_BULK, 0) || ir_attr_int(i, ATTR_LATE, 0), i,
        "a store that is handed to writer warps is an addition in bulk that leaves at once");
    BREACH_IF(!loop || loop->op != OP_FOR, i, "a store that is handed to writer warps stands in a for loop");
    BREACH_IF(!beside_producer(i), i,
        "a store is handed to writer warps by consumers, where the producer's warpgroup has warps to spare");
    BREACH_IF(ir_any_in(v->func->body, is_writer, i), i, "writer warps take the boxes of one store only");
}

static void check(void *user, Instr *i)
{
    Verifier *v = user;
    if (is_writer(NULL, i)) check_writer(v, i);
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
