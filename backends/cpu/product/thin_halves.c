/* thin_halves.c: strips (thin_strips.c) on AVX2. There, instructions that widen integers take twice as long
 * as those that interleave two registers, which do so within the halves of a register. The vectors of sums
 * that become of one register of B thus have columns in another order: of n vectors, vector j has columns 4 j
 * and on, and 4 (n + j) and on. Sums are in their order in memory: their halves are loaded and stored apart.
 *
 *     bf16     2 vectors: zeros and elements in turn are f32
 *     8 bits   4 vectors: two rows in turn, and with the bits that extend their signs, are pairs of 16 bits
 */
#include "backends/cpu/product/thin.h"

enum { REGISTER = 32, HALF = REGISTER / 2, OF_HALF = 4 /* sums */ };

LLVMValueRef thin_interleave(Gen *g, LLVMValueRef a, LLVMValueRef b, int size, bool upper)
{
    int mask[REGISTER];
    for (int k = 0; k < REGISTER; k++) {
        int in = k % HALF, element = in / size / 2 + (upper ? HALF / size / 2 : 0);
        mask[k] = in / size % 2 * REGISTER + k / HALF * HALF + element * size + in % size;
    }
    return gen_shuffle(g, a, b, mask, REGISTER);
}

int thin_halves(const Thin *t)
{
    const CpuTarget *c = t->g->target;
    if (c->arm || c->vector_bytes != REGISTER || !t->whole || t->stage) return 1;
    if (t->from == DT_BF16 && t->s->mma == MMA_F32) return 2;
    return (t->from == DT_I8 || t->from == DT_U8) && t->s->mma == MMA_I16_PAIRS ? 4 : 1;
}

static LLVMValueRef bytes_of_row(Thin *t, LLVMValueRef k, LLVMValueRef column)
{
    LLVMValueRef x = thin_elements(t, k, column, 1, REGISTER / dtype_bytes(t->from));
    return LLVMBuildBitCast(t->g->b, x, gen_vec(t->g->i8, REGISTER), "");
}

void thin_vectors_of_halves(Thin *t, LLVMValueRef k, LLVMValueRef column, LLVMValueRef *b)
{
    Gen *g = t->g;
    LLVMValueRef none = LLVMConstNull(gen_vec(g->i8, REGISTER)), x = bytes_of_row(t, k, column);
    if (t->from == DT_BF16) {
        for (int h = 0; h < 2; h++)
            b[h] = LLVMBuildBitCast(g->b, thin_interleave(g, none, x, 2, h), t->vec, "");
        return;
    }
    LLVMValueRef next = bytes_of_row(t, gen_iadd(g, k, gen_int(g, 1)), column);
    for (int h = 0; h < 2; h++) {
        LLVMValueRef pairs = thin_interleave(g, x, next, 1, h), signs = none;
        if (t->from == DT_I8)
            signs =
                LLVMBuildSExt(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, pairs, none, ""), LLVMTypeOf(pairs), "");
        for (int v = 0; v < 2; v++)
            b[2 * h + v] = LLVMBuildBitCast(
                g->b, thin_interleave(g, pairs, signs, 1, v), gen_vec(g->i16, REGISTER / 2), "");
    }
}

LLVMValueRef thin_load_halves(Thin *t, LLVMValueRef ptr, int vectors)
{
    Gen *g = t->g;
    DType type = t->s->buf->dtype;
    int mask[2 * OF_HALF], bytes = vectors * OF_HALF * dtype_bytes(type);
    for (int k = 0; k < 2 * OF_HALF; k++) mask[k] = k;
    LLVMValueRef lower = gen_load(g, type, OF_HALF, ptr),
                 upper = gen_load(g, type, OF_HALF, gen_ptr(g, ptr, gen_int(g, bytes)));
    return gen_shuffle(g, lower, upper, mask, 2 * OF_HALF);
}

/* LLVM would join the halves of two vectors to whole ones, by permutations that take longer than two stores:
 * of volatile stores it joins none. */
void thin_store_halves(Thin *t, LLVMValueRef v, LLVMValueRef ptr, int vectors)
{
    Gen *g = t->g;
    DType type = t->s->buf->dtype;
    for (int h = 0; h < 2; h++) {
        int mask[OF_HALF], bytes = h * vectors * OF_HALF * dtype_bytes(type);
        for (int k = 0; k < OF_HALF; k++) mask[k] = h * OF_HALF + k;
        LLVMValueRef half = gen_shuffle(g, v, v, mask, OF_HALF);
        LLVMSetVolatile(gen_store(g, type, half, gen_ptr(g, ptr, gen_int(g, bytes))), true);
    }
}
