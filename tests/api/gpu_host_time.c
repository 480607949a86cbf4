/* gpu_host_time.c: the host time of a launch, beside that of a bare cuLaunchKernel. */
#include "gpu.h"

static const char twelve[] =
    "kernel k(in f16 A[B, H, M, D], in f16 C[B, H, N, D], in f16 E[B, H, N, D], out f16 O[B, H, M, D], in "
    "f32 P[M], in f32 Q[N], in f32 R[H],\n"
    "         f32 s, f32 t, i32 u, i32 v, out f32 L[B, H, M]) grid (cdiv(M, 64), H, B) {\n"
    "    let (i, h, b) = program_id();\n    let a = load(A[b, h, i*64 +: 64, :]);\n    let c = load(C[b, h, "
    "i*64 +: 64, :]);\n"
    "    let e = load(E[b, h, i*64 +: 64, :]);\n    let r = load(R[h]);\n"
    "    store(O[b, h, i*64 +: 64, :], f16(f32(a) + f32(c)*s + f32(e)*t*r));\n"
    "    store(L[b, h, i*64 +: 64], load(Q[i*64 +: 64]) + load(P[i*64 +: 64])*f32(u)*f32(v));\n}\n";
static const char bare[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry bare(.param .u64 "
                           "a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e,\n"
                           ".param .u64 f, .param .u64 g, .param .u64 h, .param .u64 i, .param .u64 j, "
                           ".param .u64 k, .param .u64 l) { ret; }\n";

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { BATCH = 200, ROUNDS = 31 }; /* A batch fits the driver's queue, so no launch waits for the device. */

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

static double time_bare(void)
{
    void *primary, *module, *fn;
    uint64_t words[12] = { 0 };
    void *params[12];
    double t[ROUNDS];
    for (int i = 0; i < 12; i++) params[i] = &words[i];
    CU("cuDevicePrimaryCtxRetain", &primary, 0);
    CU("cuCtxSetCurrent", primary);
    CU_ASSERT_EQUAL_FATAL(CU("cuModuleLoadData", &module, bare), 0);
    CU_ASSERT_EQUAL_FATAL(CU("cuModuleGetFunction", &fn, module, "bare"), 0);
    int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
        void **, void **) = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, void *, void **, void **))dlsym(driver, "cuLaunchKernel");
    for (int r = 0; r < ROUNDS; r++) {
        double start = now_us();
        for (int i = 0; i < BATCH; i++) launch_fn(fn, 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
        t[r] = (now_us() - start) / BATCH;
        CU("cuCtxSynchronize");
    }
    CU("cuModuleUnload", module);
    CU("cuCtxSetCurrent", NULL);
    CU("cuDevicePrimaryCtxRelease_v2", 0);
    return median(t);
}

/* Median over rounds of one launch; with `move`, the first tensor's address changes from launch to launch. */
static double time_ours(tile_kernel *k, tile_arg *a, size_t n, DLTensor *move)
{
    double t[ROUNDS];
    uint64_t was = move ? move->byte_offset : 0;
    for (int r = 0; r < ROUNDS; r++) {
        double start = now_us();
        for (int i = 0; i < BATCH; i++) {
            if (move) move->byte_offset = was + 256 * (uint64_t)(i % 8);
            tile_launch(k, a, n, NULL);
        }
        t[r] = (now_us() - start) / BATCH;
        OK(ctx, tile_context_synchronize(ctx));
    }
    if (move) move->byte_offset = was;
    return median(t);
}

void test_host_time(void)
{
    tile_kernel *k;
    DLTensor *big[4], *small[4];
    int64_t shape[4] = { 1, 4, 128, 64 }, m = 128, h = 4, lse[3] = { 1, 4, 128 };
    int64_t roomy[4] = { 2, 4, 128, 64 };
    OK(ctx, kernel_of(ctx, twelve, "k", NULL, 0, &k));
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F16, 4, roomy, &big[0]));
    big[0]->shape[0] = 1;
    for (int i = 1; i < 4; i++)
        OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F16, 4, shape, &big[i]));
    for (int i = 0; i < 3; i++)
        OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 1, i == 2 ? &h : &m, &small[i]));
    OK(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 3, lse, &small[3]));
    tile_arg a[12] = { tile_arg_dltensor(big[0]), tile_arg_dltensor(big[1]), tile_arg_dltensor(big[2]),
        tile_arg_dltensor(big[3]), tile_arg_dltensor(small[0]), tile_arg_dltensor(small[1]),
        tile_arg_dltensor(small[2]), tile_arg_float(1), tile_arg_float(2), tile_arg_int(3), tile_arg_int(4),
        tile_arg_dltensor(small[3]) };
    OK(ctx, tile_launch(k, a, 12, NULL));
    OK(ctx, tile_context_synchronize(ctx));
    void *primary;
    Attention at = { 0 };
    double theirs = hip ? 0 : time_bare(),
           none = time_ours(k, a, 12, NULL); /* HIP has no text form that every chip accepts. */
    if (!hip) {
        CU("cuDevicePrimaryCtxRetain", &primary, 0);
        CU("cuCtxSetCurrent", primary);
    }
    double ours = time_ours(k, a, 12, NULL), moving = time_ours(k, a, 12, big[0]), attention = 0,
           in_turns = 0;
    if (open_attention(&at)) {
        for (int i = 0; i < 4; i++) at.t[i]->shape[0] = 1; /* half of the memory, so that a tensor can move */
        OK(ctx, tile_launch(at.k, at.a, 5, NULL));
        attention = time_ours(at.k, at.a, 5, NULL);
        in_turns = time_ours(at.k, at.a, 5, at.t[0]);
        close_attention(&at);
    }
    double again = hip ? 0 : time_bare();
    if (!hip) {
        CU("cuCtxSetCurrent", NULL);
        CU("cuDevicePrimaryCtxRelease_v2", 0);
    }
    fprintf(stderr,
        "(bare cuLaunchKernel %.2f and %.2f us; a launch with 12 arguments %.2f us, %.2f above the mean of "
        "them; with an address that moves %.2f; "
        "without the context current %.2f; attention %.2f, with eight sets of tensors in turns %.2f) ",
        theirs, again, ours, ours - (theirs + again) / 2, moving, none, attention, in_turns);
    CU_ASSERT(ours - theirs <
              (hip ? 50 : 2)); /* The limit is generous: only a launch that compiles or waits exceeds it. */
    tile_kernel_destroy(k);
    for (int i = 0; i < 4; i++) {
        tile_tensor_destroy(ctx, big[i]);
        tile_tensor_destroy(ctx, small[i]);
    }
}
