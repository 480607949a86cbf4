/* cost_waits.c: of cost: how often a loop waits for what it loads to registers. Loads of several rounds may
 * be under way at once, but not where the place of a load follows from what the round before loaded. */
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
