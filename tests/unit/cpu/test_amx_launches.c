/* test_amx_launches.c: launches of products through libtile on a machine with AMX, by libamx_machine.so or
 * its own: in one thread and several, in a caller's threads, on a small stack, in a child process, in any
 * floating-point state, with programs that return early and that fail. Whatever a launch does, the
 * thread that called it, or ran a part of it, has the tile configuration that it had. `refused`: the
 * operating system grants nothing, and the library says so. */
#define _GNU_SOURCE
#include "tile/tile.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

static const char text[] =
    "kernel p(in bf16 A[M, K], in bf16 B[K, N], out f32 C[M, N], in i32 mode[P]) grid (cdiv(M, 64), cdiv(N, "
    "64))\n{\n"
    "    let (i, j) = program_id();\n"
    "    let how = load(mode[i]);\n"
    "    if how == 1 { return; }\n"
    "    var acc = zeros([64, 64], f32);\n"
    "    for k in 0 .. cdiv(K, 64) {\n"
    "        acc = mma(load(A[i*64 +: 64, k*64 +: 64]), load(B[k*64 +: 64, j*64 +: 64]), acc);\n"
    "        if how == 4 { return; }\n"
    "    }\n"
    "    assert(how != 2, \"mode 2\");\n"
    "    if how == 3 { return; }\n"
    "    store(C[i*64 +: 64, j*64 +: 64], acc);\n"
    "}\n";
enum { STORED = 0, EARLY = 1, FAILS = 2, LATE = 3, IN_LOOP = 4 };

enum { MAX_M = 300, MAX_N = 270, MAX_K = 330, MAX_PARTS = 5 };
static uint16_t a[MAX_M * MAX_K], b[MAX_K * MAX_N];
static float c[MAX_M * MAX_N], want[MAX_M * MAX_N];
static int32_t mode[MAX_PARTS];
static bool refused;
static _Atomic int failures, checks, warnings;

static void expect(bool ok, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s\n", what);
    failures++;
}

/* --- a caller that uses AMX itself ------------------------------------------------------------------- */

typedef struct Tiles {
    _Alignas(64) unsigned char config[64];
} Tiles;

/* By their bytes, which every assembler takes. */
static void ldtilecfg(const Tiles *t)
{ __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(t) : "memory"); }
static void sttilecfg(Tiles *t)
{ __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x00" : : "a"(t) : "memory"); }
static void tilerelease(void) { __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); }

static Tiles callers(int rows)
{
    Tiles t = { { 1 } };
    t.config[16 + 2 * (rows % 8)] = 4;
    t.config[48 + rows % 8] = (unsigned char)rows;
    return t;
}

/* With and without a configuration of its own. */
static void around(bool own, int rows, void (*fn)(void *, int), void *arg, int i)
{
    Tiles before = callers(rows), after;
    if (refused) {
        fn(arg, i);
        return;
    }
    if (own) ldtilecfg(&before);
    else memset(&before, 0, sizeof before);
    fn(arg, i);
    sttilecfg(&after);
    expect(!memcmp(&before, &after, sizeof after), "a tile configuration is not as it was");
    if (own) tilerelease();
}

typedef struct Task {
    void (*fn)(void *, int);
    void *arg;
    int i;
} Task;

static void *run_task(void *p)
{
    Task *t = p;
    around(t->i % 2, 3 + t->i, t->fn, t->arg, t->i);
    return NULL;
}

static void callers_threads(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    Task tasks[16];
    pthread_t threads[16];
    (void)user;
    if (n > 16) abort();
    for (int i = 0; i < n; i++) {
        tasks[i] = (Task){ task, arg, i };
        if (pthread_create(&threads[i], NULL, run_task, &tasks[i])) abort();
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* --- one launch -------------------------------------------------------------------------------------- */

typedef struct Setting {
    int threads;
    bool callers_pool, checked, own_tiles;
    unsigned sse;
} Setting;

static void hear(void *user, const tile_diagnostic *d)
{
    (void)user;
    if (strstr(d->message, "does not use AMX: ")) warnings++;
}

/* Small whole numbers, which bf16 holds and whose sums are exact; how each row of programs ends. */
static void fill(int m, int n, int k, const int *modes)
{
    static const int64_t prime = 2654435761;
    for (int i = 0; i < m * k; i++) a[i] = (uint16_t)((i * prime >> 7) % 3 ? 0x3f80 : 0xc000);
    for (int i = 0; i < k * n; i++) b[i] = (uint16_t)((i * prime >> 5) % 5 ? 0x4040 : 0xbf80);
    for (int r = 0; r < m; r++)
        for (int s = 0; s < n; s++) {
            float sum = 0;
            for (int x = 0; x < k; x++)
                sum += (a[r * k + x] == 0x3f80 ? 1.0f : -2.0f) * (b[x * n + s] == 0x4040 ? 3.0f : -1.0f);
            int how = modes[r / 64];
            want[r * n + s] = how == STORED || how == FAILS ? sum : -7;
            c[r * n + s] = -7;
        }
    for (int i = 0; i < MAX_PARTS; i++) mode[i] = modes[i];
}

typedef struct Launch {
    tile_kernel *kernel;
    int64_t m, n, k;
    unsigned sse;
    tile_status status;
} Launch;

static void launch(void *p, int i)
{
    Launch *l = p;
    (void)i;
    int64_t as[] = { l->m, l->k }, bs[] = { l->k, l->n }, cs[] = { l->m, l->n },
            parts[] = { (l->m + 63) / 64 };
    tile_tensor t[] = { { a, as, NULL, 2, TILE_BF16 }, { b, bs, NULL, 2, TILE_BF16 },
        { c, cs, NULL, 2, TILE_F32 }, { mode, parts, NULL, 1, TILE_I32 } };
    tile_arg args[4];
    for (int k = 0; k < 4; k++) args[k] = tile_arg_tensor(&t[k]);
    _mm_setcsr(l->sse);
    l->status = tile_launch(l->kernel, args, 4, NULL);
    expect(_mm_getcsr() == l->sse, "the floating-point state changes");
    _mm_setcsr(0x1f80);
}

static void one(const Setting *s, int m, int n, int k, const int *modes)
{
    tile_context_desc d = { .struct_size = sizeof d,
        .target = "cpu",
        .flags = TILE_CONTEXT_NO_CACHE | (s->checked ? TILE_CONTEXT_CHECKED : 0),
        .threads = s->threads,
        .on_diagnostic = hear,
        .run_threads = s->callers_pool ? callers_threads : NULL };
    tile_context *context;
    tile_module *module;
    Launch l = { .m = m, .n = n, .k = k, .sse = s->sse ? s->sse : 0x1f80 };
    fill(m, n, k, modes);
    warnings = 0;
    if (tile_context_create(&d, &context) ||
        tile_module_load_memory(context, "p.tile", text, sizeof text - 1, NULL, &module) ||
        tile_kernel_create(module, "p", NULL, 0, &l.kernel)) {
        expect(false, "no kernel");
        return;
    }
    bool fails = false;
    for (int i = 0; i < (m + 63) / 64; i++) fails |= modes[i] == FAILS && s->checked;
    for (int twice = 0; twice < 2; twice++) {
        around(s->own_tiles, 9, launch, &l, 0);
        expect(l.status == (fails ? TILE_ERROR_CHECK : TILE_OK), "the status");
    }
    expect(fails || !memcmp(c, want, sizeof *c * (size_t)(m * n)), "the product");
    expect((warnings > 0) == refused, refused ? "nothing is said of a refused permission" : "a warning");
    tile_kernel_destroy(l.kernel);
    tile_module_destroy(module);
    tile_context_destroy(context);
}

/* --- where launches are called ----------------------------------------------------------------------- */

/* Every `step`th setting from `first` on. */
typedef struct Part {
    unsigned first, step;
} Part;

static void *run(void *p)
{
    const Part *part = p;
    static const int stored[MAX_PARTS], ends[MAX_PARTS] = { LATE, STORED, EARLY, IN_LOOP, STORED },
                                        fail[MAX_PARTS] = { STORED, EARLY, FAILS, LATE, FAILS };
    static const Setting settings[] = { { 1, false, false, false, 0 }, { 1, false, false, true, 0xffc0 },
        { 2, false, false, true, 0 }, { 4, false, false, false, 0x5f80 }, { 4, true, false, true, 0 },
        { 3, true, false, false, 0xbf80 }, { 2, false, true, true, 0 }, { 4, true, true, true, 0 } };
    for (unsigned k = part->first; k < sizeof settings / sizeof *settings; k += part->step) {
        one(&settings[k], 70, 50, 33, stored);
        one(&settings[k], MAX_M, MAX_N, MAX_K, ends);
        if (settings[k].checked) one(&settings[k], MAX_M, MAX_N, 65, fail);
    }
    return NULL;
}

static void on_small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    Part part = { 1, 6 };
    if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, 256 << 10) ||
        pthread_create(&thread, &attributes, run, &part) || pthread_join(thread, NULL))
        abort();
    pthread_attr_destroy(&attributes);
}

static void in_child(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(120);
        run(&(Part){ 3, 5 });
        fflush(stdout);
        _exit(failures != 0);
    }
    expect(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status),
        "launches in a child process");
}

int main(int argc, char **argv)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    refused = argc > 1 && !strcmp(argv[1], "refused");
    bool granted = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
    if (granted == refused) {
        printf("the operating system %s the state of tile registers\n", granted ? "grants" : "refuses");
        return 77;
    }
    run(&(Part){ 0, 1 });
    on_small_stack();
    in_child();
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
