/* cost_live.c: the largest number of words that a thread needs at once for the tiles of a kernel.
 *
 * Operations are assumed to run in the order of the text. A tile is in use from its definition to the last
 * operation that reads it. A tile from outside a loop that is read in the loop is in use until the loop ends.
 * A value that a loop carries takes the registers of its initial value, and the loop's result takes those of
 * the carried value.
 *
 * What hardly ever runs may spill: the second block of such an `if` does not count.
 *
 * Element-wise operations can run in two orders. Tile by tile, each intermediate tile is held. Element by
 * element, a tile with one use is never held, but its operands stay in use until then. The vendor's compiler
 * finds the better order or one between them, so the smaller of both numbers counts. */
#include "runtime/choice/cost/cost_walk.h"

/* Operations are numbered in the order of the text, and so are the beginnings and ends of blocks. By value
 * id: the number at which a value begins to be in use, and that of the operation which reads it last. */
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

/* Whether the value takes no registers of its own: it is computed where it is read, or shares the registers
 * of its operands. Then reading it means reading its operands. */
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

/* The words of a value. An operand that goes to a product through shared memory is read fragment by fragment,
 * so that at most READ_AHEAD words of it are held. */
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

/* Extends the use of values from outside a loop that the loop reads to the end of the loop, which began at
 * number `start`. */
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
        for (int k = 0; k < i->n_blocks - ir_is_rare(i); k++) {
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
