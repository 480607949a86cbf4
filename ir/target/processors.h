/* processors.h: how many processors this process may run on. Who includes it defines _GNU_SOURCE first, with
 * which glibc and musl declare sched_getaffinity. */
#pragma once
#include <sched.h>
#include <unistd.h>

/* At least 1. A container, taskset or a batch system may allow fewer than are online. */
static inline int processors_usable(void)
{
#ifdef CPU_COUNT
    cpu_set_t allowed;
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) return CPU_COUNT(&allowed);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
