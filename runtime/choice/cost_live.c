/* cost_live.c: of cost: the words of a thread that tiles take where the most of them are in use at once.
 *
 * Operations compute in the order of the text. A tile is in use from where it is computed to the last
 * operation that reads it; one from outside of a loop that is read in the loop, as long as the loop runs.
 * What a loop carries takes the place of what it begins with, and its results that of what it carries.
 *
 * There are two ways through operations on elements: one tile after the other, as the text has them, and one
 * element after the other, which holds no tile whose elements are computed where their only use is, but what
 * they are computed of up to there. The vendor's compiler finds the better of both, or one between them. */
#include "runtime/choice/cost_walk.h"

/* By value id: where it begins to be in use, and the operation that reads it last. Numbers count operations,
 * and beside these where loops and other blocks begin and end. */
typedef struct Live {
    CostWalk *w;
    Arena *arena;
    bool by_element;
    int *begin, *last, n;
    uint8_t *there; /* what is_computed_there has said, and 1; 0: was not asked */
    VEC(const Value *) values;
} Live;

static void see(Live *x, const Value *v)
{
    if (v->type->kind != TYPE_TILE) return;
    x->begin[v->id] = x->n;
    x->last[v->id] = -1;
    vec_push(x->arena, &x->values, v);
}

/* Whether the value is computed where it is read, or lies in the registers of what it is made of: these are
 * what is read there. */
static bool find_computed_there(const Live *x, const Value *v)
{
    const Instr *d = v->def;
    if (!d || d->n_blocks) return false;
    return d->op == OP_BROADCAST || cost_stays(x->w, d) ||
           (x->by_element ? cost_is_fused(x->w, v) : kernel_is_cheap_in(x->w->cheap, v));
}

static bool is_computed_there(const Live *x, const Value *v)
{
    if (!x->there[v->id]) x->there[v->id] = (uint8_t)(1 + find_computed_there(x, v));
    return x->there[v->id] > 1;
}

/* What an operand of a product that comes through shared memory takes: it is read fragment by fragment, as
 * far ahead as there is room. */
static int words_of(const Live *x, const Value *v)
{
    enum { READ_AHEAD = 32 };
    int words = cost_words(x->w, v->type);
    const Use *u = v->uses;
    bool fragments = words > READ_AHEAD && v->def && v->def->op == OP_CONVERT && u && !u->next &&
                     u->user->op == OP_MMA_SYNC && u != &u->user->operands[2] &&
                     u->user->block == v->def->block;
    return fragments ? READ_AHEAD : words;
}

static void read_at(Live *x, const Value *v)
{
    if (v->type->kind != TYPE_TILE || x->last[v->id] == x->n) return;
    x->last[v->id] = x->n;
    if (!is_computed_there(x, v)) return;
    for (int k = 0; k < v->def->n_operands; k++) read_at(x, ir_operand(v->def, k));
}

/* What is read in a loop that began at `start` and comes from outside is in use up to the loop's end. */
static void hold(Live *x, int start)
{
    for (size_t k = 0; k < x->values.len; k++) {
        const Value *v = x->values.data[k];
        if (x->begin[v->id] < start && x->last[v->id] >= start) x->last[v->id] = x->n;
    }
}

static void number(Live *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_operands; k++) read_at(x, ir_operand(i, k));
        int start = x->n + 1;
        if (i->n_blocks) x->n++;
        for (int k = 0; k < i->n_blocks; k++) {
            for (int a = 0; a < (int)i->blocks[k]->n_args; a++) see(x, i->blocks[k]->args[a]);
            x->n++;
            number(x, i->blocks[k]);
        }
        if (i->op == OP_FOR || i->op == OP_WHILE) hold(x, start);
        for (int k = 0; k < i->n_results; k++) see(x, &i->results[k]);
        x->n++;
    }
}

static int live_words(CostWalk *w, bool by_element)
{
    Arena *a = &w->s->arena;
    uint32_t ids = w->f->module->next_id;
    Live x = { .w = w,
        .arena = a,
        .by_element = by_element,
        .begin = arena_array(a, int, ids),
        .last = arena_array(a, int, ids),
        .there = arena_array(a, uint8_t, ids) };
    number(&x, w->f->body);
    int *change = arena_array(a, int, (size_t)x.n + 1), now = 0, most = 0;
    for (size_t k = 0; k < x.values.len; k++) {
        const Value *v = x.values.data[k];
        if (x.last[v->id] <= x.begin[v->id] || is_computed_there(&x, v) || kernel_is_cheap_in(w->cheap, v))
            continue;
        change[x.begin[v->id]] += words_of(&x, v);
        change[x.last[v->id]] -= words_of(&x, v);
    }
    for (int k = 0; k < x.n; k++) {
        now += change[k];
        if (now > most) most = now;
    }
    return most;
}

int cost_live_words(CostWalk *w)
{
    int by_tile = live_words(w, false), by_element = live_words(w, true);
    return by_tile < by_element ? by_tile : by_element;
}
