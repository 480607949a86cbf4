/* ref_compare.h: how far results may lie from their references.
 *
 *   norm   |got - want| / |want| over the whole tensor: sees errors that are small everywhere
 *   ulp    the largest error of one element, in units of the output type's spacing at max(|want|, floor):
 *          sees single wrong
 *          elements. `floor` is 0 for element-wise work; for sums it is the rms of the wanted values, as a
 *              sum
 *          that happens to cancel is no more accurate than its neighbours.
 * NaN must meet NaN, an infinity the same infinity. */
#pragma once
#include "ref_type.h"

typedef struct RefError {
    double norm, ulp;
    int64_t worst;    /* element with the largest ulp error */
    double got, want; /* its values */
    int64_t misfits;  /* NaN or infinity on one side only */
    int64_t first_misfit;
} RefError;

/* got[i] are the values the kernel left, want[i] the reference before rounding to the output type. */
RefError ref_compare(RefType out, const double *got, const double *want, int64_t n, double floor);
double ref_rms(const double *x, int64_t n); /* over the finite elements */
