/* cost_waits.c: of cost: how often a loop waits for what it loads. Loads to registers of several rounds may
 * be under way at once, but not where the place of a load follows from what the round before loaded; rings
 * have stages. */
#include "runtime/choice/cost/cost_walk.h"

enum { MOST_DEEP = 24, MOST_SEEN = 1 << 9 };

/* first: the argument of the body from which on they are carried values: that of a `for` has its index in
 * front of them. */
typedef struct Path {
    const Block *body;
    int first;
    int left; /* instructions that may still be looked at */
} Path;

static bool loads(const Instr *i) { return i->op == OP_LOAD || i->op == OP_GATHER; }

static Path path_in(const Instr *loop)
{
    const bool counts = loop->op == OP_FOR;
    return (Path){ loop->blocks[counts ? 0 : 1], counts, MOST_SEEN };
}

static bool is_carried(const Path *p, const Value *v)
{
    for (int k = p->first; k < (int)p->body->n_args; k++)
        if (p->body->args[k] == v) return true;
    return false;
}

/* The loads that follow each other on the way to the value; *carried: a value of the round before is on it.
 */
static int loads_before(Path *p, const Value *v, int deep, bool *carried)
{
    const Instr *d = v->def;
    int most = 0;
    *carried |= is_carried(p, v);
    if (!d || d->block != p->body || d->n_blocks || deep <= 0 || p->left-- <= 0) return 0;
    for (int k = 0; k < d->n_operands; k++) {
        int n = loads_before(p, ir_operand(d, k), deep - 1, carried);
        if (n > most) most = n;
    }
    return most + loads(d);
}

/* Whether what the loop carries in this place follows from what it carried before. */
static bool is_recurrence(const Instr *loop, int arg)
{
    Path p = path_in(loop);
    bool carried = false;
    loads_before(&p, ir_operand(ir_terminator(p.body), arg - p.first), MOST_DEEP, &carried);
    return carried;
}

/* Whether the place of the load follows from what rounds before have loaded and computed. */
static bool follows_rounds(const Instr *loop, const Instr *load)
{
    const Path whole = path_in(loop);
    for (int k = whole.first; k < (int)whole.body->n_args; k++) {
        Path p = whole;
        bool carried = false;
        if (!is_recurrence(loop, k)) continue;
        for (int o = 0; o < load->n_operands; o++) loads_before(&p, ir_operand(load, o), MOST_DEEP, &carried);
        return carried;
    }
    return false;
}

/* Whether the load is of a tensor that stays in the multiprocessor's own cache: such loads take little time.
 */
static bool is_near(const CostWalk *w, const Instr *load)
{
    enum { SMALL_TENSOR = 2 };
    const double bytes = cost_tensor_bytes(w->f, w->env, ir_operand(load, 0)->index);
    return load->op == OP_LOAD && bytes * SMALL_TENSOR <= (double)w->target->sm_shared_bytes;
}

/* Whether the load's result is only carried on: a later round uses it (load-ahead). */
static bool is_ahead(const Instr *load)
{
    const Instr *end = ir_terminator(load->block);
    for (const Use *u = load->results[0].uses; u; u = u->next)
        if (u->user != end) return false;
    return true;
}

void cost_loop_waits(CostWalk *w, const Instr *loop, double rounds)
{
    int levels = 0;
    bool apart = loop->op == OP_FOR,
         ahead = true; /* whether a `while` has one more round its last one tells */
    if (w->roles || !w->plan) return;
    for (const Instr *i = path_in(loop).body->first; i; i = i->next) {
        Path p = path_in(loop);
        bool carried = false;
        int n = loads(i) && !is_near(w, i) ? loads_before(&p, &i->results[0], MOST_DEEP, &carried) : 0;
        if (n > levels) levels = n;
        if (n && carried && apart) apart = !follows_rounds(loop, i);
        if (n) ahead = ahead && is_ahead(i);
    }
    int together = apart ? gpu_rounds_together(w->f, w->plan, false, loop) : 1;
    if (ahead && apart) w->c.trips_ahead += levels * rounds / together;
    else w->c.trips += levels * rounds / together;
}

void cost_wait_for_data(CostWalk *w, double times)
{
    if (!w->counted) w->c.iterations += times;
    w->counted = true;
}

/* How many stages of a ring one iteration takes, as for several taps of a filter. */
static int taken_at_once(const Instr *take)
{
    int n = 0;
    if (take->op != OP_RING_GET) return 1;
    for (const Use *u = ir_operand(take, 0)->uses; u; u = u->next)
        n += u->user->op == take->op && u->user->block == take->block;
    return n > 1 ? n : 1;
}

/* Whether a product is waited for that begins a sum of its own, which arithmetic adds behind the wait. */
static bool waits_for_own_sum(const Instr *i)
{
    const Instr *product = i->op == OP_WGMMA_WAIT && i->n_operands ? ir_operand(i, 0)->def : NULL;
    return product && product->op == OP_WGMMA && ir_operand(product, 0)->type->kind == TYPE_SHARED &&
           kernel_is_zero(ir_operand(product, 2));
}

/* What an iteration has done so far. */
typedef struct Given {
    bool given, waited; /* it has given back a stage, and waited for a product's own sum behind that */
} Given;

/* Whether an iteration takes another stage of the ring behind the place where it gives one back, which may be
 * in an `if`, or gives another one back when it has waited for another sum. Takes within an `if` do not
 * count. */
static bool given_back_between(const Block *b, const Value *ring, Given *g)
{
    for (const Instr *i = b->first; i; i = i->next) {
        const bool takes = i->op == OP_RING_GET && ir_operand(i, 0) == ring;
        const bool gives = i->op == OP_RING_RELEASE && ir_operand(i, 0) == ring;
        if ((g->given && takes) || (g->waited && gives)) return true;
        g->waited |= g->given && waits_for_own_sum(i);
        g->given |= gives;
        for (int k = 0; k < i->n_blocks; k++) given_back_between(i->blocks[k], ring, g);
    }
    return false;
}

/* Of the buffers that a loop takes from, the one with the stages for the fewest iterations decides how far
 * loads run ahead. Where the stages of an iteration are given back one by one, what the consumer holds of
 * them (`held_stages`) is a part of an iteration's. */
void cost_stages(CostWalk *w, const Instr *take)
{
    const Value *ring = ir_operand(take, 0);
    int taken = taken_at_once(take);
    double n = (double)ring->type->shape[0] / taken;
    Given given = { 0 };
    if (taken > 1 && given_back_between(take->block, ring, &given))
        n += w->model->held_stages * (1 - 1.0 / taken);
    if (w->loops && (w->c.stages <= 0 || n < w->c.stages)) w->c.stages = n;
}

/* A tile that is loaded to registers in a loop of products by all warps alike and multiplied in the same
 * iteration: other operands have stages, and nothing runs ahead of this one. Several of an iteration come
 * together. */
void cost_wait_for_it(CostWalk *w, const Instr *i, double times)
{
    bool here = false;
    if (!w->loops || w->roles || ir_result(i)->type->kind != TYPE_TILE || !ir_holds(i->block, OP_MMA_SYNC))
        return;
    for (const Use *u = ir_result(i)->uses; u; u = u->next) here |= u->user->op != OP_YIELD;
    if (!here) return;
    int words = (int)(cost_bytes(ir_result(i)->type) / 4 / w->threads);
    bool first = w->waits != i->block;
    w->together = first ? words : w->together + words;
    if (w->together > w->c.loaded) w->c.loaded = w->together;
    if (first) w->c.waits += times;
    w->waits = i->block;
}

/* Nothing runs ahead of what consumers load to registers, once for a program, to compute an operand of a
 * product behind it. */
void cost_load_before_product(CostWalk *w, const Instr *load)
{
    bool before = false;
    if (!w->roles || w->producer || w->loops) return;
    for (const Instr *i = load->next; i; i = i->next) before |= op_family(i->op) == OPS_PRODUCT;
    if (before) w->c.before += cost_words(w, ir_result(load)->type);
}
