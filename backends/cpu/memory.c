/* memory.c: loads and stores of chunks of a window. A chunk that lies in range with its elements side by side
 * is one vector access; any other goes through a small function that walks it element by element (ragged
 * edges and unusual strides). */
#include "backends/cpu/memory.h"
#include <stdio.h>

typedef enum Walk { WALK_LOAD, WALK_STORE, WALK_ADD } Walk;

/* Functions of the module's own: load, store and add a chunk element by element.
 *     load(row, stride, c, lo, hi, pad) -> vector          store, add(row, stride, c, lo, hi, vector) */
static LLVMValueRef walker(Gen *g, Walk walk, DType d, int lanes, LLVMTypeRef *type_out)
{
    static const char *const names[] = { "load", "store", "add" };
    bool store = walk != WALK_LOAD;
    char name[64];
    LLVMTypeRef elem = gen_mem_type(g, d, 1), vec = gen_mem_type(g, d, lanes);
    format_text(name, sizeof name, "tile.%s.%s.%d", names[walk], dtype_name(d), lanes);
    LLVMTypeRef args[] = { g->ptr, g->i64, g->i64, g->i64, g->i64, store ? vec : elem };
    LLVMTypeRef type = *type_out = LLVMFunctionType(store ? g->voidt : vec, args, 6, false);
    LLVMValueRef f = helper_find(g, name);
    if (f) return f;
    Helper h;
    f = helper_begin(g, &h, name, type);
    LLVMValueRef row = LLVMGetParam(f, 0), stride = LLVMGetParam(f, 1), c = LLVMGetParam(f, 2),
                 lo = LLVMGetParam(f, 3), hi = LLVMGetParam(f, 4);
    LLVMValueRef tmp = gen_alloca(g, vec, "chunk"), last = LLVMGetParam(f, 5);
    Loop l;
    if (store) {
        LLVMBuildStore(g->b, last, tmp);
    } else {
        LLVMBuildStore(g->b, gen_splat(g, last, lanes), tmp);
    }
    LLVMValueRef from = LLVMBuildSub(g->b, larger(g, lo, c), c, ""),
                 to = LLVMBuildSub(g->b, smaller(g, hi, LLVMBuildAdd(g->b, c, gen_int(g, lanes), "")), c, "");
    LLVMValueRef k = gen_loop(g, &l, from, to, 1);
    LLVMValueRef at = LLVMBuildMul(g->b, LLVMBuildAdd(g->b, c, k, ""), stride, "");
    LLVMValueRef there = gen_ptr(g, row, at), mine = LLVMBuildGEP2(g->b, elem, tmp, &k, 1, "");
    if (walk == WALK_ADD) memory_add(g, d, gen_load(g, d, 1, mine), there);
    else {
        LLVMValueRef x = LLVMBuildLoad2(g->b, elem, store ? mine : there, "");
        LLVMSetAlignment(x, (unsigned)dtype_bytes(d));
        LLVMSetAlignment(LLVMBuildStore(g->b, x, store ? there : mine), (unsigned)dtype_bytes(d));
    }
    gen_loop_end(g, &l);
    if (store) LLVMBuildRetVoid(g->b);
    else LLVMBuildRet(g->b, LLVMBuildLoad2(g->b, vec, tmp, ""));
    helper_end(g, &h);
    return f;
}

static LLVMValueRef in_range(Gen *g, const WindowRow *r, LLVMValueRef c, int lanes)
{
    LLVMValueRef ok = icmp(g, LLVMIntSLE, LLVMBuildAdd(g->b, c, gen_int(g, lanes), ""), r->hi);
    if (!LLVMIsAConstantInt(r->lo) || LLVMConstIntGetSExtValue(r->lo) != 0)
        ok = LLVMBuildAnd(g->b, ok, icmp(g, LLVMIntSGE, c, r->lo), "");
    return ok;
}

/* Records the facts about a window that the row's chunks assume. */
static void assume_plain(Eval *e, const Window *w, const WindowRow *r, int va)
{
    Gen *g = e->g;
    Eval *row = e->row_eval;
    RowPlace p = row_enter(e);
    LLVMValueRef ok = w->is_unit[va] ? NULL : w->unit[va];
    if (r->hi) {
        ok = both(g, ok, icmp(g, LLVMIntSGE, r->hi, gen_int(g, w->shape[va])));
        if (!LLVMIsAConstantInt(r->lo) || LLVMConstIntGetSExtValue(r->lo) != 0)
            ok = both(g, ok, icmp(g, LLVMIntSLE, r->lo, gen_int(g, 0)));
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
    LLVMValueRef f = walker(g, WALK_LOAD, w->dtype, lanes, &type);
    LLVMValueRef lo = r->hi ? r->lo : gen_int(g, INT64_MIN), hi = r->hi ? r->hi : gen_int(g, INT64_MAX);
    LLVMValueRef pad = to_memory(g, w->dtype, w->pad);
    return to_register(g, w->dtype,
        LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ r->ptr, w->stride[va], c, lo, hi, pad }, 6, ""));
}

/* Where it is one access of elements side by side (i1; NULL: always). */
static LLVMValueRef plain_chunk(
    Eval *e, const Window *w, const WindowRow *r, LLVMValueRef *coord, int va, int lanes)
{
    if (va < 0) return r->hi;
    bool assume = !w->not_unit[va] && e->row_eval && e->row_eval->assume;
    if (assume) {
        assume_plain(e, w, r, va);
        return NULL;
    }
    LLVMValueRef cond = r->hi ? in_range(e->g, r, coord[va], lanes) : NULL;
    return lanes > 1 && !w->not_unit[va] && !w->is_unit[va] ? both(e->g, cond, w->unit[va]) : cond;
}

LLVMValueRef memory_load(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Window *w = g->windows[ir_result(i)->id];
    WindowRow *r = memory_row(e, w, coord, va);
    int lanes = va >= 0 ? e->lanes : 1;
    LLVMValueRef ptr = va >= 0 ? chunk_ptr(g, w, r, coord[va], va) : r->ptr,
                 cond = plain_chunk(e, w, r, coord, va, lanes);
    if (lanes > 1 && w->not_unit[va]) return walk_load(g, w, r, coord[va], va, lanes);
    for (int at = 0;
        w->ahead && !w->walks && !w->in_product && lanes > 1 && at < lanes * dtype_bytes(w->dtype);
        at += LINE)
        memory_prefetch(g, gen_ptr(g, gen_ptr(g, ptr, w->ahead), gen_int(g, at)), w->locality);
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

/* LLVM knows stores past the caches of integers only, and turns casts in front of a store back into a store
 * of what was cast; hence the freeze, in front of the branch. Vectors of 16 bits go out in the halves in
 * which they are rounded: joining two takes a turn of the shuffler, which widening and rounding need as well
 * (silu 9.8 to 9.5 cycles for 16 elements). */
static void plain_store(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef v, LLVMValueRef ptr)
{
    int lanes = gen_lanes(v), size = dtype_bytes(w->dtype), bytes = lanes * size, mask[16];
    if (ir_adds(w->instr)) {
        memory_add(g, w->dtype, v, ptr); /* of one element: memory_store walks through chunks */
        return;
    }
    if (!w->stream || bytes < 16) {
        gen_store(g, w->dtype, v, ptr);
        return;
    }
    int n = g->target->avx512 && size == 2 && lanes > 16 && lanes <= 64 && lanes % 16 == 0 ? lanes / 16 : 1,
        part = bytes / n;
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
        LLVMSetMetadata(
            s, LLVMGetMDKindIDInContext(g->ctx, "nontemporal", 11), LLVMMetadataAsValue(g->ctx, node));
    }
    g->streams = true;
    gen_else(g, &f);
    for (int k = 0; k < n; k++)
        LLVMSetAlignment(
            LLVMBuildStore(g->b, words[k], gen_ptr(g, ptr, gen_int(g, k * part))), (unsigned)size);
    gen_endif(g, &f);
}

static void walk_store(Gen *g, const Window *w, const WindowRow *r, LLVMValueRef v, LLVMValueRef c, int va)
{
    LLVMTypeRef type;
    LLVMValueRef f = walker(g, ir_adds(w->instr) ? WALK_ADD : WALK_STORE, w->dtype, gen_lanes(v), &type);
    LLVMValueRef lo = r->hi ? r->lo : gen_int(g, INT64_MIN), hi = r->hi ? r->hi : gen_int(g, INT64_MAX);
    LLVMBuildCall2(g->b, type, f,
        (LLVMValueRef[]){ r->ptr, w->stride[va], c, lo, hi, to_memory(g, w->dtype, v) }, 6, "");
}

void memory_store(Eval *e, Window *w, LLVMValueRef v, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    WindowRow *r = memory_row(e, w, coord, va);
    int lanes = gen_lanes(v);
    if (lanes > 1 && (w->not_unit[va] || ir_adds(w->instr))) {
        walk_store(g, w, r, v, coord[va], va);
        return;
    }
    LLVMValueRef ptr = va >= 0 ? chunk_ptr(g, w, r, coord[va], va) : r->ptr,
                 cond = plain_chunk(e, w, r, coord, va, lanes);
    if (!cond) {
        plain_store(g, w, r, v, ptr);
        return;
    }
    If f;
    gen_if(g, &f, cond);
    plain_store(g, w, r, v, ptr);
    if (lanes > 1) {
        gen_else(g, &f);
        walk_store(g, w, r, v, coord[va], va);
    }
    gen_endif(g, &f);
}
