/* runs.c: gathers and scatters of runs. Where one index goes up by one from lane to lane, along an axis whose
 * elements lie side by side, and the others are the same in all lanes, a chunk of a gather or scatter is a
 * chunk of a row in memory, and no element is moved by itself. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/plan.h"

/* What becomes of a value from one lane to the next. LANES_WRAP: it goes up by one, but for the lane in front
 * of which 32 bits wrap. */
typedef enum Lanes { LANES_SAME, LANES_NEXT, LANES_WRAP, LANES_OTHER } Lanes;

enum { DEPTH = 16 };

static Lanes lanes_of(const Gen *g, const Value *v, int va, int depth);

/* The axis of a reshaped value that `va` is of its result, if both have the same extents but for ones. -1:
 * none. */
static int axis_before(const Type *from, const Type *to, int va)
{
    int k = 0;
    if (!plan_same_squeezed(from, to)) return -1;
    for (int a = 0; a <= va; a++) {
        if (to->shape[a] == 1) continue;
        while (from->shape[k] == 1) k++;
        if (a == va) return k;
        k++;
    }
    return -1;
}

/* Of a sum of `x` and what is the same in all lanes, or of their difference. */
static Lanes lanes_of_sum(const Instr *i, Lanes x)
{
    bool narrow = dtype_bits(ir_result(i)->type->dtype) < 64;
    if (x == LANES_NEXT) return narrow ? LANES_WRAP : LANES_NEXT;
    return x == LANES_WRAP && narrow ? LANES_WRAP : LANES_OTHER; /* in 64 bits the wrap may be undone */
}

/* Of integers a sum with what is the same goes up alike; all else of values that are the same is the same. */
static Lanes lanes_of_elements(const Gen *g, const Instr *i, int va, int depth)
{
    Lanes of[3] = { LANES_SAME, LANES_SAME, LANES_SAME };
    bool same = true;
    if (i->n_operands > 3) return LANES_OTHER;
    for (int k = 0; k < i->n_operands; k++) {
        of[k] = lanes_of(g, ir_operand(i, k), va, depth);
        same &= of[k] == LANES_SAME;
    }
    if (same) return LANES_SAME;
    if ((i->op == OP_ADD || i->op == OP_SUB) && of[1] == LANES_SAME) return lanes_of_sum(i, of[0]);
    return i->op == OP_ADD && of[0] == LANES_SAME ? lanes_of_sum(i, of[1]) : LANES_OTHER;
}

/* Whether positions of the type are a run where they go up by one. Where 32 bits wrap to negative numbers,
 * the run goes on beyond every extent instead: neither is in range. */
static bool counts_on(const Gen *g, DType d)
{
    bool bounded = g->func->extents31 || g->func->fits32;
    return dtype_is_int(d) && (dtype_bits(d) == 64 || (dtype_bits(d) == 32 && dtype_is_signed(d) && bounded));
}

static Lanes lanes_of_cast(const Gen *g, const Instr *i, int va, int depth)
{
    const Value *x = ir_operand(i, 0);
    DType from = x->type->dtype, to = ir_result(i)->type->dtype;
    Lanes l = lanes_of(g, x, va, depth);
    if (l != LANES_NEXT && l != LANES_WRAP) return l;
    return counts_on(g, from) && dtype_is_int(to) && dtype_bits(to) == 64 ? l : LANES_OTHER;
}

static Lanes lanes_of(const Gen *g, const Value *v, int va, int depth)
{
    const Instr *i = v->def;
    if (va < 0 || !is_tile(v) || v->type->shape[va] == 1) return LANES_SAME;
    if (!i || depth > DEPTH) return LANES_OTHER;
    const Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    if (i->op == OP_CAST) return lanes_of_cast(g, i, va, depth + 1);
    if (op_family(i->op) >= OPS_ARITHMETIC && op_family(i->op) <= OPS_SELECT)
        return lanes_of_elements(g, i, va, depth + 1);
    if (i->op == OP_SPLAT) return LANES_SAME;
    if (i->op == OP_ARANGE) return dtype_bits(v->type->dtype) >= 32 ? LANES_NEXT : LANES_OTHER;
    if (i->op == OP_BROADCAST && is_tile(x)) return lanes_of(g, x, va, depth + 1);
    if (i->op == OP_PERMUTE) return lanes_of(g, x, (int)ir_attr(i, ATTR_ORDER)->v[va], depth + 1);
    if (i->op != OP_RESHAPE || !is_tile(x)) return LANES_OTHER;
    int before = axis_before(x->type, v->type, va);
    return before < 0 ? LANES_OTHER : lanes_of(g, x, before, depth + 1);
}

/* The axis of the tensor along which a gather's lanes are a run; -1: there is none. */
static int axis_of_run(const Gen *g, const MemParts *m, int va)
{
    const Param *p = &g->func->params[m->param];
    int along = -1;
    for (int a = 0; a < m->rank; a++) {
        Lanes l = lanes_of(g, m->idx[a], va, 0);
        if (l == LANES_SAME) continue;
        if (l == LANES_OTHER || along >= 0 || p->stride[a] != 1) return -1;
        if (!counts_on(g, m->idx[a]->type->dtype)) return -1;
        along = a;
    }
    return along;
}

/* One lane of a value that is the same in all, computed before the chunks where it can be. What has a buffer
 * is read from there: that of the tile which it repeats may hold something else by now. */
static LLVMValueRef one_lane(Eval *e, Value *v, const LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    LLVMValueRef c[TILE_MAX_RANK];
    memcpy(c, coord, sizeof c);
    while (is_tile(v) && !nest_reads_buffer(e, v) && v->def && v->def->op == OP_BROADCAST &&
           is_tile(ir_operand(v->def, 0))) {
        v = ir_operand(v->def, 0);
        for (int a = 0; a < v->type->rank; a++)
            if (v->type->shape[a] == 1) c[a] = gen_int(g, 0);
        if (va >= 0 && v->type->shape[va] == 1) va = -1;
    }
    if (is_tile(v) && v->def && v->def->op == OP_SPLAT) v = ir_operand(v->def, 0);
    if (!is_tile(v)) return gen_scalar(g, v);
    if (va >= 0 || !e->row_eval)
        return LLVMBuildExtractElement(g->b, nest_eval(e, v, c, va), gen_int(g, 0), "");
    RowPlace p = row_enter(e);
    LLVMValueRef x = nest_eval(e->row_eval, v, c, -1);
    row_leave(e, p);
    return x;
}

/* A chunk of a row: position `first` of the `extent` that begin at `row`, if `ok` (i1; NULL: it holds) and
 * under `mask` (of lanes; NULL: none). */
typedef struct Run {
    LLVMValueRef row, first, extent, ok, mask;
} Run;

/* False: the lanes are no run. */
static bool run_of(Eval *e, const MemParts *m, LLVMValueRef *coord, int va, Run *r)
{
    Gen *g = e->g;
    DType d = g->func->params[m->param].type->dtype;
    int along = va < 0 || e->lanes == 1 || track_wanted(g, m->param) ? -1 : axis_of_run(g, m, va);
    if (along < 0) return false;
    bool all_or_none = m->mask && lanes_of(g, m->mask, va, 0) == LANES_SAME;
    *r = (Run){ gen_slot(g, SLOT_DATA, m->param, 0, DT_U64), .extent = memory_extent(g, m->param, along) };
    if (all_or_none) r->ok = one_lane(e, m->mask, coord, va);
    for (int a = 0; a < m->rank; a++) {
        Value *v = m->idx[a];
        if (a == along) {
            r->first = LLVMBuildExtractElement(g->b, nest_eval(e, v, coord, va), gen_int(g, 0), "");
            r->first = convert(g, DT_I64, v->type->dtype, r->first);
            continue;
        }
        LLVMValueRef idx = convert(g, DT_I64, v->type->dtype, one_lane(e, v, coord, va));
        LLVMValueRef stride = memory_stride(g, m->param, a, dtype_bytes(d));
        r->row = gen_ptr(g, r->row, LLVMBuildMul(g->b, idx, stride, ""));
        r->ok = both(g, r->ok, icmp(g, LLVMIntULT, idx, memory_extent(g, m->param, a)));
    }
    if (m->mask && !all_or_none) r->mask = nest_eval(e, m->mask, coord, va);
    return true;
}

LLVMValueRef memory_gather_run(Eval *e, const MemParts *m, LLVMValueRef pad, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Run r;
    if (!run_of(e, m, coord, va, &r) || (r.mask && !memory_has_masks(g, e->lanes))) return NULL;
    DType d = g->func->params[m->param].type->dtype;
    return memory_run(g, d, e->lanes, r.row, r.first, r.extent, r.ok, r.mask, pad);
}

bool memory_scatter_run(Eval *e, const MemParts *m, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Run r;
    if (!run_of(e, m, coord, va, &r) || (r.mask && !memory_has_masks(g, e->lanes))) return false;
    LLVMValueRef v = nest_eval(e, m->values[0], coord, va);
    memory_store_run(g, g->func->params[m->param].type->dtype, v, r.row, r.first, r.extent, r.ok, r.mask);
    return true;
}
