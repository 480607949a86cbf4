/* threads.h: how many threads a launch on the CPU is worth, and how they divide its programs. The runtime and
 * the launchers of ahead-of-time objects decide it alike. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The work, in the unit of ir/analysis/work.h, that is worth waking a thread that waits, and that is worth
 * starting one: what a thread of AVX2 computes in the time that this takes (bench/notes/cpu.md, "Threads of a
 * launch"). */
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

/* Whether the calling thread is one of several of a parallel region of OpenMP, where the others have work of
 * their own: more threads would only take turns with them. `find`: dlsym, or NULL in a program that has none.
 */
static inline bool threads_in_region(void *(*find)(void *library, const char *name))
{
    int (*in_parallel)(void) = NULL;
    void *everywhere = NULL; /* RTLD_DEFAULT */
    if (find) *(void **)&in_parallel = find(everywhere, "omp_in_parallel");
    return in_parallel && in_parallel();
}

/* Takes the next programs, [*begin, *end) of `programs`, for one of the threads that count in *next what is
 * taken. False: there are none left. A thread takes an eighth of its part of what is left, so that threads of
 * uneven speed end together, or half of it where neighbours among the programs share lines of the output; one
 * that is alone takes all. */
static inline bool threads_take(
    int64_t *next, int64_t programs, int64_t threads, bool neighbours, int64_t *begin, int64_t *end)
{
    enum { PIECES = 8, OF_NEIGHBOURS = 2 };
    int64_t at = __atomic_load_n(next, __ATOMIC_RELAXED), n;
    do {
        if (at >= programs) return false;
        n = threads > 1 ? (programs - at) / (threads * (neighbours ? OF_NEIGHBOURS : PIECES)) : programs;
        if (n < 1) n = 1;
    } while (!__atomic_compare_exchange_n(next, &at, at + n, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *begin = at;
    *end = at + n;
    return true;
}
