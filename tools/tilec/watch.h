/* watch.h: long runs. While one is watched, a line on the terminal says how far it is, and Ctrl-C ends the
 * process at once, after a message that says what was done. Both work whatever the run is waiting for:
 * threads of a launch, the interpreter, a compiler, a GPU. */
#pragma once
#include "tools/tilec/tool.h"
#include <pthread.h>
#include <stdatomic.h>

/* The finished part, the whole, and the steps of an interpreter; 0 if it is not known. Called from a thread
 * and from a signal handler, so it takes no locks. */
typedef struct WatchCount {
    int64_t done, total, steps;
} WatchCount;
typedef void WatchFn(void *user, WatchCount *);

typedef struct Watch {
    Tool *tool;
    int64_t begin;                     /* clock_ns */
    _Atomic(const char *) doing, unit; /* "running", "programs" */
    WatchFn *fn;
    void *user;
    bool shows, ends; /* whether a thread prints progress; whether it was asked to end */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    ToolCleanup cleanup;
} Watch;

/* One at a time in a process. The Watch must lie in the tool's arena; it ends with the run if watch_end is
 * not reached. */
void watch_begin(Watch *, Tool *, WatchFn *, void *user);
/* The current activity, for both messages: "compiling", or "running" with the unit "programs". */
void watch_doing(Watch *, const char *doing, const char *unit);
void watch_end(Watch *);
