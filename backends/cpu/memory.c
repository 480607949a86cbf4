/* memory.c: windows of tensors, gathers, scatters, atomics.
 *
 * A window's address, strides and the box of its positions that lie in range are computed once, where the load stands; rows
 * and chunks then only compare. A chunk that lies in range with its elements side by side is one vector access; any other
 * goes through a small function that walks it element by element (ragged edges and unusual strides). */
#include "backends/cpu/cpu.h"
#include <stdio.h>

enum { STREAM_BYTES = 16 << 20, PAGE = 4096, LINE = 64 };      /* tensors beyond the caches are written past them */

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
    int axes[TILE_MAX_RANK], n = 0, guess = -1;
    for (int a = 0; a < m.rank; a++) if (e[a] != -1) axes[n++] = a;
    for (int t = n - 1; t >= 0; t--) {
        int a = axes[o ? o[t] : t];
        if (p->stride[a] == 1 && (!s || s[a] == 1)) return t;
        if (a == m.rank - 1 && p->stride[a] == FACT_UNKNOWN) guess = t;
    }
    return guess;
}

static LLVMValueRef stride_bytes(Gen *g, int param, int axis, int bytes)
{
    int64_t s = g->func->params[param].stride[axis];
    LLVMValueRef v = s != FACT_UNKNOWN ? gen_int(g, s) : gen_slot(g, SLOT_STRIDE, param, axis, DT_INDEX);
    return LLVMBuildMul(g->b, v, gen_int(g, bytes), "");
}

static LLVMValueRef extent_of(Gen *g, int param, int axis)
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
        return parent && parent->op == OP_FOR && v->index == 0 && never_negative(ir_operand(parent, 0), depth + 1);
    }
    const Attr *r = ir_attr(v->def, ATTR_RANGE);
    if (r && r->n == 2 && r->v[0] >= 0) return true;
    if (depth > 8) return false;
    switch ((int)v->def->op) {
    case OP_PROGRAM_ID: case OP_NUM_PROGRAMS: case OP_DIM: return true;
    case OP_ADD: case OP_MUL: case OP_DIV: case OP_REM: case OP_CDIV: case OP_MIN: case OP_AND:
        if (dtype_bits(v->type->dtype) < 64 && !r && (v->def->op == OP_ADD || v->def->op == OP_MUL)) return false;    /* may wrap */
        return never_negative(ir_operand(v->def, 0), depth + 1) && never_negative(ir_operand(v->def, 1), depth + 1);
    case OP_MAX: return never_negative(ir_operand(v->def, 0), depth + 1) || never_negative(ir_operand(v->def, 1), depth + 1);
    case OP_CAST: return dtype_is_int(ir_operand(v->def, 0)->type->dtype) && dtype_bits(ir_operand(v->def, 0)->type->dtype) <= dtype_bits(v->type->dtype) &&
                         never_negative(ir_operand(v->def, 0), depth + 1);
    default: return false;
    }
}

static LLVMValueRef icmp(Gen *g, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(g->b, p, a, b, ""); }
static LLVMValueRef both(Gen *g, LLVMValueRef a, LLVMValueRef b) { return !a ? b : !b ? a : LLVMBuildAnd(g->b, a, b, ""); }
static LLVMValueRef smaller(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(g->b, icmp(g, LLVMIntSLT, a, b), a, b, ""); }
static LLVMValueRef larger(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, a, b), a, b, ""); }

/* Positions i of [0, count) with 0 <= off + i * step < extent. */
static void box_of(Gen *g, LLVMValueRef off, bool nonneg, LLVMValueRef extent, int64_t step, int64_t count, LLVMValueRef *lo, LLVMValueRef *hi)
{
    LLVMValueRef zero = gen_int(g, 0), up = gen_int(g, step - 1), by = gen_int(g, step), n = gen_int(g, count);
    LLVMValueRef left = LLVMBuildSub(g->b, extent, off, "");
    LLVMValueRef h = step == 1 ? left : LLVMBuildSDiv(g->b, LLVMBuildAdd(g->b, left, up, ""), by, "");
    *hi = larger(g, smaller(g, h, n), zero);
    *hi = LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, left, zero), *hi, zero, "");
    LLVMValueRef need = LLVMBuildNeg(g->b, off, "");
    LLVMValueRef l = step == 1 ? need : LLVMBuildSDiv(g->b, LLVMBuildAdd(g->b, need, up, ""), by, "");
    *lo = nonneg ? zero : LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, need, zero), l, zero, "");
    bool all = LLVMIsAConstantInt(*lo) && LLVMIsAConstantInt(*hi) && LLVMConstIntGetSExtValue(*lo) == 0 && LLVMConstIntGetSExtValue(*hi) == count;
    if (all) *lo = *hi = NULL;
}

/* Is the tensor so large that what is written should not displace the caches? Known once for the launch. */
static LLVMValueRef large_tensor(Gen *g, int param)
{
    const Param *p = &g->func->params[param];
    LLVMBasicBlockRef here = gen_here(g);
    gen_at(g, g->setup);
    LLVMValueRef n = gen_int(g, dtype_bytes(p->type->dtype));
    for (int a = 0; a < p->type->rank; a++) n = LLVMBuildMul(g->b, n, extent_of(g, param, a), "");
    LLVMValueRef r = icmp(g, LLVMIntSGT, n, gen_int(g, STREAM_BYTES));
    gen_at(g, here);
    return r;
}

/* How far the window has moved since it was last computed: the next one is as far away again (`latency`). */
static LLVMValueRef distance_ahead(Gen *g, LLVMValueRef base)
{
    LLVMValueRef last = gen_alloca(g, g->i64, "last");
    LLVMBasicBlockRef here = gen_here(g);
    gen_at(g, g->entry);
    LLVMBuildStore(g->b, gen_int(g, 0), last);
    gen_at(g, here);
    LLVMValueRef at = LLVMBuildPtrToInt(g->b, base, g->i64, ""), old = LLVMBuildLoad2(g->b, g->i64, last, "");
    LLVMBuildStore(g->b, at, last);
    return LLVMBuildSelect(g->b, icmp(g, LLVMIntEQ, old, gen_int(g, 0)), gen_int(g, 0), LLVMBuildSub(g->b, at, old, ""), "");
}

static void prefetch(Gen *g, LLVMValueRef ptr, int locality)
{
    LLVMValueRef v[] = { ptr, LLVMConstInt(g->i32, 0, false), LLVMConstInt(g->i32, (unsigned)locality, false), LLVMConstInt(g->i32, 1, false) };
    gen_intrinsic(g, "llvm.prefetch", (LLVMTypeRef[]){ g->ptr }, 1, v, 4);
}

/* Does the scalar change from program to program? */
static bool varies(const Value *v, int depth)
{
    if (!v->def) return v->block->parent != NULL;
    if (v->def->op == OP_PROGRAM_ID || depth > 12) return true;
    for (int k = 0; k < v->def->n_operands; k++) if (varies(ir_operand(v->def, k), depth + 1)) return true;
    return false;
}

/* Is the next window worth fetching while this one is worked on, and how near: 3 into the first cache, 2 into the second, -1 not. In a loop if
 * `latency` asks for it. From one program to the next where the processor cannot see where the rows of a tile lead, and for long rows, whose
 * later walks leave memory idle; into the second cache, as lines a power of two apart would displace each other in the first. */
static int next_window(Gen *g, const Instr *i, const Window *w)
{
    if (w->rank == 0) return -1;
    int unit = memory_unit_axis(g->func, i), last = w->rank - 1;
    bool turned = unit >= 0 && unit != last, asked = ir_attr_int(i, ATTR_LATENCY, 0) > 1, moves = false;
    if (i->block != g->func->body) return turned || asked ? 3 : -1;
    for (int a = 0; a < w->m.rank; a++) moves |= varies(w->m.idx[a], 0);
    bool long_rows = w->shape[last] * dtype_bytes(w->dtype) >= PAGE, rows = last > 0 && w->shape[last - 1] > 1;
    return moves && (turned || asked || rows || long_rows) ? 2 : -1;
}

bool memory_walks(const Window *w, const Step *s)
{
    int64_t shape[TILE_MAX_RANK];
    return s->kind == STEP_NEST && s->rank == squeeze(ir_result(w->instr)->type, shape) && !memcmp(shape, s->shape, (size_t)s->rank * sizeof *shape);
}

/* About how long a nest takes for a vector: its operations, and for what it writes the time that memory takes. */
int memory_work(Gen *g, const Step *s)
{
    int work = 1;
    for (const Sink *k = s->sinks; k; k = k->next) {
        work += plan_cost(g->plan, k->value) + (k->kind == SINK_STORE ? 6 : 0);
        if (k->kind == SINK_BUFFER && k->value->def) work += plan_op_cost(k->value->def);
    }
    return work;
}

static void walks_of(Gen *g, const Instr *i, Window *w)
{
    const Step *s = g->plan->body->first;
    while (s && s->instr != i) s = s->next;
    for (; s; s = s->next) {
        if (!memory_walks(w, s)) continue;
        w->walks++;
        int work = memory_work(g, s);
        w->work += work;
        if (work > w->most) w->most = work;
    }
    if (w->walks < 2) { w->walks = 0; return; }
    w->next_walked = g->walked;
    g->walked = w;
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
        off = LLVMBuildAdd(g->b, off, LLVMBuildMul(g->b, x, stride_bytes(g, w->m.param, a, bytes), ""), "");
        if (e[a] != -1) { axes[n++] = a; continue; }
        if (!masked) continue;
        LLVMValueRef out = icmp(g, LLVMIntUGE, x, extent_of(g, w->m.param, a));
        w->outside = w->outside ? LLVMBuildOr(g->b, w->outside, out, "") : out;
    }
    w->base = gen_ptr(g, gen_slot(g, SLOT_DATA, w->m.param, 0, DT_U64), off);
    w->rank = n;
    for (int t = 0; t < n; t++) {
        int a = w->axis[t] = axes[o ? o[t] : t];
        int64_t step = s ? s[a] : 1;
        w->shape[t] = e[a];
        LLVMValueRef elem_stride = LLVMBuildMul(g->b, stride_bytes(g, w->m.param, a, bytes), gen_int(g, step), "");
        w->stride[t] = elem_stride;
        w->is_unit[t] = p->stride[a] == 1 && step == 1;
        w->not_unit[t] = step != 1 || (p->stride[a] != 1 && p->stride[a] != FACT_UNKNOWN);
        if (!w->is_unit[t] && !w->not_unit[t]) w->unit[t] = icmp(g, LLVMIntEQ, elem_stride, gen_int(g, bytes));
        if (masked) box_of(g, gen_scalar_i64(g, w->m.idx[a]), never_negative(w->m.idx[a], 0), extent_of(g, w->m.param, a), step, e[a], &w->lo[t], &w->hi[t]);
    }
    w->pad = w->m.pad ? gen_scalar(g, w->m.pad) : LLVMConstNull(gen_type(g, w->dtype, 1));
    if (i->op == OP_STORE && p->kind == PARAM_OUT && n > 0) w->stream = large_tensor(g, w->m.param);
    if (i->op == OP_LOAD) {
        w->locality = next_window(g, i, w);
        if (w->locality >= 0) w->ahead = distance_ahead(g, w->base);
        if (w->locality == 2 && !w->not_unit[n - 1]) walks_of(g, i, w);
        g->windows[ir_result(i)->id] = w;
    }
    return w;
}

/* Address and range of the row through coord (axis va left open). For va < 0 the element itself: hi is its i1 or NULL. */
static WindowRow *window_row(Eval *e, Window *w, LLVMValueRef *coord, int va)
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
        if (!LLVMIsAConstantInt(w->lo[t]) || LLVMConstIntGetSExtValue(w->lo[t]) != 0) ok = both(g, ok, icmp(g, LLVMIntSGE, coord[t], w->lo[t]));
    }
    r->w = w;
    r->va = va;
    r->ptr = gen_ptr(g, w->base, off);
    if (va < 0) {
        r->hi = ok;
    } else if (ok || w->hi[va]) {
        LLVMValueRef hi = w->hi[va] ? w->hi[va] : gen_int(g, w->shape[va]);
        r->lo = w->lo[va] ? w->lo[va] : gen_int(g, 0);
        r->hi = ok ? LLVMBuildSelect(g->b, ok, hi, gen_int(g, INT64_MIN / 2), "") : hi;
    }
    row_leave(e, p);
    r->next = home->rows;
    home->rows = r;
    return r;
}

/* --- element by element ----------------------------------------------------------------------------------------------------- */

/* Functions of the module's own: load and store a chunk element by element.
 *     load(row, stride, c, lo, hi, pad) -> vector          store(row, stride, c, lo, hi, vector) */
static LLVMValueRef walker(Gen *g, bool store, DType d, int lanes, LLVMTypeRef *type_out)
{
    char name[64];
    LLVMTypeRef elem = gen_mem_type(g, d, 1), vec = gen_mem_type(g, d, lanes);
    snprintf(name, sizeof name, "tile.%s.%s.%d", store ? "store" : "load", dtype_name(d), lanes);
    LLVMTypeRef args[] = { g->ptr, g->i64, g->i64, g->i64, g->i64, store ? vec : elem };
    LLVMTypeRef type = *type_out = LLVMFunctionType(store ? g->voidt : vec, args, 6, false);
    LLVMValueRef f = helper_find(g, name);
    if (f) return f;
    Helper h;
    f = helper_begin(g, &h, name, type);
    LLVMValueRef row = LLVMGetParam(f, 0), stride = LLVMGetParam(f, 1), c = LLVMGetParam(f, 2), lo = LLVMGetParam(f, 3), hi = LLVMGetParam(f, 4);
    LLVMValueRef tmp = gen_alloca(g, vec, "chunk"), last = LLVMGetParam(f, 5);
    Loop l;
    if (store) {
        LLVMBuildStore(g->b, last, tmp);
    } else {
        LLVMBuildStore(g->b, gen_splat(g, last, lanes), tmp);
    }
    LLVMValueRef from = LLVMBuildSub(g->b, larger(g, lo, c), c, ""), to = LLVMBuildSub(g->b, smaller(g, hi, LLVMBuildAdd(g->b, c, gen_int(g, lanes), "")), c, "");
    LLVMValueRef k = gen_loop(g, &l, from, to, 1);
    LLVMValueRef at = LLVMBuildMul(g->b, LLVMBuildAdd(g->b, c, k, ""), stride, "");
    LLVMValueRef there = gen_ptr(g, row, at), mine = LLVMBuildGEP2(g->b, elem, tmp, &k, 1, "");
    LLVMValueRef x = LLVMBuildLoad2(g->b, elem, store ? mine : there, "");
    LLVMSetAlignment(x, (unsigned)dtype_bytes(d));
    LLVMSetAlignment(LLVMBuildStore(g->b, x, store ? there : mine), (unsigned)dtype_bytes(d));
    gen_loop_end(g, &l);
    if (store) LLVMBuildRetVoid(g->b);
    else LLVMBuildRet(g->b, LLVMBuildLoad2(g->b, vec, tmp, ""));
    helper_end(g, &h);
    return f;
}

static LLVMValueRef to_register(Gen *g, DType d, LLVMValueRef v)
{
    return d == DT_BOOL ? LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
}

static LLVMValueRef to_memory(Gen *g, DType d, LLVMValueRef v)
{
    return d == DT_BOOL ? LLVMBuildZExt(g->b, v, gen_vec(g->i8, gen_lanes(v)), "") : v;
}

static LLVMValueRef in_range(Gen *g, const WindowRow *r, LLVMValueRef c, int lanes)
{
    LLVMValueRef ok = icmp(g, LLVMIntSLE, LLVMBuildAdd(g->b, c, gen_int(g, lanes), ""), r->hi);
    if (!LLVMIsAConstantInt(r->lo) || LLVMConstIntGetSExtValue(r->lo) != 0) ok = LLVMBuildAnd(g->b, ok, icmp(g, LLVMIntSGE, c, r->lo), "");
    return ok;
}

/* Notes what the row's chunks take for granted of a window. */
static void assume_plain(Eval *e, const Window *w, const WindowRow *r, int va)
{
    Gen *g = e->g;
    Eval *row = e->row_eval;
    RowPlace p = row_enter(e);
    LLVMValueRef ok = w->is_unit[va] ? NULL : w->unit[va];
    if (r->hi) {
        ok = both(g, ok, icmp(g, LLVMIntSGE, r->hi, gen_int(g, w->shape[va])));
        if (!LLVMIsAConstantInt(r->lo) || LLVMConstIntGetSExtValue(r->lo) != 0) ok = both(g, ok, icmp(g, LLVMIntSLE, r->lo, gen_int(g, 0)));
    }
    if (ok) row->plain = both(g, row->plain, ok);
    row_leave(e, p);
}

static LLVMValueRef chunk_ptr(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef c, int va)
{
    LLVMValueRef stride = w->is_unit[va] ? gen_int(g, dtype_bytes(w->dtype)) : w->stride[va];
    return gen_ptr(g, r->ptr, LLVMBuildMul(g->b, c, stride, ""));
}

static LLVMValueRef walk_load(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef c, int va, int lanes)
{
    LLVMTypeRef type;
    LLVMValueRef f = walker(g, false, w->dtype, lanes, &type);
    LLVMValueRef lo = r->hi ? r->lo : gen_int(g, INT64_MIN), hi = r->hi ? r->hi : gen_int(g, INT64_MAX);
    LLVMValueRef pad = to_memory(g, w->dtype, w->pad);
    return to_register(g, w->dtype, LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ r->ptr, w->stride[va], c, lo, hi, pad }, 6, ""));
}

LLVMValueRef memory_load(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Window *w = g->windows[ir_result(i)->id];
    WindowRow *r = window_row(e, w, coord, va);
    int lanes = va >= 0 ? e->lanes : 1;
    LLVMValueRef cond, ptr = va >= 0 ? chunk_ptr(g, w, r, coord[va], va) : r->ptr;
    bool assume = va >= 0 && !w->not_unit[va] && e->row_eval && e->row_eval->assume;
    if (assume) assume_plain(e, w, r, va);
    if (va < 0) cond = r->hi;
    else cond = r->hi && !assume ? in_range(g, r, coord[va], lanes) : NULL;
    if (lanes > 1) {
        if (w->not_unit[va]) return walk_load(g, w, r, coord[va], va, lanes);
        if (!w->is_unit[va] && !assume) cond = both(g, cond, w->unit[va]);
    }
    for (int at = 0; w->ahead && !w->walks && lanes > 1 && at < lanes * dtype_bytes(w->dtype); at += LINE) prefetch(g, gen_ptr(g, gen_ptr(g, ptr, w->ahead), gen_int(g, at)), w->locality);
    if (!cond) return gen_load(g, w->dtype, lanes, ptr);
    If f;
    gen_if(g, &f, cond);
    LLVMValueRef fast = gen_load(g, w->dtype, lanes, ptr);
    LLVMBasicBlockRef fast_end = gen_here(g);
    gen_else(g, &f);
    LLVMValueRef slow = lanes > 1 ? walk_load(g, w, r, coord[va], va, lanes) : w->pad;
    LLVMBasicBlockRef slow_end = gen_here(g);
    gen_endif(g, &f);
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(fast), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){ fast, slow }, (LLVMBasicBlockRef[]){ fast_end, slow_end }, 2);
    return phi;
}

/* In 64ths of the row, rounded so that the parts of all walks are the row. A walk with three quarters of the work fetches it all (softmax f16: 5% faster
 * than with the rest left to the walk that stores). */
void memory_fetch_part(Eval *e, Window *w, const Step *s, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    int work = memory_work(g, s);
    int64_t bytes = dtype_bytes(w->dtype), from = 64 * w->done / w->work, part = 64 * (w->done + work) / w->work - from;
    if (4 * w->most >= 3 * w->work) {
        from = 0;
        part = work == w->most ? 64 : 0;
    }
    if (e->lanes == 1 || part == 0) return;
    WindowRow *r = window_row(e, w, coord, va);
    LLVMValueRef at = LLVMBuildLShr(g->b, LLVMBuildMul(g->b, coord[va], gen_int(g, bytes * part), ""), gen_int(g, 6), "");
    LLVMValueRef ptr = gen_ptr(g, gen_ptr(g, r->ptr, w->ahead), LLVMBuildAdd(g->b, at, gen_int(g, w->shape[va] * bytes * from / 64), ""));
    for (int64_t line = 0; 64 * line < e->lanes * bytes * part; line += LINE) prefetch(g, gen_ptr(g, ptr, gen_int(g, line)), w->locality);
}

static LLVMValueRef iota_from(Gen *g, LLVMValueRef c, int n)
{
    LLVMValueRef x = gen_splat(g, c, n);
    return n > 1 ? LLVMBuildAdd(g->b, x, gen_iota(g, g->i64, n), "") : x;
}

/* Elements that are dropped may be NaN. */
static void check_nan(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef v, LLVMValueRef c)
{
    if (!g->options->checked || !dtype_is_float(w->dtype)) return;
    LLVMValueRef x = w->dtype == DT_F64 ? v : to_f32(g, w->dtype, v);
    LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, "");
    int n = gen_lanes(v);
    if (r->hi && !c) {
        nan = LLVMBuildAnd(g->b, nan, r->hi, "");
    } else if (r->hi) {
        LLVMValueRef at = iota_from(g, c, n);
        nan = LLVMBuildAnd(g->b, nan, icmp(g, LLVMIntSLT, at, gen_splat(g, r->hi, n)), "");
        nan = LLVMBuildAnd(g->b, nan, icmp(g, LLVMIntSGE, at, gen_splat(g, r->lo, n)), "");
    }
    if (gen_lanes(nan) > 1) nan = gen_intrinsic(g, "llvm.vector.reduce.or", (LLVMTypeRef[]){ LLVMTypeOf(nan) }, 1, &nan, 1);
    gen_check(g, nan, w->instr->loc, "NaN is stored");
}

/* LLVM knows stores past the caches of integers only, and turns casts in front of a store back into a store of what was cast; hence the
 * freeze, in front of the branch. Vectors of 16 bits go out in the halves in which they are rounded: joining two takes a turn of
 * the shuffler, which widening and rounding need as well (silu 9.8 to 9.5 cycles for 16 elements). */
static void plain_store(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef v, LLVMValueRef ptr)
{
    int lanes = gen_lanes(v), size = dtype_bytes(w->dtype), bytes = lanes * size, mask[16];
    if (!w->stream || bytes < 16) { gen_store(g, w->dtype, v, ptr); return; }
    int n = g->target->avx512 && size == 2 && lanes > 16 && lanes <= 64 && lanes % 16 == 0 ? lanes / 16 : 1, part = bytes / n;
    LLVMValueRef words[4];
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < 16; j++) mask[j] = 16 * k + j;
        LLVMValueRef x = n > 1 ? gen_shuffle(g, v, NULL, mask, 16) : to_memory(g, w->dtype, v);
        words[k] = LLVMBuildFreeze(g->b, LLVMBuildBitCast(g->b, x, gen_vec(g->i32, part / 4), ""), "");
    }
    If f;
    LLVMValueRef low = LLVMBuildAnd(g->b, LLVMBuildPtrToInt(g->b, r->ptr, g->i64, ""), gen_int(g, 63), "");
    gen_if(g, &f, both(g, w->stream, icmp(g, LLVMIntEQ, low, gen_int(g, 0))));
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, false));
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->ctx, &one, 1);
    for (int k = 0; k < n; k++) {
        LLVMValueRef s = LLVMBuildStore(g->b, words[k], gen_ptr(g, ptr, gen_int(g, k * part)));
        LLVMSetAlignment(s, part < 64 ? (unsigned)part : 64);
        LLVMSetMetadata(s, LLVMGetMDKindIDInContext(g->ctx, "nontemporal", 11), LLVMMetadataAsValue(g->ctx, node));
    }
    g->streams = true;
    gen_else(g, &f);
    for (int k = 0; k < n; k++) LLVMSetAlignment(LLVMBuildStore(g->b, words[k], gen_ptr(g, ptr, gen_int(g, k * part))), (unsigned)size);
    gen_endif(g, &f);
}

static void walk_store(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef v, LLVMValueRef c, int va)
{
    LLVMTypeRef type;
    LLVMValueRef f = walker(g, true, w->dtype, gen_lanes(v), &type);
    LLVMValueRef lo = r->hi ? r->lo : gen_int(g, INT64_MIN), hi = r->hi ? r->hi : gen_int(g, INT64_MAX);
    LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ r->ptr, w->stride[va], c, lo, hi, to_memory(g, w->dtype, v) }, 6, "");
}

void memory_store(Eval *e, Window *w, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    WindowRow *r = window_row(e, w, coord, va);
    int lanes = gen_lanes(v);
    check_nan(g, w, r, v, va >= 0 ? coord[va] : NULL);
    LLVMValueRef cond, ptr = va >= 0 ? chunk_ptr(g, w, r, coord[va], va) : r->ptr;
    bool assume = va >= 0 && !w->not_unit[va] && e->row_eval && e->row_eval->assume;
    if (assume) assume_plain(e, w, r, va);
    if (va < 0) cond = r->hi;
    else cond = r->hi && !assume ? in_range(g, r, coord[va], lanes) : NULL;
    if (lanes > 1) {
        if (w->not_unit[va]) { walk_store(g, w, r, v, coord[va], va); return; }
        if (!w->is_unit[va] && !assume) cond = both(g, cond, w->unit[va]);
    }
    if (!cond) { plain_store(g, w, r, v, ptr); return; }
    If f;
    gen_if(g, &f, cond);
    plain_store(g, w, r, v, ptr);
    if (lanes > 1) {
        gen_else(g, &f);
        walk_store(g, w, r, v, coord[va], va);
    }
    gen_endif(g, &f);
}

/* --- indexed access ------------------------------------------------------------------------------------------------------------- */

typedef struct Indexed { MemParts m; DType dtype; LLVMValueRef ok, ptr; } Indexed;

static void indexed(Eval *e, Instr *i, LLVMValueRef *coord, int va, Indexed *x)
{
    Gen *g = e->g;
    ir_mem_parts(i, &x->m);
    const Param *p = &g->func->params[x->m.param];
    x->dtype = p->type->dtype;
    LLVMValueRef off = NULL, inside = NULL;
    for (int a = 0; a < x->m.rank; a++) {
        Value *v = x->m.idx[a];
        LLVMValueRef idx = convert(g, DT_I64, v->type->dtype, nest_eval(e, v, coord, va));
        inside = both(g, inside, icmp(g, LLVMIntULT, idx, gen_splat(g, extent_of(g, x->m.param, a), e->lanes)));
        LLVMValueRef step = gen_splat(g, stride_bytes(g, x->m.param, a, dtype_bytes(x->dtype)), e->lanes);
        LLVMValueRef o = LLVMBuildMul(g->b, idx, step, "");
        off = off ? LLVMBuildAdd(g->b, off, o, "") : o;
    }
    x->ok = inside;
    if (x->m.mask) {
        LLVMValueRef mask = nest_eval(e, x->m.mask, coord, va);
        if (g->options->checked) x->ok = both(g, inside, mask);
        inside = LLVMBuildOr(g->b, inside, LLVMBuildNot(g->b, mask, ""), "");
        x->ok = both(g, x->ok, mask);
    }
    if (g->options->checked && i->op == OP_GATHER) {
        LLVMValueRef bad = LLVMBuildNot(g->b, inside, "");
        if (e->lanes > 1) bad = gen_intrinsic(g, "llvm.vector.reduce.or", (LLVMTypeRef[]){ LLVMTypeOf(bad) }, 1, &bad, 1);
        gen_check(g, bad, i->loc, "gather out of range");
    }
    x->ptr = LLVMBuildGEP2(g->b, g->i8, gen_slot(g, SLOT_DATA, x->m.param, 0, DT_U64), &off, 1, "");
}

LLVMValueRef memory_gather(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    indexed(e, i, coord, va, &x);
    LLVMValueRef pad = x.m.pad ? gen_scalar(g, x.m.pad) : LLVMConstNull(gen_type(g, x.dtype, 1));
    LLVMTypeRef t = gen_type(g, x.dtype, 1);
    if (e->lanes == 1) {
        If f;
        LLVMValueRef cell = gen_alloca(g, t, "gathered");
        LLVMBuildStore(g->b, pad, cell);
        gen_if(g, &f, x.ok);
        LLVMBuildStore(g->b, gen_load(g, x.dtype, 1, x.ptr), cell);
        gen_endif(g, &f);
        return LLVMBuildLoad2(g->b, t, cell, "");
    }
    LLVMTypeRef mem = gen_mem_type(g, x.dtype, e->lanes);
    if (x.dtype == DT_F16) mem = gen_vec(g->i16, e->lanes);
    LLVMValueRef fill = gen_splat(g, to_memory(g, x.dtype, pad), e->lanes);
    if (x.dtype == DT_F16) fill = LLVMBuildBitCast(g->b, fill, mem, "");
    LLVMTypeRef types[] = { mem, LLVMTypeOf(x.ptr) };
    LLVMValueRef v = gen_intrinsic(g, "llvm.masked.gather", types, 2, (LLVMValueRef[]){ x.ptr, x.ok, fill }, 3);
    if (x.dtype == DT_F16) v = LLVMBuildBitCast(g->b, v, gen_type(g, DT_F16, e->lanes), "");
    return to_register(g, x.dtype, v);
}

void memory_scatter(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    indexed(e, i, coord, va, &x);
    LLVMValueRef v = nest_eval(e, x.m.values[0], coord, va);
    If f;
    if (e->lanes == 1) {
        gen_if(g, &f, x.ok);
        gen_store(g, x.dtype, v, x.ptr);
        gen_endif(g, &f);
        return;
    }
    for (int k = 0; k < e->lanes; k++) {    /* in order: the last of duplicates wins */
        gen_if(g, &f, LLVMBuildExtractElement(g->b, x.ok, gen_int(g, k), ""));
        gen_store(g, x.dtype, LLVMBuildExtractElement(g->b, v, gen_int(g, k), ""), LLVMBuildExtractElement(g->b, x.ptr, gen_int(g, k), ""));
        gen_endif(g, &f);
    }
}

static LLVMAtomicOrdering ordering(const Instr *i)
{
    switch (ir_attr_int(i, ATTR_SEM, SEM_RELAXED)) {
    case SEM_ACQUIRE: return LLVMAtomicOrderingAcquire;
    case SEM_RELEASE: return LLVMAtomicOrderingRelease;
    case SEM_ACQ_REL: return LLVMAtomicOrderingAcquireRelease;
    default: return LLVMAtomicOrderingMonotonic;
    }
}

static LLVMTypeRef bits_type(Gen *g, DType d) { return dtype_bits(d) == 16 ? g->i16 : dtype_bits(d) == 32 ? g->i32 : g->i64; }

static LLVMValueRef as_bits(Gen *g, DType d, LLVMValueRef v) { return LLVMBuildBitCast(g->b, v, bits_type(g, d), ""); }

/* Read, combine, compare and swap until nobody came between. */
static LLVMValueRef swap_loop(Gen *g, const Indexed *x, LLVMValueRef value, Op op, LLVMAtomicOrdering order)
{
    LLVMBasicBlockRef before = gen_here(g), loop = gen_block(g, "swap"), done = gen_block(g, "swapped");
    LLVMValueRef first = LLVMBuildLoad2(g->b, bits_type(g, x->dtype), x->ptr, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, (unsigned)dtype_bytes(x->dtype));
    LLVMBuildBr(g->b, loop);
    gen_at(g, loop);
    LLVMValueRef seen = LLVMBuildPhi(g->b, bits_type(g, x->dtype), "");
    LLVMValueRef old = LLVMBuildBitCast(g->b, seen, gen_type(g, x->dtype, 1), "");
    LLVMValueRef fresh = as_bits(g, x->dtype, elem_op(g, op, x->dtype, (LLVMValueRef[]){ old, value }, NEED_ALL));
    LLVMAtomicOrdering fail = order == LLVMAtomicOrderingAcquireRelease || order == LLVMAtomicOrderingAcquire ? LLVMAtomicOrderingAcquire : LLVMAtomicOrderingMonotonic;
    LLVMValueRef r = LLVMBuildAtomicCmpXchg(g->b, x->ptr, seen, fresh, order, fail, false);
    LLVMAddIncoming(seen, (LLVMValueRef[]){ first, LLVMBuildExtractValue(g->b, r, 0, "") }, (LLVMBasicBlockRef[]){ before, gen_here(g) }, 2);
    LLVMBuildCondBr(g->b, LLVMBuildExtractValue(g->b, r, 1, ""), done, loop);
    gen_at(g, done);
    return old;
}

static LLVMValueRef atomic_value(Eval *e, Instr *i, const Indexed *x, LLVMValueRef *v)
{
    Gen *g = e->g;
    LLVMAtomicOrdering order = ordering(i);
    LLVMTypeRef t = gen_type(g, x->dtype, 1);
    if (i->op == OP_ATOMIC_CAS) {
        LLVMAtomicOrdering fail = order == LLVMAtomicOrderingAcquireRelease || order == LLVMAtomicOrderingAcquire ? LLVMAtomicOrderingAcquire : LLVMAtomicOrderingMonotonic;
        LLVMValueRef r = LLVMBuildAtomicCmpXchg(g->b, x->ptr, as_bits(g, x->dtype, v[0]), as_bits(g, x->dtype, v[1]), order, fail, false);
        return LLVMBuildBitCast(g->b, LLVMBuildExtractValue(g->b, r, 0, ""), t, "");
    }
    bool f = dtype_is_float(x->dtype), sgn = dtype_is_signed(x->dtype);
    LLVMAtomicRMWBinOp op = LLVMAtomicRMWBinOpXchg;
    switch (ir_attr_int(i, ATTR_RMW, RMW_ADD)) {
    case RMW_ADD: if (f) return swap_loop(g, x, v[0], OP_ADD, order); op = LLVMAtomicRMWBinOpAdd; break;
    case RMW_MAX: if (f) return swap_loop(g, x, v[0], OP_MAX, order); op = sgn ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax; break;
    case RMW_MIN: if (f) return swap_loop(g, x, v[0], OP_MIN, order); op = sgn ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin; break;
    case RMW_AND: op = LLVMAtomicRMWBinOpAnd; break;
    case RMW_OR: op = LLVMAtomicRMWBinOpOr; break;
    case RMW_XOR: op = LLVMAtomicRMWBinOpXor; break;
    default: break;
    }
    LLVMValueRef old = LLVMBuildAtomicRMW(g->b, op, x->ptr, as_bits(g, x->dtype, v[0]), order, false);
    return LLVMBuildBitCast(g->b, old, t, "");
}

LLVMValueRef memory_atomic(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    indexed(e, i, coord, va, &x);
    LLVMValueRef v[2] = { nest_eval(e, x.m.values[0], coord, va), x.m.values[1] ? nest_eval(e, x.m.values[1], coord, va) : NULL };
    LLVMTypeRef t = gen_type(g, x.dtype, 1);
    LLVMValueRef cell = gen_alloca(g, t, "old");
    LLVMBuildStore(g->b, LLVMConstNull(t), cell);
    If f;
    gen_if(g, &f, x.ok);
    LLVMBuildStore(g->b, atomic_value(e, i, &x, v), cell);
    gen_endif(g, &f);
    return LLVMBuildLoad2(g->b, t, cell, "");
}
