/* cost_registers.c: of cost: how many registers of a thread tiles take that are in use at one place. */
#include "passes/kernel/layout/registers.h"
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

/* Values of all blocks in the order of the text. By value id: the last operation that reads it, through
 * broadcasts too, which have no registers of their own. By operation: words that nobody reads behind it. */
typedef struct Live {
    const CostWalk *w;
    int *last, *dead;
    int n, now, most;
} Live;

static void read_at(Live *x, const Value *v)
{
    x->last[v->id] = x->n;
    if (v->def && v->def->op == OP_BROADCAST) read_at(x, ir_operand(v->def, 0));
}

static void find_last(Live *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) find_last(x, i->blocks[k]);
        for (int k = 0; k < i->n_operands; k++) read_at(x, ir_operand(i, k));
        x->n++;
    }
}

static void begin(Live *x, const Value *v)
{
    int words = cost_words(x->w, v->type);
    if (x->last[v->id] <= x->n) return;
    x->now += words;
    x->dead[x->last[v->id]] += words;
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

static void count_live(Live *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) count_live(x, i->blocks[k]);
        x->now -= x->dead[x->n];
        for (int k = 0; k < i->n_results && i->op != OP_BROADCAST; k++) begin(x, &i->results[k]);
        if (i->op == OP_GATHER && needs_room(x->w, i)) {
            int words = x->now + address_words(x->w, i);
            if (words > x->most) x->most = words;
        }
        x->n++;
    }
}

int cost_gathered_words(const CostWalk *w)
{
    Arena *a = &w->s->arena;
    Live x = { .w = w, .last = arena_array(a, int, w->f->module->next_id) };
    if (!ir_holds(w->f->body, OP_GATHER)) return 0;
    find_last(&x, w->f->body);
    x.dead = arena_array(a, int, (size_t)x.n + 1);
    x.n = 0;
    count_live(&x, w->f->body);
    return x.most;
}
