/* signs.h: what is known of the values of floats, for every input. */
#pragma once
#include "ir/ir.h"
#include <math.h>

/* Whether the magnitude of the value is one at most, or the value is NaN. */
bool signs_within_one(const Func *, const Value *);
