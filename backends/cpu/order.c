/* order.c: scans along an axis, sort and topk of rows.
 *
 * A scan runs along its axis one position after another, over vectors of the last axis where that is another
 * one. Rows are sorted by Batcher's odd-even merge network on keys: the value as an integer of the same order
 * (NaN the largest) with its position below, so that equal values keep their order and values are fetched by
 * position afterwards. */
#include "backends/cpu/cpu.h"

static LLVMValueRef iadd(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->b, a, b, ""); }

typedef struct Scan {
    Gen *g;
    Instr *i;
    const Buf *from, *to;
    int axis, va;
    DType acc;
    LLVMValueRef coord[TILE_MAX_RANK];
} Scan;

static LLVMValueRef combine(Scan *s, LLVMValueRef a, LLVMValueRef b)
{ return elem_reduce(s->g, s->i->op, s->acc, a, b); }

/* One line along the axis, `lanes` neighbours of the vector axis at a time. */
static void line(Scan *s, int lanes)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    int64_t n = s->from->shape[s->axis];
    LLVMValueRef cell = gen_alloca(g, gen_type(g, s->acc, lanes), "scan");
    Eval e;
    eval_init(&e, g, lanes);
    bool reverse = ir_attr_int(s->i, ATTR_REVERSE, 0);
    Loop l;
    for (int part = 0; part < 2; part++) { /* the first element is itself */
        LLVMValueRef k = gen_int(g, 0);
        if (part && n == 1) break;
        if (part) k = gen_loop(g, &l, gen_int(g, 1), gen_int(g, n), 1);
        s->coord[s->axis] = reverse ? LLVMBuildSub(g->b, gen_int(g, n - 1), k, "") : k;
        LLVMValueRef x = convert(g, s->acc, d, buf_load(&e, s->from, s->coord, lanes > 1 ? s->va : s->axis));
        if (part) x = combine(s, LLVMBuildLoad2(g->b, gen_type(g, s->acc, lanes), cell, ""), x);
        LLVMBuildStore(g->b, x, cell);
        bool max = s->i->op == OP_SCAN_MAX && s->acc != d;
        buf_store(&e, s->to, max ? from_f32_exact(g, d, x) : convert(g, d, s->acc, x), s->coord,
            lanes > 1 ? s->va : s->axis);
        if (part) gen_loop_end(g, &l);
    }
}

static void line_at(void *user, LLVMValueRef at, int lanes)
{
    Scan *s = user;
    s->coord[s->va] = at;
    line(s, lanes);
}

static void scan_axes(Scan *s, int axis)
{
    Gen *g = s->g;
    if (axis == s->from->rank) {
        if (s->va == s->axis) {
            line(s, 1);
            return;
        }
        gen_lines(g, s->from->shape[s->va], line_at, s);
        return;
    }
    if (axis == s->axis || axis == s->va) {
        scan_axes(s, axis + 1);
        return;
    }
    Loop l;
    s->coord[axis] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->from->shape[axis]), 1);
    scan_axes(s, axis + 1);
    gen_loop_end(g, &l);
}

void scan_emit(Gen *g, Step *st)
{
    Instr *i = st->instr;
    Scan s = { .g = g,
        .i = i,
        .from = plan_info(g->plan, ir_operand(i, 0))->buf,
        .to = plan_info(g->plan, ir_result(i))->buf };
    s.axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    s.va = s.axis;
    for (int a = 0; a < s.from->rank; a++)
        if (s.from->shape[a] > 1) s.va = a;
    DType d = s.from->dtype;
    s.acc = dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d;
    for (int a = 0; a < TILE_MAX_RANK; a++) s.coord[a] = gen_int(g, 0);
    scan_axes(&s, 0);
}

/* --- sort -------------------------------------------------------------------------------------------- */

typedef struct Sort {
    Gen *g;
    Instr *i;
    const Buf *from, *keys;
    int64_t n;
    bool descending;
    LLVMTypeRef half, key; /* the types of the ordered value, and of the pair of value and position */
    LLVMValueRef coord[TILE_MAX_RANK];
} Sort;

static LLVMValueRef ordered(Sort *s, LLVMValueRef v)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    unsigned bits = LLVMGetIntTypeWidth(s->half);
    LLVMValueRef top = LLVMConstInt(s->half, 1ull << (bits - 1), false), u;
    if (dtype_is_float(d)) {
        if (d != DT_F64) v = to_f32(g, d, v);
        LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
        v = LLVMBuildFAdd(g->b, v, LLVMConstNull(LLVMTypeOf(v)), ""); /* -0 counts as 0 */
        u = LLVMBuildBitCast(g->b, v, s->half, "");
        LLVMValueRef flip =
            LLVMBuildOr(g->b, LLVMBuildAShr(g->b, u, LLVMConstInt(s->half, bits - 1, false), ""), top, "");
        u = LLVMBuildSelect(g->b, nan, LLVMConstAllOnes(s->half), LLVMBuildXor(g->b, u, flip, ""), "");
    } else {
        bool sgn = dtype_is_signed(d);
        u = dtype_bits(d) == (int)bits ? v
            : sgn                      ? LLVMBuildSExt(g->b, v, s->half, "")
                                       : LLVMBuildZExt(g->b, v, s->half, "");
        if (sgn) u = LLVMBuildXor(g->b, u, top, "");
    }
    return s->descending ? LLVMBuildNot(g->b, u, "") : u;
}

static LLVMValueRef key_ptr(Sort *s, LLVMValueRef k)
{ return LLVMBuildGEP2(s->g->b, s->key, gen_buf(s->g, s->keys, 0), &k, 1, ""); }

static void compare_exchange(Sort *s, LLVMValueRef x, LLVMValueRef y)
{
    Gen *g = s->g;
    LLVMValueRef px = key_ptr(s, x), py = key_ptr(s, y);
    LLVMValueRef a = LLVMBuildLoad2(g->b, s->key, px, ""), b = LLVMBuildLoad2(g->b, s->key, py, "");
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntULT, b, a, "");
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, less, b, a, ""), px);
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, less, a, b, ""), py);
}

/* Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M, for any n. */
static void network(Sort *s)
{
    Gen *g = s->g;
    int levels = 0;
    while (1ll << levels < s->n) levels++;
    if (!levels) return;
    Loop lp, lk, lj, li;
    If same;
    LLVMValueRef one = gen_int(g, 1), n = gen_int(g, s->n);
    LLVMValueRef p_log = gen_loop(g, &lp, gen_int(g, 0), gen_int(g, levels), 1);
    LLVMValueRef p = LLVMBuildShl(g->b, one, p_log, "");
    LLVMValueRef q = gen_loop(g, &lk, gen_int(g, 0), iadd(g, p_log, one), 1);
    LLVMValueRef k = LLVMBuildLShr(g->b, p, q, ""), j0 = LLVMBuildURem(g->b, k, p, ""),
                 two_k = LLVMBuildShl(g->b, k, one, "");
    LLVMValueRef left = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, k, ""), j0, "");
    LLVMValueRef count = LLVMBuildSDiv(g->b, iadd(g, left, LLVMBuildSub(g->b, two_k, one, "")), two_k, "");
    LLVMValueRef t = gen_loop(g, &lj, gen_int(g, 0), count, 1);
    LLVMValueRef j = iadd(g, j0, LLVMBuildMul(g->b, t, two_k, ""));
    LLVMValueRef room = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, j, ""), k, "");
    LLVMValueRef m = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, room, k, ""), room, k, "");
    LLVMValueRef i = gen_loop(g, &li, gen_int(g, 0), m, 1);
    LLVMValueRef x = iadd(g, i, j), y = iadd(g, x, k), by = iadd(g, p_log, one);
    gen_if(g, &same,
        LLVMBuildICmp(g->b, LLVMIntEQ, LLVMBuildLShr(g->b, x, by, ""), LLVMBuildLShr(g->b, y, by, ""), ""));
    compare_exchange(s, x, y);
    gen_endif(g, &same);
    gen_loop_end(g, &li);
    gen_loop_end(g, &lj);
    gen_loop_end(g, &lk);
    gen_loop_end(g, &lp);
}

static void sort_row(Sort *s)
{
    Gen *g = s->g;
    int last = s->from->rank - 1;
    unsigned bits = LLVMGetIntTypeWidth(s->half);
    Eval e;
    eval_init(&e, g, 1);
    Loop l;
    LLVMValueRef k = s->coord[last] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMValueRef v = LLVMBuildZExt(g->b, ordered(s, buf_load(&e, s->from, s->coord, last)), s->key, "");
    v = LLVMBuildShl(g->b, v, LLVMConstInt(s->key, bits, false), "");
    LLVMValueRef place = LLVMBuildIntCast2(g->b, k, s->key, false, "");
    LLVMBuildStore(g->b, LLVMBuildOr(g->b, v, place, ""), key_ptr(s, k));
    gen_loop_end(g, &l);
    network(s);
    const Buf *values = plan_info(g->plan, ir_result(s->i))->buf;
    k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, values->shape[last]), 1);
    LLVMValueRef key = LLVMBuildLoad2(g->b, s->key, key_ptr(s, k), "");
    LLVMValueRef at = LLVMBuildZExt(g->b, LLVMBuildTrunc(g->b, key, g->i32, ""), g->i64, "");
    s->coord[last] = at;
    LLVMValueRef x = buf_load(&e, s->from, s->coord, last);
    s->coord[last] = k;
    buf_store(&e, values, x, s->coord, last);
    if (s->i->op == OP_TOPK)
        buf_store(&e, plan_info(g->plan, &s->i->results[1])->buf, LLVMBuildTrunc(g->b, at, g->i32, ""),
            s->coord, last);
    gen_loop_end(g, &l);
}

static void sort_axes(Sort *s, int axis)
{
    if (axis == s->from->rank - 1) {
        sort_row(s);
        return;
    }
    Loop l;
    s->coord[axis] = gen_loop(s->g, &l, gen_int(s->g, 0), gen_int(s->g, s->from->shape[axis]), 1);
    sort_axes(s, axis + 1);
    gen_loop_end(s->g, &l);
}

void sort_emit(Gen *g, Step *st)
{
    Instr *i = st->instr;
    Sort s = { .g = g, .i = i, .from = plan_info(g->plan, ir_operand(i, 0))->buf, .keys = st->aux };
    s.n = s.from->shape[s.from->rank - 1];
    s.descending = i->op == OP_TOPK || ir_attr_int(i, ATTR_REVERSE, 0);
    bool wide = dtype_bits(s.from->dtype) == 64;
    s.half = wide ? g->i64 : g->i32;
    s.key = wide ? LLVMIntTypeInContext(g->ctx, 128) : g->i64;
    sort_axes(&s, 0);
}
