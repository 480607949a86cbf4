/* search_estimate.c: the estimates of a search's points, each from a compilation as far as its emission, in
 * threads. */
#define _GNU_SOURCE
#include "ir/target/processors.h"
#include "ir/verify/ring_stages.h"
#include "ir/support/stack.h"
#include "runtime/choice/search/search_points.h"
#include <math.h>

enum {
    FEW_STAGES = 2,
    MANY = 256 /* programs of a multiprocessor, of which the last round is a small part */
};

static int bind_extent(const Search *z, const char *dimension, FrontBinding *out, int n)
{
    if (search_is_bound(z->p, dimension) || search_binds(out, n, dimension)) return n;
    int64_t extent = z->p->extent(z->p->user, dimension);
    out[n] = (FrontBinding){ dimension, { FRONT_INT, { .i = extent } } };
    return n + 1;
}

int search_bindings(const Search *z, const SearchPoint *p, bool all, FrontBinding *out)
{
    int n = 0;
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        if (m->divisors) {
            for (int d = 0; p->at[i] && d < z->front->n_divisors; d++)
                n = bind_extent(z, z->front->divisors[d], out, n);
            continue;
        }
        bool declared = p->at[i] == m->declared;
        if (declared && (m->hint ? m->absent : !all)) continue;
        out[n++] = (FrontBinding){ m->name, m->values[p->at[i]] };
        if (p->at[i] == m->whole) n = bind_extent(z, m->along, out, n);
    }
    return n;
}

/* The score where nothing is known of the device: programs take ceil(P / S) rounds, each a P-th of the work.
 * Smaller tiles load more for the same arithmetic, for which a fourth root of their number is charged. Ties
 * are broken by register use. */
static double by_number(int64_t programs, int units, int planned_registers)
{
    double rounds = (double)((programs + units - 1) / units);
    double score = rounds / (double)programs * sqrt(sqrt((double)programs));
    return score * (1 + 0.1 / (1 + planned_registers));
}

double search_doubt(const Cost *c, const DeviceModel *m, bool declared)
{
    if (c->uncertain) return m->doubt_uncounted;
    if (c->packed && !declared) return m->doubt_packed;
    double pixels = c->pixels ? m->doubt_pixels : 1;
    double own = c->stalls > 0 ? m->doubt_copies_odd : m->doubt_copies;
    double copies = c->copies > 0 && c->mma > 0 ? own : pixels;
    if ((c->joins <= 0 && c->left <= 0 && c->sharing <= 0) || c->chained) return copies;
    return copies * (c->cp_async > 0 ? m->doubt_joined_cp_async : m->doubt_joined);
}

/* Whether a tile that holds a whole axis is worth an estimate: a thread has registers for all that it loads,
 * and the loops over the axis read something again, or nothing is held while CTAs meet, or the axis is no
 * longer than the tile as declared, of which a part would lie beyond it. The estimate knows little of longer
 * tiles that are held together, nor of their arithmetic (bench/notes/choice.md, "The model of the choice").
 */
static bool may_hold(const Search *z, const SearchPoint *p, const Cost *c)
{
    enum { MOST_WORDS = 40 };
    static const double AGAIN = 0.1; /* of what comes: the last part of an axis is no reading again */
    bool whole = false, is_short = true;
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        if (m->whole < 0 || p->at[i] != m->whole) continue;
        whole = true;
        is_short &= m->values[m->whole].i <= m->values[m->declared].i;
    }
    if (!whole) return true;
    double words = (double)c->ahead / 4 / ((double)c->threads * c->cluster);
    return words <= MOST_WORDS && (z->point[0].again > AGAIN || c->meets <= 1 || is_short);
}

/* Whether the CTAs that share a row have one warp each. The estimate knows nothing of the time in which a
 * single warp works on what its lanes hold, while nothing else of the row is under way: such CTAs take up to
 * a fifth longer than others that are estimated alike (bench/notes/rows.md, "CTAs of a cluster begin one at a
 * time"). */
static bool of_lone_warps(const Search *z, const SearchPoint *p)
{
    bool declared = p == &z->point[0];
    return !declared && p->cluster > 1 && !p->products && p->threads <= z->p->device.target->wave;
}

/* Whether registers hold what comes once, while it is reduced, and results of it are stored. */
static bool holds_rows(const Cost *c)
{
    return c->iterations <= 1 && c->meets > 0 && c->out > 0 && c->shared <= 0 && c->joins <= 0 &&
           c->wgmma + c->mma <= 0 && !c->shifted && !c->persistent;
}

/* What the search asks of a point's code besides its estimate. */
static void take_plan(SearchPoint *p, const GpuCode *code)
{
    p->kept = code->plan->keeps_rows;
    p->begins = code->plan->keeps_begins;
    p->may_keep = code->plan->may_keep;
    p->weights = code->plan->row_parts.start.weights;
    p->ctas = code->plan->min_ctas;
    p->threads = code->threads;
    p->cluster = code->cluster;
}

static void take_hints(SearchPoint *p, const Hints *h)
{
    p->parts_given = h->split_k > 0;
    p->loads_together = h->cluster > 1;
    p->cluster_given = h->cluster > 0;
    p->warps_given = h->warps > 0;
}

/* What the search asks of what is counted, besides the estimate. */
static void take_cost(SearchPoint *p, const Cost *c, const CostDevice *d)
{
    p->uncertain = c->uncertain;
    p->cp_async = c->cp_async > 0;
    p->once = c->iterations <= 1;
    p->few_warps = c->mma > 0 && c->wgmma <= 0 && (c->reductions > 0 || c->iterations <= 1);
    p->ragged = c->ragged;
    p->open = c->open;
    p->trips = (p->waits = c->trips + c->trips_ahead) > 0;
    p->few_stages = c->consumers > 0 && c->stages > 0 && c->stages <= FEW_STAGES;
    p->one_stage = p->few_stages && c->stages <= 1;
    p->products = c->wgmma + c->mma > 0;
    p->words = c->words;
    p->live = c->live;
    p->full = cost_registers_full(c);
    p->spilled = cost_spilled_byte(c, d);
    p->held = c->held;
    p->shared = c->shared;
    p->iterations = c->iterations;
    p->nearby = c->nearby;
    p->again = c->again / fmax(1, c->in);
}

/* The careful estimate of a launch that has so many times the programs. */
static double of_launch(const Cost *c, const CostDevice *d, double times)
{
    const Cost other = cost_with_programs(c, fmax(1, ceil((double)c->programs * times)));
    return cost_estimate_carefully(&other, d);
}

/* What conversions of a point took whose tiles have the same extents, whose programs are divided among as
 * many CTAs, and whose constants that are true or false are the same: these transpose products. It says what
 * to try first, and decides nothing (KernelOptions.expected). */
static SearchScratch *scratch_of(const Search *z, SearchWorker *w, const SearchPoint *p)
{
    uint8_t at[MOST_NAMES] = { 0 };
    const SearchPacked all = { UINT64_MAX, UINT32_MAX };
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        const bool parts = m->hint && m->hint->search == SEARCH_FEW_PROGRAMS;
        const bool is_switch = !m->hint && m->values[0].kind == FRONT_BOOL;
        at[i] = m->shapes_grid || parts || is_switch ? search_said(z, p->at, i) : 0;
    }
    const SearchPacked of = search_pack(at);
    SearchScratch *s = &w->scratch[search_mixed(of) % SCRATCH_SLOTS];
    if (!search_same_in(all, s->of, of)) *s = (SearchScratch){ .of = of };
    return s;
}

/* Whether the point may be the best one and its roles fail by their rings (ir_stages_fault). That is a
 * mistake in a pass, and then all warps run alike; to play the roles takes as long as many passes, and of
 * other points nothing depends on it. */
static bool roles_fail(const Search *z, Session *s, const SearchPoint *p, const Func *f)
{
    const char *why;
    return p->ns < z->least_before && ir_stages_fault_soon(s, f, &why);
}

/* plays: roles are played against their rings. */
static void estimate(Search *z, SearchWorker *w, SearchPoint *p, bool plays)
{
    const SearchProblem *q = z->p;
    Session *s = &w->s;
    FrontBinding *all = arena_array(&s->arena, FrontBinding, (size_t)(q->n_bindings + MOST_BOUND) + 1);
    Compiled compiled;
    GpuCode code;
    Func *f, *tiles;
    int64_t programs = 0;
    memcpy(all, q->bindings, (size_t)q->n_bindings * sizeof *all);
    size_t n = (size_t)q->n_bindings + (size_t)search_bindings(z, p, true, all + q->n_bindings);
    p->ns = INFINITY;
    if (q->device.target->kind == TARGET_CPU) {
        if (!search_estimate_cpu(z, w, p, all, n)) p->ns = INFINITY;
        return;
    }
    CompileTest may_fit = { search_may_fit, &q->device };
    CompileOptions options = *q->options;
    options.declined = &p->declined;
    const char *skip = options.passes.skip, *rows = pass_info[PASS_KEEP_ROWS].name;
    if (!p->keeps && q->device.target->kind == TARGET_CUDA)
        options.passes.skip = skip ? arena_printf(&s->arena, "%s,%s", skip, rows) : rows;
    SearchScratch *scratch = scratch_of(z, w, p);
    options.expected = scratch->bytes;
    options.unplayed = !plays;
    CompileJob job = { s, w->ast, q->kernel, all, n, q->facts, &options };
    if (!(tiles = search_tiles(z, w, p, &job, &compiled)) || !may_fit.holds(&q->device, tiles)) return;
    if (!compile_from_tiles(&job, &may_fit, tiles, &compiled, &f, &code)) return;
    scratch->bytes = code.scratch_bytes;
    take_plan(p, &code);
    if (code.shared_bytes > q->device.shared_bytes) return;
    p->overfull = code.planned_registers > code.lane_registers;
    if (p->overfull) return;
    if ((code.plan->clusters > 1 || code.shares > 1) && !q->device.workspace) return;
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)compiled.n_dims + 1);
    EvalEnv env;
    if (!q->shape(q->user, &compiled, dims, &env, &programs) || programs <= 0) return;
    p->programs = programs;
    p->bound = BOUND_PROGRAMS;
    if (!q->device.model) {
        p->ns = by_number(programs, q->device.units, code.planned_registers);
        return;
    }
    Cost cost;
    cost_count(s, f, &code, &env, programs, &q->device, &cost);
    take_cost(p, &cost, &q->device);
    p->divided = code.plan->split_k > 1;
    p->rows = holds_rows(&cost) && !kernel_row_start(f, code.plan).bytes;
    take_hints(p, &f->hints);
    p->loads_apart = p->loads_together && cost.loading <= 1;
    if (!may_hold(z, p, &cost) || of_lone_warps(z, p)) return;
    const double doubt = search_doubt(&cost, q->device.model, p == &z->point[0]);
    p->ns = doubt * cost_estimate(&cost, &q->device, &p->bound);
    p->careful = doubt * cost_estimate_carefully(&cost, &q->device);
    if (!plays && roles_fail(z, s, p, f)) {
        estimate(z, w, p, true);
        return;
    }
    const double few = (double)q->device.units / (double)z->point[0].programs;
    if (z->tune->n) return;
    p->few = doubt * of_launch(&cost, &q->device, few);
    p->many = doubt * of_launch(&cost, &q->device, MANY * few);
}

void search_advise(Session *s, const SearchProblem *q, const FrontBinding *config, int n)
{
    FrontBinding *all = arena_array(&s->arena, FrontBinding, (size_t)(q->n_bindings + n) + 1);
    Diag *first = s->diags, *last = s->last_diag;
    int errors = s->n_errors;
    Compiled compiled;
    GpuCode code;
    EvalEnv env;
    Func *f;
    int64_t programs = 0;
    if (!q->device.model || q->device.target->kind == TARGET_CPU) return;
    memcpy(all, q->bindings, (size_t)q->n_bindings * sizeof *all);
    if (n) memcpy(all + q->n_bindings, config, (size_t)n * sizeof *all);
    Ast *ast = q->parse(q->user, s);
    CompileJob job = { s, ast, q->kernel, all, (size_t)(q->n_bindings + n), q->facts, q->options };
    bool ok = ast && compile_lowered(&job, NULL, &compiled, &f, &code);
    s->diags = first; /* parsing forgets what was said */
    diag_forget(s, last, errors);
    int64_t *dims = ok ? arena_array(&s->arena, int64_t, (size_t)compiled.n_dims + 1) : NULL;
    if (ok && q->shape(q->user, &compiled, dims, &env, &programs))
        cost_advise(s, f, &code, &env, programs, &q->device);
}

/* --- workers ----------------------------------------------------------------------------------------- */

/* False. */
static bool out_of_memory(Search *z)
{
    pthread_mutex_lock(&z->lock);
    z->short_of_memory = true;
    pthread_mutex_unlock(&z->lock);
    return false;
}

/* What a worker makes of one point is forgotten before the next. Nobody uses the search's own session while
 * they work. */
static bool open_worker(Search *z, SearchWorker *w)
{
    bool again = w->open;
    if (!again) session_init(&w->s, z->s->arena.alloc);
    w->s.arena.plans = &w->plans;
    w->open = true;
    if (setjmp(w->s.oom)) return out_of_memory(z);
    if (again && w->ast) session_renew(&w->s);
    if (again) return w->ast != NULL;
    w->ast = NULL;
    w->ast = frontend_share(&w->s, z->ast);
    session_keep(&w->s);
    return w->ast != NULL;
}

void search_take_estimate(SearchPoint *p, const SearchPoint *of)
{
    SearchPoint x = *of;
    memcpy(x.at, p->at, sizeof x.at);
    x.same = of;
    x.next = p->next;
    *p = x;
}

/* A point for which memory does not suffice, or that the compiler fails on, is not chosen. */
static void estimate_one(Search *z, SearchWorker *w, SearchPoint *p)
{
    if (p->same) {
        search_take_estimate(p, p->same);
        return;
    }
    p->ns = INFINITY;
    if (!open_worker(z, w)) return;
    if (!setjmp(w->s.oom)) estimate(z, w, p, false);
    else if (!out_of_memory(z)) p->ns = INFINITY;
    w->s.diags = w->s.last_diag = NULL;
    w->s.n_errors = 0;
}

/* With the lock held. */
static void take_points(Search *z, SearchWorker *w)
{
    while (z->next < z->limit) {
        SearchPoint *p = &z->point[z->queue[z->next++]];
        pthread_mutex_unlock(&z->lock);
        estimate_one(z, w, p);
        pthread_mutex_lock(&z->lock);
        if (++z->finished == z->limit) pthread_cond_signal(&z->all_finished);
    }
}

static void work_there(void *arg)
{
    SearchWorker *w = arg;
    Search *z = w->search;
    pthread_mutex_lock(&z->lock);
    while (!z->quit) {
        take_points(z, w);
        if (!z->quit) pthread_cond_wait(&z->more, &z->lock);
    }
    pthread_mutex_unlock(&z->lock);
}

/* A worker that gets no stack does nothing: the others take its points. */
static void *work(void *arg)
{
    stack_call(work_there, arg);
    return NULL;
}

void search_estimate_these(Search *z, const int *points, int n)
{
    if (!n) return;
    const int best = search_best(z, NULL, 0);
    z->least_before = best < 0 ? INFINITY : z->point[best].ns;
    pthread_mutex_lock(&z->lock);
    memcpy(z->queue, points, (size_t)n * sizeof *points);
    z->next = z->finished = 0;
    z->limit = n;
    for (int i = 0; i < n; i++) z->n_estimated += !z->point[points[i]].same;
    if (n > z->n_workers) n = z->n_workers;
    pthread_cond_broadcast(&z->more);
    for (SearchWorker *w = z->worker + 1; w < z->worker + n; w++)
        if (!w->runs) w->runs = !pthread_create(&w->thread, NULL, work, w);
    take_points(z, z->worker);
    while (z->finished < z->limit) pthread_cond_wait(&z->all_finished, &z->lock);
    pthread_mutex_unlock(&z->lock);
}

/* All points without an estimate; `same`: of these, those that have the estimate of another one. */
static void estimate_open(Search *z, bool same)
{
    int all[MOST_POINTS], n = 0;
    for (int i = 0; i < z->n_points; i++) {
        SearchPoint *p = &z->point[i];
        if (p->known || (same && !p->same)) continue;
        p->known = true;
        all[n++] = i;
    }
    search_estimate_these(z, all, n);
}

void search_estimate_all(Search *z) { estimate_open(z, false); }

void search_estimate(Search *z)
{
    const bool predicts = search_predicts(z);
    estimate_open(z, predicts);
    if (predicts) search_estimate_promising(z);
}

void search_close_workers(void *p)
{
    Search *z = p;
    if (!z->n_workers) return;
    pthread_mutex_lock(&z->lock);
    z->quit = true;
    pthread_cond_broadcast(&z->more);
    pthread_mutex_unlock(&z->lock);
    for (int i = 0; i < z->n_workers; i++)
        if (z->worker[i].runs) pthread_join(z->worker[i].thread, NULL);
    for (int i = 0; i < z->n_workers; i++) {
        SearchWorker *w = &z->worker[i];
        if (w->open) session_free(&w->s);
        layout_memo_free(&w->plans);
    }
    z->n_workers = 0;
    pthread_cond_destroy(&z->more);
    pthread_cond_destroy(&z->all_finished);
    pthread_mutex_destroy(&z->lock);
}

void search_open_workers(Search *z)
{
    z->n_workers = z->p->threads > 0 ? z->p->threads : processors_usable();
    if (z->n_workers > MOST_WORKERS) z->n_workers = MOST_WORKERS;
    pthread_mutex_init(&z->lock, NULL);
    pthread_cond_init(&z->more, NULL);
    pthread_cond_init(&z->all_finished, NULL);
    for (int i = 0; i < z->n_workers; i++) {
        z->worker[i].search = z;
        layout_memo_init(&z->worker[i].plans, z->s->arena.alloc);
        layout_memo_join(&z->worker[i].plans, &z->worker[0].plans);
    }
    session_defer(z->s, search_close_workers, z);
}
