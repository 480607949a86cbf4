/* plan_cost.c: what it costs to compute a tile where it is read, and how exact its results must be. */
#include "backends/cpu/plan.h"

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

/* A function whose results have no sign: sums of them keep the relative error of their terms. */
static bool never_below_zero(const Value *v, int depth)
{
    if (!v->def || depth > 8) return false;
    Op op = v->def->op;
    if (op_has(op, OPF_NONNEG)) return true;
    if (!op_has(op, OPF_MOVES) && op != OP_MUL && op != OP_ADD) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!never_below_zero(ir_operand(v->def, k), depth + 1)) return false;
    return true;
}

/* Whether the comparison only chooses between a speculation and the exact path (passes/speculate.c). It may
 * then be wrong by some ulp. */
static bool checks_speculation(const Value *v, int depth)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!ir_is_rare(u->user) && (depth > 8 || (u->user->op != OP_AND && u->user->op != OP_REDUCE_ALL) ||
                                        !checks_speculation(ir_result(u->user), depth + 1)))
            return false;
    return true;
}

static bool narrow_uses(const Value *v, int depth)
{
    if (v->type->dtype != DT_F32 || depth > 8) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        bool keeps = i->op == OP_MUL || i->op == OP_DIV || i->op == OP_NEG || i->op == OP_ABS ||
                     (op_has(i->op, OPF_MOVES) && i->n_operands == 1) ||
                     (i->op == OP_WHERE && u != &i->operands[0]) ||
                     (i->op == OP_REDUCE_SUM && never_below_zero(v, 0));
        const Value *to = keeps ? &i->results[0] : NULL;
        if (i->op == OP_CAST) {
            DType d = ir_result(i)->type->dtype;
            if (!dtype_is_float(d) || dtype_bits(d) > 16) return false;
            continue;
        }
        if (i->op == OP_LE || i->op == OP_GE) {
            if (!checks_speculation(ir_result(i), 0)) return false;
            continue;
        }
        if (i->op == OP_YIELD && i->block->parent && i->block->parent->op == OP_IF)
            to = &i->block->parent->results[u - i->operands];
        if (!to || !narrow_uses(to, depth + 1)) return false;
    }
    return true;
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
    if (!v->uses || !narrow_uses(v, 0)) return NEED_ALL;
    return times_operand(v) ? NEED_16_BITS_NO_NAN : NEED_16_BITS;
}
