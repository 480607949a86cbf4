/* test_pitch_errors.c: launches that copy inputs first (pitch.c) and cannot do so now. Runs on the fake CUDA
 * driver. */
#define _GNU_SOURCE
#include "api.h"

static tile_context *ctx;
static FakeState *fake;
static uint16_t memory[4 << 20] __attribute__((aligned(256)));
static int launched; /* launches that the callback saw */

static void on_launch(void **params)
{
    (void)params;
    launched++;
}

static const char product_text[] =
    "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N], const int TM = 64, const int TN = 64,\n"
    "            const int TK = 64) grid (cdiv(M, TM), cdiv(N, TN)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, TK) {\n"
    "        acc = mma(load(A[i*TM +: TM, k*TK +: TK], latency = 4),\n"
    "                  load(B[k*TK +: TK, j*TN +: TN], latency = 4), acc);\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], f16(acc));\n}\n"
    "tune gemm { TM in {64, 128}; TN in {64, 128}; key (M, N, K); }\n";

static bool begin(void)
{
    fake = fake_open(FAKE_CUDA);
    fake->on_launch = on_launch;
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    if (!tile_context_create(&cd, &ctx)) return true;
    CU_FAIL("context");
    return false;
}

static tile_kernel *product(const tile_binding *b, size_t n)
{
    tile_kernel *k;
    OK(ctx, kernel_of(ctx, product_text, "gemm", b, n, &k));
    return k;
}

typedef struct Product {
    int64_t shape[3][2], strides[3][2];
    tile_tensor t[3];
    tile_arg args[3];
} Product;

/* Operands of M x N x K, whose rows are an odd number of elements apart. */
static void operands(Product *p, int64_t m, int64_t n, int64_t k)
{
    *p = (Product){ { { m, k }, { k, n }, { m, n } }, { { k | 1, 1 }, { n | 1, 1 }, { (n + 7) / 8 * 8, 1 } },
        { { 0 } }, { { 0 } } };
    for (int i = 0; i < 3; i++) {
        p->t[i] = (tile_tensor){ memory + ((size_t)i << 20), p->shape[i], p->strides[i], -1, TILE_NONE };
        p->args[i] = tile_arg_tensor(&p->t[i]);
    }
}

/* The launches that one launch makes. */
static int launches_of(tile_kernel *k, const Product *p)
{
    launched = 0;
    OK(ctx, tile_launch(k, p->args, 3, NULL));
    return launched;
}

/* Launches that fail by the driver, all calls of it that launch. */
static void fail_launches(tile_kernel *k, const Product *p, int times)
{
    snprintf(fake->fail_name, sizeof fake->fail_name, "cuLaunchKernel");
    fake->fail_code = 999;
    for (int i = 0; i < times; i++) CHECK_STATUS(ctx, tile_launch(k, p->args, 3, NULL), TILE_ERROR_DRIVER);
    fake->fail_code = 0;
    fake->fail_name[0] = 0;
}

/* An error of the driver may pass: later launches copy again, unless it came several times in a row. */
static void test_passing_errors(void)
{
    Product p;
    if (!begin()) return;
    tile_kernel *k = product(NULL, 0);
    operands(&p, 900, 900, 901);
    for (int round = 0; round < 3; round++) {
        fail_launches(k, &p, 3);
        CU_ASSERT_EQUAL(launches_of(k, &p), 2);
    }
    fail_launches(k, &p, 4);
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* The workspace that a launch is said to need suffices where it cannot copy, too. */
static void test_workspace(void)
{
    static const tile_binding parts = { "split_k", TILE_BIND_INT, { .i = 16 } };
    tile_launch_desc d = { .struct_size = sizeof d, .workspace = memory + (3 << 20) };
    Product p;
    if (!begin()) return;
    tile_kernel *k = product(&parts, 1);
    for (int64_t m = 64; m <= 320; m += 128) {
        operands(&p, m, 136, 2049);
        OK(ctx, tile_kernel_workspace(k, p.args, 3, &d.workspace_size));
        CU_ASSERT(d.workspace_size > 0 && d.workspace_size <= (size_t)2 << 20);
        snprintf(fake->fail_name, sizeof fake->fail_name, "cuMemAllocFromPoolAsync");
        fake->fail_code = 2;
        launched = 0;
        OK(ctx, tile_launch(k, p.args, 3, &d));
        CU_ASSERT_EQUAL(launched, 1);
        fake->fail_code = 0;
        fake->fail_name[0] = 0;
        CU_ASSERT_EQUAL(launches_of(k, &p), 2);
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
        { "passing_errors", test_passing_errors },
        { "workspace", test_workspace },
    };
    return unit_run("pitch_errors", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
