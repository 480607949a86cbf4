/* The interpreter against plain C and values worked out by hand. */
#include "ir/interp/interp.h"
#include "ir_test.h"
#include <math.h>

#define GRID1 "grid (%901: tensor<f32, 2>, %902: tensor<f32, 2>) { %903 = const 1 : index yield %903 }\n"

static void expect_run(Session *s, Module *m, const InterpArg *args, int n)
{
    bool ok = interp_run(s, m->funcs, args, n);
    if (!ok) fprintf(stderr, "%s", ir_test_diags(s));
    CU_ASSERT_TRUE_FATAL(ok);
}

/* Row softmax over a ragged, strided matrix by a grid of tiles. */
static void test_softmax(void)
{
    Session s;
    Module *m =
        ir_test_module(&s, "kernel @softmax {\n"
                           "  dim M\n dim N\n"
                           "  in %X.0: tensor<f32, 2>[M, N]\n out %Y.1: tensor<f32, 2>[M, N]\n"
                           "  grid (%901: tensor<f32, 2>, %902: tensor<f32, 2>) { %903 = dim {dim = M} : "
                           "index %904 = const 4 : index %905 = cdiv %903, %904 : index yield %905 }\n"
                           "  body {\n"
                           "    %2 = program_id {axis = 0} : index\n"
                           "    %3 = const 4 : index\n"
                           "    %4 = mul %2, %3 : index\n"
                           "    %5 = const 0 : index\n"
                           "    %6 = const -inf : f32\n"
                           "    %x.7 = load %X.0[%4, %5] pad %6 {extents = [4, 8]} : f32[4, 8]\n"
                           "    %m.8 = reduce_max %x.7 {axis = 1} : f32[4, 1]\n"
                           "    %9 = broadcast %m.8 : f32[4, 8]\n"
                           "    %10 = sub %x.7, %9 : f32[4, 8]\n"
                           "    %11 = exp %10 : f32[4, 8]\n"
                           "    %12 = reduce_sum %11 {axis = 1} : f32[4, 1]\n"
                           "    %13 = broadcast %12 : f32[4, 8]\n"
                           "    %14 = div %11, %13 : f32[4, 8]\n"
                           "    %t.15 = token {param = 1} : token\n"
                           "    %t.16 = store %Y.1[%4, %5] = %14 token %t.15 {extents = [4, 8]} : token\n"
                           "    return\n"
                           "  }\n}\n");
    enum { M = 6, N = 7, LD = 9 };
    float x[M * LD], y[N * M];
    for (int i = 0; i < M * LD; i++) x[i] = (float)((i * 37) % 23) / 7;
    for (int i = 0; i < N * M; i++) y[i] = -1;
    /* X has rows of 9; Y is column-major */
    InterpArg args[2] = { { .data = x, .shape = { M, N }, .stride = { LD, 1 } },
        { .data = y, .shape = { M, N }, .stride = { 1, M } } };
    expect_run(&s, m, args, 2);
    for (int i = 0; i < M; i++) {
        double sum = 0, max = -1e30;
        for (int j = 0; j < N; j++) max = fmax(max, x[i * LD + j]);
        for (int j = 0; j < N; j++) sum += exp(x[i * LD + j] - max);
        for (int j = 0; j < N; j++)
            CU_ASSERT_DOUBLE_EQUAL(y[j * M + i], exp(x[i * LD + j] - max) / sum, 1e-6);
    }
    session_free(&s);
}

/* A product over a loop with f16 operands, one of them read transposed by `order`. */
static void test_matmul(void)
{
    Session s;
    Module *m = ir_test_module(&s,
        "kernel @matmul {\n"
        "  dim M\n dim K\n dim N\n"
        "  in %A.0: tensor<f16, 2>[M, K]\n in %B.1: tensor<f16, 2>[N, K]\n out %C.2: tensor<f32, 2>[M, N]\n"
        "  grid (%901: tensor<f16, 2>, %902: tensor<f16, 2>, %903: tensor<f32, 2>) {\n"
        "    %904 = dim {dim = M} : index %905 = const 4 : index %906 = cdiv %904, %905 : index\n"
        "    %907 = dim {dim = N} : index %908 = cdiv %907, %905 : index yield %906, %908 }\n"
        "  body {\n"
        "    %3 = program_id {axis = 0} : index\n %4 = program_id {axis = 1} : index\n"
        "    %5 = const 4 : index\n %6 = mul %3, %5 : index\n %7 = mul %4, %5 : index\n"
        "    %8 = const 0.0 : f32\n %9 = splat %8 : f32[4, 4]\n %10 = const 0 : index\n %11 = dim {dim = K} "
        ": index\n %12 = const 3 : index\n"
        "    %13 = for %k.14 = %10 to %11 step %12 with (%acc.15 = %9) {\n"
        "      %16 = load %A.0[%6, %k.14] {extents = [4, 3]} : f16[4, 3]\n"
        "      %17 = load %B.1[%7, %k.14] {extents = [4, 3], order = [1, 0]} : f16[3, 4]\n"
        "      %18 = mma %16, %17, %acc.15 : f32[4, 4]\n"
        "      yield %18\n"
        "    }\n"
        "    %19 = token {param = 2} : token\n"
        "    %20 = store %C.2[%6, %7] = %13 token %19 {extents = [4, 4]} : token\n"
        "    return\n  }\n}\n");
    enum { M = 5, N = 6, K = 8 };
    uint16_t a[M * K], b[N * K];
    float c[M * N];
    double fa[M * K], fb[N * K];
    for (int i = 0; i < M * K; i++) {
        fa[i] = (i % 7) - 3;
        scalar_store(DT_F16, scalar_float(fa[i]), &a[i]);
    }
    for (int i = 0; i < N * K; i++) {
        fb[i] = (i % 5) * 0.5 - 1;
        scalar_store(DT_F16, scalar_float(fb[i]), &b[i]);
    }
    InterpArg args[3] = { { .data = a, .shape = { M, K }, .stride = { K, 1 } },
        { .data = b, .shape = { N, K }, .stride = { K, 1 } },
        { .data = c, .shape = { M, N }, .stride = { N, 1 } } };
    expect_run(&s, m, args, 3);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0;
            for (int k = 0; k < K; k++) want += fa[i * K + k] * fb[j * K + k];
            CU_ASSERT_EQUAL(c[i * N + j], want);
        }
    session_free(&s);
}

/* One program over a vector of 8; `body` stores %r to Y. */
static void run_vector(const char *body, const float *x, float *y)
{
    Session s;
    char text[4096];
    snprintf(text, sizeof text,
        "kernel @k {\n dim #0 = 8\n in %%X.0: tensor<f32, 1>[#0]\n out %%Y.1: tensor<f32, 1>[#0]\n"
        " grid (%%901: tensor<f32, 1>, %%902: tensor<f32, 1>) { %%903 = const 1 : index yield %%903 }\n body "
        "{\n"
        "  %%zero.2 = const 0 : index\n  %%x.3 = load %%X.0[%%zero.2] {extents = [8]} : f32[8]\n  %%f.4 = "
        "const 0.0 : f32\n %s\n"
        "  %%t.900 = token {param = 1} : token\n  %%t.904 = store %%Y.1[%%zero.2] = %%r.800 token %%t.900 "
        "{extents = [8]} : token\n  return\n }\n}\n",
        body);
    Module *m = ir_test_module(&s, text);
    InterpArg args[2] = { { .data = (void *)x, .shape = { 8 }, .stride = { 1 } },
        { .data = y, .shape = { 8 }, .stride = { 1 } } };
    expect_run(&s, m, args, 2);
    session_free(&s);
}

static void expect8(const float *got, const float *want)
{
    for (int i = 0; i < 8; i++) {
        if (isnan(want[i]) ? !isnan(got[i]) : got[i] != want[i])
            fprintf(stderr, "element %d is %g, not %g\n", i, got[i], want[i]);
        CU_ASSERT_TRUE(isnan(want[i]) ? isnan(got[i]) : got[i] == want[i]);
    }
}

static void test_vectors(void)
{
    const float x[8] = { 3, -1, 4, 1, -5, 9, 2, 6 }, with_nan[8] = { 3, -1, NAN, 1, -5, 9, NAN, 6 };
    float y[8];
    run_vector("%r.800 = scan_sum %x.3 {axis = 0} : f32[8]", x, y);
    expect8(y, (float[]){ 3, 2, 6, 7, 2, 11, 13, 19 });
    run_vector("%r.800 = scan_sum %x.3 {axis = 0, reverse = 1} : f32[8]", x, y);
    expect8(y, (float[]){ 19, 16, 17, 13, 12, 17, 8, 6 });
    run_vector("%r.800 = scan_max %x.3 {axis = 0} : f32[8]", with_nan, y);
    expect8(y, (float[]){ 3, 3, NAN, NAN, NAN, NAN, NAN, NAN });
    run_vector("%r.800 = sort %x.3 : f32[8]", with_nan, y);
    expect8(y, (float[]){ -5, -1, 1, 3, 6, 9, NAN, NAN });
    run_vector("%r.800 = sort %x.3 {reverse = 1} : f32[8]", with_nan, y);
    expect8(y, (float[]){ NAN, NAN, 9, 6, 3, 1, -1, -5 });
    run_vector("%5, %6 = topk %x.3 {count = 8} : f32[8], i32[8] %r.800 = cast %6 : f32[8]",
        (float[]){ 1, 7, 7, NAN, 0, 7, -1, NAN }, y);
    expect8(y, (float[]){ 3, 7, 1, 2, 5, 0, 4, 6 });
    run_vector("%5 = argmax %x.3 {axis = 0, drop = 1} : i32 %6 = argmin %x.3 {axis = 0, drop = 1} : i32 %7 = "
               "const 10 : i32 %8 = mul %6, %7 : i32 "
               "%9 = add %5, %8 : i32 %10 = cast %9 : f32 %r.800 = splat %10 : f32[8]",
        x, y);
    expect8(y, (float[]){ 45, 45, 45, 45, 45, 45, 45, 45 });
    run_vector("%5 = reshape %x.3 : f32[2, 4] %6 = permute %5 {order = [1, 0]} : f32[4, 2] %r.800 = reshape "
               "%6 : f32[8]",
        x, y);
    expect8(y, (float[]){ 3, -5, -1, 9, 4, 2, 1, 6 });
    run_vector("%5 = slice %x.3 {axis = 0, start = 5} : f32[3] %6 = slice %x.3 {axis = 0} : f32[5] %r.800 = "
               "concat %5, %6 {axis = 0} : f32[8]",
        x, y);
    expect8(y, (float[]){ 9, 2, 6, 3, -1, 4, 1, -5 });
    run_vector("%5 = reduce %x.3 {axis = 0, drop = 1} : f32 (%a.6: f32, %b.7: f32) { %8 = abs %b.7 : "
               "f32 %9 = add %a.6, %8 : f32 yield %9 } "
               "%r.800 = splat %5 : f32[8]",
        x, y);
    expect8(y, (float[]){ 31, 31, 31, 31, 31, 31, 31, 31 });
    run_vector("%5 = arange {start = -2} : index[8] %r.800 = gather %X.0[%5] pad %f.4 : f32[8]", x, y);
    expect8(y, (float[]){ 0, 0, 3, -1, 4, 1, -5, 9 });
    run_vector("%5 = const -1 : index %r.800 = load %X.0[%5] {extents = [8], steps = [3]} : f32[8]", x, y);
    expect8(y, (float[]){ 0, 4, 9, 0, 0, 0, 0, 0 });
    /* Fibonacci: a loop that exchanges its carried values. */
    run_vector("%5 = const 10 : index %6 = const 1 : index %7 = const 1.0 : f32 "
               "%8, %9 = for %i.10 = %zero.2 to %5 step %6 with (%a.11 = %f.4, %b.12 = %7) { %13 = add "
               "%a.11, %b.12 : f32 yield %b.12, %13 } "
               "%r.800 = splat %8 : f32[8]",
        x, y);
    expect8(y, (float[]){ 55, 55, 55, 55, 55, 55, 55, 55 });
    /* collatz steps of 27 */
    run_vector(
        "%5 = const 27 : i32 %6 = const 0 : i32 %7 = const 1 : i32 %8 = const 2 : i32 %9 = const 3 : i32 "
        "%10, %11 = while (%n.12 = %5, %c.13 = %6) { %14 = ne %n.12, %7 : bool condition %14, %n.12, %c.13 } "
        "do (%n.15, %c.16) { "
        "%17 = rem %n.15, %8 : i32 %18 = eq %17, %6 : bool "
        "%19 = if %18 : i32 { %20 = div %n.15, %8 : i32 yield %20 } else { %21 = fma %n.15, %9, %7 : i32 "
        "yield %21 } "
        "%22 = add %c.16, %7 : i32 yield %19, %22 } %23 = cast %11 : f32 %r.800 = splat %23 : f32[8]",
        x, y);
    expect8(y, (float[]){ 111, 111, 111, 111, 111, 111, 111, 111 });
}

/* Duplicates: the last scatter wins, all atomics count; masked-off elements give 0. */
static void test_indexed(void)
{
    Session s;
    Module *m = ir_test_module(&s,
        "kernel @k {\n dim N\n inout %X.0: tensor<i32, 1>[N]\n out %Y.1: tensor<i32, 1>[N]\n"
        " grid (%901: tensor<i32, 1>, %902: tensor<i32, 1>) { %903 = const 1 : index yield %903 }\n body {\n"
        "  %2 = arange : i32[6]\n  %3 = const 2 : i32\n  %4 = splat %3 : i32[6]\n  %5 = div %2, %4 : i32[6]\n"
        "  %6 = token {param = 0} : token\n  %7, %8 = atomic_rmw %X.0[%5] = %4 token %6 {rmw = add} : "
        "i32[6], token\n"
        "  %9 = const 5 : i32 %10 = splat %9 : i32[6]\n  %11 = lt %2, %10 : bool[6]\n"
        "  %12 = token {param = 1} : token\n  %13 = scatter %Y.1[%5] = %2 mask %11 token %12 : token\n"
        "  %14 = const 3 : index  %15 = const 104 : i32\n  %16, %17 = atomic_cas %X.0[%14] = %15, %3 token "
        "%8 : i32, token\n"
        "  %18, %19 = atomic_cas %X.0[%14] = %3, %3 token %17 : i32, token\n"
        "  %20 = sub %16, %18 : i32 %21 = reduce_sum %7 {axis = 0, drop = 1} : i32 %22 = const 4 : index\n"
        "  %23 = store %X.0[%22] = %21 token %19 {extents = [-1]} : token\n"
        "  %24 = const 5 : index %25 = store %X.0[%24] = %20 token %23 {extents = [-1]} : token\n  return\n "
        "}\n}\n");
    int32_t x[6] = { 100, 200, 300, 104, 0, 0 }, y[6] = { -1, -1, -1, -1, -1, -1 };
    InterpArg args[2] = { { .data = x, .shape = { 6 }, .stride = { 1 } },
        { .data = y, .shape = { 6 }, .stride = { 1 } } };
    expect_run(&s, m, args, 2);
    const int32_t want_x[6] = { 104, 204, 304, 2, 100 + 102 + 200 + 202 + 300 + 302, 102 },
                  want_y[6] = { 1, 3, 4, -1, -1, -1 };
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(x[i], want_x[i]);
        CU_ASSERT_EQUAL(y[i], want_y[i]);
    }
    session_free(&s);
}

static const char endless[] =
    "kernel @k {\n dim N div 2\n in %X.0: tensor<f32, 1>[N] align 8 stride [1]\n scalar %n.1: index range "
    "[0.0, 8.0]\n"
    " grid (%901: tensor<f32, 1>, %902: index) { yield %902 }\n body {\n"
    "  %2 = const true : bool\n  while () { condition %2 } do () { yield }\n  return\n }\n}\n";

static void refuse(const char *want, InterpArg x, int64_t n)
{
    Session s;
    Module *m = ir_test_module(&s, endless);
    InterpArg args[2] = { x, { .scalar = { .i = n } } };
    InterpOptions opt = { .max_steps = 1000 };
    CU_ASSERT_FALSE(interp_run_with(&s, m->funcs, args, 2, &opt));
    if (!s.diags || strcmp(s.diags->message, want))
        fprintf(stderr, "wanted: %s\n%s", want, ir_test_diags(&s));
    CU_ASSERT_TRUE(s.diags && !strcmp(s.diags->message, want));
    session_free(&s);
}

static void test_refusals(void)
{
    _Alignas(8) float x[4] = { 0 };
    refuse("the interpreter gave up after 1000 steps in @k",
        (InterpArg){ .data = x, .shape = { 4 }, .stride = { 1 } }, 1);
    refuse("n is 9, promised in [0, 8]", (InterpArg){ .data = x, .shape = { 4 }, .stride = { 1 } }, 9);
    refuse("dimension N is 3, promised a multiple of 2",
        (InterpArg){ .data = x, .shape = { 3 }, .stride = { 1 } }, 1);
    refuse("the stride of axis 0 of X is 2, promised 1",
        (InterpArg){ .data = x, .shape = { 2 }, .stride = { 2 } }, 1);
    refuse("X is not aligned to 8 bytes, as promised",
        (InterpArg){ .data = x + 1, .shape = { 2 }, .stride = { 1 } }, 1);
    refuse("X has no data", (InterpArg){ .shape = { 2 }, .stride = { 1 } }, 1);
}

/* A wrong proof is an error; so are a failed assertion, a wild gather and a NaN under `check`; print writes.
 */
static void run_checked(const char *body, bool check, const char *want)
{
    Session s;
    char text[2048];
    snprintf(text, sizeof text,
        "kernel @k {\n dim N\n inout %%X.0: tensor<f32, 1>[N]\n grid (%%901: tensor<f32, 1>) { %%903 = const "
        "1 : index yield %%903 }\n body {\n"
        "  %%1 = const 0 : index %%2 = const 3 : index %%3 = const nan : f32 %%4 = lt %%2, %%1 : bool %%t.5 "
        "= token {param = 0} : token\n%s\n  return\n }\n}\n",
        body);
    Module *m = ir_test_module(&s, text);
    float x[2] = { 1.5f, 2 };
    InterpArg arg = { .data = x, .shape = { 2 }, .stride = { 1 } };
    Text prints;
    text_init(&prints, &s.arena);
    text_puts(&prints, "");
    InterpOptions opt = { .check = check, .prints = &prints };
    bool ok = interp_run_with(&s, m->funcs, &arg, 1, &opt);
    const char *got = ok ? prints.data : s.diags->message;
    if (strcmp(got, want)) fprintf(stderr, "wanted: %s\ngot: %s\n", want, got);
    CU_ASSERT_STRING_EQUAL(got, want);
    session_free(&s);
}

static void test_checks(void)
{
    run_checked("%6, %7 = load %X.0[%1] token %t.5 {extents = [4], masked = 0} : f32[4], token", false,
        "load of X by program 0 of @k is out of range, but marked as proven in range");
    run_checked("%6, %7 = load %X.0[%1] token %t.5 {extents = [4], inside = [1]} : f32[4], token", false,
        "load of X by program 0 of @k is out of range, but marked as proven in range");
    run_checked("%6, %7 = load %X.0[%1] token %t.5 {extents = [4], inside = [0]} : f32[4], token", false, "");
    run_checked("assert %4 {message = \"three is not negative\"}", true,
        "assertion failed in program 0 of @k: three is not negative");
    run_checked("assert %4", false, "");
    run_checked("%6, %7 = gather %X.0[%2] token %t.5 : f32, token", true,
        "gather of X by program 0 of @k is out of range");
    run_checked("%6 = store %X.0[%1] = %3 token %t.5 {extents = [-1]} : token", true,
        "NaN stored to X by program 0 of @k");
    run_checked(
        "%6, %7 = load %X.0[%1] token %t.5 {extents = [3]} : f32[3], token print %6, %2 {message = \"x\"}",
        false, "x [1.5, 2, 0] 3\n");
}

UNIT_MAIN("ir_interp", { "softmax", test_softmax }, { "matmul", test_matmul }, { "vectors", test_vectors },
    { "indexed", test_indexed }, { "refusals", test_refusals }, { "checks", test_checks })
