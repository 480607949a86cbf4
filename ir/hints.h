/* hints.h: what is known of the numeric hints of a kernel. One row of hints.def each. */
#pragma once

/* How a search without a table (runtime/choice/search.c) tries the values that a tune block lists for a hint.
 */
typedef enum HintSearch {
    SEARCH_IN_TURN,      /* one after the other, from the best configurations found so far */
    SEARCH_WITH_TILES,   /* on or off, in every combination with the constants that shape the grid */
    SEARCH_FEW_PROGRAMS, /* in turn, and only for configurations of few programs */
    SEARCH_WITH_CLUSTER, /* in turn, and beside each value of `cluster` above 1 */
    SEARCH_WHERE_FILLED, /* in turn; off, with all tiles, where cp.async fills rings */
    SEARCH_LAST,         /* for the best configuration only: the gain does not depend on the other names */
} HintSearch;

typedef enum HintId {
#define HINT(name, most, base, search) HINT_##name,
#include "ir/hints.def"
#undef HINT
} HintId;

typedef struct HintInfo {
    HintId id;
    const char *name;
    int most, base;
    HintSearch search;
} HintInfo;

/* The hint that has or had this name (former_names.def), or NULL. */
const HintInfo *hint_find(const char *name);
