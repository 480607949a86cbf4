/* multistage: issues the loads of a loop that feed matrix products several steps ahead, into a ring of shared
 * memory (the portable path). A step of shared, which asks for it loop by loop.
 *
 *   for i { %a = load A[..i..]; %c = mma_sync %a, %b, %acc }
 *
 * becomes, with S stages,
 *
 *   %buf = shared_alloc [S, ...]
 *   copies of steps 0 .. S-2, a commit each
 *   for i carrying stage {
 *       copy_wait S-2; barrier                 step i has arrived, and all threads are done with step i-1
 *       if (i + (S-1)*step < hi) copy of step i+S-1 into the stage S-1 ahead; commit
 *       mma_sync on the views of this stage
 *   }
 *   barrier
 *
 * On AMD, copies go through registers. Step i+1 is loaded into registers at the head of the loop, before
 * the products of step i, and written to shared memory behind them: into the other one of two stages, or
 * into the same one behind a barrier (latency 2, or where two do not fit).
 *
 * A load with `latency = 1` takes no part: shared stages it where it stands.
 *
 * S is the largest `latency` of the others (3 by default), clipped to what shared memory holds; a performance
 * note reports the clipping. A load whose offsets depend on carried values cannot be issued ahead: shared
 * stages it once, with two barriers. Keeps: everything.
 *
 * This file decides how deep. multistage_buffers.c places the rings in shared memory, and
 * multistage_copies.c and multistage_registers.c are the two ways there. */
#include "passes/kernel/pipeline/multistage.h"

/* Whether the load can run ahead of the loop that holds it. */
bool stage_runs_ahead(const Instr *load)
{
    const Instr *loop = load->block->parent;
    MemParts m;
    if (!loop || loop->op != OP_FOR) return false;
    ir_mem_parts(load, &m);
    int steps = 256;
    for (int a = 0; a < m.rank; a++)
        if (!stage_from_counter(m.idx[a], load->block, &steps)) return false;
    return true;
}

/* The stages that a schedule asks for the loads of a loop, which share their place in them; NULL: none. */
static const Decision *asked_stages(Staging *c, Instr *const *loads, int n)
{
    const Decision *all = NULL;
    for (int k = 0; k < n; k++) {
        const Decision *d = schedule_asked_load(c->p, loads[k]);
        if (d && all && (d->n[0] != all->n[0] || d->form != all->form)) {
            schedule_refuse(c->p, d,
                "the loads of one loop have the same number of stages, and another one has %d%s", all->n[0],
                all->form == LOAD_STAGES ? "" : " by cp_async");
            return all;
        }
        if (d) all = d;
    }
    return all;
}

/* Stages derived from the loads' hints and from what fits. */
static int derived_stages(
    Staging *c, Instr *const *loads, int n, bool copies, int fit, int64_t each, int64_t left)
{
    int stages = 2;
    for (int k = 0; k < n; k++) {
        int want = (int)ir_attr_int(loads[k], ATTR_LATENCY, 3);
        if (want > stages) stages = want;
    }
    if (!copies && stages > 3) {
        diag_perf(c->s, loads[0]->loc,
            "latency = %d: the tiles of this loop come by way of registers, which hold one step: 3 stages "
            "are used",
            stages);
        stages = 3;
    }
    if (!copies && c->p->options.thrift) stages = 1;
    if (stages > fit) {
        diag_perf(c->s, loads[0]->loc,
            "%d stages of %lld bytes do not fit shared memory (%lld bytes left): %d are used", stages,
            (long long)each, (long long)left, fit < 1 ? 1 : fit);
        stages = fit;
    }
    return stages;
}

/* All loads of a loop that can run ahead share one place in their rings. */
void stage_loop(Staging *c, size_t from, int64_t limit)
{
    Instr *first = c->loads.data[from], *loop = first->block->parent;
    Instr **group = arena_array(&c->s->arena, Instr *, c->loads.len);
    int n = 0;
    int64_t each = 0, left = limit - stage_bytes_before(c, first->block);
    for (size_t j = from; j < c->loads.len; j++) {
        Instr *l = c->loads.data[j];
        if (!l || l->block != first->block || !stage_runs_ahead(l) || stage_in_place(c, l)) continue;
        each += stage_stage_bytes(c, stage_buffer_type(c, l, 1));
        group[n++] = l;
        c->loads.data[j] = NULL;
    }
    int fit = left > 0 ? (int)(left / each) : 0, extra;
    const Decision *asked = asked_stages(c, group, n);
    bool detour = asked && asked->form == LOAD_STAGES_CP_ASYNC,
         copies = !stage_amd(c) || (!detour && fit >= 2 && stage_all_direct(c, loop, group, n));
    if (detour && copies) {
        schedule_refuse(
            c->p, asked, "%s copies to shared memory directly: write `stages N`", c->p->target->name);
        return;
    }
    extra = copies ? 0 : 1; /* AMD: one more buffer is in registers, and a lane has room for only one. */
    if (!copies) fit = fit > 2 ? 3 : fit + 1;
    int least = copies ? 2 : 1,
        stages = asked ? asked->n[0] + extra : derived_stages(c, group, n, copies, fit, each, left);
    if (asked && (stages - extra < least || stages > fit)) {
        schedule_refuse(c->p, asked, "this loop needs %d stages or more, of %lld bytes each: %d fit", least,
            (long long)each, fit - extra);
        return;
    }
    for (int k = 0; k < n && stages >= 2; k++)
        schedule_take_load(c->p, group[k], copies ? LOAD_STAGES : LOAD_STAGES_CP_ASYNC, stages - extra);
    if (stages < 2)
        for (int k = 0; k < n; k++) stage_alone(c, group[k]);
    else if (!copies) stage_by_registers(c, loop, group, n, stages - 1);
    else stage_by_copies(c, loop, group, n, stages);
}
