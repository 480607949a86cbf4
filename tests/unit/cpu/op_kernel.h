/* op_kernel.h: a kernel of one operation under construction: tensors of fixed extents, one program. It is run
 * by the interpreter and, compiled, by this machine, and the results are compared. */
#pragma once
#include "cpu_run.h"

enum { OP_KERNEL_TENSORS = 6 };

typedef struct Kernel {
    Session s;
    Func *f;
    Builder b;
    Value *param[OP_KERNEL_TENSORS], *token[OP_KERNEL_TENSORS];
    InterpArg args[OP_KERNEL_TENSORS];
    void *data[OP_KERNEL_TENSORS], *copy[OP_KERNEL_TENSORS], *start[OP_KERNEL_TENSORS];
    size_t bytes[OP_KERNEL_TENSORS];
    int n;
    double slack; /* the relative difference allowed in float results */
} Kernel;

extern int failures, checks;
extern const BackendOptions *kernel_only; /* compile with these alone; NULL: for the processors of a list */
extern bool everywhere;                   /* every kernel for every processor, and not in turn */

void kernel_begin(Kernel *);
void kernel_open_func(Kernel *);
int kernel_tensor(
    Kernel *, ParamKind, DType, int rank, const int64_t *shape, const Scalar *values, int n_values);
Value *kernel_load_all(Kernel *, int t);
Value *kernel_token_of(Kernel *, int t);
void kernel_store_all(Kernel *, int t, Value *x);
/* A new output that takes all of `x`. */
void kernel_output(Kernel *, Value *x);
/* A product of M, N and K, of tensors of types[0] and types[1] with sums of types[2], and the same from zero;
 * the operands are filled with `n` values each, in turn. Bits of `turned`: a, b lie the other way in memory.
 * Runs and compares it, as kernel_finish does. */
void kernel_product(Kernel *, const DType types[3], const int64_t size[3], int turned, const Scalar *a,
    const Scalar *b, const Scalar *c, int n);
/* Runs what was built on both and compares; `what` names it in a failure. */
void kernel_finish(Kernel *, const char *what);
void kernel_end(Kernel *);
