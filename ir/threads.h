/* threads.h: how many threads a launch on the CPU is worth. The runtime and the launchers of ahead-of-time
 * objects decide it alike. */
#pragma once
#include <stdint.h>

/* The work, in the unit of ir/work.h, that is worth waking a thread that waits, and that is worth starting
 * one: what a thread of AVX2 computes in the time that this takes (bench/NOTES.md, "Threads of a launch"). */
enum { THREAD_WAKE_WORK = 200000, THREAD_START_WORK = 800000 };

/* At most `most` threads, no more than programs, and for each thread at least `share` of the work. `work`: of
 * one program; -1: not known, which may be much. */
static inline int64_t threads_worth(int64_t work, int64_t programs, int64_t most, int64_t share)
{
    int64_t n = most < programs ? most : programs;
    if (work >= 0 && (double)work * (double)programs < (double)share * (double)n)
        n = (int64_t)((double)work * (double)programs / (double)share);
    return n > 1 ? n : 1;
}
