/* ring_state.h: what a role holds of the rings of its kernel at one place, and what is known there of
 * conditions (ring_state.c), for verify_rings.c. */
#pragma once
#include "ir/ir.h"

/* What is known of a value, or of a pair of them: a < b. */
typedef enum FactKind { IS_TRUE, IS_LESS, IS_STAGE } FactKind;
enum { NO_STAGE = -1, GIVEN_BACK = -2 };
typedef struct Fact {
    FactKind kind;
    const Value *a, *b; /* b: of a pair */
    bool truth;         /* of a condition */
    int ring, age;      /* of a view: how many stages of the ring, that the role holds, are older */
} Fact;

/* Stages that the role holds, the oldest first: what took them. part: of the stage that is filled, the next.
 */
typedef struct RingHeld {
    VEC(const Instr *) got;
    int64_t part;
} RingHeld;

typedef struct RingState {
    RingHeld *rings;
    VEC(Fact) facts;
} RingState;
typedef VEC(RingState) States;

/* All of the walk's memory is of this arena. */
typedef struct RingStates {
    Arena *arena;
    int n_rings;
    bool too_many; /* more states at one place than MOST_STATES */
} RingStates;

RingState ring_state_copy(const RingStates *, const RingState *);
/* Adds the state to the set. Of two that differ in conditions alone what both know remains. True: the set has
 * a state that it had not, or knows less of one. */
bool ring_state_add(RingStates *, States *to, RingState);
void ring_state_learn(const RingStates *, RingState *, Fact);
/* The values of the block are gone. */
void ring_state_leave(RingState *, const Block *);
/* The stage that the view is of; NULL: not known. */
const Fact *ring_state_stage(const RingState *, const Value *view);

typedef enum Known { NO, YES, UNKNOWN } Known;
Known ring_state_less(const RingState *, const Value *a, const Value *b);
Known ring_state_holds(const RingState *, const Value *condition);
void ring_state_assume_less(const RingStates *, RingState *, const Value *a, const Value *b, bool truth);
void ring_state_assume(const RingStates *, RingState *, const Value *condition, bool truth);

/* What is known of operands `first`.. of a block's end, or of a loop, as facts of their numbers. */
typedef struct Handed {
    Fact fact;
    int at;
} Handed;
typedef VEC(Handed) HandedFacts;

HandedFacts ring_state_gather(const RingStates *, const RingState *, const Instr *from, int first, int n);
/* As facts of arguments of a block, from number `first` on; of results. */
void ring_state_to_args(
    const RingStates *, RingState *, const HandedFacts *, const Block *, int first, int n);
void ring_state_to_results(const RingStates *, RingState *, const HandedFacts *, const Instr *);
