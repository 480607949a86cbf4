/* extents.c: what a launch computes before any program runs (the grid and the derived extents), and the
 * same expressions elsewhere in a kernel; see affine.h. */
#include "passes/affine.h"

enum { EXTENT_DEPTH = 8 };

/* Whether two scalars of a launch are computed by the same operations from the same dimensions, strides,
 * parameters and constants. They are then equal, whichever block each is in. */
static bool same_of_launch(const Func *f, const Value *a, const Value *b, int depth)
{
    int64_t x, y;
    const Instr *i = a->def, *j = b->def;
    if (a == b) return true;
    if (a->type != b->type || !i != !j || depth == 0) return false;
    if (!i)
        return !a->block->parent && !b->block->parent &&
               a->index - (a->block == f->remap) == b->index - (b->block == f->remap);
    if (i->op != j->op || i->n_operands != j->n_operands) return false;
    if (i->op == OP_CONST) return ir_is_const(a, &x) && ir_is_const(b, &y) && x == y;
    if (i->op == OP_DIM) return ir_attr_int(i, ATTR_DIM, 0) == ir_attr_int(j, ATTR_DIM, 0);
    if (i->n_results != 1 || !i->n_operands || op_family(i->op) == OPS_RANDOM ||
        !(op_info[i->op].flags & OPF_ELEM))
        return false;
    for (int n = 0; n < i->n_operands; n++)
        if (!same_of_launch(f, ir_operand(i, n), ir_operand(j, n), depth - 1)) return false;
    return true;
}

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
        if (i->op == v->def->op && same_of_launch(f, v, ir_result(i), EXTENT_DEPTH)) return ir_result(i);
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
