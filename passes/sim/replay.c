/* replay.c: the programs of a grid on the chiplets of a device, and what their caches see.
 *
 * Dispatch: workgroup w goes to chiplet w % chiplets (AMD's hardware does so, one command processor a
 * chiplet) and runs program remap(w). A chiplet starts its workgroups in order on its compute units, each to
 * the next free place. Time: all running programs take turns, one memory operation (a window of a tensor)
 * each, so programs that start together walk in step; arithmetic takes no time of its own.
 *
 * Caches: L1 of a compute unit for reads; L2 of a chiplet, written lines stay there until displaced and need
 * no fetch; the last-level cache in front of memory. Lines are the unit of everything. Caches begin empty;
 * what is dirty at the end counts as written.
 *
 * Sampling: with `sample` = S only one block of 8 lines in S is followed, chosen by a hash, through caches of
 * 1/S of the sets. Which lines compete for a set is decided by hashes anyway, so each such slice behaves as
 * the whole does; how far slices differ gives the error. */
#include "passes/sim/replay.h"
#include <math.h>

/* --- memory ------------------------------------------------------------------------------------------ */

static void *take(Replay *r, void *p, int64_t old, int64_t n, size_t size)
{ return r->alloc.realloc(r->alloc.user, p, (size_t)old * size, (size_t)n * size); }

static bool cache_new(Replay *r, SimCache *c, int64_t bytes, int64_t ways, int64_t sample)
{
    int64_t lines = (int64_t)((double)(bytes / r->d->line) / r->mean) / sample, sets = lines / ways;
    if (!bytes) return true;
    if (lines < 1) lines = 1;
    if (sets < 1) {
        sets = 1;
        ways = lines;
    }
    c->sets = (uint32_t)sets;
    c->ways = (uint32_t)ways;
    c->tags = take(r, NULL, 0, sets * ways, sizeof *c->tags);
    if (c->tags) memset(c->tags, 0, (size_t)(sets * ways) * sizeof *c->tags);
    return c->tags != NULL;
}

static void cache_free(Replay *r, SimCache *c)
{
    if (c->tags) take(r, c->tags, (int64_t)c->sets * c->ways, 0, sizeof *c->tags);
}

/* --- lines ------------------------------------------------------------------------------------------- */

static inline void to_memory(Replay *r, uint32_t out)
{
    if (out & SIM_DIRTY) r->memory_written += r->mean;
}

static inline void last_level(Replay *r, uint32_t line, bool write, int group)
{
    uint32_t out = 0;
    if (!r->llc.tags) {
        *(write ? &r->memory_written : &r->memory_read) += write ? r->mean : r->weight;
        return;
    }
    bool hit = sim_touch(&r->llc, line, write, &out);
    if (!write) {
        r->llc_n[group] += r->weight;
        *(hit ? &r->llc_hit[group] : &r->memory_read) += r->weight;
    }
    if (!hit) to_memory(r, out);
}

static inline int group_of(uint64_t h) { return (int)(h >> 40 & (GROUPS - 1)); }

/* Counts the line for its tensor. */
static inline void count_line(Replay *r, uint32_t line)
{
    if (r->seen[line / 8] >> (line % 8) & 1) return;
    r->seen[line / 8] |= (uint8_t)(1 << line % 8);
    r->tensor->distinct++;
}

static inline void touch_line(Replay *r, int64_t chiplet, SimCache *l1, uint32_t line, bool write, int group)
{
    uint32_t out = 0;
    SimTensor *tensor = r->tensor;
    if (tensor) count_line(r, line);
    if (!write && l1 && l1->tags) {
        bool hit = sim_touch(l1, line, false, &out);
        r->l1_n++;
        r->l1_hit += hit;
        if (tensor) {
            tensor->l1.accesses++;
            tensor->l1.hits += hit;
        }
        if (hit) return;
    }
    bool hit = sim_touch(&r->l2[chiplet], line, write, &out);
    r->l2_n[group] += r->weight;
    if (tensor) {
        tensor->l2.accesses++;
        tensor->l2.hits += hit;
    }
    r->chiplet[chiplet].asked += r->weight * r->request;
    if (hit) {
        r->l2_hit[group] += r->weight;
        return;
    }
    if (!write) last_level(r, line, false, group);
    if (out & SIM_DIRTY) last_level(r, (out & ~SIM_DIRTY) - 1, true, group);
}

static void touch_run(Replay *r, int64_t chiplet, SimCache *l1, int64_t first, int64_t last, bool write)
{
    for (int64_t b = first / BLOCK; b <= last / BLOCK; b++) {
        uint64_t h = sim_hash((uint64_t)b);
        if (h & r->sample_mask) continue;
        int64_t lo = b * BLOCK > first ? b * BLOCK : first,
                hi = b * BLOCK + BLOCK - 1 < last ? b * BLOCK + BLOCK - 1 : last;
        for (int64_t l = lo; l <= hi; l++) touch_line(r, chiplet, l1, (uint32_t)l, write, group_of(h));
    }
}

void sim_box_runs(const SimSite *site, const SimAccess *a, int shift, RunFn *fn, void *user)
{
    int64_t run = site->size, c[TILE_MAX_RANK] = { 0 }, at = a->at, done = -1;
    int k = 0;
    while (k < site->rank && (site->step[k] <= run || a->n[k] == 1)) { /* also overlapping ones */
        run += (int64_t)(a->n[k] - 1) * site->step[k];
        k++;
    }
    for (;;) {
        int64_t first = at >> shift, last = (at + run - 1) >> shift;
        if (first <= done && last >= done) first = done + 1;
        if (first <= last) {
            fn(user, first, last);
            done = last;
        }
        int x = k;
        for (; x < site->rank; x++) {
            at += site->step[x];
            if (++c[x] < a->n[x]) break;
            at -= a->n[x] * site->step[x];
            c[x] = 0;
        }
        if (x == site->rank) return;
    }
}

double sim_window_lines(const Replay *r, const SimAccess *a)
{
    const SimSite *site = &r->t->sites.data[a->site];
    double n = (double)site->size / (double)r->d->line;
    if (site->indexed) return a->n[0];
    for (int k = 0; k < site->rank; k++) n *= a->n[k];
    return n;
}

typedef struct Touch {
    Replay *r;
    int64_t chiplet;
    SimCache *l1;
    bool write;
} Touch;
static void touch_fn(void *user, int64_t first, int64_t last)
{
    Touch *t = user;
    touch_run(t->r, t->chiplet, t->l1, first, last, t->write);
}

typedef struct Pieces {
    Replay *r;
    int64_t chiplet;
    double lines;
    bool write;
} Pieces;
static void touch_piece(void *user, uint64_t name, double share)
{
    Pieces *p = user;
    p->r->weight = share * p->lines;
    touch_line(p->r, p->chiplet, NULL, (uint32_t)(sim_hash(name) >> 34), p->write, 0);
}
static void touch_window(Replay *r, int64_t chiplet, const SimAccess *a, const int64_t *elements)
{
    const SimSite *site = &r->t->sites.data[a->site];
    Pieces p = { r, chiplet, sim_window_lines(r, a), site->write };
    if (r->cuts[a->site].cut) sim_cut_pieces(r->t, a, &r->cuts[a->site], touch_piece, &p);
    else touch_piece(&p, (uint64_t)(site->indexed ? elements[a->first] : a->at), 1);
}

static void touch_access(
    Replay *r, int64_t chiplet, SimCache *l1, const SimAccess *a, const int64_t *elements)
{
    const SimSite *site = &r->t->sites.data[a->site];
    Touch t = { r, chiplet, l1, site->write };
    r->tensor = r->seen ? &r->o->tensors[site->param] : NULL;
    r->request = r->o->line_bytes ? r->o->line_bytes[site->param][site->write] : (double)r->d->line;
    if (r->o->windows) {
        touch_window(r, chiplet, a, elements);
        return;
    }
    if (!site->indexed) {
        sim_box_runs(site, a, r->shift, touch_fn, &t);
        return;
    }
    int64_t done = -1;
    for (int32_t k = 0; k < a->n[0]; k++) {
        int64_t first = elements[a->first + k] >> r->shift;
        if (first != done) touch_run(r, chiplet, l1, first, first, site->write);
        done = first;
    }
}

/* --- programs ---------------------------------------------------------------------------------------- */

static bool copy_step(Replay *r, Place *p, const SimStep *s)
{
    int64_t n_elements = 0;
    for (int64_t k = s->n - 1; k >= 0 && !n_elements; k--)
        if (r->t->sites.data[s->access[k].site].indexed) n_elements = s->access[k].first + s->access[k].n[0];
    if (s->n > p->cap) {
        SimAccess *q = take(r, p->access, p->cap, s->n, sizeof *q);
        if (!q) return false;
        p->access = q;
        p->cap = s->n;
    }
    if (n_elements > p->cap_elements) {
        int64_t *q = take(r, p->elements, p->cap_elements, n_elements, sizeof *q);
        if (!q) return false;
        p->elements = q;
        p->cap_elements = n_elements;
    }
    if (s->n) memcpy(p->access, s->access, (size_t)s->n * sizeof *s->access);
    if (n_elements) memcpy(p->elements, s->elements, (size_t)n_elements * sizeof *s->elements);
    p->n = s->n;
    p->at = 0;
    return true;
}

/* The program of a workgroup: -1: none. */
static SimStatus program_of(Replay *r, int64_t workgroup, int64_t *program)
{
    int64_t to[8] = { workgroup };
    r->env.linear = workgroup;
    if (r->o->order) to[0] = r->o->order[workgroup];
    else if (r->remap && (!eval_run(r->remap, &r->env, to, 8) || to[0] < 0)) return SIM_FAILED;
    *program = to[0];
    return to[0] < r->t->programs ? SIM_OK : SIM_FAILED;
}

/* The chiplet's next workgroup takes the place. */
static SimStatus start(Replay *r, int64_t x, Place *p)
{
    Chiplet *c = &r->chiplet[x];
    int64_t program = -1;
    p->busy = false;
    for (; program < 0; c->next += program < 0 ? r->d->chiplets : 0) {
        if (c->next >= r->programs) return SIM_OK;
        SimStatus known = program_of(r, c->next, &program);
        if (known) return known;
    }
    SimStep s;
    SimStatus st = sim_program_run(r->program, program, &s);
    if (st) return st;
    if (!copy_step(r, p, &s)) return SIM_NO_MEMORY;
    r->r->cut += s.cut;
    if (r->o->chiplet_of) r->o->chiplet_of[program] = (uint8_t)x;
    r->r->flops_8 += s.flops_8;
    r->r->flops_16 += s.flops_16;
    r->r->flops_32 += s.flops_32;
    r->r->operations += s.operations;
    c->next += r->d->chiplets;
    p->busy = true;
    return SIM_OK;
}

static inline bool sits_out(const Replay *r, uint64_t round, int64_t place)
{ return r->o->drift > 0 && sim_hash(round << 20 ^ (uint64_t)place) % 100 < (uint64_t)r->o->drift; }

static SimStatus run_all(Replay *r)
{
    int64_t chiplets = r->d->chiplets, busy = 0,
            left = r->o->max_accesses > 0 ? r->o->max_accesses : INT64_MAX;
    SimStatus st;
    for (int64_t s = 0; s < r->places; s++)
        for (int64_t x = 0; x < chiplets; x++) {
            Place *p = &r->place[x * r->places + s];
            if ((st = start(r, x, p))) return st;
            busy += p->busy;
        }
    for (uint64_t round = 0; busy && left > 0; round++)
        for (int64_t s = 0; s < r->places; s++)
            for (int64_t x = 0; x < chiplets; x++) {
                Place *p = &r->place[x * r->places + s];
                if (!p->busy || sits_out(r, round, x * r->places + s)) continue;
                left--;
                if (p->at < p->n)
                    touch_access(
                        r, x, &r->l1[x * r->d->units + s % r->d->units], &p->access[p->at++], p->elements);
                while (p->busy && p->at >= p->n)
                    if ((st = start(r, x, p))) return st;
                busy -= !p->busy;
            }
    return SIM_OK;
}

/* --- the result -------------------------------------------------------------------------------------- */

static double error_of(const double *n, const double *hit, double total, double hits, int64_t sample)
{
    double sum = 0;
    if (sample < 2 || total <= 0) return 0;
    for (int g = 0; g < GROUPS; g++) {
        double d = n[g] > 0 ? hit[g] / n[g] - hits / total : 0;
        sum += d * d * n[g] / total;
    }
    return sqrt(sum / (GROUPS - 1));
}

static void finish(Replay *r, int64_t sample)
{
    const SimDevice *d = r->d;
    SimResult *out = r->r;
    double n = 0, hit = 0, ln = 0, lhit = 0, asked = 0, scale = (double)sample, line = (double)d->line,
           most = 0;
    for (int64_t x = 0; x < d->chiplets; x++) { /* Lines that are still dirty are written back. */
        for (uint64_t k = 0; k < (uint64_t)r->l2[x].sets * r->l2[x].ways; k++)
            if (r->l2[x].tags[k] & SIM_DIRTY) last_level(r, (r->l2[x].tags[k] & ~SIM_DIRTY) - 1, true, 0);
        asked += r->chiplet[x].asked;
        if (r->chiplet[x].asked > most) most = r->chiplet[x].asked;
    }
    for (uint64_t k = 0; r->llc.tags && k < (uint64_t)r->llc.sets * r->llc.ways; k++)
        to_memory(r, r->llc.tags[k]);
    for (int g = 0; g < GROUPS; g++) {
        n += r->l2_n[g];
        hit += r->l2_hit[g];
        ln += r->llc_n[g];
        lhit += r->llc_hit[g];
    }
    out->programs = r->programs;
    out->sample = sample;
    out->l1 = (SimLevel){ r->l1_n * scale, r->l1_hit * scale };
    out->l2 = (SimLevel){ n * scale, hit * scale };
    out->llc = (SimLevel){ ln * scale, lhit * scale };
    for (int p = 0; r->seen && p < r->t->func->n_params; p++) {
        SimTensor *x = &r->o->tensors[p];
        x->l1 = (SimLevel){ x->l1.accesses * scale, x->l1.hits * scale };
        x->l2 = (SimLevel){ x->l2.accesses * scale, x->l2.hits * scale };
        x->distinct *= scale;
    }
    out->l2_error = error_of(r->l2_n, r->l2_hit, n, hit, sample);
    out->llc_error = error_of(r->llc_n, r->llc_hit, ln, lhit, sample);
    out->read_bytes = r->memory_read * scale * line;
    out->write_bytes = r->memory_written * scale * line;
    out->l2_bytes = asked * scale;
    out->llc_bytes = (n - hit) * scale * line;
    double times[] = { (out->flops_8 / (2 * d->tflops_16) + out->flops_16 / d->tflops_16 +
                           out->flops_32 / d->tflops_32) *
                           1e-12,
        most * scale * (double)d->chiplets / (d->l2_tbs * 1e12),
        d->llc_bytes ? out->llc_bytes / (d->llc_tbs * 1e12) : 0,
        (out->read_bytes + out->write_bytes) / (d->memory_tbs * 1e12),
        d->shared_tbs > 0 ? r->o->shared_bytes / (d->shared_tbs * 1e12) : 0 };
    static const char *const names[] = { "arithmetic", "L2", "last-level cache", "memory", "shared memory" };
    double moving = times[1] > times[2] ? times[1] : times[2];
    out->apart = times[0] + times[4] + (moving > times[3] ? moving : times[3]);
    out->bound = "nothing";
    for (int k = 0; k < 5; k++)
        if (times[k] > out->seconds) {
            out->seconds = times[k];
            out->bound = names[k];
        }
}

static void release(Replay *r)
{
    int64_t chiplets = r->d->chiplets;
    for (int64_t k = 0; r->l1 && k < chiplets * r->d->units; k++) cache_free(r, &r->l1[k]);
    for (int64_t k = 0; r->l2 && k < chiplets; k++) cache_free(r, &r->l2[k]);
    cache_free(r, &r->llc);
    for (int64_t k = 0; r->place && k < chiplets * r->places; k++) {
        if (r->place[k].access) take(r, r->place[k].access, r->place[k].cap, 0, sizeof(SimAccess));
        if (r->place[k].elements) take(r, r->place[k].elements, r->place[k].cap_elements, 0, sizeof(int64_t));
    }
    if (r->l1) take(r, r->l1, chiplets * r->d->units, 0, sizeof *r->l1);
    if (r->l2) take(r, r->l2, chiplets, 0, sizeof *r->l2);
    if (r->place) take(r, r->place, chiplets * r->places, 0, sizeof *r->place);
    if (r->chiplet) take(r, r->chiplet, chiplets, 0, sizeof *r->chiplet);
    if (r->seen) take(r, r->seen, r->t->bytes / r->d->line / 8 + 1, 0, 1);
    if (r->cuts) take(r, r->cuts, (int64_t)r->t->sites.len + 1, 0, sizeof *r->cuts);
    sim_program_free(r->program);
}

static void *zeroed(Replay *r, int64_t n, size_t size)
{
    void *p = take(r, NULL, 0, n, size);
    if (p) memset(p, 0, (size_t)n * size);
    return p;
}

static SimStatus set_up(Replay *r, int64_t *sample)
{
    const SimDevice *d = r->d;
    r->l1 = zeroed(r, d->chiplets * d->units, sizeof *r->l1);
    r->l2 = zeroed(r, d->chiplets, sizeof *r->l2);
    r->place = zeroed(r, d->chiplets * r->places, sizeof *r->place);
    r->chiplet = zeroed(r, d->chiplets, sizeof *r->chiplet);
    r->cuts = zeroed(r, (int64_t)r->t->sites.len + 1, sizeof *r->cuts);
    r->program = sim_program_new(r->t, r->alloc);
    if (r->o->tensors && !r->o->windows) r->seen = zeroed(r, r->t->bytes / d->line / 8 + 1, 1);
    if (r->o->tensors && !r->o->windows && !r->seen) return SIM_NO_MEMORY;
    if (!r->cuts || !r->l1 || !r->l2 || !r->place || !r->chiplet || !r->program) return SIM_NO_MEMORY;
    int64_t accesses = r->o->max_accesses > 0 ? r->o->max_accesses / (d->chiplets * r->places) + 1 : 0;
    sim_program_limit(r->program, accesses, r->o->most_steps);
    SimStatus st = sim_choose_sample(r, sample);
    if (st) return st;
    r->sample_mask = (uint64_t)*sample - 1;
    for (int64_t k = 0; k < d->chiplets * d->units && !r->o->windows; k++)
        if (!cache_new(r, &r->l1[k], d->l1_bytes, d->l1_ways, *sample)) return SIM_NO_MEMORY;
    for (int64_t k = 0; k < d->chiplets; k++) {
        if (!cache_new(r, &r->l2[k], d->l2_bytes, d->l2_ways, *sample)) return SIM_NO_MEMORY;
        r->chiplet[k].next = k;
    }
    return cache_new(r, &r->llc, d->llc_bytes, d->llc_ways, *sample) ? SIM_OK : SIM_NO_MEMORY;
}

SimStatus sim_replay(
    const SimTrace *t, const SimDevice *d, const EvalCode *remap, const SimOptions *o, SimResult *out)
{
    Replay r = { .t = t,
        .d = d,
        .remap = remap,
        .o = o,
        .r = out,
        .env = sim_trace_env(t),
        .alloc = o->alloc,
        .weight = 1,
        .mean = 1 };
    int64_t sample = 1, per_unit = o->per_unit > 0 ? o->per_unit : 1;
    *out = (SimResult){ .bound = "nothing" };
    while ((1ll << r.shift) < d->line) r.shift++;
    r.programs = o->programs > 0 && o->programs < t->programs ? o->programs : t->programs;
    r.places = d->units * per_unit;
    if (t->bytes / d->line > INT32_MAX - 2 || d->chiplets * r.places > MAX_PLACES) return SIM_FAILED;
    SimStatus st = set_up(&r, &sample);
    if (!st) st = run_all(&r);
    if (!st) finish(&r, sample);
    release(&r);
    return st;
}
