/* hip_machine.c: fibers, collectives and the launch of the emulated workgroup. See hip_machine.h. */
#include "tests/emu/hip_group.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int hip_line;
HipGroup hip_group;

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
    hip_group.now = to;
    hip_switch(from < 0 ? &hip_group.main_sp : &hip_group.lanes[from].sp, hip_group.lanes[to].sp);
}
static void to_main(int from) { hip_switch(&hip_group.lanes[from].sp, hip_group.main_sp); }
#else
static void to_lane(int from, int to)
{
    hip_group.now = to;
    swapcontext(from < 0 ? &hip_group.main : &hip_group.lanes[from].context, &hip_group.lanes[to].context);
}
static void to_main(int from) { swapcontext(&hip_group.lanes[from].context, &hip_group.main); }
#endif

void hip_fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = snprintf(hip_group.error, sizeof hip_group.error,
        "workgroup %lld thread %d: ", (long long)hip_group.block, hip_group.now);
    if (hip_line)
        n += snprintf(hip_group.error + n, sizeof hip_group.error - (size_t)n, "line %d: ", hip_line);
    vsnprintf(hip_group.error + n, sizeof hip_group.error - (size_t)n, format, ap);
    va_end(ap);
    hip_group.failed = true;
    to_main(hip_group.now);
    abort();
}

void hip_look(const void *p)
{
    static const void *last;
    static int lane, looks;
    looks = p == last && lane == hip_group.now ? looks + 1 : 0;
    last = p;
    lane = hip_group.now;
    if (looks > 100000) {
        looks = 0;
        hip_fail("deadlock: an atomic at %p waits for a value that nobody writes", p);
    }
}

/* The next lane that can run: of this wave first. -1: none. */
static int next_lane(void)
{
    int own = hip_group.lanes[hip_group.now].wave;
    for (int k = 0; k < hip_group.n_waves; k++) {
        int w = hip_group.run.backwards ? (own + hip_group.n_waves - k) % hip_group.n_waves
                                        : (own + k) % hip_group.n_waves;
        Wave *v = &hip_group.wave[w];
        if (!v->live || v->waiting == v->live) continue;
        for (int j = 1; j <= v->n; j++) {
            int at = hip_group.run.backwards ? (v->last + v->n - j) % v->n : (v->last + j) % v->n;
            if (hip_group.lanes[v->first + at].state != RUNS) continue;
            v->last = at;
            return v->first + at;
        }
    }
    return -1;
}

static void deadlock(void)
{
    const char *what[2] = { NULL, NULL };
    int count[2] = { 0, 0 }, first[2] = { 0, 0 };
    for (int t = 0; t < hip_group.run.threads; t++) {
        if (hip_group.lanes[t].state == ENDED) continue;
        int k = !what[0] || !strcmp(what[0], hip_group.lanes[t].what) ? 0 : 1;
        if (!what[k]) {
            what[k] = hip_group.lanes[t].what;
            first[k] = t;
        }
        count[k]++;
    }
    snprintf(hip_group.error, sizeof hip_group.error,
        "workgroup %lld: deadlock: %d threads (the first is %d) wait in %s, %d in %s, %d have ended",
        (long long)hip_group.block, count[0], first[0], what[0] ? what[0] : "nothing", count[1],
        what[1] ? what[1] : "others", hip_group.run.threads - count[0] - count[1]);
    hip_group.failed = true;
}

static void yield(void)
{
    int from = hip_group.now, to = next_lane();
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
    if (v->live != hip_group.run.wave) hip_fail("%s in a wave of %d lanes", v->what, v->live);
    for (int i = 0; i < v->n; i++) {
        const Lane *l = &hip_group.lanes[v->first + i];
        d[i] = l->d;
        a[i] = l->a;
        b[i] = l->b;
    }
    if (!hip_mma_wave(hip_group.run.chip, v->what, v->n, d, a, b))
        hip_fail("gfx%x has no %s", hip_group.run.chip, v->what);
}

static void exchange(Wave *v)
{
    uint64_t *table = v->table[++v->exchanges & 1];
    v->active = 0;
    for (int i = 0; i < v->n; i++) {
        const Lane *l = &hip_group.lanes[v->first + i];
        table[i] = l->state == ENDED ? 0 : l->slot;
        if (l->state != ENDED) v->active |= 1ull << i;
    }
}

static void wave_barrier(Wave *v) { v->sync++; }

static void open_wave(Wave *v);

void hip_meet(const char *what, void (*act)(Wave *))
{
    Lane *l = &hip_group.lanes[hip_group.now];
    Wave *v = &hip_group.wave[l->wave];
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
        if (hip_group.lanes[v->first + i].state == IN_WAVE) hip_group.lanes[v->first + i].state = RUNS;
}

const uint64_t *hip_exchange(const char *what, uint64_t mine, uint64_t *active)
{
    Lane *l = &hip_group.lanes[hip_group.now];
    Wave *v = &hip_group.wave[l->wave];
    l->slot = mine;
    hip_meet(what, exchange);
    if (active) *active = v->active;
    return v->table[v->exchanges & 1];
}

void hip_wave_barrier(void) { hip_meet("wave_barrier", wave_barrier); }

void hip_mma(const char *name, void *d, const void *a, const void *b)
{
    Lane *l = &hip_group.lanes[hip_group.now];
    l->d = d;
    l->a = a;
    l->b = b;
    hip_meet(name, product);
}

static void open_block(void)
{
    hip_group.at_barrier = 0;
    hip_group.epoch++;
    for (int t = 0; t < hip_group.run.threads; t++) {
        Lane *l = &hip_group.lanes[t];
        l->fence_at_barrier = l->fence;
        l->memory_fence_at_barrier = l->memory_fence;
        if (l->state == AT_BARRIER) {
            l->state = RUNS;
            hip_group.wave[l->wave].waiting = 0;
        }
    }
}

void hip_barrier(void)
{
    Lane *l = &hip_group.lanes[hip_group.now];
    Wave *v = &hip_group.wave[l->wave];
    if (v->waiting && l->state != AT_BARRIER && strcmp(v->what, "s_barrier"))
        hip_fail("a lane of wave %d comes to s_barrier, others to %s", l->wave, v->what);
    v->what = l->what = "s_barrier";
    l->state = AT_BARRIER;
    v->waiting++;
    if (++hip_group.at_barrier == hip_group.live) open_block();
    else yield();
}

void hip_fence(void) { hip_group.lanes[hip_group.now].fence++; }
void hip_memory_fence(void) { hip_group.lanes[hip_group.now].memory_fence++; }

/* --- a launch ---------------------------------------------------------------------------------------- */

int hip_thread(void) { return hip_group.now; }
int64_t hip_block(void) { return hip_group.block; }
int64_t hip_blocks(void) { return hip_group.run.blocks; }
int hip_threads(void) { return hip_group.run.threads; }

static void lane_main(void)
{
    hip_group.run.body(hip_group.run.user);
    Lane *l = &hip_group.lanes[hip_group.now];
    Wave *v = &hip_group.wave[l->wave];
    if (l->n_loads) hip_fail("the kernel ends with loads to LDS in flight");
    l->state = ENDED;
    v->live--;
    hip_group.live--;
    if (v->live && v->waiting == v->live && strcmp(v->what, "s_barrier")) open_wave(v);
    if (hip_group.live && hip_group.at_barrier == hip_group.live) open_block();
    if (!hip_group.live) to_main(hip_group.now);
    yield();
    abort();
}

static void start_lane(int t)
{
    Lane *l = &hip_group.lanes[t];
    uint8_t *top = hip_group.stacks + (size_t)(t + 1) * STACK;
#ifdef __x86_64__
    void **sp = (void **)top;
    *--sp = NULL; /* The return address of lane_main, which keeps the stack aligned as a call would. */
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
    l->wave = (uint16_t)(t / hip_group.run.wave);
    l->what = NULL;
    l->fence = l->memory_fence = 1;
    l->memory_fence_at_barrier = l->fence_at_barrier = l->n_loads = l->issues = 0;
}

static bool run_block(void)
{
    memset(hip_group.lds, 0xff, hip_group.run.lds_bytes);
    hip_group.n_waves = (hip_group.run.threads + hip_group.run.wave - 1) / hip_group.run.wave;
    hip_group.live = hip_group.run.threads;
    hip_group.at_barrier = 0;
    hip_group.first_epoch = ++hip_group.epoch;
    for (int w = 0; w < hip_group.n_waves; w++) {
        int first = w * hip_group.run.wave, n = hip_group.run.threads - first < hip_group.run.wave
                                                    ? hip_group.run.threads - first
                                                    : hip_group.run.wave;
        hip_group.wave[w] =
            (Wave){ .first = first, .n = n, .live = n, .last = hip_group.run.backwards ? 0 : n - 1 };
    }
    for (int t = 0; t < hip_group.run.threads; t++) start_lane(t);
    hip_group.now = hip_group.run.backwards ? hip_group.run.threads - 1 : 0;
    hip_group.wave[hip_group.lanes[hip_group.now].wave].last =
        hip_group.now - hip_group.wave[hip_group.lanes[hip_group.now].wave].first;
    to_lane(-1, hip_group.now);
    return !hip_group.failed;
}

const char *hip_run(const HipRun *run)
{
    hip_group.run = *run;
    if (!hip_group.run.granule) hip_group.run.granule = 1;
    hip_group.failed = false;
    *hip_group.error = 0;
    if (!hip_group.lanes) {
        hip_group.lanes = calloc(MAX_LANES, sizeof *hip_group.lanes);
        hip_group.granules = calloc(LDS_MAX, sizeof *hip_group.granules);
        hip_group.lds = aligned_alloc(1024, LDS_MAX);
        hip_group.cells = calloc(CELLS, sizeof *hip_group.cells);
        hip_group.stacks = mmap(NULL, (size_t)MAX_LANES * STACK, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!hip_group.lanes || !hip_group.granules || !hip_group.lds || !hip_group.cells ||
            hip_group.stacks == MAP_FAILED)
            return "out of memory";
    }
    if (run->threads < 1 || run->threads > MAX_LANES || run->lds_bytes > LDS_MAX ||
        (run->wave != 32 && run->wave != 64))
        return "a launch that no chip takes";
    for (int k = 0; k < CELLS; k++) hip_group.cells[k].block = -1;
    hip_line = 0;
    for (int64_t b = 0; b < run->blocks; b++) {
        hip_group.block = run->backwards ? run->blocks - 1 - b : b;
        if (!run_block()) return hip_group.error;
    }
    return NULL;
}
