/* test_fork.c: what a child process may do with what its parent made: on the CPU everything works, on a GPU
 * the first call says why it cannot. Each child has four minutes; a child that waits for a thread which did
 * not come along is killed by its alarm, and the test fails. */
#define _GNU_SOURCE
#include "api.h"
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 18 };
static _Alignas(256) float x[N], y[N], z[N];

static tile_status add(tile_kernel *k, int64_t n)
{
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 },
        { z, &n, NULL, 1, TILE_F32 } };
    return tile_launch(
        k, (tile_arg[]){ tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) }, 3, NULL);
}

static void add_right(tile_context *c, tile_kernel *k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)i;
        y[i] = 1;
        z[i] = 0;
    }
    OK(c, add(k, n));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) wrong += z[i] != (float)i + 1;
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Runs fn in a child, which passes if all its assertions hold. */
static void in_child(void (*fn)(void *), void *p)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        unsigned failed = CU_get_number_of_failures();
        alarm(240);
        fn(p);
        _exit(CU_get_number_of_failures() > failed);
    }
    CU_ASSERT_FATAL(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status)) fprintf(stderr, "the child ended by signal %d\n", WTERMSIG(status));
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

typedef struct Parent {
    tile_context *c;
    tile_kernel *k;
    tile_compile *h;
} Parent;

static Parent cpu_parent(tile_diagnostic_fn *fn, uint32_t flags, const char *text, const char *name)
{
    Parent p = { NULL, NULL, NULL };
    tile_context_desc d = { .struct_size = sizeof d,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE | flags,
        .threads = 4,
        .on_diagnostic = fn };
    if (tile_context_create(&d, &p.c)) exit(1);
    OK(p.c, kernel_of(p.c, text, name, NULL, 0, &p.k));
    return p;
}

static void close_parent(Parent *p)
{
    tile_compile_destroy(p->h);
    tile_kernel_destroy(p->k);
    tile_context_destroy(p->c);
}

/* --- the CPU ----------------------------------------------------------------------------------------- */

static void grandchild(void *p)
{
    Parent *q = p;
    add_right(q->c, q->k, N - 3);
    close_parent(q);
}

static void use_cpu(void *p)
{
    Parent *q = p;
    add_right(q->c, q->k, N);     /* compiled and launched by the parent */
    add_right(q->c, q->k, N - 5); /* a specialization of its own */
    in_child(grandchild, q);
    Parent own = cpu_parent(NULL, 0, vector_add_text, "vector_add");
    add_right(own.c, own.k, N);
    close_parent(&own);
    close_parent(q);
}

static void test_cpu(void)
{
    Parent p = cpu_parent(NULL, 0, vector_add_text, "vector_add");
    add_right(p.c, p.k, N); /* the pool of threads exists now */
    in_child(use_cpu, &p);
    in_child(use_cpu, &p);
    add_right(p.c, p.k, N);
    close_parent(&p);
}

/* The parent's other thread compiles when it forks: the child cannot wait for that thread, and compiles
 * itself. */
static void use_half_compiled(void *p)
{
    Parent *q = p;
    tile_status st = tile_compile_wait(q->h);
    if (st) {
        CU_ASSERT_EQUAL(st, TILE_ERROR_UNSUPPORTED);
        CHECK_TEXT(error_of(q->c), "was being compiled by a thread of the parent process when it forked");
        CHECK_STATUS(q->c, tile_compile_poll(q->h), TILE_ERROR_UNSUPPORTED);
    }
    add_right(q->c, q->k, N - 16);
    close_parent(q);
}

static atomic_int held; /* 1: another thread's callback holds a lock; 2: it may continue */

static void holding(void *user, const tile_diagnostic *d)
{
    if (d->severity != TILE_SEVERITY_PRINT || atomic_load(&held) == 2) return;
    atomic_store(&held, 1);
    while (atomic_load(&held) != 2) usleep(1000);
}

static const char printing_text[] =
    "kernel vector_add(in f32 X[N], in f32 Y[N], out f32 Z[N]) grid (cdiv(N, 1024)) {\n"
    "    let i = program_id();\n    if i == 0 { print(\"first\"); }\n    store(Z[i*1024 +: 1024], "
    "load(X[i*1024 +: 1024]) + load(Y[i*1024 +: 1024]));\n}\n";

static void test_compiling(void)
{
    int64_t n = N - 16;
    tile_tensor t[3] = { { x, &n, NULL, 1, TILE_F32 }, { y, &n, NULL, 1, TILE_F32 },
        { z, &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    for (int round = 0; round < 4; round++) {
        Parent p = cpu_parent(NULL, 0, vector_add_text, "vector_add");
        OK(p.c, tile_kernel_compile_async(p.k, a, 3, &p.h));
        usleep((unsigned)round * 1500);
        in_child(use_half_compiled, &p);
        OK(p.c, tile_compile_wait(p.h));
        close_parent(&p);
    }
}

/* Another thread is in the callback, with the context's lock, when the process forks. */
static void *launch_printing(void *p)
{
    Parent *q = p;
    add(q->k, 4096);
    return NULL;
}
static void use_held(void *p)
{
    Parent *q = p;
    atomic_store(&held, 2);
    add_right(q->c, q->k, 4096);
    CU_ASSERT_NOT_EQUAL(add(q->k, -1), TILE_OK);
    close_parent(q);
}

static void test_locked(void)
{
    pthread_t thread;
    Parent p = cpu_parent(holding, TILE_CONTEXT_PRINT, printing_text, "vector_add");
    if (pthread_create(&thread, NULL, launch_printing, &p)) exit(1);
    while (!atomic_load(&held)) usleep(1000);
    in_child(use_held, &p);
    atomic_store(&held, 2);
    pthread_join(thread, NULL);
    close_parent(&p);
}

/* Another thread walks the loader's list of objects, with its lock, when the process forks. */
static int wait_in_list(struct dl_phdr_info *info, size_t size, void *p)
{
    (void)info, (void)size, (void)p;
    atomic_store(&held, 1);
    while (atomic_load(&held) != 2) usleep(1000);
    return 1;
}

static void *walk_list(void *p)
{
    dl_iterate_phdr(wait_in_list, p);
    return NULL;
}

static void use_loader_locked(void *p)
{
    Parent *q = p;
    add_right(q->c, q->k, N); /* nothing of it is compiled yet */
    Parent own = cpu_parent(NULL, 0, vector_add_text, "vector_add");
    add_right(own.c, own.k, N);
    close_parent(&own);
    close_parent(q);
}

static void test_loader(void)
{
    pthread_t thread;
    Parent p = cpu_parent(NULL, 0, vector_add_text, "vector_add");
    atomic_store(&held, 0);
    if (pthread_create(&thread, NULL, walk_list, NULL)) exit(1);
    while (!atomic_load(&held)) usleep(1000);
    in_child(use_loader_locked, &p);
    atomic_store(&held, 2);
    pthread_join(thread, NULL);
    close_parent(&p);
}

/* --- GPUs -------------------------------------------------------------------------------------------- */

static FakeState *fake;

static Parent gpu_parent(const char *target, const char *library)
{
    Parent p = { NULL, NULL, NULL };
    tile_context_desc d = fake_desc(target, library);
    if (tile_context_create(&d, &p.c)) exit(1);
    OK(p.c, kernel_of(p.c, vector_add_text, "vector_add", NULL, 0, &p.k));
    return p;
}

static void use_gpu(void *p)
{
    Parent *q = p;
    void *memory;
    int launches = fake->launches;
    CHECK_STATUS(q->c, add(q->k, N), TILE_ERROR_UNSUPPORTED);
    CHECK_TEXT(error_of(q->c), "this process was forked after its");
    CHECK_TEXT(error_of(q->c), "open the context in the child");
    CHECK_STATUS(q->c, add(q->k, N - 5), TILE_ERROR_UNSUPPORTED);
    CHECK_STATUS(q->c, tile_memory_alloc(q->c, TILE_MEMORY_DEVICE, 64, &memory), TILE_ERROR_UNSUPPORTED);
    CHECK_STATUS(q->c, tile_context_synchronize(q->c), TILE_ERROR_UNSUPPORTED);
    CU_ASSERT_EQUAL(fake->launches, launches);
    close_parent(q);
}

static void test_gpu(void)
{
    static const char *const targets[] = { "cuda", "hip" };
    const char *libraries[] = { FAKE_CUDA, FAKE_HIP };
    for (int i = 0; i < 2; i++) {
        fake = fake_open(libraries[i]);
        if (i) fake->arch = 0x942;
        Parent p = gpu_parent(targets[i], libraries[i]);
        tile_status st = add(p.k, N);
        if (st == TILE_ERROR_UNSUPPORTED && i) {
            close_parent(&p);
            continue;
        } /* a build without that backend */
        OK(p.c, st);
        in_child(use_gpu, &p);
        OK(p.c, add(p.k, N));
        close_parent(&p);
    }
}

static void use_new(void *p)
{
    Parent own = gpu_parent("cuda", FAKE_CUDA);
    OK(own.c, add(own.k, N));
    close_parent(&own);
}

/* A context that is opened in the child works. */
static void test_gpu_after(void)
{
    fake = fake_open(FAKE_CUDA);
    in_child(use_new, NULL);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
#ifdef HAVE_CPU
        { "cpu", test_cpu }, { "compiling", test_compiling }, { "locked", test_locked },
        { "loader", test_loader },
#endif
        { "gpu", test_gpu }, { "gpu_after", test_gpu_after }
    };
    (void)test_cpu;
    (void)test_compiling;
    (void)test_locked;
    (void)test_loader;
    return unit_run("fork", tests, sizeof tests / sizeof *tests, argc, argv);
}
