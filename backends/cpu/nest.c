/* nest.c: loop nests over tiles. The last axis of more than one element is walked in chunks of vectors (and smaller powers of
 * two for what is left), the others by plain loops. In a chunk every sink takes its value, and virtual tiles are computed
 * on the way, each once. What does not change along the chunk's axis is computed in the row, before the chunks. */
#include "backends/cpu/cpu.h"
#include <stdio.h>

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
        if (t->shape[a] != 1 && k < n) { coord[a] = squeezed[k++]; va = a; }
    return va;
}

/* --- buffers ----------------------------------------------------------------------------------------------------------- */

static void dense_strides(const Buf *b, int64_t *stride)
{
    int64_t s = dtype_bytes(b->dtype);
    for (int a = b->rank - 1; a >= 0; a--) {
        stride[a] = s;
        s *= b->shape[a];
    }
}

static LLVMValueRef address(Eval *e, const Buf *b, int rank, const int64_t *stride, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    RowPlace p = row_enter(e);
    LLVMValueRef off = gen_int(g, 0);
    for (int a = 0; a < rank; a++)
        if (a != va) off = LLVMBuildAdd(g->b, off, LLVMBuildMul(g->b, coord[a], gen_int(g, stride[a]), ""), "");
    LLVMValueRef ptr = gen_ptr(g, gen_buf(g, b, 0), off);
    row_leave(e, p);
    if (va >= 0) ptr = gen_ptr(g, ptr, LLVMBuildMul(g->b, coord[va], gen_int(g, stride[va]), ""));
    return ptr;
}

static LLVMValueRef load_strided(Gen *g, DType d, int lanes, LLVMValueRef ptr, int64_t stride)
{
    if (lanes == 1 || stride == dtype_bytes(d)) return gen_load(g, d, lanes, ptr);
    LLVMValueRef v = LLVMGetPoison(gen_type(g, d, lanes));
    for (int k = 0; k < lanes; k++)
        v = LLVMBuildInsertElement(g->b, v, gen_load(g, d, 1, gen_ptr(g, ptr, gen_int(g, k * stride))), gen_int(g, k), "");
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

void buf_store(Eval *e, const Buf *b, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    int64_t stride[TILE_MAX_RANK];
    dense_strides(b, stride);
    LLVMValueRef ptr = address(e, b, b->rank, stride, coord, va);
    int lanes = gen_lanes(v);
    if (lanes == 1 || stride[va] == dtype_bytes(b->dtype)) { gen_store(g, b->dtype, v, ptr); return; }
    for (int k = 0; k < lanes; k++)
        gen_store(g, b->dtype, LLVMBuildExtractElement(g->b, v, gen_int(g, k), ""), gen_ptr(g, ptr, gen_int(g, k * stride[va])));
}

/* --- evaluation ---------------------------------------------------------------------------------------------------------- */

static Memo *memo_find(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    int rank = v->type->kind == TYPE_TILE ? v->type->rank : 0;
    for (Memo *m = e->memo; m; m = m->next) {
        bool hit = m->value == v && m->va == va;
        for (int a = 0; a < rank && hit; a++) hit = m->coord[a] == coord[a];
        if (hit) return m;
    }
    return NULL;
}

static LLVMValueRef memo_add(Eval *e, Value *v, LLVMValueRef *coord, int va, LLVMValueRef result)
{
    Memo *m = arena_new(e->g->arena, Memo);
    m->value = v;
    if (v->type->kind == TYPE_TILE) memcpy(m->coord, coord, (size_t)v->type->rank * sizeof *coord);
    m->va = va;
    m->result = result;
    m->next = e->memo;
    e->memo = m;
    return result;
}

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
    if (!b) return nest_eval(e, x, c, -1);      /* a splat */
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

static LLVMValueRef eval_elem(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    LLVMValueRef v[4];
    for (int k = 0; k < i->n_operands && k < 4; k++) v[k] = nest_eval(e, ir_operand(i, k), coord, va);
    DType d = ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype;
    if (i->op == OP_CAST) return convert(g, ir_result(i)->type->dtype, d, v[0]);
    if (i->op == OP_BITCAST) return convert_bits(g, ir_result(i)->type->dtype, d, v[0]);
    if (i->op == OP_PHILOX)
        for (int k = 0; k < 2; k++) v[k] = convert(g, DT_U64, ir_operand(i, k)->type->dtype, v[k]);
    return elem_op(g, i->op, d, v, plan_need(ir_result(i)));
}

static LLVMValueRef eval_instr(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    LLVMValueRef c[TILE_MAX_RANK];
    switch ((int)i->op) {
    case OP_SPLAT: return nest_eval(e, x, coord, -1);
    case OP_ARANGE: return eval_arange(e, i, coord, va);
    case OP_BROADCAST:
        for (int a = 0; a < x->type->rank; a++) c[a] = x->type->shape[a] == 1 ? gen_int(g, 0) : coord[a];
        return nest_eval(e, x, c, va >= 0 && x->type->shape[va] == 1 ? -1 : va);
    case OP_RESHAPE: return eval_reshape(e, i, coord, va);
    case OP_PERMUTE: {
        const Attr *o = ir_attr(i, ATTR_ORDER);
        for (int k = 0; k < o->n; k++) c[o->v[k]] = coord[k];
        return nest_eval(e, x, c, va < 0 ? -1 : (int)o->v[va]);
    }
    case OP_SLICE: {
        int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
        memcpy(c, coord, (size_t)x->type->rank * sizeof *c);
        RowPlace p = { NULL, false };
        if (axis != va) p = row_enter(e);
        c[axis] = LLVMBuildAdd(g->b, coord[axis], gen_int(g, ir_attr_int(i, ATTR_START, 0)), "");
        row_leave(e, p);
        return nest_eval(e, x, c, va);
    }
    case OP_LOAD: return memory_load(e, i, coord, va);
    case OP_GATHER: return memory_gather(e, i, coord, va);
    default: return eval_elem(e, i, coord, va);
    }
}

/* Evaluates the operation that makes `v`, even where v has a buffer (which this fills). */
static LLVMValueRef eval_fresh(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    Memo *m = memo_find(e, v, coord, va);
    if (m) return m->result;
    return memo_add(e, v, coord, va, eval_instr(e, v->def, coord, va));
}

LLVMValueRef nest_eval(Eval *e, Value *v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    if (va < 0 && e->row_eval) {    /* the same for the whole row */
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
    const Buf *b = plan_info(g->plan, v)->buf;
    bool here = e->step && plan_info(g->plan, v)->at == e->step;
    return memo_add(e, v, coord, va, b && !here ? buf_load(e, b, coord, va) : eval_instr(e, v->def, coord, va));
}

/* --- reductions ------------------------------------------------------------------------------------------------------------ */

enum { MAX_WIDTHS = 8 };

/* State of one reduction along the chunk's axis: an accumulator for every width of chunk. */
typedef struct Acc {
    int lanes[MAX_WIDTHS], n;
    LLVMValueRef value[MAX_WIDTHS], place[MAX_WIDTHS];
} Acc;

typedef struct Nest {
    Gen *g;
    Step *step;
    Acc *acc;               /* one a sink */
    Window **windows;
    LLVMValueRef at[TILE_MAX_RANK];
} Nest;

static bool is_arg(Op op) { return op == OP_ARGMAX || op == OP_ARGMIN; }
static int reduce_axis(const Sink *k) { return (int)ir_attr_int(k->instr, ATTR_AXIS, 0); }

/* The dtype sums and comparisons run in. */
static DType acc_dtype(const Sink *k)
{
    DType d = k->value->type->dtype;
    return k->instr->op != OP_REDUCE && dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d;
}

static LLVMValueRef identity(Gen *g, const Sink *k, int lanes)
{
    DType d = acc_dtype(k);
    bool f = dtype_is_float(d);
    switch ((int)k->instr->op) {
    case OP_REDUCE_SUM: return gen_const(g, d, f ? scalar_float(-0.0) : scalar_int(0), lanes);
    case OP_REDUCE_PROD: return gen_const(g, d, f ? scalar_float(1) : scalar_int(1), lanes);
    case OP_REDUCE_MAX: case OP_ARGMAX: return gen_const(g, d, scalar_lowest(d), lanes);
    case OP_REDUCE_MIN: case OP_ARGMIN: return gen_const(g, d, scalar_highest(d), lanes);
    case OP_REDUCE_ANY: return gen_const(g, DT_BOOL, scalar_int(0), lanes);
    case OP_REDUCE_ALL: return gen_const(g, DT_BOOL, scalar_int(1), lanes);
    default: return gen_splat(g, gen_scalar(g, ir_operand(k->instr, 1)), lanes);
    }
}

static LLVMValueRef combine(Gen *g, const Sink *k, LLVMValueRef a, LLVMValueRef b)
{
    if (k->instr->op == OP_REDUCE) return gen_combine(g, k->instr->blocks[0], a, b, gen_lanes(a));
    return elem_reduce(g, k->instr->op, acc_dtype(k), a, b);
}

/* (value, place) pairs: NaN first, then the better value, then the lower place. */
static void combine_arg(Gen *g, const Sink *k, LLVMValueRef *v, LLVMValueRef *p, LLVMValueRef v2, LLVMValueRef p2)
{
    DType d = acc_dtype(k);
    bool f = dtype_is_float(d);
    LLVMValueRef ops[2] = { v2, *v };
    LLVMValueRef better = elem_op(g, k->instr->op == OP_ARGMAX ? OP_GT : OP_LT, d, ops, NEED_ALL);
    LLVMValueRef equal = elem_op(g, OP_EQ, d, ops, NEED_ALL);
    if (f) {
        LLVMValueRef n1 = LLVMBuildFCmp(g->b, LLVMRealUNO, *v, *v, ""), n2 = LLVMBuildFCmp(g->b, LLVMRealUNO, v2, v2, "");
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

static LLVMValueRef no_place(Gen *g, int lanes) { return gen_const(g, DT_I32, scalar_int(INT32_MAX), lanes); }

static int acc_of(Eval *e, Nest *n, Acc *a, const Sink *k)
{
    Gen *g = n->g;
    for (int w = 0; w < a->n; w++) if (a->lanes[w] == e->lanes) return w;
    int w = a->n++;
    a->lanes[w] = e->lanes;
    a->value[w] = gen_alloca(g, gen_type(g, acc_dtype(k), e->lanes), "acc");
    a->place[w] = is_arg(k->instr->op) ? gen_alloca(g, gen_vec(g->i32, e->lanes), "place") : NULL;
    RowPlace p = row_enter(e);
    LLVMBuildStore(g->b, identity(g, k, e->lanes), a->value[w]);
    if (a->place[w]) LLVMBuildStore(g->b, no_place(g, e->lanes), a->place[w]);
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
    if (acc_dtype(k) == DT_F32 && (k->instr->op == OP_REDUCE_MAX || k->instr->op == OP_REDUCE_MIN)) return from_f32_exact(g, d, v);
    return convert(g, ir_result(k->instr)->type->dtype, acc_dtype(k), v);
}

static void put_result(Eval *e, const Sink *k, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(e->g, 0), c);
    if (k->buf) buf_store(e, k->buf, v, c, rva);
    else plan_info(e->g->plan, ir_result(k->instr))->llvm = v;
}

/* One chunk of a reduction. */
static void reduce_chunk(Eval *e, Nest *n, Sink *k, Acc *a, LLVMValueRef *coord, int va)
{
    Gen *g = n->g;
    int axis = reduce_axis(k);
    bool arg = is_arg(k->instr->op);
    LLVMValueRef x = convert(g, acc_dtype(k), k->value->type->dtype, nest_eval(e, k->value, coord, va));
    if (k->value->type->shape[axis] == 1) {
        put_result(e, k, arg ? places(g, gen_int(g, 0), e->lanes, false) : rounded(g, k, x), coord, va);
        return;
    }
    if (axis == va) {
        int w = acc_of(e, n, a, k);
        LLVMValueRef old = LLVMBuildLoad2(g->b, gen_type(g, acc_dtype(k), e->lanes), a->value[w], "");
        if (arg) {
            LLVMValueRef place = LLVMBuildLoad2(g->b, gen_vec(g->i32, e->lanes), a->place[w], "");
            combine_arg(g, k, &old, &place, x, places(g, coord[va], e->lanes, true));
            LLVMBuildStore(g->b, place, a->place[w]);
        } else {
            old = combine(g, k, old, x);
        }
        LLVMBuildStore(g->b, old, a->value[w]);
        return;
    }
    LLVMValueRef c[TILE_MAX_RANK];
    int rva = result_coord(k, coord, va, gen_int(g, 0), c);
    Buf *values = k->aux ? k->aux : k->buf;
    LLVMValueRef old = buf_load(e, values, c, rva);
    if (arg) {
        LLVMValueRef place = buf_load(e, k->buf, c, rva), v = convert(g, acc_dtype(k), values->dtype, old);
        combine_arg(g, k, &v, &place, x, places(g, coord[axis], e->lanes, false));
        bool narrow = values->dtype != acc_dtype(k);
        buf_store(e, values, narrow ? from_f32_exact(g, values->dtype, v) : v, c, rva);
        buf_store(e, k->buf, place, c, rva);
        return;
    }
    LLVMValueRef v = combine(g, k, convert(g, acc_dtype(k), values->dtype, old), x);
    bool exact = acc_dtype(k) == DT_F32 && values->dtype != DT_F32;     /* max and min of narrow floats */
    buf_store(e, values, exact ? from_f32_exact(g, values->dtype, v) : convert(g, values->dtype, acc_dtype(k), v), c, rva);
}

static bool along_chunks(const Step *s, const Sink *k)
{
    if (k->kind != SINK_REDUCE) return false;
    int last = -1;
    for (int a = 0; a < k->value->type->rank; a++) if (k->value->type->shape[a] != 1) last = a;
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

/* The lanes of x, halves first. A function for each operation: a kernel has the same reduction in several places (peeled loops). */
static LLVMValueRef fold(Gen *g, const Sink *k, LLVMValueRef x)
{
    if (gen_lanes(x) <= 4 || k->instr->op == OP_REDUCE) return halves(g, k, x);
    char name[64];
    snprintf(name, sizeof name, "tile.%s.%s.%d", op_info[k->instr->op].name, dtype_name(acc_dtype(k)), gen_lanes(x));
    LLVMTypeRef arg = LLVMTypeOf(x), type = LLVMFunctionType(gen_type(g, acc_dtype(k), 1), &arg, 1, false);
    LLVMValueRef f = helper_find(g, name);
    if (!f) {
        Helper h;
        f = helper_begin(g, &h, name, type);
        LLVMBuildRet(g->b, halves(g, k, LLVMGetParam(f, 0)));
        helper_end(g, &h);
    }
    return LLVMBuildCall2(g->b, type, f, &x, 1, "");
}

/* After the chunks of a row: the lanes of each accumulator, halves first, then the widths in turn. */
static void reduce_finish(Eval *row, Nest *n, Sink *k, Acc *a, LLVMValueRef *coord, int va)
{
    Gen *g = n->g;
    LLVMValueRef v = NULL, place = NULL;
    bool arg = is_arg(k->instr->op);
    for (int w = 0; w < a->n; w++) {
        LLVMValueRef x = LLVMBuildLoad2(g->b, gen_type(g, acc_dtype(k), a->lanes[w]), a->value[w], "");
        LLVMValueRef p = arg ? LLVMBuildLoad2(g->b, gen_vec(g->i32, a->lanes[w]), a->place[w], "") : NULL;
        if (!arg) x = fold(g, k, x);
        while (gen_lanes(x) > 1) {
            LLVMValueRef lo = half_of(g, x, 0), hi = half_of(g, x, 1), plo = half_of(g, p, 0);
            combine_arg(g, k, &lo, &plo, hi, half_of(g, p, 1));
            x = lo;
            p = plo;
        }
        if (!v) { v = x; place = p; }
        else if (arg) combine_arg(g, k, &v, &place, x, p);
        else v = combine(g, k, v, x);
    }
    put_result(row, k, arg ? place : rounded(g, k, v), coord, -1);
    a->n = 0;
}

/* --- nests ------------------------------------------------------------------------------------------------------------------- */

typedef void FlatFn(Gen *g, LLVMValueRef at, int lanes, void *user);

/* fn over [0, n) in chunks. */
static void flat(Gen *g, int64_t n, int lanes, FlatFn *fn, void *user)
{
    int64_t done = 0;
    if (n >= lanes) {
        Loop l;
        done = n / lanes * lanes;
        LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), lanes);
        fn(g, i, lanes, user);
        gen_loop_end(g, &l);
    }
    for (int w = lanes; w; w /= 2)
        for (; n - done >= w; done += w) fn(g, gen_int(g, done), w, user);
}

typedef struct Fill { const Sink *sink; const Buf *to, *from; } Fill;

static LLVMValueRef element(Gen *g, const Buf *b, LLVMValueRef at)
{
    return gen_ptr(g, gen_buf(g, b, 0), LLVMBuildMul(g->b, at, gen_int(g, dtype_bytes(b->dtype)), ""));
}

static void fill_identity(Gen *g, LLVMValueRef at, int lanes, void *user)
{
    Fill *f = user;
    LLVMValueRef v = f->from ? no_place(g, lanes) : identity(g, f->sink, lanes);
    if (!f->from && f->to->dtype != acc_dtype(f->sink)) v = from_f32_exact(g, f->to->dtype, v);
    gen_store(g, f->to->dtype, v, element(g, f->to, at));
}

static void round_results(Gen *g, LLVMValueRef at, int lanes, void *user)
{
    Fill *f = user;
    gen_store(g, f->to->dtype, convert(g, f->to->dtype, f->from->dtype, gen_load(g, f->from->dtype, lanes, element(g, f->from, at))), element(g, f->to, at));
}

static bool across(const Step *s, const Sink *k)
{
    return k->kind == SINK_REDUCE && !along_chunks(s, k) && k->value->type->shape[reduce_axis(k)] > 1;
}

static void before_nest(Nest *n)
{
    Gen *g = n->g;
    int at = 0;
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        if (k->kind == SINK_STORE) n->windows[at] = memory_window(g, k->instr);
        if (k->kind == SINK_PACK) mma_clear_padding(g, k->buf);
        if (!across(n->step, k)) continue;
        Buf *values = k->aux ? k->aux : k->buf;
        int64_t elements = values->bytes / dtype_bytes(values->dtype);
        Fill f = { k, values, NULL };
        flat(g, elements, plan_lanes(g->target), fill_identity, &f);
        if (is_arg(k->instr->op)) {
            Fill p = { k, k->buf, values };
            flat(g, elements, plan_lanes(g->target), fill_identity, &p);
        }
    }
}

static void after_nest(Nest *n)
{
    for (Sink *k = n->step->sinks; k; k = k->next) {
        if (!across(n->step, k) || !k->aux || is_arg(k->instr->op)) continue;
        Fill f = { k, k->buf, k->aux };
        flat(n->g, k->buf->bytes / dtype_bytes(k->buf->dtype), plan_lanes(n->g->target), round_results, &f);
    }
}

static void sink_buffer(Eval *e, Sink *k, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    bool own = k->value->def && plan_info(g->plan, k->value)->buf == k->buf;
    LLVMValueRef v = own ? eval_fresh(e, k->value, coord, va) : nest_eval(e, k->value, coord, va);
    LLVMValueRef c[TILE_MAX_RANK];
    for (int a = 0; a < k->buf->rank; a++) {
        c[a] = coord[a];
        if (!k->base[a]) continue;
        RowPlace p = { NULL, false };
        if (a != va) p = row_enter(e);
        c[a] = LLVMBuildAdd(g->b, coord[a], gen_int(g, k->base[a]), "");
        row_leave(e, p);
    }
    buf_store(e, k->buf, v, c, va);
}

static void fetch_ahead(Nest *n, Eval *e)
{
    for (Window *w = n->g->walked; w; w = w->next_walked) {
        if (!memory_walks(w, n->step)) continue;
        LLVMValueRef coord[TILE_MAX_RANK];
        int va = unsqueeze(n->g, ir_result(w->instr)->type, n->at, n->step->rank, coord);
        memory_fetch_part(e, w, w->walked, coord, va);
    }
}

static void chunk(Nest *n, Eval *e)
{
    Gen *g = n->g;
    int at = 0;
    if (n->step->in == g->plan->body) fetch_ahead(n, e);
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        LLVMValueRef coord[TILE_MAX_RANK];
        int va = unsqueeze(g, k->value->type, n->at, n->step->rank, coord);
        if (k->instr) gen_loc(g, k->instr->loc);
        switch (k->kind) {
        case SINK_BUFFER: sink_buffer(e, k, coord, va); break;
        case SINK_PACK: mma_pack_store(e, k->buf, k->value->type->dtype, nest_eval(e, k->value, coord, va), coord[0], coord[1]); break;
        case SINK_REDUCE: reduce_chunk(e, n, k, &n->acc[at], coord, va); break;
        case SINK_STORE: memory_store(e, n->windows[at], nest_eval(e, k->value, coord, va), coord, va); break;
        case SINK_SCATTER: memory_scatter(e, k->instr, coord, va); break;
        case SINK_ATOMIC: {
            LLVMValueRef old = memory_atomic(e, k->instr, coord, va);
            if (k->buf) buf_store(e, k->buf, old, coord, va);
            break;
        }
        case SINK_ASSERT: {
            const Attr *m = ir_attr(k->instr, ATTR_MESSAGE);
            gen_check(g, LLVMBuildNot(g->b, nest_eval(e, k->value, coord, va), ""), k->instr->loc, m ? m->s : "assertion failed");
            break;
        }
        case SINK_PRINT: break;
        }
    }
}

enum { HEAVY = 20 };

/* Lanes of a chunk. Wider than a register means several registers side by side: independent work, which hides latencies. Short rows
 * with much to do stay at one, as twice the code would only take longer to compile. */
static int nest_lanes(const Gen *g, const Step *s, int64_t extent)
{
    int base = plan_lanes(g->target), lanes = base, work = 0;
    bool along = false, lengthy = extent >= 16 * base;
    for (const Sink *k = s->sinks; k; k = k->next) {
        work += plan_cost(g->plan, k->value);
        along |= along_chunks(s, k);
    }
    for (const Sink *k = s->sinks; k; k = k->next) {
        if (k->kind == SINK_PACK && k->value->type->shape[1] == 1) return 1;
        if (k->kind == SINK_STORE && dtype_bits(k->value->type->dtype) <= 16 && extent >= 2 * base) lanes = 2 * base;
    }
    if (along && extent >= 4 * base) lanes = 2 * base;
    if (work > HEAVY) lanes = base;
    if (lengthy) lanes = along && g->target->avx512 ? 4 * base : 2 * base;
    return s->scalar_lanes ? 1 : lanes;
}

/* All chunks of a row. */
static void chunks(Nest *n, Eval *r, int lanes)
{
    Gen *g = n->g;
    int last = n->step->rank - 1;
    int64_t extent = n->step->shape[last], done = 0;
    if (extent >= 2 * lanes) {
        Loop l;
        Eval e;
        done = extent / lanes * lanes;
        n->at[last] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), lanes);
        eval_init(&e, g, lanes);
        e.row_eval = r;
        e.step = n->step;
        chunk(n, &e);
        gen_loop_end(g, &l);
    }
    for (int w = lanes; w; w /= 2)
        for (; extent - done >= w; done += w) {
            Eval e;
            eval_init(&e, g, w);
            e.row_eval = r;
            e.step = n->step;
            n->at[last] = gen_int(g, done);
            chunk(n, &e);
        }
}

/* Where windows may be cut off or strided, the row is there twice: chunks without a question asked, and chunks that look. */
static void row(Nest *n)
{
    Gen *g = n->g;
    int last = n->step->rank - 1, at = 0;
    int lanes = nest_lanes(g, n->step, n->step->shape[last]);
    Eval r;
    eval_init(&r, g, 1);
    r.row = gen_here(g);
    r.step = n->step;
    r.assume = true;
    LLVMBasicBlockRef first = gen_block(g, "chunks"), second = NULL;
    gen_at(g, first);
    chunks(n, &r, lanes);
    LLVMBasicBlockRef end = gen_here(g);
    if (r.plain) {
        bool along = false;
        for (Sink *k = n->step->sinks; k; k = k->next) along |= along_chunks(n->step, k);
        int base = plan_lanes(g->target);
        if (!along && lanes > base) lanes = base;       /* the same accumulators otherwise */
        r.assume = false;
        second = gen_block(g, "cut");
        gen_at(g, second);
        chunks(n, &r, lanes);
        LLVMBasicBlockRef done = gen_block(g, "row");
        LLVMBuildBr(g->b, done);
        gen_at(g, end);
        LLVMBuildBr(g->b, done);
        end = done;
    }
    gen_at(g, r.row);
    if (second) LLVMBuildCondBr(g->b, r.plain, first, second);
    else LLVMBuildBr(g->b, first);
    gen_at(g, end);
    Eval fin;
    eval_init(&fin, g, 1);
    n->at[last] = gen_int(g, 0);
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        LLVMValueRef coord[TILE_MAX_RANK];
        if (!along_chunks(n->step, k)) continue;
        int va = unsqueeze(g, k->value->type, n->at, n->step->rank, coord);
        reduce_finish(&fin, n, k, &n->acc[at], coord, va);
    }
}

static void loops(Nest *n, int axis)
{
    Gen *g = n->g;
    if (axis >= n->step->rank - 1) { row(n); return; }
    Loop l;
    n->at[axis] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n->step->shape[axis]), 1);
    loops(n, axis + 1);
    gen_loop_end(g, &l);
}

/* A buffer of zeros and nothing else. */
static bool only_zeros(Gen *g, const Step *s)
{
    const Sink *k = s->sinks;
    if (!k || k->next || k->kind != SINK_BUFFER || !k->value->def || k->value->def->op != OP_SPLAT) return false;
    for (int a = 0; a < k->buf->rank; a++) if (k->base[a] || k->buf->shape[a] != k->value->type->shape[a]) return false;
    LLVMValueRef x = gen_scalar(g, ir_operand(k->value->def, 0));
    return LLVMIsNull(x) && k->buf->bytes >= 256;
}

void nest_emit(Gen *g, Step *s)
{
    if (only_zeros(g, s)) {
        LLVMBuildMemSet(g->b, gen_buf(g, s->sinks->buf, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, s->sinks->buf->bytes), 64);
        return;
    }
    int n_sinks = 0;
    for (Sink *k = s->sinks; k; k = k->next) n_sinks++;
    Nest n = { .g = g, .step = s };
    n.acc = arena_array(g->arena, Acc, (size_t)n_sinks);
    n.windows = arena_array(g->arena, Window *, (size_t)n_sinks);
    before_nest(&n);
    if (s->rank == 0) {
        Eval e;
        eval_init(&e, g, 1);
        e.step = s;
        chunk(&n, &e);
    } else {
        loops(&n, 0);
    }
    for (Window *w = s->in == g->plan->body ? g->walked : NULL; w; w = w->next_walked) w->walked += memory_walks(w, s);
    after_nest(&n);
}
