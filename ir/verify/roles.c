/* roles.c: what the roles of a kernel must agree on, or they wait for each other for ever.
 *
 * The producer draws programs and hands each, with its coordinates, to all other warps, which give
 * each of them back. So
 * - all roles take programs from the tile scheduler, or none does: by one dynamic loop directly in the role,
 * which carries nothing, or, where consumers have joined it with an inner loop, by `next_program`;
 * - the producer's loop holds directly, once and in their order, the coordinates of all axes, since it hands
 *   the program on with the last;
 * - the others have coordinates only directly in their loop: they are read when the program is taken.
 * A ring is filled by one role, in a block of its own, and emptied by the consumers. */
#include "ir/ir.h"

enum { PRODUCER, CONSUMER, CP_ASYNC };

typedef struct Checked {
    const char *why;
    const Instr *at;
} Checked;

static bool fault(Checked *c, const Instr *at, const char *why)
{
    if (!c->why) *c = (Checked){ why, at };
    return false;
}

static bool is_dynamic_loop(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_FOR && ir_loop_is(i, LOOP_DYNAMIC);
}

static const Instr *dynamic_loop(const Block *role)
{
    for (const Instr *i = role->first; i; i = i->next)
        if (is_dynamic_loop(NULL, i)) return i;
    return NULL;
}

/* Dynamic loops over programs that do not stand where the role's programs begin. */
static bool dynamic_within(const Instr *i)
{
    for (int k = 0; k < i->n_blocks; k++)
        if (ir_any_in(i->blocks[k], is_dynamic_loop, NULL)) return true;
    return false;
}

static bool coords_within(const Instr *i)
{
    for (int k = 0; k < i->n_blocks; k++)
        if (ir_holds(i->blocks[k], OP_PROGRAM_COORD)) return true;
    return false;
}

static bool check_coords(Checked *c, const Instr *loop, bool all)
{
    int64_t next = 0, count = 0;
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next) {
        if (coords_within(i))
            return fault(c, i,
                "a coordinate of the program stands in here, and those are taken with the program, directly "
                "in the dynamic loop over programs");
        if (i->op != OP_PROGRAM_COORD) continue;
        count = ir_attr_int(i, ATTR_COUNT, 1);
        if (all && ir_attr_int(i, ATTR_AXIS, 0) != next++)
            return fault(c, i,
                "this is not the next coordinate that the producer hands on: axes come once each, in their "
                "order");
    }
    return !all || (count && next == count) ||
           fault(c, loop,
               "the producer's dynamic loop over programs does not hold the coordinates of all axes, with "
               "which it "
               "hands a program on");
}

static bool check_dynamic(Checked *c, const Instr *roles)
{
    const Instr *drawn = dynamic_loop(roles->blocks[PRODUCER]);
    for (int r = 0; r < roles->n_blocks; r++) {
        const Block *b = roles->blocks[r];
        const Instr *loop = dynamic_loop(b);
        bool joined = ir_holds(b, OP_NEXT_PROGRAM);
        for (const Instr *i = b->first; i; i = i->next) {
            if (dynamic_within(i) || (is_dynamic_loop(NULL, i) && i != loop))
                return fault(c, i, "programs are taken beside or within another loop");
        }
        if (joined && (r != CONSUMER || loop))
            return fault(c, roles,
                "programs are taken one by one where a loop takes them too, or by others than the consumers");
        if ((drawn != NULL) != (loop || joined))
            return fault(c, roles, "one role takes programs from the tile scheduler, and another takes none");
        if (loop && loop->n_results)
            return fault(
                c, loop, "the dynamic loop over programs carries values from one program to the next");
        if (loop && !check_coords(c, loop, r == PRODUCER)) return false;
    }
    return true;
}

/* Which role may do it; -1: any. */
static int role_of(Op op)
{
    if (op_has(op, OPF_PRODUCER)) return PRODUCER;
    if (op_has(op, OPF_CONSUMER)) return CONSUMER;
    return op_has(op, OPF_CP_ASYNC) ? CP_ASYNC : -1;
}

static bool check_places(Checked *c, const Block *b, int role)
{
    for (const Instr *i = b->first; i; i = i->next) {
        int own = role_of(i->op);
        if (own >= 0 && own != role) return fault(c, i, "this is for another role to do");
        for (int k = 0; k < i->n_blocks; k++)
            if (!check_places(c, i->blocks[k], role)) return false;
    }
    return true;
}

static bool check_ring(Checked *c, const Value *ring)
{
    bool filled[CP_ASYNC + 1] = { false };
    for (const Use *u = ring->uses; u; u = u->next)
        if (role_of(u->user->op) >= 0) filled[role_of(u->user->op)] = true;
    if (filled[PRODUCER] && filled[CP_ASYNC])
        return fault(c, ring->def, "two roles fill the ring, and nothing orders them");
    if (filled[CONSUMER] != (filled[PRODUCER] || filled[CP_ASYNC]))
        return fault(c, ring->def,
            filled[CONSUMER] ? "nobody fills the ring that is emptied"
                             : "nobody empties the ring that is filled");
    return true;
}

const Instr *ir_roles_fault(const Func *f, const char **why)
{
    Checked c = { NULL, NULL };
    bool roles = ir_holds(f->body, OP_ROLES) || ir_holds(f->body, OP_CP_ASYNC_ROLES);
    for (const Instr *i = f->body->first; roles && i && !c.why; i = i->next) {
        if (i->op == OP_RING) check_ring(&c, &i->results[0]);
        if (i->op != OP_ROLES && i->op != OP_CP_ASYNC_ROLES) continue;
        check_dynamic(&c, i);
        for (int r = 0; r < i->n_blocks && !c.why; r++) check_places(&c, i->blocks[r], r);
    }
    *why = c.why;
    return c.at;
}

/* Stages of the ring that a step fills. */
static int stages_a_step(const Instr *fill)
{
    int n = 0;
    for (const Instr *i = fill->block->first; i; i = i->next)
        n += i->op == OP_RING_CP_ASYNC && !ir_attr_int(i, ATTR_SLOT, 0) &&
             ir_operand(i, 0) == ir_operand(fill, 0);
    return n;
}

/* Rows that are copied to a stage ask for it before what is late is there. Consumers may hold a step's stages
 * until they have all of the next step's: with stages for two steps alone nobody would go on. */
static bool stages_for_late(const Instr *fill)
{
    return !ir_attr_int(fill, ATTR_PARTS, 0) ||
           ir_operand(fill, 0)->type->shape[0] >= 3 * stages_a_step(fill);
}

/* Stages that loops and branches of the step fill: consumers may need this step's before they empty those. */
static bool fills_within(const Instr *i)
{
    for (int k = 0; k < i->n_blocks; k++)
        if (ir_holds(i->blocks[k], OP_RING_CP_ASYNC)) return true;
    return false;
}

/* Whether the ring has stages for two of the steps in which the put stands. */
static bool holds_two_steps(const Instr *put)
{
    int64_t n = 0;
    for (const Instr *i = put->block->first; i; i = i->next)
        if (i->op == OP_RING_PUT && ir_operand(i, 0) == ir_operand(put, 0))
            n += ir_attr_int(i, ATTR_COUNT, 1);
    return ir_operand(put, 0)->type->shape[0] >= 2 * n;
}

/* Whether the producer can come to the end of a program whose last step the consumers have not got: it puts
 * nothing outside of the steps of one loop, whose stages they give back when they get the next one's. */
static bool producer_goes_on(const Block *programs)
{
    const Instr *steps = NULL;
    for (const Instr *i = programs->first; i; i = i->next) {
        if (i->op == OP_RING_PUT) return false;
        for (int k = 0; k < i->n_blocks; k++) {
            if (!ir_holds(i->blocks[k], OP_RING_PUT)) continue;
            if (steps || i->op != OP_FOR) return false;
            steps = i;
        }
    }
    for (const Instr *i = steps ? steps->blocks[0]->first : NULL; i; i = i->next) {
        if (i->op == OP_RING_PUT && !holds_two_steps(i)) return false;
        for (int k = 0; k < i->n_blocks; k++)
            if (ir_holds(i->blocks[k], OP_RING_PUT)) return false;
    }
    return true;
}

/* The loop over programs of which the last window of a program can be late, too, in the first step of the
 * next one; NULL: there is none. The loop of steps is all that fills stages in a program; the fills are
 * windows, not rows, which are late by several steps and would ask for more programs than are drawn. */
static const Instr *late_over_programs(const Instr *steps)
{
    const Instr *programs = steps->block->parent, *roles = programs ? programs->block->parent : NULL;
    if (!programs || programs->op != OP_FOR || !ir_over_programs(programs) || !roles ||
        roles->op != OP_CP_ASYNC_ROLES)
        return NULL;
    for (const Instr *i = steps->block->first; i; i = i->next)
        if (i->op == OP_RING_CP_ASYNC || (i != steps && fills_within(i))) return NULL;
    for (const Instr *i = steps->blocks[0]->first; i; i = i->next)
        if (i->op == OP_RING_CP_ASYNC && ir_attr(i, ATTR_PARTS)) return NULL;
    for (const Instr *i = roles->blocks[PRODUCER]->first; i; i = i->next)
        if (i->op == OP_FOR && ir_over_programs(i)) return producer_goes_on(i->blocks[0]) ? programs : NULL;
    return NULL;
}

const Instr *ir_cp_async_late_in(const Instr *fill)
{
    const Instr *loop = fill->block->parent;
    if (!loop || loop->op != OP_FOR || ir_loop_is(loop, LOOP_DYNAMIC)) return NULL;
    for (const Instr *i = fill->block->first; i; i = i->next)
        if (fills_within(i) || (i->op == OP_RING_CP_ASYNC && !stages_for_late(i))) return NULL;
    const Instr *programs = late_over_programs(loop);
    return programs ? programs : loop;
}

int ir_cp_async_lag(const Instr *fill)
{
    enum { LEFT = 3, MOST = 4 };
    int64_t depth = ir_operand(fill, 0)->type->shape[0];
    if (!ir_attr_int(fill, ATTR_PARTS, 0) || stages_a_step(fill) != 1 || depth - LEFT < 1) return 1;
    return depth - LEFT < MOST ? (int)depth - LEFT : MOST;
}
