/* thin_pairs.c: dot products of 8-bit integers that are small enough for `vpmaddubsw`. It multiplies unsigned
 * by signed elements and adds the products in pairs, to 16 bits, where it would saturate. So it is taken
 * where the ranges of both operands prove that no sum of two products leaves 16 bits, as for elements of 4
 * bits by any of 8. As many such sums as fit 16 bits too are added before `vpmaddwd` adds them in pairs, to
 * 32 bits. Nothing is rounded, and nothing saturates. */
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"
#include "ir/analysis/range.h"

enum { MOST_I16 = 32767, MOST_U8 = 255, LEAST_I8 = -128, MOST_I8 = 127 };

/* The largest sum of two products of elements in these ranges, at least 1; 0: it does not fit 16 bits, or the
 * elements do not fit the instruction. */
static int largest_sum(RangeInfo is_unsigned, RangeInfo is_signed)
{
    if (is_unsigned.lo < 0 || is_unsigned.hi > MOST_U8) return 0;
    if (is_signed.lo < LEAST_I8 || is_signed.hi > MOST_I8) return 0;
    int64_t most = -is_signed.lo > is_signed.hi ? -is_signed.lo : is_signed.hi;
    int64_t sum = 2 * most * is_unsigned.hi;
    return sum > MOST_I16 ? 0 : sum > 0 ? (int)sum : 1;
}

int mma_pairs(const Plan *p, const Instr *i, bool *a_is_unsigned)
{
    if (p->target->arm || !p->target->fma || dtype_bits(ir_operand(i, 0)->type->dtype) != 8) return 0;
    Ranges *ranges = ranges_new(p->func);
    RangeInfo a = range_of(ranges, ir_operand(i, 0)), b = range_of(ranges, ir_operand(i, 1));
    int of_a = largest_sum(a, b), of_b = largest_sum(b, a);
    *a_is_unsigned = of_a != 0;
    return of_a ? of_a : of_b;
}

void thin_find_pairs(Thin *t)
{
    bool of_a = false, turned = t->s->thin == THIN_DOTS_OF_A;
    if (t->s->mma != MMA_I8_PAIRS) return;
    t->pairs = mma_pairs(t->g->plan, t->s->instr, &of_a);
    t->packed_is_signed = of_a == turned;
}

/* The sums of two products each of elements a of the packed operand and b of the other one. */
static LLVMValueRef pair_sums(Thin *t, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = t->g;
    LLVMTypeRef bytes = gen_vec(g->i8, 4 * t->lanes);
    a = LLVMBuildBitCast(g->b, a, bytes, "");
    b = LLVMBuildBitCast(g->b, b, bytes, "");
    LLVMValueRef v[] = { t->packed_is_signed ? b : a, t->packed_is_signed ? a : b };
    return gen_intrinsic(
        g, g->target->avx512 ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw", NULL, 0, v, 2);
}

LLVMValueRef thin_add_waiting(Thin *t, Waiting *w, LLVMValueRef acc)
{
    LLVMValueRef one = gen_splat(t->g, LLVMConstInt(t->g->i16, 1, false), 2 * t->lanes);
    if (w->sums) acc = mma_add_i16_pairs(t->g, acc, w->sums, one);
    *w = (Waiting){ NULL, 0 };
    return acc;
}

LLVMValueRef thin_add_pairs(Thin *t, Waiting *w, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef sums = pair_sums(t, a, b);
    if (w->largest + t->pairs > MOST_I16) acc = thin_add_waiting(t, w, acc);
    w->sums = w->sums ? LLVMBuildAdd(t->g->b, w->sums, sums, "") : sums;
    w->largest += t->pairs;
    return acc;
}
