/* memory.c: loads and stores of chunks of a window. A chunk that lies in range with its elements side by side
 * is one vector access. With AVX-512 one that is cut off is a vector access too, under a mask. Any other goes
 * through a small function that walks it element by element (ragged edges and unusual strides). */
#include "backends/cpu/memory/memory.h"
#include <stdio.h>

typedef enum Walk { WALK_LOAD, WALK_STORE, WALK_ADD } Walk;

/* --- chunks that are cut off ------------------------------------------------------------------------- */

/* The lanes [lo, hi) of a mask of 64 bits at most: bit k is on if lo <= k < hi. */
static LLVMValueRef first_lanes(Gen *g, LLVMValueRef n, int lanes)
{
    n = larger(g, smaller(g, n, gen_int(g, lanes)), gen_int(g, 0));
    LLVMValueRef one = gen_int(g, 1), bits = LLVMBuildSub(g->b, LLVMBuildShl(g->b, one, n, ""), one, "");
    if (lanes < 64) return bits;
    return LLVMBuildSelect(g->b, icmp(g, LLVMIntSLT, n, gen_int(g, 64)), bits, gen_int(g, -1), "");
}

/* Where rows begin, unless that is 0: no chunk of a window begins below. */
static LLVMValueRef beginning(LLVMValueRef lo)
{ return LLVMIsAConstantInt(lo) && LLVMConstIntGetSExtValue(lo) == 0 ? NULL : lo; }

/* Which elements of the chunk at `c` lie in [lo, hi), if `ok` (NULL: always). `lo` NULL: none is below. */
static LLVMValueRef lanes_in_range(
    Gen *g, LLVMValueRef c, int lanes, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef ok)
{
    LLVMValueRef bits = first_lanes(g, LLVMBuildSub(g->b, hi, c, ""), lanes);
    if (lo) {
        LLVMValueRef before = first_lanes(g, LLVMBuildSub(g->b, lo, c, ""), lanes);
        bits = LLVMBuildAnd(g->b, bits, LLVMBuildNot(g->b, before, ""), "");
    }
    LLVMTypeRef t = LLVMIntTypeInContext(g->ctx, (unsigned)lanes);
    if (lanes < 64) bits = LLVMBuildTrunc(g->b, bits, t, "");
    if (ok) bits = LLVMBuildAnd(g->b, bits, LLVMBuildSExt(g->b, ok, t, ""), "");
    return LLVMBuildBitCast(g->b, bits, gen_vec(g->i1, lanes), "");
}

bool memory_has_masks(const Gen *g, int lanes) { return g->target->avx512 && lanes > 1 && lanes <= 64; }

/* Elements of the type, as integers: LLVM takes accesses to halves under a mask apart. */
static LLVMTypeRef bits_of(Gen *g, DType d, int lanes)
{ return gen_vec(LLVMIntTypeInContext(g->ctx, 8 * (unsigned)dtype_bytes(d)), lanes); }

/* The elements of a chunk under a mask, as they are in memory; `pad` in place of the others. */
static LLVMValueRef masked_load(Gen *g, DType d, LLVMValueRef ptr, LLVMValueRef mask, LLVMValueRef pad)
{
    int lanes = gen_lanes(mask);
    LLVMTypeRef bits = bits_of(g, d, lanes), types[] = { bits, g->ptr };
    LLVMValueRef others = LLVMBuildBitCast(g->b, gen_splat(g, pad, lanes), bits, "");
    LLVMValueRef v = gen_intrinsic(g, "llvm.masked.load", types, 2, (LLVMValueRef[]){ ptr, mask, others }, 3);
    return LLVMBuildBitCast(g->b, v, gen_mem_type(g, d, lanes), "");
}

static void masked_store(Gen *g, DType d, LLVMValueRef value, LLVMValueRef ptr, LLVMValueRef mask)
{
    LLVMTypeRef bits = bits_of(g, d, gen_lanes(mask)), types[] = { bits, g->ptr };
    LLVMValueRef v = LLVMBuildBitCast(g->b, to_memory(g, d, value), bits, "");
    gen_intrinsic(g, "llvm.masked.store", types, 2, (LLVMValueRef[]){ v, ptr, mask }, 3);
}

/* --- functions that walk through a chunk ------------------------------------------------------------- */

/* Returns from the function that is being made, if the elements of the chunk lie side by side and are all in
 * range; if there are masks, also where some are not. */
static void load_at_once(Gen *g, DType d, int lanes, LLVMValueRef f)
{
    LLVMValueRef row = LLVMGetParam(f, 0), stride = LLVMGetParam(f, 1), c = LLVMGetParam(f, 2),
                 lo = LLVMGetParam(f, 3), hi = LLVMGetParam(f, 4);
    LLVMBasicBlockRef all = gen_block(g, "all"), some = gen_block(g, "some");
    LLVMValueRef bytes = gen_int(g, dtype_bytes(d)), side = icmp(g, LLVMIntEQ, stride, bytes);
    LLVMValueRef inside = both(
        g, icmp(g, LLVMIntSLE, lo, c), icmp(g, LLVMIntSLE, LLVMBuildAdd(g->b, c, gen_int(g, lanes), ""), hi));
    bool masks = memory_has_masks(g, lanes);
    LLVMBuildCondBr(g->b, masks ? side : both(g, inside, side), all, some);
    gen_at(g, all);
    LLVMValueRef at = gen_ptr(g, row, LLVMBuildMul(g->b, c, bytes, "")), v;
    if (masks) {
        v = masked_load(g, d, at, lanes_in_range(g, c, lanes, lo, hi, NULL), LLVMGetParam(f, 5));
    } else {
        v = LLVMBuildLoad2(g->b, gen_mem_type(g, d, lanes), at, "");
        LLVMSetAlignment(v, (unsigned)dtype_bytes(d));
    }
    LLVMBuildRet(g->b, v);
    gen_at(g, some);
}

/* Returns from the function that is being made, if all elements of the chunk are in range: they go from
 * memory into a register, where a loop through memory would wait for its narrow stores. */
static void load_apart(Gen *g, DType d, int lanes, LLVMValueRef f)
{
    LLVMValueRef stride = LLVMGetParam(f, 1), c = LLVMGetParam(f, 2);
    LLVMBasicBlockRef all = gen_block(g, "apart"), some = gen_block(g, "cut");
    LLVMValueRef inside = both(g, icmp(g, LLVMIntSLE, LLVMGetParam(f, 3), c),
        icmp(g, LLVMIntSLE, LLVMBuildAdd(g->b, c, gen_int(g, lanes), ""), LLVMGetParam(f, 4)));
    LLVMBuildCondBr(g->b, inside, all, some);
    gen_at(g, all);
    LLVMTypeRef bits = bits_of(g, d, 1);
    LLVMValueRef at = gen_ptr(g, LLVMGetParam(f, 0), LLVMBuildMul(g->b, c, stride, "")),
                 v = LLVMGetPoison(gen_vec(bits, lanes));
    for (int k = 0; k < lanes; k++, at = gen_ptr(g, at, stride)) {
        LLVMValueRef x = LLVMBuildLoad2(g->b, bits, at, "");
        LLVMSetAlignment(x, (unsigned)dtype_bytes(d));
        v = LLVMBuildInsertElement(g->b, v, x, gen_int(g, k), "");
    }
    LLVMBuildRet(g->b, LLVMBuildBitCast(g->b, v, gen_mem_type(g, d, lanes), ""));
    gen_at(g, some);
}

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
    if (!store) {
        load_at_once(g, d, lanes, f);
        load_apart(g, d, lanes, f);
    }
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
    if (beginning(r->lo)) ok = LLVMBuildAnd(g->b, ok, icmp(g, LLVMIntSGE, c, r->lo), "");
    return ok;
}

/* How many elements `c` lies behind the beginning of the nest's chunk, as parts of tiles do. False: it does
 * not lie a constant behind it. */
static bool behind_chunk(const Eval *e, LLVMValueRef c, int64_t *behind)
{
    *behind = 0;
    if (!e->at) return false;
    if (LLVMIsAConstantInt(e->at) && LLVMIsAConstantInt(c)) {
        *behind = LLVMConstIntGetSExtValue(c) - LLVMConstIntGetSExtValue(e->at);
        return true;
    }
    while (c != e->at && LLVMIsABinaryOperator(c) && LLVMGetInstructionOpcode(c) == LLVMAdd &&
           LLVMIsAConstantInt(LLVMGetOperand(c, 1))) {
        *behind += LLVMConstIntGetSExtValue(LLVMGetOperand(c, 1));
        c = LLVMGetOperand(c, 0);
    }
    return c == e->at;
}

/* Whether a row of the window is in range from its beginning to its end, or nowhere, so that a chunk is never
 * cut off: the window is as wide as its tensor. */
static bool all_or_none(const Window *w, const WindowRow *r)
{ return r->va >= 0 && r->ok && !w->hi[r->va] && w->is_unit[r->va] && !w->aside; }

bool memory_row_is_out(const Eval *row, const WindowRow *r)
{ return !row->assume && row->plain && row->plain == r->ok && all_or_none(r->w, r); }

/* Records the facts about a window that the row's chunks assume. c: where this chunk begins in the window. */
static void assume_plain(Eval *e, const Window *w, const WindowRow *r, LLVMValueRef c, int va)
{
    Gen *g = e->g;
    Eval *row = e->row_eval;
    int64_t behind = 0;
    row->apart |= r->hi && !behind_chunk(e, c, &behind);
    RowPlace p = row_enter(e);
    LLVMValueRef ok = w->is_unit[va] ? NULL : w->unit[va];
    if (ok) row->side = both(g, row->side, ok);
    if (all_or_none(w, r)) ok = r->ok;
    else if (r->hi) {
        ok = both(g, ok, icmp(g, LLVMIntSGE, r->hi, gen_int(g, w->shape[va])));
        if (beginning(r->lo)) ok = both(g, ok, icmp(g, LLVMIntSLE, r->lo, gen_int(g, 0)));
    }
    if (r->hi) {
        LLVMValueRef from = LLVMBuildSub(g->b, r->lo, gen_int(g, behind), ""),
                     upto = LLVMBuildSub(g->b, r->hi, gen_int(g, behind), "");
        row->from = row->from ? larger(g, row->from, from) : from;
        row->upto = row->upto ? smaller(g, row->upto, upto) : upto;
        row->n_cut++;
    }
    if (ok && ok != row->plain) row->plain = both(g, row->plain, ok);
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
        assume_plain(e, w, r, coord[va], va);
        return NULL;
    }
    if (all_or_none(w, r)) return r->ok;
    LLVMValueRef cond = r->hi ? in_range(e->g, r, coord[va], lanes) : NULL;
    return lanes > 1 && !w->not_unit[va] && !w->is_unit[va] ? both(e->g, cond, w->unit[va]) : cond;
}

/* Whether so many windows are read in the row that a branch for each of them takes too long to compile. */
static bool many_windows(const Eval *e)
{
    enum { MANY = 32 };
    int n = 0;
    for (const WindowRow *r = e->row_eval ? e->row_eval->rows : e->rows; r; r = r->next) n++;
    return n > MANY;
}

/* A chunk of elements that lie side by side and may be cut off. */
static LLVMValueRef cut_load(
    Gen *g, const Window *w, const WindowRow *r, LLVMValueRef ptr, LLVMValueRef c, int lanes)
{
    LLVMValueRef mask = lanes_in_range(g, c, lanes, beginning(r->lo), r->end, r->ok);
    return to_register(g, w->dtype, masked_load(g, w->dtype, ptr, mask, to_memory(g, w->dtype, w->pad)));
}

enum { FIRST_CACHE = 3 }; /* of llvm.prefetch */

LLVMValueRef memory_load(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Window *w = g->windows[ir_result(i)->id];
    WindowRow *r = memory_row(e, w, coord, va);
    int lanes = va >= 0 ? e->lanes : 1;
    LLVMValueRef ptr = va >= 0 ? chunk_ptr(g, w, r, coord[va], va) : r->ptr,
                 cond = plain_chunk(e, w, r, coord, va, lanes);
    if (lanes > 1 && w->not_unit[va]) return walk_load(g, w, r, coord[va], va, lanes);
    for (int at = 0; w->rows_ahead && lanes > 1 && at < lanes * dtype_bytes(w->dtype); at += LINE) {
        LLVMValueRef rows = LLVMBuildMul(g->b, w->stride[1 - va], gen_int(g, w->rows_ahead), "");
        memory_prefetch(g, gen_ptr(g, gen_ptr(g, ptr, rows), gen_int(g, at)), FIRST_CACHE);
    }
    for (int at = 0; w->ahead && !w->walks && !w->in_product && !w->fetched_by && lanes > 1 &&
                     at < lanes * dtype_bytes(w->dtype);
        at += LINE)
        memory_prefetch(g, gen_ptr(g, gen_ptr(g, ptr, w->ahead), gen_int(g, at)), w->locality);
    if (!cond) return gen_load(g, w->dtype, lanes, ptr);
    if (e->row_eval && memory_row_is_out(e->row_eval, r)) return gen_splat(g, w->pad, lanes);
    bool masked = va >= 0 && w->is_unit[va] && memory_has_masks(g, lanes);
    if (masked && e->row_eval) return cut_load(g, w, r, ptr, coord[va], lanes);
    if (lanes > 1 && many_windows(e)) return walk_load(g, w, r, coord[va], va, lanes);
    If f;
    gen_if(g, &f, cond);
    LLVMValueRef fast = gen_load(g, w->dtype, lanes, ptr);
    LLVMBasicBlockRef fast_end = gen_here(g);
    gen_else(g, &f);
    LLVMValueRef slow = lanes <= 1          ? w->pad
                        : all_or_none(w, r) ? gen_splat(g, w->pad, lanes)
                        : masked            ? cut_load(g, w, r, ptr, coord[va], lanes)
                                            : walk_load(g, w, r, coord[va], va, lanes);
    LLVMBasicBlockRef slow_end = gen_here(g);
    gen_endif(g, &f);
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(fast), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){ fast, slow }, (LLVMBasicBlockRef[]){ fast_end, slow_end }, 2);
    return phi;
}

/* A chunk of a row, of which the processor has no masks: whether all of it is in range, and some of it. */
typedef struct RunRange {
    LLVMValueRef first, extent, whole, some;
} RunRange;

static RunRange range_of_run(Gen *g, int lanes, LLVMValueRef first, LLVMValueRef extent, LLVMValueRef ok)
{
    LLVMValueRef none = gen_int(g, 0);
    if (ok) extent = LLVMBuildSelect(g->b, ok, extent, none, "");
    first = larger(g, smaller(g, first, extent), gen_int(g, -lanes)); /* `behind` does not wrap */
    LLVMValueRef behind = LLVMBuildAdd(g->b, first, gen_int(g, lanes), "");
    return (RunRange){ first, extent,
        both(g, icmp(g, LLVMIntSGE, first, none), icmp(g, LLVMIntSLE, behind, extent)),
        both(g, icmp(g, LLVMIntSGT, behind, none), icmp(g, LLVMIntSLT, first, extent)) };
}

LLVMValueRef memory_run(Gen *g, DType d, int lanes, LLVMValueRef row, LLVMValueRef first, LLVMValueRef extent,
    LLVMValueRef ok, LLVMValueRef mask, LLVMValueRef pad)
{
    LLVMValueRef bytes = gen_int(g, dtype_bytes(d)), none = gen_int(g, 0),
                 at = gen_ptr(g, row, LLVMBuildMul(g->b, first, bytes, ""));
    if (memory_has_masks(g, lanes)) {
        LLVMValueRef in = lanes_in_range(g, first, lanes, none, extent, ok);
        if (mask) in = LLVMBuildAnd(g->b, in, mask, "");
        return to_register(g, d, masked_load(g, d, at, in, to_memory(g, d, pad)));
    }
    LLVMTypeRef type;
    LLVMValueRef f = walker(g, WALK_LOAD, d, lanes, &type), v[3];
    LLVMBasicBlockRef from[3];
    RunRange r = range_of_run(g, lanes, first, extent, ok);
    If whole, some;
    gen_if(g, &whole, r.whole);
    v[0] = gen_load(g, d, lanes, at);
    from[0] = gen_here(g);
    gen_else(g, &whole);
    gen_if(g, &some, r.some);
    LLVMValueRef args[] = { row, bytes, r.first, none, r.extent, to_memory(g, d, pad) };
    v[1] = to_register(g, d, LLVMBuildCall2(g->b, type, f, args, 6, ""));
    from[1] = gen_here(g);
    gen_else(g, &some);
    v[2] = gen_splat(g, pad, lanes);
    from[2] = gen_here(g);
    gen_endif(g, &some);
    LLVMValueRef cut = LLVMBuildPhi(g->b, LLVMTypeOf(v[0]), "");
    LLVMAddIncoming(cut, &v[1], &from[1], 2);
    LLVMBasicBlockRef cut_end = gen_here(g);
    gen_endif(g, &whole);
    LLVMValueRef phi = LLVMBuildPhi(g->b, LLVMTypeOf(v[0]), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){ v[0], cut }, (LLVMBasicBlockRef[]){ from[0], cut_end }, 2);
    return phi;
}

void memory_store_run(Gen *g, DType d, LLVMValueRef v, LLVMValueRef row, LLVMValueRef first,
    LLVMValueRef extent, LLVMValueRef ok, LLVMValueRef mask)
{
    int lanes = gen_lanes(v);
    LLVMValueRef bytes = gen_int(g, dtype_bytes(d)), none = gen_int(g, 0),
                 at = gen_ptr(g, row, LLVMBuildMul(g->b, first, bytes, ""));
    if (memory_has_masks(g, lanes)) {
        masked_store(g, d, v, at, both(g, lanes_in_range(g, first, lanes, none, extent, ok), mask));
        return;
    }
    LLVMTypeRef type;
    LLVMValueRef f = walker(g, WALK_STORE, d, lanes, &type);
    RunRange r = range_of_run(g, lanes, first, extent, ok);
    If whole, some;
    gen_if(g, &whole, r.whole);
    gen_store(g, d, v, at);
    gen_else(g, &whole);
    gen_if(g, &some, r.some);
    LLVMValueRef args[] = { row, bytes, r.first, none, r.extent, to_memory(g, d, v) };
    LLVMBuildCall2(g->b, type, f, args, 6, "");
    gen_endif(g, &some);
    gen_endif(g, &whole);
}

void memory_bypass(Gen *g, LLVMValueRef store)
{
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, false));
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->ctx, &one, 1);
    LLVMSetMetadata(
        store, LLVMGetMDKindIDInContext(g->ctx, "nontemporal", 11), LLVMMetadataAsValue(g->ctx, node));
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
    LLVMValueRef past = both(g, w->stream, icmp(g, LLVMIntEQ, low, gen_int(g, 0)));
    gen_if(g, &f, r->cut ? both(g, past, LLVMBuildNot(g->b, r->cut, "")) : past);
    for (int k = 0; k < n; k++) {
        LLVMValueRef s = LLVMBuildStore(g->b, words[k], gen_ptr(g, ptr, gen_int(g, k * part)));
        LLVMSetAlignment(s, part < 64 ? (unsigned)part : 64);
        memory_bypass(g, s);
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
    if (e->row_eval && memory_row_is_out(e->row_eval, r)) return;
    If f;
    gen_if(g, &f, cond);
    plain_store(g, w, r, v, ptr);
    if (lanes > 1 && !all_or_none(w, r)) {
        gen_else(g, &f);
        if (w->is_unit[va] && memory_has_masks(g, lanes))
            masked_store(
                g, w->dtype, v, ptr, lanes_in_range(g, coord[va], lanes, beginning(r->lo), r->end, r->ok));
        else walk_store(g, w, r, v, coord[va], va);
    }
    gen_endif(g, &f);
}
