/* eval.c: evaluates virtual tiles at a chunk of elements.
 *
 * Each tile is evaluated once for a chunk. A tile that does not change along the axis of the chunks is
 * evaluated once for the row, before its chunks. This file also reads and writes buffers. */
#include "backends/cpu/nest.h"

void eval_init(Eval *e, Gen *g, int lanes) { *e = (Eval){ .g = g, .lanes = lanes }; }

RowPlace row_enter(Eval *e)
{
    RowPlace p = { NULL, false };
    if (!e->row_eval) return p;
    p.back = gen_here(e->g);
    p.moved = true;
    gen_at(e->g, e->row_eval->row);
    return p;
}

void row_leave(Eval *e, RowPlace p)
{
    if (!p.moved) return;
    e->row_eval->row = gen_here(e->g);
    gen_at(e->g, p.back);
}

int unsqueeze(Gen *g, const Type *t, LLVMValueRef *squeezed, int n, LLVMValueRef *coord)
{
    int k = 0, va = -1;
    for (int a = 0; a < TILE_MAX_RANK; a++) coord[a] = gen_int(g, 0);
    for (int a = 0; t->kind == TYPE_TILE && a < t->rank; a++)
        if (t->shape[a] != 1 && k < n) {
            coord[a] = squeezed[k++];
            va = a;
        }
    return va;
}

/* --- buffers ----------------------------------------------------------------------------------------- */

static void dense_strides(const Buf *b, int64_t *stride)
{
    int64_t s = dtype_bytes(b->dtype);
    for (int a = b->rank - 1; a >= 0; a--) {
        stride[a] = s;
        s *= b->shape[a];
    }
}

static LLVMValueRef address(
    Eval *e, const Buf *b, int rank, const int64_t *stride, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    RowPlace p = row_enter(e);
    LLVMValueRef off = gen_int(g, 0);
    for (int a = 0; a < rank; a++)
        if (a != va)
            off = LLVMBuildAdd(g->b, off, LLVMBuildMul(g->b, coord[a], gen_int(g, stride[a]), ""), "");
    LLVMValueRef ptr = gen_ptr(g, gen_buf(g, b, 0), off);
    row_leave(e, p);
    if (va >= 0) ptr = gen_ptr(g, ptr, LLVMBuildMul(g->b, coord[va], gen_int(g, stride[va]), ""));
    return ptr;
}

LLVMValueRef buf_address(Eval *e, const Buf *b, LLVMValueRef *coord)
{
    int64_t stride[TILE_MAX_RANK];
    dense_strides(b, stride);
    return address(e, b, b->rank, stride, coord, -1);
}

static LLVMValueRef load_strided(Gen *g, DType d, int lanes, LLVMValueRef ptr, int64_t stride)
{
    if (lanes == 1 || stride == dtype_bytes(d)) return gen_load(g, d, lanes, ptr);
    LLVMValueRef v = LLVMGetPoison(gen_type(g, d, lanes));
    for (int k = 0; k < lanes; k++)
        v = LLVMBuildInsertElement(
            g->b, v, gen_load(g, d, 1, gen_ptr(g, ptr, gen_int(g, k * stride))), gen_int(g, k), "");
    return v;
}

LLVMValueRef buf_load(Eval *e, const Buf *b, LLVMValueRef *coord, int va)
{
    int64_t stride[TILE_MAX_RANK];
    dense_strides(b, stride);
    LLVMValueRef ptr = address(e, b, b->rank, stride, coord, va);
    LLVMValueRef v = load_strided(e->g, b->dtype, va >= 0 ? e->lanes : 1, ptr, va >= 0 ? stride[va] : 0);
    return gen_splat(e->g, v, e->lanes);
}

/* A select between a vector and what its place holds stays a select. LLVM would store it under a mask, which
 * on AVX2 takes far longer than an ordinary store, and keeps a load behind it waiting. `freeze` ends its
 * pattern. */
static LLVMValueRef unmasked(Gen *g, LLVMValueRef v)
{
    if (g->target->arm || g->target->avx512) return v;
    if (!LLVMIsAInstruction(v) || LLVMGetInstructionOpcode(v) != LLVMSelect) return v;
    bool loads = LLVMIsALoadInst(LLVMGetOperand(v, 1)) || LLVMIsALoadInst(LLVMGetOperand(v, 2));
    return loads ? LLVMBuildFreeze(g->b, v, "") : v;
}

void buf_store(Eval *e, const Buf *b, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    int64_t stride[TILE_MAX_RANK];
    dense_strides(b, stride);
    LLVMValueRef ptr = address(e, b, b->rank, stride, coord, va);
    int lanes = gen_lanes(v);
    if (lanes == 1 || stride[va] == dtype_bytes(b->dtype)) {
        gen_store(g, b->dtype, unmasked(g, v), ptr);
        return;
    }
    for (int k = 0; k < lanes; k++)
        gen_store(g, b->dtype, LLVMBuildExtractElement(g->b, v, gen_int(g, k), ""),
            gen_ptr(g, ptr, gen_int(g, k * stride[va])));
}

/* --- evaluation -------------------------------------------------------------------------------------- */

static Memo **memo_chain(Eval *e, const Value *v) { return &e->memo[v->id & (e->memo_room - 1)]; }

static Memo *memo_find(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    int rank = v->type->kind == TYPE_TILE ? v->type->rank : 0;
    for (Memo *m = e->memo_room ? *memo_chain(e, v) : NULL; m; m = m->next) {
        bool hit = m->value == v && m->va == va;
        for (int a = 0; a < rank && hit; a++) hit = m->coord[a] == coord[a];
        if (hit) return m;
    }
    return NULL;
}

static void memo_grow(Eval *e)
{
    Memo **old = e->memo;
    uint32_t room = e->memo_room;
    e->memo_room = room ? 4 * room : 16;
    e->memo = arena_array(e->g->arena, Memo *, e->memo_room);
    for (uint32_t k = 0; k < room; k++)
        for (Memo *m = old[k], *next; m; m = next) {
            Memo **to = memo_chain(e, m->value);
            next = m->next;
            m->next = *to;
            *to = m;
        }
}

static LLVMValueRef memo_add(Eval *e, Value *v, LLVMValueRef *coord, int va, LLVMValueRef result)
{
    Memo *m = arena_new(e->g->arena, Memo);
    m->value = v;
    if (v->type->kind == TYPE_TILE) memcpy(m->coord, coord, (size_t)v->type->rank * sizeof *coord);
    m->va = va;
    m->result = result;
    if (e->n_memo++ >= e->memo_room) memo_grow(e);
    Memo **to = memo_chain(e, v);
    m->next = *to;
    *to = m;
    return result;
}

void eval_assume(Eval *e, Value *v, LLVMValueRef *coord, int va, LLVMValueRef x)
{ memo_add(e, v, coord, va, x); }

static LLVMValueRef eval_reshape(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Value *x = ir_operand(i, 0);
    const Type *from = x->type, *to = ir_result(i)->type;
    LLVMValueRef c[TILE_MAX_RANK];
    for (int a = 0; a < TILE_MAX_RANK; a++) c[a] = gen_int(g, 0);
    if (from->kind != TYPE_TILE) return nest_eval(e, x, c, -1);
    int64_t sa[TILE_MAX_RANK], sb[TILE_MAX_RANK];
    int na = squeeze(from, sa), nb = squeeze(to, sb);
    if (na == nb && !memcmp(sa, sb, (size_t)na * sizeof *sa)) {
        int k = 0, xva = -1;
        for (int a = 0; a < to->rank; a++) {
            if (to->shape[a] == 1) continue;
            while (from->shape[k] == 1) k++;
            c[k] = coord[a];
            if (a == va) xva = k;
            k++;
        }
        return nest_eval(e, x, c, xva);
    }
    const Buf *b = plan_info(g->plan, x)->buf;
    if (!b) return nest_eval(e, x, c, -1); /* a splat */
    int64_t stride[TILE_MAX_RANK], s = dtype_bytes(b->dtype);
    for (int a = to->rank - 1; a >= 0; a--) {
        stride[a] = s;
        s *= to->shape[a];
    }
    LLVMValueRef ptr = address(e, b, to->rank, stride, coord, va);
    LLVMValueRef v = load_strided(g, b->dtype, va >= 0 ? e->lanes : 1, ptr, va >= 0 ? stride[va] : 0);
    return gen_splat(g, v, e->lanes);
}

static LLVMValueRef eval_arange(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    DType d = ir_result(i)->type->dtype;
    LLVMTypeRef t = gen_type(g, d, 1);
    LLVMValueRef x = LLVMBuildAdd(g->b, coord[0], gen_int(g, ir_attr_int(i, ATTR_START, 0)), "");
    if (dtype_bits(d) < 64) x = LLVMBuildTrunc(g->b, x, t, "");
    x = gen_splat(g, x, e->lanes);
    return va >= 0 && e->lanes > 1 ? LLVMBuildAdd(g->b, x, gen_iota(g, t, e->lanes), "") : x;
}

/* As f32, by which the pass exp2 multiplies. With fused multiply-adds that product is not rounded by itself.
 */
static const double LOG2_E = 0x1.715476p+0;

/* Whether the lanes of v along `axis` are one value, and computed at the row. A tile that has a buffer is
 * read from it in each chunk. */
static bool is_same_along(const Eval *e, Value *v, int axis)
{
    if (!v->def || axis < 0 || nest_reads_buffer(e, v)) return false;
    return v->def->op == OP_SPLAT ||
           (v->def->op == OP_BROADCAST && ir_operand(v->def, 0)->type->shape[axis] == 1);
}

static bool is_of_f16(const Value *v)
{ return v->def && v->def->op == OP_CAST && ir_operand(v->def, 0)->type->dtype == DT_F16; }

/* What a row has in common takes about as long as twenty vectors gain. */
enum { LONG_ROW = 1024 };

/* 2^(factor (x - y)), for results of 16 bits, of a long row of f16 and a y that it has in common, where
 * `below_0` says that y is at least its maximum; NULL: it is something else. */
static LLVMValueRef power_of_row(Eval *e, Value *v, double factor, bool below_0, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    const Instr *i = v->def;
    if (!i || i->op != OP_SUB || va < 0 || !e->row_eval || plan_info(g->plan, v)->buf) return NULL;
    Value *x = ir_operand(i, 0), *y = ir_operand(i, 1);
    if (v->type->shape[va] < LONG_ROW || !is_of_f16(x) || !is_same_along(e, y, va)) return NULL;
    LLVMValueRef each = nest_eval(e, x, coord, va), most = nest_eval(e, y, coord, va);
    if (!vector_has_row_powers(g, each, below_0)) return NULL;
    RowPlace place = row_enter(e);
    LLVMValueRef one = LLVMBuildExtractElement(g->b, most, gen_int(g, 0), "");
    RowPower p = vector_row_power(g, one, factor, e->lanes);
    if (p.least) p.least = gen_splat(g, p.least, e->lanes);
    p.shift = gen_splat(g, p.shift, e->lanes);
    for (int k = 0; k < p.n_terms; k++) p.terms[k] = gen_splat(g, p.terms[k], e->lanes);
    row_leave(e, place);
    return vector_exp2_of_row(g, each, &p);
}

/* exp or exp2 of x. */
static LLVMValueRef eval_exponential(Eval *e, const Instr *i, LLVMValueRef x, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Value *of = ir_operand(i, 0);
    bool below_0 = eval_is_below_0(i->block->func, of);
    if (plan_need(ir_result(i)) == NEED_ALL) {
        if (!below_0) return NULL;
        if (i->op == OP_EXP) return vector_exp_below_0(g, x);
        bool of_e = g->target->fma && !plan_info(g->plan, of)->buf && eval_positive_factor(of, &of) == LOG2_E;
        return vector_exp2_below_0(g, of_e ? nest_eval(e, of, coord, va) : x, of_e ? LOG2_E : 1);
    }
    double factor = i->op == OP_EXP               ? LOG2_E
                    : plan_info(g->plan, of)->buf ? 0
                                                  : eval_positive_factor(of, &of);
    bool known = factor == 0 || factor == LOG2_E;
    LLVMValueRef power = known ? power_of_row(e, of, factor > 0 ? factor : 1, below_0, coord, va) : NULL;
    if (power || i->op == OP_EXP) return power ? power : vector_exp2_narrow(g, x, LOG2_E, below_0);
    return factor > 0 ? vector_exp2_narrow(g, nest_eval(e, of, coord, va), factor, below_0)
                      : vector_exp2_narrow(g, x, 1, below_0);
}

/* x / d for x times the quotient 1 / d that a sigmoid is, of which this is the only use; NULL: it is not so.
 */
static LLVMValueRef times_sigmoid(Gen *g, const Instr *i, const LLVMValueRef *v)
{
    for (int k = 0; k < 2; k++) {
        const Value *s = ir_operand(i, k);
        bool only = s->def && s->def->op == OP_SIGMOID && ir_use_count(s) == 1;
        if (!only || !LLVMIsAInstruction(v[k]) || LLVMGetInstructionOpcode(v[k]) != LLVMFDiv) continue;
        if (!LLVMIsAConstant(LLVMGetOperand(v[k], 0))) continue;
        return LLVMBuildFDiv(g->b, v[1 - k], LLVMGetOperand(v[k], 1), "");
    }
    return NULL;
}

static LLVMValueRef eval_quotient(Eval *e, const Instr *i, const LLVMValueRef *v, int va)
{
    bool row =
        e->row_eval && is_same_along(e, ir_operand(i, 1), va) && !is_same_along(e, ir_operand(i, 0), va);
    if (!row || e->lanes < plan_lanes(e->g->target) || !quotient_pays(e->g->target)) return NULL;
    return quotient_of_row(e, v[0], v[1], eval_is_at_most_1(i->block->func, ir_operand(i, 0)));
}

/* What takes fewer instructions because of what its operands are; NULL: nothing does. */
static LLVMValueRef eval_known(Eval *e, const Instr *i, const LLVMValueRef *v, LLVMValueRef *coord, int va)
{
    if (i->op == OP_EXP || i->op == OP_EXP2) return eval_exponential(e, i, v[0], coord, va);
    if (i->op == OP_DIV) return eval_quotient(e, i, v, va);
    return i->op == OP_MUL && plan_need(ir_result(i)) != NEED_ALL ? times_sigmoid(e->g, i, v) : NULL;
}

static LLVMValueRef eval_elem(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    LLVMValueRef v[4];
    for (int k = 0; k < i->n_operands && k < 4; k++) v[k] = nest_eval(e, ir_operand(i, k), coord, va);
    DType d = ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype;
    if (i->op == OP_CAST) return convert(g, ir_result(i)->type->dtype, d, v[0]);
    if (i->op == OP_BITCAST) return convert_bits(g, ir_result(i)->type->dtype, d, v[0]);
    if (op_family(i->op) == OPS_RANDOM)
        for (int k = 0; k < 2; k++) v[k] = convert(g, DT_U64, ir_operand(i, k)->type->dtype, v[k]);
    LLVMValueRef known = d == DT_F32 ? eval_known(e, i, v, coord, va) : NULL;
    return known ? known : elem_op(g, i->op, d, v, plan_need(ir_result(i)));
}

static LLVMValueRef eval_instr(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    LLVMValueRef c[TILE_MAX_RANK];
    if (i->op == OP_LOAD) return memory_load(e, i, coord, va);
    if (i->op == OP_GATHER) return memory_gather(e, i, coord, va);
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return nest_eval(e, x, coord, -1);
    case SHAPE_ARANGE: return eval_arange(e, i, coord, va);
    case SHAPE_BROADCAST:
        for (int a = 0; a < x->type->rank; a++) c[a] = x->type->shape[a] == 1 ? gen_int(g, 0) : coord[a];
        return nest_eval(e, x, c, va >= 0 && x->type->shape[va] == 1 ? -1 : va);
    case SHAPE_RESHAPE: return eval_reshape(e, i, coord, va);
    case SHAPE_PERMUTE: {
        const Attr *o = ir_attr(i, ATTR_ORDER);
        for (int k = 0; k < o->n; k++) c[o->v[k]] = coord[k];
        return nest_eval(e, x, c, va < 0 ? -1 : (int)o->v[va]);
    }
    case SHAPE_SLICE: {
        int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
        memcpy(c, coord, (size_t)x->type->rank * sizeof *c);
        RowPlace p = { NULL, false };
        if (axis != va) p = row_enter(e);
        c[axis] = LLVMBuildAdd(g->b, coord[axis], gen_int(g, ir_attr_int(i, ATTR_START, 0)), "");
        row_leave(e, p);
        return nest_eval(e, x, c, va);
    }
    case SHAPE_CONCAT: break; /* Its parts are stored instead (plan_concat). */
    }
    return eval_elem(e, i, coord, va);
}

/* What `v` is computed from, in e->lanes lanes: a load whose element is the same for the whole chunk gives
 * one. */
static LLVMValueRef eval_def(Eval *e, Value *v, LLVMValueRef *coord, int va)
{ return gen_splat(e->g, eval_instr(e, v->def, coord, va), e->lanes); }

LLVMValueRef eval_fresh(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    Memo *m = memo_find(e, v, coord, va);
    if (m) return m->result;
    return memo_add(e, v, coord, va, eval_def(e, v, coord, va));
}

bool nest_reads_buffer(const Eval *e, Value *v)
{
    const ValInfo *info = plan_info(e->g->plan, v);
    return info->buf && !(e->step && info->at == e->step);
}

LLVMValueRef nest_eval(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    if (va < 0 && e->row_eval) { /* the same for the whole row */
        int mark = -2 - e->lanes;
        Memo *m = memo_find(e->row_eval, v, coord, mark);
        if (m) return m->result;
        RowPlace p = row_enter(e);
        LLVMValueRef x = gen_splat(g, nest_eval(e->row_eval, v, coord, -1), e->lanes);
        row_leave(e, p);
        return memo_add(e->row_eval, v, coord, mark, x);
    }
    if (v->type->kind != TYPE_TILE) return gen_splat(g, gen_scalar(g, v), e->lanes);
    Memo *m = memo_find(e, v, coord, va);
    if (m) return m->result;
    LLVMValueRef x = nest_reads_buffer(e, v) ? buf_load(e, plan_info(g->plan, v)->buf, coord, va)
                                             : eval_def(e, v, coord, va);
    return memo_add(e, v, coord, va, x);
}
