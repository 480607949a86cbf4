/* report.c: what a context says: its last error, diagnostics of compilations, what kernels print, debugging
 * output, its device. */
#define _GNU_SOURCE
#include "runtime/context/context.h"
#include "ir/support/stack.h"
#include <stdio.h>

/* The last failure of this thread in each of the contexts in which it failed last, by serial number (0:
 * none). */
enum { OWN_ERRORS = 4 };
typedef struct OwnError {
    uint64_t context, when;
    char text[CONTEXT_MESSAGE];
} OwnError;
static __thread OwnError own_errors[OWN_ERRORS];
static __thread uint64_t own_failures; /* counts them */

static OwnError *own_error(const tile_context *c)
{
    for (int i = 0; i < OWN_ERRORS; i++)
        if (own_errors[i].context == c->serial) return &own_errors[i];
    return NULL;
}

static OwnError *oldest_error(void)
{
    OwnError *oldest = own_errors;
    for (int i = 1; i < OWN_ERRORS; i++)
        if (own_errors[i].when < oldest->when) oldest = &own_errors[i];
    return oldest;
}

tile_status context_fail(tile_context *c, tile_status st, const char *fmt, ...)
{
    char text[CONTEXT_MESSAGE];
    va_list ap;
    va_start(ap, fmt);
    format_args(text, sizeof text, fmt, ap);
    va_end(ap);
    OwnError *own = own_error(c);
    if (!own) own = oldest_error();
    memcpy(own->text, text, sizeof text);
    own->context = c->serial;
    own->when = ++own_failures;
    lock_enter(&c->lock);
    memcpy(c->error, text, sizeof text);
    lock_leave(&c->lock);
    return st;
}

/* "; launched last: attention<D=64>, silu", the newest first; "" without any. */
static void launched_last(tile_context *c, char *out, size_t room)
{
    size_t n = 0;
    *out = 0;
    lock_enter(&c->lock);
    unsigned at = atomic_load(&c->launched_at);
    for (unsigned i = 0; i < LAUNCHED; i++) {
        const char *title = atomic_load_explicit(&c->launched[(at - i) % LAUNCHED], memory_order_acquire);
        for (unsigned k = 0; k < i && title; k++)
            if (atomic_load(&c->launched[(at - k) % LAUNCHED]) == title) title = NULL;
        if (title && n < room)
            n += (size_t)format_text(out + n, room - n, "%s%s", n ? ", " : "; launched last: ", title);
    }
    lock_leave(&c->lock);
}

void context_forget(tile_context *c, const char *title)
{
    lock_enter(&c->lock);
    for (int i = 0; i < LAUNCHED; i++)
        if (atomic_load(&c->launched[i]) == title) atomic_store(&c->launched[i], NULL);
    lock_leave(&c->lock);
}

tile_status context_driver_fail(tile_context *c, tile_status st, const DriverError *e, const char *doing)
{
    char last[1000] = "";
    if (st == TILE_OK || st == TILE_PENDING) return st;
    if (st == TILE_ERROR_DEVICE_FAULT) launched_last(c, last, sizeof last);
    return context_fail(c, st, "%s%s%s%s", doing, *doing ? ": " : "", e->text, last);
}

tile_status context_on_stack(tile_context *c, void (*fn)(void *), void *p)
{
    char text[STACK_TEXT];
    return stack_call(fn, p) ? TILE_OK : context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "%s", stack_refused(text));
}

size_t tile_context_error(tile_context *c, char *buf, size_t size)
{
    if (size) buf[0] = 0;
    if (!c) return 0;
    const OwnError *own = own_error(c);
    if (own) {
        if (size) format_text(buf, size, "%s", own->text);
        return strlen(own->text);
    }
    lock_enter(&c->lock);
    size_t n = strlen(c->error);
    if (size) format_text(buf, size, "%s", c->error);
    lock_leave(&c->lock);
    return n;
}

static void give(tile_context *c, const tile_diagnostic *d)
{
    if (!c->on_diagnostic) return;
    lock_enter(&c->report_lock);
    c->on_diagnostic(c->on_diagnostic_user, d);
    lock_leave(&c->report_lock);
}

static void give_diag(tile_context *c, Session *s, const Diag *d, const char *kernel)
{
    static const tile_severity severities[] = { TILE_SEVERITY_ERROR, TILE_SEVERITY_WARNING,
        TILE_SEVERITY_PERFORMANCE, TILE_SEVERITY_NOTE };
    const Source *src = diag_source(s, d->loc.file);
    Diag alone = *d;
    Text rendered;
    alone.notes = NULL;
    text_init(&rendered, &s->arena);
    diag_render(s, &alone, &rendered);
    tile_diagnostic out = { .struct_size = sizeof out,
        .severity = severities[d->severity],
        .file = src ? src->name : "",
        .message = d->message,
        .rendered = rendered.data,
        .kernel = kernel ? kernel : "" };
    diag_position(s, d->loc, &out.line, &out.column);
    diag_position(s, (Loc){ d->loc.file, d->loc.end, d->loc.end }, &out.end_line, &out.end_column);
    give(c, &out);
    for (const Diag *n = d->notes; n; n = n->next) give_diag(c, s, n, kernel);
}

void context_report(tile_context *c, Session *s, const char *kernel)
{
    const Diag *first = NULL;
    for (const Diag *d = s->diags; d; d = d->next) {
        if (d->severity == SEV_ERROR && !first) first = d;
        if (c->on_diagnostic) give_diag(c, s, d, kernel);
    }
    if (!first) return;
    Text t;
    text_init(&t, &s->arena);
    diag_render(s, first, &t);
    if (s->n_errors > 1)
        text_printf(&t, "and %d more error%s\n", s->n_errors - 1, s->n_errors > 2 ? "s" : "");
    while (t.len && t.data[t.len - 1] == '\n') t.data[--t.len] = 0;
    context_fail(c, TILE_ERROR_COMPILE, "%s", t.data);
}

void context_print(tile_context *c, const char *line, const char *rendered, const char *kernel)
{
    give(c, &(tile_diagnostic){ .struct_size = sizeof(tile_diagnostic),
                .severity = TILE_SEVERITY_PRINT,
                .file = "",
                .message = line,
                .rendered = rendered,
                .kernel = kernel });
}

void context_debug(tile_context *c, const char *text, const char *kernel)
{
    size_t title = kernel ? strlen(kernel) : 0,
           n = title + strlen(text) + 4; /* emitted text has any length */
    char *rendered = context_alloc(c, n);
    if (rendered) format_text(rendered, n, "%s%s%s\n", kernel ? kernel : "", kernel ? ": " : "", text);
    give(c, &(tile_diagnostic){ .struct_size = sizeof(tile_diagnostic),
                .severity = TILE_SEVERITY_DEBUG,
                .file = "",
                .message = text,
                .rendered = rendered ? rendered : text,
                .kernel = kernel ? kernel : "" });
    if (rendered) context_free(c, rendered, n);
}

/* Whether the word is in the debug list "dump:cse,time". */
bool context_debug_has(const tile_context *c, const char *what)
{
    size_t n = strlen(what);
    for (const char *p = c->debug; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !memcmp(p, what, n)) return true;
    return false;
}

void context_dump(void *user, const char *pass, const char *text)
{
    tile_context *c = user;
    give(c, &(tile_diagnostic){ .struct_size = sizeof(tile_diagnostic),
                .severity = TILE_SEVERITY_DEBUG,
                .file = "",
                .message = pass,
                .rendered = text,
                .kernel = "" });
}

tile_status tile_context_device(tile_context *c, tile_device_info *info)
{
    if (!c) return TILE_ERROR_INVALID_ARGUMENT;
    if (!info || info->struct_size < sizeof(size_t))
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "tile_context_device: struct_size is not set");
    const DriverInfo *i = &c->driver->info;
    tile_device_info d = { .struct_size = info->struct_size,
        .device = i->dl,
        .multiprocessors = i->multiprocessors,
        .warp_size = i->warp,
        .memory_bytes = (uint64_t)i->memory_bytes,
        .l2_bytes = (uint64_t)i->l2_bytes,
        .shared_bytes = (uint64_t)i->shared_bytes,
        .clock_khz = i->clock_khz,
        .driver_version = i->version };
    memcpy(d.name, i->name, sizeof d.name);
    format_text(d.target, sizeof d.target, "%s", c->target->name);
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}
