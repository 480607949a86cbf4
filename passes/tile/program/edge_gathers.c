/* edge_gathers.c: gathers whose positions leave a straight line at the edge of the tensor alone, as windows.
 *
 *   %p = %first + 2*arange                         positions, mirrored or clamped at both ends
 *   %q = where (lt %p, 0), (neg %p), %p
 *   %r = min %q, %last                      -->    load %X[%first] {extents = [n], steps = [2]}
 *   gather %X[%r]                                  where 0 <= %p and %p <= %last for all elements
 *
 * Here only says under which conditions the positions lie on the line, and builds the window; edge_program.c
 * tests the conditions. */
#include "passes/tile/program/edge_program.h"

enum { DEEP = 8 }; /* selections and changes of shape around a form */

static bool form_inside(Edge *e, Value *v, int deep, Affine *form);

/* Requires that a - b >= least for all elements. */
static bool require(Edge *e, Affine a, const Affine *b, int64_t least, const Type *t)
{
    if (!affine_add(&a, b, -1) || __builtin_sub_overflow(a.constant, least, &a.constant)) return false;
    if (!affine_least(&a, t)) return false;
    return prove_nonneg(e->facts, &a) || edge_add_form(e, &a);
}

/* Requires that the comparison is false for all elements; holds: that it is true. */
static bool require_compared(Edge *e, const Instr *cmp, bool holds, int deep)
{
    Affine a, b;
    if (cmp->op != OP_LT && cmp->op != OP_LE && cmp->op != OP_GT && cmp->op != OP_GE) return false;
    const Type *t = ir_operand(cmp, 0)->type;
    if (!dtype_is_int(t->dtype) || !form_inside(e, ir_operand(cmp, 0), deep - 1, &a) ||
        !form_inside(e, ir_operand(cmp, 1), deep - 1, &b))
        return false;
    const bool less = (cmp->op == OP_LT || cmp->op == OP_LE) == holds; /* a below b is what is required */
    const bool strict = (cmp->op == OP_LT || cmp->op == OP_GT) == holds;
    return less ? require(e, b, &a, strict, t) : require(e, a, &b, strict, t);
}

/* Of a selection the arm that is compared, as p of where(p < 0, -p, p); else the second one. */
static bool form_of_selection(Edge *e, const Instr *i, int deep, Affine *form)
{
    const Instr *cmp = ir_operand(i, 0)->def;
    if (!cmp || cmp->n_operands != 2) return false;
    const Value *x = ir_operand(i, 1);
    const bool first = x == ir_operand(cmp, 0) || x == ir_operand(cmp, 1);
    return require_compared(e, cmp, first, deep) &&
           form_inside(e, ir_operand(i, first ? 1 : 2), deep - 1, form);
}

static bool is_even(const Affine *a)
{
    for (int n = 0; n < TILE_MAX_RANK; n++)
        if (a->lane[n]) return false;
    return true;
}

/* Of a minimum or maximum the operand that changes along the tile. */
static bool form_of_bound(Edge *e, const Instr *i, int deep, Affine *form)
{
    Affine a, b;
    if (!form_inside(e, ir_operand(i, 0), deep - 1, &a) || !form_inside(e, ir_operand(i, 1), deep - 1, &b))
        return false;
    const Affine *kept = is_even(&a) ? &b : &a, *other = kept == &a ? &b : &a;
    *form = *kept;
    const Type *t = i->results[0].type;
    return i->op == OP_MAX ? require(e, *kept, other, 0, t) : require(e, *other, kept, 0, t);
}

/* The clamped value, which is within both bounds. */
static bool form_of_clamp(Edge *e, const Instr *i, int deep, Affine *form)
{
    Affine low, high;
    const Type *t = i->results[0].type;
    return form_inside(e, ir_operand(i, 0), deep - 1, form) &&
           form_inside(e, ir_operand(i, 1), deep - 1, &low) &&
           form_inside(e, ir_operand(i, 2), deep - 1, &high) && require(e, *form, &low, 0, t) &&
           require(e, high, form, 0, t);
}

/* |x| where x is not negative; (x + n) % n where x is in the first period, and x % n. */
static bool form_of_period(Edge *e, const Instr *i, int deep, Affine *form)
{
    const Type *t = i->results[0].type;
    Affine zero = { 0 }, n;
    if (!dtype_is_int(t->dtype) || !form_inside(e, ir_operand(i, 0), deep - 1, form)) return false;
    if (i->op == OP_ABS) return require(e, *form, &zero, 0, t);
    Affine before = *form;
    if (!form_inside(e, ir_operand(i, 1), deep - 1, &n) || !affine_add(&before, &n, -1)) return false;
    if (before.n < form->n || (!n.n && form->constant >= n.constant)) *form = before;
    return require(e, *form, &zero, 0, t) && require(e, n, form, 1, t);
}

/* The form with the axes of the result of a reshape that inserts or removes axes of one element. */
static bool form_of_reshape(Edge *e, const Instr *i, int deep, Affine *form)
{
    const Type *from = ir_operand(i, 0)->type, *to = i->results[0].type;
    Affine x;
    if (from->kind != TYPE_TILE || to->kind != TYPE_TILE || !form_inside(e, ir_operand(i, 0), deep - 1, &x))
        return false;
    *form = x;
    memset(form->lane, 0, sizeof form->lane);
    int a = 0;
    for (int k = 0; k < to->rank; k++) {
        if (to->shape[k] == 1) continue;
        while (a < from->rank && from->shape[a] == 1) a++;
        if (a == from->rank || from->shape[a] != to->shape[k]) return false;
        form->lane[k] = x.lane[a++];
    }
    return true;
}

/* The value as a form under conditions that are added to those of the program. */
static bool form_inside(Edge *e, Value *v, int deep, Affine *form)
{
    const Instr *d = v->def;
    if (affine_of(e->facts, v, form)) return true;
    if (!d || !deep || v->type->kind != TYPE_TILE) return false;
    if (d->op == OP_WHERE) return form_of_selection(e, d, deep, form);
    if (d->op == OP_MIN || d->op == OP_MAX) return form_of_bound(e, d, deep, form);
    if (d->op == OP_CLAMP) return form_of_clamp(e, d, deep, form);
    if (d->op == OP_ABS || d->op == OP_REM) return form_of_period(e, d, deep, form);
    if (d->op == OP_RESHAPE) return form_of_reshape(e, d, deep, form);
    return d->op == OP_BROADCAST && form_inside(e, ir_operand(d, 0), deep - 1, form);
}

/* The axes of the tile in the order in which the axes of the window run through them. */
typedef struct Order {
    int axis[TILE_MAX_RANK], n;
} Order;

/* Takes the axes of the tile along which the form changes: one, or several that count on as one does, as
 * those of a pack of programs. `extent` and `step` are those of the window. */
static bool take_axes(Affine *form, const Type *t, Order *o, int64_t *extent, int64_t *step)
{
    *extent = -1;
    *step = 1;
    for (int n = 0; n < t->rank; n++) {
        int64_t slope = form->lane[n];
        form->lane[n] = 0;
        if (t->shape[n] == 1 || !slope) continue;
        for (int k = 0; k < o->n; k++)
            if (o->axis[k] == n) return false;
        if (slope < 1 || (*extent > 0 && *step != slope * t->shape[n])) return false;
        *extent = (*extent > 0 ? *extent : 1) * t->shape[n];
        *step = slope;
        o->axis[o->n++] = n;
    }
    return true;
}

static Value *shaped(Builder *b, Value *v, int rank, const int64_t *shape)
{
    bool same = v->type->rank == rank;
    for (int k = 0; same && k < rank; k++) same = v->type->shape[k] == shape[k];
    return same ? v
                : ir_op(
                      b, OP_RESHAPE, type_tile(b->module->session, v->type->dtype, rank, shape), NO_ATTRS, v);
}

/* The window with the axes of the gathered tile. */
static Value *as_gathered(Builder *b, Value *window, const Type *t, const Order *o)
{
    int64_t shape[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int n = 0;
    bool moved = false;
    for (int k = 0; k < o->n; k++) shape[k] = t->shape[o->axis[k]];
    for (int a = 0; a < t->rank; a++)
        for (int k = 0; k < o->n; k++) {
            if (o->axis[k] != a) continue;
            moved |= k != n;
            order[n++] = k;
        }
    Value *v = shaped(b, window, o->n, shape);
    if (moved) v = ir_op(b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, n)), v);
    return shaped(b, v, t->rank, t->shape);
}

/* The tile that a gather is inside, loaded as a window in front of it; NULL: there is none. */
static Value *window_of(Edge *e, Instr *gather)
{
    MemParts m;
    Affine form[TILE_MAX_RANK];
    int64_t extents[TILE_MAX_RANK], steps[TILE_MAX_RANK], all = 1;
    Order order = { .n = 0 };
    bool spaced = false;
    if (!ir_mem_parts(gather, &m) || m.mask || m.token || ir_attr(gather, ATTR_CACHE)) return NULL;
    const Type *t = m.result->type;
    if (t->kind != TYPE_TILE) return NULL;
    for (int a = 0; a < m.rank; a++) {
        if (!form_inside(e, m.idx[a], DEEP, &form[a]) ||
            !take_axes(&form[a], t, &order, &extents[a], &steps[a]))
            return NULL;
        all *= extents[a] > 0 ? extents[a] : 1;
        spaced |= steps[a] != 1;
    }
    if (all == 1 || all != type_elements(t))
        return NULL; /* no position uses some axis, along which all is alike */
    Builder b = ir_before(gather);
    b.loc = gather->loc;
    Value *operands[TILE_MAX_RANK + 2] = { m.tensor };
    for (int a = 0; a < m.rank; a++) operands[1 + a] = affine_emit(&b, &form[a]);
    if (m.pad) operands[1 + m.rank] = m.pad;
    Attr attrs[4] = { a_ints(ATTR_EXTENTS, extents, m.rank) };
    int n = 1;
    if (spaced) attrs[n++] = a_ints(ATTR_STEPS, steps, m.rank);
    if (m.pad) attrs[n++] = a_int(ATTR_HAS_PAD, 1);
    Value *window = ir_emit(&b, OP_LOAD, operands, 1 + m.rank + (m.pad != NULL), (Attrs){ attrs, n }, NULL);
    vec_push(e->c->scratch, &e->loaded, window->def);
    return as_gathered(&b, window, t, &order);
}

static void erase_window(Value *tile)
{
    for (Value *v = tile, *of; v; v = of) {
        Instr *d = v->def;
        of = d->op == OP_LOAD ? NULL : ir_operand(d, 0);
        ir_erase(d);
    }
}

void edge_find_gathers(Edge *e)
{
    for (Instr *i = e->f->body->first, *next; i; i = next) {
        Edge before = *e;
        next = i->next;
        if (i->op != OP_GATHER) continue;
        Value *tile = window_of(e, i);
        if (tile && edge_take_window(e, e->loaded.data[e->loaded.len - 1])) {
            vec_push(e->c->scratch, &e->gathers, ((EdgeGather){ i, tile }));
            continue;
        }
        *e = before;
        if (tile) erase_window(tile);
    }
}

void edge_load_gathers(Edge *e)
{
    for (size_t k = 0; k < e->loaded.len; k++)
        if (e->loaded.data[k]->block != e->f->body)
            ir_set_attr(e->c->session, e->loaded.data[k], a_int(ATTR_MASKED, 0));
    for (size_t k = 0; k < e->gathers.len; k++) {
        Instr *gather = e->gathers.data[k].gather;
        if (gather->block == e->f->body) { /* in front of the conditions */
            erase_window(e->gathers.data[k].inside);
            continue;
        }
        ir_replace(ir_result(gather), e->gathers.data[k].inside);
        ir_erase(gather);
    }
}
