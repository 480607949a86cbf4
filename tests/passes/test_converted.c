/* test_converted.c: inputs that a launch has converted ahead (converted_inputs.c). The kernel on f32 inputs
 * and its form on what plain C rounds them to give the same results to the bit, in the interpreter; and which
 * inputs are found. */
#include "passes/converted_inputs.h"
#include "frontend/frontend.h"
#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"
#include <math.h>
#include <stdlib.h>

static const char text[] =
    "fn rows(A, i, k) { return load(A[i*8 +: 8, k*16 - 4 +: 16], pad = 3.5); }\n"
    "kernel product(in f32 A[M, K], in f32 W[N, K], in f32 S[N], in i32 AT[M], out f32 Y[M, N],\n"
    "               const bool AS_IT_IS = false, const bool TWICE = false)\n"
    "    grid (cdiv(M, 8), cdiv(N, 8)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([8, 8], f32);\n"
    "    let at = load(AT[i*8 +: 8]);\n"
    "    for k in 0 .. cdiv(K + 4, 16) {\n"
    "        let a = bf16(rows(A, i, k));\n"
    "        let w = load(W[j*8 +: 8, k*16 - 4 +: 16]);\n"
    "        acc = mma(a, bf16(transpose(w)), acc);\n"
    "        let g = gather(A[at[:, None], arange(16)[None, :]]);\n"
    "        acc = mma(bf16(g), bf16(reshape(transpose(w), [16, 8])), acc);\n"
    "        const if (AS_IT_IS) { acc = acc + sum(w); }\n"
    "        const if (TWICE) { acc = mma(f16(rows(A, i, k)), f16(transpose(w)), acc); }\n"
    "    }\n"
    "    store(Y[i*8 +: 8, j*8 +: 8], acc * load(S[j*8 +: 8])[None, :]);\n}\n";

enum { M = 13, N = 11, K = 37, PARAMS = 5 };

/* To nearest, ties to even; NaN stays one. */
static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if (x != x) return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The kernel's IR after these passes; NULL after diagnostics. */
static Func *lowered(Session *s, const char *passes, const DType *to, const char *flag)
{
    FrontBinding b = { flag, { FRONT_BOOL, { .b = true } } };
    Ast *ast = frontend_parse(s, diag_add_source(s, "k.tile", NULL, text, strlen(text)), NULL, NULL);
    Module *m = ast && frontend_check(ast) ? frontend_lower(ast, "product", &b, flag != NULL, NULL) : NULL;
    PassOptions o = pass_options_default(NULL);
    o.passes = passes;
    o.converted = to;
    o.verify_each = true;
    return m && passes_run(m, &o, NULL) ? ir_func_find(m, "product") : NULL;
}

static void open_session(Session *s)
{
    session_init(s, allocator_libc);
    if (setjmp(s->oom)) exit(2);
}

static void run(const DType *to, void *a, void *w, const float *scale, const int32_t *at, float *y)
{
    Session s;
    open_session(&s);
    Func *f = lowered(&s, "inline,check,specialize", to, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    memset(y, 0xff, M * N * sizeof *y);
    const InterpArg args[PARAMS] = { { .data = a, .shape = { M, K }, .stride = { K, 1 } },
        { .data = w, .shape = { N, K }, .stride = { K, 1 } },
        { .data = (void *)scale, .shape = { N }, .stride = { 1 } },
        { .data = (void *)at, .shape = { M }, .stride = { 1 } },
        { .data = y, .shape = { M, N }, .stride = { N, 1 } } };
    CU_ASSERT(interp_run(&s, f, args, PARAMS));
    session_free(&s);
}

static float drawn(int i)
{
    static const float odd[] = { INFINITY, NAN, -0.0f, 1e-40f, 3e38f, 1.00390625f, 1.01171875f };
    if (i % 97 == 5) return odd[i / 97 % 7];
    return (float)((i * 2654435761u >> 8) % 4001) / 977 - 2;
}

static void test_same(void)
{
    static float a[M * K], w[N * K], scale[N], y[M * N], z[M * N];
    static uint16_t a16[M * K], w16[N * K];
    static int32_t at[M];
    static const DType to[PARAMS] = { DT_BF16, DT_BF16, DT_COUNT, DT_COUNT, DT_COUNT };
    static const DType one[PARAMS] = { DT_COUNT, DT_BF16, DT_COUNT, DT_COUNT, DT_COUNT };
    for (int i = 0; i < M * K; i++) a16[i] = to_bf16(a[i] = drawn(i));
    for (int i = 0; i < N * K; i++) w16[i] = to_bf16(w[i] = drawn(i + 4001));
    for (int i = 0; i < N; i++) scale[i] = drawn(i + 7);
    for (int i = 0; i < M; i++) at[i] = i * 5 % (M + 2) - 1; /* below the tensor and behind it too */
    run(NULL, a, w, scale, at, y);
    run(to, a16, w16, scale, at, z);
    CU_ASSERT_EQUAL(memcmp(y, z, sizeof y), 0);
    run(one, a, w16, scale, at, z);
    CU_ASSERT_EQUAL(memcmp(y, z, sizeof y), 0);
}

static void expect(const char *flag, DType a, DType w)
{
    Session s;
    open_session(&s);
    Func *f = lowered(&s, "inline,check", NULL, flag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    const DType wanted[PARAMS] = { a, w, DT_COUNT, DT_COUNT, DT_COUNT };
    for (int i = 0; i < PARAMS; i++) CU_ASSERT_EQUAL(input_converted_to(f, i), wanted[i]);
    session_free(&s);
}

static void test_found(void)
{
    expect(NULL, DT_BF16, DT_BF16);
    expect("AS_IT_IS", DT_BF16, DT_COUNT); /* W is summed too */
    expect("TWICE", DT_COUNT, DT_COUNT);   /* to bf16 and to f16 */
}

/* What is not converted so by all that reads it is an error, and nothing is changed. */
static void test_refused(void)
{
    static const DType to[PARAMS] = { DT_COUNT, DT_BF16, DT_COUNT, DT_COUNT, DT_COUNT };
    static const DType other[PARAMS] = { DT_COUNT, DT_F16, DT_COUNT, DT_COUNT, DT_COUNT };
    Session s;
    open_session(&s);
    CU_ASSERT_PTR_NULL(lowered(&s, "inline,check,specialize", to, "AS_IT_IS"));
    CU_ASSERT_EQUAL(s.n_errors, 1);
    session_free(&s);
    open_session(&s);
    CU_ASSERT_PTR_NULL(lowered(&s, "inline,check,specialize", other, NULL));
    session_free(&s);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "same", test_same }, { "found", test_found },
        { "refused", test_refused } };
    return unit_run("converted", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
