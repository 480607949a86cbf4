/* hip_waits.h: what a loop of gfx assembly waits for.
 *
 * Loads return in order and s_waitcnt vmcnt(n) waits for all but the last n. A load runs ahead if nothing
 * reads it before the loop's last matrix instruction: it is of a later step; so is one that goes straight to
 * LDS. A wait before that instruction drains it if no more than what was issued behind it may stay in flight.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct HipWaits {
    int matrix;  /* matrix instructions of an iteration */
    int ahead;   /* loads of an iteration that run ahead */
    int drained; /* of those, how many are waited for too early */
} HipWaits;

/* from .. end: the loop's text in the order it runs, in one or two pieces. depth: iterations that loads to
 * LDS stay in flight beyond the one that follows. */
void hip_waits(const char *const from[2], const char *const end[2], int depth, HipWaits *);
