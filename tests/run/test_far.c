/* test_far.c: elements more than 2^31 elements from the first: every offset must be computed in 64 bits where
 * the extents need it.
 *
 *     test_far [cpu|cuda|hip]
 *
 * The tensors span 4 GB of addresses, of which the CPU touches a few pages. Exit status 77: no such device,
 * or not enough memory. */
#include "runtime/include/tile/tile.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77 };
static const int64_t FAR = ((int64_t)1 << 31) + 5;

static tile_context *context;
static int failures;

static bool expect(bool ok, const char *what)
{
    char text[400];
    tile_context_error(context, text, sizeof text);
    if (!ok) printf("FAIL: %s (last error: %s)\n", what, text), failures++;
    else printf("ok: %s\n", what);
    return ok;
}

static tile_kernel *load(const char *name)
{
    char path[400];
    tile_module *module;
    tile_kernel *kernel = NULL;
    tile_binding type = { .name = "T", .kind = TILE_BIND_TEXT, .value.text = "i8" };
    snprintf(path, sizeof path, "%s/%s.tile",
        getenv("TILE_TEST_KERNELS") ? getenv("TILE_TEST_KERNELS") : TILE_KERNELS, name);
    if (tile_module_load_file(context, path, NULL, &module) != TILE_OK) return NULL;
    tile_status status = tile_kernel_create(module, name, &type, 1, &kernel);
    tile_module_destroy(module);
    return status == TILE_OK ? kernel : NULL;
}

static void put(void *base, int64_t at, int8_t v) { tile_copy(context, (char *)base + at, &v, 1, NULL); }

static int8_t get(void *base, int64_t at)
{
    int8_t v = 0;
    tile_copy(context, &v, (char *)base + at, 1, NULL);
    tile_context_synchronize(context);
    return v;
}

/* Z[i] = X[i] + Y[i] for three elements that lie 2^31 + 5 apart in X and in Z. */
static void test_vector(void *far)
{
    const int64_t shape = 3, wide = FAR, near = 1;
    int8_t ys[3] = { 10, 20, 30 };
    void *y;
    tile_kernel *k = load("vector_add");
    if (!expect(k && tile_memory_alloc(context, TILE_MEMORY_DEVICE, 3, &y) == TILE_OK, "vector_add is there"))
        return;
    tile_copy(context, y, ys, 3, NULL);
    for (int i = 0; i < 3; i++) put(far, i * FAR, (int8_t)(i + 1)), put(far, i * FAR + 1, 99);
    tile_tensor x = { far, &shape, &wide, 1 }, t = { y, &shape, &near, 1 },
                z = { (char *)far + 1, &shape, &wide, 1 };
    tile_arg args[3] = { tile_arg_tensor(&x), tile_arg_tensor(&t), tile_arg_tensor(&z) };
    if (expect(tile_launch(k, args, 3, NULL) == TILE_OK, "vector_add over 2^32 elements launches"))
        expect(get(far, 1) == 11 && get(far, FAR + 1) == 22 && get(far, 2 * FAR + 1) == 33,
            "vector_add reads and writes beyond 2^31 elements");
    tile_kernel_destroy(k);
    tile_memory_free(context, TILE_MEMORY_DEVICE, y);
}

/* The first column of a matrix whose rows lie 2^31 + 5 apart. */
static void test_column(void *far)
{
    const int64_t shape[2] = { 3, 2 }, strides[2] = { FAR, 1 };
    void *y;
    tile_kernel *k = load("copy_first_column");
    if (!expect(k && tile_memory_alloc(context, TILE_MEMORY_DEVICE, 3, &y) == TILE_OK,
            "copy_first_column is there"))
        return;
    for (int i = 0; i < 3; i++) put(far, i * FAR, (int8_t)(5 * i + 1));
    tile_tensor x = { far, shape, strides, 2 }, z = { y, shape, NULL, 1 };
    tile_arg args[2] = { tile_arg_tensor(&x), tile_arg_tensor(&z) };
    if (expect(tile_launch(k, args, 2, NULL) == TILE_OK, "copy_first_column over 2^32 elements launches"))
        expect(get(y, 0) == 1 && get(y, 1) == 6 && get(y, 2) == 11,
            "copy_first_column reads beyond 2^31 elements");
    tile_kernel_destroy(k);
    tile_memory_free(context, TILE_MEMORY_DEVICE, y);
}

int main(int argc, char **argv)
{
    char why[400];
    void *far;
    tile_context_desc desc = {
        .struct_size = sizeof desc, .target = argc > 1 ? argv[1] : "cpu", .flags = TILE_CONTEXT_NO_CACHE
    };
    if (tile_context_create_error(&desc, &context, why, sizeof why) != TILE_OK)
        return printf("SKIP: %s\n", why), SKIP;
    if (tile_memory_alloc(context, TILE_MEMORY_DEVICE, (size_t)(2 * FAR + 64), &far) != TILE_OK) {
        tile_context_destroy(context);
        return printf("SKIP: no 4 GB of memory\n"), SKIP;
    }
    test_vector(far);
    test_column(far);
    tile_memory_free(context, TILE_MEMORY_DEVICE, far);
    tile_context_destroy(context);
    printf("far offsets: %d failed\n", failures);
    return failures > 0;
}
