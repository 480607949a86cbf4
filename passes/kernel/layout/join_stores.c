/* join-stores: stores of single positions beside each other, or of windows of every n-th element that fill
 * each other's gaps, become one store of all of them. A step of layout.
 *
 *   %t1 = store X[%i, 0] = %a token %t0 : [128]  ->  %c = concat %a', %b' {axis = 1} : [128, 2]
 *   %t2 = store X[%i, 1] = %b token %t1 : [128]      %t2 = store X[%i, 0] = %c token %t0 : [128, 2]
 *
 * with %a' and %b' reshaped to [128, 1]. With steps:
 *
 *   %t1 = store X[%i] {steps = [2]} = %a token %t0 : [128]      ->  %d = reshape %c : [256]
 *   %t2 = store X[%i + 1] {steps = [2]} = %b token %t1 : [128]      %t2 = store X[%i] = %d token %t0 : [256]
 *
 * Stores that have all of the axes behind another one are joined along that axis in the same way: the
 * elements of a row of a matrix first, then its rows.
 *
 * The components of a record, a point or a small matrix, say, that a kernel computes one by one would be
 * written by as many instructions, each of which touches every sector of the records. A lane that has a whole
 * record (components.c) writes it by vectors.
 *
 * Proof. The stores are of a chain of tokens that nothing else takes, so that no access of the tensor lies
 * between them but stores of another position along some axis, which write none of their elements. Their
 * windows differ in a constant along one axis alone, these constants follow each other, and there are as
 * many as a step has elements. So each element is written once, by either form, and what is out of range by
 * neither.
 *
 * Requires: stores of one block, of tiles with a record for each lane at least; records of at most 64 bytes
 * along the contiguous axis and of 128 in all; tiles of at most 2^20 elements; no producer warps and no
 * cluster, which have stores of their own. Keeps: memory. */
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/windows.h"
#include <string.h>

enum { MOST_STORES = 16, MOST_VECTORS = 64, MOST_RECORD = 128, MOST_ELEMENTS = 1 << 20 };

typedef struct Component {
    Instr *store;
    MemParts mem;
    Value *base; /* its offset along the axis is base + at; NULL: at */
    int64_t at;
    int64_t step;   /* of a window of every step-th element; 1: it is a single position */
    int64_t inside; /* the elements of a position: those of the axes behind */
} Component;

typedef struct Joiner {
    Session *s;
    Func *f;
    KernelPlan *p;
    int depth; /* of the axis along which stores are joined: as many before the contiguous one */
    int axis;
    Component chain[MOST_STORES];
    int n;
    VEC(Instr *) stores;
} Joiner;

static void collect(void *user, Instr *i)
{
    Joiner *c = user;
    if (i->op == OP_STORE) vec_push(&c->s->arena, &c->stores, i);
}

/* A plain store to a tensor, which other ones may stand beside. */
static bool plain(Instr *i, MemParts *m)
{
    return i->op == OP_STORE && !ir_adds(i) && !ir_attr(i, ATTR_ORDER) && ir_attr(i, ATTR_EXTENTS) &&
           ir_mem_parts(i, m) && !m->mask && m->token_out;
}

/* The tensor's axis along which the store may be joined. */
static int joined_axis(const Joiner *c, const Instr *i) { return kernel_unit_axis(c->f, i, NULL) - c->depth; }

/* A store of a single position along the axis or, along the contiguous one, of every n-th. */
static bool component(const Joiner *c, Instr *i, Component *x)
{
    *x = (Component){ .store = i, .step = 1, .inside = 1 };
    if (!plain(i, &x->mem) || c->p->producer_warps || c->p->cluster > 1) return false;
    const Type *t = x->mem.values[0]->type;
    int axis = joined_axis(c, i);
    if (t->kind != TYPE_TILE || t->dtype == DT_BOOL || t->rank == TILE_MAX_RANK || axis < 0 ||
        c->f->params[x->mem.param].stride[axis + c->depth] != 1)
        return false;
    if (c->depth) x->inside = window_record(c->f, i, axis);
    if (!x->inside || type_elements(t) / x->inside < c->p->target->wave) return false;
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    bool single = ir_attr(i, ATTR_EXTENTS)->v[axis] == -1;
    if (steps && !single) x->step = steps->v[axis];
    x->base = window_offset_base(x->mem.idx[axis], &x->at);
    return single ? !x->base && !steps : x->step > 1 && !c->depth;
}

/* Whether b stores beside a. */
static bool follows(const Component *a, const Component *b, int axis)
{
    const Type *t = a->mem.values[0]->type, *u = b->mem.values[0]->type;
    if (b->mem.param != a->mem.param || b->store->block != a->store->block || t->dtype != u->dtype ||
        b->base != a->base || b->step != a->step || !type_same_shape(t, u) ||
        !ir_same_window(a->store, b->store))
        return false;
    for (int k = 0; k < a->mem.rank; k++)
        if (k != axis && !window_same_offset(a->mem.idx[k], b->mem.idx[k])) return false;
    return true;
}

/* Whether the store is one of another position along an axis than the component, so that they share no
 * element. */
static bool apart(const Component *a, Instr *i)
{
    MemParts m;
    int64_t p, q;
    if (!plain(i, &m) || m.param != a->mem.param || i->block != a->store->block) return false;
    const Attr *e = ir_attr(a->store, ATTR_EXTENTS), *f = ir_attr(i, ATTR_EXTENTS);
    for (int k = 0; k < m.rank; k++)
        if (e->v[k] == -1 && f->v[k] == -1 && ir_is_const(a->mem.idx[k], &p) && ir_is_const(m.idx[k], &q) &&
            p != q)
            return true;
    return false;
}

/* The chain of components that begins with the store: those of its tokens that store beside it, with stores
 * between them that have no element of theirs. */
static void chain_from(Joiner *c, Instr *first)
{
    Component x;
    MemParts m;
    c->n = 0;
    for (Instr *i = first; i && c->n < MOST_STORES;) {
        bool beside = component(c, i, &x) && (!c->n || follows(&c->chain[0], &x, c->axis));
        if (!c->n) c->axis = joined_axis(c, i);
        if (beside) c->chain[c->n++] = x;
        else if (!c->n || !apart(&c->chain[0], i)) return;
        if (!ir_mem_parts(i, &m) || !m.token_out->uses || m.token_out->uses->next) return;
        i = m.token_out->uses->user;
        if (i->op != OP_STORE) return;
    }
}

/* Sorts the chain by positions. Whether these follow each other. */
static bool sorted(Joiner *c)
{
    for (int k = 1; k < c->n; k++)
        for (int j = k; j > 0 && c->chain[j].at < c->chain[j - 1].at; j--) {
            Component x = c->chain[j];
            c->chain[j] = c->chain[j - 1];
            c->chain[j - 1] = x;
        }
    for (int k = 1; k < c->n; k++)
        if (c->chain[k].at != c->chain[k - 1].at + 1) return false;
    if (c->chain[0].step > 1 && c->n != c->chain[0].step) return false;
    if (c->n * type_elements(c->chain[0].mem.values[0]->type) > MOST_ELEMENTS) return false;
    int64_t bytes = c->n * c->chain[0].inside * dtype_bytes(c->chain[0].mem.values[0]->type->dtype);
    return c->n > 1 && bytes <= (c->depth ? MOST_RECORD : MOST_VECTORS);
}

/* The attributes of the joined store. */
static Attrs joined_attrs(const Joiner *c)
{
    const Component *low = &c->chain[0];
    int64_t extent = low->step > 1 ? c->n * ir_attr(low->store, ATTR_EXTENTS)->v[c->axis] : c->n;
    return window_joined_attrs(c->s, low->store, c->axis, extent);
}

/* The values side by side along a new axis, where the window has it or, with steps, behind the one of the
 * windows, which then becomes one with it. */
static Value *record(Joiner *c, Builder *b)
{
    const Type *t = c->chain[0].mem.values[0]->type;
    const Attr *e = ir_attr(c->chain[0].store, ATTR_EXTENTS);
    int64_t one[TILE_MAX_RANK], all[TILE_MAX_RANK];
    Value *parts[MOST_STORES];
    int axis = 0;
    bool steps = c->chain[0].step > 1;
    for (int k = 0; k < c->axis; k++) axis += e->v[k] >= 0;
    axis += steps;
    for (int k = 0; k <= t->rank; k++) {
        one[k] = k == axis ? 1 : t->shape[k - (k > axis)];
        all[k] = k == axis ? c->n : one[k];
    }
    const Type *part = type_tile(c->s, t->dtype, t->rank + 1, one);
    for (int k = 0; k < c->n; k++) parts[k] = ir_op(b, OP_RESHAPE, part, NO_ATTRS, c->chain[k].mem.values[0]);
    Value *v = ir_emit(b, OP_CONCAT, parts, c->n, ATTRS(a_int(ATTR_AXIS, axis)),
        type_tile(c->s, t->dtype, t->rank + 1, all));
    if (!steps) return v;
    memcpy(one, t->shape, sizeof *one * (size_t)t->rank);
    one[axis - 1] *= c->n;
    return ir_op(b, OP_RESHAPE, type_tile(c->s, t->dtype, t->rank, one), NO_ATTRS, v);
}

/* Stores all where the last one of the chain does. The tokens of the others go past them. */
static void join(Joiner *c, Instr *const *chain)
{
    const Instr *low = c->chain[0].store;
    Instr *last = chain[c->n - 1];
    MemParts m;
    Builder b = ir_before(last);
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)low->n_operands);
    Value *all = record(c, &b);
    for (int k = 0; k < low->n_operands; k++) operands[k] = ir_operand(low, k);
    for (int k = 0; k < c->n - 1; k++)
        if (ir_mem_parts(chain[k], &m)) ir_replace(m.token_out, m.token);
    if (!ir_mem_parts(last, &m)) return;
    for (int k = 0; k < low->n_operands; k++) {
        if (operands[k] == c->chain[0].mem.values[0]) operands[k] = all;
        else if (operands[k]->type->kind == TYPE_TOKEN) operands[k] = m.token;
    }
    Value *out = ir_emit(&b, OP_STORE, operands, low->n_operands, joined_attrs(c), ir_result(last)->type);
    ir_replace(ir_result(last), out);
}

/* Joins stores along one axis of their tensors. */
static bool join_along(Joiner *c)
{
    bool any = false;
    c->stores.len = 0;
    ir_walk(c->f->body, collect, c);
    for (size_t k = 0; k < c->stores.len; k++) {
        Instr *chain[MOST_STORES];
        if (!c->stores.data[k]) continue;
        chain_from(c, c->stores.data[k]);
        if (c->n < 2) continue;
        for (int j = 0; j < c->n; j++) chain[j] = c->chain[j].store;
        if (!sorted(c)) continue;
        join(c, chain);
        for (int j = c->n; j-- > 0;) {
            for (size_t i = 0; i < c->stores.len; i++)
                if (c->stores.data[i] == chain[j]) c->stores.data[i] = NULL;
            ir_erase(chain[j]);
        }
        any = true;
    }
    return any;
}

bool kernel_join_stores(Session *s, Func *f, KernelPlan *p)
{
    Joiner c = { .s = s, .f = f, .p = p };
    bool any = false;
    if (kernel_skips(p, PASS_JOIN_STORES)) return false;
    for (; c.depth < TILE_MAX_RANK; c.depth++) any |= join_along(&c);
    return any;
}
