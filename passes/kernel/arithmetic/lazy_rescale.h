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
} Lazy;

/* A carried value that alpha brings to the new factor, if that is what this product does. */
Value *lazy_rescaled(const Lazy *, const Instr *product);
/* The loop keeps its maximum while that is good enough; c->loop is the loop then. False: nothing was changed.
 */
bool lazy_choose(Lazy *);
