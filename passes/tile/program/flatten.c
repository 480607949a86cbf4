/* flatten: tiles of several axes become tiles of one, in programs that combine their elements as a whole.
 *
 *   %x = load X[%b, %g, 0, 0] {extents = [-1, -1, 8, 49]}       %x = load X[%b, %g, 0, 0] {extents =
 *                                                                    [-1, -1, -1, 392]} : [392]
 *   %r = reduce_sum %x {axis = 1} : [8, 1]                 ->
 *   %s = reduce_sum %r {axis = 0} : [1, 1]                      %s = reduce_sum %x {axis = 0} : [1]
 *   %w = load W[%g, 0] {extents = [-1, 8]} : [8]                %w = gather W[%g, (arange 392) / 49] : [392]
 *
 * What makes rows fast (clusters, rows that begin anywhere, rows kept in shared memory) is made for tiles of
 * one axis. Where a tensor has no gap between two axes, a window that has all of the inner one is a window of
 * one axis, which is as long as both: the parameter gets an axis of extent 1 and one of the product
 * (Param.joined), and a launch gives its tensor so. Axes of extent 1 are dropped. What differs along some of
 * the axes only, such as weights of channels, is gathered for each element.
 *
 * Requires: specialize before it; a program of one block in which all tiles with more than one element are
 * windows, or computed from them element by element, or reduced along all of their axes. Tensors whose axes
 * become one have constant extents and strides there, fewer than 2^31 elements along them, and are accessed
 * by such windows alone. Keeps: all but the order of sums. Does not handle: scans, sorts, products, gathers
 * and reductions along some of the axes; masks and atomics; loads with steps or another order. */
#include "ir/analysis/range.h"
#include "passes/pass.h"

enum {
    /* Elements of a tile from which on what differs along some of its axes may be gathered for each of them.
     * Smaller tiles are held by one CTA as they are, whose lanes have such values once for an axis
     * (bench/notes/rows.md, "Tiles of several axes"). */
    LEAST_REPEATED = 57344,
    /* The same of values that LEAST_ALIKE elements beside each other share, as many as an access of 16 bytes
     * has: a lane reads two for its elements (few_indices.c). That pays if tiles of several axes have
     * registers for twice the elements ("Tiles of several axes" there). */
    LEAST_SHARED = 1024,
    LEAST_ALIKE = 16,
    /* From so many elements on, a quarter more room is enough: CTAs of a cluster share a row of one axis, but
     * one CTA has a tile of several. */
    LEAST_LONG = 8192,
};
enum { MOST_STEPS = 8 }; /* operations from a load along some of the axes to where it is repeated */

typedef struct Flatten {
    PassContext *c;
    Func *f;
    int64_t n;    /* elements of the tiles */
    Value **flat; /* by id: the value of one axis, or NULL */
    size_t ids;
    int (*joined)[2]; /* by parameter: the first and the last axis that become one; -1: not seen */
    Ranges *ranges;   /* of the program as it was */
    bool many;        /* a tile has more than one axis */
} Flatten;

static bool is_whole(const Flatten *x, const Value *v)
{ return is_tile(v) && type_elements(v->type) == x->n; }

static bool is_single(const Value *v) { return is_tile(v) && type_elements(v->type) == 1; }

/* --- whether it may be done ---------------------------------------------------------------------------- */

/* The elements of one position along the first of the axes. */
static int64_t elements_behind(const Flatten *x, const Param *p, int from, int to)
{
    int64_t n = 1;
    for (int a = from + 1; a <= to; a++) n *= x->f->dims[p->dims[a]].extent;
    return n;
}

/* Whether axes of known extents may be one: positions along it have 31 bits, as along each of them, and those
 * of windows that begin out of range are still out of range. */
static bool counts_as_one(const Flatten *x, const Param *p, const Value *first, int from, int to)
{
    const Dim *outer = &x->f->dims[p->dims[from]];
    if (outer->extent < 1 || outer->text) return false;
    const int64_t inner = elements_behind(x, p, from, to), most = INT64_MAX / 2 / inner;
    const RangeInfo at = range_of(x->ranges, first);
    return outer->extent <= INT32_MAX / inner && at.lo >= -most && at.hi <= most;
}

/* The axes of the tensor along which the window has more than one element: the first and the last. Between
 * them it has whole axes without gaps. */
static bool window_axes(const Flatten *x, const Instr *i, const MemParts *m, int *from, int *to)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    const Param *p = &x->f->params[m->param];
    int64_t at, extent;
    *from = *to = -1;
    for (int a = 0; e && a < m->rank; a++) {
        if (e->v[a] <= 1) continue;
        if (*from < 0) *from = a;
        *to = a;
    }
    if (*from < 0 || (*from < *to && p->stride[*to] != 1)) return false;
    for (int a = *from + 1; a <= *to; a++) {
        extent = x->f->dims[p->dims[a]].extent;
        if (extent < 1 || e->v[a] != extent || x->f->dims[p->dims[a]].text || !ir_is_const(m->idx[a], &at) ||
            at || p->stride[a] == FACT_UNKNOWN || p->stride[a - 1] != extent * p->stride[a])
            return false;
    }
    return *from == *to || counts_as_one(x, p, m->idx[*from], *from, *to);
}

static bool is_plain(const Instr *i, const MemParts *m)
{
    return (i->op == OP_LOAD || i->op == OP_STORE) && !m->mask && !ir_adds(i) && !ir_attr(i, ATTR_STEPS) &&
           !ir_attr(i, ATTR_ORDER);
}

/* All accesses to a tensor have the same axes as one. */
static bool access_fits(Flatten *x, const Instr *i, const MemParts *m, bool whole)
{
    int from = 0, to = 0, *j = x->joined[m->param];
    if (whole && (!is_plain(i, m) || !window_axes(x, i, m, &from, &to))) return false;
    if (!whole || from == to) from = to = 0;
    if (j[0] >= 0 && (j[0] != from || j[1] != to)) return false;
    j[0] = from;
    j[1] = to;
    return true;
}

/* Whether a value that differs along some of the axes can be computed for each element. */
static bool repeats(const Flatten *x, const Value *v, int steps)
{
    const Instr *i = v->def;
    MemParts m;
    if (!i || steps == 0) return false;
    if (!is_tile(v) || i->op == OP_SPLAT) return true;
    if (i->op == OP_ARANGE) return true;
    if (i->op == OP_LOAD)
        return ir_mem_parts(i, &m) && is_plain(i, &m) && is_constant_read(i) && !ir_attr(i, ATTR_CACHE);
    if (i->op == OP_RESHAPE) {
        /* Axes of extent 1 come and go. */
        const Type *s = ir_operand(i, 0)->type, *t = v->type;
        int a = 0, b = 0, srank = s->kind == TYPE_TILE ? s->rank : 0;
        for (;; a++, b++) {
            while (a < srank && s->shape[a] == 1) a++;
            while (b < t->rank && t->shape[b] == 1) b++;
            if (a == srank || b == t->rank) break;
            if (s->shape[a] != t->shape[b]) return false;
        }
        return a == srank && b == t->rank && srank && repeats(x, ir_operand(i, 0), steps - 1);
    }
    if (!op_is_elementwise(i->op) || !op_has(i->op, OPF_CHEAP) || i->n_results != 1) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!repeats(x, ir_operand(i, k), steps - 1)) return false;
    return true;
}

/* The elements that registers have room for, whose layouts cover axes by powers of two. */
static int64_t covered(int rank, const int64_t *shape)
{
    int64_t all = 1;
    for (int a = 0; a < rank; a++) {
        int64_t n = 1;
        while (n < shape[a]) n *= 2;
        all *= n;
    }
    return all;
}

/* Whether neighbours share what the broadcast repeats, of a tile that is much smaller as one of one axis. */
static bool repeats_beside(const Flatten *x, const Instr *i)
{
    const Type *of = ir_operand(i, 0)->type, *t = ir_result(i)->type;
    int64_t alike = 1;
    for (int a = t->rank - 1; a >= 0 && of->rank == t->rank && of->shape[a] == 1; a--) alike *= t->shape[a];
    if (x->n < LEAST_SHARED || alike < LEAST_ALIKE) return false;
    const int64_t room = covered(t->rank, t->shape);
    return room >= 2 * covered(1, &x->n) || (x->n >= LEAST_LONG && 4 * room >= 5 * x->n);
}

/* The reduction along the other axes behind this one, which alone uses its result; the instruction itself, if
 * a single element is left. NULL: something else does. */
static Instr *last_of(Instr *i)
{
    while (type_elements(ir_result(i)->type) > 1) {
        const Use *u = ir_result(i)->uses;
        if (!u || u->next || u->user->op != i->op || op_family(i->op) != OPS_REDUCE) return NULL;
        i = u->user;
    }
    return i;
}

static bool look_at(Flatten *x, Instr *i)
{
    MemParts m;
    bool whole = false;
    for (int k = 0; k < i->n_operands; k++) whole |= is_whole(x, ir_operand(i, k));
    for (int k = 0; k < i->n_results; k++) {
        whole |= is_whole(x, &i->results[k]);
        x->many |= is_whole(x, &i->results[k]) && i->results[k].type->rank > 1;
    }
    if (i->n_blocks || op_has(i->op, OPF_BARRIER)) return false;
    if (ir_mem_parts(i, &m)) return access_fits(x, i, &m, whole);
    if (!whole) return !op_has(i->op, OPF_WRITE);
    if (i->op == OP_SPLAT) return true;
    if (i->op == OP_RESHAPE) return is_whole(x, ir_operand(i, 0));
    if (i->op == OP_BROADCAST)
        return is_whole(x, ir_result(i)) &&
               (is_single(ir_operand(i, 0)) || ((x->n >= LEAST_REPEATED || repeats_beside(x, i)) &&
                                                   repeats(x, ir_operand(i, 0), MOST_STEPS)));
    if (i->op == OP_ARANGE) return true;
    if (op_family(i->op) == OPS_REDUCE) return last_of(i) != NULL;
    if (op_family(i->op) == OPS_SCAN)
        return ir_operand(i, 0)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)] == x->n;
    if (i->op == OP_ARGMAX || i->op == OP_ARGMIN) return is_single(ir_result(i)) || !is_tile(ir_result(i));
    if (!op_is_elementwise(i->op)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!is_whole(x, ir_operand(i, k))) return false;
    return true;
}

/* --- rewriting ----------------------------------------------------------------------------------------- */

static Value *reshaped(Builder *b, Value *v, int rank, const int64_t *shape)
{
    const Type *t = type_tile(b->module->session, v->type->dtype, rank, shape);
    return is_tile(v) && type_same_shape(v->type, t) ? v : ir_op(b, OP_RESHAPE, t, NO_ATTRS, v);
}

static Value *filled(const Flatten *x, Builder *b, Value *scalar) { return ir_splat(b, scalar, 1, &x->n); }

/* The position along an axis of the shape of each element. */
static Value *position(const Flatten *x, Builder *b, const Type *shape, int axis)
{
    int64_t inner = 1;
    for (int a = axis + 1; a < shape->rank; a++) inner *= shape->shape[a];
    Value *at = ir_emit(b, OP_ARANGE, NULL, 0, NO_ATTRS, type_tile(x->c->session, DT_INDEX, 1, &x->n));
    if (inner > 1) at = ir_bin(b, OP_DIV, at, filled(x, b, ir_index(b, inner)));
    if (inner * shape->shape[axis] < x->n)
        at = ir_bin(b, OP_REM, at, filled(x, b, ir_index(b, shape->shape[axis])));
    return at;
}

/* The value for each element of the shape; of: the axis of the shape for each axis of the value. */
static Value *repeated(const Flatten *x, Builder *b, Value *v, const Type *shape, const int *of)
{
    Instr *i = v->def;
    Value *operand[TILE_MAX_RANK + 8];
    int n = 0;
    if (!is_tile(v)) return filled(x, b, v);
    if (i->op == OP_SPLAT) return filled(x, b, ir_operand(i, 0));
    if (i->op == OP_ARANGE) {
        Value *at = position(x, b, shape, of[0]);
        at = ir_bin(b, OP_ADD, at, filled(x, b, ir_index(b, ir_attr_int(i, ATTR_START, 0))));
        return ir_cast(b, at, v->type->dtype);
    }
    if (i->op == OP_RESHAPE) {
        const Type *s = ir_operand(i, 0)->type, *t = v->type;
        int was[TILE_MAX_RANK];
        for (int a = 0, k = 0; a < s->rank; a++) {
            if (s->shape[a] == 1) continue;
            while (t->shape[k] == 1) k++;
            was[a] = of[k++];
        }
        return repeated(x, b, ir_operand(i, 0), shape, was);
    }
    if (i->op == OP_LOAD) {
        MemParts m;
        ir_mem_parts(i, &m);
        const Attr *e = ir_attr(i, ATTR_EXTENTS);
        operand[n++] = m.tensor;
        for (int a = 0, k = 0; a < m.rank; a++) {
            Value *at = ir_cast(b, m.idx[a], DT_INDEX), *all = filled(x, b, at);
            if (e->v[a] > 1) all = ir_bin(b, OP_ADD, all, position(x, b, shape, of[k]));
            k += e->v[a] >= 0;
            operand[n++] = all;
        }
        if (m.pad) operand[n++] = is_tile(m.pad) ? repeated(x, b, m.pad, shape, of) : m.pad;
        return ir_emit(b, OP_GATHER, operand, n, m.pad ? ATTRS(a_int(ATTR_HAS_PAD, 1)) : NO_ATTRS, NULL);
    }
    for (; n < i->n_operands; n++) operand[n] = repeated(x, b, ir_operand(i, n), shape, of);
    return ir_emit(b, i->op, operand, n, (Attrs){ i->attrs, i->n_attrs },
        type_tile(x->c->session, v->type->dtype, 1, &x->n));
}

/* The value with one axis. */
static Value *flat(Flatten *x, Builder *b, Value *v)
{
    static const int64_t one[1] = { 1 };
    if (v->id < x->ids && x->flat[v->id]) return x->flat[v->id];
    if (v->def && v->def->op == OP_RESHAPE && is_tile(ir_operand(v->def, 0)) &&
        ir_operand(v->def, 0)->type->rank == 1 && (is_whole(x, v) || is_single(v)))
        return ir_operand(v->def, 0);
    return is_whole(x, v) ? reshaped(b, v, 1, &x->n) : is_single(v) ? reshaped(b, v, 1, one) : v;
}

/* Gives the access its window of one axis. */
static void flatten_access(Flatten *x, Builder *b, Instr *i, const MemParts *m)
{
    int64_t extents[TILE_MAX_RANK];
    int from, to, at = 1;
    window_axes(x, i, m, &from, &to);
    for (int a = 0; a < m->rank; a++) extents[a] = a == to ? x->n : -1;
    if (from < to) {
        Value *inner = ir_index(b, elements_behind(x, &x->f->params[m->param], from, to));
        ir_set_operand(i, at + to, ir_bin(b, OP_MUL, ir_cast(b, m->idx[from], DT_INDEX), inner));
        ir_set_operand(i, at + from, ir_index(b, 0));
        ir_del_attr(i, ATTR_INSIDE); /* was of the axes apart */
    }
    ir_set_attr(x->c->session, i, a_ints(ATTR_EXTENTS, extents, m->rank));
}

/* The launch reads an extent where a parameter still has it. */
static void move_dim(const Flatten *x, int dim)
{
    Dim *d = &x->f->dims[dim];
    d->param = d->axis = -1;
    for (int k = x->f->n_params; k-- > 0;)
        for (int a = 0; x->f->params[k].kind != PARAM_SCALAR && a < x->f->params[k].type->rank; a++)
            if (x->f->params[k].dims[a] == dim)
                *d = (Dim){ d->name, d->text, d->extent, d->div, d->most, k, a };
}

/* Makes the parameters' axes one, once no access needs them apart. */
static void join_axes(Flatten *x)
{
    for (int k = 0; k < x->f->n_params; k++) {
        Param *p = &x->f->params[k];
        int from = x->joined[k][0], to = x->joined[k][1];
        int64_t n = 1;
        if (from < 0 || from == to) continue;
        for (int a = from; a <= to; a++) n *= x->f->dims[p->dims[a]].extent;
        int one = ir_dim_new(x->f, NULL, 1), all = ir_dim_new(x->f, NULL, n);
        p = &x->f->params[k];
        for (int a = from; a <= to; a++) {
            int was = p->dims[a];
            p->dims[a] = a == to ? all : one;
            move_dim(x, was);
            if (a == to) continue;
            p->stride[a] = FACT_UNKNOWN;
            p->stride_div[a] = 1;
        }
        move_dim(x, one);
        move_dim(x, all);
        p->joined_from = from;
        p->joined_to = to;
    }
}

static void keep(Flatten *x, const Value *was, Value *is)
{
    if (was->id < x->ids) x->flat[was->id] = is;
    if (was->name && !is->name) ir_set_name(is, was->name);
}

/* A tile of one element, of several axes, becomes one of one axis. */
static void single_element(Flatten *x, Builder *b, Instr *i)
{
    static const int64_t one[1] = { 1 };
    const Value *r = ir_result(i);
    const Type *t = type_tile(x->c->session, r->type->dtype, 1, one);
    Value *operand[TILE_MAX_RANK];
    if (i->op == OP_SPLAT) keep(x, r, ir_splat(b, ir_operand(i, 0), 1, one));
    bool same = i->op == OP_RESHAPE || i->op == OP_BROADCAST || op_family(i->op) == OPS_REDUCE;
    if (same && is_tile(ir_operand(i, 0)) && is_single(ir_operand(i, 0)))
        keep(x, r, flat(x, b, ir_operand(i, 0)));
    if (!op_is_elementwise(i->op) || i->n_operands > TILE_MAX_RANK) return;
    for (int k = 0; k < i->n_operands; k++) operand[k] = flat(x, b, ir_operand(i, k));
    keep(x, r, ir_emit(b, i->op, operand, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, t));
}

static void rewrite(Flatten *x, Instr *i)
{
    Builder b = ir_before(i);
    Session *s = x->c->session;
    MemParts m;
    Value *operand[TILE_MAX_RANK + 8];
    int of[TILE_MAX_RANK];
    b.loc = i->loc;
    if (ir_mem_parts(i, &m)) {
        bool whole = (m.result && is_whole(x, m.result)) || (m.values[0] && is_whole(x, m.values[0]));
        if (!whole) return;
        flatten_access(x, &b, i, &m);
        if (m.values[0]) ir_set_operand(i, 1 + m.rank, flat(x, &b, m.values[0]));
        if (m.pad && is_tile(m.pad)) ir_set_operand(i, 1 + m.rank, flat(x, &b, m.pad));
        if (!m.result) return;
        m.result->type = type_tile(s, m.result->type->dtype, 1, &x->n);
        x->flat[m.result->id] = m.result;
        return;
    }
    bool whole = i->n_results == 1 && is_whole(x, ir_result(i)),
         single = i->n_results == 1 && is_single(ir_result(i)) && ir_result(i)->type->rank > 1;
    if (op_reduces(i->op) && is_whole(x, ir_operand(i, 0))) {
        Instr *last = last_of(i);
        Value *v = flat(x, &b, ir_operand(i, 0)), *was = ir_result(last ? last : i);
        Value *r = ir_op(&b, i->op, NULL, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 0)), v);
        Builder after = ir_before(last ? last : i);
        Value *as = is_tile(was) ? reshaped(&after, r, was->type->rank, was->type->shape)
                                 : ir_op(&after, OP_RESHAPE, type_scalar(s, was->type->dtype), NO_ATTRS, r);
        ir_replace(was, as);
        return;
    }
    if (single) single_element(x, &b, i);
    if (!whole) return;
    if (i->op == OP_SPLAT) keep(x, ir_result(i), filled(x, &b, ir_operand(i, 0)));
    else if (i->op == OP_RESHAPE) keep(x, ir_result(i), flat(x, &b, ir_operand(i, 0)));
    else if (i->op == OP_BROADCAST && is_single(ir_operand(i, 0)))
        keep(x, ir_result(i),
            ir_op(&b, OP_BROADCAST, type_tile(s, ir_result(i)->type->dtype, 1, &x->n), NO_ATTRS,
                flat(x, &b, ir_operand(i, 0))));
    else if (i->op == OP_BROADCAST) {
        for (int a = 0; a < TILE_MAX_RANK; a++) of[a] = a;
        keep(x, ir_result(i), repeated(x, &b, ir_operand(i, 0), ir_result(i)->type, of));
    } else {
        for (int k = 0; k < i->n_operands; k++) operand[k] = flat(x, &b, ir_operand(i, k));
        if (op_family(i->op) == OPS_SCAN) ir_set_attr(s, i, a_int(ATTR_AXIS, 0)); /* it goes away */
        Value *v = ir_emit(&b, i->op, operand, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
            type_tile(s, ir_result(i)->type->dtype, 1, &x->n));
        keep(x, ir_result(i), v);
    }
}

static void longest(void *user, Instr *i)
{
    Flatten *x = user;
    MemParts m;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || !is_tile(m.result)) return;
    int64_t n = type_elements(m.result->type);
    if (n > x->n) x->n = n;
}

static bool reduces(const void *user, const Instr *i)
{ return op_is_along_axis(i->op) && is_whole(user, ir_operand(i, 0)); }

static bool flatten_func(PassContext *c, Func *f)
{
    Flatten x = { .c = c, .f = f, .n = 1 };
    if (!f->is_kernel || f->hints.schedule) return false;
    ir_walk(f->body, longest, &x);
    if (x.n < 2 || !ir_any_in(f->body, reduces, &x)) return false;
    x.ranges = ranges_new(f);
    x.joined = arena_alloc(c->scratch, (size_t)f->n_params * sizeof *x.joined);
    for (int k = 0; k < f->n_params; k++) x.joined[k][0] = x.joined[k][1] = -1;
    for (Instr *i = f->body->first; i; i = i->next)
        if (!look_at(&x, i)) return false;
    if (!x.many) return false;
    x.ids = f->module->next_id;
    x.flat = arena_array(c->scratch, Value *, x.ids);
    for (Instr *i = f->body->first, *next; i; i = next) {
        next = i->next;
        rewrite(&x, i);
    }
    join_axes(&x);
    ir_sweep(f->body);
    pass_count(c, "programs whose tiles have one axis", 1);
    return true;
}

bool pass_flatten(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind == TARGET_CUDA && pass_each_func(c, m, flatten_func);
}
