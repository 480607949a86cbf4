/* emit_join.c: sm_90a: rings of vectors that share the barriers of a matrix's ring.
 *
 * A step that takes a matrix and vectors that belong to it, such as queries and their statistics, waits for
 * each of them, and counts stages and phases of each. A vector's ring joins the ring of a matrix where both
 * are filled, taken and released together: its copies arrive at the matrix's full barrier, the matrix's stage
 * number is its own, and the release of the matrix releases it too.
 *
 * Joined are rings of one depth that only this CTA's TMA fills. Each block that uses one of them uses the
 * other once too. The producer fills the matrix first; consumers take and release the vector first. Between
 * the two copies the producer fills only rings whose stages consumers release in the step that takes them, so
 * that no consumer waits for a copy that waits for it. */
#include "backends/gpu/hopper/emit_roles.h"

static const Instr *only_use(const Value *ring, Op op, const Block *b)
{
    const Instr *found = NULL;
    for (const Use *u = ring->uses; u; u = u->next) {
        if (u->user->op != op || u->user->block != b) continue;
        if (found) return NULL;
        found = u->user;
    }
    return found;
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

/* Whether every block that takes a stage releases it. */
static bool released_where_taken(const Value *ring)
{
    for (const Use *u = ring->uses; u; u = u->next) {
        if (u->user->op != OP_RING_GET) continue;
        const Instr *release = only_use(ring, OP_RING_RELEASE, u->user->block);
        if (!release || !is_before(u->user, release)) return false;
    }
    return true;
}

static bool filled_together(const Instr *matrix, const Instr *vector)
{
    for (const Instr *i = matrix; i && i != vector; i = i->next)
        if (i->n_blocks || (i->op == OP_RING_PUT && !released_where_taken(ir_operand(i, 0)))) return false;
    return is_before(matrix, vector);
}

static bool used_together(const Value *matrix, const Value *vector)
{
    int uses = 0;
    for (const Use *u = vector->uses; u; u = u->next, uses++) {
        const Instr *i = u->user, *other = only_use(matrix, i->op, i->block);
        if (!other || !plain_use(i) || !plain_use(other) || only_use(vector, i->op, i->block) != i)
            return false;
        if (i->op == OP_RING_PUT ? !filled_together(other, i) : !is_before(i, other)) return false;
    }
    for (const Use *u = matrix->uses; u; u = u->next) uses--;
    return uses == 0 && released_where_taken(vector) && released_where_taken(matrix);
}

static bool joins(const RingInfo *matrix, const RingInfo *vector)
{
    return matrix->value->type->rank > 2 && vector->value->type->rank == 2 &&
           matrix->depth == vector->depth && matrix->ctas == 1 && vector->ctas == 1 &&
           matrix->arrivals == vector->arrivals && !matrix->none && !vector->none &&
           used_together(matrix->value, vector->value);
}

void emit_join_rings(Emit *e)
{
    for (size_t v = 0; v < e->rings.len && !e->plan->multicast; v++)
        for (size_t m = 0; m < e->rings.len && !e->rings.data[v].joins; m++)
            if (joins(&e->rings.data[m], &e->rings.data[v])) e->rings.data[v].joins = e->rings.data[m].value;
}

const RingInfo *emit_barriers_of(Emit *e, const RingInfo *r)
{ return r->joins ? emit_ring_of(e, r->joins) : r; }

bool emit_shares_barriers(Emit *e, const RingInfo *r)
{
    bool shares = r->joins != NULL;
    for (size_t k = 0; k < e->rings.len; k++) shares |= e->rings.data[k].joins == r->value;
    return shares;
}

static const Value *leader(Emit *e, const Instr *i)
{ return emit_barriers_of(e, emit_ring_of(e, ir_operand(i, 0)))->value; }

bool emit_is_first_of_joined(Emit *e, const Instr *i)
{
    for (const Instr *p = i->prev; p; p = p->prev)
        if (p->op == i->op && leader(e, p) == leader(e, i)) return false;
    return true;
}

bool emit_is_last_of_joined(Emit *e, const Instr *i)
{
    for (const Instr *p = i->next; p; p = p->next)
        if (p->op == i->op && leader(e, p) == leader(e, i)) return false;
    return true;
}

int64_t emit_joined_bytes(Emit *e, const Instr *put)
{
    int64_t bytes = 0;
    for (const Instr *p = put->next; p; p = p->next) {
        if (p->op != OP_RING_PUT || leader(e, p) != leader(e, put)) continue;
        const Type *t = ir_operand(p, 0)->type;
        bytes += t->shape[1] * dtype_bytes(t->dtype);
    }
    return bytes;
}
