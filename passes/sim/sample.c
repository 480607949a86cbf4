/* sample.c: how much of a launch the replay follows (replay.c). A few programs are run ahead to count their
 * lines, and where windows are followed, to learn where to cut them. */
#include "passes/sim/replay.h"

static void count_piece(void *user, uint64_t name, double share)
{
    (void)name;
    (void)share;
    ++*(int64_t *)user;
}

static void count_fn(void *user, int64_t first, int64_t last)
{ *(double *)user += (double)(last - first + 1); }

typedef void ProbeFn(Replay *, const SimStep *, double *sum);

/* Lines of a program; of its windows, how many pieces, and where they are to be cut. */
static void probe_lines(Replay *r, const SimStep *s, double *lines)
{
    for (int64_t a = 0; a < s->n; a++) {
        const SimSite *site = &r->t->sites.data[s->access[a].site];
        if (r->o->windows) *lines += sim_window_lines(r, &s->access[a]);
        else if (site->indexed) *lines += s->access[a].n[0];
        else sim_box_runs(site, &s->access[a], r->shift, count_fn, lines);
    }
}

static void probe_cuts(Replay *r, const SimStep *s, double *sum)
{
    (void)sum;
    for (int64_t a = 0; a < s->n; a++) sim_cut_learn(r->t, &s->access[a], &r->cuts[s->access[a].site]);
}

static void probe_pieces(Replay *r, const SimStep *s, double *pieces)
{
    int64_t n = 0;
    for (int64_t a = 0; a < s->n; a++) {
        const SimCut *c = &r->cuts[s->access[a].site];
        if (c->cut) sim_cut_pieces(r->t, &s->access[a], c, count_piece, &n);
        else n++;
    }
    *pieces += (double)n;
}

/* The sum over all programs, from 16 of them. */
static SimStatus probe(Replay *r, ProbeFn *fn, double *sum)
{
    int64_t probes = r->programs < 16 ? r->programs : 16;
    *sum = 0;
    for (int64_t k = 0; k < probes; k++) {
        SimStep s;
        SimStatus st = sim_program_run(r->program, (2 * k + 1) * r->programs / (2 * probes), &s);
        if (st) return st;
        fn(r, &s, sum);
    }
    *sum *= probes ? (double)r->programs / (double)probes : 0;
    return SIM_OK;
}

static SimStatus choose_pieces(Replay *r)
{
    double lines, pieces, unused;
    sim_cut_begin(r->t, r->cuts);
    SimStatus st = probe(r, probe_cuts, &unused);
    if (!st) st = probe(r, probe_lines, &lines);
    if (st) return st;
    sim_cut_finish(r->t, r->cuts);
    st = probe(r, probe_pieces, &pieces);
    if (!st && pieces > 0) r->mean = lines / pieces;
    return st;
}

SimStatus sim_choose_sample(Replay *r, int64_t *sample)
{
    double lines, most = r->o->max_lines > 0 ? r->o->max_lines : 0x1p25;
    int64_t sets = r->d->l2_bytes / r->d->line / r->d->l2_ways, limit = 1;
    while (limit * 2 <= MAX_SAMPLE && limit * 2 * 4 <= sets)
        limit *= 2; /* At least four sets of L2 remain. */
    *sample = r->o->windows ? 1 : r->o->sample;
    if (r->o->windows) return choose_pieces(r);
    if (*sample) {
        if (*sample > limit) *sample = limit;
        return SIM_OK;
    }
    SimStatus st = probe(r, probe_lines, &lines);
    for (*sample = 1; *sample < limit && lines / (double)*sample > most;) *sample *= 2;
    return st;
}
