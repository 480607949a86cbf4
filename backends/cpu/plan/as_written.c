/* as_written.c: undoes the speculation on a row's maximum (passes/tile/loops/speculate.c) where the original
 * form is faster. A power of two of any exponent takes two products without AVX-512, and its
 * exponent two limits. A power of what is at most 0, as all elements less their maximum are, takes one of
 * each (below_maximum.c), and the maximum of a row one instruction for each vector. So the second block of
 * such an `if` takes its place, and what only its first block needed is left out. */
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/mma.h"

static bool is_power_in(const Value *v, const Block *b)
{ return v->def && v->def->op == OP_EXP2 && v->def->block == b; }

/* Whether the first block hands on powers that were computed before it, and the second one powers of its own.
 * Sums of squares that are speculated have none. The second block of a rare `if` is right whatever the
 * condition is (docs/passes.md, "Marks that backends read"). */
static bool speculates_powers(const Instr *i)
{
    if (!ir_is_rare(i)) return false;
    const Instr *speculated = ir_terminator(i->blocks[0]), *written = ir_terminator(i->blocks[1]);
    for (int k = 0; k < i->n_results; k++)
        if (is_power_in(ir_operand(speculated, k), i->block) &&
            is_power_in(ir_operand(written, k), i->blocks[1]))
            return true;
    return false;
}

static void take_second_block(Instr *i)
{
    Instr *yield = ir_terminator(i->blocks[1]);
    Builder b = ir_before(i);
    for (Instr *x = i->blocks[1]->first, *next; x != yield; x = next) {
        next = x->next;
        ir_unlink(x);
        ir_place(&b, x);
    }
    for (int k = 0; k < i->n_results; k++) ir_replace(&i->results[k], ir_operand(yield, k));
    ir_erase(i);
}

static bool is_unused(const Instr *i)
{ return (cpu_can_be_repeated(i) || op_family(i->op) == OPS_REDUCE) && !ir_is_used(i); }

void cpu_as_written(Func *f, const CpuTarget *t)
{
    bool any = false;
    if (t->avx512) return;
    for (Instr *i = f->body->first, *next; i; i = next) {
        next = i->next;
        if (!speculates_powers(i)) continue;
        take_second_block(i);
        any = true;
    }
    for (Instr *i = f->body->last, *before; any && i; i = before) {
        before = i->prev;
        if (is_unused(i)) ir_erase(i);
    }
}
