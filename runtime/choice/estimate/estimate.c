/* estimate.c: the time of a launch, from what its programs do (cost.h) and what the device can do
 * (device_model.h).
 *
 * This is no simulation. Each resource of a multiprocessor has a rate, and the slowest sets the pace of the
 * programs that share it. A program alone is also as slow as its own chain of waits. Programs come in rounds,
 * and memory serves all of them. One function computes the time of one resource, in the order of
 * docs/tuning.md, "Estimate". */
#include "runtime/choice/estimate/estimate.h"
#include <math.h>

enum { LINE = 128 }; /* bytes */

/* A maximum with soft corners: resources that are nearly as busy as the busiest get into its way. */
static double blend(double power, int n, const double *x)
{
    double most = 1e-9, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, x[i]);
    for (int i = 0; i < n; i++) sum += pow(x[i] / most, power);
    return most * pow(sum, 1 / power);
}
#define BLEND(power, ...) \
    blend((power), (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), (double[]){ __VA_ARGS__ })

static bool multiplies(const Cost *c) { return c->wgmma + c->mma > 0; }

static double clusters_of_a_program(const Cost *c) { return c->clusters > 1 ? c->clusters : 1; }

/* CTAs that share one program, or join its parts. */
double estimate_ctas_of_a_program(const Cost *c)
{ return (c->joins > 0 ? c->cluster : 1) * clusters_of_a_program(c); }

/* All CTAs of the launch that are not persistent, or that share its programs. */
static double all_ctas(const Cost *c)
{ return c->sharing > 0 ? c->sharing : (double)c->programs * c->cluster * clusters_of_a_program(c); }

/* --- what a multiprocessor holds --------------------------------------------------------------------- */

double cost_clusters_at_once(const DeviceModel *m, int units, int cluster)
{
    if (cluster <= 2) return fmax(1, floor(units / (double)cluster));
    const int rest = units - units / (int)m->clusters_left_over, gpc = (int)m->gpc;
    return fmax(1, rest / gpc * (gpc / cluster) + rest % gpc / cluster);
}

static double clusters_at_once(const Estimate *e, int cluster)
{ return cost_clusters_at_once(e->m, e->units, cluster); }

/* Programs that a multiprocessor holds: CTAs, of which each may have several of one warp. Where loads go by
 * shifted vectors, the compiler takes all registers that it may. Where warpgroups hand registers over
 * (setmaxnreg, of which one consumer alone has no need), it takes all that the launch bounds allow: PTX
 * ISA 9.7.20 asks for that. */
static double resident_ctas(const Estimate *e)
{
    const Cost *c = e->c;
    double tiles = cost_registers_wanted(c, e->m);
    if (e->careful) tiles = fmax(tiles - e->m->registers_plain, c->live) + e->m->registers_beside;
    if (estimate_runs_ahead(e)) tiles = fmax(tiles, c->live + e->m->registers_rounds);
    double wanted = ceil((tiles + e->m->registers_launch) / 8) * 8;
    double registers = c->shifted || c->consumers > 1 ? c->registers : fmin(c->registers, wanted);
    double n = floor((double)e->t->sm_shared_bytes / (double)(c->shared_bytes + e->t->cta_shared_bytes));
    n = fmin(n, floor((double)e->t->sm_threads / c->threads));
    n = fmin(n, floor((double)e->t->sm_registers / (c->threads * registers)));
    return c->persistent ? 1 : fmin(fmax(n, 1), e->t->sm_ctas * (e->careful ? c->abreast : 1));
}

/* --- one iteration of a program's loop ---------------------------------------------------------------- */

/* How many times longer fused multiply-adds take where schedulers have a single warp, or none. */
static double lone_warps(const Estimate *e)
{
    const double longer = e->m->fma_lone_warp,
                 ctas = fmin(resident_ctas(e), fmax(1, all_ctas(e->c) / e->units));
    return e->c->fma ? fmax(1, fmin(longer, longer / (ctas * e->groups))) : 1;
}

static double matrix_time(const Estimate *e)
{ return (e->c->wgmma / e->m->wgmma + lone_warps(e) * e->c->mma / e->m->mma) / e->iterations; }

static double shared_memory_time(const Estimate *e)
{
    double written = e->c->ring > 0 ? e->m->ring_write_weight * e->c->in : 0;
    double own = multiplies(e->c) ? 0 : e->share * e->c->own;
    return (e->c->feed + e->c->shared + written + own) / e->m->shared / e->iterations;
}

/* Arithmetic behind the loop of a program with products, which no product hides. The last product of chained
 * ones leaves the arithmetic of an iteration behind it, which `end_time` counts. */
static double ends_of(const Estimate *e) { return multiplies(e->c) && !e->c->chained ? e->c->ends : 0; }

/* Instructions of products of computed operands that work on no tile take their part of the arithmetic's
 * rate: with steps of few columns there are nearly as many of them as of the softmax's. */
static double arithmetic_time(const Estimate *e)
{
    const Cost *c = e->c;
    double steps = c->chained ? e->iterations : c->computed;
    double own = c->consumers ? e->m->chained_iteration * 128 * c->consumers * steps : 0;
    return e->share * ((c->alu - ends_of(e) + own) / e->m->alu + c->special / e->m->special) / e->iterations;
}

/* L2's rate is the device's: few programs have more of it each. Rows that are cut wait in the
 * multiprocessor's own copy engine. What warps load to registers comes in sectors, each of them once where
 * loads of a program share them. */
static double l2_time(const Estimate *e)
{
    const Cost *c = e->c;
    double shared = multiplies(c) ? 0 : c->own - c->fetched; /* in the multiprocessor's own cache */
    double bytes = c->in - shared - c->given + e->m->outside_weight * c->outside +
                   e->m->narrow_weight * c->wasted + e->m->torn_weight * c->torn +
                   (e->plain ? e->m->split_weight * c->split : 0);
    double time = e->share * bytes / e->m->l2 / e->iterations;
    double least = e->plain ? e->m->plain_few_programs_l2 : e->m->few_programs_l2;
    time *= fmax(least, fmin(1, all_ctas(c) / e->units));
    if (e->plain) time *= e->m->plain_l2;
    return time + e->share * e->m->cut_row * c->cut / e->iterations;
}

static double producer_time(const Estimate *e)
{
    if (!e->c->consumers) return 0;
    const double puts = e->m->producer_put * e->c->puts, scalar = e->m->producer_scalar * e->c->steps;
    return e->m->producer_iteration + (puts + scalar) / e->iterations;
}

/* The matrix unit and shared memory get into each other's way; shared memory takes longer where panels are
 * narrow, and clusters that load together change the time of both. */
static double products_time(const Estimate *e, double matrix, double feed)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    double together = 1;
    if (c->loading > 2) together = e->plain ? 1 : m->fours;
    else if (c->loading > 1) together = e->plain ? m->plain_pairs : m->pairs;
    double panels = 1 + m->panels * (c->chained ? fmin(1, c->panels) : c->panels);
    return BLEND(m->blend_products, matrix, feed * panels) * together;
}

/* How many times longer products with little arithmetic beside them take where so many warpgroups of a
 * multiprocessor issue them. Recorded times of both cards show it of one alone; the cause is not known. */
static double few_warpgroups(const Estimate *e, double groups)
{ return e->plain && e->c->wgmma > 0 && groups <= 1 ? e->m->single_warpgroup : 1; }

/* The part of the arithmetic that the products of so many warpgroups do not hide. */
static double unhidden_part(const Estimate *e, double groups)
{
    const DeviceModel *m = e->m;
    if (e->c->consumers) return m->unhidden_specialized + m->unhidden_specialized_alone / (groups * groups);
    return m->unhidden + m->unhidden_alone / (groups * sqrt(groups));
}

/* Without products all of the arithmetic has to be issued. A multiprocessor has a scheduler for each warp of
 * a warpgroup, and fewer warps leave some of them without work. The careful estimate also counts that a warp
 * waits for the results of its own instructions, while few others have something to do. */
static double issued_part(const Estimate *e, double groups)
{
    double few = e->m->issue_warps / groups;
    return e->careful ? sqrt(1 + few * few) : fmax(1, 1 / groups);
}

/* The part of the arithmetic that products do not hide. Copies of a few bytes each are issued by the warps
 * that multiply, between their products, and have nothing to hide behind. */
static double unhidden(const Estimate *e, double groups)
{
    double part = unhidden_part(e, groups), all = e->c->alu + e->c->special;
    return e->c->consumers || all <= 0 ? part : fmax(part, part + (1 - part) * e->c->copies / all);
}

/* Where one product follows another, all of the arithmetic bounds an iteration, however many warpgroups there
 * are. */
static double chained_arithmetic(const Estimate *e, double arithmetic)
{
    if (!e->c->consumers || !e->c->chained) return 0;
    return (e->c->consumers > 2 ? e->m->arithmetic_chained : e->m->arithmetic_chained_two) * arithmetic;
}

static double meeting_time(const Estimate *e)
{
    bool cluster = e->c->cluster > 1 && e->c->joins <= 0;
    return e->m->meet * (e->c->meets + e->c->across) / e->iterations * (cluster ? e->m->cluster_meets : 1);
}

/* How many times longer an iteration takes because registers spill, and because two warpgroups that begin a
 * long loop together stay in step, so that both multiply and then both do arithmetic. Programs that follow
 * each other shift them; pingpong keeps them apart and costs barriers. */
static double slowdown(const Estimate *e)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    double over = cost_registers_missing(c, m), slower = 1;
    if (over > 0)
        slower = m->spill + (c->consumers ? m->spill_register_specialized : m->spill_register) * over;
    if (c->consumers == 2 && c->chained && e->programs <= 1)
        slower *= c->pingpong ? m->in_step_pingpong : m->in_step;
    else if (c->pingpong && c->consumers == 2) slower *= e->programs <= 1 ? m->pingpong_alone : m->pingpong;
    return slower;
}

/* Products, shared memory and arithmetic of an iteration, where so many warpgroups share a multiprocessor. Of
 * few rows, what computes an operand takes longer than the product, which then hides behind it. */
static double work_time(const Estimate *e, double groups)
{
    const Iteration *t = &e->iteration;
    if (!multiplies(e->c))
        return BLEND(e->m->blend_iteration, t->products, issued_part(e, groups) * t->arithmetic);
    double products = t->products * few_warpgroups(e, groups), other = t->arithmetic;
    bool longer = e->c->computed > 0 && !e->c->chained && other > products;
    return longer ? other + unhidden(e, groups) * products : products + unhidden(e, groups) * other;
}

/* The wait for one stage of data, shared by the stages: one is asked for when the consumer leaves it, comes
 * after `load`, and is held again while the consumer works on it and on a part of its neighbours. Where one
 * product follows another, other warpgroups work in the meantime, and a stage is held for their iterations
 * too. Loads to registers are waited for rounds ahead. */
static double data_wait(const Estimate *e, double l2)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    if (e->loops) return estimate_trip(e) * c->trips_ahead / e->iterations;
    double stages = c->stages ? c->stages : m->stages_unknown;
    double held = c->chained ? m->held_stages_chained : m->held_stages;
    if (e->plain && c->loading > 1) held += m->held_together;
    double longer = e->plain ? m->plain_memory_latency : m->memory_latency;
    double load = m->latency + longer * estimate_from_memory(e) + l2;
    double busy = (load + held * work_time(e, e->groups)) / stages,
           bare = load / fmax(stages - held, m->least_stages);
    return c->chained ? bare : fmin(busy, bare);
}

/* How often a program waits for loads that nothing runs ahead of. Those of consumers wait for each other
 * where the registers do not hold them all. */
static double stalls(const Cost *c)
{
    const double free = fmax(1, c->room - c->live);
    return c->stalls + c->waits + ceil(c->before / free);
}

static void estimate_iteration(Estimate *e)
{
    Iteration *t = &e->iteration;
    const DeviceModel *m = e->m;
    t->matrix = matrix_time(e);
    t->feed = shared_memory_time(e);
    t->arithmetic = arithmetic_time(e);
    t->l2 = l2_time(e);
    t->cp_async = estimate_cp_async(e);
    t->producer = producer_time(e);
    t->products = products_time(e, t->matrix, t->feed);
    t->wait = data_wait(e, t->l2);
    double together = fmax(1, fmin(e->resident, ceil(e->programs)));
    double all = chained_arithmetic(e, t->arithmetic);
    double groups = e->groups * together;
    double shared = work_time(e, groups), alone = work_time(e, e->groups);
    double slower = slowdown(e) * estimate_lines_again(e),
           stalled = m->stall_part * m->latency * stalls(e->c);
    t->pace = BLEND(m->blend_iteration, shared, all, t->l2, t->cp_async) * slower;
    double ahead = BLEND(m->blend_iteration, alone, all, t->l2, t->wait, t->producer, t->cp_async);
    t->alone = fmax(ahead, estimate_loaded_before(e, ahead)) + m->iteration + meeting_time(e);
    t->alone += (stalled + m->drain * e->c->drains) / e->iterations;
    t->alone *= slower;
}

/* --- programs ---------------------------------------------------------------------------------------- */

static double begin_time(const Estimate *e)
{ return e->m->latency + e->m->begin + e->iteration.l2 + e->m->scalar * e->c->scalar; }

/* Programs with products store when they end, many at once: what L2 takes is the device's, and few of them
 * have more of it each. */
static double store_time(const Estimate *e)
{
    double few = fmin(1, all_ctas(e->c) / e->units);
    double time = multiplies(e->c) ? e->c->stored / e->m->store_products * few : e->c->out / e->m->store;
    return e->share * (time + e->m->ends_weight * ends_of(e) / e->m->alu);
}

/* From the last product of a program to its end. A warpgroup's first iteration has no product of an earlier
 * one beside its arithmetic, and its last iteration has none behind it. */
static double end_time(const Estimate *e)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    const Iteration *t = &e->iteration;
    double end = m->end + store_time(e) + (c->chained ? m->join_chained : m->join) * c->joins;
    end += m->join_over * c->waiting;
    if (c->left > 0) end += m->join_parts + c->left / m->l2_loads;
    if (!c->chained) end += c->loading > 2 ? m->end_of_fours : c->loading > 1 ? m->end_of_pairs : 0;
    if (!c->consumers) return end;
    double bare = fmax(0, 1 - unhidden(e, e->groups)) * t->arithmetic + fmin(t->products, t->arithmetic);
    return end + (c->chained ? m->first_iteration_chained : 1) * bare / e->groups;
}

/* Whether the programs of a launch share what bounds them: TMA's bytes come from L2 and memory, which are the
 * device's, and so is the power that products draw. What warps copy or compute is bound by their own
 * multiprocessor. */
static bool shares_device(const Cost *c)
{ return c->consumers > 0 && multiplies(c) && !c->chained && c->cp_async <= 0; }

/* Rounds of programs, whose iterations take as long as those of so many whole rounds. Where a part of the
 * multiprocessors has a program, these have more of the device each. */
static double rounds_of(const Estimate *e, double n)
{
    double whole = floor(n), last = n - whole;
    if (last > 0 && shares_device(e->c))
        return whole + pow(last, e->m->few_programs * fmin(1, e->iteration.l2 / e->iteration.pace));
    if (!multiplies(e->c) || whole < 1 || last <= 0) return ceil(n);
    return whole + 1 - e->m->last_round * (1 - last);
}

/* All programs of a multiprocessor: in whole rounds, or, where some are heavier, shared out as they end.
 * Persistent CTAs whose programs multiply nothing, since their loops do not run, wait for no data: it was
 * asked for ahead of them. */
static double programs_time(const Estimate *e)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    const Iteration *t = &e->iteration;
    double n = e->programs, k = e->resident, begin = begin_time(e), store = store_time(e), end = end_time(e);
    bool uneven = c->heaviest > m->uneven;
    double tail = m->tail * fmin(1, n / m->tail_programs);
    double mine = uneven ? fmax(n + tail, c->heaviest) : rounds_of(e, n);
    if (c->persistent) {
        double steady = e->iterations * BLEND(m->blend_iteration, t->pace, t->producer) + store;
        double walk = multiplies(c) ? e->iterations * t->alone : 0;
        if (c->shares > 1)
            return begin + m->scheduler + floor(n) * fmax(steady, walk + end) +
                   cost_shares_time(c, m, n - floor(n), fmax(steady - store, walk), begin + end);
        double ends = uneven ? mine : ceil(n);
        return begin + m->scheduler + fmax(mine * (steady - store) + ends * store, mine * walk + ends * end);
    }
    double busy =
        fmax(mine * e->iterations * t->pace + (uneven ? mine : ceil(n)) * store, mine * m->cta_start);
    if (e->many_rows) return busy;
    double rounds = n <= k ? rounds_of(e, fmin(n, 1)) : rounds_of(e, n / k), each = t->alone;
    if (uneven) rounds = fmax(n / k + tail, c->heaviest);
    double ends = uneven ? rounds : ceil(n / k);
    if (fmin(k, n) > 1 && multiplies(c))
        each = BLEND(m->blend_iteration, t->alone, fmin(k, ceil(n)) * t->pace);
    double warm = multiplies(c) ? m->begin_warm * fmax(0, ends - 1) : 0;
    double chain = ends * (begin + end) - warm + rounds * e->iterations * each;
    return multiplies(c) ? fmax(busy, chain) : BLEND(m->blend_iteration, busy, chain);
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* How many words go to memory for each word of a held row without a register: the words of other tiles, such
 * as weights, go with it where they are loaded while the row is held (bench/notes/rows.md, "Weights beside
 * long rows"). */
static double spilled_beside(const Estimate *e)
{ return e->rows && e->c->out > 0 ? fmax(1, e->c->in / e->c->out) : 1; }

/* Bytes that come from memory. What a program reads again comes again, unless L2 holds what all programs
 * under way have read, which is all tensors at most; and words that registers do not hold go to memory and
 * back. Of rows that are held, weights and results come and go vector by vector, beside the row alone. */
static double bytes_from_memory(const Estimate *e)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    double kept = fmin(c->unique, e->resident * e->units / c->cluster * (c->in - c->again + c->out)),
           room = m->l2_keeps * (double)e->l2_bytes;
    double lost = kept > room ? 1 - room / kept : 0;
    double words = fmax(c->held, e->careful ? c->words : fmax(c->words, c->gathered)), spilled = 0;
    double over =
        fmax(0, words + (e->rows ? m->spill_room_rows : m->spill_room) - c->room) * spilled_beside(e);
    if (!e->rows) over = fmax(over, c->live - cost_registers_most(c, e->t));
    if (over > 0 && !c->consumers && c->mma <= 0)
        spilled = m->spill_trips * 8 * over * c->threads * (double)c->programs * c->cluster;
    double apart = 1 + m->apart * c->wasted / fmax(1, c->in);
    if (!multiplies(c)) apart += m->short_rows * LINE * c->pieces / fmax(1, c->in + c->out);
    double parted = multiplies(c) ? 0 : m->parted_sector * c->parted * (double)c->programs * c->cluster;
    return (c->memory + (double)c->programs * c->again * lost) * apart + parted + spilled;
}

/* The part of memory's rate that so many CTAs use. */
static double used_by(const Estimate *e, double ctas) { return fmin(1, ctas / (e->m->busy * e->units)); }

/* The part that a launch uses. Where loops over keys are divided and not all clusters find room at once,
 * those of the last round have memory to themselves, and are few. */
static double memory_used(const Estimate *e)
{
    const Cost *c = e->c;
    double all = (double)c->programs, room = e->resident * clusters_at_once(e, c->cluster);
    if (!c->chained || c->joins <= 0 || all <= room) return used_by(e, all_ctas(c));
    double last = fmod(all, room), before = all - last;
    double time = before / all / used_by(e, room * c->cluster);
    if (last > 0) time += last / all / used_by(e, last * c->cluster);
    return 1 / time;
}

/* Memory's time for these bytes. Some of what products write stays in L2 when the launch ends; what was
 * written before must leave L2. */
static double memory_time(const Estimate *e, double bytes)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    double most = m->dirty_most * (double)e->l2_bytes;
    double outs = fmin(c->out * (double)c->programs * estimate_ctas_of_a_program(c), most);
    double stays = multiplies(c) && c->memory > outs ? m->written_stays * outs : 0;
    return (bytes - stays + fmin(m->dirty * bytes, most)) / (m->memory * memory_used(e));
}

/* The part of the time in which memory works; 1 where nothing keeps it from working. */
static double memory_part(const Estimate *e, double bytes)
{
    const Cost *c = e->c;
    const DeviceModel *m = e->m;
    if (!e->many_rows) return 1;
    double ctas = (double)c->programs * c->cluster, rest = m->row_cta + m->row_warp * c->threads / 32;
    if (c->cluster > 1) rest += m->row_cluster + m->row_cluster_cta * c->cluster;
    return cost_memory_at_work(
        e->resident, bytes / ctas * e->units / m->memory, c->cluster > 1 ? m->row_cluster_start : 0, rest);
}

/* Programs that walk over an axis, what the last ones take longer than their bytes would. Memory does not
 * serve all multiprocessors alike, so that some end later; and where the last round has fewer programs than
 * the others, these wait for each of their iterations with little beside them. Where all programs run at
 * once, memory has nothing to do while they begin, and while they end. */
static double last_round(const Estimate *e, double memory)
{
    double n = e->programs, k = e->resident, last = n - k * (ceil(n / k) - 1);
    double ends = n <= k && !multiplies(e->c) && !e->c->persistent ? begin_time(e) + end_time(e) : 0;
    if (!e->loops) return ends;
    double apart = e->m->ends_apart * memory;
    if (n <= k) return apart + ends;
    double alone = begin_time(e) + e->iterations * e->iteration.alone + end_time(e);
    return fmax(apart, alone - memory * last / n);
}

/* --- the whole --------------------------------------------------------------------------------------- */

static Bound bound_of(const Estimate *e, double part, double memory, double rest)
{
    const Iteration *t = &e->iteration;
    const DeviceModel *m = e->m;
    if (part < m->bound_by_rows) return BOUND_LOADS;
    if (memory > m->bound_by_memory * rest) return BOUND_MEMORY;
    double work =
        multiplies(e->c) ? t->products : fmax(t->products, issued_part(e, e->groups) * t->arithmetic);
    if (t->alone > m->bound_by_loads * t->pace && t->wait > work) return BOUND_LOADS;
    if (!multiplies(e->c) && t->arithmetic > fmax(t->l2, t->feed)) return BOUND_ARITHMETIC;
    if (t->l2 > t->products) return BOUND_L2;
    if (t->feed > t->matrix) return BOUND_SHARED_MEMORY;
    return t->arithmetic > t->matrix ? BOUND_ARITHMETIC : BOUND_PRODUCTS;
}

static Estimate estimate_of(const Cost *c, const CostDevice *d, bool careful)
{
    Estimate e = { .c = c, .m = d->model, .t = d->target, .units = d->units, .l2_bytes = d->l2_bytes };
    e.careful = careful;
    e.iterations = fmax(1, c->iterations);
    e.groups = c->consumers ? c->consumers : c->threads / 128.0;
    e.programs = (double)c->programs * clusters_of_a_program(c) / clusters_at_once(&e, c->cluster);
    if (c->loading > 1) e.programs = (double)c->groups / clusters_at_once(&e, c->loading);
    e.resident = resident_ctas(&e);
    e.share = c->cluster > 1 && c->joins <= 0 ? 1.0 / c->cluster : 1;
    e.plain = c->special <= 0 && c->consumers && !c->chained;
    e.rows = c->iterations <= 1 && c->meets > 0 && c->shared <= 0 && !multiplies(c) && !c->persistent &&
             c->joins <= 0 && c->memory > 0 && !estimate_runs_ahead(&e);
    e.many_rows = e.rows && e.programs > e.resident;
    e.loops = c->loops && !c->stages && c->ring <= 0 && !multiplies(c) && !c->persistent && c->memory > 0;
    return e;
}

/* What L2 has of what warps load to registers, since other programs load it too. While such loads are under
 * way, a multiprocessor has room for fewer that wait for memory: their times add. */
static double l2_hits_time(const Estimate *e)
{
    const Cost *c = e->c;
    double moved = (double)c->programs * c->cluster * e->share * (c->fetched + c->out);
    if (multiplies(c) || c->own <= 0) return 0;
    return fmax(0, moved - c->memory) / (e->m->l2_loads * e->units);
}

static double estimate(const Cost *c, const CostDevice *d, bool careful, Bound *bound)
{
    Estimate e = estimate_of(c, d, careful);
    estimate_iteration(&e);
    bool bounded = e.loops && c->registers < e.t->max_registers;
    if ((e.rows || bounded) && !c->shifted) { /* the compiler takes all registers that it may */
        double most = floor((double)e.t->sm_registers / ((double)c->threads * c->registers));
        e.resident = fmin(e.resident, fmax(1, most));
    }
    double rest = fmax(programs_time(&e), estimate_longest_range(&e, begin_time(&e) + end_time(&e)));
    double bytes = bytes_from_memory(&e), part = memory_part(&e, bytes);
    double memory = fmax(memory_time(&e, bytes) / part, c->added * (double)c->programs / e.m->added);
    memory += last_round(&e, memory) + l2_hits_time(&e) + c->queued * (double)c->programs * e.m->queued;
    *bound = bound_of(&e, part, memory, rest);
    double power = multiplies(c) ? e.m->blend_products_memory : e.m->blend_memory;
    return BLEND(power, rest, memory) + e.m->launch;
}

double cost_estimate(const Cost *c, const CostDevice *d, Bound *bound)
{ return estimate(c, d, false, bound); }

double cost_estimate_carefully(const Cost *c, const CostDevice *d)
{
    Bound bound;
    return estimate(c, d, true, &bound);
}
