/* extents.c: what a launch computes before any program runs (the grid and the derived extents), and the
 * same expressions elsewhere in a kernel; see affine.h. */
#include "passes/tile/analysis/affine.h"

Value *grid_extent(const Func *f, int64_t axis)
{
    const Instr *end = f->grid ? ir_terminator(f->grid) : NULL;
    return end && axis >= 0 && axis < end->n_operands ? ir_operand(end, (int)axis) : NULL;
}

Value *extent_expression(const Func *f, const Instr *i)
{
    if (i->op == OP_DIM) return ir_dim_value(f, (int)ir_attr_int(i, ATTR_DIM, -1));
    bool programs = i->op == OP_PROGRAM_ID || i->op == OP_NUM_PROGRAMS;
    return programs ? grid_extent(f, ir_attr_int(i, ATTR_AXIS, 0)) : NULL;
}

Value *extent_like(const Func *f, Value *v)
{
    for (Instr *i = f->extents ? f->extents->first : NULL; i; i = i->next)
        if (i->op == v->def->op && ir_same_of_launch(f, v, ir_result(i))) return ir_result(i);
    return v;
}

Value *extent_emit(Builder *b, Value *v)
{
    const Instr *i = v->def;
    Value *operands[3] = { NULL };
    if (!i) return b->block->func->body->args[v->index];
    for (int k = 0; k < i->n_operands; k++) operands[k] = extent_emit(b, ir_operand(i, k));
    return ir_emit(b, i->op, operands, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, v->type);
}
