/* live.h: how much is in use at once, operation by operation in the order of the text. */
#pragma once
#include "ir/ir.h"

typedef struct LiveCount {
    int64_t (*of)(void *user, const Value *); /* what a value takes, 0: nothing */
    /* What is in use where an operation computes, with its results and without what it reads last. */
    void (*at)(void *user, const Instr *, int64_t in_use);
    void *user;
} LiveCount;

/* Counts through all blocks of the function. A value is in use up to the last operation that reads it, itself
 * or through broadcasts, which have no registers of their own. */
void live_count(Arena *, const Func *, const LiveCount *);

/* The most bytes of tiles that are in use at once, of all threads. */
int64_t live_most_bytes(Arena *, const Func *);
