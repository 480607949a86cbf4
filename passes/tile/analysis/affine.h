/* affine.h: what is known of integers: linear forms over program values, with a small prover. Numeric ranges
 * are ir/analysis/range.h's.
 *
 * A form is an exact integer (nothing wrapped) as a sum of `coef * atom` over scalar values, `lane[a] * L_a`
 * over the coordinates of a tile (0 <= L_a < shape[a]), and a constant:
 *
 *     %row = broadcast(reshape(splat(i*128) + arange))  : index[128, 64]      form: 128*i + 1*L_0
 *
 * Everything here only reads the IR; facts are remembered by value, so drop a Facts when the IR changes. */
#pragma once
#include "ir/analysis/range.h"
#include "passes/pass.h"

enum { AFFINE_TERMS = 10 };
typedef struct Affine {
    int n;
    struct {
        Value *atom;
        int64_t coef;
    } terms[AFFINE_TERMS];
    int64_t lane[TILE_MAX_RANK];
    int64_t constant;
} Affine;

typedef struct Facts Facts;
Facts *facts_new(Arena *, const Func *);

RangeInfo value_range(Facts *, Value *); /* range_of of ir/analysis/range.h */

/* The value as a form; always succeeds (an opaque scalar is its own atom) except for tiles that are not
 * linear in their coordinates. */
bool affine_of(Facts *, Value *, Affine *);
/* A += b * times; false: the sum is too long, or it overflows. */
bool affine_add(Affine *, const Affine *, int64_t times);
/* Whether the forms differ by a constant, a - b. */
bool affine_apart(const Affine *a, const Affine *b, int64_t *difference);
int64_t affine_coef(Facts *, const Affine *, const Value *atom);
/* The product (or sum, ...) of integers stays in its dtype for all operands their ranges allow: nothing
 * wraps. */
bool multiplies_exactly(Facts *, const Instr *);
/* v >= 1 wherever a program runs: by its range, or because it is an extent of the grid. */
bool at_least_one(Facts *, Value *);
/* Replaces lanes by the coordinate that makes the form least; the tile has `shape`. */
bool affine_least(Affine *, const Type *shape);
/* form >= 0 in every program, at every place where its atoms are defined. */
bool prove_nonneg(Facts *, const Affine *);

/* `cmp` (lt, le, gt, ge on integers) holds for all elements exactly when the form (least over the lanes) is
 * >= 0. */
bool compare_form(Facts *, const Instr *cmp, Affine *);
/* The window of a load or store lies in the tensor along `axis` exactly when both forms are >= 0. */
bool window_forms(Facts *, const Instr *mem, int axis, Affine *low, Affine *high);
/* affine_emit.c. Emits the form (without lanes) at the builder's place. */
Value *affine_emit(Builder *, const Affine *);

/* extents.c. The grid's extent on an axis; NULL: there is none. */
Value *grid_extent(const Func *, int64_t axis);
/* The expression of a derived dimension's extent (of OP_DIM), or of the number of programs on an
 * axis (of OP_PROGRAM_ID and OP_NUM_PROGRAMS); NULL: there is none. */
Value *extent_expression(const Func *, const Instr *);
/* The value among the derived extents that is computed as `v` is, from the same dimensions,
 * scalars and constants; v itself if there is none. */
Value *extent_like(const Func *, Value *v);
/* A value of the block of extents, computed again at the builder's position. */
Value *extent_emit(Builder *, Value *v);
