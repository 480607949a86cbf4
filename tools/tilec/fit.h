/* fit.h: the sizes of variants that are compiled ahead of time: of `auto` constants, and of declared tiles
 * that do not fit a target. */
#pragma once
#include "runtime/choice/cost/cost.h"
#include "tools/tilec/run/input.h"

/* The variant with values for the `auto` constants that it does not bind: those of the least estimate for
 * o->target, where extents that are not bound count as large (runtime/choice/search/search.h). Without such
 * constants the variant itself. */
const Variant *fit_autos(Input *, const Variant *, const LaunchFacts *, const CompileOptions *);

/* A performance note if the variant is estimated to fall short of the device's roofline by more than a
 * quarter (cost_advise). Extents that are not bound count as large. */
void fit_advise(Input *, const Variant *, const LaunchFacts *, const CompileOptions *, const CostDevice *);

/* Where a variant's artifact is too large, so that it failed to compile or spills registers: the variant with
 * the configuration of the kernel's `tune` block that fits `o->target` and is estimated to be the fastest
 * (runtime/choice/search/search.h); a performance note takes the place of what was said after `before`. What
 * the variant binds stays. NULL: there is none, or nothing is too large. */
const Variant *fit_smaller(Input *, const Variant *, const LaunchFacts *, const CompileOptions *,
    const Artifact *, const Diag *before);
