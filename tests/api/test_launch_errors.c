/* test_launch_errors.c: launches on a fake CUDA device that fail: calls of the driver, faults, what does not
 * compile, devices that a target does not reach. */
#include "launch_add.h"

static void test_driver_failures(void)
{
    static const char *const calls[] = { "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceGetAttribute", "cuDeviceTotalMem_v2", "cuDriverGetVersion", "cuDevicePrimaryCtxRetain" };
    fake = fake_open(FAKE_CUDA);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
        char why[400] = "";
        snprintf(fake->fail_name, sizeof fake->fail_name, "%s", calls[i]);
        fake->fail_after = 0;
        fake->fail_code = 999;
        tile_status st = tile_context_create_error(&d, &ctx, why, sizeof why);
        CU_ASSERT(st == TILE_ERROR_DRIVER || st == TILE_ERROR_NO_DEVICE);
        CU_ASSERT_PTR_NULL(ctx);
        CHECK_TEXT(why, "CUDA_ERROR_FAKE (999): words of the driver");
    }
    open_add();
    strcpy(fake->fail_name, "cuModuleLoadData");
    fake->fail_code = 2;
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL), TILE_ERROR_OUT_OF_MEMORY);
    CHECK_TEXT(error_of(ctx), "vector_add");
    CHECK_TEXT(error_of(ctx), "loading the module: CUDA_ERROR_OUT_OF_MEMORY (2)");
    fake->fail_name[0] = 0;
    OK(ctx, launch_add(
                100, NULL, buffer[0], buffer[1], buffer[2], NULL)); /* not remembered: memory may come back */
    strcpy(fake->fail_name, "cuLaunchKernel");
    fake->fail_code = 400;
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], buffer), TILE_ERROR_DRIVER);
    CHECK_TEXT(error_of(ctx), "vector_add: launch: CUDA_ERROR_INVALID_HANDLE (400)");
    fake->fail_code = 701;
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], buffer), TILE_ERROR_RESOURCES);
    fake->fail_name[0] = 0;
    close_add();
}

static void test_fault(void)
{
    open_add();
    OK(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL));
    fake->sticky = 700;
    CHECK_STATUS(ctx, tile_stream_synchronize(ctx, NULL), TILE_ERROR_DEVICE_FAULT);
    CHECK_TEXT(
        error_of(ctx), "CUDA_ERROR_ILLEGAL_ADDRESS (700): words of the driver; launched last: vector_add");
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL), TILE_ERROR_DEVICE_FAULT);
    CHECK_TEXT(error_of(ctx), "vector_add: ");
    CHECK_STATUS(ctx, tile_context_synchronize(ctx), TILE_ERROR_DEVICE_FAULT);
    fake->sticky = 0;
    /* The newest comes first, each appears once with its specialization, and none that was freed appears. */
    tile_kernel *k[2];
    tile_binding half[] = { { "T", TILE_BIND_DTYPE, { .dtype = TILE_F16 } } };
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", half, 1, &k[0]));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k[1]));
    int64_t n = 16;
    for (int i = 0; i < 5; i++) {
        tile_dtype d = i % 2 ? TILE_F32 : TILE_F16;
        tile_tensor t[3] = { { buffer[0], &n, NULL, 1, d }, { buffer[1], &n, NULL, 1, d },
            { buffer[2], &n, NULL, 1, d } };
        OK(ctx, tile_launch(k[i % 2],
                    (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3,
                    NULL));
    }
    fake->sticky = 719;
    CHECK_STATUS(ctx, tile_context_synchronize(ctx), TILE_ERROR_DEVICE_FAULT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error_of(ctx), "; launched last: vector_add<T=f16>, vector_add"));
    CU_ASSERT_PTR_NULL(strstr(error_of(ctx), "vector_add, vector_add"));
    fake->sticky = 0;
    tile_kernel_destroy(k[0]);
    fake->sticky = 719;
    CHECK_STATUS(ctx, tile_context_synchronize(ctx), TILE_ERROR_DEVICE_FAULT);
    CU_ASSERT_PTR_NULL(strstr(error_of(ctx), "f16"));
    fake->sticky = 0;
    tile_kernel_destroy(k[1]);
    close_add();
}

static void test_compile_errors(void)
{
    open_add();
    strcpy(fake->compile_error, "test.tile(4): error: identifier \"wgmma\" is undefined\n1 error detected\n");
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "vector_add");
    CHECK_TEXT(error_of(ctx), "identifier \"wgmma\" is undefined");
    int compiles = fake->compiles;
    fake->compile_error[0] = 0;
    CHECK_STATUS(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "wgmma");
    CU_ASSERT_EQUAL(fake->compiles, compiles); /* what does not compile is remembered */
    close_add();
}

static void test_newer_device(void)
{
    fake = fake_open(FAKE_CUDA);
    fake->arch = 121;
    fake->n_supported = 2;
    fake->supported_archs[0] = 80;
    fake->supported_archs[1] = 90;
    tile_context_desc d = fake_desc("cuda:sm_80", FAKE_CUDA);
    OK(ctx, tile_context_create(&d, &ctx));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
    OK(ctx, launch_add(100, NULL, buffer[0], buffer[1], buffer[2], NULL));
    CHECK_TEXT(fake->options, "--gpu-architecture=compute_90"); /* PTX: the driver finishes the work */
    close_add();
    d = fake_desc("cuda:sm_90a", FAKE_CUDA);
    char why[300];
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(why, "code for cuda:sm_90a does not run on Fake GPU (cuda:sm_121)");
    fake->arch = 75;
    d = fake_desc("cuda", FAKE_CUDA);
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(why, "sm_75; kernels need sm_80 or later");
}

/* A wait that does not end, as the code reports it (prelude_hopper.def), before it ends the launch. */
static void give_up(void **params)
{
    void *record = NULL;
    for (int k = 0; k < fake->n_params; k++) {
        void *p = *(void **)params[k];
        if ((uintptr_t)p > 4096 && p != buffer[0] && p != buffer[1]) record = p;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(record);
    uint32_t words[6] = { 1, 4, 12, 0, 0x7fffffff, 196640 | 9u << 18 | 1u << 24 };
    memcpy(record, words, sizeof words);
    fake->sticky = 719;
}

static void test_endless(void)
{
    static const char text[] = "kernel checked(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 64)) {\n"
                               "    let x = load(X[program_id()*64 +: 64]);\n"
                               "    assert(x > 0.0, \"positive\");\n"
                               "    store(Y[program_id()*64 +: 64], x);\n}\n";
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.flags |= TILE_CONTEXT_CHECKED;
    OK(NULL, tile_context_create(&d, &ctx));
    OK(ctx, kernel_of(ctx, text, "checked", NULL, 0, &add));
    int64_t n = 64;
    tile_tensor t[2] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 } };
    tile_arg a[2] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]) };
    fake->n_params = 4; /* X, N, the record, Y */
    OK(ctx, tile_launch(add, a, 2, NULL));
    fake->on_launch = give_up;
    CHECK_STATUS(ctx, tile_launch(add, a, 2, NULL), TILE_ERROR_CHECK);
    CHECK_TEXT(error_of(ctx),
        ":4: checked: the launch does not end: warp 9 of CTA 12 waits for the mbarrier at byte 196640 of its "
        "shared memory, for a phase of parity 1");
    fake->on_launch = NULL;
    fake->sticky = 0;
    tile_kernel_destroy(add);
    tile_context_destroy(ctx);
}

UNIT_MAIN("launch_errors", { "driver_failures", test_driver_failures }, { "fault", test_fault },
    { "compile_errors", test_compile_errors }, { "newer_device", test_newer_device },
    { "endless", test_endless })
