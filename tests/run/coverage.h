/* coverage.h: what the kernels that ran made use of: hints, cache modes, functions of the CUDA prelude. The
 * names that there are come from the compiler's own tables. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Covered {
    char name[80];
    const char *kind;
    uint64_t times;
    bool instruction;
    int next; /* of its bucket, from 1 */
} Covered;
typedef struct Coverage {
    Covered *all;
    int n, room, bucket[1024];
} Coverage;

void coverage_open(Coverage *);
void coverage_close(Coverage *);
/* Writes a line for each name that the kernel's text or its emission (NULL: none) mentions; coverage_read
 * counts such lines. */
void coverage_write(Coverage *, FILE *, const char *source, const char *emitted);
void coverage_read(Coverage *, FILE *);
uint64_t coverage_count(Coverage *, const char *name); /* once more; how often that is */
/* What was never used, then how often what was. */
void coverage_print(const Coverage *, FILE *);
