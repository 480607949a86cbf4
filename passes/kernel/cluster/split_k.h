/* split_k.h: between the files of split-k: which loops only add to what they carry (split_k_sums.c), what
 * is made of them and of what follows (split_k.c), and whether that keeps the order of memory
 * (split_k_order.c). */
#pragma once
#include "passes/kernel/schedule/schedule.h"

enum { MOST_SPLIT_PARTS = 256 };

typedef struct Sum {
    Instr *loop;
    int k;
    int rmw;
} Sum;
/* For a loop with such sums: the maximum, the scale of exponents, and which values are under the maximum. */
typedef struct Online {
    Instr *loop;
    int max;
    Value *scale;
    bool *under, guarded;
} Online;
/* A value of which each CTA has a slice along `axis`. made: the slice is computed from a value that stays
 * whole. */
typedef struct Sliced {
    const Value *v;
    int axis;
    Value *made;
} Sliced;

typedef struct Division {
    Session *s;
    Func *f;
    KernelPlan *p;
    int parts; /* of a loop's steps: ctas for each of the clusters */
    int ctas, clusters;
    bool shares; /* of stream-k: the CTA that joins the parts has the whole tile, and does all that follows */
    Value *rank, *part; /* the CTA's number in its cluster, and that of its part */
    InstrList loops;
    VEC(Online) online;
    VEC(Sum) sums;
    VEC(Sliced) sliced;
    VEC(const Instr *) touched; /* of which each CTA computes a slice */
    bool starts_read;           /* sums start from elements that others store */
    bool make;
    const char *why;
    Loc loc;
} Division;

/* split_k_slices.c: whether all that follows the sums works on slices along `axis`, and what is in the way.
 */
bool split_follow_all(Division *, int axis);
/* Rewrites an operation behind the sums to work on slices, where some operand has one; or, as long as `make`
 * is not set, says whether it can. */
bool split_follow(Division *, Instr *);
void split_note_slice(Division *, const Value *, int axis);
/* Notes the reason why not, and returns false. The first reason counts. An exception is an axis that does not
 * divide (split_no_parts), when another axis does and fails for another reason. */
extern const char *const split_no_parts;
bool split_refuse(Division *, Loc, const char *why);
/* Finds the loops that only add to their carried values, and their results that must be combined. False:
 * there are none. */
bool split_find_sums(Division *);
/* split_k.c: whether the division may go through the workspace. */
bool split_through_workspace(Division *);
/* The loop does the part of its steps from `from` / `of` to `to` / `of` (i32). */
void split_cut_between(Division *, Instr *loop, Value *from, Value *to, Value *of);
const Online *split_online_of(const Division *, const Instr *loop);
/* How the loop computes the next carried value k: RMW_ADD, RMW_MAX, RMW_MIN; -1: in another way. */
int split_sum_kind(const Division *, const Instr *loop, int k);
/* split_k_order.c: whether no CTA accesses elements that another one stores. */
bool split_ordered(Division *);
void split_leave_unread(Instr *whole);
bool split_is_cut(const Division *, const Instr *); /* one of those loops */
/* Whether the value is the initial value of a sum that such a loop carries. */
bool split_starts(const Division *, const Use *);
/* Whether it is a use of a loop's sum in another such loop. */
bool split_goes_on(const Division *, const Use *);
