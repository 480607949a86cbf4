/* scalar.h: the semantics of scalar operations, the only place that has them in C: the folder, the evaluator
 * of grids and remaps, the interpreter and the tests all call these. ops.def says in words what is computed
 * here.
 *
 * A value of a dtype is held in a Scalar: integers (index and bool included) as `i`, sign- or zero-extended
 * from their width; floats of every dtype as `f`, a double that the dtype can hold exactly.
 *
 * Arithmetic in a float dtype: f64 in double, f32 in float, the narrower ones in float with one rounding of
 * the result to the dtype (fma too: fused in float, then rounded). The caller's rounding mode must be to
 * nearest even. */
#pragma once
#include "ir/ir.h"

typedef union Scalar {
    int64_t i;
    double f;
} Scalar;

/* An element-wise operation other than cast and bitcast, on operands of dtype `d`. For `where` operands[0] is
 * the bool and `d` the dtype of the others; comparisons give a bool; philox (seed: `d`, counter) gives a u32.
 * `approx` and `ftz` are ignored: this is the exact meaning. False: not an operation on scalars, or not of
 * that dtype. */
bool scalar_op(Op, DType d, const Scalar *operands, Scalar *out);
Scalar scalar_cast(DType to, DType from, Scalar);
Scalar scalar_bitcast(DType to, DType from, Scalar);

/* The representation in memory, in the low bits; and back (higher bits are ignored). */
uint64_t scalar_bits(DType, Scalar);
Scalar scalar_of_bits(DType, uint64_t);
/* One element of `dtype_bytes(d)` bytes at `p`, of any alignment, in the byte order of the host. */
Scalar scalar_load(DType, const void *p);
void scalar_store(DType, Scalar, void *p);

/* To the nearest value of a float dtype, ties to even; fp8 saturates, infinities too; NaN stays. */
double scalar_round(DType, double);
/* The smallest normal number of a float dtype. */
double scalar_least_normal(DType);
/* Whether a float dtype holds the value: f8e5m2 has infinities, though rounding to it never gives one. */
bool scalar_exact(DType, double);
/* The low bits of an integer dtype, extended; bool: != 0. */
int64_t scalar_wrap(DType, int64_t);
/* The commonest operations on i32, i64 and index, inline: what scalar_op computes, for loops that run many of
 * them. False, and *out is as it was: another dtype or operation, a divisor that is not above zero, or `cdiv`
 * of a number below zero; scalar_op knows these. */
static inline bool scalar_whole(Op op, DType d, int64_t a, int64_t b, Scalar *out)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b, r;
    if (d != DT_I32 && d != DT_I64 && d != DT_INDEX) return false;
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_ADD: r = x + y; break;
    case ARITHMETIC_SUB: r = x - y; break;
    case ARITHMETIC_MUL: r = x * y; break;
    case ARITHMETIC_DIV:
        if (b <= 0) return false;
        r = (uint64_t)(a / b);
        break;
    case ARITHMETIC_REM:
        if (b <= 0) return false;
        r = (uint64_t)(a % b);
        break;
    case ARITHMETIC_CDIV:
        if (b <= 0 || a < 0) return false;
        r = (uint64_t)(a / b + (a % b != 0));
        break;
    case ARITHMETIC_MIN: r = a < b ? x : y; break;
    case ARITHMETIC_MAX: r = a > b ? x : y; break;
    case ARITHMETIC_NEG:
    case ARITHMETIC_ABS:
    case ARITHMETIC_FMA:
    case ARITHMETIC_MINNUM:
    case ARITHMETIC_MAXNUM:
    case ARITHMETIC_CLAMP:
    default: return false;
    }
    out->i = d == DT_I32 ? (int32_t)r : (int64_t)r;
    return true;
}

static inline Scalar scalar_int(int64_t i) { return (Scalar){ .i = i }; }
static inline Scalar scalar_float(double f) { return (Scalar){ .f = f }; }
/* The identities of max and min: the lowest and highest value (infinities where the dtype has them). */
Scalar scalar_lowest(DType);
Scalar scalar_highest(DType);

/* philox4x32-10 (Salmon et al., SC 2011), word 0: key = (low, high half of seed), counter block = (low, high
 * half of counter, 0, 0). */
uint32_t scalar_philox(uint64_t seed, uint64_t counter);
/* Word number % 4 of the block number / 4: numbers that follow each other share blocks. */
uint32_t scalar_random_bits(uint64_t seed, uint64_t number);
