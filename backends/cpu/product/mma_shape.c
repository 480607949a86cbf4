/* mma_shape.c: what the operands of a product are packed as, and how many rows and vectors of its sums stay
 * in registers. */
#include "backends/cpu/product/mma.h"
#include <math.h>

DType mma_operand_type(MmaKind k, const Value *v)
{
    switch (k) {
    case MMA_F32: return DT_F32;
    case MMA_F64: return DT_F64;
    case MMA_AMX_BF16:
    case MMA_BF16_PAIRS: return DT_BF16;
    case MMA_AMX_F16: return DT_F16;
    case MMA_I16_PAIRS: return DT_I16;
    case MMA_AMX_I8:
    case MMA_I8_PAIRS:
    case MMA_I8_THIN:
    case MMA_I8_QUADS: return v->type->dtype;
    }
    return DT_F32;
}

/* With AVX-512, 16 sums hide the latency of two multiply-adds a cycle twice over. Blocks of more were
 * measured to be slower, by about this part for each sum (bench/notes/cpu_zen4.md, "Products on Zen 4"). */
enum {
    ENOUGH_SUMS = 16,
    LATENCY = 5, /* cycles of a multiply-add: so many sums for each that starts in a cycle hide it */
};
static const double SLOWER_BY_SUM = 0.003;

/* Every extra shape of block (rows or columns left over) is code to compile: worth a few percent of run time.
 */
void mma_block_shape(const CpuTarget *t, MmaKind k, int64_t m, int64_t n, int *mr, int *nv)
{
    if (mma_is_amx(k)) { /* in tiles */
        *mr = m <= AMX_ROWS ? 1 : n <= AMX_ROWS ? 4 : 2;
        *nv = 4 / *mr;
        return;
    }
    int64_t vectors = (n + mma_vector_lanes(t, k) - 1) / mma_vector_lanes(t, k);
    double best = 1e300, needed = LATENCY * mma_starts(t, k);
    for (int v = 1; v <= 4; v++) {
        int most = (t->n_vector_regs - (t->fma ? 1 : 2) - v) /
                   v; /* Without fused multiply-adds, the product needs a register of its own. */
        if (most > 14) most = 14;
        for (int r = most; r >= 1; r--) {
            int64_t blocks = (m + r - 1) / r, rows = (m + blocks - 1) / blocks,
                    panels = (vectors + v - 1) / v;
            if (rows != r && r > 1) continue;     /* A smaller r gives the same number of blocks. */
            double issue = (double)(vectors * m); /* multiply-adds */
            double loads =
                (double)(blocks * vectors) + 0.6 * (double)(panels * m); /* B vectors, broadcasts of A */
            double latency = fmax(needed / (double)(rows * v), 1);
            int shapes = (1 + (m % blocks != 0)) * (1 + (vectors % v != 0 && vectors > v));
            double score = issue * latency + 0.25 * loads + 0.02 * (double)(blocks * panels) +
                           0.04 * (shapes - 1) * issue;
            if (t->avx512 && rows * v > ENOUGH_SUMS)
                score += SLOWER_BY_SUM * (double)(rows * v - ENOUGH_SUMS) * issue;
            if (score < best) {
                best = score;
                *mr = r;
                *nv = v;
            }
        }
    }
}
