/* emit_sincos.c: the sine and the cosine of one value together. Both reduce it to a part of a quarter turn,
 * which takes most of their instructions; rotations of positions need both. */
#include "backends/gpu/elements/emit_run.h"

static bool is_exact_trig(const Instr *i)
{
    return (i->op == OP_SIN || i->op == OP_COS) && ir_result(i)->type->dtype == DT_F32 &&
           !ir_attr_int(i, ATTR_APPROX, 0) && !ir_attr_int(i, ATTR_FTZ, 0);
}

/* The first sine of a cosine's operand in the run, or the first cosine of a sine's. */
static const Instr *first_other(const Instr *i, uint32_t mark)
{
    for (const Use *u = ir_operand(i, 0)->uses; u; u = u->next)
        if (u->user->op != i->op && u->user->mark == mark && is_exact_trig(u->user) && is_run_op(u->user))
            return u->user;
    return NULL;
}

/* Of several sines of one operand one has a partner. */
const Instr *sincos_partner(Emit *e, const Instr *i, uint32_t mark)
{
    if (e->target->kind != TARGET_CUDA || !is_exact_trig(i)) return NULL;
    const Instr *other = first_other(i, mark);
    return other && first_other(other, mark) == i ? other : NULL;
}

bool sincos_is_done(const Instr *i, const Instr *partner)
{
    while (i && i != partner) i = i->prev;
    return i != NULL;
}

const char *emit_sincos(
    Emit *e, const Instr *i, const Instr *partner, int x, const char *arg, const char **other)
{
    const char *mine = str(e, "%s%c", name_of(e, ir_result(i)), "abcd"[x]);
    *other = str(e, "%s%c", name_of(e, ir_result(partner)), "abcd"[x]);
    bool sine = i->op == OP_SIN;
    line(e, "float %s, %s;", mine, *other);
    line(e, "%s(%s, &%s, &%s);", use(e, "sincos_f32"), arg, sine ? mine : *other, sine ? *other : mine);
    return mine;
}
