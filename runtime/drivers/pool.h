/* pool.h: the threads that run the programs of a launch on the CPU beside the thread that launches.
 *
 *     Pool *p = pool_new(alloc);
 *     pool_run(p, 4, task, &job);       calls task(&job) in this thread, and at once in up to three others
 *
 * Threads start when a launch first wants them and then wait for the next launch: a moment awake, then
 * asleep. The launching thread never waits for a thread that has not begun: on a busy machine it does the
 * work itself. */
#pragma once
#include "ir/support/arena.h"

typedef struct Pool Pool;
typedef void PoolTask(void *arg);

/* NULL: out of memory. */
Pool *pool_new(Allocator);
/* Ends its threads, which must have nothing to do any more. NULL is ignored. */
void pool_free(Pool *);
/* Calls task(arg) in the calling thread, and at the same time in up to threads - 1 of the pool's, which may
 * be none: the task must take its parts of the work from a counter that all calls share. Returns when all
 * calls have returned. Any number of threads may call it at once; all launches of the process together then
 * run on no more threads than `threads`, apart from those that call it. The same holds in a child process
 * after a fork, where the pool starts threads of its own. */
void pool_run(Pool *, int threads, PoolTask *, void *arg);
