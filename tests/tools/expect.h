/* expect.h: of programs that tests of the tools compile: says which numbers are not as expected, and counts
 * them. SAID, defined before: an expression for what the launcher said, behind the numbers. */
#pragma once
#include <stdio.h>

#ifndef SAID
#define SAID ""
#endif

static int failures;

#define EXPECT(what, got, want) \
    do { \
        long long g_ = (got), w_ = (want); \
        if (g_ != w_) { \
            printf("line %d, %s: %lld, not %lld (%s)\n", __LINE__, what, g_, w_, SAID); \
            failures++; \
        } \
    } while (0)
