/* parts.h: what the files of the pass parts share. */
#pragma once

#include "passes/pass.h"

typedef struct Parts {
    PassContext *c;
    Func *f;
    int64_t length, part, bytes; /* of the axis; of a part; of the largest tile */
    int *pass;    /* by mark: the pass in which the instruction runs; of a reduction, that of its operand */
    Instr **lead; /* by mark: the reduction whose pass this reduction shares although it uses its result */
    double
        *rate;  /* by mark: a reduction with a lead is multiplied by exp(rate * (lead - its value so far)) */
    int passes; /* beside the first */
    int loops;  /* made */
    bool clustered; /* the cluster pass takes it, where there are clusters */
    Value *at;      /* in the loop: the first position of the part */
    ValueMap map;
} Parts;

/* A reduction and the values that its loop carries for it. */
typedef struct Sum {
    Instr *old;
    Op join;      /* of two elements */
    DType dtype;  /* in which it is joined: 16-bit sums add in f32 and round once */
    int first, n; /* carried values */
    int axis;
    int64_t drop;
    int64_t group;          /* neighbouring elements that are joined before the carried value is: 1 or more */
    bool leads;             /* others follow it */
    const struct Sum *lead; /* NULL: it depends on no other reduction of the loop */
    Value *total;           /* behind the loop: the reduced value */
    Value *x, *before, *base; /* in the loop: its operand; its value before; what exponents subtract */
} Sum;

/* The long axis of a tile; -1: none, -2: two. */
int parts_long_axis(const Parts *, const Type *);
static inline bool parts_is_long(const Parts *p, const Value *v) { return parts_long_axis(p, v->type) >= 0; }
/* The instruction reduces the long axis. */
bool parts_reduces(const Parts *, const Instr *);
/* The type of a part of a tile of type `t`. */
const Type *parts_type(const Parts *, const Type *t);
/* Makes the part of a long value at p->at, if it is not there yet, and returns it. */
Value *parts_need(Parts *, Builder *, Value *);
/* What joins with x to x. */
Value *parts_neutral(Builder *, const Type *, Op join);
/* A reduction's operand for this part, neutral behind the end of the axis. */
Value *parts_operand(Parts *, Builder *, const Sum *);

/* Which elements of the part, a tile of type `part`, are before the end of the axis; NULL: all. */
Value *parts_inside(Parts *, Builder *, const Type *part, int axis);

/* parts_online.c: reductions that share the pass of a reduction that they depend on. */

/* Decides whether the reduction `i`, which depends on reductions of pass `pass` - 1, can run in that pass,
 * and records its lead and rate. Requires the passes of everything before `i`. */
bool parts_online(Parts *, const Instr *i, int pass);
/* Another reduction has this one as its lead. */
bool parts_leads(const Parts *, const Instr *i);
/* The neighbouring elements that are joined before they are joined to the carried value. */
int64_t parts_group(const Parts *, const Instr *i);
/* The type of the value that is carried for a reduction of a part of type `x`. */
const Type *parts_carried(const Parts *, const Sum *, const Type *x);
/* The carried value behind this part, from the one before it. */
Value *parts_join(Parts *, Builder *, Sum *, Value *carried);
/* The reduced value, of the type of s->old's result but in s->dtype; `carried` is what the loop leaves, and
 * `lead` what it leaves for s->lead. */
Value *parts_finish(Parts *, Builder *, const Sum *s, Value *carried, Value *lead);
