/* arena.c: see arena.h. */
#include "ir/support/arena.h"
#include <stdio.h>
#include <stdlib.h>

/* Of the sanitizer's library, with which only a build with ARENA_GAPS is linked. */
void __asan_poison_memory_region(const volatile void *, size_t);
void __asan_unpoison_memory_region(const volatile void *, size_t);

/* Bytes from `used` to `clean` are zero. kept: of Arena.shared, the bytes that outlive arena_clear. */
struct ArenaChunk {
    ArenaChunk *next;
    size_t size, used, clean, kept;
};
enum {
    CLEAN_AHEAD = 1024
}; /* bytes, so that few allocations clear memory, which is then still in the cache */
enum { GAP = ARENA_GAPS ? 16 : 0 };
enum { CHUNK = 64 * 1024, ALIGN = 16, HEAD = (sizeof(ArenaChunk) + ALIGN - 1) & ~(size_t)(ALIGN - 1) };

static void *libc_realloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

const Allocator allocator_libc = { libc_realloc, NULL, 0 };

void arena_init(Arena *a, Allocator alloc, jmp_buf *on_oom)
{ *a = (Arena){ .alloc = alloc, .on_oom = on_oom, .keeper = a }; }

void arena_init_within(Arena *a, Arena *keeper)
{
    *a = (Arena){
        .alloc = keeper->alloc, .on_oom = keeper->on_oom, .plans = keeper->plans, .keeper = keeper->keeper
    };
}

static void close_bytes(void *p, size_t n)
{
    if (ARENA_GAPS) __asan_poison_memory_region(p, n);
}

static void *open_bytes(void *p, size_t n)
{
    if (ARENA_GAPS) __asan_unpoison_memory_region(p, n);
    return p;
}

static void release(const Arena *a, ArenaChunk *c)
{
    open_bytes((char *)c + HEAD, c->size);
    a->alloc.realloc(a->alloc.user, c, HEAD + c->size, 0);
}

static void release_all(const Arena *a, ArenaChunk *first)
{
    for (ArenaChunk *c = first, *next; c; c = next) {
        next = c->next;
        release(a, c);
    }
}

void arena_free(Arena *a)
{
    release_all(a, a->chunk);
    release_all(a, a->kept);
    release_all(a, a->spare);
    a->chunk = a->shared = a->kept = a->spare = NULL;
    a->used = a->total = 0;
}

/* Whether the arena may hand out again what was handed out once. */
static bool reuses(const Arena *a) { return !ARENA_GAPS && !a->alloc.chunk; }

/* What follows is taken from the rest of the newest chunk. */
void arena_keep(Arena *a)
{
    ArenaChunk *shared = reuses(a) && a->chunk && a->chunk->size == CHUNK ? a->chunk : NULL;
    ArenaChunk *whole = shared ? shared->next : a->chunk, *last = whole;
    while (last && last->next) last = last->next;
    if (last) {
        last->next = a->kept;
        a->kept = whole;
    }
    if (shared) {
        shared->next = NULL;
        shared->kept = shared->used;
    }
    a->chunk = a->shared = shared;
}

void arena_clear(Arena *a)
{
    for (ArenaChunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        if (c == a->shared) {
            c->used = c->clean = c->kept;
        } else if (reuses(a) && c->size == CHUNK) {
            c->next = a->keeper->spare;
            a->keeper->spare = c;
        } else release(a, c);
    }
    if (a->shared) a->shared->next = NULL;
    a->chunk = a->shared;
    a->used = a->total = 0;
}

_Noreturn void arena_oom(Arena *a) { longjmp(*a->on_oom, 1); }

static ArenaChunk *fresh_chunk(Arena *a, size_t size)
{
    ArenaChunk *c = a->keeper->spare;
    if (!c || size != c->size) return a->alloc.realloc(a->alloc.user, NULL, 0, HEAD + size);
    a->keeper->spare = c->next;
    return c;
}

static void *take_clean(Arena *a, ArenaChunk *c, size_t bytes)
{
    void *p = (char *)c + HEAD + c->used;
    c->used += bytes;
    a->used += bytes;
    return p;
}

/* The same where clean bytes do not suffice. */
static void *take_more(Arena *a, size_t bytes)
{
    ArenaChunk *c = a->chunk;
    if (!c || c->size - c->used < bytes) {
        size_t chunk = a->alloc.chunk ? a->alloc.chunk : CHUNK, size = bytes > chunk / 4 ? bytes : chunk;
        ArenaChunk *fresh = fresh_chunk(a, size);
        if (!fresh) arena_oom(a);
        fresh->size = size;
        fresh->used = fresh->clean = 0;
        close_bytes((char *)fresh + HEAD, size);
        a->total += size;
        if (c && size != chunk) { /* Put a large block after the current chunk, which still has room. */
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            a->chunk = fresh;
        }
        c = fresh;
    }
    size_t end = c->size - c->used - bytes > CLEAN_AHEAD ? c->used + bytes + CLEAN_AHEAD : c->size;
    memset(open_bytes((char *)c + HEAD + c->clean, end - c->clean), 0, end - c->clean);
    close_bytes((char *)c + HEAD + c->clean, end - c->clean);
    c->clean = end;
    return take_clean(a, c, bytes);
}

/* Bytes that are zero. */
static inline void *take(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) arena_oom(a);
    const size_t room = ((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + GAP;
    ArenaChunk *c = a->chunk;
    return open_bytes(c && c->clean - c->used >= room ? take_clean(a, c, room) : take_more(a, room), bytes);
}

void *arena_alloc(Arena *a, size_t bytes) { return take(a, bytes); }

void *arena_calloc(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) arena_oom(a);
    return arena_alloc(a, bytes);
}

void *arena_grow(Arena *a, const void *p, size_t old, size_t bytes)
{
    char *q = take(a, bytes);
    if (old) memcpy(q, p, old);
    return q;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = take(a, n + 1);
    if (n) memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    char small[128];
    va_list again;
    va_copy(again, ap);
    int n = format_args(small, sizeof small, fmt, ap);
    char *p = take(a, (size_t)n + 1);
    if (n >= (int)sizeof small) format_args(p, (size_t)n + 1, fmt, again);
    else memcpy(p, small, (size_t)n + 1);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

void text_init(Text *t, Arena *a)
{
    *t = (Text){ .arena = a };
    text_write(t, "", 0);
}

void text_sink(Text *t, Arena *a)
{
    text_init(t, a);
    t->sink = true;
}

void text_write(Text *t, const char *s, size_t n)
{
    if (t->sink) return;
    if (t->cap - t->len < n + 1) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        while (cap - t->len < n + 1) cap *= 2;
        t->data = arena_grow(t->arena, t->data, t->len, cap);
        t->cap = cap;
    }
    if (n) memcpy(t->data + t->len, s, n);
    t->len += n;
    t->data[t->len] = 0;
}

void text_puts(Text *t, const char *s) { text_write(t, s, strlen(s)); }
void text_putc(Text *t, char c) { text_write(t, &c, 1); }

void text_vprintf(Text *t, const char *fmt, va_list ap)
{
    char small[256];
    va_list again;
    if (t->sink) return;
    va_copy(again, ap);
    int n = format_args(small, sizeof small, fmt, ap);
    if (n >= 0 && (size_t)n < sizeof small) text_write(t, small, (size_t)n);
    else if (n > 0) {
        char *big = arena_alloc(t->arena, (size_t)n + 1);
        format_args(big, (size_t)n + 1, fmt, again);
        text_write(t, big, (size_t)n);
    }
    va_end(again);
}

void text_printf(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(t, fmt, ap);
    va_end(ap);
}
