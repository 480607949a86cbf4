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

/* Whether all lanes of x are in reach: below `limit`, which has as many lanes as a register. */
static LLVMValueRef all_below(Gen *g, LLVMValueRef x, LLVMValueRef limit)
{
    LLVMValueRef most = above_least(g, x, X_REACH);
    while (gen_lanes(most) > gen_lanes(limit)) {
        LLVMValueRef h[] = { half(g, most, 0), half(g, most, 1) };
        most = gen_intrinsic(g, "llvm.smax", (LLVMTypeRef[]){ LLVMTypeOf(h[0]) }, 1, h, 2);
    }
    LLVMValueRef below = LLVMBuildICmp(g->b, LLVMIntSLT, most, limit, "");
    return gen_intrinsic(g, "llvm.vector.reduce.and", (LLVMTypeRef[]){ LLVMTypeOf(below) }, 1, &below, 1);
}

static LLVMValueRef multiply_add(Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef v[] = { a, b, c };
    return gen_intrinsic(g, "llvm.fma", (LLVMTypeRef[]){ LLVMTypeOf(a) }, 1, v, 3);
}

LLVMValueRef quotient_of_row(Eval *e, LLVMValueRef x, LLVMValueRef y)
{
    Gen *g = e->g;
    int n = gen_lanes(x), lanes = plan_lanes(g->target);
    RowPlace p = row_enter(e);
    LLVMValueRef one = LLVMConstReal(g->f32, 1), y1 = LLVMBuildExtractElement(g->b, y, gen_int(g, 0), "");
    LLVMValueRef r = gen_splat(g, LLVMBuildFDiv(g->b, one, y1, ""), n);
    LLVMValueRef near =
        LLVMBuildICmp(g->b, LLVMIntSLT, above_least(g, y1, Y_REACH), out_of_reach(g, Y_REACH), "");
    LLVMValueRef none = LLVMConstInt(g->i32, 0x80000000u, false);
    LLVMValueRef limit = gen_splat(g, LLVMBuildSelect(g->b, near, out_of_reach(g, X_REACH), none, ""), lanes);
    LLVMValueRef cell = gen_alloca(g, LLVMTypeOf(x), "quotient");
    row_leave(e, p);
    LLVMValueRef q = LLVMBuildFMul(g->b, x, r, "");
    q = multiply_add(g, multiply_add(g, LLVMBuildFNeg(g->b, q, ""), y, x), r, q);
    LLVMBuildStore(g->b, q, cell);
    If far;
    gen_if(g, &far, LLVMBuildNot(g->b, all_below(g, x, limit), ""));
    LLVMBuildStore(g->b, LLVMBuildFDiv(g->b, x, y, ""), cell);
    gen_endif(g, &far);
    return LLVMBuildLoad2(g->b, LLVMTypeOf(x), cell, "");
}
