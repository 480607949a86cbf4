/* quotient.c: quotients of a row by one value, correctly rounded, by multiply-adds instead of divisions.
 *
 *     r = 1 / y          once a row                          q = x / y
 *     q0 = x r,  e = x - q0 y,  q = q0 + e r       ->
 *
 * e is exact but for its last bit, so q is the rounded sum of x / y and an error below 2^-22.4 of its last
 * place. That is x / y rounded, unless x / y is as near to the middle between two numbers; test_quotient.c
 * tries every pair of significands of which this is so. It takes numbers that are far from overflow and from
 * denormal ones: x in [2^-100, 2^100], y in [2^-24, 2^24], of any sign. Chunks that hold others (0, too) are
 * divided. */
#include "backends/cpu/cpu.h"

enum { BIAS = 127, X_REACH = 100, Y_REACH = 24, INSTRUCTIONS = 6 };

/* Three multiply-adds and three integer operations to know that x is in reach take less than a division. */
bool quotient_pays(const CpuTarget *t)
{
    double lanes = t->vector_bytes / 4.0, of_eight = lanes / 8;
    return t->fma &&
           INSTRUCTIONS * lanes / cpu_product_rate(t, DT_F32) < of_eight * t->cost[COST_DIVIDE] / 10.0;
}

/* The exponent and the fraction of x, less those of 2^-reach: at most those of 2^(2 reach) for numbers in
 * reach, as unsigned numbers; less 2^31, so that comparisons of signed numbers order them. */
static LLVMValueRef above_least(Gen *g, LLVMValueRef x, int reach)
{
    int n = gen_lanes(x);
    LLVMValueRef bits = LLVMBuildBitCast(g->b, x, gen_vec(g->i32, n), "");
    LLVMValueRef size = LLVMBuildShl(g->b, bits, gen_splat(g, LLVMConstInt(g->i32, 1, false), n), "");
    uint32_t least = ((uint32_t)(BIAS - reach) << 24) + 0x80000000u;
    return LLVMBuildSub(g->b, size, gen_splat(g, LLVMConstInt(g->i32, least, false), n), "");
}

/* The first of these that is out of reach. */
static LLVMValueRef out_of_reach(Gen *g, int reach)
{ return LLVMConstInt(g->i32, ((uint32_t)(2 * reach) << 24) + 0x80000001u, false); }

static LLVMValueRef half(Gen *g, LLVMValueRef v, int which)
{
    int n = gen_lanes(v) / 2, mask[64];
    for (int k = 0; k < n; k++) mask[k] = which * n + k;
    return gen_shuffle(g, v, NULL, mask, n);
}

/* The largest or the smallest integers of x, as many as a register has lanes. */
static LLVMValueRef extremes(Gen *g, const char *name, LLVMValueRef x)
{
    while (gen_lanes(x) > plan_lanes(g->target)) {
        LLVMValueRef h[] = { half(g, x, 0), half(g, x, 1) };
        x = gen_intrinsic(g, name, (LLVMTypeRef[]){ LLVMTypeOf(h[0]) }, 1, h, 2);
    }
    return x;
}

static LLVMValueRef all_lanes(Gen *g, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef limit)
{
    LLVMValueRef yes = LLVMBuildICmp(g->b, p, x, gen_splat(g, limit, gen_lanes(x)), "");
    return gen_intrinsic(g, "llvm.vector.reduce.and", (LLVMTypeRef[]){ LLVMTypeOf(yes) }, 1, &yes, 1);
}

/* Which numbers x are in reach, as a limit for all_in_reach; none if y, of which `near` says it, is not. The
 * bits of numbers of [0, 1], and of NaN without a sign, are integers in the order of the numbers. */
static LLVMValueRef limit_of(Gen *g, LLVMValueRef near, bool in_0_1)
{
    LLVMValueRef limit = in_0_1 ? LLVMConstInt(g->i32, ((uint32_t)(BIAS - X_REACH) << 23) - 1, false)
                                : out_of_reach(g, X_REACH);
    return LLVMBuildSelect(
        g->b, near, limit, LLVMConstInt(g->i32, in_0_1 ? 0x7fffffffu : 0x80000000u, false), "");
}

static LLVMValueRef all_in_reach(Gen *g, LLVMValueRef x, LLVMValueRef limit, bool in_0_1)
{
    if (!in_0_1) return all_lanes(g, LLVMIntSLT, extremes(g, "llvm.smax", above_least(g, x, X_REACH)), limit);
    LLVMValueRef bits = LLVMBuildBitCast(g->b, x, gen_vec(g->i32, gen_lanes(x)), "");
    return all_lanes(g, LLVMIntSGT, extremes(g, "llvm.smin", bits), limit);
}

static LLVMValueRef multiply_add(Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef v[] = { a, b, c };
    return gen_intrinsic(g, "llvm.fma", (LLVMTypeRef[]){ LLVMTypeOf(a) }, 1, v, 3);
}

LLVMValueRef quotient_of_row(Eval *e, LLVMValueRef x, LLVMValueRef y, bool in_0_1)
{
    Gen *g = e->g;
    int n = gen_lanes(x);
    RowPlace p = row_enter(e);
    LLVMValueRef one = LLVMConstReal(g->f32, 1), y1 = LLVMBuildExtractElement(g->b, y, gen_int(g, 0), "");
    LLVMValueRef r = gen_splat(g, LLVMBuildFDiv(g->b, one, y1, ""), n);
    LLVMValueRef near =
        LLVMBuildICmp(g->b, LLVMIntSLT, above_least(g, y1, Y_REACH), out_of_reach(g, Y_REACH), "");
    LLVMValueRef limit = limit_of(g, near, in_0_1);
    LLVMValueRef cell = gen_alloca(g, LLVMTypeOf(x), "quotient");
    row_leave(e, p);
    LLVMValueRef q = LLVMBuildFMul(g->b, x, r, "");
    q = multiply_add(g, multiply_add(g, LLVMBuildFNeg(g->b, q, ""), y, x), r, q);
    LLVMBuildStore(g->b, q, cell);
    If far;
    gen_if(g, &far, LLVMBuildNot(g->b, all_in_reach(g, x, limit, in_0_1), ""));
    LLVMBuildStore(g->b, LLVMBuildFDiv(g->b, x, y, ""), cell);
    gen_endif(g, &far);
    return LLVMBuildLoad2(g->b, LLVMTypeOf(x), cell, "");
}
