/* prelude_float.h: functions of floats that the preludes of CUDA and HIP have in common. They differ only in
 * the prefix of the library's functions, MATH, which the including file defines, like FN.
 *
 * Each macro is a run of entries that are neighbours in both tables. The order of the entries is the order of
 * the functions in emitted text. */
#pragma once

/* maximum, minimum and absolute value */
#define FLOAT_EXTREMES \
    { "max_f64", NULL, "", \
        FN "double max_f64(double a, double b) { return a != a ? a : b != b ? b : " MATH "fmax(a, b); }" }, \
        { "min_f64", NULL, "", \
            FN "double min_f64(double a, double b) { return a != a ? a : b != b ? b : " MATH \
               "fmin(a, b); }" }, \
        { "maxnum_f32", NULL, "", FN "float maxnum_f32(float a, float b) { return " MATH "fmaxf(a, b); }" }, \
        { "minnum_f32", NULL, "", FN "float minnum_f32(float a, float b) { return " MATH "fminf(a, b); }" }, \
        { "maxnum_f64", NULL, "", \
            FN "double maxnum_f64(double a, double b) { return " MATH "fmax(a, b); }" }, \
        { "minnum_f64", NULL, "", \
            FN "double minnum_f64(double a, double b) { return " MATH "fmin(a, b); }" }, \
        { "abs_f32", NULL, "", FN "float abs_f32(float x) { return " MATH "fabsf(x); }" }, \
        { "abs_f64", NULL, "", FN "double abs_f64(double x) { return " MATH "fabs(x); }" }

/* fused multiply-add */
#define FLOAT_FMA \
    { "fma_f32", NULL, "", \
        FN "float fma_f32(float a, float b, float c) { return " MATH "fmaf(a, b, c); }" }, \
        { "fma_f64", NULL, "", \
            FN "double fma_f64(double a, double b, double c) { return " MATH "fma(a, b, c); }" }

/* exponentials */
#define FLOAT_EXP \
    { "exp2_f32", NULL, "ex2", FN "float exp2_f32(float x) { return ex2(x); }" }, \
        { "exp_f32", NULL, "", FN "float exp_f32(float x) { return " MATH "expf(x); }" }, \
        { "exp_f32_approx", NULL, "ex2", \
            FN "float exp_f32_approx(float x) { return ex2(x * 1.44269504f); }" }

/* logarithms */
#define FLOAT_LOG \
    { "log_f32", NULL, "", FN "float log_f32(float x) { return " MATH "logf(x); }" }, \
        { "log2_f32", NULL, "", FN "float log2_f32(float x) { return " MATH "log2f(x); }" }

/* rounding to an integer, f32 */
#define FLOAT_ROUND_F32 \
    { "floor_f32", NULL, "", FN "float floor_f32(float x) { return " MATH "floorf(x); }" }, \
        { "ceil_f32", NULL, "", FN "float ceil_f32(float x) { return " MATH "ceilf(x); }" }, \
        { "round_f32", NULL, "", FN "float round_f32(float x) { return " MATH "rintf(x); }" }

/* rounding to an integer, f64 */
#define FLOAT_ROUND_F64 \
    { "floor_f64", NULL, "", FN "double floor_f64(double x) { return " MATH "floor(x); }" }, \
        { "ceil_f64", NULL, "", FN "double ceil_f64(double x) { return " MATH "ceil(x); }" }, \
        { "round_f64", NULL, "", FN "double round_f64(double x) { return " MATH "rint(x); }" }
