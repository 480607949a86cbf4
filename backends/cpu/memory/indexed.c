/* indexed.c: gathers, scatters, atomics. */
#include "backends/cpu/memory/memory.h"

typedef struct Indexed {
    MemParts m;
    DType dtype;
    LLVMValueRef ok, ptr;
} Indexed;

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
        inside = both(
            g, inside, icmp(g, LLVMIntULT, idx, gen_splat(g, memory_extent(g, x->m.param, a), e->lanes)));
        LLVMValueRef step = gen_splat(g, memory_stride(g, x->m.param, a, dtype_bytes(x->dtype)), e->lanes);
        LLVMValueRef o = LLVMBuildMul(g->b, idx, step, "");
        off = off ? LLVMBuildAdd(g->b, off, o, "") : o;
    }
    x->ok = x->m.mask ? both(g, inside, nest_eval(e, x->m.mask, coord, va)) : inside;
    x->ptr = LLVMBuildGEP2(g->b, g->i8, gen_slot(g, SLOT_DATA, x->m.param, 0, DT_U64), &off, 1, "");
}

LLVMValueRef memory_gather(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    ir_mem_parts(i, &x.m);
    x.dtype = g->func->params[x.m.param].type->dtype;
    LLVMValueRef pad = x.m.pad ? gen_scalar(g, x.m.pad) : LLVMConstNull(gen_type(g, x.dtype, 1));
    LLVMValueRef run = memory_gather_run(e, &x.m, pad, coord, va);
    if (run) return run;
    indexed(e, i, coord, va, &x);
    LLVMTypeRef t = gen_type(g, x.dtype, 1);
    track_element(g, i, x.m.param, x.ok, x.ptr, e->lanes);
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
    LLVMValueRef v =
        gen_intrinsic(g, "llvm.masked.gather", types, 2, (LLVMValueRef[]){ x.ptr, x.ok, fill }, 3);
    if (x.dtype == DT_F16) v = LLVMBuildBitCast(g->b, v, gen_type(g, DT_F16, e->lanes), "");
    return to_register(g, x.dtype, v);
}

void memory_scatter(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    ir_mem_parts(i, &x.m);
    if (memory_scatter_run(e, &x.m, coord, va)) return;
    indexed(e, i, coord, va, &x);
    LLVMValueRef v = nest_eval(e, x.m.values[0], coord, va);
    If f;
    track_element(g, i, x.m.param, x.ok, x.ptr, e->lanes);
    if (e->lanes == 1) {
        gen_if(g, &f, x.ok);
        gen_store(g, x.dtype, v, x.ptr);
        gen_endif(g, &f);
        return;
    }
    /* In order, because the last of several writes to one element wins. */
    for (int k = 0; k < e->lanes; k++) {
        gen_if(g, &f, LLVMBuildExtractElement(g->b, x.ok, gen_int(g, k), ""));
        gen_store(g, x.dtype, LLVMBuildExtractElement(g->b, v, gen_int(g, k), ""),
            LLVMBuildExtractElement(g->b, x.ptr, gen_int(g, k), ""));
        gen_endif(g, &f);
    }
}

static LLVMAtomicOrdering ordering(const Instr *i)
{
    _Static_assert(SEM_COUNT_ == 4, "each order has a case");
    switch (ir_attr_int(i, ATTR_SEM, SEM_RELAXED)) {
    case SEM_ACQUIRE: return LLVMAtomicOrderingAcquire;
    case SEM_RELEASE: return LLVMAtomicOrderingRelease;
    case SEM_ACQ_REL: return LLVMAtomicOrderingAcquireRelease;
    default: return LLVMAtomicOrderingMonotonic;
    }
}

static LLVMTypeRef bits_type(Gen *g, DType d)
{ return dtype_bits(d) == 16 ? g->i16 : dtype_bits(d) == 32 ? g->i32 : g->i64; }

static LLVMValueRef as_bits(Gen *g, DType d, LLVMValueRef v)
{ return LLVMBuildBitCast(g->b, v, bits_type(g, d), ""); }

/* Reads, combines, compares and swaps until no other thread has changed the element in between. */
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
    LLVMValueRef fresh =
        as_bits(g, x->dtype, elem_op(g, op, x->dtype, (LLVMValueRef[]){ old, value }, NEED_ALL));
    LLVMAtomicOrdering fail = order == LLVMAtomicOrderingAcquireRelease || order == LLVMAtomicOrderingAcquire
                                  ? LLVMAtomicOrderingAcquire
                                  : LLVMAtomicOrderingMonotonic;
    LLVMValueRef r = LLVMBuildAtomicCmpXchg(g->b, x->ptr, seen, fresh, order, fail, false);
    LLVMAddIncoming(seen, (LLVMValueRef[]){ first, LLVMBuildExtractValue(g->b, r, 0, "") },
        (LLVMBasicBlockRef[]){ before, gen_here(g) }, 2);
    LLVMBuildCondBr(g->b, LLVMBuildExtractValue(g->b, r, 1, ""), done, loop);
    gen_at(g, done);
    return old;
}

void memory_add(Gen *g, DType d, LLVMValueRef v, LLVMValueRef ptr)
{
    Indexed x = { .dtype = d, .ptr = ptr };
    if (dtype_is_float(d)) swap_loop(g, &x, v, OP_ADD, LLVMAtomicOrderingMonotonic);
    else LLVMBuildAtomicRMW(g->b, LLVMAtomicRMWBinOpAdd, ptr, v, LLVMAtomicOrderingMonotonic, false);
}

static LLVMValueRef atomic_value(Eval *e, Instr *i, const Indexed *x, LLVMValueRef *v)
{
    Gen *g = e->g;
    LLVMAtomicOrdering order = ordering(i);
    LLVMTypeRef t = gen_type(g, x->dtype, 1);
    if (i->op == OP_ATOMIC_CAS) {
        LLVMAtomicOrdering fail =
            order == LLVMAtomicOrderingAcquireRelease || order == LLVMAtomicOrderingAcquire
                ? LLVMAtomicOrderingAcquire
                : LLVMAtomicOrderingMonotonic;
        LLVMValueRef r = LLVMBuildAtomicCmpXchg(
            g->b, x->ptr, as_bits(g, x->dtype, v[0]), as_bits(g, x->dtype, v[1]), order, fail, false);
        return LLVMBuildBitCast(g->b, LLVMBuildExtractValue(g->b, r, 0, ""), t, "");
    }
    bool f = dtype_is_float(x->dtype), sgn = dtype_is_signed(x->dtype);
    LLVMAtomicRMWBinOp op = LLVMAtomicRMWBinOpXchg;
    _Static_assert(RMW_COUNT_ == 7, "each way to combine has a case");
    switch (ir_attr_int(i, ATTR_RMW, RMW_ADD)) {
    case RMW_ADD:
        if (f) return swap_loop(g, x, v[0], OP_ADD, order);
        op = LLVMAtomicRMWBinOpAdd;
        break;
    case RMW_MAX:
        if (f) return swap_loop(g, x, v[0], OP_MAX, order);
        op = sgn ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
        break;
    case RMW_MIN:
        if (f) return swap_loop(g, x, v[0], OP_MIN, order);
        op = sgn ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
        break;
    case RMW_AND: op = LLVMAtomicRMWBinOpAnd; break;
    case RMW_OR: op = LLVMAtomicRMWBinOpOr; break;
    case RMW_XOR: op = LLVMAtomicRMWBinOpXor; break;
    case RMW_EXCH: break;
    }
    LLVMValueRef old = LLVMBuildAtomicRMW(g->b, op, x->ptr, as_bits(g, x->dtype, v[0]), order, false);
    return LLVMBuildBitCast(g->b, old, t, "");
}

LLVMValueRef memory_atomic(Eval *e, Instr *i, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Indexed x;
    indexed(e, i, coord, va, &x);
    LLVMValueRef v[2] = { nest_eval(e, x.m.values[0], coord, va),
        x.m.values[1] ? nest_eval(e, x.m.values[1], coord, va) : NULL };
    LLVMTypeRef t = gen_type(g, x.dtype, 1);
    LLVMValueRef cell = gen_alloca(g, t, "old");
    LLVMBuildStore(g->b, LLVMConstNull(t), cell);
    If f;
    track_element(g, i, x.m.param, x.ok, x.ptr, 1);
    gen_if(g, &f, x.ok);
    LLVMBuildStore(g->b, atomic_value(e, i, &x, v), cell);
    gen_endif(g, &f);
    return LLVMBuildLoad2(g->b, t, cell, "");
}
