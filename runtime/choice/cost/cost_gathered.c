/* cost_gathered.c: atomics that change words of shared memory (passes/kernel/program/shared_atomics.c), and
 * those on so few words of memory that they wait for each other. */
#include "passes/kernel/gather/runs.h"
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

enum {
    WARP = 32,
    VECTOR = 16,           /* bytes */
    MOST_CROWDED = 1 << 16 /* elements: with more, programs seldom meet */
};

/* A part of what a CTA does before its first program or after its last one: each word is written, or read
 * and added to memory. */
void cost_gathered_words_of(CostWalk *w, const Instr *i)
{
    const Param *p = &w->f->params[ir_attr_int(i, ATTR_PARAM, 0)];
    if (w->traffic) return;
    double ctas = fmin((double)w->programs, (double)w->units * w->plan->resident),
           part = ctas / (double)w->programs, words = 1;
    for (int a = 0; a < p->type->rank; a++) words *= (double)w->env->dims[p->dims[a]];
    if (words > (double)ir_attr_int(i, ATTR_COUNT, 0) / part) return;
    double copies = words * (double)ir_attr_int(i, ATTR_GATHERED, 1);
    w->c.alu += copies * w->model->access * part;
    w->c.shared += copies * dtype_bytes(p->type->dtype) * part;
    if (i->op != OP_ATOMICS_CLOSE) return;
    double each = w->model->gathered + w->model->crowded / words / WARP; /* those of a warp come together */
    w->c.queued += words * part * each / w->model->queued;
}

/* Whether lanes beside each other change elements beside each other, which go to memory together. */
static bool by_rows(const CostWalk *w, const Instr *i)
{
    MemParts m;
    const Value *last = ir_mem_parts(i, &m) ? ir_last_index(&m) : NULL;
    bool counts = false;
    for (int a = 0; last && last->type->kind == TYPE_TILE && a < last->type->rank; a++)
        counts |= last->type->shape[a] > 1 && kernel_run(w->f, last, a, 2) & RUN_COUNTS;
    return counts;
}

/* Extremes of floats look at memory before they change it, which they seldom do. */
static bool looks_first(const Instr *i, DType d)
{
    int64_t rmw = ir_attr_int(i, ATTR_RMW, 0);
    return i->op == OP_ATOMIC_RMW && dtype_is_float(d) && (rmw == RMW_MAX || rmw == RMW_MIN);
}

/* Atomics on a small tensor, `n` of a program, each of which changes an element wherever the data say. */
void cost_crowded(CostWalk *w, const Instr *i, int param, double n)
{
    const Param *p = &w->f->params[param];
    double words = 1;
    if (i->op != OP_ATOMIC_RMW && i->op != OP_ATOMIC_CAS) return;
    for (int a = 0; a < p->type->rank; a++) words *= fmax(1, (double)w->env->dims[p->dims[a]]);
    bool rows = by_rows(w, i), seldom = rows || looks_first(i, p->type->dtype);
    double each = fmin(w->model->crowded / words, w->model->queued) / (seldom ? WARP : 1);
    if (!rows)
        each += VECTOR / dtype_bytes(p->type->dtype) / w->model->added; /* one is as many as a vector */
    if (n > 1 && words <= MOST_CROWDED) w->c.queued += n * each / w->model->queued;
}
