/* empty-loops: a tile that only loops need is not read by programs whose loops do not run.
 *
 *   %q = load %Q[%i*64, 0] {extents = [64, 64]}      %n  = cdiv ..
 *   %n = cdiv ..                                     %c  = lt 0, %n
 *   for %j = 0 to %n { .. %q .. }              ->    %at = where %c, %i*64, dim M
 *                                                    %q  = load %Q[%at, 0] {extents = [64, 64]}
 *                                                    for %j = 0 to %n { .. %q .. }
 *
 * Behind the end of an axis there is nothing to read: the tile is zeros, and nothing looks at them. It needs
 * no branch, so that later passes still find the load in front of the loop. If several loops need the tile,
 * the window moves only if none of them runs.
 *
 * Requires: divisibility before it, which says which accesses are masked. Keeps: everything. Does not handle:
 * loads within loops; loads of tensors that the kernel writes; loops whose bounds come from memory behind the
 * load; loops that run in all programs or in none, as a launch without work is rare; axes of stride 1, on
 * whose positions the alignment of vectors depends; loads that are known to be in range, but where the copy
 * engine (TMA) checks that for nothing. */
#include "passes/tile/analysis/affine.h"

enum { MOST_LOOPS = 4, MOST_DEPTH = 32 };

typedef struct EmptyLoops {
    PassContext *c;
    Func *f;
    Facts *facts; /* NULL until they are asked for */
    Instr *load;
    Instr *loops[MOST_LOOPS]; /* that need the load */
    int n;
    int64_t changed;
} EmptyLoops;

static Facts *facts_of(EmptyLoops *e)
{
    if (!e->facts) e->facts = facts_new(e->c->scratch, e->f);
    return e->facts;
}

static bool take_loop(EmptyLoops *e, Instr *loop)
{
    for (int k = 0; k < e->n; k++)
        if (e->loops[k] == loop) return true;
    if (e->n == MOST_LOOPS) return false;
    e->loops[e->n++] = loop;
    return true;
}

/* Whether only bodies of loops need the value, by themselves or through operations in front of them. */
static bool only_loops_need(EmptyLoops *e, const Value *v, int depth)
{
    if (depth > MOST_DEPTH) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        Instr *at = ir_within(e->f->body, u->user);
        if (!at) return false;
        if (at != u->user) {
            if (at->op != OP_FOR || !take_loop(e, at)) return false;
            continue;
        }
        if (!op_is_pure(at->op) || at->n_blocks) return false;
        for (int k = 0; k < at->n_results; k++)
            if (!only_loops_need(e, &at->results[k], depth + 1)) return false;
    }
    return true;
}

static bool runs_always(EmptyLoops *e, const Instr *loop)
{
    Value *low = ir_operand(loop, 0), *high = ir_operand(loop, 1);
    Affine trips, from;
    if (value_range(facts_of(e), high).lo > value_range(facts_of(e), low).hi) return true;
    if (!affine_of(facts_of(e), high, &trips) || !affine_of(facts_of(e), low, &from) ||
        !affine_add(&trips, &from, -1))
        return false;
    trips.constant--;
    return prove_nonneg(facts_of(e), &trips);
}

/* Whether the scalar may differ from program to program: it comes from a program id or from memory. */
static bool varies(const Value *v, int depth)
{
    const Instr *d = v->def;
    if (!d) return v->block->parent != NULL; /* else a parameter */
    if (d->op == OP_PROGRAM_ID || depth > MOST_DEPTH || !op_is_pure(d->op) || d->n_blocks) return true;
    for (int k = 0; k < d->n_operands; k++)
        if (varies(ir_operand(d, k), depth + 1)) return true;
    return false;
}

static bool is_behind(const Instr *at, const Instr *i)
{
    while (at && at != i) at = at->next;
    return at != NULL;
}

/* Whether the scalar is known in front of the load, or can be computed there. */
static bool can_rise(const EmptyLoops *e, const Value *v, int depth)
{
    const Instr *d = v->def;
    if (!d || !is_behind(e->load, d)) return true;
    if (depth > MOST_DEPTH || v->type->kind != TYPE_SCALAR || !op_is_pure(d->op) || d->n_blocks) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!can_rise(e, ir_operand(d, k), depth + 1)) return false;
    return true;
}

static void rise(const EmptyLoops *e, const Value *v)
{
    Instr *d = v->def;
    if (!d || !is_behind(e->load, d)) return;
    for (int k = 0; k < d->n_operands; k++) rise(e, ir_operand(d, k));
    Builder b = ir_before(e->load);
    ir_unlink(d);
    ir_place(&b, d);
}

/* TMA checks every window, whatever is known of it. */
static bool checked_for_nothing(const EmptyLoops *e, const Param *q)
{
    const Target *t = e->c->options->target;
    return t && target_has(t, TF_TMA) && q->align % 16 == 0;
}

/* Whether every row of the tensor along the axis is as aligned as the load says. */
static bool keeps_alignment(const EmptyLoops *e, const Param *q, int axis)
{
    int64_t stride = ir_stride_step(q, axis);
    int64_t align = ir_attr_int(e->load, ATTR_ALIGN, 0);
    return q->stride[axis] != 1 && (!align || stride * dtype_bytes(q->type->dtype) % align == 0);
}

/* The axis along which the window moves away; -1: there is none. */
static int axis_of(EmptyLoops *e, const MemParts *p)
{
    const Param *q = &e->f->params[p->param];
    const Attr *extents = ir_attr(e->load, ATTR_EXTENTS);
    bool checked = checked_for_nothing(e, q);
    if (!ir_attr_int(e->load, ATTR_MASKED, 1) && !checked) return -1;
    for (int a = 0; a < p->rank; a++) {
        Affine low, high;
        if (extents->v[a] <= 1 || p->idx[a]->type->kind != TYPE_SCALAR || !keeps_alignment(e, q, a)) continue;
        if (checked) return a;
        if (window_forms(facts_of(e), e->load, a, &low, &high) && !prove_nonneg(facts_of(e), &high)) return a;
    }
    return -1;
}

/* The extent of the tensor along the axis: the first position behind it. */
static Value *end_of(const EmptyLoops *e, Builder *b, const MemParts *p, int axis, DType type)
{
    int dim = e->f->params[p->param].dims[axis];
    if (e->f->dims[dim].extent >= 0) return ir_const_int(b, type, e->f->dims[dim].extent);
    const Type *index = type_scalar(e->c->session, DT_INDEX);
    return ir_cast(b, ir_emit(b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, dim)), index), type);
}

static void move_window(EmptyLoops *e, const MemParts *p, int axis)
{
    Instr *load = e->load;
    Value *runs = NULL;
    for (int k = 0; k < e->n; k++)
        for (int n = 0; n < 2; n++) rise(e, ir_operand(e->loops[k], n));
    Builder b = ir_before(load);
    b.loc = load->loc;
    for (int k = 0; k < e->n; k++) {
        Value *one = ir_bin(&b, OP_LT, ir_operand(e->loops[k], 0), ir_operand(e->loops[k], 1));
        runs = runs ? ir_bin(&b, OP_OR, runs, one) : one;
    }
    Value *at = p->idx[axis], *ops[] = { runs, at, end_of(e, &b, p, axis, at->type->dtype) };
    at = ir_emit(&b, OP_WHERE, ops, 3, NO_ATTRS, NULL);
    ir_set_operand(load, 1 + axis, at);
    ir_unprove(e->c->session, load);
    e->facts = NULL; /* those of before */
    e->changed++;
}

static void visit(EmptyLoops *e, Instr *load)
{
    MemParts p;
    e->load = load;
    e->n = 0;
    if (load->op != OP_LOAD || load->n_results != 1 || !is_tile(ir_result(load)) || !is_constant_read(load) ||
        ir_attr(load, ATTR_STEPS) || !ir_mem_parts(load, &p) || p.pad ||
        !only_loops_need(e, ir_result(load), 0) || !e->n)
        return;
    bool differ = false;
    for (int k = 0; k < e->n; k++) {
        if (runs_always(e, e->loops[k])) return;
        for (int n = 0; n < 2; n++) {
            if (!can_rise(e, ir_operand(e->loops[k], n), 0)) return;
            differ |= varies(ir_operand(e->loops[k], n), 0);
        }
    }
    if (!differ) return;
    int axis = axis_of(e, &p);
    if (axis >= 0) move_window(e, &p, axis);
}

static bool empty_loops_func(PassContext *c, Func *f)
{
    EmptyLoops e = { .c = c, .f = f };
    if (!f->is_kernel) return false;
    for (Instr *i = f->body->first; i; i = i->next) visit(&e, i); /* moves others in front of i only */
    pass_count(c, "loads left out where no loop runs", e.changed);
    return e.changed > 0;
}

bool pass_empty_loops(PassContext *c, Module *m) { return pass_each_func(c, m, empty_loops_func); }
