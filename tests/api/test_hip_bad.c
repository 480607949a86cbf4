/* test_hip_bad.c: what goes wrong on an AMD machine, on the fake driver: one status and one text that names
 * the `.tile` line or the library, whatever fails; nothing leaks, and the context goes on. */
#include "api.h"
#include <unistd.h>

static tile_context *ctx;

/* --- libraries --------------------------------------------------------------------------------------- */

static void refused(const char *driver, tile_status status, const char *want)
{
    tile_context_desc d = fake_desc("hip", driver);
    char why[400] = "";
    ctx = NULL;
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), status);
    CU_ASSERT_PTR_NULL(ctx);
    CHECK_TEXT(why, want);
    CHECK_TEXT(why, driver);
}

static void test_libraries(void)
{
    char path[] = "/tmp/libamdhip64-XXXXXX";
    int file = mkstemp(path);
    CU_ASSERT_FATAL(file >= 0 && write(file, "no library at all", 17) == 17);
    close(file);
    refused(path, TILE_ERROR_NO_DEVICE, "cannot open HIP driver");
    unlink(path);
    refused(path, TILE_ERROR_NO_DEVICE, "cannot open HIP driver");
    refused("libm.so.6", TILE_ERROR_UNSUPPORTED,
        "no HIP driver, or too old: it has no hipInit"); /* a library, but another one */
    refused(FAKE_CUDA, TILE_ERROR_UNSUPPORTED, "it has no hipInit");
}

#ifdef HAVE_HIP
static FakeState *fake;
static _Alignas(256) float buffer[3][4096];

static bool open_hip(int arch)
{
    fake = fake_open(FAKE_HIP);
    fake->arch = arch;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    return tile_context_create_error(&d, &ctx, NULL, 0) == TILE_OK;
}

static tile_status add(tile_kernel *k, int64_t n, void *stream)
{
    tile_tensor t[3] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 },
        { buffer[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    return tile_launch(
        k, a, 3, &(tile_launch_desc){ .struct_size = sizeof(tile_launch_desc), .stream = stream });
}

/* No hipRTC, or one that cannot do it: the context is there, launches say why, and what was compiled ahead
 * would still run. */
static void without_compiler(const char *library, const char *want)
{
    fake = fake_open(FAKE_HIP);
    fake->arch = 0x942;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    tile_kernel *k;
    d.compiler_library = library;
    CU_ASSERT_FATAL(tile_context_create_error(&d, &ctx, NULL, 0) == TILE_OK);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ctx, add(k, 200, NULL), TILE_ERROR_COMPILE);
        CHECK_TEXT(error_of(ctx), want);
    }
    CU_ASSERT_EQUAL(fake->launches, 0);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_compiler(void)
{
    without_compiler("/nonexistent/libhiprtc.so", "/nonexistent/libhiprtc.so");
    without_compiler("libm.so.6", "the run-time compiler is too old or no hipRTC");
}

/* A hipRTC that ends its process for the chip: found out in a child, once. */
static void test_crash(void)
{
    tile_kernel *k;
    CU_ASSERT_FATAL(open_hip(0x942));
    strcpy(fake->crash_arch, "gfx942");
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ctx, add(k, 200, NULL), TILE_ERROR_COMPILE);
        CHECK_TEXT(error_of(ctx),
            "hiprtc 13.0 cannot compile for gfx942 (tried in a child process); a newer ROCm can");
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_FATAL(open_hip(0x90a));
    strcpy(fake->crash_arch, "gfx942");
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, add(k, 200, NULL));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- kernels that the chip cannot take --------------------------------------------------------------- */

static void test_shared(void)
{
    static const char text[] =
        "kernel big(in f32 A[M, K], in f32 B[K, N], out f32 C[M, N]) grid (cdiv(M, 256), cdiv(N, 256))\n{\n"
        "    let (i, j) = program_id();\n    var acc = zeros([256, 256], f32);\n"
        "    for k in 0 .. cdiv(K, 128) { acc = mma(load(A[i*256 +: 256, k*128 +: 128], latency = 2), "
        "load(B[k*128 +: 128, j*256 +: 256], latency = 2), acc); }\n"
        "    store(C[i*256 +: 256, j*256 +: 256], acc);\n}\n";
    tile_kernel *k;
    CU_ASSERT_FATAL(open_hip(0x942));
    OK(ctx, kernel_of(ctx, text, "big", NULL, 0, &k));
    int64_t shape[2] = { 16, 16 };
    tile_tensor t[3] = { { buffer[0], shape, NULL, 2, TILE_F32 }, { buffer[1], shape, NULL, 2, TILE_F32 },
        { buffer[2], shape, NULL, 2, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "bytes of shared memory, hip:gfx942 has 65536");
    CHECK_TEXT(error_of(ctx), "test.tile:1:8");
    CU_ASSERT_EQUAL(fake->launches, 0);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What is taken instead of what was asked for is said, once a variant: smaller tiles where LDS does not hold
 * the declared ones, wider operands where the chip multiplies no OCP fp8, fewer stages than `latency`. Where
 * nothing is taken instead, nothing is said. */
typedef struct Heard {
    int performance;
    char text[4000];
} Heard;

static void hear(void *user, const tile_diagnostic *d)
{
    Heard *h = user;
    size_t n = strlen(h->text);
    if (d->severity != TILE_SEVERITY_PERFORMANCE) return;
    h->performance++;
    snprintf(h->text + n, sizeof h->text - n, "%s\n", d->message);
}

static void said(int arch, const char *text, tile_dtype type, const char *const *want, Heard *h)
{
    tile_kernel *k;
    int64_t shape[2] = { 16, 16 };
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    *h = (Heard){ 0 };
    d.on_diagnostic = hear;
    d.on_diagnostic_user = h;
    fake = fake_open(FAKE_HIP);
    fake->arch = arch;
    CU_ASSERT_FATAL(tile_context_create_error(&d, &ctx, NULL, 0) == TILE_OK);
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    tile_tensor t[3] = { { buffer[0], shape, NULL, 2, type }, { buffer[1], shape, NULL, 2, type },
        { buffer[2], shape, NULL, 2, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    for (int turn = 0; turn < 2; turn++) {
        OK(ctx, tile_launch(k, a, 3, NULL));
        for (; !turn && *want; want++) CHECK_TEXT(h->text, *want);
        if (!turn) h->performance = -h->performance; /* a second launch says nothing anew */
    }
    CU_ASSERT(h->performance <= 0);
    CU_ASSERT_EQUAL(fake->launches, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

#define PRODUCT(params, tile, latency) \
    "kernel k(in " params ", out f32 C[M, N]" tile \
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TM], f32);\n" \
    "    for k in 0 .. cdiv(K, 64) { acc = mma(load(A[i*TM +: TM, k*64 +: 64], latency = " latency \
    "), load(B[k*64 +: 64, j*TM +: TM], latency = " latency "), acc); }\n" \
    "    store(C[i*TM +: TM, j*TM +: TM], acc);\n}\n"

static void test_fallback(void)
{
    static const char large[] =
        PRODUCT("f32 A[M, K], in f32 B[K, N]", ", const int TM = 256) grid (cdiv(M, TM), cdiv(N, TM))\n{\n",
            "1") "tune k { TM in {32, 256}; key (M, N); }\n";
    static const char small[] = PRODUCT(
        "f32 A[M, K], in f32 B[K, N]", ", const int TM = 32) grid (cdiv(M, TM), cdiv(N, TM))\n{\n", "1");
    static const char fp8[] = PRODUCT("f8e4m3 A[M, K], in f8e4m3 B[K, N]",
        ", const int TM = 32) grid (cdiv(M, TM), cdiv(N, TM))\n{\n", "1");
    static const char deep[] = PRODUCT(
        "f16 A[M, K], in f16 B[K, N]", ", const int TM = 32) grid (cdiv(M, TM), cdiv(N, TM))\n{\n", "8");
    static const char *const smaller[] = { "as declared, k does not fit hip:gfx942: TM=32 is taken", NULL };
    static const char *const widened[] = {
        "hip:gfx942 has no matrix unit for f8e4m3: operands are widened to f16", NULL
    };
    static const char *const wide_bf16[] = {
        "hip:gfx90a has no matrix unit for f8e4m3: operands are widened to bf16", NULL
    };
    static const char *const clipped[] = { "8 stages are asked for and 3 are used: the tiles of this loop "
                                           "come by way of registers, which hold one step",
        NULL };
    static const char *const none[] = { NULL };
    Heard h;
    said(0x942, large, TILE_F32, smaller, &h);
    said(0x942, fp8, TILE_F8E4M3, widened, &h);
    said(0x90a, fp8, TILE_F8E4M3, wide_bf16, &h);
    said(0x90a, deep, TILE_F16, clipped, &h);
    said(0x942, small, TILE_F32, none, &h);
    CU_ASSERT(!strstr(h.text, "does not fit"));
    said(0x950, fp8, TILE_F8E4M3, none, &h);
    CU_ASSERT(!strstr(h.text, "widened"));
}

/* HIP counts threads in 32 bits: 2^26 programs of 64 threads and more are too many, fewer are not. */
static void test_threads(void)
{
    static const char text[] = "kernel fill(inout f32 Y[N], index m) grid (m) { let i = program_id(); "
                               "store(Y[i*64 +: 64], full([64], 1.0, f32)); }\n";
    tile_kernel *k;
    int64_t n = 64;
    tile_tensor t = { buffer[0], &n, NULL, 1, TILE_F32 };
    CU_ASSERT_FATAL(open_hip(0x942));
    OK(ctx, kernel_of(ctx, text, "fill", NULL, 0, &k));
    CHECK_STATUS(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t), tile_arg_int(1 << 26) }, 2, NULL),
        TILE_ERROR_GRID);
    CHECK_TEXT(error_of(ctx), "the grid of 67108864 programs is too large for hip:gfx942");
    CHECK_TEXT(
        error_of(ctx), "threads each, it takes 2^32 threads or more, and HIP runs fewer in one launch");
    CU_ASSERT_EQUAL(fake->launches, 0);
    OK(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t), tile_arg_int((1 << 22) - 1) }, 2, NULL));
    CU_ASSERT_EQUAL(fake->last.grid[0], (1 << 22) - 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* The launch finds it out; where all extents are constants, the compiler. */
static void test_remap(void)
{
    static const char text[] = "kernel k(in f32 X[N], out f32 Y[N], const int TILES = 0) grid (TILES > 0 ? "
                               "TILES : cdiv(N, 16))\n    remap (w) = (w%8)*(num_programs()/8) + w/8\n"
                               "{ let i = program_id(); store(Y[i*16 +: 16], load(X[i*16 +: 16])); }\n";
    int64_t n = 1040;
    tile_tensor x = { buffer[0], &n, NULL, 1, TILE_F32 }, y = { buffer[1], &n, NULL, 1, TILE_F32 };
    tile_arg a[2] = { tile_arg_tensor(&x), tile_arg_tensor(&y) };
    tile_kernel *k;
    CU_ASSERT_FATAL(open_hip(0x942));
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    CHECK_STATUS(ctx, tile_launch(k, a, 2, NULL), TILE_ERROR_REMAP);
    CHECK_TEXT(
        error_of(ctx), "the remap is no permutation of the 65 programs: programs 1 and 64 both become 8");
    CU_ASSERT_EQUAL(fake->launches, 0);
    n = 1024;
    OK(ctx, tile_launch(k, a, 2, NULL));
    CU_ASSERT_EQUAL(fake->launches, 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- every call of the driver and the compiler fails once -------------------------------------------- */

static const char *const calls[] = {
#define FN(field, args, cuda, hip, required) hip,
#include "runtime/drivers/gpu.def"
#undef FN
    "hipGetDevicePropertiesR0600",
    "hiprtcCreateProgram",
    "hiprtcCompileProgram",
};

/* All that a program does: a context, a compilation, copies, launches, streams, events. The first status that
 * is not good. */
static tile_status everything(char *why, size_t size)
{
    tile_kernel *k = NULL;
    void *p = NULL, *pinned = NULL, *s = NULL, *e = NULL;
    double ms;
    tile_context_desc d = fake_desc("hip", FAKE_HIP);
    tile_status st = tile_context_create_error(&d, &ctx, why, size);
    if (st) return st;
    *why = 0;
    st = kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k);
    if (!st) st = add(k, 200, NULL);
    if (!st) st = tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 64, &p);
    if (!st) st = tile_memory_alloc(ctx, TILE_MEMORY_PINNED, 64, &pinned);
    if (!st) st = tile_stream_create(ctx, &s);
    if (!st) st = tile_event_create(ctx, &e);
    if (!st) st = tile_copy(ctx, p, pinned, 64, s);
    if (!st) st = tile_event_record(ctx, e, s);
    if (!st) st = tile_stream_wait(ctx, NULL, e);
    if (!st) st = tile_event_synchronize(ctx, e);
    if (!st) st = tile_event_elapsed(ctx, e, e, &ms);
    if (!st) st = add(k, 300, s);
    if (!st) st = tile_stream_synchronize(ctx, s);
    if (st) snprintf(why, size, "%s", error_of(ctx));
    tile_status freed[] = { e ? tile_event_destroy(ctx, e) : TILE_OK,
        s ? tile_stream_destroy(ctx, s) : TILE_OK,
        pinned ? tile_memory_free(ctx, TILE_MEMORY_PINNED, pinned) : TILE_OK,
        p ? tile_memory_free(ctx, TILE_MEMORY_DEVICE, p) : TILE_OK };
    for (int i = 0; i < 4; i++)
        if (!st && freed[i]) {
            st = freed[i];
            snprintf(why, size, "%s", error_of(ctx));
        }
    if (k) tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    return st;
}

static void test_each_call(void)
{
    static const int codes[] = { 2, 719, 999 }; /* out of memory, a fault, an unknown code */
    char why[4096];
    int failed = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int k = 0; k < 3 && *calls[c]; k++) {
            int at = 0;
            for (tile_status st = TILE_ERROR_DRIVER; st && at < 40;
                at++) { /* Fail its first call, then its second, until there are no more. */
                fake = fake_open(FAKE_HIP);
                fake->arch = 0x942;
                snprintf(fake->fail_name, sizeof fake->fail_name, "%s", calls[c]);
                fake->fail_after = at;
                fake->fail_code = codes[k];
                st = everything(why, sizeof why);
                if (st && (!*why || !strcmp(tile_status_name(st), ""))) {
                    fprintf(stderr, "%s, call %d, code %d: %s without a text\n", calls[c], at, codes[k],
                        tile_status_name(st));
                    CU_FAIL("no text");
                }
                if (st && !strncmp(calls[c], "hiprtc", 6)) {
                    failed++;
                    break;
                } /* Tried in a child process, which has its own state. */
                if (st && fake->fail_after >= 0) {
                    fprintf(stderr, "%s, call %d: not reached, yet %s: %s\n", calls[c], at,
                        tile_status_name(st), why);
                    CU_FAIL("not reached");
                }
                failed += st != TILE_OK;
                if (fake->fail_after >= 0) break;
                if (!st) st = TILE_ERROR_DRIVER; /* this call may fail; look at the next */
            }
            fake->fail_name[0] = 0;
        }
    fprintf(stderr, "%d failures ", failed);
    CU_ASSERT(failed > 60);
    fake = fake_open(FAKE_HIP);
    fake->arch = 0x942;
    CU_ASSERT_EQUAL(everything(why, sizeof why), TILE_OK);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

UNIT_MAIN("hip, bad input", { "libraries", test_libraries }, { "compiler", test_compiler },
    { "crash", test_crash }, { "shared", test_shared }, { "fallback", test_fallback },
    { "threads", test_threads }, { "remap", test_remap }, { "each_call", test_each_call })
#else
UNIT_MAIN("hip, bad input", { "libraries", test_libraries })
#endif
