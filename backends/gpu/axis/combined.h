/* combined.h: what reductions and scans by a fn share (emit_combined.c, emit_combined_scan.c). */
#pragma once
#include "backends/gpu/emit.h"

/* The operation that is being emitted. For each of its n values, `part` is the array of partial results. */
typedef struct Combined {
    Instr *i;
    int n, axis;
    const Layout *l, *keep;
    const char *part[IR_MAX_COMBINED];
    bool same[IR_MAX_COMBINED]; /* in all partial results of one step */
    bool *differs;              /* by value id: whether a value of the fn is not; NULL: all are taken to */
} Combined;

/* The names of n values at one position. */
typedef struct Position {
    const char *v[IR_MAX_COMBINED];
} Position;

/* The type of value k. */
DType combined_type_of(const Combined *, int k);
/* Entry `at` of arrays, one for each value. */
Position combined_entry(Emit *, const Combined *, const char *const *arrays, const char *at);
/* Emits the function for positions a and b, where b comes after a. Gives the names of its results. */
Position combined_apply(Emit *, const Combined *, const Position *a, const Position *b);
/* Emits to = value if the condition holds; "" means always. */
void combined_assign(
    Emit *, const Combined *, const char *condition, const Position *to, const Position *value);
/* Emits to = fn(to, next). The condition says that `next` is no padding; "" means that it never is. */
void combined_append(
    Emit *, const Combined *, const char *condition, const Position *to, const Position *next);
void combined_arrays(Emit *, const Combined *, const char *stem, int n, const char **names);
/* The value of lane `from` (shuffle_from), or of the lane whose number differs in the given bits
 * (shuffle_xor). */
Position combined_shuffled(
    Emit *, const Combined *, const char *function, const Position *own, const char *from);
/* Reserves shared memory for `cells` positions of the values that are not the same in all of them. */
void combined_room(Emit *, const Combined *, int64_t cells, const char **names);
void emit_combined_scan(Emit *, const Combined *);
