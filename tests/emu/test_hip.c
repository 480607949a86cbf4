/* test_hip: the emulated AMD workgroup itself: collectives, what it reports of LDS, and the builtins on it.
 * The matrix instructions are in test_hip_mma.c. */
#include "tests/emu/test_hip.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

const char *run_group(int chip, int threads, bool backwards, bool late, void (*body)(void *), void *user)
{
    HipRun r = { .chip = chip,
        .wave = chip == 0x1100 ? 32 : 64,
        .lds_bytes = 4096,
        .blocks = 2,
        .threads = threads,
        .backwards = backwards,
        .late = late,
        .body = body,
        .user = user };
    return hip_run(&r);
}

/* The launch must fail in every order, saying `want`. */
static void fails(int threads, void (*body)(void *), const char *want)
{
    for (int k = 0; k < 2; k++) {
        const char *why = run_group(0x942, threads, k, true, body, NULL);
        CU_ASSERT_PTR_NOT_NULL(why);
        if (why && !strstr(why, want)) {
            printf(" [%s] lacks \"%s\" ", why, want);
            CU_FAIL("another message");
        }
    }
}

static void works(int threads, void (*body)(void *))
{
    for (int k = 0; k < 4; k++) {
        const char *why = run_group(0x942, threads, k & 1, k & 2, body, NULL);
        if (why) printf(" %s ", why);
        CU_ASSERT_PTR_NULL(why);
    }
}

/* --- collectives --- */

static int wave_of(int t) { return t / 64; }

static void shift(void *u)
{
    uint64_t active, *sum = u;
    int t = hip_thread();
    const uint64_t *x = hip_exchange("one", (uint64_t)t, &active);
    CU_ASSERT_EQUAL(x[(t + 1) % 64], (uint64_t)(wave_of(t) * 64 + (t + 1) % 64));
    x = hip_exchange("two", x[(t + 1) % 64], &active);
    CU_ASSERT_EQUAL(x[(t + 1) % 64], (uint64_t)(wave_of(t) * 64 + (t + 2) % 64));
    CU_ASSERT_EQUAL(active, ~0ull);
    *sum += x[0];
}
static void leave(void *u)
{
    uint64_t active;
    if (hip_thread() % 64 >= 40) return;
    hip_exchange("late", 1, &active);
    CU_ASSERT_EQUAL(active, (1ull << 40) - 1);
    hip_fence();
    hip_barrier();
}
static void differ(void *u) { hip_exchange(hip_thread() % 64 < 3 ? "shuffle" : "ballot", 0, NULL); }
static void half(void *u)
{
    if (hip_thread() % 2) hip_exchange("shuffle", 0, NULL);
    else hip_barrier();
}
static void alone(void *u)
{
    if (hip_thread() < 64) hip_barrier();
    else
        for (int i = 0; i < 3; i++) hip_exchange("shuffle", 0, NULL);
    hip_exchange("end", 0, NULL);
}
static void stuck(void *u)
{
    if (hip_thread() % 64 == 5) hip_barrier();
}

static void test_collectives(void)
{
    uint64_t sum = 0;
    CU_ASSERT_PTR_NULL(run_group(0x942, 256, false, false, shift, &sum));
    CU_ASSERT_EQUAL(sum, 2 * 64 * (1 + 65 + 129 + 193));
    works(128, leave);
    fails(128, differ, "others to");
    fails(64, half, "others to");
    works(128, alone);
    works(64, stuck); /* the others have ended */
}

/* --- LDS --- */

static uint32_t get(uint32_t a)
{
    uint32_t x;
    hip_lds_load(&x, a, 4);
    return x;
}
static void put(uint32_t a, uint32_t x) { hip_lds_store(a, &x, 4); }
static void barrier(void)
{
    hip_fence();
    hip_barrier();
}

static void turn(void *u) /* the pattern of a conversion through LDS */
{
    uint32_t t = (uint32_t)hip_thread(), n = (uint32_t)hip_threads();
    for (uint32_t k = 0; k < 3; k++) {
        put(t * 4, t + k);
        barrier();
        CU_ASSERT_EQUAL(get((n - 1 - t) * 4), n - 1 - t + k);
        barrier();
    }
}
/* All lanes add to a word that one of them has filled, and another reads. */
static void add_one(uint32_t a) { ++*(uint32_t *)hip_lds_atomic(a, 4); }
static void atomics(void *u)
{
    if (hip_thread() == 0) put(0, 0);
    barrier();
    add_one(0);
    add_one(0);
    barrier();
    if (hip_thread() == hip_threads() - 1) CU_ASSERT_EQUAL(get(0), 2 * (uint32_t)hip_threads());
}
static void atomics_open(void *u)
{
    if (hip_thread() == 0) put(0, 0);
    barrier();
    add_one(0);
    if (hip_thread() == hip_threads() - 1) get(0);
}
static void atomics_unfilled(void *u) { add_one(64); }
static void turn_open(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    get((127 - t) * 4);
}
static void turn_again(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    barrier();
    get((127 - t) * 4);
    put(t * 4, t + 9);
}
static void turn_unfenced(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    hip_barrier();
    get((127 - t) * 4);
}
static void in_wave(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    hip_wave_barrier();
    get((t ^ 1) * 4);
    hip_wave_barrier();
    put((t ^ 3) * 4, 7);
}
static void in_wave_open(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    get((t ^ 1) * 4);
}
static void in_wave_late(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    put(t * 4, t);
    hip_wave_barrier();
    get((t ^ 1) * 4);
    put(t * 4, 7);
}
static void nobody(void *u)
{
    if (hip_thread() == 0) get(64);
}
static void half_written(void *u)
{
    uint16_t x = 1;
    hip_lds_store((uint32_t)hip_thread() * 4, &x, 2);
    get((uint32_t)hip_thread() * 4);
}
static void bytes(void *u)
{
    uint8_t x = (uint8_t)hip_thread();
    hip_lds_store((uint32_t)hip_thread(), &x, 1);
    barrier();
    get((uint32_t)hip_thread() & ~3u);
}
static void copies(void *u) { put((uint32_t)hip_thread() % 64 * 4, 5); }
static void others(void *u) { put((uint32_t)hip_thread() % 64 * 4, (uint32_t)hip_thread()); }
static void outside(void *u) { put(4096, 0); }
static void askew(void *u)
{
    uint64_t x = 0;
    hip_lds_store(4, &x, 8);
}

static void test_lds(void)
{
    works(256, turn);
    works(128, atomics);
    fails(128, atomics_open, "barrier between");
    fails(64, atomics_unfilled, "LDS word 16 is changed by an atomic and nobody wrote it");
    fails(128, turn_open, "no");
    fails(128, turn_again, "no barrier between");
    fails(128, turn_unfenced, "without waiting for its LDS");
    works(64, in_wave);
    fails(64, in_wave_open, "");
    fails(64, in_wave_late, "no wave_barrier between");
    fails(64, nobody, "LDS word 16 is read and nobody wrote it");
    fails(64, half_written, "nobody wrote it");
    works(256, bytes);
    works(128, copies);
    fails(128, others, "no barrier between");
    fails(64, outside, "an access of 4 bytes to LDS byte 4096 of 4096");
    fails(64, askew, "misaligned");
}

/* --- loads to LDS --- */

static uint32_t source[3][128];
static void load_stage(int k)
{ hip_load_lds(&source[k][hip_thread()], (uint32_t)k * 512 + (uint32_t)wave_of(hip_thread()) * 256, 4); }
static void pipeline(void *u)
{
    uint32_t t = (uint32_t)hip_thread();
    load_stage(0);
    load_stage(1);
    hip_wait_loads(1);
    barrier();
    CU_ASSERT_EQUAL(get((127 - t) * 4), source[0][127 - t]);
    hip_wait_loads(0);
    barrier();
    CU_ASSERT_EQUAL(get(512 + (127 - t) * 4), source[1][127 - t]);
}
static void short_wait(void *u)
{
    load_stage(0);
    load_stage(1);
    hip_wait_loads(1);
    barrier();
    get(512 + (uint32_t)hip_thread() * 4);
}
static void no_wait(void *u)
{
    load_stage(0);
    barrier();
    get((uint32_t)(127 - hip_thread()) * 4);
    hip_wait_loads(0);
}
static void no_barrier(void *u)
{
    load_stage(0);
    hip_wait_loads(0);
    get((uint32_t)(127 - hip_thread()) * 4);
}
static void too_early(void *u)
{
    pipeline(u);
    load_stage(1);
    hip_wait_loads(0);
}
static void forgotten(void *u) { load_stage(0); }

static void test_loads(void)
{
    for (int k = 0; k < 3; k++)
        for (int t = 0; t < 128; t++) source[k][t] = (uint32_t)(k * 1000 + t);
    works(128, pipeline);
    fails(128, short_wait, "in flight");
    fails(128, no_wait, "in flight");
    fails(128, no_barrier, "");
    fails(128, too_early, "no barrier between");
    fails(128, forgotten, "ends with loads to LDS in flight");
}

/* --- builtins, by hip_snippets.cpp --- */

const char *hip_snippet_64(int which, int threads, int order, int late);
const char *hip_snippet_32(int which, int threads, int order, int late);

static void test_snippets(void)
{
    for (int wave = 0; wave < 2; wave++)
        for (int which = 0;; which++) {
            const char *why = NULL;
            for (int k = 0; k < 8 && !why; k++)
                why = (wave ? hip_snippet_64 : hip_snippet_32)(
                    which, k & 4 && which ? 256 : 64, k & 1, k >> 1 & 1);
            if (why && !strcmp(why, "none")) {
                CU_ASSERT(which > 3);
                break;
            }
            if (why) printf(" wave %d, snippet %d: %s ", wave ? 64 : 32, which, why);
            CU_ASSERT_PTR_NULL(why);
        }
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "collectives", test_collectives }, { "lds", test_lds },
        { "loads", test_loads }, { "mma", test_mma }, { "rounding", test_rounding },
        { "missing", test_missing }, { "snippets", test_snippets } };
    return unit_run("emulated AMD workgroup", tests, sizeof tests / sizeof *tests, argc, argv);
}
