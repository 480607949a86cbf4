/* strength-reduction: marks quotients and remainders of a loop's counter that the loop can carry.
 *
 *   for %k = 0 to %n step 1 {              for %k = 0 to %n step 1 {
 *     %c = rem %k, %blocks                   %c = rem %k, %blocks {carried = 1}
 *     %t = div %k, %blocks            ->     %t = div %k, %blocks {carried = 1}
 *     %s = rem %t, %columns                  %s = rem %t, %columns {carried = 1}
 *
 * The emitter keeps such a quotient and its remainder in variables that grow from step to step
 * (backends/gpu/emit_counters.c), so that a step adds and compares where it would divide: by a number that is
 * not known when the kernel is compiled, a division takes as long as tens of additions. The operations stay
 * in the IR, where ranges and estimates see what they are.
 *
 * It marks a scalar quotient or remainder in the body of a `for` whose dividend is the loop's counter, the
 * counter plus a number that the loop does not change, or a quotient that is marked itself; and whose divisor
 * the loop does not change. A division by a constant power of two is a shift, and stays.
 *
 * Requires: ranges that prove the dividend 0 or more and sums free of wraps, the divisor 1 or more, and steps
 * of 1 or more. Keeps: everything. Does not handle: `while` loops; loops over programs. */
#include "passes/kernel/kernel.h"

typedef struct Loops {
    const Func *f;
    Ranges *ranges; /* NULL until a loop divides */
    Session *s;
    bool marked;
} Loops;

/* The value before casts that leave its number as it is. */
static Value *number_of(Ranges *r, Value *v)
{
    while (v->def && v->def->op == OP_CAST && dtype_is_int(ir_operand(v->def, 0)->type->dtype) &&
           range_fits(range_of(r, ir_operand(v->def, 0)), v->type->dtype))
        v = ir_operand(v->def, 0);
    return v;
}

Value *kernel_carried_dividend(Ranges *r, const Instr *loop, Value *of, Value **more)
{
    const Block *body = loop->blocks[0];
    *more = NULL;
    of = number_of(r, of);
    if (of == body->args[0]) return of;
    if (!of->def || of->def->block != body) return NULL;
    if (of->def->op == OP_DIV && ir_attr_int(of->def, ATTR_CARRIED, 0)) return of;
    for (int k = 0; of->def->op == OP_ADD && range_exact(r, of) && k < 2; k++) {
        *more = ir_operand(of->def, 1 - k);
        Value *counter = number_of(r, ir_operand(of->def, k));
        if (counter == body->args[0] && ir_defined_outside(*more, body)) return counter;
    }
    return NULL;
}

static bool is_shift(const Value *by)
{
    int64_t n;
    return ir_is_const(by, &n) && (n & (n - 1)) == 0;
}

static bool can_carry(Loops *l, const Instr *loop, const Instr *i)
{
    if ((i->op != OP_DIV && i->op != OP_REM) || i->results[0].type->kind != TYPE_SCALAR) return false;
    Value *of = ir_operand(i, 0), *by = ir_operand(i, 1), *more;
    DType d = of->type->dtype;
    return dtype_is_int(d) && dtype_bits(d) >= 32 && kernel_carried_dividend(l->ranges, loop, of, &more) &&
           !is_shift(by) && ir_defined_outside(by, loop->blocks[0]) && range_of(l->ranges, of).lo >= 0 &&
           range_of(l->ranges, by).lo >= 1;
}

static bool divides(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next)
        if ((i->op == OP_DIV || i->op == OP_REM) && i->results[0].type->kind == TYPE_SCALAR) return true;
    return false;
}

static void visit(void *user, Instr *loop)
{
    Loops *l = user;
    if (loop->op != OP_FOR || ir_over_programs(loop) || !divides(loop->blocks[0])) return;
    if (!l->ranges) l->ranges = ranges_new(l->f);
    if (range_of(l->ranges, ir_operand(loop, 2)).lo < 1 || range_of(l->ranges, ir_operand(loop, 0)).lo < 0)
        return;
    for (Instr *i = loop->blocks[0]->first; i; i = i->next)
        if (can_carry(l, loop, i)) {
            ir_set_attr(l->s, i, a_int(ATTR_CARRIED, 1));
            l->marked = true;
        }
}

bool kernel_pass_strength_reduction(KernelContext *c)
{
    Loops l = { .f = c->f, .s = c->s };
    ir_walk(c->f->body, visit, &l);
    return l.marked;
}
