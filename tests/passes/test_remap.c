/* test_remap.c: the built-in remaps are permutations: every grid of up to 4096 programs for the chiplet maps
 * (by head: every way to write it as tiles times heads, so every number of heads), every plane of a range of
 * shapes for the raster, and their compositions. */
#include "ir/interp/eval.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct Remap {
    Session s;
    EvalCode *code;
} Remap;

/* A kernel with the grid (a, b, c) given by scalars, and what the pass makes of it. */
static const char text[] =
    "kernel @k {\n"
    "  hint raster_group = %d\n"
    "  scalar %%a.0: index\n  scalar %%b.1: index\n  scalar %%c.2: index\n"
    "  grid (%%a.3: index, %%b.4: index, %%c.5: index) {\n    yield %%a.3, %%b.4, %%c.5\n  }\n"
    "  body {\n    return\n  }\n"
    "}\n";

static bool make(Remap *r, const char *name, int xcds, int group)
{
    volatile bool ok = false;
    session_init(&r->s, allocator_libc);
    r->code = NULL;
    if (!setjmp(r->s.oom)) {
        char *src = arena_printf(&r->s.arena, text, group);
        if (!group)
            memmove(strstr(src, "  hint"), strstr(src, "  scalar"), strlen(strstr(src, "  scalar")) + 1);
        Module *m = ir_parse(&r->s, diag_add_source(&r->s, "k.ir", NULL, src, strlen(src)));
        PassOptions o = pass_options_default(NULL);
        const char *why;
        o.passes = "remap,fold,cse,dce";
        o.remap = name;
        o.xcds = xcds;
        o.verify_each = true;
        ok = m && passes_run(m, &o, NULL) && m->funcs->remap &&
             (r->code = eval_compile(&r->s.arena, m->funcs, m->funcs->remap, &why));
        if (!ok && r->s.diags) puts(r->s.diags->message);
    }
    return ok;
}

static bool permutes(Remap *r, int64_t a, int64_t b, int64_t c)
{
    Scalar scalars[3] = { { .i = a }, { .i = b }, { .i = c } };
    EvalEnv env = { .scalars = scalars, .grid = { a, b, c } };
    EvalClash clash;
    EvalVerdict v = eval_check_remap(r->code, &env, a * b * c, allocator_libc, &clash);
    if (v != EVAL_BIJECTION)
        printf("grid %lld x %lld x %lld: verdict %d, %lld and %lld go to %lld\n", (long long)a, (long long)b,
            (long long)c, v, (long long)clash.a, (long long)clash.b, (long long)clash.to);
    return v == EVAL_BIJECTION;
}

static int count_bad(Remap *r, int64_t step)
{
    int bad = 0;
    for (int64_t p = 0; p <= 4096 && bad < 5; p += p < 600 ? 1 : step) bad += !permutes(r, p, 1, 1);
    return bad;
}

static void test_xcd(void)
{
    static const int xcds[] = { 2, 3, 6, 8 };
    for (int k = 0; k < 4; k++) {
        Remap r;
        CU_ASSERT_FATAL(make(&r, "xcd", xcds[k], 0));
        CU_ASSERT_EQUAL(count_bad(&r, xcds[k] == 8 ? 1 : 13), 0);
        session_free(&r.s);
    }
}

/* The size worked out from the grid depends on axis 0 too: all its extents to beyond a chiplet's units, and
 * cut by a raster. */
static void test_chunk(void)
{
    static const char *const names[] = { "chunk:1", "chunk:5", "chunk:64", "chunk:1000" }, *const sizes[] = {
        "chunk", "chunk+raster:6", "chunk+raster:50"
    };
    for (int k = 0; k < 4; k++) {
        Remap r;
        CU_ASSERT_FATAL(make(&r, names[k], 8, 0));
        CU_ASSERT_EQUAL(count_bad(&r, k == 2 ? 1 : 13), 0);
        session_free(&r.s);
    }
    for (int k = 0; k < 3; k++) {
        Remap r;
        int bad = 0;
        CU_ASSERT_FATAL(make(&r, sizes[k], 8, 0));
        for (int64_t a = 1; a <= 90; a++)
            for (int64_t b = 1; a * b <= 4096 && bad < 5; b += b < 9 ? 1 : 7) bad += !permutes(&r, a, b, 1);
        CU_ASSERT_EQUAL(bad, 0);
        session_free(&r.s);
    }
}

/* The map depends on axis 0 and the number of programs: every grid of whole heads of up to 1024 programs, and
 * of up to 4096 those whose heads are a multiple of the chiplets or one more. */
static void test_head(void)
{
    Remap r;
    int bad = 0;
    CU_ASSERT_FATAL(make(&r, "head:1", 8, 0));
    for (int64_t tiles = 1; tiles <= 4096; tiles++)
        for (int64_t heads = 1; tiles * heads <= 4096 && bad < 5; heads++)
            if (tiles * heads <= 1024 || heads % 8 < 2) bad += !permutes(&r, tiles, heads, 1);
    CU_ASSERT_EQUAL(bad, 0);
    session_free(&r.s);
}

/* Heads that stay together: any number of any number of heads up to 128, batches too. */
static void test_head_groups(void)
{
    static const int groups[] = { 2, 3, 4, 5, 8, 16, 64, 127, 1 << 20 }, tiles[] = { 1, 2, 3, 7, 32 };
    for (int g = 0; g < 9; g++) {
        Remap r;
        int bad = 0;
        char name[32];
        snprintf(name, sizeof name, "head:%d", groups[g]);
        CU_ASSERT_FATAL(make(&r, name, g % 2 ? 8 : 7, 0));
        for (int t = 0; t < 5; t++)
            for (int64_t heads = 1; heads <= 128 && bad < 5; heads++)
                bad += !permutes(&r, tiles[t], heads, 1) + !permutes(&r, tiles[t], heads, 3);
        CU_ASSERT_EQUAL(bad, 0);
        session_free(&r.s);
    }
}

static void test_raster(void)
{
    static const int groups[] = { 2, 3, 8, 16 };
    for (int k = 0; k < 4; k++) {
        Remap r;
        int bad = 0;
        CU_ASSERT_FATAL(make(&r, NULL, 1, groups[k]));
        for (int64_t a = 1; a <= 40; a++)
            for (int64_t b = 1; b <= 40 && bad < 5; b++) bad += !permutes(&r, a, b, 1 + (a + b) % 3);
        CU_ASSERT_EQUAL(bad, 0);
        session_free(&r.s);
    }
}

static void test_composed(void)
{
    static const char *const names[] = { "xcd", "chunk:7", "head", "chunk", "head:3" };
    for (int k = 0; k < 5; k++) {
        Remap r;
        int bad = 0;
        CU_ASSERT_FATAL(make(&r, names[k], 8, 4));
        for (int64_t a = 1; a <= 30; a++)
            for (int64_t b = 1; b <= 30 && bad < 5; b++) bad += !permutes(&r, a, b, 2);
        CU_ASSERT_EQUAL(bad, 0);
        session_free(&r.s);
    }
}

/* What the maps are for: neighbours share a chiplet. Workgroup w runs on chiplet w % 8. */
static void test_places(void)
{
    Remap r;
    int64_t to[2], changes = 0;
    CU_ASSERT_FATAL(make(&r, "head", 8, 0));
    Scalar scalars[3] = { { .i = 16 }, { .i = 24 }, { .i = 1 } };
    EvalEnv env = { .scalars = scalars, .grid = { 16, 24, 1 } };
    int chiplet_of_head[24];
    for (int h = 0; h < 24; h++) chiplet_of_head[h] = -1;
    for (env.linear = 0; env.linear < 16 * 24; env.linear++) {
        CU_ASSERT_FATAL(eval_run(r.code, &env, to, 2));
        int *c = &chiplet_of_head[to[0] / 16], on = (int)(env.linear % 8);
        changes += *c >= 0 && *c != on;
        *c = on;
    }
    CU_ASSERT_EQUAL(changes, 0);
    session_free(&r.s);
}

UNIT_MAIN("remap", { "xcd", test_xcd }, { "chunk", test_chunk }, { "head", test_head },
    { "groups", test_head_groups }, { "raster", test_raster }, { "composed", test_composed },
    { "places", test_places })
