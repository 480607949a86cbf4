/* choose.c: the configuration of a launch for which no table speaks. The declared defaults, but for two cases that can be told without measuring:
 *
 * - They make fewer programs than the GPU has multiprocessors (S). Of the `tune` block's values for consts that stand in the grid clause, those with the
 *   least estimate go in their place: P programs take ceil(P / S) rounds, each a P-th of the work; smaller tiles load more for the same arithmetic,
 *   for which a fourth root of their number is charged:   ceil(P / S) / P * P^(1/4).   Measured: docs/tuning.md. On devices with clusters, values of the block's hint `split` (passes/kernel/split.c)
 *   count too: n CTAs share the steps of a program's loop, so that n P of them count as P in that charge; where all find room at once, and each keeps a thousand of what the loop runs over: joining
 *   them costs as much as that. The loop runs over the extents that the grid clause does not name.
 * - They do not fit the device (shared memory): the largest of those that do.
 *
 * What the caller binds stays. The CPU keeps the declared defaults: its programs share cores in turn. Choices are remembered by extents, so that a warm launch
 * looks one up without locks. */
#define _GNU_SOURCE
#include "runtime/kernel.h"
#include <math.h>

enum { PART_DEPTH = 1024, MAX_PARTS = 8, MAX_CHOICES = 32, MAX_STEPS = 4096, MEMO_SLOTS = 64, MEMO_MOST = 4096 };

typedef struct Choice { const FrontBinding *config; int n, split; double volume; Compiled clauses; bool usable; } Choice;
typedef struct Chosen { struct Chosen *older; size_t bytes; uint64_t hash; int row; int64_t dims[]; } Chosen;

struct Chooser {
    Session session;
    const FrontTune *tune;          /* of the module's tree */
    Ast *ast;                       /* of its own session, once built */
    bool built;
    Choice *all; int n;             /* [0]: the declared defaults */
    _Atomic(Chosen *) slot[MEMO_SLOTS];
    Chosen *memos; int n_memos;
};

static const FrontParam *free_const(const tile_kernel *k, const char *name)
{
    for (int i = 0; i < k->n_bindings; i++) if (!strcmp(k->bindings[i].name, name)) return NULL;
    for (int i = 0; i < k->front->n_params; i++) {
        const FrontParam *p = &k->front->params[i];
        if (p->kind == FRONT_CONST && !strcmp(p->name, name)) return p->default_value.kind == FRONT_INT ? p : NULL;
    }
    return NULL;
}

static bool shapes_grid(const tile_kernel *k, const Ast *ast, const FrontDomain *d)
{
    return d->n > 1 && free_const(k, d->name) && frontend_grid_names(ast, k->name, d->name);
}

tile_status chooser_open(tile_kernel *k)
{
    const Ast *ast = k->module->ast;
    const FrontTune *t = frontend_tune(ast, k->name);
    bool any = false;
    if (k->n_rows || k->context->driver->ops->kind == TARGET_CPU) return TILE_OK;
    for (int d = 0; t && d < t->n; d++) any |= shapes_grid(k, ast, &t->domains[d]);
    if (!any) return TILE_OK;
    struct Chooser *c = context_alloc(k->context, sizeof *c);
    if (!c) return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    session_init(&c->session, k->context->alloc);
    k->chooser = c;
    return TILE_OK;
}

void chooser_close(tile_kernel *k)
{
    struct Chooser *c = k->chooser;
    if (!c) return;
    for (Chosen *m = c->memos, *older; m; m = older) { older = m->older; context_free(k->context, m, m->bytes); }
    session_free(&c->session);
    context_free(k->context, c, sizeof *c);
}

/* --- building, under the kernel's lock --------------------------------------------------------------------------------------------- */

/* Extents that code is specialized on are bound too, as the first launch has them; few grids depend on them, and then only the estimate does. */
static void add_choice(tile_kernel *k, struct Chooser *c, const int64_t *dims, const FrontBinding *config, int n)
{
    Session *s = &c->session;
    Choice *choice = &c->all[c->n++];
    FrontBinding *copy = arena_array(&s->arena, FrontBinding, (size_t)n + 1), *all = arena_array(&s->arena, FrontBinding, (size_t)(k->n_bindings + n + k->n_dims) + 1);
    int n_all = k->n_bindings + n;
    memcpy(copy, config, (size_t)n * sizeof *copy);
    memcpy(all, k->bindings, (size_t)k->n_bindings * sizeof *all);
    memcpy(all + k->n_bindings, config, (size_t)n * sizeof *all);
    *choice = (Choice){ .config = copy, .n = n, .split = 1, .volume = 1 };
    for (int i = 0; i < n; i++) choice->volume *= config[i].value.i > 0 ? (double)config[i].value.i : 1;
    for (int d = 0; d < k->n_dims; d++)
        if (k->dims[d].key) all[n_all++] = (FrontBinding){ k->dims[d].name, { FRONT_INT, { .i = dims[d] } } };
    CompileOptions o = context_compile_options(k->context);
    choice->usable = compile_clauses(s, c->ast, k->name, all, (size_t)n_all, &o, &choice->clauses);
}

/* Each choice with each value of the hint `split` that the block allows beside it. */
static void add_splits(tile_kernel *k, struct Chooser *c, const FrontBinding *fixed, int n_fixed)
{
    Session *s = &c->session;
    const FrontTune *t = c->tune;
    const Target *target = target_find(k->context->driver->info.target);
    int n = c->n, split = -1;
    for (int d = 0; d < t->n; d++) if (!strcmp(t->domains[d].name, "split") && !free_const(k, "split")) split = d;
    for (int i = 0; i < k->n_bindings; i++) if (!strcmp(k->bindings[i].name, "split")) split = -1;
    if (split < 0 || !target || target->kind != TARGET_CUDA || target->arch < 90) return;
    FrontBinding *all = arena_array(&s->arena, FrontBinding, (size_t)(n_fixed + t->n) + 2), *config = arena_array(&s->arena, FrontBinding, (size_t)t->n + 1);
    memcpy(all, fixed, (size_t)n_fixed * sizeof *all);
    for (int i = 0; i < n; i++)
        for (int v = 0; v < t->domains[split].n && c->n < MAX_CHOICES * MAX_PARTS; v++) {
            const FrontBinding part = { "split", t->domains[split].values[v] };
            const Choice *base = &c->all[i];
            if (part.value.kind != FRONT_INT || part.value.i < 2 || part.value.i > MAX_PARTS || !base->usable) continue;
            memcpy(all + n_fixed, base->config, (size_t)base->n * sizeof *all);
            all[n_fixed + base->n] = part;
            if (!frontend_tune_config_with(c->ast, t, 0, all, n_fixed + base->n + 1, config)) continue;
            FrontBinding *own = arena_array(&s->arena, FrontBinding, (size_t)base->n + 1);
            memcpy(own, base->config, (size_t)base->n * sizeof *own);
            own[base->n] = part;
            c->all[c->n] = *base;
            c->all[c->n].config = own;
            c->all[c->n].n = base->n + 1;
            c->all[c->n++].split = (int)part.value.i;
        }
}

static void build(tile_kernel *k, struct Chooser *c, const int64_t *dims)
{
    Session *s = &c->session;
    c->built = true;
    if (!(c->ast = module_parse(k->module, s)) || !(c->tune = frontend_tune(c->ast, k->name))) return;
    const FrontTune *t = c->tune;
    c->all = arena_array(&s->arena, Choice, MAX_CHOICES * MAX_PARTS);
    FrontBinding *fixed = arena_array(&s->arena, FrontBinding, (size_t)(k->n_bindings + t->n) + 1), *config = arena_array(&s->arena, FrontBinding, (size_t)t->n + 1),
                 *declared = arena_array(&s->arena, FrontBinding, (size_t)t->n + 1), *chosen = arena_array(&s->arena, FrontBinding, (size_t)t->n + 1);
    int n_fixed = k->n_bindings, n = 0;
    memcpy(fixed, k->bindings, (size_t)k->n_bindings * sizeof *fixed);
    for (int d = 0; d < t->n; d++) {
        const FrontParam *p = free_const(k, t->domains[d].name);
        if (!p) continue;
        if (shapes_grid(k, c->ast, &t->domains[d])) declared[n++] = (FrontBinding){ t->domains[d].name, p->default_value };
        else fixed[n_fixed++] = (FrontBinding){ t->domains[d].name, p->default_value };
    }
    add_choice(k, c, dims, declared, n);
    int64_t total = frontend_tune_count(t);
    for (int64_t i = 0, steps = 0; i < total && steps < MAX_STEPS && c->n < MAX_CHOICES; i++) {
        bool first = true, same = true;             /* of domains that do not shape the grid one value stands for all */
        int64_t number = i;
        for (int d = t->n - 1; d >= 0; number /= t->domains[d].n, d--)
            first &= shapes_grid(k, c->ast, &t->domains[d]) || number % t->domains[d].n == 0;
        if (!first || ++steps > MAX_STEPS || !frontend_tune_config_with(c->ast, t, i, fixed, n_fixed, config)) continue;
        n = 0;
        for (int d = 0; d < t->n; d++)
            if (shapes_grid(k, c->ast, &t->domains[d])) { same &= config[d].value.i == declared[n].value.i; chosen[n++] = config[d]; }
        if (!same) add_choice(k, c, dims, chosen, n);
    }
    add_splits(k, c, fixed, n_fixed);
}

/* No memory to choose with: what is declared. */
static void build_once(tile_kernel *k, struct Chooser *c, const int64_t *dims)
{
    if (c->built) return;
    if (setjmp(c->session.oom)) c->n = 0;
    else build(k, c, dims);
}

/* --- choosing ------------------------------------------------------------------------------------------------------------------------ */

static int64_t programs_of(tile_kernel *k, const Choice *c, const LaunchArgs *l)
{
    int64_t dims[c->clauses.n_dims + 1], programs;
    EvalEnv env;
    return c->usable && !kernel_grid(k, &c->clauses, l, dims, &env, &programs) ? programs : 0;
}

static double estimate(int64_t programs, int split, int64_t units)
{
    int64_t ctas = programs * split;
    return (double)((ctas + units - 1) / units) / (double)ctas * sqrt(sqrt((double)programs));
}

/* What a program's loop runs over: the extents that the grid does not name. */
static double depth_of(const tile_kernel *k, const struct Chooser *c, const LaunchArgs *l)
{
    double depth = 1;
    for (int d = 0; d < k->n_dims; d++) if (!frontend_grid_names(c->ast, k->name, k->dims[d].name)) depth *= (double)l->dims[d];
    return depth;
}

static int best(tile_kernel *k, const struct Chooser *c, const LaunchArgs *l)
{
    int64_t units = k->context->driver->info.multiprocessors, p = c->n ? programs_of(k, &c->all[0], l) : 0;
    if (p <= 0 || p >= units) return 0;
    int found = 0;
    double least = estimate(p, 1, units) * 0.95, depth = depth_of(k, c, l);        /* not for nothing */
    for (int i = 1; i < c->n; i++) {
        int split = c->all[i].split;
        if ((p = programs_of(k, &c->all[i], l)) <= 0 || estimate(p, split, units) >= least) continue;
        if (split > 1 && (p * split > units || depth / split < PART_DEPTH)) continue;
        least = estimate(p, split, units);
        found = i;
    }
    return found;
}

static uint64_t hash_dims(const int64_t *dims, int n)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < n; i++) { h = (h ^ (uint64_t)dims[i]) * 0xff51afd7ed558ccdull; h ^= h >> 32; }
    return h;
}

static void remember(tile_kernel *k, struct Chooser *c, uint64_t hash, const int64_t *dims, int row)
{
    size_t bytes = sizeof(Chosen) + (size_t)k->n_dims * sizeof *dims;
    Chosen *m = c->n_memos < MEMO_MOST ? context_alloc(k->context, bytes) : NULL;
    if (!m) return;
    m->bytes = bytes;
    m->hash = hash;
    m->row = row;
    memcpy(m->dims, dims, (size_t)k->n_dims * sizeof *dims);
    m->older = c->memos;
    c->memos = m;
    c->n_memos++;
    atomic_store_explicit(&c->slot[hash % MEMO_SLOTS], m, memory_order_release);
}

int kernel_choice(tile_kernel *k, const LaunchArgs *l)
{
    struct Chooser *c = k->chooser;
    uint64_t hash = hash_dims(l->dims, k->n_dims);
    const Chosen *m = atomic_load_explicit(&c->slot[hash % MEMO_SLOTS], memory_order_acquire);
    if (m && m->hash == hash && !memcmp(m->dims, l->dims, (size_t)k->n_dims * sizeof *l->dims)) return m->row;
    pthread_mutex_lock(&k->lock);
    build_once(k, c, l->dims);
    int row = best(k, c, l);
    remember(k, c, hash, l->dims, row);
    pthread_mutex_unlock(&k->lock);
    return row;
}

const FrontBinding *kernel_choice_config(const tile_kernel *k, int row, int *n)
{
    *n = k->chooser->all[row].n;
    return k->chooser->all[row].config;
}

int kernel_choice_smaller(tile_kernel *k, int row)
{
    struct Chooser *c = k->chooser;
    int found = -1;
    pthread_mutex_lock(&k->lock);
    for (int i = 1; i < c->n && row < c->n; i++)
        if (c->all[i].volume < c->all[row].volume && (found < 0 || c->all[i].volume > c->all[found].volume)) found = i;
    pthread_mutex_unlock(&k->lock);
    return found;
}
