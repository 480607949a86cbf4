/* tune_write.c: entries into a table: a tuning's best configuration, or what write_choices.c has. The file is
 * read, the entries put in, and the whole appears by rename; two writers at a time lose entries at worst,
 * never the file. */
#define _GNU_SOURCE
#include "runtime/tune/tuner.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool same_items(const TuneItem *a, int n, const TuneItem *b, int m)
{
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (int k = 0; k < m; k++)
            found |= !strcmp(a[i].name, b[k].name) && tune_same_value(&a[i].value, &b[k].value);
        if (!found) return false;
    }
    return n == m;
}

static bool same_place(const TuneEntry *a, const TuneEntry *b)
{
    return !strcmp(a->kernel, b->kernel) && !strcmp(a->target, b->target) && !strcmp(a->device, b->device) &&
           !strcmp(a->promises, b->promises) && same_items(a->key, a->n_key, b->key, b->n_key);
}

/* Texts of a table have no escapes. */
const char *tune_plain(Session *s, const char *text)
{
    char *copy = arena_strdup(&s->arena, text ? text : "");
    for (char *p = copy; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 32) *p = ' ';
    return copy;
}

/* Infinities and NaNs cannot be written, so an item that contains one is left out. */
static void write_items(Text *out, const TuneItem *items, int n)
{
    bool first = true;
    text_puts(out, "{");
    for (int i = 0; i < n; i++) {
        FrontValue v = items[i].value;
        if (v.kind == FRONT_FLOAT && !isfinite(v.f)) continue;
        text_printf(out, "%s \"%s\": ", first ? "" : ",", items[i].name);
        first = false;
        if (v.kind == FRONT_TYPE || v.kind == FRONT_TEXT) text_putc(out, '"');
        frontend_print_value(v, out);
        if (v.kind == FRONT_TYPE || v.kind == FRONT_TEXT) text_putc(out, '"');
    }
    text_puts(out, " }");
}

static void write_entry(Text *out, const TuneEntry *e, bool last)
{
    text_printf(out, "    { \"kernel\": \"%s\", \"target\": \"%s\",", e->kernel, e->target);
    if (*e->device) text_printf(out, " \"device\": \"%s\",", e->device);
    text_puts(out, " \"key\": ");
    write_items(out, e->key, e->n_key);
    text_puts(out, ",\n      \"config\": ");
    write_items(out, e->config, e->n_config);
    if (e->ms > 0) text_printf(out, ", \"ms\": %.6g", e->ms);
    if (*e->promises) text_printf(out, ", \"promises\": \"%s\"", e->promises);
    if (*e->note) text_printf(out, ", \"note\": \"%s\"", e->note);
    text_printf(out, " }%s\n", last ? "" : ",");
}

static void write_table(Text *out, const TuneEntry *entries, int n)
{
    text_puts(out, "{ \"format\": \"tile-tune-1\",\n  \"entries\": [\n");
    for (int i = 0; i < n; i++) write_entry(out, &entries[i], i == n - 1);
    text_puts(out, "  ] }\n");
}

/* The old entries with the new ones, each in the place of the one that it replaces or behind all of them. */
static int merge(Session *s, const TuneFile *old, const TuneEntry *mine, int n, const TuneEntry **out)
{
    TuneEntry *all = arena_array(&s->arena, TuneEntry, (size_t)(old->n + n) + 1);
    int total = 0;
    *out = all;
    for (int i = 0; i < old->n + n; i++) {
        const TuneEntry *e = i < old->n ? &old->entries[i] : &mine[i - old->n];
        int at = 0;
        while (at < total && !same_place(&all[at], e)) at++;
        all[at] = *e;
        total += at == total;
    }
    return total;
}

static tile_status read_old(tile_context *c, Session *s, const char *path, TuneFile *old)
{
    FILE *f = fopen(path, "rbe");
    size_t n = 0, cap = 1 << 16;
    *old = (TuneFile){ NULL, 0 };
    if (!f)
        return errno == ENOENT ? TILE_OK
                               : context_fail(c, TILE_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    char *text = arena_alloc(&s->arena, cap);
    for (size_t got; (got = fread(text + n, 1, cap - n, f)); n += got)
        if (n + got == cap) {
            text = arena_grow(&s->arena, text, cap, 2 * cap);
            cap *= 2;
        }
    bool bad = ferror(f);
    fclose(f);
    if (bad) return context_fail(c, TILE_ERROR_IO, "cannot read %s", path);
    if (!n || tune_parse(s, diag_add_source(s, path, NULL, text, n), old)) return TILE_OK;
    context_report(c, s, NULL);
    return TILE_ERROR_COMPILE;
}

static tile_status put_file(tile_context *c, Session *s, const char *path, const Text *text)
{
    char *temporary = NULL;
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0 && (!i || errno == EEXIST); i++) {
        temporary = arena_printf(&s->arena, "%s.new%ld-%d", path, (long)getpid(), i);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0) return context_fail(c, TILE_ERROR_IO, "cannot write beside %s: %s", path, strerror(errno));
    FILE *f = fdopen(fd, "wb");
    bool ok = f && fwrite(text->data, 1, text->len, f) == text->len;
    if (f) ok = fclose(f) == 0 && ok;
    else close(fd);
    ok = ok && !rename(temporary, path);
    if (ok) return TILE_OK;
    tile_status st = context_fail(c, TILE_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
    unlink(temporary);
    return st;
}

tile_status tune_put_entries(tile_context *c, Session *s, const char *path, const TuneEntry *mine, int n)
{
    TuneFile old;
    const TuneEntry *all;
    Text out;
    tile_status st = read_old(c, s, path, &old);
    if (st) return st;
    text_init(&out, &s->arena);
    int total = merge(s, &old, mine, n, &all);
    write_table(&out, all, total);
    return put_file(c, s, path, &out);
}

static tile_status write_best(const tile_tune *t, Session *s, const char *path, const char *note)
{
    const Candidate *best = t->sorted[0];
    TuneItem *config = arena_array(&s->arena, TuneItem, (size_t)best->n_config + 1);
    for (int i = 0; i < best->n_config; i++)
        config[i] = (TuneItem){ best->config[i].name, best->config[i].value };
    TuneEntry mine = { .kernel = t->kernel->name,
        .target = t->context->target->name,
        .device = tune_plain(s, t->context->driver->info.name),
        .note = tune_plain(s, note),
        .key = t->key,
        .n_key = t->n_key,
        .config = config,
        .n_config = best->n_config,
        .ms = best->ms,
        .promises = "" };
    return tune_put_entries(t->context, s, path, &mine, 1);
}

tile_status tile_tune_write(const tile_tune *t, const char *path, const char *note)
{
    FLOAT_STATE_DEFAULT();
    if (!t) return TILE_ERROR_INVALID_ARGUMENT;
    tile_context *c = t->context;
    if (!path) return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "tile_tune_write: path is NULL");
    if (!t->n || t->sorted[0]->state != TILE_TUNE_TIMED)
        return context_fail(c, TILE_ERROR_NOT_FOUND, "%s: no configuration was timed", t->kernel->title);
    Session s;
    session_init(&s, c->alloc);
    int jumped = setjmp(s.oom);
    tile_status st =
        jumped ? context_session_failed(c, &s, jumped, t->kernel->title) : write_best(t, &s, path, note);
    session_free(&s);
    return st;
}
