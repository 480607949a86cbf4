/* test_choice.c: the configuration of a launch that no tuning table speaks of, through the interface: what
 * the notes say, what the cache keeps, what a binding or a table decides before it. Runs on the fake drivers.
 */
#define _GNU_SOURCE
#include "choice_notes.h"
#include "runtime/launch/inside.h"
#include <unistd.h>

static tile_context *ctx;
static char path[64];

static const char choose_text[] =
    "kernel copy(in f32 X[N], out f32 Y[N], const int BLOCK = 1024, const int PART = 1) grid (cdiv(N, "
    "BLOCK)) {\n"
    "    let i = program_id();\n    store(Y[i*BLOCK +: BLOCK], load(X[i*BLOCK +: BLOCK]));\n}\n"
    "tune copy { PART in {1, 2}; BLOCK in {64, 256, 1024, 2048}; require (PART == 1 || BLOCK > 64); key (N); "
    "}\n";

static unsigned programs(tile_kernel *k, int64_t n)
{
    tile_tensor t = { (void *)4096, &n, NULL, -1, TILE_NONE };
    static char memory[1 << 22] __attribute__((aligned(256)));
    tile_tensor u = { memory, &n, NULL, -1, TILE_NONE };
    t.data = memory + (1 << 21);
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, tile_kernel_variant(k, (tile_arg[]){ tile_arg_tensor(&t), tile_arg_tensor(&u) }, 2, &v));
    return (unsigned)v.programs;
}

static tile_context *gpu_context(const char *target, const char *library, uint32_t flags, const char *cache,
    Notes *notes, Counter *counter)
{
    tile_context_desc cd = fake_desc(target, library);
    tile_context *c;
    cd.flags = flags;
    cd.cache_directory = cache;
    cd.on_diagnostic = note;
    cd.on_diagnostic_user = notes;
    if (counter) cd.allocator = (tile_allocator){ counter_realloc, counter };
    return tile_context_create(&cd, &c) ? NULL : c;
}

static void test_without_table(void)
{
    tile_kernel *k;
    FakeState *fake = fake_open(FAKE_CUDA);
    Counter counter = { 0 };
    Notes notes = { 0 };
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, TILE_CONTEXT_NO_CACHE, NULL, &notes, &counter))) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, choose_text, "copy", NULL, 0, &k)); /* the fake has four multiprocessors */
    CU_ASSERT_EQUAL(programs(k, 4096), 4);                     /* nothing is gained: as declared */
    CU_ASSERT_EQUAL(programs(k, 48), 1);
    CU_ASSERT_EQUAL(notes.n, 2);
    CHECK_TEXT(notes.last, "as declared");
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CU_ASSERT_EQUAL(fake->prepares, 1); /* The compiler was initialized while the first choice was made. */
    long calls = atomic_load(&counter.calls);
    CU_ASSERT_EQUAL(programs(k, 4096), 4); /* looked up, without memory */
    CU_ASSERT_EQUAL(atomic_load(&counter.calls), calls);
    CU_ASSERT_EQUAL(notes.n, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

#ifdef HAVE_HIP
/* Nothing is known of the device: the number of programs decides, among what the grid clause names. */
static void test_by_number(void)
{
    tile_kernel *k;
    FakeState *fake = fake_open(FAKE_HIP);
    fake->arch = 0x942;
    Notes notes = { 0 };
    if (!(ctx = gpu_context("hip", FAKE_HIP, TILE_CONTEXT_NO_CACHE, NULL, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, choose_text, "copy", NULL, 0, &k));
    /* All of the 304 multiprocessors have work, so the launch is as declared. */
    CU_ASSERT_EQUAL(programs(k, 400000), 391);
    CU_ASSERT_EQUAL(programs(k, 2048), 32); /* two of 1024 would leave most idle: 64 */
    CU_ASSERT_EQUAL(programs(k, 256), 4);
    CU_ASSERT_EQUAL(programs(k, 48), 1);
    CU_ASSERT_EQUAL(fake->compiles, 2); /* There is a variant for each block size, whatever the extent is. */
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, choose_text, "copy", (tile_binding[]){ { "BLOCK", TILE_BIND_INT, { .i = 1024 } } },
                1, &k));
    CU_ASSERT_EQUAL(programs(k, 2048), 2); /* what is bound stays */
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(
                ctx, choose_text, "copy", (tile_binding[]){ { "PART", TILE_BIND_INT, { .i = 2 } } }, 1, &k));
    CU_ASSERT_EQUAL(programs(k, 2048), 8);
    CU_ASSERT_EQUAL(programs(k, 256), 1); /* `require` leaves 64 out */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}
#endif

/* What the library chooses for a product of n cubed with these passes of the kernel's own; "" where it is as
 * declared. */
static const char *choice_with(tile_context *c, const KernelPasses *passes, const tile_binding *b, size_t n_b,
    const char *table, int64_t n)
{
    static char memory[3 << 20] __attribute__((aligned(256)));
    static tile_variant_info v;
    int64_t shape[2] = { n, n };
    tile_tensor t[3];
    tile_module *m;
    tile_kernel *k;
    for (int i = 0; i < 3; i++) t[i] = (tile_tensor){ memory + (i << 20), shape, NULL, -1, TILE_NONE };
    v = (tile_variant_info){ .struct_size = sizeof v };
    OK(c, tile_module_load_file(c, TILE_KERNELS "/gemm.tile",
              &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = table }, &m));
    OK(c, tile_kernel_create(m, "gemm", b, n_b, &k));
    if (passes) OK(c, kernel_set_passes(k, passes));
    OK(c, tile_kernel_variant(k,
              (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3, &v));
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    return v.specialization;
}

static const char *choice_of(tile_context *c, const tile_binding *b, size_t n_b, const char *table, int64_t n)
{ return choice_with(c, NULL, b, n_b, table, n); }

static void test_choice(void)
{
    Notes notes = { 0 };
    char cache[] = "/tmp/tile-choice-XXXXXX", kept[512], command[64];
    if (!mkdtemp(cache)) {
        CU_FAIL("folder");
        return;
    }
    fake_open(FAKE_CUDA);
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, 0, cache, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    snprintf(kept, sizeof kept, "%s", choice_of(ctx, NULL, 0, "", 512));
    CHECK_TEXT(kept, "TK="); /* a step of 32 is never the best one there */
    CU_ASSERT_EQUAL(notes.n, 1);
    CHECK_TEXT(notes.last, "estimated at");
    CHECK_TEXT(notes.last, "bound by");
    CU_ASSERT_EQUAL(notes.far, 1); /* beside the note of the choice */
    CU_ASSERT_PTR_NULL(
        strstr(choice_of(ctx, (tile_binding[]){ { "TM", TILE_BIND_INT, { .i = 256 } } }, 1, "", 512),
            "TM=64")); /* what is bound stays */
    CHECK_TEXT(
        choice_of(ctx, (tile_binding[]){ { "TM", TILE_BIND_INT, { .i = 256 } } }, 1, "", 512), "TM=256");
    tile_context_destroy(ctx);
    /* another process reads what this one chose */
    notes.n = 0;
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, 0, cache, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    CU_ASSERT_STRING_EQUAL(choice_of(ctx, NULL, 0, "", 512), kept);
    CU_ASSERT_EQUAL(notes.n, 0);
    /* A kernel with passes of its own is chosen for anew, once. */
    const KernelPasses without = { .skip = "warp-specialization" }, approximate = { .approx = true };
    choice_with(ctx, &without, NULL, 0, "", 512);
    CU_ASSERT_EQUAL(notes.n, 1);
    choice_with(ctx, &approximate, NULL, 0, "", 512);
    CU_ASSERT_EQUAL(notes.n, 2);
    choice_with(ctx, &without, NULL, 0, "", 512);
    CU_ASSERT_EQUAL(notes.n, 2);
    notes.n = 0;
    tile_context_destroy(ctx);
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, TILE_CONTEXT_AS_DECLARED, cache, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    CU_ASSERT_PTR_NULL(strstr(choice_of(ctx, NULL, 0, "", 512), "TK="));
    CU_ASSERT_EQUAL(notes.n, 0);
    /* An entry for this shape, or for one near it, has priority over every estimate. An entry for a distant
     * shape does not. */
    FILE *f = fopen(path, "w");
    fprintf(f, "{ \"format\": \"tile-tune-1\", \"entries\": [ { \"kernel\": \"gemm\", \"target\": "
               "\"cuda:sm_90a\", \"device\": \"\", \"key\": { \"M\": 512, \"N\": 512, \"K\": 512 }, "
               "\"config\": { \"TM\": 128, \"TN\": 64, \"TK\": 32, \"STAGES\": 3 }, \"ms\": 1 } ] }\n");
    fclose(f);
    tile_context_destroy(ctx);
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, TILE_CONTEXT_NO_CACHE, NULL, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    CHECK_TEXT(choice_of(ctx, NULL, 0, path, 512), "TN=64, TK=32");
    CHECK_TEXT(choice_of(ctx, NULL, 0, path, 480), "TN=64, TK=32");
    CU_ASSERT_EQUAL(notes.n, 0);
    CU_ASSERT_PTR_NULL(strstr(choice_of(ctx, NULL, 0, path, 64), "TN=64, TK=32"));
    CU_ASSERT_EQUAL(notes.n, 1);
    tile_context_destroy(ctx);
    snprintf(command, sizeof command, "rm -r %s", cache);
    CU_ASSERT_EQUAL(system(command), 0);
}

static const char split_text[] =
    "kernel sums(in f32 X[M, K], out f32 Y[M, 1], const int TM = 64) grid (cdiv(M, TM)) {\n"
    "    let i = program_id();\n    var acc = zeros([TM, 1], f32);\n"
    "    for k in 0 .. cdiv(K, 64) { acc = acc + sum(load(X[i*TM +: TM, k*64 +: 64]), axis = 1); }\n    "
    "store(Y[i*TM +: TM, :], acc);\n}\n"
    "tune sums { TM in {16, 64}; split_k in {1, 2, 4}; require (split_k == 1 || TM == 64); key (M, K); }\n";

/* CTAs and programs of a launch. */
static void split_launch(
    tile_kernel *k, FakeState *fake, int64_t m, int64_t depth, unsigned programs, unsigned ctas)
{
    static float memory[(1 << 20) + 256] __attribute__((aligned(256)));
    int64_t x[2] = { m, depth }, y[2] = { m, 1 };
    tile_tensor tx = { memory, x, NULL, -1, TILE_NONE }, ty = { memory + (1 << 20), y, NULL, -1, TILE_NONE };
    tile_arg args[] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, tile_kernel_variant(k, args, 2, &v));
    OK(ctx, tile_launch(k, args, 2, NULL));
    CU_ASSERT_EQUAL(v.programs, programs);
    CU_ASSERT_EQUAL(fake->last.grid[0], ctas);
}

static void test_split(void)
{
    tile_kernel *k;
    FakeState *fake = fake_open(FAKE_CUDA);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, split_text, "sums", NULL, 0, &k)); /* four multiprocessors */
    split_launch(k, fake, 64, 16384, 1, 4);                   /* one program: four CTAs share its steps */
    tile_kernel_destroy(k);
    OK(ctx,
        kernel_of(ctx, split_text, "sums", (tile_binding[]){ { "TM", TILE_BIND_INT, { .i = 64 } } }, 1, &k));
    /* There are too few steps for that. With 16 rows, if that may be chosen, there are four programs. */
    split_launch(k, fake, 64, 64, 1, 1);
    split_launch(k, fake, 1024, 64, 16, 16); /* and here all have work */
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, split_text, "sums", (tile_binding[]){ { "split_k", TILE_BIND_INT, { .i = 2 } } },
                1, &k));
    split_launch(k, fake, 64, 4096, 1, 2); /* what is bound stays */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* `auto` is chosen for each extent, by what `require` leaves; a binding and TILE_CONTEXT_AS_DECLARED come
 * before it. */
static void test_auto(void)
{
    tile_kernel *k;
    fake_open(FAKE_CUDA);
    Notes notes = { 0 };
    if (!(ctx = gpu_context("cuda", FAKE_CUDA, TILE_CONTEXT_NO_CACHE, NULL, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, auto_text, "copy", NULL, 0, &k));
    unsigned large = programs(k, 1 << 18), small = programs(k, 4096);
    CU_ASSERT(large >= (1 << 18) / 2048 && large < (1 << 18) / 64);
    CU_ASSERT(small >= 4096 / 1024); /* the fake has four multiprocessors */
    CU_ASSERT_EQUAL(programs(k, 4096), small);
    CU_ASSERT_EQUAL(notes.n, 2);
    CHECK_TEXT(notes.last, "BLOCK=");
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, auto_text, "copy", (tile_binding[]){ { "BLOCK", TILE_BIND_INT, { .i = 4096 } } },
                1, &k));
    CU_ASSERT_EQUAL(programs(k, 1 << 18), 64);
    CU_ASSERT_EQUAL(notes.n, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    if (!(ctx = gpu_context(
              "cuda", FAKE_CUDA, TILE_CONTEXT_NO_CACHE | TILE_CONTEXT_AS_DECLARED, NULL, &notes, NULL))) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, auto_text, "copy", NULL, 0, &k));
    CU_ASSERT_EQUAL(programs(k, 4096), 4); /* the default is 1024 */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static const char twice_text[] =
    "kernel twice(in f32 X[M, N], in f32 W[M, N], out f32 Y[M, N], const int TN = auto) grid (M) {\n"
    "    let i = program_id();\n    var all = 0.0;\n"
    "    for j in 0 .. cdiv(N, TN) {\n"
    "        all += sum(load(X[i, j*TN +: TN]) * load(W[i, j*TN +: TN]), drop = true);\n    }\n"
    "    for j in 0 .. cdiv(N, TN) {\n"
    "        store(Y[i, j*TN +: TN], (load(X[i, j*TN +: TN]) - all) * load(W[i, j*TN +: TN]));\n    }\n}\n";

static const char *choice_of_rows(tile_kernel *k, int64_t m, int64_t n)
{
    static tile_variant_info v;
    int64_t shape[2] = { m, n };
    tile_tensor t[3]; /* nothing reads there */
    for (int i = 0; i < 3; i++)
        t[i] = (tile_tensor){ (void *)(1ull << (34 + i)), shape, NULL, -1, TILE_NONE };
    v = (tile_variant_info){ .struct_size = sizeof v };
    tile_arg args[] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    OK(ctx, tile_kernel_variant(k, args, 3, &v));
    OK(ctx, tile_launch(k, args, 3, NULL));
    return v.specialization;
}

/* Replaces a text of the file by another one as long. */
static void alter(const char *file, const char *from, const char *to)
{
    char text[1 << 15] = "";
    FILE *f = fopen(file, "r+e");
    if (!f) return;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    const char *at = strstr(text, from);
    CU_ASSERT_PTR_NOT_NULL(at);
    if (at && !fseek(f, at - text, SEEK_SET)) fputs(to, f);
    fclose(f);
}

static const char apart_text[] =
    "kernel apart(in f32 X[M, N], in f32 W[M, N], out f32 Y[M, N], const int TA = auto, const int TB = "
    "auto)\n"
    "grid (M) {\n    let i = program_id();\n    var all = 0.0;\n"
    "    for j in 0 .. cdiv(N, TA) {\n"
    "        all += sum(load(X[i, j*TA +: TA]) * load(W[i, j*TA +: TA]), drop = true);\n    }\n"
    "    for j in 0 .. cdiv(N, TB) {\n"
    "        store(Y[i, j*TB +: TB], (load(X[i, j*TB +: TB]) - all) * load(W[i, j*TB +: TB]));\n    }\n}\n";

/* A context for a card of 132 multiprocessors, of which `notes` has what was chosen; NULL: failed. */
static FakeState *open_card(Notes *notes)
{
    FakeState *fake = fake_open(FAKE_CUDA);
    fake->multiprocessors = 132;
    ctx = gpu_context("cuda", FAKE_CUDA, TILE_CONTEXT_NO_CACHE, NULL, notes, NULL);
    if (!ctx) CU_FAIL("context");
    return ctx ? fake : NULL;
}

/* Two tiles that both hold the axis bind its extent once. */
static void test_whole_axis_twice(void)
{
    tile_kernel *k;
    Notes notes = { 0 };
    if (!open_card(&notes)) return;
    OK(ctx, kernel_of(ctx, apart_text, "apart", NULL, 0, &k));
    CHECK_TEXT(choice_of_rows(k, 65536, 65), "N=65, TA=65, TB=65");
    CHECK_TEXT(notes.last, "TA=65, N=65, TB=65, of");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Rows that are read twice, and that a cluster holds, are one tile each. Such code is for one extent: also
 * the many shapes behind the first ones, which take what was chosen for one close by, get their own. */
static void test_whole_axis(void)
{
    enum { SHAPES = 30 };
    tile_kernel *k;
    char want[64];
    Notes notes = { 0 };
    FakeState *fake = open_card(&notes);
    if (!fake) return;
    OK(ctx, kernel_of(ctx, twice_text, "twice", NULL, 0, &k));
    for (int64_t n = 32000; n < 32000 + 16 * SHAPES; n += 16) {
        snprintf(want, sizeof want, "N=%lld, TN=%lld", (long long)n, (long long)n);
        CHECK_TEXT(choice_of_rows(k, 4096, n), want);
    }
    CU_ASSERT_EQUAL(fake->compiles, SHAPES);
    CU_ASSERT_EQUAL(notes.n, SHAPES);
    CHECK_TEXT(choice_of_rows(k, 4112, 32016), "N=32016, TN=32016"); /* as for nearly as many of these rows */
    CU_ASSERT_EQUAL(notes.n, SHAPES);
    OK(ctx, tile_kernel_write_choices(k, path, NULL));
    alter(path, "\"TN\": 32032, \"N\": 32032", "\"TN\": 32000, \"N\": 32000");
    tile_kernel_destroy(k);
    tile_module *m;
    OK(ctx, tile_module_load_memory(ctx, "test.tile", twice_text, strlen(twice_text),
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = path }, &m));
    OK(ctx, tile_kernel_create(m, "twice", NULL, 0, &k));
    tile_module_destroy(m);
    CHECK_TEXT(choice_of_rows(k, 4096, 32016), "N=32016, TN=32016"); /* by the table that was written */
    CU_ASSERT_EQUAL(notes.n, SHAPES);
    /* An entry that binds an extent that its launch does not have speaks for none. */
    CHECK_TEXT(choice_of_rows(k, 4096, 32032), "N=32032, TN=32032");
    CU_ASSERT_EQUAL(notes.n, SHAPES + 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* The declared tile, 64 x 64 of f32, needs 16 KB of shared memory. */
static void test_does_not_fit(void)
{
    static float a[256 * 256], b[256 * 256];
    int64_t shape[2] = { 256, 256 };
    tile_tensor ta = { a, shape, NULL, -1, TILE_NONE }, tb = { b, shape, NULL, -1, TILE_NONE };
    tile_arg args[] = { tile_arg_tensor(&ta), tile_arg_tensor(&tb) };
    FakeState *fake = fake_open(FAKE_CUDA);
    fake->shared_bytes = 10000;
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    tile_module *m;
    tile_kernel *k;
    tile_variant_info v = { .struct_size = sizeof v };
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/transpose.tile",
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = "" }, &m));
    OK(ctx, tile_kernel_create(m, "transpose", NULL, 0, &k));
    OK(ctx, tile_kernel_variant(k, args, 2, &v));
    CU_ASSERT(v.shared_bytes > 0 && v.shared_bytes <= 10000);
    CHECK_TEXT(v.specialization, "=32");
    OK(ctx, tile_launch(k, args, 2, NULL));
    CU_ASSERT_EQUAL(fake->last.grid[0], v.programs);
    tile_kernel_destroy(k);
    OK(ctx,
        tile_kernel_create(m, "transpose",
            (tile_binding[]){ { "TM", TILE_BIND_INT, { .i = 64 } }, { "TN", TILE_BIND_INT, { .i = 64 } } }, 2,
            &k));
    CHECK_STATUS(
        ctx, tile_launch(k, args, 2, NULL), TILE_ERROR_RESOURCES); /* what is bound stays, and fails */
    CHECK_TEXT(error_of(ctx), "bytes of shared memory");
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    strcpy(path, "/tmp/tile-choice-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    static const UnitTest tests[] = {
        { "without_table", test_without_table },
        { "choice", test_choice },
        { "split", test_split },
        { "does_not_fit", test_does_not_fit },
        { "auto", test_auto },
        { "whole_axis", test_whole_axis },
        { "whole_axis_twice", test_whole_axis_twice },
#ifdef HAVE_HIP
        { "by_number", test_by_number },
#endif
    };
    int r = unit_run("choice", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    unlink(path);
    return r;
}
