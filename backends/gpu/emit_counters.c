/* emit_counters.c: quotients and remainders that a loop carries (strength-reduction).
 *
 *     u64 quotient_1 = 0, rest_1 = 0;                      before the loop: those of its first step
 *     for (i64 k = 0; k < n; k++) {
 *         const i64 c = (i64)rest_1;                       k % blocks
 *         ..
 *         rest_1 += 1;                                     at the end of the body: those of the next step
 *         const bool carry_1 = rest_1 >= blocks;
 *         if (carry_1) rest_1 -= blocks;
 *         quotient_1 += carry_1;
 *     }
 *
 * A quotient that is divided again is the next digit: what it grows by is what the digits before it carry.
 */
#include "backends/gpu/emit.h"

static Counter *counter_of(Emit *e, const Value *of, const Value *by)
{
    for (size_t k = 0; k < e->counters.len; k++)
        if (e->counters.data[k].of == of && e->counters.data[k].by == by) return &e->counters.data[k];
    return NULL;
}

static bool is_carried(const Instr *i) { return ir_attr_int(i, ATTR_CARRIED, 0) != 0; }

static const char *word(const Value *v) { return dtype_bits(v->type->dtype) > 32 ? "u64" : "u32"; }

/* The counter whose quotient is divided again; NULL: the dividend is the loop's counter. */
static Counter *before(Emit *e, const Value *dividend)
{
    if (!dividend->def) return NULL;
    return counter_of(e, ir_operand(dividend->def, 0), ir_operand(dividend->def, 1));
}

/* The dividend in the loop's first step. */
static const char *first_of(Emit *e, const Instr *loop, const Counter *digit, const Value *more)
{
    if (digit) return digit->quotient;
    const char *lo = name_of(e, ir_operand(loop, 0));
    return more ? str(e, "(%s + %s)", lo, name_of(e, more)) : lo;
}

static void open_counter(Emit *e, const Instr *loop, const Instr *i)
{
    Value *of = ir_operand(i, 0), *by = ir_operand(i, 1), *more;
    const char *t = word(of);
    int64_t zero = 1, one = 0;
    if (counter_of(e, of, by)) return;
    if (!e->ranges) e->ranges = ranges_new(e->f);
    const Value *dividend = kernel_carried_dividend(e->ranges, loop, of, &more);
    const Counter *digit = before(e, dividend);
    Counter c = { .of = of,
        .by = by,
        .quotient = tmp(e, "quotient"),
        .rest = tmp(e, "rest"),
        .carry = tmp(e, "carry"),
        .in = digit ? digit->carry : NULL };
    c.divisor = str(e, "(%s)%s", t, name_of(e, by));
    c.zero = digit ? digit->zero : !more && ir_is_const(ir_operand(loop, 0), &zero) && zero == 0;
    c.unit = ir_is_const(ir_operand(loop, 2), &one) && one == 1;
    const char *first = first_of(e, loop, digit, more);
    if (c.zero) line(e, "%s %s = 0, %s = 0;", t, c.quotient, c.rest);
    else
        line(e, "%s %s = (%s)%s / %s, %s = (%s)%s %% %s;", t, c.quotient, t, first, c.divisor, c.rest, t,
            first, c.divisor);
    if (!c.unit) {
        const char *by_step = digit ? digit->more : name_of(e, ir_operand(loop, 2));
        c.more = tmp(e, "quotient_more");
        c.rest_more = tmp(e, "rest_more");
        line(e, "const %s %s = (%s)%s / %s, %s = (%s)%s %% %s;", t, c.more, t, by_step, c.divisor,
            c.rest_more, t, by_step, c.divisor);
    }
    vec_push(&e->s->arena, &e->counters, c);
}

size_t emit_counters_open(Emit *e, const Instr *loop)
{
    size_t from = e->counters.len;
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next)
        if (is_carried(i)) open_counter(e, loop, i);
    return from;
}

void emit_counters_step(Emit *e, size_t from)
{
    for (size_t k = from; k < e->counters.len; k++) {
        const Counter *c = &e->counters.data[k];
        const char *in = c->in ? c->in : c->unit ? "1" : NULL, *plus = in && !c->unit ? " + " : "";
        line(e, "%s += %s%s%s;", c->rest, c->unit ? "" : c->rest_more, plus, in ? in : "");
        line(e, "const bool %s = %s >= %s;", c->carry, c->rest, c->divisor);
        line(e, "if (%s) %s -= %s;", c->carry, c->rest, c->divisor);
        line(e, "%s += %s%s%s;", c->quotient, c->unit ? "" : c->more, c->unit ? "" : " + ", c->carry);
    }
    e->counters.len = from;
}

const char *emit_counter(Emit *e, const Instr *i)
{
    const Counter *c = is_carried(i) ? counter_of(e, ir_operand(i, 0), ir_operand(i, 1)) : NULL;
    if (!c) return NULL;
    return str(e, "(%s)%s", ctype(i->results[0].type->dtype), i->op == OP_DIV ? c->quotient : c->rest);
}
