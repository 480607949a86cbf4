/* test_launch.c: launches on a fake CUDA device: what reaches the driver, and what is refused with which
 * words. */
#include "launch_add.h"

static tile_kernel *rows;

static void test_device(void)
{
    open_add();
    tile_device_info i = { .struct_size = sizeof i };
    OK(ctx, tile_context_device(ctx, &i));
    CU_ASSERT_STRING_EQUAL(i.name, "Fake GPU");
    CU_ASSERT_STRING_EQUAL(i.target, "cuda:sm_90a");
    CU_ASSERT_EQUAL(i.device.device_type, kDLCUDA);
    CU_ASSERT_EQUAL(i.multiprocessors, 4);
    CU_ASSERT_EQUAL(i.warp_size, 32);
    CU_ASSERT_EQUAL(i.shared_bytes, 232448);
    close_add();
}

static void test_reaches_driver(void)
{
    open_add();
    int stream;
    OK(ctx, launch_add(3000, NULL, buffer[0], buffer[1], buffer[2], &stream));
    CU_ASSERT_EQUAL(fake->launches, 1);
    CU_ASSERT_STRING_EQUAL(fake->last.name, "vector_add");
    CU_ASSERT_EQUAL(fake->last.grid[0], 3);
    CU_ASSERT_EQUAL(fake->last.grid[1], 1);
    CU_ASSERT(fake->last.block[0] >= 32 && fake->last.block[0] % 32 == 0);
    CU_ASSERT_PTR_EQUAL(fake->last.stream, &stream);
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CHECK_TEXT(fake->options, "--gpu-architecture=sm_90a");
    tile_variant_info v = { .struct_size = sizeof v };
    int64_t n = 3000;
    tile_tensor t[3] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 },
        { buffer[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    OK(ctx, tile_kernel_variant(add, a, 3, &v));
    CU_ASSERT_EQUAL(v.registers, 40);
    CU_ASSERT_EQUAL(v.spill_bytes, 12);
    CU_ASSERT_EQUAL(v.stack_bytes, 8);
    CU_ASSERT_EQUAL(v.programs, 3);
    CHECK_TEXT(v.specialization, "X: aligned 16, unit stride on axis 0");
    close_add();
}

/* Makes the kernel's variant for 3 rows of 4096: how often it is compiled, with which bounds at last, and
 * what then spills. */
static void check_bounds(const char *text, const char *kernel, tile_binding *hints, int n, int compiles,
    const char *head, int left)
{
    int64_t shape[2] = { 3, 4096 };
    tile_tensor t = { buffer[0], shape, NULL, 2, TILE_F32 };
    tile_arg a = tile_arg_tensor(&t);
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, kernel_of(ctx, text, kernel, hints, (size_t)n, &rows));
    OK(ctx, tile_kernel_variant(rows, &a, 1, &v));
    CU_ASSERT_EQUAL(fake->compiles, compiles);
    CHECK_TEXT(fake->program, head);
    CU_ASSERT_EQUAL(v.spill_bytes, left);
    tile_kernel_destroy(rows);
}

/* Launch bounds under which many words spill are halved until they do not, and under which few do are for one
 * CTA less; the variant is the last one. */
static void test_spilling(void)
{
    static const char text[] =
        "kernel rows(inout f32 X[M, N]) grid (M)\n{\n let x = load(X[program_id(), :]);\n"
        " store(X[program_id(), :], x / sum(x, axis = 0));\n}\n";
    static const struct {
        int warps, at, bytes, compiles, left;
        const char *head;
    } cases[] = { { 8, 0, 0, 1, 12, "256, at most 64 registers" },
        { 8, 3, 400, 2, 12, "256, at most 128 registers" }, { 8, 4, 96, 2, 12, "256, at most 80 registers" },
        { 16, 2, 96, 1, 96, "512, at most 64 registers" } };
    for (int k = 0; k < 4; k++) {
        tile_binding warps = { "warps", TILE_BIND_INT, { .i = cases[k].warps } };
        open_add();
        fake->spills_at = cases[k].at;
        fake->spills = cases[k].bytes;
        check_bounds(text, "rows", &warps, 1, cases[k].compiles, cases[k].head, cases[k].left);
        close_add();
    }
}

/* A kernel that loads, computes and stores once gets bounds for 1536 threads, or for 1024, if that is more
 * than its registers allow and nothing spills; not with loops, hints, or reductions without products. */
static void test_more_ctas(void)
{
#define PROGRAM "kernel k(inout f32 X[M, N]) grid (M)\n{\n let i = program_id(); let x = load(X[i, :]);\n"
    static const char once[] = PROGRAM "store(X[i, :], x * x);\n}\n",
                      reduced[] = PROGRAM "store(X[i, :], x / sum(x, axis = 0));\n}\n",
                      loop[] = "kernel k(inout f32 X[M, N]) grid (M)\n{\n for j in 0 .. cdiv(N, 64) {\n"
                               " let x = load(X[0, j*64 +: 64]); store(X[0, j*64 +: 64], x * x);\n }\n}\n",
                      product[] = PROGRAM "let a = f16(reshape(x, [64, 64]));\n"
                                          "store(X[i, :], reshape(mma(a, a), [4096]));\n}\n";
    static const struct {
        const char *text;
        int occupancy, registers, at, compiles;
        const char *head;
    } cases[] = { { once, 0, 40, 0, 1, "128, at most 255 registers" },
        { once, 0, 64, 0, 2, "128, at most 40 registers" },
        { once, 0, 96, 12, 3, "128, at most 64 registers" },
        { once, 4, 96, 0, 1, "128, at most 128 registers" },
        { once, 0, 72, 12, 3, "128, at most 64 registers" },
        { product, 0, 96, 0, 2, "128, at most 40 registers" },
        { reduced, 0, 96, 0, 1, "128, at most 64 registers" },
        { loop, 0, 96, 0, 1, "128, at most 255 registers" } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        tile_binding hints[] = { { "warps", TILE_BIND_INT, { .i = 4 } },
            { "occupancy", TILE_BIND_INT, { .i = cases[k].occupancy } } };
        const int n_hints = cases[k].occupancy ? 2 : 1;
        open_add();
        fake->used = cases[k].registers;
        fake->spills_at = cases[k].at;
        fake->spills = 8;
        check_bounds(cases[k].text, "k", hints, n_hints, cases[k].compiles, cases[k].head, 0);
        close_add();
    }
}

/* Programs are packed along an axis only as far as it has programs; launches with about as many share a
 * variant. Axes with many, and what is no extent of the grid, are in no variant's key. */
static void test_counted(void)
{
    static const char text[] =
        "kernel heads(in f16 X[S, H, 128], out f16 Y[H, S, 128]) grid (H, S) {\n"
        "    let (h, s) = program_id();\n    store(Y[h, s, :], load(X[s, h, :]) * 2.0);\n}\n";
    static const struct {
        int64_t h, s;
        int compiles, grid;
        const char *says;
    } cases[] = { { 8, 64, 1, 32, "; H<=8" }, { 7, 64, 1, 32, "; H<=8" }, { 1, 64, 2, 4, "; H<=1" },
        { 3, 64, 3, 12, "; H<=3" }, { 33, 64, 4, 192, NULL }, { 35, 64, 4, 192, NULL } };
    static uint16_t x[35 * 64 * 128], y[35 * 64 * 128];
    tile_kernel *k;
    open_add();
    OK(ctx, kernel_of(ctx, text, "heads", NULL, 0, &k));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t of_x[3] = { cases[c].s, cases[c].h, 128 }, of_y[3] = { cases[c].h, cases[c].s, 128 };
        tile_tensor tx = { x, of_x, NULL, 3, TILE_F16 }, ty = { y, of_y, NULL, 3, TILE_F16 };
        tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
        OK(ctx, tile_launch(k, a, 2, NULL));
        CU_ASSERT_EQUAL(fake->compiles, cases[c].compiles);
        CU_ASSERT_EQUAL(fake->last.grid[0], cases[c].grid);
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_kernel_variant(k, a, 2, &v));
        if (cases[c].says) CHECK_TEXT(v.specialization, cases[c].says);
        else CU_ASSERT_PTR_NULL(strstr(v.specialization, "H<="));
    }
    tile_kernel_destroy(k);
    close_add();
}

/* A row that is transposed goes to other lanes: the programs of a pack have a warp, unless the kernel says
 * how many. Those that only copy have two, and one where several single elements go with each row. */
static void test_packs_meet(void)
{
    static const char text[] = "kernel turned(in f16 X[B, 128], out f16 Y[B, 128]) grid (B) {\n"
                               "    let x = reshape(load(X[program_id(), :]), [8, 16]);\n"
                               "    store(Y[program_id(), :], reshape(transpose(x), [128]));\n}\n"
                               "kernel copies(in f16 X[B, 128], out f16 Y[B, 128]) grid (B) {\n"
                               "    store(Y[program_id(), :], load(X[program_id(), :]));\n}\n"
                               "kernel lines(in f16 X[B, 128], out f16 Y[B, 128], in f16 A[B], in f16 C[B])\n"
                               "    grid (B) {\n    let b = program_id();\n"
                               "    store(Y[b, :], load(X[b, :]) * load(A[b]) + load(C[b]));\n}\n";
    static const struct {
        const char *kernel;
        int warps, threads;
    } cases[] = { { "turned", 0, 32 }, { "turned", 4, 128 }, { "copies", 0, 64 }, { "lines", 0, 32 } };
    static uint16_t x[4096 * 128], y[4096 * 128];
    for (int c = 0; c < 4; c++) {
        tile_binding warps = { "warps", TILE_BIND_INT, { .i = cases[c].warps } };
        int64_t shape[2] = { 4096, 128 };
        tile_tensor tx = { x, shape, NULL, 2, TILE_F16 }, ty = { y, shape, NULL, 2, TILE_F16 };
        tile_tensor tz = { x, shape, NULL, 1, TILE_F16 };
        tile_arg a[4] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty), tile_arg_tensor(&tz),
            tile_arg_tensor(&tz) };
        tile_variant_info v = { .struct_size = sizeof v };
        open_add();
        OK(ctx, kernel_of(ctx, text, cases[c].kernel, &warps, cases[c].warps > 0, &rows));
        OK(ctx, tile_kernel_variant(rows, a, c == 3 ? 4 : 2, &v));
        CU_ASSERT_EQUAL(v.threads, cases[c].threads);
        tile_kernel_destroy(rows);
        close_add();
    }
}

/* Asked for, and where the code waits for what is before it: so not on sm_80. Launches that are remembered
 * ask for it too, and as graphs are captured. */
static void test_early_start(void)
{
    static const struct {
        const char *target;
        uint32_t flags;
        int early;
    } rows[] = { { "cuda", TILE_CONTEXT_EARLY_START, 1 }, { "cuda:sm_90", TILE_CONTEXT_EARLY_START, 1 },
        { "cuda", 0, 0 }, { "cuda:sm_80", TILE_CONTEXT_EARLY_START, 0 } };
    for (int r = 0; r < 4; r++) {
        fake = fake_open(FAKE_CUDA);
        tile_context_desc d = fake_desc(rows[r].target, FAKE_CUDA);
        d.flags |= rows[r].flags;
        CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
        OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
        for (int n = 0; n < 3; n++) {
            int stream;
            fake->capturing = n == 2;
            fake->captured_globally =
                n == 0; /* another thread's capture forbids nothing that a first launch does */
            fake->last.early_start = -1;
            OK(ctx, launch_add(3000, NULL, buffer[0], buffer[1], buffer[2], &stream));
            CU_ASSERT_EQUAL(fake->last.early_start, rows[r].early);
            CU_ASSERT_PTR_EQUAL(fake->last.stream, &stream);
            CU_ASSERT_EQUAL(fake->last.grid[0], 3);
        }
        close_add();
    }
}

static void test_variants(void)
{
    open_add();
    OK(ctx, launch_add(3000, NULL, buffer[0], buffer[1], buffer[2], NULL));
    OK(ctx, launch_add(2999, NULL, buffer[0], buffer[1], buffer[2], NULL)); /* neither is a multiple of 16 */
    CU_ASSERT_EQUAL(fake->compiles, 1);
    OK(ctx, launch_add(1600, NULL, buffer[0], buffer[1], buffer[2], NULL));
    CU_ASSERT_EQUAL(fake->compiles, 2);
    OK(ctx, launch_add(2000 - 1, NULL, buffer[0] + 1, buffer[1], buffer[2], NULL));
    CU_ASSERT_EQUAL(fake->compiles, 3);
    int64_t two = 2;
    OK(ctx, launch_add(999, &two, buffer[0], buffer[1], buffer[2], NULL));
    CU_ASSERT_EQUAL(fake->compiles, 4);
    OK(ctx, launch_add(
                1, &two, buffer[0], buffer[1], buffer[2], NULL)); /* one element: its stride means nothing */
    CU_ASSERT_EQUAL(fake->compiles, 4);
    CU_ASSERT_EQUAL(fake->launches, 6);
    close_add();
}

/* Rows at multiples of 8 or 4 bytes but not of 16, and rows of a whole number of 16 bytes: a fact of their
 * own, which extents share and addresses decide. The kernel does not treat all rows alike: else they were one
 * row without gaps. Row counts are those of one variant (launch_facts_most). */
static void test_grain(void)
{
    static const char text[] =
        "kernel scale(in f16 X[M, N], out f16 Y[M, N]) grid (M, cdiv(N, 512))\n"
        "{ let (i, j) = program_id(); store(Y[i, j*512 +: 512], load(X[i, j*512 +: 512]) * f16(i)); }\n";
    static const struct {
        int64_t m, n, pitch;
        int at, compiles;
        const char *says;
    } rows[] = { { 9, 1500, 1500, 0, 1, "X: aligned 16, rows of whole 8 bytes, unit stride on axis 1" },
        { 11, 1508, 1508, 0, 1, NULL }, { 9, 1500, 1500, 8, 1, NULL },
        { 9, 1502, 1502, 0, 2, "X: aligned 16, rows of whole 4 bytes" },
        { 9, 1500, 1500, 4, 3, "X: unaligned, rows of whole 8 bytes" },
        { 9, 1500, 1500, 2, 4, "X: unaligned, rows of whole 4 bytes" },
        { 9, 1501, 1501, 0, 5, "X: aligned 16, unit stride" }, { 9, 1501, 1504, 0, 6, NULL },
        { 9, 1500, 1504, 0, 6, NULL }, { 9, 1498, 1500, 0, 6, NULL }, { 9, 1501, 1501, 0, 6, NULL },
        { 9, 1496, 1496, 0, 7, "X: aligned 16, rows of whole 16 bytes" }, { 10, 1512, 1520, 0, 7, NULL },
        { 9, 1500, 1504, 0, 7, NULL } };
    open_add();
    tile_kernel *k;
    OK(ctx, kernel_of(ctx, text, "scale", NULL, 0, &k));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int64_t shape[2] = { rows[r].m, rows[r].n }, strides[2] = { rows[r].pitch, 1 };
        tile_tensor x = { (char *)buffer[0] + 2 * rows[r].at, shape, strides, 2, TILE_F16 }, y = x;
        y.data = (char *)y.data + 4 * sizeof buffer[0]; /* the fake device touches nothing */
        tile_arg a[2] = { tile_arg_tensor(&x), tile_arg_tensor(&y) };
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_launch(k, a, 2, NULL));
        OK(ctx, tile_kernel_variant(k, a, 2, &v));
        CU_ASSERT_EQUAL(fake->compiles, rows[r].compiles);
        if (rows[r].says) CHECK_TEXT(v.specialization, rows[r].says);
    }
    tile_kernel_destroy(k);
    close_add();
}

/* An index below the bound of extents is computed with in 32 bits; one beyond has a variant of its own. */
static void test_small_index(void)
{
    static const char text[] = "kernel turned(in f32 X[N], out f32 Y[N], index by) grid (N)\n"
                               "{ let i = program_id(); store(Y[i], load(X[(i + by) % N])); }\n";
    static const int64_t by[] = { 0, 4, (1 << 28) - 1, 1 << 28, -4 };
    static const int compiles[] = { 1, 1, 1, 2, 3 };
    int64_t n = 3000;
    tile_kernel *k;
    open_add();
    OK(ctx, kernel_of(ctx, text, "turned", NULL, 0, &k));
    for (int i = 0; i < 5; i++) {
        tile_tensor x = { buffer[0], &n, NULL, 1, TILE_F32 }, y = { buffer[1], &n, NULL, 1, TILE_F32 };
        tile_arg a[3] = { tile_arg_tensor(&x), tile_arg_tensor(&y), tile_arg_int(by[i]) };
        OK(ctx, tile_launch(k, a, 3, NULL));
        CU_ASSERT_EQUAL(fake->compiles, compiles[i]);
        CU_ASSERT_EQUAL(strstr(fake->program, "by from 0 to 2^28 - 1") != NULL, i < 3);
    }
    tile_kernel_destroy(k);
    close_add();
}

static void test_empty(void)
{
    open_add();
    OK(ctx, launch_add(0, NULL, NULL, NULL, NULL, NULL));
    int64_t none = 0;
    DLTensor t = {
        .device = { kDLCUDA, 0 }, .ndim = 1, .dtype = { kDLFloat, 32, 1 }, .shape = &none, .byte_offset = 64
    };
    tile_arg a[3] = { tile_arg_dltensor(&t), tile_arg_dltensor(&t), tile_arg_dltensor(&t) };
    OK(ctx, tile_launch(add, a, 3, NULL)); /* Without elements, an offset from a null address is allowed. */
    OK(ctx, tile_tensor_copy(ctx, &t, &t, NULL));
    none = 4;
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "the data pointer is NULL");
    CU_ASSERT_EQUAL(fake->launches, 0);
    close_add();
}

/* A launch of `name` from the text below on X [m, n] and Y; the fake device does not compute: what counts is
 * what is compiled and launched. */
static void launch_empty(const char *name, const tile_binding *binding, int64_t m, int64_t n, tile_tensor y,
    tile_status want, const char *words)
{
    static const char text[] =
        "kernel softmax(in f32 X[M, N], out f32 Y[M, N]) grid (M)\n"
        "{ let i = program_id(); let e = exp(load(X[i, :])); store(Y[i, :], e / sum(e)); }\n"
        "kernel sums(in f32 X[M, N], out f32 Y[M]) grid (M)\n"
        "{ let i = program_id(); store(Y[i], sum(load(X[i, :]), drop = true)); }\n"
        "kernel fixed(in f32 X[M, C], inout f32 Y[M, 2*C], const int C = 4) grid (M)\n"
        "{ let i = program_id(); store(Y[i, 0 +: C], load(X[i, :])); }\n"
        "kernel total(in f32 X[M, N], inout f32 Y[1]) grid (M)\n"
        "{ atomic_add(Y[0], sum(load(X[program_id(), :]), drop = true)); }\n"
        "kernel choice(in f32 X[M, N], out f32 Y[1]) grid (1)\n"
        "{ const if N > 0 { store(Y[0], sum(load(X[0, :]), drop = true)); } else { store(Y[0], -1.0); } }\n";
    tile_kernel *k;
    tile_tensor x = { buffer[0], (int64_t[]){ m, n }, NULL, 2, TILE_F32 };
    tile_arg a[2] = { tile_arg_tensor(&x), tile_arg_tensor(&y) };
    size_t bytes = 1;
    tile_variant_info info = { .struct_size = sizeof info, .programs = 7 };
    OK(ctx, kernel_of(ctx, text, name, binding, binding != NULL, &k));
    for (int twice = 0; twice < 2; twice++) {
        CHECK_STATUS(ctx, tile_launch(k, a, 2, NULL), want);
        if (words) CHECK_TEXT(error_of(ctx), words);
    }
    CHECK_STATUS(ctx, tile_kernel_compile(k, a, 2), want);
    CHECK_STATUS(ctx, tile_kernel_workspace(k, a, 2, &bytes), want);
    CHECK_STATUS(ctx, tile_kernel_variant(k, a, 2, &info), want);
    if (!want && !fake->compiles)
        CU_ASSERT(bytes == 0 && info.programs == 0 && strstr(info.specialization, "nothing to compute"));
    tile_kernel_destroy(k);
}

/* No tile has 0 elements, so there is no code for these extents; where there is nothing to compute none is
 * wanted. */
static void test_no_elements(void)
{
    open_add();
    int64_t four = 4, none = 0, one = 1, rows[2] = { 4, 0 }, wide[2] = { 4, 2 };
    tile_tensor y1 = { buffer[1], &one, NULL, 1, TILE_F32 }, y0 = { NULL, &none, NULL, 1, TILE_F32 },
                y4 = { buffer[1], &four, NULL, 1, TILE_F32 };
    tile_tensor rows0 = { NULL, rows, NULL, 2, TILE_F32 }, rows2 = { buffer[1], wide, NULL, 2, TILE_F32 };
    tile_binding n0 = { "N", TILE_BIND_TEXT, { .text = "0" } }, c0 = { "C", TILE_BIND_TEXT, { .text = "0" } };
    launch_empty("softmax", NULL, 4, 0, rows0, TILE_OK, NULL);
    launch_empty("softmax", &n0, 4, 0, rows0, TILE_OK, NULL);
    launch_empty("sums", NULL, 0, 0, y0, TILE_OK, NULL);
    launch_empty("total", NULL, 0, 0, y1, TILE_OK, NULL); /* no program */
    launch_empty("fixed", &c0, 4, 0, rows0, TILE_OK, NULL);
    CU_ASSERT_EQUAL(fake->compiles, 0);
    launch_empty("sums", NULL, 4, 0, y4, TILE_ERROR_COMPILE,
        "test.tile:4:51: error: a tile extent must be at least 1, not 0");
    launch_empty("sums", NULL, 4, 0, y4, TILE_ERROR_COMPILE, "dimension `N` is 0");
    launch_empty("total", NULL, 4, 0, y1, TILE_ERROR_COMPILE, "dimension `N` is 0");
    launch_empty(
        "fixed", NULL, 4, 0, rows0, TILE_ERROR_SHAPE, "argument 1 (X): axis 1 (4) has 0 elements, not 4");
    launch_empty(
        "fixed", &c0, 4, 0, rows2, TILE_ERROR_SHAPE, "argument 2 (Y): axis 1 (2*0) has 2 elements, not 0");
    CU_ASSERT_EQUAL(fake->compiles, 0);
    launch_empty("choice", NULL, 4, 0, y1, TILE_OK, NULL); /* there is code for an extent of 0 */
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CU_ASSERT_EQUAL(fake->launches, 2);
    close_add();
}

static void test_refused(void)
{
    open_add();
    float (*b)[4096] = buffer;
    int64_t n = 100, m = 90, zero = 0;
    CHECK_STATUS(ctx, launch_add(100, NULL, b[0], NULL, b[2], NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "vector_add: argument 2 (Y): the data pointer is NULL");
    CHECK_STATUS(ctx, launch_add(100, NULL, (char *)b[0] + 2, b[1], b[2], NULL), TILE_ERROR_ALIGNMENT);
    CHECK_TEXT(error_of(ctx), "argument 1 (X): the address is no multiple of 4");
    CHECK_STATUS(ctx, launch_add(100, NULL, b[0], b[1], b[0], NULL), TILE_ERROR_OVERLAP);
    CHECK_TEXT(error_of(ctx), "argument 3 (Z): is written to and overlaps X");
    CHECK_STATUS(ctx, launch_add(100, NULL, b[0], b[1], b[1] + 99, NULL), TILE_ERROR_OVERLAP);
    OK(ctx, launch_add(100, NULL, b[0], b[1], b[1] + 100, NULL));
    CHECK_STATUS(ctx, launch_add(100, &zero, b[0], b[1], b[2], NULL), TILE_ERROR_OVERLAP);
    CHECK_TEXT(error_of(ctx), "stride 0");
    int64_t two = 2; /* Interleaved: the even elements are read, the odd ones are written. */
    OK(ctx, launch_add(100, &two, b[0], b[1], b[0] + 1, NULL));
    tile_tensor t[3] = { { b[0], &n, NULL, 1, TILE_F32 }, { b[1], &m, NULL, 1, TILE_F32 },
        { b[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "dimension N is 100 in X (axis 0) but 90 in Y (axis 0)");
    CHECK_STATUS(ctx, tile_launch(add, a, 2, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "takes 3 arguments, 2 were given");
    t[1] = (tile_tensor){ b[1], &n, NULL, 1, TILE_F16 };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "argument 2 (Y): elements are f16, the kernel takes f32");
    t[1] = (tile_tensor){ b[1], (int64_t[]){ 10, 10 }, NULL, 2, TILE_F32 };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "has 2 axes, the kernel takes 1");
    a[1] = tile_arg_int(3);
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_DTYPE);
    int64_t negative = -1;
    t[1] = (tile_tensor){ b[1], &negative, NULL, 1, TILE_F32 };
    a[1] = tile_arg_tensor(&t[1]);
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_SHAPE);
    tile_launch_desc bad = { .struct_size = 0 };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, &bad), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(fake->launches, 2);
    close_add();
}

static void test_dlpack(void)
{
    open_add();
    int64_t n = 64;
    DLTensor x = { .data = buffer[0],
        .device = { kDLCUDA, 0 },
        .ndim = 1,
        .dtype = { kDLFloat, 32, 1 },
        .shape = &n,
        .byte_offset = 64 },
             y = x, z = x;
    y.data = buffer[1];
    z.data = buffer[2];
    tile_arg a[3] = { tile_arg_dltensor(&x), tile_arg_dltensor(&y), tile_arg_dltensor(&z) };
    OK(ctx, tile_launch(add, a, 3, NULL));
    x.device.device_id = 1;
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_DEVICE);
    CHECK_TEXT(error_of(ctx), "DLPack device (2, 1), the context's is (2, 0)");
    x.device = (DLDevice){ kDLCPU, 0 };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_DEVICE);
    x.device = (DLDevice){ kDLCUDA, 0 };
    x.dtype = (DLDataType){ kDLInt, 32, 1 };
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "elements are i32, the kernel takes f32");
    a[0] = tile_arg_dltensor(NULL);
    CHECK_STATUS(ctx, tile_launch(add, a, 3, NULL), TILE_ERROR_INVALID_ARGUMENT);
    close_add();
}

static void test_too_many_programs(void)
{
    open_add();
    tile_kernel *k;
    tile_binding b[] = { { "BLOCK", TILE_BIND_INT,
        { .i = 2048 } } }; /* long enough that a program does one block */
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", b, 1, &k));
    int64_t n = (int64_t)1 << 42, stride = 0, one = 1;
    tile_tensor in = { buffer[0], &n, &stride, 1, TILE_F32 },
                out = { (void *)((uintptr_t)1 << 40), &n, &one, 1, TILE_F32 };
    tile_arg a[3] = { tile_arg_tensor(&in), tile_arg_tensor(&in), tile_arg_tensor(&out) };
    CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), TILE_ERROR_GRID);
    CHECK_TEXT(error_of(ctx), "vector_add<BLOCK=2048>: the grid of 2147483648 programs is too large for "
                              "cuda:sm_90a; at most 2147483647 programs run in one launch");
    CU_ASSERT_EQUAL(fake->launches, 0);
    tile_kernel_destroy(k);
    close_add();
}

/* A warm launch allocates nothing, neither from the allocator nor with malloc, and compiles nothing. */
static void test_warm(void)
{
    Counter counter = { 0 };
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.allocator = (tile_allocator){ counter_realloc, &counter };
    OK(ctx, tile_context_create(&d, &ctx));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &add));
    OK(ctx, launch_add(4096, NULL, buffer[0], buffer[1], buffer[2], NULL));
    long calls = counter.calls;
    for (int i = 0; i < 1000; i++) OK(ctx, launch_add(4096, NULL, buffer[0], buffer[1], buffer[2], NULL));
    CU_ASSERT_EQUAL(counter.calls, calls);
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CU_ASSERT_EQUAL(fake->launches, 1001);
    close_add();
    CU_ASSERT_EQUAL(counter.live, 0);
}

UNIT_MAIN("launch", { "device", test_device }, { "reaches_driver", test_reaches_driver },
    { "early_start", test_early_start }, { "spilling", test_spilling }, { "more_ctas", test_more_ctas },
    { "variants", test_variants }, { "grain", test_grain }, { "small index", test_small_index },
    { "empty", test_empty }, { "counted", test_counted }, { "packs_meet", test_packs_meet },
    { "no_elements", test_no_elements }, { "refused", test_refused }, { "dlpack", test_dlpack },
    { "too_many_programs", test_too_many_programs }, { "warm", test_warm })
