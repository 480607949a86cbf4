/* prelude.h: the table form of a target's prelude. */
#pragma once
#include "backends/gpu/gpu.h"

/* name may hold $d (a dtype of `dtypes`, blank-separated) and $o (an operation: dtypes is then "ops:dtypes").
 * deps: names of entries this one calls, blank-separated, with the same substitutions. Ends with name NULL.
 */
typedef struct PreludeEntry {
    const char *name, *dtypes, *deps, *text;
} PreludeEntry;

/* Every name that a table gives, its types and operations filled in. */
typedef void PreludeVisit(void *user, const char *name, const PreludeEntry *);
void prelude_each(const PreludeEntry *table, PreludeVisit *, void *user);

extern const PreludeEntry cuda_prelude[];
extern const PreludeEntry cuda_prelude_fp8[]; /* in front of it on targets whose instructions convert fp8 */
/* The tables of a target's functions, those that go before others first; returns how many there are. */
int prelude_tables(const Target *, const PreludeEntry *out[4]);
extern const char cuda_prelude_head[];
/* The text of a wgmma wrapper by its name, or NULL. */
const char *cuda_wgmma(Session *, const char *name);
