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
    const char *former = former_name(FORMER_HINT, name, strlen(name)), *now = former ? former : name;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (hints[i].name[0] == now[0] && !strcmp(hints[i].name, now)) return &hints[i];
    return NULL;
}
