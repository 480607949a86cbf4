/* session.c: see session.h. */
#define _GNU_SOURCE
#include "ir/support/session.h"
#include "ir/type.h"
#include <time.h>

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double clock_ms(void) { return (double)clock_ns() * 1e-6; }

void session_init(Session *s, Allocator alloc)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena, alloc, &s->oom);
    s->error_limit = 20;
}

static void run_deferred(Session *s, size_t until)
{
    while (s->deferred.len > until) {
        s->deferred.len--;
        s->deferred.data[s->deferred.len].fn(s->deferred.data[s->deferred.len].ptr);
    }
}

void session_free(Session *s)
{
    run_deferred(s, 0);
    s->diags = s->last_diag = NULL;
    s->types = NULL;
    s->sources = (SourceList){ 0 };
    s->deferred = (DeferredList){ 0 };
    s->strings = (StringTable){ 0 };
    memset(&s->kept, 0, sizeof s->kept);
    arena_free(&s->arena);
}

/* What follows goes into tables of its own, so that those that are kept stay as they are. */
static void copy_tables(Session *s)
{
    size_t bytes = s->kept.strings.cap * sizeof *s->strings.data;
    const char **strings = arena_alloc(&s->arena, bytes);
    if (bytes) memcpy(strings, s->kept.strings.data, bytes);
    s->types = type_table_copy(s, s->kept.types);
    s->strings = s->kept.strings;
    s->strings.data = strings;
}

void session_keep(Session *s)
{
    s->kept.sources = s->sources;
    s->kept.deferred = s->deferred;
    s->kept.strings = s->strings;
    s->kept.types = s->types;
    s->kept.diags = s->diags;
    s->kept.last_diag = s->last_diag;
    s->kept.n_errors = s->n_errors;
    s->kept.n_warnings = s->n_warnings;
    s->kept.n_perf = s->n_perf;
    arena_keep(&s->arena);
    copy_tables(s);
}

void session_renew(Session *s)
{
    run_deferred(s, s->kept.deferred.len);
    s->deferred = s->kept.deferred;
    s->sources = s->kept.sources;
    s->diags = s->kept.diags;
    s->last_diag = s->kept.last_diag;
    if (s->last_diag) s->last_diag->next = NULL;
    s->n_errors = s->kept.n_errors;
    s->n_warnings = s->kept.n_warnings;
    s->n_perf = s->kept.n_perf;
    arena_clear(&s->arena);
    copy_tables(s);
}

bool session_share(Session *s, const Session *from)
{
    if (s->strings.len || s->sources.len) return false;
    const size_t bytes = from->strings.cap * sizeof *from->strings.data;
    s->strings = from->strings;
    s->strings.data = arena_alloc(&s->arena, bytes);
    if (bytes) memcpy(s->strings.data, from->strings.data, bytes);
    for (size_t i = 0; i < from->sources.len; i++) vec_push(&s->arena, &s->sources, from->sources.data[i]);
    return true;
}

void session_defer(Session *s, void (*fn)(void *), void *ptr)
{
    jmp_buf *outer = s->arena.on_oom, full;
    /* There is no memory to record `ptr`, and nothing else would release it. */
    if (setjmp(full)) {
        s->arena.on_oom = outer;
        fn(ptr);
        arena_oom(&s->arena);
    }
    s->arena.on_oom = &full;
    vec_push(&s->arena, &s->deferred, ((__typeof__(*s->deferred.data)){ fn, ptr }));
    s->arena.on_oom = outer;
}

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 1099511628211ull;
    return h;
}

/* Open addressing; `strings.data` is the table (cap slots), `strings.len` the number of entries. */
const char *session_intern(Session *s, const char *str, size_t len)
{
    if (2 * (s->strings.len + 1) > s->strings.cap) {
        size_t old_cap = s->strings.cap, cap = old_cap ? 2 * old_cap : 128;
        const char **old = s->strings.data, **fresh = arena_array(&s->arena, const char *, cap);
        for (size_t i = 0; i < old_cap; i++) {
            if (!old[i]) continue;
            size_t h = hash_bytes(old[i], strlen(old[i])) & (cap - 1);
            while (fresh[h]) h = (h + 1) & (cap - 1);
            fresh[h] = old[i];
        }
        s->strings.data = fresh;
        s->strings.cap = cap;
    }
    size_t h = hash_bytes(str, len) & (s->strings.cap - 1);
    for (; s->strings.data[h]; h = (h + 1) & (s->strings.cap - 1))
        if (!strncmp(s->strings.data[h], str, len) && !s->strings.data[h][len]) return s->strings.data[h];
    s->strings.len++;
    return s->strings.data[h] = arena_strndup(&s->arena, str, len);
}
