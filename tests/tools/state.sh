#!/bin/bash
# state.sh: an object's launches give the same bits in every floating-point state of the caller and of the threads of its
# pool, and leave those states as they were. (The library: tests/api/test_float.c.)
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N], f32 s) grid (cdiv(N, 100))
{
    let i = program_id();
    let x = load(X[i*100 +: 100]);
    store(Y[i*100 +: 100], exp(x) / 3.0 + f32(f16(x * 0.1)) + x * 1e-39 * s + sum(x, axis = 0) * s);
}
T
cat >main.c <<'C'
#include "k.h"
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
static const unsigned states[] = { 0x1f80, 0x5f80, 0x3f80, 0x7f80, 0x9fc0, 0x1900, 0xffff };
static unsigned get(void) { return _mm_getcsr(); }
static void set(unsigned s) { _mm_setcsr(s); }
#else
static const unsigned states[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
static unsigned get(void) { return (unsigned)fegetround(); }
static void set(unsigned s) { fesetround((int)s); }
#endif
enum { N = 65536, STATES = sizeof states / sizeof *states };
static float x[N], y[N], want[N];
static int bad;

/* A pool whose threads have states of their own. */
typedef struct Job { void (*work)(void *, int); void *arg; int thread; unsigned state; } Job;
static void *thread(void *p)
{
    Job *j = p;
    set(j->state);
    j->work(j->arg, j->thread);
    if (get() != j->state) { bad = 1; set(0x1f80); printf("a thread's state changed\n"); }
    return NULL;
}

static void run(void *pool, int n, void (*work)(void *, int), void *arg)
{
    Job jobs[16];
    pthread_t ids[16];
    for (int i = 0; i < n; i++) {
        jobs[i] = (Job){ work, arg, i, states[(*(int *)pool + i) % STATES] };
        pthread_create(&ids[i], NULL, thread, &jobs[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(ids[i], NULL);
}

static void one(const char *what, int s, const tile_threads *threads)
{
    int64_t n = N, fewer = N - 1;
    tile_view a = { x, &n, NULL }, b = { y, &n, NULL }, wrong = { y, &fewer, NULL };
    unsigned before = get();
    memset(y, 0, sizeof y);
    set(states[s]);
    int status = k(a, b, 0.7f, threads), after = (int)get(), error = k(a, wrong, 0.7f, threads), last = (int)get();
    set(before);
    if (status || !error) { bad = 1; printf("%s: status %d, %d\n", what, status, error); }
    if (after != (int)states[s] || last != (int)states[s]) { bad = 1; printf("%s: the state %x became %x, %x\n", what, states[s], after, last); }
    if (!s && !threads) memcpy(want, y, sizeof y);
    if (memcmp(y, want, sizeof y)) { bad = 1; printf("%s: other results in state %x\n", what, states[s]); }
}

int main(void)
{
    for (int i = 0; i < N; i++) x[i] = sinf((float)i) * 3;
    for (int s = 0; s < STATES; s++) {
        one("one thread", s, NULL);
        one("threads", s, &(tile_threads){ .n = 3 });
        one("a pool", s, &(tile_threads){ .n = 4, .run = run, .pool = &s });
    }
    return bad;
}
C
expect 0 "" "$tilec" k.tile -o k.o -h k.h
expect 0 "" "$cc" -O1 -Wall -Werror main.c k.o -o main -lm -lpthread
expect 0 "" ./main
finish
