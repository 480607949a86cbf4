/* test_machine: the emulated CUDA machine itself: what it computes, and that it reports what it is there to
 * report. Threads are C functions. */
#include "tests/emu/emu.h"
#include "unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 16, S = EMU_BASE };

static char why[1200];
static bool look; /* at results: not where a report is wanted, which may come later than a wrong result */

static bool run(int threads, int blocks, void (*thread)(const uint64_t *), const void *user, int k)
{
    uint64_t args[1] = { (uint64_t)(uintptr_t)user };
    EmuLaunch l = { thread, args, blocks, threads, 32, 64 * 1024, false, 0, k | k << 5, (k >> 2) | k << 2 };
    return emu_run(&l, why, sizeof why);
}

static void works(int threads, void (*thread)(const uint64_t *), const void *user)
{
    look = true;
    for (int k = 0; k < DRAWS; k++) {
        bool ok = run(threads, 2, thread, user, k);
        if (!ok) printf(" [draw %d: %s] ", k, why);
        CU_ASSERT(ok);
        if (!ok) return;
    }
}

/* Reported in every order and at every moment, with this text. */
static void fails(int threads, void (*thread)(const uint64_t *), const void *user, const char *want)
{
    look = !strncmp(want, "wrong", 5);
    for (int k = 0; k < DRAWS; k++) {
        bool ok = run(threads, 1, thread, user, k);
        if (ok || !strstr(why, want)) {
            printf(" [draw %d: %s lacks \"%s\"] ", k, ok ? "nothing" : why, want);
            CU_FAIL("not reported");
            return;
        }
    }
}

static void expect(bool x, const char *what)
{
    if (!x && look) emu_fail("wrong: %s", what);
}
static int tid(void) { return (int)threadIdx.x; }
static uint32_t lds(uint32_t a)
{
    uint32_t x;
    emu_load(a, &x, 4);
    return x;
}
static void sts(uint32_t a, uint32_t x) { emu_store(a, &x, 4); }

/* --- lanes, barriers --------------------------------------------------------------------------------- */

static void lanes(const uint64_t *args)
{
    int x = tid() * 3;
    const EmuWord *w = emu_exchange("shfl", &x, 4);
    expect((int)w[emu_lane() ^ 5].w[0] == (tid() ^ 5) * 3, "shfl");
}
static void two_collectives(const uint64_t *args)
{
    int x = 0;
    emu_exchange(emu_lane() == 7 ? "shfl" : "vote", &x, 4);
}
static void half_a_warp(const uint64_t *args)
{
    int x = 0;
    if (emu_lane() < 16) emu_exchange("shfl", &x, 4);
}
static void warp_missing(const uint64_t *args)
{
    if (tid() < 32 || tid() >= 64) emu_syncthreads();
}
static void two_counts(const uint64_t *args) { emu_barrier(3, tid() < 32 ? 64 : 96, true); }
static void pair(const uint64_t *args)
{
    if (tid() < 32) {
        sts(S, 9);
        emu_barrier(3, 64, false);
    } else {
        emu_barrier(3, 64, true);
        expect(lds(S) == 9, "the value of before the arrival");
    }
}

static void test_barriers(void)
{
    works(128, lanes, NULL);
    fails(32, two_collectives, NULL, "meet at");
    fails(32, half_a_warp, NULL, "deadlock; block 0 warp 0 lane 0 waits at @0 shfl");
    fails(128, warp_missing, NULL, "deadlock");
    fails(64, two_counts, NULL, "barrier 3 for");
    works(64, pair, NULL);
}

/* --- races ------------------------------------------------------------------------------------------- */

enum { BARRIER = 1, WARP_BARRIER = 2 };
static int between;

static void meet(void)
{
    if (between & BARRIER) emu_syncthreads();
    if (between & WARP_BARRIER) emu_warp_sync();
}
static void write_read(const uint64_t *args)
{
    sts(S + 4 * (uint32_t)tid(), (uint32_t)tid());
    meet();
    expect(lds(S + 4 * (uint32_t)(tid() ^ 33)) == (uint32_t)(tid() ^ 33), "the other's value");
}
static void write_read_in_warp(const uint64_t *args)
{
    sts(S + 4 * (uint32_t)tid(), (uint32_t)tid());
    meet();
    expect(lds(S + 4 * (uint32_t)(tid() ^ 1)) == (uint32_t)(tid() ^ 1), "the other's value");
}
static void read_write(const uint64_t *args)
{
    if (tid() < 32) lds(S + 4 * (uint32_t)tid());
    meet();
    if (tid() >= 32) sts(S + 4 * (uint32_t)(tid() - 32), 5);
}
static void write_write(const uint64_t *args)
{
    meet();
    if (emu_lane() == 0) sts(S, (uint32_t)tid());
    meet();
}
/* Each warp writes the value that the other writes too. */
static void same_value(const uint64_t *args)
{
    sts(S + 4 * (uint32_t)emu_lane(), 7);
    meet();
    expect(lds(S + 4 * (uint32_t)emu_lane()) == 7, "own value");
}
static void halves(const uint64_t *args)
{
    uint16_t x = (uint16_t)tid();
    emu_store(S + 2 * (uint32_t)(tid() / 32 + emu_lane() * 2), &x, 2);
}
static void outside(const uint64_t *args) { lds(S + 64 * 1024); }
static void misaligned(const uint64_t *args) { lds(S + 2); }
static void poisoned(const uint64_t *args)
{
    uint32_t w = lds(S);
    float x;
    memcpy(&x, &w, 4);
    expect(x != x, "poison");
}

/* Each lane of two warps writes the value that is there over what a lane of the other wrote, in every pair of
 * lanes, and so often that the machine cannot keep all of these pairs; a third warp reads what they wrote,
 * behind a barrier. */
static void pairs_of_writers(const uint64_t *args)
{
    enum { LANES = 32, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t k = 0, lane = (uint32_t)emu_lane(); k < LANES && tid() < 2 * LANES; k++)
            sts(S + 4 * (tid() < LANES ? lane * LANES + k : k * LANES + lane), 7);
        emu_syncthreads();
        for (uint32_t k = 0; k < LANES && tid() >= 2 * LANES; k++)
            expect(lds(S + 4 * (k * LANES + (uint32_t)emu_lane())) == 7, "a value that two warps wrote");
        emu_syncthreads();
    }
}
/* Then one reads, and one writes another value, with nothing between. */
static void pairs_unordered(const uint64_t *args)
{
    pairs_of_writers(args);
    if (tid() == 0) sts(S, 8);
    if (tid() == 64) lds(S);
}

static void test_races(void)
{
    between = 0;
    fails(64, write_read, NULL, "race");
    fails(64, read_write, NULL, "race");
    fails(64, write_write, NULL, "race");
    fails(32, write_read_in_warp, NULL, "race");
    fails(64, same_value, NULL, "race");
    works(64, halves, NULL);
    works(96, pairs_of_writers, NULL);
    fails(96, pairs_unordered, NULL, "race");
    between = WARP_BARRIER;
    fails(64, write_read, NULL, "race");
    fails(64, same_value, NULL, "race");
    works(32, write_read_in_warp, NULL);
    between = BARRIER;
    works(64, write_read, NULL);
    works(64, read_write, NULL);
    works(64, same_value, NULL);
    fails(64, write_write, NULL, "race");
    works(32, poisoned, NULL);
    fails(32, outside, NULL, "outside");
    fails(32, misaligned, NULL, "misaligned");
}

/* --- cp.async ---------------------------------------------------------------------------------------- */

static _Alignas(128) uint32_t source[4096];
static int wait_for;

static void copies(const uint64_t *args)
{
    for (uint32_t g = 0; g < 3; g++) {
        emu_copy(S + 1024 * g + 16 * (uint32_t)tid(), source + 256 * g + 4 * tid(), 16, g != 1);
        emu_copy_commit();
    }
    if (wait_for >= 0) emu_copy_wait((uint32_t)wait_for);
    emu_syncthreads();
    int other = tid() ^ 40;
    expect(lds(S + 16 * (uint32_t)other) == source[4 * other], "group 0");
    expect(lds(S + 1024 + 16 * (uint32_t)other) == 0, "zeros");
    emu_copy_wait(0);
}

static void test_copies(void)
{
    for (uint32_t k = 0; k < 4096; k++) source[k] = k * 2654435761u;
    wait_for = 1;
    works(64, copies, NULL);
    wait_for = 2;
    fails(64, copies, NULL, "copy in flight");
    wait_for = -1;
    fails(64, copies, NULL, "copy in flight");
}

/* --- mbarriers, TMA ---------------------------------------------------------------------------------- */

enum { FULL = S + 60000, EMPTY = S + 60008 };
typedef struct Tma {
    _Alignas(64) uint8_t map[128];
    int swizzle, rows;
} Tma;
static bool with_fence, with_wait, with_empty;

/* 64 halfs a row of `source`, 100 rows of them and 60 halfs in the last: a ring of one slot, filled 4 times
 * by warp 0, read by warp 1. */
static void ring(const uint64_t *args)
{
    const Tma *t = (const Tma *)(uintptr_t)args[0];
    uint32_t span = (uint32_t)t->swizzle ? (uint32_t)t->swizzle : 128;
    if (tid() == 0) {
        emu_mbar_init(FULL, 1);
        emu_mbar_init(EMPTY, 1);
        if (with_fence) emu_proxy_fence();
    }
    emu_syncthreads();
    for (uint32_t k = 0; k < 4; k++) {
        if (tid() == 0) {
            int32_t at[2] = { 0, (int32_t)k * 16 - 8 };
            if (with_empty) emu_mbar_wait(EMPTY, (k & 1) ^ 1);
            emu_mbar_arrive(FULL, span * 16);
            emu_tma_load(S, t->map, FULL, 2, at);
        }
        if (tid() < 32) continue;
        if (with_wait) emu_mbar_wait(FULL, k & 1);
        for (uint32_t r = 0; r < 16; r++) {
            uint32_t a = S + r * span + (uint32_t)emu_lane() % (span / 4) * 4;
            uint32_t piece = t->swizzle == 128  ? a >> 7 & 7
                             : t->swizzle == 64 ? a >> 7 & 3
                             : t->swizzle == 32 ? a >> 7 & 1
                                                : 0;
            int32_t row = (int32_t)k * 16 - 8 + (int32_t)r;
            uint32_t column = (uint32_t)emu_lane() % (span / 4);
            expect(
                lds(a ^ piece << 4) == (row < 0 || row >= t->rows ? 0 : source[row * 32 + (int32_t)column]),
                "a word of the box");
        }
        emu_warp_sync();
        if (emu_lane() == 0) emu_mbar_arrive(EMPTY, 0);
    }
}
/* Lane 0 arrives for a warp whose lanes read (or wrote) before: a warp barrier orders that, a shuffle that
 * happens to join them does not. */
enum { JOIN_NOTHING, JOIN_SHUFFLE, JOIN_BARRIER };
static int joined;
static bool by_all_lanes;
static void handed(const uint64_t *args)
{
    bool writes = args[0];
    if (tid() == 0) {
        emu_mbar_init(FULL, by_all_lanes ? 32 : 1);
        emu_proxy_fence();
    }
    emu_syncthreads();
    if (tid() < 32) {
        if (writes) sts(S + 4 * (uint32_t)emu_lane(), (uint32_t)tid() + 1);
        else lds(S + 4 * (uint32_t)emu_lane());
        if (joined == JOIN_SHUFFLE) {
            int x = 0;
            emu_exchange("shfl", &x, 4);
        }
        if (joined == JOIN_BARRIER) emu_warp_sync();
        if (emu_lane() == 0 || by_all_lanes) emu_mbar_arrive(FULL, 0);
    } else {
        emu_mbar_wait(FULL, 0);
        if (writes)
            expect(lds(S + 4 * (uint32_t)emu_lane()) == (uint32_t)emu_lane() + 1, "what was handed over");
        else sts(S + 4 * (uint32_t)emu_lane(), 9);
    }
}

/* A shuffle orders neither what lanes of one warp wrote nor what they read. */
static void read_write_in_warp(const uint64_t *args)
{
    lds(S + 4 * (uint32_t)tid());
    meet();
    int x = 0;
    emu_exchange("shfl", &x, 4);
    sts(S + 4 * (uint32_t)(tid() ^ 1), 5);
}

static void test_lanes(void)
{
    for (uintptr_t writes = 0; writes < 2; writes++) {
        const void *w = (const void *)writes;
        by_all_lanes = false;
        joined = JOIN_NOTHING;
        fails(64, handed, w, "race");
        joined = JOIN_SHUFFLE;
        fails(64, handed, w, "race");
        joined = JOIN_BARRIER;
        works(64, handed, w);
        by_all_lanes = true; /* each lane for itself */
        joined = JOIN_SHUFFLE;
        works(64, handed, w);
    }
    between = 0;
    fails(32, read_write_in_warp, NULL, "another lane of the same warp");
    between = WARP_BARRIER;
    works(32, read_write_in_warp, NULL);
}

/* --- global memory ----------------------------------------------------------------------------------- */

static uint32_t global[256], flag;
static uint32_t ldg(int k)
{
    emu_global_read(&global[k], 4);
    return global[k];
}
static void stg(int k, uint32_t x)
{
    emu_global_write(&global[k], &x, 4);
    global[k] = x;
}
static uint32_t add(uint32_t *p, uint32_t x)
{
    emu_global_atomic(p, 4);
    uint32_t old = *p;
    *p += x;
    return old;
}
static int block(void) { return (int)blockIdx.x; }

enum {
    APART,
    SAME_VALUE,
    ATOMIC_SUM,
    WRITES,
    READ_AND_WRITE,
    MODIFY,
    ATOMIC_AND_READ,
    IN_A_BLOCK,
    IN_A_WARP,
    HANDED_ON,
    NOT_FENCED,
    NOT_ASKED
};
static void globals(const uint64_t *args)
{
    int t = tid();
    switch ((int)args[0]) {
    case APART:
        stg(block() * 64 + t, (uint32_t)t);
        ldg(128 + t % 64);
        break;
    case SAME_VALUE: stg(t, 7); break;
    case ATOMIC_SUM: add(&global[t % 5], 1); break;
    case WRITES:
        if (!t) stg(0, (uint32_t)block() + 1);
        break;
    case READ_AND_WRITE:
        if (block() == 0) ldg(t);
        else stg(t, 5);
        break;
    case MODIFY:
        if (!t) stg(0, ldg(0) + 1);
        break;
    case ATOMIC_AND_READ:
        if (block() == 0) ldg(0);
        else if (!t) add(&global[0], 1);
        break;
    case IN_A_BLOCK:
        if (block()) break;
        stg(t, (uint32_t)t);
        meet();
        ldg(t ^ 33);
        break;
    case IN_A_WARP:
        if (block()) break;
        stg(t, (uint32_t)t);
        meet();
        ldg(t ^ 1);
        break;
    case HANDED_ON:
    case NOT_FENCED:
    case NOT_ASKED: /* the last block to come sums up what all wrote */
        stg(block() * 64 + t, (uint32_t)block() + 1);
        emu_syncthreads();
        if (args[0] != NOT_FENCED) emu_global_fence();
        if (!t && args[0] != NOT_ASKED) global[250 + block()] = add(&flag, 1);
        emu_syncthreads();
        emu_global_fence();
        if (args[0] == NOT_ASKED ? block() == 1 : global[250 + block()] == 1)
            expect(ldg(t) + ldg(64 + t) == 3, "both values");
        break;
    }
}

/* Two blocks, one after the other or at once. */
static void globally(int what, const char *report)
{
    look = !report;
    for (int k = 0; k < DRAWS; k++) {
        memset(global, 0, sizeof global);
        flag = 0;
        bool ok = run(64, 2, globals, (const void *)(uintptr_t)what, k);
        if (ok != !report || (report && !strstr(why, report))) {
            printf(" [case %d, draw %d: %s] ", what, k, ok ? "nothing" : why);
            CU_FAIL("not as expected");
            return;
        }
    }
}

static void test_global(void)
{
    static const char race[] = "race: ";
    between = 0;
    for (int k = APART; k <= ATOMIC_SUM; k++) globally(k, NULL);
    for (int k = WRITES; k <= IN_A_WARP; k++) globally(k, race);
    between = WARP_BARRIER;
    globally(IN_A_WARP, NULL);
    globally(IN_A_BLOCK, race);
    between = BARRIER;
    globally(IN_A_BLOCK, NULL);
    globally(HANDED_ON, NULL);
    globally(NOT_FENCED, race);
    globally(NOT_ASKED, race);
}

static void arrivals(const uint64_t *args)
{
    if (tid() == 0) {
        emu_mbar_init(FULL, 2);
        emu_mbar_arrive(FULL, 16);
        emu_mbar_arrive(FULL, 0);
        emu_mbar_arrive(FULL, 0);
        emu_mbar_arrive(FULL, 0);
    }
}
static void never(const uint64_t *args)
{
    if (tid() == 0) {
        emu_mbar_init(FULL, 2);
        emu_mbar_arrive(FULL, 0);
        emu_mbar_wait(FULL, 0);
    }
}
static void not_there(const uint64_t *args)
{
    if (tid() == 0) emu_mbar_arrive(FULL, 0);
}

static void test_tma(void)
{
    static const int swizzles[] = { 0, 32, 64, 128 };
    Tma t = { .rows = 40 };
    uint32_t box[2] = { 64, 16 }, ones[2] = { 1, 1 };
    uint64_t extents[2] = { 64, 40 }, strides[1] = { 128 };
    for (int k = 0; k < 4; k++) {
        t.swizzle = swizzles[k];
        box[0] = t.swizzle ? (uint32_t)t.swizzle / 2 : 64;
        CU_ASSERT_EQUAL(emu_tensor_map(t.map, 6, 2, source, extents, strides, box, ones, 0, k, 2, 0), 0);
        with_fence = with_wait = with_empty = true;
        works(64, ring, &t);
        with_wait = false;
        fails(64, ring, &t, "race");
        with_wait = true;
        with_empty = false;
        fails(64, ring, &t, ""); /* a race, or one arrival too many */
        with_empty = true;
        with_fence = false;
        fails(64, ring, &t, "proxy fence");
    }
    CU_ASSERT_EQUAL(
        emu_tensor_map(t.map, 6, 2, (uint8_t *)source + 8, extents, strides, box, ones, 0, 3, 2, 0), 1);
    box[0] = 128;
    CU_ASSERT_EQUAL(emu_tensor_map(t.map, 6, 2, source, extents, strides, box, ones, 0, 3, 2, 0), 1);
    fails(32, arrivals, NULL, "more arrivals");
    fails(32, never, NULL, "deadlock; block 0 warp 0 lane 0 waits at @0 mbar_wait (mbarrier at");
    fails(32, not_there, NULL, "no mbarrier");
}

/* --- clusters: two CTAs load a tile of 32 rows together, 16 each ------------------------------------- */

typedef enum ClusterFault {
    WHOLE,
    NO_MEETING,
    NO_ARRIVAL,
    NO_EMPTY,
    NEAR_ONLY,
    NO_LEAVE,
    NO_BYTES,
    NEAR_WAIT
} ClusterFault;
typedef struct Together {
    Tma t;
    ClusterFault fault;
} Together;
enum { TILE_AT = S + 1024, FULL_AT = S + 16384, EMPTY_AT = FULL_AT + 8 };

/* Warp 0 loads, warp 1 reads; rounds of one slot. */
static void together(const uint64_t *args)
{
    const Together *x = (const void *)(uintptr_t)args[0];
    int rank = emu_cluster_rank();
    enum { ROUNDS = 3 };
    if (tid() == 0) {
        emu_mbar_init(FULL_AT, 1);
        emu_mbar_init(EMPTY_AT, x->fault == NEAR_ONLY ? 1 : 2);
        emu_mbar_fence();
    }
    emu_warp_sync();
    if (x->fault != NO_MEETING) {
        emu_cluster_arrive();
        emu_cluster_wait();
    } else emu_syncthreads();
    for (int r = 0; r < ROUNDS && tid() == 0; r++) {
        int32_t at[2] = { 0, 32 * r + 16 * rank };
        if (x->fault == NEAR_WAIT) emu_mbar_wait(EMPTY_AT, (uint32_t)(r + 1) & 1);
        else if (x->fault != NO_EMPTY) emu_mbar_wait_cluster(EMPTY_AT, (uint32_t)(r + 1) & 1);
        emu_mbar_arrive(FULL_AT, x->fault == NO_BYTES ? 16 * 128 : 32 * 128);
        emu_tma_multicast(TILE_AT + (uint32_t)rank * 16 * 128, x->t.map, FULL_AT, 2, 2, at);
    }
    for (int r = 0; r < ROUNDS && tid() >= 32; r++) {
        emu_mbar_wait(FULL_AT, (uint32_t)r & 1);
        uint16_t got;
        int row = 31 - emu_lane();
        emu_load(TILE_AT + (uint32_t)row * 128 + 2 * (uint32_t)emu_lane(), &got, 2);
        expect(got == (row + 32 * r < x->t.rows ? ((const uint16_t *)source)[(row + 32 * r) * 64 + emu_lane()]
                                                : 0),
            "an element that both loaded");
        emu_warp_sync();
        if (x->fault == NEAR_ONLY) {
            if (emu_lane() == 0) emu_mbar_arrive(EMPTY_AT, 0);
        } else if (emu_lane() < 2 && !(x->fault == NO_ARRIVAL && emu_lane() == 1))
            emu_mbar_arrive_at(EMPTY_AT, emu_lane());
    }
    if (tid() == 0 && x->fault != NO_LEAVE) emu_mbar_wait_cluster(EMPTY_AT, (ROUNDS + 1) & 1);
}

static bool run_together(const Together *x, int k)
{
    uint64_t args[1] = { (uint64_t)(uintptr_t)x };
    EmuLaunch l = { together, args, 4, 64, 32, 64 * 1024, false, 2, k | k << 5, (k >> 2) | k << 2 };
    return emu_run(&l, why, sizeof why);
}

static void test_clusters(void)
{
    static const struct {
        ClusterFault fault;
        const char *want;
    } faults[] = {
        { NO_MEETING, "before a barrier that says it has started" },
        { NO_ARRIVAL, "deadlock" },
        { NO_EMPTY, "" },
        { NEAR_ONLY, "" },
        { NO_BYTES, "" },
        { NEAR_WAIT, "race: sent to shared memory" },
    };
    uint32_t box[2] = { 64, 16 }, ones[2] = { 1, 1 };
    uint64_t extents[2] = { 64, 40 }, strides[1] = { 128 };
    Together x = { .t = { .rows = 40 } };
    CU_ASSERT_EQUAL(emu_tensor_map(x.t.map, 6, 2, source, extents, strides, box, ones, 0, 0, 2, 0), 0);
    look = true;
    for (int k = 0; k < DRAWS; k++) {
        bool ok = run_together(&x, k);
        if (!ok) printf(" [draw %d: %s] ", k, why);
        CU_ASSERT(ok);
    }
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        x.fault = faults[f].fault;
        for (int k = 0; k < DRAWS; k++) {
            bool ok = run_together(&x, k);
            if (ok || !strstr(why, faults[f].want)) {
                printf(" [fault %d, draw %d: %s] ", x.fault, k, ok ? "nothing" : why);
                CU_FAIL("not reported");
                break;
            }
        }
    }
    /* who leaves without having waited for the others' arrivals: it depends on when they come */
    int seen = 0;
    x.fault = NO_LEAVE;
    for (int k = 0; k < 4 * DRAWS; k++)
        seen += !run_together(&x, k) && (strstr(why, "arrival is on its way") || strstr(why, "has ended"));
    CU_ASSERT(seen > 0);
}

/* --- products ---------------------------------------------------------------------------------------- */

typedef enum GmmaFault {
    NO_FAULT,
    NO_FENCE,
    NO_PROXY_FENCE,
    NO_WAIT,
    NO_COMMIT,
    A_CHANGED,
    REFILLED,
    TOUCHED,
    DIVERGED
} GmmaFault;
typedef struct Gmma {
    EmuProduct kind;
    uint32_t span;
    bool registers;
    GmmaFault fault;
} Gmma;

/* Eight values of every type, and their codes. */
static const double values[][8] = { { 0, 1, 2, 3, -1, -2, -3, 0.5 }, { 0, 1, 2, 3, -1, -2, -127, 5 },
    { 0, 1, 2, 3, 7, 9, 255, 128 } };
static const uint32_t codes[][8] = {
    [EMU_F16] = { 0, 0x3c00, 0x4000, 0x4200, 0xbc00, 0xc000, 0xc200, 0x3800 },
    [EMU_BF16] = { 0, 0x3f80, 0x4000, 0x4040, 0xbf80, 0xc000, 0xc040, 0x3f00 },
    [EMU_TF32] = { 0, 0x3f800000, 0x40000000, 0x40400000, 0xbf800000, 0xc0000000, 0xc0400000,
        0x3f000fff }, /* low bits are not looked at */
    [EMU_E4M3] = { 0, 0x38, 0x40, 0x44, 0xb8, 0xc0, 0xc4, 0x30 },
    [EMU_E5M2] = { 0, 0x3c, 0x40, 0x42, 0xbc, 0xc0, 0xc2, 0x38 },
    [EMU_S8] = { 0, 1, 2, 3, 0xff, 0xfe, 0x81, 5 },
    [EMU_U8] = { 0, 1, 2, 3, 7, 9, 255, 128 },
};
static int bytes_of(EmuType t) { return t <= EMU_BF16 ? 2 : t == EMU_TF32 ? 4 : 1; }
static int pick(int r, int k, int salt)
{ return (int)(((uint32_t)(r * 131 + k * 31 + salt) * 2654435761u) >> 29); }
static double value(EmuType t, int n) { return values[t == EMU_S8 ? 1 : t == EMU_U8 ? 2 : 0][n]; }

typedef struct Operand {
    uint32_t base, lead, stride, span;
    int bytes, k;
    bool mn;
} Operand;

/* 9.7.15.5.1.2: atoms of 8 rows of `span` bytes (without swizzle: of 16), swizzled by the row's number in the
 * atom. */
static uint32_t place(const Operand *o, int r, int k)
{
    uint32_t in = (uint32_t)((o->mn ? r : k) * o->bytes), row = (uint32_t)(o->mn ? k : r);
    if (o->span == 16)
        return o->base + in % 16 + row % 8 * 16 +
               (o->mn ? in / 16 * o->stride + row / 8 * o->lead : in / 16 * o->lead + row / 8 * o->stride);
    uint32_t a = o->base + in % o->span + in / o->span * o->lead + row % 8 * o->span + row / 8 * o->stride;
    return a ^ (a >> 7 & (o->span / 16 - 1)) << 4;
}

/* K-major operands start 32 bytes into their atoms where they can, as the second step of a loop along K does.
 */
static Operand operand(const Gmma *g, uint32_t base, EmuType t, bool mn)
{
    Operand o = { base, 128, 256, g->span, bytes_of(t), g->kind.k, mn };
    if (g->span == 16) return o;
    o.stride = 8 * g->span;
    o.lead = mn ? (uint32_t)g->kind.k * g->span : 16;
    if (!mn && g->span >= 64) o.base += 32;
    return o;
}

static void fill(const Operand *o, EmuType t, int rows, int salt)
{
    for (int e = tid(); e < rows * o->k; e += 128) {
        uint32_t code = codes[t][pick(e / o->k, e % o->k, salt)];
        emu_store(place(o, e / o->k, e % o->k), &code, (uint32_t)o->bytes);
    }
}

static void words(const Operand *o, uint32_t *lo, uint32_t *hi)
{
    *lo = o->base >> 4 | o->lead >> 4 << 16;
    *hi = o->stride >> 4 | (o->span == 128 ? 1u : o->span == 64 ? 2u : o->span == 32 ? 3u : 0u) << 30;
}

static bool correct(const Gmma *g, const float *d)
{
    for (int i = 0; i < g->kind.n / 2; i++) {
        int row = tid() / 32 * 16 + emu_lane() / 4 + i / 2 % 2 * 8,
            col = i / 4 * 8 + emu_lane() % 4 * 2 + i % 2;
        double want = i;
        for (int k = 0; k < g->kind.k; k++)
            want += value(g->kind.a, pick(row, k, 1)) * value(g->kind.b, pick(col, k, 2));
        int32_t x;
        memcpy(&x, &d[i], 4);
        if ((g->kind.integer ? (double)x : (double)d[i]) != want) return false;
    }
    return true;
}

static void gmma(const uint64_t *args)
{
    const Gmma *g = (const Gmma *)(uintptr_t)args[0];
    Operand a = operand(g, S, g->kind.a, g->kind.trans_a),
            b = operand(g, S + 8192, g->kind.b, g->kind.trans_b);
    uint32_t al, ah, bl, bh, ra[4] = { 0 };
    float d[128];
    int per = 4 / a.bytes;
    for (int i = 0; i < 128; i++) {
        d[i] = (float)i;
        if (g->kind.integer) memcpy(&d[i], &i, 4);
    }
    if (!g->registers) fill(&a, g->kind.a, 64, 1);
    for (int j = 0; j < 4; j++)
        for (int e = 0; e < per; e++)
            ra[j] |= codes[g->kind.a][pick(tid() / 32 * 16 + emu_lane() / 4 + j % 2 * 8,
                         j / 2 * 4 * per + emu_lane() % 4 * per + e, 1)]
                     << 8 * a.bytes * e;
    fill(&b, g->kind.b, g->kind.n, 2);
    if (g->fault != NO_PROXY_FENCE) emu_proxy_fence();
    emu_syncthreads();
    words(&a, &al, &ah);
    words(&b, &bl, &bh);
    if (g->fault != NO_FENCE) emu_wgmma_fence();
    if (g->fault == DIVERGED && tid() / 32 == 2) bl++;
    emu_wgmma(&g->kind, d, g->registers ? ra : NULL, al, ah, bl, bh, 1);
    if (g->fault != NO_COMMIT) emu_wgmma_commit();
    if (g->fault == A_CHANGED) ra[2]++;
    if (g->fault == TOUCHED) d[1] = 0;
    if (g->fault == REFILLED && tid() == 64) sts(b.base, 1);
    if (g->fault != NO_WAIT) emu_wgmma_wait(0);
    expect(correct(g, d), "a product");
}

static void test_wgmma(void)
{
    static const EmuType pairs[][2] = { { EMU_F16, EMU_F16 }, { EMU_BF16, EMU_BF16 }, { EMU_TF32, EMU_TF32 },
        { EMU_E4M3, EMU_E4M3 }, { EMU_E5M2, EMU_E4M3 }, { EMU_E4M3, EMU_E5M2 }, { EMU_S8, EMU_S8 },
        { EMU_U8, EMU_U8 }, { EMU_S8, EMU_U8 } };
    static const int ns[] = { 8, 64, 136, 256 };
    static const uint32_t spans[] = { 16, 32, 64, 128 };
    int k = 0, n = 0;
    look = true;
    for (size_t t = 0; t < sizeof pairs / sizeof *pairs; t++)
        for (int s = 0; s < 4; s++)
            for (int major = 0; major < (bytes_of(pairs[t][0]) == 2 ? 4 : 1); major++)
                for (int registers = 0; registers < 2; registers++) {
                    if (registers && major & 1) continue;
                    Gmma g = { { ns[k++ % 4], 32 / bytes_of(pairs[t][0]), pairs[t][0], pairs[t][1], major & 1,
                                   major >> 1, pairs[t][0] >= EMU_S8 },
                        spans[s], registers };
                    if (g.kind.trans_b && g.kind.n * 2 % (int)g.span) g.kind.n = 256;
                    bool ok = run(128, 1, gmma, &g, k);
                    if (!ok)
                        printf(" [types %d %d, n %d, span %u, major %d, registers %d: %s] ", g.kind.a,
                            g.kind.b, g.kind.n, g.span, major, registers, why);
                    CU_ASSERT(ok);
                    n++;
                }
    printf(" %d products ", n);
    Gmma g = { { 64, 16, EMU_F16, EMU_F16 }, 128, true };
    static const char *const reports[] = { [NO_FENCE] = "no wgmma.fence",
        [NO_PROXY_FENCE] = "no proxy fence",
        [NO_WAIT] = "wrong: a product",
        [NO_COMMIT] = "wrong: a product",
        [A_CHANGED] = "registers of A",
        [REFILLED] = "race: write",
        [TOUCHED] = "was written before the wait",
        [DIVERGED] = "different wgmma" };
    works(128, gmma, &g);
    for (g.fault = NO_FENCE; g.fault <= DIVERGED; g.fault++) fails(128, gmma, &g, reports[g.fault]);
}

/* mma.sync and ldmatrix: a fragment loaded as the tables say is the matrix. */
static void warp_product(const uint64_t *args)
{
    uint32_t a[4], b[2];
    float d[4] = { 0 };
    for (int e = emu_lane(); e < 16 * 16; e += 32)
        emu_store(S + (uint32_t)(e / 16 * 32 + e % 16 * 2), &codes[EMU_F16][pick(e / 16, e % 16, 1)], 2);
    for (int e = emu_lane(); e < 8 * 16; e += 32)
        emu_store(S + 512 + (uint32_t)(e % 16 * 16 + e / 16 * 2), &codes[EMU_F16][pick(e / 16, e % 16, 2)],
            2); /* [k][n] */
    emu_warp_sync();
    emu_ldmatrix(a, S + (uint32_t)(emu_lane() % 16 * 32 + emu_lane() / 16 * 16), 4, false);
    emu_ldmatrix(b, S + 512 + (uint32_t)(emu_lane() % 16 * 16), 2, true);
    emu_mma(d, a, b, EMU_F16, EMU_F16);
    for (int i = 0; i < 4; i++) {
        double want = 0;
        for (int k = 0; k < 16; k++)
            want += value(EMU_F16, pick(emu_lane() / 4 + i / 2 * 8, k, 1)) *
                    value(EMU_F16, pick(emu_lane() % 4 * 2 + i % 2, k, 2));
        expect(d[i] == want, "mma");
    }
}

/* --- registers --------------------------------------------------------------------------------------- */

static int more;
static void registers(const uint64_t *args)
{
    if (tid() < 128) emu_registers(40, false);
    else emu_registers(more, true);
}

static void test_others(void)
{
    works(32, warp_product, NULL);
    more = 232; /* 384 threads of 168: 40 + 2 x 232 = 504 */
    works(384, registers, NULL);
    more = 240;
    fails(384, registers, NULL, "registers to be given back");
}

UNIT_MAIN("emulated CUDA machine", { "barriers", test_barriers }, { "races", test_races },
    { "copies", test_copies }, { "tma", test_tma }, { "wgmma", test_wgmma }, { "others", test_others },
    { "lanes", test_lanes }, { "global", test_global }, { "clusters", test_clusters })
