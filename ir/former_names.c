/* former_names.c: see former_names.h. */
#include "ir/former_names.h"
#include <string.h>

static const struct {
    FormerKind kind;
    const char *old, *now;
} names[] = {
#define FORMER(kind, old, now) { FORMER_##kind, old, now },
#include "ir/former_names.def"
#undef FORMER
};

const char *former_name(FormerKind kind, const char *old, size_t len)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind && len && names[i].old[0] == old[0] && strlen(names[i].old) == len &&
            !memcmp(names[i].old, old, len))
            return names[i].now;
    return NULL;
}
