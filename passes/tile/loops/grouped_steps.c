/* grouped-steps: loops that reduce by a function in each step take several steps at a time.
 *
 *   for %j = 0 to %n with (%a = %z) {               %mid = %n / 4 * 4
 *     %x = load %X[%j*64]                           %b = for %j = 0 to %mid step 4 with (%a = %z) {
 *     %p = reduce %x (f)                    ->        %x0 = load %X[%j*64]; .. %x3 = load %X[(%j + 3)*64]
 *     yield join(%a, %p)                              %p0, .. %p3 = reduce %x0, .. %x3 (f, f, f, f)
 *   }                                                 yield join(join(join(join(%a, %p0), %p1), %p2), %p3)
 *                                                   }
 *                                                   for %j = %mid to %n with (%a = %b) { as before }
 *
 * Threads meet once for a group, the combinations of its steps overlap, and so do its loads. A reduction may
 * not depend on what the loop carries, but for counters: scalars that are computed from counters alone.
 *
 * A loop around such a loop, and around the masked edge that mask-peel left of it, becomes one loop first,
 * because the loop inside may have a step or two. It runs where there is no edge; otherwise the loops run as
 * they were.
 *
 *   for %b = 0 to %m {                               %t = where (%full < %n), 0, %m * %full
 *     for %j = 0 to %full { S(%b, %j) }      ->      for %i = 0 to %t with (%b = 0, %j = 0) {
 *     for %j = %full to %n { E(%b, %j) }               S(%b, %j)
 *   }                                                  the next %j, or %b + 1 and 0
 *                                                    }
 *                                                    for %b = (where (%full < %n), 0, %m) to %m { as before }
 *
 * Requires: divisibility before it, so that masks are settled; steps of 1; pure bodies without stores. Keeps:
 * everything, and the order in which steps are combined. Does not handle: loops with other blocks in them;
 * loads that pipelines take (latency > 1); products. */
#include "passes/pass.h"

/* ELEMENTS: of the tiles of one kind that a group has at once; a few warps have registers for as many. */
enum { MAX_STEPS = 8, ELEMENTS = 8192 };

typedef enum Part {
    COUNTER = 1, /* scalars of counters alone */
    FREE,        /* what depends on nothing else that the loop carries */
    BOUND
} Part;

typedef struct GroupedSteps {
    PassContext *c;
    Func *f;
    uint8_t *part; /* by value id, of the values of the loop's body */
    ValueMap *map; /* of each step */
    int steps;
    int64_t grouped, flattened;
} GroupedSteps;

static bool is_one(const Value *v)
{
    int64_t x;
    return ir_is_const(v, &x) && x == 1;
}

/* Whether the body may come several times: nothing in it has effects or control flow. */
static bool is_plain(const Block *body)
{
    for (const Instr *i = body->first; i != body->last; i = i->next) {
        bool read = i->op == OP_LOAD && is_constant_read(i) && ir_attr_int(i, ATTR_LATENCY, 0) <= 1;
        if (!read && !op_is_pure(i->op)) return false;
        if ((i->n_blocks && i->op != OP_REDUCE) || i->op == OP_MMA) return false;
    }
    return true;
}

/* --- groups of steps --------------------------------------------------------------------------------- */

static Part part_of_operands(const GroupedSteps *g, const Instr *i)
{
    Part p = COUNTER;
    for (int k = 0; k < i->n_operands; k++) {
        Part own = g->part[ir_operand(i, k)->id];
        if (own > p) p = own;
    }
    return p;
}

static void mark(GroupedSteps *g, const Block *body)
{
    for (const Instr *i = body->first; i != body->last; i = i->next) {
        Part p = part_of_operands(g, i);
        for (int k = 0; k < i->n_results; k++)
            if (p == COUNTER && (!op_is_pure(i->op) || i->results[k].type->kind != TYPE_SCALAR)) p = FREE;
        for (int k = 0; k < i->n_results; k++) g->part[i->results[k].id] = (uint8_t)p;
    }
}

/* Finds the part of each value of the body. A carried value is a counter until its next one is none. */
static void find_parts(GroupedSteps *g, const Block *body)
{
    bool changed = true;
    g->part = arena_array(g->c->scratch, uint8_t, g->f->module->next_id);
    while (changed) {
        changed = false;
        mark(g, body);
        for (int k = 1; k < body->n_args; k++) {
            uint8_t *own = &g->part[body->args[k]->id];
            bool counts = g->part[ir_operand(ir_terminator(body), k - 1)->id] <= COUNTER;
            if (counts || *own == BOUND) continue;
            *own = BOUND;
            changed = true;
        }
    }
}

static bool is_free_reduction(const GroupedSteps *g, const Instr *i)
{ return i->op == OP_REDUCE && g->part[ir_result(i)->id] == FREE; }

/* How many steps a group has: a power of two; 1: the loop has no reduction for it. */
static int steps_of(const GroupedSteps *g, const Block *body)
{
    int64_t steps = 1, elements = 1;
    for (const Instr *i = body->first; i; i = i->next) {
        for (int k = 0; k < i->n_results; k++)
            if (is_tile(&i->results[k]) && type_elements(i->results[k].type) > elements)
                elements = type_elements(i->results[k].type);
        if (is_free_reduction(g, i)) steps = MAX_STEPS;
    }
    for (const Instr *i = body->first; i; i = i->next)
        while (is_free_reduction(g, i) && steps * i->n_operands > IR_MAX_COMBINED) steps /= 2;
    while (steps > 1 && steps * elements > ELEMENTS) steps /= 2;
    return steps > 1 ? (int)steps : 1;
}

/* The reductions of all steps as one, whose function applies that of each. */
static void reduce_together(const GroupedSteps *g, Builder *in, const Instr *i)
{
    int n = i->n_operands, all = n * g->steps;
    Value *ops[IR_MAX_COMBINED], *results[IR_MAX_COMBINED];
    const Type *types[IR_MAX_COMBINED];
    const Block *fn = i->blocks[0];
    for (int k = 0; k < all; k++) {
        ops[k] = value_map_get(&g->map[k / n], ir_operand(i, k % n));
        types[k] = i->results[k % n].type;
    }
    Instr *r = ir_build(in, OP_REDUCE, ops, all, (Attrs){ i->attrs, i->n_attrs }, types, all);
    Builder inside = ir_at_end(r->blocks[0]);
    inside.loc = i->loc;
    for (int s = 0; s < g->steps; s++) {
        ValueMap map;
        value_map_init(&map, g->c->scratch);
        for (int k = 0; k < 2 * n; k++)
            value_map_set(&map, fn->args[k], r->blocks[0]->args[k / n * all + s * n + k % n]);
        ir_clone_block_into(&inside, fn, &map, false);
        for (int k = 0; k < n; k++) {
            results[s * n + k] = value_map_get(&map, ir_operand(fn->last, k));
            value_map_set(&g->map[s], &i->results[k], &r->results[s * n + k]);
        }
    }
    ir_build(&inside, OP_YIELD, results, all, NO_ATTRS, NULL, 0);
}

/* What step s + 1 begins with: what step s yields, of counters or of the rest. */
static void carry_on(const GroupedSteps *g, const Block *body, int s, bool counters)
{
    for (int k = 1; k < body->n_args; k++)
        if ((g->part[body->args[k]->id] <= COUNTER) == counters)
            value_map_set(&g->map[s + 1], body->args[k],
                value_map_get(&g->map[s], ir_operand(ir_terminator(body), k - 1)));
}

static void clone_part(const GroupedSteps *g, Builder *in, const Block *body, int s, Part part)
{
    for (const Instr *i = body->first; i != body->last; i = i->next)
        if ((i->n_results ? g->part[ir_result(i)->id] : BOUND) == part) ir_clone(in, i, &g->map[s]);
}

static void group_into(const GroupedSteps *g, const Block *body, Block *to)
{
    Builder in = ir_at_end(to);
    Value *next[IR_MAX_RESULTS];
    DType d = body->args[0]->type->dtype;
    in.loc = body->parent->loc;
    for (int k = 1; k < body->n_args; k++) value_map_set(&g->map[0], body->args[k], to->args[k]);
    for (int s = 0; s < g->steps; s++) {
        Value *at = s ? ir_bin(&in, OP_ADD, to->args[0], ir_const_int(&in, d, s)) : to->args[0];
        value_map_set(&g->map[s], body->args[0], at);
        clone_part(g, &in, body, s, COUNTER);
        carry_on(g, body, s, true);
    }
    for (const Instr *i = body->first; i != body->last; i = i->next) {
        if (g->part[ir_result(i)->id] != FREE) continue;
        for (int s = 0; s < g->steps && i->op != OP_REDUCE; s++) ir_clone(&in, i, &g->map[s]);
        if (i->op == OP_REDUCE) reduce_together(g, &in, i);
    }
    for (int s = 0; s < g->steps; s++) {
        clone_part(g, &in, body, s, BOUND);
        carry_on(g, body, s, false);
    }
    for (int k = 1; k < body->n_args; k++) next[k - 1] = value_map_get(&g->map[g->steps], body->args[k]);
    ir_build(&in, OP_YIELD, next, body->n_args - 1, NO_ATTRS, NULL, 0);
}

static bool group(GroupedSteps *g, Instr *loop)
{
    Block *body = loop->blocks[0];
    if (loop->op != OP_FOR || !is_one(ir_operand(loop, 2)) || !is_plain(body)) return false;
    find_parts(g, body);
    g->steps = steps_of(g, body);
    if (g->steps == 1) return false;
    for (int s = 0; s <= g->steps; s++) value_map_init(&g->map[s], g->c->scratch);
    Builder b = ir_before(loop);
    b.loc = loop->loc;
    Value *lo = ir_operand(loop, 0), *ops[IR_MAX_RESULTS + 3];
    Value *steps = ir_const_int(&b, lo->type->dtype, g->steps), *zero = ir_const_int(&b, lo->type->dtype, 0);
    Value *trips = ir_bin(&b, OP_MAX, ir_bin(&b, OP_SUB, ir_operand(loop, 1), lo), zero);
    ops[0] = lo;
    ops[1] = ir_bin(&b, OP_ADD, lo, ir_bin(&b, OP_MUL, ir_bin(&b, OP_DIV, trips, steps), steps));
    ops[2] = steps;
    for (int k = 3; k < loop->n_operands; k++) ops[k] = ir_operand(loop, k);
    Instr *by = ir_build(&b, OP_FOR, ops, loop->n_operands, NO_ATTRS, NULL, 0);
    group_into(g, body, by->blocks[0]);
    ir_set_operand(loop, 0, ops[1]);
    for (int k = 0; k < loop->n_results; k++) ir_set_operand(loop, k + 3, &by->results[k]);
    g->grouped++;
    return true;
}

/* --- one loop of two --------------------------------------------------------------------------------- */

/* A loop around another one, whose counters are to be those of one loop. */
typedef struct Nest {
    Instr *outer, *main, *edge; /* edge: what mask-peel left behind `main`; NULL: nothing */
} Nest;

/* Whether `next` carries on exactly with the values of `first`, which nothing else uses. */
static bool carries_on(Value *const *first, int n, const Instr *next, int from)
{
    bool same = next->n_operands == n + from;
    for (int k = 0; k < n && same; k++)
        same = ir_operand(next, k + from) == first[k] && ir_use_count(first[k]) == 1;
    return same;
}

static bool chains(const Nest *n)
{
    Block *body = n->outer->blocks[0];
    int count = n->outer->n_results;
    Value *v[IR_MAX_RESULTS] = { NULL };
    for (int k = 0; k < count; k++) v[k] = body->args[k + 1];
    if (!carries_on(v, count, n->main, 3)) return false;
    for (int k = 0; k < count; k++) v[k] = &n->main->results[k];
    if (n->edge && !carries_on(v, count, n->edge, 3)) return false;
    for (int k = 0; k < count && n->edge; k++) v[k] = &n->edge->results[k];
    return carries_on(v, count, ir_terminator(body), 0);
}

static bool counts_outside(const Instr *loop, const Block *body)
{
    for (int k = 0; k < 2; k++)
        if (!ir_defined_outside(ir_operand(loop, k), body)) return false;
    return is_one(ir_operand(loop, 2)) && ir_operand(loop, 0)->type->dtype == DT_INDEX;
}

static bool find_nest(Instr *outer, Nest *n)
{
    int64_t lo;
    *n = (Nest){ .outer = outer };
    if (outer->op != OP_FOR || !counts_outside(outer, outer->blocks[0])) return false;
    Block *body = outer->blocks[0];
    for (Instr *i = body->first; i != body->last; i = i->next) {
        if (i->op == OP_FOR && !n->main) n->main = i;
        else if (i->op == OP_FOR && !n->edge) n->edge = i;
        else if (!op_is_pure(i->op) || i->n_blocks) return false;
    }
    if (!n->main || !counts_outside(n->main, body) || !ir_is_const(ir_operand(n->main, 0), &lo) || lo)
        return false;
    if (n->edge && (!counts_outside(n->edge, body) || ir_operand(n->edge, 0) != ir_operand(n->main, 1)))
        return false;
    return is_plain(n->main->blocks[0]) && chains(n) && outer->n_results + 2 <= IR_MAX_RESULTS;
}

static bool is_worth_it(GroupedSteps *g, const Nest *n)
{
    find_parts(g, n->main->blocks[0]);
    return steps_of(g, n->main->blocks[0]) > 1;
}

/* The body of the one loop, which carries the counters of both behind the values. */
static void flat_body(const GroupedSteps *g, const Nest *n, Block *to)
{
    const Block *around = n->outer->blocks[0], *body = n->main->blocks[0];
    int count = n->outer->n_results;
    Value *next[IR_MAX_RESULTS], *own[2] = { to->args[count + 1], to->args[count + 2] };
    Builder in = ir_at_end(to);
    ValueMap map;
    in.loc = n->main->loc;
    value_map_init(&map, g->c->scratch);
    value_map_set(&map, around->args[0], own[0]);
    value_map_set(&map, body->args[0], own[1]);
    for (int k = 0; k < count; k++) value_map_set(&map, body->args[k + 1], to->args[k + 1]);
    for (const Instr *i = around->first; i != around->last; i = i->next)
        if (i != n->main && i != n->edge) ir_clone(&in, i, &map);
    ir_clone_block_into(&in, body, &map, false);
    for (int k = 0; k < count; k++) next[k] = value_map_get(&map, ir_operand(ir_terminator(body), k));
    Value *one = ir_index(&in, 1), *j = ir_bin(&in, OP_ADD, own[1], one);
    Value *more = ir_bin(&in, OP_LT, j, ir_operand(n->main, 1));
    Value *outer[] = { more, own[0], ir_bin(&in, OP_ADD, own[0], one) };
    Value *inner[] = { more, j, ir_index(&in, 0) };
    next[count] = ir_emit(&in, OP_WHERE, outer, 3, NO_ATTRS, NULL);
    next[count + 1] = ir_emit(&in, OP_WHERE, inner, 3, NO_ATTRS, NULL);
    ir_build(&in, OP_YIELD, next, count + 2, NO_ATTRS, NULL, 0);
}

static Instr *flatten(GroupedSteps *g, const Nest *n)
{
    Instr *outer = n->outer;
    int count = outer->n_results;
    Builder b = ir_before(outer);
    b.loc = n->main->loc;
    Value *zero = ir_index(&b, 0), *lo = ir_operand(outer, 0), *hi = ir_operand(outer, 1);
    Value *ops[IR_MAX_RESULTS + 3], *full = ir_operand(n->main, 1);
    Value *trips = ir_bin(
        &b, OP_MUL, ir_bin(&b, OP_MAX, ir_bin(&b, OP_SUB, hi, lo), zero), ir_bin(&b, OP_MAX, full, zero));
    Value *ragged = n->edge ? ir_bin(&b, OP_LT, full, ir_operand(n->edge, 1)) : NULL;
    if (ragged) trips = ir_emit(&b, OP_WHERE, (Value *[]){ ragged, zero, trips }, 3, NO_ATTRS, NULL);
    ops[0] = zero;
    ops[1] = trips;
    ops[2] = ir_index(&b, 1);
    for (int k = 0; k < count; k++) ops[k + 3] = ir_operand(outer, k + 3);
    ops[count + 3] = lo;
    ops[count + 4] = zero;
    Instr *flat = ir_build(&b, OP_FOR, ops, count + 5, NO_ATTRS, NULL, 0);
    flat_body(g, n, flat->blocks[0]);
    if (ragged) {
        ir_set_operand(outer, 0, ir_emit(&b, OP_WHERE, (Value *[]){ ragged, lo, hi }, 3, NO_ATTRS, NULL));
        for (int k = 0; k < count; k++) ir_set_operand(outer, k + 3, &flat->results[k]);
    } else {
        for (int k = 0; k < count; k++) ir_replace(&outer->results[k], &flat->results[k]);
        ir_erase(outer);
    }
    g->flattened++;
    return flat;
}

/* --- the pass ---------------------------------------------------------------------------------------- */

static void visit(GroupedSteps *g, Block *b);

static void visit_loop(GroupedSteps *g, Instr *i)
{
    Nest n;
    if (find_nest(i, &n) && is_worth_it(g, &n)) {
        group(g, flatten(g, &n));
        return;
    }
    if (group(g, i)) return;
    for (int k = 0; k < i->n_blocks; k++) visit(g, i->blocks[k]);
}

static void visit(GroupedSteps *g, Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        if (i->n_blocks && i->op != OP_REDUCE && i->op != OP_SCAN) visit_loop(g, i);
    }
}

static bool grouped_steps_func(PassContext *c, Func *f)
{
    GroupedSteps g = { .c = c, .f = f, .map = arena_array(c->scratch, ValueMap, MAX_STEPS + 1) };
    visit(&g, f->body);
    pass_count(c, "loops in groups of steps", g.grouped);
    pass_count(c, "loops in loops made one", g.flattened);
    return g.grouped + g.flattened > 0;
}

bool pass_grouped_steps(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind != TARGET_CPU && pass_each_func(c, m, grouped_steps_func);
}
