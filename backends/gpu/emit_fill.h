/* emit_fill.h: between the files of filler warps: what they have in common and where they run (emit_fill.c),
 * from memory to their stage (emit_fill_copy.c), from there to a slot (emit_fill_take.c). */
#pragma once
#include "backends/gpu/emit.h"

typedef struct Filler {
    Emit *e;
    const Fill *f;
    Window w;
    FillWay way;
    const LayoutShared *slot;
    int warps;
    bool aligned, heads; /* lines begin at multiples of 16 bytes; some may begin before their row */
} Filler;

/* The units that are unrolled together. If all were, the values that do not change from step to step would be
 * kept for each unit, which needs more registers than cp.async producers have. */
enum { FILL_AT_ONCE = 4 };

const char *fill_scaled(Emit *e, const char *x, int64_t by);
void fill_line_coords(const Filler *x, const char *n, Index **c);
const char *fill_slot_place(const Filler *x, Index *const *c);
const char *fill_line_bytes(const Filler *x, Index *const *c);
void fill_begin_some(Emit *e, const char *v, int n);
const char *fill_straight_line(const Filler *x, const char *k, const char *j);
const char *fill_unit_line(const Filler *x, const char *at);
void fill_block_coords(const Filler *x, const char *r, Index *k, Index **c);
void fill_open_rows(const Filler *x);

/* Starts the copies of the lines of a window to the staging area. `low` is the variable that receives the
 * lowest address of the first line. */
void fill_start_lines(const Filler *, const char *stage, const char *low);
/* Writes the contents of the staging area to the stage of the ring at `to`: unchanged, with lines evenly
 * apart or not; transposed in blocks of 8 x 8; or transposed element by element. */
void fill_take_straight(const Filler *, const char *stage, const char *to);
void fill_take_runs(const Filler *, const char *stage, const char *to);
void fill_take_blocks(const Filler *, const char *stage, const char *to);
void fill_take_across(const Filler *, const char *stage, const char *to);
/* The run of a line that this lane takes, in part `part` of the line: an expression. */
const char *fill_piece(const Filler *, int part);
