/* test_sim.c: the cache model: caches against a brute-force list, placements whose hits can be counted by
 * hand, sampling, devices. */
#include "passes/passes.h"
#include "passes/sim/cache.h"
#include "passes/sim/sim.h"
#include "tests/unit/unit.h"
#include <math.h>
#include <stdlib.h>

/* --- caches ------------------------------------------------------------------------------------------ */

typedef struct Slow {
    uint32_t line;
    uint64_t used;
    bool dirty;
} Slow;

/* The least recently used line of a full set goes, found by looking at all of them. */
static bool slow_touch(Slow *set, uint32_t ways, uint32_t line, bool write, uint64_t now, uint32_t *out)
{
    Slow *oldest = set;
    for (uint32_t k = 0; k < ways; k++) {
        if (set[k].used && set[k].line == line) {
            set[k].used = now;
            set[k].dirty |= write;
            return true;
        }
        if (set[k].used < oldest->used) oldest = &set[k];
    }
    *out = oldest->used ? (oldest->line + 1) | (oldest->dirty ? SIM_DIRTY : 0) : 0;
    *oldest = (Slow){ line, now, write };
    return false;
}

static void test_lru(void)
{
    static const uint32_t shapes[][2] = { { 1, 1 }, { 1, 16 }, { 4, 64 }, { 8, 16 }, { 7, 3 }, { 100, 2 } };
    for (int s = 0; s < 6; s++) {
        uint32_t sets = shapes[s][0], ways = shapes[s][1];
        SimCache c = { calloc(sets * ways, sizeof *c.tags), sets, ways };
        Slow *slow = calloc(sets * ways, sizeof *slow);
        uint64_t x = 12345;
        int bad = 0, hits = 0;
        for (uint64_t now = 1; now <= 200000 && !bad; now++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            uint32_t line = (uint32_t)(x >> 33) % (sets * ways * 2), out = 0, want = 0;
            if (now % 3 == 0) line = line % (sets * ways / 2 + 1);
            bool write = x >> 40 & 1, hit = sim_touch(&c, line, write, &out);
            bad += hit != slow_touch(slow + sim_set(&c, line) * ways, ways, line, write, now, &want) ||
                   out != want;
            hits += hit;
        }
        CU_ASSERT_EQUAL(bad, 0);
        CU_ASSERT(hits > 1000);
        free(c.tags);
        free(slow);
    }
}

/* Consecutive lines and rows a power of two apart fill all sets about equally. */
static void test_sets(void)
{
    SimCache c = { NULL, 128, 16 };
    for (uint32_t step = 1; step <= 1 << 16; step *= 4) {
        int n[128] = { 0 }, most = 0;
        for (uint32_t k = 0; k < 2048; k++) n[sim_set(&c, k * step)]++;
        for (int k = 0; k < 128; k++)
            if (n[k] > most) most = n[k];
        CU_ASSERT(most <= 48);
    }
}

/* --- grids ------------------------------------------------------------------------------------------- */

static const SimDevice tiny = { "tiny", 4, 2, 0, 1, 64 * 1024, 16, 1024 * 1024, 16, 128, 1, 1, 1, 1, 1 };

/* Rows of `bytes` bytes: program (i, h) reads all of row h of K once and writes its own line of O. */
static const char kernel[] =
    "kernel @k {\n  dim #0 = 16\n  dim #1 = 8\n  dim #2 = %lld\n  dim #3 = 32\n"
    "  in %%K.0: tensor<f32, 2> [#1, #2]\n  out %%O.1: tensor<f32, 3> [#1, #0, #3]\n"
    "  grid (%%v.2: tensor<f32, 2>, %%v.3: tensor<f32, 3>) {\n    %%v.4 = const 16 : index\n    %%v.5 = "
    "const 8 : index\n    yield %%v.4, %%v.5\n  }\n"
    "  body {\n    %%v.6 = program_id {axis = 0} : index\n    %%v.7 = program_id {axis = 1} : index\n    "
    "%%v.8 = const 0 : index\n    %%v.20 = token {param = 1} : token\n"
    "    %%v.9 = load %%K.0[%%v.7, %%v.8] {extents = [-1, %lld]} : f32[%lld]\n"
    "    %%v.10 = const 0.0 : f32\n    %%v.11 = splat %%v.10 : f32[32]\n"
    "    %%v.12 = store %%O.1[%%v.7, %%v.6, %%v.8] = %%v.11 token %%v.20 {extents = [-1, -1, 32]} : token\n  "
    "  return\n  }\n}\n";

typedef struct Grid {
    Session s;
    SimTrace *t;
    const EvalCode *remap;
    int64_t dims[4];
    SimLaunch launch;
} Grid;

static bool make_of(Grid *g, const char *text, const char *remap, long long row)
{
    volatile bool ok = false;
    session_init(&g->s, allocator_libc);
    g->t = NULL;
    g->remap = NULL;
    if (!setjmp(g->s.oom)) {
        const char *src = arena_printf(&g->s.arena, text, row, row, row), *why = NULL;
        Module *m = ir_parse(&g->s, diag_add_source(&g->s, "k.ir", NULL, src, strlen(src)));
        PassOptions o = pass_options_default(NULL);
        o.passes = "remap,fold"; /* no dce: nothing uses what is loaded */
        o.remap = remap;
        o.xcds = 4;
        if (m && ir_verify(m) && passes_run(m, &o, NULL)) {
            Func *f = m->funcs;
            for (int d = 0; d < f->n_dims && d < 4; d++) g->dims[d] = f->dims[d].extent;
            g->launch = (SimLaunch){ g->dims, NULL };
            g->t = sim_trace(f, &g->launch, &why);
            if (f->remap) g->remap = eval_compile(&g->s.arena, f, f->remap, &why);
            ok = g->t && (!f->remap || g->remap);
        }
        if (g->s.diags) {
            Text t;
            text_init(&t, &g->s.arena);
            diag_render_all(&g->s, &t);
            puts(t.data);
        }
    }
    return ok;
}

static bool make(Grid *g, const char *remap, long long row) { return make_of(g, kernel, remap, row); }

/* 8 heads of 16 programs on 4 chiplets of 2 units, a row of 32 KiB (256 lines), L2 of 64 KiB. In turn every
 * chiplet sees every head: 8 rows a chiplet are fetched and the other 3 of its 4 programs of a head hit. By
 * head a chiplet fetches 2 rows, 30 programs hit. Each program writes one line. */
static void test_placement(void)
{
    static const struct {
        const char *remap;
        double fetched;
    } cases[] = { { "none", 32 }, { "head", 8 }, { "xcd", 8 }, { "chunk:16", 8 }, { "chunk:1", 32 } };
    for (int k = 0; k < 5; k++) {
        Grid g;
        SimResult r;
        uint8_t where[128];
        SimOptions o = { .sample = 1, .chiplet_of = where, .alloc = allocator_libc };
        CU_ASSERT_FATAL(make(&g, cases[k].remap, 8192));
        CU_ASSERT_EQUAL(sim_replay(g.t, &tiny, g.remap, &o, &r), SIM_OK);
        CU_ASSERT_EQUAL(r.l2.accesses, 128 * 256 + 128);
        CU_ASSERT_EQUAL(r.l2.accesses - r.l2.hits, cases[k].fetched * 256 + 128);
        /* The last-level cache holds everything, so each row is read once. */
        CU_ASSERT_EQUAL(r.read_bytes, 8 * 32768);
        CU_ASSERT_EQUAL(r.write_bytes, 128 * 128);
        CU_ASSERT_EQUAL(r.llc.accesses, cases[k].fetched * 256);
        int of[4] = { 0 };
        for (int p = 0; p < 128; p++) of[where[p] & 3]++;
        for (int x = 0; x < 4; x++) CU_ASSERT_EQUAL(of[x], 32);
        session_free(&g.s);
    }
}

/* The same launch followed whole and in slices: the slices' rate lies within their error. */
static void test_sampling(void)
{
    Grid g;
    SimResult all, some;
    SimOptions o = { .sample = 1, .alloc = allocator_libc };
    SimDevice d = *sim_device_find("mi300x");
    d.units = 4;
    CU_ASSERT_FATAL(make(&g, "none", 1 << 18));
    CU_ASSERT_EQUAL(sim_replay(g.t, &d, NULL, &o, &all), SIM_OK);
    CU_ASSERT_EQUAL(all.l2_error, 0);
    for (o.sample = 2; o.sample <= 64; o.sample *= 2) {
        CU_ASSERT_EQUAL(sim_replay(g.t, &d, NULL, &o, &some), SIM_OK);
        double off = sim_rate(some.l2) - sim_rate(all.l2);
        CU_ASSERT(some.l2_error < 0.02);
        CU_ASSERT(off < 5 * some.l2_error + 1e-3 && -off < 5 * some.l2_error + 1e-3);
        CU_ASSERT(some.l2.accesses > 0.9 * all.l2.accesses && some.l2.accesses < 1.1 * all.l2.accesses);
    }
    session_free(&g.s);
}

/* Program i of 256 reads rows [8 i - 1, 8 i + 9) of 1 KiB: two of ten are the neighbour's too. 4 chiplets in
 * turn share nothing, `chunk:64` puts neighbours on one: whole lines say so, and the quick form, which cuts
 * windows at places of the tensor, must too. */
static const char halos[] =
    "kernel @k {\n  dim #0 = 2048\n  dim #1 = 256\n  in %%X.0: tensor<f32, 2> [#0, #1]\n"
    "  grid (%%v.2: tensor<f32, 2>) {\n    %%v.4 = const 256 : index\n    yield %%v.4\n  }\n"
    "  body {\n    %%v.6 = program_id {axis = 0} : index\n    %%v.7 = const 8 : index\n    %%v.8 = mul "
    "%%v.6, %%v.7 : index\n    %%v.9 = const 1 : index\n    %%v.10 = sub %%v.8, %%v.9 : index\n"
    "    %%v.11 = const 0 : index\n    %%v.12 = load %%X.0[%%v.10, %%v.11] {extents = [10, 256]} : f32[10, "
    "256]\n    return\n  }\n}\n";

static void test_halos(void)
{
    double missed[2][2];
    for (int placed = 0; placed < 2; placed++) {
        Grid g;
        CU_ASSERT_FATAL(make_of(&g, halos, placed ? "chunk:64" : "none", 0));
        for (int quick = 0; quick < 2; quick++) {
            SimResult r;
            SimOptions o = { .sample = 1, .windows = quick, .alloc = allocator_libc };
            CU_ASSERT_EQUAL(sim_replay(g.t, &tiny, g.remap, &o, &r), SIM_OK);
            CU_ASSERT(fabs(r.l2.accesses - 255.875 * 80) <= 16); /* the first and the last one lack a row */
            missed[placed][quick] = r.l2.accesses - r.l2.hits;
        }
        session_free(&g.s);
    }
    CU_ASSERT(missed[0][0] > 20000 && missed[0][1] > 20000);
    CU_ASSERT(missed[1][0] < 16800 && missed[1][1] < 17500);
}

/* Out of step: every line is still asked for once, the same every time, and no more of it hits. */
static void test_drift(void)
{
    Grid g;
    SimResult in_step, a, b;
    SimOptions o = { .sample = 1, .alloc = allocator_libc };
    CU_ASSERT_FATAL(make(&g, "none", 8192));
    CU_ASSERT_EQUAL(sim_replay(g.t, &tiny, NULL, &o, &in_step), SIM_OK);
    o.drift = 40;
    CU_ASSERT_EQUAL(sim_replay(g.t, &tiny, NULL, &o, &a), SIM_OK);
    CU_ASSERT_EQUAL(sim_replay(g.t, &tiny, NULL, &o, &b), SIM_OK);
    CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof a), 0);
    CU_ASSERT_EQUAL(a.l2.accesses, in_step.l2.accesses);
    CU_ASSERT(a.l2.hits <= in_step.l2.hits);
    session_free(&g.s);
}

/* --- devices ----------------------------------------------------------------------------------------- */

static void check_device(const char *text, const char *error)
{
    Session s;
    SimDevice d;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        bool ok = sim_device_parse(&s, diag_add_source(&s, "card.txt", NULL, text, strlen(text)), &d);
        CU_ASSERT_EQUAL(ok, error == NULL);
        CU_ASSERT_EQUAL(s.n_errors, error != NULL);
        if (error && s.diags && strcmp(s.diags->message, error)) {
            printf("got: %s\nnot: %s\n", s.diags->message, error);
            CU_FAIL("another message");
        }
        if (!error)
            CU_ASSERT(d.chiplets == 1 && d.units == 40 && d.l2_bytes == 8 << 20 && d.memory_tbs == 1.6 &&
                      !strcmp(d.name, "mi210ish"));
    }
    session_free(&s);
}

static void test_devices(void)
{
    check_device("# one die\nlike = mi300x\nname = mi210ish\nchiplets = 1   # no more\nunits=40\nl2_kib = "
                 "8192\n\nmemory_tbs = 1.6",
        NULL);
    check_device("chiplets = 8", "units is missing (or `like = mi300x` before what differs)");
    check_device("like = mi300x\nchiplets = many", "chiplets wants a whole number from 1 to 255, not `many`");
    check_device("like = mi300x\nchiplets = 2.5", "chiplets wants a whole number from 1 to 255, not `2.5`");
    check_device("like = mi300x\nmemory_tbs = -1", "memory_tbs wants a number from 0 to 1e+06, not `-1`");
    check_device("like = mi300x\nmemory_tbs = 0", "memory_tbs wants a number from 0 to 1e+06, not `0`");
    check_device("like = mi300x\nline = 96", "a line of 96 bytes is no power of two");
    check_device("like = mi300x\nl2_kib = 3", "L2 of 3072 bytes are no whole sets of 16 ways of 128 bytes");
    check_device("like = mi999", "there is no device `mi999`");
    check_device("units = 3\nlike = mi300x", "`like` goes before what differs");
    check_device("like = mi300x\ncolour = red", "a device has no `colour` (docs/sim.md lists the keys)");
    check_device("like = mi300x\nunits 3", "expected `=` after units");
    check_device("like = mi300x\nunits =", "units has no value");
    check_device("like = mi300x\nunits = 3 4", "one value a line");
    check_device("like = mi300x\n= 4", "expected `key = value`");
    for (size_t k = 0; sim_device_at(k); k++)
        CU_ASSERT_PTR_EQUAL(sim_device_find(sim_device_at(k)->name), sim_device_at(k));
    CU_ASSERT_PTR_EQUAL(sim_device_of(target_find("hip:gfx942")), sim_device_find("mi300x"));
    CU_ASSERT_PTR_NULL(sim_device_of(target_find("cuda:sm_90a")));
}

/* --- memory that runs out ---------------------------------------------------------------------------- */

typedef struct Meter {
    int64_t left, bytes;
} Meter;
static void *metered(void *user, void *p, size_t old, size_t n)
{
    Meter *m = user;
    if (n && m->left-- <= 0) return NULL;
    m->bytes += (int64_t)n - (int64_t)old;
    return allocator_libc.realloc(NULL, p, old, n);
}

static void test_no_memory(void)
{
    Grid g;
    SimResult r;
    CU_ASSERT_FATAL(make(&g, "head", 64));
    SimStatus st = SIM_NO_MEMORY;
    for (int64_t n = 0; st == SIM_NO_MEMORY && n < 1000; n++) {
        Meter m = { n, 0 };
        SimOptions o = { .sample = 1, .alloc = { metered, &m } };
        st = sim_replay(g.t, &tiny, g.remap, &o, &r);
        CU_ASSERT_EQUAL(m.bytes, 0);
    }
    CU_ASSERT_EQUAL(st, SIM_OK);
    session_free(&g.s);
}

UNIT_MAIN("sim", { "lru", test_lru }, { "sets", test_sets }, { "placement", test_placement },
    { "sampling", test_sampling }, { "drift", test_drift }, { "halos", test_halos },
    { "devices", test_devices }, { "no_memory", test_no_memory })
