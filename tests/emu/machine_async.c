/* machine_async.c: tests of what completes later on the emulated CUDA machine: cp.async, mbarriers, TMA, and
 * a cluster's multicast. */
#include "tests/emu/test_machine.h"

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

void test_copies(void)
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

/* 64 halfs a row of `source`, 100 rows of them and 60 halfs in the last: a ring of one stage, filled 4 times
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

void test_lanes(void)
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

void test_tma(void)
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

/* --- pixels ------------------------------------------------------------------------------------------ */

/* Images of 3 x 5 pixels of 16 bytes, of which every second one counts along the fastest axis, from -1 on. */
typedef struct Pixels {
    uint8_t map[128];
    int32_t at[4], tap[2];
} Pixels;
enum { ACROSS = 5, DOWN = 3, IMAGES = 2, PIXELS = 16, COLUMNS = 3 };

static void pixels(const uint64_t *args)
{
    const Pixels *p = (const Pixels *)(uintptr_t)args[0];
    if (tid() == 0) {
        emu_mbar_init(FULL, 1);
        emu_proxy_fence();
        emu_mbar_arrive(FULL, PIXELS * 16);
        emu_tma_im2col(S, p->map, FULL, 4, p->at, p->tap);
    }
    emu_syncthreads();
    emu_mbar_wait(FULL, 0);
    int first = (p->at[3] * DOWN + p->at[2]) * COLUMNS + (p->at[1] + 1) / 2;
    for (int k = 0; k < PIXELS; k++) {
        int n = first + k, x = n % COLUMNS * 2 - 1 + p->tap[0], y = n / COLUMNS % DOWN + p->tap[1],
            image = n / COLUMNS / DOWN;
        bool in = x >= 0 && x < ACROSS && y < DOWN && image < IMAGES;
        uint32_t want = in ? source[((image * DOWN + y) * ACROSS + x) * 4 + tid() % 4] : 0;
        expect(lds(S + 16 * (uint32_t)k + 4 * (uint32_t)(tid() % 4)) == want, "a word of a pixel");
    }
}

void test_pixels(void)
{
    Pixels p = { .at = { 0, 1, 2, 0 }, .tap = { 1, 1 } };
    uint32_t steps[4] = { 1, 2, 1, 1 };
    uint64_t extents[4] = { 8, ACROSS, DOWN, IMAGES }, strides[3] = { 16, 16 * ACROSS, 16 * ACROSS * DOWN };
    int lower[2] = { -1, 0 }, upper[2] = { -1, 0 }, beyond[2] = { 128, 0 }, before[2] = { -6, 0 };
    CU_ASSERT_EQUAL(emu_tensor_map_im2col(
                        p.map, 6, 4, source, extents, strides, lower, upper, 8, PIXELS, steps, 0, 0, 2, 0),
        0);
    works(32, pixels, &p);
    p.tap[0] = 0;
    works(32, pixels, &p);
    p.tap[0] = 256;
    fails(32, pixels, &p, "no bits");
    p.tap[0] = 0;
    p.at[1] = 0;
    fails(32, pixels, &p, "no pixel of the box");
    p.at[1] = 5;
    fails(32, pixels, &p, "no pixel of the box");
    CU_ASSERT_EQUAL(emu_tensor_map_im2col(
                        p.map, 6, 4, source, extents, strides, lower, beyond, 8, PIXELS, steps, 0, 0, 2, 0),
        1);
    CU_ASSERT_EQUAL(emu_tensor_map_im2col(
                        p.map, 6, 4, source, extents, strides, lower, before, 8, PIXELS, steps, 0, 0, 2, 0),
        1);
    CU_ASSERT_EQUAL(emu_tensor_map_im2col(
                        p.map, 6, 4, source, extents, strides, lower, upper, 8, 1025, steps, 0, 0, 2, 0),
        1);
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

/* Warp 0 loads, warp 1 reads; rounds of one stage. */
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

void test_clusters(void)
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
    /* Leaving without waiting for the arrivals of others is an error that depends on their timing. */
    int seen = 0;
    x.fault = NO_LEAVE;
    for (int k = 0; k < 4 * DRAWS; k++)
        seen += !run_together(&x, k) && (strstr(why, "arrival is on its way") || strstr(why, "has ended"));
    CU_ASSERT(seen > 0);
}
