/* narrow-results: computes functions and quotients only as exactly as results of 16 bits show.
 *
 *   %s = sigmoid %x; %y = mul %x, %s; %h = cast %y : f16   ->   %s = sigmoid %x {approx = 2}
 *
 * `approx = 2` is a relative error of at most 2^-16, with denormal results of f32 kept: what follows may
 * multiply them. A row of 16-bit elements otherwise takes more time for its arithmetic than for its memory.
 *
 * Requires: each use of the f32 result rounds it to a float of 16 bits or fewer, directly or behind
 * operations that keep the relative error of this operand, as a factor among at most MOST_FACTORS that may be
 * inexact: errors of factors add up, also those of one value in its powers. Does not handle: f64; integers,
 * which a small error may change by 1. */
#include "passes/kernel/kernel.h"

enum {
    MOST_STEPS = 8,
    MOST_FACTORS = 4, /* errors of 2^-16 are then 2^-14 together, an eighth of an ulp of f16 */
};

/* A function whose results have no sign: sums of them keep the relative error of their terms. */
static bool never_below_zero(const Value *v, int depth)
{
    if (!v->def || depth > MOST_STEPS) return false;
    Op op = v->def->op;
    if (op_has(op, OPF_NONNEG)) return true;
    if (!op_has(op, OPF_MOVES) && op != OP_MUL && op != OP_ADD) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!never_below_zero(ir_operand(v->def, k), depth + 1)) return false;
    return true;
}

bool kernel_never_below_zero(const Value *v) { return never_below_zero(v, 0); }

/* Whether the comparison only chooses between a speculation and the exact path
 * (passes/tile/loops/speculate.c). It may then be wrong by some ulp. */
static bool checks_speculation(const Value *v, int depth)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!ir_is_rare(u->user) &&
            (depth > MOST_STEPS || (u->user->op != OP_AND && u->user->op != OP_REDUCE_ALL) ||
                !checks_speculation(ir_result(u->user), depth + 1)))
            return false;
    return true;
}

/* The functions and quotients, each maybe inexact, whose product or quotient v is. */
static int factors(const Value *v, int depth)
{
    const Instr *d = v->def;
    int n = 0;
    if (!d || v->type->dtype != DT_F32) return 0;
    if (depth > MOST_STEPS) return MOST_FACTORS + 1;
    if (d->op == OP_MUL || d->op == OP_DIV)
        return (d->op == OP_DIV) + factors(ir_operand(d, 0), depth + 1) +
               factors(ir_operand(d, 1), depth + 1);
    if (d->op == OP_REDUCE_SUM || op_has(d->op, OPF_MOVES)) return factors(ir_operand(d, 0), depth + 1);
    /* The result of an exact operation has the relative error of one of its operands. */
    bool exact = op_has(d->op, OPF_EXACT);
    int ways = d->op == OP_WHERE ? 2 : exact ? d->n_operands : d->op == OP_IF ? d->n_blocks : 0;
    for (int k = 0; k < ways; k++) {
        const Value *x = d->op == OP_IF ? ir_operand(d->blocks[k]->last, (int)(v - d->results))
                                        : ir_operand(d, (d->op == OP_WHERE) + k);
        int of = factors(x, depth + 1);
        if (of > n) n = of;
    }
    return ways ? n : op_has(d->op, OPF_APPROX);
}

static bool narrow_uses(const Value *v, int depth)
{
    if (v->type->dtype != DT_F32 || depth > MOST_STEPS) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        bool keeps = i->op == OP_MUL || i->op == OP_DIV || op_has(i->op, OPF_EXACT) ||
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
        bool multiplies = i->op == OP_MUL || i->op == OP_DIV;
        if (!to || (multiplies && factors(to, 0) > MOST_FACTORS) || !narrow_uses(to, depth + 1)) return false;
    }
    return true;
}

bool kernel_is_narrow_result(const Value *v) { return v->uses && narrow_uses(v, 0); }

static void visit(void *user, Instr *i)
{
    KernelContext *c = user;
    if ((i->op != OP_SIGMOID && i->op != OP_DIV) || ir_result(i)->type->kind != TYPE_TILE ||
        ir_result(i)->type->dtype != DT_F32 || ir_attr_int(i, ATTR_APPROX, 0) ||
        !kernel_is_narrow_result(ir_result(i)))
        return;
    ir_set_attr(c->s, i, a_int(ATTR_APPROX, 2));
}

static void count(void *user, Instr *i) { *(int *)user += ir_attr_int(i, ATTR_APPROX, 0) == 2; }

bool kernel_pass_narrow_results(KernelContext *c)
{
    int before = 0, after = 0;
    ir_walk(c->f->body, count, &before);
    ir_walk(c->f->body, visit, c);
    ir_walk(c->f->body, count, &after);
    return after > before;
}
