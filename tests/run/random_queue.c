/* random_queue.c: tile_random_queue: many random kernels on one device, each in a process of its own, so that one that ends in a signal, an illegal instruction or never is one line of the report.
 *
 *     tile_random_queue --device=one_sm_90a --kind=arrangement --first=1 --count=1000 --jobs=2 --limit=60 --seconds=500 --save=DIR
 *
 * --file=NAME: one kernel that --save wrote. --reduce: kernels that fail are made small first; with --jobs=1. --limit: seconds for one kernel; --seconds: for all, after which no kernel is begun; --save: kernels that fail are written there, as files that tile_random_test takes, their first line what happened.
 * Every fourth kernel runs without passes too.
 * Exit status 0, 1, 2 for wrong options, 77 where the device is not there. */
#include "random_check.h"
#include "random_reduce.h"
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 64, SKIPPED = 3, NO_DEVICE = 77 };

typedef void MakeKernel(uint64_t, RandomKernel *);
typedef struct Job { pid_t pid; uint64_t seed; time_t begun; bool late; } Job;
typedef struct Queue {
    const char *device, *save, *file;
    MakeKernel *make;
    uint64_t first, count;
    int jobs, limit, seconds;
    char folder[32];                    /* of what the children say */
    Job job[MOST_JOBS];
    uint64_t ran, failed, skipped;
    Oracle oracle;
    RandomKernel kernel;
    bool reduce;
    bool fresh;                         /* a driver's state and threads do not survive a fork: each child opens the device */
} Queue;

static void said_path(const Queue *q, uint64_t seed, char *out, size_t size) { snprintf(out, size, "%s/%llu", q->folder, (unsigned long long)seed); }

/* Kernel number `seed`, or the file. */
static const RandomKernel *made(const Queue *q, uint64_t seed, RandomKernel *k)
{
    uint64_t there;
    if (!q->file) q->make(seed, k);
    else if (!random_read(q->file, k, &there)) fprintf(stderr, "%s is no random kernel\n", q->file), exit(2);
    return k;
}

/* In the child: 0 right, 1 wrong, SKIPPED, NO_DEVICE. What it prints goes to a file. */
static int child(Queue *q, const RandomKernel *k, uint64_t seed)
{
    char path[80], why[2000];
    said_path(q, seed, path, sizeof path);
    if (!freopen(path, "w", stdout)) return 1;
    dup2(fileno(stdout), 2);
    int status = q->fresh ? oracle_open(&q->oracle, q->device) : 0;
    if (status) return status;
    bool ok = random_check(&q->oracle, k, seed, q->file || seed % 4 == 0, why, sizeof why);
    if (q->fresh) oracle_close(&q->oracle);
    if (*why) puts(why);
    fflush(stdout);
    return !ok ? 1 : strncmp(why, "SKIP:", 5) ? 0 : SKIPPED;
}

static void begin(Queue *q, Job *j, const RandomKernel *k, uint64_t seed)
{
    fflush(NULL);
    *j = (Job){.seed = seed, .begun = time(NULL), .pid = fork()};
    if (j->pid) return;
    setpgid(0, 0);
    _exit(child(q, k, seed));
}

static void read_said(const Queue *q, uint64_t seed, char *said, size_t size)
{
    char path[80];
    said_path(q, seed, path, sizeof path);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(said, 1, size - 1, f) : 0;
    said[n] = 0;
    if (f) fclose(f);
    unlink(path);
    for (size_t i = 0; i < n; i++) if (said[i] == '\n') said[i] = i + 1 < n ? ' ' : 0;
}

/* How a child ended, by its status; *what is empty where it ended well. */
static void describe(const Queue *q, const Job *j, int status, char *what, size_t size)
{
    *what = 0;
    if (j->late) snprintf(what, size, "not done after %d s. ", q->limit);
    else if (WIFSIGNALED(status)) snprintf(what, size, "signal %d. ", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 1) snprintf(what, size, "wrong. ");
    size_t n = strlen(what);
    if (n) read_said(q, j->seed, what + n, size - n);
}

/* --- made small --- */

typedef struct Alike { Queue *q; uint64_t seed; char kind[200]; } Alike;

/* A message without its numbers, names and paths. */
static void kind_of(const char *what, char *out, size_t size)
{
    size_t n = 0;
    const char *error = strstr(what, "error: ");
    for (const char *p = error ? error : what; *p && n + 1 < size && n < 60; p++)
        if (isalpha((unsigned char)*p) && !isdigit((unsigned char)p[1])) out[n++] = *p;
    out[n] = 0;
}

static bool fails_alike(const RandomKernel *k, void *user)
{
    Alike *a = user;
    Job j = {0};
    char what[1200], kind[200];
    int status;
    begin(a->q, &j, k, a->seed);
    while (waitpid(j.pid, &status, WNOHANG) == 0) {
        if (!j.late && time(NULL) - j.begun > a->q->limit) j.late = true, kill(-j.pid, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    describe(a->q, &j, status, what, sizeof what);
    char path[80];
    said_path(a->q, a->seed, path, sizeof path);
    unlink(path);
    kind_of(what, kind, sizeof kind);
    return *what && !strcmp(kind, a->kind);
}

/* A failure: its last words, and the kernel, made small if that is asked for, as a file. */
static void report(Queue *q, const Job *j, const char *what)
{
    static RandomKernel k;
    char path[400];
    printf("FAIL seed %llu: %s\n", (unsigned long long)j->seed, what);
    fflush(stdout);
    if (!q->save && !q->reduce) return;
    made(q, j->seed, &k);
    if (q->reduce) {
        Alike alike = {.q = q, .seed = j->seed};
        kind_of(what, alike.kind, sizeof alike.kind);
        random_reduce(&k, fails_alike, &alike);
    }
    if (q->save) snprintf(path, sizeof path, "%s/%s_%llu.tile", q->save, q->device, (unsigned long long)j->seed);
    FILE *f = q->save ? fopen(path, "w") : stdout;
    if (!f) return;
    fprintf(f, "// %s, seed %llu: %s\n", q->device, (unsigned long long)j->seed, what);
    random_show(f, &k, j->seed);
    if (q->save) fclose(f);
}

/* False: the device is not there. */
static bool end(Queue *q, Job *j, int status)
{
    char what[1200], path[80];
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DEVICE) return false;
    q->ran++;
    q->skipped += WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    describe(q, j, status, what, sizeof what);
    said_path(q, j->seed, path, sizeof path);
    unlink(path);
    j->pid = 0;
    if (*what) q->failed++, report(q, j, what);
    return true;
}

static int run(Queue *q)
{
    time_t from = time(NULL);
    uint64_t next = q->first;
    int busy = 0;
    q->fresh = !strcmp(q->device, "cpu") || !strncmp(q->device, "cuda", 4) || !strncmp(q->device, "hip", 3);
    int opened = q->fresh ? 0 : oracle_open(&q->oracle, q->device);
    if (opened) return opened;
    if (!mkdtemp(q->folder)) return perror(q->folder), 1;
    for (;;) {
        bool more = next < q->first + q->count && time(NULL) - from < q->seconds;
        for (int i = 0; i < q->jobs && more; i++)
            if (!q->job[i].pid && next < q->first + q->count) begin(q, &q->job[i], made(q, next, &q->kernel), next), next++, busy++;
        if (!busy) break;
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int i = 0; i < q->jobs; i++) {
            Job *j = &q->job[i];
            if (pid > 0 && j->pid == pid) { busy--; if (!end(q, j, status)) return NO_DEVICE; }
            else if (j->pid && !j->late && time(NULL) - j->begun > q->limit) j->late = true, kill(-j->pid, SIGKILL);
        }
        if (pid <= 0) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    rmdir(q->folder);
    if (!q->fresh) oracle_close(&q->oracle);
    printf("%llu kernels on %s from seed %llu, %llu failed, %llu larger than the device, %ld s\n", (unsigned long long)q->ran, q->device,
           (unsigned long long)q->first, (unsigned long long)q->failed, (unsigned long long)q->skipped, (long)(time(NULL) - from));
    return q->failed > 0;
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

int main(int argc, char **argv)
{
    static Queue q = {.device = "interp", .make = random_arrangement, .first = 1, .count = 100, .jobs = 1, .limit = 60, .seconds = 1 << 30, .folder = "/tmp/tile-queue-XXXXXX"};
    static const struct { const char *name; MakeKernel *make; } kinds[] = { { "arrangement", random_arrangement }, { "products", random_product }, { "kernel", random_kernel } };
    for (int i = 1; i < argc; i++) {
        const char *v;
        bool known = true;
        if ((v = value_of(argv[i], "--device"))) q.device = v;
        else if ((v = value_of(argv[i], "--save"))) q.save = v, mkdir(v, 0777);
        else if (!strcmp(argv[i], "--reduce")) q.reduce = true;
        else if ((v = value_of(argv[i], "--file"))) {
            q.file = v, q.count = 1;
            known = random_read(v, &q.kernel, &q.first);
        }
        else if ((v = value_of(argv[i], "--first"))) q.first = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--count"))) q.count = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--jobs"))) q.jobs = atoi(v);
        else if ((v = value_of(argv[i], "--limit"))) q.limit = atoi(v);
        else if ((v = value_of(argv[i], "--seconds"))) q.seconds = atoi(v);
        else if ((v = value_of(argv[i], "--kind"))) {
            known = false;
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) if (!strcmp(kinds[k].name, v)) q.make = kinds[k].make, known = true;
        } else known = false;
        if (!known || q.jobs < 1 || q.jobs > MOST_JOBS) return fprintf(stderr, "tile_random_queue: '%s' is no option\n", argv[i]), 2;
    }
    return run(&q);
}
