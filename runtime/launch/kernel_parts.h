/* kernel_parts.h: what the files that make a kernel share: kernel.c, tune_rows.c. */
#pragma once
#include "runtime/launch/kernel.h"

/* The parameter of this name, consts among them; NULL: there is none. */
const FrontParam *kernel_front_param(const FrontKernel *, const char *name);
/* The dimension of this name, or -1. */
int kernel_front_dim(const FrontKernel *, const char *name);
bool kernel_is_const(const FrontParam *);
/* Converts a number that is given for a const of another kind, if that loses nothing. */
void kernel_adapt(const FrontParam *, FrontValue *);
/* The value of a const or const type: as bound, or its default; NULL: it has none. */
const FrontValue *kernel_bound_value(const tile_kernel *, const char *name);

/* Finds the entries of the kernel's table that fit it. */
void kernel_take_rows(tile_kernel *);
