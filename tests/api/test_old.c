/* test_old.c: CUDA machines where not everything is as it should be: drivers older than the compiler, no
 * compiler, tiles too large for the device, a stream of somewhere else. Each is a status and a text that says
 * what is wrong. */
#include "api.h"

static FakeState *fake;
static float x[256], y[256], z[256];

static tile_context *open_fake(const char *target)
{
    tile_context_desc d = fake_desc(target, FAKE_CUDA);
    tile_context *ctx = NULL;
    char why[300] = "";
    fake = fake_open(FAKE_CUDA);
    CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_OK);
    return ctx;
}

static tile_status launch_add(tile_kernel *k, void *stream)
{
    int64_t n = 256;
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 },
        { z, &n, NULL, 1, TILE_F32 } };
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    return tile_launch(
        k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3, &d);
}

static void close_all(tile_context *ctx, tile_kernel *k)
{
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

/* The binary, else PTX through the driver, else nvJitLink's binary; what took is what is launched. */
static void test_forms(void)
{
    static const struct {
        int binary, ptx, link;
        const char *image;
        int links;
    } rows[] = {
        { 0, 0, 0, "FAKEBIN:", 0 },
        { 209, 0, 0, "FAKEBIN-PTX", 0 },
        { 200, 222, 0, "FAKEBIN:linked", 1 },
        { 218, 221, 0, "FAKEBIN:linked", 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tile_context *ctx = open_fake("cuda");
        tile_kernel *k;
        OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
        fake->refuse_binary = rows[i].binary;
        fake->refuse_ptx = rows[i].ptx;
        OK(ctx, launch_add(k, NULL));
        CU_ASSERT(!strncmp(fake->last_image, rows[i].image, strlen(rows[i].image)));
        CU_ASSERT_EQUAL(fake->links, rows[i].links);
        CU_ASSERT_EQUAL(fake->launches, 1);
        OK(ctx, launch_add(k, NULL));
        CU_ASSERT_EQUAL(fake->modules, 1);
        close_all(ctx, k);
    }
}

static void test_no_form(void)
{
    tile_context *ctx = open_fake("cuda");
    tile_kernel *k;
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    fake->refuse_binary = 200;
    fake->refuse_ptx = 222;
    fake->refuse_link = 1;
    CHECK_STATUS(ctx, launch_add(k, NULL), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(error_of(ctx), "vector_add: binary: loading the module: CUDA_ERROR_INVALID_IMAGE (200)");
    CHECK_TEXT(error_of(ctx), "; PTX: loading the module: ");
    CHECK_TEXT(error_of(ctx), "; nvJitLink: nvJitLink: error 1: linker's words");
    CHECK_TEXT(fake->options, "-arch=sm_90a");
    fake->refuse_binary = 0; /* a driver that does not refuse for good */
    OK(ctx, launch_add(k, NULL));
    /* An error that does not concern the image is not tried again. */
    close_all(ctx, k);
    ctx = open_fake("cuda");
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    fake->refuse_binary = 2;
    CHECK_STATUS(ctx, launch_add(k, NULL), TILE_ERROR_OUT_OF_MEMORY);
    CU_ASSERT_EQUAL(fake->compiles, 1);
    close_all(ctx, k);
}

static void test_no_linker(void)
{
    tile_context *ctx = open_fake("cuda");
    tile_kernel *k;
    setenv("TILE_NVJITLINK", "/nonexistent/libnvJitLink.so", 1);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    fake->refuse_binary = fake->refuse_ptx = 222;
    CHECK_STATUS(ctx, launch_add(k, NULL), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(error_of(ctx), "nvJitLink: no nvJitLink on this machine");
    unsetenv("TILE_NVJITLINK");
    close_all(ctx, k);
}

static void test_no_compiler(void)
{
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    tile_context *ctx = NULL;
    tile_kernel *k;
    fake = fake_open(FAKE_CUDA);
    d.compiler_library = "/nonexistent/libnvrtc.so";
    char why[300] = "";
    CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_OK);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    CU_ASSERT(launch_add(k, NULL) != TILE_OK);
    CHECK_TEXT(error_of(ctx), "cannot open the run-time compiler: /nonexistent/libnvrtc.so");
    CU_ASSERT_EQUAL(fake->launches, 0);
    close_all(ctx, k);
}

static void test_stream(void)
{
    tile_context *ctx = open_fake("cuda");
    tile_kernel *k;
    static int other;
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, launch_add(k, NULL));
    strcpy(fake->fail_name, "cuLaunchKernel");
    fake->fail_code = 400;
    fake->stream_context = &other;
    CHECK_STATUS(ctx, launch_add(k, &other), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "vector_add: the stream belongs to another context than the kernel's");
    fake->fail_code = 701;
    fake->registers = 255;
    CHECK_STATUS(ctx, launch_add(k, NULL), TILE_ERROR_RESOURCES);
    CHECK_TEXT(error_of(ctx), "threads of 255 registers, ");
    fake->fail_name[0] = 0;
    OK(ctx, launch_add(k, NULL));
    close_all(ctx, k);
}

static void refused(const tile_context_desc *d, tile_status want, const char *text)
{
    tile_context *ctx = (tile_context *)&fake;
    char why[300] = "";
    tile_status st = tile_context_create_error(d, &ctx, why, sizeof why);
    if (st != want) {
        fprintf(stderr, "%s, not %s: %s\n", tile_status_name(st), tile_status_name(want), why);
        CU_FAIL("status");
    }
    CU_ASSERT_PTR_NULL(ctx);
    CHECK_TEXT(why, text);
}

static void test_no_device(void)
{
    tile_context_desc d = fake_desc("cuda", "/nonexistent/libcuda.so");
    refused(&d, TILE_ERROR_NO_DEVICE, "cannot open CUDA driver: /nonexistent/libcuda.so");
    d.driver_library = "libm.so.6"; /* a library, but no driver */
    refused(&d, TILE_ERROR_UNSUPPORTED, "is no CUDA driver, or too old: it has no cuInit");
    fake = fake_open(FAKE_CUDA);
    d = fake_desc("cuda", FAKE_CUDA);
    fake->devices = 0;
    refused(&d, TILE_ERROR_NO_DEVICE, "starting the CUDA driver: ");
    fake->devices = 2;
    d.device = 2;
    refused(&d, TILE_ERROR_NO_DEVICE, "no CUDA device 2: there are 2");
    d.device = 0;
    fake->arch = 75;
    refused(&d, TILE_ERROR_UNSUPPORTED, "Fake GPU is sm_75; kernels need sm_80 or later");
    fake->arch = 90;
    d.target = "cuda:sm_120";
    refused(&d, TILE_ERROR_UNSUPPORTED, "code for cuda:sm_120 does not run on Fake GPU (cuda:sm_90a)");
    fake->arch = 100;
    d.target = "cuda:sm_90a"; /* instructions that the next generation does not have */
    refused(&d, TILE_ERROR_UNSUPPORTED, "code for cuda:sm_90a does not run on Fake GPU");
    fake->arch = 90;
    strcpy(fake->fail_name, "cuInit");
    fake->fail_code = 100;
    d.target = "cuda";
    refused(&d, TILE_ERROR_NO_DEVICE, "starting the CUDA driver: ");
    fake->fail_name[0] = 0;
}

/* A driver without tensor maps runs what needs none, and says what the rest needs. */
static void test_old_driver(void)
{
    tile_context_desc d = fake_desc("cuda", FAKE_OLD);
    tile_context *ctx = NULL;
    tile_module *m;
    tile_kernel *k, *attention;
    char why[300] = "";
    fake = fake_open(FAKE_OLD);
    CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_OK);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, launch_add(k, NULL));
    OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/attention.tile", NULL, &m));
    OK(ctx, tile_kernel_create(m, "attention", NULL, 0, &attention));
    static _Alignas(256) unsigned char memory[4][256 * 128 * 2];
    int64_t shape[4] = { 1, 1, 256, 128 };
    tile_tensor t[4];
    for (int i = 0; i < 4; i++) t[i] = (tile_tensor){ memory[i], shape, NULL, 4, TILE_F16 };
    tile_arg a[5] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]),
        tile_arg_tensor(&t[3]), tile_arg_float(1) };
    CHECK_STATUS(ctx, tile_launch(attention, a, 5, NULL), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(error_of(ctx), "attention: argument 1 (Q): the CUDA driver (11080) has no "
                              "cuTensorMapEncodeTiled: version 12.0 or later is needed");
    CU_ASSERT_EQUAL(fake->launches, 1);
    tile_kernel_destroy(attention);
    tile_module_destroy(m);
    close_all(ctx, k);
}

/* What was current stays current, and launches run in the context that the caller gave, else in the device's
 * own. */
static void test_contexts(void)
{
    static int mine, theirs;
    void *library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), *now = NULL, *primary = NULL;
    int (*set)(void *) = (int (*)(void *))(uintptr_t)dlsym(library, "cuCtxSetCurrent"),
                    (*get)(void **) = (int (*)(void **))(uintptr_t)dlsym(library, "cuCtxGetCurrent");
    int (*retain)(void **, int) =
        (int (*)(void **, int))(uintptr_t)dlsym(library, "cuDevicePrimaryCtxRetain");
    void *current[3] = { NULL, &mine, &theirs };
    retain(&primary, 0);
    for (int native = 0; native < 2; native++)
        for (int i = 0; i < 3; i++) {
            tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
            tile_context *ctx = NULL;
            tile_kernel *k;
            void *p = NULL;
            char why[300] = "";
            fake = fake_open(FAKE_CUDA);
            d.native_context = native ? &theirs : NULL;
            set(current[i]);
            CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_OK);
            OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
            for (int n = 0; n < 3; n++) {
                OK(ctx, launch_add(k, NULL));
                CU_ASSERT_PTR_EQUAL(fake->last.context, native ? (void *)&theirs : primary);
                CU_ASSERT(get(&now) == 0 && now == current[i]);
            }
            OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 100, &p));
            OK(ctx, tile_memory_free(ctx, TILE_MEMORY_DEVICE, p));
            OK(ctx, tile_context_synchronize(ctx));
            close_all(ctx, k);
            CU_ASSERT(get(&now) == 0 && now == current[i]);
        }
    set(NULL);
}

/* Two devices: each context loads its own code, compiled or from nowhere else. */
static void test_two_devices(void)
{
    tile_context *ctx[2] = { NULL };
    tile_kernel *k[2];
    fake = fake_open(FAKE_CUDA);
    fake->devices = 2;
    for (int i = 0; i < 2; i++) {
        tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
        tile_device_info info = { .struct_size = sizeof info };
        d.device = i;
        OK(ctx[i], tile_context_create(&d, &ctx[i]));
        OK(ctx[i], tile_context_device(ctx[i], &info));
        CU_ASSERT_EQUAL(info.device.device_id, i);
        OK(ctx[i], kernel_of(ctx[i], vector_add_text, "vector_add", NULL, 0, &k[i]));
    }
    for (int n = 0; n < 4; n++) OK(ctx[n % 2], launch_add(k[n % 2], NULL));
    CU_ASSERT_EQUAL(fake->modules, 2);
    CU_ASSERT_EQUAL(fake->live_modules, 2);
    /* a tensor of the other device */
    int64_t n = 64;
    DLTensor t = { x, { kDLCUDA, 0 }, 1, { kDLFloat, 32, 1 }, &n, NULL, 0 };
    CHECK_STATUS(ctx[1],
        tile_launch(k[1], (tile_arg[]){ tile_arg_dltensor(&t), tile_arg_dltensor(&t), tile_arg_dltensor(&t) },
            3, NULL),
        TILE_ERROR_DEVICE);
    CHECK_TEXT(error_of(ctx[1]), "lies on DLPack device (2, 0), the context's is (2, 1)");
    tile_kernel_destroy(k[0]);
    tile_context_destroy(ctx[0]);
    CU_ASSERT_EQUAL(fake->live_modules, 1);
    OK(ctx[1], launch_add(k[1], NULL));
    close_all(ctx[1], k[1]);
}

/* Tiles that no shared memory holds: which, how much, what would fit. */
static void test_large_tiles(void)
{
    static const char text[] =
        "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 256), cdiv(N, 256)) {\n"
        "    let (i, j) = program_id();\n    var acc = zeros([256, 256], f32);\n"
        "    for k in 0 .. cdiv(K, 128) {\n"
        "        let a = load(A[i*256 +: 256, k*128 +: 128], latency = 2);\n        let b = load(B[k*128 +: "
        "128, j*256 +: 256], latency = 2);\n"
        "        acc = mma(a, b, acc);\n    }\n    store(C[i*256 +: 256, j*256 +: 256], f16(acc));\n}\n";
    tile_context *ctx = open_fake("cuda:sm_80");
    tile_kernel *k;
    static uint16_t m[3][4096];
    int64_t shape[2] = { 64, 64 };
    tile_tensor t[3];
    fake->arch = 86;
    for (int i = 0; i < 3; i++) t[i] = (tile_tensor){ m[i], shape, NULL, 2, TILE_F16 };
    tile_context_destroy(ctx);
    tile_context_desc d = fake_desc("cuda:sm_86", FAKE_CUDA);
    char why[300] = "";
    CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_OK);
    OK(ctx, kernel_of(ctx, text, "gemm", NULL, 0, &k));
    CU_ASSERT(
        tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) },
            3, NULL) != TILE_OK);
    CHECK_TEXT(error_of(ctx), "kernel gemm needs ");
    CHECK_TEXT(error_of(ctx), "bytes of shared memory, cuda:sm_86 has 101376");
    CHECK_TEXT(error_of(ctx), "256 x 128 takes ");
    CHECK_TEXT(error_of(ctx), "when they are done with, f16 tile of 256 x 256 on its way between threads "
                              "takes 131072 bytes of 101376");
    CU_ASSERT_EQUAL(fake->launches, 0);
    close_all(ctx, k);
}

/* Declared tiles that a device with less shared memory does not hold give way to smaller ones of the tune
 * block; what is bound stays, and is refused. */
static void test_smaller_tiles(void)
{
    static const int archs[] = { 80, 86, 89, 90, 120, 121 };
    int64_t shape[4] = { 4, 32, 4096, 256 };
    tile_tensor t[4];
    tile_arg a[5];
    for (int i = 0; i < 4; i++) {
        t[i] = (tile_tensor){ (void *)((uintptr_t)(i + 1) << 40), shape, NULL, 4, TILE_F16 };
        a[i] = tile_arg_tensor(&t[i]);
    }
    a[4] = tile_arg_float(0.0625);
    for (int bound = 0; bound < 2; bound++)
        for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
            tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
            tile_binding b[] = { { "TM", TILE_BIND_INT, { .i = 128 } },
                { "TN", TILE_BIND_INT, { .i = 128 } } };
            tile_context *ctx = NULL;
            tile_module *m;
            tile_kernel *k;
            bool small = archs[i] % 10 || archs[i] >= 120;
            fake = fake_open(FAKE_CUDA);
            fake->arch = archs[i];
            fake->shared_bytes = small ? 101376 : archs[i] == 80 ? 166912 : 232448;
            OK(ctx, tile_context_create(&d, &ctx));
            OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/attention.tile", NULL, &m));
            OK(ctx, tile_kernel_create(m, "attention", b, bound ? 2 : 0, &k));
            tile_status st = tile_launch(k, a, 5, NULL);
            if (bound && small) {
                CU_ASSERT(st == TILE_ERROR_COMPILE || st == TILE_ERROR_RESOURCES);
                CHECK_TEXT(error_of(ctx), "bytes of shared memory, cuda:sm_");
            } else {
                if (st) fprintf(stderr, "sm_%d: %s\n", archs[i], error_of(ctx));
                CU_ASSERT_EQUAL(st, TILE_OK);
                CU_ASSERT(fake->launches == 1 && fake->last.shared <= (unsigned)fake->shared_bytes);
            }
            tile_kernel_destroy(k);
            tile_module_destroy(m);
            tile_context_destroy(ctx);
        }
}

/* Launches `rows` of tiles of 512 x 512 elements with that many warps; the error is that of a tile for which
 * the threads are too few, and says `registers` and `advice`. */
static void too_few_threads(int warps, const char *registers, const char *advice)
{
    char text[400];
    snprintf(text, sizeof text,
        "kernel rows(in f32 A[M, N], out f32 B[M, N]) grid (cdiv(M, 512)) hint (warps = %d) {\n"
        "    let i = program_id();\n    let a = load(A[i*512 +: 512, 0 +: 512]);\n"
        "    store(B[i*512 +: 512, 0 +: 512], a / sum(a, axis = 1));\n}\n",
        warps);
    tile_context *ctx = open_fake("cuda");
    tile_kernel *k;
    static float m[2][4096];
    int64_t shape[2] = { 64, 64 };
    tile_tensor t[2] = { { m[0], shape, NULL, 2, TILE_F32 }, { m[1], shape, NULL, 2, TILE_F32 } };
    OK(ctx, kernel_of(ctx, text, "rows", NULL, 0, &k));
    CHECK_STATUS(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]) }, 2, NULL),
        TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), registers);
    CHECK_TEXT(error_of(ctx), advice);
    CU_ASSERT_EQUAL(fake->launches, 0);
    close_all(ctx, k);
}

/* A tile that four warps cannot hold: which, how much, what would fit. */
static void test_many_registers(void)
{
    too_few_threads(4,
        "kernel rows: f32 tile of 512 x 512 takes 2048 registers of each of 128 threads; "
        "cuda:sm_90a has ",
        " elements fit registers");
}

/* A tile of which no layout has room for a thread's part says the same, and not that the compiler failed. */
static void test_one_warp(void)
{
    too_few_threads(1, "kernel rows: f32 tile of 512 x 512 takes 8192 registers of each of 32 threads; ",
        "or give the program more warps: `warps = 1` asks for 32 threads");
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "forms", test_forms }, { "no_form", test_no_form },
        { "no_linker", test_no_linker }, { "no_compiler", test_no_compiler }, { "stream", test_stream },
        { "large_tiles", test_large_tiles }, { "many_registers", test_many_registers },
        { "one_warp", test_one_warp }, { "no_device", test_no_device }, { "old_driver", test_old_driver },
        { "contexts", test_contexts }, { "two_devices", test_two_devices },
        { "smaller_tiles", test_smaller_tiles } };
    return unit_run("old", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
