/* tune_run.c: tile_kernel_tune: the configurations of a `tune` block, from the enumeration to the list of
 * results. See tuner.h and docs/tuning.md. */
#define _GNU_SOURCE
#include "runtime/tune/tuner.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- candidates -------------------------------------------------------------------------------------- */

void tune_fail(Candidate *c, tile_tune_state state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    format_args(c->reason, sizeof c->reason, fmt, ap);
    va_end(ap);
    c->state = state;
}

/* The first line of the context's error, without the kernel's name, which is the same for all. */
void tune_fail_status(Candidate *c, tile_status st)
{
    char text[CONTEXT_MESSAGE] = "";
    if (c->context) tile_context_error(c->context, text, sizeof text);
    char *from = text, *error = strstr(text, "error: ");
    if (error) from = error + 7;
    from[strcspn(from, "\n")] = 0;
    tune_fail(c, TILE_TUNE_FAILED, "%s", *from ? from : tile_status_name(st));
}

void tune_drop(Candidate *c)
{
    tile_kernel_destroy(c->kernel);
    if (c->context) context_release(c->context);
    c->kernel = NULL;
    c->context = NULL;
}

void tune_describe(const Candidate *c, tile_tune_entry *out)
{
    tile_tune_entry e = { .struct_size = out->struct_size,
        .config = c->text,
        .is_default = c->is_default,
        .state = c->state,
        .ms = c->ms,
        .launches = c->launches,
        .deviation = c->deviation,
        .registers = c->registers,
        .spill_bytes = c->spill_bytes,
        .shared_bytes = c->shared_bytes,
        .reason = c->reason };
    memcpy(out, &e, out->struct_size < sizeof e ? out->struct_size : sizeof e);
}

void tune_report(
    tile_tune *t, tile_tune_stage stage, int round, size_t done, size_t total, const Candidate *c)
{
    if (!t->desc.on_progress) return;
    tile_tune_entry e = { .struct_size = sizeof e };
    pthread_mutex_lock(&t->lock);
    tune_describe(c, &e);
    t->desc.on_progress(t->desc.on_progress_user,
        &(tile_tune_progress){ sizeof(tile_tune_progress), stage, round, done, total, &e });
    pthread_mutex_unlock(&t->lock);
}

static const FrontParam *const_named(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].kind >= FRONT_CONST && !strcmp(k->params[i].name, name)) return &k->params[i];
    return NULL;
}

static bool is_bound(const tile_kernel *k, const char *name)
{
    for (int i = 0; i < k->n_bindings; i++)
        if (!strcmp(k->bindings[i].name, name)) return true;
    return false;
}

/* Hints have no meaning on a CPU: the code is the same for all values. */
static bool is_idle_hint(const tile_kernel *k, const char *name)
{ return k->context->target->kind == TARGET_CPU && frontend_hint_name(name) && !const_named(k->front, name); }

static int dim_named(const tile_kernel *k, const char *name)
{
    for (int d = 0; d < k->n_dims; d++)
        if (!strcmp(k->dims[d].name, name)) return d;
    return -1;
}

/* Whether the launch that is tuned gives the optional tensor `i`. */
static FrontBinding presence(const tile_tune *t, int i)
{
    bool absent = t->bound.views[i].facts & FACT_ABSENT;
    return (FrontBinding){ t->kernel->params[i].name, { FRONT_BOOL, { .b = !absent } } };
}

/* Collects the bindings of every configuration: those of the kernel, and which optional tensors are given. */
static FrontBinding *fixed_bindings(const tile_tune *t, Arena *a, int *n)
{
    const tile_kernel *k = t->kernel;
    FrontBinding *b = arena_array(a, FrontBinding, (size_t)(k->n_bindings + k->n_params) + 1);
    memcpy(b, k->bindings, (size_t)k->n_bindings * sizeof *b);
    *n = k->n_bindings;
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional) b[(*n)++] = presence(t, i);
    return b;
}

static const char *config_text(Session *s, const FrontBinding *b, int n)
{
    Text t;
    text_init(&t, &s->arena);
    for (int i = 0; i < n; i++) {
        text_printf(&t, "%s%s=", i ? ", " : "", b[i].name);
        frontend_print_value(b[i].value, &t);
    }
    return n ? t.data : "as declared";
}

static bool same_config(const Candidate *a, const FrontBinding *b, int n)
{
    if (a->n_config != n) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(a->config[i].name, b[i].name) || a->config[i].value.kind != b[i].value.kind ||
            a->config[i].value.i != b[i].value.i)
            return false;
    return true;
}

/* Whether the list has it already: the declared defaults; and others that differed in hints that are left
 * out. */
static bool is_listed(const tile_tune *t, const FrontTune *f, const FrontBinding *b, int n)
{
    bool left_out = false;
    for (int d = 0; d < f->n; d++) left_out |= is_idle_hint(t->kernel, f->domains[d].name);
    for (int i = 0; i < (left_out ? t->n : t->n > 0); i++)
        if (same_config(&t->all[i], b, n)) return true;
    return false;
}

static void add(tile_tune *t, const FrontBinding *b, int n, bool is_default)
{
    Session *s = &t->session;
    FrontBinding *copy = arena_array(&s->arena, FrontBinding, (size_t)n + 1);
    memcpy(copy, b, (size_t)n * sizeof *copy);
    t->all[t->n++] = (Candidate){ .config = copy,
        .n_config = n,
        .text = config_text(s, b, n),
        .is_default = is_default,
        .tune = t,
        .registers = -1,
        .spill_bytes = -1,
        .state = TILE_TUNE_UNTRIED };
}

/* For a name that the kernel binds, its first value represents all. */
static bool is_open(const tile_tune *t, const FrontTune *f, int64_t number)
{
    for (int d = f->n - 1; d >= 0; number /= f->domains[d].n, d--)
        if (is_bound(t->kernel, f->domains[d].name) && number % f->domains[d].n) return false;
    return true;
}

/* Names that the kernel binds are not chosen, nor are extents that the tensors give: one value of such
 * domains is left. False: the configuration is skipped. */
static bool choose(const tile_tune *t, const FrontTune *f, const FrontBinding *config, int64_t number,
    FrontBinding *out, int *n)
{
    *n = 0;
    for (int d = f->n - 1; d >= 0; number /= f->domains[d].n, d--) {
        int dim = dim_named(t->kernel, config[d].name);
        if (dim >= 0 && (config[d].value.kind != FRONT_INT || config[d].value.i != t->bound.dims[dim]))
            return false;
        if (dim >= 0 || is_idle_hint(t->kernel, config[d].name)) continue;
        if (is_bound(t->kernel, config[d].name)) {
            if (number % f->domains[d].n) return false;
            continue;
        }
        out[(*n)++] = config[d];
    }
    for (int i = 0; i < *n / 2; i++) {
        FrontBinding b = out[i];
        out[i] = out[*n - 1 - i];
        out[*n - 1 - i] = b;
    }
    return true;
}

static void add_default(tile_tune *t, const FrontTune *f, FrontBinding *out)
{
    int n = 0;
    for (int d = 0; d < f->n; d++) {
        const FrontParam *p = const_named(t->kernel->front, f->domains[d].name);
        if (!p || is_bound(t->kernel, p->name)) continue;
        if (p->default_value.kind == FRONT_NOTHING) return;
        out[n++] = (FrontBinding){ p->name, p->default_value };
    }
    add(t, out, n, true);
}

int tune_const_key(const tile_kernel *k, const FrontTune *f, Session *s, TuneItem *out)
{
    int n = 0;
    for (int i = 0; i < k->front->n_params; i++) {
        const FrontParam *p = &k->front->params[i];
        FrontValue v = p->default_value;
        bool chosen_here = p->kind < FRONT_CONST;
        for (int d = 0; d < f->n; d++)
            chosen_here |= !strcmp(f->domains[d].name, p->name) && !is_bound(k, p->name);
        for (int b = 0; b < k->n_bindings; b++)
            if (!strcmp(k->bindings[b].name, p->name)) v = k->bindings[b].value;
        if (!chosen_here && v.kind != FRONT_NOTHING)
            out[n++] = (TuneItem){ session_intern(s, p->name, strlen(p->name)), v };
    }
    return n;
}

/* Collects what the table's entry records of the launch: extents, every const that is not chosen, and which
 * optional tensors are given, because they change the code. */
static void add_key(tile_tune *t, const FrontTune *f)
{
    tile_kernel *k = t->kernel;
    Session *s = &t->session;
    t->key = arena_array(&s->arena, TuneItem, (size_t)(f->n_keys + k->front->n_params) + 1);
    for (int i = 0; i < f->n_keys; i++) {
        int d = dim_named(k, f->keys[i]);
        if (d >= 0 && t->bound.dims[d] >= 0)
            t->key[t->n_key++] = (TuneItem){ f->keys[i], { FRONT_INT, { .i = t->bound.dims[d] } } };
    }
    t->n_key += tune_const_key(k, f, s, t->key + t->n_key);
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional) {
            FrontBinding b = presence(t, i);
            t->key[t->n_key++] = (TuneItem){ session_intern(s, b.name, strlen(b.name)), b.value };
        }
}

/* Lists the declared defaults, then the block's configurations in an order that soon covers all regions, in
 * case the budget ends: steps of the golden ratio. A large block is sampled: TUNE_MAX_TRIES of its
 * combinations are examined, and TUNE_MAX_CONFIGS of the allowed ones are taken. */
static tile_status enumerate(tile_tune *t)
{
    tile_kernel *k = t->kernel;
    Session *s = &t->session;
    Ast *ast = module_parse(k->module, s);
    const FrontTune *f = ast ? frontend_tune(ast, k->name) : NULL;
    if (!f)
        return context_fail(t->context, TILE_ERROR_NOT_FOUND,
            "kernel %s has no `tune` block and no `auto` constant", k->name);
    int64_t total = frontend_tune_count(f);
    int64_t limit =
        t->desc.sample && t->desc.sample < TUNE_MAX_CONFIGS ? (int64_t)t->desc.sample : TUNE_MAX_CONFIGS;
    int64_t most = total < limit ? total : limit;
    FrontBinding *config = arena_array(&s->arena, FrontBinding, (size_t)f->n + 1),
                 *chosen = arena_array(&s->arena, FrontBinding, (size_t)f->n + 1);
    int n_fixed;
    const FrontBinding *fixed = fixed_bindings(t, &s->arena, &n_fixed);
    t->all = arena_array(&s->arena, Candidate, (size_t)most + 1);
    t->sorted = arena_array(&s->arena, Candidate *, (size_t)most + 1);
    add_default(t, f, chosen);
    int64_t step = total * 618 / 1000 | 1, at = 0;
    for (int64_t a = step, b = total; b;) {
        int64_t r = a % b;
        a = b;
        b = r;
        if (!b && a != 1) {
            step += 2;
            a = step;
            b = total;
        }
    } /* coprime: all are met */
    for (int64_t i = 0, tries = 0; i < total && t->n <= most && tries < TUNE_MAX_TRIES;
        i++, at = (at + step) % total) {
        int n;
        if (!is_open(t, f, at)) continue;
        tries++;
        if (!frontend_tune_config_with(ast, f, at, fixed, n_fixed, config) ||
            !choose(t, f, config, at, chosen, &n))
            continue;
        if (!is_listed(t, f, chosen, n)) add(t, chosen, n, false);
    }
    if (s->n_errors) {
        context_report(t->context, s, k->name);
        return TILE_ERROR_COMPILE;
    }
    if (!t->n)
        return context_fail(
            t->context, TILE_ERROR_NOT_FOUND, "no combination of the `tune` block of %s is allowed", k->name);
    add_key(t, f);
    return TILE_OK;
}

/* --- the run ----------------------------------------------------------------------------------------- */

static tile_status check_all(tile_tune *t)
{
    size_t total = 0, done = 0;
    for (int i = 0; i < t->n; i++) total += t->all[i].state == TILE_TUNE_TIMED;
    for (int i = 0; i < t->n; i++) {
        Candidate *c = &t->all[i];
        if (c->state != TILE_TUNE_TIMED) continue;
        if (t->n_good && tune_past(t, t->deadline)) {
            tune_fail(c, TILE_TUNE_UNTRIED, "the budget was spent");
            tune_drop(c);
            continue;
        }
        tile_status st = tune_check(t, c, false);
        if (st) return st;
        tune_report(t, TILE_TUNE_CHECKING, 1, ++done, total, c);
    }
    if (t->n_wrong > t->n_good)
        return context_fail(t->context, TILE_ERROR_CHECK,
            "%s: %d configurations compute something else than %d, the first of which is %s: nothing is "
            "chosen",
            t->kernel->title, t->n_wrong, t->n_good, t->all[0].text);
    return TILE_OK;
}

static int by_rank(const void *a, const void *b)
{
    const Candidate *x = *(Candidate *const *)a, *y = *(Candidate *const *)b;
    static const int rank[] = { [TILE_TUNE_TIMED] = 0,
        [TILE_TUNE_WRONG] = 1,
        [TILE_TUNE_FAILED] = 2,
        [TILE_TUNE_SAME] = 3,
        [TILE_TUNE_UNTRIED] = 4 };
    if (x->state != y->state) return rank[x->state] - rank[y->state];
    /* Configurations that stayed in longer were faster. */
    if (x->launches != y->launches) return y->launches - x->launches;
    return x->ms != y->ms ? (x->ms > y->ms ? 1 : -1) : (x > y) - (x < y);
}

/* Compares the whole result of the best configuration before it is accepted. */
static tile_status settle(tile_tune *t)
{
    for (;;) {
        for (int i = 0; i < t->n; i++) t->sorted[i] = &t->all[i];
        qsort(t->sorted, (size_t)t->n, sizeof *t->sorted, by_rank);
        Candidate *best = t->sorted[0];
        if (best->state != TILE_TUNE_TIMED || best->full || !t->checks) return TILE_OK;
        tile_status st = tune_check(t, best, true);
        if (st) return st;
    }
}

static tile_status tune(tile_tune *t)
{
    tile_status st = tune_check_begin(t);
    if (!st) st = tune_time_begin(t);
    if (!st) st = tune_compile(t);
    if (!st) st = check_all(t);
    if (!st) st = tune_restore(t, false);
    if (!st) st = tune_time(t);
    if (!st) st = settle(t);
    return st;
}

static void close_run(tile_tune *t)
{
    if (t->n_outputs) tune_restore(t, false);
    for (int i = 0; i < t->n; i++) tune_drop(&t->all[i]);
    tune_time_end(t);
    tune_check_end(t);
}

static tile_status open_run(
    tile_tune *t, tile_kernel *k, const tile_launch_desc *launch, const tile_tune_desc *desc)
{
    tile_context *c = k->context;
    tile_launch_desc l;
    if (!context_take_desc(&l, sizeof l, launch, sizeof(size_t)) ||
        !context_take_desc(&t->desc, sizeof t->desc, desc, sizeof(size_t)))
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT,
            "%s: tile_kernel_tune: struct_size of a descriptor is not set", k->title);
    if (!(t->desc.budget_seconds >= 0) || t->desc.repeat < 0 || t->desc.threads < 0 ||
        !(t->desc.tolerance >= 0))
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT,
            "%s: tile_kernel_tune: a negative budget, count or tolerance", k->title);
    t->stream = l.stream;
    double budget = t->desc.budget_seconds > 0 ? t->desc.budget_seconds : 60;
    t->deadline = tune_now() + budget;
    t->compile_deadline = t->deadline - budget / 3;
    return TILE_OK;
}

tile_status tile_kernel_tune(tile_kernel *k, const tile_arg *args, size_t n_args,
    const tile_launch_desc *launch, const tile_tune_desc *desc, tile_tune **out)
{
    FLOAT_STATE_DEFAULT();
    if (!k || !out) return TILE_ERROR_INVALID_ARGUMENT;
    tile_context *c = k->context;
    *out = NULL;
    LAUNCH_ARGS(a, k);
    tile_status st = kernel_bind(k, args, n_args, &a);
    if (st) return st;
    if (context_sealed(c))
        return context_fail(
            c, TILE_ERROR_SEALED, "%s: the context is sealed, so nothing can be tuned", k->title);
    tile_tune *t = context_alloc(c, sizeof *t);
    if (!t) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    t->context = c;
    t->kernel = k;
    atomic_fetch_add(&k->references, 1);
    t->args = args;
    t->n_args = n_args;
    t->bound = a;
    pthread_mutex_init(&t->lock, NULL);
    session_init(&t->session, c->alloc);
    int jumped = setjmp(t->session.oom);
    if (jumped) st = context_session_failed(c, &t->session, jumped, k->title);
    else if (!(st = open_run(t, k, launch, desc)) && !(st = enumerate(t))) st = tune(t);
    close_run(t);
    if (st) {
        tile_tune_destroy(t);
        return st;
    }
    t->args = NULL;
    t->bound = (LaunchArgs){ 0 };
    *out = t;
    return TILE_OK;
}

size_t tile_tune_count(const tile_tune *t) { return t ? (size_t)t->n : 0; }

tile_status tile_tune_result(const tile_tune *t, size_t i, tile_tune_entry *out)
{
    if (!t || !out || out->struct_size < sizeof(size_t)) return TILE_ERROR_INVALID_ARGUMENT;
    if (i >= (size_t)t->n) return TILE_ERROR_NOT_FOUND;
    tune_describe(t->sorted[i], out);
    return TILE_OK;
}

void tile_tune_destroy(tile_tune *t)
{
    if (!t) return;
    tile_context *c = t->context;
    tile_kernel *k = t->kernel;
    session_free(&t->session);
    pthread_mutex_destroy(&t->lock);
    context_free(c, t, sizeof *t);
    tile_kernel_destroy(k); /* This may also release the context. */
}
