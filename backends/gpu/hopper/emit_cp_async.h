/* emit_cp_async.h: between the files of cp.async producers: what they have in common and where they run
 * (emit_cp_async.c), from memory to their staging area (emit_cp_async_copy.c), from there to a stage
 * (emit_cp_async_take.c). */
#pragma once
#include "backends/gpu/emit.h"

typedef struct CpAsync {
    Emit *e;
    const Fill *f;
    Window w;
    CpAsyncWay way;
    const LayoutShared *stage;
    int warps;
    bool aligned, heads; /* lines begin at multiples of 16 bytes; some may begin before their row */
} CpAsync;

/* The units that are unrolled together. If all were, the values that do not change from step to step would be
 * kept for each unit, which needs more registers than cp.async producers have. */
enum { CP_ASYNC_AT_ONCE = 4 };

const char *cp_async_scaled(Emit *e, const char *x, int64_t by);
void cp_async_line_coords(const CpAsync *x, const char *n, Index **c);
const char *cp_async_stage_place(const CpAsync *x, Index *const *c);
const char *cp_async_line_bytes(const CpAsync *x, Index *const *c);
void fill_begin_some(Emit *e, const char *v, int n);
const char *cp_async_straight_line(const CpAsync *x, const char *k, const char *j);
const char *cp_async_unit_line(const CpAsync *x, const char *at);
void cp_async_block_coords(const CpAsync *x, const char *r, Index *k, Index **c);
void cp_async_open_rows(const CpAsync *x);

/* The address behind the last element of the window's tensor. */
const char *cp_async_tensor_end(Emit *, const Window *);
/* Starts the copies of the lines of a window to the staging area. `low` is the variable that receives the
 * lowest address of the first line. */
void cp_async_start_lines(const CpAsync *, const char *staging, const char *low);
/* Writes the contents of the staging area to the stage of the ring at `to`: unchanged, with lines evenly
 * apart or not; transposed in blocks of 8 x 8; or transposed element by element. */
void cp_async_take_straight(const CpAsync *, const char *staging, const char *to);
void cp_async_take_runs(const CpAsync *, const char *staging, const char *to);
void cp_async_take_blocks(const CpAsync *, const char *staging, const char *to);
void cp_async_take_transposed(const CpAsync *, const char *staging, const char *to);
/* The run of a line that this lane takes, in part `part` of the line: an expression. */
const char *cp_async_piece(const CpAsync *, int part);
