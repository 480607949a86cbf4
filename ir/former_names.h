/* former_names.h: names that changed and are still accepted for one version (former_names.def). */
#pragma once
#include <stddef.h>

typedef enum FormerKind { FORMER_HINT, FORMER_PASS, FORMER_SCHEDULE } FormerKind;

/* Today's name of what `old` (of `len` bytes) was called before, or NULL where nothing was called so. The
 * result is a literal. */
const char *former_name(FormerKind, const char *old, size_t len);
