/* emit_quotients.c: tiles that are divided by one number, four elements at a time.
 *
 *     y = x / d  ->  rcp = rcp_f32(d);  ya = quotient(xa, d, rcp);  ..
 *                    if (a dividend is too large or small) ya = div_f32(xa, d), ..
 *
 * The quotient by a correctly rounded reciprocal, twice corrected by what is left of the dividend, is
 * correctly rounded (Markstein) where nothing underflows or overflows: for positive divisors and dividends
 * within limits, and dividends of zero. One test of four elements takes the place of one for each, and the
 * reciprocal is computed once. Requires: CUDA, f32, a divisor that is one number for the tile. */
#include "backends/gpu/emit_pairs.h"

/* The number that divides all of the tile; NULL: there is none. */
static const Value *divisor(const Paired *r, const Instr *i)
{
    double c;
    if (i->op != OP_DIV || ir_result(i)->type->dtype != DT_F32 || ir_attr(i, ATTR_APPROX)) return NULL;
    const Value *d = paired_repeated(r, ir_operand(i, 1));
    return d && !paired_repeated(r, ir_operand(i, 0)) && !ir_is_const_float(d, &c) ? d : NULL;
}

bool quotients_wanted(const Paired *r, const Instr *i)
{ return layout_regs(r->l) % 4 == 0 && divisor(r, i) != NULL; }

void declare_reciprocal(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *d = divisor(r, i);
    if (r->elem[d->id * 4]) return;
    r->elem[d->id * 4] = tmp(e, "rcp");
    line(e, "const float %s = %s(%s);", r->elem[d->id * 4], use(e, "rcp_f32"), name_of(e, d));
}

void emit_quotients(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *v = ir_result(i), *x = ir_operand(i, 0);
    const Value *by = divisor(r, i);
    const char *d = name_of(e, by), *rcp = r->elem[by->id * 4], *of[4], *sum = tmp(e, "sum"),
               *least = tmp(e, "least");
    line(e, "float %s = 0.0f;", sum);
    line(e, "u32 %s = 0xffffffffu;", least);
    for (int k = 0; k < 4; k++) {
        const char *name = r->elem[v->id * 4 + (uint32_t)k] = str(e, "%s%c", name_of(e, v), "abcd"[k]);
        of[k] = paired_element(r, x, k);
        line(e, "float %s = %s(%s, %s, %s);", name, use(e, "quotient"), of[k], d, rcp);
        line(e, "%s(%s, &%s, &%s);", use(e, "quotient_note"), of[k], sum, least);
    }
    line(e, "if (!%s(%s, %s, %s)) {", use(e, "quotient_holds"), d, sum, least);
    e->indent++;
    for (int k = 0; k < 4; k++)
        line(e, "%s = %s(%s, %s);", r->elem[v->id * 4 + (uint32_t)k], use(e, "div_f32"), of[k], d);
    end_block(e);
}
