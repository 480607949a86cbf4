/* cache.h: results on disk, one file an entry, found by the SHA-256 of everything that decides the content.
 */
#pragma once
#include "ir/support/session.h"

typedef struct Cache {
    Allocator alloc;
    char directory[1024]; /* "": none */
    uint64_t limit;
    void (*debug)(void *user, const char *text);
    void *debug_user; /* TILE_DEBUG=cache, or NULL */
} Cache;

typedef struct Sha256 {
    uint32_t h[8];
    uint64_t n;
    uint8_t block[64];
} Sha256;
void sha256_init(Sha256 *);
void sha256_add(Sha256 *, const void *, size_t);
void sha256_add_text(Sha256 *, const char *); /* with its terminator */
void sha256_end(Sha256 *, uint8_t out[32]);

/* Everything that decides an entry's content, and its hash. The first text of a key says what kind of entry
 * it is. */
typedef struct CacheKey {
    const char *bytes;
    size_t n;
    const char *suffix;
    uint8_t hash[32];
} CacheKey;
CacheKey cache_key(const char *bytes, size_t n);
/* The name of a small text file next to the entries, which is kept. */
CacheKey cache_note_key(const char *bytes, size_t n);
static inline void cache_key_text(Text *t, const char *s) { text_write(t, s, strlen(s) + 1); }
void cache_open(Cache *, Allocator, const char *directory, uint64_t limit);
/* Reads the bytes of the entry into the arena, or gives false. Marks the entry as used. */
bool cache_read(const Cache *, const CacheKey *, Arena *, const void **bytes, size_t *size);
/* The same for a short text, which ends with its terminator. */
bool cache_read_text(const Cache *, const CacheKey *, char *out, size_t room);
/* Writes an entry by rename and evicts the oldest ones beyond the limit. A failure is silent, because a cache
 * may be missing. */
void cache_write(const Cache *, const CacheKey *, const void *bytes, size_t size);
/* Removes an entry whose content the caller cannot use. */
void cache_drop(const Cache *, const CacheKey *);
