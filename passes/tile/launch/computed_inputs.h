/* computed_inputs.h: inputs of which a kernel takes nothing but what it computes from them element by
 * element; see computed_inputs.c. */
#pragma once
#include "ir/ir.h"

enum { MOST_COMPUTED_FROM = 6 };

/* A window of an input, perhaps some columns behind that of the result, or a vector for its rows or columns.
 * Where whole rows are computed, columns that are known. */
typedef struct ComputedFrom {
    int param;
    int dim;       /* of the function: as many columns as its extent; -1: none */
    int64_t axis;  /* of the result, along which a vector lies; -1: it is a window */
    int64_t plus;  /* columns beside those of the dimension; of whole rows the first column */
    int64_t width; /* the columns of a window of whole rows */
} ComputedFrom;

typedef struct ComputedInput {
    DType to; /* of the result; DT_COUNT: there is none */
    int n;    /* windows that it is computed from; the first is that of the input in whose place it is read */
    int64_t columns; /* of a row, where whole rows are computed; 0: it is computed element by element */
    ComputedFrom from[MOST_COMPUTED_FROM];
    const char *body; /* statements that make the tile `y` of the tiles and vectors `x0`, `x1`, .. */
} ComputedInput;

/* What the function computes of its input `param` alone or together with others of the same shape. Its calls
 * are inlined. */
ComputedInput input_computed(Session *, Func *, int param);
/* Replaces what is computed by loads of `param`, which then has that type. False: nothing was changed. */
bool compute_input(Session *, Func *, int param, DType to);
