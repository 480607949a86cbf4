/* cost_scalars.c: of cost: the scalars that a launch's extents and a program's coordinates decide. A walk
 * evaluates them on its way, so that trip counts (of a causal loop, say) and windows are those of the program
 * that it walks. */
#include "runtime/choice/cost/cost_walk.h"

bool cost_as_int(const CostWalk *w, const Value *v, int64_t *out)
{
    CostKnown k = cost_get(w, v);
    if (!k.is) return false;
    *out = dtype_is_float(v->type->dtype) ? (int64_t)k.v.f : k.v.i;
    return true;
}

/* Of a quotient or remainder that a loop carries: both together are an addition, a comparison and two selects
 * (backends/gpu/emit_counters.c). */
enum { CARRIED = 2 };

/* Lane operations of a scalar operation. */
static double operations(const CostWalk *w, const Instr *i)
{
    int64_t by;
    if (ir_attr_int(i, ATTR_CARRIED, 0)) return CARRIED;
    if (i->op != OP_DIV && i->op != OP_REM && i->op != OP_CDIV) return 1;
    if (!ir_is_const(ir_operand(i, 1), &by)) return w->model->division;
    return by > 0 && !(by & (by - 1)) ? 1 : w->model->division_constant;
}

static void put_const(CostWalk *w, const Instr *i)
{
    const Attr *n = ir_attr(i, ATTR_IVALUE), *x = ir_attr(i, ATTR_FVALUE);
    if (n) cost_put_always(w, &i->results[0], scalar_int(n->i));
    else if (x) cost_put_always(w, &i->results[0], scalar_float(x->f));
}

static void put_launch(CostWalk *w, const Instr *i)
{
    const Value *r = &i->results[0];
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0), param = ir_attr_int(i, ATTR_PARAM, 0);
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: cost_put_always(w, r, scalar_int(w->env->dims[ir_attr_int(i, ATTR_DIM, 0)])); return;
    case LAUNCH_STRIDE:
        cost_put_always(w, r, scalar_int(w->env->strides ? w->env->strides[param][axis] : 1));
        return;
    case LAUNCH_NUM_PROGRAMS:
        cost_put_always(w, r, scalar_int(axis < 0 ? w->programs : w->env->grid[axis]));
        return;
    case LAUNCH_PROGRAM_ID: cost_put(w, r, scalar_int(w->coord[axis])); return;
    }
}

static void put_place(CostWalk *w, const Instr *i)
{
    const Value *r = &i->results[0];
    switch (op_as_place(i->op)) {
    case PLACE_PROGRAM_COORD:
        if (w->traffic && cost_get(w, ir_operand(i, 0)).is) cost_put(w, r, cost_get(w, ir_operand(i, 0)).v);
        else cost_put(w, r, scalar_int(w->coord[ir_attr_int(i, ATTR_AXIS, 0)]));
        return;
    case PLACE_CLUSTER_ID:
    case PLACE_CLUSTER_RANK: cost_put(w, r, scalar_int(w->rank)); return; /* parts differ by a step at most */
    case PLACE_PROGRAM:
    case PLACE_CTA_ID: cost_put(w, r, scalar_int(w->linear)); return;
    case PLACE_NUM_CTAS: /* unknown; of a launch with shares (stream-k) each program is counted as a whole */
        if (w->plan && w->plan->shares) cost_put(w, r, scalar_int(1));
        return;
    case PLACE_CP_ASYNC_ROW: return;
    }
}

/* Of operands that are all known. */
static void put_elementwise(CostWalk *w, const Instr *i)
{
    const Value *r = &i->results[0];
    Scalar in[4], out;
    uint32_t walk = COST_ALWAYS; /* in which the result is known */
    if (i->n_operands > 4) return;
    for (int k = 0; k < i->n_operands; k++) {
        const CostKept *x = &w->kept[ir_operand(i, k)->id];
        if (x->walk != w->walk && x->walk != COST_ALWAYS) return;
        if (x->walk != COST_ALWAYS) walk = w->walk;
        in[k] = x->v;
    }
    const DType of = i->n_operands ? ir_operand(i, i->n_operands - 1)->type->dtype : r->type->dtype;
    if (i->op == OP_CAST) out = scalar_cast(r->type->dtype, of, in[0]);
    else if (i->op == OP_OPAQUE) out = in[0];
    else if (!op_is_elementwise(i->op) || !i->n_operands) return;
    else if (i->n_operands != 2 || !scalar_whole(i->op, of, in[0].i, in[1].i, &out)) {
        if (!scalar_op(i->op, of, in, &out)) return;
    }
    w->kept[r->id] = (CostKept){ walk, out };
}

void cost_evaluate(CostWalk *w, const Instr *i, double times, double around)
{
    const Value *r = &i->results[0];
    if (i->n_results != 1 || r->type->kind != TYPE_SCALAR) return;
    if (i->op != OP_CONST && !w->traffic && (w->producer || !w->roles)) {
        double n = operations(w, i);
        if (w->producer && w->loops) w->c.steps += n * around;
        w->c.scalar += times * n;
    }
    if (cost_always(w, r)) return;
    if (i->op == OP_CONST) put_const(w, i);
    else if (op_family(i->op) == OPS_LAUNCH) put_launch(w, i);
    else if (op_family(i->op) == OPS_PLACE) put_place(w, i);
    else put_elementwise(w, i);
}

bool cost_whole_step(CostWalk *w, const TrafficStep *t)
{
    const CostKept *a = &w->kept[t->in[0]], *b = &w->kept[t->in[1]];
    Scalar out;
    if (a->walk != w->walk && (a->walk != COST_ALWAYS || b->walk != w->walk)) return false;
    if (b->walk != w->walk && b->walk != COST_ALWAYS) return false;
    if (!scalar_whole(t->i->op, t->dtype, a->v.i, b->v.i, &out)) return false;
    w->kept[t->out] = (CostKept){ w->walk, out };
    return true;
}
