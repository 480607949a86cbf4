/* test_oom.c: the caller's allocator fails at its 1st, 2nd, nth call until everything succeeds: each time a
 * status, nothing leaked, and the same context goes on working where there is one. LLVM's and the driver's
 * own allocations are not ours to fail. */
#include "api.h"

static char cache[64];
static _Alignas(256) float buffer[3][2048];

static tile_status add_args(tile_kernel *k)
{
    int64_t n = 2000;
    tile_tensor t[3] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 },
        { buffer[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    tile_compile *h;
    tile_status st = tile_kernel_compile_async(k, a, 3, &h);
    if (!st) {
        st = tile_compile_wait(h);
        tile_compile_destroy(h);
    }
    return st ? st : tile_launch(k, a, 3, NULL);
}

static tile_status use_kernel(tile_module *m)
{
    tile_kernel *k;
    tile_binding b[] = { { "BLOCK", TILE_BIND_TEXT, { .text = "512" } },
        { "T", TILE_BIND_DTYPE, { .dtype = TILE_F32 } } };
    tile_status st = tile_kernel_create(m, "vector_add", b, 2, &k);
    if (st) return st;
    st = add_args(k);
    tile_kernel_destroy(k);
    return st;
}

static tile_status use_module(tile_context *c)
{
    tile_module *m;
    tile_status st = tile_module_load_file(c, TILE_KERNELS "/vector_add.tile", NULL, &m);
    if (st) return st;
    st = use_kernel(m);
    tile_module_destroy(m);
    return st;
}

/* No code exists for the extent 0; the grid is asked. */
static tile_status use_nothing(tile_context *c)
{
    tile_kernel *k;
    tile_status st = kernel_of(c,
        "kernel total(in f32 X[M, N], inout f32 Y[1]) grid (M) { atomic_add(Y[0], sum(load(X[program_id(), "
        ":]), drop = true)); }",
        "total", NULL, 0, &k);
    if (st) return st;
    int64_t none[2] = { 0, 0 }, one = 1;
    tile_tensor x = { NULL, none, NULL, 2, TILE_F32 }, y = { buffer[0], &one, NULL, 1, TILE_F32 };
    st = tile_launch(k, (tile_arg[]){ tile_arg_tensor(&x), tile_arg_tensor(&y) }, 2, NULL);
    tile_kernel_destroy(k);
    return st;
}

static tile_status use_tensors(tile_context *c)
{
    DLTensor *t;
    void *stream = NULL, *event = NULL;
    tile_status st = tile_tensor_create(c, TILE_MEMORY_DEVICE, TILE_F16, 2, (int64_t[]){ 3, 5 }, &t);
    if (!st) tile_tensor_destroy(c, t);
    if (!st && !(st = tile_stream_create(c, &stream))) tile_stream_destroy(c, stream);
    if (!st && !(st = tile_event_create(c, &event))) tile_event_destroy(c, event);
    return st;
}

static tile_status scenario(const tile_context_desc *d)
{
    tile_context *c;
    tile_status st = tile_context_create(d, &c);
    if (st) return st;
    st = use_module(c);
    if (!st) st = use_nothing(c);
    if (!st) st = use_tensors(c);
    if (st) {
        /* The context survives: when memory is available again, the same call succeeds. */
        Counter *counter = d->allocator.user;
        atomic_store(&counter->fail_at, 0);
        OK(c, use_module(c));
    }
    tile_context_destroy(c);
    return st;
}

static void try_all(tile_context_desc d)
{
    for (long n = 1; n < 5000; n++) {
        Counter counter = { 0 };
        char folder[100];
        snprintf(folder, sizeof folder, "%s/%ld", cache,
            n); /* a fresh cache each time: missed, written, then hit */
        if (d.cache_directory) d.cache_directory = folder;
        counter.fail_at = n;
        d.allocator = (tile_allocator){ counter_realloc, &counter };
        tile_status st = scenario(&d);
        if (counter.live) fprintf(stderr, "call %ld: %ld bytes leaked\n", n, (long)counter.live);
        CU_ASSERT_EQUAL_FATAL(counter.live, 0);
        if (counter.calls < n) { /* the nth call was never made: all were tried */
            fprintf(stderr, "(%ld calls) ", n - 1);
            CU_ASSERT_EQUAL(st, TILE_OK);
            CU_ASSERT(n > 20);
            return;
        }
        /* A call that may fail, such as the version for the cache key or the list for evicting. */
        if (st == TILE_OK) continue;
        if (st != TILE_ERROR_OUT_OF_MEMORY) fprintf(stderr, "call %ld: %s\n", n, tile_status_name(st));
        CU_ASSERT_EQUAL_FATAL(st, TILE_ERROR_OUT_OF_MEMORY);
    }
    CU_FAIL("never succeeded");
}

static void test_cuda(void)
{
    fake_open(FAKE_CUDA);
    try_all(fake_desc("cuda", FAKE_CUDA));
}

static void test_cuda_cached(void)
{
    fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.flags = 0;
    d.cache_directory = cache;
    try_all(d);
}

static void test_cpu(void)
{
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    tile_context *c;
    tile_module *m;
    if (tile_context_create(&d, &c)) {
        CU_FAIL("no CPU context");
        return;
    }
    OK(c, tile_module_load_file(c, TILE_KERNELS "/vector_add.tile", NULL, &m));
    tile_status st = use_kernel(m);
    tile_module_destroy(m);
    tile_context_destroy(c);
    if (st == TILE_ERROR_UNSUPPORTED) return; /* a build without the CPU backend */
    try_all(d);
}

int main(int argc, char **argv)
{
    strcpy(cache, "/tmp/tile-oom-XXXXXX");
    if (!mkdtemp(cache)) return 1;
    static const UnitTest tests[] = { { "cuda", test_cuda }, { "cuda_cached", test_cuda_cached },
        { "cpu", test_cpu } };
    int r = unit_run("oom", tests, 3, argc, argv);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command) || r;
}
