/* range_impl.h: what range.c, range_op.c and range_float.c share. */
#pragma once
#include "ir/analysis/range.h"

typedef __int128 Wide;

static const RangeInfo all = { INT64_MIN, INT64_MAX, 1 };

static inline RangeInfo constant(int64_t c)
{ return (RangeInfo){ c, c, c == INT64_MIN ? 1ll << 62 : c < 0 ? -c : c }; }

static inline RangeInfo join(RangeInfo a, RangeInfo b)
{ return (RangeInfo){ a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi, range_gcd(a.div, b.div) }; }

/* Both hold; an empty intersection (the code is never reached, or a promise broken) keeps `a`. */
static inline RangeInfo meet(RangeInfo a, RangeInfo b)
{
    RangeInfo r = { a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi, a.div };
    return r.lo <= r.hi ? r : a;
}

static inline Wide wide_min(Wide a, Wide b) { return a < b ? a : b; }
static inline Wide wide_max(Wide a, Wide b) { return a > b ? a : b; }

/* A result computed without wrapping: the whole dtype if it might wrap (then only powers of two stay
 * divisors). */
RangeInfo range_in_dtype(DType, Wide lo, Wide hi, int64_t div);

/* range.c: the range of a value, looked at behind so many operands. */
RangeInfo range_at(Ranges *, const Value *, int depth);
/* range_float.c: the range of what a cast makes of floats. */
RangeInfo range_of_float_cast(Ranges *, const Instr *cast, int depth);
