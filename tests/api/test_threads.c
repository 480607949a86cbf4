/* test_threads.c: many threads on one context, one kernel, one cache; many contexts at once. Run under
 * ThreadSanitizer in CI. */
#include "api.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 16 };
static FakeState *fake;
static tile_context *ctx;
static tile_kernel *add;
static char cache[64];

static tile_status launch(tile_kernel *k, int64_t n, float *x, float *y, float *z)
{
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 },
        { z, &n, NULL, 1, TILE_F32 } };
    return tile_launch(
        k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3, NULL);
}

static void *shared_worker(void *arg)
{
    float *m = aligned_alloc(256, 3 * 8192 * sizeof *m);
    long bad = 0;
    for (int i = 0; i < 60; i++) {
        /* Odd and even, aligned and not: several threads need several variants at the same time. */
        int64_t n = 1 + (i * 37 + (int)(intptr_t)arg * 101) % 4096;
        bad += launch(add, n, m + i % 3, m + 8192, m + 16384) != TILE_OK;
        bad += launch(add, -1, m, m + 8192, m + 16384) != TILE_ERROR_SHAPE;
        char text[100];
        tile_context_error(ctx, text, sizeof text);
    }
    free(m);
    return (void *)(intptr_t)bad;
}

/* Each thread finds the text of its own failure, not that of the thread that failed last, also if it has
 * failed in another context since. */
static void *failing_worker(void *arg)
{
    int64_t i = (int64_t)(intptr_t)arg, n = 100 + i, other = 200 + i;
    static float x[400];
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { x, &other, NULL, 1, TILE_F32 },
        { x, &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    char want[100], text[300];
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    tile_context *own;
    tile_module *none;
    long bad = 0;
    if (tile_context_create(&d, &own) != TILE_OK) return (void *)(intptr_t)1;
    snprintf(want, sizeof want, "is %lld in X (axis 0) but %lld in Y", (long long)n, (long long)other);
    for (int k = 0; k < 200; k++) {
        bad += tile_launch(add, a, 3, NULL) != TILE_ERROR_SHAPE;
        bad += tile_module_load_file(own, "/no/such/file.tile", NULL, &none) != TILE_ERROR_IO;
        sched_yield();
        tile_context_error(ctx, text, sizeof text);
        bad += !strstr(text, want);
        tile_context_error(own, text, sizeof text);
        bad += !strstr(text, "/no/such/file.tile");
    }
    tile_context_destroy(own);
    return (void *)(intptr_t)bad;
}

static void *own_worker(void *arg)
{
    tile_context *c;
    tile_kernel *k;
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.flags = 0;
    d.cache_directory = cache;
    float *m = aligned_alloc(256, 3 * 8192 * sizeof *m);
    long bad = tile_context_create(&d, &c) != TILE_OK;
    bad += kernel_of(c, vector_add_text, "vector_add", NULL, 0, &k) != TILE_OK;
    for (int i = 0; i < 10; i++) bad += launch(k, 1000 + i, m, m + 8192, m + 16384) != TILE_OK;
    tile_kernel_destroy(k);
    tile_context_destroy(c);
    free(m);
    return (void *)(intptr_t)bad;
}

static void *create_worker(void *arg)
{
    tile_module *m = arg;
    tile_kernel *k;
    long bad = 0;
    for (int i = 0; i < 20; i++) {
        tile_binding b[] = { { "BLOCK", TILE_BIND_TEXT, { .text = i % 2 ? "512" : "256" } } };
        bad += tile_kernel_create(m, "vector_add", b, 1, &k) != TILE_OK;
        bad += strcmp(tile_module_kernel_name(m, 0), "vector_add") != 0;
        tile_kernel_destroy(k);
    }
    return (void *)(intptr_t)bad;
}

static void run_all(void *(*fn)(void *), void *same)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, fn, same ? same : (void *)(intptr_t)i)) exit(1);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        CU_ASSERT_PTR_NULL(bad);
    }
}

static void test_one_kernel(void)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    OK(ctx, tile_context_create(&d, &ctx));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
    run_all(shared_worker, NULL);
    CU_ASSERT_EQUAL(fake->launches, THREADS * 60);
    CU_ASSERT(fake->compiles <= 8); /* each variant once, whoever wanted it */
    tile_kernel_destroy(add);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

static void test_many_contexts(void)
{
    fake = fake_open(FAKE_CUDA);
    run_all(own_worker, NULL);
    CU_ASSERT_EQUAL(fake->launches, THREADS * 10);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

static void test_one_module(void)
{
    tile_module *m;
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    OK(ctx, tile_context_create(&d, &ctx));
    OK(ctx, tile_module_load_memory(ctx, "a.tile", vector_add_text, strlen(vector_add_text), NULL, &m));
    run_all(create_worker, m);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

/* On the CPU the results tell. */
static void *cpu_worker(void *arg)
{
    long bad = 0;
    int64_t n = 3000 + 17 * (int)(intptr_t)arg;
    float *x = aligned_alloc(64, 16384), *y = aligned_alloc(64, 16384), *z = aligned_alloc(64, 16384);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < n; k++) {
            x[k] = (float)(k + i);
            y[k] = (float)(2 * k);
            z[k] = -1;
        }
        bad += launch(add, n, x, y, z) != TILE_OK;
        for (int k = 0; k < n; k++) bad += z[k] != (float)(3 * k + i);
    }
    free(x);
    free(y);
    free(z);
    return (void *)(intptr_t)bad;
}

static void test_cpu(void)
{
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
#ifdef HAVE_CPU
    run_all(cpu_worker, NULL);
#endif
    run_all(failing_worker, NULL);
    char text[300];
    tile_context_error(ctx, text, sizeof text); /* this thread has not failed: the last failure of any */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "in X (axis 0) but "));
    tile_kernel_destroy(add);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    strcpy(cache, "/tmp/tile-threads-XXXXXX");
    if (!mkdtemp(cache)) return 1;
    static const UnitTest tests[] = { { "one_kernel", test_one_kernel },
        { "many_contexts", test_many_contexts }, { "one_module", test_one_module }, { "cpu", test_cpu } };
    int r = unit_run("threads", tests, 4, argc, argv);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command) || r;
}
