/* fork.c: see fork.h. This is the library's only state that no object holds: a process forks as a whole. */
#define _GNU_SOURCE
#include "runtime/context/fork.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* One thread at a time may initialize a lock again. */
static pthread_mutex_t renewing = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint forks;

static void in_child(void)
{
    pthread_mutex_init(&renewing, NULL);
    atomic_fetch_add(&forks, 1);
}

static void install(void) { pthread_atfork(NULL, NULL, in_child); }

unsigned fork_count(void)
{
    pthread_once(&once, install);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

void lock_init(Lock *l)
{
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    atomic_store(&l->forks, fork_count());
}

void lock_destroy(Lock *l)
{
    /* The waiting threads belong to the parent; none of them is in this process. */
    if (atomic_load(&l->forks) != fork_count()) return;
    pthread_mutex_destroy(&l->mutex);
    pthread_cond_destroy(&l->changed);
}

static void renew(Lock *l)
{
    pthread_mutex_lock(&renewing);
    if (atomic_load(&l->forks) != fork_count()) lock_init(l);
    pthread_mutex_unlock(&renewing);
}

void lock_enter(Lock *l)
{
    if (atomic_load_explicit(&l->forks, memory_order_acquire) != fork_count()) renew(l);
    pthread_mutex_lock(&l->mutex);
}

void lock_leave(Lock *l) { pthread_mutex_unlock(&l->mutex); }
void lock_wait(Lock *l) { pthread_cond_wait(&l->changed, &l->mutex); }
void lock_wake(Lock *l) { pthread_cond_broadcast(&l->changed); }
