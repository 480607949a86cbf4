/* problem.h: one test problem: the tensors and scalars of an example at given sizes, filled from a seed, with
 * the wanted results.
 *
 * Tensors lie in larger allocations: guards on both sides, gaps between the elements of strided views. What
 * is not an input element is filled with 0xff bytes, which is NaN in every float format and -1 in integers:
 * reading beside an input gives NaN, an element not written stays NaN, and any byte outside the outputs that
 * changed is reported. */
#pragma once
#include "cases.h"
#include "ref_compare.h"

enum { MAX_RANK = 8, MAX_TENSORS = 32, MAX_SCALARS = 12, MAX_BINDS = 24, NAME_SIZE = 32 };

typedef enum Role { ROLE_IN, ROLE_OUT, ROLE_INOUT, ROLE_WORK } Role;

typedef struct Tensor {
    char name[NAME_SIZE];
    Role role;
    RefType type;
    int rank;
    int64_t shape[MAX_RANK], stride[MAX_RANK]; /* strides in elements */
    int64_t count;                             /* elements */
    unsigned char *base, *before;              /* the whole allocation, and its contents before the run */
    size_t bytes;                              /* its size */
    size_t offset;                             /* bytes from base to element [0, 0, ...] */
    const struct Tensor *within; /* the tensor in whose allocation it lies; NULL: it has its own */
    /* row-major: the values of an input (inout: before the run), the wanted ones of an output */
    double *values;
    double *want; /* inout and out: the wanted values */
    double
        terms; /* of sums whose terms cancel each other: the size of a sum of the terms' magnitudes; or 0 */
} Tensor;

/* Where element `linear`, in row-major order, stands: elements from [0, 0, ...]. */
int64_t tensor_offset(const Tensor *, int64_t linear);

typedef struct ScalarArg {
    char name[NAME_SIZE];
    RefType type;
    double value;   /* of an integer type: the nearest double */
    uint64_t whole; /* of an integer type: its bits, the sign extended; of a float: 0 */
} ScalarArg;
/* A scalar of an integer type that has this value, which the type can hold. */
ScalarArg scalar_arg_whole(const char *name, RefType, int64_t value);
typedef struct Bind {
    char name[NAME_SIZE], value[NAME_SIZE];
} Bind;

typedef struct Problem {
    const Recipe *recipe;
    int n_tensors, n_scalars, n_sizes, n_consts;
    Tensor tensors[MAX_TENSORS];
    ScalarArg scalars[MAX_SCALARS];
    Bind sizes[MAX_BINDS], consts[MAX_BINDS];
} Problem;

/* Builds the problem and computes the reference. `sizes` and `consts` are "NAME=value ..." lists, `views`
 * "TENSOR:kind ...", `special` names an input that gets NaN and infinities, or is NULL. NULL and a text when
 * the table is wrong. */
Problem *problem_make(const Recipe *, const char *sizes, const char *consts, const char *views,
    const char *special, uint64_t seed, char *why, size_t why_size);
void problem_free(Problem *);

/* Puts all memory back to what it was before the run. */
void problem_reset(Problem *);

typedef struct Verdict {
    bool ok;
    RefError error;
    double bound;
    char text[400];
} Verdict;
/* Compares outputs with the references, and everything else with what it was. `error` is the worst output's.
 */
Verdict problem_check(const Problem *);

/* The outputs' values one after another (malloc), and how two runs of one problem compare, by twice the
 * bounds. */
double *problem_outputs(const Problem *, int64_t *count);
Verdict problem_agree(const Problem *, const double *a, const double *b);

/* For references and executors. Names that the table does not have are a mistake in the table: abort. */
Tensor *problem_tensor(const Problem *, const char *name);
const ScalarArg *problem_scalar(const Problem *, const char *name); /* NULL: no such scalar */
int64_t problem_size(const Problem *, const char *name);
const char *problem_const(const Problem *, const char *name); /* NULL: not given */
double problem_scalar_value(const Problem *, const char *name);
