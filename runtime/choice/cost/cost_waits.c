/* cost_waits.c: of cost: how often a loop waits for what it loads to registers. Loads of several rounds may
 * be under way at once, but not where the place of a load follows from what the round before loaded. */
#include "runtime/choice/cost/cost_walk.h"

enum { MOST_DEEP = 24, MOST_SEEN = 1 << 9 };

typedef struct Path {
    const Block *body;
    int left; /* instructions that may still be looked at */
} Path;

static bool loads(const Instr *i) { return i->op == OP_LOAD || i->op == OP_GATHER; }

static int carried_number(const Block *body, const Value *v)
{
    for (int k = 1; k < (int)body->n_args; k++)
        if (body->args[k] == v) return k;
    return 0;
}

/* The loads that follow each other on the way to the value; *carried: a value of the round before is on it.
 */
static int loads_before(Path *p, const Value *v, int deep, bool *carried)
{
    const Instr *d = v->def;
    int most = 0;
    *carried |= carried_number(p->body, v) > 0;
    if (!d || d->block != p->body || d->n_blocks || deep <= 0 || p->left-- <= 0) return 0;
    for (int k = 0; k < d->n_operands; k++) {
        int n = loads_before(p, ir_operand(d, k), deep - 1, carried);
        if (n > most) most = n;
    }
    return most + loads(d);
}

/* Whether what the loop carries in this place follows from what it carried before. */
static bool is_recurrence(const Block *body, int arg)
{
    Path p = { body, MOST_SEEN };
    bool carried = false;
    loads_before(&p, ir_operand(ir_terminator(body), arg - 1), MOST_DEEP, &carried);
    return carried;
}

/* Whether the place of the load follows from what rounds before have loaded and computed. */
static bool follows_rounds(const Block *body, const Instr *load)
{
    for (int k = 1; k < (int)body->n_args; k++) {
        Path p = { body, MOST_SEEN };
        bool carried = false;
        if (!is_recurrence(body, k)) continue;
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
    const Block *body = loop->blocks[0];
    int levels = 0;
    bool apart = true, ahead = true;
    if (w->roles || !w->plan) return;
    for (const Instr *i = body->first; i; i = i->next) {
        Path p = { body, MOST_SEEN };
        bool carried = false;
        int n = loads(i) && !is_near(w, i) ? loads_before(&p, &i->results[0], MOST_DEEP, &carried) : 0;
        if (n > levels) levels = n;
        if (n && carried && apart) apart = !follows_rounds(body, i);
        if (n) ahead = ahead && is_ahead(i);
    }
    int together = apart ? gpu_rounds_together(w->f, w->plan, false, loop) : 1;
    if (ahead && apart) w->c.trips_ahead += levels * rounds / together;
    else w->c.trips += levels * rounds / together;
}
