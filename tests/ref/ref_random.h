/* ref_random.h: a seeded generator (splitmix64, Steele, Lea and Flood 2014). The same seed gives the same
 * numbers everywhere. */
#pragma once
#include <stdint.h>

typedef struct RefRandom {
    uint64_t state;
} RefRandom;

static inline uint64_t ref_random(RefRandom *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t ref_random_below(RefRandom *r, uint64_t n) { return n ? ref_random(r) % n : 0; }

/* uniform in [0, 1) */
static inline double ref_random_unit(RefRandom *r) { return (double)(ref_random(r) >> 11) * 0x1p-53; }

/* close enough to a normal distribution: mean 0, variance 1, within +-6 */
static inline double ref_random_normal(RefRandom *r)
{
    double s = -6;
    for (int i = 0; i < 12; i++) s += ref_random_unit(r);
    return s;
}
