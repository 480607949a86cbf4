/* ir_campaign.c: see ir_campaign.h. A process writes the seed that it works on to memory which it shares with
 * its parent, so that the parent knows it whatever becomes of the process. */
#include "ir_campaign.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_JOBS = 256, PROGRAMS_OF_A_PROCESS = 1000, WHY = sizeof((RandomOutcome *)NULL)->why };

typedef struct Job {
    _Atomic uint64_t at; /* the seed and 1; 0: between two programs */
    char why[WHY];
} Job;
typedef struct Shared {
    _Atomic uint64_t next, ran, too_large, foreign;
    Job job[MOST_JOBS];
} Shared;
typedef struct State {
    const IrCampaign *c;
    Shared *shared;
    pid_t pid[MOST_JOBS];
    time_t begun;
    uint64_t failed, slips;
} State;

bool ir_campaign_option(IrCampaign *c, const char *a)
{
    if (!strncmp(a, "--save=", 7)) return c->save = a + 7, true;
    return sscanf(a, "--first=%llu", &c->first) == 1 || sscanf(a, "--count=%llu", &c->count) == 1 ||
           sscanf(a, "--jobs=%d", &c->jobs) == 1 || sscanf(a, "--seconds=%d", &c->seconds) == 1 ||
           sscanf(a, "--limit=%d", &c->limit) == 1;
}

static bool over(const State *s) { return s->c->seconds && time(NULL) - s->begun >= s->c->seconds; }

static RandomCase case_of(uint64_t seed)
{
    const uint64_t r = random_ir_draw(seed, 0);
    return (RandomCase){ .seed = seed, .drawn = true, .passes = r % 4 != 0, .brief = r / 4 % 16 != 0 };
}

/* --- in a child --- */

/* Runs the program; false: it failed, with the reason. */
static bool check(State *s, uint64_t seed, Job *j)
{
    const RandomCase c = case_of(seed);
    alarm((unsigned)s->c->limit);
    RandomOutcome o = random_ir_try(s->c->way, &c, NULL);
    alarm(0);
    const bool foreign = !strncmp(o.why, "SKIP: TinyCC", 12), skipped = !strncmp(o.why, "SKIP:", 5);
    snprintf(j->why, sizeof j->why, "%s", o.why);
    if (foreign) s->shared->foreign++;
    else if (skipped) s->shared->too_large++;
    else if (!o.ran || !o.same) return false;
    else s->shared->ran++;
    return true;
}

static int work(State *s, Job *j)
{
    for (int n = 0; n < PROGRAMS_OF_A_PROCESS && !over(s); n++) {
        const uint64_t k = s->shared->next++;
        if (k >= s->c->count) return 0;
        strcpy(j->why, "");
        j->at = s->c->first + k + 1;
        if (!check(s, s->c->first + k, j)) return 1;
        j->at = 0;
    }
    return 0;
}

static int confirm(State *s, uint64_t seed)
{
    if (!s->c->way->thorough(s->c->way->user)) return 1;
    const RandomCase c = case_of(seed);
    alarm((unsigned)s->c->limit * 4);
    RandomOutcome o = random_ir_try(s->c->way, &c, NULL);
    return !o.ran || !o.same;
}

static int save(const State *s, uint64_t seed, const char *why)
{
    char path[400];
    const RandomCase c = case_of(seed);
    snprintf(path, sizeof path, "%s/%s_%llu.ir", s->c->save, s->c->device, (unsigned long long)seed);
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fprintf(f, "// seed %llu, on %s after %s passes: %s\n", (unsigned long long)seed, s->c->device,
        c.passes ? "all" : "no", why);
    random_ir_write(f, &c);
    return fclose(f);
}

/* --- in the parent --- */

static pid_t begin(State *s, int k)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) _exit(work(s, &s->shared->job[k]));
    return pid;
}

/* In a child of its own, whatever it may do; true: it returned 0. */
static bool safely(State *s, int (*what)(State *, uint64_t, const char *), uint64_t seed, const char *why)
{
    int status = 1;
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) _exit(what(s, seed, why));
    return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}
static int confirm_it(State *s, uint64_t seed, const char *why) { return confirm(s, seed); }
static int save_it(State *s, uint64_t seed, const char *why) { return save(s, seed, why); }

/* Process k ended at a program. */
static void failed(State *s, int k, int status)
{
    Job *j = &s->shared->job[k];
    const uint64_t seed = j->at - 1;
    char why[WHY + 80];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(why, sizeof why, "not done after %d s", s->c->limit);
    else if (WIFSIGNALED(status)) snprintf(why, sizeof why, "signal %d", WTERMSIG(status));
    else snprintf(why, sizeof why, "%s", *j->why ? j->why : "the process ended");
    j->at = 0;
    s->shared->ran++;
    if (s->c->way->thorough && safely(s, confirm_it, seed, why)) {
        printf("SLIP %s seed %llu fails only in the quick way: %s\n", s->c->device, (unsigned long long)seed,
            why);
        s->slips++;
        return;
    }
    s->failed++;
    printf("FAIL %s seed %llu: %s\n", s->c->device, (unsigned long long)seed, why);
    if (s->c->save) safely(s, save_it, seed, why);
}

static int job_of(const State *s, pid_t pid)
{
    for (int k = 0; k < s->c->jobs; k++)
        if (s->pid[k] == pid) return k;
    return -1;
}

static void run_all(State *s)
{
    int running = 0, status;
    for (int k = 0; k < s->c->jobs; k++) running += (s->pid[k] = begin(s, k)) > 0;
    while (running > 0) {
        const pid_t pid = wait(&status);
        const int k = job_of(s, pid);
        if (pid < 0) break;
        if (k < 0) continue;
        running--;
        if (s->shared->job[k].at) failed(s, k, status);
        s->pid[k] = over(s) || s->shared->next >= s->c->count ? 0 : begin(s, k);
        running += s->pid[k] > 0;
    }
}

int ir_campaign(const IrCampaign *c)
{
    State s = { .c = c, .begun = time(NULL) };
    if (c->jobs > MOST_JOBS) return fprintf(stderr, "at most %d jobs\n", MOST_JOBS), 2;
    s.shared = mmap(NULL, sizeof *s.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.shared == MAP_FAILED) return 2;
    run_all(&s);
    const uint64_t next = s.shared->next;
    printf("%llu programs on %s from seed %llu to %llu, %llu failed, %llu larger than the device, %llu "
           "failed only "
           "in the quick way, %llu not compiled by it, %d s\n",
        (unsigned long long)s.shared->ran, c->device, c->first,
        c->first + (next < c->count ? next : c->count) - 1, (unsigned long long)s.failed,
        (unsigned long long)s.shared->too_large, (unsigned long long)s.slips,
        (unsigned long long)s.shared->foreign, (int)(time(NULL) - s.begun));
    munmap(s.shared, sizeof *s.shared);
    return s.failed != 0;
}
