/* computed.h: what computed_inputs.c and computed_windows.c share: an operand and what it is computed of. */
#pragma once
#include "ir/interp/scalar.h"
#include "passes/tile/analysis/affine.h"
#include "passes/tile/launch/computed_inputs.h"

enum { MAX_VALUES = 64, MAX_DEPTH = 16, MAX_OPERANDS = 4 };

/* What is known of a value of an expression. */
typedef struct Entry {
    char *name;      /* in the text */
    Scalar of_zeros; /* the value where all windows give zero */
    bool unknown;    /* .. which depends on a vector */
    bool of_host;    /* whether it is computed of the host */
    int axis;        /* of the result, along which a vector lies; -1: it is a tile or a scalar */
} Entry;

/* An operand, and what it is computed of. */
typedef struct Computing {
    Session *s;
    const Func *f;
    int host;    /* the parameter in whose place the result is read */
    Instr *load; /* its load whose window is that of the result */
    Facts *facts;
    ComputedInput *made;
    Text text;
    int n, loads; /* values; loads of the host */
    bool rows;    /* whether whole rows are computed together */
    Value *value[MAX_VALUES];
    Entry entry[MAX_VALUES];
    bool fails;
} Computing;

/* A load of an input that nobody writes, padded with zeros. */
bool computed_is_read(const Computing *, const Instr *, MemParts *);
/* The same of one or two axes, all of which are the tile's. */
bool computed_is_window(const Computing *, const Instr *, MemParts *);
/* Whether the load's window is that of the result, or lies some columns behind it. */
bool computed_same_window(Computing *, const Instr *, const MemParts *, ComputedFrom *);
/* Whether the load takes an element for each row or each column of the result. */
bool computed_is_vector(Computing *, const MemParts *, ComputedFrom *);
/* Where whole rows are computed: columns that are known, from a constant on, within an extent that is one;
 * whether the load takes such columns of the rows of the host's window, of a tensor with its axes, of a table
 * with a row for each of them, or a vector with an element for each row, or for each column; and whether the
 * load may be the host's window, as wide as the operand. */
bool computed_known_columns(const Computing *, const Instr *, const MemParts *, ComputedFrom *);
bool computed_is_of_rows(const Computing *, const Instr *, const MemParts *, ComputedFrom *);
bool computed_is_host_of_rows(const Computing *, const Value *operand, const Instr *load);
