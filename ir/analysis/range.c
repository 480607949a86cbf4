/* range.c: ranges of the values of a function. See range.h; range_op.c has those of single operations. */
#include "ir/analysis/range_impl.h"
#include "ir/interp/scalar.h"
#include <math.h>

struct Ranges {
    const Func *func;
    RangeInfo *info; /* by value id; div = -1: not computed */
    size_t n;
    RangeInfo grid[3], total;
    int axes;
};

/* --- facts of the launch ----------------------------------------------------------------------------- */

RangeInfo range_of_dim(const Func *f, int dim)
{
    if (dim < 0 || dim >= f->n_dims) return (RangeInfo){ 0, RANGE_MAX_EXTENT, 1 };
    const Dim *d = &f->dims[dim];
    if (d->extent >= 0) return constant(d->extent);
    int64_t hi = d->most > 0    ? d->most
                 : f->fits32    ? FITS32_EXTENT - 1
                 : f->extents31 ? INT32_MAX
                                : RANGE_MAX_EXTENT,
            div = d->div > 0 ? d->div : 1;
    return (RangeInfo){ f->fits32 || d->most > 0 ? div : 0, hi - hi % div, div };
}

static RangeInfo of_stride(const Func *f, const Instr *i)
{
    int64_t p = ir_attr_int(i, ATTR_PARAM, -1), a = ir_attr_int(i, ATTR_AXIS, -1);
    if (p < 0 || p >= f->n_params || a < 0 || a >= TILE_MAX_RANK) return all;
    const Param *q = &f->params[p];
    if (q->stride[a] != FACT_UNKNOWN) return constant(q->stride[a]);
    RangeInfo r = f->fits32 ? (RangeInfo){ -INT32_MAX, INT32_MAX, 1 }
                            : (RangeInfo){ -RANGE_MAX_EXTENT, RANGE_MAX_EXTENT, 1 };
    r.div = q->stride_div[a] > 0 ? q->stride_div[a] : 1;
    return r;
}

static RangeInfo of_scalar_param(const Param *p)
{
    RangeInfo r = range_of_dtype(p->type->dtype);
    if (!dtype_is_int(p->type->dtype) || p->type->dtype == DT_U64) return r;
    double lo = ceil(p->lo), hi = floor(p->hi);
    if (lo > (double)r.lo && lo < 0x1p63) r.lo = (int64_t)lo;
    if (hi < (double)r.hi && hi >= -0x1p63) r.hi = (int64_t)hi;
    return r.lo <= r.hi ? r : range_of_dtype(p->type->dtype);
}

static RangeInfo of_programs(const Ranges *r, const Instr *i)
{
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    RangeInfo n = axis >= 0 && axis < r->axes ? r->grid[axis] : r->total;
    if (i->op == OP_NUM_PROGRAMS) return n;
    n.hi += ir_attr_int(i, ATTR_CLUSTER, 1) - 1; /* The last cluster may reach beyond the grid. */
    return (RangeInfo){ 0, n.hi > 0 ? n.hi - 1 : 0, 1 };
}

/* --- values ------------------------------------------------------------------------------------------ */

static RangeInfo whole(const Value *v)
{ return type_is_value(v->type) ? range_of_dtype(v->type->dtype) : all; }

static void set(Ranges *r, const Value *v, RangeInfo info)
{
    if (v->id >= r->n) {
        size_t n = r->func->module->next_id + 64;
        if (n <= v->id) n = (size_t)v->id + 64;
        r->info = arena_grow(
            &r->func->module->session->arena, r->info, r->n * sizeof *r->info, n * sizeof *r->info);
        for (size_t k = r->n; k < n; k++) r->info[k].div = -1;
        r->n = n;
    }
    r->info[v->id] = info;
}

enum { DEPTH = 64 }; /* of operands that are looked at */

static RangeInfo get(Ranges *r, const Value *v, int depth);

/* The loop variable: from lo towards hi in steps; what the body sees is below hi. */
static RangeInfo of_iv(Ranges *r, const Instr *loop, int depth)
{
    RangeInfo lo = get(r, ir_operand(loop, 0), depth), hi = get(r, ir_operand(loop, 1), depth),
              step = get(r, ir_operand(loop, 2), depth);
    if (loop->blocks[0]->args[0]->type->dtype == DT_U64) return all;
    RangeInfo iv = { lo.lo, hi.hi == INT64_MIN ? hi.hi : hi.hi - 1, range_gcd(lo.div, step.div) };
    if (iv.hi < iv.lo) iv.hi = iv.lo; /* never runs */
    if (lo.lo == lo.hi && step.lo == step.hi && step.lo > 0)
        iv.hi = (int64_t)(iv.lo + ((Wide)iv.hi - iv.lo) / step.lo * step.lo);
    return iv;
}

/* The same of a `while` that tests the counter first: below hi in the body; at the test a step further. */
static RangeInfo of_tested(Ranges *r, const Value *v, const Counted *c, bool body, int depth)
{
    RangeInfo lo = get(r, c->lo, depth), hi = get(r, c->hi, depth), step = get(r, c->step, depth),
              d = range_of_dtype(v->type->dtype);
    if (step.lo < 0 || (Wide)hi.hi - 1 + step.hi > d.hi) return whole(v);
    int64_t div = range_gcd(lo.div, step.div);
    if (body) return (RangeInfo){ lo.lo, hi.hi <= lo.lo ? lo.lo : hi.hi - 1, div };
    Wide last = wide_max(lo.hi, (Wide)hi.hi - 1 + step.hi);
    return (RangeInfo){ lo.lo, (int64_t)last, div };
}

/* The range of the counter of a counting `while`: from lo to below hi, unless the last step could wrap. */
static RangeInfo of_counter(Ranges *r, const Instr *loop, const Value *v, int depth)
{
    Counted c;
    if (v->type->dtype == DT_U64) return whole(v);
    if (ir_tested(loop, v->index, &c)) return of_tested(r, v, &c, v->block == loop->blocks[1], depth);
    if (!ir_counted(loop, &c) || c.at != v->index) return whole(v);
    RangeInfo lo = get(r, c.lo, depth), hi = get(r, c.hi, depth), step = get(r, c.step, depth),
              d = range_of_dtype(v->type->dtype);
    if (step.lo < 0 || (Wide)hi.hi - 1 + step.hi > d.hi || (Wide)lo.hi + step.hi > d.hi) return whole(v);
    return (RangeInfo){ lo.lo, lo.hi > hi.hi - 1 ? lo.hi : hi.hi - 1, range_gcd(lo.div, step.div) };
}

static Wide trips(RangeInfo lo, RangeInfo hi, RangeInfo step)
{
    Wide span = (Wide)hi.hi - lo.lo;
    if (span <= 0) return 0;
    Wide s = step.lo > 0 ? step.lo : 1;
    return (span + s - 1) / s;
}

/* A value carried by `for` as x -> x + d with d from outside: between its start and start + trips * d.
 * Others: anything. */
static RangeInfo of_carried(Ranges *r, const Instr *loop, int k, int depth)
{
    const Block *b = loop->blocks[0];
    if (b->n_args <= k + 1 || !b->last || b->last->n_operands <= k) return all;
    const Value *arg = b->args[k + 1], *next = ir_operand(b->last, k);
    if (!type_is_value(arg->type) || !dtype_is_int(arg->type->dtype)) return whole(arg);
    RangeInfo init = get(r, ir_operand(loop, k + 3), depth);
    if (next == arg) return init;
    if (!next->def || next->def->op != OP_ADD) return whole(arg);
    const Value *x = ir_operand(next->def, 0), *d = ir_operand(next->def, 1);
    if (x != arg) {
        const Value *t = x;
        x = d;
        d = t;
    }
    if (x != arg || !ir_defined_outside(d, b)) return whole(arg);
    RangeInfo by = get(r, d, depth);
    Wide n = trips(get(r, ir_operand(loop, 0), depth), get(r, ir_operand(loop, 1), depth),
        get(r, ir_operand(loop, 2), depth));
    if (n > (Wide)1 << 62) return whole(arg);
    Wide lo = init.lo + wide_min(0, n * by.lo), hi = init.hi + wide_max(0, n * by.hi);
    return range_in_dtype(arg->type->dtype, lo, hi, range_gcd(init.div, by.div));
}

static RangeInfo of_arg(Ranges *r, const Value *v, int depth)
{
    const Instr *loop = v->block->parent;
    const Func *f = r->func;
    if (!loop) {
        int k = v->index - (v->block == f->remap);
        if (v->block == f->remap && v->index == 0)
            return (RangeInfo){ 0, r->total.hi > 0 ? r->total.hi - 1 : 0, 1 };
        if (k >= 0 && k < f->n_params && f->params[k].type->kind == TYPE_SCALAR)
            return of_scalar_param(&f->params[k]);
        return whole(v);
    }
    if (loop->op == OP_FOR && loop->n_operands >= 3)
        return v->index == 0 ? of_iv(r, loop, depth) : of_carried(r, loop, v->index - 1, depth);
    return loop->op == OP_WHILE ? of_counter(r, loop, v, depth) : whole(v);
}

/* The launch has compared a derived extent with the value of its expression. */
static RangeInfo of_dim(Ranges *r, int dim, int depth)
{
    RangeInfo d = range_of_dim(r->func, dim);
    const Value *derived = ir_dim_value(r->func, dim);
    if (!derived) return d;
    RangeInfo e = get(r, derived, depth);
    d = meet(d, e);
    if (e.div > d.div && d.div > 0 && e.div % d.div == 0) d.div = e.div;
    return d;
}

static RangeInfo of_place(Ranges *r, const Instr *i)
{
    switch (op_as_place(i->op)) {
    case PLACE_PROGRAM_COORD: return of_programs(r, i);
    case PLACE_PROGRAM: return (RangeInfo){ 0, r->total.hi > 0 ? r->total.hi - 1 : 0, 1 };
    case PLACE_CP_ASYNC_ROW: return (RangeInfo){ 0, 1023, 1 };
    case PLACE_CTA_ID: return (RangeInfo){ 0, RANGE_MAX_PROGRAMS - 1, 1 };
    case PLACE_CLUSTER_RANK: return (RangeInfo){ 0, 15, 1 };
    case PLACE_CLUSTER_ID: return (RangeInfo){ 0, ir_attr_int(i, ATTR_COUNT, 1) - 1, 1 };
    case PLACE_NUM_CTAS: return (RangeInfo){ 0, RANGE_MAX_PROGRAMS, 1 };
    }
    return all;
}

static RangeInfo of_launch(Ranges *r, const Instr *i, int depth)
{
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: return of_dim(r, (int)ir_attr_int(i, ATTR_DIM, -1), depth);
    case LAUNCH_STRIDE: return of_stride(r->func, i);
    case LAUNCH_PROGRAM_ID:
    case LAUNCH_NUM_PROGRAMS: return of_programs(r, i);
    }
    return all;
}

/* The range of a position along the axis, or of a sum along it, where a is the range of the operand's
 * elements. */
static RangeInfo of_axis(const Instr *i, const Value *v, int64_t axis, RangeInfo a)
{
    const Type *t = ir_operand(i, 0)->type;
    if (axis < 0 || axis >= t->rank) return whole(v);
    if (i->op != OP_REDUCE_SUM) return (RangeInfo){ 0, t->shape[axis] - 1, 1 };
    if (!dtype_is_int(t->dtype)) return whole(v);
    return range_in_dtype(t->dtype, (Wide)a.lo * t->shape[axis], (Wide)a.hi * t->shape[axis], a.div);
}

static RangeInfo of_cast(Ranges *r, const Instr *i, const Value *v, RangeInfo a, int depth)
{
    DType from = ir_operand(i, 0)->type->dtype, to = v->type->dtype;
    if (dtype_is_float(to)) return whole(v);
    if (dtype_is_float(from) && to != DT_BOOL) return range_of_float_cast(r, i, depth);
    if (to == DT_BOOL) return range_of_dtype(DT_BOOL);
    if ((from == DT_U64) != (to == DT_U64) && a.lo < 0) return whole(v);
    return range_op(OP_CAST, to, &a);
}

/* The range of a result of `for` or `if`: of its initial value and of all values that blocks pass on. */
static RangeInfo of_control(Ranges *r, const Instr *i, const Value *v, int depth)
{
    if (i->op == OP_FOR && v->index + 3 < i->n_operands && i->n_blocks) {
        RangeInfo body = of_carried(r, i, v->index, depth);
        return join(body, get(r, ir_operand(i, v->index + 3), depth));
    }
    if (i->op == OP_IF) {
        const Instr *x = i->blocks[0]->last, *y = i->blocks[1]->last;
        if (x && y && v->index < x->n_operands && v->index < y->n_operands)
            return join(get(r, ir_operand(x, v->index), depth), get(r, ir_operand(y, v->index), depth));
    }
    return whole(v);
}

/* Without casts that keep the number. */
static const Value *without_casts(Ranges *r, const Value *v, int depth)
{
    for (; v->def && v->def->op == OP_CAST && dtype_is_int(v->type->dtype); v = ir_operand(v->def, 0)) {
        const Value *x = ir_operand(v->def, 0);
        if (!dtype_is_int(x->type->dtype)) break;
        RangeInfo is = get(r, x, depth), fits = range_of_dtype(v->type->dtype);
        if (is.lo < fits.lo || is.hi > fits.hi) break;
    }
    return v;
}

/* Whether both are one quotient of extents and constants, perhaps in integers of different widths: quotients
 * wrap in none. */
static bool same_quotient(Ranges *r, const Value *a, const Value *b, int depth)
{
    int64_t x, y;
    a = without_casts(r, a, depth);
    b = without_casts(r, b, depth);
    const Instr *i = a->def, *j = b->def;
    if (a == b) return true;
    if (!i || !j || i->op != j->op || depth > DEPTH) return false;
    if (i->op == OP_CONST) return ir_is_const(a, &x) && ir_is_const(b, &y) && x == y;
    if (i->op == OP_DIM) return ir_attr_int(i, ATTR_DIM, 0) == ir_attr_int(j, ATTR_DIM, 0);
    return (i->op == OP_CDIV || i->op == OP_DIV) &&
           same_quotient(r, ir_operand(i, 0), ir_operand(j, 0), depth + 1) &&
           same_quotient(r, ir_operand(i, 1), ir_operand(j, 1), depth + 1);
}

/* Whether it is a program id, or the coordinate that stands for it in kernel IR, of a program of the grid. */
static bool is_program(const Value *v)
{
    return v->def && (v->def->op == OP_PROGRAM_ID || v->def->op == OP_PROGRAM_COORD) &&
           ir_attr_int(v->def, ATTR_CLUSTER, 1) <= 1;
}

/* Whether it numbers the programs of an axis from the last one down: num_programs(a) - 1 - program_id(a). */
static bool counts_down(Ranges *r, const Instr *i, int depth)
{
    if (i->op != OP_SUB) return false;
    const Value *last = without_casts(r, ir_operand(i, 0), depth),
                *id = without_casts(r, ir_operand(i, 1), depth);
    const Instr *d = last->def;
    int64_t by;
    if (!is_program(id) || !d || (d->op != OP_ADD && d->op != OP_SUB) ||
        !ir_is_const(ir_operand(d, 1), &by) || by != (d->op == OP_ADD ? -1 : 1))
        return false;
    const Instr *n = without_casts(r, ir_operand(d, 0), depth)->def;
    return n && n->op == OP_NUM_PROGRAMS &&
           ir_attr_int(n, ATTR_AXIS, 0) == ir_attr_int(id->def, ATTR_AXIS, 0);
}

/* The bound of a quotient of a program id whose axis of the grid has `a * b` programs: divided by a, it is
 * below b. Exact products only, which those of extents are that `range` bounds. False: it is something else.
 */
static bool of_flattened(Ranges *r, const Instr *i, int depth, int64_t *most)
{
    if (i->op != OP_DIV) return false;
    const Value *id = without_casts(r, ir_operand(i, 0), depth),
                *by = without_casts(r, ir_operand(i, 1), depth);
    const Instr *end = r->func->grid ? r->func->grid->last : NULL;
    if (!is_program(id)) return false;
    int64_t axis = ir_attr_int(id->def, ATTR_AXIS, 0);
    if (!end || axis < 0 || axis >= end->n_operands) return false;
    const Value *n = without_casts(r, ir_operand(end, (int)axis), depth);
    for (int k = 0; n->def && n->def->op == OP_MUL && k < 2; k++) {
        RangeInfo a = get(r, ir_operand(n->def, k), depth), b = get(r, ir_operand(n->def, 1 - k), depth);
        Wide programs = (Wide)a.hi * b.hi;
        if (a.lo < 0 || b.lo < 0 || programs > range_of_dtype(n->type->dtype).hi) continue;
        const Value *part = without_casts(r, ir_operand(n->def, k), depth);
        if (!ir_same_of_launch(r->func, by, part) && !same_quotient(r, by, part, depth)) continue;
        *most = b.hi > 0 ? b.hi - 1 : 0;
        return true;
    }
    return false;
}

static RangeInfo of_result(Ranges *r, const Value *v, int depth)
{
    const Instr *i = v->def;
    RangeInfo a = i->n_operands ? get(r, ir_operand(i, 0), depth) : all;
    int64_t c;
    if (i->op == OP_CONST) return ir_is_const(v, &c) ? constant(c) : all;
    if (op_family(i->op) == OPS_LAUNCH) return of_launch(r, i, depth);
    if (op_family(i->op) == OPS_PLACE) return of_place(r, i);
    if (op_family(i->op) == OPS_CONTROL) return of_control(r, i, v, depth);
    if (i->op == OP_ARANGE) {
        int64_t start = ir_attr_int(i, ATTR_START, 0), n = v->type->shape[0];
        return range_in_dtype(v->type->dtype, start, (Wide)start + n - 1, n == 1 ? constant(start).div : 1);
    }
    /* A constant is hidden so that nothing is concluded from it: what it is added to may lie elsewhere. */
    if (i->op == OP_OPAQUE && ir_is_const(ir_operand(i, 0), &c)) return whole(v);
    if (op_has(i->op, OPF_PICKS) && v->index == 0) {
        for (int k = 1; k < i->n_operands; k++) a = join(a, get(r, ir_operand(i, k), depth));
        return a;
    }
    if (i->op == OP_TOPK) return of_axis(i, v, ir_operand(i, 0)->type->rank - 1, a);
    if (op_family(i->op) == OPS_ARG || i->op == OP_REDUCE_SUM)
        return of_axis(i, v, ir_attr_int(i, ATTR_AXIS, 0), a);
    if (i->op == OP_CAST) return of_cast(r, i, v, a, depth);
    if (!op_is_elementwise(i->op) || i->n_operands > 3 || i->n_operands < 1 ||
        op_family(i->op) == OPS_RANDOM || i->op == OP_BITCAST)
        return whole(v);
    RangeInfo ops[3] = { a, all, all };
    for (int k = 1; k < i->n_operands; k++) ops[k] = get(r, ir_operand(i, k), depth);
    int64_t most;
    if (of_flattened(r, i, depth, &most))
        return meet(range_op(i->op, v->type->dtype, ops), (RangeInfo){ 0, most, 1 });
    if (counts_down(r, i, depth))
        return meet(range_op(i->op, v->type->dtype, ops), (RangeInfo){ 0, INT64_MAX, 1 });
    return range_op(
        i->op, op_family(i->op) == OPS_COMPARE ? ir_operand(i, 0)->type->dtype : v->type->dtype, ops);
}

static RangeInfo get(Ranges *r, const Value *v, int depth)
{
    if (v->id < r->n && r->info[v->id].div >= 0) return r->info[v->id];
    if (!type_is_value(v->type) || (!dtype_is_int(v->type->dtype) && v->type->dtype != DT_BOOL)) return all;
    if (depth > DEPTH) return whole(v);
    RangeInfo info = v->def ? of_result(r, v, depth + 1) : of_arg(r, v, depth + 1);
    const Attr *a = v->def && v->index == 0 ? ir_attr(v->def, ATTR_RANGE) : NULL;
    if (a && a->n == 2) info = meet(info, (RangeInfo){ a->v[0], a->v[1], 1 });
    set(r, v, info);
    return info;
}

RangeInfo range_at(Ranges *r, const Value *v, int depth) { return get(r, v, depth); }
RangeInfo range_of(Ranges *r, const Value *v) { return get(r, v, 0); }

static void sweep(Ranges *r, const Block *b)
{
    for (int k = 0; k < b->n_args; k++) get(r, b->args[k], 0);
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) sweep(r, i->blocks[k]);
        for (int k = 0; k < i->n_results; k++) get(r, &i->results[k], 0);
    }
}

Ranges *ranges_new(const Func *f)
{
    Session *s = f->module->session;
    Ranges *r = arena_new(&s->arena, Ranges);
    r->func = f;
    r->n = f->module->next_id;
    r->info = arena_array(&s->arena, RangeInfo, r->n);
    for (size_t k = 0; k < r->n; k++) r->info[k].div = -1;
    r->total = (RangeInfo){ 0, RANGE_MAX_PROGRAMS, 1 };
    if (f->grid) {
        sweep(r, f->grid);
        const Instr *y = f->grid->last;
        Wide n = 1;
        for (int k = 0; y && k < y->n_operands && k < 3; k++) {
            r->grid[k] = meet(get(r, ir_operand(y, k), 0), (RangeInfo){ 0, RANGE_MAX_PROGRAMS, 1 });
            n *= r->grid[k].hi;
            r->axes = k + 1;
        }
        if (r->axes && n < r->total.hi) r->total.hi = (int64_t)n;
        if (r->axes == 1) r->total = r->grid[0];
    }
    if (f->remap) sweep(r, f->remap);
    if (f->extents) sweep(r, f->extents);
    sweep(r, f->body);
    return r;
}

bool range_exact(Ranges *r, const Value *v)
{
    RangeInfo x = range_of(r, v), all = range_of_dtype(v->type->dtype);
    return x.lo > all.lo || x.hi < all.hi;
}
