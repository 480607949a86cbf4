/* emit_shift.h: what loads (emit_shift.c) and stores (emit_shift_store.c) of rows at any address have in
 * common: where the runs of a lane lie. */
#pragma once
#include "backends/gpu/emit.h"

typedef struct Shift {
    Emit *e;
    const Window *w;
    const Layout *l;
    /* The number of the tile's elements along the unit axis that are in range: an expression, or a number as
     * text. */
    const char *ptr, *limit;
    int64_t known;            /* the same as a number, or -1 when it is not known */
    int bytes, n, vectors;    /* of an element; the elements of a run; the runs of a lane */
    const char *at;           /* of the current run: its coordinate along the unit axis, */
    const char *index, *rows; /* its element offset, and whether its row is in range */
    bool one_row;             /* all runs of a warp are in one row, so that ptr can point to the row */
    bool at_row;              /* it does */
} Shift;

/* Can the window be accessed so? Then fills in what is known before anything is emitted. */
bool shift_begin(Emit *, const Window *, const Layout *, DType, Shift *);
/* whether the window's offset along the unit axis is known to be at least 0 */
bool shift_offset_known(Shift *);
void shift_find_limit(Shift *);
/* The run at register `r`, an expression: at, rows and index. */
void shift_place(Shift *, const char *r);
/* From here on ptr is the warp's row (or the window's first row, where that is not there and is read). */
void shift_go_to_row(Shift *, bool reads);
/* Do all threads' runs at vector v end before the limit (-1), lie wholly behind it (1), or may one cross it
 * or come so near that bytes of an aligned vector do (0)? near: elements that count as near. */
int shift_against_limit(const Shift *, int v, int near);
const char *shift_as_bytes(Shift *, const char *elements);
const char *shift_run_at(Shift *, int first); /* register of run first + v */
/* the distance in bytes of p from the last aligned vector before it */
const char *shift_of(Shift *, const char *p);
/* Opens the branch for shifts of so many whole words. In it, the shift by known words. */
void shift_begin_word(Shift *, const char *shift, int word);
const char *shift_in_word(Shift *, const char *shift, int word);
