/* rounds.c: how many iterations of a loop the vendor's compiler is asked to unroll together. The choice of a
 * configuration uses the same number, because iterations that are unrolled together wait for their loads
 * once. */
#include "backends/gpu/gpu.h"

static int words_of(KernelPlan *p, const Type *t)
{
    if (t->kind != TYPE_TILE || !t->layout) return 1;
    return (int)layout_regs(layouts_get(&p->layouts, t)) * (dtype_bytes(t->dtype) + 3) / 4;
}

static bool reads(const Instr *x) { return x->op == OP_LOAD || x->op == OP_GATHER; }

/* Whether threads do this alone, without waiting for each other, and what it loads does not depend on stores.
 */
static bool alone(const Func *f, const Instr *x)
{
    MemParts m;
    if (x->n_blocks) return false;
    if (reads(x)) return ir_mem_parts(x, &m) && !m.token && f->params[m.param].kind == PARAM_IN;
    if (x->op == OP_STORE || (op_info[x->op].flags & (OPF_ELEM | OPF_VIRTUAL))) return true;
    bool scalars = x->n_results > 0 && (op_info[x->op].flags & OPF_PURE);
    for (int k = 0; k < x->n_results; k++) scalars = scalars && x->results[k].type->kind == TYPE_SCALAR;
    for (int k = 0; k < x->n_operands; k++) scalars = scalars && ir_operand(x, k)->type->kind == TYPE_SCALAR;
    return scalars;
}

int gpu_rounds_together(const Func *f, KernelPlan *p, bool role, const Instr *loop)
{
    enum { MOST_ROUNDS = 8, WORDS_UNDER_WAY = 16, MOST_WORK = 512 };
    int loaded = 0, work = 0, n = MOST_ROUNDS, asked = (int)ir_attr_int(loop, ATTR_UNROLL, 0);
    const Target *t = p->target;
    int threads = t->sm_ctas * p->warps * t->wave, most = WORDS_UNDER_WAY;
    if (threads && threads < t->sm_threads) most = most * t->sm_threads / threads;
    if (asked && !role) return asked;
    if (t->kind == TARGET_HIP || role || ir_loop_is(loop, LOOP_DYNAMIC) || ir_loop_is(loop, LOOP_EDGE))
        return 1;
    for (const Instr *x = loop->blocks[0]->first; x && x != ir_terminator(loop->blocks[0]); x = x->next) {
        if (!alone(f, x)) return 1;
        int words = x->n_results ? words_of(p, x->results[0].type) : 1;
        work += words;
        if (reads(x)) loaded += words;
    }
    while (n > 1 && (n * loaded > most || n * work > MOST_WORK)) n /= 2;
    return loaded ? n : 1;
}
