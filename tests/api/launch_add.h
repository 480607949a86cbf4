/* launch_add.h: a kernel that adds vectors, on a fake CUDA device: for tests of launches. */
#pragma once
#include "api.h"

static FakeState *fake;
static tile_context *ctx;
static tile_kernel *add;

static void open_add(void)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    char why[400] = "";
    tile_status st = tile_context_create_error(&d, &ctx, why, sizeof why);
    if (st) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
}

static void close_add(void)
{
    tile_kernel_destroy(add);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
}

static _Alignas(256) float buffer[3][4096];

static tile_status launch_add(int64_t n, const int64_t *stride, void *x, void *y, void *z, void *stream)
{
    tile_tensor t[3] = { { x, &n, stride, 1, TILE_F32 }, { y, &n, stride, -1, TILE_NONE },
        { z, &n, stride, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    return tile_launch(add, a, 3, &d);
}
