/* test_hip.c: the HIP driver on a fake: what differs from CUDA. Kernels are compiled where the build has the
 * HIP backend. */
#include "api.h"

static FakeState *fake;
static tile_context *ctx;

static bool open_hip(int arch)
{
    fake = fake_open(FAKE_HIP);
    fake->arch = arch;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    char why[300];
    tile_status st = tile_context_create_error(&d, &ctx, why, sizeof why);
    if (st) fprintf(stderr, "%s\n", why);
    return st == TILE_OK;
}

static void test_device(void)
{
    CU_ASSERT_FATAL(open_hip(0x942));
    tile_device_info i = { .struct_size = sizeof i };
    OK(ctx, tile_context_device(ctx, &i));
    CU_ASSERT_STRING_EQUAL(i.target, "hip:gfx942");
    CU_ASSERT_EQUAL((int)i.device.device_type, 10);
    CU_ASSERT_EQUAL(i.multiprocessors, 304);
    CU_ASSERT_EQUAL(i.warp_size, 64);
    CU_ASSERT_EQUAL(i.shared_bytes, 65536);
    tile_context_destroy(ctx);
    CU_ASSERT_FATAL(open_hip(0x90a));
    OK(ctx, tile_context_device(ctx, &i));
    CU_ASSERT_STRING_EQUAL(i.target, "hip:gfx90a");
    tile_context_destroy(ctx);
    fake->arch = 0x906;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    char why[300];
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(why, "Fake GPU is gfx906, which no target row serves");
}

static void test_none(void)
{
    fake = fake_open(FAKE_HIP);
    fake->devices = 0;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    char why[300];
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_NO_DEVICE);
    fake->devices = 2;
    d.device = 2;
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_NO_DEVICE);
    CHECK_TEXT(why, "no HIP device 2: there are 2");
    d = fake_desc("hip", "/nonexistent/libamdhip64.so");
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_NO_DEVICE);
    CHECK_TEXT(why, "cannot open HIP driver: /nonexistent/libamdhip64.so");
}

static void test_memory(void)
{
    CU_ASSERT_FATAL(open_hip(0x942));
    char host[64] = "sixty-four bytes", back[64] = "";
    void *p, *s, *e, *pinned;
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 64, &p));
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_PINNED, 64, &pinned));
    OK(ctx, tile_stream_create(ctx, &s));
    OK(ctx, tile_event_create(ctx, &e));
    OK(ctx, tile_copy(ctx, p, host, 64, s));
    OK(ctx, tile_copy(ctx, back, p, 64, s));
    OK(ctx, tile_event_record(ctx, e, s));
    OK(ctx, tile_stream_wait(ctx, NULL, e));
    OK(ctx, tile_event_synchronize(ctx, e));
    CU_ASSERT_STRING_EQUAL(host, back);
    double ms;
    OK(ctx, tile_event_elapsed(ctx, e, e, &ms));
    CU_ASSERT_EQUAL(ms, 1.5);
    fake->sticky = 719;
    CHECK_STATUS(ctx, tile_copy(ctx, back, p, 64, s), TILE_ERROR_DEVICE_FAULT);
    CHECK_TEXT(error_of(ctx), "hipErrorLaunchFailure (719): words of the driver");
    fake->sticky = 0;
    OK(ctx, tile_event_destroy(ctx, e));
    OK(ctx, tile_stream_destroy(ctx, s));
    OK(ctx, tile_memory_free(ctx, TILE_MEMORY_DEVICE, p));
    OK(ctx, tile_memory_free(ctx, TILE_MEMORY_PINNED, pinned));
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
}

static _Alignas(256) float buffer[3][256];

static tile_status launch(tile_kernel *k, int64_t n)
{
    tile_tensor t[3] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 },
        { buffer[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    return tile_launch(k, a, 3, NULL);
}

static void test_launch(void)
{
    tile_kernel *k;
    CU_ASSERT_FATAL(open_hip(0x942));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    tile_status st = launch(k, 200);
#ifdef HAVE_HIP
    CU_ASSERT_EQUAL(st, TILE_OK);
    CHECK_TEXT(fake->options, "--offload-arch=gfx942");
    CU_ASSERT_EQUAL(fake->launches, 1);
    CU_ASSERT_EQUAL(fake->last.grid[0], 1);
    CU_ASSERT(fake->last.block[0] % 64 == 0 && fake->last.block[0] > 0);
#else
    CU_ASSERT_EQUAL(st, TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(error_of(ctx), "no backend for hip:gfx942");
#endif
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

UNIT_MAIN("hip", { "device", test_device }, { "none", test_none }, { "memory", test_memory },
    { "launch", test_launch })
