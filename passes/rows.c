/* rows: lets a program that does one short row do several.
 *
 *   grid { yield %m }                                          grid { yield cdiv %m, 32 }
 *   %r = program_id                                            %r = mul program_id, 32
 *   %x = load %X[%r, 0] {extents = [-1, 128]}           ->     %x = load %X[%r, 0] {extents = [32, 128]}
 *   %s = reduce_sum %x {axis = 0} : f32[1]                     %s = reduce_sum %x {axis = 1} : f32[32, 1]
 *   %y = mul %x, broadcast %s                                  %y = mul %x, broadcast %s
 *   store %Y[%r, 0] = %y {extents = [-1, 128]}                 store %Y[%r, 0] = %y {extents = [32, 128]}
 *
 * A multiprocessor holds a limited number of CTAs (32), so that programs of one short row have too few
 * bytes in flight to keep memory busy; bench/NOTES.md has measurements. What depends on the program's
 * coordinate gets an axis in front, the rows. What does not (weights) is loaded once for all of them. Rows
 * past the end of a tensor load as zeros and their stores are dropped, as for any window.
 *
 * Requires: CUDA; a program without control flow, whose coordinate on the grid's first axis is only the
 * offset of windows that are one row there (`X[r, ..]` or `X[r +: 1, ..]`); the stored tensor's axis is as
 * long as the grid; only element-wise operations, reductions, stores, and loads of what is only read. It
 * runs before index arithmetic is narrowed and masks are settled. Keeps: every element, except that a
 * reduction may join a row's elements in another order. Does not handle: AMD, where nothing was measured;
 * CPUs, whose programs follow each other without a cost; kernels with hints for a cluster, a placement
 * (remap) or a written schedule, which are about programs as they are. */
#include "passes/pass.h"
#include "ir/layout.h"

enum {
    /* bench/NOTES.md, Behind the decisions, has the measurements. */
    MOST_BYTES = 1600, /* of a row: with longer rows, CTAs of one warp have enough loads in flight */
    LANE_BYTES = 64,   /* of the rows that a lane holds; half of it when vectors have 8 bytes */
    LANE_ELEMS = 32,   /* elements of the rows that a lane holds */
    MOST_ELEMS = 48,   /* the same when more elements give each warp whole rows, which saves a barrier */
    FEW_BYTES = 512,   /* shorter rows gain even if warps share rows */
    WARPS = 4,
    LANES = 32,
};

typedef struct Rows {
    PassContext *c;
    Func *f;
    Instr *id;
    int64_t n;            /* rows of a program */
    int64_t bytes, elems; /* of the widest row */
    int elem_bytes;
    bool *varies; /* by the mark of the instruction: its result differs between programs */
    ValueMap map;
} Rows;

static bool varies(const Rows *r, const Value *v)
{ return v->def && v->def->block == r->f->body && r->varies[v->def->mark]; }

/* The axis of a memory operation that is the coordinate, in front of all axes of its tile; -1: none, -2: one
 * that is of no use. */
static int row_axis(const Rows *r, const Instr *i, const MemParts *m)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int axis = -1;
    for (int a = 0; a < m->rank; a++) {
        if (m->idx[a]->def == r->id) {
            if (axis >= 0 || !e || (e->v[a] != -1 && e->v[a] != 1)) return -2;
            axis = a;
        } else if (varies(r, m->idx[a])) return -2;
    }
    for (int a = 0; a < axis; a++)
        if (e->v[a] != -1) return -2;
    return axis;
}

/* Whether there are as many programs along the grid's first axis as the tensor's axis has rows. Otherwise
 * rows after those of the last program would be stored, which no program stored before. */
static bool grid_is_axis(const Rows *r, int param, int axis)
{
    const Value *n = ir_operand(ir_terminator(r->f->grid), 0);
    int dim = r->f->params[param].dims[axis];
    int64_t c;
    if (n->def && n->def->op == OP_DIM) return ir_attr_int(n->def, ATTR_DIM, -1) == dim;
    return ir_is_const(n, &c) && c == r->f->dims[dim].extent;
}

static bool may_access(Rows *r, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m) || m.mask || m.pad || ir_attr(i, ATTR_ORDER) || ir_attr(i, ATTR_STEPS))
        return false;
    int axis = row_axis(r, i, &m);
    if (i->op == OP_STORE && m.values[0]->def == r->id) return false;
    if (axis == -2 || (i->op == OP_STORE && (axis < 0 || !grid_is_axis(r, m.param, axis))) ||
        (i->op == OP_LOAD && (r->f->params[m.param].kind != PARAM_IN || i->n_results != 1)))
        return false;
    const Type *t = i->op == OP_LOAD ? m.result->type : m.values[0]->type;
    int64_t elems = t->kind == TYPE_TILE ? type_elements(t) : 1;
    if (t->kind == TYPE_TILE && t->rank == TILE_MAX_RANK) return false;
    if (axis < 0) return true;
    r->varies[i->mark] = true;
    if (elems > r->elems) r->elems = elems;
    if (elems * dtype_bytes(t->dtype) > r->bytes) {
        r->bytes = elems * dtype_bytes(t->dtype);
        r->elem_bytes = dtype_bytes(t->dtype);
    }
    return true;
}

static bool may(Rows *r, const Instr *i)
{
    bool any = false;
    for (int k = 0; k < i->n_operands; k++) any |= varies(r, ir_operand(i, k));
    if (i->op == OP_LOAD || i->op == OP_STORE) return may_access(r, i);
    if (i->op == OP_PROGRAM_ID) return i == r->id || ir_attr_int(i, ATTR_AXIS, 0) != 0;
    if (i->op == OP_TOKEN || i->op == OP_RETURN) return true;
    bool by_row = op_family(i->op) == OPS_REDUCE || op_family(i->op) == OPS_ARG || i->op == OP_SPLAT ||
                  i->op == OP_BROADCAST;
    if (!by_row && !any && op_is_pure(i->op) && !i->n_blocks && i->op != OP_NUM_PROGRAMS) return true;
    if (!by_row && (!op_is_elementwise(i->op) || i->n_results != 1)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->def == r->id) return false;
    r->varies[i->mark] = any;
    return ir_result(i)->type->rank < TILE_MAX_RANK;
}

/* The type of a value of which there are n. */
static const Type *several(const Rows *r, const Type *t)
{
    int64_t shape[TILE_MAX_RANK] = { r->n };
    int rank = t->kind == TYPE_TILE ? t->rank : 0;
    for (int a = 0; a < rank; a++) shape[a + 1] = t->shape[a];
    return type_tile(r->c->session, t->dtype, rank + 1, shape);
}

/* A tile or scalar, one axis in front: [n, ...] of it, the same for each row. */
static Value *spread(const Rows *r, Builder *b, Value *v)
{
    const Type *all = several(r, v->type);
    int64_t shape[TILE_MAX_RANK];
    if (v->type->kind != TYPE_TILE) return ir_splat(b, v, all->rank, all->shape);
    if (v->def && v->def->op == OP_SPLAT) return ir_splat(b, ir_operand(v->def, 0), all->rank, all->shape);
    memcpy(shape, all->shape, sizeof *shape * (size_t)all->rank);
    shape[0] = 1;
    Value *one =
        ir_op(b, OP_RESHAPE, type_tile(r->c->session, v->type->dtype, all->rank, shape), NO_ATTRS, v);
    return ir_op(b, OP_BROADCAST, all, NO_ATTRS, one);
}

static Value *of_rows(Rows *r, Builder *b, Value *v)
{ return varies(r, v) ? value_map_get(&r->map, v) : spread(r, b, v); }

/* [n, 1, ...] as [n, ...], or back: of a window X[%r +: 1, ...] the one row's axis becomes the rows'. */
static Value *without_one(Rows *r, Builder *b, Value *v)
{
    int64_t shape[TILE_MAX_RANK] = { r->n };
    for (int a = 2; a < v->type->rank; a++) shape[a - 1] = v->type->shape[a];
    return ir_op(
        b, OP_RESHAPE, type_tile(r->c->session, v->type->dtype, v->type->rank - 1, shape), NO_ATTRS, v);
}

static void access(Rows *r, Builder *b, Instr *i)
{
    MemParts m;
    Value *ops[2 * TILE_MAX_RANK + 4];
    int64_t extents[TILE_MAX_RANK];
    Attr attrs[ATTR_N_KEYS];
    int n = 0;
    ir_mem_parts(i, &m);
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int axis = row_axis(r, i, &m);
    bool one = axis >= 0 && e->v[axis] == 1;
    for (int a = 0; a < m.rank; a++) extents[a] = a == axis ? r->n : e->v[a];
    for (int k = 0; k < i->n_attrs; k++)
        attrs[n++] = i->attrs[k].key == ATTR_EXTENTS ? a_ints(ATTR_EXTENTS, extents, m.rank) : i->attrs[k];
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        ops[k] = v == m.values[0] ? of_rows(r, b, v) : value_map_get(&r->map, v);
        if (v == m.values[0] && one) ops[k] = without_one(r, b, ops[k]);
    }
    Instr *made = ir_build(b, i->op, ops, i->n_operands, (Attrs){ attrs, n }, NULL, 0);
    for (int k = 0; k < i->n_results; k++) {
        ir_set_name(&made->results[k], i->results[k].name);
        Value *x = &made->results[k];
        if (one && is_tile(x)) x = ir_op(b, OP_RESHAPE, several(r, i->results[k].type), NO_ATTRS, x);
        value_map_set(&r->map, &i->results[k], x);
    }
}

static Value *made_of(Rows *r, Builder *b, Instr *i)
{
    Value *ops[4], *x = ir_operand(i, 0);
    Attr attrs[ATTR_N_KEYS];
    const Type *t = several(r, ir_result(i)->type);
    if (i->op == OP_BROADCAST) return ir_op(b, OP_BROADCAST, t, NO_ATTRS, of_rows(r, b, x));
    if (i->op == OP_SPLAT) {
        int64_t shape[TILE_MAX_RANK] = { r->n };
        for (int a = 1; a < t->rank; a++) shape[a] = 1;
        Value *one = ir_op(
            b, OP_RESHAPE, type_tile(r->c->session, t->dtype, t->rank, shape), NO_ATTRS, of_rows(r, b, x));
        return ir_op(b, OP_BROADCAST, t, NO_ATTRS, one);
    }
    bool reduces = !(op_info[i->op].flags & OPF_ELEM);
    for (int k = 0; k < i->n_attrs; k++) {
        attrs[k] = i->attrs[k];
        if (reduces && attrs[k].key == ATTR_AXIS) attrs[k].i++;
    }
    for (int k = 0; k < i->n_operands; k++) ops[k] = of_rows(r, b, ir_operand(i, k));
    return ir_emit(b, i->op, ops, i->n_operands, (Attrs){ attrs, i->n_attrs }, reduces ? NULL : t);
}

static void rewrite(Rows *r)
{
    InstrList stores = { 0 };
    Builder b = ir_after(r->id);
    Value *first = ir_op(&b, OP_MUL, NULL, NO_ATTRS, ir_result(r->id), ir_index(&b, r->n));
    Instr *end = ir_terminator(r->f->body);
    value_map_init(&r->map, r->c->scratch);
    value_map_set(&r->map, ir_result(r->id), first);
    for (Instr *i = r->f->body->first, *next; i != end; i = next) {
        next = i->next;
        if (!i->mark || i == r->id || !r->varies[i->mark]) continue;
        b = ir_before(i);
        b.loc = i->loc;
        if (i->op == OP_LOAD || i->op == OP_STORE) access(r, &b, i);
        else {
            Value *v = made_of(r, &b, i);
            ir_set_name(v, ir_result(i)->name);
            value_map_set(&r->map, ir_result(i), v);
        }
        if (i->op == OP_STORE) vec_push(r->c->scratch, &stores, i);
    }
    for (size_t k = stores.len; k-- > 0;) ir_erase(stores.data[k]);
    ir_sweep(r->f->body);
    Instr *grid = ir_terminator(r->f->grid);
    b = ir_before(grid);
    ir_set_operand(grid, 0, ir_bin(&b, OP_CDIV, ir_operand(grid, 0), ir_index(&b, r->n)));
}

/* Whether warps would share rows, in the layout of tiles that are read in vectors. */
static bool shared_rows(const Rows *r, int warps)
{
    int32_t tile[2] = { (int32_t)r->n, (int32_t)(r->bytes / r->elem_bytes) }, order[2] = { 1, 0 },
            at[TILE_MAX_RANK];
    const Layout *l = layout_coalesced(r->c->scratch, 2, tile, order, r->elem_bytes, 16, LANES, warps);
    for (int w = 1; l && w < warps; w *= 2) {
        layout_element(l, 0, 0, (uint32_t)w, 0, at);
        if (at[1]) return true;
    }
    return false;
}

static void choose_rows(Rows *r)
{
    int warps = r->f->hints.warps > 0 ? r->f->hints.warps : WARPS;
    int64_t lanes = (int64_t)warps * LANES,
            bytes = lanes * (r->bytes % 16 == 8 ? LANE_BYTES / 2 : LANE_BYTES);
    for (r->n = 1; r->n * 2 * r->bytes <= bytes && r->n * 2 * r->elems <= lanes * LANE_ELEMS;) r->n *= 2;
    int64_t n = r->n;
    bool whole = r->bytes % 16 != 0; /* such rows have another layout, in which a warp has whole rows */
    while (!(whole = whole || !shared_rows(r, warps)) && r->n * 2 * r->elems <= lanes * MOST_ELEMS) r->n *= 2;
    if (!whole) r->n = r->bytes < FEW_BYTES ? n : 1; /* else the rows are too long to share */
    if (r->n > 1) r->f->hints.warps = warps;
}

static bool rows_func(PassContext *c, Func *f)
{
    Rows r = { .c = c, .f = f };
    uint32_t n = 1;
    if (!f->is_kernel || !f->grid || f->remap || f->hints.remap || f->hints.schedule || f->hints.cluster > 1)
        return false;
    for (Instr *i = f->body->first; i; i = i->next) {
        if (i->n_blocks) return false;
        i->mark = n++;
        if (i->op != OP_PROGRAM_ID || ir_attr_int(i, ATTR_AXIS, 0) != 0) continue;
        if (r.id) return false; /* cse leaves one */
        r.id = i;
    }
    if (!r.id) return false;
    r.varies = arena_array(c->scratch, bool, n);
    r.varies[r.id->mark] = true;
    for (const Instr *i = f->body->first; i; i = i->next)
        if (!may(&r, i)) return false;
    if (!r.elems || r.bytes > MOST_BYTES) return false;
    choose_rows(&r);
    if (r.n == 1) return false;
    rewrite(&r);
    pass_count(c, "rows a program", r.n);
    return true;
}

bool pass_rows(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind == TARGET_CUDA && pass_each_func(c, m, rows_func);
}
