/* lower.c: the order of the passes of the kernel IR. pipeline() is the whole of it.
 *
 *   retype .. split-k                what one program does, before anything depends on the CTA that does it
 *   program-ids .. mask-branch       while loads are those of the tile IR; products get instructions
 *   warp specialization              an attempt: where it is refused, the body is as it was before
 *   gather-windows .. shared         the same loads and products without it
 *   lookup                           when tiles have the threads that compute them
 *   layout                           when every tile that registers hold exists; then, where roles would wait
 *                                    for each other, all warps alike from the attempt on
 *   lane-parts                       needs to know which lanes hold a row
 *   fragment-prefetch .. column-strips need to know the registers of a tile
 *   swizzle                          when there is every conversion
 *   strength-reduction               when nothing moves between a loop and what is around it any more
 *
 * A step of a pass (KERNEL_STEP in passes.def) runs within it, by kernel_step or kernel_part. */
#include "ir/verify/ring_stages.h"
#include "passes/kernel/schedule/cta_size.h"
#include "passes/kernel/schedule/schedule.h"
#include "passes/pass.h"

/* What there is before an attempt, to come back to. */
typedef struct Attempt {
    SavedBody body;
    KernelPlan plan;
    Schedule decisions;
} Attempt;

typedef struct Lowering {
    KernelContext c;
    PassRunner run;
    PassReport report; /* where nobody wants it */
    int errors;        /* of the session, before */
    Attempt before;    /* warp specialization */
} Lowering;

static bool run_pass(Lowering *, PassId);
#define RUN(ID) run_pass(l, PASS_##ID)

static bool refused(const Lowering *); /* a pass or the schedule has reported an error */
static bool may_specialize(KernelContext *);
static void attempt(Lowering *);
static void undo(Lowering *);
static bool roles_fail(Lowering *);

/* Whether the kernel has producer and consumer warps. */
static bool warp_specialization(Lowering *l)
{
    attempt(l);
    RUN(GATHER_WINDOWS);
    RUN(SPLIT_STEPS);
    schedule_number_loads(l->c.p, l->c.f);
    if (RUN(WARP_SPECIALIZATION)) {
        RUN(LAZY_RESCALE);
        RUN(NEAR);
        RUN(SOFTWARE_PIPELINING);
        RUN(HALF_WORDS);
    } else if (!pass_runner_ended(&l->run)) undo(l);
    return l->c.specialized;
}

/* Whether conversions that take what they are expected to would not fit beside the rings, so that gpu_compile
 * would begin again with that in reserve. Where parts of a loop and the rings alone do not fit, it reserves
 * more. */
static bool leaves_too_little(const KernelPlan *p)
{
    if (p->split_k && p->beside_rings < 0) return false;
    return !p->options.reserve && p->options.expected > p->beside_rings;
}

/* The same as `warp_specialization` with room for what conversions are expected to take. */
static bool specialization_with_room(Lowering *l)
{
    if (!warp_specialization(l)) return false;
    if (pass_runner_ended(&l->run) || !leaves_too_little(l->c.p)) return true;
    undo(l);
    l->c.p->options.reserve = cta_size_reserve_for(l->c.p->options.expected);
    l->c.p->expects = true;
    return warp_specialization(l);
}

static void all_warps_alike(Lowering *l)
{
    RUN(GATHER_WINDOWS);
    schedule_number_loads(l->c.p, l->c.f);
    RUN(PROMOTE);
    RUN(LAZY_RESCALE);
    RUN(NEAR);
    cta_size_unspecialized(l->c.s, l->c.f, l->c.p);
    RUN(LATE_SUMS);
    RUN(SINK_REDUCTIONS);
    RUN(SHARED);
}

static void layouts(Lowering *l)
{
    RUN(LOOKUP);
    if (!cta_size_holds_tiles(l->c.s, l->c.f, l->c.p)) return;
    RUN(LAYOUT);
    RUN(LANE_PARTS);
    RUN(FRAGMENT_PREFETCH);
    RUN(LOAD_AHEAD);
    RUN(HOIST_LOADS);
    RUN(LOAD_STRIPS);
    RUN(COLUMN_STRIPS);
    RUN(GATHER_STRIPS);
    RUN(BACKWARDS);
    RUN(JOINT_REDUCTIONS);
    RUN(SWIZZLE);
    RUN(STRENGTH_REDUCTION);
    RUN(SHARED_ATOMICS);
    RUN(ABREAST);
}

static void pipeline(Lowering *l)
{
    /* Erase unused operations before passes make lists of operations: the sweeps of those passes would erase
     * them from the lists. */
    ir_drop_unused(l->c.f->body);
    cta_size_begin(l->c.s, l->c.f, l->c.p);
    RUN(FIRST_READS);
    RUN(RETYPE);
    RUN(MASK_BYTES);
    RUN(CLUSTER);
    RUN(SPLIT_K);
    RUN(PROGRAM_IDS);
    RUN(MMA_SELECT);
    cta_size_cap_warps(l->c.s, l->c.f, l->c.p);
    RUN(RECIPROCAL);
    RUN(ERFC);
    RUN(NARROW_RESULTS);
    RUN(ROUNDED_INTEGERS);
    RUN(FLOAT_SUMS);
    RUN(MASK_BRANCH);
    RUN(UNIFORM_GATHERS);
    bool specialized = may_specialize(&l->c) && specialization_with_room(l);
    if (!specialized && !refused(l)) all_warps_alike(l);
    if (refused(l)) return;
    layouts(l);
    if (refused(l)) return;
    if (specialized && roles_fail(l)) {
        undo(l);
        all_warps_alike(l);
        if (refused(l)) return;
        layouts(l);
    }
    if (!pass_runner_ended(&l->run)) schedule_end(l->c.p);
    if (!refused(l)) RUN(REGISTERS);
}

/* --- one pass ---------------------------------------------------------------------------------------- */

typedef bool KernelPassFn(KernelContext *);

static KernelPassFn *const pass_fn[PASS_COUNT] = {
#define KERNEL_PASS(ID, name, function, needs, presence, on, keeps, doc) [PASS_##ID] = function,
#include "passes/passes.def"
};

static bool call(void *user, PassRunner *r, PassId id)
{
    Lowering *l = user;
    r->laid_out |= (pass_info[id].needs & NEEDS_LAYOUTS) != 0;
    return pass_fn[id](&l->c);
}

static bool suits(const Target *t, PassId id)
{
    unsigned needs = pass_info[id].needs;
    if (needs & NEEDS_CUDA && t->kind != TARGET_CUDA) return false;
    if (needs & NEEDS_HIP && t->kind != TARGET_HIP) return false;
    return !(needs & NEEDS_TMA) || target_has(t, TF_TMA | TF_WGMMA);
}

/* A pass that decides on something that a schedule may ask for runs on every target, and reports itself why
 * it cannot do it. */
static bool applies(const Lowering *l, PassId id)
{
    if (pass_info[id].presence == DECIDES) return true;
    return suits(l->c.p->target, id) &&
           (pass_info[id].presence == REQUIRED || !pass_runner_skips(&l->run, id));
}

static bool run_pass(Lowering *l, PassId id)
{ return applies(l, id) && pass_runner_call(&l->run, id, call, l); }

typedef struct Step {
    KernelStepFn *fn;
    void *user;
} Step;

static bool call_step(void *user, PassRunner *r, PassId id)
{
    Step *s = user;
    (void)r, (void)id;
    return s->fn(s->user);
}

bool kernel_step(KernelPlan *p, PassId id, KernelStepFn *fn, void *user)
{
    if (!suits(p->target, id)) fn(user);
    else pass_runner_call(p->runner, id, call_step, &(Step){ fn, user });
    return !pass_runner_ended(p->runner);
}

void kernel_part(KernelPlan *p, PassId id, KernelStepFn *fn, void *user)
{ pass_runner_part(p->runner, id, call_step, &(Step){ fn, user }); }

/* --- what stands around the passes ------------------------------------------------------------------- */

static bool refused(const Lowering *l) { return l->c.s->n_errors != l->errors; }

/* Whether the target supports producer and consumer warps, and no option forbids them. Records this in the
 * schedule, and reports an error for a schedule that asks for warp specialization without it. */
static bool may_specialize(KernelContext *c)
{
    KernelPlan *p = c->p;
    const Decision *d = schedule_asked(p, DECIDE_WARP_SPECIALIZATION);
    bool can = target_has(p->target, TF_TMA | TF_WGMMA), products = ir_holds(c->f->body, OP_MMA_SYNC),
         off = d ? d->form == WARP_SPECIALIZATION_NONE : kernel_skips(p, PASS_WARP_SPECIALIZATION);
    if (d && d->form == WARP_SPECIALIZATION_N && !can)
        schedule_refuse(p, d, "%s has no TMA and no wgmma for roles", p->target->name);
    if (can && off && products) schedule_take(p, DECIDE_WARP_SPECIALIZATION, WARP_SPECIALIZATION_NONE, 0, 0);
    return can && !off && products;
}

/* Begins warp specialization. */
static void attempt(Lowering *l)
{
    l->before = (Attempt){ ir_body_save(l->c.f), *l->c.p, schedule_save(l->c.p) };
    l->c.specialized = true;
}

/* Restores the body, the plan and its decisions after the attempt was refused, or failed. */
static void undo(Lowering *l)
{
    ir_body_restore(l->c.f, &l->before.body);
    *l->c.p = l->before.plan;
    schedule_restore(l->c.p, &l->before.decisions);
    l->c.specialized = false;
    l->run.laid_out = false;
}

/* Whether roles would wait for each other for ever, or read a product too early: what planned them was wrong,
 * and all warps alike are right, if slower. A written schedule gets an error. */
static bool roles_fail(Lowering *l)
{
    KernelContext *c = &l->c;
    int operand;
    const char *why = "a product in flight would be read";
    if (refused(l) || pass_runner_ended(&l->run)) return false;
    const Instr *at = c->p->options.roles_fail ? c->f->body->first : ir_flight_fault(c->s, c->f, &operand);
    if (!at && (at = ir_operand_fault(c->s, c->f)))
        why = "the operand of a product in flight would be written";
    if (!at) at = ir_roles_fault(c->f, &why);
    if (!at && !(c->p->options.measure && c->p->options.unplayed))
        at = (c->p->options.measure ? ir_stages_fault_soon : ir_stages_fault)(c->s, c->f, &why);
    c->p->roles_checked = !at;
    if (!at) return false;
    if (c->p->decisions->asked.len)
        return schedule_refuse(
            c->p, c->p->decisions->asked.data, "producer and consumer warps fail by this schedule: %s", why);
    diag_perf(c->s, at->loc, "all warps alike, because producer and consumer warps fail here: %s", why);
    return true;
}

Block *kernel_consumers(const Func *f)
{
    for (const Instr *i = f->body->first; i; i = i->next)
        if (kernel_is_roles(i->op)) return i->blocks[1];
    return NULL;
}

/* A hint of 0 leaves out the pass. Any other number asks for the pass wherever it can run. */
static void take_hint(KernelPlan *p, PassId id, int hint)
{
    if (hint_off(hint)) pass_add(&p->options.skip, id);
    else if (hint) pass_add(&p->options.with, id);
}

static void begin(Lowering *l, Session *s, Func *f, const Target *t, const KernelOptions *o, KernelPlan *p)
{
    static const PassOptions nothing = { 0 };
    *p = (KernelPlan){ .runner = &l->run, .target = t, .layouts = { .session = s } };
    if (o) p->options = *o;
    take_hint(p, PASS_PERSISTENT, f->hints.persistent);
    take_hint(p, PASS_WARP_SPECIALIZATION, f->hints.warp_specialize);
    take_hint(p, PASS_CP_ASYNC_PRODUCER, f->hints.cp_async_producer);
    take_hint(p, PASS_PINGPONG, f->hints.pingpong);
    *l = (Lowering){ .c = { .s = s, .f = f, .p = p }, .errors = s->n_errors };
    pass_runner_init(&l->run, f->module, o && o->passes ? o->passes : &nothing,
        p->options.report ? p->options.report : &l->report);
    l->run.carry_on = true;
    for (int id = TILE_PASS_COUNT; id < PASS_COUNT; id++)
        if (!pass_info[id].on && !kernel_forces(p, (PassId)id)) pass_add(&p->options.skip, (PassId)id);
    l->run.skip = p->options.skip;
    l->run.with = p->options.with;
#ifndef NDEBUG
    l->run.verify |= !p->options.measure;
#endif
    schedule_begin(s, f, p);
}

bool kernel_lower(Session *s, Func *f, const Target *t, const KernelOptions *o, KernelPlan *p)
{
    Lowering l;
    begin(&l, s, f, t, o, p);
    pipeline(&l);
    p->runner = NULL;
    return !refused(&l);
}

/* --- passes by name, for tests ----------------------------------------------------------------------- */

static void find_layout(void *user, Instr *i)
{
    bool *found = user;
    for (int k = 0; k < i->n_results; k++)
        *found |= i->results[k].type->kind == TYPE_TILE && i->results[k].type->layout;
}

/* The property that the pass needs and the IR lacks; NULL: it lacks nothing. */
static const char *ir_lacks(const Func *f, PassId id)
{
    unsigned needs = pass_info[id].needs;
    bool layouts = false;
    ir_walk(f->body, find_layout, &layouts);
    if (needs & NEEDS_INSTRUCTIONS && ir_holds(f->body, OP_MMA))
        return "products with instructions (mma-select)";
    if (needs & NEEDS_SPECIALIZED && !kernel_consumers(f))
        return "producer and consumer warps (warp-specialization)";
    return needs & NEEDS_LAYOUTS && !layouts ? "layouts (layout)" : NULL;
}

/* Reconstructs the plan as the preceding passes would have left it, as far as the IR shows it. */
static void adopt(Lowering *l, PassId id)
{
    KernelContext *c = &l->c;
    const Block *consumers = kernel_consumers(c->f);
    bool attempt = id == PASS_GATHER_WINDOWS || id == PASS_SPLIT_STEPS || id == PASS_WARP_SPECIALIZATION;
    c->specialized = consumers || (attempt && may_specialize(c));
    if (!consumers || c->p->producer_warps) return;
    c->p->cp_async_warps = consumers->parent->op == OP_CP_ASYNC_ROLES ? CP_ASYNC_WARPS : 0;
    c->p->producer_warps = c->p->cp_async_warps ? 1 : 4;
}

static bool run_alone(Lowering *l, const char *name, size_t len)
{
    PassId id;
    bool found = pass_find(name, len, &id) && pass_is_kernel(id), step = found && pass_is_step(id);
    const char *lacks = found ? ir_lacks(l->c.f, id) : NULL;
    if (!found) diag_error(l->c.s, (Loc){ 0 }, "no pass of the kernel IR is called `%.*s`", (int)len, name);
    else if (step)
        diag_error(l->c.s, (Loc){ 0 }, "`%s` is a step of `%s`: run that pass", pass_info[id].name,
            pass_info[pass_info[id].within].name);
    else if (lacks) diag_error(l->c.s, l->c.f->loc, "the pass `%s` needs %s", pass_info[id].name, lacks);
    if (!found || step || lacks) return false;
    adopt(l, id);
    run_pass(l, id);
    return !refused(l);
}

bool kernel_run_list(
    Session *s, Func *f, const Target *t, const KernelOptions *o, const char *list, KernelPlan *p)
{
    Lowering l;
    begin(&l, s, f, t, o, p);
    cta_size_begin(s, f, p);
    schedule_number_loads(p, f);
    bool ok = true;
    for (size_t len; ok && *list; list += len + (list[len] != 0))
        if ((len = strcspn(list, ","))) ok = run_alone(&l, list, len);
    p->runner = NULL;
    return ok;
}
