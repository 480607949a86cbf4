/* estimate.c: the time of a launch from what its programs do (cost.h) and what the device can do. Not a simulation: every resource of a multiprocessor has a rate, the slowest sets the pace
 * of the programs that share it; a program alone is also as slow as its own chain of waits; programs come in rounds. docs/tuning.md has the formulas and how well they do. */
#include "runtime/cost.h"
#include <math.h>
#include <string.h>

/* measured: fitted on the times of bench/gpu (docs/tuning.md). The others are that row scaled by public figures: the vendor's data sheets for matrix rates (dense f16 with f32 sums), memory and clocks,
 * the programming guide for what a multiprocessor holds. */
static const DeviceModel models[] = {
    /* target         measured  wgmma   mma  shared  alu  special   l2  store  memory  latency  shared/SM  registers threads */
    { "cuda:sm_90a",   true,     3100, 2000,    200, 225,      56, 130,   320,   3070,     650,   233472,     65536,   2048 },
    { "cuda:sm_90",    false,    3100, 2000,    200, 225,      56, 130,   320,   3070,     650,   233472,     65536,   2048 },
    { "cuda:sm_80",    false,       1, 1150,    165, 175,      43,  85,   170,   1400,     650,   167936,     65536,   2048 },
    { "cuda:sm_86",    false,       1,  400,    200, 210,      52,  65,   130,    850,     650,   102400,     65536,   1536 },
    { "cuda:sm_89",    false,       1,  600,    290, 300,      75, 100,   200,    920,     650,   102400,     65536,   1536 },
    { "cuda:sm_100",   false,       1, 1500,    225, 240,      60, 160,   320,   7000,     650,   233472,     65536,   2048 },
    { "cuda:sm_100a",  false,       1, 1500,    225, 240,      60, 160,   320,   7000,     650,   233472,     65536,   2048 },
    { "cuda:sm_120",   false,       1,  600,    290, 300,      75, 100,   200,   1600,     650,   102400,     65536,   1536 },
    { "cuda:sm_121",   false,       1,  600,    290, 300,      75, 100,   200,    270,     650,   102400,     65536,   1536 },
};

/* Nanoseconds, fitted together with the first row: a launch; the way from it to the first load; its end; of a turn of a loop: what nothing hides, the least that a producer takes, a barrier or an
 * exchange among lanes (in a cluster, so many of these); the first ticket; a scalar operation of the way to the first load, one of a producer's loop; what a load
 * takes longer from memory than from L2. */
static const double START = 1334, BEGIN = 700, END = 476, TURN = 5, PUT = 228, MEET = 75, CLUSTER_MEETS = 3, TICKET = 1000, SCALAR = 12, STEP = 3, FROM_MEMORY = 700;
/* What the CTAs of a cluster take to put a tile together. Measured: 2 to 4 us. */
static const double JOIN = 2480, JOIN_CHAINED = 2100;
/* The part of a wait for loads that nothing runs ahead of which other warps and CTAs do not fill (products with K, N or both of 777, 1023, 3001, 5001). */
static const double STALL = 0.9;
/* Registers beside their sums of products whose operands are of 32 bits, from shared memory to mma.sync (tf32, A transposed: 64 x 160 by 4 warps 234 in all, 128 x 128 spills 700 bytes). */
static const double WIDE = 130;
/* What a program of such as load together by twos and by fours takes longer to end, as they take their next ticket together (sums of 384 to 2048, tiles of 128 x 256). */
static const double END_OF_TWO = 200, END_OF_FOUR = 500;
/* Bytes that filler warps bring to slots, by multiprocessor and nanosecond. */
static const double FILLED = 16;
/* Clusters that run at once: multiprocessors come in groups, in which some are left over by fours and eights (H100, cuOccupancyMaxActiveClusters: 66 of two, 30 of four, 15 of eight). */
static double clusters_at_once(int units, int cluster) { return fmax(1, floor((cluster > 2 ? units - units / 11 : units) / (double)cluster)); }
/* Slots of a ring that its reader holds, and where one product follows another (K while V is loaded: D 72 and 104 by two slots of 128 keys each); what counts of a request's unused bytes, and of rows that begin within a sector (a tile of 128 x 256 where every other row of B and A does takes half as
 * long again); of bytes that go into shared memory beside those that products read there; programs that load together by twos and fours; what operands in narrow panels cost (tiles of 128 x 160 and 128 x 144 with B as it lies and transposed: 3 to 14%, 14 to 33%); how late the last of uneven programs is, in programs, of four a multiprocessor or more. */
static const double HELD_SLOTS = 1.14, HELD_CHAINED = 0.6, NARROW = 1, TORN = 3.5, FILL = 0.75, PAIRS = 1.015, FOURS = 0.97, PANELS = 0.24, TAIL = 0.53;
/* Memory: how often a word that registers do not hold goes there and comes back (rows of 24576 to 131072 in one CTA: 1.7 to 4); what L2 keeps of what is read again; what must leave L2 first, as it was written before, of as many bytes as come and of L2 (H100, L2 overwritten before: 117, 134, 235, 470 MB read in 52, 57,
 * 90, 167 us); what pieces of rows of less than 128 bytes cost there; the part of the multiprocessors that it takes to
 * keep memory busy. */
static const double SPILLED = 3, L2_KEEPS = 0.86, DIRTY = 0.75, DIRTY_MOST = 0.8, APART = 0.18, BUSY = 0.56;
/* The part of what is written that L2 holds when a launch ends; how softly memory's time meets that of programs with products. */
static const double CROWDED = 1.08, PLAIN_PAIRS = 0.99, PLAIN_FROM_MEMORY = 1000;
static const double STAYS = 0.8, PRODUCTS_MEMORY = 3;
/* Memory alone bounds a launch where it takes so many times what all else does; nearer, both do, and there is something to gain. */
static const double NEARLY = 1.1;

const DeviceModel *device_model(const Target *t)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) if (!strcmp(models[i].target, t->name)) return &models[i];
    return NULL;
}

/* A maximum with soft corners: resources that are nearly as busy as the busiest get into its way. */
static double blend(double power, int n, const double *x)
{
    double most = 1e-9, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, x[i]);
    for (int i = 0; i < n; i++) sum += pow(x[i] / most, power);
    return most * pow(sum, 1 / power);
}
#define BLEND(power, ...) blend((power), (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), (double[]){ __VA_ARGS__ })

/* Registers of a thread: what its tiles hold (runs that are loaded by shifted vectors: two of those), and addresses and the like. Products from registers are read ahead, as far as there is room (64x64 by 4 warps
 * 136 to 158, 128x64 184 to 244, 128x256 by 8 244); rows that go through registers on their way to shared memory need some that the products cannot spare (128x128 by 4 warps spills 12 to 40 bytes then, else none). */
static double registers_wanted(const Cost *c)
{
    double own = c->consumers ? c->held + 28 + (c->chained && c->loaded ? c->loaded + 12 : 0) : fmax(c->held, (c->shifted ? 2 : 1) * c->words) + 22;
    if (c->consumers || c->mma <= 0) return own;
    if (c->wide) return fmax(own, c->held + WIDE);
    return fmax(own, c->stalls > 0 ? c->held + 121 : fmin(c->held + 105, c->room));
}

/* CTAs that a multiprocessor holds. Where loads go by shifted vectors, all on their way at once and two for each, the compiler takes the registers it may (SiLU of rows of 1009:
 * 4 x 512 in 64 registers, 32 bytes of each of 1024 threads under way, 2.30 TB/s; 4 x 1024, 64 bytes, 2.78). */
static double resident(const Cost *c, const DeviceModel *m)
{
    double registers = c->shifted ? c->registers : fmin(c->registers, ceil((registers_wanted(c) + 4) / 8) * 8);
    double n = floor((double)m->shared_bytes / (double)(c->shared_bytes + 1024));
    n = fmin(n, floor((double)m->threads / c->threads));
    n = fmin(n, floor((double)m->registers / (c->threads * registers)));
    return c->persistent ? 1 : fmin(fmax(n, 1), 32);
}

/* Arithmetic beside products: the part of it that the products of other warpgroups do not hide. With roles fitted on attention (H100, 2026-11-21: D 32 and 64, one to three warpgroups, 55 configurations of 12 shapes). */
static const double LEFT = 0.2, OTHERS = 1.05, ALL = 1.05, ALL_OF_TWO = 1.12;
static double unhidden(const Cost *c, double groups) { return c->consumers ? LEFT + OTHERS / (groups * groups) : 0.23 + 0.48 / (groups * sqrt(groups)); }

/* Rows that are held while they are reduced: each CTA asks for its part, waits, meets the others, stores, and only in the first and last of these is memory at work for it. The part of the time in which some CTA of
 * a multiprocessor has memory at work: a closed line of k customers with one server (mean value analysis), `serve` the time of a CTA's bytes at the multiprocessor's share of memory, `rest` all else a CTA does.
 * H100, part of a copy's rate, estimated and measured (CTAs a multiprocessor, their bytes in and out): softmax of 10000 by two CTAs 0.95, 0.95 (4, 20 KB), by one 1.00, 1.01 (4, 40 KB); RMSNorm of 5120 0.99, 1.00 (4, 20 KB), RMSNorm of 40960 by
 * eight of 8 warps 0.92, 0.92 (4, 20 KB), of 4 warps 0.99, 1.00 (6, 20 KB); softmax of 98304 0.79, 0.85 (2, 49 KB) and 0.98, 1.01 (4, 49 KB); LayerNorm of 131072 0.86, 0.86 (2, 66 KB). */
static const double REST = 200, REST_WARP = 60, REST_CLUSTER = 550, REST_CTA = 60;
static double memory_at_work(double k, double serve, double rest)
{
    double queue = 0, part = 1;
    for (int i = 1; i <= (int)k; i++) {
        double there = serve * (1 + queue), each = i / (rest + there);
        queue = each * there;
        part = each * serve;
    }
    return fmin(part, 1);
}

double cost_estimate(const Cost *c, const DeviceModel *m, int units, int64_t l2_bytes, const char **limit)
{
    double n = (double)c->programs / clusters_at_once(units, c->cluster), k = resident(c, m), turns = fmax(1, c->turns);
    if (c->loading > 1) n = (double)c->groups / clusters_at_once(units, c->loading);
    double mine_of = c->cluster > 1 && c->joins <= 0 ? 1.0 / c->cluster : 1;        /* rows spread over a cluster are counted whole */
    /* of one turn, each resource by itself */
    double matrix = (c->wgmma / m->wgmma + c->mma / m->mma) / turns, feed = (c->feed + c->shared + (c->ring > 0 ? FILL * c->in : 0)) / m->shared / turns;
    double arithmetic = mine_of * (c->alu / m->alu + c->special / m->special) / turns, l2 = mine_of * (c->in - c->given + NARROW * c->wasted + TORN * c->torn) / m->l2 / turns, put = c->consumers ? PUT + STEP * c->steps / turns : 0;
    /* L2's rate is the device's: few programs have more of it each */
    l2 *= fmax(0.5, fmin(1, (double)c->programs * c->cluster / units));
    double fill = c->filled / FILLED / turns;
    /* products and nothing else ask for data fastest: L2 gives less then, what comes from memory comes later, and asking for it together gains more */
    bool plain = c->special <= 0 && c->consumers && !c->chained;
    if (plain) l2 *= CROWDED;
    double products = BLEND(8.6, matrix, feed), groups = c->consumers ? c->consumers : c->threads / 128.0;
    products *= (1 + PANELS * (c->chained ? fmin(1, c->panels) : c->panels)) * (c->loading > 2 ? plain ? 1 : FOURS : c->loading > 1 ? plain ? PLAIN_PAIRS : PAIRS : 1);
    double side = fmax(1, fmin(k, ceil(n)));         /* programs under way together */
    double all = c->consumers && c->chained ? (c->consumers > 2 ? ALL : ALL_OF_TWO) * arithmetic : 0, pace = BLEND(6, products + unhidden(c, groups * side) * arithmetic, all, l2, fill);
    /* alone: data that come too late, and waits that nothing fills */
    double slots = c->slots ? c->slots : 3, from_memory = c->in > 0 ? fmin(1, c->memory / ((double)c->programs * (c->joins > 0 ? c->cluster : 1) * c->in)) : 0;
    double wait = (m->latency + (plain ? PLAIN_FROM_MEMORY : FROM_MEMORY) * from_memory + l2) / fmax(slots - (c->chained ? HELD_CHAINED : HELD_SLOTS), 0.35);
    double meets = MEET * c->meets / turns * (c->cluster > 1 && c->joins <= 0 ? CLUSTER_MEETS : 1);
    double turn = BLEND(6, products + unhidden(c, groups) * arithmetic, all, l2, wait, put, fill) + TURN + meets + STALL * m->latency * c->stalls / turns;
    double over = registers_wanted(c) - c->room, spills = over > 0 ? 1.3 + (c->consumers ? 0.02 : 0.06) * over : 1;
    /* Two warpgroups that begin a long loop together may stay in step, so that both multiply and both do arithmetic; programs that follow each other shift them. Turns keep them apart and cost
     * barriers. Measured, one program each: full D 64 98 to 82 us, D 80 97 to 95, D 96 117 to 98, D 128 110 to 108; several: 0.93 to 1.04 times as long. */
    if (c->consumers == 2 && c->chained && n <= 1) spills *= c->by_turns ? 1.12 : 1.18;
    else if (c->by_turns && c->consumers == 2) spills *= n <= 1 ? 0.93 : 1.02;
    turn *= spills;
    pace *= spills;
    double begin = m->latency + BEGIN + l2 + SCALAR * c->scalar, store = mine_of * c->out / m->store, end = END + store + (c->chained ? JOIN_CHAINED : JOIN) * c->joins + (c->chained ? 0 : c->loading > 2 ? END_OF_FOUR : c->loading > 1 ? END_OF_TWO : 0), t;
    /* a warpgroup's first turn has no product of an earlier one beside its arithmetic, and its last none behind it */
    if (c->consumers) end += (c->chained ? 1.2 : 1) * (fmax(0, 1 - unhidden(c, groups)) * arithmetic + fmin(products, arithmetic)) / groups;
    /* programs of a multiprocessor: whole rounds, or, where some are heavier, shared out as they end */
    bool rows = c->turns <= 1 && c->meets > 0 && c->shared <= 0 && c->mma + c->wgmma <= 0 && !c->persistent && c->joins <= 0 && c->memory > 0, many = rows && n > k;
    if (rows && !c->shifted) k = fmin(k, fmax(1, floor((double)m->registers / ((double)c->threads * c->registers))));       /* they take what they may */
    bool uneven = c->heaviest > 1.15;
    double tail = TAIL * fmin(1, n / 4), mine = uneven ? fmax(n + tail, c->heaviest) : ceil(n);
    if (c->persistent) {
        t = begin + TICKET + mine * fmax(turns * BLEND(6, pace, put) + store, turns * turn + end);
    } else {
        double rounds = uneven ? fmax(n / k + tail, c->heaviest) : ceil(ceil(n) / k);
        t = many ? mine * (turns * pace + store) : fmax(mine * (turns * pace + store), rounds * (begin + turns * (fmin(k, n) > 1 ? BLEND(6, turn, fmin(k, ceil(n)) * pace) : turn) + end));
    }
    /* what a program reads again comes from memory again unless L2 holds what all of those under way have read */
    double outs = fmin(c->out * (double)c->programs * (c->joins > 0 ? c->cluster : 1), DIRTY_MOST * (double)l2_bytes);
    double kept = k * units / c->cluster * (c->in - c->again + c->out), lost = kept > L2_KEEPS * (double)l2_bytes ? 1 - L2_KEEPS * (double)l2_bytes / kept : 0;
    double kept_over = fmax(c->held, c->words) + (rows ? 16 : 22) - c->room, spilled = kept_over > 0 && !c->consumers && c->mma <= 0 ? SPILLED * 8 * kept_over * c->threads * (double)c->programs * c->cluster : 0;
    double bytes = (c->memory + (double)c->programs * c->again * lost) * (1 + APART * c->wasted / fmax(1, c->in)) + spilled, busy = fmin(1, (double)c->programs * c->cluster / (BUSY * units));
    double memory = (bytes - (c->wgmma + c->mma > 0 && c->memory > outs ? STAYS * outs : 0) + fmin(DIRTY * bytes, DIRTY_MOST * (double)l2_bytes)) / (m->memory * busy);
    double ctas = (double)c->programs * c->cluster, work = many ? memory_at_work(k, bytes / ctas * units / m->memory, REST + REST_WARP * c->threads / 32 + (c->cluster > 1 ? REST_CLUSTER + REST_CTA * c->cluster : 0)) : 1;
    memory /= work;
    *limit = work < 0.97 ? "loads in flight" : memory > NEARLY * t ? "memory" : turn > 1.2 * pace && wait > products ? "loads in flight" : l2 > products ? "L2" : feed > matrix ? "shared memory" : arithmetic > matrix ? "arithmetic" : "products";
    return BLEND(c->wgmma + c->mma > 0 ? PRODUCTS_MEMORY : 4, t, memory) + START;
}
