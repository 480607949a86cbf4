/* gen_ir.h: random programs of tile IR, well-typed and deterministic, with tensors to run them on; for tests
 * that compare two ways of running one program (all passes or none, backend or interpreter).
 *
 *     GenKernel k;
 *     gen_kernel(&session, seed, 0, &k);           k.func verifies
 *     gen_fill(&k); run k.func on k.args; void *a = gen_save(&session, &k);
 *     gen_fill(&k); run it another way;   void *b = gen_save(&session, &k);
 *     if (!gen_same(&k, a, b, text, sizeof text)) ...
 *
 * Programs use loops, branches, while, reductions, scans, sorting, mma, windows with any offset and step,
 * gathers, masks, atomics, every integer and float type. What they write does not depend on the order of
 * programs. Values are kept small integers where an operation is not continuous (comparison, conversion to
 * integer, sorting), so that rounding cannot turn a result over; results that went through inexact operations
 * (exp, division, ...) are marked, and compared with a tolerance. */
#pragma once
#include "ir/interp/interp.h"

/* From this seed on every third program has extreme values among its inputs: NaN, infinities, -0 and the ends
 * of integers; every ninth denormals as well, beside which sums are compared with a tolerance, and every
 * ninth numbers near the largest. Whether a sum of those overflows hangs on its order and on contraction, so
 * these programs have no sums and products of floats. Those with denormals have no infinities, and their sums
 * and products of floats are marked as inexact. */
#define GEN_EXTREMES 1000000000u

enum { GEN_MAX_PARAMS = 16 };
enum {
    GEN_POW2 = 1,    /* tile extents are powers of two */
    GEN_NO_WIDE = 2, /* no f64, no 64-bit integer tiles */
    GEN_NO_FP8 = 4,
    GEN_NO_SORT = 8, /* no sort, topk */
    GEN_NO_ATOMICS = 16,
    GEN_NO_WHILE = 32,
    GEN_ONLY_EXACT = 64, /* use only operations with exact results, so that outputs agree bit for bit */
    GEN_BIG_TILES = 128, /* extents up to 64 rather than 16 */
    GEN_SHORT = 256,     /* at most 16 steps rather than 90, and one output written */
};

typedef struct GenKernel {
    Module *module;
    Func *func;
    int n;
    InterpArg args[GEN_MAX_PARAMS];
    size_t bytes[GEN_MAX_PARAMS]; /* of the memory of each tensor; element 0 is at args[i].data */
    char *memory[GEN_MAX_PARAMS]; /* start of that memory */
    bool exact[GEN_MAX_PARAMS];
    uint64_t seed;
} GenKernel;

void gen_kernel(Session *, uint64_t seed, unsigned flags, GenKernel *);
/* The seed's tensors for a kernel that was cut down from the seed's program; nothing counts as exact. */
void gen_replay(Session *, Module *, uint64_t seed, unsigned flags, GenKernel *);
/* The tensors' first contents, the same each time. */
void gen_fill(GenKernel *);
/* A copy of all tensors' memory, in the session's arena. */
void *gen_save(Session *, const GenKernel *);
/* Compares two such copies. False with the place and the values in `why`. */
bool gen_same(const GenKernel *, const void *a, const void *b, char *why, size_t n);
