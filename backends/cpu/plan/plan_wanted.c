/* plan_wanted.c: the axis along which a tile is best computed, which tiles must have a buffer from the start,
 * what evaluating one reads.
 *
 * What must have a buffer from the start (`wanted`): loop-carried tiles, costly operands of broadcasts,
 * operands of reshapes that move elements, loads that a later store could change, tiles whose rows do not lie
 * along their last axis (turned once). */
#include "backends/cpu/plan/plan.h"

enum { CHEAP = 6 };

static bool moves_elements(const Instr *reshape)
{
    return is_tile(ir_operand(reshape, 0)) &&
           !plan_same_squeezed(ir_operand(reshape, 0)->type, ir_result(reshape)->type);
}

int plan_last_axis(const Type *t)
{
    for (int a = t->rank - 1; a >= 0; a--)
        if (t->shape[a] != 1) return a;
    return t->rank - 1;
}

/* The axis along which the elements of `v` are best computed, which is contiguous in memory. Examines at most
 * `left` values. */
static int find_axis(Plan *p, Value *v, int *left)
{
    int last = plan_last_axis(v->type);
    if (!v->def || plan_has_buffer(p, v) || --*left < 0) return last;
    const Instr *i = v->def;
    if (i->op == OP_LOAD) {
        int a = memory_unit_axis(p->func, i);
        return a >= 0 && v->type->shape[a] > 1 ? a : last;
    }
    if (i->op == OP_PERMUTE) {
        int a = find_axis(p, ir_operand(i, 0), left);
        const Attr *o = ir_attr(i, ATTR_ORDER);
        for (int k = 0; k < o->n; k++)
            if (o->v[k] == a) return k;
    }
    if (op_info[i->op].flags & OPF_ELEM)
        for (int k = 0; k < i->n_operands; k++) {
            int a = is_tile(ir_operand(i, k)) ? find_axis(p, ir_operand(i, k), left) : last;
            if (a != last) return a;
        }
    return last;
}

int plan_natural_axis(Plan *p, Value *v)
{
    int left = 64;
    return find_axis(p, v, &left);
}

/* Whether all uses are matrix operands, through casts at most: packing then transposes the tile. */
static bool only_packed(const Value *v, int depth)
{
    if (!v->uses || depth > 4) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        bool operand = i->op == OP_MMA && (u == &i->operands[0] || u == &i->operands[1]);
        bool through = (i->op == OP_CAST || i->op == OP_PERMUTE) && only_packed(ir_result(i), depth + 1);
        if (!operand && !through) return false;
    }
    return true;
}

bool plan_is_zero(const Value *v)
{
    int64_t i;
    double f;
    return (ir_is_const(v, &i) && i == 0) || (ir_is_const_float(v, &f) && f == 0 && !__builtin_signbit(f));
}

static void want(Plan *p, Value *v)
{
    if (is_tile(v)) plan_info(p, v)->wanted = true;
}

static void want_operands(Plan *p, Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) want(p, ir_operand(i, k));
}

/* A tile that is best made along another axis than its last is stored, unless products alone read it. */
static void want_across(Plan *p, Instr *i)
{
    if (plan_natural_axis(p, ir_result(i)) != plan_last_axis(ir_result(i)->type) &&
        !only_packed(ir_result(i), 0))
        want(p, ir_result(i));
}

static void want_around_shape(Plan *p, Instr *i)
{
    Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    switch (op_as_shape(i->op)) {
    case SHAPE_BROADCAST:
        if (plan_cost_at(p, x) > CHEAP && !plan_same_squeezed(x->type, ir_result(i)->type)) want(p, x);
        return;
    case SHAPE_RESHAPE:
        if (moves_elements(i) && x->def && x->def->op != OP_SPLAT) want(p, x);
        return;
    case SHAPE_PERMUTE:
        if (!is_tile(ir_result(i))) return;
        if (plan_cost_at(p, x) > CHEAP) want(p, x);
        want_across(p, i);
        return;
    case SHAPE_SPLAT:
    case SHAPE_ARANGE:
    case SHAPE_SLICE:
    case SHAPE_CONCAT: return; /* plan_concat stores its parts instead */
    }
}

static void want_around_product(Plan *p, Instr *i)
{
    if (!plan_is_zero(ir_operand(i, 2))) want(p, ir_operand(i, 2));
    for (int k = 0; k < 2; k++)
        if (plan_natural_axis(p, ir_operand(i, k)) != 1 && plan_cost_at(p, ir_operand(i, k)) > 3 * CHEAP)
            want(p, ir_operand(i, k));
}

void plan_find_wanted(Plan *p, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        OpFamily f = op_family(i->op);
        if (f == OPS_SHAPE) want_around_shape(p, i);
        if (f == OPS_PRODUCT) want_around_product(p, i);
        if (f == OPS_SCAN || f == OPS_SORT) want(p, ir_operand(i, 0));
        if (f == OPS_COMBINED || i->op == OP_YIELD || i->op == OP_CONDITION || i->op == OP_PRINT)
            want_operands(p, i);
        if ((i->op == OP_LOAD && i->n_results > 1 && is_tile(ir_result(i))) ||
            (i->op == OP_GATHER && i->n_results > 1))
            want(p, ir_result(i));
        if (i->op == OP_LOAD && is_tile(ir_result(i))) want_across(p, i);
        for (int k = 0; p->named && k < i->n_results; k++)
            if (i->results[k].name) want(p, &i->results[k]);
        for (int k = 0; k < i->n_blocks; k++)
            if (f != OPS_COMBINED) plan_find_wanted(p, i->blocks[k]);
    }
}

/* --- leaves ------------------------------------------------------------------------------------------ */

static void walk_operands(Plan *p, const Instr *i, bool same, LeafFn *fn, void *user);

/* Values are shared: without the mark a walk would take as many steps as there are paths. */
static void walk_leaves(Plan *p, Value *v, bool same, LeafFn *fn, void *user)
{
    if (v->type->kind == TYPE_TENSOR || v->type->kind == TYPE_TOKEN) return;
    ValInfo *i = plan_info(p, v);
    if (i->walk[same] == p->n_walks) return;
    i->walk[same] = p->n_walks;
    if (!is_tile(v) || plan_has_buffer(p, v) || v->def->op == OP_LOAD) fn(user, v, same);
    else walk_operands(p, v->def, same, fn, user);
}

void plan_leaves(Plan *p, Value *v, bool same, LeafFn *fn, void *user)
{
    p->n_walks++;
    walk_leaves(p, v, same, fn, user);
}

static void walk_operands(Plan *p, const Instr *i, bool same, LeafFn *fn, void *user)
{
    if (i->op == OP_LOAD) {
        fn(user, (Value *)ir_result(i), same);
        return;
    }
    bool keeps = (op_info[i->op].flags & OPF_ELEM) || i->op == OP_GATHER || i->op == OP_SCATTER ||
                 i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS ||
                 ((i->op == OP_RESHAPE || i->op == OP_BROADCAST) && is_tile(ir_operand(i, 0)) &&
                     plan_same_squeezed(ir_operand(i, 0)->type, ir_result(i)->type));
    for (int k = 0; k < i->n_operands; k++) walk_leaves(p, ir_operand(i, k), same && keeps, fn, user);
}

/* What a sink reads. */
void plan_sink_leaves(Plan *p, Sink *s, LeafFn *fn, void *user)
{
    p->n_walks++;
    switch (s->kind) {
    case SINK_BUFFER:
        if (s->value->def && plan_can_be_virtual(s->value->def->op) && s->buf == plan_info(p, s->value)->buf)
            walk_operands(p, s->value->def, true, fn, user);
        else walk_leaves(p, s->value, true, fn, user);
        break;
    case SINK_PACK:
    case SINK_REDUCE:
    case SINK_COUNT:
    case SINK_ASSERT: walk_leaves(p, s->value, true, fn, user); break;
    case SINK_STORE:
    case SINK_SCATTER:
    case SINK_ATOMIC:
    case SINK_PRINT:
        for (int k = 0; k < s->instr->n_operands; k++)
            walk_leaves(p, ir_operand(s->instr, k), true, fn, user);
        break;
    }
}
