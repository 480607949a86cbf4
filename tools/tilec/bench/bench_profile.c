/* bench_profile.c: `--profile`: the hardware counters of each step, beside its launches. Counting repeats a
 * launch, so it follows the launches that are timed, and is not timed itself. */
#include "tools/tilec/bench/bench.h"

static int prepare(void *user)
{
    Run *r = user;
    int code = run_restore_originals(r);
    if (!code) TRY(r, tile_context_synchronize(r->context));
    return code;
}

static int launch(void *user)
{
    Run *r = user;
    TRY(r, tile_launch(r->kernel, r->launch_args, r->n_params, &r->desc));
    TRY(r, tile_context_synchronize(r->context));
    return EXIT_OK;
}

static void say_none(Bench *b, const char *why)
{
    b->profile.without = true;
    tool_note(b->tool, "%s has no hardware counters: %s", args_last(b->args, FLAG_PROFILE, ""), why);
    bench_log(b, "no hardware counters: %s", why);
}

void bench_count_events(Bench *b, Run *r, size_t before)
{
    Profile *p = &b->profile;
    const char *why;
    ProfileCounts c = { .first = before, .end = p->launches.len };
    if (p->without || c.end == c.first) return;
    if (!p->counters)
        p->counters = counters_open(
            &b->tool->arena, context_target(r->context)->kind, r->device.device.device_id, &why);
    if (!p->counters) {
        say_none(b, why);
        return;
    }
    CountedLaunch l = { prepare, launch, r };
    bool measuring = r->measuring;
    r->measuring = true; /* the first launch has given prints and warnings */
    c.n = counters_count(p->counters, &l, &c.values, &why);
    r->measuring = measuring;
    if (!c.n) say_none(b, why);
    else vec_push(&b->tool->arena, &p->counts, c);
    for (size_t i = 0; i < c.n; i++)
        bench_log(b, "  %s: %.6g %s", c.values[i].name, c.values[i].value, c.values[i].unit);
}

void bench_close_profile(Bench *b)
{
    counters_close(b->profile.counters);
    b->profile.counters = NULL;
}
