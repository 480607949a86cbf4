/* plan_cost.c: what it costs to compute a tile where it is read, and how exact its results must be. */
#include "backends/cpu/plan/plan.h"
#include "passes/kernel/kernel.h"

enum { MUCH = 2000 }; /* nobody asks beyond that */

int squeeze(const Type *t, int64_t *shape)
{
    int n = 0;
    if (t->kind == TYPE_TILE)
        for (int i = 0; i < t->rank; i++)
            if (t->shape[i] != 1) shape[n++] = t->shape[i];
    return n;
}

bool plan_same_squeezed(const Type *a, const Type *b)
{
    int64_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    int n = squeeze(a, x);
    return n == squeeze(b, y) && !memcmp(x, y, (size_t)n * sizeof *x);
}

/* Whether the operation makes a tile that can be computed where it is read. */
bool plan_can_be_virtual(Op op)
{
    return op_is_elementwise(op) || (op_family(op) == OPS_SHAPE && op != OP_CONCAT) || op == OP_LOAD ||
           op == OP_GATHER;
}

bool plan_has_buffer(Plan *p, Value *v)
{
    ValInfo *i = plan_info(p, v);
    return i->buf || i->wanted || !v->def || !plan_can_be_virtual(v->def->op);
}

int plan_op_cost(const Instr *i)
{ return i->op == OP_LOAD ? (ir_attr_int(i, ATTR_MASKED, 1) ? 3 : 1) : op_info[i->op].cost; }

/* About how many instructions it takes to compute one vector of `v` again. */
static int cost(Plan *p, Value *v, int depth)
{
    if (!is_tile(v)) return 0;
    if (plan_has_buffer(p, v)) return 1;
    if (depth > 12) return 100;
    const Instr *i = v->def;
    int c = plan_op_cost(i);
    if (i->op == OP_SPLAT || i->op == OP_ARANGE || i->op == OP_LOAD || i->op == OP_GATHER) return c;
    for (int k = 0; k < i->n_operands && c < MUCH; k++) c += cost(p, ir_operand(i, k), depth + 1);
    return c;
}

int plan_cost_at(Plan *p, Value *v) { return cost(p, v, 0); }

int plan_cost(Plan *p, Value *v)
{
    if (!is_tile(v) || !v->def || !plan_can_be_virtual(v->def->op)) return 0;
    int c = cost(p, v, 0);
    if (plan_has_buffer(p, v))
        for (int k = 0; k < v->def->n_operands; k++) c += cost(p, ir_operand(v->def, k), 0);
    return c;
}

/* x f(x) is NaN where x is, whatever f makes of it. */
static bool times_operand(const Value *v)
{
    if (!v->def || v->def->n_operands != 1) return false;
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_MUL || (ir_operand(u->user, 0) != ir_operand(v->def, 0) &&
                                         ir_operand(u->user, 1) != ir_operand(v->def, 0)))
            return false;
    return true;
}

Need plan_need(const Value *v)
{
    if (!kernel_is_narrow_result(v)) return NEED_ALL;
    return times_operand(v) ? NEED_16_BITS_NO_NAN : NEED_16_BITS;
}
