/* watch.c: see watch.h. Ctrl-C is handled where it arrives: what runs may be code that never returns, so
 * nothing is asked to stop. The handler writes with write(2) and lets the signal end the process; outputs are
 * files only when a run has succeeded, so none is half-written. */
#define _GNU_SOURCE
#include "tools/tilec/watch.h"
#include "ir/support/session.h"
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_MS = 1000, EVERY_MS = 250 };

static Watch *_Atomic watched;
static struct sigaction before;

static WatchCount count(Watch *w)
{
    WatchCount c = { 0, 0, 0 };
    if (w->fn) w->fn(w->user, &c);
    return c;
}

/* --- the message of Ctrl-C: nothing but what a signal handler may call ------------------------------- */

typedef struct Line {
    char text[400];
    size_t n;
} Line;

static void put(Line *l, const char *s)
{
    for (; *s && l->n < sizeof l->text; s++) l->text[l->n++] = *s;
}

static void put_number(Line *l, int64_t v)
{
    char digits[24];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n && l->n < sizeof l->text) l->text[l->n++] = digits[--n];
}

static void put_count(Line *l, const Watch *w, const WatchCount *c)
{
    const char *unit = atomic_load(&w->unit);
    if (!*unit) return;
    put(l, ": ");
    put_number(l, c->done);
    if (c->total) {
        put(l, " of ");
        put_number(l, c->total);
    }
    put(l, " ");
    put(l, unit);
}

static void interrupted(int signal_number)
{
    int error = errno;
    Watch *w = atomic_exchange(&watched, NULL);
    if (w) {
        Line l = { .n = 0 };
        WatchCount c = count(w);
        int64_t tenths = (clock_ns() - w->begin) / 100000000;
        put(&l, w->shows ? "\r\033[K" : "");
        put(&l, "tilec: interrupted after ");
        put_number(&l, tenths / 10);
        put(&l, ".");
        put_number(&l, tenths % 10);
        put(&l, " s while ");
        put(&l, atomic_load(&w->doing));
        put_count(&l, w, &c);
        put(&l, *atomic_load(&w->unit) ? " were done" : "");
        if (c.steps) {
            put(&l, ", ");
            put_number(&l, c.steps);
            put(&l, " steps");
        }
        put(&l, "; no output was written\n");
        for (size_t at = 0; at < l.n;) {
            ssize_t n = write(STDERR_FILENO, l.text + at, l.n - at);
            if (n <= 0) break;
            at += (size_t)n;
        }
    }
    errno = error;
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* At once, because the handler does not block the signal. */
}

/* --- progress ---------------------------------------------------------------------------------------- */

static void show(Watch *w)
{
    WatchCount c = count(w);
    const char *unit = atomic_load(&w->unit);
    FILE *err = w->tool->err;
    long long seconds = (long long)((clock_ns() - w->begin) / 1000000000);
    format_file(err, "\r%s", atomic_load(&w->doing));
    if (*unit && c.total)
        format_file(err, ": %lld of %lld %s (%d%%)", (long long)c.done, (long long)c.total, unit,
            (int)((double)c.done / (double)c.total * 100));
    if (c.steps) format_file(err, ", %lld steps", (long long)c.steps);
    format_file(err, ", %lld s\033[K", seconds);
    fflush(err);
}

static void *progress(void *p)
{
    Watch *w = p;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    pthread_mutex_lock(&w->lock);
    for (int64_t ms = FIRST_MS; !w->ends; ms = EVERY_MS) {
        t.tv_nsec += ms * 1000000;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        while (!w->ends && pthread_cond_timedwait(&w->wake, &w->lock, &t) != ETIMEDOUT) {}
        if (!w->ends) show(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* The signal goes to other threads: this one may hold the lock of standard error. */
static bool start_thread(Watch *w)
{
    sigset_t all, old;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = !pthread_create(&w->thread, NULL, progress, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

/* --- begin and end ----------------------------------------------------------------------------------- */

static void end(void *p)
{
    Watch *w = p;
    Watch *mine = w;
    if (atomic_compare_exchange_strong(&watched, &mine, NULL)) sigaction(SIGINT, &before, NULL);
    if (!w->shows) return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    w->shows = false;
    format_file(w->tool->err, "\r\033[K");
    fflush(w->tool->err);
}

void watch_begin(Watch *w, Tool *t, WatchFn *fn, void *user)
{
    *w = (Watch){ .tool = t, .begin = clock_ns(), .fn = fn, .user = user };
    atomic_store(&w->doing, "starting");
    atomic_store(&w->unit, "");
    tool_at_end(t, &w->cleanup, end, w);
    struct sigaction handler = { .sa_handler = interrupted, .sa_flags = SA_NODEFER | SA_RESTART };
    sigemptyset(&handler.sa_mask);
    if (!sigaction(SIGINT, NULL, &before) &&
        before.sa_handler == SIG_DFL) { /* A signal that is ignored stays ignored. */
        atomic_store(&watched, w);
        sigaction(SIGINT, &handler, NULL);
    }
    w->shows = t->err == stderr && isatty(STDERR_FILENO) && start_thread(w);
}

void watch_doing(Watch *w, const char *doing, const char *unit)
{
    atomic_store(&w->unit, "");
    atomic_store(&w->doing, doing);
    atomic_store(&w->unit, unit);
}

void watch_end(Watch *w) { tool_end(w->tool, &w->cleanup); }
