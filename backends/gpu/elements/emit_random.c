/* emit_random.c: random bits of four or two elements from one block. */
#include "backends/gpu/elements/emit_run.h"
#include "passes/kernel/gather/runs.h"

static bool shares_block(Emit *e, const Instr *i, const Layout *l, int n)
{
    LayoutVector v;
    for (int a = 0; a < l->rank; a++)
        if (vector_along(l, a, DT_U32, 4 * n, &v) == n && v.reg[1] == 1 && (n == 2 || v.reg[2] == 2))
            return kernel_run(e->f, ir_operand(i, 1), a, n) & RUN_COUNTS &&
                   kernel_run(e->f, ir_operand(i, 0), a, n) & RUN_EQUAL;
    return false;
}

int random_elements_of_block(Emit *e, const Instr *i, const Layout *l)
{
    for (int n = 4; n > 1 && i->op == OP_RANDOM_BITS; n /= 2)
        if (shares_block(e, i, l, n)) return n;
    return 1;
}

void emit_random_block(Emit *e, const char *const *args, int n, const char **words)
{
    const char *w = tmp(e, "bits"), *counter = tmp(e, "counter");
    line(e, "const u64 %s = (u64)%s;", counter, args[1]);
    line(e, "u32 %s[4];", w);
    line(e, "%s(%s, (u64)%s, %s >> 2);", use(e, "philox4"), w, args[0], counter);
    for (int k = 0; k < n; k++)
        words[k] =
            n == 4 ? str(e, "%s[%d]", w, k) : str(e, "(%s & 2 ? %s[%d] : %s[%d])", counter, w, k + 2, w, k);
}
