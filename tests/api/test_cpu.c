/* test_cpu.c: the CPU as a device: memory, copies, events, launches with their results, checked kernels. */
#include "api.h"

/* An allocation beyond all memory is a case here, not an accident. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static tile_context *ctx;

static void open_cpu(uint32_t flags, int threads)
{
    tile_context_desc d = {
        .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE | flags, .threads = threads
    };
    if (tile_context_create(&d, &ctx)) exit(1);
}

static void test_memory(void)
{
    void *p, *stream, *a, *b;
    double ms = -1;
    open_cpu(0, 0);
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 100, &p));
    CU_ASSERT_EQUAL((uintptr_t)p % 256, 0);
    OK(ctx, tile_fill(ctx, p, 7, 100, NULL));
    char back[100];
    OK(ctx, tile_stream_create(ctx, &stream));
    OK(ctx, tile_event_create(ctx, &a));
    OK(ctx, tile_event_create(ctx, &b));
    CHECK_STATUS(ctx, tile_event_elapsed(ctx, a, b, &ms), TILE_ERROR_INVALID_ARGUMENT);
    OK(ctx, tile_event_record(ctx, a, stream));
    OK(ctx, tile_copy(ctx, back, p, 100, stream));
    OK(ctx, tile_event_record(ctx, b, stream));
    OK(ctx, tile_event_query(ctx, b));
    OK(ctx, tile_event_synchronize(ctx, b));
    OK(ctx, tile_stream_wait(ctx, stream, b));
    OK(ctx, tile_event_elapsed(ctx, a, b, &ms));
    CU_ASSERT(ms >= 0 && ms < 1000);
    CU_ASSERT(back[0] == 7 && back[99] == 7);
    OK(ctx, tile_stream_synchronize(ctx, stream));
    OK(ctx, tile_context_synchronize(ctx));
    OK(ctx, tile_event_destroy(ctx, a));
    OK(ctx, tile_event_destroy(ctx, b));
    OK(ctx, tile_stream_destroy(ctx, stream));
    OK(ctx, tile_memory_free(ctx, TILE_MEMORY_DEVICE, p));
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_PINNED, 0, &p));
    CU_ASSERT_PTR_NULL(p);
    CHECK_STATUS(
        ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, (size_t)1 << 62, &p), TILE_ERROR_OUT_OF_MEMORY);
    CU_ASSERT_PTR_NULL(p);
    CHECK_STATUS(ctx, tile_copy(ctx, NULL, back, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_memory_alloc(ctx, (tile_memory)7, 4, &p), TILE_ERROR_INVALID_ARGUMENT);
    tile_context_destroy(ctx);
}

static void test_copies(void)
{
    float m[4][5], column[4];
    open_cpu(0, 0);
    for (int i = 0; i < 20; i++) m[i / 5][i % 5] = (float)i;
    OK(ctx, tile_copy_2d(ctx, column, 4, &m[0][2], 20, 4, 4, NULL)); /* the third column */
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(column[i], 5 * i + 2);
    CHECK_STATUS(ctx, tile_copy_2d(ctx, column, 2, m, 20, 4, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    DLTensor *t;
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ 4, 1 }, &t));
    DLTensor view = *t;
    int64_t strides[2] = { 5, 1 };
    view.data = m;
    view.strides = strides;
    view.byte_offset = 4 * 4;
    OK(ctx, tile_tensor_copy(ctx, t, &view, NULL));
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(((float *)t->data)[i], 5 * i + 4);
    int64_t other[2] = { 4, 2 };
    view.shape = other;
    CHECK_STATUS(ctx, tile_tensor_copy(ctx, t, &view, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "axis 1 has 2 elements here, 1 there");
    view = *t;
    view.dtype.bits = 16;
    CHECK_STATUS(ctx, tile_tensor_copy(ctx, t, &view, NULL), TILE_ERROR_DTYPE);
    tile_tensor_destroy(ctx, t);
    /* Three axes that merge into two, and three that do not. */
    DLTensor *cube, *part;
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_I32, 3, (int64_t[]){ 3, 4, 5 }, &cube));
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_PINNED, TILE_I32, 3, (int64_t[]){ 3, 2, 5 }, &part));
    for (int i = 0; i < 60; i++) ((int32_t *)cube->data)[i] = i;
    view = *cube;
    view.shape = part->shape;
    OK(ctx, tile_tensor_copy(ctx, part, &view, NULL));
    CU_ASSERT_EQUAL(((int32_t *)part->data)[29], 2 * 20 + 5 + 4);
    int64_t thin[3] = { 3, 2, 2 };
    view.shape = thin;
    DLTensor small = *part;
    small.shape = thin;
    CHECK_STATUS(ctx, tile_tensor_copy(ctx, &small, &view, NULL), TILE_ERROR_UNSUPPORTED);
    tile_tensor_destroy(ctx, cube);
    tile_tensor_destroy(ctx, part);
    CHECK_STATUS(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 9, (int64_t[9]){ 1 }, &cube),
        TILE_ERROR_SHAPE);
    CHECK_STATUS(ctx,
        tile_tensor_create(
            ctx, TILE_MEMORY_DEVICE, TILE_F64, 2, (int64_t[]){ (int64_t)1 << 40, (int64_t)1 << 40 }, &cube),
        TILE_ERROR_SHAPE);
    CHECK_STATUS(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_NONE, 0, NULL, &cube),
        TILE_ERROR_INVALID_ARGUMENT);
    tile_context_destroy(ctx);
}

#ifndef HAVE_CPU
#define HAVE_CPU 0
#endif

static void test_launch(void)
{
    if (!HAVE_CPU) return; /* a build without the CPU backend */
    static const char text[] = "kernel axpy(in T X[M, N], inout T Y[M, N], f32 a, i32 keep, const type T = "
                               "f32) grid (cdiv(N, 64), M) {\n"
                               "    let (j, i) = program_id();\n    let x = f32(load(X[i, j*64 +: 64]));\n   "
                               " let y = f32(load(Y[i, j*64 +: 64]));\n"
                               "    store(Y[i, j*64 +: 64], T(a*x + (keep != 0 ? y : y*0.0)));\n}\n";
    tile_kernel *k;
    for (int threads = 1; threads <= 3; threads += 2) {
        open_cpu(0, threads);
        OK(ctx, kernel_of(ctx, text, "axpy", NULL, 0, &k));
        int64_t shape[2] = { 7, 100 }, row[2] = { 120, 1 }, column[2] = { 1, 7 };
        float x[7 * 120], y[7 * 100];
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 100; j++) {
                x[i * 120 + j] = (float)(i + j);
                y[j * 7 + i] = (float)(i * j);
            }
        tile_tensor tx = { x, shape, row, 2, TILE_F32 },
                    ty = { y, shape, column, 2, TILE_F32 }; /* padded rows; transposed */
        tile_arg a[4] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty), tile_arg_float(0.5), tile_arg_int(1) };
        OK(ctx, tile_launch(k, a, 4, NULL));
        int bad = 0;
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 100; j++) bad += y[j * 7 + i] != (float)(i * j) + 0.5f * (float)(i + j);
        CU_ASSERT_EQUAL(bad, 0);
        a[3] = tile_arg_int((int64_t)1 << 40);
        CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_DTYPE);
        CHECK_TEXT(error_of(ctx), "argument 4 (keep): 1099511627776 does not fit i32");
        a[3] = tile_arg_float(1);
        CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_DTYPE);
        tile_kernel_destroy(k);
        tile_context_destroy(ctx);
    }
}

/* Code counts programs in 32 bits: one program more than that is refused, whatever the axes. */
static void test_grid(void)
{
    static const char text[] = "kernel g(inout f32 Y[1], i64 a, i64 b) grid (a, b) { let (i, j) = "
                               "program_id(); if i + j < 0 { store(Y[0], 1.0); } }";
    static const struct {
        int64_t a, b;
        const char *why;
    } grids[] = { { (int64_t)1 << 31, 1,
                      "the grid of 2147483648 x 1 (2147483648 programs) is too large for cpu; at most "
                      "2147483647 programs run in one launch" },
        { 65536, 32768, "65536 x 32768 (2147483648 programs)" },
        { (int64_t)1 << 40, (int64_t)1 << 40, "1099511627776 x 1099511627776 programs" },
        { INT64_MAX, 2, "9223372036854775807 x 2 programs" }, { INT64_MAX, 0, NULL }, { -5, INT64_MAX, NULL },
        { 1000, 1000, NULL } };
    float y = 0;
    int64_t one = 1, done = 1, total = 1;
    tile_kernel *k;
    tile_tensor t = { &y, &one, NULL, 1, TILE_F32 };
    open_cpu(0, 2);
    OK(ctx, kernel_of(ctx, text, "g", NULL, 0, &k));
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        tile_arg a[3] = { tile_arg_tensor(&t), tile_arg_int(grids[i].a), tile_arg_int(grids[i].b) };
        CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), grids[i].why ? TILE_ERROR_GRID : TILE_OK);
        if (grids[i].why) CHECK_TEXT(error_of(ctx), grids[i].why);
    }
    OK(ctx, tile_context_progress(ctx, &done, &total));
    CU_ASSERT(done == 0 && total == 0); /* nothing runs */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_checked(void)
{
    if (!HAVE_CPU) return;
    static const char text[] =
        "kernel g(in f32 X[N], in i32 I[M], out f32 Y[M]) grid (cdiv(M, 8)) {\n    let i = program_id();\n"
        "    let at = load(I[i*8 +: 8], pad = 0);\n    store(Y[i*8 +: 8], gather(X[at]));\n}\n";
    tile_kernel *k;
    float x[16] = { 0 }, y[20];
    int32_t at[20] = { 0 };
    int64_t n = 16, m = 20;
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { at, &m, NULL, 1, TILE_I32 },
        { y, &m, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    for (int checked = 0; checked < 2; checked++) {
        open_cpu(checked ? TILE_CONTEXT_CHECKED : 0, 2);
        OK(ctx, kernel_of(ctx, text, "g", NULL, 0, &k));
        at[17] = 3;
        OK(ctx, tile_launch(k, a, 3, NULL));
        at[17] = 16; /* one past the end, in the third program */
        CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), checked ? TILE_ERROR_CHECK : TILE_OK);
        if (checked) {
            CHECK_TEXT(error_of(ctx), "test.tile:4: g");
            CHECK_TEXT(error_of(ctx), "(program 2)");
        }
        tile_kernel_destroy(k);
        tile_context_destroy(ctx);
    }
}

/* What test_print's callback heard. */
typedef struct Heard {
    int lines, whole, kernels;
} Heard;

static void hear(void *user, const tile_diagnostic *d)
{
    Heard *h = user;
    long i, a, b;
    char end[8];
    if (d->severity != TILE_SEVERITY_PRINT) return;
    h->lines++;
    h->whole += sscanf(d->message, "program %ld [0.5, %ld.5] %ld 1%7s", &i, &a, &b, end) == 3 && a == i + 1 &&
                b == -i && !strchr(d->message, '\n') && strlen(d->rendered) == strlen(d->message) + 1;
    h->kernels += !strcmp(d->kernel, "p");
}

/* Whole lines to the callback whatever the threads do, nothing to standard output, nothing at all unless
 * asked for. */
static void test_print(void)
{
    if (!HAVE_CPU) return;
    static const char good[] =
        "kernel p(out i32 Y[N]) grid (N) {\n    let i = program_id();\n    store(Y[i], i32(i));\n"
        "    print(\"program\", i, f32(arange(2)) * f32(i + 1) + 0.5, -i, i == i);\n}\n";
    int32_t y[300];
    int64_t n = 300;
    tile_tensor t = { y, &n, NULL, 1, TILE_I32 };
    tile_arg a = tile_arg_tensor(&t);
    tile_kernel *k;
    for (uint32_t flags = 0; flags <= TILE_CONTEXT_PRINT; flags += TILE_CONTEXT_PRINT)
        for (int silent = 0; silent < 2; silent++) {
            Heard h = { 0 };
            tile_context_desc d = { .struct_size = sizeof d,
                .target = "cpu",
                .flags = TILE_CONTEXT_NO_CACHE | flags,
                .threads = 4,
                .on_diagnostic = silent ? NULL : hear,
                .on_diagnostic_user = &h };
            OK(NULL, tile_context_create(&d, &ctx));
            OK(ctx, kernel_of(ctx, good, "p", NULL, 0, &k));
            OK(ctx, tile_launch(k, &a, 1, NULL));
            int want = flags && !silent ? 300 : 0;
            CU_ASSERT_EQUAL(h.lines, want);
            CU_ASSERT_EQUAL(h.whole, want);
            CU_ASSERT_EQUAL(h.kernels, want);
            CU_ASSERT_EQUAL(y[299], 299);
            tile_kernel_destroy(k);
            tile_context_destroy(ctx);
        }
}
/* TILE_CPU_LEVEL: the lowest level gives the same results; one that does not exist opens no context. */
static void test_level(void)
{
    static const char text[] = "kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 64))\n"
                               "{ let i = program_id() * 64; store(Y[i +: 64], load(X[i +: 64]) * 2.0); }\n";
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    char error[200] = "", callers[40] = "";
    if (getenv("TILE_CPU_LEVEL")) snprintf(callers, sizeof callers, "%s", getenv("TILE_CPU_LEVEL"));
    setenv("TILE_CPU_LEVEL", "v9", 1);
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, error, sizeof error), TILE_ERROR_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(ctx);
    CU_ASSERT(strstr(error, "TILE_CPU_LEVEL: there is no level `v9`; there are any") != NULL);
    setenv("TILE_CPU_LEVEL", "any", 1);
    open_cpu(0, 1);
    tile_module *m;
    tile_kernel *k;
    float x[100], y[100] = { 0 };
    int64_t n = 100;
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    OK(ctx, tile_module_load_memory(ctx, "level.tile", text, sizeof text - 1, NULL, &m));
    OK(ctx, tile_kernel_create(m, "k", NULL, 0, &k));
    tile_tensor t[2] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 } };
    tile_arg a[2] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]) };
    OK(ctx, tile_launch(k, a, 2, NULL));
    for (int i = 0; i < 100; i++) CU_ASSERT_EQUAL(y[i], 2.0f * (float)i);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
    if (callers[0]) setenv("TILE_CPU_LEVEL", callers, 1);
    else unsetenv("TILE_CPU_LEVEL");
}

UNIT_MAIN("cpu", { "memory", test_memory }, { "copies", test_copies }, { "launch", test_launch },
    { "grid", test_grid }, { "checked", test_checked }, { "print", test_print }, { "level", test_level })
