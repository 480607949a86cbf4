/* convert.c: conversions between dtypes. f16 is LLVM's half (F16C, AVX-512); bf16 and fp8 are held as bits
 * and rounded with integer arithmetic: AVX-512's own bf16 conversion flushes denormals, which ops.def does
 * not allow. */
#include "backends/cpu/cpu.h"

static LLVMValueRef ki(Gen *g, LLVMValueRef like, LLVMTypeRef t, uint64_t v)
{ return gen_splat(g, LLVMConstInt(t, v, false), gen_lanes(like)); }
static LLVMValueRef i32c(Gen *g, LLVMValueRef like, uint32_t v) { return ki(g, like, g->i32, v); }
static LLVMValueRef cast_i32(Gen *g, LLVMValueRef f)
{ return LLVMBuildBitCast(g->b, f, gen_vec(g->i32, gen_lanes(f)), ""); }
static LLVMValueRef cast_f32(Gen *g, LLVMValueRef i)
{ return LLVMBuildBitCast(g->b, i, gen_vec(g->f32, gen_lanes(i)), ""); }
static LLVMValueRef fk(Gen *g, LLVMValueRef like, double v) { return gen_const_float(g, v, gen_lanes(like)); }

/* The f32 that was narrowed to the f16 `v` without a loss, as an integer of 8 bits is; else NULL. */
static LLVMValueRef before_f16(LLVMValueRef v)
{
    LLVMValueRef x = LLVMIsAFPTruncInst(v) ? LLVMGetOperand(v, 0) : NULL;
    if (!x || (!LLVMIsAUIToFPInst(x) && !LLVMIsASIToFPInst(x))) return NULL;
    LLVMTypeRef from = LLVMTypeOf(LLVMGetOperand(x, 0)), wide = LLVMTypeOf(x);
    if (LLVMGetTypeKind(from) == LLVMVectorTypeKind) from = LLVMGetElementType(from);
    if (LLVMGetTypeKind(wide) == LLVMVectorTypeKind) wide = LLVMGetElementType(wide);
    bool exact = LLVMGetIntTypeWidth(from) <= 8 && LLVMGetTypeKind(wide) == LLVMFloatTypeKind;
    return exact ? x : NULL;
}

LLVMValueRef upper_halves_of(Gen *g, LLVMValueRef v)
{
    LLVMValueRef x = LLVMIsATruncInst(v) ? LLVMGetOperand(v, 0) : NULL;
    if (!x || !LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMLShr) return NULL;
    return LLVMGetOperand(x, 1) == i32c(g, v, 16) ? LLVMGetOperand(x, 0) : NULL;
}

/* The element that a vector has in all lanes (gen_splat), if it is not a constant; else NULL. */
static LLVMValueRef splat_of(LLVMValueRef v)
{
    LLVMValueRef one = LLVMIsAShuffleVectorInst(v) ? LLVMGetOperand(v, 0) : NULL;
    if (!one || !LLVMIsAInsertElementInst(one) || !LLVMIsConstant(LLVMGetOperand(one, 0))) return NULL;
    for (unsigned k = 0; k < LLVMGetNumMaskElements(v); k++)
        if (LLVMGetMaskValue(v, k)) return NULL;
    return LLVMIsNull(LLVMGetOperand(one, 2)) ? LLVMGetOperand(one, 1) : NULL;
}

static LLVMValueRef from_bf16(Gen *, LLVMValueRef);

/* A vector of f32 of this bf16, from memory without a detour through scalar registers where it fills one. */
static LLVMValueRef splat_bf16(Gen *g, LLVMValueRef one, int lanes)
{
    if (!g->target->avx512 || lanes != 16) return gen_splat(g, from_bf16(g, one), lanes);
    LLVMValueRef twice = LLVMBuildBitCast(g->b, gen_splat(g, one, 32), gen_vec(g->i32, 16), "");
    return cast_f32(g, LLVMBuildAnd(g->b, twice, i32c(g, twice, 0xffff0000), ""));
}

/* The bits of a bf16 are the upper ones of an f32: of a number that was rounded just now, the lower ones are
 * cleared. */
static LLVMValueRef from_bf16(Gen *g, LLVMValueRef v)
{
    LLVMValueRef x = upper_halves_of(g, v), one = splat_of(v);
    if (one) return splat_bf16(g, one, gen_lanes(v));
    if (x) return cast_f32(g, LLVMBuildAnd(g->b, x, i32c(g, v, 0xffff0000), ""));
    x = LLVMBuildZExt(g->b, v, gen_vec(g->i32, gen_lanes(v)), "");
    return cast_f32(g, LLVMBuildShl(g->b, x, i32c(g, v, 16), ""));
}

/* Eight elements in a register: the empty assembly is a value that LLVM knows nothing of, so that it does not
 * make the load a part of the conversion. */
static LLVMValueRef widen_apart(Gen *g, LLVMValueRef v, LLVMValueRef none)
{
    static const char registers[] = "=x,0";
    LLVMTypeRef t = gen_vec(g->i64, 2), f = LLVMFunctionType(t, &t, 1, false);
    LLVMValueRef nothing = LLVMGetInlineAsm(
        f, "", 0, registers, sizeof registers - 1, false, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef bits = LLVMBuildBitCast(g->b, v, t, "");
    v = LLVMBuildBitCast(g->b, LLVMBuildCall2(g->b, f, nothing, &bits, 1, ""), gen_vec(g->f16, 8), "");
    return LLVMBuildFPExt(g->b, v, gen_vec(g->f32, 8), "");
}

static LLVMValueRef from_f16(Gen *g, LLVMValueRef v)
{
    int n = gen_lanes(v);
    bool apart = g->target->cost[COST_WIDEN_LOADED] > g->target->cost[COST_WIDEN];
    if (before_f16(v)) return before_f16(v);
    if (apart && n % 8 == 0 && LLVMIsALoadInst(v)) return gen_by(g, 8, v, NULL, widen_apart);
    return LLVMBuildFPExt(g->b, v, gen_vec(g->f32, n), "");
}

LLVMValueRef to_f32(Gen *g, DType d, LLVMValueRef v)
{
    int n = gen_lanes(v);
    if (d == DT_F32) return v;
    if (d == DT_F16) return from_f16(g, v);
    if (d == DT_BF16) return from_bf16(g, v);
    if (d == DT_F8E5M2) { /* the upper half of an f16 */
        LLVMValueRef h =
            LLVMBuildShl(g->b, LLVMBuildZExt(g->b, v, gen_vec(g->i16, n), ""), ki(g, v, g->i16, 8), "");
        return LLVMBuildFPExt(
            g->b, LLVMBuildBitCast(g->b, h, gen_vec(g->f16, n), ""), gen_vec(g->f32, n), "");
    }
    /* For e4m3, move exponent and fraction into an f32 and multiply by 2^120 to correct the bias. This also
     * handles denormals. */
    LLVMValueRef w = LLVMBuildZExt(g->b, v, gen_vec(g->i32, n), "");
    LLVMValueRef low = LLVMBuildAnd(g->b, w, i32c(g, v, 0x7f), "");
    LLVMValueRef f =
        LLVMBuildFMul(g->b, cast_f32(g, LLVMBuildShl(g->b, low, i32c(g, v, 20), "")), fk(g, v, 0x1p120), "");
    LLVMValueRef sign = LLVMBuildShl(g->b, LLVMBuildAnd(g->b, w, i32c(g, v, 0x80), ""), i32c(g, v, 24), "");
    LLVMValueRef r = LLVMBuildOr(g->b, cast_i32(g, f), sign, "");
    LLVMValueRef nan = LLVMBuildICmp(g->b, LLVMIntEQ, low, i32c(g, v, 0x7f), "");
    return cast_f32(
        g, LLVMBuildSelect(g->b, nan, LLVMBuildOr(g->b, sign, i32c(g, v, 0x7fc00000), ""), r, ""));
}

/* Rounds the bits of a number to those from bit `drop` on, ties to even; the bits below are left over.
 * AVX-512 chooses what is added by a mask. */
static LLVMValueRef round_up(Gen *g, LLVMValueRef bits, unsigned drop)
{
    uint32_t half = 1u << (drop - 1);
    if (g->target->avx512 && gen_lanes(bits) > 1) {
        LLVMValueRef last = LLVMBuildAnd(g->b, bits, i32c(g, bits, 2 * half), "");
        LLVMValueRef odd = LLVMBuildICmp(g->b, LLVMIntNE, last, i32c(g, bits, 0), "");
        LLVMValueRef up = LLVMBuildSelect(g->b, odd, i32c(g, bits, half), i32c(g, bits, half - 1), "");
        return LLVMBuildAdd(g->b, bits, up, "");
    }
    LLVMValueRef odd =
        LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, bits, i32c(g, bits, drop), ""), i32c(g, bits, 1), "");
    LLVMValueRef up = LLVMBuildAdd(g->b, odd, i32c(g, bits, half - 1), "");
    return LLVMBuildAdd(g->b, bits, up, "");
}

static LLVMValueRef round_bits(Gen *g, LLVMValueRef bits, unsigned drop)
{ return LLVMBuildLShr(g->b, round_up(g, bits, drop), i32c(g, bits, drop), ""); }

static LLVMValueRef to_f8(Gen *g, DType d, LLVMValueRef v)
{
    bool e4 = d == DT_F8E4M3;
    double max = e4 ? 448 : 57344, least = e4 ? 0x1p-6 : 0x1p-14, magic = e4 ? 16384 : 128;
    unsigned drop = e4 ? 20 : 21, bias = e4 ? 120u << 3 : 112u << 2;
    LLVMValueRef bits = cast_i32(g, v);
    LLVMValueRef sign =
        LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, bits, i32c(g, v, 24), ""), i32c(g, v, 0x80), "");
    LLVMValueRef a = cast_f32(g, LLVMBuildAnd(g->b, bits, i32c(g, v, 0x7fffffff), ""));
    LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
    a = LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, LLVMRealOGT, a, fk(g, v, max), ""), fk(g, v, max), a, "");
    LLVMValueRef normal = LLVMBuildSub(g->b, round_bits(g, cast_i32(g, a), drop), i32c(g, v, bias), "");
    LLVMValueRef m = fk(g, v, magic);
    LLVMValueRef denormal =
        LLVMBuildSub(g->b, cast_i32(g, LLVMBuildFAdd(g->b, a, m, "")), cast_i32(g, m), "");
    LLVMValueRef r =
        LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, LLVMRealOLT, a, fk(g, v, least), ""), denormal, normal, "");
    r = LLVMBuildOr(g->b, LLVMBuildSelect(g->b, nan, i32c(g, v, e4 ? 0x7f : 0x7e), r, ""), sign, "");
    return LLVMBuildTrunc(g->b, r, gen_vec(g->i8, gen_lanes(v)), "");
}

static LLVMValueRef f16_bits(Gen *g, LLVMValueRef x, LLVMValueRef none)
{
    LLVMValueRef v[] = { x, LLVMConstInt(g->i32, 4, false), LLVMConstNull(gen_vec(g->i16, 16)),
        LLVMConstInt(g->i16, 0xffff, false) };
    return gen_intrinsic(g, "llvm.x86.avx512.mask.vcvtps2ph.512", NULL, 0, v, 4);
}

/* Converts by the instruction itself. Its result is integers, and only integers can be stored past the
 * caches. */
static LLVMValueRef to_f16(Gen *g, LLVMValueRef v)
{
    int n = gen_lanes(v);
    if (!g->target->avx512 || n % 16) return LLVMBuildFPTrunc(g->b, v, gen_vec(g->f16, n), "");
    return LLVMBuildBitCast(g->b, gen_by_16(g, v, NULL, f16_bits), gen_vec(g->f16, n), "");
}

static LLVMValueRef upper_halves(Gen *g, LLVMValueRef x)
{
    LLVMTypeRef t = gen_vec(g->i16, gen_lanes(x));
    return LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, x, i32c(g, x, 16), ""), t, "");
}

LLVMValueRef from_f32(Gen *g, DType d, LLVMValueRef v)
{
    if (d == DT_F32) return v;
    if (d == DT_F16) return to_f16(g, v);
    if (d != DT_BF16) return to_f8(g, d, v);
    LLVMValueRef bits = cast_i32(g, v), nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
    LLVMValueRef quiet = LLVMBuildOr(g->b, bits, i32c(g, v, 0x400000), "");
    return upper_halves(g, LLVMBuildSelect(g->b, nan, quiet, round_up(g, bits, 16), ""));
}

LLVMValueRef from_f32_result(Gen *g, DType d, LLVMValueRef v)
{ return d == DT_BF16 ? upper_halves(g, round_up(g, cast_i32(g, v), 16)) : from_f32(g, d, v); }

LLVMValueRef from_f32_exact(Gen *g, DType d, LLVMValueRef v)
{
    LLVMValueRef r = from_f32(g, d, v);
    if (d != DT_F8E5M2) return r;
    int n = gen_lanes(v);
    LLVMValueRef a = gen_intrinsic(g, "llvm.fabs", (LLVMTypeRef[]){ LLVMTypeOf(v) }, 1, &v, 1);
    LLVMValueRef inf = LLVMBuildFCmp(g->b, LLVMRealOEQ, a, fk(g, v, __builtin_inf()), "");
    LLVMValueRef kept = LLVMBuildOr(g->b, LLVMBuildAnd(g->b, r, ki(g, v, g->i8, 0x80), ""),
        gen_splat(g, LLVMConstInt(g->i8, 0x7c, false), n), "");
    return LLVMBuildSelect(g->b, inf, kept, r, "");
}

/* f64 -> f32 rounded to odd: towards zero, the last bit set if anything was lost. One more rounding is then
 * right. */
static LLVMValueRef to_odd(Gen *g, LLVMValueRef x)
{
    int n = gen_lanes(x);
    LLVMValueRef f = LLVMBuildFPTrunc(g->b, x, gen_vec(g->f32, n), ""),
                 back = LLVMBuildFPExt(g->b, f, LLVMTypeOf(x), "");
    LLVMTypeRef t[] = { LLVMTypeOf(x) };
    LLVMValueRef ax = gen_intrinsic(g, "llvm.fabs", t, 1, &x, 1),
                 ab = gen_intrinsic(g, "llvm.fabs", t, 1, &back, 1);
    LLVMValueRef over = LLVMBuildFCmp(g->b, LLVMRealOGT, ab, ax, ""),
                 lost = LLVMBuildFCmp(g->b, LLVMRealONE, back, x, "");
    LLVMValueRef bits = cast_i32(g, f);
    bits = LLVMBuildSub(g->b, bits, LLVMBuildZExt(g->b, over, LLVMTypeOf(bits), ""), "");
    return cast_f32(g, LLVMBuildOr(g->b, bits, LLVMBuildZExt(g->b, lost, LLVMTypeOf(bits), ""), ""));
}

static LLVMValueRef int_to_float(Gen *g, DType to, DType from, LLVMValueRef v)
{
    int n = gen_lanes(v);
    bool sgn = dtype_is_signed(from);
    LLVMTypeRef f32 = gen_vec(g->f32, n), f64 = gen_vec(g->f64, n);
    if (to == DT_F32 || to == DT_F64 || dtype_bits(from) <= 16) {
        LLVMTypeRef t = to == DT_F64 ? f64 : f32;
        LLVMValueRef x = sgn ? LLVMBuildSIToFP(g->b, v, t, "") : LLVMBuildUIToFP(g->b, v, t, "");
        /* Every integer of 8 bits is an f16: `to_f32` finds it again before this. */
        if (to == DT_F16 && dtype_bits(from) == 8) return LLVMBuildFPTrunc(g->b, x, gen_vec(g->f16, n), "");
        return to == DT_F64 ? x : from_f32(g, to, x);
    }
    if (dtype_bits(from) == 64) { /* Round to 53 bits, where the last bit says that lower bits were lost. */
        LLVMTypeRef i64 = gen_vec(g->i64, n);
        LLVMValueRef low = LLVMBuildAnd(g->b, v, ki(g, v, g->i64, 0x7ff), "");
        LLVMValueRef some =
            LLVMBuildZExt(g->b, LLVMBuildICmp(g->b, LLVMIntNE, low, LLVMConstNull(i64), ""), i64, "");
        LLVMValueRef odd = LLVMBuildOr(g->b, LLVMBuildAnd(g->b, v, ki(g, v, g->i64, ~0x7ffull), ""),
            LLVMBuildShl(g->b, some, ki(g, v, g->i64, 11), ""), "");
        LLVMValueRef top = sgn ? LLVMBuildAShr(g->b, v, ki(g, v, g->i64, 52), "")
                               : LLVMBuildLShr(g->b, v, ki(g, v, g->i64, 52), "");
        LLVMValueRef small = LLVMBuildICmp(g->b, LLVMIntULE, LLVMBuildAdd(g->b, top, ki(g, v, g->i64, 1), ""),
            ki(g, v, g->i64, sgn ? 1 : 1), "");
        v = LLVMBuildSelect(g->b, small, v, odd, "");
    }
    LLVMValueRef x = sgn ? LLVMBuildSIToFP(g->b, v, f64, "") : LLVMBuildUIToFP(g->b, v, f64, "");
    return from_f32(g, to, to_odd(g, x));
}

static LLVMValueRef float_to_int(Gen *g, DType to, DType from, LLVMValueRef v)
{
    if (from != DT_F64) v = to_f32(g, from, v);
    LLVMTypeRef types[] = { gen_type(g, to, gen_lanes(v)), LLVMTypeOf(v) };
    return gen_intrinsic(g, dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &v, 1);
}

LLVMValueRef convert(Gen *g, DType to, DType from, LLVMValueRef v)
{
    if (to == from) return v;
    int n = gen_lanes(v);
    bool tf = dtype_is_float(to), ff = dtype_is_float(from);
    if (to == DT_BOOL) {
        if (!ff) return LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
        LLVMValueRef x = from == DT_F64 ? v : to_f32(g, from, v);
        return LLVMBuildFCmp(g->b, LLVMRealUNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    }
    if (from == DT_BOOL) {
        LLVMValueRef one = gen_const(g, to, tf ? scalar_float(1) : scalar_int(1), n);
        return LLVMBuildSelect(g->b, v, one, LLVMConstNull(LLVMTypeOf(one)), "");
    }
    if (tf && ff) {
        if (from == DT_F64)
            return to == DT_F32 ? LLVMBuildFPTrunc(g->b, v, gen_vec(g->f32, n), "")
                                : from_f32(g, to, to_odd(g, v));
        LLVMValueRef x = to_f32(g, from, v);
        return to == DT_F64 ? LLVMBuildFPExt(g->b, x, gen_vec(g->f64, n), "") : from_f32(g, to, x);
    }
    if (tf) return int_to_float(g, to, from, v);
    if (ff) return float_to_int(g, to, from, v);
    LLVMTypeRef t = gen_type(g, to, n);
    if (dtype_bits(to) < dtype_bits(from)) return LLVMBuildTrunc(g->b, v, t, "");
    if (dtype_bits(to) == dtype_bits(from)) return v;
    return dtype_is_signed(from) ? LLVMBuildSExt(g->b, v, t, "") : LLVMBuildZExt(g->b, v, t, "");
}

LLVMValueRef convert_bits(Gen *g, DType to, DType from, LLVMValueRef v)
{
    int n = gen_lanes(v);
    if (from == DT_BOOL) v = LLVMBuildZExt(g->b, v, gen_vec(g->i8, n), "");
    if (to == DT_BOOL) {
        v = LLVMBuildBitCast(g->b, v, gen_vec(g->i8, n), "");
        return LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    }
    return LLVMBuildBitCast(g->b, v, gen_type(g, to, n), "");
}
