/* guarded_load.c: see guarded_load.h. */
#include "passes/kernel/layout/guarded_load.h"

const Instr *kernel_guard_fills(const Instr *i)
{
    const Instr *d = ir_operand(ir_terminator(i->blocks[1]), 0)->def;
    if (d && d->op == OP_MATERIALIZE) d = ir_operand(d, 0)->def;
    return d && d->op == OP_SPLAT && d->block == i->blocks[1] ? d : NULL;
}

Instr *kernel_guarded_load(const Instr *i)
{
    if (i->op != OP_IF || !i->n_results || i->n_blocks != 2) return NULL;
    Instr *load = i->blocks[0]->first, *end = ir_terminator(i->blocks[0]);
    MemParts m;
    if (load->op != OP_LOAD || load->next != end || load->n_results != i->n_results ||
        !kernel_guard_fills(i) || !ir_mem_parts(load, &m))
        return NULL;
    for (int k = 0; k < end->n_operands; k++)
        if (ir_operand(end, k) != &load->results[k]) return NULL;
    return end->n_operands == 1 || ir_operand(ir_terminator(i->blocks[1]), 1) == m.token ? load : NULL;
}
