/* tile_scheduler.c: does a CTA run several programs, and who says which? Dynamic: it takes the next number
 * from a counter in memory when it is done with one, so that no CTA waits for another's longer programs. By
 * stride: it takes every n-th, n being the number of CTAs. A schedule says so (`programs`); else dynamic.
 *
 * Where programs wait for others (ir_waits_for_programs), a CTA that ran several by stride might wait for a
 * program of a CTA that starts when it ends. If they wait for lower numbers only, CTAs draw all their
 * programs, the first one too: what has a lower number was drawn before, and the CTA that drew it runs. Else
 * each program has a CTA of its own, and CTAs start in the order of their numbers. */
#include "passes/kernel/schedule/schedule.h"

void kernel_choose_programs(const Func *f, KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_PROGRAMS);
    p->persistent = d ? d->form != PROGRAMS_EACH : !kernel_skips(p, PASS_PERSISTENT);
    if (d) pass_change(&p->options.skip, PASS_TILE_SCHEDULER, d->form == PROGRAMS_STATIC);
    p->shares = d                                ? d->form == PROGRAMS_SHARES ? d->n[0] : 0
                : kernel_skips(p, PASS_STREAM_K) ? 0
                                                 : f->hints.stream_k;
    bool draws = d ? d->form == PROGRAMS_DYNAMIC : !kernel_skips(p, PASS_TILE_SCHEDULER);
    if (!ir_waits_for_programs(f)) return;
    p->shares = 0;
    if (p->waits_for_lower && draws) return;
    if (d && p->persistent)
        schedule_refuse(p, d, "its programs wait for others, which CTAs that have not started may hold");
    p->persistent = false;
}
