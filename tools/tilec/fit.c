/* fit.c: see fit.h. */
#include "tools/tilec/fit.h"
#include "runtime/choice/search.h"

static Ast *parse(void *user, Session *s) { return input_parse_again(user, s); }

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

const Variant *fit_smaller(Input *in, const Variant *v, const LaunchFacts *facts, const CompileOptions *o,
    const Artifact *a, const Diag *before)
{
    Session *s = &in->session;
    SearchResult r;
    SearchProblem p = { .parse = parse,
        .shape = shape,
        .user = in,
        .kernel = v->kernel->name,
        .bindings = v->bindings,
        .n_bindings = (int)v->n,
        .facts = facts,
        .options = o,
        .device = device_of_target(o->target),
        .threads = 1,
        .only_if_needed = true };
    if (!a->too_large) return NULL;
    Diag *first = s->diags, *last = s->last_diag;
    int errors = s->n_errors;
    CompileOptions quiet = *o;
    quiet.passes.dump_after = NULL;
    p.options = &quiet;
    s->n_errors = 0; /* the front end counts them */
    s->diags = s->last_diag = NULL;
    bool found = search_configuration(s, &p, &r) && r.n;
    s->diags = first;
    s->last_diag = last;
    if (last) last->next = NULL;
    s->n_errors = errors;
    if (!found) return NULL;
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
    Variant *w = arena_new(&s->arena, Variant);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, v->n + (size_t)r.n);
    memcpy(b, v->bindings, v->n * sizeof *b);
    memcpy(b + v->n, r.config, (size_t)r.n * sizeof *b);
    *w = *v;
    w->bindings = b;
    w->n = v->n + (size_t)r.n;
    w->n_config = v->n_config + (size_t)r.n;
    return w;
}
