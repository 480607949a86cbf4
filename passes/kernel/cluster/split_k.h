/* split_k.h: between the files of split: which loops only add to what they carry (split_k_sums.c), what
 * is made of them and of what follows (split_k.c), and whether that keeps the order of memory
 * (split_k_order.c). */
#pragma once
#include "passes/kernel/schedule/schedule.h"

typedef struct Sum {
    Instr *loop;
    int k;
    int rmw;
} Sum;
/* Of a loop, if it has such sums: the maximum, the scale of exponents, which values are under it. */
typedef struct Online {
    Instr *loop;
    int max;
    Value *scale;
    bool *under, guarded;
} Online;
/* A value of which each CTA has a slice along axis; made: of one that stays whole. */
typedef struct Sliced {
    const Value *v;
    int axis;
    Value *made;
} Sliced;

typedef struct Division {
    Session *s;
    Func *f;
    KernelPlan *p;
    int parts;
    Value *rank;
    InstrList loops;
    VEC(Online) online;
    VEC(Sum) sums;
    VEC(Sliced) sliced;
    VEC(const Instr *) touched; /* of which each CTA computes a slice */
    bool make;
    const char *why;
    Loc loc;
} Division;

/* Notes why not; false. The first reason counts, but for an axis that does not divide (split_no_parts),
 * where another does and fails for more. */
extern const char *const split_no_parts;
bool split_refuse(Division *, Loc, const char *why);
/* Loops that only add to what they carry, and those of their results that must be joined; false: there are
 * none. */
bool split_find_sums(Division *);
const Online *split_online_of(const Division *, const Instr *loop);
/* How the loop's carried value k comes from the turn before: RMW_ADD, RMW_MAX, RMW_MIN; -1: not so. */
int split_sum_kind(const Division *, const Instr *loop, int k);
/* split_k_order.c: does no CTA touch what another one stores? */
bool split_ordered(Division *);
bool split_is_cut(const Division *, const Instr *); /* one of those loops */
/* Whether the value is the initial value of a sum that such a loop carries. */
bool split_starts(const Division *, const Use *);
/* Whether it is a use of a loop's sum in another such loop. */
bool split_goes_on(const Division *, const Use *);
