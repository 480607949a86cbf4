/* async.c: copies that complete later: cp.async, mbarriers, TMA. PTX ISA 9.7.9.25 (cp.async, cp.async.bulk),
 * 9.7.13.15 (mbarrier), 5.5 (tensor maps).
 *
 * From its issue until it is known to be complete nobody may touch what a copy writes. When in that time the
 * bytes land is drawn from the seed: at the issue, at the wait that covers the copy (for TMA: when nobody can
 * go on without it), or in between. */
#include "tests/emu/core.h"
#include "tests/emu/tensor_map.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a thread's copies, by groups -------------------------------------------------------------------- */

static void issue(Copies *l, const Copy *c)
{
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->data = realloc(l->data, l->room * sizeof *l->data);
        if (!l->data) abort();
    }
    l->data[l->n] = *c;
    l->data[l->n++].group = l->group;
}

/* Completes all but the newest `left` groups: each lands, and its bytes of shared memory are this thread's
 * again (`mark`). What is not in a group yet stays in flight. */
static void complete(Copies *l, uint32_t left, void (*land)(Cta *, Copy *), void (*mark)(const Copy *))
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < l->n; k++) {
        Copy *c = &l->data[k];
        if (c->group == l->group || l->group - c->group <= left) {
            l->data[kept++] = *c;
            continue;
        }
        if (!c->done) land(emu.cta, c);
        mark(c);
    }
    l->n = kept;
}

static void land_some(Cta *cta, Copies *l, void (*land)(Cta *, Copy *))
{
    for (uint32_t k = 0; k < l->n; k++)
        if (l->data[k].moment == BETWEEN && !l->data[k].done && emu_random(2)) land(cta, &l->data[k]);
}

/* --- cp.async ---------------------------------------------------------------------------------------- */

static void land(Cta *c, Copy *x)
{
    memset(c->memory + x->at, 0, x->bytes);
    if (x->read) memcpy(c->memory + x->at, x->from, x->read);
    x->done = true;
}

void emu_copy(uint32_t to, const void *from, uint32_t bytes, bool in)
{ emu_copy_part(to, from, bytes, in ? bytes : 0); }

void emu_copy_part(uint32_t to, const void *from, uint32_t bytes, uint32_t n)
{
    to = emu_own(to);
    Fiber *f = emu.fiber;
    Copy c = { .at = to, .from = from, .bytes = bytes, .read = n, .moment = emu_moment() };
    if (n > bytes) emu_fail("a copy of %u bytes that reads %u", bytes, n);
    if (to % bytes || (n && (uintptr_t)from % bytes))
        emu_fail(
            "misaligned copy of %u bytes from global memory at %p to shared memory at %u", bytes, from, to);
    emu_check_write(to, bytes, NULL, GENERIC);
    if (n) emu_global_read(from, bytes); /* all of it, as in compute-sanitizer, whatever part is kept */
    emu_mark_write(to, bytes, EMU_IN_FLIGHT, f->lane, 0);
    if (c.moment == AT_ISSUE) land(emu.cta, &c);
    issue(&f->loads, &c);
}

void emu_copy_commit(void) { emu.fiber->loads.group++; }

static void written(const Copy *c)
{ emu_mark_write(c->at, c->bytes, emu.warp->index, emu.fiber->lane, emu.warp->clock.at[emu.warp->index]); }
void emu_copy_wait(uint32_t left) { complete(&emu.fiber->loads, left, land, written); }

/* --- TMA --------------------------------------------------------------------------------------------- */

/* Where a byte of the box lies: rows one after the other, 16-byte pieces exchanged by address bits (CUDA C++
 * guide, TMA swizzle). */
static uint32_t swizzled(uint32_t a, uint32_t span) { return span ? a ^ (a >> 3 & (span - 1) & ~15u) : a; }

/* The positions of the next pixel: within the box of pixels, the first of these axes fastest. */
static void next_pixel(const Map *m, int64_t *x)
{
    for (uint32_t k = 1; k < m->rank; k++) {
        x[k] += m->step[k];
        if (k == m->rank - 1 || x[k] <= (int64_t)m->extents[k] + m->upper[k - 1]) return;
        x[k] = m->lower[k - 1];
    }
}

static void tma_bytes(Cta *c, const Tma *t, const Map *m)
{
    uint32_t row = m->box[0] * m->element, rows = t->bytes / row;
    int64_t pixel[5] = { 0 };
    for (uint32_t k = 1; k < m->rank; k++) pixel[k] = t->at[k];
    for (uint32_t r = 0; r < rows; r++) {
        const uint8_t *from = m->base;
        bool in = true;
        uint32_t rest = r;
        for (uint32_t k = 1; k < m->rank; k++) {
            int64_t x = (int64_t)t->at[k] + rest % m->box[k] * m->step[k];
            if (m->pixels) x = pixel[k] + (k < m->rank - 1 ? t->tap[k - 1] : 0);
            rest /= m->box[k];
            in &= x >= 0 && x <= m->extents[k];
            if (in) from += (uint64_t)x * m->strides[k - 1];
        }
        next_pixel(m, pixel);
        for (uint32_t p = 0; p < row; p += 16) {
            uint8_t *to = c->memory + swizzled(t->to + r * row + p, m->swizzle);
            for (uint32_t b = 0; b < 16; b += m->element) {
                int64_t x = (int64_t)t->at[0] + (p + b) / m->element;
                if (in && x >= 0 && x <= m->extents[0]) memcpy(to + b, from + x * m->element, m->element);
                else memset(to + b, 0, m->element);
            }
        }
    }
}

static void arrival_lands(Cta *c, Tma *t)
{
    Mbar *b = t->bar;
    if (!b->far && !(b->far = calloc(1, sizeof *b->far))) abort();
    clock_join(&b->far->in[t->peer], t->sender);
    free(t->sender);
    if (!b->left) {
        if (!emu.failed)
            snprintf(emu.error, sizeof emu.error,
                "block %u: more arrivals at the mbarrier at %u than the %u of its phase, from CTA %d of the "
                "cluster",
                c->index.x, b->address, b->count, t->peer);
        emu.failed = true;
        return;
    }
    b->left--;
    emu_mbar_advance(b);
}

/* The bytes are there, counted, and known to who waits for the phase. */
static void tma_land(Cta *c, int k)
{
    Tma t = c->tmas[k];
    Map m;
    Cta *was = emu.cta;
    emu.cta = c;
    memcpy(&m, t.map, sizeof m);
    if (t.rank < 0) {
        emu.cta = was;
        c->tmas[k] = c->tmas[--c->n_tmas];
        arrival_lands(c, &t);
        return;
    }
    if (t.rank) tma_bytes(c, &t, &m);
    else {
        memcpy(c->memory + t.to, t.map, t.bytes);
        clock_join(&c->peers[t.peer], t.sender);
        free(t.sender);
    }
    emu_mark_write(t.to, t.bytes, t.bar->agent, 0, t.epoch);
    emu.cta = was;
    c->tmas[k] = c->tmas[--c->n_tmas];
    if (t.bar->in.at[t.bar->agent] < t.epoch) t.bar->in.at[t.bar->agent] = t.epoch;
    t.bar->bytes -= t.bytes;
    emu_mbar_advance(t.bar);
}

static void start(Cta *c, Tma *t);

/* Of a box: an illegal instruction else (H100). */
static void check_begin(const Map *m, int32_t at)
{
    if ((int64_t)at * (int64_t)m->element % 16)
        emu_fail("TMA at element %d of the contiguous axis, %u bytes each: not a multiple of 16 bytes", at,
            (unsigned)m->element);
}

/* The tensor map of an instruction that copies a box from or to position `at`. Checks what holds for both
 * directions, and writes the bytes of the box. */
static Map box_map(const void *map, int rank, const int32_t *at, uint32_t *bytes)
{
    Map m;
    emu_global_touch();
    memcpy(&m, map, sizeof m);
    if (m.magic != MAGIC || m.rank != (uint32_t)rank) emu_fail("no tensor map of rank %d", rank);
    *bytes = m.element * (m.pixels ? m.pixels : 1);
    for (int k = 0; k < rank; k++) *bytes *= m.box[k];
    check_begin(&m, at[0]);
    if (m.swizzle && m.box[0] * m.element != m.swizzle)
        emu_fail("a box whose rows do not fill the swizzle's %u bytes", m.swizzle);
    return m;
}

static Tma tma_made(uint32_t to, const void *map, int rank, const int32_t *at)
{
    Tma t = { .to = to, .rank = rank };
    box_map(map, rank, at, &t.bytes);
    memcpy(t.map, map, sizeof t.map);
    memcpy(t.at, at, (size_t)rank * sizeof *at);
    if (to % 128) emu_fail("TMA to shared memory at %u, not aligned to 128", to);
    return t;
}

static void tma_start(Cta *c, Tma *t)
{
    Cta *was = emu.cta;
    if (t->bar->bytes - t->bytes <= -(1 << 20))
        emu_fail("the mbarrier at %u counts too many bytes", t->bar->address);
    emu.cta = c;
    emu_mark_write(t->to, t->bytes, EMU_IN_FLIGHT, 0, 0);
    emu.cta = was;
    t->moment = emu_moment();
    start(c, t);
}

static bool is_of_pixels(const void *map)
{
    Map m;
    memcpy(&m, map, sizeof m);
    return m.pixels > 0;
}

/* The first pixel is one of the box, and taps have as many bits as corners. */
static void check_pixels(const Tma *t)
{
    Map m;
    memcpy(&m, t->map, sizeof m);
    for (uint32_t k = 1; k < m.rank - 1; k++) {
        int64_t from = (int64_t)t->at[k] - m.lower[k - 1];
        int32_t most = m.rank == 3 ? 0xffff : m.rank == 4 ? 0xff : 0x1f;
        if (from < 0 || from % m.step[k] || t->at[k] > (int64_t)m.extents[k] + m.upper[k - 1])
            emu_fail("im2col at %d of axis %u, which is no pixel of the box", t->at[k], k);
        if (t->tap[k - 1] < 0 || t->tap[k - 1] > most)
            emu_fail("im2col with a tap of %d along axis %u, which has no bits for it", t->tap[k - 1], k);
    }
}

void emu_tma_im2col(
    uint32_t to, const void *map, uint32_t bar, int rank, const int32_t *at, const int32_t *tap)
{
    to = emu_own(to);
    bar = emu_own(bar);
    if (!is_of_pixels(map)) emu_fail("im2col with a tensor map of boxes");
    Tma t = tma_made(to, map, rank, at);
    for (int k = 0; k < rank - 2; k++) t.tap[k] = tap[k];
    check_pixels(&t);
    t.bar = emu_mbar(bar, BY_TMA);
    emu_check_write(to, t.bytes, NULL, BY_TMA);
    tma_start(emu.cta, &t);
}

void emu_tma_load(uint32_t to, const void *map, uint32_t bar, int rank, const int32_t *at)
{
    to = emu_own(to);
    bar = emu_own(bar);
    if (is_of_pixels(map)) emu_fail("a box with a tensor map of pixels");
    Tma t = tma_made(to, map, rank, at);
    t.bar = emu_mbar(bar, BY_TMA);
    emu_check_write(to, t.bytes, NULL, BY_TMA);
    tma_start(emu.cta, &t);
}

/* An mbarrier of another CTA of the cluster. */
static Mbar *far_mbar(Cta *c, int rank, uint32_t bar)
{
    int number = bar % 8 || bar < EMU_BASE || bar + 8 > c->end ? 0 : c->mbar_at[bar / 8];
    if (!number) emu_fail("no mbarrier at %u of CTA %d of the cluster", bar, rank);
    if (!c->mbars[number - 1].fenced)
        emu_fail(
            "the initialisation of the mbarrier at %u of CTA %d was not handed to the cluster by a fence",
            bar, rank);
    return &c->mbars[number - 1];
}

/* .multicast::cluster: to the same place of each CTA, counted by its mbarrier there; each of the copies lands
 * when it will. */
void emu_tma_multicast(uint32_t to, const void *map, uint32_t bar, int ctas, int rank, const int32_t *at)
{
    to = emu_own(to);
    bar = emu_own(bar);
    Tma t = tma_made(to, map, rank, at);
    for (int k = 0; k < ctas; k++) {
        Cta *c = emu_peer(k);
        t.bar = far_mbar(c, k, bar);
        if (c == emu.cta) {
            emu_mbar(bar, BY_TMA);
            emu_check_write(to, t.bytes, NULL, BY_TMA);
        } else emu_check_tile(c, &emu.cta->peers[k], to, t.bytes);
        tma_start(c, &t);
    }
}

/* mapa, mbarrier.arrive.release.cluster: an arrival at another CTA is on its way until it lands. */
void emu_mbar_arrive_at(uint32_t bar, int rank)
{
    Cta *c = emu_peer(rank);
    if (c == emu.cta) {
        emu_mbar_arrive(bar, 0);
        return;
    }
    bar = emu_own(bar);
    Tma t = { .rank = -1,
        .bar = far_mbar(c, rank, bar),
        .moment = emu_moment(),
        .peer = emu_cluster_rank(),
        .sender = calloc(1, sizeof(Clock)) };
    if (!t.sender) abort();
    emu_release_lane(t.sender);
    start(c, &t);
}

static void start(Cta *c, Tma *t)
{
    t->epoch = t->rank < 0 ? 0 : ++t->bar->copies;
    if (c->n_tmas == c->tma_room) {
        c->tma_room = c->tma_room ? 2 * c->tma_room : 32;
        c->tmas = realloc(c->tmas, (size_t)c->tma_room * sizeof *c->tmas);
        if (!c->tmas) abort();
    }
    c->tmas[c->n_tmas++] = *t;
    if (t->moment == AT_ISSUE) tma_land(c, c->n_tmas - 1);
}

/* st.async (PTX ISA 9.7.9.12): a word to another CTA of the cluster, which an mbarrier there counts. What the
 * sender knows goes along. */
void emu_send(uint32_t to, int rank, const void *from, uint32_t bytes, uint32_t bar)
{
    to = emu_own(to);
    bar = emu_own(bar);
    Cta *c = emu_peer(rank);
    Tma t = { .to = to,
        .bytes = bytes,
        .bar = far_mbar(c, rank, bar),
        .moment = emu_moment(),
        .peer = emu_cluster_rank(),
        .sender = calloc(1, sizeof(Clock)) };
    if (!t.sender) abort();
    emu_release_lane(t.sender);
    emu_check_sent(c, c == emu.cta ? &emu.warp->clock : &emu.cta->peers[rank], to, bytes);
    memcpy(t.map, from, bytes);
    for (uint32_t k = to; k < to + bytes; k++) c->tags[k] = (uint32_t)EMU_IN_FLIGHT << 24;
    emu_global_sent(c);
    start(c, &t);
}

/* --- TMA to memory: groups of a thread --------------------------------------------------------------- */

/* Subnormal operands and sums count as zeros (cp.reduce.async.bulk, .f32). */
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static void add_f32(uint8_t *to, const uint8_t *from)
{
    float x, y;
    memcpy(&x, to, sizeof x);
    memcpy(&y, from, sizeof y);
    x = flushed(flushed(x) + flushed(y));
    memcpy(to, &x, sizeof x);
}

static void store_land(Cta *c, Copy *o)
{
    Map m;
    int64_t pixel[5] = { 0 };
    memcpy(&m, o->map, sizeof m);
    uint32_t row = m.box[0] * m.element, rows = o->bytes / row;
    for (uint32_t k = 1; k < m.rank; k++) pixel[k] = o->place[k];
    for (uint32_t r = 0; r < rows; r++) {
        uint8_t *to = m.base;
        bool in = true;
        uint32_t rest = r;
        for (uint32_t k = 1; k < m.rank; k++) {
            int64_t x = m.pixels ? pixel[k] : (int64_t)o->place[k] + rest % m.box[k] * m.step[k];
            rest /= m.box[k];
            in &= x >= 0 && x <= m.extents[k];
            if (in) to += (uint64_t)x * m.strides[k - 1];
        }
        next_pixel(&m, pixel);
        for (uint32_t p = 0; p < row && in; p += m.element) {
            int64_t x = (int64_t)o->place[0] + p / m.element;
            const uint8_t *from = c->memory + swizzled(o->at + r * row + p, m.swizzle);
            if (o->adds && x >= 0 && x <= m.extents[0]) add_f32(to + x * m.element, from);
            else if (o->adds) continue; /* Adding zeros changes nothing. */
            else if (x >= 0 && x <= m.extents[0]) memcpy(to + x * m.element, from, m.element);
            /* Memory is written in pieces of 16 bytes: what is behind the edge in the last one becomes zero.
             */
            else if (x > 0 && x * m.element / 16 == m.extents[0] * m.element / 16)
                memset(to + x * m.element, 0, m.element);
        }
    }
    o->done = true;
}

static void tma_out(uint32_t from, const void *map, int rank, const int32_t *place, bool adds)
{
    from = emu_own(from);
    uint32_t bytes;
    Map m = box_map(map, rank, place, &bytes);
    for (int k = 0; k < rank; k++)
        if (place[k] < 0) emu_fail("TMA stores a box that begins at %d", place[k]); /* illegal on an H200 */
    Copy o = { .at = from, .bytes = bytes, .adds = adds, .moment = emu_moment() };
    memcpy(o.map, map, sizeof o.map);
    memcpy(o.place, place, (size_t)rank * sizeof *place);
    if (adds && m.element != sizeof(float)) emu_fail("an addition of elements of %u bytes", m.element);
    if (from % 128) emu_fail("TMA from shared memory at %u, not aligned to 128", from);
    emu_check_read(from, o.bytes, BY_TMA);
    emu_mark_read(emu.warp, from, o.bytes, EMU_READING, emu.fiber->lane);
    if (o.moment == AT_ISSUE) store_land(emu.cta, &o);
    issue(&emu.fiber->stores, &o);
    emu.fiber->unwritten = true;
    emu.fiber->newest_left = false;
}

static void box_out(uint32_t from, const void *map, int rank, const int32_t *place, bool adds)
{
    if (is_of_pixels(map)) emu_fail("a box with a tensor map of pixels");
    tma_out(from, map, rank, place, adds);
}
void emu_tma_store(uint32_t from, const void *map, int rank, const int32_t *place)
{ box_out(from, map, rank, place, false); }
void emu_tma_store_add(uint32_t from, const void *map, int rank, const int32_t *place)
{ box_out(from, map, rank, place, true); }
void emu_tma_store_im2col(uint32_t from, const void *map, int rank, const int32_t *place)
{
    Tma t = { .rank = rank };
    if (!is_of_pixels(map)) emu_fail("im2col with a tensor map of boxes");
    memcpy(t.map, map, sizeof t.map);
    memcpy(t.at, place, (size_t)rank * sizeof *place);
    check_pixels(&t);
    tma_out(from, map, rank, place, false);
}

void emu_bulk_commit(void) { emu.fiber->stores.group++; }

/* That its bytes are written too, ask the launch's end and fences. */
static void was_read(const Copy *c)
{ emu_mark_read(emu.warp, c->at, c->bytes, emu.warp->clock.at[emu.warp->index], emu.fiber->lane); }
void emu_bulk_wait(uint32_t left) { complete(&emu.fiber->stores, left, store_land, was_read); }
void emu_bulk_written(uint32_t left)
{
    if (!left) emu.fiber->unwritten = false;
    emu.fiber->newest_left = left > 0;
}

/* --- in flight --------------------------------------------------------------------------------------- */

void emu_async_reset(Cta *c)
{
    for (int k = 0; k < c->n_mbars; k++) {
        free(c->mbars[k].far);
        c->mbars[k].far = NULL;
    }
    for (int k = 0; k < c->n_tmas; k++)
        if (c->tmas[k].rank <= 0) free(c->tmas[k].sender);
    c->n_mbars = c->n_tmas = 0;
}

const char *emu_async_end(Cta *c)
{
    for (int k = 0; k < c->n_tmas; k++)
        if (c->tmas[k].rank < 0) return "another CTA's arrival is on its way to it";
    if (c->n_tmas) return "a TMA copy is in flight";
    for (int t = 0; t < emu.launch->threads; t++)
        if (c->fibers[t].stores.n) return "a TMA store is in flight";
    for (int t = 0; t < emu.launch->threads; t++)
        for (uint32_t k = 0; k < c->fibers[t].loads.n; k++)
            if (c->fibers[t].loads.data[k].from) return "a cp.async is in flight";
    return NULL;
}

bool emu_async_some(Cta *c)
{
    if (!c->n_tmas) return false;
    tma_land(c, (int)emu_random((uint32_t)c->n_tmas));
    return true;
}

bool emu_async_step(Cta *c)
{
    int before = c->n_tmas;
    for (int k = c->n_tmas - 1; k >= 0; k--)
        if (c->tmas[k].moment == BETWEEN && !emu_random(8)) tma_land(c, k);
    Fiber *f = &c->fibers[emu_random((uint32_t)emu.launch->threads)];
    land_some(c, &f->stores, store_land);
    land_some(c, &f->loads, land);
    return c->n_tmas < before;
}
