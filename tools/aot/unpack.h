/* unpack.h: the reader of compressed images of bundles, in the LZ4 block format. tilec copies the text
 * between the marks into every bundle, before gpu.c's; tests/tools/test_compress.c compares it with the
 * writer (tools/tilec/compile/compress.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
/* begin */
/* --- compressed images ------------------------------------------------------------------------------- */

/* A length of 15 goes on in further bytes, of which all but the last are 255. */
static size_t unpack_length(const unsigned char **p, const unsigned char *end, size_t length)
{
    unsigned char more = length == 15 ? 255 : 0;
    while (more == 255 && *p < end) length += more = *(*p)++;
    return length;
}

/* Reads an LZ4 block of `packed` bytes into exactly `size`. False: it is no such block. */
static bool unpack(const void *from, size_t packed, void *to, size_t size)
{
    const unsigned char *p = from, *end = p + packed;
    unsigned char *out = to;
    size_t at = 0;
    while (p < end) {
        unsigned token = *p++;
        size_t n = unpack_length(&p, end, token >> 4);
        if (n > (size_t)(end - p) || n > size - at) return false;
        memcpy(out + at, p, n);
        p += n;
        at += n;
        if (p == end) break; /* a block ends with literals */
        if (end - p < 2) return false;
        size_t back = (size_t)p[0] | (size_t)p[1] << 8;
        p += 2;
        n = unpack_length(&p, end, token & 15) + 4;
        if (back == 0 || back > at || n > size - at) return false;
        for (; n > 0; n--, at++) out[at] = out[at - back]; /* the two may overlap */
    }
    return at == size;
}
/* end */
