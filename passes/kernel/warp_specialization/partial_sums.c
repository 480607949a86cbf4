/* partial_sums.c: what comes behind the loops in shared memory that rings have until then: the partial sums
 * of the other CTAs of a cluster, which split-k joins, or the buffers of a store by TMA. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

bool roles_parts_may_lie_over(const Roles *c)
{
    InstrList sums = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_CLUSTER_COMBINE, &sums);
    if (sums.len != 1 || sums.data[0]->block != c->f->body || !ir_attr(sums.data[0], ATTR_AXIS)) return false;
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].by_cp_async) return false;
    for (size_t k = 0; k < c->loads.len; k++)
        if (!ir_comes_before(c->loads.data[k], sums.data[0])) return false;
    return true;
}
