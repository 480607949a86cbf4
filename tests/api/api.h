/* api.h: what the tests of libtile share: contexts over the fake drivers, kernels from text, a counting
 * allocator. */
#pragma once
#include "fake_gpu.h"
#include "tests/unit/unit.h"
#include "tile/tile.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Counts what is live and fails the nth call when asked. */
typedef struct Counter {
    atomic_long live, calls, fail_at;
} Counter;

static inline void *counter_realloc(void *user, void *p, size_t old, size_t n)
{
    Counter *c = user;
    if (n == 0) {
        if (p) atomic_fetch_sub(&c->live, (long)old);
        free(p);
        return NULL;
    }
    long call = atomic_fetch_add(&c->calls, 1) + 1, fail = atomic_load(&c->fail_at);
    if (fail && call == fail) return NULL;
    void *q = realloc(p, n);
    if (q) atomic_fetch_add(&c->live, (long)n - (long)(p ? old : 0));
    return q;
}

static inline int by_number(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Whether no number is there twice; sorts them. */
static inline bool all_differ(uint64_t *numbers, size_t n)
{
    qsort(numbers, n, sizeof *numbers, by_number);
    for (size_t i = 1; i < n; i++)
        if (numbers[i] == numbers[i - 1]) return false;
    return true;
}

static inline FakeState *fake_open(const char *path)
{
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    FakeStateFn *fn = h ? (FakeStateFn *)(uintptr_t)dlsym(h, "fake_state") : NULL;
    if (!fn) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    FakeState *s = fn();
    *s = (FakeState){ .arch = 90, .devices = 1 };
    return s;
}

static inline tile_context_desc fake_desc(const char *target, const char *library)
{
    return (tile_context_desc){ .struct_size = sizeof(tile_context_desc),
        .target = target,
        .driver_library = library,
        .compiler_library = library,
        .flags = TILE_CONTEXT_NO_CACHE };
}

static inline const char *error_of(tile_context *c)
{
    static __thread char text[4096];
    tile_context_error(c, text, sizeof text);
    return text;
}

/* An assertion that shows the text when it fails. */
#define CHECK_TEXT(have, part) \
    do { \
        const char *have_ = (have); \
        if (!strstr(have_, (part))) { \
            fprintf(stderr, "%s:%d: \"%s\" is not in \"%s\"\n", __FILE__, __LINE__, (part), have_); \
            CU_FAIL("text"); \
        } \
    } while (0)
#define CHECK_STATUS(ctx, call, want) \
    do { \
        tile_status st_ = (call); \
        if (st_ != (want)) { \
            fprintf(stderr, "%s:%d: %s, not %s: %s\n", __FILE__, __LINE__, tile_status_name(st_), \
                tile_status_name(want), error_of(ctx)); \
            CU_FAIL("status"); \
        } \
    } while (0)
#define OK(ctx, call) CHECK_STATUS(ctx, call, TILE_OK)

static const char vector_add_text[] =
    "kernel vector_add(in T X[N], in T Y[N], out T Z[N], const type T = f32, const int BLOCK = 1024)\n"
    "    grid (cdiv(N, BLOCK))\n"
    "{\n"
    "    let i = program_id();\n"
    "    let x = load(X[i*BLOCK +: BLOCK]);\n"
    "    let y = load(Y[i*BLOCK +: BLOCK]);\n"
    "    store(Z[i*BLOCK +: BLOCK], x + y);\n"
    "}\n";

static inline tile_status kernel_of(
    tile_context *c, const char *text, const char *name, const tile_binding *b, size_t n, tile_kernel **out)
{
    tile_module *m;
    tile_status st = tile_module_load_memory(c, "test.tile", text, strlen(text), NULL, &m);
    if (st) return st;
    st = tile_kernel_create(m, name, b, n, out);
    tile_module_destroy(m); /* the kernel keeps it */
    return st;
}
