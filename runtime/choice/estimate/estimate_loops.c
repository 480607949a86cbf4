/* estimate_loops.c: of estimates: loops that load to registers, ahead of which nothing runs. Few programs
 * have few bytes under way, so that the time of a load, and not the rate of memory, bounds them. */
#include "runtime/choice/estimate/estimate.h"
#include <math.h>

/* A loop of a few rounds is like a row that is loaded once, and reduced while registers hold it. */
bool estimate_runs_ahead(const Estimate *e)
{
    enum { LONG = 8 /* waits */ };
    return e->c->meets > 0 && e->c->trips_ahead >= LONG && e->c->live < e->m->registers_rounds;
}

double estimate_from_memory(const Estimate *e)
{
    const Cost *c = e->c;
    double loaded = (double)c->programs * estimate_ctas_of_a_program(c) * c->in;
    return c->in > 0 ? fmin(1, c->memory / loaded) : 0;
}

/* What is stored comes from no memory. */
double estimate_trip(const Estimate *e)
{
    const Cost *c = e->c;
    double all = (double)c->programs * estimate_ctas_of_a_program(c), loaded = all * c->in;
    double part = loaded > 0 ? fmin(1, fmax(0, c->memory - all * c->out) / loaded) : 0;
    return e->m->load_latency + e->m->load_memory * part;
}

/* Where warps do not meet in an iteration, others of the program work while one waits, and each has its own
 * part to do. */
double estimate_loaded_before(const Estimate *e, double work)
{
    const Cost *c = e->c;
    double own = c->meets >= e->iterations ? 1 : fmin(1, 1 / e->groups);
    return e->loops ? estimate_trip(e) * c->trips / e->iterations + own * work : 0;
}

/* Ranges differ, and the mean is counted. */
double estimate_longest_range(const Estimate *e, double ends)
{ return e->c->ragged ? ends + e->m->longest_range * e->iterations * e->iteration.alone : 0; }
