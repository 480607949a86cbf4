/* hints.h: what is known of the numeric hints of a kernel. One row of hints.def each. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* How a search without a table (runtime/choice/search/search.c) tries the values that a tune block lists for
 * a hint.
 */
typedef enum HintSearch {
    SEARCH_ONE_BY_ONE, /* searched one after the other, from the best configurations found so far */
    SEARCH_WITH_TILES, /* searched on and off, in every combination with the constants that shape the grid */
    SEARCH_FEW_PROGRAMS,  /* searched in turn, and only for configurations of few programs */
    SEARCH_LAST_ROUND,    /* searched from the best configurations of the other names, of different tiles */
    SEARCH_WITH_CLUSTER,  /* searched in turn, and together with each value of `cluster` above 1 */
    SEARCH_WITH_CP_ASYNC, /* searched in turn; off, with all tiles, when cp.async fills rings */
    SEARCH_LAST, /* searched for the best configuration only, because the gain does not depend on other names
                  */
} HintSearch;

/* Who reads a hint first (hints.def). */
typedef enum HintReader { READ_BY_TILES, READ_BY_KERNEL } HintReader;

typedef enum HintId {
#define HINT(name, most, base, search, reader) HINT_##name,
#include "ir/hints.def"
#undef HINT
} HintId;

typedef struct HintInfo {
    HintId id;
    const char *name;
    int most, base;
    HintSearch search;
    HintReader reader;
} HintInfo;

/* The hint that has or had this name (former_names.def), or NULL. */
const HintInfo *hint_find(const char *name);
/* Gives the hint a value, as a binding does. False: it is out of range. */
struct Hints;
bool hint_set(struct Hints *, const HintInfo *, int64_t value);
