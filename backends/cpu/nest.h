/* nest.h: what nest.c, eval.c, reduce.c and count.c have in common. */
#pragma once
#include "backends/cpu/cpu.h"

enum { MAX_WIDTHS = 8 };

/* State of one reduction along the chunk's axis: an accumulator for every width of chunk. */
typedef struct Acc {
    int lanes[MAX_WIDTHS], n;
    LLVMValueRef value[MAX_WIDTHS], place[MAX_WIDTHS];
} Acc;

typedef struct Nest {
    Gen *g;
    Step *step;
    Acc *acc; /* one a sink */
    Window **windows;
    LLVMValueRef at[TILE_MAX_RANK];
    LLVMValueRef forward; /* in a row that is walked from its end: the chunk's place from there; else NULL */
    bool held; /* the reductions of the loop around the rows have an accumulator for each chunk of a row */
    bool line_ends; /* a row was emitted whose ends stay aside */
    int group;      /* rows that are packed together; their numbers: */
    LLVMValueRef rows[MAX_GROUP];
} Nest;

/* Evaluates the operation that makes `v`, even where v has a buffer (which this fills). */
LLVMValueRef eval_fresh(Eval *, Value *v, LLVMValueRef *coord, int va);

static inline bool is_arg(Op op) { return op == OP_ARGMAX || op == OP_ARGMIN; }
static inline int reduce_axis(const Sink *k) { return (int)ir_attr_int(k->instr, ATTR_AXIS, 0); }
/* The dtype sums and comparisons run in. */
DType reduce_dtype(const Sink *);
LLVMValueRef reduce_identity(Gen *, const Sink *, int lanes);
LLVMValueRef reduce_no_place(Gen *, int lanes);
bool reduce_along_chunks(const Step *, const Sink *);
/* A reduction along the axis of the loop around the rows, of elements that its results' buffer holds as they
 * are combined. */
bool reduce_can_be_held(const Step *, const Sink *);
/* Before the loop around the rows: takes the chunk of `lanes` results at `coord` from the buffer into an
 * accumulator, the next one of `a`. After it: puts the chunk of accumulator `w` back. */
void reduce_hold(Eval *, Sink *, Acc *a, LLVMValueRef *coord, int va);
void reduce_release(Eval *, Sink *, Acc *a, int w, LLVMValueRef *coord, int va);
/* Counts of keys (count.c): before the nest, of a chunk of keys, after the nest. */
void count_begin(Gen *, const Sink *);
void count_keys(Eval *, const Sink *, LLVMValueRef *coord, int va);
void count_end(Gen *, const Sink *);
/* line_ends.c: the row at n->at, or otherwise(n). */
void line_ends_row(Nest *n, void (*otherwise)(Nest *));
/* Before a nest that computes rows aside, and where a row has been computed. */
void line_ends_begin(Nest *n, Window *of_store);
void line_ends_put(Nest *n, const Eval *row);
/* One chunk of a reduction. */
void reduce_chunk(Eval *, Nest *, Sink *, Acc *, LLVMValueRef *coord, int va);
/* After the chunks of a row: the lanes of each accumulator, halves first, then the widths in turn. */
void reduce_finish(Eval *row, Nest *, Sink *, Acc *, LLVMValueRef *coord, int va);
