/* write_choices.c: the configurations that a kernel's launches took without a table, as entries of one
 * (tune.h). Each entry names all extents and holds the key of its launch in "promises", as hexadecimal words:
 * it speaks for that launch alone. Another version of the library may have other keys; the entry then speaks
 * for none. */
#include "runtime/choice/chooser.h"
#include "runtime/tune/tuner.h"

typedef struct Writing {
    tile_kernel *k;
    const char *path, *note;
    Session *s;
} Writing;

static const char *promises(Session *s, const uint64_t *words, int n)
{
    Text t;
    text_init(&t, &s->arena);
    for (int i = 0; i < n; i++) text_printf(&t, "%s%llx", i ? "." : "", (unsigned long long)words[i]);
    return t.data;
}

/* The chosen configuration, or the one that the launch's variant has instead (runtime/launch/making.h). */
static const FrontBinding *config_of(const tile_kernel *k, const Chosen *m, int *n)
{
    const Choice *c = kernel_chosen(k, m->choice);
    uint64_t key[k->key_words];
    memcpy(key, m->words, sizeof key);
    key[0] |= (uint64_t)(k->n_rows + m->choice) << 8;
    const Variant *v = m->choice ? kernel_ready((tile_kernel *)k, key) : NULL;
    const int other = v ? v->other - 1 : -1;
    *n = other < 0 ? c->n : c->other[other].n;
    return other < 0 ? c->config : c->other[other].config;
}

static TuneEntry entry_of(const Writing *w, const Chosen *m, const FrontTune *f)
{
    const tile_kernel *k = w->k;
    Arena *a = &w->s->arena;
    TuneItem *key = arena_array(a, TuneItem, (size_t)(k->front->n_dims + k->front->n_params) + 1);
    TuneEntry e = { .kernel = k->name,
        .target = k->context->target->name,
        .device = tune_plain(w->s, k->context->driver->info.name),
        .note = tune_plain(w->s, w->note),
        .key = key,
        .promises = promises(w->s, m->words, k->key_words) };
    for (int d = 0; d < k->front->n_dims; d++) {
        int64_t extent = (int64_t)m->words[k->key_words + d]; /* -1: of tensors that are not given */
        if (extent >= 0) key[e.n_key++] = (TuneItem){ k->dims[d].name, { FRONT_INT, { .i = extent } } };
    }
    e.n_key += tune_const_key(k, f, w->s, key + e.n_key);
    const FrontBinding *config = config_of(k, m, &e.n_config);
    TuneItem *items = arena_array(a, TuneItem, (size_t)e.n_config + 1);
    for (int i = 0; i < e.n_config; i++) items[i] = (TuneItem){ config[i].name, config[i].value };
    e.config = items;
    return e;
}

/* The oldest choice comes first. */
static tile_status write_all(Session *s, void *p)
{
    Writing *w = p;
    tile_kernel *k = w->k;
    w->s = s;
    const FrontTune *f = frontend_tune(k->module->ast, k->name);
    lock_enter(&k->lock);
    const Chosen *last = k->chooser ? k->chooser->memos : NULL; /* those stay as long as the kernel */
    int n = k->chooser ? k->chooser->n_memos : 0, at = n;
    lock_leave(&k->lock);
    if (!last)
        return context_fail(k->context, TILE_ERROR_NOT_FOUND,
            "%s: no configuration was chosen: there was no launch, a table spoke of all of them, or there is "
            "nothing to choose",
            k->title);
    TuneEntry *entries = arena_array(&w->s->arena, TuneEntry, (size_t)n);
    for (const Chosen *m = last; m; m = m->older) entries[--at] = entry_of(w, m, f);
    return tune_put_entries(k->context, w->s, w->path, entries, n);
}

tile_status tile_kernel_write_choices(tile_kernel *k, const char *path, const char *note)
{
    FLOAT_STATE_DEFAULT();
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!path)
        return context_fail(
            k->context, TILE_ERROR_INVALID_ARGUMENT, "tile_kernel_write_choices: path is NULL");
    return context_in_session(k->context, k->title, write_all, &(Writing){ k, path, note, NULL });
}
