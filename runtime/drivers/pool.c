/* pool.c: see pool.h. A launch puts a job with a number of free places into a list and wakes as many threads.
 * A thread takes a place, runs the task, and counts itself out. When the launching thread has ended its own
 * call, it takes the job out of the list, so that nobody comes any more, and waits for those who came.
 *
 * To wake a thread takes the system about as long as WAIT_AWAKE_NS. So whoever waits, a thread for a job or a
 * launch for its threads, first waits awake for that long, and then falls asleep: it never loses more than
 * twice the time that the better of the two would have cost. */
#include "runtime/drivers/pool.h"
#include "ir/support/float_state.h"
#include "ir/support/session.h"
#include "runtime/context/fork.h"
#include <signal.h>

enum { WAIT_AWAKE_NS = 50000, LOOKS = 16 /* between two readings of the clock */ };

typedef struct Job {
    PoolTask *task;
    void *arg;
    int most;            /* threads of the process that may run tasks when one of the pool's begins */
    int places;          /* calls that may yet begin */
    atomic_uint running; /* calls of the pool's threads that have not returned; changes under the lock */
    pthread_cond_t idle; /* running became 0 */
    struct Job *next;
} Job;

struct Pool {
    Allocator alloc;
    Lock lock; /* guards all that follows */
    Job *jobs;
    atomic_uint added; /* jobs so far; changes under the lock */
    pthread_t *threads;
    int started, room;
    unsigned forks; /* the process to which threads and jobs belong */
    bool ends;
};

/* The low half: threads of the process that run tasks now, in whatever pool. The high half: fork_count() of
 * the process of which that is true. */
static _Atomic uint64_t busy;

/* Counts the calling thread; how many there were. */
static int enter_busy(void)
{
    uint64_t process = (uint64_t)fork_count() << 32, was = atomic_load(&busy), now;
    do now = was >> 32 == process >> 32 ? was : process;
    while (!atomic_compare_exchange_weak(&busy, &was, now + 1));
    return (int)(uint32_t)now;
}

static void leave_busy(void) { atomic_fetch_sub(&busy, 1); }

Pool *pool_new(Allocator alloc)
{
    Pool *p = alloc.realloc(alloc.user, NULL, 0, sizeof *p);
    if (!p) return NULL;
    *p = (Pool){ .alloc = alloc, .forks = fork_count() };
    lock_init(&p->lock);
    return p;
}

/* Threads and jobs of the parent do not exist in a child process. */
static void enter(Pool *p)
{
    lock_enter(&p->lock);
    if (p->forks == fork_count()) return;
    p->forks = fork_count();
    p->jobs = NULL;
    p->started = 0;
}

static Job *open_job(const Pool *p)
{
    Job *j = p->jobs;
    while (j && !j->places) j = j->next;
    return j;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits awake, without the lock, until *word is not `was`; false after WAIT_AWAKE_NS. */
static bool wait_awake(const atomic_uint *word, unsigned was)
{
    int64_t end = clock_ns() + WAIT_AWAKE_NS;
    do
        for (int look = 0; look < LOOKS; look++) {
            if (atomic_load_explicit(word, memory_order_acquire) != was) return true;
            pause_briefly();
        }
    while (clock_ns() < end);
    return false;
}

/* A thread of the pool. Any floating-point state may be the default of new threads. */
static void *serve(void *pool)
{
    Pool *p = pool;
    FLOAT_STATE_DEFAULT();
    bool tired = true; /* has waited awake since its last task */
    lock_enter(&p->lock);
    while (!p->ends) {
        Job *j = open_job(p);
        if (!j && tired) lock_wait(&p->lock);
        if (!j && !tired) {
            unsigned added = p->added;
            lock_leave(&p->lock);
            tired = !wait_awake(&p->added, added);
            lock_enter(&p->lock);
        }
        if (!j) continue;
        j->places--;
        if (enter_busy() >= j->most) { /* Another launch began meanwhile. */
            leave_busy();
            continue;
        }
        j->running++;
        lock_leave(&p->lock);
        j->task(j->arg);
        leave_busy();
        tired = false;
        lock_enter(&p->lock);
        if (!--j->running) pthread_cond_signal(&j->idle);
    }
    lock_leave(&p->lock);
    return NULL;
}

/* Signals of the program are for its own threads. Those that an instruction raises stay: while they are
 * blocked, the system ends the process without calling the program's handler. */
static void block_signals(sigset_t *before)
{
    static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    sigset_t set;
    sigfillset(&set);
    for (size_t k = 0; k < sizeof raised / sizeof *raised; k++) sigdelset(&set, raised[k]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

/* Starts threads until there are n; fewer where the system gives no more. */
static void start_threads(Pool *p, int n)
{
    sigset_t before;
    if (n <= p->started) return;
    if (n > p->room) {
        pthread_t *more = p->alloc.realloc(
            p->alloc.user, p->threads, (size_t)p->room * sizeof *more, (size_t)n * sizeof *more);
        if (!more) return;
        p->threads = more;
        p->room = n;
    }
    block_signals(&before);
    while (p->started < n && !pthread_create(&p->threads[p->started], NULL, serve, p)) p->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void add_job(Pool *p, Job *j)
{
    enter(p);
    start_threads(p, j->places);
    j->next = p->jobs;
    p->jobs = j;
    p->added++;
    for (int i = 0; i < j->places; i++) pthread_cond_signal(&p->lock.changed);
    lock_leave(&p->lock);
}

static void end_job(Pool *p, Job *j)
{
    enter(p);
    for (Job **at = &p->jobs; *at; at = &(*at)->next)
        if (*at == j) {
            *at = j->next;
            break;
        }
    for (unsigned left; (left = j->running);) {
        lock_leave(&p->lock);
        bool fewer = wait_awake(&j->running, left);
        lock_enter(&p->lock);
        while (!fewer && j->running) pthread_cond_wait(&j->idle, &p->lock.mutex);
    }
    lock_leave(&p->lock);
}

void pool_run(Pool *p, int threads, PoolTask *task, void *arg)
{
    int places = threads - 1 - enter_busy();
    Job j = { .task = task, .arg = arg, .most = threads, .places = places, .idle = PTHREAD_COND_INITIALIZER };
    if (places > 0) add_job(p, &j);
    task(arg);
    if (places > 0) end_job(p, &j);
    leave_busy();
}

void pool_free(Pool *p)
{
    if (!p) return;
    enter(p);
    p->ends = true;
    lock_wake(&p->lock);
    lock_leave(&p->lock);
    while (p->started > 0) pthread_join(p->threads[--p->started], NULL);
    lock_destroy(&p->lock);
    p->alloc.realloc(p->alloc.user, p->threads, (size_t)p->room * sizeof *p->threads, 0);
    p->alloc.realloc(p->alloc.user, p, sizeof *p, 0);
}
