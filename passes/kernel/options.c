/* options.c: which passes of the kernel IR run, as the flags have it. */
#include "passes/kernel/kernel.h"

KernelOptions kernel_options_of(const PassOptions *o)
{
    KernelOptions k = { .schedule = o->schedule,
        .schedule_name = o->schedule_name,
        .passes = o,
        .most_ctas = o->most_ctas,
        .skip = pass_set_of(o->skip),
        .with = pass_set_of(o->with) };
    /* No CTA draws programs, so the order of programs is free. */
    if (pass_in(&k.skip, PASS_TILE_SCHEDULER)) {
        pass_add(&k.skip, PASS_PERSISTENT);
        pass_add(&k.skip, PASS_PROGRAM_ORDER);
    }
    return k;
}
