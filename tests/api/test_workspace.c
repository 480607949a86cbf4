/* test_workspace.c: the workspaces that a context keeps (workspace.c): which launches share one, how it
 * grows, and what becomes of it. Runs on the fake CUDA driver, whose streams run nothing: the test looks at
 * the addresses that launches are given, and whether they are memory at that moment. */
#define _GNU_SOURCE
#include "api.h"
#include "runtime/drivers/gpu_facts.h"
#include "runtime/launch/kernel.h"
#include <unistd.h>

static FakeState *fake;
static FakeBlockFn *block_at;
static tile_context *ctx;
static tile_kernel *k;
static uint16_t memory[3 << 20] __attribute__((aligned(256)));

/* What the last launch of this thread was given. */
typedef struct Given {
    char *workspace;
    uint64_t counter;
    size_t block; /* the bytes of the workspace's block when the driver launched */
} Given;
static __thread Given given;
static int workspace_slot, counter_slot;
static bool slow; /* the driver takes its time over a launch */

static void look(void **params)
{
    memcpy(&given.workspace, params[workspace_slot], 8);
    memcpy(&given.counter, params[counter_slot], 8);
    if (slow) usleep(50);
    given.block = block_at(given.workspace);
}

static const char sums_text[] =
    "kernel sums(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 128), cdiv(N, 128)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([128, 128], f32);\n"
    "    for k in 0 .. cdiv(K, 32) {\n"
    "        acc = mma(load(A[i*128 +: 128, k*32 +: 32], latency = 4),\n"
    "                  load(B[k*32 +: 32, j*128 +: 128], latency = 4), acc);\n    }\n"
    "    store(C[i*128 +: 128, j*128 +: 128], f16(acc));\n}\n";

static const tile_binding parts = { "split_k", TILE_BIND_INT, { .i = 16 } };

typedef struct Product {
    int64_t shape[3][2];
    tile_tensor t[3];
    tile_arg args[3];
} Product;

static void product(Product *p, int64_t m, int64_t n)
{
    enum { K = 1024 };
    *p = (Product){ { { m, K }, { K, n }, { m, n } }, { { 0 } }, { { 0 } } };
    for (int i = 0; i < 3; i++) {
        p->t[i] = (tile_tensor){ memory + ((size_t)i << 20), p->shape[i], NULL, -1, TILE_NONE };
        p->args[i] = tile_arg_tensor(&p->t[i]);
    }
}

/* A context with the kernel, which has been launched with own memory. */
static bool begin(const char *library, int64_t limit, uint32_t flags)
{
    Product p;
    size_t bytes;
    fake = fake_open(library);
    block_at = (FakeBlockFn *)(uintptr_t)dlsym(dlopen(library, RTLD_NOW), "fake_block");
    tile_context_desc d = fake_desc("cuda:sm_90a", library);
    d.workspace_limit = limit;
    d.flags |= flags;
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
    OK(ctx, kernel_of(ctx, sums_text, "sums", &parts, 1, &k));
    product(&p, 128, 128);
    OK(ctx, tile_kernel_workspace(k, p.args, 3, &bytes));
    LAUNCH_ARGS(l, k);
    uint64_t key[k->key_words];
    CU_ASSERT_EQUAL(kernel_bind(k, p.args, 3, &l), TILE_OK);
    kernel_key(k, &l, key);
    Variant *v = kernel_ready(k, key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(v);
    workspace_slot = v->memos.workspace;
    counter_slot = v->memos.scheduler;
    CU_ASSERT_TRUE_FATAL(workspace_slot >= 0 && counter_slot >= 0 && bytes > 0);
    fake->on_launch = look;
    return true;
}

static void end(void)
{
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
}

/* Launches m by n; the workspace is memory of at least what the launch needs. */
static Given launch(int64_t m, int64_t n, void *stream)
{
    Product p;
    size_t bytes;
    product(&p, m, n);
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    given = (Given){ 0 };
    OK(ctx, tile_launch(k, p.args, 3, &d));
    OK(ctx, tile_kernel_workspace(k, p.args, 3, &bytes));
    CU_ASSERT_TRUE(given.workspace && given.block >= bytes && (uintptr_t)given.workspace % 256 == 0);
    CU_ASSERT_NOT_EQUAL(given.counter, 0);
    return given;
}

/* The same with memory of the caller's. */
static Given launch_with_own(void *stream)
{
    Product p;
    product(&p, 128, 128);
    tile_launch_desc d = {
        .struct_size = sizeof d, .stream = stream, .workspace = memory, .workspace_size = sizeof memory
    };
    given = (Given){ 0 };
    OK(ctx, tile_launch(k, p.args, 3, &d));
    CU_ASSERT_PTR_EQUAL(given.workspace, memory);
    return given;
}

static bool launch_by_memo(const Product *p, void *stream)
{
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    tile_status st = TILE_ERROR_INTERNAL;
    given = (Given){ 0 };
    return memo_launch(k, p->args, 3, &d, &st) && st == TILE_OK;
}

/* A launch without a workspace takes that of its stream: one allocation, also for those by memo. */
static void test_kept(void)
{
    Product p;
    if (!begin(FAKE_CUDA, 0, 0)) return;
    Given first = launch(128, 128, NULL);
    int64_t asked = fake->allocs, live = fake->live_memory;
    for (int i = 0; i < 3; i++) {
        Given again = launch(128, 128, NULL);
        CU_ASSERT_PTR_EQUAL(again.workspace, first.workspace);
        CU_ASSERT_EQUAL(again.counter, first.counter);
    }
    product(&p, 128, 128);
    CU_ASSERT_TRUE(launch_by_memo(&p, NULL));
    CU_ASSERT_PTR_EQUAL(given.workspace, first.workspace);
    CU_ASSERT_EQUAL(given.counter, first.counter);
    CU_ASSERT_EQUAL(fake->allocs, asked);
    tile_launch_desc own = {
        .struct_size = sizeof own, .workspace = memory, .workspace_size = sizeof memory
    };
    OK(ctx, tile_launch(k, p.args, 3, &own));
    CU_ASSERT_PTR_EQUAL(given.workspace, memory);
    own.workspace_size = 256;
    CHECK_STATUS(ctx, tile_launch(k, p.args, 3, &own), TILE_ERROR_WORKSPACE);
    own.workspace = NULL;
    CHECK_STATUS(ctx, tile_launch(k, p.args, 3, &own), TILE_ERROR_WORKSPACE);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    end();
}

/* Where a launch needs more, what was kept is freed; smaller ones take the larger one. */
static void test_growth(void)
{
    if (!begin(FAKE_CUDA, 0, 0)) return;
    Given small = launch(128, 128, NULL);
    int64_t live = fake->live_memory;
    Given large = launch(1024, 1024, NULL);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    CU_ASSERT_TRUE(large.block > small.block);
    CU_ASSERT_EQUAL(large.counter, small.counter);
    int64_t asked = fake->allocs;
    Given again = launch(128, 128, NULL);
    CU_ASSERT_PTR_EQUAL(again.workspace, large.workspace);
    CU_ASSERT_EQUAL(fake->allocs, asked);
    end();
}

static void *launch_in_thread(void *of)
{
    *(Given *)of = launch(128, 128, (void *)2);
    return NULL;
}

/* Launches that may run beside each other share neither workspace nor counter: of two streams, of a stream
 * whose handle was another's, of the threads' own streams, of two contexts. */
static void test_streams(void)
{
    enum { N = 8 };
    Given g[N];
    void *s[2], *again;
    pthread_t other;
    if (!begin(FAKE_CUDA, 0, 0)) return;
    void (*destroy)(void *) =
        (void (*)(void *))(uintptr_t)dlsym(dlopen(FAKE_CUDA, RTLD_NOW), "cuStreamDestroy_v2");
    for (int i = 0; i < 2; i++) {
        OK(ctx, tile_stream_create(ctx, &s[i]));
        g[i] = launch(128, 128, s[i]);
    }
    destroy(s[1]); /* by the program: its launch may still run */
    OK(ctx, tile_stream_create(ctx, &again));
    CU_ASSERT_PTR_EQUAL(again, s[1]);
    g[2] = launch(128, 128, again);
    g[3] = launch(128, 128, NULL);
    g[4] = launch(128, 128, (void *)2);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, launch_in_thread, &g[5]), 0);
    pthread_join(other, NULL);
    tile_context *first = ctx;
    tile_kernel *kernel = k;
    tile_context_desc d = fake_desc("cuda:sm_90a", FAKE_CUDA);
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
    OK(ctx, kernel_of(ctx, sums_text, "sums", &parts, 1, &k));
    g[6] = launch(128, 128, NULL);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    ctx = first;
    k = kernel;
    g[7] = launch(128, 128, s[0]);
    for (int i = 0; i < N - 1; i++)
        for (int j = 0; j < i; j++) {
            CU_ASSERT_PTR_NOT_EQUAL(g[i].workspace, g[j].workspace);
            CU_ASSERT_NOT_EQUAL(g[i].counter, g[j].counter);
        }
    CU_ASSERT_PTR_EQUAL(g[7].workspace, g[0].workspace);
    int64_t live = fake->live_memory;
    OK(ctx, tile_stream_destroy(ctx, s[0])); /* by libtile, which frees its workspace */
    CU_ASSERT_EQUAL(fake->live_memory, live - 1);
    OK(ctx, tile_stream_destroy(ctx, again));
    end();
}

/* Nor do launches that bring a workspace share a counter with those of a stream that had their handle. In one
 * stream they and the others have one. */
static void test_own_workspace(void)
{
    void *stream, *again;
    if (!begin(FAKE_CUDA, 0, 0)) return;
    void (*destroy)(void *) =
        (void (*)(void *))(uintptr_t)dlsym(dlopen(FAKE_CUDA, RTLD_NOW), "cuStreamDestroy_v2");
    OK(ctx, tile_stream_create(ctx, &stream));
    Given first = launch_with_own(stream);
    CU_ASSERT_EQUAL(launch_with_own(stream).counter, first.counter);
    CU_ASSERT_EQUAL(launch(128, 128, stream).counter, first.counter);
    destroy(stream); /* by the program: its launches may still run */
    OK(ctx, tile_stream_create(ctx, &again));
    CU_ASSERT_PTR_EQUAL(again, stream);
    CU_ASSERT_NOT_EQUAL(launch_with_own(again).counter, first.counter);
    OK(ctx, tile_stream_destroy(ctx, again));
    end();
}

/* A captured launch has memory of its graph's own and a counter of its own. */
static void test_capture(void)
{
    if (!begin(FAKE_CUDA, 0, 0)) return;
    Given kept = launch(128, 128, NULL), captured[2];
    int64_t live = fake->live_memory, asked = fake->allocs;
    fake->capturing = 1;
    for (int i = 0; i < 2; i++) {
        captured[i] = launch(128, 128, NULL);
        CU_ASSERT_EQUAL(fake->allocs, asked + i + 1);
        CU_ASSERT_EQUAL(fake->live_memory, live); /* freed behind the launch, in the graph */
        CU_ASSERT_PTR_NOT_EQUAL(captured[i].workspace, kept.workspace);
        CU_ASSERT_NOT_EQUAL(captured[i].counter, kept.counter);
    }
    CU_ASSERT_NOT_EQUAL(captured[0].counter, captured[1].counter);
    fake->capturing = 0;
    Given after = launch(128, 128, NULL);
    CU_ASSERT_PTR_EQUAL(after.workspace, kept.workspace);
    end();
}

enum { CAPTURES = CAPTURED_COUNTERS + 100, CAPTURERS = 2 };
static uint64_t captured_counters[CAPTURERS * CAPTURES];

static void *capture_many(void *to)
{
    for (int i = 0; i < CAPTURES; i++) ((uint64_t *)to)[i] = launch(128, 128, NULL).counter;
    return NULL;
}

/* However many launches are captured, by several threads, no two share a counter. */
static void test_many_captures(void)
{
    enum { ALL = CAPTURERS * CAPTURES };
    if (!begin(FAKE_CUDA, 0, 0)) return;
    pthread_t other[CAPTURERS];
    fake->capturing = 1;
    for (int i = 0; i < CAPTURERS; i++)
        CU_ASSERT_EQUAL_FATAL(
            pthread_create(&other[i], NULL, capture_many, captured_counters + (size_t)i * CAPTURES), 0);
    for (int i = 0; i < CAPTURERS; i++) pthread_join(other[i], NULL);
    fake->capturing = 0;
    CU_ASSERT_TRUE(all_differ(captured_counters, ALL));
    CU_ASSERT_NOT_EQUAL(captured_counters[0], 0); /* the least */
    end();
}

/* The limit is of all streams together; beyond it each launch has its own memory. */
static void test_limit(void)
{
    void *s[2];
    if (!begin(FAKE_CUDA, -1, 0)) return;
    launch(128, 128, NULL);
    int64_t live = fake->live_memory, asked = fake->allocs;
    launch(128, 128, NULL);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    CU_ASSERT_EQUAL(fake->allocs, asked + 1);
    end();
    if (!begin(FAKE_CUDA, 3 << 20, 0)) return; /* of one stream's 2 MiB, not of a large one */
    for (int i = 0; i < 2; i++) OK(ctx, tile_stream_create(ctx, &s[i]));
    Given kept = launch(128, 128, s[0]);
    live = fake->live_memory;
    asked = fake->allocs;
    launch(128, 128, s[1]);
    launch(1024, 1024, s[0]);
    CU_ASSERT_EQUAL(fake->allocs, asked + 2);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    Given again = launch(128, 128, s[0]);
    CU_ASSERT_PTR_EQUAL(again.workspace, kept.workspace);
    for (int i = 0; i < 2; i++) OK(ctx, tile_stream_destroy(ctx, s[i]));
    launch(128, 128, NULL); /* what the streams had may be kept anew */
    asked = fake->allocs;
    launch(128, 128, NULL);
    CU_ASSERT_EQUAL(fake->allocs, asked);
    end();
    CHECK_STATUS(ctx,
        tile_context_create(
            &(tile_context_desc){ .struct_size = sizeof(tile_context_desc), .workspace_limit = -2 }, &ctx),
        TILE_ERROR_INVALID_ARGUMENT);
}

static void fail(const char *name, int code)
{
    snprintf(fake->fail_name, sizeof fake->fail_name, "%s", name);
    fake->fail_after = 0;
    fake->fail_code = code;
}

/* Without memory a launch says so and later ones succeed; a driver that does not number its streams keeps
 * nothing; one without pools needs the caller's workspace. */
static void test_failures(void)
{
    Product p, large;
    if (!begin(FAKE_CUDA, 0, 0)) return;
    product(&p, 128, 128);
    product(&large, 1024, 1024);
    fail("cuMemAllocFromPoolAsync", 2);
    CHECK_STATUS(ctx, tile_launch(k, p.args, 3, NULL), TILE_ERROR_OUT_OF_MEMORY);
    fail("", 0);
    launch(128, 128, NULL);
    int64_t live = fake->live_memory;
    fail("cuMemAllocFromPoolAsync", 2);
    CHECK_STATUS(ctx, tile_launch(k, large.args, 3, NULL), TILE_ERROR_OUT_OF_MEMORY);
    CU_ASSERT_EQUAL(fake->live_memory, live - 1); /* the smaller one made room */
    fail("", 0);
    launch(1024, 1024, NULL);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    fail("cuLaunchKernel", 719);
    CHECK_STATUS(ctx, tile_launch(k, p.args, 3, NULL), TILE_ERROR_DEVICE_FAULT);
    fail("", 0);
    launch(128, 128, NULL); /* the lock is free */
    fail("cuStreamGetId", 1);
    int64_t asked = fake->allocs;
    for (int i = 0; i < 2; i++) launch(128, 128, NULL);
    CU_ASSERT_EQUAL(fake->allocs, asked + 2);
    CU_ASSERT_EQUAL(fake->live_memory, live);
    fail("", 0);
    end();
    if (!begin(FAKE_OLD, 0, TILE_CONTEXT_AS_DECLARED)) return;
    CHECK_STATUS(ctx, tile_launch(k, p.args, 3, NULL), TILE_ERROR_WORKSPACE);
    end();
}

/* The parts of a divided last round, by cutting R programs into S shares and numbering the pieces as
 * stream_k.c does: no two have one number, the last number is the last place of the workspace, and where
 * shares end with programs every place is used. */
static void count_parts(int64_t items, int64_t round, int shares)
{
    enum { MOST = 256 };
    int64_t left = items % round, s = left * shares < round ? left * shares : round, pieces = 0, last = -1;
    bool used[MOST] = { false };
    for (int64_t at = 0; at < left * s;) { /* in units of 1/S of a program, of which a share has R */
        int64_t share = at / left, program = at / s, number = s % left ? share + program : share;
        int64_t end = (share + 1) * left < (program + 1) * s ? (share + 1) * left : (program + 1) * s;
        CU_ASSERT_FALSE(used[number]);
        used[number] = true;
        if (number > last) last = number;
        pieces++;
        at = end;
    }
    GpuGrid g = { .programs = items, .row = 1, .persistent = 1, .shares = shares };
    int64_t counters = (4 * round + 255) / 256 * 256;
    CU_ASSERT_EQUAL(gpu_workspace(&g, 512, round), counters + 512 * (last + 1));
    if (left && s % left == 0) CU_ASSERT_EQUAL(pieces, last + 1);
}

/* Two programs share a CTA where twice as many as run at once wait; the last CTA may have one. */
static void test_abreast(void)
{
    const int64_t at_once = 32 * 132;
    GpuGrid g = {
        .programs = 8449, .row = 1, .multiprocessors = 132, .abreast = gpu_abreast(2, 8449, at_once)
    };
    CU_ASSERT_EQUAL(gpu_blocks(&g), 4225);
    CU_ASSERT_EQUAL(gpu_abreast(2, 8447, at_once), 1);
    CU_ASSERT_EQUAL(gpu_abreast(2, (int64_t)1 << 31, at_once), 1);
    CU_ASSERT_EQUAL(gpu_abreast(0, 8449, at_once), 1);
}

static void test_shares(void)
{
    for (int shares = 2; shares <= 5; shares++)
        for (int64_t round = 1; round <= 33; round++)
            for (int64_t items = 1; items <= 70; items++) count_parts(items, round, shares);
    GpuGrid pairs = {
        .programs = 15, .row = 5, .persistent = 1, .cluster = 2, .shares = 4, .multiprocessors = 8
    };
    CU_ASSERT_EQUAL(gpu_items(&pairs), 9); /* three a row, the last one of a single program */
    CU_ASSERT_EQUAL(gpu_blocks(&pairs), 8);
    CU_ASSERT_EQUAL(gpu_workspace(&pairs, 512, 8), 256 + 4 * 2 * 512); /* one is left for four clusters */
}

enum { THREADS = 6, TIMES = 200 };

static void *launch_many(void *of)
{
    int number = *(int *)of;
    for (int i = 0; i < TIMES; i++) {
        int64_t m = 128 * (1 + (i / 24 + number) % 8);
        launch(m, 1024, NULL);
    }
    return NULL;
}

/* Threads that launch in one stream: it grows under them, and nobody is given what has been freed. */
static void test_threads(void)
{
    pthread_t t[THREADS];
    int number[THREADS];
    if (!begin(FAKE_CUDA, 0, 0)) return;
    for (int m = 1; m <= 8; m++) {
        Product p;
        product(&p, 128 * m, 1024);
        OK(ctx, tile_kernel_compile(k, p.args, 3));
    }
    slow = true;
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, launch_many, &number[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    slow = false;
    end();
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
        { "kept", test_kept },
        { "growth", test_growth },
        { "streams", test_streams },
        { "own workspace", test_own_workspace },
        { "capture", test_capture },
        { "many captures", test_many_captures },
        { "limit", test_limit },
        { "failures", test_failures },
        { "shares", test_shares },
        { "abreast", test_abreast },
        { "threads", test_threads },
    };
    return unit_run("workspace", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
