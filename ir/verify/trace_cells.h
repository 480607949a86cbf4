/* trace_cells.h: what is known of a value while a role is run on a made-up launch (traces.c,
 * trace_scalars.c). */
#pragma once
#include "ir/verify/traces.h"

typedef enum CellKind { UNKNOWN, NUMBER, STAGE } CellKind;
typedef struct Cell {
    CellKind kind;
    int ring; /* of a stage */
    Scalar n; /* the number; which stage, -1: none */
} Cell;

static inline Cell cell_number(int64_t n) { return (Cell){ NUMBER, 0, scalar_int(n) }; }

uint64_t trace_mix(uint64_t);
/* The result of an operation that gives one scalar, from cells by value id. */
Cell trace_scalar(const TraceLaunch *, const Cell *cells, const Instr *);

bool trace_runs(Op); /* whether traces.c has a function for the operation */
