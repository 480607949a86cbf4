/* emit_random.c: random bits of four elements from one block. */
#include "backends/gpu/emit_run.h"

bool random_shares_block(Emit *e, const Instr *i, const Layout *l)
{
    LayoutVector v;
    for (int a = 0; a < l->rank && i->op == OP_RANDOM_BITS; a++)
        if (vector_along(l, a, DT_U32, 16, &v) == 4 && v.reg[1] == 1 && v.reg[2] == 2)
            return kernel_run(e->f, ir_operand(i, 1), a, 4) & RUN_COUNTS &&
                   kernel_run(e->f, ir_operand(i, 0), a, 4) & RUN_EQUAL;
    return false;
}

void emit_random_block(Emit *e, const char *const *args, const char **words)
{
    const char *w = tmp(e, "bits");
    line(e, "u32 %s[4];", w);
    line(e, "%s(%s, (u64)%s, (u64)%s >> 2);", use(e, "philox4"), w, args[0], args[1]);
    for (uint32_t k = 0; k < 4; k++) words[k] = str(e, "%s[%u]", w, k);
}
