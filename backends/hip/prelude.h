/* prelude.h: what HIP C is made of. */
#pragma once
#include "backends/gpu/prelude/prelude.h"

extern const PreludeEntry hip_prelude[];
extern const char hip_prelude_head[];
/* The tables a chip's functions are looked up in, the chip's own first; their number. */
int hip_tables(const Target *, const PreludeEntry *out[4]);
/* The text of a matrix instruction's function by its name (mfma_32x32x8_f16), or NULL: none such, or not on
 * this chip. */
const char *hip_matrix(Session *, const Target *, const char *name);
/* The names that some chip has, by number; NULL behind the last. */
const char *hip_matrix_name(int i);
