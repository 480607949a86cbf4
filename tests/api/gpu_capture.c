/* gpu_capture.c: launches captured into graphs of the driver, and launches that start before the one ahead
 * has ended. */
#include "gpu.h"

void test_graph(void)
{
    void *stream, *graph, *exec;
    Vectors v = make_vectors(5000);
    OK(ctx, tile_stream_create(ctx, &stream));
    OK(ctx, launch(&v, stream)); /* compiled before */
    OK(ctx, tile_stream_synchronize(ctx, stream));
    OK(ctx, tile_fill(ctx, v.z->data, 0, (size_t)v.n * 4, stream));
    OK(ctx, tile_stream_synchronize(ctx, stream));
    void *primary;
    if (!hip) {
        CU_ASSERT_EQUAL(CU("cuDevicePrimaryCtxRetain", &primary, 0), 0);
        CU_ASSERT_EQUAL(CU("cuCtxSetCurrent", primary), 0);
    }
    CU_ASSERT_EQUAL_FATAL(CU_OR_HIP("cuStreamBeginCapture_v2", "hipStreamBeginCapture", stream, 0), 0);
    OK(ctx, launch(&v, stream));
    CU_ASSERT_EQUAL_FATAL(CU_OR_HIP("cuStreamEndCapture", "hipStreamEndCapture", stream, &graph), 0);
    CU_ASSERT_EQUAL_FATAL(hip ? CU("hipGraphInstantiate", &exec, graph, NULL, NULL, (size_t)0)
                              : CU("cuGraphInstantiateWithFlags", &exec, graph, 0ull),
        0);
    CU_ASSERT(wrong(&v, stream) > 0); /* captured, not run */
    CU_ASSERT_EQUAL(CU_OR_HIP("cuGraphLaunch", "hipGraphLaunch", exec, stream), 0);
    CU_ASSERT_EQUAL(wrong(&v, stream), 0);
    CU_OR_HIP("cuGraphExecDestroy", "hipGraphExecDestroy", exec);
    CU_OR_HIP("cuGraphDestroy", "hipGraphDestroy", graph);
    if (!hip) {
        CU("cuCtxSetCurrent", NULL);
        CU("cuDevicePrimaryCtxRelease_v2", 0);
    }
    OK(ctx, tile_stream_destroy(ctx, stream));
    drop_vectors(&v);
}

/* Launches that start early, each reading what the one before wrote, with fills and copies between: in a
 * stream, then captured. */
void test_early_start(void)
{
    enum { N = 1 << 20, TIMES = 60 };
    tile_context *plain = ctx, *early;
    tile_kernel *kernel = add;
    tile_context_desc d = { .struct_size = sizeof d,
        .target = hip ? "hip" : "cuda",
        .flags = TILE_CONTEXT_NO_CACHE | TILE_CONTEXT_EARLY_START };
    void *stream, *graph, *exec, *primary;
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &early), TILE_OK);
    ctx = early;
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
    Vectors v = make_vectors(N); /* y is added to z and back */
    Vectors there = { v.x, v.y, v.z, v.host, N }, back = { v.z, v.y, v.x, v.host, N };
    OK(ctx, tile_stream_create(ctx, &stream));
    OK(ctx, launch(&there, stream));
    OK(ctx, launch(&back, stream)); /* compiled before */
    OK(ctx, tile_fill(ctx, v.x->data, 0, N * sizeof(float), stream));
    if (!hip) {
        CU("cuDevicePrimaryCtxRetain", &primary, 0);
        CU("cuCtxSetCurrent", primary);
    }
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            CU_ASSERT_EQUAL_FATAL(
                CU_OR_HIP("cuStreamBeginCapture_v2", "hipStreamBeginCapture", stream, 0), 0);
        for (int k = 0; k < TIMES; k++) {
            OK(ctx, launch(&there, stream));
            if (k % 8 == 7) OK(ctx, tile_fill(ctx, v.x->data, 0xff, N * sizeof(float), stream));
            OK(ctx, launch(&back, stream));
        }
        if (captured) {
            CU_ASSERT_EQUAL_FATAL(CU_OR_HIP("cuStreamEndCapture", "hipStreamEndCapture", stream, &graph), 0);
            CU_ASSERT_EQUAL_FATAL(hip ? CU("hipGraphInstantiate", &exec, graph, NULL, NULL, (size_t)0)
                                      : CU("cuGraphInstantiateWithFlags", &exec, graph, 0ull),
                0);
            for (int k = 0; k < 3; k++)
                CU_ASSERT_EQUAL(CU_OR_HIP("cuGraphLaunch", "hipGraphLaunch", exec, stream), 0);
            CU_OR_HIP("cuGraphExecDestroy", "hipGraphExecDestroy", exec);
            CU_OR_HIP("cuGraphDestroy", "hipGraphDestroy", graph);
        }
        OK(ctx, tile_copy(ctx, v.host, v.x->data, N * sizeof(float), stream));
        OK(ctx, tile_stream_synchronize(ctx, stream));
        int64_t bad = 0;
        float sum = 0; /* rounded as each launch rounds */
        for (int64_t i = 0; i < N; i += 4099, sum = 0) {
            for (int k = 0; k < 2 * TIMES * (captured ? 4 : 1); k++) sum += (float)(2 * i);
            bad += v.host[i] != sum;
        }
        CU_ASSERT_EQUAL(bad, 0);
    }
    if (!hip) {
        CU("cuCtxSetCurrent", NULL);
        CU("cuDevicePrimaryCtxRelease_v2", 0);
    }
    OK(ctx, tile_stream_destroy(ctx, stream));
    drop_vectors(&v);
    tile_kernel_destroy(add);
    tile_context_destroy(early);
    ctx = plain;
    add = kernel;
}

/* A captured launch has a counter and maps of its own: replayed twice it gives what the plain launch gave,
 * bit for bit. */
void test_attention_graph(void)
{
    Attention at = { 0 };
    void *stream, *graph, *exec, *primary;
    if (!open_attention(&at)) return;
    uint16_t *want = at.host, *have = at.host + at.bytes / 2;
    OK(ctx, tile_stream_create(ctx, &stream));
    tile_launch_desc d = { .struct_size = sizeof d, .stream = stream };
    OK(ctx, tile_launch(at.k, at.a, 5, &d));
    OK(ctx, tile_copy(ctx, want, at.t[3]->data, at.bytes, stream));
    OK(ctx, tile_stream_synchronize(ctx, stream));
    CU("cuDevicePrimaryCtxRetain", &primary, 0);
    CU("cuCtxSetCurrent", primary);
    CU_ASSERT_EQUAL_FATAL(CU("cuStreamBeginCapture_v2", stream, 0), 0);
    OK(ctx, tile_launch(at.k, at.a, 5, &d));
    OK(ctx, tile_launch(at.k, at.a, 5, &d));
    CU_ASSERT_EQUAL_FATAL(CU("cuStreamEndCapture", stream, &graph), 0);
    CU_ASSERT_EQUAL_FATAL(CU("cuGraphInstantiateWithFlags", &exec, graph, 0ull), 0);
    for (int i = 0; i < 2; i++) {
        OK(ctx, tile_fill(ctx, at.t[3]->data, 0xff, at.bytes, stream));
        CU_ASSERT_EQUAL(CU("cuGraphLaunch", exec, stream), 0);
        OK(ctx, tile_launch(at.k, at.a, 5, NULL)); /* beside it, on another stream */
        OK(ctx, tile_context_synchronize(ctx));
        OK(ctx, tile_copy(ctx, have, at.t[3]->data, at.bytes, stream));
        OK(ctx, tile_stream_synchronize(ctx, stream));
        CU_ASSERT_EQUAL(memcmp(have, want, at.bytes), 0);
    }
    CU("cuGraphExecDestroy", exec);
    CU("cuGraphDestroy", graph);
    CU("cuCtxSetCurrent", NULL);
    CU("cuDevicePrimaryCtxRelease_v2", 0);
    OK(ctx, tile_stream_destroy(ctx, stream));
    close_attention(&at);
}
