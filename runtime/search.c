/* search.c: see search.h. Consts that shape the grid decide most (how many programs, which instruction, how often operands are loaded) and constrain each other, so their product
 * is looked at first, the rest as declared and then in the middle of what it may be; from the best of these the other names are gone through in turn, then all once more, until nothing improves. */
#define _GNU_SOURCE
#include "runtime/search.h"
#include "ir/stack.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>

enum { MOST_NAMES = 12, MOST_VALUES = 16, MOST_TRIED = 448, MOST_TOGETHER = 512, BEAM = 5, AGAIN = 3, MOST_THREADS = 16, SESSION_ROOM = 24 << 20 };

/* A name of the tune block; with: of another that says something only beside it, or -1. The last value is the declared one, where the domain lacks it; for a hint: not given. */
typedef struct Name { const char *name; int domain, n, declared; int with; bool shapes_grid, together, hint, absent, late, fixed, parts; FrontValue values[MOST_VALUES + 1]; } Name;
typedef struct Point { uint8_t at[MOST_NAMES]; double ns; int64_t programs; const char *limit; bool uncertain, products, filled; } Point;

typedef struct Worker { Session s; Ast *ast; bool open, runs; pthread_t thread; struct Search *search; } Worker;        /* [0]: the caller's thread */

typedef struct Search {
    const SearchProblem *p;
    Session *s;
    Ast *ast;
    const FrontTune *tune;
    const FrontKernel *front;
    Name name[MOST_NAMES]; int n_names;
    Point point[MOST_TRIED]; int n_points;
    Worker worker[MOST_THREADS]; int n_workers;
    pthread_mutex_t lock;           /* guards what follows */
    pthread_cond_t more, all_finished;
    int next, finished, limit;      /* points: the first that nobody took, how many have estimates, those that want one */
    bool quit;
} Search;

/* --- what may be chosen ----------------------------------------------------------------------------------------------------------- */

static bool bound(const SearchProblem *p, const char *name)
{
    for (int i = 0; i < p->n_bindings; i++) if (!strcmp(p->bindings[i].name, name)) return true;
    return false;
}

static const FrontParam *const_named(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++) if (k->params[i].kind == FRONT_CONST && !strcmp(k->params[i].name, name)) return &k->params[i];
    return NULL;
}

static void add_name(Search *z, int domain)
{
    const FrontDomain *d = &z->tune->domains[domain];
    const FrontParam *c = const_named(z->front, d->name);
    bool hint = !c && frontend_hint_name(d->name);
    if (bound(z->p, d->name) || (!c && !hint) || z->n_names == MOST_NAMES || d->n > MOST_VALUES) return;
    if (c && c->default_value.kind != FRONT_INT && c->default_value.kind != FRONT_BOOL) return;
    Name *n = &z->name[z->n_names];
    *n = (Name){ .name = d->name, .domain = domain, .n = d->n, .declared = -1, .with = -1, .hint = hint, .shapes_grid = c && frontend_grid_names(z->ast, z->p->kernel, d->name) };
    n->parts = hint && !strcmp(d->name, "split");
    n->late = hint && !strcmp(d->name, "turns");        /* its gain does not depend on the others: for the best of them */
    n->together = !n->late && (n->shapes_grid || (hint && d->n == 2 && d->values[0].i + d->values[1].i == 1 && strcmp(d->name, "cluster_axis") && strcmp(d->name, "fill")));      /* on or off; the other two matter to few configurations */
    if (!z->p->model && !n->shapes_grid && hint) return;
    for (int i = 0; i < d->n; i++) {
        n->values[i] = d->values[i];
        if (c && d->values[i].i == c->default_value.i) n->declared = i;
    }
    if (n->declared < 0) {
        n->declared = n->n++;
        n->absent = true;
        if (c) n->values[n->declared] = c->default_value;
    }
    if (n->n > 1) z->n_names++;
}

/* Bindings of a point; those that are as declared are left out unless `all`. */
static int bindings_of(const Search *z, const Point *p, bool all, FrontBinding *out)
{
    int n = 0;
    for (int i = 0; i < z->n_names; i++) {
        const Name *m = &z->name[i];
        bool declared = p->at[i] == m->declared;
        if (declared && (m->hint ? m->absent : !all)) continue;
        out[n++] = (FrontBinding){ m->name, m->values[p->at[i]] };
    }
    return n;
}

/* What `require` says of it. Values outside their domain count as fixed. */
static bool allowed(const Search *z, const Point *p)
{
    FrontBinding fixed[z->p->n_bindings + MOST_NAMES], out[z->tune->n + 1];
    int n = z->p->n_bindings;
    int64_t number = 0;
    memcpy(fixed, z->p->bindings, (size_t)n * sizeof *fixed);
    for (int d = 0; d < z->tune->n; d++) {
        int value = 0;
        bool mine = false;
        for (int i = 0; i < z->n_names; i++) {
            const Name *m = &z->name[i];
            if (m->domain != d) continue;
            mine = true;
            if (p->at[i] < z->tune->domains[d].n) value = p->at[i];
            else if (!m->hint) fixed[n++] = (FrontBinding){ m->name, m->values[p->at[i]] };
        }
        const FrontParam *c = mine ? NULL : const_named(z->front, z->tune->domains[d].name);
        if (c && !bound(z->p, c->name)) fixed[n++] = (FrontBinding){ c->name, c->default_value };
        number = number * z->tune->domains[d].n + value;
    }
    return frontend_tune_config_with(z->ast, z->tune, number, fixed, n, out);
}

/* --- estimates --------------------------------------------------------------------------------------------------------------------- */

/* By the number of programs alone, where nothing is known of the device: programs take ceil(P / S) rounds, each a P-th of the work; smaller tiles load more for the same arithmetic,
 * for which a fourth root of their number is charged. */
static double by_number(int64_t programs, int units)
{
    return (double)((programs + units - 1) / units) / (double)programs * sqrt(sqrt((double)programs));
}

static void estimate(Search *z, Worker *w, Point *p)
{
    const SearchProblem *q = z->p;
    Session *s = &w->s;
    FrontBinding *all = arena_array(&s->arena, FrontBinding, (size_t)(q->n_bindings + MOST_NAMES) + 1);
    Compiled compiled;
    GpuCode code;
    Func *f;
    int64_t programs = 0;
    memcpy(all, q->bindings, (size_t)q->n_bindings * sizeof *all);
    size_t n = (size_t)q->n_bindings + (size_t)bindings_of(z, p, true, all + q->n_bindings);
    p->ns = INFINITY;
    if (!compile_lowered(s, w->ast, q->kernel, all, n, q->facts, q->options, &compiled, &f, &code)) return;
    if ((q->shared_bytes && code.shared_bytes > q->shared_bytes) || code.planned_registers > code.lane_registers) return;
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)compiled.n_dims + 1);
    EvalEnv env;
    if (!q->shape(q->user, &compiled, dims, &env, &programs) || programs <= 0) return;
    p->programs = programs;
    p->limit = "the number of programs";
    if (!q->model) { p->ns = by_number(programs, q->units) * (1 + 0.1 / (1 + code.planned_registers)); return; }     /* of equals the one that fills registers best */
    Cost cost;
    cost_count(s, f, &code, &env, programs, q->units, q->l2_bytes, &cost);
    p->uncertain = cost.uncertain;
    p->filled = cost.filled > 0;
    p->products = cost.wgmma + cost.mma > 0;
    p->ns = (cost.uncertain ? 2 : cost.joins > 0 && cost.filled > 0 ? 2 : cost.joins > 0 && !cost.chained ? 1.08 : 1) * cost_estimate(&cost, q->model, q->units, q->l2_bytes, &p->limit);
}

static bool open_worker(Search *z, Worker *w)
{
    if (w->open && w->s.arena.used < SESSION_ROOM) return w->ast != NULL;
    if (w->open) session_free(&w->s);
    session_init(&w->s, z->s->arena.alloc);
    w->open = true;
    w->ast = NULL;
    if (setjmp(w->s.oom)) return false;
    w->ast = z->p->parse(z->p->user, &w->s);
    return w->ast != NULL;
}

static void estimate_one(Search *z, Worker *w, Point *p)
{
    p->ns = INFINITY;
    if (!open_worker(z, w)) return;
    if (setjmp(w->s.oom)) p->ns = INFINITY;        /* out of memory, or an error of the compiler's own: not this one */
    else estimate(z, w, p);
    w->s.diags = w->s.last_diag = NULL;
    w->s.n_errors = 0;
}

/* With the lock held. */
static void take_points(Search *z, Worker *w)
{
    while (z->next < z->limit) {
        Point *p = &z->point[z->next++];
        pthread_mutex_unlock(&z->lock);
        estimate_one(z, w, p);
        pthread_mutex_lock(&z->lock);
        if (++z->finished == z->limit) pthread_cond_signal(&z->all_finished);
    }
}

static void help_there(void *arg)
{
    Worker *w = arg;
    Search *z = w->search;
    pthread_mutex_lock(&z->lock);
    while (!z->quit) {
        take_points(z, w);
        if (!z->quit) pthread_cond_wait(&z->more, &z->lock);
    }
    pthread_mutex_unlock(&z->lock);
}

/* Without a stack it does not help: the others take the points. */
static void *help(void *arg) { stack_call(help_there, arg); return NULL; }

/* All points that have none yet, in threads that stay for the next time. */
static void estimate_all(Search *z)
{
    int n = z->n_points - z->limit;
    if (n > z->n_workers) n = z->n_workers;
    pthread_mutex_lock(&z->lock);
    z->limit = z->n_points;
    pthread_cond_broadcast(&z->more);
    for (Worker *w = z->worker + 1; w < z->worker + n; w++)
        if (!w->runs) w->runs = !pthread_create(&w->thread, NULL, help, w);
    take_points(z, z->worker);
    while (z->finished < z->limit) pthread_cond_wait(&z->all_finished, &z->lock);
    pthread_mutex_unlock(&z->lock);
}

/* --- the way through ----------------------------------------------------------------------------------------------------------------- */

static bool add(Search *z, const uint8_t *at)
{
    Point p = { .ns = INFINITY };
    memcpy(p.at, at, sizeof p.at);
    if (!allowed(z, &p)) return false;
    for (int i = 0; i < z->n_points; i++) if (!memcmp(z->point[i].at, at, sizeof p.at)) return true;
    if (z->n_points < MOST_TRIED) z->point[z->n_points++] = p;
    return true;
}

/* What `require` rejects may stand with another value of one other name that does not shape the grid: the first that it allows. */
static void consider(Search *z, const uint8_t *at)
{
    uint8_t p[MOST_NAMES];
    bool good = add(z, at);
    for (int j = 0; j < z->n_names && !good; j++)
        for (int v = 0; v < z->name[j].n && !good && !z->name[j].shapes_grid && !z->name[j].fixed; v++) {
            memcpy(p, at, sizeof p);
            p[j] = (uint8_t)v;
            good = add(z, p);
        }
}

/* The product of the names that shape the grid and of what is on or off, from `at`. */
static void consider_tiles(Search *z, const uint8_t *at)
{
    uint8_t p[MOST_NAMES];
    int64_t all = 1;
    for (int i = 0; i < z->n_names; i++) all *= z->name[i].together && all <= MOST_TOGETHER ? z->name[i].n - z->name[i].absent : 1;
    for (int i = 0; i < z->n_names && all > MOST_TOGETHER; i++)
        for (int v = 0; v < z->name[i].n && z->name[i].together; v++) { memcpy(p, at, sizeof p); p[i] = (uint8_t)v; consider(z, p); }
    for (int64_t k = 0; k < all && all <= MOST_TOGETHER; k++) {
        int64_t number = k;
        memcpy(p, at, sizeof p);
        for (int i = 0; i < z->n_names; i++) {
            int n = z->name[i].n - z->name[i].absent;
            if (!z->name[i].together) continue;
            p[i] = (uint8_t)(number % n);
            number /= n;
        }
        consider(z, p);
    }
}

/* Of equals the one that was considered first. `but`: not one with the same tiles as these. */
static int best(const Search *z, const int *but, int n)
{
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        bool same = false;
        for (int k = 0; k < n; k++) {
            bool alike = true;
            for (int j = 0; j < z->n_names; j++) alike &= !z->name[j].shapes_grid || z->point[i].at[j] == z->point[but[k]].at[j];
            same |= alike;
        }
        if (!same && z->point[i].ns < INFINITY && (found < 0 || z->point[i].ns < z->point[found].ns * 0.9999)) found = i;
    }
    return found;
}

/* Each of the other names in turn, from each of these points. */
static void improve(Search *z, int *from, int n)
{
    for (int j = 0; j < z->n_names; j++) {
        if (z->name[j].shapes_grid || z->name[j].late || z->name[j].fixed) continue;
        for (int k = 0; k < n; k++)
            for (int v = 0; v < z->name[j].n; v++) {
                uint8_t p[MOST_NAMES];
                if (z->name[j].parts && z->point[from[k]].programs >= 2 * (int64_t)z->p->units) break;     /* enough programs: parts of them only cost */
                memcpy(p, z->point[from[k]].at, sizeof p);
                p[j] = (uint8_t)v;
                consider(z, p);
                const int with = z->name[j].with;
                for (int u = 0; with >= 0 && u < z->name[with].n && z->name[j].values[v].i > 1; u++) { p[with] = (uint8_t)u; consider(z, p); }
            }
        estimate_all(z);
        for (int k = 0; k < n; k++)         /* the best with these tiles */
            for (int i = 0; i < z->n_points; i++) {
                bool alike = true;
                for (int m = 0; m < z->n_names; m++) alike &= !z->name[m].shapes_grid || z->point[i].at[m] == z->point[from[k]].at[m];
                if (alike && z->point[i].ns < z->point[from[k]].ns * 0.9999) from[k] = i;
            }
    }
}

/* Depth of a pipeline and size of its steps, say, share the same memory: two names at a time. */
static void consider_pairs(Search *z, const uint8_t *at)
{
    for (int i = 0; i < z->n_names; i++)
        for (int j = i + 1; j < z->n_names; j++)
            for (int v = 0; v < z->name[i].n * z->name[j].n; v++) {
                uint8_t p[MOST_NAMES];
                if (z->name[i].together || z->name[j].together || z->name[i].fixed || z->name[j].fixed || z->name[i].hint || z->name[j].hint) break;
                memcpy(p, at, sizeof p);
                p[i] = (uint8_t)(v % z->name[i].n);
                p[j] = (uint8_t)(v / z->name[i].n);
                consider(z, p);
            }
}

static void consider_late(Search *z, const uint8_t *at)
{
    for (int j = 0; j < z->n_names; j++)
        for (int v = 0; v < z->name[j].n && z->name[j].late; v++) {
            uint8_t p[MOST_NAMES];
            memcpy(p, at, sizeof p);
            p[j] = (uint8_t)v;
            consider(z, p);
        }
}

/* Names that do not shape the grid: 0, 1: the upper and the lower middle of what they may be, or the last of an odd number of values; 2: the lower middle, or of an odd number the value below the middle. */
static void set_middle(const Search *z, const uint8_t *declared, int side, uint8_t *out)
{
    memcpy(out, declared, MOST_NAMES);
    for (int i = 0; i < z->n_names; i++) {
        const Name *m = &z->name[i];
        int values = m->n - m->absent;
        if (m->together || m->hint || m->fixed) continue;
        out[i] = (uint8_t)(side == 2 ? (values - 1) / 2 - values % 2 * (values > 1) : side && values % 2 ? values - 1 : (values - side) / 2);
    }
}

static int walk(Search *z)
{
    uint8_t declared[MOST_NAMES] = { 0 }, middle[MOST_NAMES];
    int tops[BEAM] = { 0 }, n = 0, now;
    for (int i = 0; i < z->n_names; i++) declared[i] = (uint8_t)z->name[i].declared;
    z->point[z->n_points++] = (Point){ .ns = INFINITY };        /* always, whatever `require` says */
    memcpy(z->point[0].at, declared, sizeof declared);
    if (z->p->only_if_needed || !z->p->model) estimate_all(z);
    if (z->point[0].ns < INFINITY && (z->p->only_if_needed || z->point[0].programs >= z->p->units)) return 0;
    /* the number of programs says nothing of these: they are asked only where the declared ones do not fit */
    for (int i = 0; i < z->n_names; i++) z->name[i].fixed = !z->p->model && !z->name[i].shapes_grid && z->point[0].ns < INFINITY;
    for (int side = 0; side < 2; side++) { set_middle(z, declared, side, middle); consider_tiles(z, middle); }
    estimate_all(z);
    if (z->point[0].ns < INFINITY && z->point[0].uncertain) return 0;
    for (int j = 0; j < z->n_names; j++) {          /* where filler warps would work, all tiles without them too, in few buffers as well: others are best then */
        bool filled = false;
        for (int i = 0; i < z->n_points && !strcmp(z->name[j].name, "fill"); i++) filled |= z->point[i].filled;
        for (int v = 0; v < z->name[j].n - z->name[j].absent && filled; v++)
            for (int side = 0; side < 3 && !z->name[j].values[v].i; side++) { set_middle(z, declared, side, middle); middle[j] = (uint8_t)v; consider_tiles(z, middle); }
        if (filled) estimate_all(z);
    }
    if (best(z, NULL, 0) < 0) {         /* as declared nothing fits: smaller pipelines may */
        int zero = 0;
        improve(z, &zero, 1);
    }
    for (int j = 0; j < z->n_names && best(z, NULL, 0) < 0; j++) {         /* nor they: both */
        for (int v = 0; v < z->name[j].n && !z->name[j].together && !z->name[j].hint && !z->name[j].fixed; v++) {
            memcpy(middle, declared, sizeof middle);
            middle[j] = (uint8_t)v;
            consider_tiles(z, middle);
        }
        estimate_all(z);
    }
    while (n < BEAM && (now = best(z, tops, n)) >= 0) tops[n++] = now;
    if (!n) return 0;
    improve(z, tops, n);
    for (int round = 0; round < 2 && z->n_points < MOST_TRIED; round++) {
        int before = best(z, NULL, 0);
        consider_tiles(z, z->point[before].at);
        consider_pairs(z, z->point[before].at);
        estimate_all(z);
        int last[AGAIN];
        n = 0;
        while (n < AGAIN && (now = best(z, last, n)) >= 0) last[n++] = now;
        improve(z, last, n);
        if (best(z, NULL, 0) == before) break;
    }
    consider_late(z, z->point[best(z, NULL, 0)].at);
    consider_late(z, declared);
    estimate_all(z);
    return best(z, NULL, 0);
}

/* The declared configuration, or it with another value of what is tried last. */
static const Point *as_declared(const Search *z)
{
    const Point *found = &z->point[0];
    for (int i = 1; i < z->n_points; i++) {
        bool alike = true;
        for (int j = 0; j < z->n_names; j++) alike &= z->name[j].late || z->point[i].at[j] == z->point[0].at[j];
        if (alike && z->point[i].ns < found->ns * 0.96) found = &z->point[i];
    }
    return found;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static void close_workers(void *p)
{
    Search *z = p;
    if (!z->n_workers) return;
    pthread_mutex_lock(&z->lock);
    z->quit = true;
    pthread_cond_broadcast(&z->more);
    pthread_mutex_unlock(&z->lock);
    for (int i = 0; i < z->n_workers; i++) {
        Worker *w = &z->worker[i];
        if (w->runs) pthread_join(w->thread, NULL);
        if (w->open) session_free(&w->s);
    }
    z->n_workers = 0;
    pthread_cond_destroy(&z->more);
    pthread_cond_destroy(&z->all_finished);
    pthread_mutex_destroy(&z->lock);
}

bool search_configuration(Session *s, const SearchProblem *p, SearchResult *out)
{
    Search *z = arena_new(&s->arena, Search);
    *z = (Search){ .p = p, .s = s, .n_workers = p->threads > 0 ? p->threads : processors() };
    if (z->n_workers > MOST_THREADS) z->n_workers = MOST_THREADS;
    *out = (SearchResult){ .ns = INFINITY, .declared_ns = INFINITY, .limit = "" };
    if (!(z->ast = p->parse(p->user, s)) || !(z->tune = frontend_tune(z->ast, p->kernel))) return false;
    z->front = frontend_kernel_find(z->ast, p->kernel);
    for (int d = 0; d < z->tune->n; d++) add_name(z, d);
    for (int i = 0; i < z->n_names; i++)
        for (int j = 0; j < z->n_names; j++) if (!strcmp(z->name[i].name, "cluster") && !strcmp(z->name[j].name, "cluster_axis")) z->name[i].with = j;
    if (!z->n_names) return false;
    pthread_mutex_init(&z->lock, NULL);
    pthread_cond_init(&z->more, NULL);
    pthread_cond_init(&z->all_finished, NULL);
    for (int i = 0; i < z->n_workers; i++) z->worker[i].search = z;
    session_defer(s, close_workers, z);
    int found = walk(z);
    close_workers(z);
    const Point *b = &z->point[found], *declared = as_declared(z);
    /* not for nothing: estimates are not that good, less so of what memory bounds, and where the device was not measured they are worse */
    bool memory = b->limit && declared->limit && !b->products && !strcmp(b->limit, "memory") && !strcmp(declared->limit, "memory");
    if (b->ns > declared->ns * (!p->model ? 0.95 : !p->model->measured ? 0.8 : memory ? 0.85 : 0.96)) b = declared;
    FrontBinding *config = arena_array(&s->arena, FrontBinding, MOST_NAMES);
    out->n = b == &z->point[0] ? 0 : bindings_of(z, b, false, config);
    out->config = config;
    out->ns = b->ns;
    out->declared_ns = z->point[0].ns;
    out->limit = b->limit ? b->limit : "";
    out->tried = z->n_points;
    return true;
}

const char *search_text(Session *s, const SearchResult *r)
{
    Text t;
    text_init(&t, &s->arena);
    for (int i = 0; i < r->n; i++) {
        text_printf(&t, "%s%s=", i ? ", " : "", r->config[i].name);
        frontend_print_value(r->config[i].value, &t);
    }
    return r->n ? t.data : "as declared";
}
