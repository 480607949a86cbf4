/* test_float.c: the floating-point state of the caller changes no result, and no call changes it. Every call
 * below is made in states that a host may have set (rounding, flush-to-zero, unmasked exceptions, flags that
 * stand); the results are those of a context that was used in the default state only, to the bit. */
#define _GNU_SOURCE
#include "api.h"
#include <fenv.h>
#include <math.h>
#include <unistd.h>

enum { N = 4096 };
static float in[N], out[N], want[N], in_denormal[N];

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef struct State {
    unsigned sse;
    unsigned short x87;
} State;
static State get(void)
{
    State s = { _mm_getcsr(), 0 };
    __asm__ volatile("fnstcw %0" : "=m"(s.x87));
    return s;
}
static void set(State s)
{
    _mm_setcsr(s.sse);
    __asm__ volatile("fldcw %0" : : "m"(s.x87));
}
static bool same(State a, State b) { return a.sse == b.sse && a.x87 == b.x87; }
static void show(State a, State b)
{ fprintf(stderr, "%04x %04x, not %04x %04x\n", b.sse, b.x87, a.sse, a.x87); }
/* default; up, down, to zero with x87 in single precision; flush-to-zero and denormals-are-zero; division by
 * zero, overflow and invalid operations trap; flags of all exceptions */
static const State states[] = { { 0x1f80, 0x37f }, { 0x5f80, 0xb7f }, { 0x3f80, 0x77f }, { 0x7f80, 0xc7f },
    { 0x9fc0, 0x27f }, { 0x1900, 0x372 }, { 0xffff, 0x37f }, { 0xdfc4, 0xb7f } };
#else
typedef struct State {
    int round;
} State;
static State get(void) { return (State){ fegetround() }; }
static void set(State s) { fesetround(s.round); }
static bool same(State a, State b) { return a.round == b.round; }
static void show(State a, State b) { fprintf(stderr, "%d, not %d\n", b.round, a.round); }
static const State states[] = { { FE_TONEAREST }, { FE_UPWARD }, { FE_DOWNWARD }, { FE_TOWARDZERO } };
#endif
enum { N_STATES = sizeof states / sizeof *states };
static State before;

/* The call in the state; the state afterwards. */
#define IN(state, what) \
    do { \
        set(state); \
        what; \
        State after_ = get(); \
        set(before); \
        if (!same(state, after_)) { \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            show(state, after_); \
            CU_FAIL("the caller's state changed"); \
        } \
    } while (0)

/* Constants folded by the front end and by the passes, products, reductions, polynomials, conversions,
 * denormal results. */
static const char text[] =
    "const f32 THIRD = 1.0 / 3.0;\n"
    "kernel k(in f32 X[N], out f32 Y[N], f32 s, const f32 C = 0.1, const f32 TINY = 1e-39) grid (cdiv(N, "
    "100))\n"
    "{\n"
    "    let i = program_id();\n"
    "    let x = load(X[i*100 +: 100]);\n"
    "    let folded = zeros([100], f32) + (exp(C) * THIRD + sqrt(C * 7.0) - sin(C) / 3.0 + TINY * 4.0);\n"
    "    let small = f32(f16(x * C)) + f32(bf16(x)) * s + x * 1e-38 * 0.01;\n"
    "    store(Y[i*100 +: 100], exp(x) / 3.0 + tanh(x) * folded + small + sum(x * C, axis = 0) + TINY);\n"
    "}\n"
    "kernel tiny(in f32 X[N], out f32 Y[N], f32 s) grid (cdiv(N, 64))\n"
    "{\n"
    "    let i = program_id();\n"
    "    store(Y[i*64 +: 64], load(X[i*64 +: 64]) * 0.5 + s);\n"
    "}\n"
    "kernel bad(in f32 X[N], out f32 Y[N]) grid (1) { store(Y[0 +: 16], load(X[0 +: 17])); }\n";

static tile_status launch(tile_kernel *k, const float *x, double s, int64_t n)
{
    tile_tensor t[2] = { { (void *)(uintptr_t)x, &n, NULL, 1, TILE_F32 }, { out, &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_float(s) };
    return tile_launch(k, a, 3, NULL);
}

typedef struct Host {
    tile_context *c;
    tile_module *m;
    tile_kernel *k, *tiny;
} Host;

static void silent(void *user, const tile_diagnostic *d)
{
    (void)user;
    (void)d;
}

/* Everything that opens, compiles and launches, each call in the state. */
static void open_host(Host *h, State s, int threads, const tile_allocator *allocator)
{
    tile_context_desc d = { .struct_size = sizeof d,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE,
        .threads = threads,
        .on_diagnostic = silent };
    tile_status st[4] = { 0 };
    if (allocator) d.allocator = *allocator;
    *h = (Host){ 0 };
    IN(s, st[0] = tile_context_create(&d, &h->c));
    if (!st[0])
        IN(s, st[1] = tile_module_load_memory(h->c, "float.tile", text, sizeof text - 1, NULL, &h->m));
    if (h->m) IN(s, st[2] = tile_kernel_create(h->m, "k", NULL, 0, &h->k));
    if (h->m) IN(s, st[3] = tile_kernel_create(h->m, "tiny", NULL, 0, &h->tiny));
    if (!allocator)
        for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(st[i], TILE_OK);
}

static void close_host(Host *h)
{
    if (h->k) tile_kernel_destroy(h->k);
    if (h->tiny) tile_kernel_destroy(h->tiny);
    if (h->m) tile_module_destroy(h->m);
    if (h->c) tile_context_destroy(h->c);
}

static void compare(const char *what, int state)
{
    for (int i = 0; i < N; i++)
        if (memcmp(&out[i], &want[i], 4)) {
            fprintf(stderr, "%s in state %d: [%d] is %a, not %a\n", what, state, i, out[i], want[i]);
            CU_FAIL("value");
            return;
        }
}

/* Compiled and launched in the state; launched in another state than it was compiled in; with one thread and
 * with more. */
static void test_results(void)
{
    for (int threads = 1; threads <= 3; threads += 2)
        for (int s = 0; s < N_STATES; s++) {
            Host h;
            tile_status st;
            open_host(&h, states[s], threads, NULL);
            for (int round = 0; round < 3; round++) { /* The second launch uses a memo (memo.c). */
                memset(out, 0, sizeof out);
                IN(states[round < 2 ? s : (s + 1) % N_STATES], st = launch(h.k, in, 0.7, N));
                CU_ASSERT_EQUAL(st, TILE_OK);
                if (s == 0 && !round && threads == 1) memcpy(want, out, sizeof want);
                compare("k", s);
            }
            close_host(&h);
        }
}

/* Denormals as arguments, as scalars and as results: what the bits say. */
static void test_denormals(void)
{
    for (int i = 0; i < N; i++) want[i] = in_denormal[i] * 0.5f + 0x1p-140f;
    for (int s = 0; s < N_STATES; s++) {
        Host h;
        tile_status st;
        open_host(&h, states[s], 2, NULL);
        double scalar = 0x1p-140;
        IN(states[s], st = launch(h.tiny, in_denormal, scalar, N));
        CU_ASSERT_EQUAL(st, TILE_OK);
        compare("tiny", s);
        close_host(&h);
    }
}

static void questions(Host *h, State s)
{
    int64_t n = N;
    tile_tensor t[2] = { { in, &n, NULL, 1, TILE_F32 }, { out, &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_float(0.7) };
    tile_variant_info v = { .struct_size = sizeof v };
    tile_compile *job;
    size_t bytes;
    tile_status st[4];
    IN(s, st[0] = tile_kernel_compile_async(h->k, a, 3, &job));
    CU_ASSERT_EQUAL_FATAL(st[0], TILE_OK);
    IN(s, st[1] = tile_compile_wait(job));
    IN(s, tile_compile_destroy(job));
    IN(s, st[2] = tile_kernel_workspace(h->k, a, 3, &bytes));
    IN(s, st[3] = tile_kernel_variant(h->k, a, 3, &v));
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(st[i], TILE_OK);
    memset(out, 0, sizeof out);
    IN(s, st[0] = tile_launch(h->k, a, 3, NULL));
    compare("k, compiled in a thread", (int)(&s - states));
}

static void tune(Host *h, State s)
{
    int64_t n = N;
    tile_tensor t[2] = { { in, &n, NULL, 1, TILE_F32 }, { out, &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_float(0.7) };
    tile_tune_desc d = { .struct_size = sizeof d, .repeat = 1, .budget_seconds = 0.01 };
    tile_tune *result = NULL;
    char path[] = "/tmp/tile-float-XXXXXX";
    int fd = mkstemp(path);
    tile_status st;
    IN(s, st = tile_kernel_tune(h->k, a, 3, NULL, &d, &result));
    if (!st) IN(s, st = tile_tune_write(result, path, "a note"));
    if (!st) IN(s, st = tile_module_load_tune(h->m, path));
    if (result) IN(s, tile_tune_destroy(result));
    close(fd);
    unlink(path);
}

static void test_questions(void)
{
    Host h;
    open_host(&h, states[0], 1, NULL);
    launch(h.k, in, 0.7, N);
    memcpy(want, out, sizeof want);
    close_host(&h);
    for (int s = 0; s < N_STATES; s++) {
        open_host(&h, states[s], 2, NULL);
        questions(&h, states[s]);
        tune(&h, states[s]);
        close_host(&h);
    }
}

/* Calls that fail give the state back too: errors in the source and in arguments, and no memory at any point.
 */
static void test_errors(void)
{
    for (int s = 0; s < N_STATES; s++) {
        Host h;
        tile_module *m;
        tile_kernel *k = NULL;
        tile_status st;
        open_host(&h, states[s], 1, NULL);
        IN(states[s], st = tile_module_load_memory(h.c, "bad.tile", "kernel {", 8, NULL, &m));
        CU_ASSERT_EQUAL(st, TILE_ERROR_COMPILE);
        IN(states[s], st = tile_kernel_create(h.m, "none", NULL, 0, &k));
        CU_ASSERT_EQUAL(st, TILE_ERROR_NOT_FOUND);
        IN(states[s], st = tile_kernel_create(h.m, "bad", NULL, 0, &k));
        int64_t n = N;
        tile_tensor t = { in, &n, NULL, 1, TILE_F32 };
        tile_arg a[2] = { tile_arg_tensor(&t), tile_arg_tensor(&t) };
        if (!st) IN(states[s], st = tile_launch(k, a, 2, NULL));
        CU_ASSERT(st != TILE_OK);
        if (k) tile_kernel_destroy(k);
        IN(states[s], st = tile_launch(h.tiny, a, 2, NULL));
        CU_ASSERT(st != TILE_OK);
        close_host(&h);
    }
    for (long n = 1, done = 0; !done && n < 3000; n += n < 60 ? 1 : 13) {
        Counter counter = { .fail_at = n };
        tile_allocator allocator = { counter_realloc, &counter };
        Host h;
        State s = states[n % N_STATES];
        open_host(&h, s, 1, &allocator);
        if (h.k) IN(s, launch(h.k, in, 0.7, N));
        done = counter.calls < n;
        close_host(&h);
    }
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "results", test_results }, { "denormals", test_denormals },
        { "questions", test_questions }, { "errors", test_errors } };
    Host h;
    before = get();
    for (int i = 0; i < N; i++) {
        in[i] = sinf((float)i) * 3;
        in_denormal[i] = ldexpf(sinf((float)i), -126 - i % 22);
    }
    open_host(&h, before, 1, &(tile_allocator){ 0 });
    tile_status st = h.tiny ? launch(h.tiny, in, 1, N) : TILE_ERROR_INTERNAL;
    close_host(&h);
    if (st == TILE_ERROR_UNSUPPORTED) {
        puts("SKIP: this build has no CPU backend");
        return 0;
    }
    return unit_run("float", tests, 4, argc, argv);
}
