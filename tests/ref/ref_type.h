/* ref_type.h: the element types of the language as the tests know them: storage formats, conversion to and
 * from double.
 *
 * Independent of the compiler on purpose. Every number format here is defined by its parameters (exponent
 * range, bits of mantissa) and rounded by one routine; nothing is shared with ir/ or the backends. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

typedef enum RefType {
    REF_BOOL,
    REF_I8,
    REF_I16,
    REF_I32,
    REF_I64,
    REF_U8,
    REF_U16,
    REF_U32,
    REF_U64,
    REF_F8E4M3,
    REF_F8E5M2,
    REF_F16,
    REF_BF16,
    REF_F32,
    REF_F64,
    REF_TYPES
} RefType;

const char *ref_type_name(RefType);
bool ref_type_parse(const char *name, size_t n, RefType *out);
size_t ref_type_size(RefType);
bool ref_type_is_float(RefType);

/* Element i of an array of that type. Integers of 64 bits are rounded to double. */
double ref_get(RefType, const void *array, int64_t i);
/* Rounds once to nearest even, as the language's casts do: fp8 saturates, f16 and wider overflow to infinity.
 * To integers: towards zero, saturating, NaN gives 0. */
void ref_put(RefType, void *array, int64_t i, double value);

/* The value rounded to the type, as a double. */
double ref_round(RefType, double value);
/* The distance between neighbouring numbers of a floating type around `value` (its smallest one near 0).
 * Integers: 1. */
double ref_ulp(RefType, double value);
/* 2^-mantissa: ref_ulp(type, 1). */
double ref_epsilon(RefType);
