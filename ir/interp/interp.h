/* interp.h: runs a kernel of tile IR on tensors of the host, one program after the other, one element after
 * the other. Slow, plain and independent of passes and backends: the oracle for both.
 *
 * Semantics are those of ops.def through scalar.h, with these choices where ops.def leaves one:
 *   mma           products and sums in double, rounded once to the accumulator's type (integers: exact,
 *                 wrapped); precision =
 *                 tf32 rounds f32 operands to 10 bits of fraction, ties to even
 *   reduce_sum, reduce_prod, scan_sum, scan_prod of floats: in double, first to last, each result rounded
 *       once
 *   reduce, scan with a block: combine(so far, next), from the first position on, in the dtype (scan
 *       with `reverse`: last to first)
 *   duplicates    scatter: the last in row-major order wins; atomics take effect in row-major order
 *   programs      run in linear order, whole, so every atomic and acquire/release pattern that can wait for
 *                 a later program hangs
 *                 until the step limit
 *   approx, ftz   ignored; hints, cache, sem and scope too
 * A load or store with masked = 0 (proven in range) that is out of range is an error: the pass that proved it
 * was wrong. */
#pragma once
#include "ir/interp/scalar.h"

typedef struct InterpArg {
    void *data; /* tensor: address of element 0 */
    int64_t shape[TILE_MAX_RANK];
    int64_t stride[TILE_MAX_RANK]; /* in elements; may be 0 or negative */
    /* The value of a scalar parameter, which the callee wraps or rounds to its dtype. */
    Scalar scalar;
} InterpArg;

/* The progress of a run, for other threads and signal handlers: programs, and steps up to the last program or
 * iteration of a loop. */
typedef struct InterpProgress {
    _Atomic int64_t done, total, steps;
} InterpProgress;

typedef struct InterpOptions {
    int64_t max_steps; /* the number of elements after which the run is abandoned; 0: 2^32 */
    int64_t max_bytes; /* memory for values; 0: 4 GiB */
    bool check;        /* --check: failed asserts, gathers out of range and stored NaN are errors */
    Text *prints;      /* where print writes, or NULL */
    void (*on_print)(
        void *user, const char *line, size_t n); /* receives each line instead of `prints`; or NULL */
    void *on_print_user;
    InterpProgress *progress; /* or NULL */
    /* called after each value is computed; or NULL */
    void (*on_value)(void *user, const Value *, const Scalar *elements);
    void *on_value_user;
    /* called for each element that is read or written, with its distance in bytes from element [0, 0, ...] of
     * the parameter's tensor; or NULL */
    void (*on_access)(void *user, const Instr *, int param, int64_t offset);
    void *on_access_user;
    int64_t first, count; /* run programs [first, first + count) of the linear grid; count 0: all */
    int64_t program;      /* out: the one that runs, for on_access and on_value */
    int64_t steps;        /* out: elements computed */
    int64_t grid[3];      /* out: the grid */
} InterpOptions;

/* Runs a kernel that verifies. False after a diagnostic: an argument that breaks a fact of its parameter, a
 * dimension with two extents, a limit reached, an error of `check`. Tensors may then be half-written. Memory
 * goes back before it returns. */
bool interp_run(Session *, const Func *, const InterpArg *args, int n);
bool interp_run_with(Session *, const Func *, const InterpArg *args, int n, InterpOptions *);
