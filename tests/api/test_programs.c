/* test_programs.c: warps of a kernel that lists nothing to choose: chosen by the launch for which a variant
 * is compiled, once for all extents, kept in the disk cache under the variant's own key. On a fake driver. */
#define _GNU_SOURCE
#include "api.h"
#include <unistd.h>

static const char text[] =
    "kernel k(in f32 EMIT[B, T, S], in f32 TRANS[S, S], out f32 SCORE[B, S], out i32 BACK[B, T, S]) grid "
    "(B)\n"
    "{\n    let b = program_id();\n    let trans = load(TRANS[:, :]);\n"
    "    var score = load(EMIT[b, 0, :]);\n    store(BACK[b, 0, :], -1);\n    for t in 1 .. T {\n"
    "        let sums = score[:, None] + trans;\n"
    "        store(BACK[b, t, :], argmax(sums, axis = 0, drop = true));\n"
    "        score = max(sums, axis = 0, drop = true) + load(EMIT[b, t, :]);\n    }\n"
    "    store(SCORE[b, :], score);\n}\n";
static char folder[64];

typedef struct Opened {
    FakeState *fake;
    tile_context *c;
    tile_kernel *k;
    Counter counter;
} Opened;

static bool open_kernel(Opened *o, uint32_t flags, const tile_binding *b, size_t n)
{
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    *o = (Opened){ .fake = fake_open(FAKE_CUDA) };
    o->fake->multiprocessors = 132;
    cd.flags = flags;
    cd.cache_directory = folder;
    cd.allocator = (tile_allocator){ counter_realloc, &o->counter };
    if (tile_context_create(&cd, &o->c)) return false;
    OK(o->c, kernel_of(o->c, text, "k", b, n, &o->k));
    return true;
}

static void close_kernel(Opened *o)
{
    tile_kernel_destroy(o->k);
    tile_context_destroy(o->c);
    CU_ASSERT_EQUAL(atomic_load(&o->counter.live), 0);
}

/* The variant of a launch for so many sequences, which is launched, too. */
static tile_status try_launch(Opened *o, int64_t sequences, tile_variant_info *v)
{
    enum { T = 256, S = 64 };
    int64_t emit[3] = { sequences, T, S }, trans[2] = { S, S }, score[2] = { sequences, S };
    const int64_t *shape[4] = { emit, trans, score, emit };
    tile_tensor t[4]; /* nothing reads there */
    tile_arg args[4];
    *v = (tile_variant_info){ .struct_size = sizeof *v };
    for (int i = 0; i < 4; i++) {
        t[i] = (tile_tensor){ (void *)(1ull << (34 + i)), shape[i], NULL, -1, TILE_NONE };
        args[i] = tile_arg_tensor(&t[i]);
    }
    tile_status st = tile_kernel_variant(o->k, args, 4, v);
    return st ? st : tile_launch(o->k, args, 4, NULL);
}

static tile_variant_info launch(Opened *o, int64_t sequences)
{
    tile_variant_info v;
    OK(o->c, try_launch(o, sequences, &v));
    CU_ASSERT_EQUAL(v.programs, sequences);
    return v;
}

/* 0: there was no memory for the launch. */
static int threads_of(Opened *o)
{
    tile_variant_info v;
    tile_status st = try_launch(o, 128, &v);
    CU_ASSERT(!st || st == TILE_ERROR_OUT_OF_MEMORY);
    return st ? 0 : v.threads;
}

static int threads(uint32_t flags, const tile_binding *b, size_t n, const char *spills_in)
{
    Opened o;
    if (!open_kernel(&o, flags | TILE_CONTEXT_NO_CACHE, b, n)) {
        CU_FAIL("context");
        return 0;
    }
    o.fake->spills = *spills_in ? 1 << 17 : 0;
    snprintf(o.fake->spills_in, sizeof o.fake->spills_in, "%s", spills_in);
    int of = launch(&o, 128).threads;
    close_kernel(&o);
    return of;
}

/* What is given stays; where the same launch always has to take the same, or the source as it stands, nothing
 * is chosen. */
static void test_chosen(void)
{
    const tile_binding given = { "warps", TILE_BIND_INT, { .i = 8 } };
    const int declared = threads(TILE_CONTEXT_AS_DECLARED, NULL, 0, "");
    CU_ASSERT_EQUAL(declared, 256);
    CU_ASSERT_EQUAL(threads(0, NULL, 0, ""), 128);
    CU_ASSERT_EQUAL(threads(TILE_CONTEXT_PINNED, NULL, 0, ""), declared);
    CU_ASSERT_EQUAL(threads(0, &given, 1, ""), declared);
    CU_ASSERT_EQUAL(threads(0, NULL, 0, "threads: 128,"), declared); /* they would spill */
}

/* Launches of other extents take the same variant, and need no more memory than others. */
static void test_one_search(void)
{
    Opened o;
    if (!open_kernel(&o, TILE_CONTEXT_NO_CACHE, NULL, 0)) {
        CU_FAIL("context");
        return;
    }
    tile_variant_info first = launch(&o, 128);
    launch(&o, 64); /* a memo of the launch */
    CU_ASSERT_EQUAL(o.fake->compiles, 1);
    long calls = atomic_load(&o.counter.calls);
    tile_variant_info other = launch(&o, 4096);
    CU_ASSERT_EQUAL(other.threads, first.threads);
    CU_ASSERT_EQUAL(o.fake->compiles, 1);
    CU_ASSERT(atomic_load(&o.counter.calls) <= calls + 1); /* the memo */
    close_kernel(&o);
}

/* Another process finds the code, and does not choose. */
static void test_cached(void)
{
    for (int process = 0; process < 2; process++) {
        Opened o;
        if (!open_kernel(&o, 0, NULL, 0)) {
            CU_FAIL("context");
            return;
        }
        tile_variant_info v = launch(&o, process ? 4096 : 128);
        CU_ASSERT_EQUAL(v.threads, 128);
        CU_ASSERT_EQUAL(v.from_cache, process > 0);
        CU_ASSERT_EQUAL(o.fake->compiles, !process);
        close_kernel(&o);
    }
}

/* The allocator fails once, at each of its calls in turn. Whatever a launch makes of it, a process behind it
 * that shares the disk cache takes what is best: it finds no code that only a search cut short led to. */
static void test_cut_short(void)
{
    int stages[3] = { 0 }; /* launches that failed, that took the default, that chose nevertheless */
    for (long at = 1;; at++) {
        char command[120];
        snprintf(command, sizeof command, "rm -rf %s/*", folder);
        CU_ASSERT_EQUAL(system(command), 0);
        Opened o;
        if (!open_kernel(&o, 0, NULL, 0)) {
            CU_FAIL("context");
            return;
        }
        atomic_store(&o.counter.fail_at, atomic_load(&o.counter.calls) + at);
        const long last = atomic_load(&o.counter.fail_at);
        int first = threads_of(&o);
        const bool through = atomic_load(&o.counter.calls) < last;
        atomic_store(&o.counter.fail_at, 0);
        close_kernel(&o);
        if (!open_kernel(&o, 0, NULL, 0)) {
            CU_FAIL("context");
            return;
        }
        CU_ASSERT_EQUAL(threads_of(&o), 128);
        close_kernel(&o);
        stages[!first ? 0 : first == 128 ? 2 : 1]++;
        if (through) break;
    }
    for (int k = 0; k < 3; k++) CU_ASSERT(stages[k] > 0);
}

int main(int argc, char **argv)
{
    strcpy(folder, "/tmp/tile-programs-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    static const UnitTest tests[] = { { "chosen", test_chosen }, { "one_search", test_one_search },
        { "cached", test_cached }, { "cut_short", test_cut_short } };
    int r = unit_run("programs", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    char command[120];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? 1 : r;
}
