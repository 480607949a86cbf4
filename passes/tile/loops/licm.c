/* licm: moves loop-invariant values in front of the loop.
 *
 *   for %j = .. {                                   %h = div %a, %b
 *     %h = div %a, %b                               for %j = .. {
 *     %o = mul %j, %c128                     ->       %o = mul %j, %c128
 *     load %K[%h, %o]                                 load %K[%h, %o]
 *   }                                               }
 *
 * The pass moves pure operations, and loads and gathers of `in` parameters, whose operands are defined
 * outside of the loop. None of these can fault: integer division by zero is 0 and a load out of range
 * gives its pad. Moving one out of a loop that never runs is therefore harmless.
 *
 * A tile that is cheap to make (splat, broadcast, a sum of index tiles) but would occupy registers for the
 * length of the loop stays inside, unless something expensive that moves needs it; see `cheap`.
 *
 * Only as many scalars from memory move out of a loop with products as a thread can hold beside accumulators.
 *
 * Requires: nothing. Keeps: everything. Does not handle: reads on a token chain; what is under an `if`
 * inside the loop. */
#include "passes/pass.h"
#include <limits.h>

/* Tiles of up to so many elements are moved even when they are cheap: at most a vector of a program, which is
 * a few registers of a thread. */
enum { SMALL_TILE = 1024, MAX_SEARCH = 64 };
/* Scalars from memory that a thread holds for the length of a loop with products, beside accumulators. */
enum { MOST_SCALARS = 24 };

typedef struct Licm {
    PassContext *c;
    int64_t moved, reads;
} Licm;

static bool cheap(const Instr *i)
{
    return op_has(i->op, OPF_CHEAP) && i->n_results == 1 && is_tile(&i->results[0]) &&
           type_elements(i->results[0].type) > SMALL_TILE;
}

static bool may_move(const Instr *i)
{
    if (is_constant_read(i)) return true;
    return (op_info[i->op].flags & OPF_PURE) && !(op_info[i->op].flags & OPF_TERM) &&
           i->op != OP_JOIN_TOKENS && i->op != OP_TOKEN;
}

static bool uses_outside(const Instr *i, const Block *loop, const Block *own)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (ir_is_ancestor(own, v->def ? v->def->block : v->block))
            continue; /* a value of a block of the instruction itself */
        if (!ir_defined_outside(v, loop)) return false;
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next)
            if (!uses_outside(x, loop, i->blocks[b])) return false;
    return true;
}

static bool invariant(const Instr *i, const Block *loop)
{
    for (int k = 0; k < i->n_operands; k++)
        if (!ir_defined_outside(ir_operand(i, k), loop)) return false;
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next)
            if (!uses_outside(x, loop, i->blocks[b])) return false;
    return true;
}

/* Whether all that `i` needs from inside of the loop is cheap tiles that could move with it. */
static bool movable_with_operands(const Instr *i, const Block *loop, int *budget)
{
    if (!may_move(i) || --*budget < 0) return false;
    if (invariant(i, loop)) return true;
    if (i->n_blocks) return false;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (ir_defined_outside(v, loop)) continue;
        if (!v->def || v->def->block != loop || !cheap(v->def) ||
            !movable_with_operands(v->def, loop, budget))
            return false;
    }
    return true;
}

static void move(Licm *x, Instr *loop, Instr *i)
{
    Block *body = i->block;
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        if (v->def && v->def->block == body) move(x, loop, v->def);
    }
    Builder b = ir_before(loop);
    x->moved++;
    x->reads += is_constant_read(i);
    /* The fact is proven for iterations that run. Before the loop, there may be none. */
    ir_del_attr(i, ATTR_MASKED);
    ir_del_attr(i, ATTR_INSIDE);
    ir_unlink(i);
    ir_place(&b, i);
}

static bool is_scalar_read(const Value *v)
{ return v->def && is_constant_read(v->def) && v->type->kind == TYPE_SCALAR; }

/* The scalars from memory that the block reads and does not define, up to MOST_SCALARS. */
typedef struct Scalars {
    const Block *body;
    const Value *v[MOST_SCALARS];
    int n;
} Scalars;

static void note_scalars(void *user, Instr *i)
{
    Scalars *x = user;
    for (int k = 0; k < i->n_operands && x->n < MOST_SCALARS; k++) {
        const Value *v = ir_operand(i, k);
        bool known = !is_scalar_read(v) || !ir_defined_outside(v, x->body);
        for (int n = 0; n < x->n && !known; n++) known = x->v[n] == v;
        if (!known) x->v[x->n++] = v;
    }
}

/* How many more scalars from memory may move out of the loop. */
static int scalars_left(const Instr *loop, Block *body)
{
    Scalars x = { .body = body };
    if (!ir_is_or_holds(loop, OP_MMA)) return INT_MAX;
    ir_walk(body, note_scalars, &x);
    return MOST_SCALARS - x.n;
}

static void licm_block(Licm *x, Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) licm_block(x, i->blocks[k]);
        if (!is_loop(i)) continue;
        for (int k = 0; k < i->n_blocks; k++) {
            Block *body = i->blocks[k];
            int scalars = scalars_left(i, body);
            /* A move may take instructions before `y` with it, but never later ones. Therefore `n` stays
             * valid. */
            for (Instr *y = body->first, *n; y; y = n) {
                int budget = MAX_SEARCH;
                n = y->next;
                if (cheap(y) || !movable_with_operands(y, body, &budget)) continue;
                if (y->n_results && is_scalar_read(&y->results[0]) && scalars-- <= 0) continue;
                move(x, i, y);
            }
        }
    }
}

static bool licm_func(PassContext *c, Func *f)
{
    Licm x = { c };
    licm_block(&x, f->body);
    pass_count(c, "values moved out of loops", x.moved);
    pass_count(c, "loads moved out of loops", x.reads);
    return x.moved > 0;
}

bool pass_licm(PassContext *c, Module *m) { return pass_each_func(c, m, licm_func); }
