/* cost_registers.c: of cost: how many registers of a thread tiles take that are in use at one place, and the
 * code in all. */
#include "passes/kernel/gather/runs.h"
#include "passes/kernel/layout/registers.h"
#include "passes/kernel/schedule/live.h"
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

int cost_words(const CostWalk *w, const Type *t)
{
    bool tile = t->kind == TYPE_TILE && t->layout && w->plan;
    return tile ? (int)layout_regs(layouts_get(&w->plan->layouts, t)) * dtype_bytes(t->dtype) / 4 : 0;
}

typedef struct Copied {
    CostWalk *w;
    double n;
} Copied;

static void add_copies(void *user, Instr *i)
{
    Copied *c = user;
    if (kernel_copies(i->op)) c->n += cost_small_copies(c->w, i);
}

void cost_round_words(CostWalk *w, const Instr *loop)
{
    int n = 0;
    Copied copied = { w, 0 };
    for (int k = 0; k < loop->n_results; k++) n += cost_words(w, loop->results[k].type);
    for (const Instr *x = loop->blocks[0]->first; x; x = x->next)
        if (x->op == OP_LOAD) n += cost_words(w, ir_result(x)->type);
    if (n > w->c.round) w->c.round = n;
    ir_walk(loop->blocks[0], add_copies, &copied);
    w->c.copied = fmax(w->c.copied, copied.n);
}

static bool beside_sums(const CostWalk *w)
{ return w->plan && (w->plan->producer_warps || ir_holds(w->f->body, OP_MMA_SYNC)); }

/* Whether the gather's elements come one by one, each with its address; or beside the sums of products, which
 * leave few registers for anything else, however they come. */
static bool needs_room(const CostWalk *w, Ranges **ranges, const Instr *gather)
{
    int axis;
    return beside_sums(w) || kernel_indexed_run(w->f, ranges, gather, &axis) <= 1;
}

/* The words of a gather's addresses: beside sums, whose fragments have a word in a place, the vendor's
 * compiler keeps one for each word, for the scatter that follows. Of records of three words, for the second
 * access. */
static int address_words(const CostWalk *w, const Instr *gather)
{
    const Instr *of[GATHERED_WORDS];
    bool threes = w->plan && w->plan->target->kind == TARGET_CUDA && kernel_gathers_threes(w->f, gather, of);
    return beside_sums(w) || threes ? 2 * cost_words(w, ir_result(gather)->type) : 0;
}

typedef struct Gathered {
    const CostWalk *w;
    Ranges *ranges; /* NULL until they are asked for */
    int64_t most;
} Gathered;

static int64_t words_of(void *user, const Value *v) { return cost_words(((Gathered *)user)->w, v->type); }

/* Whether the gather hardly ever runs, so that it may spill, or has one element. */
static bool is_seldom(const Instr *gather)
{
    const Block *b = gather->block;
    bool rare = b->parent && ir_is_rare(b->parent) && b == b->parent->blocks[1];
    return rare || type_elements(ir_result(gather)->type) == 1;
}

static void at_gather(void *user, const Instr *i, int64_t in_use)
{
    Gathered *g = user;
    if (i->op != OP_GATHER || is_seldom(i) || !needs_room(g->w, &g->ranges, i)) return;
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

bool cost_is_fused(const CostWalk *w, const Value *v)
{
    const Instr *d = v->def;
    const Use *u = v->uses;
    if (kernel_is_cheap_in(w->cheap, v) || !u) return true;
    if (!d || d->n_blocks || u->next || u->user->block != d->block || u->user == ir_terminator(d->block))
        return false;
    if (d->op != OP_CAST && d->op != OP_BROADCAST && !(op_info[d->op].flags & OPF_ELEM)) return false;
    OpFamily f = op_family(u->user->op);
    return f != OPS_SCAN && f != OPS_SORT && f != OPS_SHARED && u->user->op != OP_CONVERT &&
           !cost_is_by_position(u->user);
}

typedef struct Largest {
    const CostWalk *w;
    int words;
} Largest;

static void look_at(Largest *x, const Value *v)
{
    int words = v->type->kind == TYPE_TILE && v->type->layout ? cost_words(x->w, v->type) : 0;
    if (words > x->words && !cost_is_fused(x->w, v)) x->words = words;
}

static void look_at_results(void *user, Instr *i)
{
    for (int k = 0; k < i->n_results; k++) look_at(user, &i->results[k]);
    for (int k = 0; k < i->n_blocks; k++)
        for (int a = 0; a < (int)i->blocks[k]->n_args; a++) look_at(user, i->blocks[k]->args[a]);
}

int cost_held_words(const CostWalk *w)
{
    Largest x = { .w = w };
    ir_walk(w->f->body, look_at_results, &x);
    return x.words;
}

/* Registers of a thread: its tiles, twice where runs are loaded by shifted vectors, or what a loop carries
 * and loads in a round, and addresses beside them. Products whose operands come from registers read them
 * ahead as far as there is room, unless the addresses of small copies take it. */
double cost_registers_wanted(const Cost *c, const DeviceModel *m)
{
    if (c->consumers) {
        double loaded = c->chained && c->loaded ? c->loaded + m->registers_chained : 0;
        return fmax(c->held, c->gathered) + m->registers_specialized + loaded;
    }
    double words = fmax((c->shifted ? 2 : 1) * c->words, c->stages ? 0 : c->round);
    double own = fmax(c->held, words) + m->registers_plain;
    if (c->mma <= 0) return own;
    own = fmax(own, c->gathered + m->registers_plain);
    if (c->waits > 0) own = fmax(own, c->held + c->loaded + m->registers_plain);
    if (c->wide) return fmax(own, c->held + m->registers_wide);
    double copies = c->held + m->registers_plain + m->registers_copy * c->copied;
    if (c->copied > 0 && c->stalls <= 0) return fmax(own, fmin(copies, c->room));
    return fmax(
        own, c->stalls > 0 ? c->held + m->registers_stalling : fmin(c->held + m->registers_ahead, c->room));
}

/* Tiles of consumers are in use in turns with those of other roles, and cost_product.c counts theirs. Without
 * products what does not fit counts as bytes (estimate.c, bytes_from_memory). */
double cost_registers_missing(const Cost *c, const DeviceModel *m)
{
    double wanted = cost_registers_wanted(c, m);
    return (c->consumers || c->mma <= 0 ? wanted : fmax(wanted, c->live)) - c->room;
}

double cost_registers_most(const Cost *c, const Target *t)
{
    double own = floor((double)t->sm_registers / c->threads / t->register_step) * t->register_step;
    return fmax(c->room, fmin(own, t->max_registers));
}

double cost_registers_full(const Cost *c)
{ return fmax(fmax(c->live, c->held), fmax(c->words, c->gathered)) / fmax(1, c->room); }

/* It is written and read once for each iteration, in the multiprocessor's own cache. */
double cost_spilled_byte(const Cost *c, const CostDevice *d)
{
    double clusters = c->clusters > 1 ? c->clusters : 1;
    double threads = c->threads * c->cluster * clusters * (double)c->programs;
    return d->model ? 2 * threads * fmax(1, c->iterations) / (d->model->shared * d->units) : 0;
}
