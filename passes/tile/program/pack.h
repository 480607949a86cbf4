/* pack.h: between the files of pack: what differs between the programs of one pack (pack_varies.c), the
 * rewriting of operations (pack_rewrite.c) and of memory accesses (pack_access.c), the programs behind the
 * last whole pack (pack_tail.c), and how many programs become one (pack.c). */
#pragma once
#include "passes/tile/analysis/affine.h"

/* An integer scalar that is base + l * step in the l-th program of the pack. */
typedef struct PackForm {
    Value *base; /* NULL: the scalar has no such form */
    int64_t step;
} PackForm;

typedef struct Pack {
    PassContext *c;
    Func *f;
    int axis;        /* of the grid, along which programs are packed */
    int64_t n;       /* programs of a pack */
    Value *base;     /* the coordinate of the first program of the pack */
    Value *programs; /* the number of programs along the axis; NULL: not computed in the body */
    Instr *guard;    /* holds the programs behind the last whole pack, which stay as they are; NULL: none */
    uint32_t values; /* the ids below were there before the rewriting; the arrays are indexed by them */
    bool *varies;    /* whether a value differs between programs */
    PackForm *forms;
    Value *runs;  /* in a loop whose end varies: which programs still run; NULL: all do */
    bool beyond;  /* programs behind the last one run too, and what they store is dropped */
    ValueMap map; /* from a value that varies to the tile that holds it for all programs */
    Ranges *ranges;
    InstrList dead;
    int indexed;   /* windows that became gathers, scatters or atomics */
    int chosen;    /* besides: loads of one element, of which each program has another place */
    int64_t along; /* bytes of windows that lie side by side along the last axis of their tensor */
} Pack;

/* pack_varies.c */
/* Finds what varies. False: some operation means something else when programs run in step. */
bool pack_varies(Pack *);
void pack_find_varying(Pack *); /* finds what varies, of any operations */
static inline bool pack_is_varying(const Pack *p, const Value *v)
{ return v->id < p->values && p->varies[v->id]; }

/* Whether the programs run different numbers of steps of a `for`, of which only the end differs. */
static inline bool pack_loop_differs(const Pack *p, const Instr *i)
{ return i->op == OP_FOR && pack_is_varying(p, ir_operand(i, 1)); }

/* Whether the program has loops, of each of which neighbours run different numbers of steps, as over rows of
 * a sparse matrix. */
bool pack_has_unlike_loops(const Pack *);

/* pack_records.c */
/* The fewest records that a program loads for one tile; 0: it loads none. */
int64_t pack_fewest_records(const Func *);
/* The components of the records of which the load takes one, narrow elements such as the channels of pixels,
 * which will be joined (kernel/layout/join_loads.c), as far as its own position shows: of the third or a
 * later one. 1: it takes all, or one of wider or fewer components. */
int64_t pack_components(const Instr *);

/* pack_access.c: whether the pack accesses windows, and beside them at most a few single elements whose
 * places programs choose, such as the logit of a label beside all logits: lanes read them together. `bytes`:
 * of the widest tile of a program. */
bool pack_of_windows(const Pack *, int64_t bytes);

/* pack_rewrite.c */
void pack_rewrite(Pack *);
/* The type of a value for all programs: a tile with one more axis in front. */
const Type *pack_type(const Pack *, const Type *);
/* The value for all programs, computed at the builder's position. */
Value *pack_value(Pack *, Builder *, Value *);
/* The form of a scalar: of one that does not vary, itself with step 0. */
PackForm pack_form(const Pack *, Value *);
/* A tile with the axes in another order, or the tile itself if the order is that which it has. */
Value *pack_permuted(Builder *, Value *, const int64_t *order);
void pack_set(Pack *, Value *old, Value *tile); /* gives the new value the name of the old one */

/* A condition of each program in the shape of tiles of all programs. */
Value *pack_condition(const Pack *, Builder *, Value *cond, const Type *);

/* pack_access.c */
void pack_access(Pack *, Builder *, Instr *);

/* pack.c: n times fewer programs along the axis of the grid. */
void pack_shrink_grid(Func *, int axis, int64_t n);

/* pack_counts.c */
bool pack_counts_programs(const Pack *); /* whether the body asks for num_programs */
void pack_keep_counts(Pack *);           /* num_programs goes on saying how many programs there are */
/* `id` takes the place of other instructions that give its coordinate, in blocks in front of it or under it.
 * True: there are some. */
bool pack_one_coordinate(const Pack *, Instr *id);

/* pack_overlap.c: whether most of what a program loads are windows of which a pack of so many programs would
 * have two at each position or more, as programs of a stencil do. */
bool pack_overlaps(const Pack *, int programs);

/* pack_tail.c */
/* Whether programs behind the last one have no effect: each store moves along an axis that ends there. */
bool pack_drops_tail(const Pack *);
/* Makes the body an `if` for whole packs, and a loop over single programs for the others. Called before
 * pack_rewrite with the first instruction of the programs; pack_tail_end is called after it. False: the chain
 * of a token is not found, and nothing has changed. */
bool pack_tail_begin(Pack *, Value *whole);
void pack_tail_end(Pack *, Value *whole);
