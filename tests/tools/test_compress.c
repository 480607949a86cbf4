/* test_compress.c: what tilec compresses, bundles read back; damaged blocks are refused. */
#include "tests/unit/unit.h"
#include "tools/aot/unpack.h"
#include "tools/tilec/compile/compress.h"
#include <stdlib.h>

static Arena arena;
static jmp_buf oom;

static void round_trip(const unsigned char *bytes, size_t n)
{
    size_t packed;
    const void *block = compress_lz4(&arena, bytes, n, &packed);
    unsigned char *back = malloc(n + 1);
    back[n] = 77;
    CU_ASSERT(unpack(block, packed, back, n));
    CU_ASSERT(!n || !memcmp(back, bytes, n));
    CU_ASSERT_EQUAL(back[n], 77);
    CU_ASSERT(!unpack(block, packed, back, n + 1));
    CU_ASSERT(packed <= n + n / 255 + 16);
    free(back);
}

static void test_round(void)
{
    static unsigned char bytes[70000 * 2];
    static uint32_t state = 1;
    arena_init(&arena, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    for (int kind = 0; kind < 4; kind++)
        for (size_t n = 0; n <= sizeof bytes; n += n < 300 ? 1 : 9973) {
            for (size_t i = 0; i < n; i++) {
                state = state * 1664525u + 1013904223u;
                bytes[i] = (unsigned char)(kind == 0   ? 0
                                           : kind == 1 ? state >> 24
                                           : kind == 2 ? i % 7 + (i % 1000 == 0)
                                                       : (state >> 30) + (i % 16));
            }
            round_trip(bytes, n);
        }
    size_t packed;
    memset(bytes, 5, sizeof bytes);
    compress_lz4(&arena, bytes, sizeof bytes, &packed);
    CU_ASSERT(packed < sizeof bytes / 200);
    arena_free(&arena);
}

/* A block of the format's description: a literal run, a match that overlaps itself, and the end. */
static void test_format(void)
{
    static const unsigned char block[] = { 0x34, 'a', 'b', 'c', 3, 0, 0x50, 'v', 'w', 'x', 'y', 'z' };
    char out[16];
    CU_ASSERT(unpack(block, sizeof block, out, 16));
    CU_ASSERT(!memcmp(out, "abcabcabcabvwxyz", 16));
}

/* Every byte set to each value: an answer, and nothing outside is read or written (a sanitizer watches). */
static void test_damage(void)
{
    static unsigned char bytes[600];
    size_t packed;
    arena_init(&arena, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i % 90 < 60 ? i % 11 : i * i);
    const void *block = compress_lz4(&arena, bytes, sizeof bytes, &packed);
    for (size_t at = 0; at < packed; at++)
        for (int v = 0; v < 256; v++) {
            unsigned char *copy = malloc(packed), *out = malloc(sizeof bytes);
            memcpy(copy, block, packed);
            copy[at] = (unsigned char)v;
            unpack(copy, packed, out, sizeof bytes);
            unsigned char *cut = malloc(at + 1); /* what is behind the end is behind the allocation */
            memcpy(cut + 1, copy, at);
            unpack(cut + 1, at, out, sizeof bytes);
            free(cut);
            free(copy);
            free(out);
        }
    CU_ASSERT(!unpack(block, packed - 1, bytes, sizeof bytes));
    arena_free(&arena);
}

UNIT_MAIN("pack", { "round", test_round }, { "format", test_format }, { "damage", test_damage })
