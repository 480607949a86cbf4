/* test_converted.c: inputs that a launch has converted ahead (converted_inputs.c). The kernel on f32 inputs
 * and its form on what plain C rounds them to give the same results to the bit, in the interpreter; and which
 * inputs are found. */
#include "passes/tile/launch/computed_inputs.h"
#include "passes/tile/launch/converted_inputs.h"
#include "frontend/frontend.h"
#include "ir/interp/interp.h"
#include "ir/interp/scalar.h"
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
static Func *lowered_text(
    Session *s, const char *source, const char *passes, const DType *to, const char *flag)
{
    FrontBinding b = { flag, { FRONT_BOOL, { .b = true } } };
    Ast *ast = frontend_parse(s, diag_add_source(s, "k.tile", NULL, source, strlen(source)), NULL, NULL);
    Module *m = ast && frontend_check(ast) ? frontend_lower(ast, "product", &b, flag != NULL, NULL) : NULL;
    PassOptions o = pass_options_default(NULL);
    o.passes = passes;
    o.converted = to;
    o.verify_each = true;
    return m && passes_run(m, &o, NULL) ? ir_func_find(m, "product") : NULL;
}

static Func *lowered(Session *s, const char *passes, const DType *to, const char *flag)
{ return lowered_text(s, text, passes, to, flag); }

/* The kernel of operands that are computed: two products whose left operands are computed alike. */
static const char computed_text[] =
    "kernel product(in f16 G[M, K], in f16 U[M, K], in f16 W[K, N], out f32 Y[M, N],\n"
    "               const bool APART = false, const bool UNLIKE = false, const bool ONE = false)\n"
    "    grid (cdiv(M, 8), cdiv(N, 8)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([8, 8], f32);\n"
    "    for k in 0 .. cdiv(K, 16) {\n"
    "        let g = f32(load(G[i*8 +: 8, k*16 +: 16], latency = 2));\n"
    "        let u = load(U[i*8 +: 8, (APART ? k + 1 : k)*16 +: 16]);\n"
    "        let one = ONE ? 1.0 : 0.0;\n"
    "        let x = max(f16(where(g > 2.5, 2.5, g / (1.0 + exp(-g))) * 1.5) * u - f16(one), -100.0);\n"
    "        acc = mma(x, load(W[k*16 +: 16, j*8 +: 8]), acc);\n"
    "        const if (UNLIKE) {\n"
    "            let h = load(G[i*8 +: 8, k*16 +: 16]) * u;\n"
    "            acc = mma(h, load(W[k*16 +: 16, j*8 +: 8]), acc);\n        }\n"
    "    }\n    store(Y[i*8 +: 8, j*8 +: 8], acc);\n}\n";

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

/* What is found of the kernel with this flag: whether G may hold the result, and of how many inputs. */
static int computed_of(const char *flag)
{
    Session s;
    open_session(&s);
    Func *f = lowered_text(&s, computed_text, "inline,check", NULL, flag);
    ComputedInput c = f ? input_computed(&s, f, 0) : (ComputedInput){ .to = DT_COUNT };
    int n = c.to == DT_COUNT ? 0 : c.n;
    CU_ASSERT(
        !n || (c.to == DT_F16 && c.from[0].param == 0 && c.from[1].param == 1 && strstr(c.body, "exp(")));
    session_free(&s);
    return n;
}

/* Windows apart, two expressions, and one that makes something else of zeros are not computed ahead. */
static void test_computed_found(void)
{
    CU_ASSERT_EQUAL(computed_of(NULL), 2);
    CU_ASSERT_EQUAL(computed_of("APART"), 0);
    CU_ASSERT_EQUAL(computed_of("UNLIKE"), 0);
    CU_ASSERT_EQUAL(computed_of("ONE"), 0);
}

static float of_f16(uint16_t x)
{
    float f =
        ldexpf((float)((x & 0x3ff) | (x >> 10 & 31 ? 0x400 : 0)), (x >> 10 & 31 ? x >> 10 & 31 : 1) - 25);
    return x >> 15 ? -f : f;
}

static void run_computed(const DType *to, void *g, void *u, void *w, float *y)
{
    Session s;
    open_session(&s);
    Func *f = lowered_text(&s, computed_text, "inline,check,specialize,dce", to, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    const InterpArg args[] = { { .data = g, .shape = { M, K }, .stride = { K, 1 } },
        { .data = u, .shape = { M, K }, .stride = { K, 1 } },
        { .data = w, .shape = { K, N }, .stride = { N, 1 } },
        { .data = y, .shape = { M, N }, .stride = { N, 1 } } };
    CU_ASSERT(interp_run(&s, f, args, 4));
    session_free(&s);
}

/* The form on an operand that C computes in double is as near to the kernel as their roundings are. */
static void test_computed_same(void)
{
    static uint16_t g[M * K], u[M * K], w[K * N], x[M * K];
    static float y[M * N], z[M * N];
    static const DType to[] = { DT_F16, DT_COUNT, DT_COUNT, DT_COUNT };
    for (int i = 0; i < M * K; i++) g[i] = (uint16_t)(0x3400 + i * 37 % 0xa00 + (i % 3 ? 0 : 0x8000));
    for (int i = 0; i < M * K; i++) u[i] = (uint16_t)(0x3800 + i * 13 % 0x400);
    for (int i = 0; i < K * N; i++) w[i] = (uint16_t)(0x3800 + i * 7 % 0x400 + (i % 5 ? 0 : 0x8000));
    for (int i = 0; i < M * K; i++) {
        double a = of_f16(g[i]), silu = a > 2.5 ? 2.5 : a / (1 + exp(-a));
        x[i] = (uint16_t)scalar_bits(
            DT_F16, scalar_float(scalar_round(DT_F16, scalar_round(DT_F16, silu * 1.5) * of_f16(u[i]))));
    }
    run_computed(NULL, g, u, w, y);
    run_computed(to, x, u, w, z);
    for (int i = 0; i < M * N; i++) CU_ASSERT(fabsf(y[i] - z[i]) <= 1e-2f);
}

/* Halves of rows, the second of which is visited first. */
static const char halves_text[] =
    "kernel product(in f16 X[M, K2], in f16 W[K, N], out f32 Y[M, N], const bool BACK = false)\n"
    "    grid (cdiv(M, 8), cdiv(N, 8)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([8, 8], f32);\n"
    "    for k in 0 .. cdiv(K, 16) {\n"
    "        let far = load(X[i*8 +: 8, K + k*16 +: 16]);\n"
    "        let near = load(X[i*8 +: 8, BACK ? k*16 - 8 : k*16 +: 16]);\n"
    "        acc = mma(far * near * near, load(W[k*16 +: 16, j*8 +: 8]), acc);\n"
    "    }\n    store(Y[i*8 +: 8, j*8 +: 8], acc);\n}\n";

static void run_halves(const DType *to, void *x, void *w, float *y)
{
    Session s;
    open_session(&s);
    Func *f = lowered_text(&s, halves_text, "inline,check,specialize,dce", to, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    const InterpArg args[] = { { .data = x, .shape = { M, 2 * K }, .stride = { 2 * K, 1 } },
        { .data = w, .shape = { K, N }, .stride = { N, 1 } },
        { .data = y, .shape = { M, N }, .stride = { N, 1 } } };
    CU_ASSERT(interp_run(&s, f, args, 3));
    session_free(&s);
}

/* Two windows of one input: what the form reads of all columns, where there is none of the second window too.
 */
static void test_computed_halves(void)
{
    static uint16_t x[M * 2 * K], w[K * N], p[M * 2 * K];
    static float y[M * N], z[M * N];
    static const DType to[] = { DT_F16, DT_COUNT, DT_COUNT };
    Session s;
    open_session(&s);
    Func *f = lowered_text(&s, halves_text, "inline,check", NULL, NULL);
    ComputedInput c = f ? input_computed(&s, f, 0) : (ComputedInput){ .to = DT_COUNT };
    CU_ASSERT(c.to == DT_F16 && c.n == 2 && c.from[0].dim < 0 && !c.from[0].plus && c.from[1].dim >= 0);
    session_free(&s);
    open_session(&s); /* columns before the tensor */
    f = lowered_text(&s, halves_text, "inline,check", NULL, "BACK");
    CU_ASSERT(f && input_computed(&s, f, 0).to == DT_COUNT);
    session_free(&s);
    for (int i = 0; i < M * 2 * K; i++) x[i] = (uint16_t)(0x3400 + i * 37 % 0xa00 + (i % 3 ? 0 : 0x8000));
    for (int i = 0; i < K * N; i++) w[i] = (uint16_t)(0x3800 + i * 7 % 0x400 + (i % 5 ? 0 : 0x8000));
    for (int i = 0; i < M * 2 * K; i++) {
        double near = of_f16(x[i]), far = i % (2 * K) < K ? of_f16(x[i + K]) : 0;
        p[i] = (uint16_t)scalar_bits(
            DT_F16, scalar_float(scalar_round(DT_F16, scalar_round(DT_F16, far * near) * near)));
    }
    run_halves(NULL, x, w, y);
    run_halves(to, p, w, z);
    for (int i = 0; i < M * N; i++) CU_ASSERT(y[i] == z[i]);
}

/* Rows and columns scaled by vectors. */
static const char scaled_text[] =
    "kernel product(in f16 X[M, K], in f32 R[M], in f16 V[K], in f16 W[K, N], out f32 Y[M, N],\n"
    "               const bool ADDED = false, const bool TURNED = false) grid (cdiv(M, 16), cdiv(N, 8)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([16, 8], f32);\n"
    "    let r = rsqrt(load(R[i*16 +: 16]) + 0.5);\n"
    "    for k in 0 .. cdiv(K, 16) {\n"
    "        let v = load(V[k*16 +: 16]);\n"
    "        let x = f16(f32(load(X[i*16 +: 16, k*16 +: 16])) * (TURNED ? r[None, :] : r[:, None])) * "
    "v[None, :];\n"
    "        let a = ADDED ? x + v[None, :] : x;\n"
    "        acc = mma(a, load(W[k*16 +: 16, j*8 +: 8]), acc);\n"
    "    }\n    store(Y[i*16 +: 16, j*8 +: 8], acc);\n}\n";

/* The number of inputs that the operand is computed from with this flag. */
static int scaled_of(const char *flag)
{
    Session s;
    open_session(&s);
    Func *f = lowered_text(&s, scaled_text, "inline,check", NULL, flag);
    ComputedInput c = f ? input_computed(&s, f, 0) : (ComputedInput){ .to = DT_COUNT };
    int n = c.to == DT_F16 ? c.n : 0;
    CU_ASSERT(!n || strstr(c.body, "rsqrt(v"));
    CU_ASSERT(!n || strstr(c.body, "[:, None]"));
    CU_ASSERT(!n || strstr(c.body, "[None, :]"));
    for (int k = 1; k < n; k++) CU_ASSERT_EQUAL(c.from[k].axis, c.from[k].param - 1);
    session_free(&s);
    return n;
}

/* A vector for rows may not be one for columns, and what adds a vector is not zero beyond the tensor. */
static void test_computed_scaled(void)
{
    CU_ASSERT_EQUAL(scaled_of(NULL), 3);
    CU_ASSERT_EQUAL(scaled_of("ADDED"), 0);
    CU_ASSERT_EQUAL(scaled_of("TURNED"), 0);
}

/* Rows of keys that are normalized, weighted by columns and rotated in halves by a table. */
static const char rows_text[] =
    "kernel product(in f16 Q[H, M, D], in f16 X[H, N, D], in f32 G[D], in f32 C[N, E], in f32 S[N],\n"
    "               out f32 Y[H, M, N], const bool SUMS = false, const bool PARTS = false,\n"
    "               const bool ONE = false) grid (cdiv(N, 8), cdiv(M, 8), H) {\n"
    "    let (j, i, h) = program_id();\n"
    "    let near = f32(load(X[h, j*8 +: 8, 0 +: 8]));\n    let far = f32(load(X[h, j*8 +: 8, 8 +: 8]));\n"
    "    let squares = sum(near*near, axis = 1) + sum(far*far, axis = 1);\n"
    "    let by = rsqrt(squares / 16.0 + 0.5) * load(S[j*8 +: 8])[:, None] + (ONE ? 1.0 : 0.0);\n"
    "    let c = load(C[j*8 +: 8, :]);\n"
    "    let a = near * by * load(G[0 +: 8])[None, :];\n"
    "    let b = far * by * load(G[(PARTS ? j : 1)*8 +: 8])[None, :];\n"
    "    let x = f16(concat(a*c, b - c*a, axis = 1));\n"
    "    var y = mma(load(Q[h, i*8 +: 8, :]), transpose(x));\n"
    "    const if (SUMS) { y = y + sum(near); }\n"
    "    store(Y[h, i*8 +: 8, j*8 +: 8], y);\n}\n";

enum { HEADS = 2, QUERIES = 9, KEYS = 11, DEPTH = 16 };

static Func *lowered_rows(Session *s, const char *passes, const DType *to, const char *flag)
{
    FrontBinding b[3] = { { "D", { FRONT_INT, { .i = DEPTH } } }, { "E", { FRONT_INT, { .i = DEPTH / 2 } } },
        { flag, { FRONT_BOOL, { .b = true } } } };
    Ast *ast =
        frontend_parse(s, diag_add_source(s, "k.tile", NULL, rows_text, strlen(rows_text)), NULL, NULL);
    Module *m = ast && frontend_check(ast) ? frontend_lower(ast, "product", b, flag ? 3 : 2, NULL) : NULL;
    PassOptions o = pass_options_default(NULL);
    o.passes = passes;
    o.converted = to;
    o.verify_each = true;
    return m && passes_run(m, &o, NULL) ? ir_func_find(m, "product") : NULL;
}

/* The windows and vectors that rows of X are computed from with this flag. */
static int rows_of(const char *flag)
{
    Session s;
    open_session(&s);
    Func *f = lowered_rows(&s, "inline,check", NULL, flag);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    ComputedInput c = input_computed(&s, f, 1);
    int n = c.to == DT_F16 && c.columns == DEPTH ? c.n : 0;
    CU_ASSERT(!n || (strstr(c.body, "sum(v") && strstr(c.body, "concat(v") && c.from[0].param == 1));
    session_free(&s);
    return n;
}

static void run_rows(const DType *to, void *q, void *x, void *g, void *c, void *s1, float *y)
{
    Session s;
    open_session(&s);
    Func *f = lowered_rows(&s, "inline,check,specialize,dce", to, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    const InterpArg args[] = {
        { .data = q, .shape = { HEADS, QUERIES, DEPTH }, .stride = { QUERIES * DEPTH, DEPTH, 1 } },
        { .data = x, .shape = { HEADS, KEYS, DEPTH }, .stride = { KEYS * DEPTH, DEPTH, 1 } },
        { .data = g, .shape = { DEPTH }, .stride = { 1 } },
        { .data = c, .shape = { KEYS, DEPTH / 2 }, .stride = { DEPTH / 2, 1 } },
        { .data = s1, .shape = { KEYS }, .stride = { 1 } },
        { .data = y, .shape = { HEADS, QUERIES, KEYS }, .stride = { QUERIES * KEYS, KEYS, 1 } }
    };
    CU_ASSERT(interp_run(&s, f, args, 6));
    session_free(&s);
}

/* Rows as C computes them in double, in the place of X. */
static void computed_rows(const uint16_t *x, const float *g, const float *c, const float *s1, uint16_t *p)
{
    for (int r = 0; r < HEADS * KEYS; r++) {
        double squares = 0;
        for (int d = 0; d < DEPTH; d++) squares += of_f16(x[r * DEPTH + d]) * of_f16(x[r * DEPTH + d]);
        double by = s1[r % KEYS] / sqrt(squares / DEPTH + 0.5);
        for (int d = 0; d < DEPTH; d++) {
            int e = d % 8;
            double a = of_f16(x[r * DEPTH + e]) * by * g[e], b = of_f16(x[r * DEPTH + 8 + e]) * by * g[8 + e],
                   t = c[r % KEYS * 8 + e], v = d < 8 ? a * t : b - t * a;
            p[r * DEPTH + d] = (uint16_t)scalar_bits(DT_F16, scalar_float(scalar_round(DT_F16, v)));
        }
    }
}

static void test_computed_rows(void)
{
    static uint16_t q[HEADS * QUERIES * DEPTH], x[HEADS * KEYS * DEPTH], p[HEADS * KEYS * DEPTH];
    static float g[DEPTH], c[KEYS * DEPTH / 2], s1[KEYS], y[HEADS * QUERIES * KEYS],
        z[HEADS * QUERIES * KEYS];
    static const DType to[] = { DT_COUNT, DT_F16, DT_COUNT, DT_COUNT, DT_COUNT, DT_COUNT };
    CU_ASSERT_EQUAL(rows_of(NULL), 6);
    CU_ASSERT_EQUAL(rows_of("SUMS"), 0);  /* X is summed too */
    CU_ASSERT_EQUAL(rows_of("PARTS"), 0); /* columns that a program's number says */
    CU_ASSERT_EQUAL(rows_of("ONE"), 6);   /* what is zero times a number stays zero */
    for (int i = 0; i < HEADS * QUERIES * DEPTH; i++) q[i] = (uint16_t)(0x3400 + i * 31 % 0x900);
    for (int i = 0; i < HEADS * KEYS * DEPTH; i++)
        x[i] = (uint16_t)(0x3400 + i * 37 % 0xa00 + (i % 3 ? 0 : 0x8000));
    for (int i = 0; i < DEPTH; i++) g[i] = 0.5f + (float)(i % 5);
    for (int i = 0; i < KEYS * DEPTH / 2; i++) c[i] = (float)(i % 7) / 4 - 1;
    for (int i = 0; i < KEYS; i++) s1[i] = 1 + (float)i / 8;
    computed_rows(x, g, c, s1, p);
    run_rows(NULL, q, x, g, c, s1, y);
    run_rows(to, q, p, g, c, s1, z);
    for (int i = 0; i < HEADS * QUERIES * KEYS; i++)
        CU_ASSERT(fabsf(y[i] - z[i]) <= 0.05f + 1e-2f * fabsf(y[i]));
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "same", test_same }, { "found", test_found },
        { "refused", test_refused }, { "computed_found", test_computed_found },
        { "computed_same", test_computed_same }, { "computed_halves", test_computed_halves },
        { "computed_scaled", test_computed_scaled }, { "computed_rows", test_computed_rows } };
    return unit_run("converted", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
