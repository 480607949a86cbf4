/* estimate_copies.c: of estimates: windows that warps copy, since TMA does not take their rows. */
#include "runtime/choice/estimate/estimate.h"
#include <math.h>

/* Vectors come to a staging area and go on from there, a step after the other. Warps that multiply issue from
 * the same schedulers and read the same shared memory, so that with more of them a step takes longer. */
double estimate_cp_async(const Estimate *e)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    double lines = m->cp_async_apart * c->cp_apart + m->cp_async_class * c->cp_classes;
    double beside = 1 + m->cp_async_beside * fmax(0, c->consumers - 1);
    return beside * (m->cp_async * c->cp_async + lines + m->cp_async_step * c->cp_steps) / e->iterations;
}

/* Rows of copies of less than 16 bytes begin within a line, of which the next step copies the rest. L1 holds
 * these lines for it, unless shared memory leaves it only what cannot be shared memory. */
double estimate_lines_again(const Estimate *e)
{
    const Cost *c = e->c;
    double used = fmin(e->resident, ceil(e->programs)) * (double)(c->shared_bytes + e->t->cta_shared_bytes);
    bool small = c->copies > 0 && c->wgmma + c->mma > 0;
    return small && used > (double)e->t->sm_shared_bytes - e->m->shared_step ? e->m->copies_few_l1 : 1;
}
