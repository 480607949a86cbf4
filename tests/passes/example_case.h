/* example_case.h: every kernel of the examples with consts, small ragged extents and arguments, for tests of
 * passes and of the CPU backend. */
#pragma once
#include "ir/interp/interp.h"

enum { MAX_BINDS = 24, MAX_ARGS = 24 };

typedef struct Case {
    const char *file, *kernel, *consts; /* "TM=16,T=f32" */
    const char *dims;                   /* every named dimension: "M=70,N=9" */
    const char *scalars;                /* "scale=0.125" */
    double bound;                       /* |difference| <= bound * (1 + |value|) */
} Case;

extern const Case example_cases[];
extern const int n_example_cases;

typedef struct Problem {
    Session s;
    Module *module;
    Func *func;
    InterpArg args[MAX_ARGS];
    size_t bytes[MAX_ARGS];
    void *data[MAX_ARGS];
} Problem;

char *case_read(const char *directory, const char *name, size_t *len); /* malloc'd; NULL: no such file */
/* In order; all set p->s.oom's way out first. */
bool case_lower(Problem *p, const Case *c, const char *text, size_t len);
bool case_args(Problem *p, const Case *c);  /* random numbers, the same every time */
void case_facts(Problem *p, const Case *c); /* the facts that a launch with these arguments could promise */
void case_free(Problem *p);
void case_diags(Problem *p);
bool case_same(const Problem *, const Problem *want, const Case *,
    const char *what); /* compares the outputs within the bound; false after a message */
