/* ask.c: of the choice: what a launch asks a search (search.h), and what is said of the answer. */
#define _GNU_SOURCE
#include "runtime/choice/chooser.h"
#include "ir/support/stack.h"
#include <math.h>

typedef struct Ask {
    tile_kernel *k;
    const LaunchArgs *l;
} Ask;

static Ast *parse(void *user, Session *s) { return module_parse(((Ask *)user)->k->module, s); }

static int64_t extent(void *user, const char *name)
{
    const Ask *a = user;
    for (int d = 0; d < a->k->n_dims; d++)
        if (!strcmp(a->k->dims[d].name, name)) return a->l->dims[d];
    return -1;
}

/* The context's last error belongs to the launch and not to a search, so nothing here may set it. */
static bool shape(void *user, const Compiled *c, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    const Ask *a = user;
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < c->n_dims; d++) {
        const CompiledDim *m = &c->dims[d];
        dims[d] = m->extent >= 0 ? m->extent : m->param >= 0 ? a->l->views[m->param].extent[m->axis] : 1;
    }
    *env = (EvalEnv){
        .dims = dims, .scalars = a->l->scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])a->l->strides
    };
    if (eval_results(c->grid) > 3 || !eval_run(c->grid, env, grid, 3)) return false;
    *programs = 1;
    for (int i = 0; i < 3; i++) {
        if (grid[i] < 0 || (grid[i] && *programs > INT32_MAX / grid[i])) return false;
        env->grid[i] = grid[i];
        *programs *= grid[i];
    }
    return true;
}

/* Lists the bindings: those of the caller, the extents on which code is specialized, and which optional
 * tensors are given. */
static int bound(const tile_kernel *k, const LaunchArgs *l, FrontBinding *b)
{
    int n = k->n_bindings;
    memcpy(b, k->bindings, (size_t)n * sizeof *b);
    for (int d = 0; d < k->n_dims; d++)
        if (k->dims[d].key && l->dims[d] >= 0)
            b[n++] = (FrontBinding){ k->dims[d].name, { FRONT_INT, { .i = l->dims[d] } } };
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional)
            b[n++] = (FrontBinding){ k->params[i].name,
                { FRONT_BOOL, { .b = !(l->views[i].facts & FACT_ABSENT) } } };
    return n;
}

/* --- the search -------------------------------------------------------------------------------------- */

/* by_model: the estimate is one of the device's model. */
static void say(tile_kernel *k, Session *s, const SearchResult *r, bool by_model)
{
    char estimate[160] = "";
    if (by_model && r->ns < INFINITY) {
        format_text(estimate, sizeof estimate, ", estimated at %.1f us (bound by %s)", r->ns * 1e-3,
            bound_name(r->bound));
        size_t n = strlen(estimate);
        if (r->n && r->declared_ns < INFINITY)
            format_text(estimate + n, sizeof estimate - n, "; %s %.1f us",
                r->automatic ? "by default" : "as declared", r->declared_ns * 1e-3);
    }
    if (r->declared_ns == INFINITY)
        diag_perf(s, k->front->loc, "as declared, %s does not fit %s: %s is taken%s", k->title,
            k->context->target->name, search_text(s, r), estimate);
    else
        diag_perf(s, k->front->loc, "no table speaks of this launch: %s, of %d configurations%s",
            search_text(s, r), r->tried, estimate);
}

/* The cache has no entry, so the vendor's compiler will compile the chosen code. Its initialization can begin
 * meanwhile. */
typedef struct Preparing {
    Driver *driver;
    pthread_t thread;
    bool runs;
} Preparing;

static void prepare_there(void *p)
{
    Driver *d = p;
    d->ops->compiler_prepare(d);
}
static void *prepare(void *p)
{
    stack_call(prepare_there, ((Preparing *)p)->driver);
    return NULL;
}

static void prepared(void *p)
{
    Preparing *q = p;
    if (q->runs) pthread_join(q->thread, NULL);
    q->runs = false;
}

static CostDevice device_of(const tile_kernel *k)
{
    const DriverInfo *d = &k->context->driver->info;
    CostDevice made =
        device_of_card(k->context->target, d->name, d->multiprocessors, d->l2_bytes, d->shared_bytes);
    made.workspace = context_has_scratch(k->context);
    return made;
}

const DeviceModel *kernel_device_model(const tile_kernel *k) { return device_of(k).model; }

/* Searches while the vendor's compiler gets ready. */
static bool search(Session *s, tile_kernel *k, const SearchProblem *p, SearchResult *r)
{
    Preparing *compiler = arena_new(&s->arena, Preparing);
    compiler->driver = k->context->driver;
    session_defer(s, prepared, compiler);
    compiler->runs = compiler->driver->ops->compiler_prepare &&
                     !pthread_create(&compiler->thread, NULL, prepare, compiler);
    bool found = search_configuration(s, p, r);
    prepared(compiler);
    return found;
}

/* Of a kernel that lists nothing to choose only what differs from it is said. */
static void report(Session *s, tile_kernel *k, const SearchProblem *p, const SearchResult *r)
{
    const bool lists = frontend_tune(k->module->ast, k->name);
    s->diags = s->last_diag = NULL;
    s->n_errors = 0;
    if (r->n || (lists && !p->only_if_needed)) say(k, s, r, p->device.model != NULL);
    if (lists && k->context->on_diagnostic) search_advise(s, p, r->config, r->n);
    context_report(k->context, s, k->title);
}

bool ask_search(tile_kernel *k, Session *s, const LaunchArgs *l, const uint64_t *key, SearchResult *r)
{
    Ask ask = { k, l };
    LaunchFacts facts;
    CompileOptions o = kernel_compile_options(k);
    FrontBinding *b =
        arena_array(&s->arena, FrontBinding, (size_t)(k->n_bindings + k->n_dims + k->n_params) + 1);
    o.passes.dump_after = NULL; /* Dumps are for launched code, not for candidates. */
    kernel_facts(k, key, arena_array(&s->arena, ParamFacts, (size_t)k->n_params + 1),
        arena_array(&s->arena, bool, (size_t)k->n_dims + 1),
        arena_array(&s->arena, int64_t, (size_t)k->n_dims + 1), &facts);
    SearchProblem p = { .parse = parse,
        .shape = shape,
        .extent = extent,
        .user = &ask,
        .kernel = k->name,
        .bindings = b,
        .n_bindings = bound(k, l, b),
        .facts = &facts,
        .options = &o,
        .device = device_of(k),
        .only_if_needed = (k->context->flags & TILE_CONTEXT_AS_DECLARED) != 0 };
    double start = clock_ms();
    if (!search(s, k, &p, r)) return false;
    if (context_debug_has(k->context, "time")) {
        char text[200];
        format_text(text, sizeof text, "chosen among %d configurations in %.2f ms: %s", r->tried,
            clock_ms() - start, search_text(s, r));
        context_debug(k->context, text, k->title);
    }
    report(s, k, &p, r);
    return true;
}
