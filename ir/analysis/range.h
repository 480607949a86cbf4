/* range.h: what is known of integer values: an interval and a divisor. Used by narrow, divisibility,
 * mask-peel and the backends' choice of index widths and vector accesses.
 *
 *     Ranges *r = ranges_new(func);              one sweep over the function
 *     RangeInfo x = range_of(r, value);
 *     if (x.hi <= INT32_MAX && x.div % 8 == 0) ...
 *
 * Sources: constants, arange, dimensions (known extent, divisor, fits32), strides, scalar parameters' ranges,
 * the grid (for program_id and num_programs), loop bounds, `range` attributes. An operation that may wrap in
 * its dtype gives the whole dtype. Results stay true while the function is changed only in ways that keep
 * values; new values are looked up through their operands. Values of no integer type give the whole int64
 * range. */
#pragma once
#include "ir/ir.h"

/* Every element lies in [lo, hi] and is a multiple of div. div = 0: the value is 0, so `div % n == 0` asks
 * for a multiple of n. u64 values of 2^63 and more count as negative, as in Scalar. */
typedef struct RangeInfo {
    int64_t lo, hi, div;
} RangeInfo;
typedef struct Ranges Ranges;

/* The guarantees of a launch about every grid and tensor. It rejects larger ones. */
#define RANGE_MAX_EXTENT ((1ll << 48) - 1)
#define RANGE_MAX_PROGRAMS INT32_MAX

Ranges *ranges_new(const Func *); /* in the session's arena */
RangeInfo range_of(Ranges *, const Value *);
RangeInfo range_of_dim(const Func *, int dim); /* the extent of a dimension symbol */
RangeInfo range_of_dtype(DType);
/* Whether it is known that the operation that makes the value does not wrap. */
bool range_exact(Ranges *, const Value *);
bool range_fits(RangeInfo, DType); /* whether every value of the range is one of the dtype */
/* The greatest common divisor, where 0 is a multiple of everything. It is never negative, and 1 for
 * INT64_MIN. */
int64_t range_gcd(int64_t, int64_t);
/* The ranges of the results of an operation on operands of these ranges, before `range` attributes: for
 * ops.def's integer arithmetic, comparisons and casts. */
RangeInfo range_op(Op, DType, const RangeInfo *operands);
