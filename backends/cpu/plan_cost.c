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

/* Does the operation make a tile that can be computed where it is read? */
bool plan_can_be_virtual(Op op)
{
    if (op_info[op].flags & OPF_ELEM) return true;
    switch ((int)op) {
    case OP_SPLAT:
    case OP_ARANGE:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_SLICE:
    case OP_LOAD:
    case OP_GATHER: return true;
    default: return false;
    }
}

bool plan_has_buffer(Plan *p, Value *v)
{
    ValInfo *i = plan_info(p, v);
    return i->buf || i->wanted || !v->def || !plan_can_be_virtual(v->def->op);
}

int plan_op_cost(const Instr *i)
{
    switch ((int)i->op) {
    case OP_SPLAT: return 0;
    case OP_LOAD: return ir_attr_int(i, ATTR_MASKED, 1) ? 3 : 1;
    case OP_GATHER: return 40;
    case OP_DIV:
    case OP_REM:
    case OP_CDIV:
    case OP_SQRT:
    case OP_RSQRT: return 10;
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
    case OP_SIN:
    case OP_COS:
    case OP_TANH:
    case OP_ERF:
    case OP_SIGMOID:
    case OP_PHILOX: return 25;
    default: return 1;
    }
}

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
    switch ((int)v->def->op) {
    case OP_EXP:
    case OP_EXP2:
    case OP_SIGMOID:
    case OP_ABS:
    case OP_SQRT: return true;
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_SLICE: return never_below_zero(ir_operand(v->def, 0), depth + 1);
    case OP_MUL:
    case OP_ADD:
        return never_below_zero(ir_operand(v->def, 0), depth + 1) &&
               never_below_zero(ir_operand(v->def, 1), depth + 1);
    default: return false;
    }
}

/* Does the comparison only choose between a guess and the long way round (passes/speculate.c)? It may be
 * wrong by some ulp. */
static bool checks_guess(const Value *v, int depth)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!ir_is_rare(u->user) && (depth > 8 || (u->user->op != OP_AND && u->user->op != OP_REDUCE_ALL) ||
                                        !checks_guess(ir_result(u->user), depth + 1)))
            return false;
    return true;
}

static bool narrow_uses(const Value *v, int depth)
{
    if (v->type->dtype != DT_F32 || depth > 8) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        switch ((int)i->op) {
        case OP_CAST: {
            DType d = ir_result(i)->type->dtype;
            if (!dtype_is_float(d) || dtype_bits(d) > 16) return false;
            continue;
        }
        case OP_REDUCE_SUM:
            if (!never_below_zero(v, 0)) return false;
            break;
        case OP_WHERE:
            if (u == &i->operands[0]) return false;
            break;
        case OP_LE:
        case OP_GE:
            if (!checks_guess(ir_result(i), 0)) return false;
            continue;
        case OP_YIELD:
            if (!i->block->parent || i->block->parent->op != OP_IF ||
                !narrow_uses(&i->block->parent->results[u - i->operands], depth + 1))
                return false;
            continue;
        case OP_MUL:
        case OP_DIV:
        case OP_NEG:
        case OP_ABS:
        case OP_SPLAT:
        case OP_BROADCAST:
        case OP_RESHAPE:
        case OP_PERMUTE:
        case OP_SLICE: break;
        default: return false;
        }
        if (!narrow_uses(ir_result(i), depth + 1)) return false;
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
