/* test_async.c: tile_kernel_compile_async: a variant compiles in a thread of its own while launches go on.
 * Runs on the fake CUDA device. */
#include "api.h"
#include <pthread.h>
#include <sched.h>

static FakeState *fake;
static tile_context *ctx;

static void open_context(void)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    if (tile_context_create(&d, &ctx)) exit(1);
}

static void test_async(void)
{
    tile_kernel *k;
    tile_compile *h;
    static float x[64], y[64], z[64];
    open_context();
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    {
        int64_t n = 64; /* gone when the thread runs */
        tile_tensor t[3] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE },
            { z, &n, NULL, -1, TILE_NONE } };
        tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
        OK(ctx, tile_kernel_compile_async(k, a, 3, &h));
        n = -5;
        a[0] = tile_arg_int(1);
    }
    tile_kernel_destroy(k); /* the handle keeps it */
    tile_status st = tile_compile_poll(h);
    CU_ASSERT(st == TILE_PENDING || st == TILE_OK);
    OK(ctx, tile_compile_wait(h));
    OK(ctx, tile_compile_wait(h));
    OK(ctx, tile_compile_poll(h));
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CU_ASSERT_EQUAL(fake->launches, 0);
    tile_compile_destroy(h);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

/* The text of a failure is found by the thread that asks, whatever failed in it before. */
static void test_failure(void)
{
    static const char source[] = "kernel k(in f32 X[N], out f32 Y[N]) grid (1) {\n"
                                 "    assert(N < 3, \"too many\");\n"
                                 "    store(Y[0 +: N], load(X[0 +: N]));\n}\n";
    tile_kernel *k;
    tile_compile *h;
    static float x[4], y[4];
    int64_t n = 4;
    open_context();
    OK(ctx, kernel_of(ctx, source, "k", NULL, 0, &k));
    tile_tensor t[2] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 } };
    tile_arg a[2] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]) };
    CU_ASSERT_EQUAL(tile_launch(k, a, 1, NULL), TILE_ERROR_INVALID_ARGUMENT);
    OK(ctx, tile_kernel_compile_async(k, a, 2, &h));
    CU_ASSERT_EQUAL(tile_compile_wait(h), TILE_ERROR_COMPILE);
    CU_ASSERT_PTR_NOT_NULL(strstr(error_of(ctx), "too many"));
    tile_compile_destroy(h);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* While one variant compiles in its thread, launches of others, by any thread, go on; a launch of that one
 * waits for it, and it is compiled once. */
static atomic_int gate_reached, gate_open;

static void gate(void)
{
    atomic_store(&gate_reached, 1);
    while (!atomic_load(&gate_open)) sched_yield();
}

static void *launch_same(void *p)
{
    tile_arg *a = p;
    return (void *)(intptr_t)tile_launch((tile_kernel *)(uintptr_t)a[3].value.i, a, 3, NULL);
}

static void test_async_beside(void)
{
    tile_kernel *k;
    tile_compile *h;
    pthread_t thread;
    void *result;
    static _Alignas(256) float x[64], y[64], z[64];
    int64_t n = 64;
    tile_tensor t[3] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE },
        { z, &n, NULL, -1, TILE_NONE } };
    tile_arg a[4] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    open_context();
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, tile_launch(k, a, 3, NULL)); /* multiples of 16 are there */
    int64_t odd = 63;
    tile_tensor u[3] = { { x, &odd, NULL, -1, TILE_NONE }, { y, &odd, NULL, -1, TILE_NONE },
        { z, &odd, NULL, -1, TILE_NONE } };
    tile_arg b[4] = { tile_arg_tensor(&u[0]), tile_arg_tensor(&u[1]), tile_arg_tensor(&u[2]),
        tile_arg_int((int64_t)(uintptr_t)k) };
    atomic_store(&gate_reached, 0);
    atomic_store(&gate_open, 0);
    fake->on_compile = gate;
    OK(ctx, tile_kernel_compile_async(k, b, 3, &h));
    while (!atomic_load(&gate_reached)) sched_yield();
    CU_ASSERT_EQUAL(tile_compile_poll(h), TILE_PENDING);
    pthread_create(&thread, NULL, launch_same, b);
    for (int i = 0; i < 5; i++) OK(ctx, tile_launch(k, a, 3, NULL));
    CU_ASSERT_EQUAL(fake->launches, 6); /* the thread's waits */
    CU_ASSERT_EQUAL(tile_compile_poll(h), TILE_PENDING);
    atomic_store(&gate_open, 1);
    pthread_join(thread, &result);
    CU_ASSERT_PTR_NULL(result);
    OK(ctx, tile_compile_wait(h));
    CU_ASSERT_EQUAL(fake->launches, 7);
    CU_ASSERT_EQUAL(fake->compiles, 2);
    tile_compile_destroy(h);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

UNIT_MAIN(
    "async", { "async", test_async }, { "failure", test_failure }, { "async_beside", test_async_beside })
