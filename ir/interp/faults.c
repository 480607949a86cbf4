/* faults.c: the record of a launch's accesses: see faults.h. faults_report.c puts it into words. Each element
 * has a bit that says whether it is stored, and a cell with the first program that stores it. Elements of
 * tensors that are read have two more cells, for two programs that read them: a program that stores conflicts
 * with any other reader, and one of two different readers is another one. */
#include "ir/interp/faults_impl.h"
#include <stdlib.h>

static uint64_t cell_of(const AccessSite *s, int64_t program)
{
    uint64_t site = s->index < FAULT_SITES ? s->index : FAULT_SITES - 1;
    return (uint64_t)(program + 1) | site << CELL_SITE;
}

static bool ordered(const Faults *f, int64_t earlier, int64_t later)
{
    return atomic_load_explicit(&f->sync[earlier], memory_order_relaxed) & SYNC_RELEASED &&
           atomic_load_explicit(&f->sync[later], memory_order_relaxed) & SYNC_ACQUIRED;
}

/* Counts each element once, and keeps the first. */
static void conflict(Faults *f, FaultTrack *t, int64_t at, bool read, uint64_t a, uint64_t b)
{
    uint64_t flag = read ? CELL_READ_SEEN : CELL_STORE_SEEN;
    FaultConflict *c = read ? &t->read : &t->store;
    if (atomic_fetch_or_explicit(&t->writer[at], flag, memory_order_relaxed) & flag) return;
    while (atomic_flag_test_and_set_explicit(&f->busy, memory_order_acquire)) {}
    if (!c->count++ || at < c->at) {
        c->at = at;
        c->a = a;
        c->b = b;
    }
    atomic_flag_clear_explicit(&f->busy, memory_order_release);
}

static void mark_stored(FaultTrack *t, int64_t at)
{
    uint64_t bit = (uint64_t)1 << (at & 63);
    _Atomic uint64_t *word = &t->stored[at >> 6];
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

static void store(Faults *f, FaultTrack *t, const AccessSite *s, int64_t program, int64_t at)
{
    mark_stored(t, at);
    if (!t->writer) return;
    uint64_t me = cell_of(s, program), old = atomic_load_explicit(&t->writer[at], memory_order_relaxed);
    while (!cell_program(old))
        if (atomic_compare_exchange_weak(&t->writer[at], &old, old | me)) break;
    if (cell_program(old) && cell_program(old) != program + 1 && !ordered(f, cell_program(old) - 1, program))
        conflict(f, t, at, false, old, me);
    for (int k = 0; k < 2 && t->reader[k]; k++) {
        uint64_t r = atomic_load(&t->reader[k][at]);
        if (cell_program(r) && cell_program(r) != program + 1 && !ordered(f, cell_program(r) - 1, program))
            conflict(f, t, at, true, r, me);
    }
}

static void read(Faults *f, FaultTrack *t, const AccessSite *s, int64_t program, int64_t at)
{
    uint64_t me = cell_of(s, program);
    for (int k = 0; k < 2 && t->reader[k]; k++) {
        uint64_t old = atomic_load_explicit(&t->reader[k][at], memory_order_relaxed);
        if (!old && atomic_compare_exchange_strong(&t->reader[k][at], &old, me)) break;
        if (cell_program(old) == program + 1) break;
    }
    if (!t->writer) return;
    uint64_t w = atomic_load(&t->writer[at]);
    if (cell_program(w) && cell_program(w) != program + 1 && !ordered(f, cell_program(w) - 1, program))
        conflict(f, t, at, true, me, w);
}

static void access_one(Faults *f, FaultTrack *t, const AccessSite *s, int64_t program, const char *address)
{
    int64_t at = (address - (const char *)t->tensor.data) / dtype_bytes(t->tensor.dtype) - t->lowest;
    if (!t->stored || at < 0 || at >= t->cells) return;
    switch ((AccessKind)s->kind) {
    case ACCESS_READ: read(f, t, s, program, at); return;
    case ACCESS_STORE: store(f, t, s, program, at); return;
    case ACCESS_ATOMIC: mark_stored(t, at); return;
    }
}

static void note_site(Faults *f, const AccessSite *s, int64_t program)
{
    f->sites[s->index < FAULT_SITES ? s->index : FAULT_SITES - 1] = s;
    if (s->kind != ACCESS_ATOMIC || s->order == SEM_RELAXED || !f->sync || program >= f->programs) return;
    int bits = (s->order != SEM_RELEASE ? SYNC_ACQUIRED : 0) | (s->order != SEM_ACQUIRE ? SYNC_RELEASED : 0);
    atomic_fetch_or(&f->sync[program], (unsigned char)bits);
}

static FaultTrack *track_of(Faults *f, const AccessSite *s, int64_t program)
{
    FaultTrack *t = s->param < (uint32_t)f->n ? &f->tracks[s->param] : NULL;
    note_site(f, s, program);
    return t && t->tensor.followed && program < f->programs ? t : NULL;
}

static void on_window(AccessSink *sink, const AccessSite *s, int64_t program, const AccessWindow *w)
{
    Faults *f = (Faults *)sink;
    FaultTrack *t = track_of(f, s, program);
    int64_t c[TILE_MAX_RANK];
    int last = (int)w->rank - 1;
    if (!t) return;
    for (int a = 0; a <= last; a++) {
        if (w->lo[a] >= w->hi[a]) return;
        c[a] = w->lo[a];
    }
    for (;;) {
        const char *p = w->base;
        for (int a = 0; a < last; a++) p += c[a] * w->stride[a];
        if (last < 0) access_one(f, t, s, program, p);
        else
            for (int64_t k = w->lo[last]; k < w->hi[last]; k++)
                access_one(f, t, s, program, p + k * w->stride[last]);
        int a = last - 1;
        for (; a >= 0 && ++c[a] >= w->hi[a]; a--) c[a] = w->lo[a];
        if (a < 0) return;
    }
}

static void on_element(AccessSink *sink, const AccessSite *s, int64_t program, const void *address)
{
    FaultTrack *t = track_of((Faults *)sink, s, program);
    if (t) access_one((Faults *)sink, t, s, program, address);
}

/* --- the beginning and the end ----------------------------------------------------------------------- */

/* The elements of memory from the lowest to the highest one, and the offset of the lowest. */
static void span(FaultTrack *t)
{
    int64_t reach = 0, by;
    bool far = false, some = true;
    for (int a = 0; a < t->tensor.rank; a++) {
        int64_t st = t->tensor.stride[a];
        some &= t->tensor.shape[a] > 0;
        if (!some || __builtin_mul_overflow(t->tensor.shape[a] - 1, st < 0 ? -st : st, &by)) far |= some;
        else {
            far |= __builtin_add_overflow(reach, by, &reach);
            if (st < 0) t->lowest -= by;
        }
    }
    t->cells = !some ? 0 : far || reach == INT64_MAX ? INT64_MAX : reach + 1;
}

static bool make_track(Faults *f, FaultTrack *t, int64_t *bits, int64_t *cells)
{
    span(t);
    if (t->cells > *bits) return true;
    *bits -= t->cells;
    t->stored = calloc((size_t)t->cells / 64 + 1, sizeof *t->stored);
    if (!t->stored) return false;
    if (!f->sync || t->cells > *cells) return true;
    *cells -= t->cells;
    t->writer = calloc((size_t)t->cells + 1, sizeof *t->writer);
    for (int k = 0; k < 2; k++) t->reader[k] = calloc((size_t)t->cells + 1, sizeof *t->reader[k]);
    return t->writer && t->reader[0] && t->reader[1];
}

Faults *faults_new(const FaultTensor *tensors, int n, int64_t programs)
{
    Faults *f = calloc(1, sizeof *f + (size_t)n * sizeof *f->tracks);
    int64_t bits = FAULTS_MOST_BITS, cells = FAULTS_MOST_CELLS;
    if (!f) return NULL;
    f->sink = (AccessSink){ on_window, on_element };
    f->n = n;
    f->programs = programs;
    atomic_flag_clear(&f->busy);
    if (programs <= FAULTS_MOST_PROGRAMS) f->sync = calloc((size_t)programs + 1, 1);
    bool ok = f->sync || programs > FAULTS_MOST_PROGRAMS;
    for (int i = 0; i < n; i++) {
        f->tracks[i].tensor = tensors[i];
        if (ok && tensors[i].followed) ok = make_track(f, &f->tracks[i], &bits, &cells);
    }
    if (ok) return f;
    faults_free(f);
    return NULL;
}

void faults_free(Faults *f)
{
    if (!f) return;
    for (int i = 0; i < f->n; i++) {
        free(f->tracks[i].stored);
        free(f->tracks[i].writer);
        free(f->tracks[i].reader[0]);
        free(f->tracks[i].reader[1]);
    }
    free(f->sync);
    free(f);
}

AccessSink *faults_sink(Faults *f) { return &f->sink; }
