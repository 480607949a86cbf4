/* test_oom.c: the command line with an allocator that fails at its 1st, 2nd, nth call, until a command needs
 * fewer calls than that. Each time the run ends with a message or with its usual result, nothing is leaked,
 * and no file is left half-written. Memory of LLVM and libclang is not ours to fail. */
#include "tests/unit/unit.h"
#include "tools/tilec/tool.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];
static int terminal = -1, nowhere = -1; /* standard output, and its replacement during a run */

typedef struct Counter {
    atomic_long live, calls;
    long fail_at;
} Counter;

static void *counted(void *user, void *p, size_t old, size_t n)
{
    Counter *c = user;
    if (n == 0) {
        if (p) atomic_fetch_sub(&c->live, (long)old);
        free(p);
        return NULL;
    }
    if (atomic_fetch_add(&c->calls, 1) + 1 == c->fail_at) return NULL;
    void *q = realloc(p, n);
    if (q) atomic_fetch_add(&c->live, (long)n - (long)(p ? old : 0));
    return q;
}

static int files(void)
{
    int n = 0;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* One run; its messages in *said, to be freed. */
static int run_once(char *const *argv, Counter *c, size_t chunk, char **said)
{
    size_t n_out, n_said;
    char *ignored = NULL;
    int argc = 0;
    while (argv[argc]) argc++;
    FILE *out = open_memstream(&ignored, &n_out), *err = open_memstream(said, &n_said);
    if (!out || !err) exit(1);
    fflush(stdout);
    dup2(nowhere, STDOUT_FILENO);
    int code = tool_main(argc, (char **)argv, (Allocator){ counted, c, chunk }, out, err);
    dup2(terminal, STDOUT_FILENO);
    fclose(out);
    fclose(err);
    free(ignored);
    return code;
}

/* The nth allocation of a run fails. False when the run made fewer. */
static bool one_failure(
    char *const *argv, const char *words, const char *tidy, size_t chunk, long n, int before)
{
    Counter c = { .fail_at = n };
    char *said = NULL;
    int code = run_once(argv, &c, chunk, &said);
    bool reached = c.calls >= n, as_should = code == EXIT_OK || (reached && strstr(said, "out of memory"));
    if (!as_should)
        fprintf(stderr, "tilec %s: allocation %ld (%zu): exit status %d: %s\n", words, n, chunk, code, said);
    if (c.live)
        fprintf(stderr, "tilec %s: allocation %ld (%zu): %ld bytes leaked\n", words, n, chunk, (long)c.live);
    CU_ASSERT_FATAL(as_should);
    CU_ASSERT_EQUAL_FATAL(c.live, 0);
    if (code != EXIT_OK && files() != before) {
        fprintf(stderr, "tilec %s: allocation %ld (%zu): files are left: ", words, n, chunk);
        if (system("ls >&2")) exit(1);
    }
    if (code != EXIT_OK) CU_ASSERT_EQUAL_FATAL(files(), before);
    free(said);
    if (code == EXIT_OK && *tidy && system(tidy)) exit(1);
    /* After success too, because some allocations may fail, such as the compiler's for the cache key. */
    return reached;
}

/* words: a command line; `tidy`: a shell command that takes its outputs away. Once with every allocation of
 * whole chunks, once with arenas that ask for each of their allocations: of those, every one among the first,
 * and about 80 spread over the rest. */
static void every_allocation(const char *words, const char *tidy)
{
    char text[400], *argv[40] = { (char *)"tilec" }, *said, *at = text;
    snprintf(text, sizeof text, "%s", words);
    for (int n = 1; (argv[n] = strtok_r(at, " ", &at)); n++) {}
    int before = files();
    long n = 1, fine = 1;
    while (one_failure(argv, words, tidy, 0, n, before)) n++;
    Counter all = { 0 };
    CU_ASSERT_EQUAL_FATAL(run_once(argv, &all, 1, &said), EXIT_OK);
    free(said);
    if (*tidy && system(tidy)) exit(1);
    while (one_failure(argv, words, tidy, 1, fine, before)) fine += fine < 25 ? 1 : 1 + all.calls / 80;
    fprintf(stderr, "(%ld, %ld) ", n - 1, (long)all.calls);
    CU_ASSERT(n > 1 && all.calls >= n);
}

static void test_help(void)
{
    every_allocation("help run", "");
    every_allocation("--version", "");
    every_allocation("run --help", "");
}
static void test_stages(void)
{
    every_allocation("fmt add.tile", "echo >>add.tile");
    every_allocation("add.tile --emit=ast", "");
    every_allocation("add.tile --emit=ir -D BLOCK=16,32", "");
    every_allocation("add.tile --emit=schedule --target=cuda:sm_90a -O0", "");
}
static void test_text(void)
{
    every_allocation("add.tile --target=cuda:sm_80 -o add.cu", "rm add.cu");
    every_allocation("add.tile --target=hip:gfx942 -o add.hip", "rm add.hip");
    every_allocation("add.tile -M", "");
}
static void test_object(void)
{ every_allocation("add.tile -o add.o -h add.h -O0 -MD", "rm add.o add.h add.d"); }
static void test_bundle(void)
{
    every_allocation(
        "add.tile --bundle --bundle-source=always --target=cuda:sm_80 -o b.c -h b.h", "rm b.c b.h b.json");
}
static void test_run(void)
{
    every_allocation("run add.tile --in X=random:f32[40]:1 --in Y=ones:f32[40] --out Z=z.npy -O0",
        "rm z.npy; rm -rf .cache");
    every_allocation("run add.tile --in X=random:f32[40]:1 --in Y=ones:f32[40] --no-cache -O0", "");
}
static void test_interpreter(void)
{
    every_allocation(
        "run add.tile --target=interp --in X=random:f32[40]:1 --in Y=ones:f32[40] --out Z=z.npy", "rm z.npy");
}
static void test_bench(void)
{ every_allocation("bench add.tile --in X=random:f32[40]:1 --in Y=ones:f32[40] --repeat=2 -O0", ""); }
static void test_tune(void)
{
    every_allocation(
        "tune add.tile --in X=random:f32[40]:1 --in Y=ones:f32[40] --repeat=1 --jobs=1", "rm add.tune");
}
static void test_sim(void)
{
    every_allocation(
        "sim add.tile --set N=4096 --device=h100 --threads=1 --sample=1024 --json=j.json", "rm j.json");
}
static void test_explain(void)
{ every_allocation("explain add.tile --target=cuda:sm_90a --plot=p.svg", "rm p.svg"); }

int main(int argc, char **argv)
{
    static const char text[] = "kernel add(in f32 X[N], in f32 Y[N], out f32 Z[N], const int BLOCK = 32)\n   "
                               " grid (cdiv(N, BLOCK))\n{\n"
                               "    let i = program_id();\n    store(Z[i*BLOCK +: BLOCK], load(X[i*BLOCK +: "
                               "BLOCK]) + load(Y[i*BLOCK +: BLOCK]));\n}\n"
                               "tune add { BLOCK in {16, 32}; key (N); }\n";
    terminal = dup(STDOUT_FILENO);
    nowhere = open("/dev/null", O_WRONLY);
    if (terminal < 0 || nowhere < 0) return 1;
    strcpy(folder, "/tmp/tilec-oom-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) || setenv("TILE_CACHE_DIR", ".cache", 1)) return 1;
    FILE *f = fopen("add.tile", "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) return 1;
    static const UnitTest tests[] = { { "help", test_help }, { "stages", test_stages }, { "text", test_text },
        { "object", test_object }, { "bundle", test_bundle }, { "run", test_run },
        { "interpreter", test_interpreter }, { "bench", test_bench }, { "tune", test_tune },
        { "sim", test_sim }, { "explain", test_explain } };
    int r = unit_run("oom", tests, sizeof tests / sizeof *tests, argc, argv);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") || system(command) || r;
}
