/* test_optional.c: optional tensors through the library: launches with and without them on the CPU, what a
 * kernel and a launch say of them, wrong uses; on the fake driver, recalled launches and the disk cache. */
#include "api.h"
#include "runtime/launch/kernel.h"
#include <unistd.h>

static tile_context *ctx;

static const char rows_text[] =
    "fn shifted(x, B, T) { return has(B) ? x + load(B[0 +: T]) : x; }\n"
    "kernel rows(in f32 X[M, N], in f32 BIAS[N]?, out f32 Y[M, N], out f32 SUM[M, cdiv(N, 8)]?,\n"
    "            const int T = 16) grid (M)\n"
    "{\n"
    "    let i = program_id();\n"
    "    let y = shifted(load(X[i, 0 +: T]), BIAS, T);\n"
    "    store(Y[i, 0 +: T], y);\n"
    "    const if has(SUM) { store(SUM[i, 0], sum(y, drop = true)); }\n"
    "}\n"
    "kernel careless(in f32 B[K]?, out f32 Y[1]) grid (1) { store(Y[0], load(B[0])); }\n"
    "kernel own(in f32 B[K]?, out f32 Y[M]) grid (1) { store(Y[0], has(B) ? sum(load(B[:]), drop = true) : "
    "3.0); }\n";

enum { M = 3, N = 16 };
static float x[M][N], bias[N], y[M][N], sums[M][2];
static const int64_t shape[2] = { M, N }, shape_bias[1] = { N }, shape_sums[2] = { M, 2 };
static tile_tensor tensors[4] = { { x, shape, NULL, 2, TILE_F32 }, { bias, shape_bias, NULL, 1, TILE_F32 },
    { y, shape, NULL, 2, TILE_F32 }, { sums, shape_sums, NULL, 2, TILE_F32 } };

static void open_cpu(void)
{
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    if (tile_context_create(&d, &ctx)) exit(1);
    for (int i = 0; i < M * N; i++) x[i / N][i % N] = (float)(i % 7);
    for (int j = 0; j < N; j++) bias[j] = (float)(10 * j);
}

static void arguments(bool with_bias, bool with_sums, tile_arg a[4])
{
    for (int i = 0; i < 4; i++) a[i] = tile_arg_tensor(&tensors[i]);
    if (!with_bias) a[1] = tile_arg_none();
    if (!with_sums) a[3] = tile_arg_none();
}

static void check_results(bool with_bias, bool with_sums)
{
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int j = 0; j < N; j++) {
            float want = (float)((i * N + j) % 7) + (with_bias ? (float)(10 * j) : 0);
            CU_ASSERT_EQUAL(y[i][j], want);
            sum += want;
        }
        CU_ASSERT_EQUAL(sums[i][0], with_sums ? sum : -1);
    }
}

/* Each choice several times: compiled, then recalled, then between others. */
static void test_launches(void)
{
    tile_kernel *k;
    tile_arg a[4];
    open_cpu();
    OK(ctx, kernel_of(ctx, rows_text, "rows", NULL, 0, &k));
    for (int round = 0; round < 3; round++)
        for (int choice = 0; choice < 8; choice++) {
            bool with_bias = choice >> 1 & 1, with_sums = choice >> 2;
            memset(y, 0, sizeof y);
            for (int i = 0; i < M; i++) sums[i][0] = -1;
            arguments(with_bias, with_sums, a);
            OK(ctx, tile_launch(k, a, 4, NULL));
            check_results(with_bias, with_sums);
        }
    arguments(false, true, a);
    tile_compile *h;
    OK(ctx, tile_kernel_compile_async(k, a, 4, &h));
    OK(ctx, tile_compile_wait(h));
    tile_compile_destroy(h);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_questions(void)
{
    tile_kernel *k;
    tile_arg a[4];
    int64_t extents[2] = { -1, -1 };
    tile_variant_info v = { .struct_size = sizeof v };
    tile_param_info p = { .struct_size = sizeof p };
    open_cpu();
    OK(ctx, kernel_of(ctx, rows_text, "rows", NULL, 0, &k));
    CU_ASSERT_EQUAL(tile_kernel_param_count(k), 4);
    for (size_t i = 0; i < 4; i++) {
        OK(ctx, tile_kernel_param(k, i, &p));
        CU_ASSERT_EQUAL(p.optional, i % 2);
    }
    arguments(false, false, a);
    OK(ctx, tile_kernel_variant(k, a, 4, &v));
    CHECK_TEXT(v.specialization, "BIAS=false, SUM=false; ");
    CU_ASSERT_PTR_NULL(strstr(v.specialization, "BIAS:"));
    a[2] = tile_arg_none(); /* not there yet, and not optional */
    OK(ctx, tile_kernel_extents(k, a, 4, 3, extents));
    CU_ASSERT(extents[0] == M && extents[1] == 2);
    OK(ctx, tile_kernel_extents(k, a, 4, 2, extents));
    CU_ASSERT(extents[0] == M && extents[1] == N);
    arguments(true, true, a);
    OK(ctx, tile_kernel_variant(k, a, 4, &v));
    CHECK_TEXT(v.specialization, "BIAS=true, SUM=true; ");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_wrong_uses(void)
{
    tile_kernel *k;
    tile_arg a[4];
    open_cpu();
    OK(ctx, kernel_of(ctx, rows_text, "rows", NULL, 0, &k));
    arguments(true, true, a);
    a[0] = tile_arg_none();
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx),
        "argument 1 (X): a tensor is wanted; only an optional one, `X[...]?`, may be left out");
    arguments(true, true, a);
    a[1] = tile_arg_tensor(NULL);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx),
        "argument 2 (BIAS): the tensor is NULL; tile_arg_none() leaves an optional tensor out");
    a[1] = tile_arg_dltensor(NULL);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "tile_arg_none() leaves an optional tensor out");
    a[1] = tile_arg_int(1);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_DTYPE);
    arguments(true, false, a);
    a[3] = a[2]; /* Two outputs at the same address, then one of them is left out. */
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_OVERLAP);
    int64_t shape_short[1] = { N - 1 };
    tile_tensor short_bias = { bias, shape_short, NULL, 1, TILE_F32 };
    arguments(true, false, a);
    a[1] = tile_arg_tensor(&short_bias);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "dimension N is 16 in X (axis 1) but 15 in BIAS (axis 0)");
    CHECK_STATUS(ctx, tile_kernel_extents(k, a, 4, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    tile_kernel_destroy(k);
    a[0] = tile_arg_none();
    OK(ctx, kernel_of(ctx, rows_text, "careless", NULL, 0, &k));
    a[1] = tile_arg_tensor(&(tile_tensor){ y, (int64_t[]){ 1 }, NULL, 1, TILE_F32 });
    CHECK_STATUS(ctx, tile_launch(k, a, 2, NULL), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "the optional tensor `B` is not given in this specialization");
    CHECK_TEXT(error_of(ctx), "careless<B=false>");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_bindings(void)
{
    tile_kernel *k;
    tile_arg a[4];
    tile_binding b = { "BIAS", TILE_BIND_BOOL, { .i = 0 } };
    open_cpu();
    OK(ctx, kernel_of(ctx, rows_text, "rows", &b, 1, &k));
    arguments(false, true, a);
    OK(ctx, tile_launch(k, a, 4, NULL));
    check_results(false, true);
    arguments(true, true, a);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "argument 2 (BIAS): the kernel was made with BIAS=false; pass tile_arg_none()");
    tile_kernel_destroy(k);
    b = (tile_binding){ "BIAS", TILE_BIND_TEXT, { .text = "true" } };
    OK(ctx, kernel_of(ctx, rows_text, "rows", &b, 1, &k));
    OK(ctx, tile_launch(k, a, 4, NULL));
    check_results(true, true);
    arguments(false, true, a);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "the kernel was made with BIAS=true; leave that binding out");
    tile_kernel_destroy(k);
    b = (tile_binding){ "BIAS", TILE_BIND_INT, { .i = 2 } };
    CHECK_STATUS(ctx, kernel_of(ctx, rows_text, "rows", &b, 1, &k), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "`BIAS` wants true or false: whether the optional tensor is given");
    b = (tile_binding){ "BIAS", TILE_BIND_TEXT, { .text = "maybe" } };
    CHECK_STATUS(ctx, kernel_of(ctx, rows_text, "rows", &b, 1, &k), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "`BIAS` must be true or false, not `maybe`");
    b = (tile_binding){ "X", TILE_BIND_BOOL, { .i = 0 } };
    CHECK_STATUS(ctx, kernel_of(ctx, rows_text, "rows", &b, 1, &k), TILE_ERROR_NOT_FOUND);
    tile_context_destroy(ctx);
}

/* A tile's extent that only the tensor that is left out would tell. */
static void test_own_dimension(void)
{
    tile_kernel *k;
    float four[4] = { 1, 2, 3, 4 }, out[2] = { 0, 0 };
    tile_tensor t[2] = { { four, (int64_t[]){ 4 }, NULL, 1, TILE_F32 },
        { out, (int64_t[]){ 2 }, NULL, 1, TILE_F32 } };
    tile_arg a[2] = { tile_arg_none(), tile_arg_tensor(&t[1]) };
    open_cpu();
    OK(ctx, kernel_of(ctx, rows_text, "own", NULL, 0, &k));
    OK(ctx, tile_launch(k, a, 2, NULL));
    CU_ASSERT_EQUAL(out[0], 3);
    a[0] = tile_arg_tensor(&t[0]);
    OK(ctx, tile_launch(k, a, 2, NULL));
    CU_ASSERT_EQUAL(out[0], 10);
    a[0] = tile_arg_none();
    OK(ctx, tile_launch(k, a, 2, NULL));
    CU_ASSERT_EQUAL(out[0], 3);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- on the fake driver ------------------------------------------------------------------------------ */

static FakeState *fake;
static char dir[64];

static void open_fake(uint32_t flags)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.flags = flags;
    d.cache_directory = dir;
    if (tile_context_create(&d, &ctx)) exit(1);
}

static void test_recalled(void)
{
    tile_kernel *k;
    tile_arg with[4], without[4];
    tile_status st;
    arguments(true, true, with);
    arguments(false, true, without);
    open_fake(TILE_CONTEXT_NO_CACHE);
    OK(ctx, kernel_of(ctx, rows_text, "rows", NULL, 0, &k));
    CU_ASSERT_FALSE(memo_launch(k, without, 4, NULL, &st));
    OK(ctx, tile_launch(k, without, 4, NULL));
    CU_ASSERT_TRUE(memo_launch(k, without, 4, NULL, &st) && st == TILE_OK);
    CU_ASSERT_FALSE(memo_launch(k, with, 4, NULL, &st));
    OK(ctx, tile_launch(k, with, 4, NULL));
    CU_ASSERT_TRUE(memo_launch(k, with, 4, NULL, &st) && st == TILE_OK);
    CU_ASSERT_TRUE(memo_launch(k, without, 4, NULL, &st) && st == TILE_OK);
    without[0] = tile_arg_none(); /* X is not optional */
    CU_ASSERT_FALSE(memo_launch(k, without, 4, NULL, &st));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static int cached(bool with_bias)
{
    tile_kernel *k;
    tile_arg a[4];
    tile_variant_info v = { .struct_size = sizeof v };
    arguments(with_bias, false, a);
    open_fake(0);
    OK(ctx, kernel_of(ctx, rows_text, "rows", NULL, 0, &k));
    OK(ctx, tile_launch(k, a, 4, NULL));
    OK(ctx, tile_kernel_variant(k, a, 4, &v));
    CHECK_TEXT(v.specialization, with_bias ? "BIAS=true" : "BIAS=false");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    return v.from_cache;
}

static void test_cached(void)
{
    char command[100];
    snprintf(dir, sizeof dir, "/tmp/tile-optional-%ld", (long)getpid());
    CU_ASSERT_EQUAL(cached(true), 0);
    CU_ASSERT_EQUAL(cached(false), 0);
    CU_ASSERT_EQUAL(cached(true), 1);
    CU_ASSERT_EQUAL(cached(false), 1);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) exit(1);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
#ifdef HAVE_CPU
        { "launches", test_launches }, { "questions", test_questions }, { "wrong_uses", test_wrong_uses },
        { "bindings", test_bindings }, { "own_dimension", test_own_dimension },
#endif
        { "recalled", test_recalled }, { "cached", test_cached }
    };
    return unit_run("optional", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
