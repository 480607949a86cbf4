/* emit_join.c: sm_90a: rings that share the barriers of another ring, which leads them.
 *
 * A step that takes several tiles waits for each of them, gives each of them back, and counts stages and
 * phases of each. Where they are filled, taken and released together, one of these suffices: the copies of
 * all arrive at the leader's full barrier, the leader's stage number is theirs, and the last release of a
 * round is that of all. A round is one stage of the leader and, of each other ring, one stage or a multiple.
 *
 * Joined are rings that only this CTA's TMA fills:
 * - a vector that belongs to a matrix, such as statistics of queries, with that matrix;
 * - matrices whose products all begin sums of their own, as those of fp8 do, and those of a step whose sums
 *   are scaled before they are added up. Their stages go back in the step that takes them, and each barrier
 *   stands between a step's products and the next one's. In other loops a stage that goes back early, or that
 *   is waited for late, is worth more than a barrier.
 *
 * Blocks use joined rings in rounds. The producer fills the leader first, and between its copies only rings
 * whose stages consumers release in the step that takes them, so that no consumer waits for a copy that waits
 * for it. */
#include "backends/gpu/hopper/emit_roles.h"

static int uses_in(const Value *ring, Op op, const Block *b)
{
    int n = 0;
    for (const Use *u = ring->uses; u; u = u->next) n += u->user->op == op && u->user->block == b;
    return n;
}

/* The number of uses of the same ring, by the same operation, that stand before this one in its block. */
static int number_in_block(const Instr *i)
{
    int n = 0;
    for (const Instr *p = i->prev; p; p = p->prev)
        n += p->op == i->op && ir_operand(p, 0) == ir_operand(i, 0);
    return n;
}

static bool is_before(const Instr *a, const Instr *b)
{
    while (a && a != b) a = a->next;
    return a != NULL;
}

static bool plain_use(const Instr *i)
{
    if (i->op == OP_RING_PUT) return !ir_attr(i, ATTR_PARTS) && !ir_attr(i, ATTR_COUNT);
    return i->op == OP_RING_GET || (i->op == OP_RING_RELEASE && i->n_operands == 1);
}

/* Whether every block that takes stages releases as many, each behind the place where it takes it. */
static bool released_where_taken(const Value *ring)
{
    for (const Use *u = ring->uses; u; u = u->next) {
        const Instr *get = u->user, *release = get;
        if (get->op != OP_RING_GET) continue;
        int n = number_in_block(get) + 1;
        if (uses_in(ring, OP_RING_GET, get->block) != uses_in(ring, OP_RING_RELEASE, get->block))
            return false;
        for (const Instr *i = get->block->first; i != get; i = i->next)
            n -= i->op == OP_RING_RELEASE && ir_operand(i, 0) == ring;
        while (release && n > 0) {
            release = release->next;
            n -= release && release->op == OP_RING_RELEASE && ir_operand(release, 0) == ring;
        }
        if (!release) return false;
    }
    return true;
}

static bool filled_together(const Instr *first, const Instr *last)
{
    for (const Instr *i = first; i && i != last; i = i->next)
        if (i->n_blocks || (i->op == OP_RING_PUT && !released_where_taken(ir_operand(i, 0)))) return false;
    return is_before(first, last);
}

/* Whether the block's uses of both rings, of which a round has n and m, follow each other round by round. */
static bool in_rounds(const Block *b, Op op, const Value *ring, int n, const Value *other, int m)
{
    int a = 0, c = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op != op || (ir_operand(i, 0) != ring && ir_operand(i, 0) != other)) continue;
        int *own = ir_operand(i, 0) == ring ? &a : &c, round = *own / (own == &a ? n : m);
        if ((own == &a ? c < round * m : a < round * n)) return false;
        ++*own;
    }
    return a * m == c * n;
}

static bool used_together(const Value *leader, const Value *ring, int in_round)
{
    int uses = 0;
    for (const Use *u = ring->uses; u; u = u->next, uses++) {
        const Instr *i = u->user;
        int n = uses_in(leader, i->op, i->block);
        if (!n || !plain_use(i) || uses_in(ring, i->op, i->block) != n * in_round ||
            !in_rounds(i->block, i->op, leader, 1, ring, in_round))
            return false;
        if (i->op != OP_RING_PUT) continue;
        const Instr *put = i->block->first;
        while (put->op != OP_RING_PUT || ir_operand(put, 0) != leader) put = put->next;
        if (n != 1 || !filled_together(put, i)) return false;
    }
    for (const Use *u = leader->uses; u; u = u->next) {
        if (!plain_use(u->user)) return false;
        uses -= in_round;
    }
    return uses == 0 && released_where_taken(ring) && released_where_taken(leader);
}

/* Whether rings that join the same leader follow each other round by round too. */
static bool in_rounds_of_others(Emit *e, const RingInfo *r, int in_round, const Value *leader)
{
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *o = &e->rings.data[k];
        if (o->joins != leader) continue;
        for (const Use *u = r->value->uses; u; u = u->next)
            if (!in_rounds(u->user->block, u->user->op, r->value, in_round, o->value, o->in_round))
                return false;
    }
    return true;
}

/* Whether nothing but products that begin sums of their own reads the view of a stage. */
static bool begin_sums(const Value *view)
{
    for (const Use *u = view->uses; u; u = u->next) {
        const Instr *i = u->user;
        bool begins = i->op == OP_WGMMA_PROMOTED || (i->op == OP_WGMMA && !ir_operand(i, 2)->type->layout);
        if (!begins && !(i->op == OP_SHARED_SLICE && begin_sums(ir_result(i)))) return false;
    }
    return true;
}

static bool of_separate_sums(const Value *ring)
{
    bool any = false;
    for (const Use *u = ring->uses; u; u = u->next) {
        if (u->user->op != OP_RING_GET) continue;
        if (!begin_sums(ir_result(u->user))) return false;
        any = true;
    }
    return any;
}

/* The stages of `r` in a round of the leader; 0: it does not join. */
static int joins(Emit *e, const RingInfo *leader, const RingInfo *r)
{
    int n = r->depth / leader->depth;
    bool vector = r->value->type->rank == 2;
    if (leader == r || leader->value->type->rank <= 2 || n * leader->depth != r->depth ||
        (vector && n != 1) || leader->ctas != 1 || r->ctas != 1 || leader->arrivals != r->arrivals ||
        leader->none || r->none || leader->joins ||
        (!vector && (!of_separate_sums(leader->value) || !of_separate_sums(r->value))))
        return 0;
    return used_together(leader->value, r->value, n) && in_rounds_of_others(e, r, n, leader->value) ? n : 0;
}

static bool leads(Emit *e, const RingInfo *r)
{
    for (size_t k = 0; k < e->rings.len; k++)
        if (e->rings.data[k].joins == r->value) return true;
    return false;
}

void emit_join_rings(Emit *e)
{
    for (size_t v = 0; v < e->rings.len && !e->plan->multicast; v++) {
        RingInfo *r = &e->rings.data[v];
        for (size_t m = 0; m < e->rings.len && !r->joins && !leads(e, r); m++) {
            int n = joins(e, &e->rings.data[m], r);
            if (!n) continue;
            r->joins = e->rings.data[m].value;
            r->in_round = n;
        }
    }
}

const RingInfo *emit_barriers_of(Emit *e, const RingInfo *r)
{ return r->joins ? emit_ring_of(e, r->joins) : r; }

bool emit_shares_barriers(Emit *e, const RingInfo *r) { return r->joins || leads(e, r); }

const char *emit_stage_of(Emit *e, const Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0)), *at = emit_barriers_of(e, r);
    int number = number_in_block(i) % r->in_round;
    const char *stage = at->depth > 1 ? str(e, "%s_stage", at->name) : "0";
    if (r->in_round > 1) stage = str(e, "%s * %d", stage, r->in_round);
    return number ? str(e, "(%s + %d)", stage, number) : stage;
}

/* Whether the instruction uses a ring with the leader of `with`, by the same operation, in the same round. */
static bool same_round(Emit *e, const Instr *i, const Instr *with)
{
    if (i->op != with->op) return false;
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0)), *o = emit_ring_of(e, ir_operand(with, 0));
    return emit_barriers_of(e, r) == emit_barriers_of(e, o) &&
           number_in_block(i) / r->in_round == number_in_block(with) / o->in_round;
}

bool emit_is_first_of_joined(Emit *e, const Instr *i)
{
    for (const Instr *p = i->prev; p; p = p->prev)
        if (same_round(e, p, i)) return false;
    return true;
}

bool emit_is_last_of_joined(Emit *e, const Instr *i)
{
    for (const Instr *p = i->next; p; p = p->next)
        if (same_round(e, p, i)) return false;
    return true;
}
