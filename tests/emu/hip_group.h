/* hip_group.h: the state of the emulated workgroup, which hip_machine.c (lanes, waves, the launch) and
 * hip_lds.c (accesses to LDS and memory) share. */
#pragma once
#include "tests/emu/hip_machine.h"
#ifndef __x86_64__
#include <ucontext.h>
#endif

enum {
    MAX_LANES = 1024,
    MAX_WAVES = 32,
    STACK = 256 << 10,
    LDS_MAX = 160 << 10,
    LOADS = 1024,
    MANY = 0xffff,
    CELLS = 1 << 18
};
typedef enum LaneState { RUNS, IN_WAVE, AT_BARRIER, ENDED } LaneState;

typedef struct Load {
    uint32_t at, bytes, issue;
    const void *from;
} Load;
typedef struct Lane {
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
    LaneState state;
    uint16_t id, wave;
    const char *what;
    uint64_t slot;
    void *d;
    const void *a, *b;
    uint32_t fence,
        fence_at_barrier; /* how often its LDS accesses were waited for, now and at the last barrier */
    uint32_t memory_fence, memory_fence_at_barrier;
    uint32_t n_loads, issues;
    Load loads[LOADS];
} Lane;

typedef struct Wave {
    int first, n, live, waiting, last;
    uint32_t sync, exchanges, outstanding;
    const char *what;
    void (*act)(struct Wave *);
    uint64_t table[2][64], active;
} Wave;

/* A granule of LDS, the smallest access of the kernel: who wrote and who read it, when. Epochs count barriers
 * and never come again; what is older than the workgroup is nothing. */
typedef struct Granule {
    uint32_t w_epoch, w_sync, w_fence, w_waves, r_epoch,
        r_sync;              /* w_waves: which waves wrote this value since the barrier */
    uint16_t writer, reader; /* reader MANY: more than one wave */
    bool flying, r_lanes;    /* a load will fill it; more than one lane of the reader's wave */
    bool atomic;             /* all writes of this epoch are atomics */
} Granule;

/* A word of memory that this workgroup wrote. */
typedef struct Cell {
    uintptr_t at;
    int64_t block;
    uint32_t epoch, sync, fence;
    uint16_t writer;
} Cell;

typedef struct HipGroup {
    HipRun run;
    Cell *cells;
    Lane *lanes;
    uint8_t *stacks, *lds;
    Granule *granules;
    Wave wave[MAX_WAVES];
    int n_waves, now, at_barrier, live;
    uint32_t epoch, first_epoch;
    int64_t block;
    bool failed;
    char error[400];
#ifdef __x86_64__
    void *main_sp;
#else
    ucontext_t main;
#endif
} HipGroup;

extern HipGroup hip_group;

/* The lanes of the running wave meet; the last one to come does `act` for all. */
void hip_meet(const char *what, void (*act)(Wave *));
