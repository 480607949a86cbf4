/* hints.c: see hints.h. */
#include "ir/hints.h"
#include "ir/former_names.h"
#include <stddef.h>
#include <string.h>

static const HintInfo hints[] = {
#define HINT(name, most, base, search) { HINT_##name, #name, most, base, SEARCH_##search },
#include "ir/hints.def"
#undef HINT
};

const HintInfo *hint_find(const char *name)
{
    const char *now = former_name(FORMER_HINT, name, strlen(name));
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(hints[i].name, now ? now : name)) return &hints[i];
    return NULL;
}
