/* bulk-store: stores an accumulator's tile by TMA.
 *
 *   store %t, C[i.., j..]      ->      store %t, C[i.., j..] {bulk = 2}
 *
 * Each warp writes its own 16 rows, as many columns as a swizzle spans at a time, to a buffer in shared
 * memory. One lane starts the store of that box, and the warp continues with the next buffer. Without this
 * pass, lanes exchange registers until each has 16 bytes, and every access has a mask, which TMA does not
 * need at the tensor's edge.
 *
 * A store that adds (`rmw`) is done by the same buffers and boxes: TMA adds them to memory (PTX ISA,
 * cp.reduce.async.bulk.tensor). Since additions commute, it may stand in any loop. If each box has a buffer,
 * warps of the producer's warpgroup send it (`writer`), so that no consumer waits for its writes to reach the
 * buffers. Where no warps are spare, and the steps of a loop of products issue a product before they wait for
 * one, the boxes stay in their buffers until the products of the next step are issued (`late`, `bulk_flush`):
 *
 *   for { wgmma; wgmma_wait; ..; store {rmw = add, bulk = 2} }
 *
 * becomes
 *
 *   for { wgmma; bulk_flush; wgmma_wait; ..; store {rmw = add, bulk = 2, late = 1} }; bulk_flush
 *
 * In a program that has an atomic with acquire or release no store is late, and a release waits until memory
 * has what was stored before it (backends/gpu/memory/emit_indexed.c). An addition that semaphores
 * order (ordered-adds) is handed to writers with them: two warps in turn then send the boxes of all
 * warpgroups. What else a program does with these semaphores follows (ordered_ends.c).
 *
 * A scatter whose rows are consecutive pixels of images, all of which are counted, becomes such a store as
 * well: boxes of 16 pixels by TMA's im2col mode, `store {im2col = [..]}`.
 *
 * Requires: warp specialization (the store is the consumers', once a program, and no other operation is on
 * its tensor but stores and scatters in other branches of an `if`); a layout of accumulators, or
 * a reshape of one, whose boxes are boxes of the tensor too; elements of 16 or 32 bits; the alignment of
 * base, strides and row ends that TMA needs, by launch fact; a window whose position is not made negative by
 * the kernel; buffers beside the rings, in the space that the rings leave. Keeps: everything. */
#include "passes/kernel/warp_specialization/bulk_store.h"
#include "passes/kernel/schedule/schedule.h"
#include "passes/kernel/warp_specialization/im2col.h"
#include "passes/kernel/warp_specialization/ordered_adds.h"

enum { MOST_BUFFERS = 4, MOST_BOXES = 8 };

/* Whether rows end at a multiple of 16 bytes. TMA writes memory in pieces of 16 bytes, the last one of a row
 * whole: behind the tensor's edge it writes zeros, over what belongs to somebody else where the row is a part
 * of a wider one (measured on an H200; bench/notes/products.md, "Stores by TMA"). */
static bool ends_with_piece(const Func *f, const Param *p, int unit)
{
    const Dim *d = &f->dims[p->dims[unit]];
    return (d->extent >= 0 ? d->extent : d->div) * dtype_bytes(p->type->dtype) % 16 == 0;
}

static bool is_given(const Value *v, bool *seen);

/* The same of a value that a loop carries, or a result of the loop. */
static bool carries_given(const Instr *loop, const Value *v, bool *seen)
{
    const Block *first = loop->blocks[0], *body = loop->blocks[loop->n_blocks - 1];
    int k = v->index - (loop->op == OP_FOR && !v->def), init = loop->op == OP_FOR ? 3 : 0;
    if (loop->op == OP_WHILE && (v->def || v->block == body))
        return is_given(ir_operand(ir_terminator(first), 1 + k), seen);
    return is_given(ir_operand(loop, init + k), seen) || is_given(ir_operand(ir_terminator(body), k), seen);
}

/* Whether memory or a parameter decides about the value, in whatever step of a loop. seen: by value. */
static bool is_given(const Value *v, bool *seen)
{
    const Instr *d = v->def, *i = d ? d : v->block->parent;
    if (v->type->kind == TYPE_TENSOR || v->type->kind == TYPE_TOKEN || seen[v->id]) return false;
    seen[v->id] = true;
    if (!i || op_family(i->op) == OPS_MEMORY) return true;
    if (i->op == OP_WHILE || (i->op == OP_FOR && (d || v->index > 0))) return carries_given(i, v, seen);
    for (int k = 0; k < i->n_operands; k++)
        if (is_given(ir_operand(i, k), seen)) return true;
    for (int k = 0; d && k < d->n_blocks; k++) {
        const Instr *last = ir_terminator(d->blocks[k]);
        if (last && v->index < last->n_operands && is_given(ir_operand(last, v->index), seen)) return true;
    }
    return false;
}

bool kernel_box_is_given(const Func *f, Arena *a, const Value *position)
{ return is_given(position, arena_array(a, bool, f->module->next_id)); }

/* Whether a constant that is added or subtracted may make the value negative. */
static bool may_be_negative(Ranges *r, const Value *v, int depth)
{
    const Instr *d = v->def;
    int64_t by;
    if (range_of(r, v).lo >= 0 || depth > 16) return false;
    if (!d) {
        const Instr *loop = v->block->parent;
        return loop && loop->op == OP_FOR && v->index == 0 &&
               may_be_negative(r, ir_operand(loop, 0), depth + 1);
    }
    if (d->op == OP_CONST) return true;
    if (d->op == OP_SUB && ir_is_const(ir_operand(d, 1), &by) && by > 0) return true;
    if (d->op == OP_ADD || d->op == OP_MUL)
        return may_be_negative(r, ir_operand(d, 0), depth + 1) ||
               may_be_negative(r, ir_operand(d, 1), depth + 1);
    return (d->op == OP_SUB || d->op == OP_CAST) && may_be_negative(r, ir_operand(d, 0), depth + 1);
}

/* TMA loads a box that begins at a negative position, with zeros, but a store of it is an illegal
 * instruction, wherever it ends. It may begin behind the tensor's end (measured on an H200). Where memory
 * gives the position, the lane that stores the box looks (backends/gpu/hopper/emit_before.c). */
static bool begins_within(const Func *f, const MemParts *m)
{
    Ranges *r = ranges_new(f);
    for (int a = 0; a < m->rank; a++)
        if (may_be_negative(r, m->idx[a], 0) &&
            !kernel_box_is_given(f, &f->module->session->arena, m->idx[a]))
            return false;
    return true;
}

static bool tma_takes(const Func *f, const Instr *store, const MemParts *m)
{
    const Param *p = &f->params[m->param];
    int bytes = dtype_bytes(p->type->dtype), unit = -1;
    if (m->mask || ir_attr(store, ATTR_STEPS) || ir_attr(store, ATTR_ORDER) || m->rank > 5 || p->align % 16 ||
        !dtype_is_float(p->type->dtype) || !kernel_tma_counts(f, p))
        return false;
    if (ir_adds(store) && p->type->dtype != DT_F32) return false;
    for (int a = 0; a < m->rank; a++)
        if (p->stride[a] == 1) unit = a;
    for (int a = 0; a < m->rank; a++) {
        int64_t s = ir_stride_step(p, a);
        if (a != unit && (s < 0 || s * bytes % 16)) return false;
    }
    return unit >= 0 && ends_with_piece(f, p, unit) && kernel_tma_begins(f, store, unit) &&
           begins_within(f, m);
}

/* Whether the consumers execute the store at most once in each program. */
static bool once(const Instr *store)
{
    const Block *b = store->block;
    while (b->parent && b->parent->op == OP_IF) b = b->parent->block;
    const Instr *loop = b->parent;
    /* If the steps of all programs are one loop, the place where a program ends. */
    if (loop && ir_loop_is(loop, LOOP_JOINED)) {
        if (b == store->block) return false;
        for (b = loop->block; b->parent && b->parent->op == OP_IF;) b = b->parent->block;
    } else if (loop && loop->op == OP_FOR) b = loop->block;
    return b->parent && kernel_is_roles(b->parent->op) && b == b->parent->blocks[1];
}

typedef struct Uses {
    const Instr *store;
    int param;
    bool others;
} Uses;

/* Whether the two are in different branches of one `if`, of which a program executes only one. */
static bool exclusive(const Instr *a, const Instr *b)
{
    for (const Block *x = a->block; x->parent; x = x->parent->block)
        for (const Block *y = b->block; y->parent; y = y->parent->block)
            if (x->parent == y->parent) return x != y && x->parent->op == OP_IF;
    return false;
}

static void find_others(void *user, Instr *i)
{
    Uses *u = user;
    if (i == u->store) return;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (v->type->kind == TYPE_TENSOR && v->index == u->param)
            u->others |= (i->op != OP_STORE && i->op != OP_SCATTER) ||
                         (!(exclusive(u->store, i) && once(u->store)) && !(ir_adds(i) && ir_adds(u->store)));
    }
}

int kernel_bulk_depth(int boxes, int buffers) { return boxes % buffers ? boxes % buffers : buffers; }

/* The buffers of a warp, for as many boxes in flight as `room` allows: MOST_BUFFERS, or one for each of a few
 * boxes if fewer would leave a short round (of seven boxes, four buffers keep three in flight). */
static int best_buffers(int boxes, int room)
{
    int best = 0, depth = 0;
    for (int n = 1; n <= boxes && n <= room && n <= MOST_BOXES; n++) {
        if (n > MOST_BUFFERS && (n != boxes || depth == MOST_BUFFERS)) continue;
        if (kernel_bulk_depth(boxes, n) > depth) best = n, depth = kernel_bulk_depth(boxes, n);
    }
    return best;
}

/* The buffers of a warp: `asked`, or as many as memory has room for. 0: the store does not use TMA. */
static int buffers_for(
    Session *s, Func *f, KernelPlan *p, const Instr *store, const MemParts *m, const Decision *asked)
{
    BulkBoxes b;
    int axis, bytes = dtype_bytes(m->values[0]->type->dtype);
    Uses u = { .store = store, .param = m->param };
    kernel_unit_axis(f, store, &axis);
    ir_walk(f->body, find_others, &u);
    bool can = axis >= 0 && (bytes == 2 || bytes == 4) && (once(store) || ir_adds(store)) &&
               tma_takes(f, store, m) && !u.others &&
               kernel_store_boxes(&s->arena, layouts_get(&p->layouts, m->values[0]->type), store, axis, &b);
    if (!can) {
        if (asked)
            schedule_refuse(p, asked,
                "TMA cannot store this tile: it takes accumulators in whole boxes, once a program, to a "
                "tensor that nothing else touches, whose rows begin and end at multiples of 16 bytes");
        return 0;
    }
    int64_t all = (int64_t)b.bytes * p->warps;
    int room = (int)(p->spare_shared / all), n = asked ? asked->n[0] : best_buffers(b.n, room);
    if (asked && (n > b.n || n > room)) {
        if (n > b.n)
            schedule_refuse(p, asked, "a warp has %d box%s, and %d buffers are more than that", b.n,
                b.n == 1 ? "" : "es", n);
        else
            schedule_refuse(p, asked,
                "%d buffers a warp take %lld bytes of shared memory, of which rings leave %lld", n,
                (long long)all * n, (long long)p->spare_shared);
        return 0;
    }
    p->spare_shared -= all * n;
    return n;
}

static Instr *first_of(const Block *b, Op op)
{
    Instr *i = b->first;
    while (i && i->op != op) i = i->next;
    return i;
}

static bool is_before(const Instr *a, const Instr *b)
{
    while (a && a != b) a = a->next;
    return a;
}

static void find_writer(void *user, Instr *i)
{
    if (i->op == OP_STORE && ir_attr_int(i, ATTR_WRITER, 0)) *(const Instr **)user = i;
}

/* The store that writer warps serve already; NULL: none. */
static const Instr *writer_in(const Func *f)
{
    const Instr *found = NULL;
    ir_walk(f->body, find_writer, &found);
    return found;
}

/* Whether the tiles of both stores lie along the same axes of their tensor, at offsets of the same types. */
static bool lie_alike(const Instr *a, const MemParts *m, const Instr *b, const MemParts *o)
{
    const Attr *x = ir_attr(a, ATTR_EXTENTS), *y = ir_attr(b, ATTR_EXTENTS);
    for (int k = 0; k < m->rank; k++)
        if (x->v[k] != y->v[k] || m->idx[k]->type != o->idx[k]->type) return false;
    return true;
}

/* Whether both additions wait for semaphores of one tensor, or for none. */
static bool ordered_alike(const Instr *a, const Instr *b)
{
    const Instr *x = ir_semaphore_wait(a), *y = ir_semaphore_wait(b);
    return !x == !y && (!x || ir_operand(x, 0) == ir_operand(y, 0));
}

/* Whether the addition `store` can go through the buffers of `other`, which writer warps send: it adds a tile
 * of the same type to the same tensor, along the same axes (a step that stands behind its loop). */
static bool goes_through(const Func *f, const Instr *store, const MemParts *m, const Instr *other)
{
    MemParts o;
    return other && other != store && ir_adds(store) && ordered_alike(store, other) &&
           ir_mem_parts(other, &o) && o.param == m->param && o.values[0]->type == m->values[0]->type &&
           lie_alike(store, m, other, &o) && tma_takes(f, store, m);
}

/* Hands the addition, and the atomics that order it, to writer warps. */
static void hand(Session *s, Instr *store)
{
    Instr *all[] = { store, ir_semaphore_wait(store), ir_semaphore_signal(store) };
    for (int k = 0; k < 3; k++)
        if (all[k]) ir_set_attr(s, all[k], a_int(ATTR_WRITER, 1));
}

/* Whether warps of the producer's warpgroup are free to send the boxes, one for each consumer warpgroup. */
static bool has_writers(const Func *f, const KernelPlan *p)
{ return !writer_in(f) && !p->cp_async_warps && p->warps / 4 < p->producer_warps && p->warps % 4 == 0; }

/* Each box must have a buffer of its own, since nothing leaves before the step ends. */
static void send_apart(
    Session *s, const Func *f, KernelPlan *p, Instr *store, const MemParts *m, int axis, int buffers)
{
    BulkBoxes b;
    Instr *loop = store->block->parent, *product = first_of(store->block, OP_WGMMA),
          *wait = first_of(store->block, OP_WGMMA_WAIT);
    bool ordered = ir_semaphore_wait(store) && ir_semaphore_signal(store);
    if (!ir_adds(store) || (ir_orders_memory(f) && !ordered) || !loop || loop->op != OP_FOR ||
        ir_over_programs(loop) ||
        !kernel_store_boxes(&s->arena, layouts_get(&p->layouts, m->values[0]->type), store, axis, &b) ||
        b.n != buffers)
        return;
    if (has_writers(f, p) && (!ordered || ordered_waits_own(f, ir_semaphore_wait(store)))) {
        hand(s, store);
        return;
    }
    if (ordered || !product || !wait || !is_before(product, wait) || !is_before(wait, store)) return;
    ir_set_attr(s, store, a_int(ATTR_LATE, 1));
    if (first_of(store->block, OP_BULK_FLUSH)) return;
    for (Instr *i = product; i != wait; i = i->next)
        if (i->op == OP_WGMMA) product = i;
    Builder step = ir_after(product), behind = ir_after(loop);
    ir_build(&step, OP_BULK_FLUSH, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(&behind, OP_BULK_FLUSH, NULL, 0, NO_ATTRS, NULL, 0);
}

bool kernel_bulk_store(Session *s, Func *f, KernelPlan *p, Instr *store)
{
    MemParts m;
    if (!p->producer_warps || !ir_mem_parts(store, &m) || m.values[0]->type->kind != TYPE_TILE ||
        !m.values[0]->type->layout)
        return false;
    const Decision *d = schedule_asked_store(p, f, store);
    if (d && d->form == STORE_TMA && d->n[0] < 1)
        return schedule_refuse(p, d, "TMA stores from one buffer a warp at least");
    bool tma = d ? d->form == STORE_TMA : !kernel_skips(p, PASS_BULK_STORE);
    const Instr *writer = writer_in(f);
    if (tma && goes_through(f, store, &m, writer)) {
        ir_set_attr(s, store, a_int(ATTR_BULK, ir_attr_int(writer, ATTR_BULK, 0)));
        hand(s, store);
        return true;
    }
    int buffers = tma ? buffers_for(s, f, p, store, &m, d) : 0;
    schedule_take_store(p, f, store, buffers ? STORE_TMA : STORE_REGISTERS, buffers);
    if (buffers) ir_set_attr(s, store, a_int(ATTR_BULK, buffers));
    int axis;
    kernel_unit_axis(f, store, &axis);
    if (buffers) send_apart(s, f, p, store, &m, axis, buffers);
    return buffers > 0;
}

bool kernel_bulk_scatter(Session *s, Func *f, KernelPlan *p, Instr *scatter)
{
    Im2col pixels;
    if (!p->producer_warps || kernel_skips(p, PASS_BULK_STORE) ||
        !kernel_pixels_in_order(f, scatter, &pixels))
        return false;
    Instr *store = kernel_store_of_pixels(s, scatter, &pixels);
    ir_unlink(scatter); /* nothing else may touch the tensor */
    Builder at = ir_after(store);
    bool bulk = kernel_bulk_store(s, f, p, store);
    ir_place(&at, scatter);
    if (bulk) ir_replace(ir_result(scatter), ir_result(store));
    ir_erase(bulk ? scatter : store);
    return bulk;
}

/* --- loads that meet accumulators -------------------------------------------------------------------- */

typedef struct Like {
    const Type *type;
    Instr *found;
} Like;

static void find_like(void *user, Instr *i)
{
    Like *l = user;
    MemParts m;
    /* The buffers of a late store are full between the steps, those of writer warps at any time. */
    if (l->found || i->op != OP_STORE || !ir_attr_int(i, ATTR_BULK, 0) || ir_attr_int(i, ATTR_LATE, 0) ||
        ir_attr_int(i, ATTR_WRITER, 0))
        return;
    ir_mem_parts(i, &m);
    const Type *t = m.values[0]->type;
    if (t->layout == l->type->layout && type_elements(t) == type_elements(l->type) &&
        dtype_bytes(t->dtype) == dtype_bytes(l->type->dtype))
        l->found = i;
}

Instr *kernel_bulk_store_like(Block *b, const Type *t)
{
    Like l = { t, NULL };
    ir_walk(b, find_like, &l);
    return l.found;
}

const Layout *kernel_bulk_rows(Arena *a, const Layout *acc, const BulkBoxes *b)
{
    enum { PIECE = 8 }; /* elements of 16 bytes */
    int32_t vec[LAYOUT_INPUTS][16][2] = { 0 };
    int n[LAYOUT_INPUTS] = { 0 }, f = b->unit, lanes = 0;
    if (acc->rank != 2 || b->n & (b->n - 1) || b->warps & (b->warps - 1) || b->box[1 - f] != 16) return NULL;
    for (int k = 1; k < PIECE; k *= 2) vec[LAYOUT_REG][n[LAYOUT_REG]++][f] = k;
    for (int k = PIECE; k < b->box[f]; k *= 2, lanes++) vec[LAYOUT_LANE][n[LAYOUT_LANE]++][f] = k;
    for (int k = 1; k < 16; k *= 2) {
        LayoutInput in = n[LAYOUT_LANE] < 5 ? LAYOUT_LANE : LAYOUT_REG;
        vec[in][n[in]++][1 - f] = k;
    }
    if (n[LAYOUT_LANE] != 5) return NULL;
    for (int k = 1; k < b->n; k *= 2)
        memcpy(vec[LAYOUT_REG][n[LAYOUT_REG]++], b->origin[k], sizeof vec[0][0]);
    for (int k = 1; k < b->warps; k *= 2)
        memcpy(vec[LAYOUT_WARP][n[LAYOUT_WARP]++], b->warp[k], sizeof vec[0][0]);
    const int32_t *basis[LAYOUT_INPUTS];
    for (int in = 0; in < LAYOUT_INPUTS; in++) basis[in] = vec[in][0];
    return layout_from_basis(a, 2, acc->tile, n, basis, 0, NULL);
}

typedef struct Loads {
    Session *s;
    Func *f;
    KernelPlan *p;
    bool changed;
} Loads;

static void load_by_rows(void *user, Instr *i)
{
    Loads *c = user;
    if (i->op != OP_CONVERT) return;
    Value *x = ir_operand(i, 0);
    const Type *to = ir_result(i)->type;
    Instr *store = x->def && x->def->op == OP_LOAD && ir_use_count(x) == 1 && dtype_bytes(to->dtype) == 2
                       ? kernel_bulk_store_like(c->f->body, to)
                       : NULL;
    int axis, load_axis;
    BulkBoxes b;
    if (!store || kernel_access_bytes(c->f, x->def) < 16) return;
    kernel_unit_axis(c->f, store, &axis);
    kernel_unit_axis(c->f, x->def, &load_axis);
    const Layout *acc = layouts_get(&c->p->layouts, to);
    if (axis != load_axis || !kernel_bulk_boxes(&c->s->arena, acc, axis, 2, &b)) return;
    const Layout *rows = kernel_bulk_rows(&c->s->arena, acc, &b);
    if (!rows) return;
    x->type = layouts_typed(&c->p->layouts, x->type, rows);
    c->changed = true;
}

bool kernel_bulk_loads(Session *s, Func *f, KernelPlan *p)
{
    Loads c = { .s = s, .f = f, .p = p };
    ir_walk(f->body, load_by_rows, &c);
    return c.changed;
}
