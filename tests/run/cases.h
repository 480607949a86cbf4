/* cases.h: what is tested: a table of recipes (how an example is called, what it must give) and of cases (at
 * which sizes, types, views). The table is data: the CPU, CUDA and HIP run tests, the interpreter and the
 * emulators all take it. */
#pragma once
#include <stdbool.h>

typedef struct Problem Problem;

/* Spacing of the output type at max(|want|, floor) is what errors are counted in, see ref_compare.h. */
typedef enum Floor { FLOOR_NONE, FLOOR_RMS, FLOOR_ONE } Floor;

typedef struct Recipe {
    const char *name; /* unique: the example's name, with a suffix if it has several kernels */
    const char *file; /* examples/kernels/<file>.tile */
    /* "role NAME[dims] type fill; ...", role one of in, out, inout, work; type a type or a const type; dims
     * names or numbers. fill (inputs): normal (the default; small whole numbers for integer types), unit,
     * ones, int:K (whole numbers in -K..K), extremes:K (the same, one in 40 NaN, infinite, -0 or large),
     * index:DIM (whole numbers in 0..DIM-1), offsets:DIM (ascending from 0 to DIM: where parts begin and
     * end), mask (normal, a quarter of it -inf), masked-start (first half of the row -inf), bits (of
     * integers: any pattern of the type) */
    const char *tensors;
    const char *scalars; /* "type NAME=value; ..." */
    const char *consts;  /* "T=f16 ..." defaults a case may override */
    /* The kernels in order, "kernel arguments... [/ consts...]". Without the slash, a launch has all consts.
     */
    const char *launch[6];
    void (*reference)(Problem *);
    double narrow, f32, f64; /* bound in ulp by output type (narrow: 8 and 16 bits). Integers must be equal */
    Floor floor;
    double norm; /* bound of the error's norm for narrow outputs, in epsilons; 0, and for others: 0.7 of the
                    bound in ulp */
} Recipe;

typedef struct Case {
    const char *recipe;
    const char *sizes;  /* "N=1 | N=9 | ..." */
    const char *consts; /* "T=f16 | T=f32" or NULL: each with every size */
    /* "A:t B:s" or NULL. t: last two axes swapped in memory; s: sliced out of a larger tensor; x: every other
     * element of the last axis; r: last axis backwards; b: first axis backwards; p: axis 1 innermost
     * (channels last); d: all axes backwards; z, o: stride 0 along the first axis, the last one; w: each row
     * in a wider one of a multiple of 16 elements; a: in the memory of an earlier input that is filled alike,
     * if one is large enough */
    const char *views;
    const char *special; /* the input that gets a few NaN and infinities, or NULL */
    bool heavy;          /* left out by --light (emulators, sanitizers) */
} Case;

extern const Recipe recipes[];
extern const Case cases[];
extern const int n_recipes, n_cases;
const Recipe *recipe_find(const char *name);
