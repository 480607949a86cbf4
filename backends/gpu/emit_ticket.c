/* emit_ticket.c: programs that warp roles take by tickets: the producer draws them and hands them to the
 * other roles through a ring of two slots in shared memory. */
#include "backends/gpu/emit.h"

static void next_ticket(Emit *e)
{ line(e, "if (++ticket_slot == 2) { ticket_slot = 0; ticket_phase ^= 1; }"); }

/* A ticket goes from one thread to one of each warp and back: the producer writes it and arrives; lane 0 has
 * waited for that, reads it, hands it to its warp by shuffles, and arrives when it has read. Nobody else
 * touches the words, so both directions are ordered by one arrival, which releases what its own thread did,
 * and one wait, which acquires it (PTX ISA 8.8, 9.7.13.15). The shuffles also hold lane 0 back until all
 * lanes have come past the wait: none comes a phase late to it. */
static const char *ticket_word(Emit *e, int at)
{
    const char *place = at ? str(e, "ticket_word + %d * ticket_slot + %d", TICKET_BYTES, at)
                           : str(e, "ticket_word + %d * ticket_slot", TICKET_BYTES);
    return str(e, "%s(%s, lane)", use(e, "first_lane_word"), place);
}

static void give_ticket_back(Emit *e)
{
    line(e, "if (lane == 0) %s(ticket_empty + 8 * ticket_slot);", use(e, "mbar_arrive"));
    next_ticket(e);
}

/* A ticket is read whole at the head of the loop's body. Every warp that takes tickets releases each of them,
 * whichever of its fields it uses. */
static void take_ticket(Emit *e, const Block *body)
{
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_PROGRAM_COORD) continue;
        const char *n = name_of(e, ir_result(i));
        line(e, "const i32 %s = %s;", n, ticket_word(e, 4 + 4 * (int)ir_attr_int(i, ATTR_AXIS, 0)));
        e->storage[ir_result(i)->id] = n;
    }
    give_ticket_back(e);
}

/* The producer draws program numbers, computes the coordinates of the program and passes them to the
 * consumers through a ring of two stages: a word that says whether there is a program, and its coordinates.
 * The first number is that of the CTA. The counter is zero again when the launch ends. */
void emit_ticket_loop(Emit *e, Instr *loop)
{
    const char *iv = name_of(e, loop->blocks[0]->args[0]), *total = name_of(e, ir_operand(loop, 1));
    e->tickets = true;
    if (e->role == ROLE_PRODUCER) {
        if (e->plan->multicast) emit_cluster_draw(e, iv);
        else {
            line(e, "for (i32 %s = (i32)blockIdx.x;; %s = %s(%s, gridDim.x)) {", iv, iv,
                use(e, "ticket_next"), slot_name(e, SLOT_TICKETS, 0, 0, DT_U64));
            e->indent++;
        }
        line(e, "%s(ticket_empty + 8 * ticket_slot, ticket_phase ^ 1);", use(e, "mbar_wait"));
        line(e, "%s(ticket_word + %d * ticket_slot, %s < %s);", use(e, "sts_w32"), TICKET_BYTES, iv, total);
        line(e, "if (%s >= %s) {", iv, total);
        e->indent++;
        line(e, "%s(ticket_full + 8 * ticket_slot); break;", use(e, "mbar_arrive"));
        end_block(e);
    } else {
        line(e, "for (;;) {");
        e->indent++;
        line(e, "%s(ticket_full + 8 * ticket_slot, ticket_phase);", use(e, "mbar_wait"));
        declare(e, loop->blocks[0]->args[0], "0");
        line(e, "if (!%s) break;", ticket_word(e, 0));
        take_ticket(e, loop->blocks[0]);
    }
    e->indent--;
}

/* The last coordinate is passed with the ticket (ir/roles.c: the producer's loop holds them all). */
bool emit_program_coord(Emit *e, Instr *i)
{
    if (!e->tickets || e->role < 0) return false;
    if (e->role != ROLE_PRODUCER) return true; /* taken with its ticket */
    const char *n = declare(e, ir_result(i), name_of(e, ir_operand(i, 0)));
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    line(e, "%s(ticket_word + %d * ticket_slot + %d, (u32)%s);", use(e, "sts_w32"), TICKET_BYTES,
        4 + 4 * axis, n);
    if (axis < ir_attr_int(i, ATTR_COUNT, 1) - 1) return true;
    line(e, "%s(ticket_full + 8 * ticket_slot);", use(e, "mbar_arrive"));
    next_ticket(e);
    return true;
}

void emit_ticket(Emit *e, Instr *i)
{
    const char *go = name_of(e, ir_result(i));
    line(e, "%s(ticket_full + 8 * ticket_slot, ticket_phase);", use(e, "mbar_wait"));
    line(e, "const bool %s = %s;", go, ticket_word(e, 0));
    for (int k = 1; k < i->n_results; k++) line(e, "i32 %s = 0;", name_of(e, &i->results[k]));
    line(e, "if (%s) {", go);
    e->indent++;
    for (int k = 1; k < i->n_results; k++)
        line(e, "%s = %s;", name_of(e, &i->results[k]), ticket_word(e, 4 * k));
    give_ticket_back(e);
    end_block(e);
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = name_of(e, &i->results[k]);
}
