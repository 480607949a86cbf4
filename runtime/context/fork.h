/* fork.h: what a child process may still use of what its parent made. fork() copies memory and the calling
 * thread, but no other thread: locks that another thread held stay held for ever, a pool of threads has no
 * threads, and a GPU driver refuses to work. The library counts the forks of the process, so that each object
 * can tell that it was made or used before one. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The number of forks between the process that made the first call and this one. The first call installs
 * handlers. */
unsigned fork_count(void);

/* A mutex and a condition that are initialized again in a child process, where the thread that held the lock
 * does not exist. The guarded data is as the parent left it, which is consistent unless another thread of the
 * parent was changing it. */
typedef struct Lock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_uint forks;
} Lock;
void lock_init(Lock *);
void lock_destroy(Lock *);
void lock_enter(Lock *);
void lock_leave(Lock *);
/* Waits for `changed` with the lock held; lock_wake wakes all who wait. */
void lock_wait(Lock *);
void lock_wake(Lock *);
