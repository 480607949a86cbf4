/* tile_scheduler.c: does a CTA run several programs, and who says which? Dynamic: it takes the next number
 * from a counter in memory when it is done with one, so that no CTA waits for another's longer programs. By
 * stride: it takes every n-th, n being the number of CTAs. A schedule says so (`programs`); else dynamic.
 */
#include "passes/kernel/schedule/schedule.h"

void kernel_choose_programs(KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_PROGRAMS);
    p->persistent = d ? d->form != PROGRAMS_EACH : !kernel_skips(p, PASS_PERSISTENT);
    if (d) pass_change(&p->options.skip, PASS_TILE_SCHEDULER, d->form == PROGRAMS_STATIC);
}
