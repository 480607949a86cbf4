/* tune_write.c: a tuning's best configuration into a table. The file is read, the entry put in, and the whole
 * appears by rename; two tuners at a time lose one entry at worst, never the file. */
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
           same_items(a->key, a->n_key, b->key, b->n_key);
}

/* Texts of a table have no escapes. */
static const char *plain(Session *s, const char *text)
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
        if (v.kind == FRONT_TYPE) text_putc(out, '"');
        frontend_print_value(v, out);
        if (v.kind == FRONT_TYPE) text_putc(out, '"');
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
    if (*e->note) text_printf(out, ", \"note\": \"%s\"", e->note);
    text_printf(out, " }%s\n", last ? "" : ",");
}

static void write_table(Text *out, const TuneFile *old, const TuneEntry *mine)
{
    bool replaced = false;
    text_puts(out, "{ \"format\": \"tile-tune-1\",\n  \"entries\": [\n");
    for (int i = 0; i < old->n; i++) {
        bool here = same_place(&old->entries[i], mine);
        if (here && replaced) continue;
        bool last = i == old->n - 1 && (replaced || here);
        write_entry(out, here ? mine : &old->entries[i], last);
        replaced |= here;
    }
    if (!replaced) write_entry(out, mine, true);
    text_puts(out, "  ] }\n");
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

static tile_status write_best(const tile_tune *t, Session *s, const char *path, const char *note)
{
    const Candidate *best = t->sorted[0];
    TuneItem *config = arena_array(&s->arena, TuneItem, (size_t)best->n_config + 1);
    for (int i = 0; i < best->n_config; i++)
        config[i] = (TuneItem){ best->config[i].name, best->config[i].value };
    TuneEntry mine = { .kernel = t->kernel->name,
        .target = t->context->target->name,
        .device = plain(s, t->context->driver->info.name),
        .note = plain(s, note),
        .key = t->key,
        .n_key = t->n_key,
        .config = config,
        .n_config = best->n_config,
        .ms = best->ms };
    TuneFile old;
    tile_status st = read_old(t->context, s, path, &old);
    if (st) return st;
    Text out;
    text_init(&out, &s->arena);
    write_table(&out, &old, &mine);
    return put_file(t->context, s, path, &out);
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
