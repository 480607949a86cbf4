/* compress.c: see compress.h. Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. The search
 * is greedy: it takes the last place where the next four bytes stood, and nothing longer is looked for. */
#include "tools/tilec/compile/compress.h"
#include <stdint.h>

enum {
    MIN_MATCH = 4,
    LAST_LITERALS = 5, /* of a block; the last match begins 12 bytes before its end or earlier */
    LAST_MATCH = 12,
    MAX_BACK = 65535,
    HASH_BITS = 15
};

static uint32_t word_at(const unsigned char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static uint32_t hash(uint32_t w) { return w * 2654435761u >> (32 - HASH_BITS); }

static void put_length(Text *t, size_t n)
{
    for (; n >= 255; n -= 255) text_putc(t, (char)255);
    text_putc(t, (char)n);
}

/* Literals, then a match of `n` bytes; n = 0: the block ends. */
static void put_sequence(Text *t, const unsigned char *literals, size_t count, size_t back, size_t n)
{
    size_t rest = n ? n - MIN_MATCH : 0;
    text_putc(t, (char)((count < 15 ? count : 15) << 4 | (rest < 15 ? rest : 15)));
    if (count >= 15) put_length(t, count - 15);
    text_write(t, (const char *)literals, count);
    if (!n) return;
    text_putc(t, (char)(back & 255));
    text_putc(t, (char)(back >> 8));
    if (rest >= 15) put_length(t, rest - 15);
}

const void *compress_lz4(Arena *a, const void *bytes, size_t size, size_t *packed)
{
    const unsigned char *p = bytes;
    uint32_t *last = arena_array(a, uint32_t, 1 << HASH_BITS); /* the place behind it; 0: none */
    size_t at = 0, done = 0;
    Text t;
    text_init(&t, a);
    while (at + LAST_MATCH <= size) {
        uint32_t w = word_at(p + at), *slot = &last[hash(w)];
        size_t from = *slot, n = 0;
        *slot = (uint32_t)at + 1;
        if (from && at - (from - 1) <= MAX_BACK && word_at(p + from - 1) == w)
            for (n = MIN_MATCH; at + n < size - LAST_LITERALS && p[from - 1 + n] == p[at + n];) n++;
        if (!n) {
            at++;
            continue;
        }
        put_sequence(&t, p + done, at - done, at - (from - 1), n);
        at += n;
        done = at;
    }
    put_sequence(&t, p + done, size - done, 0, 0);
    *packed = t.len;
    return t.data;
}
