/* chosen.h: what a launch of a variant would take on a named card. */
#pragma once
#include "runtime/choice/search/search.h"
#include "runtime/choice/estimate/device_model.h"
#include "tools/tilec/run/input.h"

/* The variant with the configuration that the library chooses for it on this card where no table speaks; the
 * variant itself where nothing is to be chosen. Writes the configuration, its estimated time and what bounds
 * it to `out`. NULL after diagnostics. */
const Variant *chosen_on(Input *, const Variant *, const CompileOptions *, const CostDevice *, Text *out);

/* The variant with what a search chose behind its own bindings. */
const Variant *chosen_variant(Session *, const Variant *, const SearchResult *);
