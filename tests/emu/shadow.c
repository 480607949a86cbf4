/* shadow.c: shared memory, and whether accesses to it are ordered.
 *
 * Every warp counts epochs; it enters the next one when it lets others know what it did (a barrier, an
 * arrival). Its clock holds, for every warp, the newest epoch that it knows of. Each byte of shared memory
 * knows who wrote it last and when, and when each warp read it last: an access is ordered after those of
 * epochs in the accessing warp's clock, and races with the others. Data that copies bring carries the number
 * of the mbarrier that they complete on instead of a warp's. */
#include "tests/emu/core.h"
#include "tests/emu/nan_halves.h"
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NEWEST_EPOCH = 0xfff0, BLOCK = 16, MOST_SEVERAL = 0xffff };

/* A tag: agent in bits 24-31, lane in 16-23, epoch below. */
static uint32_t tag_of(int agent, int lane, uint16_t epoch)
{ return (uint32_t)agent << 24 | (uint32_t)lane << 16 | epoch; }

/* Reads are kept by blocks of 16 bytes, of each a ReadBlock a warp. Most accesses read blocks whole, and one
 * entry says all; after others, those of the block's bytes do. */
static size_t block_of(const Cta *c, int warp, uint32_t a)
{ return (size_t)(a / BLOCK) * (size_t)c->n_warps + (size_t)warp; }
static ByteRead read_of(const Cta *c, int warp, uint32_t a)
{
    size_t at = block_of(c, warp, a);
    const ReadBlock *b = &c->reads[at];
    return b->split ? c->byte_reads[at * BLOCK + a % BLOCK] : (ByteRead){ b->epoch, b->lane };
}
static void split(ReadBlock *b, ByteRead *bytes)
{
    if (b->split) return;
    for (int k = 0; k < BLOCK; k++) bytes[k] = (ByteRead){ b->epoch, b->lane };
    b->split = true;
}
static void join(ReadBlock *b, const ByteRead *bytes)
{
    for (int k = 1; k < BLOCK; k++)
        if (bytes[k].epoch != bytes[0].epoch || bytes[k].lane != bytes[0].lane) return;
    *b = (ReadBlock){ bytes[0].epoch, bytes[0].lane, false };
}

/* What all lanes are known for, the warp is. */
static void settle(Clock *c, int warp)
{
    uint16_t least = 0xffff, most = 0;
    for (int l = 0; l < 32; l++) {
        if (c->own[warp][l] < least) least = c->own[warp][l];
        if (c->own[warp][l] > most) most = c->own[warp][l];
    }
    if (c->at[warp] < least) c->at[warp] = least;
    if (most > c->at[warp]) c->partial |= 1u << warp;
    else c->partial &= ~(1u << warp);
}

static void join_epochs(uint16_t *restrict to, const uint16_t *restrict from, int n)
{
    for (int k = 0; k < n; k++) to[k] = to[k] > from[k] ? to[k] : from[k];
}

void clock_join(Clock *to, const Clock *from)
{
    if (to == from) return;
    for (uint32_t bits = from->partial; bits; bits &= bits - 1) {
        int w = __builtin_ctz(bits);
        join_epochs(to->own[w], from->own[w], 32);
        to->partial |= 1u << w;
    }
    join_epochs(to->at, from->at, EMU_AGENTS);
    join_epochs(to->fenced, from->fenced, EMU_AGENTS);
    for (uint32_t bits = to->partial; bits; bits &= bits - 1) settle(to, __builtin_ctz(bits));
}

static bool known(const Clock *c, int warp, int lane, uint16_t epoch)
{
    if (epoch <= c->at[warp]) return true;
    if (!(c->partial >> warp & 1) || lane == EMU_MIXED) return false;
    if (lane < 32) return epoch <= c->own[warp][lane];
    for (int l = 0; l < 32; l++)
        if (epoch <= c->own[warp][l]) return true; /* the warp's together: any lane knows */
    return false;
}

bool emu_ordered(int warp, int lane, uint16_t epoch)
{
    const Warp *w = emu.warp;
    return warp == w->index ? lane == emu.fiber->lane || epoch < w->lanes_epoch
                            : known(&w->clock, warp, lane, epoch);
}

/* Epochs have run out: what happened so far counts as ordered, and counting starts again. */
static void forget(Cta *c)
{
    for (uint32_t a = 0; a < c->end; a++)
        if (c->tags[a] >> 24 != EMU_IN_FLIGHT) c->tags[a] = 0;
    for (size_t k = 0; k < (size_t)(c->end / BLOCK) * (size_t)c->n_warps; k++) {
        if (c->reads[k].epoch != EMU_READING) c->reads[k].epoch = 0;
        for (ByteRead *r = c->byte_reads + k * BLOCK, *end = r + BLOCK; c->reads[k].split && r < end; r++)
            if (r->epoch != EMU_READING) r->epoch = 0;
    }
    c->n_several = 0;
    for (int k = 0; k < c->n_warps; k++) {
        memset(&c->warps[k].clock, 0, sizeof c->warps[k].clock);
        c->warps[k].clock.at[k] = 1;
        c->warps[k].lanes_epoch = 1;
    }
    for (int k = 0; k < EMU_GATES; k++) {
        memset(&c->gates[k].in, 0, sizeof c->gates[k].in);
        memset(&c->gates[k].out, 0, sizeof c->gates[k].out);
    }
    emu_global_forget(c);
    for (int k = 0; k < c->n_mbars; k++) {
        memset(&c->mbars[k].in, 0, sizeof c->mbars[k].in);
        memset(&c->mbars[k].out, 0, sizeof c->mbars[k].out);
    }
}

void emu_next_epoch(Warp *w)
{
    if (++w->clock.at[w->index] >= NEWEST_EPOCH) forget(w->cta);
}

void emu_release(Clock *to)
{
    clock_join(to, &emu.warp->clock);
    emu_next_epoch(emu.warp);
}

void emu_release_lane(Clock *to)
{
    Warp *w = emu.warp;
    int lane = emu.fiber->lane;
    uint16_t now = w->clock.at[w->index];
    w->clock.at[w->index] = (uint16_t)(w->lanes_epoch - 1);
    clock_join(to, &w->clock);
    w->clock.at[w->index] = now;
    if (to->own[w->index][lane] < now) to->own[w->index][lane] = now;
    settle(to, w->index);
    emu_next_epoch(w);
}

void emu_acquire(const Clock *from) { clock_join(&emu.warp->clock, from); }

void emu_proxy_fence(void)
{
    Clock *c = &emu.warp->clock;
    for (int k = 0; k < EMU_AGENTS; k++)
        if (c->fenced[k] < c->at[k]) c->fenced[k] = c->at[k];
    for (uint32_t bits = c->partial; bits; bits &= bits - 1)
        for (int w = __builtin_ctz(bits), l = 0; l < 32; l++)
            if (c->fenced[w] < c->own[w][l]) c->fenced[w] = c->own[w][l];
    emu_next_epoch(emu.warp);
}

uint8_t *emu_at(uint32_t a, uint32_t bytes)
{
    if (a < EMU_BASE || a + bytes > emu.cta->end || a + bytes < a)
        emu_fail(
            "%u bytes at %u lie outside of the shared memory, %u to %u", bytes, a, EMU_BASE, emu.cta->end);
    return emu.cta->memory + a;
}

/* Several warps wrote the value that is there. Whoever looks at it, reads or overwrites it, must know of all
 * of them: which write it reads is open otherwise (PTX ISA 8.9), and racecheck reports it. */
static void check_several(uint32_t a, const Several *s, const char *access, Access how)
{
    const Warp *w = emu.warp;
    for (int v = 0; v < w->cta->n_warps; v++) {
        if (!s->epoch[v]) continue;
        if (s->atomic && v == w->index && s->epoch[v] >= w->lanes_epoch && s->lane[v] != emu.fiber->lane)
            emu_fail("race: %s of shared memory at %u, which other lanes of the same warp change by atomics, "
                     "with no warp barrier between",
                access, a);
        if (v != w->index && !known(&w->clock, v, s->lane[v], s->epoch[v]))
            emu_fail("race: %s of shared memory at %u, written by several warps, of which warp %d is not "
                     "ordered",
                access, a, v);
        if (how != GENERIC && s->epoch[v] > w->clock.fenced[v])
            emu_fail("no proxy fence between the write of shared memory at %u by warp %d and its %s by the "
                     "asynchronous proxy",
                a, v, access);
    }
}

static void check_tag(uint32_t a, uint32_t tag, const char *access, Access how)
{
    const Warp *w = emu.warp;
    int agent = (int)(tag >> 24), lane = (int)(tag >> 16 & 255);
    uint16_t epoch = (uint16_t)tag;
    if (agent == EMU_SEVERAL) {
        check_several(a, &w->cta->several[epoch], access, how);
        return;
    }
    if (agent == EMU_IN_FLIGHT)
        emu_fail("race: %s of shared memory at %u, where a copy in flight writes", access, a);
    if (agent == w->index) {
        if (how != BY_WGMMA && lane != emu.fiber->lane && epoch >= w->lanes_epoch)
            emu_fail("race: %s of shared memory at %u, written by lane %d of the same warp with no warp "
                     "barrier between",
                access, a, lane);
    } else if (agent < EMU_WARPS ? !known(&w->clock, agent, lane, epoch) : epoch > w->clock.at[agent]) {
        if (agent < EMU_WARPS)
            emu_fail("race: %s of shared memory at %u, written by warp %d lane %d, not ordered", access, a,
                agent, lane);
        emu_fail("race: %s of shared memory at %u, written by a copy that was not waited for", access, a);
    }
    if (how != GENERIC && agent < EMU_WARPS && epoch > w->clock.fenced[agent])
        emu_fail("no proxy fence between the write of shared memory at %u by warp %d and its %s by the "
                 "asynchronous proxy",
            a, agent, access);
}

void emu_check_read(uint32_t a, uint32_t bytes, Access how)
{
    const uint32_t *tags = emu.cta->tags + a;
    uint32_t last = 0;
    emu_at(a, bytes);
    for (uint32_t k = 0; k < bytes; k++) {
        if (tags[k] == last) continue;
        last = tags[k];
        check_tag(a + k, last, "read", how);
    }
}

/* Bytes a.. of one block. */
static void check_reads(uint32_t a, uint32_t n)
{
    const Cta *c = emu.cta;
    const Warp *w = emu.warp;
    for (int v = 0; v < c->n_warps; v++) {
        const ReadBlock *b = &c->reads[block_of(c, v, a)];
        uint16_t sure = v == w->index ? (uint16_t)(w->lanes_epoch - 1) : w->clock.at[v];
        if (!b->split && b->epoch <= sure) continue;
        for (uint32_t k = a; k < a + (b->split ? n : 1); k++) {
            ByteRead r = read_of(c, v, k);
            if (r.epoch <= sure) continue;
            if (r.epoch == EMU_READING)
                emu_fail(
                    "race: write of shared memory at %u, which a product or TMA store of warp %d in flight "
                    "reads",
                    a, v);
            if (v == w->index && r.lane != emu.fiber->lane && r.lane != EMU_WHOLE)
                emu_fail("race: write of shared memory at %u, read by another lane of the same warp with no "
                         "warp barrier between",
                    k);
            if (v != w->index && !known(&w->clock, v, r.lane, r.epoch))
                emu_fail("race: write of shared memory at %u, read by warp %d, not ordered", k, v);
        }
    }
}

void emu_check_write(uint32_t a, uint32_t bytes, const void *same, Access how)
{
    const uint32_t *tags = emu.cta->tags + a;
    uint32_t last = 0;
    uint8_t *p = emu_at(a, bytes);
    bool unchanged = same && !memcmp(p, same, bytes);
    for (uint32_t k = 0; k < bytes; k++) {
        if (tags[k] == last) continue;
        last = tags[k];
        if (unchanged && last >> 24 != EMU_IN_FLIGHT && !emu_by_atomics(emu.cta, last))
            continue; /* The value is already there, so the order of the writes does not matter. */
        check_tag(a + k, last, "write", how);
    }
    for (uint32_t k = a; k < a + bytes;) {
        uint32_t n = BLOCK - k % BLOCK < a + bytes - k ? BLOCK - k % BLOCK : a + bytes - k;
        check_reads(k, n);
        k += n;
    }
}

void emu_mark_write(uint32_t a, uint32_t bytes, int agent, int lane, uint16_t epoch)
{
    uint32_t tag = tag_of(agent, lane, epoch);
    for (uint32_t k = 0; k < bytes; k++) emu.cta->tags[a + k] = tag;
}

/* What is known of a read and of those before: of what is not ordered yet, one lane or several. */
static ByteRead read_again(const Warp *w, ByteRead was, uint16_t epoch, int lane)
{
    bool alone = was.epoch < w->lanes_epoch || was.epoch == EMU_READING || was.lane == lane;
    return (ByteRead){ epoch, alone ? (uint8_t)lane : EMU_MIXED };
}

void emu_mark_read(Warp *w, uint32_t a, uint32_t bytes, uint16_t epoch, int lane)
{
    for (uint32_t k = a; k < a + bytes;) {
        uint32_t n = BLOCK - k % BLOCK < a + bytes - k ? BLOCK - k % BLOCK : a + bytes - k;
        size_t at = block_of(w->cta, w->index, k);
        ReadBlock *b = &w->cta->reads[at];
        ByteRead *r = w->cta->byte_reads + at * BLOCK;
        if (n == BLOCK && !b->split) {
            ByteRead now = read_again(w, (ByteRead){ b->epoch, b->lane }, epoch, lane);
            *b = (ReadBlock){ now.epoch, now.lane, false };
        } else {
            split(b, r);
            for (uint32_t j = k % BLOCK; j < k % BLOCK + n; j++) r[j] = read_again(w, r[j], epoch, lane);
            if (n == BLOCK) join(b, r);
        }
        k += n;
    }
}

/* The byte was written by those that `s` has. */
static void mark_several(uint32_t a, const Several *s)
{
    Cta *c = emu.cta;
    for (int k = c->n_several - 1; k >= 0 && k > c->n_several - 64; k--)
        if (!memcmp(&c->several[k], s, sizeof *s)) {
            c->tags[a] = tag_of(EMU_SEVERAL, 0, (uint16_t)k);
            return;
        }
    if (c->n_several == c->several_room) {
        c->several_room = c->several_room ? 2 * c->several_room : 64;
        c->several = realloc(c->several, (size_t)c->several_room * sizeof *c->several);
        if (!c->several) abort();
    }
    c->several[c->n_several] = *s;
    c->tags[a] = tag_of(EMU_SEVERAL, 0, (uint16_t)c->n_several++);
}

/* All entries are given up before any old one is used again, because epochs start over. */
static void room_for_several(Cta *c, uint32_t bytes)
{
    if (c->n_several + (int)bytes > MOST_SEVERAL) forget(c);
}

/* The value is there already: writing it again is no race with the writes before. */
static void write_again(uint32_t a)
{
    Cta *c = emu.cta;
    const Warp *w = emu.warp;
    room_for_several(c, 1);
    uint32_t tag = c->tags[a];
    int agent = (int)(tag >> 24);
    Several s;
    memset(&s, 0, sizeof s); /* compared by bytes */
    if (agent == EMU_SEVERAL && !emu_by_atomics(c, tag)) s = c->several[tag & 0xffff];
    else if (agent < EMU_WARPS && agent != w->index &&
             !known(&w->clock, agent, (int)(tag >> 16 & 255), (uint16_t)tag)) {
        s.epoch[agent] = (uint16_t)tag;
        s.lane[agent] = (uint8_t)(tag >> 16);
    } else {
        emu_mark_write(a, 1, w->index, emu.fiber->lane, w->clock.at[w->index]);
        return;
    }
    s.epoch[w->index] = w->clock.at[w->index];
    s.lane[w->index] = (uint8_t)emu.fiber->lane;
    mark_several(a, &s);
}

/* Atomics have no races with each other, but with all other accesses. */
void *emu_shared_atomic(uint32_t a, uint32_t bytes)
{
    a = emu_own(a);
    if (a % bytes) emu_fail("misaligned atomic of %u bytes in shared memory at %u", bytes, a);
    Cta *c = emu.cta;
    const Warp *w = emu.warp;
    uint8_t *p = emu_at(a, bytes);
    room_for_several(c, bytes);
    for (uint32_t k = a; k < a + bytes; k++) {
        uint32_t tag = c->tags[k];
        Several s;
        memset(&s, 0, sizeof s);
        if (emu_by_atomics(c, tag)) s = c->several[tag & 0xffff];
        else s.filled = tag;
        check_tag(k, s.filled, "an atomic", GENERIC);
        bool alone = s.epoch[w->index] < w->lanes_epoch || s.lane[w->index] == emu.fiber->lane;
        s.atomic = true;
        s.epoch[w->index] = w->clock.at[w->index];
        s.lane[w->index] = alone ? (uint8_t)emu.fiber->lane : EMU_MIXED;
        check_reads(k, 1);
        mark_several(k, &s);
    }
    return p;
}

void emu_load(uint32_t a, void *to, uint32_t bytes)
{
    a = emu_own(a);
    if (a % bytes) emu_fail("misaligned load of %u bytes from shared memory at %u", bytes, a);
    emu_check_read(a, bytes, GENERIC);
    emu_mark_read(emu.warp, a, bytes, emu.warp->clock.at[emu.warp->index], emu.fiber->lane);
    memcpy(to, emu.cta->memory + a, bytes);
}

void emu_store(uint32_t a, const void *from, uint32_t bytes)
{
    a = emu_own(a);
    if (a % bytes) emu_fail("misaligned store of %u bytes to shared memory at %u", bytes, a);
    const void *there = emu_at(a, bytes);
    bool again = same_but_for_nan(there, from, bytes);
    emu_check_write(a, bytes, again ? there : from, GENERIC);
    if (again)
        for (uint32_t k = a; k < a + bytes; k++) write_again(k);
    else emu_mark_write(a, bytes, emu.warp->index, emu.fiber->lane, emu.warp->clock.at[emu.warp->index]);
    memcpy(emu.cta->memory + a, from, bytes);
}

void emu_check_sent(Cta *c, const Clock *sender, uint32_t a, uint32_t bytes)
{
    if ((bytes <= 8 && a % bytes) || a < EMU_BASE || a + bytes > c->end)
        emu_fail("%u bytes sent to %u of another CTA's shared memory, which ends at %u", bytes, a, c->end);
    for (uint32_t k = a; k < a + bytes; k++) {
        uint32_t tag = c->tags[k];
        int agent = (int)(tag >> 24);
        if (agent == EMU_IN_FLIGHT)
            emu_fail("race: shared memory at %u of another CTA, where two copies in flight write", k);
        if (tag && agent < EMU_WARPS && !known(sender, agent, (int)(tag >> 16 & 255), (uint16_t)tag))
            emu_fail(
                "race: sent to shared memory at %u of another CTA, written there by warp %d, not ordered", k,
                agent);
        for (int v = 0; v < c->n_warps; v++) {
            ByteRead r = read_of(c, v, k);
            if (r.epoch && !known(sender, v, r.lane, r.epoch))
                emu_fail(
                    "race: sent to shared memory at %u of another CTA, read there by warp %d, not ordered", k,
                    v);
        }
    }
}

void emu_check_tile(Cta *c, const Clock *sender, uint32_t a, uint32_t bytes)
{
    uint32_t last = 0;
    if (a < EMU_BASE || a + bytes > c->end)
        emu_fail("%u bytes sent to %u of another CTA's shared memory, which ends at %u", bytes, a, c->end);
    for (uint32_t k = a; k < a + bytes; k++) {
        uint32_t tag = c->tags[k];
        if (tag == last) continue;
        last = tag;
        int agent = (int)(tag >> 24);
        if (agent >= EMU_WARPS && agent < EMU_SEVERAL && (uint16_t)tag > sender->at[agent])
            emu_fail("race: sent to shared memory at %u of another CTA, written there by a copy that is not "
                     "known to have been waited for",
                k);
    }
    emu_check_sent(c, sender, a, bytes);
}

bool emu_shadow_open(Cta *c, size_t shared_bytes)
{
    c->end = EMU_BASE + (uint32_t)(shared_bytes + BLOCK - 1) / BLOCK * BLOCK;
    c->memory = malloc(c->end);
    c->tags = malloc(c->end * sizeof *c->tags);
    c->reads = malloc(c->end / BLOCK * sizeof *c->reads * (size_t)c->n_warps);
    c->byte_reads = malloc(c->end * sizeof *c->byte_reads * (size_t)c->n_warps);
    c->mbar_at = malloc(c->end / 8);
    return c->memory && c->tags && c->reads && c->byte_reads && c->mbar_at;
}

void emu_shadow_reset(Cta *c)
{
    memset(c->memory, 0xff, c->end); /* NaN in every format */
    memset(c->tags, 0, c->end * sizeof *c->tags);
    memset(c->reads, 0, c->end / BLOCK * sizeof *c->reads * (size_t)c->n_warps);
    memset(c->mbar_at, 0, c->end / 8);
    c->n_several = 0;
}

void emu_shadow_close(Cta *c)
{
    free(c->memory);
    free(c->tags);
    free(c->reads);
    free(c->byte_reads);
    free(c->mbar_at);
    free(c->several);
}

/* --- memory that stays from launch to launch --- */

/* What a launch frees serves the next one, and does not go back to the system page by page. */
void emu_keep_memory(void)
{
#ifdef M_MMAP_THRESHOLD
    static bool done;
    if (!done) mallopt(M_MMAP_THRESHOLD, 1 << 30), mallopt(M_TRIM_THRESHOLD, INT_MAX);
    done = true;
#endif
}

/* Stacks of the resident CTAs stay from launch to launch: pages that are there cost nothing. */
uint8_t *emu_stacks(int cta, int threads)
{
    static struct {
        uint8_t *at;
        int threads;
    } kept[MOST_RESIDENT];
    if (kept[cta].threads >= threads) return kept[cta].at;
    if (kept[cta].at) munmap(kept[cta].at, (size_t)kept[cta].threads * EMU_STACK);
    kept[cta].threads = 0;
    kept[cta].at = mmap(NULL, (size_t)threads * EMU_STACK, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kept[cta].at == MAP_FAILED) return kept[cta].at = NULL;
    kept[cta].threads = threads;
    return kept[cta].at;
}
