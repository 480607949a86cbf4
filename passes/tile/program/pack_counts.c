/* pack_counts.c: of pack: how many programs there are, and which one this is, as the body asks for them. */
#include "passes/tile/program/pack.h"

static bool counts_programs(const void *unused, const Instr *i)
{
    (void)unused;
    return i->op == OP_NUM_PROGRAMS;
}

bool pack_counts_programs(const Pack *p) { return ir_any_in(p->f->body, counts_programs, NULL); }

void pack_keep_counts(Pack *p)
{
    InstrList counts = { 0 };
    ir_collect(p->c->scratch, p->f->body, OP_NUM_PROGRAMS, &counts);
    for (size_t k = 0; k < counts.len; k++) {
        int64_t axis = ir_attr_int(counts.data[k], ATTR_AXIS, 0);
        Value *n = p->programs, *old = ir_result(counts.data[k]);
        Builder b = ir_before(counts.data[k]);
        if (axis >= 0 && axis != p->axis) continue;
        for (int a = 0; axis < 0 && a < ir_terminator(p->f->grid)->n_operands; a++)
            if (a != p->axis)
                n = ir_bin(
                    &b, OP_MUL, n, ir_emit(&b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), NULL));
        ir_replace(old, n);
    }
}

bool pack_one_coordinate(const Pack *p, Instr *id)
{
    InstrList all = { 0 };
    bool others = false;
    ir_collect(p->c->scratch, p->f->body, OP_PROGRAM_ID, &all);
    for (size_t k = 0; k < all.len; k++) {
        if (all.data[k] == id || ir_attr_int(all.data[k], ATTR_AXIS, 0) != p->axis) continue;
        ir_replace(ir_result(all.data[k]), ir_result(id));
        ir_erase(all.data[k]);
        others = true;
    }
    return others;
}
