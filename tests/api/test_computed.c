/* test_computed.c: operands that a launch computes ahead (pitch_copy.c, converted.c), on the fake CUDA
 * driver: inputs in any order of axes, launches of one kernel with other constants, and kernels that do not
 * compile. */
#define _GNU_SOURCE
#include "api.h"
#include "runtime/launch/pitch.h"

static tile_context *ctx;
static FakeState *fake;
static Counter counter; /* of the context's memory */
static uint16_t memory[16] __attribute__((aligned(256)));
static int launched; /* launches that the callback saw */

static void on_launch(void **params)
{
    (void)params;
    launched++;
}

static bool begin(void)
{
    fake = fake_open(FAKE_CUDA);
    fake->on_launch = on_launch;
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    counter = (Counter){ 0 };
    cd.allocator = (tile_allocator){ counter_realloc, &counter };
    if (!tile_context_create(&cd, &ctx)) return true;
    CU_FAIL("context");
    return false;
}

static const char gated[] =
    "kernel gemm(in f16 G[M, K], in f16 U[M, K], in f16 B[K, N], out f16 C[M, N], const int TM = 128,\n"
    "            const int TN = 128) grid (cdiv(M, TM), cdiv(N, TN)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, 32) {\n"
    "        let g = f32(load(G[i*TM +: TM, k*32 +: 32]));\n"
    "        let u = load(U[i*TM +: TM, k*32 +: 32]);\n"
    "        acc = mma(f16(g / (1.0 + exp(-g))) * u, load(B[k*32 +: 32, j*TN +: TN]), acc);\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], f16(acc));\n}\n"
    "tune gemm { TM in {64, 128}; TN in {64, 128, 256}; key (M, N, K); }\n";

/* The axis of the inputs that lies in one piece may be any. */
static void test_turned(void)
{
    enum { M = 4096, K = 2048, N = 8192 };
    int64_t a[2] = { M, K }, b[2] = { K, N }, c[2] = { M, N }, sa[2] = { 1, M }, sb[2] = { N, 1 };
    tile_tensor t[4] = { { NULL, a, sa, -1, TILE_NONE }, { NULL, a, sa, -1, TILE_NONE },
        { NULL, b, sb, -1, TILE_NONE }, { NULL, c, sb, -1, TILE_NONE } };
    tile_arg args[4];
    tile_kernel *k;
    if (!begin()) return;
    for (int i = 0; i < 4; i++) {
        t[i].data = (char *)((uintptr_t)memory + ((uintptr_t)i << 28));
        args[i] = tile_arg_tensor(&t[i]);
    }
    OK(ctx, kernel_of(ctx, gated, "gemm", NULL, 0, &k));
    launched = 0;
    OK(ctx, tile_launch(k, args, 4, NULL));
    CU_ASSERT_EQUAL(launched, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What is computed depends on extents that are constants, and on which tensors are given. */
static void test_anew(void)
{
    static const char mean[] =
        "kernel scores(in f16 Q[B, H, M, D], in f16 X[B, H, N, D], in f32 G[D]?, out f16 O[B, H, M, N],\n"
        "              const int TM = 128, const int TN = 128) grid (cdiv(N, TN), cdiv(M, TM), B*H) {\n"
        "    let (j, i, w) = program_id();\n    let h = w % H;\n    let b = w / H;\n"
        "    let x = f32(load(X[b, h, j*TN +: TN, :]));\n"
        "    var k = x * rsqrt(sum(x*x, axis = 1) / f32(D) + 0.5);\n"
        "    const if (has(G)) { k = k * load(G[:])[None, :]; }\n"
        "    let y = mma(load(Q[b, h, i*TM +: TM, :]), transpose(f16(k)));\n"
        "    store(O[b, h, i*TM +: TM, j*TN +: TN], f16(y));\n}\n"
        "tune scores { TM in {64, 128}; TN in {64, 128}; key (M, N, D); }\n";
    enum { B = 2, H = 16, N = 4096 };
    tile_kernel *k;
    if (!begin()) return;
    OK(ctx, kernel_of(ctx, mean, "scores", NULL, 0, &k));
    for (int i = 0; i < 6; i++) {
        const int64_t d = i % 2 ? 64 : 128;
        bool weighted = i / 2 == 1;
        int64_t x[4] = { B, H, N, d }, xs[4] = { H * N * d, N * d, d, 1 }, one = 1, o[4] = { B, H, N, N },
                os[4] = { (int64_t)H * N * N, N * N, N, 1 };
        tile_tensor t[4] = { { NULL, x, xs, -1, TILE_NONE }, { NULL, x, xs, -1, TILE_NONE },
            { NULL, x + 3, &one, -1, TILE_NONE }, { NULL, o, os, -1, TILE_NONE } };
        tile_arg args[4];
        for (int a = 0; a < 4; a++) {
            t[a].data = (char *)((uintptr_t)memory + ((uintptr_t)a << 30));
            args[a] = tile_arg_tensor(&t[a]);
        }
        if (!weighted) args[2] = tile_arg_none();
        launched = 0;
        OK(ctx, tile_launch(k, args, 4, NULL));
        CU_ASSERT_EQUAL(launched, 2);
        const ConvertedForm *f = atomic_load(&k->converted_form);
        int forms = 0;
        for (const ConvertedForm *g = f; g; g = g->older) forms++;
        CU_ASSERT_EQUAL(forms, i < 4 ? i + 1 : 4);
        if (i >= 4) continue;
        CU_ASSERT_EQUAL(f->computed[0].columns, d);
        CU_ASSERT_EQUAL(f->computed[0].n, weighted ? 2 : 1);
        CU_ASSERT(!f->older || strcmp(f->computed[0].body, f->older->computed[0].body));
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* What computes the operand, or the kernel on it, does not compile: the launch takes the inputs as they are,
 * and so do those behind it, without compiling again. */
static void test_given_up(void)
{
    enum { N = 4096, EACH = 2 };
    int64_t shape[2] = { N, N }, strides[2] = { N, 1 };
    tile_tensor t[4];
    tile_arg args[4];
    for (int i = 0; i < 4; i++) {
        t[i] = (tile_tensor){ (char *)((uintptr_t)memory + ((uintptr_t)i << 28)), shape, strides, -1,
            TILE_NONE };
        args[i] = tile_arg_tensor(&t[i]);
    }
    for (int way = 0; way < 2 * EACH; way++) {
        tile_kernel *k;
        tile_variant_info v = { .struct_size = sizeof v };
        if (!begin()) return;
        OK(ctx, kernel_of(ctx, gated, "gemm", NULL, 0, &k));
        fake->fails_at = 1 + way % EACH;
        if (way < EACH) OK(ctx, tile_kernel_variant(k, args, 4, &v));
        for (int again = 0; again < 3; again++) {
            launched = 0;
            OK(ctx, tile_launch(k, args, 4, NULL));
            CU_ASSERT_EQUAL(fake->compiles, fake->fails_at + 1);
            CU_ASSERT_EQUAL(launched, way == 2 * EACH - 1 && !again ? 2 : 1); /* the operand was computed */
        }
        tile_kernel_destroy(k);
        tile_context_destroy(ctx);
        CU_ASSERT_EQUAL(fake->live_modules, 0);
        CU_ASSERT_EQUAL(fake->live_memory, 0);
        CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
    }
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "turned", test_turned }, { "anew", test_anew },
        { "given_up", test_given_up } };
    return unit_run("computed", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
