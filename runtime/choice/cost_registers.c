/* cost_registers.c: of cost: how many registers of a thread tiles take that are in use at one place. */
#include "passes/kernel/layout/registers.h"
#include "passes/kernel/schedule/live.h"
#include "runtime/choice/cost_walk.h"

int cost_words(const CostWalk *w, const Type *t)
{
    bool tile = t->kind == TYPE_TILE && t->layout && w->plan;
    return tile ? (int)layout_regs(layouts_get(&w->plan->layouts, t)) * dtype_bytes(t->dtype) / 4 : 0;
}

void cost_round_words(CostWalk *w, const Instr *loop)
{
    int n = 0;
    for (int k = 0; k < loop->n_results; k++) n += cost_words(w, loop->results[k].type);
    for (const Instr *x = loop->blocks[0]->first; x; x = x->next)
        if (x->op == OP_LOAD) n += cost_words(w, ir_result(x)->type);
    if (n > w->c.round) w->c.round = n;
}

static bool beside_sums(const CostWalk *w)
{ return w->plan && (w->plan->producer_warps || ir_holds(w->f->body, OP_MMA_SYNC)); }

/* Whether the gather's elements come one by one, each with its address; or beside the sums of products, which
 * leave few registers for anything else, however they come. */
static bool needs_room(const CostWalk *w, const Instr *gather)
{
    int axis;
    return beside_sums(w) || kernel_indexed_run(w->f, gather, &axis) <= 1;
}

/* The words of a gather's addresses: beside sums, whose fragments have a word in a place, the vendor's
 * compiler keeps one for each word, for the scatter that follows. */
static int address_words(const CostWalk *w, const Instr *gather)
{ return beside_sums(w) ? 2 * cost_words(w, ir_result(gather)->type) : 0; }

typedef struct Gathered {
    const CostWalk *w;
    int64_t most;
} Gathered;

static int64_t words_of(void *user, const Value *v) { return cost_words(((Gathered *)user)->w, v->type); }

static void at_gather(void *user, const Instr *i, int64_t in_use)
{
    Gathered *g = user;
    if (i->op != OP_GATHER || !needs_room(g->w, i)) return;
    int64_t words = in_use + address_words(g->w, i);
    if (words > g->most) g->most = words;
}

int cost_gathered_words(const CostWalk *w)
{
    Gathered g = { .w = w };
    if (ir_holds(w->f->body, OP_GATHER))
        live_count(&w->s->arena, w->f, &(LiveCount){ words_of, at_gather, &g });
    return (int)g.most;
}
