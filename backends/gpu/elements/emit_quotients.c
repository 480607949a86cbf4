/* emit_quotients.c: tiles that are divided by one number, or by one for each row, four elements at a time.
 *
 *     y = x / d  ->  rcp = rcp_newton(d);  ya = quotient(xa, d, rcp);  ..
 *                    if (the divisor or a dividend is too large or small) ya = div_f32(xa, d), ..
 *
 * The quotient is the product with a reciprocal that one Newton step has refined, corrected twice by the
 * remainder. It is correctly rounded (Markstein) if nothing underflows or overflows, which holds for positive
 * divisors and dividends within limits, and for dividends of zero. Four elements share one test of these
 * limits. A quotient that is only rounded to an integer has no lower limit of the dividend, because below it
 * the integer is 0. If one number divides the whole tile, its reciprocal is computed in front of the run.
 * Requires: CUDA, f32, one divisor for each four elements of a thread. */
#include "backends/gpu/elements/emit_pairs.h"
#include <math.h>

/* The number that divides all of the tile; NULL: there is none. */
static const Value *one_divisor(const Paired *r, const Instr *i)
{ return paired_repeated(r, ir_operand(i, 1)); }

/* Whether the four elements of each group have the same divisor. */
static bool divided_alike(const Paired *r, const Instr *i)
{
    const Value *d = ir_operand(i, 1);
    Paired group = *r;
    group.p = 4;
    group.loop = layout_regs(r->l) > 4;
    if (paired_in_run(r, d)) return false;
    for (int x = 1; x < 4; x++)
        if (!same_element(r->e, d, r->l, paired_place(&group, 0), paired_place(&group, x))) return false;
    return true;
}

bool quotients_wanted(const Paired *r, const Instr *i)
{
    double c;
    if (layout_regs(r->l) % 4 || i->op != OP_DIV || ir_result(i)->type->dtype != DT_F32 ||
        ir_attr(i, ATTR_APPROX) || paired_repeated(r, ir_operand(i, 0)))
        return false;
    const Value *one = one_divisor(r, i);
    return one ? !ir_is_const_float(one, &c) || (c >= 0x1p-24 && c <= 0x1p24) : divided_alike(r, i);
}

enum { MOST_STEPS = 8 }; /* so many operations behind a quotient are looked at */

/* The constant beside v in an operation of two operands. */
static bool constant_beside(const Paired *r, const Instr *i, const Value *v, double *c)
{
    const Value *s = paired_repeated(r, ir_operand(i, ir_operand(i, 0) == v));
    return s && ir_is_const_float(s, c);
}

/* Whether elements below 2^-72, which quotients of dividends below the least one are, count as zeros wherever
 * v is used: they are rounded to integers, bounded before or not, or lost beside a constant. */
static bool small_is_zero(const Paired *r, const Value *v, int steps)
{
    double c;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        Op op = i->op;
        bool bounds = op == OP_MIN || op == OP_MAX || op == OP_MINNUM || op == OP_MAXNUM,
             again = op == OP_WHERE ? u != &i->operands[0] : bounds && constant_beside(r, i, v, &c),
             holds = op == OP_ROUND || (op == OP_EQ && ir_operand(i, 0) == ir_operand(i, 1)) /* no NaN */ ||
                     (op == OP_ADD && constant_beside(r, i, v, &c) && fabs(c) >= 0x1p-40);
        if (!holds && !(again && steps && small_is_zero(r, ir_result(i), steps - 1))) return false;
    }
    return true;
}

/* Whether elements are 0 or at least 2^-96: f16 that are widened. */
static bool never_tiny(const Value *x)
{ return x->def && x->def->op == OP_CAST && ir_operand(x->def, 0)->type->dtype == DT_F16; }

static const char *reciprocal(Emit *e, const char *d)
{
    const char *name = tmp(e, "rcp");
    line(e, "const float %s = %s(%s);", name, use(e, "rcp_newton"), d);
    return name;
}

void declare_reciprocal(Paired *r, const Instr *i)
{
    const Value *d = one_divisor(r, i);
    if (d && !r->elem[d->id * 4]) r->elem[d->id * 4] = reciprocal(r->e, name_of(r->e, d));
}

/* The largest magnitude of all dividends, if it is in a register; NULL: it is not known. */
static const char *largest(const Emit *e, const Instr *i)
{
    ScaledRow row;
    if (!kernel_scaled_row(ir_operand(i, 0), ir_operand(i, 1), &row)) return NULL;
    return row.most->type->kind == TYPE_SCALAR ? e->storage[row.most->id] : NULL;
}

void emit_quotients(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *v = ir_result(i), *x = ir_operand(i, 0), *one = one_divisor(r, i);
    bool rounded = small_is_zero(r, v, MOST_STEPS) || never_tiny(x);
    const char *d = one ? name_of(e, one) : tmp(e, "divisor"), *of[4], *sum = tmp(e, "sum"),
               *least = rounded ? "0xffffffffu" : tmp(e, "least");
    const char *most = rounded && one ? largest(e, i) : NULL;
    if (!one) line(e, "const float %s = %s;", d, paired_element(r, ir_operand(i, 1), 0));
    const char *rcp = one ? r->elem[one->id * 4] : reciprocal(e, d);
    if (most) sum = most;
    else line(e, "float %s = 0.0f;", sum);
    if (!rounded) line(e, "u32 %s = 0xffffffffu;", least);
    for (int k = 0; k < 4; k++) {
        const char *name = r->elem[v->id * 4 + (uint32_t)k] = str(e, "%s%c", name_of(e, v), "abcd"[k]);
        of[k] = paired_element(r, x, k);
        line(e, "float %s = %s(%s, %s, %s);", name, use(e, "quotient"), of[k], d, rcp);
        if (rounded && !most) line(e, "%s += fabsf(%s);", sum, of[k]);
        else if (!rounded) line(e, "%s(%s, &%s, &%s);", use(e, "quotient_note"), of[k], sum, least);
    }
    line(e, "if (!%s(%s, %s, %s)) {", use(e, "quotient_holds"), d, sum, least);
    e->indent++;
    for (int k = 0; k < 4; k++)
        line(e, "%s = %s(%s, %s);", r->elem[v->id * 4 + (uint32_t)k], use(e, "div_f32"), of[k], d);
    end_block(e);
}
