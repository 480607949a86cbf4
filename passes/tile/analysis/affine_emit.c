/* affine_emit.c: the instructions that compute an affine form; see affine.h. */
#include "passes/tile/analysis/affine.h"

static Value *emit_atom(Builder *b, Value *v)
{
    Block *body = b->block->func->body;
    Value *x;
    if (v->def && v->def->block == b->block->func->extents) return ir_cast(b, extent_emit(b, v), DT_INDEX);
    if (!v->def && !v->block->parent && v->block != body)
        return body->args[v->index - (v->block == b->block->func->remap)];
    if (v->def && (v->def->op == OP_DIM || v->def->op == OP_STRIDE || v->def->op == OP_PROGRAM_ID ||
                      v->def->op == OP_NUM_PROGRAMS))
        x = ir_emit(b, v->def->op, NULL, 0, (Attrs){ v->def->attrs, v->def->n_attrs }, NULL);
    else x = v;
    return ir_cast(b, x, DT_INDEX);
}

Value *affine_emit(Builder *b, const Affine *a)
{
    Value *sum = NULL;
    for (int n = 0; n < a->n; n++) {
        Value *x = emit_atom(b, a->terms[n].atom);
        if (a->terms[n].coef != 1) x = ir_bin(b, OP_MUL, x, ir_index(b, a->terms[n].coef));
        sum = sum ? ir_bin(b, OP_ADD, sum, x) : x;
    }
    if (!sum) return ir_index(b, a->constant);
    return a->constant ? ir_bin(b, OP_ADD, sum, ir_index(b, a->constant)) : sum;
}
