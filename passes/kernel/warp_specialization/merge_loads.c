/* merge-loads: of warp-specialization: loads of one step whose windows overlap become one load, and each
 * product takes its rows from there.
 *
 *   %x0 = load X[b, y,     x, c] [1, 4, 56, 64]        %u = load X[b, y, x, c] [1, 6, 56, 64]
 *   %x1 = load X[b, y + 1, x, c] [1, 4, 56, 64]   ->   %x0 = slice %u {start = 0}
 *   %x2 = load X[b, y + 2, x, c] [1, 4, 56, 64]        %x1 = slice %u {start = 56}
 *                                                      %x2 = slice %u {start = 112}
 *
 * The windows are equal but for constants along the outermost axis that they extend along, multiples of the
 * window's step there: of taps of stride 2, every other one has rows in common with the first. The rows of
 * each, as a matrix, therefore follow each other in the common one too. A slice is a distance in rows, and
 * the swizzle, which depends on bits of the address, is the same wherever a product begins. The taps of a
 * filter then read a tile once for a row of the filter, not once for each tap.
 *
 * Windows that cp.async producers transpose may overlap along the contiguous axis too (the taps of a row).
 * A distance there is not a distance in the stage, because it would mix two image rows at their borders.
 * The stage therefore holds the window once for each distance, of rows that are fetched once
 * (cp_async_producer.c). Distances of rows are addresses, those of columns copies:
 *
 *   %u = load X[c, y, x - 1] [32, 6, 58] {shifts = [0, 1, 2]}, a matrix [32, 3 * 6 * 56]
 *   tap (r, s) = slice %u {start = s * 336 + r * 56}
 *
 * Requires: products that read the tiles along K as they are in memory, or as cp.async producers transpose
 * them; loads of one block from a tensor that nothing writes meanwhile; fewer rows together than one by
 * one. The pass is undone where its stages leave no room for a second step's. Keeps: everything. */
#include "passes/tile/analysis/affine.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* at, along: the distance from the first load of its group, in rows of the window along their axis, and along
 * the contiguous one. step: between rows of the window. */
typedef struct Place {
    Instr *load;
    MemParts mem;
    int64_t at, along, step;
} Place;
enum { MOST_SHIFTS = 8 };

/* Computes w - v, if that is a constant for all values. */
static bool distance(Facts *facts, Value *v, Value *w, int64_t *d)
{
    Affine from, to;
    return affine_of(facts, v, &from) && affine_of(facts, w, &to) && affine_apart(&to, &from, d);
}

/* The axis of its matrix that is not K: of which a product makes rows (A) or columns (B). */
static int rows_of(const Instr *load)
{
    const Use *u = roles_product_of(roles_matrix_of(load));
    return u == &u->user->operands[0] ? 0 : 1;
}

/* The tensor axis along which rows of a window follow each other: the outermost of the axes merged to the
 * matrix's rows that has more than one element. The contiguous axis is never it. */
static int outermost(const Func *f, const Instr *load)
{
    const Attr *x = ir_attr(load, ATTR_EXTENTS);
    const Value *matrix = roles_matrix_of(load);
    const Type *t = ir_result(load)->type;
    int unit = kernel_unit_axis(f, load, NULL), side = rows_of(load), split = 0, at = 0;
    bool along_k = false;
    kernel_unit_axis(f, load, &at);
    for (int64_t n = 1; split < t->rank && n < matrix->type->shape[0]; split++) n *= t->shape[split];
    if (matrix == ir_result(load)) split = 1;
    along_k = ir_attr(load, ATTR_ORDER) ||
              (at < split ? 0 : 1) != side; /* The contiguous axis is K, and all other axes are rows. */
    for (int a = 0, k = 0; a < x->n; a++) {
        if (x->v[a] < 0) continue;
        int in = k++;
        if (x->v[a] > 1 && (along_k || (in < split ? 0 : 1) == side)) return a == unit ? -1 : a;
    }
    return -1;
}

/* Whether the second window is the first one moved by constants along `axis` and along `columns` (-1: along
 * no other axis). */
static bool moved(Facts *facts, const Place *a, Place *b, int axis, int columns)
{
    int64_t by;
    if (b->mem.param != a->mem.param || b->mem.rank != a->mem.rank || b->load->block != a->load->block)
        return false;
    if (!ir_same_window(a->load, b->load)) return false;
    for (int k = 0; k < a->mem.rank; k++) {
        if (!distance(facts, a->mem.idx[k], b->mem.idx[k], &by) || (k != axis && k != columns && by))
            return false;
        if (k == axis && by % a->step) return false;
        if (k == axis) b->at = a->at + by / a->step;
        if (k == columns) b->along = a->along + by;
    }
    return true;
}

/* The contiguous axis, if cp.async producers transpose the tile so that this axis is the innermost one of the
 * rows in the ring, as for a right operand. -1: they do not. */
static int transposed_axis(Roles *c, const Instr *load)
{
    const Value *m = roles_matrix_of(load);
    int axis, unit = kernel_unit_axis(c->f, load, &axis);
    return roles_by_cp_async(c, load) && m != ir_result(load) && rows_of(load) == 1 &&
                   axis == ir_result(load)->type->rank - 1 && roles_unit_axis(c, load) == 0
               ? unit
               : -1;
}

static bool eligible(Roles *c, Instr *load, Place *p)
{
    *p = (Place){ .load = load };
    const Value *m = roles_matrix_of(load);
    const Attr *steps = ir_attr(load, ATTR_STEPS);
    if (!ir_mem_parts(load, &p->mem) || p->mem.token || p->mem.mask || p->mem.pad ||
        (steps && roles_by_cp_async(c, load)) || kernel_parts(load, NULL) || !m->uses || m->type->rank != 2)
        return false;
    for (const Use *u = m->uses; u; u = u->next) {
        int k = (int)(u - u->user->operands);
        if (u->user->op != OP_MMA_SYNC || k > 1 || roles_unit_axis(c, load) != (k ? 0 : 1)) return false;
    }
    int axis = outermost(c->f, load);
    p->step = axis >= 0 && steps ? steps->v[axis] : 1;
    return axis >= 0 && p->step > 0;
}

static const Type *longer(Roles *c, const Type *t, int axis, int64_t extent)
{
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, t->shape, (size_t)t->rank * sizeof *shape);
    shape[axis] = extent;
    return type_tile(c->s, t->dtype, t->rank, shape);
}

static void lengthen(Roles *c, Instr *load, int axis, int64_t extent)
{
    const Attr *x = ir_attr(load, ATTR_EXTENTS), *order = ir_attr(load, ATTR_ORDER);
    int64_t *v = arena_array(&c->s->arena, int64_t, (size_t)x->n);
    int at = 0, in_tile = 0;
    for (int a = 0; a < x->n; a++) {
        if (a < axis) at += x->v[a] >= 0;
        v[a] = a == axis ? extent : x->v[a];
    }
    while (order && order->v[in_tile] != at) in_tile++;
    if (!order) in_tile = at;
    ir_set_attr(c->s, load, a_ints(ATTR_EXTENTS, v, x->n));
    ir_result(load)->type = longer(c, ir_result(load)->type, in_tile, extent);
}

/* Moves the begin of the window along the axis, in elements of the tensor, and sets its length there. */
static MergedAxis widen(Roles *c, Place *p, int axis, int64_t by, int64_t extent)
{
    MergedAxis h = { axis, p->mem.idx[axis], ir_attr(p->load, ATTR_EXTENTS)->v[axis] };
    Builder b = ir_before(p->load);
    if (by)
        ir_set_operand(
            p->load, 1 + axis, ir_bin(&b, OP_ADD, h.index, ir_const_int(&b, h.index->type->dtype, by)));
    lengthen(c, p->load, axis, extent);
    return h;
}

/* Sorts the distances along the contiguous axis, counted from the lowest one. */
static int shifts_of(const Place *p, size_t n, int64_t lowest, int64_t *shift)
{
    int count = 0;
    for (size_t k = 0; k < n; k++) {
        int64_t d = p[k].along - lowest;
        int at = 0;
        while (at < count && shift[at] < d) at++;
        if (at < count && shift[at] == d) continue;
        memmove(shift + at + 1, shift + at, (size_t)(count - at) * sizeof *shift);
        shift[at] = d;
        count++;
    }
    return count;
}

typedef struct Span {
    int64_t low, high;
} Span;
static Span with(Span s, int64_t x) { return (Span){ x < s.low ? x : s.low, x > s.high ? x : s.high }; }

/* Replaces n loads, of which this is the first, by one load. */
static void join(Roles *c, Place *p, size_t n, int axis, int columns, Span rows_at, Span columns_at)
{
    MergedLoads h = { .load = p[0].load, .columns = { .axis = -1 } };
    const Attr *x = ir_attr(h.load, ATTR_EXTENTS);
    Value *matrix = roles_matrix_of(h.load);
    int rows = rows_of(h.load), times = 1;
    int64_t extent = x->v[axis], all = extent + rows_at.high - rows_at.low,
            step = matrix->type->shape[rows] / extent, *shift = arena_array(&c->s->arena, int64_t, n);
    bool masked = false;
    h.matrix = matrix->type;
    InstrList *users = arena_array(&c->s->arena, InstrList, n);
    for (size_t k = 0; k < n; k++) {
        Value *of = roles_matrix_of(p[k].load);
        for (Use *u = of->uses; u; u = u->next) vec_push(&c->s->arena, &users[k], u->user);
        vec_push(&c->s->arena, &h.was, of);
        masked |= ir_attr_int(p[k].load, ATTR_MASKED, 1);
    }
    if (masked) ir_unprove(c->s, h.load);
    h.rows = widen(c, &p[0], axis, (rows_at.low - p[0].at) * p[0].step, all);
    if (columns_at.low < columns_at.high) {
        times = shifts_of(p, n, columns_at.low, shift);
        h.columns = widen(c, &p[0], columns, columns_at.low - p[0].along,
            ir_attr(h.load, ATTR_EXTENTS)->v[columns] + columns_at.high - columns_at.low);
        ir_set_attr(c->s, h.load, a_ints(ATTR_SHIFTS, shift, times));
    }
    if (matrix->def != h.load) matrix->type = longer(c, matrix->type, rows, step * all * times);
    Builder b = ir_after(matrix->def);
    for (size_t k = 0; k < n; k++) {
        Value *of = h.was.data[k];
        int time = 0;
        while (time + 1 < times && shift[time] < p[k].along - columns_at.low) time++;
        Value *part = ir_emit(&b, OP_SLICE, &matrix, 1,
            ATTRS(a_int(ATTR_AXIS, rows), a_int(ATTR_START, (p[k].at - rows_at.low + time * all) * step)),
            h.matrix);
        for (size_t u = 0; u < users[k].len; u++)
            for (int o = 0; o < 2; o++)
                if (ir_operand(users[k].data[u], o) == of) ir_set_operand(users[k].data[u], o, part);
        vec_push(&c->s->arena, &h.parts, part);
    }
    vec_push(&c->s->arena, &c->merged, h);
}

/* Whether they overlap, and the merged window fits TMA and a stage. */
static bool overlaps(Span s, int64_t extent, int64_t step)
{ return s.high - s.low < extent && (extent + s.high - s.low) * step <= 256; }

bool roles_join_windows(Roles *c, bool columns)
{
    VEC(Place) all = { 0 };
    InstrList loads = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++) {
        Place p;
        if (eligible(c, loads.data[k], &p)) vec_push(&c->s->arena, &all, p);
    }
    Place *group = arena_array(&c->s->arena, Place, all.len);
    /* Only the offsets of the loads themselves are compared. They do not change until their group is merged.
     */
    Facts *facts = facts_new(&c->s->arena, c->f);
    for (size_t k = 0; k < all.len; k++) {
        Place *first = &all.data[k];
        if (!first->load) continue;
        int axis = outermost(c->f, first->load), along = columns ? transposed_axis(c, first->load) : -1;
        const int64_t *x = ir_attr(first->load, ATTR_EXTENTS)->v;
        Span at = { first->at, first->at }, over = { first->along, first->along };
        size_t n = 0;
        group[n++] = *first;
        for (size_t j = k + 1; j < all.len; j++) {
            Place *o = &all.data[j];
            if (!o->load || !moved(facts, first, o, axis, along)) continue;
            Span a = with(at, o->at), b = with(over, o->along);
            if (!overlaps(a, x[axis], first->step) ||
                (along >= 0 && (!overlaps(b, x[along], 1) || b.high - b.low >= MOST_SHIFTS)))
                continue;
            at = a, over = b;
            group[n++] = *o;
            o->load = NULL;
        }
        if (n > 1 && x[axis] + at.high - at.low < (int64_t)n * x[axis])
            join(c, group, n, axis, along, at, over);
    }
    return c->merged.len > 0;
}

static void narrow(Roles *c, Instr *load, const MergedAxis *h)
{
    Value *moved_to = ir_operand(load, 1 + h->axis);
    ir_set_operand(load, 1 + h->axis, h->index);
    if (moved_to != h->index && !moved_to->uses) ir_erase(moved_to->def);
    lengthen(c, load, h->axis, h->extent);
}

void roles_part_windows(Roles *c)
{
    for (size_t k = c->merged.len; k-- > 0;) {
        MergedLoads *h = &c->merged.data[k];
        Value *matrix = roles_matrix_of(h->load);
        for (size_t j = 0; j < h->parts.len; j++)
            ir_replace(h->parts.data[j], h->was.data[j]), ir_erase(h->parts.data[j]->def);
        if (matrix->def != h->load) matrix->type = h->matrix;
        narrow(c, h->load, &h->rows);
        if (h->columns.axis < 0) continue;
        narrow(c, h->load, &h->columns);
        ir_set_attr(c->s, h->load, a_ints(ATTR_SHIFTS, (int64_t[]){ 0 }, 1));
    }
    c->merged.len = 0;
}

void roles_keep_windows(Roles *c)
{
    for (size_t k = 0; k < c->merged.len; k++)
        for (size_t j = 1; j < c->merged.data[k].was.len; j++) {
            Instr *matrix = c->merged.data[k].was.data[j]->def,
                  *load = matrix->op == OP_LOAD ? NULL : ir_operand(matrix, 0)->def;
            ir_erase(matrix);
            if (load) ir_erase(load);
        }
}

void roles_take_parts(Roles *c, Value *matrix, Value *view)
{
    for (Use *u = matrix->uses, *next; u; u = next) {
        next = u->next;
        Instr *i = u->user;
        if (i->op != OP_SLICE) continue;
        Builder b = ir_before(i);
        Value *part = ir_emit(&b, OP_SHARED_SLICE, &view, 1,
            ATTRS(a_int(ATTR_AXIS, ir_attr_int(i, ATTR_AXIS, 0)),
                a_int(ATTR_START, ir_attr_int(i, ATTR_START, 0))),
            type_shared(c->s, view->type->dtype, 2, ir_result(i)->type->shape, view->type->layout));
        part->name = view->name;
        ir_replace(ir_result(i), part);
        ir_erase(i);
    }
}
