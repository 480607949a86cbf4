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
 * into the same one behind a barrier (loads with latency 2, or where two do not fit).
 *
 * A load with `latency = 1` takes no part: shared stages it where it stands.
 *
 * S is the load's own `latency`; without one, the largest of the loop's, and 3 at least. If the rings of a
 * loop do not fit shared memory, the deepest ones lose stages, with a performance note. Loads with the same S
 * share the carried stage, a commit, and the branch around their copies; otherwise a loop carries a stage for
 * each S. Copies arrive in the order in which they were issued, so a step issues those with the fewest stages
 * first and waits for them alone:
 *
 *   copy_wait (S_least-2)*groups + groups-1
 *
 * A load whose offsets depend on carried values cannot be issued ahead: shared stages it once, with two
 * barriers. Keeps: everything.
 *
 * This file decides how deep. multistage_buffers.c places the rings in shared memory, and
 * multistage_copies.c and multistage_registers.c are the two ways there. */
#include "passes/kernel/pipeline/multistage.h"
#include <limits.h>

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

/* The loads of a loop that run ahead, and the stages of each. */
typedef struct Ahead {
    Instr **loads;
    const Decision **asked; /* by a schedule; NULL: not */
    int64_t *bytes;         /* of one stage */
    int *stages, n;
    int64_t each, left; /* bytes of one stage of all loads, and of shared memory */
} Ahead;

/* Finds what a schedule asks for the loads; returns one of its decisions. All loads of a loop go the same
 * way. */
static const Decision *find_asked(Staging *c, Ahead *x)
{
    const Decision *one = NULL;
    for (int k = 0; k < x->n; k++) {
        const Decision *d = schedule_asked_load(c->p, x->loads[k]);
        if (d && one && d->form != one->form)
            schedule_refuse(c->p, d,
                "the loads of one loop go the same way, and another one goes%s by cp_async",
                one->form == LOAD_STAGES ? " not" : "");
        else x->asked[k] = d;
        if (d && !one) one = d;
    }
    return one;
}

/* The bytes of all rings if none has more than `most` stages, of which `beside` are not in shared memory. */
static int64_t bytes_of(const Ahead *x, int most, int beside)
{
    int64_t sum = 0;
    for (int k = 0; k < x->n; k++)
        sum += x->bytes[k] * ((x->asked[k] || x->stages[k] < most ? x->stages[k] : most) - beside);
    return sum;
}

/* Stages derived from the loads' hints and from what fits. */
static void derive_stages(Staging *c, Ahead *x, bool copies)
{
    const int beside = copies ? 0 : 1, cap = copies ? INT_MAX : 3;
    int most = 0, hint = 0, unnamed = 3; /* the stages of loads without a hint */
    Loc asked = x->loads[0]->loc;        /* of the load that asks for the most */
    for (int k = 0; k < x->n; k++) {
        int want = (int)ir_attr_int(x->loads[k], ATTR_LATENCY, 0);
        if (want <= hint) continue;
        hint = want;
        asked = x->loads[k]->loc;
    }
    if (hint > unnamed) unnamed = hint;
    for (int k = 0; k < x->n; k++) {
        int want = (int)ir_attr_int(x->loads[k], ATTR_LATENCY, unnamed);
        if (!x->asked[k]) x->stages[k] = want < 2 ? 2 : want;
        if (!x->asked[k] && x->stages[k] > most) most = x->stages[k];
    }
    if (most && !copies && c->p->options.thrift) {
        most = 1;
        if (hint > 1)
            diag_perf(c->s, asked,
                "latency = %d: the registers of %s have no room for loads that are under way: each step "
                "waits "
                "for its own",
                hint, c->p->target->name);
    }
    if (most > cap) {
        diag_perf(c->s, asked,
            "%d stages are asked for and 3 are used: the tiles of this loop come by way of registers, which "
            "hold one step",
            most);
        most = cap;
    }
    int fit = most;
    while (fit > beside && bytes_of(x, fit, beside) > x->left) fit--;
    if (fit < most)
        diag_perf(c->s, asked,
            "%d stages of %lld bytes do not fit shared memory (%lld bytes left): %d are used", most,
            (long long)x->each, (long long)x->left, fit < 1 ? 1 : fit);
    for (int k = 0; k < x->n; k++)
        if (!x->asked[k] && x->stages[k] > fit) x->stages[k] = fit;
}

/* Whether the stages that a schedule asks for can be had; reports why not. */
static bool asked_fit(Staging *c, const Ahead *x, bool copies)
{
    const int beside = copies ? 0 : 1;
    for (int k = 0; k < x->n; k++) {
        if (!x->asked[k]) continue;
        if (x->asked[k]->n[0] >= (copies ? 2 : 1) && (copies || x->asked[k]->n[0] <= 2) &&
            bytes_of(x, INT_MAX, beside) <= x->left)
            continue;
        int64_t fit = x->left > 0 ? x->left / x->each : 0;
        schedule_refuse(c->p, x->asked[k], "this loop needs %d stages or more, of %lld bytes each: %lld fit",
            copies ? 2 : 1, (long long)x->each, (long long)(copies || fit < 2 ? fit : 2));
        return false;
    }
    return true;
}

/* The loads of the loop that holds load number `from`, which leave the list. */
static void collect_ahead(Staging *c, size_t from, int64_t limit, Ahead *x)
{
    const Block *body = c->loads.data[from]->block;
    Arena *a = &c->s->arena;
    size_t most = c->loads.len;
    *x = (Ahead){ arena_array(a, Instr *, most), arena_array(a, const Decision *, most),
        arena_array(a, int64_t, most), arena_array(a, int, most),
        .left = limit - stage_bytes_before(c, body) };
    for (size_t j = from; j < most; j++) {
        Instr *l = c->loads.data[j];
        if (!l || l->block != body || !stage_runs_ahead(l) || stage_in_place(c, l)) continue;
        x->bytes[x->n] = stage_stage_bytes(c, stage_buffer_type(c, l, 1));
        x->each += x->bytes[x->n];
        x->asked[x->n] = NULL;
        x->loads[x->n++] = l;
        c->loads.data[j] = NULL;
    }
}

/* If not all rings have two stages, the tiles from which operands are computed stay loads to registers.
 * Returns whether there were any. */
static bool leave_computed(Ahead *x)
{
    bool two = true;
    int n = 0, all = x->n;
    for (int k = 0; k < all; k++) two = two && x->stages[k] >= 2;
    for (int k = 0; k < all && !two; k++) {
        if (!stage_is_operand(x->loads[k]) && !stage_has_positions(x->loads[k])) {
            x->each -= x->bytes[k];
            continue;
        }
        x->loads[n] = x->loads[k];
        x->asked[n] = x->asked[k];
        x->bytes[n] = x->bytes[k];
        x->stages[n++] = x->asked[k] ? x->stages[k] : 0;
    }
    if (!two) x->n = n;
    return x->n < all;
}

void stage_loop(Staging *c, size_t from, int64_t limit)
{
    Instr *loop = c->loads.data[from]->block->parent;
    Ahead x;
    collect_ahead(c, from, limit, &x);
    const Decision *asked = find_asked(c, &x);
    bool detour = asked && asked->form == LOAD_STAGES_CP_ASYNC, two_fit = 2 * x.each <= x.left,
         copies = !stage_amd(c) || (!detour && two_fit && stage_all_direct(c, loop, x.loads, x.n));
    if (detour && copies) {
        schedule_refuse(
            c->p, asked, "%s copies to shared memory directly: write `stages N`", c->p->target->name);
        return;
    }
    const int beside = copies ? 0 : 1; /* AMD: one more buffer is in registers, which have room for one. */
    for (int k = 0; k < x.n; k++) x.stages[k] = x.asked[k] ? x.asked[k]->n[0] + beside : 0;
    derive_stages(c, &x, copies);
    if (leave_computed(&x)) derive_stages(c, &x, copies);
    if (!x.n || !asked_fit(c, &x, copies)) return;
    bool ahead = true;
    for (int k = 0; k < x.n; k++) ahead = ahead && x.stages[k] >= 2;
    for (int k = 0; k < x.n; k++) {
        if (!ahead) stage_alone(c, x.loads[k]);
        else
            schedule_take_load(
                c->p, x.loads[k], copies ? LOAD_STAGES : LOAD_STAGES_CP_ASYNC, x.stages[k] - beside);
        x.stages[k] -= beside;
    }
    if (!ahead) return;
    if (copies) stage_by_copies(c, loop, x.loads, x.stages, x.n);
    else stage_by_registers(c, loop, x.loads, x.stages, x.n);
}
