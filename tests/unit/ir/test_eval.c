/* The evaluator of grids and remaps: values by hand, the remaps known to be no bijections, and the
 * interpreter as its peer. */
#include "ir/interp/eval.h"
#include "ir_test.h"
#include <time.h>

/* A kernel of one tensor X[M, N] and a scalar s, with the given grid and remap (of %w.1). */
static EvalCode *code(Session *s, const char *grid, const char *remap, bool want_remap)
{
    char text[4096];
    snprintf(text, sizeof text,
        "kernel @k {\n dim M\n dim N\n in %%X.900: tensor<f32, 2>[M, N]\n scalar %%s.901: i32\n"
        " grid (%%902: tensor<f32, 2>, %%s.903: i32) { %s }\n"
        " remap (%%w.1: index, %%904: tensor<f32, 2>, %%s.905: i32) { %%n.2 = num_programs {axis = -1} : "
        "index %%8.8 = const 8 : index %s }\n"
        " body { return }\n}\n",
        grid, remap);
    char *fix = strstr(text, "%8.8");
    if (fix) memcpy(fix, "%e.8", 4);
    Module *m = ir_test_module(s, text);
    const char *why = NULL;
    EvalCode *e = eval_compile(&s->arena, m->funcs, want_remap ? m->funcs->remap : m->funcs->grid, &why);
    if (!e) fprintf(stderr, "%s\n", why);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    CU_ASSERT_TRUE(eval_valid(e, eval_size(e), 2, 2));
    return e;
}

static void test_grid(void)
{
    Session s;
    EvalCode *e = code(&s,
        "%3 = dim {dim = M} : index %4 = dim {dim = N} : index %5 = const 128 : index %6 = cdiv %3, %5 : "
        "index "
        "%7 = stride {param = 0, axis = 1} : index %10 = cast %s.903 : index %11 = const 3 : i32 %12 = lt "
        "%s.903, %11 : bool "
        "%13 = if %12 : index { %14 = add %7, %10 : index yield %14 } else { yield %4 } yield %6, %13",
        "yield %w.1", false);
    const int64_t dims[2] = { 1000, 77 }, strides[2][TILE_MAX_RANK] = { { 77, 5 } };
    Scalar scalars[2] = { { 0 }, { .i = 2 } };
    EvalEnv env = { .dims = dims, .strides = strides, .scalars = scalars };
    int64_t out[3];
    CU_ASSERT_EQUAL(eval_results(e), 2);
    CU_ASSERT_TRUE(eval_run(e, &env, out, 8));
    CU_ASSERT_EQUAL(out[0], 8);
    CU_ASSERT_EQUAL(out[1], 7);
    scalars[1].i = -5;
    CU_ASSERT_TRUE(eval_run(e, &env, out, 8) && out[1] == 0);
    scalars[1].i = 3;
    CU_ASSERT_TRUE(eval_run(e, &env, out, 8) && out[1] == 77);
    session_free(&s);
}

static void test_loops(void)
{
    Session s;
    /* sum of i*i for i in 0 .. s by a loop; then doubling while below it; the exchange of two carried values
     */
    EvalCode *e = code(&s,
        "%3 = const 0 : i32 %4 = const 1 : i32 %5 = const 2 : i32 "
        "%6 = for %i.7 = %3 to %s.903 step %4 with (%a.9 = %3) { %10 = fma %i.7, %i.7, %a.9 : i32 yield %10 "
        "} "
        "%11 = while (%d.12 = %4) { %13 = lt %d.12, %6 : bool condition %13, %d.12 } do (%d.14) { %15 = mul "
        "%d.14, %5 : i32 yield %15 } "
        "%16, %17 = for %i.18 = %3 to %s.903 step %4 with (%p.19 = %3, %q.20 = %4) { %21 = add %p.19, %q.20 "
        ": i32 yield %q.20, %21 } "
        "%22 = cast %6 : index %23 = cast %11 : index %24 = cast %16 : index yield %22, %23, %24",
        "yield %w.1", false);
    Scalar scalars[2] = { { 0 }, { .i = 11 } };
    EvalEnv env = { .scalars = scalars };
    int64_t out[3];
    CU_ASSERT_TRUE(eval_run(e, &env, out, 8));
    CU_ASSERT_EQUAL(out[0], 385);
    CU_ASSERT_EQUAL(out[1], 512);
    CU_ASSERT_EQUAL(out[2], 89);
    session_free(&s);
    e = code(&s,
        "%3 = const true : bool %4 = while (%a.5 = %s.903) { condition %3, %a.5 } do (%a.6) { yield %a.6 } "
        "%7 = cast %4 : index yield %7",
        "yield %w.1", false);
    CU_ASSERT_FALSE(eval_run(e, &env, out, 8));
    session_free(&s);
    /* Up to the greatest i32: the loop ends although the next value would wrap. */
    e = code(&s,
        "%3 = const 2147483640 : i32 %4 = const 2147483647 : i32 %5 = const 5 : i32 %6 = const 0 : i32 %7 = "
        "const 1 : i32 "
        "%9 = for %i.10 = %3 to %4 step %5 with (%a.11 = %6) { %12 = add %a.11, %7 : i32 yield %12 } %13 = "
        "cast %9 : index yield %13",
        "yield %w.1", false);
    CU_ASSERT_TRUE(eval_run(e, &env, out, 8) && out[0] == 2);
    session_free(&s);
}

typedef int64_t RemapFn(int64_t w, int64_t n);

static int64_t round_robin(int64_t w, int64_t n) { return w % 8 * (n / 8) + w / 8; }
static int64_t second(int64_t w, int64_t n) { return w / 8 % 8 * (n / 8) + w % 8; }
static int64_t third(int64_t w, int64_t n) { return n / 8 ? w / (n / 8) % 8 * (n / 8) + w % (n / 8) / 8 : 0; }
static int64_t mirror(int64_t w, int64_t n) { return n - 1 - w; }

/* The verdict for every grid up to 300 programs, against the map tried directly in C. */
static void check_remap(const char *text, RemapFn *fn)
{
    Session s;
    EvalCode *e = code(&s, "%990 = const 1 : index yield %990", text, true);
    for (int64_t n = 1; n <= 300; n++) {
        int64_t first[300], a = -1, b = -1, outside = -1;
        for (int64_t k = 0; k < n; k++) first[k] = -1;
        for (int64_t w = 0; w < n && b < 0 && outside < 0; w++) {
            int64_t to = fn(w, n);
            if (to < 0 || to >= n) outside = w;
            else if (first[to] >= 0) {
                a = first[to];
                b = w;
            } else first[to] = w;
        }
        EvalEnv env = { .grid = { n, 1, 1 } };
        EvalClash clash;
        EvalVerdict v = eval_check_remap(e, &env, n, allocator_libc, &clash);
        CU_ASSERT_EQUAL(v, outside >= 0 ? EVAL_OUT_OF_RANGE : b >= 0 ? EVAL_COLLISION : EVAL_BIJECTION);
        if (outside >= 0) CU_ASSERT_TRUE(clash.a == outside && clash.to == fn(outside, n));
        if (b >= 0) CU_ASSERT_TRUE(clash.a == a && clash.b == b && clash.to == fn(b, n));
    }
    session_free(&s);
}

static void test_remaps(void)
{
    const char *per = "%3 = div %n.2, %e.8 : index ";
    char text[3][400];
    snprintf(text[0], 400,
        "%s%%4 = rem %%w.1, %%e.8 : index %%5 = div %%w.1, %%e.8 : index %%6 = fma %%4, %%3, %%5 : index "
        "yield %%6",
        per);
    snprintf(text[1], 400,
        "%s%%4 = div %%w.1, %%e.8 : index %%5 = rem %%4, %%e.8 : index %%6 = rem %%w.1, %%e.8 : index %%7 = "
        "fma %%5, %%3, %%6 : index yield %%7",
        per);
    snprintf(text[2], 400,
        "%s%%4 = div %%w.1, %%3 : index %%5 = rem %%4, %%e.8 : index %%6 = rem %%w.1, %%3 : index %%7 = div "
        "%%6, %%e.8 : index "
        "%%9 = fma %%5, %%3, %%7 : index yield %%9",
        per);
    check_remap(text[0], round_robin);
    check_remap(text[1], second);
    check_remap(text[2], third);
    check_remap("%3 = const 1 : index %4 = sub %n.2, %3 : index %5 = sub %4, %w.1 : index yield %5", mirror);
    Session s;
    EvalCode *e = code(&s, "%990 = const 1 : index yield %990", text[2], true);
    EvalEnv env = { .grid = { 32, 1, 1 } };
    EvalClash clash;
    CU_ASSERT_EQUAL(eval_check_remap(e, &env, 32, allocator_libc, &clash), EVAL_COLLISION);
    CU_ASSERT_TRUE(clash.a == 0 && clash.b == 1 && clash.to == 0);
    CU_ASSERT_EQUAL(
        eval_check_remap(e, &env, EVAL_MAX_CHECKED + 1, allocator_libc, &clash), EVAL_NOT_CHECKED);
    session_free(&s);
}

/* A damaged program is refused or runs without harm: every byte in turn takes several values. */
static void test_damage(void)
{
    Session s;
    EvalCode *e = code(&s, "%990 = const 1 : index yield %990",
        "%3 = rem %w.1, %e.8 : index %4 = lt %3, %e.8 : bool %5 = if %4 : index { yield %3 } else { yield "
        "%w.1 } yield %5",
        true);
    size_t n = eval_size(e);
    unsigned char *copy = malloc(n);
    const int64_t dims[2] = { 1, 2 }, strides[2][TILE_MAX_RANK] = { { 0 } };
    const Scalar scalars[2] = { { 0 }, { 0 } };
    EvalEnv env = { .dims = dims, .strides = strides, .scalars = scalars, .grid = { 9, 1, 1 }, .linear = 13 };
    int refused = 0;
    for (size_t at = 0; at < n; at++)
        for (int v = 1; v < 256; v += 23) {
            int64_t out[8];
            memcpy(copy, e, n);
            copy[at] = (unsigned char)(copy[at] ^ v);
            if (eval_valid(copy, n, 2, 2)) (void)eval_run((EvalCode *)copy, &env, out, 8);
            else refused++;
        }
    CU_ASSERT_TRUE(refused > 0);
    for (size_t cut = 0; cut < n; cut++) CU_ASSERT_FALSE(eval_valid(e, cut, 2, 2));
    free(copy);
    session_free(&s);
}

UNIT_MAIN("ir_eval", { "grid", test_grid }, { "loops", test_loops }, { "remaps", test_remaps },
    { "damage", test_damage })
