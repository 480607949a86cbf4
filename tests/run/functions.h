/* functions.h: kernels that make the compiler emit a function of the CUDA prelude. The functions come from
 * the prelude's table; each row here serves a family of names. */
#pragma once
#include "random/random_kernel.h"

/* pattern: a function's name in which $t stands for an element type, $u for another one, $c for a cache mode,
 * $b for a width in bits, $r for a number of axes. The other texts hold the same, and of what follows from
 * them: $n (row length of a tensor whose vectors have $b bits), $l (leading coordinates of $r axes), $d
 * (leading extents). sizes, tensors, scalars and bounds: as in a kernel's file (kernel_file.h). */
typedef struct FunctionRow {
    const char *pattern, *sizes, *tensors, *bounds, *head, *body;
} FunctionRow;

extern const FunctionRow function_rows[];
extern const int n_function_rows;

/* The kernel of a row for the function `name`. False: the row does not serve that name. */
bool function_kernel(const FunctionRow *, const char *name, RandomKernel *);
