/* cache.h: a set-associative cache with least-recently-used replacement, as small as it can be: one word a
 * line.
 *
 * A set is an array of tags, the most recent first; 0 is an empty place. The top bit marks a line that was
 * written. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SIM_MAX_WAYS = 256 };
#define SIM_DIRTY 0x80000000u

typedef struct SimCache {
    uint32_t *tags;
    uint32_t sets, ways;
} SimCache;

/* Lines spread over sets by the fractional part of their number times the golden ratio: consecutive lines go
 * to different sets, and no power of two between rows sends all of them to one, as the address hashes of real
 * caches see to. */
static inline uint32_t sim_set(const SimCache *c, uint32_t line)
{
    uint32_t h = (uint32_t)((line * 0x9e3779b97f4a7c15ull) >> 32);
    return (uint32_t)((uint64_t)h * c->sets >> 32);
}

/* Touches a line (number below 2^31 - 1). True: it was there. Otherwise *out is the tag it displaced (0:
 * none), with its dirty bit. */
static inline bool sim_touch(SimCache *c, uint32_t line, bool write, uint32_t *out)
{
    uint32_t *t = c->tags + (uint64_t)sim_set(c, line) * c->ways, tag = line + 1, n = c->ways;
    uint32_t dirty = write ? SIM_DIRTY : 0;
    if ((t[0] & ~SIM_DIRTY) == tag) {
        t[0] |= dirty;
        return true;
    }
    uint32_t at = n;
    if (n == 16) { /* The common case has no branches between the ways. */
        uint32_t found = 0;
        for (uint32_t k = 0; k < 16; k++) found |= (uint32_t)((t[k] & ~SIM_DIRTY) == tag) << k;
        if (found) at = (uint32_t)__builtin_ctz(found);
    } else {
        for (uint32_t k = 0; k < n; k++)
            if ((t[k] & ~SIM_DIRTY) == tag) {
                at = k;
                break;
            }
    }
    if (at < n) {
        dirty |= t[at];
        memmove(t + 1, t, at * sizeof *t);
        t[0] = tag | (dirty & SIM_DIRTY);
        return true;
    }
    *out = t[n - 1];
    memmove(t + 1, t, (n - 1) * sizeof *t);
    t[0] = tag | dirty;
    return false;
}
