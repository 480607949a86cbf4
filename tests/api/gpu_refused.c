/* gpu_refused.c: launches and contexts that libtile refuses on a real device: bad tensors, streams of other
 * contexts, devices and shared memory that are not there. */
#include "gpu.h"

void test_refused(void)
{
    Vectors v = make_vectors(1000);
    tile_kernel *k;
    int64_t n = 1000, far = (int64_t)1 << 44;
    tile_tensor t[3];
    tile_arg a[3];
    for (int i = 0; i < 3; i++) {
        t[i] = (tile_tensor){ (i == 0 ? v.x : i == 1 ? v.y : v.z)->data, &n, NULL, 1, TILE_F32 };
        a[i] = tile_arg_tensor(&t[i]);
    }
    void *z = t[2].data;
    OK(ctx, tile_launch(add, a, 3, NULL));
    t[2].data = NULL;
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_INVALID_ARGUMENT);
    t[2].data = (char *)z + 2;
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_ALIGNMENT);
    t[2].data = t[0].data;
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_OVERLAP);
    for (int i = 0; i < 3; i++)
        t[i] = (tile_tensor){ (void *)((uintptr_t)(i + 1) << 50), &far, NULL, 1, TILE_F32 };
    tile_binding one[] = { { "BLOCK", TILE_BIND_INT,
        { .i = 2048 } } }; /* long enough that a program does one block */
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", one, 1, &k));
    CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), TILE_ERROR_GRID);
    CHECK_TEXT(error_of(ctx), "8589934592 programs");
    tile_kernel_destroy(k);
    CU_ASSERT_EQUAL(wrong(&v, NULL), 0);
    drop_vectors(&v);
}

void test_other_context(void)
{
    void *other = NULL, *stream = NULL, *now = NULL;
    Vectors v = make_vectors(1000);
    OK(ctx, launch(&v, NULL));
    CU_ASSERT_EQUAL_FATAL(CU("cuCtxCreate_v2", &other, 0u, 0), 0); /* and current */
    CU_ASSERT_EQUAL_FATAL(CU("cuStreamCreate", &stream, 1u), 0);
    CHECK_STATUS(ctx, launch(&v, stream), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "vector_add: the stream belongs to another context than the kernel's");
    OK(ctx, launch(&v, NULL));
    CU("cuCtxGetCurrent", &now);
    CU_ASSERT_PTR_EQUAL(now, other); /* as it was */
    tile_context *mine;
    tile_kernel *k;
    tile_context_desc d = {
        .struct_size = sizeof d, .target = "cuda", .flags = TILE_CONTEXT_NO_CACHE, .native_context = other
    };
    OK(ctx, tile_context_create(&d, &mine));
    OK(mine, kernel_of(mine, vector_add_text, "vector_add", NULL, 0, &k));
    int64_t n = 100;
    void *p[3];
    float host[100];
    for (int i = 0; i < 3; i++) OK(mine, tile_memory_alloc(mine, TILE_MEMORY_DEVICE, 400, &p[i]));
    for (int i = 0; i < 100; i++) host[i] = (float)i;
    OK(mine, tile_copy(mine, p[0], host, 400, stream));
    OK(mine, tile_copy(mine, p[1], host, 400, stream));
    tile_tensor t[3] = { { p[0], &n, NULL, 1, TILE_F32 }, { p[1], &n, NULL, 1, TILE_F32 },
        { p[2], &n, NULL, 1, TILE_F32 } };
    tile_launch_desc on = { .struct_size = sizeof on, .stream = stream };
    OK(mine,
        tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) },
            3, &on));
    OK(mine, tile_copy(mine, host, p[2], 400, stream));
    OK(mine, tile_stream_synchronize(mine, stream));
    for (int i = 0; i < 100; i++) CU_ASSERT_EQUAL(host[i], 2 * i);
    for (int i = 0; i < 3; i++) OK(mine, tile_memory_free(mine, TILE_MEMORY_DEVICE, p[i]));
    tile_kernel_destroy(k);
    tile_context_destroy(mine);
    CU("cuStreamDestroy_v2", stream);
    CU("cuCtxDestroy_v2", other);
    CU("cuCtxSetCurrent", NULL);
    CU_ASSERT_EQUAL(wrong(&v, NULL), 0);
    drop_vectors(&v);
}

void test_unsuitable(void)
{
    static const char large[] =
        "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 512), cdiv(N, 512)) {\n"
        "    let (i, j) = program_id();\n    var acc = zeros([512, 512], f32);\n"
        "    for k in 0 .. cdiv(K, 64) { acc = mma(load(A[i*512 +: 512, k*64 +: 64]), load(B[k*64 +: 64, "
        "j*512 +: 512]), acc); }\n"
        "    store(C[i*512 +: 512, j*512 +: 512], f16(acc));\n}\n";
    char why[400] = "";
    tile_context *none;
    tile_kernel *k;
    tile_device_info info = { .struct_size = sizeof info };
    OK(ctx, tile_context_device(ctx, &info));
    tile_context_desc d = {
        .struct_size = sizeof d, .target = "cuda:sm_121", .flags = TILE_CONTEXT_NO_CACHE
    };
    if (strcmp(info.target, "cuda:sm_121")) {
        CU_ASSERT_EQUAL(tile_context_create_error(&d, &none, why, sizeof why), TILE_ERROR_UNSUPPORTED);
        CHECK_TEXT(why, "code for cuda:sm_121 does not run on ");
    }
    d.target = "cuda";
    d.device = 99;
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &none, why, sizeof why), TILE_ERROR_NO_DEVICE);
    void *p;
    int64_t shape[2] = { 512, 512 };
    OK(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, 3 << 19, &p));
    OK(ctx, kernel_of(ctx, large, "gemm", NULL, 0, &k));
    tile_tensor t[3];
    for (int i = 0; i < 3; i++) t[i] = (tile_tensor){ (char *)p + (i << 19), shape, NULL, 2, TILE_F16 };
    CHECK_STATUS(ctx,
        tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) },
            3, NULL),
        TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "bytes of shared memory, ");
    CHECK_TEXT(error_of(ctx), "tile of ");
    OK(ctx, tile_memory_free(ctx, TILE_MEMORY_DEVICE, p));
    tile_kernel_destroy(k);
}
