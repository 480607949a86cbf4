/* hip_machine.c: fibers, collectives, LDS with its shadow, loads to LDS. See hip_machine.h. */
#include "tests/emu/hip_machine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
        fence_at_barrier; /* how often its LDS accesses were waited for, and at the last barrier */
    uint32_t memory_fence, memory_fence_at_barrier;
    uint32_t n_loads, issues;
    Load loads[LOADS];
} Lane;

typedef struct Wave {
    int first, n, live, waiting, turn;
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
} Granule;

/* A word of memory that this workgroup wrote. */
typedef struct Cell {
    uintptr_t at;
    int64_t block;
    uint32_t epoch, sync, fence;
    uint16_t writer;
} Cell;

int hip_line;

static struct {
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
} m;

/* --- switching --------------------------------------------------------------------------------------- */

#ifdef __x86_64__
void hip_switch(void **save, void *load);
__asm__(
    ".text\n.globl hip_switch\n.hidden hip_switch\n.type hip_switch,@function\nhip_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size hip_switch,.-hip_switch\n");
static void to_lane(int from, int to)
{
    m.now = to;
    hip_switch(from < 0 ? &m.main_sp : &m.lanes[from].sp, m.lanes[to].sp);
}
static void to_main(int from) { hip_switch(&m.lanes[from].sp, m.main_sp); }
#else
static void to_lane(int from, int to)
{
    m.now = to;
    swapcontext(from < 0 ? &m.main : &m.lanes[from].context, &m.lanes[to].context);
}
static void to_main(int from) { swapcontext(&m.lanes[from].context, &m.main); }
#endif

void hip_fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = snprintf(m.error, sizeof m.error, "workgroup %lld thread %d: ", (long long)m.block, m.now);
    if (hip_line) n += snprintf(m.error + n, sizeof m.error - (size_t)n, "line %d: ", hip_line);
    vsnprintf(m.error + n, sizeof m.error - (size_t)n, format, ap);
    va_end(ap);
    m.failed = true;
    to_main(m.now);
    abort();
}

/* The next lane that can run: of this wave first. -1: none. */
static int next_lane(void)
{
    int own = m.lanes[m.now].wave;
    for (int k = 0; k < m.n_waves; k++) {
        int w = m.run.backwards ? (own + m.n_waves - k) % m.n_waves : (own + k) % m.n_waves;
        Wave *v = &m.wave[w];
        if (!v->live || v->waiting == v->live) continue;
        for (int j = 1; j <= v->n; j++) {
            int at = m.run.backwards ? (v->turn + v->n - j) % v->n : (v->turn + j) % v->n;
            if (m.lanes[v->first + at].state != RUNS) continue;
            v->turn = at;
            return v->first + at;
        }
    }
    return -1;
}

static void deadlock(void)
{
    const char *what[2] = { NULL, NULL };
    int count[2] = { 0, 0 }, first[2] = { 0, 0 };
    for (int t = 0; t < m.run.threads; t++) {
        if (m.lanes[t].state == ENDED) continue;
        int k = !what[0] || !strcmp(what[0], m.lanes[t].what) ? 0 : 1;
        if (!what[k]) {
            what[k] = m.lanes[t].what;
            first[k] = t;
        }
        count[k]++;
    }
    snprintf(m.error, sizeof m.error,
        "workgroup %lld: deadlock: %d threads (the first is %d) wait in %s, %d in %s, %d have ended",
        (long long)m.block, count[0], first[0], what[0] ? what[0] : "nothing", count[1],
        what[1] ? what[1] : "others", m.run.threads - count[0] - count[1]);
    m.failed = true;
}

static void yield(void)
{
    int from = m.now, to = next_lane();
    if (to < 0) {
        deadlock();
        to_main(from);
        abort();
    }
    if (to != from) to_lane(from, to);
}

/* --- collectives ------------------------------------------------------------------------------------- */

static void product(Wave *v)
{
    void *d[64];
    const void *a[64], *b[64];
    if (v->live != m.run.wave) hip_fail("%s in a wave of %d lanes", v->what, v->live);
    for (int i = 0; i < v->n; i++) {
        const Lane *l = &m.lanes[v->first + i];
        d[i] = l->d;
        a[i] = l->a;
        b[i] = l->b;
    }
    if (!hip_mma_wave(m.run.chip, v->what, v->n, d, a, b)) hip_fail("gfx%x has no %s", m.run.chip, v->what);
}

static void exchange(Wave *v)
{
    uint64_t *table = v->table[++v->exchanges & 1];
    v->active = 0;
    for (int i = 0; i < v->n; i++) {
        const Lane *l = &m.lanes[v->first + i];
        table[i] = l->state == ENDED ? 0 : l->slot;
        if (l->state != ENDED) v->active |= 1ull << i;
    }
}

static void wave_barrier(Wave *v) { v->sync++; }

static void open_wave(Wave *v);

/* The last lane to come does `act` for all. */
static void meet(const char *what, void (*act)(Wave *))
{
    Lane *l = &m.lanes[m.now];
    Wave *v = &m.wave[l->wave];
    if (v->waiting && strcmp(v->what, what))
        hip_fail("a lane of wave %d comes to %s, others to %s", l->wave, what, v->what);
    v->what = l->what = what;
    v->act = act;
    l->state = IN_WAVE;
    v->waiting++;
    if (v->waiting == v->live) open_wave(v);
    else yield();
}

static void open_wave(Wave *v)
{
    v->waiting = 0;
    v->act(v);
    for (int i = 0; i < v->n; i++)
        if (m.lanes[v->first + i].state == IN_WAVE) m.lanes[v->first + i].state = RUNS;
}

const uint64_t *hip_exchange(const char *what, uint64_t mine, uint64_t *active)
{
    Lane *l = &m.lanes[m.now];
    Wave *v = &m.wave[l->wave];
    l->slot = mine;
    meet(what, exchange);
    if (active) *active = v->active;
    return v->table[v->exchanges & 1];
}

void hip_wave_barrier(void) { meet("wave_barrier", wave_barrier); }

void hip_mma(const char *name, void *d, const void *a, const void *b)
{
    Lane *l = &m.lanes[m.now];
    l->d = d;
    l->a = a;
    l->b = b;
    meet(name, product);
}

static void open_block(void)
{
    m.at_barrier = 0;
    m.epoch++;
    for (int t = 0; t < m.run.threads; t++) {
        Lane *l = &m.lanes[t];
        l->fence_at_barrier = l->fence;
        l->memory_fence_at_barrier = l->memory_fence;
        if (l->state == AT_BARRIER) {
            l->state = RUNS;
            m.wave[l->wave].waiting = 0;
        }
    }
}

void hip_barrier(void)
{
    Lane *l = &m.lanes[m.now];
    Wave *v = &m.wave[l->wave];
    if (v->waiting && l->state != AT_BARRIER && strcmp(v->what, "s_barrier"))
        hip_fail("a lane of wave %d comes to s_barrier, others to %s", l->wave, v->what);
    v->what = l->what = "s_barrier";
    l->state = AT_BARRIER;
    v->waiting++;
    if (++m.at_barrier == m.live) open_block();
    else yield();
}

void hip_fence(void) { m.lanes[m.now].fence++; }
void hip_memory_fence(void) { m.lanes[m.now].memory_fence++; }

/* --- LDS --------------------------------------------------------------------------------------------- */

static void place(uint32_t a, uint32_t bytes)
{
    if (bytes < m.run.granule)
        hip_fail("an access of %u bytes, less than the smallest that was announced", bytes);
    if (a % bytes) hip_fail("a misaligned access of %u bytes to LDS byte %u", bytes, a);
    if (a + bytes > m.run.lds_bytes)
        hip_fail("an access of %u bytes to LDS byte %u of %u", bytes, a, m.run.lds_bytes);
}

static void race(const char *what, const char *other, uint32_t at, int thread, const char *why)
{
    const Lane *l = &m.lanes[m.now];
    if (thread == MANY)
        hip_fail(
            "race on LDS word %u: wave %d %s what other waves %s, %s", at / 4, l->wave, what, other, why);
    hip_fail("race on LDS word %u: wave %d %s what thread %d of wave %d %s, %s", at / 4, l->wave, what,
        thread, m.lanes[thread].wave, other, why);
}

static void check_writer(const Granule *w, uint32_t at, const char *what)
{
    const Lane *l = &m.lanes[m.now];
    if (w->w_epoch < m.first_epoch || w->writer == l->id) return;
    const Lane *o = &m.lanes[w->writer];
    if (w->w_epoch == m.epoch && o->wave != l->wave && w->w_waves >> l->wave & 1) return;
    if (o->wave == l->wave) {
        if (w->w_epoch == m.epoch && w->w_sync == m.wave[l->wave].sync)
            race(what, "wrote", at, w->writer, "no wave_barrier between");
    } else if (w->w_epoch == m.epoch) race(what, "wrote", at, w->writer, "no barrier between");
    else if (w->w_fence >= o->fence_at_barrier)
        race(what, "wrote", at, w->writer, "which came to the barrier without waiting for its LDS");
}

static void check_reader(const Granule *w, uint32_t at)
{
    const Lane *l = &m.lanes[m.now];
    if (w->r_epoch != m.epoch) return;
    if (w->reader == MANY || m.lanes[w->reader].wave != l->wave)
        race("writes", "read", at, w->reader, "no barrier between");
    if ((w->reader != l->id || w->r_lanes) && w->r_sync == m.wave[l->wave].sync)
        race("writes", "read", at, w->reader, "no wave_barrier between");
}

static void note_read(Granule *w)
{
    const Lane *l = &m.lanes[m.now];
    uint32_t sync = m.wave[l->wave].sync;
    if (w->r_epoch != m.epoch) {
        w->r_epoch = m.epoch;
        w->reader = l->id;
        w->r_lanes = false;
        w->r_sync = sync;
    } else if (w->reader == MANY) {
    } else if (m.lanes[w->reader].wave != l->wave) w->reader = MANY;
    else if (w->r_sync != sync) {
        w->reader = l->id;
        w->r_lanes = false;
        w->r_sync = sync;
    } else if (w->reader != l->id) w->r_lanes = true;
}

static void note_write(Granule *w, uint32_t fence, bool again)
{
    const Lane *l = &m.lanes[m.now];
    w->w_waves = (again && w->w_epoch == m.epoch ? w->w_waves : 0) | 1u << l->wave;
    w->w_epoch = m.epoch;
    w->w_sync = m.wave[l->wave].sync;
    w->w_fence = fence;
    w->writer = l->id;
    w->flying = false;
}

void hip_lds_load(void *to, uint32_t a, uint32_t bytes)
{
    place(a, bytes);
    for (uint32_t at = a; at < a + bytes; at += m.run.granule) {
        Granule *w = &m.granules[at / m.run.granule];
        if (w->w_epoch < m.first_epoch) hip_fail("LDS word %u is read and nobody wrote it", at / 4);
        if (w->flying) hip_fail("LDS word %u is read while the load that fills it is in flight", at / 4);
        check_writer(w, at, "reads");
        note_read(w);
    }
    memcpy(to, m.lds + a, bytes);
}

/* Writing what is there already is no race: copies of an element are stored by all who hold it, each for
 * itself. */
static void store(uint32_t a, const void *from, uint32_t bytes, uint32_t fence)
{
    const uint8_t *p = from;
    uint32_t step = m.run.granule;
    for (uint32_t at = a; at < a + bytes; at += step) {
        Granule *w = &m.granules[at / step];
        bool again =
            p && w->w_epoch >= m.first_epoch && !w->flying && !memcmp(m.lds + at, p + (at - a), step);
        if (!again) {
            check_reader(w, at);
            check_writer(w, at, "writes");
        }
        note_write(w, fence, again);
        w->flying = !p;
    }
    if (p) memcpy(m.lds + a, p, bytes);
    else memset(m.lds + a, 0xff, bytes);
}

void hip_lds_store(uint32_t a, const void *from, uint32_t bytes)
{
    place(a, bytes);
    store(a, from, bytes, m.lanes[m.now].fence);
}

static void arrive(const Load *x)
{
    /* done when the counter says so: no other wait is needed */
    store(x->at, x->from, x->bytes, m.lanes[m.now].fence - 1);
}

void hip_load_lds(const void *from, uint32_t base, uint32_t bytes)
{
    Lane *l = &m.lanes[m.now];
    uint32_t at = base + (uint32_t)(l->id - m.wave[l->wave].first) * bytes;
    place(at, bytes);
    if ((uintptr_t)from % bytes) hip_fail("a load of %u bytes to LDS from a misaligned address", bytes);
    Load x = { at, bytes, l->issues++, from };
    if (!m.run.late) {
        arrive(&x);
        return;
    }
    store(at, NULL, bytes, l->fence - 1);
    if (l->n_loads == LOADS) hip_fail("more loads to LDS in flight than the emulator holds");
    l->loads[l->n_loads++] = x;
}

/* Counted by wave. Where lanes left some out (a mask), the number outstanding is not known here: all are
 * done. */
static void loads_done(Wave *v)
{
    bool even = true;
    for (int i = 1; i < v->n; i++) even &= m.lanes[v->first + i].issues == m.lanes[v->first].issues;
    int now = m.now;
    for (int i = 0; i < v->n; i++) {
        Lane *l = &m.lanes[v->first + i];
        uint32_t kept = 0;
        m.now = v->first + i;
        for (uint32_t k = 0; k < l->n_loads; k++) {
            if (!even || l->loads[k].issue + v->outstanding < l->issues) arrive(&l->loads[k]);
            else l->loads[kept++] = l->loads[k];
        }
        l->n_loads = kept;
    }
    m.now = now;
}

void hip_wait_loads(uint32_t outstanding)
{
    Lane *l = &m.lanes[m.now];
    m.wave[l->wave].outstanding = outstanding;
    meet("wait_loads", loads_done);
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* The cell of a word, or the free one it would have; NULL when the table is full: then nothing more is
 * watched. */
static Cell *cell_of(uintptr_t word)
{
    for (uint32_t k = 0, h = (uint32_t)(word * 0x9e3779b97f4a7c15u >> 40) & (CELLS - 1); k < 64;
        k++, h = (h + 1) & (CELLS - 1))
        if (m.cells[h].block != m.block || m.cells[h].at == word) return &m.cells[h];
    return NULL;
}

void hip_memory(const void *p, size_t bytes, bool write)
{
    const Lane *l = &m.lanes[m.now];
    uint32_t sync = m.wave[l->wave].sync;
    for (uintptr_t word = (uintptr_t)p / 4; word <= ((uintptr_t)p + bytes - 1) / 4; word++) {
        Cell *c = cell_of(word);
        if (!c) continue;
        if (write) {
            *c = (Cell){ word, m.block, m.epoch, sync, l->memory_fence, l->id };
            continue;
        }
        if (c->block != m.block || c->writer == l->id || bytes < 4)
            continue; /* neighbours of small elements share a word */
        const Lane *o = &m.lanes[c->writer];
        if (o->wave == l->wave ? c->epoch == m.epoch && c->sync == sync
                               : c->epoch == m.epoch || c->fence >= o->memory_fence_at_barrier)
            hip_fail("race in memory: wave %d reads what thread %d of wave %d wrote, with no fence and "
                     "barrier between",
                l->wave, c->writer, o->wave);
    }
}

/* --- a launch ---------------------------------------------------------------------------------------- */

int hip_thread(void) { return m.now; }
int64_t hip_block(void) { return m.block; }
int64_t hip_blocks(void) { return m.run.blocks; }
int hip_threads(void) { return m.run.threads; }

static void lane_main(void)
{
    m.run.body(m.run.user);
    Lane *l = &m.lanes[m.now];
    Wave *v = &m.wave[l->wave];
    if (l->n_loads) hip_fail("the kernel ends with loads to LDS in flight");
    l->state = ENDED;
    v->live--;
    m.live--;
    if (v->live && v->waiting == v->live && strcmp(v->what, "s_barrier")) open_wave(v);
    if (m.live && m.at_barrier == m.live) open_block();
    if (!m.live) to_main(m.now);
    yield();
    abort();
}

static void start_lane(int t)
{
    Lane *l = &m.lanes[t];
    uint8_t *top = m.stacks + (size_t)(t + 1) * STACK;
#ifdef __x86_64__
    void **sp = (void **)top;
    *--sp = NULL; /* where lane_main would return to; keeps the stack aligned as a call would */
    *--sp = (void *)lane_main;
    sp -= 6;
    memset(sp, 0, 6 * sizeof *sp);
    l->sp = sp;
#else
    getcontext(&l->context);
    l->context.uc_stack.ss_sp = top - STACK;
    l->context.uc_stack.ss_size = STACK;
    l->context.uc_link = NULL;
    makecontext(&l->context, lane_main, 0);
#endif
    l->state = RUNS;
    l->id = (uint16_t)t;
    l->wave = (uint16_t)(t / m.run.wave);
    l->what = NULL;
    l->fence = l->memory_fence = 1;
    l->memory_fence_at_barrier = l->fence_at_barrier = l->n_loads = l->issues = 0;
}

static bool run_block(void)
{
    memset(m.lds, 0xff, m.run.lds_bytes);
    m.n_waves = (m.run.threads + m.run.wave - 1) / m.run.wave;
    m.live = m.run.threads;
    m.at_barrier = 0;
    m.first_epoch = ++m.epoch;
    for (int w = 0; w < m.n_waves; w++) {
        int first = w * m.run.wave,
            n = m.run.threads - first < m.run.wave ? m.run.threads - first : m.run.wave;
        m.wave[w] = (Wave){ .first = first, .n = n, .live = n, .turn = m.run.backwards ? 0 : n - 1 };
    }
    for (int t = 0; t < m.run.threads; t++) start_lane(t);
    m.now = m.run.backwards ? m.run.threads - 1 : 0;
    m.wave[m.lanes[m.now].wave].turn = m.now - m.wave[m.lanes[m.now].wave].first;
    to_lane(-1, m.now);
    return !m.failed;
}

const char *hip_run(const HipRun *run)
{
    m.run = *run;
    if (!m.run.granule) m.run.granule = 1;
    m.failed = false;
    *m.error = 0;
    if (!m.lanes) {
        m.lanes = calloc(MAX_LANES, sizeof *m.lanes);
        m.granules = calloc(LDS_MAX, sizeof *m.granules);
        m.lds = aligned_alloc(1024, LDS_MAX);
        m.cells = calloc(CELLS, sizeof *m.cells);
        m.stacks = mmap(NULL, (size_t)MAX_LANES * STACK, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!m.lanes || !m.granules || !m.lds || !m.cells || m.stacks == MAP_FAILED) return "out of memory";
    }
    if (run->threads < 1 || run->threads > MAX_LANES || run->lds_bytes > LDS_MAX ||
        (run->wave != 32 && run->wave != 64))
        return "a launch that no chip takes";
    for (int k = 0; k < CELLS; k++) m.cells[k].block = -1;
    hip_line = 0;
    for (int64_t b = 0; b < run->blocks; b++) {
        m.block = run->backwards ? run->blocks - 1 - b : b;
        if (!run_block()) return m.error;
    }
    return NULL;
}
