/* vector_math.h: what math.c and exponential.c have in common: arithmetic on vectors of f32 (and f64, where
 * the name does not say otherwise), in LLVM's terms. */
#pragma once
#include "backends/cpu/cpu.h"

static inline LLVMValueRef K(Gen *g, LLVMValueRef like, double v)
{
    LLVMTypeRef t = LLVMTypeOf(like);
    bool vec = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
    LLVMValueRef c = LLVMConstReal(vec ? LLVMGetElementType(t) : t, v);
    return vec ? gen_splat(g, c, (int)LLVMGetVectorSize(t)) : c;
}

static inline LLVMValueRef I(Gen *g, LLVMValueRef like, uint32_t v)
{
    int n = gen_lanes(like);
    return gen_splat(g, LLVMConstInt(g->i32, v, false), n);
}

static inline LLVMValueRef add(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFAdd(g->b, a, b, ""); }
static inline LLVMValueRef sub(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFSub(g->b, a, b, ""); }
static inline LLVMValueRef mul(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFMul(g->b, a, b, ""); }
static inline LLVMValueRef fdiv(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFDiv(g->b, a, b, ""); }
static inline LLVMValueRef sel(Gen *g, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildSelect(g->b, c, a, b, ""); }
static inline LLVMValueRef lt(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFCmp(g->b, LLVMRealOLT, a, b, ""); }

static inline LLVMValueRef call(Gen *g, const char *name, LLVMValueRef *v, int n)
{ return gen_intrinsic(g, name, (LLVMTypeRef[]){ LLVMTypeOf(v[0]) }, 1, v, n); }

static inline LLVMValueRef fma_(Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef v[] = { a, b, c };
    return call(g, g->target->fma ? "llvm.fma" : "llvm.fmuladd", v, 3);
}

static inline LLVMValueRef abs_(Gen *g, LLVMValueRef x) { return call(g, "llvm.fabs", &x, 1); }
static inline LLVMValueRef round_(Gen *g, LLVMValueRef x) { return call(g, "llvm.roundeven", &x, 1); }
static inline LLVMValueRef as_int(Gen *g, LLVMValueRef x)
{ return LLVMBuildBitCast(g->b, x, gen_vec(g->i32, gen_lanes(x)), ""); }
static inline LLVMValueRef as_float(Gen *g, LLVMValueRef x)
{ return LLVMBuildBitCast(g->b, x, gen_vec(g->f32, gen_lanes(x)), ""); }
/* Of NaN and of what i32 does not hold: any integer, which the caller does not use or multiplies a NaN by.
 * Without the freeze the result would be poison, and so would everything be that LLVM computes of a constant
 * NaN. */
static inline LLVMValueRef to_int(Gen *g, LLVMValueRef x)
{ return LLVMBuildFreeze(g->b, LLVMBuildFPToSI(g->b, x, gen_vec(g->i32, gen_lanes(x)), ""), ""); }

/* c[0] + c[1] x + ... */
static inline LLVMValueRef poly(Gen *g, LLVMValueRef x, const double *c, int n)
{
    LLVMValueRef r = K(g, x, c[n - 1]);
    for (int k = n - 2; k >= 0; k--) r = fma_(g, r, x, K(g, x, c[k]));
    return r;
}

/* Do AVX-512's reduce and scalef serve? They take any exponent, infinite ones too. */
static inline bool has_scalef(Gen *g, LLVMValueRef x) { return g->target->avx512 && gen_lanes(x) % 16 == 0; }

/* min and max that keep a NaN x */
static inline LLVMValueRef at_most(Gen *g, LLVMValueRef x, double hi)
{ return sel(g, lt(g, K(g, x, hi), x), K(g, x, hi), x); }
static inline LLVMValueRef at_least(Gen *g, LLVMValueRef x, double lo)
{ return sel(g, lt(g, x, K(g, x, lo)), K(g, x, lo), x); }

/* exponential.c. The narrow ones are as exact as results of 16 bits show (plan_need). */
LLVMValueRef vector_exp(Gen *, LLVMValueRef x);
LLVMValueRef vector_exp2(Gen *, LLVMValueRef x);
LLVMValueRef vector_sigmoid(Gen *, LLVMValueRef x);
/* nan_follows: every use makes a NaN of a NaN x by itself. */
LLVMValueRef vector_sigmoid_narrow(Gen *, LLVMValueRef x, bool nan_follows);
/* a / b for b in [1, 2^100) */
LLVMValueRef vector_quotient(Gen *, LLVMValueRef a, LLVMValueRef b);
