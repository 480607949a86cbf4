/* accumulate: a product that is added to a sum begins with that sum.
 *
 *   %z = splat 0.0 : f32[128, 256]
 *   %p = mma %a, %b, %z : f32[128, 256]
 *   %n = add %s, %p : f32[128, 256]      ->      %n = mma %a, %b, %s : f32[128, 256]
 *
 * A matrix unit adds to its accumulators for nothing. Written as a sum, the step of a loop would have a
 * product of its own, which takes as many registers as the sum, has to be waited for in each step, and is
 * added by other instructions. Products that add to each other are one product in this sense: the sum goes to
 * the first of them.
 *
 * What the product is added to must be a sum already: a product, what a loop carries or has carried, or what
 * element-wise operations make of such a value, as where attention scales its sums in each step. A bias or a
 * residual, which is loaded, stays behind the products, where it need not be held during them.
 *
 * Bound: that of `mma`, whose additions have no order; docs/language.md allows this for every product and
 * sum.
 *
 * Requires: fold, so that zeros are constants. Does not handle: products that something else uses as well,
 * `fast_accum`, with which the sum of all steps would be less exact than that of one; sums that are computed
 * behind the product. */
#include "passes/pass.h"

enum { MAX_OPERATIONS = 4 }; /* between a sum and what is added to; longer arithmetic is no scaling of sums */

typedef struct Accumulate {
    PassContext *c;
    int64_t n;
} Accumulate;

static bool is_zero(const Value *v)
{
    const Instr *i = v->def;
    const Value *x = i && i->op == OP_SPLAT ? ir_operand(i, 0) : v;
    int64_t n;
    double r;
    return (ir_is_const(x, &n) && n == 0) || (ir_is_const_float(x, &r) && r == 0);
}

static bool is_used_once(const Value *v) { return v->uses && !v->uses->next; }

/* The product in whose chain `v` is the last, and which begins at zero; NULL: there is none. */
static Instr *first_product(const Value *v, const Instr *user)
{
    while (v->def && v->def->op == OP_MMA && v->def->block == user->block && is_used_once(v) &&
           ir_attr_int(v->def, ATTR_PRECISION, 0) != PRECISION_FAST_ACCUM) {
        if (is_zero(ir_operand(v->def, 2))) return v->def;
        v = ir_operand(v->def, 2);
    }
    return NULL;
}

/* Whether the value is a sum of products, of steps of a loop, or made of such a sum by a few operations. */
static bool is_sum(const Value *v, int operations)
{
    const Instr *i = v->def;
    if (!i) return v->block->parent && is_loop(v->block->parent);
    if (i->op == OP_MMA || is_loop(i)) return true;
    if (!op_is_elementwise(i->op) || operations == MAX_OPERATIONS) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type == v->type && is_sum(ir_operand(i, k), operations + 1)) return true;
    return false;
}

/* Whether the value is there where the instruction stands, which is known of all that is not computed behind
 * it in its block. */
static bool stands_before(const Value *v, const Instr *at)
{
    if (!v->def || v->def->block != at->block) return true;
    for (const Instr *i = at->prev; i; i = i->prev)
        if (i == v->def) return true;
    return false;
}

static void visit(void *user, Instr *i)
{
    Accumulate *x = user;
    if (i->op != OP_ADD || !is_tile(ir_result(i))) return;
    for (int side = 1; side >= 0; side--) {
        Value *sum = ir_operand(i, 1 - side), *last = ir_operand(i, side);
        Instr *first = first_product(last, i);
        if (!first || !is_sum(sum, 0) || !stands_before(sum, first)) continue;
        ir_set_operand(first, 2, sum);
        if (!last->name) ir_set_name(last, ir_result(i)->name);
        replace_value(ir_result(i), last);
        x->n++;
        return;
    }
}

static bool accumulate_func(PassContext *c, Func *f)
{
    Accumulate x = { c, 0 };
    ir_walk(f->body, visit, &x);
    pass_count(c, "products that begin with a sum", x.n);
    return x.n > 0;
}

bool pass_accumulate(PassContext *c, Module *m) { return pass_each_func(c, m, accumulate_func); }
