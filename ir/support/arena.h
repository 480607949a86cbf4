/* arena.h: region allocator. Everything the compiler builds lives in arenas and is freed with them.
 *
 * Allocation never returns NULL to its caller: when the underlying allocator fails, the arena longjmps to the
 * recovery point of its owner (session.h), whose arenas are then freed as a whole. */
#pragma once
#include "ir/support/format.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The caller's allocator: `realloc(user, NULL, 0, n)` allocates, `realloc(user, p, old, 0)` frees (and
 * returns NULL). */
typedef struct Allocator {
    void *(*realloc)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
    /* The bytes that an arena allocates at a time; 0: 64 KiB. Tests choose a small number, so that nearly
     * every allocation calls `realloc`. */
    size_t chunk;
} Allocator;

extern const Allocator allocator_libc;

/* A build with an address sanitizer leaves a gap behind everything that an arena hands out, which nobody may
 * read or write, so that an index beyond the end of an array, or into one of no elements, is found. */
#if defined(__SANITIZE_ADDRESS__)
enum { ARENA_GAPS = 1 };
#elif defined(__has_feature)
enum { ARENA_GAPS = __has_feature(address_sanitizer) };
#else
enum { ARENA_GAPS = 0 };
#endif

typedef struct ArenaChunk ArenaChunk;
typedef struct Arena Arena;
struct Arena {
    Allocator alloc;
    /* The recovery point of a failed allocation; it must be set before the first allocation. */
    jmp_buf *on_oom;
    ArenaChunk *chunk, *kept; /* kept: arena_keep */
    ArenaChunk *shared;       /* in `chunk`: its first bytes are kept too; NULL: no chunk is shared so */
    size_t used, total;       /* bytes handed out; bytes held, without spare chunks */
    ArenaChunk *spare;        /* empty chunks of the usual size */
    struct LayoutMemo *plans; /* of conversions that earlier users found, or NULL: see layout_memo.h */
    Arena *keeper;            /* whose spare chunks this arena uses: its own, or those of another one */
};

void arena_init(Arena *, Allocator, jmp_buf *on_oom);
/* An arena with the allocator and the recovery point of `keeper`, whose spare chunks it shares. It is freed
 * before `keeper` is. */
void arena_init_within(Arena *, Arena *keeper);
void arena_free(Arena *);
/* Frees everything that was handed out, and keeps chunks for later allocations, so that the system does not
 * have to clear the same memory again and again. Gives all of it back in a build with an address sanitizer,
 * and if the allocator chooses the size of chunks: both look for uses of freed memory. */
void arena_clear(Arena *);
/* What was handed out until now is freed by arena_free alone. It may be called again, which keeps more. */
void arena_keep(Arena *);
/* `bytes` of zeroed memory, aligned to 16. */
void *arena_alloc(Arena *, size_t bytes);
/* n * size with an overflow check (overflow counts as out of memory). */
void *arena_calloc(Arena *, size_t n, size_t size);
/* Grows an array allocated here: copies `old` bytes into a fresh block of `bytes`. */
void *arena_grow(Arena *, const void *p, size_t old, size_t bytes);
char *arena_strndup(Arena *, const char *, size_t n);
char *arena_strdup(Arena *, const char *);
char *arena_printf(Arena *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *, const char *fmt, va_list);
_Noreturn void arena_oom(Arena *);

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_calloc((a), (n), sizeof(T)))

/* Vec: a growable array in an arena.  VEC(int) v = {0}; vec_push(arena, &v, 3); v.data[i], v.len */
#define VEC(T) \
    struct { \
        T *data; \
        size_t len, cap; \
    }
#define vec_push(a, v, x) \
    ((v)->len == (v)->cap ? (void)((v)->data = arena_grow((a), (v)->data, (v)->len * sizeof *(v)->data, \
                                       VEC_NEXT((v)->cap) * sizeof *(v)->data), \
                                (v)->cap = VEC_NEXT((v)->cap)) \
                          : (void)0, \
        (void)((v)->data[(v)->len++] = (x)))
#define VEC_NEXT(cap) \
    ((cap) ? 2 * (cap) \
           : 8) /* The capacity changes after the allocation, because the allocation may jump away. */

/* Text buffer in an arena; always NUL-terminated once written to. A sink takes what is written and stays
 * empty. */
typedef struct Text {
    Arena *arena;
    char *data;
    size_t len, cap;
    bool sink;
} Text;
void text_init(Text *, Arena *);
void text_sink(Text *, Arena *);
void text_printf(Text *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(Text *, const char *fmt, va_list);
void text_write(Text *, const char *, size_t n);
void text_puts(Text *, const char *);
void text_putc(Text *, char);
