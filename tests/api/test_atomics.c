/* test_atomics.c: launches whose atomics change small tensors, on a fake CUDA device: bounds of extents in
 * the key, and CTAs that run many programs. */
#include "api.h"

static const char counts[] =
    "kernel counts(in i32 X[N], inout i32 COUNT[BINS], const int T = 1024) grid (cdiv(N, T)) {\n"
    "    let i = program_id();\n    atomic_add(COUNT[load(X[i*T +: T], pad = -1)], 1);\n}\n";

static void test_bounds(void)
{
    static const struct {
        int64_t n, bins;
        int compiles, grid;
        const char *says;
    } cases[] = { { 1 << 20, 100, 1, 0, "; BINS<=112" }, { 1 << 20, 101, 1, 0, "; BINS<=112" },
        { 1 << 20, 113, 2, 0, "; BINS<=128" }, { 1 << 20, 31, 3, 0, "; BINS<=32" },
        { 1 << 20, 40001, 4, 1024, "; BINS<=40960" }, { 1 << 20, 65537, 5, 1024, NULL },
        { 1 << 20, 70001, 5, 1024, NULL }, { 2048, 100, 5, 2, "; BINS<=112" } };
    char *memory = malloc(1 << 24); /* the fake device touches nothing */
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    tile_context *ctx;
    tile_kernel *k;
    CU_ASSERT_FATAL(memory && tile_context_create(&d, &ctx) == TILE_OK);
    OK(ctx, kernel_of(ctx, counts, "counts", NULL, 0, &k));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tile_tensor tx = { memory, &cases[c].n, NULL, 1, TILE_I32 },
                    ty = { memory + (1 << 23), &cases[c].bins, NULL, 1, TILE_I32 };
        tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
        OK(ctx, tile_launch(k, a, 2, NULL));
        CU_ASSERT_EQUAL(fake->compiles, cases[c].compiles);
        if (cases[c].grid) CU_ASSERT_EQUAL(fake->last.grid[0], cases[c].grid);
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_kernel_variant(k, a, 2, &v));
        if (cases[c].says) CHECK_TEXT(v.specialization, cases[c].says);
        else CU_ASSERT_PTR_NULL(strstr(v.specialization, "BINS<="));
        /* of each of the four multiprocessors at most 1536 threads, where words are gathered */
        if (!cases[c].grid) CU_ASSERT(fake->last.grid[0] * fake->last.block[0] <= 4 * 1536);
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    free(memory);
}

/* Tensors that cannot be gathered: whatever their extents, there is one variant. */
static void test_unbounded(void)
{
    static const char head[] = "kernel counts(in i32 X[N], inout i32 COUNT[BINS], const int T = 256)\n"
                               "grid (cdiv(N, T)) { let i = program_id(); let x = load(X[i*T +: T]); ",
                      *const bodies[] = { "atomic_add(COUNT[0 +: T], x);",
                          "atomic_add(COUNT[x], 1, order = release);",
                          "atomic_add(COUNT[x], 1); store(COUNT[0], 1);", "atomic_exch(COUNT[x], 1);",
                          "atomic_add(COUNT[x], gather(COUNT[x]));" };
    int64_t n = 1 << 16;
    char *memory = malloc(1 << 20);
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    tile_context *ctx;
    CU_ASSERT_FATAL(memory && tile_context_create(&d, &ctx) == TILE_OK);
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
        char text[512] = "";
        tile_kernel *k;
        strcat(strcat(strcat(text, head), bodies[b]), " }");
        OK(ctx, kernel_of(ctx, text, "counts", NULL, 0, &k));
        int before = fake->compiles;
        for (int64_t bins = 33; bins < 1000; bins += 100) {
            tile_tensor tx = { memory, &n, NULL, 1, TILE_I32 },
                        ty = { memory + (1 << 19), &bins, NULL, 1, TILE_I32 };
            tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
            OK(ctx, tile_launch(k, a, 2, NULL));
        }
        CU_ASSERT_EQUAL(fake->compiles, before + 1);
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    free(memory);
}

UNIT_MAIN("atomics", { "bounds", test_bounds }, { "unbounded", test_unbounded })
