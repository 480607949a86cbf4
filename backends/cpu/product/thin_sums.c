/* thin_sums.c: sums of the lanes of vectors, in which dot products (thin_dots.c) have run along K. */
#include "backends/cpu/product/thin.h"

LLVMValueRef thin_add(Thin *t, LLVMValueRef a, LLVMValueRef b)
{ return dtype_is_float(t->as) ? LLVMBuildFAdd(t->g->b, a, b, "") : LLVMBuildAdd(t->g->b, a, b, ""); }

/* Of each block of `block` lanes of a, and of b unless it is NULL, the sums of its two halves, side by side.
 */
LLVMValueRef thin_add_halves(Thin *t, LLVMValueRef a, LLVMValueRef b, int block)
{
    int low[64], high[64], n = gen_lanes(a) * (b ? 2 : 1) / 2, half = block / 2;
    for (int j = 0; j < n; j++) {
        low[j] = j / half * block + j % half;
        high[j] = low[j] + half;
    }
    if (!b) b = LLVMConstNull(LLVMTypeOf(a));
    return thin_add(t, gen_shuffle(t->g, a, b, low, n), gen_shuffle(t->g, a, b, high, n));
}

/* Of a and b, in each of their halves of 16 bytes, the sums of the two halves of blocks of `block` lanes. */
static LLVMValueRef add_within(Thin *t, LLVMValueRef a, LLVMValueRef b, int block)
{
    int low[64], high[64], n = t->lanes, of_half = n / 2, half = block / 2;
    for (int j = 0; j < n; j++) {
        int in = j % of_half, from = in / half * block % of_half + in % half;
        low[j] = j / of_half * of_half + from + (in >= of_half / 2 ? n : 0);
        high[j] = low[j] + half;
    }
    return thin_add(t, gen_shuffle(t->g, a, b, low, n), gen_shuffle(t->g, a, b, high, n));
}

/* The sums of the lanes of n vectors of 32 bytes, as many as each has lanes. Shuffles within the halves of a
 * register take less time than those across, so the two halves are added last. */
static LLVMValueRef sums_of_all_lanes(Thin *t, LLVMValueRef *x, int n)
{
    int low[64], high[64], of_half = n / 2;
    for (int block = of_half; block > 1; block /= 2)
        for (int k = 0; k < n * block / of_half / 2; k++) x[k] = add_within(t, x[2 * k], x[2 * k + 1], block);
    for (int j = 0; j < n; j++) {
        low[j] = j % of_half + j / of_half * n;
        high[j] = low[j] + of_half;
    }
    return thin_add(t, gen_shuffle(t->g, x[0], x[1], low, n), gen_shuffle(t->g, x[0], x[1], high, n));
}

/* The sums of the lanes of n vectors, a power of two and at most as many as a vector has lanes: halves are
 * added first, of two vectors at once. Of integers the order of the additions does not show; that of floats
 * is the same for any n. */
LLVMValueRef thin_sums_of_lanes(Thin *t, LLVMValueRef *v, int n)
{
    int block = t->lanes;
    LLVMValueRef x[MAX_SUMS];
    memcpy(x, v, (size_t)n * sizeof *x);
    if (n == t->lanes && t->g->target->vector_bytes == HALVES && !dtype_is_float(t->as))
        return sums_of_all_lanes(t, x, n);
    for (; n > 1; n /= 2, block /= 2)
        for (int k = 0; k < n / 2; k++) x[k] = thin_add_halves(t, x[2 * k], x[2 * k + 1], block);
    for (; block > 1; block /= 2) x[0] = thin_add_halves(t, x[0], NULL, block);
    return x[0];
}

/* Of four vectors: in each half, the sums of the four halves' lanes. */
LLVMValueRef thin_sums_within(Thin *t, const LLVMValueRef *v)
{
    LLVMValueRef x = add_within(t, v[0], v[1], ROWS_OF_BLOCK), y = add_within(t, v[2], v[3], ROWS_OF_BLOCK);
    return add_within(t, x, y, ROWS_OF_BLOCK / 2);
}

/* Turns the matrix of four rows that each half of four vectors has. */
void thin_transpose_sums(Thin *t, LLVMValueRef *v)
{
    Gen *g = t->g;
    LLVMValueRef x[ROWS_OF_BLOCK];
    int bytes = HALVES / t->lanes;
    for (int k = 0; k < ROWS_OF_BLOCK; k++) v[k] = LLVMBuildBitCast(g->b, v[k], gen_vec(g->i8, HALVES), "");
    for (int k = 0; k < ROWS_OF_BLOCK; k++) x[k] = thin_interleave(g, v[k / 2], v[k / 2 + 2], bytes, k % 2);
    for (int k = 0; k < ROWS_OF_BLOCK; k++)
        v[k] = LLVMBuildBitCast(g->b, thin_interleave(g, x[k / 2], x[k / 2 + 2], bytes, k % 2), t->vec, "");
}
