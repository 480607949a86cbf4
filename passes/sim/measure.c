/* measure.c: what a program of a launch does in the mean: rounds of its loops, bytes that it asks for, and
 * how much of each line. Few programs are run, spread over the grid. */
#include "passes/sim/replay.h"

enum { MOST_MEASURED = 16, MOST_ACCESSES = 1 << 17 };

static void count_lines(void *user, int64_t first, int64_t last)
{ *(double *)user += (double)(last - first + 1); }

/* A window that the end of the tensor cuts off tells nothing of the others' lines. */
static bool is_whole(const SimSite *site, const SimAccess *a)
{
    for (int k = 0; k < site->rank && !site->indexed; k++)
        if (a->n[k] != site->extent[k]) return false;
    return true;
}

typedef struct Lines {
    double bytes, lines, whole_bytes, whole_lines;
} Lines; /* by parameter and direction; whole: of windows that nothing cuts off */

static void add_access(const SimTrace *t, const SimAccess *a, int shift, Lines (*sums)[2])
{
    const SimSite *site = sim_trace_site(t, a->site);
    Lines *sum = &sums[site->param][site->write];
    double bytes = (double)site->size, lines = 0;
    for (int k = 0; k < (site->indexed ? 1 : site->rank); k++) bytes *= a->n[k];
    if (site->indexed) lines = a->n[0];
    else sim_box_runs(site, a, shift, count_lines, &lines);
    sum->bytes += bytes;
    sum->lines += lines;
    if (!is_whole(site, a)) return;
    sum->whole_bytes += bytes;
    sum->whole_lines += lines;
}

int64_t sim_spread(int64_t n)
{
    for (int64_t step = (int64_t)((double)n * 0.6180339887); step > 1; step--) {
        int64_t a = n, b = step;
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
    return 1;
}

static void take_mean(const SimTrace *t, int64_t programs, Lines (*sums)[2], SimMeasure *out)
{
    for (int k = 0; k < sim_trace_loops(t); k++) out->rounds[k] /= (double)programs;
    for (int p = 0; p < t->func->n_params; p++)
        for (int w = 0; w < 2; w++) {
            const Lines *s = &sums[p][w];
            out->bytes[p][w] = s->bytes / (double)programs;
            out->of_line[p][w] = s->whole_lines > 0 ? s->whole_bytes / s->whole_lines
                                 : s->lines > 0     ? s->bytes / s->lines
                                                    : 0;
        }
}

SimStatus sim_measure(const SimTrace *t, int64_t line, Allocator alloc, SimMeasure *out)
{
    Arena *a = &t->func->module->session->arena;
    size_t params = (size_t)t->func->n_params + 1;
    int64_t programs = t->programs < MOST_MEASURED ? t->programs : MOST_MEASURED, done = 0;
    Lines(*sums)[2] = arena_calloc(a, params, sizeof *sums);
    SimStatus st = SIM_OK;
    int shift = __builtin_ctzll((unsigned long long)line);
    *out = (SimMeasure){ arena_calloc(a, (size_t)sim_trace_loops(t) + 1, sizeof *out->rounds),
        arena_calloc(a, params, sizeof *out->bytes), arena_calloc(a, params, sizeof *out->of_line) };
    SimProgram *p = sim_program_new(t, alloc);
    if (!p) return SIM_NO_MEMORY;
    sim_program_limit(p, MOST_ACCESSES, 0);
    for (; done < programs && !st; done++) {
        SimStep s;
        st = sim_program_run(p, (2 * done + 1) * t->programs / (2 * programs), &s);
        for (int k = 0; !st && k < sim_trace_loops(t); k++) out->rounds[k] += (double)s.rounds[k];
        for (int64_t k = 0; !st && k < s.n; k++) add_access(t, &s.access[k], shift, sums);
    }
    sim_program_free(p);
    if (done && !st) take_mean(t, done, sums, out);
    return st;
}
