/* runs.h: which elements of a gather, scatter or atomic operation one access can move (runs.c). */
#pragma once
#include "passes/kernel/kernel.h"

/* What the n elements of a run have in common, n a power of two: elements along one axis of a
 * tile, the first at a multiple of n. */
enum {
    RUN_EQUAL = 1,    /* they are equal */
    RUN_MULTIPLE = 2, /* and multiples of n */
    RUN_COUNTS = 4    /* element k is the first + k, and the first is a multiple of n */
};
unsigned kernel_run(const Func *, const Value *tile, int axis, int n);
/* Whether runs of n elements along the axis count by ones, wherever they begin. */
bool kernel_counts_along(const Func *, const Value *tile, int axis, int n);
/* Whether element k of such a run is the first + k also where the values are made 64 bits wide: nothing on
 * the way wraps to fewer bits within a run, wherever it begins. */
bool kernel_counts_on(const Func *, Ranges **, const Value *tile, int axis, int n);
/* The number of elements along *axis that one access of a lane can move of a gather, scatter or atomic
 * addition, wherever they begin at a multiple of it; 1: elements are accessed one by one. */
int kernel_indexed_run(const Func *, Ranges **, const Instr *, int *axis);
/* The number of elements along *axis for which a gather has the same indices, wherever they begin at a
 * multiple of it, so that one access reads them; 1: each may have its own. */
int kernel_alike_run(const Func *, Ranges **, const Instr *, int *axis);
/* A quotient by a constant of a number that counts along the last axis, without which a gather has the same
 * indices for n elements there, wherever they begin at a multiple of n. by is 0 where there is none. So a run
 * of at most `by` elements has two indices. */
typedef struct GatherStep {
    /* The number: never negative, computed from coordinates, and its tile is shaped as what is gathered. */
    const Value *counter;
    int64_t by;
} GatherStep;
enum { RUN_WHOLE = 1 << 30 }; /* as n: the whole axis */
GatherStep kernel_gather_step(const Func *, Ranges **, const Instr *, int n);
/* Whether the gather is one of three that follow each other (join-gathers) and read the three words of the
 * same records, wherever these begin. On CUDA two accesses read a record. */
enum { GATHERED_WORDS = 3 };
bool kernel_gathers_threes(const Func *, const Instr *, const Instr *of[GATHERED_WORDS]);
