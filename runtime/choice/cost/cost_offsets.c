/* cost_offsets.c: of cost: estimates the trip count of a loop over the tiles of a range whose bounds follow
 * from loaded offsets, such as the rows START[e] .. START[e + 1] of an expert.
 *
 * The offsets divide the axis along which windows begin at them. All ranges count as equally long: of n + 1
 * offsets, the one at place i is assumed to be i / n of the axis. On average a range fills half of its last
 * tile. If the beginning of a loop is not known, because programs take the tiles of all ranges in turn, it
 * counts as anywhere within a step.
 *
 * This applies only to loops that contain other loops. For a loop that contains the products itself, such as
 * that over the keys of a sequence, the longest range decides (cost_loops.c). */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

enum { MOST_DEPTH = 24 };

static bool is_load_of(const Instr *d, int param)
{
    MemParts m;
    return d->op == OP_LOAD && ir_mem_parts(d, &m) && m.param == param;
}

/* Whether the position is computed from elements of the tensor. */
static bool begins_at(const Value *v, int param, int depth)
{
    const Instr *d = v->def;
    if (!d || depth > MOST_DEPTH || d->n_blocks || v->type->kind != TYPE_SCALAR) return false;
    if (d->op == OP_LOAD) return is_load_of(d, param);
    for (int k = 0; k < d->n_operands; k++)
        if (begins_at(ir_operand(d, k), param, depth + 1)) return true;
    return false;
}

/* The longest axis along which windows begin at offsets of the tensor. */
typedef struct Divided {
    const CostWalk *w;
    int param;
    double extent;
} Divided;

static void longest(void *user, Instr *i)
{
    Divided *x = user;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int at = i->op == OP_LOAD ? 0 : 1;
    if ((i->op != OP_LOAD && !kernel_copies(i->op)) || !e || i->n_operands <= at + e->n) return;
    const Param *p = &x->w->f->params[ir_operand(i, at)->index];
    for (int a = 0; a < e->n; a++)
        if (e->v[a] > 1 && begins_at(ir_operand(i, at + 1 + a), x->param, 0))
            x->extent = fmax(x->extent, (double)x->w->env->dims[p->dims[a]]);
}

/* A number that loaded offsets decide, in the mean. */
typedef struct Mean {
    double v;
    bool loaded; /* offsets decide it */
} Mean;

static bool mean_of(CostWalk *w, const Value *v, int depth, Mean *out);

static bool mean_offset(CostWalk *w, const Instr *load, int depth, Mean *out)
{
    MemParts m;
    Mean at;
    if (!ir_mem_parts(load, &m) || m.rank != 1 || dtype_is_float(ir_result(load)->type->dtype)) return false;
    Divided x = { .w = w, .param = m.param };
    double n = (double)w->env->dims[w->f->params[m.param].dims[0]] - 1;
    ir_walk(w->f->body, longest, &x);
    if (n < 1 || x.extent == 0 || !mean_of(w, m.idx[0], depth + 1, &at)) return false;
    *out = (Mean){ fmin(fmax(at.v, 0), n) / n * x.extent, true };
    return true;
}

static bool mean_quotient(const Instr *i, const Mean *of, Mean *out)
{
    bool up = i->op == OP_CDIV, whole = !of[0].loaded && !of[1].loaded;
    double q = of[0].v / of[1].v;
    if (of[1].v == 0) return false;
    if (whole) q = up ? ceil(q) : floor(q);
    else if (up && q > 0) q += 0.5;
    *out = (Mean){ q, !whole };
    return true;
}

static bool mean_step(const Instr *i, const Mean *of, Mean *out)
{
    Op op = i->op;
    Scalar in[2] = { scalar_float(of[0].v), scalar_float(of[1].v) }, v;
    if (op == OP_DIV || op == OP_CDIV) return mean_quotient(i, of, out);
    if (op != OP_ADD && op != OP_SUB && op != OP_MUL && op != OP_MIN && op != OP_MAX) return false;
    if (!scalar_op(op, DT_F64, in, &v)) return false;
    *out = (Mean){ v.f, of[0].loaded || of[1].loaded };
    return true;
}

static bool mean_of(CostWalk *w, const Value *v, int depth, Mean *out)
{
    const Instr *d = v->def;
    int64_t known;
    Mean of[2];
    if (cost_as_int(w, v, &known)) {
        *out = (Mean){ (double)known, false };
        return true;
    }
    if (!d || depth > MOST_DEPTH || d->n_blocks || v->type->kind != TYPE_SCALAR) return false;
    if (d->op == OP_LOAD) return mean_offset(w, d, depth, out);
    if (d->op == OP_CAST || d->op == OP_OPAQUE) return mean_of(w, ir_operand(d, 0), depth + 1, out);
    if (d->n_operands != 2) return false;
    for (int k = 0; k < 2; k++)
        if (!mean_of(w, ir_operand(d, k), depth + 1, &of[k])) return false;
    return mean_step(d, of, out);
}

double cost_mean_iterations(CostWalk *w, const Instr *loop)
{
    Mean lo, hi, step;
    if (!loop || loop->op != OP_FOR || !ir_holds(loop->blocks[0], OP_FOR)) return 0;
    if (!mean_of(w, ir_operand(loop, 1), 0, &hi) || !mean_of(w, ir_operand(loop, 2), 0, &step)) return 0;
    if (!mean_of(w, ir_operand(loop, 0), 0, &lo)) {
        if (step.v <= 1) return 0;
        lo = (Mean){ 0, false };
    }
    return step.v > 0 ? fmax(0, hi.v - lo.v) / step.v : 0;
}
