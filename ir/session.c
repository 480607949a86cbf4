/* session.c: see session.h. */
#define _GNU_SOURCE
#include "ir/session.h"
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

static void release(Session *s)
{
    while (s->deferred.len) {
        s->deferred.len--;
        s->deferred.data[s->deferred.len].fn(s->deferred.data[s->deferred.len].ptr);
    }
    s->diags = s->last_diag = NULL;
    s->types = NULL;
    s->sources.data = NULL;
    s->sources.len = s->sources.cap = 0;
    s->deferred.data = NULL;
    s->deferred.len = s->deferred.cap = 0;
    s->strings.data = NULL;
    s->strings.len = s->strings.cap = 0;
}

void session_free(Session *s)
{
    release(s);
    arena_free(&s->arena);
}

void session_renew(Session *s)
{
    release(s);
    arena_clear(&s->arena);
    Arena kept = s->arena;
    session_init(s, kept.alloc);
    s->arena.spare = kept.spare;
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
