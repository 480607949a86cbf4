/* test_machine.h: what the tests of the emulated CUDA machine share. Threads are C functions, and each is run
 * under several orders of warps and moments of completion. */
#pragma once
#include "tests/emu/emu.h"
#include "unit.h"
#include <string.h>

enum { DRAWS = 16, S = EMU_BASE };

extern char why[1200]; /* what the last launch reported */
extern bool look;      /* for tests of results only: a report may come later than a wrong result */

bool run(int threads, int blocks, void (*thread)(const uint64_t *), const void *user, int k);

/* The thread's results are right in every draw. */
void works(int threads, void (*thread)(const uint64_t *), const void *user);

/* Reported in every order and at every moment, with this text. */
void fails(int threads, void (*thread)(const uint64_t *), const void *user, const char *want);

void expect(bool x, const char *what);

static inline int tid(void) { return (int)threadIdx.x; }
static inline uint32_t lds(uint32_t a)
{
    uint32_t x;
    emu_load(a, &x, 4);
    return x;
}
static inline void sts(uint32_t a, uint32_t x) { emu_store(a, &x, 4); }

enum { BARRIER = 1, WARP_BARRIER = 2 };
extern int between; /* which barrier is between two accesses: one of those, or 0 */
void meet(void);    /* at it */

/* machine_async.c */
void test_copies(void);
void test_lanes(void);
void test_tma(void);
void test_pixels(void);
void test_clusters(void);
/* machine_global.c */
void test_global(void);
/* machine_products.c */
void test_wgmma(void);
void test_warp_product(void);
