/* elem.c: element-wise operations, on scalars and vectors alike, with the meaning that ops.def gives them
 * (ir/interp/scalar.c in C). Floats narrower than f32 compute in f32 and round to their dtype after each
 * operation.
 */
#include "backends/cpu/cpu.h"

static LLVMValueRef icmp(Gen *g, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildICmp(g->b, p, a, b, ""); }
static LLVMValueRef fcmp(Gen *g, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildFCmp(g->b, p, a, b, ""); }
static LLVMValueRef sel(Gen *g, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildSelect(g->b, c, a, b, ""); }
static LLVMValueRef null_of(LLVMValueRef v) { return LLVMConstNull(LLVMTypeOf(v)); }
static LLVMValueRef ones_of(LLVMValueRef v) { return LLVMConstAllOnes(LLVMTypeOf(v)); }

/* An integer of v's type. */
static LLVMValueRef like(Gen *g, DType d, LLVMValueRef v, int64_t x)
{ return gen_const(g, d, scalar_int(x), gen_lanes(v)); }

/* Quotient or remainder: by 0 gives 0; the most negative by -1 wraps (remainder 0). */
static LLVMValueRef int_div(Gen *g, DType d, LLVMValueRef a, LLVMValueRef b, bool rem)
{
    bool sgn = dtype_is_signed(d);
    LLVMValueRef zero = icmp(g, LLVMIntEQ, b, null_of(b)), bad = zero;
    if (sgn) {
        LLVMValueRef least = gen_const(g, d, scalar_lowest(d), gen_lanes(a));
        bad = LLVMBuildOr(g->b, zero,
            LLVMBuildAnd(g->b, icmp(g, LLVMIntEQ, b, ones_of(b)), icmp(g, LLVMIntEQ, a, least), ""), "");
    }
    LLVMValueRef by = sel(g, bad, like(g, d, b, 1), b);
    LLVMValueRef r = rem ? (sgn ? LLVMBuildSRem(g->b, a, by, "") : LLVMBuildURem(g->b, a, by, ""))
                         : (sgn ? LLVMBuildSDiv(g->b, a, by, "") : LLVMBuildUDiv(g->b, a, by, ""));
    return sel(g, zero, null_of(r), r);
}

static LLVMValueRef cdiv(Gen *g, DType d, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef q = int_div(g, d, a, b, false), r = int_div(g, d, a, b, true);
    LLVMValueRef up = icmp(g, LLVMIntNE, r, null_of(r));
    if (dtype_is_signed(d)) {
        LLVMValueRef differ = icmp(g, LLVMIntSLT, LLVMBuildXor(g->b, a, b, ""), null_of(a));
        up = LLVMBuildAnd(g->b, up, LLVMBuildNot(g->b, differ, ""), "");
    }
    return LLVMBuildAdd(g->b, q, LLVMBuildZExt(g->b, up, LLVMTypeOf(q), ""), "");
}

static LLVMValueRef shift(Gen *g, Op op, DType d, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef width = like(g, d, b, dtype_bits(d)), last = like(g, d, b, dtype_bits(d) - 1);
    LLVMValueRef ok = icmp(g, LLVMIntULT, b, width), by = sel(g, ok, b, last);
    if (op == OP_SHR && dtype_is_signed(d)) return LLVMBuildAShr(g->b, a, by, "");
    LLVMValueRef r = op == OP_SHL ? LLVMBuildShl(g->b, a, by, "") : LLVMBuildLShr(g->b, a, by, "");
    return sel(g, ok, r, null_of(r));
}

static LLVMValueRef int_less(Gen *g, DType d, LLVMValueRef a, LLVMValueRef b)
{ return icmp(g, dtype_is_signed(d) ? LLVMIntSLT : LLVMIntULT, a, b); }

static LLVMValueRef int_min(Gen *g, DType d, LLVMValueRef a, LLVMValueRef b)
{ return sel(g, int_less(g, d, b, a), b, a); }
static LLVMValueRef int_max(Gen *g, DType d, LLVMValueRef a, LLVMValueRef b)
{ return sel(g, int_less(g, d, a, b), b, a); }

static LLVMValueRef int_compare(Gen *g, Op op, DType d, LLVMValueRef a, LLVMValueRef b)
{
    bool s = dtype_is_signed(d);
    switch (op_as_compare(op)) {
    case COMPARE_EQ: return icmp(g, LLVMIntEQ, a, b);
    case COMPARE_NE: return icmp(g, LLVMIntNE, a, b);
    case COMPARE_LT: return icmp(g, s ? LLVMIntSLT : LLVMIntULT, a, b);
    case COMPARE_LE: return icmp(g, s ? LLVMIntSLE : LLVMIntULE, a, b);
    case COMPARE_GT: return icmp(g, s ? LLVMIntSGT : LLVMIntUGT, a, b);
    case COMPARE_GE: return icmp(g, s ? LLVMIntSGE : LLVMIntUGE, a, b);
    }
    return NULL;
}

static LLVMValueRef int_arithmetic(Gen *g, Op op, DType d, LLVMValueRef *v)
{
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_NEG: return LLVMBuildNeg(g->b, v[0], "");
    case ARITHMETIC_ABS:
        return dtype_is_signed(d)
                   ? sel(g, icmp(g, LLVMIntSLT, v[0], null_of(v[0])), LLVMBuildNeg(g->b, v[0], ""), v[0])
                   : v[0];
    case ARITHMETIC_ADD: return LLVMBuildAdd(g->b, v[0], v[1], "");
    case ARITHMETIC_SUB: return LLVMBuildSub(g->b, v[0], v[1], "");
    case ARITHMETIC_MUL: return LLVMBuildMul(g->b, v[0], v[1], "");
    case ARITHMETIC_FMA: return LLVMBuildAdd(g->b, LLVMBuildMul(g->b, v[0], v[1], ""), v[2], "");
    case ARITHMETIC_DIV: return int_div(g, d, v[0], v[1], false);
    case ARITHMETIC_REM: return int_div(g, d, v[0], v[1], true);
    case ARITHMETIC_CDIV: return cdiv(g, d, v[0], v[1]);
    case ARITHMETIC_MIN:
    case ARITHMETIC_MINNUM: return int_min(g, d, v[0], v[1]);
    case ARITHMETIC_MAX:
    case ARITHMETIC_MAXNUM: return int_max(g, d, v[0], v[1]);
    case ARITHMETIC_CLAMP: return int_min(g, d, int_max(g, d, v[0], v[1]), v[2]);
    }
    return NULL;
}

static LLVMValueRef int_bits(Gen *g, Op op, DType d, LLVMValueRef *v)
{
    switch (op_as_bits(op)) {
    case BITS_AND: return LLVMBuildAnd(g->b, v[0], v[1], "");
    case BITS_OR: return LLVMBuildOr(g->b, v[0], v[1], "");
    case BITS_XOR: return LLVMBuildXor(g->b, v[0], v[1], "");
    case BITS_NOT: return LLVMBuildNot(g->b, v[0], "");
    case BITS_SHL:
    case BITS_SHR: return shift(g, op, d, v[0], v[1]);
    }
    return NULL;
}

static LLVMValueRef int_op(Gen *g, Op op, DType d, LLVMValueRef *v)
{
    if (op_family(op) == OPS_ARITHMETIC) return int_arithmetic(g, op, d, v);
    if (op_family(op) == OPS_BITS) return int_bits(g, op, d, v);
    return op_family(op) == OPS_COMPARE ? int_compare(g, op, d, v[0], v[1]) : NULL;
}

static LLVMValueRef is_nan(Gen *g, LLVMValueRef x) { return fcmp(g, LLVMRealUNO, x, x); }

/* The min and max of x86 give the second operand when the two are unordered (or both zero). One select
 * corrects the result. */
static LLVMValueRef extreme(Gen *g, Op op, LLVMValueRef a, LLVMValueRef b)
{
    bool max = op == OP_MAX || op == OP_MAXNUM, num = op == OP_MINNUM || op == OP_MAXNUM;
    LLVMValueRef r = sel(g, fcmp(g, max ? LLVMRealOGT : LLVMRealOLT, a, b), a, b);
    return num ? sel(g, is_nan(g, b), a, r) : sel(g, is_nan(g, a), a, r);
}

static LLVMValueRef fma3(Gen *g, LLVMValueRef *v)
{ return gen_intrinsic(g, "llvm.fma", (LLVMTypeRef[]){ LLVMTypeOf(v[0]) }, 1, v, 3); }

static LLVMValueRef float_arithmetic(Gen *g, Op op, LLVMValueRef *v)
{
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_NEG: return LLVMBuildFNeg(g->b, v[0], "");
    case ARITHMETIC_ABS: return gen_intrinsic(g, "llvm.fabs", (LLVMTypeRef[]){ LLVMTypeOf(v[0]) }, 1, v, 1);
    case ARITHMETIC_ADD: return LLVMBuildFAdd(g->b, v[0], v[1], "");
    case ARITHMETIC_SUB: return LLVMBuildFSub(g->b, v[0], v[1], "");
    case ARITHMETIC_MUL: return LLVMBuildFMul(g->b, v[0], v[1], "");
    case ARITHMETIC_DIV: return LLVMBuildFDiv(g->b, v[0], v[1], "");
    case ARITHMETIC_FMA: return fma3(g, v);
    case ARITHMETIC_MIN:
    case ARITHMETIC_MAX:
    case ARITHMETIC_MINNUM:
    case ARITHMETIC_MAXNUM: return extreme(g, op, v[0], v[1]);
    case ARITHMETIC_CLAMP: return extreme(g, OP_MIN, extreme(g, OP_MAX, v[0], v[1]), v[2]);
    case ARITHMETIC_REM: /* of integers alone */
    case ARITHMETIC_CDIV: break;
    }
    return NULL;
}

static LLVMValueRef float_compare(Gen *g, Op op, LLVMValueRef *v)
{
    switch (op_as_compare(op)) {
    case COMPARE_EQ: return fcmp(g, LLVMRealOEQ, v[0], v[1]);
    case COMPARE_NE: return fcmp(g, LLVMRealUNE, v[0], v[1]);
    case COMPARE_LT: return fcmp(g, LLVMRealOLT, v[0], v[1]);
    case COMPARE_LE: return fcmp(g, LLVMRealOLE, v[0], v[1]);
    case COMPARE_GT: return fcmp(g, LLVMRealOGT, v[0], v[1]);
    case COMPARE_GE: return fcmp(g, LLVMRealOGE, v[0], v[1]);
    }
    return NULL;
}

/* On f32 or f64. Comparisons give i1. NULL: there is no such operation on floats. */
static LLVMValueRef float_op(Gen *g, Op op, LLVMValueRef *v, Need need)
{
    if (op_family(op) == OPS_ARITHMETIC) return float_arithmetic(g, op, v);
    if (op_family(op) == OPS_COMPARE) return float_compare(g, op, v);
    return op_family(op) == OPS_FUNCTION ? math_fn(g, op, v[0], need) : NULL;
}

static bool combines(Op op)
{ return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_FMA; }

/* philox4x32-10: the words of the blocks `counter`, held in the low halves of 64-bit lanes */
static void philox(Gen *g, LLVMValueRef seed, LLVMValueRef counter, LLVMValueRef *c)
{
    int n = gen_lanes(counter);
    LLVMValueRef mask = gen_const(g, DT_U64, scalar_int(0xffffffff), n),
                 w = gen_const(g, DT_U64, scalar_int(32), n);
    LLVMValueRef k0 = LLVMBuildAnd(g->b, seed, mask, ""), k1 = LLVMBuildLShr(g->b, seed, w, "");
    c[0] = LLVMBuildAnd(g->b, counter, mask, "");
    c[1] = LLVMBuildLShr(g->b, counter, w, "");
    c[2] = c[3] = null_of(counter);
    for (int round = 0; round < 10; round++) {
        LLVMValueRef p0 = LLVMBuildMul(g->b, c[0], gen_const(g, DT_U64, scalar_int(0xD2511F53), n), "");
        LLVMValueRef p1 = LLVMBuildMul(g->b, c[2], gen_const(g, DT_U64, scalar_int(0xCD9E8D57), n), "");
        LLVMValueRef x0 =
            LLVMBuildXor(g->b, LLVMBuildXor(g->b, LLVMBuildLShr(g->b, p1, w, ""), c[1], ""), k0, "");
        LLVMValueRef x2 =
            LLVMBuildXor(g->b, LLVMBuildXor(g->b, LLVMBuildLShr(g->b, p0, w, ""), c[3], ""), k1, "");
        c[0] = x0;
        c[1] = LLVMBuildAnd(g->b, p1, mask, "");
        c[2] = x2;
        c[3] = LLVMBuildAnd(g->b, p0, mask, "");
        k0 = LLVMBuildAnd(
            g->b, LLVMBuildAdd(g->b, k0, gen_const(g, DT_U64, scalar_int(0x9E3779B9), n), ""), mask, "");
        k1 = LLVMBuildAnd(
            g->b, LLVMBuildAdd(g->b, k1, gen_const(g, DT_U64, scalar_int(0xBB67AE85), n), ""), mask, "");
    }
}

/* Word n % 4 of the block n / 4: two words at a time in 64 bits. */
static LLVMValueRef random_bits(Gen *g, LLVMValueRef seed, LLVMValueRef number)
{
    int n = gen_lanes(number);
    LLVMValueRef c[4], one = gen_const(g, DT_U64, scalar_int(1), n),
                       two = gen_const(g, DT_U64, scalar_int(2), n),
                       half = gen_const(g, DT_U64, scalar_int(32), n);
    philox(g, seed, LLVMBuildLShr(g->b, number, two, ""), c);
    LLVMValueRef low = LLVMBuildOr(g->b, c[0], LLVMBuildShl(g->b, c[1], half, ""), ""),
                 high = LLVMBuildOr(g->b, c[2], LLVMBuildShl(g->b, c[3], half, ""), ""),
                 second = LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, number, one, ""), one, ""),
                 mask = LLVMBuildNeg(g->b, second, ""),
                 both = LLVMBuildAnd(g->b, LLVMBuildXor(g->b, low, high, ""), mask, ""),
                 by = LLVMBuildMul(g->b, LLVMBuildAnd(g->b, number, one, ""), half, "");
    return LLVMBuildTrunc(
        g->b, LLVMBuildLShr(g->b, LLVMBuildXor(g->b, low, both, ""), by, ""), gen_type(g, DT_U32, n), "");
}

LLVMValueRef elem_op(Gen *g, Op op, DType d, LLVMValueRef *v, Need need)
{
    if (op == OP_WHERE) return sel(g, v[0], v[1], v[2]);
    if (op == OP_PHILOX) {
        LLVMValueRef word[4];
        philox(g, v[0], v[1], word);
        return LLVMBuildTrunc(g->b, word[0], gen_type(g, DT_U32, gen_lanes(v[1])), "");
    }
    if (op == OP_RANDOM_BITS) return random_bits(g, v[0], v[1]);
    LLVMValueRef r;
    if (!dtype_is_float(d)) {
        r = int_op(g, op, d, v);
    } else if (d == DT_F32 || d == DT_F64) {
        r = float_op(g, op, v, need);
    } else {
        LLVMValueRef w[4];
        int n = op == OP_FMA || op == OP_CLAMP ? 3 : op_info[op].n_operands;
        for (int k = 0; k < n; k++) w[k] = to_f32(g, d, v[k]);
        r = float_op(g, op, w, need);
        if (r && op_family(op) != OPS_COMPARE)
            r = op_has(op, OPF_EXACT) ? from_f32_exact(g, d, r)
                : combines(op)        ? from_f32_result(g, d, r)
                                      : from_f32(g, d, r);
    }
    if (!r)
        ir_fail(g->session, g->func->loc, "the CPU backend does not take %s on %s", op_info[op].name,
            dtype_name(d));
    return r;
}

LLVMValueRef elem_reduce(Gen *g, Op op, DType d, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef v[] = { a, b };
    switch (op_info[op].combine) {
    case COMBINE_SUM: return elem_op(g, OP_ADD, d, v, NEED_ALL);
    case COMBINE_PROD: return elem_op(g, OP_MUL, d, v, NEED_ALL);
    case COMBINE_MAX: return elem_op(g, OP_MAX, d, v, NEED_ALL);
    case COMBINE_MIN: return elem_op(g, OP_MIN, d, v, NEED_ALL);
    case COMBINE_ANY: return LLVMBuildOr(g->b, a, b, "");
    case COMBINE_ALL: return LLVMBuildAnd(g->b, a, b, "");
    case COMBINE_NONE: break;
    }
    ir_fail(g->session, g->func->loc, "%s combines nothing", op_info[op].name);
}
