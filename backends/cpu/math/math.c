/* math.c: elementary functions on vectors of f32, as polynomials (LLVM's own would call libm for every
 * element).
 *
 * Coefficients: Chebyshev interpolation of the stated function on the stated interval, computed with 200
 * bits. Errors in units of the last place (measured by tests/unit/cpu/test_math.c, AVX2 and AVX-512):
 * docs/cpu.md. Denormals, infinities and NaN are handled; `x` finite and huge is reduced exactly for sin and
 * cos. f64 calls libm, element by element. */
#include "backends/cpu/math/vector_math.h"
#include <math.h>

/* x = m 2^e with m in [sqrt(1/2), sqrt 2): f = m - 1 and e as float */
static void split(Gen *g, LLVMValueRef x, LLVMValueRef *f, LLVMValueRef *e)
{
    LLVMValueRef tiny = lt(g, x, K(g, x, 0x1p-126));
    LLVMValueRef y = sel(g, tiny, mul(g, x, K(g, x, 0x1p23)), x), bits = as_int(g, y);
    LLVMValueRef t = LLVMBuildSub(g->b, bits, I(g, x, 0x3f3504f3), ""); /* sqrt(1/2) */
    LLVMValueRef k = LLVMBuildAShr(g->b, t, I(g, x, 23), "");
    LLVMValueRef m = as_float(g, LLVMBuildSub(g->b, bits, LLVMBuildShl(g->b, k, I(g, x, 23), ""), ""));
    *f = sub(g, m, K(g, x, 1));
    *e = add(g, LLVMBuildSIToFP(g->b, k, LLVMTypeOf(x), ""), sel(g, tiny, K(g, x, -23), K(g, x, 0)));
}

static LLVMValueRef log_special(Gen *g, LLVMValueRef x, LLVMValueRef r)
{
    LLVMValueRef zero = LLVMBuildFCmp(g->b, LLVMRealOEQ, x, K(g, x, 0), ""),
                 inf = LLVMBuildFCmp(g->b, LLVMRealOEQ, x, K(g, x, __builtin_inf()), "");
    LLVMValueRef bad = LLVMBuildFCmp(g->b, LLVMRealULT, x, K(g, x, 0), "");
    r = sel(g, bad, K(g, x, __builtin_nan("")), r);
    r = sel(g, zero, K(g, x, -__builtin_inf()), r);
    return sel(g, inf, x, r);
}

/* log(1 + f) - f */
static LLVMValueRef log1p_rest(Gen *g, LLVMValueRef f)
{
    static const double c[] = { 0.3333333118, -0.24999996958, 0.200007157489, -0.166678023195, 0.142490576457,
        -0.124256873315, 0.116854199235, -0.114797338466, 0.0697161147145 };
    LLVMValueRef z = mul(g, f, f);
    return fma_(g, mul(g, z, f), poly(g, f, c, 9), mul(g, z, K(g, f, -0.5)));
}

static LLVMValueRef log_(Gen *g, LLVMValueRef x)
{
    LLVMValueRef f, e;
    split(g, x, &f, &e);
    LLVMValueRef t = fma_(g, e, K(g, x, 0x1.7f7d1cp-20), log1p_rest(g, f));
    return log_special(g, x, fma_(g, e, K(g, x, 0x1.62e400p-1), add(g, t, f)));
}

static LLVMValueRef log2_(Gen *g, LLVMValueRef x)
{
    LLVMValueRef f, e;
    split(g, x, &f, &e);
    LLVMValueRef t = log1p_rest(g, f), c = K(g, x, 0x1.715476p+0), c_lo = K(g, x, 0x1.4ae0bep-26);
    LLVMValueRef lo = fma_(g, t, c, mul(g, f, c_lo));
    LLVMValueRef hi = mul(g, f, c), hi_lo = fma_(g, f, c, LLVMBuildFNeg(g->b, hi, ""));
    LLVMValueRef s = add(g, e, hi), err = add(g, sub(g, hi, sub(g, s, e)), hi_lo); /* |e| >= |hi| or e = 0 */
    return log_special(g, x, add(g, s, add(g, err, lo)));
}

/* --- sin, cos ---------------------------------------------------------------------------------------- */

/* The bits of 2/pi after the point, 32 in a word, after a word of zeros. */
static LLVMValueRef two_over_pi(Gen *g)
{
    static const uint32_t words[] = { 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
        0x3c439041, 0xfe5163ab };
    LLVMValueRef init[8], table = LLVMAddGlobal(g->module, LLVMArrayType2(g->i32, 8), "tile.two_over_pi");
    for (int k = 0; k < 8; k++) init[k] = LLVMConstInt(g->i32, words[k], false);
    LLVMSetInitializer(table, LLVMConstArray2(g->i32, init, 8));
    LLVMSetLinkage(table, LLVMInternalLinkage);
    LLVMSetGlobalConstant(table, true);
    return table;
}

/* The reduction of a huge float: x mod pi/2 with 2/pi to 160 bits, in integers. Emitted once, called for
 * single elements:
 *     double tile.reduce(float |x|, i32 *quadrant) */
static LLVMValueRef huge_reducer(Gen *g, LLVMTypeRef *type)
{
    *type = LLVMFunctionType(g->f64, (LLVMTypeRef[]){ g->f32, g->ptr }, 2, false);
    LLVMValueRef f = LLVMGetNamedFunction(g->module, "tile.reduce");
    if (f) return f;
    LLVMBasicBlockRef here = gen_here(g);
    LLVMMetadataRef di = g->di ? LLVMGetCurrentDebugLocation2(g->b) : NULL;
    if (g->di) LLVMSetCurrentDebugLocation2(g->b, NULL);
    f = LLVMAddFunction(g->module, "tile.reduce", *type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(g->ctx, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
    LLVMValueRef table = two_over_pi(g);
    gen_at(g, LLVMAppendBasicBlockInContext(g->ctx, f, "entry"));
    /* x = m 2^(e), m of 24 bits. x * 2/pi mod 4: the bits of 2/pi from 2^(2 - e) down matter. With s = e + 30
     * (e >= -30 here), take 128 bits of the table from bit s on (the first word is zero): their value weighs
     * 2^-(s - 32) and m * them mod 2^128 has the quadrant in its top two bits. */
    LLVMTypeRef i128 = LLVMIntTypeInContext(g->ctx, 128);
    LLVMValueRef bits = LLVMBuildBitCast(g->b, LLVMGetParam(f, 0), g->i32, "");
    LLVMValueRef e = LLVMBuildSub(g->b, LLVMBuildLShr(g->b, bits, LLVMConstInt(g->i32, 23, false), ""),
        LLVMConstInt(g->i32, 150, false), "");
    LLVMValueRef m = LLVMBuildOr(g->b, LLVMBuildAnd(g->b, bits, LLVMConstInt(g->i32, 0x7fffff, false), ""),
        LLVMConstInt(g->i32, 0x800000, false), "");
    LLVMValueRef s = LLVMBuildAdd(g->b, e, LLVMConstInt(g->i32, 30, false), "");
    LLVMValueRef word = LLVMBuildLShr(g->b, s, LLVMConstInt(g->i32, 5, false), ""),
                 shift = LLVMBuildAnd(g->b, s, LLVMConstInt(g->i32, 31, false), "");
    LLVMValueRef acc = LLVMConstInt(i128, 0, false), last = NULL;
    for (unsigned k = 0; k < 5; k++) {
        LLVMValueRef at = LLVMBuildAnd(g->b, LLVMBuildAdd(g->b, word, LLVMConstInt(g->i32, k, false), ""),
            LLVMConstInt(g->i32, 7, false), "");
        LLVMValueRef w = LLVMBuildLoad2(g->b, g->i32, LLVMBuildGEP2(g->b, g->i32, table, &at, 1, ""), "");
        if (k == 4) last = LLVMBuildZExt(g->b, w, g->i64, "");
        else
            acc = LLVMBuildOr(g->b, LLVMBuildShl(g->b, acc, LLVMConstInt(i128, 32, false), ""),
                LLVMBuildZExt(g->b, w, i128, ""), "");
    }
    acc = LLVMBuildShl(g->b, acc, LLVMBuildZExt(g->b, shift, i128, ""), "");
    LLVMValueRef low = LLVMBuildLShr(
        g->b, LLVMBuildShl(g->b, last, LLVMBuildZExt(g->b, shift, g->i64, ""), ""), gen_int(g, 32), "");
    acc = LLVMBuildOr(g->b, acc, LLVMBuildZExt(g->b, low, i128, ""), "");
    LLVMValueRef prod = LLVMBuildMul(g->b, acc, LLVMBuildZExt(g->b, m, i128, ""), "");
    /* Round to the nearest quadrant. The remainder is a signed fraction of a quadrant. */
    LLVMValueRef quarter =
        LLVMBuildShl(g->b, LLVMConstInt(i128, 1, false), LLVMConstInt(i128, 125, false), "");
    LLVMValueRef q =
        LLVMBuildLShr(g->b, LLVMBuildAdd(g->b, prod, quarter, ""), LLVMConstInt(i128, 126, false), "");
    LLVMBuildStore(g->b, LLVMBuildTrunc(g->b, q, g->i32, ""), LLVMGetParam(f, 1));
    LLVMValueRef frac =
        LLVMBuildSub(g->b, prod, LLVMBuildShl(g->b, q, LLVMConstInt(i128, 126, false), ""), "");
    LLVMValueRef top = LLVMBuildTrunc(g->b, LLVMBuildAShr(g->b, frac, LLVMConstInt(i128, 62, false), ""),
        g->i64, ""); /* in units of 2^-64 */
    LLVMValueRef r = LLVMBuildFMul(g->b, LLVMBuildSIToFP(g->b, top, g->f64, ""),
        LLVMConstReal(g->f64, 0x1p-64 * 1.57079632679489661923), "");
    LLVMBuildRet(g->b, r);
    gen_at(g, here);
    if (g->di) LLVMSetCurrentDebugLocation2(g->b, di);
    return f;
}

/* sin (quarter 0) or cos (quarter 1). Reduction in f64, where pi/2 in two parts suffices below 2^28. */
static LLVMValueRef sincos_(Gen *g, LLVMValueRef x, unsigned quarter)
{
    static const double s[] = { -0.166666666636, 0.00833333175999, -0.000198400255466, 2.72420921187e-6 };
    static const double c[] = { 0.0416666666641, -0.00138888875763, 2.48005493076e-5, -2.72944208444e-7 };
    int lanes = gen_lanes(x);
    LLVMTypeRef wide = gen_vec(g->f64, lanes);
    LLVMValueRef huge = LLVMBuildFCmp(g->b, LLVMRealOGE, abs_(g, x), K(g, x, 0x1p28), "");
    LLVMValueRef d = LLVMBuildFPExt(g->b, sel(g, huge, K(g, x, 0), x), wide, "");
    LLVMValueRef n = round_(g, mul(g, d, K(g, d, 0.636619772367581343)));
    LLVMValueRef first[] = { n, K(g, d, -0x1.921fb54442d18p+0), d };
    LLVMValueRef second[] = { n, K(g, d, -0x1.1a62633145c07p-54),
        call(g, "llvm.fma", first, 3) }; /* must be fused */
    LLVMValueRef r = call(g, "llvm.fma", second, 3);
    LLVMValueRef q = to_int(g, n);
    LLVMValueRef rf = LLVMBuildFPTrunc(g->b, r, gen_vec(g->f32, lanes), "");
    LLVMValueRef cell_r = gen_alloca(g, LLVMTypeOf(rf), "r"), cell_q = gen_alloca(g, LLVMTypeOf(q), "q"),
                 quadrant = gen_alloca(g, g->i32, "quadrant");
    LLVMBuildStore(g->b, rf, cell_r);
    LLVMBuildStore(g->b, q, cell_q);
    LLVMValueRef any = huge;
    if (lanes > 1)
        any = gen_intrinsic(g, "llvm.vector.reduce.or", (LLVMTypeRef[]){ LLVMTypeOf(huge) }, 1, &huge, 1);
    If f, one;
    Loop l;
    gen_if(g, &f, any);
    LLVMValueRef cell_x = gen_alloca(g, LLVMTypeOf(x), "x");
    LLVMBuildStore(g->b, x, cell_x);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, lanes), 1);
    LLVMValueRef xk = LLVMBuildLoad2(g->b, g->f32, LLVMBuildGEP2(g->b, g->f32, cell_x, &k, 1, ""), ""),
                 ax = abs_(g, xk);
    LLVMValueRef is_huge = LLVMBuildAnd(g->b, LLVMBuildFCmp(g->b, LLVMRealOGE, ax, K(g, ax, 0x1p28), ""),
        LLVMBuildFCmp(g->b, LLVMRealONE, ax, K(g, ax, __builtin_inf()), ""), "");
    gen_if(g, &one, is_huge);
    LLVMTypeRef type;
    LLVMValueRef fn = huge_reducer(g, &type);
    LLVMValueRef rk = LLVMBuildFPTrunc(
        g->b, LLVMBuildCall2(g->b, type, fn, (LLVMValueRef[]){ ax, quadrant }, 2, ""), g->f32, "");
    LLVMValueRef qk = LLVMBuildLoad2(g->b, g->i32, quadrant, ""), neg = lt(g, xk, K(g, xk, 0));
    LLVMBuildStore(
        g->b, sel(g, neg, LLVMBuildFNeg(g->b, rk, ""), rk), LLVMBuildGEP2(g->b, g->f32, cell_r, &k, 1, ""));
    LLVMBuildStore(
        g->b, sel(g, neg, LLVMBuildNeg(g->b, qk, ""), qk), LLVMBuildGEP2(g->b, g->i32, cell_q, &k, 1, ""));
    gen_endif(g, &one);
    gen_loop_end(g, &l);
    gen_endif(g, &f);
    rf = LLVMBuildLoad2(g->b, LLVMTypeOf(rf), cell_r, "");
    q = LLVMBuildAdd(g->b, LLVMBuildLoad2(g->b, LLVMTypeOf(q), cell_q, ""), I(g, x, quarter), "");
    LLVMValueRef z = mul(g, rf, rf);
    LLVMValueRef sn = fma_(g, mul(g, rf, z), poly(g, z, s, 4), rf);
    LLVMValueRef cs = fma_(g, mul(g, z, z), poly(g, z, c, 4), fma_(g, z, K(g, x, -0.5), K(g, x, 1)));
    LLVMValueRef odd = LLVMBuildICmp(g->b, LLVMIntNE, LLVMBuildAnd(g->b, q, I(g, x, 1), ""), I(g, x, 0), "");
    LLVMValueRef sign = LLVMBuildShl(g->b, LLVMBuildAnd(g->b, q, I(g, x, 2), ""), I(g, x, 30), "");
    LLVMValueRef v = as_float(g, LLVMBuildXor(g->b, as_int(g, sel(g, odd, cs, sn)), sign, ""));
    LLVMValueRef finite = lt(g, abs_(g, x), K(g, x, __builtin_inf()));
    v = sel(g, finite, v, K(g, x, __builtin_nan("")));
    if (quarter == 0) v = sel(g, LLVMBuildFCmp(g->b, LLVMRealOEQ, x, K(g, x, 0), ""), x, v); /* keeps -0 */
    return v;
}

/* --- the others -------------------------------------------------------------------------------------- */

static LLVMValueRef with_sign_of(Gen *g, LLVMValueRef mag, LLVMValueRef x)
{
    LLVMValueRef v[] = { mag, x };
    return call(g, "llvm.copysign", v, 2);
}

static LLVMValueRef tanh_(Gen *g, LLVMValueRef x)
{
    static const double c[] = { -0.333333331721, 0.133333035569, -0.0539592595772, 0.021768918651,
        -0.00834394551584, 0.00229274481618 };
    LLVMValueRef a = abs_(g, x), z = mul(g, x, x), one = K(g, x, 1);
    LLVMValueRef small = fma_(g, mul(g, x, z), poly(g, z, c, 6), x);
    LLVMValueRef e = vector_exp(g, at_most(g, add(g, a, a), 40));
    LLVMValueRef large = sub(g, one, vector_quotient(g, K(g, x, 2), add(g, e, one)));
    return with_sign_of(g, sel(g, lt(g, a, K(g, x, 0.625)), small, large), x); /* of -0 too */
}

static LLVMValueRef erf_(Gen *g, LLVMValueRef x)
{
    static const double p[] = { 0.12837916706, -0.37612638468, 0.112837824952, -0.0268654307277,
        0.00522103180786, -0.000848408040554, 0.000112659590256, -9.66704457149e-6 };
    static const double t[] = { 0.00041632921771, -1.13067514418, -0.630953029817, -0.111055017372,
        0.027099523294, -0.00506494692022, 0.000685836683012, -6.22983532516e-5, 3.32168459073e-6,
        -7.58268196973e-8 };
    LLVMValueRef a = abs_(g, x), small = fma_(g, x, poly(g, mul(g, x, x), p, 8), x);
    LLVMValueRef large = sub(g, K(g, x, 1), vector_exp(g, poly(g, at_most(g, a, 4), t, 10)));
    return sel(g, lt(g, a, K(g, x, 1)), small, with_sign_of(g, large, x));
}

/* libm, element by element. */
static LLVMValueRef libm(Gen *g, const char *name, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMFunctionType(g->f64, &g->f64, 1, false);
    LLVMValueRef f = LLVMGetNamedFunction(g->module, name);
    if (!f) f = LLVMAddFunction(g->module, name, type);
    int n = gen_lanes(x);
    if (n == 1) return LLVMBuildCall2(g->b, type, f, &x, 1, "");
    LLVMValueRef r = LLVMGetPoison(LLVMTypeOf(x));
    for (int k = 0; k < n; k++) {
        LLVMValueRef v = LLVMBuildExtractElement(g->b, x, gen_int(g, k), "");
        r = LLVMBuildInsertElement(g->b, r, LLVMBuildCall2(g->b, type, f, &v, 1, ""), gen_int(g, k), "");
    }
    return r;
}

LLVMValueRef math_fn(Gen *g, Op op, LLVMValueRef x, Need need)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    bool is_f64 = (LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t) == g->f64;
    if (need != NEED_ALL && !is_f64) {
        if (op == OP_EXP) return vector_exp2_narrow(g, x, 0x1.715476p+0, false);
        if (op == OP_EXP2) return vector_exp2_narrow(g, x, 1, false);
        if (op == OP_SIGMOID) return vector_sigmoid_narrow(g, x, need == NEED_16_BITS_NO_NAN);
    }
    switch (op_as_function(op)) {
    case FUNCTION_SQRT: return call(g, "llvm.sqrt", &x, 1);
    case FUNCTION_RSQRT: return fdiv(g, K(g, x, 1), call(g, "llvm.sqrt", &x, 1));
    case FUNCTION_FLOOR: return call(g, "llvm.floor", &x, 1);
    case FUNCTION_CEIL: return call(g, "llvm.ceil", &x, 1);
    case FUNCTION_ROUND: return round_(g, x);
    case FUNCTION_EXP: return is_f64 ? libm(g, "exp", x) : vector_exp(g, x);
    case FUNCTION_EXP2: return is_f64 ? libm(g, "exp2", x) : vector_exp2(g, x);
    case FUNCTION_LOG: return is_f64 ? libm(g, "log", x) : log_(g, x);
    case FUNCTION_LOG2: return is_f64 ? libm(g, "log2", x) : log2_(g, x);
    case FUNCTION_SIN: return is_f64 ? libm(g, "sin", x) : sincos_(g, x, 0);
    case FUNCTION_COS: return is_f64 ? libm(g, "cos", x) : sincos_(g, x, 1);
    case FUNCTION_TANH: return is_f64 ? libm(g, "tanh", x) : tanh_(g, x);
    case FUNCTION_ERF: return is_f64 ? libm(g, "erf", x) : erf_(g, x);
    case FUNCTION_SIGMOID: {
        if (!is_f64) return vector_sigmoid(g, x);
        LLVMValueRef e = libm(g, "exp", LLVMBuildFNeg(g->b, abs_(g, x), ""));
        return fdiv(g, sel(g, lt(g, x, K(g, x, 0)), e, K(g, x, 1)), add(g, K(g, x, 1), e));
    }
    }
    ir_fail(g->session, g->func->loc, "the CPU backend has no function %s", op_info[op].name);
}
