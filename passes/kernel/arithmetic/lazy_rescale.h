/* lazy_rescale.h: what lazy_rescale.c proves of a loop and lazy_choice.c changes. */
#pragma once
#include "passes/kernel/kernel.h"

enum { LAZY_THRESHOLD = 8 }; /* powers of two */

typedef struct Exponent {
    Value *of, *result;
} Exponent;

typedef struct Lazy {
    Session *s;
    bool no_near;
    Instr *loop;
    Value *m, *top, *base, *scale; /* scale: the c of all exponents, a scalar */
    Instr *max;
    Value *alpha;
    VEC(Exponent) exponents;
    ValueList grown; /* values with the factor; each once */
    bool goes_on;    /* another such loop takes over m and what is under it */
} Lazy;

/* The carried value that this product rescales by alpha, or NULL. */
Value *lazy_rescaled(const Lazy *, const Instr *product);
/* Changes the loop so that it keeps its maximum as long as that is good enough; c->loop is then the new loop.
 * False: nothing was changed. */
bool lazy_choose(Lazy *);
