/* random_kernel.h: random kernels in the language, valid by construction, whose results do not hang on a last
 * bit.
 *
 * Integer values may do anything; they must come out equal. Float values never decide a branch, an index or
 * an integer, stay of moderate size and are never divided by something near zero, so that rounding
 * differently moves them by little. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RandomKernel {
    /* The kernel `random`, whose parameters are given by `tensors` and `scalars` in the notation of cases.h.
     */
    char text[16384];
    char tensors[1536], scalars[96], launch[640], sizes[256];
    /* as in a kernel's file (kernel_file.h); empty: none, and the usual ones apply */
    char views[128], bounds[64];
} RandomKernel;

/* Kernel number `seed`; the same on every machine. */
void random_kernel(uint64_t seed, RandomKernel *out);

/* Another kind, made of matrix products (random_product.c). */
void random_product(uint64_t seed, RandomKernel *out);

/* Another kind, whose structure varies (random_structure.c): exact. */
void random_structure(uint64_t seed, RandomKernel *out);

/* Another kind, which mixes what the language has (random_mixture.c): exact. */
void random_mixture(uint64_t seed, RandomKernel *out);

/* Another kind, of tiles with many axes (random_shapes.c): exact. */
void random_shapes(uint64_t seed, RandomKernel *out);

/* Another kind, of programs that work on whole rows (random_rows.c): exact. */
void random_rows(uint64_t seed, RandomKernel *out);

/* Another kind, around sums of whole tiles (random_sums.c): exact. */
void random_sums(uint64_t seed, RandomKernel *out);

/* Another kind, of attention in many forms (random_scores.c). */
void random_scores(uint64_t seed, RandomKernel *out);

/* Another kind, of functions of floats: softmax, norms, statistics of rows (random_floats.c). */
void random_floats(uint64_t seed, RandomKernel *out);

/* Another kind, whose values have any type and any axes, with functions (random_program.h): exact. */
void random_program(uint64_t seed, RandomKernel *out);

/* The same, with what the language has and few kernels use (random_rare.c): exact. */
void random_rare(uint64_t seed, RandomKernel *out);

/* Another kind, whose windows, bounds and masks lie at computed places (random_places.c): exact. */
void random_places(uint64_t seed, RandomKernel *out);

/* Another kind, of the forms that passes look for, and of others that are almost those
 * (random_patterns.c): exact. */
void random_patterns(uint64_t seed, RandomKernel *out);

/* Another kind, of atomics on small tensors in loops, branches and behind returns, with optional tensors and
 * tensors without axes (random_counts.c): exact. */
void random_counts(uint64_t seed, RandomKernel *out);

/* Another kind, of integer products of few columns whose sums leave transposed (random_columns.c): exact. */
void random_columns(uint64_t seed, RandomKernel *out);

/* Products in every arrangement (arrange.h): exact, but for those that say bounds. */
void random_arrangement(uint64_t seed, RandomKernel *out);
/* The same of few and small tiles. */
void random_small_arrangement(uint64_t seed, RandomKernel *out);
