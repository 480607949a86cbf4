/* test_hopper.c: launches of products on a fake H100: tensor maps that the launch encodes, and grids of whole
 * clusters. */
#include "api.h"
#include "runtime/drivers/gpu_facts.h"

static FakeState *fake;
static tile_context *ctx;

static void open_context(void)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    if (tile_context_create(&d, &ctx)) exit(1);
}

static void close_context(void)
{
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
}

static const char gemm[] =
    "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 128), cdiv(N, 128)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([128, 128], f32);\n    for k in 0 .. cdiv(K, 64) {\n"
    "        acc = mma(load(A[i*128 +: 128, k*64 +: 64], latency = 3), load(B[k*64 +: 64, j*128 +: 128], "
    "latency = 3), acc);\n    }\n"
    "    store(C[i*128 +: 128, j*128 +: 128], f16(acc));\n}\n";

/* A product on sm_90a goes through tensor maps, encoded at each launch from the tensors; an address that TMA
 * cannot take selects other code. */
static void test_tensor_maps(void)
{
    static _Alignas(256) uint16_t a[512 * 264], b[256 * 512], c[512 * 512];
    tile_kernel *k;
    open_context();
    OK(ctx, kernel_of(ctx, gemm, "gemm", NULL, 0, &k));
    int64_t sa[2] = { 512, 256 }, padded[2] = { 264, 1 }, sb[2] = { 256, 512 }, sc[2] = { 512, 512 };
    tile_tensor t[3] = { { a, sa, padded, 2, TILE_F16 }, { b, sb, NULL, 2, TILE_F16 },
        { c, sc, NULL, 2, TILE_F16 } };
    tile_arg args[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    OK(ctx, tile_launch(k, args, 3, NULL));
    CU_ASSERT(fake->tensor_maps >= 2);
    int maps = fake->tensor_maps;
    OK(ctx, tile_launch(k, args, 3, NULL));
    CU_ASSERT_EQUAL(fake->tensor_maps, maps); /* the same tensors: the maps are kept */
    t[0].data = a + 8;
    OK(ctx, tile_launch(k, args, 3, NULL));
    CU_ASSERT_EQUAL(fake->tensor_maps, maps + 1); /* one has moved */
    t[0].data = a + 16;
    strcpy(fake->fail_name, "cuTensorMapEncodeTiled");
    fake->fail_after = 0;
    fake->fail_code = 1;
    CHECK_STATUS(ctx, tile_launch(k, args, 3, NULL), TILE_ERROR_DRIVER);
    CHECK_TEXT(error_of(ctx), "encoding a tensor map");
    fake->fail_name[0] = 0;
    t[0].data = a + 1; /* 2 bytes beyond: A is read by plain loads and has no tensor map. */
    maps = fake->tensor_maps;
    OK(ctx, tile_launch(k, args, 3, NULL));
    CU_ASSERT(fake->tensor_maps - maps <= 1);
    CU_ASSERT_EQUAL(fake->launches, 4);
    tile_kernel_destroy(k);
    close_context();
}

/* Programs that load together: a CTA for each, but no more than multiprocessors (the device has four), in
 * whole clusters, of which the last one along the axis may lack programs, and at least one cluster. */
static void test_clusters(void)
{
    static const struct {
        int cluster;
        int64_t m, n;
        unsigned ctas;
    } rows[] = {
        { 1, 128, 128, 1 },
        { 2, 128, 128, 2 },
        { 2, 384, 128, 4 },
        { 2, 128, 256, 4 }, /* no program has a neighbour along the axis */
        { 1, 512, 512, 4 },
        { 2, 512, 512, 4 },
        { 4, 512, 512, 4 },
        { 8, 512, 512, 8 },
    };
    static _Alignas(256) uint16_t a[512 * 256], b[256 * 512], c[512 * 512];
    open_context();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        tile_kernel *k;
        OK(ctx, kernel_of(ctx, gemm, "gemm",
                    (tile_binding[]){ { "cluster", TILE_BIND_INT, { .i = rows[r].cluster } } }, 1, &k));
        int64_t sa[2] = { rows[r].m, 256 }, sb[2] = { 256, rows[r].n }, sc[2] = { rows[r].m, rows[r].n };
        tile_tensor t[3] = { { a, sa, NULL, 2, TILE_F16 }, { b, sb, NULL, 2, TILE_F16 },
            { c, sc, NULL, 2, TILE_F16 } };
        OK(ctx, tile_launch(k,
                    (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3,
                    NULL));
        CU_ASSERT_EQUAL(fake->last.grid[0], rows[r].ctas);
        if (fake->last.grid[0] != rows[r].ctas)
            printf(" [cluster %d, %lld x %lld: %u CTAs] ", rows[r].cluster, (long long)rows[r].m,
                (long long)rows[r].n, fake->last.grid[0]);
        tile_kernel_destroy(k);
    }
    close_context();
}

/* A map has at least one element along each axis, so there is none of a tensor without elements. */
static void test_shapes_of_maps(void)
{
    const int axes[] = { 1, 0 };
    const int64_t whole[] = { 0, 0 }, strides[] = { 16, 1 };
    uint64_t extents[2], apart[2];
    CU_ASSERT_TRUE(gpu_map_shape(2, axes, whole, 2, (const int64_t[]){ 3, 16 }, strides, extents, apart));
    CU_ASSERT_EQUAL(extents[0], 16);
    CU_ASSERT_EQUAL(extents[1], 3);
    CU_ASSERT_EQUAL(apart[0], 32);
    CU_ASSERT_FALSE(gpu_map_shape(2, axes, whole, 2, (const int64_t[]){ 0, 16 }, strides, extents, apart));
    CU_ASSERT_FALSE(gpu_map_shape(2, axes, whole, 2, (const int64_t[]){ 3, 0 }, strides, extents, apart));
}

UNIT_MAIN("hopper", { "shapes_of_maps", test_shapes_of_maps }, { "tensor_maps", test_tensor_maps },
    { "clusters", test_clusters })
