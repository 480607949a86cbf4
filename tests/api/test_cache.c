/* test_cache.c: the disk cache: hits, entries that are broken in every way, two processes at once, the size
 * limit, and that everything that decides code is in the key. */
#define _GNU_SOURCE
#include "api.h"
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static FakeState *fake;
static _Alignas(256) float buffer[3][4096];

/* What TILE_DEBUG=cache says of the run. */
static char said[4000];

static void on_diagnostic(void *user, const tile_diagnostic *d)
{
    size_t n = strlen(said);
    if (d->severity == TILE_SEVERITY_DEBUG) snprintf(said + n, sizeof said - n, "%s", d->rendered);
}

static tile_context *open_context(uint32_t flags, uint64_t limit)
{
    tile_context *c;
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.debug = "cache";
    d.on_diagnostic = on_diagnostic;
    said[0] = 0;
    d.flags = flags;
    d.cache_directory = dir;
    d.cache_limit = limit;
    if (tile_context_create(&d, &c)) {
        fprintf(stderr, "no context\n");
        exit(1);
    }
    return c;
}

static void run_add(tile_context *c, const char *text, int block, int *from_cache)
{
    tile_kernel *k;
    tile_binding b[] = { { "BLOCK", TILE_BIND_INT, { .i = block } } };
    OK(c, kernel_of(c, text, "vector_add", b, 1, &k));
    int64_t n = 4096;
    tile_tensor t[3] = { { buffer[0], &n, NULL, 1, TILE_F32 }, { buffer[1], &n, NULL, 1, TILE_F32 },
        { buffer[2], &n, NULL, 1, TILE_F32 } };
    tile_arg a[3] = { tile_arg_tensor(&t[0]), tile_arg_tensor(&t[1]), tile_arg_tensor(&t[2]) };
    int launches = fake->launches;
    OK(c, tile_launch(k, a, 3, NULL));
    CU_ASSERT_EQUAL(fake->launches, launches + 1);
    CU_ASSERT_EQUAL(fake->last.grid[0], (unsigned)(4096 / block));
    tile_variant_info v = { .struct_size = sizeof v };
    OK(c, tile_kernel_variant(k, a, 3, &v));
    *from_cache = v.from_cache;
    tile_kernel_destroy(k);
}

static int cached(uint32_t flags, const char *text, int block)
{
    int hit = -1;
    tile_context *c = open_context(flags, 0);
    run_add(c, text, block, &hit);
    tile_context_destroy(c);
    return hit;
}

static void clear(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    if (system(command)) exit(1);
}

static int entries(char *path, size_t room, off_t *total)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (total) *total = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!strstr(e->d_name, ".tilec")) continue;
        n++;
        char full[400];
        snprintf(full, sizeof full, "%s/%s", dir, e->d_name);
        if (path) snprintf(path, room, "%s", full);
        if (total && !stat(full, &st)) *total += st.st_size;
    }
    if (d) closedir(d);
    return n;
}

static void test_hit(void)
{
    fake = fake_open(FAKE_CUDA);
    clear();
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_EQUAL(fake->compiles, 1);
    CU_ASSERT_EQUAL(entries(NULL, 0, NULL), 1);
    CU_ASSERT_EQUAL(cached(TILE_CONTEXT_NO_CACHE, vector_add_text, 512), 0);
    CU_ASSERT_EQUAL(fake->compiles, 2);
}

/* Another text, binding, flag or device is another entry. */
static void test_key(void)
{
    fake = fake_open(FAKE_CUDA);
    clear();
    char other[sizeof vector_add_text + 20];
    snprintf(other, sizeof other, "%s// more\n", vector_add_text);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 1024), 0);
    CU_ASSERT_EQUAL(cached(0, other, 512), 0);
    CU_ASSERT_EQUAL(cached(TILE_CONTEXT_DEBUG_INFO, vector_add_text, 512), 0);
    fake->arch = 80;
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    fake->arch = 90;
    CU_ASSERT_EQUAL(entries(NULL, 0, NULL), 5);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
}

/* A hit does not load the vendor's compiler: a note tells its version, while its file is the same. A broken
 * note is written again. */
static void test_note(void)
{
    char command[200];
    fake = fake_open(FAKE_CUDA);
    clear();
    cached(0, vector_add_text, 512);
    CU_ASSERT_EQUAL(fake->versions, 1);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_EQUAL(fake->versions, 1);
    snprintf(command, sizeof command, "for f in %s/*.note; do echo nonsense > $f; done", dir);
    if (system(command)) exit(1);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_EQUAL(fake->versions, 2);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_EQUAL(fake->versions, 2);
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

static void spill(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (fwrite(p, 1, n, f) != n) exit(1);
    fclose(f);
}

/* Every byte flipped, every length, foreign bytes, a folder in its place: recompiled, and a good entry again.
 */
static void test_broken(void)
{
    char path[400];
    size_t n;
    fake = fake_open(FAKE_CUDA);
    clear();
    cached(0, vector_add_text, 512);
    CU_ASSERT_EQUAL_FATAL(entries(path, sizeof path, NULL), 1);
    char *good = slurp(path, &n), *bad = malloc(n);
    for (size_t i = 0; i < n; i += i < 200 ? 1 : 97) {
        memcpy(bad, good, n);
        bad[i] ^= 1 << i % 8;
        spill(path, bad, n);
        CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    }
    for (size_t i = 0; i < n; i += i < 64 ? 1 : 211) {
        spill(path, good, i);
        CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    }
    spill(path, "not an entry at all, but some text of another program", 53);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    /* Intact, but what it holds does not load. */
    strcpy(fake->fail_name, "cuModuleLoadData");
    fake->fail_after = 0;
    fake->fail_code = 200;
    tile_context *c = open_context(0, 0);
    tile_kernel *k;
    OK(c, kernel_of(c, vector_add_text, "vector_add",
              (tile_binding[]){ { "BLOCK", TILE_BIND_INT, { .i = 512 } } }, 1, &k));
    fake->fail_name[0] = 0;
    tile_kernel_destroy(k);
    tile_context_destroy(c);
    unlink(path);
    if (mkdir(path, 0700)) exit(1);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    rmdir(path);
    free(good);
    free(bad);
}

/* Runs the kernel whose entry was tampered with: it is compiled, the reason is said, and the entry is good
 * again. */
static void ignored(const char *why)
{
    alarm(240); /* what waits for a FIFO would wait for ever */
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    alarm(0);
    CHECK_TEXT(said, why);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_STRING_EQUAL(said, "");
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static void copy(const char *from, const char *to)
{
    size_t n;
    char *p = slurp(from, &n);
    spill(to, p, n);
    free(p);
}

/* An entry is taken only if this user wrote it for this key: not one copied over another's name, of another
 * owner or mode, a FIFO, or a link. */
static void test_trust(void)
{
    char path[400], other[400], kept[100];
    fake = fake_open(FAKE_CUDA);
    clear();
    cached(0, vector_add_text, 1024);
    CU_ASSERT_EQUAL_FATAL(entries(other, sizeof other, NULL), 1);
    snprintf(kept, sizeof kept, "%s-kept", dir);
    copy(other, kept);
    clear();
    cached(0, vector_add_text, 512);
    CU_ASSERT_EQUAL_FATAL(entries(path, sizeof path, NULL), 1);
    copy(kept, path); /* intact according to its checksum, but of another block size */
    ignored("it is the entry of another key");
    must(!chmod(path, 0620), "chmod");
    ignored("its mode 620 lets others write to it");
    must(!chmod(path, 0602), "chmod");
    ignored("its mode 602 lets others write to it");
    copy(path, kept);
    must(!unlink(path) && !symlink(kept, path), "symlink");
    ignored("it is a symbolic link");
    must(!unlink(path) && !mkfifo(path, 0600), "mkfifo");
    ignored("it is no regular file");
    unlink(kept);
    if (geteuid()) {
        fprintf(stderr, "(not root: no entry of another user) ");
        return;
    }
    must(!chown(path, 1234, 0), "chown");
    ignored("it belongs to user 1234, not to 0");
}

/* The same of the folder: nothing is read from it or written to it. */
static void test_trust_folder(void)
{
    fake = fake_open(FAKE_CUDA);
    clear();
    cached(0, vector_add_text, 512);
    static const struct {
        unsigned mode;
        unsigned owner;
        const char *why;
    } cases[] = { { 0770, 0, "its mode 770 lets others write to it" },
        { 0707, 0, "its mode 707 lets others write to it" }, { 0700, 1234, "it belongs to user 1234" } };
    for (int i = 0; i < (geteuid() ? 2 : 3); i++) {
        must(!chmod(dir, cases[i].mode) && (geteuid() || !chown(dir, cases[i].owner, 0)), "chmod");
        CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
        CHECK_TEXT(said, cases[i].why);
        CU_ASSERT_EQUAL(cached(0, vector_add_text, 1024), 0);
        CU_ASSERT_EQUAL(entries(NULL, 0, NULL), 1);
    }
    must(!chmod(dir, 0700) && (geteuid() || !chown(dir, 0, 0)), "chmod");
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    char keep[50], fifo[64];
    snprintf(keep, sizeof keep, "%.40s", dir);
    snprintf(fifo, sizeof fifo, "%s/fifo", keep);
    must(!mkfifo(fifo, 0600), "mkfifo");
    snprintf(dir, sizeof dir, "%s", fifo);
    alarm(240);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    alarm(0);
    CHECK_TEXT(said, "Not a directory");
    strcpy(dir, keep);
}

/* The note about the compiler is looked at in the same way. */
static void test_trust_note(void)
{
    char command[200];
    fake = fake_open(FAKE_CUDA);
    clear();
    cached(0, vector_add_text, 512);
    CU_ASSERT_EQUAL(fake->versions, 1);
    snprintf(command, sizeof command, "for f in %s/*.note; do rm $f && mkfifo $f || exit 1; done", dir);
    must(!system(command), command);
    alarm(240);
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    alarm(0);
    CU_ASSERT_EQUAL(fake->versions, 2);
    CHECK_TEXT(said, "it is no regular file");
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 1);
    CU_ASSERT_EQUAL(fake->versions, 2);
}

/* A cache that cannot be written is none. */
static void test_no_folder(void)
{
    fake = fake_open(FAKE_CUDA);
    char keep[64];
    strcpy(keep, dir);
    strcpy(dir, "/proc/no-such-folder/tile");
    CU_ASSERT_EQUAL(cached(0, vector_add_text, 512), 0);
    strcpy(dir, keep);
}

static void test_two_processes(void)
{
    fake = fake_open(FAKE_CUDA);
    clear();
    for (int round = 0; round < 8; round++) {
        pid_t children[3];
        char text[sizeof vector_add_text + 40];
        snprintf(text, sizeof text, "%s// round %d\n", vector_add_text, round);
        for (int i = 0; i < 3; i++)
            if (!(children[i] = fork())) {
                cached(0, text, 512);
                _exit(CU_get_number_of_failures() ? 1 : 0);
            }
        for (int i = 0; i < 3; i++) {
            int status;
            waitpid(children[i], &status, 0);
            CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        CU_ASSERT_EQUAL(cached(0, text, 512), 1);
    }
    CU_ASSERT_EQUAL(entries(NULL, 0, NULL), 8);
}

static void test_limit(void)
{
    fake = fake_open(FAKE_CUDA);
    clear();
    off_t one, total;
    cached(0, vector_add_text, 512);
    entries(NULL, 0, &one);
    for (int i = 0; i < 12; i++) {
        int hit;
        char text[sizeof vector_add_text + 40];
        snprintf(text, sizeof text, "%s// text %d\n", vector_add_text, i);
        tile_context *c = open_context(0, (uint64_t)one * 4);
        run_add(c, text, 512, &hit);
        run_add(c, vector_add_text, 512, &hit); /* used all the time: stays */
        CU_ASSERT_EQUAL(hit, 1);
        tile_context_destroy(c);
        entries(NULL, 0, &total);
        CU_ASSERT(total <= one * 4);
        usleep(2000);
    }
}

int main(int argc, char **argv)
{
    strcpy(dir, "/tmp/tile-cache-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    static const UnitTest tests[] = { { "hit", test_hit }, { "key", test_key }, { "note", test_note },
        { "broken", test_broken }, { "trust", test_trust }, { "trust_folder", test_trust_folder },
        { "trust_note", test_trust_note }, { "no_folder", test_no_folder },
        { "two_processes", test_two_processes }, { "limit", test_limit } };
    int r = unit_run("cache", tests, sizeof tests / sizeof *tests, argc, argv);
    clear();
    rmdir(dir);
    return r;
}
