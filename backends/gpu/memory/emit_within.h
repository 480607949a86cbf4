/* emit_within.h: indices that are in range wherever there is an element at all (emit_within.c). */
#pragma once
#include "backends/gpu/emit.h"

/* Whether every element of the index is in range of the dimension, if its extent is at least 1. */
bool within_if_any(Emit *, const Value *, int dim);
