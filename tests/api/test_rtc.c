/* test_rtc.c: the run-time compilers: a hipRTC that ends its process is found out in a child; options; logs;
 * and the real NVRTC and hipRTC where the machine has them. */
#include "api.h"
#include "runtime/drivers/rtc.h"

/* What the vendors' libraries keep when they are closed is their own matter; our use of them is watched in
 * the other tests, on fakes. */
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "detect_leaks=0"; }

static FakeState *fake;
static const char text[] = "extern \"C\" __attribute__((global)) void k(float *x) { x[0] = 1.0f; }\n";

static tile_status compile(Rtc *r, const char *target, const char *arch, const char *source, RtcForm form,
    DriverCompile *out, DriverError *e)
{
    *out = (DriverCompile){ .text = source, .name = "k.cu", .entry = "k", .target = target_find(target) };
    return rtc_compile(r, out, arch, form, e);
}

static void drop(DriverCompile *c)
{
    driver_blob_free(allocator_libc, &c->binary);
    driver_blob_free(allocator_libc, &c->log);
}

static void test_crash(void)
{
    Rtc *r;
    DriverError e;
    DriverCompile c;
    fake = fake_open(FAKE_HIP);
    strcpy(fake->crash_arch, "gfx942");
    CU_ASSERT_EQUAL_FATAL(rtc_open(TARGET_HIP, FAKE_HIP, allocator_libc, &r, &e), TILE_OK);
    CU_ASSERT_STRING_EQUAL(rtc_version(r), "hiprtc 13.0");
    for (int i = 0; i < 2; i++) { /* found out once, remembered then */
        CU_ASSERT_EQUAL(compile(r, "hip:gfx942", "gfx942", text, RTC_BINARY, &c, &e), TILE_ERROR_UNSUPPORTED);
        CHECK_TEXT(e.text, "hiprtc 13.0 cannot compile for gfx942 (tried in a child process)");
        drop(&c);
    }
    CU_ASSERT_EQUAL(compile(r, "hip:gfx90a", "gfx90a", text, RTC_BINARY, &c, &e), TILE_OK);
    CHECK_TEXT(fake->options, "--offload-arch=gfx90a");
    drop(&c);
    rtc_close(r);
}

static void test_log(void)
{
    Rtc *r;
    DriverError e;
    DriverCompile c;
    fake = fake_open(FAKE_CUDA);
    CU_ASSERT_EQUAL_FATAL(rtc_open(TARGET_CUDA, FAKE_CUDA, allocator_libc, &r, &e), TILE_OK);
    CU_ASSERT_EQUAL(compile(r, "cuda:sm_90a", "sm_90a", text, RTC_BINARY, &c, &e), TILE_OK);
    CU_ASSERT_EQUAL(c.registers, 40);
    CU_ASSERT_EQUAL(c.spill_bytes, 12);
    CU_ASSERT_EQUAL(c.stack_bytes, 8);
    CU_ASSERT_EQUAL(c.static_shared_bytes, 1024);
    CHECK_TEXT(fake->options, "--gpu-architecture=sm_90a");
    CHECK_TEXT(fake->options, "--ptxas-options=-v");
    CHECK_TEXT(fake->options, "--no-cache"); /* which has no log */
    drop(&c);
    CU_ASSERT_EQUAL(compile(r, "cuda:sm_90a", "sm_90a", text, RTC_PTX, &c, &e), TILE_OK);
    CHECK_TEXT(fake->options, "--gpu-architecture=compute_90a");
    CU_ASSERT_STRING_EQUAL((char *)c.binary.data, "FAKEBIN-PTX");
    drop(&c);
    strcpy(fake->compile_error, "note first\nk.tile(7): error: wrong\n");
    CU_ASSERT_EQUAL(compile(r, "cuda:sm_90a", "sm_90a", text, RTC_BINARY, &c, &e), TILE_ERROR_COMPILE);
    CU_ASSERT_STRING_EQUAL(e.text, "k.tile(7): error: wrong");
    drop(&c);
    rtc_close(r);
    CU_ASSERT_EQUAL(rtc_open(TARGET_CUDA, "/nonexistent.so", allocator_libc, &r, &e), TILE_ERROR_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(r);
}

/* --- the real ones, where found: both need no device ------------------------------------------------- */

static void test_nvrtc(void)
{
    Rtc *r;
    DriverError e;
    DriverCompile c;
    if (rtc_open(TARGET_CUDA, NULL, allocator_libc, &r, &e)) {
        fprintf(stderr, "SKIP: %s ", e.text);
        return;
    }
    fprintf(stderr, "(%s) ", rtc_version(r));
    CU_ASSERT_EQUAL(compile(r, "cuda:sm_80", "sm_80", text, RTC_BINARY, &c, &e), TILE_OK);
    CU_ASSERT(c.binary.size > 100 && !memcmp(c.binary.data,
                                         "\x7f"
                                         "ELF",
                                         4));
    CU_ASSERT(c.registers > 0 && c.spill_bytes == 0 && c.stack_bytes == 0);
    drop(&c);
    CU_ASSERT_EQUAL(compile(r, "cuda:sm_90a", "sm_90a", text, RTC_PTX, &c, &e), TILE_OK);
    CHECK_TEXT((char *)c.binary.data, ".target sm_90a");
    drop(&c);
    CU_ASSERT_EQUAL(
        compile(r, "cuda:sm_80", "sm_80", "#line 3 \"my.tile\"\nint x = y;\n", RTC_BINARY, &c, &e),
        TILE_ERROR_COMPILE);
    CHECK_TEXT(e.text, "my.tile(3): error");
    drop(&c);
    rtc_close(r);
}

static void test_hiprtc(void)
{
    Rtc *r;
    DriverError e;
    DriverCompile c;
    if (rtc_open(TARGET_HIP, NULL, allocator_libc, &r, &e)) {
        fprintf(stderr, "SKIP: %s ", e.text);
        return;
    }
    fprintf(stderr, "(%s) ", rtc_version(r));
    static const char *const chips[] = { "gfx90a", "gfx942", "gfx950", "gfx1100" };
    for (int i = 0; i < 4;
        i++) { /* Whatever it supports, it gives a binary or an error, and never ends this process. */
        char target[32];
        snprintf(target, sizeof target, "hip:%s", chips[i]);
        tile_status st = compile(r, target, chips[i], text, RTC_BINARY, &c, &e);
        fprintf(stderr, "%s: %s ", chips[i], st ? "refused" : "ok");
        CU_ASSERT(st == TILE_ERROR_UNSUPPORTED || (st == TILE_OK && c.binary.size > 100));
        drop(&c);
    }
    rtc_close(r);
}

/* What we emit, prelude and all, for the chip that Debian's hipRTC (5.2) knows: a fake driver says it is a
 * gfx90a, the real compiler gets the text. */
static void test_hiprtc_emission(void)
{
#ifdef HAVE_HIP
    static const char source[] =
        "kernel product(in f16 A[M, M], in f16 B[M, M], out f16 C[M, M]) grid (cdiv(M, 64), cdiv(M, 64)) { "
        "let (i, j) = program_id(); var acc = zeros([64, 64], f32);\n"
        "    for k in 0 .. cdiv(M, 32) { acc = mma(load(A[i*64 +: 64, k*32 +: 32], latency = 2), load(B[k*32 "
        "+: 32, j*64 +: 64], latency = 2), acc); } store(C[i*64 +: 64, j*64 +: 64], f16(acc)); }\n"
        "kernel rows(in f16 A[M, M], in f16 B[M, M], out f16 C[M, M]) grid (M) { let i = program_id(); let x "
        "= f32(load(A[i +: 1, 0 +: 256])); let e = exp(x - max(x, axis = 1));\n"
        "    store(C[i +: 1, 0 +: 256], f16(cumsum(e / sum(e, axis = 1), axis = 1))); }\n"
        "kernel others(in f16 A[M, M], in f16 B[M, M], inout f16 C[M, M]) grid (M) { let i = program_id(); "
        "let x = load(A[i, 0 +: 256]); let at = i32(x) % 16;\n"
        "    atomic_add(C[at * 0, at], f16(tanh(f32(x)) + sin(f32(load(B[i, 0 +: 256]))))); }\n";
    Rtc *r;
    DriverError e;
    if (rtc_open(TARGET_HIP, NULL, allocator_libc, &r, &e)) {
        fprintf(stderr, "SKIP: %s ", e.text);
        return;
    }
    fprintf(stderr, "(%s) ", rtc_version(r));
    rtc_close(r);
    fake = fake_open(FAKE_HIP);
    fake->arch = 0x90a;
    static _Alignas(256) uint16_t data[3][256 * 256];
    int64_t shape[2] = { 256, 256 };
    tile_tensor t[3] = { { data[0], shape, NULL, 2, TILE_F16 }, { data[1], shape, NULL, 2, TILE_F16 },
        { data[2], shape, NULL, 2, TILE_F16 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    tile_context *ctx;
    d.compiler_library = NULL;
    CU_ASSERT_EQUAL_FATAL(tile_context_create_error(&d, &ctx, NULL, 0), TILE_OK);
    static const char *const names[] = { "product", "rows", "others" };
    for (int i = 0; i < 3; i++) {
        tile_kernel *k;
        OK(ctx, kernel_of(ctx, source, names[i], NULL, 0, &k));
        tile_status st = tile_kernel_compile(k, a, 3);
        const char *why = st ? error_of(ctx) : "ok";
        bool refused = st && strstr(why, "tried in a child process");
        fprintf(stderr, "%s: %s ", names[i], refused ? "refused" : why);
        CU_ASSERT(!st || refused);
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
#else
    fprintf(stderr, "SKIP: built without the HIP backend ");
#endif
}

/* NVRTC, where the machine has one, on what the backend emits: it compiles, and the fake driver gets the
 * launch. */
static void test_nvrtc_emission(void)
{
    static const char *const targets[] = { "cuda:sm_80", "cuda:sm_90a" };
    static _Alignas(256) float buffer[3][4096];
    int64_t n = 3000;
    tile_tensor t[3];
    tile_arg a[3];
    for (int i = 0; i < 3; i++) {
        t[i] = (tile_tensor){ buffer[i], &n, NULL, 1, TILE_F32 };
        a[i] = tile_arg_tensor(&t[i]);
    }
    for (int i = 0; i < 2; i++) {
        tile_context *ctx;
        tile_kernel *add;
        fake = fake_open(FAKE_CUDA);
        tile_context_desc d = fake_desc(targets[i], FAKE_CUDA);
        d.compiler_library = NULL;
        CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
        OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
        tile_status st = tile_launch(add, a, 3, NULL);
        if (st == TILE_ERROR_COMPILE && strstr(error_of(ctx), "no NVRTC on this machine"))
            fprintf(stderr, "SKIP: %s ", error_of(ctx));
        else {
            if (st) fprintf(stderr, "%s\n", error_of(ctx));
            CU_ASSERT_EQUAL(st, TILE_OK);
            CU_ASSERT_EQUAL(fake->launches, 1);
            CU_ASSERT_EQUAL(fake->compiles, 0);
        }
        tile_kernel_destroy(add);
        tile_context_destroy(ctx);
        CU_ASSERT_EQUAL(fake->live_modules, 0);
        CU_ASSERT_EQUAL(fake->live_memory, 0);
    }
}

UNIT_MAIN("rtc", { "crash", test_crash }, { "log", test_log }, { "nvrtc", test_nvrtc },
    { "nvrtc_emission", test_nvrtc_emission }, { "hiprtc", test_hiprtc },
    { "hiprtc_emission", test_hiprtc_emission })
