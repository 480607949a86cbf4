/* Sums of predictions are the same to the last bit in registers of 256 bits, where the processor has these,
 * as in those that every processor has, for any number of known points. */
#include "runtime/choice/search/search_covariance.c"
#include "tests/unit/unit.h"

/* A number from 0 to `most` - 1. */
static uint32_t any(uint32_t most)
{
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % most;
}

static void fill(SearchCovariance *c, float *x, float far)
{
    for (int j = 0; j < MOST_NAMES; j++) {
        c->weight[j] = (float)any(1000) / 1000;
        x[j] = (float)any(9) * .37F;
        for (int k = 0; k < SEARCH_MOST_KNOWN; k++) c->x[j][k] = (float)any(9) * far;
    }
}

static void ways_agree(void)
{
    static SearchCovariance c;
    search_covariance_begin(&c, 10);
    for (int round = 0; round < 2000; round++) {
        float x[MOST_NAMES], plain[SEARCH_MOST_KNOWN] = { 0 }, wide[SEARCH_MOST_KNOWN] = { 0 };
        fill(&c, x, round % 7 ? .5F : 40);
        const int to = 1 + (int)any(SEARCH_MOST_KNOWN), from = (int)any((uint32_t)to);
        covariances(&c, x, from, to, plain);
        search_covariances(&c, x, from, to, wide);
        CU_ASSERT_EQUAL(memcmp(plain, wide, sizeof plain), 0);
        CU_ASSERT(plain[from] >= 0 && plain[from] <= 1);
        const float one = product(plain, c.x[0], to), other = search_product(plain, c.x[0], to);
        CU_ASSERT_EQUAL(memcmp(&one, &other, sizeof one), 0);
    }
}

/* Where two points differ in one name alone, the covariance is that of so many steps. */
static void covariance_falls(void)
{
    static SearchCovariance c;
    search_covariance_begin(&c, 10);
    float x[MOST_NAMES] = { 0 }, out[SEARCH_MOST_KNOWN];
    c.weight[3] = .5F;
    for (int k = 0; k < 3; k++) c.x[3][k] = (float)(4 * k);
    search_covariances(&c, x, 0, 3, out);
    for (int k = 0; k < 3; k++) CU_ASSERT_DOUBLE_EQUAL(out[k], exp(-.2 * k), 1e-5);
}

UNIT_MAIN("choice.covariance", { "ways_agree", ways_agree }, { "covariance_falls", covariance_falls })
