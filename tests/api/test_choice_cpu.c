/* test_choice_cpu.c: the configuration of a launch on the CPU that no tuning table speaks of. */
#include "choice_notes.h"

static tile_context *ctx;

/* On the CPU `auto` constants are chosen as well, and programs of any size compute the same. */
static void test_auto_cpu(void)
{
    static float x[5000], y[5000];
    static const int64_t sizes[] = { 1, 31, 1000, 4999 };
    tile_kernel *k;
    Notes notes = { 0 };
    tile_context_desc cd = { .struct_size = sizeof cd,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE,
        .on_diagnostic = note,
        .on_diagnostic_user = &notes };
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, auto_text, "copy", NULL, 0, &k));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t n = sizes[s], wrong = 0;
        tile_tensor in = { x, &n, NULL, -1, TILE_NONE }, out = { y, &n, NULL, -1, TILE_NONE };
        for (int64_t i = 0; i < 5000; i++) x[i] = (float)(i % 97), y[i] = -1;
        OK(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&in), tile_arg_tensor(&out) }, 2, NULL));
        for (int64_t i = 0; i < 5000; i++) wrong += y[i] != (i < n ? x[i] + 1 : -1);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    CU_ASSERT_EQUAL(notes.n, 4);
    CHECK_TEXT(notes.last, "BLOCK=");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What a launch on the CPU takes for a product of one row by weights [n, n] of 8 bits; "" where it is as
 * declared. Nothing is launched, so the tensors have no memory. */
static const char *choice_on_cpu(uint32_t flags, int64_t n, Notes *notes)
{
    static tile_variant_info v;
    static char text[512];
    int64_t row[2] = { 1, n }, weights[2] = { n, n };
    tile_context_desc cd = { .struct_size = sizeof cd, .target = "cpu", .threads = 1 };
    void *memory = (void *)4096;
    tile_tensor t[3] = { { memory, row, NULL, -1, TILE_NONE }, { memory, weights, NULL, -1, TILE_NONE },
        { memory, row, NULL, -1, TILE_NONE } };
    tile_binding b[] = { { "T", TILE_BIND_TEXT, { .text = "i8" } },
        { "ACC", TILE_BIND_TEXT, { .text = "i32" } }, { "TO", TILE_BIND_TEXT, { .text = "i32" } } };
    tile_module *m;
    tile_kernel *k;
    cd.flags = TILE_CONTEXT_NO_CACHE | flags;
    cd.on_diagnostic = note;
    cd.on_diagnostic_user = notes;
    v = (tile_variant_info){ .struct_size = sizeof v };
    if (tile_context_create(&cd, &ctx)) return "no context";
    OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/gemm.tile",
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = "" }, &m));
    OK(ctx, tile_kernel_create(m, "gemm", b, 3, &k));
    OK(ctx,
        tile_kernel_variant(k,
            (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3, &v));
    snprintf(text, sizeof text, "%s", v.specialization);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
    return text;
}

/* A sealed context searches for nothing. On the CPU what was compiled as declared serves other extents. */
static void test_sealed_cpu(void)
{
    static const char text[] =
        "kernel copy(in f32 X[N], out f32 Y[N], const int BLOCK = 64) grid (cdiv(N, BLOCK)) {\n"
        "    let i = program_id();\n    store(Y[i*BLOCK +: BLOCK], load(X[i*BLOCK +: BLOCK]) + 1.0);\n}\n"
        "tune copy { BLOCK in {64, 128}; }\n";
    static float x[512], y[512];
    tile_kernel *k;
    tile_context_desc cd = { .struct_size = sizeof cd, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, text, "copy", NULL, 0, &k));
    for (int64_t n = 128; n <= 512; n *= 2) {
        tile_tensor t[2] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE } };
        OK(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]) }, 2, NULL));
        CU_ASSERT_EQUAL(y[n - 1], 1);
        OK(ctx, tile_context_seal(ctx, 1));
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Of the configuration that the text names; 0: it names none. */
static long columns(const char *text)
{
    const char *at = strstr(text, "TN=");
    return at ? strtol(at + 3, NULL, 10) : 0;
}

/* Rows of 128 bytes are read slowly, how slowly depends on the processor; a launch of little work is not
 * worth other code. */
static void test_cpu(void)
{
    Notes notes = { 0 };
    CU_ASSERT(columns(choice_on_cpu(0, 4096, &notes)) >= 256);
    CU_ASSERT(columns(notes.last) >= 256);
    CU_ASSERT_PTR_NULL(strstr(choice_on_cpu(0, 512, &notes), "TN="));
    CHECK_TEXT(notes.last, "as declared");
    CU_ASSERT_EQUAL(notes.n, 2);
    CU_ASSERT_PTR_NULL(strstr(choice_on_cpu(TILE_CONTEXT_AS_DECLARED, 4096, &notes), "TN="));
    CU_ASSERT_EQUAL(notes.n, 2);
}

UNIT_MAIN("choice_cpu", { "auto_cpu", test_auto_cpu }, { "cpu", test_cpu }, { "sealed_cpu", test_sealed_cpu })
