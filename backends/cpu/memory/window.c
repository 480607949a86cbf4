/* window.c: windows of tensors. A window's address, strides and the box of its positions that lie in range
 * are computed once, where the load stands; rows and chunks then only compare. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/debug.h"
#include "backends/cpu/product/mma.h"

enum {
    STREAM_BYTES = 16 << 20, /* larger tensors are written without going through the caches */
    LINE_CYCLES = 16,        /* in which memory delivers a line to one core */
    ROWS_AHEAD = 8,          /* of an operand, where its packing fetches: as many as one is transposed by */
};

/* Whether packing fetches the operands of the product, and not the product. By AMX it takes a few cycles for
 * each line of its operands, far less than memory does, and its tile loads would wait for the lines. */
static bool fetched_by_packing(const CpuTarget *t, const Instr *product)
{ return t->cost[COST_FETCH_BESIDE] > LINE_CYCLES || mma_is_amx(mma_kind(t, product)); }

static const int64_t *ints(const Instr *i, AttrKey k)
{
    const Attr *a = ir_attr(i, k);
    return a ? a->v : NULL;
}

int memory_unit_axis(const Func *f, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return -1;
    const Param *p = &f->params[m.param];
    const int64_t *e = ints(i, ATTR_EXTENTS), *s = ints(i, ATTR_STEPS), *o = ints(i, ATTR_ORDER);
    int axes[TILE_MAX_RANK], n = 0, last = -1;
    for (int a = 0; a < m.rank; a++)
        if (e[a] != -1) axes[n++] = a;
    for (int t = n - 1; t >= 0; t--) {
        int a = axes[o ? o[t] : t];
        if (p->stride[a] == 1 && (!s || s[a] == 1)) return t;
        if (a == m.rank - 1 && p->stride[a] == FACT_UNKNOWN) last = t;
    }
    return last;
}

LLVMValueRef memory_stride(Gen *g, int param, int axis, int bytes)
{
    int64_t s = g->func->params[param].stride[axis];
    LLVMValueRef v = s != FACT_UNKNOWN ? gen_int(g, s) : gen_slot(g, SLOT_STRIDE, param, axis, DT_INDEX);
    return LLVMBuildMul(g->b, v, gen_int(g, bytes), "");
}

LLVMValueRef memory_extent(Gen *g, int param, int axis)
{
    int d = g->func->params[param].dims[axis];
    int64_t e = g->func->dims[d].extent;
    return e >= 0 ? gen_int(g, e) : gen_slot(g, SLOT_EXTENT, 0, d, DT_INDEX);
}

static bool never_negative(const Value *v, int depth)
{
    int64_t c;
    if (ir_is_const(v, &c)) return c >= 0;
    if (!v->def) {
        const Instr *parent = v->block->parent;
        return parent && parent->op == OP_FOR && v->index == 0 &&
               never_negative(ir_operand(parent, 0), depth + 1);
    }
    const Attr *r = ir_attr(v->def, ATTR_RANGE);
    if (r && r->n == 2 && r->v[0] >= 0) return true;
    if (depth > 8) return false;
    Op op = v->def->op;
    if (op_family(op) == OPS_LAUNCH) return op != OP_STRIDE;
    bool wraps = op == OP_ADD || op == OP_MUL, quotient = op == OP_DIV || op == OP_REM || op == OP_CDIV;
    if (wraps && dtype_bits(v->type->dtype) < 64 && !r) return false;
    if (wraps || quotient || op == OP_MIN || op == OP_AND)
        return never_negative(ir_operand(v->def, 0), depth + 1) &&
               never_negative(ir_operand(v->def, 1), depth + 1);
    if (op == OP_MAX)
        return never_negative(ir_operand(v->def, 0), depth + 1) ||
               never_negative(ir_operand(v->def, 1), depth + 1);
    return op == OP_CAST && dtype_is_int(ir_operand(v->def, 0)->type->dtype) &&
           dtype_bits(ir_operand(v->def, 0)->type->dtype) <= dtype_bits(v->type->dtype) &&
           never_negative(ir_operand(v->def, 0), depth + 1);
}

/* Positions i of [0, count) with 0 <= off + i * step < extent. */
static void box_of(Gen *g, LLVMValueRef off, bool nonneg, LLVMValueRef extent, int64_t step, int64_t count,
    LLVMValueRef *lo, LLVMValueRef *hi)
{
    LLVMValueRef zero = gen_int(g, 0), up = gen_int(g, step - 1), by = gen_int(g, step),
                 n = gen_int(g, count);
    LLVMValueRef left = LLVMBuildSub(g->b, extent, off, "");
    LLVMValueRef h = step == 1 ? left : LLVMBuildSDiv(g->b, LLVMBuildAdd(g->b, left, up, ""), by, "");
    *hi = larger(g, smaller(g, h, n), zero);
    *hi = LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, left, zero), *hi, zero, "");
    LLVMValueRef need = LLVMBuildNeg(g->b, off, "");
    LLVMValueRef l = step == 1 ? need : LLVMBuildSDiv(g->b, LLVMBuildAdd(g->b, need, up, ""), by, "");
    *lo = nonneg ? zero : LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, need, zero), l, zero, "");
    bool all = LLVMIsAConstantInt(*lo) && LLVMIsAConstantInt(*hi) && LLVMConstIntGetSExtValue(*lo) == 0 &&
               LLVMConstIntGetSExtValue(*hi) == count;
    if (all) *lo = *hi = NULL;
}

/* Whether the tensor is so large that its stores should not displace the caches. It is known once for the
 * launch. */
static LLVMValueRef large_tensor(Gen *g, int param)
{
    const Param *p = &g->func->params[param];
    LLVMBasicBlockRef here = gen_here(g);
    LLVMMetadataRef line = debug_setup(g);
    gen_at(g, g->setup);
    LLVMValueRef n = gen_int(g, dtype_bytes(p->type->dtype));
    for (int a = 0; a < p->type->rank; a++) n = LLVMBuildMul(g->b, n, memory_extent(g, param, a), "");
    LLVMValueRef r = icmp(g, LLVMIntSGT, n, gen_int(g, STREAM_BYTES));
    gen_at(g, here);
    debug_resume(g, line);
    return r;
}

/* Axis t of the tile: its strides, whether its elements lie side by side, and its positions in range. */
static void window_axis(
    Gen *g, Window *w, const Param *p, int t, int a, int64_t extent, int64_t step, bool masked)
{
    const int bytes = dtype_bytes(w->dtype);
    LLVMValueRef stride = LLVMBuildMul(g->b, memory_stride(g, w->m.param, a, bytes), gen_int(g, step), "");
    w->axis[t] = a;
    w->shape[t] = extent;
    w->stride[t] = stride;
    w->is_unit[t] = p->stride[a] == 1 && step == 1;
    w->not_unit[t] = step != 1 || (p->stride[a] != 1 && p->stride[a] != FACT_UNKNOWN);
    if (!w->is_unit[t] && !w->not_unit[t]) w->unit[t] = icmp(g, LLVMIntEQ, stride, gen_int(g, bytes));
    if (masked)
        box_of(g, gen_scalar_i64(g, w->m.idx[a]), never_negative(w->m.idx[a], 0),
            memory_extent(g, w->m.param, a), step, extent, &w->lo[t], &w->hi[t]);
}

/* Whether a store goes past the caches: as it asks for, or where its tensor is large. */
static void choose_stream(Gen *g, Window *w, const Param *p)
{
    int64_t cache = ir_attr_int(w->instr, ATTR_CACHE, CACHE_DEFAULT);
    if (!w->rank) return;
    if (cache == CACHE_STREAM || cache == CACHE_BYPASS) w->stream = LLVMConstInt(g->i1, 1, false);
    else if (p->kind == PARAM_OUT && cache == CACHE_DEFAULT) w->stream = large_tensor(g, w->m.param);
}

/* How a load fetches the window of the next step or program, while it works on this one. */
static void choose_fetching(Gen *g, Window *w)
{
    Instr *i = w->instr;
    w->locality = memory_next(g, i, w);
    const Instr *product = memory_product(i);
    bool thin = product && plan_info(g->plan, ir_result(product))->thin;
    bool operand = w->locality >= 0 && w->rank == 2 && i->block != g->func->body && product && !thin;
    if (operand && fetched_by_packing(g->target, product)) w->rows_ahead = ROWS_AHEAD;
    else if (w->locality >= 0) w->ahead = memory_distance(g, w->base);
    w->in_product = operand && w->ahead;
    if (thin && w->locality == 3) w->locality = 2; /* the whole window, as long as it may be */
    if (w->locality == 2 && !w->not_unit[w->rank - 1]) memory_note_walks(g, i, w);
}

Window *memory_window(Gen *g, Instr *i)
{
    Window *w = arena_new(g->arena, Window);
    ir_mem_parts(i, &w->m);
    const Param *p = &g->func->params[w->m.param];
    const int64_t *e = ints(i, ATTR_EXTENTS), *s = ints(i, ATTR_STEPS), *o = ints(i, ATTR_ORDER);
    bool masked = ir_attr_int(i, ATTR_MASKED, 1);
    w->instr = i;
    w->dtype = p->type->dtype;
    int bytes = dtype_bytes(w->dtype), axes[TILE_MAX_RANK], n = 0;
    LLVMValueRef off = gen_int(g, 0);
    for (int a = 0; a < w->m.rank; a++) {
        LLVMValueRef x = gen_scalar_i64(g, w->m.idx[a]);
        off = LLVMBuildAdd(g->b, off, LLVMBuildMul(g->b, x, memory_stride(g, w->m.param, a, bytes), ""), "");
        if (e[a] != -1) {
            axes[n++] = a;
            continue;
        }
        if (!masked) continue;
        LLVMValueRef out = icmp(g, LLVMIntUGE, x, memory_extent(g, w->m.param, a));
        w->outside = w->outside ? LLVMBuildOr(g->b, w->outside, out, "") : out;
    }
    w->base = gen_ptr(g, gen_slot(g, SLOT_DATA, w->m.param, 0, DT_U64), off);
    w->rank = n;
    for (int t = 0; t < n; t++) {
        int a = axes[o ? o[t] : t];
        window_axis(g, w, p, t, a, e[a], s ? s[a] : 1, masked);
    }
    w->pad = w->m.pad ? gen_scalar(g, w->m.pad) : LLVMConstNull(gen_type(g, w->dtype, 1));
    if (i->op == OP_STORE) choose_stream(g, w, p);
    if (i->op == OP_LOAD) {
        choose_fetching(g, w);
        g->windows[ir_result(i)->id] = w;
    }
    track_window(g, w);
    return w;
}

LLVMValueRef window_is_whole(Gen *g, const Window *w)
{
    LLVMValueRef ok = w->outside ? LLVMBuildNot(g->b, w->outside, "") : NULL;
    for (int t = 0; t < w->rank; t++) {
        if (!w->hi[t]) continue;
        ok = both(g, ok, icmp(g, LLVMIntSGE, w->hi[t], gen_int(g, w->shape[t])));
        ok = both(g, ok, icmp(g, LLVMIntSLE, w->lo[t], gen_int(g, 0)));
    }
    return ok;
}

WindowRow *memory_row(Eval *e, Window *w, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Eval *home = e->row_eval ? e->row_eval : e;
    for (WindowRow *r = home->rows; r; r = r->next) {
        bool hit = r->w == w && r->va == va;
        for (int t = 0; t < w->rank && hit; t++) hit = t == va || r->coord[t] == coord[t];
        if (hit) return r;
    }
    WindowRow *r = arena_new(g->arena, WindowRow);
    RowPlace p = row_enter(e);
    LLVMValueRef off = gen_int(g, 0), ok = w->outside ? LLVMBuildNot(g->b, w->outside, "") : NULL;
    for (int t = 0; t < w->rank; t++) {
        r->coord[t] = coord[t];
        if (t == va) continue;
        off = LLVMBuildAdd(g->b, off, LLVMBuildMul(g->b, coord[t], w->stride[t], ""), "");
        if (!w->hi[t]) continue;
        ok = both(g, ok, icmp(g, LLVMIntSLT, coord[t], w->hi[t]));
        if (!LLVMIsAConstantInt(w->lo[t]) || LLVMConstIntGetSExtValue(w->lo[t]) != 0)
            ok = both(g, ok, icmp(g, LLVMIntSGE, coord[t], w->lo[t]));
    }
    r->w = w;
    r->va = va;
    r->ptr = gen_ptr(g, w->base, off);
    if (va < 0) {
        r->hi = ok;
    } else if (ok || w->hi[va]) {
        LLVMValueRef hi = w->hi[va] ? w->hi[va] : gen_int(g, w->shape[va]);
        r->lo = w->lo[va] ? w->lo[va] : gen_int(g, 0);
        r->ok = ok;
        r->end = hi;
        r->hi = ok ? LLVMBuildSelect(g->b, ok, hi, gen_int(g, INT64_MIN / 2), "") : hi;
    }
    if (w->aside && va >= 0) line_ends_aside(g, r);
    row_leave(e, p);
    r->next = home->rows;
    home->rows = r;
    return r;
}
