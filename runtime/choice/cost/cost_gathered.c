/* cost_gathered.c: atomics that change words of shared memory (passes/kernel/program/shared_atomics.c), and
 * those on so few words of memory that they wait for each other. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* A part of what a CTA does before its first program or after its last one: each word is written, or read
 * and added to memory. */
void cost_gathered_words_of(CostWalk *w, const Instr *i)
{
    const Param *p = &w->f->params[ir_attr_int(i, ATTR_PARAM, 0)];
    double ctas = fmin((double)w->programs, (double)w->units * w->plan->resident),
           part = ctas / (double)w->programs, words = 1;
    for (int a = 0; a < p->type->rank; a++) words *= (double)w->env->dims[p->dims[a]];
    if (words > (double)ir_attr_int(i, ATTR_COUNT, 0) / part) return;
    double copies = words * (double)ir_attr_int(i, ATTR_GATHERED, 1);
    w->c.alu += copies * w->model->access * part;
    w->c.shared += copies * dtype_bytes(p->type->dtype) * part;
    if (i->op == OP_ATOMICS_CLOSE) w->c.added += words * part;
}
