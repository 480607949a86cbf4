/* test_stack.c: a stack of 128 KiB suffices for every call of the library, and what the library says that a
 * compilation needs is enough: measured for every example, on the CPU and for GPUs, and for the deepest
 * programs that the language allows. */
#define _GNU_SOURCE
#include "api.h"
#include "ir/support/stack.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>

enum { SMALL = 128 << 10, LARGE = STACK_BYTES };
static FakeState *fake;

/* Runs fn(p) in a thread with a stack of so many bytes; how many of them it touched. */
static size_t on_stack_of(size_t bytes, void *(*fn)(void *), void *p)
{
    pthread_attr_t a;
    pthread_t thread;
    size_t guard = 1 << 16, low = 0;
    char *stack =
        mmap(NULL, bytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, guard, PROT_NONE) || pthread_attr_init(&a) ||
        pthread_attr_setstack(&a, stack + guard, bytes) || pthread_create(&thread, &a, fn, p) ||
        pthread_join(thread, NULL)) {
        perror("a thread");
        exit(1);
    }
    pthread_attr_destroy(&a);
    while (low < bytes && !stack[guard + low]) low++;
    munmap(stack, bytes + guard);
    return bytes - low;
}

/* --- programs ---------------------------------------------------------------------------------------- */

/* Every limit on depth at once, as near as it is allowed: brackets, signs, ifs in loops, calls, a long chain
 * of operators. */
static char *deepest(void)
{
    size_t room = 1 << 20, n = 0;
    char *t = malloc(room);
#define ADD(...) (n += (size_t)snprintf(t + n, room - n, __VA_ARGS__))
    ADD("fn g0_(x) { return x + 1.0; }\n");
    for (int i = 1; i <= 25; i++) {
        ADD("fn g%d_(x) { return ", i);
        for (int k = 0; k < 40; k++) ADD("-");
        ADD("g%d_(x); }\n", i - 1);
    }
    ADD("kernel deep(in f32 X[N], inout f32 Y[N], i32 n) grid (cdiv(N, 64)) {\n    let i = program_id();\n   "
        " var a = load(X[i*64 +: 64]);\n");
    for (int k = 0; k < 60; k++) ADD("%s", k % 2 ? "if n > 1 { " : "for k in 0 .. n { ");
    ADD("a = g25_(a); ");
    for (int k = 0; k < 60; k++) ADD("}");
    ADD("\n    a = ");
    for (int k = 0; k < 150; k++) ADD("(a * 0.5 + ");
    ADD("a");
    for (int k = 0; k < 150; k++) ADD(")");
    ADD(";\n    store(Y[i*64 +: 64], a);\n}\n");
#undef ADD
    return t;
}

/* A kernel that takes as many arguments as a launch may have. */
static char *widest(void)
{
    size_t room = 1 << 16, n = 0;
    char *t = malloc(room);
    n += (size_t)snprintf(t + n, room - n, "kernel wide(inout f32 Y[N]");
    for (int k = 0; k < 255; k++) n += (size_t)snprintf(t + n, room - n, ", f32 p%d", k);
    snprintf(t + n, room - n, ") grid (1) { store(Y[0], p0 + p254); }\n");
    return t;
}

/* What one thread does, and what became of it. */
typedef struct Job {
    const char *target, *library, *file, *text;
    tile_status status;
    char why[600];
} Job;

static void say(Job *j, tile_context *c, tile_status st)
{
    j->status = st;
    if (c) tile_context_error(c, j->why, sizeof j->why);
}

static void launch(Job *j, tile_context *c, tile_kernel *k)
{
    static _Alignas(256) float buffer[2][256];
    int64_t n = 256;
    size_t params = tile_kernel_param_count(k);
    tile_tensor x = { buffer[0], &n, NULL, 1, TILE_F32 }, y = { buffer[1], &n, NULL, 1, TILE_F32 };
    tile_arg a[256];
    for (size_t i = 0; i < params; i++) {
        tile_param_info info = { .struct_size = sizeof info };
        tile_kernel_param(k, i, &info);
        a[i] = info.kind == TILE_PARAM_IN       ? tile_arg_tensor(&x)
               : info.kind != TILE_PARAM_SCALAR ? tile_arg_tensor(&y)
               : info.dtype == TILE_F32         ? tile_arg_float(1)
                                                : tile_arg_int(1);
    }
    say(j, c, tile_launch(k, a, params, NULL));
}

/* Loads a module and makes its kernels; launches the one kernel of a text. */
static void *work(void *p)
{
    Job *j = p;
    tile_context *c = NULL;
    tile_module *m = NULL;
    tile_context_desc d = { .struct_size = sizeof d,
        .target = j->target,
        .driver_library = j->library,
        .compiler_library = j->library,
        .flags = TILE_CONTEXT_NO_CACHE };
    if ((j->status = tile_context_create_error(&d, &c, j->why, sizeof j->why))) return NULL;
    say(j, c,
        j->file ? tile_module_load_file(c, j->file, NULL, &m)
                : tile_module_load_memory(c, "deep.tile", j->text, strlen(j->text), NULL, &m));
    for (size_t i = 0; !j->status && i < tile_module_kernel_count(m); i++) {
        tile_kernel *k = NULL;
        tile_status st = tile_kernel_create(m, tile_module_kernel_name(m, i), NULL, 0, &k);
        if (st && j->text) say(j, c, st);
        if (k && j->text) launch(j, c, k);
        tile_kernel_destroy(k); /* some kernels of the examples want bindings */
    }
    tile_module_destroy(m);
    tile_context_destroy(c);
    return NULL;
}

static size_t most;

static void both(Job j)
{
    Job small = j;
    on_stack_of(SMALL, work, &small);
    size_t touched = on_stack_of(LARGE, work, &j);
    const char *name = j.file ? strrchr(j.file, '/') + 1 : j.text ? "(text)" : "";
    if (small.status || j.status)
        fprintf(stderr, "%s for %s: %s %s\n", name, j.target,
            tile_status_name(small.status ? small.status : j.status), small.status ? small.why : j.why);
    CU_ASSERT_EQUAL(small.status, TILE_OK);
    CU_ASSERT_EQUAL(j.status, TILE_OK);
    if (touched > STACK_NEED)
        fprintf(stderr, "%s for %s touches %zu KiB of the stack\n", name, j.target, touched >> 10);
    CU_ASSERT(touched <= STACK_NEED);
    if (touched > most) most = touched;
}

static void each_target(const char *file, const char *text)
{
    fake->arch = 90;
    both((Job){ "cuda", FAKE_CUDA, file, text, TILE_OK, "" });
#ifdef HAVE_CPU
    both((Job){ "cpu", NULL, file, text, TILE_OK, "" });
#endif
}

static void test_examples(void)
{
    DIR *d = opendir(TILE_KERNELS);
    fake = fake_open(FAKE_CUDA);
    int n = 0;
    most = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 5, ".tile")) continue;
        snprintf(path, sizeof path, "%s/%s", TILE_KERNELS, e->d_name);
        both((Job){ "cuda", FAKE_CUDA, path, NULL, TILE_OK, "" });
        n++;
    }
    if (d) closedir(d);
    CU_ASSERT(n > 30);
    fprintf(stderr, "(%d files, at most %zu KiB) ", n, most >> 10);
}

static void test_deepest(void)
{
    char *text = deepest();
    fake = fake_open(FAKE_CUDA);
    most = 0;
    each_target(NULL, text);
    fprintf(stderr, "(at most %zu KiB) ", most >> 10);
    free(text);
}

static void test_widest(void)
{
    char *text = widest();
    fake = fake_open(FAKE_CUDA);
    each_target(NULL, text);
    free(text);
}

/* --- the call itself --------------------------------------------------------------------------------- */

static void note_left(void *p) { *(size_t *)p = stack_left(); }
static void *call(void *p)
{
    stack_call(note_left, p);
    return NULL;
}

/* A small stack is left for another; a large one is not. */
static void test_call(void)
{
    size_t left = 0;
    on_stack_of(SMALL, call, &left);
    CU_ASSERT_EQUAL(left, 0); /* no stack of a thread: stack_call's own */
    on_stack_of(LARGE, call, &left);
    CU_ASSERT(left > STACK_NEED && left < LARGE);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "call", test_call }, { "examples", test_examples },
        { "deepest", test_deepest }, { "widest", test_widest } };
    return unit_run("stack", tests, 4, argc, argv);
}
