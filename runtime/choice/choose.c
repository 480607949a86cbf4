/* choose.c: the configuration of a launch for which no table speaks: of the `tune` block's the one with the
 * least estimate (search.h, docs/tuning.md). What the caller binds stays. The CPU keeps the declared
 * defaults: its programs share cores in turn.
 *
 * Choices are remembered by extents and by what code is specialized on, so that a warm launch looks one up
 * without locks, and in the disk cache, so that another process need not search. A kernel that meets many
 * shapes takes, after some, what was chosen for one close by. */
#define _GNU_SOURCE
#include "runtime/launch/kernel.h"
#include "runtime/choice/search.h"
#include "ir/stack.h"
#include <math.h>
#include <stdlib.h>
#include <stdio.h>

enum { MAX_CHOICES = 128, MEMO_SLOTS = 64, MEMO_MOST = 4096, EXACT = 24 };

typedef struct Choice {
    const FrontBinding *config;
    int n;
} Choice;
typedef struct Chosen {
    struct Chosen *older, *next;
    size_t bytes;
    uint64_t hash;
    int choice;
    uint64_t words[];
} Chosen; /* the key without its choice, then the extents. `next`: the next entry of the same slot */

struct Chooser {
    Session session; /* configurations */
    Choice all[MAX_CHOICES];
    int n; /* [0]: the declared defaults; the array never moves, because launches read it without the lock */
    _Atomic(Chosen *) slot[MEMO_SLOTS];
    Chosen *memos;
    int n_memos, searched;
};

tile_status chooser_open(tile_kernel *k)
{
    if (k->context->driver->ops->kind == TARGET_CPU || !frontend_tune(k->module->ast, k->name))
        return TILE_OK;
    struct Chooser *c = context_alloc(k->context, sizeof *c);
    if (!c) return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    session_init(&c->session, k->context->alloc);
    c->n = 1;
    k->chooser = c;
    return TILE_OK;
}

void chooser_close(tile_kernel *k)
{
    struct Chooser *c = k->chooser;
    if (!c) return;
    for (Chosen *m = c->memos, *older; m; m = older) {
        older = m->older;
        context_free(k->context, m, m->bytes);
    }
    session_free(&c->session);
    context_free(k->context, c, sizeof *c);
}

/* --- what a search asks ------------------------------------------------------------------------------ */

typedef struct Ask {
    tile_kernel *k;
    const LaunchArgs *l;
} Ask;

static Ast *parse(void *user, Session *s) { return module_parse(((Ask *)user)->k->module, s); }

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

static int add_choice(struct Chooser *c, const FrontBinding *config, int n)
{
    Session *s = &c->session;
    for (int i = 0; i < c->n; i++) {
        bool same = c->all[i].n == n;
        for (int j = 0; same && j < n; j++)
            same = !strcmp(c->all[i].config[j].name, config[j].name) &&
                   c->all[i].config[j].value.kind == config[j].value.kind &&
                   c->all[i].config[j].value.i == config[j].value.i;
        if (same) return i;
    }
    if (c->n == MAX_CHOICES) return 0;
    FrontBinding *copy = arena_array(&s->arena, FrontBinding, (size_t)n + 1);
    for (int j = 0; j < n; j++)
        copy[j] =
            (FrontBinding){ session_intern(s, config[j].name, strlen(config[j].name)), config[j].value };
    c->all[c->n] = (Choice){ copy, n };
    return c->n++;
}

/* --- the disk cache ---------------------------------------------------------------------------------- */

static const char magic[] = "tile-choice-1\n";

static CacheKey key_of(tile_kernel *k, Session *s, const uint64_t *words, size_t n)
{
    Text t;
    tile_context *c = k->context;
    int64_t device[3] = { c->driver->info.multiprocessors, c->driver->info.shared_bytes,
        c->driver->info.l2_bytes };
    uint32_t declared = c->flags & TILE_CONTEXT_AS_DECLARED;
    text_init(&t, &s->arena);
    cache_key_text(&t, magic);
    cache_key_text(&t, context_key(c));
    text_write(&t, (const char *)device, sizeof device);
    text_write(&t, (const char *)&declared, sizeof declared);
    text_write(&t, (const char *)k->module->digest, sizeof k->module->digest);
    cache_key_text(&t, k->title);
    text_write(&t, (const char *)words, n * sizeof *words);
    return cache_key(t.data, t.len);
}

/* Reads lines of the form NAME VALUE, and ignores others. */
static bool read_choice(tile_kernel *k, Session *s, const CacheKey *key, int *choice)
{
    const void *bytes;
    size_t size;
    FrontBinding config[64];
    int n = 0;
    if ((k->context->flags & TILE_CONTEXT_NO_CACHE) ||
        !cache_read(&k->context->cache, key, &s->arena, &bytes, &size))
        return false;
    char *text = arena_strndup(&s->arena, bytes, size), *at = text;
    if (strncmp(at, magic, sizeof magic - 1)) return false;
    for (at += sizeof magic - 1; *at && n < 64; n++) {
        size_t len = strcspn(at, " \n");
        char *end;
        if (!len || len > 256 || at[len] != ' ') return false;
        config[n].name = session_intern(s, at, len);
        int kind = (int)strtol(at + len, &end, 10);
        if (*end != ' ' || (kind != FRONT_INT && kind != FRONT_BOOL)) return false;
        long long v = strtoll(end, &end, 10);
        if (*end != '\n') return false;
        config[n].value = kind == FRONT_INT ? (FrontValue){ FRONT_INT, { .i = v } }
                                            : (FrontValue){ FRONT_BOOL, { .b = v != 0 } };
        at = end + 1;
    }
    *choice = n ? add_choice(k->chooser, config, n) : 0;
    return true;
}

static void write_choice(tile_kernel *k, Session *s, const CacheKey *key, const SearchResult *r)
{
    Text t;
    if (k->context->flags & TILE_CONTEXT_NO_CACHE) return;
    text_init(&t, &s->arena);
    text_puts(&t, magic);
    for (int i = 0; i < r->n; i++)
        text_printf(&t, "%s %d %lld\n", r->config[i].name, (int)r->config[i].value.kind,
            (long long)(r->config[i].value.kind == FRONT_BOOL ? r->config[i].value.b : r->config[i].value.i));
    cache_write(&k->context->cache, key, t.data, t.len);
}

/* --- choosing ---------------------------------------------------------------------------------------- */

static void say(tile_kernel *k, Session *s, const SearchResult *r, bool by_model)
{
    char estimate[160] = "";
    if (by_model && r->ns < INFINITY) {
        format_text(estimate, sizeof estimate, ", estimated at %.1f us (bound by %s)", r->ns * 1e-3,
            bound_name(r->bound));
        size_t n = strlen(estimate);
        if (r->n && r->declared_ns < INFINITY)
            format_text(estimate + n, sizeof estimate - n, "; as declared %.1f us", r->declared_ns * 1e-3);
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
    return device_of_card(k->context->target, d->name, d->multiprocessors, d->l2_bytes, d->shared_bytes);
}

static int search(tile_kernel *k, Session *s, const LaunchArgs *l, const uint64_t *key, const CacheKey *name)
{
    Ask ask = { k, l };
    LaunchFacts facts;
    CompileOptions o = context_compile_options(k->context);
    FrontBinding *b =
        arena_array(&s->arena, FrontBinding, (size_t)(k->n_bindings + k->n_dims + k->n_params) + 1);
    o.passes.dump_after = NULL; /* Dumps are for launched code, not for candidates. */
    kernel_facts(k, key, arena_array(&s->arena, ParamFacts, (size_t)k->n_params + 1),
        arena_array(&s->arena, bool, (size_t)k->n_dims + 1), &facts);
    SearchProblem p = { .parse = parse,
        .shape = shape,
        .user = &ask,
        .kernel = k->name,
        .bindings = b,
        .n_bindings = bound(k, l, b),
        .facts = &facts,
        .options = &o,
        .device = device_of(k),
        .only_if_needed = (k->context->flags & TILE_CONTEXT_AS_DECLARED) != 0 };
    SearchResult r;
    double start = clock_ms();
    Preparing *compiler = arena_new(&s->arena, Preparing);
    compiler->driver = k->context->driver;
    session_defer(s, prepared, compiler);
    compiler->runs = compiler->driver->ops->compiler_prepare &&
                     !pthread_create(&compiler->thread, NULL, prepare, compiler);
    bool found = search_configuration(s, &p, &r);
    prepared(compiler);
    if (!found) return 0;
    if (context_debug_has(k->context, "time")) {
        char text[80];
        format_text(
            text, sizeof text, "chosen among %d configurations in %.2f ms", r.tried, clock_ms() - start);
        context_debug(k->context, text, k->title);
    }
    s->diags = s->last_diag = NULL;
    s->n_errors = 0;
    if (!p.only_if_needed || r.n) say(k, s, &r, p.device.model != NULL);
    context_report(k->context, s, k->title);
    write_choice(k, s, name, &r);
    return r.n ? add_choice(k->chooser, r.config, r.n) : 0;
}

/* Searches, or takes the result of an earlier search. Without memory for a choice, the declared defaults are
 * used. */
typedef struct Wanted {
    tile_kernel *k;
    const LaunchArgs *l;
    const uint64_t *key, *words;
    size_t n;
    int choice;
} Wanted;

static void search_guarded(void *p)
{
    Wanted *w = p;
    Session s;
    session_init(&s, w->k->context->alloc);
    if (!setjmp(s.oom) && !setjmp(w->k->chooser->session.oom)) {
        int got = 0;
        CacheKey name = key_of(w->k, &s, w->words, w->n);
        if (!read_choice(w->k, &s, &name, &got)) got = search(w->k, &s, w->l, w->key, &name);
        w->choice = got;
    }
    session_free(&s);
}

static int search_or_read(
    tile_kernel *k, const LaunchArgs *l, const uint64_t *key, const uint64_t *words, size_t n)
{
    Wanted w = { k, l, key, words, n, 0 };
    context_on_stack(k->context, search_guarded, &w);
    return w.choice;
}

/* Finds a choice whose extents are all within a twelfth of these, with the same promises; -1: none. */
static int nearby(const tile_kernel *k, const uint64_t *words)
{
    for (const Chosen *m = k->chooser->memos; m; m = m->older) {
        bool close = true;
        for (int i = 0; i < k->key_words && close; i++) close = m->words[i] == words[i];
        for (int d = 0; d < k->n_dims && close; d++) {
            int64_t a = (int64_t)m->words[k->key_words + d], b = (int64_t)words[k->key_words + d];
            close = llabs(a - b) * 12 <= b;
        }
        if (close) return m->choice;
    }
    return -1;
}

static uint64_t hash_words(const uint64_t *words, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ words[i]) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    return h;
}

static void remember(tile_kernel *k, const uint64_t *words, size_t n, uint64_t hash, int choice)
{
    struct Chooser *c = k->chooser;
    size_t bytes = sizeof(Chosen) + n * sizeof *words;
    Chosen *m = c->n_memos < MEMO_MOST ? context_alloc(k->context, bytes) : NULL;
    if (!m) return;
    m->bytes = bytes;
    m->hash = hash;
    m->choice = choice;
    memcpy(m->words, words, n * sizeof *words);
    m->older = c->memos;
    c->memos = m;
    c->n_memos++;
    m->next = atomic_load_explicit(&c->slot[hash % MEMO_SLOTS], memory_order_relaxed);
    atomic_store_explicit(&c->slot[hash % MEMO_SLOTS], m, memory_order_release);
}

static const Chosen *recall(const struct Chooser *c, const uint64_t *words, size_t n, uint64_t hash)
{
    const Chosen *m = atomic_load_explicit(&c->slot[hash % MEMO_SLOTS], memory_order_acquire);
    while (m && (m->hash != hash || memcmp(m->words, words, n * sizeof *words))) m = m->next;
    return m;
}

int kernel_choice(tile_kernel *k, const LaunchArgs *l, const uint64_t *key)
{
    struct Chooser *c = k->chooser;
    size_t n = (size_t)(k->key_words + k->n_dims);
    uint64_t words[n];
    memcpy(words, key, (size_t)k->key_words * sizeof *words);
    for (int d = 0; d < k->n_dims; d++) {
        if (!l->dims[d]) return 0; /* nothing to compute */
        words[k->key_words + d] = (uint64_t)l->dims[d];
    }
    uint64_t hash = hash_words(words, n);
    const Chosen *m = recall(c, words, n, hash);
    if (m) return m->choice;
    lock_enter(&k->lock);
    m = recall(c, words, n, hash);
    int choice = m ? m->choice : -1;
    bool known = m;
    if (choice < 0 && c->searched >= EXACT) choice = nearby(k, words);
    if (choice < 0) {
        choice = search_or_read(k, l, key, words, n);
        c->searched++;
    }
    if (!known) remember(k, words, n, hash, choice);
    lock_leave(&k->lock);
    return choice;
}

const FrontBinding *kernel_choice_config(const tile_kernel *k, int choice, int *n)
{
    *n = k->chooser->all[choice].n;
    return k->chooser->all[choice].config;
}
