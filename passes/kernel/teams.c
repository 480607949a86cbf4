/* tile-per-warpgroup: each consumer warpgroup takes programs of its own, so that one's epilogue runs under the other's products (what CUTLASS
 * calls ping-pong).
 *
 *   roles { producer } { consumers: one program a CTA, its rows shared out }
 * becomes
 *   roles {count = 2} { producer } { turn_wait; loop with products; turn_pass; epilogue }       each team of four warps with programs of its own
 *
 * Programs are drawn by the producer in one sequence and handed to the teams in turn. Both read the same rings: a program's operands lie
 * behind those of the program before, and the ticket says where (emit_hopper.c), so that nobody has to know how many slots the other took. A turn
 * starts when the team before has got its last slot: a team that waited for a slot two rounds ahead would take the round before for its own, since a phase has
 * only a parity.
 *
 * Requires: a persistent loop with tickets; products that only add to accumulators carried by a loop, one loop for all of them (in attention the
 * products' own overlap leaves nothing to gain, and K and V would be loaded twice); accumulators that fit one warpgroup beside what an
 * epilogue needs. Chosen for tiles of 64 rows, of which one warpgroup has all. Taller ones are shared by several: a tile of 128 x 256 for two warpgroups moves 3 bytes
 * through shared memory where two of 64 x 256 or 128 x 128 move 5 or 4, and that costs more than epilogues do (H100, GEMM 4096: 759, 676 and 593 TFLOPS; with
 * GELU 684, 614 and 581; K 1000: 585, 476 and 385; two warpgroups on one tile of 128 x 128: 597). Products of this size draw the 700 W that the card may have: what
 * is hidden under products is paid back in clock, and only work not done is gained. */
#include "passes/kernel/overlap.h"
#include "passes/kernel/teams.h"

enum { MOST_WORDS = 128, ROWS = 64 };      /* of accumulators a thread: 232 registers less 28 would hold more, but not their epilogue */

int kernel_teams(const Func *f, const KernelPlan *p, Instr *const *products, size_t n)
{
    int64_t words = 0;
    if (!p->persistent || p->options.no_tickets || p->options.no_teams) return 0;
    for (size_t k = 0; k < n; k++) {
        const Instr *i = products[k];
        if (ir_operand(i, 0)->type->shape[0] != ROWS || !kernel_adds_to_carried(i, ir_result(i)) || i->block != products[0]->block || i->block->parent->block != f->body) return 0;
        words += type_elements(ir_result(i)->type) * dtype_bytes(ir_result(i)->type->dtype) / 4;
    }
    return words <= MOST_WORDS * 128 ? 2 : 0;
}

static bool holds_get(const Instr *i)
{
    if (i->op == OP_RING_GET) return true;
    for (int k = 0; k < i->n_blocks; k++)
        for (const Instr *x = i->blocks[k]->first; x; x = x->next) if (holds_get(x)) return true;
    return false;
}

void kernel_take_turns(Block *programs)
{
    Instr *first = NULL, *last = NULL;
    for (Instr *i = programs->first; i; i = i->next)
        if (holds_get(i)) { first = first ? first : i; last = i; }
    if (!first) return;
    Builder b = ir_before(first);
    ir_build(&b, OP_TURN_WAIT, NULL, 0, NO_ATTRS, NULL, 0);
    b = ir_after(last);
    ir_build(&b, OP_TURN_PASS, NULL, 0, NO_ATTRS, NULL, 0);
}
