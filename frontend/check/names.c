/* names.c: see names.h. Open addressing; an entry stays when its value becomes NULL. */
#include "frontend/check/names.h"

static uint32_t slot_of(const NameMap *m, const char *name)
{
    uint64_t h = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15ull;
    uint32_t i = (uint32_t)(h >> 32) & (m->cap - 1);
    while (m->keys[i] && m->keys[i] != name) i = (i + 1) & (m->cap - 1);
    return i;
}

void *names_get(const NameMap *m, const char *name) { return m->cap ? m->values[slot_of(m, name)] : NULL; }

void names_put(Arena *a, NameMap *m, const char *name, void *value)
{
    if (2 * (m->n + 1) > m->cap) {
        NameMap bigger = { .cap = m->cap ? 2 * m->cap : 32 };
        bigger.keys = arena_array(a, const char *, bigger.cap);
        bigger.values = arena_array(a, void *, bigger.cap);
        for (uint32_t i = 0; i < m->cap; i++) {
            if (!m->keys[i]) continue;
            uint32_t k = slot_of(&bigger, m->keys[i]);
            bigger.keys[k] = m->keys[i];
            bigger.values[k] = m->values[i];
            bigger.n++;
        }
        *m = bigger;
    }
    uint32_t i = slot_of(m, name);
    if (!m->keys[i]) m->n++;
    m->keys[i] = name;
    m->values[i] = value;
}
