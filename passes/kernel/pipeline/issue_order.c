/* issue_order.c: of software-pipelining: the order of products within a loop's body. Products are issued
 * as soon as their operands are there, and waited for where they are needed.
 *
 *   s = wgmma; wait s; p = f(s); o = wgmma p; wait o; t = wgmma; wait t; d = g(p, t); r = wgmma d; wait r
 *
 * becomes
 *
 *   s = wgmma; t = wgmma; wait s (1); p = f(s); o = wgmma p; wait t (1); d = g(p, t); r = wgmma d;
 *   wait o (1); wait r (0)
 *
 * kernel_join_sums removes the wait between products that add to each other, since products of one
 * accumulator follow each other on the matrix unit. kernel_issue_first moves products that need no result
 * of the same step to the front. kernel_interleave puts the whole body into the order above (attention's
 * gradients, or two attentions at once), where rotation (rotate.c), which carries a whole step's values,
 * does not have the registers.
 *
 * A release comes after the waits for all products that read its stage. A product that reads what the step
 * has written to shared memory stays behind the write and its barrier. Bodies that write memory in another
 * way than by additions, and by the semaphores that order these, keep their order. */
#include "passes/kernel/pipeline/software_pipelining.h"

typedef struct Order {
    Overlap *c;
    Block *body;
    InstrList all, out;
    bool *done, *free, *known;
} Order; /* by place in the body */

static Instr *product_of(const Instr *wait)
{
    const Value *v = wait->n_operands == 1 ? ir_operand(wait, 0) : NULL;
    return v && v->def && v->def->op == OP_WGMMA ? v->def : NULL;
}

/* The wait for a product, or for the last of those that add to its sum. */
static Instr *wait_for(const Instr *product)
{
    const Use *u = ir_result(product)->uses;
    if (!u || u->next) return NULL;
    if (u->user->op == OP_WGMMA && u == &u->user->operands[2]) return wait_for(u->user);
    return u->user->op == OP_WGMMA_WAIT && product_of(u->user) == product ? u->user : NULL;
}

/* What a step writes to shared memory, and the barrier behind it, keep their order among themselves. */
static bool anchored(const Instr *i) { return i->op == OP_SHARED_WRITE || i->op == OP_BARRIER; }

bool kernel_writes_shared(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_SHARED_WRITE;
}

/* Whether a product reads what the step itself has written (staged-operands). */
bool kernel_reads_written(const Instr *i)
{
    for (int k = 0; k < 2 && i->op == OP_WGMMA; k++) {
        const Value *v = ir_operand(i, k);
        while (v->def && (v->def->op == OP_SHARED_TRANSPOSE || v->def->op == OP_SHARED_SLICE))
            v = ir_operand(v->def, 0);
        if (v->def && v->def->op == OP_SHARED_STAGE) return true;
    }
    return false;
}

static bool movable(const Instr *i)
{
    if (i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_NEXT_PROGRAM || i->op == OP_RING_PUT ||
        i->op == OP_RING_CP_ASYNC)
        return false;
    if ((op_info[i->op].flags & (OPF_WRITE | OPF_BARRIER)) && i->op != OP_RING_GET &&
        i->op != OP_RING_RELEASE && i->op != OP_WGMMA && i->op != OP_WGMMA_WAIT &&
        i->op != OP_WARPGROUP_ANY && !anchored(i) && !ir_adds(i) && !ir_is_semaphore(i))
        return false;
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next)
            if (!(op_info[x->op].flags & OPF_TERM) &&
                (!movable(x) || anchored(x) || ir_adds(x) || x->op == OP_RING_GET ||
                    x->op == OP_RING_RELEASE || x->op == OP_WGMMA || x->op == OP_WGMMA_WAIT))
                return false;
    return true;
}

static bool begin(Order *o, Overlap *c, Block *body)
{
    *o = (Order){ .c = c, .body = body };
    for (Instr *i = body->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_TERM) break;
        if (!movable(i) || (i->op == OP_WGMMA && !wait_for(i)) || (i->op == OP_WGMMA_WAIT && !product_of(i)))
            return false;
        if (i->op == OP_RING_GET && kernel_gets_of(body, ir_operand(i, 0)) > ir_operand(i, 0)->type->shape[0])
            return false; /* all held at once */
        i->mark = (uint32_t)o->all.len;
        vec_push(&c->s->arena, &o->all, i);
    }
    o->done = arena_array(&c->s->arena, bool, o->all.len + 1);
    o->free = arena_array(&c->s->arena, bool, o->all.len + 1);
    o->known = arena_array(&c->s->arena, bool, o->all.len + 1);
    return true;
}

static void place(Order *o, Instr *i);

static bool needs_wait(Order *o, const Instr *i);

static bool is_vector_read(const Instr *i)
{ return i->op == OP_SHARED_READ && i->results[0].type->rank == 1; }

static bool holds_load(const Order *o, const Instr *i)
{
    bool found = (i->op == OP_LOAD && i->results[0].type->kind == TYPE_TILE) || is_vector_read(i);
    for (int k = 0; k < i->n_operands && !found; k++) {
        const Instr *d = ir_operand(i, k)->def;
        found = d && d->block == o->body && !o->done[d->mark] && holds_load(o, d);
    }
    return found;
}

/* Operands that come from memory are loaded before a wait for the others. */
static void place_loads(Order *o, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        Instr *d = ir_operand(i, k)->def;
        if (!d || d->block != o->body || o->done[d->mark]) continue;
        if (needs_wait(o, d)) place_loads(o, d);
        else if (holds_load(o, d)) place(o, d);
    }
}

static void place_operands(Order *o, const Instr *i)
{
    place_loads(o, i);
    for (int k = 0; k < i->n_operands; k++) {
        Instr *d = ir_operand(i, k)->def;
        if (d && d->block == o->body) place(o, d);
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) place_operands(o, x);
}

/* Whether all operations that read a stage, or a part of it, are complete, including products that were
 * waited for. */
static bool readers_done(const Order *o, const Value *stage)
{
    for (const Use *u = stage->uses; u; u = u->next) {
        const Instr *user = u->user;
        while (user->block != o->body && user->block->parent) user = user->block->parent;
        if (user->block != o->body) return false;
        const Instr *last = user->op == OP_WGMMA ? wait_for(user) : user;
        if (!o->done[last->mark]) return false;
        for (int k = 0; k < user->n_results; k++)
            if (user->results[k].type->kind == TYPE_SHARED && !readers_done(o, &user->results[k]))
                return false;
    }
    return true;
}

static bool free_to_release(const Order *o, const Instr *release)
{
    for (size_t k = 0; k < o->all.len; k++) {
        const Instr *get = o->all.data[k];
        if (get->op == OP_RING_GET && ir_operand(get, 0) == ir_operand(release, 0) &&
            !readers_done(o, ir_result(get)))
            return false;
    }
    return true;
}

static void place(Order *o, Instr *i)
{
    if (o->done[i->mark]) return;
    place_operands(o, i);
    /* Stages must be taken in the order of the program. */
    for (uint32_t k = 0; i->op == OP_RING_GET && k < i->mark; k++) {
        Instr *get = o->all.data[k];
        if (get->op == OP_RING_GET && ir_operand(get, 0) == ir_operand(i, 0)) place(o, get);
    }
    bool behind = anchored(i) || kernel_reads_written(i);
    for (uint32_t k = 0; behind && k < i->mark; k++)
        if (anchored(o->all.data[k])) place(o, o->all.data[k]);
    o->done[i->mark] = true;
    vec_push(&o->c->s->arena, &o->out, i);
    if (i->op != OP_WGMMA_WAIT) return;
    for (size_t k = 0; k < o->all.len; k++) {
        Instr *r = o->all.data[k];
        if (r->op != OP_RING_RELEASE || o->done[k] || !free_to_release(o, r)) continue;
        o->done[k] = true;
        vec_push(&o->c->s->arena, &o->out, r);
    }
}

static bool operands_need_wait(Order *o, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = ir_operand(i, k)->def;
        if (d && d->block == o->body && needs_wait(o, d)) return true;
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next)
            if (operands_need_wait(o, x)) return true;
    return false;
}

static bool needs_wait(Order *o, const Instr *i)
{
    if (i->op == OP_WGMMA_WAIT || kernel_reads_written(i)) return true;
    if (!o->known[i->mark]) {
        o->free[i->mark] = !operands_need_wait(o, i);
        o->known[i->mark] = true;
    }
    return !o->free[i->mark];
}

/* Adds the remaining instructions in their order, and puts the block in the new order. */
static void finish(Order *o)
{
    for (size_t k = 0; k < o->all.len; k++) place(o, o->all.data[k]);
    for (size_t k = 0; k < o->out.len; k++) ir_unlink(o->out.data[k]);
    Builder b = ir_before(o->body->first);
    for (size_t k = 0; k < o->out.len; k++) ir_place(&b, o->out.data[k]);
}

/* Computes the products that are still in flight after each wait. */
void kernel_set_depths(Overlap *c, Block *body)
{
    for (Instr *w = body->first; w; w = w->next) {
        if (w->op != OP_WGMMA_WAIT) continue;
        int behind = 0;
        for (const Instr *i = product_of(w)->next; i && i != w; i = i->next) behind += i->op == OP_WGMMA;
        ir_set_attr(c->s, w, a_int(ATTR_DEPTH, behind));
    }
}

void kernel_join_sums(Block *body)
{
    for (Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_WGMMA) continue;
        Value *sum = ir_operand(i, 2);
        Instr *w = sum->def, *end = w ? wait_for(i) : NULL;
        if (!end || w->op != OP_WGMMA_WAIT || w->block != body || end->block != body || !product_of(w) ||
            ir_use_count(sum) != 1)
            continue;
        ir_set_operand(i, 2, ir_operand(w, 0));
        for (Instr *r = w->next, *next; r != i; r = next) {
            next = r->next;
            if (r->op != OP_RING_RELEASE) continue;
            Builder b = ir_after(end);
            ir_unlink(r);
            ir_place(&b, r);
        }
        ir_erase(w);
    }
}

static bool not_marked(void *body, Value *v) { return !v->def || v->def->block != body || !v->def->mark; }

/* Finds the products that need the result of another product of the same step. */
static int products_behind_waits(Block *body)
{
    int n = 0;
    for (Instr *i = body->first; i; i = i->next) i->mark = 0;
    for (Instr *i = body->first; i; i = i->next) {
        i->mark = i->op == OP_WGMMA_WAIT || !ir_all_operands(i, not_marked, body);
        n += i->op == OP_WGMMA && i->mark;
    }
    return n;
}

int kernel_issue_first(Overlap *c, Block *body)
{
    Order o;
    int later = products_behind_waits(body);
    bool waited = false, stands = true;
    for (const Instr *i = body->first; i; i = i->next) {
        waited |= i->op == OP_WGMMA_WAIT;
        stands &= i->op != OP_WGMMA || i->mark || !waited;
    }
    if (stands || !begin(&o, c, body)) return later;
    for (size_t k = 0; k < o.all.len; k++)
        if (o.all.data[k]->op == OP_WGMMA && !needs_wait(&o, o.all.data[k])) place(&o, o.all.data[k]);
    finish(&o);
    return later;
}

/* Places the vectors of rings that the value needs. Reads of shared memory are slow while products read their
 * operands there, so those for the arithmetic behind the first wait come before the products. Where products
 * fill the registers, a vector held that long would be spilled. */
static void place_vectors(Order *o, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        Instr *d = ir_operand(i, k)->def;
        if (!d || d->block != o->body || o->done[d->mark]) continue;
        if (is_vector_read(d)) place(o, d);
        else if (d->op != OP_WGMMA) place_vectors(o, d);
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) place_vectors(o, x);
}

static void place_first_vectors(Order *o)
{
    for (size_t k = 0; k < o->all.len; k++)
        if (o->all.data[k]->op == OP_WGMMA && needs_wait(o, o->all.data[k])) {
            place_vectors(o, o->all.data[k]);
            return;
        }
}

/* Places what the sums of products begin with before the first product: their registers must not be written
 * while products are in flight. */
static void place_first_sums(Order *o)
{
    for (size_t k = 0; k < o->all.len; k++) {
        Instr *i = o->all.data[k], *sum = i->op == OP_WGMMA ? ir_operand(i, 2)->def : NULL;
        if (sum && sum->block == o->body && sum->op != OP_WGMMA && !needs_wait(o, sum)) place(o, sum);
    }
}

/* Places what products of other warpgroups read before products that only add to what the step carries. These
 * would take the matrix unit from products that the write and other warpgroups wait for, and hold their
 * operands in registers beside the arithmetic of the write. */
static void place_writes(Order *o)
{
    for (size_t k = 0; k < o->all.len; k++)
        if (o->all.data[k]->op == OP_SHARED_WRITE) place(o, o->all.data[k]);
}

bool kernel_interleave(Overlap *c, Block *body)
{
    Order o;
    if (!begin(&o, c, body)) return false;
    place_first_sums(&o);
    if (!c->p->registers_full) place_first_vectors(&o);
    for (int early = 1; early >= 0; early--) {
        for (size_t k = 0; k < o.all.len; k++)
            if (o.all.data[k]->op == OP_WGMMA && (!early || !needs_wait(&o, o.all.data[k])))
                place(&o, o.all.data[k]);
        if (early) place_writes(&o);
    }
    finish(&o);
    kernel_set_depths(c, body);
    return true;
}
