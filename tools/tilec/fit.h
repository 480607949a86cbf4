/* fit.h: variants whose declared tiles do not fit a target. */
#pragma once
#include "tools/tilec/input.h"

/* Where a variant's artifact is too large, so that it failed to compile or spills registers: the variant with
 * the configuration of the kernel's `tune` block that fits `o->target` and is estimated to be the fastest
 * (runtime/choice/search.h); a performance note takes the place of what was said after `before`. What the
 * variant binds stays. NULL: there is none, or nothing is too large. */
const Variant *fit_smaller(Input *, const Variant *, const LaunchFacts *, const CompileOptions *,
    const Artifact *, const Diag *before);
