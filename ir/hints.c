/* hints.c: see hints.h. */
#include "ir/hints.h"
#include "ir/former_names.h"
#include "ir/ir.h"
#include <stddef.h>
#include <string.h>

static const HintInfo hints[] = {
#define HINT(name, most, base, search, reader) \
    { HINT_##name, #name, most, base, SEARCH_##search, READ_BY_##reader },
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

bool hint_set(Hints *h, const HintInfo *hint, int64_t value)
{
    if (value < 0 || value > hint->most) return false;
    switch (hint->id) {
#define HINT(name, most, base, search, reader) \
    case HINT_##name: h->name = (int)value + base; break;
#include "ir/hints.def"
#undef HINT
    }
    return true;
}
