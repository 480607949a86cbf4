/* names.h: a map from interned names to pointers, so that programs of a hundred thousand names stay linear.
 */
#pragma once
#include "ir/support/session.h"

typedef struct NameMap {
    const char **keys;
    void **values;
    uint32_t cap, n;
} NameMap;

void *names_get(const NameMap *, const char *name); /* NULL: not there */
void names_put(Arena *, NameMap *, const char *name, void *value);
