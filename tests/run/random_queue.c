/* random_queue.c: tile_random_queue: many random kernels on one device, each in a process of its own, so that one that ends in a signal, an illegal instruction or never is one line of the report.
 *
 *     tile_random_queue --device=one_sm_90a --kind=arrangement --first=1 --count=1000 --jobs=2 --limit=60 --seconds=500 --save=DIR
 *
 * --limit: seconds for one kernel; --seconds: for all, after which no kernel is begun; --save: kernels that fail are written there, as files that tile_random_test takes, their first line what happened.
 * Exit status 0, 1, 2 for wrong options, 77 where the device is not there. */
#include "random_check.h"
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
    const char *device, *save;
    MakeKernel *make;
    uint64_t first, count;
    int jobs, limit, seconds;
    char folder[32];                    /* of what the children say */
    Job job[MOST_JOBS];
    uint64_t ran, failed, skipped;
    Oracle oracle;
    bool fresh;                         /* a driver's state and threads do not survive a fork: each child opens the device */
} Queue;

static void said_path(const Queue *q, uint64_t seed, char *out, size_t size) { snprintf(out, size, "%s/%llu", q->folder, (unsigned long long)seed); }

/* In the child: 0 right, 1 wrong, SKIPPED, NO_DEVICE. What it prints goes to a file. */
static int child(Queue *q, uint64_t seed)
{
    static RandomKernel k;
    char path[80], why[2000];
    said_path(q, seed, path, sizeof path);
    if (!freopen(path, "w", stdout)) return 1;
    dup2(fileno(stdout), 2);
    int status = q->fresh ? oracle_open(&q->oracle, q->device) : 0;
    if (status) return status;
    q->make(seed, &k);
    bool ok = random_check(&q->oracle, &k, seed, why, sizeof why);
    if (q->fresh) oracle_close(&q->oracle);
    if (*why) puts(why);
    fflush(stdout);
    return !ok ? 1 : strncmp(why, "SKIP:", 5) ? 0 : SKIPPED;
}

static void begin(Queue *q, Job *j, uint64_t seed)
{
    fflush(NULL);
    *j = (Job){.seed = seed, .begun = time(NULL), .pid = fork()};
    if (j->pid) return;
    setpgid(0, 0);
    _exit(child(q, seed));
}

/* A failure: its last words, and the kernel as a file. */
static void report(Queue *q, const Job *j, const char *what)
{
    static RandomKernel k;
    char path[400], said[1200] = "";
    said_path(q, j->seed, path, sizeof path);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
    if (f) fclose(f);
    for (size_t i = 0; i < n; i++) if (said[i] == '\n') said[i] = i + 1 < n ? ' ' : 0;
    printf("FAIL seed %llu: %s%s\n", (unsigned long long)j->seed, what, said);
    fflush(stdout);
    if (!q->save) return;
    snprintf(path, sizeof path, "%s/%s_%llu.tile", q->save, q->device, (unsigned long long)j->seed);
    if (!(f = fopen(path, "w"))) return;
    q->make(j->seed, &k);
    fprintf(f, "// %s, seed %llu: %s%s\n", q->device, (unsigned long long)j->seed, what, said);
    random_show(f, &k, j->seed);
    fclose(f);
}

/* False: the device is not there. */
static bool end(Queue *q, Job *j, int status)
{
    char path[80], what[80] = "";
    if (WIFSIGNALED(status)) snprintf(what, sizeof what, j->late ? "not done after %d s. " : "signal %d. ", j->late ? q->limit : WTERMSIG(status));
    else if (WEXITSTATUS(status) == NO_DEVICE) return false;
    q->ran++;
    q->skipped += WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    if (*what || WEXITSTATUS(status) == 1) q->failed++, report(q, j, what);
    said_path(q, j->seed, path, sizeof path);
    unlink(path);
    j->pid = 0;
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
            if (!q->job[i].pid && next < q->first + q->count) begin(q, &q->job[i], next++), busy++;
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
