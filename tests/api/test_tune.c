/* test_tune.c: tile_kernel_tune: which configurations are tried, that wrong ones are never chosen, that
 * tensors are given back as they were, what is written. Results are compared on the CPU; what only a GPU does
 * (refused launches, faults, resources) on the fake drivers. */
#define _GNU_SOURCE
#include "api.h"
#include <unistd.h>

static tile_context *ctx;
static char path[64];

/* WRONG 1 computes something else, 2 leaves the second half of each block out. SLEEP makes a configuration
 * slow, so that the order of the results is known. */
static const char text[] =
    "kernel add(in f32 X[N], out f32 Y[N], inout f32 Z[N], const int BLOCK = 64, const int WRONG = 0, const "
    "int SLEEP = 64)\n"
    "    grid (cdiv(N, BLOCK))\n"
    "{\n"
    "    let i = program_id();\n"
    "    var x = load(X[i*BLOCK +: BLOCK]);\n"
    "    for k in 0 .. SLEEP { x = sin(x); }\n"
    "    x = load(X[i*BLOCK +: BLOCK]) + 0.0*x;\n"
    "    const if WRONG == 2 { store(Y[i*BLOCK +: BLOCK/2], load(X[i*BLOCK +: BLOCK/2])); }\n"
    "    else { store(Y[i*BLOCK +: BLOCK], x + f32(WRONG)); }\n"
    "    store(Z[i*BLOCK +: BLOCK], load(Z[i*BLOCK +: BLOCK]) + x);\n"
    "}\n"
    "tune add { WRONG in {0, 1, 2}; BLOCK in {16, 64, 3000000}; SLEEP in {2, 64}; require ((BLOCK != 16 || "
    "SLEEP == 2) && (WRONG == 0 || (BLOCK == 64 && SLEEP == 2))); key (N); }\n"
    "kernel plain(in f32 X[N], out f32 Y[N]) grid (N) { let i = program_id(); store(Y[i +: 1], load(X[i +: "
    "1])); }\n"
    "kernel parts(in f32 X[N], out f32 Y[P], const int BLOCK = 16) grid (P) { let i = program_id(); "
    "store(Y[i], f32(BLOCK)); }\n"
    "tune parts { BLOCK in {16, 32, 64, 128}; key (N); }\n";

#ifdef HAVE_CPU
static void open_cpu(void)
{
    tile_context_desc d = {
        .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE, .threads = 1
    };
    if (tile_context_create(&d, &ctx)) exit(1);
}

typedef struct Seen {
    atomic_int inside;
    int calls, failed, last_round;
} Seen;

static void progress(void *user, const tile_tune_progress *p)
{
    Seen *s = user;
    CU_ASSERT_EQUAL(atomic_fetch_add(&s->inside, 1), 0);
    CU_ASSERT(p->done >= 1 && p->done <= p->total);
    s->calls++;
    s->failed += p->entry->state == TILE_TUNE_FAILED;
    if (p->stage == TILE_TUNE_TIMING) s->last_round = p->round;
    atomic_fetch_sub(&s->inside, 1);
}

enum { N = 1000 };
static float x[N], y[N], z[N];
static int64_t extent = N;
static tile_tensor tx = { x, &extent, NULL, -1, TILE_NONE }, ty = { y, &extent, NULL, -1, TILE_NONE },
                   tz = { z, &extent, NULL, -1, TILE_NONE };
#define ARGS (tile_arg[]){ tile_arg_tensor(&tx), tile_arg_tensor(&ty), tile_arg_tensor(&tz) }, 3

static tile_tune_entry result(const tile_tune *t, size_t i)
{
    tile_tune_entry e = { .struct_size = sizeof e };
    CU_ASSERT_EQUAL(tile_tune_result(t, i, &e), TILE_OK);
    return e;
}

static void test_search(void)
{
    tile_module *m;
    tile_kernel *k;
    tile_tune *t;
    Seen seen = { 0 };
    open_cpu();
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = -1;
        z[i] = 5;
    }
    OK(ctx, tile_module_load_memory(ctx, "tune.tile", text, strlen(text), NULL, &m));
    OK(ctx, tile_kernel_create(m, "add", NULL, 0, &k));
    tile_tune_desc d = {
        .struct_size = sizeof d, .repeat = 5, .threads = 2, .on_progress = progress, .on_progress_user = &seen
    };
    OK(ctx, tile_kernel_tune(k, ARGS, NULL, &d, &t));
    /* The allowed ones of 3 * 3 * 2 combinations. */
    CU_ASSERT_EQUAL_FATAL(tile_tune_count(t), 7);
    int count[5] = { 0 }, declared = 0;
    for (size_t i = 0; i < tile_tune_count(t); i++) {
        tile_tune_entry e = result(t, i);
        count[e.state]++;
        declared += e.is_default;
        CU_ASSERT_PTR_NULL(strstr(e.config, "BLOCK=16, SLEEP=64"));
        if (e.state == TILE_TUNE_TIMED) {
            CU_ASSERT(e.ms > 0 && e.launches > 0);
            CU_ASSERT_PTR_NOT_NULL(strstr(e.config, "WRONG=0"));
        }
        if (e.state == TILE_TUNE_WRONG) {
            CU_ASSERT_PTR_NULL(strstr(e.config, "WRONG=0"));
            CHECK_TEXT(e.reason, "Y differs in");
        }
        if (e.state == TILE_TUNE_FAILED) {
            CHECK_TEXT(e.config, "BLOCK=3000000");
            CU_ASSERT(strlen(e.reason) > 10);
        }
    }
    CU_ASSERT_EQUAL(declared, 1);
    CU_ASSERT_EQUAL(count[TILE_TUNE_TIMED], 3);
    CU_ASSERT_EQUAL(count[TILE_TUNE_WRONG], 2);
    CU_ASSERT_EQUAL(count[TILE_TUNE_FAILED], 2);
    CU_ASSERT_EQUAL(seen.failed, 2);
    CU_ASSERT(seen.last_round >= 1);
    tile_tune_entry best = result(t, 0);
    CHECK_TEXT(best.config, "SLEEP=2");
    CU_ASSERT_EQUAL(tile_tune_result(t, 7, &best), TILE_ERROR_NOT_FOUND);
    for (int i = 0; i < N; i++)
        if (x[i] != (float)i || y[i] != -1 || z[i] != 5) {
            CU_FAIL("tensors were not given back as they were");
            break;
        }

    /* Written, merged, read by a launch. */
    OK(ctx, tile_tune_write(t, path, "first \"try\""));
    tile_tune_destroy(t);
    tile_kernel_destroy(k);
    OK(ctx, tile_kernel_create(m, "add",
                (tile_binding[]){
                    { "WRONG", TILE_BIND_INT, { .i = 0 } }, { "BLOCK", TILE_BIND_INT, { .i = 64 } } },
                2, &k));
    OK(ctx, tile_kernel_tune(k, ARGS, NULL, &d, &t));
    CU_ASSERT_EQUAL(tile_tune_count(t), 2); /* what is bound is not chosen */
    CU_ASSERT_STRING_EQUAL(result(t, 0).config, "SLEEP=2");
    for (int again = 0; again < 2; again++) OK(ctx, tile_tune_write(t, path, NULL));
    tile_tune_destroy(t);
    tile_kernel_destroy(k);
    char table[2000] = "";
    FILE *f = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    table[fread(table, 1, sizeof table - 1, f)] = 0;
    fclose(f);
    CHECK_TEXT(table, "\"kernel\": \"add\", \"target\": \"cpu\"");
    CHECK_TEXT(table, "\"key\": { \"N\": 1000 }");
    CHECK_TEXT(table, "\"key\": { \"N\": 1000, \"BLOCK\": 64, \"WRONG\": 0 }");
    CHECK_TEXT(table, "\"note\": \"first  try \"");
    CU_ASSERT_PTR_NULL(
        strstr(strstr(table, "1000, \"BLOCK\": 64") + 1, "1000, \"BLOCK\": 64")); /* replaced, not repeated */
    OK(ctx, tile_module_load_tune(m, path));
    OK(ctx, tile_kernel_create(m, "add", NULL, 0, &k));
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, tile_kernel_variant(k, ARGS, &v));
    CHECK_TEXT(v.specialization, "SLEEP=2");
    f = fopen(path, "w");
    fputs("nonsense", f);
    fclose(f);
    OK(ctx, tile_kernel_tune(k, ARGS, NULL, &d, &t));
    CHECK_STATUS(ctx, tile_tune_write(t, path, NULL), TILE_ERROR_COMPILE);
    CHECK_STATUS(ctx, tile_tune_write(t, "/nonexistent/x.tune", NULL), TILE_ERROR_IO);
    tile_tune_destroy(t);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

static void test_refusals(void)
{
    tile_module *m;
    tile_kernel *k;
    tile_tune *t = (tile_tune *)&m;
    open_cpu();
    OK(ctx, tile_module_load_memory(ctx, "tune.tile", text, strlen(text), NULL, &m));
    OK(ctx, tile_kernel_create(m, "plain", NULL, 0, &k));
    CHECK_STATUS(ctx,
        tile_kernel_tune(k, (tile_arg[]){ tile_arg_tensor(&tx), tile_arg_tensor(&ty) }, 2, NULL, NULL, &t),
        TILE_ERROR_NOT_FOUND);
    CHECK_TEXT(error_of(ctx), "plain has no `tune` block");
    CU_ASSERT_PTR_NULL(t);
    tile_kernel_destroy(k);
    OK(ctx, tile_kernel_create(m, "add", NULL, 0, &k));
    tile_tune_desc d = { .struct_size = sizeof d, .budget_seconds = -1 };
    CHECK_STATUS(ctx, tile_kernel_tune(k, ARGS, NULL, &d, &t), TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_kernel_tune(k, (tile_arg[]){ tile_arg_int(1) }, 1, NULL, NULL, &t),
        TILE_ERROR_INVALID_ARGUMENT);
    CHECK_STATUS(ctx, tile_kernel_tune(k, ARGS, NULL, NULL, NULL), TILE_ERROR_INVALID_ARGUMENT);
    /* With no time at all, the declared defaults are still tried. */
    d.budget_seconds = 1e-9;
    OK(ctx, tile_kernel_tune(k, ARGS, NULL, &d, &t));
    CU_ASSERT_EQUAL(result(t, 0).state, TILE_TUNE_TIMED);
    CU_ASSERT_EQUAL(result(t, 0).is_default, 1);
    CU_ASSERT_EQUAL(result(t, 1).state, TILE_TUNE_UNTRIED);
    tile_tune_destroy(t);
    tile_kernel_destroy(k);
    /* Results that depend on the configuration by design are refused, unless an option accepts them. */
    OK(ctx, tile_kernel_create(m, "parts", NULL, 0, &k));
    d.budget_seconds = 0;
    CHECK_STATUS(ctx,
        tile_kernel_tune(k, (tile_arg[]){ tile_arg_tensor(&tx), tile_arg_tensor(&ty) }, 2, NULL, &d, &t),
        TILE_ERROR_CHECK);
    CHECK_TEXT(error_of(ctx), "3 configurations compute something else than 1");
    d.flags = TILE_TUNE_NO_CHECK;
    OK(ctx, tile_kernel_tune(k, (tile_arg[]){ tile_arg_tensor(&tx), tile_arg_tensor(&ty) }, 2, NULL, &d, &t));
    CU_ASSERT_EQUAL(result(t, 3).state, TILE_TUNE_TIMED);
    tile_tune_destroy(t);
    tile_tune_destroy(NULL);
    CU_ASSERT_EQUAL(tile_tune_count(NULL), 0);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

/* Outputs with gaps between their elements: what lies there is somebody else's and stays. */
static void test_strided(void)
{
    tile_kernel *k;
    tile_tune *t;
    static float both[N][2];
    int64_t two = 2;
    open_cpu();
    for (int i = 0; i < N; i++) {
        x[i] = 1;
        both[i][0] = 2;
        both[i][1] = 3;
        z[i] = 0;
    }
    tile_tensor left = { &both[0][0], &extent, &two, -1, TILE_NONE },
                right = { &both[0][1], &extent, &two, -1, TILE_NONE };
    OK(ctx, kernel_of(ctx, text, "add", NULL, 0, &k));
    tile_tune_desc d = { .struct_size = sizeof d, .repeat = 3 };
    OK(ctx, tile_kernel_tune(k,
                (tile_arg[]){ tile_arg_tensor(&left), tile_arg_tensor(&right), tile_arg_tensor(&tz) }, 3,
                NULL, &d, &t));
    CHECK_TEXT(result(t, 0).config, "WRONG=0");
    int wrong = 0;
    for (size_t i = 0; i < tile_tune_count(t); i++) wrong += result(t, i).state == TILE_TUNE_WRONG;
    CU_ASSERT_EQUAL(wrong, 2);
    for (int i = 0; i < N; i++)
        if (both[i][0] != 2 || both[i][1] != 3) {
            CU_FAIL("strided tensors were not given back as they were");
            break;
        }
    tile_tune_destroy(t);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}
#endif

/* --- on a GPU that is none: nothing is computed, every result is equal, every launch takes as long --- */

static const char gpu_text[] =
    "kernel copy(in f32 X[N], out f32 Y[N], const int BLOCK = 256) grid (cdiv(N, BLOCK)) {\n"
    "    let i = program_id();\n    store(Y[i*BLOCK +: BLOCK], load(X[i*BLOCK +: BLOCK]));\n}\n"
    "tune copy { BLOCK in {128, 256, 512}; persistent in {0, 1}; key (N); }\n";

static void tune_on(const char *target, const char *library)
{
    static float a[4096], b[4096];
    int64_t n = 4096;
    tile_tensor ta = { a, &n, NULL, -1, TILE_NONE }, tb = { b, &n, NULL, -1, TILE_NONE };
    tile_arg args[] = { tile_arg_tensor(&ta), tile_arg_tensor(&tb) };
    FakeState *fake = fake_open(library);
    if (!strcmp(target, "hip")) fake->arch = 0x942;
    tile_context_desc cd = fake_desc(target, library);
    Counter counter = { 0 };
    cd.allocator = (tile_allocator){ counter_realloc, &counter };
    tile_kernel *k;
    tile_tune *t;
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, gpu_text, "copy", NULL, 0, &k));
    tile_tune_desc d = { .struct_size = sizeof d, .threads = 4, .repeat = 3 };
    b[7] = 1234;
    OK(ctx, tile_kernel_tune(k, args, 2, NULL, &d, &t));
    CU_ASSERT_EQUAL(tile_tune_count(t), 7); /* the declared one, which does not set `persistent`, and six */
    int timed = 0, same = 0;
    for (size_t i = 0; i < 7; i++) {
        tile_tune_entry e = { .struct_size = sizeof e };
        tile_tune_result(t, i, &e);
        timed += e.state == TILE_TUNE_TIMED;
        same += e.state == TILE_TUNE_SAME && strstr(e.reason, "the same code as BLOCK=");
    }
    CU_ASSERT_EQUAL(timed, 3); /* `persistent` changes nothing of a copy */
    CU_ASSERT_EQUAL(same, 4);
    CU_ASSERT_EQUAL(fake->compiles, 3);
    CU_ASSERT_EQUAL(b[7], 1234);
    tile_tune_destroy(t);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    /* A launch that the driver refuses is a failure of its configuration. */
    const char *launch = !strcmp(target, "hip") ? "hipModuleLaunchKernel" : "cuLaunchKernel";
    snprintf(fake->fail_name, sizeof fake->fail_name, "%s", launch);
    fake->fail_code = 701;
    CHECK_STATUS(ctx, tile_kernel_tune(k, args, 2, NULL, &d, &t), TILE_OK);
    for (size_t i = 0; i < 7; i++) {
        tile_tune_entry e = { .struct_size = sizeof e };
        tile_tune_result(t, i, &e);
        CU_ASSERT(e.state == TILE_TUNE_FAILED || e.state == TILE_TUNE_SAME);
        if (e.state == TILE_TUNE_FAILED) CHECK_TEXT(e.reason, "aunch");
    }
    CHECK_STATUS(ctx, tile_tune_write(t, path, NULL), TILE_ERROR_NOT_FOUND);
    tile_tune_destroy(t);
    fake->fail_name[0] = 0;
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

static void test_cuda(void) { tune_on("cuda", FAKE_CUDA); }
#ifdef HAVE_HIP
static void test_hip(void) { tune_on("hip", FAKE_HIP); }
#endif

/* Memory that runs out anywhere: a status, nothing leaks, and the next call works. */
static void test_memory(void)
{
    static float a[4096], b[4096];
    int64_t n = 4096;
    tile_tensor ta = { a, &n, NULL, -1, TILE_NONE }, tb = { b, &n, NULL, -1, TILE_NONE };
    FakeState *fake = fake_open(FAKE_CUDA);
    Counter counter = { 0 };
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    cd.allocator = (tile_allocator){ counter_realloc, &counter };
    tile_kernel *k;
    if (tile_context_create(&cd, &ctx)) {
        CU_FAIL("context");
        return;
    }
    OK(ctx, kernel_of(ctx, gpu_text, "copy", (tile_binding[]){ { "persistent", TILE_BIND_INT, { .i = 1 } } },
                1, &k));
    tile_tune_desc d = { .struct_size = sizeof d, .threads = 1, .repeat = 1 };
    tile_tune *first;
    OK(ctx, tile_kernel_tune(k, (tile_arg[]){ tile_arg_tensor(&ta), tile_arg_tensor(&tb) }, 2, NULL, &d,
                &first)); /* the driver keeps its compiler */
    tile_tune_destroy(first);
    long live = atomic_load(&counter.live);
    int good = 0;
    for (long fail = 1; !good && fail < 4000; fail += fail < 40 ? 1 : 97) {
        tile_tune *t = NULL;
        atomic_store(&counter.calls, 0);
        atomic_store(&counter.fail_at, fail);
        tile_status st =
            tile_kernel_tune(k, (tile_arg[]){ tile_arg_tensor(&ta), tile_arg_tensor(&tb) }, 2, NULL, &d, &t);
        bool reached = atomic_load(&counter.calls) >= fail;
        atomic_store(&counter.fail_at, 0);
        if (st) {
            CU_ASSERT_EQUAL(st, TILE_ERROR_OUT_OF_MEMORY);
            CU_ASSERT_PTR_NULL(t);
        }
        good = !st && !reached;
        tile_tune_destroy(t);
        if (atomic_load(&counter.live) != live || fake->live_modules) {
            fprintf(stderr, "failing allocation %ld leaks %ld bytes, %d modules\n", fail,
                atomic_load(&counter.live) - live, fake->live_modules);
            CU_FAIL("leak");
            break;
        }
    }
    CU_ASSERT(good);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_memory, 0);
}

int main(int argc, char **argv)
{
    strcpy(path, "/tmp/tile-tune-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    static const UnitTest tests[] = {
#ifdef HAVE_CPU
        { "search", test_search }, { "refusals", test_refusals }, { "strided", test_strided },
#endif
        { "cuda", test_cuda },
#ifdef HAVE_HIP
        { "hip", test_hip },
#endif
        { "memory", test_memory }
    };
    int r = unit_run("tune", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    unlink(path);
    return r;
}
