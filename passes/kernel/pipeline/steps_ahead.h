/* steps_ahead.h: loads of a loop issued some steps before the one that uses them, into registers that the
 * loop carries. */
#pragma once
#include "passes/kernel/kernel.h"

/* The instructions of a loop's body that compute the offsets of a load, in program order. */
enum { AHEAD_MOST = 64 };
typedef struct AheadSlice {
    const Instr *instr[AHEAD_MOST];
    int n;
} AheadSlice;

/* Whether the load can be issued in an earlier step: its tensor is only read, and its offsets follow from the
 * loop's counter and from outside alone. Adds what computes them to the slice, which begins empty. */
bool ahead_possible(const Func *, const Instr *loop, const Instr *load, AheadSlice *);
/* Issues the load `steps` steps ahead, the first ones before the loop. A step whose successor does not exist
 * loads its own window again, so that what is known of the loop's range holds for the load too; within: there
 * are successors of all steps (ahead_split). Returns the loop, which is rebuilt. */
Instr *ahead_load(Session *, Instr *loop, Instr *load, const AheadSlice *, int steps, bool within);
/* Splits a loop that counts by one: the loop that is returned does a multiple of `steps` steps and ends at
 * least so many before the last, and a copy of it does the rest. */
Instr *ahead_split(Session *, Instr *loop, int steps);
