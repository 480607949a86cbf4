/* test_serve.c: what a server needs of libtile: everything compiled ahead of time (prepare), nothing compiled
 * afterwards (sealed), and choices that do not depend on what ran before (pinned), which a table can hold.
 * Runs on the fake drivers. */
#define _GNU_SOURCE
#include "api.h"
#include <unistd.h>

static tile_context *ctx;
static char memory[1 << 22] __attribute__((aligned(256)));

static bool open_context(const char *target, const char *library, uint32_t flags, Counter *counter)
{
    tile_context_desc cd = fake_desc(target, library);
    cd.flags |= flags;
    if (counter) cd.allocator = (tile_allocator){ counter_realloc, counter };
    if (!tile_context_create(&cd, &ctx)) return true;
    CU_FAIL("context");
    return false;
}

/* Launches vector_add of n elements, `off` bytes from an aligned address. */
static tile_status add(tile_kernel *k, int64_t n, size_t off)
{
    tile_tensor t[3];
    tile_arg a[3];
    for (size_t i = 0; i < 3; i++) {
        t[i] = (tile_tensor){ memory + (i << 20) + off, &n, NULL, -1, TILE_NONE };
        a[i] = tile_arg_tensor(&t[i]);
    }
    return tile_launch(k, a, 3, NULL);
}

static const char *missing(void)
{
    static char text[64 << 10];
    size_t n = tile_context_missing(ctx, text, sizeof text);
    CU_ASSERT_EQUAL(n, strlen(text));
    CU_ASSERT_EQUAL(tile_context_missing(ctx, NULL, 0), n);
    return text;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void test_sealed(void)
{
    Counter counter = { 0 };
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_kernel *k;
    if (!open_context("cuda", FAKE_CUDA, 0, &counter)) return;
    CU_ASSERT_EQUAL(tile_context_seal(NULL, 1), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(tile_context_missing(NULL, NULL, 0), 0);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, add(k, 4096, 0));
    OK(ctx, tile_context_seal(ctx, 1));
    CU_ASSERT_STRING_EQUAL(missing(), "");
    int compiles = fake->compiles, launches = fake->launches;
    OK(ctx, add(k, 4096, 0));
    OK(ctx, add(k, 8192, 0)); /* the same variant */
    CU_ASSERT_EQUAL(fake->launches, launches + 2);
    CHECK_STATUS(ctx, add(k, 4096, 4), TILE_ERROR_SEALED);
    CHECK_TEXT(error_of(ctx), "sealed");
    CHECK_TEXT(error_of(ctx), "vector_add");
    CHECK_TEXT(error_of(ctx), "X: unaligned");
    CHECK_STATUS(ctx, add(k, 4095, 0), TILE_ERROR_SEALED);
    CHECK_STATUS(ctx, add(k, 4096, 4), TILE_ERROR_SEALED);
    CHECK_TEXT(missing(), "vector_add; N%16=0; X: unaligned");
    CU_ASSERT_EQUAL(lines(missing()), 2); /* each once */
    char small[8] = "xxxxxxx";
    CU_ASSERT(tile_context_missing(ctx, small, sizeof small) > sizeof small);
    CU_ASSERT_STRING_EQUAL(small, "vector_");
    int64_t n = 100;
    tile_tensor t = { memory, &n, NULL, -1, TILE_NONE };
    tile_arg a[3] = { tile_arg_tensor(&t), tile_arg_tensor(&t), tile_arg_tensor(&t) };
    size_t bytes;
    tile_compile *handle;
    CHECK_STATUS(ctx, tile_kernel_compile(k, a, 3), TILE_ERROR_SEALED);
    CHECK_STATUS(ctx, tile_kernel_workspace(k, a, 3, &bytes), TILE_ERROR_SEALED);
    OK(ctx, tile_kernel_compile_async(k, a, 3, &handle));
    CHECK_STATUS(ctx, tile_compile_wait(handle), TILE_ERROR_SEALED);
    tile_compile_destroy(handle);
    CU_ASSERT_EQUAL(fake->compiles, compiles);
    n = 0;
    OK(ctx, add(k, 0, 0)); /* nothing to compute needs no variant */
    OK(ctx, tile_context_seal(ctx, 0));
    CU_ASSERT_STRING_EQUAL(missing(), "");
    OK(ctx, add(k, 4096, 4));
    CU_ASSERT_EQUAL(fake->compiles, compiles + 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* The list ends after 256 lines. */
static void test_many_missing(void)
{
    static const char text[] =
        "kernel rows(in f32 X[M, N], out f32 Y[M, N]) grid (M) {\n    let r = program_id();\n"
        "    store(Y[r, :], load(X[r, :]));\n}\n";
    tile_kernel *k;
    fake_open(FAKE_CUDA);
    if (!open_context("cuda", FAKE_CUDA, 0, NULL)) return;
    OK(ctx, kernel_of(ctx, text, "rows", NULL, 0, &k));
    OK(ctx, tile_context_seal(ctx, 1));
    for (int64_t n = 1; n <= 300; n++) {
        int64_t shape[2] = { 2, n };
        tile_tensor x = { memory, shape, NULL, -1, TILE_NONE }, y = x;
        y.data = memory + (1 << 20);
        CHECK_STATUS(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&x), tile_arg_tensor(&y) }, 2, NULL),
            TILE_ERROR_SEALED);
    }
    CU_ASSERT_EQUAL(lines(missing()), 257);
    CHECK_TEXT(missing(), "rows<N=17>;");
    CHECK_TEXT(missing(), "\n...\n");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static tile_status prepare(
    tile_kernel *k, const char *name, int64_t first, int64_t last, int64_t step, size_t *n)
{
    tile_dim_range r = { name, first, last, step };
    return tile_kernel_prepare(
        k, &(tile_prepare_desc){ .struct_size = sizeof(tile_prepare_desc), .dims = &r, .n_dims = 1 }, n);
}

static void test_prepare(void)
{
    Counter counter = { 0 };
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_kernel *k;
    size_t n, again;
    if (!open_context("cuda", FAKE_CUDA, 0, &counter)) return;
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, prepare(k, "N", 1, 100, 1, &n));
    CU_ASSERT(n >= 2);
    CU_ASSERT_EQUAL(fake->compiles, (int)n);
    CU_ASSERT_EQUAL(fake->launches, 0);
    OK(ctx, tile_context_seal(ctx, 1));
    for (int64_t e = 0; e <= 100; e++) OK(ctx, add(k, e, 0));
    OK(ctx, prepare(k, "N", 1, 100, 1, &again)); /* all of it is there */
    CU_ASSERT_EQUAL(again, n);
    CU_ASSERT_EQUAL(fake->compiles, (int)n);
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    CHECK_STATUS(ctx, prepare(k, "N", 1, 100, 1, &again), TILE_ERROR_SEALED);
    CU_ASSERT_EQUAL(lines(missing()), (int)n); /* and says of each that it is not */
    OK(ctx, tile_context_seal(ctx, 0));
    OK(ctx, prepare(k, "N", 16, 1 << 20, 0, &n)); /* doubling: all are multiples of 16 */
    CU_ASSERT_EQUAL(n, 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* Extents that are expressions, optional tensors, scalars. */
static void test_prepare_arguments(void)
{
    static const char text[] =
        "kernel parts(in f32 X[N], in f32 B[N]?, out f32 Y[cdiv(N, 64)*64], f32 s = 2.0, i32 t)\n"
        "    grid (cdiv(N, 64))\n{\n    let i = program_id();\n    var x = load(X[i*64 +: 64])*s + f32(t);\n"
        "    const if has(B) { x = x + load(B[i*64 +: 64]); }\n    store(Y[i*64 +: 64], x);\n}\n";
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_kernel *k;
    size_t n, without;
    tile_arg a[5] = { { TILE_ARG_NONE, { 0 } } };
    tile_dim_range r = { "N", 1, 200, 1 };
    tile_prepare_desc d = { .struct_size = sizeof d, .dims = &r, .n_dims = 1 };
    if (!open_context("cuda", FAKE_CUDA, 0, NULL)) return;
    OK(ctx, kernel_of(ctx, text, "parts", NULL, 0, &k));
    OK(ctx, tile_kernel_prepare(k, &d, &n));
    CU_ASSERT_EQUAL(fake->compiles, (int)n);
    d.args = a; /* B is left out, and the integer is negative */
    d.n_args = 5;
    a[4] = tile_arg_int(-3);
    OK(ctx, tile_kernel_prepare(k, &d, &without));
    CU_ASSERT_EQUAL(without, n);
    CU_ASSERT_EQUAL(fake->compiles, (int)(n + without));
    a[4] = tile_arg_float(0.5);
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &d, &without), TILE_ERROR_DTYPE);
    d.n_args = 4;
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &d, &without), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "takes 5 arguments, found 4");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_prepare_bad(void)
{
    tile_kernel *k;
    size_t n = 7;
    FakeState *fake = fake_open(FAKE_CUDA);
    if (!open_context("cuda", FAKE_CUDA, 0, NULL)) return;
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    CU_ASSERT_EQUAL(tile_kernel_prepare(NULL, NULL, &n), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(n, 0);
    CHECK_STATUS(ctx, tile_kernel_prepare(k, NULL, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "dimension N has no range");
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &(tile_prepare_desc){ 0 }, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx,
        tile_kernel_prepare(
            k, &(tile_prepare_desc){ .struct_size = sizeof(tile_prepare_desc), .n_dims = 1 }, &n),
        TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "M", 1, 2, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "M is no dimension of the kernel");
    CHECK_STATUS(ctx, prepare(k, NULL, 1, 2, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "N", 2, 1, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "N", -2, 1, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "N", 0, 100, 0, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "N", 1, 100, -1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "1 to 100 in steps of -1");
    CHECK_STATUS(ctx, prepare(k, "N", 0, INT64_MAX - 1, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, prepare(k, "N", 0, INT64_MAX, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "more than 1048576 combinations");
    tile_dim_range twice[2] = { { "N", 1, 2, 1 }, { "N", 3, 4, 1 } };
    tile_prepare_desc d = { .struct_size = sizeof d, .dims = twice, .n_dims = 2 };
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &d, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "N has two ranges");
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add",
                (tile_binding[]){ { "N", TILE_BIND_INT, { .i = 32 } } }, 1, &k));
    CHECK_STATUS(ctx, prepare(k, "N", 32, 32, 1, &n), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(error_of(ctx), "N was bound");
    OK(ctx, tile_kernel_prepare(k, NULL, &n));
    CU_ASSERT_EQUAL(n, 1);
    strcpy(fake->compile_error, "no such instruction");
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    CHECK_STATUS(ctx, prepare(k, "N", 1, 64, 1, &n), TILE_ERROR_COMPILE);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Of several compilations that fail at once, the first is reported, whichever is waited for last. */
static void test_prepare_first(void)
{
    static const char text[] = "kernel whole(in f32 X[N], out f32 Y[N]) grid (1)\n"
                               "{ store(Y[0 +: N], load(X[0 +: N])); }\n";
    tile_kernel *k;
    tile_dim_range r = { "N", 3000000, 9000000, 3000000 };
    tile_prepare_desc d = { .struct_size = sizeof d, .dims = &r, .n_dims = 1, .threads = 3 };
    fake_open(FAKE_CUDA);
    if (!open_context("cuda", FAKE_CUDA, 0, NULL)) return;
    OK(ctx, kernel_of(ctx, text, "whole", NULL, 0, &k));
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &d, NULL), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "a tile of [3000000]");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- pinned ------------------------------------------------------------------------------------------ */

static const char sums_text[] =
    "kernel sums(in f32 X[M, K], out f32 Y[M, 1], const int TM = 64) grid (cdiv(M, TM)) {\n"
    "    let i = program_id();\n    var acc = zeros([TM, 1], f32);\n"
    "    for k in 0 .. cdiv(K, 64) { acc = acc + sum(load(X[i*TM +: TM, k*64 +: 64]), axis = 1); }\n    "
    "store(Y[i*TM +: TM, :], acc);\n}\n"
    "tune sums { TM in {16, 32, 64, 128}; key (M, K); }\n";

enum { SHAPES = 80 };
static int64_t extent_of(int i) { return 16 * (i + 1); }

static tile_status ask(tile_kernel *k, int64_t m, size_t off, int64_t *programs)
{
    int64_t in[2] = { m, 64 }, out[2] = { m, 1 };
    tile_tensor x = { memory + off, in, NULL, -1, TILE_NONE },
                y = { memory + (3 << 20), out, NULL, -1, TILE_NONE };
    tile_variant_info v = { .struct_size = sizeof v };
    tile_status st = tile_kernel_variant(k, (tile_arg[]){ tile_arg_tensor(&x), tile_arg_tensor(&y) }, 2, &v);
    *programs = v.programs;
    return st;
}

/* The number of programs of each launch tells what was chosen. */
static void choices_of(tile_kernel *k, bool backwards, int64_t *programs)
{
    for (int at = 0; at < SHAPES; at++) {
        int i = backwards ? SHAPES - 1 - at : at;
        OK(ctx, ask(k, extent_of(i), 0, &programs[i]));
    }
}

/* Both ways; true when the order made no difference. The kernel of the first order is kept. */
static bool orders_agree(uint32_t flags, int64_t *programs, tile_kernel **kept)
{
    int64_t other[SHAPES];
    tile_kernel *k;
    if (!open_context("cuda", FAKE_CUDA, flags, NULL)) return false;
    OK(ctx, kernel_of(ctx, sums_text, "sums", NULL, 0, &k));
    choices_of(k, true, other);
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, sums_text, "sums", NULL, 0, kept));
    choices_of(*kept, false, programs);
    return !memcmp(programs, other, sizeof other);
}

static tile_kernel *from_table(const char *path)
{
    tile_module *m;
    tile_kernel *k;
    OK(ctx, tile_module_load_memory(ctx, "test.tile", sums_text, strlen(sums_text),
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = path }, &m));
    OK(ctx, tile_kernel_create(m, "sums", NULL, 0, &k));
    tile_module_destroy(m);
    return k;
}

static int notes;
static void note(void *user, const tile_diagnostic *d)
{
    (void)user;
    notes += d->severity == TILE_SEVERITY_PERFORMANCE && strstr(d->message, "no table speaks") != NULL;
}

static void test_pinned(void)
{
    int64_t programs[SHAPES], again[SHAPES];
    char path[] = "/tmp/tile-serve-XXXXXX";
    tile_kernel *k;
    fake_open(FAKE_CUDA);
    CU_ASSERT(!orders_agree(0, programs, &k)); /* what ran before decides: that is what pinning is for */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT(orders_agree(TILE_CONTEXT_PINNED, programs, &k));
    int fd = mkstemp(path);
    if (fd < 0) return;
    close(fd);
    CU_ASSERT_EQUAL(tile_kernel_write_choices(NULL, path, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_kernel_write_choices(k, NULL, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_kernel_write_choices(k, "/no/such/folder/t.tune", NULL), TILE_ERROR_IO);
    OK(ctx, tile_kernel_write_choices(k, path, "by \"test\""));
    OK(ctx, tile_kernel_write_choices(k, path, "again")); /* replaces */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    cd.flags |= TILE_CONTEXT_PINNED;
    cd.on_diagnostic = note;
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    notes = 0;
    k = from_table(path);
    choices_of(k, true, again); /* another process that has the table: no search, the same choices */
    CU_ASSERT_EQUAL(notes, 0);
    CU_ASSERT(!memcmp(again, programs, sizeof again));
    CHECK_STATUS(ctx, tile_kernel_write_choices(k, path, NULL), TILE_ERROR_NOT_FOUND);
    OK(ctx, ask(k, extent_of(3), 4, again)); /* another launch: of an address that promises less */
    CU_ASSERT_EQUAL(notes, 1);
    OK(ctx, tile_context_seal(ctx, 1));
    CHECK_STATUS(ctx, ask(k, 2000, 0, again), TILE_ERROR_SEALED); /* nor is it searched for */
    CHECK_TEXT(missing(), "sums, configuration of M=2000 K=64");
    CU_ASSERT_EQUAL(notes, 1);
    int64_t in[2] = { 64, 512 }, out[2] = { 64, 1 };
    tile_tensor x = { memory, in, NULL, -1, TILE_NONE }, y = { memory + (3 << 20), out, NULL, -1, TILE_NONE };
    tile_arg a[] = { tile_arg_tensor(&x), tile_arg_tensor(&y) };
    tile_tune *t;
    CHECK_STATUS(ctx, tile_kernel_tune(k, a, 2, NULL, NULL, &t), TILE_ERROR_SEALED);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
        { "sealed", test_sealed },
        { "many_missing", test_many_missing },
        { "prepare", test_prepare },
        { "prepare_arguments", test_prepare_arguments },
        { "prepare_bad", test_prepare_bad },
        { "prepare_first", test_prepare_first },
        { "pinned", test_pinned },
    };
    return unit_run("serve", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
