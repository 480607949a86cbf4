/* pingpong.c: consumer warpgroups take turns on the matrix unit: one issues its products while another does
 * the arithmetic of its own.
 *
 *   wgmma ...
 * becomes, wherever the consumers of a rotated loop issue products,
 *   pingpong_wait; wgmma ...; pingpong_pass
 *
 * A step of software-pipelining, which writes the rotated loop and calls pingpong_build around its products.
 * Warpgroups take turns where there are three of them or more: with two, the overlap within each hides as
 * much. A schedule (`pingpong`) or --with-pass=pingpong asks for it with two as well. One has nobody to take
 * turns with. */
#include "passes/kernel/pipeline/pingpong.h"

void pingpong_choose(KernelPlan *p)
{
    enum { THREE_WARPGROUPS = 12 };
    const Decision *d = schedule_asked(p, DECIDE_PINGPONG);
    bool wanted = p->warps >= THREE_WARPGROUPS || kernel_forces(p, PASS_PINGPONG);
    p->pingpong = p->warps > 4 && (d ? d->form == PINGPONG_ON : wanted && !kernel_skips(p, PASS_PINGPONG));
    if (d && d->form == PINGPONG_ON && p->warps <= 4)
        schedule_refuse(p, d, "pingpong needs two consumer warpgroups or more");
}

void pingpong_build(const KernelPlan *p, Builder *b, Op op)
{
    if (p->pingpong) ir_build(b, op, NULL, 0, NO_ATTRS, NULL, 0);
}

typedef struct Consumers {
    KernelPlan *p;
    const Block *consumers;
} Consumers;

static bool record(void *user)
{
    Consumers *t = user;
    KernelPlan *p = t->p;
    const Decision *d = schedule_asked(p, DECIDE_PINGPONG);
    bool taken = ir_holds(t->consumers, OP_PINGPONG_WAIT);
    if (taken) schedule_take(p, DECIDE_PINGPONG, PINGPONG_ON, 0, 0);
    else if (p->pingpong && d)
        schedule_refuse(p, d, "pingpong needs a product that runs a step behind another one");
    p->pingpong = taken;
    return taken;
}

void pingpong_record(KernelPlan *p, const Block *consumers)
{ kernel_part(p, PASS_PINGPONG, record, &(Consumers){ p, consumers }); }
