/* table.h: configurations of a tuning table for variants that are compiled ahead of time (--table). */
#pragma once
#include "tools/tilec/run/input.h"
#include "runtime/tune/tune.h"

/* The table of --table; none without it. False after diagnostics. */
bool table_read(Input *, TuneFile *);
/* Binds what the nearest entry says of this variant: of the first target that has entries for it, whose
 * consts agree, nearest in the extents that are bound. What is bound already stays. */
void table_apply(Input *, const TuneFile *, Variant *);
