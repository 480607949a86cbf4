/* pack_access.c: of pack: the memory accesses of several programs as one.
 *
 *   load %X[%r, 0] {extents = [-1, 128]}, r = r0 + l            ->  load %X[%r0, 0] {extents = [n, 128]}
 *   load %X[%i] {extents = [64]}, i = i0 + 64 l                 ->  load %X[%i0] {extents = [64 n]}, reshaped
 *   load %X[%i] {extents = [64]}, i = i0 + 128 l, X only read   ->  load %X[%i0] {extents = [128 n]}, a slice
 *   others                                                      ->  gather, scatter or atomic_rmw
 *
 * An element is in range of the wide window exactly if it is in range of its program's own window, so pads
 * and dropped elements are those of the programs. */
#include "passes/tile/program/pack.h"

typedef enum WindowKind {
    WINDOW_SAME,    /* all programs have one window */
    WINDOW_AXIS,    /* a position of the axis for each program */
    WINDOW_BESIDE,  /* windows that follow each other without a gap */
    WINDOW_APART,   /* windows with equal gaps, which are loaded too */
    WINDOW_INDEXED, /* none of these */
} WindowKind;

typedef struct Window {
    WindowKind kind;
    MemParts m;
    const Attr *e, *steps, *order;
    int axis; /* of the tensor, along which the programs lie */
    int at;   /* of the tile as it is in memory, before `order`; without the axis if that is dropped: where it
                 would be */
    int64_t step; /* from one program to the next */
    int64_t skip; /* WINDOW_APART: elements of the part before the window, and where the part begins */
    Value *part;
} Window;

/* The window's place in a part of `step` elements: if its offset is a sum with a constant, the part begins
 * where the constant is 0, so that two halves of a part are two slices of one load. */
static void find_part(Window *w, Value *offset, int64_t extent)
{
    int64_t k;
    w->part = offset;
    for (int a = 0; offset->def && offset->def->op == OP_ADD && a < 2; a++) {
        if (!ir_is_const(ir_operand(offset->def, a), &k) || k <= 0 || k + extent > w->step) continue;
        w->skip = k;
        w->part = ir_operand(offset->def, 1 - a);
    }
}

static WindowKind kind_along(const Pack *p, const Instr *i, Window *w, PackForm x)
{
    int64_t extent = w->e->v[w->axis], step = w->steps ? w->steps->v[w->axis] : 1;
    w->step = x.step;
    if (extent == -1 || extent == 1) return WINDOW_AXIS;
    if (extent * step == x.step) return WINDOW_BESIDE;
    bool only_read = i->op == OP_LOAD && p->f->params[w->m.param].kind == PARAM_IN;
    if (!only_read || step != 1 || x.step > 2 * extent) return WINDOW_INDEXED;
    find_part(w, x.base, extent);
    return extent < x.step ? WINDOW_APART : WINDOW_INDEXED;
}

static void window_of(const Pack *p, const Instr *i, Window *w)
{
    PackForm along = { 0 };
    *w = (Window){ .kind = WINDOW_SAME, .axis = -1 };
    ir_mem_parts(i, &w->m);
    w->e = ir_attr(i, ATTR_EXTENTS);
    w->steps = ir_attr(i, ATTR_STEPS);
    w->order = ir_attr(i, ATTR_ORDER);
    for (int a = 0; a < w->m.rank && w->kind == WINDOW_SAME; a++) {
        PackForm x = pack_form(p, w->m.idx[a]);
        if (x.base && !x.step) continue;
        if (!x.base || x.step < 0 || w->axis >= 0) w->kind = WINDOW_INDEXED;
        w->axis = a;
        along = x;
    }
    if (w->kind == WINDOW_INDEXED || w->axis < 0) return;
    for (int a = 0; a < w->axis; a++) w->at += w->e->v[a] != -1;
    w->kind = kind_along(p, i, w, along);
}

/* Where the axes of a program's tile are in memory order: kept[k] is the axis of the tensor. */
static int kept_axes(const Window *w, int *kept)
{
    int n = 0;
    for (int a = 0; a < w->m.rank; a++)
        if (w->e->v[a] != -1) kept[n++] = a;
    return n;
}

/* From [.., programs, ..] in memory order, with the programs at `at`, to [programs, ...] in the program's
 * order. */
static void order_from_memory(const Window *w, int rank, int at, int64_t *order)
{
    order[0] = at;
    for (int a = 0; a < rank; a++) {
        int64_t from = w->order ? w->order->v[a] : a;
        order[a + 1] = from + (from >= at);
    }
}

static const Type *typed(const Pack *p, const Window *w, int rank, const int64_t *shape)
{ return type_tile(p->c->session, w->m.tensor->type->dtype, rank, shape); }

/* The shape in memory order with an axis of the programs in front of axis `at`, of which `own` elements are
 * one program's; own = 0: a program has no axis there. */
static int shape_apart(const Pack *p, const Window *w, int64_t own, int64_t *shape)
{
    int kept[TILE_MAX_RANK], n = kept_axes(w, kept), rank = 0;
    for (int k = 0; k <= n; k++) {
        if (k == w->at) shape[rank++] = p->n;
        if (k < n) shape[rank++] = k == w->at && own ? own : w->e->v[kept[k]];
    }
    return rank;
}

/* A loaded tile for all programs. */
static Value *from_window(const Pack *p, Builder *b, const Window *w, Value *tile)
{
    int64_t shape[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int rank = shape_apart(p, w, w->kind == WINDOW_APART ? w->step : 0, shape);
    if (tile->type->rank != rank) tile = ir_op(b, OP_RESHAPE, typed(p, w, rank, shape), NO_ATTRS, tile);
    if (w->kind == WINDOW_APART) {
        shape[w->at + 1] = w->e->v[w->axis];
        tile = ir_op(b, OP_SLICE, typed(p, w, rank, shape),
            ATTRS(a_int(ATTR_AXIS, w->at + 1), a_int(ATTR_START, w->skip)), tile);
    }
    order_from_memory(w, rank - 1, w->at, order);
    return pack_permuted(b, tile, order);
}

/* A tile of all programs in the shape of the wide window. */
static Value *to_window(const Pack *p, Builder *b, const Window *w, Value *tile)
{
    int64_t order[TILE_MAX_RANK], back[TILE_MAX_RANK], shape[TILE_MAX_RANK];
    int kept[TILE_MAX_RANK], n = kept_axes(w, kept), rank = 0;
    order_from_memory(w, tile->type->rank - 1, w->at, order);
    for (int a = 0; a < tile->type->rank; a++) back[order[a]] = a;
    tile = pack_permuted(b, tile, back);
    if (w->e->v[w->axis] == -1) return tile;
    for (int k = 0; k < n; k++) shape[rank++] = w->e->v[kept[k]] * (k == w->at ? p->n : 1);
    return ir_op(b, OP_RESHAPE, typed(p, w, rank, shape), NO_ATTRS, tile);
}

static int window_attrs(const Pack *p, const Window *w, const Instr *i, Attr *attrs, int64_t *extents)
{
    static const int64_t one[TILE_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    int64_t *steps = arena_array(p->c->scratch, int64_t, TILE_MAX_RANK);
    int n = 0;
    for (int a = 0; a < w->m.rank; a++) {
        extents[a] = w->e->v[a];
        steps[a] = w->steps ? w->steps->v[a] : 1;
    }
    if (w->axis >= 0) {
        extents[w->axis] = w->kind == WINDOW_AXIS    ? p->n
                           : w->kind == WINDOW_APART ? p->n * w->step
                                                     : p->n * extents[w->axis];
        if (w->kind == WINDOW_AXIS) steps[w->axis] = w->step;
    }
    for (int k = 0; k < i->n_attrs; k++) {
        AttrKey key = i->attrs[k].key;
        if (key == ATTR_ORDER || key == ATTR_STEPS || key == ATTR_MASKED || key == ATTR_INSIDE ||
            key == ATTR_ALIGN)
            continue;
        attrs[n++] = key == ATTR_EXTENTS ? a_ints(ATTR_EXTENTS, extents, w->m.rank) : i->attrs[k];
    }
    if (memcmp(steps, one, sizeof *steps * (size_t)w->m.rank))
        attrs[n++] = a_ints(ATTR_STEPS, steps, w->m.rank);
    return n;
}

static void hand_over(Pack *p, Instr *old, Instr *made, Value *result)
{
    for (int k = 0; k < old->n_results; k++)
        if (old->results[k].type->kind == TYPE_TOKEN)
            ir_replace(&old->results[k], &made->results[made->n_results - 1]);
        else {
            ir_set_name(&made->results[k], old->results[k].name);
            value_map_set(&p->map, &old->results[k], result);
        }
    vec_push(p->c->scratch, &p->dead, old);
}

static void access_window(Pack *p, Builder *b, Instr *i, const Window *w)
{
    Value *ops[2 * TILE_MAX_RANK + 4];
    int64_t extents[TILE_MAX_RANK];
    Attr attrs[ATTR_N_KEYS + 1];
    int n = window_attrs(p, w, i, attrs, extents);
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        ops[k] = v;
        if (k >= 1 && k <= w->m.rank) ops[k] = pack_form(p, v).base;
        else if (v == w->m.values[0]) ops[k] = to_window(p, b, w, pack_value(p, b, v));
    }
    if (w->kind == WINDOW_APART) ops[1 + w->axis] = w->part;
    const Type *t = w->m.result ? w->m.result->type : w->m.values[0]->type;
    if (w->axis == w->m.rank - 1)
        p->along += (t->kind == TYPE_TILE ? type_elements(t) : 1) * dtype_bytes(t->dtype);
    Instr *made = ir_build(b, i->op, ops, i->n_operands, (Attrs){ attrs, n }, NULL, 0);
    hand_over(p, i, made, w->m.result ? from_window(p, b, w, ir_result(made)) : NULL);
}

/* A value that differs between programs, into one window: one of the values is stored. */
static void store_one(Pack *p, Builder *b, Instr *i, const Window *w)
{
    Value *v = pack_value(p, b, w->m.values[0]);
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, v->type->shape, sizeof *shape * (size_t)v->type->rank);
    shape[0] = 1;
    v = ir_op(
        b, OP_SLICE, typed(p, w, v->type->rank, shape), ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_START, 0)), v);
    ir_set_operand(i, 1 + w->m.rank, ir_op(b, OP_RESHAPE, w->m.values[0]->type, NO_ATTRS, v));
    for (int a = 0; a < w->m.rank; a++) ir_set_operand(i, 1 + a, pack_form(p, w->m.idx[a]).base);
}

/* --- by indices -------------------------------------------------------------------------------------- */

/* A tile of [programs, extents...] in memory order that holds the positions along axis a of the tensor. */
static Value *positions(Pack *p, Builder *b, const Window *w, int a, const int64_t *shape, int rank)
{
    int kept[TILE_MAX_RANK], n = kept_axes(w, kept);
    int64_t box[TILE_MAX_RANK];
    const Type *all = type_tile(p->c->session, DT_INDEX, rank, shape);
    for (int k = 0; k < rank; k++) box[k] = 1;
    box[0] = p->n;
    Value *at = ir_cast(b, pack_value(p, b, w->m.idx[a]), DT_INDEX);
    at = ir_op(b, OP_RESHAPE, type_tile(p->c->session, DT_INDEX, rank, box), NO_ATTRS, at);
    at = ir_op(b, OP_BROADCAST, all, NO_ATTRS, at);
    for (int k = 0; k < n; k++) {
        if (kept[k] != a) continue;
        Value *l = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)),
            type_tile(p->c->session, DT_INDEX, 1, &w->e->v[a]));
        if (w->steps && w->steps->v[a] != 1) l = ir_bin(b, OP_MUL, l, build_int(b, l->type, w->steps->v[a]));
        box[0] = 1;
        box[k + 1] = w->e->v[a];
        l = ir_op(b, OP_RESHAPE, type_tile(p->c->session, DT_INDEX, rank, box), NO_ATTRS, l);
        at = ir_bin(b, OP_ADD, at, ir_op(b, OP_BROADCAST, all, NO_ATTRS, l));
    }
    return at;
}

/* A load as a gather, a store as a scatter or an atomic operation. */
static void window_by_indices(Pack *p, Builder *b, Instr *i, const Window *w)
{
    Value *ops[2 * TILE_MAX_RANK + 4];
    Attr attrs[ATTR_N_KEYS];
    int64_t shape[TILE_MAX_RANK] = { p->n }, order[TILE_MAX_RANK], back[TILE_MAX_RANK];
    int kept[TILE_MAX_RANK], rank = 1, n = 0, n_attrs = 0, axes = kept_axes(w, kept);
    for (int k = 0; k < axes; k++) shape[rank++] = w->e->v[kept[k]];
    Op op = i->op == OP_LOAD ? OP_GATHER : ir_adds(i) ? OP_ATOMIC_RMW : OP_SCATTER;
    order_from_memory(w, rank - 1, 0, order);
    ops[n++] = w->m.tensor;
    for (int a = 0; a < w->m.rank; a++) ops[n++] = positions(p, b, w, a, shape, rank);
    if (i->op == OP_STORE) {
        for (int a = 0; a < rank; a++) back[order[a]] = a;
        ops[n++] = pack_permuted(b, pack_value(p, b, w->m.values[0]), back);
    }
    if (p->runs && i->op == OP_LOAD) {
        ops[n++] = pack_condition(p, b, p->runs, type_tile(p->c->session, DT_INDEX, rank, shape));
        attrs[n_attrs++] = a_int(ATTR_HAS_MASK, 1);
    }
    if (w->m.pad) ops[n++] = w->m.pad;
    if (w->m.token) ops[n++] = w->m.token;
    for (int k = 0; k < i->n_attrs; k++) {
        AttrKey key = i->attrs[k].key;
        if (key == ATTR_HAS_PAD || key == ATTR_CACHE || (key == ATTR_RMW && op == OP_ATOMIC_RMW))
            attrs[n_attrs++] = i->attrs[k];
    }
    Instr *made = ir_build(b, op, ops, n, (Attrs){ attrs, n_attrs }, NULL, 0);
    const bool one = i->op == OP_LOAD && (!axes || type_elements(ir_result(i)->type) == 1);
    if (one) p->chosen++;
    else p->indexed++;
    hand_over(p, i, made, i->op == OP_LOAD ? pack_permuted(b, ir_result(made), order) : NULL);
}

/* Gathers, scatters and atomics have an index for each element already. */
static void indexed(Pack *p, Builder *b, Instr *i)
{
    Value *ops[2 * TILE_MAX_RANK + 4];
    MemParts m;
    ir_mem_parts(i, &m);
    bool masked = p->runs && i->op == OP_GATHER && m.mask; /* those that have finished gather nothing */
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        bool same = k == 0 || v == m.token || (v == m.pad && k == i->n_operands - 1 - (m.token != NULL));
        ops[k] = same ? v : pack_value(p, b, v);
        if (masked && v == m.mask)
            ops[k] = ir_bin(b, OP_AND, ops[k], pack_condition(p, b, p->runs, ops[k]->type));
    }
    Instr *made = ir_build(b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, NULL, 0);
    hand_over(p, i, made, m.result ? ir_result(made) : NULL);
}

void pack_access(Pack *p, Builder *b, Instr *i)
{
    Window w;
    if (i->op != OP_LOAD && i->op != OP_STORE) {
        indexed(p, b, i);
        return;
    }
    window_of(p, i, &w);
    if (w.kind == WINDOW_SAME && i->op == OP_STORE && !ir_adds(i)) store_one(p, b, i, &w);
    else if (w.kind == WINDOW_SAME || w.kind == WINDOW_INDEXED) window_by_indices(p, b, i, &w);
    else access_window(p, b, i, &w);
}

bool pack_of_windows(const Pack *p, int64_t bytes)
{
    enum { CHOSEN_BYTES = 128 }; /* of a tile beside each element whose place the program chooses */
    return !p->indexed && bytes >= (int64_t)p->chosen * CHOSEN_BYTES;
}
