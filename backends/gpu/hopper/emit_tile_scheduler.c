/* emit_tile_scheduler.c: programs that warp roles take from the dynamic tile scheduler: the producer draws
 * them and hands them to the other roles through a ring of two stages in shared memory. */
#include "backends/gpu/hopper/emit_roles.h"
#include "backends/gpu/hopper/emit_cluster.h"

static void next_program(Emit *e)
{ line(e, "if (++scheduled_stage == 2) { scheduled_stage = 0; scheduled_phase ^= 1; }"); }

/* A program goes from one thread to one of each warp and back: the producer writes it and arrives; lane 0 has
 * waited for that, reads it, hands it to its warp by shuffles, and arrives when it has read. Nobody else
 * touches the words, so both directions are ordered by one arrival, which releases what its own thread did,
 * and one wait, which acquires it (PTX ISA 8.8, 9.7.13.15). The shuffles also hold lane 0 back until all
 * lanes have come past the wait: none comes a phase late to it. ptxas puts the arrival between the reads and
 * the shuffles, where it does not wait for the reads (emit_release.c), so its address depends on them. */
static const char *scheduled_word(Emit *e, int at)
{
    const char *place = at ? str(e, "scheduled_word + %d * scheduled_stage + %d", SCHEDULED_BYTES, at)
                           : str(e, "scheduled_word + %d * scheduled_stage", SCHEDULED_BYTES);
    return str(e, "%s(%s, lane)", use(e, "first_lane_word"), place);
}

/* words: what was read of the program, as a sum of bits; NULL: nothing but that there is one. */
static void give_program_back(Emit *e, const char *words)
{
    const char *read = words ? str(e, " + ((u32)(%s) & %s())", words, use(e, "hidden_zero")) : "";
    line(e, "if (lane == 0) %s(scheduled_empty + 8 * scheduled_stage%s);", use(e, "mbar_arrive"), read);
    next_program(e);
}

static const char *with_word(Emit *e, const char *words, const char *name)
{ return words ? str(e, "%s | %s", words, name) : name; }

/* A program is read whole at the head of the loop's body. Every warp that takes programs releases each of
 * them, whichever of its fields it uses. */
static void take_next_program(Emit *e, const Block *body)
{
    const char *words = NULL;
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_PROGRAM_COORD) continue;
        const char *n = name_of(e, ir_result(i));
        words = with_word(e, words, n);
        line(e, "const i32 %s = %s;", n, scheduled_word(e, 4 + 4 * (int)ir_attr_int(i, ATTR_AXIS, 0)));
        e->storage[ir_result(i)->id] = n;
    }
    give_program_back(e, words);
}

/* The producer draws program numbers, computes the coordinates of the program and passes them to the
 * consumers through a ring of two stages: a word that says whether there is a program, and its coordinates.
 * The first number is that of the CTA, unless programs wait for lower ones: then the CTA that drew those must
 * run. The counter is zero again when the launch ends. */
void emit_scheduler_loop(Emit *e, Instr *loop)
{
    const char *iv = name_of(e, loop->blocks[0]->args[0]), *total = name_of(e, ir_operand(loop, 1));
    e->dynamic = true;
    if (e->role == ROLE_PRODUCER) {
        if (e->plan->multicast) emit_cluster_draw(e, iv);
        else {
            const char *next = use(e, "scheduler_next"), *of = slot_name(e, SLOT_SCHEDULER, 0, 0, DT_U64);
            if (e->plan->waits_for_lower) line(e, "for (i32 %s;; ) {", iv);
            else line(e, "for (i32 %s = (i32)blockIdx.x;; %s = %s(%s, gridDim.x)) {", iv, iv, next, of);
            e->indent++;
            if (e->plan->waits_for_lower) line(e, "%s = %s(%s, 0);", iv, next, of);
        }
        line(e, "%s(scheduled_empty + 8 * scheduled_stage, scheduled_phase ^ 1);", use(e, "mbar_wait"));
        line(e, "%s(scheduled_word + %d * scheduled_stage, %s < %s);", use(e, "sts_w32"), SCHEDULED_BYTES, iv,
            total);
        line(e, "if (%s >= %s) {", iv, total);
        e->indent++;
        line(e, "%s(scheduled_full + 8 * scheduled_stage); break;", use(e, "mbar_arrive"));
        end_block(e);
    } else {
        line(e, "for (;;) {");
        e->indent++;
        line(e, "%s(scheduled_full + 8 * scheduled_stage, scheduled_phase);", use(e, "mbar_wait"));
        declare(e, loop->blocks[0]->args[0], "0");
        line(e, "if (!%s) break;", scheduled_word(e, 0));
        take_next_program(e, loop->blocks[0]);
    }
    e->indent--;
}

/* The last coordinate is passed with the program (ir/verify/roles.c: the producer's loop holds them all). */
bool emit_program_coord(Emit *e, Instr *i)
{
    if (!e->dynamic || e->role < 0) return false;
    if (e->role != ROLE_PRODUCER) return true; /* taken with its program */
    const char *n = declare(e, ir_result(i), name_of(e, ir_operand(i, 0)));
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    line(e, "%s(scheduled_word + %d * scheduled_stage + %d, (u32)%s);", use(e, "sts_w32"), SCHEDULED_BYTES,
        4 + 4 * axis, n);
    if (axis < ir_attr_int(i, ATTR_COUNT, 1) - 1) return true;
    line(e, "%s(scheduled_full + 8 * scheduled_stage);", use(e, "mbar_arrive"));
    next_program(e);
    return true;
}

void emit_next_program(Emit *e, Instr *i)
{
    const char *go = name_of(e, ir_result(i));
    line(e, "%s(scheduled_full + 8 * scheduled_stage, scheduled_phase);", use(e, "mbar_wait"));
    line(e, "const bool %s = %s;", go, scheduled_word(e, 0));
    for (int k = 1; k < i->n_results; k++) line(e, "i32 %s = 0;", name_of(e, &i->results[k]));
    line(e, "if (%s) {", go);
    e->indent++;
    const char *words = NULL;
    for (int k = 1; k < i->n_results; k++) {
        line(e, "%s = %s;", name_of(e, &i->results[k]), scheduled_word(e, 4 * k));
        words = with_word(e, words, name_of(e, &i->results[k]));
    }
    give_program_back(e, words);
    end_block(e);
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = name_of(e, &i->results[k]);
}
