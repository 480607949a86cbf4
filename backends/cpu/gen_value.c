/* gen_value.c: LLVM types, constants, vectors, memory accesses and messages, of which every part of the CPU
 * backend makes its code (cpu.h). */
#include "backends/cpu/cpu.h"

LLVMTypeRef gen_vec(LLVMTypeRef t, int lanes) { return lanes == 1 ? t : LLVMVectorType(t, (unsigned)lanes); }

static LLVMTypeRef scalar_type(Gen *g, DType d)
{
    switch (d) {
    case DT_BOOL: return g->i1;
    case DT_I8:
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return g->i8;
    case DT_I16:
    case DT_U16:
    case DT_BF16: return g->i16;
    case DT_I32:
    case DT_U32: return g->i32;
    case DT_I64:
    case DT_U64:
    case DT_INDEX: return g->i64;
    case DT_F16: return g->f16;
    case DT_F32: return g->f32;
    case DT_F64: return g->f64;
    case DT_COUNT: break;
    }
    return NULL;
}

LLVMTypeRef gen_type(Gen *g, DType d, int lanes) { return gen_vec(scalar_type(g, d), lanes); }
LLVMTypeRef gen_mem_type(Gen *g, DType d, int lanes)
{ return gen_vec(d == DT_BOOL ? g->i8 : scalar_type(g, d), lanes); }

int gen_lanes(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

LLVMValueRef gen_int(Gen *g, int64_t v) { return LLVMConstInt(g->i64, (uint64_t)v, true); }

static LLVMValueRef const_splat(Gen *g, LLVMValueRef c, int lanes)
{
    if (lanes == 1) return c;
    LLVMValueRef *v = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) v[k] = c;
    return LLVMConstVector(v, (unsigned)lanes);
}

LLVMValueRef gen_splat(Gen *g, LLVMValueRef v, int lanes)
{
    if (lanes == 1 || gen_lanes(v) > 1) return v;
    if (LLVMIsConstant(v)) return const_splat(g, v, lanes);
    LLVMTypeRef t = gen_vec(LLVMTypeOf(v), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(g->b, LLVMGetPoison(t), v, gen_int(g, 0), "");
    return LLVMBuildShuffleVector(g->b, one, LLVMGetPoison(t), LLVMConstNull(gen_vec(g->i32, lanes)), "");
}

LLVMValueRef gen_const_float(Gen *g, double v, int lanes)
{ return const_splat(g, LLVMConstReal(g->f32, v), lanes); }

LLVMValueRef gen_const(Gen *g, DType d, Scalar v, int lanes)
{
    LLVMValueRef c = NULL;
    switch (d) {
    case DT_F32:
    case DT_F64:
    case DT_F16: c = LLVMConstReal(scalar_type(g, d), v.f); break;
    case DT_BF16:
    case DT_F8E4M3:
    case DT_F8E5M2: c = LLVMConstInt(scalar_type(g, d), scalar_bits(d, v), false); break;
    case DT_BOOL: c = LLVMConstInt(g->i1, v.i != 0, false); break;
    case DT_I8:
    case DT_I16:
    case DT_I32:
    case DT_I64:
    case DT_U8:
    case DT_U16:
    case DT_U32:
    case DT_U64:
    case DT_INDEX: c = LLVMConstInt(scalar_type(g, d), (uint64_t)v.i, true); break;
    case DT_COUNT: break;
    }
    return const_splat(g, c, lanes);
}

LLVMValueRef gen_iota(Gen *g, LLVMTypeRef elem, int lanes)
{
    if (lanes == 1) return LLVMConstInt(elem, 0, false);
    LLVMValueRef *v = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) v[k] = LLVMConstInt(elem, (unsigned)k, false);
    return LLVMConstVector(v, (unsigned)lanes);
}

LLVMValueRef gen_shuffle(Gen *g, LLVMValueRef a, LLVMValueRef b, const int *mask, int n)
{
    LLVMValueRef *m = arena_array(g->arena, LLVMValueRef, (size_t)n);
    for (int k = 0; k < n; k++)
        m[k] = mask[k] < 0 ? LLVMGetPoison(g->i32) : LLVMConstInt(g->i32, (unsigned)mask[k], false);
    return LLVMBuildShuffleVector(
        g->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(m, (unsigned)n), "");
}

/* f of each 16 lanes of a and b (b NULL: of a alone): AVX-512's own instructions on vectors of any multiple
 * of 16. */
LLVMValueRef gen_by(
    Gen *g, int width, LLVMValueRef a, LLVMValueRef b, LLVMValueRef (*f)(Gen *, LLVMValueRef, LLVMValueRef))
{
    int lanes = gen_lanes(a), mask[64];
    if (lanes == width) return f(g, a, b);
    LLVMValueRef part[8];
    for (int k = 0; k < lanes / width; k++) {
        for (int j = 0; j < width; j++) mask[j] = width * k + j;
        part[k] = f(g, gen_shuffle(g, a, NULL, mask, width), b ? gen_shuffle(g, b, NULL, mask, width) : NULL);
    }
    for (int j = 0; j < 64; j++) mask[j] = j;
    for (int n = lanes / width, w = width; n > 1; n /= 2, w *= 2)
        for (int k = 0; k < n / 2; k++) part[k] = gen_shuffle(g, part[2 * k], part[2 * k + 1], mask, 2 * w);
    return part[0];
}

LLVMValueRef gen_by_16(
    Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef (*f)(Gen *, LLVMValueRef, LLVMValueRef))
{ return gen_by(g, 16, a, b, f); }

LLVMBasicBlockRef gen_block(Gen *g, const char *name)
{ return LLVMAppendBasicBlockInContext(g->ctx, g->fn, name); }
LLVMBasicBlockRef gen_here(Gen *g) { return LLVMGetInsertBlock(g->b); }
void gen_at(Gen *g, LLVMBasicBlockRef b) { LLVMPositionBuilderAtEnd(g->b, b); }

LLVMValueRef gen_alloca(Gen *g, LLVMTypeRef t, const char *name)
{
    LLVMBasicBlockRef here = gen_here(g);
    gen_at(g, g->entry);
    LLVMValueRef a = LLVMBuildAlloca(g->b, t, name);
    gen_at(g, here);
    return a;
}

LLVMValueRef gen_intrinsic(
    Gen *g, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *args, int n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) ir_fail(g->session, g->func->loc, "no intrinsic %s", name);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, types, (size_t)n_types);
    return LLVMBuildCall2(
        g->b, LLVMIntrinsicGetType(g->ctx, id, types, (size_t)n_types), f, args, (unsigned)n_args, "");
}

LLVMValueRef gen_ptr(Gen *g, LLVMValueRef base, LLVMValueRef byte_offset)
{
    if (LLVMIsAConstantInt(byte_offset) && LLVMConstIntGetZExtValue(byte_offset) == 0) return base;
    return LLVMBuildGEP2(g->b, g->i8, base, &byte_offset, 1, "");
}

LLVMValueRef gen_again(Gen *g)
{
    enum { AGAIN = 4 };
    return LLVMBuildICmp(g->b, LLVMIntNE, LLVMGetParam(g->fn, AGAIN), LLVMConstInt(g->i32, 0, false), "");
}

LLVMValueRef gen_buf(Gen *g, const Buf *b, int64_t byte_offset)
{
    if (b->place) return gen_ptr(g, b->place, gen_int(g, byte_offset));
    return gen_ptr(g, g->scratch, gen_int(g, buf_root((Buf *)b)->offset + byte_offset));
}

LLVMValueRef gen_load(Gen *g, DType d, int lanes, LLVMValueRef ptr)
{
    LLVMValueRef v = LLVMBuildLoad2(g->b, gen_mem_type(g, d, lanes), ptr, "");
    LLVMSetAlignment(v, (unsigned)dtype_bytes(d));
    if (d == DT_BOOL) v = LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    return v;
}

LLVMValueRef gen_store(Gen *g, DType d, LLVMValueRef v, LLVMValueRef ptr)
{
    if (d == DT_BOOL) v = LLVMBuildZExt(g->b, v, gen_vec(g->i8, gen_lanes(v)), "");
    LLVMValueRef s = LLVMBuildStore(g->b, v, ptr);
    LLVMSetAlignment(s, (unsigned)dtype_bytes(d));
    return s;
}

/* Debug locations: line and column of the .tile source. */
void gen_loc(Gen *g, Loc loc)
{
    if (!g->di) return;
    int line = 0, column = 0;
    if (loc.file) diag_position(g->session, loc, &line, &column);
    if (!line) return;
    LLVMSetCurrentDebugLocation2(
        g->b, LLVMDIBuilderCreateDebugLocation(g->ctx, (unsigned)line, (unsigned)column, g->di_scope, NULL));
}

unsigned gen_message(Gen *g, const char *text)
{
    for (size_t k = 0; k < g->messages.len; k++)
        if (!strcmp(g->messages.data[k], text)) return (unsigned)k;
    vec_push(g->arena, &g->messages, text);
    return (unsigned)(g->messages.len - 1);
}
