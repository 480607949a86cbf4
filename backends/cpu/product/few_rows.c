/* few_rows.c: programs that have only a few of their rows inside the output. Tile IR before the plan is made:
 *
 *     a = load A[i, k] [128, 64]                 if M - i <= 1 { .. with tiles of one row .. }
 *     acc = mma(a, b, acc)                ->     else if M - i <= 4 { .. of 4 rows .. }
 *     store C[i, j] = acc [128, 128]             else { as before }
 *
 * A store does not write rows beyond the end of the tensor. If each row of the stored tile is computed from
 * the same row of other tiles, those rows need not be computed either. If this does not hold for rows, the
 * file tries columns. A product of few rows takes no longer than it takes to pack B, which thin.c does not
 * do.
 *
 * A kernel is left as it is if it has several stores or other effects, or computes rows from other rows. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/plan/plan.h"

static const int64_t sizes[] = { 1, 4, 16 };
enum {
    N_SIZES = sizeof sizes / sizeof *sizes,
    LEAST_GAIN = 4, /* a version has at most so small a part of the rows */
    MAX_DEPTH = 64,
};

typedef struct Few {
    Session *session;
    Func *f;
    Instr *store;
    int64_t rows; /* of the tiles as written */
    int *axis;    /* by value: the axis of its rows + 1; 0: the value has none */
    VEC(Value *) marked;
    bool products;
} Few;

static bool mark(Few *w, Value *v, int axis, int depth);

static bool mark_carried(Few *w, Instr *loop, int k, int axis, int depth)
{
    const Block *body = loop->blocks[0];
    return mark(w, &loop->results[k], axis, depth) && mark(w, body->args[k + 1], axis, depth) &&
           mark(w, ir_operand(loop, k + 3), axis, depth) && mark(w, ir_operand(body->last, k), axis, depth);
}

/* The axis of the reshape's operand that is axis `axis` of its result, where it moves nothing; -1. */
static int axis_before_reshape(const Instr *i, int axis)
{
    const Type *from = ir_operand(i, 0)->type, *to = ir_result(i)->type;
    int n = 0;
    if (from->kind != TYPE_TILE || !plan_same_squeezed(from, to)) return -1;
    for (int a = 0; a < axis; a++) n += to->shape[a] != 1;
    for (int a = 0; a < from->rank; a++)
        if (from->shape[a] != 1 && n-- == 0) return a;
    return -1;
}

static bool mark_shape(Few *w, const Instr *i, int axis, int depth)
{
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return true;
    case SHAPE_BROADCAST: {
        Value *x = ir_operand(i, 0);
        return x->type->shape[axis] == 1 || mark(w, x, axis, depth);
    }
    case SHAPE_PERMUTE: return mark(w, ir_operand(i, 0), (int)ir_attr(i, ATTR_ORDER)->v[axis], depth);
    case SHAPE_RESHAPE: {
        int before = axis_before_reshape(i, axis);
        return before >= 0 && mark(w, ir_operand(i, 0), before, depth);
    }
    case SHAPE_ARANGE:
    case SHAPE_SLICE:
    case SHAPE_CONCAT: break;
    }
    return false;
}

/* What the rows of the instruction's result are computed from. */
static bool mark_sources(Few *w, Value *v, int axis, int depth)
{
    const Instr *i = v->def;
    if (i->op == OP_FOR) return mark_carried(w, v->def, v->index, axis, depth);
    if (i->op == OP_LOAD) return i->n_results == 1;
    if (i->op == OP_MMA) {
        w->products = true;
        return mark(w, ir_operand(i, axis), axis, depth) && mark(w, ir_operand(i, 2), axis, depth);
    }
    if (op_family(i->op) == OPS_SHAPE) return mark_shape(w, i, axis, depth);
    if (!op_is_elementwise(i->op)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE && !mark(w, ir_operand(i, k), axis, depth))
            return false;
    return true;
}

/* Marks `v`, whose rows lie along `axis`, and all tiles from which they are computed. False: the rows depend
 * on other rows. */
static bool mark(Few *w, Value *v, int axis, int depth)
{
    if (w->axis[v->id]) return w->axis[v->id] == axis + 1;
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] != w->rows || depth > MAX_DEPTH) return false;
    w->axis[v->id] = axis + 1;
    vec_push(&w->session->arena, &w->marked, v);
    if (v->def) return mark_sources(w, v, axis, depth + 1);
    Instr *loop = v->block->parent;
    return loop && loop->op == OP_FOR && v->index > 0 && mark_carried(w, loop, v->index - 1, axis, depth + 1);
}

/* Whether rows of the marked value `v` are used as rows of the marked result `to`: not along K of a product,
 * and not as what a broadcast repeats. */
static bool as_rows(const Few *w, const Use *u, const Value *v, const Value *to)
{
    int k = (int)(u - u->user->operands), axis = w->axis[to->id] - 1;
    if (u->user->op == OP_MMA && k < 2 && k != axis) return false;
    return u->user->op != OP_BROADCAST || w->axis[v->id] == axis + 1;
}

/* Rows of a marked value go to marked values, or out. */
static bool all_uses_marked(const Few *w)
{
    for (size_t k = 0; k < w->marked.len; k++)
        for (const Use *u = w->marked.data[k]->uses; u; u = u->next) {
            const Instr *i = u->user;
            const Value *to = i->n_results ? ir_result(i) : NULL;
            if (i->op == OP_YIELD && i->block->parent) to = &i->block->parent->results[u - i->operands];
            if (i->op == OP_FOR) to = u >= &i->operands[3] ? &i->results[u - &i->operands[3]] : NULL;
            if (i == w->store) continue;
            if (!to || !w->axis[to->id] || !as_rows(w, u, w->marked.data[k], to)) return false;
        }
    return true;
}

/* What is in each version, and not in front of them. */
static bool is_versioned(const Instr *i)
{ return i->op == OP_STORE || i->n_blocks || (i->n_results && ir_result(i)->type->kind == TYPE_TILE); }

static bool writes(const void *store, const Instr *i)
{ return i != store && (op_has(i->op, OPF_WRITE) || i->op == OP_ASSERT || i->op == OP_PRINT); }

/* The only effect of the kernel is one store, and what is not versioned needs nothing of what is. */
static bool find_store(Few *w)
{
    const Block *b = w->f->body;
    for (Instr *i = b->first; i != b->last; i = i->next) {
        if (i->op == OP_STORE) w->store = i;
        for (int k = 0; k < i->n_operands && !is_versioned(i); k++) {
            const Instr *from = ir_operand(i, k)->def;
            if (from && is_versioned(from)) return false;
        }
    }
    MemParts m;
    if (!w->store || ir_any_in(b, writes, w->store) || !ir_mem_parts(w->store, &m)) return false;
    return !ir_adds(w->store) && !ir_is_used(w->store) && !ir_attr(w->store, ATTR_STEPS) &&
           b->last->n_operands == 0 && m.values[0]->type->kind == TYPE_TILE;
}

/* The tensor's axis along which tile axis `axis` of a load or store lies. */
static int tensor_axis(const Instr *i, int axis)
{
    const Attr *extents = ir_attr(i, ATTR_EXTENTS), *order = ir_attr(i, ATTR_ORDER);
    int axes[TILE_MAX_RANK], n = 0;
    for (int a = 0; a < extents->n; a++)
        if (extents->v[a] != -1) axes[n++] = a;
    return axes[order ? order->v[axis] : axis];
}

/* --- versions ---------------------------------------------------------------------------------------- */

static void set_extent(Few *w, Instr *i, int axis, int64_t n)
{
    int64_t extents[TILE_MAX_RANK];
    Attr a = *ir_attr(i, ATTR_EXTENTS);
    memcpy(extents, a.v, (size_t)a.n * sizeof *extents);
    extents[axis] = n;
    a.v = extents;
    ir_set_attr(w->session, i, a);
}

/* Gives the copy of a marked value `rows` rows. */
static void shrink(Few *w, const ValueMap *map, Value *old, int64_t rows)
{
    Value *v = value_map_get(map, old);
    int axis = w->axis[old->id] - 1;
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, v->type->shape, (size_t)v->type->rank * sizeof *shape);
    shape[axis] = rows;
    v->type = type_tile(w->session, v->type->dtype, v->type->rank, shape);
    if (v->def && v->def->op == OP_LOAD) set_extent(w, v->def, tensor_axis(v->def, axis), rows);
}

/* The loop of the edge follows one whose windows are known to be in range. In a version of few rows it does
 * the work of both, as what is in range differs. */
static void join_loops(Instr *edge)
{
    if (edge->op != OP_FOR || !ir_loop_is(edge, LOOP_EDGE)) return;
    Instr *before =
        ir_operand(edge, 0) == ir_operand(edge, 1) || edge->n_results == 0 ? NULL : ir_operand(edge, 3)->def;
    if (!before || before->op != OP_FOR || before->n_results != edge->n_results) return;
    if (ir_operand(before, 1) != ir_operand(edge, 0)) return;
    for (int k = 0; k < edge->n_results; k++)
        if (ir_operand(edge, k + 3) != &before->results[k]) return;
    ir_set_operand(edge, 0, ir_operand(before, 0));
    for (int k = 0; k < edge->n_results; k++) ir_set_operand(edge, k + 3, ir_operand(before, k + 3));
    ir_del_attr(edge, ATTR_LOOP);
    if (!ir_is_used(before)) ir_erase(before);
}

static void copy_into(Few *w, Block *to, const Instr *until, int64_t rows)
{
    Builder b = ir_at_end(to);
    ValueMap map;
    value_map_init(&map, &w->session->arena);
    for (const Instr *i = w->f->body->first; i != until; i = i->next)
        if (is_versioned(i)) ir_clone(&b, i, &map);
    for (size_t k = 0; k < w->marked.len; k++) shrink(w, &map, w->marked.data[k], rows);
    Instr *store = to->last;
    while (store->op != OP_STORE) store = store->prev;
    MemParts m;
    ir_mem_parts(w->store, &m);
    set_extent(w, store, tensor_axis(w->store, w->axis[m.values[0]->id] - 1), rows);
    for (Instr *i = to->first, *next; i; i = next) {
        next = i->next;
        join_loops(i);
    }
    ir_build(&b, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

/* Moves what is versioned to the end of the block `to`. */
static void move_into(Few *w, Block *to, const Instr *until)
{
    Builder b = ir_at_end(to);
    for (Instr *i = w->f->body->first, *next; i != until; i = next) {
        next = i->next;
        if (!is_versioned(i)) continue;
        ir_unlink(i);
        ir_place(&b, i);
    }
    ir_build(&b, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

static void make_versions(Few *w, int axis)
{
    MemParts m;
    ir_mem_parts(w->store, &m);
    Builder b = ir_before(w->f->body->last);
    Attrs dim = ATTRS(a_int(ATTR_DIM, w->f->params[m.param].dims[axis]));
    Value *extent = ir_cast(&b, ir_emit(&b, OP_DIM, NULL, 0, dim, NULL), DT_I64);
    Value *left = ir_bin(&b, OP_SUB, extent, ir_cast(&b, m.idx[axis], DT_I64));
    Instr *outer = NULL;
    Block *made[N_SIZES];
    int n = 0;
    for (; n < N_SIZES && sizes[n] * LEAST_GAIN <= w->rows; n++) {
        Value *few = ir_bin(&b, OP_LE, left, ir_const_int(&b, DT_I64, sizes[n]));
        Instr *i = ir_build(&b, OP_IF, &few, 1, NO_ATTRS, NULL, 0);
        if (!outer) outer = i;
        made[n] = i->blocks[0];
        Block *other = i->blocks[1];
        b = ir_at_end(other);
    }
    for (int k = 0; k < n; k++) copy_into(w, made[k], outer, sizes[k]);
    move_into(w, b.block, outer);
    for (Block *o = b.block->parent->block; o != w->f->body; o = o->parent->block) {
        Builder end = ir_at_end(o);
        ir_build(&end, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    }
}

/* Marks what the rows of the stored tile, which lie along `axis`, are computed from. */
static bool mark_stored(Few *w, int axis)
{
    MemParts m;
    ir_mem_parts(w->store, &m);
    w->rows = m.values[0]->type->shape[axis];
    w->axis = arena_array(&w->session->arena, int, w->f->module->next_id);
    w->marked.len = 0;
    w->products = false;
    return mark(w, m.values[0], axis, 0) && w->products && all_uses_marked(w);
}

/* Whether the kernel has products whose rows along this axis of the stored tile may be fewer. */
static bool may_be_fewer(Few *w, int axis)
{
    MemParts m;
    ir_mem_parts(w->store, &m);
    int64_t rows = m.values[0]->type->shape[axis];
    if (rows < sizes[0] * LEAST_GAIN ||
        w->f->dims[w->f->params[m.param].dims[tensor_axis(w->store, axis)]].extent >= rows)
        return false;
    return mark_stored(w, axis);
}

void cpu_few_rows(Session *s, Func *f)
{
    Few w = { .session = s, .f = f };
    MemParts m;
    if (!find_store(&w)) return;
    ir_mem_parts(w.store, &m);
    const Type *t = m.values[0]->type;
    if (t->rank < 2) return;
    int axis = t->rank - 2;
    if (!may_be_fewer(&w, axis) && !may_be_fewer(&w, ++axis)) return;
    make_versions(&w, tensor_axis(w.store, axis));
}

/* --- unseen rows ------------------------------------------------------------------------------------- */

/* Whether axis `axis` of the product's operand is a window that ends where that of the stored tile does. */
static bool ends_alike(const Few *w, const Instr *mma, int axis, int stored)
{
    MemParts of_store, of_load;
    int operand = axis;
    const Instr *i = ir_operand(mma, operand)->def;
    for (; i && (i->op == OP_PERMUTE || i->op == OP_CAST); i = ir_operand(i, 0)->def)
        if (i->op == OP_PERMUTE) axis = (int)ir_attr(i, ATTR_ORDER)->v[axis];
    if (!i || i->op != OP_LOAD || !ir_mem_parts(i, &of_load) || ir_attr(i, ATTR_STEPS)) return false;
    ir_mem_parts(w->store, &of_store);
    int a = tensor_axis(i, axis), b = tensor_axis(w->store, stored);
    return of_load.idx[a] == of_store.idx[b] &&
           w->f->params[of_load.param].dims[a] == w->f->params[of_store.param].dims[b];
}

/* Whether sums are carried from one place of the window `i` to the next, whose end is another. */
static bool carried_between(const Few *w, const Value *i)
{
    for (const Block *b = plan_block_of(i); b && b->parent; b = b->parent->block)
        for (int k = 0; k < b->n_args; k++)
            if (w->axis[b->args[k]->id]) return true;
    return false;
}

void plan_unseen(Plan *p)
{
    InstrList stores = { 0 };
    ir_collect(p->arena, p->func->body, OP_STORE, &stores);
    for (size_t k = 0; k < stores.len; k++) {
        MemParts m;
        Few w = { .session = p->session, .f = p->func, .store = stores.data[k] };
        if (!ir_mem_parts(w.store, &m) || m.values[0]->type->kind != TYPE_TILE || ir_adds(w.store) ||
            ir_attr(w.store, ATTR_STEPS))
            continue;
        for (int axis = 0; axis < m.values[0]->type->rank; axis++) {
            if (!mark_stored(&w, axis) || carried_between(&w, m.idx[tensor_axis(w.store, axis)])) continue;
            for (size_t j = 0; j < w.marked.len; j++) {
                Value *v = w.marked.data[j];
                int at = w.axis[v->id] - 1;
                if (v->def && v->def->op == OP_MMA && ends_alike(&w, v->def, at, axis))
                    plan_info(p, v)->unseen |= 1 << at;
            }
        }
    }
}
