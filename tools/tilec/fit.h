/* fit.h: variants whose declared tiles do not fit a target. */
#pragma once
#include "tools/tilec/input.h"

/* After *out failed to compile for want of shared memory: the variant with the configuration of the kernel's `tune` block that fits `o->target` and is estimated to be the fastest
 * (runtime/search.h); a performance note takes the place of the errors after `before`. What the variant binds stays. NULL: there is none, or it failed for another reason. */
const Variant *fit_smaller(Input *, const Variant *, const LaunchFacts *, const CompileOptions *, int64_t shared_bytes, const Diag *before);
