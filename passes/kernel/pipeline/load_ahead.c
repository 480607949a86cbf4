/* load-ahead: issues the loads of a recurrence some steps early: of a loop whose steps wait for other warps,
 * or for the step before.
 *
 *   for j { %x = load X[j..]; %s = add %s, %x; %r = reduce_sum %s; store Y[j..], %r }
 *
 * becomes, one step ahead,
 *
 *   %x0 = load X[lo..]
 *   for j with (%x = %x0) { %s = add %s, %x; %n = load X[j+1..]; %r = reduce_sum %s; store Y[j..], %r }
 *
 * The vendor's compiler moves no load over a barrier, so that each step would wait for memory first and for
 * the other warps then. In recurrences, whose programs are few, nothing else runs meanwhile. Where each
 * thread computes its own part of what the loop carries, and stores it in each step, a loop of its own does
 * the last steps, fewer steps ahead, so that no step of the others tests whether it has a successor.
 *
 * Requires: NVIDIA; no warp specialization; a loop without loops, branches or products in it, in which warps
 * meet, or which counts by one, carries a tile and stores in each step; steps that load too little to keep
 * memory busy; tensors that are only read; offsets that follow from the loop's counter; registers. Keeps:
 * everything. */
#include "passes/kernel/pipeline/hoist_loads.h"
#include "passes/kernel/pipeline/steps_ahead.h"

enum {
    OTHERS = 40,     /* registers for addresses, masks and counters */
    MOST_STEPS = 4,  /* where warps meet, and in the last steps of other loops */
    MOST_ALONE = 16, /* and otherwise, a multiple of EVEN */
    EVEN = 2,
    MOST_WORK = 1024, /* words that the steps which are taken together compute, load and store */
    FEW = 4,          /* of so many parts of what keeps memory busy, steps load less than one */
    SHARING = 8 * 32, /* threads that should share a multiprocessor, for the registers that each may take */
};

/* Whether the threads of the program meet: warps have parts of what is reduced, or a tile goes through shared
 * memory to another layout. */
static bool meets(KernelPlan *p, Session *s, const Instr *i)
{
    LayoutReduce r;
    const Type *t = i->n_operands ? ir_operand(i, 0)->type : NULL;
    if (i->op == OP_BARRIER) return true;
    if (!t || t->kind != TYPE_TILE || !t->layout) return false;
    const Layout *l = layouts_get(&p->layouts, t);
    if (i->op == OP_CONVERT)
        return !layout_convert_within(
            &s->arena, l, layouts_get(&p->layouts, ir_result(i)->type), dtype_bytes(t->dtype));
    if (!op_reduces(i->op)) return false;
    return layout_reduce(&s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), true, &r) && r.nwarp > 1;
}

/* The CTAs that should share a multiprocessor. */
static int sharing(const KernelPlan *p)
{
    int threads = p->warps * p->target->wave, n = threads < SHARING ? SHARING / threads : 1;
    return n > p->min_ctas ? n : p->min_ctas;
}

typedef struct Step {
    InstrList loads; /* that can be issued ahead */
    int words;       /* registers of a thread that they take */
    int64_t bytes;   /* of the program that all its loads bring */
    int work;        /* registers that its instructions compute, load and store */
    bool meets, stores, carries;
} Step;

/* Whether threads wait for nothing but what they load and what the step before computed. */
static bool is_alone(const Step *step, const Instr *loop)
{
    int64_t by;
    return !step->meets && step->stores && step->carries && !ir_loop_is(loop, LOOP_EDGE) &&
           ir_is_const(ir_operand(loop, 2), &by) && by == 1;
}

static int64_t bytes_of(const Type *t)
{ return (t->kind == TYPE_TILE ? type_elements(t) : 1) * dtype_bytes(t->dtype); }

static void note_load(Hoist *h, const Instr *loop, Instr *load, Step *step)
{
    AheadSlice slice = { 0 };
    const Value *v = ir_result(load);
    step->bytes += bytes_of(v->type);
    if (load->op != OP_LOAD || kernel_kept(load) || !ahead_possible(h->f, loop, load, &slice)) return;
    vec_push(&h->s->arena, &step->loads, load);
    step->words += v->type->kind == TYPE_TILE ? hoist_words(h, v) : 1;
}

/* What a step of the loop does. False: the loop holds what the pass does not handle, or the steps of the
 * programs that share a multiprocessor load enough. */
static bool look_at(Hoist *h, const Instr *loop, Step *step)
{
    *step = (Step){ 0 };
    for (Instr *i = loop->blocks[0]->first; i; i = i->next) {
        if (i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_IF || i->op == OP_MMA_SYNC ||
            i->op == OP_COPY)
            return false;
        step->meets |= meets(h->p, h->s, i);
        step->stores |= i->op == OP_STORE;
        step->work += i->n_results ? hoist_words(h, ir_result(i)) : 0;
        if (i->op == OP_LOAD || i->op == OP_GATHER) note_load(h, loop, i, step);
    }
    for (int k = 1; k < loop->blocks[0]->n_args; k++)
        step->carries |= loop->blocks[0]->args[k]->type->kind == TYPE_TILE;
    return (step->meets || is_alone(step, loop)) && step->loads.len &&
           FEW * sharing(h->p) * step->bytes < target_bytes_under_way(h->p->target);
}

/* The registers that a step takes beside what it loads: for what the loop carries, and for one tile that it
 * computes. */
static int words_beside(Hoist *h, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    int carried = 0, largest = 0;
    for (int k = 1; k < body->n_args; k++) carried += hoist_words(h, body->args[k]);
    for (const Instr *i = body->first; i; i = i->next)
        for (int k = 0; k < i->n_results; k++) {
            int words = i->op == OP_LOAD ? 0 : hoist_words(h, &i->results[k]);
            if (words > largest) largest = words;
        }
    return carried + largest + OTHERS;
}

/* How many steps ahead: as many as keep memory busy and as have registers, both for what was loaded and for
 * as much that is under way. */
static int steps_ahead(Hoist *h, const Instr *loop, const Step *step)
{
    int64_t under_way = target_bytes_under_way(h->p->target),
            wanted = (under_way + step->bytes - 1) / step->bytes;
    int room = hoist_registers_at(h->p, sharing(h->p)) - words_beside(h, loop),
        n = room / (2 * (step->words ? step->words : 1));
    int carried = (IR_MAX_RESULTS - loop->n_results) / (int)step->loads.len, work = MOST_WORK / step->work;
    if (n > wanted) n = (int)wanted;
    if (n > carried) n = carried;
    if (step->meets) return n > MOST_STEPS ? MOST_STEPS : n;
    if (n > work) n = work;
    if (n > MOST_ALONE) n = MOST_ALONE;
    return n > EVEN ? n / EVEN * EVEN : n;
}

/* Issues the loads of the loop n steps ahead. */
static void load_steps(Hoist *h, Instr *loop, int n, bool within)
{
    Step step;
    look_at(h, loop, &step);
    for (size_t k = 0; k < step.loads.len; k++) {
        AheadSlice slice = { 0 };
        ahead_possible(h->f, loop, step.loads.data[k], &slice);
        loop = ahead_load(h->s, loop, step.loads.data[k], &slice, n, within);
    }
    /* Of as many steps together each value stays in the registers that it was loaded to. */
    if (n > 1 && !ir_attr(loop, ATTR_UNROLL)) ir_set_attr(h->s, loop, a_int(ATTR_UNROLL, n));
    ir_sweep(loop->blocks[0]);
}

static bool run_ahead(Hoist *h, Instr *loop)
{
    Step step;
    if (!look_at(h, loop, &step)) return false;
    int n = steps_ahead(h, loop, &step);
    if (n < 1) {
        diag_perf(h->s, loop->loc,
            "the steps of this loop wait for what they load: a thread has no registers to load it a step "
            "ahead");
        return false;
    }
    if (step.meets) load_steps(h, loop, n, false);
    else {
        load_steps(h, ahead_split(h->s, loop, n), n, true);
        load_steps(h, loop, n < MOST_STEPS ? n : MOST_STEPS, false);
    }
    h->p->min_ctas = sharing(h->p); /* or the vendor's compiler would take more registers */
    return true;
}

bool kernel_pass_load_ahead(KernelContext *c)
{
    Hoist h = { .s = c->s, .f = c->f, .p = c->p };
    InstrList loops = { 0 };
    bool changed = false;
    if (c->specialized) return false;
    ir_collect(&c->s->arena, c->f->body, OP_FOR, &loops);
    for (size_t k = 0; k < loops.len; k++)
        if (!ir_over_programs(loops.data[k])) changed |= run_ahead(&h, loops.data[k]);
    return changed;
}
