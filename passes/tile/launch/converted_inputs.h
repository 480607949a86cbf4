/* converted_inputs.h: inputs of which a kernel takes nothing but a conversion; see converted_inputs.c. */
#pragma once
#include "ir/ir.h"

/* The type of at most 16 bits to which all that reads the function's input `param` converts it; DT_COUNT:
 * there is none, or it is that of the input. The function's calls are inlined. */
DType input_converted_to(const Func *, int param);
/* Gives the inputs these types, by parameter; DT_COUNT: as they are. Returns how many it has changed. A
 * diagnostic, where an input is not converted so. */
int64_t convert_inputs(Session *, Func *, const DType *to);
