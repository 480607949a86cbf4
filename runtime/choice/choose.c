/* choose.c: the configuration of a launch that has no entry in a tuning table: the one of the `tune` block
 * with the least estimated time (search.h, docs/tuning.md). Bindings of the caller stay. On the CPU constants
 * are chosen and hints are not.
 *
 * Choices are remembered by extents and by what code is specialized on, so that a warm launch looks one up
 * without locks, and in the disk cache, so that another process need not search. After some
 * number of shapes, a kernel reuses the choice for a similar shape instead of searching again. In a pinned
 * context it does not, so that a choice depends on the launch alone. */
#define _GNU_SOURCE
#include "runtime/choice/chooser.h"
#include <stdlib.h>

enum { MEMO_MOST = 4096, EXACT = 24 };

/* On a CPU only constants are chosen, because code does not depend on hints. */
static bool chooses(const tile_kernel *k)
{
    const FrontTune *t = frontend_tune(k->module->ast, k->name);
    if (!t || k->context->driver->ops->kind != TARGET_CPU) return t != NULL;
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < k->front->n_params; j++)
            if (!strcmp(t->domains[i].name, k->front->params[j].name)) return true;
    return false;
}

tile_status chooser_open(tile_kernel *k)
{
    if (!chooses(k)) return TILE_OK;
    Choice *first = arena_array(&k->session.arena, Choice, FIRST_PART);
    struct Chooser *c = context_alloc(k->context, sizeof *c);
    if (!c) return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    session_init(&c->session, k->context->alloc);
    c->part[0] = first;
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

/* --- choices that are kept ----------------------------------------------------------------------------- */

/* Memory for choice number c->n; false: a kernel that is not pinned takes no more of them. */
static bool room_for_choice(struct Chooser *c, bool pinned)
{
    if (c->n < FIRST_PART) return true;
    if (!pinned || c->n == FIRST_PART * ((1 << MOST_PARTS) - 1)) return false;
    int part = choice_part(c->n);
    if (!c->part[part]) c->part[part] = arena_array(&c->session.arena, Choice, (size_t)FIRST_PART << part);
    return true;
}

/* A copy in the chooser's session. */
static const FrontBinding *copied(Session *s, const FrontBinding *config, int n)
{
    FrontBinding *copy = arena_array(&s->arena, FrontBinding, (size_t)n + 1);
    for (int j = 0; j < n; j++)
        copy[j] =
            (FrontBinding){ session_intern(s, config[j].name, strlen(config[j].name)), config[j].value };
    return copy;
}

int chooser_add(tile_kernel *k, const Choice *new)
{
    struct Chooser *c = k->chooser;
    Session *s = &c->session;
    const FrontBinding *config = new->config;
    const int n = new->n;
    const bool pinned = k->context->flags & TILE_CONTEXT_PINNED;
    for (int i = 0; i < c->n; i++) {
        const Choice *old = choice_at(c, i);
        bool same = old->n == n;
        for (int j = 0; same && j < n; j++)
            same = !strcmp(old->config[j].name, config[j].name) &&
                   old->config[j].value.kind == config[j].value.kind &&
                   old->config[j].value.i == config[j].value.i;
        if (same) return i;
    }
    if (!room_for_choice(c, pinned)) return 0;
    Choice kept = *new;
    kept.config = copied(s, config, n);
    if (pinned) kept.n_others = 0; /* the others are those of the launch that came first */
    for (int i = 0; i < kept.n_others; i++)
        kept.other[i].config = copied(s, new->other[i].config, new->other[i].n);
    *choice_at(c, c->n) = kept;
    return c->n++;
}

/* --- choosing ---------------------------------------------------------------------------------------- */

/* The choice of a launch. */
typedef struct Wanted {
    tile_kernel *k;
    const LaunchArgs *l;
    const uint64_t *key, *words;
    size_t n;
    int choice;
    double ns;
    bool ended; /* nothing was left out for want of memory */
} Wanted;

static int search(Wanted *w, Session *s, const CacheKey *name)
{
    SearchResult r;
    const bool found = ask_search(w->k, s, w->l, w->key, &r);
    w->ended = !r.short_of_memory;
    if (!found) return 0;
    w->ns = choice_ns(r.ns);
    Choice made = { .config = r.config, .n = r.n, .ns = w->ns, .spilled = r.spilled, .n_others = r.n_others };
    memcpy(made.other, r.other, sizeof made.other);
    if (w->ended) chooser_write(w->k, s, name, &made);
    return r.n ? chooser_add(w->k, &made) : 0;
}

/* Searches, or takes the result of an earlier search. Without memory for a choice, `choice` keeps its value.
 */
static void search_guarded(void *p)
{
    Wanted *w = p;
    Session s;
    session_init(&s, w->k->context->alloc);
    if (!setjmp(s.oom) && !setjmp(w->k->chooser->session.oom)) {
        int got = 0;
        CacheKey name = chooser_key(w->k, &s, w->words, w->n);
        if (chooser_read(w->k, &s, &name, &got, &w->ns)) w->ended = true;
        else got = search(w, &s, &name);
        w->choice = got;
    }
    session_free(&s);
}

/* Whether it binds the extent of this dimension, so that it serves launches of this extent alone. */
static bool binds_extent(const tile_kernel *k, const Choice *c, int dim)
{
    for (int i = 0; i < c->n && dim < k->front->n_dims; i++)
        if (!strcmp(c->config[i].name, k->front->dims[dim])) return true;
    return false;
}

/* Finds a choice whose extents are all within a twelfth of these, and the same where it binds them, with the
 * same promises; -1: none. */
static int nearby(const tile_kernel *k, const uint64_t *words, double *ns)
{
    for (const Chosen *m = k->chooser->memos; m; m = m->older) {
        const Choice *c = choice_at(k->chooser, m->choice);
        bool close = true;
        for (int i = 0; i < k->key_words && close; i++) close = m->words[i] == words[i];
        for (int d = 0; d < k->n_dims && close; d++) {
            int64_t a = (int64_t)m->words[k->key_words + d], b = (int64_t)words[k->key_words + d];
            close = llabs(a - b) * 12 <= b && (a == b || !binds_extent(k, c, d));
        }
        if (close) *ns = m->ns;
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

static void remember(tile_kernel *k, const uint64_t *words, size_t n, uint64_t hash, int choice, double ns)
{
    struct Chooser *c = k->chooser;
    size_t bytes = sizeof(Chosen) + n * sizeof *words;
    bool pinned = k->context->flags & TILE_CONTEXT_PINNED;
    Chosen *m = c->n_memos < MEMO_MOST || pinned ? context_alloc(k->context, bytes) : NULL;
    if (!m) return;
    m->bytes = bytes;
    m->hash = hash;
    m->choice = choice;
    m->ns = ns;
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

/* On a CPU the declared defaults serve every launch, unless the kernel has `auto` constants. */
static bool defaults_serve(const tile_kernel *k)
{
    for (int i = 0; i < k->front->n_params; i++)
        if (k->front->params[i].automatic) return false;
    return k->context->driver->ops->kind == TARGET_CPU;
}

/* Under the lock, for extents that nothing was chosen for. In a pinned context the launch alone decides, and
 * it fails if there is no memory to search with. */
static tile_status choose(tile_kernel *k, Wanted *w)
{
    bool pinned = k->context->flags & TILE_CONTEXT_PINNED, sealed = context_sealed(k->context);
    if (!pinned && (sealed || k->chooser->searched >= EXACT)) w->choice = nearby(k, w->words, &w->ns);
    if (sealed && !pinned && w->choice < 0 && defaults_serve(k)) w->choice = 0;
    w->ended = w->choice >= 0;
    if (w->ended) return TILE_OK;
    if (sealed) return kernel_refuse(k, w->key, *w->l->collapsed ? w->l->given : w->l->dims);
    if (!pinned) w->choice = 0;
    k->chooser->searched++;
    tile_status st = context_on_stack(k->context, search_guarded, w);
    if (!pinned) return TILE_OK;
    if (!st && w->choice < 0)
        st = context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "%s: out of memory", k->title);
    return st;
}

/* What a choice is remembered by: the key without its choice, and the extents. False: an extent is 0. */
static bool words_of(const tile_kernel *k, const LaunchArgs *l, const uint64_t *key, uint64_t *words)
{
    memcpy(words, key, (size_t)k->key_words * sizeof *words);
    words[0] &= 255;
    for (int d = 0; d < k->n_dims; d++) {
        if (!l->dims[d]) return false;
        words[k->key_words + d] = (uint64_t)l->dims[d];
    }
    return true;
}

double kernel_choice_estimate(tile_kernel *k, const LaunchArgs *l, const uint64_t *key)
{
    size_t n = (size_t)(k->key_words + k->n_dims);
    uint64_t words[n];
    if (!words_of(k, l, key, words)) return 0;
    const Chosen *m = recall(k->chooser, words, n, hash_words(words, n));
    if (m) return m->ns;
    lock_enter(&k->lock);
    bool full = k->chooser->n_memos >= MEMO_MOST;
    lock_leave(&k->lock);
    return full ? 0 : -1;
}

tile_status kernel_choice(tile_kernel *k, const LaunchArgs *l, const uint64_t *key, int *choice)
{
    struct Chooser *c = k->chooser;
    size_t n = (size_t)(k->key_words + k->n_dims);
    uint64_t words[n];
    *choice = 0;
    if (!words_of(k, l, key, words)) return TILE_OK; /* nothing to compute */
    uint64_t hash = hash_words(words, n);
    tile_status st = TILE_OK;
    const Chosen *m = recall(c, words, n, hash);
    if (!m) {
        lock_enter(&k->lock);
        m = recall(c, words, n, hash);
        Wanted w = { k, l, key, words, n, -1, 0, false };
        if (!m && !(st = choose(k, &w))) {
            if (w.ended) remember(k, words, n, hash, w.choice, w.ns); /* else a later launch searches */
            *choice = w.choice;
        }
        lock_leave(&k->lock);
    }
    if (m) *choice = m->choice;
    return st;
}

const FrontBinding *kernel_choice_config(const tile_kernel *k, int choice, int *n)
{
    const Choice *c = kernel_chosen(k, choice);
    *n = c->n;
    return c->config;
}

const Choice *kernel_chosen(const tile_kernel *k, int choice) { return choice_at(k->chooser, choice); }
