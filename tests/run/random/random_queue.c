/* random_queue.c: tile_random_queue: many random kernels on one device, in processes of their own, so that a
 * kernel that ends in a signal, an illegal instruction or never is one line of the report.
 *
 *     tile_random_queue --device=one_sm_90a --kind=arrangement --first=1 --count=1000 --jobs=2
 *                       --limit=60 --seconds=500 --save=DIR
 *
 * --jobs: processes at a time; --batch: kernels of one process, which ends with the first that fails;
 * --limit: seconds for one kernel; --seconds: for all, after which no kernel is begun;
 * --save: kernels that fail are written there, as files that tile_random_test takes, their first line what
 * happened; --list: which hints, cache modes and functions of the prelude the kernels used;
 * --file: one kernel that --save wrote; --reduce: kernels that fail are made small first, with --jobs=1.
 * --draws: runs of a kernel in an emulator, each in an order of its own (1).
 * --chain: three launches, of which each reads what the one before wrote (random_chain.h).
 * --again: further launches of a kernel, with other extents and strides (0).
 * --skip: runs with passes leave these out, `cse,licm`; `any`: each kernel's one that is drawn.
 * Every fourth kernel runs without passes too, with --both each.
 * Exit status 0, 1, 2 for wrong options, 77 where the device is not there. */
#include "passes/passes.h"
#include "coverage.h"
#include "random_chain.h"
#include "random_check.h"
#include "random_reduce.h"
#include "ref_random.h"
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 64, NO_DEVICE = 77 };

typedef void MakeKernel(uint64_t, RandomKernel *);
/* What a child tells its parent: which kernel it is at, how many it has done; and where the parent makes it
 * end. */
typedef struct Progress {
    volatile uint64_t at, to, ran, skipped, slips, foreign;
} Progress;
typedef struct Job {
    pid_t pid;
    int index;
    uint64_t from, to, seen;
    time_t begun;
    bool late, thorough;
} Job;
typedef struct Queue {
    const char *device, *save, *file, *list, *skip;
    MakeKernel *make;
    uint64_t first, count, batch, next;
    int jobs, limit, seconds, draws, again;
    char folder[32]; /* of what the children say */
    Job job[MOST_JOBS];
    Progress *progress; /* shared; the last one is for the kernel that is reduced */
    uint64_t ran, failed, skipped;
    uint64_t slips;   /* failed with the quick compiler and not with the thorough one (executor.h) */
    uint64_t foreign; /* not run, because the quick compiler cannot compile them and there is no other */
    Oracle oracle;
    RandomKernel kernel;
    Coverage coverage;
    bool reduce, both, chain;
    /* The state and threads of a driver do not survive a fork, so each child opens the device. */
    bool fresh;
} Queue;

static void path_of(const Queue *q, int index, const char *what, char *out, size_t size)
{ snprintf(out, size, "%s/%s%d", q->folder, what, index); }

/* Kernel number `seed`, or the file. */
static const RandomKernel *made(const Queue *q, uint64_t seed, RandomKernel *k)
{
    uint64_t there;
    if (!q->file) {
        q->make(seed, k);
        if (q->chain) random_chain(k, seed);
    } else if (!random_read(q->file, k, &there))
        fprintf(stderr, "%s is no random kernel\n", q->file), exit(2);
    return k;
}

/* --- in a child --- */

/* Where an emulator draws an order, each kernel has another. */
static void choose_order(const Queue *q, uint64_t seed, int draw)
{
    RefRandom r = { seed * 5 + (uint64_t)draw };
    if (q->oracle.executor->draw)
        q->oracle.executor->draw(
            q->oracle.state, (int)ref_random_below(&r, 1024), (int)ref_random_below(&r, 64));
}

/* What this kernel leaves out in its run with passes, or NULL; never `inline`: no backend has calls. */
static const char *left_out(const Queue *q, uint64_t seed)
{
    RefRandom r = { seed * 7 + 3 };
    if (!q->skip || strcmp(q->skip, "any")) return q->skip;
    for (;;) {
        const PassInfo *p = &pass_info[ref_random_below(&r, PASS_COUNT)];
        if (p->presence != REQUIRED && p->on && strcmp(p->name, "inline")) return p->name;
    }
}

/* A failure of an executor's quick way counts only if the kernel also fails in the thorough one
 * (executor.h). */
static bool check(
    Queue *q, const Job *j, const RandomKernel *k, uint64_t seed, bool both, char *why, size_t size)
{
    const Executor *e = q->oracle.executor;
    if (e->thorough) e->thorough(q->oracle.state, j->thorough);
    if (random_check(&q->oracle, k, seed, both, q->again, why, size)) return true;
    if (j->thorough || !e->thorough || !e->thorough(q->oracle.state, true)) return false;
    if (!random_check(&q->oracle, k, seed, both, q->again, why, size)) return false;
    q->progress[j->index].slips++;
    return true;
}

/* 0 right, 1 wrong, NO_DEVICE. What it prints goes to a file. k: runs in place of kernel number j->from. */
static int child(Queue *q, const Job *j, const RandomKernel *k)
{
    char path[80], used[80], why[2000];
    path_of(q, j->index, "said", path, sizeof path);
    path_of(q, j->index, "used", used, sizeof used);
    if (!freopen(path, "w", stdout)) return 1;
    dup2(fileno(stdout), 2);
    FILE *list = fopen(used, "w");
    int status = q->fresh ? oracle_open(&q->oracle, q->device) : 0;
    if (status) return status;
    Progress *p = &q->progress[j->index];
    for (uint64_t seed = j->from; seed < p->to; seed++) {
        p->at = seed;
        const RandomKernel *kernel = k ? k : made(q, seed, &q->kernel);
        bool ok = true;
        q->oracle.skip = left_out(q, seed);
        for (int draw = 0; ok && draw < q->draws; draw++) {
            choose_order(q, seed, draw);
            ok = check(q, j, kernel, seed, !draw && (q->both || seed % 4 == 0), why, sizeof why);
        }
        const char *(*text)(const void *) = q->oracle.executor->text;
        if (text && list && q->list) coverage_write(&q->coverage, list, kernel->text, text(q->oracle.state));
        if (!ok) {
            if (q->oracle.skip) printf("without %s: ", q->oracle.skip);
            puts(why);
            fflush(NULL);
            return 1;
        }
        bool foreign = !strncmp(why, "SKIP: TinyCC", 12);
        p->skipped += !foreign && !strncmp(why, "SKIP:", 5);
        p->foreign += foreign;
        p->ran += !foreign;
    }
    if (q->fresh) oracle_close(&q->oracle);
    fflush(NULL);
    return 0;
}

static void begin(Queue *q, Job *j, const RandomKernel *k)
{
    Progress *p = &q->progress[j->index];
    fflush(NULL);
    p->at = j->seen = j->from;
    p->to = j->to;
    p->ran = p->skipped = p->slips = p->foreign = 0;
    j->late = false;
    j->begun = time(NULL);
    j->pid = fork();
    if (j->pid) return;
    setpgid(0, 0);
    _exit(child(q, j, k));
}

/* A child's time is that of the kernel that it is at. */
static void watch(Queue *q, Job *j)
{
    uint64_t at = q->progress[j->index].at;
    if (at != j->seen) j->seen = at, j->begun = time(NULL);
    if (!j->late && time(NULL) - j->begun > q->limit) j->late = true, kill(-j->pid, SIGKILL);
}

/* --- a failure --- */

static void read_said(const Queue *q, const Job *j, char *said, size_t size)
{
    char path[80];
    path_of(q, j->index, "said", path, sizeof path);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(said, 1, size - 1, f) : 0;
    said[n] = 0;
    if (f) fclose(f);
    for (size_t i = 0; i < n; i++)
        if (said[i] == '\n') said[i] = i + 1 < n ? ' ' : 0;
}

/* How a child ended, by its status; *what is empty where it ended well. */
static void describe(const Queue *q, const Job *j, int status, char *what, size_t size)
{
    *what = 0;
    if (j->late) snprintf(what, size, "not done after %d s. ", q->limit);
    else if (WIFSIGNALED(status)) snprintf(what, size, "signal %d. ", WTERMSIG(status));
    else if (WEXITSTATUS(status)) snprintf(what, size, "wrong. ");
    size_t n = strlen(what);
    if (n) read_said(q, j, what + n, size - n);
}

typedef struct Alike {
    Queue *q;
    uint64_t seed;
    char kind[200];
} Alike;

/* A message without its numbers, names and paths. */
static void kind_of(const char *what, char *out, size_t size)
{
    size_t n = 0;
    const char *error = strstr(what, "error: ");
    for (const char *p = error ? error : what; *p && n + 1 < size && n < 60; p++)
        if (isalpha((unsigned char)*p) && !isdigit((unsigned char)p[1])) out[n++] = *p;
    out[n] = 0;
}

/* Runs one kernel and waits for its end. */
static void run_alone(Queue *q, uint64_t seed, const RandomKernel *k, bool thorough, char *what, size_t size)
{
    Job j = { .index = MOST_JOBS, .from = seed, .to = seed + 1, .thorough = thorough };
    int status;
    begin(q, &j, k);
    while (waitpid(j.pid, &status, WNOHANG) == 0) {
        watch(q, &j);
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    describe(q, &j, status, what, size);
}

static bool fails_alike(const RandomKernel *k, void *user)
{
    Alike *a = user;
    char what[1200], kind[200];
    run_alone(a->q, a->seed, k, false, what, sizeof what);
    kind_of(what, kind, sizeof kind);
    return *what && !strcmp(kind, a->kind);
}

/* Its last words, and the kernel, made small if that is asked for, as a file. */
static void report(Queue *q, uint64_t seed, const char *what)
{
    static RandomKernel k;
    char path[400];
    printf("FAIL seed %llu: %s\n", (unsigned long long)seed, what);
    fflush(stdout);
    if (!q->save && !q->reduce) return;
    made(q, seed, &k);
    if (q->reduce) {
        Alike alike = { .q = q, .seed = seed };
        kind_of(what, alike.kind, sizeof alike.kind);
        random_reduce(&k, fails_alike, &alike);
    }
    if (q->save) snprintf(path, sizeof path, "%s/%s_%llu.tile", q->save, q->device, (unsigned long long)seed);
    FILE *f = q->save ? fopen(path, "w") : stdout;
    if (!f) return;
    fprintf(f, "// %s, seed %llu: %s\n", q->device, (unsigned long long)seed, what);
    random_show(f, &k, seed);
    if (q->save) fclose(f);
}

/* --- in the parent --- */

/* What is left of a child's kernels is the job's next. False: the device is not there. */
static bool end(Queue *q, Job *j, int status)
{
    char what[1200], path[80];
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DEVICE) return false;
    const Progress *p = &q->progress[j->index];
    q->ran += p->ran;
    q->skipped += p->skipped;
    describe(q, j, status, what, sizeof what);
    path_of(q, j->index, "used", path, sizeof path);
    FILE *used = fopen(path, "r");
    if (used) coverage_read(&q->coverage, used), fclose(used);
    j->pid = 0;
    j->from = j->to;
    q->slips += p->slips;
    q->foreign += p->foreign;
    if (!*what) return true;
    q->ran++;
    j->from = p->at + 1;
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 1) && !q->fresh && q->oracle.executor->thorough)
        run_alone(q, p->at, NULL, true, what, sizeof what);
    q->slips += !*what;
    q->failed += *what != 0;
    if (*what) report(q, p->at, what);
    return true;
}

/* Gives an idle job the next kernels. False: there are none. */
static bool give(Queue *q, Job *j)
{
    if (j->from == j->to) {
        uint64_t left = q->first + q->count - q->next;
        if (!left) return false;
        j->from = q->next;
        q->next += left < q->batch ? left : q->batch;
        j->to = q->next;
    }
    begin(q, j, NULL);
    return true;
}

static int loop(Queue *q)
{
    time_t from = time(NULL);
    for (int busy = 0;;) {
        for (int i = 0; i < q->jobs && time(NULL) - from < q->seconds; i++)
            if (!q->job[i].pid) busy += give(q, &q->job[i]);
        if (!busy) break;
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int i = 0; i < q->jobs; i++) {
            Job *j = &q->job[i];
            if (pid > 0 && j->pid == pid) {
                busy--;
                if (!end(q, j, status)) return NO_DEVICE;
            } else if (j->pid) {
                watch(q, j);
                if (time(NULL) - from >= q->seconds) q->progress[i].to = j->to = q->progress[i].at + 1;
            }
        }
        if (pid <= 0) nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    if (q->foreign) printf("%llu that TinyCC cannot compile were not run\n", (unsigned long long)q->foreign);
    if (q->slips) printf("%llu failed only in the quick way\n", (unsigned long long)q->slips);
    printf("%llu kernels on %s from seed %llu, %llu failed, %llu larger than the device, %ld s\n",
        (unsigned long long)q->ran, q->device, (unsigned long long)q->first, (unsigned long long)q->failed,
        (unsigned long long)q->skipped, (long)(time(NULL) - from));
    return q->failed > 0;
}

static int run(Queue *q)
{
    char path[80];
    q->fresh = !strcmp(q->device, "cpu") || !strncmp(q->device, "cuda", 4) || !strncmp(q->device, "hip", 3);
    int status = q->fresh ? 0 : oracle_open(&q->oracle, q->device);
    if (status) return status;
    q->progress = mmap(NULL, (MOST_JOBS + 1) * sizeof *q->progress, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q->progress == MAP_FAILED || !mkdtemp(q->folder)) return perror(q->folder), 1;
    for (int i = 0; i < MOST_JOBS; i++) q->job[i].index = i;
    q->next = q->first;
    coverage_open(&q->coverage);
    status = loop(q);
    for (int i = 0; i <= MOST_JOBS; i++) {
        path_of(q, i, "said", path, sizeof path), unlink(path);
        path_of(q, i, "used", path, sizeof path), unlink(path);
    }
    rmdir(q->folder);
    FILE *list = q->list ? fopen(q->list, "w") : NULL;
    if (list) coverage_print(&q->coverage, list), fclose(list);
    coverage_close(&q->coverage);
    if (!q->fresh) oracle_close(&q->oracle);
    return status;
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool take_option(Queue *q, const char *arg)
{
    static const struct {
        const char *name;
        MakeKernel *make;
    } kinds[] = { { "arrangement", random_arrangement }, { "small", random_small_arrangement },
        { "products", random_product }, { "structure", random_structure }, { "mixture", random_mixture },
        { "shapes", random_shapes }, { "rows", random_rows }, { "program", random_program },
        { "rare", random_rare }, { "sums", random_sums }, { "floats", random_floats },
        { "scores", random_scores }, { "places", random_places }, { "patterns", random_patterns },
        { "counts", random_counts }, { "columns", random_columns }, { "kernel", random_kernel } };
    const char *v;
    if ((v = value_of(arg, "--device"))) q->device = v;
    else if ((v = value_of(arg, "--save"))) q->save = v, mkdir(v, 0777);
    else if ((v = value_of(arg, "--list"))) q->list = v;
    else if ((v = value_of(arg, "--first"))) q->first = strtoull(v, NULL, 0);
    else if ((v = value_of(arg, "--count"))) q->count = strtoull(v, NULL, 0);
    else if ((v = value_of(arg, "--batch"))) q->batch = strtoull(v, NULL, 0);
    else if ((v = value_of(arg, "--jobs"))) q->jobs = atoi(v);
    else if ((v = value_of(arg, "--draws"))) q->draws = atoi(v);
    else if ((v = value_of(arg, "--again"))) q->again = atoi(v);
    else if ((v = value_of(arg, "--skip"))) q->skip = v;
    else if ((v = value_of(arg, "--limit"))) q->limit = atoi(v);
    else if ((v = value_of(arg, "--seconds"))) q->seconds = atoi(v);
    else if ((v = value_of(arg, "--file")))
        return q->file = v, q->count = 1, random_read(v, &q->kernel, &q->first);
    else if (!strcmp(arg, "--reduce")) q->reduce = true;
    else if (!strcmp(arg, "--both")) q->both = true;
    else if (!strcmp(arg, "--chain")) q->chain = true;
    else if ((v = value_of(arg, "--kind"))) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!strcmp(kinds[k].name, v)) return q->make = kinds[k].make, true;
        return false;
    } else return false;
    return q->jobs > 0 && q->jobs <= MOST_JOBS && q->batch > 0;
}

int main(int argc, char **argv)
{
    static Queue q = { .device = "interp",
        .make = random_arrangement,
        .first = 1,
        .count = 100,
        .batch = 1,
        .draws = 1,
        .jobs = 1,
        .limit = 60,
        .seconds = 1 << 30,
        .folder = "/tmp/tile-queue-XXXXXX" };
    for (int i = 1; i < argc; i++)
        if (!take_option(&q, argv[i]))
            return fprintf(stderr, "tile_random_queue: '%s' is no option\n", argv[i]), 2;
    return run(&q);
}
