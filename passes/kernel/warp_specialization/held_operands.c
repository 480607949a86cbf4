/* held-operands: a step of warp-specialization: a left operand that all steps of a loop read from the same
 * stage is read once, in front of the loop, and stays in registers.
 *
 *   %k = ring_get %K_ring; for i { %q = ring_get %Q_ring; %s = mma_sync %k, %q, %c }
 *
 * becomes
 *
 *   %k = ring_get %K_ring; %r = shared_read %k; for i { %q = ring_get %Q_ring; %s = mma_sync %r, %q, %c }
 *
 * wgmma reads an operand of shared memory anew in each step. Where the steps of a loop move more bytes
 * through shared memory than it takes while the matrix unit multiplies, shared memory is what they wait for.
 *
 * Requires: 16-bit elements; a stage that is taken outside of the loop; a loop whose steps write operands of
 * products (staged-operands) and are bound by shared memory; registers beside those that the products hold.
 * Keeps: everything. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* SHARED_BYTES, MULTIPLICATIONS: what a multiprocessor moves and multiplies, of 16-bit elements, in a clock.
 * ROOM: registers of a thread for addresses, counters and what a step computes beside its products. */
enum { SHARED_BYTES = 128, MULTIPLICATIONS = 2048, ROOM = 24 };

typedef struct Held {
    Roles *c;
    Value **read; /* by product: the tile in registers; NULL: none */
    int left;     /* registers of a thread that are left */
} Held;

static int64_t bytes_of(const Type *t) { return type_elements(t) * dtype_bytes(t->dtype); }

/* The bytes that a product's warpgroups read from shared memory. Each has whole blocks of 64 rows, for each
 * of which it reads the right operand, or, where there are fewer blocks, some columns of all rows. */
static int64_t bytes_read(const Roles *c, const Instr *product)
{
    const Type *a = ir_operand(product, 0)->type, *b = ir_operand(product, 1)->type;
    int64_t blocks = ir_result(product)->type->shape[0] / 64, consumers = c->p->warps / 4;
    bool columns = blocks < consumers;
    return bytes_of(b) * (columns ? 1 : blocks) +
           (a->kind == TYPE_TILE ? 0 : bytes_of(a) * (columns ? consumers : 1));
}

static int64_t multiplications(const Instr *product)
{ return type_elements(ir_result(product)->type) * ir_operand(product, 1)->type->shape[0]; }

/* Whether a step that writes operands of products waits for shared memory rather than for the matrix unit.
 * Stages are filled once, and what is added to memory in boxes is written and read. */
static bool shared_bounds(const Roles *c, const Block *body)
{
    int64_t bytes = 0, work = 0;
    bool writes = false;
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op == OP_MMA_SYNC) bytes += bytes_read(c, i), work += multiplications(i);
        else if (i->op == OP_RING_GET) bytes += bytes_of(ir_result(i)->type);
        else if (i->op == OP_SHARED_WRITE) bytes += bytes_of(ir_operand(i, 1)->type), writes = true;
        else if (ir_adds(i)) bytes += 2 * bytes_of(ir_operand(i, 1)->type);
    }
    return writes && bytes / SHARED_BYTES > work / MULTIPLICATIONS;
}

static bool is_held(const Held *h, const Instr *product)
{
    const Value *a = ir_operand(product, 0);
    const Instr *loop = product->block->parent;
    return a->type->kind == TYPE_SHARED && a->def && a->def->op == OP_RING_GET &&
           dtype_bytes(a->type->dtype) == 2 && loop && loop->op == OP_FOR && !ir_over_programs(loop) &&
           ir_defined_outside(a, product->block) && shared_bounds(h->c, product->block);
}

static Value *read_before(const Held *h, size_t at, const Value *stage)
{
    for (size_t k = 0; k < at; k++)
        if (h->read[k] && ir_operand(h->read[k]->def, 0) == stage) return h->read[k];
    return NULL;
}

static bool hold(Held *h, size_t at)
{
    Instr *product = h->c->products.data[at];
    if (!is_held(h, product)) return false;
    Value *stage = ir_operand(product, 0), *read = read_before(h, at, stage);
    int words = (int)(bytes_of(stage->type) / 4 / (32 * h->c->p->warps));
    if (!read && words > h->left) return false;
    if (!read) {
        const Type *t = stage->type;
        Builder b = ir_after(stage->def);
        h->left -= words;
        read =
            ir_emit(&b, OP_SHARED_READ, &stage, 1, NO_ATTRS, type_tile(h->c->s, t->dtype, t->rank, t->shape));
        read->name = stage->name;
    }
    h->read[at] = read;
    ir_set_operand(product, 0, read);
    return true;
}

bool roles_hold_operands(void *user)
{
    Roles *c = user;
    size_t n = c->products.len;
    Held h = { c, arena_array(&c->s->arena, Value *, n),
        c->p->consumer_registers - ROOM - roles_words_held(c) };
    bool changed = false;
    if (kernel_skips(c->p, PASS_HELD_OPERANDS)) return false;
    for (size_t k = 0; k < n; k++) changed |= hold(&h, k);
    return changed;
}
