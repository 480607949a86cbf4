/* test_kernel.c: modules and kernels: sources, imports, diagnostics, bindings, parameters, tuning tables,
 * remaps, specialization on extents. Runs on the fake CUDA device. */
#define _GNU_SOURCE
#include "api.h"
#include <sys/stat.h>
#include <unistd.h>

static FakeState *fake;
static tile_context *ctx;
static char dir[64];

typedef struct Seen {
    int errors, warnings, notes, debug, whole; /* whole: long messages that are rendered to their end */
    char first[600], last[600], kernel[200], file[200];
    int line, column, end_column;
} Seen;

static void see(void *user, const tile_diagnostic *d)
{
    Seen *s = user;
    CU_ASSERT_EQUAL(d->struct_size, sizeof *d);
    if (d->severity == TILE_SEVERITY_ERROR && !s->errors++) {
        snprintf(s->first, sizeof s->first, "%s", d->rendered);
        snprintf(s->file, sizeof s->file, "%s", d->file);
        s->line = d->line;
        s->column = d->column;
        s->end_column = d->end_column;
    }
    s->warnings += d->severity == TILE_SEVERITY_WARNING;
    s->notes += d->severity == TILE_SEVERITY_NOTE;
    s->debug += d->severity == TILE_SEVERITY_DEBUG;
    size_t n = strlen(d->message), all = strlen(d->rendered);
    s->whole += n > 2048 && all > n && !strncmp(d->rendered + all - n - 1, d->message, n);
    snprintf(s->last, sizeof s->last, "%s", d->rendered);
    snprintf(s->kernel, sizeof s->kernel, "%s", d->kernel);
}

static void open_context(Seen *seen, const char *debug)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    if (seen) {
        d.on_diagnostic = see;
        d.on_diagnostic_user = seen;
    }
    d.debug = debug ? debug : "";
    if (tile_context_create(&d, &ctx)) exit(1);
}

static void write_file(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) exit(1);
}

static const char *in_dir(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void test_contexts(void)
{
    char why[300];
    tile_context_desc d = fake_desc("cuda:sm_77", FAKE_CUDA);
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_TEXT(why, "unknown target `cuda:sm_77`");
    d.struct_size = 3;
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_INVALID_ARGUMENT);
    d = fake_desc("cpu", NULL);
    d.device = 1;
    CU_ASSERT_EQUAL(tile_context_create_error(&d, &ctx, why, sizeof why), TILE_ERROR_NO_DEVICE);
    CHECK_TEXT(why, "no CPU device 1: there is 1");
    CU_ASSERT_EQUAL(tile_context_create(&d, NULL), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(tile_version(), TILE_VERSION);
    CU_ASSERT_STRING_EQUAL(tile_status_name(TILE_ERROR_REMAP), "TILE_ERROR_REMAP");
    CU_ASSERT_STRING_EQUAL(tile_status_name((tile_status)999), "unknown status");
    CU_ASSERT_STRING_EQUAL(tile_dtype_name(TILE_BF16), "bf16");
    CU_ASSERT_EQUAL(tile_dtype_size(TILE_F8E4M3), 1);
    CHECK_TEXT(tile_language_words(TILE_WORDS_KEYWORDS), "instantiate ");
    CHECK_TEXT(tile_language_words(TILE_WORDS_TYPES), "bf16 ");
    CHECK_TEXT(tile_language_words(TILE_WORDS_FUNCTIONS), "load ");
    CHECK_TEXT(tile_language_words(TILE_WORDS_HINTS), "warps ");
    CU_ASSERT_PTR_NULL(tile_language_words((tile_word_kind)9));
    CU_ASSERT_EQUAL(tile_dtype_size(TILE_NONE), 0);
    tile_context_destroy(NULL);
    tile_module_destroy(NULL);
    tile_kernel_destroy(NULL);
    tile_compile_destroy(NULL);
}

static void test_source_errors(void)
{
    Seen seen = { 0 };
    tile_module *m = (tile_module *)&seen;
    static const char bad[] =
        "kernel k(in f32 X[N], out f32 Y[N]) grid (N) {\n    store(Y[0 +: 8], lod(X[0 +: 8]));\n}\n";
    open_context(&seen, NULL);
    CHECK_STATUS(
        ctx, tile_module_load_memory(ctx, "bad.tile", bad, strlen(bad), NULL, &m), TILE_ERROR_COMPILE);
    CU_ASSERT_PTR_NULL(m);
    CU_ASSERT_EQUAL(seen.errors, 1);
    CU_ASSERT_STRING_EQUAL(seen.file, "bad.tile");
    CU_ASSERT_EQUAL(seen.line, 2);
    CU_ASSERT_EQUAL(seen.column, 22);
    CHECK_TEXT(seen.first, "bad.tile:2:22: error: ");
    CHECK_TEXT(error_of(ctx), "bad.tile:2:22: error: ");
    CHECK_STATUS(ctx, tile_module_load_file(ctx, "/nonexistent/k.tile", NULL, &m), TILE_ERROR_IO);
    CHECK_TEXT(error_of(ctx), "cannot read /nonexistent/k.tile: No such file or directory");
    CHECK_STATUS(ctx, tile_module_load_file(ctx, "/", NULL, &m), TILE_ERROR_IO);
    CHECK_STATUS(ctx, tile_module_load_memory(ctx, "x", NULL, 0, NULL, &m), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_module_load_memory(ctx, NULL, "", 0, NULL, &m), TILE_ERROR_INVALID_ARGUMENT);
    tile_context_destroy(ctx);
}

static void test_imports(void)
{
    tile_module *m;
    char sub[100];
    snprintf(sub, sizeof sub, "%s/lib", dir);
    mkdir(sub, 0700);
    write_file("main.tile",
        "import \"half.tile\";\nimport \"far.tile\";\nkernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 64)) "
        "{\n"
        "    let i = program_id();\n    store(Y[i*64 +: 64], half(far(load(X[i*64 +: 64]))));\n}\n");
    write_file("half.tile", "fn half(x) { return x * 0.5; }\n");
    write_file("lib/far.tile", "fn far(x) { return x + 1.0; }\n");
    open_context(NULL, NULL);
    CHECK_STATUS(ctx, tile_module_load_file(ctx, in_dir("main.tile"), NULL, &m), TILE_ERROR_COMPILE);
    CHECK_TEXT(error_of(ctx), "far.tile");
    const char *folders[] = { sub };
    tile_module_desc d = {
        .struct_size = sizeof d, .import_directories = folders, .n_import_directories = 1
    };
    OK(ctx, tile_module_load_file(ctx, in_dir("main.tile"), &d, &m));
    CU_ASSERT_EQUAL(tile_module_kernel_count(m), 1);
    CU_ASSERT_STRING_EQUAL(tile_module_kernel_name(m, 0), "k");
    CU_ASSERT_PTR_NULL(tile_module_kernel_name(m, 1));
    /* The text was read when the module was made, so files that are deleted later change nothing. */
    unlink(in_dir("half.tile"));
    unlink(in_dir("lib/far.tile"));
    tile_kernel *k;
    OK(ctx, tile_kernel_create(m, "k", NULL, 0, &k));
    static float x[100], y[100];
    int64_t n = 100;
    tile_tensor tx = { x, &n, NULL, -1, TILE_NONE }, ty = { y, &n, NULL, -1, TILE_NONE };
    OK(ctx, tile_launch(k, (tile_arg[]){ tile_arg_tensor(&tx), tile_arg_tensor(&ty) }, 2, NULL));
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

static void test_bindings(void)
{
    tile_module *m;
    tile_kernel *k;
    open_context(NULL, NULL);
    OK(ctx, tile_module_load_memory(ctx, "a.tile", vector_add_text, strlen(vector_add_text), NULL, &m));
    CHECK_STATUS(ctx, tile_kernel_create(m, "nothing", NULL, 0, &k), TILE_ERROR_NOT_FOUND);
    CHECK_TEXT(error_of(ctx), "a.tile has no kernel named `nothing`; it has ");
    tile_binding b = { "BLOK", TILE_BIND_INT, { .i = 4 } };
    CHECK_STATUS(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k), TILE_ERROR_NOT_FOUND);
    CHECK_TEXT(error_of(ctx),
        "kernel vector_add has no const, dimension or hint named `BLOK`; consts and dimensions are ");
    b.name = "X";
    CHECK_STATUS(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k), TILE_ERROR_NOT_FOUND);
    CHECK_TEXT(error_of(ctx), "it is an argument of the launch");
    b.name = "T";
    CHECK_STATUS(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "`T` wants an element type");
    b = (tile_binding){ "BLOCK", TILE_BIND_TEXT, { .text = "many" } };
    CHECK_STATUS(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k), TILE_ERROR_DTYPE);
    b = (tile_binding){ "T", TILE_BIND_DTYPE, { .dtype = TILE_BF16 } };
    OK(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k));
    CU_ASSERT_EQUAL(tile_kernel_param_count(k), 3);
    tile_param_info p = { .struct_size = sizeof p };
    OK(ctx, tile_kernel_param(k, 2, &p));
    CU_ASSERT_STRING_EQUAL(p.name, "Z");
    CU_ASSERT_EQUAL(p.kind, TILE_PARAM_OUT);
    CU_ASSERT_EQUAL(p.dtype, TILE_BF16);
    CU_ASSERT_EQUAL(p.rank, 1);
    CU_ASSERT_STRING_EQUAL(p.dims[0], "N");
    CU_ASSERT_EQUAL(tile_kernel_param(k, 3, &p), TILE_ERROR_NOT_FOUND);
    tile_kernel_destroy(k);
    /* Constants in an extent are replaced by their values, which are the caller's where it gave one. */
    static const char extents[] = "const int W = 8;\nkernel e(in f32 X[N], out f32 Y[2*W + K, N, W], const "
                                  "int K = 3) grid (1) { store(Y[0, 0, 0], load(X[0])); }\n";
    b = (tile_binding){ "K", TILE_BIND_INT, { .i = 5 } };
    for (int given = 0; given < 2; given++) {
        OK(ctx, kernel_of(ctx, extents, "e", &b, (size_t)given, &k));
        OK(ctx, tile_kernel_param(k, 1, &p));
        CU_ASSERT_STRING_EQUAL(p.dims[0], given ? "2*8 + 5" : "2*8 + 3");
        CU_ASSERT_STRING_EQUAL(p.dims[1], "N");
        CU_ASSERT_STRING_EQUAL(p.dims[2], "8");
        tile_kernel_destroy(k);
    }
    b = (tile_binding){ "N", TILE_BIND_INT, { .i = 64 } };
    OK(ctx, tile_kernel_create(m, "vector_add", &b, 1, &k));
    tile_module_destroy(m);
    static float x[100], y[100], z[100];
    int64_t n = 100;
    tile_tensor t[3] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE },
        { z, &n, NULL, -1, TILE_NONE } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    CHECK_STATUS(ctx, tile_launch(k, a, 3, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "argument 1 (X): dimension N is bound to 64, but axis 0 has 100");
    n = 64;
    OK(ctx, tile_launch(k, a, 3, NULL));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Extents that a launch derives: asked for, compared at each launch, and no keys: one variant serves all. */
static void test_derived(void)
{
    static const char text[] =
        "kernel q(in f32 X[M, N], out f32 S[M, cdiv(N, B)], out f32 P[parts, N + 1], index parts, const int "
        "B = "
        "128) grid (M, parts) {\n"
        "    let (i, p) = program_id();\n    store(S[i, p], load(X[i, p]));\n    store(P[p, i], 1.0);\n}\n";
    static float x[4096], s[64], p[4096];
    int64_t in[2] = { 5, 300 }, out[2] = { 5, 3 }, parts[2] = { 2, 301 }, shape[8];
    tile_tensor t[3] = { { x, in, NULL, 2, TILE_F32 }, { s, out, NULL, 2, TILE_F32 },
        { p, parts, NULL, 2, TILE_F32 } };
    tile_arg a[4] = { tile_arg_tensor(&t[0]), { 0 }, { 0 }, tile_arg_int(2) };
    tile_kernel *k;
    open_context(NULL, NULL);
    OK(ctx, kernel_of(ctx, text, "q", NULL, 0, &k));
    OK(ctx, tile_kernel_extents(k, a, 4, 1, shape));
    CU_ASSERT(shape[0] == 5 && shape[1] == 3);
    OK(ctx, tile_kernel_extents(k, a, 4, 2, shape));
    CU_ASSERT(shape[0] == 2 && shape[1] == 301);
    a[3] = tile_arg_int(-1);
    CHECK_STATUS(ctx, tile_kernel_extents(k, a, 4, 2, shape), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "argument 3 (P): axis 0 (parts) would have -1 elements");
    CHECK_STATUS(ctx, tile_kernel_extents(k, a, 4, 3, shape), TILE_ERROR_INVALID_ARGUMENT);
    a[1] = tile_arg_tensor(&t[1]);
    a[2] = tile_arg_tensor(&t[2]);
    a[0].kind = (tile_arg_kind)0;
    a[3] = tile_arg_int(2);
    CHECK_STATUS(ctx, tile_kernel_extents(k, a, 4, 2, shape), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "argument 3 (P): dimension N is not known: no tensor that is given has it");
    a[0] = tile_arg_tensor(&t[0]);
    int compiles = fake->compiles;
    OK(ctx, tile_launch(k, a, 4, NULL));
    OK(ctx, tile_launch(k, a, 4, NULL));
    /* The tensors are the same, but a scalar that an extent depends on is different, so the launch is not
     * like the last one. */
    a[3] = tile_arg_int(3);
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "argument 3 (P): axis 0 (parts) has 2 elements, not 3");
    parts[0] = 3;
    OK(ctx, tile_launch(k, a, 4, NULL));
    in[1] = 308;
    parts[1] = 309;
    OK(ctx, tile_launch(k, a, 4, NULL));
    CU_ASSERT_EQUAL(fake->compiles, compiles + 1);
    in[1] = 400;
    parts[1] = 401;
    CHECK_STATUS(ctx, tile_launch(k, a, 4, NULL), TILE_ERROR_SHAPE);
    CHECK_TEXT(error_of(ctx), "argument 2 (S): axis 1 (cdiv(N, 128)) has 3 elements, not 4");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Extents used by tiles are taken from the tensors and specialize the code. */
static void test_extents(void)
{
    static const char text[] =
        "kernel rows(in f32 X[M, D], out f32 Y[M]) grid (M) {\n    let i = program_id();\n"
        "    store(Y[i], sum(load(X[i, :]), axis = 0, drop = true));\n}\n";
    static float x[4096], y[64];
    tile_kernel *k;
    open_context(NULL, NULL);
    OK(ctx, kernel_of(ctx, text, "rows", NULL, 0, &k));
    for (int64_t d = 448; d <= 464; d += 16) { /* rows of which a program computes at most one */
        int64_t shape[2] = { 5, d };
        tile_tensor tx = { x, shape, NULL, 2, TILE_F32 }, ty = { y, shape, NULL, 1, TILE_F32 };
        tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
        OK(ctx, tile_launch(k, a, 2, NULL));
        CU_ASSERT_EQUAL(fake->last.grid[0], 5);
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_kernel_variant(k, a, 2, &v));
        char want[20];
        snprintf(want, sizeof want, "D=%d", (int)d);
        CHECK_TEXT(v.specialization, want);
    }
    CU_ASSERT_EQUAL(fake->compiles, 2);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* A specialization that does not compile says which it is, once through the callback and at each launch. */
static void test_bad_specialization(void)
{
    static const char text[] =
        "kernel r(in f32 X[M, D], out f32 Y[M, D], const int H = 2) grid (M) {\n    let i = program_id();\n"
        "    let x = load(X[i, :]);\n    store(Y[i, :], reshape(reshape(x, [H, D/H]), [D]));\n}\n";
    static float x[4096], y[4096];
    Seen seen = { 0 };
    tile_kernel *k;
    open_context(&seen, NULL);
    OK(ctx, kernel_of(ctx, text, "r", NULL, 0, &k));
    int64_t shape[2] = { 3, 7 };
    tile_tensor tx = { x, shape, NULL, 2, TILE_F32 }, ty = { y, shape, NULL, 2, TILE_F32 };
    tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ctx, tile_launch(k, a, 2, NULL), TILE_ERROR_COMPILE);
        CHECK_TEXT(error_of(ctx), "test.tile:4:");
        CHECK_TEXT(error_of(ctx), "while compiling r<D=7>");
    }
    CU_ASSERT_EQUAL(seen.errors, 1);
    CU_ASSERT(seen.notes >= 1);
    CU_ASSERT_STRING_EQUAL(seen.kernel, "r<D=7>");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static void test_debug(void)
{
    Seen seen = { 0 };
    tile_kernel *k;
    static float x[64], y[64], z[64];
    int64_t n = 64;
    tile_tensor t[3] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE },
        { z, &n, NULL, -1, TILE_NONE } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    open_context(&seen, "dump:cse,text,time");
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    OK(ctx, tile_launch(k, a, 3, NULL));
    CU_ASSERT(seen.debug >= 3);
    CU_ASSERT(seen.whole >= 1); /* the emitted text */
    CHECK_TEXT(seen.last, "compiled in ");
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- tuning ------------------------------------------------------------------------------------------ */

static unsigned grid_with(tile_kernel *k, int64_t n)
{
    static float x[70000], y[70000], z[70000];
    tile_tensor t[3] = { { x, &n, NULL, -1, TILE_NONE }, { y, &n, NULL, -1, TILE_NONE },
        { z, &n, NULL, -1, TILE_NONE } };
    OK(ctx,
        tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) },
            3, NULL));
    return fake->last.grid[0];
}

static void test_tune(void)
{
    static const char table[] =
        "{ \"format\": \"tile-tune-1\", \"device\": \"Fake GPU\",\n"
        "  \"entries\": [\n"
        "    { \"kernel\": \"vector_add\", \"target\": \"cuda:sm_90a\", \"key\": { \"N\": 1000, \"T\": "
        "\"f32\" }, \"config\": { \"BLOCK\": 128 }, \"ms\": 0.01 },\n"
        "    { \"kernel\": \"vector_add\", \"target\": \"cuda:sm_90a\", \"key\": { \"N\": 64000, \"T\": "
        "\"f32\" }, \"config\": { \"BLOCK\": 2048 } },\n"
        "    { \"kernel\": \"vector_add\", \"target\": \"cuda:sm_80\", \"key\": { \"N\": 1000 }, \"config\": "
        "{ \"BLOCK\": 64 } },\n"
        "    { \"kernel\": \"vector_add\", \"target\": \"cuda:sm_90a\", \"key\": { \"N\": 1000, \"T\": "
        "\"f16\" }, \"config\": { \"BLOCK\": 32 } },\n"
        "    { \"kernel\": \"vector_add\", \"target\": \"cuda:sm_90a\", \"key\": { \"N\": 1000 }, "
        "\"config\": { \"GONE\": 32 } } ] }\n";
    tile_module *m;
    tile_kernel *k, *fixed;
    write_file("add.tile", vector_add_text);
    write_file("add.tune", table);
    open_context(NULL, NULL);
    OK(ctx, tile_module_load_file(ctx, in_dir("add.tile"), NULL, &m)); /* the table beside it is taken */
    /* One program a CTA, so that the grid tells BLOCK. */
    tile_binding b[] = { { "pack", TILE_BIND_INT, { .i = 1 } }, { "BLOCK", TILE_BIND_INT, { .i = 256 } } };
    OK(ctx, tile_kernel_create(m, "vector_add", b, 1, &k));
    OK(ctx, tile_kernel_create(m, "vector_add", b, 2, &fixed));
    CU_ASSERT_EQUAL(grid_with(k, 1024), 8);
    CU_ASSERT_EQUAL(grid_with(k, 2048), 16); /* nearer to 1000 than to 64000, in powers of two */
    CU_ASSERT_EQUAL(grid_with(k, 65536), 32);
    CU_ASSERT_EQUAL(grid_with(k, 16384), 8);
    CU_ASSERT_EQUAL(grid_with(fixed, 1024), 4); /* what is bound stays */
    tile_kernel_destroy(k);
    tile_kernel_destroy(fixed);
    tile_module_destroy(m);
    OK(ctx, tile_module_load_file(ctx, in_dir("add.tile"),
                &(tile_module_desc){ .struct_size = sizeof(tile_module_desc), .tune_file = "" }, &m));
    OK(ctx, tile_kernel_create(m, "vector_add", NULL, 0, &k));
    CU_ASSERT_EQUAL(grid_with(k, 1024), 1); /* declared default */
    tile_kernel_destroy(k);
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "'{' was expected" },
        { "{}", "no \"format\"" },
        { "{ \"format\": \"tile-tune-9\" }", "not of the format tile-tune-1" },
        { "{ \"format\": \"tile-tune-1\", \"entries\": [ { } ] }", "an entry without \"kernel\"" },
        { "{ \"format\": \"tile-tune-1\", \"entries\": [ { \"kernel\": \"k\", \"key\": { \"N\": [1] } } ] }",
            "a number, true, false or a type was expected" },
        { "{ \"format\": \"tile-tune-1\" } x", "text after the end" },
        { "{ \"format\": \"tile-tune-1\"", "',' or '}' was expected" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file("bad.tune", bad[i].text);
        CHECK_STATUS(ctx, tile_module_load_tune(m, in_dir("bad.tune")), TILE_ERROR_COMPILE);
        CHECK_TEXT(error_of(ctx), "bad.tune:1:");
        CHECK_TEXT(error_of(ctx), bad[i].says);
    }
    CHECK_STATUS(ctx, tile_module_load_tune(m, in_dir("none.tune")), TILE_ERROR_IO);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

/* --- remap ------------------------------------------------------------------------------------------- */

static void test_remap(void)
{
    static const char text[] =
        "kernel k(in f32 X[N], out f32 Y[N], const int KIND = 0) grid (N)\n"
        "    remap (w) = KIND == 0 ? (w%8)*(N/8) + w/8 : KIND == 1 ? w + 1 : N - 1 - w\n{\n"
        "    let i = program_id();\n    store(Y[i], load(X[i]));\n}\n";
    static float x[5000], y[5000];
    tile_kernel *k[3];
    open_context(NULL, NULL);
    for (int i = 0; i < 3; i++)
        OK(ctx,
            kernel_of(ctx, text, "k", (tile_binding[]){ { "KIND", TILE_BIND_INT, { .i = i } } }, 1, &k[i]));
    int64_t n = 64;
    tile_tensor tx = { x, &n, NULL, 1, TILE_F32 }, ty = { y, &n, NULL, 1, TILE_F32 };
    tile_arg a[2] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty) };
    OK(ctx, tile_launch(k[0], a, 2, NULL)); /* 8 divides 64 */
    CU_ASSERT_EQUAL(fake->launches, 1);
    n = 33;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ctx, tile_launch(k[0], a, 2, NULL), TILE_ERROR_REMAP);
        CHECK_TEXT(error_of(ctx), "no permutation of the 33 programs: programs 1 and 32 both become 4");
    }
    CHECK_STATUS(ctx, tile_launch(k[1], a, 2, NULL), TILE_ERROR_REMAP);
    CHECK_TEXT(error_of(ctx), "the remap sends program 32 to 33, outside of the 33 programs");
    for (n = 1; n < 100; n++) OK(ctx, tile_launch(k[2], a, 2, NULL));
    CU_ASSERT_EQUAL(fake->launches, 100);
    for (int i = 0; i < 3; i++) tile_kernel_destroy(k[i]);
    tile_context_destroy(ctx);
}

/* A raster needs no check, so any grid will do; with a remap of the kernel's own all of it is checked, up to
 * 2^24 programs. */
static void test_large_remap(void)
{
    static const char text[] =
        "kernel plain(in f32 X[N], out f32 Y[N], index m) grid (m, m) raster (group = 4)\n{\n"
        "    let (i, j) = program_id();\n    store(Y[i + j], load(X[i + j]));\n}\n"
        "kernel own(in f32 X[N], out f32 Y[N], index m) grid (m, m) raster (group = 4) remap (w) = m > 100 ? "
        "num_programs() - 1 - w : w/2\n{\n"
        "    let (i, j) = program_id();\n    store(Y[i + j], load(X[i + j]));\n}\n";
    static float x[64], y[64];
    tile_kernel *plain, *own;
    open_context(NULL, NULL);
    OK(ctx, kernel_of(ctx, text, "plain", NULL, 0, &plain));
    OK(ctx, kernel_of(ctx, text, "own", NULL, 0, &own));
    int64_t n = 64;
    tile_tensor tx = { x, &n, NULL, 1, TILE_F32 }, ty = { y, &n, NULL, 1, TILE_F32 };
    tile_arg a[3] = { tile_arg_tensor(&tx), tile_arg_tensor(&ty), tile_arg_int(5000) };
    OK(ctx, tile_launch(plain, a, 3, NULL));
    CHECK_STATUS(ctx, tile_launch(own, a, 3, NULL), TILE_ERROR_REMAP);
    CHECK_TEXT(
        error_of(ctx), "a grid of 25000000 programs is too large to check its remap (at most 16777216)");
    a[2] = tile_arg_int(200);
    OK(ctx, tile_launch(own, a, 3, NULL));
    a[2] = tile_arg_int(10);
    CHECK_STATUS(ctx, tile_launch(own, a, 3, NULL), TILE_ERROR_REMAP);
    CHECK_TEXT(error_of(ctx), "no permutation of the 100 programs: programs 0 and 1 both become 0");
    tile_kernel_destroy(plain);
    tile_kernel_destroy(own);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    strcpy(dir, "/tmp/tile-api-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    static const UnitTest tests[] = { { "contexts", test_contexts }, { "source_errors", test_source_errors },
        { "imports", test_imports }, { "bindings", test_bindings }, { "extents", test_extents },
        { "derived", test_derived }, { "bad_specialization", test_bad_specialization },
        { "debug", test_debug }, { "tune", test_tune }, { "remap", test_remap },
        { "large_remap", test_large_remap } };
    int r = unit_run("kernel", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) || r;
}
