/* diag.c: see diag.h. */
#include "ir/support/session.h"

uint32_t diag_add_source(Session *s, const char *name, const char *directory, const char *text, size_t len)
{
    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        len -= 3;
    } /* an editor's byte-order mark */
    if (s->sources.len == 0) vec_push(&s->arena, &s->sources, ((Source){ "", "", 0, NULL, 0, 0 }));
    Source src = { arena_strdup(&s->arena, name), arena_strndup(&s->arena, text, len), len,
        directory ? arena_strdup(&s->arena, directory) : NULL, 0, 0 };
    vec_push(&s->arena, &s->sources, src);
    return (uint32_t)s->sources.len - 1;
}

const Source *diag_source(Session *s, uint32_t file)
{ return file && file < s->sources.len ? &s->sources.data[file] : NULL; }

void diag_position(Session *s, Loc loc, int *line, int *column)
{
    *line = *column = 0;
    if (!diag_source(s, loc.file)) return;
    Source *src = &s->sources.data[loc.file];
    size_t at = loc.begin < src->len ? loc.begin : src->len;
    if (at < src->begins) src->begins = 0, src->before = 0;
    const char *from = src->text + src->begins, *end = src->text + at;
    for (const char *nl; (nl = memchr(from, '\n', (size_t)(end - from))); from = nl + 1) src->before++;
    src->begins = (size_t)(from - src->text);
    *line = src->before + 1;
    *column = (int)(end - from) + 1;
}

Loc loc_join(Loc a, Loc b)
{
    if (!a.file) return b;
    if (!b.file || a.file != b.file) return a;
    if (b.begin < a.begin) a.begin = b.begin;
    if (b.end > a.end) a.end = b.end;
    return a;
}

static Diag *make(Session *s, Severity sev, Loc loc, const char *fmt, va_list ap)
{
    Diag *d = arena_new(&s->arena, Diag);
    d->severity = sev;
    d->loc = loc;
    d->message = arena_vprintf(&s->arena, fmt, ap);
    return d;
}

/* Whether the session has this warning or performance note: each variant of a kernel is lowered again, and
 * says it again, and so does each copy of an unrolled loop. */
static bool is_repeated(const Session *s, const Diag *d)
{
    for (const Diag *e = s->diags; e; e = e->next)
        if (e->severity == d->severity && e->loc.file == d->loc.file && e->loc.begin == d->loc.begin &&
            e->loc.end == d->loc.end && !strcmp(e->message, d->message))
            return true;
    return false;
}

static Diag *add(Session *s, Severity sev, Loc loc, const char *fmt, va_list ap)
{
    if (sev == SEV_WARNING && s->warnings_as_errors) sev = SEV_ERROR;
    if (sev == SEV_ERROR && s->n_errors >= s->error_limit) return NULL;
    Diag *d = make(s, sev, loc, fmt, ap);
    if (sev != SEV_ERROR && is_repeated(s, d)) return NULL;
    if (s->last_diag) s->last_diag->next = d;
    else s->diags = d;
    s->last_diag = d;
    if (sev == SEV_ERROR) s->n_errors++;
    else if (sev == SEV_WARNING) s->n_warnings++;
    else s->n_perf++;
    if (s->on_diag) s->on_diag(s->on_diag_user, s, d);
    return d;
}

#define ADD(sev) \
    va_list ap; \
    va_start(ap, fmt); \
    Diag *d = add(s, (sev), loc, fmt, ap); \
    va_end(ap); \
    return d

Diag *diag_error(Session *s, Loc loc, const char *fmt, ...) { ADD(SEV_ERROR); }
Diag *diag_warning(Session *s, Loc loc, const char *fmt, ...) { ADD(SEV_WARNING); }
Diag *diag_perf(Session *s, Loc loc, const char *fmt, ...) { ADD(SEV_PERF); }

void diag_note(Session *s, Diag *to, Loc loc, const char *fmt, ...)
{
    if (!to) return;
    va_list ap;
    va_start(ap, fmt);
    Diag *n = make(s, SEV_NOTE, loc, fmt, ap), **at = &to->notes;
    va_end(ap);
    while (*at) at = &(*at)->next;
    *at = n;
}

bool diag_full(Session *s) { return s->n_errors >= s->error_limit; }

void diag_forget(Session *s, Diag *last, int errors)
{
    if (last) last->next = NULL;
    else s->diags = NULL;
    s->last_diag = last;
    s->n_errors = errors;
}

/* Whether it is a byte of UTF-8 after the first one of a character. */
static bool inside_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

static void caret_line(const Source *src, Loc loc, Text *out)
{
    size_t begin = loc.begin < src->len ? loc.begin : src->len, from = begin, to = begin;
    while (from > 0 && src->text[from - 1] != '\n') from--;
    while (to < src->len && src->text[to] != '\n' && src->text[to] != '\r') to++;
    /* Show only the part of a very long line around the position. */
    enum { AROUND = 160 };
    if (begin - from > AROUND) from = begin - AROUND;
    if (to - begin > AROUND) to = begin + AROUND;
    text_puts(out, "  ");
    for (size_t i = from; i < to; i++)
        text_putc(out, (unsigned char)src->text[i] < ' ' && src->text[i] != '\t' ? '?' : src->text[i]);
    text_puts(out, "\n  ");
    for (size_t i = from; i < begin; i++)
        if (!inside_character(src->text[i])) text_putc(out, src->text[i] == '\t' ? '\t' : ' ');
    text_putc(out, '^');
    for (size_t i = begin + 1; i < loc.end && i < to; i++)
        if (!inside_character(src->text[i])) text_putc(out, '~');
    text_putc(out, '\n');
}

void diag_render(Session *s, const Diag *d, Text *out)
{
    static const char *const names[] = { "error", "warning", "performance", "note" };
    const Source *src = diag_source(s, d->loc.file);
    int line, column;
    diag_position(s, d->loc, &line, &column);
    if (src) text_printf(out, "%s:%d:%d: ", src->name, line, column);
    text_printf(out, "%s: %s\n", names[d->severity], d->message);
    if (src) caret_line(src, d->loc, out);
    for (const Diag *n = d->notes; n; n = n->next) diag_render(s, n, out);
}

void diag_render_all(Session *s, Text *out)
{
    for (const Diag *d = s->diags; d; d = d->next) diag_render(s, d, out);
    if (diag_full(s)) text_printf(out, "error: too many errors, stopping after %d\n", s->error_limit);
}

int diag_distance(const char *a, size_t n, const char *b)
{
    enum { LONGEST = 32, FAR = 3 };
    size_t m = strlen(b);
    int d[LONGEST + 1][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return FAR;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        d[i][0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m] < FAR ? d[n][m] : FAR;
}
