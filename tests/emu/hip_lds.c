/* hip_lds.c: accesses of the emulated workgroup (hip_machine.h) to LDS and to memory, loads to LDS, and the
 * shadow that knows of every granule who touched it last. */
#include "tests/emu/hip_group.h"
#include "tests/emu/nan_halves.h"
#include <string.h>

static void place(uint32_t a, uint32_t bytes)
{
    if (bytes < hip_group.run.granule)
        hip_fail("an access of %u bytes, less than the smallest that was announced", bytes);
    if (a % bytes) hip_fail("a misaligned access of %u bytes to LDS byte %u", bytes, a);
    if (a + bytes > hip_group.run.lds_bytes)
        hip_fail("an access of %u bytes to LDS byte %u of %u", bytes, a, hip_group.run.lds_bytes);
}

static void race(const char *what, const char *other, uint32_t at, int thread, const char *why)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    if (thread == MANY)
        hip_fail(
            "race on LDS word %u: wave %d %s what other waves %s, %s", at / 4, l->wave, what, other, why);
    hip_fail("race on LDS word %u: wave %d %s what thread %d of wave %d %s, %s", at / 4, l->wave, what,
        thread, hip_group.lanes[thread].wave, other, why);
}

static void check_writer(const Granule *w, uint32_t at, const char *what)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    if (w->w_epoch < hip_group.first_epoch || w->writer == l->id) return;
    const Lane *o = &hip_group.lanes[w->writer];
    if (w->w_epoch == hip_group.epoch && o->wave != l->wave && w->w_waves >> l->wave & 1 && !w->atomic)
        return;
    if (o->wave == l->wave) {
        if (w->w_epoch == hip_group.epoch && w->w_sync == hip_group.wave[l->wave].sync)
            race(what, "wrote", at, w->writer, "no wave_barrier between");
    } else if (w->w_epoch == hip_group.epoch) race(what, "wrote", at, w->writer, "no barrier between");
    else if (w->w_fence >= o->fence_at_barrier)
        race(what, "wrote", at, w->writer, "which came to the barrier without waiting for its LDS");
}

static void check_reader(const Granule *w, uint32_t at)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    if (w->r_epoch != hip_group.epoch) return;
    if (w->reader == MANY || hip_group.lanes[w->reader].wave != l->wave)
        race("writes", "read", at, w->reader, "no barrier between");
    if ((w->reader != l->id || w->r_lanes) && w->r_sync == hip_group.wave[l->wave].sync)
        race("writes", "read", at, w->reader, "no wave_barrier between");
}

static void note_read(Granule *w)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    uint32_t sync = hip_group.wave[l->wave].sync;
    if (w->r_epoch != hip_group.epoch) {
        w->r_epoch = hip_group.epoch;
        w->reader = l->id;
        w->r_lanes = false;
        w->r_sync = sync;
    } else if (w->reader == MANY) {
    } else if (hip_group.lanes[w->reader].wave != l->wave) w->reader = MANY;
    else if (w->r_sync != sync) {
        w->reader = l->id;
        w->r_lanes = false;
        w->r_sync = sync;
    } else if (w->reader != l->id) w->r_lanes = true;
}

static void note_write(Granule *w, uint32_t fence, bool again)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    w->w_waves = (again && w->w_epoch == hip_group.epoch ? w->w_waves : 0) | 1u << l->wave;
    w->w_epoch = hip_group.epoch;
    w->w_sync = hip_group.wave[l->wave].sync;
    w->w_fence = fence;
    w->writer = l->id;
    w->flying = w->atomic = false;
}

/* Atomics have no races with each other, but with all other accesses. */
void *hip_lds_atomic(uint32_t a, uint32_t bytes)
{
    place(a, bytes);
    for (uint32_t at = a; at < a + bytes; at += hip_group.run.granule) {
        Granule *w = &hip_group.granules[at / hip_group.run.granule];
        if (w->w_epoch < hip_group.first_epoch)
            hip_fail("LDS word %u is changed by an atomic and nobody wrote it", at / 4);
        if (w->flying) hip_fail("LDS word %u is changed while the load that fills it is in flight", at / 4);
        bool again = w->atomic && w->w_epoch == hip_group.epoch;
        check_reader(w, at);
        if (!again) check_writer(w, at, "changes");
        note_write(w, hip_group.lanes[hip_group.now].fence, again);
        w->atomic = true;
    }
    return hip_group.lds + a;
}

void hip_lds_load(void *to, uint32_t a, uint32_t bytes)
{
    place(a, bytes);
    for (uint32_t at = a; at < a + bytes; at += hip_group.run.granule) {
        Granule *w = &hip_group.granules[at / hip_group.run.granule];
        if (w->w_epoch < hip_group.first_epoch) hip_fail("LDS word %u is read and nobody wrote it", at / 4);
        if (w->flying) hip_fail("LDS word %u is read while the load that fills it is in flight", at / 4);
        check_writer(w, at, "reads");
        note_read(w);
    }
    memcpy(to, hip_group.lds + a, bytes);
}

/* Writing what is there already is no race: copies of an element are stored by all who hold it, each for
 * itself. */
static void store(uint32_t a, const void *from, uint32_t bytes, uint32_t fence)
{
    const uint8_t *p = from;
    uint32_t step = hip_group.run.granule, unit = bytes < 4 ? bytes : 4; /* of a value */
    for (uint32_t at = a; at < a + bytes; at += step) {
        Granule *w = &hip_group.granules[at / step];
        uint32_t value = (at - a) / unit * unit;
        bool again = p && w->w_epoch >= hip_group.first_epoch && !w->flying &&
                     same_but_for_nan(hip_group.lds + a + value, p + value, step > unit ? step : unit);
        if (!again) {
            check_reader(w, at);
            check_writer(w, at, "writes");
        }
        note_write(w, fence, again);
        w->flying = !p;
    }
    if (p) memcpy(hip_group.lds + a, p, bytes);
    else memset(hip_group.lds + a, 0xff, bytes);
}

void hip_lds_store(uint32_t a, const void *from, uint32_t bytes)
{
    place(a, bytes);
    store(a, from, bytes, hip_group.lanes[hip_group.now].fence);
}

static void arrive(const Load *x)
{
    /* The access is complete when the counter says so; no other wait is needed. */
    store(x->at, x->from, x->bytes, hip_group.lanes[hip_group.now].fence - 1);
}

void hip_load_lds(const void *from, uint32_t base, uint32_t bytes)
{
    Lane *l = &hip_group.lanes[hip_group.now];
    uint32_t at = base + (uint32_t)(l->id - hip_group.wave[l->wave].first) * bytes;
    place(at, bytes);
    if ((uintptr_t)from % bytes) hip_fail("a load of %u bytes to LDS from a misaligned address", bytes);
    Load x = { at, bytes, l->issues++, from };
    if (!hip_group.run.late) {
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
    for (int i = 1; i < v->n; i++)
        even &= hip_group.lanes[v->first + i].issues == hip_group.lanes[v->first].issues;
    int now = hip_group.now;
    for (int i = 0; i < v->n; i++) {
        Lane *l = &hip_group.lanes[v->first + i];
        uint32_t kept = 0;
        hip_group.now = v->first + i;
        for (uint32_t k = 0; k < l->n_loads; k++) {
            if (!even || l->loads[k].issue + v->outstanding < l->issues) arrive(&l->loads[k]);
            else l->loads[kept++] = l->loads[k];
        }
        l->n_loads = kept;
    }
    hip_group.now = now;
}

void hip_wait_loads(uint32_t outstanding)
{
    Lane *l = &hip_group.lanes[hip_group.now];
    hip_group.wave[l->wave].outstanding = outstanding;
    hip_meet("wait_loads", loads_done);
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* The cell of a word, or the free one it would have; NULL when the table is full: then nothing more is
 * watched. */
static Cell *cell_of(uintptr_t word)
{
    for (uint32_t k = 0, h = (uint32_t)(word * 0x9e3779b97f4a7c15u >> 40) & (CELLS - 1); k < 64;
        k++, h = (h + 1) & (CELLS - 1))
        if (hip_group.cells[h].block != hip_group.block || hip_group.cells[h].at == word)
            return &hip_group.cells[h];
    return NULL;
}

void hip_memory(const void *p, size_t bytes, bool write)
{
    const Lane *l = &hip_group.lanes[hip_group.now];
    uint32_t sync = hip_group.wave[l->wave].sync;
    for (uintptr_t word = (uintptr_t)p / 4; word <= ((uintptr_t)p + bytes - 1) / 4; word++) {
        Cell *c = cell_of(word);
        if (!c) continue;
        if (write) {
            *c = (Cell){ word, hip_group.block, hip_group.epoch, sync, l->memory_fence, l->id };
            continue;
        }
        if (c->block != hip_group.block || c->writer == l->id || bytes < 4)
            continue; /* neighbours of small elements share a word */
        const Lane *o = &hip_group.lanes[c->writer];
        if (o->wave == l->wave ? c->epoch == hip_group.epoch && c->sync == sync
                               : c->epoch == hip_group.epoch || c->fence >= o->memory_fence_at_barrier)
            hip_fail("race in memory: wave %d reads what thread %d of wave %d wrote, with no fence and "
                     "barrier between",
                l->wave, c->writer, o->wave);
    }
}
