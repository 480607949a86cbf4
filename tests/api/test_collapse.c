/* test_collapse.c: launches on tensors without gaps, as launches on fewer axes (collapse.c): of which kernels
 * and arguments, and that results are those of the launch as it was given; and of which rows with gaps code
 * knows. The first tests run on the fake CUDA driver, which writes down grids, the others on the CPU. */
#define _GNU_SOURCE
#include "api.h"
#include "runtime/launch/inside.h"
#include <math.h>
#include <unistd.h>

static tile_context *ctx;
static FakeState *fake;
static float memory[6][1 << 16] __attribute__((aligned(256)));

static bool begin(uint32_t flags)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    cd.flags |= flags;
    if (!tile_context_create(&cd, &ctx)) return true;
    CU_FAIL("context");
    return false;
}

#define HEAD2 "kernel k(in f32 X[M, N], out f32 Y[M, N], const int TM = 8, const int TN = 64)\n"
#define GRID2 "    grid (cdiv(N, TN), cdiv(M, TM)) {\n    let (j, i) = program_id();\n"
#define X2 "load(X[i*TM +: TM, j*TN +: TN])"
#define STORE2 "    store(Y[i*TM +: TM, j*TN +: TN], y);\n}\n"
static const char square[] = HEAD2 GRID2 "    let x = " X2 ";\n    let y = x*x + 0.5;\n" STORE2;

static const char chosen[] =
    "kernel k(in f32 X[M, N], out f32 Y[M, N], const int TM = auto, const int TN = auto)\n" GRID2
    "    let y = " X2 " + 1.0;\n" STORE2;

/* A launch of two or three tensors of one shape; NULL strides: without gaps. */
typedef struct Launch {
    int64_t shape[3], strides[3];
    tile_tensor t[4];
    tile_arg args[4];
    int n;
} Launch;

static void make(Launch *l, int rank, const int64_t *shape, const int64_t *strides, int n)
{
    memset(l, 0, sizeof *l);
    l->n = n;
    for (int a = 0; a < rank; a++) l->shape[a] = shape[a];
    for (int a = 0; a < rank && strides; a++) l->strides[a] = strides[a];
    for (int i = 0; i < n; i++) {
        l->t[i] = (tile_tensor){ memory[i], l->shape, strides ? l->strides : NULL, rank, TILE_NONE };
        l->args[i] = tile_arg_tensor(&l->t[i]);
    }
}

static void make2(Launch *l, int64_t m, int64_t n, int64_t pitch)
{ make(l, 2, (int64_t[]){ m, n }, pitch ? (int64_t[]){ pitch, 1 } : NULL, 2); }

/* The programs of the launch, and what code relies on. */
static int64_t programs_of(tile_kernel *k, const Launch *l, char *said, size_t room)
{
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, tile_kernel_variant(k, l->args, (size_t)l->n, &v));
    snprintf(said, room, "%s", v.specialization);
    return v.programs;
}

static bool is_one_axis(const char *text, const Launch *l)
{
    char said[512];
    tile_kernel *k;
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    programs_of(k, l, said, sizeof said);
    tile_kernel_destroy(k);
    return strstr(said, "as one axis") != NULL;
}

static void test_which_arguments(void)
{
    Launch l;
    char said[512];
    tile_kernel *k;
    if (!begin(0)) return;
    OK(ctx, kernel_of(ctx, square, "k", NULL, 0, &k));
    make2(&l, 100, 37, 0);
    CU_ASSERT_EQUAL(programs_of(k, &l, said, sizeof said), (100 * 37 + 8 * 64 - 1) / (8 * 64));
    CHECK_TEXT(said, "M, N as one axis");
    make2(&l, 100, 37, 40); /* gaps */
    CU_ASSERT_EQUAL(programs_of(k, &l, said, sizeof said), 13);
    CU_ASSERT(!strstr(said, "as one axis"));
    make2(&l, 1, 4000, 0); /* one axis already */
    CU_ASSERT_EQUAL(programs_of(k, &l, said, sizeof said), 63);
    make2(&l, 1000, 1, 1);
    programs_of(k, &l, said, sizeof said);
    CHECK_TEXT(said, "M, N as one axis");
    make(&l, 2, (int64_t[]){ 60, 30 }, (int64_t[]){ 60, 2 }, 2); /* each second element */
    programs_of(k, &l, said, sizeof said);
    CHECK_TEXT(said, "M, N as one axis");
    make2(&l, 0, 30, 0);
    OK(ctx, tile_launch(k, l.args, 2, NULL));
    CU_ASSERT_EQUAL(fake->launches, 0);
    make2(&l, 100, 37, 0);
    for (int i = 0; i < 3; i++) {
        l.t[0].data = memory[2 * i]; /* the same launch elsewhere */
        OK(ctx, tile_launch(k, l.args, 2, NULL));
        CU_ASSERT_EQUAL(fake->last.grid[0], 8);
    }
    l.strides[0] = 38;
    l.strides[1] = 1;
    l.t[1].strides = l.strides; /* one of the tensors has gaps */
    OK(ctx, tile_launch(k, l.args, 2, NULL));
    CU_ASSERT_EQUAL(fake->last.grid[0], 13);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_which_kernels(void)
{
    static const char *const alike[] = {
        square,
        HEAD2 "    grid (cdiv(N, TN), M) {\n    let (j, i) = program_id();\n"
              "    store(Y[i, j*TN +: TN], exp(load(X[i, j*TN +: TN])));\n}\n",
        "kernel k(in f32 X[M, N], out f32 Y[M, N], const int TM = auto, const int TN = auto)\n" GRID2
        "    let y = where(" X2 " > 0.0, " X2 ", 0.0);\n" STORE2,
    };
    static const char *const others[] = {
        HEAD2 GRID2 "    let x = " X2 ";\n    let y = x * f32(i);\n" STORE2,
        HEAD2 GRID2 "    let x = " X2 ";\n    let y = x / sum(x, axis = 1);\n" STORE2,
        HEAD2 GRID2 "    let y = " X2 " + load(X[i*TM +: TM, j*TN + 1 +: TN]);\n" STORE2,
        HEAD2 GRID2 "    let y = " X2 " * f32(N);\n" STORE2,
        HEAD2 GRID2 "    let y = where(arange(TN)[None, :] < 3, " X2 ", 0.0);\n" STORE2,
        HEAD2 "    grid (cdiv(N, 32), cdiv(M, TM)) {\n    let (j, i) = program_id();\n    let y = " X2
              ";\n" STORE2,
    };
    Launch l;
    if (!begin(0)) return;
    make2(&l, 100, 37, 0);
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!is_one_axis(alike[i], &l)) CU_FAIL("as one axis");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_one_axis(others[i], &l)) {
            fprintf(stderr, "%s", others[i]);
            CU_FAIL("not as one axis");
        }
    tile_kernel *k;
    char said[512];
    OK(ctx, kernel_of(ctx, square, "k", NULL, 0, &k));
    OK(ctx, kernel_set_passes(k, &(KernelPasses){ .skip = "collapse" }));
    programs_of(k, &l, said, sizeof said);
    CU_ASSERT(!strstr(said, "as one axis"));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What a constant decides: the same kernel treats all elements alike with one value only. */
static void test_constants(void)
{
    static const char text[] =
        "kernel k(in f32 X[M, N], out f32 Y[M, N], const int TM = 8, const int TN = 64,\n"
        "         const bool ROW = false)\n" GRID2 "    var y = " X2
        ";\n    if ROW { y = y * f32(i); }\n" STORE2;
    Launch l;
    char said[512];
    if (!begin(0)) return;
    make2(&l, 100, 37, 0);
    for (int row = 0; row < 2; row++) {
        tile_kernel *k;
        tile_binding b = { "ROW", TILE_BIND_BOOL, { .i = row } };
        OK(ctx, kernel_of(ctx, text, "k", &b, 1, &k));
        programs_of(k, &l, said, sizeof said);
        CU_ASSERT_EQUAL(strstr(said, "as one axis") != NULL, !row);
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
}

/* The first launch already keeps the pairs that are proven when another one is not. */
static void test_some_of_the_pairs(void)
{
    static const char text[] = "kernel k(in f32 X[B, M, N], out f32 Y[B, M, N], const int TN = 32)\n"
                               "    grid (cdiv(N, TN), M, B) {\n    let (j, i, b) = program_id();\n"
                               "    store(Y[b, i, j*TN +: TN], load(X[b, i, j*TN +: TN]) * f32(b));\n}\n";
    Launch l;
    char said[512];
    tile_kernel *k;
    if (!begin(0)) return;
    make(&l, 3, (int64_t[]){ 7, 5, 37 }, NULL, 2);
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    programs_of(k, &l, said, sizeof said);
    CHECK_TEXT(said, "M, N as one axis");
    CU_ASSERT(!strstr(said, "B, M as one axis"));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Launches whose code is there prove nothing again: also of a kernel whose sizes are chosen, and more of them
 * than are remembered word by word. */
static void test_proven_once(void)
{
    enum { SHAPES = 12 };
    tile_kernel *k;
    Launch l;
    Counter counter = { 0 };
    fake = fake_open(FAKE_CUDA);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    cd.allocator = (tile_allocator){ counter_realloc, &counter };
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, chosen, "k", NULL, 0, &k));
    for (int round = 0; round < 3; round++) {
        long calls = atomic_load(&counter.calls);
        for (int i = 0; i < SHAPES; i++) {
            make2(&l, 100 + i, 37, 0);
            OK(ctx, tile_launch(k, l.args, 2, NULL));
        }
        if (round == 2) CU_ASSERT_EQUAL(atomic_load(&counter.calls), calls);
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What a sealed context refuses is named by the extents that the caller gave. */
static void test_refused(void)
{
    tile_kernel *k;
    Launch l;
    if (!begin(TILE_CONTEXT_PINNED)) return;
    make2(&l, 100, 37, 0);
    OK(ctx, kernel_of(ctx, chosen, "k", NULL, 0, &k));
    OK(ctx, tile_context_seal(ctx, 1));
    CHECK_STATUS(ctx, tile_launch(k, l.args, 2, NULL), TILE_ERROR_SEALED);
    CHECK_TEXT(error_of(ctx), "configuration of M=100 N=37");
    CHECK_TEXT(error_of(ctx), "M, N as one axis");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* What was chosen for a launch on one axis is written to a table and read back. */
static void test_written_choices(void)
{
    char path[] = "/tmp/tile-collapse-XXXXXX", said[512], again[512];
    int fd = mkstemp(path);
    Launch l;
    tile_kernel *k;
    tile_module *m;
    if (fd < 0 || !begin(0)) return;
    close(fd);
    make2(&l, 100, 37, 0);
    OK(ctx, kernel_of(ctx, chosen, "k", NULL, 0, &k));
    programs_of(k, &l, said, sizeof said);
    CHECK_TEXT(said, "M, N as one axis");
    OK(ctx, tile_kernel_write_choices(k, path, NULL));
    tile_kernel_destroy(k);
    OK(ctx, tile_module_load_memory(ctx, "test.tile", chosen, strlen(chosen),
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = path }, &m));
    OK(ctx, tile_kernel_create(m, "k", NULL, 0, &k));
    programs_of(k, &l, again, sizeof again);
    CU_ASSERT_STRING_EQUAL(again, said);
    /* Nothing was chosen. */
    CHECK_STATUS(ctx, tile_kernel_write_choices(k, path, NULL), TILE_ERROR_NOT_FOUND);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    unlink(path);
    tile_context_destroy(ctx);
}

/* --- results ---------------------------------------------------------------------------------------------
 */

static void open_cpu(void)
{
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    OK(NULL, tile_context_create(&d, &ctx));
}

/* Runs y = f(x) and compares every element; what lies between rows must stay. */
static void compare(
    tile_kernel *k, const Launch *l, int64_t outer, int64_t inner, int64_t apart, int64_t step)
{
    for (int i = 0; i < 1 << 16; i++) {
        memory[0][i] = sinf((float)i);
        memory[1][i] = 77;
    }
    OK(ctx, tile_launch(k, l->args, (size_t)l->n, NULL));
    int64_t wrong = 0, at = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            at = o * apart + i * step;
            double x = memory[0][at];
            wrong += !(fabs(memory[1][at] - (x * x + 0.5)) < 1e-6);
            memory[1][at] = 77;
        }
    for (int i = 0; i < 1 << 16; i++) wrong += memory[1][i] != 77;
    CU_ASSERT_EQUAL(wrong, 0);
}

static void test_results(void)
{
    static const int64_t sizes[] = { 1, 3, 9, 64, 129 };
    tile_kernel *k;
    Launch l;
    open_cpu();
    OK(ctx, kernel_of(ctx, square, "k", NULL, 0, &k));
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int gap = 0; gap < 2; gap++) {
                int64_t m = sizes[a], n = sizes[b];
                make2(&l, m, n, gap ? n + 5 : 0);
                compare(k, &l, m, n, gap ? n + 5 : n, 1);
                make(&l, 2, (int64_t[]){ m, n }, (int64_t[]){ 3 * n + gap, 3 }, 2);
                compare(k, &l, m, n, 3 * n + gap, 3);
            }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Three axes: of which the last two, the first two, or all become one. */
static void test_three_axes(void)
{
    static const char text[] =
        "kernel k(in f32 X[B, M, N], out f32 Y[B, M, N], const int TM = 4, const int TN = 32)\n"
        "    grid (cdiv(N, TN), cdiv(M, TM), B) {\n    let (j, i, b) = program_id();\n"
        "    let x = load(X[b, i*TM +: TM, j*TN +: TN]);\n"
        "    store(Y[b, i*TM +: TM, j*TN +: TN], x*x + 0.5);\n}\n";
    static const int64_t strides[][3] = { { 5 * 37, 37, 1 }, { 5 * 37 + 3, 37, 1 }, { 5 * 40, 40, 1 } };
    static const char *const says[] = { "M, N as one axis", "M, N as one axis", "B, M as one axis" };
    char said[512];
    for (int s = 0; s < 3; s++) {
        tile_kernel *k;
        Launch l;
        make(&l, 3, (int64_t[]){ 7, 5, 37 }, strides[s], 2);
        open_cpu();
        OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
        programs_of(k, &l, said, sizeof said);
        CHECK_TEXT(said, says[s]);
        CU_ASSERT_EQUAL(strstr(said, "B, M as one axis") != NULL, s != 1);
        for (int i = 0; i < 1 << 16; i++) {
            memory[0][i] = sinf((float)i);
            memory[1][i] = 77;
        }
        OK(ctx, tile_launch(k, l.args, 2, NULL));
        int64_t wrong = 0;
        for (int64_t e = 0; e < 7 * 5 * 37; e++) {
            int64_t at = e / 185 * strides[s][0] + e / 37 % 5 * strides[s][1] + e % 37;
            wrong += !(fabsf(memory[1][at] - (memory[0][at] * memory[0][at] + 0.5f)) < 1e-6f);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        tile_kernel_destroy(k);
        tile_context_destroy(ctx);
    }
}

/* Short rows with gaps have a variant of their own, whatever the gaps are. Long ones have none, and where
 * rows begin at multiples of 16 bytes is known by these. */
static void test_rows_with_gaps(void)
{
    static const char text[] = "kernel k(in f16 X[M, N], out f16 Y[M, N]) grid (M)\n"
                               "{ let i = program_id(); store(Y[i, :], load(X[i, :]) * f16(i)); }\n";
    static const struct {
        int64_t n, pitch;
        int compiles;
        bool gaps;
    } rows[] = { { 101, 101, 1, false }, { 101, 103, 2, true }, { 101, 207, 2, true }, { 101, 104, 3, false },
        { 101, 101, 3, false }, { 801, 801, 4, false }, { 801, 803, 4, false } };
    char said[512];
    tile_kernel *k;
    if (!begin(0)) return;
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        Launch l;
        make2(&l, 9, rows[r].n, rows[r].pitch);
        programs_of(k, &l, said, sizeof said);
        CU_ASSERT_EQUAL(fake->compiles, rows[r].compiles);
        CU_ASSERT_EQUAL(strstr(said, "rows with gaps") != NULL, rows[r].gaps);
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Where extents are known to the code, it is told of tensors without gaps between these axes, whose tiles
 * have one axis then (flatten). What was compiled is read back from the cache's form. */
static void test_axes_without_gaps(void)
{
    static const char text[] =
        "kernel k(in f32 X[M, C, S], out f32 Y[M, C, S]) grid (M)\n"
        "{ let i = program_id(); let x = load(X[i, :, :]); store(Y[i, :, :], x - sum(x)); }\n";
    static const struct {
        int64_t strides[3];
        int compiles;
        bool dense;
    } given[] = { { { 35, 7, 1 }, 1, true }, { { 37, 7, 1 }, 1, true }, { { 45, 9, 1 }, 2, false } };
    static const int64_t shape[3] = { 9, 5, 7 };
    char said[512];
    tile_kernel *k;
    if (!begin(0)) return;
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    for (size_t r = 0; r < sizeof given / sizeof *given; r++) {
        Launch l;
        make(&l, 3, shape, given[r].strides, 2);
        programs_of(k, &l, said, sizeof said);
        CU_ASSERT_EQUAL(fake->compiles, given[r].compiles);
        CU_ASSERT_EQUAL(strstr(said, "axes without gaps") != NULL, given[r].dense);
    }
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
        { "axes_without_gaps", test_axes_without_gaps },
        { "which_arguments", test_which_arguments },
        { "which_kernels", test_which_kernels },
        { "constants", test_constants },
        { "some_of_the_pairs", test_some_of_the_pairs },
        { "proven_once", test_proven_once },
        { "refused", test_refused },
        { "written_choices", test_written_choices },
        { "rows_with_gaps", test_rows_with_gaps },
#ifdef HAVE_CPU
        { "results", test_results },
        { "three_axes", test_three_axes },
#endif
    };
    return unit_run("collapse", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
