/* test_machine.c: the emulated CUDA machine itself: what it computes, and that it reports what it is there to
 * report. Here: barriers, races in shared memory, registers. */
#include "tests/emu/test_machine.h"

char why[1200];
bool look;

bool run(int threads, int blocks, void (*thread)(const uint64_t *), const void *user, int k)
{
    uint64_t args[1] = { (uint64_t)(uintptr_t)user };
    EmuLaunch l = { thread, args, blocks, threads, 32, 64 * 1024, false, 0, k | k << 5, (k >> 2) | k << 2 };
    return emu_run(&l, why, sizeof why);
}

void works(int threads, void (*thread)(const uint64_t *), const void *user)
{
    look = true;
    for (int k = 0; k < DRAWS; k++) {
        bool ok = run(threads, 2, thread, user, k);
        if (!ok) printf(" [draw %d: %s] ", k, why);
        CU_ASSERT(ok);
        if (!ok) return;
    }
}

void fails(int threads, void (*thread)(const uint64_t *), const void *user, const char *want)
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

void expect(bool x, const char *what)
{
    if (!x && look) emu_fail("wrong: %s", what);
}

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

int between;

void meet(void)
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

/* All threads add to a word that one of them has filled, and another reads. */
static void add_one(uint32_t a) { ++*(uint32_t *)emu_shared_atomic(a, 4); }
static void atomics(const uint64_t *args)
{
    const int *threads = (const int *)(uintptr_t)args[0];
    if (tid() == 0) sts(S, 0);
    emu_syncthreads();
    add_one(S);
    add_one(S);
    meet();
    if (tid() == *threads - 1) expect(lds(S) == 2 * (uint32_t)*threads, "the sum of all");
}
static void atomics_filled(const uint64_t *args)
{
    if (tid() == 0) sts(S, 0);
    meet();
    add_one(S);
}

/* A thread stores what the others' atomics have left in the word, as it was. */
static void add_nothing(uint32_t a) { *(uint32_t *)emu_shared_atomic(a, 4) += 0; }
static void atomics_stored(const uint64_t *args)
{
    if (tid() == 0) sts(S, 0);
    emu_syncthreads();
    add_nothing(S);
    meet();
    if (tid() == 0) sts(S, 0);
}

static void test_atomics(void)
{
    const int two = 64, one = 32;
    between = 0;
    fails(64, atomics, &two, "race");
    fails(32, atomics, &one, "race");
    fails(64, atomics_filled, &two, "race");
    fails(64, atomics_stored, &two, "race");
    between = WARP_BARRIER;
    fails(64, atomics, &two, "race");
    works(32, atomics, &one);
    between = BARRIER;
    works(64, atomics, &two);
    works(64, atomics_filled, &two);
    works(64, atomics_stored, &two);
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

/* --- registers --------------------------------------------------------------------------------------- */

static int more;
static void registers(const uint64_t *args)
{
    if (tid() < 128) emu_registers(40, false);
    else emu_registers(more, true);
}

static void test_registers(void)
{
    more = 232; /* 384 threads of 168: 40 + 2 x 232 = 504 */
    works(384, registers, NULL);
    more = 240;
    fails(384, registers, NULL, "registers to be given back");
}

UNIT_MAIN("emulated CUDA machine", { "barriers", test_barriers }, { "races", test_races },
    { "atomics", test_atomics }, { "copies", test_copies }, { "tma", test_tma }, { "pixels", test_pixels },
    { "wgmma", test_wgmma }, { "warp_product", test_warp_product }, { "registers", test_registers },
    { "lanes", test_lanes }, { "global", test_global }, { "clusters", test_clusters })
