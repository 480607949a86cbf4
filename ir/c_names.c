/* c_names.c: see c_names.h. */
#include "ir/c_names.h"
#include <string.h>

static const struct {
    CNames group;
    const char *words; /* with blanks between them */
} lists[] = {
#define NAMES(group, words) { group, words },
#include "ir/c_names.def"
#undef NAMES
};

static bool has_word(const char *words, const char *name, size_t len)
{
    for (const char *p = words; (p = strstr(p, name)); p++)
        if ((p == words || p[-1] == ' ') && (p[len] == ' ' || !p[len])) return true;
    return false;
}

bool c_name_taken(const char *name, unsigned groups)
{
    size_t len = strlen(name);
    char stem[32] = "";
    if (!len || len >= sizeof stem) return false;
    if (strchr("fl", name[len - 1])) memcpy(stem, name, len - 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!(lists[i].group & groups)) continue;
        if (has_word(lists[i].words, name, len)) return true;
        if (lists[i].group & (C_LIBRARY | C_DEVICE) && *stem && has_word(lists[i].words, stem, len - 1))
            return true;
    }
    return false;
}
