/* reduce.c: reductions inside nests.
 *
 * Along the axis that a nest walks in chunks, each width of chunk has one vector accumulator. Behind the row
 * its lanes are combined, the upper half with the lower half first. Across that axis the buffer of the
 * results is the accumulator; while a loop runs along the reduced axis and rows are short, each chunk of a
 * row has a vector accumulator instead. The order of combination is fixed, whatever the number of threads. */
#include "backends/cpu/nest.h"
#include <stdio.h>

DType reduce_dtype(const Sink *k)
{
    DType d = k->value->type->dtype;
    return dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d;
}

LLVMValueRef reduce_identity(Gen *g, const Sink *k, int lanes)
{
    DType d = reduce_dtype(k);
    bool f = dtype_is_float(d);
    switch (op_info[k->instr->op].combine) {
    case COMBINE_SUM: return gen_const(g, d, f ? scalar_float(-0.0) : scalar_int(0), lanes);
    case COMBINE_PROD: return gen_const(g, d, f ? scalar_float(1) : scalar_int(1), lanes);
    case COMBINE_MAX: return gen_const(g, d, scalar_lowest(d), lanes);
    case COMBINE_MIN: return gen_const(g, d, scalar_highest(d), lanes);
    case COMBINE_ANY: return gen_const(g, DT_BOOL, scalar_int(0), lanes);
    case COMBINE_ALL: return gen_const(g, DT_BOOL, scalar_int(1), lanes);
    case COMBINE_NONE: break;
    }
    ir_fail(g->session, k->instr->loc, "%s has no neutral element", op_info[k->instr->op].name);
}

static LLVMValueRef combine(Gen *g, const Sink *k, LLVMValueRef a, LLVMValueRef b)
{ return elem_reduce(g, k->instr->op, reduce_dtype(k), a, b); }

/* (value, place) pairs: NaN first, then the better value, then the lower place. */
static void combine_arg(
    Gen *g, const Sink *k, LLVMValueRef *v, LLVMValueRef *p, LLVMValueRef v2, LLVMValueRef p2)
{
    DType d = reduce_dtype(k);
    bool f = dtype_is_float(d);
    LLVMValueRef ops[2] = { v2, *v };
    LLVMValueRef better = elem_op(g, k->instr->op == OP_ARGMAX ? OP_GT : OP_LT, d, ops, NEED_ALL);
    LLVMValueRef equal = elem_op(g, OP_EQ, d, ops, NEED_ALL);
    if (f) {
        LLVMValueRef n1 = LLVMBuildFCmp(g->b, LLVMRealUNO, *v, *v, ""),
                     n2 = LLVMBuildFCmp(g->b, LLVMRealUNO, v2, v2, "");
        better = LLVMBuildOr(g->b, better, LLVMBuildAnd(g->b, n2, LLVMBuildNot(g->b, n1, ""), ""), "");
        equal = LLVMBuildOr(g->b, equal, LLVMBuildAnd(g->b, n1, n2, ""), "");
    }
    LLVMValueRef lower = LLVMBuildICmp(g->b, LLVMIntSLT, p2, *p, "");
    LLVMValueRef take = LLVMBuildOr(g->b, better, LLVMBuildAnd(g->b, equal, lower, ""), "");
    *v = LLVMBuildSelect(g->b, take, v2, *v, "");
    *p = LLVMBuildSelect(g->b, take, p2, *p, "");
}

static LLVMValueRef places(Gen *g, LLVMValueRef from, int lanes, bool along)
{
    LLVMValueRef x = gen_splat(g, LLVMBuildTrunc(g->b, from, g->i32, ""), lanes);
    return along && lanes > 1 ? LLVMBuildAdd(g->b, x, gen_iota(g, g->i32, lanes), "") : x;
}

LLVMValueRef reduce_no_place(Gen *g, int lanes) { return gen_const(g, DT_I32, scalar_int(INT32_MAX), lanes); }

static int acc_of(Eval *e, Nest *n, Acc *a, const Sink *k)
{
    Gen *g = n->g;
    for (int w = 0; w < a->n; w++)
        if (a->lanes[w] == e->lanes) return w;
    int w = a->n++;
    a->lanes[w] = e->lanes;
    a->value[w] = gen_alloca(g, gen_type(g, reduce_dtype(k), e->lanes), "acc");
    a->place[w] = is_arg(k->instr->op) ? gen_alloca(g, gen_vec(g->i32, e->lanes), "place") : NULL;
    RowPlace p = row_enter(e);
    LLVMBuildStore(g->b, reduce_identity(g, k, e->lanes), a->value[w]);
    if (a->place[w]) LLVMBuildStore(g->b, reduce_no_place(g, e->lanes), a->place[w]);
    row_leave(e, p);
    return w;
}

static LLVMValueRef half_of(Gen *g, LLVMValueRef v, int half)
{
    int n = gen_lanes(v) / 2, mask[64];
    if (n == 1) return LLVMBuildExtractElement(g->b, v, gen_int(g, half), "");
    for (int k = 0; k < n; k++) mask[k] = half * n + k;
    return gen_shuffle(g, v, NULL, mask, n);
}

/* coordinates of the result from those of the operand */
static int result_coord(const Sink *k, LLVMValueRef *coord, int va, LLVMValueRef zero, LLVMValueRef *out)
{
    int axis = reduce_axis(k), rank = k->value->type->rank, n = 0, out_va = -1;
    bool drop = ir_attr_int(k->instr, ATTR_DROP, 0);
    for (int a = 0; a < rank; a++) {
        if (a == axis && drop) continue;
        if (a == va && a != axis) out_va = n;
        out[n++] = a == axis ? zero : coord[a];
    }
    return out_va;
}

static LLVMValueRef rounded(Gen *g, const Sink *k, LLVMValueRef v)
{
    if (is_arg(k->instr->op)) return v;
    DType d = ir_result(k->instr)->type->dtype;
    if (reduce_dtype(k) == DT_F32 && (k->instr->op == OP_REDUCE_MAX || k->instr->op == OP_REDUCE_MIN))
        return from_f32_exact(g, d, v);
    return convert(g, ir_result(k->instr)->type->dtype, reduce_dtype(k), v);
}

static void put_result(Eval *e, const Sink *k, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(e->g, 0), c);
    if (k->buf) buf_store(e, k->buf, v, c, rva);
    else plan_info(e->g->plan, ir_result(k->instr))->llvm = v;
}

static bool from_f16(const Value *v)
{ return v->def && v->def->op == OP_CAST && ir_operand(v->def, 0)->type->dtype == DT_F16; }

/* A product of numbers widened from f16 is exact in f32, so that a sum may take it by a multiply-add. */
static Instr *exact_product(const Gen *g, const Sink *k)
{
    Instr *i = k->value->def;
    bool product = i && i->op == OP_MUL && k->value->type->dtype == DT_F32 && from_f16(ir_operand(i, 0)) &&
                   from_f16(ir_operand(i, 1));
    return product && k->instr->op == OP_REDUCE_SUM && g->target->fma && !plan_info(g->plan, k->value)->buf
               ? i
               : NULL;
}

static LLVMValueRef add_product(Eval *e, const Instr *product, LLVMValueRef sum, LLVMValueRef *coord, int va)
{
    LLVMValueRef v[] = { nest_eval(e, ir_operand(product, 0), coord, va),
        nest_eval(e, ir_operand(product, 1), coord, va), sum };
    return gen_intrinsic(e->g, "llvm.fma", (LLVMTypeRef[]){ LLVMTypeOf(sum) }, 1, v, 3);
}

/* --- maxima in which a NaN need not show --------------------------------------------------------------- */

/* The sum by which i divides the row `powers`: by a quotient, or as its product with a quotient by the sum,
 * as results of 16 bits have it (kernel_reciprocal). */
static const Instr *divisor_of(const Instr *i, const Value *powers)
{
    if (i->n_operands != 2 || ir_operand(i, 0) != powers) return NULL;
    if (i->op == OP_DIV) return eval_repeated(ir_operand(i, 1), OP_REDUCE_SUM);
    const Instr *x = i->op == OP_MUL ? ir_operand(i, 1)->def : NULL;
    if (x && x->op == OP_BROADCAST) x = ir_operand(x, 0)->def;
    const Instr *sum = x && x->op == OP_DIV ? ir_operand(x, 1)->def : NULL;
    return sum && sum->op == OP_REDUCE_SUM && !ir_attr_int(sum, ATTR_DROP, 0) ? sum : NULL;
}

/* Whether all that uses `powers`, a row of them, are their sum and their quotients by it. */
static bool sum_and_quotients(const Value *powers, const Instr *max)
{
    for (const Use *u = powers->uses; u; u = u->next) {
        const Instr *i = u->user, *sum = i;
        if (i->op == OP_DIV || i->op == OP_MUL) sum = divisor_of(i, powers);
        if (!sum || sum->op != OP_REDUCE_SUM || ir_operand(sum, 0) != powers ||
            ir_attr_int(sum, ATTR_AXIS, 0) != ir_attr_int(max, ATTR_AXIS, 0))
            return false;
    }
    return true;
}

/* Whether all that uses `v`, x less its maximum times a constant, are powers of it that are used so. */
static bool in_powers(const Value *v, const Instr *max)
{
    double factor;
    for (const Use *u = v->uses; u; u = u->next) {
        const Value *r = u->user->n_results == 1 ? ir_result(u->user) : NULL;
        bool power = u->user->op == OP_EXP || u->user->op == OP_EXP2;
        bool scaled = u->user->op == OP_MUL && (ir_is_const_float(ir_operand(u->user, 0), &factor) ||
                                                   ir_is_const_float(ir_operand(u->user, 1), &factor));
        if (!r || !(power ? sum_and_quotients(r, max) : scaled && in_powers(r, max))) return false;
    }
    return true;
}

/* Whether all that uses the maximum `v` of x, along the row, is x less it, which is used so. */
static bool shifts_powers(const Value *v, const Instr *max)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->n_results != 1) return false;
        bool passes = i->op == OP_BROADCAST || i->op == OP_RESHAPE || i->op == OP_SPLAT;
        if (passes && shifts_powers(ir_result(i), max)) continue;
        bool less = i->op == OP_SUB && ir_operand(i, 0) == ir_operand(max, 0) &&
                    eval_repeated(ir_operand(i, 1), OP_REDUCE_MAX) == max;
        if (!less || !in_powers(ir_result(i), max)) return false;
    }
    return true;
}

/* A maximum is NaN where an element is. In a softmax that element's own power is NaN, and so are the sum and
 * all quotients, whatever the maximum is: then it takes one instruction instead of three, which forgets it.
 */
static bool forgets_nan(const Sink *k)
{
    return k->instr->op == OP_REDUCE_MAX && k->value->type->dtype == DT_F32 &&
           shifts_powers(ir_result(k->instr), k->instr);
}

static LLVMValueRef larger_or_second(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, LLVMRealOGT, a, b, ""), a, b, ""); }

/* --- accumulators of short rows ----------------------------------------------------------------------- */

bool reduce_can_be_held(const Step *s, const Sink *k)
{
    int at = 0;
    if (k->kind != SINK_REDUCE || reduce_along_chunks(s, k) || is_arg(k->instr->op) || s->scalar_lanes)
        return false;
    for (int a = 0; a < reduce_axis(k); a++) at += k->value->type->shape[a] != 1;
    const Buf *values = k->aux ? k->aux : k->buf;
    return k->value->type->shape[reduce_axis(k)] > 1 && at == s->rank - 2 && values &&
           values->dtype == reduce_dtype(k);
}

void reduce_hold(Eval *e, Sink *k, Acc *a, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(g, 0), c);
    a->lanes[a->n] = e->lanes;
    a->value[a->n] = gen_alloca(g, gen_type(g, reduce_dtype(k), e->lanes), "held");
    LLVMBuildStore(g->b, buf_load(e, k->aux ? k->aux : k->buf, c, rva), a->value[a->n++]);
}

void reduce_release(Eval *e, Sink *k, Acc *a, int w, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(g, 0), c);
    LLVMValueRef v = LLVMBuildLoad2(g->b, gen_type(g, reduce_dtype(k), e->lanes), a->value[w], "");
    buf_store(e, k->aux ? k->aux : k->buf, v, c, rva);
}

static void combine_held(Nest *n, const Sink *k, Acc *a, LLVMValueRef x)
{
    Gen *g = n->g;
    LLVMValueRef to = a->value[a->n++];
    LLVMBuildStore(g->b, combine(g, k, LLVMBuildLoad2(g->b, LLVMTypeOf(x), to, ""), x), to);
}

/* --- chunks --------------------------------------------------------------------------------------------- */

void reduce_chunk(Eval *e, Nest *n, Sink *k, Acc *a, LLVMValueRef *coord, int va)
{
    Gen *g = n->g;
    int axis = reduce_axis(k);
    bool arg = is_arg(k->instr->op);
    const Instr *product = axis == va && k->value->type->shape[axis] > 1 ? exact_product(g, k) : NULL;
    if (product) {
        LLVMValueRef sum = a->value[acc_of(e, n, a, k)];
        LLVMValueRef old = LLVMBuildLoad2(g->b, gen_type(g, DT_F32, e->lanes), sum, "");
        LLVMBuildStore(g->b, add_product(e, product, old, coord, va), sum);
        return;
    }
    LLVMValueRef x = convert(g, reduce_dtype(k), k->value->type->dtype, nest_eval(e, k->value, coord, va));
    if (k->value->type->shape[axis] == 1) {
        put_result(e, k, arg ? places(g, gen_int(g, 0), e->lanes, false) : rounded(g, k, x), coord, va);
        return;
    }
    if (n->held) {
        combine_held(n, k, a, x);
        return;
    }
    if (axis == va) {
        int w = acc_of(e, n, a, k);
        LLVMValueRef old = LLVMBuildLoad2(g->b, gen_type(g, reduce_dtype(k), e->lanes), a->value[w], "");
        if (arg) {
            LLVMValueRef place = LLVMBuildLoad2(g->b, gen_vec(g->i32, e->lanes), a->place[w], "");
            combine_arg(g, k, &old, &place, x, places(g, coord[va], e->lanes, true));
            LLVMBuildStore(g->b, place, a->place[w]);
        } else {
            old = forgets_nan(k) ? larger_or_second(g, old, x) : combine(g, k, old, x);
        }
        LLVMBuildStore(g->b, old, a->value[w]);
        return;
    }
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(g, 0), c);
    Buf *values = k->aux ? k->aux : k->buf;
    LLVMValueRef old = buf_load(e, values, c, rva);
    if (arg) {
        LLVMValueRef place = buf_load(e, k->buf, c, rva), v = convert(g, reduce_dtype(k), values->dtype, old);
        combine_arg(g, k, &v, &place, x, places(g, coord[axis], e->lanes, false));
        bool narrow = values->dtype != reduce_dtype(k);
        buf_store(e, values, narrow ? from_f32_exact(g, values->dtype, v) : v, c, rva);
        buf_store(e, k->buf, place, c, rva);
        return;
    }
    LLVMValueRef v = combine(g, k, convert(g, reduce_dtype(k), values->dtype, old), x);
    /* for maxima and minima of narrow floats */
    bool exact = reduce_dtype(k) == DT_F32 && values->dtype != DT_F32;
    buf_store(e, values,
        exact ? from_f32_exact(g, values->dtype, v) : convert(g, values->dtype, reduce_dtype(k), v), c, rva);
}

bool reduce_along_chunks(const Step *s, const Sink *k)
{
    if (k->kind != SINK_REDUCE) return false;
    int last = -1;
    for (int a = 0; a < k->value->type->rank; a++)
        if (k->value->type->shape[a] != 1) last = a;
    return s->rank > 0 && reduce_axis(k) == last;
}

static LLVMValueRef halves(Gen *g, const Sink *k, LLVMValueRef x)
{
    while (gen_lanes(x) > 1) {
        LLVMValueRef lo = half_of(g, x, 0);
        x = combine(g, k, lo, half_of(g, x, 1));
    }
    return x;
}

/* The lanes of x, halves first. A function for each operation: a kernel has the same reduction in several
 * places (peeled loops). */
static LLVMValueRef fold(Gen *g, const Sink *k, LLVMValueRef x)
{
    if (gen_lanes(x) <= 4) return halves(g, k, x);
    char name[64];
    format_text(name, sizeof name, "tile.%s.%s.%d", op_info[k->instr->op].name, dtype_name(reduce_dtype(k)),
        gen_lanes(x));
    LLVMTypeRef arg = LLVMTypeOf(x), type = LLVMFunctionType(gen_type(g, reduce_dtype(k), 1), &arg, 1, false);
    LLVMValueRef f = helper_find(g, name);
    if (!f) {
        Helper h;
        f = helper_begin(g, &h, name, type);
        LLVMBuildRet(g->b, halves(g, k, LLVMGetParam(f, 0)));
        helper_end(g, &h);
    }
    return LLVMBuildCall2(g->b, type, f, &x, 1, "");
}

void reduce_finish(Eval *row, Nest *n, Sink *k, Acc *a, LLVMValueRef *coord, int va)
{
    Gen *g = n->g;
    LLVMValueRef v = NULL, place = NULL;
    bool arg = is_arg(k->instr->op);
    for (int w = 0; w < a->n; w++) {
        LLVMValueRef x = LLVMBuildLoad2(g->b, gen_type(g, reduce_dtype(k), a->lanes[w]), a->value[w], "");
        LLVMValueRef p = arg ? LLVMBuildLoad2(g->b, gen_vec(g->i32, a->lanes[w]), a->place[w], "") : NULL;
        if (!arg) x = fold(g, k, x);
        while (gen_lanes(x) > 1) {
            LLVMValueRef lo = half_of(g, x, 0), hi = half_of(g, x, 1), plo = half_of(g, p, 0);
            combine_arg(g, k, &lo, &plo, hi, half_of(g, p, 1));
            x = lo;
            p = plo;
        }
        if (!v) {
            v = x;
            place = p;
        } else if (arg) combine_arg(g, k, &v, &place, x, p);
        else v = combine(g, k, v, x);
    }
    put_result(row, k, arg ? place : rounded(g, k, v), coord, -1);
    a->n = 0;
}
