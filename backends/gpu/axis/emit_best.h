/* emit_best.h: the best (value, position) pairs of rows (emit_rows.c), and topk (emit_topk.c). */
#pragma once
#include "backends/gpu/emit.h"

typedef struct Best {
    const Layout *l, *keep;
    LayoutReduce plan;
    int axis, n, m; /* the registers of the tile, and those of its rows */
    DType d;
    const char *before;     /* the function that tells whether the first pair comes before the second */
    const char *value, *at; /* arrays of m */
} Best;

void best_of(Emit *, const Instr *, int axis, const char *order, Best *);
/* last: the pair after which the best one is searched, or NULL. */
void best_in_thread(Emit *, const Best *, const Value *x, const char *last_value, const char *last_at);
bool best_across(Emit *, const Best *, int64_t scratch_from);
/* A pair of each warp and row in shared memory, where a row has several warps. */
typedef struct WarpPairs {
    int parts; /* warps of a row; 1: nothing is there */
    int64_t rows;
    const char *row, *values, *places; /* pair of warp w and register i: values[w * rows + row] */
} WarpPairs;
/* Writes the pair of each of the m rows, value[i] of the type and at[i], behind `scratch_from`, and waits for
 * those of the other warps. */
void pairs_of_warps(Emit *, const Best *, const char *value, DType, int64_t scratch_from, WarpPairs *);
/* What array `of` (values or places) has of warp w, in a loop over w. */
const char *pair_of_warp(Emit *, const WarpPairs *, const char *of);
/* Whether positions of a row rise with the registers of each thread. */
bool positions_rise(const Best *);
void begin_from_last(Emit *, int n);                         /* a loop over registers i, the last first */
const char *both_hold(Emit *, const char *a, const char *b); /* two conditions, "" always holds */
void emit_topk(Emit *, Instr *);
bool topk_has_candidates(Emit *, const Instr *); /* fewer elements than a network would sort */

/* The largest or smallest values of rows: what the thread alone has found of its one row, and the array of
 * all rows' values. */
typedef struct Extreme {
    const Instr *of;
    const char *own, *value;
} Extreme;

/* Finds the largest or smallest value of the one row that a thread's registers hold, two elements at a time
 * (emit_extreme.c). NULL: nothing is emitted. */
const char *extreme_by_words(Emit *, const Value *x, const Layout *, int axis, bool most);
/* The function that gives all lanes the largest or smallest value of those that differ in these bits; NULL:
 * there is none. Of floats, NaN must be the one that max gives. */
const char *extreme_of_warp(Emit *, uint32_t lanes, DType, bool most);
/* Whether an operation of the same block on the same tile wants what this one finds. */
bool extreme_wanted(const Instr *);
void extreme_keep(Emit *, const Instr *, const char *own, const char *value);
/* What an operation of the same block on the same tile has found; NULL: there is none. */
const Extreme *extreme_known(const Emit *, const Instr *);
