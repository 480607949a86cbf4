/* cost_loops.c: of cost: how often loops run whose bounds are loaded, or that data end. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

enum { MOST_DEPTH = 8, MOST_DEEP = 14 };

/* The most iterations in which windows of a loop's block walk along an axis of their tensor. extent: of the
 * axes along which they walk; 0: there is none yet, -1: these differ. */
typedef struct Walked {
    const CostWalk *w;
    const Block *body;
    double most, ranges;
    int64_t extent;
} Walked;

static void note_extent(Walked *x, int64_t extent)
{ x->extent = !x->extent || x->extent == extent ? extent : -1; }

/* A gather takes the elements of an axis by the positions of a tile of one axis, or of one for each program
 * of a pack. */
static void gathers_along(Walked *x, const Instr *i)
{
    const Param *p = &x->w->f->params[ir_operand(i, 0)->index];
    for (int a = 0; a < p->type->rank; a++) {
        const Value *at = ir_operand(i, 1 + a);
        const Type *t = at->type;
        if (t->kind != TYPE_TILE || ir_defined_outside(at, x->body)) continue;
        int64_t n = type_elements(t), longest = 1;
        for (int k = 0; k < t->rank; k++) longest = t->shape[k] > longest ? t->shape[k] : longest;
        /* programs of a pack walk in step, each along its own range */
        if (n != longest && (t->rank < 2 || t->shape[0] != x->w->f->packed || n != longest * t->shape[0]))
            continue;
        n = longest;
        x->most = fmax(x->most, ceil((double)x->w->env->dims[p->dims[a]] / (double)n));
        x->extent = -1;
    }
}

/* Whether a copy of the portable path goes by a table of rows: how many of these are its program's, no extent
 * says. */
static bool by_table(const Instr *i)
{
    for (int k = 0; k < i->n_operands && i->op == OP_COPY; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE) return true;
    return false;
}

static void walks_along(void *user, Instr *i)
{
    Walked *x = user;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int at = i->op == OP_LOAD ? 0 : 1;
    if (i->op == OP_GATHER && x->ranges > 1) gathers_along(x, i);
    const bool moves = i->op == OP_LOAD || i->op == OP_RING_PUT || i->op == OP_COPY;
    if (!moves || !e || i->n_operands <= at + e->n || by_table(i)) return;
    const Param *p = &x->w->f->params[ir_operand(i, at)->index];
    for (int a = 0; a < e->n; a++)
        if ((e->v[a] > 1 || (e->v[a] == 1 && x->ranges > 1)) &&
            !ir_defined_outside(ir_operand(i, at + 1 + a), x->body)) {
            x->most = fmax(x->most, ceil((double)x->w->env->dims[p->dims[a]] / (double)e->v[a]));
            note_extent(x, x->w->env->dims[p->dims[a]]);
        }
}

/* The value of a scalar if all integers that it takes from memory are `loaded`. */
static bool value_of(const CostWalk *w, const Value *v, int64_t loaded, int depth, Scalar *out)
{
    const Instr *i = v->def;
    const CostKnown k = cost_get(w, v);
    Scalar in[4];
    *out = k.v;
    if (k.is) return true;
    if (!i || depth > MOST_DEEP || i->n_results != 1 || v->type->kind != TYPE_SCALAR) return false;
    if (i->op == OP_LOAD && dtype_is_int(v->type->dtype)) {
        *out = scalar_int(loaded);
        return true;
    }
    if (!op_is_elementwise(i->op) || i->n_operands < 1 || i->n_operands > 4) return false;
    for (int o = 0; o < i->n_operands; o++)
        if (!value_of(w, ir_operand(i, o), loaded, depth + 1, &in[o])) return false;
    const DType of = ir_operand(i, i->n_operands - 1)->type->dtype;
    if (i->op == OP_CAST) *out = scalar_cast(v->type->dtype, of, in[0]);
    else if (i->op == OP_OPAQUE) *out = in[0];
    else return scalar_op(i->op, of, in, out);
    return true;
}

/* The iterations of a loop whose bounds are loaded if what is loaded is the extent of the axis along which
 * all windows walk, as the number of keys of a sequence is. Programs that share what a loop walks over, each
 * a part, go a part of the way. 0: not known. */
static double as_extent(const CostWalk *w, const Instr *loop, int64_t extent)
{
    Scalar lo, hi, step;
    if (loop->op != OP_FOR || extent < 1) return 0;
    const bool known = value_of(w, ir_operand(loop, 0), extent, 0, &lo) &&
                       value_of(w, ir_operand(loop, 1), extent, 0, &hi) &&
                       value_of(w, ir_operand(loop, 2), extent, 0, &step);
    return known && step.i > 0 && hi.i > lo.i ? ceil((double)(hi.i - lo.i) / (double)step.i) : 0;
}

/* Of a loop's bounds: the tensor of one axis that both come from, and how many loads of it they take. */
typedef struct Offsets {
    int param, loads; /* param -1: none yet, -2: several */
} Offsets;

static void find_offsets(const Value *v, int depth, Offsets *o)
{
    MemParts m;
    const Instr *d = v->def;
    if (!d || depth > MOST_DEPTH || d->n_blocks) return;
    if (d->op == OP_LOAD && ir_mem_parts(d, &m)) {
        o->param = o->param == -1 || o->param == m.param ? m.param : -2;
        o->loads++;
        return;
    }
    for (int k = 0; k < d->n_operands; k++) find_offsets(ir_operand(d, k), depth + 1, o);
}

/* Into how many ranges two neighbouring offsets divide what a loop walks over, as those of ragged rows do; 1:
 * not known. Where products wait for each other, the longest range decides, and not the mean. */
static double ranges(const CostWalk *w, const Instr *loop)
{
    Offsets o = { .param = -1 };
    if (w->roles || !loop || loop->op != OP_FOR || ir_holds(w->f->body, OP_MMA_SYNC)) return 1;
    find_offsets(ir_operand(loop, 0), 0, &o);
    find_offsets(ir_operand(loop, 1), 0, &o);
    if (o.param < 0 || o.loads < 2 || w->f->params[o.param].type->rank != 1) return 1;
    return fmax(1, (double)w->env->dims[w->f->params[o.param].dims[0]] - 1);
}

/* How often a loop runs whose bounds are loaded: as far as its windows can walk along their tensors, which is
 * right for the longest of what they walk over, each of the CTAs among which split-k divides them a part of
 * the way. Consumers walk as far as their producer. */
double cost_unknown_iterations(CostWalk *w, Block *body)
{
    double mean = cost_mean_iterations(w, body->parent);
    w->c.tiled |= mean > 0;
    if (mean > 0) return mean;
    double parts = ranges(w, body->parent);
    w->c.ragged |= parts > 1;
    Walked x = { .w = w, .body = body, .ranges = parts };
    if (w->roles && !w->producer) x.most = w->rounds;
    else {
        ir_walk(body, walks_along, &x);
        if (w->plan && w->plan->split_k > 1) x.most = ceil(x.most / w->plan->split_k); /* of a CTA */
        double part = as_extent(w, body->parent, x.extent);
        if (part > 0) x.most = fmin(x.most, part);
    }
    /* programs of a pack go on until the longest of their ranges ends */
    const double longest = parts > 1 && w->f->packed > 1 ? 1 + log2((double)w->f->packed) / 4 : 1;
    return x.most >= 1 ? ceil(longest * x.most / parts) : COST_UNKNOWN_ITERATIONS;
}

static const Value *past_casts(const Value *v)
{
    while (v->def && v->def->op == OP_CAST) v = ir_operand(v->def, 0);
    return v;
}

/* The value that v has to stay below for `test` to hold; NULL: none is known. */
static const Value *bound_in(const Value *test, const Value *v, int depth)
{
    const Instr *i = test->def;
    if (!i || depth > MOST_DEPTH) return NULL;
    if (i->op == OP_LT) return past_casts(ir_operand(i, 0)) == v ? ir_operand(i, 1) : NULL;
    if (i->op != OP_AND) return NULL;
    const Value *first = bound_in(ir_operand(i, 0), v, depth + 1);
    return first ? first : bound_in(ir_operand(i, 1), v, depth + 1);
}

/* Rounds until carried value `at` reaches what the loop's test compares it with; 0: not known. */
static double rounds_until(CostWalk *w, const Instr *loop, int at)
{
    const Block *test = loop->blocks[0], *body = loop->blocks[1];
    const Value *hi = bound_in(ir_operand(ir_terminator(test), 0), test->args[at], 0),
                *next = past_casts(ir_operand(ir_terminator(body), at));
    int64_t from, to, step;
    if (!hi || ir_operand(ir_terminator(test), at + 1) != test->args[at]) return 0;
    if (!next->def || next->def->op != OP_ADD || past_casts(ir_operand(next->def, 0)) != body->args[at])
        return 0;
    const bool known = cost_as_int(w, ir_operand(loop, at), &from) && cost_as_int(w, hi, &to) &&
                       cost_as_int(w, ir_operand(next->def, 1), &step);
    return known && step > 0 && to > from ? ceil((double)(to - from) / (double)step) : 0;
}

/* What ends it, data as a rule, does so after half of the rounds that its counter allows, about: so tiles of
 * different sizes go the same way. */
double cost_open_iterations(CostWalk *w, const Instr *loop)
{
    for (int k = 0; k < loop->n_results; k++) {
        double all = rounds_until(w, loop, k);
        if (all > 0) return ceil(all / 2);
    }
    w->c.open = true;
    return COST_UNKNOWN_ITERATIONS;
}
