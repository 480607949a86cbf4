/* test_gpu.c: libtile on a real device, CUDA's or with --target=hip AMD's: results, streams and events, graph
 * capture, many threads, bad input, host time of a launch (beside a bare cuLaunchKernel), and on CUDA a
 * fault, which ROCm answers by ending the process. TILE_TEST_KERNELS names the folder of the examples where
 * it is not that of the build. Says SKIP (77) where there is no device. */
#include "gpu.h"
#include <pthread.h>
#include <time.h>

enum { SKIP = 77 };
tile_context *ctx;
tile_kernel *add;
void *driver;
bool hip;

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

Vectors make_vectors(int64_t n)
{
    Vectors v = { .n = n, .host = malloc((size_t)n * sizeof(float) + 1) };
    DLTensor **all[3] = { &v.x, &v.y, &v.z };
    for (int k = 0; k < 3; k++) {
        OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 1, &n, all[k]));
        for (int64_t i = 0; i < n; i++) v.host[i] = (float)(k == 0 ? i : k == 1 ? 2 * i : -1);
        OK(ctx, tile_copy(ctx, (*all[k])->data, v.host, (size_t)n * sizeof(float), NULL));
    }
    OK(ctx, tile_stream_synchronize(ctx, NULL));
    return v;
}

tile_status launch(const Vectors *v, void *stream)
{
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    return tile_launch(add,
        (tile_arg[]){ tile_arg_dltensor(v->x), tile_arg_dltensor(v->y), tile_arg_dltensor(v->z) }, 3, &d);
}

int64_t wrong(Vectors *v, void *stream)
{
    int64_t bad = 0;
    OK(ctx, tile_copy(ctx, v->host, v->z->data, (size_t)v->n * sizeof(float), stream));
    OK(ctx, tile_stream_synchronize(ctx, stream));
    for (int64_t i = 0; i < v->n; i++) bad += v->host[i] != (float)(3 * i);
    return bad;
}

void drop_vectors(Vectors *v)
{
    tile_tensor_destroy(ctx, v->x);
    tile_tensor_destroy(ctx, v->y);
    tile_tensor_destroy(ctx, v->z);
    free(v->host);
}

static void test_results(void)
{
    void *stream, *a, *b;
    double ms = -1;
    OK(ctx, tile_stream_create(ctx, &stream));
    OK(ctx, tile_event_create(ctx, &a));
    OK(ctx, tile_event_create(ctx, &b));
    static const int64_t sizes[] = { 1, 31, 1024, 1025, 100003, 1 << 22 };
    for (int i = 0; i < 6; i++) {
        Vectors v = make_vectors(sizes[i]);
        OK(ctx, tile_event_record(ctx, a, stream));
        OK(ctx, launch(&v, stream));
        OK(ctx, tile_event_record(ctx, b, stream));
        CU_ASSERT_EQUAL(wrong(&v, stream), 0);
        drop_vectors(&v);
    }
    OK(ctx, tile_event_synchronize(ctx, b));
    OK(ctx, tile_event_elapsed(ctx, a, b, &ms));
    CU_ASSERT(ms > 0 && ms < 1000);
    OK(ctx, tile_event_destroy(ctx, a));
    OK(ctx, tile_event_destroy(ctx, b));
    OK(ctx, tile_stream_destroy(ctx, stream));
}

/* One column of a matrix by a strided copy, to the host and back. */
static void test_column(void)
{
    DLTensor *m;
    float column[5], host[5][7];
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ 5, 7 }, &m));
    for (int i = 0; i < 35; i++) host[i / 7][i % 7] = (float)i;
    OK(ctx, tile_copy(ctx, m->data, host, sizeof host, NULL));
    OK(ctx, tile_copy_2d(ctx, column, 4, (char *)m->data + 3 * 4, 28, 4, 5, NULL));
    OK(ctx, tile_stream_synchronize(ctx, NULL));
    for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(column[i], 7 * i + 3);
    tile_tensor_destroy(ctx, m);
}

static void *worker(void *arg)
{
    void *stream;
    long bad = tile_stream_create(ctx, &stream) != TILE_OK;
    Vectors v = make_vectors(1000 + 16 * (int)(intptr_t)arg + (int)(intptr_t)arg % 3);
    for (int i = 0; i < 20; i++) bad += launch(&v, stream) != TILE_OK;
    bad += wrong(&v, stream) != 0;
    drop_vectors(&v);
    tile_stream_destroy(ctx, stream);
    return (void *)(intptr_t)bad;
}

static void test_threads(void)
{
    pthread_t t[16];
    for (int i = 0; i < 16; i++) pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
    for (int i = 0; i < 16; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        CU_ASSERT_PTR_NULL(bad);
    }
}

/* 16 threads, each with a kernel of its own to compile. */
static void *compiling_worker(void *arg)
{
    int self = (int)(intptr_t)arg;
    tile_kernel *k;
    tile_binding block[] = { { "BLOCK", TILE_BIND_INT, { .i = 64 << self % 5 } } };
    long bad = kernel_of(ctx, vector_add_text, "vector_add", block, 1, &k) != TILE_OK;
    Vectors v = make_vectors(5000 + self);
    tile_arg a[3] = { tile_arg_dltensor(v.x), tile_arg_dltensor(v.y), tile_arg_dltensor(v.z) };
    for (int i = 0; i < 5 && !bad; i++) bad += tile_launch(k, a, 3, NULL) != TILE_OK;
    bad += wrong(&v, NULL) != 0;
    drop_vectors(&v);
    tile_kernel_destroy(k);
    return (void *)(intptr_t)bad;
}

static void test_compiling_threads(void)
{
    pthread_t t[16];
    for (int i = 0; i < 16; i++) pthread_create(&t[i], NULL, compiling_worker, (void *)(intptr_t)i);
    for (int i = 0; i < 16; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        CU_ASSERT_PTR_NULL(bad);
    }
}

static void test_async(void)
{
    tile_kernel *k;
    tile_compile *h;
    tile_binding block[] = { { "BLOCK", TILE_BIND_INT, { .i = 96 } } };
    Vectors v = make_vectors(3000);
    tile_arg a[3] = { tile_arg_dltensor(v.x), tile_arg_dltensor(v.y), tile_arg_dltensor(v.z) };
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", block, 1, &k));
    OK(ctx, tile_kernel_compile_async(k, a, 3, &h));
    OK(ctx, launch(&v, NULL)); /* others go on meanwhile */
    OK(ctx, tile_compile_wait(h));
    tile_compile_destroy(h);
    double start = now_us();
    OK(ctx, tile_launch(k, a, 3, NULL));
    CU_ASSERT(now_us() - start < 5000); /* nothing is compiled any more */
    CU_ASSERT_EQUAL(wrong(&v, NULL), 0);
    drop_vectors(&v);
    tile_kernel_destroy(k);
}

static const char *kernels_folder(void)
{ return getenv("TILE_TEST_KERNELS") ? getenv("TILE_TEST_KERNELS") : TILE_KERNELS; }

bool open_attention(Attention *at)
{
    char path[600];
    int64_t shape[4] = { 2, 4, 512, 128 };
    tile_binding causal[] = { { "CAUSAL", TILE_BIND_BOOL, { .i = 1 } } };
    snprintf(path, sizeof path, "%s/attention.tile", kernels_folder());
    tile_status st = tile_module_load_file(ctx, path, NULL, &at->m);
    if (!st) st = tile_kernel_create(at->m, "attention", causal, 1, &at->k);
    if (st) {
        fprintf(stderr, "%s\n", error_of(ctx));
        CU_FAIL("attention");
        return false;
    }
    at->bytes = 2 * 4 * 512 * 128 * 2;
    at->host = malloc(2 * at->bytes);
    for (int i = 0; i < 4; i++) {
        OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F16, 4, shape, &at->t[i]));
        for (size_t n = 0; n < at->bytes / 2; n++)
            at->host[n] =
                (uint16_t)(0x3000 + (n * 2654435761u >> (i + 20)) % 2048 + (n * 40503u >> 9) % 2 * 0x8000);
        OK(ctx, tile_copy(ctx, at->t[i]->data, at->host, at->bytes, NULL));
        OK(ctx, tile_stream_synchronize(ctx, NULL));
        at->a[i] = tile_arg_dltensor(at->t[i]);
    }
    at->a[4] = tile_arg_float(0.0883883476);
    return true;
}

void close_attention(Attention *at)
{
    for (int i = 0; i < 4; i++) tile_tensor_destroy(ctx, at->t[i]);
    tile_kernel_destroy(at->k);
    tile_module_destroy(at->m);
    free(at->host);
}

/* Last: the device's context does not survive it. */
static void test_fault(void)
{
    int64_t n = 1000;
    tile_tensor bad = { (void *)(uintptr_t)0x1000, &n, NULL, 1, TILE_F32 }, good = bad;
    void *p;
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 4000, &p));
    good.data = p;
    OK(ctx,
        tile_launch(add, (tile_arg[]){ tile_arg_tensor(&bad), tile_arg_tensor(&bad), tile_arg_tensor(&good) },
            3, NULL));
    CHECK_STATUS(ctx, tile_context_synchronize(ctx), TILE_ERROR_DEVICE_FAULT);
    CHECK_TEXT(error_of(ctx), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    CHECK_TEXT(error_of(ctx), "; launched last: vector_add");
    CHECK_STATUS(ctx,
        tile_launch(add, (tile_arg[]){ tile_arg_tensor(&bad), tile_arg_tensor(&bad), tile_arg_tensor(&good) },
            3, NULL),
        TILE_ERROR_DEVICE_FAULT);
}

int main(int argc, char **argv)
{
    char why[300];
    hip = argc > 1 && !strcmp(argv[1], "--target=hip");
    if (hip) {
        argv++;
        argc--;
    }
    tile_context_desc d = {
        .struct_size = sizeof d, .target = hip ? "hip" : "cuda", .flags = TILE_CONTEXT_NO_CACHE
    };
    if (tile_context_create_error(&d, &ctx, why, sizeof why)) {
        printf("SKIP: %s\n", why);
        return SKIP;
    }
    static const char *const names[] = { "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
        "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so" };
    for (int i = 0; i < 5 && hip && !driver; i++) driver = dlopen(names[i], RTLD_NOW);
    if (!hip) driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add)) {
        printf("%s\n", error_of(ctx));
        return 1;
    }
    static const struct {
        UnitTest test;
        bool cuda_only;
    } all[] = {
        { { "results", test_results }, false },
        { { "column", test_column }, false },
        { { "graph", test_graph }, false },
        { { "early_start", test_early_start }, false },
        { { "threads", test_threads }, false },
        { { "compiling_threads", test_compiling_threads }, false },
        { { "async", test_async }, false },
        { { "refused", test_refused }, false },
        { { "attention_graph", test_attention_graph }, true },
        { { "other_context", test_other_context }, true },
        { { "unsuitable", test_unsuitable }, true },
        { { "host_time", test_host_time }, false },
        { { "fault", test_fault }, true },
    };
    enum { ALL = sizeof all / sizeof *all };
    UnitTest tests[ALL];
    int n = 0;
    for (int i = 0; i < ALL; i++)
        if (!hip || !all[i].cuda_only) tests[n++] = all[i].test;
    int r = unit_run("gpu", tests, n, argc, argv);
    tile_kernel_destroy(add);
    tile_context_destroy(ctx);
    return r;
}
