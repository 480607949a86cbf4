/* search_covariance.h: the sums that search_predict.c spends its time in. */
#pragma once
#include "runtime/choice/search/search_points.h"

enum {
    SEARCH_MOST_KNOWN = 144, /* points that predictions are made from: no more are compiled by them */
    SEARCH_PER_STEP = 16,
    SEARCH_MOST_STEPS = 128, /* of the table of covariances */
    SEARCH_POINTS_AT_ONCE = 8
};

typedef struct SearchCovariance {
    float weight[MOST_NAMES];                                       /* how much names matter */
    float x[MOST_NAMES][SEARCH_MOST_KNOWN + SEARCH_POINTS_AT_ONCE]; /* the places of the known points */
    float falls[SEARCH_PER_STEP * SEARCH_MOST_STEPS + 1]; /* of points so many parts of a step apart */
} SearchCovariance;

/* reach: steps after which two points have little in common. */
void search_covariance_begin(SearchCovariance *, double reach);
/* The covariances of a point at `x` with the known points from .. to - 1, to the same places of `out`. */
void search_covariances(
    const SearchCovariance *, const float x[MOST_NAMES], int from, int to, float out[SEARCH_MOST_KNOWN]);
/* The sum of the products of n numbers. */
float search_product(const float *, const float *, int n);
