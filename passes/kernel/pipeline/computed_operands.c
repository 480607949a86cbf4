/* computed_operands.c: of software-pipelining: overlaps products whose left operand is computed in
 * registers with that arithmetic.
 *
 *   a = f(x); p = wgmma a, u, acc; b = g(x); q = wgmma b, v, p; wait q; release u, v
 *
 * becomes
 *
 *   a = f(x); p = wgmma a, u, acc; wait (1); release the v of the step before
 *   b = g(opaque x); q = wgmma b, v, p; wait (1); release u
 *
 * and behind the loop: wait (0); release v
 *
 * A product is on the matrix unit while the operand of the next one is computed, also across steps.
 * Registers of a product in flight must not be written. Behind its own wait (1) only the last product is
 * in flight, and the operand that is computed next belongs to another one, so a step needs two products
 * (split_steps.c makes them of one). `opaque` keeps the C compiler from computing the operand before that
 * wait from what was read before. */
#include "passes/kernel/pipeline/software_pipelining.h"

typedef struct Chain {
    Overlap *c;
    Instr *loop, *wait;
    Block *body;
    InstrList *products;
    InstrList *done; /* by product: the releases of the stages that it is the last to read */
    InstrList *read; /* by product: those of the stages that are read to registers before it alone */
} Chain;

static int number_of(const Chain *h, const Instr *product)
{
    for (size_t k = 0; k < h->products->len; k++)
        if (h->products->data[k] == product) return (int)k;
    return -1;
}

/* Whether the products form one chain, in which each adds to the one before. */
static bool is_one_sum(Chain *h)
{
    size_t n = h->products->len;
    Instr *first = h->products->data[0], *last = h->products->data[n - 1];
    for (size_t k = 1; k < n; k++)
        if (ir_operand(h->products->data[k], 2) != ir_result(h->products->data[k - 1]) ||
            ir_use_count(ir_result(h->products->data[k - 1])) != 1)
            return false;
    const Use *u = ir_result(last)->uses;
    if (!u || u->next || u->user->op != OP_WGMMA_WAIT || u->user->n_operands != 1 ||
        u->user->block != h->body)
        return false;
    h->wait = u->user;
    return ir_operand(first, 2)->block == h->body && kernel_adds_to_carried(first, ir_result(h->wait));
}

static bool is_computed(const Chain *h, const Instr *product)
{
    const Value *a = ir_operand(product, 0);
    return a->type->kind == TYPE_TILE && !ir_defined_outside(a, h->body);
}

/* Checks that the left operands are computed here, each for one product, after the product before. */
static bool operands_fit(const Chain *h)
{
    bool any = false;
    uint32_t at = 0;
    for (Instr *i = h->body->first; i; i = i->next) i->mark = ++at;
    for (size_t k = 0; k < h->products->len; k++) {
        const Instr *p = h->products->data[k];
        const Value *a = ir_operand(p, 0);
        if (!is_computed(h, p)) continue;
        any = true;
        if (!a->def || a->def->block != h->body || ir_use_count(a) != 1) return false;
        if (k && a->def->mark < h->products->data[k - 1]->mark) return false;
    }
    return any;
}

/* The last product that reads the stage or a part of it; -1: an operation that is no product reads it too. */
static int last_reader_of(const Chain *h, const Value *stage)
{
    int last = -1;
    for (const Use *u = stage->uses; u; u = u->next) {
        int k = u->user->op == OP_WGMMA          ? number_of(h, u->user)
                : u->user->op == OP_SHARED_SLICE ? last_reader_of(h, ir_result(u->user))
                                                 : -1;
        if (k < 0) return -1;
        if (k > last) last = k;
    }
    return last;
}

static int last_reader(const Chain *h, const Instr *get) { return last_reader_of(h, ir_result(get)); }

/* Finds the product that is the last to read each stage, and whether rings have enough stages for those that
 * are held at a time. Stages are released in the order in which they were taken. */
static bool stages_fit(Chain *h)
{
    int n = (int)h->products->len;
    for (Instr *r = h->body->first; r; r = r->next) {
        if (r->op != OP_RING_RELEASE) continue;
        const Value *ring = ir_operand(r, 0);
        int before = -1, gets = 0, readers = 0, releases = 0;
        for (const Instr *i = h->body->first; i; i = i->next) {
            releases += i->op == OP_RING_RELEASE && ir_operand(i, 0) == ring;
            if (i->op != OP_RING_GET || ir_operand(i, 0) != ring) continue;
            int last = last_reader(h, i);
            gets++;
            readers += last >= 0;
            if (last >= 0 && last < before) return false;
            before = last;
        }
        if (!readers) continue;
        /* The most stages: those of two consecutive products, and of everything else in the step. */
        int held = 0;
        for (int k = 0; k < n; k++) {
            int both = 0;
            for (const Instr *i = h->body->first; i; i = i->next) {
                if (i->op != OP_RING_GET || ir_operand(i, 0) != ring) continue;
                int last = last_reader(h, i);
                both += last == k || last == (k + 1) % n;
            }
            if (both > held) held = both;
        }
        if (readers != gets || releases != gets || held > ring->type->shape[0]) return false;
    }
    return true;
}

/* The product before which the stage is taken and read to registers; -1: it is read behind it, or otherwise.
 */
static int read_before(const Chain *h, const Instr *get)
{
    size_t k = 0;
    while (k < h->products->len && h->products->data[k]->mark < get->mark) k++;
    if (k == h->products->len) return -1;
    for (const Use *u = ir_result(get)->uses; u; u = u->next)
        if (u->user->op != OP_SHARED_READ || u->user->block != h->body ||
            u->user->mark > h->products->data[k]->mark)
            return -1;
    return (int)k;
}

/* The next release of a stage of the ring. */
static Instr *release_behind(Instr *get)
{
    for (Instr *r = get->next; r; r = r->next)
        if (r->op == OP_RING_RELEASE && ir_operand(r, 0) == ir_operand(get, 0)) return r;
    return NULL;
}

/* Whether a stage that was taken before this one is read to registers later, or elsewhere. Stages are given
 * back in the order in which they were taken, so neither may be given back before that. */
static bool waits_for_another(const Chain *h, const Instr *get, int read)
{
    for (const Instr *i = h->body->first; i != get; i = i->next) {
        int before = i->op == OP_RING_GET && ir_operand(i, 0) == ir_operand(get, 0) ? read_before(h, i) : 0;
        if (before < 0 || before > read) return true;
    }
    return false;
}

static void take_releases(Chain *h)
{
    Arena *a = &h->c->s->arena;
    h->done = arena_array(a, InstrList, h->products->len);
    h->read = arena_array(a, InstrList, h->products->len);
    for (Instr *i = h->body->first; i; i = i->next) {
        if (i->op != OP_RING_GET) continue;
        int last = last_reader(h, i), read = last < 0 ? read_before(h, i) : -1;
        if (read >= 0 && waits_for_another(h, i, read)) read = -1;
        Instr *r = last < 0 && read < 0 ? NULL : release_behind(i);
        if (!r) continue;
        ir_unlink(r);
        vec_push(a, last < 0 ? &h->read[read] : &h->done[last], r);
    }
}

typedef struct Reads {
    const Chain *h;
    const Instr *from, *to;
    ValueList *list;
} Reads;

/* Records a tile in registers that was computed in this step before the product `from`. */
static bool reads(void *user, Value *v)
{
    Reads *x = user;
    if (v->type->kind != TYPE_TILE || !v->def || v->def->block != x->h->body || kernel_is_cheap(v) ||
        v->def->mark >= x->from->mark)
        return true;
    if (v->def->op == OP_BROADCAST || v->def->op == OP_RESHAPE)
        return true; /* names of values in other blocks */
    for (size_t k = 0; k < x->list->len; k++)
        if (x->list->data[k] == v) return true;
    vec_push(&x->h->c->s->arena, x->list, v);
    return true;
}

/* Operations between two products see tiles from before the first product as computed after the wait that
 * follows it. */
static void hide(Chain *h, Instr *wait, Instr *from, Instr *to)
{
    ValueList list = { 0 };
    Reads x = { h, from, to, &list };
    for (Instr *i = from->next; i != to; i = i->next)
        if (i != wait && op_info[i->op].flags & OPF_PURE) ir_all_operands(i, reads, &x);
    Builder b = ir_after(wait);
    for (size_t k = 0; k < list.len; k++) {
        Value *v = list.data[k], *o = ir_emit(&b, OP_OPAQUE, &v, 1, NO_ATTRS, NULL);
        for (Instr *i = o->def->next; i != h->wait; i = i->next)
            for (int q = 0; q < i->n_operands; q++)
                if (ir_operand(i, q) == v && i->op != OP_OPAQUE) ir_set_operand(i, q, o);
    }
}

static void place(Chain *h)
{
    size_t n = h->products->len;
    for (size_t k = 0; k < n; k++) {
        Instr *p = h->products->data[k];
        Builder b = ir_after(p);
        Instr *w = ir_build(&b, OP_WGMMA_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 1)), NULL, 0);
        InstrList *done = &h->done[k ? k - 1 : n - 1];
        if (k + 1 < n && is_computed(h, h->products->data[k + 1])) hide(h, w, p, h->products->data[k + 1]);
        b = ir_after(w);
        if (!k && done->len) kernel_release_before(h->c, &b, h->loop, done, true);
        for (size_t r = 0; k && r < done->len; r++) ir_place(&b, done->data[r]);
        for (size_t r = 0; r < h->read[k].len; r++) ir_place(&b, h->read[k].data[r]);
    }
}

bool kernel_chain_computed(Overlap *c, Instr *loop, InstrList *products)
{
    Chain h = { .c = c, .loop = loop, .body = loop->blocks[0], .products = products };
    bool any = false;
    for (size_t k = 0; k < products->len; k++) any |= is_computed(&h, products->data[k]);
    if (products->len < 2 || !any || !is_one_sum(&h) || !kernel_interleave(c, h.body) || !operands_fit(&h) ||
        !stages_fit(&h))
        return false;
    Instr *first = products->data[0], *last = products->data[products->len - 1];
    Value *acc = &loop->results[ir_operand(first, 2)->index - 1];
    take_releases(&h);
    place(&h);
    ir_replace(ir_result(h.wait), ir_result(last));
    ir_erase(h.wait);
    Builder b = ir_after(loop);
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, &acc, 1, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    ir_replace(acc, ir_result(wait));
    ir_set_operand(wait, 0, acc);
    InstrList *left = &h.done[products->len - 1];
    if (left->len) kernel_release_before(c, &b, loop, left, false);
    for (size_t k = 0; k < left->len; k++) ir_set_operands(left->data[k], NULL, 0);
    text_printf(&c->note, "  chain: a product runs under the arithmetic of the next one's left operand\n");
    return true;
}
