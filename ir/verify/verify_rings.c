/* verify_rings.c: the stages of rings, along every path through the roles of a kernel (verify.h).
 *
 * Each role is walked block by block with a set of states. A state says, of each ring, how many stages the
 * role holds, and which of them a value is the view of; and which conditions are known to hold. The walk
 * breaks off with a breach, which names the ring and the instruction, where on any path
 * - a stage is given back that the role does not hold;
 * - a stage is read, or given back by name, that has been given back already;
 * - a stage is taken while the role holds all stages of the ring, so that nobody can fill one;
 * - the role ends while it holds a stage;
 * - the parts of a stage are not filled one after the other.
 *
 * At an `if` both sides are walked, unless the state knows the condition: a constant, a carried bool, a
 * comparison that an `if` or loop around has decided. So the sides may leave a ring differently only where a
 * later condition, of which the same is known, makes good for it: the last step of a rotated loop behind `if
 * lo < hi`. States that differ in conditions alone become one.
 *
 * A loop is walked from the state before it, and again from each state that it ends an iteration in, until
 * there is no new one. An iteration may hold what the one before has taken, as software pipelining does; if
 * each iteration holds more than the last, it comes to hold the whole ring. That ends, since a state holds at
 * most all stages. In a `for`, the counter is known to be the lower bound in the first iteration, and above
 * it in the others.
 *
 * ring_stages.c plays the roles against each other in made-up launches, to find what the walk of a single
 * role cannot see. A role that has more than MOST_STATES states at one place, takes more than MOST_STEPS
 * steps, or gives back a view of a stage that is not known, is left to it; so are parts of a stage that no
 * constant numbers. */
#include "ir/verify/ring_state.h"
#include "ir/verify/verify.h"

enum { MOST_STEPS = 100000 };

typedef struct RingWalk {
    Verifier *v;
    RingStates states;
    const Instr **ring;
    int steps;
    bool gave_up, wrong;
} RingWalk;

static bool ended(const RingWalk *w) { return w->gave_up || w->states.too_many || w->wrong; }

/* --- stages ------------------------------------------------------------------------------------------- */

static int ring_number(const RingWalk *w, const Value *ring)
{
    for (int r = 0; r < w->states.n_rings; r++)
        if (&w->ring[r]->results[0] == ring) return r;
    return -1;
}

static const char *ring_name(const RingWalk *w, int ring)
{
    const Value *v = &w->ring[ring]->results[0];
    return arena_printf(w->states.arena, "%%%s%s%u", v->name ? v->name : "", v->name ? "." : "", v->id);
}

static void breach(RingWalk *w, const Instr *at, const char *why)
{
    if (!w->wrong) verify_breach(w->v, at, "%s", why);
    w->wrong = true;
}

static void take(RingWalk *w, RingState *s, const Instr *i, int ring)
{
    int64_t depth = w->ring[ring]->results[0].type->shape[0];
    if ((int64_t)s->rings[ring].got.len >= depth)
        breach(w, i,
            arena_printf(w->states.arena,
                "all %lld stages of %s may be held here, so that none is left to be filled", (long long)depth,
                ring_name(w, ring)));
    else vec_push(w->states.arena, &s->rings[ring].got, i);
}

static void give_back(RingWalk *w, RingState *s, const Instr *i, int ring, int age)
{
    RingHeld *r = &s->rings[ring];
    if (age >= (int)r->got.len) {
        breach(w, i,
            arena_printf(w->states.arena,
                "no stage of %s is held on a path to here: it has been given back, or was never taken",
                ring_name(w, ring)));
        return;
    }
    for (size_t k = (size_t)age; k + 1 < r->got.len; k++) r->got.data[k] = r->got.data[k + 1];
    r->got.len--;
    for (size_t k = 0; k < s->facts.len; k++) {
        Fact *f = &s->facts.data[k];
        if (f->kind != IS_STAGE || f->ring != ring || f->age < age) continue;
        f->age = f->age == age ? GIVEN_BACK : f->age - 1;
    }
}

static void release(RingWalk *w, RingState *s, const Instr *i, int ring)
{
    const Fact *f = i->n_operands > 1 ? ring_state_stage(s, ir_operand(i, 1)) : NULL;
    if (i->n_operands == 1) give_back(w, s, i, ring, 0);
    else if (!f) w->gave_up = true;
    else if (f->age == GIVEN_BACK)
        breach(w, i,
            arena_printf(w->states.arena, "the stage of %s has been given back already on a path to here",
                ring_name(w, ring)));
    else if (f->age != NO_STAGE) give_back(w, s, i, ring, f->age);
}

/* Parts follow each other from 0 on; a part that no constant says ends the watch over its ring. */
static void fill(RingWalk *w, RingState *s, const Instr *i, int ring)
{
    int64_t parts = ir_attr_int(i, ATTR_PARTS, 0), part = ir_attr_int(i, ATTR_SLOT, 0),
            *next = &s->rings[ring].part;
    if (*next < 0) return;
    if (parts && i->op == OP_RING_PUT && !ir_is_const(ir_operand(i, i->n_operands - 1), &part)) {
        *next = -1;
        return;
    }
    if (!parts) part = 0, parts = 1;
    if (part != *next)
        breach(w, i,
            arena_printf(w->states.arena, "part %lld of a stage of %s comes next on a path to here",
                (long long)*next, ring_name(w, ring)));
    *next = (part + 1) % parts;
}

static void read_stages(RingWalk *w, const RingState *s, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Fact *f =
            ir_operand(i, k)->type->kind == TYPE_SHARED ? ring_state_stage(s, ir_operand(i, k)) : NULL;
        if (!f || f->age != GIVEN_BACK) continue;
        breach(w, i,
            arena_printf(w->states.arena, "a stage of %s is read that has been given back on a path to here",
                ring_name(w, f->ring)));
    }
}

/* An operation without blocks. */
static void act(RingWalk *w, RingState *s, const Instr *i)
{
    bool on_ring = op_family(i->op) == OPS_RING && i->op != OP_RING;
    int ring = on_ring ? ring_number(w, ir_operand(i, 0)) : -1;
    bool part = i->op == OP_SHARED_SLICE || i->op == OP_SHARED_TRANSPOSE;
    if (!on_ring && !part) read_stages(w, s, i);
    if (part) {
        HandedFacts f = ring_state_gather(&w->states, s, i, 0, 1);
        ring_state_to_results(&w->states, s, &f, i);
    }
    if (ring < 0) return;
    if (i->op == OP_RING_PUT || i->op == OP_RING_CP_ASYNC) fill(w, s, i, ring);
    if (i->op == OP_RING_RELEASE) release(w, s, i, ring);
    if (i->op == OP_RING_GET || i->op == OP_RING_NONE) {
        int age = i->op == OP_RING_GET ? (int)s->rings[ring].got.len : NO_STAGE;
        ring_state_learn(
            &w->states, s, (Fact){ .kind = IS_STAGE, .a = ir_result(i), .ring = ring, .age = age });
    }
    if (i->op == OP_RING_GET) take(w, s, i, ring);
    for (int64_t k = i->op == OP_RING_READ ? ir_attr_int(i, ATTR_COUNT, 1) : 0; k > 0 && !ended(w); k--) {
        take(w, s, i, ring);
        if (!ended(w)) give_back(w, s, i, ring, 0);
    }
}

/* --- control ----------------------------------------------------------------------------------------- */

static void walk_block(RingWalk *w, const Block *b, States *set);

/* States at the head of a loop; done: walked from there. */
typedef struct Heads {
    States set;
    VEC(bool) done;
} Heads;

static void add_head(RingWalk *w, Heads *h, RingState s)
{
    bool more = ring_state_add(&w->states, &h->set, s);
    while (h->done.len < h->set.len) vec_push(w->states.arena, &h->done, false);
    /* which one knows less than before is not told */
    for (size_t k = 0; more && k < h->done.len; k++) h->done.data[k] = false;
}

static bool next_head(RingWalk *w, Heads *h, States *one)
{
    for (size_t k = 0; k < h->set.len && !ended(w); k++) {
        if (h->done.data[k]) continue;
        h->done.data[k] = true;
        *one = (States){ 0 };
        vec_push(w->states.arena, one, ring_state_copy(&w->states, &h->set.data[k]));
        return true;
    }
    return false;
}

static bool is_dynamic(const Instr *loop) { return ir_loop_is(loop, LOOP_DYNAMIC); }

/* One iteration from each state of `set`, in which what the loop carries is bound: the states behind it go to
 * the head of the next iteration, and out of the loop. */
static void iterate(RingWalk *w, const Instr *loop, bool first, States *set, Heads *heads, States *out)
{
    const Block *b = loop->blocks[0];
    for (size_t k = 0; k < set->len && !is_dynamic(loop); k++) {
        ring_state_assume_less(&w->states, &set->data[k], ir_operand(loop, 0), b->args[0], !first);
        ring_state_assume_less(&w->states, &set->data[k], b->args[0], ir_operand(loop, 1), true);
    }
    walk_block(w, b, set);
    for (size_t k = 0; k < set->len && !ended(w); k++) {
        RingState *s = &set->data[k], next;
        HandedFacts carried = ring_state_gather(&w->states, s, b->last, 0, loop->n_results);
        ring_state_leave(s, b);
        next = ring_state_copy(&w->states, s);
        ring_state_to_args(&w->states, &next, &carried, b, 1, loop->n_results);
        ring_state_to_results(&w->states, s, &carried, loop);
        add_head(w, heads, next);
        ring_state_add(&w->states, out, *s);
    }
}

static void walk_for(RingWalk *w, const Instr *i, States *set)
{
    Heads heads = { 0 };
    States first = { 0 }, out = { 0 }, one;
    const Value *lo = ir_operand(i, 0), *hi = ir_operand(i, 1);
    for (size_t k = 0; k < set->len; k++) {
        RingState *s = &set->data[k], none = ring_state_copy(&w->states, s),
                  some = ring_state_copy(&w->states, s);
        HandedFacts carried = ring_state_gather(&w->states, s, i, 3, i->n_results);
        Known runs = is_dynamic(i) ? UNKNOWN : ring_state_less(s, lo, hi);
        if (!is_dynamic(i))
            ring_state_assume_less(&w->states, &none, lo, hi, false),
                ring_state_assume_less(&w->states, &some, lo, hi, true);
        ring_state_to_results(&w->states, &none, &carried, i);
        ring_state_to_args(&w->states, &some, &carried, i->blocks[0], 1, i->n_results);
        if (runs != YES) ring_state_add(&w->states, &out, none);
        if (runs != NO) ring_state_add(&w->states, &first, some);
    }
    iterate(w, i, true, &first, &heads, &out);
    while (next_head(w, &heads, &one)) iterate(w, i, false, &one, &heads, &out);
    *set = out;
}

static void walk_while(RingWalk *w, const Instr *i, States *set)
{
    const Block *test = i->blocks[0], *body = i->blocks[1];
    Heads heads = { 0 };
    States out = { 0 }, one, in;
    for (size_t k = 0; k < set->len; k++) {
        HandedFacts carried = ring_state_gather(&w->states, &set->data[k], i, 0, i->n_results);
        ring_state_to_args(&w->states, &set->data[k], &carried, test, 0, i->n_results);
        add_head(w, &heads, set->data[k]);
    }
    while (next_head(w, &heads, &one)) {
        in = (States){ 0 };
        walk_block(w, test, &one);
        for (size_t k = 0; k < one.len && !ended(w); k++) {
            RingState *s = &one.data[k], on = ring_state_copy(&w->states, s);
            Known goes = ring_state_holds(s, ir_operand(test->last, 0));
            ring_state_assume(&w->states, s, ir_operand(test->last, 0), false);
            ring_state_assume(&w->states, &on, ir_operand(test->last, 0), true);
            HandedFacts left = ring_state_gather(&w->states, s, test->last, 1, i->n_results),
                        kept = ring_state_gather(&w->states, &on, test->last, 1, i->n_results);
            ring_state_leave(s, test), ring_state_leave(&on, test);
            ring_state_to_results(&w->states, s, &left, i);
            ring_state_to_args(&w->states, &on, &kept, body, 0, i->n_results);
            if (goes != YES) ring_state_add(&w->states, &out, *s);
            if (goes != NO) ring_state_add(&w->states, &in, on);
        }
        walk_block(w, body, &in);
        for (size_t k = 0; k < in.len && !ended(w); k++) {
            HandedFacts carried = ring_state_gather(&w->states, &in.data[k], body->last, 0, i->n_results);
            ring_state_leave(&in.data[k], body);
            ring_state_to_args(&w->states, &in.data[k], &carried, test, 0, i->n_results);
            add_head(w, &heads, in.data[k]);
        }
    }
    *set = out;
}

static void walk_if(RingWalk *w, const Instr *i, States *set)
{
    States out = { 0 };
    for (int side = 0; side < 2; side++) {
        const Block *b = i->blocks[side];
        States in = { 0 };
        for (size_t k = 0; k < set->len; k++) {
            RingState s = ring_state_copy(&w->states, &set->data[k]);
            if (ring_state_holds(&s, ir_operand(i, 0)) == (side ? YES : NO)) continue;
            ring_state_assume(&w->states, &s, ir_operand(i, 0), !side);
            ring_state_add(&w->states, &in, s);
        }
        walk_block(w, b, &in);
        for (size_t k = 0; k < in.len && !ended(w); k++) {
            HandedFacts given = ring_state_gather(&w->states, &in.data[k], b->last, 0, i->n_results);
            ring_state_leave(&in.data[k], b);
            ring_state_to_results(&w->states, &in.data[k], &given, i);
            ring_state_add(&w->states, &out, in.data[k]);
        }
    }
    *set = out;
}

/* Does it touch rings or views, or decide what a later condition asks? */
static bool matters(const void *user, const Instr *i)
{
    (void)user;
    if (op_family(i->op) == OPS_RING) return true;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_SHARED) return true;
    for (int k = 0; i->n_blocks && k < i->n_results; k++)
        if (i->results[k].type->kind == TYPE_SHARED || i->results[k].type->kind == TYPE_SCALAR) return true;
    return false;
}

static void walk_block(RingWalk *w, const Block *b, States *set)
{
    for (const Instr *i = b->first; i && !ended(w); i = i->next) {
        if (op_info[i->op].flags & OPF_TERM || !ir_any(i, matters, NULL)) continue;
        if (++w->steps > MOST_STEPS) w->gave_up = true;
        if (i->op == OP_FOR) walk_for(w, i, set);
        else if (i->op == OP_WHILE) walk_while(w, i, set);
        else if (i->op == OP_IF) walk_if(w, i, set);
        else
            for (size_t k = 0; k < set->len && !ended(w); k++) act(w, &set->data[k], i);
    }
}

/* The role ends with these states. */
static void check_end(RingWalk *w, const Instr *roles, const RingState *s)
{
    for (int r = 0; r < w->states.n_rings && !ended(w); r++) {
        if (s->rings[r].got.len)
            breach(w, s->rings[r].got.data[0],
                arena_printf(w->states.arena,
                    "the stage of %s that is taken here is not given back on every path", ring_name(w, r)));
        if (s->rings[r].part > 0)
            breach(w, roles,
                arena_printf(w->states.arena,
                    "a stage of %s is not filled with all of its parts on every path", ring_name(w, r)));
    }
}

void verify_rings(Verifier *v)
{
    RingWalk w = { .v = v, .states = { .arena = &v->s->arena } };
    const Instr *roles = NULL;
    VEC(const Instr *) rings = { 0 };
    for (const Instr *i = v->func->body->first; i; i = i->next) {
        if (i->op == OP_RING) vec_push(w.states.arena, &rings, i);
        if (i->op == OP_ROLES || i->op == OP_CP_ASYNC_ROLES) roles = i;
    }
    w.ring = rings.data;
    w.states.n_rings = (int)rings.len;
    for (int r = 0; roles && rings.len && r < roles->n_blocks && !w.wrong; r++) {
        States set = { 0 };
        vec_push(
            w.states.arena, &set, ((RingState){ arena_array(w.states.arena, RingHeld, rings.len), { 0 } }));
        w.gave_up = w.states.too_many = false;
        w.steps = 0;
        walk_block(&w, roles->blocks[r], &set);
        for (size_t k = 0; k < set.len && !ended(&w); k++) check_end(&w, roles, &set.data[k]);
    }
}
