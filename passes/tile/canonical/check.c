/* check: with --check, turns mistakes into assertions that name the line of the .tile file; without it,
 * removes assertions. Removes prints where they are not wanted.
 *
 *   %x = gather %X[%i] mask %m         %r = (%i >= 0) & (%i < N) | !%m
 *                                ->    assert %r {message = "gather: index out of range of 'X'"}
 *                                      %x = gather %X[%i] mask %m
 *   %t = store %Y[%o] = %v       ->    assert (%v == %v) | (element out of range) {message = ".."}
 *
 * The checks are: gathers whose index is out of range where their mask holds; NaN stored by store and
 * scatter, except in elements that are dropped; the program's own assertions. Every target gets the same
 * checks from this pass. The interpreter makes them itself (ir/interp/interp_mem.c).
 *
 * Requires: nothing, and runs before any pass that removes masks. Keeps: results. Does not handle: windows
 * of load and store, scatters and atomics that reach out of range. They drop what is out of range, and
 * kernels for ragged edges and histograms depend on that. */
#include "passes/pass.h"

typedef struct Check {
    PassContext *c;
    Func *f;
    int64_t ranges, nans, removed, prints;
} Check;

static Value *both(Builder *b, Value *x, Value *y) { return x ? ir_bin(b, OP_AND, x, y) : y; }

static Value *like(Builder *b, Value *scalar, const Type *t)
{ return ir_splat(b, scalar, t->kind == TYPE_TILE ? t->rank : 0, t->shape); }

/* 0 <= index < extent of the axis, for all elements */
static Value *in_range(Builder *b, Value *index, int dim)
{
    Value *n = ir_cast(b, ir_emit(b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, dim)), NULL), DT_INDEX),
          *i = ir_cast(b, index, DT_INDEX);
    Value *below = ir_bin(b, OP_LT, i, like(b, n, i->type)),
          *from = ir_bin(b, OP_GE, i, like(b, ir_index(b, 0), i->type));
    return ir_bin(b, OP_AND, from, below);
}

static void emit_assert(Builder *b, Value *ok, const char *message)
{ ir_build(b, OP_ASSERT, &ok, 1, ATTRS(a_str(ATTR_MESSAGE, message)), NULL, 0); }

static void check_indices(Check *x, Instr *i, const MemParts *p)
{
    Builder b = ir_before(i);
    const Param *q = &x->f->params[p->param];
    Value *ok = NULL;
    for (int a = 0; a < p->rank; a++) ok = both(&b, ok, in_range(&b, p->idx[a], q->dims[a]));
    if (p->mask) ok = ir_bin(&b, OP_OR, ok, ir_un(&b, OP_NOT, p->mask));
    emit_assert(&b, ok,
        arena_printf(&x->c->session->arena, "%s: index out of range of `%s`", op_info[i->op].name, q->name));
    x->ranges++;
}

/* The coordinates along `axis` of a window's elements, as a tile of the window's shape. */
static Value *window_index(Builder *b, const Instr *i, const MemParts *p, int axis, const Type *value)
{
    const Attr *extents = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS);
    Session *s = b->module->session;
    Value *off = ir_cast(b, p->idx[axis], DT_INDEX);
    int64_t n = extents->v[axis], shape[TILE_MAX_RANK];
    int at = 0;
    if (value->kind != TYPE_TILE) return off;
    if (n == -1) return like(b, off, type_with_dtype(s, value, DT_INDEX));
    for (int a = 0; a < axis; a++) at += extents->v[a] != -1;
    for (int a = 0; a < value->rank; a++) shape[a] = a == at ? n : 1;
    Value *lane = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(s, DT_INDEX, 1, &n));
    if (steps && steps->v[axis] != 1)
        lane = ir_bin(b, OP_MUL, lane, like(b, ir_index(b, steps->v[axis]), lane->type));
    lane = ir_bin(b, OP_ADD, lane, like(b, off, lane->type));
    if (value->rank > 1)
        lane = ir_op(b, OP_RESHAPE, type_tile(s, DT_INDEX, value->rank, shape), NO_ATTRS, lane);
    if (lane->type->rank == value->rank && type_same_shape(lane->type, value)) return lane;
    return ir_op(b, OP_BROADCAST, type_with_dtype(s, value, DT_INDEX), NO_ATTRS, lane);
}

static void check_nan(Check *x, Instr *i, const MemParts *p)
{
    Builder b = ir_before(i);
    const Param *q = &x->f->params[p->param];
    Value *v = p->values[0], *in = NULL;
    if (!dtype_is_float(v->type->dtype)) return;
    for (int a = 0; a < p->rank; a++)
        in = both(&b, in,
            in_range(&b, i->op == OP_STORE ? window_index(&b, i, p, a, v->type) : p->idx[a], q->dims[a]));
    if (p->mask) in = both(&b, in, p->mask);
    Value *ok = ir_bin(&b, OP_EQ, v, v);
    if (in) ok = ir_bin(&b, OP_OR, ok, ir_un(&b, OP_NOT, in));
    emit_assert(
        &b, ok, arena_printf(&x->c->session->arena, "%s: NaN into `%s`", op_info[i->op].name, q->name));
    x->nans++;
}

static void visit(void *user, Instr *i)
{
    Check *x = user;
    MemParts p;
    if (i->op == OP_ASSERT && !x->c->options->check) {
        ir_erase(i);
        x->removed++;
        return;
    }
    if (i->op == OP_PRINT && !x->c->options->print) {
        ir_erase(i);
        x->prints++;
        return;
    }
    if (!x->c->options->check || !ir_mem_parts(i, &p)) return;
    if (i->op == OP_GATHER) check_indices(x, i, &p);
    if (i->op == OP_STORE || i->op == OP_SCATTER) check_nan(x, i, &p);
}

static bool check_func(PassContext *c, Func *f)
{
    Check x = { c, f };
    ir_walk(f->body, visit, &x);
    pass_count(c, "index checks", x.ranges);
    pass_count(c, "NaN checks", x.nans);
    pass_count(c, "asserts removed", x.removed);
    pass_count(c, "prints removed", x.prints);
    return x.ranges + x.nans + x.removed + x.prints > 0;
}

bool pass_check(PassContext *c, Module *m) { return pass_each_func(c, m, check_func); }
