/* random_program.h: the parts of random_program (random_kernel.h): kernels that grow from a pool of values,
 * each of a type of its own and of zero to five axes, statement by statement, in functions, loops, branches.
 *
 * Values of floats are whole numbers that are clamped to 8 where they are made, or where they are read
 * (`wild`), so that all sums are exact. Whole numbers wrap. Every program writes a slice of its own, in which
 * windows lie in each other: what it reads there is what it wrote last. */
#pragma once
#include "random_head.h"

enum {
    PROGRAM_AXES = 5,
    MOST_VALUES = 60,
    MOST_SLICES = 13,
    MOST_INPUTS = 7,
    MOST_DEEP = 4,
    RARE_TENSORS = 5
};

typedef enum ValueType {
    T_BOOL,
    T_I8,
    T_I16,
    T_I32,
    T_I64,
    T_U8,
    T_U16,
    T_U32,
    T_U64,
    T_INDEX,
    T_F16,
    T_BF16,
    T_F32,
    T_F64,
    T_E4M3,
    T_E5M2,
    N_TYPES
} ValueType;

typedef struct Axes {
    int rank, at[PROGRAM_AXES];
} Axes;

/* A named value; rank 0: a scalar. kept: it may not be assigned. wild: of floats that may exceed 8.
 * hidden: the depth of a block that has given its name to another value. */
typedef struct Value {
    char name[16];
    ValueType type;
    Axes e;
    bool kept, wild;
    int hidden;
} Value;

/* A tensor; own: the kernel writes it. Its first axis is the program's then: one place, or a `strip` of so
 * many. `rank` counts the other axes. */
typedef struct Slice {
    char name[8], dims[48];
    ValueType type;
    int rank, strip;
    bool own;
} Slice;

typedef struct Program {
    Arranger *a;
    Value v[MOST_VALUES];
    Slice slices[MOST_SLICES];
    RandomTensor tensors[MOST_SLICES + 5 + RARE_TENSORS];
    char functions[4000];
    /* outer: of the values, those that the blocks around have; trips: of the loops around, multiplied */
    int n, n_slices, n_inputs, n_functions, depth, loops, budget, outer, trips;
    int extents[4], most, axes, grid[3], programs;
    ValueType favourite; /* of products of whole tiles, which `matrices` have */
    ValueType kind;      /* the constant KIND of a `rare` kernel */
    bool rare, in_function, extremes, returns, matrices, optional;
} Program;

/* --- random_program.c --- */

/* Names the value of an expression, or assigns it to a variable that is carried out of a block. */
void program_make(Program *, ValueType, const Axes *, const char *expression);
/* A scalar of index that lies anywhere near the extents, as text. */
const char *program_place(Program *);

/* Statements of a block, which runs so many times. */
void program_inside(Program *, int trips);

/* --- random_rare.c: what few kernels use --- */

extern const char *const rare_functions;
extern const RandomTensor rare_tensors[RARE_TENSORS];
void program_rare(Program *);

/* --- random_values.c: values --- */

const char *type_name(ValueType);
bool type_float(ValueType);
bool type_whole(ValueType);
bool type_signed(ValueType);
int type_bits(ValueType);
int axes_elements(const Axes *);
bool axes_same(const Axes *, const Axes *);
/* "4, 8", each behind `before` */
const char *axes_list(const Axes *, const char *before);
const Value *program_pick(Program *);
/* A value that `wanted` takes, rather a late one; NULL: none was met. */
const Value *program_find(Program *, bool (*wanted)(const Value *, const void *), const void *);
/* How a value is read: its name, clamped where it is wild; in another type. */
const char *value_read(Program *, const Value *);
const char *value_as(Program *, const Value *, ValueType);
/* A scalar bool, the same in all threads. */
const char *program_condition(Program *);
/* A new value of a random operation. */
void program_value(Program *);
/* Room for the text of an expression; a few dozen hold at a time. */
char *program_text(void);
Axes axes_with(const Axes *, int axis, int extent);
Axes axes_without(const Axes *, int axis);
/* Whether a value goes with these axes: element by element, or repeated. */
bool values_beside(const Value *, const void *axes);
bool value_is_tile(const Value *, const void *none);

/* --- random_tiles.c: operations --- */

void program_permute(Program *);
void program_reshape(Program *);
void program_widen(Program *);
void program_part(Program *);
void program_count(Program *);
void program_product(Program *);
void program_sum(Program *); /* a new one, of zeros, that is clamped only where it is read */
void program_accumulate(Program *);

/* --- random_memory.c: windows, gathers, atomics --- */

const Slice *program_slice(Program *, bool own, ValueType, int rank);
void program_load(Program *);
void program_turned(Program *); /* a load whose axes come in another order */
void program_gather(Program *);
void program_store(Program *);
/* The value to a window; false: there is no room for another tensor. */
bool program_put(Program *, const Value *);
void program_scatter(Program *);
void program_atomic(Program *);
