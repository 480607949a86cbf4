/* eval.h: computes the scalar blocks of a kernel (grid, remap, extents) on the host. A block is compiled once
 * to a flat program of a few instructions; running it allocates nothing, touches no IR and may happen on any
 * number of threads at once.
 *
 *     EvalCode *grid = eval_compile(arena, func, func->grid, &why);       once
 *     eval_run(grid, &env, extents, 3);                                     at each launch
 *
 * An EvalCode is one block of eval_size() bytes without pointers: it may be copied, and kept in a file. */
#pragma once
#include "ir/interp/scalar.h"

typedef struct EvalCode EvalCode;
enum { EVAL_MAX_RESULTS = 64 };

/* The values of a launch. Arrays are indexed as in the Func that was compiled. Those that it does not use may
 * be NULL. */
typedef struct EvalEnv {
    const int64_t *dims;                     /* extent of each dimension symbol */
    const Scalar *scalars;                   /* by parameter: scalar arguments */
    const int64_t (*strides)[TILE_MAX_RANK]; /* by parameter: strides in elements */
    int64_t grid[3];                         /* programs an axis (1 for absent axes) */
    int64_t coord[3];                        /* the program id, if the block asks for it */
    int64_t linear;                          /* the argument of a remap: the linear id */
} EvalEnv;

/* NULL, with the reason (static text) in *why: an operation on tiles or memory, or a block too large. */
EvalCode *eval_compile(Arena *, const Func *, const Block *, const char **why);
int eval_results(const EvalCode *);
bool eval_reads_scalars(const EvalCode *);
/* Results as integers (floats are not results of a grid or remap). False: more results than `out` has room
 * for, a loop that does not end within 2^20 rounds or has a step of 0. */
bool eval_run(const EvalCode *, const EvalEnv *, int64_t *out, int capacity);
/* Whether a result, or the way to it, rests on an integer division by zero (which eval_run takes as 0). */
bool eval_divides_by_zero(const EvalCode *, const EvalEnv *);
size_t eval_size(const EvalCode *);
/* Whether `bytes` bytes at `p` (8-aligned), from a file, are an EvalCode that runs safely with `n_dims` and
 * `n_params`. */
bool eval_valid(const void *p, size_t bytes, int n_dims, int n_params);

/* Compiles and runs at once, with the memory of the function's session. */
bool ir_eval_block(const Func *, const Block *, const EvalEnv *, int64_t *out, int n);

/* The number of programs of a grid; 0 where an extent is 0 or less. False: more than RANGE_MAX_PROGRAMS,
 * which code for every target relies on. */
bool eval_grid_size(const int64_t *extent, int n, int64_t *programs);
/* "4096 programs", "64 x 64 (4096 programs)". Without the product where it is beyond 2^63. */
enum { EVAL_GRID_TEXT = 120 };
const char *eval_grid_text(const int64_t *extent, int n, char out[EVAL_GRID_TEXT]);

typedef enum EvalVerdict {
    EVAL_BIJECTION,
    EVAL_COLLISION,    /* a and b are both mapped to `to` */
    EVAL_OUT_OF_RANGE, /* a is mapped to `to`, which is outside [0, n) */
    EVAL_NOT_CHECKED,  /* more than EVAL_MAX_CHECKED programs */
    EVAL_FAILED,       /* eval_run failed for a */
    EVAL_NO_MEMORY,
} EvalVerdict;
typedef struct EvalClash {
    int64_t a, b, to;
} EvalClash;
enum { EVAL_MAX_CHECKED = 1 << 24 };

/* Whether a remap permutes [0, n): tried for every id. env->grid must be set; env->linear is changed. The
 * first collision is the one with the smallest b. */
EvalVerdict eval_check_remap(const EvalCode *, EvalEnv *, int64_t n, Allocator, EvalClash *);
