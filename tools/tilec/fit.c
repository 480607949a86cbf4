/* fit.c: see fit.h. */
#include "tools/tilec/chosen.h"
#include "tools/tilec/fit.h"
#include "runtime/choice/search/search.h"

enum { USUAL_CORES = 8 }; /* of the processor that code which is compiled ahead of time runs on */

typedef struct Fitting {
    Input *in;
    const Variant *v;
} Fitting;

static Ast *parse(void *user, Session *s) { return input_parse_again(((Fitting *)user)->in, s); }

/* Extents that nothing binds are large, as far as the grid allows. */
static bool shape(void *user, const Compiled *c, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    (void)user;
    for (int64_t large = 4096; large >= 16; large /= 4) {
        int64_t grid[3] = { 1, 1, 1 };
        for (int d = 0; d < c->n_dims; d++) dims[d] = c->dims[d].extent >= 0 ? c->dims[d].extent : large;
        *env = (EvalEnv){ .dims = dims };
        if (eval_reads_scalars(c->grid) || (c->extents && eval_reads_scalars(c->extents)) ||
            compiled_derive(c, env, dims) < -1 || !eval_run(c->grid, env, grid, 3))
            return false;
        double all = (double)grid[0] * (double)grid[1] * (double)grid[2];
        if (all > 1 << 24) continue;
        memcpy(env->grid, grid, sizeof grid);
        *programs = (int64_t)all;
        return true;
    }
    return false;
}

static void forget_after(Session *s, const Diag *before)
{
    Diag *last = NULL;
    for (Diag *d = s->diags; d && before; d = d->next)
        if (d == before) last = d;
    if (last) last->next = NULL;
    else s->diags = NULL;
    s->last_diag = last;
    s->n_errors = 0;
    for (const Diag *d = s->diags; d; d = d->next) s->n_errors += d->severity == SEV_ERROR;
}

static int64_t extent(void *user, const char *name)
{
    const Fitting *x = user;
    for (size_t i = 0; i < x->v->n; i++)
        if (!strcmp(x->v->bindings[i].name, name) && x->v->bindings[i].value.kind == FRONT_INT)
            return x->v->bindings[i].value.i;
    return -1;
}

static SearchProblem problem_of(Fitting *x, const LaunchFacts *facts, CompileOptions *quiet)
{
    quiet->passes.dump_after = NULL;
    quiet->times = NULL;
    return (SearchProblem){ .parse = parse,
        .shape = shape,
        .extent = extent,
        .user = x,
        .kernel = x->v->kernel->name,
        .bindings = x->v->bindings,
        .n_bindings = (int)x->v->n,
        .facts = facts,
        .options = quiet,
        .device = device_of_target(quiet->target),
        .threads = 1 };
}

/* What the search says of candidates is nobody's business: the session's diagnostics stay as they are. */
static bool search(
    Fitting *x, const LaunchFacts *facts, const CompileOptions *o, bool only_if_needed, SearchResult *r)
{
    Session *s = &x->in->session;
    CompileOptions quiet = *o;
    SearchProblem p = problem_of(x, facts, &quiet);
    p.only_if_needed = only_if_needed;
    Diag *first = s->diags, *last = s->last_diag;
    int errors = s->n_errors;
    if (o->target->kind == TARGET_CPU) p.device.units = USUAL_CORES;
    s->n_errors = 0; /* the front end counts them */
    s->diags = s->last_diag = NULL;
    bool found = search_configuration(s, &p, r) && r->n;
    s->diags = first;
    s->last_diag = last;
    if (last) last->next = NULL;
    s->n_errors = errors;
    return found;
}

static bool is_bound(const Variant *v, const char *name)
{
    for (size_t i = 0; i < v->n; i++)
        if (!strcmp(v->bindings[i].name, name)) return true;
    return false;
}

const Variant *fit_autos(Input *in, const Variant *v, const LaunchFacts *facts, const CompileOptions *o)
{
    Fitting x = { in, v };
    SearchResult r;
    bool any = false;
    for (int i = 0; i < v->kernel->n_params; i++)
        any |= v->kernel->params[i].automatic && !is_bound(v, v->kernel->params[i].name);
    if (!any || !search(&x, facts, o, false, &r)) return v;
    diag_perf(&in->session, v->kernel->loc, "%s: %s is chosen for %s, of %d configurations", v->title,
        search_text(&in->session, &r), o->target->name, r.tried);
    return chosen_variant(&in->session, v, &r);
}

const Variant *fit_smaller(Input *in, const Variant *v, const LaunchFacts *facts, const CompileOptions *o,
    const Artifact *a, const Diag *before)
{
    Session *s = &in->session;
    Fitting x = { in, v };
    SearchResult r;
    if (!a->too_large || !search(&x, facts, o, true, &r)) return NULL;
    forget_after(s, before);
    if (a->shape.shared_bytes > o->target->shared_bytes)
        diag_perf(s, v->kernel->loc,
            "%s needs %lld bytes of shared memory as declared, %s has %lld: %s is taken from its `tune` "
            "block",
            v->title, (long long)a->shape.shared_bytes, o->target->name, (long long)o->target->shared_bytes,
            search_text(s, &r));
    else
        diag_perf(s, v->kernel->loc,
            "%s takes %d registers a lane as declared, which %s has not: %s is taken from its `tune` block",
            v->title, a->registers_planned, o->target->name, search_text(s, &r));
    return chosen_variant(s, v, &r);
}

void fit_advise(
    Input *in, const Variant *v, const LaunchFacts *facts, const CompileOptions *o, const CostDevice *device)
{
    Fitting x = { in, v };
    CompileOptions quiet = *o;
    SearchProblem p = problem_of(&x, facts, &quiet);
    p.device = *device;
    search_advise(&in->session, &p, NULL, 0);
}
