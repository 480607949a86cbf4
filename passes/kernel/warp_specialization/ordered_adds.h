/* ordered_adds.h: waits for the program before, and what follows an addition in order (ordered-adds,
 * bulk-store). */
#pragma once
#include "passes/kernel/warp_specialization/bulk_store.h"

/* if %c { while atomic_rmw S[..] = 0 {add, acquire} <= %step {} } */
typedef struct OrderedWait {
    Instr *cond, *loop, *atomic; /* the if, the while in it, its atomic */
    Instr *clear;                /* an atomic behind the loop that sets the element to 0; NULL: none */
    Value *step;
    bool below; /* it waits while the element is below the step, not at it */
} OrderedWait;

bool ordered_is_atomic(const Instr *, int rmw, int sem); /* and has no mask */
/* Whether the `if` does nothing but wait, and clear. */
bool ordered_wait_in(Instr *cond, OrderedWait *);
/* Puts one atomic with this `semaphore` in the place of the `if`, and returns it. */
Instr *ordered_wait_alone(const OrderedWait *, int semaphore);
/* Whether each element of the semaphores is waited for, and cleared, by one program only, and nothing else is
 * done with them but signals. Writers remember what they read of an element from step to step. */
bool ordered_waits_own(const Func *, const Instr *wait);
