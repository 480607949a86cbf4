/* cost_cp_async.c: of cost: windows that producer warps bring with cp.async. The warps share the lines of a
 * window by where these begin in a vector of 16 bytes, so that one of them has more lines than the others.
 * Its work bounds the step: vectors to the staging area, and runs from there to the stage. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* Vectors of a gather, which go to the stage directly, 32 at a time for each warp. */
static double gathered(const CostWalk *w, const Type *view)
{
    int pieces;
    const LayoutShared *stage = layouts_shared(&w->plan->layouts, view);
    return kernel_cp_async_passes(w->plan, stage->tile[0], stage->tile[1], dtype_bytes(view->dtype), &pieces);
}

/* The same of lines that are neither straight nor in blocks. */
static double apart(const CostWalk *w, const CpAsyncWay *y)
{
    const double all = (double)y->share * y->vectors;
    return y->transposed ? all / w->plan->target->wave : (double)y->share * y->parts;
}

void cost_cp_async(CostWalk *w, const Instr *fill, double times)
{
    double whole, bytes = cost_window_bytes(w, fill, &whole) * times;
    cost_reads(w, fill, ir_operand(fill, 1)->index, bytes);
    w->c.wasted += bytes * cost_narrow(w, fill);
    w->c.shared += 2 * whole * times; /* from the staging area, to the stage */
    const Type *view = ir_operand(fill, 0)->type;
    CpAsyncWay y;
    double units = 0;
    if (!kernel_cp_async_way(w->f, w->plan, fill, view, &y)) return;
    if (!y.share) units = gathered(w, view);
    else if (y.blocks) units = (double)y.share / y.group;
    else if (y.straight) units = y.share;
    else units = apart(w, &y);
    if (y.straight) w->c.cp_classes += y.mine * times;
    else if (y.share && !y.blocks) w->c.cp_apart += units * times;
    w->c.cp_async += units * times;
    w->c.cp_steps = fmax(w->c.cp_steps, times);
}
