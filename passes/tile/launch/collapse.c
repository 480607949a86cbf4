/* collapse: two axes along which a kernel treats all elements alike become one.
 *
 *   dim M = 1 ; dim N ; grid { yield cdiv %N, 256 ; const 1 }      grid { yield cdiv %N, 2048 ; const 1 }
 *   %j = mul program_id 0, 256                                     %j = mul program_id 0, 2048
 *   %x = load %X[0, %j] {extents = [8, 256]} : f16[8, 256]    ->   %x = load %X[0, %j] {extents = [1, 2048]}
 *   %y = exp %x                                                    %y = exp %x : f16[1, 2048]
 *   store %Y[0, %j] = %y {extents = [8, 256]}                      store %Y[0, %j] = %y {extents = [1, 2048]}
 *
 * Where rows follow each other without a gap, M rows of N elements are also one row of M * N. A launch gives
 * its tensors that way (runtime/launch/collapse.c) if axes_collapse proves that the kernel computes the same:
 * then no row has an end inside of a tile, and all vectors are aligned. The pass gives tiles that were meant
 * for several rows the elements of one.
 *
 * The proof: every access to a tensor with one of the two axes has both, next to each other, at
 * (program * tile) along each, and the grid has exactly the programs that cover them. What is loaded there is
 * used by element-wise operations, by gathers as index, and by stores to the same places, beside values that
 * are the same for all elements. Nothing else depends on the two coordinates, on the extents, on strides of
 * these tensors or on the number of programs, and nothing else is written. So each element of a result is
 * computed once, from the elements at the same place, whatever the extents.
 *
 * Requires: specialize before it; the extent of the outer axis known to be 1. Keeps: everything. Does not
 * handle: loops and ifs around such accesses, operands that have one of the axes (a bias), steps and orders
 * of loads, atomics, a remap by an expression, a written schedule. */
#include "passes/tile/launch/collapse.h"

enum { OUTER, INNER, MOST_ELEMENTS = 1 << 20 };

typedef struct Proof {
    const Func *f;
    Facts *facts;
    AxisPair pair;
    bool *place, *of_pair,
        *even; /* by id: depends on the place; differs by element of the pair; alike for all */
    bool divided, seen, written, fails;
    const Type *tile; /* of values of the pair */
} Proof;

/* --- the signature ------------------------------------------------------------------------------------- */

/* The axis of the parameter that the outer dimension is, with the inner one behind it; -1: it has neither.
 * -2: it has them otherwise. */
static int outer_axis(const Func *f, const AxisPair *p, int param)
{
    const Param *q = &f->params[param];
    int found = -1;
    if (q->kind == PARAM_SCALAR) return -1;
    for (int a = 0; a < q->type->rank; a++) {
        bool outer = q->dims[a] == p->outer, behind = a > 0 && q->dims[a - 1] == p->outer;
        if (outer && found != -1) return -2;
        if (outer) found = a;
        if ((q->dims[a] == p->inner) != behind) return -2;
    }
    return found >= 0 && found + 1 == q->type->rank ? -2 : found;
}

static bool signature_fits(const Func *f, const AxisPair *p)
{
    bool any = false;
    for (int k = 0; k < f->n_params; k++) {
        int axis = outer_axis(f, p, k);
        if (axis == -2) return false;
        any |= axis >= 0;
    }
    return any;
}

/* Whether the instruction gives what a launch that collapses the axes changes. */
static bool gives_place(const Proof *p, const Instr *i)
{
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0), dim = ir_attr_int(i, ATTR_DIM, -1);
    bool divided = axis == p->pair.grid[OUTER] || axis == p->pair.grid[INNER];
    if (i->op == OP_DIM) return dim == p->pair.outer || dim == p->pair.inner;
    if (i->op == OP_STRIDE) return outer_axis(p->f, &p->pair, (int)ir_attr_int(i, ATTR_PARAM, 0)) >= 0;
    if (i->op == OP_NUM_PROGRAMS) return axis < 0 || divided;
    return i->op == OP_PROGRAM_ID && divided;
}

static bool place_in(const void *proof, const Instr *i) { return gives_place(proof, i); }

static bool mentions(const Proof *p, const Value *v)
{
    if (!v->def) return false;
    if (gives_place(p, v->def)) return true;
    for (int k = 0; k < v->def->n_operands; k++)
        if (mentions(p, ir_operand(v->def, k))) return true;
    return false;
}

/* --- the grid ------------------------------------------------------------------------------------------ */

/* Whether the grid's extent is exactly as many tiles as cover the dimension. */
static bool covers(const Func *f, const Value *programs, int dim, int64_t tile)
{
    int64_t n, t, extent = f->dims[dim].extent;
    const Instr *i = programs->def;
    if (ir_is_const(programs, &n)) return extent >= 0 && n == (extent + tile - 1) / tile;
    if (!i) return false;
    if (i->op == OP_DIM) return tile == 1 && ir_attr_int(i, ATTR_DIM, -1) == dim;
    if (i->op != OP_CDIV || !ir_is_const(ir_operand(i, 1), &t) || t != tile) return false;
    i = ir_operand(i, 0)->def;
    return i && i->op == OP_DIM && ir_attr_int(i, ATTR_DIM, -1) == dim;
}

/* Along the axis of the grid that the window's index names, programs have `tile` elements each. */
static bool divides(Proof *p, Value *index, int which, int64_t tile)
{
    Affine form;
    int dim = which == OUTER ? p->pair.outer : p->pair.inner, grid = -1;
    int64_t extent = p->f->dims[dim].extent;
    if (!affine_of(p->facts, index, &form) || form.constant) return false;
    if (form.n == 1) {
        const Instr *id = form.terms[0].atom->def;
        if (!id || id->op != OP_PROGRAM_ID || form.terms[0].coef != tile) return false;
        grid = (int)ir_attr_int(id, ATTR_AXIS, 0);
        Value *programs = grid_extent(p->f, grid);
        if (!programs || !covers(p->f, programs, dim, tile)) return false;
    } else if (form.n || extent < 0 || extent > tile) return false;
    if (p->divided && (p->pair.grid[which] != grid || p->pair.tile[which] != tile)) return false;
    p->pair.grid[which] = grid;
    p->pair.tile[which] = tile;
    return true;
}

/* --- accesses ------------------------------------------------------------------------------------------ */

static bool is_plain(const Proof *p, const Value *v) { return !p->place[v->id] && !p->of_pair[v->id]; }

static bool is_even(const Proof *p, const Value *v)
{ return is_plain(p, v) && (!is_tile(v) || p->even[v->id]); }

/* A load or store at the program's own places. */
static bool own_window(Proof *p, const Instr *i, const MemParts *m, int axis)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    if ((i->op != OP_LOAD && i->op != OP_STORE) || !e || ir_adds(i) || ir_attr(i, ATTR_STEPS) ||
        ir_attr(i, ATTR_ORDER) || m->mask || (m->pad && !is_even(p, m->pad)))
        return false;
    int at = 0;
    for (int a = 0; a < m->rank; a++) {
        int64_t n = e->v[a] < 0 ? 1 : e->v[a];
        bool of_pair = a == axis || a == axis + 1;
        at += a < axis && e->v[a] >= 0;
        if (of_pair ? !divides(p, m->idx[a], a == axis ? OUTER : INNER, n) : !is_plain(p, m->idx[a]))
            return false;
    }
    if (e->v[axis] < 0 || e->v[axis + 1] < 0) at = -1;
    const Type *t = (m->result ? m->result : m->values[0])->type;
    if (p->seen && (p->pair.at != at || t->rank != p->tile->rank || !type_same_shape(t, p->tile)))
        return false;
    p->pair.at = at;
    p->tile = p->pair.shape = t;
    p->seen = true;
    if (i->op == OP_STORE && !p->of_pair[m->values[0]->id] && !is_even(p, m->values[0])) return false;
    if (m->result) p->of_pair[m->result->id] = true;
    p->written |= i->op == OP_STORE;
    return true;
}

/* An access to another tensor: a read of the same for all programs, or a gather by elements of the pair. */
static bool other_access(Proof *p, const Instr *i, const MemParts *m)
{
    bool plain = true, alike = true;
    if (op_has(i->op, OPF_WRITE)) return false;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (p->place[v->id]) return false;
        plain &= !p->of_pair[v->id];
        alike &= !type_is_value(v->type) || p->of_pair[v->id] || is_even(p, v);
    }
    if (plain) return true;
    if (i->op != OP_GATHER || !alike) return false;
    p->of_pair[m->result->id] = true;
    return true;
}

/* --- the body ------------------------------------------------------------------------------------------ */

static bool look_at(Proof *p, const Instr *i)
{
    MemParts m;
    bool place = gives_place(p, i), of_pair = false, even = true;
    if (ir_mem_parts(i, &m)) {
        int axis = outer_axis(p->f, &p->pair, m.param);
        return axis < 0 ? other_access(p, i, &m) : !i->block->parent && own_window(p, i, &m, axis);
    }
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        place |= p->place[v->id];
        of_pair |= p->of_pair[v->id];
        even &= is_even(p, v);
    }
    if (op_has(i->op, OPF_WRITE)) return false;
    if (place || of_pair) {
        if (!op_is_pure(i->op) || i->n_blocks || (place && of_pair) || i->block->parent) return false;
        for (int k = 0; of_pair && k < i->n_operands; k++)
            if (!op_is_elementwise(i->op) ||
                (!p->of_pair[ir_operand(i, k)->id] && !is_even(p, ir_operand(i, k))))
                return false;
    }
    even &= i->op == OP_SPLAT || op_is_elementwise(i->op);
    for (int k = 0; k < i->n_results; k++) {
        p->place[i->results[k].id] = place;
        p->of_pair[i->results[k].id] = of_pair;
        p->even[i->results[k].id] = even && !place && !of_pair;
    }
    return true;
}

static void visit(void *proof, Instr *i)
{
    Proof *p = proof;
    if (!p->fails) p->fails = !look_at(p, i);
}

/* The first access to a tensor with the two axes says how programs divide them. */
static void find_division(void *proof, Instr *i)
{
    Proof *p = proof;
    MemParts m;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    if (p->fails || p->divided || !e || !ir_mem_parts(i, &m)) return;
    int axis = outer_axis(p->f, &p->pair, m.param);
    if (axis < 0) return;
    for (int which = OUTER; which <= INNER; which++) {
        int64_t n = e->v[axis + which];
        p->fails |= !divides(p, m.idx[axis + which], which, n < 0 ? 1 : n);
    }
    p->divided = true;
}

/* No other extent of the grid depends on the two axes. */
static bool grid_fits(const Proof *p)
{
    const Instr *end = p->f->grid ? ir_terminator(p->f->grid) : NULL;
    if (!end || (p->pair.grid[OUTER] >= 0 && p->pair.grid[OUTER] == p->pair.grid[INNER])) return false;
    for (int a = 0; a < end->n_operands; a++)
        if (a != p->pair.grid[OUTER] && a != p->pair.grid[INNER] && mentions(p, ir_operand(end, a)))
            return false;
    return true;
}

bool axes_collapse(Arena *scratch, const Func *f, int outer, int inner, AxisPair *out)
{
    Proof p = { .f = f, .pair = { outer, inner, { 1, 1 }, { -1, -1 }, -1, NULL } };
    size_t n = f->module->next_id;
    if (outer == inner || f->remap || f->hints.schedule || !signature_fits(f, &p.pair) ||
        (f->extents && ir_any_in(f->extents, place_in, &p)))
        return false;
    p.facts = facts_new(scratch, f);
    ir_walk(f->body, find_division, &p);
    if (p.fails || !p.divided || !grid_fits(&p)) return false;
    p.place = arena_array(scratch, bool, n);
    p.of_pair = arena_array(scratch, bool, n);
    p.even = arena_array(scratch, bool, n);
    ir_walk(f->body, visit, &p);
    p.pair.of_pair = p.of_pair;
    p.pair.even = p.even;
    *out = p.pair;
    return !p.fails && p.written;
}

/* --- tiles of one row ---------------------------------------------------------------------------------- */

typedef struct Collapse {
    PassContext *c;
    const Func *f;
    AxisPair pair;
    uint32_t ids;     /* of values that were there before */
    int64_t elements; /* of a program */
    const Type *tile; /* what holds them now */
    bool fails;
} Collapse;

/* A tile with the shape of those of the pair, and like them computed element by element. */
static bool is_reshaped(const Collapse *x, const Value *v)
{
    return is_tile(v) &&
           (x->pair.of_pair[v->id] || (x->pair.even[v->id] && type_same_shape(v->type, x->tile)));
}

/* Values that are alike for all elements have no uses but those beside elements. */
static void check_uses(void *collapse, Instr *i)
{
    Collapse *x = collapse;
    MemParts m;
    bool any = false, all = true;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (!is_tile(v)) continue;
        any |= is_reshaped(x, v);
        all &= is_reshaped(x, v);
    }
    if (!any) return;
    bool store = i->op == OP_STORE && ir_mem_parts(i, &m) && outer_axis(x->f, &x->pair, m.param) >= 0;
    x->fails |= !all || i->block->parent || !(store || i->op == OP_GATHER || op_is_elementwise(i->op));
}

static void move_window(Collapse *x, Instr *i, int axis)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int64_t v[TILE_MAX_RANK];
    Builder b = ir_before(i);
    memcpy(v, e->v, (size_t)e->n * sizeof *v);
    v[axis + INNER] = x->elements;
    v[axis] = x->pair.at < 0 ? -1 : 1;
    Value *id = ir_emit(&b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, x->pair.grid[INNER])), NULL);
    ir_set_operand(i, 1 + axis, ir_index(&b, 0));
    ir_set_operand(i, 2 + axis, ir_bin(&b, OP_MUL, id, ir_index(&b, x->elements)));
    ir_set_attr(x->c->session, i, a_ints(ATTR_EXTENTS, v, e->n));
}

static void reshape(void *collapse, Instr *i)
{
    Collapse *x = collapse;
    MemParts m;
    int axis = ir_mem_parts(i, &m) ? outer_axis(x->f, &x->pair, m.param) : -1;
    if (axis >= 0) move_window(x, i, axis);
    for (int k = 0; k < i->n_results && x->pair.at >= 0; k++) {
        Value *v = &i->results[k];
        int64_t shape[TILE_MAX_RANK];
        if (v->id >= x->ids || !is_reshaped(x, v)) continue;
        memcpy(shape, v->type->shape, sizeof shape);
        shape[x->pair.at] = 1;
        shape[x->pair.at + 1] = x->elements;
        v->type = type_tile(x->c->session, v->type->dtype, v->type->rank, shape);
    }
}

/* Of a launch of one row, programs get as many elements of it as they had of several rows. */
static bool lengthen(PassContext *c, Func *f, int outer, int inner)
{
    Collapse x = { .c = c, .f = f, .ids = f->module->next_id };
    if (!axes_collapse(c->scratch, f, outer, inner, &x.pair)) return false;
    const int64_t *tile = x.pair.tile;
    int grid = x.pair.grid[INNER];
    if (tile[OUTER] == 1 || grid < 0 || tile[OUTER] > MOST_ELEMENTS / tile[INNER]) return false;
    x.elements = tile[OUTER] * tile[INNER];
    x.tile = x.pair.shape;
    ir_walk(f->body, check_uses, &x);
    if (x.fails) return false;
    ir_walk(f->body, reshape, &x);
    Instr *end = ir_terminator(f->grid);
    Builder b = ir_before(end);
    Value *n = ir_emit(&b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, inner)), NULL);
    ir_set_operand(end, grid, ir_bin(&b, OP_CDIV, n, ir_index(&b, x.elements)));
    ir_sweep(f->body);
    ir_sweep(f->grid);
    return true;
}

static bool collapse_func(PassContext *c, Func *f)
{
    int64_t n = 0;
    for (int k = 0; k < f->n_params; k++)
        for (int a = 0; f->params[k].kind != PARAM_SCALAR && a + 1 < f->params[k].type->rank; a++) {
            const int *dims = f->params[k].dims + a;
            if (f->dims[dims[0]].extent == 1) n += lengthen(c, f, dims[0], dims[1]);
        }
    pass_count(c, "tiles of several rows made one", n);
    return n > 0;
}

bool pass_collapse(PassContext *c, Module *m) { return pass_each_func(c, m, collapse_func); }
