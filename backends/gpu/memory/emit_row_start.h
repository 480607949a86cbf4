/* emit_row_start.h: rows that begin within a word: what loads and stores of them (emit_row_start.c) and of
 * the weights beside them (emit_row_weights.c) have in common. */
#pragma once
#include "backends/gpu/memory/emit_shift.h"

enum {
    ROW_VECTOR = 16, /* bytes of the widest access of a lane */
    ROW_LINE = 128,  /* bytes of L1 that a warp's access takes at a time */
};

/* The part of a row that a window is: all of it, unless rows are worked through in parts. */
typedef struct RowPart {
    const RowStart *r;
    bool first;   /* it begins with the row */
    int64_t rest; /* elements of the row from its begin on */
} RowPart;

/* A row of a tensor, and the condition that it begins as far from an aligned address as the first row. from:
 * the thread's first access of a row in parts, in its first part; NULL: other rows. */
typedef struct RowAlike {
    Window w;
    const char *cond, *from;
} RowAlike;

/* Weights that are read and not yet put together: an `opaque` does that. */
typedef struct ReadAround {
    const Value *of;
    const char *around;
} ReadAround;

typedef struct RowsAlike {
    VEC(RowAlike) all;
    VEC(ReadAround) weights;
    const char *by; /* bytes by which all weights are shifted; NULL: not yet declared */
} RowsAlike;

/* NULL: tiles of this layout are no such rows. */
const RowStart *row_start(Emit *, const Layout *);
RowPart row_part_of(const RowStart *, const Window *);
/* The accesses of a thread, and the place of one from the aligned address on in the thread that has the
 * first.
 */
int row_runs(const RowStart *);
int row_run_first(const RowStart *, int run);
/* Whether the access may reach over the end of the row, or begin before it. */
bool row_near_end(const RowPart *, int run);
bool row_near_begin(const RowPart *, int run);
/* Declares a pointer to the thread's first access, from which the others have constant distances. */
const char *row_from(Emit *, const char *ptr, DType);
/* Loads a vector of weights to the registers `to`. NULL: an `opaque` puts them there (emit_row_take). */
void emit_row_weights(Emit *, const Window *, const RowStart *, const char *ptr, const char *to);
