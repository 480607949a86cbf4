/* choice_file.c: choices in the disk cache, so that another process need not search. An entry has a line with
 * the estimate in picoseconds and the time that each spilled byte adds to it in attoseconds, and then a line
 * NAME KIND VALUE for each name of the configuration. The same lines follow for each configuration that may
 * be taken instead; the first of them begins with "else". */
#include "runtime/choice/chooser.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_NAMES = 64 };
static const char other[] = "else ";

static const char magic[] = "tile-choice-3\n";

void chooser_key_device(const tile_kernel *k, Text *t)
{
    const DriverInfo *d = &k->context->driver->info;
    int64_t device[4] = { d->multiprocessors, d->shared_bytes, d->l2_bytes, context_has_scratch(k->context) };
    text_write(t, (const char *)device, sizeof device);
}

CacheKey chooser_key(tile_kernel *k, Session *s, const uint64_t *words, size_t n)
{
    Text t;
    tile_context *c = k->context;
    uint32_t declared = c->flags & TILE_CONTEXT_AS_DECLARED;
    text_init(&t, &s->arena);
    cache_key_text(&t, magic);
    cache_key_text(&t, context_key(c));
    chooser_key_device(k, &t);
    text_write(&t, (const char *)&declared, sizeof declared);
    text_write(&t, (const char *)k->module->digest, sizeof k->module->digest);
    cache_key_text(&t, k->title);
    kernel_key_passes(k, &t);
    text_write(&t, (const char *)words, n * sizeof *words);
    return cache_key(t.data, t.len);
}

/* Reads "NAME KIND VALUE" lines up to the end or to a configuration that may be taken instead. */
static bool read_names(Session *s, char **text, FrontBinding *config, int *count)
{
    char *at = *text;
    int n = 0;
    for (; *at && strncmp(at, other, sizeof other - 1); n++) {
        size_t len = strcspn(at, " \n");
        char *end;
        if (n == MOST_NAMES || !len || len > 256 || at[len] != ' ') return false;
        config[n].name = session_intern(s, at, len);
        int kind = (int)strtol(at + len, &end, 10);
        if (*end != ' ' || (kind != FRONT_INT && kind != FRONT_BOOL)) return false;
        long long v = strtoll(end, &end, 10);
        if (*end != '\n') return false;
        config[n].value = kind == FRONT_INT ? (FrontValue){ FRONT_INT, { .i = v } }
                                            : (FrontValue){ FRONT_BOOL, { .b = v != 0 } };
        at = end + 1;
    }
    *count = n;
    *text = at;
    return true;
}

static bool read_estimate(char **text, double *ns, double *spilled)
{
    *ns = (double)strtoll(*text, text, 10) * 1e-3;
    if (*(*text)++ != ' ') return false;
    *spilled = (double)strtoll(*text, text, 10) * 1e-9;
    return *(*text)++ == '\n';
}

static bool read_all_of(Session *s, char *at, Choice *c)
{
    FrontBinding *config = arena_array(&s->arena, FrontBinding, MOST_NAMES);
    c->config = config;
    if (!read_estimate(&at, &c->ns, &c->spilled) || !read_names(s, &at, config, &c->n)) return false;
    while (*at && c->n_others < SEARCH_OTHERS) {
        SearchOther *o = &c->other[c->n_others++];
        o->config = config = arena_array(&s->arena, FrontBinding, MOST_NAMES);
        at += sizeof other - 1;
        if (!read_estimate(&at, &o->ns, &o->spilled) || !read_names(s, &at, config, &o->n)) return false;
    }
    return !*at;
}

bool chooser_read(tile_kernel *k, Session *s, const CacheKey *key, int *choice, double *ns)
{
    const void *bytes;
    size_t size;
    Choice c = { 0 };
    if ((k->context->flags & TILE_CONTEXT_NO_CACHE) ||
        !cache_read(&k->context->cache, key, &s->arena, &bytes, &size))
        return false;
    char *text = arena_strndup(&s->arena, bytes, size);
    if (strncmp(text, magic, sizeof magic - 1) || !read_all_of(s, text + sizeof magic - 1, &c)) return false;
    *ns = c.ns;
    *choice = c.n ? chooser_add(k, &c) : 0;
    return true;
}

static void write_config(Text *t, double ns, double spilled, const FrontBinding *config, int n)
{
    text_printf(t, "%lld %lld\n", (long long)(ns * 1e3), (long long)(spilled * 1e9));
    for (int i = 0; i < n; i++)
        text_printf(t, "%s %d %lld\n", config[i].name, (int)config[i].value.kind,
            (long long)(config[i].value.kind == FRONT_BOOL ? config[i].value.b : config[i].value.i));
}

void chooser_write(tile_kernel *k, Session *s, const CacheKey *key, const Choice *c)
{
    Text t;
    if (k->context->flags & TILE_CONTEXT_NO_CACHE) return;
    text_init(&t, &s->arena);
    text_puts(&t, magic);
    write_config(&t, c->ns, c->spilled, c->config, c->n);
    for (int i = 0; i < c->n_others; i++) {
        const SearchOther *o = &c->other[i];
        text_puts(&t, other);
        write_config(&t, o->ns, o->spilled, o->config, o->n);
    }
    cache_write(&k->context->cache, key, t.data, t.len);
}
