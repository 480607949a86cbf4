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
    int width, words;         /* bytes and words of a run */
    const char *at;           /* of the current run: its coordinate along the unit axis, */
    const char *index, *rows; /* its element offset, and whether its row is in range */
    bool one_row;             /* all runs of a warp are in one row, so that ptr can point to the row */
    bool at_row;              /* it does */
} Shift;

/* Whether the window can be accessed by unaligned vectors of `width` bytes. If so, fills in everything that
 * is known before emission. */
bool shift_begin(Emit *, const Window *, const Layout *, DType, int width, Shift *);
/* whether the window's offset along the unit axis is known to be at least 0 */
bool shift_offset_known(Shift *);
void shift_find_limit(Shift *);
/* Places the run at register `r`: sets at, rows and index. */
void shift_place(Shift *, Index *r);
/* Makes ptr point to the row of the warp from here on, or to the first row of the window if the warp's row is
 * out of range and is read. */
void shift_go_to_row(Shift *, bool reads);
/* Compares the runs of all threads at vector v with the limit. -1: all end before it. 1: all are wholly
 * beyond it. 0: one may cross it, or come so near that the bytes of an aligned vector do. near: the distance
 * in elements that counts as near. */
int shift_against_limit(const Shift *, int v, int near);
const char *shift_as_bytes(Shift *, const char *elements);
/* Rows by the aligned vectors that hold them (emit_row_start.c). */
ShiftDone emit_row_load(Emit *, const Window *, const Layout *, const char *ptr, const char *to);
ShiftDone emit_row_store(Emit *, const Window *, const Layout *, DType, const char *ptr, const char *from);
/* Whether weights are read around a row, and put together where an `opaque` asks for them. */
bool emit_row_shifts_later(Emit *, const Instr *load, const Window *, const Layout *);
/* Puts them together, with those of the operations behind it. False: the tile is none of these. */
bool emit_row_take(Emit *, const Instr *opaque);
/* Bytes of the words by which rows of this layout are accessed so; 0: they are not. */
int emit_row_words(Emit *, const Layout *);
/* Starts copies of the words of a row to shared memory, run v to `to` + v * apart. SHIFT_PART: in a branch,
 * and the other one is open, in which words cannot be read. */
ShiftDone emit_row_copies(Emit *, const Window *, const Layout *, const char *ptr, const char *to, int apart);
Index *shift_run_at(Shift *, int first); /* register of run first + v */
/* the distance in bytes of p from the last vector before it that is aligned to the width of a run */
const char *shift_of(Shift *, const char *p);
/* Opens the branch for shifts of so many whole words. shift_in_word gives the remaining shift in it. */
void shift_begin_word(Shift *, const char *shift, int word);
const char *shift_in_word(Shift *, const char *shift, int word);
