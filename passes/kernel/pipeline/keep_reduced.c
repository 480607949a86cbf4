/* keep_reduced.c: of keep_rows.c: how the parts of a row are joined in front of a reduction.
 *
 *     reduce_max (abs (cast %row : f32))  ->  %m = max (abs %part0), (abs %part1); ..; reduce_max (cast %m)
 *
 * The largest magnitude of f16 and bf16 elements is that of one of them, so that parts of these are joined as
 * they are, two elements at a time, and one part is widened. Other maxima are joined as they are reduced. */
#include "passes/kernel/pipeline/keep_rows.h"
#include <math.h>

/* v, with `none` where a place of the part does not compare so. Where a row begins within a vector, no range
 * of places may decide it, as above. */
static Value *where_place(Keep *k, Builder *b, Value *v, Op op, int64_t with, double none)
{
    Session *s = k->c->s;
    const Type *at = type_tile(s, DT_I32, 1, &k->chunk), *in = type_tile(s, DT_BOOL, 1, &k->chunk),
               *same = type_tile(s, v->type->dtype, 1, &k->chunk), *t = v->type;
    Value *end = k->start.leads ? keep_unknown(b, DT_I32, with) : ir_const_int(b, DT_I32, with),
          *neutral = ir_const_float(b, v->type->dtype, none);
    Value *place = ir_result(ir_build_raw(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), &at, 1));
    end = ir_result(ir_build_raw(b, OP_SPLAT, &end, 1, NO_ATTRS, &at, 1));
    neutral = ir_result(ir_build_raw(b, OP_SPLAT, &neutral, 1, NO_ATTRS, &same, 1));
    Value *inside = ir_result(ir_build_raw(b, op, (Value *[]){ place, end }, 2, NO_ATTRS, &in, 1));
    return ir_result(ir_build_raw(b, OP_WHERE, (Value *[]){ inside, v, neutral }, 3, NO_ATTRS, &t, 1));
}

Value *keep_within_row(Keep *k, Builder *b, Value *v, int p, Op reduction)
{
    int64_t rest = k->row - p * k->chunk;
    double none = reduction == OP_REDUCE_SUM ? 0 : reduction == OP_REDUCE_MAX ? -INFINITY : INFINITY;
    if (k->start.leads && !p) v = where_place(k, b, v, OP_GE, 0, none);
    return rest < k->chunk ? where_place(k, b, v, OP_LT, rest, none) : v;
}

Value *keep_join(Builder *b, Value *before, Value *x, Op reduction)
{
    const Instr *d = x->def;
    if (!before) return x;
    if (reduction == OP_REDUCE_SUM && d->op == OP_MUL && !x->uses)
        return ir_op(b, OP_FMA, x->type, NO_ATTRS, ir_operand(d, 0), ir_operand(d, 1), before);
    return ir_bin(b,
        reduction == OP_REDUCE_SUM   ? OP_ADD
        : reduction == OP_REDUCE_MAX ? OP_MAX
                                     : OP_MIN,
        before, x);
}

Value *keep_narrow_magnitudes(const Keep *k, const Instr *end)
{
    const Instr *d = ir_operand(end, 0)->def;
    if (k->c->p->target->kind != TARGET_CUDA || (end->op != OP_REDUCE_MAX && end->op != OP_REDUCE_MIN))
        return NULL;
    if (!d || d->op != OP_ABS) return NULL;
    d = ir_operand(d, 0)->def;
    if (!d || d->op != OP_CAST || ir_result(d)->type->dtype != DT_F32) return NULL;
    const DType from = ir_operand(d, 0)->type->dtype;
    return from == DT_F16 || from == DT_BF16 ? ir_operand(d, 0) : NULL;
}
