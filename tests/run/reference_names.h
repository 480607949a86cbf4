/* reference_names.h: how the references name what a problem holds. */
#pragma once
#include "problem.h"
#include "ref_kernels.h"
#include "references.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IN(name) const double *name = problem_tensor(p, #name)->values
#define WANT(name) double *name = problem_tensor(p, #name)->want
#define SIZE(name) const int64_t name = problem_size(p, #name)
