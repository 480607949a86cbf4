/* test_spilled.c: chosen configurations whose code keeps much in memory, by what the vendor's compiler says:
 * another one is compiled and taken, the cache remembers which, and what is given stays. On a fake driver. */
#define _GNU_SOURCE
#include "api.h"
#include "runtime/launch/making.h"
#include <unistd.h>

static const char text[] =
    "kernel k(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N], const int TM = auto, const int TN = auto)\n"
    "grid (cdiv(N, TN), cdiv(M, TM)) {\n    let (j, i) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, 64) {\n"
    "        acc = mma(load(A[i*TM +: TM, k*64 +: 64]), load(B[k*64 +: 64, j*TN +: TN]), acc);\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], f16(acc));\n}\n";
enum { N = 4096 };

typedef struct Made {
    char config[100]; /* "TM=4, TN=128" */
    int spilled, compiles, tm, tn;
    bool from_cache, said; /* said: a note names what is taken instead */
} Made;

static bool said;
static char folder[64], table[80];

static void note_other(void *user, const tile_diagnostic *d)
{ said |= strstr(d->message, "would go to memory") != NULL; }

/* Compiles the kernel for matrices of N by N, where programs with `spills_in` in their text spill. `table`:
 * also writes what was chosen. */
static Made make(const char *spills_in, uint32_t flags, const tile_binding *b, size_t n, bool writes)
{
    FakeState *fake = fake_open(FAKE_CUDA);
    fake->multiprocessors = 132;
    fake->spills = 4000;
    snprintf(fake->spills_in, sizeof fake->spills_in, "%s", spills_in);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    tile_context *c;
    tile_kernel *k;
    Made made = { 0 };
    cd.flags = flags;
    cd.cache_directory = folder;
    cd.on_diagnostic = note_other;
    said = false;
    if (tile_context_create(&cd, &c)) {
        CU_FAIL("context");
        return made;
    }
    OK(c, kernel_of(c, text, "k", b, n, &k));
    int64_t shape[2] = { N, N };
    tile_tensor t[3]; /* nothing reads there */
    for (int i = 0; i < 3; i++)
        t[i] = (tile_tensor){ (void *)(1ull << (34 + i)), shape, NULL, -1, TILE_NONE };
    tile_variant_info v = { .struct_size = sizeof v };
    tile_arg args[] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    OK(c, tile_kernel_variant(k, args, 3, &v));
    OK(c, tile_launch(k, args, 3, NULL));
    if (writes) OK(c, tile_kernel_write_choices(k, table, "a note"));
    snprintf(made.config, sizeof made.config, "%.*s", (int)strcspn(v.specialization, ";"), v.specialization);
    CU_ASSERT_EQUAL(sscanf(made.config, "TM=%d, TN=%d", &made.tm, &made.tn), 2);
    /* the grid is that of the code */
    CU_ASSERT_EQUAL(v.programs, ((N + made.tm - 1) / made.tm) * ((N + made.tn - 1) / made.tn));
    CU_ASSERT(fake->last.grid[0] > 0);
    made.spilled = v.spill_bytes;
    made.compiles = fake->compiles;
    made.from_cache = v.from_cache;
    made.said = said;
    tile_kernel_destroy(k);
    tile_context_destroy(c);
    return made;
}

static const char *in_text(const Made *m)
{
    static char of[120];
    snprintf(of, sizeof of, "k (%s)", m->config);
    return of;
}

static int new_folder(void)
{
    char command[120];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void test_other(void)
{
    const uint32_t none = TILE_CONTEXT_NO_CACHE;
    Made first = make("", none, NULL, 0, false), other = make(in_text(&first), none, NULL, 0, true);
    CU_ASSERT_EQUAL(first.compiles, 1);
    CU_ASSERT_FALSE(first.said);
    CU_ASSERT_STRING_NOT_EQUAL(other.config, first.config);
    CU_ASSERT_EQUAL(other.spilled, 12);
    CU_ASSERT(other.compiles == 2 || other.compiles == 3);
    CU_ASSERT(other.said);
    char written[4096] = "", tn[40];
    FILE *f = fopen(table, "re");
    if (f) written[fread(written, 1, sizeof written - 1, f)] = 0;
    if (f) fclose(f);
    snprintf(tn, sizeof tn, "\"TN\": %d", other.tn);
    CHECK_TEXT(written, tn); /* the table has what runs */
    snprintf(tn, sizeof tn, "\"TM\": %d", other.tm);
    CHECK_TEXT(written, tn);
    Made all = make("threads:", none, NULL, 0, false); /* no other one is better */
    CU_ASSERT_STRING_EQUAL(all.config, first.config);
    CU_ASSERT_EQUAL(all.spilled, 4000);
    CU_ASSERT_FALSE(all.said);
    Made pinned = make(in_text(&first), none | TILE_CONTEXT_PINNED, NULL, 0, false);
    CU_ASSERT_STRING_EQUAL(pinned.config, first.config);
    CU_ASSERT_EQUAL(pinned.compiles, 1);
}

/* More bytes than few count beside the time that they take: what is estimated a little slower is taken, and
 * what spills as much is not. */
static void test_little_slower(void)
{
    CU_ASSERT(compile_with_spills(100, 0.001, 200) > compile_with_spills(105, 0.001, 64));
    CU_ASSERT(compile_with_spills(100, 0.001, 200) < compile_with_spills(105, 0.001, 200));
    CU_ASSERT(compile_with_spills(100, 0.001, 200) < compile_with_spills(130, 0.001, 0));
}

/* What is given stays, beside a cache that has the other one, and the chosen one of it does not stand for
 * what was compared. */
static void test_kept(void)
{
    CU_ASSERT_EQUAL(new_folder(), 0);
    Made first = make("", TILE_CONTEXT_NO_CACHE, NULL, 0, false);
    const char *spills = in_text(&first);
    tile_binding given[] = { { "TM", TILE_BIND_INT, { .i = first.tm } },
        { "TN", TILE_BIND_INT, { .i = first.tn } } };
    Made bound = make(spills, 0, given, 2, false);
    CU_ASSERT_STRING_EQUAL(bound.config, first.config);
    CU_ASSERT_EQUAL(bound.compiles, 1);
    Made other = make(spills, 0, NULL, 0, false);
    CU_ASSERT_STRING_NOT_EQUAL(other.config, first.config);
    CU_ASSERT(other.compiles >= 2); /* the entry of the chosen one is compared with others */
    Made again = make(spills, 0, NULL, 0, false);
    CU_ASSERT_STRING_EQUAL(again.config, other.config);
    CU_ASSERT(again.from_cache);
    CU_ASSERT_EQUAL(again.compiles, 0);
    bound = make(spills, 0, given, 2, false);
    CU_ASSERT_STRING_EQUAL(bound.config, first.config);
    CU_ASSERT_EQUAL(bound.spilled, 4000);
    CU_ASSERT(bound.from_cache);
    CU_ASSERT_EQUAL(new_folder(), 0);
    Made all = make("threads:", 0, NULL, 0, false);
    CU_ASSERT_STRING_EQUAL(all.config, first.config);
    all = make("threads:", 0, NULL, 0, false); /* compared once */
    CU_ASSERT_EQUAL(all.compiles, 0);
}

/* Fewer CTAs are asked for only where a thread then has more registers. */
static void test_fewer_ctas(void)
{
    enum { FEW = 64, SOME = 100, MANY = 4000 };
    const Target *t = target_find("cuda:sm_90a");
    CU_ASSERT_EQUAL(compile_next_ctas(t, 64, FEW, 16), 0);
    CU_ASSERT_EQUAL(compile_next_ctas(t, 64, SOME, 16), 14); /* 15 leave 64 registers as 16 do */
    CU_ASSERT_EQUAL(compile_next_ctas(t, 64, MANY, 16), 8);
    CU_ASSERT_EQUAL(compile_next_ctas(t, 128, MANY, 3), 2);
    CU_ASSERT_EQUAL(compile_next_ctas(t, 128, MANY, 2), 0); /* a thread has all that it can have */
    CU_ASSERT_EQUAL(compile_next_ctas(t, 512, MANY, 2), 1);
    CU_ASSERT_EQUAL(compile_next_ctas(t, 512, SOME, 2), 0);
    CU_ASSERT_EQUAL(compile_next_ctas(t, 1024, MANY, 1), 0);
}

int main(int argc, char **argv)
{
    strcpy(folder, "/tmp/tile-spilled-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(table, sizeof table, "%s.json", folder);
    static const UnitTest tests[] = { { "other", test_other }, { "kept", test_kept },
        { "little_slower", test_little_slower }, { "fewer_ctas", test_fewer_ctas } };
    int r = unit_run("spilled", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    unlink(table);
    return new_folder() ? 1 : r;
}
